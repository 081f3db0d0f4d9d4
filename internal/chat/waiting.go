package chat

import (
	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// waitingList is what waits for a person.
type waitingList struct {
	newest []approval.Head // as many as one answer brings
	total  int             // that they may decide
	others int             // that wait for other people
}

// mostLooked is how many pending requests are looked at for one answer, the newest: older ones count as theirs, and a
// press on one is judged as any other.
const mostLooked = 200

// waiting returns what waits for a person: of those who decide what they may vote on, of others all of it.
func (w work) waiting() (list waitingList, err error) {
	if err := w.in.Expire(); err != nil {
		return list, err
	}
	if list.total, err = w.tx.CountPending(""); err != nil {
		return list, err
	}
	look := maxReplyCards
	if w.By.MayDecide() {
		look = mostLooked
	}
	newest, err := w.tx.Heads(approval.RequestQuery{Status: approval.Pending, Limit: look})
	if err != nil {
		return list, err
	}
	for _, h := range newest {
		theirs := true
		if w.By.MayDecide() {
			if theirs, err = w.mayVote(h); err != nil {
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

// mayVote reports whether a person may vote on a pending request now.
func (w work) mayVote(h approval.Head) (bool, error) {
	r, err := w.tx.NeedOf(h.ID)
	if err != nil {
		return false, err
	}
	h.Need, h.Stage, h.Votes, h.RuleDigest = r.Need, r.Stage, r.Votes, r.RuleDigest
	return w.in.Votes().MayVote(h.Request, w.By)
}

// waitingLine says how much waits, and for whom.
func (w wording) waitingLine(list waitingList) string {
	var line string
	switch {
	case list.total == 0 && list.others > 0:
		return w.say(phrases.SayOnlyOthers, "count", list.others)
	case list.total == 0:
		return w.say(phrases.SayNothingWaits)
	case w.Elsewhere && list.total == 1:
		line = w.say(phrases.SayOneSent)
	case w.Elsewhere && list.total > len(list.newest):
		line = w.say(phrases.SayNewestSent, "n", list.total, "shown", len(list.newest))
	case w.Elsewhere:
		line = w.say(phrases.SayManySent, "n", list.total)
	case list.total == 1:
		line = w.say(phrases.SayOneWaits)
	case list.total > len(list.newest):
		line = w.say(phrases.SayNewestWait, "n", list.total, "shown", len(list.newest))
	default:
		line = w.say(phrases.SayManyWait, "n", list.total)
	}
	if list.others > 0 {
		line = then(line, w.say(phrases.SayOthersWait, "count", list.others))
	}
	return line
}
