package redact

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestRule3_LogsHoldNoSecrets: a secret that reaches a log, in whatever kind of attribute, is masked there.
func TestRule3_LogsHoldNoSecrets(t *testing.T) {
	const hidden = "hunter2hunter2"
	url := "https://u:" + hidden + "@h/\u202e"
	for _, encode := range []func(*bytes.Buffer) slog.Handler{
		func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		log := slog.New(LogHandler(encode(&out), func() *Masker { return New("iban") }))
		log = log.With("from", url).WithGroup("g").With(slog.Group("h", "x", url))
		log.Info("to "+url, //nolint:sloglint // each message is one of the table's
			"error", errors.New("cannot reach "+url), "iban", hidden,
			"inner", slog.GroupValue(slog.String("token", hidden)),
			"any", struct{ URL string }{url}, "list", []string{url}, "none", nil, "took", time.Second, "n", 1)
		if got := out.String(); strings.Contains(got, hidden) || strings.Contains(got, "\u202e") ||
			strings.Count(got, marks) != 8 || !strings.Contains(got, "1s") && !strings.Contains(got, "1000000000") {
			t.Errorf("%s", got)
		}
		out.Reset()
		log.Debug("x")
		if out.Len() > 0 || log.Enabled(context.Background(), slog.LevelDebug) {
			t.Error("a level that is off is written")
		}
	}
}
