package policy

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/policy/presets"
)

// Every preset compiles without a word of doubt, alone and with all others.
func TestPresetsCompile(t *testing.T) {
	together := "policy:\n  include:\n"
	for _, name := range presets.Names() {
		together += "    - preset/" + name + "\n"
		p, problems := Compile(Parse([]byte("policy:\n  include: [preset/"+name+"]\n")),
			Options{Servers: []string{"files", "bank"}})
		if p == nil || len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		if presets.About(name) == "" {
			t.Errorf("%s says nothing of itself", name)
		}
	}
	if p, problems := Compile(Parse([]byte(together)), Options{}); p == nil || len(problems) > 0 {
		t.Errorf("all together: %v", problems)
	}
}

// Each class of calls has the time that it is given: payments an hour, files half of one, self-modification two. The
// presets for them allow nothing.
func TestPresetsOfClassesAskForAsLongAsTheClassHas(t *testing.T) {
	for name, calls := range map[string]struct {
		timeout time.Duration
		calls   []string
	}{
		"payments": {time.Hour, []string{"transfer_credits", "bank/create_payment", "pay_invoice", "stripe/refund_charge",
			"wallet_withdraw", "send_money"}},
		"files": {30 * time.Minute, []string{"write_file", "files/write_file", "edit_file", "files/move_file", "delete_file",
			"files/create_directory"}},
		"self-modification": {2 * time.Hour, []string{"update_self", "edit_own_code", "install_skill", "self_modify_code",
			"set_system_prompt",
			`write_file {"path":"AGENTS.md"}`, `Edit {"file_path":"/s/CLAUDE.md"}`,
			`files/write_file {"path":"/s/.cursor/rules/x"}`}},
	} {
		p := compile(t, "policy:\n  include: [preset/"+name+"]\n")
		for _, r := range p.Rules() {
			if r.Action != approval.Quarantine {
				t.Errorf("%s: the rule %q says %s", name, r.Name, r.Action)
			}
		}
		for _, call := range calls.calls {
			target, raw, _ := strings.Cut(call, " ")
			server, tool, found := strings.Cut(target, "/")
			if !found {
				server, tool = "", target
			}
			a, err := args.Parse([]byte(cmp.Or(raw, `{}`)))
			if err != nil {
				t.Fatal(err)
			}
			v := p.Evaluate(t.Context(), approval.Call{Agent: "a", Server: server, Tool: tool, Args: a, Scope: "/s"})
			if v.Action != approval.Quarantine || v.Timeout != calls.timeout || !strings.HasPrefix(v.Rule, "preset/"+name+": ") {
				t.Errorf("%s: %s is %s for %s by %q", name, call, v.Action, v.Timeout, v.Rule)
			}
		}
	}
}

// Why people are asked is the reason of the rule, in each language: not the call once more, which stands beside it.
func TestPresetsSayWhyAndNotTheCallAgain(t *testing.T) {
	for _, name := range presets.Names() {
		for _, r := range compile(t, "policy:\n  include: [preset/"+name+"]\n").rules {
			if r.action != approval.Quarantine {
				continue
			}
			for _, tag := range []string{"", "ja", "th", "zh-TW"} {
				if why := cmp.Or(r.sentences.Message.In(tag), r.message); why == "" || strings.Contains(why, "{args") {
					t.Errorf("%s: %q says %q", name, r.name, why)
				}
			}
		}
	}
}

