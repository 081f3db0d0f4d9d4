package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/heartbeat"
	"countersign/internal/auth"
	"countersign/internal/listener"
	"countersign/internal/locale"
	"countersign/internal/policy"
	"countersign/internal/secret"
	"countersign/internal/yamlpos"

	"github.com/robfig/cron/v3"
)

// minSecret is how long a secret or token must be, in characters.
const minSecret = 16

// checker judges a decoded file and collects what it finds.
type checker struct {
	*yamlpos.Decoder
	name     string
	now      time.Time // when the file is read: whether a schedule comes, or a certificate is valid, hangs on it
	cfg      *Config
	problems []Problem
	warnings []Problem                 // told only where nothing is wrong, since they may follow from what is
	missing  []string                  // the variables that are not set, or empty
	reported map[yamlpos.Position]bool // values that could not be made out: nothing follows from them
	owners   map[string]owner          // who has a token or id, by kind and value
	sound    []int                     // the MCP servers that nothing is wrong with
}

type owner struct {
	who  string
	line int
}

func (c *checker) fail(at yamlpos.Position, message string) {
	c.problems = append(c.problems, Problem{File: c.name, Line: at.Line, Column: at.Column, Message: message})
}

// spoil is fail for a value that could not be made out.
func (c *checker) spoil(at yamlpos.Position, message string) {
	c.reported[at] = true
	c.fail(at, message)
}

// failOnce is fail, but for what could not be made out anyway.
func (c *checker) failOnce(at yamlpos.Position, message string) {
	if !c.reported[at] {
		c.fail(at, message)
	}
}

