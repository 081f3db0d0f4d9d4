package sqlite

import (
	"cmp"
	"slices"
	"time"

	"countersign/approval"
	"countersign/internal/store/sqlite/sqlite3"
)

func (t *tx) Report(id string, ran approval.RunResult) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	return t.changed(t.c.Stmt(report).BindText(string(ran)).BindText(id))
}

func (t *tx) SetInputs(id string, inputs []approval.Input) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(lateColumns.bind(t.c.Stmt(setInputs), &approval.Request{Inputs: inputs}).BindText(id))
	return err
}

func (t *tx) UnderWay(limit int) ([]approval.Head, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectUnderWay), limit, func(s *sqlite3.Stmt, h *approval.Head) {
		scanHead(s, h)
		h.DispatchedAt = s.ColumnTime() // out of the index
	})
}

func (t *tx) Dispatched(id string) (at time.Time, ran approval.RunResult, err error) {
	if err := t.readable(); err != nil {
		return at, ran, err
	}
	r, err := one(t, t.c.Stmt(selectDispatched).BindText(id), func(s *sqlite3.Stmt, r *approval.Request) {
		r.DispatchedAt, r.RunResult = s.ColumnTime(), approval.RunResult(s.ColumnText())
	})
	return r.DispatchedAt, r.RunResult, err
}

func (t *tx) Tasks(agent string) ([]approval.Request, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	s := t.c.Stmt(selectTasks)
	if agent != "" {
		s = t.c.Stmt(selectTasksOf).BindText(agent)
	}
	rs, err := t.allVoted(all(t, s, 0, requestColumns.scan))
	slices.SortFunc(rs, func(a, b approval.Request) int { return cmp.Compare(a.ID, b.ID) })
	return rs, err
}

func (t *tx) LiveAgents() ([]string, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(liveAgents), 0, scanText)
}

func (t *tx) LiveOf(agent string, limit int) ([]approval.Head, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	return all(t, t.c.Stmt(selectLiveOf).BindText(agent), limit, scanHead)
}

func (t *tx) Pin(agent, server, tool string) (approval.ToolPin, error) {
	if err := t.readable(); err != nil {
		return approval.ToolPin{}, err
	}
	return one(t, t.c.Stmt(selectPin).BindText(agent).BindText(server).BindText(tool), pinColumns.scan)
}

func (t *tx) PutPin(p approval.ToolPin) error {
	if err := t.writable(); err != nil {
		return err
	}
	_, err := t.changed(pinColumns.bind(t.c.Stmt(putPin), &p))
	return err
}
