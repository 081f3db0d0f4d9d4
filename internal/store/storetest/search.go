package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/approval"
)

// step waits until the store's next time is another.
func step(t *testing.T, s approval.Store) (now time.Time) {
	t.Helper()
	at := func() (at time.Time) {
		update(t, s, func(tx approval.Tx) error { at = tx.Now(); return nil })
		return at
	}
	for before := at(); !now.After(before); now = at() {
		time.Sleep(time.Millisecond)
	}
	return now
}

// requestsToFind are as many requests, each made at a time of its own, newest first.
func requestsToFind(t *testing.T, s approval.Store) []approval.Request {
	t.Helper()
	texts := []string{"Pay 5% of it", "pay all", "Send 日本 a mail", `a_b\c`, "axb"}
	for i, text := range texts {
		step(t, s)
		r := insert(t, s, "bot", fmt.Sprint("tool", i), func(r *approval.Request) {
			r.HumanMessage, r.CorrelationID = text, fmt.Sprint("c", i%2)
		})
		end := approval.Resolution{ID: r.ID, Status: approval.Denied, By: "hana", Via: approval.ViaAPI, Reason: "no: " + text}
		update(t, s, func(tx approval.Tx) error {
			if i == 1 {
				v := approval.Vote{Person: "ken", At: tx.Now(), Via: approval.ViaAPI, Approve: true}
				return tx.PutVote(r.ID, v)
			}
			end.At = tx.Now()
			return mustChange(tx.Resolve(end))
		})
	}
	var all []approval.Request
	view(t, s, func(tx approval.Tx) (err error) {
		all, err = tx.Requests(approval.RequestQuery{})
		return err
	})
	return all
}

