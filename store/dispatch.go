package store

import (
	"cmp"
	"slices"
	"time"

	"countersign/approval"
)

var (
	report = define(`UPDATE approval_requests SET outcome = $1
  WHERE id = $2 AND dispatched_at IS NOT NULL AND (outcome IS NULL OR outcome = 'unknown' AND $1 <> 'unknown')`)
	setInputs      = define(`UPDATE approval_requests SET inputs = $1 WHERE id = $2`)
	selectUnderWay = define(`SELECT ` + headColumns + `, dispatched_at FROM approval_requests
  WHERE dispatched_at IS NOT NULL AND outcome IS NULL ORDER BY dispatched_at`)
	selectDispatched = define(`SELECT dispatched_at, outcome FROM approval_requests WHERE id = $1`)
	selectTasks      = define(`SELECT ` + selectColumns + ` FROM approval_requests WHERE ` + isLive + ` AND task = 1`)
	selectTasksOf    = define(`SELECT ` + selectColumns + ` FROM approval_requests WHERE agent = $1 AND ` + isLive + ` AND task = 1`)
	liveAgents       = define(`SELECT DISTINCT agent FROM approval_requests WHERE ` + isLive)
	selectLiveOf     = define(`SELECT ` + headColumns + ` FROM approval_requests WHERE agent = $1 AND ` + isLive)
)

func (t *tx) Report(id string, ran approval.RunResult) (bool, error) {
	if err := t.write(); err != nil {
		return false, err
	}
	return t.changed(t.c.stmt(report).str(string(ran)).str(id))
}

func (t *tx) SetInputs(id string, inputs []approval.Input) error {
	if err := t.write(); err != nil {
		return err
	}
	b, err := encode(inputs, len(inputs) > 0)
	if err != nil {
		return err
	}
	_, err = t.changed(t.c.stmt(setInputs).opt(string(b)).str(id))
	return err
}

func (t *tx) UnderWay(limit int) ([]approval.Head, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	return all(t, t.c.stmt(selectUnderWay), limit, func(s *stmt) approval.Head {
		h := scanHead(s)
		h.DispatchedAt = s.getTime() // out of the index
		return h
	})
}

func (t *tx) Dispatched(id string) (at time.Time, ran approval.RunResult, err error) {
	if err := t.ready(); err != nil {
		return at, ran, err
	}
	ran, err = one(t, t.c.stmt(selectDispatched).str(id), func(s *stmt) approval.RunResult {
		at = s.getTime()
		return approval.RunResult(s.getString())
	})
	return at, ran, err
}

func (t *tx) Tasks(agent string) ([]approval.Request, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	s := t.c.stmt(selectTasks)
	if agent != "" {
		s = t.c.stmt(selectTasksOf).str(agent)
	}
	rs, err := all(t, s, 0, scanRequest)
	slices.SortFunc(rs, func(a, b approval.Request) int { return cmp.Compare(a.ID, b.ID) })
	return rs, err
}

func (t *tx) LiveAgents() ([]string, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	return all(t, t.c.stmt(liveAgents), 0, (*stmt).getString)
}

func (t *tx) LiveOf(agent string, limit int) ([]approval.Head, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	return all(t, t.c.stmt(selectLiveOf).str(agent), limit, scanHead)
}

var (
	selectPin = define(`SELECT agent, server, tool_name, digest, seen_at, accepted_by FROM tool_pins
  WHERE agent = $1 AND server = $2 AND tool_name = $3`)
	putPin = define(`INSERT INTO tool_pins (agent, server, tool_name, digest, seen_at, accepted_by) VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (agent, server, tool_name) DO UPDATE SET digest = excluded.digest, seen_at = excluded.seen_at, accepted_by = excluded.accepted_by`)
)

func (t *tx) Pin(agent, server, tool string) (approval.ToolPin, error) {
	if err := t.ready(); err != nil {
		return approval.ToolPin{}, err
	}
	return one(t, t.c.stmt(selectPin).str(agent).str(server).str(tool), func(s *stmt) (p approval.ToolPin) {
		p.Agent, p.Server, p.Tool, p.Digest, p.SeenAt, p.AcceptedBy = s.getString(), s.getString(), s.getString(), s.getString(), s.getTime(), s.getString()
		return p
	})
}

func (t *tx) PutPin(p approval.ToolPin) error {
	if err := t.write(); err != nil {
		return err
	}
	_, err := t.changed(t.c.stmt(putPin).str(p.Agent).str(p.Server).str(p.Tool).str(p.Digest).time(p.SeenAt).opt(p.AcceptedBy))
	return err
}
