package openid

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/internal/loopback"
	"countersign/internal/secret"
)

// Config is the section sign_in.openid.
type Config struct {
	// Issuer is the provider, as its tokens call it: https, or this machine.
	Issuer string `yaml:"issuer" json:"issuer"`
	// ClientID is what the provider knows us as.
	ClientID string `yaml:"client_id" json:"client_id"`
	// ClientSecret is "" for a public client.
	ClientSecret secret.Value `yaml:"client_secret,omitempty" json:"client_secret,omitempty"`
	// EmailDomains are those whose addresses the provider is believed about; none: people are known by subject alone.
	EmailDomains []string `yaml:"email_domains,omitempty" json:"email_domains,omitempty"`
	// Scopes are what is asked for; none: openid, and email where there are EmailDomains.
	Scopes []string `yaml:"scopes,omitempty" json:"scopes,omitempty"`
	// Name is what the button calls the provider; "": the issuer's host.
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
}

// Format shows a provider by its issuer alone, whatever holds it: fmt asks no method of what it was pointed to from
// within something that a verb does not suit.
func (c *Config) Format(f fmt.State, _ rune) { io.WriteString(f, c.Issuer) }

// Problem is something wrong with a [Config].
type Problem struct {
	Key     string // below the section, such as "email_domains[1]"
	Message string
}

// Bounds of what is configured.
const (
	maxName    = 40  // characters on a button
	maxSubject = 255 // OpenID Connect Core, section 2
)

// Check returns what is wrong with the section.
func (c *Config) Check() []Problem {
	var found []Problem
	add := func(key, format string, args ...any) {
		found = append(found, Problem{key, fmt.Sprintf(format, args...)})
	}
	if why := badIssuer(c.Issuer); why != "" {
		add("issuer", "issuer %s", why)
	}
	if c.ClientID == "" || strings.ContainsFunc(c.ClientID, invisible) {
		add("client_id", "client_id is what the provider calls this program, in visible ASCII characters")
	}
	if slip := secret.FindSlip(c.ClientSecret); slip != "" {
		add("client_secret", "client_secret %s", slip)
	} else if strings.ContainsFunc(c.ClientSecret.Reveal(), invisible) {
		add("client_secret", "client_secret is of visible ASCII characters, without spaces or line ends")
	}
	for i, d := range c.EmailDomains {
		key := fmt.Sprintf("email_domains[%d]", i)
		switch folded, ok := domain(d); {
		case !ok:
			add(key, "a domain is written such as example.com: without @, * or a dot at its ends, and in ASCII (xn--…)")
		case slices.ContainsFunc(c.EmailDomains[:i], func(o string) bool { return lower(o) == folded }):
			add(key, "%s is listed twice; remove one", folded)
		}
	}
	for i, s := range c.Scopes {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return invisible(r) || r == '"' || r == '\\' }) {
			add(fmt.Sprintf("scopes[%d]", i), "a scope is a word such as email")
		}
	}
	if len(c.Scopes) > 0 && !slices.Contains(c.Scopes, scopeOpenID) {
		add("scopes", "scopes must have openid among them")
	}
	if utf8.RuneCountInString(c.Name) > maxName || strings.TrimSpace(c.Name) != c.Name ||
		strings.ContainsFunc(c.Name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		add("name", "name is what stands on a button: at most %d characters in one line", maxName)
	}
	return found
}

func invisible(r rune) bool { return r <= ' ' || r > '~' }

// badIssuer says what is wrong with an issuer, "" if nothing is.
func badIssuer(s string) string {
	const form = "must be an address such as https://accounts.example.com"
	u, err := url.Parse(s)
	switch {
	case err != nil, s == "", u.Hostname() == "", u.User != nil, u.Opaque != "", strings.ContainsAny(s, "?#"),
		strings.ContainsFunc(s, invisible):
		return form
	case strings.Contains(u.Path, "/.well-known/"):
		return "is the provider's name, without /.well-known/ and what follows it"
	case u.Scheme == "http" && !loopback.IsHost(u.Hostname()):
		return "must begin with https:// (http only for this machine itself, such as http://127.0.0.1:9000)"
	case u.Scheme != "https" && u.Scheme != "http":
		return form
	}
	return ""
}

// Label is what the button calls the provider.
func (c *Config) Label() string {
	if c.Name != "" {
		return c.Name
	}
	u, err := url.Parse(c.Issuer)
	if err != nil {
		return ""
	}
	return u.Host
}

const (
	scopeOpenID = "openid"
	scopeEmail  = "email"
)

func (c *Config) scopes() []string {
	switch {
	case len(c.Scopes) > 0:
		return c.Scopes
	case len(c.EmailDomains) > 0:
		return []string{scopeOpenID, scopeEmail}
	}
	return []string{scopeOpenID}
}

// Trusts reports whether the provider is believed about an e-mail address, by its domain.
func (c *Config) Trusts(address string) bool {
	_, at, ok := split(address)
	return ok && slices.ContainsFunc(c.EmailDomains, func(d string) bool { return lower(d) == at })
}
