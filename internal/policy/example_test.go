package policy_test

import (
	"context"
	"fmt"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/policy"
)

const example = `
policy:
  rules:
    - {name: reading, tools: [read_file, "list_*"], risk: low}
    - name: system files
      tools: [write_file]
      conditions: [{param: path, under: [/etc, /root]}]
      action: deny
    - {name: writing, tools: [write_file], risk: medium}
`

func Example() {
	p, problems := policy.Compile(policy.Parse([]byte(example)), policy.Options{})
	if policy.HasErrors(problems) {
		fmt.Println(problems)
		return
	}
	for _, path := range []string{"/tmp/notes", "/etc/hosts", "../etc/hosts"} {
		parsed, err := args.Parse(fmt.Appendf(nil, `{"path":%q}`, path))
		if err != nil {
			fmt.Println(err)
			return
		}
		v := p.Evaluate(context.Background(), approval.Call{Agent: "bot", Tool: "write_file", Args: parsed})
		fmt.Printf("%s: %s, %s (%s)\n", path, v.Action, v.ReasonCode, v.Rule)
	}
	// Output:
	// /tmp/notes: quarantine, approval_required (writing)
	// /etc/hosts: deny, forbidden (system files)
	// ../etc/hosts: deny, forbidden (system files)
}

func ExampleCompile() {
	_, problems := policy.Compile(policy.Parse([]byte(`
policy:
  rules:
    - tools: [transfer_credits]
      when: amount_cents >= 1000
      actoin: quarantine
`)), policy.Options{})
	for _, p := range problems {
		fmt.Println(p)
	}
	// Output:
	// 5:13: undeclared reference to 'amount_cents'; an argument is written args.amount_cents
	// 6:7: unknown key "actoin"; did you mean "action"?
}

func ExamplePolicy_Explain() {
	p, _ := policy.Compile(policy.Parse([]byte(example)), policy.Options{})
	parsed, err := args.Parse([]byte(`{"path":"/tmp/notes"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	x := p.Explain(approval.Call{Tool: "write_file", Args: parsed})
	for _, step := range x.Steps {
		fmt.Printf("%s: %s: %s\n", step.Rule.Name, step.Result, step.Why)
	}
	// Output:
	// reading: no_match: tool write_file is not among read_file, list_*
	// system files: no_match: condition 1 did not match: path "/tmp/notes" is not under /etc, /root
	// writing: decides: matched
	// : not_reached: a rule decided
}

func ExampleLoosenings() {
	older, _ := policy.Compile(policy.Parse([]byte(example)), policy.Options{})
	newer, _ := policy.Compile(policy.Parse([]byte(`
policy:
  rules:
    - {name: files, tools: ["*_file"], action: allow}
`)), policy.Options{})
	for _, sentence := range policy.Loosenings(older, newer) {
		fmt.Println(sentence)
	}
	// Output:
	// rule "files" now allows write_file, which rule "system files" denied
	// rule "files" now allows write_file, which rule "writing" asked about
	// rule "files" now allows *_file, which no rule covered
}
