package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/channels/kind"
	"countersign/channels/outbox"
	"countersign/heartbeat"
	"countersign/internal/auth"
	"countersign/internal/auth/openid"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
	"countersign/internal/budget"
	"countersign/internal/chat"
	"countersign/internal/config"
	"countersign/internal/listener"
	"countersign/internal/mcp/gateway"
	"countersign/internal/store/sqlite"
	"countersign/internal/web"
)

// Options are what an [App] is made of. Config is required.
type Options struct {
	Config *config.Config
	Env    func(string) (string, bool) // of ${NAME} when the file is read again; default os.LookupEnv
	// EnvTrouble says why Env's own file cannot be read now, so that a variable it lacks is not blamed alone. nil: it has
	// none.
	EnvTrouble func() error
	// Reloaded is told of every attempt to read the file again: nil when it is in force, else why it is not.
	Reloaded func(err error)
	Logger   *slog.Logger // default: none
	Version  string
	// Socket is the path of a unix socket that the API is also served on; default Config.Socket.
	Socket string
	Now    func() time.Time // the machine's clock; default time.Now
	// Elapsed is what [sqlite.Options] says of it.
	Elapsed func() time.Duration
	// Failpoint is called at named points, so that a test can end the process there.
	Failpoint func(name string)
}

// App is the program.
type App struct {
	o    Options
	log  *slog.Logger
	live atomic.Pointer[live]

	store     *sqlite.DB
	gate      *approval.Gate
	outbox    *outbox.Outbox
	chat      *chat.Service
	signIn    *signin.Service
	openID    *openid.Service
	passkeys  *passkey.Service
	budgets   *budget.Registry
	overs     chan budget.Over // of whom the admins are to be told
	directory *auth.Directory
	callers   auth.Callers
	sender    *outbox.Sender
	heartbeat *heartbeat.Heartbeat
	waysIn    []wayIn
	gateway   *gateway.Gateway
	metrics   *metrics

	listener, hooks net.Listener // hooks is nil where webhooks come in with the rest
	atPages         net.Listener // nil where the pages are with the rest
	atDebug         net.Listener // nil where profiles are not served
	lacking         bool         // the machine has one of localhost's addresses, and the log says so
	pages           *web.Server
	listening       []net.Listener
	servers         []*http.Server // one for each of listening
	limits          *limits
	certificates    []*listener.Certificate

	stopping context.Context // ends when Stop begins
	begin    context.CancelFunc
	work     context.Context // ends when the background work must
	halt     context.CancelFunc
	running  sync.WaitGroup
	undo     []step // what Stop does, last in first out

	rechecks  []func() // what a reload has looked at: whether those in hand are who they were
	reloading sync.Mutex
	started   atomic.Bool
	stop      sync.Once
	stopErr   error
	failed    chan error
	relearn   chan struct{}          // a reload brought new channels, or the OpenID provider fails
	rerun     chan struct{}          // and so other work of theirs
	unread    atomic.Pointer[string] // why the configuration was last not reloaded; nil: it was

	// What the admins were told of already. They are reloading's.
	broken *[sha256.Size]byte // the content of the file that cannot be used, nil: the last could
	unmet  map[string]bool    // requests that nobody can approve
}

type step struct {
	name string
	do   func(ctx context.Context) error
}

// keeper is a store as the parts of the program use it.
type keeper interface {
	approval.Store
	approval.EventRecorder
	SignIns(tx approval.Tx) signin.Tx
	Passkeys(tx approval.Tx) passkey.Tx
}

// around is what stands before the store: something in tests.
var around = func(s keeper) keeper { return s }

