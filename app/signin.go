package app

import (
	"context"
	"errors"

	"countersign/approval"
	"countersign/signin"
	"countersign/web"
)

// signInURL is the address of a one-time link.
func (a *App) signInURL(token string) string {
	return a.base() + web.LinkPage(token)
}

// signInLinks makes links for those who ask over the API.
type signInLinks struct{ *App }

func (s signInLinks) LinkFor(
	ctx context.Context, person string, via approval.Via,
) (address string, l signin.Link, err error) {
	token, l, err := s.signIn.NewLink(ctx, person, via)
	if err != nil {
		return "", l, err
	}
	return s.signInURL(token), l, nil
}

// endSignIns ends the sessions of those who are not configured any more. What cannot be ended now is of no use either.
func (a *App) endSignIns(ctx context.Context) {
	n, err := a.signIn.Recheck(ctx)
	if err != nil {
		a.log.ErrorContext(ctx, "sessions of people who are not configured any more could not be ended; they see nothing, "+
			"and the next reload tries again", "error", err)
	}
	if n > 0 {
		a.log.InfoContext(ctx, "people who are not configured any more were signed out", "sessions", n)
	}
	if n, err = a.passkeys.Recheck(ctx); err != nil {
		a.log.ErrorContext(ctx, "passkeys of people who are not configured any more could not be removed; they are of no "+
			"use, and the next reload tries again", "error", err)
	}
	if n > 0 {
		a.log.InfoContext(ctx, "passkeys of people who are not configured any more were removed", "passkeys", n)
	}
}

// LinkIn makes a link for somebody who asked for it in a chat.
func (s signInLinks) LinkIn(
	ctx context.Context, tx approval.Tx, person string, via approval.Via,
) (id string, err error) {
	_, l, err := s.signIn.NewLinkIn(ctx, tx, person, via)
	if errors.Is(err, signin.ErrTooMany) {
		err = &approval.Error{Code: approval.CodeRateLimited, Message: "Too many links were asked for.", Err: err}
	}
	return l.ID, err
}

func (s signInLinks) HereOnly() bool { return s.live.Load().cfg.PublicURL == "" }
