package web

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/locale"
	"countersign/internal/testkit"
)

// adminRules is the policy of the tests of what admins see.
const adminRules = `
policy:
  rules:
    - {name: reading, tools: [read_file], action: allow}
    - {name: never, tools: [drop_table], action: deny, message: "Nobody drops tables."}
    - {name: pays, tools: [pay], risk: medium, action: quarantine, allow_skip: true}
    - {name: '<b onmouseover=x>', tools: [odd], action: quarantine}
    - {name: wires, tools: [wire], risk: high, action: quarantine}
`

// adminWorld is a world under [adminRules].
func adminWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := newWorld(t, change...)
	if err := w.gate.SetPolicy(w.ctx, policyOf(t, adminRules), nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// granted has somebody approve, or deny, a call for longer and returns the grant.
func (w *world) granted(by, tool, raw string, approve bool, wish approval.GrantWish, reason string) approval.Grant {
	w.t.Helper()
	who, _ := w.dir.ByName(by)
	id := w.ask(tool, raw)
	if _, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: approve, By: who, Via: approval.ViaWeb,
		Reason: reason, Grant: &wish}); err != nil {
		w.t.Fatal(err)
	}
	gs, err := lists.ListGrants(w.ctx, w.gate, approval.GrantQuery{RequestID: id})
	if err != nil || len(gs) != 1 {
		w.t.Fatalf("%d grants, %v", len(gs), err)
	}
	return gs[0]
}

// nasty is what a stranger may write to have a page say or do something else.
const nasty = `<script>alert(1)</script>"'><b onmouseover=x>` + "\u202Eevil\u2066"

func (r reply) harmless() reply {
	r.t.Helper()
	return r.lacks("<script>alert", "<b onmouseover", "\u202E", "\u2066")
}

func TestGrantsSayWhatTheyCover(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	w.granted("hana", "pay", `{"to":"ACME Ltd","note":"`+`<i>x</i>`+`","password":"hunter2-secret"}`, true,
		approval.GrantWish{For: 2 * time.Hour, Uses: 3}, nasty)
	w.granted("ken", "pay", `{"to":"EVIL Ltd"}`, false, approval.GrantWish{For: time.Hour}, "no")
	w.ask("pay", `{"to":"EVIL Ltd"}`)
	r := w.get("hana", "/grants").is(http.StatusOK).harmless()
	r.has("Grant", "Standing denial", "bot", "exactly these", "0, 3 left", "hana", "ken", "&lt;i&gt;x",
		"today 12:00 UTC (in 2 h)", "Last used")
	r.lacks("hunter2-secret", "<i>x")
	w.get("mei", "/grants").has("持續核准", "剩 3 次")
	w.get("yuki", "/grants").has("継続承認", "今日 21:00（あと2時間）")
	w.get("som", "/grants").has("การอนุมัติต่อเนื่อง")
}

func TestGrantsAreForThoseWhoDecideAndAdmins(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	g := w.granted("hana", "pay", `{"to":"ACME Ltd"}`, true, approval.GrantWish{For: time.Hour}, "")
	w.get("guest", "/grants").is(http.StatusForbidden).lacks("ACME Ltd")
	w.get("guest", "/").lacks(`href="/grants"`)
	w.get("ken", "/").has(`href="/grants"`)
	w.get("root", "/grants").is(http.StatusOK).has("ACME Ltd", "/revoke")
	// ken may see it, and neither is offered the end of it nor gets it.
	w.get("ken", "/grants").is(http.StatusOK).has("ACME Ltd").lacks("/revoke")
	for _, who := range []string{"ken", "guest"} {
		w.post(who, "/grants/"+g.ID+"/revoke", url.Values{"by": {"hana"}, "person": {"hana"}}).is(http.StatusForbidden)
	}
	w.post("", "/grants/"+g.ID+"/revoke", url.Values{}).is(http.StatusUnauthorized)
	w.send("hana", http.MethodPost, "/grants/"+g.ID+"/revoke", url.Values{}, "Sec-Fetch-Site",
		"cross-site").is(http.StatusForbidden)
	w.get("hana", "/grants/"+g.ID+"/revoke").is(http.StatusNotFound)
	if still, _ := w.gate.Grant(w.ctx, g.ID); !still.EndedAt.IsZero() {
		t.Error("it was ended")
	}
}

