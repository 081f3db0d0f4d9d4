package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/auth"
	"countersign/internal/lists"
	"countersign/internal/locale"
)

// Roster is how people are reached, and how agents ask, as configured now.
type Roster interface {
	// Ways are the addresses of a person in the order in which they are tried. Where an address may hold a secret it is
	// the person's name.
	Ways(person string) []approval.Address
	Asks(agent string) approval.Asks
	AtKeyboard(agent string) (approval.Actor, bool)
}

// Freezes tell admins of what was frozen or lifted on a page.
type Freezes interface {
	Froze(ctx context.Context, e approval.Epoch) error
	TellLifted(ctx context.Context, e approval.Epoch, by approval.Actor) error
}

// noRoster knows nothing.
type noRoster struct{}

func (noRoster) Ways(string) []approval.Address           { return nil }
func (noRoster) Asks(string) approval.Asks                { return approval.Asks{} }
func (noRoster) AtKeyboard(string) (approval.Actor, bool) { return approval.Actor{}, false }

// noFreezes tells nobody.
type noFreezes struct{}

func (noFreezes) Froze(context.Context, approval.Epoch) error                      { return nil }
func (noFreezes) TellLifted(context.Context, approval.Epoch, approval.Actor) error { return nil }

// peoplePages are who decides, who stands in for whom, and which agents are frozen.
type peoplePages struct {
	gate      *approval.Gate
	directory *auth.Directory
	roster    Roster
	freezes   Freezes
}

func (p *peoplePages) routes() []route {
	return []route{
		{method: http.MethodGet, path: "/people", audience: approvers, handle: p.show},
		{method: http.MethodPost, path: "/people/delegate", audience: approvers, handle: p.delegate},
		{method: http.MethodPost, path: "/people/delegations/{id}/end", audience: approvers, handle: p.endDelegation},
		{method: http.MethodPost, path: "/people/freeze", audience: approvers, handle: p.freeze},
		{method: http.MethodPost, path: "/people/unfreeze", audience: admins, handle: p.unfreeze},
	}
}

// peopleData is what /people shows.
type peopleData struct {
	People    []personShown
	Groups    []groupShown
	StandIns  []standInShown
	Form      delegateForm
	Agents    []agentShown
	AllFrozen *frozenShown
}

type personShown struct {
	Name, Roles, Groups, Quiet string
	Ways                       []string
	You                        bool
}

type groupShown struct{ Name, People string }

type standInShown struct {
	ID, Title string
	Facts     []fact
	Mine      bool // the viewer may end it
}

// delegateForm is what was typed, kept where it was not taken.
type delegateForm struct {
	Problem                    string
	For, To, From, Until, Rule string
	Zone                       string
	Delegators, Delegates      []string // to choose from
}

type frozenShown struct{ Text string }

type agentShown struct {
	Name, Owner, Keyboard, Cards string
	Frozen                       *frozenShown
}

func (p *peoplePages) show(ctx context.Context, x *exchange) error {
	return p.showWith(ctx, x, http.StatusOK, delegateForm{For: x.viewer.Name})
}

func (p *peoplePages) showWith(ctx context.Context, x *exchange, status int, form delegateForm) error {
	d := peopleData{Form: form}
	groups := map[string][]string{}
	for _, who := range p.directory.People() {
		d.People = append(d.People, p.personOf(x, who))
		for _, g := range who.Groups {
			groups[g] = append(groups[g], who.Name)
		}
	}
	for name, in := range groups {
		d.Groups = append(d.Groups, groupShown{legible.Line(name), legible.Line(x.lang.List(in))})
	}
	slices.SortFunc(d.Groups, func(a, b groupShown) int { return cmp.Compare(a.Name, b.Name) })
	ds, err := lists.ListDelegations(ctx, p.gate)
	if err != nil {
		return err
	}
	for _, one := range ds {
		d.StandIns = append(d.StandIns, p.standInOf(x, one))
	}
	p.choices(x, &d.Form)
	frozen, err := lists.ListFrozen(ctx, p.gate)
	if err != nil {
		return err
	}
	p.agentsShown(x, frozen, &d)
	return x.page(status, "people", x.lang.Say("people_title"), d)
}

