// Package proof is what shows that a person has just used their passkey for one request. It proves nothing itself, and
// knows no passkeys: there is no way to a proof but by whoever has the prover.
package proof

import "time"

// Prover makes the proofs that one gate takes. Whoever has it decides what a person has proven, so only the package
// that checks passkeys does.
type Prover struct{ _ byte } // not of size zero: each has an address of its own

// NewProver returns a prover.
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
	// Version is the request's as the person has seen it.
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

// Read returns what a proof of this prover is of; false for another's.
func (by *Prover) Read(p *Proof) (Proven, bool) {
	if p == nil || p.by == nil || p.by != by {
		return Proven{}, false
	}
	return p.of, true
}

// Credential names the passkey of a proof, for the audit log.
func (p *Proof) Credential() string { return p.of.Credential }
