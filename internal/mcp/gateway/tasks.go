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
	"countersign/internal/budget"
	"countersign/internal/mcp"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/upstream"
)

// task is a call that the gateway runs by itself once a person has approved it, for a client that knows
// the extension. Its id is the approval request's, which is stored before the client learns of it; who
// may ask for it is looked at each time.
type task struct {
	g       *Gateway
	id      string
	agent   string
	created time.Time     // as it is told
	ttl     time.Duration // from then on
	until   time.Duration // the age of the gateway to which it is kept: as long, from when we took it up
	cancel  context.CancelFunc

	// ending is held by what ends it, before mu: a client that cancels it ends its request first, and whoever
	// waits for that request must not end the task in between.
	ending sync.Mutex

	mu            sync.Mutex
	updated       time.Time
	status        string
	message       string
	result        jsontext.Value
	err           *mcp.Error
	openQuestion  question
	questionCount int // how many questions there were; each has a name of its own

	questionSlot chan struct{} // holds one while a question is open: the others wait for their turn
}

// The states of a task.
const (
	taskWorking   = "working"
	taskInput     = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// taskRetention is how long a task's result is kept after its request would have expired.
const taskRetention = time.Hour

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

// add adds a task unless it is there; it returns the one that is there then.
func (ts *tasks) add(age time.Duration, t *task) (*task, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for id, old := range ts.byID {
		if age > old.until {
			delete(ts.byID, id)
		}
	}
	if old := ts.byID[t.id]; old != nil {
		return old, false
	}
	if ts.byID == nil {
		ts.byID = map[string]*task{}
	}
	t.until = age + t.ttl
	ts.byID[t.id] = t
	return t, true
}

// remove forgets a task that another program runs now.
func (ts *tasks) remove(t *task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.byID[t.id] == t {
		delete(ts.byID, t.id)
	}
}

// waitLimit is how long a request may wait. Where the gate is elsewhere its two times can be of two machines, whose
// clocks differ: never below nothing.
func waitLimit(req approval.Request) time.Duration { return max(0, req.ExpiresAt.Sub(req.RequestedAt)) }

// startTask answers a quarantined call with a task.
func (p *pendingCall) startTask() (jsontext.Value, *mcp.Error) {
	p.responses, p.state = nil, nil // what is approved is what was asked for
	first, err := p.r.g.firstAsked(p.r.ctx, p.r.agent(), *p.answer.Request)
	if err != nil {
		return p.gateFailure(err)
	}
	var t *task
	if p.r.g.isElsewhere(p.answer.Request) { // where the same call was asked for first
		t = p.r.g.waitingTask(first)
	} else {
		t = p.r.g.runTask(p, first, p.r.declared, p.r.client.StillValid)
	}
	o := append(mcp.Object{{Name: "resultType", Value: mcp.Quote(mcp.ResultTask)}}, t.describe()...)
	return o.Bytes(), nil
}

// firstAsked returns the request that a task was begun with: people may have put other args in its place since.
func (g *Gateway) firstAsked(ctx context.Context, who approval.Actor, req approval.Request) (approval.Request, error) {
	var err error
	for err == nil && req.Replaces != "" {
		req, err = g.o.Asker.Request(ctx, who, req.Replaces)
	}
	return req, err
}

// lastAsked returns the request that a task waits for now.
func (g *Gateway) lastAsked(ctx context.Context, who approval.Actor, req approval.Request) (approval.Request, error) {
	var err error
	for err == nil && req.ReplacedBy != "" {
		req, err = g.o.Asker.Request(ctx, who, req.ReplacedBy)
	}
	return req, err
}

// isElsewhere reports whether a task is another program's to run.
func (g *Gateway) isElsewhere(req *approval.Request) bool {
	return g.o.Fleet != nil && req != nil && req.Task && req.Runner != g.runner()
}

// waitingTask is a task that waits for an approval.
func (g *Gateway) waitingTask(req approval.Request) *task {
	return &task{g: g, id: req.ID, agent: req.Agent, created: req.RequestedAt, updated: g.clock.now(), status: taskWorking,
		cancel: func() {}, questionSlot: make(chan struct{}, 1), ttl: waitLimit(req) + taskRetention,
		message: "Waiting for a person's approval."}
}

// runTask has a call wait for its approval and run then, in the background. still looks at the credential
// of the client that began it; nil: there is none to look at, as after a restart.
func (g *Gateway) runTask(p *pendingCall, req approval.Request, from clientHello, still func() error) *task {
	ctx, cancel := context.WithCancel(g.work)
	t := g.waitingTask(req)
	t.cancel = cancel
	t, isNew := g.tasks.add(g.clock.age(), t)
	if !isNew {
		cancel()
		return t
	}
	release := g.o.Budgets.Agent(req.Agent).Force(budget.Waits) // it was looked at before people were asked
	// The task is a client of its own, with no one to report to while it runs. Its call is one of its own, too: the
	// request that began it still looks at p.
	s := &session{g: g, client: downstream.Client{Era: mcp.Modern, Agent: req.Agent, StillValid: still},
		id: req.SessionID, hello: from}
	own := &pendingCall{link: p.link, tool: p.tool, method: p.method, params: p.params, call: p.call, answer: p.answer}
	own.r = &clientRequest{session: s, ctx: ctx, method: own.method, declared: from, stream: noStream{}, forTask: true}
	g.background.Go(func() {
		defer release()
		defer cancel()
		result, err := t.run(own)
		if result == nil && g.work.Err() != nil {
			return // nothing was sent: it goes on when the gate is back
		}
		if g.isElsewhere(own.answer.Request) { // another has taken it up, or has let an identical call through
			g.tasks.remove(t)
			return
		}
		t.finish(result, err)
		g.notifyTask(t)
	})
	return t
}

// noStream is the stream of a task.
type noStream struct{}

func (noStream) Send(mcp.Message) error { return nil }
func (noStream) Ask(context.Context, string, jsontext.Value) (mcp.Message, error) {
	return mcp.Message{}, errNoStream
}

// run has the call wait for its approval and sends it then.
func (t *task) run(p *pendingCall) (jsontext.Value, *mcp.Error) {
	r := p.r
	for p.answer.Kind == approval.AnswerPending {
		out, err := r.g.o.Asker.Wait(r.ctx, &p.call, &p.answer, approval.WaitOptions{For: time.Hour, Still: func() error {
			if r.client.StillValid != nil {
				if err := r.client.StillValid(); err != nil {
					return err
				}
			}
			conn, err := p.link.get(r.ctx)
			if err != nil { // an approval would be spent on a server that is gone
				return err
			}
			if err := p.checkUnchanged(r.ctx); err != nil {
				return err
			}
			return p.reserve(conn)
		}})
		if err != nil || !mayRun(out.Kind) {
			p.reservation.Release()
		}
		down, ok := errors.AsType[*upstream.Error](err)
		switch {
		case err == nil:
			p.answer = *out
			continue
		case r.ctx.Err() != nil:
		case ok:
			t.setMessage(fmt.Sprintf("Approved. The MCP server %s cannot be reached; the call waits for it.",
				p.link.server.Name))
			r.g.log.Warn("an approved task waits for its MCP server", "task", t.id, "server", p.link.server.Name, "error", down)
			r.g.sleep(r.ctx, time.Second)
			continue
		case approval.CodeOf(err) == approval.CodeStoreUnavailable:
			r.g.log.Warn("a task cannot read its request; trying again", "task", t.id, "error", err)
			r.g.sleep(r.ctx, time.Second)
			continue
		}
		return p.gateFailure(err)
	}
	if p.answer.Frozen() {
		return nil, mcp.Errorf(mcp.CodeDenied, "%s", p.answer.Message)
	}
	if !mayRun(p.answer.Kind) {
		return p.applyAnswer(nil)
	}
	t.setMessage("Approved. The call is running.")
	r.g.notifyTask(t)
	conn, err := p.link.get(r.ctx)
	if err != nil {
		p.reservation.Release()
		return p.notRun(r.ctx, err)
	}
	if p.answer.Kind == approval.AnswerApproved {
		p.params = p.params.With("arguments", approvedArgs(&p.answer))
	}
	return (&exchange{r: r, p: p, conn: conn, ask: r.checkAsk(t.ask)}).run()
}

// mayRun reports whether a call that was answered so may run.
func mayRun(k approval.AnswerKind) bool {
	return k == approval.AnswerAllow || k == approval.AnswerApproved
}

// sleep waits, or until ctx ends.
func (g *Gateway) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (t *task) setMessage(message string) {
	t.mu.Lock()
	t.message, t.updated = message, t.g.clock.now()
	t.mu.Unlock()
}

// finish sets what the task came to.
func (t *task) finish(result jsontext.Value, err *mcp.Error) {
	t.ending.Lock()
	defer t.ending.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.updated = t.g.clock.now()
	switch {
	case t.status == taskCancelled:
	case err != nil:
		t.status, t.err, t.message = taskFailed, err, err.Message
	default:
		t.status, t.result, t.message = taskCompleted, result, "The call has ended."
	}
}

// ask has the client asked, by way of the task's state.
func (t *task) ask(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, *mcp.Error) {
	over := time.NewTimer(questionTimeout)
	defer over.Stop()
	select {
	case t.questionSlot <- struct{}{}:
		defer func() { <-t.questionSlot }()
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
	t.questionCount++
	t.status, t.openQuestion, t.updated, t.message = taskInput, q, t.g.clock.now(), "The server needs input."
	t.mu.Unlock()
	t.g.notifyTask(t)
	defer func() {
		t.mu.Lock()
		if t.status == taskInput {
			t.status, t.openQuestion = taskWorking, question{}
		}
		t.mu.Unlock()
	}()
	return q.wait(ctx, over.C)
}

// questionKey is the name of the question that is open, which no other of the task has: clients tell by it
// what they have answered. t.mu is held.
func (t *task) questionKey() string { return fmt.Sprintf("input-%d", t.questionCount) }

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
		o = append(o, mcp.Member{Name: "inputRequests", Value: mcp.Object{{Name: t.questionKey(), Value: mcp.Object{
			{Name: "method", Value: mcp.Quote(t.openQuestion.method)},
			{Name: "params", Value: objectOrEmpty(t.openQuestion.params)}}.Bytes()}}.Bytes()})
	case taskCompleted:
		o = append(o, mcp.Member{Name: "result", Value: t.result})
	case taskFailed:
		o = append(o, mcp.Member{Name: "error", Value: mcp.Marshal(t.err)})
	}
	return o
}

