package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/summary"
)

// insertEnded makes a request that is denied and acknowledged: it is over.
func insertEnded(t testing.TB, s approval.Store, tool string, change func(*approval.Request)) approval.Request {
	t.Helper()
	return insert(t, s, "bot", tool, func(r *approval.Request) {
		r.Status, r.ResolvedAt, r.ResolvedBy, r.ResolvedVia, r.ResolvedSeq = approval.Denied, r.RequestedAt, "hana",
			approval.ViaWeb, 1
		r.AckedAt = r.RequestedAt
		if change != nil {
			change(r)
		}
	})
}

// used makes of a denied request one that was approved and used.
func used(r *approval.Request) {
	r.Status, r.UseBy, r.ConsumedAt = approval.Approved, r.RequestedAt.Add(time.Minute), r.RequestedAt
}

// oldRequests are all requests as OldRequests tells of them, by their tools.
func oldRequests(t testing.TB, s approval.Store) map[string]approval.Old {
	t.Helper()
	old := map[string]approval.Old{}
	view(t, s, func(tx approval.Tx) error {
		rs, err := tx.OldRequests("", tx.Now().Add(time.Hour), 0)
		if !slices.IsSortedFunc(rs, func(a, b approval.Old) int { return compareIDs(a.ID, b.ID) }) {
			t.Error("they are not in the order of their ids")
		}
		for _, r := range rs {
			h, headErr := tx.Head(r.ID)
			old[h.Tool] = r
			err = errors.Join(err, headErr)
		}
		return err
	})
	return old
}

