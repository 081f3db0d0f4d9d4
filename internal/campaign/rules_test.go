package campaign_test

import (
	"encoding/json"
	"slices"
	"time"

	"countersign/internal/campaign"
)

// ruleCases are histories for each rule of the checker: kept makes one that keeps it, and broken goes on from there to
// one that does not.
var ruleCases = []struct {
	rule, name   string
	kept, broken func(m *made)
}{
	{"used once", "two calls were told that they pass", approved, func(m *made) { m.use("R1") }},
	{"used once", "on record, though one agent was told", approved, func(m *made) {
		m.record(campaign.Event{Type: "approval_consumed", ApprovalID: "R1"})
	}},
	{"used once", "given back once, and used three times", func(m *made) {
		approved(m)
		m.Ops[2].Answer = campaign.Answer{Word: "ran"}
		m.record(campaign.Event{Type: "approval_returned", ApprovalID: "R1"})
		m.use("R1")
	}, func(m *made) { m.use("R1") }},
	{"no sufficient yes", "one of two", func(m *made) {
		m.ask("R1", "wire")
		m.yes("hana", "R1", false)
		m.yes("ken", "R1", true)
		m.use("R1")
	}, func(m *made) { m.Ops[2].Who = "hana" }},
	{"no sufficient yes", "the second yes was refused", func(m *made) {
		m.ask("R1", "wire")
		m.yes("hana", "R1", false)
		m.yes("ken", "R1", true)
		m.use("R1")
	}, func(m *made) { m.Ops[2].Status, m.Ops[2].Code = 403, "forbidden" }},
	{"no sufficient yes", "somebody's own request", func(m *made) {
		m.askAs("other", "R1", "wire", "{}")
		m.yes("hana", "R1", false)
		m.yes("ken", "R1", true)
		m.use("R1")
	}, func(m *made) {
		m.askAs("owned", "R2", "wire", "{}")
		m.yes("hana", "R2", false)
		m.yes("ken", "R2", true)
		m.use("R2")
	}},
	{"no sufficient yes", "a removed person's", func(m *made) {
		m.ask("R1", "pay")
		m.yes("ken", "R1", true)
		m.do(campaign.Op{Kind: campaign.Reload, Setting: "fewer"}).Answered = false
		m.use("R1")
	}, func(m *made) { m.Ops[2].Answered = true }},
	{"no sufficient yes", "an answer that nobody got may have been made", func(m *made) {
		m.ask("R1", "pay")
		m.yes("ken", "R1", true).Answered = false
		m.use("R1")
	}, func(m *made) { m.Ops[1].Start = time.Hour }},
	{"no sufficient yes", "of a grant whose maker was removed", func(m *made) {
		m.ask("R1", "pay")
		m.grant("R1", "G1", 0)
		m.useGrant("G1", "pay", `{"n":1}`)
	}, func(m *made) { m.Ops[1].Grants = false }},
	{"decided by one who may not", "an admin without the role", approved, func(m *made) {
		m.askAs("bot", "R2", "pay", "{}")
		m.yes("mio", "R2", true)
	}},
	{"decided by one who may not", "an agent", approved, func(m *made) {
		m.askAs("bot", "R2", "pay", "{}")
		m.yes("bot", "R2", true)
	}},
	{"decided by one who may not", "without a reason", func(m *made) {
		m.ask("R1", "close")
		m.yes("hana", "R1", true).Reason = "why not"
	}, func(m *made) { m.Ops[1].Reason = "" }},
	{"decided by one who may not", "without the second yes", func(m *made) {
		m.ask("R1", "open")
		m.yes("hana", "R1", true).Confirmed = true
	}, func(m *made) { m.Ops[1].Confirmed = false }},
	{"decided by nobody", "a forged press is on record", func(m *made) {
		m.ask("R1", "pay")
		m.do(campaign.Op{Kind: campaign.Decide, Who: "ken", ID: "R1", Forged: true, Status: 401})
		m.yes("hana", "R1", true)
	}, func(m *made) {
		m.record(campaign.Event{Type: "hitl_vote", ApprovalID: "R1", Actor: "ken", Decision: "approve"})
	}},
	{"decided by nobody", "a forged decision is taken", func(m *made) {
		m.ask("R1", "pay")
		m.yes("hana", "R1", true)
	}, func(m *made) { m.Ops[1].Forged = true }},
	{"denied by policy", "a server ran it", func(m *made) { m.allowed("read", "{}") }, func(m *made) {
		m.do(campaign.Op{Kind: campaign.Call, Agent: "bot", Tool: "erase", Answer: campaign.Answer{Word: "ran"}})
	}},
	{"deny by default", "a tool that nobody knows", func(m *made) { m.allowed("read", "{}") },
		func(m *made) { m.allowed("odd", "{}") }},
	{"ambiguous args", "letter case alone", func(m *made) { m.allowed("read", `{"a":1,"b":2}`) },
		func(m *made) { m.allowed("read", `{"a":1,"A":2}`) }},
	{"frozen", "a call that the policy allows", func(m *made) {
		m.freeze("bot")
		m.unfreeze("bot")
		m.allowed("read", "{}")
	}, func(m *made) { m.Ops[1].Start = time.Hour }},
	{"frozen", "all agents", func(m *made) {
		m.freeze("other")
		m.allowed("read", "{}")
	}, func(m *made) { m.freeze(""); m.allowed("read", "{}") }},
	{"after a freeze", "an approval from before", func(m *made) {
		m.freeze("bot")
		m.unfreeze("bot")
		approved(m)
	}, func(m *made) {
		m.askAs("bot", "R2", "pay", "{}")
		m.yes("hana", "R2", true)
		m.freeze("bot")
		m.unfreeze("bot")
		m.use("R2")
	}},
	{"after a freeze", "a grant from before", func(m *made) {
		m.ask("R1", "pay")
		m.grant("R1", "G1", 0)
	}, func(m *made) {
		m.freeze("bot")
		m.unfreeze("bot")
		m.useGrant("G1", "pay", `{"n":1}`)
	}},
	{"after its end", "denied", approved, func(m *made) {
		m.askAs("bot", "R2", "pay", "{}")
		m.no("hana", "R2")
		m.use("R2")
	}},
	{"after its end", "cancelled", approved, func(m *made) {
		m.askAs("bot", "R2", "pay", "{}")
		m.yes("hana", "R2", true)
		m.do(campaign.Op{Kind: campaign.Cancel, Who: "bot", ID: "R2"})
		m.use("R2")
	}},
	{"after its end", "the arguments before an edit", func(m *made) {
		m.ask("R1", "pay")
		m.edit("R1", "R2", "{}")
		m.use("R2")
	}, func(m *made) { m.use("R1") }},
	{"other args", "than people were shown", approved, func(m *made) {
		m.Ops[2].Answer.Args = json.RawMessage(`{"n":2}`)
	}},
	{"other args", "than the grant's", func(m *made) {
		m.ask("R1", "pay")
		m.grant("R1", "G1", 0)
		m.useGrant("G1", "pay", `{"n":1}`)
	}, func(m *made) { m.useGrant("G1", "pay", `{"n":2}`) }},
	{"no sufficient yes", "approved by one of two", func(m *made) {
		m.ask("R1", "wire")
		m.yes("hana", "R1", false)
		m.yes("ken", "R1", true)
	}, func(m *made) { m.Ops[1].Answer.Status = "approved" }},
	{"no sufficient yes", "a stand-in of nobody", standing, func(m *made) { m.Ops[0].Status = 403 }},
	{"no sufficient yes", "the delegation was over", standing, func(m *made) {
		m.do(campaign.Op{Kind: campaign.Undelegate, Who: "hana", ID: "Dhana"})
		m.use("R1")
	}},
	{"no sufficient yes", "the delegation's time was over", standing, func(m *made) { m.Ops[0].Lasts = time.Second }},
	{"no sufficient yes", "a stand-in and whom they stand in for", standing, func(m *made) { m.Ops[3].Who = "hana" }},
	{"decided by one who may not", "a denial by a stand-in of before who has said nothing", func(m *made) {
		m.delegate("hana", "leo")
		m.ask("R1", "wire")
		m.yes("leo", "R1", false)
		m.do(campaign.Op{Kind: campaign.Undelegate, Who: "hana", ID: "Dhana"})
		m.no("leo", "R1")
		m.Feed["bot"] = []string{"R1"}
	}, func(m *made) { m.Ops = slices.Delete(m.Ops, 2, 3) }},
	{"decided by one who may not", "a stand-in of nobody", standing, func(m *made) { m.Ops[0].To = "ken" }},
	{"other args", "more than a grant may vary", spending, func(m *made) {
		m.useGrant("G1", "spend", `{"amount":51,"n":1}`)
	}},
	{"another's approval", "another agent's", approved, func(m *made) { m.Ops[2].Agent = "other" }},
	{"a grant's uses", "one more", func(m *made) {
		m.ask("R1", "pay")
		m.grant("R1", "G1", 1)
		m.useGrant("G1", "pay", `{"n":1}`)
	}, func(m *made) { m.useGrant("G1", "pay", `{"n":1}`) }},
	{"a grant's total", "more than the total", spending, func(m *made) {
		m.useGrant("G1", "spend", `{"amount":41,"n":1}`)
	}},
	{"a grant ends", "revoked", func(m *made) {
		m.ask("R1", "pay")
		m.grant("R1", "G1", 0)
		m.do(campaign.Op{Kind: campaign.Revoke, Who: "hana", ID: "G1"})
	}, func(m *made) { m.useGrant("G1", "pay", `{"n":1}`) }},
	{"a grant ends", "its time", func(m *made) {
		m.ask("R1", "pay")
		m.grant("R1", "G1", 0)
		m.useGrant("G1", "pay", `{"n":1}`)
	}, func(m *made) { m.Grants[0].ExpiresAt = m.now() }},
	{"ran too often", "one approval, two runs", func(m *made) {
		approved(m)
		m.Ops[2].Answer = campaign.Answer{Word: "ran"}
		m.do(campaign.Op{Kind: campaign.Run, Agent: "bot", Tool: "pay", Args: `{"n":1}`})
	}, func(m *made) { m.do(campaign.Op{Kind: campaign.Run, Agent: "bot", Tool: "pay", Args: `{"n":1}`}) }},
	{"two ends", "denied and expired", func(m *made) {
		m.ask("R1", "pay")
		m.no("hana", "R1")
	}, func(m *made) {
		m.do(campaign.Op{Kind: campaign.Read, Who: "hana", ID: "R1", Answer: campaign.Answer{Status: "expired"}})
	}},
	{"backwards", "approved, then pending", approved, func(m *made) {
		m.do(campaign.Op{Kind: campaign.Read, Who: "hana", ID: "R1", Answer: campaign.Answer{Status: "pending"}})
	}},
	{"lost", "a request", func(m *made) { m.ask("R1", "pay") }, func(m *made) { m.Requests = nil }},
	{"a decision is kept", "an approval is gone", func(m *made) {
		m.ask("R1", "pay")
		m.yes("hana", "R1", true)
	}, func(m *made) { m.Requests[0].Status = "pending" }},
	{"a decision is kept", "a vote is gone", func(m *made) {
		m.ask("R1", "wire")
		m.yes("hana", "R1", false)
	}, func(m *made) { m.Requests[0].Votes = nil }},
	{"cancelled by one who may not", "another agent", func(m *made) {
		m.ask("R1", "pay")
		m.do(campaign.Op{Kind: campaign.Cancel, Who: "bot", ID: "R1"})
		m.Requests[0].Status = "cancelled"
		m.Feed["bot"] = []string{"R1"}
	}, func(m *made) { m.Ops[1].Who = "other" }},
	{"the deadline is exact", "approved at the deadline", approved, func(m *made) {
		m.Requests[0].ExpiresAt = m.Requests[0].ResolvedAt
	}},
	{"the deadline is exact", "used too late", approved, func(m *made) {
		m.Requests[0].UseBy = m.Requests[0].ConsumedAt
	}},
	{"the deadline is exact", "not ended when it was read", func(m *made) {
		m.ask("R1", "pay")
		m.ReadAt = m.now()
	}, func(m *made) { m.ReadAt = m.now().Add(2 * time.Hour) }},
	{"extended once", "twice", func(m *made) {
		m.ask("R1", "pay")
		m.record(campaign.Event{Type: "approval_extended", ApprovalID: "R1"})
	}, func(m *made) { m.record(campaign.Event{Type: "approval_extended", ApprovalID: "R1"}) }},
	{"one live request", "two at once", approved, func(m *made) {
		m.ask("R2", "pay")
		m.Requests[1].RequestedAt = m.Requests[0].RequestedAt.Add(time.Millisecond)
	}},
	{"a denial is remembered", "asked anew", func(m *made) {
		m.ask("R1", "pay")
		m.no("hana", "R1")
		m.askAs("bot", "R2", "pay", "{}")
	}, func(m *made) { m.ask("R3", "pay") }},
	{"an edit is kept", "other arguments", func(m *made) {
		m.ask("R1", "pay")
		m.edit("R1", "R2", "{}")
	}, func(m *made) { m.Requests[1].Args = json.RawMessage(`{"n":3}`) }},
	{"an edit is kept", "the old request lives", func(m *made) {
		m.ask("R1", "pay")
		m.edit("R1", "R2", "{}")
	}, func(m *made) { m.Requests[0].ReplacedBy = "" }},
	{"buttons go", "after the end", approved, func(m *made) {
		m.Cards = append(m.Cards, campaign.Card{Channel: "slack", ID: "R1", Buttons: true})
	}},
	{"pushed once", "two cards of one request", approved, func(m *made) { m.Cards = append(m.Cards, m.Cards[0]) }},
	{"somebody is asked", "no card", func(m *made) { m.ask("R1", "pay") }, func(m *made) { m.Cards = nil }},
	{"no holes", "a number is missing", func(m *made) {
		approved(m)
		m.Events[2].Data, m.Events[2].Type = json.RawMessage(`{"from_seq":2,"to_seq":2}`), "audit_gap"
		m.Events[1].Seq, m.Events[2].Seq = 1, 3
		m.History = campaign.History{Events: []campaign.Event{m.Events[0], m.Events[2]}, First: m.First,
			Settings: m.Settings}
	}, func(m *made) { m.Events[1].Data = nil }},
	{"not on record", "a use", approved, func(m *made) { m.drop("approval_consumed") }},
	{"not on record", "a decision", approved, func(m *made) { m.drop("hitl_decision") }},
	{"not on record", "a request", approved, func(m *made) { m.drop("approval_requested") }},
	{"not on record", "an allowed call", func(m *made) { m.allowed("read", "{}") },
		func(m *made) { m.drop("call_allowed") }},
	{"not on record", "an allowed call, long before an outage", func(m *made) {
		m.allowed("read", "{}")
		m.Outages = []campaign.Outage{{Start: m.at + time.Second/2, End: m.at + time.Second}}
		m.drop("call_allowed")
	}, func(m *made) { m.Outages[0].Start += time.Minute; m.Outages[0].End += time.Minute }},
	{"not on record", "a freeze", func(m *made) { m.freeze("bot") }, func(m *made) { m.drop("frozen") }},
	{"not on record", "a refusal", func(m *made) {
		approved(m)
		m.do(campaign.Op{Kind: campaign.Decide, Who: "ken", ID: "R1", Approve: true, Status: 409, Code: "already_resolved"})
		m.record(campaign.Event{Type: "decision_refused", ApprovalID: "R1", Actor: "ken", Decision: "approve"})
	}, func(m *made) { m.drop("decision_refused") }},
	{"not on record", "a press that was taken", func(m *made) {
		m.ask("R1", "pay")
		m.do(campaign.Op{Kind: campaign.Decide, Who: "hana", ID: "R1", Approve: true, Pressed: true})
		m.record(campaign.Event{Type: "decision_refused", ApprovalID: "R1", Actor: "hana", Decision: "approve"})
	}, func(m *made) { m.drop("decision_refused") }},
	{"the feed keeps endings", "not taken note of", func(m *made) {
		m.ask("R1", "pay")
		m.no("hana", "R1")
		m.Feed["bot"] = []string{"R1"}
	}, func(m *made) { m.Feed["bot"] = nil }},
	{"one denial ends it", "it goes on", func(m *made) {
		m.ask("R1", "pay")
		m.no("hana", "R1")
		m.Feed["bot"] = []string{"R1"}
	}, func(m *made) { m.Ops[1].Answer.Status = "pending" }},
	{"endings are told apart", "nobody said no", func(m *made) {
		m.ask("R1", "pay")
		m.no("hana", "R1")
		m.Feed["bot"] = []string{"R1"}
	}, func(m *made) { m.Ops = m.Ops[:1] }},
	{"shown to another", "another agent", func(m *made) {
		m.ask("R1", "pay")
		m.do(campaign.Op{Kind: campaign.Read, Who: "bot", ID: "R1", Answer: campaign.Answer{Status: "pending"}})
	}, func(m *made) { m.Ops[1].Who = "other" }},
}

// approved is the plain way of a call: asked, approved, used.
func approved(m *made) {
	m.ask("R1", "pay")
	m.yes("hana", "R1", true)
	m.use("R1")
}

// standing is the same with a vote that was given for another.
func standing(m *made) {
	m.delegate("hana", "leo")
	m.ask("R1", "wire")
	m.yes("leo", "R1", false)
	m.yes("ken", "R1", true)
	m.use("R1")
}

// spending is a grant whose amount may differ, used once.
func spending(m *made) {
	m.askAs("bot", "R1", "spend", `{"amount":10,"n":1}`)
	m.grant("R1", "G1", 0)
	m.useGrant("G1", "spend", `{"amount":40,"n":1}`)
}

// drop takes events out of the record, so that it has no hole.
func (m *made) drop(eventType string) {
	var left []campaign.Event
	for _, e := range m.Events {
		if e.Type != eventType {
			e.Seq = int64(len(left) + 1)
			left = append(left, e)
		}
	}
	m.Events = left
}
