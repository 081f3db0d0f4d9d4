package campaign_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/campaign"
)

// made is a history made by hand: one agent, two people, and what a case adds.
type made struct {
	campaign.History
	at    time.Duration
	began time.Time
	seq   int64
}

func newMade() *made {
	m := &made{began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	people := map[string]campaign.Person{"hana": {Approver: true, Admin: true, Groups: []string{"finance"}},
		"ken": {Approver: true, Groups: []string{"finance"}}, "mio": {Admin: true},
		"leo": {Approver: true}}
	tools := map[string]campaign.Tool{
		"read": {Action: "allow"}, "erase": {Action: "deny"}, "pay": {Grants: true},
		"wire":  {Stages: []campaign.Stage{{Group: "finance", Count: 2}}, Separate: true},
		"close": {Reason: true}, "open": {Confirm: true}, "note": {Ignore: "memo"},
		"spend": {Grants: true, AtMost: 50, Total: 80},
	}
	fewer := map[string]campaign.Person{"hana": people["hana"]}
	m.First, m.Steady, m.Calm = "all", true, true
	m.Settings = map[string]*campaign.Setting{
		"all":   {People: people, Owners: map[string]string{"owned": "ken"}, Tools: tools},
		"fewer": {People: fewer, Owners: map[string]string{"owned": "ken"}, Tools: tools},
	}
	m.Failed, m.Feed = map[string]bool{}, map[string][]string{}
	return m
}

// do adds an operation that was answered, a second after the one before.
func (m *made) do(o campaign.Op) *campaign.Op {
	m.at += time.Second
	o.N, o.Start, o.End, o.Answered = len(m.Ops)+1, m.at, m.at+time.Millisecond, true
	if o.Status == 0 {
		o.Status = 200
	}
	m.Ops = append(m.Ops, &o)
	return &o
}

func (m *made) now() time.Time { return m.began.Add(m.at) }

func (m *made) record(e campaign.Event) {
	m.seq++
	e.Seq, e.At = m.seq, m.now()
	m.Events = append(m.Events, e)
}

func (m *made) request(id string) *campaign.Request {
	for i := range m.Requests {
		if m.Requests[i].ID == id {
			return &m.Requests[i]
		}
	}
	panic("no request " + id)
}

// ask has bot ask about a tool, and makes a request of it.
func (m *made) ask(id, tool string) {
	m.askAs("bot", id, tool, `{"n":1}`)
}

func (m *made) askAs(agent, id, tool, args string) {
	m.do(campaign.Op{Kind: campaign.Call, Who: agent, Agent: agent, Tool: tool, Args: args, Status: 202,
		Answer: campaign.Answer{Word: "pending", ID: id}})
	m.Requests = append(m.Requests, campaign.Request{ID: id, Status: "pending", Agent: agent, Tool: tool,
		Args: json.RawMessage(args), RequestedAt: m.now(), ExpiresAt: m.now().Add(time.Hour)})
	m.Cards = append(m.Cards, campaign.Card{Channel: "line", To: "hana", ID: id, Pushed: true})
	m.record(campaign.Event{Type: "approval_requested", ApprovalID: id, Agent: agent})
}

// yes has somebody approve a request; the last yes makes it approved.
//
//nolint:revive // flag-parameter: it is what the answer says
func (m *made) yes(who, id string, last bool) *campaign.Op {
	r := m.request(id)
	o := m.do(campaign.Op{Kind: campaign.Decide, Who: who, ID: id, Approve: true,
		Answer: campaign.Answer{Status: "pending"}})
	event := "hitl_vote"
	if last {
		event, o.Answer.Status = "hitl_decision", "approved"
		r.Status, r.ResolvedAt, r.ResolvedBy, r.UseBy = "approved", m.now(), who, m.now().Add(time.Hour)
	}
	r.Votes = append(r.Votes, campaign.Vote{Person: who, Decision: "approve"})
	m.record(campaign.Event{Type: event, ApprovalID: id, Actor: who, Decision: "approve"})
	return o
}

func (m *made) no(who, id string) *campaign.Op {
	r := m.request(id)
	o := m.do(campaign.Op{Kind: campaign.Decide, Who: who, ID: id, Answer: campaign.Answer{Status: "denied"}})
	r.Status, r.ResolvedAt, r.ResolvedBy = "denied", m.now(), who
	r.Votes = append(r.Votes, campaign.Vote{Person: who, Decision: "deny"})
	m.record(campaign.Event{Type: "hitl_decision", ApprovalID: id, Actor: who, Decision: "deny"})
	return o
}

// use has the agent of a request pass with it.
func (m *made) use(id string) *campaign.Op {
	r := m.request(id)
	o := m.do(campaign.Op{Kind: campaign.Call, Who: r.Agent, Agent: r.Agent, Tool: r.Tool, Args: string(r.Args),
		Answer: campaign.Answer{Word: "approved", ID: id, Args: r.Args}})
	if r.ConsumedAt.IsZero() {
		r.ConsumedAt = m.now()
	}
	m.record(campaign.Event{Type: "approval_consumed", ApprovalID: id, Agent: r.Agent})
	return o
}

func (m *made) freeze(agent string) *campaign.Op {
	o := m.do(campaign.Op{Kind: campaign.Freeze, Who: "hana", Agent: agent})
	m.record(campaign.Event{Type: "frozen", Agent: agent, Actor: "hana"})
	return o
}

func (m *made) unfreeze(agent string) {
	m.do(campaign.Op{Kind: campaign.Unfreeze, Who: "hana", Agent: agent})
	m.record(campaign.Event{Type: "unfrozen", Agent: agent, Actor: "hana"})
}

func (m *made) allowed(tool, args string) {
	m.do(campaign.Op{Kind: campaign.Call, Who: "bot", Agent: "bot", Tool: tool, Args: args,
		Answer: campaign.Answer{Word: "allow"}})
	m.record(campaign.Event{Type: "call_allowed", Agent: "bot", Tool: tool})
}

// delegate has somebody stand in for another.
func (m *made) delegate(principal, to string) {
	o := m.do(campaign.Op{Kind: campaign.Delegate, Who: principal, For: principal, To: to, Lasts: time.Hour})
	o.Answer.Delegation = "D" + principal
}

// grant has hana approve a request for longer.
func (m *made) grant(id, grant string, uses int) {
	r := m.request(id)
	m.yes("hana", id, true).Grants = true
	m.Grants = append(m.Grants, campaign.Grant{ID: grant, Decision: "approve", Agent: r.Agent, Tool: r.Tool, Args: r.Args,
		RequestID: id, MadeBy: "hana", Uses: uses, ExpiresAt: m.now().Add(time.Hour)})
}

// useGrant has a call pass with a grant.
func (m *made) useGrant(grant, tool, args string) *campaign.Op {
	o := m.do(campaign.Op{Kind: campaign.Call, Who: "bot", Agent: "bot", Tool: tool, Args: args,
		Answer: campaign.Answer{Word: "allow", Grant: grant}})
	data, err := json.Marshal(map[string]string{"grant_id": grant, "args": args})
	if err != nil {
		panic(err)
	}
	m.record(campaign.Event{Type: "grant_used", Agent: "bot", Tool: tool, Data: data})
	return o
}

// edit has hana approve other arguments.
func (m *made) edit(id, to, args string) *campaign.Op {
	r := m.request(id)
	o := m.do(campaign.Op{Kind: campaign.Decide, Who: "hana", ID: id, Approve: true, NewArgs: args,
		Answer: campaign.Answer{ID: to, Status: "approved"}})
	r.Status, r.EndCode, r.ReplacedBy, r.ResolvedAt = "denied", "edited", to, m.now()
	m.Requests = append(m.Requests, campaign.Request{ID: to, Status: "approved", Agent: r.Agent, Tool: r.Tool,
		Args: json.RawMessage(args), RequestedAt: m.now(), ResolvedAt: m.now(), ExpiresAt: m.now().Add(time.Hour),
		UseBy: m.now().Add(time.Hour), Replaces: id, Votes: []campaign.Vote{{Person: "hana", Decision: "approve"}}})
	m.record(campaign.Event{Type: "approval_requested", ApprovalID: to})
	m.record(campaign.Event{Type: "hitl_decision", ApprovalID: id, Actor: "hana", Decision: "deny"})
	m.record(campaign.Event{Type: "hitl_decision", ApprovalID: to, Actor: "hana", Decision: "approve"})
	return o
}

// Each rule of the checker has histories that keep it, and some that are the same but for breaking it.
func TestEachRuleIsSeenToBeBroken(t *testing.T) {
	for _, c := range ruleCases {
		t.Run(c.rule+", "+c.name, func(t *testing.T) {
			kept := newMade()
			c.kept(kept)
			if got := campaign.Check(&kept.History); len(got) > 0 {
				t.Errorf("a history that keeps the rules is said to break them: %v", got)
			}
			broken := newMade()
			c.kept(broken)
			c.broken(broken)
			got := campaign.Check(&broken.History)
			if !slices.ContainsFunc(got, func(v campaign.Violation) bool { return v.Rule == c.rule }) {
				t.Errorf("a history that breaks the rule: %v", got)
			}
		})
	}
}

// Tell leads from a violation to what was done with its request.
func TestTellShowsThePieceAboutARequest(t *testing.T) {
	m := newMade()
	m.ask("R1", "pay")
	m.askAs("bot", "R2", "wire", `{"n":2}`)
	m.yes("hana", "R1", true)
	m.use("R1")
	m.use("R1")
	got := campaign.Tell(&m.History, "R1")
	if strings.Count(got, "approved R1") != 2 || !strings.Contains(got, "on record") || strings.Contains(got, "R2") {
		t.Errorf("told is:\n%s", got)
	}
}
