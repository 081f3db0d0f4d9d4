package standardwebhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/testkit"
)

// golden are the cases whose bodies are kept, one of each kind.
var golden = []string{"request", "reminder", "critical_reason", "nested", "secrets", "ignored", "write",
	"outcome_denied", "outcome_used", "outcome_batch_some", "reply"}

func card(d channels.Delivery) channels.Card {
	d.Notification.CreatedAt = channelstest.Noon.Add(1500 * time.Microsecond)
	return channelstest.Maker().Card(d)
}

func TestBodies(t *testing.T) {
	ch := newChannel(t)
	for _, c := range channelstest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			checkCard(t, ch, c.Delivery)
			body, err := ch.Render(card(c.Delivery))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := ch.Render(card(c.Delivery)); err != nil || !bytes.Equal(body, again) {
				t.Errorf("rendering twice gave different bytes (err %v)", err)
			}
			if strings.Contains(string(body), channelstest.Secret) {
				t.Error("it tells a secret")
			}
			if slices.Contains(golden, c.Name) {
				var b bytes.Buffer
				if err := json.Indent(&b, body, "", "  "); err != nil {
					t.Fatal(err)
				}
				testkit.Golden(t, filepath.Join("testdata", "bodies", c.Name+".json"), append(b.Bytes(), '\n'))
			}
		})
	}
}

type tester interface {
	Helper()
	Errorf(format string, values ...any)
	Fatalf(format string, values ...any)
}

// The parts that a body may have, by where they stand, and the type of each.
var parts = map[string]map[string]string{
	"":     {"type": "string", "timestamp": "string", "data": "object"},
	"data": {"title": "string", "language": "string", "batch_id": "string", "requests": "list"},
	"requests": {"id": "string", "state": "string", "tool": "string", "agent": "string", "risk": "string",
		"hash": "string", "title": "string", "summary": "string", "ending": "string", "why": "string", "deadline": "string",
		"deadline_text": "string", "reason_required": "bool", "step_up": "bool", "facts": "list", "args": "list",
		"args_shown": "number", "args_total": "number", "notices": "list", "progress": "list", "servers_words": "string",
		"agents_own_words": "object", "url": "string"},
	"facts":            {"label": "string", "value": "string"},
	"args":             {"depth": "number", "key": "string", "value": "string", "members": "bool", "ignored": "bool"},
	"agents_own_words": {"rationale": "string", "preview": "string", "preview_read": "string"},
	"must requests": {"id": "", "state": "", "tool": "", "agent": "", "risk": "", "hash": "", "title": "", "facts": "",
		"args": "", "args_shown": "", "args_total": "", "notices": ""},
	"must data":  {"title": "", "language": "", "requests": ""},
	"must ":      {"type": "", "timestamp": "", "data": ""},
	"must args":  {"depth": "", "key": "", "value": ""},
	"must facts": {"label": "", "value": ""},
}

func checkPart(t tester, where string, v any) {
	t.Helper()
	kind := ""
	switch v := v.(type) {
	case string:
		kind = "string"
		if r, ok := channelstest.Hidden(v); ok {
			t.Errorf("a character nobody sees, %U, in %q", r, v)
		}
	case float64:
		kind = "number"
	case bool:
		kind = "bool"
	case []any:
		kind = "list"
		for _, e := range v {
			if name := where[strings.LastIndexByte(where, '.')+1:]; name == "notices" || name == "progress" {
				if _, ok := e.(string); !ok {
					t.Errorf("a notice is no string: %v", e)
				}
				checkPart(t, ".notice", e)
			} else {
				checkMembers(t, name, e)
			}
		}
	case map[string]any:
		kind = "object"
		checkMembers(t, where[strings.LastIndexByte(where, '.')+1:], v)
	}
	in, name, _ := strings.Cut(where, ".")
	if name == "notice" {
		return
	}
	if want := parts[in][name]; kind != want {
		t.Errorf("%s is of type %q, want %q", where, kind, want)
	}
}

