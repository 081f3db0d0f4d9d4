package approval

import (
	"countersign/approval/need"
)

import "time"

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

// Prover makes the proofs that one gate takes. Whoever has it decides what a person has proven, so only the package
// that checks passkeys does.
type Prover struct{ _ byte } // not of size zero: each has an address of its own

// NewProver returns a prover, for [Options].
func NewProver() *Prover { return new(Prover) }

// Proof shows that somebody has just used their passkey to approve one request with certain args. There is no way to
// one but [Prover.Prove]: no form, no JSON and no button makes it.
type Proof struct {
	by *Prover
	of Proven
}

// Proven is what a person has proven.
type Proven struct {
	Person    string
	RequestID string
	// Version is the request's as the person has seen it ([Request.Version]).
	Version string
	// Args are those that are approved, in canonical form: the request's, or those in place of them.
	Args []byte
	// Credential names the passkey, for the audit log.
	Credential string
	At         time.Time
}

// Prove returns the proof of p, which must have been checked: the passkey is the person's, and signed for this request
// and these args.
func (by *Prover) Prove(p Proven) *Proof { return &Proof{by, p} }

// proves reports whether d comes with a proof that its person approves a request, as it was read, with these args.
func (by *Prover) proves(d *Decision, r *Request, canonical []byte, now time.Time) bool {
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
	return need.Passkey, d.Proof.of.Credential
}

// StepUpWord is the word for what the vote was given with beside a press: "passkey", or "" for nothing.
func (v Vote) StepUpWord() string {
	if !v.StepUp {
		return ""
	}
	return need.Passkey
}

// Read returns what a proof of this prover is of; false for another's.
func (by *Prover) Read(p *Proof) (Proven, bool) {
	if p == nil || p.by == nil || p.by != by {
		return Proven{}, false
	}
	return p.of, true
}
