package approval_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/approval/message"
	"countersign/internal/lists"
	"countersign/internal/testkit"
)

func digest(n int) string { return fmt.Sprintf("%064x", n) }

// read is a call of a server's tool that the gateway sees as n.
func read(n int, args string) approval.Call {
	c := call(args)
	c.Server, c.Tool, c.ToolDigest, c.ToolSeen = "files", "read_file", digest(n), true
	return c
}

// says is a call of which an agent says that its server's tool looks like n.
func says(agent string, n int, args string) approval.Call {
	c := read(n, args)
	c.Agent, c.ToolSeen = agent, false
	return c
}

func allows(approval.Call) approval.Verdict {
	return approval.Verdict{Action: approval.Allow, Risk: approval.RiskLow, Rule: "reading", ReasonCode: "allowed"}
}

func (w *world) pin() approval.ToolPin { return w.pinOf("") }

// pinOf is what is on record of the tool: of an agent's word, or of what the gateway saw.
func (w *world) pinOf(agent string) approval.ToolPin {
	w.t.Helper()
	var p approval.ToolPin
	err := w.store.View(w.ctx, func(tx approval.Tx) (err error) {
		p, err = tx.Pin(agent, "files", "read_file")
		if errors.Is(err, approval.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) events(kind approval.EventType) []approval.Event {
	w.t.Helper()
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: kind, Ascending: true, Limit: 10000})
	if err != nil {
		w.t.Fatal(err)
	}
	return es
}

func TestAToolIsPinnedWhenItIsFirstSeen(t *testing.T) {
	for name, verdict := range map[string]func(approval.Call) approval.Verdict{
		"allowed": allows, "quarantined": asks,
		"observed": func(approval.Call) approval.Verdict { v := quarantine(approval.RiskHigh); v.Observe = true; return v },
	} {
		w := newWorld(t)
		w.policy(verdict)
		for i := range 3 {
			w.clock.advance(time.Minute)
			w.check(read(1, fmt.Sprintf(`{"n":%d}`, i)))
		}
		want := approval.ToolPin{Server: "files", Tool: "read_file", Digest: digest(1), SeenAt: start.Add(time.Minute)}
		if got := w.pin(); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		es := w.events(approval.EventToolPinned)
		if len(es) != 1 || es[0].Actor != "agent:bot" || es[0].Tool != "files/read_file" ||
			string(es[0].Data) != `{"digest":"`+digest(1)+`"}` {
			t.Errorf("%s: audited %+v", name, es)
		}
	}
}

// A call of nobody who looked at the tool is judged by the policy alone and pins nothing.
func TestWithoutADigestNothingIsPinned(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	w.expect(read(1, `{}`), approval.AnswerAllow)
	c := read(1, `{}`)
	c.ToolDigest = ""
	w.expect(c, approval.AnswerAllow)
	c.Tool = "write_file"
	w.expect(c, approval.AnswerAllow)
	if n := w.count("tool_pinned"); n != 1 {
		t.Errorf("%d pins, want 1", n)
	}
}

func TestAChangedToolNeedsAPerson(t *testing.T) {
	verdict := func(a approval.Action, risk approval.Risk) approval.Verdict {
		v := quarantine(risk)
		v.Action, v.Timeout, v.RequireReason = a, 7*time.Minute, true
		return v
	}
	for _, c := range []struct {
		name string
		v    approval.Verdict
		word approval.AnswerKind
		want approval.Verdict // of what a request takes over
	}{
		{"allowed", allows(approval.Call{}), approval.AnswerPending, approval.Verdict{Risk: approval.RiskHigh,
			Timeout: 30 * time.Minute}},
		{"allowed, critical", approval.Verdict{Action: approval.Allow, Risk: approval.RiskCritical, RequireReason: true,
			Timeout: time.Second}, approval.AnswerPending,
			approval.Verdict{Risk: approval.RiskCritical, Timeout: 30 * time.Minute}},
		{"quarantined", verdict(approval.Quarantine, approval.RiskLow), approval.AnswerPending,
			approval.Verdict{Risk: approval.RiskHigh, Timeout: 7 * time.Minute, RequireReason: true}},
		{"quarantined, critical", verdict(approval.Quarantine, approval.RiskCritical), approval.AnswerPending,
			approval.Verdict{Risk: approval.RiskCritical, Timeout: 7 * time.Minute, RequireReason: true}},
		{"denied", verdict(approval.Deny, approval.RiskLow), approval.AnswerDenied, approval.Verdict{}},
		{"no action", verdict("", approval.RiskLow), approval.AnswerDenied, approval.Verdict{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.policy(allows)
			w.expect(read(1, `{"first":1}`), approval.AnswerAllow)
			w.policy(func(approval.Call) approval.Verdict { return c.v })
			out := w.expect(read(2, `{}`), c.word)
			if c.word != approval.AnswerPending {
				if out.ReasonCode != c.v.ReasonCode {
					t.Errorf("got %+v", out)
				}
				return
			}
			r := w.request(out.Request.ID)
			got := approval.Verdict{Risk: r.Risk, Timeout: r.ExpiresAt.Sub(r.RequestedAt), RequireReason: r.RequireReason}
			if !reflect.DeepEqual(got, c.want) || r.ReasonCode != "tool_changed" || out.ReasonCode != "tool_changed" ||
				out.Risk != c.want.Risk || r.ToolDigest != digest(2) {
				t.Errorf("got %+v and %+v, want %+v", out, r, c.want)
			}
			if want := "The description, schema or annotations of files/read_file are not those first seen at 2026-11-21T10:00:00.000Z; approving accepts the tool as it is now."; r.HumanMessage != want {
				t.Errorf("message %q, want %q", r.HumanMessage, want)
			}
			if got, ok := message.ReadToolChange(r.HumanMessage); !ok || got != (message.ToolChange{Tool: "files/read_file",
				At: approval.FormatTime(r.RequestedAt)}) {
				t.Errorf("it is read as %+v, %t", got, ok)
			}
			if w.pin().Digest != digest(1) {
				t.Error("asking has moved the pin")
			}
		})
	}
}

// In mode observe a changed tool runs like everything else, and what would have happened is on record.
func TestObserveTellsOfAChangedTool(t *testing.T) {
	w := newWorld(t)
	w.policy(func(approval.Call) approval.Verdict { v := allows(approval.Call{}); v.Observe = true; return v })
	w.expect(read(1, `{}`), approval.AnswerAllow)
	w.expect(read(2, `{}`), approval.AnswerAllow)
	es := w.events(approval.EventCallAllowed)
	var data struct {
		Observed   approval.Action
		ReasonCode string `json:"reason_code"`
	}
	if err := json.Unmarshal(es[len(es)-1].Data, &data); err != nil {
		t.Fatal(err)
	}
	if data.Observed != approval.Quarantine || data.ReasonCode != "tool_changed" ||
		es[len(es)-1].Reason != "tool_changed" || w.pin().Digest != digest(1) {
		t.Errorf("got %+v, %+v", es, data)
	}
}

func TestApprovingAcceptsTheTool(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	w.expect(read(1, `{}`), approval.AnswerAllow)
	id := w.expect(read(2, `{}`), approval.AnswerPending).Request.ID
	w.clock.advance(time.Minute)
	w.mustDecide(id, true, hana, "")
	want := approval.ToolPin{Server: "files", Tool: "read_file", Digest: digest(2), SeenAt: start.Add(time.Minute),
		AcceptedBy: "hana",
		Earlier:    digest(1)}
	if got := w.pin(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	es := w.events(approval.EventToolAccepted)
	if len(es) != 1 || es[0].Actor != "hana" || es[0].ApprovalID != id || string(es[0].Data) != `{"new":"`+digest(2)+
		`","old":"`+digest(1)+`"}` {
		t.Errorf("audited %+v", es)
	}
	// The very call uses its approval, so that it is not told later that it was not used; others are allowed again.
	w.expect(read(2, `{"other":1}`), approval.AnswerAllow)
	if out := w.expect(read(2, `{}`), approval.AnswerApproved); out.Request.ID != id {
		t.Errorf("got %+v", out)
	}
	w.expect(read(2, `{}`), approval.AnswerAllow)
	// The tool that was there before is not another one.
	w.expect(read(1, `{}`), approval.AnswerAllow)
	out := w.expect(read(3, `{}`), approval.AnswerPending)
	if !strings.Contains(out.Request.HumanMessage, "are not those accepted by hana at 2026-11-21T10:01:00.000Z;") {
		t.Errorf("message %q", out.Request.HumanMessage)
	}
}

func TestOtherEndsAcceptNothing(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	w.expect(read(1, `{}`), approval.AnswerAllow)
	denied := w.expect(read(2, `{"n":1}`), approval.AnswerPending).Request.ID
	w.mustDecide(denied, false, hana, "")
	_, err := w.decide(w.expect(read(2, `{"n":2}`), approval.AnswerPending).Request.ID, true, bot, "")
	wantCode(t, err, approval.CodeNotAnApprover)
	w.clock.advance(time.Hour) // the rest expires
	if _, err := w.gate.Expire(w.ctx); err != nil {
		t.Fatal(err)
	}
	// Approving an ordinary request accepts nothing either, also when the tool has moved on since.
	w.policy(asks)
	ordinary := w.expect(read(1, `{"n":3}`), approval.AnswerPending).Request.ID
	if got := w.pin(); got.Digest != digest(1) || got.AcceptedBy != "" || w.count("tool_accepted") != 0 {
		t.Errorf("got %+v", got)
	}
	w.mustDecide(w.expect(read(3, `{"n":4}`), approval.AnswerPending).Request.ID, true, hana, "")
	w.mustDecide(ordinary, true, hana, "")
	if got := w.pin(); got.Digest != digest(3) || w.count("tool_accepted") != 1 {
		t.Errorf("got %+v", got)
	}
}

// The approval that accepted one state of a tool is not used for the next.
func TestAnAcceptanceIsOfOneState(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	w.expect(read(1, `{}`), approval.AnswerAllow)
	second := w.expect(read(2, `{}`), approval.AnswerPending).Request.ID
	third := w.expect(read(3, `{"n":3}`), approval.AnswerPending).Request.ID
	w.mustDecide(second, true, hana, "")
	w.mustDecide(third, true, hana, "")
	w.expect(read(3, `{}`), approval.AnswerAllow)
	if r := w.request(second); !r.Live() {
		t.Errorf("used: %+v", r)
	}
	c := read(3, `{"n":3}`)
	c.Dispatch = true
	w.expect(c, approval.AnswerApproved)
	if r := w.request(third); !r.DispatchedAt.Equal(start) {
		t.Errorf("sent on, and stored as %+v", r)
	}
}

// A remembered denial of a changed tool is on record as that, not as the call that the policy alone allows.
func TestADeniedToolIsNotOnRecordAsAllowed(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	w.expect(read(1, `{}`), approval.AnswerAllow)
	w.mustDecide(w.expect(read(2, `{}`), approval.AnswerPending).Request.ID, false, hana, "")
	w.expect(read(2, `{}`), approval.AnswerDenied)
	if es := w.events(approval.EventCallDenied); len(es) != 1 || es[0].Reason != "denied_by_person" || es[0].Data != nil ||
		es[0].Risk != approval.RiskHigh {
		t.Errorf("got %+v", es)
	}
}

// An approval holds for the tool as it was when it was asked for.
func TestAnApprovalIsOfTheToolAsItWas(t *testing.T) {
	w := newWorld(t)
	id := w.expect(read(1, `{}`), approval.AnswerPending).Request.ID
	w.expect(read(2, `{}`), approval.AnswerPending) // joins, of another state of the tool
	w.mustDecide(id, true, hana, "")
	next := w.expect(read(2, `{}`), approval.AnswerPending)
	if old := w.request(id); old.Status != approval.Cancelled || old.ResolvedBy != "system:policy" ||
		old.ResolveReason != "tool_changed" {
		t.Errorf("the approval: %+v", old)
	}
	if next.Request.ID == id || !next.Created || next.ReasonCode != "tool_changed" ||
		next.Request.ToolDigest != digest(2) {
		t.Errorf("asked anew: %+v", next)
	}
	w.mustDecide(next.Request.ID, true, hana, "")
	w.expect(read(2, `{}`), approval.AnswerApproved)
}

// One that was given while nobody looked at the tool does not cover a change of it either.
func TestAnApprovalOfNoToolInParticular(t *testing.T) {
	blind := read(1, `{}`)
	blind.ToolDigest = ""
	for _, c := range []struct {
		seen int
		word approval.AnswerKind
	}{{1, approval.AnswerApproved}, {2, approval.AnswerPending}} {
		w := newWorld(t)
		w.expect(read(c.seen, `{"first":1}`), approval.AnswerPending)
		w.mustDecide(w.expect(blind, approval.AnswerPending).Request.ID, true, hana, "")
		w.expect(read(1, `{}`), c.word)
	}
}

func TestAWaiterDoesNotUseAnApprovalOfAnotherTool(t *testing.T) {
	for _, c := range []struct {
		name    string
		asked   int // digest; 0: nobody looked
		waits   int
		word    approval.AnswerKind
		observe bool
	}{
		{"the same", 1, 1, approval.AnswerApproved, false},
		{"another", 1, 2, approval.AnswerCancelled, false},
		{"nobody looked, and it is the one on record", 0, 1, approval.AnswerApproved, false},
		{"nobody looked, and it has changed", 0, 2, approval.AnswerCancelled, false},
		{"nobody looks now", 1, 0, approval.AnswerApproved, false},
		{"another, while all is only observed", 1, 2, approval.AnswerApproved, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			of := func(n int) approval.Call {
				r := read(n, `{}`)
				if n == 0 {
					r.ToolDigest = ""
				}
				return r
			}
			w.expect(read(1, `{"first":1}`), approval.AnswerPending)
			first := w.expect(of(c.asked), approval.AnswerPending)
			w.mustDecide(first.Request.ID, true, hana, "")
			if c.observe {
				w.policy(func(approval.Call) approval.Verdict { v := quarantine(approval.RiskHigh); v.Observe = true; return v })
			}
			out, err := w.holdOn(of(c.waits), first, time.Minute)
			if err != nil || out.Kind != c.word {
				t.Fatalf("got %+v, %v, want %s", out, err, c.word)
			}
			if c.word == approval.AnswerCancelled && (out.ReasonCode != "tool_changed" ||
				w.request(first.Request.ID).ResolveReason != "tool_changed") {
				t.Errorf("got %+v", out)
			}
		})
	}
}

// Whoever waits for the approval that accepts the tool gets it.
func TestAWaiterUsesTheApprovalThatAcceptsTheTool(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	w.expect(read(1, `{}`), approval.AnswerAllow)
	first := w.expect(read(2, `{}`), approval.AnswerPending)
	w.mustDecide(first.Request.ID, true, hana, "")
	out, err := w.holdOn(read(2, `{}`), first, time.Minute)
	if err != nil || out.Kind != approval.AnswerApproved {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestTwoStatesOfAToolAtOnceMakeOnePin(t *testing.T) {
	for range 20 {
		w := newWorld(t)
		w.policy(allows)
		var wg sync.WaitGroup
		var mu sync.Mutex
		allowed := map[int]int{}
		for i := range 8 {
			wg.Go(func() {
				out, err := w.gate.Check(w.ctx, read(i%2, `{}`))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if out.Kind == approval.AnswerAllow {
					allowed[i%2]++
				} else if out.Kind != approval.AnswerPending {
					t.Errorf("got %+v", out)
				}
			})
		}
		testkit.Wait(t, "all callers", wg.Wait)
		pinned := 0
		if w.pin().Digest == digest(1) {
			pinned = 1
		}
		if allowed[pinned] != 4 || allowed[1-pinned] != 0 || w.count("tool_pinned") != 1 {
			t.Fatalf("pinned %d, allowed %v, %d pins", pinned, allowed, w.count("tool_pinned"))
		}
	}
}

// While pins move to and fro, nobody who asks after an acceptance is judged by the tool that was before it.
func TestNobodyIsJudgedByAnOldPin(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	w.expect(read(0, `{}`), approval.AnswerAllow)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { // they keep the memory of pins busy
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := w.gate.Check(w.ctx, read(n%8, fmt.Sprintf(`{"busy":%d}`, i))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := 1; n < 8; n++ {
		c := read(n, fmt.Sprintf(`{"n":%d}`, n))
		w.mustDecide(w.expect(c, approval.AnswerPending).Request.ID, true, hana, "")
		for range 20 {
			next, err := w.gate.Check(w.ctx, read(n+1, `{"next":1}`))
			if err != nil || next.Kind != approval.AnswerPending {
				t.Fatalf("the tool after %d: got %+v, %v", n, next, err)
			}
			if now, err := w.gate.Check(w.ctx, read(n, `{"new":1}`)); err != nil || now.Kind != approval.AnswerAllow {
				t.Fatalf("tool %d: got %+v, %v", n, now, err)
			}
		}
	}
	close(stop)
	testkit.Wait(t, "the callers", wg.Wait)
}

func TestPinsSurviveARestart(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "again.db")
	w.open(path, rules{allows, terms})
	w.expect(read(1, `{}`), approval.AnswerAllow)
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	w.open(path, rules{allows, terms})
	w.expect(read(1, `{}`), approval.AnswerAllow)
	w.expect(read(2, `{}`), approval.AnswerPending)
}

// In a batch, one transaction, the first call's tool is the one on record for the second.
func TestPinsInABatch(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{read(1, `{"n":1}`), read(1, `{"n":2}`), read(2, `{"n":3}`)})
	if err != nil || outs[0].Kind != approval.AnswerAllow || outs[1].Kind != approval.AnswerAllow ||
		outs[2].Kind != approval.AnswerPending {
		t.Errorf("got %+v, %v", outs, err)
	}
}

func denies(approval.Call) approval.Verdict {
	return approval.Verdict{Action: approval.Deny, Risk: approval.RiskHigh, ReasonCode: "no"}
}

// Whatever the answer, and whoever looked: what is not let through, and asked of nobody, puts nothing on record.
func TestRule12ADeniedCallPinsNothing(t *testing.T) {
	for name, of := range map[string]func(n int, args string) approval.Call{
		"seen": read, "said": func(n int, args string) approval.Call { return says("bot", n, args) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.policy(denies)
			w.expect(of(1, `{}`), approval.AnswerDenied)
			w.policy(asks)
			blind := of(1, `{}`)
			blind.ToolDigest, blind.ToolSeen = "", false
			w.mustDecide(w.expect(blind, approval.AnswerPending).Request.ID, false, hana, "")
			w.expect(of(1, `{}`), approval.AnswerDenied) // by a person, a moment ago
			if n := w.count("tool_pinned"); n != 0 || w.pin() != (approval.ToolPin{}) || w.pinOf("bot") != (approval.ToolPin{}) {
				t.Fatalf("%d pins: %+v, %+v", n, w.pin(), w.pinOf("bot"))
			}
			w.policy(allows)
			w.expect(of(2, `{}`), approval.AnswerAllow)
		})
	}
}

// What an agent says of a tool binds that agent: neither another one, nor what the gateway saw.
func TestRule12WhatAnAgentSaysOfAToolBindsOnlyItself(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	w.expect(says("mallory", 6, `{}`), approval.AnswerAllow)
	w.expect(says("bot", 1, `{}`), approval.AnswerAllow)
	w.expect(read(2, `{}`), approval.AnswerAllow)
	for agent, n := range map[string]int{"mallory": 6, "bot": 1, "": 2} {
		if p := w.pinOf(agent); p.Digest != digest(n) || p.Agent != agent {
			t.Errorf("%q: got %+v, want %d", agent, p, n)
		}
	}
	// It is held to its own word, whatever others say and saw.
	w.expect(says("mallory", 6, `{"again":1}`), approval.AnswerAllow)
	w.expect(says("mallory", 2, `{}`), approval.AnswerPending)
	w.expect(says("bot", 6, `{}`), approval.AnswerPending)
	w.expect(read(6, `{"n":1}`), approval.AnswerPending)
	w.expect(read(1, `{"n":1}`), approval.AnswerPending)

	// An acceptance of what one agent says is of that agent's word, too.
	id := w.expect(says("mallory", 7, `{"accept":1}`), approval.AnswerPending).Request.ID
	w.mustDecide(id, true, hana, "")
	if p := w.pinOf("mallory"); p.Digest != digest(7) || p.AcceptedBy != "hana" {
		t.Errorf("accepted: %+v", p)
	}
	w.expect(says("mallory", 7, `{"after":1}`), approval.AnswerAllow)
	w.expect(says("bot", 1, `{"after":1}`), approval.AnswerAllow)
	w.expect(says("bot", 7, `{"after":1}`), approval.AnswerPending)
	w.expect(read(2, `{"after":1}`), approval.AnswerAllow)
	w.expect(read(7, `{"after":1}`), approval.AnswerPending)
	if p := w.pin(); p.Digest != digest(2) || p.AcceptedBy != "" {
		t.Errorf("the gateway's: %+v", p)
	}
}

// An agent that said nothing of a tool yet is held to what the gateway saw of it.
func TestAnAgentsFirstWordIsComparedWithWhatTheGatewaySaw(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	w.expect(read(1, `{}`), approval.AnswerAllow)
	w.expect(says("ken", 1, `{}`), approval.AnswerAllow)
	id := w.expect(says("bot", 2, `{}`), approval.AnswerPending).Request.ID
	if w.pinOf("bot") != (approval.ToolPin{}) || w.pinOf("ken").Digest != digest(1) {
		t.Errorf("got %+v and %+v", w.pinOf("bot"), w.pinOf("ken"))
	}
	w.mustDecide(id, true, hana, "")
	w.expect(says("bot", 2, `{}`), approval.AnswerApproved)
	w.expect(says("bot", 2, `{}`), approval.AnswerAllow)
	w.expect(read(1, `{}`), approval.AnswerAllow)
	w.expect(read(2, `{"seen":1}`), approval.AnswerAllow) // a person took it so for this agent
	other := read(2, `{"seen":1}`)
	other.Agent = "ken"
	w.expect(other, approval.AnswerPending)
	if es := w.events(approval.EventToolAccepted); len(es) != 1 || string(es[0].Data) != `{"new":"`+digest(2)+`","old":"`+
		digest(1)+`"}` {
		t.Errorf("audited %+v", es)
	}
}

// Whatever another agent says, in whatever order, and whoever approves it: what an agent and the gateway are
// answered is what they are answered without it.
func TestRule12NoAgentsDigestChangesAnothersAnswers(t *testing.T) {
	type step struct {
		who           string // "": the gateway, for bot
		digest        int
		approve, deny bool
	}
	w := newWorld(t)
	w.policy(func(c approval.Call) approval.Verdict {
		if c.Rationale == "deny" {
			return denies(c)
		}
		return allows(c)
	})
	run := func(server string, steps []step) (words []string) {
		for i, s := range steps {
			c := says(s.who, s.digest, fmt.Sprintf(`{"n":%d}`, i))
			if s.who == "" {
				c = read(s.digest, fmt.Sprintf(`{"n":%d}`, i))
			}
			c.Server = server
			if s.deny {
				c.Rationale = "deny"
			}
			out := w.check(c)
			if out.Kind == approval.AnswerPending && s.approve {
				w.mustDecide(out.Request.ID, true, hana, "")
			}
			if s.who != "mallory" {
				words = append(words, string(out.Kind))
			}
		}
		return words
	}
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{rapid.SampledFrom([]string{"", "bot", "mallory"}).Draw(t, "who"), rapid.IntRange(0, 2).Draw(t, "digest"),
				rapid.Bool().Draw(t, "approve"), rapid.Bool().Draw(t, "deny")}
		}), 1, 12).Draw(t, "steps")
		n++
		without := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.who == "mallory" })
		if got, want := run(fmt.Sprintf("with%d", n), steps), run(fmt.Sprintf("without%d", n), without); !slices.Equal(got,
			want) {
			t.Fatalf("with mallory %v, without %v", got, want)
		}
	})
}

