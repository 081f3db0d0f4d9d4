package downstream

import (
	"errors"
	"net/http"
	"testing"
)

func TestGuard(t *testing.T) {
	public := []string{"https://gate.example", "other.example:8443"}
	for _, c := range []struct {
		loopback     bool
		allowed      []string
		host, origin string
		ok           bool
	}{
		{true, nil, "localhost", "", true},
		{true, nil, "LOCALHOST:8080", "", true},
		{true, nil, "localhost.:8080", "", true},
		{true, nil, "127.0.0.1:8080", "", true},
		{true, nil, "127.9.9.9", "", true},
		{true, nil, "[::1]:8080", "", true},
		{true, nil, "[::1]", "", true},
		{true, nil, "", "", false},
		{true, nil, "evil.example", "", false},
		{true, nil, "localhost.evil.example", "", false},
		{true, nil, "127.0.0.1.evil.example:8080", "", false},
		{true, nil, "0.0.0.0:8080", "", false},
		{true, nil, "evil.example:8080", "http://evil.example:8080", false},
		{true, public, "gate.example", "", true},
		{true, public, "gate.example:443", "", true},
		{true, public, "Gate.Example", "https://gate.example", true},
		{true, public, "gate.example:8080", "", false},
		{true, public, "other.example:8443", "", true},
		{true, public, "other.example", "", false},
		{true, public, "xgate.example", "", false},
		{false, nil, "evil.example", "", true},
		{false, nil, "evil.example", "http://evil.example", true}, // a token is needed here
		{true, nil, "localhost:8080", "http://localhost:8080", true},
		{true, nil, "localhost:8080", "http://localhost:3000", false},
		{true, nil, "localhost:8080", "http://localhost", false},
		{true, nil, "localhost", "http://localhost:80", true},
		{true, nil, "localhost:8080", "http://127.0.0.1:8080", false},
		{true, nil, "localhost:8080", "https://evil.example", false},
		{true, nil, "localhost:8080", "null", false},
		{true, nil, "localhost:8080", "", true},
		{true, nil, "localhost:8080", "localhost:8080", false},
		{true, nil, "localhost:8080", "::", false},
		{true, public, "localhost:8080", "https://gate.example", true},
		{true, public, "localhost:8080", "http://gate.example", false},
		{false, public, "10.0.0.1:8080", "https://gate.example", true},
		{false, public, "10.0.0.1:8080", "https://gate.example.evil.example", false},
		{false, nil, "gate.example", "https://gate.example", true},
		{false, nil, "gate.example:443", "http://gate.example:80", false},
	} {
		r := &http.Request{Host: c.host, Header: http.Header{}}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		err := Guard{c.loopback, c.allowed}.Check(r)
		if (err == nil) != c.ok {
			t.Errorf("Host %q, Origin %q, loopback %t, allowed %v: got %v, want ok %t", c.host, c.origin, c.loopback, c.allowed,
				err, c.ok)
		}
		if e := ErrForbidden(""); err != nil && !errors.As(err, &e) {
			t.Errorf("%T is not ErrForbidden", err)
		}
	}
}

func TestTwoOriginsAreNone(t *testing.T) {
	r := &http.Request{Host: "localhost", Header: http.Header{"Origin": {"http://localhost", "http://evil.example"}}}
	if (Guard{Loopback: true}).Check(r) == nil {
		t.Error("two origins were let in")
	}
}
