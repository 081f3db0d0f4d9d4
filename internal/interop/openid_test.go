//go:build interop

package interop

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign/internal/testkit"
)

// browser follows redirects and keeps cookies, and knows nothing of scripts.
type browser struct {
	*http.Client
	t *testing.T
}

func newBrowser(t *testing.T) browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return browser{&http.Client{Jar: jar, Timeout: patience}, t}
}

// page is what a browser shows, and where it is.
type page struct {
	url  *url.URL
	code int
	text string
}

func (b browser) shows(res *http.Response, err error) page {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return page{res.Request.URL, res.StatusCode, string(text)}
}

func (b browser) open(address string) page {
	b.t.Helper()
	return b.shows(b.Get(address))
}

// send sends a form.
func (b browser) send(address string, form url.Values) page {
	b.t.Helper()
	return b.shows(b.PostForm(address, form))
}

var (
	leadsTo  = regexp.MustCompile(`<meta http-equiv="refresh" content="0; url=([^"]*)">`)
	formOf   = regexp.MustCompile(`<form[^>]* action="([^"]*)" method="post"`)
	cancelOf = regexp.MustCompile(`href="([^"]*/abort)"`)
)

// found is what an expression finds on a page.
func (b browser) found(e *regexp.Regexp, p page) string {
	b.t.Helper()
	m := e.FindStringSubmatch(p.text)
	if m == nil {
		b.t.Fatalf("nothing like %s at %s:\n%s", e, p.url, p.text)
	}
	return html.UnescapeString(m[1])
}

// signIn signs in at the provider under a name, and returns where that led.
func (b browser) signIn(g *gate, name string) page {
	b.t.Helper()
	p := b.open(b.found(leadsTo, b.send(g.url+"/signin/openid", url.Values{"next": {"/"}})))
	p = b.send(b.found(formOf, p), url.Values{"prompt": {"login"}, "login": {name}, "password": {"any"}})
	return b.send(b.found(formOf, p), url.Values{"prompt": {"consent"}})
}

// TestOpenIDProvider has people sign in at a certified provider: node-oidc-provider, with its own pages.
func TestOpenIDProvider(t *testing.T) {
	t.Parallel()
	const clientSecret = "interop-client-secret-0123456789"
	at := port(t)
	issuer := "http://" + at
	listen := port(t)
	g := serveTo(t, `limits: none
agents: [{name: bot, token: `+agentToken+`}]
people:
  - {name: hana, roles: [approver, admin], token: `+personToken+`, openid: hana-at-the-provider}
  - {name: ken, roles: [approver], email: ken@example.com}
  - {name: new, roles: [approver], email: new-rin@example.com}
public_url: http://`+listen+`
pages_listen: `+listen+`
sign_in: {openid: {issuer: "`+issuer+`", client_id: countersign, client_secret: `+clientSecret+`, email_domains: [example.com], name: Example}}
`, "")
	g.url = "http://" + listen

	// The gate serves while its provider is down, and says so to whoever wants to sign in there.
	if p := newBrowser(t).send(g.url+"/signin/openid", url.Values{}); p.code != http.StatusServiceUnavailable ||
		!strings.Contains(p.text, "Example cannot be reached") {
		t.Errorf("while the provider is down: %d\n%s", p.code, p.text)
	}
	modules := filepath.Join(tools(t), "node_modules")
	start(t, t.TempDir(), environ(t), node(t), providerProgram(t), modules, issuer, g.url+"/signin/openid/callback",
		clientSecret, fmt.Sprint(clockAhead(t).Milliseconds()))
	listening(t, issuer+"/.well-known/openid-configuration")
	testkit.Eventually(t, "the gate finds the provider that is back", func() bool {
		time.Sleep(time.Second) // real: the gate counts tries to sign in, and too many of them are refused
		return newBrowser(t).send(g.url+"/signin/openid", url.Values{}).code == http.StatusOK
	})

	for name, c := range map[string]struct {
		account, says string
		code          int
	}{
		"by subject":              {"hana-at-the-provider", ">hana<", http.StatusOK},
		"by e-mail":               {"ken", ">ken<", http.StatusOK},
		"an address not verified": {"new-rin", "This account has no access", http.StatusForbidden},
		"nobody here":             {"mallory", "This account has no access", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBrowser(t)
			p := b.signIn(g, c.account)
			if p.code != c.code || !strings.Contains(p.text, c.says) {
				t.Errorf("it led to %s: %d\n%s", p.url, p.code, p.text)
			}
			if c.code == http.StatusOK && p.url.Path != "/" {
				t.Errorf("it led to %s", p.url)
			}
		})
	}

	b := newBrowser(t)
	p := b.open(b.found(leadsTo, b.send(g.url+"/signin/openid", url.Values{})))
	if p = b.open(b.found(cancelOf, p)); p.code != http.StatusForbidden || !strings.Contains(p.text,
		"Example did not sign you in") {
		t.Errorf("cancelled there: %d\n%s", p.code, p.text)
	}
	if log := g.out.String(); strings.Contains(log, clientSecret) || strings.Contains(log, "mallory") {
		t.Errorf("the log says too much:\n%s", log)
	}
}

// clockAhead is how far this program's clock, and that of the gate, is ahead of the machine's, which file times keep:
// .ci/clock moves that of programs in Go alone.
func clockAhead(t *testing.T) time.Duration {
	t.Helper()
	path := filepath.Join(t.TempDir(), "now")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(info.ModTime()).Round(time.Minute) // a moment passes between the two
}

// providerProgram is the provider's program.
func providerProgram(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "testdata", "openid-provider.mjs")
}
