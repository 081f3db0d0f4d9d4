package policy_test

import (
	"reflect"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/policy"
)

func TestADiffSaysWhatIsComparedWithWhat(t *testing.T) {
	for name, c := range map[string]struct {
		yaml, words string
		want        approval.DiffTerms
	}{
		"the read tool alone": {"{read: read_text_file}", "content beside what read_text_file(path) returns",
			approval.DiffTerms{Path: "path", Content: "content", Read: "read_text_file",
				ReadArgs: map[string]string{"path": "path"}}},
		"other names": {"{path: file.name, content: text, read: cat}", "text beside what cat(name: file.name) returns",
			approval.DiffTerms{Path: "file.name", Content: "text", Read: "cat",
				ReadArgs: map[string]string{"name": "file.name"}}},
		"several args": {"{read: get, read_args: {path: path, ref: branch}}",
			"content beside what get(path, ref: branch) returns",
			approval.DiffTerms{Path: "path", Content: "content", Read: "get",
				ReadArgs: map[string]string{"path": "path", "ref": "branch"}}},
	} {
		p, problems := compileDiff(c.yaml, "[read_text_file, cat, get]")
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		call := approval.Call{Agent: "bot", Server: "files", Tool: "write"}
		if v := p.Evaluate(t.Context(), call); v.Diff == nil || !reflect.DeepEqual(*v.Diff, c.want) {
			t.Errorf("%s: the verdict has %+v", name, v.Diff)
		}
		if x := p.Explain(call); x.DiffInWords() != c.words || p.Rules()[0].DiffInWords() != c.words {
			t.Errorf("%s: it is explained as %q", name, x.DiffInWords())
		}
		if call.Tool = "cat"; p.Evaluate(t.Context(), call).Diff != nil {
			t.Errorf("%s: a call of another rule has a diff", name)
		}
	}
}

// compileDiff compiles a rule with a diff, and one that allows tools.
func compileDiff(diff, allowed string) (*policy.Policy, []policy.Problem) {
	return policy.Compile(policy.Parse([]byte("policy:\n  rules:\n    - tools: [write]\n      ignore_args: [note]\n"+
		"      diff: "+diff+"\n    - {tools: "+allowed+", action: allow}\n")), policy.Options{})
}

func TestWhatIsWrongWithADiffIsSaidWhereItStands(t *testing.T) {
	for name, c := range map[string]struct {
		yaml   string
		column int
		says   string
	}{
		"not a mapping":     {"read", 13, "a mapping of names to values is needed here"},
		"no read":           {"{path: path}", 13, "needs read, the server's tool"},
		"an unknown key":    {"{reads: read}", 14, `unknown key "reads"; did you mean "read"?`},
		"another word":      {"{read: read, read_param: path}", 26, `did you mean "read_args"?`},
		"a tool of another": {"{read: files/read}", 20, "leave the server out"},
		"a glob":            {"{read: read_*}", 20, "is not the name of a tool"},
		"a number":          {"{read: 7}", 20, "a text is needed here"},
		"no args":           {"{read: read, read_args: {}}", 37, "leave read_args out"},
		"a list of args":    {"{read: read, read_args: [path]}", 37, "such as {path: path}, not a list"},
		"an empty step":     {"{read: read, path: a..b}", 32, "a dotted path to one"},
		"the same arg":      {"{read: read, path: a, content: a}", 44, "path and content are the same arg"},
		"an ignored arg":    {"{read: read, content: note}", 35, `"note" is in ignore_args`},
		"an ignored parent": {"{read: read, read_args: {a: note.b}}", 41, `"note" is in ignore_args`},
	} {
		_, problems := compileDiff(c.yaml, "[read]")
		if len(problems) == 0 {
			t.Errorf("%s: nothing is said", name)
			continue
		}
		p := problems[0]
		if p.Warning || p.Line != 5 || p.Column != c.column || !strings.Contains(p.Message, c.says) {
			t.Errorf("%s: %d:%d %s", name, p.Line, p.Column, p.Message)
		}
	}
}

func TestADiffWithoutEffectIsWarnedOf(t *testing.T) {
	for name, c := range map[string]struct{ rules, says string }{
		"nothing allows the reading": {"{tools: [write], diff: {read: read}}, {tools: [list], action: allow}",
			"diff has no effect: no rule allows read"},
		"another server's is allowed": {"{tools: [a/write], diff: {read: read}}, {tools: [b/read], action: allow}",
			"diff has no effect: no rule allows read"},
		"its own is":      {"{tools: [a/write], diff: {read: read}}, {tools: [a/read], action: allow}", ""},
		"any server's is": {"{tools: [write], diff: {read: read}}, {tools: [a/read], action: allow}", ""},
		"by its level":    {"{tools: [write], diff: {read: read}}, {tools: [read], risk: low}", ""},
		"the rule allows": {"{tools: [write, read], action: allow, diff: {read: read}}",
			"this rule allows, and nobody is asked"},
		"the rule denies":   {"{tools: [write], action: deny, diff: {read: read}}", "this rule denies, and nobody is asked"},
		"of another method": {"{method: resources/read, action: quarantine, diff: {read: read}}", "diff is for tool calls"},
		"of any method":     {`{method: "*", action: quarantine, diff: {read: read}}, {tools: [read], action: allow}`, ""},
	} {
		_, problems := policy.Compile(policy.Parse([]byte("{policy: {rules: ["+c.rules+"]}}")), policy.Options{})
		var said []string
		for _, p := range problems {
			if strings.Contains(p.Message, "diff") {
				said = append(said, p.Message)
			}
		}
		if c.says == "" && len(said) > 0 || c.says != "" && (len(said) != 1 || !strings.Contains(said[0], c.says)) {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// A grant is for what may run, not for how people were shown it; and the record tells one policy from another.
func TestADiffIsOfThePolicyAndNotOfItsGrants(t *testing.T) {
	with, _ := compileDiff("{read: read}", "[read]")
	other, _ := compileDiff("{read: cat}", "[read]")
	call := approval.Call{Agent: "bot", Server: "files", Tool: "write"}
	a, b := with.Evaluate(t.Context(), call), other.Evaluate(t.Context(), call)
	if a.RuleDigest != b.RuleDigest || with.Digest() == other.Digest() {
		t.Error("the digests do not tell a diff as they should")
	}
}
