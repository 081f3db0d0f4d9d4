package web

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
)

// edit sends other args to the page of the step-up, as the page of the request does.
func (k *keyed) edit(person, id, args string, more ...string) reply {
	k.t.Helper()
	return k.post(person, "/r/"+id+"/passkey/edit", k.form(id, append([]string{"args", args}, more...)...), "Host", k.host)
}

// approves returns the form that a page has for a passkey, as a browser would send it.
func (r reply) approves() url.Values {
	r.t.Helper()
	_, body, ok := strings.Cut(r.body, `id="approve"`)
	if !ok {
		r.t.Fatalf("%s: nothing to approve in\n%s", r.what, r.body)
	}
	body, _, _ = strings.Cut(body, "</form>")
	f := url.Values{}
	for _, field := range strings.Split(body, `<input type="hidden" name="`)[1:] {
		name, rest, _ := strings.Cut(field, `"`)
		if rest, ok := strings.CutPrefix(rest, ` value="`); ok {
			value, _, _ := strings.Cut(rest, `"`)
			f.Set(name, html.UnescapeString(value))
		}
	}
	return f
}

// An edit of what takes a passkey goes by a page that shows what will run, and how it differs.
func TestAnEditIsApprovedWithAPasskeyForWhatThePageShows(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	id := k.ask("open_vault", `{"door":1,"note":"`+"a\u202eb"+`","tray":"left"}`)
	k.get("hana", "/r/"+id, "Host", k.host).is(200).has(`action="/r/`+id+`/passkey/edit"`, `\u202e`).lacks(`value="edit"`)
	k.get("hana", "/r/"+id+"/passkey", "Host", k.host).is(200).has(`action="/r/` + id +
		`/passkey/edit"`).lacks("instead of those that the agent asked for")
	page := k.edit("hana", id, `{"tray":"right", "door":1, "who":"x`+"\u200b"+`"}`, "reason", "checked").is(200)
	page.has("You approve these arguments instead of those that the agent asked for.", "needs JavaScript", "<noscript>",
		">checked</textarea>",
		`<pre id="shown">{&#34;door&#34;:1,&#34;tray&#34;:&#34;right&#34;,&#34;who&#34;:&#34;x⟨U&#43;200B⟩&#34;}</pre>`,
		`<span class="diff-removed">- note: `, `<span class="diff-removed">- tray: &#34;left&#34;</span>`,
		`<span class="diff-added">&#43; tray: &#34;right&#34;</span>`,
		`<span class="diff-added">&#43; who: `).lacks("- door", "\u200b", "\u202e")
	if got := k.status(id); got != approval.Pending {
		t.Fatalf("to look at it makes it %s", got)
	}
	form := page.approves()
	if form.Get("args") != `{"door":1,"tray":"right","who":"x\u200b"}` || form.Get("v") != k.form(id).Get("v") {
		t.Fatalf("the form has %v", form)
	}
	form.Set("confirmed", "yes")
	r := k.post("hana", "/r/"+id+"/passkey", k.signed(id, form)).is(http.StatusSeeOther)
	old := k.request(id)
	next := k.request(old.ReplacedBy)
	if old.Status != approval.Denied || old.EndCode != approval.EndEdited || r.header.Get("Location") != "/r/"+next.ID {
		t.Errorf("it is %s, %s, and leads to %s", old.Status, old.EndCode, r.header.Get("Location"))
	}
	if next.Status != approval.Approved || string(next.Args) != "{\"door\":1,\"tray\":\"right\",\"who\":\"x\u200b\"}" ||
		len(next.Votes) != 1 || !next.Votes[0].StepUp {
		t.Errorf("in its place is %s %s, %+v", next.Status, next.Args, next.Votes)
	}
}

