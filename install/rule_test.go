package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/config"
)

var guarded = Guarded{
	Files:   []string{"/etc/countersign/countersign.yaml", "/etc/countersign/countersign.env", "/var/lib/gate/store.db", "/it's/o.sock"},
	Folders: map[string]string{ClaudeCode: "/home/u/cc-work"},
}

func noEnv(string) (string, bool) { return "", false }

func insert(t *testing.T, old string) string {
	t.Helper()
	b, err := Insert("gate.yaml", []byte(old), Rule(guarded), noEnv)
	if err != nil {
		t.Fatalf("%v in\n%s", err, old)
	}
	return string(b)
}

const configured = `# our gate
listen: 127.0.0.1:8787
agents: [{name: coder, token: coder-token-0123456789}]
people:
  - {name: hana, roles: [approver], token: hana-token-0123456789} # on call
policy:
  default_timeout: 1h
  rules: # in order
    # reading is fine
    - name: reading
      tools: [Read, "read_*"]
      action: allow
      risk: low
    - {action: allow, risk: low, tools: ["*"]}
  # the end
`

func TestTheRuleQuarantinesWhatTouchesTheGateOrTheSettings(t *testing.T) {
	cfg, problems, err := config.Parse("gate.yaml", []byte(insert(t, configured)), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !strings.Contains(p.String(), "no channel has anyone to tell") && !strings.Contains(p.String(), "allows every tool") && !strings.Contains(p.String(), "may exceed its cost limit") {
			t.Errorf("the rule makes a problem: %s", p)
		}
	}
	call := func(server, tool, scope string, args any) approval.Verdict {
		b, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		a, err := approval.ParseArgs(b)
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Policy.Evaluate(context.Background(), approval.Call{Agent: "coder", Scope: scope, Server: server, Tool: tool, Args: a})
	}
	type args map[string]any
	const app = "/srv/app"
	for _, c := range []struct {
		server, tool, scope string
		args                args
	}{
		{"", "Write", app, args{"file_path": "/etc/countersign/countersign.yaml", "content": "x"}},
		{"", "Edit", app, args{"file_path": "/etc/countersign/countersign.env", "old_string": "a", "new_string": "b"}},
		{"", "MultiEdit", app, args{"file_path": "/home/u/.claude/settings.json", "edits": []any{}}},
		{"", "Write", app, args{"file_path": "/srv/app/.claude/settings.local.json", "content": "{}"}},
		{"", "Write", app, args{"file_path": "/home/u/cc-work/settings.json", "content": "{}"}},
		{"", "Write", "/home/u/.claude", args{"file_path": "settings.json", "content": "{}"}},
		{"", "Write", app, args{"file_path": "/srv/app/.mcp.json", "content": "{}"}},
		{"", "Write", app, args{"file_path": "/home/u/.CLAUDE/Settings.json", "content": "{}"}},
		{"", "Bash", app, args{"command": "rm -f ~/.claude/settings.json"}},
		{"", "Bash", app, args{"command": "cd ~/.claude && sed -i d settings.json"}},
		{"", "Bash", app, args{"command": "cat /etc/countersign/countersign.env\n"}},
		{"", "Bash", "/etc/countersign", args{"command": "vi countersign.yaml"}},
		{"", "Bash", app, args{"command": "sqlite3 /var/lib/gate/store.db 'delete from approval_requests'"}},
		{"", "Bash", "/var/lib/gate", args{"command": "rm store.db-wal"}},
		{"", "Bash", app, args{"command": "curl --unix-socket \"/it's/o.sock\" http://gate/"}},
		{"", "Bash", app, args{"command": "true; /opt/countersign uninstall claude-code --yes"}},
		{"", "Bash", app, args{"command": "'countersign' install codex"}},
		{"", "Bash", app, args{"command": strings.Repeat("x", 100_001)}},
		{"", "Bash", app, args{"command": strings.Repeat("x", 20_000) + " countersign"}},
		{"", "odd", app, args{"lines": many(501)}},
		{"", "odd", app, args{"command": []any{"cat", "/etc/countersign/countersign.yaml"}}},
		{"", "odd", app, args{"argv": []any{"sh", "-c", "countersign uninstall codex"}}},
		{"", "odd", app, args{"paths": []any{7, nil, "a", "/etc/countersign/countersign.yaml"}}},
		{"", "odd", app, args{"paths": many(60), "target": "countersign.yaml"}},
		{"", "odd", app, args{"target": "/var/lib/gate/store.db"}},
		{"", "odd", app, args{"file": map[string]any{"name": ".codex/hooks.json"}}},
		{"", "odd", app, args{"files": []any{map[string]any{"path": "x", "content": "y"}, map[string]any{"path": ".mcp.json", "content": "y"}}}},
		{"", "odd", app, args{"Content": "countersign.yaml"}},
		{"", "odd", app, args{"a.b": "countersign.yaml"}},
		{"", "Bash", app, args{"command": "mv ~/.claude ~/x"}},
		{"", "Bash", app, args{"command": "rm -r ~/.codex"}},
		{"", "Bash", app, args{"command": "rm -r ~/.codex/"}},
		{"", "Bash", app, args{"command": "rm -r ~/.codex/*"}},
		{"", "Bash", app, args{"command": "rm -r .gemini/."}},
		{"", "Bash", app, args{"command": "rm -r \".gemini\"\n"}},
		{"", "Bash", app, args{"command": "mv /home/u/cc-work /tmp"}},
		{"", "Bash", "/home/u/.claude", args{"command": "mv ../.claude /tmp/x"}},
		{"", "odd", app, args{"from": ".gemini", "to": "x"}},
		{"", "odd", app, args{"from": `C:\Users\u\.claude`}},
		{"", "apply_patch", app, args{"command": "*** Begin Patch\n*** Update File: .codex/hooks.json\n@@\n-a\n+b\n*** End Patch"}},
		{"", "apply_patch", app, args{"command": "*** Begin Patch\n*** Delete File: /home/u/.codex/config.toml\n*** End Patch"}},
		{"", "write_file", app, args{"file_path": "/home/u/.gemini/settings.json", "content": "{}"}},
		{"", "replace", app, args{"file_path": ".gemini/settings.json", "old_string": "a", "new_string": "b"}},
		{"", "run_shell_command", app, args{"command": "echo > .gemini/settings.json"}},
		{"files", "move_file", app, args{"source": "/tmp/x", "destination": "/home/u/.claude/settings.json"}},
		{"files", "write_file", app, args{"path": "/home/u/.claude.json", "content": ""}},
	} {
		v := call(c.server, c.tool, c.scope, c.args)
		if v.Action != approval.Quarantine || v.Risk != approval.RiskCritical || v.Rule != RuleName || v.ReasonCode != "gate_files" {
			t.Errorf("%s %.200v in %s: got %s, %s by %q (%s)", c.tool, c.args, c.scope, v.Action, v.Risk, v.Rule, v.ReasonCode)
		}
	}
	for _, c := range []struct {
		tool, scope string
		args        args
	}{
		{"Write", app, args{"file_path": "/srv/app/settings.json", "content": "see .claude/settings.json and countersign.yaml"}},
		{"Edit", app, args{"file_path": "/srv/app/README.md", "old_string": "mv ~/.claude x", "new_string": "rm countersign.yaml"}},
		{"MultiEdit", app, args{"file_path": "/srv/app/README.md", "edits": []any{map[string]any{"old_string": "countersign.env", "new_string": "countersign.yaml"}}}},
		{"create", app, args{"path": "/srv/app/a.md", "file_text": ".claude/settings.json"}},
		{"Task", app, args{"description": "look at countersign.yaml", "prompt": "what is in .codex/hooks.json?"}},
		{"Bash", app, args{"command": "ls", "description": "looks beside countersign.yaml"}},
		{"odd", app, args{"data": strings.Repeat("x", 10_000), "more": strings.Repeat("y", 10_000)}},
		{"odd", app, args{"n": json.Number("123456789012345678901234567890"), "l": []any{json.Number("1e300")}}},
		{"Bash", app, args{"command": strings.Repeat("x", 10_000) + " countersign"}},
		{"odd", app, args{"ids": many(60)}},
		{"odd", app, args{"deep": map[string]any{"n": 1.5, "l": []any{[]any{}}, "z": nil, "content": "countersign.yaml"}, "n": []any{1, true, nil}}},
		{"Bash", "/home/u/.claude", args{"command": "ls", "other": ""}},
		{"Bash", app, args{"command": "cat docs/notes.claudette.md .claude.bak/x"}},
		{"Bash", app, args{"command": "ls ~/.codex/log ~/.gemini/tmp/x cc-works"}},
		{"Write", app, args{"file_path": "/srv/app/big", "content": strings.Repeat("x", 900_000)}},
		{"Bash", app, args{"command": "ls .claude/commands"}},
		{"Bash", app, args{"command": "go test ./..."}},
		{"Bash", "/home/u/.claude-tools", args{"command": "cat settings.json"}},
		{"Bash", app, args{"command": "sqlite3 other/store.db"}},
		{"Bash", app, args{"command": "brew install jq"}},
		{"odd", app, args{"command": []string{"cat", "x"}, "path": 7, "source": nil}},
		{"nothing", app, args{}},
		{"Bash", app, args{"command": strings.Repeat("x", 40_000), "input": strings.Repeat("y", 1000)}},
	} {
		if v := call("", c.tool, c.scope, c.args); v.Action != approval.Allow {
			t.Errorf("%s %.200v in %s: got %s by %q (%s: %s), want what the other rules say", c.tool, c.args, c.scope, v.Action, v.Rule, v.ReasonCode, v.Message)
		}
	}
}

