package config

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // people's time zones, also where the machine has none

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/channels"
	allkinds "countersign/channels/all"
	"countersign/channels/kind"
	"countersign/heartbeat"
	"countersign/internal/auth"
	"countersign/internal/backup"
	"countersign/internal/listener"
	"countersign/internal/policy"
	"countersign/internal/retention"
	"countersign/internal/secret"
	"countersign/internal/yamlpos"
)

// File is a configuration as written, with variables replaced and defaults filled in.
type File struct {
	Listen string `yaml:"listen" json:"listen"`
	// "": webhooks come in on Listen
	WebhookListen string `yaml:"webhook_listen,omitempty" json:"webhook_listen,omitempty"`
	// "": the pages are on Listen
	PagesListen string `yaml:"pages_listen,omitempty" json:"pages_listen,omitempty"`
	// DebugListen is where admins take profiles of the process; "": nowhere.
	DebugListen string `yaml:"debug_listen,omitempty" json:"debug_listen,omitempty"`
	// TLS, WebhookTLS and PagesTLS are the certificates of Listen, WebhookListen and PagesListen; nil: plain HTTP.
	TLS        *listener.Pair `yaml:"tls,omitempty" json:"tls,omitempty"`
	WebhookTLS *listener.Pair `yaml:"webhook_tls,omitempty" json:"webhook_tls,omitempty"`
	PagesTLS   *listener.Pair `yaml:"pages_tls,omitempty" json:"pages_tls,omitempty"`
	// TrustedProxies are the addresses and networks that are believed in saying whose request they bring.
	TrustedProxies []string `yaml:"trusted_proxies,omitempty" json:"trusted_proxies,omitempty"`
	// Published are addresses of the machine around, at which Listen is reached: a container's ports that it publishes.
	Published []string `yaml:"published,omitempty" json:"published,omitempty"`
	// Socket is the path of a unix socket that the API is also served on; "": none.
	Socket    string  `yaml:"socket,omitempty" json:"socket,omitempty"`
	PublicURL string  `yaml:"public_url,omitempty" json:"public_url,omitempty"` // without a slash at its end
	Store     string  `yaml:"store" json:"store"`                               // sqlite:PATH, or postgres://HOST/NAME without secrets
	TimeZone  string  `yaml:"time_zone" json:"time_zone"`                       // "": the machine's
	Agents    []Agent `yaml:"agents" json:"agents"`
	// AnonymousAgent is the agent that MCP clients without a token are; "": they are refused.
	AnonymousAgent string        `yaml:"anonymous_agent,omitempty" json:"anonymous_agent,omitempty"`
	People         []Person      `yaml:"people" json:"people"`
	Channels       Channels      `yaml:"channels" json:"channels"`
	MCP            MCP           `yaml:"mcp" json:"mcp"`
	Mask           Mask          `yaml:"mask" json:"mask"`
	Heartbeat      []Job         `yaml:"heartbeat" json:"heartbeat"`
	Notifications  Notifications `yaml:"notifications" json:"notifications"`
	// Limits are the budgets of each agent and each person.
	Limits Limits `yaml:"limits,omitempty" json:"limits,omitzero"`
	// Retention says for how long things are kept.
	Retention Retention `yaml:"retention,omitempty" json:"retention,omitzero"`
	// Backup says where copies of the store are kept.
	Backup Backup `yaml:"backup,omitempty" json:"backup,omitzero"`
	// Telemetry says where traces and metrics are sent.
	Telemetry Telemetry `yaml:"telemetry,omitempty" json:"telemetry,omitzero"`
	// Replicas are what the programs on one database have together.
	Replicas Replicas `yaml:"replicas,omitempty" json:"replicas,omitzero"`
	// SignIn is how people sign in to the pages.
	SignIn SignIn `yaml:"sign_in,omitempty" json:"sign_in,omitzero"`
}

// Agent is a configured agent.
type Agent struct {
	Name  string       `yaml:"name" json:"name"`
	Token secret.Value `yaml:"token" json:"token"`
	// Keyboard is the person who sits at the agent's keyboard and may decide there.
	Keyboard string `yaml:"keyboard,omitempty" json:"keyboard,omitempty"`
	// Owner is the person whose agent it is; "": no person's.
	Owner string `yaml:"owner,omitempty" json:"owner,omitempty"`
	// Group is with which calls its calls share a card where no rule says so; "": as the policy says.
	Group approval.Grouping `yaml:"group,omitempty" json:"group,omitempty"`
	// CardsAtOnce is how many cards of its stand before people at once; 0: any number.
	CardsAtOnce int `yaml:"cards_at_once" json:"cards_at_once"`
	// Limits are the agent's own budgets, where they differ from those of all agents.
	Limits *AgentLimits `yaml:"limits,omitempty" json:"limits,omitempty"`
}

