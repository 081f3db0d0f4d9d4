package approval

import (
	"context"
	"errors"
	"time"

	"countersign/approval/args"
	"countersign/approval/legible"
)

// Input is what a call's server was told, at the agent's side, after a person had approved the call: the answer to
// what it asked while the call ran. No approver saw it. Secrets are masked, and what is long is cut.
type Input struct {
	At      time.Time `json:"at"`
	Method  string    `json:"method"`            // of the server's question: elicitation/create, sampling/createMessage, roots/list
	Message string    `json:"message,omitempty"` // of the question, the server's own words
	Answer  string    `json:"answer"`            // JSON
}

const (
	// MaxInputs is how many answers one call takes: more are not passed on, so that all that were are on record.
	MaxInputs = 16
	// maxInput is how many bytes of an answer, and of a question's message, are kept.
	maxInput = 512
)

// AddInput puts an answer on record, on the request and in the audit log, before it is passed on to the server of an
// approved call that is under way. An agent adds to its own. Errors: [CodeInvalidParameter], also for a call that is
// not under way, that has ended, or that has taken [MaxInputs]; [CodeNotFound].
func (g *Gate) AddInput(ctx context.Context, who Actor, id string, in Input) error {
	if len(in.Method) == 0 || len(in.Method) > 128 {
		return Errorf(CodeInvalidParameter, "method must have 1 to 128 bytes")
	}
	m := g.records.Load()
	in.Method, in.Message = m.Line(in.Method), m.Line(legible.Cut(in.Message, maxInput))
	if args, err := args.Parse([]byte(in.Answer)); err == nil {
		in.Answer = m.ArgsLimited(args.Canonical(), maxInput)
	} else {
		in.Answer = m.Line(legible.Cut(in.Answer, maxInput))
	}
	var refusal *Error
	err := g.store.Update(ctx, func(tx Tx) error {
		refusal = nil
		r, err := tx.Request(id)
		switch {
		case errors.Is(err, ErrNotFound) || err == nil && (who.Kind != Agent || who.Name != r.Agent):
			refusal = Errorf(CodeNotFound, "%s", SayNoRequest.Say())
			return nil
		case err != nil:
			return err
		case r.DispatchedAt.IsZero() || r.RunResult == RunSucceeded || r.RunResult == RunFailed:
			refusal = Errorf(CodeInvalidParameter, "This call is not under way.")
			return nil
		case len(r.Inputs) >= MaxInputs:
			refusal = Errorf(CodeInvalidParameter, "This call has taken %d answers already, as many as it can.", MaxInputs)
			return nil
		}
		now := in
		now.At = tx.Now()
		if err := tx.SetInputs(id, append(r.Inputs, now)); err != nil {
			return err
		}
		e := requestEvent(r, EventCallInput)
		e.Actor, e.Reason = who.String(), in.Method
		e.Data = marshal(map[string]any{"n": len(r.Inputs) + 1, "message": in.Message, "answer": in.Answer})
		return g.audit(ctx, tx, e)
	})
	if err == nil && refusal != nil {
		return refusal
	}
	return err
}
