package store

import (
	"countersign/approval"
	"time"
)

func (t requests) SetNeed(r approval.Request) (bool, error) {
	return setNeedColumns.bind(t.write(setNeed), &r).text(r.ID).expect()
}

func (t requests) Extend(id string, until time.Time) (bool, error) {
	ok, err := t.write(extend).time(until).time(t.Now()).text(id).change()
	if ok {
		t.noteDeadline(until)
	}
	return ok, err
}

func (t requests) NeedOf(id string) (approval.Request, error) {
	return t.withVotes(one(t.read(selectNeed).text(id), needColumns.scan))
}

func (t votes) PutVote(requestID string, v approval.Vote) error {
	return voteColumns.bind(t.write(putVote), &v).text(requestID).put()
}

func (t votes) MoveVote(requestID, person string, stage int) error {
	ok, err := t.write(moveVote).number(int64(stage)).text(requestID).text(person).change()
	if err == nil && !ok {
		err = approval.ErrNotFound
	}
	return err
}

func (t votes) Votes(requestID string) ([]approval.Vote, error) {
	return all(t.read(selectVotes).text(requestID), 0, voteColumns.scan)
}

// withVotes reads the votes on a request that was read, where there can be any that matter.
func (t requests) withVotes(r approval.Request, err error) (approval.Request, error) {
	if err == nil && (r.Need != nil || r.Who != "") {
		r.Votes, err = votes(t).Votes(r.ID)
	}
	return r, err
}

// withAllVotes is withVotes for each of several.
func (t requests) withAllVotes(rs []approval.Request, err error) ([]approval.Request, error) {
	for i := 0; i < len(rs) && err == nil; i++ {
		rs[i], err = t.withVotes(rs[i], nil)
	}
	return rs, err
}

// storedNeed is an [approval.Need] as it is stored: what the JSON of the API is called may change, this may not.
type storedNeed struct {
	Stages         []storedStage      `json:"stages,omitempty"`
	SeparateDuties bool               `json:"separate_duties,omitempty"`
	Escalate       []storedEscalation `json:"escalate,omitempty"`
	Confirm        bool               `json:"confirm,omitempty"`
	StepUp         bool               `json:"step_up,omitempty"`
}

type storedStage struct {
	Group     string   `json:"group,omitempty"`
	Approvers []string `json:"approvers,omitempty"`
	Count     int      `json:"count"`
}

type storedEscalation struct {
	AfterMS int64    `json:"after_ms"`
	To      []string `json:"to"`
}

// need is NULL for nil.
func need[R any](name string, at func(*R) **approval.Need) column[R] {
	return column[R]{name,
		func(s Binder, r *R) { bindNeed(s, *at(r)) },
		func(s Scanner, r *R) { scanNeed(s, at(r)) }}
}

func bindNeed(s Binder, n *approval.Need) {
	if n == nil {
		s.BindNull()
		return
	}
	stored := storedNeed{SeparateDuties: n.SeparateDuties, Confirm: n.Confirm, StepUp: n.StepUp}
	for _, st := range n.Stages {
		stored.Stages = append(stored.Stages, storedStage(st))
	}
	for _, e := range n.Escalate {
		stored.Escalate = append(stored.Escalate, storedEscalation{AfterMS: e.After.Milliseconds(), To: e.To})
	}
	bindJSON(s, stored, true)
}

func scanNeed(s Scanner, to **approval.Need) {
	var stored *storedNeed
	scanJSON(s, &stored)
	if stored == nil {
		return
	}
	n := &approval.Need{SeparateDuties: stored.SeparateDuties, Confirm: stored.Confirm, StepUp: stored.StepUp}
	for _, st := range stored.Stages {
		n.Stages = append(n.Stages, approval.Stage(st))
	}
	for _, e := range stored.Escalate {
		n.Escalate = append(n.Escalate, approval.Escalation{
			After: time.Duration(e.AfterMS) * time.Millisecond, To: e.To,
		})
	}
	*to = n
}
