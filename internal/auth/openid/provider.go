package openid

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"countersign/internal/loopback"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// freshFor is how long what a provider says of itself is taken to hold.
	freshFor = time.Hour
	// usableFor is how long it is gone by where the provider cannot be asked again.
	usableFor = 24 * time.Hour
	// retryAfter is how long a provider that failed to answer is left alone.
	retryAfter = 5 * time.Second
)

// signatures are what an ID token may be signed with: with what a provider alone has. Those with a shared secret, and
// none at all, are not among them, whatever a provider says of itself.
var signatures = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// provider is what a provider says of itself.
type provider struct {
	*oidc.Provider
	says    metadata
	keys    oidc.KeySet
	learned time.Time
}

// metadata is what is looked at beside what go-oidc looks at: OpenID Connect Discovery, section 3, and RFC 9207.
type metadata struct {
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Keys          string   `json:"jwks_uri"`
	UserInfo      string   `json:"userinfo_endpoint"`
	Auth          []string `json:"token_endpoint_auth_methods_supported"`
	NamesIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
}

var errNoEndpoint = errors.New("it names no address where it has to, or one that is neither https nor this machine")

// issuerError is that a provider calls itself otherwise than it is written here. Names are compared to the letter, and
// some providers' end in a slash.
type issuerError struct{ written, is string }

func (e *issuerError) Error() string { return e.do() + ", as it calls itself" }

// do is the remedy. Where more than slashes differs, the provider may be another than the one that is meant.
func (e *issuerError) do() string {
	write := "write sign_in.openid.issuer: " + e.is
	if strings.TrimRight(e.is, "/") != strings.TrimRight(e.written, "/") {
		return "if the provider there is the one that you mean, " + write
	}
	return write
}

// Ask asks the provider what it says of itself. It returns what is wrong, "" where people can sign in there, and what
// to do about it.
func (c *Config) Ask(ctx context.Context) (wrong, do string) {
	client := newClient(defaultTimeout)
	defer client.CloseIdleConnections()
	p, err := ask(ctx, client, c.Issuer, time.Time{})
	if err == nil {
		_, err = p.exchange(c, "")
	}
	other, named := errors.AsType[*issuerError](err)
	switch {
	case err == nil:
		return "", ""
	case named:
		return c.line("it calls itself " + other.is), c.line(other.do())
	}
	return c.brief(err), "look at sign_in.openid.issuer, and whether this machine reaches it"
}

// ask fetches what a provider says of itself.
func ask(ctx context.Context, client *http.Client, issuer string, now time.Time) (*provider, error) {
	p, err := oidc.NewProvider(oidc.ClientContext(ctx, client), issuer)
	if e, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return nil, &issuerError{issuer, e.Discovered}
	}
	if err != nil {
		return nil, err
	}
	own := &provider{Provider: p, learned: now}
	if err := p.Claims(&own.says); err != nil {
		return nil, err
	}
	here := isHere(issuer)
	for _, at := range []string{own.says.Authorization, own.says.Token, own.says.Keys} {
		if !safe(at, here) {
			return nil, errNoEndpoint
		}
	}
	if at := own.says.UserInfo; at != "" && !safe(at, here) {
		return nil, errNoEndpoint
	}
	own.keys = oidc.NewRemoteKeySet(oidc.ClientContext(ctx, client), own.says.Keys)
	return own, nil
}

// verify returns what a signed token says, as far as go-oidc judges it.
func (p *provider) verify(ctx context.Context, c *Config, raw string, now func() time.Time) (*oidc.IDToken, error) {
	keys := &witness{KeySet: p.keys}
	token, err := oidc.NewVerifier(c.Issuer, keys, &oidc.Config{ClientID: c.ClientID, SupportedSigningAlgs: signatures,
		Now: now}).Verify(ctx, raw)
	if err != nil && keys.err != nil {
		return nil, keys.err
	}
	return token, err
}

// witness keeps the error of a key set, of which the verifier passes on the text alone.
type witness struct {
	oidc.KeySet
	err error
}

func (w *witness) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := w.KeySet.VerifySignature(ctx, jwt)
	w.err = err
	return payload, err
}

func isHere(address string) bool {
	u, err := url.Parse(address)
	return err == nil && loopback.IsHost(u.Hostname())
}

// safe reports whether a provider may send us, or a browser, to an address: to this machine only where it is there
// itself.
func safe(address string, here bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	if loopback.IsHost(u.Hostname()) {
		return here && (u.Scheme == "http" || u.Scheme == "https")
	}
	return u.Scheme == "https"
}

// readProvider returns what the provider says of itself, from memory where that is fresh. One caller at a time asks;
// the others wait for what it learns.
func (s *Service) readProvider(ctx context.Context, to *settings) (*provider, error) {
	select {
	case to.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-to.asking }()
	now := s.o.Now()
	if p := to.provider; p != nil && isFresh(now, p.learned, freshFor) {
		return p, nil
	}
	if to.failure == nil || !isFresh(now, to.failed, retryAfter) {
		p, err := ask(ctx, s.client, to.cfg.Issuer, now)
		if err == nil {
			to.provider, to.failure = p, nil
			return p, nil
		}
		if ctx.Err() != nil { // the caller has gone, which says nothing of the provider
			return nil, ctx.Err()
		}
		to.failed, to.failure = now, err
	}
	if p := to.provider; p != nil && isFresh(now, p.learned, usableFor) {
		return p, nil
	}
	return nil, to.failure
}

func isFresh(now, since time.Time, d time.Duration) bool {
	age := now.Sub(since)
	return age >= 0 && age < d
}

// How a client says who it is at the token endpoint: OpenID Connect Core, section 9.
const (
	inHeader = "client_secret_basic"
	inForm   = "client_secret_post"
)

// exchange is how codes become tokens.
func (p *provider) exchange(c *Config, redirect string) (*oauth2.Config, error) {
	e := p.Endpoint()
	switch {
	case c.ClientSecret == "":
		e.AuthStyle = oauth2.AuthStyleInParams
	case len(p.says.Auth) == 0, slices.Contains(p.says.Auth, inHeader):
		e.AuthStyle = oauth2.AuthStyleInHeader
	case slices.Contains(p.says.Auth, inForm):
		e.AuthStyle = oauth2.AuthStyleInParams
	default:
		return nil, fmt.Errorf("it takes a client's secret neither by %s nor by %s", inHeader, inForm)
	}
	return &oauth2.Config{ClientID: c.ClientID, ClientSecret: c.ClientSecret.Reveal(), Endpoint: e,
		RedirectURL: redirect, Scopes: c.scopes()}, nil
}
