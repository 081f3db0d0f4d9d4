package approval

import (
	"errors"
	"slices"
	"strings"
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

// renew is p with the call's digest for the one that it was known by in its old form.
func (p ToolPin) renew(c *Call) ToolPin {
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

// ToolChanged reports whether the request is of a tool that was not the one on record: approving it accepts
// the tool as it was then. (The page of a request asks it: internal/web/templates/request.html.)
func (r Request) ToolChanged() bool { return r.ReasonCode == reasonToolChanged }

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

// compareTool compares the call's tool with the one on record, where the caller looked at it. It returns the call
// with the verdict that this leaves: a changed tool is not let through without a person. A tool that was not
// seen before is put on record by pinFirst, once the call is not denied.
func (w pinWork) compareTool(j judged) (_ judged, changed bool, err error) {
	j.pin, j.unseen, j.renewed = ToolPin{}, false, false
	c, v := j.call, j.verdict
	if c.ToolDigest == "" || v.Action != Allow && v.Action != Quarantine {
		return j, false, nil
	}
	p, err := w.readPin(&j)
	if err != nil {
		return j, false, err
	}
	j.pin = p
	if p.knows(&c) {
		if !p.holds(c.ToolDigest) {
			j.pin, j.renewed = p.renew(&c), true
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

// readPin returns what is on record of the call's tool; j takes whether it is nothing yet.
func (w pinWork) readPin(j *judged) (ToolPin, error) {
	c, owner := j.call, j.call.pinOwner()
	p, err := w.tx.Pin(owner, c.Server, c.Tool)
	if errors.Is(err, ErrNotFound) {
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
		return own, nil
	}
	return p, err
}

// pinFirst puts the tool of a call on record that was not seen before, or was known by the old form of its digest. A
// call that is denied puts nothing there.
func (w pinWork) pinFirst(j *judged) error {
	if !j.unseen && !j.renewed {
		return nil
	}
	was := ""
	if j.renewed {
		was = j.call.ListedDigest
	}
	j.unseen, j.renewed = false, false
	if err := w.putPin(j.pin); err != nil {
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

func (w pinWork) putPin(p ToolPin) error {
	if p.Agent == "" { // it is every agent's, and each reads it without waiting for the others
		if err := NeedWholeStore(w.tx); err != nil {
			return err
		}
	}
	return w.tx.PutPin(p)
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
	if err := w.putPin(pin); err != nil {
		return err
	}
	e := requestEvent(r, EventToolAccepted)
	e.Actor = by.String()
	e.Data = marshal(map[string]any{"old": old.Digest, "new": r.ToolDigest})
	return w.audit(e)
}

// justAccepted reports whether the approval that accepted the tool may still wait for its use.
func (p ToolPin) justAccepted(now time.Time, useWithin time.Duration) bool {
	return p.AcceptedBy != "" && now.Sub(p.SeenAt) <= useWithin
}

// Holds reports whether p, which is on record of the tool of an allowed call, is the tool as it is, and no approval may
// wait for its use.
func (p ToolPin) Holds(c AllowedCall, now time.Time) bool {
	return p.holds(c.Digest) && !p.justAccepted(now, c.UseWithin)
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
