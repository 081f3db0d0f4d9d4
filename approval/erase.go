package approval

import (
	"context"
	"errors"
)

// Erasure says what [Gate.Erase] is about: one request, or those of an agent with ids less than After, if that is
// given.
type Erasure struct {
	RequestID, Agent, After string
	By                      Actor
	Via                     Via
}

// Erased counts requests: those that have lost what they said, and those that are needed as they are. Next is the After
// to go on with, "" at the end.
type Erased struct {
	Requests, Kept int
	Next           string
}

// Erase removes what requests said: their arguments, and all texts made of them or with them, which people were shown.
// What was asked for by which agent stays, the hash, who decided what and when, and why; the audit log has what it had.
// A request that is live, or has something live, is kept as it is: so is one of which something is still to be sent, or
// of whose call it is not known what came of it. Who erases is on record at each. Of an agent's requests it is about as
// many as one transaction should be. Errors: [CodeNotAdmin], and [CodeNotFound] where there is none.
func (g *Gate) Erase(ctx context.Context, e Erasure) (Erased, error) {
	about := OfID(e.RequestID)
	if e.Agent != "" {
		about = OfAgent(e.Agent)
	}
	type erased struct {
		Erased
		refusal *Error
	}
	did, err := update(ctx, g, about, func(w *Work) (did erased, err error) {
		did.Erased, did.refusal, err = w.erase(e)
		return did, err
	})
	if err == nil && did.refusal != nil {
		err = did.refusal
	}
	return did.Erased, err
}

func (w *Work) erase(e Erasure) (did Erased, refusal *Error, err error) {
	if by := w.g.ActorNow(e.By); by.Kind != Human || !by.Admin {
		refusal = Errorf(CodeNotAdmin, "Only admins can erase what requests said.")
		return did, refusal, w.audit(Event{Type: EventDecisionRefused, Actor: by.String(), ApprovalID: e.RequestID,
			Agent: e.Agent, Reason: string(refusal.Code)})
	}
	hs, err := w.toErase(e)
	if err != nil {
		return did, nil, err
	}
	if len(hs) == 0 && e.After == "" {
		return did, Errorf(CodeNotFound, "There is no such request."), nil
	}
	for _, h := range hs {
		erased, err := w.tx.EraseTexts(h.ID)
		if err == nil && erased {
			event := requestEvent(h.Request, EventErased)
			event.Actor, event.Data = e.By.String(), marshal(map[string]any{"via": e.Via})
			err = w.audit(event)
			did.Requests++
		}
		if err != nil {
			return did, nil, err
		}
	}
	if did.Kept = len(hs) - did.Requests; len(hs) == stepRequests {
		did.Next = hs[len(hs)-1].ID
	}
	return did, nil, nil
}

// toErase are the requests that an erasure is about, the newest first.
func (w *Work) toErase(e Erasure) ([]Head, error) {
	if e.RequestID == "" {
		return w.tx.Heads(RequestQuery{Agent: e.Agent, After: e.After, Limit: stepRequests})
	}
	h, err := w.tx.Head(e.RequestID)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return []Head{h}, err
}
