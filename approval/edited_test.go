package approval_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
)

// An edit that others must agree to is waited for by whoever waits for the call, and by whoever asks about it then.
func TestRule4_WhoWaitsFollowsAnEditThatOthersMustJoin(t *testing.T) {
	for name, waits := range map[string]func(w *council, c approval.Call, first approval.Answer) (approval.Answer, error){
		"on": func(w *council, c approval.Call, first approval.Answer) (approval.Answer, error) {
			return w.holdOn(c, first, time.Minute)
		},
		"anew": func(w *council, c approval.Call, _ approval.Answer) (approval.Answer, error) {
			return w.gate.CheckWait(w.ctx, c, approval.WaitOptions{For: time.Minute})
		},
		"for its request": func(w *council, c approval.Call, first approval.Answer) (approval.Answer, error) {
			return w.gate.CheckWait(w.ctx, c, approval.WaitOptions{For: time.Minute, Request: first.Request.ID})
		},
	} {
		for _, before := range []bool{true, false} { // it has begun to wait when the edit is made
			w := newCouncil(t, financeTwice, fHana, fKen, fMei)
			c := transfer
			c.AcceptsEdits = true
			first := w.expect(c, approval.AnswerPending)
			type end struct {
				o   approval.Answer
				err error
			}
			done := make(chan end, 1)
			begin := func() {
				go func() {
					o, err := waits(w, c, first)
					done <- end{o, err}
				}()
			}
			if before {
				begin()
			}
			next, err := w.edit(first.Request.ID, "hana", less)
			if err != nil || next.Status != approval.Pending {
				t.Fatal(next.Status, err)
			}
			if !before {
				begin()
			}
			w.approve(next.ID, "ken")
			e := testkit.Receive(t, "the answer", done)
			if e.err != nil || e.o.Kind != approval.AnswerApproved || string(e.o.Args) != less || e.o.Request.ID != next.ID ||
				!strings.HasPrefix(e.o.Note, "hana and ken changed the arguments and approved these: "+less) {
				t.Errorf("%s, %t: %s with %s, %v", name, before, e.o.Message, e.o.Args, e.err)
			}
		}
	}
}

// editTwice has people put other args in the place of a call's, and others in the place of those.
func (w *council) editTwice(c approval.Call) (first approval.Answer, next, last approval.Request) {
	w.t.Helper()
	first = w.expect(c, approval.AnswerPending)
	next, err := w.edit(first.Request.ID, "hana", `{"amount_cents":700,"to":"0xAbC"}`)
	if err != nil {
		w.t.Fatal(err)
	}
	last, err = w.edit(next.ID, "ken", less)
	if err != nil || last.Status != approval.Pending {
		w.t.Fatal(last.Status, err)
	}
	return first, next, last
}

func TestAnEditOfAnEditIsFollowed(t *testing.T) {
	w := newCouncil(t, financeTwice, fHana, fKen, fMei)
	c := transfer
	c.AcceptsEdits = true
	first, _, last := w.editTwice(c)
	if o := w.expect(c, approval.AnswerPending); o.Request.ID != last.ID {
		t.Error("it waits for another one")
	}
	w.approve(last.ID, "mei")
	o, err := w.holdOn(c, first, time.Minute)
	if err != nil || o.Kind != approval.AnswerApproved || string(o.Args) != less {
		t.Errorf("%+v, %v", o, err)
	}
}

// What was approved in a call's place was approved for the tool as it was.
func TestRule3_AnEditIsNotUsedForAToolThatChanged(t *testing.T) {
	for _, changes := range []bool{false, true} {
		w := newCouncil(t, nil, fHana)
		c := transfer
		c.AcceptsEdits, c.Server, c.ToolDigest, c.ToolSeen = true, "files", strings.Repeat("a", 64), true
		id := w.expect(c, approval.AnswerPending).Request.ID
		if _, err := w.edit(id, "hana", less); err != nil {
			t.Fatal(err)
		}
		if !changes {
			w.expect(c, approval.AnswerApproved)
			continue
		}
		c.ToolDigest = strings.Repeat("b", 64)
		o := w.expect(c, approval.AnswerPending)
		if o.Request.ReasonCode != "tool_changed" {
			t.Errorf("%+v", o.Request)
		}
		// An edit of a request about a tool that changed accepts the tool, and can be used.
		if _, err := w.edit(o.Request.ID, "hana", `{"amount_cents":600,"to":"0xAbC"}`); err != nil {
			t.Fatal(err)
		}
		if o := w.expect(c, approval.AnswerApproved); string(o.Args) != `{"amount_cents":600,"to":"0xAbC"}` {
			t.Errorf("%+v", o)
		}
	}
}

// An edit that waits for others longer than its call is remembered is followed all the same.
func TestAnEditIsFollowedHoweverLongItWaits(t *testing.T) {
	for name, wait := range map[string]func(w *council, c approval.Call, first approval.Answer,
		last string) (approval.Answer, error){
		"on": func(w *council, c approval.Call, first approval.Answer, _ string) (approval.Answer, error) {
			return w.holdOn(c, first, time.Minute)
		},
		"for the edit": func(w *council, c approval.Call, _ approval.Answer, last string) (approval.Answer, error) {
			return w.gate.CheckWait(w.ctx, c, approval.WaitOptions{For: time.Minute, Request: last})
		},
	} {
		w := newCouncil(t, financeTwice, fHana, fKen, fMei)
		c := transfer
		c.AcceptsEdits = true
		first, next, last := w.editTwice(c)
		if err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
			return errors.Join(tx.PutRecent(first.Request.Key(), approval.Recent{}), tx.PutRecent(next.Key(), approval.Recent{}))
		}); err != nil {
			t.Fatal(err)
		}
		w.approve(last.ID, "mei")
		o, err := wait(w, c, first, last.ID)
		if err != nil || o.Kind != approval.AnswerApproved || string(o.Args) != less {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}
