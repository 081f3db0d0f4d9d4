package campaign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Violation is a promise that was not kept.
type Violation struct {
	Rule string
	ID   string // the request or grant it is about, where there is one
	Text string
}

func (v Violation) String() string { return v.Rule + ": " + v.Text }

// checker holds one history, sorted so that the rules can look things up.
type checker struct {
	*History
	found    []Violation
	requests map[string]*Request
	grants   map[string]*Grant
	decides  map[string][]*Op // by request
	events   map[string][]*Event
	seen     map[string][]sight
	reloads  []*Op
	freezes  []*Op

	delegations []*Op
}

// Check replays a history against the design's promises and returns those that were broken, in order.
func Check(h *History) []Violation {
	c := &checker{History: h, requests: map[string]*Request{}, grants: map[string]*Grant{}, decides: map[string][]*Op{},
		events: map[string][]*Event{}, seen: map[string][]sight{}}
	c.sort()
	for _, rule := range []func(){c.checkPasses, c.checkUses, c.checkRuns, c.checkDecisions, c.checkStates, c.checkTimes,
		c.checkOneLive, c.checkGrants, c.checkEdits, c.checkCards, c.checkRecord, c.checkAgreement, c.checkFeeds,
		c.checkReads, c.checkDenials, c.checkWords} {
		rule()
	}
	slices.SortStableFunc(c.found, func(a, b Violation) int { return cmp.Compare(a.Rule, b.Rule) })
	return c.found
}

func (c *checker) sort() {
	for i := range c.Requests {
		c.requests[c.Requests[i].ID] = &c.Requests[i]
	}
	for i := range c.Grants {
		c.grants[c.Grants[i].ID] = &c.Grants[i]
	}
	for i := range c.Events {
		e := &c.Events[i]
		c.events[e.ApprovalID] = append(c.events[e.ApprovalID], e)
	}
	for _, o := range c.Ops {
		switch o.Kind {
		case Decide:
			c.decides[o.ID] = append(c.decides[o.ID], o)
		case Reload:
			c.reloads = append(c.reloads, o)
		case Freeze:
			c.freezes = append(c.freezes, o)
		case Delegate:
			c.delegations = append(c.delegations, o)
		}
		c.noteSight(o)
	}
	slices.SortStableFunc(c.reloads, func(a, b *Op) int { return cmp.Compare(a.Start, b.Start) })
	c.noteEnds()
}

func (c *checker) report(rule, id, text string, args ...any) {
	c.found = append(c.found, Violation{rule, id, fmt.Sprintf(text, args...)})
}

// settings are those that may have been in force at some moment of an operation.
func (c *checker) settings(o *Op) []*Setting {
	names := []string{c.First}
	for _, r := range c.reloads {
		switch {
		case r.before(o) && r.Made():
			names = []string{r.Setting}
		case r.Start < o.End || !o.Answered:
			names = append(names, r.Setting)
		}
	}
	all := make([]*Setting, 0, len(names))
	for _, n := range names {
		all = append(all, c.Settings[n])
	}
	return all
}

// any reports whether a condition holds in one of the settings that may have been in force.
func (c *checker) any(o *Op, holds func(s *Setting) bool) bool {
	return slices.ContainsFunc(c.settings(o), holds)
}

// key tells calls apart as the gate does: by who calls what with which arguments, less those that the rule ignores.
func (c *checker) key(agent, scope, server, tool, args string) string {
	if ignore := c.Settings[c.First].Tools[tool].Ignore; ignore != "" {
		var m map[string]json.RawMessage
		if json.Unmarshal([]byte(args), &m) == nil {
			delete(m, ignore)
			if b, err := json.Marshal(m); err == nil {
				args = string(b)
			}
		}
	}
	return strings.Join([]string{agent, scope, server, tool, args}, " ")
}

func (c *checker) keyOf(r *Request) string {
	return c.key(r.Agent, r.Scope, r.Server, r.Tool, string(r.Args))
}

// count counts the events of one type about a request.
func (c *checker) count(id, eventType string) (n int) {
	for _, e := range c.events[id] {
		if e.Type == eventType {
			n++
		}
	}
	return n
}

// frozenFrom and frozenUntil bound the time in which a freeze certainly held: from its answer until somebody began to
// lift it.
func (c *checker) frozenUntil(f *Op) time.Duration {
	until := time.Duration(1<<63 - 1)
	for _, u := range c.Ops {
		if u.Kind == Unfreeze && u.Agent == f.Agent && !(u.Answered && u.End < f.Start) {
			until = min(until, u.Start)
		}
	}
	return until
}
