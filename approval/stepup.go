package approval

import (
	"time"

	"countersign/approval/need"
	"countersign/approval/proof"
)

// proofHolds is for how long after a passkey was used its proof approves. The page decides in the same breath.
const proofHolds = time.Minute

// PageOf returns the address of a request's page, "" where there is none.
func (g *Gate) PageOf(id string) string {
	if g.page == nil {
		return ""
	}
	return g.page(id)
}

// stepUpMessage tells where a request is approved that takes a passkey.
func (w *Work) stepUpMessage(id string) string {
	const why = "An approval of this needs a passkey. Approve it on its page"
	if page := w.g.PageOf(id); page != "" {
		return why + ": " + page
	}
	return why + "."
}

// isProven reports whether d comes with a proof that its person approves a request, as it was read, with these args.
func (d *Decision) isProven(by *proof.Prover, r *Request, canonical []byte, now time.Time) bool {
	of, ok := by.Read(d.Proof)
	if !ok || d.By.Kind != Human {
		return false
	}
	age := now.Sub(of.At)
	return of.Person == d.By.Name && of.RequestID == r.ID && of.Version == r.Version() && age >= 0 && age < proofHolds &&
		string(of.Args) == string(canonical)
}

// steppedUp says on record what an approval was given with beside a press, and with which; "" for nothing.
func (d *Decision) steppedUp() (with, credential string) {
	if !d.Approve || !d.proven || d.Proof == nil {
		return "", ""
	}
	return need.Passkey, d.Proof.Credential()
}

// StepUpWord is the word for what the vote was given with beside a press: "passkey", or "" for nothing.
func (v Vote) StepUpWord() string {
	if !v.StepUp {
		return ""
	}
	return need.Passkey
}
