package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/approval"
)

// on sends one of the forms of a request's page, with the version that stands.
func (w *world) on(person, id, what string, form url.Values) reply {
	w.t.Helper()
	if !form.Has("v") {
		form.Set("v", w.version(id))
	}
	return w.post(person, "/r/"+id+"/"+what, form)
}

func TestARequestIsShownWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	denied := w.ask("pay", `{"to":"acme","amount":1}`)
	w.on("ken", denied, "decide", url.Values{"do": {"deny"}, "reason": {"wrong account"}}).is(http.StatusSeeOther)
	w.clock.Advance(2 * time.Minute)
	id := w.ask("pay", `{"to":"acme-2","amount":1,"api_key":"sk_live_0123456789abcdef"}`, func(c *approval.Call) {
		c.Rationale, c.Preview = "It is due.", "--- a\n+++ b\n@@ -1 +1 @@\n-old line\n+new line\n"
	})
	w.get("hana", "/r/"+id).is(200).has("bot will run pay once", "acme-2", `&#34;amount&#34;:1`,
		"Last call of this tool: denied by ken 2 min ago", "acme → acme-2", "It is due.",
		"not verified", `diff-added">&#43;new line`, "pays", w.request(id).ArgsHash, id, "Asked", "Some values are masked",
		`name="do" value="approve"`,
		`action="/r/`+id+`/freeze"`, `action="/r/`+id+`/cancel"`, `action="/r/`+id+
			`/extend"`).lacks("sk_live_0123456789abcdef", `name="args"`)
	w.get("guest", "/r/"+id).is(200).lacks(`method="post"`)
	w.get("root", "/r/"+id).is(200).has("Other people decide this", "/cancel", "/freeze",
		"/extend").lacks(`value="approve"`, `value="deny"`)
	w.get("ken", "/r/"+id).is(200).has(`value="approve"`).lacks("/cancel")
	w.get("hana", "/r/"+strings.ToLower(approval.Short(id))).is(http.StatusSeeOther)
	w.get("hana", "/r/"+strings.ToLower(id)).is(http.StatusSeeOther)
	w.get("hana", "/r/01KAQ5V0000000000000000000").is(http.StatusNotFound)
	w.get("hana", "/r/x").is(http.StatusNotFound)
	w.get("", "/r/"+id).is(http.StatusSeeOther)
}

// The page holds a diff against the argument as cards do: it leads with one that fits, and says first of one that does
// not that it is not what will be written.
func TestAPageHoldsADiffAgainstTheArgument(t *testing.T) {
	t.Parallel()
	const content, diff = "[gate]\nopen = true\n\n# the end\n",
		"--- a\n+++ b\n@@ -1,2 +1,2 @@ anything\n [gate]\n-open = false\n+open = true\n"
	for _, c := range []struct {
		name, content, readWith string
		fits                    bool
		want, lacks             []string
	}{
		{"it fits", content, "", true, []string{"What changes in “content”", "&#43;1 −1", `diff-added">&#43;open = true`,
			"Checked: “content” has these lines. Not checked: which of them are new", "⟨2 lines: in the diff above⟩",
			"# the end"},
			[]string{"not verified", "anything", "open = true</pre>",
				"U&#43;27E8"}},
		{"the gate made it", content, "read_text_file", true,
			[]string{"What changes in “content”", "Compared with what Countersign read through read_text_file"},
			[]string{"not verified", "Checked: "}},
		{"it lies", strings.Replace(content, "true", "all", 1), "", false,
			[]string{"⚠ The preview is NOT what will be written: it does not match “content”.", "open = all", "not verified",
				"&#43;open = true"},
			[]string{"diff-added", "in the diff above", "What changes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			raw, _ := json.Marshal(map[string]string{"path": "gate.conf", "content": c.content})
			id := w.ask("deploy", string(raw), func(call *approval.Call) { call.Preview, call.PreviewFrom = diff, c.readWith })
			page := w.get("hana", "/r/"+id).is(200).has(c.want...).lacks(c.lacks...)
			first, then := "What changes in “content”", ">Arguments<"
			if !c.fits {
				first, then = "NOT what will be written", "bot will run deploy"
				w.get("hana", "/").is(200).has(`<p class="note bad">⚠ The preview is NOT what will be written`)
			}
			if strings.Index(page.body, first) > strings.Index(page.body, then) {
				t.Errorf("%q comes after %q", first, then)
			}
		})
	}
}

func TestARequestIsDecidedOnItsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	approved, denied, books, deploy := w.ask("pay", `{}`), w.ask("pay", `{"n":1}`), w.ask("close_books", `{}`),
		w.ask("deploy", `{}`)
	w.on("hana", approved, "decide", url.Values{"do": {"approve"}}).is(http.StatusSeeOther)
	w.on("hana", denied, "decide", url.Values{"do": {"deny"}, "reason": {"too much"}}).is(http.StatusSeeOther)
	w.on("hana", books, "decide", url.Values{"do": {"approve"}, "reason": {"month's end"}}).is(
		http.StatusUnprocessableEntity).has("month&#39;s end")
	w.stands(books, approval.Pending)
	w.on("hana", books, "decide", url.Values{"do": {"approve"}, "confirmed": {"yes"}}).is(http.StatusSeeOther)
	w.on("hana", deploy, "decide", url.Values{"do": {"approve"}}).is(http.StatusUnprocessableEntity)
	w.on("hana", deploy, "decide", url.Values{"do": {"approve"}, "reason": {"release"}}).is(http.StatusSeeOther)
	for id, want := range map[string]approval.Status{approved: "approved", denied: "denied", books: "approved",
		deploy: "approved"} {
		w.stands(id, want)
	}
	w.get("ken", "/r/"+denied).is(200).has("Denied by hana", "too much", "This has ended").lacks(`value="approve"`)
}

func TestVotesOnAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.ask("wire", `{}`)
	w.on("mei", id, "decide", url.Values{"do": {"approve"}}).is(http.StatusForbidden)
	w.on("hana", id, "decide", url.Values{"do": {"approve"}}).is(http.StatusSeeOther)
	w.get("hana", "/r/"+id).is(200).has("1 of 2 approved", "Waiting for: ken", `value="deny"`).lacks(`value="approve"`)
	w.on("hana", id, "decide", url.Values{"do": {"approve"}}).is(http.StatusConflict).has(
		"You already approved this (today 10:00 UTC)")
	w.stands(id, approval.Pending)
	w.on("ken", id, "decide", url.Values{"do": {"approve"}}).is(http.StatusSeeOther)
	w.stands(id, approval.Approved)
}

// What changed meanwhile is not decided, is shown as it is now, and what was typed is kept.
func TestWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.ask("wire", `{}`)
	seen := w.version(id)
	w.on("ken", id, "decide", url.Values{"do": {"approve"}}).is(http.StatusSeeOther)
	for _, form := range []url.Values{{"do": {"approve"}, "v": {seen}, "reason": {"my own words"}},
		{"do": {"deny"}, "v": {seen}, "reason": {"my own words"}},
		{"do": {"edit"}, "args": {`{"x":1}`}, "v": {seen}, "reason": {"my own words"}}} {
		w.on("hana", id, "decide", form).is(http.StatusConflict).has("It has changed since you saw it", "my own words",
			"1 of 2 approved",
			`name="v" value="`+w.version(id)+`"`)
	}
	for _, what := range []string{"extend", "cancel"} {
		w.on("hana", id, what, url.Values{"v": {seen}}).is(http.StatusConflict)
	}
	for _, v := range []string{"", w.version(w.ask("wire", `{"n":2}`))} {
		w.on("hana", id, "decide", url.Values{"do": {"approve"}, "v": {v}}).is(http.StatusConflict)
	}
	w.stands(id, approval.Pending)
	w.on("hana", id, "decide", url.Values{"do": {"approve"}}).is(http.StatusSeeOther)
	w.on("ken", id, "decide", url.Values{"do": {"deny"}, "v": {seen}}).is(http.StatusConflict).has(
		"Already decided: Approved by ken and hana")
	late := w.ask("pay", `{}`)
	w.clock.Advance(w.request(late).ExpiresAt.Sub(w.clock.Now()))
	w.on("hana", late, "decide", url.Values{"do": {"approve"}}).is(http.StatusGone)
	w.stands(late, approval.Expired)
}

func TestAnEditIsApprovedInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.ask("pay", `{"amount":420,"note":"a`+"\u202e"+`b"}`)
	w.get("hana", "/r/"+id).is(200).has(`{&#34;amount&#34;:420,&#34;note&#34;:&#34;a\u202eb&#34;}`)
	for _, bad := range []string{"", "{", `[]`, `{"a":1,"a":2}`, "not json"} {
		w.on("hana", id, "decide", url.Values{"do": {"edit"}, "args": {bad}, "reason": {"kept"}}).is(
			http.StatusBadRequest).has("kept", `role="alert"`)
	}
	w.stands(id, approval.Pending)
	r := w.on("hana", id, "decide", url.Values{"do": {"edit"}, "args": {`{"amount": 42}`}}).is(http.StatusSeeOther)
	old := w.request(id)
	if old.Status != approval.Denied || old.EndCode != approval.EndEdited || r.header.Get("Location") != "/r/"+
		old.ReplacedBy {
		t.Fatalf("%s, %s, to %s", old.Status, old.EndCode, r.header.Get("Location"))
	}
	if n := w.request(old.ReplacedBy); n.Status != approval.Approved || string(n.Args) != `{"amount":42}` ||
		n.ResolvedBy != "hana" {
		t.Errorf("%s %s by %s", n.Status, n.Args, n.ResolvedBy)
	}
	w.get("hana", "/r/"+id).is(200).has("/r/" + old.ReplacedBy)
}

// tellings keeps what admins are told.
type tellings struct {
	froze   []approval.Epoch
	granted []approval.Grant
}

func (t *tellings) Froze(_ context.Context, e approval.Epoch) error {
	t.froze = append(t.froze, e)
	return nil
}
func (*tellings) TellLifted(context.Context, approval.Epoch, approval.Actor) error { return nil }
func (t *tellings) TellGranted(_ context.Context, g approval.Grant) error {
	t.granted = append(t.granted, g)
	return nil
}

func TestWhatElseCanBeDoneAboutARequest(t *testing.T) {
	t.Parallel()
	var told tellings
	w := newWorld(t, func(o *Options) { o.Freezes, o.Granted = &told, &told })
	id := w.ask("pay", `{}`)
	until := w.request(id).ExpiresAt
	w.on("guest", id, "extend", url.Values{}).is(http.StatusForbidden)
	w.on("hana", id, "extend", url.Values{}).is(http.StatusSeeOther)
	if got := w.request(id).ExpiresAt; !got.Equal(until.Add(time.Hour)) {
		t.Errorf("until %s", got)
	}
	w.on("hana", id, "extend", url.Values{}).is(http.StatusConflict)
	w.on("hana", id, "decide", url.Values{"do": {"approve"}, "for": {"forever"}}).is(http.StatusBadRequest)
	w.on("hana", id, "decide", url.Values{"do": {"approve"}, "for": {"8h"}}).is(http.StatusSeeOther)
	if len(told.granted) != 1 || told.granted[0].By != "hana" {
		t.Errorf("told of %v", told.granted)
	}
	other := w.ask("pay", `{"n":2}`)
	w.on("ken", other, "cancel", url.Values{}).is(http.StatusForbidden)
	w.on("hana", other, "cancel", url.Values{"reason": {"no more"}}).is(http.StatusSeeOther)
	w.stands(other, approval.Cancelled)
	third := w.ask("pay", `{"n":3}`)
	w.on("guest", third, "freeze", url.Values{}).is(http.StatusForbidden)
	w.on("ken", third, "freeze", url.Values{"reason": {"odd"}, "agent": {"other"}}).is(http.StatusSeeOther)
	if len(told.froze) != 1 || told.froze[0].Agent != "bot" {
		t.Errorf("told of %v", told.froze)
	}
	w.stands(third, approval.Cancelled)
	w.on("guest", id, "decide", url.Values{"do": {"approve"}}).is(http.StatusForbidden)
}

// A page has a form for what a chat is told to type, and says nothing that is for programs.
func TestAPageSaysWhatAPageNeeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.ask("deploy", `{"n":1}`)
	for _, path := range []string{"/", "/r/" + id} {
		w.get("hana", path).is(200).has("Reason required").lacks("Type: approve", "approval_required")
	}
	w.get("yuki", "/history").is(200).has("deploy には人の承認が必要です。").lacks("needs a person")
}
