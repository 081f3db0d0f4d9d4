package rest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/history"
)

// named is a policy with a digest and a text.
type named struct {
	rules
	digest, text string
}

func (n named) Digest() string { return n.digest }
func (n named) Source() string { return n.text }

func TestThePolicyThatJudgedARequestCanBeRead(t *testing.T) {
	w := newWorld(t)
	digests := []string{strings.Repeat("0123abcd", 8), strings.Repeat("0123abce", 8), strings.Repeat("0123abcf", 8)}
	for i, text := range []string{"policy: {mode: enforce}\n", "policy: {}\n", ""} {
		if err := w.gate.SetPolicy(t.Context(), named{rules{byName, terms}, digests[i], text}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.gate.SetPolicy(t.Context(), named{rules{byName, terms}, digests[0], "again"}, nil); err != nil {
		t.Fatal(err)
	}
	id := w.do(botToken, "POST", "/v1/calls", `{"tool":"pay","args":{}}`).is(202).str("approval_id")
	digest := w.do(kenToken, "GET", "/v1/approvals/"+id, "").is(200).str("policy_digest")
	if digest != digests[0] {
		t.Fatalf("policy_digest %q, want %q", digest, digests[0])
	}
	for _, typed := range []string{digest, digest[:8], strings.ToUpper(digest[:12])} {
		for _, token := range []string{kenToken, rootToken} {
			r := w.do(token, "GET", "/v1/policies/"+typed, "").is(200)
			like(t, "the policy", r.object(), `{"digest":"`+digest+`","text":"policy: {mode: enforce}\n"}`)
		}
	}
	w.do(kenToken, "GET", "/v1/policies/"+digest[:7], "").is(400, "invalid_parameter")
	w.do(kenToken, "GET", "/v1/policies/xyz01234", "").is(400, "invalid_parameter")
	w.do(kenToken, "GET", "/v1/policies/"+digests[2], "").is(404, "not_found") // it had no text
	w.do(guestToken, "GET", "/v1/policies/"+digest, "").is(403, "not_an_approver")
	w.do(botToken, "GET", "/v1/policies/"+digest, "").is(403, "people_only")
	if err := w.gate.SetPolicy(t.Context(), named{rules{byName, terms}, digest[:63] + "0", "policy: {}\n"},
		nil); err != nil {
		t.Fatal(err)
	}
	w.do(kenToken, "GET", "/v1/policies/"+digest[:8], "").is(409, approval.CodeAmbiguousID)
}

// Where some of the time was removed the answer says from when on all is there.
func TestStatsSayFromWhenOnTheyKnow(t *testing.T) {
	w := newWorld(t)
	const day = 24 * time.Hour
	for _, c := range []struct {
		kept           history.Kept
		figures, calls string // "": absent
	}{
		{history.Kept{}, "", ""},
		{history.Kept{Requests: 400 * day}, "", ""},
		{history.Kept{Requests: 25 * day, Args: 10 * day, Pushes: 400 * day}, "2026-10-27T10:00:00.000Z",
			"2026-11-11T10:00:00.000Z"},
	} {
		w.rest.kept = func() history.Kept { return c.kept }
		got := w.do(kenToken, "GET", "/v1/stats", "").is(200).object()
		for name, want := range map[string]string{"known_since": c.figures, "calls_known_since": c.calls} {
			if is, _ := got[name].(string); is != want {
				t.Errorf("%+v: %s is %q, want %q", c.kept, name, is, want)
			}
		}
	}
}

func TestStatsSayHowOftenPeopleWereAsked(t *testing.T) {
	w := newWorld(t)
	w.rest.nameOf = func(approval.Address) string { return "hana" }
	for i, decision := range []string{"approve", "approve", "deny"} {
		id := w.do(botToken, "POST", "/v1/calls", asked(i)).is(202).str("approval_id")
		w.clock.Advance(30 * time.Second)
		w.decide(kenToken, id, decision, "").is(200)
	}
	w.do(otherToken, "POST", "/v1/calls", asked(9)).is(202)
	w.clock.Advance(30 * time.Second)
	figures := func(name string, asked int) string {
		pending := asked - 3
		return fmt.Sprintf(
			`{"name":%q,"asked":%d,"approved":2,"denied":1,"expired":0,"cancelled":0,"pending":%d,"granted":0,"quarantined":%d,`+
				`"pushes":0,"pushes_per_100":0,"decisions":3,"decisions_per_100":%d,"decide_p50_ms":30000,"decide_p90_ms":30000}`,
			name, asked, pending, asked, 300/asked)
	}
	r := w.do(kenToken, "GET", "/v1/stats", "").is(200)
	like(t, "the total", r.at("total"), figures("", 4))
	if r.str("until") != "2026-11-21T10:02:00.000Z" || r.str("since") != "2026-10-22T10:02:00.000Z" {
		t.Errorf("it is from %s to %s", r.str("since"), r.str("until"))
	}
	r = w.do(rootToken, "GET", "/v1/stats?agent=bot&since=2026-11-21T10:00:00Z&until=2026-11-21T11:00:00Z", "").is(200)
	like(t, "of one agent", r.at("by_agent"), `[`+figures("bot", 3)+`]`)
	like(t, "of one person", r.at("by_person"), `[`+figures("ken", 3)+`]`)
	w.do(kenToken, "GET", "/v1/stats?since=yesterday", "").is(400, "invalid_parameter")
	w.do(kenToken, "GET", "/v1/stats?limit=3", "").is(400, "invalid_parameter")
	w.do(guestToken, "GET", "/v1/stats", "").is(403, "not_an_approver")
	w.do(botToken, "GET", "/v1/stats", "").is(403, "people_only")
	w.stop()
	w.do(kenToken, "GET", "/v1/stats", "").is(503, "store_unavailable")
}

// A large record is answered in pieces, the newest first: what they have adds up to what there is, also where nobody
// said of which time.
func TestStatsComeInPieces(t *testing.T) {
	w := newWorld(t)
	const each, times = 600, 4
	for range times {
		err := w.store.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
			for i := range each {
				r := approval.Request{ID: tx.NewID(), Agent: "bot", Tool: "pay", Args: []byte(`{}`), ArgsHash: fmt.Sprintf("%064x",
					i),
					Risk: approval.RiskMedium, ReasonCode: "approval_required", HumanMessage: "Please look.", Status: approval.Pending,
					RequestedAt: tx.Now(), ExpiresAt: tx.Now().Add(time.Hour), Scope: tx.Now().String()}
				if err := tx.InsertRequest(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(time.Second)
	}
	asked := func(r reply) int {
		n, err := strconv.Atoi(fmt.Sprint(r.at("total", "asked")))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, of := range []string{"", "&since=2026-11-21T10:00:01Z", "&until=2026-11-21T10:00:03Z", "&agent=bot"} {
		w.rest.look.time = 0 // one step of each kind for each answer
		whole := w.do(kenToken, "GET", "/v1/stats?whole=true"+of, "").is(200)
		if whole.at("next") != nil || whole.object()["window_since"] != nil {
			t.Fatalf("all of it goes on: %s", whole.body)
		}
		first := w.do(kenToken, "GET", "/v1/stats?"+of, "").is(200)
		pieces, sum := 1, asked(first)
		for r := first; r.at("next") != nil; pieces++ {
			if r.str("since") != r.str("next") || r.str("window_since") != whole.str("since") || pieces > times {
				t.Fatalf("piece %d: %s", pieces, r.body)
			}
			r = w.do(kenToken, "GET", "/v1/stats?since="+r.str("window_since")+"&until="+r.str("next"), "").is(200)
			sum += asked(r)
		}
		if sum != asked(whole) || pieces < 2 || first.str("until") != whole.str("until") {
			t.Errorf("%s: %d in %d pieces until %s; want %d until %s", of, sum, pieces, first.str("until"), asked(whole),
				whole.str("until"))
		}
		w.rest.look = defaultLooking
		w.rest.look.time = time.Hour
		if r := w.do(kenToken, "GET", "/v1/stats?"+of, "").is(200); string(r.body) != string(whole.body) {
			t.Errorf("what is read in time is %s, want %s", r.body, whole.body)
		}
	}
	w.do(kenToken, "GET", "/v1/stats?whole=yes", "").is(400, "invalid_parameter")
}
