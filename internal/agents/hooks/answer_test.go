package hooks

import (
	"context"
	"countersign/client"
	"errors"
	"strings"
	"testing"
	"time"
)

func reply(t *testing.T, h Hook, e Event) Reply {
	t.Helper()
	r, err := h.Answer(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatPolicyAllowsGetsNoOpinion(t *testing.T) {
	for agent, want := range map[Agent]string{ClaudeCode: "", Codex: "", Gemini: `{"decision":"allow"}` + "\n"} {
		g := &fakeGate{answer: client.Answer{Kind: client.AnswerAllow, Message: "Allowed by policy."}}
		if got := reply(t, Hook{Asker: g}, event(t, agent, "X", "{}")); string(got.Output) != want {
			t.Errorf("%s: got %q, want %q", agent, got.Output, want)
		}
	}
}

func TestAnApprovedCallRunsWithTheBytesThatWereApproved(t *testing.T) {
	const input, covered = `{"command":"a && b <c>","description":"x","n":9007199254740993,"m":1.10}`,
		`{"command":"a && b <c>","n":9007199254740993,"m":1.10}`
	for agent, want := range map[Agent]string{
		ClaudeCode: `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"` + approvedMessage + `","updatedInput":` + covered + `}}`,
		Codex:      `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"` + approvedMessage + `","updatedInput":` + covered + `}}`,
		Gemini:     `{"decision":"allow","reason":"` + approvedMessage + `"}`, // which is what it is about to run
	} {
		g := &fakeGate{answer: approved}
		got := reply(t, Hook{Asker: g, Wait: time.Minute}, event(t, agent, map[Agent]string{ClaudeCode: "Bash", Codex: "Bash",
			Gemini: "run_shell_command"}[agent], input))
		if string(got.Output) != want+"\n" {
			t.Errorf("%s: got %s\nwant %s", agent, got.Output, want)
		}
		if string(g.asked[0].Args) != covered || g.asked[0].Scope != "/srv/app" || g.wait != time.Minute {
			t.Errorf("%s: the gate was asked %s in %s, held for %s", agent, g.asked[0].Args, g.asked[0].Scope, g.wait)
		}
	}
}

// Gemini CLI replaces the whole input with tool_input: what is not in it is lost.
func TestRule3GeminiRunsTheApprovedArgumentsAndKeepsTheComment(t *testing.T) {
	const allow = `{"decision":"allow","reason":"` + approvedMessage + `"`
	for _, c := range []struct{ tool, input, approved, want string }{
		{"run_shell_command", `{"description":"x","command":"l\u0073"}`, `{"command":"ls"}`, allow + `}`},
		{"write_file", `{"b":1,"a":[1.0]}`, `{"a":[1.0],"b":1}`, allow + `}`},
		{"write_file", `{"a":1}`, `{"a":1.0}`, allow +
			`,"hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"a":1.0}}}`},
		{"run_shell_command", `{"description":"x <y>","command":"ls","dir_path":"b"}`, `{"command":"ls","dir_path":"a"}`,
			allow + `,"hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"description":"x <y>","command":"ls","dir_path":"a"}}}`},
		{"run_shell_command", `{"command":"ls","dir_path":"b"}`, `{"command":"ls"}`, allow +
			`,"hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"command":"ls"}}}`},
		{"run_shell_command", `{"description":"x","dir_path":"b"}`, `{}`, allow +
			`,"hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"description":"x"}}}`},
		{"replace", `{"instruction":"reworded","new_string":"b"}`, `{"instruction":"shown","new_string":"b"}`,
			allow + `,"hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"instruction":"shown","new_string":"b"}}}`},
	} {
		g := &fakeGate{answer: client.Answer{Kind: client.AnswerApproved, Message: approvedMessage, Args: []byte(c.approved)}}
		if got := reply(t, Hook{Asker: g}, event(t, Gemini, c.tool, c.input)); string(got.Output) != c.want+"\n" {
			t.Errorf("%s %s, approved %s: got %s\nwant %s", c.tool, c.input, c.approved, got.Output, c.want)
		}
	}
}

// Gemini CLI 0.61.0 turns < and > of the news into &lt; and &gt;.
func TestGeminiReadsTheCommandThatItIsToRepeat(t *testing.T) {
	for text, want := range map[string]string{
		"a & b":                          "a & b",
		`x({"command":"a > b"}) is fine`: `x({"command":"a \u003e b"}) is fine`,
		`"<" "\u003c"`:                   `"\u003c" "\u003c"`,
	} {
		out, err := Event{Agent: Gemini, Name: "BeforeAgent"}.tell(text)
		if err != nil {
			t.Fatal(err)
		}
		got, more, said := strings.Cut(decode(t, out).Specific.Context, "\n")
		if got != want || strings.ContainsAny(more, "<>") || said != (text != want) || said && !strings.Contains(more,
			"less-than") {
			t.Errorf("%s: got %q and %q, want %q", text, got, more, want)
		}
	}
	out, err := Event{Agent: ClaudeCode, Name: "SessionStart"}.tell("a > b")
	if got := decode(t, out).Specific.Context; err != nil || got != "a > b" {
		t.Errorf("Claude Code reads %q, %v", got, err)
	}
}

func TestEveryOtherAnswerIsADenialThatTellsWhatToDo(t *testing.T) {
	for _, c := range []struct {
		answer client.Answer
		want   []string
		not    string
	}{
		{client.Answer{Kind: client.AnswerPending, Message: "⏳ Approval pending (id: X)."}, []string{"(id: X)", "not run",
			"Do not keep repeating it", "start of the next turn", "identical call"}, "no:"},
		{client.Answer{Kind: client.AnswerDenied,
			Message: "Approval denied by hana: no. The call was not executed; do not repeat it, try a different approach."},
			[]string{"denied by hana"}, "The call was not run"},
		{client.Answer{Kind: client.AnswerDenied, Message: "Policy denied: forbidden — No."}, []string{"forbidden", "not run",
			"different approach"}, "Nobody"},
		{client.Answer{Kind: client.AnswerDenied, Message: "Denied by hana: no!"}, []string{"no! The call was not run."},
			"!."},
		{client.Answer{Kind: client.AnswerExpired, Message: "[APPROVAL EXPIRED] at 2026-11-21T09:31:21.653Z"},
			[]string{"EXPIRED", "21.653Z. The call was not run. Nobody said no"}, "different approach"},
		{client.Answer{Kind: client.AnswerLapsed, Message: "[APPROVAL LAPSED] x"},
			[]string{"LAPSED", "people are asked again"}, "different approach"},
		{client.Answer{Kind: client.AnswerCancelled, Message: "[APPROVAL CANCELLED] x"}, []string{"taken back",
			"not a denial"}, "Nobody"},
		{client.Answer{Kind: "perhaps", Message: "A word of a later version."}, []string{"later version", "not run"}, ""},
		{client.Answer{Kind: "perhaps", Message: " "}, []string{`"perhaps"`, "not run"}, ""},
		{client.Answer{}, []string{"not run"}, ""},
	} {
		for _, agent := range []Agent{ClaudeCode, Codex, Gemini} {
			o := decode(t, reply(t, Hook{Asker: &fakeGate{answer: c.answer}}, event(t, agent, "X", "{}")).Output)
			decision, reason := o.Specific.Decision, o.Specific.Reason
			if agent == Gemini {
				decision, reason = o.Decision, o.Reason
			}
			if decision != "deny" || o.Specific.Input != nil || o.Specific.Args != nil {
				t.Errorf("%s, %q: got %+v, want a denial", agent, c.answer.Kind, o)
			}
			for _, w := range c.want {
				if !strings.Contains(reason, w) {
					t.Errorf("%s, %q: the reason %q does not say %q", agent, c.answer.Kind, reason, w)
				}
			}
			if c.not != "" && strings.Contains(reason, c.not) {
				t.Errorf("%s, %q: the reason %q says %q", agent, c.answer.Kind, reason, c.not)
			}
		}
	}
}

func TestAFaultIsNoAnswer(t *testing.T) {
	for _, agent := range []Agent{ClaudeCode, Codex, Gemini} {
		r, err := Hook{Asker: &fakeGate{answer: approved, err: errors.New("no gate")}}.Answer(context.Background(),
			event(t, agent, "X", "{}"))
		if err == nil || r.Output != nil {
			t.Errorf("%s: got %q, %v; want an error and no output", agent, r.Output, err)
		}
	}
}

// named puts what an agent says of a tool's server behind the input of an event.
func named(agent Agent, server string) string {
	switch {
	case server == "-":
		return "{}"
	case agent == Gemini:
		return `{},"mcp_context":{"server_name":"` + server + `"}`
	}
	return `{},"mcp_server":{"name":"` + server + `","source":"user"}`
}

func TestOnlyToolsOfThatServerAreLeftToTheGateway(t *testing.T) {
	gateways := []string{"my", "my files", "gate__files", "g_w", ""}
	for _, c := range []struct {
		agent  Agent
		tool   string
		server string // "-": the event does not say
		left   bool
	}{
		{ClaudeCode, "mcp__my__do", "my", true},
		{ClaudeCode, "mcp__my__do__it", "my", true},
		{ClaudeCode, "mcp__my_files__write", "my files", true},
		{ClaudeCode, "mcp__gate__files__write", "gate__files", true},
		{ClaudeCode, "mcp__my_files__write", "my_files", false},
		{ClaudeCode, "mcp__my__srv__do", "my__srv", false},
		{ClaudeCode, "mcp__my__do", "evil", false},
		{ClaudeCode, "mcp__my__do", "", false},
		{ClaudeCode, "mcp__my__do", "My", false},
		{ClaudeCode, "mcp__evil__do", "my", false},
		{ClaudeCode, "mcp__my2__do", "my", false},
		{ClaudeCode, "mcp__my__", "my", false},
		{ClaudeCode, "mcp__my", "my", false},
		{ClaudeCode, "my", "my", false},
		{ClaudeCode, "Bash", "my", false},
		{ClaudeCode, "mcp__gate__files__write", "gate", false},
		{ClaudeCode, "mcp____do", "", false},
		{ClaudeCode, "mcp__my__do", "-", true},
		{ClaudeCode, "mcp__my__srv__do", "-", false},
		{Codex, "mcp__my__do", "-", true},
		{Codex, "mcp__my__do_it", "-", true},
		{Codex, "mcp__my__srv__do", "-", false},
		{Codex, "mcp__my___do", "-", false}, // perhaps of my_
		{Codex, "mcp__my__do__", "-", false},
		{Codex, "mcp__my__", "-", false},
		{Codex, "mcp__my2__do", "-", false},
		{Codex, "mcp__my_files__write", "-", false},
		{Codex, "mcp__gate__files__write", "-", false}, // perhaps of gate--files
		{Codex, "mcp__g_w__do", "-", false},            // perhaps of g.w
		{ClaudeCode, "mcp__g_w__do", "-", false},
		{ClaudeCode, "mcp__g_w__do", "g.w", false},
		{ClaudeCode, "mcp__g_w__do", "g_w", true},
		{Codex, "mcp__gate__files__write__all", "-", false},
		{Codex, "mcp__gate__files___write", "-", false},
		{Codex, "mcp__gate__mail__send", "-", false},
		{Codex, "mcp____do", "-", false},
		{Codex, "Bash", "-", false},
		{Codex, "mcp__my__do", "evil", false},
		{Gemini, "mcp_my_do", "my", true},
		{Gemini, "mcp_my_files_write", "my files", true},
		{Gemini, "mcp_my_files_write", "my_files", false},
		{Gemini, "mcp_my_srv_do", "my_srv", false},
		{Gemini, "mcp_my_do", "evil", false},
		{Gemini, "mcp_my_do", "", false},
		{Gemini, "mcp_my_do", "-", false},
		{Gemini, "mcp__my__do", "-", false},
		{Gemini, "run_shell_command", "my", false},
	} {
		g := &fakeGate{answer: client.Answer{Kind: client.AnswerDenied}}
		r := reply(t, Hook{Asker: g, Gateways: gateways}, event(t, c.agent, c.tool, named(c.agent, c.server)))
		if left := r.Output == nil && len(g.asked) == 0; left != c.left {
			t.Errorf("%s %s of %q: left to the gateway is %t, want %t", c.agent, c.tool, c.server, left, c.left)
		}
	}
	for _, odd := range []string{`7`, `"my"`, `["my"]`, `{}`, `{"name":null}`} {
		g := &fakeGate{answer: client.Answer{Kind: client.AnswerDenied}}
		if r := reply(t, Hook{Asker: g, Gateways: gateways}, event(t, ClaudeCode, "mcp__my__do", `{},"mcp_server":`+
			odd)); r.Output == nil || len(g.asked) != 1 || g.asked[0].Server != "" {
			t.Errorf("with mcp_server %s: got %q, asked %+v; want it asked about without a server", odd, r.Output, g.asked)
		}
	}
	if e, err := Parse(ClaudeCode, []byte(strings.NewReplacer("TOOL", "mcp__my__do", "INPUT",
		`{},"mcp_server":{"name":7}`).Replace(events[ClaudeCode]))); err == nil {
		t.Errorf("a server whose name is no text gave %+v, want an error", e)
	}
	if r := reply(t, Hook{Gateways: gateways}, event(t, ClaudeCode, "mcp__my__do",
		`{},"mcp_server":null`)); r.Output != nil {
		t.Errorf("with mcp_server null got %q, want it left to the gateway", r.Output)
	}
}

func TestOnlyClaudeCodeDefersAndOnlyWhatIsPending(t *testing.T) {
	pending := client.Answer{Kind: client.AnswerPending, Message: "⏳ Approval pending (id: X)."}
	for _, c := range []struct {
		agent  Agent
		answer client.Answer
		want   string
	}{
		{ClaudeCode, pending, "defer"},
		{ClaudeCode, client.Answer{Kind: client.AnswerDenied, Message: "no"}, "deny"},
		{ClaudeCode, approved, "allow"},
		{Codex, pending, "deny"},
	} {
		o := decode(t, reply(t, Hook{Asker: &fakeGate{answer: c.answer}, Defer: true}, event(t, c.agent, "X", "{}")).Output)
		if o.Specific.Decision != c.want || o.Specific.Reason == "" {
			t.Errorf("%s, %s: got %+v, want %s with a reason", c.agent, c.answer.Kind, o.Specific, c.want)
		}
	}
}

func TestADeferredCallIsToldItsEndingAndAsksNothingNew(t *testing.T) {
	ending := func(status client.AnswerKind, change func(*client.Approval)) client.Approval {
		e := client.Approval{ID: "E", Status: string(status), Message: "[APPROVAL EXPIRED] x", Scope: "/srv/app",
			Tool: "Bash", Args: []byte(`{ "command":"ls","timeout":1 }`)}
		if change != nil {
			change(&e)
		}
		return e
	}
	for _, c := range []struct {
		name   string
		ending client.Approval
		told   bool
	}{
		{"expired", ending(client.AnswerExpired, nil), true},
		{"denied", ending(client.AnswerDenied, nil), true},
		{"lapsed", ending(client.AnswerApproved, func(e *client.Approval) { e.LapsedAt.Time = time.Now() }), true},
		{"approved", ending(client.AnswerApproved, nil), false},
		{"another tool", ending(client.AnswerExpired, func(e *client.Approval) { e.Tool = "Read" }), false},
		{"another server", ending(client.AnswerExpired, func(e *client.Approval) { e.Server = "s" }), false},
		{"another directory", ending(client.AnswerExpired, func(e *client.Approval) { e.Scope = "/srv" }), false},
		{"other args", ending(client.AnswerExpired, func(e *client.Approval) { e.Args = []byte(`{"command":"ls"}`) }), false},
	} {
		g := &fakeGate{answer: client.Answer{Kind: client.AnswerPending, Message: "p"}, endings: []client.Approval{c.ending}}
		r := reply(t, Hook{Asker: g, Defer: true}, event(t, ClaudeCode, "Bash",
			`{"timeout":1,"command":"ls","description":"other words"}`))
		o := decode(t, r.Output)
		if told := len(r.Told) == 1 && o.Specific.Decision == "deny" && len(g.asked) == 0; told != c.told {
			t.Errorf("%s: got %+v, told %v, asked %d times; want told %t", c.name, o.Specific, r.Told, len(g.asked), c.told)
		}
	}
	g := &fakeGate{answer: client.Answer{Kind: client.AnswerPending, Message: "p"},
		endings: []client.Approval{ending(client.AnswerExpired, nil)}}
	if reply(t, Hook{Asker: g}, event(t, ClaudeCode, "Bash", `{"timeout":1,"command":"ls"}`)); len(g.asked) != 1 {
		t.Error("without --defer an ending stops a call that is asked anew")
	}
}

func beginning(t *testing.T, agent Agent, name, source string) Event {
	t.Helper()
	e, err := Parse(agent, []byte(`{"session_id":"s1","cwd":"/srv","hook_event_name":"`+name+
		`","prompt":"go on","source":"`+source+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEndingsAreToldWhenATurnBegins(t *testing.T) {
	for _, c := range []struct {
		agent Agent
		name  string
	}{{ClaudeCode, "UserPromptSubmit"}, {ClaudeCode, "SessionStart"}, {Codex, "UserPromptSubmit"}, {Codex, "SessionStart"},
		{Gemini, "BeforeAgent"}, {Gemini, "SessionStart"}} {
		g := &fakeGate{endings: []client.Approval{{ID: "A", Status: "approved", Message: "[APPROVAL APPROVED] x"},
			{ID: "B", Status: "expired", Message: "[APPROVAL EXPIRED] y"}}}
		r := reply(t, Hook{Asker: g}, beginning(t, c.agent, c.name, "startup"))
		o := decode(t, r.Output)
		const want = "Answers to calls that waited for a person:\n[APPROVAL APPROVED] x\n[APPROVAL EXPIRED] y\nTo run a call that was approved, make the identical call again; each approval is used once."
		if o.Specific.Event != c.name || o.Specific.Context != want || o.Decision != "" || o.Specific.Decision != "" {
			t.Errorf("%s %s: got %+v", c.agent, c.name, o)
		}
		if strings.Join(r.Told, " ") != "A B" || g.acked != nil {
			t.Errorf("%s %s: told %v, acknowledged %v before anything was written", c.agent, c.name, r.Told, g.acked)
		}
		if r := reply(t, Hook{Asker: &fakeGate{}}, beginning(t, c.agent, c.name, "startup")); r.Output != nil {
			t.Errorf("%s %s: with nothing to tell got %q", c.agent, c.name, r.Output)
		}
	}
}

func TestWhatIsTooMuchToTellComesNextTime(t *testing.T) {
	long := strings.Repeat("x", maxTold)
	g := &fakeGate{endings: []client.Approval{{ID: "A", Message: long}, {ID: "B", Message: "short"}}}
	if r := reply(t, Hook{Asker: g}, beginning(t, ClaudeCode, "UserPromptSubmit", "")); strings.Join(r.Told, " ") != "A" ||
		strings.Contains(string(r.Output), "short") {
		t.Errorf("told %v, want A alone", r.Told)
	}
}

func TestAResumedRunLeavesTheEndingToTheDeferredCall(t *testing.T) {
	g := &fakeGate{endings: []client.Approval{{ID: "A", Status: "expired", Message: "x"}}}
	if r := reply(t, Hook{Asker: g, Defer: true}, beginning(t, ClaudeCode, "SessionStart", "resume")); r.Output != nil ||
		r.Told != nil {
		t.Errorf("got %+v, want nothing", r)
	}
	if r := reply(t, Hook{Asker: g}, beginning(t, ClaudeCode, "SessionStart", "resume")); r.Output == nil {
		t.Error("without --defer a resumed session is told nothing")
	}
	if r := reply(t, Hook{Asker: g, Defer: true}, beginning(t, ClaudeCode, "SessionStart", "startup")); r.Output == nil {
		t.Error("with --defer a session that starts is told nothing")
	}
}

func TestPermissionPrompts(t *testing.T) {
	e, err := ParsePermissionPrompt([]byte(`{"tool_name":"Bash","input":{"command":"ls","description":"d"},"tool_use_id":"toolu_1"}`))
	if err != nil {
		t.Fatal(err)
	}
	e.CWD = "/srv"
	c := call(t, e, nil)
	if c.Tool != "Bash" || string(c.Args) != `{"command":"ls"}` || c.Rationale != "d" || c.Scope != "/srv" {
		t.Errorf("got %+v", c)
	}
	for _, w := range []struct {
		answer client.Answer
		want   string
	}{
		{client.Answer{Kind: client.AnswerApproved, Args: []byte(`{"command":"ls -l"}`)},
			`{"behavior":"allow","updatedInput":{"command":"ls -l"}}`},
		{client.Answer{Kind: client.AnswerAllow, Message: "Allowed by policy."},
			`{"behavior":"allow","updatedInput":{"command":"ls"}}`},
		{client.Answer{Kind: client.AnswerDenied, Message: "do not repeat it"},
			`{"behavior":"deny","message":"do not repeat it"}`},
	} {
		if got, err := AnswerPermissionPrompt(w.answer, c); err != nil || strings.TrimSpace(string(got)) != w.want {
			t.Errorf("%s: got %s, %v; want %s", w.answer.Kind, got, err, w.want)
		}
	}
	for args, want := range map[string][2]string{
		`{"tool_name":"mcp__my__srv__do","input":{}}`:                                 {"", "mcp__my__srv__do"},
		`{"tool_name":"mcp__my__srv__do","input":{},"mcp_server":{"name":"my__srv"}}`: {"my__srv", "do"},
		`{"tool_name":"mcp__my__do","input":{},"mcp_server":{"name":"evil"}}`:         {"", "mcp__my__do"},
	} {
		if e, err := ParsePermissionPrompt([]byte(args)); err != nil || e.Server != want[0] || e.Tool != want[1] {
			t.Errorf("%s: got %q and %q, %v; want %q", args, e.Server, e.Tool, err, want)
		}
	}
	if got, err := DenyPermissionPrompt("no gate answers"); err != nil || !strings.HasPrefix(string(got),
		`{"behavior":"deny","message":"The gate could not be asked: no gate answers.`) {
		t.Errorf("got %s, %v", got, err)
	}
	for _, bad := range []string{``, `{}`, `{"tool_name":"Bash"}`, `{"input":{}}`, `{"tool_name":"Bash","input":[]}`,
		`{"tool_name":"Bash","input":{},"input":{}}`, `{"tool_name":1,"input":{}}`} {
		if _, err := ParsePermissionPrompt([]byte(bad)); err == nil {
			t.Errorf("%s was taken for a permission prompt", bad)
		}
	}
}
