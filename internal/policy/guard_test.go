package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/locale/phrases"

	"pgregory.net/rapid"
)

var gateFiles = []string{"/etc/countersign/countersign.yaml", "/etc/countersign/countersign.env",
	"/var/lib/gate/store.db", "/it's/o.sock", "/run/tls/gate.key"}

// guarding compiles a policy with the guard on top of it.
func guarding(t interface {
	Helper()
	Fatal(...any)
}, cfg Config, entries ...string) *Policy {
	t.Helper()
	cfg.Guard, cfg.GateFiles = append([]string{GuardGateFiles}, entries...), gateFiles
	p, problems := Compile(cfg, Options{})
	if p == nil {
		t.Fatal(problems)
	}
	return p
}

func argsOf(t interface{ Fatal(...any) }, v any) args.Args {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	a, err := args.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var allowAll = Config{Rules: []Rule{{Name: "all", Tools: []string{"*"}, Action: approval.Allow}}}

func TestRule5_TheGuardQuarantinesWhatTouchesTheGateOrTheSettings(t *testing.T) {
	p := guarding(t, allowAll, "/home/u/cc-work/", "/opt/extra/vars.sh")
	call := func(server, tool, scope string, arguments any) approval.Verdict {
		return p.Evaluate(context.Background(), approval.Call{Agent: "coder", Scope: scope, Server: server, Tool: tool,
			Args: argsOf(t, arguments)})
	}
	type object map[string]any
	const app = "/srv/app"
	for _, c := range []struct {
		server, tool, scope string
		args                object
	}{
		{"", "Write", app, object{"file_path": "/etc/countersign/countersign.yaml", "content": "x"}},
		{"", "Edit", app, object{"file_path": "/etc/countersign/countersign.env", "old_string": "a", "new_string": "b"}},
		{"", "MultiEdit", app, object{"file_path": "/home/u/.claude/settings.json", "edits": []any{}}},
		{"", "Write", app, object{"file_path": "/srv/app/.claude/settings.local.json", "content": "{}"}},
		{"", "Write", app, object{"file_path": "/home/u/cc-work/settings.json", "content": "{}"}},
		{"", "Write", "/home/u/.claude", object{"file_path": "settings.json", "content": "{}"}},
		{"", "Write", app, object{"file_path": "/srv/app/.mcp.json", "content": "{}"}},
		{"", "Write", app, object{"file_path": "/home/u/.CLAUDE/Settings.json", "content": "{}"}},
		{"", "Bash", app, object{"command": "rm -f ~/.claude/settings.json"}},
		{"", "Bash", app, object{"command": "cd ~/.claude && sed -i d settings.json"}},
		{"", "Bash", app, object{"command": "cat /etc/countersign/countersign.env\n"}},
		{"", "Bash", "/etc/countersign", object{"command": "vi countersign.yaml"}},
		{"", "Bash", app, object{"command": "sqlite3 /var/lib/gate/store.db 'delete from approval_requests'"}},
		{"", "Bash", "/var/lib/gate", object{"command": "rm store.db-wal"}},
		{"", "Bash", app, object{"command": "curl --unix-socket \"/it's/o.sock\" http://gate/"}},
		{"", "Bash", app, object{"command": "true; /opt/countersign uninstall claude-code --yes"}},
		{"", "Bash", app, object{"command": "'countersign' install codex"}},
		{"", "Bash", app, object{"command": strings.Repeat("x", 20_000) + " countersign"}},
		{"", "odd", app, object{"lines": append(many(5000), "/etc/countersign/countersign.yaml")}},
		{"", "odd", "/home/u/.claude", object{"lines": many(20_000)}},
		{"", "odd", app, object{"deep": []any{[]any{map[string]any{"a": []any{map[string]any{"b": ".codex/hooks.json"}}}}}}},
		{"", "odd", app, object{"files": map[string]any{"/srv/x/.mcp.json": "{}"}}},
		{"", "odd", app, object{"content": map[string]any{"path": "/home/u/.gemini/settings.json"}}},
		{"files", "get", app, object{"uri": "file:///etc/%63ountersign/countersign%2Eyaml?a=%zz"}},
		{"", "Bash", app, object{"command": "cat /run/tls/gate.key"}},
		{"", "Bash", app, object{"command": "vi /opt/extra/vars.sh"}},
		{"", "odd", app, object{"command": []any{"cat", "/etc/countersign/countersign.yaml"}}},
		{"", "odd", app, object{"argv": []any{"sh", "-c", "countersign uninstall codex"}}},
		{"", "odd", app, object{"paths": []any{7, nil, "a", "/etc/countersign/countersign.yaml"}}},
		{"", "odd", app, object{"paths": many(60), "target": "countersign.yaml"}},
		{"", "odd", app, object{"target": "/var/lib/gate/store.db"}},
		{"", "odd", app, object{"file": map[string]any{"name": ".codex/hooks.json"}}},
		{"", "odd", app, object{"files": []any{map[string]any{"path": "x", "content": "y"},
			map[string]any{"path": ".mcp.json", "content": "y"}}}},
		{"", "odd", app, object{"Content": "countersign.yaml"}},
		{"", "odd", app, object{"a.b": "countersign.yaml"}},
		{"", "Bash", app, object{"command": "mv ~/.claude ~/x"}},
		{"", "Bash", app, object{"command": "rm -r ~/.codex"}},
		{"", "Bash", app, object{"command": "rm -r ~/.codex/"}},
		{"", "Bash", app, object{"command": "rm -r ~/.codex/*"}},
		{"", "Bash", app, object{"command": "rm -r .gemini/."}},
		{"", "Bash", app, object{"command": "rm -r \".gemini\"\n"}},
		{"", "Bash", app, object{"command": "mv /home/u/cc-work /tmp"}},
		{"", "Bash", "/home/u/.claude", object{"command": "mv ../.claude /tmp/x"}},
		{"", "odd", app, object{"from": ".gemini", "to": "x"}},
		{"", "odd", app, object{"from": `C:\Users\u\.claude`}},
		{"", "apply_patch", app,
			object{"command": "*** Begin Patch\n*** Update File: .codex/hooks.json\n@@\n-a\n+b\n*** End Patch"}},
		{"", "apply_patch", app,
			object{"command": "*** Begin Patch\n*** Delete File: /home/u/.codex/config.toml\n*** End Patch"}},
		{"", "write_file", app, object{"file_path": "/home/u/.gemini/settings.json", "content": "{}"}},
		{"", "replace", app, object{"file_path": ".gemini/settings.json", "old_string": "a", "new_string": "b"}},
		{"", "run_shell_command", app, object{"command": "echo > .gemini/settings.json"}},
		{"files", "move_file", app, object{"source": "/tmp/x", "destination": "/home/u/.claude/settings.json"}},
		{"files", "write_file", app, object{"path": "/home/u/.claude.json", "content": ""}},
	} {
		v := call(c.server, c.tool, c.scope, c.args)
		if v.Action != approval.Quarantine || v.Risk != approval.RiskCritical || v.Rule != "guard: gate_files" ||
			v.ReasonCode != "gate_files" || !v.RequireReason {
			t.Errorf("%s %.200v in %s: got %s, %s by %q (%s)", c.tool, c.args, c.scope, v.Action, v.Risk, v.Rule, v.ReasonCode)
		}
	}
	for _, c := range []struct {
		tool, scope string
		args        object
	}{
		{"Write", app, object{"file_path": "/srv/app/settings.json",
			"content": "see .claude/settings.json and countersign.yaml"}},
		{"Edit", app, object{"file_path": "/srv/app/README.md", "old_string": "mv ~/.claude x",
			"new_string": "rm countersign.yaml"}},
		{"MultiEdit", app, object{"file_path": "/srv/app/README.md",
			"edits": []any{map[string]any{"old_string": "countersign.env", "new_string": "countersign.yaml"}}}},
		{"create", app, object{"path": "/srv/app/a.md", "file_text": ".claude/settings.json"}},
		{"Task", app, object{"description": "look at countersign.yaml", "prompt": "what is in .codex/hooks.json?"}},
		{"Bash", app, object{"command": "ls", "description": "looks beside countersign.yaml"}},
		{"odd", app, object{"data": strings.Repeat("x", 10_000), "more": strings.Repeat("y", 10_000)}},
		{"odd", app, object{"n": json.Number("123456789012345678901234567890"), "l": []any{json.Number("1e300")}}},
		{"Bash", app, object{"command": strings.Repeat("x", 10_000) + " countersign"}},
		{"odd", app, object{"ids": many(60)}},
		{"odd", app, object{"deep": map[string]any{"n": 1.5, "l": []any{[]any{}}, "z": nil, "content": "countersign.yaml"},
			"n": []any{1, true, nil}}},
		{"Bash", "/home/u/.claude", object{"command": "ls", "other": ""}},
		{"Bash", app, object{"command": "cat docs/notes.claudette.md .claude.bak/x"}},
		{"Bash", app, object{"command": "ls ~/.codex/log ~/.gemini/tmp/x cc-works"}},
		{"Write", app, object{"file_path": "/srv/app/big", "content": strings.Repeat("x", 900_000)}},
		{"Bash", app, object{"command": "ls .claude/commands"}},
		{"Bash", app, object{"command": "go test ./..."}},
		{"Bash", "/home/u/.claude-tools", object{"command": "cat settings.json"}},
		{"Bash", app, object{"command": "sqlite3 other/store.db"}},
		{"Bash", app, object{"command": "brew install jq"}},
		{"odd", app, object{"command": []string{"cat", "x"}, "path": 7, "source": nil}},
		{"nothing", app, object{}},
		{"Bash", app, object{"command": strings.Repeat("x", 200_000)}},
		{"odd", app, object{"lines": many(5000)}},
		{"odd", app, object{"content": []any{"see .claude/settings.json"}}},
		{"Bash", app, object{"command": "date +%Y%m%d; printf %c"}},
		{"Bash", app, object{"command": strings.Repeat("x", 40_000), "input": strings.Repeat("y", 1000)}},
	} {
		if v := call("", c.tool, c.scope, c.args); v.Action != approval.Allow {
			t.Errorf("%s %.200v in %s: got %s by %q (%s: %s), want what the rules say", c.tool, c.args, c.scope, v.Action,
				v.Rule, v.ReasonCode, v.Message)
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

const deniesEdits = "[Write, Edit, Bash, odd]"

func TestRule5_TheGuardIsAFloor(t *testing.T) {
	touching := approval.Call{Agent: "coder", Tool: "Edit",
		Args: argsOf(t, map[string]any{"file_path": "/home/u/.claude/settings.json", "description": "x"})}
	evaluate := func(r Rule, levels map[approval.Risk]Level) approval.Verdict {
		r.Tools = []string{"Edit"}
		return guarding(t, Config{Rules: []Rule{r}, Levels: levels}).Evaluate(context.Background(), touching)
	}
	if v := evaluate(Rule{Action: approval.Deny, Name: "no"}, nil); v.Action != approval.Deny || v.Rule != "no" ||
		v.ReasonCode != "forbidden" {
		t.Errorf("a deny became %+v", v)
	}
	if v := evaluate(Rule{When: "args.missing == 1", Action: approval.Allow}, nil); v.Action != approval.Deny ||
		v.ReasonCode != "policy_error" {
		t.Errorf("an error became %+v", v)
	}
	short := evaluate(Rule{Name: "ask", Risk: approval.RiskMedium, Timeout: 60e9, Message: "Edits {args.file_path}.",
		IgnoreArgs: []string{"description", "file_path"}}, nil)
	if short.Action != approval.Quarantine || short.Risk != approval.RiskCritical || short.Timeout != 60e9 ||
		!short.RequireReason || short.Rule != "ask" ||
		short.ReasonCode != "gate_files" ||
		short.Message != "Edits {args.file_path}; it touches the gate's own files or the settings of an agent's hooks" ||
		!slices.Equal(short.IgnoreArgs, []string{"description"}) {
		t.Errorf("a quarantine became %+v", short)
	}
	lax := map[approval.Risk]Level{approval.RiskCritical: {Action: approval.Allow}}
	if v := evaluate(Rule{Risk: approval.RiskCritical}, lax); v.Action != approval.Quarantine ||
		v.Risk != approval.RiskCritical {
		t.Errorf("where the level critical allows: %+v", v)
	}
	observed := allowAll
	observed.Mode = Observe
	if v := guarding(t, observed).Evaluate(context.Background(), touching); v.Action != approval.Quarantine || !v.Observe {
		t.Errorf("observed: %+v", v)
	}
	// Other methods too, that read: by default they run.
	read := approval.Call{Agent: "coder", Server: "files", Method: "resources/read", Tool: "resources:read",
		Args: argsOf(t, map[string]any{"uri": "file:///etc/countersign/countersign.env"})}
	if v := guarding(t, Config{}).Evaluate(context.Background(), read); v.Action != approval.Quarantine ||
		v.ReasonCode != "gate_files" {
		t.Errorf("resources/read: %+v", v)
	}
	read.Method, read.Tool = "sampling/createMessage", "sampling:createMessage"
	if v := guarding(t, Config{}).Evaluate(context.Background(), read); v.Action != approval.Allow {
		t.Errorf("sampling: %+v", v)
	}
}

// With the guard no verdict is looser and no risk lower, and all is the same where nothing guarded is named.
func TestRule5_PropertyTheGuardNeverLoosens(t *testing.T) {
	actions := []approval.Action{"", approval.Allow, approval.Quarantine, approval.Deny}
	risks := []approval.Risk{"", approval.RiskLow, approval.RiskMedium, approval.RiskHigh, approval.RiskCritical}
	texts := []string{"", "x", "/srv/app/a.go", ".claude", "/home/u/.claude/settings.json", "CounterSign.YAML",
		"cd .codex; vi hooks.json", "o.sock", "settings", "a%2eb",
		"countersign install codex", "%2emcp.json", "/var/lib/gate/store.db", ".claude/commands"}
	names := []string{"path", "Path", "command", "content", "description", "n"}
	rapid.Check(t, func(t *rapid.T) {
		var cfg Config
		for range rapid.IntRange(0, 3).Draw(t, "rules") {
			r := Rule{Tools: []string{rapid.SampledFrom([]string{"a", "*", "s/*"}).Draw(t, "tools")},
				Action: rapid.SampledFrom(actions).Draw(t, "action"),
				Risk:   rapid.SampledFrom(risks).Draw(t, "risk")}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				r.Conditions = []Condition{{Param: "path", Under: []string{"/srv"}}}
			case 1:
				r.When = `has(args.command) && args.command.contains("x")`
			case 2:
				r.When = `args.n > 3`
			}
			if rapid.Bool().Draw(t, "ignores") {
				r.IgnoreArgs = []string{"description", "path"}
			}
			if rapid.Bool().Draw(t, "timed") {
				r.Timeout = 90e9
			}
			cfg.Rules = append(cfg.Rules, r)
		}
		if rapid.Bool().Draw(t, "observe") {
			cfg.Mode = Observe
		}
		if rapid.Bool().Draw(t, "level") {
			cfg.Levels = map[approval.Risk]Level{approval.RiskCritical: {Action: rapid.SampledFrom(actions).Draw(t, "critical")}}
		}
		without, problems := Compile(cfg, Options{})
		if without == nil {
			t.Fatal(problems)
		}
		args := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "args") {
			var v any = rapid.SampledFrom(texts).Draw(t, "text")
			switch rapid.IntRange(0, 3).Draw(t, "shape") {
			case 0:
				v = []any{v, 1}
			case 1:
				v = map[string]any{rapid.SampledFrom(append(names, texts[3:]...)).Draw(t, "key"): v}
			}
			args[rapid.SampledFrom(names).Draw(t, "name")] = v
		}
		c := approval.Call{Agent: "coder", Tool: "a", Server: rapid.SampledFrom([]string{"", "s"}).Draw(t, "server"),
			Scope: rapid.SampledFrom([]string{"", "/srv/app", "/home/u/.claude", "/var/lib/gate"}).Draw(t, "scope"),
			Args:  argsOf(t, args)}
		if rapid.IntRange(0, 4).Draw(t, "method") == 0 {
			c.Method = rapid.SampledFrom([]string{"resources/read", "prompts/get", "what/else"}).Draw(t, "which")
			c.Tool = approval.MethodTool(c.Method)
		}
		p := guarding(t, cfg)
		was, is := without.Evaluate(context.Background(), c), p.Evaluate(context.Background(), c)
		if strictness(is.Action) < strictness(was.Action) || is.Risk.Rank() < was.Risk.Rank() || was.RequireReason &&
			!is.RequireReason && was.Action != approval.Allow ||
			was.Action == approval.Quarantine && is.Timeout > was.Timeout || was.Strict && !is.Strict ||
			is.Observe != was.Observe {
			t.Fatalf("%s\nwithout: %+v\nwith: %+v", c.Args.Canonical(), was, is)
		}
		for _, name := range is.IgnoreArgs {
			if !slices.Contains(was.IgnoreArgs, name) {
				t.Fatalf("ignores %s now", name)
			}
		}
		e := evaluation{ctx: context.Background(), call: &c, names: p.names}
		_, touched := p.guard.findGuardedArg(&e)
		if !touched && !reflect.DeepEqual(was, is) {
			t.Fatalf("%s touches nothing\nwithout: %+v\nwith: %+v", c.Args.Canonical(), was, is)
		}
		if touched && is.Action == approval.Allow || touched && is.Action == approval.Quarantine &&
			is.Risk != approval.RiskCritical {
			t.Fatalf("%s touches what is guarded: %+v", c.Args.Canonical(), is)
		}
		x := p.Explain(c)
		if x.Action != is.Action || x.Risk != is.Risk || x.Rule != is.Rule || x.ReasonCode != is.ReasonCode ||
			x.Message != is.Message || (x.Guard.Touched != "") != (touched && is.Action != approval.Deny) {
			t.Fatalf("explained as %+v, is %+v", x, is)
		}
	})
}

// What an earlier install wrote turned a deny into a question: it is read as the guard, and check says what to write.
func TestRule5_AnEarlierInstallsRuleIsReadAsTheGuard(t *testing.T) {
	for _, name := range []string{"first", "second"} {
		rule, err := os.ReadFile("testdata/guard/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		cfg := Parse([]byte("policy:\n  rules:\n" + string(rule) + "    - {name: never, tools: " + deniesEdits +
			", agents: [intruder], action: deny}\n    - {tools: ['*'], action: allow}\n"))
		p, problems := Compile(cfg, Options{})
		if p == nil {
			t.Fatal(problems)
		}
		var warned []string
		for _, problem := range problems {
			if strings.Contains(problem.Message, "guard: gate_files") && problem.Warning && problem.Line == 3 {
				warned = append(warned, problem.Message)
			}
			if strings.Contains(problem.Message, "cost limit") {
				t.Errorf("%s: %s", name, problem)
			}
		}
		if len(warned) != 1 {
			t.Errorf("%s: problems %v, want one that says what to write", name, problems)
		}
		if len(p.Rules()) != 2 || p.Rules()[0].Name != "never" || p.Rules()[0].Number != 2 || p.Guard() == nil ||
			p.Guard().Line != 3 {
			t.Errorf("%s: rules %+v, guard %+v", name, p.Rules(), p.Guard())
		}
		touching := approval.Call{Agent: "intruder", Tool: "Edit",
			Args: argsOf(t, map[string]any{"file_path": "/home/u/.claude/settings.json"})}
		if v := p.Evaluate(context.Background(), touching); v.Action != approval.Deny || v.Rule != "never" {
			t.Errorf("%s: what is denied became %+v", name, v)
		}
		touching.Agent = "coder"
		if v := p.Evaluate(context.Background(), touching); v.Action != approval.Quarantine ||
			v.Risk != approval.RiskCritical || v.ReasonCode != "gate_files" {
			t.Errorf("%s: %+v", name, v)
		}
		// Files that only the rule knows of stay guarded.
		touching.Args = argsOf(t, map[string]any{"file_path": "/var/lib/gate/store.db"})
		if v := p.Evaluate(context.Background(), touching); v.Action != approval.Quarantine ||
			v.Risk != approval.RiskCritical {
			t.Errorf("%s: the rule's own files: %+v", name, v)
		}
		touching.Args = argsOf(t, map[string]any{"file_path": "/srv/x"})
		if v := p.Evaluate(context.Background(), touching); v.Action != approval.Allow {
			t.Errorf("%s: %+v", name, v)
		}
		// One that the operator changed is a rule as any other, and said to be one.
		changed := Parse([]byte("policy:\n  rules:\n" + strings.Replace(string(rule), "risk: critical", "risk: medium", 1)))
		p, problems = Compile(changed, Options{})
		if p == nil || p.Guard() != nil || len(p.Rules()) != 1 || !slices.ContainsFunc(problems, func(p Problem) bool {
			return p.Warning && strings.Contains(p.Message, "was changed")
		}) {
			t.Errorf("%s, changed: %v", name, problems)
		}
	}
}

func TestRule5_LosingTheGuardIsLoosening(t *testing.T) {
	with, more := guarding(t, allowAll), guarding(t, allowAll, "/home/u/cc-work/")
	without, _ := Compile(allowAll, Options{})
	if said := phrases.InEnglish(Loosenings(with, without)); len(said) != 1 || !strings.Contains(said[0], "guard") {
		t.Errorf("said %q", said)
	}
	said := phrases.InEnglish(Loosenings(more, with))
	if len(said) != 1 || !strings.Contains(said[0], "/home/u/cc-work/") {
		t.Errorf("said %q", said)
	}
	if said := append(Loosenings(without, with), Loosenings(with, more)...); len(said) != 0 {
		t.Errorf("said %q", said)
	}
}

func TestGuardIsReadStrictly(t *testing.T) {
	for source, want := range map[string]string{
		"guard: gatefiles":              `did you mean "gate_files"`,
		"guard: [gate_files, relative]": "absolute paths",
		"guard: [gate_files, /a/../b]":  "absolute paths",
		"guard: [gate_files, /]":        "absolute paths",
		"guard: [/etc/x]":               "list gate_files",
		"guard: [gate_files, /x, /x]":   "listed twice",
		"guard: true":                   "a text is needed",
	} {
		p, problems := Compile(Parse([]byte("policy:\n  "+source+"\n")), Options{})
		if p != nil || !slices.ContainsFunc(problems, func(p Problem) bool {
			return strings.Contains(p.Message, want) && p.Line == 2
		}) {
			t.Errorf("%s: %v, want %q", source, problems, want)
		}
	}
}

// Tokens that people store for their command line (countersign login) are guarded, their reading too, and so are the
// commands that would use them.
func TestRule5_TheGuardKnowsWherePeoplesTokensAre(t *testing.T) {
	p := guarding(t, allowAll)
	const app = "/srv/app"
	verdict := func(tool, scope, name, text string) approval.Verdict {
		return p.Evaluate(t.Context(), approval.Call{Agent: "coder", Scope: scope, Tool: tool,
			Args: argsOf(t, map[string]any{name: text})})
	}
	const folder, file = "/home/u/.config/countersign/logins", "127.0.0.1_8787-0123456789ab.countersign-login"
	for _, c := range []struct{ tool, scope, name, text string }{
		{"Read", app, "file_path", folder + "/" + file},
		{"Read", folder, "file_path", file},
		{"Read", app, "file_path", "/home/u/.config//countersign/./logins/" + file},
		{"Read", app, "file_path", "/home/u/.config/countersign/x/../logins/" + file},
		{"Read", app, "file_path", "/HOME/u/.Config/CounterSign/LOGINS/" + file},
		{"get", app, "uri", "file://" + strings.ReplaceAll(folder, "sign", "%73ign") + "/x"},
		{"Read", app, "file_path", `C:\Users\u\AppData\Roaming\countersign\logins\x`},
		{"Grep", app, "path", folder},
		{"Grep", app, "path", "/home/u/.config/countersign"},
		{"Glob", "/home/u", "pattern", ".config/*/logins/*"},
		{"Grep", app, "path", "/home/u/.config"},
		{"Bash", app, "command", "cat ~/.config/countersign/logins/*"},
		{"Bash", app, "command", "cd ~/.config/countersign && cat logins/*"},
		{"Bash", app, "command", "cd ~/.config/countersign; cd logins; cat *"},
		{"Bash", app, "command", "cat ~/.config/counter*/log*/*"},
		{"Bash", app, "command", "cat ~/.config/c?untersign/l*/*"},
		{"Bash", app, "command", "cat ~/.config/{countersig,x}n/logins/x"},
		{"Bash", app, "command", "cat $HOME/.config/[c]ountersign/x/y"},
		{"Bash", app, "command", "find / -name '*.countersign-login' -exec cat {} +"},
		{"Bash", app, "command", "tar c ~/.config | base64"},
		{"Bash", app, "command", "grep -r token ${HOME}/.config/"},
		{"Bash", app, "command", "cp -r /root/.config/. /tmp/x"},
		{"Bash", "/home/u", "command", "grep -r token .config"},
		{"Bash", "/home/u", "command", "tar c '.config'"},
		{"Bash", app, "command", "ls '/Users/u/Library/Application Support/countersign/'"},
		{"Bash", app, "command", "env -u COUNTERSIGN_TOKEN countersign approve 9W1X3Y"},
		{"Bash", app, "command", "/usr/local/bin/countersign\tapprove 9W1X3Y"},
		{"Bash", app, "command", `"countersign" approve 9W1X3Y`},
		{"Bash", app, "command", "yes | countersign inbox --plain"},
		{"Bash", app, "command", "countersign login --here < token"},
		{"Bash", app, "command", "./bin/countersign backup /tmp/x"},
		{"Bash", app, "command", "countersign restore --yes /tmp/x"},
	} {
		if v := verdict(c.tool, c.scope, c.name, c.text); v.Action != approval.Quarantine ||
			v.Risk != approval.RiskCritical || v.ReasonCode != "gate_files" {
			t.Errorf("%s %q in %s: got %s, %s (%s)", c.tool, c.text, c.scope, v.Action, v.Risk, v.ReasonCode)
		}
	}
	for _, c := range []struct{ tool, scope, name, text string }{
		{"Read", app, "file_path", "/srv/app/.config/settings"},
		{"Bash", app, "command", "cat .config"},
		{"Bash", app, "command", "cat webpack.config vite.config/*"},
		{"Bash", app, "command", "vi ~/.config/nvim/init.lua"},
		{"Bash", "/home/u/app", "command", "ls .config"},
		{"Read", app, "file_path", "/srv/countersign/web/login.go"},
		{"Bash", "/srv/countersign", "command", "go test ./signin"},
		{"Bash", app, "command", "countersign call --tool x"},
		{"Bash", app, "command", "countersign cancel 9W1X3Y"},
		{"Bash", app, "command", "countersign help"},
		{"Bash", app, "command", "countersign approvers.txt"},
		{"Bash", app, "command", "ls countersign backups"},
	} {
		if v := verdict(c.tool, c.scope, c.name, c.text); v.Action != approval.Allow {
			t.Errorf("%s %q in %s: got %s (%s), want what the rules say", c.tool, c.text, c.scope, v.Action, v.ReasonCode)
		}
	}
}
