package app_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"countersign/signin/openid/openidtest"
)

// The way in by a provider comes and goes with the configuration, and asks the provider nothing before somebody uses it.
func TestAReloadBringsAndTakesTheProvider(t *testing.T) {
	provider := openidtest.New(t, openidtest.Options{Now: time.Now})
	section := fmt.Sprintf("sign_in: {openid: {issuer: %q, client_id: %s, client_secret: %q, name: Example}}\n", provider.Issuer(),
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
	if n := provider.Requests("/.well-known/openid-configuration"); n != 0 {
		t.Errorf("the provider was asked %d times before anybody came", n)
	}
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