func compareIDs(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// everyState makes a request in each state that matters to whether it may be removed, and returns of which each is.
func everyState(t *testing.T, s approval.Store) (needed, over []string) {
	t.Helper()
	insert(t, s, "bot", "pending", nil)
	unused := insert(t, s, "bot", "unused", nil)
	approve(t, s, unused.ID, time.Hour)
	insertEnded(t, s, "running", func(r *approval.Request) { used(r); r.DispatchedAt = r.ConsumedAt })
	granted := insertEnded(t, s, "granted", used)
	putGrant(t, s, "bot", "granted", func(g *approval.Grant) { g.RequestID = granted.ID })
	using := insertEnded(t, s, "grant in use", used)
	g := putGrant(t, s, "bot", "grant in use", func(g *approval.Grant) {
		g.RequestID = using.ID
		g.EndedAt, g.EndedBy, g.EndCode = g.MadeAt, "hana", "revoked"
	})
	update(t, s, func(tx approval.Tx) error {
		return tx.PutGrantUse(approval.GrantUse{ID: tx.NewID(), GrantID: g.ID, ArgsHash: hash("args"), At: tx.Now(),
			DispatchedAt: tx.Now(), Runner: "r"})
	})
	telling := insertEnded(t, s, "telling", nil)
	insertNotification(t, s, telling.ID, nil)

	insertEnded(t, s, "unread", func(r *approval.Request) { r.AckedAt = time.Time{} })
	remembered := insertEnded(t, s, "remembered", nil)
	update(t, s, func(tx approval.Tx) error {
		return tx.PutRecent(remembered.Key(), approval.Recent{DeniedID: remembered.ID, DeniedAt: tx.Now()})
	})

	insertEnded(t, s, "denied", nil)
	insertEnded(t, s, "used", used)
	insertEnded(t, s, "ran", func(r *approval.Request) {
		used(r)
		r.DispatchedAt, r.RunResult = r.ConsumedAt, approval.RunUnknown
	})
	ended := insertEnded(t, s, "grant over", used)
	putGrant(t, s, "bot", "grant over", func(g *approval.Grant) {
		g.RequestID = ended.ID
		g.EndedAt, g.EndedBy, g.EndCode = g.MadeAt, "hana", "revoked"
	})
	told := insertEnded(t, s, "told", nil)
	insertNotification(t, s, told.ID, func(n *approval.Notification) { n.Status = approval.Sent })
	return []string{"pending", "unused", "running", "granted", "grant in use", "telling", "unread", "remembered"},
		[]string{"denied", "used", "ran", "grant over", "told"}
}

// What is live, or has something live, is not over; nor what its agent has not heard of, or is remembered.
func whatIsOld(t *testing.T, s approval.Store) {
	needed, over := everyState(t, s)
	old := oldRequests(t, s)
	if len(old) != len(needed)+len(over) {
		t.Errorf("%d requests", len(old))
	}
	for tool, r := range old {
		if r.Over != slices.Contains(over, tool) || r.Emptied {
			t.Errorf("%s: %+v", tool, r)
		}
	}
	update(t, s, func(tx approval.Tx) error {
		for tool, r := range old {
			removed, err := tx.RemoveRequest(r.ID)
			if err != nil || removed != slices.Contains(over, tool) {
				t.Errorf("%s was removed %v, %v", tool, removed, err)
			}
		}
		return nil
	})
	if left := oldRequests(t, s); len(left) != len(needed) {
		t.Errorf("%d are left", len(left))
	}
	// They are told one part after another, and none from then on.
	view(t, s, func(tx approval.Tx) error {
		first, err := tx.OldRequests("", tx.Now().Add(time.Hour), 2)
		if err != nil || len(first) != 2 {
			t.Fatalf("%+v, %v", first, err)
		}
		rest, err := tx.OldRequests(first[1].ID, tx.Now().Add(time.Hour), 0)
		equal(t, "the rest", len(rest), len(needed)-2)
		none, noneErr := tx.OldRequests("", tx.Now().Add(-time.Hour), 0)
		equal(t, "before", len(none), 0)
		return errors.Join(err, noneErr)
	})
}

func removesArgs(t *testing.T, s approval.Store) {
	needed, _ := everyState(t, s)
	r := insertEnded(t, s, "full", func(r *approval.Request) {
		r.Args, r.Rationale, r.Preview, r.PreviewFrom = []byte(`{"secret":"é"}`), "because", "+ line", "read_file"
	})
	g := putGrant(t, s, "bot", "full", func(g *approval.Grant) {
		g.RequestID, g.Args = r.ID, []byte(`{"secret":2}`)
		g.EndedAt, g.EndedBy, g.EndCode = g.MadeAt, "hana", "revoked"
	})
	n := insertNotification(t, s, r.ID, func(n *approval.Notification) {
		n.Status, n.Body, n.Text = approval.Sent, []byte("secret"), "secret"
	})
	before := get(t, s, r.ID)
	var at time.Time
	update(t, s, func(tx approval.Tx) error {
		at = tx.Now()
		return mustChange(tx.RemoveArgs(r.ID))
	})
	want := before
	want.Args, want.Rationale, want.Preview, want.PreviewFrom = []byte(`null`), "", "", ""
	want.ArgsRemovedAt, want.ArgsBytes = at, len(before.Args)
	equal(t, "the request", get(t, s, r.ID), want)
	view(t, s, func(tx approval.Tx) error {
		grant, err := tx.Grant(g.ID)
		equal(t, "the grant's arguments", string(grant.Args), "null")
		sent, sentErr := tx.Notification(n.ID)
		if len(sent.Body) > 0 || sent.Text != "" || sent.Status != approval.Sent {
			t.Errorf("what was sent is %+v", sent)
		}
		return errors.Join(err, sentErr)
	})
	update(t, s, func(tx approval.Tx) error { return mustNotChange(tx.RemoveArgs(r.ID)) })
	for tool, old := range oldRequests(t, s) {
		if old.Emptied != (tool == "full") {
			t.Errorf("%s: %+v", tool, old)
		}
		if slices.Contains(needed, tool) {
			update(t, s, func(tx approval.Tx) error { return mustNotChange(tx.RemoveArgs(old.ID)) })
		}
	}
}

// What requests said can be erased once nothing can come of them, also where their agents have not acknowledged them or
// their denials are remembered, and also what is left of it once their arguments were removed.
func erasesTexts(t *testing.T, s approval.Store) {
	everyState(t, s)
	erased := []string{"unread", "remembered", "denied", "used", "ran", "grant over", "told"}
	for tool, old := range oldRequests(t, s) {
		update(t, s, func(tx approval.Tx) error {
			ok, err := tx.EraseTexts(old.ID)
			if err != nil || ok != slices.Contains(erased, tool) {
				t.Errorf("%s was erased: %v, %v", tool, ok, err)
			}
			return nil
		})
	}
	batch := ""
	r := insertEnded(t, s, "full", func(r *approval.Request) {
		r.Args, r.Rationale, r.Preview, r.PreviewFrom = []byte(`{"secret":"é"}`), "because", "+ line", "read_file"
		r.Sentences = &summary.Sentences{Summary: summary.Wording{"": "pays é"}}
		r.BatchID = r.ID
		batch = r.BatchID
	})
	own := insertNotification(t, s, r.ID, func(n *approval.Notification) {
		n.Status, n.Body, n.Text = approval.Sent, []byte("secret"), "secret"
	})
	first := insertEnded(t, s, "of the same card", func(r *approval.Request) { r.BatchID = batch })
	grouped := insertNotification(t, s, first.ID, func(n *approval.Notification) {
		n.BatchID, n.Status, n.Body, n.Text = batch, approval.Sent, []byte("secret"), "secret"
	})
	before := get(t, s, r.ID)
	var at time.Time
	update(t, s, func(tx approval.Tx) error {
		at = tx.Now()
		return mustChange(tx.RemoveArgs(r.ID))
	})
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.EraseTexts(r.ID)) })
	update(t, s, func(tx approval.Tx) error { return mustNotChange(tx.EraseTexts(r.ID)) })
	want := before
	want.Args, want.Rationale, want.Preview, want.PreviewFrom = []byte(`null`), "", "", ""
	want.Sentences, want.HumanMessage = nil, ""
	want.ArgsRemovedAt, want.ArgsBytes = at, len(before.Args)
	equal(t, "the request", get(t, s, r.ID), want)
	view(t, s, func(tx approval.Tx) error {
		for _, id := range []string{own.ID, grouped.ID} {
			n, err := tx.Notification(id)
			if err != nil || len(n.Body) > 0 || n.Text != "" || n.Status != approval.Sent {
				t.Errorf("what was sent is %+v, %v", n, err)
			}
		}
		return nil
	})
}

