package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/testkit"
)

// hooked asks about a call as Claude Code's hook does that waits, and returns what it is told.
func (w *world) hooked(tool string, arguments json.RawMessage) string {
	w.t.Helper()
	body := fmt.Sprintf(`{"session_id":"h1","cwd":"/srv","hook_event_name":"PreToolUse","tool_name":%q,"tool_input":%s}`,
		tool, arguments)
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.url("/hooks/claude-code?wait=1m"),
		strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secrets["AGENT_TOKEN"])
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	var answer struct {
		Output struct {
			Decision string          `json:"permissionDecision"`
			Input    json.RawMessage `json:"updatedInput"`
		} `json:"hookSpecificOutput"`
	}
	if json.Unmarshal(b, &answer) != nil || answer.Output.Decision != "allow" {
		return string(b)
	}
	return string(answer.Output.Input)
}

// Calls of one turn that are held at once come as one card, whichever way they come in, and one press answers each of
// them: with what was asked for.
func TestCallsThatAreHeldAtOnceAreOnePush(t *testing.T) {
	t.Parallel()
	const n = 4
	runs := [][][]traceCall{{{{Tool: "move", Changes: true}}}}
	for way, hold := range map[string]func(w *world) func(arguments json.RawMessage) string{
		"/v1": func(w *world) func(json.RawMessage) string {
			return func(arguments json.RawMessage) string {
				a, err := w.bot.Ask(w.ctx, client.Call{Tool: "move", Args: arguments, SessionID: "s1", TurnID: "t1"}, time.Minute)
				if err != nil || a.Kind != client.AnswerApproved {
					return fmt.Sprintf("%s: %v", a.Kind, err)
				}
				return string(a.Args)
			}
		},
		"/v1, which names no turn": func(w *world) func(json.RawMessage) string {
			return func(arguments json.RawMessage) string {
				a, err := w.bot.CallWait(w.ctx, client.Call{Tool: "move", Args: arguments, SessionID: "s1"}, time.Minute)
				if err != nil || a.Kind != client.AnswerApproved {
					return fmt.Sprintf("%s: %v", a.Kind, err)
				}
				return string(a.Args)
			}
		},
		"the gateway": func(w *world) func(json.RawMessage) string {
			s := newMCPSession(t, w.url("/mcp"), secrets["AGENT_TOKEN"])
			return func(arguments json.RawMessage) string {
				if kind, _ := s.call("move", arguments); kind != client.AnswerAllow {
					return string(kind)
				}
				return string(arguments)
			}
		},
		"hooks": func(w *world) func(json.RawMessage) string {
			return func(arguments json.RawMessage) string { return w.hooked("move", arguments) }
		},
	} {
		t.Run(way, func(t *testing.T) {
			clock := testkit.NewClock(time.Now())
			server := newDeskServer(t, runs)
			w := newDesk(t, clock, fmt.Sprintf(desk, "1m", "turn", "move"), server)
			ask := hold(w)
			r := &replay{world: w, clock: clock, waiting: map[string]bool{}, said: map[string]int{}, seen: map[string]bool{}}
			answers := make(chan string, n)
			var calls []traceCall
			for i := range n {
				arguments := json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
				calls = append(calls, traceCall{Tool: "move", Args: arguments, Changes: true, Wanted: true})
				go func() { answers <- ask(arguments) }()
			}
			w.eventually("all wait", func() bool {
				page, err := w.hana.Approvals(w.ctx, client.ApprovalQuery{Status: "pending"})
				for _, a := range page.Items {
					r.waiting[a.ID] = true
				}
				return err == nil && len(page.Items) == n
			})
			r.decide(nil)
			got := map[string]bool{}
			for range n {
				got[testkit.Receive(t, "an answer", answers)] = true
			}
			for _, c := range calls {
				if !got[string(c.Args)] {
					t.Errorf("%s did not run; answered were %v", c.Args, got)
				}
			}
			if r.pushes != 1 || r.decisions != 1 {
				t.Errorf("%d pushes and %d presses, want one of each", r.pushes, r.decisions)
			}
			if way == "the gateway" && server.count() != n {
				t.Errorf("the server ran %d calls", server.count())
			}
		})
	}
}