func checkMembers(t tester, name string, v any) {
	t.Helper()
	m, ok := v.(map[string]any)
	if !ok {
		t.Fatalf("%s is no object: %v", name, v)
	}
	for k, e := range m {
		checkPart(t, name+"."+k, e)
	}
	for k := range parts["must "+name] {
		if _, ok := m[k]; !ok {
			t.Errorf("%s has no %s", name, k)
		}
	}
}

var (
	eventType = regexp.MustCompile(`^approval\.(requested|reminder|updated|resolved|notice)$`)
	timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	plainKey  = regexp.MustCompile(`^k[0-9]+$`)
)

// body is what a receiver decodes.
type body struct {
	Type, Timestamp string
	Data            struct {
		Requests []told
	}
}

type told struct {
	ID, State, Tool, Agent, Hash, Deadline, Ending string

	ReasonRequired bool `json:"reason_required"`

	Args      []toldArg
	ArgsShown int `json:"args_shown"`
	ArgsTotal int `json:"args_total"`
	Notices   []string
	Words     *struct{} `json:"agents_own_words"`
}

type toldArg struct {
	Depth   int
	Key     string
	Members bool
}

// checkCard checks what is rendered of a delivery: its size and form, and that what is left out is said.
func checkCard(t tester, ch *Channel, d channels.Delivery) body {
	t.Helper()
	raw, err := ch.Render(card(d))
	if err != nil {
		t.Fatalf("cannot be rendered: %v", err)
	}
	if len(raw) > 64_000 || len(d.Requests) == 1 && len(raw) > 20_000 {
		t.Errorf("%d bytes for %d requests", len(raw), len(d.Requests))
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("no JSON: %v", err)
	}
	checkMembers(t, "", v)
	var b body
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatalf("%v", err)
	}
	if !eventType.MatchString(b.Type) || !timestamp.MatchString(b.Timestamp) {
		t.Errorf("type %q at %q", b.Type, b.Timestamp)
	}
	if n := len(card(d).Items); len(b.Data.Requests) != n {
		t.Fatalf("%d requests, want %d", len(b.Data.Requests), n)
	}
	for n, got := range b.Data.Requests {
		r := d.Requests[n]
		if got.ID != r.ID || got.Agent != r.Agent || got.Hash != r.ArgsHash[:8] || got.Tool != r.Target() &&
			len(r.Target()) <= 300 {
			t.Errorf("request %+v, want %s %s %s %s", got, r.ID, r.Agent, r.ArgsHash[:8], r.Target())
		}
		if pending := r.Status == approval.Pending; (got.State == "pending") != pending ||
			timestamp.MatchString(got.Deadline) != pending || (got.Ending == "") != pending {
			t.Errorf("request %s is %s with deadline %q and ending %q; it is %s", r.ID, got.State, got.Deadline, got.Ending,
				r.Status)
		}
		if got.ReasonRequired != (r.RequireReason && r.Status == approval.Pending) {
			t.Errorf("request %s: reason required %t", r.ID, got.ReasonRequired)
		}
		shown := 0
		for _, a := range got.Args {
			if !a.Members {
				shown++
			}
		}
		if shown != got.ArgsShown || got.ArgsShown > got.ArgsTotal {
			t.Errorf("%d args, %d shown of %d", shown, got.ArgsShown, got.ArgsTotal)
		}
		notices := strings.Join(got.Notices, "\n")
		if (got.ArgsShown < got.ArgsTotal) != strings.Contains(notices, "⚠ ONLY") {
			t.Errorf("%d of %d args shown, notices %q", got.ArgsShown, got.ArgsTotal, got.Notices)
		}
		if own := strings.TrimSpace(r.Rationale) + strings.TrimSpace(r.Preview); own != "" && got.Words == nil &&
			!strings.Contains(notices, "(what the agent wrote") {
			t.Errorf("the agent's own words are neither there nor missed: %q", got.Notices)
		}
		if got.ArgsShown < got.ArgsTotal {
			continue
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(r.Args, &members); err != nil {
			t.Fatalf("%v", err)
		}
		for k := range members {
			top := func(a toldArg) bool { return a.Depth == 0 && a.Key == k }
			if plainKey.MatchString(k) && !slices.ContainsFunc(got.Args, top) {
				t.Errorf("arg %s is not there, and nothing says so", k)
			}
		}
	}
	return b
}

