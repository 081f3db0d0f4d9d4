package hooks

import (
	"fmt"
	"strings"
	"testing"

	"countersign/approval"
)

func TestEventsAreReadInEachAgentsShape(t *testing.T) {
	for agent, want := range map[Agent]Event{
		ClaudeCode: {Name: "PreToolUse", Kind: BeforeTool, SessionID: "7494b2f4", TurnID: "4a1c0fbd", CWD: "/srv/app",
			ToolUseID: "toolu_1", Tool: "Frobnicate"},
		Codex: {Name: "PreToolUse", Kind: BeforeTool, SessionID: "019a", TurnID: "7", CWD: "/srv/app", ToolUseID: "call_1",
			Tool: "Frobnicate"},
		Gemini: {Name: "BeforeTool", Kind: BeforeTool, SessionID: "g1", CWD: "/srv/app", Tool: "Frobnicate"},
	} {
		want.Agent = agent
		got := event(t, agent, "Frobnicate", `{"n":9007199254740993.10}`)
		if string(got.Input) != `{"n":9007199254740993.10}` {
			t.Errorf("%s: input is %s, want the bytes that were sent", agent, got.Input)
		}
		got.Input = nil
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: got %+v\nwant %+v", agent, got, want)
		}
	}
}

func TestToolsOfMCPServersAreNamedApart(t *testing.T) {
	context := func(server string) string { return `{},"mcp_context":{"server_name":"` + server + `","command":"npx"}` }
	for _, c := range []struct {
		agent               Agent
		name, input         string
		wantServer, wantTol string
	}{
		{ClaudeCode, "mcp__files__write_file", "{}", "files", "write_file"},
		{Codex, "mcp__files__write__file", "{}", "", "mcp__files__write__file"},
		{ClaudeCode, "mcp__files", "{}", "", "mcp__files"},
		{ClaudeCode, "mcp____x", "{}", "", "mcp____x"},
		{ClaudeCode, "Bash", "{}", "", "Bash"},
		{ClaudeCode, "mcp__my__srv__do", named(ClaudeCode, "my__srv"), "my__srv", "do"},
		{ClaudeCode, "mcp__my__srv__do", named(ClaudeCode, "my"), "my", "srv__do"},
		{ClaudeCode, "mcp__my_files__write", named(ClaudeCode, "my files"), "my_files", "write"},
		{ClaudeCode, "mcp__my__do", named(ClaudeCode, "evil"), "", "mcp__my__do"},
		{ClaudeCode, "mcp__my__do", named(ClaudeCode, ""), "", "mcp__my__do"},
		{ClaudeCode, "Bash", named(ClaudeCode, "my"), "", "Bash"},
		{Codex, "mcp__my__srv__do", named(Codex, "my__srv"), "my__srv", "do"},
		{Gemini, "mcp_my_files_write_file", context("my_files"), "my_files", "write_file"},
		{Gemini, "mcp_my_files_write_file", context("my"), "my", "files_write_file"},
		{Gemini, "mcp__files__write", context("files"), "files", "write"},
		{Gemini, "mcp_files_write", "{}", "", "mcp_files_write"},
		{Gemini, "mcp_files_write", context("other"), "", "mcp_files_write"},
		{Gemini, "mcp_files_write", context(""), "", "mcp_files_write"},
		{Gemini, "write_file", context("files"), "files", "write_file"},
		{Gemini, "files__write_file", context("files"), "files", "write_file"},
		{Gemini, "write_file", context(""), "", "write_file"},
		{Gemini, "write_file", "{}", "", "write_file"},
	} {
		e := event(t, c.agent, c.name, c.input)
		if e.Server != c.wantServer || e.Tool != c.wantTol {
			t.Errorf("%s %s with %s: got %q and %q, want %q and %q", c.agent, c.name, c.input, e.Server, e.Tool, c.wantServer,
				c.wantTol)
		}
	}
}

