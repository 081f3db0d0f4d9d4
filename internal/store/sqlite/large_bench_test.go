package sqlite

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"countersign/approval"
	"countersign/schema/schematest"
)

var benchLarge = flag.String("large", "",
	"benchmarks: the file for BenchmarkLists, made with -rows requests where there is none; \"\" leaves it out")

// BenchmarkLists is target T14: the first page of each list, by what it is narrowed to. It is looked for in steps, as
// /v1 and the pages do.
func BenchmarkLists(b *testing.B) {
	if *benchLarge == "" {
		b.Skip("-large says which file")
	}
	if _, err := os.Stat(*benchLarge); errors.Is(err, fs.ErrNotExist) {
		schematest.WriteLarge(b, *benchLarge, *benchRows, time.Now())
	}
	d := openBench(b, *benchLarge)
	for _, c := range lists {
		b.Run(c.name, func(b *testing.B) {
			var steps, pages []time.Duration
			for b.Loop() {
				began := time.Now()
				for next, left := "", true; left; left = next != "" {
					step := time.Now()
					if err := d.View(b.Context(), func(tx approval.Tx) (err error) {
						next, err = c.step(tx, next)
						return err
					}); err != nil {
						b.Fatal(err)
					}
					steps = append(steps, time.Since(step))
				}
				pages = append(pages, time.Since(began))
			}
			slices.Sort(steps)
			slices.Sort(pages)
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ms(steps[len(steps)/2]), "step-ms")
			b.ReportMetric(float64(len(steps)/len(pages)), "steps")
			b.ReportMetric(ms(pages[len(pages)/2]), "page-ms")
		})
	}
}

// listing is a list as it is narrowed. A step looks at so many rows, and returns where the next one goes on: "" once a
// page is full, or nothing is left.
type listing struct {
	name string
	step func(tx approval.Tx, next string) (string, error)
}

const (
	listed = 51
	looked = 10_000
)

func requestsOf(name string, q approval.RequestQuery) listing {
	q.Limit, q.Bytes = listed, approval.ListBytes
	return listing{"requests/" + name, func(tx approval.Tx, next string) (_ string, err error) {
		q := q
		q.After = next
		if q.From, err = tx.RequestReach(q, looked); err != nil {
			return "", err
		}
		rows, err := tx.Requests(q)
		return onward(len(rows), q.From), err
	}}
}

func eventsOf(name string, q approval.EventQuery) listing {
	q.Limit, q.Bytes = listed, approval.ListBytes
	return listing{"events/" + name, func(tx approval.Tx, next string) (string, error) {
		q, reach := q, ""
		q.Before, _ = strconv.ParseInt(next, 10, 64)
		oldest, err := tx.EventReach(q, looked)
		if err != nil {
			return "", err
		}
		if oldest > 0 {
			q.AfterSeq, reach = oldest-1, strconv.FormatInt(oldest, 10)
		}
		rows, err := tx.Events(q)
		return onward(len(rows), reach), err
	}}
}

func notificationsOf(name string, q approval.NotificationQuery) listing {
	q.Limit, q.Bytes, q.Narrow = listed, approval.ListBytes, true
	return listing{"notifications/" + name, func(tx approval.Tx, next string) (_ string, err error) {
		q := q
		q.After = next
		if q.From, err = tx.NotificationReach(q, looked); err != nil {
			return "", err
		}
		rows, err := tx.Notifications(q)
		return onward(len(rows), q.From), err
	}}
}

func onward(found int, reach string) string {
	if found == listed {
		return ""
	}
	return reach
}

var lists = []listing{
	requestsOf("all", approval.RequestQuery{}),
	requestsOf("pending", approval.RequestQuery{Status: approval.Pending}),
	requestsOf("denied", approval.RequestQuery{Status: approval.Denied}),
	requestsOf("cancelled", approval.RequestQuery{Status: approval.Cancelled}),
	requestsOf("tool", approval.RequestQuery{Tool: schematest.RareTool}),
	requestsOf("server-tool", approval.RequestQuery{Tool: "bank/" + schematest.RareTool}),
	requestsOf("agent", approval.RequestQuery{Agent: schematest.RareAgent}),
	requestsOf("usual-agent", approval.RequestQuery{Agent: "agent-7"}),
	requestsOf("risk", approval.RequestQuery{Risk: approval.RiskLow}),
	requestsOf("agent-tool-denied", approval.RequestQuery{Agent: "agent-7", Tool: "tool_3", Status: approval.Denied}),
	requestsOf("agent-cancelled", approval.RequestQuery{Agent: "agent-7", Status: approval.Cancelled}),
	requestsOf("person", approval.RequestQuery{Person: schematest.RareName}),
	requestsOf("text", approval.RequestQuery{Text: schematest.RareTool}),
	requestsOf("nothing", approval.RequestQuery{Agent: "nobody", Tool: "nothing"}),
	eventsOf("all", approval.EventQuery{}),
	eventsOf("type", approval.EventQuery{Type: approval.EventFrozen}),
	eventsOf("type-decision", approval.EventQuery{Type: approval.EventDecision, Decision: "timeout"}),
	eventsOf("deny", approval.EventQuery{Decision: "deny"}),
	eventsOf("no-decision", approval.EventQuery{Decision: "edit"}),
	eventsOf("tool", approval.EventQuery{Tool: schematest.RareTool}),
	eventsOf("agent", approval.EventQuery{Agent: schematest.RareAgent}),
	eventsOf("actor", approval.EventQuery{Actor: schematest.RareName}),
	eventsOf("usual-actor", approval.EventQuery{Actor: "person-3"}),
	eventsOf("correlation", approval.EventQuery{CorrelationID: "correlation-00000000000100"}),
	eventsOf("session", approval.EventQuery{SessionID: "run-1"}),
	eventsOf("risk", approval.EventQuery{Risk: "none"}),
	eventsOf("denied-call", approval.EventQuery{Type: approval.EventCallDenied}),
	notificationsOf("all", approval.NotificationQuery{}),
	notificationsOf("failed", approval.NotificationQuery{Status: approval.Failed}),
	notificationsOf("skipped", approval.NotificationQuery{Status: approval.Skipped}),
	notificationsOf("channel", approval.NotificationQuery{Channel: "slack"}),
	notificationsOf("no-channel", approval.NotificationQuery{Channel: "mail"}),
	notificationsOf("failed-slack", approval.NotificationQuery{Status: approval.Failed, Channel: "slack"}),
	notificationsOf("reply", approval.NotificationQuery{Kind: approval.KindReply}),
	notificationsOf("nobody", approval.NotificationQuery{Addresses: []approval.Address{{Channel: "line", To: "nobody"}}}),
}