// Requests are found by who decided or voted, by words, by the call that made them, by time and between ids; what is
// looked for is taken as it is, whatever LIKE would make of it.
func searchRequests(t *testing.T, s approval.Store) {
	all := requestsToFind(t, s)
	at := func(i int) approval.Request { return all[len(all)-1-i] } // in the order in which they were made
	some := func(is ...int) (out []string) {
		for _, i := range slices.Backward(is) {
			out = append(out, at(i).ID)
		}
		return out
	}
	for _, c := range []struct {
		name string
		q    approval.RequestQuery
		want []string
	}{
		{"who decided", approval.RequestQuery{Person: "hana"}, some(0, 2, 3, 4)},
		{"who voted", approval.RequestQuery{Person: "ken"}, some(1)},
		{"nobody of that name", approval.RequestQuery{Person: "han_"}, nil},
		{"letters in any case", approval.RequestQuery{Text: "PAY"}, some(0, 1)},
		{"a percent sign", approval.RequestQuery{Text: "5%"}, some(0)},
		{"a percent sign alone", approval.RequestQuery{Text: "%"}, some(0)},
		{"an underscore and a backslash", approval.RequestQuery{Text: `a_b\`}, some(3)},
		{"other letters", approval.RequestQuery{Text: "日本"}, some(2)},
		{"the tool's name", approval.RequestQuery{Text: "tool4"}, some(4)},
		{"a reason", approval.RequestQuery{Text: "no: A"}, some(3, 4)},
		{"quotes", approval.RequestQuery{Text: `' OR 1=1 --`}, nil},
		{"one call", approval.RequestQuery{CorrelationID: "c1"}, some(1, 3)},
		{"one call, a part of its id", approval.RequestQuery{CorrelationID: "c"}, nil},
		{"since", approval.RequestQuery{Since: at(2).RequestedAt}, some(2, 3, 4)},
		{"since, between two milliseconds", approval.RequestQuery{Since: at(2).RequestedAt.Add(1)}, some(3, 4)},
		{"until", approval.RequestQuery{Until: at(2).RequestedAt}, some(0, 1)},
		{"until, between two milliseconds", approval.RequestQuery{Until: at(2).RequestedAt.Add(1)}, some(0, 1, 2)},
		{"since and until", approval.RequestQuery{Since: at(1).RequestedAt, Until: at(3).RequestedAt}, some(1, 2)},
		{"no time at all", approval.RequestQuery{Since: at(3).RequestedAt, Until: at(1).RequestedAt}, nil},
		{"from", approval.RequestQuery{From: at(3).ID}, some(3, 4)},
		{"between", approval.RequestQuery{From: at(1).ID, After: at(3).ID}, some(1, 2)},
		{"pending, between", approval.RequestQuery{Status: approval.Pending, From: at(1).ID, After: at(3).ID}, some(1)},
		{"all together", approval.RequestQuery{Status: approval.Denied, Person: "hana", Text: "no: a", CorrelationID: "c1",
			Since: at(1).RequestedAt, Until: at(4).RequestedAt, From: at(0).ID, After: at(4).ID, Limit: 2}, some(3)},
	} {
		checkRequests(t, s, c.name, c.q, c.want)
	}
}

// Notifications are found by several addresses, by time and between ids.
func searchNotifications(t *testing.T, s approval.Store) {
	r := insert(t, s, "bot", "pay", nil)
	var all []approval.Notification
	for i := range 6 {
		step(t, s)
		all = append(all, insertNotification(t, s, r.ID, func(n *approval.Notification) {
			n.Channel, n.Recipient = []string{"line", "slack"}[i%2], fmt.Sprint("U", i%3)
		}))
	}
	hers := []approval.Address{{Channel: "line", To: "U0"}, {Channel: "slack", To: "U1"}}
	for _, c := range []struct {
		name string
		q    approval.NotificationQuery
		want []int
	}{
		{"one address", approval.NotificationQuery{Addresses: hers[:1]}, []int{0}},
		{"several", approval.NotificationQuery{Addresses: hers}, []int{1, 0}},
		{"an address of another channel",
			approval.NotificationQuery{Addresses: []approval.Address{{Channel: "line", To: "U5"}}}, nil},
		{"several, and a channel", approval.NotificationQuery{Addresses: hers, Channel: "slack"}, []int{1}},
		{"until", approval.NotificationQuery{Until: all[2].CreatedAt}, []int{1, 0}},
		{"since and until", approval.NotificationQuery{Since: all[2].CreatedAt, Until: all[4].CreatedAt}, []int{3, 2}},
		{"from", approval.NotificationQuery{From: all[4].ID}, []int{5, 4}},
		{"between", approval.NotificationQuery{From: all[1].ID, After: all[3].ID}, []int{2, 1}},
	} {
		var want []string
		for _, i := range c.want {
			want = append(want, all[i].ID)
		}
		view(t, s, func(tx approval.Tx) error {
			ns, err := tx.Notifications(c.q)
			if got := ids(ns); !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", c.name, got, want)
			}
			return err
		})
	}
}

// A reach counts the rows that are to be looked at, which are no fewer than those that a query selects.
func reach(t *testing.T, s approval.Store) {
	all := requestsToFind(t, s)
	n := insertNotification(t, s, all[0].ID, nil)
	var es []approval.Event
	for range 5 {
		step(t, s)
		update(t, s, func(tx approval.Tx) error {
			e, err := tx.Append(approval.Event{Type: approval.EventDecision, Actor: "hana"})
			es = append(es[:len(es):len(es)], e)
			return err
		})
	}
	readSeqs(t, s, es)
	type requests = approval.RequestQuery
	type events = approval.EventQuery
	view(t, s, func(tx approval.Tx) error {
		for _, c := range []struct {
			q    requests
			look int
			want string
		}{
			{requests{}, 1, all[0].ID}, {requests{}, 3, all[2].ID}, {requests{}, 5, all[4].ID}, {requests{}, 6, ""},
			{requests{}, 0, ""}, {requests{Agent: "nobody", Text: "x"}, 3, all[2].ID},
			{requests{After: all[1].ID}, 2, all[3].ID},
			{requests{Since: all[1].RequestedAt}, 3, ""}, {requests{After: strings.Repeat("0", 26)}, 1, ""},
		} {
			got, err := tx.RequestReach(c.q, c.look)
			if err != nil || got != c.want {
				t.Errorf("%+v, %d: %q, %v; want %q", c.q, c.look, got, err, c.want)
			}
		}
		for look, want := range map[int]string{0: "", 1: n.ID, 2: ""} {
			got, err := tx.NotificationReach(approval.NotificationQuery{Channel: "none"}, look)
			if err != nil || got != want {
				t.Errorf("notifications, %d: %q, %v; want %q", look, got, err, want)
			}
		}
		for _, c := range []struct {
			q    events
			look int
			want int64
		}{
			{events{}, 1, es[4].Seq}, {events{Actor: "nobody"}, 5, es[0].Seq}, {events{}, 1000, 0}, {events{}, 0, 0},
			{events{Before: es[3].Seq}, 2, es[1].Seq}, {events{Until: es[3].At}, 1, es[2].Seq},
			{events{Since: es[3].At}, 2, es[3].Seq}, {events{Since: es[3].At}, 3, 0},
		} {
			got, err := tx.EventReach(c.q, c.look)
			if err != nil || got != c.want {
				t.Errorf("%+v, %d: %d, %v; want %d", c.q, c.look, got, err, c.want)
			}
		}
		return nil
	})
}

// From one reach to the next each row that a query selects is found once, in order, and none takes more than its
// number of rows: whatever the query selects by.
func reaches(t *testing.T, s approval.Store) {
	recordToFind(t, s)
	view(t, s, func(tx approval.Tx) error {
		for _, q := range []approval.RequestQuery{{}, {Status: approval.Pending}, {Status: approval.Approved},
			{Status: approval.Denied}, {Status: approval.Cancelled}, {Status: approval.Denied, Tool: "tool0"}, {Tool: "tool1"},
			{Tool: "bank/tool1"}, {Agent: "agent0"}, {Agent: "agent0", Tool: "tool2", Status: approval.Denied},
			{Risk: approval.RiskHigh}, {Person: "hana"}, {CorrelationID: "c0"}, {CorrelationID: "c0", Agent: "agent1"},
			{Agent: "nobody"}} {
			inReaches(t, q, func() ([]approval.Request, error) { return tx.Requests(q) },
				func(look int, last string) (rows []approval.Request, next string, err error) {
					in := q
					in.After = last
					if in.From, err = tx.RequestReach(in, look); err == nil {
						rows, err = tx.Requests(in)
					}
					return rows, in.From, err
				}, func(r approval.Request) string { return r.ID })
		}
		for _, q := range []approval.NotificationQuery{{}, {Status: approval.Queued}, {Status: approval.Failed},
			{Status: approval.Sent}, {Status: approval.Failed, Channel: "slack"}, {Status: approval.Queued, Channel: "line"},
			{Channel: "line"}, {Channel: "line", Recipient: "U0", Status: approval.Queued}, {Kind: approval.KindReply},
			{Channel: "line", Recipient: "U0", Kind: approval.KindReply}, {MessageID: "m1"}, {Channel: "mail"}} {
			inReaches(t, q, func() ([]approval.Notification, error) { return tx.Notifications(q) },
				func(look int, last string) (rows []approval.Notification, next string, err error) {
					in := q
					in.After = last
					if in.From, err = tx.NotificationReach(in, look); err == nil {
						rows, err = tx.Notifications(in)
					}
					return rows, in.From, err
				}, func(n approval.Notification) string { return n.ID })
		}
		for _, q := range []approval.EventQuery{{}, {Type: approval.EventDecision}, {Type: approval.EventCallAllowed},
			{Decision: "deny"}, {Decision: "approve"}, {Decision: "timeout"}, {Type: approval.EventDecision, Decision: "deny"},
			{Type: approval.EventCallDenied, Decision: "deny", Actor: "hana"}, {Actor: "hana"}, {Actor: "agent:agent0"},
			{Agent: "agent1"}, {Tool: "tool0"}, {CorrelationID: "c1"}, {Told: true}, {Told: true, Agent: "agent1"},
			{Told: true, Agent: "agent1", Decision: "deny"}, {SessionID: "s1"}, {Actor: "nobody"}} {
			inReaches(t, q, func() ([]approval.Event, error) { return tx.Events(q) },
				func(look int, last string) ([]approval.Event, string, error) {
					in := q
					in.Before, _ = strconv.ParseInt(last, 10, 64)
					oldest, err := tx.EventReach(in, look)
					if err != nil || oldest == 0 {
						rows, listErr := tx.Events(in)
						return rows, "", errors.Join(err, listErr)
					}
					in.AfterSeq = oldest - 1
					rows, err := tx.Events(in)
					return rows, strconv.FormatInt(oldest, 10), err
				}, func(e approval.Event) string { return strconv.FormatInt(e.Seq, 10) })
		}
		return nil
	})
}

// recordToFind is a record of a little of everything.
func recordToFind(t *testing.T, s approval.Store) {
	t.Helper()
	statuses := []approval.Status{approval.Pending, approval.Denied, approval.Approved, approval.Cancelled,
		approval.Denied}
	types := []approval.EventType{approval.EventDecision, approval.EventCallAllowed, approval.EventCallDenied,
		approval.EventNotificationSent}
	for i := range 17 {
		r := insert(t, s, fmt.Sprint("agent", i%2), fmt.Sprint("tool", i%3), func(r *approval.Request) {
			r.CorrelationID, r.ArgsHash = fmt.Sprint("c", i%4), fmt.Sprintf("%064x", i)
			if i%5 == 1 {
				r.Server = "bank"
			}
		})
		update(t, s, func(tx approval.Tx) error {
			if to := statuses[i%len(statuses)]; to != approval.Pending {
				end := approval.Resolution{ID: r.ID, Status: to, At: tx.Now(), By: []string{"hana", "ken"}[i%2],
					Via: approval.ViaAPI, UseBy: tx.Now().Add(time.Minute)}
				if err := mustChange(tx.Resolve(end)); err != nil {
					return err
				}
			}
			_, err := tx.Append(approval.Event{Type: types[i%len(types)], Agent: r.Agent, Tool: r.Tool, ApprovalID: r.ID,
				Actor: []string{"hana", "agent:agent0", "system:timeout"}[i%3], CorrelationID: r.CorrelationID,
				Decision: []string{"deny", "approve", "", "allow", "timeout"}[i%5]})
			return err
		})
		insertNotification(t, s, r.ID, func(n *approval.Notification) {
			n.Channel, n.Recipient = []string{"line", "slack"}[i%2], fmt.Sprint("U", i%2)
			n.Status = []approval.NotificationStatus{approval.Queued, approval.Failed, approval.Sent}[i%3]
			n.MessageID = fmt.Sprint("m", i%4)
			if i%4 == 0 {
				n.Kind = approval.KindReply
			}
		})
	}
}

// inReaches lists what a query selects so many rows at a time. piece returns the next rows, and where they end.
func inReaches[T any](t *testing.T, q any, whole func() ([]T, error),
	piece func(look int, last string) ([]T, string, error), key func(T) string) {
	t.Helper()
	all, err := whole()
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	keys := func(rows []T) (ks []string) {
		for _, r := range rows {
			ks = append(ks, key(r))
		}
		return ks
	}
	want := keys(all)
	for look := 1; look < 20; look++ {
		var got []string
		last, few := "", 4 // a query about a message has all at once
		for pieces := 0; ; pieces++ {
			rows, next, err := piece(look, last)
			if err != nil || len(rows) > max(look, few) || pieces > 20 {
				t.Fatalf("%+v, %d at a time: piece %d has %d rows, %v", q, look, pieces, len(rows), err)
			}
			got = append(got, keys(rows)...)
			if last = next; last == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v, %d at a time: got %v, want %v", q, look, got, want)
		}
	}
}

// Of requests and notifications can be read what figures are made of, and no more: of those alone that went out to ask
// or remind, the request.
func figures(t *testing.T, s approval.Store) {
	recordToFind(t, s)
	r := insert(t, s, "bot", "pay", func(r *approval.Request) {
		r.Server, r.Rule, r.RuleDigest, r.BatchID = "bank", "rule 12", hash("rule"), r.ID
	})
	insert(t, s, "bot", "pay", func(r *approval.Request) { r.Rule, r.RuleDigest = "rule of thumb", hash("rule") })
	step(t, s)
	var sent []approval.Notification
	for _, kind := range []approval.NotificationKind{approval.KindRequest, approval.KindReminder, approval.KindEdit,
		approval.KindRequest} {
		sent = append(sent, insertNotification(t, s, r.ID, func(n *approval.Notification) {
			if n.Kind, n.Channel, n.Recipient = kind, "line", "U9"; len(sent) < 3 {
				n.Status, n.SentAt = approval.Sent, n.CreatedAt
			}
		}))
	}
	of := approval.Request{Agent: "bot", Server: "bank", Tool: "pay", Rule: "rule 12", RuleDigest: hash("rule")}
	var want []approval.Push
	for i, n := range slices.Backward(sent) {
		p := approval.Push{ID: n.ID, CreatedAt: n.CreatedAt, To: n.Address()}
		if i < 2 {
			p.Of = of
		}
		want = append(want, p)
	}
	view(t, s, func(tx approval.Tx) error {
		all, err := tx.Pushes(time.Time{}, "", 0)
		if err != nil || len(all) != 17+4 || !reflect.DeepEqual(all[:4], want) {
			t.Errorf("%d pushes, %v, first %+v; want 21, first %+v", len(all), err, all[:min(4, len(all))], want)
		}
		late, err := tx.Pushes(sent[0].CreatedAt, sent[2].ID, 1)
		if err != nil || !reflect.DeepEqual(late, want[2:3]) {
			t.Errorf("got %+v, %v; want %+v", late, err, want[2:3])
		}
		if late, err = tx.Pushes(sent[0].CreatedAt, "", 0); err != nil || !reflect.DeepEqual(late, want) {
			t.Errorf("since: got %+v, %v; want %+v", late, err, want)
		}
		whole, err := tx.Heads(approval.RequestQuery{})
		few, fewErr := tx.Heads(approval.RequestQuery{Figures: true})
		for i, h := range whole {
			h = approval.Head{Request: approval.Request{ID: h.ID, Agent: h.Agent, Server: h.Server, Tool: h.Tool,
				Status: h.Status, RequestedAt: h.RequestedAt, ResolvedAt: h.ResolvedAt, ResolvedBy: h.ResolvedBy,
				ResolvedVia: h.ResolvedVia, BatchID: h.BatchID, Rule: h.Rule}}
			if h.ID == r.ID {
				h.RuleDigest = r.RuleDigest
			}
			if len(few) != len(whole) || !reflect.DeepEqual(few[i], h) {
				t.Fatalf("%d of %d, %+v; want %+v", len(few), len(whole), few, h)
			}
		}
		return errors.Join(err, fewErr)
	})
}
