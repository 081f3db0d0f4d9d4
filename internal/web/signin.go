package web

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"time"

	"countersign/approval"
	"countersign/internal/auth/openid"
	"countersign/internal/auth/signin"
)

const (
	pathSignIn   = "/signin"
	pathLink     = "/signin/link"
	pathSessions = "/sessions"
	pathSignOut  = "/signout"
	pathKey      = "/signin/key"
)

// signInPages are where people sign in and out, and their sessions.
type signInPages struct {
	signIn *signin.Service
	openID *openid.Service // nil: nobody signs in that way
}

func (p *signInPages) routes() []route {
	return []route{
		{method: http.MethodGet, path: pathSignIn, audience: everyone, handle: p.show},
		{method: http.MethodGet, path: pathLink, audience: everyone, handle: p.showLink},
		{method: http.MethodPost, path: pathLink, audience: everyone, handle: p.redeem},
		{method: http.MethodPost, path: pathSignOut, audience: everyone, handle: p.signOut},
		{method: http.MethodPost, path: pathKey, audience: people, handle: keyWorks},
		{method: http.MethodGet, path: pathSessions, audience: people, handle: p.showSessions},
		{method: http.MethodPost, path: pathSessions, audience: people, handle: p.endSessions},
	}
}

// LinkPage is the path of the page that a one-time link opens.
func LinkPage(token string) string { return pathLink + "?" + url.Values{"t": {token}}.Encode() }

// cookieSessions are the sessions of cookies.
type cookieSessions struct{ service *signin.Service }

// SignedIn returns the sessions of those who are signed in, by the cookie that their browser shows.
func SignedIn(s *signin.Service) Sessions { return cookieSessions{s} }

func (s cookieSessions) Of(r *http.Request) (Session, bool, error) {
	if byItself(r) {
		return s.Still(r)
	}
	return sessionBy(s.service.Session, r)
}

func (s cookieSessions) Still(r *http.Request) (Session, bool, error) {
	return sessionBy(s.service.Look, r)
}

// sessionBy is the session that ask finds by a browser's cookie.
func sessionBy(ask func(context.Context, string) (signin.Session, error), r *http.Request) (Session, bool, error) {
	secret := signin.Cookie(r, mayBePlain(r))
	if secret == "" {
		return Session{}, false, nil
	}
	sess, err := ask(r.Context(), secret)
	if errors.Is(err, signin.ErrNoSession) {
		return Session{}, false, nil
	}
	return Session{ID: sess.ID, Person: sess.Person, Since: sess.CreatedAt,
		Keyed: signin.NeedsKey(secret)}, err == nil, err
}

// byItself reports whether a page asks with nobody there: the stream of what changes, and the copy that a script
// fetches of a page that is open.
func byItself(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.URL.Path == pathLive || r.Header.Get(byScript) != "")
}

// byScript is the header of a page that a script fetches anew.
const byScript = "Countersign-Refresh"

// origin is where a request comes from.
func (x *exchange) origin() signin.Origin {
	return signin.Origin{Address: x.s.Address(x.r), UserAgent: x.r.UserAgent(), Machine: x.onMachine()}
}

// nextKept is how long a browser remembers which page it was on its way to: a link is used up by then.
const nextKept = 15 * time.Minute

// show says how to sign in. Where the browser was on its way to is kept in a cookie, since what signs in comes by
// another way, such as a chat. Whoever is signed in is taken there at once; in a session that takes a key our script
// does that, where the browser has it: else there is something to sign in for.
func (p *signInPages) show(_ context.Context, x *exchange) error {
	next := localPath(x.r.URL.Query().Get("next"))
	if x.viewer != nil && !x.viewer.Session.Keyed {
		x.Redirect(next)
		return nil
	}
	if x.r.URL.Query().Has("next") {
		http.SetCookie(x, x.cookie("next", base64.RawURLEncoding.EncodeToString([]byte(next)), nextKept))
	}
	return x.Page("signin", "signin_title", signInData{providerName(p.openID), x.passkeysHere(), next})
}

// signInData is what the page of the ways to sign in shows.
type signInData struct {
	Provider string // "" where there is none
	Passkeys bool
	Next     string // where whoever has the key goes
}

// takeNext returns where the browser was on its way to, the inbox if nowhere, and forgets it.
func (x *exchange) takeNext() string {
	next, err := base64.RawURLEncoding.DecodeString(x.take("next"))
	if err != nil {
		return "/"
	}
	return localPath(string(next))
}

// linkData is what the page of a link shows: who would be signed in, where the link was asked for, and from where this
// browser comes.
type linkData struct {
	Link    signin.Link
	Token   string
	Asked   string // where, and when
	Address string
	Browser string
}

