package policy

import (
	"encoding/json"
	"testing"

	"countersign/approval"
	"countersign/approval/args"
)

// judgeIn judges a call of a coding agent's shell or editor in a folder.
func judgeIn(t *testing.T, yaml, tool, raw, scope string) approval.Verdict {
	t.Helper()
	cfg := Parse([]byte(yaml))
	cfg.GateFiles = []string{"/home/u/.config/countersign/countersign.yaml", "/w/app/countersign.env"}
	p, problems := Compile(cfg, Options{})
	if HasErrors(problems) {
		t.Fatal(problems)
	}
	a, err := args.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return p.Evaluate(t.Context(), approval.Call{Agent: "claude", Tool: tool, Args: a, Scope: scope})
}

const readingShell = `policy:
  guard: gate_files
  rules:
    - name: reading
      tools: [Bash]
      conditions: [{param: command, shell: read_only}]
      action: allow
`

// What only reads is allowed, as a line or as words; what may do more, or is no command, is not.
func TestShellReadOnlyAllowsOnlyWhatIsCertain(t *testing.T) {
	for _, test := range []struct {
		args string
		want approval.Action
		code string
	}{
		{`{"command":"git status && ls -la"}`, approval.Allow, "allowed"},
		{`{"command":"rg -n x /w/app/src"}`, approval.Allow, "allowed"},
		{`{"command":["cat","a b"]}`, approval.Allow, "allowed"},
		{`{"command":["bash","-lc","ls | wc -l"]}`, approval.Allow, "allowed"},
		{`{"command":"ls; rm a"}`, approval.Quarantine, "unknown_tool"},
		{`{"command":"rg -n x /etc"}`, approval.Quarantine, "unknown_tool"},
		{`{"command":["bash","-lc","rm a"]}`, approval.Quarantine, "unknown_tool"},
		{`{"command":""}`, approval.Quarantine, "unknown_tool"},
		{`{"command":[]}`, approval.Quarantine, "unknown_tool"},
		{`{}`, approval.Quarantine, "unknown_tool"},
		{`{"command":1}`, approval.Deny, "policy_error"},
		{`{"command":["ls",1]}`, approval.Deny, "policy_error"},
		{`{"command":"ls","Command":"rm a"}`, approval.Quarantine, "ambiguous_args"},
		{`{"Command":"ls"}`, approval.Quarantine, "ambiguous_args"},
	} {
		v := judgeIn(t, readingShell, "Bash", test.args, "/w/app")
		if v.Action != test.want || v.ReasonCode != test.code {
			t.Errorf("%s: got %s %s, want %s %s", test.args, v.Action, v.ReasonCode, test.want, test.code)
		}
	}
}

// The guard looks at what the shell reads: a command that only reads a guarded file is still asked about.
func TestTheGuardHoldsForCommandsThatOnlyRead(t *testing.T) {
	for _, command := range []string{
		"cat .claude/settings.json", "cat ~/.config/countersign/countersign.yaml", "cd /w/app && cat .codex/hooks.json",
		"ls; head -5 countersign.env",
		"git show HEAD:.claude/settings.json", "grep -n token '.mcp.json'", `cat ".gemini/settings.json" | jq .`,
	} {
		line, err := json.Marshal(command)
		if err != nil {
			t.Fatal(err)
		}
		v := judgeIn(t, readingShell, "Bash", `{"command":`+string(line)+`}`, "/w/app")
		if v.Action != approval.Quarantine || v.Risk != approval.RiskCritical || v.ReasonCode != "gate_files" {
			t.Errorf("%s: got %s %s at %s risk", command, v.Action, v.ReasonCode, v.Risk)
		}
	}
}

// A path is under scope where its text says so, whole or from there; whatever climbs, or is elsewhere, is not.
func TestUnderScope(t *testing.T) {
	const rules = `policy:
  rules:
    - tools: [Edit]
      conditions: [{param: path, under: scope}]
      action: deny
    - {tools: [Edit], risk: medium}
`
	for _, test := range []struct {
		path, scope string
		want        approval.Action
	}{
		{"/w/app/a.go", "/w/app", approval.Deny}, {"/w/app", "/w/app/", approval.Deny}, {"a.go", "/w/app", approval.Deny},
		{"./a/b.go", "/w/app", approval.Deny},
		{"/w/application/a.go", "/w/app", approval.Quarantine}, {"/etc/passwd", "/w/app", approval.Quarantine},
		{"/w/app/a.go", "", approval.Quarantine},
		{"/w/app/a.go", "/", approval.Quarantine},
		{"/w/app/../x", "/w/app", approval.Deny}, {"~/x", "/w/app", approval.Deny}, // where it lies is not certain
	} {
		v := judgeIn(t, rules, "Edit", `{"path":"`+test.path+`"}`, test.scope)
		if v.Action != test.want {
			t.Errorf("%s in %q: got %s, want %s", test.path, test.scope, v.Action, test.want)
		}
	}
}
