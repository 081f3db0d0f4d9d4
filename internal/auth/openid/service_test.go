package openid_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/internal/auth/openid"
	"countersign/internal/auth/openid/openidtest"
	"countersign/internal/secret"
	"countersign/internal/testkit"

	"github.com/go-jose/go-jose/v4"
)

const redirect = "https://gate.example.com/signin/openid/callback"

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// world is a provider, and a service that signs people in there.
type world struct {
	*openidtest.Provider
	clock   *testkit.Clock
	service *openid.Service
	cfg     openid.Config
	people  []openid.Person
}

var everybody = []openid.Person{{Name: "hana", Subject: "subject-1"}, {Name: "ken", Email: "Ken@Example.com"}}

// otherKey is a key that no provider here has.
func otherKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func newWorld(t *testing.T, o openidtest.Options) *world {
	t.Helper()
	w := &world{clock: testkit.NewClock(start), people: everybody}
	o.Now, o.Redirect = w.clock.Now, redirect
	w.Provider = openidtest.New(t, o)
	w.cfg = openid.Config{Issuer: w.Issuer(), ClientID: openidtest.ClientID, ClientSecret: openidtest.ClientSecret,
		EmailDomains: []string{"example.com"}}
	if o.Public {
		w.cfg.ClientSecret = ""
	}
	w.service = openid.New(openid.Options{Now: w.clock.Now, Timeout: testkit.Patience})
	t.Cleanup(w.service.Close)
	w.service.Configure(&w.cfg, w.people)
	return w
}

// signIn is a whole sign-in by one browser.
func (w *world) signIn(t *testing.T) (string, error) {
	t.Helper()
	begun, err := w.service.Begin(t.Context(), redirect)
	if err != nil {
		return "", err
	}
	return w.finish(t, begun.Cookie, w.Visit(t, begun.URL))
}

// finish returns whose sign-in ended.
func (w *world) finish(t *testing.T, cookie string, answer url.Values) (string, error) {
	t.Helper()
	found, err := w.service.Finish(t.Context(), cookie, answer)
	return found.Person, err
}

func reasonOf(t *testing.T, err error) openid.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*openid.Error](err)
	if !ok {
		t.Fatalf("an error of another kind: %v", err)
	}
	if strings.Contains(e.Error(), openidtest.ClientSecret) || strings.ContainsAny(e.Error(), "\r\n") {
		t.Errorf("the error shows a secret, or is not one line: %q", e)
	}
	return e.Reason
}

func TestSignIn(t *testing.T) {
	for name, c := range map[string]struct {
		o    openidtest.Options
		user openidtest.User
		want string
	}{
		"by subject": {openidtest.Options{}, openidtest.User{Subject: "subject-1"}, "hana"},
		"by subject, whatever the mail": {openidtest.Options{}, openidtest.User{Subject: "subject-1",
			Email: "ken@example.com", Verified: true}, "hana"},
		"by e-mail": {openidtest.Options{}, openidtest.User{Subject: "subject-2", Email: "ken@example.com",
			Verified: true}, "ken"},
		"by e-mail, told apart": {openidtest.Options{Apart: true}, openidtest.User{Subject: "subject-2",
			Email: "ken@example.com", Verified: true}, "ken"},
		"a client without a secret": {openidtest.Options{Public: true}, openidtest.User{Subject: "subject-1"}, "hana"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.o)
			w.SignIn(c.user)
			got, err := w.signIn(t)
			if err != nil || got != c.want {
				t.Errorf("got %q, %v; want %s", got, err, c.want)
			}
		})
	}
}

// What goes to the provider: nothing that lets anybody but this browser use the answer.
func TestTheAddressAtTheProvider(t *testing.T) {
	w := newWorld(t, openidtest.Options{})
	begin := func() (openid.Begun, url.Values) {
		begun, err := w.service.Begin(t.Context(), redirect)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(begun.URL)
		if err != nil || !strings.HasPrefix(begun.URL, w.Issuer()+"/authorize?") {
			t.Fatalf("%s: %v", begun.URL, err)
		}
		return begun, u.Query()
	}
	first, q := begin()
	second, r := begin()
	for name, want := range map[string]string{"client_id": openidtest.ClientID, "response_type": "code",
		"redirect_uri": redirect, "scope": "openid email", "code_challenge_method": "S256"} {
		if q.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, q.Get(name), want)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if len(q.Get(name)) < 26 || q.Get(name) == r.Get(name) {
			t.Errorf("%s is %q and then %q: too short, or the same", name, q.Get(name), r.Get(name))
		}
	}
	cookie, err := base64.RawURLEncoding.DecodeString(first.Cookie)
	if err != nil {
		t.Fatalf("the cookie %s: %v", first.Cookie, err)
	}
	for _, text := range []string{q.Get("state"), q.Get("nonce"), redirect} {
		if json.Valid(cookie) || bytes.Contains(cookie, []byte(text)) {
			t.Errorf("the cookie can be read: %q", cookie)
		}
	}
	if first.Cookie == second.Cookie || len(first.Cookie) > 3000 {
		t.Errorf("two cookies are the same, or too long for a browser (%d)", len(first.Cookie))
	}
	if strings.Contains(first.URL, openidtest.ClientSecret) || q.Has("code_verifier") {
		t.Error("the address has a secret in it")
	}
}

