package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
)

const (
	pathPasskeys      = "/passkeys"
	pathPasskeySignIn = "/signin/passkey"
	pathStepUp        = "/r/{id}/passkey"
)

// passkeyPages are one's own passkeys, and where one signs in with them.
type passkeyPages struct {
	passkeys *passkey.Service // nil: nobody has any
	signIn   *signin.Service
	base     func() string
}

// routes are where passkeys are added and signed in with. Each takes two steps: "begin" answers the script with what
// the browser asks the authenticator, and the form is posted with what that has signed.
func (p *passkeyPages) routes() []route {
	if p.passkeys == nil {
		return nil
	}
	return []route{
		{method: http.MethodGet, path: pathPasskeys, audience: people, handle: p.show},
		{method: http.MethodPost, path: pathPasskeys, audience: people, handle: p.add},
		{method: http.MethodPost, path: pathPasskeys + "/begin", audience: people, handle: asScript(p.beginAdding)},
		{method: http.MethodPost, path: pathPasskeys + "/remove", audience: people, handle: p.remove},
		{method: http.MethodPost, path: pathPasskeySignIn + "/begin", audience: everyone, handle: asScript(p.beginSignIn)},
		{method: http.MethodPost, path: pathPasskeySignIn, audience: everyone, handle: p.finishSignIn},
	}
}

// ceremony is what the script is answered: what to have the authenticator do, or why not.
type ceremony struct {
	Create json.RawMessage `json:"create,omitempty"`
	Get    json.RawMessage `json:"get,omitempty"`
	// First has the form's beginning asked again with what Get brought.
	First bool   `json:"first,omitempty"`
	Error string `json:"error,omitempty"`
}

// asScript answers the script as JSON, errors too.
func asScript(begin func(context.Context, *exchange, url.Values) (ceremony, error)) func(context.Context,
	*exchange) error {
	return func(ctx context.Context, x *exchange) error {
		form, err := x.Form()
		if err != nil {
			return err
		}
		c, err := begin(ctx, x, form)
		status := http.StatusOK
		if err != nil {
			id, code := passkeyProblem(err)
			if id == "" {
				return err
			}
			status, c = code, ceremony{Error: x.lang.Say(id)}
		}
		data, err := json.Marshal(c)
		if err != nil {
			return err
		}
		x.Header().Set("Content-Type", "application/json")
		x.WriteHeader(status)
		_, _ = x.Write(data) // the browser has gone, if this fails
		return nil
	}
}

// passkeyProblem is what is said of an error, and its status; "" for one that is not of passkeys.
func passkeyProblem(err error) (id string, status int) {
	switch {
	case errors.Is(err, passkey.ErrRefused):
		return "passkeys_refused", http.StatusForbidden
	case errors.Is(err, passkey.ErrBackup):
		return "passkeys_backup", http.StatusForbidden
	case errors.Is(err, passkey.ErrTooMany):
		return "passkeys_too_many", http.StatusConflict
	case errors.Is(err, passkey.ErrSignInAgain):
		return "passkeys_sign_in_again", http.StatusForbidden
	case errors.Is(err, passkey.ErrNone):
		return "passkeys_none_to_use", http.StatusForbidden
	case errors.Is(err, passkey.ErrUnavailable):
		return "passkeys_not_here", http.StatusForbidden
	case errors.Is(err, signin.ErrTooMany):
		return "passkeys_wait", http.StatusTooManyRequests
	case approval.CodeOf(err) == approval.CodeChanged:
		return "passkeys_changed", http.StatusConflict
	}
	return "", 0
}

// browser is the viewer's, as their session has it.
func (x *exchange) browser() passkey.Browser {
	return passkey.Browser{Session: x.viewer.Session.ID, Person: x.viewer.Name, Since: x.viewer.Session.Since}
}

// passkeysData is the page of one's own passkeys.
type passkeysData struct {
	Passkeys []passkey.Passkey
	Full     bool
	MaxName  int
	// Elsewhere is where to open the page for passkeys to work, "" where they work here; Nowhere says that no address
	// is known at which they do.
	Elsewhere string
	Nowhere   bool
}