// A request goes with all that is about it, and nothing of another goes.
func removesRequests(t *testing.T, s approval.Store) {
	var card string
	update(t, s, func(tx approval.Tx) error {
		card = tx.NewID()
		return tx.PutCard(approval.Card{ID: card, Agent: "bot", Grouping: approval.GroupTurn, Risk: approval.RiskHigh,
			Items: []approval.CardItem{{}}, OpenedAt: tx.Now(), LeavesAt: tx.Now(), JoinBy: tx.Now()})
	})
	about := func(tool string) (r approval.Request, g approval.Grant, n approval.Notification) {
		r = insertEnded(t, s, tool, func(r *approval.Request) { r.BatchID = card })
		g = putGrant(t, s, "bot", tool, func(g *approval.Grant) {
			g.RequestID = r.ID
			g.EndedAt, g.EndedBy, g.EndCode = g.MadeAt, "hana", "revoked"
		})
		n = insertNotification(t, s, r.ID, func(n *approval.Notification) { n.Status, n.BatchID = approval.Sent, card })
		update(t, s, func(tx approval.Tx) error {
			return errors.Join(tx.PutVote(r.ID, vote(tx, "ken")), tx.AddSession(r.ID, "session"),
				tx.PutReminded(r.ID, n.ID),
				tx.PutGrantUse(approval.GrantUse{ID: tx.NewID(), GrantID: g.ID, ArgsHash: hash(tool), At: tx.Now()}))
		})
		return r, g, n
	}
	first, gone, sent := about("first")
	other, stays, told := about("other")
	events := func() (n int) {
		view(t, s, func(tx approval.Tx) error {
			es, err := tx.Events(approval.EventQuery{ApprovalID: first.ID})
			n = len(es)
			return err
		})
		return n
	}
	update(t, s, func(tx approval.Tx) error {
		_, err := tx.Append(approval.Event{Type: approval.EventDecision, ApprovalID: first.ID, Agent: "bot"})
		return err
	})
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.RemoveRequest(first.ID)) })
	update(t, s, func(tx approval.Tx) error { return mustNotChange(tx.RemoveRequest(first.ID)) })
	view(t, s, func(tx approval.Tx) error {
		for what, err := range map[string]error{
			"the request":      second(tx.Request(first.ID)),
			"its grant":        second(tx.Grant(gone.ID)),
			"its notification": second(tx.Notification(sent.ID)),
		} {
			if !errors.Is(err, approval.ErrNotFound) {
				t.Errorf("%s is there: %v", what, err)
			}
		}
		votes, err := tx.Votes(other.ID)
		equal(t, "the other's votes", len(votes), 1)
		return errors.Join(err, second(tx.Request(other.ID)), second(tx.Grant(stays.ID)), second(tx.Notification(told.ID)),
			second(tx.Card(card)))
	})
	equal(t, "events", events(), 1)
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.RemoveRequest(other.ID)) })
	view(t, s, func(tx approval.Tx) error {
		if _, err := tx.Card(card); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("the card of none is there: %v", err)
		}
		return nil
	})
}

