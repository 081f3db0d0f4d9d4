package openid_test

import (
	"strings"
	"testing"

	"countersign/internal/auth/openid"
)

func TestWhatASectionMaySay(t *testing.T) {
	sound := openid.Config{Issuer: "https://accounts.example.com", ClientID: "countersign"}
	with := func(fn func(*openid.Config)) openid.Config {
		c := sound
		fn(&c)
		return c
	}
	issuer := func(s string) openid.Config { return with(func(c *openid.Config) { c.Issuer = s }) }
	domains := func(s ...string) openid.Config { return with(func(c *openid.Config) { c.EmailDomains = s }) }
	for name, c := range map[string]struct {
		cfg  openid.Config
		want string // the key that is complained of
	}{
		"sound":                       {sound, ""},
		"with a path":                 {issuer("https://login.example.com/realms/main/"), ""},
		"on this machine":             {issuer("http://127.0.0.1:9000"), ""},
		"no issuer":                   {issuer(""), "issuer"},
		"in the clear":                {issuer("http://accounts.example.com"), "issuer"},
		"in the clear, like loopback": {issuer("http://127.0.0.1.example.com"), "issuer"},
		"not an address":              {issuer("accounts.example.com"), "issuer"},
		"with a user":                 {issuer("https://me@accounts.example.com"), "issuer"},
		"with a query":                {issuer("https://accounts.example.com/?a=b"), "issuer"},
		"with a fragment":             {issuer("https://accounts.example.com/#"), "issuer"},
		"with a space":                {issuer("https://accounts.example.com/ "), "issuer"},
		"where it describes itself":   {issuer("https://accounts.example.com/.well-known/openid-configuration"), "issuer"},
		"a file":                      {issuer("file:///etc/passwd"), "issuer"},
		"no client id":                {with(func(c *openid.Config) { c.ClientID = "" }), "client_id"},
		"a secret with a line end": {with(func(c *openid.Config) { c.ClientSecret = "nobody-knows-this\n" }),
			"client_secret"},
		"domains":                {domains("example.com", "xn--r8jz45g.jp"), ""},
		"a domain twice":         {domains("example.com", "Example.COM"), "email_domains[1]"},
		"an address as a domain": {domains("@example.com"), "email_domains[0]"},
		"any below":              {domains("*.example.com"), "email_domains[0]"},
		"a dot before":           {domains(".example.com"), "email_domains[0]"},
		"a dot behind":           {domains("example.com."), "email_domains[0]"},
		"one label":              {domains("com"), "email_domains[0]"},
		"not in ASCII":           {domains("例え.jp"), "email_domains[0]"},
		"scopes":                 {with(func(c *openid.Config) { c.Scopes = []string{"openid", "groups"} }), ""},
		"scopes without openid":  {with(func(c *openid.Config) { c.Scopes = []string{"email"} }), "scopes"},
		"two scopes in one":      {with(func(c *openid.Config) { c.Scopes = []string{"openid email"} }), "scopes[0]"},
		"a name":                 {with(func(c *openid.Config) { c.Name = "会社のアカウント" }), ""},
		"a name of two lines":    {with(func(c *openid.Config) { c.Name = "a\nb" }), "name"},
		"a long name":            {with(func(c *openid.Config) { c.Name = strings.Repeat("あ", 41) }), "name"},
	} {
		t.Run(name, func(t *testing.T) {
			found := c.cfg.Check()
			if c.want == "" && len(found) > 0 || c.want != "" && (len(found) == 0 || found[0].Key != c.want) {
				t.Errorf("got %+v, want a problem of %q", found, c.want)
			}
			for _, p := range found {
				if strings.Contains(p.Message, "nobody-knows-this") {
					t.Errorf("it shows the secret: %s", p.Message)
				}
			}
		})
	}
}
