package hooks

import (
	"encoding/json"
	"strings"
	"testing"

	"countersign/approval"
)

func quote(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEditsCarryTheDifferenceToTheFileAsItIs(t *testing.T) {
	files := map[string]string{
		"/srv/app/a.txt":  "one\ntwo\nthree\n",
		"/srv/app/b.txt":  "x\nx\n",
		"/srv/app/e.txt":  "",
		"/srv/app/no-eol": "last",
		"/srv/app/binary": "a\x00b",
		"/srv/app/long":   "(long)",
		"/srv/app/closed": "(closed)",
		"/srv/app/n.ipynb": `{"cells":[{"id":"c1","source":["a = 1\n","b = 2"]},
			{"source":"print(a)"}]}`,
	}
	patch := func(lines ...string) string {
		return quote(t, map[string]string{"command": "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n"})
	}
	for _, c := range []struct {
		name  string
		agent Agent
		tool  string
		input string
		want  string
	}{
		{"a new file", ClaudeCode, "Write", `{"file_path":"/srv/app/new.txt","content":"hello\n"}`,
			"--- /dev/null\n+++ /srv/app/new.txt\n@@ -0,0 +1,1 @@\n+hello\n"},
		{"a new empty file", ClaudeCode, "Write", `{"file_path":"/srv/app/new.txt","content":""}`,
			"--- /dev/null\n+++ /srv/app/new.txt\n"},
		{"a whole file", ClaudeCode, "Write", `{"file_path":"/srv/app/a.txt","content":"one\n2\nthree\n"}`,
			"--- /srv/app/a.txt\n+++ /srv/app/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"},
		{"the same", ClaudeCode, "Write", `{"file_path":"/srv/app/a.txt","content":"one\ntwo\nthree\n"}`,
			"/srv/app/a.txt stays as it is.\n"},
		{"a relative path", Gemini, "write_file", `{"file_path":"a.txt","content":"one\ntwo\n"}`,
			"--- a.txt\n+++ a.txt\n@@ -1,3 +1,2 @@\n one\n two\n-three\n"},
		{"no line end", ClaudeCode, "Write", `{"file_path":"/srv/app/no-eol","content":"last\n"}`,
			"--- /srv/app/no-eol\n+++ /srv/app/no-eol\n@@ -1,1 +1,1 @@\n-last\n\\ No newline at end of file\n+last\n"},
		{"a binary file", ClaudeCode, "Write", `{"file_path":"/srv/app/binary","content":"x"}`,
			"The difference to /srv/app/binary is not shown: it is not text.\n"},
		{"binary content", ClaudeCode, "Write", `{"file_path":"/srv/app/a.txt","content":"\u0000"}`,
			"The difference to /srv/app/a.txt is not shown: it is not text.\n"},
		{"a long file", ClaudeCode, "Write", `{"file_path":"/srv/app/long","content":"x"}`,
			"The difference to /srv/app/long is not shown: it is longer than 1 MiB.\n"},
		{"a closed file", ClaudeCode, "Write", `{"file_path":"/srv/app/closed","content":"x"}`,
			"The difference to /srv/app/closed is not shown: it cannot be read.\n"},
		{"a name with a line end", ClaudeCode, "Write", `{"file_path":"/srv/app/x\n+++ y","content":"x\n"}`,
			"--- /dev/null\n+++ \"/srv/app/x\\n+++ y\"\n@@ -0,0 +1,1 @@\n+x\n"},
		{"names in another letter case", ClaudeCode, "Write", `{"File_Path":"/srv/app/a.txt","content":"x"}`, ""},
		{"content of another type", ClaudeCode, "Write", `{"file_path":"/srv/app/a.txt","content":7}`, ""},

		{"one place", ClaudeCode, "Edit", `{"file_path":"/srv/app/a.txt","old_string":"two","new_string":"2"}`,
			"--- /srv/app/a.txt\n+++ /srv/app/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"},
		{"what is not there", ClaudeCode, "Edit", `{"file_path":"/srv/app/a.txt","old_string":"four","new_string":"4"}`,
			"/srv/app/a.txt does not contain the text that the edit would replace.\n"},
		{"one of two", ClaudeCode, "Edit", `{"file_path":"/srv/app/b.txt","old_string":"x","new_string":"y"}`,
			"/srv/app/b.txt contains the text 2 times, and the edit would replace it once.\n"},
		{"all", ClaudeCode, "Edit", `{"file_path":"/srv/app/b.txt","old_string":"x","new_string":"y","replace_all":true}`,
			"--- /srv/app/b.txt\n+++ /srv/app/b.txt\n@@ -1,2 +1,2 @@\n-x\n-x\n+y\n+y\n"},
		{"as many as expected", Gemini, "replace",
			`{"file_path":"/srv/app/b.txt","old_string":"x","new_string":"y","expected_replacements":2}`,
			"--- /srv/app/b.txt\n+++ /srv/app/b.txt\n@@ -1,2 +1,2 @@\n-x\n-x\n+y\n+y\n"},
		{"fewer than there are", Gemini, "replace",
			`{"file_path":"/srv/app/b.txt","old_string":"x","new_string":"y","expected_replacements":1}`,
			"/srv/app/b.txt contains the text 2 times, and the edit would replace it once.\n"},
		{"a file that an edit makes", ClaudeCode, "Edit", `{"file_path":"/srv/app/new","old_string":"","new_string":"y\n"}`,
			"--- /dev/null\n+++ /srv/app/new\n@@ -0,0 +1,1 @@\n+y\n"},
		{"an empty file that an edit fills", ClaudeCode, "Edit",
			`{"file_path":"/srv/app/e.txt","old_string":"","new_string":"y\n"}`,
			"--- /srv/app/e.txt\n+++ /srv/app/e.txt\n@@ -0,0 +1,1 @@\n+y\n"},
		{"nothing to replace", ClaudeCode, "Edit", `{"file_path":"/srv/app/a.txt","old_string":"","new_string":"y"}`,
			"The edit does not say which text to replace in /srv/app/a.txt, which is not empty.\n"},
		{"a file that is not there", ClaudeCode, "Edit", `{"file_path":"/srv/app/new","old_string":"x","new_string":"y"}`,
			"/srv/app/new does not exist, so there is nothing to replace.\n"},
		{"edits one after another", ClaudeCode, "MultiEdit",
			`{"file_path":"/srv/app/a.txt","edits":[{"old_string":"two","new_string":"2"},{"old_string":"2\nthree","new_string":"2\n3"}]}`,
			"--- /srv/app/a.txt\n+++ /srv/app/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+3\n"},

		{"a cell", ClaudeCode, "NotebookEdit",
			`{"notebook_path":"/srv/app/n.ipynb","cell_id":"c1","new_source":"a = 1\nb = 3"}`,
			"The cell \"c1\" of /srv/app/n.ipynb:\n--- /srv/app/n.ipynb\n+++ /srv/app/n.ipynb\n@@ -1,2 +1,2 @@\n a = 1\n-b = 2\n\\ No newline at end of file\n+b = 3\n\\ No newline at end of file\n"},
		{"a cell by its place", ClaudeCode, "NotebookEdit",
			`{"notebook_path":"/srv/app/n.ipynb","cell_id":"cell-1","new_source":"","edit_mode":"delete"}`,
			"The cell \"cell-1\" of /srv/app/n.ipynb:\n--- /srv/app/n.ipynb\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-print(a)\n\\ No newline at end of file\n"},
		{"a new cell", ClaudeCode, "NotebookEdit",
			`{"notebook_path":"/srv/app/n.ipynb","cell_id":"c1","new_source":"c\n","edit_mode":"insert"}`,
			"A new cell of /srv/app/n.ipynb, after the cell \"c1\":\n--- /dev/null\n+++ /srv/app/n.ipynb\n@@ -0,0 +1,1 @@\n+c\n"},
		{"no such cell", ClaudeCode, "NotebookEdit", `{"notebook_path":"/srv/app/n.ipynb","cell_id":"c9","new_source":"c"}`,
			"/srv/app/n.ipynb does not have the cell that the edit names.\n"},
		{"no notebook", ClaudeCode, "NotebookEdit", `{"notebook_path":"/srv/app/a.txt","cell_id":"c9","new_source":"c"}`,
			"The difference to /srv/app/a.txt is not shown: it is not a notebook.\n"},

		{"a patch of several files", Codex, "apply_patch", patch("*** Update File: a.txt", "@@", " one", "-two", "+2",
			"*** Add File: new.txt", "+hi", "*** Delete File: b.txt"),
			"--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n--- /dev/null\n+++ new.txt\n@@ -0,0 +1,1 @@\n+hi\n--- b.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-x\n"},
		{"a patch that moves", Codex, "apply_patch", patch("*** Update File: a.txt", "*** Move to: c.txt", "@@ one", "-two",
			"+2"),
			"--- a.txt\n+++ c.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"},
		{"a patch at the end", Codex, "apply_patch", patch("*** Update File: b.txt", "@@", "-x", "+y", "*** End of File"),
			"--- b.txt\n+++ b.txt\n@@ -1,2 +1,2 @@\n x\n-x\n+y\n"},
		{"a patch with other white space", Codex, "apply_patch", patch("*** Update File: a.txt", "@@", "-  two", "+2"),
			"--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"},
		{"a patch that does not fit", Codex, "apply_patch", patch("*** Update File: a.txt", "@@", "-four", "+4"),
			"a.txt does not contain the lines that the patch would change.\n"},
		{"a patch of what is not there", Codex, "apply_patch", patch("*** Delete File: zzz"), "zzz does not exist.\n"},
		{"an added file that is there", Codex, "apply_patch", patch("*** Add File: b.txt", "+hi"),
			"--- b.txt\n+++ b.txt\n@@ -1,2 +1,1 @@\n-x\n-x\n+hi\n"},
		{"a patch without an end", Codex, "apply_patch", `{"command":"*** Begin Patch\n*** Delete File: a.txt\n"}`,
			"The patch cannot be read, so the difference is not shown.\n"},
		{"no patch", Codex, "apply_patch", `{"command":"rm a.txt"}`,
			"The patch cannot be read, so the difference is not shown.\n"},

		{"another tool", ClaudeCode, "Read", `{"file_path":"/srv/app/a.txt"}`, ""},
		{"another agent's tool", Codex, "Write", `{"file_path":"/srv/app/a.txt","content":"x"}`, ""},
		{"a server's tool of that name", ClaudeCode, "mcp__s__Write", `{"file_path":"/srv/app/a.txt","content":"x"}`, ""},
	} {
		if got := call(t, event(t, c.agent, c.tool, c.input), disk(files)).Preview; got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestLongDifferencesSayHowMuchIsMissing(t *testing.T) {
	content := strings.Repeat("0123456789\n", 30000)
	c := call(t, event(t, ClaudeCode, "Write", quote(t, map[string]string{"file_path": "/srv/app/new",
		"content": content})), disk(nil))
	shown, rest, ok := strings.Cut(c.Preview, "… (+")
	missing := strings.Count("\n"+content, "\n") - strings.Count(shown, "\n+0123456789")
	if !ok || len(c.Preview) > approval.MaxPreview || rest != strings.TrimSpace(quote(t, missing-1))+" lines)" {
		t.Errorf("%d bytes, ending in %q, with %d lines missing", len(c.Preview), c.Preview[len(c.Preview)-30:], missing-1)
	}
}

func TestADifferenceNeverMakesTheCallTooLong(t *testing.T) {
	content := strings.Repeat("\x01\n", 150000) // six bytes each in JSON
	c := call(t, event(t, ClaudeCode, "Write", quote(t, map[string]string{"file_path": "/srv/app/new",
		"content": content})), disk(nil))
	if body := quote(t, map[string]any{"args": c.Args, "preview": c.Preview}); len(body) > MaxInput+200<<10 ||
		!strings.Contains(c.Preview, "longer than the gate takes") {
		t.Errorf("the body has %d bytes, with the preview %.80q", len(body), c.Preview)
	}
}

func TestWithoutALookAtFilesTheAgentsWordsAreCalledThat(t *testing.T) {
	got := call(t, event(t, ClaudeCode, "Edit", `{"file_path":"/srv/app/a.txt","old_string":"two\n","new_string":"2\n"}`),
		nil).Preview
	if want := "The file was not read. What the call would replace in it:\n--- /srv/app/a.txt\n+++ /srv/app/a.txt\n@@ -1,1 +1,1 @@\n-two\n+2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := call(t, event(t, ClaudeCode, "Write", `{"file_path":"/srv/app/a.txt","content":"x"}`),
		nil).Preview; got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

// A model must not be able to keep the hook until its agent gives up and runs the call.
func TestPreviewsEndInTime(t *testing.T) {
	big := strings.Repeat("x\n", 500_000)
	var edits []map[string]string
	for range 12_000 {
		edits = append(edits, map[string]string{"old_string": "a", "new_string": "a"})
	}
	for name, e := range map[string]Event{
		"hunks": event(t, Codex, "apply_patch",
			quote(t, map[string]string{"command": "*** Begin Patch\n*** Update File: big\n" +
				strings.Repeat("@@\n-x\n-x\n-x\n-q\n", 20_000) + "*** End Patch\n"})),
		"heading": event(t, Codex, "apply_patch",
			quote(t, map[string]string{"command": "*** Begin Patch\n*** Update File: big\n" + strings.Repeat("@@ x\n", 20_000) +
				"-q\n*** End Patch\n"})),
		"files": event(t, Codex, "apply_patch", quote(t, map[string]string{"command": "*** Begin Patch\n" +
			strings.Repeat("*** Delete File: big\n", 20_000) + "*** End Patch\n"})),
		"edits": event(t, ClaudeCode, "MultiEdit", quote(t, map[string]any{"file_path": "/srv/app/big", "edits": edits})),
	} {
		looked := 0
		read := func(string) (File, error) {
			looked++
			return File{Data: []byte("a" + big)}, nil
		}
		p := call(t, e, read).Preview
		if looked > 64 || len(p) > approval.MaxPreview {
			t.Errorf("%s: %d files were read, and %d bytes written", name, looked, len(p))
		}
		if name != "heading" &&
			!strings.HasSuffix(p, "takes too long to work out.\n") { // each heading stands where the last one ended
			t.Errorf("%s: got %.200q … %q, want a word that not all is shown", name, p, p[max(0, len(p)-80):])
		}
	}
	slow := 0
	got := call(t, event(t, Codex, "apply_patch",
		`{"command":"*** Begin Patch\n*** Delete File: a\n*** Delete File: b\n*** End Patch"}`), func(string) (File, error) {
		slow++
		return File{}, errSlow
	}).Preview
	if slow != 1 || got != "The rest of the difference is not shown: it takes too long to work out.\n" {
		t.Errorf("%d files that do not end were read; got %q", slow, got)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: a\n@@ x\n-a\n+b\n\n*** End of File\n*** End Patch", "x\na\n")
	f.Fuzz(func(_ *testing.T, patch, file string) {
		for _, p := range filePatches(patch) {
			applyHunks(file, p.hunks, func(int) bool { return true })
		}
	})
}

func FuzzParse(f *testing.F) {
	for agent, text := range events {
		f.Add(string(agent), strings.NewReplacer("TOOL", "Bash", "INPUT", `{"command":"ls","description":"x"}`).Replace(text))
	}
	f.Fuzz(func(t *testing.T, agent, input string) {
		e, err := Parse(Agent(agent), []byte(input))
		if err != nil || e.Kind != BeforeTool {
			return
		}
		c, err := e.Call(nil)
		if err != nil {
			t.Fatalf("an event that was read makes no call: %v", err)
		}
		if !json.Valid(c.Args) {
			t.Fatalf("%q became %q, which is not JSON", input, c.Args)
		}
	})
}
