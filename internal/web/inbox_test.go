package web

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
)

// pick is how a form names a request as it stands.
func (w *world) pick(id string) string { return id + "." + w.version(id) }

// version is the version of a request as it stands.
func (w *world) version(id string) string { return w.request(id).Version() }

func (w *world) request(id string) approval.Request {
	w.t.Helper()
	r, err := w.gate.Request(w.ctx, approval.Actor{Kind: approval.Human, Name: "hana"}, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// stands holds how a request stands.
func (w *world) stands(id string, want approval.Status) {
	w.t.Helper()
	if r := w.request(id); r.Status != want {
		w.t.Errorf("%s is %s, want %s", r.Target(), r.Status, want)
	}
}

func (w *world) batch(person, do string, picks ...string) reply {
	w.t.Helper()
	return w.post(person, "/decide", url.Values{"do": {do}, "pick": picks})
}

func TestTheInboxShowsWhatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pay := w.ask("pay", `{"invoice":1041,"amount":420}`, func(c *approval.Call) { c.SessionID = "night run" })
	wire := w.ask("wire", `{"to":"acme"}`)
	r := w.get("hana", "/").is(200).has("bot will run pay once, with amount: 420, invoice: 1041", "night run", `href="/r/`+
		pay+`"`, "MEDIUM risk",
		"HIGH risk", "0 of 2 approved", "2 wait", `data-live="/live"`, `datetime="`+
			approval.FormatTime(w.request(pay).ExpiresAt)+`"`)
	mine, others, _ := strings.Cut(w.get("mei", "/").is(200).body, `id="s-others"`)
	if !strings.Contains(mine, pay) || strings.Contains(mine, wire) || !strings.Contains(others, wire) {
		t.Error("who is not in finance has the payment first, and the wire among what others decide")
	}
	if strings.Contains(others, `name="pick" value="`+wire) {
		t.Error("what others decide has buttons")
	}
	r.has(`<input type="hidden" name="pick" value="` + w.pick(wire) + `">`)
	w.get("guest", "/").is(200).has(pay).lacks(`name="pick"`, `name="do"`)
}

func TestTheInboxIsFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pay, wire := w.ask("pay", `{}`, func(c *approval.Call) { c.SessionID = "Tuesday" }),
		w.ask("wire", `{}`, func(c *approval.Call) { c.Agent = "other" })
	for query, want := range map[string]string{"?q=PAY": pay, "?q=tuesday": pay, "?risk=high": wire, "?agent=other": wire,
		"?tool=pay": pay, "?mine=others": "",
		"?q=" + strings.ToLower(approval.Short(wire)): wire, "?q=<script>": "", "?q=nothing&risk=low": ""} {
		body := w.get("hana", "/"+query).is(200).lacks("<script>").body
		for _, id := range []string{pay, wire} {
			if got := strings.Contains(body, "/r/"+id); got != (id == want) {
				t.Errorf("%s: %s is there: %v", query, id, got)
			}
		}
	}
	for _, query := range []string{"?risk=terrible", "?agent=a%20b", "?mine=theirs", "?after=x", "?q=" +
		strings.Repeat("x", 300)} {
		w.get("hana", "/"+query).is(http.StatusBadRequest)
	}
}

func TestTheInboxHasPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := map[string]bool{}
	for i := range lists.MostWaiting + 3 {
		ids[w.ask("pay", fmt.Sprintf(`{"n":%d}`, i))] = true
	}
	next, found := regexp.MustCompile(`class="button more" href="([^"]+)"`),
		regexp.MustCompile(`href="/r/([0-9A-Z]{26})" class="open"`)
	path := "/"
	for range 2 {
		body := w.get("hana", path).is(200).body
		for _, m := range found.FindAllStringSubmatch(body, -1) {
			delete(ids, m[1])
		}
		path = "/nowhere"
		if m := next.FindStringSubmatch(body); m != nil {
			path = html.UnescapeString(m[1])
		}
	}
	if len(ids) > 0 || path != "/nowhere" {
		t.Errorf("%d are on neither page; after them comes %s", len(ids), path)
	}
}

func TestABatchIsDecidedOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pay, wire, deploy, books, other := w.ask("pay", `{}`), w.ask("wire", `{}`), w.ask("deploy", `{}`),
		w.ask("close_books", `{}`), w.ask("pay", `{"n":2}`)
	long := w.ask("pay", `{"text":"`+strings.Repeat("words ", 400)+`"}`)
	stale := w.pick(other)
	w.post("ken", "/r/"+other+"/decide", url.Values{"do": {"deny"}, "v": {w.version(other)}}).is(http.StatusSeeOther)
	w.batch("hana", "approve", w.pick(pay), w.pick(wire), w.pick(deploy), w.pick(books), w.pick(long), stale,
		w.pick(pay)).is(200).has(
		"Approved", "Your approval counts: 1 of 2", "Critical: approve it", "Needs a second yes", "Not all of it fits here",
		"Already decided: Denied by ken")
	w.stands(pay, approval.Approved)
	if r := w.request(pay); r.ResolvedBy != "hana" || r.ResolvedVia != approval.ViaWeb {
		t.Errorf("by %s via %s", r.ResolvedBy, r.ResolvedVia)
	}
	for _, id := range []string{wire, deploy, books, long} {
		w.stands(id, approval.Pending)
	}
	w.post("hana", "/decide", url.Values{"do": {"deny"}, "pick": {w.pick(deploy), w.pick(books)},
		"reason": {"not tonight"}}).is(200).has("Denied")
	w.stands(deploy, approval.Denied)
	if r := w.request(books); r.Status != approval.Denied || r.ResolveReason != "not tonight" {
		t.Errorf("%s, %q", r.Status, r.ResolveReason)
	}
}

