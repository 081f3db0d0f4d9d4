package config

import (
	"net"
	"net/netip"
	"net/url"

	"countersign/internal/listener"
	"countersign/internal/loopback"
)

// PagesURL is where people open the pages, without a slash at its end: public_url where that is safe to sign in over,
// which is https or this machine itself, else the listener's own address where that is this machine. "": nowhere.
func (c *Config) PagesURL() string {
	if c.File.PublicURL != "" {
		u, err := url.Parse(c.File.PublicURL)
		if err != nil || u.Scheme != "https" && !loopback.IsHost(u.Hostname()) {
			return ""
		}
		return c.File.PublicURL
	}
	listen, pair := c.File.Listen, c.File.TLS
	if c.File.PagesListen != "" {
		listen, pair = c.File.PagesListen, c.File.PagesTLS
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || !loopback.IsHost(host) {
		return ""
	}
	scheme := "http"
	if pair != nil {
		scheme = "https"
	}
	if listener.IsLocalhost(listen) { // by its name: a passkey belongs to a name, never to an address
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// PageOf is the address of the page on which a request is approved with a passkey, "" where the pages are nowhere.
func (c *Config) PageOf(request string) string {
	base := c.PagesURL()
	if base == "" {
		return ""
	}
	return base + "/r/" + request + "/passkey"
}

// NoPasskeys says why no person can use a passkey here, "" where they can.
func (c *Config) NoPasskeys() string {
	base, err := url.Parse(c.PagesURL())
	switch {
	case err != nil || base.Host == "" && c.File.PublicURL != "":
		return "browsers use passkeys over https only; begin public_url with https://"
	case base.Host == "":
		return "nobody reaches the pages; set public_url to where they are reached over https"
	}
	if _, err := netip.ParseAddr(base.Hostname()); err == nil {
		return "a passkey belongs to a name, not to an address; have public_url name a host, such as localhost in place " +
			"of 127.0.0.1"
	}
	return ""
}