// place returns where the value at path stands, or else what it would stand in.
func (c *checker) place(path string) yamlpos.Position {
	for path != "" {
		if at, ok := c.Places[path]; ok && at.Line > 0 {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return yamlpos.Position{}
}

// errorf reports the value at path, unless it was reported before.
func (c *checker) errorf(path, format string, args ...any) {
	if at, ok := c.Places[path]; c.Bad[path] || ok && c.reported[at] {
		return
	}
	c.fail(c.place(path), fmt.Sprintf(format, args...))
}

func (c *checker) warnf(path, format string, args ...any) {
	at := c.place(path)
	c.warnings = append(c.warnings, Problem{File: c.name, Line: at.Line, Column: at.Column,
		Message: fmt.Sprintf(format, args...), Warning: true})
}

func (c *checker) check(root *yamlpos.Node) {
	f := &c.cfg.File
	c.address("$.listen", f.Listen)
	c.pagesListen()
	c.debugListen()
	if f.WebhookListen != "" {
		c.address("$.webhook_listen", f.WebhookListen)
		if sameAddress(f.WebhookListen, f.Listen) {
			c.errorf("$.webhook_listen", "webhook_listen is the same address as listen; leave it out to take webhooks there")
		}
	}
	c.certificates()
	c.proxies()
	c.publicURL()
	c.readPublished()
	c.store()
	c.replicas()
	c.timeZone()
	c.agents()
	c.people()
	c.groups()
	c.signIn()
	c.agentOwners()
	c.channels()
	c.mask()
	c.mcp()
	c.anonymous()
	c.socket()
	c.heartbeat()
	c.retention()
	checkBackup(c)
	checkTelemetry(c)
	c.notifications()
	if c.policy(root) {
		c.reachable()
	}
	c.warnUnasked()
	c.keyboards()
}

// sameAddress reports whether two listeners would have one address. A listener at one of localhost's has both.
func sameAddress(a, b string) bool {
	_, port, err := net.SplitHostPort(a)
	_, other, _ := net.SplitHostPort(b)
	return err == nil && port != "0" && port == other && (a == b || listener.IsLocalhost(a) && listener.IsLocalhost(b))
}

func (c *checker) address(path, s string) {
	key := yamlpos.LastKey(path)
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		c.errorf(path, "%s must be host:port, such as %s", key, DefaultListen)
		return
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		c.errorf(path, "%s must end in a port from 0 to 65535", key)
	} else if n == 0 && strings.HasPrefix(port, "+") {
		c.errorf(path, "%s must end in a port from 0 to 65535", key)
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
		c.errorf(path, "%s has a host that cannot be one", key)
	}
}

func (c *checker) publicURL() {
	s := c.cfg.PublicURL
	if s == "" {
		return
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(s, "#") {
		c.errorf("$.public_url", "public_url must be an address such as https://gate.example.com")
		return
	}
	if strings.Trim(u.Path, "/") != "" {
		c.errorf("$.public_url", "public_url must have no path: the pages and the webhooks are at the root of their host; "+
			"give the gate a host name of its own, such as https://gate.example.com")
		return
	}
	c.cfg.PublicURL = strings.TrimRight(s, "/")
}

func (c *checker) store() {
	scheme, path, found := strings.Cut(c.cfg.Store, ":")
	switch {
	case found && (scheme == "postgres" || scheme == "postgresql"):
		c.database(path)
	case !found || scheme != "sqlite":
		c.errorf("$.store", "store must be sqlite:PATH, such as %s, or a PostgreSQL database: postgres://…", defaultStore)
	case strings.TrimSpace(path) == "", strings.ContainsRune(path, 0):
		c.errorf("$.store", "store must name a file: sqlite:PATH, such as %s", defaultStore)
	case path == ":memory:", strings.HasPrefix(path, "file:"):
		c.errorf("$.store", "store must be the plain path of a file that stays: requests must survive a restart")
	case strings.HasPrefix(path, "//"):
		c.errorf("$.store", "store is sqlite: and a path without //, such as sqlite:/var/lib/countersign/countersign.db")
	default:
		c.cfg.StorePath = path
	}
}

func (c *checker) timeZone() {
	zone := c.cfg.TimeZone
	if zone == "" {
		c.cfg.Location = time.Local
		return
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		c.errorf("$.time_zone", "time_zone must be a name such as Asia/Tokyo or UTC")
		return
	}
	c.cfg.Location = location
}

func (c *checker) agents() {
	names := map[string]int{}
	for i, a := range c.cfg.File.Agents {
		path := fmt.Sprintf("$.agents[%d]", i)
		if c.Bad[path] {
			continue
		}
		switch {
		case a.Name == "":
			c.errorf(path+".name", "an agent needs a name")
		case !approval.ValidName(a.Name):
			c.errorf(path+".name", "an agent's name must be 1 to 128 characters out of A-Z a-z 0-9 _ . : -")
		default:
			c.unique(path+".name", "agent", a.Name, names)
		}
		c.agentAsks(path, a)
		if a.Token == "" {
			c.errorf(path+".token", "an agent needs a token, such as token: ${AGENT_TOKEN}")
			continue
		}
		c.checkToken(path+".token", a.Token)
		c.checkUnique(path+".token", "token", a.Token.Reveal(), "agent "+a.Name)
	}
	if len(c.cfg.File.Agents) == 0 && !c.Bad["$.agents"] {
		c.warnf("$.agents", "there are no agents, so nothing can be asked; add one under agents")
	}
}

func (c *checker) people() {
	names := map[string]int{}
	for i, p := range c.cfg.File.People {
		path := fmt.Sprintf("$.people[%d]", i)
		if c.Bad[path] {
			continue
		}
		switch {
		case p.Name == "":
			c.errorf(path+".name", "a person needs a name")
		case !personName(p.Name):
			c.errorf(path+".name", "a person's name must be 1 to 64 letters, digits and _ . @ + - (no spaces, and no colon: "+
				"agent:NAME is not a person)")
		default:
			c.unique(path+".name", "person", p.Name, names)
		}
		for j, r := range p.Roles {
			if r != roleApprover && r != roleAdmin {
				c.errorf(fmt.Sprintf("%s.roles[%d]", path, j), "unknown role %q; use approver or admin", r)
			}
		}
		for _, k := range c.cfg.kinds {
			a, ok := p.Addresses[k.Name]
			if !ok {
				continue
			}
			at := path + "." + k.Name
			if err := k.Address.Check(a.Reveal()); err != nil {
				c.errorf(at, "%s", err)
			}
			if k.Address.Own != "" {
				c.checkUnique(at, k.Address.Own, a.Reveal(), p.Name)
			}
		}
		if p.Token != "" {
			c.checkToken(path+".token", p.Token)
			c.checkUnique(path+".token", "token", p.Token.Reveal(), p.Name)
		}
		c.locale(path+".locale", p.Locale)
		if p.TimeZone != "" {
			if _, err := time.LoadLocation(p.TimeZone); err != nil || p.TimeZone == "Local" {
				c.errorf(path+".time_zone", "time_zone must be a name such as Asia/Tokyo or UTC")
			}
		}
		if at := path + ".quiet_hours"; c.Said[at] {
			if _, err := auth.ParseQuietHours(p.QuietHours); err != nil {
				c.errorf(at, "%s", err)
			}
		}
		c.ways(path, p)
		if !c.canDecide(p) && !c.hasProblemBelow(path) {
			c.warnf(path, "%s cannot decide anything; add %s or token to that person", p.Name, strings.Join(c.allWaysIn(), ", "))
		}
	}
}

func (c *checker) locale(path, tag string) {
	if known := locale.Tags(); !slices.Contains(known, tag) {
		c.errorf(path, "unknown locale %q; use one of %s", tag, strings.Join(known, ", "))
	}
}

// ways checks how a person is reached.
func (c *checker) ways(path string, p Person) {
	known := make([]string, len(c.cfg.kinds))
	for i, k := range c.cfg.kinds {
		known[i] = k.Name
	}
	seen := map[string]bool{}
	for i, name := range p.Channels {
		entry := fmt.Sprintf("%s.channels[%d]", path, i)
		switch {
		case !slices.Contains(known, name) && !yamlpos.MayRepeat(name): // an address, perhaps, and with a secret in it
			c.errorf(entry, "channels must hold names of channels; use %s", strings.Join(known, ", "))
		case !slices.Contains(known, name):
			c.errorf(entry, "unknown channel %q; use one of %s", name, strings.Join(known, ", "))
		case seen[name]:
			c.errorf(entry, "%s is listed twice; remove one", name)
		case p.Addresses[name].Reveal() == "":
			c.errorf(entry, "%s has no %s to be reached at; add %s: to that person", p.Name, name, name)
		case c.cfg.Channels[name] == nil:
			c.errorf(entry, "the channel %s is not configured; add it to channels", name)
		}
		seen[name] = true
	}
}

// hasProblemBelow reports whether anything in the value at path was reported already.
func (c *checker) hasProblemBelow(path string) bool {
	for p, at := range c.Places {
		if strings.HasPrefix(p, path+".") && (c.reported[at] || c.Bad[p]) {
			return true
		}
	}
	return false
}

// personName reports whether s may name a person. A colon would let a name pass for an agent or for a
// chat user that is not configured.
func personName(s string) bool {
	return utf8.RuneCountInString(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !strings.ContainsRune("_.@+-", r)
	})
}

// unique reports a name that an earlier one in the same list can be taken for.
func (c *checker) unique(path, kind, name string, names map[string]int) {
	at := c.place(path)
	if first, dup := names[strings.ToLower(name)]; dup {
		c.errorf(path, "the %s at line %d has the name %s already (letter case does not count)", kind, first, name)
		return
	}
	names[strings.ToLower(name)] = at.Line
}

func (c *checker) checkToken(path string, s secret.Value) {
	switch v, slip := s.Reveal(), secret.FindSlip(s); {
	case slip != "":
		c.errorf(path, "the token %s", slip)
	case utf8.RuneCountInString(v) < minSecret:
		c.errorf(path, "a token needs at least %d characters, better 32 (for instance: openssl rand -hex 32)", minSecret)
	case strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }):
		c.errorf(path, "a token must be visible ASCII characters, without spaces or line ends")
	}
}

