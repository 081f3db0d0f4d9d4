package campaign

import (
	"encoding/json"
	"time"
)

// Kind is what somebody did.
type Kind string

const (
	Call     Kind = "call"     // an agent asked about a call
	Decide   Kind = "decide"   // a person, or somebody who claimed to be one, said yes or no
	Cancel   Kind = "cancel"   // a request was taken back
	Extend   Kind = "extend"   // a request was given more time
	Freeze   Kind = "freeze"   // an agent, or with no agent all, was frozen
	Unfreeze Kind = "unfreeze" // and may go on
	Revoke   Kind = "revoke"   // a grant was ended
	Reload   Kind = "reload"   // the setting named Setting was put in force
	Read     Kind = "read"     // a request was looked at
	Ack      Kind = "ack"      // an agent has taken note of an ending
	Run      Kind = "run"      // an MCP server was told to run a call
	// Delegate has To vote for For, for a time of Lasts; Undelegate ends the delegation ID.
	Delegate   Kind = "delegate"
	Undelegate Kind = "undelegate"
)

// Op is one operation as whoever did it saw it. Start and End are since the history began, by the observer's clock.
// One that was not answered may have happened, also after End, or not.
type Op struct {
	N          int
	Kind       Kind
	Way        string // how it came in: rest, hook, line and so on
	Who        string // the agent or person whose credential it bore
	Forged     bool   // it bore no valid one
	Pressed    bool   // it was a press on a button, and its answer says that it was taken and not what it did
	Start, End time.Duration
	Answered   bool
	Fault      string // what kept it from an answer, for people

	// What was sent.
	Agent, Scope, Server, Tool, Args, Session string // of a call; of a freeze the agent alone
	ID                                        string // of the request, or the grant
	Approve                                   bool
	Confirmed                                 bool
	Reason                                    string
	NewArgs                                   string // approved in place of those that were asked for
	Grants                                    bool   // the approval was to be given for longer
	Setting                                   string
	For, To                                   string
	Lasts                                     time.Duration

	// What was answered.
	Status int    // of HTTP
	Code   string // of a refusal
	Answer Answer
}

// Answer is what the gate said.
type Answer struct {
	Word  string `json:"decision"` // of a call: allow, approved, denied and so on; ran where a server answered
	ID    string `json:"approval_id"`
	Grant string `json:"grant_id"`
	// Delegation is the id of one that was made.
	Delegation string `json:"-"`
	Code       string `json:"reason_code"`
	EndCode    string `json:"end_code"`
	Args       json.RawMessage
	Status     string // of the request, where one was told
	Used       bool   // the request was used, where one was told
	Lapsed     bool
	Replaces   string
}

// Made reports whether the operation is known to have been carried out.
func (o *Op) Made() bool { return o.Answered && o.Code == "" && o.Status/100 == 2 }

// Maybe reports whether the operation was carried out as far as anybody can tell.
func (o *Op) Maybe() bool { return !o.Forged && (!o.Answered || o.Made() || o.Status >= 500) }

// before reports whether o was over when p began. An operation without an answer is never over.
func (o *Op) before(p *Op) bool { return o.Answered && o.End < p.Start }

// Request is a request as it is read over the API.
type Request struct {
	ID          string          `json:"id"`
	Status      string          `json:"status"`
	Agent       string          `json:"agent"`
	Scope       string          `json:"scope"`
	Server      string          `json:"server"`
	Tool        string          `json:"tool"`
	Args        json.RawMessage `json:"args"`
	EndCode     string          `json:"end_code"`
	RequestedAt time.Time       `json:"requested_at"`
	ExpiresAt   time.Time       `json:"expires_at"`
	ResolvedAt  time.Time       `json:"resolved_at"`
	ResolvedBy  string          `json:"resolved_by"`
	UseBy       time.Time       `json:"use_by"`
	ConsumedAt  time.Time       `json:"consumed_at"`
	LapsedAt    time.Time       `json:"lapsed_at"`
	Replaces    string          `json:"replaces"`
	ReplacedBy  string          `json:"replaced_by"`
	Votes       []Vote          `json:"votes"`
}

// Vote is one person's word on a request.
type Vote struct {
	Person   string `json:"person"`
	For      string `json:"for"` // for whom it was given; "": in their own name
	Decision string `json:"decision"`
}

// Grant is an approval that was given for longer.
type Grant struct {
	ID        string          `json:"id"`
	Decision  string          `json:"decision"`
	Agent     string          `json:"agent"`
	Scope     string          `json:"scope"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
	RequestID string          `json:"request_id"`
	MadeBy    string          `json:"made_by"`
	Uses      int             `json:"uses"`
	ExpiresAt time.Time       `json:"expires_at"`
}

// Event is one line of the audit log.
type Event struct {
	Seq        int64           `json:"seq"`
	At         time.Time       `json:"at"`
	Type       string          `json:"event_type"`
	Actor      string          `json:"actor"`
	ApprovalID string          `json:"approval_id"`
	Agent      string          `json:"agent"`
	Tool       string          `json:"tool"`
	Decision   string          `json:"decision"`
	Reason     string          `json:"reason"`
	Data       json.RawMessage `json:"data"`
}

// Card is a message about a request as its recipient has it at the end.
type Card struct {
	What    string // which message it is, for people
	Channel string
	To      string // a person, or a room
	ID      string // the request
	Pushed  bool   // it came by itself, and not in answer to something
	Once    bool   // its platform knows a message that comes to it twice
	Unknown bool   // the gate was not told that it arrived
	Repeats bool   // it may come by itself more than once, as when more people are asked
	Buttons bool   // it can still be pressed
}

// History is what was seen of one gate from its first start to its end, when all faults were over and everything that
// people were to be sent was sent.
type History struct {
	First    string // the setting at the start
	Settings map[string]*Setting
	Ops      []*Op // in the order in which they ended

	Requests []Request
	ReadAt   time.Time // when the requests began to be read
	Grants   []Grant
	Events   []Event             // in their order
	Cards    []Card              //
	Failed   map[string]bool     // requests of which a message could not be delivered
	Feed     map[string][]string // by agent: the endings that it has not acknowledged
	Sent     map[string][]string // by request: what people were sent of it, for people
	// Outages are when what was kept was lost as far as it was not synced.
	Outages []Outage
	// Steady says that no clock was set, so that times of different answers can be compared.
	Steady bool
	// Calm says that no platform failed and the program was not interrupted.
	Calm bool
}

// Outage is a time in which the power was lost, or what comes to the same.
type Outage struct{ Start, End time.Duration }

// Setting is what a configuration says, as far as the model wants to know it.
type Setting struct {
	People map[string]Person
	Owners map[string]string // of agents
	Tools  map[string]Tool   // a tool that is not here is asked about
}

// Person is somebody who is configured.
type Person struct {
	Approver, Admin bool
	Groups          []string
}

// Tool is what the policy says of a tool.
type Tool struct {
	Action          string // allow, deny; "": a person is asked
	Stages          []Stage
	Separate        bool // who owns the agent does not count
	Reason, Confirm bool // what an approval takes beside the yes
	Grants          bool // an approval can be given for longer
	AtMost, Total   int  // what args.amount may be under a grant, and come to; 0: exactly these args
	Ignore          string
	Timeout         time.Duration // 0: not looked at
}

// Stage is how many people of a group must say yes. Without a group any approver will do.
type Stage struct {
	Group string
	Count int
}