// notifyTask has those who listen to a task know that it changed.
func (g *Gateway) notifyTask(t *task) {
	g.mu.Lock()
	var listeners []*listener
	for e := range g.listeners {
		listeners = append(listeners, e)
	}
	g.mu.Unlock()
	params := t.describe()
	for _, e := range listeners {
		e.deliverTask(t, params)
	}
}

func (e *listener) deliverTask(t *task, params mcp.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range e.tasks {
		if id == t.id && e.r.client.Agent == t.agent && !e.closed {
			e.enqueue("notifications/tasks", params)
		}
	}
}

// requestedTask returns the task that a request is about: one of this process, or one that another process began, as
// far as its request still tells.
func (r *clientRequest) requestedTask() (*task, *mcp.Error) {
	if !r.declared.tasks {
		return nil, &mcp.Error{Code: mcp.CodeMissingCapability, Message: "The client must declare the extension " +
			mcp.ExtensionTasks + " to use tasks.",
			Data: mcp.Marshal(map[string]any{"requiredCapabilities": map[string]any{
				"extensions": map[string]any{mcp.ExtensionTasks: struct{}{}}}})}
	}
	return r.findTask(r.params.Text("taskId"))
}

// findTask returns one of the agent's tasks.
func (r *clientRequest) findTask(id string) (*task, *mcp.Error) {
	if t := r.g.tasks.get(r.client.Agent, id); t != nil {
		return t, nil
	}
	req, err := r.g.o.Asker.Request(r.ctx, r.agent(), id)
	switch {
	case err == nil && r.g.ownsTask(req):
	case err == nil || approval.CodeOf(err) == approval.CodeNotFound:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: there is no such task.")
	default:
		return nil, mcp.Errorf(mcp.CodeUnavailable, "The gate cannot answer now; try again later.")
	}
	return r.g.reviveTask(r.ctx, r.session, req, r.declared)
}

