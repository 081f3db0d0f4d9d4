package policy

import (
	"cmp"
	"encoding/json"
	"time"

	"countersign/approval"
	"countersign/approval/summary"
	"countersign/internal/yamlpos"

	"github.com/go-json-experiment/json/jsontext"
)

// Mode says whether verdicts bind.
type Mode string

const (
	Enforce Mode = "enforce" // the default
	Observe Mode = "observe" // everything runs; what would have happened is on record
)

// Config is a policy as written. Zero values stand for what the file does not say. [Read] makes one
// from YAML; Go code may also make one, or append rules to one that was read.
type Config struct {
	Mode           Mode
	DefaultTimeout time.Duration     // where neither the rule nor its level is written with one
	UseWithin      time.Duration     // default 15m
	RememberDenial *time.Duration    // default 10m; zero forgets at once
	MaxPending     int               // per agent; 0: no limit
	Group          approval.Grouping // default GroupTurn
	GroupWithin    *time.Duration    // default 300ms; zero sends every card at once
	JoinAfter      time.Duration     // default 2m
	Guard          []string          // none, or GuardGateFiles and paths that are guarded too
	Rules          []Rule
	// Include names presets, whose rules follow all of Rules in that order.
	Include []string
	Levels  map[approval.Risk]Level

	// GateFiles are the gate's own files, absolute. They are not read from the policy: whoever reads the
	// configuration knows them.
	GateFiles []string

	root string                      // the path of all this in the file, "" for $.policy
	at   map[string]yamlpos.Position // where Read found each value, by its path

	problems []Problem // what Read found wrong

	written jsontext.Value // as it is in the file, without the rules; nil if it was not read from one
}

// Rule is one rule as written. It needs Tools unless it restricts: a rule that allows must name what
// it allows.
type Rule struct {
	Name       string   // default "rule N", counted from 1
	Methods    []string // globs over MCP methods; none means tool calls
	Tools      []string // globs: tool, or server/tool; none means every tool
	Agents     []string // globs; none means every agent
	When       string   // CEL
	Conditions []Condition

	Risk          approval.Risk   // default high, low for a rule that allows
	Action        approval.Action // default what the level says
	Timeout       time.Duration   // default what the level says
	RequireReason *bool           // default what the level says
	ReasonCode    string          // default approval_required, forbidden or allowed
	Message       string          // why a person is asked
	// MessageIn is the message by language, where it is written in several: Message is the English or first of them.
	MessageIn  summary.Wording `digest:"omitzero"`
	Summary    summary.Wording `digest:"omitzero"` // what will happen; nil: it is made of the call
	IgnoreArgs []string
	Audit      Audit // default normal
	Needs            // default what the level says
	Asks             // default what the level says
	// Grants is what an approval that is given for longer covers beside the very args; nil: nothing.
	Grants *approval.GrantTerms
	// Diff says how people are shown what a call would change; nil: as its caller shows it.
	Diff *approval.DiffTerms `digest:"omitzero"`
	// Annotations are what the tool's server must say of it, where the fields are not nil.
	Annotations *approval.Annotations

	// Preset is the preset that the rule comes from, "" for none. One that allows matches no tool of an MCP server then,
	// unless the server is named.
	Preset string

	// Origin is where the rule comes from, for problems and explanations.
	Origin Origin

	unread bool // Read could not make sense of all of it

	written     jsontext.Value // as it is in the file, nil if it was not read from one
	nameWritten string         // the name so, "" for none
}

// Condition is one test of one argument, or several that must all hold.
type Condition struct {
	Param string // dotted path
	// Params are several names of the argument, instead of Param. In a rule that denies or quarantines one of
	// those that are there must pass; in a rule that allows, all of them.
	Params []string

	Matches string           // RE2, unanchored, on text
	Equals  jsontext.Value   // any JSON value; numbers equal when their decimals do
	In      []jsontext.Value // one of these
	GT      json.Number
	GTE     json.Number
	LT      json.Number
	LTE     json.Number
	Under   []string // absolute folders, or scope for the one that the call runs in
	Shell   string   // ShellReadOnly
}

// Level is what a risk level implies where a rule is silent.
type Level struct {
	Action        approval.Action
	Timeout       time.Duration
	RequireReason *bool
	Elicitation   bool // the person at the agent's keyboard may decide
	Needs              // default: one person, any approver
	Asks

	path   string // in the file, "" if it was not read from one
	unread bool   // Read could not make sense of all of it
}

// Audit says when an allowed call is on record.
type Audit string

const (
	AuditNormal Audit = "normal" // before it is answered
	AuditStrict Audit = "strict" // before it is sent
)

// Origin is where something was written: a YAML path such as $.policy.rules[2], and the place in the
// file, zero if it was not read from one.
type Origin struct {
	Path string
	yamlpos.Position
}

// Place notes where in the file the value at a path stands, for rules that are not written as such.
func (c *Config) Place(path string, at yamlpos.Position) {
	if c.at == nil {
		c.at = map[string]yamlpos.Position{}
	}
	c.at[path] = at
}

// What holds where a policy says nothing.
const (
	defaultTimeout        = time.Hour
	defaultUseWithin      = 15 * time.Minute
	defaultRememberDenial = 10 * time.Minute
)

func yes() *bool { b := true; return &b }

func defaultLevel(r approval.Risk) Level {
	switch r {
	case approval.RiskLow:
		return Level{Action: approval.Allow}
	case approval.RiskMedium:
		return Level{Action: approval.Quarantine, Timeout: time.Hour}
	case approval.RiskCritical:
		return Level{Action: approval.Quarantine, Timeout: 30 * time.Minute, RequireReason: yes()}
	default:
		return Level{Action: approval.Quarantine, Timeout: 30 * time.Minute}
	}
}

// level returns what a risk level implies. Its time-out is the first of: what the file writes for the
// level, default_timeout, the level's own default.
func (c *Config) level(r approval.Risk) Level {
	l, built := c.Levels[r], defaultLevel(r)
	l.Action = cmp.Or(l.Action, built.Action)
	l.Timeout = cmp.Or(l.Timeout, c.DefaultTimeout, built.Timeout, defaultTimeout)
	if l.RequireReason == nil {
		l.RequireReason = built.RequireReason
	}
	return l
}

// operators are the tests that a condition may have.
var operators = []string{"matches", "equals", "in", "gt", "gte", "lt", "lte", "under", "shell"}

// riskNames are the spellings of risk levels in a file. The last name is an action more than a level.
var riskNames = map[string]approval.Risk{
	"low": approval.RiskLow, "medium": approval.RiskMedium, "high": approval.RiskHigh, "critical": approval.RiskCritical,
	"safe": approval.RiskLow, "caution": approval.RiskMedium, "dangerous": approval.RiskHigh,
	"L0": approval.RiskLow, "L1": approval.RiskMedium, "L2": approval.RiskMedium, "L3": approval.RiskHigh,
	"L4": approval.RiskHigh, "L5": approval.RiskCritical,
	forbidden: approval.RiskCritical,
}

const forbidden = "forbidden"
