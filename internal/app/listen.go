package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/client"
	"countersign/internal/agents/hooks"
	"countersign/internal/auth"
	"countersign/internal/auth/bearer"
	"countersign/internal/budget"
	"countersign/internal/config"
	"countersign/internal/listener"
	"countersign/internal/ratelimitedlog"
	"countersign/internal/rest"
)

// The names of the listeners, in the log and in metrics.
const (
	nameAPI     = "api"
	nameWebhook = "webhook"
	namePages   = "pages"
	nameSocket  = "socket"
	nameDebug   = "debug"
)

// keyOf is the key of the configuration that a listener's certificate stands under.
var keyOf = map[string]string{nameAPI: "tls", nameWebhook: "webhook_tls", namePages: "pages_tls"}

// How many connections each listener but the API's holds at most, where there are enough file descriptors for all.
const (
	// strangersConnections are those of the API's on which nobody known is being answered. They come before what waits,
	// where file descriptors are few.
	strangersConnections = 2048
	webhookConnections   = 256
	socketConnections    = 256
	pagesConnections     = 512
	debugConnections     = 8
	// ownDescriptors are set aside for the store, MCP servers, and what goes out to the platforms.
	ownDescriptors = 256
)

// limits is what the listeners may hold.
type limits struct {
	connections map[string]int
	// strangers are the bodies of webhooks, whose sender is not known before they have been read.
	// known are those of all others, who have shown a token by then.
	strangers, known *listener.Bodies
}

// newLimits divides what there is among the listeners that the configuration has. socket is the path of the
// local one, or empty.
func newLimits(cfg *config.Config, socket string) *limits {
	names, wants := []string{nameAPI}, []int{cfg.Connections()}
	if cfg.WebhookListen != "" {
		names, wants = append(names, nameWebhook), append(wants, webhookConnections)
	}
	if cfg.PagesListen != "" {
		names, wants = append(names, namePages), append(wants, pagesConnections)
	}
	if cfg.DebugListen != "" {
		names, wants = append(names, nameDebug), append(wants, debugConnections)
	}
	if socket != "" {
		names, wants = append(names, nameSocket), append(wants, socketConnections)
	}
	free := listener.Descriptors()
	if free >= 0 {
		free -= min(ownDescriptors, free/4)
	}
	l := &limits{
		connections: map[string]int{},
		strangers: listener.NewBodies(listener.BodyLimits{Count: 64, PerSender: 16, Bytes: 16 << 20, UntilAnswered: true,
			Within: 5 * time.Second}),
		known: listener.NewBodies(listener.BodyLimits{Count: 512, Bytes: 128 << 20}),
	}
	for i, n := range divide(free, wants) {
		l.connections[names[i]] = n
	}
	return l
}

// divide shares file descriptors among listeners, of which the API's is the first: what it wants for those who wait
// comes after what all others want. free < 0 is as many as anybody wants.
func divide(free int, wants []int) []int {
	shares := listener.Share(free, append([]int{min(wants[0], strangersConnections)}, wants[1:]...)...)
	more := wants[0] - shares[0]
	if free >= 0 {
		for _, n := range shares {
			free -= n
		}
		more = max(0, min(more, free))
	}
	shares[0] += more
	return shares
}

// markKnown notes that the sender of a request has shown who they are.
func markKnown(r *http.Request, who approval.Actor) {
	sender := listener.People
	if who.Kind == approval.Agent {
		sender = listener.Agents
	}
	listener.Known(r.Context(), sender)
}

// markPlatform notes that a request is from a platform, which brings what people press.
func markPlatform(r *http.Request) { listener.Known(r.Context(), listener.People) }

// markPerson notes that a person asks for a page.
func markPerson(ctx context.Context) { listener.Known(ctx, listener.People) }

// waitAgain is when a wait for which there was no connection is worth another try.
const waitAgain = 5 * time.Second

// checkRoom refuses a wait or a stream where the connections that are left are kept for others.
func checkRoom(ctx context.Context, who budget.Principal) error {
	sender := listener.People
	if who.Agent {
		sender = listener.Agents
	}
	if listener.Wait(ctx, sender) == nil {
		return nil
	}
	return &approval.Error{Code: approval.CodeRateLimited, After: waitAgain, Message: fmt.Sprintf(
		"Too many requests wait or follow a stream at once, whoever they are from; the connections that are left are kept "+
			"for decisions. Ask without waiting, or try again in %s; whoever runs Countersign can raise limits.connections.",
		waitAgain)}
}