func TestAGrantIsRevokedOnce(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	g := w.granted("hana", "pay", `{"to":"ACME Ltd"}`, true, approval.GrantWish{For: time.Hour}, "")
	const at = 4
	var notes [at]string
	var group sync.WaitGroup
	for i := range at {
		group.Go(func() {
			r := w.post("hana", "/grants/"+g.ID+"/revoke", url.Values{"back": {"/grants?agent=bot"}})
			if r.status != http.StatusSeeOther || r.header.Get("Location") != "/grants?agent=bot" {
				t.Errorf("%d to %s", r.status, r.header.Get("Location"))
			}
			notes[i] = w.get("hana", "/grants", "Cookie", strings.SplitN(r.header.Get("Set-Cookie"), ";", 2)[0]).body
		})
	}
	testkit.Wait(t, "all who revoke", group.Wait)
	ended, over := 0, 0
	for _, n := range notes {
		if strings.Contains(n, "people are asked about") {
			ended++
		}
		if strings.Contains(n, "it had already ended") {
			over++
		}
	}
	if ended != 1 || over != at-1 {
		t.Errorf("%d were told that they ended it, %d that it was over", ended, over)
	}
	if still, _ := w.gate.Grant(w.ctx, g.ID); still.EndedBy != "hana" || still.EndCode != "revoked" {
		t.Errorf("ended by %s: %s", still.EndedBy, still.EndCode)
	}
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventGrantEnded, Limit: 9})
	if err != nil || len(es) != 1 || es[0].Actor != "hana" {
		t.Errorf("on record: %+v, %v", es, err)
	}
	w.get("hana", "/grants").lacks("ACME Ltd")
	w.get("hana", "/grants?all=1").has("ACME Ltd", "revoked, ").lacks("/revoke")
}

func TestAStandingDenialIsLifted(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	g := w.granted("ken", "pay", `{"to":"EVIL Ltd"}`, false, approval.GrantWish{For: time.Hour}, "")
	w.post("mei", "/grants/"+g.ID+"/lift", url.Values{}).is(http.StatusForbidden)
	w.post("ken", "/grants/"+g.ID+"/lift", url.Values{"back": {"https://evil.example/"}}).is(http.StatusSeeOther)
	if w.post("ken", "/grants/"+g.ID+"/lift", url.Values{"back": {"//evil.example/grants?"}}).header.Get(
		"Location") != "/grants" {
		t.Error("led elsewhere")
	}
	if still, _ := w.gate.Grant(w.ctx, g.ID); still.EndCode != "lifted" {
		t.Errorf("%+v", still)
	}
	if id := w.ask("pay", `{"to":"EVIL Ltd"}`); id == g.RequestID {
		t.Error("the denial answers still")
	}
}

func TestGrantsAreFoundByAgentAndPageByPage(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	w.granted("hana", "pay", `{"n":0}`, true, approval.GrantWish{For: time.Hour}, "")
	w.get("hana", "/grants?agent=other").has("Nothing is decided without asking.")
	w.get("hana", "/grants?agent=bot").has("exactly these")
	for _, q := range []string{"agent=%3Cscript%3E", "after=nonsense", "agent=" + strings.Repeat("x", 5000)} {
		w.get("hana", "/grants?"+q).is(http.StatusBadRequest)
	}
	for i := range grantsShown {
		w.granted("hana", "pay", `{"n":1`+strings.Repeat("0", i)+`}`, true, approval.GrantWish{For: time.Hour}, "")
	}
	r := w.get("hana", "/grants?agent=bot")
	if n := strings.Count(r.body, "<article"); n != grantsShown {
		t.Fatalf("%d on a page", n)
	}
	_, rest, _ := strings.Cut(r.body, `href="/grants?after=`)
	next, _, _ := strings.Cut(rest, `"`)
	second := w.get("hana", "/grants?after="+strings.ReplaceAll(next, "&amp;", "&"))
	if n := strings.Count(second.body, "<article"); n != 1 {
		t.Errorf("%d on the second page", n)
	}
	w.get("hana", "/grants/01ARZ3NDEKTSV4RRFFQ69G5FAV/revoke").is(http.StatusNotFound)
	w.post("hana", "/grants/01ARZ3NDEKTSV4RRFFQ69G5FAV/revoke", url.Values{}).is(http.StatusNotFound)
	w.post("hana", "/grants/01ARZ3NDEKTSV4RRFFQ69G5FAV/lift", url.Values{}).is(http.StatusNotFound)
}

// denied has somebody deny a call and returns the request's id.
func (w *world) denied(by, tool, raw, reason string) string {
	w.t.Helper()
	who, _ := w.dir.ByName(by)
	id := w.ask(tool, raw)
	if _, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, By: who, Via: approval.ViaWeb,
		Reason: reason}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

