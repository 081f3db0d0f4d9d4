package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign/approval"
)

// oddSession is a session that JSON writes in another way.
const oddSession = "s\"日本"

// callData is the data of an event of a call that was allowed or denied.
func callData(session string) []byte {
	return approval.EventData(map[string]any{"args": `{"session_id":"s9"}`, "session_id": session})
}

// eventsOfMany appends five events of each of four requests and calls beside them, and two others. It returns them as
// they were stored, and the sessions of each request.
func eventsOfMany(t *testing.T, s approval.Store) (all []approval.Event, sessions map[string][]string) {
	t.Helper()
	sessions = map[string][]string{}
	put := func(e approval.Event) {
		update(t, s, func(tx approval.Tx) error {
			stored, err := tx.Append(e)
			all = append(all[:len(all):len(all)], stored)
			return err
		})
	}
	call := func(i int, typ approval.EventType, session string) {
		e := approval.Event{Type: typ, Actor: "agent:bot", Agent: "bot", Tool: "pay", CorrelationID: fmt.Sprint("c", i%3)}
		if session != "" {
			e.Data = callData(session)
		}
		put(e)
	}
	for i := range 4 {
		first := fmt.Sprint("s", i%2)
		call(i, approval.EventCallAllowed, first)
		r := insert(t, s, "bot", fmt.Sprint("tool", i), func(r *approval.Request) { r.SessionID = first })
		sessions[r.ID] = []string{first}
		if i == 3 {
			update(t, s, func(tx approval.Tx) error { return tx.AddSession(r.ID, oddSession) })
			sessions[r.ID] = append(sessions[r.ID], oddSession)
		}
		cause := fmt.Sprint("c", i%3)
		put(approval.Event{Type: approval.EventApprovalRequested, ApprovalID: r.ID, Agent: "bot", Actor: "agent:bot",
			CorrelationID: cause})
		put(approval.Event{Type: approval.EventNotificationSent, ApprovalID: r.ID, CorrelationID: cause})
		put(approval.Event{Type: approval.EventDecision, ApprovalID: r.ID, Agent: "bot", CorrelationID: cause,
			Actor: []string{"hana", "ken"}[i%2], Data: approval.EventData(map[string]any{"session_id": "s9"})})
		call(i, approval.EventCallDenied, []string{oddSession, ""}[i%2])
	}
	put(approval.Event{Type: approval.EventPolicyReloaded, Actor: "hana"})
	put(approval.Event{Type: approval.EventDecisionRefused, ApprovalID: "none", Actor: "hana"})
	readSeqs(t, s, all)
	return all, sessions
}

// Events are found by whose they are: of a request, of an actor, of a cause, of a session; and by several of these.
func eventsOfOne(t *testing.T, s approval.Store) {
	all, sessions := eventsOfMany(t, s)
	third, last := all[2*5+1], all[len(all)-1]
	of := func(session string) func(e approval.Event) bool {
		return func(e approval.Event) bool {
			if e.Type == approval.EventCallAllowed || e.Type == approval.EventCallDenied {
				return string(e.Data) == string(callData(session))
			}
			return slices.Contains(sessions[e.ApprovalID], session)
		}
	}
	for _, c := range []struct {
		name string
		q    approval.EventQuery
		n    int
		keep func(e approval.Event) bool
	}{
		{"actor", approval.EventQuery{Actor: "hana"}, 4, func(e approval.Event) bool { return e.Actor == "hana" }},
		{"request", approval.EventQuery{ApprovalID: third.ApprovalID}, 3,
			func(e approval.Event) bool { return e.ApprovalID == third.ApprovalID }},
		{"no request", approval.EventQuery{ApprovalID: "none"}, 1,
			func(e approval.Event) bool { return e.ApprovalID == "none" }},
		{"request, since before it", approval.EventQuery{ApprovalID: third.ApprovalID, Since: all[0].At}, 3,
			func(e approval.Event) bool { return e.ApprovalID == third.ApprovalID }},
		{"request, since after it", approval.EventQuery{ApprovalID: third.ApprovalID, Since: last.At.Add(time.Hour)}, 0,
			func(approval.Event) bool { return false }},
		{"cause", approval.EventQuery{CorrelationID: "c1"}, 5,
			func(e approval.Event) bool { return e.CorrelationID == "c1" }},
		{"session", approval.EventQuery{SessionID: "s0"}, 2 * 4, of("s0")},
		{"session that joined", approval.EventQuery{SessionID: oddSession}, 2 + 3, of(oddSession)},
		{"session that is only in args and in what people decided", approval.EventQuery{SessionID: "s9"}, 0, of("s9")},
		{"session and actor", approval.EventQuery{SessionID: "s0", Actor: "hana"}, 2,
			func(e approval.Event) bool { return of("s0")(e) && e.Actor == "hana" }},
		{"all together", approval.EventQuery{
			SessionID: "s0", ApprovalID: third.ApprovalID, CorrelationID: "c2", Actor: "hana", Agent: "bot",
			Type: approval.EventDecision, Since: all[0].At, Before: last.Seq,
		}, 1, func(e approval.Event) bool { return e.ApprovalID == third.ApprovalID && e.Actor == "hana" }},
	} {
		var want []approval.Event
		for _, e := range all {
			if c.keep(e) {
				want = append(want, e)
			}
		}
		if len(want) != c.n {
			t.Fatalf("%s: the test wants %d events, and made %d", c.name, c.n, len(want))
		}
		checkEvents(t, s, c.name, c.q, want)
	}
}
