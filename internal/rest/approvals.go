package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/lists"
)

// waiting prepares for an answer that is held, and returns a context that ends when the server is about
// to stop, too. Without a wait it is ctx itself.
func (s *Server) waiting(ctx context.Context, x *exchange) (context.Context, context.CancelFunc) {
	if x.wait <= 0 {
		return ctx, func() {}
	}
	x.hold(x.wait)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.stopping, cancel)
	return ctx, func() { stop(); cancel() }
}

// page reads at most limit rows of a list, which ends earlier where its rows are large, and reports whether there are
// more. read brings at most so many of the rows that come after one, nil: of all, and approval.ListBytes of them.
func page[T interface{ Size() int }](limit int, read func(after *T, limit int) ([]T,
	error)) (rows []T, more bool, err error) {
	if rows, err = read(nil, limit+1); err != nil {
		return nil, false, err
	}
	if len(rows) > limit {
		return rows[:limit:limit], true, nil
	}
	size := 0
	for _, r := range rows {
		size += r.Size()
	}
	if size < approval.ListBytes || len(rows) == 0 {
		return rows, false, nil
	}
	rest, err := read(&rows[len(rows)-1], 1)
	return rows, len(rest) > 0, err
}

func (s *Server) listResolved(ctx context.Context, x *exchange) error {
	f := fields{query: x.query}
	session := f.matching("session_id", "at most "+strconv.Itoa(approval.MaxSessionID)+" bytes",
		func(v string) bool { return len(v) <= approval.MaxSessionID })
	if f.err != nil {
		return f.err
	}
	wctx, cancel := s.waiting(ctx, x)
	defer cancel()
	tell := func(rs []approval.Request) error {
		if len(rs) > 0 {
			if err := x.beginTurn(ctx); err != nil {
				return err
			}
		}
		return x.answer(http.StatusOK, feedAnswer{Approvals: api.Each(rs, s.request)})
	}
	err := s.gate.TellResolved(wctx, x.who.Name, session, x.wait, tell)
	if err != nil && x.status == 0 && wctx.Err() != nil && ctx.Err() == nil { // the server stops: as if time were up
		err = s.gate.TellResolved(ctx, x.who.Name, session, 0, tell)
	}
	return err
}

func (s *Server) ack(ctx context.Context, x *exchange) error {
	var body ackBody
	if err := x.read(&body); err != nil {
		return err
	}
	if body.IDs == nil {
		return approval.Errorf(approval.CodeInvalidParameter, "ids is missing.")
	}
	a, err := s.gate.Ack(ctx, x.who.Name, body.IDs)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, client.Acked(a))
}

// hideRequest returns err to callers who may see the request, and to others that there is none.
func (x *exchange) hideRequest(ctx context.Context, err error) error {
	if x.over != nil {
		return x.over()
	}
	if _, hidden := x.gate.RequestHead(ctx, x.who.Actor, x.r.PathValue("id")); hidden != nil {
		return hidden
	}
	return err
}

func (s *Server) approval(ctx context.Context, x *exchange) error {
	if x.formErr != nil {
		return x.hideRequest(ctx, x.formErr)
	}
	id := x.r.PathValue("id")
	if err := x.beginTurn(ctx); err != nil {
		return err
	}
	r, err := s.gate.Request(ctx, x.who.Actor, id)
	if err == nil && r.Status == approval.Pending && x.wait > 0 {
		x.endTurn()
		wctx, cancel := s.waiting(ctx, x)
		defer cancel()
		r, err = s.gate.WaitRequest(wctx, x.who.Actor, id, x.wait)
		if err != nil && wctx.Err() != nil && ctx.Err() == nil { // the server stops: as if time were up
			r, err = s.gate.Request(ctx, x.who.Actor, id)
		}
	}
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, s.request(r))
}

func (s *Server) approvals(ctx context.Context, x *exchange) error {
	f := fields{query: x.query}
	q := approval.RequestQuery{
		Status: one(&f, "status", approval.Pending, approval.Approved, approval.Denied, approval.Expired, approval.Cancelled),
		Tool:   f.tool(), Agent: f.agent(), Risk: f.risk(), After: f.id("after"),
	}
	limit := f.limit()
	if f.err != nil {
		return f.err
	}
	return answerFound(ctx, s, x, limit, q.After, func(after string, n, bytes int) (lists.Found[approval.Request],
		error) {
		q.After, q.Limit, q.Bytes = after, n, bytes
		return lists.FindRequests(ctx, s.gate, q, s.look.rows)
	}, func(rows []approval.Request, next string) any {
		return approvalList{Approvals: api.Each(rows, s.request), Next: next}
	})
}

