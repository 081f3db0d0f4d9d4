package rest

import (
	"context"
	"net/http"
	"time"

	"countersign/approval"
	"countersign/internal/history"
)

// readsHistory refuses people who neither decide nor administer.
func (x *exchange) readsHistory() error {
	if !x.who.Approver && !x.who.Admin {
		return approval.Errorf(approval.CodeNotAnApprover, "Only approvers and admins may do this.")
	}
	return nil
}

func (s *Server) policy(ctx context.Context, x *exchange) error {
	if err := x.readsHistory(); err != nil {
		return err
	}
	digest, text, err := s.gate.PolicyText(ctx, x.r.PathValue("digest"))
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, policyText{Digest: digest, Text: text})
}

const (
	// statsSince is how far back statistics go where nobody says.
	statsSince = 30 * 24 * time.Hour
	// statsTime is how long they may take in all, where all of it is asked for; the store's patience holds for each step.
	statsTime = 2 * time.Minute
)

func (s *Server) stats(ctx context.Context, x *exchange) error {
	if err := x.readsHistory(); err != nil {
		return err
	}
	f := fields{query: x.query}
	q := history.Query{Since: f.time("since"), Until: f.time("until"), Agent: f.agent(), NameOf: s.nameOf,
		Step: func(ctx context.Context, do history.Do) error { return s.historyStep(ctx, x, do) }}
	whole := f.yes("whole")
	if f.err != nil {
		return f.err
	}
	now := s.history.ToWall(s.history.Now())
	if q.Until.IsZero() {
		q.Until = now
	}
	if q.Since.IsZero() {
		q.Since = q.Until.Add(-statsSince)
	}
	if s.stopping.Err() != nil {
		return errStopping
	}
	x.hold(statsTime)
	ctx, cancel := context.WithTimeoutCause(ctx, statsTime, errSlowStore)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	if !whole {
		soon, cancel := context.WithTimeout(ctx, s.look.time)
		defer cancel()
		q.Enough = func() bool { return soon.Err() != nil }
	}
	report, err := history.Stats(ctx, s.history, q)
	if err != nil && s.stopping.Err() != nil {
		return errStopping
	}
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, wireStats(report))
}

// historyStep is one step of a reading that may be long: it takes its turn as every other reading.
func (s *Server) historyStep(ctx context.Context, x *exchange, do history.Do) error {
	if err := x.account.AwaitRead(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience, errSlowStore)
	defer cancel()
	turn, err := x.account.Turn(ctx)
	if err != nil {
		return err
	}
	defer turn()
	return do(ctx)
}

// policyText is a policy that was in force; the document calls it Policy.
type policyText struct {
	Digest string   `json:"digest" description:"The policy's digest, which is the policy_digest of what it judged." pattern:"^[0-9a-f]{64}$"`
	Text   string   `json:"text" description:"As it was written and as it was understood, without secrets."`
	_      struct{} `additionalProperties:"false" description:"A policy that was in force."`
}

// statsAnswer is how often people were asked; the document calls it Stats.
type statsAnswer struct {
	Since    string    `json:"since" format:"date-time" description:"At or after. If next is not null, this is later than the since that was asked for: only the newest part was counted."`
	Until    string    `json:"until" format:"date-time" description:"Before."`
	Next     optional  `json:"next" format:"date-time" description:"The until of the part before this one; null if all of the time was counted."`
	From     string    `json:"window_since,omitempty" format:"date-time" description:"The since of the part before this one: when the time that was asked for begins. Absent if next is null."`
	Total    figures   `json:"total"`
	ByTool   []figures `json:"by_tool" nullable:"false"`
	ByRule   []figures `json:"by_rule" nullable:"false" description:"By name; empty: no rule matched. A rule without a name is called by its place and the start of its digest, as rule 3 (9f2c1a)."`
	ByAgent  []figures `json:"by_agent" nullable:"false"`
	ByPerson []figures `json:"by_person" nullable:"false" description:"asked: how many requests they decided; pushes: what went to their addresses."`
	_        struct{}  `additionalProperties:"false" description:"How often people were asked. Of each kind at most 200, the most asked first; the rest is (others)."`
}

// figures count what became of calls that needed a person; the document calls it Figures.
type figures struct {
	Name            string   `json:"name" description:"Empty for the total."`
	Asked           int      `json:"asked" description:"Requests that were made."`
	Approved        int      `json:"approved"`
	Denied          int      `json:"denied"`
	Expired         int      `json:"expired"`
	Cancelled       int      `json:"cancelled"`
	Pending         int      `json:"pending"`
	Granted         int      `json:"granted" description:"Calls that a grant let through: nobody was asked."`
	Quarantined     int      `json:"quarantined" description:"Calls that needed a person: asked and granted."`
	Pushes          int      `json:"pushes" description:"Cards and reminders that went out, each to one address."`
	PushesPer100    float64  `json:"pushes_per_100" description:"Per 100 calls that needed a person."`
	Decisions       int      `json:"decisions" description:"Presses. One that decides a whole card counts once; each vote counts once."`
	DecisionsPer100 float64  `json:"decisions_per_100" description:"Per 100 calls that needed a person."`
	DecideP50       int64    `json:"decide_p50_ms" description:"The median time to a decision in milliseconds, to three digits."`
	DecideP90       int64    `json:"decide_p90_ms" description:"Nine of ten decisions took at most so many milliseconds."`
	_               struct{} `additionalProperties:"false" description:"What became of calls that needed a person."`
}

func wireFigures(n history.Named) figures {
	return figures{
		Name: n.Name, Asked: n.Asked, Approved: n.Approved, Denied: n.Denied, Expired: n.Expired, Cancelled: n.Cancelled,
		Pending: n.Pending, Granted: n.Granted, Quarantined: n.Quarantined(),
		Pushes: n.Pushes, PushesPer100: n.Per100(n.Pushes), Decisions: n.Decisions, DecisionsPer100: n.Per100(n.Decisions),
		DecideP50: n.P50.Milliseconds(), DecideP90: n.P90.Milliseconds(),
	}
}

func wireStats(r history.Report) statsAnswer {
	if r.Next.IsZero() {
		r.From = time.Time{}
	}
	return statsAnswer{
		Since: approval.FormatTime(r.Since), Until: approval.FormatTime(r.Until),
		Next: optional(approval.FormatTime(r.Next)), From: approval.FormatTime(r.From),
		Total:  wireFigures(history.Named{Figures: r.Total}),
		ByTool: wire(r.ByTool, wireFigures), ByRule: wire(r.ByRule, wireFigures), ByAgent: wire(r.ByAgent, wireFigures),
		ByPerson: wire(r.ByPerson, wireFigures),
	}
}
