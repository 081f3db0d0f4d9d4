package settings

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/internal/config"
)

func noEnv(string) (string, bool) { return "", false }

var gateFiles = []string{"gate_files"}

func guard(t *testing.T, old string, entries ...string) string {
	t.Helper()
	b, err := Guard("gate.yaml", []byte(old), append(gateFiles[:1:1], entries...), noEnv)
	if err != nil {
		t.Fatalf("%v in\n%s", err, old)
	}
	return string(b)
}

func unguard(t *testing.T, old string) string {
	t.Helper()
	b, err := Unguard("gate.yaml", []byte(old), noEnv)
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
  # an hour is enough
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

const line = "guard: gate_files # countersign install\n"

func TestRule5_InstallWritesOneLineAndUninstallTakesItOut(t *testing.T) {
	const head = "agents: [{name: coder, token: coder-token-0123456789}]\n"
	servers := configured +
		"mcp:\n  servers:\n    - {name: files, command: [files-server], tools: [read, write], require_approval: [write]}\n"
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	const rules = "    - {tools: [x], action: allow, risk: low}\n"
	for old, want := range map[string]string{
		configured:                            strings.Replace(configured, "policy:\n", "policy:\n  "+line, 1),
		servers:                               strings.Replace(servers, "policy:\n", "policy:\n  "+line, 1),
		head:                                  head + "policy: # countersign install\n  " + line,
		head + "policy:\n":                    head + "policy:\n  " + line,
		head + "policy:\n  mode: observe\n":   head + "policy:\n  " + line + "  mode: observe\n",
		head + "policy:\n    mode: observe\n": head + "policy:\n    " + line + "    mode: observe\n",
		head + "policy:\n  rules:\n":          head + "policy:\n  " + line + "  rules:\n",
		head + "policy:\n  rules:\n" + rules:  head + "policy:\n  " + line + "  rules:\n" + rules,
		head + "policy:\n  rules: [" + rules[6:45] + "]\n": head + "policy:\n  " + line + "  rules: [" + rules[6:45] + "]\n",
		"security:\n  hitl:\n    rules:\n  " + rules + head: "security:\n  hitl:\n    " + line + "    rules:\n  " + rules +
			head,
		crlf("policy:\n  rules:\n" + rules + head): crlf("policy:\n  " + line + "  rules:\n" + rules + head),
	} {
		got := guard(t, old)
		if got != want {
			t.Errorf("%s\nbecame\n%s\nwant\n%s", old, got, want)
		}
		if again := guard(t, got); again != got {
			t.Errorf("repeated, it became\n%s", again)
		}
		if back := unguard(t, got); back != old {
			t.Errorf("%s\ncame back as\n%s", old, back)
		}
		if again := unguard(t, old); again != old {
			t.Errorf("nothing to take out of\n%s\nbut it became\n%s", old, again)
		}
	}
	// Without a line end at the end.
	if got := guard(t, head+"policy:\n  mode: observe"); got != head+"policy:\n  "+line+"  mode: observe\n" {
		t.Errorf("got\n%s", got)
	}
}

func TestRule5_TheGuardNamesFurtherFolders(t *testing.T) {
	cc, home := filepath.Join(t.TempDir(), "cc-work"), filepath.Join(t.TempDir(), ".codex")
	want := []string{"gate_files", filepath.ToSlash(cc) + "/"}
	if got := GuardPaths(map[string]string{ClaudeCode: cc, Codex: home}); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	one := guard(t, configured)
	more := guard(t, one, "/home/u/it's/")
	if want := strings.Replace(configured, "policy:\n",
		"policy:\n  guard: [gate_files, '/home/u/it''s/'] # countersign install\n", 1); more != want {
		t.Errorf("got\n%s\nwant\n%s", more, want)
	}
	if again := guard(t, more); again != more {
		t.Errorf("what another agent's install named went out:\n%s", again)
	}
	if back := unguard(t, more); back != configured {
		t.Errorf("came back as\n%s", back)
	}
	// One that somebody wrote stays theirs.
	theirs := strings.Replace(configured, "policy:\n", "policy:\n  guard: gate_files   # ours\n", 1)
	if got := guard(t, theirs); got != theirs {
		t.Errorf("got\n%s", got)
	}
	if got := unguard(t, theirs); got != theirs {
		t.Errorf("got\n%s", got)
	}
	if got := guard(t, theirs, "/x/y"); got != strings.Replace(configured, "policy:\n",
		"policy:\n  guard: [gate_files, '/x/y'] # ours\n", 1) {
		t.Errorf("got\n%s", got)
	}
}

// What an earlier install wrote goes out, wherever it stands, whether it is installed anew or taken out.
func TestRule5_AnEarlierRuleIsReplaced(t *testing.T) {
	for _, name := range []string{"first", "second"} {
		b, err := os.ReadFile("../../policy/testdata/guard/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		rule := string(b)
		first := strings.Replace(configured, "  rules: # in order\n", "  rules: # in order\n"+rule, 1)
		last := strings.Replace(configured, "  # the end\n", rule+"  # the end\n", 1)
		for _, old := range []string{first, last, strings.ReplaceAll(first, "\n", "\r\n")} {
			cfg, _, err := config.Parse("gate.yaml", []byte(old), noEnv)
			if err != nil || len(cfg.PolicyConfig.OldGuards()) != 1 {
				t.Fatalf("%v in\n%s", err, old)
			}
			was := configured
			if strings.Contains(old, "\r") {
				was = strings.ReplaceAll(was, "\n", "\r\n")
			}
			if got := guard(t, old); got != guard(t, was) {
				t.Errorf("got\n%s\nwant\n%s", got, guard(t, was))
			}
			if got := unguard(t, old); got != was {
				t.Errorf("got\n%s\nwant\n%s", got, was)
			}
		}
	}
}

func TestWhatCannotBeEditedSafelyIsLeftToThePerson(t *testing.T) {
	const head = "agents: [{name: coder, token: coder-token-0123456789}]\n"
	for _, old := range []string{
		head + "policy: {rules: [{tools: [x], action: allow, risk: low}]}\n",
		head + "policy: {}\n",
		head + "policy:\n  &p\n  mode: observe\n",
		"security: {}\n" + head,
	} {
		if got, err := Guard("gate.yaml", []byte(old), gateFiles, noEnv); !errors.Is(err, errByHand) {
			t.Errorf("%s became %s, %v", old, got, err)
		}
	}
	if _, err := Guard("gate.yaml", []byte("agents: 7\n"), gateFiles, noEnv); err == nil || errors.Is(err, errByHand) {
		t.Errorf("a file that does not check gave %v", err)
	}
}
