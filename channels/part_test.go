package channels_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/channels/channelstest"
)

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// pages makes all pages of a reply that shows all of r.
func pages(t fataler, m channels.Maker, r approval.Request, limit int, unit func(string) int) []string {
	t.Helper()
	d := channelstest.Reply("", r)
	var all []string
	for more := true; more; {
		d.Notification.Part++
		var c channels.Card
		c, more = m.Part(d, limit, unit)
		if c.Kind != approval.KindReply || len(c.Items) > 0 {
			t.Fatalf("part %d: %+v", d.Notification.Part, c)
		}
		if unit(c.Text) > limit {
			t.Fatalf("part %d measures %d, over %d", d.Notification.Part, unit(c.Text), limit)
		}
		if all = append(all, c.Text); len(all) > 10_000 {
			t.Fatal("there is no end to it")
		}
	}
	return all
}

// joined is the text of which these are the pages: their lines less the first of each, unbroken.
func joined(pages []string) string {
	var lines []string
	for _, p := range pages {
		lines = append(lines, strings.Split(p, "\n")[1:]...)
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\n↳ ", "")
}

// Whose word a difference is stands above it, where the gate has made it and where the agent has.
func TestADifferenceThatTheGateMadeIsNotCalledTheAgents(t *testing.T) {
	r := channelstest.Request(`{"path":"/a"}`)
	r.Rationale, r.Preview = "", "@@ -1 +1 @@\n-a\n+b"
	for from, want := range map[string]string{
		"":     "Written by the agent (not verified)\nPreview\n│ @@ -1 +1 @@\n",
		"read": "\nCompared with what Countersign read through read just before asking\n│ @@ -1 +1 @@\n",
	} {
		r.PreviewFrom = from
		got := strings.Join(pages(t, channelstest.Maker(), r, 5000, legible.UTF16Len), "")
		if !strings.Contains(got, want) || from != "" && strings.Contains(got, "Written by the agent") {
			t.Errorf("%q: got %s", from, got)
		}
	}
}

func TestPartOfASmallRequest(t *testing.T) {
	r := channelstest.Request(
		`{"to":{"name":"Ada","tags":["a","b"]},"content":"one\ntwo","note":"x","deep":{"a":{"b":{"c":{"d":1}}}},"n":1234567}`)
	r.Server, r.SessionID, r.Scope, r.Rationale, r.Preview, r.IgnoredArgs = "bank", "sess-42", "/home",
		"because\nit is due", "@@ -1 +1 @@\n-a\n+b", []string{"note"}
	got := pages(t, channelstest.Maker(), r, 5000, legible.UTF16Len)
	want := r.ID + " · Approval required · Decide by today 13:00\n" +
		`⚠ The preview is NOT what will be written: it does not match “content”. You approve “content”, not the preview.

Tool: bank/transfer_credits
Risk: 🟠 HIGH risk
Asked by: treasury-bot
Session, in the agent's words: sess-42
Scope, in the agent's words: /home
Asked at: today 12:00
Why: Transfer exceeds the confirmation threshold ($10)
Hash: ` + r.ArgsHash + `

Arguments
content:
│ one
│ two
deep:
› a:
› › b:
› › › c:
› › › › d: 1
n: 1234567
to:
› name: Ada
› tags: ["a","b"]
With other values here it is still this request. Only these run:
note: x

Written by the agent (not verified)
Rationale
│ because
│ it is due
Preview
│ @@ -1 +1 @@
│ -a
│ +b`
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %d pages:\n%s\nwant:\n%s", len(got), got[0], want)
	}
}

// How a request ended is told, and changes no page but the last.
func TestPartsDoNotMoveWhenTheRequestEnds(t *testing.T) {
	body, _ := json.Marshal(map[string]string{"a": strings.Repeat("word ", 3000), "b": "secret words\n" +
		strings.Repeat("line\n", 500)})
	r := channelstest.Request(string(body))
	before := pages(t, channelstest.Maker(), r, 2000, legible.UTF16Len)
	r.Status, r.ResolvedBy, r.ResolveReason, r.ResolvedAt = approval.Denied, "hana", strings.Repeat("wrong account ", 250),
		channelstest.Noon
	after := pages(t, channelstest.Maker(), r, 2000, legible.UTF16Len)
	for n := range before[:len(before)-1] {
		_, x, _ := strings.Cut(before[n], "\n")
		_, y, _ := strings.Cut(after[n], "\n")
		if x != y {
			t.Errorf("page %d moved", n+1)
		}
	}
	if all := joined(after); !strings.Contains(all, r.ResolveReason[:len(r.ResolveReason)-1]) ||
		!strings.Contains(after[0], "(part 1 of") || !strings.Contains(after[0], "Denied") {
		t.Errorf("the denial is not told: %q … %q", after[0][:200], after[len(after)-1])
	}
	d := channelstest.Reply("", r)
	d.Notification.Part = len(after) + 3
	if c, more := channelstest.Maker().Part(d, 2000, legible.UTF16Len); more || !strings.HasPrefix(c.Text, r.ID) {
		t.Errorf("a page past the last: %q, more %t", c.Text, more)
	}
}

