package approval

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"countersign/approval/args"
)

// electorate is who may vote on one pending request at a transaction's time, and whose votes count. A vote counts as
// long as whoever gave it could give it now: that is judged when it is given, at each later vote, and at the use.
type electorate struct {
	g     *Gate
	tx    Tx
	r     *Request
	need  *Need
	now   time.Time
	owner string // of the agent, where that matters
	// reason: an approval without one does not count
	reason bool

	standIns []Delegation // that hold now
	read     bool         // standIns were read
}

func (w VoteWork) electorate(r *Request, need *Need) *electorate {
	e := &electorate{g: w.g, tx: w.tx, r: r, need: need, now: w.tx.Now(), reason: r.RequireReason}
	if need != nil && need.SeparateDuties && w.g.dir != nil {
		e.owner = w.g.dir.Owner(r.Agent)
	}
	return e
}

// serves reports whether somebody is an approver whose word counts for this request at all.
func (e *electorate) serves(who Actor) bool {
	return who.MayDecide() && (e.owner == "" || who.Name != e.owner)
}

// mayIn reports whether somebody may vote in a stage in their own name.
func (e *electorate) mayIn(stage Stage, who Actor) bool {
	if !e.serves(who) {
		return false
	}
	names := stage.Names()
	if len(names) == 0 || belongs(who, names) {
		return true
	}
	if e.need == nil {
		return false
	}
	return slices.ContainsFunc(e.need.Escalate, func(s Escalation) bool {
		return !e.now.Before(e.r.RequestedAt.Add(s.After)) && belongs(who, s.To)
	})
}

// delegations returns those that hold now for this request.
func (e *electorate) delegations() ([]Delegation, error) {
	if e.read {
		return e.standIns, nil
	}
	all, err := e.tx.Delegations()
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.ActiveAt(e.now) && d.isFor(e.r.RuleDigest) {
			e.standIns = append(e.standIns, d)
		}
	}
	e.read = true
	return e.standIns, nil
}

// mayFor reports whether somebody may vote in a stage in the name of another.
func (e *electorate) mayFor(stage Stage, delegate, delegator Actor) (bool, error) {
	if !e.serves(delegate) || !e.mayIn(stage, delegator) {
		return false, nil
	}
	ds, err := e.delegations()
	return slices.ContainsFunc(ds, func(d Delegation) bool {
		return d.Delegate == delegate.Name && d.Delegator == delegator.Name
	}), err
}

// counts reports whether a vote could be given now, as it was, by who gave it.
func (e *electorate) counts(v Vote) (bool, error) {
	stages := e.need.InStages()
	if !v.Approve || v.Stage < 1 || v.Stage > len(stages) || !e.sayEnough(v) {
		return false, nil
	}
	if e.g.dir == nil {
		return true, nil
	}
	stage, who := stages[v.Stage-1], e.g.PersonNow(v.Person)
	if v.For == "" {
		return e.mayIn(stage, who), nil
	}
	return e.mayFor(stage, who, e.g.PersonNow(v.For))
}

// sayEnough reports whether a vote has what an approval takes beside the yes.
func (e *electorate) sayEnough(v Vote) bool {
	n := e.need
	return (!e.reason || v.Reason != "") && (n == nil || (!n.StepUp || v.StepUp) && (!n.Confirm || v.Confirmed))
}

// tally is how far votes have brought a request.
type tally struct {
	have  []int  // approvals that count, by stage
	votes []Vote // that count
	open  int    // the stage that falls short, from 0; the number of stages where none does
}

func (t *tally) isMet() bool { return t.open == len(t.have) }

// stageAsked is the stage whose people are asked. Where votes count again that did not, none falls short, and yet
// nobody has said the last yes: the last one's people say it, those too who have voted.
func (t *tally) stageAsked() int { return min(t.open, len(t.have)-1) }

// tally counts votes.
func (e *electorate) tally(votes []Vote) (tally, error) {
	stages := e.need.InStages()
	t := tally{have: make([]int, len(stages))}
	for _, v := range votes {
		ok, err := e.counts(v)
		if err != nil {
			return t, err
		}
		// Whoever has another stand in again may have voted themselves meanwhile.
		if ok && !t.spokenFor(v.Person) && (v.For == "" || !t.spokenFor(v.For)) {
			t.have[v.Stage-1]++
			t.votes = append(t.votes, v)
		}
	}
	for t.open < len(stages) && t.have[t.open] >= stages[t.open].Count {
		t.open++
	}
	return t, nil
}

