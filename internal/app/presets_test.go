package app

import (
	"os"
	"slices"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/summary"
	"countersign/internal/agents/hooks"
	"countersign/internal/locale"
	"countersign/internal/policy"
	"countersign/internal/policy/presets"
)

// events are what each coding agent tells its hook of a call.
var events = map[hooks.Agent]string{
	hooks.ClaudeCode: `{"session_id":"7494b2f4","transcript_path":"/home/u/.claude/projects/x.jsonl","cwd":"/home/u/src/app","prompt_id":"p1","permission_mode":"default",
		"effort":{"level":"medium"},"hook_event_name":"PreToolUse","tool_name":"TOOL","tool_input":INPUT,"tool_use_id":"toolu_1"}`,
	hooks.Codex: `{"session_id":"019a","turn_id":"7","transcript_path":null,"cwd":"/home/u/src/app","hook_event_name":"PreToolUse","model":"gpt","permission_mode":"default",
		"tool_name":"TOOL","tool_input":INPUT,"tool_use_id":"call_1"}`,
	hooks.Gemini: `{"session_id":"g1","transcript_path":"/tmp/t.json","cwd":"/home/u/src/app","hook_event_name":"BeforeTool","timestamp":"2026-11-21T09:30:00Z","tool_name":"TOOL","tool_input":INPUT}`,
}

