package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/locale"
	"countersign/internal/policy"
	"countersign/internal/policy/presets"
)

func TestThePolicyIsShown(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	w.get("ken", "/policy").is(http.StatusOK).harmless().has("1. reading", "2. never", "Nobody drops tables.", "ask",
		"Where no rule matches", "read_file",
		"4. &lt;b onmouseover=x&gt;", w.gate.Policy().Digest())
	w.get("guest", "/policy").is(http.StatusForbidden).lacks("reading")
	w.get("guest", "/").lacks(`"/policy"`)
	w.get("mei", "/policy").has("政策", "詢問人員")
}

// A call that is tried is explained, and neither asked about nor on record.
func TestACallIsTried(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	before, _ := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Limit: 100})
	for tool, want := range map[string][]string{
		"drop_table": {"<dd>deny</dd>", "<dd>never</dd>", "Nobody drops tables."},
		"read_file":  {"<dd>allow</dd>", "<dd>reading</dd>"},
		"pay":        {"<dd>ask</dd>", "<strong>3. pays: decides</strong>", "not reached"},
		"srv/other":  {"<dd>ask</dd>", "<dd>no rule</dd>"},
	} {
		w.post("ken", "/policy/try", url.Values{"agent": {"bot"}, "tool": {tool},
			"args": {`{"to":"\u202e<script>alert(1)</script>"}`}}).is(http.StatusOK).harmless().has(want...)
	}
	after, _ := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Limit: 100})
	if rs, _ := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{Limit: 10}); len(rs) != 0 ||
		len(after) != len(before) {
		t.Errorf("%d requests, %d events where there were %d", len(rs), len(after), len(before))
	}
	w.post("guest", "/policy/try", url.Values{"agent": {"bot"}, "tool": {"pay"}}).is(http.StatusForbidden)
	w.send("hana", http.MethodPost, "/policy/try", url.Values{"tool": {"pay"}}, "Sec-Fetch-Site",
		"cross-site").is(http.StatusForbidden)
}

// What cannot be tried is said, with what was typed still there and none of it in the log.
func TestACallThatCannotBeTried(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	for name, form := range map[string]url.Values{
		"no JSON":       {"agent": {"bot"}, "tool": {"pay"}, "args": {`{"password":"typed-secret-1"`}},
		"twice":         {"agent": {"bot"}, "tool": {"pay"}, "args": {`{"typed-secret-1":1,"typed-secret-1":2}`}},
		"no object":     {"agent": {"bot"}, "tool": {"pay"}, "args": {`["typed-secret-1"]`}},
		"no tool":       {"agent": {"bot"}, "args": {`{"k":"typed-secret-1"}`}},
		"hostile names": {"agent": {nasty}, "tool": {nasty}, "args": {`{"k":"typed-secret-1"}`}},
	} {
		r := w.post("hana", "/policy/try", form).is(http.StatusBadRequest).has(`role="alert"`,
			"typed-secret-1").lacks("<script>alert")
		if strings.Contains(r.body, "What would happen") {
			t.Errorf("%s: it was tried", name)
		}
	}
	w.post("hana", "/policy/try", url.Values{"agent": {"bot"}, "tool": {"pay"},
		"args": {`{"a":"` + strings.Repeat("x", maxTypedArgs) + `"}`}}).is(http.StatusBadRequest)
	w.post("hana", "/policy/try", url.Values{"agent": {"bot"}, "tool": {"pay"}, "args": {strings.Repeat("[", 100000)}}).is(
		http.StatusBadRequest)
	w.post("hana", "/policy/try", url.Values{"args": {strings.Repeat("x", maxForm)}}).is(http.StatusBadRequest)
	if strings.Contains(w.log.String(), "typed-secret-1") {
		t.Error("the log has what was typed")
	}
}

// guardedRules let an agent read everything but for what the guard is of.
const guardedRules = `
policy:
  guard: [gate_files, /etc/gate/countersign.yaml]
  rules:
    - {name: reading, tools: [read_file], action: allow}
    - {name: never, tools: [drop_table], action: deny}
`

