package locale

import (
	"regexp"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/message"
	"countersign/internal/locale/phrases"
)

// Why tells why a person is asked, by the message that a request is stored with. One of the gate's own is told in the
// language, and a time in it as when tells times; a rule's is told as it is.
func (l *Language) Why(why, target string, when func(time.Time) string) string {
	for _, p := range []phrases.Phrase{phrases.SayNoRule, phrases.SayNeedsApproval} {
		if why == p.Say("tool", target) {
			return l.Say(string(p), "tool", target)
		}
	}
	c, ok := message.ReadToolChange(why)
	at, err := time.Parse(approval.TimeFormat, c.At)
	switch {
	case !ok || err != nil || c.Tool != target:
		return why
	case c.AcceptedBy != "":
		return l.Say(string(phrases.SayToolAccepted), "tool", target, "who", c.AcceptedBy, "when", when(at))
	}
	return l.Say(string(phrases.SayToolSeen), "tool", target, "when", when(at))
}

// Rule is what a rule is called. The rules of the presets, such as "preset/files: writing files", have a name in each
// language behind that of their preset; any other is called as it is in the configuration.
func (l *Language) Rule(name string) string {
	preset, rule, found := strings.Cut(name, ": ")
	if !found || !strings.HasPrefix(preset, "preset/") {
		return name
	}
	id := "presets_" + strings.Trim(notInIDs.ReplaceAllString(rule, "_"), "_")
	if said := l.Say(id); said != id {
		return preset + ": " + said
	}
	return name
}

// notInIDs are the characters of a rule's name that an id has not.
var notInIDs = regexp.MustCompile("[^a-z0-9]+")

// forPrograms is a time as the gate writes it for programs.
var forPrograms = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\b`)

// TimesIn is a sentence that the gate wrote for programs, with its times as when tells them. It is nothing for texts
// with arguments in them, which are shown as they are.
func TimesIn(sentence string, when func(time.Time) string) string {
	return forPrograms.ReplaceAllStringFunc(sentence, func(found string) string {
		t, err := time.Parse(approval.TimeFormat, found)
		if err != nil {
			return found
		}
		return when(t)
	})
}
