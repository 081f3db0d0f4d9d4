package store

import (
	"cmp"
	"slices"
	"time"

	"countersign/approval"
)

func (t requests) Report(id string, ran approval.RunResult) (bool, error) {
	return t.write(report).text(string(ran)).text(id).expect()
}

func (t requests) SetInputs(id string, inputs []approval.Input) error {
	return lateColumns.bind(t.write(setInputs), &approval.Request{Inputs: inputs}).text(id).put()
}

func (t requests) UnderWay(runner string, limit int) ([]approval.Head, error) {
	return all(t.read(selectUnderWay).text(runner), limit, func(s Scanner, h *approval.Head) {
		scanHead(s, h)
		h.DispatchedAt = s.ColumnTime() // out of the index
	})
}

func (t requests) Dispatched(id string) (at time.Time, ran approval.RunResult, err error) {
	r, err := one(t.read(selectDispatched).text(id), func(s Scanner, r *approval.Request) {
		r.DispatchedAt, r.RunResult = s.ColumnTime(), approval.RunResult(s.ColumnText())
	})
	return r.DispatchedAt, r.RunResult, err
}

func (t requests) Tasks(agent string) ([]approval.Request, error) {
	s := t.read(selectTasks)
	if agent != "" {
		s = t.read(selectTasksOf).text(agent)
	}
	rs, err := t.withAllVotes(all(s, 0, requestColumns.scan))
	slices.SortFunc(rs, func(a, b approval.Request) int { return cmp.Compare(a.ID, b.ID) })
	return rs, err
}

func (t requests) LiveAgents() ([]string, error) {
	return all(t.read(liveAgents), 0, scanText)
}

func (t requests) LiveOf(agent string, limit int) ([]approval.Head, error) {
	return all(t.read(selectLiveOf).text(agent), limit, scanHead)
}

func (t pins) Pin(agent, server, tool string) (approval.ToolPin, error) {
	return one(t.read(selectPin).text(agent).text(server).text(tool), pinColumns.scan)
}

func (t pins) PutPin(p approval.ToolPin) error {
	return pinColumns.bind(t.write(putPin), &p).put()
}
