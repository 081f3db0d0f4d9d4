package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"countersign/approval"
)

// draft is what a suggested rule says beside its tool.
type draft struct {
	lines  []string // of YAML
	fewer  int      // cards
	effect string
	does   Does
	vary   []string
}

// few is the rule for a few values of an arg. Where all args had few values these calls are allowed; else an approval
// can be given for longer.
func (t *toolRecord) few(ps []part, e *evidence) draft {
	if e.isComplete() && e.risk.Rank() < approval.RiskHigh.Rank() {
		return t.allow(e)
	}
	values := make([]string, len(ps))
	for i, p := range ps {
		values[i] = p.value
	}
	return t.skip(fmt.Sprintf("{param: %s, in: [%s]}", yamlText(ps[0].arg), strings.Join(values, ", ")), e)
}

// allow lets through what had exactly such args, and no others.
func (t *toolRecord) allow(e *evidence) draft {
	names := slices.Sorted(maps.Keys(e.args))
	quoted := make([]string, len(names))
	d := draft{fewer: e.cardCount(), does: DoesAllow,
		effect: "Such calls run without asking; a call with any other value, or " +
			"another argument, is judged as it is now."}
	for i, name := range names {
		quoted[i] = celText(name)
	}
	d.lines = append(d.lines,
		"when: "+yamlText(t.ownToolClause()+"args.all(name, name in ["+strings.Join(quoted, ", ")+"])"), "conditions:")
	for i, name := range names {
		values := slices.Sorted(maps.Keys(e.args[name].values))
		d.lines = append(d.lines, fmt.Sprintf("  - {param: %s, in: [%s]}", yamlText(names[i]), strings.Join(values, ", ")))
	}
	d.lines = append(d.lines, "action: allow")
	return d
}

// bare is the rule for calls without any args.
func (t *toolRecord) bare(e *evidence) draft {
	if e.risk.Rank() >= approval.RiskHigh.Rank() {
		return t.skip("", e)
	}
	when := "when: " + yamlText(t.ownToolClause()+"size(args) == 0")
	return draft{fewer: e.cardCount(), lines: []string{when, "action: allow"}, does: DoesAllowBare,
		effect: "Such calls run without asking; one with any argument is judged as it is now."}
}

// ownToolClause narrows a rule for an agent's own tool to that: the name alone is any server's.
func (t *toolRecord) ownToolClause() string {
	if t.server != "" {
		return ""
	}
	return `server == "" && `
}

// onlyOwn is the line with which a rule is for an agent's own tool, none for a server's.
func (t *toolRecord) onlyOwn() []string {
	if t.server != "" {
		return nil
	}
	return []string{"when: " + yamlText(`server == ""`)}
}

// under is the rule for paths under a folder.
func (t *toolRecord) under(p part, e *evidence) draft {
	return t.skip(fmt.Sprintf("{param: %s, under: [%s]}", yamlText(p.arg), yamlText(p.value)), e)
}

// skip is a rule that asks still, with approvals that can be given for longer.
func (t *toolRecord) skip(condition string, e *evidence) draft {
	d := draft{fewer: e.cardCount() - e.grants.n, does: DoesGrant,
		effect: "People are still asked, and whoever approves can choose to approve the same call for longer."}
	if condition != "" {
		d.lines = append(d.lines, "conditions:", "  - "+condition)
	}
	d.lines = append(d.lines, t.onlyOwn()...)
	d.lines = append(d.lines, "risk: "+string(e.risk), "action: ask", "allow_skip: true")
	names := e.varying()
	if len(names) == 0 {
		return d
	}
	vary := make([]string, len(names))
	for i, name := range names {
		vary[i] = yamlText(name) + ": any"
		if a := e.args[name]; !a.not && a.largest != nil {
			vary[i] = fmt.Sprintf("%s: {at_most: %s}", yamlText(name), a.number)
		}
	}
	d.lines = append(d.lines, "grants: {vary: {"+strings.Join(vary, ", ")+"}}")
	d.vary = names
	d.effect = "People are still asked, and whoever approves can choose to approve such calls for longer; " +
		strings.Join(names, ", ") + " may differ then."
	return d
}

// run is the rule for all calls of a tool: its calls of a run share a card.
func (t *toolRecord) run(e *evidence) draft {
	return draft{fewer: e.cardCount() - e.runs.n, lines: append(t.onlyOwn(), "risk: "+string(e.risk), "action: ask",
		"group: run", "allow_skip: true"),
		does: DoesShare, effect: "People are still asked about each call; those of a run share a card."}
}

// suggestion puts a draft into words and YAML.
func (t *toolRecord) suggestion(of Part, e *evidence, d draft) Suggestion {
	where := of.String()
	s := Suggestion{Where: where, Part: of, Does: d.does, Vary: d.vary, Risk: e.risk,
		Asked: e.asked, Approved: e.approved, Denied: e.denied, Expired: e.expired, Fewer: d.fewer, Effect: d.effect,
		Rules: slices.Sorted(maps.Keys(e.rules)),
		Tool:  Record{Server: t.server, Tool: t.tool}.Target()}
	name := s.Tool
	if where != "" {
		name += " " + where
	}
	lines := []string{"- name: " + yamlText(name), "  tools: [" + yamlText(s.Tool) + "]"}
	if len(e.agents) <= maxNamed {
		s.Agents = slices.Sorted(maps.Keys(e.agents))
		lines = append(lines, "  "+agentsLine(e.agents))
	}
	for _, line := range d.lines {
		lines = append(lines, "  "+line)
	}
	s.YAML = strings.ReplaceAll(strings.Join(lines, "\n"), "${", "$${") + "\n" // in a configuration that is a variable
	if e.risk == approval.RiskHigh {
		s.Caution = "These calls are of high risk: a person once more in doubt is cheaper than one such call too many."
	}
	return s
}

// agentsLine is the line with which a rule is for some agents.
func agentsLine(names map[string]bool) string {
	quoted := slices.Sorted(maps.Keys(names))
	for i, a := range quoted {
		quoted[i] = yamlText(a)
	}
	return "agents: [" + strings.Join(quoted, ", ") + "]"
}

var plainYAML = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*$`)

// yamlText is a text in YAML. JSON's texts are YAML's too.
func yamlText(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if plainYAML.MatchString(s) {
			return s
		}
	}
	return jsonText(s)
}

// celText is a text in CEL, which reads JSON's escapes.
func celText(s string) string { return jsonText(s) }

func jsonText(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text can be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
