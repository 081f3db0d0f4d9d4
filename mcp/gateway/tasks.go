package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/budget"
	"countersign/mcp"
	"countersign/mcp/downstream"
	"countersign/mcp/upstream"
)

// task is a call that the gateway runs by itself once a person has approved it, for a client that knows
// the extension. Its id is the approval request's, which is stored before the client learns of it; who
// may ask for it is looked at each time.
type task struct {
	id      string
	agent   string
	created time.Time     // as it is told
	ttl     time.Duration // from then on
	taken   time.Time     // when we took it up, from which it is kept as long
	cancel  context.CancelFunc

	mu      sync.Mutex
	updated time.Time
	status  string
	message string
	result  jsontext.Value
	err     *mcp.Error
	asked   question
	asks    int // how many questions there were; each has a name of its own

	asking chan struct{} // holds one while a question is open: the others wait for their turn
}

// The states of a task.
const (
	taskWorking   = "working"
	taskInput     = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// keepTask is how long a task's result is kept after its request would have expired.
const keepTask = time.Hour

// tasks are those that run or ran in this process.
type tasks struct {
	mu   sync.Mutex
	byID map[string]*task
}

func (ts *tasks) get(agent, id string) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byID[id]
	if t == nil || t.agent != agent {
		return nil
	}
	return t
}

// put adds a task unless it is there; it returns the one that is there then.
func (ts *tasks) put(t *task) (*task, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := time.Now()
	for id, old := range ts.byID {
		if now.Sub(old.taken) > old.ttl {
			delete(ts.byID, id)
		}
	}
	if old := ts.byID[t.id]; old != nil {
		return old, false
	}
	if ts.byID == nil {
		ts.byID = map[string]*task{}
	}
	t.taken = now
	ts.byID[t.id] = t
	return t, true
}

// waits is how long a request may wait. Where the gate is elsewhere its two times can be of two machines, whose
// clocks differ: never below nothing.
func waits(req approval.Request) time.Duration { return max(0, req.ExpiresAt.Sub(req.RequestedAt)) }

// startTask answers a quarantined call with a task.
func (r *request) startTask(p *passage) (jsontext.Value, *mcp.Error) {
	p.responses, p.state = nil, nil // what is approved is what was asked for
	t := r.g.runTask(p, *p.out.Request, r.from, r.client.StillValid)
	o := append(mcp.Object{{Name: "resultType", Value: mcp.Quote(mcp.ResultTask)}}, t.describe()...)
	return o.Bytes(), nil
}

// runTask has a call wait for its approval and run then, in the background. still looks at the credential
// of the client that began it; nil: there is none to look at, as after a restart.
func (g *Gateway) runTask(p *passage, req approval.Request, from client, still func() error) *task {
	ctx, cancel := context.WithCancel(g.work)
	now := time.Now()
	t, isNew := g.tasks.put(&task{id: req.ID, agent: req.Agent, created: req.RequestedAt, updated: now, status: taskWorking, cancel: cancel, asking: make(chan struct{}, 1),
		ttl: waits(req) + keepTask, message: "Waiting for a person's approval."})
	if !isNew {
		cancel()
		return t
	}
	release := g.o.Budgets.Agent(req.Agent).Force(budget.Waits) // it was looked at before people were asked
	g.running.Go(func() {
		defer release()
		defer cancel()
		// The task is a client of its own, without anybody to report to while it runs.
		s := &session{g: g, client: downstream.Client{Era: mcp.Modern, Agent: req.Agent, StillValid: still}, id: req.SessionID, hello: from}
		r := &request{session: s, ctx: ctx, method: "tools/call", from: from, out: nobody{}, task: true}
		result, err := r.runTask(t, p)
		if result == nil && g.work.Err() != nil {
			return // nothing was sent: it goes on when the gate is back
		}
		t.end(result, err)
		g.tell(t)
	})
	return t
}

// nobody is the stream of a task.
type nobody struct{}

func (nobody) Send(mcp.Message) error { return nil }
func (nobody) Ask(context.Context, string, jsontext.Value) (mcp.Message, error) {
	return mcp.Message{}, errNoRider
}

