package stdioproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/correlation"
	"countersign/client"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// asker is the part of a gate by which calls are decided, in this process or another.
type asker interface {
	Check(ctx context.Context, c approval.Call) (approval.Answer, error)
	Wait(ctx context.Context, c *approval.Call, first *approval.Answer,
		w approval.WaitOptions) (*approval.Answer, error)
}

func mustArgs(t testing.TB, s string) args.Args {
	t.Helper()
	a, err := args.Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func call(t testing.TB, tool, arguments string) approval.Call {
	return approval.Call{Agent: "bot", Scope: "/work", Server: "files", Tool: tool, Args: mustArgs(t, arguments),
		Dispatch: true}
}

const theRules = `{policy: {rules: [
  {tools: ["*/read"], risk: low, action: allow},
  {tools: ["*/never"], action: deny, message: "not here"},
  {tools: ["*/both"], risk: medium, action: quarantine, timeout: 10m, approvals: [{count: 2}]},
  {tools: ["*/move"], risk: medium, action: quarantine, ignore_args: [reason], timeout: 10m},
  {tools: ["*"], risk: medium, action: quarantine, timeout: 10m}]}}`

// TestRule9_EveryOutcomeIsToldAsInOneProcess asks the same of a gate in this process and over the API.
func TestRule9_EveryOutcomeIsToldAsInOneProcess(t *testing.T) {
	t.Parallel()
	later := func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	write := `{"path":"/a <b> & \u2028","n":12345678901234567890,"x":1.10}`
	first := func(w *world, g asker, c approval.Call) approval.Answer {
		w.t.Helper()
		o, err := g.Check(context.Background(), c)
		if err != nil || o.Kind != approval.AnswerPending {
			w.t.Fatalf("the first answer: %+v, %v", o, err)
		}
		return o
	}
	hold := func(_ *world, g asker, c approval.Call, o approval.Answer, d time.Duration) (approval.Answer, error) {
		a, err := g.Wait(context.Background(), &c, &o, approval.WaitOptions{For: d})
		return *a, err
	}
	// waited has then happen while the call is held.
	waited := func(then func(w *world, id string)) func(*world, asker) (approval.Answer, error) {
		return func(w *world, g asker) (approval.Answer, error) {
			c := call(w.t, "write", write)
			o := first(w, g, c)
			later(500*time.Millisecond, func() { then(w, o.Request.ID) })
			return hold(w, g, c, o, time.Minute)
		}
	}
	for _, tt := range []struct {
		name string
		word approval.AnswerKind
		says string
		do   func(*world, asker) (approval.Answer, error)
	}{
		{"allowed", "allow", "Allowed by policy.", func(w *world, g asker) (approval.Answer, error) {
			return g.Check(context.Background(), call(w.t, "read", write))
		}},
		{"denied by policy", "denied", "Policy denied: ", func(w *world, g asker) (approval.Answer, error) {
			return g.Check(context.Background(), call(w.t, "never", write))
		}},
		{"created", "pending", "⏳ Approval requested (id: ID).", func(w *world, g asker) (approval.Answer, error) {
			return g.Check(context.Background(), call(w.t, "write", write))
		}},
		{"joined", "pending", "⏳ Approval pending (id: ID).", func(w *world, g asker) (approval.Answer, error) {
			first(w, g, call(w.t, "write", write))
			return g.Check(context.Background(), call(w.t, "write", write))
		}},
		{"not decided in time", "pending", "⏳ Approval requested (id: ID).", func(w *world, g asker) (approval.Answer,
			error) {
			c := call(w.t, "write", write)
			return hold(w, g, c, first(w, g, c), 300*time.Millisecond)
		}},
		{"approved before", "approved", "Approved by hana at TIME. Run it now; this approval is used.",
			func(w *world, g asker) (approval.Answer, error) {
				o := first(w, g, call(w.t, "write", write))
				w.decide(o.Request.ID, true, "")
				return g.Check(context.Background(), call(w.t, "write", write))
			}},
		{"approved, without arguments", "approved", "Approved by hana", func(w *world, g asker) (approval.Answer, error) {
			o := first(w, g, call(w.t, "write", `{}`))
			w.decide(o.Request.ID, true, "")
			return g.Check(context.Background(), call(w.t, "write", `{}`))
		}},
		{"approved while held", "approved", "Approved by hana at TIME.", waited(func(w *world, id string) {
			w.decide(id, true, "fine")
		})},
		{"approved between", "approved", "Approved by hana at TIME.", func(w *world, g asker) (approval.Answer, error) {
			c := call(w.t, "write", write)
			o := first(w, g, c)
			w.decide(o.Request.ID, true, "")
			return hold(w, g, c, o, time.Minute)
		}},
		{"approved, with an argument that does not count", "approved", "Approved by hana",
			func(w *world, g asker) (approval.Answer, error) {
				o := first(w, g, call(w.t, "move", `{"to":"/b","reason":"as it was shown"}`))
				w.decide(o.Request.ID, true, "")
				return g.Check(context.Background(), accepting(call(w.t, "move", `{"to":"/b","reason":"as it is now"}`)))
			}},
		{"denied while held", "denied", "Approval denied by hana: not today.", waited(func(w *world, id string) {
			w.decide(id, false, "not today")
		})},
		{"denied between", "denied", "Approval denied by hana: no reason given.", func(w *world, g asker) (approval.Answer,
			error) {
			c := call(w.t, "write", write)
			o := first(w, g, c)
			w.decide(o.Request.ID, false, "")
			return hold(w, g, c, o, time.Minute)
		}},
		{"denied a while ago", "denied", "Approval denied by hana", func(w *world, g asker) (approval.Answer, error) {
			o := first(w, g, call(w.t, "write", write))
			w.decide(o.Request.ID, false, "no")
			return g.Check(context.Background(), call(w.t, "write", write))
		}},
		{"expired while held", "expired", "[APPROVAL EXPIRED] files/write(", waited(func(w *world, _ string) {
			w.ahead.Store(11 * 60_000)
		})},
		{"cancelled while held", "cancelled", "[APPROVAL CANCELLED] files/write(", waited(func(w *world, id string) {
			if _, err := w.gate.Cancel(context.Background(), approval.Cancellation{RequestID: id, By: hana, Via: approval.ViaCLI,
				Reason: "wrong"}); err != nil {
				w.t.Error(err)
			}
		})},
		{"lapsed before it was held", "lapsed", "[APPROVAL LAPSED] files/write(", func(w *world, g asker) (approval.Answer,
			error) {
			c := call(w.t, "write", write)
			o := first(w, g, c)
			w.decide(o.Request.ID, true, "")
			w.ahead.Store(16 * 60_000)
			return hold(w, g, c, o, time.Minute)
		}},
		{"used by another", "denied",
			"Not run: the approval by hana at TIME was already used at TIME, by an identical call that was let through instead of this one.", func(w *world, g asker) (approval.Answer, error) {
				c := call(w.t, "write", write)
				o := first(w, g, c)
				w.decide(o.Request.ID, true, "")
				if used, err := g.Check(context.Background(), c); err != nil || used.Kind != approval.AnswerApproved {
					w.t.Fatalf("the other: %+v, %v", used, err)
				}
				return hold(w, g, c, o, time.Minute)
			}},
		{"denied by policy meanwhile", "denied", "Policy denied: ", waited(func(w *world, id string) {
			w.policy(`{policy: {rules: [{tools: ["*"], action: deny}]}}`)
			w.decide(id, true, "")
		})},
		{"asked about more strictly meanwhile", "cancelled", "[APPROVAL CANCELLED] files/write(",
			waited(func(w *world, id string) {
				w.policy(`{policy: {rules: [{tools: ["*"], risk: critical, action: quarantine}]}}`)
				w.decide(id, true, "It is due.")
			})},
		{"edited before", "approved",
			"Approved by hana at TIME. Run it now; this approval is used. hana changed the arguments",
			func(w *world, g asker) (approval.Answer, error) {
				c := accepting(call(w.t, "write", write))
				w.edit(first(w, g, c).Request.ID, `{"path":"/b","n":9007199254740993}`)
				return g.Check(context.Background(), c)
			}},
		{"edited, not to be run", "denied", "Not as asked. hana approved these arguments instead: ",
			func(w *world, g asker) (approval.Answer, error) {
				c := call(w.t, "write", write)
				w.edit(first(w, g, c).Request.ID, `{"path":"/b"}`)
				return g.Check(context.Background(), c)
			}},
		{"edited while held", "approved", "Approved by hana at TIME.", func(w *world, g asker) (approval.Answer, error) {
			c := accepting(call(w.t, "write", write))
			o := first(w, g, c)
			later(500*time.Millisecond, func() { w.edit(o.Request.ID, `{"path":"/b"}`) })
			return hold(w, g, c, o, time.Minute)
		}},
		{"edited while held, for two", "approved", "Approved by hana and ken at TIME.",
			func(w *world, g asker) (approval.Answer, error) {
				c := accepting(call(w.t, "both", write))
				o := first(w, g, c)
				later(500*time.Millisecond, func() {
					next := w.edit(o.Request.ID, `{"path":"/b"}`)
					ken := hana
					ken.Name = "ken"
					if _, err := w.gate.Decide(context.Background(), approval.Decision{RequestID: next.ID, Approve: true, By: ken,
						Via: approval.ViaCLI}); err != nil {
						w.t.Error(err)
					}
				})
				return hold(w, g, c, o, time.Minute)
			}},
		{"edited, and the edit cancelled", "cancelled", "[APPROVAL CANCELLED] files/both({",
			func(w *world, g asker) (approval.Answer, error) {
				c := accepting(call(w.t, "both", write))
				o := first(w, g, c)
				next := w.edit(o.Request.ID, `{"path":"/b"}`)
				if _, err := w.gate.Cancel(context.Background(), approval.Cancellation{RequestID: next.ID, By: hana,
					Via: approval.ViaCLI}); err != nil {
					w.t.Error(err)
				}
				return hold(w, g, c, o, time.Minute)
			}},
		{"frozen", "denied", "Frozen by hana: odd calls. Nothing runs until a person lifts it; do not retry.",
			func(w *world, g asker) (approval.Answer, error) {
				w.freeze()
				return g.Check(context.Background(), call(w.t, "read", write))
			}},
		{"frozen while held", "cancelled", "[APPROVAL CANCELLED] files/write(", waited(func(w *world, _ string) {
			w.freeze()
		})},
		{"ambiguous", "pending", "⏳ Approval requested (id: ID).", func(w *world, g asker) (approval.Answer, error) {
			return g.Check(context.Background(), call(w.t, "read", `{"path":"/a","Path":"/b"}`))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tell := func(remote bool) string {
				w := newWorld(t, theRules)
				g := asker(w.gate)
				if remote {
					g = w.remote()
				}
				o, err := tt.do(w, g)
				if err != nil {
					t.Fatalf("over the API %t: %v", remote, err)
				}
				if o.Kind != tt.word || !strings.HasPrefix(plain(o.Message), tt.says) {
					t.Errorf("over the API %t: got %s, %s\nwant %s, %s", remote, o.Kind, o.Message, tt.word, tt.says)
				}
				id, sent := "none", ""
				if o.Request != nil {
					id = o.Request.ID
					if o.Kind == approval.AnswerApproved {
						sent = string(o.Request.Args)
					}
				}
				return plain(fmt.Sprintf("%s: %s\nrisk %s, rule %q, reason %q, request %s, sends %s, in place of others: %s, frozen: %t, beside the result: %s",
					o.Kind, o.Message, o.Risk, o.Rule, o.ReasonCode, id, sent, o.Args, o.Frozen(), o.Note))
			}
			want(t, "over the API", tell(true), tell(false))
		})
	}
}

func accepting(c approval.Call) approval.Call {
	c.AcceptsEdits = true
	return c
}

// edit approves other arguments than those that a request is for.
func (w *world) edit(id, arguments string) approval.Request {
	a := mustArgs(w.t, arguments)
	r, err := w.gate.Decide(context.Background(), approval.Decision{RequestID: id, Approve: true, By: hana,
		Via: approval.ViaCLI, Args: &a, Reason: "too much"})
	if err != nil {
		w.t.Error(err)
	}
	return r
}

func (w *world) freeze() {
	if _, err := w.gate.Freeze(context.Background(), "bot", hana, approval.ViaCLI, "odd calls"); err != nil {
		w.t.Error(err)
	}
}

// The tool changed after the approval: the request ends, and asking again makes one for the tool as it is now.
func TestACallWhoseToolHasChangedIsAskedAboutAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theRules)
	g, c := w.remote(), call(t, "write", `{"n":1}`)
	c.ToolDigest = strings.Repeat("a", 64)
	first, err := g.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	w.decide(first.Request.ID, true, "")
	c.ToolDigest = strings.Repeat("b", 64)
	o, err := g.Wait(t.Context(), &c, &first, approval.WaitOptions{For: time.Minute})
	if err != nil || o.Kind != approval.AnswerCancelled || o.ReasonCode != "tool_changed" {
		t.Errorf("got %+v, %v", o, err)
	}
	if r := w.request(first.Request.ID); r.Status != approval.Cancelled || !r.ConsumedAt.IsZero() {
		t.Errorf("the first request: %+v", r)
	}
	next, err := g.Check(t.Context(), c)
	if err != nil || next.Kind != approval.AnswerPending || next.Request.ID == first.Request.ID {
		t.Fatalf("got %+v, %v", next, err)
	}
	w.decide(next.Request.ID, true, "")
	if o, err = g.Wait(t.Context(), &c, &next, approval.WaitOptions{For: time.Minute}); err != nil ||
		o.Kind != approval.AnswerApproved {
		t.Errorf("got %+v, %v", o, err)
	}
}

