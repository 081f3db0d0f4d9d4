package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign/approval"
	"countersign/approval/correlation"
	"countersign/client"
	"countersign/internal/auth"
	"countersign/internal/auth/signin"
	"countersign/internal/budget"
	"countersign/internal/history"
	"countersign/internal/lists"
)

// Notifications is the notification log: the package outbox.
type Notifications interface {
	// Search returns the q.Limit newest that q selects among the look newest that are to be looked at.
	Search(ctx context.Context, q approval.NotificationQuery, look int) (lists.Found[approval.Notification], error)
	Notification(ctx context.Context, id string) (approval.Notification, error)
	// Retry has a failed notification sent again.
	Retry(ctx context.Context, by approval.Actor, id string) (approval.Notification, error)
}

// Options are what a [Server] is made of. Gate and Directory are required.
type Options struct {
	Gate      *approval.Gate
	Directory *auth.Directory
	// Notifications is the notification log, which must be there for people to read it.
	Notifications Notifications
	// History is the record, which must be there for people to ask how often people were asked. NameOf says whose address
	// one is, "" for no person's; nil: all are no person's.
	History history.Reader
	NameOf  func(a approval.Address) string
	// Kept says for how long the record is kept, now. nil: for ever.
	Kept func() history.Kept
	// Summary says in a sentence what will happen by a request. nil: what its rule says of that.
	Summary func(r approval.Request) string
	// Freezes are told of what is frozen and lifted here. nil: no one is.
	Freezes Freezes
	// Granted is told of grants that are made here. nil: no one is.
	Granted Granted
	Logger  *slog.Logger // default: none
	Version string       // of the program, for the OpenAPI document
	// Stopping is done when the server is about to stop: a caller that waits is answered then. nil: never.
	Stopping context.Context
	// Quotas says what is known of the channels' months. nil: nothing.
	Quotas func() []client.Quota
	// Heartbeat says what the heartbeat's entries did last. nil: there are none.
	Heartbeat func() []client.Beat
	// Anonymous says which agents callers without a token are, now. nil: none.
	Anonymous func() auth.Anonymous
	// Authenticated is told of a request whose sender has shown who they are, before its body is read. nil: nobody.
	Authenticated func(r *http.Request, who approval.Actor)
	// Remote says where a request came from, for the log. nil: nothing.
	Remote func(r *http.Request) string
	// SignIn makes links that sign people in to the pages. nil: there are no pages.
	SignIn SignIn
	// Published are the addresses of this machine that lead to the gate beside those at which it listens, as configured
	// now; nil: none.
	Published func() []netip.AddrPort
	// Budgets are those of agents and people. nil: there are none.
	Budgets *budget.Registry
	// Trace begins a span of a call that came in at a route, of an agent that sent a traceparent or ""; the zero one is a
	// batch. It is asked about in the context that Trace returns, which is told at the end how. nil: there are no spans.
	Trace func(ctx context.Context, route, traceparent string,
		c approval.Call) (context.Context, func(error, approval.Answer))
	// Patience is how long the store may take before the answer is 503; default 10 s.
	Patience time.Duration
}

// Freezes tell admins of what was frozen or lifted over the API.
type Freezes interface {
	Froze(ctx context.Context, e approval.Epoch) error
	TellLifted(ctx context.Context, e approval.Epoch, by approval.Actor) error
}

// SignIn makes links that sign people in to the pages. Errors: those of [signin.Service.NewLink].
type SignIn interface {
	// LinkFor makes one for a person who has shown a token, and returns its address.
	LinkFor(ctx context.Context, person string, via approval.Via, token string) (address string, l signin.Link, err error)
}

// Granted tells admins of a grant that was made over the API.
type Granted interface {
	TellGranted(ctx context.Context, g approval.Grant) error
}

// Server is the HTTP handler of /v1 and /openapi.json. It holds no rule of its own about who may run
// what. It is safe for concurrent use. Requests that wait lift the deadlines that the [http.Server]
// has set for their connection; everything else relies on them.
type Server struct {
	gate      *approval.Gate
	pushes    Notifications
	history   history.Reader
	kept      func() history.Kept
	nameOf    func(approval.Address) string
	signIn    SignIn  // nil: there are no pages
	freezes   Freezes // nil: nobody is told
	made      Granted // of grants; nil: nobody is told
	summary   func(approval.Request) string
	dir       *auth.Directory
	log       *slog.Logger
	version   string
	stopping  context.Context
	patience  time.Duration
	quotas    func() []client.Quota
	beats     func() []client.Beat
	callers   auth.Callers
	admitted  func(*http.Request, approval.Actor) // Options.Authenticated
	remote    func(*http.Request) string
	budgets   *budget.Registry
	trace     func(context.Context, string, string, approval.Call) (context.Context, func(error, approval.Answer))
	published func() []netip.AddrPort
	keepAlive time.Duration
	look      looking

	routes   []route
	mux      *http.ServeMux
	known    *http.ServeMux // mux without the catch-all: which methods has a path?
	lost     http.Handler   // the catch-all
	document func() []byte
}

