package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"countersign/approval"
	"countersign/channels/kind"
	"countersign/internal/loopback"
	"countersign/internal/policy"
	"countersign/internal/secret"
	"countersign/internal/yamlpos"
)

// MCP says which MCP servers the gate stands in front of.
type MCP struct {
	// Hold is how long a quarantined call may wait for its decision before the answer is "pending"; 0: not at all.
	Hold    time.Duration `yaml:"hold" json:"hold"`
	Servers []Server      `yaml:"servers,omitempty" json:"servers,omitempty"`
}

// Server is one MCP server: a program that is started, or an address. A command, an address, headers and
// the environment may each hold a secret, and so are secrets.
type Server struct {
	Name    string         `yaml:"name" json:"name"`
	Command []secret.Value `yaml:"command,omitempty" json:"command,omitempty"`
	// beside what is ordinary of the gate's own
	Env     map[string]secret.Value `yaml:"env,omitempty" json:"env,omitempty"`
	Dir     string                  `yaml:"dir,omitempty" json:"dir,omitempty"` // "": the gate's own
	URL     secret.Value            `yaml:"url,omitempty" json:"url,omitempty"`
	Headers map[string]secret.Value `yaml:"headers,omitempty" json:"headers,omitempty"`
	// Tools are the tools that are offered; none: all.
	Tools []string `yaml:"tools,omitempty" also:"toolNames" json:"tools,omitempty"`
	// RequireApproval are the tools that people are asked about, "*" for all. It is made into rules of the policy.
	RequireApproval []string `yaml:"require_approval,omitempty" also:"requireApproval" json:"require_approval,omitempty"`
	// RequireMethods are the MCP methods, beside tool calls, that people are asked about; * is a wildcard.
	RequireMethods []string          `yaml:"require_methods,omitempty" json:"require_methods,omitempty"`
	Prompt         string            `yaml:"prompt,omitempty" json:"prompt,omitempty"`   // the message of those rules
	Prompts        map[string]string `yaml:"prompts,omitempty" json:"prompts,omitempty"` // by tool, before Prompt
	// Prefix stands before the tools' names, and two underscores between; nil: the server's name.
	Prefix *string `yaml:"prefix,omitempty" json:"prefix,omitempty"`
	// Timeout is how long an answer is waited for.
	Timeout time.Duration `yaml:"timeout" json:"timeout"`
	// MaskResults masks the secrets in what the server returns before agents read it.
	MaskResults bool `yaml:"mask_results,omitempty" json:"mask_results,omitempty"`
	// StartTimeout is how long the first answer after a start, or a connection, is waited for.
	StartTimeout time.Duration `yaml:"start_timeout" json:"start_timeout"`
}

// What holds where mcp says nothing, and the most that it may say.
const (
	defaultHold         = 45 * time.Second
	defaultTimeout      = 5 * time.Minute
	defaultStartTimeout = 30 * time.Second
	maxHold             = 10 * time.Minute
	maxTimeout          = time.Hour
	maxServerName       = 32
	maxOffered          = 64 // characters; clients refuse longer names of tools
	maxSocket           = 100
)

// between stands between a server's prefix and the name of a tool.
const between = "__"

// reserved is the prefix of the gate's own tools.
const reserved = "countersign"

// all stands for every tool in require_approval.
const all = "*"

func (s *Server) SetDefaults() { s.Timeout, s.StartTimeout = defaultTimeout, defaultStartTimeout }

// Argv returns the command and its arguments.
func (s Server) Argv() []string {
	argv := make([]string, len(s.Command))
	for i, a := range s.Command {
		argv[i] = a.Reveal()
	}
	return argv
}

// ordinary are the variables that programs need to run at all: who and where they are, how people want
// their text, and how the network is reached.
var ordinary = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
}

// Environ returns the environment of the server's program: what is ordinary in the gate's own, and Env.
// The rest of the gate's own holds its secrets, which are no server's business.
func (s Server) Environ(own []string) []string {
	env := []string{}
	for _, v := range own {
		name, _, _ := strings.Cut(v, "=")
		if _, set := s.Env[name]; set {
			continue
		}
		name = strings.ToUpper(name)
		if slices.Contains(ordinary, name) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_") {
			env = append(env, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, name+"="+s.Env[name].Reveal())
	}
	return env
}