// checkUnique reports a token or id that another agent or person has. An empty value belongs to none, and a token that
// is too short has been reported.
func (c *checker) checkUnique(path, kind, value, who string) {
	if value == "" || c.Bad[path] || kind == "token" && utf8.RuneCountInString(value) < minSecret {
		return
	}
	at := c.place(path)
	if first, dup := c.owners[kind+" "+value]; dup {
		c.errorf(path, "%s has the same %s at line %d; each must have their own", first.who, kind, first.line)
		return
	}
	c.owners[kind+" "+value] = owner{who, at.Line}
}

func (c *checker) mask() {
	for _, list := range []struct {
		name string
		keys []string
	}{{"keys", c.cfg.Mask.Keys}, {"keep", c.cfg.Mask.Keep}} {
		for i, k := range list.keys {
			if !strings.ContainsFunc(k, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
				c.errorf(fmt.Sprintf("$.mask.%s[%d]", list.name, i),
					"a key to mask or keep must be a word such as iban or account_number")
			} else if list.name == "keys" && redact.NamesProgram(k) {
				c.errorf(fmt.Sprintf("$.mask.keys[%d]", i),
					"%s names what is run, or a file: it is never masked, so that approvers see it", k)
			}
		}
	}
	for i, k := range c.cfg.Mask.Keep {
		if slices.ContainsFunc(c.cfg.Mask.Keys, func(x string) bool { return strings.EqualFold(x, k) }) {
			c.errorf(fmt.Sprintf("$.mask.keep[%d]", i), "%s is in mask.keys too", k)
		}
	}
}

