package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/internal/auth/passkey"
	"countersign/internal/lists"
	"countersign/internal/locale/phrases"
)

// requestPages are what is told of one request, and what is done with it.
type requestPages struct {
	gate      *approval.Gate
	passkeys  *passkey.Service // nil: nobody has any
	base      func() string
	describer Describer                     // nil: nothing is known of tools
	explainer Explainer                     // nil: the rule alone is named
	pushes    Pushes                        // nil: no cards are told of
	nameOf    func(approval.Address) string // nil: not known
	room      func(approval.Address) bool   // nil: none is
	granted   Granted                       // nil: nobody is told
	freezes   Freezes
}

func (p *requestPages) routes() []route {
	post := func(what string, handle func(context.Context, *exchange) error) route {
		return route{method: http.MethodPost, path: "/r/{id}/" + what, audience: people, handle: handle}
	}
	return []route{
		{method: http.MethodGet, path: "/r/{id}", audience: people, handle: p.show},
		post("decide", p.decide), post("extend", p.extend), post("cancel", p.cancel), post("freeze", p.freezeAgentOf),
	}
}

// RuleAnswer is how one rule of the policy answers the call of a request.
type RuleAnswer struct {
	Rule    string
	Decides bool
	Why     string // it may quote arguments
	// Said is the same for whoever reads another language; none of an error.
	Said phrases.Said
}

// Explainer says by which rules a request is asked for.
type Explainer interface {
	// ExplainRequest returns the rules that have a say, in their order.
	ExplainRequest(r approval.Request) ([]RuleAnswer, error)
}

// Pushes are the cards that were sent.
type Pushes interface {
	Notifications(ctx context.Context, q approval.NotificationQuery) ([]approval.Notification, error)
}

// Granted tells admins of a grant that was made on a page.
type Granted interface {
	TellGranted(ctx context.Context, g approval.Grant) error
}

// typed is what somebody has typed into the forms of a request: it is kept when nothing came of it.
type typed struct {
	Reason, Args, For string
	Confirm           bool // the gate asks for a second yes to it
}

// requestData is what the page of a request shows.
type requestData struct {
	lists.Details
	Item      channels.Item
	RuleName  string // in the reader's language
	Version   string // as it is shown: the forms carry it
	Risk      RiskMark
	Sentence  string
	Rows      []channels.Row
	Change    *leadingDiff        // what leads, in front of the args; nil: nothing does
	Diff      []channels.DiffLine // of a preview that was not held against an arg, and does not contradict one
	Raw       string
	Masked    int
	Editable  string // the args as JSON for the form; "" where they cannot be edited here
	Confirm   bool
	StepUp    bool
	Votes     []requestVote
	Progress  string
	Voters    string
	Rules     []RuleAnswer
	Words     *serverWords // what its server says of the tool; nil: not known
	Timeline  []step
	Pushes    []push
	Grants    []choice
	Refused   string // why nothing came of what was sent
	Typed     typed
	CanDecide bool
}

// LiveAt has the script keep the page current.
func (d requestData) LiveAt() string { return "/r/" + d.ID }

// leadingDiff is a diff that was held against the arg which it is of, as cards lead with it.
type leadingDiff struct {
	Title, Count, Held string
	Diff               []channels.DiffLine
}

// change has the page lead with what changes, as cards do. A diff that is not of what the args have is not drawn
// as one.
func (d *requestData) change(x *exchange) {
	i := d.Item
	d.Rows = i.Beside()
	if c := i.Change; c != nil {
		d.Change = &leadingDiff{Title: x.lang.Say(string(channels.TextChange), "key", c.Key),
			Count: channels.DiffCount(c.Diff),
			Held:  cmp.Or(i.PreviewRead, x.lang.Say(string(channels.TextChangeHeld), "key", c.Key)), Diff: c.Diff}
		d.Item.Preview = ""
	} else if !i.Unlike {
		d.Diff = i.Diff
	}
}

// requestVote is one vote as the page shows it.
type requestVote struct {
	Who, Word, Reason string
	At                time.Time
	Class             string
	Passkey           bool
}

// step is one thing that happened to the request.
type step struct {
	At             time.Time
	What, By, Text string
}

// push is one card that went out.
type push struct {
	At                time.Time
	Channel, To, Word string
	Class             string
}

