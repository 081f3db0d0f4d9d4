package rest

import (
	"bufio"
	"context"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/budget"
	"countersign/internal/lists"
	"countersign/internal/testkit"
)

// limit gives everybody budgets: bot these, the others none; and person to every person.
func (w *world) limit(bot, person budget.Limits) {
	all := map[budget.Principal]budget.Limits{{Agent: true, Name: "bot"}: bot, {Agent: true, Name: "other"}: {}}
	for _, p := range peopleConfigured {
		all[budget.Principal{Name: p.Name}] = person
	}
	w.rest.budgets.Replace(all)
}

func newBudgetWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.rest.budgets = budget.NewRegistry(budget.Options{Now: w.clock.Now})
	return w
}

func perMinute(n int64) budget.Rate { return budget.Rate{Count: n, Per: time.Minute} }

// over fails the test unless the answer refuses for a budget.
func (r reply) over(k budget.Kind) {
	r.t.Helper()
	r.is(429, approval.CodeRateLimited)
	if s := r.str("detail"); !strings.Contains(s, "the budget of "+string(k)) {
		r.t.Errorf("%s: %q does not name %s", r.what, s, k)
	}
	if n, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || n < 1 {
		r.t.Errorf("%s: Retry-After is %q", r.what, r.header.Get("Retry-After"))
	}
}

func TestRule12_CallsOverTheBudget(t *testing.T) {
	w := newBudgetWorld(t)
	id := w.ask(transfer)
	paths := map[string]func() reply{
		"a call":   func() reply { return w.do(botToken, "POST", "/v1/calls", transfer) },
		"a batch":  func() reply { return w.do(botToken, "POST", "/v1/calls/batch", `{"calls":[`+transfer+`]}`) },
		"the feed": func() reply { return w.do(botToken, "GET", "/v1/approvals/resolved", "") },
		"an ack":   func() reply { return w.do(botToken, "POST", "/v1/approvals/ack", `{"ids":[]}`) },
		"a look":   func() reply { return w.do(botToken, "GET", "/v1/approvals/"+id, "") },
		"events":   func() reply { return w.do(botToken, "HEAD", "/v1/events", "") },
		"a decision, which is not an agent's": func() reply {
			return w.decide(botToken, id, "deny", "")
		},
		"no path": func() reply { return w.do(botToken, "GET", "/v1/nothing", "") },
	}
	for name, ask := range paths {
		t.Run(name, func(t *testing.T) {
			w.limit(budget.Limits{Calls: perMinute(2)}, budget.Limits{})
			w.clock.Advance(time.Hour)
			for range 2 {
				if r := ask(); r.status == 429 {
					t.Fatalf("within the budget: %s", r.body)
				}
			}
			if r := ask(); r.status != 429 || r.header.Get("Retry-After") != "30" {
				t.Errorf("over the budget: %d, Retry-After %q", r.status, r.header.Get("Retry-After"))
			}
			w.do(otherToken, "POST", "/v1/calls", transfer).is(202) // nobody else notices
			w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200)
		})
	}
}

func TestRule12_EachCallOfABatchCounts(t *testing.T) {
	w := newBudgetWorld(t)
	w.limit(budget.Limits{Calls: perMinute(5)}, budget.Limits{})
	batch := func(n int) reply {
		return w.do(botToken, "POST", "/v1/calls/batch", `{"calls":[`+strings.TrimSuffix(strings.Repeat(transfer+",", n),
			",")+`]}`)
	}
	batch(4).is(200)
	batch(3).over(budget.Calls)
	if rs, err := lists.ListRequests(t.Context(), w.gate, approval.RequestQuery{}); err != nil || len(rs) != 1 {
		t.Errorf("%d requests, %v", len(rs), err)
	}
}

