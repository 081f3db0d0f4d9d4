package terminal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"countersign/approval/legible"
	"countersign/client"
	"countersign/internal/locale"
	"countersign/internal/terminal/inbox"

	"github.com/charmbracelet/x/ansi"
)

// view is how a request is told: when, where, and to whom.
type view struct {
	now  time.Time
	zone *time.Location
}

// part is a piece of text and what it is.
type part struct {
	kind kind
	text string // safe to show; on several lines where it says so
}

type kind int

const (
	plain   kind = iota
	heading      // of what follows
	quiet        // of little weight
	caution      // to be read before anything is decided
	title        // what is asked for
	exact        // what would run, and the agent's words: no space is dropped where a line breaks
)

// english is what the command line speaks.
var english = locale.Get("en")

// clock tells a time to the person who looks on.
func (v view) clock(t time.Time) string {
	return english.When(t, locale.Reader{Now: v.now, Zone: v.zone, Abroad: v.zone == time.UTC})
}

// timeLeft is how much time a request still has.
func (v view) timeLeft(a client.Approval) string {
	d := a.ExpiresAt.Sub(v.now)
	if d <= 0 {
		return "over"
	}
	return english.Duration(d)
}

// short is what has to be read of a request before it is decided.
func (v view) short(a client.Approval) []part {
	out := []part{{title, legible.Line(a.Target())}}
	if a.Summary != "" {
		out = []part{{title, legible.Line(a.Summary)}, {plain, legible.Line(a.Target())}}
	}
	out = append(out, part{plain, "risk " + legible.Line(a.RiskLevel) + ", asked by " + legible.Line(a.Agent)})
	if a.Scope != "" {
		out = append(out, part{exact, "scope, in the agent's words: “" + legible.Line(legible.Cut(a.Scope, maxScope)) + "”"})
	}
	out = append(out, v.votes(a)...)
	out = append(out, v.before(a)...)
	if a.ArgsRemovedAt.IsZero() {
		out = append(out, arguments(a.Args)...)
	} else {
		out = append(out, part{quiet, fmt.Sprintf("The arguments (%d bytes) were removed %s, as they are kept only for so "+
			"long.", a.ArgsBytes, v.clock(a.ArgsRemovedAt.Time))})
	}
	if a.HumanMessage != "" {
		out = append(out, part{plain, "why it is asked: " + legible.Line(english.Why(a.HumanMessage, a.Target(), v.clock))})
	}
	return out
}

// votes says how far a request is, where it takes more than one approval.
func (v view) votes(a client.Approval) []part {
	have, need := client.Progress(a.Votes, a.Needs)
	if need < 2 && len(a.Votes) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d approvals", have, need)
	for i, vote := range a.Votes {
		text += map[bool]string{true: ": ", false: ", "}[i == 0] + legible.Line(vote.Voter()) + " " +
			v.clock(vote.At.Time)
	}
	return []part{{plain, text}}
}

// before says what is known of earlier calls: one that may have run already, and what a person said of this tool.
func (v view) before(a client.Approval) []part {
	var out []part
	if u := a.Previous; u != nil {
		text := fmt.Sprintf("The same call was approved by %s and used %s", legible.Line(u.ApprovedBy),
			v.clock(u.ConsumedAt.Time))
		switch {
		case u.RunResult == client.RunSucceeded || u.RunResult == client.RunFailed:
			out = append(out, part{caution, text + "; it " + string(u.RunResult) + "."})
		case !u.DispatchedAt.IsZero():
			out = append(out, part{caution, text + "; it was sent and may have run. Approving may run it twice."})
		default:
			out = append(out, part{caution, text + "."})
		}
	}
	if s := a.Before; s != nil {
		text := fmt.Sprintf("%s: this tool was %s by %s", v.clock(s.At.Time),
			map[bool]string{true: "approved", false: "denied"}[s.Approved], legible.Line(s.By))
		if s.Reason != "" {
			text += ": " + legible.Line(s.Reason)
		}
		out = append(out, part{plain, text})
	}
	return out
}

// arguments are those of a call, one to a line: the members of an object by their names, all else as it is written.
func arguments(args json.RawMessage) []part {
	out := []part{{heading, "Arguments"}}
	d := json.NewDecoder(bytes.NewReader(args))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return append(out, part{plain, legible.Lines(string(args))})
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return append(out[:1], part{exact, legible.Lines(string(args))})
		}
		out = append(out, part{exact, legible.Line(fmt.Sprint(name)) + ": " + argument(value)})
	}
	if len(out) == 1 {
		out = append(out, part{quiet, "none"})
	}
	return out
}