func (p *passkeyPages) show(ctx context.Context, x *exchange) error {
	all, err := p.passkeys.Of(ctx, x.viewer.Name)
	if err != nil {
		return err
	}
	d := passkeysData{Passkeys: all, Full: len(all) >= passkey.MaxPasskeys, MaxName: passkey.MaxName,
		Nowhere: passkey.Unavailable(p.base()) != ""}
	if at, err := url.Parse(p.base()); err == nil && !d.Nowhere && at.Host != x.r.Host {
		d.Elsewhere = p.base() + pathPasskeys
	}
	return x.Page("passkeys", "frame_passkeys", d)
}

func (p *passkeyPages) beginAdding(ctx context.Context, x *exchange, form url.Values) (ceremony, error) {
	var shown []byte
	if form.Has("shown") {
		shown = []byte(form.Get("shown"))
	}
	options, err := p.passkeys.BeginAdding(ctx, x.browser(), shown)
	if errors.Is(err, passkey.ErrUseOne) {
		options, err = p.passkeys.BeginShowing(ctx, x.browser())
		return ceremony{Get: options, First: true}, err
	}
	return ceremony{Create: options}, err
}

func (p *passkeyPages) add(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	k, err := p.passkeys.FinishAdding(ctx, x.browser(), form.Get("name"), []byte(form.Get("passkey")))
	return x.toldOf(err, pathPasskeys, "passkeys_added", "name", k.Name)
}

// toldOf goes back to a page that says what came of a form: a sentence, or what is wrong with the passkey.
func (x *exchange) toldOf(err error, back, id string, values ...string) error {
	if wrong, _ := passkeyProblem(err); wrong != "" {
		x.Refuse(wrong)
	} else if err != nil {
		return err
	} else {
		x.Note(id, values...)
	}
	x.Redirect(back)
	return nil
}

func (p *passkeyPages) remove(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	k, err := p.passkeys.Remove(ctx, x.browser(), form.Get("id"))
	if errors.Is(err, passkey.ErrNone) {
		return approval.ErrNotFound
	}
	return x.toldOf(err, pathPasskeys, "passkeys_removed", "name", k.Name)
}

// beginSignIn asks for any passkey of these pages, whoever has it. Nobody is signed in, so that a cookie stands for the
// browser until its answer.
func (p *passkeyPages) beginSignIn(_ context.Context, x *exchange, _ url.Values) (ceremony, error) {
	options, ticket, err := p.passkeys.BeginSignIn()
	if err == nil {
		http.SetCookie(x, x.cookie("passkey", ticket, passkey.Lasts))
	}
	return ceremony{Get: options}, err
}

func (p *passkeyPages) finishSignIn(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	var sess signin.Session
	var secret string
	from := x.origin()
	_, err = p.passkeys.FinishSignIn(ctx, x.take("passkey"), []byte(form.Get("passkey")), passkey.Door{
		InVain: func() error { return p.signIn.AttemptInVain(from) },
		Right:  func(k passkey.Passkey) error { return p.signIn.AttemptOf(k.Person, from) },
		Open: func(ctx context.Context, tx approval.Tx, k passkey.Passkey) (err error) {
			secret, sess, err = p.signIn.StartIn(ctx, tx, k.Person, signin.MethodPasskey, signin.Passkey(k.ID), from)
			return err
		},
	})
	if errors.Is(err, signin.ErrRefused) {
		err = passkey.ErrRefused
	}
	if wrong, _ := passkeyProblem(err); wrong != "" {
		x.Refuse(wrong)
		x.Redirect(pathSignIn)
		return nil
	}
	if err != nil {
		return err
	}
	return x.SignedIn(ctx, secret, sess)
}

// passkeysHere reports whether passkeys work on the page that is looked at.
func (x *exchange) passkeysHere() bool {
	at, err := url.Parse(x.s.Base())
	return x.s.Passkeys != nil && err == nil && passkey.Unavailable(x.s.Base()) == "" && at.Host == x.r.Host
}
