package policy

import (
	"maps"
	"slices"
	"strings"

	"countersign/approval"
	"countersign/internal/yamlpos"
)

// What a diff is of where it does not say.
const (
	diffPath    = "path"
	diffContent = "content"
)

var diffSynonyms = map[string]string{
	"file": "path", "param": "path", "path_param": "path", "text": "content", "new": "content",
	"content_param": "content", "tool": "read", "reader": "read", "read_tool": "read", "with": "read",
	"args": "read_args", "read_param": "read_args", "read_params": "read_args", "params": "read_args",
}

// diff reads how people are shown what a call would change.
func (r *reader) diff(e pair) *approval.DiffTerms {
	d := &approval.DiffTerms{Path: diffPath, Content: diffContent}
	read, before := false, len(r.problems)
	r.mapping(e.value, e.path, map[string]func(pair){
		"path":      func(e pair) { d.Path, _ = r.text(e) },
		"content":   func(e pair) { d.Content, _ = r.text(e) },
		"read":      func(e pair) { read = true; d.Read, _ = r.text(e) },
		"read_args": func(e pair) { d.ReadArgs = r.readArgs(e) },
	}, diffSynonyms)
	if len(r.problems) == before && !read {
		r.failAt(e.pos, e.path, "diff needs read, the server's tool that reads the file, such as read: read_text_file")
	}
	return d
}

// readArgs reads which args of a call the read tool is given, by their names there.
func (r *reader) readArgs(e pair) map[string]string {
	if e.value.Kind != yamlpos.Mapping {
		r.failAt(e.pos, e.path, "a mapping of the read tool's args to those of the call is needed here, such as "+
			"{path: path}, not %s", describe(e.value))
		return nil
	}
	if len(e.value.Entries) == 0 {
		r.failAt(e.pos, e.path, "an empty mapping has no meaning here; leave read_args out")
	}
	names := map[string]string{}
	for _, e := range r.entries(e.value, e.path) {
		names[e.key], _ = r.text(e)
	}
	return names
}

// diff compiles how people are shown what a call of a rule would change.
func (c *compiler) diff(r *rule, in *Rule) {
	if in.Diff == nil || in.unread {
		return
	}
	d := *in.Diff
	if d.ReadArgs = maps.Clone(d.ReadArgs); len(d.ReadArgs) == 0 {
		parts := strings.Split(d.Path, ".")
		d.ReadArgs = map[string]string{parts[len(parts)-1]: d.Path}
	}
	switch {
	case strings.Contains(d.Read, "/"):
		c.fail(r.origin, "diff.read", "%q: the file is read by a tool of the call's own server; leave the server out", d.Read)
	case !approval.ValidName(d.Read):
		c.fail(r.origin, "diff.read", "%q is not the name of a tool", d.Read)
	}
	c.diffArg(r, "diff.path", d.Path)
	c.diffArg(r, "diff.content", d.Content)
	if d.Path == d.Content {
		c.fail(r.origin, "diff.content", "path and content are the same arg, %q", d.Path)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Diff.ReadArgs)) {
		if name == "" {
			c.fail(r.origin, "diff.read_args", "an empty name")
		}
		c.diffArg(r, "diff.read_args."+name, d.ReadArgs[name])
	}
	switch {
	case !r.judges(toolsCall):
		c.fail(r.origin, "diff", "diff is for tool calls, and this rule is for %s", join(r.methods))
		return
	case r.action != approval.Quarantine:
		c.warn(r.origin, "diff", "diff has no effect: this rule %s, and nobody is asked", verb(r.action))
		return
	}
	r.diff = &d
}

// diffArg checks the name of an arg that people are shown the difference of: another value of it must make another
// request.
func (c *compiler) diffArg(r *rule, where, name string) {
	top, _, _ := strings.Cut(name, ".")
	switch {
	case slices.Contains(strings.Split(name, "."), ""):
		c.fail(r.origin, where, "this must be the name of an argument, or a dotted path to one")
	case slices.Contains(r.ignoreArgs, top):
		c.fail(r.origin, where, "%q is in ignore_args: a call with another one joins the request, and nobody is shown what "+
			"that one would change; keep one of them", top)
	}
}

// diffs warns of what is never read because no rule allows it: nobody is asked about such a call.
func (c *compiler) diffs(p *Policy) {
	if slices.ContainsFunc(c.cfg.Rules, func(r Rule) bool { return r.unread }) {
		return // what is unread may allow it
	}
	for i := range p.rules {
		r := &p.rules[i]
		if r.diff == nil {
			continue
		}
		allowed := slices.ContainsFunc(r.targets, func(t target) bool {
			return slices.ContainsFunc(p.rules, func(q rule) bool { return q.mayAllow(t, r.diff.Read) })
		})
		if !allowed {
			c.warn(r.origin, "diff.read", "diff has no effect: no rule allows %s without asking, so the file is never "+
				"read; add a rule that allows it", r.diff.Read)
		}
	}
}

// mayAllow reports whether the rule allows some call of a tool of a server that t is of.
func (r *rule) mayAllow(t target, tool string) bool {
	return r.action == approval.Allow && r.judges(toolsCall) && slices.ContainsFunc(r.targets, func(u target) bool {
		return u.tool.match(tool) && (!t.qualified || !u.qualified || t.server.meets(u.server))
	})
}

// DiffInWords tells what people are shown of what a call would change, "" where nothing is read for that.
func (r RuleInfo) DiffInWords() string { return diffInWords(r.Diff) }

// DiffInWords is [RuleInfo.DiffInWords] of the call that is explained.
func (x Explanation) DiffInWords() string { return diffInWords(x.Diff) }

func diffInWords(d *approval.DiffTerms) string {
	if d == nil {
		return ""
	}
	var with []string
	for _, name := range slices.Sorted(maps.Keys(d.ReadArgs)) {
		if arg := d.ReadArgs[name]; arg != name {
			name += ": " + arg
		}
		with = append(with, name)
	}
	return d.Content + " beside what " + d.Read + "(" + strings.Join(with, ", ") + ") returns"
}
