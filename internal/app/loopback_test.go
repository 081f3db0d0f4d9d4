package app_test

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"countersign/client"
	"countersign/internal/app"
	"countersign/internal/config"
)

// localhost are the addresses of it that the machine has.
func localhost(t *testing.T) []string {
	t.Helper()
	l, err := net.Listen("tcp6", "[::1]:0")
	if errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		return []string{"127.0.0.1"}
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return []string{"127.0.0.1", "::1"}
}

// Rule 2.8: browsers and commands that are led to localhost may try ::1 first. Whoever had the gate's port there got
// sign-in links, keys of sessions and tokens.
func TestRule8_TheGateHasBothAddressesOfLocalhost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, webhooksApart, withProfiles)
	for name, at := range map[string]string{"listen": w.app.Addr(), "webhook_listen": w.app.WebhookAddr(),
		"debug_listen": w.app.DebugAddr()} {
		_, port, err := net.SplitHostPort(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range localhost(t) {
			l, err := net.Listen("tcp", net.JoinHostPort(host, port))
			if err == nil {
				l.Close()
			}
			if !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%s: another program takes %s: %v", name, net.JoinHostPort(host, port), err)
			}
			if status, body := w.request(&http.Transport{}, "", "GET", "http://"+net.JoinHostPort(host, port)+"/nothing",
				""); status/100 != 4 {
				t.Errorf("%s at %s: %d %s", name, host, status, body)
			}
		}
	}
	_, port, _ := net.SplitHostPort(w.app.Addr())
	for _, host := range append(localhost(t), "localhost") {
		c, err := client.New("http://"+net.JoinHostPort(host, port), secrets["HANA_TOKEN"], client.WithProof())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Approvals(t.Context(), client.ApprovalQuery{}); err != nil {
			t.Errorf("as %s: %v", host, err)
		}
	}
}

// Where another program has one of the addresses the gate does not start at the other, whatever is to be served there.
func TestRule8_TheGateDoesNotStartAtHalfOfLocalhost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	for _, taken := range localhost(t) {
		other, err := net.Listen("tcp", net.JoinHostPort(taken, "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		_, port, _ := net.SplitHostPort(other.Addr().String())
		for key, change := range map[string]func(string) string{
			"listen":         replacing("listen: 127.0.0.1:0", "listen: 127.0.0.1:"+port),
			"webhook_listen": replacing("listen: 127.0.0.1:0", "listen: 127.0.0.1:0\nwebhook_listen: localhost:"+port),
			"pages_listen":   replacing("listen: 127.0.0.1:0", "listen: 127.0.0.1:0\npages_listen: \"[::1]:"+port+"\""),
			"debug_listen":   replacing("listen: 127.0.0.1:0", "listen: 127.0.0.1:0\ndebug_listen: localhost:"+port),
		} {
			cfg, _, err := config.Parse("countersign.yaml", []byte(change(configText)), w.lookup)
			if err != nil {
				t.Fatal(err)
			}
			a, err := app.New(w.ctx, app.Options{Config: cfg, Disk: w.disk, Env: w.lookup})
			if err == nil {
				w.app = a
				w.stop()
			}
			if err == nil || !strings.HasPrefix(err.Error(), key+" ") || !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%s while another has %s: %v", key, other.Addr(), err)
			}
		}
	}
}

// Without a public_url a link leads where the gate listens, and never where localhost may be another program.
func TestALinkLeadsWhereTheGateListens(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{"127.0.0.1:0": "http://localhost:", "localhost:0": "http://localhost:",
		"0.0.0.0:0": "http://localhost:", "127.0.0.2:0": "http://127.0.0.2:"} {
		if l, err := net.Listen("tcp", listen); err != nil {
			t.Logf("nobody can be at %s here: %v", listen, err)
			continue
		} else if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, replacing("listen: 127.0.0.1:0", "listen: "+listen))
		l, err := w.hana.SignInLink(w.ctx)
		_, port, _ := net.SplitHostPort(w.app.Addr())
		if err != nil || !strings.HasPrefix(l.URL, want+port+"/") {
			t.Errorf("%s: the link is %s, %v", listen, l.URL, err)
		}
		if status, body := w.request(&http.Transport{}, "", "GET", l.URL, ""); status != 200 || !strings.Contains(body,
			"hana") {
			t.Errorf("%s: the link's page: %d %s", listen, status, body)
		}
		c, err := client.New("http://"+w.app.Addr(), secrets["HANA_TOKEN"], client.WithProof())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Approvals(w.ctx, client.ApprovalQuery{}); err != nil {
			t.Errorf("%s: at the address where it listens the gate proves nothing: %v", listen, err)
		}
		w.stop()
	}
}

// At an address of the network, in the clear, nobody is led to sign in: what they would be given, others would read.
func TestRule8_NobodySignsInInTheClearFromAnotherMachine(t *testing.T) {
	t.Parallel()
	at := ""
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			at = n.IP.String()
		}
	}
	if at == "" {
		t.Log("this machine has no address of a network")
		return
	}
	w := newWorld(t, replacing("127.0.0.1:0", strconv.Quote(net.JoinHostPort(at, "0"))))
	if l, err := w.hana.SignInLink(w.ctx); err == nil || !strings.Contains(err.Error(), "Set public_url") {
		t.Errorf("a link: %+v, %v", l, err)
	}
	w.ok(w.chat.LINE.Type(w.ctx, "hana", "sign in", ""))
	w.told("set public_url")
	if es := w.audit("sign_in_link_made"); len(es) != 0 {
		t.Errorf("links: %+v", es)
	}
	if status, body := w.request(&http.Transport{}, "", "GET", "http://"+w.app.Addr()+"/signin", ""); status != 421 {
		t.Errorf("the pages there: %d %s", status, body)
	}
}
