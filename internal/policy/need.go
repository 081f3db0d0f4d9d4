package policy

import (
	"fmt"
	"slices"
	"strings"

	"countersign/approval"
	"countersign/internal/yamlpos"
)

// Needs is who must say yes, as written on a rule or a level. What a rule leaves out its level says, key by key.
type Needs struct {
	Approvers      []string         // people and groups, one of whom is enough: short for Approvals of one stage
	Approvals      []approval.Stage // met in order; a Count of 0 is 1
	SeparateDuties *bool            // who owns the agent does not count
	Escalate       []approval.Escalation
	Confirm        *bool // an approval is asked for once more
	StepUp         *bool // an approval takes a passkey: written as "passkey", or "none" in place of the level's
}

// What step_up says.
const (
	stepUpPasskey = "passkey"
	stepUpNone    = "none"
)

// maxCount is how many people a stage may take.
const maxCount = 100

// needKeys adds the keys of a need to those of a rule or a level.
func (r *reader) needKeys(n *Needs, keys map[string]func(pair)) {
	keys["approvers"] = func(e pair) { n.Approvers = r.texts(e) }
	keys["approvals"] = func(e pair) {
		r.list(e, "stages", func(item *yamlpos.Node, path string) { n.Approvals = append(n.Approvals, r.stage(item, path)) })
	}
	keys["separate_duties"] = func(e pair) { n.SeparateDuties = r.boolean(e) }
	keys["escalate"] = func(e pair) {
		r.list(e, "escalations", func(item *yamlpos.Node, path string) {
			n.Escalate = append(n.Escalate, r.escalation(item, path))
		})
	}
	keys["confirm"] = func(e pair) { n.Confirm = r.boolean(e) }
	keys["step_up"] = func(e pair) {
		s, ok := r.text(e)
		switch {
		case !ok:
		case s == stepUpPasskey || s == stepUpNone:
			on := s == stepUpPasskey
			n.StepUp = &on
		default:
			r.failAt(e.pos, e.path, "step_up is passkey, or none where a rule needs none though its level does")
		}
	}
}

// list reads a list that is not empty.
func (r *reader) list(e pair, of string, read func(item *yamlpos.Node, path string)) {
	switch {
	case e.value.Kind != yamlpos.List:
		r.failAt(e.pos, e.path, "a list of %s is needed here, not %s", of, describe(e.value))
	case len(e.value.Items) == 0:
		r.failAt(e.pos, e.path, "an empty list has no meaning here; leave %s out", e.key)
	}
	for i, item := range e.value.Items {
		read(item, r.item(e.path, i, item))
	}
}

var stageSynonyms = map[string]string{
	"groups": "group", "of": "group", "from": "group", "role": "group", "team": "group", "approver": "approvers",
	"people": "approvers", "person": "approvers", "names": "approvers", "number": "count", "min": "count", "n": "count",
	"required": "count", "quorum": "count",
}

func (r *reader) stage(n *yamlpos.Node, path string) approval.Stage {
	var s approval.Stage
	r.mapping(n, path, map[string]func(pair){
		"group":     func(e pair) { s.Group, _ = r.text(e) },
		"approvers": func(e pair) { s.Approvers = r.texts(e) },
		"count": func(e pair) {
			if i, ok := e.value.Whole(); ok && i >= 1 && i <= maxCount {
				s.Count = int(i)
				return
			}
			r.failAt(e.pos, e.path, "count (how many people must approve) must be a whole number from 1 to %d", maxCount)
		},
	}, stageSynonyms)
	return s
}

var escalationSynonyms = map[string]string{
	"in": "after", "delay": "after", "timeout": "after", "people": "to", "groups": "to", "group": "to",
	"approvers": "to",
}

func (r *reader) escalation(n *yamlpos.Node, path string) approval.Escalation {
	var x approval.Escalation
	before := len(r.problems)
	r.mapping(n, path, map[string]func(pair){
		"after": func(e pair) { r.timeout(e, &x.After) },
		"to":    func(e pair) { x.To = r.texts(e) },
	}, escalationSynonyms)
	switch {
	case len(r.problems) > before:
	case x.After == 0:
		r.failAt(r.at[path], path, "an escalation needs after, such as after: 10m")
	case x.To == nil:
		r.failAt(r.at[path], path, "an escalation needs to, the people who may then decide too, such as to: [leads]")
	}
	return x
}

