package web

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/history"
	"countersign/internal/locale"
	"countersign/internal/policy"
	"countersign/internal/yamlpos"
)

const (
	// maxReplayed is how many calls one replay judges at most.
	maxReplayed = 10_000
	// maxReplayRows is how many rows a table of a replay has at most, maxProblems how many problems are told.
	maxReplayRows = 200
	maxProblems   = 50
)

// replayData is what /policy shows admins of another policy. What is typed is kept for this answer alone.
type replayData struct {
	Text     string
	Periods  []periodShown
	Problem  string
	Problems []problemShown
	Result   *replayShown
}

type problemShown struct {
	Where, Text string
	Warning     bool
}

type replayShown struct {
	Stopped string // where it stopped early
	Known   string // said where some of the time was removed
	Judged  string
	None    bool // nothing was denied that would run
	Cases   []caseShown
	Groups  []changesShown
	Heads   []string
	Table   [][]string
}

// caseShown is one call that was denied and would run.
type caseShown struct{ Link, At, Call, Agent, Denied, Reason, Now string }

type changesShown struct {
	ID, Title string
	Rows      []changeShown
	More      string
}

type changeShown struct {
	Calls               int
	Tool, Was, Now, Why string
	Links               []string
}

// rewriter is a policy that can be had as a file.
type rewriter interface{ Rewrite() string }

// replayForm is the form as it is first shown, nil where there is none for this viewer.
func (p *policyPages) replayForm(x *exchange) *replayData {
	current, ok := p.gate.Policy().(rewriter)
	if p.record.history == nil || !x.viewer.Admin || !ok {
		return nil
	}
	text, _ := p.masker().Text(current.Rewrite())
	return &replayData{Text: text, Periods: replayPeriods(x, usualDays)}
}

func replayPeriods(x *exchange, chosen int) (all []periodShown) {
	for _, n := range periods {
		all = append(all, periodShown{strconv.Itoa(n), x.lang.Count("stats_days", n), n == chosen})
	}
	return all
}

// replay judges what is on record by the policy that was typed. It keeps and logs nothing of it.
func (p *policyPages) replay(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	if p.record.history == nil {
		return approval.ErrNotFound
	}
	days, err := strconv.Atoi(form.Get("days"))
	d := &replayData{Text: form.Get("policy"), Periods: replayPeriods(x, days)}
	if err != nil || days != 7 && days != 30 && days != 90 {
		d.Problem = x.lang.Say("policy_replay_days")
		return p.showReplay(x, http.StatusBadRequest, d)
	}
	if len(d.Text) > yamlpos.MaxFile {
		d.Text = legible.CutBytes(d.Text, yamlpos.MaxFile, 0)
		d.Problem = x.lang.Say("policy_replay_long")
		return p.showReplay(x, http.StatusBadRequest, d)
	}
	other, problems := policy.Compile(policy.Parse([]byte(d.Text)), policy.Options{Languages: locale.Tags()})
	d.Problems = problemsOf(x, problems)
	if other == nil {
		d.Problem = x.lang.Say("policy_replay_errors")
		return p.showReplay(x, http.StatusBadRequest, d)
	}
	d.Result, err = p.judge(ctx, x, other,
		history.Query{Since: x.now.AddDate(0, 0, -days), Until: x.now, Step: p.record.steps(x)})
	if err != nil {
		return err
	}
	return p.showReplay(x, http.StatusOK, d)
}

func (p *policyPages) showReplay(x *exchange, status int, d *replayData) error {
	return p.showWith(x, status, policyData{Typed: typedCall{Args: "{}"}, Replay: d})
}

func problemsOf(x *exchange, problems []policy.Problem) (all []problemShown) {
	for _, p := range problems[:min(len(problems), maxProblems)] {
		shown := problemShown{Where: word(p.Path), Text: legible.Line(legible.Cut(p.Message, 500)), Warning: p.Warning}
		if p.Line > 0 {
			shown.Where = x.lang.Say("policy_replay_place", "at", strconv.Itoa(p.Line), "column", strconv.Itoa(p.Column))
		}
		all = append(all, shown)
	}
	return all
}

func (p *policyPages) judge(ctx context.Context, x *exchange, other *policy.Policy, q history.Query) (
	*replayShown, error,
) {
	var asked []*approval.Annotations
	for _, r := range other.Rules() {
		asked = append(asked, r.Annotations)
	}
	reading, done := p.record.begin(ctx)
	defer done()
	b := &bounded{reading: reading, left: maxReplayed}
	found, err := history.Replay(ctx, other, history.Hints(asked...), b.of(history.Calls(reading, p.record.history, q)))
	if err != nil {
		return nil, err
	}
	d := replayOf(x, found, b)
	d.Known = p.record.sayKnown(x, q.Since)
	return d, nil
}

// bounded ends a reading at so many calls, or when its time is over.
type bounded struct {
	reading context.Context
	left    int
	stopped bool
	last    time.Time // of the last call that was judged
}

