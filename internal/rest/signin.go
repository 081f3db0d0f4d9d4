package rest

import (
	"context"
	"errors"
	"net/http"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/auth/signin"
)

// signInLink makes a link for the caller, and for no other person.
func (s *Server) signInLink(ctx context.Context, x *exchange) error {
	if s.signIn == nil {
		return approval.Errorf(approval.CodeNotFound, "This gate has no pages.")
	}
	url, l, err := s.signIn.LinkFor(ctx, x.who.Name, x.via(), x.who.Token())
	switch {
	case errors.Is(err, signin.ErrTooMany):
		e := approval.Errorf(approval.CodeRateLimited, "You asked for too many links; wait ten minutes.")
		e.After = signin.LinkLasts
		return e
	case errors.Is(err, signin.ErrRefused): // taken back this moment
		return approval.Errorf(approval.CodeUnauthorized, "The token does not belong to anybody any more.")
	case err != nil:
		return err
	}
	return x.answer(http.StatusOK, client.SignInLink{ID: l.ID, URL: url, ExpiresAt: api.At(l.ExpiresAt)})
}
