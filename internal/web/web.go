package web

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/correlation"
	"countersign/approval/redact"
	"countersign/internal/auth"
	"countersign/internal/auth/openid"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
	"countersign/internal/budget"
	"countersign/internal/history"
	"countersign/internal/locale"
	"countersign/internal/loopback"
)

// Session is what a page knows of a session.
type Session struct {
	ID     string // names it, and authorises nothing
	Person string
	Since  time.Time
	Keyed  bool // what is done in it takes its key
}

// Sessions know who is signed in.
type Sessions interface {
	// Of returns the session that a request belongs to. false: none, or none that still stands.
	Of(r *http.Request) (Session, bool, error)
	// Still is Of for an answer that goes on by itself: that it does is no sign of anybody's presence.
	Still(r *http.Request) (Session, bool, error)
}

// Options are what a [Server] is made of. Gate, Directory, Sessions and SignIn are required.
type Options struct {
	Gate      *approval.Gate
	Directory *auth.Directory
	Sessions  Sessions
	// Masker covers secrets, as configured now; default: those that are known by their names.
	Masker func() *redact.Masker
	// Notifications is the notification log, which must be there for whoever looks at it.
	Notifications Notifications
	// SignIn signs people in.
	SignIn *signin.Service
	// OpenID says who somebody is at a provider; nil: nobody signs in that way.
	OpenID *openid.Service
	// Passkeys are what people sign in and approve with. nil: nobody has any.
	Passkeys *passkey.Service
	// Address is where a request comes from; default the other end of its connection.
	Address func(r *http.Request) string
	// Roster is how people are reached and agents ask; default: nothing is known.
	Roster Roster
	// Status says how the program is doing, as far as the viewer may know. nil: there is no such page.
	Status func(ctx context.Context, viewer approval.Actor) Status
	// History is the record. nil: there are no statistics. NameOf says whose address one is, "" for nobody's.
	History history.Reader
	NameOf  func(a approval.Address) string
	// Kept says for how long it is kept, now; nil: for ever.
	Kept func() history.Kept
	// Room reports whether an address is one where several people see a card; default: none is.
	Room func(a approval.Address) bool
	// Known is told of a request whose sender is signed in; nil: nobody is.
	Known func(ctx context.Context)
	// Budgets are those of people, from which pages take as everything else of theirs does. nil: there are none.
	Budgets *budget.Registry
	// Freezes are told of what is frozen and lifted here; default: nobody is.
	Freezes Freezes
	// Pushes are the cards of a request; nil: its page does not tell of them.
	Pushes Pushes
	// Explainer says by which rules a request is asked for; nil: its page names its rule alone.
	Explainer Explainer
	// Describer says what servers say of their tools; nil: nothing is known of it.
	Describer Describer
	// Granted is told of grants that are made here; nil: nobody is.
	Granted Granted
	// Base is where people reach the pages, such as https://gate.example.com, now; "": only on this machine.
	Base   func() string
	Logger *slog.Logger // default: none
	// Stopping is done when the server is about to stop. nil: never.
	Stopping context.Context
	// Patience is how long the store may take before the answer is 503; default 10 s.
	Patience time.Duration
	// Now is the machine's clock, by which people are told times, read once for each request; default time.Now.
	Now func() time.Time
}

// Server is the HTTP handler of the pages. It is safe for concurrent use.
type Server struct {
	Options
	mux     *http.ServeMux
	guarded http.Handler
	notes   seal
	live    *liveUpdates
	record  *record
	exports *exports
}

