package auth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"countersign/approval"
)

func TestWhoIsCalling(t *testing.T) {
	dir := NewDirectory([]AgentIdentity{{Name: "bot", Token: "bot-token"}}, []Person{{Name: "hana", Token: "hana-token",
		Approver: true}})
	local := Anonymous{TCP: "guest"}
	callers := Callers{Directory: dir, Anonymous: func() Anonymous { return local }}
	request := func(values ...string) *http.Request {
		at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(at))
		r := httptest.NewRequestWithContext(ctx, "GET", "/v1/approvals", nil)
		r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:40000"
		r.Header["Authorization"] = values
		if values == nil {
			delete(r.Header, "Authorization")
		}
		return r
	}
	for _, c := range []struct {
		name   string
		header []string
		want   approval.Actor
		err    error
	}{
		{"an agent's token", []string{"Bearer bot-token"}, approval.Actor{Kind: approval.Agent, Name: "bot"}, nil},
		{"a person's token", []string{"Bearer hana-token"}, approval.Actor{Kind: approval.Human, Name: "hana",
			Approver: true}, nil},
		{"no token, from this machine", nil, approval.Actor{Kind: approval.Agent, Name: "guest"}, nil},
		{"nobody's token", []string{"Bearer other"}, approval.Actor{}, ErrUnknownToken},
		{"an empty header is no lack of one", []string{""}, approval.Actor{}, ErrNoToken},
		{"another scheme", []string{"Basic bot-token"}, approval.Actor{}, ErrNoToken},
		{"two headers", []string{"Bearer bot-token", "Bearer hana-token"}, approval.Actor{}, ErrNoToken},
	} {
		t.Run(c.name, func(t *testing.T) {
			who, err := callers.Caller(request(c.header...))
			if !errors.Is(err, c.err) || who.Kind != c.want.Kind || who.Name != c.want.Name || who.Approver != c.want.Approver {
				t.Errorf("%+v, %v; want %+v, %v", who.Actor, err, c.want, c.err)
			}
		})
	}

	nobody := Callers{Directory: dir}
	if _, err := nobody.Caller(request()); !errors.Is(err, ErrNoToken) {
		t.Errorf("without anonymous callers: %v", err)
	}

	bot, err1 := callers.Caller(request("Bearer bot-token"))
	hana, err2 := callers.Caller(request("Bearer hana-token"))
	guest, err3 := callers.Caller(request())
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	dir.Replace([]AgentIdentity{{Name: "bot", Token: "rotated"}, {Name: "hana", Token: "hana-token"}}, []Person{})
	local = Anonymous{TCP: "somebody"}
	for name, was := range map[string]Caller{
		"the token was replaced": bot, "the token is an agent's now": hana, "anonymous callers are others now": guest,
	} {
		if now, ok := callers.Now(was); ok {
			t.Errorf("%s: still %+v", name, now.Actor)
		}
	}
	dir.Replace(nil, []Person{{Name: "hana", Token: "hana-token", Admin: true}})
	if now, ok := callers.Now(hana); !ok || now.Approver || !now.Admin {
		t.Errorf("hana's roles changed: %+v, %t", now.Actor, ok)
	}
}
