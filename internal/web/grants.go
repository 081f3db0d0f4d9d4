package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/auth"
	"countersign/internal/lists"
	"countersign/internal/locale"
)

// grantPages are what is decided without asking, and where it ends.
type grantPages struct {
	gate      *approval.Gate
	directory *auth.Directory
}

func (p *grantPages) routes() []route {
	return []route{
		{method: http.MethodGet, path: "/grants", audience: approvers, handle: p.show},
		{method: http.MethodPost, path: "/grants/{id}/revoke", audience: approvers, handle: p.revoke},
		{method: http.MethodPost, path: "/grants/{id}/lift", audience: approvers, handle: p.lift},
		{method: http.MethodPost, path: "/denials/{id}/lift", audience: approvers, handle: p.forget},
	}
}

const (
	// grantsShown is how many grants are on one page.
	grantsShown = 50
	// shownArgs is how many bytes of args a list shows; the request's page has all of them.
	shownArgs = 2000
	// maxWord is how much of a name a sentence quotes.
	maxWord = 200
)

// fact is one line of what is told of something.
type fact struct{ Name, Text string }

// grantsData is what /grants shows.
type grantsData struct {
	Agent  string
	Agents []string // to choose from
	All    bool     // ended ones too
	Grants []grantShown
	Next   string // address of the next page, "" on the last
	Back   string // address of this page
	// Denials are remembered for a while; OlderDenials is the address of those before them, "" where there are none.
	Denials      []denialShown
	OlderDenials string
}

// denialShown is one denial that is remembered.
type denialShown struct {
	ID, Title string
	Mine      bool // the viewer may lift it
	Facts     []fact
	Args      string
}

// grantShown is one grant.
type grantShown struct {
	ID, Title, Request string
	Deny, Ended, Mine  bool // Mine: the viewer may end it
	Suspended          bool
	Facts              []fact
	Args               string // "" where any are covered
}

// show answers with what is decided without asking.
func (p *grantPages) show(ctx context.Context, x *exchange) error {
	query := x.r.URL.Query()
	d := grantsData{Agent: query.Get("agent"), All: query.Get("all") != "", Agents: agentNames(p.directory),
		Back: x.r.URL.RequestURI()}
	if d.Agent != "" && !approval.ValidName(d.Agent) {
		return approval.Errorf(approval.CodeInvalidParameter, "agent must be an agent's name.")
	}
	after := query.Get("after")
	if _, ok := approval.ParseID(after); after != "" && !ok {
		return approval.Errorf(approval.CodeInvalidParameter, "after must be the id of a grant.")
	}
	if err := p.addDenials(ctx, x, query, &d); err != nil {
		return err
	}
	all, err := lists.ListGrants(ctx, p.gate, approval.GrantQuery{Agent: d.Agent, All: d.All, After: after,
		Limit: grantsShown + 1})
	if err != nil {
		return err
	}
	size := 0
	for i := range all[:min(len(all), grantsShown)] {
		size += all[i].Size()
		last, err := p.lastUse(ctx, &all[i])
		if err != nil {
			return err
		}
		d.Grants = append(d.Grants, grantOf(x, &all[i], last))
	}
	if n := len(d.Grants); n > 0 && (len(all) > n || size >= approval.ListBytes) {
		query.Set("after", d.Grants[n-1].ID)
		d.Next = "/grants?" + query.Encode()
	}
	return x.Page("grants", "grants_title", d)
}

// addDenials adds the denials that are remembered for a while.
func (p *grantPages) addDenials(ctx context.Context, x *exchange, query url.Values, d *grantsData) error {
	before, err := strconv.ParseInt(cmp.Or(query.Get("denials"), "0"), 10, 64)
	if err != nil || before < 0 {
		return approval.Errorf(approval.CodeInvalidParameter, "denials must be the number of an event.")
	}
	q := lists.RememberedQuery{Agent: d.Agent, Before: before, Limit: grantsShown}
	found, next, err := lists.FindRemembered(ctx, p.gate, q)
	if err != nil {
		return err
	}
	for i := range found {
		d.Denials = append(d.Denials, denialOf(x, &found[i]))
	}
	if next > 0 {
		older := maps.Clone(query)
		older.Set("denials", strconv.FormatInt(next, 10))
		d.OlderDenials = "/grants?" + older.Encode()
	}
	return nil
}

func denialOf(x *exchange, d *lists.Remembered) denialShown {
	r := &d.Request
	v := denialShown{ID: r.ID, Title: x.maker().Summary(*r), Mine: r.MayLift(x.viewer.Actor),
		Args: legible.Line(x.masker().ArgsLimited(r.Args, shownArgs))}
	reason, _ := x.masker().Text(r.ResolveReason)
	for _, f := range []fact{{"agent", r.Agent}, {"scope", r.Scope}, {"denied_by", r.WhoEnded() + ", " + x.time(d.At)},
		{"reason", reason}, {"until", x.away(d.Until)},
		{"remembered_for", x.lang.Duration(d.Until.Sub(d.At))}} {
		if f.Text != "" {
			v.Facts = append(v.Facts, fact{x.lang.Say("grants_" + f.Name), legible.Line(f.Text)})
		}
	}
	return v
}

// agentNames are the names of the configured agents.
func agentNames(d *auth.Directory) []string {
	var names []string
	for _, a := range d.Agents() {
		names = append(names, a.Name)
	}
	return names
}

