package chat

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/locale/phrases"
)

// targets is what a press, or typed words, are about.
type targets struct {
	ids []string // to be decided; nil: nothing is, and whoever it was has their answer
	// Of a card that is decided together: what of it is pending and is decided one by one, of how many, and what
	// has joined since it was shown.
	left   []leftOut
	of     int
	joined []approval.Head
}

// leftOut is a request that is decided by itself, and why.
type leftOut struct {
	approval.Head
	why phrases.Phrase
}

// aim finds the requests that a tap is about. With none, answer is what the tapper was told instead.
func (s *Service) aim(ctx context.Context, tx approval.Tx,
	t Interaction) (found targets, answer InteractionResult, err error) {
	switch {
	case t.RequestID != "":
		if found, err = s.aimAt(ctx, tx, t); err != nil || found.ids != nil {
			return found, answer, err
		}
		answer, err = s.allLeftOut(ctx, tx, t, found)
		return targets{}, answer, err
	case t.QuotedID != "":
		ids, err := s.quoted(tx, t)
		if err != nil {
			return targets{}, InteractionResult{}, err
		}
		if len(ids) == 1 {
			return targets{ids: ids}, InteractionResult{}, nil
		}
		if len(ids) > 1 {
			if !t.By.Approver {
				return s.refuse(ctx, tx, t)
			}
			answer.Text = s.say(t.By, phrases.SayQuotesMany, "n", len(ids), "word", s.word(t.By, t.Intent))
			return targets{}, answer, s.reply(tx, t, approval.Notification{Text: answer.Text}, nil)
		}
		if t.By.Approver && t.Intent == IntentDeny { // what was meant is not known, and is not guessed
			answer.Text = s.say(t.By, phrases.SayQuotesUnknown)
			return targets{}, answer, s.reply(tx, t, approval.Notification{Text: answer.Text}, nil)
		}
	}
	if !t.By.MayDecide() {
		return s.refuse(ctx, tx, t)
	}
	return s.bareWord(ctx, tx, t)
}

// aimAt finds what a named id is about: a request, or of a card what is meant of it and pending. Where all of that is
// over it is about that, and the answer says how each one ended.
func (s *Service) aimAt(ctx context.Context, tx approval.Tx, t Interaction) (found targets, err error) {
	card, err := tx.Card(t.RequestID)
	if errors.Is(err, approval.ErrNotFound) {
		found.ids, err = aimAtBatch(tx, t.RequestID)
		return found, err
	}
	if err != nil {
		return found, err
	}
	upto := max(min(t.Shows.Version, card.Shown), 1) // what was not sent yet stood before nobody
	var over []string
	for _, i := range card.Items {
		h, err := tx.Head(i.ID)
		if err != nil {
			return targets{}, err
		}
		open := h.Status == approval.Pending && !h.Due(tx.Now())
		switch {
		case i.Version <= t.Shows.After: // on another card
		case i.Version > upto:
			if err := s.addJoined(ctx, tx, t, h, &found); err != nil {
				return targets{}, err
			}
		case !open:
			if over = append(over, i.ID); t.givesReason(h.Request) {
				found.ids = append(found.ids, i.ID)
			}
		default:
			found.of++
			why, err := s.byItself(tx, t, h)
			if err != nil {
				return targets{}, err
			}
			if why == "" {
				found.ids = append(found.ids, i.ID)
			} else {
				found.left = append(found.left, leftOut{h, why})
			}
		}
	}
	switch {
	case found.of == 0 && over == nil: // a version that the card has not
		return targets{ids: []string{t.RequestID}}, nil
	case found.of == 0:
		found.ids = over
	}
	return found, nil
}