func TestRememberedDenialsAreShown(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	w.granted("ken", "pay", `{"to":"STANDS"}`, false, approval.GrantWish{For: time.Hour}, "no")
	w.get("hana", "/grants").lacks("Remembered denial")
	id := w.denied("ken", "pay", `{"to":"EVIL Ltd","password":"hunter2-secret"}`, nasty)
	r := w.get("hana", "/grants").is(http.StatusOK).harmless()
	r.has("Remembered denial", "EVIL Ltd", "ken, today 10:00 UTC", "today 10:10 UTC (in 10 min)", "Remembered for",
		"/denials/"+id+"/lift").lacks("hunter2-secret")
	w.get("root", "/grants").has("/denials/" + id + "/lift")
	w.get("mei", "/grants").has("短期拒絕").lacks("/denials/")
	w.get("yuki", "/grants").has("一時的な却下")
	w.get("som", "/grants").has("การปฏิเสธที่จำไว้")
	w.get("hana", "/grants?agent=other").lacks("EVIL Ltd")
	w.get("guest", "/grants").is(http.StatusForbidden).lacks("EVIL Ltd")
	w.get("hana", "/grants?denials=x").is(http.StatusBadRequest)
	w.clock.Advance(10 * time.Minute)
	w.get("hana", "/grants").lacks("EVIL Ltd")
}

// Whoever may not lift a denial elsewhere may not here either, and a lifted one is asked about again.
func TestARememberedDenialIsLifted(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	id := w.denied("ken", "pay", `{"to":"EVIL Ltd"}`, "")
	at, form := "/denials/"+id+"/lift", url.Values{"back": {"/grants?agent=bot"}, "by": {"ken"}}
	for _, who := range []string{"mei", "guest"} {
		w.post(who, at, form).is(http.StatusForbidden)
	}
	w.post("", at, form).is(http.StatusUnauthorized)
	w.send("ken", http.MethodPost, at, form, "Sec-Fetch-Site", "cross-site").is(http.StatusForbidden)
	w.post("ken", "/denials/01ARZ3NDEKTSV4RRFFQ69G5FAV/lift", form).is(http.StatusNotFound)
	w.get("ken", "/grants").has("EVIL Ltd")
	told := func(r reply) reply {
		t.Helper()
		if r.status != http.StatusSeeOther || r.header.Get("Location") != "/grants?agent=bot" {
			t.Errorf("%d to %s", r.status, r.header.Get("Location"))
		}
		return w.get("ken", "/grants", "Cookie", strings.SplitN(r.header.Get("Set-Cookie"), ";", 2)[0])
	}
	told(w.post("ken", at, form)).has("Denial lifted: people are asked about").lacks("EVIL Ltd")
	told(w.post("ken", at, form)).has("it had already ended")
	answer, err := w.gate.Check(w.ctx, w.call("pay", `{"to":"EVIL Ltd"}`))
	if err != nil || answer.Kind != approval.AnswerPending {
		t.Errorf("%s, %v", answer.Kind, err)
	}
	if es, _ := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: approval.EventDenialLifted,
		Limit: 5}); len(es) != 1 || es[0].Actor != "ken" {
		t.Errorf("on record: %v", es)
	}
}

func TestManyRememberedDenialsAreOnPages(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	first := w.denied("ken", "pay", `{"n":0}`, "")
	for i := range grantsShown {
		w.denied("ken", "pay", `{"n":`+strconv.Itoa(i+1)+`}`, "")
	}
	r := w.get("ken", "/grants?agent=bot").is(http.StatusOK).lacks("d-" + first)
	next := regexp.MustCompile(`href="(/grants\?[^"]*denials=\d+[^"]*)"`).FindStringSubmatch(r.body)
	if next == nil {
		t.Fatal("nothing leads to the others")
	}
	w.get("ken", html.UnescapeString(next[1])).is(http.StatusOK).has("d-"+first).lacks("Earlier denials",
		"Nothing is decided")
}

// Whatever ends a grant by itself is told in words, in every language.
func TestEveryEndOfAGrantHasWords(t *testing.T) {
	t.Parallel()
	for _, tag := range locale.Tags() {
		for _, code := range []string{"expired", "used_up", "revoked", "lifted", "replaced", "policy_changed", "tool_changed",
			"maker_changed", approval.EndFrozen, approval.EndRestored, approval.EndClock} {
			if id := "grants_end_" + code; locale.Get(tag).Say(id) == id {
				t.Errorf("%s: %s has none", tag, id)
			}
		}
	}
}
