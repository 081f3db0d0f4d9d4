package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"countersign/internal/secret"
)

// yards are the ceilings that several figures are set beside.
type yards struct {
	sync, log, json, bare *figure
	trip                  *figure // nil: there is no database
}

// ceilings are what this machine can do at all.
func (r *run) ceilings(ctx context.Context) ([]step, error) {
	one, closeOne, err := oneSync(r.dir)
	if err != nil {
		return nil, err
	}
	r.undo = append(r.undo, closeOne)
	many, closeMany, err := groupLog(r.dir)
	if err != nil {
		return nil, err
	}
	r.undo = append(r.undo, closeMany)
	r.yards = yards{sync: r.ceiling("sync", "append and sync"), log: r.ceiling("group_log", "the group log"),
		json: r.ceiling("json", "echo of JSON"), bare: r.ceiling("bare", "a bare GET")}
	c := r.caller([]string{r.w.echo.url()}, "", r.o.Callers)
	steps := []step{
		func(ctx context.Context) error { return r.take(ctx, r.yards.sync, 1, nil, one) },
		func(ctx context.Context) error { return r.take(ctx, r.yards.log, r.o.Callers, nil, many) },
		func(ctx context.Context) error {
			return r.take(ctx, r.yards.json, r.o.Callers, nil, func(ctx context.Context, _ int64) (time.Duration, error) {
				_, err := c.send(ctx, http.MethodPost, jsonPath, r.serial.call("echo"), http.StatusOK)
				return 0, err
			})
		},
		func(ctx context.Context) error {
			return r.take(ctx, r.yards.bare, 1, nil, func(ctx context.Context, _ int64) (time.Duration, error) {
				_, err := c.send(ctx, http.MethodGet, barePath, "", http.StatusOK)
				return 0, err
			})
		},
	}
	if r.w.store == "" {
		return steps, nil
	}
	trip, err := r.roundTrip(ctx)
	r.yards.trip = r.ceiling("trip", "a round trip")
	return append(steps, func(ctx context.Context) error { return r.take(ctx, r.yards.trip, 1, nil, trip) }), err
}

// caller returns one that is closed at the end.
func (r *run) caller(bases []string, token secret.Value, n int) *caller {
	c := newCaller(bases, token.Reveal(), n)
	r.undo = append(r.undo, func() error { c.close(); return nil })
	return c
}

// agents returns a caller for each.
func (r *run) agents(n int) (all []*caller) {
	for _, token := range r.w.agents {
		all = append(all, r.caller(r.w.urls, token, n))
	}
	return all
}

// The types of the gate's events that are set beside what was counted here.
const (
	eventAllowed  = "call_allowed"
	eventAsked    = "approval_requested"
	eventDecision = "hitl_decision"
	eventUsed     = "approval_consumed"
)

// stepsQuarantined measures calls that a person is asked about: of all agents, of one caller, and where there are
// several agents those of all but one, each with one caller, by themselves and beside that one with all of the callers.
func (r *run) stepsQuarantined(context.Context) ([]step, error) {
	agents := r.agents(r.o.Callers)
	many, one := r.figure("quarantined", "quarantined"), r.figure("quarantined_one", "quarantined")
	many.check, one.check = eventAsked, eventAsked
	var others, beside *figure
	if len(agents) > 1 {
		others, beside = r.figure("others", "other agents"), r.figure("beside", "beside a busy one")
		others.check, beside.check = eventAsked, eventAsked
	}
	return []step{func(ctx context.Context) error {
		var made made
		if err := r.take(ctx, many, r.o.Callers, r.w.pids, made.asking(agents, r)); err != nil {
			return err
		}
		many.rateOf(r.yards.log)
		if err := r.take(ctx, one, 1, r.w.pids, made.asking(agents, r)); err != nil {
			return err
		}
		one.rateOf(r.yards.sync)
		one.tripsOf(r.yards.trip)
		if others == nil {
			return r.takeBack(ctx, made.all)
		}
		if err := r.take(ctx, others, len(agents)-1, nil, made.asking(agents[1:], r)); err != nil {
			return err
		}
		var busy series
		var over atomic.Bool
		var done sync.WaitGroup
		ask := made.asking(agents[:1], r)
		done.Go(func() {
			_ = busy.measure(ctx, load{r.o.Callers, math.MaxInt64, patience}, nil,
				func(ctx context.Context, n int64) (time.Duration, error) {
					if over.Load() {
						return 0, errEnough
					}
					return ask(ctx, n)
				})
		})
		err := r.take(ctx, beside, len(agents)-1, nil, made.asking(agents[1:], r))
		over.Store(true)
		done.Wait()
		r.made[eventAsked] += busy.last().n
		if beside.failed += busy.failed; beside.first == nil {
			beside.first = busy.first
		}
		beside.rateOf(others)
		return err
	}}, nil
}

