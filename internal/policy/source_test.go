package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"countersign/internal/yamlpos"
)

func TestTheSourceIsWhatIsWrittenWithoutValuesOfVariables(t *testing.T) {
	havePresets(t, agentPreset)
	const src = `
policy:
  default_timeout: 2h
  include: [preset/agent]
  rules:
    - name: pay ${WHOM}
      tools: [pay]
      when: args.to == "${ACCOUNT}" && args.cents > 9007199254740993
      message: "to ${ACCOUNT}, for $${NAME} <b>"
      conditions: [{param: path, under: ["${FOLDER}"]}, {param: n, lt: "${LIMIT}"}]
      approvers: ["${WHO}"]
    - &second
      tools: ["${TOOL}", b]
      equals-is-kept: x
    - action: deny # never
`
	values := map[string]string{"ACCOUNT": "JP-4711", "FOLDER": "/secret//folder/", "LIMIT": "8472", "TOOL": "hidden_tool",
		"WHO": "someone", "WHOM": "mystery"}
	env := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	doc, _ := yamlpos.Parse([]byte(strings.Replace(src, "      equals-is-kept: x\n", "", 1)), env,
		func(at yamlpos.Position, message string) { t.Errorf("%v: %s", at, message) })
	p, problems := Compile(Read(doc), Options{})
	if p == nil {
		t.Fatal(problems)
	}
	text := p.Source()
	for name, value := range values {
		for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == '/' }) {
			if strings.Contains(text, part) {
				t.Errorf("the value of %s is in the source", name)
			}
		}
		if !strings.Contains(text, "${"+name+"}") {
			t.Errorf("the source does not name %s", name)
		}
	}
	if !json.Valid([]byte(text)) || !strings.Contains(text, "for $${NAME} <b>") {
		t.Errorf("the source is\n%s", text)
	}
	var s source
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if s.Rules[0].Name != "pay ${WHOM}" || s.Rules[2].Name != "rule 3" || s.Rules[3].Name != "preset/agent: reading" ||
		s.Rules[0].Timeout != "2h" || s.Rules[2].Action != "deny" || s.Terms.Group != "turn" || s.Rules[3].Written == nil {
		t.Errorf("the source is\n%s", text)
	}
}

func TestPoliciesThatSayTheSameHaveOneSource(t *testing.T) {
	const src = "policy:\n  rules:\n    - {tools: [a], allow_skip: true}\n"
	one, other := compile(t, src), compile(t, "# moved\n\n"+strings.ReplaceAll(src, "{tools: [a],", "{  tools: [a], "))
	if one.Source() != other.Source() || one.Digest() != other.Digest() {
		t.Errorf("a comment and spaces make another source:\n%s\n%s", one.Source(), other.Source())
	}
	if compile(t, "policy: {}\n").Source() == one.Source() || compile(t, "").Source() == "" {
		t.Error("the source does not say what the policy says")
	}
}

// A rule that Go code made, as for a server's require_approval, is told as it was compiled.
func TestTheSourceTellsRulesThatAreNotWritten(t *testing.T) {
	p, problems := Compile(Config{Rules: []Rule{{Name: "made", Tools: []string{"s/x"}, Message: "of a prompt"}}},
		Options{})
	if p == nil {
		t.Fatal(problems)
	}
	if text := p.Source(); !strings.Contains(text, `"s/x"`) || strings.Contains(text, "of a prompt") {
		t.Errorf("the source is\n%s", text)
	}
}
