// Package openidtest is an OpenID Connect provider for tests, which tells the truth until it is told to lie.
//
// It checks what a careful provider checks of a client: the redirect address, PKCE, the client's secret, and that a
// code is used once. Every browser that comes to it is signed in at once, as its user. It shares no code with the
// client that it is there to try: its tokens are made with go-jose, or by hand where no library would make them.
package openidtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The client that every provider knows.
const (
	ClientID     = "countersign"
	ClientSecret = "openid-test-client-secret"
)

// User is whom a provider signs in.
type User struct {
	Subject  string
	Email    string // "": it tells none
	Verified bool
}

// Lies are what a provider does that it should not; the zero Lies are none. A function is given what the truth would
// be.
type Lies struct {
	// Metadata changes what it says of itself.
	Metadata func(map[string]any)
	// Claims changes what the token says.
	Claims func(map[string]any)
	// Sign makes the token of its claims.
	Sign func(p *Provider, claims []byte) string
	// Back changes what the browser brings back.
	Back func(url.Values)
	// UserInfo changes what it says of the user beside the token.
	UserInfo func(map[string]any)
	// Handle takes a request in place of the provider; false: it is left to the provider.
	Handle func(w http.ResponseWriter, r *http.Request) bool
}

// Options are what a [Provider] is made of. Now is required.
type Options struct {
	Now func() time.Time
	// Redirect is the one address that browsers are sent back to; "": any.
	Redirect string
	// Public is a provider that knows the client without a secret.
	Public bool
	// Apart tells the e-mail address at the user info endpoint alone.
	Apart bool
}

// Provider is a running provider. Its methods are safe for concurrent use.
type Provider struct {
	o      Options
	server *httptest.Server
	key    *ecdsa.PrivateKey

	mu       sync.Mutex
	kid      string
	user     User
	lies     Lies
	codes    map[string]grant
	tokens   map[string]User
	requests map[string]int // by path
}

// grant is what a code stands for.
type grant struct {
	user                       User
	nonce, challenge, redirect string
}

// New starts a provider that runs until the test ends.
func New(t testing.TB, o Options) *Provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{o: o, key: key, kid: "first", user: User{Subject: "subject-1"}, codes: map[string]grant{},
		tokens: map[string]User{}, requests: map[string]int{}}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.server.Close)
	return p
}

// Issuer is the provider's name and address.
func (p *Provider) Issuer() string { return p.server.URL }

// SignIn makes u the user who comes from now on.
func (p *Provider) SignIn(u User) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.user = u
}

// Lie makes the provider do so from now on.
func (p *Provider) Lie(l Lies) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lies = l
}

// Rotate makes the provider sign with a key that it did not have before.
func (p *Provider) Rotate(t testing.TB) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, p.kid+"-next"
}

// Requests tells how often a path was asked for.
func (p *Provider) Requests(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[path]
}

// Visit does what a browser does at the provider: it opens the address, and returns the query that the provider sends
// it back with.
func (p *Provider) Visit(t testing.TB, address string) url.Values {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	back, err := res.Location()
	if err != nil {
		t.Fatalf("the provider answered %s and sent nobody back: %v", res.Status, err)
	}
	return back.Query()
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests[r.URL.Path]++
	handle := p.lies.Handle
	p.mu.Unlock()
	if handle != nil && handle(w, r) { // without the lock: it may take its time
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		p.metadata(w)
	case "/authorize":
		p.authorize(w, r)
	case "/token":
		p.token(w, r)
	case "/keys":
		answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.public()}})
	case "/userinfo":
		p.userInfo(w, r)
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the connection is the client's to judge
}

func (p *Provider) metadata(w http.ResponseWriter) {
	at := p.server.URL
	says := map[string]any{
		"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token",
		"jwks_uri": at + "/keys", "userinfo_endpoint": at + "/userinfo",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported":          []string{"ES256"},
		"authorization_response_iss_parameter_supported": true,
	}
	if p.lies.Metadata != nil {
		p.lies.Metadata(says)
	}
	answer(w, http.StatusOK, says)
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	to, err := url.Parse(q.Get("redirect_uri"))
	wrong := err != nil || p.o.Redirect != "" && q.Get("redirect_uri") != p.o.Redirect ||
		q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		q.Get("code_challenge") == "" || q.Get("state") == "" || q.Get("nonce") == ""
	if wrong {
		http.Error(w, "this request is none that the client may make", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.codes[code] = grant{p.user, q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri")}
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.server.URL}}
	if p.lies.Back != nil {
		p.lies.Back(back)
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if !p.knows(r) {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	g, ok := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	proved := base64.RawURLEncoding.EncodeToString(sum[:]) == g.challenge
	if !ok || !proved || r.PostFormValue("redirect_uri") != g.redirect {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	access := rand.Text()
	p.tokens[access] = g.user
	answer(w, http.StatusOK, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 300,
		"id_token": p.idToken(g)})
}

// knows reports whether a request is the client's.
func (p *Provider) knows(r *http.Request) bool {
	id, password, basic := r.BasicAuth()
	if p.o.Public {
		return !basic && r.PostFormValue("client_id") == ClientID && !r.PostForm.Has("client_secret")
	}
	if !basic {
		id, password = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	return id == ClientID && password == ClientSecret
}

func (p *Provider) idToken(g grant) string {
	now := p.o.Now()
	claims := map[string]any{"iss": p.server.URL, "aud": ClientID, "sub": g.user.Subject, "nonce": g.nonce,
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix()}
	if g.user.Email != "" && !p.o.Apart {
		claims["email"], claims["email_verified"] = g.user.Email, g.user.Verified
	}
	if p.lies.Claims != nil {
		p.lies.Claims(claims)
	}
	plain := encode(claims)
	if p.lies.Sign != nil {
		return p.lies.Sign(p, plain)
	}
	return Sign(jose.ES256, jose.JSONWebKey{Key: p.key, KeyID: p.kid}, plain)
}

// userInfo answers a client that shows an access token.
func (p *Provider) userInfo(w http.ResponseWriter, r *http.Request) {
	var u User
	found := false
	for token, of := range p.tokens {
		if r.Header.Get("Authorization") == "Bearer "+token {
			u, found = of, true
		}
	}
	if !found {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token"})
		return
	}
	says := map[string]any{"sub": u.Subject}
	if u.Email != "" {
		says["email"], says["email_verified"] = u.Email, u.Verified
	}
	if p.lies.UserInfo != nil {
		p.lies.UserInfo(says)
	}
	answer(w, http.StatusOK, says)
}

func (p *Provider) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: p.key.Public(), KeyID: p.kid, Algorithm: string(jose.ES256), Use: "sig"}
}

// PublicKey is what clients know of the key.
func (p *Provider) PublicKey() jose.JSONWebKey { return p.public() }

// Sign makes a token of claims.
func Sign(algorithm jose.SignatureAlgorithm, key any, claims []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	if err != nil {
		panic(err) // of a test that has the wrong key
	}
	return compact(signer, claims)
}

func compact(signer jose.Signer, claims []byte) string {
	signed, err := signer.Sign(claims)
	if err != nil {
		panic(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

// Unsigned makes a token whose header says that it is not signed.
func Unsigned(claims []byte) string {
	raw := base64.RawURLEncoding
	return raw.EncodeToString([]byte(`{"alg":"none"}`)) + "." + raw.EncodeToString(claims) + "."
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// SignWithKeyInside makes a token whose header brings the key along that it is to be verified with.
func SignWithKeyInside(key *ecdsa.PrivateKey, claims []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		panic(err)
	}
	return compact(signer, claims)
}