// reviveTask takes up a task of an earlier process: if its call has not run, it goes on waiting.
func (g *Gateway) reviveTask(ctx context.Context, s *session, req approval.Request,
	from clientHello) (*task, *mcp.Error) {
	first := req
	req, err := g.lastAsked(ctx, s.agent(), req)
	elsewhere := g.isElsewhere(&req)
	if err == nil && elsewhere && !req.Live() { // whoever ran it knows more
		var at string
		if at, err = g.o.Fleet.AddressOf(ctx, req.Runner); at != "" {
			return nil, mcp.Errorf(mcp.CodeUnavailable,
				"The task was run by another replica of the gate, which cannot be reached now; try again later.")
		}
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeUnavailable, "The gate cannot answer now; try again later.")
	}
	if elsewhere && req.Live() {
		return g.waitingTask(first), nil
	}
	if req.Live() { // where other args are approved by then, they run
		p, err := s.pendingCallOf(ctx, first)
		if err != nil {
			return nil, mcp.Errorf(mcp.CodeUnavailable, "The task cannot continue now: %s.", err)
		}
		return g.runTask(p, first, from, s.client.StillValid), nil
	}
	r := &clientRequest{session: &session{g: g, client: downstream.Client{Era: mcp.Modern, Agent: req.Agent}}, ctx: ctx,
		method: "tools/call"}
	text := req.FeedMessage()
	failed := true
	// A task of this program that is not forgotten yet, and not here: an identical call was let through in its place.
	usedHere := g.o.Fleet != nil && !elsewhere &&
		g.clock.now().Before(first.RequestedAt.Add(waitLimit(first)+taskRetention))
	switch {
	case req.ConsumedAt.IsZero():
	case usedHere:
		text = approval.Ended(req).Message
	case req.RunResult == approval.RunSucceeded:
		text, failed = "The call ran and succeeded; its result was lost when the gate restarted.", false
	case req.RunResult == approval.RunFailed:
		text = "The call ran and failed; its answer was lost when the gate restarted."
	default:
		text = "The outcome is unknown: the call was sent and the gate restarted before the answer came. It may have run; " +
			"find out before you call it again."
	}
	t := &task{g: g, id: first.ID, agent: first.Agent, created: first.RequestedAt, updated: req.ResolvedAt,
		status: taskCompleted, message: "The call has ended.",
		ttl: waitLimit(first) + taskRetention, result: r.toolResult(failed, nil, text), cancel: func() {},
		questionSlot: make(chan struct{}, 1)}
	if req.EndCode == approval.EndFrozen {
		t.status, t.message, t.result, t.err = taskFailed, text, nil, mcp.Errorf(mcp.CodeDenied, "%s", text)
	}
	if !elsewhere {
		t, _ = g.tasks.add(g.clock.age(), t)
	}
	return t, nil
}

