package rest

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/budget"
)

// callFields are the members of a call, in the order in which readCall takes them.
var callFields = []string{"tool", "args", "server", "scope", "turn_id", "session_id", "rationale", "preview", "method", "tool_digest", "dispatch", "task"}

// toolsCall is the method of a call that has no other.
const toolsCall = "tools/call"

// readCall reads one call of agent; at is its place in the body.
func readCall(raw []byte, at, agent string) (approval.Call, error) {
	var values [12]jsontext.Value
	if err := readObject(raw, at, callFields, values[:]); err != nil {
		return approval.Call{}, err
	}
	c := approval.Call{Agent: agent}
	for i, to := range [...]*string{0: &c.Tool, 2: &c.Server, 3: &c.Scope, 4: &c.TurnID, 5: &c.SessionID, 6: &c.Rationale, 7: &c.Preview,
		8: &c.Method, 9: &c.ToolDigest} {
		if to == nil {
			continue
		}
		var err error
		if *to, err = text(values[i], place(at, callFields[i], "")); err != nil {
			return approval.Call{}, err
		}
	}
	for i, to := range [...]*bool{&c.Dispatch, &c.Task} {
		var err error
		if *to, err = boolean(values[10+i], place(at, callFields[10+i], "")); err != nil {
			return approval.Call{}, err
		}
	}
	if c.Method == toolsCall {
		c.Method = ""
	}
	var err error
	if c.Args, err = args.Parse(values[1]); err != nil {
		why := "they cannot be read"
		if e, ok := errors.AsType[*args.Error](err); ok {
			why = e.Reason
		}
		return approval.Call{}, approval.Errorf(approval.CodeInvalidArgs, "%s: %s.", place(at, "args", ""), why)
	}
	return c, nil
}

func (s *Server) call(ctx context.Context, x *exchange) error {
	var c approval.Call
	err := x.readBody(false, func(body []byte) (err error) {
		c, err = readCall(body, "", x.who.Name)
		return err
	})
	if err != nil {
		return err
	}
	var out approval.Answer
	if x.wait > 0 {
		x.hold(x.wait)
		out, err = s.gate.CheckWait(ctx, c, approval.WaitOptions{
			For:  x.wait,
			Stop: s.stopping.Done(),
			Still: func() error {
				_, err := s.still(x.who)
				return err
			},
		})
	} else {
		out, err = s.gate.Check(ctx, c)
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	if out.Kind == approval.AnswerPending {
		status = http.StatusAccepted
	}
	return x.answer(status, wireAnswer(out))
}

func (s *Server) callBatch(ctx context.Context, x *exchange) error {
	var calls []approval.Call
	err := x.readBody(false, func(body []byte) error {
		var values [1]jsontext.Value
		if err := readObject(body, "", []string{"calls"}, values[:]); err != nil {
			return err
		}
		if values[0] == nil {
			return approval.Errorf(approval.CodeInvalidParameter, "calls is missing.")
		}
		return readArray(values[0], "calls", func(i int, v jsontext.Value) error {
			if i >= approval.MaxBatch {
				return approval.Errorf(approval.CodeInvalidParameter, "A batch takes at most %d calls.", approval.MaxBatch)
			}
			c, err := readCall(v, "calls["+strconv.Itoa(i)+"]", x.who.Name)
			calls = append(calls, c)
			return err
		})
	})
	if err != nil {
		return err
	}
	if err := x.account.Take(budget.Calls, len(calls)-1); err != nil { // the request itself was the first
		return err
	}
	outs, err := s.gate.CheckBatch(ctx, calls)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, batchAnswer{Results: wire(outs, wireAnswer)})
}
