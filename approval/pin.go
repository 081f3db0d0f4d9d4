package approval

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign/approval/message"
)

// ToolPin is what a tool of a server looked like when it was first seen, or accepted after a change. What
// a server says of a tool is what the model reads: a tool that changes it may ask for something else.
//
// What the gate's own gateway saw holds for everybody. What an agent says that it saw, over the API, binds that
// agent alone: it is compared with what the agent said before, or, where it said nothing yet, with what the
// gateway saw.
type ToolPin struct {
	Agent      string // who said it; "": the gate's own gateway saw it
	Server     string
	Tool       string
	Digest     string    // as [Call.ToolDigest]
	SeenAt     time.Time // or when it was accepted
	AcceptedBy string    // the person whose approval accepted it, "" for the first sight
	// Earlier are the digests that were on record before and hold too, the latest first, with spaces between them: a
	// server may have several states at once, as while a new version is rolled out.
	Earlier string
}

// maxEarlier is how many states of a tool hold beside the latest; the oldest makes room.
const maxEarlier = 7

// holds reports whether a digest is one of those on record.
func (p ToolPin) holds(digest string) bool {
	return digest != "" && (p.Digest == digest || slices.Contains(strings.Fields(p.Earlier), digest))
}

// knows reports whether the call's tool is on record, in either form of its digest.
func (p ToolPin) knows(c *Call) bool { return p.holds(c.ToolDigest) || p.holds(c.ListedDigest) }

// renewed is p with the call's digest for the one that it was known by in its old form.
func (p ToolPin) renewed(c *Call) ToolPin {
	p.Digest = strings.Replace(p.Digest, c.ListedDigest, c.ToolDigest, 1)
	p.Earlier = strings.Replace(p.Earlier, c.ListedDigest, c.ToolDigest, 1)
	return p
}

// followedBy are the digests that hold beside a newer one.
func (p ToolPin) followedBy(digest string) string {
	all := slices.DeleteFunc(append([]string{p.Digest}, strings.Fields(p.Earlier)...),
		func(d string) bool { return d == digest || d == "" })
	return strings.Join(all[:min(len(all), maxEarlier)], " ")
}

// isOf reports whether a digest is of the call's tool as it is now, in either form.
func (c *Call) isOf(digest string) bool {
	return digest == c.ToolDigest || digest != "" && digest == c.ListedDigest
}

// sameTool reports whether what was decided at a time of a tool with the digest holds for the call's: it is the same,
// or both were on record as states of it before.
func (j *judged) sameTool(digest string, decided time.Time) bool {
	return j.call.isOf(digest) || j.pin.holds(digest) && j.pin.knows(&j.call) && j.pin.SeenAt.Before(decided)
}

// reasonToolChanged is the reason code of a call whose tool is not the one on record. Approving such a
// request accepts the tool.
const reasonToolChanged = "tool_changed"

// reasonPolicyChanged ends an approval that the policy in force asks more for.
const reasonPolicyChanged = "policy_changed"

// changedTimeout is how long a request about a changed tool waits where the policy alone would have
// allowed the call.
const changedTimeout = 30 * time.Minute

// pinOwner is whose word the call's digest is: the gateway's, "", or its agent's.
func (c Call) pinOwner() string {
	if c.ToolSeen {
		return ""
	}
	return c.Agent
}

// pinned compares the call's tool with the one on record, where the caller looked at it. It returns the call
// with the verdict that this leaves: a changed tool is not let through without a person. A tool that was not
// seen before is put on record by pinFirst, once the call is not denied.
func (w pinWork) pinned(j judged) (_ judged, changed bool, err error) {
	j.pin, j.pinAge, j.unseen, j.renewed = ToolPin{}, 0, false, false
	c, v := j.call, j.verdict
	if c.ToolDigest == "" || v.Action != Allow && v.Action != Quarantine {
		return j, false, nil
	}
	p, ok := w.g.pins.get(c.pinOwner(), c.Server, c.Tool)
	if !ok || !p.holds(c.ToolDigest) { // the transaction is the truth
		if p, err = w.readPin(&j); err != nil {
			return j, false, err
		}
	}
	j.pin = p
	if p.knows(&c) {
		if !p.holds(c.ToolDigest) {
			j.pin, j.pinAge, j.renewed = p.renewed(&c), 0, true
		}
		return j, false, nil
	}
	if v.Action == Allow {
		v.Action, v.Timeout, v.RequireReason = Quarantine, changedTimeout, false
	}
	if v.Risk.Rank() < RiskHigh.Rank() {
		v.Risk = RiskHigh
	}
	known := message.ToolChange{Tool: c.Target(), AcceptedBy: p.AcceptedBy, At: FormatTime(w.g.store.ToWall(p.SeenAt))}
	v.ReasonCode, v.Message = reasonToolChanged, known.String()
	v.Sentences = v.Sentences.WithoutMessage()
	j.verdict, j.data = v, nil
	if v.Observe { // allowed all the same, and what would have happened is on record
		j.data = w.g.records.callData(j)
	}
	return j, true, nil
}

// readPin returns what is on record of the call's tool; j takes how old that is, and whether it is nothing yet.
func (w pinWork) readPin(j *judged) (ToolPin, error) {
	c, owner := j.call, j.call.pinOwner()
	j.pinAge = w.g.pins.now()
	p, err := w.tx.Pin(owner, c.Server, c.Tool)
	if errors.Is(err, ErrNotFound) {
		j.pinAge = 0
		if owner != "" {
			p, err = w.tx.Pin("", c.Server, c.Tool)
		}
		j.unseen = errors.Is(err, ErrNotFound) || err == nil && p.knows(&c)
	}
	switch {
	case j.unseen:
		p = ToolPin{Agent: owner, Server: c.Server, Tool: c.Tool, Digest: c.ToolDigest, SeenAt: w.tx.Now()}
	case err != nil:
		return p, err
	}
	if owner != "" || p.knows(&c) {
		return p, nil
	}
	own, err := w.tx.Pin(c.Agent, c.Server, c.Tool) // a person may have accepted it for this agent already
	switch {
	case errors.Is(err, ErrNotFound):
		return p, nil
	case err == nil && own.AcceptedBy != "" && own.knows(&c):
		j.pinAge = 0
		return own, nil
	}
	return p, err
}

