package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"sync/atomic"

	"countersign/approval/correlation"
	"countersign/approval/legible"
	"countersign/approval/redact"
)

// AuditLog writes audit events, without the secrets that people's and agents' own words may hold. It is safe for
// concurrent use.
type AuditLog struct{ masker atomic.Pointer[redact.Masker] }

// NewAuditLog returns an audit log of events in which m's secrets are masked.
func NewAuditLog(m *redact.Masker) *AuditLog {
	l := new(AuditLog)
	l.setMasker(m)
	return l
}

func (l *AuditLog) setMasker(m *redact.Masker) { l.masker.Store(m.ForLogs()) }

// Append writes an event in the transaction of what it reports. It is correlated with what ctx says, unless it says
// itself with what.
func (l *AuditLog) Append(ctx context.Context, tx Tx, e Event) error {
	_, err := tx.Append(l.prepare(ctx, e))
	return err
}

// prepare is an event as it is written.
func (l *AuditLog) prepare(ctx context.Context, e Event) Event {
	if e.CorrelationID == "" {
		e.CorrelationID = correlation.Of(ctx)
	}
	if e.CorrelationID == "" {
		e.CorrelationID = e.ApprovalID // time and the outbox act for the request itself
	} else if !isMadeID(e.CorrelationID) { // whoever calls has chosen it
		e.CorrelationID = l.masker.Load().Line(e.CorrelationID)
	}
	if e.Reason != "" {
		e.Reason, _ = l.masker.Load().Text(e.Reason) // a person's or an agent's own words
		e.Reason = legible.Lines(e.Reason)
	}
	e.Data = correlation.Stamp(ctx, e.Data)
	return e
}

// isMadeID reports whether id reads as one of the gate's own: a ULID or [rand.Text], which are no secrets though
// one in some hundred thousand looks like a cloud's key.
func isMadeID(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(id) == 26
}

func (w *Work) audit(e Event) error { return w.g.records.Append(w.ctx, w.tx, e) }

// auditFor is audit for what happens to a request by somebody's word: it is correlated with the call that made the
// request, and has what brought the word as its cause.
func (w *Work) auditFor(r *Request, e Event) error {
	e.CorrelationID = cmp.Or(r.CorrelationID, r.ID)
	return w.audit(e)
}

// auditEnd is auditFor for the end of a request that no vote brought, of which the narrow part alone was read: it has
// on record what a decision has. The steps that end many are bounded by what their rows take.
func (w *Work) auditEnd(e Event, fields map[string]any) error {
	r, err := w.tx.Request(e.ApprovalID)
	if err != nil {
		return err
	}
	e.Data = w.g.records.decisionData(w.ctx, &r, fields)
	return w.auditFor(&r, e)
}

// auditArgs is the start of masked args, as audit events have it.
func (l *AuditLog) auditArgs(canonical []byte) string {
	return l.masker.Load().ArgsLimited(canonical, maxAuditArgs)
}

// maxNamed is how much of a name goes on record that somebody typed: those that there are have no more.
const maxNamed = 512

// cutName is a name that somebody typed, as audit events have it: there may be nobody of that name.
func (l *AuditLog) cutName(name string) string {
	return legible.Cut(l.masker.Load().Line(name), maxNamed)
}

// decisionData is what the events of a vote, of a decision and of every other end hold, beside some fields of their
// own; those that are empty are left out.
func (l *AuditLog) decisionData(ctx context.Context, r *Request, fields map[string]any) []byte {
	for name, v := range fields {
		if v == "" {
			delete(fields, name)
		}
	}
	fields["args"], fields["args_hash"] = l.auditArgs(r.Args), r.ArgsHash
	if cause := correlation.Of(ctx); cause != "" && cause != r.CorrelationID {
		fields["cause"] = l.masker.Load().Line(cause)
	}
	return marshal(fields)
}

// voteEvent tells of a vote that was not the last.
func (l *AuditLog) voteEvent(ctx context.Context, r *Request, v Vote, t *tally) Event {
	e := requestEvent(*r, EventVote)
	e.Actor, e.Decision, e.Reason = v.Person, "approve", v.Reason
	e.Data = l.decisionData(ctx, r, map[string]any{"via": string(v.Via), "for": v.For, "stage": v.Stage,
		"step_up": v.StepUpWord(), "counts": len(t.votes), "needed": r.Need.Total()})
	return e
}

// maxAuditArgs is how much of an allowed or denied call's args its audit event keeps, in bytes.
const maxAuditArgs = 1024

// callData is what the record of a call holds: JSON, drawn up by hand since every call has it.
func (l *AuditLog) callData(j judged) []byte {
	m := l.masker.Load()
	masked := m.ArgsLimited(j.call.Args.Canonical(), maxAuditArgs)
	b := append(make([]byte, 0, 256+len(masked)+len(masked)/8), `{"args":`...)
	b = append(appendQuoted(b, masked), `,"args_hash":`...)
	b = append(appendQuoted(b, j.key.ArgsHash), `,"rule":`...)
	b = append(appendQuoted(b, j.verdict.Rule), `,"reason_code":`...)
	b = appendQuoted(b, j.verdict.ReasonCode)
	var observed Action
	if j.verdict.Observe {
		observed = j.verdict.Action
	}
	for _, f := range [...]struct{ name, value string }{
		{`,"method":`, j.call.Method}, {`,"scope":`, m.Line(j.call.Scope)}, {`,"read_for":`, j.call.ReadFor},
		{`,"session_id":`, m.Line(j.call.SessionID)},
		{`,"turn_id":`, m.Line(j.call.TurnID)}, {`,"observed":`, string(observed)},
	} {
		if f.value != "" {
			b = appendQuoted(append(b, f.name...), f.value)
		}
	}
	return append(b, '}')
}

// appendQuoted appends s as [json.Marshal] writes it.
func appendQuoted(b []byte, s string) []byte {
	before := len(b)
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(append(b, s[from:i]...), '\\')
			from = i
		case c < ' ' || c >= 0x7f || c == '<' || c == '>' || c == '&':
			return append(b[:before], marshal(s)...)
		}
	}
	return append(append(b, s[from:]...), '"')
}

// EventData is the data of an audit event.
func EventData(fields any) []byte { return marshal(fields) }

// marshal encodes what cannot fail to encode: strings, times and maps of them.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("approval: " + err.Error())
	}
	return b
}
