package history

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"countersign/approval"
)

// Reader is a store, as far as it is read here.
type Reader interface {
	approval.Clock
	View(ctx context.Context, fn func(tx approval.Tx) error) error
}

// Query says what [Stats] is about: what was asked from Since until before Until, by the machine's clock.
type Query struct {
	Since, Until time.Time
	Agent        string                                 // "" for all
	NameOf       func(a approval.Address) string        // whose address it is, "" for no person's
	Step         func(ctx context.Context, do Do) error // runs each step of the reading; nil: one after the other
	// Enough is of Stats: whether the newest part of that time, of which all was read, will do. nil: it is all counted.
	Enough func() bool

	stepRows int // of a step of Stats; [stepRows], but in tests
}

// Do is one step of a reading.
type Do func(ctx context.Context) error

// Figures count what became of calls that needed a person.
type Figures struct {
	Asked     int // requests that were made
	Approved  int
	Denied    int
	Expired   int
	Cancelled int
	Pending   int
	Granted   int // calls that a grant let through: no person was asked
	Pushes    int // cards and reminders that went out, each to one address
	Decisions int // presses, or what stands for one: one that decides all of a card is one, each vote is one
	// How long people took for half of what they decided, and for nine of ten; 0: nothing was decided.
	P50, P90 time.Duration
}

// Quarantined is how many calls needed a person's word.
func (f Figures) Quarantined() int { return f.Asked + f.Granted }

// Per100 is how many of n there were for 100 calls that needed a person's word, 0 where there were none.
func (f Figures) Per100(n int) float64 {
	if f.Quarantined() == 0 {
		return 0
	}
	return float64(n*1000/f.Quarantined()) / 10
}

// Named are the figures of one tool, rule, agent or person.
type Named struct {
	Name string
	Figures
}

// Report is what [Stats] found from Since until before Until. Of a person, Asked is how many requests they decided, and
// Pushes what went to an address of theirs.
type Report struct {
	Since, Until time.Time
	// Next is the Until of the part before it, and From the Since, with which that time began that was asked for; where
	// nothing is left, Next is zero.
	Next, From                        time.Time
	Total                             Figures
	ByTool, ByRule, ByAgent, ByPerson []Named
}

const (
	// stepRows is how many rows are read in one transaction.
	stepRows = 1000
	// maxNames is how many tools, rules, agents or people are told apart, maxShown how many of them a report has: the rest
	// is Others.
	maxNames = 1000
	maxShown = 200
	// shownDigest is how much is shown of the digest of a rule without a name.
	shownDigest = 6
)

// Others is the name of all that are not told apart.
const Others = "(others)"

// Stats counts. What belongs to a time adds up over times that follow each other: requests, votes, uses of grants and
// pushes count when they were made, and a press on a card with the newest of the requests that it decided or voted on,
// of which a vote was made when it was given.
func Stats(ctx context.Context, r Reader, q Query) (Report, error) {
	q.Since, q.Until = millisecond(q.Since), millisecond(q.Until) // as they are told
	s := newSurvey(r, q)
	if s.until.IsZero() {
		s.until = r.Now().Add(time.Millisecond)
	}
	since, next, err := s.read(ctx)
	if err != nil {
		return Report{}, err
	}
	return Report{
		Since: since, Until: q.Until, Next: next, From: q.Since, Total: s.total.of("").figures(), ByTool: s.tools.list(),
		ByRule: s.rules.list(), ByAgent: s.agents.list(), ByPerson: s.people.list(),
	}, nil
}

// survey is a report that is being made.
type survey struct {
	Query
	r            Reader
	since, until time.Time // by the store's clock

	total, tools, rules, agents, people *counts
	presses                             presses
	looked                              map[press]bool               // presses of which it is known where they count
	known                               map[string]*approval.Request // that were looked up
}

func newSurvey(r Reader, q Query) *survey {
	if q.Step == nil {
		q.Step = func(ctx context.Context, do Do) error { return do(ctx) }
	}
	q.stepRows = cmp.Or(q.stepRows, stepRows)
	if q.NameOf == nil {
		q.NameOf = func(approval.Address) string { return "" }
	}
	return &survey{Query: q, r: r, since: r.FromWall(q.Since), until: r.FromWall(q.Until), total: newCounts(),
		tools: newCounts(), rules: newCounts(), agents: newCounts(), people: newCounts(),
		presses: presses{now: map[press]bool{}}, looked: map[press]bool{}, known: map[string]*approval.Request{}}
}