// lastUse is when a grant answered a call last, the zero time where it is not on record.
func (p *grantPages) lastUse(ctx context.Context, g *approval.Grant) (time.Time, error) {
	if g.Used == 0 {
		return time.Time{}, nil
	}
	q := approval.EventQuery{Type: approval.EventGrantUsed, ApprovalID: g.RequestID, Limit: 5}
	if g.Deny {
		q.Type = approval.EventCallDenied
	}
	es, err := lists.ListEvents(ctx, p.gate, q)
	for _, e := range es {
		var data struct {
			Grant string `json:"grant_id"`
		}
		if json.Unmarshal(e.Data, &data) == nil && data.Grant == g.ID {
			return e.At, nil
		}
	}
	return time.Time{}, err
}

func grantOf(x *exchange, g *approval.Grant, last time.Time) grantShown {
	v := grantShown{ID: g.ID, Request: g.RequestID, Deny: g.Deny, Ended: !g.EndedAt.IsZero(),
		Mine: g.MayEnd(x.viewer.Actor) == nil, Suspended: !g.SuspendedAt.IsZero(),
		Title: legible.Line(grantTarget(g))}
	if !g.Terms.AnyArgs {
		v.Args = legible.Line(x.masker().ArgsLimited(g.Args, shownArgs))
	}
	tell := func(id, text string) {
		if text != "" {
			v.Facts = append(v.Facts, fact{x.lang.Say("grants_" + id), legible.Line(text)})
		}
	}
	tell("agent", g.Agent)
	tell("scope", g.Scope)
	tell("session", g.Session)
	tell("covers", covers(x.lang, g))
	tell("until", x.away(g.ExpiresAt))
	tell("uses", usesOf(x.lang, g))
	if !last.IsZero() {
		tell("last", x.time(last))
	}
	tell("by", g.Maker()+", "+x.time(g.MadeAt))
	reason, _ := x.masker().Text(g.Reason)
	tell("reason", reason)
	tell("rule", x.lang.Rule(g.Rule))
	if v.Ended {
		tell("ended", endedWords(x, g))
	}
	return v
}

func grantTarget(g *approval.Grant) string {
	if g.Server == "" {
		return g.Tool
	}
	return g.Server + "/" + g.Tool
}

// endedWords tell when, why and by whom a grant was ended.
func endedWords(x *exchange, g *approval.Grant) string {
	id := "grants_end_" + g.EndCode
	why := x.lang.Say(id)
	if why == id {
		why = g.EndCode
	}
	return why + ", " + x.time(g.EndedAt) + ", " + g.EndedBy
}

// usesOf says how often a grant was used, and of how many.
func usesOf(l *locale.Language, g *approval.Grant) string {
	if g.Uses == 0 {
		return l.Say("grants_used", "used", strconv.Itoa(g.Used))
	}
	return l.Say("grants_left", "used", strconv.Itoa(g.Used), "left", strconv.Itoa(g.Left()))
}

// covers says with which args calls are covered.
func covers(l *locale.Language, g *approval.Grant) string {
	if g.Terms.AnyArgs {
		return l.Say("grants_any_args")
	}
	if len(g.Terms.Vary) == 0 {
		return l.Say("grants_same_args")
	}
	texts := []string{l.Say("grants_like_args")}
	for _, name := range slices.Sorted(maps.Keys(g.Terms.Vary)) {
		v := g.Terms.Vary[name]
		if v.AtMost == "" && v.Total == "" {
			texts = append(texts, l.Say("grants_vary_any", "arg", name))
		}
		if v.AtMost != "" {
			texts = append(texts, l.Say("grants_vary_most", "arg", name, "most", v.AtMost))
		}
		if v.Total != "" {
			spent := g.Spent[name]
			if spent == "" {
				spent = "0"
			}
			texts = append(texts, l.Say("grants_vary_total", "arg", name, "total", v.Total, "spent", spent))
		}
	}
	return locale.Sentences(texts...)
}

// revoke ends a grant.
func (p *grantPages) revoke(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	g, err := p.gate.Revoke(ctx, x.viewer.Actor, approval.ViaWeb, x.r.PathValue("id"))
	return x.tellEnded(form, err, "grants_revoked", g.Agent, grantTarget(&g))
}

// lift forgets a standing denial.
func (p *grantPages) lift(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	g, err := p.gate.Grant(ctx, x.r.PathValue("id"))
	if err != nil {
		return err
	}
	err = p.gate.Lift(ctx, x.viewer.Actor, approval.ViaWeb, g.ID)
	return x.tellEnded(form, err, "grants_lifted", g.Agent, grantTarget(&g))
}

// forget lifts a denial that is remembered for a while.
func (p *grantPages) forget(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	r, err := p.gate.Request(ctx, x.viewer.Actor, x.r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.tellEnded(form, p.gate.Lift(ctx, x.viewer.Actor, approval.ViaWeb, r.ID), "grants_lifted", r.Agent, r.Target())
}

// tellEnded goes back to the grants, and says what came of ending one.
func (x *exchange) tellEnded(form url.Values, err error, said, agent, tool string) error {
	switch {
	case approval.CodeOf(err) == approval.CodeAlreadyResolved:
		x.Refuse("grants_over")
	case err != nil:
		return err
	default:
		x.Note(said, "agent", word(agent), "tool", word(tool))
	}
	x.Redirect(isWithin("/grants", form.Get("back")))
	return nil
}

// word is a name as a sentence quotes it.
func word(s string) string { return legible.Line(legible.Cut(s, maxWord)) }

// isWithin returns an address of a page, or of the same page with filters.
func isWithin(page, back string) string {
	if strings.HasPrefix(back, page+"?") {
		return back
	}
	return page
}

// problemText is the sentence of a refusal.
func problemText(err error) string {
	if e, ok := errors.AsType[*approval.Error](err); ok {
		return e.Message
	}
	return ""
}