// pendingCallOf makes the stored call of a task ready to be sent.
func (s *session) pendingCallOf(ctx context.Context, req approval.Request) (*pendingCall, error) {
	if req.Scope != s.g.o.Scope {
		return nil, errors.New("it belongs to another gateway")
	}
	for _, u := range s.g.servers {
		if u.Name != req.Server {
			continue
		}
		t, err := s.findTool(ctx, u.offeredName(req.Tool), (*link).currentTool)
		if err != nil {
			return nil, err
		}
		if t == nil {
			break
		}
		parsed, err := args.Parse(req.Args)
		if err != nil {
			return nil, err
		}
		first := req
		return &pendingCall{link: t.link, tool: t, method: "tools/call",
			params: mcp.Object{{Name: "name", Value: mcp.Quote(t.name)}, {Name: "arguments", Value: req.Args}},
			call: approval.Call{Agent: req.Agent, Scope: req.Scope, Server: req.Server, Tool: req.Tool, Args: parsed,
				SessionID:  req.SessionID,
				ToolDigest: t.digest, ListedDigest: t.listedDigest, ToolSeen: t.isSeenByAll(),
				Annotations: t.annotations, Grouped: true, Dispatch: true, Runner: s.g.runner(),
				Task: true, AcceptsEdits: true},
			answer: approval.Answer{Kind: approval.AnswerPending, Request: &first, Risk: req.Risk, Rule: req.Rule,
				ReasonCode: req.ReasonCode}}, nil
	}
	return nil, fmt.Errorf("there is no tool %s any more", req.Target())
}