// The attack: an agent filled 1.2 GB in 12 s.
func TestRule12_BytesOverTheBudget(t *testing.T) {
	w := newBudgetWorld(t)
	w.limit(budget.Limits{Bytes: perMinute(100 << 10)}, budget.Limits{})
	big := func(token string) reply {
		return w.do(token, "POST", "/v1/calls", `{"tool":"read_file","args":{"a":"`+strings.Repeat("x", 29<<10)+`"}}`)
	}
	taken := 0
	for range 40 { // 12 s
		if r := big(botToken); r.status == 200 {
			taken++
		} else {
			r.over(budget.Bytes)
		}
		w.clock.Advance(300 * time.Millisecond)
	}
	if taken != 4 { // a minute's worth, and that of the 12 s
		t.Errorf("%d bodies of 29 KiB taken, want 4 of a budget of 100 KiB a minute", taken)
	}
	big(otherToken).is(200)
	// A body whose length is not told is counted all the same.
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.srv.URL+"/v1/calls",
		struct{ *strings.Reader }{strings.NewReader(`{"tool":"read_file","args":{"a":"` + strings.Repeat("x", 60<<10) +
			`"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+botToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if req.ContentLength > 0 || resp.StatusCode != 429 {
		t.Errorf("got %d", resp.StatusCode)
	}
}

func TestRule12_DenialsAndCancelsAreNeverRefused(t *testing.T) {
	w := newBudgetWorld(t)
	w.limit(budget.Limits{}, budget.Limits{})
	first, second, third := w.ask(asked(1)), w.ask(asked(2)), w.ask(asked(3))
	none := budget.Limits{Calls: perMinute(1), Bytes: perMinute(1)}
	w.limit(none, none)
	for _, token := range []string{botToken, hanaToken} {
		w.do(token, "GET", "/v1/approvals/"+first, "").is(200)
		w.do(token, "GET", "/v1/approvals/"+first, "").over(budget.Calls)
	}
	w.decide(hanaToken, first, "approve", "").over(budget.Calls)
	w.decide(hanaToken, first, "deny", "no, and a reason of some length").is(200)
	w.decide(hanaToken, first, "deny", "").over(budget.Calls) // nothing is left to deny
	w.do(botToken, "POST", "/v1/approvals/"+second+"/cancel", `{"reason":"not needed any more"}`).is(200)
	w.do(botToken, "POST", "/v1/approvals/"+second+"/cancel", "").over(budget.Calls)
	w.do(hanaToken, "POST", "/v1/approvals/"+third+"/cancel", "").is(200)
	fourth := w.askOther()
	for _, c := range []struct {
		reason string
		status int
	}{{strings.Repeat("x", 200<<10), 429}, {"not needed", 200}} { // of a length that is not told
		req, err := http.NewRequestWithContext(t.Context(), "POST", w.srv.URL+"/v1/approvals/"+w.askOther()+"/cancel",
			struct{ *strings.Reader }{strings.NewReader(`{"reason":"` + c.reason + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+hanaToken)
		req.Header.Set("Content-Type", "application/json")
		resp, err := w.srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if req.ContentLength > 0 || resp.StatusCode != c.status {
			t.Errorf("got %d, want %d", resp.StatusCode, c.status)
		}
	}
	w.do(hanaToken, "POST", "/v1/approvals/"+fourth+"/cancel", `{"reason":"`+strings.Repeat("x", 200<<10)+
		`"}`).over(budget.Calls) // nobody needs that many words
	w.clock.Advance(2 * time.Minute) // what was not refused is not owed for ever
	w.do(botToken, "GET", "/v1/approvals/"+first, "").is(200)
}

// What no budget refuses is asked as often as somebody likes. It must not cost what reading a large request does.
func TestRule12_WhatIsOverTheBudgetReadsNoLargeRow(t *testing.T) {
	w := newBudgetWorld(t)
	w.limit(budget.Limits{}, budget.Limits{})
	large := `{"tool":"write","args":{"a":"` + strings.Repeat("x", 900<<10) + `"},"dispatch":true}`
	ended := w.ask(large)
	w.do(botToken, "POST", "/v1/approvals/"+ended+"/cancel", "").is(200)
	sent := w.ask(large)
	w.decide(hanaToken, sent, "approve", "")
	w.do(botToken, "POST", "/v1/calls", large).is(200)
	none := budget.Limits{Calls: perMinute(1), Bytes: perMinute(1)}
	w.limit(none, none)
	for name, ask := range map[string]func() reply{
		"an agent's cancel":  func() reply { return w.do(botToken, "POST", "/v1/approvals/"+ended+"/cancel", "") },
		"a person's cancel":  func() reply { return w.do(hanaToken, "POST", "/v1/approvals/"+ended+"/cancel", "") },
		"a denial":           func() reply { return w.decide(hanaToken, ended, "deny", "") },
		"what is not a body": func() reply { return w.do(botToken, "POST", "/v1/approvals/"+ended+"/cancel", "[]") },
		"an outcome": func() reply {
			return w.do(botToken, "POST", "/v1/approvals/"+sent+"/outcome", `{"outcome":"succeeded"}`)
		},
	} {
		ask() // the first call is in the budget, the first outcome counts
		ask()
		ask().over(budget.Calls)
		least := uint64(math.MaxUint64) // what runs besides, and a pool that forgot its buffer, only add
		for range 6 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ask().over(budget.Calls)
			runtime.ReadMemStats(&after)
			least = min(least, after.TotalAlloc-before.TotalAlloc)
		}
		if least > 300<<10 {
			t.Errorf("%s: %d bytes for a refusal", name, least)
		}
	}
}

func TestRule12_WaitsOverTheBudget(t *testing.T) {
	w := newBudgetWorld(t)
	id := w.ask(transfer)
	w.limit(budget.Limits{Waits: 1}, budget.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.send(ctx, botToken, "GET", "/v1/approvals/"+id+"?wait=60s", "")
	}()
	w.eventually("it waits", func() bool { return !w.rest.budgets.Agent("bot").Free(budget.Waits) })
	for _, path := range []string{"/v1/approvals/" + id + "?wait=1s", "/v1/approvals/resolved?wait=1s"} {
		w.do(botToken, "GET", path, "").over(budget.Waits)
	}
	w.do(botToken, "POST", "/v1/calls?wait=1s", asked(9)).over(budget.Waits)
	if rs, err := lists.ListRequests(t.Context(), w.gate, approval.RequestQuery{}); err != nil || len(rs) != 1 {
		t.Errorf("%d requests, %v: nobody was to be asked", len(rs), err)
	}
	w.do(botToken, "GET", "/v1/approvals/"+id, "").is(200)
	w.do(otherToken, "POST", "/v1/calls?wait=1ms", asked(9)).is(202)
	cancel()
	testkit.Receive(t, "the answer", done)
	w.idle()
	w.do(botToken, "GET", "/v1/approvals/"+id+"?wait=1ms", "").is(200)
}

func TestRule12_StreamsOverTheBudget(t *testing.T) {
	w := newBudgetWorld(t)
	w.limit(budget.Limits{Streams: 1}, budget.Limits{Streams: 1})
	for _, token := range []string{botToken, hanaToken} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", w.srv.URL+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := w.srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		w.do(token, "GET", "/v1/events", "").over(budget.Streams)
		cancel()
		resp.Body.Close()
		w.idle()
	}
}

