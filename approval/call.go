package approval

import (
	"context"
	"strings"
	"time"

	"countersign/approval/args"
	"countersign/approval/summary"
)

// Risk says how much harm a call could do. The zero value ranks below [RiskLow].
type Risk string

const (
	RiskLow      Risk = "low"
	RiskMedium   Risk = "medium"
	RiskHigh     Risk = "high"
	RiskCritical Risk = "critical"
)

// Rank orders risks from 1 (low) to 4 (critical); anything else is 0.
func (r Risk) Rank() int {
	switch r {
	case RiskLow:
		return 1
	case RiskMedium:
		return 2
	case RiskHigh:
		return 3
	case RiskCritical:
		return 4
	}
	return 0
}

// Action is what the policy does with a call.
type Action string

const (
	Allow      Action = "allow"
	Quarantine Action = "quarantine"
	Deny       Action = "deny"
)

// Word is the action as policies and texts say it: a quarantined call is one that people are asked about.
func (a Action) Word() string {
	if a == Quarantine {
		return "ask"
	}
	return string(a)
}

// Call is one tool call that an agent wants to make. Agent is set from the agent's credential, never
// from what it sent.
type Call struct {
	Agent  string
	Scope  string // a working directory, tenant or the like; part of the key
	Server string // the MCP server that has the tool, "" for an agent's own
	Tool   string
	Args   args.Args
	// Method is the MCP method where it is another than tools/call, such as resources/read; "": it is a tool's call. Tool
	// is then [MethodTool] of it, for people and for rules. Callers may name tools so too: what a call is, Method alone
	// says.
	Method string
	// ToolDigest is the SHA-256, in hex, of the tool as its server describes it; "" where nobody looked.
	ToolDigest string
	// ListedDigest is the digest of the tool with its schema's lists in the order in which the server wrote them, where
	// that is another: tools were remembered by it once. It never lets through what ToolDigest does not stand for.
	ListedDigest string
	// ToolSeen says that the gate's own gateway saw the tool so, over a connection that all agents share. It is
	// never taken from what an agent sent: without it ToolDigest is that agent's word, and binds nobody else.
	ToolSeen bool
	// Dispatch says that whoever asks sends the call on itself and reports what came of it: an approval
	// is marked as dispatched in the moment it is used.
	Dispatch bool
	// Runner is the one of several programs on the store that sends the call on, or runs it as a task; "": there is one,
	// or whoever asks does.
	Runner string
	// Task says that the gate's side runs the call by itself once it is approved, as an MCP task.
	Task bool

	// AcceptsEdits says that the caller runs the arguments that a person approved in place of these.
	AcceptsEdits bool
	// Grouped says that whoever asks makes its calls in turns and cannot say which: without a SessionID the agent and its
	// scope stand for one.
	Grouped bool
	// Waits says that the agent waits for the answer before it goes on.
	Waits bool
	// Annotations are what the tool's server says of it; nil: nothing is known. It is its word, and no proof.
	Annotations *Annotations

	TurnID    string
	SessionID string
	Rationale string // the agent's own words, unchecked
	Preview   string // the agent's own picture of the effect, unchecked, or what the gate found
	// PreviewFrom is the tool of the call's server that the gate has read with to make the Preview; "": it is the
	// agent's. It is never taken from what an agent sent.
	PreviewFrom string
	// Differ looks for the difference that people are shown, where the rule says so ([Verdict.Diff]) and there is no
	// Preview; nil: nobody does. In a batch nobody does either.
	Differ Differ
	// ReadFor is set where the gate itself makes the call, to show people what a call of that target would change: it is
	// allowed by the policy alone, or denied, and nobody is asked.
	ReadFor string
}

// Annotations are the hints of an MCP server about a tool, nil where it says nothing.
type Annotations struct {
	ReadOnly    *bool `json:"readOnly,omitempty"`
	Destructive *bool `json:"destructive,omitempty"`
	Idempotent  *bool `json:"idempotent,omitempty"`
	OpenWorld   *bool `json:"openWorld,omitempty"`
}

// Limits on what a call may carry beside its args, in bytes.
const (
	MaxScope     = 1024
	MaxTurnID    = 256
	MaxSessionID = 256
	MaxRationale = 16 << 10
	MaxPreview   = 256 << 10
)