func (c *checker) heartbeat() {
	names := map[string]int{}
	for i, j := range c.cfg.File.Heartbeat {
		path := fmt.Sprintf("$.heartbeat[%d]", i)
		if c.Bad[path] {
			continue
		}
		c.task(path, &c.cfg.File.Heartbeat[i], names)
		if why := badSchedule(j.Schedule, c.now); why != "" {
			c.errorf(path+".schedule", "the schedule %q %s", j.Schedule, why)
		}
		if j.Params.RemindAfter < 0 {
			c.errorf(path+".params.remind_after", "remind_after cannot be negative; 0 reminds nobody")
		}
		if j.Params.MaxReminders < 0 {
			c.errorf(path+".params.max_reminders", "max_reminders cannot be negative; 0 reminds nobody")
		}
	}
}

// task judges what an entry runs, which may be said under either key, or alike under both.
func (c *checker) task(path string, j *Job, names map[string]int) {
	at := path + ".name"
	if c.Bad[at] || c.Bad[path+".task"] {
		return
	}
	switch named, tasked := c.Said[at], c.Said[path+".task"]; {
	case named && tasked && j.Task != j.Name:
		c.errorf(path+".task", "name and task say the same thing in two ways, and here they differ: %q and %q; keep one",
			j.Name, j.Task)
		return
	case tasked && !named:
		at, j.Name = path+".task", j.Task
	case !named:
		at = path
	}
	switch {
	case slices.Contains(heartbeat.Tasks(), j.Name):
		c.unique(at, "entry", j.Name, names)
		c.params(path, j)
	case at == path:
		c.errorf(at, "this entry needs the task that it runs; write name: %s", heartbeat.CheckPendingApprovals)
	default:
		near := yamlpos.DidYouMean(j.Name, heartbeat.Tasks())
		c.errorf(at, "unknown heartbeat task %q%s", j.Name, cmp.Or(near, "; there are "+strings.Join(heartbeat.Tasks(),
			", ")))
	}
}

// params takes settings for reminders from an entry that reminds nobody, and reports those that were said.
func (c *checker) params(path string, j *Job) {
	if j.Name == heartbeat.CheckPendingApprovals {
		return
	}
	j.Params = JobParams{}
	for _, key := range []string{"remind_after", "max_reminders"} {
		if at := path + ".params." + key; c.Said[at] {
			c.errorf(at, "%s is of %s; %s reminds nobody", key, heartbeat.CheckPendingApprovals, j.Name)
		}
	}
}

// badSchedule says what is wrong with a cron schedule, "" if nothing is.
func badSchedule(s string, now time.Time) string {
	const form = `is not five cron fields such as "*/5 * * * *", nor @hourly, @daily or @every 5m`
	// The cron parser panics on a zone without a schedule.
	if strings.HasPrefix(s, "TZ=") || strings.HasPrefix(s, "CRON_TZ=") {
		if !strings.Contains(s, " ") {
			return form
		}
	}
	schedule, err := cron.ParseStandard(s)
	if err != nil {
		return form
	}
	if schedule.Next(now).IsZero() {
		return "never comes"
	}
	return ""
}

