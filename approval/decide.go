package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"countersign/approval/args"
	"countersign/approval/legible"
	"countersign/approval/proof"
)

// Decision approves or denies a request.
type Decision struct {
	RequestID string
	Approve   bool
	By        Actor
	Via       Via
	Reason    string
	// Confirmed: whoever approves was told what will happen, and said yes to it.
	Confirmed bool
	// Args are approved in place of those that were asked for; nil: these.
	Args *args.Args
	// Grant, where it is not nil, has the decision answer the same call again for a while.
	Grant *GrantWish
	// Versions, where it is not nil, are the versions of the requests as whoever decides has seen them, by id
	// ([Request.Version]): what has changed since, or is not among them, is not decided ([CodeChanged]).
	Versions map[string]string
	// Proof shows that whoever approves has just used their passkey for it; nil: they have not.
	Proof *proof.Proof

	proven bool // the proof was checked, and is one for this request
	// standsFor is for whom it is that other args are approved, where that is not by.
	standsFor string
}

// MaxReason is how long a reason may be, in bytes: any 3000 characters fit, which is what Slack's dialog takes.
const MaxReason = 12_000

// Decide takes one person's decision. Of any number of deciders one wins; the others get an [Error]
// that carries the request as it stands: [CodeNotFound], [CodeNotAnApprover], [CodeAlreadyResolved],
// [CodeExpired], [CodeReasonRequired] or [CodeInvalidParameter], judged in that order, and each is audited.
//
// A vote that is not the last leaves the request pending: it is returned as it stands then, with its votes. Further
// errors: [CodeAlreadyVoted], [CodeNotYourStage], [CodeStepUpRequired], [CodeConfirmRequired], [CodeChanged]; and for
// other args [CodeInvalidArgs] and [CodePolicyDenied]. Of an edit the request of the new args is returned.
func (g *Gate) Decide(ctx context.Context, d Decision) (Request, error) {
	if d.Args != nil && d.Approve {
		return approveEdited(ctx, g, d)
	}
	return carryOut(ctx, g, OfID(d.RequestID), func(w *Work) (resolved, error) { return w.decide(d) })
}

func (w *Work) decide(d Decision) (resolved, error) {
	d.tidy(w.g)
	r, err := w.Request(d.RequestID)
	if errors.Is(err, ErrNotFound) {
		refusal := Errorf(CodeNotFound, noSuchRequest)
		return resolved{refusal: refusal}, w.auditRefusal(Request{}, d, refusal)
	}
	if err != nil {
		return resolved{}, err
	}
	return w.decideOn(r, d)
}

// tidy leaves a reason that says nothing out, and gives the decider the roles of now.
func (d *Decision) tidy(g *Gate) {
	if d.Reason, d.By = strings.TrimSpace(d.Reason), g.ActorNow(d.By); Blank(d.Reason) {
		d.Reason = ""
	}
}

// decideOn takes a decision on a request that was settled.
func (w *Work) decideOn(r Request, d Decision) (resolved, error) {
	var b ballot
	var e *electorate
	changed := d.isOutdated(&r)
	d.proven = d.proven || d.isProven(w.g.prover, &r, r.Args, w.tx.Now())
	if r.Status == Pending && d.By.MayDecide() {
		var t tally
		var err error
		if r, e, t, err = w.Votes().stand(r); err != nil {
			return resolved{}, err
		}
		if b, err = e.ballot(d.By, r.Votes, &t); err != nil {
			return resolved{}, err
		}
	}
	b.changed = changed
	refusal := w.refusalOf(r, d, &b)
	if refusal == nil {
		var err error
		if refusal, err = w.Grants().refuseGrant(&r, &d); err != nil {
			return resolved{}, err
		}
	}
	if refusal != nil {
		return resolved{r, refusal}, w.auditRefusal(r, d, refusal)
	}
	if err := w.Votes().vote(r, d, e, &b); err != nil {
		return resolved{}, err
	}
	r, err := w.tx.Request(r.ID)
	return resolved{is: r}, err
}

// resolve ends a request as the last vote says. who is all of them, where it is not one person alone.
func (w *Work) resolve(r Request, d Decision, who string) error {
	now := w.tx.Now()
	res := Resolution{ID: r.ID, Status: Denied, At: now, By: d.By.String(), Via: d.Via, Reason: d.Reason, Who: who}
	word := "deny"
	if d.Approve {
		word = "approve"
		res.Status, res.UseBy = Approved, now.Add(w.g.Policy().Terms().UseWithin).Truncate(time.Millisecond)
	}
	ok, err := w.tx.Resolve(res)
	if err != nil {
		return err
	}
	if !ok {
		return Errorf(CodeStoreUnavailable, "The request changed while it was decided; try again.")
	}
	if !d.Approve {
		if err := rememberDenial(w.tx, r, now); err != nil {
			return err
		}
	}
	if err := putSaid(w.tx, &r, &d, d.Approve, who); err != nil {
		return err
	}
	e := requestEvent(r, EventDecision)
	e.Actor, e.Decision, e.Reason = d.By.String(), word, d.Reason
	with, credential := d.steppedUp()
	e.Data = w.g.records.decisionData(w.ctx, &r, map[string]any{"via": string(d.Via), "who": who, "step_up": with,
		"passkey": credential})
	if err := w.auditFor(&r, e); err != nil {
		return err
	}
	if d.Approve {
		if err := w.toolPins().acceptTool(r, d.By); err != nil {
			return err
		}
	}
	return w.g.notifier.Ended(w.tx, r)
}