// What was signed for certain args in place of a request's approves those of that request, in that version, once, for
// whoever signed.
func TestAPasskeyForEditedArgsApprovesNothingElse(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	id, other := k.ask("open_vault", `{"door":1}`), k.ask("open_vault", `{"door":2}`)
	signed := func() url.Values {
		t.Helper()
		return k.signed(id, k.edit("hana", id, `{"door":7}`).is(200).approves())
	}
	with := func(change func(f url.Values)) func() url.Values { // made in the turn of each: a key counts
		return func() url.Values {
			t.Helper()
			f := signed()
			change(f)
			return f
		}
	}
	for what, test := range map[string]struct {
		person, id string
		form       func() url.Values
		want       int
	}{
		"other args":        {"hana", id, with(func(f url.Values) { f.Set("args", `{"door":8}`) }), http.StatusForbidden},
		"the request's own": {"hana", id, with(func(f url.Values) { f.Del("args") }), http.StatusSeeOther},
		"another version": {"hana", id, with(func(f url.Values) { f.Set("v", k.form(other).Get("v")) }),
			http.StatusForbidden},
		"another request": {"hana", other, with(func(f url.Values) { f.Set("v", k.form(other).Get("v")) }),
			http.StatusForbidden},
		"another person": {"ken", id, signed, http.StatusForbidden},
		"nothing signed": {"hana", id, with(func(f url.Values) { f.Del("passkey") }), http.StatusForbidden},
		"signed for its own": {"hana", id, func() url.Values {
			f := k.signed(id, k.form(id))
			f.Set("args", `{"door":7}`)
			return f
		}, http.StatusForbidden},
	} {
		form := test.form()
		form.Set("confirmed", "yes")
		form.Set("viewer", test.person)
		r := k.post(test.person, "/r/"+test.id+"/passkey", form).is(test.want)
		if test.want == http.StatusForbidden {
			r.has(`role="alert"`, "was not accepted", html.EscapeString(form.Get("args"))) // what was typed is kept
		}
		if a, b := k.status(id), k.status(other); a != approval.Pending || b != approval.Pending {
			t.Fatalf("%s: they are %s and %s", what, a, b)
		}
	}
	form := signed()
	k.post("hana", "/r/"+id+"/passkey", form).is(http.StatusSeeOther)
	next := k.request(id).ReplacedBy
	if k.status(next) != approval.Approved {
		t.Fatalf("in its place is %s", k.status(next))
	}
	for _, again := range []string{id, other, next} {
		used := maps.Clone(form)
		used.Set("v", k.form(again).Get("v"))
		k.post("hana", "/r/"+again+"/passkey", used).is(http.StatusForbidden)
	}
	if got := k.status(other); got != approval.Pending {
		t.Errorf("a used one makes the other %s", got)
	}
}

// What changed between the page, the passkey and its form is not approved, and what was typed is kept.
func TestAnEditOfWhatChangedIsNotApprovedWithAPasskey(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	id := k.ask("open_vault", `{"door":1}`)
	seen := k.form(id, "args", `{"door":7}`, "reason", "my own words")
	signed := k.signed(id, k.edit("hana", id, `{"door":7}`).approves())
	if _, err := k.gate.Extend(k.ctx, id, approval.Actor{Kind: approval.Human, Name: "hana"},
		approval.ViaWeb); err != nil {
		t.Fatal(err)
	}
	for path, form := range map[string]url.Values{"/passkey/edit": seen, "/passkey": signed} {
		k.post("hana", "/r/"+id+path, form).is(http.StatusConflict).has("It has changed since you saw it",
			`{&#34;door&#34;:7}`, k.form(id).Get("v"))
	}
	if c := k.begin("hana", "/r/"+id+"/passkey/begin", seen); !strings.Contains(c.Error, "has changed since you saw it") {
		t.Errorf("beginning with the old version: %+v", c)
	}
	if got := k.status(id); got != approval.Pending {
		t.Fatalf("it is %s", got)
	}
	signed = k.signed(id, k.edit("hana", id, `{"door":7}`).approves())
	k.post("ken", "/r/"+id+"/decide", k.form(id, "do", "deny")).is(http.StatusSeeOther)
	k.post("hana", "/r/"+id+"/passkey", signed).is(http.StatusConflict).has("Already decided: Denied by ken")
}

func TestWhatCannotBeEditedIsSaid(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	id := k.ask("open_vault", `{"door":1}`)
	for _, bad := range []string{"", " ", "{", `[]`, `{"a":1,"a":2}`, hostile} {
		k.edit("hana", id, bad, "reason", "kept").is(http.StatusBadRequest).has(`role="alert"`, "kept").lacks("<script>alert")
	}
	r := k.edit("hana", id, `{ "door": 1 }`)
	k.goes(r, stepUpPath(id))
	k.get("hana", stepUpPath(id), "Host", k.host, "Cookie", noteOf(r)).has("Nothing was edited")
	secret := k.ask("open_vault", `{"api_key":"sk_live_0123456789abcdef"}`)
	for _, guess := range []string{`{"api_key":"sk_live_0123456789abcdef"}`, `{"api_key":"sk_live_0123456789abcdeg"}`} {
		k.edit("hana", secret, guess).is(http.StatusBadRequest).has("Some values are masked").lacks(
			"sk_live_0123456789abcdef")
	}
	k.get("hana", "/r/"+secret+"/passkey", "Host", k.host).lacks("/passkey/edit", "sk_live_0123456789abcdef")
	k.edit("guest", id, `{"door":2}`).is(http.StatusForbidden)
	k.edit("", id, `{"door":2}`).is(http.StatusUnauthorized)
}

