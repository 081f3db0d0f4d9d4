package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/signin"
)

// ScopedStore is a store that runs transactions one at a time, and has each keep to its scope as one must that runs
// several at once: see [NewScoped].
type ScopedStore struct {
	approval.Store
	report func(string)
}

// NewScoped returns s with a report of every row that a write transaction writes, or reads in order to decide, outside
// of its scope. The report names the row and the place. The transaction goes on: so one run of the tests reports them
// all.
func NewScoped(s approval.Store, report func(string)) *ScopedStore { return &ScopedStore{s, report} }

// ScopedIn is [NewScoped] for a test, which fails by what is reported.
func ScopedIn(t testing.TB, s approval.Store) *ScopedStore {
	return NewScoped(s, func(problem string) { t.Error(problem) })
}

// Update is [approval.Store.Update].
func (s *ScopedStore) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	err := s.Store.Update(ctx, about, func(tx approval.Tx) error {
		agent, err := about.Agent(tx)
		if err != nil {
			return err
		}
		return fn(newScopedTx(&strays{tx: tx, about: about, agent: agent, report: s.report, agents: map[string]string{}}))
	})
	if approval.IsNarrow(err) && !about.IsWhole() {
		return s.Update(ctx, approval.WholeStore(), fn)
	}
	return err
}

// RecordAllowed is that of the store.
func (s *ScopedStore) RecordAllowed(c approval.AllowedCall, e approval.Event) bool {
	r, ok := s.Store.(approval.EventRecorder)
	return ok && r.RecordAllowed(c, e)
}

// SignIns is that of the store.
func (s *ScopedStore) SignIns(tx approval.Tx) signin.Tx {
	t, ok := tx.(interface{ asScoped() *scopedTx })
	if !ok {
		return s.Store.(Store).SignIns(tx)
	}
	return &scopedSignIns{t.asScoped(), s.Store.(Store).SignIns(t.asScoped().tx)}
}

// Passkeys is that of the store.
func (s *ScopedStore) Passkeys(tx approval.Tx) passkey.Tx {
	t, ok := tx.(interface{ asScoped() *scopedTx })
	if !ok {
		return s.Store.(Store).Passkeys(tx)
	}
	return &scopedPasskeys{t.asScoped(), s.Store.(Store).Passkeys(t.asScoped().tx)}
}

// Unscoped is the store's own transaction.
func Unscoped(tx approval.Tx) approval.Tx {
	if t, ok := tx.(interface{ asScoped() *scopedTx }); ok {
		return t.asScoped().tx
	}
	return tx
}

// scopedTx has each method by itself, and embeds no transaction: one that is added is decided about here.
type scopedTx struct {
	*strays
	scopedRequests
	scopedGrants
	scopedNotifications
}

var _ approval.Tx = (*scopedTx)(nil)

func newScopedTx(s *strays) *scopedTx {
	return &scopedTx{s, scopedRequests{s}, scopedGrants{s}, scopedNotifications{s}}
}

func (t *scopedTx) asScoped() *scopedTx   { return t }
func (t *scopedTx) Now() time.Time        { return t.tx.Now() }
func (t *scopedTx) NewID() string         { return t.tx.NewID() }
func (t *scopedTx) Scope() approval.Scope { return t.about }

func (t *scopedTx) Glance() approval.Tx {
	g := *t.strays
	g.glancing = true
	return newScopedTx(&g)
}

// Ahead decides about nothing.
func (t *scopedTx) Ahead(read func()) { t.tx.Ahead(read) }

// strays finds what a transaction does outside of its scope.
type strays struct {
	tx       approval.Tx
	about    approval.Scope
	agent    string // whose rows the scope holds, "" for no agent's alone
	glancing bool
	report   func(string)
	agents   map[string]string // of requests, by id: whose one is never changes
}

// outside reports what is beyond the scope, with the method and the places that led to it.
func (t *strays) outside(whose string) {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var method string
	var places []string
	for f, more := frames.Next(); more && len(places) < 6; f, more = frames.Next() {
		switch name := f.Function[strings.LastIndex(f.Function, "/")+1:]; {
		case strings.HasPrefix(name, "storetest.(*strays)"):
		case strings.HasPrefix(name, "storetest.scoped"), strings.HasPrefix(name, "storetest.(*scoped"):
			method = name[strings.LastIndex(name, ".")+1:]
		case strings.HasPrefix(f.Function, "countersign/"):
			places = append(places, fmt.Sprintf("%s\n\t\t%s:%d", name, f.File, f.Line))
		}
	}
	through := ""
	if t.glancing {
		through = " through Glance"
	}
	t.report(fmt.Sprintf("%s%s: %s is outside of the scope %s\n\t%s", method, through, whose, t.about,
		strings.Join(places, "\n\t")))
}

