package rest

import (
	"context"
	"net/http"

	"countersign/approval"
	"countersign/internal/api"
	"countersign/internal/budget"
)

// readCall reads one call of agent.
func readCall(raw []byte, agent string) (approval.Call, error) {
	var body callBody
	if err := decode(raw, &body); err != nil {
		return approval.Call{}, err
	}
	return body.call(agent), nil
}

func (s *Server) call(ctx context.Context, x *exchange) error {
	f := fields{query: x.query}
	id := f.matching("approval_id", "the id of a request", validID)
	if id != "" && x.wait <= 0 {
		f.refuse("approval_id says which request the call goes on waiting for; give wait as well.")
	}
	if f.err != nil {
		return f.err
	}
	var c approval.Call
	err := x.readBody(errEmpty, func(body []byte) (err error) {
		c, err = readCall(body, x.who.Name)
		return err
	})
	if err != nil {
		return err
	}
	ctx, traced := s.beginTrace(ctx, x, c)
	var out approval.Answer
	if x.wait > 0 {
		x.hold(x.wait)
		out, err = s.gate.CheckWait(ctx, c, approval.WaitOptions{
			For:     x.wait,
			Request: id,
			Stop:    s.stopping.Done(),
			Still: func() error {
				_, err := s.still(x.who)
				return err
			},
		})
	} else {
		out, err = s.gate.Check(ctx, c)
	}
	traced(err, out)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if out.Kind == approval.AnswerPending {
		status = http.StatusAccepted
	}
	return x.answer(status, api.FromAnswer(out))
}

func (s *Server) callBatch(ctx context.Context, x *exchange) error {
	var body batchBody
	if err := x.read(&body); err != nil {
		return err
	}
	if body.Calls == nil {
		return approval.Errorf(approval.CodeInvalidParameter, "calls is missing.")
	}
	calls := make([]approval.Call, len(body.Calls))
	for i := range body.Calls {
		calls[i] = body.Calls[i].call(x.who.Name)
	}
	if err := x.account.Take(budget.Calls, len(calls)-1); err != nil { // the request itself was the first
		return err
	}
	ctx, traced := s.beginTrace(ctx, x, approval.Call{})
	outs, err := s.gate.CheckBatch(ctx, calls)
	traced(err, approval.Answer{})
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, batchAnswer{Results: api.Each(outs, api.FromAnswer)})
}

func untraced(error, approval.Answer) {}

// beginTrace begins the span of a call, where there are spans.
func (s *Server) beginTrace(ctx context.Context, x *exchange,
	c approval.Call) (_ context.Context, end func(error, approval.Answer)) {
	if s.trace == nil {
		return ctx, untraced
	}
	return s.trace(ctx, x.route.path, x.r.Header.Get("traceparent"), c)
}
