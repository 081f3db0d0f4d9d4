package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"countersign/internal/secret"
)

// yards are the ceilings that several figures are set beside.
type yards struct {
	sync, log, json, bare *figure
}

// ceilings are what this machine can do at all.
func (r *run) ceilings() ([]step, error) {
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
	c := r.caller(r.w.echo.url(), "", r.o.Callers)
	return []step{
		func(ctx context.Context) error { return r.take(ctx, r.yards.sync, 1, 0, one) },
		func(ctx context.Context) error { return r.take(ctx, r.yards.log, r.o.Callers, 0, many) },
		func(ctx context.Context) error {
			return r.take(ctx, r.yards.json, r.o.Callers, 0, func(ctx context.Context, _ int64) (time.Duration, error) {
				_, err := c.send(ctx, http.MethodPost, jsonPath, r.serial.call("echo"), http.StatusOK)
				return 0, err
			})
		},
		func(ctx context.Context) error {
			return r.take(ctx, r.yards.bare, 1, 0, func(ctx context.Context, _ int64) (time.Duration, error) {
				_, err := c.send(ctx, http.MethodGet, barePath, "", http.StatusOK)
				return 0, err
			})
		},
	}, nil
}

// caller returns one that is closed at the end.
func (r *run) caller(base string, token secret.Value, n int) *caller {
	c := newCaller(base, token.Reveal(), n)
	r.undo = append(r.undo, func() error { c.close(); return nil })
	return c
}

// The types of the gate's events that are set beside what was counted here.
const (
	eventAllowed  = "call_allowed"
	eventAsked    = "approval_requested"
	eventDecision = "hitl_decision"
)

// stepsQuarantined measures calls that a person is asked about.
func (r *run) stepsQuarantined(context.Context) ([]step, error) {
	c := r.caller(r.w.url, r.w.agent, r.o.Callers)
	many, one := r.figure("quarantined", "quarantined"), r.figure("quarantined_one", "quarantined")
	many.check, one.check = eventAsked, eventAsked
	do := func(made *made) operation {
		return func(ctx context.Context, _ int64) (time.Duration, error) {
			id, err := c.ask(ctx, r.serial.call(r.w.askTool), "", http.StatusAccepted, "pending")
			if err == nil {
				made.add(id)
			}
			return 0, err
		}
	}
	return []step{func(ctx context.Context) error {
		var made made
		if err := r.take(ctx, many, r.o.Callers, r.w.pid, do(&made)); err != nil {
			return err
		}
		many.rateOf(r.yards.log)
		if err := r.take(ctx, one, 1, r.w.pid, do(&made)); err != nil {
			return err
		}
		one.rateOf(r.yards.sync)
		return r.takeBack(ctx, c, made.ids)
	}}, nil
}

// made are the requests that a round has made.
type made struct {
	mu  sync.Mutex
	ids []string
}

func (m *made) add(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids = append(m.ids, id)
}