func rememberDenial(tx Tx, r Request, now time.Time) error {
	recent, err := tx.Recent(r.Key())
	if err != nil {
		return err
	}
	recent.DeniedID, recent.DeniedAt = r.ID, now
	return tx.PutRecent(r.Key(), recent)
}

// refusalOf says why d may not be carried out on r as it stands, nil if it may.
func (w *Work) refusalOf(r Request, d Decision, b *ballot) *Error {
	code := mayDecide(&r, d, b, w.tx.Now())
	e := &Error{Code: code, Request: &r}
	switch code {
	case "":
		return nil
	case CodeNotAnApprover: // it may not be theirs to see
		return &Error{Code: code, Message: "You may not decide this request."}
	case CodeExpired, CodeAlreadyResolved:
		e.Message = lateMessage(r.ByWall(w.g.store), d.By)
	case CodeReasonRequired:
		e.Message = "This request needs a reason with the decision."
	case CodeAlreadyVoted:
		e.Message = votedMessage(r.ByWall(w.g.store), d.By)
	case CodeNotYourStage:
		e.Message = "Others are asked now: " + openStage(&r) + ". You may not decide this yet, or not any more."
	case CodeStepUpRequired:
		e.Message = w.stepUpMessage(r.ID)
	case CodeConfirmRequired:
		e.Message = fmt.Sprintf("Approving lets %s run %s once. Approve it once more to confirm.", r.Agent, r.Target())
	case CodeChanged:
		e.Message = "The request has changed since you saw it. Nothing was decided: look at it again."
	default:
		e.Message = "The reason is too long: use at most 3000 characters."
	}
	return e
}

func (w *Work) auditRefusal(r Request, d Decision, why *Error) error {
	e := requestEvent(r, EventDecisionRefused)
	e.Actor, e.Decision, e.Reason = d.By.String(), "deny", string(why.Code)
	if d.Approve {
		e.Decision = "approve"
	}
	data := map[string]any{"via": d.Via}
	if r.ID == "" {
		data["approval_id"] = legible.Cut(legible.Line(d.RequestID), 64)
	}
	e.Data = marshal(data)
	return w.audit(e)
}

// Decide takes a decision. A refusal is on record and commits, an error does not; the request is as it stands then,
// with the store's times.
func (w *Work) Decide(d Decision) (Request, *Error, error) {
	res, err := w.decide(d)
	return res.is, res.refusal, err
}

// Explain gives a denial of by's that has none its reason. false: it is not theirs, or has one.
func (w *Work) Explain(r Request, by Actor, via Via, reason string) (bool, error) {
	ok, err := w.tx.AddReason(r.ID, by.Name, reason)
	if err != nil || !ok {
		return false, err
	}
	e := requestEvent(r, EventReasonAdded)
	e.Actor, e.Decision, e.Reason = by.String(), "deny", reason
	e.Data = marshal(map[string]any{"via": via})
	if err := w.audit(e); err != nil {
		return false, err
	}
	return true, w.g.notifier.Ended(w.tx, r) // cards that can be edited say why
}

// Blank reports whether a reason says nothing that can be seen.
func Blank(reason string) bool {
	for _, r := range reason {
		if s := string(r); !unicode.IsSpace(r) && legible.Line(s) == s && r != '\u2800' {
			return false
		}
	}
	return true
}

// Decided is what became of one of several requests that were decided together.
type Decided struct {
	ID      string
	Request Request
	Refusal *Error // nil: the decision was taken; the request is pending where it was a vote that was not the last
}

// DecideMany is [Gate.Decide] for several requests, each by itself and in one transaction; d's RequestID and Args are
// not used. An id that is there twice is decided once.
func (g *Gate) DecideMany(ctx context.Context, ids []string, d Decision) ([]Decided, error) {
	if len(ids) == 0 || len(ids) > MaxDecideMany {
		return nil, Errorf(CodeInvalidParameter, "1 to %d ids are taken at once, not %d.", MaxDecideMany, len(ids))
	}
	d.Args = nil
	about := WholeStore() // they may be several agents'
	if len(ids) == 1 {
		about = OfID(ids[0])
	}
	all, err := update(ctx, g, about, func(w *Work) ([]Decided, error) {
		var all []Decided
		seen := map[string]bool{}
		for _, id := range ids {
			if seen[id] {
				continue
			}
			seen[id] = true
			d.RequestID = id
			res, err := w.decide(d)
			if err != nil {
				return nil, err
			}
			all = append(all, Decided{id, res.is, res.refusal})
		}
		return all, nil
	})
	for i := range all {
		all[i].Request = all[i].Request.ByWall(g.store)
		if all[i].Refusal != nil {
			all[i].Refusal = all[i].Refusal.byWall(g.store)
		}
	}
	return all, err
}

// MaxDecideMany is how many requests [Gate.DecideMany] takes.
const MaxDecideMany = 100