// request is one that was made: its id, the call, and whose it is.
type request struct {
	id, call string
	agent    *caller
}

// made are the requests that a round has made.
type made struct {
	mu   sync.Mutex
	all  []request
	next atomic.Int64
}

// asking makes them, of agents in turns.
func (m *made) asking(agents []*caller, r *run) operation {
	return func(ctx context.Context, n int64) (time.Duration, error) {
		agent, call := agents[n%int64(len(agents))], r.serial.call(r.w.askTool)
		id, err := agent.ask(ctx, call, "", http.StatusAccepted, "pending")
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.all = append(m.all, request{id, call, agent})
		}
		return 0, err
	}
}

// each does something with each of them, once.
func (m *made) each(do func(ctx context.Context, one request) error) operation {
	m.next.Store(0)
	return func(ctx context.Context, _ int64) (time.Duration, error) {
		i := m.next.Add(1) - 1
		if i >= int64(len(m.all)) {
			return 0, errEnough
		}
		return 0, do(ctx, m.all[i])
	}
}

// takeBack cancels requests at a gate that is not ours, so that nobody is left with cards of this run. What people
// decided meanwhile stays as it is.
func (r *run) takeBack(ctx context.Context, made []request) error {
	if r.w.isOurs() {
		return nil
	}
	for _, one := range made {
		if _, err := one.agent.send(ctx, http.MethodPost, "/v1/approvals/"+one.id+"/cancel", "{}",
			http.StatusOK); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.notTakenBack++
		}
	}
	return nil
}

// stepsAllowed measures calls that run at once.
func (r *run) stepsAllowed(context.Context) ([]step, error) {
	agents := r.agents(r.o.Callers)
	many, one := r.figure("allowed", "allowed"), r.figure("allowed_one", "allowed")
	many.check, one.check = eventAllowed, eventAllowed
	do := func(ctx context.Context, n int64) (time.Duration, error) {
		_, err := agents[n%int64(len(agents))].ask(ctx, r.serial.call(r.w.allowTool), "", http.StatusOK, "allow")
		return 0, err
	}
	return []step{func(ctx context.Context) error {
		err := r.take(ctx, many, r.o.Callers, r.w.pids, do)
		many.rateOf(r.yards.json)
		if err == nil {
			err = r.take(ctx, one, 1, r.w.pids, do)
		}
		one.over(r.yards.bare)
		one.tripsOf(r.yards.trip)
		return err
	}}, nil
}

// prepared is how many requests wait for a round of decisions at most.
const prepared = 2000

