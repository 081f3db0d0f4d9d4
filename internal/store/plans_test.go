package store

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/store/sqlite/sqlite3"
	"countersign/schema/schematest"
)

// connect opens a connection to a file that has the tables.
func connect(t *testing.T) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.Open(schematest.NewFile(t), sqlite3.Options{Pragmas: []string{"query_only = ON"}, Queries: queries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// What is read often finds its rows by an index, and in the order it needs.
func TestPlans(t *testing.T) {
	c := connect(t)
	// a few rows, by id
	sorted := map[Query]bool{selectBatch: true, selectBatchHeads: true, selectSendable: true, selectDueSoon: true,
		selectVotes: true, selectDelegations: true, selectPendingCards: true}
	whole := map[string]bool{"SCAN epochs": true, "SCAN passkey_owners": true} // a few rows, read whole and by their key
	for i, sql := range queries {
		p := planOf(t, c, sql)
		if strings.Contains(p, "SCAN") && !strings.Contains(p, "USING") && !strings.Contains(p, "store_state") && !whole[p] &&
			!strings.Contains(p, "CONSTANT ROW") ||
			strings.Contains(p, "TEMP B-TREE") && !sorted[Query(i)] {
			t.Errorf("%s\nfor %s", p, sql)
		}
	}
	// An agent may have opened any number of cards where its scope stands for a session.
	if p := planOf(t, c, queries[newestCard]); !strings.Contains(p,
		"(agent=? AND session=? AND turn=? AND scope=? AND grouping=?)") {
		t.Errorf("%s\nfor %s", p, queries[newestCard])
	}
}

// planOf is how SQLite answers a query.
func planOf(t *testing.T, c *sqlite3.Conn, sql string) string {
	t.Helper()
	s := c.Prepare("EXPLAIN QUERY PLAN " + sql)
	defer s.Finalize()
	var steps []string
	for s.Step() {
		s.ColumnInt()
		s.ColumnInt()
		s.ColumnInt()
		steps = append(steps, s.ColumnText())
	}
	if s.Err() != nil {
		t.Errorf("%v\nin %s", s.Err(), sql)
	}
	return strings.Join(steps, "; ")
}

// narrowing is a way to narrow a list: the fields of its query that it sets, and how.
type narrowing[Q any] struct {
	fields string
	set    func(q *Q)
}

// someOf calls f with each query that some of the ways narrow, at most most of them, and the names of what they set. A
// field that none of them sets, and that is not among the others, fails: it has to be found along some index too.
func someOf[Q any](t *testing.T, ways []narrowing[Q], most int, others string, f func(q Q, by []string)) {
	t.Helper()
	known := strings.Fields(others)
	for _, w := range ways {
		known = append(known, strings.Fields(w.fields)...)
	}
	for field := range reflect.TypeFor[Q]().Fields() {
		if !slices.Contains(known, field.Name) {
			t.Errorf("%s of %T is in no list that is looked at here", field.Name, *new(Q))
		}
	}
	var add func(q Q, by []string, from int)
	add = func(q Q, by []string, from int) {
		f(q, by)
		for i := from; i < len(ways) && len(by) < most; i++ {
			narrowed := q
			ways[i].set(&narrowed)
			add(narrowed, append(by[:len(by):len(by)], ways[i].fields), i+1)
		}
	}
	add(*new(Q), nil, 0)
}

// listPlan checks that a list is read along an index of its table, or else its key, from one row on that the query
// names: none is read whole, and none is sorted but where few are.
func listPlan(t *testing.T, c *sqlite3.Conn, l *list, a along, few bool) {
	t.Helper()
	sql := l.sql.String()
	for _, bound := range []string{"id < ", "id >= ", "seq < ",
		"seq >= "} { // SQLite begins where the first of several says
		if strings.Count(sql, " "+bound) > 1 {
			t.Errorf("more than one %sin %s", bound, sql)
		}
	}
	p := planOf(t, c, sql)
	main, _, _ := strings.Cut(p, ";")
	switch {
	case few && !strings.Contains(p, "SCAN"):
		return // by what they are about
	case a.index == "approval_notifications_sendable" && strings.Contains(main, "INDEX "+a.index):
		return // what waits to be sent, put into order
	case strings.Contains(p, "TEMP B-TREE"), strings.Contains(p, "SCAN"):
	case a.index == byKey && strings.Contains(main, "PRIMARY KEY (rowid>?"), strings.Contains(main, "INDEX "+a.index+" ("):
		return
	}
	t.Errorf("%s\nfor %s", p, sql)
}

// Every list is read along an index and in its order, whatever it is narrowed to; what no index finds is looked for
// from a reach on.
func TestListsAreReadAlongAnIndex(t *testing.T) {
	c := connect(t)
	type rq = approval.RequestQuery
	status := func(s approval.Status) narrowing[rq] {
		return narrowing[rq]{"Status", func(q *rq) { q.Status = s }}
	}
	someOf(t, []narrowing[rq]{status(approval.Pending), status(approval.Approved), status(approval.Denied),
		status(approval.Expired), status(approval.Cancelled),
		{"Tool", func(q *rq) { q.Tool = "pay" }}, {"Tool", func(q *rq) { q.Tool = "bank/pay" }},
		{"Agent", func(q *rq) { q.Agent = "bot" }}, {"Risk", func(q *rq) { q.Risk = approval.RiskHigh }},
		{"Person", func(q *rq) { q.Person = "hana" }}, {"Text", func(q *rq) { q.Text = "pay" }},
		{"CorrelationID", func(q *rq) { q.CorrelationID = "c" }},
		{"Since Until", func(q *rq) { q.Since, q.Until = time.Now(), time.Now() }},
		{"After", func(q *rq) { q.After = "x" }}}, 4, "From Limit Bytes Figures", func(q rq, _ []string) {
		q.From = "y"
		listPlan(t, c, requestList(headList, q), requestsAlong(&q), false)
		q.After = cmp.Or(q.After, "z")
		listPlan(t, c, requestReach(q), requestsAlong(&q), false)
	})
}

func TestNotificationsAreReadAlongAnIndex(t *testing.T) {
	c := connect(t)
	type nq = approval.NotificationQuery
	status := func(s approval.NotificationStatus) narrowing[nq] {
		return narrowing[nq]{"Status", func(q *nq) { q.Status = s }}
	}
	someOf(t, []narrowing[nq]{status(approval.Queued), status(approval.Retrying), status(approval.Sent),
		status(approval.Delivered), status(approval.Failed), status(approval.Skipped),
		{"ApprovalID", func(q *nq) { q.ApprovalID = "x" }}, {"BatchID", func(q *nq) { q.BatchID = "x" }},
		{"MessageID", func(q *nq) { q.MessageID = "x" }}, {"Channel", func(q *nq) { q.Channel = "c" }},
		{"Recipient", func(q *nq) { q.Recipient = "U1" }}, {"Channel Recipient", func(q *nq) {
			q.Channel, q.Recipient = "c", "U1"
		}},
		{"Addresses", func(q *nq) { q.Addresses = []approval.Address{{Channel: "c", To: "U1"}, {Channel: "c", To: "U2"}} }},
		{"Kind", func(q *nq) { q.Kind = approval.KindReply }}, {"Kind", func(q *nq) { q.Kind = approval.KindEdit }},
		{"Several", func(q *nq) { q.Several = true }},
		{"Since Until", func(q *nq) { q.Since, q.Until = time.Now(), time.Now() }},
		{"After", func(q *nq) { q.After = "x" }}}, 4, "From Narrow Limit Bytes", func(q nq, _ []string) {
		q.From = "y"
		l := notificationList("id, body", q)
		l.add(" ORDER BY " + notificationOrder(&q) + " DESC")
		listPlan(t, c, l, notificationsAlong(&q), ofFew(&q))
		if q.After = cmp.Or(q.After, "z"); !ofFew(&q) {
			listPlan(t, c, notificationReach(q), notificationsAlong(&q), false)
		}
	})
}

func TestEventsAreReadAlongAnIndex(t *testing.T) {
	c := connect(t)
	type eq = approval.EventQuery
	of := func(e approval.EventType) narrowing[eq] { return narrowing[eq]{"Type", func(q *eq) { q.Type = e }} }
	someOf(t, []narrowing[eq]{of(approval.EventCallAllowed), of(approval.EventApprovalRequested),
		of(approval.EventNotificationSent), of(approval.EventDecision),
		{"Decision", func(q *eq) { q.Decision = "allow" }}, {"Decision", func(q *eq) { q.Decision = "deny" }},
		{"Risk", func(q *eq) { q.Risk = approval.RiskHigh }}, {"Tool", func(q *eq) { q.Tool = "pay" }},
		{"Agent", func(q *eq) { q.Agent = "bot" }}, {"Actor", func(q *eq) { q.Actor = "hana" }},
		{"ApprovalID", func(q *eq) { q.ApprovalID = "x" }}, {"CorrelationID", func(q *eq) { q.CorrelationID = "x" }},
		{"SessionID", func(q *eq) { q.SessionID = "x" }}, {"Told", func(q *eq) { q.Told = true }},
		{"Ascending", func(q *eq) { q.Ascending = true }}}, 4, "Since Until Before AfterSeq Limit Bytes",
		func(q eq, _ []string) {
			for _, to := range []int64{0, 9} {
				listPlan(t, c, eventList(eventColumns.names(), q, 3, to), eventsAlong(&q), false)
				if a := eventsAlong(&q); a.index != byKey {
					listPlan(t, c, eventReach(q, 3, to), a, false)
				}
			}
		})
}

// What matches little and has an index of its own is found along it.
func TestWhatMatchesLittleHasAnIndex(t *testing.T) {
	for want, got := range map[string]along{
		"approval_requests_pending":     requestsAlong(&approval.RequestQuery{Status: approval.Pending, Agent: "bot"}),
		"approval_requests_ended":       requestsAlong(&approval.RequestQuery{Status: approval.Denied, Tool: "pay"}),
		"approval_requests_correlation": requestsAlong(&approval.RequestQuery{Status: approval.Denied, CorrelationID: "c"}),
		"approval_notifications_unsent": notificationsAlong(&approval.NotificationQuery{Status: approval.Failed,
			Channel: "c"}),
		"approval_notifications_sendable": notificationsAlong(&approval.NotificationQuery{Channel: "c", Recipient: "U",
			Status: approval.Queued}),
		"approval_notifications_several": notificationsAlong(&approval.NotificationQuery{Channel: "c", Recipient: "U",
			Kind: approval.KindReply, Status: approval.Queued}),
		"audit_events_decision": eventsAlong(&approval.EventQuery{Type: approval.EventDecision, Decision: "timeout"}),
		"audit_events_type":     eventsAlong(&approval.EventQuery{Type: approval.EventDecision, Decision: "approve"}),
		"audit_events_agent":    eventsAlong(&approval.EventQuery{Told: true, Agent: "bot"}),
		byKey: eventsAlong(&approval.EventQuery{Type: approval.EventCallAllowed, Decision: "allow",
			Agent: "bot"}),
	} {
		if got.index != want {
			t.Errorf("along %q, want %q", got.index, want)
		}
	}
}
