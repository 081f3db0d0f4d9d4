package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/legible"
)

// A tool may take the key Path for path: encoding/json does, by Unicode's simple folding, and many others do.
// So where rules read a key and the arguments have one that differs from it in letter case alone, there are
// several readings of the call: the arguments as they are, and for each such key its value under the name
// that the rules read. The call gets the strictest verdict of all of them, and it is never allowed.

// maxReadings is how many readings of a call are tried, and maxReadingBytes how long they may be together;
// the first two are always tried. What has more is denied.
const (
	maxReadings     = 32
	maxReadingBytes = 2 << 20
)

// site is a key of one object of a call that rules read, and what is there that could be meant.
type site struct {
	path   string   // of the object
	folded string   // the key
	reads  []string // as rules spell it
	has    []string // as the object spells it
}

// stray reports whether a reader of those names may miss what is there.
func (s *site) stray() bool {
	return len(s.has) > 1 || !slices.Contains(s.reads, s.has[0])
}

// finder looks up keys in decoded arguments as a tool may that does not mind letter case.
type finder struct {
	sites map[string]*site
	order []*site
}

func (f *finder) find(v any, path string, l look) {
	switch {
	case l.deep:
		f.deep(v, path, l.steps[0].name)
	case l.param != "":
		f.findDotted(v, path, l.param, l.steps)
	default:
		f.steps(v, path, l.steps)
	}
}

// key notes that a key of an object is read, and returns the spellings that the object has of it.
func (f *finder) key(object map[string]any, path, name string) []string {
	var has []string
	for k := range object {
		if strings.EqualFold(k, name) {
			has = append(has, k)
		}
	}
	if len(has) == 0 {
		return nil
	}
	slices.Sort(has)
	folded := string(appendFold(nil, []byte(name)))
	at := path + "\x00\x00" + folded
	s := f.sites[at]
	if s == nil {
		s = &site{path: path, folded: folded, has: has}
		f.sites[at] = s
		f.order = append(f.order, s)
	}
	if !slices.Contains(s.reads, name) {
		s.reads = append(s.reads, name)
	}
	return has
}

func below(path, key string) string { return path + "\x00" + strconv.Quote(key) }

func (f *finder) steps(v any, path string, steps []step) {
	if len(steps) == 0 {
		return
	}
	if steps[0].each {
		each(v, path, func(inner any, path string) { f.steps(inner, path, steps[1:]) })
		return
	}
	if object, ok := v.(map[string]any); ok {
		for _, k := range f.key(object, path, steps[0].name) {
			f.steps(object[k], below(path, k), steps[1:])
		}
	}
}

// findDotted follows a param as [args.Args.LookupAll] does.
func (f *finder) findDotted(v any, path, rest string, then []step) {
	switch v := v.(type) {
	case map[string]any:
		for end := 0; end < len(rest); end++ {
			next := strings.IndexByte(rest[end:], '.')
			if next < 0 {
				next = len(rest) - end
			}
			end += next
			for _, k := range f.key(v, path, rest[:end]) {
				if end == len(rest) {
					f.steps(v[k], below(path, k), then)
				} else {
					f.findDotted(v[k], below(path, k), rest[end+1:], then)
				}
			}
		}
	case []any:
		index, rest, more := strings.Cut(rest, ".")
		n, err := strconv.ParseUint(index, 10, 31)
		if err != nil || len(index) > 1 && index[0] == '0' || n >= uint64(len(v)) {
			return
		}
		if path = below(path, index); more {
			f.findDotted(v[n], path, rest, then)
		} else {
			f.steps(v[n], path, then)
		}
	}
}

func (f *finder) deep(v any, path, name string) {
	if object, ok := v.(map[string]any); ok {
		f.key(object, path, name)
	}
	each(v, path, func(inner any, path string) { f.deep(inner, path, name) })
}