// A request in whose place an edit has put another stays as long as that does: who waits for either is led from one to
// the other.
func editedStays(t *testing.T, s approval.Store) {
	last := insertEnded(t, s, "last", nil)
	first := insert(t, s, "bot", "edited", nil)
	update(t, s, func(tx approval.Tx) error {
		e := ending(tx, first.ID, approval.Denied)
		e.Code, e.ReplacedBy = approval.EndEdited, last.ID
		if err := mustChange(tx.Resolve(e)); err != nil {
			return err
		}
		_, err := tx.Ack("bot", first.ID)
		return err
	})
	remove := func(id string, want bool) {
		t.Helper()
		update(t, s, func(tx approval.Tx) error {
			removed, err := tx.RemoveRequest(id)
			equal(t, "removed", removed, want)
			return err
		})
	}
	remove(first.ID, false)
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.RemoveArgs(first.ID)) })
	remove(last.ID, true)
	remove(first.ID, true)
}

func removesNotifications(t *testing.T, s approval.Store) {
	r := insertEnded(t, s, "pay", nil)
	for _, status := range []approval.NotificationStatus{approval.Queued, approval.Retrying, approval.Sent,
		approval.Failed, approval.Skipped} {
		insertNotification(t, s, r.ID, func(n *approval.Notification) {
			n.Status, n.Text, n.Body = status, string(status), []byte("secret")
		})
	}
	toBeSent := map[string]bool{}
	old := func() (all []approval.Old) {
		view(t, s, func(tx approval.Tx) (err error) {
			all, err = tx.OldNotifications("", tx.Now().Add(time.Hour), 0)
			return err
		})
		return all
	}
	for _, n := range old() {
		view(t, s, func(tx approval.Tx) error {
			row, err := tx.Notification(n.ID)
			toBeSent[n.ID] = row.Status == approval.Queued || row.Status == approval.Retrying
			return err
		})
		if n.Over == toBeSent[n.ID] || n.Emptied {
			t.Errorf("%+v, to be sent %v", n, toBeSent[n.ID])
		}
		update(t, s, func(tx approval.Tx) error {
			removed, err := tx.RemoveText(n.ID)
			equal(t, "removed", removed, !toBeSent[n.ID])
			return err
		})
	}
	for _, n := range old() {
		equal(t, "emptied", n.Emptied, n.Over)
		update(t, s, func(tx approval.Tx) error {
			removed, err := tx.RemoveNotification(n.ID)
			equal(t, "removed", removed, n.Over)
			return err
		})
	}
	equal(t, "left", len(old()), 2)
}