// No args, texts or states may break the size, hide a character or leave out an arg without saying so.
func TestAnyCardKeepsTheSize(t *testing.T) {
	ch := newChannel(t)
	rapid.Check(t, func(t *rapid.T) { checkCard(t, ch, channelstest.AnyDelivery(t)) })
}

func FuzzRender(f *testing.F) {
	ch := newChannel(f)
	channelstest.Seeds(f.Add)
	f.Fuzz(func(t *testing.T, args []byte, words string, requests, flags uint8) {
		checkCard(t, ch, channelstest.Fuzzed(args, words, requests, flags))
	})
}

// A whole batch of the worst requests still fits, and each of its requests has its share.
func TestWorstBatch(t *testing.T) {
	ch := newChannel(t)
	for _, filler := range []string{"<", `"`, "⟨", "界", "\n"} {
		for _, n := range []int{1, 2, 20} {
			bad := strings.Repeat(filler, 5000)
			raw, err := json.Marshal(map[string]any{"a": bad, "b": bad, "c": map[string]string{"d": bad}})
			if err != nil {
				t.Fatal(err)
			}
			a, err := args.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			rs := channelstest.Batch(n)
			for i := range rs {
				rs[i].Args, rs[i].HumanMessage, rs[i].Scope, rs[i].SessionID, rs[i].RequireReason = a.Canonical(), bad, bad,
					fmt.Sprint(i)+bad, true
				rs[i].Rationale, rs[i].Preview = bad, bad
				rs[i].Tool, rs[i].Server, rs[i].Agent = strings.Repeat("t", 128), strings.Repeat("s", 128), strings.Repeat("a", 128)
				rs[i].Previous = &approval.Use{ApprovedBy: bad}
				if i%2 == 1 {
					rs[i].Status, rs[i].ResolvedBy, rs[i].ResolveReason = approval.Denied, bad, bad
				}
			}
			d := channels.Delivery{Notification: approval.Notification{Kind: approval.KindRequest,
				BatchID: channelstest.BatchID}, Requests: rs}
			for _, r := range checkCard(t, ch, d).Data.Requests {
				if r.ArgsShown != 3 {
					t.Errorf("%q, %d requests: %d of %d args", filler, n, r.ArgsShown, r.ArgsTotal)
				}
			}
		}
	}
}

func TestTypes(t *testing.T) {
	ch := newChannel(t)
	for kind, want := range map[approval.NotificationKind]string{
		approval.KindRequest: "approval.requested", approval.KindReminder: "approval.reminder",
		approval.KindEdit: "approval.updated", approval.KindReply: "approval.notice",
	} {
		d := channelstest.Cases()[0].Delivery
		d.Notification.Kind = kind
		if b := checkCard(t, ch, d); b.Type != want || b.Timestamp != "2026-11-21T03:00:00.001Z" {
			t.Errorf("%s is %s at %s, want %s", kind, b.Type, b.Timestamp, want)
		}
	}
	for _, c := range []channels.Card{{}, {Kind: "smoke"}, {Kind: approval.KindRequest}, {Kind: approval.KindEdit}} {
		if body, err := ch.Render(c); err == nil {
			t.Errorf("%+v became %s", c, body)
		}
	}
}

func TestMeasureIsTheLengthInJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		if got, least := measure(s), len(encode(s))-2; got < least {
			t.Errorf("%q measures %d, and is %d long", s, got, least)
		}
	})
}
