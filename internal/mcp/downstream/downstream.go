// Package downstream keeps the connections of MCP clients, over stdio and over streamable HTTP, in both
// eras of the protocol. It frames, checks and routes messages and applies no rules: each request is given
// to a [Session], which answers it.
//
// A legacy client has one session, from initialize until it ends. A modern client has none: over HTTP each of
// its requests gets a [Session] of its own, over stdio one [Session] serves the whole connection.
package downstream

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// Client is who a session is for.
type Client struct {
	Era   mcp.Era
	Agent string // by its credential, never from what it sent
	// StillValid looks at the credential again: an error says that it is not valid any more. nil: it always is.
	StillValid func() error
	// Push sends a notification outside of any request, as legacy servers do. It does not block for long
	// and may drop what the client does not fetch. nil: there is no way.
	Push func(mcp.Message)
	// Ask sends a request outside of any request, as legacy servers do, and returns its response. nil: there
	// is no way.
	Ask func(ctx context.Context, method string, params jsontext.Value) (mcp.Message, error)
	// Local says that the client is on the same machine and speaks for one person: stdio.
	Local bool
}

// ErrCancelled is the cause ([context.Cause]) of a request's context that ended because the client itself
// gave the request up: by notifications/cancelled, or in the modern era by closing the stream. Any other
// cause, [context.Canceled] among them, is a connection that was lost, which says nothing of what the client wants.
var ErrCancelled = errors.New("the client cancelled the request")

// SessionOpener opens sessions.
type SessionOpener interface {
	Open(c Client) Session
}

// Session answers one client. Its methods are called concurrently.
type Session interface {
	// Request answers one request; the response bears its id. ctx ends when the client gives the request
	// up (notifications/cancelled, a modern HTTP client that closes the stream) or is gone. A request that
	// was given up need not be answered; what is returned then is dropped.
	Request(ctx context.Context, m mcp.Message, s Stream) mcp.Message
	// Notify takes a notification, such as notifications/initialized. The transports handle
	// notifications/cancelled themselves.
	Notify(ctx context.Context, m mcp.Message)
	// ParamHeaders returns the Mcp-Param headers that a tool's schema asks for, none for an unknown tool.
	ParamHeaders(tool string) []mcp.ParamHeader
	// Close ends the session; requests in flight have ended before.
	Close()
}

// Stream is the way to a client while its request is worked on. It may be used from several goroutines,
// and not after the request was answered.
type Stream interface {
	// Send sends a notification that belongs to the request.
	Send(m mcp.Message) error
	// Ask sends the client a request, legacy era only, and returns its response.
	Ask(ctx context.Context, method string, params jsontext.Value) (mcp.Message, error)
}

// ParamsReader is a [Stream] whose request's params were read already, and need not be read again: they and the _meta
// in them.
type ParamsReader interface {
	ReadParams() (params, meta mcp.Object)
}

// Caller is who an HTTP request comes from.
type Caller struct {
	Agent      string
	StillValid func() error
}

// valid looks at the credential again.
func (c Caller) valid() error {
	if c.StillValid == nil {
		return nil
	}
	return c.StillValid()
}

// Authenticate says who an HTTP request comes from; an error refuses it with 401, and its text is told.
type Authenticate func(r *http.Request) (Caller, error)