// over returns what holds for a rule at a level.
func (n Needs) over(l Needs) Needs {
	if n.Approvers == nil && n.Approvals == nil {
		n.Approvers, n.Approvals = l.Approvers, l.Approvals
	}
	if n.SeparateDuties == nil {
		n.SeparateDuties = l.SeparateDuties
	}
	if n.Escalate == nil {
		n.Escalate = l.Escalate
	}
	if n.Confirm == nil {
		n.Confirm = l.Confirm
	}
	if n.StepUp == nil {
		n.StepUp = l.StepUp
	}
	return n
}

// need returns what is written as a need, nil where it is one person, any approver, asked once.
func (n Needs) need() *approval.Need {
	need := &approval.Need{Stages: n.stages(), SeparateDuties: deref(n.SeparateDuties), Confirm: deref(n.Confirm),
		StepUp: deref(n.StepUp)}
	for _, e := range n.Escalate {
		need.Escalate = append(need.Escalate, approval.Escalation{After: e.After, To: slices.Clone(e.To)})
	}
	if len(need.Stages) == 1 && need.Total() == 1 && need.Stages[0].Group == "" && need.Stages[0].Approvers == nil {
		need.Stages = nil // which says the same
	}
	if need.IsZero() {
		return nil
	}
	return need
}

func (n Needs) stages() []approval.Stage {
	if n.Approvers != nil {
		return []approval.Stage{{Approvers: slices.Clone(n.Approvers), Count: 1}}
	}
	var stages []approval.Stage
	for _, s := range n.Approvals {
		stages = append(stages, approval.Stage{Group: s.Group, Approvers: slices.Clone(s.Approvers), Count: max(1, s.Count)})
	}
	return stages
}

// firstKey is the first key that is written, "" if none is.
func (n *Needs) firstKey() string {
	for _, k := range []struct {
		name    string
		written bool
	}{
		{"approvers", n.Approvers != nil}, {"approvals", n.Approvals != nil}, {"separate_duties", n.SeparateDuties != nil},
		{"escalate", n.Escalate != nil}, {"confirm", n.Confirm != nil}, {"step_up", n.StepUp != nil},
	} {
		if k.written {
			return k.name
		}
	}
	return ""
}

// NeedInfo is a need as data.
type NeedInfo struct {
	Needs          []approval.Stage `json:"needs,omitempty"` // none: one person, any approver
	SeparateDuties bool             `json:"separate_duties,omitempty"`
	Escalate       []EscalationInfo `json:"escalate,omitempty"`
	Confirm        bool             `json:"confirm,omitempty"`
	StepUp         string           `json:"step_up,omitempty"` // "passkey"
}

// EscalationInfo is an [approval.Escalation] as data.
type EscalationInfo struct {
	After string   `json:"after"`
	To    []string `json:"to"`
}

func needInfo(n *approval.Need) NeedInfo {
	if n.IsZero() {
		return NeedInfo{}
	}
	info := NeedInfo{Needs: n.Stages, SeparateDuties: n.SeparateDuties, Confirm: n.Confirm}
	if n.StepUp {
		info.StepUp = stepUpPasskey
	}
	for _, e := range n.Escalate {
		info.Escalate = append(info.Escalate, EscalationInfo{spell(e.After), e.To})
	}
	return info
}

// InWords tells the need in a line: "2 of finance, then 1 of security; not the agent's owner". "": any one approver.
func (n NeedInfo) InWords() string {
	var parts, stages []string
	for _, s := range n.Needs {
		stages = append(stages, fmt.Sprintf("%d of %s", s.Count, outOf(s)))
	}
	if len(stages) > 0 {
		parts = append(parts, strings.Join(stages, ", then "))
	}
	if n.SeparateDuties {
		parts = append(parts, "not the agent's owner")
	}
	for _, e := range n.Escalate {
		parts = append(parts, fmt.Sprintf("after %s also %s", e.After, strings.Join(e.To, ", ")))
	}
	if n.Confirm {
		parts = append(parts, "asked once more")
	}
	if n.StepUp != "" {
		parts = append(parts, "with a passkey")
	}
	return strings.Join(parts, "; ")
}

// outOf names those out of whom a stage's people are.
func outOf(s approval.Stage) string {
	switch {
	case s.Group != "":
		return s.Group
	case s.Approvers != nil:
		return strings.Join(s.Approvers, ", ")
	}
	return "any approver"
}
