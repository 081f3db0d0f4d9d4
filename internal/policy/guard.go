package policy

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"countersign/approval"
)

// GuardGateFiles, under guard in a policy, guards the gate's own files and the settings of the agents' hooks:
// after the rules have decided, a call that names any of them is at least quarantined, at critical risk. It is
// a floor: whatever the rules say that is stricter stays.
const GuardGateFiles = "gate_files"

// OldGuardName is what `countersign install` called the rule that it wrote before there was a guard. Such a
// rule is read as the guard.
const OldGuardName = "the gate's files and the agents' settings"

const codeGateFiles = "gate_files"

// guardRule stands for the guard where a rule is named.
const guardRule = "guard: " + GuardGateFiles

// agentFolders are the folders in which agents keep their settings.
var agentFolders = []string{".claude", ".codex", ".gemini"}

// guardTexts are the arguments that hold what is to be written or said: a text about guarded files touches none.
// Every other argument may be a path or a command line, whatever it is called.
var guardTexts = []string{"content", "contents", "file_text", "insert_text", "new_source", "new_str", "new_string",
	"old_str", "old_string",
	"body", "comment", "description", "message", "plan", "prompt"}

// How much of a call is looked at closely, in bytes: of one text with a guarded name in it or in the working
// directory, and of all such texts. What is more counts as touching what is guarded.
const (
	maxExact  = 20_000
	maxSearch = 200_000
)

// driveRE is what comes before the root of a path on Windows.
var driveRE = regexp.MustCompile(`^[A-Za-z]:`)

// guardInside stands for what may come between a folder and a file in it, in a path or in a command that goes
// there first.
const guardInside = `[^\w.-](.*[^\w.-])?`

// guard is a compiled guard.
type guard struct {
	entries []string // as written; none where only an earlier install's rule stands for it
	files   []string // that it is of
	hints   []string // folded; one of them is in whatever exact matches
	plain   bool     // the hints look the same in JSON
	exact   *regexp.Regexp
	old     []*program // the expressions of rules that an earlier install wrote

	timeout       time.Duration
	requireReason bool
	need          *approval.Need
	origin        Origin
}

// oldGuard reports whether a rule is one that an earlier install wrote, and that still does the same.
func (r *Rule) oldGuard() bool {
	return r.Name == OldGuardName && r.ReasonCode == codeGateFiles && r.Action == approval.Quarantine &&
		r.Risk == approval.RiskCritical &&
		r.When != "" && len(r.Methods)+len(r.Tools)+len(r.Agents)+len(r.Conditions)+len(r.IgnoreArgs) == 0 &&
		r.Timeout == 0 && r.RequireReason == nil && r.firstKey() == "" && r.Asks == Asks{} && r.Grants == nil &&
		r.Annotations == nil
}

// OldGuards are where the rules stand that an earlier `countersign install` wrote, which are read as the guard.
func (c *Config) OldGuards() []Origin {
	var at []Origin
	for i := range c.Rules {
		if c.Rules[i].oldGuard() {
			at = append(at, c.Rules[i].Origin)
		}
	}
	return at
}

// SameButGuard reports whether two policies as written say the same beside their guards, wherever it stands.
func (c Config) SameButGuard(d Config) bool {
	rest := func(c Config) Config {
		out := c
		out.Guard, out.GateFiles, out.Rules, out.root, out.at, out.problems, out.written = nil, nil, nil, "", nil, nil, nil
		for _, r := range c.Rules {
			if !r.oldGuard() {
				r.Origin, r.written, r.nameWritten = Origin{}, nil, ""
				out.Rules = append(out.Rules, r)
			}
		}
		return out
	}
	return reflect.DeepEqual(rest(c), rest(d))
}

// guard compiles what is under guard, and the rules that are read as it; nil for none of both.
func (c *compiler) guard() *guard {
	cfg := c.cfg
	g := &guard{
		entries: slices.Clone(cfg.Guard),
		origin:  Origin{Path: cfg.root + ".guard", Position: cfg.at[cfg.root+".guard"]},
	}
	folders := c.guardEntries(g)
	c.oldGuards(g)
	if len(cfg.Guard) == 0 && len(g.old) == 0 {
		return nil
	}
	for _, f := range cfg.GateFiles {
		if !slices.Contains(g.files, f) {
			g.files = append(g.files, f)
		}
	}
	g.compile(folders)
	critical := cfg.level(approval.RiskCritical)
	g.timeout, g.requireReason, g.need = critical.Timeout, deref(critical.RequireReason), critical.need()
	return g
}

