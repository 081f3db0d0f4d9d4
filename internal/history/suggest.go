package history

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"countersign/approval"
)

// Suggestion is a rule that would have asked people less often, with what speaks for it.
type Suggestion struct {
	Tool   string
	Where  string // what of the tool's calls it is for: `under /srv/reports/`, "" for all
	Part   Part   // the same, as data
	Agents []string
	Risk   approval.Risk // the highest of the calls

	// Asked is how many such calls people were asked about. None was denied, and none expired without an answer.
	Asked, Approved, Denied, Expired int
	Fewer                            int      // cards that people would have been spared
	Rules                            []string // that asked
	Effect                           string   // what the rule does, in a sentence
	Does                             Does     // the same, as data
	Vary                             []string // arguments that may differ in what is approved for longer
	Caution                          string   // what else is to be known before it is taken
	YAML                             string   // one entry of a policy's rules
}

// Does is what a suggested rule does.
type Does string

const (
	DoesAllow     Does = "allow"      // calls with exactly such arguments run without asking
	DoesAllowBare Does = "allow_bare" // so do calls without any
	DoesGrant     Does = "grant"      // people are still asked, and may approve for longer
	DoesShare     Does = "share"      // people are still asked, and the calls of a run share a card
)

// Part says which of a tool's calls a suggestion is for; the zero Part: all of them.
type Part struct {
	Bare   bool     // those without arguments
	Arg    string   // those in which this argument
	Folder string   // is a path under this folder, or
	Values []string // is one of these, each as JSON
}

// String is the part in words.
func (p Part) String() string {
	switch {
	case p.Bare:
		return "without arguments"
	case p.Folder != "" && p.Arg != "path" && p.Arg != "file_path":
		return p.Arg + " under " + p.Folder + "/"
	case p.Folder != "":
		return "under " + p.Folder + "/"
	case len(p.Values) > 0:
		return p.Arg + " " + strings.Join(p.Values, " or ")
	}
	return ""
}

// Suggested is what [Suggest] found.
type Suggested struct {
	Calls int // that people were asked about
	// Suggestions, tool by tool, those first that would have spared people the most; of one tool the narrowest first.
	Suggestions []Suggestion
	// Critical are tools of which people approved whatever was asked at critical risk: no rule should change that.
	Critical []string
	// Unknown are the tools that no rule was for, those first that were called most often.
	Unknown []UnknownTool
}

const (
	minAsked    = 5  // so many calls speak for a rule, at least
	maxValues   = 5  // so many values of an arg are a small set
	maxSeen     = 50 // so many values of one arg are told apart
	maxKeys     = 20 // a call with more args is not for a rule
	maxValueLen = 100
	maxDigits   = 30
	minDepth    = 2 // of a folder: /srv/reports, and not /srv
	maxFolders  = 12
	maxGroups   = 20000
	maxWindows  = 1000
	maxCards    = 5000
	maxNamed    = 4  // agents that a rule names
	maxCombined = 50 // combinations of values are told apart

	grantLasts = 8 * time.Hour
	runLasts   = 30 * time.Minute
)

// Suggest proposes rules out of what people decided; records are the requests on record, the newest first.
func Suggest(ctx context.Context, records iter.Seq2[Record, error]) (Suggested, error) {
	s, unknown := suggester{tools: map[string]*toolRecord{}}, unknowns{}
	for r, err := range records {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Suggested{}, err
		}
		s.add(r)
		unknown.add(r)
	}
	out := Suggested{Calls: s.calls, Unknown: unknown.list()}
	for _, name := range slices.Sorted(maps.Keys(s.tools)) {
		t := s.tools[name]
		if t.whole.speaks() && t.whole.risk == approval.RiskCritical {
			out.Critical = append(out.Critical, name)
		}
		out.Suggestions = append(out.Suggestions, t.suggest()...)
	}
	most := map[string]int{}
	for _, x := range out.Suggestions {
		most[x.Tool] = max(most[x.Tool], x.Fewer)
	}
	slices.SortStableFunc(out.Suggestions, func(a, b Suggestion) int { return cmp.Compare(most[b.Tool], most[a.Tool]) })
	return out, nil
}

// suggester is a suggestion that is being made: all calls of a tool, and those of some of its folders and values.
type suggester struct {
	tools  map[string]*toolRecord
	calls  int
	groups int
}

type toolRecord struct {
	server, tool string
	whole        *evidence
	folders      map[part]*evidence
	values       map[part]*evidence
	seen         map[string]int // how many values of an arg are told apart
}

// part is which of a tool's calls: those with a value of an arg, or with a path under a folder.
type part struct{ arg, value string }

