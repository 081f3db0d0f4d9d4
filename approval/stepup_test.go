package approval_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/proof"
	"countersign/internal/chat"
	"countersign/internal/lists"
)

// stepUp is a council of which hana and ken approve with a passkey, one of them being enough.
type stepUp struct {
	*council
	prover *proof.Prover
}

func newStepUp(t testing.TB, need approval.Need, people ...approval.Actor) *stepUp {
	need.StepUp = true
	w := &stepUp{newCouncil(t, &need, people...), proof.NewProver()}
	w.rewire()
	return w
}

func (w *stepUp) rewire() {
	with := terms
	with.Elicitation = []approval.Risk{approval.RiskHigh}
	w.wire(approval.Options{
		Store: w.store, Broker: w.gate.Broker(), Policy: rules{w.verdict, with}, Logger: w.logger(), Prover: w.prover,
		Directory: names{people: w.person, all: w.everybody, owner: func(string) string { return "" },
			keyboard: func(string) (approval.Actor, bool) { return fHana, true }},
		Page: func(id string) string { return "https://gate.example.com/r/" + id },
	}, bothWays)
}

// proven is what hana proves of a request, as her page has it.
func (w *stepUp) proven(id string) proof.Proven {
	r := w.request(id)
	return proof.Proven{Person: "hana", RequestID: id, Version: r.Version(), Args: r.Args, Credential: "key-1",
		At: w.store.Now()}
}

// stepsUp has hana approve a request with a proof.
func (w *stepUp) stepsUp(id string, p *proof.Proof) error {
	_, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: fHana, Via: approval.ViaWeb,
		Proof: p})
	return err
}