// guardEntries reads what is written under guard: files go to g, folders with an agent's settings are returned.
func (c *compiler) guardEntries(g *guard) (folders []string) {
	cfg := c.cfg
	for i, name := range cfg.Guard {
		where := fmt.Sprintf("guard[%d]", i)
		folder := strings.HasSuffix(name, "/")
		switch at, ok := cleanPath(driveRE.ReplaceAllString(name, "")); {
		case slices.Contains(cfg.Guard[:i], name):
			c.fail(Origin{}, where, "%q is listed twice; remove one", name)
		case name == GuardGateFiles:
		case !ok || at == "/":
			c.fail(Origin{}, where, "guard must be %s, and after it absolute paths to guard too: of files, or with / at the "+
				"end of folders with an agent's settings%s",
				GuardGateFiles, didYouMean(name, []string{GuardGateFiles}, nil))
		case folder:
			folders = append(folders, at)
		default:
			g.files = append(g.files, at)
		}
	}
	if len(cfg.Guard) > 0 && !slices.Contains(cfg.Guard, GuardGateFiles) {
		c.fail(Origin{}, "guard", "guard must list %s too", GuardGateFiles)
	}
	return folders
}

// oldGuards adds to g the rules that an earlier install wrote, and warns of those that were changed since.
func (c *compiler) oldGuards(g *guard) {
	cfg := c.cfg
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		if r.Name == OldGuardName && !r.oldGuard() && r.Action != approval.Deny && !r.unread {
			c.warn(r.Origin, "", "this rule is of an earlier `countersign install`, but was changed: it decides as any rule "+
				"does, also where a later one denies; "+
				"delete it and write `guard: "+GuardGateFiles+"` under policy")
		}
		if !r.oldGuard() {
			continue
		}
		at := r.Origin
		if at.Path == "" {
			at.Path = fmt.Sprintf("%s.rules[%d]", cfg.root, i)
		}
		p, problems := compileWhen(r.When)
		for _, problem := range problems {
			if !problem.warning {
				c.fail(at, "when", "%s", problem.message)
			}
		}
		if p != nil {
			g.old = append(g.old, p)
		}
		write := "write `guard: " + GuardGateFiles + "` under policy in its place"
		if len(cfg.Guard) > 0 {
			write = "the guard is there already"
		} else if len(g.old) == 1 {
			g.origin = at
		}
		c.warn(at, "", "this rule is of an earlier `countersign install` and is read as the guard of the gate's files, "+
			"whatever rules stand before it: "+
			"delete it, and %s (`countersign install` does both)", write)
	}
}

