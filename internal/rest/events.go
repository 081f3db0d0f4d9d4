package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"countersign/approval"
	"countersign/internal/lists"
)

// The names of server-sent events.
const (
	sseRequested    = "approval.requested"
	sseVoted        = "approval.voted"
	sseExtended     = "approval.extended"
	sseResolved     = "approval.resolved"
	sseConsumed     = "approval.consumed"
	sseLifted       = "approval.lifted"
	sseGranted      = "grant.made"
	sseGrantUsed    = "grant.used"
	sseGrantEnded   = "grant.ended"
	sseNotification = "notification.changed"
	sseReset        = "reset"
)

// sseName is the event that tells of an audit event, "" for those that the stream does not tell of.
func sseName(t approval.EventType) string {
	switch t {
	case approval.EventApprovalRequested:
		return sseRequested
	case approval.EventVote:
		return sseVoted
	case approval.EventExtended:
		return sseExtended
	case approval.EventDecision, approval.EventReasonAdded, approval.EventApprovalCancelled, approval.EventApprovalLapsed,
		approval.EventApprovalReturned:
		return sseResolved
	case approval.EventApprovalConsumed:
		return sseConsumed
	case approval.EventDenialLifted:
		return sseLifted
	case approval.EventGranted:
		return sseGranted
	case approval.EventGrantUsed:
		return sseGrantUsed
	case approval.EventGrantEnded:
		return sseGrantEnded
	case approval.EventNotificationSent, approval.EventNotificationRetrying, approval.EventNotificationFailed:
		return sseNotification
	}
	return ""
}

// writeTime is how long the client of a stream may take to read what there is for it.
const writeTime = 30 * time.Second

// maxUnwritten is how much of a stream is put together before it is written.
const maxUnwritten = 1 << 20

// eventsPage is how many audit events one look at the log brings.
const eventsPage = 200

// events streams what is committed, in commit order, from after Last-Event-ID or from now on. The
// stream ends when the client goes, the server stops, or the token is no longer good.
func (s *Server) events(ctx context.Context, x *exchange) error {
	broker := s.gate.Broker()
	var wake <-chan struct{}
	var unsubscribe func()
	if x.who.Kind == approval.Agent {
		wake, unsubscribe = broker.Agent(x.who.Name)
	} else {
		wake, unsubscribe = broker.All()
	}
	defer unsubscribe()

	st := stream{s: s, x: x, control: http.NewResponseController(x)}
	x.hold(0)
	if err := st.start(ctx); err != nil {
		return err
	}
	if x.r.Method == http.MethodHead {
		return nil
	}
	tick := time.NewTicker(s.keepAlive)
	defer tick.Stop()
	for {
		err := st.catchUp(ctx)
		if err == nil {
			err = st.flush()
		}
		if err != nil {
			st.breakOff(ctx, err)
			return nil
		}
		select {
		case <-wake:
		case <-tick.C:
			st.buf.WriteString(":\n\n")
		case <-ctx.Done():
			return nil
		case <-s.stopping.Done():
			return nil
		}
		// The token may have been withdrawn, or a role with it, since the last look.
		if x.who, err = s.still(x.who); err != nil {
			return nil
		}
	}
}

// writeError is the client's end of the connection failing.
type writeError struct{ err error }

func (e *writeError) Error() string { return "rest: write: " + e.err.Error() }

// stream is one client's stream of events.
type stream struct {
	s       *Server
	x       *exchange
	control *http.ResponseController
	at      int64 // the seq up to which everything was told
	buf     bytes.Buffer
}

// start finds the place to begin at and sends the header.
func (st *stream) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, st.s.patience, errSlowStore)
	defer cancel()
	oldest, newest, err := lists.EventRange(ctx, st.s.gate)
	if err != nil {
		return err
	}
	st.at = newest
	reset := false
	if last := st.x.r.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if reset = err != nil || n < oldest-1 || n > newest; !reset {
			st.at = n
		}
	}
	h := st.x.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	h.Set("Connection", "close") // it has the stream's deadlines
	st.x.WriteHeader(http.StatusOK)
	st.buf.WriteString("retry: 2000\n\n")
	if reset {
		fmt.Fprintf(&st.buf, "id: %d\nevent: %s\ndata: {\"oldest\":%d,\"newest\":%d}\n\n", newest, sseReset, oldest, newest)
	}
	return nil
}

// breakOff ends a stream that has begun: the client will take it up again where it ended.
func (st *stream) breakOff(ctx context.Context, err error) {
	if _, write := errors.AsType[*writeError](err); !write && ctx.Err() == nil {
		st.s.log.LogAttrs(ctx, slog.LevelError, "a stream of events was broken off",
			slog.String("correlation_id", st.x.correlation()), slog.Any("error", err))
	}
}

