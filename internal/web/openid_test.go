package web

import (
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth"
	"countersign/internal/auth/openid"
	"countersign/internal/auth/openid/openidtest"
	"countersign/internal/auth/signin"
	"countersign/internal/locale"
)

// provided is the pages with a provider of accounts beside them.
type provided struct {
	*world
	provider *openidtest.Provider
	service  *openid.Service
	cfg      openid.Config
	base     string // "": where the server is
}

var accounts = []openid.Person{{Name: "hana", Subject: "subject-1"}, {Name: "ken", Email: "ken@example.com"}}

func newProvided(t *testing.T) *provided {
	t.Helper()
	p := new(provided)
	clock := func() time.Time { return p.world.clock.Now() }
	p.service = openid.New(openid.Options{Now: clock})
	t.Cleanup(p.service.Close)
	p.world = newWorld(t, func(o *Options) {
		o.OpenID = p.service
		o.Base = func() string {
			if p.base != "" {
				return p.base
			}
			return p.srv.URL
		}
	})
	p.provider = openidtest.New(t, openidtest.Options{Now: clock})
	p.cfg = openid.Config{Issuer: p.provider.Issuer(), ClientID: openidtest.ClientID,
		ClientSecret: openidtest.ClientSecret,
		EmailDomains: []string{"example.com"}, Name: "Example"}
	p.service.Configure(&p.cfg, accounts)
	return p
}

var refreshed = regexp.MustCompile(`<meta http-equiv="refresh" content="0; url=([^"]*)">`)

// leave begins a sign-in, and returns where the browser goes and the cookie that it keeps.
func (p *provided) leave(header ...string) (to string, kept *http.Cookie) {
	p.t.Helper()
	r := p.post("", "/signin/openid", url.Values{}, header...).is(http.StatusOK)
	m := refreshed.FindStringSubmatch(r.body)
	if m == nil {
		p.t.Fatalf("it leads nowhere:\n%s", r.body)
	}
	set := r.cookies()
	if len(set) != 1 {
		p.t.Fatalf("the cookies %v", set)
	}
	for _, c := range set {
		kept = c
	}
	return html.UnescapeString(m[1]), kept
}

// next is the cookie by which a browser remembers where it was on its way to.
func (p *provided) next(to string) *http.Cookie {
	p.t.Helper()
	r := p.get("", "/signin?"+url.Values{"next": {to}}.Encode()).is(http.StatusOK).has("Sign in with Example",
		`action="/signin/openid"`)
	for name, c := range r.cookies() {
		if strings.HasSuffix(name, "countersign-next") {
			return c
		}
	}
	p.t.Fatalf("where it was going is not kept: %v", r.cookies())
	return nil
}

// back brings an answer back, with cookies.
func (p *provided) back(answer url.Values, cookies ...*http.Cookie) reply {
	p.t.Helper()
	var header []string
	for _, c := range cookies {
		header = append(header, "Cookie", c.Name+"="+c.Value)
	}
	return p.get("", openIDCallback+"?"+answer.Encode(), header...)
}

// nobody fails if an answer starts a session.
func (r reply) nobody() reply {
	r.t.Helper()
	if c := r.cookies()["countersign"]; c != nil {
		r.t.Errorf("%s: somebody is signed in", r.what)
	}
	return r
}

func TestSignInAtAProvider(t *testing.T) {
	t.Parallel()
	p := newProvided(t)
	next := p.next("/r/1?x=1")
	to, kept := p.leave()
	if !strings.HasPrefix(to, p.provider.Issuer()+"/authorize?") {
		t.Errorf("it leads to %s", to)
	}
	if kept.Name != "countersign-openid" || !kept.HttpOnly || kept.Secure || kept.SameSite != http.SameSiteLaxMode ||
		kept.Path != "/" ||
		kept.Domain != "" || kept.MaxAge != 600 {
		t.Errorf("the cookie is %+v", kept)
	}
	r := p.back(p.provider.Visit(t, to), kept, next).is(http.StatusSeeOther)
	if got, _ := r.leads(); got != "/r/1?x=1" {
		t.Errorf("then to %q", got)
	}
	set := r.cookies()
	if c := set["countersign-openid"]; c == nil || c.MaxAge >= 0 || c.Value != "" {
		t.Errorf("the cookie of the sign-in stays: %+v", c)
	}
	session := set["countersign"]
	if session == nil || !session.HttpOnly || session.SameSite != http.SameSiteLaxMode {
		t.Fatalf("the session's cookie is %+v", session)
	}
	s, err := p.pages.SignIn.Session(t.Context(), session.Value)
	if err != nil || s.Person != "hana" || s.Method != signin.MethodOpenID || s.Origin != "127.0.0.1" {
		t.Errorf("the session is %+v, %v", s, err)
	}
	p.back(url.Values{}, kept).is(http.StatusBadRequest).nobody()
}

