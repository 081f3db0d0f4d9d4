package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth"
	"countersign/internal/policy"
)

// approves has hana approve a call of bot, and bot make it.
func (w *world) approves(tool, raw string) {
	w.t.Helper()
	hana, _ := w.dir.ByName("hana")
	id := w.ask(tool, raw)
	if _, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: hana,
		Via: approval.ViaWeb}); err != nil {
		w.t.Fatal(err)
	}
	if answer, err := w.gate.Check(w.ctx, w.call(tool, raw)); err != nil || answer.Kind != approval.AnswerApproved {
		w.t.Fatalf("%s, %v", answer.Kind, err)
	}
	w.clock.Advance(time.Minute)
}

// fillApproved has people approve what no rule lets through, time and again.
func (w *world) fillApproved() {
	for i := range 6 {
		w.approves("pay", `{"to":"ACME"}`)
		w.approves("wire", fmt.Sprintf(`{"path":"/srv/reports/%d.md"}`, i))
		w.approves("odd", `{"password":"hunter2-secret"}`)
	}
}

// adminsOfTests are the people of these tests, all of them admins.
func adminsOfTests() []auth.Person {
	all := slices.Clone(peopleOfTests)
	for i := range all {
		all[i].Admin = true
	}
	return all
}

func suggestWorld(t testing.TB) *world {
	w := adminWorld(t)
	w.pages.record.history = w.store
	w.fillApproved()
	return w
}

func TestStatsSuggestRulesToAdmins(t *testing.T) {
	t.Parallel()
	w := suggestWorld(t)
	r := w.get("hana", "/stats").is(http.StatusOK).harmless()
	r.has("Based on 18 calls", "1. pay with to being &#34;ACME&#34;", "Such calls run without asking", "action: allow",
		"wire with path under /srv/reports/",
		"grants: {vary: {path: any}}", "These may then differ: path.", "High risk:", "the first rule that asks now (pays)",
		"<dt>Fewer cards</dt><dd>6</dd>", "<dt>Approved</dt><dd>6</dd>")
	r.lacks("hunter2-secret", "••••")
	yaml := "policy:\n  rules:\n"
	_, text, _ := strings.Cut(r.body, `aria-label="The rule, to copy">`)
	text, _, _ = strings.Cut(text, "</pre>")
	for _, line := range strings.Split(strings.NewReplacer("&#34;", `"`, "&amp;", "&").Replace(text), "\n") {
		yaml += "    " + line + "\n"
	}
	if p, problems := policy.Compile(policy.Parse([]byte(yaml)), policy.Options{}); p == nil || len(p.Rules()) != 1 {
		t.Errorf("what is copied is no rule: %v in\n%s", problems, yaml)
	}
	for who, want := range map[string]string{"mei": "可減少詢問的規則", "yuki": "確認を減らせるルール", "som": "กฎที่จะทำให้ถามน้อยลง"} {
		w.get(who, "/stats").lacks(want)
		w.dir.Replace(agentsOfTests, adminsOfTests())
		w.get(who, "/stats").has(want)
		w.dir.Replace(agentsOfTests, peopleOfTests)
	}
}

// Who may not see the audit log is suggested nothing.
func TestStatsSuggestNothingToOthers(t *testing.T) {
	t.Parallel()
	w := suggestWorld(t)
	w.get("ken", "/stats").is(http.StatusOK).has("By tool").lacks("ask less often", "/srv/reports", "action: allow")
	w.get("guest", "/stats").is(http.StatusForbidden).lacks("ask less often")
}

func TestStatsSuggestOfTheChosenTimeAndAgent(t *testing.T) {
	t.Parallel()
	w := suggestWorld(t)
	w.clock.Advance(8 * 24 * time.Hour)
	w.ask("late", `{}`)
	w.clock.Advance(time.Minute)
	w.get("hana", "/stats?days=7").is(http.StatusOK).has("Based on 0 calls", "No rule to suggest").lacks("action: allow")
	w.get("hana", "/stats?agent=other").is(http.StatusOK).lacks("action: allow")
}

// A call that somebody denied speaks against a rule also where its arguments have secrets.
func TestAMaskedDenialSpeaksAgainstARule(t *testing.T) {
	t.Parallel()
	w := suggestWorld(t)
	w.get("hana", "/stats").has("action: allow")
	w.denied("ken", "pay", `{"to":"ACME","password":"hunter2-secret"}`, "")
	w.clock.Advance(time.Minute)
	w.get("hana", "/stats").lacks("action: allow", "hunter2-secret")
}
