package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/history"
	"countersign/internal/lists"
)

func replayWorld(t testing.TB) *world {
	t.Helper()
	w := statsWorld(t)
	none, err := args.Parse([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"drop_table", "read_file"} { // by rules
		if _, err := w.gate.Check(w.ctx, approval.Call{Agent: "bot", Tool: tool, Args: none}); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Advance(time.Second)
	return w
}

func (w *world) replays(person, text string) reply {
	w.t.Helper()
	w.pages.Now = w.clock.Now
	return w.post(person, "/policy/replay", url.Values{"policy": {text}, "days": {"30"}})
}

const looserRules = `
policy:
  rules:
    - {name: 'loose <script>alert(1)</script>', tools: [pay, drop_table], action: allow}
    - {name: strict, tools: [wire, read_file], action: deny}
`

// What was denied and would run comes first, whoever denied it.
func TestAnotherPolicyIsReplayed(t *testing.T) {
	t.Parallel()
	w := replayWorld(t)
	r := w.replays("hana", looserRules).is(http.StatusOK).harmless().lacks("<script>alert").
		has("denied by ken", "denied by the rule: never", "7 calls on record were judged.", `href="/r/0`,
			"People were asked, and the result would be different", "A rule decided, and the result would be different",
			"loose &lt;script&gt;alert(1)&lt;/script&gt;")
	first, next := strings.Index(r.body, "denied by ken"), strings.Index(r.body, `id="replay-asked"`)
	if first < 0 || next < first || strings.Count(r.body, "denied by ken") != 1 {
		t.Errorf("denied at %d, asked at %d", first, next)
	}
	if events, _ := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Limit: 1000}); strings.Contains(w.log.String(),
		"loose") {
		t.Errorf("the log has the text, beside %d events", len(events))
	}
	if got := w.gate.Policy().Digest(); got != policyOf(t, adminRules).Digest() {
		t.Error("the policy in force has changed")
	}
}

func TestTheReplayIsForAdmins(t *testing.T) {
	t.Parallel()
	w := replayWorld(t)
	w.get("hana", "/policy").is(http.StatusOK).has(`action="/policy/replay#replay"`, "drop_table", "rules:")
	w.get("ken", "/policy").is(http.StatusOK).lacks("/policy/replay")
	for _, who := range []string{"ken", "guest"} {
		w.replays(who, looserRules).is(http.StatusForbidden).lacks("judged")
	}
	w.send("hana", http.MethodPost, "/policy/replay", url.Values{"policy": {looserRules}, "days": {"30"}},
		"Sec-Fetch-Site", "cross-site").is(http.StatusForbidden)
}

// What is in force is offered as text, and judges the record as it was judged.
func TestThePolicyInForceReplaysTheSame(t *testing.T) {
	t.Parallel()
	w := replayWorld(t)
	text := w.gate.Policy().(rewriter).Rewrite()
	w.replays("hana", text).is(http.StatusOK).has("None of the calls judged.").lacks(`id="replay-asked"`,
		`id="replay-other"`)
}

// A policy that cannot be compiled says where, judges nothing, and is still there.
func TestAPolicyThatDoesNotCompile(t *testing.T) {
	t.Parallel()
	w := replayWorld(t)
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		n, m := string(rune('0'+i)), string(rune('1'+i))
		bomb += "a" + m + ": &a" + m + " [" + strings.TrimSuffix(strings.Repeat("*a"+n+", ", 10), ", ") + "]\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"a word":  {"policy:\n  rules:\n    - {name: a, tools: [pay], action: perhaps}\n", "Line 3, column 39"},
		"CEL":     {"policy:\n  rules:\n    - {name: a, tools: [pay], when: 'args.', action: allow}\n", "Line 3, column"},
		"no YAML": {"policy: [\n", "Line "},
		"a bomb":  {bomb, "aliases"},
		"nested":  {"policy: " + strings.Repeat("[", 100000), "nested"},
		"hostile": {"policy:\n  \"\u202e<script>alert(1)</script>\": typed-secret-1\n", "Line 2, column 3"},
	} {
		r := w.replays("hana", c.text).is(http.StatusBadRequest).has(c.want, `role="alert"`,
			"nothing was judged").lacks("<script>alert", `id="replayed"`)
		if !strings.Contains(r.body, strings.SplitN(c.text, "\n", 2)[0][:4]) {
			t.Errorf("%s: what was typed is gone", name)
		}
		problems, _, _ := strings.Cut(r.body, "<textarea id=\"policy\"")
		if strings.Contains(problems, "\u202e") {
			t.Errorf("%s: a problem turns its text round", name)
		}
	}
	w.replays("hana", strings.Repeat("#", 1<<20+1)).is(http.StatusBadRequest).has("longer than 1 MiB")
	w.replays("hana", strings.Repeat("x", maxForm)).is(http.StatusBadRequest)
	w.post("hana", "/policy/replay", url.Values{"policy": {looserRules}, "days": {"9999"}}).is(http.StatusBadRequest).has(
		"Choose 7, 30 or 90 days.")
	if strings.Contains(w.log.String(), "typed-secret-1") {
		t.Error("the log has what was typed")
	}
}

// A reading ends at its bound, and remembers where.
func TestAReplayIsBounded(t *testing.T) {
	t.Parallel()
	calls := func(yield func(history.Record, error) bool) {
		for i := range 5 {
			if !yield(history.Record{At: begin.Add(-time.Duration(i) * time.Hour)}, nil) {
				return
			}
		}
	}
	for left, want := range map[int]int{2: 2, 5: 5, 6: 5} {
		b, n := bounded{reading: t.Context(), left: left}, 0
		for range b.of(calls) {
			n++
		}
		if n != want || b.stopped != (left < 5) || !b.last.Equal(begin.Add(-time.Duration(n-1)*time.Hour)) {
			t.Errorf("%d: %d calls, stopped %v at %v", left, n, b.stopped, b.last)
		}
	}
	w := replayWorld(t)
	w.replays("hana", looserRules).is(http.StatusOK).lacks("It stopped early")
}
