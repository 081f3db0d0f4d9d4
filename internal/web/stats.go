package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/approval/redact"
	"countersign/internal/auth"
	"countersign/internal/history"
)

// statsPages are the figures of what was asked, and the rules that would have asked less.
type statsPages struct {
	directory *auth.Directory
	masker    func() *redact.Masker
	nameOf    func(approval.Address) string
	record    *record
}

func (p *statsPages) routes() []route {
	return []route{{method: http.MethodGet, path: "/stats", audience: approvers, handle: p.show, stream: true}}
}

const (
	// readTime is how long a page may read the record; the store's patience holds for each step.
	readTime = time.Minute
	// pieceTime is how long it counts where nobody asked for the whole: what is older has a page of its own.
	pieceTime = 200 * time.Millisecond
	// usualDays is the period where nobody says.
	usualDays = 30
	// maxDays is how long a period may be.
	maxDays = 3660
	// charted is how many rows a chart has; the table has all.
	charted = 10
)

// periods are those to choose from, in days.
var periods = []int{7, 30, 90}

// statsData is what /stats shows.
type statsData struct {
	Periods      []periodShown
	Custom       bool
	Since, Until string // as typed
	Agent        string
	Agents       []string
	Between      string
	Part         string // said where only the newest part of the time was counted
	Before       string // where the part before it is, "" for none
	Whole        string // where all of it is, "" where that is here
	Known        string // said where some of that time was removed
	Busy         bool
	Total        []fact
	Kinds        []kindShown
	Suggested    *suggestData // nil: not for this viewer, or nothing was counted
}

type periodShown struct {
	Value, Text string
	Chosen      bool
}

// kindShown are the figures of all tools, rules, agents or people.
type kindShown struct {
	ID, Title   string
	Ends, Times *chart
	Heads       []string
	Rows        [][]string
}

func (p *statsPages) show(ctx context.Context, x *exchange) error {
	if p.record.history == nil {
		return approval.ErrNotFound
	}
	query := x.r.URL.Query()
	d := statsData{Agent: query.Get("agent"), Agents: agentNames(p.directory), Since: query.Get("since"),
		Until: query.Get("until")}
	if d.Agent != "" && !approval.ValidName(d.Agent) {
		return approval.Errorf(approval.CodeInvalidParameter, "agent must be an agent's name.")
	}
	since, until, err := period(x, query, &d)
	if err != nil {
		return err
	}
	if query.Get("before") != "" {
		if since, until, err = partOf(query); err != nil {
			return err
		}
		d.Whole = statsLink(query, "whole", "true")
	}
	q := history.Query{Since: since, Until: until, Agent: d.Agent, NameOf: p.nameOf}
	if query.Get("whole") != "true" {
		soon, cancel := context.WithTimeout(ctx, p.record.pieceTime)
		defer cancel()
		q.Enough = func() bool { return soon.Err() != nil }
	}
	report, err := p.count(ctx, x, q)
	if err == nil && !report.Next.IsZero() {
		since = report.Since
		d.Part = x.lang.Say("stats_part", "since", x.time(since))
		d.Before = statsLink(query, "from", approval.FormatTime(report.From), "before", approval.FormatTime(report.Next))
		d.Whole = statsLink(query, "whole", "true")
	}
	if known := p.record.kept().StatsSince(p.record.history, since); !known.IsZero() {
		d.Known = x.lang.Say("stats_known", "since", x.time(known))
	}
	d.Between = x.lang.Say("stats_between", "since", x.time(since), "until", x.time(until))
	switch {
	case errors.Is(err, context.DeadlineExceeded) && x.r.Context().Err() == nil:
		d.Busy = true
	case err != nil:
		return err
	case report.Total.Quarantined() > 0:
		d.Total = totals(x, report.Total)
		d.Kinds = []kindShown{kindOf(x, "tool", report.ByTool), kindOf(x, "rule", report.ByRule),
			kindOf(x, "agent", report.ByAgent), kindOf(x, "person", report.ByPerson)}
		if d.Suggested, err = p.suggest(ctx, x, q); err != nil {
			return err
		}
	}
	return x.Page("stats", "stats_title", d)
}

// partOf reads which part of a period a link of the page is to.
func partOf(query url.Values) (since, until time.Time, err error) {
	since, sinceErr := time.Parse(time.RFC3339, query.Get("from"))
	until, untilErr := time.Parse(time.RFC3339, query.Get("before"))
	if sinceErr != nil || untilErr != nil || !since.Before(until) || until.Sub(since) > maxDays*24*time.Hour {
		return since, until, approval.Errorf(approval.CodeInvalidParameter,
			"from and before must be times such as 2006-01-02T15:04:05Z, in this order.")
	}
	return since, until, nil
}