// each visits the elements of a list or the members of an object, in order.
func each(v any, path string, visit func(any, string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			visit(v[k], below(path, k))
		}
	case []any:
		for i, inner := range v {
			visit(inner, below(path, strconv.Itoa(i)))
		}
	}
}

// choice is one way to read a site: the value of one of the keys that are there, under these names alone.
type choice struct {
	key   string
	names []string
}

// choices are all ways to read a site: each value under each name that the rules read, for rules that compare
// the object as a whole, and under all of them, for rules of which one reads this and one that.
func (s *site) choices() []choice {
	var all []choice
	for _, k := range s.has {
		for i := range s.reads {
			all = append(all, choice{k, s.reads[i : i+1]})
		}
		if len(s.reads) > 1 {
			all = append(all, choice{k, s.reads})
		}
	}
	return all
}

// read returns a reading of v.
func read(v any, path string, sites map[string][]*site, chosen map[*site]choice) any {
	switch v := v.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for k, inner := range v {
			object[k] = read(inner, below(path, k), sites, chosen)
		}
		for _, s := range sites[path] {
			value := object[chosen[s].key]
			for _, name := range s.has {
				delete(object, name)
			}
			for _, name := range chosen[s].names {
				object[name] = value
			}
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = read(inner, below(path, strconv.Itoa(i)), sites, chosen)
		}
		return list
	}
	return v
}

// readings calls try for each reading but the arguments as they are, until it returns false. It reports
// false where there are too many.
func readings(sent args.Args, decoded map[string]any, sites []*site, try func(args.Args) bool) bool {
	most := min(maxReadings, max(2, maxReadingBytes/max(1, len(sent.Canonical()))))
	n := 1
	choices := make([][]choice, len(sites))
	byPath := map[string][]*site{}
	for i, s := range sites {
		choices[i] = s.choices()
		if n *= len(choices[i]); n >= most {
			return false
		}
		byPath[s.path] = append(byPath[s.path], s)
	}
	chosen := map[*site]choice{}
	for i := range n {
		for j, s := range sites {
			chosen[s], i = choices[j][i%len(choices[j])], i/len(choices[j])
		}
		text, err := json.Marshal(read(decoded, "", byPath, chosen))
		if err != nil {
			return false
		}
		reading, err := args.Parse(text)
		if err != nil {
			return false
		}
		if !try(reading) {
			return true
		}
	}
	return true
}

// decided is how one reading of a call was decided.
type decided struct {
	rules   []*rule // whose word counts; the last decided
	at      int     // its position among those asked; their number where none matched
	param   string  // whose path cannot be placed, where that made a difference
	verdict approval.Verdict
}

func (d *decided) rule() *rule { return d.rules[len(d.rules)-1] }

// first asks rules about one reading of a call. A rule that matches only because a path cannot be placed may
// match or not: it counts, and so does what decides if it does not, unless it denies anyway.
func (p *Policy) first(e *evaluation, rules []*rule, method string) decided {
	d := decided{at: len(rules)}
	var verdicts []approval.Verdict
	end := func(r *rule, v approval.Verdict) decided {
		d.rules = append(d.rules, r)
		if v.Action == approval.Deny || len(verdicts) == 0 {
			d.verdict = v
			return d
		}
		if v.Action == approval.Quarantine {
			verdicts = append(verdicts, v)
		}
		d.verdict = strictest(verdicts)
		return d
	}
	for i, r := range rules {
		matched, err := r.match(e)
		switch {
		case err != nil:
			d.at = i
			return end(r, p.errorVerdict(r, err))
		case matched && e.unplaced != "" && r.action != approval.Deny:
			d.rules = append(d.rules, r)
			verdicts = append(verdicts, p.verdict(r, e))
			if d.param == "" {
				d.param = e.unplaced
			}
		case matched:
			d.at = i
			return end(r, p.verdict(r, e))
		}
	}
	e.unplaced = ""
	r := p.fallback(method)
	return end(r, p.verdict(r, e))
}

