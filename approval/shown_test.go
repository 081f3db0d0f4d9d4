package approval_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/internal/lists"
)

// ignoring is a policy that asks about everything, and leaves the memo out of the hash.
func ignoring(approval.Call) approval.Verdict {
	v := longer(approval.GrantTerms{})
	v.IgnoreArgs = []string{"memo"}
	return v
}

func newIgnoring(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.policy(ignoring)
	return w
}

// pays is a call that differs from its like in what is ignored alone.
func pays(memo string) approval.Call { return call(fmt.Sprintf(`{"memo":%q,"n":1}`, memo)) }

func accepting(c approval.Call) approval.Call { c.AcceptsEdits = true; return c }

func (w *world) edits(id string, by approval.Actor, raw string) (approval.Request, error) {
	w.t.Helper()
	a, err := args.Parse([]byte(raw))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: by, Via: approval.ViaAPI, Args: &a})
}

// Whoever runs the stored args is let through with those that were shown; whoever runs its own is told which those are,
// and the approval stays for them.
func TestRule3_AnApprovalLetsThroughOnlyWhatWasShown(t *testing.T) {
	const told = `Not as asked. hana approved these arguments instead: {"memo":"shown","n":1}. Call again with exactly them.`
	for name, ask := range map[string]func(w *world, c approval.Call, first approval.Answer) (approval.Answer, error){
		"asks again": func(w *world, c approval.Call, _ approval.Answer) (approval.Answer, error) {
			return w.gate.Check(w.ctx, c)
		},
		"in a batch": func(w *world, c approval.Call, _ approval.Answer) (approval.Answer, error) {
			as, err := w.gate.CheckBatch(w.ctx, []approval.Call{c, call(`{"n":2}`)})
			if err != nil {
				return approval.Answer{}, err
			}
			return as[0], nil
		},
		"waits": func(w *world, c approval.Call, first approval.Answer) (approval.Answer, error) {
			return w.holdOn(c, first, time.Minute)
		},
		"waits for the request": func(w *world, c approval.Call, first approval.Answer) (approval.Answer, error) {
			return w.gate.CheckWait(w.ctx, c, approval.WaitOptions{For: time.Minute, Request: first.Request.ID})
		},
	} {
		w := newIgnoring(t)
		first := w.expect(pays("shown"), approval.AnswerPending)
		w.expect(pays("other"), approval.AnswerPending)
		w.mustDecide(first.Request.ID, true, hana, "")
		for _, other := range []approval.Call{pays("other"), call(`{"n":1}`), call(`{"memo":["shown"],"n":1}`)} {
			o, err := ask(w, other, first)
			if err != nil || o.Kind != approval.AnswerDenied || o.Message != told || o.ReasonCode != "edited" ||
				o.Request.ID != first.Request.ID {
				t.Errorf("%s: %+v, %v", name, o, err)
			}
		}
		if n := w.count("call_denied:deny:edited"); n != 3 {
			t.Errorf("%s: %d are on record", name, n)
		}
		o, err := ask(w, accepting(pays("other")), first)
		if err != nil || o.Kind != approval.AnswerApproved || string(o.Request.Args) != `{"memo":"shown","n":1}` {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

func TestRule3_TheCallThatWasShownIsLetThroughAfterAnotherThatJoined(t *testing.T) {
	w := newIgnoring(t)
	first := w.expect(pays("shown"), approval.AnswerPending)
	w.expect(pays("other"), approval.AnswerPending)
	w.mustDecide(first.Request.ID, true, hana, "")
	w.expect(pays("other"), approval.AnswerDenied)
	w.expect(pays("shown"), approval.AnswerApproved)
	w.expect(pays("shown"), approval.AnswerPending)
}

// What a person writes in place of an ignored arg is what runs, as any edit is.
func TestRule3_AnEditOfWhatIsIgnoredIsAnEdit(t *testing.T) {
	for name, edit := range map[string]string{
		"changed": `{"memo":"safe","n":1}`, "left out": `{"n":1}`, "of another kind": `{"memo":{"a":1},"n":1}`,
	} {
		w := newIgnoring(t)
		first := w.expect(pays("drop prod"), approval.AnswerPending)
		n, err := w.edits(first.Request.ID, hana, edit)
		if err != nil || n.Status != approval.Approved || n.Replaces != first.Request.ID || string(n.Args) != edit {
			t.Fatalf("%s: %+v, %v", name, n, err)
		}
		if was := w.request(first.Request.ID); was.Status != approval.Denied || was.EndCode != "edited" ||
			was.ReplacedBy != n.ID {
			t.Errorf("%s: it is %s, %s", name, was.Status, was.EndCode)
		}
		want := "Not as asked. hana approved these arguments instead: " + edit + ". Call again with exactly them."
		if o := w.expect(pays("drop prod"), approval.AnswerDenied); o.Message != want {
			t.Errorf("%s: %s", name, o.Message)
		}
		o, err := w.holdOn(pays("drop prod"), first, time.Minute)
		if err != nil || o.Message != want {
			t.Errorf("%s: who waited is told %s, %v", name, o.Message, err)
		}
		o, err = w.holdOn(accepting(pays("drop prod")), first, time.Minute)
		if err != nil || o.Kind != approval.AnswerApproved || string(o.Args) != edit || !strings.Contains(o.Note,
			"hana changed") {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		w.expect(accepting(pays("drop prod")), approval.AnswerPending) // once
	}
}

func TestRule3_WhoAsksForAnEditOfWhatIsIgnoredIsLetThrough(t *testing.T) {
	w := newIgnoring(t)
	first := w.expect(pays("drop prod"), approval.AnswerPending)
	joined := w.expect(pays("safe"), approval.AnswerPending)
	if _, err := w.edits(first.Request.ID, hana, `{"memo":"safe","n":1}`); err != nil {
		t.Fatal(err)
	}
	o, err := w.holdOn(pays("safe"), joined, time.Minute)
	if err != nil || o.Kind != approval.AnswerApproved || o.Args != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// Where others must agree to an edit of what is ignored, they are asked about what was edited.
func TestRule3_AnEditOfWhatIsIgnoredNeedsWhatTheCallNeeds(t *testing.T) {
	w := newCouncil(t, financeTwice, fHana, fKen, fMei)
	w.policy(func(approval.Call) approval.Verdict {
		v := ignoring(approval.Call{})
		v.Need = financeTwice
		return v
	})
	id := w.expect(pays("drop prod"), approval.AnswerPending).Request.ID
	w.approve(id, "mei")
	n, err := w.edit(id, "hana", `{"memo":"safe","n":1}`)
	if err != nil || n.ID == id || n.Status != approval.Pending || len(n.Votes) != 1 {
		t.Fatalf("%+v, %v", n, err)
	}
	if o := w.expect(accepting(pays("drop prod")), approval.AnswerPending); o.Request.ID != n.ID {
		t.Error("it waits for another one")
	}
	w.approve(n.ID, "ken")
	if o := w.expect(accepting(pays("drop prod")), approval.AnswerApproved); string(o.Args) != `{"memo":"safe","n":1}` {
		t.Errorf("%s runs", o.Args)
	}
}

// A request that differs from an edit in what is ignored, and lives, does not take the edit's place.
func TestRule3_AnEditLandsOnNothingThatItsEditorDidNotSee(t *testing.T) {
	for _, approved := range []bool{false, true} {
		w := newIgnoring(t)
		id := w.expect(call(`{"memo":"x","n":2}`), approval.AnswerPending).Request.ID
		lies := w.expect(pays("drop prod"), approval.AnswerPending).Request.ID
		if approved {
			w.mustDecide(lies, true, ken, "")
		}
		_, err := w.edits(id, hana, `{"memo":"safe","n":1}`)
		wantCode(t, err, approval.CodeInvalidArgs)
		if !strings.Contains(err.Error(), approval.Short(lies)) {
			t.Error(err)
		}
		if r := w.request(id); r.Status != approval.Pending {
			t.Errorf("it is %s", r.Status)
		}
		if r := w.request(lies); approved != (r.Status == approval.Approved) || r.ResolvedBy == "hana" {
			t.Errorf("the other is %s by %s", r.Status, r.ResolvedBy)
		}
		if _, err := w.gate.Cancel(w.ctx, approval.Cancellation{RequestID: lies, By: hana,
			Via: approval.ViaAPI}); err != nil {
			t.Fatal(err)
		}
		if n, err := w.edits(id, hana, `{"memo":"safe","n":1}`); err != nil || string(n.Args) != `{"memo":"safe","n":1}` {
			t.Errorf("%s, %v", n.Args, err)
		}
	}
}

func TestRule3_AGrantCoversIgnoredArgsAsTheyWereShown(t *testing.T) {
	w := newIgnoring(t)
	g := w.granted(pays("rent"), approval.GrantWish{For: time.Hour})
	w.expect(pays("rent"), approval.AnswerAllow)
	for _, other := range []approval.Call{pays("to mallory"), call(`{"n":1}`), call(`{"memo":null,"n":1}`)} {
		for _, c := range []approval.Call{other, accepting(other)} {
			w.expect(c, approval.AnswerPending)
		}
	}
	waits := w.expect(pays("to mallory"), approval.AnswerPending).Request.ID
	w.expect(pays("rent"), approval.AnswerAllow)
	if r := w.request(waits); r.Status != approval.Pending {
		t.Errorf("a call that the grant does not cover is %s", r.Status)
	}
	if g = w.grant(g.ID); g.Used != 2 || !g.EndedAt.IsZero() {
		t.Errorf("%+v", g)
	}
	// One of a call without the arg covers none that has it.
	w = newIgnoring(t)
	w.granted(call(`{"n":1}`), approval.GrantWish{For: time.Hour})
	w.expect(pays("to mallory"), approval.AnswerPending)
	w.expect(call(`{"n":1}`), approval.AnswerAllow)
}

func TestRule3_IgnoredArgsVaryUnderAGrantWhereTheRuleSaysSo(t *testing.T) {
	for _, may := range []bool{false, true} {
		w := newWorld(t)
		terms := approval.GrantTerms{Vary: map[string]approval.Vary{"n": {AtMost: "5"}}}
		if may {
			terms.Vary["memo"] = approval.Vary{Any: true}
		}
		w.policy(func(c approval.Call) approval.Verdict {
			v := ignoring(c)
			v.Grants = &terms
			return v
		})
		w.granted(pays("rent"), approval.GrantWish{For: time.Hour})
		w.expect(call(`{"memo":"rent","n":2}`), approval.AnswerAllow)
		want := approval.AnswerPending
		if may {
			want = approval.AnswerAllow
		}
		w.expect(call(`{"memo":"other","n":3}`), want)
	}
}

// Whatever is asked, edited, approved, granted and waited for, in whatever order: what runs is, to the byte, what a
// person saw when they said yes to it.
func TestRule3_PropertyWhatRunsIsWhatWasShown(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newIgnoring(t)
		defer w.db.Close()
		shown := map[string]string{} // by the id of a request, the args that a person approved
		var waiting []approval.Answer
		calls := rapid.Custom(func(t *rapid.T) approval.Call {
			memo := rapid.SampledFrom([]string{`,"memo":"a"`, `,"memo":"b"`, ""}).Draw(t, "memo")
			c := call(fmt.Sprintf(`{"n":%d%s}`, rapid.IntRange(1, 2).Draw(t, "n"), memo))
			c.AcceptsEdits = rapid.Bool().Draw(t, "accepts")
			return c
		})
		look := func(rt *rapid.T, c approval.Call, o approval.Answer, err error) {
			if err != nil {
				rt.Fatal(err)
			}
			runs, of := string(c.Args.Canonical()), ""
			switch o.Kind {
			case approval.AnswerPending:
				waiting = append(waiting, o)
				return
			case approval.AnswerAllow:
				of = o.Grant.RequestID
			case approval.AnswerApproved:
				if of = o.Request.ID; c.AcceptsEdits {
					runs = string(o.Request.Args)
				}
				if o.Args != nil && string(o.Args) != string(o.Request.Args) {
					rt.Fatalf("it is told to run %s of %s", o.Args, o.Request.Args)
				}
			default:
				return
			}
			if shown[of] != runs {
				rt.Fatalf("%s runs, and %s was approved", runs, shown[of])
			}
		}
		pending := func(rt *rapid.T) approval.Request {
			rs, err := lists.ListRequests(w.ctx, w.gate, approval.RequestQuery{Status: approval.Pending, Limit: 10})
			if err != nil || len(rs) == 0 {
				rt.Skip()
			}
			return rapid.SampledFrom(rs).Draw(rt, "request")
		}
		check := func(rt *rapid.T) {
			c := calls.Draw(rt, "call")
			o, err := w.gate.Check(w.ctx, c)
			look(rt, c, o, err)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"check": check, "again": check, "once more": check,
			"wait": func(rt *rapid.T) {
				if len(waiting) == 0 {
					rt.Skip()
				}
				first, c := rapid.SampledFrom(waiting).Draw(rt, "first"), calls.Draw(rt, "call")
				if r := w.request(first.Request.ID); r.Status == approval.Pending || r.ReplacedBy != "" &&
					w.request(r.ReplacedBy).Status == approval.Pending {
					rt.Skip() // it would wait
				}
				o, err := w.gate.CheckWait(w.ctx, c, approval.WaitOptions{For: time.Hour, Request: first.Request.ID})
				if approval.CodeOf(err) == approval.CodeInvalidParameter {
					rt.Skip() // the request is of another call
				}
				look(rt, c, o, err)
			},
			"decide": func(rt *rapid.T) {
				r := pending(rt)
				d := approval.Decision{RequestID: r.ID, Approve: rapid.IntRange(0, 4).Draw(rt, "yes") > 0, By: hana,
					Via: approval.ViaAPI}
				if d.Approve && rapid.IntRange(0, 2).Draw(rt, "grant") == 0 {
					d.Grant = &approval.GrantWish{Uses: 2}
				}
				if _, err := w.gate.Decide(w.ctx, d); err != nil && approval.CodeOf(err) != approval.CodeGrantRefused {
					rt.Fatal(err)
				} else if err == nil && d.Approve {
					shown[r.ID] = string(r.Args)
				}
			},
			"edit": func(rt *rapid.T) {
				r, c := pending(rt), calls.Draw(rt, "edit")
				n, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: r.ID, Approve: true, By: ken, Via: approval.ViaAPI,
					Args: &c.Args})
				if approval.CodeOf(err) == approval.CodeInvalidArgs {
					return
				}
				if err != nil || string(n.Args) != string(c.Args.Canonical()) {
					rt.Fatalf("%s was edited to %s, and is %s, %v", r.Args, c.Args.Canonical(), n.Args, err)
				}
				shown[n.ID] = string(c.Args.Canonical())
			},
			"time": func(*rapid.T) { w.clock.advance(4 * time.Minute) },
		})
	})
}