// reads is for rows of an agent that are read, of all agents for "".
func (t *strays) reads(agent string) {
	if !t.glancing {
		t.writesOf(agent)
	}
}

// writes is for rows of an agent that are written, of all agents for "".
func (t *strays) writes(agent string) {
	if t.glancing {
		t.outside("what is written")
		return
	}
	t.writesOf(agent)
}

func (t *strays) writesOf(agent string) {
	switch {
	case t.about.IsWhole(), agent != "" && agent == t.agent:
	case agent == "":
		t.outside("what concerns every agent")
	default:
		t.outside("what is the agent " + agent + "'s")
	}
}

// person is for rows of a person, of all people for "".
func (t *strays) person(name string, writes bool) {
	switch {
	case t.glancing && writes:
		t.outside("what is written")
	case t.glancing, t.about.IsWhole(), name != "" && name == t.about.Person():
	default:
		t.outside("what is the person " + name + "'s")
	}
}

// request returns the agent of a request, ok is false where there is none.
func (t *strays) request(id string) (agent string, ok bool) {
	if agent, ok = t.agents[id]; ok {
		return agent, true
	}
	h, err := t.tx.Head(id)
	if err == nil {
		t.agents[id] = h.Agent
	}
	return h.Agent, err == nil
}

func (t *strays) readsRequest(id string) {
	if agent, ok := t.request(id); ok {
		t.reads(agent)
	}
}

func (t *strays) writesRequest(id string) {
	if agent, ok := t.request(id); ok {
		t.writes(agent)
	}
}

// readsBatch is for what has the id of a card, or of a batch from before there were any.
func (t *strays) readsBatch(id string) {
	if agent, err := approval.OfID(id).Agent(t.tx); err == nil && agent != "" {
		t.reads(agent)
	}
}

// scopedRequests is what a transaction has of requests and votes.
type scopedRequests struct{ *strays }

func (t scopedRequests) InsertRequest(r approval.Request) error {
	t.writes(r.Agent)
	return t.tx.InsertRequest(r)
}

func (t scopedRequests) Request(id string) (approval.Request, error) {
	t.readsRequest(id)
	return t.tx.Request(id)
}

func (t scopedRequests) Head(id string) (approval.Head, error) {
	t.readsRequest(id)
	return t.tx.Head(id)
}

func (t scopedRequests) NeedOf(id string) (approval.Request, error) {
	t.readsRequest(id)
	return t.tx.NeedOf(id)
}

func (t scopedRequests) Dispatched(id string) (time.Time, approval.RunResult, error) {
	t.readsRequest(id)
	return t.tx.Dispatched(id)
}

func (t scopedRequests) Requests(q approval.RequestQuery) ([]approval.Request, error) {
	t.reads(q.Agent)
	return t.tx.Requests(q)
}

func (t scopedRequests) Heads(q approval.RequestQuery) ([]approval.Head, error) {
	t.reads(q.Agent)
	return t.tx.Heads(q)
}

func (t scopedRequests) RequestReach(q approval.RequestQuery, look int) (string, error) {
	t.reads(q.Agent)
	return t.tx.RequestReach(q, look)
}

func (t scopedRequests) Batch(batchID string) ([]approval.Request, error) {
	t.readsBatch(batchID)
	return t.tx.Batch(batchID)
}

func (t scopedRequests) BatchHeads(batchID string) ([]approval.Head, error) {
	t.readsBatch(batchID)
	return t.tx.BatchHeads(batchID)
}

func (t scopedRequests) EndingIn(suffix, since string, limit int) ([]string, error) {
	t.reads("")
	return t.tx.EndingIn(suffix, since, limit)
}

func (t scopedRequests) UnderWay(runner string, limit int) ([]approval.Head, error) {
	t.reads("")
	return t.tx.UnderWay(runner, limit)
}

func (t scopedRequests) AddSession(id, session string) error {
	t.writesRequest(id)
	return t.tx.AddSession(id, session)
}

