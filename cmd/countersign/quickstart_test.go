package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestQuickStarts runs the commands that README.md and docs/start.md print, as they print them, but for the port.
func TestQuickStarts(t *testing.T) {
	readme, start := read(t, "README.md"), read(t, "docs/start.md")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/quickstart",
		Setup: func(e *testscript.Env) error {
			home, port := filepath.Join(e.WorkDir, "home"), freePort(t)
			e.Setenv("HOME", home)
			e.Setenv("CONFIG", filepath.Join(home, ".config", "countersign"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(home, ".cache"))
			e.Setenv("XDG_RUNTIME_DIR", filepath.Join(e.WorkDir, "run"))
			e.Setenv("USER", "me")
			e.Setenv("PORT", port)
			quickly(e)
			e.Defer(func() { // one's own gate outlives its starter
				if p, err := owner(filepath.Join(home, ".config", "countersign")); err == nil {
					_ = p.Kill()
				}
			})
			here := strings.NewReplacer("127.0.0.1:8787", "127.0.0.1:"+port, "countersign init",
				"countersign init --yes --listen 127.0.0.1:"+port, "init --yes --listen 127.0.0.1:"+port+" --yes",
				"init --yes --listen 127.0.0.1:"+port)
			developer := codeLines(block(t, readme, "sh", "curl -s"))
			files := map[string]string{
				"init.sh":      developer[0],
				"serve.sh":     "exec " + developer[1],
				"call.sh":      strings.Join(developer[2:], "\n"),
				"call.want":    block(t, readme, "json", `"decision"`),
				"pending.want": block(t, readme, "console", "$ countersign pending"),
				"explain.want": block(t, readme, "console", "$ countersign explain"),
				"start.yaml":   block(t, start, "yaml", "listen:"),
			}
			for i, line := range codeLines(block(t, start, "sh", "init --own")) {
				files["own-"+string(rune('1'+i))+".sh"] = line
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(e.WorkDir, name), []byte(here.Replace(text)), 0o600); err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode":   exitCode,
			"eventually": eventually,
			"await":      await,
			"save-id":    saveID,
			"shows":      shows,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block is the first block of code in a language that holds a text.
func block(t *testing.T, page, language, holds string) string {
	t.Helper()
	for _, part := range strings.Split(page, "\n```"+language+"\n")[1:] {
		if code, _, _ := strings.Cut(part, "\n```"); strings.Contains(code, holds) {
			return code + "\n"
		}
	}
	t.Fatalf("no block of %s has %q", language, holds)
	return ""
}

func codeLines(code string) []string { return strings.Split(strings.TrimSpace(code), "\n") }

var (
	anyID    = regexp.MustCompile(`01K…|01[0-9A-Z]{24}`)
	anyShort = regexp.MustCompile(`  [0-9A-Z]{6}  `)
	spaces   = regexp.MustCompile(` +`)
)

// shows checks that what was printed last is what a page prints, where an id is any, … is whatever is left out, and
// columns are as wide as their cells: shows FILE.
func shows(ts *testscript.TestScript, _ bool, args []string) {
	want := ts.ReadFile(args[0])
	if strings.HasPrefix(want, "$ ") { // the command, and at its end another one
		_, want, _ = strings.Cut(want, "\n")
		want, _, _ = strings.Cut(want, "\n$ ")
	}
	want = anyShort.ReplaceAllString(anyID.ReplaceAllString(strings.TrimSpace(want), "AN-ID"), " A-SHORT-ID ")
	want = regexp.QuoteMeta(spaces.ReplaceAllString(want, " "))
	for _, p := range [][2]string{{"AN-ID", "[0-9A-Z]{26}"}, {"A-SHORT-ID", "[0-9A-Z]{6}"}, {", … ", ",.*"},
		{", …", ",.*"},
		{"…", "(?s:.*)"}} {
		want = strings.ReplaceAll(want, p[0], p[1])
	}
	got := spaces.ReplaceAllString(strings.TrimSpace(ts.ReadFile("stdout")), " ")
	if !regexp.MustCompile("^" + want + "$").MatchString(got) {
		ts.Fatalf("%s says\n%s\nbut printed was\n%s", args[0], ts.ReadFile(args[0]), ts.ReadFile("stdout"))
	}
}