func TestSignInAtAProviderOverHTTPS(t *testing.T) {
	t.Parallel()
	p := newProvided(t)
	p.base = "https://gate.example.com"
	to, kept := p.leave("Host", "gate.example.com")
	if kept.Name != "__Host-countersign-openid" || !kept.Secure || kept.Path != "/" || kept.Domain != "" {
		t.Errorf("the cookie is %+v", kept)
	}
	if u, err := url.Parse(to); err != nil ||
		u.Query().Get("redirect_uri") != "https://gate.example.com/signin/openid/callback" {
		t.Errorf("it leads to %s", to)
	}
	answer := p.provider.Visit(t, to)
	r := p.get("", openIDCallback+"?"+answer.Encode(), "Host", "gate.example.com", "Cookie", "countersign-openid="+
		kept.Value)
	r.is(http.StatusBadRequest) // a cookie that anybody between could have set
	r = p.get("", openIDCallback+"?"+answer.Encode(), "Host", "gate.example.com", "Cookie", kept.Name+"="+
		kept.Value).is(http.StatusSeeOther)
	if c := r.cookies()["__Host-countersign"]; c == nil || !c.Secure {
		t.Errorf("the session's cookie is %+v", c)
	}
}

// A proxy that does not pass the Host on, and comes from this machine, makes no cookie one for plain HTTP: public_url
// says what the browser has in its address.
func TestBehindAProxyWithoutHostAProviderAndAPasskeySignInForHTTPS(t *testing.T) {
	t.Parallel()
	const at = "https://gate.example.com"
	secure := func(r reply, name string) string {
		t.Helper()
		c := r.cookies()["__Host-"+name]
		if c == nil || !c.Secure || r.cookies()[name] != nil {
			t.Fatalf("%s: the cookies are %v", r.what, r.cookies())
		}
		return c.Name + "=" + c.Value
	}
	p := newProvided(t)
	p.base = at
	to, kept := p.leave("Origin", at)
	if kept.Name != "__Host-countersign-openid" || !kept.Secure {
		t.Errorf("the cookie is %+v", kept)
	}
	r := p.back(p.provider.Visit(t, to), kept).is(http.StatusSeeOther)
	_, secret, _ := strings.Cut(secure(r, "countersign"), "=")
	if s, err := p.signIns.Look(p.ctx, secret); err != nil || s.Person != "hana" || signin.NeedsKey(secret) {
		t.Errorf("at a provider: %+v, %v; of this machine: %v", s, err, signin.NeedsKey(secret))
	}

	k := newKeyed(t)
	k.at = at
	k.add("hana", "phone")
	r = k.post("", "/signin/passkey/begin", url.Values{}, "Origin", at).is(http.StatusOK)
	var c ceremony
	if err := json.Unmarshal([]byte(r.body), &c); err != nil {
		t.Fatal(err)
	}
	r = k.post("", "/signin/passkey", url.Values{"passkey": {string(k.key.Get(at, c.Get))}}, "Origin", at, "Cookie",
		secure(r, "countersign-passkey")).is(http.StatusSeeOther)
	_, secret, _ = strings.Cut(secure(r, "countersign"), "=")
	if s, err := k.signIns.Look(k.ctx, secret); err != nil || s.Person != "hana" || signin.NeedsKey(secret) {
		t.Errorf("by a passkey: %+v, %v; of this machine: %v", s, err, signin.NeedsKey(secret))
	}
	secure(k.post("", "/signout", url.Values{}, "Origin", at), "countersign-note")
}