// argument is one value: a text without its quotes and with its lines, all else as JSON.
func argument(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		var b bytes.Buffer
		if json.Indent(&b, value, "", "  ") != nil {
			return legible.Line(string(value))
		}
		return legible.Lines(b.String())
	}
	if json.Valid([]byte(text)) || strings.TrimSpace(text) != text || text == "" { // it would look like something else
		return legible.Line(string(value))
	}
	if strings.Contains(text, "\n") {
		return "\n  " + strings.ReplaceAll(legible.Lines(strings.TrimSuffix(text, "\n")), "\n", "\n  ")
	}
	return legible.Line(text)
}

// everything is all that the gate tells of a request.
func (v view) everything(a client.Approval) []part {
	out := v.short(a)
	if a.ArgsRemovedAt.IsZero() {
		out = append(out, part{heading, "Arguments as JSON, exactly"}, part{exact, legible.Line(string(a.Args))})
	}
	read := a.Preview != "" && a.PreviewFrom != ""
	if a.Rationale != "" || a.Preview != "" && !read {
		out = append(out, part{heading, "Written by the agent (not verified)"})
	}
	if a.Rationale != "" {
		out = append(out, part{exact, legible.Lines(a.Rationale)})
	}
	if read {
		out = append(out, part{heading, "Compared with what Countersign read through " + legible.Line(a.PreviewFrom) +
			" just before asking"})
	}
	if a.Preview != "" {
		out = append(out, part{exact, legible.Lines(a.Preview)})
	}
	out = append(out, part{heading, "On record"})
	row := func(name, value string) {
		if value != "" {
			out = append(out, part{quiet, name + ": " + legible.Line(value)})
		}
	}
	row("request", a.ID)
	row("status", a.Status)
	row("rule", a.Rule)
	row("why", a.ReasonCode)
	row("asked", v.clock(a.RequestedAt.Time))
	row("expires", v.clock(a.ExpiresAt.Time))
	row("session, in the agent's words", a.SessionID)
	row("scope, in the agent's words", a.Scope)
	row("turn", a.TurnID)
	for i, n := range a.Needs {
		who := cmp.Or(n.Group, strings.Join(n.Approvers, ", "), "any approvers")
		row(fmt.Sprintf("stage %d", i+1), fmt.Sprintf("%d of %s", n.Count, who))
	}
	row("replaces", a.Replaces)
	row("args hash", a.ArgsHash)
	row("policy", a.PolicyDigest)
	return out
}

// maxScope is how much of what an agent calls its scope is told before a decision; on record it is whole.
const maxScope = 40

// ending says why a request does not wait any more; "" where it does.
func ending(b *inbox.Inbox, shown client.Approval) string {
	waits := func(a client.Approval) bool { return a.ID == shown.ID }
	ended, known := b.Ending(shown.ID)
	switch {
	case slices.ContainsFunc(b.Snapshot().Waiting, waits):
		return ""
	case known:
		return strings.Join(inbox.Changes(shown, ended), "; ")
	case b.GateNow().Before(shown.ExpiresAt.Time):
		return "it does not wait any more"
	}
	return "its time is up"
}

// further begins what goes on from the line before, so that no text can look like a line of its own.
const further = "  "

// wrap breaks parts into lines of at most so many columns. paint colours a line by what it is.
func wrap(parts []part, width int, paint func(kind, string) string) []string {
	var out []string
	for _, p := range parts {
		if p.kind == heading {
			out = append(out, "")
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(p.text, "\t", "    "), "\n") {
			rest, room := "", max(width-len(further), 1)
			if p.kind == exact || p.kind == title {
				rest = ansi.Hardwrap(line, room, true)
			} else {
				rest = ansi.Wrap(line, room, "")
			}
			for i, piece := range strings.Split(rest, "\n") {
				if i > 0 {
					piece = further + piece
				}
				out = append(out, paint(p.kind, piece))
			}
		}
	}
	return out
}

// fit is a line in exactly so many columns.
func fit(s string, width int) string {
	s = ansi.Truncate(s, max(width, 0), "…")
	return s + strings.Repeat(" ", max(width-ansi.StringWidth(s), 0))
}
