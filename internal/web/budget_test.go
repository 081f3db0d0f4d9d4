package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/budget"
)

// Pages take from the same budgets as a person's requests over the API, each person from their own. What only takes
// something back is never refused.
func TestRule12_PagesTakeFromTheirReadersBudgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pages.Budgets = budget.NewRegistry(budget.Options{Now: w.clock.Now})
	hana, ken := budget.Principal{Name: "hana"}, budget.Principal{Name: "ken"}
	w.pages.Budgets.Replace(map[budget.Principal]budget.Limits{
		hana: {Calls: budget.Rate{Count: 20, Per: time.Minute}, Bytes: budget.Rate{Count: 1 << 20, Per: time.Minute},
			Streams: 1},
		ken: budget.DefaultPerson,
	})
	first, second := w.ask("pay", `{"n":1}`), w.ask("pay", `{"n":2}`)
	_, next, closeIt := w.events("person=hana")
	defer closeIt()
	if next() != "open" {
		t.Error("no stream")
	}
	if status, _, closeIt := w.events("person=hana"); status != http.StatusTooManyRequests {
		t.Errorf("a second stream: %d", status)
	} else {
		closeIt()
	}
	for range 18 {
		w.get("hana", "/").is(http.StatusOK)
	}
	r := w.get("hana", "/").is(http.StatusTooManyRequests).has("Over the budget of calls")
	if r.header.Get("Retry-After") == "" {
		t.Error("no time is named to try again")
	}
	w.get("ken", "/").is(http.StatusOK)
	w.get("", "/assets/app.css").is(http.StatusOK)
	if err := w.pages.Budgets.Account(hana).Take(budget.Calls, 1); approval.CodeOf(err) != approval.CodeRateLimited {
		t.Errorf("over the API: %v", err)
	}
	version := func(id string) string { return w.request(id).Version() }
	w.post("hana", "/decide", url.Values{"do": {"approve"}, "pick": {w.pick(first)},
		"back": {"/"}}).is(http.StatusTooManyRequests)
	w.stands(first, approval.Pending)
	w.post("hana", "/decide", url.Values{"do": {"deny"}, "pick": {w.pick(first)}, "back": {"/"}}).is(http.StatusSeeOther)
	w.stands(first, approval.Denied)
	w.post("hana", "/r/"+second+"/decide", url.Values{"do": {"deny"}, "v": {version(second)}}).is(http.StatusSeeOther)
	w.stands(second, approval.Denied)
	w.post("hana", "/people/freeze", url.Values{"agent": {"bot"}, "reason": {"strange"}}).is(http.StatusSeeOther)

	w.clock.Advance(10 * time.Minute)
	long := url.Values{"tool": {strings.Repeat("a", 1<<20)}}
	w.post("hana", "/policy/try", long)
	w.post("hana", "/policy/try", long).is(http.StatusTooManyRequests).has("Over the budget of bytes")
}

// A path that is written wrong would be refused when it matters.
func TestWhatTakesBackIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	there := map[string]bool{}
	for _, rt := range w.pages.table() {
		there[rt.path] = there[rt.path] || rt.method == http.MethodPost
	}
	for path := range takesBack {
		if !there[path] {
			t.Errorf("no form is posted to %s", path)
		}
	}
}

// What a browser wishes for is read as far as a browser says it.
func TestLongWishesForLanguagesAreNotRead(t *testing.T) {
	t.Parallel()
	for wish, want := range map[string]string{
		"ja": "ja", "th," + strings.Repeat("en;q=0.1,", 100): "th",
		"ja," + strings.Repeat("en;q=0.1,", 200): "en", strings.Repeat("ja,", 20_000): "en",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Language", wish)
		if got := languageOf(r).Tag(); got != want {
			t.Errorf("%d bytes that begin with %.10q: %s, want %s", len(wish), wish, got, want)
		}
	}
}