// stepsDecided measures approvals, of requests that are made before, and what agents do with them.
func (r *run) stepsDecided(context.Context) ([]step, error) {
	agents, person := r.agents(r.o.Callers), r.caller(r.w.urls, r.w.person, r.o.Callers)
	f := r.figure("decided", "decided")
	f.check = eventDecision
	var used *figure // at a gate of others nothing is done that was approved
	if r.w.isOurs() {
		used = r.figure("used", "used")
		used.check = eventUsed
	}
	return []step{func(ctx context.Context) error {
		if f.failed >= tooMany {
			return nil
		}
		var made made
		err := r.prepare(ctx, agents, f, &made)
		if err != nil {
			return err
		}
		err = r.take(ctx, f, r.o.Callers, r.w.pids, made.each(func(ctx context.Context, one request) error {
			_, err := person.send(ctx, http.MethodPost, "/v1/approvals/"+one.id+"/decide", `{"decision":"approve"}`,
				http.StatusOK)
			return err
		}))
		f.rateOf(r.yards.log)
		if err != nil || used == nil {
			return errors.Join(err, r.takeBack(ctx, made.all))
		}
		made.all = made.all[:min(f.last().n, int64(len(made.all)))]
		err = r.take(ctx, used, r.o.Callers, r.w.pids, made.each(func(ctx context.Context, one request) error {
			_, err := one.agent.ask(ctx, one.call, "", http.StatusOK, "approved")
			return err
		}))
		used.rateOf(r.yards.log)
		return err
	}}, nil
}

// prepare makes the requests of a round of decisions. What fails counts as the figure's.
func (r *run) prepare(ctx context.Context, agents []*caller, f *figure, made *made) error {
	var asking series
	err := asking.measure(ctx, load{r.o.Callers, int64(min(r.o.Calls, prepared)), patience}, nil,
		made.asking(agents, r))
	r.made[eventAsked] += asking.last().n
	if f.failed += asking.failed; f.first == nil {
		f.first = asking.first
	}
	return err
}

// fewer is how many callers the gateway has at once at most: agents, not processes of one.
const fewer = 16

