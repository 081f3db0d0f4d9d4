package approval

import (
	"context"
	"strings"
)

// WaitingQuery narrows what [Gate.Waiting] brings.
type WaitingQuery struct {
	Agent string
	Tool  string // its name, or server/tool
	Risk  Risk
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
	Request
	Mine     bool // the person may decide it now
	Wide     bool
	Standing Standing
}

// Waiting is one look at what waits, the newest first.
type Waiting struct {
	Rows  []WaitingRow
	Total int    // how many wait in all, of any agent, tool and risk
	Next  string // After of the next look; "" where this one came to the end
}

// Waiting returns what waits, to a person.
func (g *Gate) Waiting(ctx context.Context, who Actor, q WaitingQuery) (Waiting, error) {
	if who.Kind != Human {
		return Waiting{}, Errorf(CodePeopleOnly, "Only people can see what is waiting.")
	}
	who, q.Text = g.asNow(who), strings.ToLower(strings.TrimSpace(q.Text))
	if q.Limit <= 0 || q.Limit > MostWaiting {
		q.Limit = MostWaiting
	}
	return view(ctx, g, func(w *Work) (Waiting, error) {
		found, next, err := w.lookThrough(who, q)
		if err != nil {
			return Waiting{}, err
		}
		is := Waiting{Next: next}
		room := mostSummed
		for _, f := range found {
			row, err := w.waitingRow(&f.Head, &room)
			if err != nil {
				return Waiting{}, err
			}
			row.Mine = f.mine
			is.Rows = append(is.Rows, row)
		}
		is.Total, err = w.tx.CountPending("")
		return is, err
	})
}

// waitingHead is a narrow request, and whether somebody may decide it.
type waitingHead struct {
	Head
	mine bool
}

