package inbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/client"
	"countersign/internal/terminal/inbox"
	"countersign/internal/terminal/inbox/inboxtest"
	"countersign/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run starts an inbox that polls once in a while, and waits until it has read what there is.
func run(t *testing.T, w *inboxtest.World, poll time.Duration) *inbox.Inbox {
	t.Helper()
	b := inbox.New(inbox.Options{Gate: w.Hana, Now: w.Clock.Now, Poll: poll})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		testkit.Receive(t, "the end of Run", ended)
	})
	waits(t, b, "the first list", func(s inbox.Snapshot) bool { return s.Read })
	return b
}

// waits waits until the inbox tells of a change after which ok holds.
func waits(t *testing.T, b *inbox.Inbox, what string, ok func(inbox.Snapshot) bool) inbox.Snapshot {
	t.Helper()
	for {
		if s := b.Snapshot(); ok(s) {
			return s
		}
		testkit.Receive(t, what, b.Notify())
	}
}

func has(id string) func(inbox.Snapshot) bool {
	return func(s inbox.Snapshot) bool {
		return slices.ContainsFunc(s.Waiting, func(a client.Approval) bool { return a.ID == id })
	}
}

// A poll an hour away could not show it: what comes, comes with its event.
func TestANewRequestComesWithItsEvent(t *testing.T) {
	w := inboxtest.New(t)
	first := w.Ask("transfer", `{"to":"acme"}`)
	b := run(t, w, time.Hour)
	if !has(first)(b.Snapshot()) {
		t.Errorf("what waited before is not there: %+v", b.Snapshot())
	}
	second := w.Ask("drop_database", `{}`)
	s := waits(t, b, "the event of a request", has(second))
	if len(s.Waiting) != 2 || s.Waiting[0].ID != second {
		t.Errorf("the nearest deadline does not come first: %+v", s.Waiting)
	}
	if _, err := w.Ken.Decide(t.Context(), first, client.Deny, "no"); err != nil {
		t.Fatal(err)
	}
	waits(t, b, "the event of a decision", func(s inbox.Snapshot) bool { return !has(first)(s) })
	if a, ok := b.Ending(first); !ok || a.ResolvedBy != "ken" {
		t.Errorf("how it ended is not known: %+v", a)
	}
}

func TestWhatIsPastItsDeadlineDoesNotWait(t *testing.T) {
	w := inboxtest.New(t)
	w.Ask("transfer", `{}`)
	b := run(t, w, time.Hour)
	w.Clock.Advance(time.Hour)
	if s := b.Snapshot(); len(s.Waiting) != 0 {
		t.Errorf("%+v", s.Waiting)
	}
}

