package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"countersign/client"
)

// Whether a gate is ready is what it says itself; what is not a gate is none that is not ready.
func TestReady(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   client.Readiness
		err    string
	}{
		{200, `{"status":"ready","problems":[]}`, client.Readiness{client.IsReady, []string{}}, ""},
		{200, `{"status":"ready","problems":["no channel"]}`, client.Readiness{client.IsReady, []string{"no channel"}}, ""},
		{503, `{"status":"stopping","problems":[]}`, client.Readiness{"stopping", []string{}}, ""},
		{503, `{"status":"ready","problems":[]}`, client.Readiness{}, "answered 503, and not as a gate does"},
		{200, `{"status":"stopping","problems":[]}`, client.Readiness{}, "answered 200, and not as a gate does"},
		{503, `<html>Service Unavailable</html>`, client.Readiness{}, "answered 503, and not as a gate does"},
		{200, `{}`, client.Readiness{}, "answered 200, and not as a gate does"},
		{404, `not found`, client.Readiness{}, "is the address right?"},
		{302, ``, client.Readiness{}, "a redirect"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" || r.Header.Get("Authorization") != "" {
				t.Errorf("%s with %v", r.URL, r.Header)
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		got, err := client.Ready(t.Context(), s.URL)
		s.Close()
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) ||
			!reflect.DeepEqual(got, c.want) {
			t.Errorf("%d %s: %+v, %v", c.status, c.body, got, err)
		}
	}
	if _, err := client.Ready(t.Context(), "http://127.0.0.1:1"); !client.Unreachable(err) {
		t.Errorf("nobody answers: %v", err)
	}
	if _, err := client.New("http://127.0.0.1:1", ""); err == nil {
		t.Error("a client needs a token all the same")
	}
}
