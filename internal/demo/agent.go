package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/emulator"
)

// task is one thing the agent wants to get done.
type task struct {
	say       string // what it thinks
	rationale string // what it tells the approver
	tool      string
	args      map[string]any
	instead   *task // what it does when people say no
	then      *task // what it does once this is done
}

// agent is a tool-using agent with a script for a mind.
type agent struct {
	gate    *client.Client
	shop    *workshop
	tell    func(emulator.Entry) // what it thinks, asks, is told and does
	pace    time.Duration
	session string

	met     bool // somebody has decided once: from then on it goes on while other things wait
	turns   int
	waiting map[string]*task // by request id
	todo    [][]*task        // the next turns' calls
}

// call is what the agent asks the gate for a task. A file that is written anew comes with what would
// change in it.
func (a *agent) call(t *task) client.Call {
	var args bytes.Buffer
	e := json.NewEncoder(&args)
	e.SetEscapeHTML(false) // the args are shown, too
	if err := e.Encode(t.args); err != nil {
		panic("demo: " + err.Error()) // the script's own strings and numbers
	}
	return client.Call{Tool: t.tool, Args: bytes.TrimSpace(args.Bytes()), SessionID: a.session, Rationale: t.rationale,
		Preview: a.shop.preview(t.tool, t.args), AcceptsEdits: true}
}

// archiveToken is a secret in the agent's hands: people see on the card that there is one, and not what it is.
const archiveToken = "demo-token-that-opens-nothing"

// say tells the page, and whoever reads the output, what happens in this turn; they need no secrets.
func (a *agent) say(kind, word, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), archiveToken, "…")
	a.tell(emulator.Entry{Turn: a.turns, Kind: kind, Word: word, Text: strings.TrimRight(text, "\n")})
}

// plan is one round of work; n makes each round's amounts its own, so that no round's calls are
// another's.
func plan(n int) [][]*task {
	numbers := fmt.Sprintf("archive/numbers-%d.csv", n)
	draft := "drafts/old-report.md"
	if n > 1 {
		draft = fmt.Sprintf("archive/numbers-%d.csv", n-1)
	}
	return [][]*task{
		{{say: "Let me see what there is.", tool: "list_files", args: map[string]any{}},
			{say: "And what we have.", tool: "read_ledger", args: map[string]any{}}},
		{{say: "Acme's invoice is due; I pay it.", rationale: fmt.Sprintf("Invoice %d from Acme is due today.", 1040+n),
			tool: "transfer_credits", args: map[string]any{"from": "treasury", "to": "acme", "amount_cents": 2000 + 100*(n-1)},
			instead: &task{say: "Then I pay what I may without asking.", tool: "transfer_credits",
				args: map[string]any{"from": "treasury", "to": "acme", "amount_cents": 900 + n}}}},
		{{say: "Next month's invoice is larger, so the daily limit must go up.",
			rationale: "Acme announced a larger invoice for next month.", tool: "write_file",
			args: map[string]any{"path": limitsFile, "content": limits(50_000 + 30_000*n)},
			instead: &task{say: "Then the limit stays, and I note that it is too low.", tool: "append_note",
				args: map[string]any{"text": fmt.Sprintf("the daily limit is too low for invoice %d", 1041+n)}}}},
		{{say: "The disk is nearly full; I format it.", tool: "format_disk", args: map[string]any{"disk": "/dev/sda"}}},
		{{say: "I file the numbers with the archive, sorted.", rationale: "The auditors want the numbers in the archive.",
			tool: "run_command",
			args: map[string]any{"command": "sort drafts/numbers.csv > " + numbers,
				"env": map[string]any{"ARCHIVE_TOKEN": archiveToken}},
			instead: &task{say: "Then I leave a note for whoever may.", tool: "append_note",
				args: map[string]any{"text": "please file " + numbers}}}},
		{refunds(n)},
		{{say: "Three things are left before I close. The old draft is in the way.", rationale: "The draft is superseded.",
			tool: "delete_file", args: map[string]any{"path": draft},
			instead: &task{say: "Then I move it to the archive.", tool: "archive_file", args: map[string]any{"path": draft}}},
			{say: "Salaries are due.", rationale: "Salaries of the month, as every month.", tool: "transfer_credits",
				args: map[string]any{"from": "treasury", "to": "payroll", "amount_cents": 12_000 + 100*n}},
			{say: "And the report has to be written.", rationale: "The monthly report, from numbers.csv.", tool: "write_file",
				args: map[string]any{"path": fmt.Sprintf("reports/2026-11-%d.md", n),
					"content": fmt.Sprintf("# Report %d\n\nSeptember: $1200.00\nOctober: $980.00", n)}}},
		{{say: "All done, so I close the month.", rationale: "All invoices of the month are paid.", tool: "close_books",
			args:    map[string]any{"month": fmt.Sprintf("2026-%02d", (n+9)%12+1)},
			instead: &task{say: "Then the month stays open.", tool: "read_ledger", args: map[string]any{}}}},
	}
}