var (
	ids   = regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
)

// plain takes out what differs each time.
func plain(s string) string {
	return times.ReplaceAllString(ids.ReplaceAllString(s, "ID"), "TIME")
}

// faults are answers that are no answers.
var faults = map[string]struct {
	with  func(http.ResponseWriter, *http.Request) bool
	code  approval.Code
	says  string
	final bool // it does not pass by itself
}{
	"gone": {gone, approval.CodeStoreUnavailable, "the gate cannot be reached: ", false},
	"wrong token": {problemOf(401, "unauthorized", "A valid bearer token is needed."), approval.CodeUnauthorized,
		"does not know this agent's token", true},
	"a person's": {problemOf(403, "agents_only", "Only agents may do this."), approval.CodeUnauthorized,
		"the token belongs to a person", true},
	"too many": {problemOf(429, "too_many_pending", "There are 100 pending requests."), approval.CodeTooManyPending,
		"100 pending", false},
	"over budget": {problemOf(429, "rate_limited", "Over the budget of calls: wait."), approval.CodeRateLimited,
		"the budget of calls", false},
	"no store": {problemOf(503, "store_unavailable", "The store is away."), approval.CodeStoreUnavailable,
		"The store is away.", false},
	"internal": {problemOf(500, "internal", "Something went wrong."), approval.CodeStoreUnavailable,
		"Something went wrong.", false},
	"a proxy": {raw(502, "text/html", "<h1>Bad gateway</h1>"), approval.CodeStoreUnavailable,
		"not an answer of a Countersign server", false},
	"too large": {problemOf(413, "too_large", "The body is too large."), approval.CodeInvalidArgs,
		"longer than the gate takes", true},
	"an older one": {problemOf(400, "unknown_field", "dispatch is not known."), approval.CodeStoreUnavailable,
		"older version", true},
	"redirect":   {redirect, "", "a redirect to ", true},
	"a web page": {raw(200, "text/html", "<h1>Hello</h1>"), approval.CodeStoreUnavailable, "cannot be read", true},
	"half": {raw(200, "application/json", `{"decision":"allow"`), approval.CodeStoreUnavailable, "cannot be read",
		true},
	"nothing": {raw(200, "application/json", ``), approval.CodeStoreUnavailable, "cannot be read", true},
	"null":    {raw(200, "application/json", `null`), approval.CodeStoreUnavailable, "an unknown decision", true},
	"a list": {raw(200, "application/json", `[{"decision":"allow"}]`), approval.CodeStoreUnavailable,
		"cannot be read", true},
	"another word": {raw(200, "application/json", `{"decision":"ALLOW"}`), approval.CodeStoreUnavailable,
		"an unknown decision", true},
	"no arguments": {raw(200, "application/json", `{"decision":"approved","approval_id":"01K00000000000000000000000"}`),
		approval.CodeStoreUnavailable, "no stored arguments", true},
	"bad arguments": {raw(200, "application/json",
		`{"decision":"approved","approval_id":"01K00000000000000000000000","args":[1]}`),
		approval.CodeStoreUnavailable, "no stored arguments", true},
	"no request": {raw(202, "application/json", `{"decision":"pending"}`), approval.CodeStoreUnavailable,
		"names no request", true},
}