// show answers with one request. The end of an id leads to the whole.
func (p *requestPages) show(ctx context.Context, x *exchange) error {
	id := x.r.PathValue("id")
	if whole, ok := approval.ParseID(id); !ok || whole != id {
		whole, err := lists.ResolveID(ctx, p.gate, x.viewer.Actor, id)
		if err != nil {
			return err
		}
		x.Redirect("/r/" + whole)
		return nil
	}
	return p.showRequest(ctx, x, http.StatusOK, "", typed{})
}

// showRequest shows a request as it is now: refused says why nothing came of what was typed.
func (p *requestPages) showRequest(ctx context.Context, x *exchange, status int, refused string, t typed) error {
	details, err := lists.ReadDetails(ctx, p.gate, x.viewer.Actor, x.r.PathValue("id"))
	if err != nil {
		return err
	}
	r := details.Request
	m := x.maker()
	d := requestData{Details: details, Item: m.Whole(r, x.now), Version: r.Version(), Risk: x.risk(r.Risk),
		Refused: refused, Typed: t, Confirm: r.Need != nil && r.Need.Confirm || t.Confirm,
		StepUp:    r.Need != nil && r.Need.StepUp,
		CanDecide: details.MayApprove || details.MayDeny}
	d.Sentence, _ = m.Sentence(r)
	d.change(x)
	d.Raw, d.Masked = m.Raw(r)
	if d.MayApprove && d.Masked == 0 {
		d.Editable = editable(r.Args)
		d.Typed.Args = cmp.Or(t.Args, d.Editable)
	}
	d.Votes = votesOf(x, m, r)
	if n := d.Standing; n.Needed > 1 {
		d.Progress = x.lang.Say("inbox_votes", "have", strconv.Itoa(n.Total), "needed", strconv.Itoa(n.Needed))
	}
	d.Voters, d.RuleName = x.voters(details.Voters), x.lang.Rule(d.Rule)
	d.Words = serverWordsOf(x, p.describer, &r)
	d.Grants = grantChoices(x, &details, t.For)
	if err := p.around(ctx, x, m, &d); err != nil {
		return err
	}
	return x.page(status, "request", d.Item.Summary, d)
}

// around adds what happened to a request, whom it was sent to, and by which rules it is asked for.
func (p *requestPages) around(ctx context.Context, x *exchange, m channels.Maker, d *requestData) error {
	es, err := lists.ListEvents(ctx, p.gate, approval.EventQuery{ApprovalID: d.ID, Ascending: true, Limit: 200})
	if err != nil {
		return err
	}
	for _, e := range es {
		if happened, ok := stepOf(x, m, &e); ok {
			d.Timeline = append(d.Timeline, happened)
		}
	}
	if p.pushes != nil && (x.viewer.Approver || x.viewer.Admin) {
		ns, err := p.pushes.Notifications(ctx, approval.NotificationQuery{ApprovalID: d.ID, BatchID: d.BatchID, Limit: 50})
		if err != nil {
			return err
		}
		for _, n := range slices.Backward(ns) {
			d.Pushes = append(d.Pushes, p.push(x, &n))
		}
	}
	if p.explainer == nil {
		return nil
	}
	if d.Rules, err = p.explainer.ExplainRequest(d.Request); err != nil {
		return err
	}
	for i := range d.Rules {
		a := &d.Rules[i]
		a.Rule, a.Why = legible.Line(x.lang.Rule(a.Rule)), m.Line(x.said(a.Said, a.Why))
	}
	return nil
}

// stepOf tells one event; false: it is not of the request's own story.
func stepOf(x *exchange, m channels.Maker, e *approval.Event) (step, bool) {
	what := string(e.Type)
	switch e.Type {
	case approval.EventNotificationSent, approval.EventNotificationFailed, approval.EventNotificationRetrying:
		return step{}, false // the cards are listed by themselves
	case approval.EventDecision, approval.EventVote, approval.EventDecisionRefused:
		what += "_" + e.Decision
	case approval.EventCallOutcome:
		what += "_" + e.Reason
	}
	said := x.lang.Say("request_event_" + what)
	if said == "request_event_"+what {
		said = legible.Line(strings.ReplaceAll(what, "_", " "))
	}
	text := e.Reason
	switch e.Type {
	case approval.EventCallOutcome, approval.EventDecisionRefused, approval.EventApprovalRequested:
		text = "" // a word for programs
	}
	kind, name, ok := strings.Cut(e.Actor, ":")
	switch {
	case e.Type == approval.EventErased: // whose word nothing else on the page has
		name = e.Actor
	case !ok || kind == "system":
		name = ""
	}
	return step{e.At, said, m.Line(name), m.Line(legible.Cut(text, 1000))}, true
}

