// Package message is what the gate tells agents, and whoever calls its API, in English. It is given what it says as
// plain values, with times as they are told, and decides nothing.
package message

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"countersign/approval/legible"
)

// askAgain is the next step after an end that nobody meant as a no.
const askAgain = "Ask again if it is still needed."

// Allowed answers a call that the policy lets through.
const Allowed = "Allowed by policy."

// Created answers a call about which people are asked now.
func Created(id, why string) string {
	return fmt.Sprintf("⏳ Approval requested (id: %s). %s", id, why)
}

// Pending answers a call about which people were asked before.
func Pending(id string) string {
	return fmt.Sprintf("⏳ Approval pending (id: %s). Waiting for human confirmation.", id)
}

// Approved answers a call that an approval lets through.
func Approved(by, at string) string {
	return fmt.Sprintf("Approved by %s at %s. Run it now; this approval is used.", by, at)
}

// Denied answers a call that a person has denied.
func Denied(by, reason string) string {
	return fmt.Sprintf("Approval denied by %s: %s. The call was not executed; do not repeat it, try a different approach.",
		by, orNoReason(reason))
}

// PolicyDenied answers a call that the policy denies.
func PolicyDenied(code, why string) string { return fmt.Sprintf("Policy denied: %s — %s", code, why) }

// AlreadyUsed answers a caller whose approval let an identical call through, which joined its request.
func AlreadyUsed(by, approved, used string) string {
	return fmt.Sprintf("Not run: the approval by %s at %s was already used at %s, by an identical call that was let "+
		"through instead of this one. Ask again only if the call is needed once more.", by, approved, used)
}

// Frozen answers a call that a freeze denies.
func Frozen(by, reason string) string {
	return fmt.Sprintf("Frozen by %s: %s. Nothing runs until a person lifts it; do not retry.", by,
		strings.TrimRight(reason, ". "))
}

// Granted answers a call that a grant lets through, which was made for a time, 0 for the session, and has so many uses
// left; below 0: any number.
func Granted(by string, lasts time.Duration, left int) string {
	while, of := duration(lasts), ""
	if h := int64(lasts / time.Hour); lasts == 0 {
		while = "this session"
	} else if lasts%time.Hour == 0 && h > 0 {
		while = count(h, "hour")
	}
	if left >= 0 {
		of = " (" + count(int64(left), "use") + " left)"
	}
	return fmt.Sprintf("Allowed: %s approved this for %s%s.", by, while, of)
}

// maxEditedArgs is how many characters of the approved args a caller is told who asked for others.
const maxEditedArgs = 2000

// Edited answers a call in whose place other args were approved.
func Edited(by string, args []byte) string {
	return fmt.Sprintf("Not as asked. %s approved these arguments instead: %s. Call again with exactly them.", by,
		legible.Cut(string(args), maxEditedArgs))
}

// Proposed answers a call in whose place other args wait for approval.
func Proposed(by string, args []byte) string {
	return fmt.Sprintf("Not as asked. %s proposes these arguments instead, which wait for approval: %s. Call again "+
		"with exactly them.", by, legible.Cut(string(args), maxEditedArgs))
}

// EditedNote tells, beside a result, that other args ran than were asked for, and why.
func EditedNote(by string, args []byte, reason string) string {
	note := fmt.Sprintf("%s changed the arguments and approved these: %s.", by, legible.Cut(string(args), maxEditedArgs))
	if reason != "" {
		note += " Reason: " + strings.TrimRight(reason, ". ") + "."
	}
	return note
}

// ToolChange is what the message of a request about a changed tool says of the tool that was known.
type ToolChange struct {
	Tool       string
	AcceptedBy string // "": it was seen first At
	At         string
}

func (c ToolChange) String() string {
	seen := "first seen at " + c.At
	if c.AcceptedBy != "" {
		seen = "accepted by " + c.AcceptedBy + " at " + c.At
	}
	return fmt.Sprintf("The description, schema or annotations of %s are not those %s; approving accepts the tool as it "+
		"is now.", c.Tool, seen)
}

// toolChange matches what [ToolChange.String] writes, which requests are stored with.
var toolChange = regexp.MustCompile(`^The description, schema or annotations of (.+) are not those ` +
	`(?:first seen|accepted by (.+)) at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z); ` +
	`approving accepts the tool as it is now\.$`)

// ReadToolChange reads the message of a request about a changed tool, so that people can be told it in their language
// and with the time as they read times; false: it is another message.
func ReadToolChange(message string) (c ToolChange, ok bool) {
	m := toolChange.FindStringSubmatch(message)
	if m == nil {
		return c, false
	}
	return ToolChange{Tool: m[1], AcceptedBy: m[2], At: m[3]}, true
}

func orNoReason(s string) string {
	if s == "" {
		return "no reason given"
	}
	return s
}

// tellFor tells how long a time set lasted, as it was set: while a store's time is worked off to meet the
// machine's clock, it lasts a hundredth longer than that by the clock.
func tellFor(d time.Duration) string {
	if set := (d - d/100).Round(time.Minute); d%time.Minute != 0 && set > 0 && (d-d/100-set).Abs() < 10*time.Millisecond {
		d = set
	}
	return duration(d)
}

// duration tells d in whole minutes, or else in seconds.
func duration(d time.Duration) string {
	if m := int64(d / time.Minute); d%time.Minute == 0 && m > 0 {
		return count(m, "minute")
	}
	return count(int64(d.Round(time.Second)/time.Second), "second")
}

func count(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
