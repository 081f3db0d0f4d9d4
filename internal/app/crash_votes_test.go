package app_test

import (
	"database/sql"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"countersign/client"
)

// quiet waits until everything that people were to be sent was sent: it is not what a child is to die of.
func (w *world) quiet() {
	w.t.Helper()
	w.eventually("all is sent", func() bool {
		for _, status := range []string{"queued", "retrying"} {
			if len(w.notifications(client.NotificationQuery{Status: status})) != 0 {
				return false
			}
		}
		return true
	})
}

// killed waits for the end of a child that was to die.
func killed(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child was not killed: %v", err)
	}
}

// stored returns the status of each request in the file, while no program has it open.
func (w *world) stored() map[string]string {
	w.t.Helper()
	db, err := sql.Open("sqlite", w.env["STORE"])
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT id, status FROM approval_requests`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var id, status string
		if err := rows.Scan(&id, &status); err != nil {
			w.t.Fatal(err)
		}
		found[id] = status
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return found
}

func voters(votes []client.Vote) (names []string) {
	for _, v := range votes {
		names = append(names, v.Person)
	}
	return names
}

const twoYes = "    - {name: two, tools: [pay_out], risk: high, approvals: [{count: 2}]}\n    - name: transfers\n"

// TestRule5_KilledWhileVoting kills the program around the commit of a vote, the first of two and the last: a vote that
// was committed counts once although nobody was told so, one that was not can be given again, and it takes both.
func TestRule5_KilledWhileVoting(t *testing.T) {
	t.Parallel()
	call := client.Call{Tool: "pay_out", Args: []byte(`{"to":"acme"}`), SessionID: "s1"}
	for _, c := range []struct {
		point string
		first bool // the vote that nobody is told of
		kept  bool
	}{
		{"before-commit", true, false},
		{"after-commit?SELECT 1 FROM approval_votes WHERE person = 'hana'", true, true},
		{"before-commit", false, false},
		{"after-commit?SELECT 1 FROM approval_votes WHERE person = 'ken'", false, true},
	} {
		point, _, _ := strings.Cut(c.point, "?")
		name := map[bool]string{true: "first vote, ", false: "last vote, "}[c.first] + point
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, replacing("    - name: transfers\n", twoYes))
			id := w.expect(call, client.AnswerPending).ApprovalID
			w.lineCard(id, 1)
			voter, person := "HANA_TOKEN", "hana"
			if !c.first {
				if d, err := w.hana.Decide(w.ctx, id, client.Approve, ""); err != nil || d.Status != "pending" {
					t.Fatalf("the first vote: %+v, %v", d, err)
				}
				voter, person = "KEN_TOKEN", "ken"
			}
			w.quiet()
			w.stop()
			cmd, who := w.childOf(c.point, voter)
			if d, err := who.Decide(w.ctx, id, client.Approve, "Fine."); err == nil {
				t.Fatalf("the child answered %+v", d)
			}
			killed(t, cmd)

			w.start()
			a, err := w.hana.Approval(w.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(voters(a.Votes), person); got != c.kept {
				t.Fatalf("the votes are %v, want %s among them: %v", voters(a.Votes), person, c.kept)
			}
			if decided := c.kept && !c.first; (a.Status == "approved") != decided {
				t.Fatalf("the request is %s, want it approved: %v", a.Status, decided)
			}
			if a.Status == "pending" {
				w.expect(call, client.AnswerPending) // one yes is not enough, whoever heard of it
			}
			_, err = w.client(voter).Decide(w.ctx, id, client.Approve, "Fine.")
			if e, _ := errors.AsType[*client.Error](err); (e != nil) != c.kept {
				t.Errorf("the same vote once more: %v", err)
			}
			if c.first {
				if d, err := w.client("KEN_TOKEN").Decide(w.ctx, id, client.Approve, ""); err != nil || d.Status != "approved" {
					t.Fatalf("the other vote: %+v, %v", d, err)
				}
			}
			w.expect(call, client.AnswerApproved)
			if again := w.expect(call, client.AnswerPending); again.ApprovalID == id {
				t.Error("the approval lets a second call through")
			}
			if votes, decisions := len(w.audit("hitl_vote")), len(w.audit("hitl_decision")); votes != 1 || decisions != 1 {
				t.Errorf("%d votes and %d decisions on record, want one each", votes, decisions)
			}
		})
	}
}

// TestRule7_KilledWhileFreezing kills the program around the commit of a freeze, and around the one that ends the rows
// of what it ended: what was committed holds from the first moment of the next start on, whatever the rows say.
func TestRule7_KilledWhileFreezing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		point        string
		frozen, rows bool
	}{
		{"before-commit", false, false},
		{"after-commit?SELECT 1 FROM epochs", true, false},
		// Whoever meets a row first ends it, so that the two may not be ended in one commit.
		{"after-commit?SELECT 1 WHERE (SELECT COUNT(*) FROM approval_requests WHERE status = 'cancelled') = 2", true, true},
	} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			waits := w.expect(transfer(4000), client.AnswerPending).ApprovalID
			unused := w.expect(transfer(4001), client.AnswerPending).ApprovalID
			other := w.client("OTHER_TOKEN")
			apart, err := other.Call(w.ctx, transfer(4000))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.hana.Decide(w.ctx, unused, client.Approve, ""); err != nil {
				t.Fatal(err)
			}
			w.quiet()
			w.stop()
			cmd, hana := w.childOf(c.point, "HANA_TOKEN")
			_, freezeErr := hana.Freeze(w.ctx, "bot", "it pays twice")
			if freezeErr == nil && !c.frozen {
				t.Fatal("the child answered")
			}
			killed(t, cmd)
			want := map[string]string{waits: "pending", unused: "approved", apart.ApprovalID: "pending"}
			if c.rows {
				want[waits], want[unused] = "cancelled", "cancelled"
			}
			for id, status := range w.stored() {
				// Whoever meets a row right behind the freeze ends it in the same commit.
				if status != want[id] && !(c.frozen && id != apart.ApprovalID && status == "cancelled") {
					t.Errorf("in the file %s is %s, want %s", id, status, want[id])
				}
			}

			w.start()
			if !c.frozen {
				w.expect(transfer(4001), client.AnswerApproved)
				return
			}
			for cents, id := range map[int]string{4000: waits, 4001: unused} {
				a := w.expect(transfer(cents), client.AnswerDenied)
				if a.ReasonCode != "frozen" || !strings.Contains(a.Message, "Frozen by hana: it pays twice") {
					t.Errorf("the call was denied: %s, %s", a.ReasonCode, a.Message)
				}
				if _, err := w.hana.Decide(w.ctx, id, client.Approve, ""); err == nil {
					t.Errorf("%s was approved after the freeze", id)
				}
				w.eventually("the row is ended", func() bool { return w.status(id).Status == "cancelled" })
				if r := w.status(id); r.ResolvedBy != "hana" || r.ReasonCode != "frozen" {
					t.Errorf("%s was ended by %s, %s", id, r.ResolvedBy, r.ReasonCode)
				}
			}
			if r, err := w.hana.Approval(w.ctx, apart.ApprovalID); err != nil || r.Status != "pending" {
				t.Errorf("another agent's request: %s, %v", r.Status, err)
			}
			if frozen, cancelled := len(w.audit("frozen")), len(w.audit("approval_cancelled")); frozen != 1 || cancelled != 2 {
				t.Errorf("%d freezes and %d ends on record, want 1 and 2", frozen, cancelled)
			}
			if _, err := w.hana.Unfreeze(w.ctx, "bot"); err != nil {
				t.Fatal(err)
			}
			if a := w.expect(transfer(4001), client.AnswerPending); a.ApprovalID == unused {
				t.Error("lifting the freeze revived what it had ended")
			}
		})
	}
}