// pinFirst puts the tool of a call on record that was not seen before, or was known by the old form of its digest. A
// call that is denied puts nothing there.
func (w pinWork) pinFirst(j *judged) (err error) {
	if !j.unseen && !j.renewed {
		return nil
	}
	was := ""
	if j.renewed {
		was = j.call.ListedDigest
	}
	j.unseen, j.renewed = false, false
	if j.pinAge, err = w.putPin(j.pin); err != nil {
		return err
	}
	data := map[string]any{"digest": j.call.ToolDigest}
	if was != "" {
		data["was"] = was
	}
	if j.pin.Agent != "" {
		data["said_by"] = Actor{Kind: Agent, Name: j.pin.Agent}.String()
	}
	return w.audit(Event{Type: EventToolPinned, Actor: Actor{Kind: Agent, Name: j.call.Agent}.String(),
		Agent: j.call.Agent,
		Tool:  j.call.Target(), Data: marshal(data)})
}

// putPin stores p. What is remembered of the tool is forgotten at once, inside the transaction, so that
// nobody goes by it once p may have been committed; it is remembered anew by whoever reads it after.
func (w pinWork) putPin(p ToolPin) (age uint64, err error) {
	if p.Agent == "" { // it is every agent's, and each reads it without waiting for the others
		if err := NeedWholeStore(w.tx); err != nil {
			return 0, err
		}
	}
	if err := w.tx.PutPin(p); err != nil {
		return 0, err
	}
	return w.g.pins.forget(p.Agent, p.Server, p.Tool), nil
}

// acceptTool takes the tool of a request that was approved because of its change as it is now: for everybody
// where the gateway saw it, and else for the agent that said so.
func (w pinWork) acceptTool(r Request, by Actor) error {
	if r.ReasonCode != reasonToolChanged || r.ToolDigest == "" {
		return nil
	}
	owner := Call{Agent: r.Agent, ToolSeen: r.ToolSeen}.pinOwner()
	old, err := w.tx.Pin(owner, r.Server, r.Tool)
	if errors.Is(err, ErrNotFound) && owner != "" {
		old, err = w.tx.Pin("", r.Server, r.Tool)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if old.holds(r.ToolDigest) && old.Agent == owner {
		return nil
	}
	pin := ToolPin{Agent: owner, Server: r.Server, Tool: r.Tool, Digest: r.ToolDigest, SeenAt: w.tx.Now(),
		AcceptedBy: by.String()}
	if old.Agent == owner {
		pin.Earlier = old.followedBy(r.ToolDigest)
	}
	if _, err := w.putPin(pin); err != nil {
		return err
	}
	e := requestEvent(r, EventToolAccepted)
	e.Actor = by.String()
	e.Data = marshal(map[string]any{"old": old.Digest, "new": r.ToolDigest})
	return w.audit(e)
}

// justAccepted reports whether the approval that accepted the tool may still wait for its use.
func (p ToolPin) justAccepted(now time.Time, terms Terms) bool {
	return p.AcceptedBy != "" && now.Sub(p.SeenAt) <= terms.UseWithin
}

// useAcceptance uses the approval that accepted the tool for the call that it was asked for. The policy
// allows that call again by itself; left alone, the approval would lapse, and its agent be told to ask again
// for what has run. nil: there is no such approval.
func (w pinWork) useAcceptance(j *judged) (*Request, error) {
	live, err := w.settledLive(j.key)
	accepted := err == nil && live != nil && live.ReasonCode == reasonToolChanged && j.call.isOf(live.ToolDigest)
	if !accepted {
		return nil, err
	}
	if why, err := w.calls().mayUseNow(live, j, false); err != nil || why != usable {
		return nil, err
	}
	used, err := w.consume(*live, &j.call)
	if err != nil {
		return nil, err
	}
	return &used, nil
}

// pinRead is what a transaction read of a tool, or put on record of it, at an age of [pins].
type pinRead struct {
	pin ToolPin
	age uint64 // 0: it is not to be remembered
}

// maxPins is how many tools are remembered; beyond, all are read anew.
const maxPins = 4096

// pins remembers what is on record of tools, so that a call of a known one needs no look into the store.
// Its age grows whenever something of it may be outdated: what was read at an earlier age is not kept.
type pins struct {
	mu    sync.RWMutex
	age   uint64
	known map[[3]string]ToolPin
}

func (p *pins) get(agent, server, tool string) (ToolPin, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	pin, ok := p.known[[3]string{agent, server, tool}]
	return pin, ok
}

// now returns the age that goes with what is read from here on; never 0.
func (p *pins) now() uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.age + 1
}

func (p *pins) forget(agent, server, tool string) (age uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, [3]string{agent, server, tool})
	p.age++
	return p.age + 1
}

// keep remembers what a committed transaction has read, or written, at an age; 0 is nothing.
func (p *pins) keep(r pinRead) {
	if r.age == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.age != p.age+1 {
		return
	}
	if p.known == nil || len(p.known) >= maxPins {
		p.known = map[[3]string]ToolPin{}
	}
	p.known[[3]string{r.pin.Agent, r.pin.Server, r.pin.Tool}] = r.pin
}