func TestTheGuardIsShownBeforeTheRules(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	w.get("ken", "/policy").lacks("Guard of the gate")
	if err := w.gate.SetPolicy(w.ctx, policyOf(t, guardedRules), nil); err != nil {
		t.Fatal(err)
	}
	page := w.get("ken", "/policy").is(http.StatusOK).has("Guard of the gate&#39;s files",
		"at critical risk").lacks("/etc/gate")
	if guard, first := strings.Index(page.body, "Guard of the gate"), strings.Index(page.body,
		"1. reading"); guard > first {
		t.Error("it stands behind the rules")
	}
	for lang, want := range map[string]string{"mei": "閘道檔案的防護", "yuki": "ゲート自身のファイルの保護",
		"som": "การป้องกันไฟล์ของระบบอนุมัติ"} {
		w.get(lang, "/policy").has(want)
	}
}

func TestATriedCallTellsOfTheGuard(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	if err := w.gate.SetPolicy(w.ctx, policyOf(t, guardedRules), nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ tool, args, want string }{
		{"read_file", `{"path":"/etc/gate/countersign.yaml"}`, "<strong>Guard of the gate&#39;s files: decides</strong>"},
		{"read_file", `{"path":"/tmp/x"}`, "Guard of the gate&#39;s files: does not match"},
	} {
		w.post("ken", "/policy/try", url.Values{"agent": {"bot"}, "tool": {tt.tool}, "args": {tt.args}}).is(
			http.StatusOK).has(tt.want)
	}
}

// Why a rule decides, and what the rules of a preset are called, is told in the reader's language.
func TestATriedCallIsExplainedInTheReadersLanguage(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	const included = "policy: {include: [preset/coding-agent, preset/files]}\n"
	if err := w.gate.SetPolicy(w.ctx, policyOf(t, included), nil); err != nil {
		t.Fatal(err)
	}
	form := url.Values{"agent": {"bot"}, "tool": {"delete_file"}, "args": {`{"path":"/srv/x"}`}}
	w.post("ken", "/policy/try", form).has("<dd>preset/files: deleting files</dd>", "(matched)",
		"(tool delete_file is not among").lacks("<dt>Name</dt>")
	for reader, want := range map[string][]string{
		"yuki": {"<dd>preset/files: ファイルの削除</dd>", "(一致)", "(ツール delete_file は対象外です", "(先のルールで決まりました)"},
		"som":  {"<dd>preset/files: การลบไฟล์</dd>", "(ตรงกับกฎ)", "(เครื่องมือ delete_file ไม่อยู่ใน", "(กฎก่อนหน้าตัดสินแล้ว)"},
		"mei":  {"<dd>preset/files: 刪除檔案</dd>", "(符合)", "(工具 delete_file 不在", "(先前的規則已決定)"},
	} {
		w.post(reader, "/policy/try", form).is(http.StatusOK).has(want...).lacks("matched", "is not among",
			"an earlier rule")
	}
	// Whoever names a rule elsewhere needs what the configuration calls it.
	w.get("yuki", "/policy").has("preset/files: ファイルの削除", "<dd>preset/files: deleting files</dd>")
}

func TestEveryRuleOfAPresetHasANameInEachLanguage(t *testing.T) {
	for _, preset := range presets.Names() {
		text, _ := presets.Text(preset)
		rules, problems := policy.ReadPreset(preset, text)
		if len(problems) > 0 {
			t.Fatalf("%s: %v", preset, problems)
		}
		for _, r := range rules {
			for _, tag := range locale.Tags() {
				switch said := locale.Get(tag).Rule(r.Name); {
				case tag == locale.Default && said != r.Name:
					t.Errorf("%q is called %q in English", r.Name, said)
				case tag != locale.Default && said == r.Name:
					t.Errorf("%s: %q has no name", tag, r.Name)
				}
			}
		}
	}
	for _, name := range []string{"", "payments", "rule 3", "preset/payments", "preset/payments: mine"} {
		if said := locale.Get("ja").Rule(name); said != name {
			t.Errorf("%q is called %q", name, said)
		}
	}
}