func TestWhatIsNoEventIsRefused(t *testing.T) {
	const head = `"hook_event_name":"PreToolUse","cwd":"/srv"`
	for _, c := range []struct{ name, input, want string }{
		{"nothing", "", "there is nothing"},
		{"white space", " \n", "there is nothing"},
		{"no JSON", "go ahead", "not JSON"},
		{"cut off", `{` + head + `,"tool_name":"Bash","tool_input":{"com`, "not JSON"},
		{"a list", `[]`, "not a JSON object"},
		{"two values", `{` + head + `,"tool_name":"Bash","tool_input":{}} {}`, "something follows"},
		{"no event", `{"cwd":"/srv","tool_name":"Bash","tool_input":{}}`, "no hook_event_name"},
		{"another event", `{"hook_event_name":"Stop","cwd":"/srv"}`, `does not answer the event "Stop"`},
		{"no tool", `{` + head + `,"tool_input":{}}`, "no tool_name"},
		{"no input", `{` + head + `,"tool_name":"Bash"}`, "no tool_input"},
		{"input of another type", `{` + head + `,"tool_name":"Bash","tool_input":"ls"}`, "no tool_input"},
		{"no directory", `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{}}`, "no cwd"},
		{"tool of another type", `{` + head + `,"tool_name":7,"tool_input":{}}`, "tool_name is not text"},
		{"a tool twice", `{` + head + `,"tool_name":"Read","tool_name":"Bash","tool_input":{}}`, "a name twice"},
		{"an input twice", `{` + head + `,"tool_name":"Bash","tool_input":{"command":"ls"},"tool_input":{"command":"rm"}}`,
			"a name twice"},
		{"an argument twice", `{` + head + `,"tool_name":"Bash","tool_input":{"command":"ls","command":"rm"}}`,
			"a name twice"},
		{"a deep argument twice", `{` + head + `,"tool_name":"X","tool_input":{"a":[{"b":1,"b":2}]}}`, "a name twice"},
		{"half a surrogate pair", `{` + head + `,"tool_name":"X","tool_input":{"a":"\ud800"}}`, "not JSON"},
		{"no UTF-8", `{` + head + `,"tool_name":"X","tool_input":{"a":"` + "\xff" + `"}}`, "not JSON"},
	} {
		_, err := Parse(ClaudeCode, []byte(c.input))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestMembersThatAreNotKnownAreIgnored(t *testing.T) {
	e, err := Parse(ClaudeCode,
		[]byte(`{"hook_event_name":"PreToolUse","cwd":"/srv","tool_name":"Bash","tool_input":{},"Tool_Name":"Read","prompt_id":null,"source":{"x":1},"new":[1]}`))
	if err != nil || e.Tool != "Bash" {
		t.Errorf("got %+v, %v; want the tool Bash", e, err)
	}
}

func TestTheDescriptionOfACommandIsNoPartOfIt(t *testing.T) {
	for _, c := range []struct {
		agent             Agent
		tool, input, want string
		words             string
	}{
		{ClaudeCode, "Bash", `{"command":"ls","description":"lists"}`, `{"command":"ls"}`, "lists"},
		{ClaudeCode, "Bash", `{ "description" : "lists" , "command" : "l\u0073", "timeout": 1.10e2 }`,
			`{"command":"l\u0073","timeout":1.10e2}`, "lists"},
		{ClaudeCode, "Bash", `{"d\u0065scription":"lists","command":"ls"}`, `{"command":"ls"}`, "lists"},
		{ClaudeCode, "Bash", `{"description":"lists"}`, `{}`, "lists"},
		{ClaudeCode, "Bash", `{"description":7,"command":"ls"}`, `{"command":"ls"}`, ""},
		{ClaudeCode, "Bash", `{"Description":"lists","command":"ls","n":12345678901234567890}`,
			`{"Description":"lists","command":"ls","n":12345678901234567890}`, ""},
		{Codex, "Bash", `{"command":"ls","description":"lists"}`, `{"command":"ls"}`, "lists"},
		{Gemini, "run_shell_command", `{"command":"ls","description":"lists"}`, `{"command":"ls"}`, "lists"},
		{Gemini, "replace", `{"file_path":"a","instruction":"renames x","old_string":"x","new_string":"y"}`,
			`{"file_path":"a","instruction":"renames x","old_string":"x","new_string":"y"}`, ""},
		{ClaudeCode, "Task", `{"description":"counts","prompt":"x"}`, `{"description":"counts","prompt":"x"}`, ""},
		{ClaudeCode, "mcp__shell__Bash", `{"description":"counts"}`, `{"description":"counts"}`, ""},
	} {
		got := call(t, event(t, c.agent, c.tool, c.input), nil)
		if string(got.Args) != c.want || got.Rationale != c.words {
			t.Errorf("%s %s %s: got %s and %q, want %s and %q", c.agent, c.tool, c.input, got.Args, got.Rationale, c.want,
				c.words)
		}
	}
}

func TestWordsOfTheAgentAreCutToWhatTheGateTakes(t *testing.T) {
	c := call(t, event(t, ClaudeCode, "Bash", `{"command":"ls","description":"`+strings.Repeat("あ", 8000)+`"}`), nil)
	if len(c.Rationale) > approval.MaxRationale || !strings.HasSuffix(c.Rationale, ")") || !strings.Contains(c.Rationale,
		"あ… (+") {
		t.Errorf("the rationale has %d bytes and ends in %q", len(c.Rationale), c.Rationale[len(c.Rationale)-40:])
	}
}

// A rule that allows tools of one server must not meet those of another whose name begins like it. Where
// the event does not say where the server's name ends, and it could end in two places, no server is named.
func TestAServerIsNotGuessedWhereItsNameCouldEndTwice(t *testing.T) {
	for _, c := range []struct{ name, server, tool string }{
		{"mcp__my__do", "my", "do"},
		{"mcp__my__do_it", "my", "do_it"},
		{"mcp__my_srv__do", "my_srv", "do"},
		{"mcp__my__srv__do", "", "mcp__my__srv__do"},
		{"mcp__my___do", "", "mcp__my___do"},
		{"mcp__my__do__", "", "mcp__my__do__"},
	} {
		for _, agent := range []Agent{ClaudeCode, Codex} {
			if e := event(t, agent, c.name, named(agent, "-")); e.Server != c.server || e.Tool != c.tool {
				t.Errorf("%s %s: got server %q and tool %q, want %q and %q", agent, c.name, e.Server, e.Tool, c.server, c.tool)
			}
		}
	}
}
