package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Rewrite returns the policy as a file that [Parse] reads, with a rule to a line: what is written of it, with
// variables by their names and never their values. Comments, and rules that a preset or a server's prompt brought, are
// not in it.
func (p *Policy) Rewrite() string {
	var is struct {
		Policy map[string]jsontext.Value `json:"policy"`
		Rules  []struct {
			Preset  string         `json:"preset"`
			Written jsontext.Value `json:"written"`
		} `json:"rules"`
	}
	if json.Unmarshal([]byte(p.Source()), &is) != nil {
		return "" // it was not read from a file
	}
	var b strings.Builder
	b.WriteString("policy:\n")
	for _, key := range slices.Sorted(maps.Keys(is.Policy)) {
		b.WriteString("  " + key + ": " + flow(is.Policy[key]) + "\n")
	}
	b.WriteString("  rules:\n")
	for _, r := range is.Rules {
		if r.Preset == "" && r.Written != nil {
			b.WriteString("    - " + flow(r.Written) + "\n")
		}
	}
	return b.String()
}

// flow is JSON on one line, which is YAML too.
func flow(v jsontext.Value) string {
	v = slices.Clone(v)
	if v.Format(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)) != nil {
		return "null"
	}
	return string(v)
}
