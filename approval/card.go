package approval

import "time"

// Grouping says which calls come to people on one card.
type Grouping string

const (
	GroupTurn Grouping = "turn" // the calls of one turn
	GroupCall Grouping = "call" // each by itself
	GroupRun  Grouping = "run"  // the calls of one session, for a while
)

// Card is what the calls of a turn, or of a run, come to people as. Its ID is the [Request.BatchID] of its requests. A
// request that is asked for by itself, without a card that others could join, has none.
type Card struct {
	ID       string // ULID
	Agent    string
	Scope    string // where the agent and its scope stand for a session; else ""
	Session  string
	Turn     string
	Grouping Grouping
	Risk     Risk // the highest of its requests
	OpenedAt time.Time
	LeavesAt time.Time // when it is first sent
	JoinBy   time.Time // calls join it until before then
	// Items are its requests in the order in which they came, with the version of the card that each came with.
	Items []CardItem
	Shown int // the newest version of which the sending was begun; 0: it has not left
}

// CardItem is one request of a [Card].
type CardItem struct {
	ID      string `json:"id"`
	Version int    `json:"v"` // from 1
}

// MaxCard is how many requests a card takes.
const MaxCard = 20

// Version is that of the newest item, 0 for a card without any.
func (c Card) Version() int {
	if len(c.Items) == 0 {
		return 0
	}
	return c.Items[len(c.Items)-1].Version
}

// Upto returns the ids of the items that came after one version and up to another. upto 0 is the first version, which
// is what a button without a version says.
func (c Card) Upto(after, upto int) []string {
	var ids []string
	for _, i := range c.Items {
		if i.Version > after && i.Version <= max(upto, 1) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// Joining says how soon people are to see what has joined a card that was sent already.
type Joining struct {
	Waits bool          // whoever asks waits for the answer
	After time.Duration // where nobody waits, and nothing on the card is decided
	// WaitsUntil is until when what has joined waits at most for the agent's earlier cards, where its card does.
	WaitsUntil time.Time
	Turn       time.Time // over its agent's budget of pushes: a message of its own does not leave before; else zero
}

// Placing says when the card of new requests is sent.
type Placing struct {
	LeavesAt time.Time // the zero time: at once
	// Over says that the agent is over its budget of pushes, and LeavesAt is the card's turn: who is to get it is told
	// how many wait.
	Over bool
	// WaitsUntil is set where the agent has enough cards before people: this one comes up as an earlier one ends, not
	// before it leaves and at the latest then.
	WaitsUntil time.Time
}