// New builds the program: it opens the store and binds the listeners. After an error nothing of it is
// left.
func New(ctx context.Context, o Options) (_ *App, err error) { //nolint:funlen // start-up, one part after the other
	a := &App{o: o, log: o.Logger, directory: new(auth.Directory), failed: make(chan error, 3),
		relearn: make(chan struct{}, 1), rerun: make(chan struct{}, 1), overs: make(chan budget.Over, 64)}
	a.callers = auth.Callers{Directory: a.directory, Anonymous: a.anonymous}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.log = slog.New(redact.LogHandler(a.log.Handler(), a.masker))
	if a.o.Env == nil {
		a.o.Env = os.LookupEnv
	}
	if a.o.Now == nil {
		a.o.Now = time.Now
	}
	a.stopping, a.begin = context.WithCancel(context.WithoutCancel(ctx))
	a.work, a.halt = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
		}
	}()
	cfg := o.Config
	first, err := a.newLive(cfg, nil)
	if err != nil {
		return nil, err
	}
	a.live.Store(first)
	a.onStop("channels", func(context.Context) error { a.live.Load().close(nil); return nil })
	a.directory.Replace(cfg.Agents(), cfg.People())
	a.budgets = budget.NewRegistry(budget.Options{Now: a.o.Now, Over: a.overBudget, Room: roomOf})
	a.budgets.Replace(cfg.Budgets(auth.LocalAgent))

	broker := approval.NewBroker()
	a.limits = newLimits(cfg, cmp.Or(o.Socket, cfg.Socket))
	a.metrics = newMetrics(a)
	a.store, err = sqlite.Open(ctx, sqlite.Options{
		Path: cfg.StorePath, Logger: a.part("store"), Now: a.o.Now, Elapsed: o.Elapsed, Failpoint: o.Failpoint,
		OnCommit: func(c approval.Commit) {
			a.metrics.committed(c)
			broker.Publish(c)
		},
		BeforeCommit: broker.BeforeCommit,
	})
	if err != nil {
		return nil, err
	}
	a.onStop("store", func(context.Context) error { return a.store.Close() })

	kept := around(a.store)
	audit := approval.NewAuditLog(first.maker.Masker)
	a.outbox = outbox.New(outbox.Options{Store: kept, Audit: audit, Routing: routing{a}, Budgets: a.budgets,
		Logger: a.part("gate")})
	prover := approval.NewProver()
	a.gate = approval.NewGate(approval.Options{
		Store: kept, Broker: broker, Policy: cfg.Policy, Masker: first.maker.Masker, Audit: audit, Logger: a.part("gate"),
		Directory: directory{a}, Notifier: a.outbox, Budgets: a.budgets, Schemas: schemas{a}, Prover: prover,
		Page: func(id string) string { return a.live.Load().cfg.PageOf(id) },
	})
	a.chat = chat.New(chat.Options{Store: kept, Gate: a.gate, Audit: audit, Outbox: a.outbox, Readers: answered{a},
		SignIn: signInLinks{a}, Whose: a.directory.ByChat})
	a.signIn = signin.New(signin.Options{Store: kept, Rows: kept.SignIns, Audit: audit, Directory: directory{a},
		Logger: a.part("signin"), Opener: a.opener})
	a.openID = openid.New(openid.Options{Now: a.o.Now, Troubled: func() { leaveWord(a.relearn) }})
	a.openID.Configure(cfg.SignIn.OpenID, cfg.OpenIDPeople())
	a.onStop("the OpenID provider", func(context.Context) error { a.openID.Close(); return nil })
	a.passkeys = passkey.New(passkey.Options{Store: kept, Rows: kept.Passkeys, Audit: audit, Directory: directory{a},
		Teller: a.chat, Prover: prover, Base: a.base, Logger: a.part("signin")})
	a.onStop("background work", func(context.Context) error { a.halt(); a.running.Wait(); return nil })
	a.sender = outbox.NewSender(outbox.SenderOptions{
		Outbox: a.outbox, Queue: broker, Maker: first.maker, Channels: first.channels, Metrics: a.metrics,
		Log: a.part("sender"),
		Retries: outbox.Retries{Max: cfg.Notifications.MaxRetries, First: cfg.Notifications.FirstRetry,
			Cap: cfg.Notifications.MaxBackoff},
		Now:       a.store.Now,
		Failpoint: o.Failpoint,
	})

	a.heartbeat, err = heartbeat.New(heartbeat.Options{Gate: upkeep{a.gate, a.outbox, a.signIn}, Entries: cfg.Heartbeat(),
		Logger: a.part("heartbeat"), Now: a.o.Now, Observe: a.metrics.beat})
	if err != nil {
		return nil, err
	}
	a.onStop("heartbeat", a.heartbeat.Stop)
	if err := a.newGateway(cfg); err != nil {
		return nil, err
	}
	a.newWaysIn()
	return a, a.listen(cfg)
}

// masker is what is masked by the configuration in force.
func (a *App) masker() *redact.Masker {
	if l := a.live.Load(); l != nil {
		return l.maker.Masker
	}
	return nil
}

func (a *App) part(name string) *slog.Logger { return a.log.With("component", name) }

func (a *App) onStop(name string, do func(ctx context.Context) error) {
	a.undo = append(a.undo, step{name, do})
}

// exactly is handlers by path. A path is taken as it was sent: nothing is cleaned, and so nobody is
// redirected before the API has looked at who they are.
type exactly map[string]http.Handler

