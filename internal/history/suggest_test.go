package history_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/history"
	"countersign/internal/policy"
	"countersign/internal/yamlpos"

	"github.com/google/go-cmp/cmp"
)

// said is a call that people were asked about, some minutes before the last.
func said(n int, was history.Was, tool, raw string) history.Record {
	r := history.Record{ID: fmt.Sprint(n), At: begin.Add(-time.Duration(n) * time.Minute), Agent: "bot", Tool: tool,
		Args: []byte(raw), Was: was, Rule: "asks",
		Risk: approval.RiskMedium}
	if server, name, ok := strings.Cut(tool, "/"); ok {
		r.Server, r.Tool = server, name
	}
	return r
}

// many are n approved calls, whose args are made of their number.
func many(n int, tool, form string) []history.Record {
	var rs []history.Record
	for i := range n {
		raw := form
		if strings.Contains(form, "%") {
			raw = fmt.Sprintf(form, i)
		}
		rs = append(rs, said(i, history.WasApproved, tool, raw))
	}
	return rs
}

func suggest(t *testing.T, rs ...history.Record) history.Suggested {
	t.Helper()
	got, err := history.Suggest(t.Context(), all(rs...))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// line is what a suggestion says, in short.
func line(s history.Suggestion) string {
	return fmt.Sprintf("%s %s: %d asked, %d approved, %d denied; %d fewer", s.Tool, s.Where, s.Asked, s.Approved, s.Denied,
		s.Fewer)
}

func lines(got history.Suggested) []string {
	var all []string
	for _, s := range got.Suggestions {
		all = append(all, line(s))
	}
	return all
}

// verdict is what a policy with a suggested rule alone says of a call.
func verdict(t *testing.T, yaml string, c approval.Call, raw string) approval.Verdict {
	t.Helper()
	src := "policy:\n  rules:\n"
	for _, l := range strings.Split(strings.TrimSpace(yaml), "\n") {
		src += "    " + l + "\n"
	}
	a, err := args.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	c.Args = a
	return compiled(t, src).Evaluate(t.Context(), c)
}

// What varies is asked about still, and may be approved for longer, in a folder of whole segments.
func TestAFolderIsSuggestedAsWhatMayBeApprovedForLonger(t *testing.T) {
	rs := append(many(41, "write_file", `{"path":"/srv/reports/%d.md","content":"a","mode":"w"}`),
		said(50, history.WasDenied, "write_file", `{"path":"/srv/reports-old/a.md","content":"a","mode":"w"}`),
		said(51, history.WasDenied, "write_file", `{"path":"/srv/secrets/../reportsx/a.md","content":"a","mode":"w"}`))
	for i := range rs {
		if i%2 == 1 {
			rs[i].Args = []byte(strings.Replace(string(rs[i].Args), `"a"`, fmt.Sprintf(`"text %d"`, i), 1))
		}
	}
	got := suggest(t, rs...)
	equal(t, "suggestions", lines(got),
		[]string{`write_file under /srv/reports/: 41 asked, 41 approved, 0 denied; 40 fewer`})
	s := got.Suggestions[0]
	bot := approval.Call{Agent: "bot", Tool: "write_file"}
	v := verdict(t, s.YAML, bot, `{"path":"/srv/reports/new.md","content":"x","mode":"w"}`)
	if v.Action != approval.Quarantine || v.Grants == nil || !v.Grants.Vary["path"].Any || !v.Grants.Vary["content"].Any ||
		len(v.Grants.Vary) != 2 ||
		v.Risk != approval.RiskMedium || !strings.HasPrefix(v.Rule, "write_file under") {
		t.Errorf("%+v of\n%s", v, s.YAML)
	}
	for what, c := range map[string]struct {
		call approval.Call
		raw  string
	}{
		"another folder":         {bot, `{"path":"/srv/reports-old/a"}`},
		"one with ..":            {bot, `{"path":"/srv/reports/../secrets/a"}`},
		"a relative path":        {bot, `{"path":"srv/reports/a"}`},
		"another spelling":       {bot, `{"Path":"/etc/a","path":"/srv/reports/a"}`},
		"another agent":          {approval.Call{Agent: "other", Tool: "write_file"}, `{"path":"/srv/reports/a"}`},
		"a server's tool":        {approval.Call{Agent: "bot", Server: "s", Tool: "write_file"}, `{"path":"/srv/reports/a"}`},
		"a path that is encoded": {bot, `{"path":"/srv/reports/%2e%2e/a"}`},
	} {
		if v := verdict(t, s.YAML, c.call, c.raw); v.Grants != nil || v.Action == approval.Allow {
			t.Errorf("%s: %+v", what, v)
		}
	}
}

// Where each argument has few values, the calls with just these are allowed, and none with another or one more.
func TestFewValuesAreSuggestedAsAllowed(t *testing.T) {
	rs := append(many(4, "ci/run", `{"suite":"unit","n":1}`), many(3, "ci/run", `{"suite":"e2e","n":1}`)...)
	rs = append(rs, said(9, history.WasDenied, "ci/run", `{"suite":"deploy","n":1}`))
	rs[0].Agent = "other"
	got := suggest(t, rs...)
	if want := []string{`ci/run suite "e2e" or "unit": 7 asked, 7 approved, 0 denied; 7 fewer`}; !slices.Equal(lines(got),
		want) {
		t.Fatalf("got %q, want %q", lines(got), want)
	}
	for raw, want := range map[string]approval.Action{
		`{"suite":"unit","n":1}`: approval.Allow, `{"suite":"e2e","n":1.0}`: approval.Allow,
		`{"suite":"deploy","n":1}`:            approval.Quarantine,
		`{"suite":"unit","n":1,"force":true}`: approval.Quarantine, `{"suite":"unit"}`: approval.Quarantine,
		`{"Suite":"unit","n":1}`:                  approval.Quarantine,
		`{"suite":"unit","Suite":"deploy","n":1}`: approval.Quarantine, `{"suite":"unit","n":3}`: approval.Quarantine,
	} {
		c := approval.Call{Agent: "bot", Server: "ci", Tool: "run"}
		if v := verdict(t, got.Suggestions[0].YAML, c, raw); v.Action != want {
			t.Errorf("%s: %s, want %s, by\n%s", raw, v.Action, want, got.Suggestions[0].YAML)
		}
	}
	equal(t, "agents", got.Suggestions[0].Agents, []string{"bot", "other"})
}

func TestACallWithoutArgumentsIsSuggestedAsAllowed(t *testing.T) {
	got := suggest(t, many(6, "status", `{}`)...)
	equal(t, "suggestions", lines(got), []string{"status without arguments: 6 asked, 6 approved, 0 denied; 6 fewer"})
	yaml := got.Suggestions[0].YAML
	for _, c := range []struct {
		server, raw string
		want        approval.Action
	}{{"", `{}`, approval.Allow}, {"", `{"x":1}`, approval.Quarantine}, {"s", `{}`, approval.Quarantine}} {
		if v := verdict(t, yaml, approval.Call{Agent: "bot", Server: c.server, Tool: "status"}, c.raw); v.Action != c.want {
			t.Errorf("%s of %q: %s, want %s, by\n%s", c.raw, c.server, v.Action, c.want, yaml)
		}
	}
}

// Numbers may vary up to the largest that was approved.
func TestNumbersVaryUpToTheLargest(t *testing.T) {
	got := suggest(t, many(20, "pay", `{"to":"acme","cents":%d}`)...)
	if len(got.Suggestions) != 1 {
		t.Fatalf("got %q", lines(got))
	}
	v := verdict(t, got.Suggestions[0].YAML, approval.Call{Agent: "bot", Tool: "pay"}, `{"to":"acme","cents":3}`)
	if v.Grants == nil || v.Grants.Vary["cents"].AtMost != "19" || len(v.Grants.Vary) != 1 {
		t.Errorf("%+v by\n%s", v.Grants, got.Suggestions[0].YAML)
	}
}

// Of what is too wide to be approved for longer, a run's calls share a card.
func TestAWholeToolIsSuggestedAsOneCard(t *testing.T) {
	got := suggest(t, many(30, "say", `{"text":"text %d","mood":"m%[1]d"}`)...)
	equal(t, "suggestions", lines(got), []string{"say : 30 asked, 30 approved, 0 denied; 28 fewer"})
	if v := verdict(t, got.Suggestions[0].YAML, approval.Call{Agent: "bot", Tool: "say"},
		`{}`); v.Group != approval.GroupRun || v.Action != approval.Quarantine {
		t.Errorf("%+v", v)
	}
}

// The narrowest folder comes first, and a wider one only where it is for more.
func TestTheNarrowestComesFirst(t *testing.T) {
	rs := append(many(6, "edit", `{"path":"/srv/app/docs/%d"}`), many(6, "edit", `{"path":"/srv/app/test/%d"}`)...)
	got := suggest(t, rs...)
	equal(t, "two folders", lines(got), []string{`edit under /srv/app/docs/: 6 asked, 6 approved, 0 denied; 5 fewer`,
		`edit under /srv/app/test/: 6 asked, 6 approved, 0 denied; 5 fewer`})
	got = suggest(t, append(rs, many(5, "edit", `{"path":"/srv/app/%d"}`)...)...)
	if n := len(got.Suggestions); n != 3 || got.Suggestions[2].Where != `under /srv/app/` ||
		got.Suggestions[2].Asked != 17 {
		t.Errorf("got %q", lines(got))
	}
}

func TestNothingIsSuggestedWhereSomethingSpeaksAgainstIt(t *testing.T) {
	reports := many(9, "write_file", `{"path":"/srv/reports/%d.md"}`)
	change := func(f func(r *history.Record)) []history.Record {
		rs := slices.Clone(reports)
		for i := range rs {
			f(&rs[i])
		}
		return rs
	}
	for name, rs := range map[string][]history.Record{
		"too few": reports[:4],
		"one was denied": append(slices.Clone(reports), said(10, history.WasDenied, "write_file",
			`{"path":"/srv/reports/x"}`)),
		"one expired": append(slices.Clone(reports), said(10, history.WasExpired, "write_file",
			`{"path":"/srv/reports/x"}`)),
		"one with .. denied": append(slices.Clone(reports), said(10, history.WasDenied, "write_file",
			`{"path":"/srv/a/../reports/x"}`)),
		"relative paths": many(9, "write_file", `{"path":"reports/%d.md"}`)[:4],
		"critical":       change(func(r *history.Record) { r.Risk = approval.RiskCritical }),
		"several people": change(func(r *history.Record) { r.Needs = true }),
		"only pending":   change(func(r *history.Record) { r.Was = history.WasPending }),
		"only cancelled": change(func(r *history.Record) { r.Was = history.WasCancelled }),
		"once in eight hours": change(func(r *history.Record) {
			r.At = begin.Add(-24 * time.Hour * time.Duration(len(r.ID)*100+int(r.ID[0])))
		}),
		"rules decided":     change(func(r *history.Record) { r.Was = history.WasAllowed }),
		"names with a dot":  many(9, "x", `{"a.b":1}`),
		"names of one case": many(9, "x", `{"a":1,"A":1}`),
	} {
		if got := suggest(t, rs...); len(got.Suggestions) > 0 {
			t.Errorf("%s: %q", name, lines(got))
		}
	}
}

// Of high risk only with a word on it, and never without asking; of critical risk it is said that nothing is.
func TestWhatIsSuggestedOfHighRiskSaysSo(t *testing.T) {
	rs := many(9, "deploy", `{"to":"staging"}`)
	for i := range rs {
		rs[i].Risk = approval.RiskHigh
	}
	got := suggest(t, rs...)
	if len(got.Suggestions) != 1 || !strings.Contains(got.Suggestions[0].Caution, "high risk") ||
		got.Suggestions[0].Risk != approval.RiskHigh {
		t.Fatalf("got %+v", got.Suggestions)
	}
	if v := verdict(t, got.Suggestions[0].YAML, approval.Call{Agent: "bot", Tool: "deploy"},
		`{"to":"staging"}`); v.Action != approval.Quarantine || v.Risk != approval.RiskHigh {
		t.Errorf("%+v", v)
	}
	rs[3].Risk = approval.RiskCritical
	if got = suggest(t, rs...); len(got.Suggestions) > 0 || !slices.Equal(got.Critical, []string{"deploy"}) {
		t.Errorf("got %+v", got)
	}
}

// Calls that share a card cost one push.
func TestSharedCardsAreCountedOnce(t *testing.T) {
	rs := many(12, "ci/run", `{"suite":"unit"}`)
	for i := range rs {
		rs[i].Card = fmt.Sprint("card", i/4)
		if i%2 == 0 {
			rs[i].Args = []byte(`{"suite":"e2e"}`)
		}
	}
	got := suggest(t, rs...)
	if len(got.Suggestions) != 1 || got.Suggestions[0].Fewer != 3 || got.Suggestions[0].Asked != 12 {
		t.Errorf("got %q", lines(got))
	}
}

// Whatever the values are, what is suggested can be pasted.
func TestEachSuggestionCanBePasted(t *testing.T) {
	for _, value := range []string{`"yes"`, `"null"`, `"a: b"`, `"#x"`, `"it's \"so\""`, `"\\d{2}"`, `"日本"`, `1`, `-2.50`,
		`true`, `"'"`, `"- a"`, `"*"`, `"{}"`, `" x "`} {
		for _, name := range []string{"suite", "no", "on", "1", "-", "_"} {
			got := suggest(t, many(6, "t", fmt.Sprintf(`{%q:%s}`, name, strings.ReplaceAll(value, "%", "%%")))...)
			if len(got.Suggestions) != 1 {
				t.Errorf("%s: %s: %q", name, value, lines(got))
				continue
			}
			v := verdict(t, got.Suggestions[0].YAML, approval.Call{Agent: "bot", Tool: "t"}, fmt.Sprintf(`{%q:%s}`, name, value))
			if v.Action != approval.Allow {
				t.Errorf("%s: %s: %s by\n%s", name, value, v.Action, got.Suggestions[0].YAML)
			}
		}
	}
}

func TestSuggestEndsWithAnError(t *testing.T) {
	broken := errors.New("broken")
	if _, err := history.Suggest(t.Context(), func(yield func(history.Record, error) bool) {
		yield(history.Record{}, broken)
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if got := suggest(t); got.Calls != 0 || got.Suggestions != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

// Values that were approved together say nothing of each other: what nobody approved in this combination is asked
// about.
func TestOnlyCombinationsThatWereApprovedAreSuggestedAsAllowed(t *testing.T) {
	rs := append(many(4, "pay", `{"to":"alice","cents":100000}`), many(4, "pay", `{"to":"bob","cents":5}`)...)
	for _, s := range suggest(t, rs...).Suggestions {
		v := verdict(t, s.YAML, approval.Call{Agent: "bot", Tool: "pay"}, `{"to":"bob","cents":100000}`)
		if v.Action == approval.Allow {
			t.Errorf("%s allows what nobody approved, by\n%s", line(s), s.YAML)
		}
	}
	rs = append(rs, append(many(4, "pay", `{"to":"bob","cents":100000}`),
		many(4, "pay", `{"to":"alice","cents":5}`)...)...)
	got := suggest(t, rs...)
	if len(got.Suggestions) == 0 {
		t.Fatal("no suggestion where all combinations were approved")
	}
	v := verdict(t, got.Suggestions[0].YAML, approval.Call{Agent: "bot", Tool: "pay"}, `{"to":"bob","cents":100000}`)
	if v.Action != approval.Allow {
		t.Errorf("%s by\n%s", v.Action, got.Suggestions[0].YAML)
	}
}

// What people said of an agent's own tool holds for no server's tool of that name.
func TestWhatIsSuggestedForAnOwnToolIsForNoServers(t *testing.T) {
	var rs []history.Record
	for i := range 12 {
		r := said(i, history.WasApproved, "run", fmt.Sprintf(`{"command":"make %d"}`, i))
		r.Session = "s"
		rs = append(rs, r)
	}
	got := suggest(t, rs...)
	if len(got.Suggestions) == 0 {
		t.Fatal("no suggestion")
	}
	for _, s := range got.Suggestions {
		v := verdict(t, s.YAML, approval.Call{Agent: "bot", Server: "prod", Tool: "run"}, `{"command":"make 1"}`)
		if v.Rule != "" {
			t.Errorf("%q is for a server's tool, by\n%s", v.Rule, s.YAML)
		}
	}
}

// A denial speaks against every folder that the path is in, however deep it lies.
func TestADenialDeepInAFolderSpeaksAgainstIt(t *testing.T) {
	deep := "/srv/reports" + strings.Repeat("/a", 20) + "/x.md"
	rs := append([]history.Record{said(0, history.WasDenied, "write_file", `{"path":"`+deep+`"}`)},
		many(8, "write_file", `{"path":"/srv/reports/%d.md"}`)...)
	for _, s := range suggest(t, rs...).Suggestions {
		if v := verdict(t, s.YAML, approval.Call{Agent: "bot", Tool: "write_file"}, `{"path":"`+deep+`"}`); v.Rule != "" {
			t.Errorf("%s, by\n%s", line(s), s.YAML)
		}
	}
}

// What a call said is text in a configuration too, where ${NAME} would be a variable.
func TestAValueIsNoVariableOfTheConfiguration(t *testing.T) {
	const raw = `{"to":"${TOKEN}"}`
	got := suggest(t, many(6, "pay", raw)...)
	if len(got.Suggestions) != 1 {
		t.Fatalf("got %q", lines(got))
	}
	src := "policy:\n  rules:\n    " + strings.ReplaceAll(got.Suggestions[0].YAML, "\n", "\n    ")
	doc, _ := yamlpos.Parse([]byte(src), func(string) (string, bool) { return "a secret", true },
		func(_ yamlpos.Position, message string) { t.Error(message) })
	p, problems := policy.Compile(policy.Read(doc), policy.Options{})
	if p == nil {
		t.Fatal(problems)
	}
	for raw, want := range map[string]approval.Action{raw: approval.Allow, `{"to":"a secret"}`: approval.Quarantine} {
		a, err := args.Parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if v := p.Evaluate(t.Context(), approval.Call{Agent: "bot", Tool: "pay", Args: a}); v.Action != want {
			t.Errorf("%s: %s, want %s, by\n%s", raw, v.Action, want, src)
		}
	}
}

// Tools that no rule is for are listed whatever became of the calls, with a rule that does what was done.
func TestToolsThatNoRuleIsForAreListed(t *testing.T) {
	unknown := func(n int, was history.Was, agent, tool string) history.Record {
		r := said(n, was, tool, `{}`)
		r.Agent, r.Rule, r.Risk, r.Unknown = agent, "", approval.RiskHigh, true
		return r
	}
	method := unknown(9, history.WasApproved, "bot", "mcp:prompts/get")
	method.Method = "prompts/get"
	got := suggest(t, said(0, history.WasApproved, "pay", `{}`), unknown(1, history.WasPending, "coder", "NewTool"),
		unknown(2, history.WasDenied, "bot", "NewTool"),
		unknown(3, history.WasExpired, "bot", "files/wipe"), method)
	want := []history.UnknownTool{
		{Tool: "NewTool", Agents: []string{"bot", "coder"}, Calls: 2, Last: begin.Add(-time.Minute),
			YAML: "- name: NewTool\n  tools: [NewTool]\n  agents: [bot, coder]\n  when: \"server == \\\"\\\"\"\n  action: ask   # or allow, or deny\n  risk: high\n"},
		{Tool: "files/wipe", Agents: []string{"bot"}, Calls: 1, Last: begin.Add(-3 * time.Minute),
			YAML: "- name: files/wipe\n  tools: [files/wipe]\n  agents: [bot]\n  action: ask   # or allow, or deny\n  risk: high\n"},
	}
	if diff := cmp.Diff(want, got.Unknown); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	var rules strings.Builder
	rules.WriteString("policy:\n  rules:\n")
	for _, u := range got.Unknown {
		rules.WriteString("    " + strings.ReplaceAll(strings.TrimSuffix(u.YAML, "\n"), "\n", "\n    ") + "\n")
	}
	doc, _ := yamlpos.Parse([]byte(rules.String()), nil, func(_ yamlpos.Position, message string) { t.Error(message) })
	p, problems := policy.Compile(policy.Read(doc), policy.Options{})
	if p == nil {
		t.Fatal(problems)
	}
	for _, c := range []struct{ agent, server, tool, rule string }{{"coder", "", "NewTool", "NewTool"},
		{"bot", "files", "wipe", "files/wipe"}, {"coder", "evil", "NewTool", ""}, {"coder", "files", "wipe", ""}} {
		a, err := args.Parse([]byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		v := p.Evaluate(t.Context(), approval.Call{Agent: c.agent, Server: c.server, Tool: c.tool, Args: a})
		if v.Rule != c.rule || v.Action != approval.Quarantine || v.Risk != approval.RiskHigh {
			t.Errorf("%+v: %s by %q at %s", c, v.Action, v.Rule, v.Risk)
		}
	}
}

// Of calls whose arguments were removed nothing is known, and so they are no calls without any.
func TestCallsWhoseArgumentsWereRemovedSpeakForNoRule(t *testing.T) {
	for name, gone := range map[string][]byte{"not there": nil, "as the API has them": []byte(`null`)} {
		got, err := history.Suggest(t.Context(), func(yield func(history.Record, error) bool) {
			for i := range 10 {
				at := begin.Add(-time.Duration(i) * time.Minute)
				if !yield(history.Record{ID: fmt.Sprint(i), At: at, Agent: "bot", Tool: "wipe", Args: gone,
					Was: history.WasApproved, Risk: approval.RiskMedium, Rule: "asks"}, nil) {
					return
				}
			}
		})
		if err != nil || got.Calls != 10 || len(got.Suggestions) != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
