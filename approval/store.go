package approval

import (
	"context"
	"time"
)

// Store keeps the rows. An implementation must pass internal/store/storetest.
//
// Update runs fn in a write transaction and returns nil only after the commit is durable. One of a scope at a
// time, in commit order; fn may run more than once before it commits, so it uses tx, sets what it
// captured anew each time, and touches nothing else. An error or panic of fn undoes what fn did and
// nothing else. ctx decides only whether fn starts: once it has, Update waits for the commit.
// A row about one that is not there undoes it too, with [ErrNotFound]: at once, or at the end.
// A store that cannot commit returns an [Error] with [CodeStoreUnavailable].
// An error for which [IsNarrow] holds undoes what fn did, and fn runs again about [WholeStore].
//
// View runs fn on one consistent state; writes through it return [ErrReadOnly].
type Store interface {
	Clock
	Update(ctx context.Context, about Scope, fn func(tx Tx) error) error
	View(ctx context.Context, fn func(tx Tx) error) error
	// AcceptClock takes the machine's clock to be right: the store's time follows a jump ahead at once, and where it is
	// ahead of a clock that was set back that is no trouble any more. The store's time does not go back for it.
	AcceptClock(ctx context.Context) error
}

// AllowedCall is what must hold for an allowed call to go on record without a transaction.
type AllowedCall struct {
	Agent string // is not frozen, neither by itself nor with all
	// The tool is on record with this digest, for its owner: see [ToolPin]. No digest: nobody looked at it.
	Owner, Server, Tool, Digest string
	UseWithin                   time.Duration // for how long the approval that accepted a tool waits for its use
}

// EventRecorder is a [Store] that can put an allowed call on record without a transaction.
type EventRecorder interface {
	// RecordAllowed is Update for what reads whether c holds, appends e if it does, and does nothing else; only it waits
	// for nobody, and what it has put on record outlives the process, however that ends, but not every loss of power: that
	// may take what was recorded in the last second, or since the last Update if that is less. Nothing that was read by
	// its seq is lost, and no seq is given out twice. The event is there for all that reads events from then on; the store
	// tells of it with one of its next commits. An [EventFrozen] that is appended later has a higher seq.
	//
	// It reports false, and has done nothing, where Update is to be called instead: where c does not hold, or only a
	// transaction can tell; and once the store could not commit, whoever wrote, and until a commit has written something.
	// A store that several programs share waits for its database, and where the connection to it is lost in that moment,
	// an event for which false is reported may be on record all the same.
	RecordAllowed(c AllowedCall, e Event) bool
}

// Tx is one transaction: what is kept, each noun by an interface of its own, for those who need no more. Its methods
// return [ErrNotFound] for a single row that is not there. Every method with a bool result says whether its
// conditional statement changed the row; on false the caller reads again to learn why. In a run that does not commit,
// true may have been wrong.
type Tx interface {
	// Now is the transaction's one time: UTC, truncated to milliseconds, never before any time that the
	// store has given out.
	Now() time.Time
	// NewID returns a ULID that sorts after every one the store has given out; "" in a View.
	NewID() string
	// Scope is what the transaction is about. A store that runs one write transaction at a time has them all be about the
	// whole store, as a View is.
	Scope() Scope
	// Glance is the same transaction to read what lies beyond its scope, and so may be otherwise by the commit. What is
	// found is only told to people, never changes, or would have been right a moment before.
	Glance() Tx
	// Ahead is told what the function will most likely read next, by read reading it: a store that is some way away has
	// all of it come at once. What is found within read means nothing, and nothing can be written there. A store that is
	// near does not call it.
	Ahead(read func())

	Requests
	Transitions
	LiveRequests
	Feed
	Votes
	Delegations
	Cards
	Grants
	Policies
	Epochs
	Pins
	Memory
	Notifications
	Addresses
	Events
	Retention
}