// gateway measures allowed calls over MCP, beside the server itself where it is ours, and beside the floor.
func (r *run) gateway(ctx context.Context) ([]step, error) { //nolint:funlen // three paths, measured side by side
	n := min(fewer, r.o.Callers)
	type path struct {
		callers   []*caller
		one, many *figure
		pids      []int
		call      string
	}
	open := func(key, name string, bases []string, token secret.Value, pids []int, call string,
		figure func(_, _ string) *figure) (*path, error) {
		p := &path{pids: pids, call: call, one: figure(key+"_one", name), many: figure(key, name)}
		for i := range n {
			c := r.caller([]string{bases[i%len(bases)]}, token, 1) // a session is one gate's
			if err := c.hello(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			p.callers = append(p.callers, c)
		}
		return p, nil
	}
	ours, err := toolCall(echoTool, `{"text":"`+lorem+`"}`)
	if err != nil {
		return nil, err
	}
	beside := func(key, name string, p *process) (*path, error) {
		return open(key, name, []string{p.url()}, "", []int{p.cmd.Process.Pid}, ours, r.ceiling)
	}
	direct, err := beside("mcp", "the MCP server", r.w.echo)
	if err != nil {
		return nil, err
	}
	floor, err := beside("floor", "a gateway's floor", r.w.floor)
	if err != nil {
		return nil, err
	}
	gate, err := open("gateway", "over MCP", r.w.urls, r.w.agents[0], r.w.pids, r.w.mcpCall, r.figure)
	if err != nil {
		return nil, err
	}
	gate.one.check, gate.many.check = eventAllowed, eventAllowed
	if r.w.isOurs() { // the gate's connection to the server may take a moment
		if err := until(ctx, "the gate's MCP server", func() error {
			err := gate.callers[0].tool(ctx, gate.call, r.w.mcpHolds)
			if err == nil {
				r.made[eventAllowed]++
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	take := func(ctx context.Context, p *path, f *figure, n int) error {
		holds := lorem
		if p == gate {
			holds = r.w.mcpHolds
		}
		free := make(chan *caller, n)
		for _, c := range p.callers[:n] {
			free <- c
		}
		return r.take(ctx, f, n, p.pids, func(ctx context.Context, _ int64) (time.Duration, error) {
			c := <-free
			defer func() { free <- c }()
			return 0, c.tool(ctx, p.call, holds)
		})
	}
	return []step{func(ctx context.Context) error {
		for _, p := range []*path{direct, floor, gate} {
			if err := take(ctx, p, p.one, 1); err != nil {
				return err
			}
		}
		for _, p := range []*path{direct, floor, gate} {
			if err := take(ctx, p, p.many, n); err != nil {
				return err
			}
		}
		floor.one.over(direct.one)
		floor.many.rateOf(direct.many)
		gate.one.over(direct.one)
		gate.one.addedOf(floor.one, direct.one)
		gate.many.rateOf(direct.many)
		gate.many.rateOf(floor.many)
		gate.many.cpuOf(floor.many)
		return nil
	}}, nil
}

// people measures what people wait for: from an agent's call to the card, and from the press to the agent, which waits
// for the answer meanwhile.
func (r *run) people(ctx context.Context) ([]step, error) {
	c := r.caller(r.w.urls[:1], r.w.agents[0], 1)
	push, press := r.figure("push", "call to card"), r.figure("press", "press to agent")
	life, agent := r.figure("life", "asked, pushed, pressed, used"), r.caller(r.w.urls[:1], r.w.agents[0], r.o.Callers)
	push.check, life.check = eventAsked, eventAsked
	watch := r.w.phone.watch
	once := func(ctx context.Context) (toCard, toAgent time.Duration, err error) {
		r.w.phone.forget()
		type end struct {
			at  time.Duration
			err error
		}
		ended := make(chan end, 1)
		begin := watch.read()
		go func() {
			_, err := c.ask(ctx, r.serial.call(pushedTool), "?wait=30s", http.StatusOK, "approved")
			ended <- end{watch.read(), err}
		}()
		got, err := r.w.phone.next(ctx)
		if err != nil {
			return 0, 0, err
		}
		pressed := watch.read()
		if err := r.w.phone.press(ctx, got.request); err != nil {
			return got.at - begin, 0, err
		}
		e := <-ended
		return got.at - begin, e.at - pressed, e.err
	}
	err := until(ctx, "the first card", func() error { // LINE has to say who the bot is before a press counts
		r.made[eventAsked]++
		_, _, err := once(ctx)
		if err == nil {
			r.made[eventDecision]++
			r.made[eventUsed]++
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return []step{func(ctx context.Context) error {
		var answers Histogram
		err := r.take(ctx, push, 1, r.w.pids, func(ctx context.Context, _ int64) (time.Duration, error) {
			toCard, toAgent, err := once(ctx)
			if err == nil {
				answers.Add(toAgent)
			}
			return toCard, err
		})
		press.add(&answers, push.last().rate)
		r.made[eventDecision] += answers.Count()
		r.made[eventUsed] += answers.Count()
		for _, f := range []*figure{push, press} {
			f.over(r.yards.bare)
			f.tripsOf(r.yards.trip)
		}
		return err
	}, func(ctx context.Context) error { return r.liveAtOnce(ctx, life, agent) }}, nil
}

// liveAtOnce measures whole lives, many at once: an agent asks and waits, its card is pressed as soon as it comes, and
// the agent uses the approval.
func (r *run) liveAtOnce(ctx context.Context, life *figure, agent *caller) error {
	r.w.phone.forget()
	pressing, cancel := context.WithCancelCause(ctx)
	var presses sync.WaitGroup
	for range r.o.Callers {
		presses.Go(func() {
			for {
				got, err := r.w.phone.next(pressing)
				if pressing.Err() != nil {
					return
				}
				if err == nil {
					err = r.w.phone.press(ctx, got.request)
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	err := r.take(ctx, life, r.o.Callers, r.w.pids, func(context.Context, int64) (time.Duration, error) {
		_, err := agent.ask(pressing, r.serial.call(pushedTool), "?wait=30s", http.StatusOK, "approved")
		return 0, err
	})
	cancel(nil)
	presses.Wait()
	r.made[eventDecision] += life.last().n
	r.made[eventUsed] += life.last().n
	life.rateOf(r.yards.log)
	return err
}