func (st *stream) flush() error {
	if st.buf.Len() == 0 {
		return nil
	}
	_ = st.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := st.x.Write(st.buf.Bytes()); err != nil {
		return &writeError{err}
	}
	st.buf.Reset()
	if st.buf.Cap() > maxKept {
		st.buf = bytes.Buffer{}
	}
	if err := st.control.Flush(); err != nil {
		return &writeError{err}
	}
	return nil
}

// catchUp writes everything that was committed since the last time.
func (st *stream) catchUp(ctx context.Context) error {
	q := approval.EventQuery{Limit: eventsPage}
	if st.x.who.Kind == approval.Agent {
		q.Agent, q.Told = st.x.who.Name, true
	}
	paced, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(st.s.stopping, cancel)()
	for {
		q.AfterSeq = st.at
		if err := st.x.account.AwaitRead(paced); err != nil {
			return nil
		}
		more, err := st.page(ctx, q)
		if err != nil || !more {
			return err
		}
		if st.s.stopping.Err() != nil || ctx.Err() != nil {
			return nil
		}
		if err := st.flush(); err != nil {
			return err
		}
	}
}

// page writes the next events, and reports whether there may be more.
func (st *stream) page(ctx context.Context, q approval.EventQuery) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, st.s.patience, errSlowStore)
	defer cancel()
	turn, err := st.x.account.Turn(ctx)
	if err != nil {
		return true, nil // when its turn comes
	}
	defer turn()
	found, err := lists.FollowEvents(ctx, st.s.gate, q)
	if err != nil {
		return false, err
	}
	rows := map[string][]byte{} // requests and grants as each stands now, for all events of this page
	for _, e := range found.Events {
		name := sseName(e.Type)
		var data []byte
		switch {
		case name == "" || name == sseVoted && st.x.who.Kind == approval.Agent: // it is told at the end
		case name == sseNotification:
			// The notification log is for admins, wherever it is read.
			if st.x.who.Kind == approval.Human && st.x.who.Admin {
				data, err = st.notification(ctx, readRef(e).Notification)
			}
		case name == sseGranted || name == sseGrantUsed || name == sseGrantEnded:
			if st.x.seesGrants() == nil {
				data, err = once(rows, readRef(e).Grant, func(id string) ([]byte, error) { return st.grant(ctx, id) })
			}
		default:
			data, err = once(rows, e.ApprovalID, func(id string) ([]byte, error) { return st.request(ctx, id) })
		}
		if err != nil {
			return false, err
		}
		if data != nil {
			fmt.Fprintf(&st.buf, "id: %d\nevent: %s\ndata: ", e.Seq, name)
			st.buf.Write(data)
			st.buf.WriteString("\n\n")
			st.x.account.Read(len(data))
		}
		st.at = e.Seq
		if st.buf.Len() > maxUnwritten { // what follows is read once this has been written
			return true, nil
		}
	}
	st.at = found.UpTo
	return found.More, nil
}

// once returns what was read of an id, or reads it.
func once(rows map[string][]byte, id string, read func(id string) ([]byte, error)) ([]byte, error) {
	if data := rows[id]; data != nil {
		return data, nil
	}
	data, err := read(id)
	rows[id] = data
	return data, err
}

// grant returns the JSON of a grant, nil if it is gone.
func (st *stream) grant(ctx context.Context, id string) ([]byte, error) {
	g, err := st.s.gate.Grant(ctx, id)
	if approval.CodeOf(err) == approval.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(wireGrant(g), encoding)
}

// request returns the JSON of a request, nil if it is gone.
func (st *stream) request(ctx context.Context, id string) ([]byte, error) {
	r, err := st.s.gate.Request(ctx, st.x.who.Actor, id)
	if approval.CodeOf(err) == approval.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(st.s.request(r), encoding)
}

// ref names what an event is about beside a request, "" where it is about none.
type ref struct {
	Notification string `json:"notification_id"`
	Grant        string `json:"grant_id"`
}

func readRef(e approval.Event) ref {
	var r ref
	if json.Unmarshal(e.Data, &r) != nil {
		return ref{}
	}
	return r
}

// notification returns the JSON of a notification, nil if it is gone.
func (st *stream) notification(ctx context.Context, id string) ([]byte, error) {
	n, err := st.s.pushes.Notification(ctx, id)
	if approval.CodeOf(err) == approval.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(wireNotification(n), encoding)
}
