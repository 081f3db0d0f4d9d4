package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"countersign/client"
)

// Who has the port of a gate that is down is sent no token, whatever they answer.
func TestWhoDoesNotProveThatTheyKnowTheTokenIsNotSentIt(t *testing.T) {
	for name, answers := range map[string]http.HandlerFunc{
		"yes to all": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"proof":"yes","decision":"approved","approvals":[],"next":null}`)
		},
		"what it was sent": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"proof":"`+r.URL.Query().Get("token")+`"}`)
		},
		"a proof of nothing": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"proof":"`+strings.Repeat("0", 64)+`"}`)
		},
		"no such path": http.NotFound,
		"an older gate": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"title":"Not found","code":"not_found"}`)
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/approvals", http.StatusSeeOther)
		},
		"a stream that never ends": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 4096)); err != nil {
					return
				}
			}
		},
		"an end":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"nothing": func(http.ResponseWriter, *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			var told atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" || strings.Contains(r.URL.String(), hanaToken) || r.URL.Path != "/v1/proof" {
					told.Add(1)
				}
				answers(w, r)
			}))
			defer srv.Close()
			c, err := client.New(srv.URL, hanaToken, client.WithProof())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if a, err := c.Call(t.Context(), transfer); err == nil {
				t.Errorf("it answers %+v", a)
			}
			if _, err := c.Decide(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV", client.Approve, ""); err == nil {
				t.Error("it decides")
			}
			if told.Load() != 0 {
				t.Error("it was sent the token")
			}
		})
	}
}

// A gate proves it on every connection, and is then used as ever.
func TestAGateThatProvesItIsUsed(t *testing.T) {
	w := newWorld(t)
	c := w.client(hanaToken, client.WithProof())
	defer c.Close()
	for range 3 {
		if _, err := c.Approvals(t.Context(), client.ApprovalQuery{}); err != nil {
			t.Fatal(err)
		}
		c.Close() // the next is another connection
	}
	stranger := w.client("nobodys-token-0123456789", client.WithProof())
	defer stranger.Close()
	if _, err := stranger.Approvals(t.Context(), client.ApprovalQuery{}); client.CodeOf(err) != "unauthorized" {
		t.Errorf("an unknown token: %v", err)
	}
}

// Another gate's proof is for another port: who passes the question on gets nothing.
func TestAProofIsNotPassedOn(t *testing.T) {
	w := newWorld(t)
	var told atomic.Int64
	relay := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			told.Add(1)
		}
		resp, err := http.Get(w.srv.URL + r.URL.RequestURI()) //nolint:noctx // of a test
		if err != nil {
			return
		}
		defer resp.Body.Close()
		rw.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		rw.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(rw, resp.Body)
	}))
	defer relay.Close()
	c, err := client.New(relay.URL, hanaToken, client.WithProof())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Approvals(t.Context(), client.ApprovalQuery{}); client.CodeOf(err) != "invalid_parameter" || told.Load() != 0 {
		t.Errorf("%v, and the token was sent %d times", err, told.Load())
	}
}
