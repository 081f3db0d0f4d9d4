package client

import (
	"context"
	"time"
)

// Asker decides one agent's calls: a [Client] of a gate elsewhere, or a gate in the same process.
type Asker interface {
	// Ask asks whether the call may run, and holds up to wait for a person's decision. An approved answer has used
	// the approval, and says with which arguments the call runs. Once ctx has ended nothing is used.
	Ask(ctx context.Context, call Call, wait time.Duration) (Answer, error)
	// Resolved returns the agent's endings that it has not acknowledged, oldest first; session other than "" narrows
	// them to what that session asked for. With none there it holds up to wait.
	Resolved(ctx context.Context, session string, wait time.Duration) ([]Approval, error)
	// Ack takes endings out of that list; doing so twice does no harm.
	Ack(ctx context.Context, ids ...string) (Acked, error)
}

var _ Asker = (*Client)(nil)

// Ask asks about a call as an [Asker] does. It asks without waiting first, so that the request is there whatever
// happens to who waits. For agents.
func (c *Client) Ask(ctx context.Context, call Call, wait time.Duration) (Answer, error) {
	until := time.Now().Add(wait)
	call.Waits = call.Waits || wait > 0
	a, err := c.Call(ctx, call)
	if err == nil && a.Kind == AnswerPending && wait > 0 {
		a, err = c.Await(ctx, call, a, time.Until(until))
	}
	if err == nil && a.Kind == AnswerApproved && len(a.Args) == 0 { // the gate is of an older version
		var r Approval
		r, err = c.Approval(ctx, a.ApprovalID)
		a.Args = r.Args
	}
	if err != nil {
		return Answer{}, err
	}
	return a, nil
}

// lookEvery is how often a gate that does not hold requests is asked.
const lookEvery = time.Second

// Await holds up to wait until the request of first, a pending answer, ends, and uses the approval if it is one; once
// the time is up it returns first. It makes no other request. For agents.
func (c *Client) Await(ctx context.Context, call Call, first Answer, wait time.Duration) (Answer, error) {
	until := time.Now().Add(wait)
	for {
		left := time.Until(until)
		if left <= 0 {
			return first, nil
		}
		asked := time.Now()
		a, err := c.WaitFor(ctx, call, first.ApprovalID, min(left, MaxWait))
		if err != nil || a.Kind != AnswerPending {
			return a, err
		}
		first.ApprovalID = a.ApprovalID // other arguments may have been put in its place
		select {
		case <-ctx.Done():
			return first, ctx.Err()
		case <-time.After(min(lookEvery-time.Since(asked), time.Until(until))):
		}
	}
}

// Granted reports whether a request ended because a grant covers its call now: it need only be asked again.
func (a Approval) Granted() bool {
	return a.Status == string(AnswerCancelled) && a.ResolvedVia == "system" && a.ResolveReason == "granted"
}

// Ended tells how a request ended for who waits for it: pending if it has not, approved if the approval may still be
// used. One that another caller used is as good as a denial.
func (a Approval) Ended() AnswerKind {
	switch kind := AnswerKind(a.Status); {
	case kind != AnswerApproved:
		return kind
	case !a.LapsedAt.IsZero():
		return AnswerLapsed
	case !a.ConsumedAt.IsZero():
		return AnswerDenied
	}
	return AnswerApproved
}
