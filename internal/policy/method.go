package policy

import (
	"slices"
	"strconv"
	"strings"

	"countersign/approval"
)

// toolsCall is the method of tool calls: of every call that has no other.
const toolsCall = "tools/call"

// knownMethods are the MCP methods, beside tools/call, that run where no rule concerns them: they read,
// or ask the agent's own side for something. Any other method is refused.
var knownMethods = []string{
	"resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/get", "completion/complete",
	"logging/setLevel", "sampling/createMessage", "elicitation/create", "roots/list",
}

// KnownMethods are the MCP methods, beside tools/call, that rules may be about.
func KnownMethods() []string { return slices.Clone(knownMethods) }

// Matches reports whether a pattern, in which * is any run of characters, matches a name.
func Matches(p, name string) bool { return pattern(p).match(name) }

// Covers reports whether a rule, whatever else it asks for, is about calls of a method of a server.
func (p *Policy) Covers(method, server string) bool {
	set := make(ruleSet, (len(p.rules)+63)/64)
	p.candidates(set, method, server, approval.MethodTool(method))
	return set.next(0) >= 0
}

var everyMethod = append([]string{toolsCall}, knownMethods...)

// methodOf returns the MCP method of a call.
func methodOf(c *approval.Call) string {
	if c.Method == "" {
		return toolsCall
	}
	return c.Method
}

// toolOf returns what stands for the tool of a call in patterns. Of a call of another method that is
// made from the method, whatever else the call says, so that no rule is got round by a name.
func toolOf(c *approval.Call) string {
	if m := methodOf(c); m != toolsCall {
		return approval.MethodTool(m)
	}
	return c.Tool
}

// silent are the methods of a rule that names none.
var silent = []pattern{toolsCall}

// judges reports whether the rule concerns calls of a method.
func (r *rule) judges(method string) bool {
	return slices.ContainsFunc(r.methods, func(p pattern) bool { return p.match(method) })
}

// judgesOthers reports whether the rule concerns calls of another method than tools/call.
func (r *rule) judgesOthers() bool {
	return slices.ContainsFunc(r.methods, func(p pattern) bool { return p != toolsCall })
}

// fallback returns what holds for a call of a method that no rule covers.
func (p *Policy) fallback(method string) *rule {
	switch {
	case method == toolsCall:
		return &p.otherwise
	case slices.Contains(knownMethods, method):
		return &p.method
	}
	return &p.unknown
}

// candidates adds to set the rules that have a pattern for a tool of a server, and for the method.
func (p *Policy) candidates(set ruleSet, method, server, tool string) {
	if method == toolsCall {
		p.index.collect(set, server, tool)
		return
	}
	p.methods.collect(set, server, tool)
	for i := set.next(0); i >= 0; i = set.next(i + 1) {
		if !p.rules[i].judges(method) {
			set.drop(int32(i))
		}
	}
}

// methods compiles the methods of a rule. A pattern that stops nothing is more than a warning: what no
// rule covers may run.
func (c *compiler) methods(at Origin, r *rule, methods []string) {
	if len(methods) == 0 {
		r.methods = silent
		return
	}
	for j, s := range methods {
		where := "method[" + strconv.Itoa(j) + "]"
		p := pattern(s)
		switch known := p.match(toolsCall) || slices.ContainsFunc(knownMethods, p.match); {
		case s == "":
			c.fail(at, where, "an empty name")
		case !possibleMethod(s):
			c.fail(at, where, "%q is not the name of an MCP method, such as resources/read; * is the only wildcard", s)
		case !known && r.action == approval.Deny:
			c.fail(at, where, "unknown MCP method %q; unknown methods are refused anyway, so remove it%s", s,
				didYouMean(s, everyMethod, nil))
		case !known:
			c.warn(at, where, "unknown MCP method %q; unknown methods are refused unless a rule allows them%s", s,
				didYouMean(s, everyMethod, nil))
		}
		r.methods = append(r.methods, p)
	}
}

// possibleMethod reports whether a pattern could match a method's name.
func possibleMethod(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/_.$-*", r))
	})
}

// canMatch reports whether a call of one of the rule's methods can have a tool that t matches. Where no
// tool calls are meant, tools are the methods' own names: a rule on resources/read for the tool
// read_file would stop nothing.
func (r *rule) canMatch(t target) bool {
	return r.judges(toolsCall) || slices.ContainsFunc(r.methods, func(p pattern) bool {
		return t.tool.meets(pattern(approval.MethodTool(string(p))))
	})
}