// takeBack cancels requests at a gate that is not ours, so that nobody is left with cards of this run. What people
// decided meanwhile stays as it is.
func (r *run) takeBack(ctx context.Context, c *caller, ids []string) error {
	if r.w.pid != 0 {
		return nil
	}
	for _, id := range ids {
		if _, err := c.send(ctx, http.MethodPost, "/v1/approvals/"+id+"/cancel", "{}", http.StatusOK); err != nil {
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
	c := r.caller(r.w.url, r.w.agent, r.o.Callers)
	f := r.figure("allowed", "allowed")
	f.check = eventAllowed
	return []step{func(ctx context.Context) error {
		err := r.take(ctx, f, r.o.Callers, r.w.pid, func(ctx context.Context, _ int64) (time.Duration, error) {
			_, err := c.ask(ctx, r.serial.call(r.w.allowTool), "", http.StatusOK, "allow")
			return 0, err
		})
		f.rateOf(r.yards.json)
		return err
	}}, nil
}

// prepared is how many requests wait for a round of decisions at most.
const prepared = 2000

// stepsDecided measures approvals; the requests are made before.
func (r *run) stepsDecided(context.Context) ([]step, error) {
	agent, person := r.caller(r.w.url, r.w.agent, r.o.Callers), r.caller(r.w.url, r.w.person, r.o.Callers)
	f := r.figure("decided", "decided")
	f.check = eventDecision
	return []step{func(ctx context.Context) error {
		if f.failed >= tooMany {
			return nil
		}
		var made made
		var asking series
		err := asking.measure(ctx, load{r.o.Callers, int64(min(r.o.Calls, prepared)), patience}, 0,
			func(ctx context.Context, _ int64) (time.Duration, error) {
				id, err := agent.ask(ctx, r.serial.call(r.w.askTool), "", http.StatusAccepted, "pending")
				if err == nil {
					made.add(id)
				}
				return 0, err
			})
		if err != nil {
			return err
		}
		r.made[eventAsked] += asking.last().n
		if f.failed += asking.failed; f.first == nil {
			f.first = asking.first
		}
		var next atomic.Int64
		err = r.take(ctx, f, r.o.Callers, r.w.pid, func(ctx context.Context, _ int64) (time.Duration, error) {
			i := next.Add(1) - 1
			if i >= int64(len(made.ids)) {
				return 0, errEnough
			}
			_, err := person.send(ctx, http.MethodPost, "/v1/approvals/"+made.ids[i]+"/decide",
				`{"decision":"approve"}`, http.StatusOK)
			return 0, err
		})
		f.rateOf(r.yards.log)
		return errors.Join(err, r.takeBack(ctx, agent, made.ids))
	}}, nil
}

// fewer is how many callers the gateway has at once at most: agents, not processes of one.
const fewer = 16

// gateway measures allowed calls over MCP, beside the server itself where it is ours, and beside the floor.
func (r *run) gateway(ctx context.Context) ([]step, error) { //nolint:funlen // three paths, measured side by side
	n := min(fewer, r.o.Callers)
	type path struct {
		callers   []*caller
		one, many *figure
		pid       int
		call      string
	}
	open := func(key, name, base string, token secret.Value, pid int, call string,
		figure func(_, _ string) *figure) (*path, error) {
		p := &path{pid: pid, call: call, one: figure(key+"_one", name), many: figure(key, name)}
		for range n {
			c := r.caller(base, token, 1)
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
	direct, err := open("mcp", "the MCP server", r.w.echo.url(), "", r.w.echo.cmd.Process.Pid, ours, r.ceiling)
	if err != nil {
		return nil, err
	}
	floor, err := open("floor", "a gateway's floor", r.w.floor.url(), "", r.w.floor.cmd.Process.Pid, ours, r.ceiling)
	if err != nil {
		return nil, err
	}
	gate, err := open("gateway", "over MCP", r.w.url, r.w.agent, r.w.pid, r.w.mcpCall, r.figure)
	if err != nil {
		return nil, err
	}
	gate.one.check, gate.many.check = eventAllowed, eventAllowed
	if r.w.pid != 0 { // the gate's connection to the server may take a moment
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
		return r.take(ctx, f, n, p.pid, func(ctx context.Context, _ int64) (time.Duration, error) {
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
	c := r.caller(r.w.url, r.w.agent, 1)
	push, press := r.figure("push", "call to card"), r.figure("press", "press to agent")
	push.check = eventAsked
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
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return []step{func(ctx context.Context) error {
		var answers Histogram
		err := r.take(ctx, push, 1, r.w.pid, func(ctx context.Context, _ int64) (time.Duration, error) {
			toCard, toAgent, err := once(ctx)
			if err == nil {
				answers.Add(toAgent)
			}
			return toCard, err
		})
		press.add(&answers, push.last().rate)
		r.made[eventDecision] += answers.Count()
		push.over(r.yards.bare)
		press.over(r.yards.bare)
		return err
	}}, nil
}
