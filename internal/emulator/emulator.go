package emulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Config describes both platforms and the people on them. The zero value works: ids and secrets are made up, and
// [Emulator.Config] tells them.
type Config struct {
	LINE   LINEConfig
	Slack  SlackConfig
	People []Person

	// WebhookSecret signs what is sent to people's own webhooks: "whsec_" and the base64 of 24 to 64 bytes.
	WebhookSecret string

	// Panels are shown beside the chats on the page, each with the lines of its [Page.Log] stream. The default is
	// one, titled Agent, with the stream "agent".
	Panels []Panel

	// Inbox makes an address at which a person decides in the browser, for once; the page then leads there. nil: it
	// does not.
	Inbox func(ctx context.Context, person string) (string, error)

	// Languages are what the page offers for what is sent to people, the one in force first. SetLanguage is asked for
	// another; an error says on the page why it cannot be had. None: the page offers no choice.
	Languages   []Language
	SetLanguage func(ctx context.Context, tag string) error

	// Hosts are further names under which the page may be opened. IP addresses and localhost always are.
	Hosts []string

	// Now is the clock of both platforms: of timestamps and of every lifetime. Default time.Now.
	Now func() time.Time
	// Logger gets one debug line per call and per webhook. Default: nothing is logged.
	Logger *slog.Logger
}

// LINEConfig is one LINE official account.
type LINEConfig struct {
	ChannelSecret      string
	ChannelAccessToken string
	BotUserID          string // the webhooks' destination
	BotName            string
	BasicID            string        // default @sandbox
	ChatMode           string        // "bot", the default, or "chat": people answer by hand too
	WebhookTimeout     time.Duration // default 2 s, as on LINE
}

// SlackConfig is one Slack workspace with one app installed.
type SlackConfig struct {
	BotToken       string
	AppToken       string // the app-level token, which opens sockets and does nothing else
	SigningSecret  string
	TeamID         string
	TeamName       string
	EnterpriseID   string // set: an organisation-wide installation, whose payloads have no team
	AppID          string
	BotID          string
	BotUserID      string
	BotName        string
	Scopes         []string // of the bot's token; default: everything that a gate may ask for
	AppScopes      []string // of the app-level token; default: connections:write
	Channels       []Channel
	WebhookTimeout time.Duration // default 3 s, as on Slack; of acknowledgements over a socket too

	HomeOff      bool          // the Home tab is switched off in the app's settings
	SocketMode   bool          // Socket Mode is on from the start; see [SlackSockets.SetMode]
	PingInterval time.Duration // between pings over a socket; default 10 s
}

// Channel is a Slack channel.
type Channel struct {
	ID          string
	Name        string
	Members     []string // people, by name or Slack id; none: everybody who has a Slack id
	BotAbsent   bool     // the bot was not invited
	IsPrivate   bool
	IsArchived  bool
	IsExtShared bool
}

// Person is somebody with a phone.
type Person struct {
	Name      string
	LINE      string // LINE user id, "U" and 32 hex digits; empty: not on LINE
	Slack     string // Slack user id; empty: not on Slack
	SlackTeam string // another team's id: an outsider in a shared channel
	Stranger  bool   // on the platforms, but nobody the program knows
}

// Panel is a column of log lines on the page, see [Page.Log] and [Page.Tell].
type Panel struct {
	Title  string
	Stream string // the stream of [Page.Log] to show
	URL    string // optional: a link in the panel's head
}

// Language is one that people can be written to in.
type Language struct {
	Tag  string `json:"tag"`  // "zh-TW"
	Name string `json:"name"` // as its speakers call it
}

// StrangerName is the name of the person that [New] adds when the Config has no stranger.
const StrangerName = "a stranger"

var lineUserID = regexp.MustCompile(`^U[0-9a-f]{32}$`)

