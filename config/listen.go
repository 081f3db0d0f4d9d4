package config

import (
	"errors"
	"fmt"
	"net"
	"time"

	"countersign/internal/loopback"
	"countersign/listener"
	"countersign/yamlpos"
)

// certificates checks the pairs of files that TLS is spoken with.
func (c *checker) certificates() {
	c.pair("$.tls", c.cfg.TLS)
	c.pair("$.webhook_tls", c.cfg.WebhookTLS)
	if c.cfg.WebhookTLS != nil && c.cfg.WebhookListen == "" {
		c.errorf("$.webhook_tls", "webhook_tls is for webhook_listen, which is not given; listen has tls")
	}
	if host, _, err := net.SplitHostPort(c.cfg.WebhookListen); err == nil && c.cfg.TLS != nil && c.cfg.WebhookTLS == nil &&
		!loopback.IsHost(host) {
		c.warnf("$.webhook_listen", "tls is for listen alone: webhook_listen is plain HTTP; give it webhook_tls, or an "+
			"address of this machine alone and a proxy before it")
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
	for _, w := range p.Warnings(cert, time.Now()) {
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