// millisecond is the first whole one that is not before a time.
func millisecond(t time.Time) time.Time {
	if ms := t.Truncate(time.Millisecond); ms.Before(t) {
		return ms.Add(time.Millisecond)
	}
	return t
}

// in reports whether something of an agent at a time counts.
func (s *survey) in(at time.Time, agent string) bool {
	return !at.Before(s.since) && (s.until.IsZero() || at.Before(s.until)) && (s.Agent == "" || s.Agent == agent)
}

// name is one of those that figures are told apart by.
type name struct {
	of   *counts
	text string
}

func (n name) tally() *tally { return n.of.of(n.text) }

// names are those that a request counts for.
func (s *survey) names(r *approval.Request) []name {
	return []name{{s.total, ""}, {s.tools, r.Target()}, {s.rules, ruleOf(r)}, {s.agents, r.Agent}}
}

// ruleOf is what a request's rule is told apart by. A rule without a name is called by its place in the policy, or in a
// preset, where another may have stood at another time.
func ruleOf(r *approval.Request) string {
	place := strings.TrimRight(r.Rule, "0123456789")
	ofPreset := strings.HasPrefix(place, "preset/") && strings.HasSuffix(place, ": rule ")
	if place == r.Rule || place != "rule " && !ofPreset || r.RuleDigest == "" {
		return r.Rule
	}
	return r.Rule + " (" + r.RuleDigest[:min(shownDigest, len(r.RuleDigest))] + ")"
}

// of calls add for all that a request counts for.
func (s *survey) of(r *approval.Request, add func(c *tally)) {
	for _, n := range s.names(r) {
		add(n.tally())
	}
}

func (s *survey) request(r *approval.Request) {
	s.of(r, func(c *tally) { c.countEnding(r) })
	if !personDecided(r) {
		return
	}
	took := r.ResolvedAt.Sub(r.RequestedAt)
	person := s.people.of(r.ResolvedBy)
	person.countEnding(r)
	person.took.add(took)
	s.of(r, func(c *tally) { c.took.add(took) })
	s.countPress(r, r.ResolvedBy, r.ResolvedAt)
}

// personDecided reports whether a person approved or denied.
func personDecided(r *approval.Request) bool {
	return (r.Status == approval.Approved || r.Status == approval.Denied) && r.ResolvedVia != approval.ViaSystem
}

// countPress counts a decision or a vote. Of a card with several requests a press may decide all.
func (s *survey) countPress(r *approval.Request, by string, at time.Time) {
	for _, n := range append(s.names(r), name{s.people, by}) {
		if r.BatchID == "" || s.presses.first(press{n, r.BatchID, by, at}) {
			n.tally().Decisions++
		}
	}
}

// countsLater has the press that decided a request not be counted again for the names of what it decided, or voted on,
// after the time that is counted.
func (s *survey) countsLater(tx approval.Tx, r *approval.Request) error {
	p := press{card: r.BatchID, by: r.ResolvedBy, at: r.ResolvedAt}
	if r.BatchID == "" || !personDecided(r) || p.at.Before(s.until) || s.looked[p] {
		return nil
	}
	if len(s.looked) >= s.stepRows {
		clear(s.looked)
	}
	s.looked[p] = true
	var later []string
	card, err := tx.BatchHeads(p.card)
	if err != nil {
		return err
	}
	for i := range card {
		h := &card[i].Request
		if personDecided(h) && h.ResolvedBy == p.by && h.ResolvedAt.Equal(p.at) && !h.RequestedAt.Before(s.until) {
			later = append(later, h.ID)
		}
	}
	votes, err := tx.Events(approval.EventQuery{Type: approval.EventVote, Since: p.at, Until: p.at.Add(time.Millisecond)})
	if err != nil {
		return err
	}
	for _, e := range votes {
		if e.Actor == p.by {
			later = append(later, e.ApprovalID)
		}
	}
	for _, id := range later {
		other, err := s.lookUp(tx, id)
		if errors.Is(err, approval.ErrNotFound) { // it is counted nowhere
			continue
		}
		if err != nil {
			return err
		}
		if other.BatchID == p.card {
			for _, n := range append(s.names(other), name{s.people, p.by}) {
				s.presses.first(press{n, p.card, p.by, p.at})
			}
		}
	}
	return nil
}