func problemOf(status int, code, detail string) func(http.ResponseWriter, *http.Request) bool {
	return raw(status, "application/problem+json",
		fmt.Sprintf(`{"type":"about:blank","title":"no","status":%d,"detail":%q,"code":%q}`, status, detail, code))
}

func raw(status int, kind, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

func redirect(w http.ResponseWriter, r *http.Request) bool {
	http.Redirect(w, r, "https://elsewhere.example/v1/calls?token=x", http.StatusTemporaryRedirect)
	return true
}

func TestRule1_NoFaultOfTheGateIsAYes(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quarantines)
			g, c := w.remote(), call(t, "write", `{"n":1}`)
			first, err := g.Check(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			check := func(what string, o approval.Answer, err error) {
				t.Helper()
				if o.Kind != "" {
					t.Errorf("%s: got the outcome %+v", what, o)
				}
				e, ok := errors.AsType[*approval.Error](err)
				if !ok {
					t.Fatalf("%s: got the error %v, which is none of the gate's", what, err)
				}
				if e.Code != fault.code || !strings.Contains(e.Message, fault.says) || strings.Contains(e.Message, "token=x") {
					t.Errorf("%s: got %s: %s\nwant %s: … %s …", what, e.Code, e.Message, fault.code, fault.says)
				}
			}
			w.interfere(fault.with)
			o, err := g.Check(t.Context(), c)
			check("asking", o, err)

			// While it waits, what may pass is waited for.
			w.interfere(nil)
			var times atomic.Int64
			w.interfere(func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false // so that it is the answer to the call
				}
				return times.Add(1) < 3 && fault.with(rw, r)
			})
			w.decide(first.Request.ID, true, "")
			out, err := g.Wait(t.Context(), &c, &first, approval.WaitOptions{For: time.Minute})
			if fault.final {
				check("waiting", *out, err)
				if !w.request(first.Request.ID).ConsumedAt.IsZero() {
					t.Error("the approval was used")
				}
			} else if err != nil || out.Kind != approval.AnswerApproved {
				t.Errorf("waiting for it to pass: got %+v, %v", out, err)
			}
		})
	}
}

func TestAGateThatDoesNotAnswerIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	c, err := client.New(srv.URL, agentToken, client.WithTimeout(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g := &RemoteGate{Client: c}
	asked := call(t, "write", "{}")
	o, err := g.Check(t.Context(), asked)
	if o.Kind != "" || approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("asking: got %+v, %v", o, err)
	}
	first := approval.Answer{Kind: approval.AnswerPending, Message: "pending",
		Request: &approval.Request{ID: "01K00000000000000000000000"}}
	out, err := g.Wait(t.Context(), &asked, &first, approval.WaitOptions{For: 200 * time.Millisecond})
	if err != nil || out.Kind != approval.AnswerPending || out.Message != "pending" {
		t.Errorf("waiting: got %+v, %v, want the pending outcome", out, err)
	}
}

// What is asked about a call is the caller's own, who goes on with it after the wait.
func TestNothingIsAskedAboutACallOnceItsWaitHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	g, c := w.remote(), call(t, "write", `{"n":1}`)
	first, err := g.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var asked, answered atomic.Int64
	o, err := g.Wait(t.Context(), &c, &first, approval.WaitOptions{For: 2 * patience / 5, Still: func() error {
		asked.Add(1)
		time.Sleep(patience / 2) // real: it still looks when the wait ends; where it does not, it has answered
		answered.Add(1)
		return nil
	}})
	if err != nil || o.Kind != approval.AnswerPending {
		t.Fatalf("got %+v, %v", o, err)
	}
	if n := asked.Load(); n != answered.Load() {
		t.Errorf("the wait has ended, and of %d times that it asked it does not know one answer", n)
	}
}