// Emulator is the two platforms and what they have in common: the people on them, the one lock over all of their state,
// the record of calls and what makes calls fail, the server. Its methods, and those of its parts, may be called by any
// number of goroutines.
type Emulator struct {
	LINE     *LINE
	Slack    *Slack
	Webhooks *Webhooks
	Page     *Page

	cfg     Config
	now     func() time.Time
	log     *slog.Logger
	handler http.Handler
	out     *http.Client // posts webhooks

	done     chan struct{} // closed by Close
	closing  sync.Once
	handlers sync.WaitGroup // API calls in progress, and open sockets
	servers  sync.WaitGroup // Serve loops

	// mu guards what follows, and the state of the parts: a person's tap, the message that it changes and the call that
	// comes of it are seen together or not at all.
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	closed   bool
	baseURL  string
	started  []*http.Server
	people   []Person
	calls    []*Call
	breaches []Violation
	failures []*Failure
	holds    []*Hold
	serial   int64 // numbers that must differ
}

// New builds both platforms. It fails when the Config contradicts itself, such as two people with one id.
func New(cfg Config) (*Emulator, error) {
	fillDefaults(&cfg)
	e := &Emulator{
		cfg:     cfg,
		now:     cfg.Now,
		log:     cfg.Logger,
		done:    make(chan struct{}),
		changed: make(chan struct{}),
		people:  cfg.People,
		out: &http.Client{
			Transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second},
			// Neither platform follows a webhook's redirect.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if err := checkPeople(cfg.People); err != nil {
		return nil, err
	}
	if len(cfg.Languages) > 0 && cfg.SetLanguage == nil {
		return nil, errors.New("emulator: languages to choose from need a SetLanguage")
	}
	if _, err := webhookKey(cfg.WebhookSecret); err != nil {
		return nil, err
	}
	e.LINE, e.Webhooks, e.Page = newLINE(e), &Webhooks{e: e}, newPage(e)
	var err error
	if e.Slack, err = newSlack(e); err != nil {
		return nil, err
	}
	e.handler = e.routes()
	return e, nil
}

func fillDefaults(cfg *Config) {
	def := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	def(&cfg.LINE.ChannelSecret, randomHex(16))
	def(&cfg.LINE.ChannelAccessToken, randomHex(32))
	def(&cfg.LINE.BotUserID, "U"+randomHex(16))
	def(&cfg.LINE.BotName, "Countersign")
	def(&cfg.LINE.BasicID, "@sandbox")
	def(&cfg.LINE.ChatMode, "bot")
	def(&cfg.WebhookSecret, newWebhookSecret())
	def(&cfg.Slack.BotToken, "xoxb-"+randomHex(20))
	def(&cfg.Slack.AppToken, "xapp-1-"+randomHex(20))
	def(&cfg.Slack.SigningSecret, randomHex(16))
	def(&cfg.Slack.TeamID, "T0SANDBOX1")
	def(&cfg.Slack.TeamName, "Sandbox")
	def(&cfg.Slack.AppID, "A0SANDBOX1")
	def(&cfg.Slack.BotID, "B0SANDBOX1")
	def(&cfg.Slack.BotUserID, "U0SANDBOX1")
	def(&cfg.Slack.BotName, "countersign")
	if cfg.Slack.Scopes == nil {
		cfg.Slack.Scopes = []string{
			"app_mentions:read", "channels:read", "chat:write", "commands", "groups:read", "im:history", "im:read", "im:write",
			"users:read",
		}
	}
	if cfg.Slack.AppScopes == nil {
		cfg.Slack.AppScopes = []string{"connections:write"}
	}
	if cfg.Slack.Channels == nil {
		cfg.Slack.Channels = []Channel{{ID: "C0APPROVALS", Name: "approvals"}}
	}
	if cfg.LINE.WebhookTimeout == 0 {
		cfg.LINE.WebhookTimeout = 2 * time.Second
	}
	if cfg.Slack.WebhookTimeout == 0 {
		cfg.Slack.WebhookTimeout = 3 * time.Second
	}
	if cfg.Slack.PingInterval == 0 {
		cfg.Slack.PingInterval = 10 * time.Second
	}
	if cfg.Panels == nil {
		cfg.Panels = []Panel{{Title: "Agent", Stream: "agent"}}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.People = append([]Person(nil), cfg.People...)
	for _, p := range cfg.People {
		if p.Stranger {
			return
		}
	}
	cfg.People = append(cfg.People, Person{
		Name: StrangerName, LINE: "U" + strings.Repeat("5ca1ab1e", 4), Slack: "U0STRANGER", Stranger: true,
	})
}

func checkPeople(people []Person) error {
	seen := map[string]string{}
	for _, p := range people {
		if p.Name == "" {
			return errors.New("emulator: a person needs a name")
		}
		if p.LINE != "" && !lineUserID.MatchString(p.LINE) {
			return fmt.Errorf("emulator: %s: a LINE user id is U and 32 hex digits", p.Name)
		}
		for _, key := range []string{p.Name, p.LINE, p.Slack} {
			if key == "" {
				continue
			}
			if other, ok := seen[key]; ok {
				return fmt.Errorf("emulator: %q is both %s and %s", key, other, p.Name)
			}
			seen[key] = p.Name
		}
	}
	return nil
}

// Config returns the configuration with everything that New filled in.
func (e *Emulator) Config() Config { return e.cfg }

// People returns everybody, the stranger included.
func (e *Emulator) People() []Person { return append([]Person(nil), e.people...) }

// person finds somebody by name, LINE id or Slack id.
func (e *Emulator) person(key string) (Person, error) {
	for _, p := range e.people {
		if key != "" && (p.Name == key || p.LINE == key || p.Slack == key) {
			return p, nil
		}
	}
	return Person{}, fmt.Errorf("emulator: nobody here is called %q", key)
}

// Handler is both APIs, the response URLs, the sockets, people's webhooks and the page, for a server of the caller's
// own; SetBaseURL then says where it is. With Start or Serve it is not needed.
func (e *Emulator) Handler() http.Handler { return e.handler }

// SetBaseURL says under which address the Handler is reached, such as "http://127.0.0.1:4000".
func (e *Emulator) SetBaseURL(base string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.baseURL = strings.TrimSuffix(base, "/")
	e.bump()
}

// Start listens on addr ("127.0.0.1:0" for any free port) and serves until Close.
func (e *Emulator) Start(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("emulator: %w", err)
	}
	return e.Serve(l)
}