// New returns the handler.
func New(o Options) *Server {
	s := &Server{Options: o, mux: http.NewServeMux(), notes: newSeal()}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	if s.Known == nil {
		s.Known = func(context.Context) {}
	}
	if s.Masker == nil {
		s.Masker = func() *redact.Masker { return redact.New() }
	}
	if s.Roster == nil {
		s.Roster = noRoster{}
	}
	if s.Freezes == nil {
		s.Freezes = noFreezes{}
	}
	if s.Base == nil {
		s.Base = func() string { return "" }
	}
	if s.Address == nil {
		s.Address = func(r *http.Request) string {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			return host
		}
	}
	if s.Stopping == nil {
		s.Stopping = context.Background()
	}
	if s.Patience <= 0 {
		s.Patience = 10 * time.Second
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	s.live = &liveUpdates{gate: s.Gate, directory: s.Directory, stopping: s.Stopping, every: liveEvery, check: liveCheck}
	if s.Kept == nil {
		s.Kept = func() history.Kept { return history.Kept{} }
	}
	s.record = &record{history: s.History, kept: s.Kept, patience: s.Patience, pieceTime: pieceTime, stopping: s.Stopping}
	s.exports = &exports{patience: s.Patience, stopping: s.Stopping, logger: s.Logger}
	for _, rt := range s.table() {
		s.mux.Handle(rt.method+" "+rt.path, s.handler(rt))
	}
	lost := s.handler(route{audience: everyone, handle: func(_ context.Context, x *exchange) error {
		return approval.Errorf(approval.CodeNotFound, "%s", x.lang.Say("frame_lost"))
	}})
	s.mux.Handle("/", lost)
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(s.handler(route{audience: everyone, handle: func(context.Context, *exchange) error {
		return errElsewhere
	}}))
	s.guarded = origins.Handler(s.mux)
	return s
}

// Has reports whether the pages answer a path, as it was sent.
func (s *Server) Has(path string) bool {
	_, pattern := s.mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	if pattern == "/" {
		_, pattern = s.mux.Handler(&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}})
	}
	return pattern != "/" && pattern != ""
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header(w.Header())
	if !s.ownHost(r.Host) {
		http.Error(w, "This address is not one of Countersign's. Open the one that public_url names, or one of this "+
			"machine. If you did, the proxy in between has to pass the Host on.", http.StatusMisdirectedRequest)
		return
	}
	ctx := correlation.With(r.Context(), rand.Text())
	s.guarded.ServeHTTP(w, r.WithContext(ctx))
}

// contentPolicy lets a page load nothing but our own files and talk to nobody but this server.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; form-action 'self'"

// header is what every answer says.
func header(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms of our own would come from nowhere
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// ownHost reports whether a request names this machine or the configured address.
func (s *Server) ownHost(host string) bool {
	if loopback.IsHost(hostname(host)) {
		return true
	}
	u, err := url.Parse(s.Base())
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// hostname is a Host without its port and brackets.
func hostname(host string) string { return (&url.URL{Host: host}).Hostname() }

// audience is whom a route is for.
type audience int

const (
	everyone audience = iota // also who is not signed in
	people
	approvers // and admins
	admins
)

// route is one path with one method.
type route struct {
	method, path string
	audience     audience
	handle       func(ctx context.Context, x *exchange) error
	// stream is not bounded in time.
	stream bool
}

var (
	errElsewhere = approval.Errorf(codeForbidden, "This form was not sent from a page of this Countersign.")
	errViewer    = &approval.Error{Code: codeOtherViewer}
	errSignIn    = approval.Errorf(approval.CodeUnauthorized, "Sign in first.")
)

const (
	codeForbidden approval.Code = "forbidden"
	// codeOtherViewer: the page was made for somebody else than who is signed in now, in this browser.
	codeOtherViewer approval.Code = "other_viewer"
)

// handler finds out who looks, and shows what went wrong.
func (s *Server) handler(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if !rt.stream {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.Patience)
			defer cancel()
		}
		x := &exchange{ResponseWriter: w, s: s, r: r.WithContext(ctx), lang: languageOf(r),
			since: s.Gate.Broker().Newest(), now: s.Now()}
		err := x.admit(rt.audience)
		if err == nil && rt.method == http.MethodPost {
			if err = x.readForm(); err == nil && rt.audience != everyone {
				err = x.admitStill(rt.audience) // a form may take its time, and its session end meanwhile
			}
		}
		if err == nil && rt.audience != everyone {
			if err = x.requireProof(); err == nil {
				err = x.charge(rt.path)
			}
		}
		if err == nil {
			err = rt.handle(ctx, x)
		}
		if err != nil {
			x.fail(ctx, err)
		}
	})
}

// admit finds out who looks, and whether the page is for them.
func (x *exchange) admit(whom audience) error {
	return x.admitBy(whom, x.s.Sessions.Of)
}

