package policy_test

import (
	"strings"
	"testing"

	"countersign/internal/policy"
)

// What is rewritten is the same policy when it is read again, and shows no variable's value.
func TestRewrittenIsTheSamePolicy(t *testing.T) {
	src := `# mine
policy:
  include: [preset/payments]
  levels: {high: {timeout: 5m}}
  rules:
    - name: a
      tools: [pay]
      conditions: [{param: to, equals: '${PAYEE}'}]
      when: 'args.n < 3 && "a" != "b: #c"'
      action: allow
    - {name: "<b>: 'x' # y", tools: ["*"], action: quarantine}
`
	read := func(text string) *policy.Policy {
		t.Helper()
		p, problems := policy.Compile(policy.Parse([]byte(text)), policy.Options{})
		if p == nil {
			t.Fatalf("%v of\n%s", problems, text)
		}
		return p
	}
	p := read(src)
	text := p.Rewrite()
	if q := read(text); q.Source() != p.Source() || q.Digest() != p.Digest() {
		t.Errorf("it became\n%s\n%s", text, q.Source())
	}
	if !strings.Contains(text, "${PAYEE}") || strings.Contains(text, "mine") {
		t.Errorf("got\n%s", text)
	}
}