func (c *checker) notifications() {
	n := c.cfg.Notifications
	if n.MaxRetries < 0 || n.MaxRetries > 100 {
		c.errorf("$.notifications.max_retries", "max_retries must be from 0 to 100")
	}
	if n.FirstRetry <= 0 {
		c.errorf("$.notifications.first_retry", "first_retry must be longer than zero, such as 10s")
	}
	if n.MaxBackoff < n.FirstRetry {
		c.errorf("$.notifications.max_backoff", "max_backoff cannot be shorter than first_retry (%s)", n.FirstRetry)
	}
}

// policy reads and compiles the policy, and returns whether it asks people at all.
func (c *checker) policy(root *yamlpos.Node) bool {
	if c.Bad["$"] {
		return false
	}
	var agents []string
	for _, a := range c.cfg.File.Agents {
		agents = append(agents, a.Name)
	}
	var servers []string
	for _, s := range c.cfg.MCP.Servers {
		servers = append(servers, s.Name)
	}
	agents = append(agents, "local") // who comes over the socket without a token
	c.cfg.PolicyConfig = policy.Read(root)
	c.cfg.PolicyConfig.GateFiles = c.gateFiles()
	c.rules(&c.cfg.PolicyConfig)
	compiled, problems := policy.Compile(c.cfg.PolicyConfig, policy.Options{Agents: agents, Servers: servers,
		People: c.deciders(), Owner: c.cfg.owner, Reached: c.hasWay(), NoPasskeys: c.cfg.NoPasskeys(),
		Languages: locale.Tags()})
	c.cfg.Policy = compiled
	for _, p := range problems {
		if at := (yamlpos.Position{Line: p.Line, Column: p.Column}); at.Line == 0 || !c.reported[at] {
			c.problems = append(c.problems, Problem{File: c.name, Line: p.Line, Column: p.Column,
				Message: p.Message, Warning: p.Warning, Source: p.Source, Caret: p.Caret})
		}
	}
	if compiled != nil && compiled.Guard() != nil { // which a preset may have brought
		return c.cfg.PolicyConfig.Mode != policy.Observe
	}
	return quarantines(c.cfg.PolicyConfig)
}

// gateFiles are the gate's own files, as far as they are known from here.
func (c *checker) gateFiles() []string {
	var files []string
	names := append([]string{c.name, EnvPath(c.name), c.cfg.StorePath, c.cfg.Socket, c.cfg.Keep.Export, c.cfg.Backups.Dir},
		c.cfg.Files...)
	for _, pair := range []*listener.Pair{c.cfg.TLS, c.cfg.WebhookTLS, c.cfg.PagesTLS} {
		if pair != nil {
			names = append(names, pair.Key)
		}
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		if whole, err := filepath.Abs(name); err == nil { // a name alone would be found anywhere
			files = append(files, filepath.ToSlash(whole))
		}
	}
	return files
}

// quarantines reports whether a call can come to people under the policy as written, its presets aside: a call that no
// rule concerns does, unless a rule is for all that is left.
func quarantines(cfg policy.Config) bool {
	if cfg.Mode == policy.Observe {
		return false
	}
	if len(cfg.Guard) > 0 {
		return true
	}
	for _, r := range cfg.Rules {
		calls := len(r.Methods) == 0 || slices.Contains(r.Methods, "*") || slices.Contains(r.Methods, "tools/call")
		action := r.Action
		if action == "" {
			action = cfg.Levels[r.Risk].Action
		}
		if action == "" && r.Risk == approval.RiskLow {
			action = approval.Allow
		}
		if action == "" || action == approval.Quarantine {
			return true
		}
		if calls && r.When == "" && len(r.Conditions) == 0 && len(r.Agents) == 0 &&
			(len(r.Tools) == 0 || slices.Contains(r.Tools, "*")) {
			return false
		}
	}
	return true
}

// reachable warns of requests that no person would see, where the policy asks people.
func (c *checker) reachable() {
	if len(c.cfg.Routes()) == 0 {
		c.warnf("$.channels", "the policy asks people, but no channel has a recipient, so nobody is notified; use "+
			"`countersign inbox`, or set up LINE or Slack")
	}
	decides := func(p Person) bool { return p.has(roleApprover) && c.canDecide(p) }
	if len(c.cfg.Channels) == 0 && !slices.ContainsFunc(c.cfg.File.People, decides) {
		c.warnf("$.people", "nobody with the role approver can decide, so every request will expire; "+
			"give one a token or an address")
	}
}
