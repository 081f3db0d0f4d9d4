package config

import (
	"fmt"
	"strings"
	"testing"

	"countersign/internal/auth/openid"

	"github.com/google/go-cmp/cmp"
)

const signInText = `
public_url: https://gate.example.com
sign_in:
  openid:
    issuer: https://login.example.com/realms/main
    client_id: countersign
    client_secret: "${CLIENT_SECRET}"
    email_domains: [example.com]
people:
  - {name: hana, roles: [approver], openid: 110248495921238986420}
  - {name: ken, roles: [approver], email: Ken@Example.com}
  - {name: mei, roles: [approver], token: "${MEI_TOKEN}"}
agents: [{name: bot, token: "${BOT_TOKEN}"}]

`

func TestSignInByOpenID(t *testing.T) {
	cfg, problems := parseText(t, signInText)
	for _, p := range problems {
		if !strings.Contains(p.Message, "no channel has a recipient") {
			t.Errorf("problem: %s", p)
		}
	}
	want := []openid.Person{{Name: "hana", Subject: "110248495921238986420"}, {Name: "ken", Email: "Ken@Example.com"}}
	if diff := cmp.Diff(want, cfg.OpenIDPeople()); diff != "" {
		t.Errorf("people: -want +got\n%s", diff)
	}
	if o := cfg.SignIn.OpenID; o.ClientSecret.Reveal() != "value-of-client_secret" || o.Label() != "login.example.com" {
		t.Errorf("got %+v with the label %q", o, o.Label())
	}
	if s := fmt.Sprintf("%+v %+v", cfg, cfg.SignIn.OpenID); strings.Contains(s, "value-of-") {
		t.Errorf("printed: %s", s)
	}
}

func TestWarningsOfSignIn(t *testing.T) {
	warned := func(text string) string {
		_, problems := parseText(t, text)
		var said []string
		for _, p := range problems {
			said = append(said, p.Message)
		}
		return strings.Join(said, "\n")
	}
	before, rest, _ := strings.Cut(signInText, "sign_in:")
	_, after, _ := strings.Cut(rest, "people:")
	if got := warned(before + "people:" + after); !strings.Contains(got,
		"hana has openid or email, but there is no sign_in.openid") ||
		!strings.Contains(got, "hana cannot decide anything; add line, slack or token") {
		t.Errorf("people without a provider: %s", got)
	}
	nobody := strings.NewReplacer(", openid: 110248495921238986420", "", ", email: Ken@Example.com",
		"").Replace(signInText)
	if got := warned(nobody); !strings.Contains(got, "nobody can sign in there") ||
		!strings.Contains(got, "hana cannot decide anything; add line, slack, openid, email or token") {
		t.Errorf("a provider without people: %s", got)
	}
}