func (b *bounded) of(calls iter.Seq2[history.Record, error]) iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		for c, err := range calls {
			late := errors.Is(b.reading.Err(), context.DeadlineExceeded)
			if b.stopped = late || err == nil && b.left == 0; b.stopped {
				return
			}
			if !yield(c, err) || err != nil {
				return
			}
			b.left, b.last = b.left-1, c.At
		}
	}
}

func replayOf(x *exchange, found history.Replayed, b *bounded) *replayShown {
	d := &replayShown{Judged: x.lang.Count("policy_replay_judged", found.Calls),
		None: len(found.Denied)+len(found.Refused) == 0}
	switch {
	case b.stopped && b.last.IsZero():
		d.Stopped = x.lang.Say("policy_replay_slow")
	case b.stopped:
		d.Stopped = x.lang.Say("policy_replay_stopped", "time", x.time(b.last))
	}
	for _, c := range append(found.Denied, found.Refused...) {
		if len(d.Cases) < maxReplayRows {
			d.Cases = append(d.Cases, caseOf(x, c))
		}
	}
	var asked, other []history.Count
	for _, c := range found.Changes {
		switch {
		case c.Now == history.NowAllow && (c.Was == history.WasDenied || c.Was == history.WasRefused): // told one by one
		case c.Was == history.WasAllowed || c.Was == history.WasRefused:
			other = append(other, c)
		default:
			asked = append(asked, c)
		}
	}
	for _, g := range []struct {
		id   string
		rows []history.Count
	}{{"asked", asked}, {"other", other}, {"unknown", found.Unknown}} {
		if len(g.rows) > 0 {
			d.Groups = append(d.Groups, changesOf(x, g.id, g.rows))
		}
	}
	if more := len(found.Denied) + len(found.Refused) - len(d.Cases); more > 0 {
		d.Judged = locale.Sentences(d.Judged, x.lang.Count("policy_replay_more", more))
	}
	d.Heads, d.Table = replayTable(x, found)
	return d
}

func caseOf(x *exchange, c history.Case) caseShown {
	reason, _ := x.masker().Text(c.Reason)
	shown := caseShown{At: x.time(c.At), Call: word(c.Target()), Agent: word(c.Agent), Reason: word(reason),
		Denied: x.lang.Say("policy_replay_by_person", "name", word(c.By)), Now: ruleName(x, c.NowRule)}
	if c.Was == history.WasRefused {
		shown.Denied = x.lang.Say("policy_replay_by_rule", "name", ruleName(x, c.Rule))
		return shown
	}
	shown.Link = requestLink(c.ID)
	return shown
}

func ruleName(x *exchange, name string) string {
	if name == "" {
		return x.lang.Say("policy_no_rule")
	}
	return word(x.lang.Rule(name))
}

func requestLink(id string) string { return "/r/" + id }

func changesOf(x *exchange, id string, rows []history.Count) changesShown {
	g := changesShown{ID: "replay-" + id, Title: x.lang.Say("policy_replay_" + id)}
	for _, c := range rows[:min(len(rows), maxReplayRows)] {
		row := changeShown{Calls: c.Calls, Tool: word(c.Tool), Was: x.lang.Say("policy_was_" + string(c.Was)),
			Now: x.lang.Say("policy_now_" + string(c.Now))}
		if c.Tool == history.Others {
			row.Tool = x.lang.Say("stats_others")
		}
		if c.Now != history.NowUnknown {
			row.Why = ruleName(x, c.Rule)
		}
		if isRequest(c.Was) {
			row.Links = c.IDs
		}
		g.Rows = append(g.Rows, row)
	}
	if more := len(rows) - len(g.Rows); more > 0 {
		g.More = x.lang.Count("policy_replay_more", more)
	}
	return g
}

// isRequest reports whether such a call is a request: of the others the audit log tells.
func isRequest(was history.Was) bool {
	return was != history.WasAllowed && was != history.WasRefused && was != history.WasGranted
}

// replayTable counts all calls, by what became of them and what would have.
func replayTable(x *exchange, found history.Replayed) (heads []string, rows [][]string) {
	nows := []history.Now{history.NowAllow, history.NowAsk, history.NowDeny, history.NowUnknown}
	heads = []string{x.lang.Say("policy_replay_was")}
	for _, now := range nows {
		heads = append(heads, x.lang.Say("policy_now_"+string(now)))
	}
	for _, was := range []history.Was{history.WasDenied, history.WasRefused, history.WasApproved, history.WasExpired,
		history.WasCancelled, history.WasPending, history.WasGranted, history.WasAllowed} {
		if found.Table[was] == nil {
			continue
		}
		row := []string{x.lang.Say("policy_was_" + string(was))}
		for _, now := range nows {
			row = append(row, strconv.Itoa(found.Table[was][now]))
		}
		rows = append(rows, row)
	}
	return heads, rows
}
