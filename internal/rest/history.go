package rest

import (
	"context"
	"net/http"
	"time"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/history"
	"countersign/internal/lists"
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
	digest, text, err := lists.FindPolicy(ctx, s.gate, x.r.PathValue("digest"))
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, client.Policy{Digest: digest, Text: text})
}

const (
	// statsSince is how far back statistics go where the caller does not say.
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
		Step: func(ctx context.Context, do history.Do) error { return x.readStep(ctx, s.patience, do) }}
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
	out, kept := wireStats(report), s.kept()
	out.KnownSince = api.At(kept.StatsSince(s.history, report.Since))
	out.CallsKnownSince = api.At(kept.CallsSince(s.history, q.Since))
	return x.answer(http.StatusOK, out)
}

// readStep is one step of a reading that may be long: it takes its turn as every other reading, and the store may take
// its patience for it.
func (x *exchange) readStep(ctx context.Context, patience time.Duration, do history.Do) error {
	if err := x.account.AwaitRead(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSlowStore)
	defer cancel()
	turn, err := x.account.Turn(ctx)
	if err != nil {
		return err
	}
	defer turn()
	return do(ctx)
}

func wireFigures(n history.Named) client.Figures {
	return client.Figures{
		Name: n.Name, Asked: n.Asked, Approved: n.Approved, Denied: n.Denied, Expired: n.Expired, Cancelled: n.Cancelled,
		Pending: n.Pending, Granted: n.Granted, Quarantined: n.Quarantined(),
		Pushes: n.Pushes, PushesPer100: n.Per100(n.Pushes), Decisions: n.Decisions, DecisionsPer100: n.Per100(n.Decisions),
		DecideP50: n.P50.Milliseconds(), DecideP90: n.P90.Milliseconds(),
	}
}

func wireStats(r history.Report) client.Stats {
	if r.Next.IsZero() {
		r.From = time.Time{}
	}
	return client.Stats{
		Since: api.At(r.Since), Until: api.At(r.Until), Next: api.At(r.Next), WindowSince: api.At(r.From),
		Total:  wireFigures(history.Named{Figures: r.Total}),
		ByTool: api.Each(r.ByTool, wireFigures), ByRule: api.Each(r.ByRule, wireFigures),
		ByAgent: api.Each(r.ByAgent, wireFigures), ByPerson: api.Each(r.ByPerson, wireFigures),
	}
}