// ownsTask reports whether a task is this gateway's to run. One that an agent asked for over the API is that agent's,
// also where it names a server that has the name of one here.
func (g *Gateway) ownsTask(req approval.Request) bool {
	return req.Task && (g.o.Wrapper || req.ToolSeen)
}

// takeTasks takes up the tasks of programs that are gone, while this one runs.
func (g *Gateway) takeTasks() {
	servers := make([]string, len(g.servers))
	for i, u := range g.servers {
		servers[i] = u.Name
	}
	for owed, told := false, false; g.work.Err() == nil; g.sleep(g.work, resumeEvery) {
		taken, err := g.o.Fleet.TakeTasks(g.work, servers)
		owed = owed || taken
		if owed && err == nil {
			err = g.resumeTasks()
			owed = err != nil
		}
		if err != nil && !told && g.work.Err() == nil {
			g.log.Warn("tasks of a program that is gone cannot be taken up; trying again", "error", err)
		}
		told = err != nil
	}
}

// resumeTasks takes up the tasks that are this program's to run.
func (g *Gateway) resumeTasks() error {
	rs, err := g.local.Tasks(g.work, "")
	g.beginning.Lock()   // a client may be beginning one of them: it is there then
	g.beginning.Unlock() //nolint:staticcheck // it is only waited for
	from, _ := parseClientHello(nil, nil)
	for _, req := range rs {
		if req.Scope != g.o.Scope || !g.ownsTask(req) || g.isElsewhere(&req) {
			continue
		}
		if _, begun := g.resuming.LoadOrStore(req.ID, true); begun {
			continue
		}
		g.background.Go(func() {
			defer g.resuming.Delete(req.ID)
			g.resumeTask(req, from)
		})
	}
	return err
}

// resumeEvery is how long a task that cannot go on waits before it is tried again.
const resumeEvery = 5 * time.Second

// resumeTask takes up one task, as soon as its server can be reached.
func (g *Gateway) resumeTask(req approval.Request, from clientHello) {
	s := &session{g: g, client: downstream.Client{Era: mcp.Modern, Agent: req.Agent}}
	for told := false; g.work.Err() == nil; told = true {
		first, err := g.firstAsked(g.work, s.agent(), req)
		if err == nil {
			_, bad := g.reviveTask(g.work, s, first, from)
			if bad == nil {
				return
			}
			err = bad
		}
		if !told {
			g.log.Warn("a task cannot continue; trying again", "task", req.ID, "error", err)
		}
		g.sleep(g.work, resumeEvery)
		if now, err := g.o.Asker.Request(g.work, s.agent(), req.ID); err == nil {
			req = now
		}
	}
}

