package demo

import (
	"context"
	"strconv"
	"sync"
	"time"

	"countersign/client"
)

const (
	rows = 30 // of each table
	// glance is how often the rows are read when no event tells of a change: it shows that the gate is there.
	glance = 2 * time.Second
)

// watch shows the gate's rows on the page as they change, and says so when the gate cannot be reached.
func watch(ctx context.Context, d *Demo) {
	c, err := client.New(d.URL, d.AdminToken.Reveal())
	if err != nil {
		d.alert("gate", "The gate's rows cannot be shown: "+err.Error())
		return
	}
	defer c.Close()
	changed := make(chan struct{}, 1)
	var events sync.WaitGroup
	defer events.Wait()
	events.Go(func() {
		for ctx.Err() == nil {
			for _, err := range c.Events(ctx, "") {
				if err != nil {
					break // the table says that the gate is away; when it is back, so are its events
				}
				select {
				case changed <- struct{}{}:
				default:
				}
			}
			_ = sleep(ctx, glance)
		}
	})
	for {
		err := show(ctx, c, d)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.alert("gate", "The gate does not answer. Nothing runs, and nothing can be decided, until it does.")
		default:
			d.alert("gate", "")
		}
		select {
		case <-changed:
		case <-time.After(glance):
		case <-ctx.Done():
			return
		}
	}
}

// show reads the tables and puts them on the page.
func show(ctx context.Context, c *client.Client, d *Demo) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	requests, err := c.Approvals(ctx, client.ApprovalQuery{Limit: rows})
	if err != nil {
		return err
	}
	pushes, err := c.Notifications(ctx, client.NotificationQuery{Limit: rows})
	if err != nil {
		return err
	}
	log, err := c.Audit(ctx, client.AuditQuery{Limit: 2 * rows})
	if err != nil {
		return err
	}
	var asked, sent, recorded [][]string
	for _, a := range requests.Items {
		at := a.RequestedAt
		if !a.ResolvedAt.IsZero() {
			at = a.ResolvedAt
		}
		asked = append(asked, []string{short(a.ID), a.RiskLevel, a.Summary, status(a), a.Who(), hour(at)})
	}
	for _, n := range pushes.Items {
		at := n.UpdatedAt
		if !n.SentAt.IsZero() {
			at = n.SentAt
		}
		about := "–"
		if n.ApprovalID != "" {
			about = short(n.ApprovalID)
		}
		sent = append(sent, []string{short(n.ID), about, n.Channel + " " + d.who(n.Recipient), n.Kind, n.Status,
			strconv.Itoa(n.Attempt), hour(at)})
	}
	for _, e := range log.Items {
		recorded = append(recorded, d.lineOf(e))
	}
	d.Chat.Page.SetTable("Approval requests", []string{"Id", "Risk", "Will happen", "Status", "Who", "Time"}, asked)
	d.Chat.Page.SetTable("Notifications", []string{"Id", "Request", "To", "Kind", "Status", "Tries", "Time"}, sent)
	d.Chat.Page.SetTable("Audit log", []string{"No.", "Status", "Who", "What", "Why", "Time"}, recorded)
	return nil
}

// status is a request's status, and what became of an approval.
func status(a client.Approval) string {
	switch {
	case !a.ConsumedAt.IsZero():
		return "used"
	case !a.LapsedAt.IsZero():
		return "lapsed"
	}
	return a.Status
}

// who names a recipient as people know them.
func (d *Demo) who(recipient string) string {
	for _, p := range d.Chat.People() {
		if recipient != "" && (recipient == p.LINE || recipient == p.Slack) {
			return p.Name
		}
	}
	for _, ch := range d.Chat.Config().Slack.Channels {
		if ch.ID == recipient {
			return "#" + ch.Name
		}
	}
	return recipient
}

// short is the end of a ULID: its beginning is the time, which neighbours share.
func short(id string) string { return "…" + id[max(0, len(id)-6):] }

func hour(t client.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("15:04:05")
}