func (r *request) runTask(t *task, p *passage) (jsontext.Value, *mcp.Error) {
	for p.out.Kind == approval.AnswerPending {
		out, err := r.g.o.Gate.Wait(r.ctx, p.call, p.out, approval.WaitOptions{For: time.Hour, Still: func() error {
			if r.client.StillValid != nil {
				if err := r.client.StillValid(); err != nil {
					return err
				}
			}
			conn, err := p.link.get(r.ctx)
			if err != nil { // an approval would be spent on a server that is gone
				return err
			}
			if err := p.unchanged(r.ctx); err != nil {
				return err
			}
			return p.keep(conn, r.client.Agent)
		}})
		if err != nil || out.Kind != approval.AnswerApproved {
			p.room.Release()
		}
		down, ok := errors.AsType[*upstream.Error](err)
		switch {
		case err == nil:
			p.out = out
			continue
		case r.ctx.Err() != nil:
		case ok:
			t.say(fmt.Sprintf("Approved; the MCP server %s cannot be reached, and the call waits for it.", p.link.up.Name))
			r.g.log.Warn("an approved task waits for its MCP server", "task", t.id, "server", p.link.up.Name, "error", down)
			r.g.rest(r.ctx, time.Second)
			continue
		case approval.CodeOf(err) == approval.CodeStoreUnavailable:
			r.g.log.Warn("a task cannot see its request; trying again", "task", t.id, "error", err)
			r.g.rest(r.ctx, time.Second)
			continue
		}
		return r.gateFailed(p, err)
	}
	if p.out.Kind != approval.AnswerApproved {
		return r.decided(nil, p)
	}
	t.say("Approved; the call is running.")
	r.g.tell(t)
	conn, err := p.link.get(r.ctx)
	if err != nil {
		p.room.Release()
		return r.lost(r.ctx, p, err)
	}
	p.params = p.params.With("arguments", jsontext.Value(p.out.Request.Args))
	return r.exchange(r.ctx, conn, p, func(ctx context.Context, l *link, method string, params jsontext.Value) (jsontext.Value, *mcp.Error) {
		if !r.can(method, params) {
			return decline(method)
		}
		if why := r.allowed(ctx, l, method, params); why != nil {
			return nil, why
		}
		return t.ask(ctx, r.g, method, params)
	})
}

// rest waits, or until ctx ends.
func (g *Gateway) rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (t *task) say(message string) {
	t.mu.Lock()
	t.message, t.updated = message, time.Now()
	t.mu.Unlock()
}

// end sets what the task came to.
func (t *task) end(result jsontext.Value, err *mcp.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.updated = time.Now()
	switch {
	case t.status == taskCancelled:
	case err != nil:
		t.status, t.err, t.message = taskFailed, err, err.Message
	default:
		t.status, t.result, t.message = taskCompleted, result, "The call has ended."
	}
}

// ask has the client asked, by way of the task's state.
func (t *task) ask(ctx context.Context, g *Gateway, method string, params jsontext.Value) (jsontext.Value, *mcp.Error) {
	over := time.NewTimer(parkedFor)
	defer over.Stop()
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return decline(method)
	case <-over.C:
		return decline(method)
	}
	q := question{method: method, params: params, answer: make(chan jsontext.Value, 1)}
	t.mu.Lock()
	if t.status != taskWorking {
		t.mu.Unlock()
		return decline(method)
	}
	t.asks++
	t.status, t.asked, t.updated, t.message = taskInput, q, time.Now(), "The server asks for something."
	t.mu.Unlock()
	g.tell(t)
	defer func() {
		t.mu.Lock()
		if t.status == taskInput {
			t.status, t.asked = taskWorking, question{}
		}
		t.mu.Unlock()
	}()
	select {
	case v, ok := <-q.answer:
		if ok {
			return v, nil
		}
	case <-ctx.Done():
	case <-over.C:
	}
	return decline(method)
}

// question is the name of the question that is open, which no other of the task has: clients tell by it
// what they have answered. t.mu is held.
func (t *task) question() string { return fmt.Sprintf("input-%d", t.asks) }

// describe is the task as the protocol tells it.
func (t *task) describe() mcp.Object {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := mcp.Object{
		{Name: "taskId", Value: mcp.Quote(t.id)},
		{Name: "status", Value: mcp.Quote(t.status)},
		{Name: "statusMessage", Value: mcp.Quote(t.message)},
		{Name: "createdAt", Value: mcp.Quote(approval.FormatTime(t.created))},
		{Name: "lastUpdatedAt", Value: mcp.Quote(approval.FormatTime(t.updated))},
		{Name: "ttlMs", Value: mcp.Number(t.ttl.Milliseconds())},
		{Name: "pollIntervalMs", Value: jsontext.Value("5000")},
	}
	switch t.status {
	case taskInput:
		o = append(o, mcp.Member{Name: "inputRequests", Value: mcp.Object{{Name: t.question(), Value: mcp.Object{
			{Name: "method", Value: mcp.Quote(t.asked.method)}, {Name: "params", Value: orEmpty(t.asked.params)}}.Bytes()}}.Bytes()})
	case taskCompleted:
		o = append(o, mcp.Member{Name: "result", Value: t.result})
	case taskFailed:
		o = append(o, mcp.Member{Name: "error", Value: mcp.Marshal(t.err)})
	}
	return o
}