func (s *survey) push(p *approval.Push) {
	s.of(&p.Of, func(c *tally) { c.Pushes++ })
	if name := s.NameOf(p.To); name != "" {
		s.people.of(name).Pushes++
	}
}

// counts are the figures of all tools, rules, agents or people.
type counts struct{ by map[string]*tally }

func newCounts() *counts { return &counts{map[string]*tally{}} }

func (c *counts) of(name string) *tally {
	if found := c.by[name]; found != nil {
		return found
	}
	if len(c.by) >= maxNames {
		name = Others
	}
	if c.by[name] == nil {
		c.by[name] = newCounted()
	}
	return c.by[name]
}

// list returns the figures, of what was asked most first.
func (c *counts) list() []Named {
	names := make([]string, 0, len(c.by))
	for name := range c.by {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := c.by[a], c.by[b]
		return cmp.Or(compare(a == Others, b == Others), cmp.Compare(y.Quarantined(), x.Quarantined()),
			cmp.Compare(y.Pushes, x.Pushes), cmp.Compare(a, b))
	})
	if len(names) > maxShown {
		rest := newCounted()
		for _, name := range names[maxShown-1:] {
			rest.merge(c.by[name])
		}
		names = append(names[:maxShown-1:maxShown-1], Others)
		c.by[Others] = rest
	}
	all := make([]Named, len(names))
	for i, name := range names {
		all[i] = Named{name, c.by[name].figures()}
	}
	return all
}

func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// tally are figures that are still counted.
type tally struct {
	Figures
	took sketch
}

func newCounted() *tally { return &tally{took: sketch{}} }

func (c *tally) countEnding(r *approval.Request) {
	c.Asked++
	switch r.Status {
	case approval.Approved:
		c.Approved++
	case approval.Denied:
		c.Denied++
	case approval.Expired:
		c.Expired++
	case approval.Cancelled:
		c.Cancelled++
	case approval.Pending:
		c.Pending++
	}
}

func (c *tally) merge(o *tally) {
	c.Asked += o.Asked
	c.Approved += o.Approved
	c.Denied += o.Denied
	c.Expired += o.Expired
	c.Cancelled += o.Cancelled
	c.Pending += o.Pending
	c.Granted += o.Granted
	c.Pushes += o.Pushes
	c.Decisions += o.Decisions
	for ms, n := range o.took {
		c.took[ms] += n
	}
}

func (c *tally) figures() Figures {
	f := c.Figures
	f.P50, f.P90 = c.took.at(0.5), c.took.at(0.9)
	return f
}

// sketch counts durations by their milliseconds, to three digits: however many there are, it takes little room.
type sketch map[int64]int

func (s sketch) add(d time.Duration) {
	ms, unit := max(0, d.Milliseconds()), int64(1)
	for ms/unit >= 1000 {
		unit *= 10
	}
	s[(ms+unit/2)/unit*unit]++
}

// at returns the duration below or at which a part of all lie.
func (s sketch) at(part float64) time.Duration {
	all, total := make([]int64, 0, len(s)), 0
	for ms, n := range s {
		all, total = append(all, ms), total+n
	}
	slices.Sort(all)
	for _, ms := range all {
		if part -= float64(s[ms]) / float64(total); part <= 1e-9 {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return 0
}

// press is a person's one act on a card, as it counts for one name.
type press struct {
	name name
	card string
	by   string
	at   time.Time
}

// presses remembers which were counted. What one press decides was made within the time that a card takes calls, so
// that the last many are enough.
type presses struct{ now, past map[press]bool }

const maxPresses = 20000

func (p *presses) first(x press) bool {
	if p.now[x] || p.past[x] {
		return false
	}
	if len(p.now) >= maxPresses {
		p.now, p.past = map[press]bool{}, p.now
	}
	p.now[x] = true
	return true
}