// Requests are made once and found again.
type Requests interface {
	// InsertRequest stores r, whose ID, RequestedAt and ExpiresAt are set. It returns ErrLiveExists, with
	// the transaction still usable, when the key has a live request.
	InsertRequest(r Request) error
	Request(id string) (Request, error)
	// Head returns the request's narrow part.
	Head(id string) (Head, error)
	// NeedOf returns what of a request stands behind its large columns and says who must say yes, and whose yes it was:
	// Need, Stage, Policy, CorrelationID, Replaces, Who, EndCode, ReplacedBy and ExtendedAt, with the ID; and Votes.
	NeedOf(id string) (Request, error)
	// Dispatched returns what of a request stands behind its large columns: when it was sent on, and what came of it.
	Dispatched(id string) (time.Time, RunResult, error)
	Requests(q RequestQuery) ([]Request, error)
	// Heads returns the narrow parts of the same.
	Heads(q RequestQuery) ([]Head, error)
	// RequestReach returns the id of the oldest of the first so many requests that are to be looked at for a query, newest
	// first, "" where there are fewer: at least those that it selects, at most those that it selects by After, Since and
	// Until alone.
	RequestReach(q RequestQuery, look int) (string, error)
	// Batch returns the requests of a batch in the order of their ids, BatchHeads their narrow parts.
	Batch(batchID string) ([]Request, error)
	BatchHeads(batchID string) ([]Head, error)
	// EndingIn returns the ids of requests since an id (that one included) that end in some letters, large or small, at
	// most limit and the newest first. No letters find nothing.
	EndingIn(suffix, since string, limit int) ([]string, error)
	// UnderWay returns dispatched requests without an outcome, the oldest dispatched_at first; DispatchedAt is read too.
	// runner is who sent them on, "": whoever did.
	UnderWay(runner string, limit int) ([]Head, error)
	// AddSession records that session asked for the request, too; a repetition changes nothing.
	AddSession(id, session string) error
}

// Transitions are what can change of a request.
type Transitions interface {
	// Resolve ends a request. Approved and Denied need it pending and At before its deadline; Expired
	// needs it pending and At not before the deadline; Cancelled needs it live. It takes the next seq as
	// ResolvedSeq and puts the request (back) into the agent's feed.
	Resolve(r Resolution) (bool, error)
	// AddReason gives a request that by has denied without a reason its reason, and puts it back into the
	// agent's feed, last, with the next seq as ResolvedSeq. A reason that is there stays.
	AddReason(id, by, reason string) (bool, error)
	// SetNeed stores the Need, whether it takes a reason, the open Stage, the Policy and the RuleDigest of a pending
	// request; nothing else of r is stored.
	SetNeed(r Request) (bool, error)
	// Extend puts the deadline, which is after Now, of a pending request that was not extended yet off to a time, and
	// sets extended_at to Now.
	Extend(id string, until time.Time) (bool, error)
	// Consume sets consumed_at, and acked_at, to Now on an approved request that is neither consumed nor
	// lapsed and whose use_by is after Now; and dispatched_at, and the runner, too, where the gate's own side sends the
	// call on.
	Consume(id string, dispatched bool, runner string) (bool, error)
	// Return takes the use of an approval back: r is as it was read. It needs this very use, sent on and without an
	// outcome, use_by after Now, and no other live request of the key; it puts the request back into the feed, last, with
	// the next seq as ResolvedSeq, and its task has ended.
	Return(r Request) (bool, error)
	// Lapse sets lapsed_at to use_by on an approved, unused request whose use_by is at or before Now, and
	// puts it back into the feed, last, with the next seq as ResolvedSeq.
	Lapse(id string) (bool, error)
	// Report records what came of a dispatched request that has no outcome yet, or an unknown one and now
	// another.
	Report(id string, ran RunResult) (bool, error)
	// SetInputs replaces what the request's server was told after the approval.
	SetInputs(id string, inputs []Input) error
}

