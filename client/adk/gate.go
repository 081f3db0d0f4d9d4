package adk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/tool"

	"countersign/approval/args/decimal"
	"countersign/client"
)

// Options say how calls are asked about. The zero value is a good start.
type Options struct {
	// Server is what the policy's rules and the cards name as the tools' server; "" is none.
	Server string
	// Scope returns the scope of a call: a call of one scope never joins a request of another, nor uses
	// its approval. nil keeps the users of each app apart: APP/USER.
	Scope func(agent.ReadonlyContext) string
	// Wait is how long a call that needs a person is held for the decision, at most [client.MaxWait].
	// Calls of one turn wait together, and people are told at once of each. With 0, or once the time is up, the model
	// is told that the approval is pending, and makes the call again when it hears that it was approved.
	Wait time.Duration
}

// Gate asks about the tool calls of agents. It is safe for concurrent use, by any number of agents,
// runners and sessions.
type Gate struct {
	client *client.Client
	server string
	scope  func(agent.ReadonlyContext) string
	wait   time.Duration
	now    func() time.Time
	runs   runs
}

// New returns a gate that asks as the agent whose token c has.
func New(c *client.Client, o Options) *Gate {
	g := &Gate{client: c, server: o.Server, scope: o.Scope, wait: min(max(o.Wait, 0), client.MaxWait), now: time.Now}
	if g.scope == nil {
		g.scope = func(ctx agent.ReadonlyContext) string { return ctx.AppName() + "/" + ctx.UserID() }
	}
	return g
}

// Plugin returns the gate for runner.Config.PluginConfig: it covers every agent of the runner. It does
// not reach agents that agenttool runs as tools, because these have runners of their own: see [Gate.Guard].
func (g *Gate) Plugin() (*plugin.Plugin, error) {
	return plugin.New(plugin.Config{
		Name:                "countersign",
		BeforeModelCallback: g.BeforeModel,
		AfterModelCallback:  g.AfterModel,
		BeforeToolCallback:  g.BeforeTool,
		AfterRunCallback:    func(ctx agent.InvocationContext) { g.runs.end(ctx.InvocationID()) },
	})
}

// Guard adds the gate's callbacks to those of one agent, after the ones that are there. An agent whose
// runner has [Gate.Plugin] must not have them too: every call would be asked about twice, and an approved
// one never run.
func (g *Gate) Guard(cfg *llmagent.Config) {
	cfg.BeforeModelCallbacks = append(cfg.BeforeModelCallbacks, g.BeforeModel)
	cfg.AfterModelCallbacks = append(cfg.AfterModelCallbacks, g.AfterModel)
	cfg.BeforeToolCallbacks = append(cfg.BeforeToolCallbacks, g.BeforeTool)
}

var (
	_ llmagent.BeforeToolCallback  = (*Gate)(nil).BeforeTool
	_ llmagent.BeforeModelCallback = (*Gate)(nil).BeforeModel
	_ llmagent.AfterModelCallback  = (*Gate)(nil).AfterModel
)

// The "status" of a call that did not run.
const (
	StatusPending     = "approval_pending"
	StatusDenied      = "denied" // by the policy or by a person
	StatusExpired     = "expired"
	StatusCancelled   = "cancelled"
	StatusLapsed      = "lapsed"
	StatusFrozen      = "frozen"           // nothing of the agent runs until a person lifts it
	StatusRefused     = "refused"          // the gate does not take the question; "code" says why
	StatusUnavailable = "gate_unavailable" // the gate gave no answer
)

// BeforeTool asks whether the call may run now. It returns nil, nil for yes; for everything else it
// returns a result for the model, with "status", "message" and, where there is a request, "approval_id".
// It never returns an error, so a run survives whatever the answer is. An approved call runs with the args that
// people were shown: args is changed where the policy's ignore_args let it differ from those, or where its approver
// changed them. In that case [Gate.BeforeModel] tells the model.
func (g *Gate) BeforeTool(ctx agent.Context, t tool.Tool, args map[string]any) (map[string]any, error) {
	answer, err := g.ask(ctx, t.Name(), args)
	if err != nil {
		return noAnswerResult(err), nil
	}
	if answer.MayRun() {
		return g.letThrough(ctx, t.Name(), args, answer), nil
	}
	if answer.Kind != client.AnswerPending && answer.ApprovalID != "" {
		// The model is told here how the request ended, and need not be told by the feed again. If this
		// fails it is, which does no harm.
		_, _ = g.client.Ack(ctx, answer.ApprovalID)
	}
	return notRunResult(answer), nil
}

// letThrough lets a call through: it puts the approved args in place of those that were asked for. It returns a result
// for the model where that cannot be.
func (g *Gate) letThrough(ctx agent.Context, name string, args map[string]any, answer client.Answer) map[string]any {
	g.runs.dropUsed(ctx, answer.ApprovalID)
	if answer.Kind != client.AnswerApproved {
		return nil
	}
	if err := useApprovedArgs(args, answer); err != nil {
		return noAnswerResult(err)
	}
	if answer.Replaces != "" {
		g.runs.note(ctx, editNote(name, answer), g.now())
	}
	return nil
}

