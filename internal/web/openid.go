package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"countersign/internal/auth/openid"
	"countersign/internal/auth/signin"
	"countersign/internal/ratelimitedlog"
)

const (
	openIDCallback = "/signin/openid/callback"
	openIDCookie   = "openid"
)

// openIDPages are where people sign in at a provider.
type openIDPages struct {
	openID   *openid.Service // nil: nobody does
	signIn   *signin.Service
	base     func() string
	logger   *slog.Logger
	failures ratelimitedlog.Counter // sign-ins that failed at the provider, for the log
}

func (p *openIDPages) routes() []route {
	if p.openID == nil {
		return nil
	}
	return []route{
		{method: http.MethodPost, path: "/signin/openid", audience: everyone, handle: p.begin},
		{method: http.MethodGet, path: openIDCallback, audience: everyone, handle: p.finish},
	}
}

// providerName is what the provider is called, "" where there is none.
func providerName(service *openid.Service) string {
	if service == nil {
		return ""
	}
	name, _ := service.Label()
	return name
}

// leaveData is a page that leads to another address. It is a page and no redirect, because a form of ours may lead to
// this host alone (form-action), and browsers hold what answers it to that.
type leaveData struct{ URL, Link, Text string }

// begin sends a browser to the provider.
func (p *openIDPages) begin(ctx context.Context, x *exchange) error {
	if _, err := x.Form(); err != nil {
		return err
	}
	base := strings.TrimSuffix(p.base(), "/")
	host, _ := x.readHost()
	if u, err := url.Parse(base); err == nil && !strings.EqualFold(u.Host, host) {
		// The provider sends browsers back to base, and a cookie of this address would stay here.
		to := base + pathSignIn + "?next=" + url.QueryEscape(x.takeNext())
		return x.page(http.StatusOK, "openid_leave", x.lang.Say("openid_moving"),
			leaveData{to, u.Host, x.lang.Say("openid_moving_text")})
	}
	begun, err := p.openID.Begin(ctx, base+openIDCallback)
	if err != nil {
		return p.showFailure(ctx, x, err)
	}
	http.SetCookie(x, x.cookie(openIDCookie, begun.Cookie, openid.Lifetime))
	title := x.lang.Say("openid_leaving", "name", providerName(p.openID))
	return x.page(http.StatusOK, "openid_leave", title, leaveData{begun.URL, title, x.lang.Say("openid_leaving_text")})
}

// finish takes what a browser brings back from the provider.
func (p *openIDPages) finish(ctx context.Context, x *exchange) error {
	from, kept, answer := x.origin(), x.take(openIDCookie), x.r.URL.Query()
	if p.openID.Awaits(kept, answer) { // what the provider is asked about counts
		if err := p.signIn.Attempt(from); err != nil {
			return x.noSignIn(err)
		}
	}
	found, err := p.openID.Finish(ctx, kept, answer)
	if e, ok := errors.AsType[*openid.Error](err); ok && e.Reason == openid.Unknown {
		_ = p.signIn.RefuseAccount(ctx, e.Issuer, e.Identity, from) // what they are told is told below
	}
	if err != nil {
		return p.showFailure(ctx, x, err)
	}
	secret, sess, err := p.signIn.Start(ctx, found.Person, signin.MethodOpenID,
		signin.Opener(signin.WayOpenID, found.Account), from)
	if errors.Is(err, signin.ErrRefused) { // removed meanwhile, or known otherwise
		return p.showFailure(ctx, x, &openid.Error{Reason: openid.Unknown, Detail: "not in people any more"})
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

// showFailure shows why a sign-in came to nothing. What may be wrong with the provider, or how it is set up, is
// logged, and not too often: strangers can cause it.
func (p *openIDPages) showFailure(ctx context.Context, x *exchange, err error) error {
	e, ok := errors.AsType[*openid.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e = &openid.Error{Reason: openid.Unavailable, Detail: "it took too long"}
	case !ok:
		return err
	}
	if e.Reason == openid.Unavailable || e.Reason == openid.Unverified {
		if count, log := p.failures.Add(x.now); log {
			p.logger.WarnContext(ctx, "somebody could not sign in at the provider", "reason", string(e.Reason),
				"detail", e.Detail, "failures", count)
		}
	}
	label := providerName(p.openID)
	id := "openid_" + string(e.Reason)
	return x.page(openIDStatuses[e.Reason], "openid_failed", x.lang.Say(id, "name", label),
		openIDFailure{x.lang.Say(id + "_text"), label})
}
