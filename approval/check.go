package approval

import (
	"context"
	"errors"

	"countersign/approval/summary"
)

// AnswerKind is what an agent is told of a call.
type AnswerKind string

const (
	AnswerAllow     AnswerKind = "allow"    // by policy: run it
	AnswerApproved  AnswerKind = "approved" // by a person: run it, once
	AnswerDenied    AnswerKind = "denied"
	AnswerPending   AnswerKind = "pending"
	AnswerExpired   AnswerKind = "expired"
	AnswerCancelled AnswerKind = "cancelled"
	AnswerLapsed    AnswerKind = "lapsed"
)

// Answer is the answer to a call. Only [AnswerAllow] and [AnswerApproved] mean that it may run.
type Answer struct {
	Kind       AnswerKind
	Message    string // for the model, word for word
	Risk       Risk
	Rule       string
	ReasonCode string   // a rule's own, which may be any word, or the gate's
	EndCode    string   // [EndFrozen] or [EndEdited], or another of a request's; ReasonCode is then the same
	Request    *Request // nil where the policy alone decided
	Created    bool     // this call made the request
	// Args are those to run in place of the call's own, for a caller who accepts edits; nil: the call's.
	Args []byte
	// Note tells a model, beside the call's result, that other args ran than its own, and why; "": nothing is to be told.
	Note string
	// Grant let the call through, or denied it, nil: none did. Of one that lets it through RunID is the use's id.
	Grant *Grant
	// RunID is what [Gate.Report] takes of a call that its asker sends on: the id of the request, or of the grant's use.
	RunID string

	used consumption // the use of an approval that let it through, if the gate's side sends it on
}

// MaxBatch is how many calls [Gate.CheckBatch] takes.
const MaxBatch = 20

// Check answers a call: whether it may run now, and if not, why and what to do. It never waits for a
// person. An approved outcome has used the approval: the caller must run the call or lose it. An allowed call is on
// record by then: without a transaction of its own, where the store takes that ([EventRecorder]) and it is safe, and
// else it is committed first. That is so for a rule with a strict audit, a tool that is not known yet or has changed,
// and an agent that is frozen.
func (g *Gate) Check(ctx context.Context, c Call) (Answer, error) {
	if err := c.Validate(); err != nil {
		return Answer{}, err
	}
	release, err := takeTurn(ctx, g.budgets, c)
	if err != nil {
		return Answer{}, err
	}
	in := g.policy.Load()
	j := g.judge(ctx, *in, c)
	if out, ok, err := newRecorder(ctx, g).atOnce(in, &j); err != nil || ok {
		release()
		return out, err
	}
	outs, err := g.enterJudged(ctx, in, []judged{j}, release)
	if err != nil {
		return Answer{}, err
	}
	return outs[0], nil
}

// CheckBatch answers the calls of one turn, in order and in one transaction. Those that need a person
// come to people as one card. One call that is not well formed refuses the whole batch.
func (g *Gate) CheckBatch(ctx context.Context, calls []Call) ([]Answer, error) {
	if len(calls) == 0 || len(calls) > MaxBatch {
		return nil, Errorf(CodeInvalidParameter, "a batch takes 1 to %d calls, not %d", MaxBatch, len(calls))
	}
	for i, c := range calls {
		if err := c.Validate(); err != nil {
			if e, ok := errors.AsType[*Error](err); ok && len(calls) > 1 {
				return nil, Errorf(e.Code, "calls[%d]: %s", i, e.Message)
			}
			return nil, err
		}
	}
	release, err := takeTurn(ctx, g.budgets, calls...)
	if err != nil {
		return nil, err
	}
	in := g.policy.Load()
	js := make([]judged, len(calls))
	for i, c := range calls {
		if len(calls) > 1 {
			c.Differ = nil
		}
		js[i] = g.judge(ctx, *in, c)
	}
	return g.enterJudged(ctx, in, js, release)
}

// judged is a call with all that can be worked out before the write transaction.
type judged struct {
	call    Call
	verdict Verdict
	digest  string // of the policy whose verdict it is
	key     Key
	data    []byte  // of an allowed or denied call's audit event
	start   string  // of the masked args, for a request's audit event
	pin     ToolPin // what is on record of its tool, the zero ToolPin if nobody asked
	unseen  bool    // nothing is on record yet, and pin is what is to be
	renewed bool    // it is on record by the old form of its digest, and pin is what is to be
	changed bool    // the tool is not the one on record
	grants  []Grant // that may let it through
}

var errPolicyChanged = errors.New("approval: the policy changed meanwhile")

// enterJudged answers calls that the policy in has judged, in one transaction. release ends the turn that they have.
func (g *Gate) enterJudged(ctx context.Context, in *Policy, js []judged, release func()) ([]Answer, error) {
	defer func() { release() }()
	var compared comparison
	defer g.comparisons.end(&compared)
	for {
		done, err := updateBilled(ctx, g, js[0].key, func(w *Work, b *bill) (entered, error) {
			if g.policy.Load() != in {
				return entered{}, errPolicyChanged
			}
			return w.calls().enterAll(js, (*in).Terms(), b)
		})
		if errors.Is(err, errUncompared) { // what was looked for starts over, and takes turns of its own
			release()
			js[0].call = compared.compare(ctx, g, &js[0])
			if release, err = takeTurn(ctx, g.budgets, js[0].call); err != nil {
				release = func() {}
				return nil, err
			}
			err = errPolicyChanged
		}
		if errors.Is(err, errPolicyChanged) || errors.Is(err, ErrLiveExists) { // so does a lost race
			in = g.policy.Load()
			for i := range js {
				js[i] = g.judge(ctx, *in, js[i].call)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if done.log != nil {
			done.log(ctx)
		}
		for i := range done.answers {
			done.answers[i] = done.answers[i].byWall(g.store)
		}
		return done.answers, nil
	}
}

func (g *Gate) judge(ctx context.Context, p Policy, c Call) judged {
	v := p.Evaluate(ctx, c)
	shown := summary.Call{Target: c.Target(), Args: c.Args, Ignored: v.IgnoreArgs, Masker: g.masker.Load()}
	v.Message, v.Sentences = shown.Message(v.Message), shown.Sentences(v.Sentences)
	j := judged{call: c, verdict: v, digest: p.Digest()}
	j.key = Key{c.Agent, c.Scope, c.Server, c.Tool, c.Args.Hash(v.IgnoreArgs...), c.Method}
	if v.Observe || v.Action != Quarantine {
		j.data = g.records.callData(j)
	} else {
		j.start = g.records.auditArgs(c.Args.Canonical())
	}
	return j
}