// lookThrough returns narrow requests. next is where the look after it begins, "" where nothing is left.
func (w *Work) lookThrough(who Actor, q WaitingQuery) (found []waitingHead, next string,
	err error) {
	rq := RequestQuery{Status: Pending, Agent: q.Agent, Tool: q.Tool, Risk: q.Risk, After: q.After, Limit: 200}
	for looked := 0; looked < mostLooked; {
		hs, err := w.tx.Heads(rq)
		if err != nil {
			return nil, "", err
		}
		for _, h := range hs {
			rq.After = h.ID
			looked++
			is, fits, err := w.isLookedFor(&h, who, &q)
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
func (w *Work) isLookedFor(h *Head, who Actor, q *WaitingQuery) (mine, is bool,
	err error) {
	if over, err := w.over(&h.Request); err != nil || over || !q.matches(&h.Request) {
		return false, false, err
	}
	mine, err = w.isMine(h, who)
	return mine, q.Whose == WhoseAny || mine == (q.Whose == WhoseMine), err
}

// isMine reports whether somebody may decide a pending request, of which it reads who must say yes.
func (w *Work) isMine(h *Head, who Actor) (bool, error) {
	if !who.MayDecide() {
		return false, nil
	}
	need, err := w.tx.NeedOf(h.ID)
	if err != nil {
		return false, err
	}
	h.Need, h.Stage, h.Votes, h.RuleDigest = need.Need, need.Stage, need.Votes, need.RuleDigest
	return w.Votes().MayVote(h.Request, who)
}

// listed reads a request for a list: whole, where it is small or there is room for it yet.
func listed(tx Tx, h *Head, room *int) (Request, error) {
	if h.Wide > MostShownArgs {
		if h.Wide > *room {
			return h.Request, nil
		}
		*room -= h.Wide
	}
	return tx.Request(h.ID)
}

// Listed returns requests of which the narrow parts were found, each whole where a list has room for it.
func (g *Gate) Listed(ctx context.Context, found []Head) ([]Request, error) {
	return look(ctx, g, func(w *Work) ([]Request, error) {
		rs, room := make([]Request, len(found)), mostSummed
		for i := range found {
			r, err := listed(w.tx, &found[i], &room)
			if err != nil {
				return nil, err
			}
			if rs[i] = found[i].Request; r.Args != nil {
				rs[i] = g.told(r)
				continue
			}
			need, err := w.tx.NeedOf(r.ID)
			if err != nil {
				return nil, err
			}
			rs[i].Who = need.Who
		}
		return rs, nil
	})
}

// waitingRow reads what a list shows of a request.
func (w *Work) waitingRow(h *Head, room *int) (row WaitingRow, err error) {
	if row.Request, err = listed(w.tx, h, room); err != nil {
		return row, err
	}
	row.Wide = h.Wide > MostShownArgs
	if row.Args == nil {
		need, err := w.tx.NeedOf(h.ID)
		if err != nil {
			return row, err
		}
		row.Need, row.Stage, row.Votes, row.ExtendedAt = need.Need, need.Stage, need.Votes, need.ExtendedAt
		row.RuleDigest = need.RuleDigest
	}
	row.Standing, err = w.Votes().Standing(row.Request)
	row.Request = w.g.told(row.Request)
	return row, err
}

func (q *WaitingQuery) matches(r *Request) bool {
	if q.Text == "" {
		return true
	}
	for _, s := range []string{r.Target(), r.Agent, r.Scope, r.SessionID, r.HumanMessage} {
		if strings.Contains(strings.ToLower(s), q.Text) {
			return true
		}
	}
	return len(q.Text) >= MinTyped && strings.HasSuffix(strings.ToLower(r.ID), q.Text)
}

// Details is one request as a person sees it who may do this and that about it.
type Details struct {
	Request
	Standing Standing // while it is pending
	Voters   []Actor  // who may decide it now
	// What the person may do, as things are now: whoever does it is judged again.
	MayApprove, MayDeny, MayGrant, MayExtend, MayCancel, MayFreeze bool
}

// Details returns a request, whole, and what a person may do about it. Errors: as [Gate.Request].
func (g *Gate) Details(ctx context.Context, who Actor, id string) (Details, error) {
	if who.Kind != Human {
		return Details{}, Errorf(CodeNotFound, noSuchRequest)
	}
	if _, err := g.RequestHead(ctx, who, id); err != nil { // which ends what is over
		return Details{}, err
	}
	return look(ctx, g, func(w *Work) (Details, error) {
		r, err := w.tx.Request(id)
		if err != nil {
			return Details{}, err
		}
		if r.Before != nil {
			before := *r.Before
			if was, err := w.tx.Request(before.RequestID); err == nil {
				before.Args = was.Args
			}
			r.Before = &before
		}
		d := Details{Request: r}
		if err := w.mayDo(&d, g.asNow(who)); err != nil {
			return d, err
		}
		d.Request = g.told(r)
		for i := range d.Standing.Votes {
			d.Standing.Votes[i].At = g.store.ToWall(d.Standing.Votes[i].At)
		}
		return d, nil
	})
}

// mayDo finds out what somebody may do about a request.
func (w *Work) mayDo(d *Details, who Actor) error {
	r := d.Request
	e := w.Votes().electorate(&r, r.Need)
	t, err := e.tally(r.Votes)
	if err != nil {
		return err
	}
	b, err := e.ballot(who, r.Votes, &t)
	if err != nil {
		return err
	}
	d.MayCancel = mayCancel(&r, who) == ""
	d.MayFreeze = w.g.MayFreeze(r.Agent, who) == nil
	if r.Status != Pending || r.Due(w.tx.Now()) {
		return nil
	}
	d.MayApprove = who.MayDecide() && b.stage && !b.voted
	d.MayDeny = who.MayDecide() && (b.stage || b.hasSaid)
	d.MayExtend = w.g.mayExtend(&r, who, &b) == nil
	if d.Standing, err = w.Votes().Standing(r); err != nil {
		return err
	}
	d.Standing.Votes = append([]Vote(nil), d.Standing.Votes...)
	if d.Voters, err = e.voters(&t); err != nil || !d.MayApprove {
		return err
	}
	d.MayGrant, err = w.Grants().May(r, who)
	return err
}

// Call is the call that the request was made for, as far as a policy looks at it.
func (r Request) Call() (Call, error) { return r.call() }