func (s *suggester) add(r Record) {
	if r.Was.action() != NowAsk || r.Was == WasPending || r.Was == WasGranted ||
		r.Method != "" { // rules are drafted for tools
		return
	}
	s.calls++
	t := s.tools[r.Target()]
	if t == nil {
		if len(s.tools) >= maxNames {
			return
		}
		t = &toolRecord{server: r.Server, tool: r.Tool, whole: newEvidence(), folders: map[part]*evidence{},
			values: map[part]*evidence{}, seen: map[string]int{}}
		s.tools[r.Target()] = t
	}
	c := newCalled(r)
	t.whole.add(&c)
	for arg, raw := range c.args {
		if text, ok := asText(raw); ok && strings.HasPrefix(text, "/") {
			if against := r.Was == WasDenied || r.Was == WasExpired; against || plainPath(text) {
				for _, folder := range folders(text) {
					s.count(t.folders, part{arg, folder}, &c)
				}
			}
		} else if ok, p := asValue(raw), (part{arg, raw}); ok && (t.values[p] != nil || t.seen[arg] < maxSeen) {
			if t.values[p] == nil {
				t.seen[arg]++
			}
			s.count(t.values, p, &c)
		}
	}
}

// count adds a call to the evidence for a part. What there is no room for from the first is never proposed.
func (s *suggester) count(parts map[part]*evidence, p part, c *called) {
	if parts[p] == nil {
		if s.groups >= maxGroups {
			return
		}
		s.groups++
		parts[p] = newEvidence()
	}
	parts[p].add(c)
}

// called is a record with its args, each as JSON.
type called struct {
	Record
	args map[string]string
	all  string // of them
	odd  bool   // its args are not such as a rule could be made of
}

func newCalled(r Record) called {
	c := called{Record: r, args: map[string]string{}}
	var raw map[string]json.RawMessage
	if json.Unmarshal(r.Args, &raw) != nil || raw == nil || len(raw) > maxKeys {
		c.odd = true
		return c
	}
	folded := map[string]bool{}
	for name, value := range raw {
		if folded[strings.ToLower(name)] || !plainName.MatchString(name) {
			c.odd = true
		}
		folded[strings.ToLower(name)] = true
		c.args[name] = string(value)
	}
	for _, name := range slices.Sorted(maps.Keys(c.args)) {
		c.all += name + ":" + c.args[name] + "\n"
	}
	return c
}

// plainName is what the name of an arg is made of that a rule can name.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func asText(raw string) (string, bool) {
	var s string
	if !strings.HasPrefix(raw, `"`) || json.Unmarshal([]byte(raw), &s) != nil {
		return "", false
	}
	return s, true
}

// asValue reports whether a value can stand in a rule: a short text, a plain number, true or false.
func asValue(raw string) bool {
	if raw == "true" || raw == "false" {
		return true
	}
	if raw == "" || len(raw) > maxValueLen {
		return false
	}
	text, ok := asText(raw)
	return ok && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 || asNumber(raw) != nil
}

// asNumber returns a number that is written without an exponent, nil for anything else.
func asNumber(raw string) *big.Rat {
	if len(raw) > maxDigits || strings.Trim(raw, "-.0123456789") != "" {
		return nil
	}
	n, ok := new(big.Rat).SetString(raw)
	if !ok {
		return nil
	}
	return n
}

// folders returns those that a path is in, the widest of them, and of these the narrowest first. A path that does not
// say by itself where it lies speaks for none. It speaks against those that it is in once it is cleaned.
func folders(p string) []string {
	var all []string
	for dir := path.Dir(path.Clean(p)); strings.Count(dir, "/") >= minDepth; dir = path.Dir(dir) {
		all = append(all, dir)
	}
	return all[max(0, len(all)-maxFolders):]
}

// plainPath reports whether a path lies where it reads: absolute, in whole segments, without "..", and without whatever
// some tool may read in another way. It is narrower than what `under` places.
func plainPath(p string) bool {
	if path.Clean(p) != p || !strings.HasPrefix(p, "/") || p == "/" {
		return false
	}
	for _, segment := range strings.Split(p[1:], "/") {
		if strings.Trim(segment, plainLetters) != "" || strings.Trim(segment, " ") != segment ||
			strings.HasSuffix(segment, ".") || strings.Contains(segment, "..") {
			return false
		}
	}
	for _, other := range []string{"/proc", "/dev", "/sys", "/.vol", "/System/Volumes"} {
		if p == other || strings.HasPrefix(p, other+"/") {
			return false
		}
	}
	return true
}

const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+@,= "

// evidence is what people said of some calls of a tool.
type evidence struct {
	asked, approved, denied, expired int
	risk                             approval.Risk
	unfit                            bool // of one of them no rule can be made
	agents, rules                    map[string]bool
	args                             map[string]*argValues
	combined                         map[string]bool // the values of all args together, at most maxCombined of them
	single                           int             // calls that stood on a card of their own
	cards                            map[string]bool
	grants, runs                     windows
}