// tell has those who listen to a task know that it changed.
func (g *Gateway) tell(t *task) {
	g.mu.Lock()
	var ears []*listener
	for e := range g.listeners {
		ears = append(ears, e)
	}
	g.mu.Unlock()
	params := t.describe()
	for _, e := range ears {
		e.hearTask(t, params)
	}
}

func (e *listener) hearTask(t *task, params mcp.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range e.tasks {
		if id == t.id && e.session.client.Agent == t.agent && !e.over {
			e.send("notifications/tasks", params)
		}
	}
}

// theTask returns the task that a request is about: one of this process, or one that an earlier process
// began, as far as its request still tells.
func (r *request) theTask() (*task, *mcp.Error) {
	if !r.from.tasks {
		return nil, &mcp.Error{Code: mcp.CodeMissingCapability, Message: "The client must declare the extension " + mcp.ExtensionTasks + " to use tasks.",
			Data: mcp.Marshal(map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{mcp.ExtensionTasks: struct{}{}}}})}
	}
	return r.taskOf(r.params.Text("taskId"))
}

// taskOf returns one of the agent's tasks.
func (r *request) taskOf(id string) (*task, *mcp.Error) {
	if t := r.g.tasks.get(r.client.Agent, id); t != nil {
		return t, nil
	}
	req, err := r.g.o.Gate.Request(r.ctx, r.agent(), id)
	switch {
	case err == nil && r.g.runs(req):
	case err == nil || approval.CodeOf(err) == approval.CodeNotFound:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: there is no such task.")
	default:
		return nil, mcp.Errorf(mcp.CodeUnavailable, "The gate cannot tell now; try again later.")
	}
	return r.g.revive(r.ctx, r.session, req, r.from)
}

// revive takes up a task of an earlier process: if its call has not run, it goes on waiting.
func (g *Gateway) revive(ctx context.Context, s *session, req approval.Request, from client) (*task, *mcp.Error) {
	if req.Live() {
		p, err := s.passageOf(ctx, req)
		if err != nil {
			return nil, mcp.Errorf(mcp.CodeUnavailable, "The task cannot go on now: %s.", err)
		}
		return g.runTask(p, req, from, s.client.StillValid), nil
	}
	r := &request{session: &session{g: g, client: downstream.Client{Era: mcp.Modern, Agent: req.Agent}}, ctx: ctx, method: "tools/call"}
	text := req.FeedMessage()
	failed := true
	switch {
	case req.ConsumedAt.IsZero():
	case req.RunResult == approval.RunSucceeded:
		text, failed = "The call ran and succeeded; its result was not kept when the gate restarted.", false
	case req.RunResult == approval.RunFailed:
		text = "The call ran and failed; its answer was not kept when the gate restarted."
	default:
		text = "The outcome is unknown: the call was sent and the gate restarted before the answer came. It may have run; find out before you call it again."
	}
	t := &task{id: req.ID, agent: req.Agent, created: req.RequestedAt, updated: req.ResolvedAt, status: taskCompleted, message: "The call has ended.",
		ttl: waits(req) + keepTask, result: r.toolResult(failed, nil, text), cancel: func() {}, asking: make(chan struct{}, 1)}
	t, _ = g.tasks.put(t)
	return t, nil
}

// passageOf makes the stored call of a task ready to be sent.
func (s *session) passageOf(ctx context.Context, req approval.Request) (*passage, error) {
	if req.Scope != s.g.o.Scope {
		return nil, errors.New("it belongs to another gateway")
	}
	for _, u := range s.g.ups {
		if u.Name != req.Server {
			continue
		}
		t, err := s.find(ctx, u.offered(req.Tool), true)
		if err != nil {
			return nil, err
		}
		if t == nil {
			break
		}
		args, err := args.Parse(req.Args)
		if err != nil {
			return nil, err
		}
		first := req
		return &passage{link: t.link, tool: t, method: "tools/call",
			params: mcp.Object{{Name: "name", Value: mcp.Quote(t.name)}, {Name: "arguments", Value: req.Args}},
			call: approval.Call{Agent: req.Agent, Scope: req.Scope, Server: req.Server, Tool: req.Tool, Args: args, SessionID: req.SessionID,
				ToolDigest: t.digest, ToolSeen: t.seen(), Dispatch: true, Task: true},
			out: approval.Answer{Kind: approval.AnswerPending, Request: &first, Risk: req.Risk, Rule: req.Rule, ReasonCode: req.ReasonCode}}, nil
	}
	return nil, fmt.Errorf("there is no tool %s any more", req.Target())
}

