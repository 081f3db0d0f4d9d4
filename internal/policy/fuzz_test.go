package policy

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/approval/args"
)

// FuzzCompile feeds whole files: nothing panics, every error has a place or says which value it is
// about, and whatever compiles has an answer to any call, the same from Evaluate and Explain.
func FuzzCompile(f *testing.F) {
	f.Add(designExample, "write_file", `{"path":"/etc/x"}`)
	f.Add(harombeRules, "send_email", `{"to":"x"}`)
	f.Add(harombeLevels, "x", `{}`)
	f.Add(methodRules, "files/x", `{"uri":"file:///etc/x"}`)
	files, _ := filepath.Glob("testdata/problems/*.yaml")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		src, _, _ := strings.Cut(string(content), "#! ")
		f.Add(src, "x", `{"path":"/etc/x","n":1e3}`)
	}
	f.Fuzz(func(t *testing.T, src, tool, raw string) {
		p, problems := Compile(Parse([]byte(src)), Options{Servers: []string{"a", "b"}, Agents: []string{"bot"},
			People: []approval.Actor{{Name: "hana", Approver: true, Groups: []string{"finance"}},
				{Name: "ken", Approver: true, Groups: []string{"finance", "security"}}, {Name: "mei", Groups: []string{"leads"}}},
			Owner:   func(string) string { return "ken" },
			Reached: func(name string) bool { return name == "hana" }})
		if (p == nil) != HasErrors(problems) {
			t.Fatalf("policy %v with problems %v", p, problems)
		}
		for _, problem := range problems {
			if problem.Message == "" || problem.Path == "" {
				t.Errorf("an empty problem: %+v", problem)
			}
		}
		if p == nil {
			return
		}
		if !json.Valid([]byte(p.Source())) {
			t.Errorf("the source is not JSON:\n%s", p.Source())
		}
		answers(t, p, tool, raw)
		for _, r := range p.Rules() {
			answers(t, p, strings.ReplaceAll(strings.Join(r.Tools, ""), "*", "x"), raw)
		}
		if said := Loosenings(p, p); said != nil {
			t.Errorf("looser than itself: %v", said)
		}
	})
}

// FuzzWhen feeds expressions and arguments.
func FuzzWhen(f *testing.F) {
	f.Add(`method == "resources/read" && args.uri.startsWith("file:")`, `{"uri":"file:///"}`)
	f.Add(`args.amount >= 1000`, `{"amount":1e3}`)
	f.Add(`args.to.exists(a, a.n > 9007199254740992)`, `{"to":[{"n":9007199254740993},{"n":1.5}]}`)
	f.Add(`has(args.a) && args["a.b"] in [1, 2.5, null]`, `{"a.b":123456789012345678901234567890,"a":{"b":2}}`)
	f.Add(`args.?a.orValue("x").matches(args.p)`, `{"p":"(a|b)*"}`)
	f.Add(`args.all(k, args[k] == args) || size(args) / 0 == 1`, `{"k":{"k":{}}}`)
	f.Add(`timestamp(args.t) > timestamp("2026-01-01T00:00:00Z")`, `{"t":"2026-01-02T00:00:00Z"}`)
	f.Fuzz(func(t *testing.T, when, args string) {
		p, problems := Compile(Config{Rules: []Rule{{Tools: []string{"x"}, Action: approval.Allow, When: when}}}, Options{})
		if (p == nil) != HasErrors(problems) {
			t.Fatalf("policy %v with problems %v", p, problems)
		}
		if p != nil {
			answers(t, p, "x", args)
		}
	})
}

// answers checks that a policy has a whole answer to a call.
func answers(t *testing.T, p *Policy, tool, raw string) {
	a, err := args.Parse([]byte(raw))
	if err != nil {
		return
	}
	c := approval.Call{Agent: "bot", Tool: tool, Args: a}
	if server, tool, ok := strings.Cut(tool, "/"); ok {
		c.Server, c.Tool = server, tool
	}
	answered(t, p, c)
	for _, c.Method = range []string{"resources/read", "odd/one"} {
		answered(t, p, c)
	}
}

func answered(t *testing.T, p *Policy, c approval.Call) {
	v := p.Evaluate(context.Background(), c)
	if strictness(v.Action) == 0 && v.Action != approval.Allow || v.Risk.Rank() == 0 || v.ReasonCode == "" ||
		v.Message == "" || v.Timeout <= 0 {
		t.Errorf("not an answer: %+v", v)
	}
	if c.Args.Ambiguous() && v.Action == approval.Allow {
		t.Errorf("ambiguous arguments are allowed: %+v", v)
	}
	if v.Need != nil && (v.Need.IsZero() || v.Action != approval.Quarantine) {
		t.Errorf("a need that says nothing: %+v", v)
	}
	if x := p.Explain(c); x.Action != v.Action || x.Rule != v.Rule || x.ReasonCode != v.ReasonCode {
		t.Errorf("Explain says %+v, Evaluate %+v", x, v)
	}
}