// strictest returns the first of the highest risk among verdicts that quarantine, with all that any of them
// asks for.
func strictest(verdicts []approval.Verdict) approval.Verdict {
	v := verdicts[0]
	for _, w := range verdicts[1:] {
		if w.Risk.Rank() > v.Risk.Rank() {
			v = w
		}
	}
	if len(verdicts) > 1 {
		v.Grants, v.Diff = nil, nil // whose would be meant
	}
	for _, w := range verdicts {
		v.Timeout = min(v.Timeout, w.Timeout)
		v.RequireReason = v.RequireReason || w.RequireReason
		v.Strict = v.Strict || w.Strict
		v.Need = v.Need.Stricter(w.Need)
		v.IgnoreArgs = slices.DeleteFunc(slices.Clone(v.IgnoreArgs),
			func(name string) bool { return !slices.Contains(w.IgnoreArgs, name) })
	}
	if len(v.IgnoreArgs) == 0 {
		v.IgnoreArgs = nil
	}
	return v
}

// unreadable is the verdict on arguments that cannot be judged.
func (p *Policy) unreadable(e *evaluation, message string) approval.Verdict {
	e.unplaced = ""
	v := p.verdict(&p.otherwise, e)
	v.Action, v.ReasonCode, v.Message, v.Need, v.Grants = approval.Deny, codeAmbiguousArgs, message, nil, nil
	v.Sentences, v.Diff = nil, nil
	return v
}

// evaluateSlowly is [Policy.Evaluate] for calls whose arguments can be read in more than one way. why is told
// where the verdict is not the word of one rule.
func (p *Policy) evaluateSlowly(e *evaluation, set ruleSet, method string) (v approval.Verdict, why string) {
	var rules []*rule
	for i := set.next(0); i >= 0; i = set.next(i + 1) {
		if r := &p.rules[i]; r.concerns(e.call.Agent) && r.matchesAnnotations(e.call.Annotations) {
			rules = append(rules, r)
			if r.unconditional() {
				break
			}
		}
	}
	if e.call.Args.Ambiguous() || p.suspects(e) {
		return p.evaluateReadings(e, rules, method)
	}
	d := p.first(e, rules, method)
	return d.verdict, d.explainUnplaced()
}

// explainUnplaced says why a path that cannot be placed changed the verdict, "" if it did not.
func (d *decided) explainUnplaced() string {
	switch {
	case d.param == "" || len(d.rules) == 1:
		return ""
	case d.verdict.ReasonCode == codeAmbiguousPath:
		return fmt.Sprintf("no rule can allow a path that cannot be placed (%s)", d.param)
	}
	return fmt.Sprintf("%s cannot be placed: what is strictest of the rules that it may concern holds", d.param)
}