// readReason reads an optional body with an optional reason.
func (x *exchange) readReason() (string, error) {
	var body cancelBody
	err := x.readOptional(&body)
	if err == nil && len(body.Reason) > approval.MaxReason {
		err = approval.Errorf(approval.CodeInvalidParameter, "The reason is too long; at most %d bytes are taken.",
			approval.MaxReason)
	}
	return body.Reason, err
}

func (s *Server) cancel(ctx context.Context, x *exchange) error {
	reason, err := x.readReason()
	if x.formErr != nil {
		err = x.formErr
	}
	if err != nil {
		return x.hideRequest(ctx, err)
	}
	if err := x.checkUndoes(ctx, func(r approval.Request) bool { return r.Live() }); err != nil {
		return err
	}
	r, err := s.gate.Cancel(ctx, approval.Cancellation{RequestID: x.r.PathValue("id"), By: x.who.Actor, Via: x.via(),
		Reason: reason})
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, s.request(r))
}

func (s *Server) report(ctx context.Context, x *exchange) error {
	var body outcomeBody
	err := x.read(&body)
	if err == nil {
		err = x.formErr
	}
	if refused := x.admit(agents); refused != nil && approval.CodeOf(err) != approval.CodeUnauthorized {
		err = refused
	}
	id := x.r.PathValue("id")
	if err != nil {
		return x.hideRun(ctx, err)
	}
	if err := x.checkUnreported(ctx); err != nil {
		return err
	}
	r, err := s.gate.Report(ctx, x.who.Actor, id, approval.RunResult(body.Outcome))
	if err != nil {
		return err
	}
	if r.ID == id {
		return x.answer(http.StatusOK, outcomeAnswer{s.request(r)})
	}
	u, err := s.gate.GrantUse(ctx, x.who.Actor, id)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, outcomeAnswer{wireGrantUse(u)})
}

// hideRun is hideRequest for what the path names by a request or by the use of a grant.
func (x *exchange) hideRun(ctx context.Context, err error) error {
	if _, none := x.gate.GrantUse(ctx, x.who.Actor, x.r.PathValue("id")); x.over == nil && none == nil {
		return err
	}
	return x.hideRequest(ctx, err)
}

// checkUnreported reports, with an error, that a request over its budget has no outcome to put on record.
func (x *exchange) checkUnreported(ctx context.Context) error {
	if x.over == nil {
		return nil
	}
	u, err := x.gate.GrantUse(ctx, x.who.Actor, x.r.PathValue("id"))
	if err == nil && !u.DispatchedAt.IsZero() && u.RunResult == "" {
		return nil
	}
	return x.checkUndoes(ctx, func(r approval.Request) bool { return !r.DispatchedAt.IsZero() && r.RunResult == "" })
}

func (s *Server) input(ctx context.Context, x *exchange) error {
	var body inputBody
	err := x.read(&body)
	if err == nil && body.Answer == nil {
		err = approval.Errorf(approval.CodeInvalidParameter, "answer is missing.")
	}
	if err == nil {
		err = x.formErr
	}
	if refused := x.admit(agents); refused != nil && approval.CodeOf(err) != approval.CodeUnauthorized {
		err = refused
	}
	if err != nil {
		return x.hideRun(ctx, err)
	}
	id := x.r.PathValue("id")
	in := approval.Input{Method: body.Method, Message: body.Message, Answer: string(body.Answer)}
	if err := s.gate.AddInput(ctx, x.who.Actor, id, in); err != nil {
		return err
	}
	r, err := s.gate.Request(ctx, x.who.Actor, id)
	if err == nil {
		return x.answer(http.StatusOK, outcomeAnswer{s.request(r)})
	}
	u, none := s.gate.GrantUse(ctx, x.who.Actor, id)
	if none != nil {
		return err
	}
	return x.answer(http.StatusOK, outcomeAnswer{wireGrantUse(u)})
}