// A project's own tests and formatting are asked about as ordinary work; what could run something else is not taken for
// them.
func TestTestsAndFormattingAreOrdinaryWork(t *testing.T) {
	p := compile(t, "policy:\n  include: [preset/coding-agent]\n")
	for call, want := range map[string]approval.Risk{
		"npm test": approval.RiskMedium, "npm run lint": approval.RiskMedium, "cargo fmt": approval.RiskMedium,
		"go test ./...": approval.RiskMedium, "go test -race ./internal/...": approval.RiskMedium,
		"gofmt -w a.go": approval.RiskMedium, "pytest -q tests/a_test.py": approval.RiskMedium,
		`npm test","timeout":5,"run_in_background":false,"description":"x`: approval.RiskMedium,

		"npm test && curl evil.example": approval.RiskHigh, `npm test\nrm x`: approval.RiskHigh,
		"npm test $(x)": approval.RiskHigh, "npm test x": approval.RiskHigh, "npm run deploy": approval.RiskHigh,
		"npx eslint": approval.RiskHigh, "go test -exec rm ./...": approval.RiskHigh, "go test all": approval.RiskHigh,
		"go test golang.org/x/net": approval.RiskHigh, "go build ./...": approval.RiskHigh,
		"make install": approval.RiskHigh, "make test install": approval.RiskHigh, "make test CC=x": approval.RiskHigh,
		"gofmt -w /etc/x": approval.RiskHigh, "prettier --write ../x": approval.RiskHigh, "rm -rf x": approval.RiskHigh,
		`npm test","cwd":"/tmp/x`: approval.RiskHigh, `npm test","dir_path":"/tmp/x`: approval.RiskHigh,
		`npm test","env":{"A":"b"},"description":"x`:                  approval.RiskHigh,
		`npm test","dangerouslyDisableSandbox":true,"description":"x`: approval.RiskHigh,
		`npm test","run_in_background":true,"description":"x`:         approval.RiskHigh,
	} {
		a, err := args.Parse([]byte(`{"command":"` + call + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		v := p.Evaluate(t.Context(), approval.Call{Agent: "a", Tool: "Bash", Args: a, Scope: "/s"})
		if v.Action != approval.Quarantine || v.Risk != want {
			t.Errorf("%s is %s at %s, want %s", call, v.Action, v.Risk, want)
		}
	}
}

// A file of the system is of critical risk, in whatever way a tool is told of it.
func TestThePresetForFilesKnowsTheSystems(t *testing.T) {
	p := compile(t, "policy:\n  include: [preset/files]\n")
	for path, want := range map[string]approval.Risk{
		"/etc/passwd": approval.RiskCritical, "//etc/./x": approval.RiskCritical, "/srv/a": approval.RiskHigh,
		"a.txt": approval.RiskHigh,
	} {
		a, err := args.Parse([]byte(`{"path":"` + path + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		if v := p.Evaluate(t.Context(), approval.Call{Agent: "a", Server: "files", Tool: "write_file",
			Args: a}); v.Risk != want || v.Action != approval.Quarantine {
			t.Errorf("%s: %s at %s risk", path, v.Action, v.Risk)
		}
	}
}

// A search without a folder is of the one that the agent works in: in a home folder it is asked about as one that names
// it.
func TestThePresetForCodingAgentsAsksAboutSearchesWhereTheAgentWorksInAHomeFolder(t *testing.T) {
	p := compile(t, "policy:\n  include: [preset/coding-agent]\n")
	for _, c := range []struct {
		tool, args, scope string
		want              approval.Action
	}{
		{"Grep", `{"pattern":"TOKEN"}`, "/home/u", approval.Quarantine},
		{"Grep", `{"pattern":"TOKEN","path":"./"}`, "/root/", approval.Quarantine},
		{"grep_search", `{"pattern":"TOKEN","dir_path":"."}`, "/Users/u", approval.Quarantine},
		{"read_many_files", `{"include":["**/*"]}`, "/home/u", approval.Quarantine},
		{"Bash", `{"command":"grep -rn TOKEN ."}`, "/home/u", approval.Quarantine},
		{"Grep", `{"pattern":"TOKEN","path":"/home/u/src/app"}`, "/home/u", approval.Allow},
		{"Grep", `{"pattern":"TOKEN","path":"src"}`, "/home/u", approval.Allow},
		{"Grep", `{"pattern":"TOKEN"}`, "/home/u/src", approval.Allow},
		{"Grep", `{"pattern":"TOKEN"}`, "", approval.Allow},
		{"Read", `{"file_path":"/home/u/a"}`, "/home/u", approval.Allow},
	} {
		a, err := args.Parse([]byte(c.args))
		if err != nil {
			t.Fatal(err)
		}
		v := p.Evaluate(t.Context(), approval.Call{Agent: "a", Tool: c.tool, Args: a, Scope: c.scope})
		if v.Action != c.want {
			t.Errorf("%s %s in %q: %s by %q", c.tool, c.args, c.scope, v.Action, v.Rule)
		}
	}
}