// LiveRequests are those that are pending, or approved and neither used nor lapsed.
type LiveRequests interface {
	// Live returns the one live request of k.
	Live(k Key) (Request, error)
	// CountPending counts the pending requests of agent; of all agents for "".
	CountPending(agent string) (int, error)
	// Due returns live requests whose deadline is at or before Now, oldest deadline first.
	Due(limit int) ([]Head, error)
	// NextDeadline returns the earliest deadline of a live request, the zero time when there is none.
	NextDeadline() (time.Time, error)
	// Tasks returns the agent's live requests with Task set in the order of their ids; every agent's for "".
	Tasks(agent string) ([]Request, error)
	// LiveAgents returns the names of the agents that have live requests.
	LiveAgents() ([]string, error)
	// LiveOf returns the narrow parts of live requests of agent, in no particular order.
	LiveOf(agent string, limit int) ([]Head, error)
	// LiveBefore returns the narrow parts of live requests with a smaller id, of an agent, or for "" of all.
	LiveBefore(agent, id string, limit int) ([]Head, error)
}

// Feed is what an agent is yet to hear of.
type Feed interface {
	// Feed returns the agent's ended, unacknowledged requests in the order of ResolvedSeq; a session
	// other than "" narrows it to what that session asked for. It stops after the one with which their sizes are bytes.
	Feed(agent, session string, limit, bytes int) ([]Request, error)
	// Ack sets acked_at on the agent's ended request if it was not set.
	Ack(agent, id string) (bool, error)
}

// Votes are what people said on a request.
type Votes interface {
	// PutVote stores a vote, in place of an earlier one of the same person.
	PutVote(requestID string, v Vote) error
	// MoveVote says which stage a person's vote counts for: the need was raised meanwhile.
	MoveVote(requestID, person string, stage int) error
	// Votes returns the votes on a request, in the order in which they were given.
	Votes(requestID string) ([]Vote, error)
}

// Delegations say who votes for somebody else, for a while.
type Delegations interface {
	// PutDelegation stores a delegation, in place of the one of the same id.
	PutDelegation(d Delegation) error
	Delegation(id string) (Delegation, error)
	// Delegations returns those that have neither ended nor come to their end by Now, in the order of their ids.
	Delegations() ([]Delegation, error)
}

// Cards are what several requests are shown on.
type Cards interface {
	// PutCard stores a card, in place of the one of the same id.
	PutCard(c Card) error
	Card(id string) (Card, error)
	// NewestCard returns the card that was opened last with the Agent, Scope, Session, Turn and Grouping of another.
	NewestCard(like Card) (Card, error)
	// PendingCards returns the first so many of an agent's cards that have pending requests, oldest first: the batch ids
	// of these, or for a request without one its own id.
	PendingCards(agent string, limit int) ([]string, error)
}

// Grants let calls through, or deny them, until they end.
type Grants interface {
	// PutGrant stores a grant; of one that is there it changes Used, Unknown, SuspendedAt, Spent and how it ended.
	PutGrant(g Grant) error
	Grant(id string) (Grant, error)
	// GrantsFor returns the grants that have not ended of an agent, a scope, a server and a tool, standing denials first
	// and then the newest first; Args only of those of which some may differ.
	GrantsFor(agent, scope, server, tool string) ([]Grant, error)
	Grants(q GrantQuery) ([]Grant, error)
	// DueGrants returns grants whose time has come by Now and that have not ended, without their Args.
	DueGrants(limit int) ([]Grant, error)
	// PutGrantUse stores a use; of one that is there it changes the outcome.
	PutGrantUse(u GrantUse) error
	GrantUse(id string) (GrantUse, error)
	// RunningGrantUses returns uses that were sent on and of which nobody has said what came of them, oldest first. runner
	// is who sent them on, "": whoever did.
	RunningGrantUses(runner string, limit int) ([]GrantUse, error)
}