func (t scopedRequests) Resolve(r approval.Resolution) (bool, error) {
	t.writesRequest(r.ID)
	return t.tx.Resolve(r)
}

func (t scopedRequests) AddReason(id, by, reason string) (bool, error) {
	t.writesRequest(id)
	return t.tx.AddReason(id, by, reason)
}

func (t scopedRequests) SetNeed(r approval.Request) (bool, error) {
	t.writesRequest(r.ID)
	return t.tx.SetNeed(r)
}

func (t scopedRequests) Extend(id string, until time.Time) (bool, error) {
	t.writesRequest(id)
	return t.tx.Extend(id, until)
}

func (t scopedRequests) Consume(id string, dispatched bool, runner string) (bool, error) {
	t.writesRequest(id)
	return t.tx.Consume(id, dispatched, runner)
}

func (t scopedRequests) Return(r approval.Request) (bool, error) {
	t.writesRequest(r.ID)
	return t.tx.Return(r)
}

func (t scopedRequests) Lapse(id string) (bool, error) {
	t.writesRequest(id)
	return t.tx.Lapse(id)
}

func (t scopedRequests) Report(id string, ran approval.RunResult) (bool, error) {
	t.writesRequest(id)
	return t.tx.Report(id, ran)
}

func (t scopedRequests) SetInputs(id string, inputs []approval.Input) error {
	t.writesRequest(id)
	return t.tx.SetInputs(id, inputs)
}

func (t scopedRequests) Live(k approval.Key) (approval.Request, error) {
	t.reads(k.Agent)
	return t.tx.Live(k)
}

func (t scopedRequests) CountPending(agent string) (int, error) {
	t.reads(agent)
	return t.tx.CountPending(agent)
}

func (t scopedRequests) Due(limit int) ([]approval.Head, error) {
	t.reads("")
	return t.tx.Due(limit)
}

func (t scopedRequests) NextDeadline() (time.Time, error) {
	t.reads("")
	return t.tx.NextDeadline()
}

func (t scopedRequests) Tasks(agent string) ([]approval.Request, error) {
	t.reads(agent)
	return t.tx.Tasks(agent)
}

func (t scopedRequests) LiveAgents() ([]string, error) {
	t.reads("")
	return t.tx.LiveAgents()
}

func (t scopedRequests) LiveOf(agent string, limit int) ([]approval.Head, error) {
	t.reads(agent)
	return t.tx.LiveOf(agent, limit)
}

func (t scopedRequests) LiveBefore(agent, id string, limit int) ([]approval.Head, error) {
	t.reads(agent)
	return t.tx.LiveBefore(agent, id, limit)
}

func (t scopedRequests) Feed(agent, session string, limit, bytes int) ([]approval.Request, error) {
	t.reads(agent)
	return t.tx.Feed(agent, session, limit, bytes)
}

func (t scopedRequests) Ack(agent, id string) (bool, error) {
	t.writes(agent)
	return t.tx.Ack(agent, id)
}

func (t scopedRequests) PutVote(requestID string, v approval.Vote) error {
	t.writesRequest(requestID)
	return t.tx.PutVote(requestID, v)
}

func (t scopedRequests) MoveVote(requestID, person string, stage int) error {
	t.writesRequest(requestID)
	return t.tx.MoveVote(requestID, person, stage)
}

func (t scopedRequests) Votes(requestID string) ([]approval.Vote, error) {
	t.readsRequest(requestID)
	return t.tx.Votes(requestID)
}

// scopedGrants is what a transaction has of what stands for longer than a request, and of what is kept of the past.
type scopedGrants struct{ *strays }

// PutDelegation is about the delegator, who has so many at most.
func (t scopedGrants) PutDelegation(d approval.Delegation) error {
	t.person(d.Delegator, true)
	return t.tx.PutDelegation(d)
}

func (t scopedGrants) Delegation(id string) (approval.Delegation, error) { return t.tx.Delegation(id) }
func (t scopedGrants) Delegations() ([]approval.Delegation, error)       { return t.tx.Delegations() }

func (t scopedGrants) PutCard(c approval.Card) error {
	t.writes(c.Agent)
	return t.tx.PutCard(c)
}

func (t scopedGrants) Card(id string) (approval.Card, error) {
	c, err := t.tx.Card(id)
	if err == nil {
		t.reads(c.Agent)
	}
	return c, err
}