// push tells where one card went, and how far it came.
func (p *requestPages) push(x *exchange, n *approval.Notification) push {
	to := n.Recipient
	switch at := n.Address(); {
	case p.room != nil && p.room(at):
		to = x.lang.Say("request_room", "id", n.Recipient)
	case p.nameOf != nil:
		to = cmp.Or(p.nameOf(at), x.lang.Say("request_somebody"))
	}
	return push{n.CreatedAt, n.Channel, legible.Line(to), x.lang.Say("request_push_" + string(n.Status)), string(n.Status)}
}

// votesOf are who has said what.
func votesOf(x *exchange, m channels.Maker, r approval.Request) (all []requestVote) {
	for _, v := range r.Ballots() {
		shown := requestVote{Who: m.Line(v.Voter()), Word: x.lang.Say("inbox_denied"), Reason: m.Line(v.Reason), At: v.At,
			Class: "denied", Passkey: v.StepUp}
		if v.Approve {
			shown.Word, shown.Class = x.lang.Say("inbox_approved"), "approved"
		}
		all = append(all, shown)
	}
	return all
}

// voters names who may decide.
func (x *exchange) voters(who []approval.Actor) string {
	var names []string
	for _, p := range who {
		names = append(names, legible.Line(p.Name))
	}
	return x.lang.List(names)
}