// Person is a configured person.
type Person struct {
	Name  string   `yaml:"name" json:"name"`
	Roles []string `yaml:"roles" json:"roles"`
	// Groups are what the person is in. A group is there once a person is in it.
	Groups []string `yaml:"groups,omitempty" json:"groups,omitempty"`
	// Addresses are where the person is reached, by the name of the channel; each stands under its own key.
	Addresses map[string]channels.Address `yaml:"-" json:"addresses,omitempty"`
	// Channels are the ways to the person in the order in which they are tried; none: those whose notify names them.
	Channels []string     `yaml:"channels,omitempty" json:"channels,omitempty"`
	Token    secret.Value `yaml:"token,omitempty" json:"token,omitempty"`
	Locale   string       `yaml:"locale" json:"locale"`
	TimeZone string       `yaml:"time_zone,omitempty" json:"time_zone,omitempty"` // "": the file's
	// QuietHours are the hours in the person's time zone in which only what cannot wait makes a sound; "": none.
	QuietHours string `yaml:"quiet_hours,omitempty" json:"quiet_hours,omitempty"`
	// OpenID and Email are how the person is known where people sign in: one of them, or neither.
	OpenID string `yaml:"openid,omitempty" json:"openid,omitempty"`
	Email  string `yaml:"email,omitempty" json:"email,omitempty"`
}

// Mask says which args are secrets by their key, beside or against the usual names.
type Mask struct {
	Keys []string `yaml:"keys,omitempty" json:"keys,omitempty"` // values under these are masked too
	Keep []string `yaml:"keep,omitempty" json:"keep,omitempty"` // values under these are not masked for their key
}

// Channels are the ways to reach people: the sections of those that are configured, by name.
type Channels map[string]kind.Section

// Names returns the names of the channels that are configured.
func (c Channels) Names() []string { return slices.Sorted(maps.Keys(c)) }

// Job is one line of the heartbeat's table.
type Job struct {
	Name     string    `yaml:"name" json:"name"`
	Task     string    `yaml:"task" json:"-"` // another spelling of Name
	Schedule string    `yaml:"schedule" json:"schedule"`
	Enabled  bool      `yaml:"enabled" json:"enabled"`
	Params   JobParams `yaml:"params" json:"params"`
}

// JobParams are a job's settings.
type JobParams struct {
	RemindAfter  time.Duration `yaml:"remind_after" json:"remind_after"`
	MaxReminders int           `yaml:"max_reminders" json:"max_reminders"`
}

// Notifications says how often and when a failed notification is tried again.
type Notifications struct {
	MaxRetries int           `yaml:"max_retries" json:"max_retries"`
	FirstRetry time.Duration `yaml:"first_retry" json:"first_retry"`
	MaxBackoff time.Duration `yaml:"max_backoff" json:"max_backoff"`
}

// What holds where a file says nothing.
const (
	DefaultPath   = "countersign.yaml"
	DefaultListen = "127.0.0.1:8787"
	defaultStore  = "sqlite:countersign.db"
	defaultLocale = "en"
)

func (f *File) SetDefaults() {
	f.Listen, f.Store = DefaultListen, defaultStore
	f.Notifications = Notifications{MaxRetries: 3, FirstRetry: 10 * time.Second, MaxBackoff: 5 * time.Minute}
	f.MCP.Hold = defaultHold
	f.Heartbeat = nil
	for _, e := range heartbeat.DefaultEntries() {
		f.Heartbeat = append(f.Heartbeat, Job{Name: e.Name, Schedule: e.Schedule, Enabled: e.Enabled,
			Params: JobParams(e.Params)})
	}
}

func (p *Person) SetDefaults() { p.Locale = defaultLocale }

func (j *Job) SetDefaults() {
	e := heartbeat.DefaultEntries()[0]
	*j = Job{Schedule: e.Schedule, Enabled: true, Params: JobParams(e.Params)}
}

