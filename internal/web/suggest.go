package web

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/approval/redact"
	"countersign/internal/history"
	"countersign/internal/locale"
)

const (
	// maxLearned is how many requests suggestions are made of at most, maxSuggested how many of them are shown.
	maxLearned   = 10_000
	maxSuggested = 20
)

// suggestData are the rules that would have asked people less often.
type suggestData struct {
	Busy     bool // nothing could be read in time
	Stopped  string
	Known    string // said where some of the time was removed
	Calls    string
	Rules    []suggestionShown
	More     string
	Critical string
}

// suggestionShown is one of them.
type suggestionShown struct {
	ID, Title, Does, Caution, Place, YAML string
	Facts                                 []fact
}

// suggest returns the rules that the record speaks for, nil where they are not for this viewer: they quote what the
// audit log has.
func (p *statsPages) suggest(ctx context.Context, x *exchange, q history.Query) (*suggestData, error) {
	if !x.viewer.belongs(admins) {
		return nil, nil
	}
	ctx, done := p.record.begin(ctx)
	defer done()
	q.Step = p.record.steps(x)
	b := &bounded{reading: ctx, left: maxLearned}
	// What was read until the time was over counts; x.r ends with the viewer.
	found, err := history.Suggest(x.r.Context(), maskAll(p.masker(), b.of(history.AskedCalls(ctx, p.record.history, q))))
	switch {
	case errors.Is(err, context.DeadlineExceeded) && x.r.Context().Err() == nil:
		return &suggestData{Busy: true}, nil
	case err != nil:
		return nil, err
	}
	d := suggestionsOf(x, found, b)
	d.Known = p.record.sayKnown(x, q.Since)
	return d, nil
}

// maskAll are calls without their secrets: a rule is read by many.
func maskAll(m *redact.Masker, calls iter.Seq2[history.Record, error]) iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		for c, err := range calls {
			c.Args, _ = m.Args(c.Args)
			if !yield(c, err) {
				return
			}
		}
	}
}

func suggestionsOf(x *exchange, found history.Suggested, b *bounded) *suggestData {
	d := &suggestData{Busy: b.stopped && b.last.IsZero(), Calls: x.lang.Count("stats_suggest_calls", found.Calls),
		Critical: word(x.lang.List(found.Critical))}
	if b.stopped && !d.Busy {
		d.Stopped = x.lang.Say("stats_suggest_stopped", "time", x.time(b.last))
	}
	more := 0
	for _, r := range found.Suggestions {
		switch {
		case redact.Marked(r.YAML): // what stands in a secret's place matches no call
		case len(d.Rules) == maxSuggested:
			more++
		default:
			d.Rules = append(d.Rules, suggestionOf(x, len(d.Rules)+1, &r))
		}
	}
	if more > 0 {
		d.More = x.lang.Count("policy_replay_more", more)
	}
	return d
}

func suggestionOf(x *exchange, number int, r *history.Suggestion) suggestionShown {
	v := suggestionShown{ID: "suggestion-" + strconv.Itoa(number), Does: suggestionDoes(x, r), YAML: legibleLines(r.YAML),
		Title: strconv.Itoa(number) + ". " + word(strings.TrimSpace(r.Tool+" "+suggestionPart(x, &r.Part))),
		Place: suggestionPlace(x, r.Rules)}
	if r.Risk == approval.RiskHigh {
		v.Caution = x.lang.Say("stats_suggest_caution")
	}
	for _, f := range []fact{{"suggest_fewer", strconv.Itoa(r.Fewer)}, {"asked", strconv.Itoa(r.Asked)},
		{"approved", strconv.Itoa(r.Approved)}, {"denied", strconv.Itoa(r.Denied)}, {"expired", strconv.Itoa(r.Expired)},
		{"suggest_risk", x.lang.Say("risk_" + strings.ToLower(string(r.Risk)))},
		{"agent", word(x.lang.List(r.Agents))}} {
		if f.Text != "" {
			v.Facts = append(v.Facts, fact{x.lang.Say("stats_" + f.Name), f.Text})
		}
	}
	return v
}

// suggestionPart says which of a tool's calls a rule is for, "" for all of them.
func suggestionPart(x *exchange, p *history.Part) string {
	switch {
	case p.Bare:
		return x.lang.Say("stats_suggest_bare")
	case p.Folder != "":
		return x.lang.Say("stats_suggest_under", "arg", p.Arg, "folder", p.Folder+"/")
	case len(p.Values) > 0:
		return x.lang.Say("stats_suggest_values", "arg", p.Arg, "values", x.lang.List(p.Values))
	}
	return ""
}

func suggestionDoes(x *exchange, r *history.Suggestion) string {
	text := x.lang.Say("stats_suggest_" + string(r.Does))
	if len(r.Vary) > 0 {
		text = locale.Sentences(text, x.lang.Say("stats_suggest_vary", "args", word(x.lang.List(r.Vary))))
	}
	return text
}

// suggestionPlace says before which rules it belongs.
func suggestionPlace(x *exchange, rules []string) string {
	var named []string
	for _, r := range rules {
		if r != "" {
			named = append(named, word(x.lang.Rule(r)))
		}
	}
	return x.lang.Say("stats_suggest_place", "rules",
		cmp.Or(x.lang.List(named), x.lang.Say("stats_suggest_place_first")))
}

// legibleLines are lines that are shown to be copied.
func legibleLines(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := range lines {
		lines[i] = legible.Line(lines[i])
	}
	return strings.Join(lines, "\n")
}
