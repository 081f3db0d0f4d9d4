package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/internal/auth"
	"countersign/internal/lists"
)

// inboxPages are the list of what waits, and what is decided in it.
type inboxPages struct {
	gate      *approval.Gate
	directory *auth.Directory
}

func (p *inboxPages) routes() []route {
	return []route{
		{method: http.MethodGet, path: "/{$}", audience: people, handle: p.show},
		{method: http.MethodPost, path: "/decide", audience: people, handle: p.decideMany},
		{method: http.MethodPost, path: "/stay", audience: everyone, handle: stay},
	}
}

// stay answers the button that Enter presses in a form that does something: the browser stays where it is, with all
// that is typed. Which request is decided, and how, is never the order of a form's buttons.
func stay(_ context.Context, x *exchange) error {
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// othersShown is how many requests that others decide stand below those that wait for the viewer.
const othersShown = 20

// inboxData is what the inbox shows.
type inboxData struct {
	Filter   inboxFilter
	Agents   []string // to choose from
	Risks    []choice
	Sections []inboxSection
	Total    int // how many wait in all
	Back     string
}

// LiveAt has the script keep the page current.
func (d inboxData) LiveAt() string { return d.Back }

// inboxFilter is what the address says.
type inboxFilter struct {
	Query, Risk, Agent, Tool string
	Whose                    lists.Whose
	Set                      bool // anything is
}

// choice is one entry of a menu.
type choice struct {
	Value, Text string
	Chosen      bool
}

// inboxSection is a part of the list under a heading.
type inboxSection struct {
	ID, Title string
	Groups    []inboxGroup
	Next      string // address of what follows, "" where nothing does
	More      string // what the link to it says
}

// inboxGroup is what one agent waits for in one run. What the agent calls the run is told as its word, and is no
// heading: it could be a sentence that the gate never said.
type inboxGroup struct {
	Agent, Run string
	Cards      []inboxCard
}

// inboxCard is one request in the list.
type inboxCard struct {
	ID, Short         string
	Risk              RiskMark
	Summary           string // what will happen
	Sentence, Why     string // all that an approval covers; why a person is asked
	Warnings, Notices []string
	Deadline, Asked   time.Time
	Progress          string // "1 of 2", "" where one is enough
	Mine              bool
	Pick              string // names the request and its version in a form
	Left              string // why it is approved on its own page alone, "" where the list does
}

// show answers with what waits.
func (p *inboxPages) show(ctx context.Context, x *exchange) error {
	query := x.r.URL.Query()
	f, err := readFilter(query)
	if err != nil {
		return err
	}
	after := query.Get("after")
	if _, ok := approval.ParseID(after); after != "" && !ok {
		return approval.Errorf(approval.CodeInvalidParameter, "after must be the id of a request.")
	}
	d := inboxData{Filter: f, Agents: agentNames(p.directory), Risks: risksOf(x, f.Risk), Back: x.r.URL.RequestURI()}
	look := func(whose lists.Whose, limit int) error {
		w, err := lists.FindWaiting(ctx, p.gate, x.viewer.Actor, lists.WaitingQuery{Agent: f.Agent, Tool: f.Tool,
			Risk: approval.Risk(f.Risk), Text: f.Query, Whose: whose, After: after, Limit: limit})
		if err != nil {
			return err
		}
		d.Total = w.Total
		d.add(x, whose, &w)
		return nil
	}
	switch {
	case f.Whose != lists.WhoseAny:
		err = look(f.Whose, lists.MostWaiting)
	case !x.viewer.MayDecide():
		err = look(lists.WhoseOthers, lists.MostWaiting)
	default:
		if err = look(lists.WhoseMine, lists.MostWaiting); err == nil && after == "" {
			err = look(lists.WhoseOthers, othersShown)
		}
	}
	if err != nil {
		return err
	}
	return x.Page("inbox", "frame_inbox", d)
}

func readFilter(query url.Values) (inboxFilter, error) {
	f := inboxFilter{Query: query.Get("q"), Risk: query.Get("risk"), Agent: query.Get("agent"), Tool: query.Get("tool"),
		Whose: lists.Whose(query.Get("mine"))}
	f.Set = f.Query != "" || f.Risk != "" || f.Agent != "" || f.Tool != "" || f.Whose != ""
	switch {
	case len(f.Query) > maxWord || len(f.Tool) > 2*maxWord:
		return f, approval.Errorf(approval.CodeInvalidParameter, "The search text is too long.")
	case f.Agent != "" && !approval.ValidName(f.Agent):
		return f, approval.Errorf(approval.CodeInvalidParameter, "agent must be an agent's name.")
	case f.Risk != "" && !slices.Contains(allRisks, approval.Risk(f.Risk)):
		return f, approval.Errorf(approval.CodeInvalidParameter, "risk must be low, medium, high or critical.")
	case !slices.Contains([]lists.Whose{"", lists.WhoseMine, lists.WhoseOthers}, f.Whose):
		return f, approval.Errorf(approval.CodeInvalidParameter, "mine must be mine or others.")
	}
	return f, nil
}

var allRisks = []approval.Risk{approval.RiskLow, approval.RiskMedium, approval.RiskHigh, approval.RiskCritical}

func risksOf(x *exchange, chosen string) (all []choice) {
	for _, r := range allRisks {
		all = append(all, choice{string(r), x.lang.Say("risk_" + string(r)), string(r) == chosen})
	}
	return all
}

// add puts one look into the page.
func (d *inboxData) add(x *exchange, whose lists.Whose, w *lists.Waiting) {
	sec := inboxSection{ID: string(whose), Title: x.lang.Say("inbox_" + string(whose)), More: x.lang.Say("inbox_more")}
	m := x.maker()
	places := map[[2]string]int{}
	for i := range w.Rows {
		row := &w.Rows[i]
		run, said := row.SessionID, "inbox_session"
		if run == "" {
			run, said = row.Scope, "inbox_scope"
		}
		key := [2]string{row.Agent, run}
		at, known := places[key]
		if !known {
			at = len(sec.Groups)
			places[key] = at
			g := inboxGroup{Agent: legible.Line(row.Agent)}
			if run != "" {
				g.Run = x.lang.Say(said, "said", m.AgentWord(run))
			}
			sec.Groups = append(sec.Groups, g)
		}
		sec.Groups[at].Cards = append(sec.Groups[at].Cards, inboxCardOf(x, m, row))
	}
	if w.Next != "" {
		query := x.r.URL.Query()
		query.Set("after", w.Next)
		query.Set("mine", string(whose))
		sec.Next = "/?" + query.Encode()
	}
	if len(sec.Groups) > 0 || sec.Next != "" || whose == lists.WhoseMine {
		d.Sections = append(d.Sections, sec)
	}
}

func inboxCardOf(x *exchange, m channels.Maker, row *lists.WaitingRow) inboxCard {
	r := row.Request
	c := inboxCard{ID: r.ID, Short: approval.Short(r.ID), Summary: m.Summary(r),
		Risk: x.risk(r.Risk), Deadline: r.ExpiresAt, Asked: r.RequestedAt, Mine: row.Mine}
	whole := false
	if row.Wide {
		c.Sentence = x.lang.Say("inbox_wide", "agent", legible.Line(r.Agent), "tool", word(r.Target()))
	} else {
		c.Sentence, whole = m.Sentence(r)
		i := m.Whole(r, x.now)
		c.Why = i.Why
		for _, n := range i.Notices {
			if n.First {
				c.Warnings = append(c.Warnings, n.Text)
			} else {
				c.Notices = append(c.Notices, n.Text)
			}
		}
	}
	if n := row.Standing; n.Needed > 1 {
		c.Progress = x.lang.Say("inbox_votes", "have", strconv.Itoa(n.Total), "needed", strconv.Itoa(n.Needed))
	}
	if row.Mine {
		c.Left = leftOut(&r, whole)
		if !row.Wide {
			c.Pick = r.ID + "." + r.Version()
		}
	}
	return c
}

// leftOut is the id of the sentence that says why a request is approved on its own page alone, and not in a list; ""
// where it may be. whole: the list showed all that an approval covers.
func leftOut(r *approval.Request, whole bool) string {
	switch {
	case r.Risk == approval.RiskCritical:
		return "inbox_left_critical"
	case r.Need != nil && r.Need.StepUp:
		return "inbox_left_step_up"
	case r.Need != nil && r.Need.Confirm:
		return "inbox_left_confirm"
	case !whole:
		return "inbox_left_long"
	}
	return ""
}