// spokenFor reports whether somebody has voted, or somebody has for them.
func (t *tally) spokenFor(name string) bool {
	return slices.ContainsFunc(t.votes, func(v Vote) bool { return v.Person == name || v.For == name })
}

// ballot is what one person may do about a pending request.
type ballot struct {
	stage   bool   // they may vote in the open stage,
	For     string // in the name of this person; "": in their own
	other   bool   // they may in another one
	voted   bool   // their word counts already, theirs or of who stood in for them
	hasSaid bool   // they have given a vote, whether or not it counts now
	confirm bool   // an approval is asked for once more
	changed bool   // they have seen another version of it
	stepUp  bool   // an approval takes a passkey
}

// ballot finds out what somebody may do.
func (e *electorate) ballot(who Actor, votes []Vote, t *tally) (b ballot, err error) {
	b.voted = t.spokenFor(who.Name) && !t.isMet()
	b.hasSaid = slices.ContainsFunc(votes, func(v Vote) bool { return v.Person == who.Name })
	b.confirm, b.stepUp = e.need != nil && e.need.Confirm, e.need != nil && e.need.StepUp
	for i, stage := range e.need.InStages() {
		may, forWhom, err := e.may(stage, who, t)
		switch {
		case err != nil:
			return b, err
		case may && i == t.stageAsked():
			b.stage, b.For = true, forWhom
		case may:
			b.other = true
		}
	}
	return b, nil
}

// may reports whether somebody may vote in a stage, and in whose name: their own where that is possible.
func (e *electorate) may(stage Stage, who Actor, t *tally) (ok bool, forWhom string, err error) {
	if e.mayIn(stage, who) {
		return true, "", nil
	}
	if e.g.dir == nil || !e.serves(who) {
		return false, "", nil
	}
	ds, err := e.delegations()
	if err != nil {
		return false, "", err
	}
	for _, d := range ds {
		if d.Delegate != who.Name || t.spokenFor(d.Delegator) {
			continue
		}
		if e.mayIn(stage, e.g.PersonNow(d.Delegator)) {
			return true, d.Delegator, nil
		}
	}
	return false, "", nil
}

// voters returns who may vote in the open stage and has not, stand-ins too.
func (e *electorate) voters(t *tally) ([]Actor, error) {
	stages := e.need.InStages()
	if e.g.dir == nil {
		return nil, nil
	}
	var who []Actor
	for _, p := range e.g.dir.People() {
		if t.spokenFor(p.Name) && !t.isMet() {
			continue
		}
		ok, _, err := e.may(stages[t.stageAsked()], p, t)
		if err != nil {
			return nil, err
		}
		if ok {
			who = append(who, p)
		}
	}
	return who, nil
}

// inFavour returns the votes for a request that was approved: of one person, who needed nobody else, the request
// itself says it.
func (r *Request) inFavour() []Vote {
	if len(r.Votes) > 0 || r.Status != Approved || r.ResolvedVia == ViaSystem {
		return r.Votes
	}
	return []Vote{{Stage: 1, Person: r.ResolvedBy, Approve: true, Reason: r.ResolveReason, At: r.ResolvedAt,
		Via: r.ResolvedVia}}
}

// approvedBy reports whether one of the approvals of r is somebody's, or was given for them.
func (r *Request) approvedBy(name string) bool {
	return r.ResolvedBy == name || slices.ContainsFunc(r.Votes, func(v Vote) bool {
		return v.Approve && (v.Person == name || v.For == name)
	})
}

// Ballots returns the votes on the request, in the order in which they were given.
func (r Request) Ballots() []Vote {
	if len(r.Votes) > 0 || r.ResolvedVia == ViaSystem || r.Status == Pending || r.EndCode == EndFrozen {
		return r.Votes
	}
	switch r.Status {
	case Approved:
		return r.inFavour()
	case Denied:
		return []Vote{{Stage: 1, Person: r.ResolvedBy, Reason: r.ResolveReason, At: r.ResolvedAt, Via: r.ResolvedVia}}
	}
	return nil
}

// Names lists who gave some votes in a sentence: hana; hana and ken; hana, ken and mei.
func Names(votes []Vote) string {
	all := make([]string, len(votes))
	for i, v := range votes {
		all[i] = v.Voter()
	}
	if last := len(all) - 1; last > 0 {
		return strings.Join(all[:last], ", ") + " and " + all[last]
	}
	return strings.Join(all, "")
}