// argValues are the values of an arg in some calls.
type argValues struct {
	calls   int
	values  map[string]bool // at most maxValues of them
	many    bool            // there are more
	largest *big.Rat        // where all are numbers from 0
	number  string          // that, as written
	not     bool            // there are others than such numbers
	paths   bool            // all are plain paths
}

func newEvidence() *evidence {
	return &evidence{cards: map[string]bool{}, agents: map[string]bool{}, rules: map[string]bool{},
		args: map[string]*argValues{}, combined: map[string]bool{},
		grants: windows{lasts: grantLasts}, runs: windows{lasts: runLasts, most: approval.MaxCard}}
}

// add counts a call.
func (e *evidence) add(c *called) {
	e.asked++
	switch c.Was {
	case WasApproved:
		e.approved++
	case WasDenied:
		e.denied++
	case WasExpired:
		e.expired++
	}
	if e.risk == "" || c.Risk.Rank() > e.risk.Rank() {
		e.risk = c.Risk
	}
	e.unfit = e.unfit || c.odd || c.Needs || len(e.args) > maxKeys
	addName(e.agents, c.Agent)
	addName(e.rules, c.Rule)
	if c.Card == "" {
		e.single++
	} else if len(e.cards) < maxCards {
		e.cards[c.Card] = true
	}
	e.grants.add(c.Agent+"\x00"+c.Scope, c.At)
	e.runs.add(c.Agent+"\x00"+c.Scope+"\x00"+c.Session, c.At)
	if len(e.combined) < maxCombined {
		e.combined[c.all] = true
	}
	for name, raw := range c.args {
		a := e.args[name]
		if a == nil {
			if len(e.args) > maxKeys {
				continue
			}
			a = &argValues{values: map[string]bool{}, paths: true}
			e.args[name] = a
		}
		a.add(raw)
	}
}

func addName(names map[string]bool, name string) {
	if len(names) <= maxNamed {
		names[name] = true
	}
}

func (a *argValues) add(raw string) {
	a.calls++
	switch {
	case a.values[raw]:
		return
	case len(a.values) >= maxValues || !asValue(raw):
		a.many = true
	default:
		a.values[raw] = true
	}
	text, ok := asText(raw)
	a.paths = a.paths && ok && plainPath(text)
	n := asNumber(raw)
	if n == nil || n.Sign() < 0 {
		a.not = true
	} else if a.largest == nil || n.Cmp(a.largest) > 0 {
		a.largest, a.number = n, raw
	}
}

// cardCount is how many cards they stood on.
func (e *evidence) cardCount() int { return e.single + len(e.cards) }

// speaks reports whether it speaks for a rule.
func (e *evidence) speaks() bool {
	return e.approved >= minAsked && e.denied == 0 && e.expired == 0 && !e.unfit
}

// varying are the args that were not the same in all calls.
func (e *evidence) varying() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(e.args)) {
		if a := e.args[name]; a.many || len(a.values) > 1 || a.calls != e.asked {
			names = append(names, name)
		}
	}
	return names
}

// isComplete reports whether all args were there in all calls, each with few values, and these in every combination: of
// one that no person approved nothing is known.
func (e *evidence) isComplete() bool {
	product := 1
	for _, a := range e.args {
		if a.many || a.calls != e.asked {
			return false
		}
		if product *= len(a.values); product > maxCombined {
			return false
		}
	}
	return len(e.combined) >= product
}

// windows counts spans of time, each of which begins with a call of a kind and has room for so many. Calls come newest
// first.
type windows struct {
	lasts time.Duration
	most  int
	open  map[string]window
	n     int
}

type window struct {
	last  time.Time
	calls int
}

func (w *windows) add(kind string, at time.Time) {
	if o, ok := w.open[kind]; ok && o.last.Sub(at) < w.lasts && (w.most == 0 || o.calls < w.most) {
		o.calls++
		w.open[kind] = o
		return
	}
	if w.open == nil || len(w.open) >= maxWindows {
		w.open = map[string]window{}
	}
	w.open[kind] = window{at, 1}
	w.n++
}