func (r *clientRequest) taskGet() (jsontext.Value, *mcp.Error) {
	t, err := r.requestedTask()
	if err != nil {
		return nil, err
	}
	return append(mcp.Object{{Name: "resultType", Value: mcp.Quote(mcp.ResultComplete)}}, t.describe()...).Bytes(), nil
}

var acknowledged = mcp.Object{{Name: "resultType", Value: mcp.Quote(mcp.ResultComplete)}}.Bytes()

// taskUpdate brings the answer to what a task asked.
func (r *clientRequest) taskUpdate() (jsontext.Value, *mcp.Error) {
	t, err := r.requestedTask()
	if err != nil {
		return nil, err
	}
	answers, err := readAnswers(r.params.Get("inputResponses"))
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := answers.Get(t.questionKey()); v != nil && t.status == taskInput && t.openQuestion.answer != nil {
		t.openQuestion.answer <- v
		t.status, t.openQuestion, t.updated, t.message = taskWorking, question{}, t.g.clock.now(), "The call is running."
	}
	return acknowledged, nil
}

// isLive reports whether a request of the agent's can be taken back. Where the gate is here it reads no large row: no
// budget bounds how often that is asked.
func (r *clientRequest) isLive(id string) (bool, error) {
	if r.g.local != nil {
		h, err := r.g.local.RequestHead(r.ctx, r.agent(), id)
		return h.Live(), err
	}
	req, err := r.g.o.Asker.Request(r.ctx, r.agent(), id)
	return req.Live(), err
}

// isOpen reports whether a task has not ended. There may be none.
func (t *task) isOpen() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status == taskWorking || t.status == taskInput
}

// cancelRequest takes the request back that a task waits for.
func (r *clientRequest) cancelRequest(id string) error {
	ctx := r.withCorrelation()
	c := approval.Cancellation{RequestID: id, By: r.agent(), Via: approval.ViaAPI, Reason: "the client cancelled the task"}
	_, err := r.g.o.Asker.Cancel(ctx, c)
	if approval.CodeOf(err) != approval.CodeAlreadyResolved {
		return err
	}
	req, err := r.g.o.Asker.Request(ctx, r.agent(), id)
	if err != nil || req.ReplacedBy == "" {
		return err
	}
	if req, err = r.g.lastAsked(ctx, r.agent(), req); err != nil {
		return err
	}
	c.RequestID = req.ID
	_, err = r.g.o.Asker.Cancel(ctx, c)
	return err
}

// taskCancel takes a task back: its request if no person has decided, the call if it runs.
func (r *clientRequest) taskCancel() (jsontext.Value, *mcp.Error) {
	over := downstream.OverBudget(r.ctx)
	if over != nil { // what can be cancelled is cancelled all the same
		id := r.params.Text("taskId")
		if live, err := r.isLive(id); err != nil || !live && !r.g.tasks.get(r.client.Agent, id).isOpen() {
			return r.overBudget(over)
		}
	}
	t, err := r.requestedTask()
	if err != nil {
		return nil, err
	}
	t.ending.Lock()
	defer t.ending.Unlock()
	why := r.cancelRequest(t.id)
	if why != nil && approval.CodeOf(why) == approval.CodeStoreUnavailable {
		return nil, mcp.Errorf(mcp.CodeUnavailable, "The gate cannot cancel it now; try again later.")
	}
	t.mu.Lock()
	if t.status == taskWorking || t.status == taskInput {
		t.status, t.message, t.updated = taskCancelled, "Cancelled by the client.", t.g.clock.now()
	}
	t.mu.Unlock()
	t.cancel()
	r.g.notifyTask(t)
	return acknowledged, nil
}
