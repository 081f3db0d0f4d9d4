package policy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"countersign/approval"
)

// havePresets makes these the presets that there are, until the test ends.
func havePresets(t *testing.T, texts map[string]string) {
	names, text := presetNames, presetText
	t.Cleanup(func() { presetNames, presetText = names, text })
	presetNames = func() []string { return slices.Sorted(maps.Keys(texts)) }
	presetText = func(name string) (string, bool) {
		s, ok := texts[name]
		return s, ok
	}
}

var agentPreset = map[string]string{"agent": `
guard: gate_files
rules:
  - name: reading
    tools: [Read, "docs/search_*", "Todo*"]
    action: allow
  - name: payments
    tools: ["pay_*"]
    risk: critical
    timeout: 1h
`}

func TestIncludedRulesFollowTheFilesOwn(t *testing.T) {
	havePresets(t, agentPreset)
	p := compile(t, "policy:\n  include: [preset/agent]\n  rules:\n    - {name: mine, tools: [Read], agents: [bad], action: deny}\n")
	var names []string
	for _, r := range p.Rules() {
		names = append(names, r.Name)
	}
	want := []string{"mine", "preset/agent: reading", "preset/agent: payments"}
	if !slices.Equal(names, want) {
		t.Fatalf("the rules are %q; want %q", names, want)
	}
	for _, c := range []struct {
		call approval.Call
		want approval.Action
		rule string
	}{
		{approval.Call{Agent: "bad", Tool: "Read"}, approval.Deny, "mine"}, // the file's own denial stands
		{approval.Call{Agent: "good", Tool: "Read"}, approval.Allow, "preset/agent: reading"},
		{approval.Call{Agent: "good", Tool: "TodoWrite"}, approval.Allow, "preset/agent: reading"},
		// A server may call a tool what it likes.
		{approval.Call{Agent: "good", Server: "evil", Tool: "Read"}, approval.Quarantine, ""},
		{approval.Call{Agent: "good", Server: "evil", Tool: "TodoWrite"}, approval.Quarantine, ""},
		{approval.Call{Agent: "good", Server: "docs", Tool: "search_all"}, approval.Allow, "preset/agent: reading"},
		{approval.Call{Agent: "good", Tool: "search_all"}, approval.Quarantine, ""},
		{approval.Call{Agent: "good", Server: "bank", Tool: "pay_all"}, approval.Quarantine, "preset/agent: payments"},
	} {
		c.call.Args = call(t, "any", "{}").Args
		v := p.Evaluate(t.Context(), c.call)
		if v.Action != c.want || v.Rule != c.rule {
			t.Errorf("%s by %s: %s by %q; want %s by %q", c.call.Target(), c.call.Agent, v.Action, v.Rule, c.want, c.rule)
		}
		if x := p.Explain(c.call); x.Action != v.Action || x.Rule != v.Rule {
			t.Errorf("%s: explained as %s by %q", c.call.Target(), x.Action, x.Rule)
		}
	}
	if p.Guard() == nil || p.Guard().Line != 2 {
		t.Errorf("the guard of the preset is %+v; want one that stands at line 2", p.Guard())
	}
	if r := p.Rules()[1]; r.Preset != "preset/agent" || r.Line != 2 || r.Path != "preset/agent.rules[0]" {
		t.Errorf("the preset's rule is told to be of %q, %s, line %d", r.Preset, r.Path, r.Line)
	}
}

func TestWhatIsIncludedCountsForTheDigest(t *testing.T) {
	const src = "policy: {include: [preset/agent]}\n"
	havePresets(t, agentPreset)
	before := compile(t, src).Digest()
	havePresets(t, map[string]string{"agent": strings.Replace(agentPreset["agent"], "Read", "Look", 1)})
	if compile(t, src).Digest() == before {
		t.Error("a preset that says something else gives a policy of the same digest")
	}
}

func TestLoosenedTellsOfAnIncludedPreset(t *testing.T) {
	havePresets(t, agentPreset)
	said := Loosenings(compile(t, "policy: {}\n"), compile(t, "policy: {include: [preset/agent]}\n"))
	if len(said) != 1 || !strings.Contains(said[0].String(), `rule "preset/agent: reading" now allows`) {
		t.Errorf("said is %q", said)
	}
}

func TestWhatIsWrongWithIncluding(t *testing.T) {
	havePresets(t, map[string]string{
		"agent": agentPreset["agent"], "broken": "rules:\n  - {tools: [x], action: perhaps}\n",
		"broad": "rules:\n  - {tools: ['*/read'], action: allow}\n", "nothing": "", "else": "rules: []\nmode: observe\n",
	})
	const all = "use one of preset/agent, preset/broad, preset/broken, preset/else, preset/nothing"
	compile(t, "policy: {include: [preset/nothing]}\n")
	for _, c := range []struct{ list, want string }{
		{"preset/agnt", `1:20: unknown preset "preset/agnt"; ` + all + `; did you mean "preset/agent"?`},
		{"agent", `1:20: unknown preset "agent"; ` + all + `; did you mean "preset/agent"?`},
		{"preset/agent, preset/agent", `1:34: "preset/agent" is listed twice; remove one`},
		{"preset/broken", `1:20: preset/broken.rules[0].action, line 2: action must be allow, ask or deny, not "perhaps"`},
		{"preset/broad", `1:20: preset/broad.rules[0].tools[0]: "*/read" allows tools of servers that it does not name, ` +
			`which a preset cannot`},
		{"preset/else", `1:20: preset/else.mode, line 2: `},
	} {
		p, problems := Compile(Parse([]byte("policy: {include: ["+c.list+"]}\n")), Options{})
		if p != nil || len(problems) != 1 || !strings.HasPrefix(problems[0].String(), c.want) {
			t.Errorf("include: [%s] is told to be %v; want %s", c.list, problems, c.want)
		}
	}
}
