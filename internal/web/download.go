package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"countersign/approval"
	"countersign/approval/correlation"
	"countersign/internal/history/export"
	"countersign/internal/lists"
)

// exportRows is how many rows of an export are read at once.
const exportRows = 200

// exportsAtOnce is how many exports one person may have on their way.
const exportsAtOnce = 2

var (
	errExports = approval.Errorf(approval.CodeRateLimited,
		"Two of your exports are running already. Wait until one is done.")
	errFilters  = approval.Errorf(approval.CodeInvalidParameter, "The address has a filter that cannot be read.")
	errStopping = approval.Errorf(approval.CodeStoreUnavailable, "The gate is stopping; try again.")
)

// exports writes them, and counts who has how many on their way.
type exports struct {
	patience time.Duration // with the store, for each step
	stopping context.Context
	logger   *slog.Logger

	lock sync.Mutex
	now  map[string]int
}

// begin takes one of a person's, or of a session's; done gives it back.
func (e *exports) begin(whose string) (done func(), err error) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.now == nil {
		e.now = map[string]int{}
	}
	if e.now[whose] >= exportsAtOnce {
		return nil, errExports
	}
	e.now[whose]++
	return func() {
		e.lock.Lock()
		defer e.lock.Unlock()
		if e.now[whose]--; e.now[whose] == 0 {
			delete(e.now, whose)
		}
	}, nil
}

// format reads in which form an export is asked for.
func (f *filters) format() export.Format { return export.Format(f.query.Get("format")) }

// download streams all that a search finds, newest first, page by page. It ends when the viewer goes or may no longer
// have it; what cannot be read to its end breaks off, so that nobody takes a part for the whole.
func download[R any](ctx context.Context, e *exports, x *exchange, f *filters, whom audience, name string,
	columns []export.Column[R], next func(ctx context.Context, after string) (lists.Found[R], error)) error {
	if format := f.format(); format != export.CSV && format != export.NDJSON {
		return errFilters
	}
	whose := x.viewer.Name
	if !x.isViewers() { // anybody's on this machine
		whose = "session " + x.viewer.Session.ID
	}
	done, err := e.begin(whose)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.stopping, cancel)()
	name = "countersign-" + name + "-" + x.now.UTC().Format("20060102T150405Z")
	w := export.New(x.ResponseWriter, f.format(), name, columns)
	return e.stream(ctx, x, whom, w.Begun, func(ctx context.Context, after string) (string, error) {
		r, err := next(ctx, after)
		if err != nil {
			return "", err
		}
		if x.r.Method == http.MethodHead {
			w.Begin(x.r.Method)
			return "", nil
		}
		if _, err := w.Rows(r.Rows); err != nil {
			return "", err
		}
		return r.Next, w.Flush()
	})
}

// stream takes a step until there is none after it. A step is bounded by the server's patience and by how long the
// client may take; between two of them the viewer is looked at anew.
func (e *exports) stream(ctx context.Context, x *exchange, whom audience, begun func() bool,
	step func(ctx context.Context, after string) (string, error)) error {
	for after, more := "", true; more; more = after != "" {
		err := error(errStopping)
		if e.stopping.Err() == nil {
			after, err = e.patiently(ctx, after, step)
		}
		if err != nil && e.stopping.Err() != nil {
			err = errStopping
		}
		if err == nil && after != "" {
			err = x.admitStill(whom)
		}
		switch {
		case err == nil:
		case begun():
			if ctx.Err() == nil {
				e.logger.WarnContext(ctx, "an export broke off", "path", x.r.URL.Path,
					"correlation_id", correlation.Of(ctx), "error", err)
			}
			panic(http.ErrAbortHandler) // the browser sees a download that failed
		default:
			return err
		}
	}
	return nil
}

// patiently takes one step.
func (e *exports) patiently(ctx context.Context, after string,
	step func(ctx context.Context, after string) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.patience, errors.New("the store took too long"))
	defer cancel()
	return step(ctx, after)
}

// exportHistory downloads what the history's filters select.
func (p *recordPages) exportHistory(ctx context.Context, x *exchange) error {
	f := readFilters(x)
	q := historyQuery(f)
	if !f.end(never, "format") {
		return errFilters
	}
	q.Limit = exportRows
	return download(ctx, p.exports, x, f, approvers, "history", export.Requests,
		func(ctx context.Context, after string) (lists.Found[approval.Head], error) {
			q.After = after
			return lists.SearchRequests(ctx, p.gate, q, rowsLooked)
		})
}

// never is for what has no pages.
func never(string) bool { return false }

// exportAudit downloads what the audit log's filters select.
func (p *recordPages) exportAudit(ctx context.Context, x *exchange) error {
	f := readFilters(x)
	q := auditQuery(f)
	if !f.end(never, "format") {
		return errFilters
	}
	q.Limit = exportRows
	return download(ctx, p.exports, x, f, admins, "audit", export.Events,
		func(ctx context.Context, after string) (lists.Found[approval.Event], error) {
			q.Before, _ = strconv.ParseInt(after, 10, 64) // 0 at first: the newest
			return lists.SearchAudit(ctx, p.gate, q, rowsLooked)
		})
}

// exportPushes downloads what the notification log's filters select.
func (p *recordPages) exportPushes(ctx context.Context, x *exchange) error {
	f := readFilters(x)
	q := p.pushesQuery(f)
	if !f.end(never, "format") {
		return errFilters
	}
	q.Limit = exportRows
	return download(ctx, p.exports, x, f, admins, "notifications", export.Notifications,
		func(ctx context.Context, after string) (lists.Found[approval.Notification], error) {
			q.After = after
			return p.notifications.Search(ctx, q, rowsLooked)
		})
}