// A server that has several states of a tool at once, as while a new version is rolled out, asks once for each: what
// was accepted holds, for approvals and grants that were given since, too. The oldest of many makes room.
func TestEveryAcceptedStateOfAToolHolds(t *testing.T) {
	w := newWorld(t)
	w.policy(allows)
	w.expect(read(1, `{}`), approval.AnswerAllow)
	accept := func(n int) {
		t.Helper()
		w.clock.advance(time.Minute)
		args := fmt.Sprintf(`{"n":%d}`, n)
		w.mustDecide(w.expect(read(n, args), approval.AnswerPending).Request.ID, true, hana, "")
		w.clock.advance(time.Minute)
	}
	accept(2)
	for range 3 {
		w.expect(read(1, `{}`), approval.AnswerAllow)
		w.expect(read(2, `{}`), approval.AnswerAllow)
	}
	if n := w.count("tool_accepted"); n != 1 {
		t.Errorf("%d acceptances, want 1", n)
	}
	// An approval of a call holds for each state that was known when it was given, and for none that came after.
	w.policy(asks)
	approved := func(n int, args string) {
		t.Helper()
		w.mustDecide(w.expect(read(n, args), approval.AnswerPending).Request.ID, true, hana, "")
	}
	approved(1, `{"a":1}`)
	w.expect(read(2, `{"a":1}`), approval.AnswerApproved)
	approved(1, `{"a":2}`)
	accept(3)
	w.expect(read(3, `{"a":2}`), approval.AnswerPending)

	w.policy(allows)
	for n := 4; n <= 9; n++ {
		accept(n)
	}
	for n := 2; n <= 9; n++ {
		w.expect(read(n, `{}`), approval.AnswerAllow)
	}
	w.expect(read(1, `{}`), approval.AnswerPending)
}

