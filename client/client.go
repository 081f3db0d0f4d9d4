package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Client is one principal's access to one server. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	where   string        // the server, for people
	token   func() string // a function, because that does not print
	http    *http.Client
	name    string
	timeout time.Duration
	socket  bool // it is a unix socket
	clock   *clock
}

// Option changes a [Client] that [New] makes.
type Option func(*Client)

// WithTransport has requests sent through rt.
func WithTransport(rt http.RoundTripper) Option {
	return func(c *Client) { c.http.Transport = rt }
}

// WithName tells the server what kind of client it is; "cli" has decisions recorded as made on the
// command line.
func WithName(name string) Option {
	return func(c *Client) { c.name = name }
}

// WithTimeout bounds each request, beside the time it asked to wait; the default is 15 seconds. The
// stream of [Client.Events] is not bounded.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) { c.timeout = d }
}

type traceKey struct{}

// traceparentForm is that of a traceparent, also of a later version.
var traceparentForm = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{0,64})?$`)

// WithTraceparent returns a context whose requests tell the server in which trace they are made: traceparent is that of
// W3C's Trace Context, as an agent has it in the variable TRACEPARENT. What is not one, such as "", changes nothing.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	if !traceparentForm.MatchString(traceparent) {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// New returns a client of the server at baseURL, such as http://127.0.0.1:8787, acting for the agent
// or person whose token it is. With unix:///path/to.sock it talks over that unix socket, where the token
// may be "": then none is sent, and the server decides who that is. Where the system tells whose process is at
// the other end of a socket, one of another user than this process's and root is not talked to: it could say yes.
func New(baseURL, token string, opts ...Option) (*Client, error) {
	c, err := newClient(baseURL, token, opts)
	if err == nil && token == "" && !c.socket {
		return nil, errors.New("client: no token")
	}
	return c, err
}

// newClient is New that does not miss a token.
func newClient(baseURL, token string, opts []Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, errors.New("client: the server's address is not a URL")
	}
	socket := ""
	if u.Scheme == "unix" {
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.Path == "/" {
			return nil, errors.New("client: the address of a unix socket is unix:// and its whole path, such as " +
				"unix:///run/countersign.sock")
		}
		socket = u.Path
		u.Scheme, u.Host, u.Path, u.RawPath = "http", "localhost", "", ""
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("client: the server's address must begin with http:// or https:// and name a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("client: the server's address must have no user, query or fragment")
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return nil, errors.New("client: the token has a character that no token has; was it cut or quoted?")
		}
	}
	u.Path = strings.TrimRight(u.Path, "/")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	where := u.Host
	if socket != "" {
		where = socket
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			if err != nil {
				return nil, err
			}
			if uid, known := peer(conn); known && !isTrusted(uid, os.Geteuid()) {
				conn.Close()
				return nil, fmt.Errorf("the process at the socket %s is another user's", socket)
			}
			return conn, nil
		}
	}
	c := &Client{base: u, where: where, token: func() string { return token }, timeout: 15 * time.Second,
		socket: socket != "", clock: new(clock),
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
	for _, o := range opts {
		o(c)
	}
	return c, nil
}

// isTrusted reports whether a gate of one user may answer a process of another: root can be any user.
func isTrusted(gate, own int) bool { return gate == own || gate == 0 }

// Close drops idle connections. A client can be used after it.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// maxAnswer is how much of an answer is read: a page of requests may hold many large args.
const maxAnswer = 256 << 20

// do sends one request and decodes the answer into out. wait is how long the server was asked to hold it.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body, out any,
	wait time.Duration) error {
	if wait > 0 {
		if query == nil {
			query = url.Values{}
		}
		query.Set("wait", strconv.FormatInt(max(1, int64((wait+time.Second-1)/time.Second)), 10)+"s")
	}
	return c.doIn(ctx, c.timeout+min(max(wait, 0), MaxWait), method, path, query, body, out)
}

// doIn is do that takes at most so long.
func (c *Client) doIn(ctx context.Context, limit time.Duration, method, path string, query url.Values,
	body, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	resp, err := c.send(ctx, method, path, query, body, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return c.explainUnreached(ctx, err)
	}
	if resp.StatusCode >= 300 {
		return refusal(resp, b)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("client: %s answered %d with what is not the JSON of /v1: %w", c.where, resp.StatusCode, err)
	}
	return nil
}

// send returns the answer whatever its status; the caller closes its body.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any,
	header http.Header) (*http.Response, error) {
	u := *c.base
	u.Path += path
	u.RawQuery = query.Encode()
	var r io.Reader
	if body != nil {
		var buf bytes.Buffer
		e := json.NewEncoder(&buf)
		e.SetEscapeHTML(false)
		if err := e.Encode(body); err != nil {
			return nil, fmt.Errorf("client: the request is not JSON: %w", err)
		}
		r = &buf
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), r)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if t := c.token(); t != "" {
		req.Header.Set("Authorization", "Bearer "+t)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.name != "" {
		req.Header.Set("X-Countersign-Client", c.name)
	}
	if t, ok := ctx.Value(traceKey{}).(string); ok {
		req.Header.Set("traceparent", t)
	}
	sent := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explainUnreached(ctx, err)
	}
	c.clock.heard(resp.Header, sent, time.Now())
	return resp, nil
}

var errSlow = errors.New("the server did not answer in time")

// explainUnreached says why there was no answer, without the URL's query.
func (c *Client) explainUnreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if e, ok := errors.AsType[*Error](err); ok { // instead of a proof: see [WithProof]
		return e
	}
	return fmt.Errorf("client: no answer from %s: %w", c.where, err)
}

// Error is a refusal by the server.
type Error struct {
	Status        int
	Code          string // to branch on: "already_resolved", "expired", …
	Title         string
	Detail        string        // a sentence for people
	Approval      *Approval     // the request it is about, where there is one
	RetryAfter    time.Duration // when to try again; 0: not said
	CorrelationID string        // under which the server's log and audit log have it
}

func (e *Error) Error() string {
	s := e.Detail
	if s == "" {
		s = e.Title
	}
	if e.Code == "" {
		return fmt.Sprintf("the server answered %d: %s", e.Status, s)
	}
	return e.Code + ": " + s
}

// Is reports whether target is an [*Error] of the same code, so that
// errors.Is(err, &Error{Code: "expired"}) reads well.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code != "" && t.Code == e.Code
}

// CodeOf returns the server's code of err, "" when err is not a refusal.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// problem is a problem document.
type problem struct {
	Title    string    `json:"title"`
	Detail   string    `json:"detail"`
	Code     string    `json:"code"`
	Approval *Approval `json:"approval"`
}

// refusal reads the problem document of an answer.
func refusal(resp *http.Response, body []byte) *Error {
	e := &Error{Status: resp.StatusCode, CorrelationID: resp.Header.Get("X-Correlation-Id")}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		e.RetryAfter = time.Duration(n) * time.Second
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var p problem
	switch {
	case kind == "application/problem+json" && json.Unmarshal(body, &p) == nil:
		e.Title, e.Detail, e.Code, e.Approval = p.Title, p.Detail, p.Code, p.Approval
	case resp.StatusCode < 400:
		e.Title = http.StatusText(resp.StatusCode)
		e.Detail = "a redirect, which is not followed; give the address it leads to"
		if to, err := resp.Location(); err == nil {
			to.User, to.RawQuery, to.Fragment = nil, "", ""
			e.Detail = "a redirect to " + to.String() + ", which is not followed; give that address instead"
		}
	default:
		e.Title = http.StatusText(resp.StatusCode)
		e.Detail = "this is not an answer of a Countersign server; is the address right?"
	}
	return e
}

// Unreachable reports whether err means that no server answered at all.
func Unreachable(err error) bool {
	_, refused := errors.AsType[*Error](err)
	_, network := errors.AsType[net.Error](err)
	return !refused && (network || errors.Is(err, errSlow) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF))
}