// hooked is what a policy says of a call of which an agent tells its hook.
func hooked(t *testing.T, p *policy.Policy, agent hooks.Agent, tool, input string) approval.Verdict {
	t.Helper()
	e, err := hooks.Parse(agent, []byte(strings.NewReplacer("TOOL", tool, "INPUT", input).Replace(events[agent])))
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Call(nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := args.Parse(c.Args)
	if err != nil {
		t.Fatal(err)
	}
	return p.Evaluate(t.Context(), approval.Call{Agent: string(agent), Server: c.Server, Tool: c.Tool, Args: a,
		Scope:     c.Scope,
		SessionID: c.SessionID, TurnID: c.TurnID})
}

func included(t *testing.T, yaml string) *policy.Policy {
	t.Helper()
	cfg := policy.Parse([]byte(yaml))
	cfg.GateFiles = []string{"/home/u/.config/countersign/countersign.yaml", "/home/u/.config/countersign/countersign.env"}
	p, problems := policy.Compile(cfg, policy.Options{})
	if p == nil {
		t.Fatal(problems)
	}
	return p
}

const codingAgentPreset = "policy:\n  include: [preset/coding-agent]\n"

// What coding agents do all day asks nobody.
func TestCodingAgentsReadAndPlanWithoutAsking(t *testing.T) {
	t.Parallel()
	p := included(t, codingAgentPreset)
	for _, call := range []struct {
		agent       hooks.Agent
		tool, input string
	}{
		{hooks.ClaudeCode, "Read", `{"file_path":"/home/u/src/app/main.go"}`},
		{hooks.ClaudeCode, "Read", `{"file_path":"/home/u/src/app/main.go","offset":100,"limit":50}`},
		{hooks.ClaudeCode, "Read", `{"file_path":"/home/u/go/pkg/mod/x/y.go"}`},
		{hooks.ClaudeCode, "Read", `{"file_path":"/home/u/src/app/docs/a.pdf","pages":"1-5"}`},
		{hooks.ClaudeCode, "Glob", `{"pattern":"**/*.go"}`},
		{hooks.ClaudeCode, "Glob", `{"pattern":"*.ts","path":"/home/u/src/app/web"}`},
		{hooks.ClaudeCode, "Grep", `{"pattern":"func main"}`},
		{hooks.ClaudeCode, "Grep",
			`{"pattern":"TODO","path":"/home/u/src/app","output_mode":"content","-n":true,"-C":3,"glob":"*.go","head_limit":50}`},
		{hooks.ClaudeCode, "LS", `{"path":"/home/u/src/app"}`},
		{hooks.ClaudeCode, "TodoWrite",
			`{"todos":[{"content":"Fix the test","status":"in_progress","activeForm":"Fixing the test"}]}`},
		{hooks.ClaudeCode, "TaskCreate", `{"subject":"Fix","description":"Fix the test"}`},
		{hooks.ClaudeCode, "TaskUpdate", `{"taskId":"1","status":"completed"}`},
		{hooks.ClaudeCode, "TaskList", `{}`},
		{hooks.ClaudeCode, "EnterPlanMode", `{}`},
		{hooks.ClaudeCode, "ExitPlanMode", `{"plan":"1. Read\n2. Edit"}`},
		{hooks.ClaudeCode, "AskUserQuestion",
			`{"questions":[{"question":"Which?","header":"X","options":[{"label":"a","description":"b"}],"multiSelect":false}]}`},
		{hooks.ClaudeCode, "Bash", `{"command":"git status","description":"Show the state of the tree"}`},
		{hooks.ClaudeCode, "Bash", `{"command":"git log --oneline -5 && git diff --stat","timeout":120000}`},
		{hooks.ClaudeCode, "Bash", `{"command":"ls -la src/ 2>/dev/null","run_in_background":false}`},
		{hooks.ClaudeCode, "Bash", `{"command":"grep -rn \"func main\" --include=\"*.go\" . | head -20"}`},
		{hooks.ClaudeCode, "Bash", `{"command":"cd /home/u/src/app && rg -n 'x' /home/u/src/app/web"}`},
		{hooks.ClaudeCode, "ToolSearch", `{"query":"select:Read"}`},
		{hooks.ClaudeCode, "ListMcpResourcesTool", `{"server":"files"}`},
		{hooks.ClaudeCode, "StructuredOutput", `{"answer":"42"}`},
		{hooks.ClaudeCode, "TaskStop", `{"task_id":"1"}`},
		{hooks.ClaudeCode, "KillShell", `{"shell_id":"1"}`},
		{hooks.Codex, "Bash", `{"command":"sed -n '1,200p' main.go"}`},
		{hooks.Codex, "Bash", `{"command":"rg --files | head -50"}`},
		{hooks.Codex, "Bash", `{"command":["bash","-lc","rg -n TODO src"]}`},
		{hooks.Codex, "Bash", `{"command":"nl -ba main.go | sed -n '1,80p'"}`},
		{hooks.Codex, "update_plan", `{"explanation":"x","plan":[{"step":"Read","status":"completed"}]}`},
		{hooks.Codex, "view_image", `{"path":"/home/u/src/app/a.png"}`},
		{hooks.Codex, "request_user_input", `{"questions":[]}`},
		{hooks.Gemini, "read_file", `{"file_path":"src/main.ts"}`},
		{hooks.Gemini, "read_file", `{"absolute_path":"/home/u/src/app/main.ts","offset":0,"limit":100}`},
		{hooks.Gemini, "read_many_files", `{"include":["src/**/*.ts"]}`},
		{hooks.Gemini, "list_directory", `{"dir_path":"."}`},
		{hooks.Gemini, "glob", `{"pattern":"**/*.ts"}`},
		{hooks.Gemini, "grep_search", `{"pattern":"main","dir_path":"./src"}`},
		{hooks.Gemini, "grep_search", `{"pattern":"main","dir_path":"."}`},
		{hooks.Gemini, "search_file_content", `{"pattern":"main","path":"src"}`},
		{hooks.Gemini, "write_todos", `{"todos":[{"description":"Fix","status":"pending"}]}`},
		{hooks.Gemini, "enter_plan_mode", `{"reason":"x"}`},
		{hooks.Gemini, "exit_plan_mode", `{"plan_filename":"plan.md"}`},
		{hooks.Gemini, "ask_user", `{"questions":[{"question":"Which?"}]}`},
		{hooks.Gemini, "update_topic", `{"title":"x"}`},
		{hooks.Gemini, "run_shell_command", `{"command":"git diff HEAD~1","description":"Shows the change"}`},
		{hooks.Gemini, "run_shell_command", `{"command":"ls -la","is_background":false}`},
	} {
		if v := hooked(t, p, call.agent, call.tool, call.input); v.Action != approval.Allow {
			t.Errorf("%s %s %s: got %s, %s by %q", call.agent, call.tool, call.input, v.Action, v.ReasonCode, v.Rule)
		}
	}
}

// A model that chooses another time-out on its next try asks for the same command: its card marks the time-out, and
// what was approved runs.
func TestRule3_ATimeoutMakesNoOtherCommand(t *testing.T) {
	t.Parallel()
	p := included(t, codingAgentPreset)
	for _, c := range []struct {
		agent hooks.Agent
		tool  string
	}{{hooks.ClaudeCode, "Bash"}, {hooks.Codex, "Bash"}, {hooks.Gemini, "run_shell_command"}} {
		v := hooked(t, p, c.agent, c.tool, `{"command":"make deploy","timeout":120000}`)
		if v.Action != approval.Quarantine || !slices.Equal(v.IgnoreArgs, []string{"timeout", "timeout_ms"}) {
			t.Errorf("%s: %s, without %q", c.tool, v.Action, v.IgnoreArgs)
		}
	}
}

// Nor does a model that words the instruction of an edit anew: its card marks that, and what was shown is what Gemini
// acts on.
func TestRule3_AnInstructionOfAnEditIsShownAndMakesNoOtherEdit(t *testing.T) {
	t.Parallel()
	p := included(t, codingAgentPreset)
	for _, file := range []string{"src/a.ts", ".git/config", "/etc/hosts"} {
		v := hooked(t, p, hooks.Gemini, "replace", `{"file_path":"`+file+
			`","instruction":"x","old_string":"a","new_string":"b"}`)
		if v.Action != approval.Quarantine || !slices.Contains(v.IgnoreArgs, "instruction") {
			t.Errorf("%s: %s by %q, without %q", file, v.Action, v.Rule, v.IgnoreArgs)
		}
	}
}

// Nor where the guard has its say: an approval that only the same words could use would never be used.
func TestRule3_AnInstructionMakesNoOtherEditOfAGuardedFile(t *testing.T) {
	t.Parallel()
	p := included(t, codingAgentPreset+"  guard: gate_files\n")
	v := hooked(t, p, hooks.Gemini, "replace",
		`{"file_path":".gemini/settings.json","instruction":"x","old_string":"a","new_string":"b"}`)
	if v.ReasonCode != "gate_files" || v.Risk != approval.RiskCritical || !slices.Equal(v.IgnoreArgs,
		[]string{"instruction"}) {
		t.Errorf("%s, %s by %q, without %q", v.ReasonCode, v.Risk, v.Rule, v.IgnoreArgs)
	}
}

// Whatever changes something, reaches the web, or may do more than it says, is asked about.
func TestCodingAgentsAskAboutTheRest(t *testing.T) {
	t.Parallel()
	p := included(t, codingAgentPreset)
	const edits, patches, others, commands = "edits in the folder that the agent works in",
		"patches in the folder that the agent works in", "other edits", "other commands"
	const ordinary = "tests, checks and formatting"
	const outside, many = "searches outside of the folder that the agent works in",
		"many files outside of the folder that the agent works in"
	for _, call := range []struct {
		agent       hooks.Agent
		tool, input string
		risk        approval.Risk
		rule        string // without preset/coding-agent
	}{
		{hooks.ClaudeCode, "Edit", `{"file_path":"/home/u/src/app/main.go","old_string":"a","new_string":"b"}`,
			approval.RiskMedium, edits},
		{hooks.ClaudeCode, "Write", `{"file_path":"/home/u/src/app/new.go","content":"x"}`, approval.RiskMedium, edits},
		{hooks.ClaudeCode, "NotebookEdit", `{"notebook_path":"/home/u/src/app/a.ipynb","new_source":"x"}`,
			approval.RiskMedium, edits},
		{hooks.ClaudeCode, "Edit", `{"file_path":"/etc/hosts","old_string":"a","new_string":"b"}`, approval.RiskHigh, others},
		{hooks.ClaudeCode, "Edit", `{"file_path":"/home/u/src/app/../x","old_string":"a","new_string":"b"}`,
			approval.RiskHigh, others},
		{hooks.ClaudeCode, "Write", `{"file_path":"/home/u/src/app/.git/config","content":"x"}`, approval.RiskHigh,
			"edits of git's own files"},
		{hooks.ClaudeCode, "Write", `{"file_path":"/home/u/src/app/.GIT/hooks/pre-commit","content":"x"}`, approval.RiskHigh,
			"edits of git's own files"},
		{hooks.ClaudeCode, "Write", `{"file_path":"/home/u/src/app/.claude/settings.json","content":"x"}`,
			approval.RiskCritical, edits},
		{hooks.ClaudeCode, "Bash", `{"command":"npm test"}`, approval.RiskMedium, ordinary},
		{hooks.ClaudeCode, "Bash", `{"command":"ls; rm -rf ."}`, approval.RiskHigh, commands},
		{hooks.ClaudeCode, "Bash", `{"command":"find . -exec rm {} +"}`, approval.RiskHigh, commands},
		{hooks.ClaudeCode, "Bash", `{"command":"ls","dangerouslyDisableSandbox":true}`, approval.RiskHigh, commands},
		{hooks.ClaudeCode, "Bash", `{"command":"ls","run_in_background":true}`, approval.RiskHigh, commands},
		{hooks.ClaudeCode, "Bash", `{"command":"git diff src ~/.config/countersign"}`, approval.RiskCritical, commands},
		{hooks.ClaudeCode, "Bash", `{"command":"cat .claude/settings.json"}`, approval.RiskCritical, "guard: gate_files"},
		{hooks.ClaudeCode, "Bash", `{"command":"cat ~/.config/countersign/countersign.env"}`, approval.RiskCritical,
			"guard: gate_files"},
		{hooks.ClaudeCode, "Read", `{"file_path":"/home/u/.config/countersign/countersign.env"}`, approval.RiskCritical,
			"guard: gate_files"},
		{hooks.ClaudeCode, "Read", `{"file_path":"/proc/self/environ"}`, approval.RiskHigh, "processes and devices"},
		{hooks.ClaudeCode, "Read", `{"file_path":"/tmp/../proc/self/environ"}`, approval.RiskHigh, "processes and devices"},
		{hooks.ClaudeCode, "Read", `{"file_path":"src/../../../../../proc/self/environ"}`, approval.RiskHigh,
			"processes and devices"},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/proc/self/environ","output_mode":"content"}`,
			approval.RiskHigh, "processes and devices"},
		{hooks.Gemini, "grep_search", `{"pattern":"TOKEN","dir_path":"/proc"}`, approval.RiskHigh, "processes and devices"},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/home/u/."}`, approval.RiskMedium,
			"searches of a whole disk or home folder"},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/./home/./u/.//"}`, approval.RiskMedium,
			"searches of a whole disk or home folder"},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/."}`, approval.RiskMedium,
			"searches of a whole disk or home folder"},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/home/u/./.ssh"}`, approval.RiskMedium,
			"searches of a whole disk or home folder"},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/home/u"}`, approval.RiskMedium,
			"searches of a whole disk or home folder"},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/"}`, approval.RiskMedium,
			"searches of a whole disk or home folder"},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/home/u/.config"}`, approval.RiskCritical,
			"searches of a whole disk or home folder"},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/srv"}`, approval.RiskMedium, outside},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/opt/gate/config"}`, approval.RiskMedium, outside},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"/home/u/src/application"}`, approval.RiskMedium, outside},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"~/src/other"}`, approval.RiskMedium, outside},
		{hooks.ClaudeCode, "Grep", `{"pattern":"TOKEN","path":"C:\\gate"}`, approval.RiskMedium, outside},
		{hooks.Codex, "grep_files", `{"pattern":"TOKEN","path":"/var/lib"}`, approval.RiskMedium, outside},
		{hooks.Gemini, "grep_search", `{"pattern":"TOKEN","dir_path":"/srv"}`, approval.RiskMedium, outside},
		{hooks.Gemini, "search_file_content", `{"pattern":"TOKEN","path":"/srv/x"}`, approval.RiskMedium, outside},
		{hooks.Gemini, "read_many_files", `{"include":["src/**","/srv/gate/*"]}`, approval.RiskHigh, many},
		{hooks.Gemini, "read_many_files", `{"include":["{src,../other}/**"]}`, approval.RiskHigh, many},
		{hooks.Gemini, "read_many_files", `{"paths":["~/other/*"]}`, approval.RiskHigh, many},
		{hooks.Gemini, "read_many_files", `{"include":["src/a.ts","/proc/1/environ"]}`, approval.RiskHigh, many},
		{hooks.Gemini, "read_many_files", `{"include":["../../../../proc/*/environ"]}`, approval.RiskHigh, many},
		{hooks.Gemini, "read_many_files", `{"paths":["{a,/proc/1/environ}"]}`, approval.RiskHigh, many},
		{hooks.Gemini, "read_many_files", `{"include":["/pr*c/1/environ"]}`, approval.RiskHigh, many},
		{hooks.ClaudeCode, "WebFetch", `{"url":"https://example.com","prompt":"x"}`, approval.RiskMedium, "the web"},
		{hooks.ClaudeCode, "WebSearch", `{"query":"x"}`, approval.RiskMedium, "the web"},
		{hooks.ClaudeCode, "Agent", `{"prompt":"x","description":"y","subagent_type":"z"}`, approval.RiskHigh, ""},
		{hooks.ClaudeCode, "PowerShell", `{"command":"ls"}`, approval.RiskHigh, commands},
		{hooks.Codex, "apply_patch", `{"command":"*** Begin Patch\n*** Update File: main.go\n@@\n-a\n+b\n*** End Patch"}`,
			approval.RiskMedium, patches},
		{hooks.Codex, "apply_patch", `{"command":"*** Begin Patch\n*** Add File: ../x\n+b\n*** End Patch"}`,
			approval.RiskHigh, others},
		{hooks.Codex, "apply_patch", `{"command":"*** Begin Patch\n*** Add File: /etc/x\n+b\n*** End Patch"}`,
			approval.RiskHigh, others},
		{hooks.Codex, "apply_patch",
			`{"command":"*** Begin Patch\n*** Update File: a\n*** Move to: a/../../x\n*** End Patch"}`, approval.RiskHigh,
			others},
		{hooks.Codex, "apply_patch", `{"command":"*** Begin Patch\n*** Update File: .git/config\n@@\n-a\n+b\n*** End Patch"}`,
			approval.RiskHigh, others},
		{hooks.Codex, "apply_patch", `{"command":"*** Begin Patch\n*** Add File: .Git/hooks/x\n+b\n*** End Patch"}`,
			approval.RiskHigh, others},
		{hooks.Codex, "Bash", `{"command":"cargo test"}`, approval.RiskMedium, ordinary},
		{hooks.Codex, "Bash", `{"command":"rg x /etc"}`, approval.RiskHigh, commands},
		{hooks.Codex, "Bash", `{"command":"git status","workdir":"/tmp/x"}`, approval.RiskHigh, commands},
		{hooks.Codex, "write_stdin", `{"session_id":1,"chars":"!rm\n"}`, approval.RiskHigh, ""},
		{hooks.Gemini, "replace", `{"file_path":"src/a.ts","old_string":"a","new_string":"b"}`, approval.RiskMedium, edits},
		{hooks.Gemini, "write_file", `{"file_path":"/home/u/src/app/a.ts","content":"b"}`, approval.RiskMedium, edits},
		{hooks.Gemini, "write_file", `{"file_path":"../a.ts","content":"b"}`, approval.RiskHigh, others},
		{hooks.Gemini, "run_shell_command", `{"command":"git status","dir_path":"vendor/x"}`, approval.RiskHigh, commands},
		{hooks.Gemini, "run_shell_command", `{"command":"npm run lint"}`, approval.RiskMedium, ordinary},
		{hooks.Gemini, "web_fetch", `{"prompt":"https://example.com"}`, approval.RiskMedium, "the web"},
		{hooks.Gemini, "save_memory", `{"fact":"x"}`, approval.RiskHigh, ""},
	} {
		rule := call.rule
		if rule != "" && !strings.HasPrefix(rule, "guard") {
			rule = "preset/coding-agent: " + rule
		}
		v := hooked(t, p, call.agent, call.tool, call.input)
		if shares := call.rule == edits || call.rule == patches; shares != (v.Group == approval.GroupRun) {
			t.Errorf("%s %s %s: shares a card by %q", call.agent, call.tool, call.input, v.Group)
		}
		if v.Action != approval.Quarantine || v.Risk != call.risk || v.Rule != rule {
			t.Errorf("%s %s %s: got %s at %s risk by %q (%s); want to be asked at %s risk by %q", call.agent, call.tool,
				call.input, v.Action, v.Risk, v.Rule, v.ReasonCode, call.risk, rule)
		}
	}
}

// What the presets allow is the agent's own: a tool of an MCP server that is called the same is asked about.
func TestPresetsAllowNoToolOfAnMCPServer(t *testing.T) {
	t.Parallel()
	p := included(t, codingAgentPreset)
	for _, r := range p.Rules() {
		if r.Action != approval.Allow {
			continue
		}
		for _, tool := range r.Tools {
			input := map[bool]string{true: `{"command":"ls"}`, false: `{}`}[strings.Contains(tool, "Bash") ||
				strings.Contains(tool, "shell")]
			bare := tool[strings.LastIndexByte(tool, '/')+1:]
			a, err := args.Parse([]byte(input))
			if err != nil {
				t.Fatal(err)
			}
			if v := p.Evaluate(t.Context(), approval.Call{Agent: "a", Tool: bare, Args: a,
				Scope: "/s"}); v.Action != approval.Allow {
				t.Errorf("%s: got %s where it is the agent's own", bare, v.Action)
			}
			if v := p.Evaluate(t.Context(), approval.Call{Agent: "a", Server: "evil", Tool: bare, Args: a,
				Scope: "/s"}); v.Action == approval.Allow {
				t.Errorf("%s of the server evil is allowed", bare)
			}
			if v := hooked(t, p, hooks.ClaudeCode, "mcp__evil__"+bare, input); v.Action == approval.Allow {
				t.Errorf("mcp__evil__%s is allowed", bare)
			}
		}
	}
}

// What a policy says itself comes before what it includes.
func TestOwnRulesComeBeforePresets(t *testing.T) {
	t.Parallel()
	p := included(t, codingAgentPreset+`  rules:
    - name: keys
      tools: [Read]
      conditions: [{param: file_path, matches: '\.pem$'}]
      action: deny
    - {name: tests, tools: [Bash], conditions: [{param: command, equals: go test ./...}], action: allow}
    - {name: no git, tools: [Bash], conditions: [{param: command, matches: '\bgit\b'}], action: deny}