// admitStill is admit of whoever was let in before, for the next part of an answer: it has to be the same session.
func (x *exchange) admitStill(whom audience) error {
	before := x.viewer
	return x.admitBy(whom, func(r *http.Request) (Session, bool, error) {
		session, ok, err := x.s.Sessions.Still(r)
		return session, ok && before != nil && before.Session.ID == session.ID, err
	})
}

func (x *exchange) admitBy(whom audience, ask func(*http.Request) (Session, bool, error)) error {
	x.viewer = nil // who was there before may be gone
	session, ok, err := ask(x.r)
	if err != nil {
		return err
	}
	if ok {
		if who, still := x.s.Directory.ByName(session.Person); still {
			x.viewer = &Viewer{Actor: who, Session: session}
			x.s.Known(x.r.Context())
			x.lang = locale.Get(who.Locale)
		}
	}
	switch {
	case x.viewer.belongs(whom):
		return nil
	case x.viewer == nil:
		return errSignIn
	case whom == admins:
		return approval.Errorf(approval.CodeNotAdmin, "This page is for admins.")
	}
	return approval.Errorf(approval.CodeNotAnApprover, "This page is for approvers.")
}

// fail shows what went wrong. Who is not signed in is taken to where they can.
func (x *exchange) fail(ctx context.Context, err error) {
	code := approval.CodeOf(err)
	if code == approval.CodeUnauthorized && x.r.Method == http.MethodGet {
		x.Redirect("/signin?next=" + url.QueryEscape(x.r.URL.RequestURI()))
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		code = approval.CodeStoreUnavailable
	}
	status, known := statuses[code]
	if !known {
		status, code = http.StatusInternalServerError, approval.CodeInternal
		x.s.Logger.ErrorContext(ctx, "a page could not be made", "path", x.r.URL.Path,
			"correlation_id", correlation.Of(ctx), "error", err)
	}
	text := ""
	if code == codeKeyRequired {
		text = x.lang.Say("frame_keyless")
	} else if e, ok := errors.AsType[*approval.Error](err); ok && code != approval.CodeInternal {
		text = locale.TimesIn(e.Message, x.time)
	}
	if e, ok := errors.AsType[*approval.Error](err); ok && e.After > 0 {
		x.Header().Set("Retry-After", strconv.Itoa(int((e.After+time.Second-1)/time.Second)))
	}
	x.showFailure(status, code, text)
}

// statuses are what codes mean over HTTP.
var statuses = map[approval.Code]int{
	approval.CodeUnauthorized:     http.StatusUnauthorized,
	approval.CodeNotFound:         http.StatusNotFound,
	approval.CodeNotAdmin:         http.StatusForbidden,
	approval.CodeNotAnApprover:    http.StatusForbidden,
	approval.CodePeopleOnly:       http.StatusForbidden,
	codeForbidden:                 http.StatusForbidden,
	codeKeyRequired:               http.StatusForbidden,
	codeOtherViewer:               http.StatusConflict,
	approval.CodeNotYourStage:     http.StatusForbidden,
	approval.CodeStepUpRequired:   http.StatusForbidden,
	approval.CodeAlreadyResolved:  http.StatusConflict,
	approval.CodeAlreadyVoted:     http.StatusConflict,
	approval.CodeNotFailed:        http.StatusConflict,
	approval.CodeChanged:          http.StatusConflict,
	approval.CodeAmbiguousID:      http.StatusConflict,
	approval.CodeExpired:          http.StatusGone,
	approval.CodeReasonRequired:   http.StatusUnprocessableEntity,
	approval.CodeConfirmRequired:  http.StatusUnprocessableEntity,
	approval.CodePolicyDenied:     http.StatusUnprocessableEntity,
	approval.CodeGrantRefused:     http.StatusUnprocessableEntity,
	approval.CodeInvalidArgs:      http.StatusBadRequest,
	approval.CodeInvalidParameter: http.StatusBadRequest,
	approval.CodeTooManyPending:   http.StatusTooManyRequests,
	approval.CodeRateLimited:      http.StatusTooManyRequests,
	approval.CodeStoreUnavailable: http.StatusServiceUnavailable,
}
