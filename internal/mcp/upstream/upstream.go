// Package upstream keeps connections to MCP servers: over stdio to a process that it starts, or over streamable
// HTTP, in both eras of the protocol. It moves messages and applies no rules: what may be sent is decided before.
//
// It is exact about one thing: whether a request that got no answer was sent. A call that was not sent may be
// tried again; a call that was sent and not answered may have run.
package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// Config is one server and how it is reached: by Command or by URL.
type Config struct {
	Name    string
	Command []string
	Dir     string
	Env     []string // the whole environment of the command, as os.Environ has it; nil: this process's
	// Private are values that are left out of what a command last wrote: it may write what it was given as a secret.
	Private []string
	URL     string
	Header  http.Header // sent with every request; the server's own credentials

	// Client is our name and version, an object, as servers are told.
	Client jsontext.Value
	// Capabilities are what a legacy server is told that the client can do, an object; nil: {}.
	Capabilities jsontext.Value
	// Stderr receives, line by line, what a process writes there. nil: the log has it at level debug.
	Stderr func(line string)

	// StartTimeout is how long a server may say nothing until it has said what it is; default 30 s. A process that
	// writes meanwhile, as one that is being downloaded does, is given [longestStart] times as long in all.
	StartTimeout time.Duration
	// StartKey names the configuration's key for it, where it has one.
	StartKey string
	wrote    func() // a process that starts has written something
	Logger   *slog.Logger
	// Transport is what HTTP goes through; nil: one of its own, that follows no redirects.
	Transport http.RoundTripper
}

// Peer is the client that the messages are for that a server sends by itself. Both functions are called from
// the connection's reader and must not block it for long; Ask is called in a goroutine of its own.
type Peer struct {
	// Notification gets what belongs to no request in flight: list_changed, logging, resource updates.
	Notification func(mcp.Message)
	// Ask answers a request of a legacy server (sampling, elicitation, roots) that belongs to no request
	// in flight, or to one without an Ask of its own. nil: it is refused. ping is answered without it.
	Ask func(ctx context.Context, m mcp.Message) mcp.Message
}

// Hello is what a server said of itself.
type Hello struct {
	Era          mcp.Era
	Version      string         // of the protocol
	Capabilities jsontext.Value // an object
	Server       jsontext.Value // its name and version, an object; nil: it did not say
	Instructions string
}

// Request is one request to a server.
type Request struct {
	ID     jsontext.Value // from [Conn.NewID]; where Params ask for progress, it is the token too
	Method string
	Params jsontext.Value // as it is sent
	// Sender is whose request it is, where several share a connection to a process: what waits for it is written in
	// turns. Reservation, from [Conn.Reserve], is the place kept for the request; nil: it finds one, or fails with
	// [ErrBusy].
	Sender      string
	Reservation *Reservation
	// Header is sent beside the standard ones, over HTTP: what Mcp-Param headers the tool wants. With
	// Mcp-Name in it, encoded, Params are not read for it.
	Header http.Header
	// OnNotification gets the notifications that belong to the request, in order, before its answer: progress with its
	// token, and on HTTP all that comes on its stream. Do calls it; of many that it is slow to take, the oldest
	// are dropped. nil: they go to the Peer.
	OnNotification func(mcp.Message)
	// Ask answers what a legacy server asks while it works on this request. It is called in a goroutine
	// of its own, with a context that ends with the request. On stdio, where a server cannot say which
	// request it asks for, it is called only if this is the only request in flight that has an Ask.
	Ask func(ctx context.Context, m mcp.Message) mcp.Message
}

// isHandshake reports whether the request asks what the server is.
func (r Request) isHandshake() bool { return r.Method == "server/discover" || r.Method == "initialize" }

// Conn is a connection to one server. It is safe for concurrent use.
type Conn interface {
	Hello() Hello
	// NewID returns an id that no other request of the connection has.
	NewID() jsontext.Value
	// Reserve keeps a place for a request with so many bytes of params that is about to be sent. Where there is none left
	// for whose request it is, the error has [ErrBusy] within. Over HTTP there is always room, and it returns nil.
	Reserve(sender string, bytes int) (*Reservation, error)
	// Do sends the request and returns the server's response, result or error. Any other error is an
	// [*Error]. When ctx ends the server is told that the request is cancelled, in the way of its era.
	Do(ctx context.Context, r Request) (mcp.Message, error)
	// Notify sends a notification. Over stdio it does not wait until it is written.
	Notify(ctx context.Context, method string, params jsontext.Value) error
	// Done is closed when the connection is over; Err then says why.
	Done() <-chan struct{}
	Err() error
	// Close ends what is in flight, and the server's process or session, and returns when nothing of them
	// is left; a process that does not end by itself takes 4 s. It must not be called from OnNotification, Ask or a
	// [Peer].
	Close() error
}

// Error says that a request got no answer.
type Error struct {
	// Sent says that the server may have seen the request: it may have acted on it.
	Sent bool
	Err  error
}

func (e *Error) Error() string {
	switch e.Err {
	case context.Canceled:
		return "it was given up before the server answered"
	case context.DeadlineExceeded:
		return "the server did not answer in time"
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// plainError says in words for people, and for models, what err says in those of the machine.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// startError is why a server did not start, with the last lines of its stderr.
type startError struct {
	error
	stderr string
}

func (e *startError) Unwrap() error  { return e.error }
func (e *startError) Error() string  { return e.error.Error() + e.suffix() }
func (e *startError) suffix() string { return "; it last wrote: " + e.stderr }

// LastWords are the last lines of its stderr that a server wrote which did not say in time what it is; "" for all other
// errors. They may hold anything, its secrets too.
func LastWords(err error) string {
	if e, ok := errors.AsType[*startError](err); ok && errors.Is(err, context.DeadlineExceeded) {
		return e.stderr
	}
	return ""
}

// Brief is what err says, less the last lines of its process's stderr: they are for the operator, and
// may hold anything, its secrets too.
func Brief(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*startError](err); ok {
		text = strings.Replace(text, e.suffix(), "", 1)
	}
	return text
}

// Sent reports whether the request that err tells of may have reached the server.
func Sent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return !ok || e.Sent // what is not known is taken for sent
}
