package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"

	"countersign/internal/auth/openid"
	"countersign/internal/loopback"
)

// SignIn says how people sign in to the pages, beside links, their tokens and passkeys.
type SignIn struct {
	// OpenID is the provider that people sign in at; nil: none.
	OpenID *openid.Config `yaml:"openid,omitempty" json:"openid,omitempty"`
}

// OpenIDPeople returns how people are known at the provider.
func (c *Config) OpenIDPeople() []openid.Person {
	var known []openid.Person
	for _, p := range c.File.People {
		if p.signsIn() {
			known = append(known, p.AtProvider())
		}
	}
	return known
}

// AtProvider is how the person is known at the provider.
func (p Person) AtProvider() openid.Person {
	return openid.Person{Name: p.Name, Subject: p.OpenID, Email: p.Email}
}

// signsIn reports whether the person is known at a provider.
func (p Person) signsIn() bool { return p.OpenID != "" || p.Email != "" }

// signIn checks the ways to sign in, and how people are known there.
func (c *checker) signIn() {
	const at = "$.sign_in.openid"
	o := c.cfg.SignIn.OpenID
	if o == nil {
		if c.Said[at] || c.Said["$.sign_in"] {
			c.errorf(at, "sign_in.openid needs issuer and client_id")
		}
		c.knownAtNoProvider()
		return
	}
	for _, p := range o.Check() {
		c.errorf(at+"."+p.Key, "%s", p.Message)
	}
	c.wayBack(at)
	if c.Bad["$.people"] {
		return
	}
	for i, p := range c.cfg.File.People {
		if path := fmt.Sprintf("$.people[%d]", i); !c.Bad[path] {
			c.account(path, p)
		}
	}
	if len(c.cfg.OpenIDPeople()) == 0 {
		c.warnf(at, "nobody in people has openid or email: nobody can sign in there")
	}
}

// wayBack checks that there is an address that a provider can send browsers back to.
func (c *checker) wayBack(at string) {
	if c.cfg.PublicURL != "" {
		u, err := url.Parse(c.cfg.PublicURL)
		if err == nil && u.Scheme != "https" && !loopback.IsHost(u.Hostname()) {
			c.errorf("$.public_url", "sign_in.openid needs a public_url that begins with https://: the provider sends browsers "+
				"back there")
		}
		return
	}
	host, _, err := net.SplitHostPort(cmp.Or(c.cfg.PagesListen, c.cfg.Listen))
	if err == nil && !loopback.IsHost(host) {
		c.errorf(at, "sign_in.openid needs public_url: the provider sends browsers back there")
	}
}

// account checks how one person is known at the provider.
func (c *checker) account(path string, p Person) {
	subject, email := path+".openid", path+".email"
	if c.Said[subject] && !openid.ValidSubject(p.OpenID) {
		c.errorf(subject, `openid must be the person's "sub" in the provider's tokens: 1 to 255 ASCII characters`)
		return
	}
	c.checkUnique(subject, "openid", p.OpenID, p.Name)
	if !c.Said[email] {
		return
	}
	folded, ok := openid.FoldEmail(p.Email)
	switch {
	case !ok:
		c.errorf(email, "email must be one address in ASCII, such as hana@example.com")
	case p.OpenID != "":
		c.errorf(email, "a person is known by openid or by email, not by both; keep openid, which never becomes "+
			"somebody else's")
	case !c.cfg.SignIn.OpenID.Trusts(folded):
		c.errorf(email, "the address's domain is not in sign_in.openid.email_domains, so nobody could sign in with it")
	default:
		c.checkUnique(email, "email", folded, p.Name)
	}
}

// knownAtNoProvider warns of people who are known at a provider that there is none of.
func (c *checker) knownAtNoProvider() {
	for i, p := range c.cfg.File.People {
		if p.signsIn() {
			c.warnf(fmt.Sprintf("$.people[%d]", i), "%s has openid or email, but there is no sign_in.openid to sign in at",
				p.Name)
		}
	}
}
