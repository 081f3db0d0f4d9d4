package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailscale/hujson"
)

func claude() Settings {
	return Settings{Agent: ClaudeCode, Command: []string{"/opt/count er/countersign", "hook", "claude-code", "--wait",
		"55s"},
		Begin: []string{"/opt/count er/countersign", "hook", "claude-code"}, Timeout: time.Minute}
}

func add(t *testing.T, s Settings, old string) string {
	t.Helper()
	b, err := s.Add([]byte(old))
	if err != nil {
		t.Fatalf("%q: %v", old, err)
	}
	return string(b)
}

func remove(t *testing.T, s Settings, old string) string {
	t.Helper()
	b, err := s.Remove([]byte(old))
	if err != nil {
		t.Fatalf("%q: %v", old, err)
	}
	return string(b)
}

const written = `{
  "hooks": {
    "PreToolUse": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "'/opt/count er/countersign' hook claude-code --wait 55s",
            "timeout": 60,
            "onFailure": "block"
          }
        ]
      }
    ],
    "UserPromptSubmit": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "'/opt/count er/countersign' hook claude-code",
            "timeout": 10
          }
        ]
      }
    ],
    "SessionStart": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "'/opt/count er/countersign' hook claude-code",
            "timeout": 10
          }
        ]
      }
    ]
  }
}
`

func TestSettingsAreWrittenWhereThereAreNone(t *testing.T) {
	for _, old := range []string{"", " \n", "{}\n"} {
		if got := add(t, claude(), old); got != written {
			t.Errorf("%q became\n%s\nwant\n%s", old, got, written)
		}
	}
}

// files are settings as people have them.
var files = []string{
	"{}\n",
	"{\n  \"model\": \"opus\"\n}\n",
	"{\n\t\"model\": \"opus\",\n\t\"env\": {\"A\": \"1\"}\n}",
	"{\n  // my words\n  \"model\": \"opus\", // behind\n  \"n\": 1.10 /* here */ // and behind the last\n  // at the end\n}\n",
	"{\n  \"model\": \"opus\",\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"Bash\",\n        \"hooks\": [\n          {\"type\": \"command\", \"command\": \"lint\"} // mine\n        ]\n      }\n    ] // theirs\n  },\n  \"z\": true,\n}\n",
	"{\n    \"hooks\": {\n        \"Stop\": [],\n        // why\n        \"PreToolUse\": [\n            {\"hooks\": []},\n        ],\n    },\n}\n",
	"{\r\n  \"model\": \"opus\"\r\n}\r\n",
	"\ufeff{\r\n  \"model\": \"opus\"\r\n}\r\n",
	"// above\n{\"a\":1,\"hooks\":{\"SessionStart\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"x\"}]}]}} // below\n",
	"{\"a\":1}",
	"{\n  \"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"lint\"}]}]}\n}\n",
	"{\n  \"hooks\": {\"PreToolUse\": [ {\"hooks\": []} ] }\n}\n",
}

func TestEveryOtherSettingStaysAsItIs(t *testing.T) {
	for _, old := range files {
		for _, s := range []Settings{claude(),
			{Agent: ClaudeCode, URL: "http://127.0.0.1:8787/hooks/claude-code?wait=55s&gateway=a", Timeout: time.Minute},
			{Agent: Codex, Command: []string{"countersign", "hook", "codex"}, Begin: []string{"countersign", "hook", "codex"},
				Timeout: time.Minute},
			{Agent: Gemini, Command: []string{"countersign", "hook", "gemini"}, Begin: []string{"countersign", "hook", "gemini"},
				Timeout: time.Minute}} {
			there := add(t, s, old)
			if strings.HasPrefix(old, "\ufeff") != strings.HasPrefix(there, "\ufeff") {
				t.Errorf("%s: the mark before %q became %q", s.Agent, old, there)
			}
			if _, err := hujson.Parse([]byte(strings.TrimPrefix(there, "\ufeff"))); err != nil {
				t.Errorf("%s: %q became what is not JSON: %v\n%s", s.Agent, old, err, there)
			}
			if b := []byte(old); json.Valid(b) && !json.Valid([]byte(there)) {
				t.Errorf("%s: %q was plain JSON and became\n%s", s.Agent, old, there)
			}
			if again := add(t, s, there); again != there {
				t.Errorf("%s: repeated, %q became\n%s\nafter\n%s", s.Agent, old, again, there)
			}
			if back := remove(t, s, there); back != old {
				t.Errorf("%s: %q came back as\n%s\nafter\n%s", s.Agent, old, back, there)
			}
			if rest := remove(t, s, old); rest != old {
				t.Errorf("%s: %q has nothing of ours and became %q", s.Agent, old, rest)
			}
			if strings.Contains(old, "\r\n") && strings.Contains(strings.ReplaceAll(there, "\r\n", ""), "\n") {
				t.Errorf("%s: lines end differently in %q", s.Agent, there)
			}
			for line := range strings.Lines(old) { // commas aside
				if line = strings.TrimRight(line, "\r\n"); !strings.Contains(line, `{"a":1`) &&
					!strings.Contains(strings.ReplaceAll(there, ",", ""), strings.ReplaceAll(strings.TrimRight(line, "}] "), ",",
						"")) {
					t.Errorf("%s: the line %q of %q is gone from\n%s", s.Agent, line, old, there)
				}
			}
		}
	}
}