// ToolPrefix returns what the tools' names begin with; "" for the names as they are.
func (s Server) ToolPrefix() string {
	switch {
	case s.Prefix == nil:
		return s.Name + between
	case *s.Prefix == "":
		return ""
	}
	return *s.Prefix + between
}

// OfferedName returns the name under which clients see a tool of the server.
func (s Server) OfferedName(tool string) string { return s.ToolPrefix() + tool }

func (s Server) offers(tool string) bool { return len(s.Tools) == 0 || slices.Contains(s.Tools, tool) }

// asksAll reports whether people are asked about every tool.
func (s Server) asksAll() bool { return slices.Contains(s.RequireApproval, all) }

// AgentKeyboard returns the person who sits at the keyboard of an agent, "" where that is not known.
func (c *Config) AgentKeyboard(agent string) string {
	for _, a := range c.File.Agents {
		if a.Name == agent {
			return a.Keyboard
		}
	}
	return ""
}

func (c *checker) mcp() {
	m := &c.cfg.MCP
	if m.Hold < 0 || m.Hold > maxHold {
		c.errorf("$.mcp.hold", "hold must be from 0 to %s", plain(maxHold))
	}
	names, prefixes := map[string]int{}, map[string]int{}
	offered := map[string]owner{}
	for i := range m.Servers {
		path := fmt.Sprintf("$.mcp.servers[%d]", i)
		if c.Bad[path] {
			continue
		}
		s, before := serverCheck{c, &m.Servers[i], path}, len(c.problems)
		s.checkName(names, prefixes)
		s.checkReach()
		s.checkTools(offered)
		s.checkMethods()
		s.checkPrompts()
		s.checkTimeouts()
		if len(c.problems) == before && !c.spoiledBelow(path) {
			c.sound = append(c.sound, i)
		}
	}
}

// serverCheck is what the section of an MCP server is checked with.
type serverCheck struct {
	*checker
	*Server
	path string
}

func (s *serverCheck) checkTimeouts() {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"timeout", s.Timeout}, {"start_timeout", s.StartTimeout}} {
		if d.d <= 0 || d.d > maxTimeout {
			s.errorf(s.path+"."+d.name, "%s must be longer than zero and at most %s", d.name, plain(maxTimeout))
		}
	}
}

