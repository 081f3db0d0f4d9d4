package approval

import (
	"unicode"

	"countersign/approval/legible"
)

// Expire ends requests that are due, as many as one transaction should.
func (w *Work) Expire() error {
	_, err := w.endSome()
	return err
}

// Decide takes a decision. A refusal is on record and commits, an error does not; the request is as it stands then,
// with the store's times.
func (w *Work) Decide(d Decision) (Request, *Error, error) {
	res, err := w.decide(d)
	return res.is, res.refusal, err
}

// Explain gives a denial of by's that has none its reason. false: it is not theirs, or has one.
func (w *Work) Explain(r Request, by Actor, via Via, reason string) (bool, error) {
	ok, err := w.tx.AddReason(r.ID, by.Name, reason)
	if err != nil || !ok {
		return false, err
	}
	e := requestEvent(r, EventReasonAdded)
	e.Actor, e.Decision, e.Reason = by.String(), "deny", reason
	e.Data = marshal(map[string]any{"via": via})
	if err := w.audit(e); err != nil {
		return false, err
	}
	return true, w.g.notifier.Ended(w.tx, r) // cards that can be edited say why
}

// Blank reports whether a reason says nothing that can be seen.
func Blank(reason string) bool {
	for _, r := range reason {
		if s := string(r); !unicode.IsSpace(r) && legible.Line(s) == s && r != '\u2800' {
			return false
		}
	}
	return true
}
