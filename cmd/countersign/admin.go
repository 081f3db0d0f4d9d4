package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"countersign/client"
	"countersign/internal/locale"
)

type notificationsCmd struct {
	remote
	output
	times
	long
	Status     string `placeholder:"STATUS" help:"Only this status: queued, retrying, sent, delivered, failed or skipped."`
	Channel    string `placeholder:"NAME" help:"Only this channel: line, slack or webhook."`
	ApprovalID string `placeholder:"ID" help:"Only this request's; the last four characters of its id are enough."`
	Limit      int    `default:"50" help:"How many to list, newest first; 0 for all."`
	Follow     bool   `help:"Keep running, and print each change as it happens, until ctrl-c."`
}

func (*notificationsCmd) Help() string {
	return `Each row is one card to one recipient, with its tries and errors. With --follow --json each row is one line.

Examples:

    countersign notifications --status failed
    countersign notifications --approval-id 9W1X3Y
    countersign notifications --follow`
}

var notificationHeads = []string{"ID", "REQUEST", "CHANNEL", "TO", "KIND", "STATUS", "TRIES", "NEXT TRY", "ERROR"}

func notificationRow(n client.Notification, now time.Time) []string {
	next := ""
	if !n.NextAttemptAt.IsZero() && (n.Status == "queued" || n.Status == "retrying") {
		next = away(n.NextAttemptAt.Sub(now))
	}
	problem := n.Error
	if n.HTTPStatus >= 300 {
		problem = strings.TrimSpace(strconv.Itoa(n.HTTPStatus) + " " + problem)
	}
	return []string{n.ID, n.ApprovalID, n.Channel, n.Recipient, n.Kind, n.Status, strconv.Itoa(n.Attempt), next,
		shorten(problem, 120)}
}

func (c *notificationsCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	from := ""
	if c.Follow {
		// The stream takes up after what was on record before the list was read, so that nothing falls
		// between the two.
		newest, err := g.Audit(ctx, client.AuditQuery{Limit: 1})
		if err != nil {
			return g.failure(err)
		}
		if len(newest.Items) > 0 {
			from = strconv.FormatInt(newest.Items[0].Seq, 10)
		}
	}
	page, err := c.list(ctx, g)
	if err != nil {
		return g.failure(err)
	}
	now := s.now()
	switch {
	case c.Follow:
		return c.follow(ctx, s, g, page, from)
	case c.forPrograms():
		out := list("notifications", page)
		if len(page.Quotas) > 0 {
			out["quotas"] = page.Quotas
		}
		if len(page.Heartbeat) > 0 {
			out["heartbeat"] = page.Heartbeat
		}
		return c.print(s, out)
	case len(page.Items) == 0:
		s.printf("No notifications.\n")
		quotas(s, page.Quotas)
		beats(s, page.Heartbeat, now)
		return nil
	}
	defer s.startPager()()
	rows := [][]string{notificationHeads}
	for _, n := range page.Items {
		rows = append(rows, notificationRow(n, now))
	}
	s.table(rows...)
	quotas(s, page.Quotas)
	beats(s, page.Heartbeat, now)
	return nil
}

// beats says what the heartbeat did last.
func beats(s *std, all []client.Beat, now time.Time) {
	for _, b := range all {
		name := visible(b.Entry)
		if b.At == nil {
			s.printf("\nHeartbeat %s: not run since the server's start\n", name)
			continue
		}
		at := s.clock(*b.At, now)
		if b.Result != "ok" || b.Counts == nil {
			s.printf("\nHeartbeat %s, %s: failed; the server's log says why\n", name, at)
			continue
		}
		if b.Entry == "prune" {
			s.printf("\nHeartbeat %s, %s: %d rows removed or emptied\n", name, at, b.Counts.Removed)
			continue
		}
		s.printf("\nHeartbeat %s, %s: %d pending, %d expired, %d re-notified\n", name, at, b.Counts.Pending, b.Counts.Expired,
			b.Counts.ReNotified)
	}
}

