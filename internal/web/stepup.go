package web

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/internal/auth/passkey"
)

// readArgs reads the arguments that somebody has typed in place of a request's.
func readArgs(typed string) (*args.Args, error) {
	if strings.TrimSpace(typed) == "" { // which is no wish for a call without arguments
		return nil, approval.Errorf(approval.CodeInvalidArgs, "Write the arguments as a JSON object; for none, write {}.")
	}
	a, err := args.Parse([]byte(typed))
	if err != nil {
		return nil, approval.Errorf(approval.CodeInvalidArgs, "%s", err.Error())
	}
	return &a, nil
}

// stepUpRoutes are where a request is approved with a passkey.
func (p *requestPages) stepUpRoutes() []route {
	if p.passkeys == nil {
		return nil
	}
	return []route{
		{method: http.MethodGet, path: pathStepUp, audience: approvers, handle: p.stepUpPage},
		{method: http.MethodPost, path: pathStepUp + "/edit", audience: approvers, handle: p.editBeforeStepUp},
		{method: http.MethodPost, path: pathStepUp + "/begin", audience: people, handle: asScript(p.beginStepUp)},
		{method: http.MethodPost, path: pathStepUp, audience: people, handle: p.stepUp},
	}
}

// toApprove is what a form approves with a passkey: the request as it was shown, with its args or those in their place.
func (p *requestPages) toApprove(ctx context.Context, x *exchange, form url.Values) (w passkey.Wanted,
	edited *args.Args, err error) {
	id := x.r.PathValue("id")
	r, err := p.gate.Request(ctx, x.viewer.Actor, id)
	if err != nil {
		return w, nil, err
	}
	w = passkey.Wanted{RequestID: r.ID, Version: form.Get("v"), Args: string(r.Args)}
	if form.Has("args") {
		if edited, err = readArgs(form.Get("args")); err != nil {
			return w, nil, err
		}
		w.Args = string(edited.Canonical())
	}
	return w, edited, nil
}

func (p *requestPages) beginStepUp(ctx context.Context, x *exchange, form url.Values) (ceremony, error) {
	w, _, err := p.toApprove(ctx, x, form)
	if err != nil {
		return ceremony{}, err
	}
	r, err := p.gate.Request(ctx, x.viewer.Actor, w.RequestID)
	if err != nil {
		return ceremony{}, err
	}
	if r.Version() != w.Version {
		return ceremony{}, approval.Errorf(approval.CodeChanged, "The request has changed since you saw it.")
	}
	options, err := p.passkeys.BeginStepUp(ctx, x.browser(), w)
	return ceremony{Get: options}, err
}

// stepUp approves a request with a passkey. What was signed is bound to what the form names, so that a form for
// anything else proves nothing.
func (p *requestPages) stepUp(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	w, edited, err := p.toApprove(ctx, x, form)
	if err != nil {
		return err
	}
	shown := stepUpShown{status: http.StatusForbidden, edited: edited, reason: form.Get("reason")}
	proof, err := p.passkeys.FinishStepUp(ctx, x.browser(), w, []byte(form.Get("passkey")))
	if wrong, _ := passkeyProblem(err); wrong != "" && edited != nil { // what was typed is kept
		shown.refused = x.lang.Say(wrong)
		return p.showStepUp(ctx, x, shown)
	}
	if err != nil {
		return x.toldOf(err, stepUpPath(w.RequestID), "")
	}
	r, err := p.gate.Decide(ctx, approval.Decision{RequestID: w.RequestID, Approve: true, By: x.viewer.Actor,
		Via: approval.ViaWeb, Reason: form.Get("reason"), Confirmed: form.Get("confirmed") == "yes", Args: edited,
		Versions: map[string]string{w.RequestID: w.Version}, Proof: proof})
	switch approval.CodeOf(err) {
	case "":
	case approval.CodeReasonRequired, approval.CodeConfirmRequired, approval.CodePolicyDenied, approval.CodeInvalidArgs:
		shown.status, shown.refused = statuses[approval.CodeOf(err)], refusal(x, err)
		return p.showStepUp(ctx, x, shown)
	default:
		return p.refuseOn(ctx, x, err, typed{Reason: form.Get("reason"), Args: form.Get("args")})
	}
	said := "passkeys_approved"
	if r.Status == approval.Pending {
		said = "passkeys_counts"
	}
	return x.toldOf(nil, "/r/"+r.ID, said, "tool", r.Target())
}

