package openid

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"countersign/internal/secret"
)

// Options are what a [Service] is made of. Now is required.
type Options struct {
	Now func() time.Time
	// Timeout is how long one request to the provider may take; default 10 s.
	Timeout time.Duration
	// Troubled is called when it is found out that no person can sign in any more, and must not block: the goroutine that
	// it wakes calls [Service.Learn] until they can again. nil: nothing is.
	Troubled func()
	// Keys seal what a browser keeps of a sign-in that was begun; default: this process's own.
	Keys secret.Keys
}

// Service signs people in. It is safe for concurrent use.
type Service struct {
	o        Options
	client   *http.Client
	seal     seal
	settings atomic.Pointer[settings]
}

// settings are what a reload replaces.
type settings struct {
	cfg    *Config
	people []Person

	asking   chan struct{} // who holds its one place may use what follows
	provider *provider     // nil: it has not been asked with success
	failed   time.Time
	failure  error // of the last time that it was asked; nil: none

	trouble atomic.Pointer[Error] // why no person can sign in there, as far as was found out last; nil: they can
}

// New returns a service that signs no person in until it is configured.
func New(o Options) *Service {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return &Service{o: o, client: newClient(o.Timeout), seal: seal{o.Keys.OrNew()}}
}

// Configure puts a section and people in force. It asks the provider nothing. nil: nobody signs in this way.
func (s *Service) Configure(c *Config, people []Person) {
	if c == nil {
		s.settings.Store(nil)
		return
	}
	next := &settings{cfg: c, people: slices.Clone(people), asking: make(chan struct{}, 1)}
	if old := s.settings.Load(); old != nil && old.cfg.Issuer == c.Issuer {
		select {
		case old.asking <- struct{}{}:
			next.provider = old.provider
			<-old.asking
		default: // it is being asked just now, which takes its time
		}
	}
	s.settings.Store(next)
}

// Close ends the connections that no request uses.
func (s *Service) Close() { s.client.CloseIdleConnections() }

// Learn asks the provider what it says of itself, so that what is wrong with it is known before anybody comes. false:
// it is not known yet.
func (s *Service) Learn(ctx context.Context) bool {
	to := s.settings.Load()
	if to == nil {
		return true
	}
	_, _, err := s.reach(ctx, to, "")
	return err == nil
}

// Trouble says why nobody can sign in at the provider, as far as it was asked; "": they can, or nobody is to.
func (s *Service) Trouble() string {
	to := s.settings.Load()
	if to == nil {
		return ""
	}
	if e := to.trouble.Load(); e != nil {
		return e.Detail
	}
	return ""
}

// Label is what the button calls the provider; false: there is none.
func (s *Service) Label() (string, bool) {
	if to := s.settings.Load(); to != nil {
		return to.cfg.Label(), true
	}
	return "", false
}

// Reason says why a sign-in came to nothing.
type Reason string

// The reasons.
const (
	// Off: no provider is configured.
	Off Reason = "off"
	// Unavailable: the provider cannot be reached, or is not one.
	Unavailable Reason = "unavailable"
	// Stale: it was not begun in this browser, or too long ago, or under another configuration.
	Stale Reason = "stale"
	// Declined: the provider says that it did not let the person in.
	Declined Reason = "declined"
	// Unverified: what the provider answered does not hold.
	Unverified Reason = "unverified"
	// Unknown: the provider vouches for a person whom the configuration does not know.
	Unknown Reason = "unknown"
)

// Error is a sign-in that came to nothing.
type Error struct {
	Reason Reason
	// Detail is for the log: a line without secrets and without what the provider says of the person.
	Detail string
	// Issuer and Identity are for the audit, where the reason is [Unknown]: Identity is the same for the same account and
	// tells nothing of it.
	Issuer   string
	Identity string
}

func (e *Error) Error() string { return "openid: " + string(e.Reason) + ": " + e.Detail }

// Begun is a sign-in whose browser is to go to URL and to keep Cookie until it comes back, for [Lifetime] at most.
type Begun struct{ URL, Cookie string }

