package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"countersign/approval"
	"countersign/internal/policy/presets"
	"countersign/internal/yamlpos"
)

// presetPrefix stands before the name of a preset where it is included.
const presetPrefix = "preset/"

// presetNames and presetText are the presets that there are; tests have their own.
var presetNames, presetText = presets.Names, presets.Text

// included is what a preset says.
type included struct {
	guard []string
	rules []Rule
}

// ReadPreset returns the rules of a preset and what is wrong with it. Each rule's name begins with that of the preset,
// as audit records and explanations have it.
func ReadPreset(name, text string) ([]Rule, []Problem) {
	in, problems := readPreset(name, text)
	return in.rules, problems
}

func readPreset(name, text string) (included, []Problem) {
	root := presetPrefix + name
	r := &reader{at: map[string]yamlpos.Position{}}
	doc, _ := yamlpos.Parse([]byte(text), nil, func(at yamlpos.Position, message string) {
		r.failAt(at, root, "%s", message)
	})
	if len(r.problems) > 0 {
		return included{}, r.problems
	}
	var in included
	cfg := &Config{root: root}
	if doc == nil || doc.Kind == yamlpos.Null {
		return in, nil
	}
	r.mapping(doc, root, map[string]func(pair){
		"rules": func(e pair) { r.rules(e, cfg) },
		"guard": func(e pair) { in.guard = r.texts(e) },
	}, policySynonyms)
	in.rules = cfg.Rules
	for i := range in.rules {
		rule := &in.rules[i]
		rule.Preset = root
		if rule.Name == "" {
			rule.Name = fmt.Sprintf("rule %d", i+1)
		}
		rule.Name = root + ": " + rule.Name
		rule.nameWritten = rule.Name
	}
	return in, r.problems
}

// include puts the rules of the presets that are named behind all others. What is wrong in a preset is told where it is
// included.
func (c *compiler) include() {
	cfg := c.cfg
	cfg.Rules, cfg.at = slices.Clone(cfg.Rules), maps.Clone(cfg.at)
	for i, name := range cfg.Include {
		where := fmt.Sprintf("include[%d]", i)
		bare, ok := strings.CutPrefix(name, presetPrefix)
		text, known := "", false
		if ok {
			text, known = presetText(bare)
		}
		switch {
		case !known:
			c.unknownPreset(where, name)
			continue
		case slices.Contains(cfg.Include[:i], name):
			c.fail(Origin{}, where, "%q is listed twice; remove one", name)
			continue
		}
		in, problems := readPreset(bare, text)
		at := c.problem(Origin{}, where, "")
		for _, p := range problems {
			c.fail(Origin{}, where, "%s, line %d: %s", p.Path, p.Line, p.Message)
		}
		for _, r := range in.rules {
			r.Origin.Position = yamlpos.Position{Line: at.Line, Column: at.Column}
			cfg.Rules = append(cfg.Rules, r)
		}
		c.includeGuard(where, in.guard)
	}
}

// includeGuard adds what a preset guards to what the policy does.
func (c *compiler) includeGuard(where string, guard []string) {
	cfg := c.cfg
	if len(guard) > 0 && len(cfg.Guard) == 0 {
		at := c.problem(Origin{}, where, "")
		c.cfg.Place(cfg.root+".guard", yamlpos.Position{Line: at.Line, Column: at.Column})
	}
	cfg.Guard = slices.Clone(cfg.Guard)
	for _, name := range guard {
		if !slices.Contains(cfg.Guard, name) {
			cfg.Guard = append(cfg.Guard, name)
		}
	}
}

func (c *compiler) unknownPreset(where, name string) {
	known := presetNames()
	for i := range known {
		known[i] = presetPrefix + known[i]
	}
	c.fail(Origin{}, where, "unknown preset %q; use one of %s%s", name, strings.Join(known, ", "),
		didYouMean(name, known, map[string]string{name: presetPrefix + name}))
}

// presetTarget is what a target of a rule of a preset matches: where the rule allows, no tool of an MCP server, unless
// the server is named.
func (c *compiler) presetTarget(r *rule, where, s string, t target) target {
	switch {
	case r.preset == "" || r.action != approval.Allow:
		return t
	case t.qualified && !t.server.literal():
		c.fail(r.origin, where, "%q allows tools of servers that it does not name, which a preset cannot", s)
		return t
	case t.qualified:
		return t
	}
	return target{qualified: true, tool: t.tool}
}
