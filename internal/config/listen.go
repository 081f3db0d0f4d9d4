package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"countersign/internal/listener"
	"countersign/internal/loopback"
	"countersign/internal/yamlpos"
)

// certificates checks the pairs of files that TLS is spoken with.
func (c *checker) certificates() {
	c.pair("$.tls", c.cfg.TLS)
	c.pair("$.webhook_tls", c.cfg.WebhookTLS)
	c.pair("$.pages_tls", c.cfg.PagesTLS)
	if c.cfg.PagesTLS != nil && c.cfg.PagesListen == "" {
		c.errorf("$.pages_tls", "pages_tls has no effect without pages_listen; for listen write tls")
	}
	if c.cfg.WebhookTLS != nil && c.cfg.WebhookListen == "" {
		c.errorf("$.webhook_tls", "webhook_tls has no effect without webhook_listen; for listen write tls")
	}
	if host, _, err := net.SplitHostPort(c.cfg.WebhookListen); err == nil && c.cfg.TLS != nil && c.cfg.WebhookTLS == nil &&
		!loopback.IsHost(host) {
		c.warnf("$.webhook_listen", "tls covers listen only, so webhook_listen is plain HTTP; set webhook_tls, or use an "+
			"address such as 127.0.0.1:8788 with a proxy in front of it")
	}
}

func (c *checker) pair(path string, p *listener.Pair) {
	if p == nil {
		if c.Said[path] {
			c.errorf(path, "%s needs cert and key", yamlpos.LastKey(path))
		}
		return
	}
	if p.Cert == "" || p.Key == "" {
		c.errorf(path, "%s needs cert and key: the files of a certificate with its chain, and of its key, in PEM",
			yamlpos.LastKey(path))
		return
	}
	at := func(e *listener.PairError) string {
		if e.Key {
			return path + ".key"
		}
		return path + ".cert"
	}
	cert, err := p.Load()
	if e, ok := errors.AsType[*listener.PairError](err); ok {
		c.errorf(at(e), "%s", e.Error())
		return
	}
	for _, w := range p.Warnings(cert, c.now) {
		c.warnf(at(&w), "%s", w.Error())
	}
}

// proxies checks whose word is taken for where requests come from.
func (c *checker) proxies() {
	ps, i, err := listener.ParseProxies(c.cfg.TrustedProxies)
	if err != nil {
		c.errorf(fmt.Sprintf("$.trusted_proxies[%d]", i), "an entry of trusted_proxies %s", err)
		return
	}
	c.cfg.Proxies = ps
}

// ledTo reads which addresses lead to listen beside its own.
func (c *checker) ledTo() {
	for i, text := range c.cfg.File.Published {
		at, err := netip.ParseAddrPort(text)
		if err != nil || at.Port() == 0 || at.Addr().IsUnspecified() || at.Addr().Zone() != "" {
			c.errorf(fmt.Sprintf("$.published[%d]", i), "an entry of published must be the IP address and port that clients "+
				"connect to, such as 127.0.0.1:8787 or \"[::1]:8787\"")
			return
		}
		c.cfg.LedTo = append(c.cfg.LedTo, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
	}
	u, err := url.Parse(c.cfg.PublicURL)
	if err != nil || u.Scheme != "http" || !loopback.IsHost(u.Hostname()) {
		return
	}
	hosts := []string{u.Hostname()}
	if strings.EqualFold(u.Hostname(), "localhost") {
		hosts = []string{"127.0.0.1", "::1"}
	}
	for _, host := range hosts {
		if at, err := netip.ParseAddrPort(net.JoinHostPort(host, cmp.Or(u.Port(), "80"))); err == nil {
			c.cfg.LedTo = append(c.cfg.LedTo, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
		}
	}
}

// debugListen checks that profiles are served to this machine alone, and with nothing else.
func (c *checker) debugListen() {
	const key = "$.debug_listen"
	f := &c.cfg.File
	if f.DebugListen == "" {
		return
	}
	c.address(key, f.DebugListen)
	if host, _, err := net.SplitHostPort(f.DebugListen); err == nil && !loopback.IsHost(host) {
		c.errorf(key, "debug_listen is for this machine alone: give it an address such as 127.0.0.1:6060")
	}
	for _, other := range []struct{ name, address string }{
		{"listen", f.Listen}, {"webhook_listen", f.WebhookListen}, {"pages_listen", f.PagesListen},
	} {
		if sameAddress(other.address, f.DebugListen) {
			c.errorf(key, "debug_listen is the same address as %s; profiles need one of their own", other.name)
		}
	}
}

// pagesListen checks where the pages are, and whether people can reach them there.
func (c *checker) pagesListen() {
	f := &c.cfg.File
	at, key, pair := f.PagesListen, "$.pages_listen", f.PagesTLS
	if at == "" {
		at, key, pair = f.Listen, "$.listen", f.TLS
	} else {
		c.address(key, at)
		for other, address := range map[string]string{"listen": f.Listen, "webhook_listen": f.WebhookListen} {
			if sameAddress(address, at) {
				c.errorf(key, "pages_listen is the same address as %s; the pages need one of their own", other)
			}
		}
	}
	host, _, err := net.SplitHostPort(at)
	if err != nil || loopback.IsHost(host) {
		return
	}
	if f.PublicURL == "" {
		c.warnf(key, "the pages answer only under this machine's own names, such as localhost; set public_url to the "+
			"address that people use")
	} else if strings.HasPrefix(f.PublicURL, "http://") && pair == nil {
		c.warnf("$.public_url", "over plain HTTP people can sign in to the pages on this machine only; put TLS in front of "+
			"them, and begin public_url with https://")
	}
}
