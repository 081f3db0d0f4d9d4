package history_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/history"
)

// All calls come, of requests and of events, the newest first and within their time.
func TestCallsAreTheNewestFirst(t *testing.T) {
	r := newRecord(t)
	var want []string
	a, err := args.Parse([]byte(`{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		asked := r.ask(nil)
		if i == 1 {
			r.ends(approval.Denied, "system:timeout", asked)
		}
		want = append([]string{"pending pay " + asked.ID}, want...)
		for _, of := range []approval.EventType{approval.EventCallAllowed, approval.EventCallDenied,
			approval.EventGrantUsed} {
			r.clock.Advance(time.Minute)
			r.update(func(tx approval.Tx) error {
				_, err := tx.Append(approval.Event{Type: of, Agent: "bot", Tool: "files/read",
					Data: fmt.Appendf(nil, `{"args":"{\"n\":1}","args_hash":"%s"}`, a.Hash())})
				want = append([]string{string(of)}, want...)
				return err
			})
		}
		r.clock.Advance(time.Minute)
	}
	was := map[history.Was]string{history.WasAllowed: string(approval.EventCallAllowed),
		history.WasRefused: string(approval.EventCallDenied), history.WasGranted: string(approval.EventGrantUsed)}
	read := func(q history.Query) (got []string) {
		for c, err := range history.Calls(t.Context(), r, q) {
			if err != nil {
				t.Fatal(err)
			}
			if c.Args == nil {
				t.Errorf("%s has no args", c.ID)
			}
			switch {
			case was[c.Was] != "":
				got = append(got, was[c.Was])
			case c.Was == history.WasCancelled:
				got = append(got, "pending pay "+c.ID) // nobody's word
			default:
				got = append(got, string(c.Was)+" "+c.Target()+" "+c.ID)
			}
		}
		return got
	}
	equal(t, "all", read(history.Query{}), want)
	equal(t, "since", read(history.Query{Since: begin.Add(8 * time.Minute)}), want[:4])
	equal(t, "until", read(history.Query{Until: begin.Add(time.Minute)}), want[11:])
	equal(t, "of nobody", len(read(history.Query{Agent: "other"})), 0)
}

func TestCallsGoOnAfterAPageAndEndAtAnError(t *testing.T) {
	r := newRecord(t)
	r.update(func(tx approval.Tx) error {
		for range 450 {
			if _, err := request(tx, nil); err != nil {
				return err
			}
		}
		return nil
	})
	n, seen := 0, map[string]bool{}
	for c, err := range history.Calls(t.Context(), r, history.Query{}) {
		if err != nil || seen[c.ID] {
			t.Fatalf("%s twice, or %v", c.ID, err)
		}
		seen[c.ID] = true
		n++
	}
	equal(t, "calls", n, 450)
	broken := errors.New("broken")
	fails := history.Query{Step: func(context.Context, history.Do) error { return broken }}
	n = 0
	for _, err := range history.Calls(t.Context(), r, fails) {
		if n++; !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
	equal(t, "ends", n, 1)
}