// ValidName reports whether s may name a tool, a server or an agent.
func ValidName(s string) bool {
	return s != "" && len(s) <= 128 && consistsOf(s, func(c byte) bool {
		return isLetter(c) || '0' <= c && c <= '9' || c == '_' || c == '.' || c == ':' || c == '-'
	})
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func validMethod(s string) bool {
	return s != "" && len(s) <= 64 && s[0] >= 'a' && s[0] <= 'z' && consistsOf(s, func(c byte) bool {
		return isLetter(c) || c == '/' || c == '_'
	})
}

func validDigest(s string) bool {
	return len(s) == 64 && consistsOf(s, func(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' })
}

func consistsOf(s string, member func(byte) bool) bool {
	for i := range len(s) {
		if !member(s[i]) {
			return false
		}
	}
	return true
}

// ReasonUnknownTool is the reason code of a call that is asked about because no rule is for its tool.
const ReasonUnknownTool = "unknown_tool"

// Validate returns an [Error] with code [CodeInvalidTool] or [CodeInvalidParameter] for a call that
// cannot be stored as it is.
func (c Call) Validate() error {
	if !ValidName(c.Tool) {
		return Errorf(CodeInvalidTool, "tool must be 1 to 128 characters out of A-Z a-z 0-9 _ . : -")
	}
	if c.Server != "" && !ValidName(c.Server) {
		return Errorf(CodeInvalidTool, "server must be 1 to 128 characters out of A-Z a-z 0-9 _ . : -")
	}
	if c.Method != "" && !validMethod(c.Method) {
		return Errorf(CodeInvalidParameter, "method must be 1 to 64 characters out of A-Z a-z / _, the first of them a-z")
	}
	if c.Method != "" && c.Tool != MethodTool(c.Method) {
		return Errorf(CodeInvalidTool, "the tool of a call of %s is %s", c.Method, MethodTool(c.Method))
	}
	if c.ToolDigest != "" && !validDigest(c.ToolDigest) {
		return Errorf(CodeInvalidParameter, "tool_digest must be a SHA-256 in hex: 64 characters out of 0-9 a-f")
	}
	if c.ListedDigest != "" && (c.ToolDigest == "" || !validDigest(c.ListedDigest)) {
		return Errorf(CodeInvalidParameter,
			"tool_digest_listed must be a SHA-256 in hex, 64 characters out of 0-9 a-f, beside a tool_digest")
	}
	for _, f := range []struct {
		name, value string
		max         int
	}{
		{"scope", c.Scope, MaxScope}, {"turn_id", c.TurnID, MaxTurnID}, {"session_id", c.SessionID, MaxSessionID},
		{"rationale", c.Rationale, MaxRationale}, {"preview", c.Preview, MaxPreview},
	} {
		if len(f.value) > f.max {
			return Errorf(CodeInvalidParameter, "%s is %d bytes long; at most %d are taken", f.name, len(f.value), f.max)
		}
	}
	return nil
}

// MethodTool returns what a call of an MCP method other than tools/call has as its tool:
// resources:read for resources/read.
func MethodTool(method string) string { return strings.ReplaceAll(method, "/", ":") }

// Target names the tool as people and rules write it: tool, or server/tool.
func (c Call) Target() string { return target(c.Server, c.Tool) }

func target(server, tool string) string {
	if server == "" {
		return tool
	}
	return server + "/" + tool
}

// Verdict is what the policy says of a call.
type Verdict struct {
	Action     Action
	Risk       Risk
	Rule       string // the rule that decided, "" when none matched
	ReasonCode string // stable and short: "approval_required", "unknown_tool", "policy_error"
	Message    string // for people and models, one sentence
	// Sentences are for people alone; nil: there are none.
	Sentences     *summary.Sentences
	Timeout       time.Duration
	RequireReason bool
	IgnoreArgs    []string // top-level args that do not count for the hash
	Observe       bool     // mode observe: the call is allowed, Action is what would have happened
	Need          *Need    // who must say yes; nil: any one approver
	Strict        bool     // audit: strict: an allowed call is on record before it is sent
	// Group says with which calls it shares a card; "": what its agent's configuration says, or else [Terms.Group].
	Group Grouping
	// Grants say for what an approval may be given for longer; nil: for nothing.
	Grants *GrantTerms
	// Diff says how people are shown what the call would change; nil: as its caller shows it.
	Diff *DiffTerms
	// RuleDigest names the rule that decided with all that it and its level say; "": nothing is known of that.
	RuleDigest string
}

// Terms are the durations that the policy sets for all its requests.
type Terms struct {
	UseWithin      time.Duration // how long an approval may wait for its use
	RememberDenial time.Duration // how long a denial answers the same call again
	MaxPending     int           // per agent; 0: no limit
	// Elicitation are the levels of risk that may be decided by the person at the agent's keyboard.
	Elicitation []Risk
	// Group is with which calls a call shares a card where neither its rule nor its agent says so; "" is GroupCall.
	Group Grouping
	// GroupWithin is how long after the first call of a turn its card leaves.
	GroupWithin time.Duration
	// JoinAfter is how long what has joined a card that cannot be edited waits before it is sent by itself.
	JoinAfter time.Duration
}

// Policy turns calls into verdicts. It is immutable, does no I/O and is safe for concurrent use. It
// cannot fail: whatever it cannot evaluate it denies.
type Policy interface {
	Evaluate(ctx context.Context, c Call) Verdict
	Terms() Terms
	// Digest names the policy: two policies of one digest judge every call alike. "": nothing is known of that.
	Digest() string
	// Source is the policy as text, for whoever reads later by what a request was judged; "": there is none.
	Source() string
	// RuleDigests are the digests of its rules ([Verdict.RuleDigest]) by what they are called. It is not to be changed.
	RuleDigests() map[string]string
}

// Call is the call that the request was made for, as far as a policy looks at it.
func (r Request) Call() (Call, error) { return r.call() }