// Serve serves on l, in the background, until Close. The first listener's address becomes the base URL unless one was
// set.
func (e *Emulator) Serve(l net.Listener) error {
	server := &http.Server{
		Handler:           e.handler,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(e.log.Handler(), slog.LevelDebug),
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return errors.Join(errors.New("emulator: closed"), l.Close())
	}
	if e.baseURL == "" {
		e.baseURL = "http://" + l.Addr().String()
	}
	e.started = append(e.started, server)
	e.servers.Add(1)
	e.mu.Unlock()
	go func() {
		defer e.servers.Done()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			e.log.Error("the stand-in stopped serving", "error", err)
		}
	}()
	return nil
}

// Close ends everything: holds are released, connections closed, and no goroutine is left. It can be called twice.
func (e *Emulator) Close() error {
	e.closing.Do(func() {
		e.mu.Lock()
		e.closed = true
		servers := e.started
		e.bump()
		e.mu.Unlock()
		close(e.done)
		for _, server := range servers {
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			if server.Shutdown(ctx) != nil {
				_ = server.Close() // only connections are lost, which is the point
			}
			cancel()
		}
		e.handlers.Wait()
		e.servers.Wait()
		e.out.CloseIdleConnections()
	})
	return nil
}

// URL is the base of everything, the page's address.
func (e *Emulator) URL() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.baseURL
}

// SetWebhooks says where events go. An empty URL leaves that platform without a webhook.
func (e *Emulator) SetWebhooks(line, slack string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.LINE.webhook, e.Slack.webhook = line, slack
	e.bump()
}

// bump tells everybody who waits that something changed. The caller holds the lock.
func (e *Emulator) bump() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// change returns a channel that is closed at the next change.
func (e *Emulator) change() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// WaitFor waits until cond holds. It looks again after every change: a call, a message, an edit, a violation, a
// webhook's answer. cond may use every method of the Emulator.
func (e *Emulator) WaitFor(ctx context.Context, cond func() bool) error {
	for {
		changed := e.change()
		if cond() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("emulator: waited in vain: %w", ctx.Err())
		case <-e.done:
			if cond() {
				return nil
			}
			return errors.New("emulator: closed while waiting")
		}
	}
}