// Under another name than the provider sends browsers back to, the cookie would be lost: the browser is taken to the
// right one first.
func TestSignInBeginsWhereTheProviderSendsBackTo(t *testing.T) {
	t.Parallel()
	p := newProvided(t)
	p.base = "https://gate.example.com"
	next := p.next("/r/1")
	r := p.post("", "/signin/openid", url.Values{}, "Cookie", next.Name+"="+next.Value).is(http.StatusOK)
	if m := refreshed.FindStringSubmatch(r.body); m == nil ||
		html.UnescapeString(m[1]) != "https://gate.example.com/signin?next=%2Fr%2F1" {
		t.Errorf("it leads to %q", m)
	}
	if n := p.provider.Requests("/.well-known/openid-configuration"); n != 0 || r.cookies()["countersign-openid"] != nil {
		t.Errorf("the provider was asked %d times, and the cookies are %v", n, r.cookies())
	}
}

func TestAfterSignInNobodyIsLedElsewhere(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)",
		"/\t/evil.example", ""} {
		p := newProvided(t)
		to, kept := p.leave()
		if got, _ := p.back(p.provider.Visit(t, to), kept, p.next(next)).is(http.StatusSeeOther).leads(); got != "/" {
			t.Errorf("%q leads to %q", next, got)
		}
	}
}

// Whoever has another sign in as them (login CSRF, fixation), or uses another's answer, gets nothing.
func TestAnAnswerCountsInTheBrowserThatAsked(t *testing.T) {
	t.Parallel()
	p := newProvided(t)
	mine, kept := p.leave()
	theirs, other := p.leave()
	answer, another := p.provider.Visit(t, mine), p.provider.Visit(t, theirs)
	p.back(answer).is(http.StatusBadRequest).nobody().has("This sign-in is no longer open")
	p.back(answer, other).is(http.StatusBadRequest).nobody()
	p.back(another, kept).is(http.StatusBadRequest).nobody()
	p.back(answer, kept, other).is(http.StatusBadRequest).nobody()
	p.back(answer, &http.Cookie{Name: kept.Name, Value: "x"}).is(http.StatusBadRequest).nobody()

	planted := &http.Cookie{Name: "countersign", Value: strings.Repeat("A", 43)}
	r := p.back(answer, kept, planted).is(http.StatusSeeOther)
	if c := r.cookies()["countersign"]; c == nil || c.Value == planted.Value {
		t.Errorf("a session that was there before is the new one: %+v", c)
	}
	p.clock.Advance(11 * time.Minute)
	p.back(another, other).is(http.StatusBadRequest).nobody()
}