// evaluateReadings judges a call whose keys differ in letter case alone, from one another or from what rules
// may read.
func (p *Policy) evaluateReadings(e *evaluation, rules []*rule, method string) (v approval.Verdict, why string) {
	plain := p.first(e, rules, method)
	if plain.verdict.Action == approval.Deny {
		return plain.verdict, plain.explainUnplaced()
	}
	decoded, err := e.call.Args.Decode()
	if err != nil {
		return p.unreadable(e, "The arguments of "+e.call.Target()+" cannot be decoded."), ""
	}
	missed, sites := keysInDoubt(rules, decoded)
	t := tried{found: []decided{plain}, last: plain.at}
	if slices.ContainsFunc(missed, func(s *site) bool { return s != nil }) {
		within := readings(e.call.Args, decoded, sites, func(reading args.Args) bool {
			c := *e.call
			c.Args = reading
			return t.add(p.first(&evaluation{ctx: e.ctx, call: &c, names: p.names}, rules, method))
		})
		if t.denied != nil {
			return t.denied.verdict, fmt.Sprintf("so %s decides if the tool does not mind the letter case of names (%s)",
				t.denied.rule().nameInWords(), strconv.Quote(sites[0].reads[0]))
		}
		if !within {
			return p.unreadable(e, "Too many names in the arguments of "+e.call.Target()+
				" differ only in letter case from what rules read."), "there are too many readings of the arguments"
		}
	}
	strict := t.rules()
	var stray *site
	var reader *rule
	for i, s := range missed[:min(t.last+1, len(rules))] {
		if s != nil {
			strict = append(strict, rules[i])
			if stray == nil {
				stray, reader = s, rules[i]
			}
		}
	}
	if stray == nil && !e.call.Args.Ambiguous() {
		return plain.verdict, plain.explainUnplaced()
	}
	v = plain.tightest(strict)
	v.Sentences = v.Sentences.WithoutMessage()
	if e.call.Args.Ambiguous() {
		v.Message = "Names in the arguments of " + e.call.Target() +
			" differ only in letter case, so a person must approve it."
		return v, "no rule can allow arguments whose names differ only in letter case"
	}
	name := strconv.Quote(stray.reads[0])
	v.Message = "A name in the arguments of " + e.call.Target() + " differs only in letter case from " + name +
		", which a rule reads, so a person must approve it."
	return v, fmt.Sprintf("no rule can allow arguments that have %s where %s reads %s",
		legible.Line(strconv.Quote(stray.has[0])), reader.nameInWords(), name)
}

// keysInDoubt finds in decoded arguments, by rule, the first key that it may miss, nil where there is none; and
// all keys that can be read in more than one way.
func keysInDoubt(rules []*rule, decoded any) (missed, sites []*site) {
	all := finder{sites: map[string]*site{}}
	missed = make([]*site, len(rules))
	for i, r := range rules {
		own := finder{sites: map[string]*site{}}
		for _, l := range r.looks {
			own.find(decoded, "", l)
			all.find(decoded, "", l)
		}
		if at := slices.IndexFunc(own.order, (*site).stray); at >= 0 {
			missed[i] = own.order[at]
		}
	}
	for _, s := range all.order {
		// What one rule reads exactly, another may read by another name.
		if s.stray() || len(s.reads) > 1 {
			sites = append(sites, s)
		}
	}
	return missed, sites
}

// tried is how the readings of a call were decided.
type tried struct {
	found  []decided // the arguments as they are first
	last   int       // the furthest place of a rule that decided one of them
	denied *decided  // nil: none was
}

// add notes how one more reading was decided, and reports whether the next is to be tried.
func (t *tried) add(d decided) bool {
	t.last = max(t.last, d.at)
	t.found = append(t.found, d)
	if d.verdict.Action == approval.Deny {
		t.denied = &d
	}
	return t.denied == nil
}

// rules are those whose word counts in any of the readings.
func (t *tried) rules() []*rule {
	var all []*rule
	for _, d := range t.found {
		all = append(all, d.rules...)
	}
	return all
}

// tightest returns the verdict with a person to be asked, as strictly as any of the rules asks.
func (d *decided) tightest(strict []*rule) approval.Verdict {
	v, decider := d.verdict, d.rule()
	v.Action, v.ReasonCode = approval.Quarantine, codeAmbiguousArgs
	v.Grants, v.Diff = nil, nil
	v.IgnoreArgs = nil // which of the names is meant to be ignored cannot be told
	v.Risk, v.Rule = decider.tight.risk, decider.name
	v.Timeout, v.RequireReason, v.Need = decider.tight.timeout, false, decider.tight.need
	for _, r := range strict {
		if r.tight.risk.Rank() > v.Risk.Rank() {
			v.Risk, v.Rule = r.tight.risk, r.name
		}
		v.Timeout = min(v.Timeout, r.tight.timeout)
		v.RequireReason = v.RequireReason || r.tight.requireReason
		v.Strict = v.Strict || r.strict
		v.Need = v.Need.Stricter(r.tight.need)
	}
	return v
}
