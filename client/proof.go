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
	"net/url"
	"strings"
	"time"
)

// errUnproven is that of a server which does not show that it knows the token.
var errUnproven = errors.New("it did not show that it is a gate that knows this token, and so was not sent it; " +
	"another program may have taken the port while the gate was down: look which one has it, and start the gate again")

// WithProof has a server on this machine prove on each connection, before anything is sent over it, that it knows the
// token: any program can take the port of a gate that is down. Over HTTPS the certificate proves more, and at a unix
// socket its owner is looked at.
func WithProof() Option {
	return func(c *Client) {
		t, ok := c.http.Transport.(*http.Transport)
		if !ok || c.base.Scheme != "http" || !isLoopback(c.base.Hostname()) || t.DialContext == nil || c.socket {
			return
		}
		dial := t.DialContext
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			if err := c.proves(conn, address); err != nil {
				conn.Close()
				return nil, err
			}
			return conn, nil
		}
	}
}

// proofTime is how long a proof may take, and maxProof how long it may be.
const (
	proofTime = 10 * time.Second
	maxProof  = 64 << 10
)

// proves asks for a proof over a connection, on which nothing else is under way.
func (c *Client) proves(conn net.Conn, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	token, nonce := c.token(), rand.Text()
	u := *c.base
	u.Path += "/v1/proof"
	u.RawQuery = url.Values{"token": {derived(token, "name of a token")[:32]}, "nonce": {nonce}, "port": {port}}.Encode()
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
	want := derived(token, "proof at port "+port+" for "+nonce)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= http.StatusBadRequest:
		if e := refusal(resp, body); e.Code != "" && e.Code != "not_found" {
			return e // nothing was sent, whoever says so
		}
		return errUnproven
	case json.Unmarshal(body, &got) != nil || !hmac.Equal([]byte(got.Proof), []byte(want)):
		return errUnproven
	case resp.Close || r.Buffered() > 0:
		return errors.New("it does not keep the connection on which it proved that it knows the token")
	}
	return conn.SetDeadline(time.Time{})
}

// derived is what follows from a token and tells nothing of it: the gate's document has it, at /v1/proof.
func derived(token, what string) string {
	digest := sha256.Sum256([]byte(token))
	h := hmac.New(sha256.New, digest[:])
	h.Write([]byte(what))
	return hex.EncodeToString(h.Sum(nil))
}

func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
