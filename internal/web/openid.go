package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"countersign/internal/auth/openid"
	"countersign/internal/auth/signin"
)

const (
	openIDCallback = "/signin/openid/callback"
	openIDCookie   = "openid"
)

func (s *Server) openIDRoutes() []route {
	if s.OpenID == nil {
		return nil
	}
	return []route{
		{method: http.MethodPost, path: "/signin/openid", audience: everyone, handle: s.beginOpenID},
		{method: http.MethodGet, path: openIDCallback, audience: everyone, handle: s.finishOpenID},
	}
}

// providerName is what the provider is called, "" where there is none.
func (s *Server) providerName() string {
	if s.OpenID == nil {
		return ""
	}
	name, _ := s.OpenID.Label()
	return name
}

// leaveData is a page that leads to another address. It is a page and no redirect, because a form of ours may lead to
// this host alone (form-action), and browsers hold what answers it to that.
type leaveData struct{ URL, Link, Text string }

// beginOpenID sends a browser to the provider.
func (s *Server) beginOpenID(ctx context.Context, x *exchange) error {
	if _, err := x.Form(); err != nil {
		return err
	}
	base := strings.TrimSuffix(s.Base(), "/")
	host, _ := x.reached()
	if u, err := url.Parse(base); err == nil && !strings.EqualFold(u.Host, host) {
		// The provider sends browsers back to base, and a cookie of this address would stay here.
		to := base + pathSignIn + "?next=" + url.QueryEscape(x.takeNext())
		return x.page(http.StatusOK, "openid_leave", x.lang.Say("openid_moving"),
			leaveData{to, u.Host, x.lang.Say("openid_moving_text")})
	}
	begun, err := s.OpenID.Begin(ctx, base+openIDCallback)
	if err != nil {
		return s.openIDFailed(ctx, x, err)
	}
	http.SetCookie(x, x.cookie(openIDCookie, begun.Cookie, openid.Lifetime))
	title := x.lang.Say("openid_leaving", "name", s.providerName())
	return x.page(http.StatusOK, "openid_leave", title, leaveData{begun.URL, title, x.lang.Say("openid_leaving_text")})
}

// finishOpenID takes what a browser brings back from the provider.
func (s *Server) finishOpenID(ctx context.Context, x *exchange) error {
	from, kept, answer := x.origin(), x.take(openIDCookie), x.r.URL.Query()
	if s.OpenID.Awaits(kept, answer) { // what the provider is asked about counts
		if err := s.SignIn.Attempt(from); err != nil {
			return x.noSignIn(err)
		}
	}
	found, err := s.OpenID.Finish(ctx, kept, answer)
	if e, ok := errors.AsType[*openid.Error](err); ok && e.Reason == openid.Unknown {
		_ = s.SignIn.RefuseAccount(ctx, e.Issuer, e.Identity, from) // what they are told is told below
	}
	if err != nil {
		return s.openIDFailed(ctx, x, err)
	}
	secret, sess, err := s.SignIn.Start(ctx, found.Person, signin.MethodOpenID,
		signin.Opener(signin.WayOpenID, found.Account), from)
	if errors.Is(err, signin.ErrRefused) { // removed meanwhile, or known otherwise
		return s.openIDFailed(ctx, x, &openid.Error{Reason: openid.Unknown, Detail: "not in people any more"})
	}
	if err != nil {
		return x.noSignIn(err)
	}
	return x.SignedIn(ctx, secret, sess)
}

// openIDStatuses are what reasons mean over HTTP.
var openIDStatuses = map[openid.Reason]int{
	openid.Off:         http.StatusNotFound,
	openid.Unavailable: http.StatusServiceUnavailable,
	openid.Stale:       http.StatusBadRequest,
	openid.Declined:    http.StatusForbidden,
	openid.Unverified:  http.StatusForbidden,
	openid.Unknown:     http.StatusForbidden,
}

// openIDFailure is what the page says of a sign-in that came to nothing.
type openIDFailure struct{ Text, Label string }

// openIDFailed shows why a sign-in came to nothing. What may be wrong with the provider, or how it is set up, is
// logged, and not too often: strangers can cause it.
func (s *Server) openIDFailed(ctx context.Context, x *exchange, err error) error {
	e, ok := errors.AsType[*openid.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e = &openid.Error{Reason: openid.Unavailable, Detail: "it took too long"}
	case !ok:
		return err
	}
	if e.Reason == openid.Unavailable || e.Reason == openid.Unverified {
		if count, log := s.openIDFailures.Add(x.now); log {
			s.Logger.WarnContext(ctx, "somebody could not sign in at the provider", "reason", string(e.Reason),
				"detail", e.Detail, "failures", count)
		}
	}
	label := s.providerName()
	id := "openid_" + string(e.Reason)
	return x.page(openIDStatuses[e.Reason], "openid_failed", x.lang.Say(id, "name", label),
		openIDFailure{x.lang.Say(id + "_text"), label})
}