// Policies are kept by their digests, as long as a request may name one.
type Policies interface {
	// PutPolicy keeps the text of a policy by its digest, neither of them ""; what is there stays.
	PutPolicy(digest, text string) error
	PolicyText(digest string) (string, error)
	// PolicyDigests returns digests of kept policies that begin so, in their order.
	PolicyDigests(prefix string, limit int) ([]string, error)
}

// Epochs are what freezes leave behind.
type Epochs interface {
	// Epoch returns what was last frozen of one agent, or for "" of all; the zero Epoch for nothing.
	Epoch(agent string) (Epoch, error)
	// Epochs returns all of them.
	Epochs() ([]Epoch, error)
	// PutEpoch stores one, in place of what was there.
	PutEpoch(e Epoch) error
}

// Pins are what tools looked like.
type Pins interface {
	// Pin returns what a tool looked like when it was first seen or accepted: as the agent said, or for "" as
	// the gate's own gateway saw it.
	Pin(agent, server, tool string) (ToolPin, error)
	// PutPin stores it, in place of what was there.
	PutPin(p ToolPin) error
}

// Memory is what is kept of the past, beside the audit log, to act on it.
type Memory interface {
	// Recent returns what is kept of k's past, the zero Recent for nothing.
	Recent(k Key) (Recent, error)
	// PutRecent replaces it; the zero Recent deletes it.
	PutRecent(k Key, r Recent) error
	// LastSaid returns a person's last word about a tool of an agent, the zero Said for none; PutSaid stores it.
	LastSaid(agent, server, tool string) (Said, error)
	PutSaid(agent, server, tool string, s Said) error
	// FirstSight records an inbound event's id and reports whether it was new. What comes once is one, too.
	FirstSight(eventID string) (bool, error)
	// Prune deletes webhook_events seen before events and recent_endings whose newest part is before
	// endings, at most limit of each; it returns how many rows went.
	Prune(events, endings time.Time, limit int) (int, error)
}

// Notifications are what people are sent.
type Notifications interface {
	InsertNotification(n Notification) error
	Notification(id string) (Notification, error)
	Notifications(q NotificationQuery) ([]Notification, error)
	// NotificationReach is [Requests.RequestReach] of notifications.
	NotificationReach(q NotificationQuery, look int) (string, error)
	// Pushes returns of notifications what figures are made of: with ids smaller than after, "" for all, newest first,
	// and made at or after since, or hardly before it.
	Pushes(since time.Time, after string, limit int) ([]Push, error)
	// Sendable returns queued and retrying notifications whose next_attempt_at is at or before Now and
	// that no sender holds, oldest next_attempt_at first; an edit only while no other edit of the
	// same target is held, and one of each target. For replies and cards alike. Of each it reads who and what it is
	// for and when it is due, none of its content; Waiting reads the same of one.
	Sendable(limit int) ([]Notification, error)
	Waiting(id string) (Notification, error)
	// NextSendable returns when the next queued or retrying notification will be due: the later of
	// next_attempt_at and lease_until of the earliest; the zero time when none waits.
	NextSendable() (time.Time, error)
	// DueSoon returns, as Sendable does, what waits to be sent to an address and is due after Now, at until or before.
	DueSoon(to Address, until time.Time) ([]Notification, error)
	// HeldFor returns queued notifications with this HeldFor, narrow and oldest first.
	HeldFor(agent string, limit int) ([]Notification, error)
	// PutReminded records that a reminder is of a request; the notifications of a request are those too.
	PutReminded(requestID, notificationID string) error
	// UpdateNotification stores n, all but its identity (id, approval, batch, channel, recipient, kind,
	// created_at), if the row still has this status and attempt.
	UpdateNotification(n Notification, status NotificationStatus, attempt int) (bool, error)
}