func TestSignInIsBegunByAPageOfOurs(t *testing.T) {
	t.Parallel()
	p := newProvided(t)
	p.send("", http.MethodPost, "/signin/openid", url.Values{}, "Sec-Fetch-Site", "cross-site").is(http.StatusForbidden)
	p.send("", http.MethodPost, "/signin/openid", url.Values{}, "Origin", "https://evil.example").is(http.StatusForbidden)
	if r := p.get("", "/signin/openid"); r.status == http.StatusOK || len(r.cookies()) != 0 {
		t.Errorf("a link begins it: %d", r.status)
	}
	if n := p.provider.Requests("/.well-known/openid-configuration"); n != 0 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// All who are nobody here see the same page, and only a hash of them is kept.
func TestWhoeverIsNobodyLearnsNothing(t *testing.T) {
	t.Parallel()
	p := newProvided(t)
	seen := map[string]bool{}
	users := []openidtest.User{
		{Subject: "stranger-1"}, {Subject: "stranger-1", Email: "stranger-2@example.com", Verified: true},
		{Subject: "stranger-3", Email: "ken@example.com"}, {Subject: "stranger-4", Email: "ken@evil.example", Verified: true},
		{Subject: "stranger-5", Email: "mei@example.com", Verified: true}, // a person, who is not known at the provider
	}
	for _, u := range users {
		p.provider.SignIn(u)
		to, kept := p.leave()
		r := p.back(p.provider.Visit(t, to), kept).is(http.StatusForbidden).nobody().has("This account has no access")
		seen[r.body] = true
	}
	p.provider.SignIn(openidtest.User{Subject: "subject-1"})
	to, kept := p.leave()
	answer := p.provider.Visit(t, to)
	p.dir.Replace(agentsOfTests, slices.DeleteFunc(slices.Clone(peopleOfTests), func(who auth.Person) bool {
		return who.Name == "hana"
	}))
	seen[p.back(answer, kept).is(http.StatusForbidden).nobody().body] = true // removed while they were away
	if len(seen) != 1 {
		t.Errorf("%d different pages", len(seen))
	}
	told := 0
	err := p.store.View(t.Context(), func(tx approval.Tx) error {
		events, err := tx.Events(approval.EventQuery{Limit: 100})
		for _, e := range events {
			if e.Type != approval.EventSignInRefused {
				continue
			}
			told++
			data, err := json.Marshal(e)
			if err != nil {
				return err
			}
			if strings.Contains(string(data), "stranger") || strings.Contains(string(data), "@") {
				t.Errorf("on record: %s", data)
			}
		}
		return err
	})
	if err != nil || told != len(users)+1 {
		t.Errorf("%d lines on record, %v", told, err)
	}
	for _, s := range []string{"stranger", "ken@", "mei@", openidtest.ClientSecret, answer.Get("code"),
		answer.Get("state"), kept.Value} {
		if strings.Contains(p.log.String(), s) {
			t.Errorf("the log has %q:\n%s", s, p.log)
		}
	}
}

func TestWhatASignInThatFailsSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do     func(p *provided) reply
		status int
		says   string
		logged bool
	}{
		"the provider is down": {func(p *provided) reply {
			p.provider.Lie(openidtest.Lies{Handle: func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusBadGateway)
				return true
			}})
			return p.post("", "/signin/openid", url.Values{})
		}, http.StatusServiceUnavailable, "Example cannot be reached", true},
		"the person says no there": {func(p *provided) reply {
			p.provider.Lie(openidtest.Lies{Back: func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }})
			to, kept := p.leave()
			return p.back(p.provider.Visit(p.t, to), kept)
		}, http.StatusForbidden, "Example did not sign you in", false},
		"the token is another's": {func(p *provided) reply {
			p.provider.Lie(openidtest.Lies{Claims: func(c map[string]any) { c["nonce"] = "another" }})
			to, kept := p.leave()
			return p.back(p.provider.Visit(p.t, to), kept)
		}, http.StatusForbidden, "Example&#39;s answer could not be verified", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvided(t)
			r := c.do(p).is(c.status).nobody().has("<h1>"+c.says, `action="/signin/openid"`, `href="/signin"`)
			if strings.Contains(r.body, openidtest.ClientSecret) {
				t.Error("the page has the secret")
			}
			if got := strings.Contains(p.log.String(),
				"level=WARN msg=\"somebody could not sign in at the provider\""); got != c.logged {
				t.Errorf("logged: %t\n%s", got, p.log)
			}
		})
	}
	p := newProvided(t)
	p.service.Configure(nil, nil)
	p.post("", "/signin/openid", url.Values{}).is(http.StatusNotFound).nobody().has(
		"This way to sign in is not set up").lacks("<form")
	p.back(url.Values{"code": {"x"}}).is(http.StatusNotFound).nobody()
	p.get("", "/signin").is(http.StatusOK).lacks("/signin/openid")
}

func TestSignInAtAProviderInFourLanguages(t *testing.T) {
	t.Parallel()
	p := newProvided(t)
	titles := map[string]bool{}
	for _, tag := range locale.Tags() {
		r := p.get("", openIDCallback+"?state=x", "Accept-Language", tag).is(http.StatusBadRequest).has(`<html lang="` + tag +
			`">`)
		title, _, _ := strings.Cut(r.body[strings.Index(r.body, "<h1>"):], "</h1>")
		titles[title] = true
	}
	if len(titles) != len(locale.Tags()) {
		t.Errorf("the titles %q", slices.Sorted(maps.Keys(titles)))
	}
}
