package approval_test

import (
	"testing"

	"countersign/approval"
)

// What was seen is what is decided: whatever has changed on a request since, a decision on what it was is none.
func TestRule5_WhatHasChangedSinceItWasSeenIsNotDecided(t *testing.T) {
	steps := map[string]func(t *testing.T, w *council, id string){
		"a vote": func(_ *testing.T, w *council, id string) { w.approve(id, "ken") },
		"more time": func(t *testing.T, w *council, id string) {
			p, _ := w.person("ken")
			if _, err := w.gate.Extend(w.ctx, id, p, approval.ViaAPI); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			w := newCouncil(t, thenSecurity, fHana, fKen, sAbe, nobodys)
			id := w.expect(transfer, approval.AnswerPending).Request.ID
			seen := w.status(id, approval.Pending).Version()
			step(t, w, id)
			decide := func(version string, approve bool) error {
				_, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: approve, By: fHana, Via: approval.ViaWeb,
					Versions: map[string]string{id: version}})
				return err
			}
			for _, approve := range []bool{true, false} {
				for _, version := range []string{seen, "", "another"} {
					wantCode(t, decide(version, approve), approval.CodeChanged)
				}
			}
			_, err := w.gate.DecideMany(w.ctx, []string{id}, approval.Decision{Approve: true, By: fHana, Via: approval.ViaWeb,
				Versions: map[string]string{}})
			if err != nil {
				t.Fatal(err)
			}
			r := w.status(id, approval.Pending)
			wantCode(t, decide(r.Version(), true), "")
		})
	}
}

// Two states that read alike to who decides have one version, whatever the clock says of them.
func TestTheVersionHasNoTimes(t *testing.T) {
	w := newCouncil(t, thenSecurity, fHana, fKen, sAbe)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.approve(id, "ken")
	r := w.status(id, approval.Pending)
	was := r.Version()
	r.ExpiresAt, r.Votes[0].At = r.ExpiresAt.Add(1), r.Votes[0].At.Add(1)
	if r.Version() != was || len(was) != 22 {
		t.Errorf("%q, and with other times %q", was, r.Version())
	}
}