// noteOf is the cookie of what the next page says first.
func noteOf(r reply) string {
	for _, c := range (&http.Response{Header: r.header}).Cookies() {
		if strings.HasSuffix(c.Name, "-note") {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}

// Args may take a passkey, a second yes or a reason where the request that they replace does not.
func TestAnEditNeedsWhatItsArgsNeed(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	const rules = "policy:\n  rules:\n" +
		"    - {tools: [wire], when: args.sum >= 1000, step_up: passkey, confirm: true, require_reason: true}\n" +
		"    - {tools: [wire], when: args.sum >= 100, confirm: true}\n" +
		"    - {tools: [wire], when: args.sum < 0, action: deny}\n" +
		"    - {tools: [wire]}\n"
	if err := k.gate.SetPolicy(k.ctx, policyOf(t, rules), nil); err != nil {
		t.Fatal(err)
	}
	k.add("hana", "phone")
	decide := func(id, args string, more ...string) reply {
		t.Helper()
		return k.post("hana", "/r/"+id+"/decide", k.form(id, append([]string{"do", "edit", "args", args}, more...)...),
			"Host", k.host)
	}
	id := k.ask("wire", `{"sum":1}`)
	decide(id, `{"sum":200}`).is(http.StatusUnprocessableEntity).has(`name="confirmed"`, `{&#34;sum&#34;:200}`)
	decide(id, `{"sum":200}`, "confirmed", "yes").is(http.StatusSeeOther)
	if got := k.status(k.request(id).ReplacedBy); got != approval.Approved {
		t.Errorf("confirmed, it is %s", got)
	}
	id = k.ask("wire", `{"sum":2}`)
	page := decide(id, `{"sum":2000}`).is(200).has("instead of those that the agent asked for", `data-passkey="/r/`+id+
		`/passkey/begin"`, "- sum: 2", "&#43; sum: 2000")
	post := func(args string, more ...string) reply {
		t.Helper()
		k.clock.Advance(time.Second)
		return k.post("hana", "/r/"+id+"/passkey", k.signed(id, k.form(id, append([]string{"args", args}, more...)...)),
			"Host", k.host)
	}
	post(`{"sum":-1}`, "confirmed", "yes").is(http.StatusUnprocessableEntity)
	post(`{"sum":2000}`, "confirmed", "yes").is(http.StatusUnprocessableEntity).has(`{&#34;sum&#34;:2000}`, `role="alert"`)
	post(`{"sum":2000}`, "reason", "my own words").is(http.StatusUnprocessableEntity).has(`{&#34;sum&#34;:2000}`,
		"my own words", `name="confirmed"`)
	if got := k.status(id); got != approval.Pending {
		t.Fatalf("it is %s", got)
	}
	form := page.approves()
	form.Set("confirmed", "yes")
	form.Set("reason", "checked")
	k.clock.Advance(time.Second)
	k.post("hana", "/r/"+id+"/passkey", k.signed(id, form)).is(http.StatusSeeOther)
	if r := k.request(k.request(id).ReplacedBy); r.Status != approval.Approved || string(r.Args) != `{"sum":2000}` ||
		!slices.ContainsFunc(r.Votes, func(v approval.Vote) bool { return v.StepUp }) {
		t.Errorf("it is %s %s %+v", r.Status, r.Args, r.Votes)
	}
}

// Where the page is not at the address that passkeys belong to, it says so in place of a button that cannot work.
func TestThePageOfAStepUpSaysWherePasskeysWork(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	id := k.ask("open_vault", `{}`)
	k.get("hana", stepUpPath(id)).is(200).has("Passkeys work at one address of these pages only.", k.at+
		stepUpPath(id)).lacks("data-passkey")
	k.at = "http://192.0.2.7"
	k.get("hana", stepUpPath(id)).is(200).has("An admin can set public_url.").lacks("data-passkey")
}
