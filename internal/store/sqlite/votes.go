package sqlite

import (
	"countersign/approval"
	"countersign/internal/store/sqlite/sqlite3"
	"time"
)

func (t *tx) SetNeed(r approval.Request) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	s := t.c.Stmt(setNeed)
	bindNeed(s, r.Need)
	reasonColumn.bind(s, &r)
	return t.changed(s.BindInt(int64(r.Stage)).BindOptText(r.Policy).BindOptText(r.RuleDigest).
		BindText(r.ID))
}

func (t *tx) Extend(id string, until time.Time) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	ok, err := t.changed(t.c.Stmt(extend).BindTime(until).BindTime(t.at).BindText(id))
	if ok {
		t.w.noteDeadline(until)
	}
	return ok, err
}

func (t *tx) NeedOf(id string) (approval.Request, error) {
	if err := t.readable(); err != nil {
		return approval.Request{}, err
	}
	return t.voted(one(t, t.c.Stmt(selectNeed).BindText(id), needColumns.scan))
}

func (t *tx) PutVote(requestID string, v approval.Vote) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(voteColumns.bind(t.c.Stmt(putVote), &v).BindText(requestID))
	return err
}

func (t *tx) MoveVote(requestID, person string, stage int) error {
	if err := t.writable(); err != nil {
		return err
	}
	ok, err := t.changed(t.c.Stmt(moveVote).BindInt(int64(stage)).BindText(requestID).BindText(person))
	if err == nil && !ok {
		err = approval.ErrNotFound
	}
	return err
}

func (t *tx) Votes(requestID string) ([]approval.Vote, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectVotes).BindText(requestID), 0, voteColumns.scan)
}

// voted reads the votes on a request that was read, where there can be any that matter.
func (t *tx) voted(r approval.Request, err error) (approval.Request, error) {
	if err == nil && (r.Need != nil || r.Who != "") {
		r.Votes, err = t.Votes(r.ID)
	}
	return r, err
}

// allVoted is voted for each of several.
func (t *tx) allVoted(rs []approval.Request, err error) ([]approval.Request, error) {
	for i := 0; i < len(rs) && err == nil; i++ {
		rs[i], err = t.voted(rs[i], nil)
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
		func(s *sqlite3.Stmt, r *R) { bindNeed(s, *at(r)) },
		func(s *sqlite3.Stmt, r *R) { scanNeed(s, at(r)) }}
}

func bindNeed(s *sqlite3.Stmt, n *approval.Need) {
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

func scanNeed(s *sqlite3.Stmt, to **approval.Need) {
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