func TestAttack(t *testing.T) {
	claim := func(name string, value any) openidtest.Lies {
		return openidtest.Lies{Claims: func(c map[string]any) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}}
	}
	back := func(fn func(url.Values)) openidtest.Lies { return openidtest.Lies{Back: fn} }
	for name, c := range map[string]struct {
		lies openidtest.Lies
		want openid.Reason
	}{
		"nothing wrong": {openidtest.Lies{}, ""},

		"another nonce":           {claim("nonce", "of another sign-in"), openid.Unverified},
		"no nonce":                {claim("nonce", nil), openid.Unverified},
		"another audience":        {claim("aud", "somebody-else"), openid.Unverified},
		"no audience":             {claim("aud", nil), openid.Unverified},
		"two audiences, no party": {claim("aud", []string{openidtest.ClientID, "somebody-else"}), openid.Unverified},
		"made for another party":  {claim("azp", "somebody-else"), openid.Unverified},
		"another issuer":          {claim("iss", "https://accounts.example.com"), openid.Unverified},
		"an issuer with a slash": {openidtest.Lies{Claims: func(c map[string]any) { c["iss"] = c["iss"].(string) + "/" }},
			openid.Unverified},
		"expired":                   {claim("exp", start.Add(-time.Second).Unix()), openid.Unverified},
		"no expiry":                 {claim("exp", nil), openid.Unverified},
		"issued in the future":      {claim("iat", start.Add(time.Hour).Unix()), openid.Unverified},
		"not valid yet":             {claim("nbf", start.Add(time.Hour).Unix()), openid.Unverified},
		"no subject":                {claim("sub", nil), openid.Unverified},
		"a subject that is no text": {claim("sub", 1), openid.Unverified},
		"a subject beyond ASCII":    {claim("sub", "subject-1\u200b"), openid.Unverified},
		"a subject without an end":  {claim("sub", strings.Repeat("1", 256)), openid.Unverified},
		"another access token":      {claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), openid.Unverified},

		"not signed (alg none)": {openidtest.Lies{Sign: func(_ *openidtest.Provider, c []byte) string {
			return openidtest.Unsigned(c)
		}}, openid.Unverified},
		"signed with the client's secret (HS256)": {openidtest.Lies{Sign: func(_ *openidtest.Provider, c []byte) string {
			return openidtest.Sign(jose.HS256, []byte(strings.Repeat(openidtest.ClientSecret, 2)), c)
		}}, openid.Unverified},
		"signed with the public key as a secret (HS256)": {openidtest.Lies{Sign: func(p *openidtest.Provider,
			c []byte) string {
			public, err := p.PublicKey().MarshalJSON()
			if err != nil {
				panic(err)
			}
			return openidtest.Sign(jose.HS256, public, c)
		}}, openid.Unverified},
		"signed with somebody else's key": {openidtest.Lies{Sign: func(p *openidtest.Provider, c []byte) string {
			return openidtest.Sign(jose.ES256, jose.JSONWebKey{Key: otherKey(), KeyID: p.PublicKey().KeyID}, c)
		}}, openid.Unverified},
		"signed with a key that it brings along": {openidtest.Lies{Sign: func(_ *openidtest.Provider, c []byte) string {
			return openidtest.SignWithKeyInside(otherKey(), c)
		}}, openid.Unverified},
		"no token": {openidtest.Lies{Sign: func(*openidtest.Provider, []byte) string { return "" }},
			openid.Unverified},
		"half a token": {openidtest.Lies{Sign: func(_ *openidtest.Provider, c []byte) string {
			return strings.TrimSuffix(openidtest.Unsigned(c), ".")
		}}, openid.Unverified},
		"a token of text": {openidtest.Lies{Sign: func(*openidtest.Provider, []byte) string { return "hana" }},
			openid.Unverified},

		"another state": {back(func(q url.Values) { q.Set("state", "of another browser") }), openid.Stale},
		"no state":      {back(func(q url.Values) { q.Del("state") }), openid.Stale},
		"two states":    {back(func(q url.Values) { q.Add("state", "another") }), openid.Stale},
		"another issuer in the answer": {back(func(q url.Values) { q.Set("iss", "https://accounts.example.com") }),
			openid.Unverified},
		"no issuer in the answer":   {back(func(q url.Values) { q.Del("iss") }), openid.Unverified},
		"two issuers in the answer": {back(func(q url.Values) { q.Add("iss", q.Get("iss")) }), openid.Unverified},
		"no code":                   {back(func(q url.Values) { q.Del("code") }), openid.Unverified},
		"two codes":                 {back(func(q url.Values) { q.Add("code", "another") }), openid.Unverified},
		"somebody else's code":      {back(func(q url.Values) { q.Set("code", "another") }), openid.Unverified},
		"the person said no": {back(func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }),
			openid.Declined},
		"an error of several lines": {back(func(q url.Values) { q.Set("error", "x\r\nlevel=ERROR msg=forged") }),
			openid.Declined},
		"an error beside the right code": {back(func(q url.Values) { q.Set("error", "server_error") }), openid.Declined},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, openidtest.Options{})
			w.Lie(c.lies)
			got, err := w.signIn(t)
			if reason := reasonOf(t, err); reason != c.want {
				t.Errorf("got %q, %v; want the reason %q", got, err, c.want)
			}
			if c.want != "" && got != "" {
				t.Errorf("%s is signed in", got)
			}
		})
	}
}

func TestTheMailThatIsBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		user openidtest.User
		lies openidtest.Lies
		want string
	}{
		"verified":     {openidtest.User{Email: "ken@example.com", Verified: true}, openidtest.Lies{}, "ken"},
		"in capitals":  {openidtest.User{Email: "KEN@EXAMPLE.COM", Verified: true}, openidtest.Lies{}, "ken"},
		"not verified": {openidtest.User{Email: "ken@example.com"}, openidtest.Lies{}, ""},
		"verified is a text": {openidtest.User{Email: "ken@example.com"},
			openidtest.Lies{Claims: func(c map[string]any) { c["email_verified"] = "true" }}, ""},
		"verified is a number": {openidtest.User{Email: "ken@example.com"},
			openidtest.Lies{Claims: func(c map[string]any) { c["email_verified"] = 1 }}, ""},
		"nothing said of verified": {openidtest.User{Email: "ken@example.com"},
			openidtest.Lies{Claims: func(c map[string]any) { delete(c, "email_verified") }}, ""},
		"another domain": {openidtest.User{Email: "ken@example.org", Verified: true}, openidtest.Lies{}, ""},
		"a domain below it": {openidtest.User{Email: "ken@mail.example.com", Verified: true}, openidtest.Lies{},
			""},
		"a domain that ends in it": {openidtest.User{Email: "ken@badexample.com", Verified: true}, openidtest.Lies{}, ""},
		"a domain that begins with it": {openidtest.User{Email: "ken@example.com.evil.org", Verified: true},
			openidtest.Lies{}, ""},
		"a dot at its end":    {openidtest.User{Email: "ken@example.com.", Verified: true}, openidtest.Lies{}, ""},
		"a Cyrillic letter":   {openidtest.User{Email: "ken@еxample.com", Verified: true}, openidtest.Lies{}, ""},
		"a full-width letter": {openidtest.User{Email: "ken@ｅxample.com", Verified: true}, openidtest.Lies{}, ""},
		"a full-width dot":    {openidtest.User{Email: "ken@example。com", Verified: true}, openidtest.Lies{}, ""},
		"the Kelvin sign":     {openidtest.User{Email: "\u212aen@example.com", Verified: true}, openidtest.Lies{}, ""},
		"a zero-width space":  {openidtest.User{Email: "ken@example\u200b.com", Verified: true}, openidtest.Lies{}, ""},
		"a zero byte": {openidtest.User{Email: "ken@example.com\x00.evil.org", Verified: true},
			openidtest.Lies{}, ""},
		"two addresses": {openidtest.User{Email: "ken@evil.org,ken@example.com", Verified: true},
			openidtest.Lies{}, ""},
		"a quoted local part": {openidtest.User{Email: `"ken@example.com"@evil.org`, Verified: true}, openidtest.Lies{},
			""},
		"a name beside the address": {openidtest.User{Email: "Ken <ken@example.com>", Verified: true}, openidtest.Lies{}, ""},
		"an extension":              {openidtest.User{Email: "ken+x@example.com", Verified: true}, openidtest.Lies{}, ""},
		"whoever has a subject":     {openidtest.User{Email: "mei@example.com", Verified: true}, openidtest.Lies{}, ""},
		"no address":                {openidtest.User{}, openidtest.Lies{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, openidtest.Options{})
			w.service.Configure(&w.cfg, append(w.people, openid.Person{Name: "mei", Subject: "subject-3",
				Email: "mei@example.com"}))
			c.user.Subject = "subject-2"
			w.SignIn(c.user)
			w.Lie(c.lies)
			got, err := w.signIn(t)
			if got != c.want || c.want == "" && reasonOf(t, err) != openid.Unknown {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestTheMailToldApartIsTheSamePersons(t *testing.T) {
	w := newWorld(t, openidtest.Options{Apart: true})
	w.SignIn(openidtest.User{Subject: "subject-2", Email: "ken@example.com", Verified: true})
	w.Lie(openidtest.Lies{UserInfo: func(says map[string]any) { says["sub"] = "subject-3" }})
	if got, err := w.signIn(t); reasonOf(t, err) != openid.Unverified {
		t.Errorf("somebody else's user info: %q, %v", got, err)
	}
	w.Lie(openidtest.Lies{UserInfo: func(says map[string]any) { says["email_verified"] = "true" }})
	if got, err := w.signIn(t); reasonOf(t, err) != openid.Unknown {
		t.Errorf("verified is a text: %q, %v", got, err)
	}
	w.cfg.EmailDomains = nil
	w.service.Configure(&w.cfg, w.people)
	w.Lie(openidtest.Lies{})
	asked := w.Requests("/userinfo")
	if got, err := w.signIn(t); reasonOf(t, err) != openid.Unknown || w.Requests("/userinfo") != asked {
		t.Errorf("without email_domains: %q, %v; the user info was asked for %d times", got, err,
			w.Requests("/userinfo")-asked)
	}
}

// Whoever is nobody here learns nothing, and leaves nothing of themselves but what tells one account from another.
func TestAnUnknownPerson(t *testing.T) {
	w := newWorld(t, openidtest.Options{})
	seen := map[string]string{}
	for _, u := range []openidtest.User{
		{Subject: "subject-8", Email: "ken@example.com"}, {Subject: "subject-9", Email: "nobody@example.com", Verified: true},
		{Subject: "subject-9", Email: "ken@evil.org", Verified: true},
		{Subject: "subject-11"}, {Subject: "SUBJECT-1"}, {Subject: "subject-1 "}, {Subject: "hana"},
		{Subject: "ken@example.com"},
	} {
		w.SignIn(u)
		_, err := w.signIn(t)
		e, ok := errors.AsType[*openid.Error](err)
		if !ok || e.Reason != openid.Unknown || e.Issuer != w.Issuer() || len(e.Identity) != 32 {
			t.Fatalf("%+v: %v", u, err)
		}
		if s := e.Error() + e.Identity; strings.Contains(s, u.Subject[:4]) || strings.Contains(s, "@") {
			t.Errorf("it tells of the person: %s", s)
		}
		if was, again := seen[u.Subject]; again && was != e.Identity {
			t.Errorf("the same account is %s and %s", was, e.Identity)
		}
		seen[u.Subject] = e.Identity
	}
	if seen["subject-8"] == seen["subject-9"] {
		t.Error("two accounts are taken for one")
	}
}

// An answer counts in the browser that asked, once, for a while.
func TestTheBrowserThatAsked(t *testing.T) {
	w := newWorld(t, openidtest.Options{})
	begin := func() (cookie string, answer url.Values) {
		begun, err := w.service.Begin(t.Context(), redirect)
		if err != nil {
			t.Fatal(err)
		}
		return begun.Cookie, w.Visit(t, begun.URL)
	}
	finish := func(cookie string, answer url.Values, want openid.Reason) {
		t.Helper()
		got, err := w.finish(t, cookie, answer)
		if reason := reasonOf(t, err); reason != want || want != "" && got != "" {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	mine, answer := begin()
	others, othersAnswer := begin()
	finish("", answer, openid.Stale)
	finish("nonsense", answer, openid.Stale)
	finish(others, answer, openid.Stale)
	finish(mine, othersAnswer, openid.Stale)
	for _, at := range []int{0, len(mine) / 2, len(mine) - 2} { // the last character has bits that count for nothing
		changed := []byte(mine)
		if changed[at]++; changed[at] == mine[at] || strings.ContainsRune("[{:.`", rune(changed[at])) {
			changed[at] = 'A'
		}
		finish(string(changed), answer, openid.Stale)
	}
	finish(mine, answer, "")
	finish(mine, answer, openid.Unverified) // the provider takes a code once

	// Somebody who got hold of the answer makes a cookie of their own for it: state and nonce may be theirs, but the
	// verifier is not.
	stolen, theirs := begin()
	answer = url.Values{"code": theirs["code"], "state": {""}, "iss": theirs["iss"]}
	begun, err := w.service.Begin(t.Context(), redirect)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(begun.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Set("state", at.Query().Get("state"))
	finish(begun.Cookie, answer, openid.Unverified)
	finish(stolen, theirs, openid.Unverified) // and the provider took that for its use

	late, answer := begin()
	w.clock.Advance(openid.Lifetime)
	finish(late, answer, openid.Stale)
	early, answer := begin()
	w.clock.Advance(-time.Hour)
	finish(early, answer, openid.Stale)
	w.clock.Advance(time.Hour)

	begun, err = w.service.Begin(t.Context(), redirect)
	if err != nil {
		t.Fatal(err)
	}
	restarted := openid.New(openid.Options{Now: w.clock.Now})
	t.Cleanup(restarted.Close)
	restarted.Configure(&w.cfg, w.people)
	if _, err := restarted.Finish(t.Context(), begun.Cookie, w.Visit(t, begun.URL)); reasonOf(t, err) != openid.Stale {
		t.Errorf("another process takes the cookie: %v", err)
	}

	var programs []*openid.Service // which share a secret
	for range 2 {
		s := openid.New(openid.Options{Now: w.clock.Now, Keys: secret.DeriveKeys(secret.List{"of all"}, "openid")})
		t.Cleanup(s.Close)
		s.Configure(&w.cfg, w.people)
		programs = append(programs, s)
	}
	if begun, err = programs[0].Begin(t.Context(), redirect); err != nil {
		t.Fatal(err)
	}
	if _, err := programs[1].Finish(t.Context(), begun.Cookie, w.Visit(t, begun.URL)); err != nil {
		t.Errorf("what one of two programs has begun, the other cannot finish: %v", err)
	}
}

// Two providers: what one of them says never counts as the other's word, whatever is in force in between.
func TestMixUpWithASecondProvider(t *testing.T) {
	honest := newWorld(t, openidtest.Options{})
	evil := openidtest.New(t, openidtest.Options{Now: honest.clock.Now, Redirect: redirect})
	evilConfig := honest.cfg
	evilConfig.Issuer = evil.Issuer()

	// The browser is sent to the honest one and comes back from the other, with its code or with the honest one's.
	begun, err := honest.service.Begin(t.Context(), redirect)
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]url.Values{
		"its own code": evil.Visit(t, strings.Replace(begun.URL, honest.Issuer(), evil.Issuer(), 1)),
		"the honest one's code": func() url.Values {
			q := honest.Visit(t, begun.URL)
			q.Set("iss", evil.Issuer())
			return q
		}(),
	} {
		if got, err := honest.finish(t, begun.Cookie, answer); reasonOf(t, err) != openid.Unverified {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if n := honest.Requests("/token") + evil.Requests("/token"); n != 0 {
		t.Errorf("a code was sent somewhere %d times", n)
	}

	// Its metadata names the honest one, or the other way round.
	evil.Lie(openidtest.Lies{Metadata: func(m map[string]any) { m["issuer"] = honest.Issuer() }})
	honest.service.Configure(&evilConfig, honest.people)
	if _, err := honest.signIn(t); reasonOf(t, err) != openid.Unavailable {
		t.Errorf("a provider that calls itself by another's name: %v", err)
	}
	evil.Lie(openidtest.Lies{Claims: func(c map[string]any) { c["iss"] = honest.Issuer() }})
	honest.clock.Advance(time.Minute)
	honest.service.Configure(&evilConfig, honest.people)
	begunEvil, err := honest.service.Begin(t.Context(), redirect)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := honest.finish(t, begunEvil.Cookie, evil.Visit(t, begunEvil.URL)); reasonOf(t,
		err) != openid.Unverified {
		t.Errorf("a token with another's name: %q, %v", got, err)
	}

	// What was begun with one is not finished with the other that a reload has put in force.
	evil.Lie(openidtest.Lies{})
	begunEvil, err = honest.service.Begin(t.Context(), redirect)
	if err != nil {
		t.Fatal(err)
	}
	answer := evil.Visit(t, begunEvil.URL)
	honest.service.Configure(&honest.cfg, honest.people)
	if got, err := honest.finish(t, begunEvil.Cookie, answer); reasonOf(t, err) != openid.Stale {
		t.Errorf("after a reload: %q, %v", got, err)
	}
}

func TestAProviderThatIsNone(t *testing.T) {
	names := func(key string, value any) openidtest.Lies {
		return openidtest.Lies{Metadata: func(m map[string]any) { m[key] = value }}
	}
	answers := func(path string, with http.HandlerFunc) openidtest.Lies {
		return openidtest.Lies{Handle: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			with(w, r)
			return true
		}}
	}
	huge := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range 64 {
			if _, err := w.Write([]byte(strings.Repeat(" ", 1<<20))); err != nil {
				return
			}
		}
	}
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1"+r.URL.Path, http.StatusTemporaryRedirect)
	}
	down := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "down "+openidtest.ClientSecret, http.StatusServiceUnavailable)
	}
	const discovery = "/.well-known/openid-configuration"
	for name, c := range map[string]struct {
		lies openidtest.Lies
		want openid.Reason
	}{
		"another issuer":            {names("issuer", "https://accounts.example.com"), openid.Unavailable},
		"no authorization endpoint": {names("authorization_endpoint", ""), openid.Unavailable},
		"an authorization endpoint that runs": {names("authorization_endpoint", "javascript:alert(1)"),
			openid.Unavailable},
		"an authorization endpoint in the clear": {names("authorization_endpoint", "http://accounts.example.com/"),
			openid.Unavailable},
		"a token endpoint in the clear": {names("token_endpoint", "http://accounts.example.com/token"),
			openid.Unavailable},
		"keys in the clear": {names("jwks_uri", "http://accounts.example.com/keys"), openid.Unavailable},
		"keys in a file":    {names("jwks_uri", "file:///etc/passwd"), openid.Unavailable},
		"user info in the clear": {names("userinfo_endpoint", "http://accounts.example.com/"),
			openid.Unavailable},
		"no way to show a secret": {names("token_endpoint_auth_methods_supported", []string{"private_key_jwt"}),
			openid.Unavailable},
		"it is down":                 {answers(discovery, down), openid.Unavailable},
		"metadata of 64 MiB":         {answers(discovery, huge), openid.Unavailable},
		"metadata that is elsewhere": {answers(discovery, elsewhere), openid.Unavailable},
		"metadata that is no JSON": {answers(discovery, func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte("<html>"))
		}), openid.Unavailable},
		"a token endpoint that is down":      {answers("/token", down), openid.Unavailable},
		"a token endpoint of 64 MiB":         {answers("/token", huge), openid.Unavailable},
		"a token endpoint that is elsewhere": {answers("/token", elsewhere), openid.Unavailable},
		"keys of 64 MiB":                     {answers("/keys", huge), openid.Unavailable},
		"keys that are elsewhere":            {answers("/keys", elsewhere), openid.Unavailable},
		"keys that are down":                 {answers("/keys", down), openid.Unavailable},
		"a token endpoint that refuses": {answers("/token", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
		}), openid.Unverified},
		"no keys": {answers("/keys", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"keys":[]}`)) }),
			openid.Unverified},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, openidtest.Options{})
			w.Lie(c.lies)
			got, err := w.signIn(t)
			if reason := reasonOf(t, err); reason != c.want || got != "" {
				t.Errorf("got %q, %v; want the reason %q", got, err, c.want)
			}
		})
	}
}

func TestASlowProvider(t *testing.T) {
	for _, path := range []string{"/.well-known/openid-configuration", "/token", "/keys"} {
		t.Run(path, func(t *testing.T) {
			w := newWorld(t, openidtest.Options{})
			w.service = openid.New(openid.Options{Now: w.clock.Now, Timeout: 50 * time.Millisecond})
			t.Cleanup(w.service.Close)
			w.service.Configure(&w.cfg, w.people)
			done := make(chan struct{})
			t.Cleanup(func() { close(done) })
			w.Lie(openidtest.Lies{Handle: func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == path {
					<-done
				}
				return r.URL.Path == path
			}})
			if got, err := w.signIn(t); reasonOf(t, err) != openid.Unavailable {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// A provider's name is its name to the letter: where it is written otherwise, what to write is said, and nobody is
// signed in. Where more than a slash differs, it may be another provider than the one that is meant.
func TestTheIssuerIsWrittenAsTheProviderCallsItself(t *testing.T) {
	for what, c := range map[string]struct {
		is, do string // what the provider calls itself, behind its address; "" for its address
	}{
		"as it is": {"", ""},
		"a slash":  {"/", "write sign_in.openid.issuer: ADDRESS/"},
		"two":      {"//", "write sign_in.openid.issuer: ADDRESS//"},
		"a path": {"/realms/main",
			"if the provider there is the one that you mean, write sign_in.openid.issuer: ADDRESS/realms/main"},
		"line ends": {"/\nlevel=ERROR",
			"if the provider there is the one that you mean, write sign_in.openid.issuer: ADDRESS/ level=ERROR"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, openidtest.Options{})
			w.Lie(openidtest.Lies{Metadata: func(m map[string]any) { m["issuer"] = w.Issuer() + c.is }})
			do := strings.ReplaceAll(c.do, "ADDRESS", w.Issuer())
			_, err := w.service.Begin(t.Context(), redirect)
			known := w.service.Learn(t.Context())
			wrong, told := w.cfg.Ask(t.Context())
			if c.do == "" {
				if err != nil || !known || w.service.Trouble() != "" || wrong+told != "" {
					t.Errorf("%v, %v, %q, %q", err, known, w.service.Trouble(), wrong)
				}
				return
			}
			if reasonOf(t, err) != openid.Unavailable || !strings.Contains(err.Error(), do+", as it calls itself") {
				t.Errorf("a sign-in: %v", err)
			}
			if known || !strings.Contains(w.service.Trouble(), do) {
				t.Errorf("known: %v, and the trouble is %q", known, w.service.Trouble())
			}
			if !strings.HasPrefix(wrong, "it calls itself "+w.Issuer()) || told != do {
				t.Errorf("asked: %q, %q", wrong, told)
			}
		})
	}
}

// What keeps people from signing in is known while it lasts.
func TestTroubleWithAProviderIsKnownWhileItLasts(t *testing.T) {
	w := newWorld(t, openidtest.Options{})
	w.Lie(openidtest.Lies{Handle: func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	}})
	if w.service.Learn(t.Context()) || w.service.Trouble() != "its configuration: status 502" {
		t.Errorf("while it is down: %q", w.service.Trouble())
	}
	if wrong, do := w.cfg.Ask(t.Context()); wrong != "status 502" || !strings.Contains(do, "issuer") {
		t.Errorf("asked: %q, %q", wrong, do)
	}
	w.Lie(openidtest.Lies{})
	w.clock.Advance(5 * time.Second)
	if !w.service.Learn(t.Context()) || w.service.Trouble() != "" {
		t.Errorf("once it is back: %q", w.service.Trouble())
	}
	w.service.Configure(nil, nil)
	if !w.service.Learn(t.Context()) || w.service.Trouble() != "" {
		t.Error("there is trouble with none")
	}
}

// A gate starts and serves while its provider is down, asks it again, and not too often.
func TestAProviderThatComesBack(t *testing.T) {
	w := newWorld(t, openidtest.Options{})
	const discovery = "/.well-known/openid-configuration"
	if n := w.Requests(discovery); n != 0 {
		t.Errorf("configuring asked the provider %d times", n)
	}
	down := openidtest.Lies{Handle: func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	}}
	w.Lie(down)
	for range 3 {
		if _, err := w.signIn(t); reasonOf(t, err) != openid.Unavailable {
			t.Errorf("while it is down: %v", err)
		}
	}
	if n := w.Requests(discovery); n != 1 {
		t.Errorf("it was asked %d times at one moment", n)
	}
	w.Lie(openidtest.Lies{})
	w.clock.Advance(5 * time.Second)
	for range 3 {
		if got, err := w.signIn(t); err != nil || got != "hana" {
			t.Fatalf("once it is back: %q, %v", got, err)
		}
	}
	if n := w.Requests(discovery); n != 2 {
		t.Errorf("what it says of itself was fetched %d times, want 2: once with success", n)
	}

	w.Lie(openidtest.Lies{Handle: func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == discovery {
			rw.WriteHeader(http.StatusBadGateway)
		}
		return r.URL.Path == discovery
	}})
	w.clock.Advance(time.Hour)
	if got, err := w.signIn(t); err != nil || got != "hana" {
		t.Errorf("an hour later, by what was known: %q, %v", got, err)
	}
	if n := w.Requests(discovery); n != 3 {
		t.Errorf("it was not asked again: %d", n)
	}
	w.clock.Advance(24 * time.Hour)
	if _, err := w.signIn(t); reasonOf(t, err) != openid.Unavailable {
		t.Errorf("a day later: %v", err)
	}
}

func TestKeysAreFetchedAgainWhereTheyChanged(t *testing.T) {
	w := newWorld(t, openidtest.Options{})
	for range 2 {
		if got, err := w.signIn(t); err != nil || got != "hana" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if n := w.Requests("/keys"); n != 1 {
		t.Errorf("the keys were fetched %d times, want once", n)
	}
	w.Rotate(t)
	// The library tells of keys that it has fetched a moment before it counts the fetch as over: until then it takes them
	// for the newest, and whoever signs in has to do so once more.
	testkit.Eventually(t, "the new key is known", func() bool {
		got, err := w.signIn(t)
		return err == nil && got == "hana"
	})
	if n := w.Requests("/keys"); n != 2 {
		t.Errorf("the keys were fetched %d times, want twice", n)
	}
}

func TestAReload(t *testing.T) {
	w := newWorld(t, openidtest.Options{})
	if label, ok := w.service.Label(); !ok || "http://"+label != w.Issuer() {
		t.Errorf("the button says %q", label)
	}
	if _, err := w.signIn(t); err != nil {
		t.Fatal(err)
	}
	begun, err := w.service.Begin(t.Context(), redirect)
	if err != nil {
		t.Fatal(err)
	}
	answer := w.Visit(t, begun.URL)
	next := w.cfg
	next.Name = "Example"
	w.service.Configure(&next, w.people[1:])
	if label, _ := w.service.Label(); label != "Example" {
		t.Errorf("the button says %q", label)
	}
	if got, err := w.finish(t, begun.Cookie, answer); reasonOf(t, err) != openid.Unknown {
		t.Errorf("whoever was removed meanwhile: %q, %v", got, err)
	}
	if n := w.Requests("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("what the provider says of itself was fetched %d times", n)
	}
	next.ClientID = "another"
	w.service.Configure(&next, w.people)
	if _, err := w.finish(t, begun.Cookie, answer); reasonOf(t, err) != openid.Stale {
		t.Errorf("begun as another client: %v", err)
	}
	w.service.Configure(nil, nil)
	if _, ok := w.service.Label(); ok {
		t.Error("there is a button without a provider")
	}
	if _, err := w.signIn(t); reasonOf(t, err) != openid.Off {
		t.Errorf("without a provider: %v", err)
	}
	if _, err := w.finish(t, begun.Cookie, answer); reasonOf(t, err) != openid.Off {
		t.Errorf("without a provider: %v", err)
	}
}

func TestMany(t *testing.T) {
	w := newWorld(t, openidtest.Options{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := w.signIn(t); err != nil || got != "hana" {
				t.Errorf("%q, %v", got, err)
			}
			w.service.Configure(&w.cfg, w.people)
		})
	}
	testkit.Wait(t, "all logins", group.Wait)
}

func TestWhoeverAskedMayLeave(t *testing.T) {
	w := newWorld(t, openidtest.Options{})
	arrived := make(chan struct{})
	done, letGo := testkit.Latch()
	defer letGo()
	w.Lie(openidtest.Lies{Handle: func(http.ResponseWriter, *http.Request) bool {
		close(arrived)
		<-done
		return false
	}})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.service.Begin(ctx, redirect)
		left <- err
	}()
	testkit.Receive(t, "the provider is asked", arrived)
	leave()
	if err := testkit.Receive(t, "whoever asked leaves", left); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	w.Lie(openidtest.Lies{})
	letGo()
	if got, err := w.signIn(t); err != nil || got != "hana" {
		t.Errorf("whoever comes next: %q, %v", got, err)
	}
}

// A secret that is a password for somebody's account is never where it could be read.
func TestTheSecretGoesToTheTokenEndpointAlone(t *testing.T) {
	for name, methods := range map[string][]string{"in the header": nil, "in the form": {"client_secret_post"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, openidtest.Options{})
			w.Lie(openidtest.Lies{
				Metadata: func(m map[string]any) {
					if methods != nil {
						m["token_endpoint_auth_methods_supported"] = methods
					}
				},
				Handle: func(_ http.ResponseWriter, r *http.Request) bool {
					_, password, _ := r.BasicAuth()
					if r.URL.Path != "/token" && password != "" || strings.Contains(r.URL.String(), openidtest.ClientSecret) {
						t.Errorf("%s has the secret", r.URL.Path)
					}
					return false
				},
			})
			if got, err := w.signIn(t); err != nil || got != "hana" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	w := newWorld(t, openidtest.Options{})
	w.cfg.ClientSecret = secret.Value("another-secret-0123456789")
	w.service.Configure(&w.cfg, w.people)
	if _, err := w.signIn(t); reasonOf(t, err) != openid.Unverified {
		t.Errorf("with the wrong secret: %v", err)
	}
}