func (e exactly) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if path == "/mcp/" { // as many clients write it
			path = "/mcp"
		}
		if h, ok := e[path]; ok {
			h.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// afterLast sees to what the last stop has left: calls of which nobody knows what became, a policy that has come into
// force since, and what was going on in a store that is an older one than was here before.
func (a *App) afterLast() error {
	if n, err := a.gate.Orphaned(a.work); err != nil {
		return fmt.Errorf("calls that were sent on before the last stop: %w", err)
	} else if n > 0 {
		a.log.Warn("calls were sent to MCP servers before the last stop and were never answered: they may have run",
			"calls", n)
	}
	if err := a.gate.KeepPolicy(a.work); err != nil {
		return fmt.Errorf("the text of the policy in force: %w", err)
	}
	if !a.store.WasRestored() {
		return nil
	}
	if err := a.gate.Restored(a.work); err != nil {
		return fmt.Errorf("what a restored backup has approved: %w", err)
	}
	if err := a.signIn.EndAfterRestore(a.work); err != nil {
		return fmt.Errorf("who is signed in in a restored backup: %w", err)
	}
	if err := a.store.AcceptRestored(a.work); err != nil {
		return fmt.Errorf("a restored backup whose calls have ended: %w", err)
	}
	a.log.Warn("the store is older than the one that was here before, as after a backup was restored; all that waits, " +
		"and approvals not used yet, are cancelled, because they may have been used since; everybody must sign in again")
	return nil
}

// Start serves until Stop. It returns at once; [App.Failed] tells if serving ends by itself.
func (a *App) Start() error {
	if !a.started.CompareAndSwap(false, true) || a.stopping.Err() != nil {
		return errors.New("app: started twice, or stopped")
	}
	if err := a.afterLast(); err != nil {
		return err
	}
	a.cancelRemoved(a.work)
	a.endSignIns(a.work)
	a.goes(func() {
		a.reloading.Lock()
		defer a.reloading.Unlock()
		a.recheckNeeds(a.work) // the configuration may have changed while nothing ran
	})
	a.goes(func() { a.gate.Run(a.work) })
	a.goes(func() { a.keepTime(a.work) })
	a.goes(func() { a.tellOver(a.work) })
	a.gateway.Start()
	a.goes(func() {
		if err := a.sender.Run(a.work); err != nil {
			a.log.Error("the sender of notifications ended; no cards go out any more", "error", err)
		}
	})
	a.goes(func() { a.learn(a.work) })
	a.goes(func() { a.runChannels(a.work) })
	if a.o.Config.Path != "" {
		a.goes(func() { a.watch(a.work) })
	}
	for _, h := range a.handlers() {
		if r, ok := h.(kind.Runner); ok {
			a.goes(func() { r.Run(a.work) })
		}
	}
	for _, c := range a.certificates {
		a.goes(func() { c.Run(a.work) })
	}
	a.heartbeat.Start()
	for i, l := range a.listening {
		a.running.Go(func() {
			if err := a.servers[i].Serve(l); !errors.Is(err, http.ErrServerClosed) {
				a.log.Error("an address is not served any more", "address", l.Addr().String(), "error", err)
				a.failed <- err
			}
		})
	}
	a.log.Info("serving", "address", a.Addr(), "webhooks", a.WebhookAddr(), "socket",
		cmp.Or(a.o.Socket, a.o.Config.Socket), "store", a.o.Config.StorePath, "channels",
		strings.Join(a.o.Config.Channels.Names(), ","))
	if base := a.o.Config.PublicURL; base != "" {
		for _, k := range a.o.Config.Kinds() {
			if k.Posted(a.o.Config.Channels[k.Name]) {
				a.log.Info("the address for the platform's webhook setting", "channel", k.Name, "url", base+"/webhook/"+k.Name)
			}
		}
	}
	for _, p := range a.unreachable() {
		a.log.Warn("the gate works, but nobody can be asked", "problem", p)
	}
	return nil
}

// keepTime has the store look at the machine's clock.
func (a *App) keepTime(ctx context.Context) {
	const every = 5 * time.Second
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := a.store.KeepTime(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "a change of the machine's clock could not be stored; trying again", "error", err)
		}
		a.store.CheckClaim()
		if err := a.store.Mark(); err != nil {
			a.log.WarnContext(ctx, "the note of how far the store has come could not be written; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *App) goes(fn func()) { a.running.Go(fn) }

// Failed delivers an error when serving ended by itself.
func (a *App) Failed() <-chan error { return a.failed }

// Addr is the address of the API.
func (a *App) Addr() string { return a.listener.Addr().String() }

// WebhookAddr is the address of the webhooks: that of the API unless they have one of their own.
func (a *App) WebhookAddr() string {
	if a.hooks != nil {
		return a.hooks.Addr().String()
	}
	return a.Addr()
}

// Stop stops the program; what is in hand is finished while ctx lives. It may be called at any time
// and more than once.
func (a *App) Stop(ctx context.Context) error {
	a.stop.Do(func() {
		a.begin()
		var errs []error
		for i := len(a.undo) - 1; i >= 0; i-- {
			start := time.Now()
			if err := a.undo[i].do(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", a.undo[i].name, err))
			}
			a.log.DebugContext(ctx, "stopped", "part", a.undo[i].name, "took", time.Since(start))
		}
		a.halt()
		a.stopErr = errors.Join(errs...)
	})
	return a.stopErr
}
