package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"

	"cel.dev/cel-go/cel"
	"github.com/go-json-experiment/json/jsontext"
)

// benchArgs is an object of about n bytes that is not canonical yet: members out of order, white
// space, an accent.
func benchArgs(n int) []byte {
	m := map[string]any{"amount": 12000, "currency": "eur", "dry_run": false, "path": "/srv/data/report.txt"}
	for i := 0; ; i++ {
		m[fmt.Sprintf("key_%d", (i*7919)%100003)] = map[string]any{"z": float64(i) * 1.5, "a": "value é " +
			strings.Repeat("x", 40), "list": []int{3, 1, 2}, "ok": true}
		b, err := json.Marshal(m)
		if err != nil {
			panic(err)
		}
		if len(b) >= n {
			var out bytes.Buffer
			if err := json.Indent(&out, b, "", " "); err != nil {
				panic(err)
			}
			return out.Bytes()
		}
	}
}

// benchRules are a hundred rules of every kind, of which some twenty have a pattern for the call and
// only the last decides it.
func benchRules(b *testing.B) *Policy {
	var cfg Config
	for i := range 100 {
		r := Rule{Name: fmt.Sprintf("r%d", i), Action: approval.Quarantine}
		switch i % 10 {
		case 0:
			r.Tools = []string{fmt.Sprintf("svc%d_read", i), fmt.Sprintf("svc%d_list", i)}
		case 1, 2:
			r.Tools = []string{fmt.Sprintf("svc%d_*", i)}
		case 3:
			r.Tools = []string{fmt.Sprintf("server%d/*", i)}
		case 4:
			r.Tools = []string{fmt.Sprintf("*_purge%d", i)}
			r.Action = approval.Deny
		case 5:
			r.Tools = []string{fmt.Sprintf("svc%d_*", i)}
			r.When = `args.amount > 10000 && args.currency in ["eur","usd"]`
		case 6:
			r.Tools = []string{fmt.Sprintf("write%d", i)}
			r.Conditions = []Condition{{Param: "path", Under: []string{"/etc", "/root"}}}
		case 7:
			r.Tools = []string{"stripe_*"}
			r.When = fmt.Sprintf(`args.amount > 10000 && args.currency == "c%d"`, i)
		case 8:
			r.Tools = []string{"stripe_refund"}
			r.Conditions = []Condition{{Param: "path", Under: []string{"/etc", "/root"}}, {Param: "amount", GT: "5"}}
		case 9:
			r.Tools, r.Agents = []string{fmt.Sprintf("git%d_*", i)}, []string{"bot"}
		}
		if i == 99 {
			r.Tools, r.Agents, r.When = []string{"stripe_refund"}, nil,
				`args.amount > 10000 && !args.dry_run && args.currency in ["eur","usd"]`
		}
		cfg.Rules = append(cfg.Rules, r)
	}
	p, problems := Compile(cfg, Options{})
	if p == nil {
		b.Fatal(problems)
	}
	return p
}

// best times f and g in turn, in short rounds, and returns the best round of each in nanoseconds for
// one run: what both cost when nothing else has the machine, whose speed they share.
func best(f, g func()) (float64, float64) {
	round := func(f func()) float64 {
		start, n := time.Now(), 0
		for ; n == 0 || time.Since(start) < 300*time.Microsecond; n++ {
			f()
		}
		return float64(time.Since(start).Nanoseconds()) / float64(n)
	}
	x, y := round(f), round(g)
	for start := time.Now(); time.Since(start) < time.Second; {
		x, y = min(x, round(f)), min(y, round(g))
	}
	return x, y
}

// BenchmarkDecision is the whole decision about a call against a hundred rules, with each of its
// parts, and beside it what could not be done without: to canonicalise the arguments and hash them.
// "over-floor" is the ratio of the two within the run.
func BenchmarkDecision(b *testing.B) {
	p := benchRules(b)
	ctx := context.Background()
	for _, size := range []int{1 << 10, 64 << 10} {
		raw := benchArgs(size)
		parsed, err := args.Parse(raw)
		if err != nil {
			b.Fatal(err)
		}
		c := approval.Call{Agent: "bot", Tool: "stripe_refund", Args: parsed}
		if v := p.Evaluate(ctx, c); v.Rule != "r99" {
			b.Fatalf("decided by %+v", v)
		}
		floor := func() {
			buf := jsontext.Value(bytes.Clone(raw))
			if err := buf.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
				b.Fatal(err)
			}
			sha256.Sum256(buf)
		}
		name := fmt.Sprintf("%dKiB", size>>10)
		decide := func() {
			a, err := args.Parse(raw)
			if err != nil {
				b.Fatal(err)
			}
			v := p.Evaluate(ctx, approval.Call{Agent: "bot", Tool: "stripe_refund", Args: a})
			if v.Action != approval.Quarantine || a.Hash(v.IgnoreArgs...) == "" {
				b.Fatal(v)
			}
		}
		b.Run("decide/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				decide()
			}
			b.StopTimer()
			own, least := best(decide, floor)
			b.ReportMetric(own/1000, "best-µs")
			b.ReportMetric(least/1000, "floor-µs")
			b.ReportMetric(own/least, "over-floor")
		})
		b.Run("evaluate/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v := p.Evaluate(ctx, c); v.Rule != "r99" {
					b.Fatal(v)
				}
			}
		})
		b.Run("floor/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				floor()
			}
		})
	}
	b.Run("evaluate/method", func(b *testing.B) {
		c := approval.Call{Agent: "bot", Server: "server3", Method: "resources/read", Tool: "resources:read"}
		for b.Loop() {
			if v := p.Evaluate(ctx, c); v.ReasonCode != codeMethodDefault {
				b.Fatal(v)
			}
		}
	})
	b.Run("evaluate/no-candidate", func(b *testing.B) {
		c := approval.Call{Agent: "bot", Tool: "unheard_of"}
		for b.Loop() {
			if v := p.Evaluate(ctx, c); v.Rule != "" {
				b.Fatal(v)
			}
		}
	})
}

// BenchmarkYardsticks is what rules cost without an index: every expression evaluated.
func BenchmarkYardsticks(b *testing.B) {
	env, err := cel.NewEnv(cel.Variable("tool", cel.StringType), cel.Variable("args", cel.MapType(cel.StringType,
		cel.DynType)))
	if err != nil {
		b.Fatal(err)
	}
	program := func(expression string) cel.Program {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			b.Fatal(issues.Err())
		}
		p, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize))
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	in := map[string]any{"tool": "stripe.refund", "args": map[string]any{"amount": int64(12000), "currency": "eur",
		"dry_run": false}}
	one := program(`tool.startsWith("stripe.") && args.amount > 10000 && !args.dry_run && args.currency in ["eur","usd"]`)
	b.Run("cel-1-rule", func(b *testing.B) {
		for b.Loop() {
			if v, _, err := one.Eval(in); err != nil || v.Value() != true {
				b.Fatal(v, err)
			}
		}
	})
	var hundred []cel.Program
	for i := range 100 {
		hundred = append(hundred,
			program(fmt.Sprintf(`tool.startsWith("svc%d.") && args.amount > 10000 && args.currency in ["eur","usd"]`, i)))
	}
	b.Run("cel-100-rules", func(b *testing.B) {
		for b.Loop() {
			for _, p := range hundred {
				if v, _, err := p.Eval(in); err != nil || v.Value() != false {
					b.Fatal(v, err)
				}
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	src := []byte(designExample)
	for b.Loop() {
		if p, problems := Compile(Parse(src), Options{}); p == nil {
			b.Fatal(problems)
		}
	}
}
