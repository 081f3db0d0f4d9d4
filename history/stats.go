package history

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

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
	NameOf       func(a approval.Address) string        // whose address it is, "" for nobody's
	Step         func(ctx context.Context, do Do) error // runs each step of the reading; nil: one after the other
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
	Granted   int // calls that a grant let through: nobody was asked
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

// Report is what [Stats] found. Of a person, Asked is how many requests they decided, and Pushes what went to an
// address of theirs.
type Report struct {
	Since, Until                      time.Time
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
)

// Others is the name of all that are not told apart.
const Others = "(others)"

// Stats counts.
func Stats(ctx context.Context, r Reader, q Query) (Report, error) {
	s := newSurvey(r, q)
	for _, part := range []func(context.Context) error{s.requests, s.votes, s.grants, s.pushes} {
		if err := part(ctx); err != nil {
			return Report{}, err
		}
	}
	return Report{
		Since: q.Since, Until: q.Until, Total: s.total.done(), ByTool: s.tools.done(), ByRule: s.rules.done(),
		ByAgent: s.agents.done(), ByPerson: s.people.done(),
	}, nil
}

// survey is a report that is being made.
type survey struct {
	Query
	r            Reader
	since, until time.Time // by the store's clock

	total                        *counted
	tools, rules, agents, people *counts
	presses                      presses
	known                        map[string]approval.Head // of requests that were looked up
}

func newSurvey(r Reader, q Query) *survey {
	if q.Step == nil {
		q.Step = func(ctx context.Context, do Do) error { return do(ctx) }
	}
	if q.NameOf == nil {
		q.NameOf = func(approval.Address) string { return "" }
	}
	return &survey{Query: q, r: r, since: r.FromWall(q.Since), until: r.FromWall(q.Until), total: newCounted(),
		tools: newCounts(), rules: newCounts(), agents: newCounts(), people: newCounts(),
		presses: presses{now: map[press]bool{}}, known: map[string]approval.Head{}}
}

// in reports whether something of an agent at a time counts.
func (s *survey) in(at time.Time, agent string) bool {
	return !at.Before(s.since) && (s.until.IsZero() || at.Before(s.until)) && (s.Agent == "" || s.Agent == agent)
}

// of calls add for all that a request counts for.
func (s *survey) of(r *approval.Request, add func(c *counted)) {
	for _, c := range []*counted{s.total, s.tools.of(r.Target()), s.rules.of(r.Rule), s.agents.of(r.Agent)} {
		add(c)
	}
}

// steps reads on, a transaction at a time, until next says that there is no more.
func (s *survey) steps(ctx context.Context, next func(tx approval.Tx) (more bool, err error)) error {
	for {
		var more bool
		err := s.Step(ctx, func(ctx context.Context) error {
			return s.r.View(ctx, func(tx approval.Tx) (err error) {
				more, err = next(tx)
				return err
			})
		})
		if err != nil || !more {
			return err
		}
	}
}

// before is an id that follows those of before a time, "" for the zero time.
func before(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	var id ulid.ULID
	if id.SetTime(ulid.Timestamp(t)) != nil {
		return ""
	}
	return id.String()
}

func (s *survey) requests(ctx context.Context) error {
	after := before(s.until)
	return s.steps(ctx, func(tx approval.Tx) (bool, error) {
		rows, err := tx.Heads(approval.RequestQuery{After: after, Limit: stepRows, Figures: true})
		if err != nil || len(rows) == 0 {
			return false, err
		}
		for i := range rows {
			r := &rows[i].Request
			if s.in(r.RequestedAt, r.Agent) {
				s.request(r)
			}
		}
		last := &rows[len(rows)-1].Request
		after = last.ID
		return len(rows) == stepRows && !last.RequestedAt.Before(s.since), nil
	})
}

func (s *survey) request(r *approval.Request) {
	s.of(r, func(c *counted) { c.ended(r) })
	if !decided(r) {
		return
	}
	took := r.ResolvedAt.Sub(r.RequestedAt)
	person := s.people.of(r.ResolvedBy)
	person.ended(r)
	person.took.add(took)
	s.of(r, func(c *counted) { c.took.add(took) })
	s.pressed(r, r.ResolvedBy, r.ResolvedAt)
}