func (t scopedGrants) NewestCard(like approval.Card) (approval.Card, error) {
	t.reads(like.Agent)
	return t.tx.NewestCard(like)
}

func (t scopedGrants) PendingCards(agent string, limit int) ([]string, error) {
	t.reads(agent)
	return t.tx.PendingCards(agent, limit)
}

func (t scopedGrants) PutGrant(g approval.Grant) error {
	t.writes(g.Agent)
	return t.tx.PutGrant(g)
}

func (t scopedGrants) Grant(id string) (approval.Grant, error) {
	g, err := t.tx.Grant(id)
	if err == nil {
		t.reads(g.Agent)
	}
	return g, err
}

func (t scopedGrants) GrantsFor(agent, scope, server, tool string) ([]approval.Grant, error) {
	t.reads(agent)
	return t.tx.GrantsFor(agent, scope, server, tool)
}

func (t scopedGrants) Grants(q approval.GrantQuery) ([]approval.Grant, error) {
	if agent, ok := t.request(q.RequestID); ok {
		t.reads(agent)
	} else {
		t.reads(q.Agent)
	}
	return t.tx.Grants(q)
}

func (t scopedGrants) DueGrants(limit int) ([]approval.Grant, error) {
	t.reads("")
	return t.tx.DueGrants(limit)
}

func (t scopedGrants) PutGrantUse(u approval.GrantUse) error {
	if g, err := t.tx.Grant(u.GrantID); err == nil {
		t.writes(g.Agent)
	}
	return t.tx.PutGrantUse(u)
}

func (t scopedGrants) GrantUse(id string) (approval.GrantUse, error) {
	u, err := t.tx.GrantUse(id)
	if g, failed := t.tx.Grant(u.GrantID); err == nil && failed == nil {
		t.reads(g.Agent)
	}
	return u, err
}

func (t scopedGrants) RunningGrantUses(runner string, limit int) ([]approval.GrantUse, error) {
	t.reads("")
	return t.tx.RunningGrantUses(runner, limit)
}

func (t scopedGrants) PutPolicy(digest, text string) error        { return t.tx.PutPolicy(digest, text) }
func (t scopedGrants) PolicyText(digest string) (string, error)   { return t.tx.PolicyText(digest) }
func (t scopedGrants) Epoch(agent string) (approval.Epoch, error) { return t.tx.Epoch(agent) }
func (t scopedGrants) Epochs() ([]approval.Epoch, error)          { return t.tx.Epochs() }
func (t scopedGrants) FirstSight(eventID string) (bool, error)    { return t.tx.FirstSight(eventID) }

func (t scopedGrants) PolicyDigests(prefix string, limit int) ([]string, error) {
	t.reads("")
	return t.tx.PolicyDigests(prefix, limit)
}

func (t scopedGrants) PutEpoch(e approval.Epoch) error {
	t.writes("")
	return t.tx.PutEpoch(e)
}

// Pin may always be read of what the gate's own gateway has seen.
func (t scopedGrants) Pin(agent, server, tool string) (approval.ToolPin, error) {
	if agent != "" {
		t.reads(agent)
	}
	return t.tx.Pin(agent, server, tool)
}

func (t scopedGrants) PutPin(p approval.ToolPin) error {
	t.writes(p.Agent)
	return t.tx.PutPin(p)
}

func (t scopedGrants) Recent(k approval.Key) (approval.Recent, error) {
	t.reads(k.Agent)
	return t.tx.Recent(k)
}

func (t scopedGrants) PutRecent(k approval.Key, r approval.Recent) error {
	t.writes(k.Agent)
	return t.tx.PutRecent(k, r)
}

func (t scopedGrants) LastSaid(agent, server, tool string) (approval.Said, error) {
	t.reads(agent)
	return t.tx.LastSaid(agent, server, tool)
}

func (t scopedGrants) PutSaid(agent, server, tool string, s approval.Said) error {
	t.writes(agent)
	return t.tx.PutSaid(agent, server, tool, s)
}

func (t scopedGrants) Prune(events, endings time.Time, limit int) (int, error) {
	return t.tx.Prune(events, endings, limit)
}

// What is over and old is removed whosever it is: the statements see to it that it is.
func (t scopedGrants) OldRequests(after string, before time.Time, limit int) ([]approval.Old, error) {
	return t.tx.OldRequests(after, before, limit)
}

func (t scopedGrants) OldNotifications(after string, before time.Time, limit int) ([]approval.Old, error) {
	return t.tx.OldNotifications(after, before, limit)
}

