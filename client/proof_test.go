package client_test

import (
	"io"
	"net"
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
		"an older gate that asks for a token first": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"title":"Unauthorized","code":"unauthorized"}`)
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
			a, err := c.Call(t.Context(), transfer)
			if err == nil {
				t.Errorf("it answers %+v", a)
			} else if older := strings.Contains(name, "older gate"); older != strings.Contains(err.Error(),
				"older than this program") {
				t.Errorf("it is said: %v", err)
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

// relay is a server that passes all on to a gate, and counts what was to be for the gate alone.
func relay(t *testing.T, to string) (h http.Handler, told *atomic.Int64) {
	t.Helper()
	told = new(atomic.Int64)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			told.Add(1)
		}
		resp, err := http.Get(to + r.URL.RequestURI()) //nolint:noctx // of a test
		if err != nil {
			return
		}
		defer resp.Body.Close()
		rw.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		rw.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(rw, resp.Body)
	}), told
}

// A gate's proof is for its address: who passes the question on gets nothing, be it from another port, or from its own
// port of the machine's other address.
func TestAProofIsNotPassedOn(t *testing.T) {
	w := newWorld(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(w.srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:" + port} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("nobody can be at %s here: %v", address, err)
			continue
		}
		h, told := relay(t, w.srv.URL)
		srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
		srv.Start()
		defer srv.Close()
		c, err := client.New("http://"+l.Addr().String(), hanaToken, client.WithProof())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Approvals(t.Context(), client.ApprovalQuery{}); client.CodeOf(err) != "invalid_parameter" ||
			told.Load() != 0 {
			t.Errorf("%s: %v, and the token was sent %d times", address, err, told.Load())
		}
	}
}

// What a name means is seen when it is connected to: whatever this machine is called, its servers prove themselves.
func TestWhateverThisMachineIsCalledItsServersProveThemselves(t *testing.T) {
	hosts := []string{"127.0.0.1", "localhost", "0.0.0.0", "[::]", "[::1]", "[::ffff:127.0.0.1]"}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			hosts = append(hosts, strings.TrimSuffix(net.JoinHostPort(n.IP.String(), ""), ":"))
		}
	}
	var asked, told atomic.Int64
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			told.Add(1)
		}
		http.NotFound(w, r)
	})}}
	srv.Start()
	defer srv.Close()
	n := 0
	for _, host := range hosts {
		before := asked.Load()
		c, err := client.New("http://"+host+":"+port, hanaToken, client.WithTransport(&http.Transport{
			DialContext: new(net.Dialer).DialContext}), client.WithProof()) // no proxy, which a machine's variables may name
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Approvals(t.Context(), client.ApprovalQuery{}); err == nil || told.Load() != 0 {
			t.Errorf("%s: %v, and the token was sent", host, err)
		}
		if asked.Load() > before { // else the name leads nowhere, as on a machine without IPv6
			n++
		}
	}
	if n < 3 {
		t.Errorf("only %d names of %v led here", n, hosts)
	}
}
