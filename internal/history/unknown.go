package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// UnknownTool is a tool that agents called and that no rule is for.
type UnknownTool struct {
	Tool   string
	Agents []string // at most some of them
	Calls  int      // that people were asked about
	Last   time.Time
	YAML   string // one entry of a policy's rules, which asks as now
}

// unknowns counts calls of tools that no rule is for.
type unknowns map[string]*unknownRecord

type unknownRecord struct {
	toolRecord
	agents map[string]bool
	calls  int
	last   time.Time
}

func (us unknowns) add(r Record) {
	if !r.Unknown || r.Method != "" {
		return
	}
	u := us[r.Target()]
	if u == nil {
		if len(us) >= maxNames {
			return
		}
		u = &unknownRecord{toolRecord: toolRecord{server: r.Server, tool: r.Tool}, agents: map[string]bool{}}
		us[r.Target()] = u
	}
	u.calls++
	addName(u.agents, r.Agent)
	if r.At.After(u.last) {
		u.last = r.At
	}
}

// list returns the tools that were called most often first.
func (us unknowns) list() []UnknownTool {
	var all []UnknownTool
	for name, u := range us {
		lines := []string{"- name: " + yamlText(name), "  tools: [" + yamlText(name) + "]"}
		if len(u.agents) <= maxNamed {
			lines = append(lines, "  "+agentsLine(u.agents))
		}
		for _, line := range u.onlyOwn() { // the name alone would be any server's
			lines = append(lines, "  "+line)
		}
		lines = append(lines, "  action: ask   # or allow, or deny", "  risk: high")
		all = append(all, UnknownTool{Tool: name, Agents: slices.Sorted(maps.Keys(u.agents)), Calls: u.calls, Last: u.last,
			YAML: strings.Join(lines, "\n") + "\n"})
	}
	slices.SortFunc(all, func(a, b UnknownTool) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Tool, b.Tool))
	})
	return all
}
