package rest

import (
	"errors"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/auth/signin"
)

func TestALinkIsForWhoeverAsksForIt(t *testing.T) {
	w := newWorld(t)
	r := w.do(hanaToken, "POST", "/v1/sign-in-links", "", headerClient, "cli").is(200)
	_, token, ok := strings.Cut(r.str("url"), "/signin/link?t=")
	if !ok || len(r.str("id")) != 26 {
		t.Fatalf("%s", r.body)
	}
	from := signin.Origin{Address: "192.0.2.1"}
	if l, err := w.signIns.Link(t.Context(), token, from); err != nil || l.Person != "hana" ||
		l.From != signin.FromTerminal || l.ID != r.str("id") {
		t.Errorf("%+v, %v", l, err)
	}
	if strings.Contains(w.log.String(), token) {
		t.Error("the token is in the log")
	}
}

// An agent that could sign in could decide.
func TestRule2_AnAgentsTokenGetsNoLink(t *testing.T) {
	w := newWorld(t)
	w.do(botToken, "POST", "/v1/sign-in-links", "").is(403, "people_only")
	w.do("", "POST", "/v1/sign-in-links", "").is(401, "unauthorized")
	people := 0
	err := w.store.View(t.Context(), func(tx approval.Tx) error {
		names, err := tx.(signin.Tx).SignInPeople()
		people = len(names)
		return err
	})
	if people != 0 || err != nil {
		t.Errorf("%d have links, %v", people, err)
	}
}

func TestLinksAreLimited(t *testing.T) {
	w := newWorld(t)
	for range 8 {
		w.do(hanaToken, "POST", "/v1/sign-in-links", "").is(200)
	}
	if r := w.do(hanaToken, "POST", "/v1/sign-in-links", "").is(429,
		"rate_limited"); r.header.Get("Retry-After") != "600" {
		t.Errorf("Retry-After: %q", r.header.Get("Retry-After"))
	}
	w.do(kenToken, "POST", "/v1/sign-in-links", "").is(200)
	_, _, err := pagesAt{w.signIns}.LinkFor(t.Context(), "bot", approval.ViaAPI, "")
	if !errors.Is(err, signin.ErrRefused) {
		t.Errorf("for an agent's name: %v", err)
	}
}