func TestRule5_APasskeyApprovesTheVeryRequestThatItWasUsedFor(t *testing.T) {
	w := newStepUp(t, approval.Need{}, fHana, fKen)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	other := w.expect(call(`{"other":1}`), approval.AnswerPending).Request.ID
	for name, change := range map[string]func(p *proof.Proven){
		"another person's": func(p *proof.Proven) { p.Person = "ken" },
		"nobody's":         func(p *proof.Proven) { p.Person = "" },
		"another request":  func(p *proof.Proven) { p.RequestID = other },
		"no request":       func(p *proof.Proven) { p.RequestID = "" },
		"other args":       func(p *proof.Proven) { p.Args = []byte(`{"other":1}`) },
		"another version":  func(p *proof.Proven) { p.Version += "1" },
		"no version":       func(p *proof.Proven) { p.Version = "" },
		"no args":          func(p *proof.Proven) { p.Args = nil },
		"a minute ago":     func(p *proof.Proven) { p.At = p.At.Add(-time.Minute) },
		"tomorrow":         func(p *proof.Proven) { p.At = p.At.Add(24 * time.Hour) },
		"at no time":       func(p *proof.Proven) { p.At = time.Time{} },
	} {
		p := w.proven(id)
		change(&p)
		if got := approval.CodeOf(w.stepsUp(id, w.prover.Prove(p))); got != approval.CodeStepUpRequired {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, p := range map[string]*proof.Proof{
		"none": nil, "one that nobody made": {}, "another prover's": proof.NewProver().Prove(w.proven(id)),
	} {
		if got := approval.CodeOf(w.stepsUp(id, p)); got != approval.CodeStepUpRequired {
			t.Errorf("%s: %q", name, got)
		}
	}
	w.status(id, approval.Pending)
	wantCode(t, w.stepsUp(id, w.prover.Prove(w.proven(id))), "")
	r := w.status(id, approval.Approved)
	if len(r.Votes) != 1 || !r.Votes[0].StepUp {
		t.Errorf("the votes on record are %+v", r.Votes)
	}
	data := w.data(approval.EventDecision)
	if data["step_up"] != "passkey" || data["passkey"] != "key-1" {
		t.Errorf("the decision on record is %v", data)
	}
	w.expect(transfer, approval.AnswerApproved)
	w.status(other, approval.Pending)
}

func TestRule5_WithoutAProverNothingIsApprovedThatTakesAPasskey(t *testing.T) {
	w := newStepUp(t, approval.Need{}, fHana)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	made := w.prover.Prove(w.proven(id))
	w.prover = nil
	w.rewire()
	if got := approval.CodeOf(w.stepsUp(id, made)); got != approval.CodeStepUpRequired {
		t.Errorf("a gate that takes no proofs: %q", got)
	}
	if got := approval.CodeOf(w.stepsUp(id, w.prover.Prove(w.proven(id)))); got != approval.CodeStepUpRequired {
		t.Errorf("nobody's proof: %q", got)
	}
}

// Every way in but the page: none approves, and each denies.
func TestRule5_NoOtherWayApprovesWhatTakesAPasskey(t *testing.T) {
	const where = "Approve it on its page: https://gate.example.com/r/"
	var text string // that whoever tried was told
	ways := map[string]func(w *stepUp, id string, approve bool) approval.Code{
		"press": func(w *stepUp, id string, approve bool) approval.Code {
			out := w.tap(press(fHana, intents[approve], id))
			text = out.Text
			return out.Code
		},
		"typed": func(w *stepUp, id string, approve bool) approval.Code {
			out := w.tap(inWords(fHana, string(intents[approve])+" "+id))
			text = out.Text
			return out.Code
		},
		"dialog": func(w *stepUp, id string, approve bool) approval.Code {
			submitted := press(fHana, intents[approve], id)
			submitted.Channel, submitted.Told, submitted.AsksWhy, submitted.Reason = "slack", true, false, "checked"
			out := w.tap(submitted)
			text = out.Text
			return out.Code
		},
		"decide": func(w *stepUp, id string, approve bool) approval.Code {
			_, err := w.vote(id, "hana", approve)
			text = textOf(err)
			return approval.CodeOf(err)
		},
		"decide many": func(w *stepUp, id string, approve bool) approval.Code {
			all, err := w.gate.DecideMany(w.ctx, []string{id}, approval.Decision{Approve: approve, By: fHana,
				Via: approval.ViaCLI})
			if err != nil || all[0].Refusal == nil {
				return approval.CodeOf(err)
			}
			text = all[0].Refusal.Message
			return all[0].Refusal.Code
		},
		"confirmed": func(w *stepUp, id string, approve bool) approval.Code {
			_, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: approve, By: fHana, Via: approval.ViaAPI,
				Confirmed: true})
			text = textOf(err)
			return approval.CodeOf(err)
		},
		"keyboard": func(w *stepUp, id string, approve bool) approval.Code {
			_, err := w.gate.DecideAtKeyboard(w.ctx, "bot", approval.Decision{RequestID: id, Approve: approve,
				Proof: w.prover.Prove(w.proven(id))})
			text = textOf(err)
			return approval.CodeOf(err)
		},
		"with a grant": func(w *stepUp, id string, approve bool) approval.Code {
			d := approval.Decision{RequestID: id, Approve: approve, By: fHana, Via: approval.ViaAPI}
			if approve {
				d.Grant = &approval.GrantWish{For: time.Hour}
			}
			_, err := w.gate.Decide(w.ctx, d)
			text = textOf(err)
			return approval.CodeOf(err)
		},
		"edited": func(w *stepUp, id string, approve bool) approval.Code {
			d := approval.Decision{RequestID: id, Approve: approve, By: fHana, Via: approval.ViaAPI}
			if approve {
				d.Args = parsedArgs(w.t, `{"amount_cents":1}`)
			}
			_, err := w.gate.Decide(w.ctx, d)
			text = textOf(err)
			return approval.CodeOf(err)
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := newStepUp(t, approval.Need{}, fHana, fKen)
			id := w.expect(transfer, approval.AnswerPending).Request.ID
			if got := way(w, id, true); got != approval.CodeStepUpRequired || !strings.Contains(text, where+id) &&
				!strings.Contains(text, "https://gate.example.com/r/"+id) {
				t.Errorf("approving is answered %q, %q", got, text)
			}
			w.status(id, approval.Pending)
			if got := way(w, id, false); got != "" {
				t.Errorf("denying is answered %q", got)
			}
			w.status(id, approval.Denied)
		})
	}
}

// data is what the one event of a type has beside its columns.
func (w *stepUp) data(of approval.EventType) map[string]any {
	w.t.Helper()
	es, err := lists.ListEvents(w.ctx, w.gate, approval.EventQuery{Type: of, Limit: 2})
	if err != nil || len(es) != 1 {
		w.t.Fatalf("%d events, %v", len(es), err)
	}
	var data map[string]any
	if err := json.Unmarshal(es[0].Data, &data); err != nil {
		w.t.Fatal(err)
	}
	return data
}