func (s *Server) notifications(ctx context.Context, x *exchange) error {
	f := fields{query: x.query}
	q := approval.NotificationQuery{
		Status: one(&f, "status", approval.Queued, approval.Retrying, approval.Sent, approval.Delivered, approval.Failed,
			approval.Skipped),
		Channel:    f.matching("channel", "a channel's name", approval.ValidName),
		ApprovalID: x.requestID(ctx, &f, "approval_id"), After: f.id("after"),
	}
	limit := f.limit()
	if f.err != nil {
		return f.err
	}
	if q.ApprovalID != "" {
		// The card of a batch is the card of each of its requests.
		r, err := s.gate.Request(ctx, x.who.Actor, q.ApprovalID)
		if err != nil && approval.CodeOf(err) != approval.CodeNotFound {
			return err
		}
		q.BatchID = r.BatchID
	}
	return answerFound(ctx, s, x, limit, q.After, func(after string, n, bytes int) (lists.Found[approval.Notification],
		error) {
		q.After, q.Limit, q.Bytes = after, n, bytes
		return s.pushes.Search(ctx, q, s.look.rows)
	}, func(rows []approval.Notification, next string) any {
		return notificationList{Notifications: api.Each(rows, wireNotification), Next: next, Quotas: s.quotas(),
			Heartbeat: s.beats()}
	})
}

func (s *Server) retry(ctx context.Context, x *exchange) error {
	n, err := s.pushes.Notification(ctx, x.r.PathValue("id"))
	if err != nil {
		return err
	}
	if x.who.Kind == approval.Agent {
		// An agent sees that a notification exists if it is about its own request.
		if _, err := s.gate.Request(ctx, x.who.Actor, n.ApprovalID); err != nil {
			if approval.CodeOf(err) == approval.CodeNotFound {
				return approval.Errorf(approval.CodeNotFound, "No such notification.")
			}
			return err
		}
	}
	if err := x.admit(admins); err != nil {
		return err
	}
	err = x.readOptional(new(struct{}))
	if err == nil {
		err = x.formErr
	}
	if err != nil {
		return err
	}
	if n, err = s.pushes.Retry(ctx, x.who.Actor, n.ID); err != nil {
		return err
	}
	return x.answer(http.StatusAccepted, wireNotification(n))
}

func (s *Server) openAPI(_ context.Context, x *exchange) error {
	x.Header().Set("Content-Type", "application/json")
	x.Header().Set("Cache-Control", "public, max-age=300")
	x.WriteHeader(http.StatusOK)
	_, _ = x.Write(s.document())
	return nil
}

// answerPage answers with one page of a list, which is read and encoded in the caller's turn.
func answerPage[T interface{ Size() int }](ctx context.Context, x *exchange, limit int,
	read func(after *T, limit int) ([]T, error), list func(rows []T, more bool) any) error {
	release, err := x.takeListTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	rows, more, err := page(limit, read)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, list(rows, more))
}

// looking is how much of a record one answer looks at: steps of so many rows, the last of which begins within a time.
// What matches little is found in several answers then, each of which has what was found so far and where to go on.
type looking struct {
	rows int
	time time.Duration
}

var defaultLooking = looking{rows: 10_000, time: 200 * time.Millisecond}

// answerFound is answerPage for a record that may be long. read looks for at most n rows, and bytes of them, after one.
func answerFound[T interface{ Size() int }](ctx context.Context, s *Server, x *exchange, limit int, after string,
	read func(after string, n, bytes int) (lists.Found[T], error), list func(rows []T, next string) any) error {
	release, err := x.takeListTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	soon, cancel := context.WithTimeout(ctx, s.look.time)
	defer cancel()
	rows, next, err := findPage(soon, limit, after, read)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, list(rows, next))
}

// findPage looks step by step for limit rows of a list, fewer where they are large, until soon ends. next is what the
// next page begins after, "" where nothing is left.
func findPage[T interface{ Size() int }](soon context.Context, limit int, after string,
	read func(after string, n, bytes int) (lists.Found[T], error)) (rows []T, next string, err error) {
	for next, size := after, 0; ; {
		f, err := read(next, limit-len(rows), approval.ListBytes-size)
		if err != nil {
			return nil, "", err
		}
		for _, r := range f.Rows {
			size += r.Size()
		}
		rows, next = append(rows, f.Rows...), f.Next
		switch {
		case next == "" || len(rows) >= limit:
			return rows, next, nil
		case size >= approval.ListBytes: // which may have been the last
			if f, err = read(next, 1, 1); err == nil && len(f.Rows) == 0 && f.Next == "" {
				next = ""
			}
			return rows, next, err
		case soon.Err() != nil:
			return rows, next, nil
		}
	}
}

// takeListTurn waits until a list may be read for the caller: few of one principal are in memory at a time, and one of
// them is encoded.
func (x *exchange) takeListTurn(ctx context.Context) (release func(), err error) {
	release, err = x.gate.Turn(ctx, x.who.Actor)
	if err != nil {
		return nil, err
	}
	if err := x.beginTurn(ctx); err != nil {
		release()
		return nil, err
	}
	return release, nil
}
