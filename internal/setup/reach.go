package setup

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"countersign/channels"
)

// reachWithin is how long a connection may take to open.
const reachWithin = 10 * time.Second

// reach opens a connection to where an address is, with TLS for https, and closes it again. viaProxy
// says that requests there go through a proxy, which is left alone. The error does not quote the address.
func reach(ctx context.Context, address string) (viaProxy bool, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return false, errors.New("it is not an address")
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
		return true, nil
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // "https" and "http" are names of ports too
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	at := net.JoinHostPort(u.Hostname(), port)
	var c net.Conn
	if u.Scheme == "https" {
		c, err = new(tls.Dialer).DialContext(ctx, "tcp", at)
	} else {
		c, err = new(net.Dialer).DialContext(ctx, "tcp", at)
	}
	if err != nil {
		return false, plainly(err)
	}
	return false, c.Close()
}

// plainly says why no connection came about.
func plainly(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return errors.New("its name is not known")
		}
		return errors.New("its name could not be looked up")
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return errors.New("its certificate is not valid for it")
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("it does not answer in time")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return errors.New(channels.Said(op.Err.Error()))
	}
	return errors.New("it does not answer as it should")
}