// A decision is about what was shown; of what changed it decides nothing and says what.
func TestADecisionIsAboutWhatWasShown(t *testing.T) {
	w := inboxtest.New(t)
	b := run(t, w, time.Hour)
	id := w.Ask("wire", `{"cents":5}`)
	s := waits(t, b, "the request", has(id))
	shown := s.Waiting[0]
	if _, err := w.Ken.Decide(t.Context(), id, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	out := b.Decide(t.Context(), shown, client.Approve, "")
	if out.Result != inbox.Changed || !slices.Equal(out.Changes, []string{"ken approved"}) {
		t.Errorf("after another's vote: %+v", out)
	}
	if a := w.Request(id); a.Status != "pending" || len(a.Votes) != 1 {
		t.Errorf("something was decided: %+v", a)
	}
	out = b.Decide(t.Context(), out.Now, client.Approve, "")
	if out.Result != inbox.Done || out.Decided.Status != "approved" {
		t.Errorf("shown as it stands: %+v", out)
	}
	if out = b.Decide(t.Context(), shown, client.Deny, "late"); out.Result != inbox.Changed ||
		!strings.HasPrefix(strings.Join(out.Changes, "; "), "it was approved by ") {
		t.Errorf("a late one: %+v", out)
	}
	if a := w.Request(id); a.Status != "approved" {
		t.Errorf("the late one decided: %+v", a)
	}
}

func TestWhatARuleWantsBesides(t *testing.T) {
	w := inboxtest.New(t)
	b := run(t, w, time.Hour)
	confirm, reason := w.Request(w.Ask("close_books", `{}`)), w.Request(w.Ask("deploy", `{}`))
	if out := b.Decide(t.Context(), confirm, client.Approve, ""); out.Result != inbox.NeedsConfirm || out.Text == "" {
		t.Errorf("%+v", out)
	}
	if out := b.Decide(t.Context(), confirm, client.Approve, "", client.Confirmed()); out.Result != inbox.Done {
		t.Errorf("%+v", out)
	}
	if out := b.Decide(t.Context(), reason, client.Approve, ""); out.Result != inbox.NeedsReason {
		t.Errorf("%+v", out)
	}
	if out := b.Decide(t.Context(), reason, client.Approve, "agreed"); out.Result != inbox.Done {
		t.Errorf("%+v", out)
	}
}

func TestEditGrantExtendCancel(t *testing.T) {
	w := inboxtest.New(t)
	b := run(t, w, time.Hour)
	edited := w.Request(w.Ask("transfer", `{"cents":500}`))
	if out := b.Decide(t.Context(), edited, client.Approve, "half",
		client.WithArgs([]byte(`{"cents":250}`))); out.Result != inbox.Done ||
		string(w.Request(out.Decided.ID).Args) != `{"cents":250}` {
		t.Errorf("%+v", out)
	}
	given := w.Request(w.Ask("pay", `{}`))
	if out := b.Decide(t.Context(), given, client.Approve, "",
		client.GrantFor(client.GrantTerms{For: time.Hour})); out.Decided.Grant == nil {
		t.Errorf("%+v", out)
	}
	refused := w.Request(w.Ask("transfer", `{"cents":1}`))
	if out := b.Decide(t.Context(), refused, client.Approve, "",
		client.GrantFor(client.GrantTerms{For: time.Hour})); out.Result != inbox.Refused ||
		w.Request(refused.ID).Status != "pending" {
		t.Errorf("%+v", out)
	}
	out := b.Extend(t.Context(), refused)
	if out.Result != inbox.Done || !out.Now.ExpiresAt.After(refused.ExpiresAt.Time) {
		t.Errorf("%+v", out)
	}
	if out = b.Cancel(t.Context(), out.Now, "no need"); out.Result != inbox.Done ||
		w.Request(refused.ID).Status != "cancelled" {
		t.Errorf("%+v", out)
	}
}

// While the gate is away the list stays, and it is said from when on; once it is back the list is read again.
func TestAGateThatGoesAndComesBack(t *testing.T) {
	w := inboxtest.New(t)
	id := w.Ask("transfer", `{}`)
	gone := &away{Gate: w.Hana, lost: make(chan struct{})}
	b := inbox.New(inbox.Options{Gate: gone, Now: w.Clock.Now, Poll: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	waits(t, b, "the list", has(id))
	w.Clock.Advance(time.Minute)
	close(gone.lost)
	s := waits(t, b, "that it is away", func(s inbox.Snapshot) bool { return !s.Since.IsZero() })
	if len(s.Waiting) != 1 || !s.Since.Equal(w.Clock.Now()) || s.Problem == nil {
		t.Errorf("%+v", s)
	}
	second := w.Ask("transfer", `{"n":2}`)
	s = waits(t, b, "that it is back", has(second))
	waits(t, b, "that it is connected", func(s inbox.Snapshot) bool { return s.Since.IsZero() })
	cancel()
	if err := testkit.Receive(t, "the end", ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The net below the events: a stream that tells nothing is made up for by reading the list.
func TestTheListIsReadBesideTheEvents(t *testing.T) {
	w := inboxtest.New(t)
	b := inbox.New(inbox.Options{Gate: mute{w.Hana}, Now: w.Clock.Now, Poll: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	id := w.Ask("transfer", `{}`)
	waits(t, b, "the list", has(id))
	cancel()
	testkit.Receive(t, "the end", ended)
}

// What came, or ended, while the list was being read is not undone by what had been read before.
func TestWhatHappensWhileTheListIsRead(t *testing.T) {
	w := inboxtest.New(t)
	denied := w.Ask("transfer", `{"n":1}`)
	gate := &meanwhile{Gate: w.Hana}
	b := inbox.New(inbox.Options{Gate: gate, Now: w.Clock.Now, Poll: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	waits(t, b, "the list", has(denied))
	came := ""
	gate.happens = func() {
		came = w.Ask("transfer", `{"n":2}`)
		waits(t, b, "the event of a request", has(came))
		if _, err := w.Ken.Decide(t.Context(), denied, client.Deny, "no"); err != nil {
			t.Error(err)
		}
		waits(t, b, "the event of a decision", func(s inbox.Snapshot) bool { return !has(denied)(s) })
	}
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := b.Snapshot(); len(s.Waiting) != 1 || s.Waiting[0].ID != came {
		t.Errorf("%+v", s.Waiting)
	}
	if a, ok := b.Ending(denied); !ok || a.ResolvedBy != "ken" {
		t.Errorf("how it ended is not known: %+v", a)
	}
	cancel()
	testkit.Receive(t, "the end", ended)
}

// What ended while the gate could not be heard is not simply gone.
func TestHowItEndedIsAskedWhereNoEventTold(t *testing.T) {
	w := inboxtest.New(t)
	id, left := w.Ask("transfer", `{"n":1}`), w.Ask("transfer", `{"n":2}`)
	b := inbox.New(inbox.Options{Gate: mute{w.Hana}, Now: w.Clock.Now})
	for range 2 {
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Ken.Decide(t.Context(), id, client.Deny, "no"); err != nil &&
			client.CodeOf(err) != "already_resolved" {
			t.Fatal(err)
		}
	}
	if s := b.Snapshot(); len(s.Waiting) != 1 || s.Waiting[0].ID != left {
		t.Errorf("%+v", s.Waiting)
	}
	if a, ok := b.Ending(id); !ok || a.ResolvedBy != "ken" || a.ResolveReason != "no" {
		t.Errorf("how it ended is not known: %+v", a)
	}
}

// Deadlines are by the gate's clock, whatever ours shows.
func TestOurClockEndsNothing(t *testing.T) {
	w := inboxtest.New(t)
	for _, wrong := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		id := w.Ask("transfer", `{}`)
		b := inbox.New(inbox.Options{Gate: elsewhere{w.Hana, -wrong}, Now: func() time.Time {
			return w.Clock.Now().Add(wrong)
		}})
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !has(id)(b.Snapshot()) || !b.GateNow().Equal(w.Clock.Now()) {
			t.Errorf("ours wrong by %v: %+v", wrong, b.Snapshot())
		}
		w.Clock.Advance(time.Hour)
		if has(id)(b.Snapshot()) {
			t.Errorf("ours wrong by %v: it waits past its deadline", wrong)
		}
	}
}

func TestARefusalEndsRun(t *testing.T) {
	w := inboxtest.New(t)
	for name, c := range map[string]*client.Client{"an agent": w.Bot, "nobody": w.Client("token-of-nobody-0123456789")} {
		err := inbox.New(inbox.Options{Gate: c, Now: w.Clock.Now}).Run(t.Context())
		if _, refused := errors.AsType[*client.Error](err); !refused {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}