func stepUpPath(id string) string { return "/r/" + id + "/passkey" }

// stepUpShown is what the page of a step-up shows beside the request.
type stepUpShown struct {
	status  int
	edited  *args.Args // what is approved in place of the request's own args; nil: those
	refused string     // why nothing came of what was sent
	reason  string     // as it was typed
}

// stepUpData is the page on which a request is approved with a passkey: all that the approval covers.
type stepUpData struct {
	approval.Request
	Pending, Confirm bool
	Shown            string // the args that are approved, with what is secret masked
	Hash             string // of those args; "" unless they were edited
	Masked           string // how many values are masked; "" for none
	Edited           string // the edited args, as the form carries them; "": the request's own
	Difference       []channels.DiffLine
	Editable         string // the args to edit; "" where they cannot be
	Version          string
	Standing, Word   string // how it stands, where it is not pending
	Refused, Reason  string
	Elsewhere        string // where passkeys work, if not on this page
	Nowhere          bool   // no address is known at which they do
}

func (p *requestPages) stepUpPage(ctx context.Context, x *exchange) error {
	return p.showStepUp(ctx, x, stepUpShown{status: http.StatusOK})
}

// showStepUp shows what is approved with a passkey, as it stands now.
func (p *requestPages) showStepUp(ctx context.Context, x *exchange, shown stepUpShown) error {
	r, err := p.gate.Request(ctx, x.viewer.Actor, x.r.PathValue("id"))
	if err != nil {
		return err
	}
	m := x.maker()
	approved := r
	d := stepUpData{Request: r, Pending: r.Status == approval.Pending, Confirm: r.Need != nil && r.Need.Confirm,
		Version: r.Version(), Standing: string(r.Status), Word: x.lang.Say(string(r.Status)), Refused: shown.refused,
		Reason: shown.reason}
	if _, masked := m.Raw(r); masked == 0 {
		d.Editable = editable(r.Args)
	}
	if shown.edited != nil {
		approved.Args = shown.edited.Canonical()
		d.Edited, d.Confirm = editable(approved.Args), true // the new args may need what the request does not
		d.Hash, d.Editable = shown.edited.Hash(r.IgnoredArgs...), d.Edited
		d.Difference = m.Difference(r.Args, approved.Args)
	}
	var masked int
	if d.Shown, masked = m.Raw(approved); masked > 0 {
		d.Masked = x.lang.Count(string(channels.TextMasked), masked)
	}
	if !x.passkeysHere() {
		d.Nowhere = passkey.Unavailable(p.base()) != ""
		d.Elsewhere = p.base() + stepUpPath(r.ID)
	}
	return x.page(shown.status, "stepup", legible.Line(r.Target()), d)
}

// editBeforeStepUp shows the args that somebody wants to approve in place of a request's, for them to use their passkey
// for exactly those.
func (p *requestPages) editBeforeStepUp(ctx context.Context, x *exchange) error {
	form, r, err := p.readSeen(ctx, x)
	if form == nil {
		return err
	}
	kept := typed{Reason: form.Get("reason"), Args: form.Get("args")}
	var edited *args.Args
	if err == nil {
		edited, err = readArgs(form.Get("args"))
	}
	if err != nil {
		return p.refuseOn(ctx, x, err, kept)
	}
	return p.showEdited(ctx, x, &r, edited, kept)
}

// showEdited shows args that take a passkey in place of a request's. Where some of those are masked nothing is compared
// with them, so that no answer tells what a secret is.
func (p *requestPages) showEdited(ctx context.Context, x *exchange, r *approval.Request, edited *args.Args,
	kept typed) error {
	if _, masked := x.maker().Raw(*r); masked > 0 {
		return p.showRequest(ctx, x, http.StatusBadRequest, x.lang.Say("request_edit_masked"), typed{Reason: kept.Reason})
	}
	if bytes.Equal(edited.Canonical(), r.Args) {
		x.Note("passkeys_edit_same")
		x.Redirect(stepUpPath(r.ID))
		return nil
	}
	return p.showStepUp(ctx, x, stepUpShown{status: http.StatusOK, edited: edited, reason: kept.Reason})
}