// New returns the handler.
func New(o Options) *Server {
	s := &Server{gate: o.Gate, pushes: o.Notifications, freezes: o.Freezes, signIn: o.SignIn,
		made: o.Granted, dir: o.Directory, summary: o.Summary,
		log:     o.Logger,
		history: o.History, kept: o.Kept, nameOf: o.NameOf,
		version: o.Version, stopping: o.Stopping, quotas: o.Quotas, beats: o.Heartbeat,
		callers:  auth.Callers{Directory: o.Directory, Anonymous: o.Anonymous},
		admitted: o.Authenticated, remote: o.Remote, budgets: o.Budgets, patience: o.Patience, keepAlive: 15 * time.Second,
		trace: o.Trace,
		look:  defaultLooking,
		mux:   http.NewServeMux(), known: http.NewServeMux()}
	if s.kept == nil {
		s.kept = func() history.Kept { return history.Kept{} }
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.summary == nil {
		s.summary = func(r approval.Request) string { return r.Sentences.SummaryIn("") }
	}
	if s.quotas == nil {
		s.quotas = func() []client.Quota { return nil }
	}
	if s.beats == nil {
		s.beats = func() []client.Beat { return nil }
	}
	if s.admitted == nil {
		s.admitted = func(*http.Request, approval.Actor) {}
	}
	if s.remote == nil {
		s.remote = func(*http.Request) string { return "" }
	}
	if s.published = o.Published; s.published == nil {
		s.published = func() []netip.AddrPort { return nil }
	}
	if s.stopping == nil {
		s.stopping = context.Background()
	}
	if s.patience <= 0 {
		s.patience = 10 * time.Second
	}
	s.document = sync.OnceValue(s.openapi)
	s.routes = s.table()
	for i := range s.routes {
		rt := &s.routes[i]
		s.mux.Handle(rt.method+" "+rt.path, s.handler(rt))
		s.known.Handle(rt.method+" "+rt.path, http.NotFoundHandler())
	}
	s.lost = s.handler(&route{path: "/v1/", handle: s.answerUnmatched})
	s.mux.Handle("/v1/", s.lost)
	s.mux.Handle("/", s.handler(&route{path: "/", public: true, handle: s.answerUnmatched}))
	return s
}

const (
	headerCorrelation = "X-Correlation-Id"
	// headerClient names the client program; "cli" has decisions recorded as made on the command line.
	headerClient = "X-Countersign-Client"
)

// Headers that every answer has: one list of values serves all, since no handler adds to them.
var noSniff, noStore, jsonType = []string{"nosniff"}, []string{"no-store"}, []string{"application/json"}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := correlation.Theirs(r.Header.Get(headerCorrelation))
	if id == "" {
		id = correlation.New(time.Now())
	}
	h := w.Header()
	h.Set(headerCorrelation, id)
	h["X-Content-Type-Options"], h["Cache-Control"] = noSniff, noStore
	if path.Clean(r.URL.Path) != r.URL.Path { // which the mux would answer with a redirect
		s.lost.ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// audience is whom a path is for.
type audience int

const (
	everyone audience = iota
	agents
	people
	admins
)

// route is one path with one method: how it is answered, and all that the OpenAPI document says of it.
type route struct {
	method, path string
	public       bool // needs no token
	audience     audience
	// byID says that the handler itself judges the audience and the query: what the path names is
	// looked up first.
	byID   bool
	misses bool // the gate puts on record that a caller asked for what is not there
	stream bool // not bounded in time
	steps  bool // bounds its own time, and reads in steps
	// exports says that all of the list can be had, as a stream: see exchange.export.
	exports bool
	reads   bool // what was stored, and may be much
	// undoes are those whom the route has take something back, or say what came of it, which no budget refuses:
	// the handler calls checkUndoes.
	undoes []approval.ActorKind
	handle func(ctx context.Context, x *exchange) error
	doc    routeDoc
}

// exchange is one request with what has been learnt of it, and the way to answer.
type exchange struct {
	http.ResponseWriter
	gate    *approval.Gate // that is asked
	r       *http.Request
	ctx     context.Context // that the request is answered in
	route   *route
	who     auth.Caller
	again   func() error // looks at who asks once more
	unfound error        // that of an id that names nothing, where the gate is asked all the same
	typed   string       // in place of a whole id in the path; "" for one that was whole
	query   url.Values
	export  string // the form in which all of a list is streamed; "" for a page of JSON
	wait    time.Duration
	formErr error // what is wrong with the query
	account *budget.Account
	turn    func()       // ends the turn in which the answer is read; nil: there is none
	spared  bool         // no budget refuses it, as long as it takes something back
	over    func() error // refuses it all the same; nil: there is no reason to
	status  int          // of the answer; 0: none yet
}

// Unwrap is for [http.ResponseController].
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader notes the status.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) correlation() string { return x.Header().Get(headerCorrelation) }

// via is over which way the principal acts.
func (x *exchange) via() approval.Via {
	if x.r.Header.Get(headerClient) == "cli" {
		return approval.ViaCLI
	}
	return approval.ViaAPI
}

// hold lifts the connection's deadlines, which the server's time-outs have set, so that the answer may
// take d longer. A deadline for reading would be taken for the client having gone. One for writing is
// set only where the server sets it anew for the next request.
func (x *exchange) hold(d time.Duration) {
	c := http.NewResponseController(x.ResponseWriter)
	_ = c.SetReadDeadline(time.Time{}) // not supported means that there is none
	if srv, ok := x.r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout > 0 {
		_ = c.SetWriteDeadline(time.Now().Add(d + srv.WriteTimeout))
	}
}

var (
	errSlowStore = errors.New("the store took too long")
	errPanicked  = errors.New("panic")
)

func (s *Server) handler(rt *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, gate: s.gate, r: r, route: rt}
		begin := time.Now()
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.fail(x, fmt.Errorf("%w: %v\n%s", errPanicked, p, debug.Stack()))
			}
			s.access(x, begin)
		}()
		if err := s.serve(x); err != nil {
			s.fail(x, err)
		}
	})
}