func TestRule4_OfManyWhoWaitAtTheirOwnWrapperOneRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	c := call(t, "write", `{"n":1}`)
	var wg sync.WaitGroup
	var ran, used atomic.Int64
	for range 8 {
		g := w.remote()
		first, err := g.Check(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			o, err := g.Wait(t.Context(), &c, &first, approval.WaitOptions{For: time.Minute})
			switch {
			case err != nil:
				t.Error(err)
			case o.Kind == approval.AnswerApproved:
				ran.Add(1)
			case o.Kind == approval.AnswerDenied && o.ReasonCode == "already_used":
				used.Add(1)
			default:
				t.Errorf("got %+v", o)
			}
		})
	}
	testkit.Eventually(t, "all wait", func() bool { return w.inflight.Load() == 8 })
	w.decide(w.pending(1)[0].ID, true, "")
	testkit.Wait(t, "all who wait", wg.Wait)
	if ran.Load() != 1 || used.Load() != 7 {
		t.Errorf("%d ran and %d were told that it was used, want 1 and 7", ran.Load(), used.Load())
	}
}

// The approval is used by another right before the waiting call gets to the gate, wherever that call looked before.
func TestRule4_WhoComesToAnApprovalThatWasJustUsedAsksForNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	g, other, c := w.remote(), w.remote(), call(t, "write", `{"n":1}`)
	first, err := g.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	w.interfere(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.Query().Has("wait") {
			once.Do(func() {
				w.decide(first.Request.ID, true, "")
				if o, err := other.Check(t.Context(), c); err != nil || o.Kind != approval.AnswerApproved {
					t.Errorf("the other: got %+v, %v", o, err)
				}
			})
		}
		return false
	})
	o, err := g.Wait(t.Context(), &c, &first, approval.WaitOptions{For: 2 * patience})
	if err != nil || o.Kind != approval.AnswerDenied || o.ReasonCode != "already_used" {
		t.Errorf("got %+v, %v", o, err)
	}
	w.pending(0)
}

