package auth

import (
	"errors"
	"net/http"

	"countersign/approval"
	"countersign/internal/auth/bearer"
)

var (
	// ErrNoToken is what a caller gets who shows no token and is no agent without one.
	ErrNoToken = errors.New("auth: no token")
	// ErrUnknownToken is what a caller gets whose token belongs to no agent and no person.
	ErrUnknownToken = errors.New("auth: an unknown token")
)

// Callers finds out who requests come from: by their token, or without one by the way that they came.
type Callers struct {
	Directory *Directory
	Anonymous func() Anonymous // which agents callers without a token are, now; nil: none
}

// Caller is who a request comes from, and how that is known.
type Caller struct {
	approval.Actor
	token string
	bare  *http.Request // what a caller without a token sent; nil: there is a token
}

// HasToken reports whether the caller showed a token.
func (c Caller) HasToken() bool { return c.bare == nil }

// Token is what the caller showed, "" for nothing.
func (c Caller) Token() string { return c.token }

// Caller returns who r comes from. Errors: [ErrNoToken], [ErrUnknownToken].
func (c *Callers) Caller(r *http.Request) (Caller, error) {
	if len(r.Header["Authorization"]) == 0 {
		name, ok := c.admit(r)
		if !ok {
			return Caller{}, ErrNoToken
		}
		return Caller{approval.Actor{Kind: approval.Agent, Name: name}, "", r}, nil
	}
	token := bearer.Token(r)
	if token == "" {
		return Caller{}, ErrNoToken
	}
	who, ok := c.Directory.ByToken(token)
	if !ok {
		return Caller{}, ErrUnknownToken
	}
	return Caller{who, token, nil}, nil
}

// Now returns the same caller as they are now: what they may do may have changed. false: their token, or the lack of
// one, does not stand for them any more.
func (c *Callers) Now(was Caller) (Caller, bool) {
	if was.bare != nil {
		name, ok := c.admit(was.bare)
		return was, ok && name == was.Name
	}
	now, ok := c.Directory.ByToken(was.token)
	if !ok || now.Kind != was.Kind || now.Name != was.Name {
		return Caller{}, false
	}
	return Caller{now, was.token, nil}, true
}

func (c *Callers) admit(r *http.Request) (agent string, ok bool) {
	if c.Anonymous == nil {
		return "", false
	}
	return c.Anonymous().Admit(r)
}