// listeners are the addresses that are listened at, and what is served there.
type listeners struct {
	log, http *slog.Logger // the program's, and their own
	now       func() time.Time
	live      *inForce
	directory *auth.Directory
	limits    *limits
	states    *listenerStates
	onStop    func(name string, do func(ctx context.Context) error)

	api, webhooks net.Listener // webhooks is nil where they come in with the rest
	pages         net.Listener // nil where the pages are with the rest
	debug         net.Listener // nil where profiles are not served
	lacking       bool         // the machine has one of localhost's addresses, and the log says so
	endpoints     []endpoint
	certificates  []*listener.Certificate
}

// endpoint is a server, and where it serves.
type endpoint struct {
	at     net.Listener
	server *http.Server
}

// countRefusals returns what takes note that a listener had no room.
func (l *listeners) countRefusals(name string) func(listener.Refusal) {
	var connections, waits ratelimitedlog.Counter
	return func(what listener.Refusal) {
		counter := &connections
		if what == listener.RefusedWait {
			counter = &waits
		}
		if n, tell := counter.Add(l.now()); tell {
			l.http.Warn("a listener has no room: too many connections are in use", "listener", name,
				"refused", string(what), "count", n,
				"do", "find out who waits, or raise limits.connections and the number of files that may be open")
		}
	}
}

// origin says where a request came from.
func (l *listeners) origin(r *http.Request) listener.Origin {
	return l.live.Load().cfg.Proxies.Origin(r)
}

// remote is that for the log.
func (l *listeners) remote(r *http.Request) string { return l.origin(r).String() }

// bodies says which limits a request's body is under, and who counts as its sender. Handlers that read a
// body elsewhere than at a webhook have looked at the token before.
func (l *listeners) bodies(r *http.Request) (*listener.Bodies, string) {
	if strings.HasPrefix(r.URL.Path, "/webhook/") {
		return l.limits.strangers, l.origin(r).Site()
	}
	if who, ok := l.directory.ByToken(bearer.Token(r)); ok { // however the header is written: one agent is one sender
		return l.limits.known, who.String()
	}
	return l.limits.known, l.origin(r).Site()
}

// listen binds the addresses, so that one in use is known before anything is served.
func (a *App) listen(cfg *config.Config) (err error) {
	if a.listeners.api, err = a.listeners.bind("listen", cfg.Listen); err != nil {
		return err
	}
	api := rest.New(rest.Options{Gate: a.gate, Directory: a.directory, Notifications: a.outbox, Freezes: a.chat,
		Granted: a.chat, History: a.store, NameOf: a.who.nameOf, Kept: a.live.kept, SignIn: a.signIns, Budgets: a.budgets,
		Logger: a.logger("rest"), Version: a.o.Version, Stopping: a.stopping, Summary: a.live.summary,
		Anonymous: a.who.anonymous, Authenticated: markKnown, Remote: a.listeners.remote,
		Quotas:    func() []client.Quota { return a.live.Load().quotas() },
		Heartbeat: func() []client.Beat { return beats(a.heartbeat) },
		Trace:     a.traceHTTP(),
		Published: func() []netip.AddrPort { return a.live.Load().cfg.LedTo }})
	ours := exactPaths{"/healthz": http.HandlerFunc(healthz), "/readyz": http.HandlerFunc(health{a}.readyz),
		"/metrics": a.metrics.handler(), "/openapi.json": api, "/mcp": a.mcp(cfg, a.listeners.api),
		"/hooks/claude-code": &hooks.Handler{Asker: a.agents.asker, CheckBudget: a.agents.checkHook,
			Charge: a.agents.chargeHook, Turn: a.agents.waitHookTurn, Pause: budget.Pause, Log: a.logger("hooks"), Now: a.o.Now}}
	local := maps.Clone(ours)
	a.pages = a.newPages()
	if cfg.WebhookListen == "" {
		maps.Copy(ours, a.receivers.byPath(&a.live))
	}
	var after http.Handler = api
	if cfg.PagesListen == "" {
		after = pagesBefore(a.pages, api)
	} else if err := a.listenForPages(cfg); err != nil {
		return err
	}
	if err := a.listeners.serveOn(nameAPI, a.listeners.api, cfg.TLS, ours.before(after)); err != nil {
		return err
	}
	if err := a.listenForDebug(cfg); err != nil {
		return err
	}
	if cfg.WebhookListen == "" {
		return a.onSocket(local.before(api))
	}
	if a.listeners.webhooks, err = a.listeners.bind("webhook_listen", cfg.WebhookListen); err != nil {
		return err
	}
	if err := a.listeners.serveOn(nameWebhook, a.listeners.webhooks, cfg.WebhookTLS,
		a.receivers.byPath(&a.live).before(http.NotFoundHandler())); err != nil {
		return err
	}
	return a.onSocket(local.before(api))
}

