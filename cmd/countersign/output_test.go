package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"countersign/client"
	"countersign/internal/testkit"
)

// YAML says what the JSON says, and brings nothing to a terminal that a reader would not see.
func TestYAMLSaysWhatTheJSONSays(t *testing.T) {
	for _, in := range []string{
		`{}`, `[]`, `"x"`, `7`, `{"a":{}}`, `{"a":[]}`, `[[1,[2,3]],[]]`, `[{"a":1,"b":[{"c":null}]},{"a":true}]`,
		`{"yes":"no","off":"null","1":"1","":"","a b":"a: b","#":"# no comment","-":"- x","é":"日本語"}`,
		`{"text":"a\nb\tc \"quoted\" back\\slash","esc":"\u001b[2J","bidi":"\u202egnp.exe","emoji":"👩‍💻","tag":"\udb40\udc41","⟨":"⟨U+0041⟩"}`,
	} {
		var out bytes.Buffer
		if err := printYAML(&out, json.RawMessage(in)); err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
			t.Errorf("%s\n%s\n%v", in, out.String(), err)
			continue
		}
		if err := yaml.Unmarshal([]byte(in), &want); err != nil {
			t.Fatal(err)
		}
		var exact any
		json.Unmarshal([]byte(in), &exact)
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(exact)
		if !bytes.Equal(a, b) {
			t.Errorf("%s became\n%s\n-want +got\n%s", in, out.String(), cmp.Diff(string(b), string(a)))
		}
		for _, r := range out.String() {
			if r != '\n' && r != '⟨' && isHidden(r) {
				t.Errorf("%s became %q", in, out.String())
			}
		}
	}
}

// What a table would not show is escaped as JSON and YAML too, for a terminal and for programs, which read the same.
func TestNothingForProgramsHasHiddenCharacters(t *testing.T) {
	marks := strings.Repeat("\u0301", maxMarks+2)
	in := map[string]string{"a": "\x1b[2J\u202egnp.exe\u200b\x7f\u0085\u2028\u00ad\U000e0041", "\u202d": "ключ", "m": "e" +
		marks, "f": "\u0301 first",
		"k": "<b> 日本 ⟨U+0041⟩ \" \\ \n"}
	for form, write := range map[string]func(s *std) error{
		"json": func(s *std) error { return new(output).print(s, in) },
		"line": func(s *std) error { return new(output).printLine(s, in) },
		"yaml": func(s *std) error { return (&output{Output: new("yaml")}).print(s, in) },
	} {
		var piped, seen bytes.Buffer
		if err := errors.Join(write(&std{out: &piped}), write(&std{out: &seen, terminal: true})); err != nil {
			t.Fatal(err)
		}
		for what, text := range map[string]string{"piped": piped.String(), "seen": seen.String()} {
			got := map[string]string{}
			if err := yaml.Unmarshal([]byte(text), &got); form == "yaml" && err != nil {
				t.Errorf("%s, %s: %v", form, what, err)
			}
			if err := json.Unmarshal([]byte(text), &got); form != "yaml" && err != nil {
				t.Errorf("%s, %s: %v", form, what, err)
			}
			if diff := cmp.Diff(in, got); diff != "" {
				t.Errorf("%s, %s: -want +got\n%s", form, what, diff)
			}
		}
		for what, text := range map[string]string{"a program": piped.String(), "the terminal": seen.String()} {
			if shown := strings.ReplaceAll(text, "⟨", ""); visibleLines(shown) != shown {
				t.Errorf("%s: %s gets %q", form, what, text)
			}
		}
	}
	var out bytes.Buffer
	if err := new(output).printLine(&std{out: &out, terminal: true}, json.RawMessage(`{"a":"\u202e"}`)); err != nil ||
		out.String() != `{"a":"\u202e"}`+"\n" {
		t.Errorf("an escape became %q, %v", out.String(), err)
	}
}

