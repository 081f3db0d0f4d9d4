package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/channels/outbox"
	"countersign/channels/outbox/outboxtest"
	"countersign/client"
	"countersign/internal/testkit"
)

var transfer = client.Call{Tool: "transfer", Args: json.RawMessage(`{"cents":2000,"html":"<&>"}`), SessionID: "s1",
	Rationale: "rent"}

func call(n int) client.Call {
	return client.Call{Tool: "transfer", Args: fmt.Appendf(nil, `{"n":%d}`, n)}
}

func TestACallRunsOnlyWhenTheAnswerSaysSo(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, err := w.bot.Call(ctx, client.Call{Tool: "read_file"})
	w.must(err)
	if !a.MayRun() || a.Kind != client.AnswerAllow {
		t.Errorf("%+v", a)
	}
	a, err = w.bot.Call(ctx, transfer)
	w.must(err)
	if a.MayRun() || a.Kind != client.AnswerPending || time.Until(a.ExpiresAt.Time) < 59*time.Minute ||
		a.RiskLevel != "high" {
		t.Errorf("%+v", a)
	}
	d, err := w.hana.Decide(ctx, a.ApprovalID, client.Approve, "fine")
	w.must(err)
	if d.Status != "approved" || d.ApprovedBy != "hana" || d.ApprovedAt.IsZero() || d.Reason != "fine" {
		t.Errorf("%+v", d)
	}
	a, err = w.bot.Call(ctx, transfer)
	w.must(err)
	if !a.MayRun() || a.Kind != client.AnswerApproved || a.ResolvedBy != "hana" || a.ResolveReason != "fine" {
		t.Errorf("%+v", a)
	}
	r, err := w.bot.Approval(ctx, a.ApprovalID)
	w.must(err)
	if r.ConsumedAt.IsZero() || r.ResolvedVia != "cli" || string(r.Args) != `{"cents":2000,"html":"<&>"}` ||
		r.Target() != "transfer" || r.SessionID != "s1" {
		t.Errorf("%+v", r)
	}
}