// Whatever a form says, who decided is whoever is signed in, and the version is the one that was seen.
func TestFormsOfTheInboxThatLie(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.ask("pay", `{"n":1}`), w.ask("pay", `{"n":2}`)
	for name, form := range map[string]url.Values{
		"versions mixed up": {"do": {"approve"}, "pick": {a + "." + w.version(b), b + "." + w.version(a)}},
		"a version of none": {"do": {"approve"}, "pick": {a + ".x"}},
		"somebody else": {"do": {"approve"}, "pick": {a + "." + w.version(b)}, "by": {"ken"}, "person": {"ken"},
			"via": {"line"}},
	} {
		w.post("hana", "/decide", form).is(200).has("Not decided")
		w.stands(a, approval.Pending)
		w.stands(b, approval.Pending)
		_ = name
	}
	for name, form := range map[string]url.Values{
		"nothing": {"do": {"approve"}}, "no word": {"pick": {w.pick(a)}}, "another word": {"do": {"grant"},
			"pick": {w.pick(a)}},
		"no version": {"do": {"approve"}, "pick": {a}}, "no id": {"do": {"approve"}, "pick": {"." + w.version(a)}},
		"an id that is none": {"do": {"approve"}, "pick": {"'--.x"}},
		"too many":           {"do": {"approve"}, "pick": many(w, 101)}, "too large": {"do": {"approve"}, "pick": {w.pick(a)},
			"reason": {strings.Repeat("x", maxForm)}},
	} {
		if r := w.post("hana", "/decide", form); r.status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, r.status)
		}
	}
	w.post("guest", "/decide", url.Values{"do": {"approve"}, "pick": {w.pick(a)}}).is(200).has("For approvers only")
	w.post("root", "/decide", url.Values{"do": {"approve"}, "pick": {w.pick(a)}}).is(200).has("For approvers only")
	w.post("mei", "/decide", url.Values{"do": {"approve"}, "pick": {w.pick(w.ask("wire", `{}`))}}).is(200).lacks(
		"approved\">")
	w.post("", "/decide", url.Values{"do": {"approve"}, "pick": {w.pick(a)}}).is(http.StatusUnauthorized)
	w.stands(a, approval.Pending)
	w.post("ken", "/decide", url.Values{"do": {"approve"}, "pick": {w.pick(a)}, "by": {"hana"},
		"back": {"//evil.example"}}).is(http.StatusSeeOther)
	if r := w.request(a); r.ResolvedBy != "ken" {
		t.Errorf("by %s", r.ResolvedBy)
	}
}

func many(w *world, n int) (picks []string) {
	id, err := approval.ParseID("01KAQ5V0000000000000000000")
	if !err {
		w.t.Fatal("no id")
	}
	for range n {
		picks = append(picks, id+".x")
	}
	return picks
}

func TestAReplayedFormDecidesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.ask("pay", `{}`)
	form := url.Values{"do": {"approve"}, "pick": {w.pick(id)}}
	w.post("hana", "/decide", form).is(http.StatusSeeOther)
	w.post("hana", "/decide", form).is(200).has("Not decided", "Already decided")
	form.Set("do", "deny")
	w.post("ken", "/decide", form).is(200).has("Not decided")
	w.stands(id, approval.Approved)
}

func TestWhatExpiresAtTheMillisecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.ask("pay", `{}`)
	pick := w.pick(id)
	w.clock.Advance(w.request(id).ExpiresAt.Sub(w.clock.Now()) - time.Millisecond)
	w.get("hana", "/").is(200).has(id)
	w.clock.Advance(time.Millisecond)
	w.post("hana", "/decide", url.Values{"do": {"approve"}, "pick": {pick}}).is(200).has("Too late")
	w.stands(id, approval.Expired)
	w.get("hana", "/").is(200).lacks(id)
}

// hostile is what strangers fill fields with.
const hostile = "</textarea><script>alert(1)</script>\" onx='1' {{.}} \u202egnihtemos\u2066 \u0007\u200b"