`)
	for _, test := range []struct {
		tool, input string
		want        approval.Action
	}{
		{"Read", `{"file_path":"/home/u/src/app/a.pem"}`, approval.Deny},
		{"Read", `{"file_path":"/home/u/src/app/a.go"}`, approval.Allow},
		{"Bash", `{"command":"go test ./..."}`, approval.Allow},
		{"Bash", `{"command":"git status"}`, approval.Deny},
		{"Bash", `{"command":"ls"}`, approval.Allow},
	} {
		if v := hooked(t, p, hooks.ClaudeCode, test.tool, test.input); v.Action != test.want {
			t.Errorf("%s %s: got %s by %q, want %s", test.tool, test.input, v.Action, v.Rule, test.want)
		}
	}
}

// Where Gemini CLI gives a server's tool no prefix, what it says of the server tells it from an agent's own.
func TestThePresetAllowsNoToolOfAServerThatGeminiNamesWithoutAPrefix(t *testing.T) {
	t.Parallel()
	p := included(t, codingAgentPreset)
	for _, tool := range []string{"Read", "Glob", "list_dir", "read_file", "TaskUpdate"} {
		v := hooked(t, p, hooks.Gemini, tool, `{"file_path":"a"},"mcp_context":{"server_name":"files","command":"npx"}`)
		if v.Action != approval.Quarantine {
			t.Errorf("%s is %s by %q", tool, v.Action, v.Rule)
		}
	}
}

// What a preset's rule, or one of the demo's, says to people it says in each language that the program speaks.
func TestPresetsAndTheDemoSpeakEachLanguage(t *testing.T) {
	t.Parallel()
	demo, err := os.ReadFile("../demo/countersign.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies, said := map[string]string{"the demo": string(demo)}, 0
	for _, name := range presets.Names() {
		policies["preset/"+name] = "policy:\n  include: [preset/" + name + "]\n"
	}
	for name, text := range policies {
		for _, r := range included(t, text).Rules() {
			for key, w := range map[string]struct {
				text string
				in   summary.Wording
			}{"message": {r.Message, r.MessageIn}, "summary": {r.Summary, r.SummaryIn}} {
				if w.text == "" {
					continue
				}
				said++
				for _, tag := range locale.Tags() {
					if strings.TrimSpace(w.in[tag]) == "" {
						t.Errorf("%s: the %s of %q is not there in %s", name, key, r.Name, tag)
					}
				}
			}
		}
	}
	if said < 20 {
		t.Errorf("only %d sentences were found", said)
	}
}

// A home folder is one however its name is written: a search in it is asked about.
func TestAHomeFolderIsNoProjectHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	p := included(t, codingAgentPreset)
	for scope, want := range map[string]approval.Action{
		"/home/u": approval.Quarantine, "/home/u/": approval.Quarantine, "/home/u/.": approval.Quarantine,
		"/home/u/./": approval.Quarantine,
		"/home/./u":  approval.Quarantine, "//home//u//.": approval.Quarantine, "/home/u/src/..": approval.Quarantine,
		"/.": approval.Quarantine,
		"/":  approval.Quarantine, "/root/.": approval.Quarantine, "/etc/./": approval.Quarantine,
		"/home/u/src": approval.Allow, "/home/u/.dotfiles": approval.Allow, "/home/u/./src": approval.Allow,
		"/srv/app": approval.Allow,
	} {
		for tool, input := range map[string]string{"Grep": `{"pattern":"TOKEN"}`, "read_many_files": `{"include":["**/*"]}`,
			"Bash": `{"command":"rg TOKEN"}`} {
			a, err := args.Parse([]byte(input))
			if err != nil {
				t.Fatal(err)
			}
			if v := p.Evaluate(t.Context(), approval.Call{Agent: "a", Tool: tool, Args: a, Scope: scope}); v.Action != want {
				t.Errorf("%s in %s: got %s by %q, want %s", tool, scope, v.Action, v.Rule, want)
			}
		}
	}
}