// Addresses are where people are reached, or not any more.
type Addresses interface {
	// SetDead remembers that at a time nothing reached an address any more, or that it did; it reports
	// whether the address is dead or alive because of that, and was not before. What is known from a later
	// time stays.
	SetDead(a Address, dead bool, at time.Time) (bool, error)
	// Dead reports whether nothing reaches the address, as far as its latest time says.
	Dead(a Address) (bool, error)
}

// Events are the audit log. A View that reads it first finds in it all that was committed before; one that has read
// something else may miss what was committed in the moment before that.
type Events interface {
	// Append adds e to the audit log; it sets ID and At (Now) and returns the event. Its Seq is what Events tells after
	// the commit: a store need not know it before.
	Append(e Event) (Event, error)
	Events(q EventQuery) ([]Event, error)
	// EventReach is [Requests.RequestReach] of events: their seq, and 0.
	EventReach(q EventQuery, look int) (int64, error)
	// SeqRange returns the oldest and the newest seq of the audit log, zeros when it is empty.
	SeqRange() (oldest, newest int64, err error)
}

// Retention removes what is over and old.
type Retention interface {
	// OldRequests returns requests made before a time with ids greater than after, in the order of their ids.
	OldRequests(after string, before time.Time, limit int) ([]Old, error)
	// OldNotifications is the same of notifications.
	OldNotifications(after string, before time.Time, limit int) ([]Old, error)
	// RemoveArgs removes the arguments of a request that is over, and what was made of them: in the request but for its
	// summary, in its grants, and in what people were sent about it. It sets ArgsRemovedAt to Now, and ArgsBytes.
	RemoveArgs(id string) (bool, error)
	// EraseTexts removes what RemoveArgs does and the summary, and what people were told of why they were asked. It may be
	// of a request whose agent has not acknowledged it, and of one whose denial is remembered. Where nothing of it is
	// left, and where it is needed, it reports false.
	EraseTexts(id string) (bool, error)
	// RemoveText removes what a notification that is over has said.
	RemoveText(id string) (bool, error)
	// RemoveNotification removes a notification that is over.
	RemoveNotification(id string) (bool, error)
	// RemoveRequest removes a request that is over, with all that is about it but the audit log.
	RemoveRequest(id string) (bool, error)
	// RemoveEvents removes the audit events up to a seq, and returns how many there were.
	RemoveEvents(upTo int64) (int, error)
}

// Old says what may be removed of a request or a notification.
type Old struct {
	ID string
	// Over: nothing needs it any more. A request is not live, its agent has acknowledged it, and what came of its call is
	// known; no grant made with it is live, no denial of it is remembered, and nothing is to be sent about it. A
	// notification is not to be sent, nor again.
	Over    bool
	Emptied bool // its arguments, or what it has said, were removed; or there was nothing
}

// RequestQuery selects requests, newest first. Empty fields do not select.
type RequestQuery struct {
	Status Status
	Tool   string // the tool's name, or server/tool
	Agent  string
	Risk   Risk
	Person string // who has decided it, or voted on it
	// Text is in the tool's name, the rule's, what people were told of the call, or the reason of its end; case counts
	// for letters beyond ASCII.
	Text          string
	CorrelationID string    // of the call that made it
	Since, Until  time.Time // made at or after, and before
	After         string    // requests with a smaller id
	From          string    // requests with this id or a greater one
	Limit         int       // 0: no limit
	Bytes         int       // stop after the row with which their sizes are this much; 0: no limit
	// Figures is of Heads: with no more than figures are made of, which are ID, Agent, Server, Tool, Status, RequestedAt,
	// ResolvedAt, ResolvedBy, ResolvedVia, BatchID and Rule, and the RuleDigest of a rule that may be called by its place.
	Figures bool
}

// Commit is what a store tells of a group of updates once it is durable, in commit order.
type Commit struct {
	Events   []Event   // audit events appended
	Queued   []string  // notifications inserted as queued, or made due again
	Deadline time.Time // the earliest deadline among requests inserted or approved, or zero
}