// document is what a file may hold at its top.
type document struct {
	File     `yaml:",inline"`
	People   []*yamlpos.Node `yaml:"people"` // in place of the File's: a person has a key for each kind of channel
	Channels *yamlpos.Node   `yaml:"channels"`
	Policy   *yamlpos.Node   `yaml:"policy"`   // read by the package policy
	Security *yamlpos.Node   `yaml:"security"` // security.hitl is another spelling of policy
}

// Config is a configuration that has been checked. It is not changed after [Load] made it. Printed in
// whatever way, it shows no secret.
type Config struct {
	File `yaml:",inline"`
	// Path is the file it was read from, as given to Load; "" from Parse.
	Path string `yaml:"-" json:"-"`
	// Sum is the SHA-256 of what was read.
	Sum [sha256.Size]byte `yaml:"-" json:"-"`
	// Shared is the digest of what programs on one database are to have the same.
	Shared string `yaml:"-" json:"-"`
	// Files are further files of the gate, beside those that are named here, as given to Load.
	Files []string `yaml:"-" json:"-"`
	// StorePath is the path of the SQLite file, as written: relative paths are from the working directory. "": the store
	// is a database.
	StorePath string `yaml:"-" json:"-"`
	// StoreURL is the database's, with its password; "": the store is a file.
	StoreURL secret.Value `yaml:"-" json:"-"`
	// Keep is what Retention says.
	Keep retention.Keep `yaml:"-" json:"-"`
	// Backups is what Backup says.
	Backups backup.Plan `yaml:"-" json:"-"`
	// Location is where people's times are told.
	Location *time.Location `yaml:"-" json:"-"`
	// Policy is the compiled policy; a file without one quarantines everything.
	Policy *policy.Policy `yaml:"-" json:"-"`
	// Proxies is what TrustedProxies says.
	Proxies listener.Proxies `yaml:"-" json:"-"`
	// LedTo are the addresses that lead to Listen beside its own: those of Published, and of a public_url that is this
	// machine over plain HTTP.
	LedTo []netip.AddrPort `yaml:"-" json:"-"`
	// PolicyConfig is what Policy was compiled from.
	PolicyConfig policy.Config `yaml:"-" json:"-"`

	kinds []kind.Kind
}

// Reader reads configurations in which there may be channels of these kinds.
type Reader struct{ Kinds []kind.Kind }

// EnvPath is where the variables of a configuration are by default: countersign.env for countersign.yaml.
func EnvPath(config string) string { return strings.TrimSuffix(config, filepath.Ext(config)) + ".env" }

// Load reads the configuration at path, with the channels that there are; see [Reader.Load].
func Load(path string, env func(string) (string, bool), files ...string) (*Config, []Problem, error) {
	return Reader{allkinds.Kinds()}.Load(path, env, files...)
}

// Parse is [Load] for a file's content; name is what problems call it.
func Parse(name string, data []byte, env func(string) (string, bool), files ...string) (*Config, []Problem, error) {
	return Reader{allkinds.Kinds()}.Parse(name, data, env, files...)
}

// Load reads the configuration at path, with variables from env (os.LookupEnv). files are the gate's own that
// the configuration does not name, for the guard to know them. The problems come in the order of the file.
// Where all are warnings the error is nil. Otherwise there is no Config, and
// the error is an [*InvalidError] or says why the file could not be read.
func (r Reader) Load(path string, env func(string) (string, bool), files ...string) (*Config, []Problem, error) {
	data, err := read(path)
	if err != nil {
		return nil, nil, err
	}
	return r.parse(path, data, env, files)
}

func (r Reader) parse(path string, data []byte, env func(string) (string, bool),
	files []string) (*Config, []Problem, error) {
	cfg, problems, err := r.Parse(path, data, env, files...)
	if cfg != nil {
		cfg.Path = path
	}
	return cfg, problems, err
}

// read returns no more of a file than shows that it is too large.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, yamlpos.MaxFile+1))
}

