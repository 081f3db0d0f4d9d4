package adk

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/adk/v2/agent"

	"countersign/client"
)

// runs is what the gate remembers of invocations under way.
type runs struct {
	mu sync.Mutex
	m  map[string]*run // by invocation
}

// run is one invocation. Its agents, which may work in parallel, share what was told, and nothing else.
type run struct {
	endings []ending
	notes   map[string][]string // what each agent's model is told of calls that ran otherwise than it asked
	steps   map[string]*step    // by branch and agent
	touched time.Time
}

// ending is one that the model is told with each request of the invocation.
type ending struct {
	client.Approval
	acked bool
}

// step is one agent's last call of its model.
type step struct {
	offered  map[string]bool // the names of the tools; nil: not known
	told     []string        // the endings in its request
	words    string          // what the model said beside its calls
	prepared map[string]prepared
}

// prepared is the answer to a call that has not come to its tool yet.
type prepared struct {
	call   client.Call
	answer client.Answer
	at     time.Time
}

const (
	// fresh is how long a prepared answer counts; after it the gate is asked again.
	fresh = time.Minute
	// forgotten is after how long without a sign an invocation counts as over. Only agents that have the
	// callbacks without the plugin need it.
	forgotten = time.Hour
)

func agentKey(ctx agent.ReadonlyContext) string { return ctx.Branch() + "\x00" + ctx.AgentName() }

// of returns what is known of the invocation, and of the agent's step in it; nil if nothing is.
func (rs *runs) of(ctx agent.ReadonlyContext) (*run, *step) {
	r := rs.m[ctx.InvocationID()]
	if r == nil {
		return nil, nil
	}
	return r, r.steps[agentKey(ctx)]
}

// begin is of, for an invocation and a step that may be new.
func (rs *runs) begin(ctx agent.ReadonlyContext, now time.Time) (*run, *step) {
	r, s := rs.of(ctx)
	if r == nil {
		for id, old := range rs.m {
			if now.Sub(old.touched) > forgotten {
				delete(rs.m, id)
			}
		}
		if rs.m == nil {
			rs.m = map[string]*run{}
		}
		r = &run{steps: map[string]*step{}}
		rs.m[ctx.InvocationID()] = r
	}
	r.touched = now
	if s == nil {
		s = &step{}
		r.steps[agentKey(ctx)] = s
	}
	return r, s
}

// note keeps what the agent's model is to be told for the rest of the invocation.
func (rs *runs) note(ctx agent.ReadonlyContext, text string, now time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, _ := rs.begin(ctx, now)
	if r.notes == nil {
		r.notes = map[string][]string{}
	}
	r.notes[agentKey(ctx)] = append(r.notes[agentKey(ctx)], text)
}

// step begins a new step of the agent: whatever was prepared in the one before is dropped. It returns
// the endings and the notes to tell.
func (rs *runs) step(ctx agent.ReadonlyContext, offered map[string]bool, news []client.Approval,
	now time.Time) ([]client.Approval, []string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, s := rs.begin(ctx, now)
	*s = step{offered: offered}
	for _, a := range news {
		// One that comes again has something new, such as a reason that was given late.
		r.endings = slices.DeleteFunc(r.endings, func(e ending) bool { return e.ID == a.ID })
		r.endings = append(r.endings, ending{Approval: a})
	}
	var as []client.Approval
	for _, e := range r.endings {
		as, s.told = append(as, e.Approval), append(s.told, e.ID)
	}
	return as, slices.Clone(r.notes[agentKey(ctx)])
}

// listUnacknowledged returns the endings of the step's request that are still in the feed.
func (rs *runs) listUnacknowledged(ctx agent.ReadonlyContext) []string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r, s := rs.of(ctx)
	if s == nil {
		return nil
	}
	var ids []string
	for _, e := range r.endings {
		if !e.acked && slices.Contains(s.told, e.ID) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (rs *runs) markAcknowledged(ctx agent.ReadonlyContext, ids []string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r, _ := rs.of(ctx); r != nil {
		for i := range r.endings {
			r.endings[i].acked = r.endings[i].acked || slices.Contains(ids, r.endings[i].ID)
		}
	}
}

// dropUsed stops telling of an approval that was used: the model would take it for one more.
func (rs *runs) dropUsed(ctx agent.ReadonlyContext, id string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r, _ := rs.of(ctx); r != nil {
		r.endings = slices.DeleteFunc(r.endings, func(e ending) bool { return e.ID == id })
	}
}

// keepWords keeps what the model said, and returns the names of the tools it could call.
func (rs *runs) keepWords(ctx agent.ReadonlyContext, words string, now time.Time) map[string]bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	_, s := rs.begin(ctx, now)
	s.words = words
	return s.offered
}

func (rs *runs) words(ctx agent.ReadonlyContext) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if _, s := rs.of(ctx); s != nil {
		return s.words
	}
	return ""
}

func (rs *runs) prepare(ctx agent.ReadonlyContext, ids []string, calls []client.Call, answers []client.Answer,
	now time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	_, s := rs.begin(ctx, now)
	if s.prepared == nil {
		s.prepared = map[string]prepared{}
	}
	for i, id := range ids {
		s.prepared[id] = prepared{calls[i], answers[i], now}
	}
}

// take hands out what was prepared for the call whose id ctx has, once, if it is this very call.
func (rs *runs) take(ctx agent.Context, call client.Call, now time.Time) (prepared, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	_, s := rs.of(ctx)
	if s == nil {
		return prepared{}, false
	}
	p, ok := s.prepared[ctx.FunctionCallID()]
	delete(s.prepared, ctx.FunctionCallID())
	return p, ok && same(p.call, call) && now.Sub(p.at) < fresh
}

// end forgets an invocation.
func (rs *runs) end(invocation string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.m, invocation)
}
