package chat

import (
	"cmp"
	"context"
	"countersign/internal/lists"
	"errors"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// answeredWithin is how long a question counts that is asked once more.
const answeredWithin = 2 * time.Minute

// askOnce sees to an approval that is asked for once more: the answer to it has the buttons. Of several requests each
// is asked about by itself, and left out here.
func (d *decisions) askOnce(r approval.Request) {
	if !d.alone {
		d.lines = append(d.lines, d.say(phrases.SayConfirmEach, "tool", r.Target()))
		return
	}
	d.once = &r
	d.lines = append(d.lines, d.say(phrases.SayConfirm, "agent", r.Agent, "tool", r.Target()))
}

// answerOnce takes the answer to what was asked once more. It counts once, for a while, and from the person who was
// asked.
func (w work) answerOnce() (InteractionResult, error) {
	if w.By.Kind != approval.Human {
		_, out, err := w.refuse()
		return out, err
	}
	n, err := w.tx.Notification(w.RequestID)
	if err != nil && !errors.Is(err, approval.ErrNotFound) {
		return InteractionResult{}, err
	}
	note := n.Note
	if err == nil && w.Intent == IntentBack && n.Kind == approval.KindReply && n.Address() == w.address() &&
		(note == approval.NoteMore || note.AsksReason()) { // an offer is declined
		return w.answer(w.say(phrases.SayBack))
	}
	if err != nil || n.Kind != approval.KindReply || n.Address() != w.address() || !note.AsksOnce() ||
		w.tx.Now().Sub(n.CreatedAt) > answeredWithin {
		return w.answer(w.say(phrases.SayAskedOnce))
	}
	n.Note, n.UpdatedAt = approval.NoteAnswered, w.tx.Now()
	if ok, err := w.tx.UpdateNotification(n, n.Status, n.Attempt); err != nil || !ok {
		return InteractionResult{}, cmp.Or(err, errOvertaken)
	}
	if w.Intent == IntentBack {
		return w.answer(w.say(phrases.SayBack))
	}
	if note == approval.NoteFreeze {
		r, err := w.tx.Head(n.ApprovalID)
		if err != nil {
			return InteractionResult{}, err
		}
		return w.freezeNow(r.Agent, "")
	}
	w.Reason, _ = note.Confirms()
	w.Intent, w.RequestID, w.confirmed = IntentApprove, n.ApprovalID, true
	return w.decideEach(targets{ids: []string{n.ApprovalID}})
}

// errOvertaken is of a row that is not as it was read in the same transaction.
var errOvertaken = errors.New("chat: a notification changed within a transaction")

// answer answers a person with a sentence.
func (w work) answer(text string) (InteractionResult, error) {
	return InteractionResult{Text: text}, w.reply(approval.Notification{Text: text}, nil)
}

// refuseWith answers a person with why nothing was done.
func (w work) refuseWith(code approval.Code, text string) (InteractionResult, error) {
	return InteractionResult{Code: code, Text: text}, w.reply(approval.Notification{Text: text}, nil)
}

// sayer says the words for people and stages to one reader.
func (s *Service) sayer(to approval.Actor) phrases.Sayer {
	return func(p phrases.Phrase, args ...any) string { return s.sayTo(to, p, args...) }
}

// extend gives a request one hour more.
func (w work) extend() (InteractionResult, error) {
	if w.By.Kind != approval.Human {
		_, out, err := w.refuse()
		return out, err
	}
	if w.RequestID == "" && w.QuotedID != "" {
		ids, err := w.findQuoted()
		if err != nil {
			return InteractionResult{}, err
		}
		if len(ids) == 1 {
			w.RequestID = ids[0]
		}
	}
	if w.RequestID == "" {
		return w.answer(w.say(phrases.SayExtendHow))
	}
	r, refusal, err := w.in.Extend(w.RequestID, w.By, approval.Via(w.Channel))
	switch {
	case err != nil:
		return InteractionResult{}, err
	case refusal != nil:
		return w.refuseWith(refusal.Code, w.notExtended(refusal))
	}
	text := w.say(phrases.SayExtended, "tool", w.nameCall(r), "when", r.ExpiresAt)
	return InteractionResult{Text: text}, w.reply(approval.Notification{ApprovalID: r.ID, Text: text}, nil)
}

// notExtended tells why a request was given no more time.
func (w wording) notExtended(e *approval.Error) string {
	switch e.Code {
	case approval.CodeNotFound:
		return w.say(phrases.SayNoRequest)
	case approval.CodeAlreadyResolved, approval.CodeExpired:
		switch {
		case e.Request == nil:
			return w.say(phrases.SayExtendedBefore)
		case e.Request.Status != approval.Pending:
			return w.late(*e.Request)
		case !e.Request.ExtendedAt.IsZero():
			return w.sayOf(*e.Request, w.say(phrases.SayExtendedBefore))
		}
		return w.sayOf(*e.Request, w.say(phrases.SayExpired))
	case approval.CodeNotAnApprover, approval.CodeNotYourStage, approval.CodeNotAdmin, approval.CodeAlreadyVoted:
		return w.say(phrases.SayNotExtended)
	}
	return e.Message
}

// resolve finds the request that is meant by the end of its id.
func (s *Service) resolve(ctx context.Context, t Interaction) (Interaction, error) {
	if t.Typed == "" || t.By.Kind != approval.Human || t.Intent == IntentEndVotes {
		return t, nil
	}
	if yes := t.Intent == IntentApprove || t.Intent == IntentUnclear; yes && len(t.Typed) < approval.MinTypedApprove {
		if t.Intent == IntentApprove {
			t.unresolved = approval.CodeInvalidParameter
		}
		return t.asWords(), nil
	}
	resolve := lists.ResolveID
	switch t.Intent {
	case IntentRevoke:
		resolve = lists.ResolveGrant
	case IntentLift:
		resolve = lists.ResolveDenial
	}
	id, err := resolve(ctx, s.gate, t.By, t.Typed)
	if e, ok := errors.AsType[*approval.Error](err); ok &&
		(e.Code == approval.CodeNotFound || e.Code == approval.CodeAmbiguousID) {
		t.unresolved, t.couldBe = e.Code, e.Message
		return t.asWords(), nil
	}
	t.RequestID = id
	return t, err
}

// asWords takes back that an ordinary word was taken for the end of an id, where there is no such request.
func (t Interaction) asWords() Interaction {
	word, rest := cutWord(strings.TrimSpace(t.Text))
	after := split(word, rest).after
	switch {
	case t.Intent == IntentApprove && !hasDigit(t.Typed) && t.unresolved != approval.CodeAmbiguousID: // "ok thanks"
		t.Intent, t.unresolved = IntentUnclear, ""
	case t.unresolved != approval.CodeNotFound:
	case t.Intent == IntentDeny && t.QuotedID != "" && t.Reason != "":
		t.Reason, t.unresolved = after, ""
	case t.Intent == IntentDeny && hasDigit(t.Typed) && idThenColon(after): // meant for no other request
	case t.Intent == IntentUnclear:
		t.unresolved = ""
	case t.Intent == IntentDeny && (!hasDigit(t.Typed) || t.Reason != ""):
		t.Intent, t.Reason, t.unresolved = IntentOther, "", ""
	}
	return t
}

// unresolvedID answers words that name no request, or several.
func (w work) unresolvedID() (InteractionResult, error) {
	switch w.unresolved {
	case approval.CodeAmbiguousID:
		return w.refuseWith(w.unresolved, w.say(phrases.SayAmbiguous, "typed", w.Typed)+"\n"+w.couldBe)
	case approval.CodeInvalidParameter:
		return w.refuseWith(w.unresolved, w.say(phrases.SayTypedShort))
	}
	none := phrases.SayNoRequest
	switch w.Intent {
	case IntentRevoke:
		none = phrases.SayRevokeWhich
	case IntentLift:
		none = phrases.SayLiftWhich
	}
	return w.refuseWith(w.unresolved, w.say(none))
}
