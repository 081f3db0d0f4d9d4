package lists

import (
	"context"
	"strconv"

	"countersign/approval"
)

// Found is one page of a search, newest first. A search looks at so many rows at a time and no more, however few of
// them are what is looked for.
type Found[T any] struct {
	Rows []T
	// Next is what the next page begins after; "": nothing is left to be looked at.
	Next string
	// Short says that the page is not full because so many rows were looked at; there may be more behind Next.
	Short bool
}

// FoundIn makes a page of the rows that a query has brought, of which limit were asked for and one more. reach is that
// of the oldest row that was looked at, "" where nothing is left behind it; key is what a page begins after.
func FoundIn[T interface{ Size() int }](rows []T, limit, bytes int, reach string, key func(T) string) Found[T] {
	size := 0
	for _, r := range rows {
		size += r.Size()
	}
	switch {
	case len(rows) > limit:
		return Found[T]{Rows: rows[:limit], Next: key(rows[limit-1])}
	case size >= bytes && len(rows) > 0:
		return Found[T]{Rows: rows, Next: key(rows[len(rows)-1])}
	}
	return Found[T]{Rows: rows, Next: reach, Short: reach != ""}
}

// SearchRequests returns the narrow parts of the q.Limit newest requests, at least 1, that q selects among the look
// newest that are to be looked at.
func SearchRequests(ctx context.Context, g *approval.Gate, q approval.RequestQuery, look int) (
	Found[approval.Head], error) {
	return search(ctx, g, q, look, approval.Tx.Heads, func(h *approval.Head) *approval.Request { return &h.Request })
}

// FindRequests is SearchRequests for whole requests.
func FindRequests(ctx context.Context, g *approval.Gate, q approval.RequestQuery, look int) (
	Found[approval.Request], error) {
	return search(ctx, g, q, look, approval.Tx.Requests, func(r *approval.Request) *approval.Request { return r })
}

func search[T interface{ Size() int }](ctx context.Context, g *approval.Gate, q approval.RequestQuery, look int,
	read func(approval.Tx, approval.RequestQuery) ([]T, error), request func(*T) *approval.Request) (Found[T], error) {
	q.Since, q.Until, q.Bytes = g.Clock().FromWall(q.Since), g.Clock().FromWall(q.Until), listBytes(q.Bytes)
	limit := max(q.Limit, 1)
	q.Limit = limit + 1
	type page struct {
		found Found[T]
		late  []string
	}
	for {
		p, err := approval.LookSettled(ctx, g, func(w *approval.Work) (p page, err error) {
			tx := w.Tx()
			if q.From, err = tx.RequestReach(q, look); err != nil {
				return p, err
			}
			rows, err := read(tx, q)
			if err != nil {
				return p, err
			}
			p.found = FoundIn(rows, limit, q.Bytes, q.From, func(row T) string { return request(&row).ID })
			for i := range p.found.Rows {
				r := request(&p.found.Rows[i])
				over, err := w.Over(r)
				if err != nil {
					return p, err
				}
				if over { // and was not ended yet
					p.late = append(p.late, r.ID)
				}
			}
			return p, nil
		})
		if err != nil || len(p.late) == 0 {
			for i := range p.found.Rows {
				r := request(&p.found.Rows[i])
				*r = r.ByWall(g.Clock())
			}
			return p.found, err
		}
		if err := g.Settle(ctx, p.late); err != nil {
			return Found[T]{}, err
		}
	}
}

// SearchAudit returns the q.Limit newest audit events, at least 1, that q selects among the look newest that are to be
// looked at. Next is a seq, for [approval.EventQuery.Before].
func SearchAudit(ctx context.Context, g *approval.Gate, q approval.EventQuery, look int) (
	Found[approval.Event], error) {
	q.Since, q.Until, q.Bytes = g.Clock().FromWall(q.Since), g.Clock().FromWall(q.Until), listBytes(q.Bytes)
	limit := max(q.Limit, 1)
	q.Limit = limit + 1
	found, err := approval.Look(ctx, g, func(w *approval.Work) (f Found[approval.Event], err error) {
		tx := w.Tx()
		oldest, err := tx.EventReach(q, look)
		if err != nil {
			return f, err
		}
		in, reach := q, ""
		if oldest > 0 {
			in.AfterSeq, reach = max(q.AfterSeq, oldest-1), strconv.FormatInt(oldest, 10)
		}
		es, err := tx.Events(in)
		return FoundIn(es, limit, q.Bytes, reach, func(e approval.Event) string { return strconv.FormatInt(e.Seq, 10) }), err
	})
	for i := range found.Rows {
		found.Rows[i].At = g.Clock().ToWall(found.Rows[i].At)
	}
	return found, err
}
