package adk

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/adk/v2/agent"

	"countersign/client"
)

// place is where in a run a callback is called.
type place struct {
	agent.StrictContextMock
	invocation, agent, call string
}

func (p place) InvocationID() string   { return p.invocation }
func (p place) AgentName() string      { return p.agent }
func (p place) Branch() string         { return "" }
func (p place) FunctionCallID() string { return p.call }

var (
	here = place{invocation: "e1", agent: "treasurer", call: "c1"}
	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	pay  = client.Call{Tool: "transfer", Args: []byte(`{"cents":1}`), Scope: "treasury/mia", SessionID: "s1", TurnID: "e1"}
)

func readied() *runs {
	rs := &runs{}
	rs.prepare(&here, []string{"c1"}, []client.Call{pay}, []client.Answer{{Kind: client.AnswerApproved}}, noon)
	return rs
}

func TestAPreparedAnswerIsForThatCallOnceAndSoon(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p *place, c *client.Call)
		after  time.Duration
		want   bool
	}{
		{"that call", func(*place, *client.Call) {}, fresh - 1, true},
		{"late", func(*place, *client.Call) {}, fresh, false},
		{"another id", func(p *place, _ *client.Call) { p.call = "c2" }, 0, false},
		{"another agent", func(p *place, _ *client.Call) { p.agent = "helper" }, 0, false},
		{"another run", func(p *place, _ *client.Call) { p.invocation = "e2" }, 0, false},
		{"another tool", func(_ *place, c *client.Call) { c.Tool = "transfer_all" }, 0, false},
		{"other args", func(_ *place, c *client.Call) { c.Args = []byte(`{"cents":10}`) }, 0, false},
		{"another server", func(_ *place, c *client.Call) { c.Server = "bank" }, 0, false},
		{"another scope", func(_ *place, c *client.Call) { c.Scope = "treasury/noa" }, 0, false},
		{"another session", func(_ *place, c *client.Call) { c.SessionID = "s2" }, 0, false},
	} {
		rs, p, call := readied(), here, pay
		c.change(&p, &call)
		if _, got := rs.take(&p, call, noon.Add(c.after)); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if _, again := rs.take(&p, call, noon); again {
			t.Errorf("%s: a second time", c.name)
		}
	}
}

func TestAnAnswerThatDidNotFitIsGone(t *testing.T) {
	rs, other := readied(), pay
	other.Args = []byte(`{}`)
	rs.take(&here, other, noon)
	if _, ok := rs.take(&here, pay, noon); ok {
		t.Error("it was kept")
	}
}

func TestWhatWasPreparedIsDroppedWithItsStepAndItsRun(t *testing.T) {
	rs := readied()
	rs.step(&here, nil, nil, noon)
	if _, ok := rs.take(&here, pay, noon); ok {
		t.Error("the next step has it")
	}
	rs = readied()
	rs.end("e1")
	if len(rs.m) != 0 {
		t.Errorf("left: %v", rs.m)
	}
}

func TestRunsThatNobodyEndsAreForgotten(t *testing.T) {
	rs := &runs{}
	for i := range 1000 {
		rs.step(&place{invocation: fmt.Sprint(i), agent: "treasurer"}, nil, nil, noon.Add(time.Duration(i)*time.Minute))
	}
	if len(rs.m) > 62 {
		t.Errorf("%d runs are remembered", len(rs.m))
	}
}

func TestAnEndingThatComesAgainIsToldAnew(t *testing.T) {
	rs := &runs{}
	denied := client.Approval{ID: "1", Message: "denied: no reason given"}
	rs.step(&here, nil, []client.Approval{denied}, noon)
	rs.markAcknowledged(&here, []string{"1"})
	if ids := rs.listUnacknowledged(&here); len(ids) != 0 {
		t.Errorf("unacknowledged: %v", ids)
	}
	denied.Message = "denied: not this month"
	told, _ := rs.step(&here, nil, []client.Approval{denied}, noon)
	if ids := rs.listUnacknowledged(&here); len(told) != 1 || told[0].Message != denied.Message || len(ids) != 1 {
		t.Errorf("told %+v, unacknowledged %v", told, ids)
	}
}

func TestShortenCutsBetweenCharacters(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("x", 20), strings.Repeat("承認", 10), strings.Repeat("😀", 9)} {
		got := shorten(s, 20)
		if len(got) > 20 || !utf8.ValidString(got) || len(s) <= 20 && got != s || len(s) > 20 && !strings.HasSuffix(got,
			"…") {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestTheSameArgsAreTheSameBytes(t *testing.T) {
	g := New(nil, Options{Scope: func(agent.ReadonlyContext) string { return "" }})
	args := map[string]any{"to": "<a&b>", "cents": float64(1 << 53), "list": []any{1.5, nil, true},
		"in": map[string]any{"b": "1", "a": "2"}}
	const want = `{"cents":9007199254740992,"in":{"a":"2","b":"1"},"list":[1.5,null,true],"to":"<a&b>"}`
	for range 20 {
		c, err := g.call(&session{}, "transfer", args)
		if err != nil || string(c.Args) != want {
			t.Fatalf("%v: got %s, want %s", err, c.Args, want)
		}
	}
	if c, err := g.call(&session{}, "transfer", nil); err != nil || string(c.Args) != "{}" {
		t.Errorf("no args: %s, %v", c.Args, err)
	}
}

type session struct{ place }

func (*session) SessionID() string { return "s1" }