// Parse is [Reader.Load] for a file's content; name is what problems call it.
func (r Reader) Parse(name string, data []byte, env func(string) (string, bool),
	files ...string) (*Config, []Problem, error) {
	c := &checker{
		name:     name,
		now:      time.Now(),
		cfg:      &Config{Sum: sha256.Sum256(data), Files: files, kinds: r.Kinds},
		reported: map[yamlpos.Position]bool{},
		owners:   map[string]owner{},
	}
	root, ok := yamlpos.Parse(data, c.lookup(env), c.spoil)
	if ok {
		c.cfg.Shared = sharedDigest(root)
		doc := &document{}
		c.Decoder = yamlpos.NewDecoder(c.failOnce)
		doc.SetDefaults()
		c.Decode("$", root, doc)
		c.cfg.File = doc.File
		c.decodePeople(doc.People)
		c.decodeChannels(doc.Channels)
		c.check(root)
	}
	if !slices.ContainsFunc(c.problems, func(p Problem) bool { return !p.Warning }) {
		c.problems = append(c.problems, c.warnings...)
	}
	sortProblems(c.problems)
	if errs := slices.DeleteFunc(slices.Clone(c.problems), func(p Problem) bool { return p.Warning }); len(errs) > 0 {
		return nil, c.problems, &InvalidError{errs, c.missing}
	}
	return c.cfg, c.problems, nil
}

// lookup is env that keeps which variables are missing; nil, with which none is looked up, stays nil.
func (c *checker) lookup(env func(string) (string, bool)) func(string) (string, bool) {
	if env == nil {
		return nil
	}
	return func(name string) (string, bool) {
		value, set := env(name)
		if value == "" {
			c.missing = append(c.missing, name)
		}
		return value, set
	}
}

// Read returns what is now in the file that the configuration came from.
func (c *Config) Read() ([]byte, error) { return read(c.Path) }

// Reload is [Load] for data that [Config.Read] returned, with the same kinds of channel and the same Files.
func (c *Config) Reload(data []byte, env func(string) (string, bool)) (*Config, []Problem, error) {
	return Reader{c.kinds}.parse(c.Path, data, env, c.Files)
}

// Agents returns the configured agents.
func (c *Config) Agents() []auth.AgentIdentity {
	agents := make([]auth.AgentIdentity, len(c.File.Agents))
	for i, a := range c.File.Agents {
		agents[i] = auth.AgentIdentity{Name: a.Name, Token: a.Token, Owner: a.Owner}
	}
	return agents
}

// People returns the configured people.
func (c *Config) People() []auth.Person {
	people := make([]auth.Person, len(c.File.People))
	for i, p := range c.File.People {
		people[i] = auth.Person{
			Name: p.Name, Approver: p.has(roleApprover), Admin: p.has(roleAdmin), Groups: p.Groups,
			Addresses: map[string]string{}, Token: p.Token, Locale: p.Locale, Zone: c.zone(p),
		}
		people[i].Quiet, _ = auth.ParseQuietHours(p.QuietHours) // it was checked; none where there is none
		for _, k := range c.kinds {
			if a, ok := p.Addresses[k.Name]; ok && k.Inbound != nil {
				people[i].Addresses[k.Name] = a.Reveal()
			}
		}
	}
	return people
}

// zone is where a person's times are told.
func (c *Config) zone(p Person) *time.Location {
	if p.TimeZone != "" {
		if l, err := time.LoadLocation(p.TimeZone); err == nil { // it was checked
			return l
		}
	}
	return c.Location
}

// Masker returns what covers secrets, as the file says.
func (c *Config) Masker() *redact.Masker {
	return redact.New(c.Mask.Keys...).Keeping(c.Mask.Keep...)
}

// Kinds returns the kinds of channel that there may be.
func (c *Config) Kinds() []kind.Kind { return c.kinds }

// kind returns the kind of a name; its zero value where there is none.
func (c *Config) kind(name string) kind.Kind {
	for _, k := range c.kinds {
		if k.Name == name {
			return k
		}
	}
	return kind.Kind{}
}

// recipient returns what notifications to a person name on a channel, "" where they have no address there.
// It is their name where the address itself may hold a secret: rows and logs say where a notification went.
func (c *Config) recipient(p Person, channel string) string {
	a := p.Addresses[channel].Reveal()
	if a != "" && c.kind(channel).Address.Secret {
		return p.Name
	}
	return a
}

// Recipients returns who reads what goes to an address, as far as it is a person's. On a channel whose
// addresses may hold secrets every person is known, by name.
func (c *Config) Recipients() map[approval.Address]auth.Person {
	known := map[approval.Address]auth.Person{}
	people := c.People()
	for i, p := range c.File.People {
		for _, k := range c.kinds {
			to := p.Addresses[k.Name].Reveal()
			if k.Address.Secret {
				to = p.Name
			}
			if to != "" {
				known[approval.Address{Channel: k.Name, To: to}] = people[i]
			}
		}
	}
	return known
}

