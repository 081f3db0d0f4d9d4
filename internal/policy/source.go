package policy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"countersign/approval"
	"countersign/approval/args/decimal"
	"countersign/internal/yamlpos"

	"github.com/go-json-experiment/json/jsontext"
)

// source is a policy as text, for a person who reads later by what a request was judged: all that is written of it,
// with variables by their names and never their values, and what became of it.
type source struct {
	Policy    json.RawMessage                 `json:"policy"` // its own keys, without the rules
	Terms     sourceTerms                     `json:"terms"`
	Levels    map[approval.Risk]sourceSetting `json:"levels"`
	Rules     []sourceRule                    `json:"rules"` // in the order in which a call meets them
	Otherwise sourceSetting                   `json:"otherwise"`
}

// sourceTerms are what holds for all requests.
type sourceTerms struct {
	UseWithin      string            `json:"use_within"`
	RememberDenial string            `json:"remember_denial"`
	MaxPending     int               `json:"max_pending"`
	Group          approval.Grouping `json:"group"`
	GroupWithin    string            `json:"group_within"`
	JoinAfter      string            `json:"join_after"`
	Elicitation    []approval.Risk   `json:"elicitation,omitempty"`
}

// sourceSetting is what a rule or a level comes to, its own words first.
type sourceSetting struct {
	Action        approval.Action   `json:"action"`
	Risk          approval.Risk     `json:"risk_level,omitempty"`
	Timeout       string            `json:"timeout"`
	RequireReason bool              `json:"require_reason,omitempty"`
	Group         approval.Grouping `json:"group,omitempty"`
	AllowSkip     bool              `json:"allow_skip,omitempty"`
}

type sourceRule struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Preset string `json:"preset,omitempty"`
	sourceSetting
	Written json.RawMessage `json:"written,omitempty"`
	Made    *RuleInfo       `json:"made,omitempty"` // in place of that, of a rule that is not written as one
}

// source tells the policy as text.
func (c *Config) source(p *Policy) string {
	s := source{
		Policy: json.RawMessage(c.written), Levels: map[approval.Risk]sourceSetting{}, Rules: []sourceRule{},
		Terms: sourceTerms{
			UseWithin: spell(p.terms.UseWithin), RememberDenial: spell(p.terms.RememberDenial),
			MaxPending: p.terms.MaxPending, Group: p.terms.Group, GroupWithin: spell(p.terms.GroupWithin),
			JoinAfter: spell(p.terms.JoinAfter), Elicitation: p.terms.Elicitation,
		},
		Otherwise: p.otherwise.setting(),
	}
	for _, risk := range risks {
		l := c.level(risk)
		s.Levels[risk] = sourceSetting{Action: l.Action, Timeout: spell(l.Timeout), RequireReason: deref(l.RequireReason),
			Group: l.Group, AllowSkip: deref(l.AllowSkip)}
	}
	for i := range p.rules {
		r := &p.rules[i]
		in := &c.Rules[r.number-1]
		one := sourceRule{Number: r.number, Name: r.name, Preset: r.preset, sourceSetting: r.setting(),
			Written: json.RawMessage(in.written)}
		if in.nameWritten != "" {
			one.Name = in.nameWritten
		}
		if in.written == nil {
			made := r.info()
			made.Message, made.Path, made.Line, made.Column = "", "", 0, 0 // of a server's prompt, which is not written here
			one.Made = &made
		}
		s.Rules = append(s.Rules, one)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s); err != nil {
		panic("policy: " + err.Error()) // what is written was made as JSON
	}
	return text.String()
}

func (r *rule) setting() sourceSetting {
	return sourceSetting{Action: r.action, Risk: r.risk, Timeout: spell(r.timeout), RequireReason: r.requireReason,
		Group: r.group, AllowSkip: r.grants != nil}
}

// encodeNode writes a value as JSON, in the order of the file and with its variables by their names; without these of
// its own keys.
func encodeNode(n *yamlpos.Node, without ...string) jsontext.Value {
	var b []byte
	switch n.Kind {
	case yamlpos.Null:
		return jsontext.Value("null")
	case yamlpos.Bool:
		if n.True {
			return jsontext.Value("true")
		}
		return jsontext.Value("false")
	case yamlpos.List:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, encodeNode(item)...)
		}
		return append(b, ']')
	case yamlpos.Mapping:
		b = append(b, '{')
		for _, e := range n.Entries {
			if slices.Contains(without, e.Key) {
				continue
			}
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(appendText(b, e.Key), ':')
			b = append(b, encodeNode(e.Value)...)
		}
		return append(b, '}')
	case yamlpos.Text:
		return appendText(nil, n.Written)
	}
	if decimal.IsNumber(n.Source) {
		return jsontext.Value(n.Source)
	}
	return appendText(nil, n.Source)
}

func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
	return b
}
