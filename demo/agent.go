package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"countersign/client"
)

// task is one thing the agent wants to get done.
type task struct {
	say       string // what it thinks
	rationale string // what it tells the approver
	tool      string
	args      map[string]any
	instead   *task // what it does when people say no
}

func (t *task) call(session string) client.Call {
	args, err := json.Marshal(t.args)
	if err != nil {
		panic("demo: " + err.Error()) // the script's own strings and numbers
	}
	return client.Call{Tool: t.tool, Args: args, SessionID: session, Rationale: t.rationale}
}

// agent is a tool-using agent with a script for a mind.
type agent struct {
	gate    *client.Client
	shop    *workshop
	say     func(format string, args ...any)
	pace    time.Duration
	session string

	waiting map[string]*task // by request id
	todo    [][]*task        // the next turns' calls
}

// plan is one round of work; n makes each round's amounts its own, so that no round's calls are
// another's.
func plan(n int) [][]*task {
	amount := 2000 + 100*(n-1)
	report := fmt.Sprintf("reports/2026-11-%d.md", n)
	draft := &task{say: "The old draft is in the way; I delete it.", rationale: "The draft from March is superseded by the new report.",
		tool: "delete_file", args: map[string]any{"path": "drafts/old-report.md"},
		instead: &task{say: "Then I keep it and move it to the archive.", tool: "archive_file", args: map[string]any{"path": "drafts/old-report.md"}}}
	if n > 1 {
		draft.args = map[string]any{"path": fmt.Sprintf("reports/2026-11-%d.md", n-1)}
		draft.instead.args = draft.args
	}
	return [][]*task{
		{{say: "Let me see what there is.", tool: "list_files", args: map[string]any{}},
			{say: "And what we have.", tool: "read_ledger", args: map[string]any{}}},
		{{say: "Acme's invoice is due; I pay it.", rationale: fmt.Sprintf("Invoice %d from Acme is due today.", 1040+n),
			tool: "transfer_credits", args: map[string]any{"from": "treasury", "to": "acme", "amount_cents": amount},
			instead: &task{say: "Then I pay what I may without asking.", tool: "transfer_credits",
				args: map[string]any{"from": "treasury", "to": "acme", "amount_cents": 900 + n}}}},
		{draft,
			{say: "And I write the new report.", rationale: "The monthly report, from numbers.csv.", tool: "write_file",
				args:    map[string]any{"path": report, "content": fmt.Sprintf("# Report %d\n\nSeptember: $1200.00\nOctober: $980.00\n", n)},
				instead: &task{say: "Then the report stays in my head.", tool: "list_files", args: map[string]any{}}}},
		{{say: "The disk is nearly full; I format it.", tool: "format_disk", args: map[string]any{"disk": "/dev/sda"}}},
		{{say: "All done, so I close the month.", rationale: "All invoices of the month are paid.", tool: "close_books",
			args:    map[string]any{"month": fmt.Sprintf("2026-%02d", (n+9)%12+1)},
			instead: &task{say: "Then the month stays open.", tool: "read_ledger", args: map[string]any{}}}},
	}
}

// work goes through rounds of the plan; rounds 0 is for ever.
func (a *agent) work(ctx context.Context, rounds int) error {
	for n := 1; rounds == 0 || n <= rounds; n++ {
		a.todo = plan(n)
		for len(a.todo) > 0 || len(a.waiting) > 0 {
			if err := a.turn(ctx); err != nil {
				return err
			}
		}
		a.say("That was round %d. I start over with new numbers.", n)
		if err := sleep(ctx, 5*a.pace); err != nil {
			return err
		}
	}
	return nil
}

// turn is one turn of the agent: the news first, then the next calls. Only with nothing else to do
// does it wait for news.
func (a *agent) turn(ctx context.Context) error {
	wait := time.Duration(0)
	if len(a.todo) == 0 {
		wait = 30 * time.Second
	}
	news, err := a.gate.Resolved(ctx, "", wait)
	if err != nil {
		return a.patient(ctx, err)
	}
	var ids []string
	for _, n := range news {
		a.say("%s", n.Message)
		ids = append(ids, n.ID)
		t := a.waiting[n.ID]
		delete(a.waiting, n.ID)
		switch {
		case t == nil:
		case n.Status == "approved" && n.LapsedAt.IsZero():
			a.todo = slices.Insert(a.todo, 0, []*task{t}) // the same call again: it passes once
		case t.instead != nil:
			a.todo = slices.Insert(a.todo, 0, []*task{t.instead})
		}
	}
	if len(ids) > 0 {
		if _, err := a.gate.Ack(ctx, ids...); err != nil {
			return a.patient(ctx, err)
		}
	}
	if len(a.todo) == 0 {
		return nil
	}
	next := a.todo[0]
	if err := a.ask(ctx, next); err != nil {
		return a.patient(ctx, err)
	}
	a.todo = a.todo[1:]
	return sleep(ctx, a.pace)
}

// ask asks the gate about the calls of one turn and runs those that may run.
func (a *agent) ask(ctx context.Context, tasks []*task) error {
	var calls []client.Call
	for _, t := range tasks {
		a.say("“%s”  →  %s(%s)", t.say, t.tool, t.call("").Args)
		calls = append(calls, t.call(a.session))
	}
	var answers []client.Answer
	var err error
	if len(calls) == 1 {
		var answer client.Answer
		answer, err = a.gate.Call(ctx, calls[0])
		answers = []client.Answer{answer}
	} else {
		answers, err = a.gate.CallBatch(ctx, calls)
	}
	if err != nil {
		return err
	}
	var after [][]*task
	for i, answer := range answers {
		t := tasks[i]
		a.say("   %s: %s", answer.Decision, answer.Message)
		switch {
		case answer.MayRun():
			result, err := a.shop.run(t.tool, t.args)
			if err != nil {
				a.say("   it did not work: %v", err)
				continue
			}
			a.say("   done: %s", result)
		case answer.Decision == client.Pending:
			a.waiting[answer.ApprovalID] = t
		case t.instead != nil:
			after = append(after, []*task{t.instead})
		}
	}
	a.todo = slices.Insert(a.todo, min(1, len(a.todo)), after...)
	return nil
}

// patient waits a little after an error: a gate that cannot be reached has allowed nothing, so there
// is nothing to do but ask again.
func (a *agent) patient(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status < 500 && e.Status != 429 {
		return err
	}
	a.say("The gate does not answer (%v); nothing runs until it does.", err)
	return sleep(ctx, 2*a.pace)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