// aimAtBatch is [Service.aimAt] for requests of one batch that were made before there were cards, and for one request.
func aimAtBatch(tx approval.Tx, id string) (ids []string, err error) {
	batch, err := tx.BatchHeads(id)
	if err != nil {
		return nil, err
	}
	if len(batch) == 0 {
		return []string{id}, nil
	}
	for _, r := range batch {
		if r.Status == approval.Pending && !r.Due(tx.Now()) {
			ids = append(ids, r.ID)
		}
	}
	if ids == nil {
		for _, r := range batch {
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}

// byItself says why a request is not approved together with others; "" where it is.
func (s *Service) byItself(tx approval.Requests, t Interaction, h approval.Head) (phrases.Phrase, error) {
	if t.Intent != IntentApprove {
		return "", nil
	}
	if h.Risk == approval.RiskCritical {
		return phrases.SayLeftCritical, nil
	}
	r, err := tx.NeedOf(h.ID)
	switch {
	case err != nil || r.Need == nil:
		return "", err
	case r.Need.StepUp:
		return phrases.SayLeftStepUp, nil
	case r.Need.Confirm:
		return phrases.SayLeftConfirm, nil
	}
	return "", nil
}

// addJoined adds what has joined a card since, where whoever pressed may decide it.
func (s *Service) addJoined(ctx context.Context, tx approval.Tx, t Interaction, h approval.Head, found *targets) error {
	if h.Status != approval.Pending || h.Due(tx.Now()) || !t.By.MayDecide() {
		return nil
	}
	may, err := s.mayVote(ctx, tx, h, t.By)
	if err == nil && may {
		found.joined = append(found.joined, h)
	}
	return err
}

// allLeftOut answers an approval of a card of which all that is pending is approved one by one.
func (s *Service) allLeftOut(ctx context.Context, tx approval.Tx, t Interaction, found targets) (InteractionResult,
	error) {
	if !t.By.MayDecide() {
		_, answer, err := s.refuse(ctx, tx, t)
		return answer, err
	}
	out := InteractionResult{Code: approval.CodeConfirmRequired, Text: strings.Join(s.besides(t, found), "\n")}
	if t.Told {
		return out, nil
	}
	anew, err := s.shownAnew(tx, t, found.joined)
	if err != nil {
		return InteractionResult{}, err
	}
	return out, s.reply(tx, t, approval.Notification{Text: out.Text}, anew)
}

// besides are the lines of an answer about what of a card was not decided together, and about what has joined it.
func (s *Service) besides(t Interaction, found targets) (lines []string) {
	if len(found.left) > 0 {
		var names []string
		for n, l := range found.left {
			if n == maxListed {
				names = append(names, "… (+"+strconv.Itoa(len(found.left)-n)+")")
				break
			}
			names = append(names, s.say(t.By, phrases.SayLeftOne, "call", legible.Line(l.Target()), "why", s.say(t.By, l.why)))
		}
		lines = append(lines, s.say(t.By, phrases.SayLeftOut, "left", len(found.left), "total", found.of, "calls",
			s.sayer(t.By).All(names)))
	}
	if len(found.joined) > 0 {
		lines = append(lines, s.say(t.By, phrases.SayJoinedSince, "count", len(found.joined)))
	}
	return lines
}

// shownAnew are the cards of requests that come with an answer about all of a card, and need not come by themselves
// then. Of a channel whose cards are edited there are none, since the card itself shows them; nor of more requests than
// one answer has room for.
func (s *Service) shownAnew(tx approval.Tx, t Interaction, cards []approval.Head) ([]approval.Head, error) {
	if !t.OneReply || len(cards) == 0 || len(cards) > maxReplyCards {
		return nil, nil
	}
	return cards, s.outbox.Brought(tx, t.address(), t.RequestID)
}

// narrowed leaves of the requests of a card those that a notification shows, or is about.
func narrowed(tx approval.Cards, n approval.Notification, ids []string) ([]string, error) {
	if n.BatchID == "" || len(n.Cards) > 0 {
		return ids, nil
	}
	card, err := tx.Card(n.BatchID)
	if errors.Is(err, approval.ErrNotFound) {
		return ids, nil
	}
	if err != nil {
		return nil, err
	}
	shown := card.Upto(n.After, n.Shown)
	return slices.DeleteFunc(ids, func(id string) bool { return !slices.Contains(shown, id) }), nil
}