// editable is args as JSON that a form can hold: what is not seen is written by its number.
func editable(canonical []byte) string {
	var b strings.Builder
	for _, c := range string(canonical) {
		if c > '~' && legible.Line(string(c)) != string(c) {
			for _, unit := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// wishes are for how long a decision may be given.
var wishes = []struct {
	value string
	text  channels.Text
	wish  approval.GrantWish
}{
	{"session", channels.TextGrantSession, approval.GrantWish{Session: true}},
	{"1h", channels.TextGrantHour, approval.GrantWish{For: time.Hour}},
	{"8h", channels.TextGrantDay, approval.GrantWish{For: 8 * time.Hour}},
	{"10", channels.TextGrantTen, approval.GrantWish{Uses: 10}},
}

// grantChoices are for how long the viewer's decision may be given.
func grantChoices(x *exchange, d *lists.Details, chosen string) []choice {
	all := []choice{{"", x.lang.Say("request_once"), chosen == ""}}
	for _, w := range wishes {
		if !w.wish.Session || d.SessionID != "" {
			all = append(all, choice{w.value, x.lang.Say(string(w.text)), w.value == chosen})
		}
	}
	return all
}

// readGrant reads for how long a decision is given; nil: it is not.
func readGrant(value string) (*approval.GrantWish, error) {
	if value == "" {
		return nil, nil
	}
	for _, w := range wishes {
		if w.value == value {
			return &w.wish, nil
		}
	}
	return nil, errForm
}

// readDecision reads what a form of the page decides.
func readDecision(x *exchange, form url.Values) (approval.Decision, error) {
	id := x.r.PathValue("id")
	d := approval.Decision{RequestID: id, By: x.viewer.Actor, Via: approval.ViaWeb, Reason: form.Get("reason"),
		Confirmed: form.Get("confirmed") == "yes", Versions: map[string]string{id: form.Get("v")}}
	var err error
	if d.Grant, err = readGrant(form.Get("for")); err != nil {
		return d, err
	}
	switch form.Get("do") {
	case "approve":
		d.Approve = true
	case "deny":
	case "edit":
		d.Approve = true
		if d.Args, err = readArgs(form.Get("args")); err != nil {
			return d, err
		}
	default:
		return d, errForm
	}
	return d, nil
}

// decide decides the request that the page shows.
func (p *requestPages) decide(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	kept := typed{Reason: form.Get("reason"), Args: form.Get("args"), For: form.Get("for")}
	d, err := readDecision(x, form)
	if err != nil {
		return p.refuseOn(ctx, x, err, kept)
	}
	r, err := p.gate.Decide(ctx, d)
	if e, ok := errors.AsType[*approval.Error](err); ok && e.Code == approval.CodeStepUpRequired && e.Request != nil &&
		d.Args != nil && p.passkeys != nil {
		return p.showEdited(ctx, x, e.Request, d.Args, kept)
	}
	if err != nil {
		return p.refuseOn(ctx, x, err, kept)
	}
	if d.Grant != nil && r.Status != approval.Pending {
		if err := p.tellGranted(ctx, x, r.ID); err != nil {
			return err
		}
	}
	x.Note("inbox_done", "what", outcome(x, &r), "tool", word(r.Target()))
	x.Redirect("/r/" + r.ID)
	return nil
}

// tellGranted tells admins of the grant that a decision came with.
func (p *requestPages) tellGranted(ctx context.Context, x *exchange, id string) error {
	gs, err := lists.ListGrants(ctx, p.gate, approval.GrantQuery{RequestID: id, All: true, Limit: 1})
	if err != nil || len(gs) == 0 || p.granted == nil {
		return err
	}
	x.logUntold(ctx, p.granted.TellGranted(ctx, gs[0]))
	return nil
}

// refuseOn shows the request as it is now and why nothing came of a form, whose text is kept.
func (p *requestPages) refuseOn(ctx context.Context, x *exchange, why error, kept typed) error {
	code := approval.CodeOf(why)
	status, known := statuses[code]
	if !known || code == approval.CodeNotFound || status >= http.StatusInternalServerError {
		return why
	}
	kept.Confirm = code == approval.CodeConfirmRequired // other args may need it where the request does not
	return p.showRequest(ctx, x, status, refusal(x, why), kept)
}

// readSeen reads a form, and holds that the request is the one that the viewer was shown.
func (p *requestPages) readSeen(ctx context.Context, x *exchange) (form url.Values, r approval.Request, err error) {
	if form, err = x.Form(); err != nil {
		return nil, r, err
	}
	if r, err = p.gate.Request(ctx, x.viewer.Actor, x.r.PathValue("id")); err != nil {
		return nil, r, err
	}
	if r.Version() != form.Get("v") {
		return form, r, &approval.Error{Code: approval.CodeChanged,
			Message: "The request has changed. Nothing was done: look at it again.",
			Request: &r}
	}
	return form, r, nil
}

// after goes back to the request and says what was done, or shows why nothing was.
func (p *requestPages) after(ctx context.Context, x *exchange, form url.Values, err error, said string) error {
	if form == nil && err != nil {
		return err
	}
	if err != nil {
		return p.refuseOn(ctx, x, err, typed{Reason: form.Get("reason")})
	}
	x.Note(said)
	x.Redirect("/r/" + url.PathEscape(x.r.PathValue("id")))
	return nil
}

func (p *requestPages) extend(ctx context.Context, x *exchange) error {
	form, r, err := p.readSeen(ctx, x)
	if err == nil {
		_, err = p.gate.Extend(ctx, r.ID, x.viewer.Actor, approval.ViaWeb)
	}
	return p.after(ctx, x, form, err, "request_extended")
}

func (p *requestPages) cancel(ctx context.Context, x *exchange) error {
	form, r, err := p.readSeen(ctx, x)
	if err == nil && len(form.Get("reason")) > approval.MaxReason {
		err = approval.Errorf(approval.CodeInvalidParameter, "The reason is too long.")
	}
	if err == nil {
		_, err = p.gate.Cancel(ctx, approval.Cancellation{RequestID: r.ID, By: x.viewer.Actor, Via: approval.ViaWeb,
			Reason: form.Get("reason")})
	}
	return p.after(ctx, x, form, err, "request_cancelled")
}

// freezeAgentOf freezes the request's agent. It needs no version: it holds whatever became of the request.
func (p *requestPages) freezeAgentOf(ctx context.Context, x *exchange) error {
	form, r, err := p.readSeen(ctx, x)
	if err != nil && approval.CodeOf(err) != approval.CodeChanged {
		return err
	}
	frozen, err := p.gate.Freeze(ctx, r.Agent, x.viewer.Actor, approval.ViaWeb, form.Get("reason"))
	if err == nil {
		x.logUntold(ctx, p.freezes.Froze(ctx, frozen))
	}
	return p.after(ctx, x, form, err, "request_frozen")
}