// What waits keeps its messages, and what is over on one card with it: they are still to say how it ends.
func whatWaitsKeepsItsMessages(t *testing.T, s approval.Store) {
	card := ""
	ended := insertEnded(t, s, "over", func(r *approval.Request) { card = r.ID; r.BatchID = card })
	waits := insert(t, s, "bot", "waits", func(r *approval.Request) { r.BatchID = card })
	ids := map[string]string{}
	for name, of := range map[string]string{"of the card": ended.ID, "of what waits": waits.ID} {
		ids[name] = insertNotification(t, s, of, func(n *approval.Notification) {
			n.Status, n.Text = approval.Sent, "text"
			if of == ended.ID {
				n.BatchID = card
			}
		}).ID
	}
	goes := func(want bool) {
		t.Helper()
		equal(t, "the request is over", oldRequests(t, s)["over"].Over, want)
		update(t, s, func(tx approval.Tx) error {
			all, err := tx.OldNotifications("", tx.Now().Add(time.Hour), 0)
			for _, n := range all {
				if n.Over != want {
					t.Errorf("%+v, want %v", n, want)
				}
			}
			for name, id := range ids {
				text, textErr := tx.RemoveText(id)
				row, rowErr := tx.RemoveNotification(id)
				if text != want || row != want {
					t.Errorf("the message %s lost its text %v, and is removed %v; want %v", name, text, row, want)
				}
				err = errors.Join(err, textErr, rowErr)
			}
			removed, removeErr := tx.RemoveRequest(ended.ID)
			equal(t, "the request is removed", removed, want)
			return errors.Join(err, removeErr)
		})
	}
	goes(false)
	update(t, s, func(tx approval.Tx) error { return mustChange(tx.Resolve(ending(tx, waits.ID, approval.Denied))) })
	goes(true)
}

// The audit log can be without its beginning, also without all there was: what is appended gets numbers that were not
// given yet.
func removesEvents(t *testing.T, s approval.Store) {
	appendSome := func() {
		update(t, s, func(tx approval.Tx) error {
			for range 5 {
				if _, err := tx.Append(approval.Event{Type: approval.EventVote, Agent: "bot"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	seqs := func(q approval.EventQuery) (seqs []int64, oldest, newest int64) {
		q.Ascending = true
		view(t, s, func(tx approval.Tx) error {
			es, err := tx.Events(q)
			for _, e := range es {
				seqs = append(seqs, e.Seq)
			}
			if err == nil {
				oldest, newest, err = tx.SeqRange()
			}
			return err
		})
		return seqs, oldest, newest
	}
	remove := func(upTo int64, want int) {
		t.Helper()
		update(t, s, func(tx approval.Tx) error {
			n, err := tx.RemoveEvents(upTo)
			equal(t, "events removed", n, want)
			return err
		})
	}
	appendSome()
	all, oldest, _ := seqs(approval.EventQuery{})
	remove(oldest-1, 0)
	remove(all[2], 3)
	left, oldest, newest := seqs(approval.EventQuery{})
	equal(t, "seqs left", left, all[3:])
	equal(t, "the oldest", oldest, all[3])
	for name, q := range map[string]approval.EventQuery{
		"from what is gone on": {AfterSeq: all[0]}, "by type": {Type: approval.EventVote}, "by agent": {Agent: "bot"},
		"by time": {Since: time.Unix(1, 0)},
	} {
		found, _, _ := seqs(q)
		equal(t, "seqs "+name, found, all[3:])
	}
	remove(newest+100, 2)
	left, oldest, newest = seqs(approval.EventQuery{Since: time.Unix(1, 0)})
	if len(left) > 0 || oldest != 0 || newest != 0 {
		t.Errorf("left are %d, from %d to %d", left, oldest, newest)
	}
	appendSome()
	if left, _, _ := seqs(approval.EventQuery{}); len(left) != 5 || left[0] != all[4]+1 {
		t.Errorf("the seqs go on with %d, want %d", left, all[4]+1)
	}
}
