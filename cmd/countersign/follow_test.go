package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/terminal/inbox/inboxtest"
	"countersign/internal/testkit"
)

// following runs pending --follow at a gate, and returns what it prints and how to end it.
func following(t *testing.T, w *inboxtest.World, args ...string) (out *testkit.Buffer, end func()) {
	t.Helper()
	out = new(testkit.Buffer)
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	env := map[string]string{"COUNTERSIGN_SERVER": w.Server.URL, "COUNTERSIGN_TOKEN": inboxtest.HanaToken}
	go func() {
		code <- run(ctx, append([]string{"pending", "--follow"}, args...), strings.NewReader(""), out, out,
			func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	}()
	return out, func() {
		t.Helper()
		cancel()
		if got := testkit.Receive(t, "the end", code); got != exitDone {
			t.Errorf("exit code %d: %s", got, out.String())
		}
	}
}

func lines(t *testing.T, out *testkit.Buffer, n int) []string {
	t.Helper()
	testkit.Eventually(t, "lines of output", func() bool { return strings.Count(out.String(), "\n") >= n })
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestPendingFollowsWhatComesAndEnds(t *testing.T) {
	w := inboxtest.New(t)
	first := w.Ask("wire", `{"note":"\u001b[2J"}`)
	out, end := following(t, w)
	lines(t, out, 1)
	w.Ask("transfer", `{"cents":5}`)
	lines(t, out, 2)
	if _, err := w.Ken.Decide(t.Context(), first, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	lines(t, out, 3)
	if _, err := w.Hana.Decide(t.Context(), first, client.Deny, "no"); err != nil {
		t.Fatal(err)
	}
	got := lines(t, out, 4)
	end()
	short := client.ShortID(first)
	for i, want := range []string{
		`^\d\d:\d\d:\d\d  waits      high  bank/wire \{"note":"\\u001b\[2J"\}  treasury-bot  ` + short + `  .* ago$`,
		`  waits      high  bank/transfer \{"cents":5\}  treasury-bot  `,
		`  voted      high  bank/wire .*  treasury-bot  ` + short + `  1 of 2$`,
		`  denied     high  bank/wire .*  treasury-bot  ` + short + `  by hana$`,
	} {
		if len(got) != 4 || !regexp.MustCompile(want).MatchString(got[i]) {
			t.Errorf("line %d does not match %s:\n%s", i+1, want, strings.Join(got, "\n"))
		}
	}
}

func TestPendingFollowsOnlyWhatIsAskedFor(t *testing.T) {
	w := inboxtest.New(t)
	out, end := following(t, w, "--tool", "bank/deploy", "--json")
	w.Ask("transfer", `{}`)
	id := w.Ask("deploy", `{}`)
	got := lines(t, out, 1)
	end()
	if len(got) != 1 || !strings.Contains(got[0], `"id":"`+id+`"`) {
		t.Errorf("%q", got)
	}
}

// Without a terminal the inbox is lines of text; empty lines and the end of input decide nothing.
func TestInboxOnAPipe(t *testing.T) {
	w := inboxtest.New(t)
	env := map[string]string{"COUNTERSIGN_SERVER": w.Server.URL, "COUNTERSIGN_TOKEN": inboxtest.HanaToken}
	say := func(lines string) string {
		t.Helper()
		out := new(testkit.Buffer)
		code := run(t.Context(), []string{"inbox"}, strings.NewReader(lines), out, out, func(name string) (string, bool) {
			v, ok := env[name]
			return v, ok
		})
		if code != exitDone {
			t.Errorf("exit code %d: %s", code, out.String())
		}
		return out.String()
	}
	w.Clock.Adjust(time.Since(w.Clock.Now())) // the command reads the machine's clock
	id := w.Ask("transfer", `{"cents":6}`)
	if out := say("\n\n"); !strings.Contains(out, "[a] Approve  [d] Deny  [v] View full details") ||
		w.Request(id).Status != "pending" {
		t.Errorf("%s", out)
	}
	if out := say("a\n"); !strings.Contains(out, "Approved. The agent may run it once.") ||
		w.Request(id).ResolvedVia != "cli" {
		t.Errorf("%s", out)
	}
}