func TestWhatKeepsHooksFromAskingIsNoticed(t *testing.T) {
	const off, named, token = `"hooksConfig"`, `"disabled"`, `COUNTERSIGN_TOKEN`
	for _, c := range []struct {
		agent, text string
		want        []string // a word of each warning
	}{
		{ClaudeCode, `{"disableAllHooks": true}`, []string{"disableAllHooks"}},
		{ClaudeCode, "\ufeff{\"a\":1,\n// why\n\"disableAllHooks\": true,}", []string{"disableAllHooks"}},
		{ClaudeCode, `{"disable\u0041llHooks": true}`, []string{"disableAllHooks"}},
		{ClaudeCode, `{"disableAllHooks": false, "disableAllHooks": true}`, []string{"disableAllHooks"}},
		{ClaudeCode, `{"disableAllHooks": false}`, nil},
		{ClaudeCode, `{"DisableAllHooks": true}`, nil},
		{ClaudeCode, `{"disableAllHooks": "true"}`, nil},
		{ClaudeCode, `{"env": {"disableAllHooks": true}}`, nil},
		{ClaudeCode, `// "disableAllHooks": true` + "\n{}", nil},
		{ClaudeCode, ``, nil},
		{ClaudeCode, `{"disableAllHooks": true`, nil},
		{ClaudeCode, `{"hooksConfig":{"enabled":false}}`, nil},
		{Codex, `{"disableAllHooks": true}`, nil},
		{Gemini, `{"disableAllHooks": true}`, nil},
		{Gemini, `{"hooksConfig":{"enabled":false}}`, []string{off}},
		{Gemini, `{"hooksConfig":{"enabled":true}}`, nil},
		{Gemini, `{"hooksConfig":{"disabled":["lint","countersign"]}}`, []string{named}},
		{Gemini, `{"hooksConfig":{"disabled":["lint"]}}`, nil},
		{Gemini, `{"hooksConfig":{"enabled":false,"disabled":["countersign"]}, // both
			"security":{"environmentVariableRedaction":{"enabled":true}}}`, []string{off, named, token}},
		{Gemini, `{"security":{"environmentVariableRedaction":{"enabled":true,"allowed":["X"]}}}`, []string{token}},
		{Gemini, `{"security":{"environmentVariableRedaction":{"enabled":true,"allowed":["countersign_token"]}}}`, nil},
		{Gemini, `{"security":{"environmentVariableRedaction":{"allowed":[]}}}`, nil},
	} {
		got := Settings{Agent: c.agent}.Warnings([]byte(c.text))
		if len(got) != len(c.want) {
			t.Errorf("%s, %s: got %q, want %d warnings", c.agent, c.text, got, len(c.want))
			continue
		}
		for i, w := range c.want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%s, %s: warning %q does not name %s", c.agent, c.text, got[i], w)
			}
		}
	}
}

