package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The types of an [Event].
const (
	EventRequested    = "approval.requested"
	EventVoted        = "approval.voted"    // a vote that is not the last
	EventExtended     = "approval.extended" // it has a later deadline
	EventResolved     = "approval.resolved"
	EventConsumed     = "approval.consumed"
	EventLifted       = "approval.lifted" // its denial answers no call any more
	EventGranted      = "grant.made"
	EventGrantUsed    = "grant.used"
	EventGrantEnded   = "grant.ended"
	EventNotification = "notification.changed"
	// EventReset says that events may be missing: read again what matters.
	EventReset = "reset"
)

// Event is one event of the stream. Approval, Grant or Notification is the row as it stood when the event
// was sent.
type Event struct {
	ID           string // to resume after
	Type         string
	Approval     *Approval
	Grant        *Grant
	Notification *Notification
}

// maxEvent is how long one line of the stream may be: args of 1 MiB, escaped, and the agent's words.
const maxEvent = 16 << 20

// quiet is after how long without a byte the stream is taken for dead; the server sends a comment
// every 15 seconds.
const quiet = 45 * time.Second

// Events yields what happens from now on, or after the event lastID if that is not "". A stream that
// breaks is taken up again where it broke, for as long as ctx lives; if the server no longer knows that
// place there comes an [EventReset]. The sequence ends with an error: at once if the first connection
// fails, when the server refuses, or with ctx's.
func (c *Client) Events(ctx context.Context, lastID string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var pause backoff
		for connected := false; ; {
			more, err := c.stream(ctx, &lastID, func(e Event) bool { return yield(e, nil) }, func() {
				connected = true
				pause.reset()
			})
			if !more {
				return
			}
			if ctx.Err() == nil && connected && (errors.Is(err, errStreamOver) || Temporary(err)) {
				err = pause.wait(ctx, err)
				if err == nil {
					continue
				}
			}
			yield(Event{}, err)
			return
		}
	}
}

// Stream is [Client.Events] over one connection: where that breaks, the sequence ends with the error. It is for those
// who show whether they are connected, and take up again by themselves, after the last ID.
func (c *Client) Stream(ctx context.Context, lastID string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		more, err := c.stream(ctx, &lastID, func(e Event) bool { return yield(e, nil) }, func() {})
		if more {
			yield(Event{}, err)
		}
	}
}

var errStreamOver = errors.New("client: the stream of events ended")

// stream reads one connection's events until it breaks; more is false once emit has had enough.
func (c *Client) stream(ctx context.Context, lastID *string, emit func(Event) bool,
	opened func()) (more bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(max(quiet, c.timeout), func() { cancel(errStreamOver) })
	defer watchdog.Stop()
	header := http.Header{"Accept": {"text/event-stream"}}
	if *lastID != "" {
		header.Set("Last-Event-ID", *lastID)
	}
	resp, err := c.send(ctx, http.MethodGet, "/v1/events", nil, nil, header)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
		return true, refusal(resp, b)
	}
	opened()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	var id, kind string
	var data []byte
	for lines.Scan() {
		watchdog.Reset(quiet)
		line := lines.Bytes()
		if len(line) > 0 {
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "id":
				id = string(value)
			case "event":
				kind = string(value)
			case "data":
				data = append(data, value...)
			}
			continue
		}
		if id != "" {
			*lastID = id
		}
		if kind != "" {
			e := Event{ID: *lastID, Type: kind}
			if err := e.read(data); err != nil {
				return true, err
			}
			if !emit(e) {
				return false, nil
			}
		}
		id, kind, data = "", "", nil
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errStreamOver) {
		return true, c.explainUnreached(ctx, context.Cause(ctx))
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return true, fmt.Errorf("client: %w: %w", errNotAnEvent, lines.Err())
	}
	return true, errStreamOver
}

var errNotAnEvent = errors.New("what came is not an event of /v1/events")

func (e *Event) read(data []byte) error {
	var err error
	switch {
	case strings.HasPrefix(e.Type, "approval."):
		err = json.Unmarshal(data, &e.Approval)
	case strings.HasPrefix(e.Type, "grant."):
		err = json.Unmarshal(data, &e.Grant)
	case strings.HasPrefix(e.Type, "notification."):
		err = json.Unmarshal(data, &e.Notification)
	}
	if err != nil {
		return fmt.Errorf("client: %w: event %s: %w", errNotAnEvent, strconv.Quote(e.ID), err)
	}
	return nil
}

// backoff spaces tries: half a second, doubling up to 30, each with jitter, so that many clients of a
// server that comes back do not all come at once.
type backoff struct{ next time.Duration }

func (b *backoff) reset() { b.next = 0 }

// wait sleeps; it returns ctx's error if that ends first.
func (b *backoff) wait(ctx context.Context, after error) error {
	b.next = min(max(2*b.next, 500*time.Millisecond), 30*time.Second)
	d := b.next/2 + rand.N(b.next/2)
	if e, ok := errors.AsType[*Error](after); ok {
		d = max(d, e.RetryAfter)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