// plain writes whole hours and minutes without their zeros.
func plain(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var serverNames = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// badPrefix says what keeps a name from standing before tools, "" if nothing does. With an underscore at
// its end, or two within, it would not be clear where it ends.
func badPrefix(s string) string {
	switch {
	case !serverNames.MatchString(s):
		return fmt.Sprintf("is 1 to %d characters out of A-Z a-z 0-9 _ and -: the names of tools begin with it",
			maxServerName)
	case strings.Contains(s, between) || strings.HasSuffix(s, "_"):
		return "has no two underscores in a row and none at its end: two of them stand between it and a tool's name"
	case strings.EqualFold(s, reserved):
		return "is not " + reserved + ": the gate's own tools are called so"
	}
	return ""
}

func (s *serverCheck) checkName(names, prefixes map[string]int) {
	at, key := s.path+".prefix", "prefix"
	if s.Prefix == nil {
		at, key = s.path+".name", "name"
	}
	switch bad := badPrefix(s.Name); {
	case s.Name == "":
		s.errorf(s.path+".name", "a server needs a name")
		return
	case bad != "":
		s.errorf(s.path+".name", "a server's name %s", bad)
		return
	}
	s.unique(s.path+".name", "server", s.Name, names)
	if key == "prefix" && *s.Prefix != "" {
		if bad := badPrefix(*s.Prefix); bad != "" {
			s.errorf(at, "a prefix %s; or it is empty", bad)
			return
		}
	}
	prefix := s.ToolPrefix()
	place := s.place(at)
	first, dup := prefixes[strings.ToLower(prefix)]
	switch {
	case !dup:
		prefixes[strings.ToLower(prefix)] = place.Line
	case prefix == "":
		s.errorf(at, "the server at line %d has the empty prefix already; only one can", first)
	case key == "prefix" || names[strings.ToLower(s.Name)] == place.Line:
		s.errorf(at, "the tools of the server at line %d begin with this %s already (letter case does not count)", first, key)
	}
}

// checkReach checks how a server is reached.
func (s *serverCheck) checkReach() {
	command, address := s.Said[s.path+".command"], s.Said[s.path+".url"]
	switch {
	case command && address:
		s.errorf(s.path+".url", "a server has either command or url; keep one of them")
		return
	case !command && !address:
		s.errorf(s.path, "a server needs a command, such as [npx, -y, some-server], or a url")
		return
	}
	only := func(key, with string) {
		if s.Said[s.path+"."+key] {
			s.errorf(s.path+"."+key, "%s is for servers with a %s", key, with)
		}
	}
	if address {
		only("env", "command")
		only("dir", "command")
		s.checkURL()
		s.checkHeaders()
		return
	}
	only("headers", "url")
	if argv := s.Argv(); !s.Bad[s.path+".command"] {
		if len(argv) == 0 || strings.TrimSpace(argv[0]) == "" {
			s.errorf(s.path+".command", "command must name a program: [npx, -y, some-server]")
		}
		for i, a := range argv {
			if strings.ContainsRune(a, 0) {
				s.errorf(fmt.Sprintf("%s.command[%d]", s.path, i), "an argument cannot hold a NUL character")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if at := s.path + ".env." + name; !yamlpos.VariableName(name) {
			s.errorf(at, "a variable's name must be letters, digits and _, and must not begin with a digit")
		} else if strings.ContainsRune(s.Env[name].Reveal(), 0) {
			s.errorf(at, "a variable cannot hold a NUL character")
		}
	}
	if s.Said[s.path+".dir"] && (strings.TrimSpace(s.Dir) == "" || strings.ContainsRune(s.Dir, 0)) {
		s.errorf(s.path+".dir", "dir must be a folder")
	}
}

func (s *serverCheck) checkURL() {
	u, err := url.Parse(s.URL.Reveal())
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		s.errorf(s.path+".url", "url must be an address such as https://tickets.example/mcp")
	case u.User != nil:
		s.errorf(s.path+".url", "url must not hold a name or a password; put them into headers")
	case strings.Contains(s.URL.Reveal(), "#"):
		s.errorf(s.path+".url", "url must not hold a #")
	case u.Scheme == "http" && len(s.Headers) > 0 && !loopback.IsHost(u.Hostname()):
		s.warnf(s.path+".url", "the headers go to the server %s unencrypted; use https", s.Name)
	}
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// ourHeaders are those that the gate writes itself, or that belong to one connection.
func ourHeaders(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "content-") || strings.HasPrefix(name, "mcp-") || slices.Contains([]string{
		"host", "accept", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "last-event-id",
	}, name)
}

func (s *serverCheck) checkHeaders() {
	seen := map[string]bool{}
	for _, name := range slices.SortedFunc(maps.Keys(s.Headers), func(a, b string) int {
		x, y := s.place(s.path+".headers."+a), s.place(s.path+".headers."+b)
		return 2*sign(x.Line-y.Line) + sign(x.Column-y.Column)
	}) {
		at := s.path + ".headers." + name
		value := s.Headers[name].Reveal()
		switch {
		case !headerName.MatchString(name):
			s.errorf(at, "the name of a header has no spaces and is not empty")
		case ourHeaders(name):
			s.errorf(at, "the gate sets the header %s itself; remove it", name)
		case seen[strings.ToLower(name)]:
			s.errorf(at, "the header %s is there twice (letter case does not count)", name)
		case strings.TrimSpace(value) != value || value == "" && !s.Bad[at] ||
			strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			s.errorf(at, "a header's value must be visible ASCII characters, without spaces around it")
		case strings.EqualFold(name, "Authorization") && credentialsSlip(value) != "":
			s.errorf(at, "what is sent as %s %s", name, credentialsSlip(value))
		}
		seen[strings.ToLower(name)] = true
	}
}

// credentialsSlip is [secret.FindSlip] of what an Authorization header has behind its first word, such as Bearer.
func credentialsSlip(value string) string {
	if scheme, after, ok := strings.Cut(value, " "); ok && !strings.ContainsAny(scheme, `"'`) {
		value = after
	}
	return secret.FindSlip(secret.Value(value))
}

func sign(n int) int { return max(-1, min(1, n)) }

// checkTools checks what a server offers and what people are asked about.
func (s *serverCheck) checkTools(offered map[string]owner) {
	if s.Said[s.path+".tools"] && len(s.Tools) == 0 && !s.Bad[s.path+".tools"] {
		s.errorf(s.path+".tools", "with an empty list nothing is offered; leave tools out to offer all")
	}
	seen := map[string]bool{}
	for i, t := range s.Tools {
		at := fmt.Sprintf("%s.tools[%d]", s.path, i)
		name := s.OfferedName(t)
		first, dup := offered[name]
		switch {
		case !approval.ValidName(t):
			s.errorf(at, "tools holds exact names of tools, of A-Z a-z 0-9 _ . : and -")
		case seen[t]:
			s.errorf(at, "%s is listed twice; remove one", t)
		case s.reportLong(at, t):
		case dup:
			s.errorf(at, "%s offers a tool as %s already, at line %d", first.who, name, first.line)
		case strings.HasPrefix(strings.ToLower(name), reserved+between):
			s.errorf(at, "names that begin with %s belong to the gate", reserved+between)
		default:
			offered[name] = owner{s.Name, s.place(at).Line}
		}
		seen[t] = true
	}
	if s.Said[s.path+".require_approval"] && len(s.RequireApproval) == 0 && !s.Bad[s.path+".require_approval"] {
		s.errorf(s.path+".require_approval",
			`with an empty list all tools would run unasked; leave require_approval out, write "*" for all, or a rule that allows`) //nolint:lll // one literal
	}
	clear(seen)
	for i, t := range s.RequireApproval {
		at := fmt.Sprintf("%s.require_approval[%d]", s.path, i)
		switch {
		case t == all && len(s.RequireApproval) > 1:
			s.errorf(at, `"*" is every tool already; leave the others out`)
		case t == all:
		case !approval.ValidName(t):
			s.errorf(at, `require_approval holds exact names of tools, or "*" alone for all`)
		case seen[t]:
			s.errorf(at, "%s is listed twice; remove one", t)
		case !s.offers(t):
			s.errorf(at, "%s is not among tools, so it is not offered%s", t, yamlpos.DidYouMean(t, s.Tools))
		default:
			s.reportLong(at, t)
		}
		seen[t] = true
	}
}

// checkMethods checks which other methods than tool calls people are asked about.
func (s *serverCheck) checkMethods() {
	if s.Said[s.path+".require_methods"] && len(s.RequireMethods) == 0 && !s.Bad[s.path+".require_methods"] {
		s.errorf(s.path+".require_methods",
			`with an empty list nobody is asked about anything; leave it out, or write "*" for all methods`)
	}
	seen := map[string]bool{}
	for i, m := range s.RequireMethods {
		at := fmt.Sprintf("%s.require_methods[%d]", s.path, i)
		switch {
		case seen[m]:
			s.errorf(at, "%s is listed twice; remove one", m)
		case strings.HasPrefix(m, "tools/"):
			s.errorf(at, "tools are named in require_approval; require_methods is for %s",
				strings.Join(policy.KnownMethods(), ", "))
		case len(matching(m)) == 0:
			s.errorf(at, "%q is not a method that people can be asked about; use one of %s%s", m,
				strings.Join(policy.KnownMethods(), ", "), yamlpos.DidYouMean(m, policy.KnownMethods()))
		}
		seen[m] = true
	}
}

// matching are the methods that a pattern of require_methods names.
func matching(pattern string) []string {
	return slices.DeleteFunc(policy.KnownMethods(), func(m string) bool { return !policy.Matches(pattern, m) })
}

// warnUnasked warns of servers of which all tools are asked about, and yet something runs unasked.
func (c *checker) warnUnasked() {
	for _, i := range c.sound {
		s := &c.cfg.MCP.Servers[i]
		if !s.asksAll() || len(s.RequireMethods) > 0 || c.cfg.Policy == nil {
			continue
		}
		var run []string
		for _, m := range policy.KnownMethods() {
			if (strings.HasPrefix(m, "resources/") || strings.HasPrefix(m, "prompts/") || strings.HasPrefix(m, "completion/")) &&
				m != "resources/unsubscribe" && !c.cfg.Policy.Covers(m, s.Name) {
				run = append(run, m)
			}
		}
		if len(run) > 0 {
			c.warnf(fmt.Sprintf("$.mcp.servers[%d].require_approval", i),
				`"*" is every tool of %s; calls of %s run unasked: to be asked about them too write require_methods: [%[2]s]; `+
					`if they may run, a rule says so: {method: [%[2]s], tools: ["%[1]s/*"], action: allow}`, s.Name,
				strings.Join(run, ", "))
		}
	}
}

// reportLong reports a tool whose offered name clients would refuse, once.
func (s *serverCheck) reportLong(at, tool string) bool {
	name := s.OfferedName(tool)
	if len(name) <= maxOffered {
		return false
	}
	if strings.Contains(at, ".tools[") || len(s.Tools) == 0 {
		s.errorf(at, "%s has %d characters; clients take at most %d, so give the server a shorter prefix", name, len(name),
			maxOffered)
	}
	return true
}

func (s *serverCheck) checkPrompts() {
	if s.Prompt = fold(s.Prompt); s.Prompt == "" && s.Said[s.path+".prompt"] {
		s.errorf(s.path+".prompt", "an empty prompt has no meaning here; leave it out")
	}
	for tool, p := range s.Prompts {
		at := s.path + ".prompts." + tool
		s.Prompts[tool] = fold(p)
		switch {
		case !approval.ValidName(tool):
			s.errorf(at, "prompts has exact names of tools before the texts")
		case !s.offers(tool):
			s.errorf(at, "%s is not among tools, so it is not offered%s", tool, yamlpos.DidYouMean(tool, s.Tools))
		case s.RequireApproval != nil && !s.asksAll() && !slices.Contains(s.RequireApproval, tool):
			s.errorf(at, "nobody is asked about %s: it is not in require_approval", tool)
		case fold(p) == "":
			s.errorf(at, "an empty prompt has no meaning here; leave it out")
		default:
			s.reportLong(at, tool)
		}
	}
}

// fold makes one line of a text.
func fold(s string) string { return strings.Join(strings.Fields(s), " ") }

// rules appends to the policy, after all of its own rules, what the servers' require_approval and
// prompts mean.
func (c *checker) rules(cfg *policy.Config) {
	for _, i := range c.sound {
		s := &c.cfg.MCP.Servers[i]
		path := fmt.Sprintf("$.mcp.servers[%d]", i)
		origin := func(key string) policy.Origin {
			at := c.place(path + "." + key)
			return policy.Origin{Path: path + "." + key, Position: at}
		}
		add := func(key string, r policy.Rule) {
			r.Name, r.Origin = "mcp.servers."+s.Name+"."+key, origin(key)
			cfg.Rules = append(cfg.Rules, r)
		}
		of := func(tools ...string) []string {
			out := make([]string, len(tools))
			for i, t := range tools {
				out[i] = s.Name + "/" + t
			}
			return out
		}
		asked := s.RequireApproval
		if asked == nil && s.Prompt != "" || s.asksAll() {
			if asked = []string{all}; len(s.Tools) > 0 {
				asked = s.Tools
			}
		}
		for _, t := range slices.Sorted(maps.Keys(s.Prompts)) {
			add("prompts."+t, policy.Rule{Tools: of(t), Action: approval.Quarantine, Message: s.Prompts[t]})
		}
		asked = slices.DeleteFunc(slices.Clone(asked), func(t string) bool { return s.Prompts[t] != "" })
		if len(asked) > 0 {
			key := "require_approval"
			if s.RequireApproval == nil {
				key = "prompt"
			}
			at := c.place(path + ".prompt")
			cfg.Place(path+"."+key+".message", at)
			add(key, policy.Rule{Tools: of(asked...), Action: approval.Quarantine, Message: s.Prompt})
		}
		var methods []string
		for _, m := range s.RequireMethods {
			methods = append(methods, slices.DeleteFunc(matching(m),
				func(m string) bool { return slices.Contains(methods, m) })...)
		}
		if len(methods) > 0 {
			add("require_methods", policy.Rule{Methods: methods, Tools: of(all), Action: approval.Quarantine})
		}
		if s.RequireApproval == nil || s.asksAll() {
			continue
		}
		free := []string{all}
		if len(s.Tools) > 0 {
			free = slices.DeleteFunc(slices.Clone(s.Tools), func(t string) bool { return slices.Contains(s.RequireApproval, t) })
		}
		if len(free) > 0 {
			r := policy.Rule{Name: "mcp.servers." + s.Name + ".others", Tools: of(free...), Action: approval.Allow,
				Origin: origin("require_approval")}
			cfg.Rules = append(cfg.Rules, r)
		}
	}
}

// anonymous checks who is let in without a token: every client whose request comes in, so nothing from
// outside may come in where such requests do.
func (c *checker) anonymous() {
	name := c.cfg.AnonymousAgent
	if !c.Said["$.anonymous_agent"] {
		return
	}
	const key = "$.anonymous_agent"
	known := make([]string, len(c.cfg.File.Agents))
	for i, a := range c.cfg.File.Agents {
		known[i] = a.Name
	}
	if !slices.Contains(known, name) {
		if !yamlpos.MayRepeat(name) { // a token, perhaps
			c.errorf(key, "anonymous_agent must be the name of an agent")
		} else {
			c.errorf(key, "there is no agent %q%s", name, yamlpos.DidYouMean(name, known))
		}
		return
	}
	if host, _, err := net.SplitHostPort(c.cfg.Listen); err == nil && !loopback.IsHost(host) {
		c.errorf(key, "anonymous_agent lets in everybody who reaches listen, so listen must be an address of this machine "+
			"alone, such as %s", DefaultListen)
	}
	posted := func(k kind.Kind) bool { return k.Posted(c.cfg.Channels[k.Name]) }
	if c.cfg.WebhookListen == "" && slices.ContainsFunc(c.cfg.kinds, posted) {
		c.errorf(key, "anonymous_agent lets in whoever reaches listen, and the platforms' webhooks come in there; give "+
			"them webhook_listen")
	}
}

func (c *checker) socket() {
	s := c.cfg.Socket
	switch {
	case !c.Said["$.socket"]:
	case strings.TrimSpace(s) == "" || strings.ContainsRune(s, 0) || strings.HasSuffix(s, "/"):
		c.errorf("$.socket", "socket must be the path of a file, such as /run/countersign/gate.sock")
	case len(s) > maxSocket:
		c.errorf("$.socket", "the path of socket has %d bytes; systems take at most %d", len(s), maxSocket)
	case c.cfg.StorePath != "" && filepath.Clean(s) == filepath.Clean(c.cfg.StorePath):
		c.errorf("$.socket", "socket is the file of store")
	}
}

// keyboards checks who sits at agents' keyboards.
func (c *checker) keyboards() {
	for i, a := range c.cfg.File.Agents {
		at := fmt.Sprintf("$.agents[%d].keyboard", i)
		if !c.Said[at] {
			continue
		}
		j := slices.IndexFunc(c.cfg.File.People, func(p Person) bool { return p.Name == a.Keyboard })
		var known []string
		for _, p := range c.cfg.File.People {
			known = append(known, p.Name)
		}
		switch {
		case j < 0 && !yamlpos.MayRepeat(a.Keyboard): // a token, perhaps
			c.errorf(at, "keyboard must be the name of a person")
		case j < 0:
			c.errorf(at, "nobody in people is called %q%s", a.Keyboard, yamlpos.DidYouMean(a.Keyboard, known))
		case !c.cfg.File.People[j].has(roleApprover):
			c.errorf(at, "%s does not have the role approver, so cannot decide; add it to that person", a.Keyboard)
		case c.cfg.Policy != nil && len(c.cfg.Policy.Terms().Elicitation) == 0:
			c.warnf(at, "%s can decide nothing at the keyboard; set elicitation: true on a risk level", a.Keyboard)
		}
	}
}
