package lists

import (
	"context"
	"errors"
	"strings"

	"countersign/approval"
)

// WaitingQuery narrows what [FindWaiting] brings.
type WaitingQuery struct {
	Agent string
	Tool  string // its name, or server/tool
	Risk  approval.Risk
	Text  string // in any case: part of the agent, the tool, the scope, the session or the message; or the end of the id
	Whose Whose
	After string // requests with a smaller id
	Limit int    // at most [MostWaiting]; 0: so many
}

// Whose narrows requests to those that somebody may decide now, or to others.
type Whose string

const (
	WhoseAny    Whose = ""
	WhoseMine   Whose = "mine"
	WhoseOthers Whose = "others"
)

// Of what waits.
const (
	// MostWaiting is how many requests one look brings.
	MostWaiting = 100
	// mostLooked is how many one look goes through: who may decide a request is found out one by one.
	mostLooked = 1_000
	// MostShownArgs is how large a request may be, in bytes, that a list shows whole.
	MostShownArgs = 16 << 10
	// mostSummed is how many bytes one list reads of requests that it does not show whole, to say what will happen.
	mostSummed = 512 << 10
)

// WaitingRow is one pending request. Where Wide is set it is too large to be shown whole in a list, and its Args,
// Rationale and Preview may not be there.
type WaitingRow struct {
	approval.Request
	Mine     bool // the person may decide it now
	Wide     bool
	Standing approval.Standing
}

// Waiting is one look at what waits, the newest first.
type Waiting struct {
	Rows  []WaitingRow
	Total int    // how many wait in all, of any agent, tool and risk
	Next  string // After of the next look; "" where this one came to the end
}

// FindWaiting returns what waits, to a person.
func FindWaiting(ctx context.Context, g *approval.Gate, who approval.Actor, q WaitingQuery) (Waiting, error) {
	if who.Kind != approval.Human {
		return Waiting{}, approval.Errorf(approval.CodePeopleOnly, "Only people can see what is waiting.")
	}
	who, q.Text = g.ActorNow(who), strings.ToLower(strings.TrimSpace(q.Text))
	if q.Limit <= 0 || q.Limit > MostWaiting {
		q.Limit = MostWaiting
	}
	return approval.LookSettled(ctx, g, func(w *approval.Work) (Waiting, error) {
		found, next, err := lookThrough(w, who, q)
		if err != nil {
			return Waiting{}, err
		}
		is := Waiting{Next: next}
		room := mostSummed
		for _, f := range found {
			row, err := waitingRow(w, &f.Head, &room)
			if err != nil {
				return Waiting{}, err
			}
			row.Request, row.Mine = row.ByWall(g.Clock()), f.mine
			is.Rows = append(is.Rows, row)
		}
		is.Total, err = w.Tx().CountPending("")
		return is, err
	})
}

// waitingHead is a narrow request, and whether somebody may decide it.
type waitingHead struct {
	approval.Head
	mine bool
}

// lookThrough returns narrow requests. next is where the look after it begins, "" where nothing is left.
func lookThrough(w *approval.Work, who approval.Actor, q WaitingQuery) (found []waitingHead, next string,
	err error) {
	rq := approval.RequestQuery{Status: approval.Pending, Agent: q.Agent, Tool: q.Tool, Risk: q.Risk, After: q.After,
		Limit: 200}
	for looked := 0; looked < mostLooked; {
		hs, err := w.Tx().Heads(rq)
		if err != nil {
			return nil, "", err
		}
		for _, h := range hs {
			rq.After = h.ID
			looked++
			is, fits, err := isLookedFor(w, &h, who, &q)
			if err != nil {
				return nil, "", err
			}
			if fits {
				found = append(found, waitingHead{h, is})
			}
			if len(found) == q.Limit {
				return found, rq.After, nil
			}
		}
		if len(hs) < rq.Limit {
			return found, "", nil
		}
	}
	return found, rq.After, nil
}

// isLookedFor reports whether a request is among those that are looked for, and whether somebody may decide it.
func isLookedFor(w *approval.Work, h *approval.Head, who approval.Actor, q *WaitingQuery) (mine, is bool,
	err error) {
	if over, err := w.Over(&h.Request); err != nil || over || !q.matches(&h.Request) {
		return false, false, err
	}
	mine, err = isMine(w, h, who)
	return mine, q.Whose == WhoseAny || mine == (q.Whose == WhoseMine), err
}

// isMine reports whether somebody may decide a pending request, of which it reads who must say yes.
func isMine(w *approval.Work, h *approval.Head, who approval.Actor) (bool, error) {
	if !who.MayDecide() {
		return false, nil
	}
	need, err := w.Tx().NeedOf(h.ID)
	if err != nil {
		return false, err
	}
	h.Need, h.Stage, h.Votes, h.RuleDigest = need.Need, need.Stage, need.Votes, need.RuleDigest
	return w.Votes().MayVote(h.Request, who)
}

// readListed reads a request for a list: whole, where it is small or there is room for it yet.
func readListed(tx approval.Tx, h *approval.Head, room *int) (approval.Request, error) {
	if h.Wide > MostShownArgs {
		if h.Wide > *room {
			return h.Request, nil
		}
		*room -= h.Wide
	}
	return tx.Request(h.ID)
}

// ReadRows returns requests of which the narrow parts were found, each whole where a list has room for it. What was
// removed since is as it was found.
func ReadRows(ctx context.Context, g *approval.Gate, found []approval.Head) ([]approval.Request, error) {
	return approval.Look(ctx, g, func(w *approval.Work) ([]approval.Request, error) {
		rs, room := make([]approval.Request, len(found)), mostSummed
		for i := range found {
			r, err := readListed(w.Tx(), &found[i], &room)
			if errors.Is(err, approval.ErrNotFound) {
				rs[i] = found[i].Request
				continue
			}
			if err != nil {
				return nil, err
			}
			if rs[i] = found[i].Request; r.Args != nil {
				rs[i] = r.ByWall(g.Clock())
				continue
			}
			need, err := w.Tx().NeedOf(r.ID)
			if err != nil && !errors.Is(err, approval.ErrNotFound) {
				return nil, err
			}
			rs[i].Who = need.Who
		}
		return rs, nil
	})
}

// waitingRow reads what a list shows of a request.
func waitingRow(w *approval.Work, h *approval.Head, room *int) (row WaitingRow, err error) {
	if row.Request, err = readListed(w.Tx(), h, room); err != nil {
		return row, err
	}
	row.Wide = h.Wide > MostShownArgs
	if row.Args == nil {
		need, err := w.Tx().NeedOf(h.ID)
		if err != nil {
			return row, err
		}
		row.Need, row.Stage, row.Votes, row.ExtendedAt = need.Need, need.Stage, need.Votes, need.ExtendedAt
		row.RuleDigest = need.RuleDigest
	}
	row.Standing, err = w.Votes().Standing(row.Request)
	return row, err
}

func (q *WaitingQuery) matches(r *approval.Request) bool {
	if q.Text == "" {
		return true
	}
	for _, s := range []string{r.Target(), r.Agent, r.Scope, r.SessionID, r.HumanMessage} {
		if strings.Contains(strings.ToLower(s), q.Text) {
			return true
		}
	}
	return len(q.Text) >= approval.MinTyped && strings.HasSuffix(strings.ToLower(r.ID), q.Text)
}
