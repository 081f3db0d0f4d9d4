package rest

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/internal/api"
	"countersign/internal/history/export"
	"countersign/internal/lists"
)

// maxActor is how long the name of an actor may be that is asked for: an address at a platform, with room.
const maxActor = 512

// atMost reads a parameter of at most so many bytes.
func (f *fields) atMost(name string, most int) string {
	return f.matching(name, "1 to "+strconv.Itoa(most)+" bytes",
		func(v string) bool { return v != "" && len(v) <= most })
}

// actor reads who did it; user is another word for actor.
func (f *fields) actor() string {
	actor, user := f.atMost("actor", maxActor), f.atMost("user", maxActor)
	if actor != "" && user != "" && actor != user {
		f.refuse("user is another word for actor; an event has one, so give one of them.")
	}
	return cmp.Or(actor, user)
}

// auditQuery reads what is asked of the audit log.
func (x *exchange) auditQuery(ctx context.Context, f *fields) approval.EventQuery {
	q := approval.EventQuery{
		Type: one(f, "event_type", approval.EventTypes...), Decision: one(f, "decision", approval.EventDecisions...),
		Risk: f.risk(), Tool: f.tool(), Agent: f.agent(), Since: f.time("since"), Until: f.time("until"),
		Actor: f.actor(), CorrelationID: f.atMost("correlation_id", maxActor),
		SessionID: f.atMost("session_id", approval.MaxSessionID), ApprovalID: x.requestID(ctx, f, "approval_id"),
	}
	if f.query.Has("after") {
		n, err := strconv.ParseInt(f.query.Get("after"), 10, 64)
		if err != nil || n < 1 {
			f.refuse("after must be the next of the page before.")
		}
		q.Before = n
	}
	return q
}

func (s *Server) audit(ctx context.Context, x *exchange) error {
	f := fields{query: x.query}
	q := x.auditQuery(ctx, &f)
	if x.export != "" && f.query.Has("limit") {
		f.refuse("limit is for pages; %s has all.", x.export)
	}
	limit := f.limit()
	if f.err != nil {
		return f.err
	}
	if x.export != "" {
		return s.exportAudit(ctx, x, q)
	}
	return answerFound(ctx, s, x, limit, f.query.Get("after"), func(after string, n, bytes int) (
		lists.Found[approval.Event], error) {
		q.Before, _ = strconv.ParseInt(after, 10, 64) // 0 at first: the newest
		q.Limit, q.Bytes = n, bytes
		return lists.SearchAudit(ctx, s.gate, q, s.look.rows)
	}, func(rows []approval.Event, next string) any {
		return eventList{Events: api.Each(rows, wireEvent), Next: next}
	})
}

// The forms of an export, and what stands for them in an Accept header.
const (
	formatJSON   = "json"
	formatCSV    = string(export.CSV)
	formatNDJSON = string(export.NDJSON)
)

var formats = map[string]string{export.TypeCSV: formatCSV, export.TypeNDJSON: formatNDJSON,
	"application/ndjson": formatNDJSON, "application/json": formatJSON, "application/*": formatJSON, "*/*": formatJSON}

// readExport finds out in which form the list is asked for: by the parameter format, else by the Accept header.
func (x *exchange) readExport() {
	if !x.route.exports || x.formErr != nil {
		return
	}
	format := chooseFormat(x.r.Header.Values("Accept"))
	if x.query.Has("format") {
		f := fields{query: x.query}
		format = one(&f, "format", formatJSON, formatCSV, formatNDJSON)
		x.formErr = f.err
	}
	if x.formErr == nil && format != formatJSON {
		x.export = format
	}
}

// chooseFormat returns the form that is liked best, of equals the first; pages of JSON where none is named.
func chooseFormat(accept []string) string {
	best, liked := formatJSON, 0.0
	for _, part := range strings.Split(strings.Join(accept, ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		format, known := formats[kind]
		if err != nil || !known {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		if q > liked {
			best, liked = format, q
		}
	}
	return best
}

// exportPage is how many audit events of an export are read at once.
const exportPage = 200

var errStopping = approval.Errorf(approval.CodeStoreUnavailable, "The gate is stopping; try again.")

// exportAudit streams all that q selects, newest first, page by page. It ends when the client goes; what cannot be
// read to its end breaks off, so that no client takes a part for the whole.
func (s *Server) exportAudit(ctx context.Context, x *exchange, q approval.EventQuery) error {
	e := auditExport{s: s, x: x, q: q, w: export.New(x, export.Format(x.export), "audit", export.Events)}
	e.q.Limit, e.q.Bytes = exportPage, maxUnwritten
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	x.hold(0)
	for {
		if s.stopping.Err() != nil {
			return errStopping
		}
		more, err := e.page(ctx)
		if err != nil && s.stopping.Err() != nil {
			return errStopping
		}
		if err != nil {
			return err
		}
		if x.r.Method == http.MethodHead {
			e.w.Begin(x.r.Method)
			return nil
		}
		if err := e.w.Flush(); err != nil || !more {
			return err
		}
		// The token may have been withdrawn, or a role with it, since the last page.
		if x.who, err = s.still(x.who); err != nil {
			return err
		}
		if err := x.admit(x.route.audience); err != nil {
			return err
		}
	}
}

// auditExport is the audit log on its way to one client.
type auditExport struct {
	s *Server
	x *exchange
	q approval.EventQuery
	w *export.Writer[approval.Event]
}

// page has the writer take the next events, and reports whether there may be more.
func (e *auditExport) page(ctx context.Context) (more bool, err error) {
	err = e.x.readStep(ctx, e.s.patience, func(ctx context.Context) error {
		found, err := lists.SearchAudit(ctx, e.s.gate, e.q, e.s.look.rows)
		if err != nil {
			return err
		}
		more = found.Next != ""
		e.q.Before, _ = strconv.ParseInt(found.Next, 10, 64)
		n, err := e.w.Rows(found.Rows)
		e.x.account.Read(n)
		return err
	})
	return more, err
}
