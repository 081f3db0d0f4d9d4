package sqlite

import (
	"sync"
	"time"

	"countersign/approval"
)

// standing is what the writer has committed of freezes and of tools: what a call must be measured by that goes on
// record beside the writer ([DB.RecordAllowed]). It may know less than the database, never otherwise: what a
// transaction is about to change is taken out of it before that can be committed, and comes back after.
type standing struct {
	mu     sync.RWMutex
	sure   bool            // frozen is as it is committed, and nothing is about to change it
	frozen map[string]bool // the agents that are; all of them under ""
	pins   map[toolKey]approval.ToolPin
}

type toolKey struct{ owner, server, tool string }

// maxPins is how many tools are known; beyond, all are read anew.
const maxPins = 4096

// RecordAllowed implements [approval.EventRecorder]. A transaction that is about to change what must hold waits for
// this lock, so the event is in the log before that change can be committed. Appending waits for no transaction: under
// this lock it would wait for ever.
func (d *DB) RecordAllowed(c approval.AllowedCall, e approval.Event) bool {
	d.standing.mu.RLock()
	defer d.standing.mu.RUnlock()
	return d.standing.holds(&c, d.Now()) && d.events.append(&e)
}

// holds reports whether what must hold of an allowed call does, as far as is known. The caller holds the lock.
func (s *standing) holds(c *approval.AllowedCall, now time.Time) bool {
	if !s.sure || s.frozen[""] || s.frozen[c.Agent] {
		return false
	}
	p, known := s.pins[toolKey{c.Owner, c.Server, c.Tool}]
	return c.Digest == "" || known && p.Holds(*c, now)
}

// doubt is called in a transaction, before it freezes or lifts a freeze.
func (s *standing) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sure = false
}

// isSure reports whether it is known who is frozen.
func (s *standing) isSure() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sure
}

// restand takes in which freezes there are, where none is under way.
func (s *standing) restand(read func() ([]approval.Epoch, error)) error {
	es, err := read()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sure, s.frozen = true, map[string]bool{}
	for _, e := range es {
		if e.Frozen {
			s.frozen[e.Agent] = true
		}
	}
	return nil
}

// forget is called in a transaction, before it puts something else on record of a tool.
func (s *standing) forget(p *approval.ToolPin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pins, keyOf(p))
}

// keep takes in what a transaction that is committed has read or put on record of tools, the newest last.
func (s *standing) keep(pins []approval.ToolPin) {
	if len(pins) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins == nil || len(s.pins)+len(pins) > maxPins {
		s.pins = map[toolKey]approval.ToolPin{}
	}
	for i := range pins {
		s.pins[keyOf(&pins[i])] = pins[i]
	}
}

func keyOf(p *approval.ToolPin) toolKey { return toolKey{p.Agent, p.Server, p.Tool} }

// PutEpoch is that of the rows; nothing is recorded beside the writer until it is committed or undone.
func (t *tx) PutEpoch(e approval.Epoch) error {
	if t.w != nil {
		t.db.standing.doubt()
	}
	return t.Rows.PutEpoch(e)
}

// Pin is that of the rows. What the writer reads is known after the commit.
func (t *tx) Pin(agent, server, tool string) (approval.ToolPin, error) {
	p, err := t.Rows.Pin(agent, server, tool)
	if err == nil && t.w != nil {
		t.w.pins = append(t.w.pins, p)
	}
	return p, err
}

// PutPin is that of the rows; the tool is known again after the commit.
func (t *tx) PutPin(p approval.ToolPin) error {
	if t.w != nil {
		t.db.standing.forget(&p)
		defer func() { t.w.pins = append(t.w.pins, p) }()
	}
	return t.Rows.PutPin(p)
}