func (s *Server) serve(x *exchange) error {
	rt := x.route
	if !rt.public {
		var err error
		if x.who, err = s.authenticate(x.r); err != nil {
			return err
		}
		s.admitted(x.r, x.who.Actor)
		if err := s.charge(x); err != nil {
			return err
		}
		x.again = func() error {
			who, err := s.still(x.who)
			if err == nil {
				x.who = who
			}
			return err
		}
	}
	x.readQuery()
	x.readExport()
	if !rt.byID {
		if err := x.admit(rt.audience); err != nil {
			return err
		}
		if x.formErr != nil {
			return x.formErr
		}
	}
	ctx := correlation.With(x.r.Context(), x.correlation())
	release, err := x.occupy()
	if err != nil {
		return err
	}
	defer release()
	if !x.streams() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.patience+x.wait, errSlowStore)
		defer cancel()
	}
	x.ctx = ctx
	if err := x.resolveID(ctx); err != nil {
		return err
	}
	if rt.reads && x.export == "" {
		if err := x.account.CheckRead(); err != nil {
			return err
		}
		defer x.endTurn()
	}
	if x.wait <= 0 && !x.streams() || rt.public {
		return rt.handle(ctx, x)
	}
	who := x.who // x.who may be looked at anew meanwhile
	ctx, done := s.dir.Hold(ctx, func() error { _, err := s.still(who); return err })
	defer done()
	x.ctx = ctx
	err = rt.handle(ctx, x)
	if err != nil && x.status == 0 && context.Cause(ctx) == error(errUnauthorized) {
		return errUnauthorized
	}
	return err
}

// streams reports whether the answer is not bounded in time.
func (x *exchange) streams() bool { return x.route.stream || x.route.steps || x.export != "" }

// charge takes a request from the budget of who sent it.
func (s *Server) charge(x *exchange) error {
	x.account = s.budgets.Account(budget.Of(x.who.Actor))
	if x.spared = slices.Contains(x.route.undoes, x.who.Kind); x.spared {
		x.over = x.account.Spend(budget.Calls, 1)
		return nil
	}
	return x.account.Take(budget.Calls, 1)
}

// occupy takes what the request holds while it is answered.
func (x *exchange) occupy() (release func(), err error) {
	switch {
	case x.streams():
		return x.account.Hold(x.r.Context(), budget.Streams)
	case x.wait > 0:
		return x.account.Hold(x.r.Context(), budget.Waits)
	}
	return func() {}, nil
}

// beginTurn waits for the principal's turn to read or encode what may be much. It ends once the answer is encoded.
func (x *exchange) beginTurn(ctx context.Context) (err error) {
	x.turn, err = x.account.Turn(ctx)
	return err
}