// bind takes the address that a key of the configuration names.
func (l *listeners) bind(key, address string) (net.Listener, error) {
	bound, lacks, err := listener.Listen(address)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w; another program may have the address: stop that, or set another port as %s in "+
			"the configuration", key, address, err, key)
	}
	if lacks.IsValid() && !l.lacking {
		l.lacking = true
		l.http.Info("this machine has one of localhost's two addresses; the gate listens there alone", "lacks", lacks)
	}
	l.onStop("address "+bound.Addr().String(), func(context.Context) error {
		if err := bound.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return bound, nil
}

// serveOn prepares a server; it does not serve yet. Over the API an agent may wait for a person, or a client follow a
// stream, for which their handlers set the time-outs anew; a webhook is over in seconds. pair is the
// certificate; nil: plain HTTP.
func (l *listeners) serveOn(name string, bound net.Listener, pair *listener.Pair, h http.Handler) error {
	connections := l.limits.connections[name]
	strangers := min(connections, strangersConnections)
	open := listener.New(bound, listener.Options{Connections: connections, Strangers: strangers,
		PerAddress: max(1, strangers/8),
		Bodies:     l.bodies, Refused: l.countRefusals(name),
		Shared: func(from netip.Addr) bool { return l.live.Load().cfg.Proxies.Trust(from) }})
	s := &http.Server{
		Handler: open.Handler(h), ConnContext: open.Context, ErrorLog: slog.NewLogLogger(l.http.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 90 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	if name == nameWebhook {
		s.ReadTimeout, s.WriteTimeout, s.IdleTimeout, s.MaxHeaderBytes = 10*time.Second, 15*time.Second, 30*time.Second,
			16<<10
	}
	var at net.Listener = open
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	if pair != nil {
		c, err := listener.NewCertificate(keyOf[name], *pair, l.now, l.http)
		if err != nil {
			return errors.Join(err, bound.Close())
		}
		l.certificates = append(l.certificates, c)
		l.states.certificates[name] = c
		at = tls.NewListener(open, c.Config())
	}
	l.endpoints = append(l.endpoints, endpoint{at, s})
	l.states.open[name] = open
	l.onStop("listener "+bound.Addr().String(), func(ctx context.Context) error {
		patient, cancel := firstHalf(ctx)
		defer cancel()
		err := s.Shutdown(patient)
		if err != nil && ctx.Err() == nil { // a client that reads or sends slowly does not keep the rest from its end
			l.log.WarnContext(ctx, "connections that did not end were cut", "listener", name)
			err = s.Close()
		} else if err != nil {
			err = errors.Join(err, s.Close())
		}
		if err := bound.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return err
	})
	return nil
}

// firstHalf returns a context that ends when half of the time that ctx has left is over.
func firstHalf(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}

// base is where people reach the pages: public_url, and without one this machine. "": nowhere, since in the clear
// no person signs in from another one.
func (l *listeners) base() string {
	cfg := l.live.Load().cfg
	if cfg.PublicURL != "" {
		return cfg.PublicURL
	}
	at, pair := l.api, cfg.TLS
	if l.pages != nil {
		at, pair = l.pages, cfg.PagesTLS
	}
	bound, ok := at.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	scheme, host := "http", "localhost"
	if pair != nil {
		scheme = "https"
	}
	if !bound.IP.IsUnspecified() && !listener.IsLocalhost(bound.String()) {
		if pair == nil && !bound.IP.IsLoopback() {
			return ""
		}
		host = bound.AddrPort().Addr().Unmap().WithZone("").String() // where it alone listens: localhost may be another's
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(bound.Port))
}
