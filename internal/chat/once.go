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
func (s *Service) askOnce(t Interaction, r approval.Request, d *decisions) {
	if !d.alone {
		d.lines = append(d.lines, s.say(t.By, phrases.SayConfirmEach, "tool", r.Target()))
		return
	}
	d.once = &r
	d.lines = append(d.lines, s.say(t.By, phrases.SayConfirm, "agent", r.Agent, "tool", r.Target()))
}

// answerOnce takes the answer to what was asked once more. It counts once, for a while, and from whoever was asked.
func (s *Service) answerOnce(ctx context.Context, tx approval.Tx, t Interaction) (InteractionResult, error) {
	if t.By.Kind != approval.Human {
		_, out, err := s.refuse(ctx, tx, t)
		return out, err
	}
	n, err := tx.Notification(t.RequestID)
	if err != nil && !errors.Is(err, approval.ErrNotFound) {
		return InteractionResult{}, err
	}
	note := n.Note
	if err == nil && t.Intent == IntentBack && n.Kind == approval.KindReply && n.Address() == t.address() &&
		(note == approval.NoteMore || note.AsksReason()) { // an offer is declined
		return s.answer(tx, t, s.say(t.By, phrases.SayBack))
	}
	if err != nil || n.Kind != approval.KindReply || n.Address() != t.address() || !note.AsksOnce() ||
		tx.Now().Sub(n.CreatedAt) > answeredWithin {
		return s.answer(tx, t, s.say(t.By, phrases.SayAskedOnce))
	}
	n.Note, n.UpdatedAt = approval.NoteAnswered, tx.Now()
	if ok, err := tx.UpdateNotification(n, n.Status, n.Attempt); err != nil || !ok {
		return InteractionResult{}, cmp.Or(err, errOvertaken)
	}
	if t.Intent == IntentBack {
		return s.answer(tx, t, s.say(t.By, phrases.SayBack))
	}
	if note == approval.NoteFreeze {
		r, err := tx.Head(n.ApprovalID)
		if err != nil {
			return InteractionResult{}, err
		}
		return s.freezeNow(ctx, tx, t, r.Agent, "")
	}
	t.Reason, _ = note.Confirms()
	t.Intent, t.RequestID, t.confirmed = IntentApprove, n.ApprovalID, true
	return s.decideEach(ctx, tx, t, targets{ids: []string{n.ApprovalID}})
}

// errOvertaken is of a row that is not as it was read in the same transaction.
var errOvertaken = errors.New("chat: a notification changed within a transaction")

// answer answers somebody with a sentence.
func (s *Service) answer(tx approval.Tx, t Interaction, text string) (InteractionResult, error) {
	return InteractionResult{Text: text}, s.reply(tx, t, approval.Notification{Text: text}, nil)
}

// refused answers somebody with why nothing was done.
func (s *Service) refused(tx approval.Tx, t Interaction, code approval.Code, text string) (InteractionResult, error) {
	return InteractionResult{Code: code, Text: text}, s.reply(tx, t, approval.Notification{Text: text}, nil)
}

// sayer says the words for people and stages to one reader.
func (s *Service) sayer(to approval.Actor) phrases.Sayer {
	return func(p phrases.Phrase, args ...any) string { return s.say(to, p, args...) }
}

// extend gives a request one hour more.
func (s *Service) extend(ctx context.Context, tx approval.Tx, t Interaction) (InteractionResult, error) {
	if t.By.Kind != approval.Human {
		_, out, err := s.refuse(ctx, tx, t)
		return out, err
	}
	if t.RequestID == "" && t.QuotedID != "" {
		ids, err := s.quoted(tx, t)
		if err != nil {
			return InteractionResult{}, err
		}
		if len(ids) == 1 {
			t.RequestID = ids[0]
		}
	}
	if t.RequestID == "" {
		return s.answer(tx, t, s.say(t.By, phrases.SayExtendHow))
	}
	r, refusal, err := s.gate.In(ctx, tx).Extend(t.RequestID, t.By, approval.Via(t.Channel))
	switch {
	case err != nil:
		return InteractionResult{}, err
	case refusal != nil:
		return s.refused(tx, t, refusal.Code, s.notExtended(t, refusal))
	}
	text := s.say(t.By, phrases.SayExtended, "tool", s.nameCall(t, r), "when", r.ExpiresAt)
	return InteractionResult{Text: text}, s.reply(tx, t, approval.Notification{ApprovalID: r.ID, Text: text}, nil)
}

// notExtended tells why a request was given no more time.
func (s *Service) notExtended(t Interaction, e *approval.Error) string {
	switch e.Code {
	case approval.CodeNotFound:
		return s.say(t.By, phrases.SayNoRequest)
	case approval.CodeAlreadyResolved, approval.CodeExpired:
		switch {
		case e.Request == nil:
			return s.say(t.By, phrases.SayExtendedBefore)
		case e.Request.Status != approval.Pending:
			return s.late(t, *e.Request)
		case !e.Request.ExtendedAt.IsZero():
			return s.sayOf(t, *e.Request, s.say(t.By, phrases.SayExtendedBefore))
		}
		return s.sayOf(t, *e.Request, s.say(t.By, phrases.SayExpired))
	case approval.CodeNotAnApprover, approval.CodeNotYourStage, approval.CodeNotAdmin, approval.CodeAlreadyVoted:
		return s.say(t.By, phrases.SayNotExtended)
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
func (s *Service) unresolvedID(tx approval.Tx, t Interaction) (InteractionResult, error) {
	switch t.unresolved {
	case approval.CodeAmbiguousID:
		return s.refused(tx, t, t.unresolved, s.say(t.By, phrases.SayAmbiguous, "typed", t.Typed)+"\n"+t.couldBe)
	case approval.CodeInvalidParameter:
		return s.refused(tx, t, t.unresolved, s.say(t.By, phrases.SayTypedShort))
	}
	none := phrases.SayNoRequest
	switch t.Intent {
	case IntentRevoke:
		none = phrases.SayRevokeWhich
	case IntentLift:
		none = phrases.SayLiftWhich
	}
	return s.refused(tx, t, t.unresolved, s.say(t.By, none))
}