// runs reports whether a task is this gateway's to run. One that an agent asked for over the API is that agent's,
// also where it names a server that has the name of one here.
func (g *Gateway) runs(req approval.Request) bool { return req.Task && (g.o.Wrapper || req.ToolSeen) }

// resumeTasks takes up the tasks that a restart interrupted.
func (g *Gateway) resumeTasks() {
	lister, ok := g.o.Gate.(interface {
		Tasks(ctx context.Context, agent string) ([]approval.Request, error)
	})
	if !ok {
		return
	}
	rs, err := lister.Tasks(g.work, "")
	if err != nil {
		if g.work.Err() == nil {
			g.log.Error("tasks that a restart interrupted cannot be found; they go on when their clients ask for them", "error", err)
		}
		return
	}
	from, _ := readClient(nil, nil)
	for _, req := range rs {
		if req.Scope != g.o.Scope || !g.runs(req) {
			continue
		}
		g.running.Go(func() { g.resumeTask(req, from) })
	}
}

// resumeEvery is how long a task that cannot go on waits before it is tried again.
const resumeEvery = 5 * time.Second

// resumeTask takes up one task, as soon as its server can be reached.
func (g *Gateway) resumeTask(req approval.Request, from client) {
	s := &session{g: g, client: downstream.Client{Era: mcp.Modern, Agent: req.Agent}}
	for first := true; g.work.Err() == nil; first = false {
		_, bad := g.revive(g.work, s, req, from)
		if bad == nil {
			return
		}
		if first {
			g.log.Warn("a task cannot go on; trying again", "task", req.ID, "error", bad)
		}
		g.rest(g.work, resumeEvery)
		if now, err := g.o.Gate.Request(g.work, s.agent(), req.ID); err == nil {
			req = now
		}
	}
}

func (r *request) taskGet() (jsontext.Value, *mcp.Error) {
	t, err := r.theTask()
	if err != nil {
		return nil, err
	}
	return append(mcp.Object{{Name: "resultType", Value: mcp.Quote(mcp.ResultComplete)}}, t.describe()...).Bytes(), nil
}

var acknowledged = mcp.Object{{Name: "resultType", Value: mcp.Quote(mcp.ResultComplete)}}.Bytes()

// taskUpdate brings the answer to what a task asked.
func (r *request) taskUpdate() (jsontext.Value, *mcp.Error) {
	t, err := r.theTask()
	if err != nil {
		return nil, err
	}
	answers, err := readAnswers(r.params.Get("inputResponses"))
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := answers.Get(t.question()); v != nil && t.status == taskInput && t.asked.answer != nil {
		t.asked.answer <- v
		t.status, t.asked, t.updated, t.message = taskWorking, question{}, time.Now(), "The call is running."
	}
	return acknowledged, nil
}

// live reports whether a request of the agent's can be taken back. Where the gate is here it reads no large row: no
// budget bounds how often that is asked.
func (r *request) live(id string) (bool, error) {
	if g, ok := r.g.o.Gate.(interface {
		RequestHead(ctx context.Context, who approval.Actor, id string) (approval.Head, error)
	}); ok {
		h, err := g.RequestHead(r.ctx, r.agent(), id)
		return h.Live(), err
	}
	req, err := r.g.o.Gate.Request(r.ctx, r.agent(), id)
	return req.Live(), err
}

// taskCancel takes a task back: its request if nobody has decided, the call if it runs.
func (r *request) taskCancel() (jsontext.Value, *mcp.Error) {
	over := downstream.OverBudget(r.ctx)
	if over != nil { // what can be cancelled is cancelled all the same
		if live, err := r.live(r.params.Text("taskId")); err != nil || !live {
			return r.overBudget(over)
		}
	}
	t, err := r.theTask()
	if err != nil {
		return nil, err
	}
	_, why := r.g.o.Gate.Cancel(r.audited(), approval.Cancellation{RequestID: t.id, By: r.agent(), Via: approval.ViaAPI, Reason: "the client cancelled the task"})
	if why != nil && approval.CodeOf(why) == approval.CodeStoreUnavailable {
		return nil, mcp.Errorf(mcp.CodeUnavailable, "The gate cannot cancel it now; try again later.")
	}
	t.mu.Lock()
	if t.status == taskWorking || t.status == taskInput {
		t.status, t.message, t.updated = taskCancelled, "Cancelled by the client.", time.Now()
	}
	t.mu.Unlock()
	t.cancel()
	r.g.tell(t)
	return acknowledged, nil
}
