package downstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// Fleet is the programs that clients reach by one address. What one of them alone can answer, the others pass on to it:
// whole, with the credentials that it came with, and once. It is all of the same gate, and nothing that a person
// decides.
type Fleet struct {
	ID string // of this program
	// AddressOf returns the URL at which a program takes requests from others, "" if it is gone.
	AddressOf func(ctx context.Context, id string) (string, error)
	// Owner returns the program that alone can answer an agent's request without a session, "": any can.
	Owner func(ctx context.Context, agent, method string, params mcp.Object) string
}

// HeaderHop says that another program has passed a request on, which goes no further.
const HeaderHop = "X-Countersign-Hop"

// newSessionID returns the name of a session, which begins with its program's.
func (h *HTTP) newSessionID() string {
	if h.o.Fleet == nil {
		return rand.Text()
	}
	return h.o.Fleet.ID + "." + rand.Text()
}

// ownerOfSession returns the program that has the session of a request, "" if that is this one, or none can be told.
func (h *HTTP) ownerOfSession(r *http.Request) string {
	if !h.mayPassOn(r) {
		return ""
	}
	owner, _, ok := strings.Cut(r.Header.Get(mcp.HeaderSession), ".")
	if !ok || owner == h.o.Fleet.ID {
		return ""
	}
	return owner
}

// ownerOfRequest returns the program that alone can answer a request, "" if this one can.
func (h *HTTP) ownerOfRequest(x *httpStream, r *http.Request, m mcp.Message) string {
	if !h.mayPassOn(r) || !m.IsRequest() {
		return ""
	}
	ctx := r.Context()
	if x.overBudget != nil {
		ctx = context.WithValue(ctx, overBudgetKey{}, x.overBudget)
	}
	owner := h.o.Fleet.Owner(ctx, x.caller.Agent, m.Method, x.params)
	if owner == h.o.Fleet.ID {
		return ""
	}
	return owner
}

func (h *HTTP) mayPassOn(r *http.Request) bool {
	return h.o.Fleet != nil && len(r.Header[HeaderHop]) == 0
}

// passOn has another program answer, and reports false if that is gone: then it is answered here, as after its
// restart. body is what was read of the request's, with its message's id; nil: nothing was.
func (h *HTTP) passOn(w http.ResponseWriter, r *http.Request, caller Caller, owner string, body []byte,
	id jsontext.Value) bool {
	at, err := h.o.Fleet.AddressOf(r.Context(), owner)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, id, mcp.Errorf(mcp.CodeUnavailable,
			"The gate cannot answer now; try again later."))
		return true
	}
	to, err := url.Parse(at)
	if at == "" || err != nil {
		return false
	}
	if !h.beginPost() {
		refuse(w, http.StatusServiceUnavailable, id, errShuttingDown)
		return true
	}
	defer h.endPost()
	if body == nil {
		// The program that answers charges the agent. Here a flood is slowed down.
		if over := h.charge(caller.Agent, 0); over != nil && h.o.Budget != nil {
			h.o.Budget.Pause(r.Context())
		}
	}
	x := &httpStream{h: h, w: w, caller: caller}
	x.ctx, x.cancel = context.WithCancelCause(context.WithValue(r.Context(), passingKey{}, passing{id, to, w.Header()}))
	defer x.cancel(errAnswered)
	h.addLive(x)
	defer h.removeLive(x)
	out := r.WithContext(x.ctx)
	if body != nil {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	h.proxy.ServeHTTP(&passedOn{w, h.newStreamWriter(w, r)}, out)
	return true
}

// passing is a request on its way to another program, which the proxy finds in its context.
type passing struct {
	id     jsontext.Value // of its message, nil: it was not read
	to     *url.URL
	header http.Header // of the answer, as far as it is known here
}

type passingKey struct{}

// dialTimeout is how long it is tried to reach another program: it is near, or cut off.
const dialTimeout = 3 * time.Second

func (h *HTTP) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(p.In.Context().Value(passingKey{}).(passing).to)
			p.Out.Host = p.In.Host
			p.Out.Header.Set(HeaderHop, "1")
		},
		// A connection of its own for each: over one that is kept it would take minutes to notice that it is cut off.
		Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, DisableKeepAlives: true,
			DisableCompression: true, TLSHandshakeTimeout: dialTimeout},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			for name := range r.Header { // it says the same of itself as this one
				r.Request.Context().Value(passingKey{}).(passing).header.Del(name)
			}
			return nil
		},
		ErrorHandler: h.passingOnFailed,
		ErrorLog:     slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
}

// passingOnFailed answers a request whose program did not.
func (h *HTTP) passingOnFailed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && !errors.Is(context.Cause(r.Context()), errStopping) {
		return // nobody is there to be answered
	}
	what := "it is not known what was done with the request."
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		what = "nothing was run; try again."
	}
	h.log.WarnContext(r.Context(), "another replica of the gate has what a request is about, and could not be asked: see "+
		"that each can reach the others at their replicas.address", "address", r.URL.Host, "error", err)
	id := r.Context().Value(passingKey{}).(passing).id
	refuse(w, http.StatusServiceUnavailable, id, mcp.Errorf(mcp.CodeUnavailable,
		"Another replica of the gate has what this is about, and did not answer: %s", what))
}

// passedOn is the response of another program on its way to the client, which has as long for each part as for one of
// this program's.
type passedOn struct {
	http.ResponseWriter
	out streamWriter
}

func (p *passedOn) WriteHeader(status int) {
	p.out.extend()
	p.ResponseWriter.WriteHeader(status)
}

func (p *passedOn) Write(b []byte) (int, error) {
	p.out.extend()
	return p.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] flush what was written.
func (p *passedOn) Unwrap() http.ResponseWriter { return p.ResponseWriter }