// compile makes patterns that find, in the working directory and an argument, whatever names what is guarded.
func (g *guard) compile(folders []string) {
	var ps []string
	add := func(to *[]string, p string) {
		if !slices.Contains(*to, p) {
			*to = append(*to, p)
		}
	}
	hint := func(name string) { add(&g.hints, guardFold(name)) }
	hint("countersign")
	for _, f := range g.files {
		f = strings.ReplaceAll(f, `\`, "/")
		base, dir := path.Base(f), path.Base(path.Dir(f))
		if strings.Contains(guardFold(base), "countersign") { // nobody else's
			add(&ps, regexp.QuoteMeta(base))
			continue
		}
		hint(base)
		if dir == "." || dir == "/" {
			add(&ps, `(^|[^\w.-])`+regexp.QuoteMeta(base))
		} else {
			add(&ps, regexp.QuoteMeta(dir)+guardInside+regexp.QuoteMeta(base))
		}
	}
	var settings []string
	for _, folder := range append(slices.Clone(agentFolders), folders...) {
		hint(path.Base(folder))
		add(&settings, regexp.QuoteMeta(path.Base(folder)))
	}
	// The folder as a whole, or the files in it that count.
	add(&ps, `(`+strings.Join(settings, "|")+`)(([/\\]\.?)*([^\w./\\-]|$)|`+guardInside+`(settings|hooks|config))`)
	hint(".mcp.json")
	add(&ps, `\.(claude|mcp)\.json`)
	add(&ps, `countersign\S?\s+(un)?install`)
	add(&ps, `countersign(\.exe)?["']?\s+(backup|restore)\b`) // they copy and replace the database, whatever it is called
	g.logins(func(p string) { add(&ps, p) })
	hint(".config")
	g.exact = regexp.MustCompile(`(?is)` + strings.Join(ps, "|"))
	g.plain = !slices.ContainsFunc(g.hints, func(h string) bool {
		return strings.ContainsFunc(h, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == '%' })
	})
}

// peoplesCommands are those that act with a person's token, which may be stored: `countersign login`.
const peoplesCommands = `login|logout|inbox|pending|approve|deny|extend|revoke|lift|freeze|unfreeze|delegate|` +
	`undelegate|notifications|retry|audit|open`

// logins adds patterns for the tokens that people's command lines keep in .config/countersign/logins, of whichever
// user and gate: for the files, for folders that hold them taken as a whole or by a wildcard, and for the commands that
// would use them.
func (*guard) logins(add func(pattern string)) {
	const (
		under = `([/\\]\.?)+`
		whole = `([/\\]\.?)*([^\w./\\-]|$)`
		home  = `(~\w*|\$\{?home\}?|/root|[/\\](home|users)[/\\][^/\\\s]+)`
	)
	add(`countersign-login`)
	add(`countersign` + guardInside + `logins`)
	add(`(\.config|application support|appdata[/\\](roaming|local))` + under + `countersign` + whole)
	add(`[^\w.-]\.config` + under + `[\w.-]*[*?\[{]`)
	add(home + under + `\.config` + whole)
	add(`^(/root|/(home|users)/[^/]+)/+([^/]*[\s'"=])?\.config` + whole) // of a command that runs in a home
	add(`countersign(\.exe)?["']?\s+(` + peoplesCommands + `)\b`)
}

// guardFold makes texts comparable whatever their letter case, as the patterns do.
func guardFold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "ſ", "s") }

// hasHint reports whether a text may name what is guarded.
func (g *guard) hasHint(s string) bool {
	s = guardFold(s)
	return slices.ContainsFunc(g.hints, func(h string) bool { return strings.Contains(s, h) })
}

// guards reports whether the guard looks at calls of a method.
func guards(method string) bool {
	return method == toolsCall || strings.HasPrefix(method, "resources/")
}

// findGuardedArg says which argument of a call names what is guarded.
func (g *guard) findGuardedArg(e *evaluation) (where string, ok bool) {
	if g == nil || !guards(methodOf(e.call)) {
		return "", false
	}
	canonical := string(e.call.Args.Canonical())
	if !g.plain || strings.IndexByte(canonical, '%') >= 0 || g.hasHint(canonical) || g.hasHint(e.call.Scope) {
		args, err := e.call.Args.Decode()
		if err != nil {
			return "args", true
		}
		s := &search{guard: g, scope: folder{path: e.call.Scope + "/", hinted: g.hasHint(e.call.Scope)}, left: maxSearch}
		if where, ok := s.walk(args, "args", false); ok {
			return where, true
		}
	}
	if methodOf(e.call) != toolsCall {
		return "", false
	}
	for _, p := range g.old {
		if ok, err := p.holds(e); ok || err != nil { // what it cannot judge it does not pass
			return "args", true
		}
	}
	return "", false
}

// search looks through the arguments of one call.
type search struct {
	*guard
	scope folder
	left  int // how much more may be looked at closely
}

// folder is what a text may be a path from.
type folder struct {
	path   string // with a slash at its end
	hinted bool   // it may itself name what is guarded
}