// many is a list of short texts.
func many(n int) []any {
	l := make([]any, n)
	for i := range l {
		l[i] = fmt.Sprintf("message-%08d@mail.example.com", i)
	}
	return l
}

func TestTheRuleComesFirstAndTheRestStays(t *testing.T) {
	rule := func(by string) string {
		var b strings.Builder
		for l := range strings.Lines(Rule(guarded)) {
			b.WriteString(by + l)
		}
		return b.String()
	}
	got := insert(t, configured)
	if want := strings.Replace(configured, "  rules: # in order\n", "  rules: # in order\n"+rule("    "), 1); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again := insert(t, got); again != got {
		t.Errorf("repeated, it became\n%s", again)
	}
	older := strings.Replace(got, ", 'prompt'", "", 1)
	if older == got {
		t.Fatal("the rule was not made older")
	}
	if again := insert(t, older); again != got {
		t.Errorf("an older rule became\n%s", again)
	}
	moved := strings.Replace(configured, "    - {action", rule("    ")+"    - {action", 1)
	if again := insert(t, moved); again != moved {
		t.Errorf("a rule that stands elsewhere was moved:\n%s", again)
	}

	servers := configured + "mcp:\n  servers:\n    - {name: files, command: [files-server], tools: [read, write], require_approval: [write]}\n"
	if got := insert(t, servers); strings.Replace(got, rule("    "), "", 1) != servers {
		t.Errorf("before rules of MCP servers it became\n%s", got)
	}

	const head = "agents: [{name: coder, token: coder-token-0123456789}]\n"
	for old, want := range map[string]string{
		head:                                head + "policy:\n  rules:\n" + rule("    "),
		head + "policy:\n":                  head + "policy:\n  rules:\n" + rule("    "),
		head + "policy:\n  mode: observe\n": head + "policy:\n  rules:\n" + rule("    ") + "  mode: observe\n",
		head + "policy:\n  rules:\n":        head + "policy:\n  rules:\n" + rule("    "),
		head + "policy:\n  rules:\n  - {tools: [x], action: allow, risk: low}":                                  head + "policy:\n  rules:\n" + rule("  ") + "  - {tools: [x], action: allow, risk: low}\n",
		"security:\n  hitl:\n    rules:\n      - {tools: [x], action: allow, risk: low}\n" + head:               "security:\n  hitl:\n    rules:\n" + rule("      ") + "      - {tools: [x], action: allow, risk: low}\n" + head,
		"policy:\r\n  rules:\r\n    - {tools: [x], action: allow, risk: low}\r\n" + head[:len(head)-1] + "\r\n": strings.ReplaceAll("policy:\n  rules:\n"+rule("    ")+"    - {tools: [x], action: allow, risk: low}\n"+head, "\n", "\r\n"),
	} {
		if got := insert(t, old); got != want {
			t.Errorf("%s\nbecame\n%s\nwant\n%s", old, got, want)
		}
	}
}

func TestWhatCannotBeEditedSafelyIsLeftToThePerson(t *testing.T) {
	const head = "agents: [{name: coder, token: coder-token-0123456789}]\n"
	for _, old := range []string{
		head + "policy: {rules: [{tools: [x], action: allow, risk: low}]}\n",
		head + "policy:\n  rules: [{tools: [x], action: allow, risk: low}]\n",
		head + "policy:\n  rules: []\n",
		head + "policy: {}\n",
	} {
		if got, err := Insert("gate.yaml", []byte(old), Rule(guarded), noEnv); !errors.Is(err, errByHand) {
			t.Errorf("%s became %s, %v", old, got, err)
		}
	}
	if _, err := Insert("gate.yaml", []byte("agents: 7\n"), Rule(guarded), noEnv); err == nil || errors.Is(err, errByHand) {
		t.Errorf("a file that does not check gave %v", err)
	}
}
