package lists

import (
	"context"

	"countersign/approval"
)

// ListEvents lists audit events, at most [approval.ListBytes] of them.
func ListEvents(ctx context.Context, g *approval.Gate, q approval.EventQuery) ([]approval.Event, error) {
	q.Since, q.Until = g.Clock().FromWall(q.Since), g.Clock().FromWall(q.Until)
	q.Bytes = listBytes(q.Bytes)
	es, err := approval.Look(ctx, g, func(w *approval.Work) ([]approval.Event, error) { return w.Tx().Events(q) })
	return eventsByWall(g, es), err
}

func eventsByWall(g *approval.Gate, es []approval.Event) []approval.Event {
	for i := range es {
		es[i].At = g.Clock().ToWall(es[i].At)
	}
	return es
}

// Followed is what [FollowEvents] has found.
type Followed struct {
	Events []approval.Event
	UpTo   int64 // the seq to go on from: that of the last event, or the newest there is once no other is left
	More   bool  // there may be others
}

// FollowEvents returns the next audit events of an ascending q. What q does not select is passed over once, not at
// every look.
func FollowEvents(ctx context.Context, g *approval.Gate, q approval.EventQuery) (Followed, error) {
	q.Ascending, q.Bytes = true, listBytes(q.Bytes)
	f, err := approval.Look(ctx, g, func(w *approval.Work) (f Followed, err error) {
		_, newest, err := w.Tx().SeqRange()
		if err != nil {
			return f, err
		}
		if f.Events, err = w.Tx().Events(q); err != nil {
			return f, err
		}
		size := 0
		for _, e := range f.Events {
			size += e.Size()
		}
		f.More = len(f.Events) > 0 && (len(f.Events) == q.Limit || size >= q.Bytes)
		if f.UpTo = max(newest, q.AfterSeq); f.More {
			f.UpTo = f.Events[len(f.Events)-1].Seq
		}
		return f, nil
	})
	f.Events = eventsByWall(g, f.Events)
	return f, err
}

// EventRange returns the oldest and newest seq on record, zeros for none.
func EventRange(ctx context.Context, g *approval.Gate) (oldest, newest int64, err error) {
	type seqs struct{ oldest, newest int64 }
	s, err := approval.Look(ctx, g, func(w *approval.Work) (s seqs, err error) {
		s.oldest, s.newest, err = w.Tx().SeqRange()
		return s, err
	})
	return s.oldest, s.newest, err
}
