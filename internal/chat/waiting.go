package chat

import (
	"context"

	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// waitingList is what waits for somebody.
type waitingList struct {
	newest []approval.Head // as many as one answer brings
	total  int             // that they may decide
	others int             // that wait for other people
}

// mostLooked is how many pending requests are looked at for one answer, the newest: older ones count as theirs, and a
// press on one is judged as any other.
const mostLooked = 200

// waiting returns what waits for somebody: of those who decide what they may vote on, of others all of it.
func (s *Service) waiting(ctx context.Context, tx approval.Tx, who approval.Actor) (list waitingList, err error) {
	if err := s.gate.In(ctx, tx).Expire(); err != nil {
		return list, err
	}
	if list.total, err = tx.CountPending(""); err != nil {
		return list, err
	}
	look := maxReplyCards
	if who.MayDecide() {
		look = mostLooked
	}
	newest, err := tx.Heads(approval.RequestQuery{Status: approval.Pending, Limit: look})
	if err != nil {
		return list, err
	}
	for _, h := range newest {
		theirs := true
		if who.MayDecide() {
			if theirs, err = s.mayVote(ctx, tx, h, who); err != nil {
				return list, err
			}
		}
		switch {
		case !theirs:
			list.others++
			list.total--
		case len(list.newest) < maxReplyCards:
			list.newest = append(list.newest, h)
		}
	}
	return list, nil
}

// mayVote reports whether somebody may vote on a pending request now.
func (s *Service) mayVote(ctx context.Context, tx approval.Tx, h approval.Head, who approval.Actor) (bool, error) {
	r, err := tx.NeedOf(h.ID)
	if err != nil {
		return false, err
	}
	h.Need, h.Stage, h.Votes, h.RuleDigest = r.Need, r.Stage, r.Votes, r.RuleDigest
	return s.gate.In(ctx, tx).Votes().MayVote(h.Request, who)
}

// waitingLine says how much waits, and for whom.
func (s *Service) waitingLine(t Interaction, list waitingList) string {
	var line string
	switch {
	case list.total == 0 && list.others > 0:
		return s.say(t.By, phrases.SayOnlyOthers, "count", list.others)
	case list.total == 0:
		return s.say(t.By, phrases.SayNothingWaits)
	case t.Elsewhere && list.total == 1:
		line = s.say(t.By, phrases.SayOneSent)
	case t.Elsewhere && list.total > len(list.newest):
		line = s.say(t.By, phrases.SayNewestSent, "n", list.total, "shown", len(list.newest))
	case t.Elsewhere:
		line = s.say(t.By, phrases.SayManySent, "n", list.total)
	case list.total == 1:
		line = s.say(t.By, phrases.SayOneWaits)
	case list.total > len(list.newest):
		line = s.say(t.By, phrases.SayNewestWait, "n", list.total, "shown", len(list.newest))
	default:
		line = s.say(t.By, phrases.SayManyWait, "n", list.total)
	}
	if list.others > 0 {
		line = then(line, s.say(t.By, phrases.SayOthersWait, "count", list.others))
	}
	return line
}