func TestRule12_WhatCameOfACallIsNotRefused(t *testing.T) {
	w := newBudgetWorld(t)
	const call = `{"tool":"transfer","args":{},"dispatch":true}`
	id := w.ask(call)
	w.decide(hanaToken, id, "approve", "").is(200)
	w.do(botToken, "POST", "/v1/calls", call).is(200)
	w.limit(budget.Limits{Calls: perMinute(1)}, budget.Limits{})
	w.do(botToken, "GET", "/v1/approvals/"+id, "").is(200)
	report := func() reply {
		return w.do(botToken, "POST", "/v1/approvals/"+id+"/outcome", `{"outcome":"succeeded"}`)
	}
	report().is(200)
	report().over(budget.Calls)
}

// askOther has the other agent make a request and returns its id.
func (w *world) askOther() string {
	w.t.Helper()
	return w.do(otherToken, "POST", "/v1/calls", transfer).is(202).str("approval_id")
}

func newAskingWorld(t *testing.T, l budget.Limits) *world {
	t.Helper()
	w := newBudgetWorld(t)
	w.limit(l, budget.Limits{})
	w.rest.gate = approval.NewGate(approval.Options{Store: w.store, Broker: approval.NewBroker(),
		Policy: rules{byName, terms}, Now: w.clock.Now, Budgets: w.rest.budgets, Notifier: w.outbox})
	w.ask(asked(1))
	w.ask(asked(1))
	w.ask(asked(2))
	return w
}

