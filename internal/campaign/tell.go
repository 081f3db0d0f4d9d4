package campaign

import (
	"fmt"
	"strings"
	"time"
)

// String tells an operation in one line.
func (o *Op) String() string {
	if o == nil {
		return "the end"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s–%s %s", o.N, seconds(o.Start), seconds(o.End), o.Kind)
	for _, part := range []struct{ name, value string }{{"over", o.Way}, {"by", o.Who}, {"of", o.Agent},
		{"", o.Server}, {"", o.Tool}, {"", o.Args}, {"on", o.ID}, {"reason", o.Reason}, {"with", o.NewArgs},
		{"to", o.Setting}, {"for", o.For}, {"to", o.To}} {
		if part.value != "" {
			b.WriteString(strings.TrimRight(" "+part.name, " ") + " " + part.value)
		}
	}
	for _, fact := range []struct {
		is   bool
		word string
	}{{o.Approve, "approve"}, {o.Kind == Decide && !o.Approve, "deny"}, {o.Grants, "for longer"},
		{o.Confirmed, "confirmed"}, {o.Forged, "forged"}} {
		if fact.is {
			b.WriteString(" " + fact.word)
		}
	}
	if !o.Answered {
		return b.String() + ": no answer " + o.Fault
	}
	fmt.Fprintf(&b, ": %d", o.Status)
	a := o.Answer
	for _, word := range []string{o.Code, a.Word, a.Code, a.Status, a.ID, a.Grant, string(a.Args)} {
		if word != "" {
			b.WriteString(" " + word)
		}
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// Tell returns the piece of a history that is about one request or grant: what was done with it, with the same call and
// to its agent, and what is on record.
func Tell(h *History, id string) string {
	var b strings.Builder
	key, agent := "", ""
	for _, r := range h.Requests {
		if r.ID == id {
			key, agent = r.Tool+" "+string(r.Args), r.Agent
			fmt.Fprintf(&b, "the request: %+v\n", r)
		}
	}
	for _, g := range h.Grants {
		if g.ID == id {
			key, agent = g.Tool+" "+string(g.Args), g.Agent
			fmt.Fprintf(&b, "the grant: %+v\n", g)
		}
	}
	for _, o := range h.Ops {
		about := o.ID == id || o.Answer.ID == id || o.Answer.Grant == id || o.Kind == Reload ||
			o.Tool != "" && o.Tool+" "+o.Args == key && o.Agent == agent ||
			o.Kind == Delegate || o.Kind == Undelegate || (o.Kind == Freeze || o.Kind == Unfreeze) &&
			(o.Agent == agent || o.Agent == "")
		if id != "" && about {
			fmt.Fprintf(&b, "%v\n", o)
		}
	}
	for _, e := range h.Events {
		if e.ApprovalID == id && id != "" && e.Type != "notification_sent" {
			fmt.Fprintf(&b, "on record: %d %s %s by %s, %s %s %s\n", e.Seq, e.At, e.Type, e.Actor, e.Decision, e.Reason,
				e.Data)
		}
	}
	for _, line := range h.Sent[id] {
		fmt.Fprintf(&b, "sent: %s\n", line)
	}
	return b.String()
}