// quotas says how many of the month's messages are used.
func quotas(s *std, all []client.Quota) {
	for _, q := range all {
		switch {
		case q.Limit == nil:
			s.printf("\n%s: %d messages this month, without a limit\n", q.Channel, q.Used)
		case q.Used >= *q.Limit:
			s.printf("\n%s: %d of %d messages this month: used up, no more cards can be sent there\n", q.Channel, q.Used,
				*q.Limit)
		default:
			s.printf("\n%s: %d of %d messages this month\n", q.Channel, q.Used, *q.Limit)
		}
	}
}

func (c *notificationsCmd) list(ctx context.Context, g *connection) (client.Page[client.Notification], error) {
	return pages(c.Limit, func(after string, limit int) (client.Page[client.Notification], error) {
		return g.Notifications(ctx, client.NotificationQuery{Status: c.Status, Channel: c.Channel,
			ApprovalID: requestID(c.ApprovalID), After: after, Limit: limit})
	})
}

// follow prints what was listed, oldest first, and then every change.
func (c *notificationsCmd) follow(ctx context.Context, s *std, g *connection, page client.Page[client.Notification],
	from string) error {
	show := func(n client.Notification) error {
		if c.forPrograms() {
			return c.printLine(s, n)
		}
		now := s.now()
		row := notificationRow(n, now)
		for i, cell := range row {
			row[i] = visible(cell)
		}
		line := fmt.Sprintf("%s  %-9s %s %s to %s, try %s", locale.Clock(now, s.zone()), row[5], row[2],
			row[4], row[3], row[6])
		if row[7] != "" {
			line += ", next " + row[7]
		}
		if row[8] != "" {
			line += ": " + row[8]
		}
		s.printf("%s  (%s)\n", line, row[0])
		return nil
	}
	for i := len(page.Items) - 1; i >= 0; i-- {
		if err := show(page.Items[i]); err != nil {
			return err
		}
	}
	for e, err := range g.Events(ctx, from) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return g.failure(err)
		case e.Type == client.EventReset:
			fmt.Fprintln(s.err, "Some changes may be missing here; the log itself has them all.")
		case e.Notification != nil && c.wants(*e.Notification):
			if err := show(*e.Notification); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *notificationsCmd) wants(n client.Notification) bool {
	return (c.Status == "" || c.Status == n.Status) && (c.Channel == "" || c.Channel == n.Channel) &&
		strings.HasSuffix(n.ApprovalID, requestID(c.ApprovalID))
}

type retryCmd struct {
	remote
	output
	Notification string `arg:"" help:"The notification's id."`
}

func (*retryCmd) Help() string {
	return `Only a failed notification can be sent again.

Examples:

    countersign notifications --status failed
    countersign retry 01K9ZQ3V5T8M2N4P6R7S9W1X3Y`
}

func (c *retryCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	n, err := g.RetryNotification(ctx, requestID(c.Notification))
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, n)
	}
	s.printf("Queued again: %s, %s to %s.\n", visible(n.ID), visible(n.Channel), visible(n.Recipient))
	return nil
}

type auditCmd struct {
	Query auditQueryCmd `cmd:"" help:"List audit events, newest first."`
}

func (*auditCmd) Help() string {
	return `Every request, decision, refusal and reload is an event in the audit log.

Examples:

    countersign audit query
    countersign audit query --event-type=hitl_decision --filter='decision=deny'`
}

type auditQueryCmd struct {
	remote
	output
	times
	long
	EventType string   `placeholder:"TYPE" help:"Only this type, such as hitl_decision."`
	Filter    []string `sep:"none" placeholder:"KEY=VALUE" help:"Only events with this value; repeatable. Keys: event_type, decision, risk_level, tool, agent, actor (or user), approval_id, correlation_id, session_id, since, until."`
	Limit     *int     `placeholder:"50" help:"How many to list; 0 for all."`
	Format    string   `enum:",csv,ndjson" default:"" placeholder:"csv|ndjson" help:"Print all matching events in this format."`
}

func (*auditQueryCmd) Help() string {
	return `since and until take 2026-11-21T09:30:00Z, 2026-11-21 or how long ago (24h); until itself is not included. actor is a person's name, agent:NAME or system:…; the last four characters of approval_id are enough. In CSV a cell that a spreadsheet would read as a formula begins with '.

Examples:

    countersign audit query --event-type=hitl_decision --filter='decision=deny'
    countersign audit query --event-type=hitl_decision --filter='risk_level=critical'
    countersign audit query --filter=tool=write_file --filter=since=24h --json
    countersign audit query --filter=actor=hana --filter=since=2026-11-01
    countersign audit query --filter=approval_id=9W1X3Y
    countersign audit query --filter=since=2026-11-01 --format csv > november.csv`
}