// Begin begins a sign-in whose answer comes to redirect. The error is an [*Error] or the context's.
func (s *Service) Begin(ctx context.Context, redirect string) (Begun, error) {
	to := s.settings.Load()
	if to == nil {
		return Begun{}, &Error{Reason: Off}
	}
	_, exchange, err := s.reach(ctx, to, redirect)
	if err != nil {
		return Begun{}, err
	}
	a := newAttempt(to.cfg, redirect, s.o.Now())
	cookie, err := s.seal.close(a)
	if err != nil {
		return Begun{}, err
	}
	at := exchange.AuthCodeURL(a.State, oauth2.S256ChallengeOption(a.Verifier), oidc.Nonce(a.Nonce))
	u, err := url.Parse(at)
	if err != nil || !safe(at, isHere(to.cfg.Issuer)) {
		return Begun{}, &Error{Reason: Unavailable, Detail: errNoEndpoint.Error()}
	}
	return Begun{u.String(), cookie}, nil
}

// reach returns the provider and how codes are exchanged there.
func (s *Service) reach(ctx context.Context, to *settings, redirect string) (*provider, *oauth2.Config, error) {
	p, err := s.readProvider(ctx, to)
	if err != nil && ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	var exchange *oauth2.Config
	var trouble *Error
	if err != nil {
		trouble = &Error{Reason: Unavailable, Detail: "its configuration: " + to.cfg.brief(err)}
	} else if exchange, err = p.exchange(to.cfg, redirect); err != nil {
		trouble = &Error{Reason: Unavailable, Detail: err.Error()}
	}
	if before := to.trouble.Swap(trouble); trouble != nil {
		if before == nil && s.o.Troubled != nil {
			s.o.Troubled()
		}
		return nil, nil, trouble
	}
	return p, exchange, nil
}

// Found is who a provider vouched for: a person's name, and the [Config.Account] that they signed in with by the
// configuration that the answer was checked with.
type Found struct{ Person, Account string }

// Finish ends a sign-in: cookie is what the browser kept, and answer the query that it brought from the provider. The
// error is an [*Error] or the context's.
func (s *Service) Finish(ctx context.Context, cookie string, answer url.Values) (Found, error) {
	to := s.settings.Load()
	if to == nil {
		return Found{}, &Error{Reason: Off}
	}
	a, ok := s.openAttempt(to, cookie, answer)
	if !ok {
		return Found{}, &Error{Reason: Stale, Detail: "no sign-in of this browser awaits this answer"}
	}
	p, exchange, err := s.reach(ctx, to, a.Redirect)
	if err != nil {
		return Found{}, err
	}
	code, err := codeOf(answer, to.cfg, p)
	if err != nil {
		return Found{}, err
	}
	id, token, err := s.redeem(ctx, to.cfg, p, exchange, a, code)
	if err != nil {
		return Found{}, err
	}
	if who, ok := bySubject(to.people, id.subject); ok {
		return to.newFound(who), nil
	}
	if id, err = s.withEmail(ctx, to.cfg, p, token, id); err != nil {
		return Found{}, err
	}
	if who, ok := to.cfg.byEmail(to.people, id); ok {
		return to.newFound(who), nil
	}
	return Found{}, &Error{Reason: Unknown, Detail: "nobody in people is this account", Issuer: id.issuer,
		Identity: id.hash()}
}

func (to *settings) newFound(p Person) Found { return Found{p.Name, to.cfg.Account(p)} }

// Awaits reports whether a sign-in that was begun awaits this answer: the provider is asked about no other.
func (s *Service) Awaits(cookie string, answer url.Values) bool {
	to := s.settings.Load()
	if to == nil {
		return false
	}
	_, ok := s.openAttempt(to, cookie, answer)
	return ok
}

func (s *Service) openAttempt(to *settings, cookie string, answer url.Values) (attempt, bool) {
	a, ok := s.seal.open(cookie)
	return a, ok && a.holds(to.cfg, s.o.Now()) && one(answer, "state", a.State)
}

// one reports whether a parameter is there once and has a value.
func one(answer url.Values, name, want string) bool {
	return len(answer[name]) == 1 && subtle.ConstantTimeCompare([]byte(answer[name][0]), []byte(want)) == 1
}

// codeOf returns the code of an answer whose state is right.
func codeOf(answer url.Values, c *Config, p *provider) (string, error) {
	// RFC 9207: an answer from another provider, which mixed itself in, names that one.
	if len(answer["iss"]) > 0 || p.says.NamesIssuer {
		if !one(answer, "iss", c.Issuer) {
			return "", &Error{Reason: Unverified, Detail: "the answer does not name the provider that was asked"}
		}
	}
	if said := answer["error"]; len(said) > 0 {
		return "", &Error{Reason: Declined, Detail: "the provider says " + c.line(said[0])}
	}
	if len(answer["code"]) != 1 || answer.Get("code") == "" {
		return "", &Error{Reason: Unverified, Detail: "the answer has no code, or several"}
	}
	return answer.Get("code"), nil
}