func TestRule4_WhoMayNotUseAnApprovalAnyMoreUsesNone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*world, context.CancelFunc, *atomic.Bool, chan struct{})
		want string
	}{
		{"the program stops", func(_ *world, _ context.CancelFunc, _ *atomic.Bool, stop chan struct{}) {
			close(stop)
		}, "pending <nil>"},
		{"the server has gone", func(_ *world, _ context.CancelFunc, lost *atomic.Bool, _ chan struct{}) {
			lost.Store(true)
		}, " the server has gone"},
		{"the client has gone", func(_ *world, cancel context.CancelFunc, _ *atomic.Bool, _ chan struct{}) {
			cancel()
		}, " store_unavailable: the call was given up"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quarantines)
			g, c := w.remote(), call(t, "write", `{"n":1}`)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			first, err := g.Check(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			var lost atomic.Bool
			stop := make(chan struct{})
			time.AfterFunc(200*time.Millisecond, func() { tt.end(w, cancel, &lost, stop) })
			o, err := g.Wait(ctx, &c, &first, approval.WaitOptions{For: time.Minute, Stop: stop, Still: func() error {
				if lost.Load() {
					return errors.New("the server has gone")
				}
				return nil
			}})
			if got := fmt.Sprintf("%s %v", o.Kind, err); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			testkit.Eventually(t, "the gate has seen that the connection is gone", func() bool { return w.inflight.Load() == 0 })
			w.decide(first.Request.ID, true, "")
			w.letThrough(g, `{"n":2}`) // who would use it has had the time of another call
			if !w.request(first.Request.ID).ConsumedAt.IsZero() {
				t.Error("the approval was used")
			}
			if o, err := g.Check(t.Context(), c); err != nil || o.Kind != approval.AnswerApproved {
				t.Errorf("the identical call: got %+v, %v, want it approved", o, err)
			}
		})
	}
}

