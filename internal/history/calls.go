package history

import (
	"context"
	"iter"
	"slices"

	"countersign/approval"
)

const (
	// stepCalls is how many calls are read in one transaction, stepBytes about how much of them: a call has its args with
	// it, which may be long.
	stepCalls = 200
	stepBytes = 4 << 20
)

// Calls returns the calls on record for [Replay], the newest first, whatever became of them: those that people were
// asked about, that a rule allowed or denied, and that a grant let through. Their times are of the machine's clock. q
// says of when and of which agent; the first error ends them.
func Calls(ctx context.Context, r Reader, q Query) iter.Seq2[Record, error] {
	s := newSurvey(r, q)
	return newest(s.readAsked(ctx), s.readLogged(ctx, approval.EventCallAllowed),
		s.readLogged(ctx, approval.EventCallDenied), s.readLogged(ctx, approval.EventGrantUsed))
}

// AskedCalls returns the calls of [Calls] that people were asked about, for [Suggest].
func AskedCalls(ctx context.Context, r Reader, q Query) iter.Seq2[Record, error] {
	return newSurvey(r, q).readAsked(ctx)
}

// readAsked returns the calls that people were asked about.
func (s *survey) readAsked(ctx context.Context) iter.Seq2[Record, error] {
	q := approval.RequestQuery{Agent: s.Agent, Since: s.since, Until: s.until, Limit: stepCalls, Bytes: stepBytes}
	return s.inSteps(ctx, func(tx approval.Tx) ([]Record, bool, error) {
		rows, err := tx.Requests(q)
		if err != nil || len(rows) == 0 {
			return nil, false, err
		}
		calls := make([]Record, len(rows))
		for i := range rows {
			calls[i] = OfRequest(&rows[i])
		}
		q.After = rows[len(rows)-1].ID
		return calls, true, nil
	})
}

// readLogged returns the calls that the audit log has of a type.
func (s *survey) readLogged(ctx context.Context, t approval.EventType) iter.Seq2[Record, error] {
	q := approval.EventQuery{Type: t, Agent: s.Agent, Since: s.since, Until: s.until, Limit: stepCalls, Bytes: stepBytes}
	return s.inSteps(ctx, func(tx approval.Tx) ([]Record, bool, error) {
		rows, err := tx.Events(q)
		if err != nil || len(rows) == 0 {
			return nil, false, err
		}
		var calls []Record
		for _, e := range rows {
			if call, is := OfEvent(e); is {
				calls = append(calls, call)
			}
		}
		q.Before = rows[len(rows)-1].Seq
		return calls, true, nil
	})
}

// inSteps is what next reads, a transaction at a time.
func (s *survey) inSteps(ctx context.Context,
	next func(tx approval.Tx) (calls []Record, more bool, err error)) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for more := true; more; {
			var calls []Record
			err := s.Step(ctx, func(ctx context.Context) error {
				return s.r.View(ctx, func(tx approval.Tx) (err error) {
					calls, more, err = next(tx)
					return err
				})
			})
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, call := range calls {
				call.At = s.r.ToWall(call.At)
				if !yield(call, nil) {
					return
				}
			}
		}
	}
}

// newest merges what comes newest first.
func newest(parts ...iter.Seq2[Record, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var heads []*head
		for _, part := range parts {
			next, stop := iter.Pull2(part)
			defer stop()
			heads = append(heads, &head{next: next})
		}
		for _, h := range heads {
			h.advance()
		}
		for {
			heads = slices.DeleteFunc(heads, func(h *head) bool { return h.ended })
			if len(heads) == 0 {
				return
			}
			first := slices.MinFunc(heads, func(a, b *head) int { return b.call.At.Compare(a.call.At) })
			for _, h := range heads {
				if h.err != nil {
					first = h
				}
			}
			if !yield(first.call, first.err) || first.err != nil {
				return
			}
			first.advance()
		}
	}
}

// head is the newest that a part has left.
type head struct {
	next  func() (Record, error, bool)
	call  Record
	err   error
	ended bool
}

func (h *head) advance() {
	var more bool
	h.call, h.err, more = h.next()
	h.ended = !more
}

// OfRequest returns the call that a request is about.
func OfRequest(r *approval.Request) Record {
	c := Record{ID: r.ID, At: r.RequestedAt, Agent: r.Agent, Scope: r.Scope, Server: r.Server, Tool: r.Tool,
		Method: r.Method, Session: r.SessionID, Args: argsOf(r), Was: Was(r.Status), By: r.ResolvedBy,
		Reason: r.ResolveReason, Rule: r.Rule, Risk: r.Risk, Card: r.BatchID,
		Unknown: r.ReasonCode == approval.ReasonUnknownTool}
	stages := r.Need.InStages()
	c.Needs = len(stages) > 1 || slices.ContainsFunc(stages, func(s approval.Stage) bool {
		return s.Count > 1 || s.Group != "" || len(s.Approvers) > 0
	})
	if c.Was == WasDenied && r.ResolvedVia == approval.ViaSystem {
		c.Was = WasCancelled // no person's word
	}
	return c
}

// argsOf are the args of a request, nil where they were removed.
func argsOf(r *approval.Request) []byte {
	if !r.ArgsRemovedAt.IsZero() {
		return nil
	}
	return r.Args
}