// suggest returns what speaks for rules about a tool, the narrowest first. Nothing is said of critical calls.
func (t *toolRecord) suggest() []Suggestion {
	var all []Suggestion
	drafted := map[string]bool{}
	add := func(of Part, e *evidence, rule func(e *evidence) draft) bool {
		if !e.speaks() || e.risk == approval.RiskCritical {
			return false
		}
		d := rule(e)
		if d.fewer <= 0 {
			return false
		}
		if says := strings.Join(d.lines, "\n"); !drafted[says] {
			drafted[says] = true
			all = append(all, t.suggestion(of, e, d))
		}
		return true
	}
	covered := 0
	for _, p := range t.sets() {
		if e := t.merge(p); add(setPart(p), e, func(e *evidence) draft { return t.few(p, e) }) {
			covered = max(covered, e.asked)
		}
	}
	taken := map[part]int{}
	for _, p := range t.byDepth() {
		e := t.folders[p]
		if e.asked-below(taken, p) < minAsked || !e.args[p.arg].paths {
			continue
		}
		if add(Part{Arg: p.arg, Folder: p.value}, e, func(e *evidence) draft { return t.under(p, e) }) {
			taken[p] = e.asked
			covered = max(covered, e.asked)
		}
	}
	if len(t.whole.args) == 0 {
		add(Part{Bare: true}, t.whole, t.bare)
	} else if 2*covered < t.whole.asked {
		add(Part{}, t.whole, t.run)
	}
	return all
}

// below is how many calls are in what was proposed for the widest folders in a folder.
func below(taken map[part]int, p part) int {
	n := 0
	for in, asked := range taken {
		if in.arg != p.arg || !strings.HasPrefix(in.value, p.value+"/") {
			continue
		}
		widest := true
		for other := range taken {
			widest = widest && (other.arg != p.arg || !strings.HasPrefix(other.value, p.value+"/") ||
				!strings.HasPrefix(in.value, other.value+"/"))
		}
		if widest {
			n += asked
		}
	}
	return n
}

// byDepth are the folders, the deepest first.
func (t *toolRecord) byDepth() []part {
	return slices.SortedFunc(maps.Keys(t.folders), func(a, b part) int {
		return cmp.Or(cmp.Compare(strings.Count(b.value, "/"), strings.Count(a.value, "/")),
			cmp.Compare(t.folders[b].asked, t.folders[a].asked), cmp.Compare(a.arg, b.arg), cmp.Compare(a.value, b.value))
	})
}

// sets are, for each arg, the few of its values that people approved most often and nothing speaks against.
func (t *toolRecord) sets() [][]part {
	byArg := map[string][]part{}
	for p, e := range t.values {
		if e.approved > 1 && e.denied == 0 && e.expired == 0 && !e.unfit {
			byArg[p.arg] = append(byArg[p.arg], p)
		}
	}
	var all [][]part
	for _, arg := range slices.Sorted(maps.Keys(byArg)) {
		ps := byArg[arg]
		slices.SortFunc(ps, func(a, b part) int {
			return cmp.Or(cmp.Compare(t.values[b].approved, t.values[a].approved), cmp.Compare(a.value, b.value))
		})
		ps = ps[:min(len(ps), maxValues)]
		slices.SortFunc(ps, func(a, b part) int { return cmp.Compare(a.value, b.value) })
		all = append(all, ps)
	}
	return all
}

// merge returns the evidence for any of some values of an arg.
func (t *toolRecord) merge(ps []part) *evidence {
	sum := newEvidence()
	for _, p := range ps {
		e := t.values[p]
		sum.asked, sum.approved = sum.asked+e.asked, sum.approved+e.approved
		sum.denied, sum.expired = sum.denied+e.denied, sum.expired+e.expired
		sum.single += e.single
		maps.Copy(sum.cards, e.cards)
		sum.grants.n += e.grants.n
		sum.unfit = sum.unfit || e.unfit
		maps.Copy(sum.combined, e.combined)
		if sum.risk == "" || e.risk.Rank() > sum.risk.Rank() {
			sum.risk = e.risk
		}
		for name := range e.agents {
			addName(sum.agents, name)
		}
		for name := range e.rules {
			addName(sum.rules, name)
		}
		for name, a := range e.args {
			if sum.args[name] == nil {
				sum.args[name] = &argValues{values: map[string]bool{}, paths: true}
			}
			sum.args[name].merge(a)
		}
	}
	return sum
}

func (a *argValues) merge(o *argValues) {
	a.calls += o.calls
	for v := range o.values {
		if len(a.values) < maxValues || a.values[v] {
			a.values[v] = true
		} else {
			a.many = true
		}
	}
	a.many, a.not, a.paths = a.many || o.many, a.not || o.not, a.paths && o.paths
	if o.largest != nil && (a.largest == nil || o.largest.Cmp(a.largest) > 0) {
		a.largest, a.number = o.largest, o.number
	}
}

// setPart is the calls with one of some values of an arg.
func setPart(ps []part) Part {
	of := Part{Arg: ps[0].arg}
	for _, p := range ps {
		of.Values = append(of.Values, p.value)
	}
	return of
}
