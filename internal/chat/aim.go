package chat

import (
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
	ids []string // to be decided; nil: nothing is, and the person has their answer
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
func (w work) aim() (found targets, answer InteractionResult, err error) {
	switch {
	case w.RequestID != "":
		if found, err = w.aimAt(); err != nil || found.ids != nil {
			return found, answer, err
		}
		answer, err = w.allLeftOut(found)
		return targets{}, answer, err
	case w.QuotedID != "":
		ids, err := w.findQuoted()
		if err != nil {
			return targets{}, InteractionResult{}, err
		}
		if len(ids) == 1 {
			return targets{ids: ids}, InteractionResult{}, nil
		}
		if len(ids) > 1 {
			if !w.By.Approver {
				return w.refuse()
			}
			answer.Text = w.say(phrases.SayQuotesMany, "n", len(ids), "word", w.word(w.Intent))
			return targets{}, answer, w.reply(approval.Notification{Text: answer.Text}, nil)
		}
		if w.By.Approver && w.Intent == IntentDeny { // what was meant is not known, and is not guessed
			answer.Text = w.say(phrases.SayQuotesUnknown)
			return targets{}, answer, w.reply(approval.Notification{Text: answer.Text}, nil)
		}
	}
	if !w.By.MayDecide() {
		return w.refuse()
	}
	return w.bareWord()
}

// aimAt finds what a named id is about: a request, or of a card what is meant of it and pending. Where all of that is
// over it is about that, and the answer says how each one ended.
func (w work) aimAt() (found targets, err error) {
	card, err := w.tx.Card(w.RequestID)
	if errors.Is(err, approval.ErrNotFound) {
		found.ids, err = aimAtBatch(w.tx, w.RequestID)
		return found, err
	}
	if err != nil {
		return found, err
	}
	upto := max(min(w.Shows.Version, card.Shown), 1) // what was not sent yet stood before no person
	var over []string
	for _, i := range card.Items {
		h, err := w.tx.Head(i.ID)
		if err != nil {
			return targets{}, err
		}
		open := h.Status == approval.Pending && !h.Due(w.tx.Now())
		switch {
		case i.Version <= w.Shows.After: // on another card
		case i.Version > upto:
			if err := w.addJoined(h, &found); err != nil {
				return targets{}, err
			}
		case !open:
			if over = append(over, i.ID); w.givesReason(h.Request) {
				found.ids = append(found.ids, i.ID)
			}
		default:
			found.of++
			why, err := w.byItself(h)
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
		return targets{ids: []string{w.RequestID}}, nil
	case found.of == 0:
		found.ids = over
	}
	return found, nil
}

// aimAtBatch is [work.aimAt] for requests of one batch that were made before there were cards, and for one request.
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
func (w work) byItself(h approval.Head) (phrases.Phrase, error) {
	if w.Intent != IntentApprove {
		return "", nil
	}
	if h.Risk == approval.RiskCritical {
		return phrases.SayLeftCritical, nil
	}
	r, err := w.tx.NeedOf(h.ID)
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

// addJoined adds what has joined a card since, where the person who pressed may decide it.
func (w work) addJoined(h approval.Head, found *targets) error {
	if h.Status != approval.Pending || h.Due(w.tx.Now()) || !w.By.MayDecide() {
		return nil
	}
	may, err := w.mayVote(h)
	if err == nil && may {
		found.joined = append(found.joined, h)
	}
	return err
}

// allLeftOut answers an approval of a card of which all that is pending is approved one by one.
func (w work) allLeftOut(found targets) (InteractionResult, error) {
	if !w.By.MayDecide() {
		_, answer, err := w.refuse()
		return answer, err
	}
	out := InteractionResult{Code: approval.CodeConfirmRequired, Text: strings.Join(w.besides(found), "\n")}
	if w.Told {
		return out, nil
	}
	anew, err := w.cardsToShow(found.joined)
	if err != nil {
		return InteractionResult{}, err
	}
	return out, w.reply(approval.Notification{Text: out.Text}, anew)
}

// besides are the lines of an answer about what of a card was not decided together, and about what has joined it.
func (w wording) besides(found targets) (lines []string) {
	if len(found.left) > 0 {
		var names []string
		for n, l := range found.left {
			if n == maxListed {
				names = append(names, "… (+"+strconv.Itoa(len(found.left)-n)+")")
				break
			}
			names = append(names, w.say(phrases.SayLeftOne, "call", legible.Line(l.Target()), "why", w.say(l.why)))
		}
		lines = append(lines, w.say(phrases.SayLeftOut, "left", len(found.left), "total", found.of, "calls",
			w.sayer(w.By).All(names)))
	}
	if len(found.joined) > 0 {
		lines = append(lines, w.say(phrases.SayJoinedSince, "count", len(found.joined)))
	}
	return lines
}

// cardsToShow are the cards of requests that come with an answer about all of a card, and need not come by themselves
// then. Of a channel whose cards are edited there are none, since the card itself shows them; nor of more requests than
// one answer has room for.
func (w work) cardsToShow(cards []approval.Head) ([]approval.Head, error) {
	if !w.OneReply || len(cards) == 0 || len(cards) > maxReplyCards {
		return nil, nil
	}
	return cards, w.outbox.DropJoined(w.tx, w.address(), w.RequestID)
}

// narrow leaves of the requests of a card those that a notification shows, or is about.
func narrow(tx approval.Cards, n approval.Notification, ids []string) ([]string, error) {
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