// decided reports whether a person approved or denied.
func decided(r *approval.Request) bool {
	return (r.Status == approval.Approved || r.Status == approval.Denied) && r.ResolvedVia != approval.ViaSystem
}

// pressed counts a decision or a vote. Of a card with several requests a press may decide all.
func (s *survey) pressed(r *approval.Request, by string, at time.Time) {
	p := press{card: r.BatchID, by: by, at: at}
	add := func(what *counts, c *counted, name string) {
		p.counts, p.name = what, name
		if r.BatchID == "" || s.presses.first(p) {
			c.Decisions++
		}
	}
	add(nil, s.total, "")
	add(s.tools, s.tools.of(r.Target()), r.Target())
	add(s.rules, s.rules.of(r.Rule), r.Rule)
	add(s.agents, s.agents.of(r.Agent), r.Agent)
	add(s.people, s.people.of(by), by)
}

// events reads the audit log's events of a type.
func (s *survey) events(ctx context.Context, t approval.EventType,
	each func(tx approval.Tx, e approval.Event) error) error {
	q := approval.EventQuery{Type: t, Since: s.since, Until: s.until, Ascending: true, Limit: stepRows}
	return s.steps(ctx, func(tx approval.Tx) (bool, error) {
		rows, err := tx.Events(q)
		if err != nil || len(rows) == 0 {
			return false, err
		}
		for _, e := range rows {
			if s.in(e.At, e.Agent) {
				if err := each(tx, e); err != nil {
					return false, err
				}
			}
		}
		q.AfterSeq = rows[len(rows)-1].Seq
		return len(rows) == stepRows, nil
	})
}

// votes counts those that were not the last: the last is the decision.
func (s *survey) votes(ctx context.Context) error {
	return s.events(ctx, approval.EventVote, func(tx approval.Tx, e approval.Event) error {
		h, err := s.head(tx, e.ApprovalID)
		if err == nil {
			s.pressed(&h.Request, e.Actor, e.At)
		}
		return err
	})
}

func (s *survey) grants(ctx context.Context) error {
	return s.events(ctx, approval.EventGrantUsed, func(tx approval.Tx, e approval.Event) error {
		if e.Decision == "deny" { // a standing denial
			return nil
		}
		h, err := s.head(tx, e.ApprovalID)
		if err != nil {
			return err
		}
		s.of(&h.Request, func(c *counted) { c.Granted++ })
		return nil
	})
}

func (s *survey) pushes(ctx context.Context) error {
	after := before(s.until)
	return s.steps(ctx, func(tx approval.Tx) (bool, error) {
		rows, err := tx.Pushes(s.since, after, stepRows)
		if err != nil || len(rows) == 0 {
			return false, err
		}
		for i := range rows {
			s.push(&rows[i])
		}
		after = rows[len(rows)-1].ID
		return len(rows) == stepRows, nil
	})
}

func (s *survey) push(p *approval.Push) {
	if p.Of.Agent == "" || !s.in(p.CreatedAt, p.Of.Agent) {
		return
	}
	s.of(&p.Of, func(c *counted) { c.Pushes++ })
	if name := s.NameOf(p.To); name != "" {
		s.people.of(name).Pushes++
	}
}

// head returns what a request is of. What is asked for again soon is kept.
func (s *survey) head(tx approval.Tx, id string) (approval.Head, error) {
	if h, ok := s.known[id]; ok {
		return h, nil
	}
	h, err := tx.Head(id)
	if err != nil {
		return h, err
	}
	if len(s.known) >= stepRows {
		clear(s.known)
	}
	s.known[id] = h
	return h, nil
}

// counts are the figures of all tools, rules, agents or people.
type counts struct{ by map[string]*counted }

func newCounts() *counts { return &counts{map[string]*counted{}} }

func (c *counts) of(name string) *counted {
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

// done returns the figures, of what was asked most first.
func (c *counts) done() []Named {
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
		all[i] = Named{name, c.by[name].done()}
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

// counted are figures that are still counted.
type counted struct {
	Figures
	took sketch
}

func newCounted() *counted { return &counted{took: sketch{}} }

func (c *counted) ended(r *approval.Request) {
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

func (c *counted) merge(o *counted) {
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

func (c *counted) done() Figures {
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
	counts *counts
	name   string
	card   string
	by     string
	at     time.Time
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