// refunds are those of a round, one after the other: whoever approves the first may have the others pass unasked.
func refunds(n int) *task {
	var first *task
	for i := 2; i >= 0; i-- {
		first = &task{say: "A customer sent something back, so money goes back too.", rationale: "The parcel has arrived.",
			tool: "refund", args: map[string]any{"order": 300 + 10*n + i, "amount_cents": 1200 + 350*i}, then: first,
			instead: &task{say: "Then I note that the customer waits.", tool: "append_note",
				args: map[string]any{"text": fmt.Sprintf("order %d is not refunded", 300+10*n+i)}}}
	}
	return first
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
		a.say("", "", "That was round %d. I start over with new numbers.", n)
		if err := sleep(ctx, 5*a.pace); err != nil {
			return err
		}
	}
	return nil
}

// turn is one turn of the agent: the news first, then the next calls. While something waits for people
// it gives them a moment before it goes on, so that whoever watches sees one thing after the other.
// With nothing else to do, and before anybody has decided anything, it waits for news only: a newcomer
// has as long as it takes to find the first card.
func (a *agent) turn(ctx context.Context) error {
	wait := time.Duration(0)
	idle := len(a.todo) == 0 || !a.met && len(a.waiting) > 0
	switch {
	case idle:
		wait = 30 * time.Second
	case len(a.waiting) > 0:
		wait = min(6*a.pace, 30*time.Second)
	}
	news, err := a.gate.Resolved(ctx, "", wait)
	if err != nil {
		return a.patient(ctx, err)
	}
	if len(news) == 0 && idle {
		return nil
	}
	a.met = a.met || len(news) > 0
	a.turns++
	var ids []string
	var next [][]*task
	for _, n := range news {
		a.say("reads", outcome(n), "%s", n.Message)
		ids = append(ids, n.ID)
		t := a.waiting[n.ID]
		delete(a.waiting, n.ID)
		switch {
		case t == nil:
		case n.Status == "approved" && n.LapsedAt.IsZero(), n.ReplacedBy != "":
			next = append(next, []*task{t}) // the same call again: it passes once, or with what a person made of it
		case n.EndCode == frozen: // it must not be tried again
		case t.instead != nil:
			next = append(next, []*task{t.instead})
		}
	}
	a.todo = slices.Insert(a.todo, 0, next...)
	if len(ids) > 0 {
		if _, err := a.gate.Ack(ctx, ids...); err != nil {
			return a.patient(ctx, err)
		}
	}
	if len(a.todo) == 0 {
		return nil
	}
	if err := a.ask(ctx, a.todo[0]); err != nil {
		return a.patient(ctx, err)
	}
	a.todo = a.todo[1:]
	return sleep(ctx, a.pace)
}

// ask asks the gate about the calls of one turn and runs those that may run.
func (a *agent) ask(ctx context.Context, tasks []*task) error {
	var calls []client.Call
	for _, t := range tasks {
		c := a.call(t)
		a.say("thinks", "", "%s", t.say)
		a.say("asks", "", "%s(%s)", t.tool, c.Args)
		calls = append(calls, c)
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
	stopped := false
	for i, answer := range answers {
		t := tasks[i]
		a.say("is told", string(answer.Kind), "%s", answer.Message)
		switch {
		case answer.MayRun():
			args, err := mergeEdit(t.args, answer.Args)
			if err != nil {
				return err
			}
			result, err := a.shop.run(ctx, t.tool, args)
			if err != nil {
				a.say("does", "failed", "%s: %v", t.tool, err)
				continue
			}
			a.say("does", "done", "%s", result)
			if t.then != nil {
				after = append(after, []*task{t.then})
			}
		case answer.Kind == client.AnswerPending:
			a.waiting[answer.ApprovalID] = t
			if !a.met {
				a.say("", "", "I wait for your first tap. After it I go on with other things while something waits.")
			}
		case answer.EndCode == frozen:
			stopped = true
		case t.instead != nil:
			after = append(after, []*task{t.instead})
		}
	}
	a.todo = slices.Insert(a.todo, min(1, len(a.todo)), after...)
	if stopped {
		a.say("", "", "I am frozen, so I do nothing for a while.")
		return sleep(ctx, 10*a.pace)
	}
	return nil
}

// frozen is the end code of whatever a person has frozen.
const frozen = "frozen"

// mergeEdit are the args to run: those that people approved, which may be others than were asked for.
func mergeEdit(asked map[string]any, approved json.RawMessage) (map[string]any, error) {
	if approved == nil {
		return asked, nil
	}
	var args map[string]any
	d := json.NewDecoder(bytes.NewReader(approved))
	d.UseNumber()
	if err := d.Decode(&args); err != nil {
		return nil, fmt.Errorf("the approved args: %w", err)
	}
	return args, nil
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
	a.say("", "", "The gate does not answer (%v); nothing runs until it does.", err)
	return sleep(ctx, 2*a.pace)
}

// outcome is how a request ended, in a word.
func outcome(a client.Approval) string {
	if a.Status == "approved" && !a.LapsedAt.IsZero() {
		return "lapsed"
	}
	return a.Status
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