var rowStart = regexp.MustCompile(`^(› )*("(\\.|[^"\\])*"|[A-Za-z0-9_.$@/-]+|\[[0-9]+\]):( |$)`)

// Whatever the args: the pages keep the limit, hide nothing, leave nothing out, cut no character as
// drawn, and no line of a value passes for one of ours.
func TestPartsAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := channelstest.AnyDelivery(t)
		if len(d.Requests) == 0 {
			return
		}
		r := d.Requests[0]
		whole := joined(pages(t, channelstest.Maker(), r, 50_000_000, legible.UTF16Len))
		limits := []int{800, 3000, 18_000}
		if len(whole) > 20_000 { // each page is made from the start
			limits = limits[2:]
		}
		limit := rapid.SampledFrom(limits).Draw(t, "limit")
		all := pages(t, channelstest.Maker(), r, limit, legible.UTF16Len)
		if joined(all) != whole {
			t.Fatalf("%d pages do not make the whole", len(all))
		}
		for n, p := range all {
			if !utf8.ValidString(p) {
				t.Fatalf("page %d is not UTF-8", n+1)
			}
			if c, ok := channelstest.Hidden(p); ok {
				t.Fatalf("page %d hides %U", n+1, c)
			}
			if strings.Contains(p, channelstest.Secret) {
				t.Fatalf("page %d shows a secret", n+1)
			}
		}
		inArgs := false
		for _, line := range strings.Split(joined(all), "\n") {
			switch {
			case line == "Arguments":
				inArgs = true
			case line == "":
				inArgs = false
			case inArgs && !strings.HasPrefix(line, "│ ") &&
				line != "With other values here it is still this request. Only these run:" && !rowStart.MatchString(line):
				t.Fatalf("a line among the args that is no row: %q", line)
			}
		}
	})
}

func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "\n", "word ", "👩‍👩‍👧‍👦", "e\u0301", "⟨U+202E⟩", "ปี่", "界", "🇯🇵",
			strings.Repeat("x", 90)})
		s := strings.Join(rapid.SliceOfN(piece, 0, 200).Draw(t, "pieces"), "")
		limit := rapid.IntRange(60, 400).Draw(t, "limit")
		got := channels.Split(s, limit, legible.UTF16Len)
		if strings.Join(got, "") != s {
			t.Fatalf("%q is not %q", got, s)
		}
		at := map[int]bool{0: true}
		for n, g := 0, uniseg.NewGraphemes(s); g.Next(); {
			n += len(g.Str())
			at[n] = true
		}
		for n, p := range got {
			if legible.UTF16Len(p) > limit || p == "" && s != "" {
				t.Errorf("piece %q measures %d, over %d", p, legible.UTF16Len(p), limit)
			}
			end := len(strings.Join(got[:n+1], ""))
			if !at[end] {
				t.Errorf("cut inside a character, after %q", p)
			}
			if strings.LastIndex(p, "⟨") > strings.LastIndex(p, "⟩") {
				t.Errorf("cut inside a mark: %q", p)
			}
		}
	})
}

// A preview that is not what will be written is warned of before anything else, as on a card, and once.
func TestATextWarnsFirst(t *testing.T) {
	r := channelstest.Write(strings.Replace(channelstest.Written, "0.0.0.0", "[::]", 1), channelstest.WrittenDiff)
	d := channelstest.Reply("", r)
	d.Notification.Part = 1
	c, _ := channelstest.Maker().Part(d, 5000, legible.UTF16Len)
	lines := strings.Split(c.Text, "\n")
	if len(lines) < 2 || !strings.Contains(lines[1], "NOT what will be written") ||
		strings.Count(c.Text, "NOT what will be written") != 1 {
		t.Errorf("%s", c.Text)
	}
}
