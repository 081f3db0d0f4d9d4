package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/redact"
	"countersign/internal/history"
	"countersign/internal/lists"
	"countersign/internal/policy"
)

// compiled is a policy out of YAML.
func compiled(t testing.TB, src string) *policy.Policy {
	t.Helper()
	p, problems := policy.Compile(policy.Parse([]byte(src)), policy.Options{})
	if policy.HasErrors(problems) {
		t.Fatalf("%v, in\n%s", problems, src)
	}
	return p
}

func all(records ...history.Record) iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func replay(t *testing.T, p approval.Policy, records ...history.Record) history.Replayed {
	t.Helper()
	r, err := history.Replay(t.Context(), p, nil, all(records...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// event is the audit event of a call that a rule decided, as the gate writes it.
func event(t testing.TB, kind approval.EventType, tool, raw string, more map[string]any) approval.Event {
	t.Helper()
	a, err := args.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]any{"args": redact.New().ForLogs().ArgsLimited(a.Canonical(), 1024), "args_hash": a.Hash(),
		"rule":        "r",
		"reason_code": "allowed"}
	for k, v := range more {
		data[k] = v
	}
	b, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return approval.Event{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Type: kind, Agent: "bot", Tool: tool, Data: b}
}

// What the audit log keeps of a call is judged only where it is known to be all of it.
func TestACallOfWhichTooLittleIsKeptIsUnknown(t *testing.T) {
	long := fmt.Sprintf(`{"path":"/srv/a","text":%q}`, fmt.Sprintf("%02000d", 7))
	for name, c := range map[string]struct {
		raw  string
		more map[string]any
		want history.Now
	}{
		"whole":     {`{"path":"/srv/a","n":1.50}`, nil, history.NowAllow},
		"cut":       {long, nil, history.NowUnknown},
		"masked":    {`{"path":"/srv/a","password":"hunter2hunter2"}`, nil, history.NowUnknown},
		"another's": {`{"path":"/srv/a"}`, map[string]any{"args": `{"path":"/srv/b"}`}, history.NowUnknown},
		"args that count for less": {`{"path":"/srv/a"}`, map[string]any{"args": `{"path":"/srv/a","note":"x"}`},
			history.NowUnknown},
		"a scope with a secret": {`{"path":"/srv/a"}`,
			map[string]any{"scope": "/srv •••• (9 characters, sha256 00000000)"}, history.NowUnknown},
		"a session that is not all": {`{"path":"/srv/a"}`, map[string]any{"session_id": "a⟨U+202E⟩"}, history.NowUnknown},
		"no JSON":                   {`{"path":"/srv/a"}`, map[string]any{"args": "x"}, history.NowUnknown},
	} {
		r, ok := history.OfEvent(event(t, approval.EventCallAllowed, "files/read", c.raw, c.more))
		if !ok {
			t.Fatalf("%s: it is no call", name)
		}
		p := compiled(t, `policy: {rules: [{name: reading, tools: [files/read], conditions: [{param: path, under: [/srv]}], action: allow}]}`)
		if got := replay(t, p, r).Table[history.WasAllowed]; got[c.want] != 1 {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	for _, e := range []approval.Event{
		event(t, approval.EventCallDenied, "read", `{}`, map[string]any{"reason_code": "frozen"}),
		event(t, approval.EventDecision, "read", `{}`, nil), event(t, approval.EventVote, "read", `{}`, nil),
		{Type: approval.EventCallAllowed, Data: []byte(`[]`)},
	} {
		if r, ok := history.OfEvent(e); ok {
			t.Errorf("%s is a call that a rule decided: %+v", e.Type, r)
		}
	}
}

func TestReplayBeginsWithWhatPeopleDenied(t *testing.T) {
	p := compiled(t, `
policy:
 rules:
  - {name: small, tools: [pay], when: args.cents < 100, action: allow}
  - {name: never, tools: [drop], action: deny}`)
	record := func(tool, raw string, was history.Was) history.Record {
		return history.Record{ID: tool + raw, Agent: "bot", Tool: tool, Args: []byte(raw), Was: was, By: "hana", Reason: "no",
			Rule: "old"}
	}
	got := replay(t, p,
		record("pay", `{"cents":5}`, history.WasApproved), record("pay", `{"cents":5}`, history.WasApproved),
		record("pay", `{"cents":7}`, history.WasDenied),
		record("pay", `{"cents":700}`, history.WasDenied), record("drop", `{}`, history.WasApproved),
		record("pay", `{"cents":8}`, history.WasRefused),
		record("pay", `{"cents":9}`, history.WasAllowed), record("other", `{}`, history.WasExpired))
	if len(got.Denied) != 1 || got.Denied[0].ID != `pay{"cents":7}` || got.Denied[0].NowRule != "small" ||
		got.Denied[0].By != "hana" {
		t.Errorf("people denied, and it would have run: %+v", got.Denied)
	}
	if len(got.Refused) != 1 || got.Refused[0].ID != `pay{"cents":8}` {
		t.Errorf("a rule denied, and it would have run: %+v", got.Refused)
	}
	equal(t, "changes", got.Changes, []history.Count{
		{Tool: "pay", Was: history.WasApproved, Now: history.NowAllow, Rule: "small", Calls: 2,
			IDs: []string{`pay{"cents":5}`, `pay{"cents":5}`}},
		{Tool: "drop", Was: history.WasApproved, Now: history.NowDeny, Rule: "never", Calls: 1, IDs: []string{`drop{}`}},
		{Tool: "pay", Was: history.WasDenied, Now: history.NowAllow, Rule: "small", Calls: 1,
			IDs: []string{`pay{"cents":7}`}},
		{Tool: "pay", Was: history.WasRefused, Now: history.NowAllow, Rule: "small", Calls: 1,
			IDs: []string{`pay{"cents":8}`}},
	})
	if got.Calls != 8 || got.Table[history.WasDenied][history.NowAsk] != 1 ||
		got.Table[history.WasExpired][history.NowAsk] != 1 {
		t.Errorf("%d calls: %v", got.Calls, got.Table)
	}
}

// What hangs on the words of a tool's server, which are not on record, is unknown; what does not is judged.
func TestWhatHangsOnAnnotationsIsUnknown(t *testing.T) {
	p := compiled(t, `
policy:
 rules:
  - {name: reads, tools: [git/*], annotations: {readOnly: true, destructive: false}, action: allow}
  - {name: never, tools: [git/push], action: deny}`)
	rules := p.Rules()
	hints := history.Hints(rules[0].Annotations, rules[1].Annotations, nil)
	if len(hints) != 9 {
		t.Errorf("%d hints, want 9: each of two is true, false or not there", len(hints))
	}
	got, err := history.Replay(t.Context(), p, hints, all(
		history.Record{Server: "git", Tool: "log", Args: []byte(`{}`), Was: history.WasDenied},
		history.Record{Tool: "own", Args: []byte(`{}`), Was: history.WasDenied}))
	if err != nil || len(got.Denied) != 0 || got.Table[history.WasDenied][history.NowUnknown] != 1 ||
		got.Table[history.WasDenied][history.NowAsk] != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// What a call was, its record says, and not the name of its tool.
func TestACallOfAMethodIsJudgedAsOne(t *testing.T) {
	p := compiled(t, `policy: {rules: [{name: tools, tools: ["*:*"], action: deny}, {name: reads, method: "resources/*", tools: ["*"], action: allow}]}`)
	was := history.Record{Server: "s", Tool: "resources:read", Args: []byte(`{}`), Was: history.WasApproved}
	method := was
	method.Method = "resources/read"
	got := replay(t, p, was, method)
	equal(t, "approved", got.Table[history.WasApproved], map[history.Now]int{history.NowAllow: 1, history.NowDeny: 1})
}

func TestReplayEndsWithAnError(t *testing.T) {
	p := compiled(t, `policy: {rules: []}`)
	broken := errors.New("broken")
	if _, err := history.Replay(t.Context(), p, nil, func(yield func(history.Record, error) bool) {
		yield(history.Record{}, broken)
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := history.Replay(ctx, p, nil, all(history.Record{})); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The policy in force, over its own record, would let nothing through that was denied, and judges nothing otherwise:
// what people denied, it asks.
func TestThePolicyInForceAgreesWithItsRecord(t *testing.T) {
	p := compiled(t, `
policy:
 rules:
  - {name: guarded, conditions: [{param: path, under: [/etc]}], action: deny}
  - {name: reports, tools: [write], conditions: [{param: path, under: [/srv]}], action: allow}
  - {name: small, tools: [bank/pay], when: has(args.cents) && args.cents < 100, risk: medium}
  - {name: here, tools: [look], when: 'scope == "/home"', action: allow}
  - {name: never, tools: [drop], agents: [bot], action: deny}`)
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	var records []history.Record
	for i := range 3000 {
		raw := pick(`{}`, `{"path":"/etc/passwd"}`, `{"path":"/srv/a"}`, `{"path":"/srv/../etc"}`,
			`{"Path":"/srv/a","cents":5}`, `{"cents":500}`, `{"cents":5}`,
			`{"path":"/srv/b","token":"ghp_abcdefghijklmnopqrstuvwxyz0123456789"}`, fmt.Sprintf(`{"n":%d}`, i))
		a, err := args.Parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		c := approval.Call{Agent: pick("bot", "other"), Server: pick("", "bank"), Tool: pick("write", "pay", "look", "drop"),
			Scope: pick("", "/home"), Args: a}
		was := pick("approved", "denied", "expired", "cancelled", "pending")
		kind := approval.EventCallAllowed
		switch p.Evaluate(t.Context(), c).Action {
		case approval.Quarantine:
			records = append(records, history.Record{Agent: c.Agent, Scope: c.Scope, Server: c.Server, Tool: c.Tool,
				Args: a.Canonical(), Was: history.Was(was)})
			continue
		case approval.Deny:
			kind = approval.EventCallDenied
		}
		e := event(t, kind, c.Target(), raw, map[string]any{"scope": c.Scope})
		e.Agent = c.Agent
		r, ok := history.OfEvent(e)
		if !ok {
			t.Fatal("it is no call")
		}
		records = append(records, r)
	}
	got := replay(t, p, records...)
	if len(got.Denied) > 0 || len(got.Refused) > 0 || len(got.Changes) > 0 || len(got.Unknown) == 0 {
		t.Errorf("denied %+v\nrefused %+v\nchanges %+v\nunknown %+v", got.Denied, got.Refused, got.Changes, got.Unknown)
	}
	for was, now := range got.Table {
		if slices.Contains([]history.Was{history.WasDenied, history.WasApproved}, was) && now[history.NowAsk] == 0 {
			t.Errorf("%s: %v", was, now)
		}
	}
}

// What the gate itself has put on record is judged again as it was.
func TestWhatTheGateRecordedIsJudgedAgainAlike(t *testing.T) {
	r := newRecord(t)
	p := compiled(t, `
policy:
 rules:
  - {name: reports, tools: [write], conditions: [{param: path, under: [/srv]}], action: allow}
  - {name: here, tools: [look], when: 'scope == "/home" && session_id == "s1"', action: allow}
  - {name: never, tools: [bank/drop], action: deny}`)
	gate := approval.NewGate(approval.Options{Store: r.DB, Broker: approval.NewBroker(), Policy: p, Masker: redact.New()})
	for _, c := range []struct{ server, tool, raw string }{
		{"", "write", `{"path":"/srv/a","n":1.50,"text":"a\u202eb <tag> \u0000"}`}, {"", "write", `{"path":"/etc/a"}`},
		{"bank", "drop", `{}`}, {"", "look", `{"x":1e3}`},
		{"", "write", `{"path":"/srv/b","password":"hunter2hunter2"}`}, {"bank", "pay", `{"cents":5}`},
	} {
		a, err := args.Parse([]byte(c.raw))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gate.Check(t.Context(), approval.Call{Agent: "bot", Server: c.server, Tool: c.tool, Args: a,
			Scope: "/home", SessionID: "s1"}); err != nil {
			t.Fatal(err)
		}
	}
	var records []history.Record
	for _, kind := range []approval.EventType{approval.EventCallAllowed, approval.EventCallDenied} {
		events, err := lists.ListEvents(t.Context(), gate, approval.EventQuery{Type: kind})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if x, ok := history.OfEvent(e); ok {
				records = append(records, x)
			}
		}
	}
	got := replay(t, p, records...)
	equal(t, "the table", got.Table, map[history.Was]map[history.Now]int{
		history.WasAllowed: {history.NowAllow: 2, history.NowUnknown: 1}, history.WasRefused: {history.NowDeny: 1},
	})
}

// A call that a grant let through had a person's yes: a policy that asks about it changes nothing.
func TestACallThatAGrantLetThroughWasAsked(t *testing.T) {
	r, ok := history.OfEvent(event(t, approval.EventGrantUsed, "pay", `{"cents":5}`, nil))
	if !ok || r.Was != history.WasGranted {
		t.Fatalf("%+v, %v", r, ok)
	}
	got := replay(t, compiled(t, `policy: {rules: [{name: paying, tools: [pay], action: quarantine}]}`), r)
	equal(t, "the table", got.Table, map[history.Was]map[history.Now]int{history.WasGranted: {history.NowAsk: 1}})
	if len(got.Changes) > 0 {
		t.Errorf("changes: %+v", got.Changes)
	}
	if found := suggest(t, r, r, r, r, r, r); found.Calls != 0 {
		t.Errorf("people were asked about %d of them", found.Calls)
	}
}
