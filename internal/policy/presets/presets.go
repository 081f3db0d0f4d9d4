// Package presets holds policies that can be included by name: what people who gate the same kind of agent would
// otherwise all write for themselves. A preset is a YAML document of rules, and perhaps a guard, which the package
// policy reads as it reads a file's own. Its rules follow the file's, so whatever a file says itself comes first.
package presets

import (
	_ "embed"
	"slices"
)

// preset is one of them: its name, without the preset/ that stands before it in a policy, and its text.
type preset struct{ name, about, text string }

var (
	//go:embed coding-agent.yaml
	codingAgent string
	//go:embed files.yaml
	files string
	//go:embed payments.yaml
	payments string
	//go:embed self-modification.yaml
	selfModification string
)

var all = []preset{
	{"coding-agent", "reading and searching allowed; edits, other commands and the web asked about", codingAgent},
	{"files", "tools that change files asked about, 30 minutes to answer", files},
	{"payments", "tools that move money asked about, 1 hour to answer", payments},
	{"self-modification", "changes of an agent to itself asked about, 2 hours to answer", selfModification},
}

// Names are the presets that there are, without the preset/ that stands before them in a policy.
func Names() []string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.name
	}
	return names
}

// Text is a preset as it is written, in YAML.
func Text(name string) (string, bool) {
	if i := slices.IndexFunc(all, func(p preset) bool { return p.name == name }); i >= 0 {
		return all[i].text, true
	}
	return "", false
}

// About is a preset in a few words.
func About(name string) string {
	if i := slices.IndexFunc(all, func(p preset) bool { return p.name == name }); i >= 0 {
		return all[i].about
	}
	return ""
}