// late hands on the answer to a call some time after it has arrived whole.
type late struct{ arrived chan struct{} }

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r.Clone(context.WithoutCancel(r.Context())))
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/calls" || r.URL.RawQuery == "" {
		return resp, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(b))
	close(l.arrived)
	<-r.Context().Done()
	return resp, err
}

func TestRule1_WhatWasLetThroughForNobodyDoesNotRun(t *testing.T) {
	t.Parallel()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	w := newWorld(t, quarantines)
	arrived := make(chan struct{})
	slow, err := client.New(w.url, agentToken, client.WithTransport(late{arrived}))
	if err != nil {
		t.Fatal(err)
	}
	g, c := &RemoteGate{Client: slow}, call(t, "write", `{"n":1}`)
	first, err := g.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	w.decide(first.Request.ID, true, "")
	o, err := g.Wait(t.Context(), &c, &first, approval.WaitOptions{For: time.Minute, Still: func() error {
		select {
		case <-arrived:
			return errors.New("the server has gone")
		default:
			return nil
		}
	}})
	if o.Kind != "" || err == nil || !strings.Contains(err.Error(),
		"the server has gone. The approval was used up meanwhile") {
		t.Errorf("got %+v, %v", o, err)
	}
	if r := w.request(first.Request.ID); r.ConsumedAt.IsZero() || r.RunResult != approval.RunFailed {
		t.Errorf("used at %s, the outcome is %q, want it used and failed", r.ConsumedAt, r.RunResult)
	}
}

func TestAGateThatHasGoneIsRenewedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		back, fails  bool
		want         string
		renews, asks int64
	}{
		{"it comes back", true, false, "allow", 1, 2},
		{"it does not", false, false, "the gate cannot be reached: ", 1, 2},
		{"it cannot be started", false, true, "the gate could not be started", 1, 1},
	} {
		w := newWorld(t, allowAll)
		g := w.remote()
		w.interfere(gone)
		var renews int64
		g.Renew = func(context.Context) error {
			renews++
			if tt.back {
				w.interfere(nil)
			}
			if tt.fails {
				return errors.New("the gate could not be started: its configuration has 3 problems")
			}
			return nil
		}
		o, err := g.Check(t.Context(), call(t, "write", "{}"))
		got := string(o.Kind)
		if e, ok := errors.AsType[*approval.Error](err); ok {
			got += e.Message
		}
		if !strings.HasPrefix(got, tt.want) || renews != tt.renews || w.asked.Load() != tt.asks {
			t.Errorf("%s: got %s (%v) after %d renewals and %d requests\nwant %s, %d, %d", tt.name, got, err, renews,
				w.asked.Load(), tt.want, tt.renews, tt.asks)
		}
	}
	// What a gate answers, however unhappily, is no reason to start another.
	w := newWorld(t, quarantines)
	g := w.remote()
	g.Renew = func(context.Context) error { t.Error("it was renewed"); return nil }
	w.interfere(faults["no store"].with)
	if _, err := g.Check(t.Context(), call(t, "write", "{}")); err == nil {
		t.Error("no error")
	}
}