// Room is where several people see a card.
type Room struct {
	approval.Address
	Locale string
}

// Rooms returns the rooms that the cards of every request go to.
func (c *Config) Rooms() []Room {
	var rooms []Room
	for _, name := range c.Channels.Names() {
		if a := c.Channels[name].Audience(); a.Room != "" {
			rooms = append(rooms, Room{approval.Address{Channel: name, To: a.Room}, a.Locale})
		}
	}
	return rooms
}

// SecretAddresses returns people's addresses on a channel by name, where they may hold secrets.
func (c *Config) SecretAddresses(channel string) map[string]secret.Value {
	if !c.kind(channel).Address.Secret {
		return nil
	}
	addresses := map[string]secret.Value{}
	for _, p := range c.File.People {
		if a, ok := p.Addresses[channel]; ok {
			addresses[p.Name] = secret.Value(a.Reveal())
		}
	}
	return addresses
}

// Route returns the ways to the person in their order, as far as the channels are configured.
func (c *Config) route(p Person) approval.Route {
	var r approval.Route
	for _, name := range p.Channels {
		if to := c.recipient(p, name); to != "" && c.Channels[name] != nil {
			r = append(r, approval.Address{Channel: name, To: to})
		}
	}
	return r
}

// Routes returns where the cards of every request go: one along each route. A person with channels has
// one route; another one has a route on each channel whose notify names them. Each room has its own.
func (c *Config) Routes() []approval.Route {
	var routes []approval.Route
	for _, p := range c.File.People {
		if r := c.route(p); len(p.Channels) > 0 {
			if len(r) > 0 {
				routes = append(routes, r)
			}
			continue
		}
		for _, name := range c.Channels.Names() {
			if slices.Contains(c.Channels[name].Audience().Notify, p.Name) {
				routes = append(routes, approval.Route{{Channel: name, To: c.recipient(p, name)}})
			}
		}
	}
	for _, room := range c.Rooms() {
		routes = append(routes, approval.Route{room.Address})
	}
	return routes
}

// AdminRoutes returns the routes of the admins, by all the ways that there are to each.
func (c *Config) AdminRoutes() []approval.Route {
	var routes []approval.Route
	for _, p := range c.File.People {
		if r := c.allWays(p); p.has(roleAdmin) && len(r) > 0 {
			routes = append(routes, r)
		}
	}
	return routes
}

// PersonRoutes returns by name the routes of those who are reached at all, by all the ways that there are to each.
func (c *Config) PersonRoutes() map[string]approval.Route {
	routes := map[string]approval.Route{}
	for _, p := range c.File.People {
		if r := c.allWays(p); len(r) > 0 {
			routes[p.Name] = r
		}
	}
	return routes
}

// allWays returns every way to a person, first those that they chose.
func (c *Config) allWays(p Person) approval.Route {
	r := c.route(p)
	for _, name := range c.Channels.Names() {
		a := approval.Address{Channel: name, To: c.recipient(p, name)}
		if a.To != "" && !slices.Contains(r, a) {
			r = append(r, a)
		}
	}
	return r
}

// Heartbeat returns the heartbeat's table.
func (c *Config) Heartbeat() []heartbeat.Entry {
	entries := make([]heartbeat.Entry, len(c.File.Heartbeat))
	listed := map[string]bool{}
	for i, j := range c.File.Heartbeat {
		entries[i] = j.entry()
		listed[j.Name] = true
	}
	if c.Keep != (retention.Keep{}) && !listed[heartbeat.Prune] {
		entries = append(entries, heartbeat.DefaultPrune())
	}
	if c.Backups.IsSet() && !listed[heartbeat.Backup] {
		entries = append(entries, heartbeat.DefaultBackup())
	}
	return entries
}

func (j Job) entry() heartbeat.Entry {
	return heartbeat.Entry{Name: j.Name, Schedule: j.Schedule, Enabled: j.Enabled, Params: heartbeat.Params(j.Params)}
}

// The roles of people.
const (
	roleApprover = "approver"
	roleAdmin    = "admin"
)

func (p Person) has(role string) bool { return slices.Contains(p.Roles, role) }

// String tells what is configured, in a line.
func (c *Config) String() string {
	return fmt.Sprintf("%s: %d agents, %d people, channels %v", c.Path, len(c.File.Agents), len(c.File.People),
		c.Channels.Names())
}