func TestAFolderIsTrustedByItsLongestEntry(t *testing.T) {
	const text = `{"/srv": "TRUST_FOLDER", "/srv/foreign": "DO_NOT_TRUST", "/home/ada/x": "TRUST_PARENT", /* why */ "/opt/a": "perhaps"}`
	for folder, want := range map[string]bool{
		"/srv": true, "/srv/app": true, "/srv/foreign": false, "/srv/foreign/app": false, "/srvx": false,
		"/home/ada": true, "/home/ada/y": true, "/home": false, "/opt/a": false, "/": false,
	} {
		if got := IsTrusted([]byte(text), folder); got != want {
			t.Errorf("%s: trusted is %t, want %t", folder, got, want)
		}
	}
	for _, text := range []string{"", "[]", `{"/srv":`, `{"/srv": true}`} {
		if IsTrusted([]byte(text), "/srv") {
			t.Errorf("%q trusts /srv", text)
		}
	}
}

func TestCommentsStayWithWhatTheyAreAbout(t *testing.T) {
	got := add(t, claude(), files[3])
	if want := "{\n  // my words\n  \"model\": \"opus\", // behind\n  \"n\": 1.10, /* here */ // and behind the last\n  // at the end\n  \"hooks\": {"; !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant it to begin\n%s", got, want)
	}
}

