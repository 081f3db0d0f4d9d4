package policy

import (
	"testing"

	"countersign/approval"
	"countersign/approval/summary"

	"github.com/google/go-cmp/cmp"
)

func TestARuleSaysWhatWillHappenInSeveralLanguages(t *testing.T) {
	p := rules(t, `{tools: [pay], summary: {ja: 送金, en: Pay}, message: {ja: 大きい, th: ใหญ่}}`,
		`{tools: [one], summary: "Do  {args.x}", message: Big}`, `{tools: [none]}`)
	for tool, want := range map[string]approval.Verdict{
		"pay": {Message: "大きい", Sentences: &summary.Sentences{Summary: summary.Wording{"": "Pay", "en": "Pay", "ja": "送金"},
			Message: summary.Wording{"": "大きい", "ja": "大きい", "th": "ใหญ่"}}},
		"one":  {Message: "Big", Sentences: &summary.Sentences{Summary: summary.Wording{"": "Do {args.x}"}}},
		"none": {Message: "none needs a person's approval."},
	} {
		v := p.Evaluate(t.Context(), call(t, tool, `{}`))
		if d := cmp.Diff(want.Sentences, v.Sentences); d != "" {
			t.Errorf("%s: %s", tool, d)
		}
		if tool != "none" && v.Message != want.Message {
			t.Errorf("%s: %q", tool, v.Message)
		}
	}
	if x := p.Explain(call(t, "one", `{}`)); x.Summary != "Do {args.x}" {
		t.Errorf("explained as %q", x.Summary)
	}
	if i := p.Rules()[0]; i.Summary != "Pay" || i.SummaryIn["ja"] != "送金" || i.MessageIn["th"] != "ใหญ่" ||
		len(i.SummaryIn) != 2 {
		t.Errorf("shown as %+v", i)
	}
}

// Where something else is said than the rule's message, its translations are not said either; what happens stays.
func TestTranslationsGoWithTheirMessage(t *testing.T) {
	p := rules(t, `{tools: [w], conditions: [{param: path, under: [/tmp]}], action: allow, summary: Write, `+
		`message: {en: fine, ja: 可}}`)
	v := p.Evaluate(t.Context(), call(t, "w", `{"path":"../x"}`))
	if v.Action != approval.Quarantine || v.Sentences == nil || v.Sentences.Message != nil ||
		v.Sentences.Summary[""] != "Write" {
		t.Errorf("%+v, %+v", v, v.Sentences)
	}
}

// What a rule only says does not end what was granted under it.
func TestASummaryIsNoPartOfARulesDigest(t *testing.T) {
	digest := func(rule string) string {
		return rules(t, rule).Evaluate(t.Context(), call(t, "x", `{}`)).RuleDigest
	}
	plain := digest(`{tools: [x]}`)
	if got := digest(`{tools: [x], summary: Do, message: {en: Why, ja: 何故}}`); got != plain || plain == "" {
		t.Errorf("%q, want %q", got, plain)
	}
}