func (t scopedGrants) EraseTexts(id string) (bool, error)         { return t.tx.EraseTexts(id) }
func (t scopedGrants) RemoveArgs(id string) (bool, error)         { return t.tx.RemoveArgs(id) }
func (t scopedGrants) RemoveText(id string) (bool, error)         { return t.tx.RemoveText(id) }
func (t scopedGrants) RemoveNotification(id string) (bool, error) { return t.tx.RemoveNotification(id) }
func (t scopedGrants) RemoveRequest(id string) (bool, error)      { return t.tx.RemoveRequest(id) }
func (t scopedGrants) RemoveEvents(upTo int64) (int, error)       { return t.tx.RemoveEvents(upTo) }

// scopedNotifications is what a transaction has of notifications, and of the audit log.
type scopedNotifications struct{ *strays }

func (t scopedNotifications) InsertNotification(n approval.Notification) error {
	t.writesRequest(n.ApprovalID)
	return t.tx.InsertNotification(n)
}

func (t scopedNotifications) Notification(id string) (approval.Notification, error) {
	n, err := t.tx.Notification(id)
	t.readsRequest(n.ApprovalID)
	return n, err
}

func (t scopedNotifications) Waiting(id string) (approval.Notification, error) {
	n, err := t.tx.Waiting(id)
	t.readsRequest(n.ApprovalID)
	return n, err
}

func (t scopedNotifications) Notifications(q approval.NotificationQuery) ([]approval.Notification, error) {
	switch {
	case q.ApprovalID != "":
		t.readsRequest(q.ApprovalID)
	case q.BatchID != "":
		t.readsBatch(q.BatchID)
	default:
		t.reads("")
	}
	return t.tx.Notifications(q)
}

func (t scopedNotifications) NotificationReach(q approval.NotificationQuery, look int) (string, error) {
	t.reads("")
	return t.tx.NotificationReach(q, look)
}

func (t scopedNotifications) Pushes(since time.Time, after string, limit int) ([]approval.Push, error) {
	t.reads("")
	return t.tx.Pushes(since, after, limit)
}

func (t scopedNotifications) Sendable(limit int) ([]approval.Notification, error) {
	t.reads("")
	return t.tx.Sendable(limit)
}

func (t scopedNotifications) NextSendable() (time.Time, error) {
	t.reads("")
	return t.tx.NextSendable()
}

func (t scopedNotifications) DueSoon(to approval.Address, until time.Time) ([]approval.Notification, error) {
	t.reads("")
	return t.tx.DueSoon(to, until)
}

func (t scopedNotifications) HeldFor(agent string, limit int) ([]approval.Notification, error) {
	t.reads(agent)
	return t.tx.HeldFor(agent, limit)
}

func (t scopedNotifications) PutReminded(requestID, notificationID string) error {
	t.writesRequest(requestID)
	return t.tx.PutReminded(requestID, notificationID)
}

func (t scopedNotifications) UpdateNotification(n approval.Notification, status approval.NotificationStatus,
	attempt int) (bool, error) {
	t.writesRequest(n.ApprovalID)
	return t.tx.UpdateNotification(n, status, attempt)
}

func (t scopedNotifications) Dead(a approval.Address) (bool, error) { return t.tx.Dead(a) }

func (t scopedNotifications) Append(e approval.Event) (approval.Event, error) { return t.tx.Append(e) }

func (t scopedNotifications) SetDead(a approval.Address, dead bool, at time.Time) (bool, error) {
	return t.tx.SetDead(a, dead, at)
}

func (t scopedNotifications) Events(q approval.EventQuery) ([]approval.Event, error) {
	t.reads(q.Agent)
	return t.tx.Events(q)
}

func (t scopedNotifications) EventReach(q approval.EventQuery, look int) (int64, error) {
	t.reads(q.Agent)
	return t.tx.EventReach(q, look)
}

func (t scopedNotifications) SeqRange() (oldest, newest int64, err error) {
	t.reads("")
	return t.tx.SeqRange()
}

// scopedSignIns is what signing in has of a scopedTx.
type scopedSignIns struct {
	*scopedTx
	rows signin.Tx
}

var _ signin.Tx = (*scopedSignIns)(nil)

func (t *scopedSignIns) InsertSignInLink(l signin.LinkRow) error {
	t.person(l.Person, true)
	return t.rows.InsertSignInLink(l)
}