// statsLink is the page of the same period and agent, with more said of it.
func statsLink(query url.Values, more ...string) string {
	to := url.Values{}
	for _, name := range []string{"days", "since", "until", "agent"} {
		if v := query.Get(name); v != "" {
			to.Set(name, v)
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		to.Set(more[i], more[i+1])
	}
	return "/stats?" + to.Encode()
}

// count counts within a time, in steps that take their turns as every other reading of the viewer's.
func (p *statsPages) count(ctx context.Context, x *exchange, q history.Query) (history.Report, error) {
	ctx, done := p.record.begin(ctx)
	defer done()
	q.Step = p.record.steps(x)
	return history.Stats(ctx, p.record.history, q)
}

// record is what was asked and what came of it, with how long it is read.
type record struct {
	history   history.Reader // nil: there is none
	kept      func() history.Kept
	patience  time.Duration // with each step
	pieceTime time.Duration // [pieceTime], but in tests
	stopping  context.Context
}

// sayKnown says from when on all calls are there with their args, "" where that is so since a time.
func (r *record) sayKnown(x *exchange, since time.Time) string {
	known := r.kept().CallsSince(r.history, since)
	if known.IsZero() {
		return ""
	}
	return x.lang.Say("stats_calls_known", "since", x.time(known))
}

// begin bounds a reading, which ends with the server too.
func (r *record) begin(ctx context.Context) (reading context.Context, done func()) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	stop := context.AfterFunc(r.stopping, cancel)
	return ctx, func() { stop(); cancel() }
}

// steps has each step of a long reading take its turn.
func (r *record) steps(x *exchange) func(context.Context, history.Do) error {
	account := x.account()
	return func(ctx context.Context, do history.Do) error {
		if err := account.AwaitRead(ctx); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, r.patience)
		defer cancel()
		turn, err := account.Turn(ctx)
		if err != nil {
			return err
		}
		defer turn()
		return do(ctx)
	}
}

// period reads which time is meant: so many days, or whole days of the viewer's zone, the last one included.
func period(x *exchange, query url.Values, d *statsData) (since, until time.Time, err error) {
	chosen := cmp.Or(query.Get("days"), strconv.Itoa(usualDays))
	for _, n := range periods {
		text := strconv.Itoa(n)
		d.Periods = append(d.Periods, periodShown{text, x.lang.Count("stats_days", n), text == chosen})
		if text == chosen {
			until = x.now
			since = until.AddDate(0, 0, -n)
		}
	}
	d.Custom = chosen == "custom"
	d.Periods = append(d.Periods, periodShown{"custom", x.lang.Say("stats_custom"), d.Custom})
	switch {
	case d.Custom:
		return x.typedDays(d.Since, d.Until)
	case until.IsZero():
		return since, until, approval.Errorf(approval.CodeInvalidParameter, "days must be 7, 30, 90 or custom.")
	}
	return since, until, nil
}

// typedDays is from the beginning of a day to the end of another.
func (x *exchange) typedDays(first, last string) (since, until time.Time, err error) {
	if since, err = x.typedDay(first); err != nil {
		return since, until, err
	}
	if until, err = x.typedDay(last); err != nil {
		return since, until, err
	}
	until = until.AddDate(0, 0, 1)
	if !since.Before(until) || until.Sub(since) > maxDays*24*time.Hour {
		return since, until, approval.Errorf(approval.CodeInvalidParameter,
			"The first day must not be after the last, and not more than ten years before it.")
	}
	return since, until, nil
}

// typedDay is the beginning of a day in the viewer's zone.
func (x *exchange) typedDay(text string) (time.Time, error) {
	zone := x.viewer.Zone
	if zone == nil {
		zone = time.UTC
	}
	t, err := time.ParseInLocation(time.DateOnly, text, zone)
	if err != nil {
		return t, approval.Errorf(approval.CodeInvalidParameter, "Write a day like 2026-12-01.")
	}
	return t, nil
}

// figureHeads are the columns of figures, beside the name.
var figureHeads = []string{"asked", "approved", "denied", "expired", "pending", "granted", "pushes", "half", "most"}

// figureCells are those of one row.
func figureCells(x *exchange, f history.Figures) []string {
	took := func(d time.Duration) string {
		if f.P90 == 0 {
			return "–"
		}
		return x.lang.Duration(d)
	}
	return []string{strconv.Itoa(f.Asked), strconv.Itoa(f.Approved), strconv.Itoa(f.Denied), strconv.Itoa(f.Expired),
		strconv.Itoa(f.Pending), strconv.Itoa(f.Granted), strconv.FormatFloat(f.Per100(f.Pushes), 'f', -1, 64),
		took(f.P50), took(f.P90)}
}