// raiseNeed brings a pending request's need, and whether it takes a reason, to what the policy asks for now, if that is
// more. A request that the policy in force has judged already is left alone.
func (w VoteWork) raiseNeed(r Request) (Request, bool, error) {
	p := w.g.Policy()
	digest := p.Digest()
	// (A request of before rules had digests is judged once more, for whoever stands in for its rule.)
	if digest != "" && digest == r.Policy && (r.RuleDigest != "" || r.Rule == "") {
		return r, false, nil
	}
	c, err := r.call()
	if err != nil {
		return r, false, err
	}
	need, reason, rule := r.Need, r.RequireReason, r.RuleDigest
	v := p.Evaluate(w.ctx, c)
	if v.Action == Quarantine && !v.Observe {
		need, reason = r.Need.Stricter(v.Need), r.RequireReason || v.RequireReason
	}
	r.RuleDigest = v.RuleDigest
	if reason == r.RequireReason && reflect.DeepEqual(need, r.Need) {
		if digest == "" && rule == r.RuleDigest {
			return r, false, nil
		}
		r.Policy = digest
		_, err := w.tx.SetNeed(r)
		return r, false, err
	}
	old := r.Need
	r.Need, r.RequireReason, r.Policy = need, reason, digest
	if err := w.restage(&r, old); err != nil {
		return r, false, err
	}
	return r, true, nil
}

// restage has the votes on a request whose need was raised count for the stages that they are of now.
func (w VoteWork) restage(r *Request, old *Need) error {
	votes, err := w.electorate(r, r.Need).restageVotes(r.Votes, old)
	if err != nil {
		return err
	}
	for i, v := range votes {
		if v.Stage != r.Votes[i].Stage {
			if err := w.tx.MoveVote(r.ID, v.Person, v.Stage); err != nil {
				return err
			}
		}
	}
	r.Votes = votes
	return nil
}

// restageVotes returns votes that were given for another need with the stages of this one that they count for: that of
// the same people, or else the first with room where the voter belongs; 0 where there is none.
func (e *electorate) restageVotes(votes []Vote, old *Need) ([]Vote, error) {
	stages, before := e.need.InStages(), old.InStages()
	room := make([]int, len(stages))
	for i, s := range stages {
		room[i] = s.Count
	}
	moved := slices.Clone(votes)
	for i, v := range votes {
		to := 0
		if v.Stage >= 1 && v.Stage <= len(before) {
			to = 1 + slices.IndexFunc(stages, before[v.Stage-1].SameAs)
		}
		for j := to; to > 0 && room[to-1] <= 0 && j < len(stages); j++ { // another stage of the same people
			if room[j] > 0 && stages[j].SameAs(stages[to-1]) {
				to = j + 1
			}
		}
		for j := 0; to == 0 && j < len(stages); j++ {
			v.Stage = j + 1
			ok, err := e.counts(v)
			if err != nil {
				return nil, err
			}
			if ok && room[j] > 0 {
				to = j + 1
			}
		}
		if moved[i].Stage = to; to > 0 {
			room[to-1]--
		}
	}
	return moved, nil
}

// enough reports whether the approvals of r that count now meet the stricter of the need that it was approved under
// and of the policy's for the call.
func (w VoteWork) enough(r *Request, v *Verdict) (bool, error) {
	if r.Status != Approved || v.Observe {
		return true, nil
	}
	need, votes := r.Need, r.inFavour()
	if v.Action == Quarantine {
		need = need.Stricter(v.Need)
	}
	now := *r
	now.RuleDigest = v.RuleDigest // who stood in did so for the rule of then
	e := w.electorate(&now, need)
	e.reason = e.reason || v.Action == Quarantine && v.RequireReason
	if !reflect.DeepEqual(need, r.Need) {
		var err error
		if votes, err = e.restageVotes(votes, r.Need); err != nil {
			return false, err
		}
	}
	t, err := e.tally(votes)
	return t.isMet(), err
}

// call is the call that the request was made for, as far as the policy looks at it.
func (r *Request) call() (Call, error) {
	parsed, err := args.Parse(r.Args)
	return Call{Agent: r.Agent, Scope: r.Scope, Server: r.Server, Tool: r.Tool, Method: r.Method, Args: parsed,
		TurnID: r.TurnID, SessionID: r.SessionID, Rationale: r.Rationale, Preview: r.Preview, PreviewFrom: r.PreviewFrom,
		ToolDigest: r.ToolDigest, ToolSeen: r.ToolSeen, Task: r.Task, Annotations: r.Annotations}, err
}