func (t *scopedSignIns) SignInLink(digest string) (signin.LinkRow, error) {
	l, err := t.rows.SignInLink(digest)
	if err == nil {
		t.person(l.Person, false)
	}
	return l, err
}

func (t *scopedSignIns) SignInLinksOf(person string) ([]signin.LinkRow, error) {
	t.person(person, false)
	return t.rows.SignInLinksOf(person)
}

func (t *scopedSignIns) EndSignInLink(digest string, end signin.LinkEnd) (bool, error) {
	if l, err := t.rows.SignInLink(digest); err == nil {
		t.person(l.Person, true)
	}
	return t.rows.EndSignInLink(digest, end)
}

func (t *scopedSignIns) InsertSession(s signin.SessionRow) error {
	t.person(s.Person, true)
	return t.rows.InsertSession(s)
}

func (t *scopedSignIns) SessionBySecret(digest string) (signin.SessionRow, error) {
	s, err := t.rows.SessionBySecret(digest)
	if err == nil {
		t.person(s.Person, false)
	}
	return s, err
}

func (t *scopedSignIns) SessionsOf(person string) ([]signin.SessionRow, error) {
	t.person(person, false)
	return t.rows.SessionsOf(person)
}

func (t *scopedSignIns) SeeSession(id string) (bool, error) {
	t.session(id)
	return t.rows.SeeSession(id)
}

func (t *scopedSignIns) DeleteSession(id string) (bool, error) {
	t.session(id)
	return t.rows.DeleteSession(id)
}

// session is for a session that is written, if there is one.
func (t *scopedSignIns) session(id string) {
	people, err := t.rows.SignInPeople()
	for _, person := range people {
		rows, failed := t.rows.SessionsOf(person)
		if err = errors.Join(err, failed); slices.ContainsFunc(rows, func(s signin.SessionRow) bool { return s.ID == id }) {
			t.person(person, true)
		}
	}
	if err != nil {
		t.outside("what cannot be read: " + err.Error())
	}
}

func (t *scopedSignIns) SignInPeople() ([]string, error) {
	t.person("", false)
	return t.rows.SignInPeople()
}

func (t *scopedSignIns) DeleteSignInLinks(person string) error {
	t.person(person, true)
	return t.rows.DeleteSignInLinks(person)
}

// PruneSignIns deletes what decides nothing any more, as Prune does.
func (t *scopedSignIns) PruneSignIns(idle time.Time, limit int) (int, error) {
	return t.rows.PruneSignIns(idle, limit)
}

// scopedPasskeys is what passkeys have of a scopedTx.
type scopedPasskeys struct {
	*scopedTx
	rows passkey.Tx
}

var _ passkey.Tx = (*scopedPasskeys)(nil)

func (t *scopedPasskeys) PasskeyOwner(person string) (passkey.Owner, error) {
	t.person(person, false)
	return t.rows.PasskeyOwner(person)
}

func (t *scopedPasskeys) InsertPasskeyOwner(o passkey.Owner) error {
	t.person(o.Person, true)
	return t.rows.InsertPasskeyOwner(o)
}

func (t *scopedPasskeys) InsertPasskey(k passkey.Row) error {
	t.person(k.Person, true)
	return t.rows.InsertPasskey(k)
}

func (t *scopedPasskeys) PasskeyByCredential(credential string) (passkey.Row, error) {
	k, err := t.rows.PasskeyByCredential(credential)
	if err == nil {
		t.person(k.Person, false)
	}
	return k, err
}

func (t *scopedPasskeys) PasskeysOf(person string) ([]passkey.Row, error) {
	t.person(person, false)
	return t.rows.PasskeysOf(person)
}

func (t *scopedPasskeys) UpdatePasskey(k passkey.Row) (bool, error) {
	t.person(k.Person, true)
	return t.rows.UpdatePasskey(k)
}

func (t *scopedPasskeys) DeletePasskey(person, id string) (bool, error) {
	t.person(person, true)
	return t.rows.DeletePasskey(person, id)
}

func (t *scopedPasskeys) PasskeyPeople() ([]string, error) {
	t.person("", false)
	return t.rows.PasskeyPeople()
}

func (t *scopedPasskeys) DeletePasskeyOwner(person string) error {
	t.person(person, true)
	return t.rows.DeletePasskeyOwner(person)
}
