package app

import (
	"fmt"
	"time"

	"countersign/approval"
	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
)

// say says one of the gate's phrases in a person's language, with times as they read them.
func say(to approval.Actor, r locale.Reader, p phrases.Phrase, args ...any) string {
	l := locale.Get(to.Locale)
	words := make([]string, 0, len(args))
	for _, v := range args {
		switch v := v.(type) {
		case time.Time:
			words = append(words, l.When(v, r))
		case []string:
			words = append(words, l.List(v))
		default:
			words = append(words, fmt.Sprint(v))
		}
	}
	return l.Say(string(p), words...)
}

// maxSummed is how many bytes of args are looked through for a summary that goes with every answer.
const maxSummed = 64 << 10

// summary says in a sentence what will happen by a request, as cards do, to programs and to whoever's language is not
// known.
func (f *inForce) summary(r approval.Request) string {
	return f.summaryTo(approval.Actor{Locale: "en"}, r)
}

// summaryTo is summary to a person.
func (f *inForce) summaryTo(to approval.Actor, r approval.Request) string {
	if len(r.Args) > maxSummed {
		r.Args = nil
	}
	m := f.Load().maker
	m.Words = locale.Get(to.Locale)
	return m.Summary(r)
}

// reader is how a person who is answered now reads times: in their zone, or in the configuration's. The zone of this
// machine is of no person who is configured.
func reader(to approval.Actor, now time.Time, live *inForce) locale.Reader {
	r := locale.Reader{Now: now, Zone: to.Zone, Abroad: to.Zone == time.Local, Stays: true}
	if r.Zone == nil {
		r.Zone, r.Abroad = live.Load().cfg.Location, true
	}
	return r
}
