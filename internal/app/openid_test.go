package app_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/auth/openid/openidtest"
)

// The way in by a provider comes and goes with the configuration, which does not wait for what the provider says.
func TestAReloadBringsAndTakesTheProvider(t *testing.T) {
	t.Parallel()
	provider := openidtest.New(t, openidtest.Options{Now: time.Now})
	section := fmt.Sprintf("sign_in: {openid: {issuer: %q, client_id: %s, client_secret: %q, name: Example}}\n",
		provider.Issuer(),
		openidtest.ClientID, openidtest.ClientSecret)
	w := newWorld(t, replacing("people:\n  - {name: hana,", "people:\n  - {name: hana, openid: subject-1,"))
	without, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	begins := func() int {
		_, port, _ := strings.Cut(w.app.Addr(), ":")
		res, err := http.PostForm("http://localhost:"+port+"/signin/openid", url.Values{})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.app.Reload(w.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := begins(); got != http.StatusNotFound {
		t.Errorf("without a provider: %d", got)
	}
	put(string(without) + section)
	if got := begins(); got != http.StatusOK {
		t.Errorf("with a provider: %d", got)
	}
	put(string(without))
	if got := begins(); got != http.StatusNotFound {
		t.Errorf("without it again: %d", got)
	}
	if strings.Contains(w.log.String(), openidtest.ClientSecret) {
		t.Error("the log shows the client's secret")
	}
}

// A provider that calls itself otherwise than it is written, be it by a slash, is told before anybody comes, with what
// to write instead, until that is done.
func TestTheIssuersSlashIsTold(t *testing.T) {
	t.Parallel()
	provider := openidtest.New(t, openidtest.Options{Now: time.Now})
	provider.Lie(openidtest.Lies{Metadata: func(m map[string]any) { m["issuer"] = provider.Issuer() + "/" }})
	section := "sign_in: {openid: {issuer: %q, client_id: countersign}}\n"
	w := newWorld(t, replacing("people:\n  - {name: hana,", "people:\n  - {name: hana, openid: subject-1,"),
		func(text string) string {
			return text + fmt.Sprintf(section, provider.Issuer())
		})
	want := "nobody can sign in at the OpenID provider: its configuration: write sign_in.openid.issuer: " +
		provider.Issuer() +
		"/, as it calls itself"
	w.eventually("/readyz names it", func() bool { return strings.Contains(w.get("/readyz"), want) })
	w.eventually("it is logged", func() bool {
		return strings.Contains(w.log.String(), "write sign_in.openid.issuer: "+provider.Issuer()+"/")
	})
	w.change(replacing(fmt.Sprintf(section, provider.Issuer()), fmt.Sprintf(section, provider.Issuer()+"/")))
	if got := w.get("/readyz"); strings.Contains(got, "OpenID") {
		t.Errorf("once it is written: %s", got)
	}
}

// A provider that was down just when somebody came, long after it was asked last, is asked again until it answers:
// /readyz does not go on complaining until the next one comes.
func TestAProviderThatIsBackIsNotComplainedOf(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	provider := openidtest.New(t, openidtest.Options{Now: now})
	w := newWorld(t, replacing("people:\n  - {name: hana,", "people:\n  - {name: hana, openid: subject-1,"),
		func(text string) string {
			return text + fmt.Sprintf("sign_in: {openid: {issuer: %q, client_id: countersign}}\n", provider.Issuer())
		})
	w.stop()
	w.now = now
	w.start()
	complains := func() bool { return strings.Contains(w.get("/readyz"), "OpenID") }
	_, port, _ := strings.Cut(w.app.Addr(), ":")
	begins := func() int {
		res, err := http.PostForm("http://localhost:"+port+"/signin/openid", url.Values{})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := begins(); got != http.StatusOK {
		t.Fatalf("at first: %d", got)
	}
	ahead.Add(int64(25 * time.Hour))
	provider.Lie(openidtest.Lies{Handle: func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	}})
	if got := begins(); got != http.StatusServiceUnavailable || !complains() {
		t.Errorf("while it is down: %d, %s", got, w.get("/readyz"))
	}
	provider.Lie(openidtest.Lies{})
	ahead.Add(int64(5 * time.Second))
	w.eventually("it answers again, and nothing is said of it", func() bool { return !complains() })
}
