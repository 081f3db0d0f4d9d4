package approval

import (
	"context"
	"errors"
	"time"

	"countersign/approval/args"
	"countersign/approval/legible"
	"countersign/approval/message"
)

// Input is what a call's server was told, at the agent's side, after a person had approved the call: the answer to
// what it asked while the call ran. No approver saw it. Secrets are masked, and what is long is cut.
type Input struct {
	At time.Time `json:"at"`
	// of the server's question: elicitation/create, sampling/createMessage, roots/list
	Method  string `json:"method"`
	Message string `json:"message,omitempty"` // of the question, the server's own words
	Answer  string `json:"answer"`            // JSON
}

const (
	// MaxInputs is how many answers one call takes: more are not passed on, so that all that were are on record.
	MaxInputs = 16
	// maxInput is how many bytes of an answer, and of a question's message, are kept.
	maxInput = 512
)

// AddInput puts an answer on record, on the request and in the audit log, before it is passed on to the server of an
// approved call that is under way. Of a call that a grant let through, id is that of the [GrantUse], and the audit log
// alone has it. An agent adds to its own. Errors: [CodeInvalidParameter], also for a call that is
// not under way, that has ended, or that has taken [MaxInputs]; [CodeNotFound]; [CodePolicyDenied] while the agent is
// frozen.
func (g *Gate) AddInput(ctx context.Context, who Actor, id string, in Input) error {
	if len(in.Method) == 0 || len(in.Method) > 128 {
		return Errorf(CodeInvalidParameter, "method must have 1 to 128 bytes")
	}
	m := g.records.masker.Load()
	in.Method, in.Message = m.Line(in.Method), m.Line(legible.Cut(in.Message, maxInput))
	if answer, err := args.Parse([]byte(in.Answer)); err == nil {
		in.Answer = m.ArgsLimited(answer.Canonical(), maxInput)
	} else {
		in.Answer = m.Line(legible.Cut(in.Answer, maxInput))
	}
	_, err := carryOut(ctx, g, OfID(id), func(w *Work) (resolved, error) { return w.addInput(who, id, in) })
	return err
}

func (w *Work) addInput(who Actor, id string, in Input) (resolved, error) {
	refuse := func(code Code, format string, about ...any) (resolved, error) {
		return resolved{refusal: Errorf(code, format, about...)}, nil
	}
	r, err := w.tx.Request(id)
	if errors.Is(err, ErrNotFound) {
		return w.addUseInput(who, id, in)
	}
	switch {
	case err == nil && (who.Kind != Agent || who.Name != r.Agent):
		return refuse(CodeNotFound, noSuchRequest)
	case err != nil:
		return resolved{}, err
	case r.DispatchedAt.IsZero() || r.RunResult == RunSucceeded || r.RunResult == RunFailed:
		return refuse(CodeInvalidParameter, "This call is not under way.")
	case len(r.Inputs) >= MaxInputs:
		return refuse(CodeInvalidParameter, "This call has taken %d answers already, as many as it can.", MaxInputs)
	}
	if e, err := w.Freezes().frozenBy(r.Agent); err != nil || e != nil {
		if err != nil {
			return resolved{}, err
		}
		return refuse(CodePolicyDenied, "%s", message.Frozen(e.FrozenBy, e.Reason))
	}
	in.At = w.tx.Now()
	if err := w.tx.SetInputs(id, append(r.Inputs, in)); err != nil {
		return resolved{}, err
	}
	e := requestEvent(r, EventCallInput)
	e.Actor, e.Reason = who.String(), in.Method
	e.Data = marshal(map[string]any{"n": len(r.Inputs) + 1, "message": in.Message, "answer": in.Answer})
	return resolved{}, w.audit(e)
}

// addUseInput is addInput for a call that a grant let through.
func (w *Work) addUseInput(who Actor, id string, in Input) (resolved, error) {
	refuse := func(code Code, format string, about ...any) (resolved, error) {
		return resolved{refusal: Errorf(code, format, about...)}, nil
	}
	u, err := w.tx.GrantUse(id)
	if errors.Is(err, ErrNotFound) {
		return refuse(CodeNotFound, noSuchRequest)
	}
	if err != nil {
		return resolved{}, err
	}
	gr, err := w.tx.Grant(u.GrantID)
	switch {
	case err != nil:
		return resolved{}, err
	case who.Kind != Agent || who.Name != gr.Agent:
		return refuse(CodeNotFound, noSuchRequest)
	case u.DispatchedAt.IsZero() || u.RunResult == RunSucceeded || u.RunResult == RunFailed:
		return refuse(CodeInvalidParameter, "This call is not under way.")
	}
	if e, err := w.Freezes().frozenBy(gr.Agent); err != nil || e != nil {
		if err != nil {
			return resolved{}, err
		}
		return refuse(CodePolicyDenied, "%s", message.Frozen(e.FrozenBy, e.Reason))
	}
	e := gr.event(EventCallInput)
	e.Actor, e.Reason, e.CorrelationID = who.String(), in.Method, u.CorrelationID
	e.Data = marshal(map[string]any{"grant_id": gr.ID, "use_id": u.ID, "message": in.Message, "answer": in.Answer})
	return resolved{}, w.audit(e)
}