// ask brings the answer to one call: what AfterModel prepared for exactly this call, or else the gate's.
func (g *Gate) ask(ctx agent.Context, name string, args map[string]any) (client.Answer, error) {
	call, err := g.call(ctx, name, args)
	if err != nil {
		return client.Answer{}, err
	}
	call.Rationale = g.runs.words(ctx)
	p, ok := g.runs.take(ctx, call, g.now())
	if !ok {
		return g.client.CallWait(ctx, call, g.wait)
	}
	if p.answer.Kind != client.AnswerPending || g.wait == 0 {
		return p.answer, nil
	}
	later, err := g.client.WaitFor(ctx, call, p.answer.ApprovalID, g.wait-g.now().Sub(p.at))
	if err == nil && later.Kind == client.AnswerPending && later.ApprovalID == p.answer.ApprovalID {
		return p.answer, nil // it says what this call began, and not only that something is pending
	}
	return later, err
}

// call is what the gate is asked: the same bytes for the same args, whatever order the map has.
func (g *Gate) call(ctx agent.Context, name string, args map[string]any) (client.Call, error) {
	b, err := encodeArgs(args)
	if err != nil {
		return client.Call{}, err
	}
	return client.Call{Tool: name, Server: g.server, Args: b, Scope: g.scope(ctx), TurnID: ctx.InvocationID(),
		SessionID: ctx.SessionID(), AcceptsEdits: true, Waits: g.wait > 0}, nil
}

func encodeArgs(args map[string]any) ([]byte, error) {
	if args == nil {
		args = map[string]any{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people are shown these bytes
	if err := e.Encode(args); err != nil {
		return nil, fmt.Errorf("the args are not JSON: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// useApprovedArgs puts the arguments that people were shown into args, with which the tool is about to run: what the
// rule ignores may be other than when they were asked.
func useApprovedArgs(args map[string]any, a client.Answer) error {
	was, err := reencodeArgs(a.Args)
	if err != nil {
		return errors.New("its answer has no approved args, so it may be an older version; the approval may be used up")
	}
	is, err := encodeArgs(args)
	if err == nil {
		is, err = reencodeArgs(is)
	}
	if err == nil && bytes.Equal(is, was) {
		return nil
	}
	if !exact(a.Args) {
		return errors.New("the approved args have a number that the ADK would round on its way to the tool; the approval " +
			"is used up")
	}
	if args == nil {
		return errors.New("the call has no args, but the approved one has; the approval is used up")
	}
	var stored map[string]any
	if err := json.Unmarshal(a.Args, &stored); err != nil {
		return fmt.Errorf("the approved args cannot be handed on (%w); the approval is used up", err)
	}
	clear(args)
	maps.Copy(args, stored)
	return nil
}

// reencodeArgs writes args as encodeArgs would, but every number as it stands: to compare them, where a float64 would
// make one number of two.
func reencodeArgs(args []byte) ([]byte, error) {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return nil, err
	}
	if members == nil {
		return nil, errors.New("these are no args")
	}
	return encodeArgs(members)
}

// exact reports whether every number in args can be handed on: the ADK has all of them as float64.
func exact(args []byte) bool {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return err == io.EOF
		}
		if n, ok := token.(json.Number); ok && !survives(n.String()) {
			return false
		}
	}
}

// allDigits is at least how many digits the exact value of a float64 has.
const allDigits = 767

// survives reports whether a number is the same once it was a float64: a whole one to the last digit, also where it is
// written as 1.0 or 1e3; of any other the float64 that is written so.
func survives(n string) bool {
	want, err := decimal.Parse(n)
	if err != nil {
		return false
	}
	f, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return false
	}
	digits := -1 // the shortest that are read as f
	if want.IsInteger() {
		digits = allDigits
	}
	got, err := decimal.Parse(strconv.FormatFloat(f, 'e', digits, 64))
	return err == nil && got.Compare(want) == 0
}

// editNote tells the model that a tool ran with other args than it gave, and why.
func editNote(name string, a client.Answer) string {
	return fmt.Sprintf("%s ran with other arguments than you gave. %s", name, a.Note)
}

// notRunResult is the result of a call that did not run.
func notRunResult(a client.Answer) map[string]any {
	r := map[string]any{"status": string(a.Kind), "message": a.Message}
	if a.Kind == client.AnswerPending {
		r["status"] = StatusPending
	}
	if a.EndCode == StatusFrozen { // denied, or cancelled while it waited
		r["status"] = StatusFrozen
	}
	if a.ApprovalID != "" {
		r["approval_id"] = a.ApprovalID
	}
	return r
}

// noAnswerResult is the result of a call about which the gate gave no answer.
func noAnswerResult(err error) map[string]any {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status < 500 {
		return map[string]any{"status": StatusRefused, "code": e.Code,
			"message": fmt.Sprintf("The approval gate refused this call (%v). The call was not run.", err)}
	}
	return map[string]any{"status": StatusUnavailable,
		"message": fmt.Sprintf("The approval gate gave no answer (%v), so the call was not run. Do not look for a way "+
			"around it; try again later.", err)}
}
