package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/agents/hooks"
)

// ignoringMemo has a rule that ignores the memo, and lets approvals be given for longer.
var ignoringMemo = replacing("    - name: transfers\n",
	"    - {name: notes, tools: [note], risk: medium, action: quarantine, ignore_args: [memo], allow_skip: true}\n    - name: transfers\n")

// runsWith has a way in ask for a call of note, and returns with which args it runs, "" for not.
type runsWith func(w *world, args string) string

// overClient asks over /v1.
func overClient(accepts bool) runsWith {
	return func(w *world, args string) string {
		a := w.call(client.Call{Tool: "note", Args: json.RawMessage(args), AcceptsEdits: accepts})
		switch {
		case !a.MayRun():
			return ""
		case accepts && a.Kind == client.AnswerApproved:
			return string(a.Args)
		}
		return args
	}
}

// hookEvent is what each coding agent tells its hook of a call of note.
var hookEvent = map[hooks.Agent]string{
	hooks.ClaudeCode: `{"session_id":"c1","cwd":"/srv","hook_event_name":"PreToolUse","tool_name":"note","tool_input":INPUT,"tool_use_id":"t"}`,
	hooks.Codex:      `{"session_id":"x1","turn_id":"7","cwd":"/srv","hook_event_name":"PreToolUse","tool_name":"note","tool_input":INPUT,"tool_use_id":"t"}`,
	hooks.Gemini:     `{"session_id":"g1","cwd":"/srv","hook_event_name":"BeforeTool","tool_name":"note","tool_input":INPUT}`,
}

// overHook asks through a coding agent's hook.
func overHook(agent hooks.Agent) runsWith {
	return func(w *world, args string) string {
		w.t.Helper()
		e, err := hooks.Parse(agent, []byte(strings.Replace(hookEvent[agent], "INPUT", args, 1)))
		if err != nil {
			w.t.Fatal(err)
		}
		reply, err := hooks.Hook{Asker: w.bot}.Answer(w.ctx, e)
		if err != nil {
			w.t.Fatal(err)
		}
		var said struct {
			Decision string `json:"decision"`
			Specific struct {
				Decision string          `json:"permissionDecision"`
				Updated  json.RawMessage `json:"updatedInput"`
				Input    json.RawMessage `json:"tool_input"`
			} `json:"hookSpecificOutput"`
		}
		if err := json.Unmarshal(reply.Output, &said); err != nil {
			w.t.Fatal(err)
		}
		switch {
		case said.Decision != "allow" && said.Specific.Decision != "allow":
			return ""
		case said.Specific.Updated != nil:
			return string(said.Specific.Updated)
		case said.Specific.Input != nil:
			return string(said.Specific.Input)
		}
		return args
	}
}

// throughGateway calls the tool of a server behind /mcp: what runs is what the server got.
func throughGateway(server *deskServer) runsWith {
	return func(w *world, args string) string {
		ran := server.count()
		newMCPSession(w.t, w.url("/mcp"), secrets["AGENT_TOKEN"]).call("note", json.RawMessage(args))
		if server.count() == ran {
			return ""
		}
		return string(server.last().Args)
	}
}

// On every way in: a call that joined with other words than were shown, one whose words a person changed, and one that
// comes while a grant for other words is there run to the byte what a person saw, or do not run.
func TestRule3_OnEveryWayInWhatIsIgnoredRunsAsItWasShown(t *testing.T) {
	t.Parallel()
	server := newDeskServer(t, [][][]traceCall{{{{Tool: "note"}}}})
	w := newWorld(t, ignoringMemo, replacing("policy:\n",
		"mcp: {hold: 0s, servers: [{name: desk, url: \""+server.url+"\", prefix: \"\"}]}\npolicy:\n"))
	pending := func() client.Approval {
		t.Helper()
		rs, err := w.hana.Approvals(w.ctx, client.ApprovalQuery{Status: "pending"})
		if err != nil || len(rs.Items) != 1 {
			t.Fatalf("%d are pending, %v; want one", len(rs.Items), err)
		}
		return rs.Items[0]
	}
	approve := func(with ...client.DecideOption) {
		t.Helper()
		if _, err := w.hana.Decide(w.ctx, pending().ID, client.Approve, "", with...); err != nil {
			t.Fatal(err)
		}
	}
	cookie := w.signIn(w.hana)
	editOnThePage := func(args string) {
		t.Helper()
		a := pending()
		got := w.page(w.url("/r/"+a.ID+"/decide"), cookie, url.Values{"viewer": {"hana"}, "do": {"edit"}, "v": {a.Version},
			"args": {args}, "key": {w.key}})
		if got.StatusCode != http.StatusSeeOther {
			t.Fatalf("the page answers an edit with %s", got.Status)
		}
	}
	n := 0
	for name, way := range map[string]struct {
		run    runsWith
		stored bool // it runs what the gate says
	}{
		"the API":                  {overClient(false), false},
		"the API, with the stored": {overClient(true), true},
		"Claude Code":              {overHook(hooks.ClaudeCode), true},
		"Codex":                    {overHook(hooks.Codex), true},
		"Gemini CLI":               {overHook(hooks.Gemini), true},
		"the gateway":              {throughGateway(server), true},
	} {
		memo := func(words string) string {
			b, _ := json.Marshal(map[string]any{"memo": words, "n": n})
			return string(b)
		}
		want := func(what, got, runs string) {
			t.Helper()
			if !way.stored {
				runs = ""
			}
			if got != runs {
				t.Errorf("%s, %s: %q runs, want %q", name, what, got, runs)
			}
		}
		n++
		if got := way.run(w, memo("shown")); got != "" {
			t.Errorf("%s: %s runs unasked", name, got)
		}
		way.run(w, memo("joined"))
		approve()
		want("it joined", way.run(w, memo("joined")), memo("shown"))
		if !way.stored {
			if got := way.run(w, memo("shown")); got != memo("shown") {
				t.Errorf("%s: what was shown does not run, but %q", name, got)
			}
		}
		for by, edit := range map[string]func(args string){
			"over the API": func(args string) { approve(client.WithArgs(json.RawMessage(args))) },
			"on the page":  editOnThePage,
		} {
			n++
			way.run(w, memo("asked"))
			edit(memo("changed"))
			want("it was changed "+by, way.run(w, memo("asked")), memo("changed"))
			if !way.stored {
				if got := way.run(w, memo("changed")); got != memo("changed") {
					t.Errorf("%s: what was approved instead %s does not run, but %q", name, by, got)
				}
			}
		}
		n++
		way.run(w, memo("granted"))
		approve(client.GrantFor(client.GrantTerms{For: time.Hour}))
		for range 2 { // the approval, and a use
			if got := way.run(w, memo("granted")); got != memo("granted") {
				t.Errorf("%s: by its grant %q runs", name, got)
			}
		}
		if got := way.run(w, memo("other")); got != "" {
			t.Errorf("%s: %s runs by a grant for other words", name, got)
		}
		approve()
		want("it joined after a grant", way.run(w, memo("third")), memo("other"))
		if !way.stored {
			way.run(w, memo("other"))
		}
	}
}
