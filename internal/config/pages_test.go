package config

import (
	"fmt"
	"testing"

	"countersign/internal/listener"
)

func TestThePagesOwnListenerIsWhereTheyAre(t *testing.T) {
	cfg := &Config{File: File{Listen: DefaultListen, PagesListen: "127.0.0.1:9443", PagesTLS: &listener.Pair{}}}
	if got := cfg.PageOf("01"); got != "https://localhost:9443/r/01/passkey" {
		t.Errorf("the page of 01 is %q", got)
	}
	cfg.PagesListen = "0.0.0.0:9443"
	if got := cfg.PageOf("01"); got != "" {
		t.Errorf("the page of 01 is %q", got)
	}
}

func TestWhereThePagesAre(t *testing.T) {
	for _, c := range []struct {
		name, public, listen string
		tls                  *listener.Pair
		page                 string
		passkeys             bool
	}{
		{"the default", "", DefaultListen, nil, "http://localhost:8787/r/01/passkey", true},
		{"another loopback address", "", "[::1]:80", nil, "http://localhost:80/r/01/passkey", true},
		{"with a certificate", "", "localhost:443", &listener.Pair{}, "https://localhost:443/r/01/passkey", true},
		{"one that localhost is not", "", "127.0.0.2:80", nil, "http://127.0.0.2:80/r/01/passkey", false},
		{"for every network", "", "0.0.0.0:8787", nil, "", false},
		{"for a network by its name", "", "gate:8787", nil, "", false},
		{"from outside", "https://gate.example.com", "0.0.0.0:8787", nil, "https://gate.example.com/r/01/passkey", true},
		{"from outside in the clear", "http://gate.example.com", DefaultListen, nil, "", false},
		{"here, by its name", "http://localhost:8787", DefaultListen, nil, "http://localhost:8787/r/01/passkey", true},
		{"here, by its address", "http://127.0.0.1:8787", DefaultListen, nil, "http://127.0.0.1:8787/r/01/passkey", false},
		{"by an address", "https://192.0.2.7", DefaultListen, nil, "https://192.0.2.7/r/01/passkey", false},
		{"by a long address", "https://[2001:db8::7]", DefaultListen, nil, "https://[2001:db8::7]/r/01/passkey", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := &Config{File: File{PublicURL: c.public, Listen: c.listen, TLS: c.tls}}
			if got := cfg.PageOf("01"); got != c.page {
				t.Errorf("the page of 01 is %q, want %q", got, c.page)
			}
			if why := cfg.NoPasskeys(); (why == "") != c.passkeys {
				t.Errorf("why there are no passkeys: %q", why)
			}
		})
	}
}

// What leads to the gate beside its own address: what is said to be published, and a public_url of this machine.
func TestWhatLeadsToTheGate(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "[]"},
		{`published: [127.0.0.1:8787, "[::1]:9000", "[::ffff:127.0.0.1]:1"]`, "[127.0.0.1:8787 [::1]:9000 127.0.0.1:1]"},
		{"public_url: http://localhost:9000", "[127.0.0.1:9000 [::1]:9000]"},
		{"public_url: http://LOCALHOST", "[127.0.0.1:80 [::1]:80]"},
		{"public_url: http://127.0.0.1:9000/", "[127.0.0.1:9000]"},
		{"public_url: http://[::1]:9000", "[[::1]:9000]"},
		{"public_url: https://localhost:9000", "[]"}, // its certificate proves it
		{"public_url: http://gate.example.com:9000", "[]"},
		{"public_url: https://gate.example.com", "[]"},
	} {
		cfg, problems := parseText(t, c.text+
			"\npeople: [{name: hana, roles: [approver], token: hana-token-0123456789abcdef}]\n")
		if cfg == nil {
			t.Fatalf("%s: %v", c.text, problems)
		}
		if got := fmt.Sprint(cfg.LedTo); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}
