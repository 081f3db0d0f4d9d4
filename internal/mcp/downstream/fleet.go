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
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
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

// mayPassOn reports whether a request may go to another program: it was not passed on before, and shows that one who it
// is from.
func (h *HTTP) mayPassOn(r *http.Request) bool {
	return h.o.Fleet != nil && len(r.Header[HeaderHop]) == 0 && r.Header.Get("Authorization") != ""
}

// passOn has another program answer, and reports false if that is gone: then it is answered here, as after its
// restart. Of x it needs who the request is from, and what was read of it: body, nil where nothing was, with the id of
// its message.
func (h *HTTP) passOn(x *httpStream, r *http.Request, owner string, id jsontext.Value) bool {
	at, err := h.o.Fleet.AddressOf(r.Context(), owner)
	if err != nil {
		refuse(x.w, http.StatusServiceUnavailable, id, mcp.Errorf(mcp.CodeUnavailable,
			"The gate cannot answer now; try again later."))
		return true
	}
	to, err := url.Parse(at)
	if at == "" || err != nil {
		return false
	}
	p := &passing{client: r.Context(), id: id, to: to, header: x.w.Header()}
	x.ctx, x.cancel = context.WithCancelCause(context.WithValue(r.Context(), passingKey{}, p))
	defer x.cancel(errAnswered)
	h.addLive(x)
	defer h.removeLive(x)
	watching := make(chan struct{})
	defer func() { <-watching }()
	defer x.cancel(errAnswered)
	go func() {
		defer close(watching)
		h.watchOwner(x, owner)
	}()
	out := r.WithContext(httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { p.sent.Store(true) }}))
	if x.body != nil {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(x.body)), int64(len(x.body))
	}
	h.proxy.ServeHTTP(&passedOn{x.w, h.newStreamWriter(x.w, r)}, out)
	return true
}

// passOnBare is passOn for a GET or a DELETE. A stream counts here, too.
func (h *HTTP) passOnBare(w http.ResponseWriter, r *http.Request, caller Caller, owner string) bool {
	if !h.beginPost() {
		refuse(w, http.StatusServiceUnavailable, nil, errShuttingDown)
		return true
	}
	defer h.endPost()
	if r.Method == http.MethodGet && h.o.Budget != nil {
		release, over := h.o.Budget.Stream(r.Context(), caller.Agent)
		if over != nil {
			refuseOver(w, over)
			return true
		}
		defer release()
	}
	return h.passOn(&httpStream{h: h, w: w, caller: caller}, r, owner, nil)
}

// watchOwner gives a request up whose program is gone and has not closed the connection: it stands still, or is cut
// off.
func (h *HTTP) watchOwner(x *httpStream, owner string) {
	again := time.NewTicker(h.watchEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if at, err := h.o.Fleet.AddressOf(x.ctx, owner); at == "" && err == nil {
				x.cancel(errOwnerGone)
			}
		case <-x.ctx.Done():
			return
		}
	}
}

var errOwnerGone = errors.New("the replica of the gate that has it is gone")

// passing is a request on its way to another program, which the proxy finds in its context.
type passing struct {
	client context.Context // of the request as it came here
	id     jsontext.Value  // of its message, nil: it was not read
	to     *url.URL
	header http.Header // of the answer, as far as it is known here
	sent   atomic.Bool // it may have come there
}

func passingOf(r *http.Request) *passing { return r.Context().Value(passingKey{}).(*passing) }

type passingKey struct{}

// dialTimeout is how long it is tried to reach another program: it is near, or cut off.
const dialTimeout = 3 * time.Second

func (h *HTTP) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(passingOf(p.In).to)
			p.Out.Host = p.In.Host
			p.Out.Header.Set(HeaderHop, "1")
		},
		// A connection of its own for each: over one that is kept it would take minutes to notice that it is cut off.
		Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, DisableKeepAlives: true,
			DisableCompression: true, TLSHandshakeTimeout: dialTimeout},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			for name := range r.Header { // it says the same of itself as this one
				passingOf(r.Request).header.Del(name)
			}
			return nil
		},
		ErrorHandler: h.passingOnFailed,
		ErrorLog:     slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
}

// passingOnFailed answers a request whose program did not.
func (h *HTTP) passingOnFailed(w http.ResponseWriter, r *http.Request, err error) {
	p := passingOf(r)
	if p.client.Err() != nil {
		return // nobody is there to be answered
	}
	what := "nothing was run; try again."
	if p.sent.Load() {
		what = "it is not known what was done with the request."
	}
	if cause := context.Cause(r.Context()); cause != nil {
		err = cause
	}
	h.log.WarnContext(r.Context(), "another replica of the gate has what a request is about, and did not answer: see "+
		"that each can reach the others at their replicas.address", "address", p.to.Host, "error", err)
	refuse(w, http.StatusServiceUnavailable, p.id, mcp.Errorf(mcp.CodeUnavailable,
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