var errFilter = errors.New("filters are event_type=, decision=, risk_level=, tool=, agent=, actor= (or user=), " +
	"approval_id=, correlation_id=, session_id=, since= and until=")

// query reads the filters.
func (c *auditQueryCmd) query(now time.Time) (client.AuditQuery, error) {
	q := client.AuditQuery{EventType: c.EventType}
	given := map[string]bool{"event_type": c.EventType != ""}
	words := map[string]*string{"event_type": &q.EventType, "decision": &q.Decision, "risk_level": &q.RiskLevel,
		"tool": &q.Tool, "agent": &q.Agent, "actor": &q.Actor, "approval_id": &q.ApprovalID,
		"correlation_id": &q.CorrelationID, "session_id": &q.SessionID}
	times := map[string]*time.Time{"since": &q.Since, "until": &q.Until}
	for _, f := range c.Filter {
		key, value, found := strings.Cut(f, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if key == "user" {
			key = "actor"
		}
		var err error
		switch {
		case words[key] != nil:
			*words[key] = value
		case times[key] != nil:
			*times[key], err = ago(value, now)
		default:
			return q, fmt.Errorf("there is no filter %q; %w", key, errFilter)
		}
		switch {
		case err != nil:
			return q, fmt.Errorf("--filter %s: %w", key, err)
		case !found || value == "":
			return q, fmt.Errorf("--filter %s needs a value; %w", key, errFilter)
		case given[key]:
			return q, fmt.Errorf("%s is asked for twice; an event has only one", key)
		}
		given[key] = true
	}
	return q, nil
}

// limit is how many events are listed, 0 for all.
func (c *auditQueryCmd) limit() int {
	if c.Limit == nil {
		return 50
	}
	return *c.Limit
}

func (c *auditQueryCmd) Run(ctx context.Context, s *std) error {
	q, err := c.query(s.now())
	switch {
	case err != nil:
		return usagef("%s", err)
	case c.Format != "" && (c.forPrograms() || c.Limit != nil):
		return usagef("--format has all that match; it goes with neither --json, --output nor --limit")
	}
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	if c.Format != "" {
		return c.export(ctx, s, g, q)
	}
	page, err := pages(c.limit(), func(after string, limit int) (client.Page[client.AuditEvent], error) {
		q.After, q.Limit = after, limit
		return g.Audit(ctx, q)
	})
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, list("events", page))
	}
	if len(page.Items) == 0 {
		s.printf("No such events.\n")
		return nil
	}
	defer s.startPager()()
	now := s.now()
	rows := [][]string{{"AT", "EVENT", "DECISION", "RISK", "TOOL", "AGENT", "ACTOR", "REQUEST", "REASON"}}
	for _, e := range page.Items {
		rows = append(rows, []string{s.clock(e.At.Time, now), e.EventType, e.Decision, e.RiskLevel, e.Tool,
			e.Agent, e.Actor, e.ApprovalID, shorten(e.Reason, 80)})
	}
	s.table(rows...)
	if page.Next != "" {
		fmt.Fprintf(s.err, "There are more; --limit 0 lists all.\n")
	}
	return nil
}

// export prints all that q selects, as it comes.
func (c *auditQueryCmd) export(ctx context.Context, s *std, g *connection, q client.AuditQuery) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := s.exportWriter(c.Format)
	if err := errors.Join(g.ExportAudit(ctx, q, c.Format, out), out.Close()); err != nil {
		return g.failure(err)
	}
	return nil
}

// build is what this program was built from.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

// release is the version where the build says it: -ldflags "-X main.release=v1.2.3", as the image's does.
var release string

func version() build {
	b := build{Version: "(devel)", Go: runtime.Version()}
	if release != "" {
		b.Version = release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && release == "" {
		b.Version = v
	}
	for _, set := range info.Settings {
		if set.Key == "vcs.revision" {
			b.Revision = set.Value[:min(12, len(set.Value))]
		}
	}
	return b
}
