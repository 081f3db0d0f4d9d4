package client

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Errors of a server that does not show that it knows the token.
var (
	errUnproven = errors.New("it did not show that it is a gate that knows this token, and so was not sent it; " +
		"another program may have taken the port while the gate was down: look which one has it, and start the gate again")
	errOlder = errors.New("the gate that answers is older than this program and cannot show that it knows the token, " +
		"which was not sent: restart the gate, with the program that is installed now")
	errConnection = errors.New("it does not keep the connection on which it proved that it knows the token")
)

// WithProof has a server on this machine prove on each connection, before anything is sent over it, that it knows the
// token: any program can take the port of a gate that is down. Which machine it is says the connection, whatever the
// name. Over HTTPS the certificate proves more, and at a unix socket its owner is looked at.
func WithProof() Option {
	return func(c *Client) {
		t, ok := c.http.Transport.(*http.Transport)
		if !ok || c.base.Scheme != "http" || t.DialContext == nil || c.socket {
			return
		}
		dial := t.DialContext
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			at, here := thisMachine(conn)
			if !here || c.throughProxy(t) {
				return conn, nil
			}
			if err := c.proves(conn, at); err != nil {
				conn.Close()
				return nil, err
			}
			return conn, nil
		}
	}
}

// throughProxy reports whether a transport brings requests to the server by a proxy, which proves nothing.
func (c *Client) throughProxy(t *http.Transport) bool {
	if t.Proxy == nil {
		return false
	}
	proxy, err := t.Proxy(&http.Request{URL: c.base})
	return err == nil && proxy != nil
}

// thisMachine returns to which address a connection leads, and whether that is this machine's: a connection from one
// machine to itself has the same at both ends, or loopback.
func thisMachine(conn net.Conn) (at netip.AddrPort, here bool) {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	local, ok2 := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !ok2 {
		return at, false
	}
	to, from := remote.AddrPort().Addr().Unmap().WithZone(""), local.AddrPort().Addr().Unmap().WithZone("")
	return netip.AddrPortFrom(to, remote.AddrPort().Port()), to.IsLoopback() || to == from
}

// proofTime is how long a proof may take, and maxProof how long it may be.
const (
	proofTime = 10 * time.Second
	maxProof  = 64 << 10
)

// proves asks for a proof over a connection to an address, on which nothing else is under way.
func (c *Client) proves(conn net.Conn, at netip.AddrPort) error {
	token, nonce := c.token(), rand.Text()
	u := *c.base
	u.Path += "/v1/proof"
	u.RawQuery = url.Values{"token": {derive(token, "name of a token")[:32]}, "nonce": {nonce},
		"address": {at.String()}}.Encode()
	req, err := http.NewRequest(http.MethodGet, u.String(), http.NoBody) //nolint:noctx // the connection has a deadline
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(proofTime)); err != nil {
		return err
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	r := bufio.NewReader(io.LimitReader(conn, maxProof))
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	var got struct{ Proof string }
	want := derive(token, "proof at "+at.String()+" for "+nonce)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= http.StatusBadRequest:
		switch e := refusal(resp, body); e.Code { // nothing was sent, and anyone may say so
		case "":
			return errUnproven
		case "not_found", "unauthorized": // there is no such path; where there is none, a token is asked for first
			return errOlder
		case "unknown_token": // as over any other path
			e.Code = "unauthorized"
			return e
		default:
			return e
		}
	case json.Unmarshal(body, &got) != nil || !hmac.Equal([]byte(got.Proof), []byte(want)):
		return errUnproven
	case resp.Close || r.Buffered() > 0:
		return errConnection
	}
	return conn.SetDeadline(time.Time{})
}

// derive is what follows from a token and tells nothing of it: the gate's document has it, at /v1/proof.
func derive(token, what string) string {
	digest := sha256.Sum256([]byte(token))
	h := hmac.New(sha256.New, digest[:])
	h.Write([]byte(what))
	return hex.EncodeToString(h.Sum(nil))
}