// askedFor says where a link was asked for, and when.
func (x *exchange) askedFor(l signin.Link) string {
	ago := x.lang.Duration(max(0, x.now.Sub(l.MadeAt)))
	id := "signin_asked_" + l.From
	if said := x.lang.Say(id, "ago", ago); said != id {
		return said
	}
	return x.lang.Say("signin_asked_chat", "where", l.From, "ago", ago)
}

// showLink asks whether to sign in. It spends nothing: programs open links too.
func (p *signInPages) showLink(ctx context.Context, x *exchange) error {
	token, from := x.r.URL.Query().Get("t"), x.origin()
	l, err := p.signIn.Link(ctx, token, from)
	if err != nil {
		return x.noSignIn(err)
	}
	return x.Page("signin_link", "signin_title", linkData{Link: l, Token: token, Asked: x.askedFor(l),
		Address: from.Address, Browser: signin.Shown(from.UserAgent)})
}

// noSignIn answers with the page of a link that signs nobody in: the same for all of them.
func (x *exchange) noSignIn(err error) error {
	switch {
	case errors.Is(err, signin.ErrTooMany):
		x.Header().Set("Retry-After", "60")
		return x.page(http.StatusTooManyRequests, "signin_refused", x.lang.Say("signin_too_many"), "signin_too_many_text")
	case errors.Is(err, signin.ErrRefused):
		return x.page(http.StatusGone, "signin_refused", x.lang.Say("signin_refused"), "signin_refused_text")
	}
	return err
}

// redeem signs in with a link.
func (p *signInPages) redeem(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	secret, sess, err := p.signIn.Redeem(ctx, form.Get("t"), x.origin())
	if err != nil {
		return x.noSignIn(err)
	}
	return x.SignedIn(ctx, secret, sess)
}

// SignedIn gives the browser its new session, in place of any other, and takes it to where it was on its way to. The
// other one ends: no two people share a browser unseen. Of somebody else's it takes the key, where there is one: the
// cookie may have come from anywhere.
func (x *exchange) SignedIn(ctx context.Context, secret string, session signin.Session) error {
	if x.viewer == nil || x.viewer.Name == session.Person || x.isViewers() {
		if err := x.s.SignIn.SignOut(ctx, signin.Cookie(x.r, mayBePlain(x.r))); err != nil {
			return err
		}
	}
	_, secure := x.readHost()
	signin.SetCookie(x, x.r, secret, secure)
	next := x.takeNext()
	if signin.NeedsKey(secret) {
		next = x.withKey(next, session.ID)
	}
	x.Redirect(next)
	return nil
}

// signOut ends the viewer's session. Where it takes a key, and the browser has none, the browser forgets the session:
// that is all that a cookie from anywhere can ask for.
func (p *signInPages) signOut(ctx context.Context, x *exchange) error {
	note := "signin_out"
	if x.viewer != nil && !x.isViewers() {
		note = "signin_forgotten"
	} else if err := p.signIn.SignOut(ctx, signin.Cookie(x.r, mayBePlain(x.r))); err != nil {
		return err
	}
	signin.ClearCookie(x, x.r)
	x.Note(note)
	x.Redirect(pathSignIn)
	return nil
}

// sessionRow is one session as its owner sees it.
type sessionRow struct {
	signin.Session
	Here bool // it is this browser's
}

type sessionsData struct {
	Sessions []sessionRow
	Others   int
}

func (p *signInPages) showSessions(ctx context.Context, x *exchange) error {
	all, err := p.signIn.Sessions(ctx, x.viewer.Name)
	if err != nil {
		return err
	}
	var d sessionsData
	for _, sess := range all {
		row := sessionRow{sess, sess.ID == x.viewer.Session.ID}
		if !row.Here {
			d.Others++
		}
		d.Sessions = append(d.Sessions, row)
	}
	return x.Page("sessions", "frame_sessions", d)
}

// endSessions ends one of the viewer's own sessions, or all but this one.
func (p *signInPages) endSessions(ctx context.Context, x *exchange) error {
	form, err := x.Form()
	if err != nil {
		return err
	}
	if id := form.Get("id"); id != "" {
		err := p.signIn.End(ctx, x.viewer.Name, id)
		if errors.Is(err, signin.ErrNoSession) {
			return approval.ErrNotFound
		}
		if err != nil {
			return err
		}
		x.Note("signin_ended")
	} else {
		if _, err := p.signIn.EndOthers(ctx, x.viewer.Name, x.viewer.Session.ID); err != nil {
			return err
		}
		x.Note("signin_ended_others")
	}
	x.Redirect(pathSessions)
	return nil
}
