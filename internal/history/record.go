package history

import (
	"encoding/json"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/args"
)

// Was is what became of a call that is on record.
type Was string

// A rule allowed or refused it; or people were asked, and this is how that stands.
const (
	WasAllowed   Was = "allowed"
	WasRefused   Was = "refused"
	WasApproved  Was = "approved"
	WasDenied    Was = "denied"
	WasExpired   Was = "expired"
	WasCancelled Was = "cancelled"
	WasPending   Was = "pending"
	WasGranted   Was = "granted" // a grant let it through: a person had said so
)

// action is what the policy of then did.
func (w Was) action() Now {
	switch w {
	case WasAllowed:
		return NowAllow
	case WasRefused:
		return NowDeny
	}
	return NowAsk
}

// Record is a call that is on record.
type Record struct {
	ID    string // of its request, else of its audit event
	At    time.Time
	Agent string
	Scope string
	// Server and Tool are what was called; Session asked for it.
	Server, Tool, Session string
	Method                string // the MCP method of a call that is none of a tool
	Args                  []byte // JSON, whole; nil: too little is on record to judge it
	Was                   Was
	By, Reason            string // who decided, and why
	Rule                  string // that decided then
	Risk                  approval.Risk
	Card                  string // that it stood on with others, "" for none
	Needs                 bool   // it took more than any one approver
	Unknown               bool   // no rule was for its tool
}

// Target names the tool as people write it: tool, or server/tool.
func (r Record) Target() string {
	if r.Server == "" {
		return r.Tool
	}
	return r.Server + "/" + r.Tool
}

// mark is how what stands in a secret's place begins, cut what ends a text that was cut, and hidden stands for a
// character that was not shown as it is: in a text without them nothing was changed.
const mark, cut, hidden = "••••", "…", "⟨"

// OfEvent returns the call that an audit event tells of, which a rule allowed or denied, or a grant let through; false
// where it was neither.
// The event keeps the start of the masked args: they are whole, and as they were, where their hash is the call's.
func OfEvent(e approval.Event) (Record, bool) {
	var d struct {
		Args       string `json:"args"`
		ArgsHash   string `json:"args_hash"`
		Rule       string `json:"rule"`
		ReasonCode string `json:"reason_code"`
		Scope      string `json:"scope"`
		Session    string `json:"session_id"`
		Method     string `json:"method"`
	}
	if json.Unmarshal(e.Data, &d) != nil || d.ReasonCode == approval.EndFrozen {
		return Record{}, false
	}
	r := Record{ID: e.ID, At: e.At, Agent: e.Agent, Tool: e.Tool, Method: d.Method, Scope: d.Scope, Session: d.Session,
		Rule: d.Rule,
		Risk: e.Risk}
	if server, tool, ok := strings.Cut(e.Tool, "/"); ok {
		r.Server, r.Tool = server, tool
	}
	switch e.Type {
	case approval.EventCallAllowed:
		r.Was = WasAllowed
	case approval.EventCallDenied:
		r.Was = WasRefused
	case approval.EventGrantUsed:
		r.Was = WasGranted
	default:
		return Record{}, false
	}
	if a, err := args.Parse([]byte(d.Args)); err == nil && a.Hash() == d.ArgsHash && asItWas(d.Scope) &&
		asItWas(d.Session) {
		r.Args = a.Canonical()
	}
	return r, true
}

func asItWas(text string) bool {
	return !strings.Contains(text, mark) && !strings.Contains(text, cut) && !strings.Contains(text, hidden)
}
