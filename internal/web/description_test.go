package web

import (
	"html"
	"strconv"
	"strings"
	"testing"

	"countersign/approval"
)

// said is what servers say of their tools, in the tests: the words and the digest, by server and tool.
type said map[[2]string][2]string

func (s said) Describe(server, tool string) (words, digest string, ok bool) {
	d, ok := s[[2]string{server, tool}]
	return d[0], d[1], ok
}

// digestOf is a tool's digest in the tests.
func digestOf(n int) string { return strings.Repeat(strconv.Itoa(n), 64) }

// ofServer is a call of a server's tool, as the gate's own gateway sends it.
func ofServer(digest int) func(*approval.Call) {
	return func(c *approval.Call) { c.Server, c.ToolDigest, c.ToolSeen = "bank", digestOf(digest), true }
}

// saying is a world whose server bank says something of its tool pay.
func saying(t testing.TB, words string) (*world, said) {
	all := said{{"bank", "pay"}: {words, digestOf(1)}}
	return newWorld(t, func(o *Options) { o.Describer = all }), all
}

const heading = "The tool, in its server’s words"

func TestAToolIsDescribedInItsServersWords(t *testing.T) {
	t.Parallel()
	w, all := saying(t, "Sends money.\nNothing else.")
	id := w.ask("pay", `{}`, ofServer(1))
	page := func() reply { t.Helper(); return w.get("hana", "/r/"+id).is(200) }
	since, changed := "since the agent asked", "This tool has changed"
	page().has(heading, "Written by the server (not verified).",
		"<blockquote>Sends money.\nNothing else.</blockquote>").lacks("The rest of it", since, changed)
	w.get("yuki", "/r/"+id).has("サーバーの申告です。")
	all[[2]string{"bank", "pay"}] = [2]string{"Sends all of it.", digestOf(2)}
	page().has("Sends all of it.", since).lacks(changed)
	id = w.ask("pay", `{"n":2}`, ofServer(2))
	page().has("Sends all of it.", changed).lacks(since)
}

// Nothing is shown where nothing is known of the very tool that is called.
func TestAToolThatIsNotKnownIsNotDescribed(t *testing.T) {
	t.Parallel()
	w, all := saying(t, "Sends money.")
	for what, change := range map[string]func(*approval.Call){
		"no server":               func(*approval.Call) {},
		"another server":          func(c *approval.Call) { ofServer(1)(c); c.Server = "shop" },
		"a digest nobody knows":   func(c *approval.Call) { c.Server, c.Agent = "bank", "other" },
		"an agent's other digest": func(c *approval.Call) { c.Server, c.ToolDigest = "bank", digestOf(7) },
	} {
		w.get("hana", "/r/"+w.ask("pay", `{"what":"`+what+`"}`, change)).is(200).lacks(heading, "Sends money.")
	}
	w.get("hana", "/r/"+w.ask("pay", `{}`, func(c *approval.Call) { c.Server, c.ToolDigest = "bank", digestOf(1) })).is(
		200).has(heading)
	all[[2]string{"bank", "pay"}] = [2]string{" \n", digestOf(1)}
	w.get("hana", "/r/"+w.ask("pay", `{"n":3}`, ofServer(1))).is(200).lacks(heading)
	bare := newWorld(t)
	bare.get("hana", "/r/"+bare.ask("pay", `{}`, ofServer(1))).is(200).lacks(heading)
}

func TestAServersWordsAreOnlyText(t *testing.T) {
	t.Parallel()
	w, _ := saying(t, hostile+"</blockquote><b>Approve this.</b> sk_live_0123456789abcdef")
	w.get("hana", "/r/"+w.ask("pay", `{}`, ofServer(1))).is(200).
		has(html.EscapeString("</textarea><script>alert(1)</script>"), "⟨U&#43;202E⟩gnihtemos⟨U&#43;2066⟩",
			"⟨U&#43;0007⟩⟨U&#43;200B⟩", "&lt;/blockquote&gt;&lt;b&gt;Approve").
		lacks("<script>alert", "<b>Approve", "\u202e", "\u0007", "\u200b", "sk_live_0123456789abcdef")
}

// What is long is behind a disclosure, and what is longer still is counted.
func TestAServersWordsAreBounded(t *testing.T) {
	t.Parallel()
	shown := func(words string) (beginning, rest string) {
		t.Helper()
		w, _ := saying(t, words)
		body := w.get("hana", "/r/"+w.ask("pay", `{}`, ofServer(1))).is(200).body
		_, body, _ = strings.Cut(body, `id="words"`)
		body, _, _ = strings.Cut(body, "</section>")
		beginning, more, _ := strings.Cut(body, "<details>")
		_, beginning, _ = strings.Cut(beginning, "<blockquote>")
		_, rest, _ = strings.Cut(more, "<blockquote>")
		return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(beginning), "</blockquote>"), " …"),
			html.UnescapeString(strings.TrimSuffix(strings.TrimSpace(rest), "</blockquote></details>"))
	}
	a := func(n int) string { return strings.Repeat("a", n) }
	lines := strings.Repeat("a\n", 8)
	for what, test := range map[string]struct{ words, beginning, rest string }{
		"fits":             {a(400), a(400), ""},
		"one more":         {a(401), a(400), "a"},
		"eight lines":      {lines, strings.TrimSpace(lines), ""},
		"nine lines":       {lines + "b", strings.TrimSpace(lines), "b"},
		"more than is cut": {a(40_000), a(400), a(40_000-400-7244) + "… (+7244)"},
	} {
		beginning, rest := shown(test.words)
		if beginning != test.beginning || rest != test.rest {
			t.Errorf("%s: %d and %d characters, ending in %q, want %d and %d, %q", what, len(beginning), len(rest),
				rest[max(0, len(rest)-20):],
				len(test.beginning), len(test.rest), test.rest[max(0, len(test.rest)-20):])
		}
	}
	if _, rest := shown(a(5 << 20)); len(rest) > 40_000 || !strings.HasSuffix(rest, ")") {
		t.Errorf("%d characters are shown of five million", len(rest))
	}
}
