package approval_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
)

// remembered returns the ids of the requests whose denials are told as remembered.
func (w *world) remembered(q lists.RememberedQuery) (ids []string, next int64) {
	w.t.Helper()
	found, next, err := lists.FindRemembered(w.ctx, w.gate, q)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range found {
		if d.Until.Sub(d.At) != terms.RememberDenial || !d.Request.MayLift(ken) {
			w.t.Errorf("remembered from %s to %s", d.At, d.Until)
		}
		ids = append(ids, d.Request.ID)
	}
	return ids, next
}

// Whatever is told as remembered answers the same call again, and nothing else does.
func TestRememberedDenials(t *testing.T) {
	w := newWorld(t)
	w.governedBy(&people{}, asks)
	deny := func(raw string, wish *approval.GrantWish) string {
		t.Helper()
		w.clock.advance(time.Millisecond)
		id := w.expect(call(raw), approval.AnswerPending).Request.ID
		if _, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, By: ken, Via: approval.ViaAPI,
			Grant: wish}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	want := func(when string, ids ...string) {
		t.Helper()
		if got, next := w.remembered(lists.RememberedQuery{Limit: 10}); !slices.Equal(got, ids) || next != 0 {
			t.Errorf("%s: %q and on from %d, want %q", when, got, next, ids)
		}
	}
	want("nothing denied")
	plain := deny(`{"to":"a"}`, nil)
	want("denied", plain)
	standing := deny(`{"to":"b"}`, &approval.GrantWish{For: time.Hour})
	want("the other stands", plain)
	if _, err := w.gate.Revoke(w.ctx, ken, approval.ViaAPI, w.grantOf(standing).ID); err != nil {
		t.Fatal(err)
	}
	w.expect(call(`{"to":"b"}`), approval.AnswerDenied)
	want("what stood was ended", standing, plain)
	if err := w.gate.Lift(w.ctx, ken, approval.ViaAPI, plain); err != nil {
		t.Fatal(err)
	}
	want("lifted", standing)
	again := deny(`{"to":"a"}`, nil)
	want("denied again", again, standing)
	if got, _ := w.remembered(lists.RememberedQuery{Agent: "nobody", Limit: 10}); len(got) != 0 {
		t.Errorf("of another agent: %q", got)
	}
	w.clock.advance(terms.RememberDenial - time.Millisecond)
	want("only just", again)
	w.clock.advance(time.Millisecond)
	want("too long ago")
	w.expect(call(`{"to":"a"}`), approval.AnswerPending)
}

func TestRememberedDenialsAreReadInPages(t *testing.T) {
	w := newWorld(t)
	w.governedBy(&people{}, asks)
	var all []string
	for i := range 23 {
		id := w.expect(call(fmt.Sprintf(`{"to":"%d"}`, i)), approval.AnswerPending).Request.ID
		w.mustDecide(id, false, ken, "")
		if i > 1 && i < 17 { // more in turn than are looked at for one page
			if err := w.gate.Lift(w.ctx, ken, approval.ViaAPI, id); err != nil {
				t.Fatal(err)
			}
			continue
		}
		all = append([]string{id}, all...)
	}
	var got []string
	for q, pages := (lists.RememberedQuery{Limit: 3}), 0; ; pages++ {
		ids, next := w.remembered(q)
		if len(ids) > q.Limit || pages > 23 {
			t.Fatalf("page %d has %d", pages, len(ids))
		}
		if got = append(got, ids...); next == 0 {
			break
		}
		q.Before = next
	}
	if !slices.Equal(got, all) {
		t.Errorf("%q, want %q", got, all)
	}
}