func TestAWaitingCallHearsOfTheDecision(t *testing.T) {
	w := newWorld(t)
	done := make(chan client.Answer)
	go func() {
		a, err := w.bot.CallWait(t.Context(), transfer, time.Hour) // more than the server grants
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	var id string
	testkit.Eventually(t, "the request", func() bool {
		p, err := w.hana.Approvals(t.Context(), client.ApprovalQuery{Status: "pending"})
		w.must(err)
		if len(p.Items) > 0 {
			id = p.Items[0].ID
		}
		return id != ""
	})
	_, err := w.hana.Decide(t.Context(), id, client.Deny, "no")
	w.must(err)
	if a := testkit.Receive(t, "the answer", done); a.Kind != client.AnswerDenied || a.ResolvedBy != "hana" {
		t.Errorf("%+v", a)
	}
}

// between runs once before the first call that waits leaves.
type between struct{ once func() }

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	if f := b.once; f != nil && r.Method == http.MethodPost && r.URL.Query().Has("wait") {
		b.once = nil
		f()
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestWhoWaitsForAnApprovalThatWasJustUsedAsksForNoOther(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	late := w.client(botToken, client.WithTransport(&between{func() {
		p, err := w.hana.Approvals(ctx, client.ApprovalQuery{Status: "pending"})
		w.must(err)
		_, err = w.hana.Decide(ctx, p.Items[0].ID, client.Approve, "")
		w.must(err)
		if a, err := w.bot.Call(ctx, transfer); err != nil || a.Kind != client.AnswerApproved {
			t.Errorf("the other: %+v, %v", a, err)
		}
	}}))
	a, err := late.Ask(ctx, transfer, 2*time.Second)
	w.must(err)
	if a.Kind != client.AnswerDenied || a.ReasonCode != "already_used" {
		t.Errorf("%+v", a)
	}
	p, err := w.hana.Approvals(ctx, client.ApprovalQuery{Status: "pending"})
	w.must(err)
	if len(p.Items) != 0 {
		t.Errorf("people are asked again: %+v", p.Items)
	}
}

func TestTheTimeoutAllowsForTheWait(t *testing.T) {
	t.Parallel()
	waits := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		waits <- r.URL.Query().Get("wait")
		time.Sleep(200 * time.Millisecond) // real: longer than the timeout alone, far shorter than the wait
		io.WriteString(w, `{"decision":"pending"}`)
	}))
	defer srv.Close()
	c, err := client.New(srv.URL, botToken, client.WithTimeout(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.CallWait(t.Context(), transfer, 29500*time.Millisecond)
	if err != nil || a.Kind != client.AnswerPending {
		t.Errorf("%+v, %v", a, err)
	}
	if got := testkit.Receive(t, "the call", waits); got != "30s" {
		t.Errorf("asked to wait for %s", got)
	}
}

func TestABatchIsAnsweredInOrder(t *testing.T) {
	w := newWorld(t)
	as, err := w.bot.CallBatch(t.Context(), []client.Call{{Tool: "read_file"}, transfer, {Tool: "read_file"}})
	w.must(err)
	if len(as) != 3 || as[0].Kind != client.AnswerAllow || as[1].Kind != client.AnswerPending ||
		as[2].Kind != client.AnswerAllow {
		t.Errorf("%+v", as)
	}
}

func TestTheFeedBringsEachEndingAndAcknowledgesIt(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ids := []string{w.ask(call(1)), w.ask(call(2))}
	for _, id := range ids {
		_, err := w.hana.Decide(ctx, id, client.Deny, "")
		w.must(err)
	}
	var got []string
	for a, err := range w.bot.Feed(ctx, "") {
		w.must(err)
		got = append(got, a.ID)
		if len(got) == 2 {
			break // the second is not acknowledged: it was not done with
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("got %v, want %v", got, ids)
	}
	left, err := w.bot.Resolved(ctx, "", 0)
	w.must(err)
	if len(left) != 1 || left[0].ID != ids[1] || !strings.HasPrefix(left[0].Message, "[APPROVAL DENIED]") {
		t.Errorf("left: %+v", left)
	}
	acked, err := w.bot.Ack(ctx, ids[1], "junk")
	w.must(err)
	if !slices.Equal(acked.Acked, ids[1:]) || !slices.Equal(acked.NotFound, []string{"junk"}) ||
		len(acked.NotResolved) != 0 {
		t.Errorf("%+v", acked)
	}
	if _, err := w.bot.Ack(ctx); err != nil {
		t.Errorf("no ids: %v", err)
	}
}

func TestTheFeedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	n := 0
	for _, err := range w.bot.Feed(ctx, "s1") {
		if n++; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d rounds", n)
	}
}

func TestCancellingAndListing(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ids := []string{w.ask(call(1)), w.ask(call(2)), w.ask(call(3))}
	r, err := w.bot.Cancel(ctx, ids[0], "not needed")
	w.must(err)
	if r.Status != "cancelled" || r.ResolveReason != "not needed" {
		t.Errorf("%+v", r)
	}
	_, err = w.hana.Cancel(ctx, ids[1], "")
	w.must(err)
	var got []string
	for after := ""; ; {
		p, err := w.hana.Approvals(ctx, client.ApprovalQuery{Agent: "bot", Tool: "transfer", RiskLevel: "high", After: after,
			Limit: 2})
		w.must(err)
		for _, a := range p.Items {
			got = append(got, a.ID)
		}
		if after = p.Next; after == "" {
			break
		}
	}
	slices.Reverse(got)
	if !slices.Equal(got, ids) {
		t.Errorf("got %v, want %v", got, ids)
	}
}

func TestTheLogs(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	before := time.Now().Add(-time.Minute)
	id := w.ask(transfer)
	out := w.outbox
	ds, _, err := out.Ready(ctx, nil, 10)
	w.must(err)
	ns, err := outboxtest.Begin(ctx, out, outbox.Attempt{Notification: ds[0], Body: []byte("{}"), Lease: time.Minute})
	w.must(err)
	w.must(out.NotSent(ctx, ns[0], outbox.Failure{Final: true, Reason: "bad_recipient", HTTPStatus: 400}))

	p, err := w.hana.Notifications(ctx, client.NotificationQuery{Status: "failed", Channel: "line", ApprovalID: id,
		Limit: 10})
	w.must(err)
	if len(p.Items) != 1 || p.Items[0].Error != "bad_recipient" || p.Items[0].HTTPStatus != 400 || p.Next != "" {
		t.Fatalf("%+v", p)
	}
	n, err := w.hana.RetryNotification(ctx, p.Items[0].ID)
	w.must(err)
	if n.Status != "queued" || n.Attempt != 0 {
		t.Errorf("%+v", n)
	}
	_, err = w.hana.RetryNotification(ctx, p.Items[0].ID)
	if client.CodeOf(err) != "not_failed" {
		t.Errorf("got %v", err)
	}

	es, err := w.hana.Audit(ctx, client.AuditQuery{EventType: "approval_requested", Agent: "bot", Tool: "transfer",
		RiskLevel: "high", Since: before, Until: time.Now().Add(time.Minute), Limit: 5})
	w.must(err)
	if len(es.Items) != 1 || es.Items[0].ApprovalID != id || es.Items[0].Seq == 0 || len(es.Items[0].Data) == 0 {
		t.Errorf("%+v", es)
	}
	es, err = w.hana.Audit(ctx, client.AuditQuery{Decision: "deny", After: "1"})
	w.must(err)
	if len(es.Items) != 0 {
		t.Errorf("%+v", es)
	}
}

func TestARefusalIsATypedError(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	id := w.ask(transfer)
	_, err := w.hana.Decide(ctx, id, client.Approve, "")
	w.must(err)
	_, err = w.hana.Decide(ctx, id, client.Deny, "")
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != 409 || e.Code != "already_resolved" || e.Title == "" || e.Approval == nil ||
		e.Approval.ResolvedBy != "hana" || e.CorrelationID == "" {
		t.Fatalf("%#v", err)
	}
	if !strings.HasPrefix(err.Error(), "already_resolved: You already approved this (") ||
		!errors.Is(err, &client.Error{Code: "already_resolved"}) {
		t.Errorf("%v", err)
	}
	for code, f := range map[string]func() error{
		"not_found":   func() error { _, err := w.bot.Approval(ctx, "../../x?y"); return err },
		"agents_only": func() error { _, err := w.hana.Call(ctx, transfer); return err },
		"people_only": func() error { _, err := w.bot.Approvals(ctx, client.ApprovalQuery{}); return err },
		"invalid_args": func() error {
			_, err := w.bot.Call(ctx, client.Call{Tool: "x", Args: []byte(`{"a":1,"a":2}`)})
			return err
		},
		"invalid_tool": func() error { _, err := w.bot.Call(ctx, client.Call{Tool: "a b"}); return err },
		"invalid_parameter": func() error {
			_, err := w.hana.Approvals(ctx, client.ApprovalQuery{Status: "odd"})
			return err
		},
		"reason_required": func() error {
			_, err := w.hana.Decide(ctx, w.ask(client.Call{Tool: "deploy"}), client.Approve, "")
			return err
		},
		"unauthorized": func() error {
			c := w.client("somebody-elses-token")
			defer c.Close()
			_, err := c.Call(ctx, transfer)
			return err
		},
	} {
		if err := f(); client.CodeOf(err) != code || client.Unreachable(err) {
			t.Errorf("got %v, want %s", err, code)
		}
	}
	for i := range 3 {
		_, err = w.bot.Call(ctx, call(i))
	}
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "too_many_pending" || e.RetryAfter <= 0 {
		t.Errorf("got %v", err)
	}
}

func TestWhatTheServerSentIsKept(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"id":"x","status":"approved","resolved_by":null,"args":{"a":1.10},"new_member":7}`)
	}))
	defer srv.Close()
	c, err := client.New(srv.URL+"/", botToken)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Approval(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(a)
	if got, want := string(b),
		`{"id":"x","status":"approved","resolved_by":null,"args":{"a":1.10},"new_member":7}`; got != want || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	b, err = json.Marshal(client.Approval{ID: "y"})
	if err != nil || !strings.Contains(string(b), `"resolved_at":null`) {
		t.Errorf("got %s, %v", b, err)
	}
}

func TestATokenGoesNowhereElse(t *testing.T) {
	seen := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
	}))
	defer other.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/v1/calls?t=1", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	c, err := client.New(srv.URL, botToken)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Call(t.Context(), transfer)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 307 || !strings.Contains(e.Detail, other.URL) {
		t.Errorf("got %v", err)
	}
	for _, err := range c.Events(t.Context(), "") {
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 307 {
			t.Errorf("got %v", err)
		}
	}
	select {
	case h := <-seen:
		t.Errorf("a redirect was followed with %q", h)
	default:
	}
}

func TestATokenIsInNoErrorAndNoPrint(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	url := srv.URL
	srv.Close()
	c, err := client.New(url, botToken)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Call(t.Context(), transfer)
	if err == nil || !client.Unreachable(err) {
		t.Errorf("got %v", err)
	}
	for _, s := range []string{err.Error(), fmt.Sprintf("%v %+v %#v", c, c, c), fmt.Sprintf("%+v %#v", *c, *c)} {
		if strings.Contains(s, botToken) {
			t.Errorf("the token is in %s", s)
		}
	}
	for _, token := range []string{"", "two words-0123456789", "line\nbreak-0123456789", "日本語-0123456789"} {
		if _, err := client.New(url, token); err == nil || token != "" && strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v", token, err)
		}
	}
	for _, base := range []string{"", "127.0.0.1:8787", "ftp://x", "http://", "http://user:pw@x", "http://x?a=b",
		"http://x#y", "http://x:port"} {
		if _, err := client.New(base, botToken); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func TestAnAnswerThatIsNotOfThisServerIsSaidToBe(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"a page": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>hello</html>") },
		"404":    http.NotFound,
		"502":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) },
		"broken": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(400)
			io.WriteString(w, "{")
		},
	} {
		srv := httptest.NewServer(handler)
		c, err := client.New(srv.URL, botToken)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := c.Call(t.Context(), transfer); err == nil || a.MayRun() {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		for _, err := range c.Events(t.Context(), "") {
			if err == nil {
				t.Errorf("%s: an event", name)
			}
		}
		c.Close()
		srv.Close()
	}
}

func TestAServerThatDoesNotAnswerIsNotWaitedForForever(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	c, err := client.New(srv.URL, botToken, client.WithTimeout(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Call(t.Context(), transfer); !client.Unreachable(err) || !strings.Contains(err.Error(),
		"did not answer in time") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Call(ctx, transfer); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAClientOverAUnixSocket(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"decision":"allow"}`)
	}))
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	defer srv.Close()
	c, err := client.New("http://gate", botToken, client.WithTransport(&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if a, err := c.Call(t.Context(), transfer); err != nil || !a.MayRun() {
		t.Errorf("%+v, %v", a, err)
	}
}

// A program that prints what it got prints what the server sent, and what it made itself as the server would.
func TestEveryAnswerGoesThroughJSONUnharmed(t *testing.T) {
	at := client.Time{Time: time.Date(2026, 11, 21, 10, 0, 0, 5e6, time.FixedZone("", 9*3600))}
	for _, tt := range []struct {
		value any
		into  func() any
	}{
		{client.Answer{Kind: client.AnswerPending, ExpiresAt: at}, func() any { return new(client.Answer) }},
		{client.Approval{ID: "a", Server: "bank", Tool: "x", Args: []byte("{}"), RequestedAt: at}, func() any {
			return new(client.Approval)
		}},
		{client.Notification{ID: "n", CreatedAt: at}, func() any { return new(client.Notification) }},
		{client.AuditEvent{ID: "e", At: at, Data: []byte("null")}, func() any { return new(client.AuditEvent) }},
		{client.Decided{ID: "d", DeniedAt: at}, func() any { return new(client.Decided) }},
		{client.DecideResult{Decided: client.Decided{ID: "d", DeniedAt: at}}, func() any { return new(client.DecideResult) }},
	} {
		b, err := json.Marshal(tt.value)
		if err != nil || !strings.Contains(string(b), `"2026-11-21T01:00:00.005Z"`) {
			t.Errorf("%T: %s, %v", tt.value, b, err)
		}
		v := tt.into()
		if err := json.Unmarshal(b, v); err != nil {
			t.Errorf("%T: %v", tt.value, err)
		}
		if again, err := json.Marshal(v); err != nil || string(again) != string(b) {
			t.Errorf("%T: got %s, %v, want %s", tt.value, again, err, b)
		}
		if err := json.Unmarshal([]byte(`{"id":1,"decision":1}`), v); err == nil {
			t.Errorf("%T was made of junk", tt.value)
		}
	}
	if got := (client.Approval{Server: "bank", Tool: "x"}).Target(); got != "bank/x" {
		t.Errorf("got %s", got)
	}
}

func TestALapsedApprovalIsNoYes(t *testing.T) {
	then := client.Time{time.Now()}
	for _, c := range []struct {
		approval client.Approval
		want     client.AnswerKind
	}{
		{client.Approval{Status: "pending"}, client.AnswerPending}, {client.Approval{Status: "denied"}, client.AnswerDenied},
		{client.Approval{Status: "expired"}, client.AnswerExpired},
		{client.Approval{Status: "cancelled"}, client.AnswerCancelled}, {client.Approval{Status: "approved"},
			client.AnswerApproved},
		{client.Approval{Status: "approved", LapsedAt: then}, client.AnswerLapsed},
		{client.Approval{Status: "approved", ConsumedAt: then}, client.AnswerDenied},
	} {
		if got := c.approval.Ended(); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.approval, got, c.want)
		}
	}
}

// A client knows how far the clock of its server is from its own, and takes none for ahead that may be the same.
func TestTheClockOfTheServer(t *testing.T) {
	for name, off := range map[string]time.Duration{"the same": 0, "ahead": 5 * time.Hour, "behind": -5 * time.Hour} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
			io.WriteString(w, "{}")
		}))
		c, err := client.New(srv.URL, "token")
		if err != nil {
			t.Fatal(err)
		}
		if c.ClockAhead() != 0 {
			t.Errorf("%s: known before an answer", name)
		}
		if _, err := c.Approvals(t.Context(), client.ApprovalQuery{}); err != nil {
			t.Fatal(err)
		}
		if ahead := c.ClockAhead(); ahead > off || off == 0 && ahead != 0 || ahead < off-time.Hour {
			t.Errorf("%s: %v", name, ahead)
		}
		c.Close()
		srv.Close()
	}
}