// The gate elsewhere is asked in the trace that the client's metadata names.
func TestTheGateIsAskedInTheClientsTrace(t *testing.T) {
	t.Parallel()
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	w := newWorld(t, allowAll)
	got := make(chan string, 2)
	w.interfere(func(_ http.ResponseWriter, r *http.Request) bool {
		got <- r.Header.Get("Traceparent")
		return false
	})
	g := w.remote()
	for _, given := range []string{parent, "x\r\nX-Evil: 1"} {
		traced, end := passOnTrace(gateway.TracedRequest{Traceparent: given})
		if end != nil {
			t.Error("the wrapper has spans of its own")
		}
		if _, err := g.Check(correlation.WithTrace(t.Context(), traced), call(t, "write", "{}")); err != nil {
			t.Fatal(err)
		}
	}
	if first, second := testkit.Receive(t, "a request", got), testkit.Receive(t, "another", got); first != parent ||
		second != "" {
		t.Errorf("the gate was asked in %q and %q", first, second)
	}
}

func TestWhatCameOfACallIsReportedAgainWhileTheGateIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	g, c := w.remote(), call(t, "write", `{"n":1}`)
	first, err := g.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	w.decide(first.Request.ID, true, "")
	if _, err := g.Check(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.asked.Store(0)
	w.interfere(func(rw http.ResponseWriter, r *http.Request) bool {
		switch w.asked.Load() {
		case 1:
			return gone(rw, r)
		case 2:
			return faults["no store"].with(rw, r)
		}
		return false
	})
	r, err := g.Report(t.Context(), approval.Actor{}, first.Request.ID, approval.RunSucceeded)
	if err != nil || r.RunResult != approval.RunSucceeded ||
		w.request(first.Request.ID).RunResult != approval.RunSucceeded {
		t.Errorf("got %+v, %v", r, err)
	}

	// It ends with its context, and with what does not pass.
	w.interfere(gone)
	brief, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := g.Report(brief, approval.Actor{}, first.Request.ID,
		approval.RunFailed); approval.CodeOf(err) != approval.CodeStoreUnavailable {
		t.Errorf("got %v", err)
	}
	w.asked.Store(0)
	w.interfere(faults["wrong token"].with)
	if _, err := g.Report(t.Context(), approval.Actor{}, first.Request.ID,
		approval.RunFailed); approval.CodeOf(err) != approval.CodeUnauthorized || w.asked.Load() != 1 {
		t.Errorf("got %v after %d requests", err, w.asked.Load())
	}
}

func TestTheFeedAndOneRequestAreTheAgentsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quarantines)
	g, c := w.remote(), call(t, "write", `{"n":1}`)
	first, err := g.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	id := first.Request.ID
	if r, err := g.Request(t.Context(), approval.Actor{}, id); err != nil || r.Status != approval.Pending ||
		string(r.Args) != `{"n":1}` || r.Server != "files" {
		t.Errorf("got %+v, %v", r, err)
	}
	if rs, err := g.Resolved(t.Context(), "", "", 0); err != nil || len(rs) != 0 {
		t.Errorf("got %+v, %v", rs, err)
	}
	if r, err := g.Cancel(t.Context(), approval.Cancellation{RequestID: id, Reason: "not needed"}); err != nil ||
		r.Status != approval.Cancelled || r.ResolveReason != "not needed" {
		t.Errorf("got %+v, %v", r, err)
	}
	rs, err := g.Resolved(t.Context(), "", "", 0)
	if err != nil || len(rs) != 1 {
		t.Fatalf("got %+v, %v", rs, err)
	}
	want(t, "the feed", rs[0].FeedMessage(), w.request(id).FeedMessage())
	if a, err := g.Ack(t.Context(), "", []string{id, "01K00000000000000000000000"}); err != nil || len(a.Acked) != 1 ||
		len(a.NotFound) != 1 {
		t.Errorf("got %+v, %v", a, err)
	}
	w.interfere(gone)
	for what, err := range map[string]error{
		"request":  second(g.Request(t.Context(), approval.Actor{}, id)),
		"feed":     second(g.Resolved(t.Context(), "", "", 0)),
		"cancel":   second(g.Cancel(t.Context(), approval.Cancellation{RequestID: id})),
		"take out": second(g.Ack(t.Context(), "", []string{id})),
	} {
		if approval.CodeOf(err) != approval.CodeStoreUnavailable {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