func TestHiddenCharactersOfAnExportAreSeen(t *testing.T) {
	const csv, ndjson = "at,reason\r\n1,\x1b[2J\u202e日本\r\n2,", `{"reason":"` + "\u202e日本\x7f" + `"}` + "\n"
	for _, test := range []struct {
		format, in, want string
		terminal         bool
	}{
		{"csv", csv, "at,reason\n1,⟨U+001B⟩[2J⟨U+202E⟩日本\n2,", true},
		{"ndjson", ndjson, `{"reason":"\u202e日本\u007f"}` + "\n", true},
		{"csv", csv, csv, false},
		{"ndjson", ndjson, `{"reason":"\u202e日本\u007f"}` + "\n", false},
	} {
		var out bytes.Buffer
		w := (&std{out: &out, terminal: test.terminal}).exportWriter(test.format)
		for i := range len(test.in) { // also where a character comes in two parts
			if _, err := w.Write([]byte{test.in[i]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || out.String() != test.want {
			t.Errorf("%s (terminal: %t): %q, %v, want %q", test.format, test.terminal, out.String(), err, test.want)
		}
	}
}

func TestYAMLKeepsNumbersAndOrder(t *testing.T) {
	var out bytes.Buffer
	if err := printYAML(&out, json.RawMessage(`{"z":12345678901234567890123,"a":[1.10,1e3]}`)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("z: 12345678901234567890123\na:\n  - 1.10\n  - 1e3\n", out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestTimesAreLocalOnATerminal(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	tokyo := time.FixedZone("JST", 9*3600)
	for name, test := range map[string]struct {
		s    std
		want string
	}{
		"a terminal":      {std{terminal: true, local: tokyo}, "today 18:30 (in 5 min)"},
		"UTC is asked":    {std{terminal: true, local: tokyo, utc: true}, "today 09:30 UTC (in 5 min)"},
		"nobody looks on": {std{local: tokyo}, "2026-11-21T09:30:00Z (in 5 min)"},
	} {
		got := test.s.timeText(at, at.Add(-5*time.Minute))
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if got := (&std{terminal: true, local: tokyo}).voteText(client.Vote{Person: "ken", Decision: client.Approve,
		At: client.Time{Time: at}, Via: "line"}, nil, at); !strings.Contains(got, "today 18:30") {
		t.Errorf("a vote: %q", got)
	}
}

func TestTablesAlignWideCharacters(t *testing.T) {
	var out bytes.Buffer
	s := &std{out: &out}
	s.table([]string{"A", "B", "C"}, []string{"日本", "x", "1"}, []string{"ab", "ไทย", "2"}, []string{"", "", ""},
		[]string{"e\u0301", "\x1b", "3"})
	want := "A     B         C\n日本  x         1\nab    ไทย       2\n\ne\u0301     ⟨U+001B⟩  3\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestColoursRespectNoColor(t *testing.T) {
	for name, test := range map[string]struct {
		terminal bool
		env      map[string]string
		want     string
	}{
		"a terminal":      {true, nil, "\x1b[31mhigh\x1b[m  bot\n"},
		"NO_COLOR":        {true, map[string]string{"NO_COLOR": "1"}, "high  bot\n"},
		"empty NO_COLOR":  {true, map[string]string{"NO_COLOR": ""}, "\x1b[31mhigh\x1b[m  bot\n"},
		"a dumb terminal": {true, map[string]string{"TERM": "dumb"}, "high  bot\n"},
		"no terminal":     {false, nil, "high  bot\n"},
	} {
		var out bytes.Buffer
		s := &std{out: &out, terminal: test.terminal, env: func(name string) (string, bool) {
			v, ok := test.env[name]
			return v, ok
		}}
		s.table([]string{"high", "bot"})
		if out.String() != test.want {
			t.Errorf("%s: %q, want %q", name, out.String(), test.want)
		}
	}
}

// onTerminal runs countersign with its standard output at a terminal of five lines, and returns what came there.
func onTerminal(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 5, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	all := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(master)
		all <- string(b)
	}()
	code := run(t.Context(), args, strings.NewReader(""), tty, io.Discard, func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	tty.Close()
	got := testkit.Receive(t, "the end of the terminal", all)
	if code != exitDone {
		t.Errorf("exit code %d: %s", code, got)
	}
	return strings.ReplaceAll(got, "\r\n", "\n")
}

func TestLongTablesArePaged(t *testing.T) {
	dir := t.TempDir()
	seen := filepath.Join(dir, "seen")
	pager := "cat > " + seen
	for name, test := range map[string]struct {
		env   map[string]string
		args  []string
		paged bool
	}{
		"longer than the terminal": {map[string]string{"PAGER": pager}, []string{"preset", "show", "payments"}, true},
		"not wanted": {map[string]string{"PAGER": pager}, []string{"preset", "show", "payments", "--no-pager"},
			false},
		"short":          {map[string]string{"PAGER": pager}, []string{"preset", "list"}, false},
		"an empty PAGER": {map[string]string{"PAGER": ""}, []string{"preset", "show", "payments"}, false},
		"a pager that is not there": {map[string]string{"PAGER": filepath.Join(dir, "none")}, []string{"preset", "show",
			"payments"}, false},
		"JSON": {map[string]string{"PAGER": pager}, []string{"preset", "show", "payments", "--json"}, false},
	} {
		os.Remove(seen)
		got := onTerminal(t, test.env, test.args...)
		if b, _ := os.ReadFile(seen); len(b) > 0 != test.paged || (got == "") != test.paged {
			t.Errorf("%s: the pager got %q, the terminal %q", name, b, got)
		}
	}
}

// The words of the command line complete to what the parser knows.
func TestCompletions(t *testing.T) {
	for line, want := range map[string]string{
		"pendi":                       "pending",
		"audit ":                      "query",
		"install ":                    "claude-code codex gemini",
		"install claude-code --scope": "--scope",
		"install codex --scope ":      "user project local",
		"install codex --scope=pr":    "--scope=project",
		"pending -o ":                 "table json yaml",
		"pending --agent bot -o y":    "yaml",
		"pending --agent ":            "",
		"check --config ":             ":files",
		"approve 9W1X3Y --args ":      ":files",
		"install gemini --no-pre":     "--no-preset",
		"mcp -- ":                     ":files",
		"completion ":                 "bash zsh fish",
		"compl":                       "completion", // what the shells call is hidden
		"pending --uns":               "",
		"nonsense ":                   "",
		"--vers":                      "--version",
	} {
		var out bytes.Buffer
		args := append([]string{"complete", "--"}, strings.Split(line, " ")...)
		if code := run(t.Context(), args, nil, &out, io.Discard, func(string) (string, bool) {
			return "", false
		}); code != exitDone {
			t.Fatalf("exit code %d", code)
		}
		var words []string
		for l := range strings.Lines(out.String()) {
			word, _, _ := strings.Cut(strings.TrimSuffix(l, "\n"), "\t")
			words = append(words, word)
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// The shells that are here complete with the script that is made for them.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("bash is needed here, as it is for .ci/run")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(program,
		filepath.Join(dir, "countersign")); err != nil { // which main_test makes the program of that name
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a file.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"countersign pendi":                                "pending",
		"countersign install ''":                           "claude-code codex gemini",
		"countersign install codex --scope = pr":           "project",
		"countersign check --config " + dir + "/a":         dir + "/a file.yaml",
		"countersign check --config = " + dir + "/a\\ fil": dir + "/a file.yaml",
		"countersign pending --risk":                       "--risk-level",
	} {
		script := bashCompletion + "\nCOMP_WORDS=(" + words +
			"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _countersign\necho \"${COMPREPLY[*]}\"\n"
		c := testkit.Command(t, bash, "--norc", "-c", script)
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
		out, err := c.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", words, got, err, want)
		}
	}
}

// Whoever sets up an agent at a terminal is asked about the preset, and sees all of the difference, in colours.
func TestInstallOffersThePreset(t *testing.T) {
	for _, test := range []struct {
		answer  string
		include bool
	}{{"y", true}, {"n", false}} {
		dir := t.TempDir()
		t.Chdir(dir)
		env := func(name string) (string, bool) {
			v, ok := map[string]string{"HOME": dir, "XDG_CONFIG_HOME": dir}[name]
			return v, ok
		}
		if code := run(t.Context(), []string{"init", "--yes"}, nil, io.Discard, io.Discard, env); code != exitDone {
			t.Fatal("no configuration")
		}
		master, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		screen := new(testkit.Buffer)
		copied := make(chan struct{})
		go func() {
			io.Copy(screen, master)
			close(copied)
		}()
		code := make(chan int, 1)
		go func() { code <- run(t.Context(), []string{"install", "claude-code"}, tty, tty, tty, env) }()
		for _, say := range []struct{ question, answer string }{{"Include it in countersign.yaml? [y/N] ", test.answer},
			{"Make these changes? [y/N] ", "y"}} {
			testkit.Eventually(t, say.question, func() bool { return strings.Contains(screen.String(), say.question) })
			if _, err := master.WriteString(say.answer + "\n"); err != nil {
				t.Fatal(err)
			}
		}
		if got := testkit.Receive(t, "the end", code); got != exitDone {
			t.Errorf("exit code %d: %s", got, screen.String())
		}
		tty.Close()
		testkit.Receive(t, "the end of the terminal", copied)
		s := screen.String()
		if config, err := os.ReadFile("countersign.yaml"); err != nil || strings.Contains(string(config),
			"\n  include: [preset/coding-agent]") != test.include {
			t.Errorf("%s: the configuration is now\n%s", test.answer, config)
		}
		if strings.Contains(s, "Reading, searching, planning") != test.include ||
			!strings.Contains(s, "countersign.yaml: A person is asked before a call touches") ||
			!strings.Contains(s, "settings.json: Claude Code asks the gate before each tool call.") ||
			!strings.Contains(s, "\x1b[32m+  guard: gate_files # countersign install\x1b[m") {
			t.Errorf("%s: the terminal shows\n%s", test.answer, s)
		}
	}
}

// A token that is typed is not shown, and a way that is not encrypted is named.
func TestLoginDoesNotShowWhatIsTyped(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	gate := httptest.NewServer(&fakeGate{log: filepath.Join(dir, "requests.log")})
	defer gate.Close()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	screen := new(testkit.Buffer)
	copied := make(chan struct{})
	go func() {
		io.Copy(screen, master)
		close(copied)
	}()
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), []string{"login", "--server", gate.URL}, tty, tty, tty, func(name string) (string, bool) {
			v := map[string]string{"HOME": dir}[name]
			return v, v != ""
		})
	}()
	testkit.Eventually(t, "the question", func() bool { return strings.Contains(screen.String(), "it is not shown): ") })
	if _, err := master.WriteString("hana-token-0123456789\n"); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Receive(t, "the end", code); got != exitDone {
		t.Errorf("exit code %d: %s", got, screen.String())
	}
	tty.Close()
	testkit.Receive(t, "the end of the terminal", copied)
	if s := screen.String(); strings.Contains(s, "hana-token") || !strings.Contains(s, "Logged in at "+gate.URL) {
		t.Errorf("the terminal shows %q", s)
	}
}

func TestLoginWarnsOfAWayThatIsNotEncrypted(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	var errs bytes.Buffer
	run(t.Context(), []string{"login", "--server", "http://gate.invalid:1"}, strings.NewReader("hana-token-0123456789\n"),
		io.Discard, &errs, func(string) (string, bool) { return "", false })
	if !strings.Contains(errs.String(), "the way to gate.invalid:1 is not encrypted") || strings.Contains(errs.String(),
		"hana-token") {
		t.Errorf("%s", errs.String())
	}
}