// walk looks through a value; said is whether it is what an argument says, not what it is about.
func (s *search) walk(v any, where string, said bool) (string, bool) {
	switch v := v.(type) {
	case string:
		return where, !said && v != "" && s.names(s.scope, v)
	case []any:
		for i, inner := range v {
			if at, ok := s.walk(inner, fmt.Sprintf("%s[%d]", where, i), said); ok {
				return at, true
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			at := where + "." + k
			if strings.ContainsAny(k, `/\.`) && s.names(folder{path: "/"}, k) { // a key that is a path
				return at, true
			}
			if at, ok := s.walk(v[k], at, slices.Contains(guardTexts, k)); ok {
				return at, true
			}
		}
	}
	return "", false
}

// names reports whether a text in a folder names what is guarded, also one that is written as in a URL.
func (s *search) names(in folder, text string) bool {
	match := func(text string) bool {
		if !in.hinted && !s.hasHint(text) {
			return false
		}
		s.left -= len(in.path) + len(text)
		return len(text) > maxExact || s.left < 0 || s.exact.MatchString(in.path+text)
	}
	return match(text) || strings.IndexByte(text, '%') >= 0 && match(unescape(text))
}

// unescape returns a text with what is written as %2e in place; a % that begins nothing stays.
func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if hi, lo := unhex(s[i+1]), unhex(s[i+2]); hi >= 0 && lo >= 0 {
				b = append(b, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// guardSays is what people and models are told of a call that the guard stopped.
const guardSays = "touches the gate's own files or the settings of an agent's hooks"

// applyGuard returns what is left of a verdict when the guard has had its say: nothing that the rules ask for is
// taken away. where is the argument that names what is guarded, "" if none does.
func (p *Policy) applyGuard(v approval.Verdict, e *evaluation) (_ approval.Verdict, where string) {
	if p.guard == nil || v.Action == approval.Deny {
		return v, ""
	}
	where, ok := p.guard.findGuardedArg(e)
	if !ok {
		return v, ""
	}
	g := p.guard
	if v.Action == approval.Allow {
		v.Action, v.Rule, v.Message, v.Timeout, v.RequireReason = approval.Quarantine, guardRule, "{toolName} "+guardSays,
			g.timeout, g.requireReason
		v.Need = g.need
	} else {
		v.Timeout = min(v.Timeout, g.timeout)
		v.RequireReason = v.RequireReason || g.requireReason
		v.Need = v.Need.Stricter(g.need)
		v.Message = strings.TrimSuffix(v.Message, ".") + "; it " + guardSays
	}
	v.Sentences = v.Sentences.WithoutMessage()
	v.Risk, v.ReasonCode, v.Grants = approval.RiskCritical, codeGateFiles, nil
	// What is approved is all that may touch a guarded file. The instruction of Gemini's replace is looked at, and is
	// another on every try: without this no approval of such an edit could be used. The one that was shown runs.
	v.IgnoreArgs = slices.DeleteFunc(slices.Clone(v.IgnoreArgs),
		func(name string) bool { return name != "instruction" && !slices.Contains(guardTexts, name) })
	if len(v.IgnoreArgs) == 0 {
		v.IgnoreArgs = nil
	}
	return v, where
}

// GuardInfo is a guard as data.
type GuardInfo struct {
	Guard         []string        `json:"guard"` // as written
	Files         []string        `json:"files"` // of the gate
	Action        approval.Action `json:"action"`
	Risk          approval.Risk   `json:"risk_level"`
	Timeout       string          `json:"timeout"`
	RequireReason bool            `json:"require_reason"`
	ReasonCode    string          `json:"reason_code"`
	NeedInfo

	Path   string `json:"path,omitempty"` // where it is written
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// GuardStep is what the guard said of a call.
type GuardStep struct {
	GuardInfo
	Touched string `json:"touched,omitempty"` // the argument that names what is guarded
	Decides bool   `json:"decides"`           // the verdict is stricter by it
}

// Guard returns the guard, nil where there is none.
func (p *Policy) Guard() *GuardInfo {
	g := p.guard
	if g == nil {
		return nil
	}
	info := &GuardInfo{
		Guard: g.entries, Files: append([]string{}, g.files...), Action: approval.Quarantine, Risk: approval.RiskCritical,
		Timeout: spell(g.timeout), RequireReason: g.requireReason, ReasonCode: codeGateFiles,
		NeedInfo: needInfo(g.need), Path: g.origin.Path, Line: g.origin.Line, Column: g.origin.Column,
	}
	if len(info.Guard) == 0 {
		info.Guard = []string{GuardGateFiles}
	}
	return info
}
