package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"countersign/approval"
	"countersign/approval/proof"
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
	"countersign/internal/disk"
	"countersign/internal/mcp/gateway"
	"countersign/internal/retention"
	"countersign/internal/telemetry"
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
	// Disk says how much room there is at a path; default [disk.Of].
	Disk func(path string) (disk.Space, error)
	// Failpoint is called at named points, so that a test can end the process there.
	Failpoint func(name string)
}

// App is the program.
type App struct {
	o    Options
	log  *slog.Logger
	live inForce

	store     database
	gate      *approval.Gate
	outbox    *outbox.Outbox
	chat      *chat.Service
	signIn    *signin.Service
	openID    *openid.Service
	passkeys  *passkey.Service
	budgets   *budget.Registry
	overruns  *overruns
	disk      *diskWatch
	growth    *growth
	backups   *backups
	pruner    *retention.Pruner
	directory *auth.Directory
	who       directory // that, as the gate and the chat ask it
	sender    *outbox.Sender
	heartbeat *heartbeat.Heartbeat
	receivers receivers
	platforms *platforms
	signIns   *signIns
	agents    *agentDoor
	reloader  *reloader
	gateway   *gateway.Gateway
	metrics   *metrics
	telemetry *telemetry.Telemetry // nil: nothing is sent

	listeners *listeners
	pages     *web.Server

	stopping  context.Context // ends when Stop begins
	withdrawn atomic.Bool     // nobody is to be sent here any more
	begin     context.CancelFunc
	work      context.Context // ends when the background work must
	halt      context.CancelFunc
	running   sync.WaitGroup
	undo      []step // what Stop does, last in first out

	started atomic.Bool
	stop    sync.Once
	stopErr error
	failed  chan error
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

// wrapStore puts something before the store, in tests.
var wrapStore = func(s keeper) keeper { return s }

// New builds the program: it opens the store and binds the listeners. After an error nothing of it is
// left.
func New(ctx context.Context, o Options) (_ *App, err error) { //nolint:funlen // start-up, one part after the other
	a := &App{o: o, log: o.Logger, directory: new(auth.Directory), failed: make(chan error, 3)}
	a.who = directory{a.directory, &a.live, o.Config, cmp.Or(o.Socket, o.Config.Socket)}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.log = slog.New(redact.LogHandler(a.log.Handler(), a.live.masker))
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
	a.overruns = &overruns{a.log, make(chan budget.Over, 64)}
	a.disk = newDiskWatch(cfg.StorePath, o.Disk, a.log)
	a.growth = &growth{disk: a.disk, log: a.log, live: &a.live}
	a.backups = &backups{disk: a.disk, live: &a.live, log: a.logger("backup")}

	broker := approval.NewBroker()
	a.listeners = &listeners{log: a.log, http: a.logger("http"), now: a.o.Now, live: &a.live, directory: a.directory,
		limits: newLimits(cfg, a.who.socket), onStop: a.onStop}
	a.metrics = newMetrics(a)
	a.listeners.states = a.metrics.listeners
	if err := a.newTelemetry(cfg); err != nil {
		return nil, err
	}
	if a.store, err = openStore(ctx, a, broker); err != nil {
		return nil, err
	}
	a.growth.store = a.store
	a.backups.now = a.store.Now
	if f, is := a.store.(file); is {
		a.backups.copy = f.MakeCopy
	}
	a.pruner = retention.New(a.store)
	a.growth.due = a.pruner.Due
	a.onStop("store", func(context.Context) error { return a.store.Close() })
	a.onStop("telemetry", func(ctx context.Context) error { a.telemetry.Close(ctx); return nil }) // reads the store
	a.budgets = budget.NewRegistry(budget.Options{Now: a.o.Now, Over: a.overruns.note, Room: checkRoom,
		Rows: a.store.budgetRows()})
	a.budgets.Replace(cfg.Budgets(auth.LocalAgent))

	kept := wrapStore(a.store)
	audit := approval.NewAuditLog(first.maker.Masker)
	a.outbox = outbox.New(outbox.Options{Store: kept, Audit: audit, Budgets: a.budgets, Logger: a.logger("gate"),
		Routing: routing{&a.live, cfg.Kinds(), func() map[string]string { return a.sender.Paused() }}})
	prover := proof.NewProver()
	a.gate = approval.NewGate(approval.Options{
		Store: kept, Broker: broker, Policy: cfg.Policy, Masker: first.maker.Masker, Audit: audit, Logger: a.logger("gate"),
		Directory: a.who, Notifier: a.outbox, Budgets: a.budgets, CheckSpace: a.disk.checkSpace, Schemas: schemas{a},
		Prover: prover,
		Page:   func(id string) string { return a.live.Load().cfg.PageOf(id) },
	})
	a.signIns = &signIns{log: a.log, live: &a.live, at: a.listeners}
	a.chat = chat.New(chat.Options{Store: kept, Gate: a.gate, Audit: audit, Outbox: a.outbox, SignIn: a.signIns,
		Readers: chatReaders{a.who, a.o.Now, health{a}.status}, Whose: a.directory.ByChat,
		Summary: a.live.summaryTo})
	a.disk.tell = map[disk.Level]func(context.Context, int64, int) error{
		disk.Low: a.chat.DiskLow, disk.Full: a.chat.DiskFull}
	a.backups.tell = a.chat.BackupFailed
	a.reloader = &reloader{a: a, log: a.log, gate: a.gate, chat: a.chat}
	a.signIn = signin.New(signin.Options{Store: kept, Rows: kept.SignIns, Audit: audit, Directory: a.who,
		Logger: a.logger("signin"), Opener: a.live.opener, Keys: a.store.keys("signin")})
	a.platforms = &platforms{log: a.log, live: &a.live, relearn: make(chan struct{}, 1), rerun: make(chan struct{}, 1)}
	a.openID = openid.New(openid.Options{Now: a.o.Now, Keys: a.store.keys("openid"),
		Troubled: func() { wake(a.platforms.relearn) }})
	a.platforms.openID = a.openID
	a.openID.Configure(cfg.SignIn.OpenID, cfg.OpenIDPeople())
	a.onStop("the OpenID provider", func(context.Context) error { a.openID.Close(); return nil })
	a.passkeys = passkey.New(passkey.Options{Store: kept, Rows: kept.Passkeys, Audit: audit, Directory: a.who,
		Teller: a.chat, Prover: prover, Base: a.listeners.base, Logger: a.logger("signin"),
		Keys: a.store.keys("passkeys")})
	a.signIns.service, a.signIns.passkeys, a.signIns.chat = a.signIn, a.passkeys, a.chat
	a.onStop("background work", func(context.Context) error { a.halt(); a.running.Wait(); return nil })
	a.sender = outbox.NewSender(outbox.SenderOptions{
		Outbox: a.outbox, Queue: broker, Maker: first.maker, Channels: first.channels, Metrics: a.metrics,
		Log: a.logger("sender"),
		Retries: outbox.Retries{Max: cfg.Notifications.MaxRetries, First: cfg.Notifications.FirstRetry,
			Cap: cfg.Notifications.MaxBackoff},
		Now:       a.store.Now,
		Failpoint: o.Failpoint,
		Others:    a.store.others(),
		Holds:     a.store.holds(),
	})

	beats := heartbeat.Options{Entries: cfg.Heartbeat(),
		Gate:   upkeep{a.gate, a.outbox, a.signIn, a.pruner, a.backups, &a.live},
		Logger: a.logger("heartbeat"), Now: a.o.Now, Observe: a.metrics.countBeat, Record: a.store.runs()}
	if beats.Record != nil { // a program whose clock is wrong keeps no other from its runs
		beats.Now = a.store.Now
	}
	a.heartbeat, err = heartbeat.New(beats)
	if err != nil {
		return nil, err
	}
	a.onStop("heartbeat", a.heartbeat.Stop)
	a.agents = &agentDoor{gate: a.gate, live: &a.live, budgets: a.budgets, stopping: a.stopping, log: a.log,
		trace:   a.traceHTTP(),
		callers: auth.Callers{Directory: a.directory, Anonymous: a.who.anonymous}}
	if err := a.newGateway(cfg); err != nil {
		return nil, err
	}
	a.receivers = a.newReceivers()
	return a, a.listen(cfg)
}

func (a *App) logger(name string) *slog.Logger { return a.log.With("component", name) }

func (a *App) onStop(name string, do func(ctx context.Context) error) {
	a.undo = append(a.undo, step{name, do})
}

// exactPaths is handlers by path. A path is taken as it was sent: nothing is cleaned, and so no client is
// redirected before the API has looked at who they are.
type exactPaths map[string]http.Handler

func (e exactPaths) before(next http.Handler) http.Handler {
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

// settleLastStop sees to what the last stop has left: calls of which it is not known what became, a policy that has
// come into force since, and what was going on in a store that is an older one than was here before.
func (a *App) settleLastStop() error {
	if a.store.Replica() == "" { // else others may run
		if n, err := a.gate.Orphaned(a.work, ""); err != nil {
			return fmt.Errorf("calls that were sent on before the last stop: %w", err)
		} else if n > 0 {
			a.log.Warn("calls were sent to MCP servers before the last stop and were never answered: they may have run",
				"calls", n)
		}
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

// ownAddress is where other programs on the store reach this one. Tests listen at any port.
var ownAddress = func(a *App) string { return a.o.Config.ReplicaAddress() }

// settleConfiguration ends what the configuration has no place for any more: it may have changed while nothing ran.
func (a *App) settleConfiguration() {
	if _, behind := a.reloader.noteConfiguration(a.work, a.o.Config); behind {
		return
	}
	a.reloader.cancelRemoved(a.work)
	a.signIns.end(a.work)
	a.spawn(func() {
		a.reloader.mu.Lock()
		defer a.reloader.mu.Unlock()
		a.reloader.recheckNeeds(a.work)
	})
}

// Start serves until Stop. It returns at once; [App.Failed] tells if serving ends by itself.
func (a *App) Start() error {
	if !a.started.CompareAndSwap(false, true) || a.stopping.Err() != nil {
		return errors.New("app: started twice, or stopped")
	}
	a.telemetry.Start(a.told())
	if err := a.settleLastStop(); err != nil {
		return err
	}
	if err := a.store.AppearAt(a.work, ownAddress(a)); err != nil {
		return fmt.Errorf("other programs on the store cannot be told of this one: %w", err)
	}
	a.settleConfiguration()
	a.spawn(func() { a.gate.Run(a.work) })
	a.spawn(func() { a.keepStore(a.work) })
	a.spawn(func() { a.overruns.tell(a.work, a.store, a.chat) })
	a.gateway.Start()
	a.spawn(func() {
		if err := a.sender.Run(a.work); err != nil {
			a.log.Error("the sender of notifications ended; no cards go out any more", "error", err)
		}
	})
	a.spawn(func() { a.backups.begin() })
	a.spawn(func() { a.platforms.learn(a.work) })
	a.spawn(func() { a.platforms.run(a.work) })
	if a.o.Config.Path != "" {
		a.spawn(func() { a.reloader.watch(a.work) })
	}
	for _, h := range a.receivers.handlers() {
		if r, ok := h.(kind.Runner); ok {
			a.spawn(func() { r.Run(a.work) })
		}
	}
	for _, c := range a.listeners.certificates {
		a.spawn(func() { c.Run(a.work) })
	}
	a.heartbeat.Start()
	for _, s := range a.listeners.endpoints {
		a.running.Go(func() {
			if err := s.server.Serve(s.at); !errors.Is(err, http.ErrServerClosed) {
				a.log.Error("an address is not served any more", "address", s.at.Addr().String(), "error", err)
				a.failed <- err
			}
		})
	}
	a.log.Info("serving", "address", a.Addr(), "webhooks", a.WebhookAddr(), "socket",
		a.who.socket, "store", a.o.Config.Store, "channels",
		strings.Join(a.o.Config.Channels.Names(), ","))
	if base := a.o.Config.PublicURL; base != "" {
		for _, k := range a.o.Config.Kinds() {
			if k.Posted(a.o.Config.Channels[k.Name]) {
				a.log.Info("the address for the platform's webhook setting", "channel", k.Name, "url", base+"/webhook/"+k.Name)
			}
		}
	}
	for _, p := range findUnreachable(a.live.Load(), a.directory) {
		a.log.Warn("the gate works, but nobody can be asked", "problem", p)
	}
	return nil
}

// keepStore has the store look at the machine's clock, and at what else may have changed.
func (a *App) keepStore(ctx context.Context) {
	const every = 5 * time.Second
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		a.store.keep(ctx, a.log)
		a.disk.look(ctx, a.store.Now())
		a.growth.read(ctx, a.store.Now())
		a.reloader.lookBehind(ctx)
		if err := a.endOrphans(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "of calls that a program has sent on that is gone, it is not on record yet that they "+
				"may have run; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// endOrphans puts on record that it is not known what came of calls that other programs have sent on, which are gone.
func (a *App) endOrphans(ctx context.Context) error {
	gone, err := a.store.FindGone(ctx)
	for i := 0; i < len(gone) && err == nil; i++ {
		var n int
		if n, err = a.gate.Orphaned(ctx, gone[i]); n > 0 {
			a.log.WarnContext(ctx, "a program that is gone has sent calls to MCP servers that were never answered: they may "+
				"have run", "calls", n, "replica", gone[i])
		}
	}
	return err
}

func (a *App) spawn(fn func()) { a.running.Go(fn) }

// Failed delivers an error when serving ended by itself.
func (a *App) Failed() <-chan error { return a.failed }

// Addr is the address of the API.
func (a *App) Addr() string { return a.listeners.api.Addr().String() }

// WebhookAddr is the address of the webhooks: that of the API unless they have one of their own.
func (a *App) WebhookAddr() string {
	if a.listeners.webhooks != nil {
		return a.listeners.webhooks.Addr().String()
	}
	return a.Addr()
}

// withdrawFor is for how long a program works on after it has said that it stops: a load balancer looks each second,
// and gives it up after the second time.
const withdrawFor = 5 * time.Second

// Withdraw has a load balancer send callers to other programs on the store: /readyz says that this one stops, which
// works on meanwhile. It returns after 5 s or when ctx ends, and at once where there is no other program.
func (a *App) Withdraw(ctx context.Context) {
	a.withdrawn.Store(true)
	if !a.store.hasOthers(ctx) {
		return
	}
	over := time.NewTimer(withdrawFor)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}

// Stop stops the program; what is in hand is finished while ctx lives. It may be called at any time
// and more than once.
func (a *App) Stop(ctx context.Context) error {
	a.stop.Do(func() {
		a.begin()
		var errs []error
		for i := len(a.undo) - 1; i >= 0; i-- {
			start := a.o.Now()
			if err := a.undo[i].do(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", a.undo[i].name, err))
			}
			a.log.DebugContext(ctx, "stopped", "part", a.undo[i].name, "took", a.o.Now().Sub(start))
		}
		a.halt()
		a.stopErr = errors.Join(errs...)
	})
	return a.stopErr
}