// leeway is how much a provider's clock may differ from ours.
const leeway = time.Minute

// redeem gives the code back and returns who the provider says that the person is.
func (s *Service) redeem(ctx context.Context, c *Config, p *provider, exchange *oauth2.Config, a attempt,
	code string) (identity, *oauth2.Token, error) {
	ctx = oidc.ClientContext(ctx, s.client)
	unverified := func(why string) (identity, *oauth2.Token, error) {
		return identity{}, nil, &Error{Reason: Unverified, Detail: why}
	}
	token, err := exchange.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return identity{}, nil, c.stepError(ctx, "the code", err)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return unverified("the token endpoint gave no ID token")
	}
	signed, err := p.verify(ctx, c, raw, s.o.Now)
	if err != nil {
		return identity{}, nil, c.stepError(ctx, "the ID token", err)
	}
	var claims struct {
		Party    string `json:"azp"`
		Email    string `json:"email"`
		Verified any    `json:"email_verified"`
	}
	if err := signed.Claims(&claims); err != nil {
		return unverified("the ID token's claims cannot be read")
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(signed.Nonce), []byte(a.Nonce)) != 1:
		return unverified("the ID token is of another sign-in (nonce)")
	case claims.Party != "" && claims.Party != c.ClientID, claims.Party == "" && len(signed.Audience) != 1:
		return unverified("the ID token was made for another client (azp)")
	case signed.IssuedAt.After(s.o.Now().Add(leeway)):
		return unverified("the ID token is from the future (iat): the clocks differ")
	case !ValidSubject(signed.Subject):
		return unverified("the ID token names nobody (sub)")
	}
	if signed.AccessTokenHash != "" && signed.VerifyAccessToken(token.AccessToken) != nil {
		return unverified("the access token is not the one that came with the ID token (at_hash)")
	}
	return identity{c.Issuer, signed.Subject, claims.Email, claims.Verified == true}, token, nil
}

// withEmail adds the e-mail address where it is needed and the ID token had none: some providers tell it at another
// address alone (OpenID Connect Core, section 5.4).
func (s *Service) withEmail(ctx context.Context, c *Config, p *provider, token *oauth2.Token, id identity) (identity,
	error) {
	if id.email != "" || len(c.EmailDomains) == 0 || p.says.UserInfo == "" {
		return id, nil
	}
	info, err := p.UserInfo(oidc.ClientContext(ctx, s.client), oauth2.StaticTokenSource(token))
	if err != nil {
		return identity{}, c.stepError(ctx, "the e-mail address", err)
	}
	var claims struct {
		Verified any `json:"email_verified"`
	}
	if err := info.Claims(&claims); err != nil || info.Subject != id.subject {
		return identity{}, &Error{Reason: Unverified, Detail: "the user info is somebody else's (sub)"}
	}
	id.email, id.verified = info.Email, claims.Verified == true
	return id, nil
}

// stepError says what became of a step: the provider could not be reached, or its answer does not hold.
func (c *Config) stepError(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	reason := Unverified
	said, answered := errors.AsType[*oauth2.RetrieveError](err)
	_, unreached := errors.AsType[net.Error](err)
	if unreached || answered && said.Response.StatusCode >= http.StatusInternalServerError {
		reason = Unavailable
	}
	return &Error{Reason: reason, Detail: what + ": " + c.brief(err)}
}

// brief says in a line what is wrong, without the address that was called or what was answered: an answer may repeat a
// code, a secret or a claim.
func (c *Config) brief(err error) string {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return c.line(fmt.Sprintf("the token endpoint answered %d %s", e.Response.StatusCode, e.ErrorCode))
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return c.line(e.Err.Error())
	}
	return c.line(err.Error())
}

const maxLine = 200 // bytes

// line makes what the provider wrote fit for a log.
func (c *Config) line(text string) string {
	if s := c.ClientSecret.Reveal(); s != "" {
		text = strings.ReplaceAll(text, s, c.ClientSecret.String())
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
	return strings.TrimSpace(text[:min(len(text), maxLine)])
}
