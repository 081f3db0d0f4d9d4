package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"countersign/client"
)

// Result is what a decision came to.
type Result int

// The results.
const (
	Done         Result = iota // decided, or voted
	Changed                    // nothing: the request was not as it was shown any more
	NeedsConfirm               // nothing: a rule wants to hear a second yes to [Outcome.Text]
	NeedsReason                // nothing: it has to be said why
	Refused                    // nothing, and [Outcome.Text] says why
	Unreached                  // not known: the gate did not answer
)

// Outcome is what became of a decision.
type Outcome struct {
	Result  Result
	Decided client.Decided  // where it was decided
	Text    string          // the gate's own words, or what went wrong
	Now     client.Approval // as the request stands, where it is known
	Changes []string        // of a request that has changed: what is different
}

// Decide approves or denies a request as it was shown. One that has changed since is not decided.
func (b *Inbox) Decide(ctx context.Context, shown client.Approval, v client.Verdict, reason string,
	opts ...client.DecideOption) Outcome {
	opts = append(slices.Clip(opts), client.Seen(shown.Version))
	d, err := b.gate.Decide(ctx, shown.ID, v, reason, opts...)
	if err == nil {
		b.after(ctx, shown.ID)
		return Outcome{Result: Done, Decided: d}
	}
	return b.explainRefusal(ctx, shown, err)
}

// Extend gives a request one hour more.
func (b *Inbox) Extend(ctx context.Context, shown client.Approval) Outcome {
	a, err := b.gate.Extend(ctx, shown.ID)
	return b.did(ctx, shown, a, err)
}

// Cancel takes a request back.
func (b *Inbox) Cancel(ctx context.Context, shown client.Approval, reason string) Outcome {
	a, err := b.gate.Cancel(ctx, shown.ID, reason)
	return b.did(ctx, shown, a, err)
}

func (b *Inbox) did(ctx context.Context, shown, now client.Approval, err error) Outcome {
	if err != nil {
		return b.explainRefusal(ctx, shown, err)
	}
	b.put(now)
	return Outcome{Result: Done, Now: now}
}

// after brings in what a decision made of the request, before an event tells of it.
func (b *Inbox) after(ctx context.Context, id string) {
	if a, err := b.gate.Approval(ctx, id); err == nil {
		b.put(a)
	}
}

// explainRefusal says why nothing was decided.
func (b *Inbox) explainRefusal(ctx context.Context, shown client.Approval, err error) Outcome {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return Outcome{Result: Unreached, Text: strings.TrimPrefix(err.Error(), "client: ")}
	}
	out := Outcome{Result: Refused, Text: e.Detail}
	if out.Text == "" {
		out.Text = e.Error()
	}
	switch e.Code {
	case "confirm_required":
		out.Result = NeedsConfirm
		return out
	case "reason_required":
		out.Result = NeedsReason
		return out
	case "changed", "already_resolved", "expired", "already_voted", "not_your_stage":
		now, err := b.gate.Approval(ctx, shown.ID)
		if err != nil {
			return out
		}
		b.put(now)
		if out.Now, out.Changes = now, Changes(shown, now); e.Code == "changed" || len(out.Changes) > 0 {
			out.Result = Changed
		}
	}
	return out
}

// Changes says what is different in a request from how it was shown, in the words of people; nil: nothing that counts.
func Changes(shown, now client.Approval) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if shown.Status != now.Status {
		add("%s", ending(now))
	}
	if string(shown.Args) != string(now.Args) {
		add("its arguments are other ones")
	}
	if shown.RiskLevel != now.RiskLevel {
		add("its risk is %s now; it was %s", now.RiskLevel, shown.RiskLevel)
	}
	had, need := client.Progress(shown.Votes, shown.Needs)
	if have, needs := client.Progress(now.Votes, now.Needs); needs != need {
		add("it takes %d approvals now; it took %d", needs, need)
	} else if had > have {
		add("votes do not count any more: %d of %d", have, needs)
	}
	for _, v := range now.Votes {
		if !slices.ContainsFunc(shown.Votes, func(w client.Vote) bool { return w.Person == v.Person && w.Stage == v.Stage }) {
			add("%s %s", v.Voter(), map[client.Verdict]string{client.Approve: "approved", client.Deny: "denied"}[v.Decision])
		}
	}
	if now.Status == "pending" && now.ExpiresAt.After(shown.ExpiresAt.Time) {
		add("it got more time")
	}
	return out
}

// ending says how a request ended.
func ending(a client.Approval) string {
	text := map[string]string{"approved": "it was approved", "denied": "it was denied", "expired": "its time was up",
		"cancelled": "it was taken back"}[a.Status]
	switch {
	case text == "":
		return "it is " + a.Status
	case a.ReplacedBy != "":
		return "other arguments were approved in its place, by " + a.Who()
	case a.ResolvedBy != "" && !strings.HasPrefix(a.ResolvedBy, "system:"):
		text += " by " + a.Who()
	}
	if a.ResolveReason != "" {
		text += ": " + a.ResolveReason
	}
	return text
}
