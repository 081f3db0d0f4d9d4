package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
	"countersign/internal/chat"
	"countersign/internal/config"
	"countersign/internal/web"
)

// signIns are the links and sessions that people sign in with to the pages.
type signIns struct {
	log      *slog.Logger
	live     *inForce
	at       *listeners
	service  *signin.Service
	passkeys *passkey.Service
	chat     *chat.Service // tells the admins
}

// address is the address of a one-time link.
func (s *signIns) address(token string) string {
	return s.at.base() + web.LinkPage(token)
}

var errNowhere = approval.Errorf(approval.CodeNotFound, "The pages are nowhere that is safe to sign in: the gate "+
	"listens at an address of the network, over plain HTTP. Set public_url in its configuration to where people open "+
	"them over https.")

// LinkFor makes a link for a person who asked over the API.
func (s *signIns) LinkFor(
	ctx context.Context, person string, via approval.Via, token string,
) (address string, l signin.Link, err error) {
	if s.at.base() == "" {
		return "", l, errNowhere
	}
	made, l, err := s.service.NewLink(ctx, person, via, token)
	if err != nil {
		return "", l, err
	}
	return s.address(made), l, nil
}

// end ends the sessions of those who are not configured any more. What cannot be ended now is of no use either.
func (s *signIns) end(ctx context.Context) {
	gone, revoked, err := s.service.Recheck(ctx)
	if err != nil {
		s.log.ErrorContext(ctx, "sessions of people who are not configured any more, or that began with what was taken "+
			"back, could not be ended; they see nothing, and the next reload tries again", "error", err)
	}
	if len(gone) > 0 {
		s.log.InfoContext(ctx, "people who are not configured any more were signed out", "sessions", len(gone))
	}
	if len(revoked) > 0 {
		s.log.InfoContext(ctx, "sessions were ended that began with what was taken back", "sessions", len(revoked))
		s.tellPasskeys(ctx, revoked)
	}
	n, err := s.passkeys.Recheck(ctx)
	if err != nil {
		s.log.ErrorContext(ctx, "passkeys of people who are not configured any more could not be removed; they are of no "+
			"use, and the next reload tries again", "error", err)
	}
	if n > 0 {
		s.log.InfoContext(ctx, "passkeys of people who are not configured any more were removed", "passkeys", n)
	}
}

// LinkIn makes a link for a person who asked for it in a chat.
func (s *signIns) LinkIn(
	ctx context.Context, tx approval.Tx, person string, via approval.Via, from string,
) (id string, err error) {
	if s.at.base() == "" {
		return "", errNowhere
	}
	_, l, err := s.service.NewLinkIn(ctx, tx, person, via, from)
	switch {
	case errors.Is(err, signin.ErrTooMany):
		err = &approval.Error{Code: approval.CodeRateLimited, Message: "Too many links were asked for.", Err: err}
	case errors.Is(err, signin.ErrRefused):
		err = &approval.Error{Code: approval.CodeUnauthorized, Message: "Nobody is known by that address any more.", Err: err}
	}
	return l.ID, err
}

func (s *signIns) HereOnly() bool { return s.live.Load().cfg.PublicURL == "" }

// tellPasskeys names the passkeys that people have since sessions of theirs began that ended because what they began
// with was taken back: the one who had that may have added one, and it signs in yet.
func (s *signIns) tellPasskeys(ctx context.Context, revoked []signin.Session) {
	since := map[string]time.Time{}
	for _, s := range revoked {
		if at, ok := since[s.Person]; !ok || s.CreatedAt.Before(at) {
			since[s.Person] = s.CreatedAt
		}
	}
	var added []string
	for _, person := range slices.Sorted(maps.Keys(since)) {
		keys, err := s.passkeys.Of(ctx, person)
		if err != nil {
			s.log.ErrorContext(ctx, "the passkeys could not be read that may have been added in a session that was ended",
				"person", person, "error", err)
			continue
		}
		for _, k := range keys {
			if k.AddedAt.Before(since[person]) {
				continue
			}
			s.log.WarnContext(ctx, "a passkey may have been added by whoever had what was taken back; its owner must "+
				"remove it if they do not know it", "person", person, "passkey", k.Name, "added", k.AddedAt)
			added = append(added, person+": "+k.Name)
		}
	}
	if len(added) == 0 {
		return
	}
	if err := s.chat.PasskeysInDoubt(ctx, added); err != nil {
		s.log.ErrorContext(ctx, "the admins could not be told of passkeys in doubt", "error", err)
	}
}

// opener names what a person has by the configuration in force to sign in with by one way; see [signin.Options].
func (f *inForce) opener(person, way string) string {
	cfg := f.Load().cfg
	i := slices.IndexFunc(cfg.File.People, func(p config.Person) bool { return p.Name == person })
	if i < 0 {
		return ""
	}
	has := ""
	switch p := cfg.File.People[i]; way {
	case signin.FromTerminal:
		has = p.Token.Reveal()
	case signin.WayOpenID:
		if o := cfg.SignIn.OpenID; o != nil {
			has = o.Account(p.AtProvider())
		}
	default:
		if cfg.Channels[way] != nil { // without its section no person is reached there
			has = p.Addresses[way].Reveal()
		}
	}
	return signin.Opener(way, has)
}