func (p *peoplePages) personOf(x *exchange, who auth.Person) personShown {
	v := personShown{Name: legible.Line(who.Name), Groups: legible.Line(x.lang.List(who.Groups)),
		You: who.Name == x.viewer.Name}
	var roles []string
	if who.Approver {
		roles = append(roles, x.lang.Say("people_approver"))
	}
	if who.Admin {
		roles = append(roles, x.lang.Say("people_admin"))
	}
	v.Roles = cmp.Or(x.lang.List(roles), x.lang.Say("people_no_role"))
	for _, a := range p.roster.Ways(who.Name) {
		text := a.Channel
		switch {
		case a.To == who.Name: // it stands for an address that may hold a secret
		case x.viewer.Admin:
			text += " " + a.To
		default:
			text += " " + maskAddress(a.To)
		}
		v.Ways = append(v.Ways, legible.Line(text))
	}
	if q := who.Quiet; q != (auth.QuietHours{}) {
		v.Quiet = x.lang.Say("people_quiet_hours", "from", clockText(q.From), "to", clockText(q.To), "zone",
			locale.ZoneName(x.now, who.Zone))
	}
	return v
}

// maskAddress shows enough of an address for its owner to know it by.
func maskAddress(to string) string {
	const shown = 4
	if utf8.RuneCountInString(to) < 3*shown {
		return "••••"
	}
	all := []rune(to)
	return "••••" + string(all[len(all)-shown:])
}

func clockText(c auth.Clock) string { return fmt.Sprintf("%02d:%02d", int(c)/60, int(c)%60) }

func (p *peoplePages) standInOf(x *exchange, d approval.Delegation) standInShown {
	rule, holds := d.RuleNow(p.gate.Policy())
	if rule = x.lang.Rule(rule); !holds {
		rule = x.lang.Say("people_rule_gone", "rule", rule)
	}
	v := standInShown{ID: d.ID, Title: x.lang.Say("people_stand_in", "delegate", legible.Line(d.Delegate),
		"delegator", legible.Line(d.Delegator)),
		Mine: x.viewer.Admin || x.viewer.Name == d.Delegator || x.viewer.Name == d.Delegate}
	for _, f := range []fact{{"from", x.time(d.From)}, {"until", x.away(d.Until)}, {"rule", rule},
		{"made_by", d.CreatedBy}} {
		if f.Text != "" {
			v.Facts = append(v.Facts, fact{x.lang.Say("people_" + f.Name), legible.Line(f.Text)})
		}
	}
	return v
}

// choices are who can be chosen in the form.
func (p *peoplePages) choices(x *exchange, f *delegateForm) {
	f.Zone = locale.ZoneName(x.now, x.viewer.Zone)
	for _, who := range p.directory.People() {
		if !who.Approver {
			continue
		}
		if x.viewer.Admin || who.Name == x.viewer.Name {
			f.Delegators = append(f.Delegators, who.Name)
		}
		f.Delegates = append(f.Delegates, who.Name)
	}
}

func (p *peoplePages) agentsShown(x *exchange, frozen []approval.Epoch, d *peopleData) {
	of := map[string]*frozenShown{}
	for _, e := range frozen {
		reason, _ := x.masker().Text(e.Reason)
		of[e.Agent] = &frozenShown{x.lang.Say("people_frozen_by", "who", legible.Line(e.FrozenBy),
			"time", x.time(e.FrozenAt), "reason", legible.Line(reason))}
	}
	d.AllFrozen = of[""]
	delete(of, "")
	for _, a := range p.directory.Agents() {
		v := agentShown{Name: a.Name, Owner: legible.Line(a.Owner), Cards: x.lang.Say("people_any_cards"), Frozen: of[a.Name]}
		if n := p.roster.Asks(a.Name).CardsAtOnce; n > 0 {
			v.Cards = strconv.Itoa(n)
		}
		if who, ok := p.roster.AtKeyboard(a.Name); ok {
			v.Keyboard = legible.Line(who.Name)
		}
		d.Agents = append(d.Agents, v)
		delete(of, a.Name)
	}
	for _, e := range frozen { // those that no agent's section names
		if f := of[e.Agent]; f != nil && e.Agent != "" {
			d.Agents = append(d.Agents, agentShown{Name: e.Agent, Frozen: f})
		}
	}
}

