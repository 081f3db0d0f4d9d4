package approval_test

import (
	"encoding/json"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/correlation"
	"countersign/internal/lists"
)

// Whatever ends a request, and whoever meets its end first: the event has the args, their hash, by which way it came,
// and the correlation id of the call that asked.
func TestRule11_EveryEndHasOnRecordWhatWasAskedAndByWhichCall(t *testing.T) {
	decide := func(approve bool) func(*world, string) {
		return func(w *world, id string) {
			w.ctx = correlation.With(w.ctx, "the-press")
			w.mustDecide(id, approve, hana, "")
		}
	}
	pass := func(d time.Duration) func(*world, string) {
		return func(w *world, id string) {
			w.clock.advance(d)
			if _, err := w.gate.Request(correlation.With(w.ctx, "a-look"), hana, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tt := range map[string]struct {
		end        func(w *world, id string)
		event      approval.EventType
		via, cause string
	}{
		"approved": {decide(true), approval.EventDecision, "api", "the-press"},
		"denied":   {decide(false), approval.EventDecision, "api", "the-press"},
		"expired":  {pass(time.Hour), approval.EventDecision, "system", ""},
		"lapsed": {func(w *world, id string) {
			w.mustDecide(id, true, hana, "")
			pass(15*time.Minute)(w, id)
		}, approval.EventApprovalLapsed, "system", ""},
		"cancelled": {func(w *world, id string) {
			_, err := w.gate.Cancel(correlation.With(w.ctx, "the-cancel"),
				approval.Cancellation{RequestID: id, By: bot, Via: approval.ViaAPI})
			if err != nil {
				t.Fatal(err)
			}
		}, approval.EventApprovalCancelled, "api", "the-cancel"},
		"frozen": {func(w *world, id string) {
			if _, err := w.gate.Freeze(w.ctx, "bot", hana, approval.ViaAPI, "a leak"); err != nil {
				t.Fatal(err)
			}
			pass(0)(w, id)
		}, approval.EventApprovalCancelled, "api", ""},
		"edited": {func(w *world, id string) {
			w.ctx = correlation.With(w.ctx, "the-press")
			a, err := args.Parse([]byte(`{"amount_cents":1}`))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: hana, Via: approval.ViaAPI,
				Args: &a}); err != nil {
				t.Fatal(err)
			}
		}, approval.EventDecision, "api", "the-press"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			asked, err := w.gate.Check(correlation.With(w.ctx, "the-call"), transfer)
			if err != nil {
				t.Fatal(err)
			}
			id := asked.Request.ID
			tt.end(w, id)
			es, err := lists.ListEvents(t.Context(), w.gate, approval.EventQuery{Type: tt.event, ApprovalID: id})
			if err != nil || len(es) != 1 {
				t.Fatalf("%d events, %v", len(es), err)
			}
			var data struct {
				Args  string `json:"args"`
				Hash  string `json:"args_hash"`
				Via   string `json:"via"`
				Cause string `json:"cause"`
			}
			if err := json.Unmarshal(es[0].Data, &data); err != nil {
				t.Fatal(err)
			}
			r := asked.Request
			if es[0].CorrelationID != "the-call" || data.Args != string(r.Args) || data.Hash != r.ArgsHash ||
				data.Via != tt.via || data.Cause != tt.cause {
				t.Errorf("on record under %q: %s", es[0].CorrelationID, es[0].Data)
			}
		})
	}
}