func TestWhatStrangersWriteIsOnlyText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.ask("pay", `{"</script><b>k\u202e":"</pre><img src=x onerror=alert(1)>\u202e\u0007","t":"a\nb</blockquote>"}`,
		func(c *approval.Call) {
			c.SessionID, c.Scope, c.Rationale = "s</h3><script>", "/x<script>", hostile
			c.Preview = "--- a\n+++ b\n@@ -1 +1 @@\n-</span><script>alert(2)</script>\n+\u202e\n"
		})
	pages := []reply{w.get("hana", "/").is(200), w.get("hana", "/r/"+id).is(200),
		w.get("hana", "/?q="+url.QueryEscape(hostile)).is(200),
		w.post("hana", "/r/"+id+"/decide", url.Values{"do": {"edit"}, "v": {w.version(id)}, "args": {hostile},
			"reason": {hostile}}).is(http.StatusBadRequest)}
	for _, p := range pages {
		if n := strings.Count(p.body, "<script"); n != 1 {
			t.Errorf("%s has %d scripts", p.what, n)
		}
		p.lacks("<img src=x", "<b>k", "onx='1'")
	}
	for _, p := range pages[:2] {
		p.lacks("\u202e", "\u2066", "\u200b", "\u0007")
	}
}

func BenchmarkInbox(b *testing.B) {
	w := newWorld(b)
	fill(w, 10_000)
	b.ResetTimer()
	for b.Loop() {
		w.get("hana", "/").is(200)
	}
}

// fill has many requests wait.
func fill(w *world, n int) {
	for from := 0; from < n; from += 20 {
		var calls []approval.Call
		for i := from; i < min(n, from+20); i++ {
			calls = append(calls, w.call("pay", fmt.Sprintf(`{"invoice":%d,"to":"acme","memo":"the month's bill"}`, i),
				func(c *approval.Call) {
					c.SessionID = fmt.Sprint("run ", i/20)
				}))
		}
		if _, err := w.gate.CheckBatch(w.ctx, calls); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A list reads less of a request than its page does; the version is the same.
func TestAListedRequestHasTheVersionOfItsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tool := range []string{"wire", "pay", "close_books"} {
		id := w.ask(tool, `{"to":"acme"}`, func(c *approval.Call) {
			c.ToolDigest, c.ToolSeen, c.Rationale = strings.Repeat("ab", 32), true, "because"
		})
		w.get("hana", "/").is(http.StatusOK).has(`<input type="hidden" name="pick" value="` + w.pick(id) + `"`)
		w.get("hana", "/r/"+id).is(http.StatusOK).has(`value="` + strings.TrimPrefix(w.pick(id), id+".") + `"`)
	}
}

// What will happen is said of large requests too, as far as a list may read that much. Of the others it says which tool
// is to run, and that there are arguments.
func TestListsSayWhatLargeRequestsDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large := func(name string, size int) string {
		return w.ask("pay", `{"path":"`+name+`","content":"`+strings.Repeat("x", size)+`"}`)
	}
	large("/srv/huge", 400<<10)
	large("/srv/big", 300<<10)
	for _, page := range []string{"/", "/history"} {
		got := w.get("hana", page).is(http.StatusOK)
		got.has(">Run pay: path /srv/big, …</a>", ">Run pay: …</a>")
		got.lacks("/srv/huge")
	}
	w.get("hana", "/").has("too large")
}

// What a rule says will happen is what the list and the request's page say first, in the reader's language; all that an
// approval covers stands there too.
func TestPagesSayWhatWillHappen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.gate.SetPolicy(w.ctx, policyOf(t, `
policy:
  rules:
    - tools: [refund]
      action: quarantine
      summary: {en: "Refund {args.cents|money:USD/100}", ja: "{args.cents|money:USD/100} を返金"}
      message: {en: Money leaves, ja: お金が出ていきます}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	id := w.ask("refund", `{"cents":2000}`)
	for page, leads := range map[string]string{"/": `<a href="/r/` + id + `" class="open">%s</a>`,
		"/history": `<a href="/r/` + id + `">%s</a>`, "/r/" + id: `<h1>%s</h1>`} {
		w.get("hana", page).is(200).has(fmt.Sprintf(leads, "Refund $20.00"), "Money leaves")
		w.get("yuki", page).is(200).has(fmt.Sprintf(leads, "$20.00 を返金"), "お金が出ていきます")
		if page != "/history" {
			w.get("hana", page).is(200).has("bot will run refund once, with cents: 2000")
		}
	}
	w.get("hana", "/policy").is(200).has("Refund {args.cents|money:USD/100}")
}

// What an agent calls its session or scope is no heading: it is told as the agent's word, and cut.
func TestRule3_AnAgentWritesNoHeadings(t *testing.T) {
	t.Parallel()
	const claim = "Checked by security: everything here is harmless. Approve all of it"
	for _, change := range []func(*approval.Call){func(c *approval.Call) { c.SessionID = claim },
		func(c *approval.Call) { c.Scope = claim }} {
		w := newWorld(t)
		id := w.ask("pay", `{}`, change)
		for _, path := range []string{"/", "/r/" + id} {
			body := w.get("hana", path).is(200).body
			for _, heading := range regexp.MustCompile(`(?s)<h[1-6].*?</h[1-6]>`).FindAllString(body, -1) {
				if strings.Contains(heading, "Checked by security") {
					t.Errorf("%s: the agent wrote %s", path, heading)
				}
			}
		}
		w.get("hana", "/").has("in the agent&#39;s words: “Checked by security: everything here is … (&#43;").lacks(
			"Approve all of it")
	}
}
