//go:build unix

package app_test

import (
	"strings"
	"testing"
)

// A server that is slow to start, as one that is installed first, says what it last wrote where whoever runs the gate
// looks, secrets masked, and which key gives it more time.
func TestReadinessSaysWhatASlowServerDoes(t *testing.T) {
	t.Parallel()
	const secret, own = "ghp_0123456789abcdefghijklmnopqrstuvwxyz", "plain words of a vendor"
	w := newWorld(t, func(text string) string {
		return text + "\nmcp:\n  servers:\n    - {name: slow, start_timeout: 1s, env: {KEY: " + own +
			"}, command: [sh, -c, 'echo \"fetching with " + secret + " for $KEY\" >&2; cat >/dev/null']}\n"
	})
	for _, want := range []string{"the server did not say in time what it is; if it needs more than 1s to start, raise start_timeout",
		"; it last wrote: fetching with ••••"} {
		w.eventually(want, func() bool { return strings.Contains(w.get("/readyz"), want) })
	}
	if got := w.get("/readyz"); strings.Contains(got, secret) || strings.Contains(got, own) {
		t.Errorf("a secret is told: %s", got)
	}
}