func TestOlderEntriesAreBroughtUpToDateWhereTheyStand(t *testing.T) {
	old := `{
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash|Write", "hooks": [
        {"type": "command", "command": "/old/place/countersign hook claude-code"}, // ours
        {"type": "command", "command": "lint"}
      ]},
      {"hooks": [{"type": "http", "url": "http://127.0.0.1:1/hooks/claude-code", "timeout": 5}]}
    ],
    "Stop": [{"hooks": [{"type": "command", "command": "countersign-1.2 hook claude-code"}]}],
    "Notification": [{"hooks": [{"type": "command", "command": "countersign hook codex"}, {"type": "command", "command": "echo countersign hook claude-code"}]}]
  }
}
`
	got := add(t, claude(), old)
	for _, want := range []string{
		"\"matcher\": \"Bash|Write\", \"hooks\": [\n        {\n          \"type\": \"command\",\n          \"command\": \"'/opt/count er/countersign' hook claude-code --wait 55s\",\n          \"timeout\": 60,\n          \"onFailure\": \"block\"\n        }, // ours\n        {\"type\": \"command\", \"command\": \"lint\"}",
		`"countersign hook codex"`, `"echo countersign hook claude-code"`, `"UserPromptSubmit"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	for _, gone := range []string{"/old/place", "127.0.0.1:1", `"Stop"`, "countersign-1.2"} {
		if strings.Contains(got, gone) {
			t.Errorf("%s is still in\n%s", gone, got)
		}
	}
	if again := add(t, claude(), got); again != got {
		t.Errorf("repeated, it became\n%s", again)
	}
}

func TestWhatEachAgentIsTold(t *testing.T) {
	for _, c := range []struct {
		s    Settings
		want []string
		not  []string
	}{
		{Settings{Agent: Codex, Command: []string{"/c/countersign", "hook", "codex", "--wait", "55s"},
			Begin: []string{"/c/countersign", "hook", "codex"}, Timeout: time.Minute},
			[]string{`"PreToolUse"`, `"command": "/c/countersign hook codex --wait 55s"`, `"timeout": 60`, `"UserPromptSubmit"`,
				`"SessionStart"`}, []string{"onFailure", "name"}},
		{Settings{Agent: Gemini, Command: []string{"/c/countersign", "hook", "gemini", "--wait", "55s"},
			Begin: []string{"/c/countersign", "hook", "gemini"}, Timeout: time.Minute},
			[]string{`"BeforeTool"`, `"timeout": 60000`, `"timeout": 10000`, `"name": "countersign"`, `"BeforeAgent"`,
				`"SessionStart"`}, []string{"onFailure", "PreToolUse"}},
		{Settings{Agent: ClaudeCode, URL: "http://127.0.0.1:8787/hooks/claude-code?wait=55s&defer=true",
			Timeout: time.Minute},
			[]string{`"type": "http"`, `"url": "http://127.0.0.1:8787/hooks/claude-code?wait=55s&defer=true"`,
				`"Authorization": "Bearer $COUNTERSIGN_TOKEN"`, `"allowedEnvVars": [`, `"onFailure": "block"`,
				`"UserPromptSubmit"`},
			[]string{`"command"`, "SessionStart"}},
	} {
		got := add(t, c.s, "")
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s is not in\n%s", c.s.Agent, want, got)
			}
		}
		for _, not := range c.not {
			if strings.Contains(got, not) {
				t.Errorf("%s: %s is in\n%s", c.s.Agent, not, got)
			}
		}
	}
}

func TestSettingsThatAreNotUnderstoodAreLeftAlone(t *testing.T) {
	for old, want := range map[string]string{
		`{"a"`:                                  "not JSON",
		"\ufeff[]":                              "not a JSON object",
		"{\ufeff}":                              "not JSON",
		`[]`:                                    "not a JSON object",
		`{"hooks":[]}`:                          `"hooks" is not an object`,
		`{"hooks":{},"hooks":{}}`:               `"hooks" is listed twice`,
		`{"hooks":{"PreToolUse":{}}}`:           "hooks.PreToolUse is not a list",
		`{"hooks":{"PreToolUse":["x"]}}`:        "hooks.PreToolUse[0] is not an object",
		`{"hooks":{"Stop":[{"hooks":"x"}]}}`:    `hooks.Stop[0]: "hooks" is not a list`,
		`{"hooks":{"Stop":[{"hooks":[["x"]]}]`:  "not JSON",
		`{"hooks":{"Stop":[{"hooks":[1,2,3]}]`:  "not JSON",
		`{"hooks":{"PreToolUse":[{"hooks":[]}]`: "not JSON",
	} {
		if got, err := claude().Add([]byte(old)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s became %s, %v; want %s", old, got, err, want)
		}
	}
	if got := add(t, claude(), `{"hooks":{"PreToolUse":[{"matcher":"x"},{"hooks":[1,"x"]}]}}`); !strings.Contains(got,
		`{"matcher":"x"},{"hooks":[1,"x"]}`) {
		t.Errorf("what is no hook of ours was changed: %s", got)
	}
}

func TestCommandsAreQuotedForAShell(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"/usr/bin/countersign", "hook"}, "/usr/bin/countersign hook"},
		{[]string{"/o'k/$x/countersign", "a b", ""}, `'/o'\''k/$x/countersign' 'a b' ''`},
	} {
		got := shell(c.words)
		if got != c.want {
			t.Errorf("%q became %s, want %s", c.words, got, c.want)
		}
		if back := words(got); strings.Join(back, "|") != strings.Join(c.words, "|") {
			t.Errorf("%s is read as %q, want %q", got, back, c.words)
		}
	}
}

func TestWhereSettingsAre(t *testing.T) {
	repo := t.TempDir()
	sub := filepath.Join(repo, "a", "b")
	if err := os.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(repo, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := func(vars map[string]string) func(string) (string, bool) {
		return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	}
	for _, c := range []struct {
		agent, scope string
		env          map[string]string
		want         string
	}{
		{ClaudeCode, User, nil, "/home/u/.claude/settings.json"},
		{ClaudeCode, User, map[string]string{"CLAUDE_CONFIG_DIR": "/cfg"}, "/cfg/settings.json"},
		{ClaudeCode, User, map[string]string{"CLAUDE_CONFIG_DIR": ""}, "/home/u/.claude/settings.json"},
		{ClaudeCode, Project, map[string]string{"CLAUDE_CONFIG_DIR": "/cfg"}, sub + "/.claude/settings.json"},
		{ClaudeCode, Local, nil, sub + "/.claude/settings.local.json"},
		{Codex, User, nil, "/home/u/.codex/hooks.json"},
		{Codex, User, map[string]string{"CODEX_HOME": "/cx"}, "/cx/hooks.json"},
		{Codex, Project, nil, repo + "/.codex/hooks.json"},
		{Gemini, User, nil, "/home/u/.gemini/settings.json"},
		{Gemini, Project, nil, sub + "/.gemini/settings.json"},
	} {
		if got, err := Place(c.agent, c.scope, env(c.env), "/home/u", sub); err != nil || got != c.want {
			t.Errorf("%s %s: got %s, %v; want %s", c.agent, c.scope, got, err, c.want)
		}
	}
	if got, err := Place(Codex, Local, env(nil), "/home/u", sub); err == nil {
		t.Errorf("codex local is %s, want an error", got)
	}
}