// endTurn lets the principal's next turn come: there is nothing left to do but to wait for an event or a person.
func (x *exchange) endTurn() {
	if x.turn != nil {
		x.turn()
	}
}

// checkUndoes reports, with an error, that a request over its budget has nothing to take back. No budget bounds how
// often that is asked: it looks at narrow rows alone.
func (x *exchange) checkUndoes(ctx context.Context, is func(approval.Request) bool) error {
	if x.over == nil {
		return nil
	}
	if h, err := x.gate.RequestHead(ctx, x.who.Actor, x.r.PathValue("id")); err != nil || !is(h.Request) {
		return x.over()
	}
	return nil
}

var errUnauthorized = approval.Errorf(approval.CodeUnauthorized,
	"A valid bearer token is needed: Authorization: Bearer <token>.")

func (s *Server) authenticate(r *http.Request) (auth.Caller, error) {
	who, err := s.callers.Caller(r)
	if err != nil {
		return auth.Caller{}, errUnauthorized
	}
	return who, nil
}

// still reports, with an error, whether the caller is who they were; what they may do may have changed, and the new
// state is returned.
func (s *Server) still(was auth.Caller) (auth.Caller, error) {
	now, ok := s.callers.Now(was)
	if !ok {
		return auth.Caller{}, errUnauthorized
	}
	return now, nil
}

var errPeopleOnly = approval.Errorf(approval.CodePeopleOnly, "Only people may do this.")

// admit says no to whom the path is not for.
func (x *exchange) admit(a audience) error {
	switch {
	case a == agents && x.who.Kind != approval.Agent:
		return approval.Errorf(approval.CodeAgentsOnly, "Only agents may do this.")
	case a >= people && x.who.Kind != approval.Human:
		return errPeopleOnly
	case a == admins && !x.who.Admin:
		return approval.Errorf(approval.CodeNotAdmin, "Only an admin may do this.")
	}
	return nil
}

// fail answers with a problem document, unless an answer has begun or no caller is there to read it.
func (s *Server) fail(x *exchange, err error) {
	ctx := x.r.Context()
	gone := ctx.Err() != nil
	code := approval.CodeOf(err)
	if code == approval.CodeInternal && errors.Is(err, context.DeadlineExceeded) {
		code = approval.CodeStoreUnavailable
		err = &approval.Error{Code: code,
			Message: "The store took too long; nothing was done that was not answered. Try again.", Err: errSlowStore}
	}
	if serious := code == approval.CodeInternal || code == approval.CodeStoreUnavailable; serious && !gone {
		s.log.LogAttrs(ctx, slog.LevelError, "a request failed", slog.String("correlation_id", x.correlation()),
			slog.String("method", x.r.Method), slog.String("route", x.route.path), slog.String("principal", x.who.String()),
			slog.Any("error", err))
	}
	if code == approval.CodeRateLimited && x.status == 0 {
		budget.Pause(ctx)
	}
	switch {
	case x.status != 0:
		// The client sees an answer that breaks off.
		panic(http.ErrAbortHandler)
	case gone:
		// A caller that only closed its half of the connection still reads; an answer left out would be a 200.
		if code == approval.CodeInternal {
			err = &approval.Error{Code: approval.CodeStoreUnavailable,
				Message: "The connection was closed before there was an answer.", Err: err}
		}
		s.writeProblem(x, err)
		x.status = statusClientGone
	default:
		s.writeProblem(x, err)
	}
}

// statusClientGone stands in the access log for a request whose client went away.
const statusClientGone = 499

// access logs what was asked and answered: never the query, the body or a header's value.
func (s *Server) access(x *exchange, begin time.Time) {
	ctx := x.r.Context()
	if !s.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	s.log.LogAttrs(ctx, slog.LevelDebug, "request", slog.String("correlation_id", x.correlation()),
		slog.String("method", x.r.Method), slog.String("path", x.r.URL.Path), slog.Int("status", x.status),
		slog.Duration("took", time.Since(begin)), slog.String("principal", x.who.String()),
		slog.String("remote", s.remote(x.r)))
}

// answerUnmatched answers for paths and methods that are not there.
func (s *Server) answerUnmatched(_ context.Context, x *exchange) error {
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		if path.Clean(x.r.URL.Path) != x.r.URL.Path {
			break
		}
		probe := &http.Request{Method: m, URL: x.r.URL, Host: x.r.Host}
		if _, pattern := s.known.Handler(probe); pattern != "" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		return approval.Errorf(approval.CodeNotFound, "There is no such path.")
	}
	x.Header().Set("Allow", strings.Join(allowed, ", "))
	return approval.Errorf(codeMethodNotAllowed, "This path takes %s.", strings.Join(allowed, ", "))
}
