package web

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"countersign/approval"
)

var heardAt = regexp.MustCompile(`<body [^>]*data-live="([^"]*)"[^>]* data-quiet>`)

// hears opens a quiet page and returns where it hears of news.
func (w *world) hears(person, path string) string {
	w.t.Helper()
	page := w.get(person, path).is(http.StatusOK)
	at := heardAt.FindStringSubmatch(page.body)
	if at == nil {
		w.t.Fatalf("%s hears of nothing:\n%s", path, page.body[:400])
	}
	return html.UnescapeString(at[1])
}

func TestAPageSaysThatThereIsNews(t *testing.T) {
	t.Parallel()
	for path, event := range map[string]func(w *world){
		pathHistory:       func(w *world) { w.ask("pay", `{}`) },
		pathAudit:         func(w *world) { w.ask("pay", `{}`) },
		"/stats":          func(w *world) { w.ask("pay", `{}`) },
		"/status":         func(w *world) { w.ask("pay", `{}`) },
		"/grants":         func(w *world) { w.denied("ken", "pay", `{}`, "") },
		"/people":         func(w *world) { w.freezes("bot") },
		"/policy":         func(w *world) { w.records(approval.EventPolicyReloaded) },
		pathNotifications: func(w *world) { w.records(approval.EventNotificationSent) },
	} {
		t.Run(path, func(t *testing.T) {
			w := adminWorld(t, func(o *Options) {
				o.Status = statusOfTests
			})
			w.pages.record.history = w.store
			_, next, closeIt := w.eventsAt("person=hana", w.hears("hana", path))
			defer closeIt()
			if got := next(); got != "open" {
				t.Fatal(got)
			}
			event(w)
			if got := next(); got != "changed" {
				t.Errorf("%q", got)
			}
		})
	}
}

// freezes freezes an agent.
func (w *world) freezes(agent string) {
	w.t.Helper()
	hana, _ := w.dir.ByName("hana")
	if _, err := w.gate.Freeze(w.ctx, agent, hana, approval.ViaWeb, "it loops"); err != nil {
		w.t.Fatal(err)
	}
}

// records puts an event on record.
func (w *world) records(what approval.EventType) {
	w.t.Helper()
	if err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		_, err := tx.Append(approval.Event{Type: what, Actor: "system"})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

// What came after a page was made and before it heard, or while nobody heard, is told; what is no news for it is not.
func TestAPageIsToldOfWhatItMissed(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	at := w.hears("hana", "/policy")
	w.ask("pay", `{}`)
	_, next, closeIt := w.eventsAt("person=hana", at)
	next()
	w.records(approval.EventPolicyReloaded)
	w.ask("pay", `{"n":1}`)
	if got := next(); got != "changed" {
		t.Errorf("%q", got)
	}
	closeIt()
	for range 2 {
		_, next, closeIt := w.eventsAt("person=hana", at)
		if next(); next() != "changed" {
			t.Error("it is not told of what it missed")
		}
		closeIt()
	}
}

// Under load a page is told once: it says so until somebody looks.
func TestAPageIsToldOfNewsOnce(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	w.pages.live.check = liveEvery
	_, next, closeIt := w.eventsAt("person=hana", w.hears("hana", pathHistory))
	defer closeIt()
	next()
	w.ask("pay", `{"n":0}`)
	if got := next(); got != "changed" {
		t.Fatalf("%q", got)
	}
	w.ask("pay", `{"n":1}`)
	if got := next(); got != "here" {
		t.Errorf("%q", got)
	}
}

func TestAPageOfOneAgentIsToldOfThatAgent(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	w.pages.live.check = liveEvery
	_, next, closeIt := w.eventsAt("person=hana", w.hears("hana", pathHistory+"?agent=other"))
	defer closeIt()
	next()
	w.ask("pay", `{}`)
	if got := next(); got != "here" {
		t.Errorf("%q", got)
	}
}

// A page's news is for whom the page is for, and ends with their right to it.
func TestNewsIsForWhomThePageIsFor(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	admin := w.hears("hana", pathAudit)
	for who, want := range map[string]int{"hana": http.StatusOK, "ken": http.StatusForbidden,
		"guest": http.StatusForbidden} {
		status, _, closeIt := w.eventsAt("person="+who, admin)
		closeIt()
		if status != want {
			t.Errorf("%s: %d", who, status)
		}
	}
	_, next, closeIt := w.eventsAt("person=hana", admin)
	defer closeIt()
	next()
	w.dir.Replace(agentsOfTests, peopleOfTests[1:])
	w.ask("pay", `{}`)
	if got := next(); got != "ended" {
		t.Errorf("%q", got)
	}
}

func TestNoNewsOfWhatIsNoPage(t *testing.T) {
	t.Parallel()
	w := adminWorld(t)
	for _, q := range []url.Values{{"of": {"/nowhere"}, "since": {"1"}}, {"of": {pathHistory}},
		{"of": {pathHistory}, "since": {"x"}},
		{"of": {pathHistory}, "since": {"1"}, "agent": {nasty}}} {
		w.get("hana", pathLive+"?"+q.Encode()).is(http.StatusBadRequest)
	}
	for _, path := range []string{"/history?after=01ARZ3NDEKTSV4RRFFQ69G5FAV", "/passkeys"} {
		w.get("hana", path).lacks("data-quiet")
	}
}