// A tool that was remembered by the digest of what its server listed, in that order, is known by it, once and for all;
// a tool that differs in content is not.
func TestAToolThatWasRememberedAsItWasListedIsKnown(t *testing.T) {
	listed := func(n, was int, args string) approval.Call {
		c := read(n, args)
		c.ListedDigest = digest(was)
		return c
	}
	for _, said := range []bool{false, true} {
		w := newWorld(t)
		w.policy(allows)
		as := func(c approval.Call) approval.Call { c.ToolSeen = !said; return c }
		w.expect(as(read(1, `{}`)), approval.AnswerAllow)
		w.expect(as(listed(3, 2, `{}`)), approval.AnswerPending)
		w.expect(as(listed(5, 1, `{}`)), approval.AnswerAllow)
		w.expect(as(listed(5, 4, `{}`)), approval.AnswerAllow) // in another order
		w.expect(as(read(5, `{}`)), approval.AnswerAllow)
		w.expect(as(listed(6, 1, `{}`)), approval.AnswerPending) // nothing is known by the old form any more
		es := w.events(approval.EventToolPinned)
		if len(es) != 2 || !strings.Contains(string(es[1].Data), `"digest":"`+digest(5)+`"`) ||
			!strings.Contains(string(es[1].Data), `"was":"`+digest(1)+`"`) {
			t.Errorf("audited %+v", es)
		}
	}
	// What waits or was approved goes on.
	w := newWorld(t)
	w.policy(asks)
	w.mustDecide(w.expect(read(1, `{}`), approval.AnswerPending).Request.ID, true, hana, "")
	w.expect(listed(5, 1, `{}`), approval.AnswerApproved)
}