// intents are what is meant by a decision.
var intents = map[bool]chat.Intent{true: chat.IntentApprove, false: chat.IntentDeny}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func parsedArgs(t testing.TB, s string) *args.Args {
	t.Helper()
	a, err := args.Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

func TestApproveAllLeavesOutWhatTakesAPasskey(t *testing.T) {
	w := asking(t, approval.Need{})
	w.policy(func(c approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Need = &approval.Need{StepUp: c.Tool == "wipe"}
		return v
	})
	wipe := call(`{}`)
	wipe.Tool = "wipe"
	outs, err := w.gate.CheckBatch(w.ctx, []approval.Call{transfer, wipe})
	if err != nil {
		t.Fatal(err)
	}
	batch := outs[0].Request.BatchID
	out := w.tap(press(ken, chat.IntentApprove, batch))
	want := "Approved: " + theCall(outs[0].Request.ID) + ". The agent may run it once.\n" +
		"Left out: 1 of 2. Decide them one by one: wipe (needs a passkey)."
	if out.Text != want || len(out.Decided) != 1 || w.request(outs[1].Request.ID).Status != approval.Pending {
		t.Errorf("got %q, %d decided", out.Text, len(out.Decided))
	}
	if out := w.tap(press(ken, chat.IntentDeny, outs[1].Request.ID)); len(out.Decided) != 1 {
		t.Errorf("denying it: %+v", out)
	}
}

// A reason that another request on the card needs is still asked for first, and the passkey's is not asked why.
func TestAReasonIsNotAskedForWhatTakesAPasskey(t *testing.T) {
	w := asking(t, approval.Need{})
	w.policy(func(approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Need, v.RequireReason = &approval.Need{StepUp: true}, true
		return v
	})
	id := w.check(transfer).Request.ID
	asked := w.ask(chat.Interaction{EventID: "slack:1", By: ken, Intent: chat.IntentApprove, RequestID: id})
	if len(asked.Open) != 0 || asked.Code != approval.CodeStepUpRequired {
		t.Errorf("an approval opens a dialog about %d requests, %q", len(asked.Open), asked.Code)
	}
	asked = w.ask(chat.Interaction{EventID: "slack:2", By: ken, Intent: chat.IntentDeny, RequestID: id})
	if len(asked.Open) != 1 {
		t.Errorf("a denial asks about %d requests", len(asked.Open))
	}
}

// What was approved without a passkey does not count once the policy takes one: while it is pending, and at the use.
func TestRule4_APolicyThatTakesAPasskeyTakesVotesWithoutOneBack(t *testing.T) {
	w := newStepUp(t, approval.Need{Stages: []approval.Stage{of("finance", 2)}}, fHana, fKen)
	stricter, plain := w.need, *w.need
	plain.StepUp = false
	w.need = &plain
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.approve(id, "ken")
	w.need = stricter
	wantCode(t, w.stepsUp(id, w.prover.Prove(w.proven(id))), "")
	if r := w.status(id, approval.Pending); r.Need == nil || !r.Need.StepUp {
		t.Fatalf("its need is %+v", r.Need)
	}
	w.refused(id, "ken", approval.CodeStepUpRequired) // and they may vote again
	w.refused(id, "hana", approval.CodeAlreadyVoted)

	w.need = nil
	one := call(`{"n":1}`)
	id = w.expect(one, approval.AnswerPending).Request.ID
	w.approve(id, "ken")
	w.need = &approval.Need{StepUp: true}
	if again := w.expect(one, approval.AnswerPending); again.Request.ID == id {
		t.Error("an approval without a passkey is still there")
	}
	w.status(id, approval.Cancelled)
}

func TestOtherArgsAreApprovedWithAPasskeyForTheseArgs(t *testing.T) {
	w := newStepUp(t, approval.Need{}, fHana, fKen)
	const edited = `{"amount_cents":1}`
	edit := func(id string, p proof.Proven) (approval.Request, error) {
		return w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: fHana, Via: approval.ViaWeb,
			Args: parsedArgs(t, edited), Proof: w.prover.Prove(p)})
	}
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	_, err := edit(id, w.proven(id)) // which is for the args as they were asked for
	wantCode(t, err, approval.CodeStepUpRequired)
	w.status(id, approval.Pending)
	p := w.proven(id)
	p.Args = []byte(edited)
	wantCode(t, w.stepsUp(id, w.prover.Prove(p)), approval.CodeStepUpRequired) // nor the other way round
	r, err := edit(id, p)
	wantCode(t, err, "")
	if r.Status != approval.Approved || r.ID == id || !slices.ContainsFunc(r.Votes, func(v approval.Vote) bool {
		return v.StepUp
	}) {
		t.Errorf("the request of the new args: %s, %+v", r.Status, r.Votes)
	}
}

// Only the new args take a passkey.
func TestArgsThatTakeAPasskeyAreNotEditedInWithoutOne(t *testing.T) {
	w := newStepUp(t, approval.Need{}, fHana)
	takes := w.need
	w.need = nil
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.need = takes
	// The request itself is judged again, as any that waits is, so the refusal is of either.
	_, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: fHana, Via: approval.ViaAPI,
		Args: parsedArgs(t, `{"amount_cents":1}`), Confirmed: true})
	wantCode(t, err, approval.CodeStepUpRequired)
	w.status(id, approval.Pending)
}

func TestAGrantIsNeverMadeOfWhatTakesAPasskey(t *testing.T) {
	w := newStepUp(t, approval.Need{}, fHana)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	_, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: fHana, Via: approval.ViaWeb,
		Proof: w.prover.Prove(w.proven(id)), Grant: &approval.GrantWish{For: time.Hour}})
	wantCode(t, err, approval.CodeGrantRefused)
	w.status(id, approval.Pending)
}