// formTime is a time as a datetime-local field sends it.
const formTime = "2006-01-02T15:04"

// typedTime reads a time in the viewer's zone; the zero time where nothing was typed.
func (x *exchange) typedTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	zone := x.viewer.Zone
	if zone == nil {
		zone = time.UTC
	}
	t, err := time.ParseInLocation(formTime, text, zone)
	if err != nil {
		t, err = time.ParseInLocation(formTime+":05", text, zone)
	}
	if err != nil {
		return t, approval.Errorf(approval.CodeInvalidParameter, "Write a time like 2026-12-01T18:00.")
	}
	return t, nil
}

// delegate lets somebody stand in. What was not taken is shown again as it was typed.
func (p *peoplePages) delegate(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	typed := delegateForm{For: form.Get("for"), To: form.Get("to"), From: form.Get("from"), Until: form.Get("until"),
		Rule: strings.TrimSpace(form.Get("rule"))}
	d, err := p.delegateAs(ctx, x, typed)
	switch code := approval.CodeOf(err); {
	case err == nil:
	case code == approval.CodeInvalidParameter || code == approval.CodeNotAnApprover:
		typed.Problem = problemText(err)
		return p.showWith(ctx, x, statuses[code], typed)
	default:
		return err
	}
	x.Note("people_delegated", "delegate", word(d.Delegate), "delegator", word(d.Delegator), "until", x.time(d.Until))
	x.Redirect("/people")
	return nil
}

func (p *peoplePages) delegateAs(ctx context.Context, x *exchange, typed delegateForm) (d approval.Delegation,
	err error) {
	d = approval.Delegation{Delegator: cmp.Or(typed.For, x.viewer.Name), Delegate: typed.To, Rule: typed.Rule}
	if d.From, err = x.typedTime(typed.From); err != nil {
		return d, err
	}
	if d.Until, err = x.typedTime(typed.Until); err != nil {
		return d, err
	}
	return p.gate.Delegate(ctx, d, x.viewer.Actor, approval.ViaWeb)
}

func (p *peoplePages) endDelegation(ctx context.Context, x *exchange) error {
	if _, err := x.Form(); err != nil {
		return err
	}
	d, err := p.gate.EndDelegation(ctx, x.r.PathValue("id"), x.viewer.Actor, approval.ViaWeb)
	switch {
	case approval.CodeOf(err) == approval.CodeAlreadyResolved:
		x.Refuse("people_ended_before")
	case err != nil:
		return err
	default:
		x.Note("people_ended", "delegate", word(d.Delegate), "delegator", word(d.Delegator))
	}
	x.Redirect("/people")
	return nil
}

// frozenAgent is which agent a form is about, "" for all: that is said, and never what is left when a name is missing.
func frozenAgent(form url.Values) (string, error) {
	agent, all := form.Get("agent"), form.Get("all") == "yes"
	if (agent == "") != all {
		return "", approval.Errorf(approval.CodeInvalidParameter, "Choose an agent, or all agents.")
	}
	return agent, nil
}

func (p *peoplePages) freeze(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	agent, err := frozenAgent(form)
	if err != nil {
		return err
	}
	e, err := p.gate.Freeze(ctx, agent, x.viewer.Actor, approval.ViaWeb, form.Get("reason"))
	if err != nil {
		return err
	}
	x.logUntold(ctx, p.freezes.Froze(ctx, e))
	x.sayOf("people_froze", agent)
	return nil
}

func (p *peoplePages) unfreeze(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	agent, err := frozenAgent(form)
	if err != nil {
		return err
	}
	e, err := p.gate.Unfreeze(ctx, agent, x.viewer.Actor, approval.ViaWeb)
	if approval.CodeOf(err) == approval.CodeNotFound {
		x.Refuse("people_not_frozen")
		x.Redirect("/people")
		return nil
	}
	if err != nil {
		return err
	}
	x.logUntold(ctx, p.freezes.TellLifted(ctx, e, x.viewer.Actor))
	x.sayOf("people_thawed", agent)
	return nil
}

// sayOf goes back to the people, and says what was done to an agent, or to all.
func (x *exchange) sayOf(id, agent string) {
	if agent == "" {
		x.Note(id + "_all")
	} else {
		x.Note(id, "agent", word(agent))
	}
	x.Redirect("/people")
}