func TestRule12_RequestsOverTheBudget(t *testing.T) {
	w := newAskingWorld(t, budget.Limits{Requests: perMinute(2)})
	w.do(botToken, "POST", "/v1/calls", asked(3)).over(budget.Requests)
	w.do(botToken, "POST", "/v1/calls/batch", `{"calls":[`+asked(3)+`,`+asked(4)+`]}`).over(budget.Requests)
	if r := w.do(botToken, "POST", "/v1/calls?wait=1s", asked(3)); r.header.Get("Retry-After") != "30" {
		t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
	}
	w.do(botToken, "POST", "/v1/calls", `{"tool":"read_file","args":{}}`).is(200)
	w.do(otherToken, "POST", "/v1/calls", asked(3)).is(202)
	w.clock.Advance(30 * time.Second)
	w.ask(asked(3))
}

func TestRule12_NoRequestIsRefusedForItsPushes(t *testing.T) {
	w := newAskingWorld(t, budget.Limits{Pushes: perMinute(2)})
	w.ask(asked(3))
	w.do(botToken, "POST", "/v1/calls/batch", `{"calls":[`+asked(4)+`,`+asked(5)+`]}`).is(200)
}

func TestRule12_LargeBodiesAndReadsOfOnePrincipalTakeTurns(t *testing.T) {
	w := newBudgetWorld(t)
	w.limit(budget.Limits{}, budget.Limits{})
	id := w.ask(transfer)
	large := `{"tool":"transfer","args":{"text":"` + strings.Repeat("x", 1<<19) + `"}}`
	for name, ask := range map[string]func(ctx context.Context) reply{
		"a body": func(ctx context.Context) reply { return w.send(ctx, botToken, "POST", "/v1/calls", large) },
		"a read": func(ctx context.Context) reply { return w.send(ctx, botToken, "GET", "/v1/approvals/"+id, "") },
	} {
		t.Run(name, func(t *testing.T) {
			release, err := w.rest.budgets.Agent("bot").Turn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			answered := make(chan reply, 1)
			go func() { answered <- ask(context.Background()) }()
			w.do(otherToken, "POST", "/v1/calls", large).is(202) // nobody else notices
			w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200)
			w.do(botToken, "POST", "/v1/calls", transfer).is(202) // nor what is small
			select {
			case r := <-answered:
				t.Fatalf("it did not wait for its turn: %d", r.status)
			default:
			}
			release()
			if r := testkit.Receive(t, "the answer", answered); r.status >= 300 {
				t.Errorf("on its turn: %d %s", r.status, r.body)
			}
		})
	}
}

func TestRule12_ReadsOverTheBudgetOfBytes(t *testing.T) {
	w := newBudgetWorld(t)
	w.limit(budget.Limits{Bytes: perMinute(4096)}, budget.Limits{})
	id := w.ask(`{"tool":"transfer","args":{"text":"` + strings.Repeat("x", 2000) + `"}}`)
	look := func() reply { return w.do(botToken, "GET", "/v1/approvals/"+id, "") }
	n := 0
	for n < 10 && look().status == 200 {
		n++
	}
	if n != 2 {
		t.Errorf("%d looks, want 2", n)
	}
	look().over(budget.Bytes)
	w.do(botToken, "GET", "/v1/approvals/resolved", "").over(budget.Bytes)
	w.do(hanaToken, "GET", "/v1/approvals/"+id, "").is(200)
	w.do(botToken, "POST", "/v1/approvals/"+id+"/cancel", "").is(200)
	w.clock.Advance(2 * time.Minute)
	look().is(200)
}