// stand brings a pending request to where it stands now, by the policy and the people of now, and tells those whose
// stage that opens.
func (w VoteWork) stand(r Request) (Request, *electorate, tally, error) {
	r, wasRaised, err := w.raiseNeed(r)
	if err != nil {
		return r, nil, tally{}, err
	}
	e := w.electorate(&r, r.Need)
	t, err := e.tally(r.Votes)
	if err != nil || !wasRaised && t.stageAsked() == r.Stage {
		return r, e, t, err
	}
	return r, e, t, w.storeStage(&r, &t)
}

// storeStage stores which stage of a pending request is open, and has those who are asked now get their card.
func (w VoteWork) storeStage(r *Request, t *tally) error {
	r.Stage = t.stageAsked()
	if _, err := w.tx.SetNeed(*r); err != nil {
		return err
	}
	to, err := w.Audience(*r)
	if err != nil {
		return err
	}
	return w.g.notifier.Opened(w.tx, *r, to)
}

// vote carries out a decision that may be: the last vote resolves the request.
func (w VoteWork) vote(r Request, d Decision, e *electorate, b *ballot) error {
	v := Vote{Stage: r.Stage + 1, Person: d.By.Name, For: b.For, Approve: d.Approve, Reason: d.Reason, At: w.tx.Now(),
		Via: d.Via, StepUp: d.Approve && d.proven, Confirmed: d.Approve && d.Confirmed}
	if err := w.tx.PutVote(r.ID, v); err != nil {
		return err
	}
	if !d.Approve {
		who := ""
		if v.For != "" {
			who = v.Voter()
		}
		if err := w.resolve(r, d, who); err != nil {
			return err
		}
		return w.Grants().grantWith(&r, &d, v.For)
	}
	r.Votes = append(slices.DeleteFunc(slices.Clone(r.Votes), func(o Vote) bool { return o.Person == v.Person }), v)
	t, err := e.tally(r.Votes)
	if err != nil {
		return err
	}
	if t.isMet() {
		who := Names(t.votes)
		if who == d.By.Name {
			who = ""
		}
		if err := w.resolve(r, d, who); err != nil {
			return err
		}
		return w.Grants().grantWith(&r, &d, v.For)
	}
	if d.Grant != nil { // which undoes the vote
		return Errorf(CodeGrantRefused, "Nothing was decided. Others are asked too, so one approval cannot last "+
			"longer.")
	}
	if err := w.auditFor(&r, w.g.records.voteEvent(w.ctx, &r, v, &t)); err != nil {
		return err
	}
	if t.open == r.Stage {
		return w.g.notifier.Voted(w.tx, r)
	}
	return w.storeStage(&r, &t)
}

// Standing is how far a pending request has come.
type Standing struct {
	Stage  int // that is open, from 1
	Stages int
	Have   int // approvals that count in it
	Need   int // approvals that it takes
	// Total and Needed are the same over all stages.
	Total, Needed int
	// Votes are those that count, in order; others given by people who could not give them now are left out.
	Votes []Vote
}

// Standing returns how far a pending request has come. Of r the id, the Need and the Votes are used, as read in tx.
func (w VoteWork) Standing(r Request) (Standing, error) {
	t, err := w.electorate(&r, r.Need).tally(r.Votes)
	if err != nil {
		return Standing{}, err
	}
	stages := r.Need.InStages()
	open := t.stageAsked()
	s := Standing{Stage: open + 1, Stages: len(stages), Have: min(t.have[open], stages[open].Count),
		Need: stages[open].Count, Needed: r.Need.Total(), Votes: t.votes}
	for i, n := range t.have {
		s.Total += min(n, stages[i].Count)
	}
	return s, nil
}

// Standing is [VoteWork.Standing] for one request.
func (g *Gate) Standing(ctx context.Context, id string) (Standing, error) {
	return Look(ctx, g, func(w *Work) (Standing, error) {
		r, err := w.tx.Request(id)
		if err != nil {
			return Standing{}, err
		}
		return w.Votes().Standing(r)
	})
}

// MayVote reports whether one person may vote on a pending request now: what is listed for them as theirs to decide.
func (w VoteWork) MayVote(r Request, who Actor) (bool, error) {
	e := w.electorate(&r, r.Need)
	t, err := e.tally(r.Votes)
	if err != nil {
		return false, err
	}
	b, err := e.ballot(w.g.ActorNow(who), r.Votes, &t)
	return b.stage && !b.voted, err
}

// MayVote is [VoteWork.MayVote] of a request that was read before.
func (g *Gate) MayVote(ctx context.Context, id string, who Actor) (bool, error) {
	return Look(ctx, g, func(w *Work) (bool, error) {
		r, err := w.tx.Request(id)
		if err != nil || r.Status != Pending {
			return false, err
		}
		return w.Votes().MayVote(r, who)
	})
}