func totals(x *exchange, f history.Figures) []fact {
	var facts []fact
	for i, cell := range figureCells(x, f) {
		facts = append(facts, fact{x.lang.Say("stats_" + figureHeads[i]), cell})
	}
	return facts
}

func kindOf(x *exchange, name string, all []history.Named) kindShown {
	k := kindShown{ID: name, Title: x.lang.Say("stats_by_" + name), Heads: []string{x.lang.Say("stats_name")}}
	for _, h := range figureHeads {
		k.Heads = append(k.Heads, x.lang.Say("stats_"+h))
	}
	names := make([]string, len(all))
	for i, n := range all {
		switch {
		case n.Name == history.Others:
			names[i] = x.lang.Say("stats_others")
		case n.Name == "":
			names[i] = x.lang.Say("stats_no_rule")
		default:
			names[i] = word(n.Name)
			if name == "rule" {
				names[i] = word(x.lang.Rule(n.Name))
			}
		}
		k.Rows = append(k.Rows, append([]string{names[i]}, figureCells(x, n.Figures)...))
	}
	if len(all) > 0 {
		k.Ends, k.Times = endsChart(x, name, names, all), timesChart(x, name, names, all)
	}
	return k
}

// A chart is drawn on the server: a row of bars for each name, with the name above. Colours come from the style sheet;
// all that a chart says is in the table too.
type chart struct {
	ID, Title, About string
	Width, Height    int
	Keys             []chartKey
	Bars             []bar
	Labels           []label
}

type chartKey struct{ Class, Text string }

type bar struct {
	X, Y, Width, Height int
	Class               string
}

type label struct {
	X, Y int
	Text string
}

const (
	chartWidth = 340 // of the picture, in its own units
	barWidth   = 280 // of the longest bar
	barHeight  = 12
	rowHeight  = 40
	nameLength = 38 // characters that fit above a bar
)

func endsChart(x *exchange, kind string, names []string, all []history.Named) *chart {
	c := &chart{ID: kind + "-ends", Title: x.lang.Say("stats_ends"), About: x.lang.Say("stats_ends_about"),
		Width: chartWidth}
	for _, key := range []string{"approved", "denied", "expired"} {
		c.Keys = append(c.Keys, chartKey{"bar-" + key, x.lang.Say("stats_" + key)})
	}
	longest := 1
	for _, n := range all[:min(len(all), charted)] {
		longest = max(longest, n.Approved+n.Denied+n.Expired)
	}
	for i, n := range all[:min(len(all), charted)] {
		at, y := 0, c.row(names[i], i)
		for j, count := range []int{n.Approved, n.Denied, n.Expired} {
			width := count * barWidth / longest
			c.Bars = append(c.Bars, bar{at, y, width, barHeight, c.Keys[j].Class})
			at += width
		}
		c.Labels = append(c.Labels, label{at + 6, y + barHeight - 1, strconv.Itoa(n.Approved + n.Denied + n.Expired)})
	}
	return c
}

// row adds a row with its name and returns where its bars are.
func (c *chart) row(name string, i int) (y int) {
	top := i * rowHeight
	c.Height = top + rowHeight
	c.Labels = append(c.Labels, label{0, top + 14, legible.Cut(name, nameLength)})
	return top + 20
}

func timesChart(x *exchange, kind string, names []string, all []history.Named) *chart {
	c := &chart{ID: kind + "-times", Title: x.lang.Say("stats_times"), About: x.lang.Say("stats_times_about"),
		Width: chartWidth, Keys: []chartKey{{"bar-half", x.lang.Say("stats_half")}, {"bar-most", x.lang.Say("stats_most")}}}
	var longest time.Duration
	for _, n := range all[:min(len(all), charted)] {
		longest = max(longest, n.P90)
	}
	if longest == 0 {
		return nil // nothing was decided
	}
	const ofTime = 200 // leaves room for the time in words
	for i, n := range all[:min(len(all), charted)] {
		y := c.row(names[i], i)
		for j, d := range []time.Duration{n.P50, n.P90} {
			width := int(float64(d) / float64(longest) * ofTime)
			c.Bars = append(c.Bars, bar{0, y + j*barHeight/2, width, barHeight / 2, c.Keys[j].Class})
			if j == 1 && d > 0 {
				c.Labels = append(c.Labels, label{width + 6, y + barHeight - 1, x.lang.Duration(d)})
			}
		}
	}
	return c
}
