package web

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth"
	"countersign/internal/auth/signin"
	"countersign/internal/history/export"
	"countersign/internal/testkit"
)

// strangers is what strangers write: a script, hidden characters, a formula.
const strangers = "=HYPERLINK(\"http://evil.example\")<script>alert(1)</script>\u202e\u200b\x07"

// fillRecords makes requests in every state, with a push that failed.
func fillRecords(w *world) {
	w.t.Helper()
	denied := w.ask("pay", `{"to":"abc"}`)
	w.decided(denied, approval.Denied, strangers)
	w.ask("deploy", `{"to":"abc"}`)
	w.failedPush(denied)
}

// decided has hana decide.
func (w *world) decided(id string, status approval.Status, reason string) {
	w.t.Helper()
	err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		ok, err := tx.Resolve(approval.Resolution{ID: id, Status: status, At: tx.Now(), By: "hana", Via: approval.ViaWeb,
			Reason: reason,
			UseBy:  tx.Now().Add(time.Hour)})
		if err == nil && !ok {
			err = fmt.Errorf("%s is not decided", id)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// failedPush is one more push about a request, which has failed.
func (w *world) failedPush(request string) (id string) {
	w.t.Helper()
	err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		id = tx.NewID()
		return tx.InsertNotification(approval.Notification{ID: id, ApprovalID: request, Channel: "line", Recipient: "U1",
			Kind: approval.KindReminder, Status: approval.Failed, Attempt: 3, Error: "rate_limited: " + strangers,
			NextAttemptAt: tx.Now(), CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// manyEvents appends n events.
func (w *world) manyEvents(n int) {
	w.t.Helper()
	err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		for i := range n {
			if _, err := tx.Append(approval.Event{Type: approval.EventDecision, Actor: fmt.Sprint("p", i%7),
				Decision: "approve"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// ids are the ids of the requests that a page links to, in its order.
func (r reply) ids() (all []string) {
	for _, m := range regexp.MustCompile(`<h2 id="r-([0-9A-Z]{26})">`).FindAllStringSubmatch(r.body, -1) {
		all = append(all, m[1])
	}
	return all
}

// seqs are the numbers of the events on a page.
func (r reply) seqs() (all []string) {
	for _, m := range regexp.MustCompile(`<h2 id="e-([0-9]+)">`).FindAllStringSubmatch(r.body, -1) {
		all = append(all, m[1])
	}
	return all
}

// next is the address of the next page, "" for none.
func (r reply) next() string {
	m := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(r.body)
	if m == nil {
		return ""
	}
	return html.UnescapeString(m[1])
}

var recordPaths = []string{"/history", "/audit", "/notifications"}

func TestRecordsAreForThoseWhoMayReadThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for person, may := range map[string][]string{"hana": recordPaths, "root": recordPaths, "ken": {"/history"},
		"guest": nil} {
		menu := w.get(person, "/sessions").is(http.StatusOK)
		for _, path := range recordPaths {
			want := http.StatusForbidden
			link := `<a href="` + path + `"`
			if slices.Contains(may, path) {
				want = http.StatusOK
				menu.has(link)
			} else {
				menu.lacks(link)
			}
			w.get(person, path).is(want)
			w.get(person, path+"/export?format=csv").is(want)
		}
	}
	for _, path := range recordPaths {
		w.get("", path).is(http.StatusSeeOther)
		w.get("", path+"/export?format=csv").is(http.StatusSeeOther)
	}
	failed := w.failedPush(w.ask("pay", `{}`))
	for _, person := range []string{"ken", "guest"} {
		w.post(person, "/notifications/"+failed+"/retry", url.Values{}).is(http.StatusForbidden)
	}
}

func TestTheHistoryIsSearched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.ask("pay", `{"n":1}`, func(c *approval.Call) { c.Server = "bank" })
	w.clock.Advance(24 * time.Hour)
	second := w.ask("deploy", `{"n":2}`, func(c *approval.Call) { c.Agent = "other" })
	w.decided(second, approval.Denied, "not on a Friday")
	w.clock.Advance(24 * time.Hour)
	third := w.ask("pay", `{"n":3}`)
	w.decided(third, approval.Approved, "")
	for query, want := range map[string][]string{
		"": {third, second, first}, "tool=pay": {third, first}, "tool=bank/pay": {first}, "agent=other": {second},
		"person=hana": {third, second}, "person=ken": nil, "risk=medium": {third, first}, "risk=high": nil, "risk=low": nil,
		"status=approved": {third},
		"text=friday":     {second}, "text=%25": nil, "correlation=none": nil, "from=2026-11-23": {third},
		"to=2026-11-21": nil, "from=2026-11-22&to=2026-11-22": {second}, "tool=pay&person=hana&agent=bot": {third},
		"tool=&agent=&person=&risk=&status=&text=&correlation=&from=&to=": {third, second, first}, "after=" +
			third: {second, first},
		"text=' OR 1=1 --": nil,
	} {
		// The first was expired by the time of the last.
		if query == "to=2026-11-21" {
			want = []string{first}
		}
		got := w.get("hana", "/history?"+strings.ReplaceAll(query, " ", "+")).is(http.StatusOK)
		if !slices.Equal(got.ids(), want) {
			t.Errorf("%s: got %v, want %v", query, got.ids(), want)
		}
		if len(want) == 0 {
			got.has("Nothing found.")
		}
		file := w.get("hana", "/history/export?format=csv&"+strings.ReplaceAll(strings.ReplaceAll(query, " ", "+"), "after="+
			third, "")).is(http.StatusOK)
		rows, err := csv.NewReader(strings.NewReader(file.body)).ReadAll()
		if err != nil || !strings.HasPrefix(query, "after=") && len(rows) != len(want)+1 {
			t.Errorf("%s: exports %d rows, want %d: %v", query, len(rows)-1, len(want), err)
		}
	}
	w.get("hana", "/history").has(`href="/r/`+first+`"`, "bank/pay", "not on a Friday")
}

// A day is the reader's, from its first moment to before the first of the next.
func TestDaysAreTheReadersOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // 2026-11-21 10:00 UTC is 19:00 in Tokyo
	w.clock.Advance(5*time.Hour - time.Millisecond)
	last := w.ask("pay", `{"n":1}`)
	w.clock.Advance(time.Millisecond)
	next := w.ask("pay", `{"n":2}`) // midnight in Tokyo
	for query, want := range map[string][]string{"from=2026-11-21&to=2026-11-21": {last}, "from=2026-11-22": {next},
		"to=2026-11-21": {last},
		"to=2026-11-22": {next, last}} {
		if got := w.get("yuki", "/history?"+query).is(http.StatusOK).ids(); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
	if got := w.get("ken", "/history?to=2026-11-21").ids(); len(got) != 2 {
		t.Errorf("in UTC both are of the 21st, got %v", got)
	}
	w.get("yuki", "/history").has(" 00:00<")
	w.get("yuki", "/history/export?format=ndjson").is(http.StatusOK).has(`"requested_at":"2026-11-21T15:00:00.000Z"`)
}

func TestADayBeginsLaterWhereMidnightIsLeftOut(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("America/Sao_Paulo")
	if err != nil {
		t.Fatal(err)
	}
	got := firstMoment(time.Date(2018, 11, 4, 0, 0, 0, 0, time.UTC), zone)
	if want := time.Date(2018, 11, 4, 3, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("got %v, want %v", got.UTC(), want)
	}
}

// What is wrong is said beside what was typed, which is kept, and nothing is looked for or exported.
func TestWrongFiltersAreSaidAndKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ask("pay", `{"n":1}`)
	id := strings.Repeat("0", 26)
	for address, says := range map[string]string{
		"/history?risk=huge&agent=bot":                        "“huge” is not one of these.",
		"/history?status=open&agent=bot":                      "“open” is not one of these.",
		"/history?from=yesterday&agent=bot":                   "“yesterday” is not a day such as 2026-11-21.",
		"/history?from=2026-02-30&agent=bot":                  "“2026-02-30” is not a day",
		"/history?to=0001-01-01&agent=bot":                    "“0001-01-01” is not a day",
		"/history?agent=bot&from=2026-11-22&to=2026-11-21":    "The last day is before the first.",
		"/history?tool=a/b/c&agent=bot":                       "“a/b/c” cannot be searched for here.",
		"/history?agent=bot&text=" + strings.Repeat("x", 201): "cannot be searched for here.",
		"/history?agent=bot&text=%ff":                         "cannot be searched for here.",
		"/history?agent=bot&color=red":                        "The address of this page has a filter that does not exist.",
		"/history?agent=bot&agent=other":                      "The address of this page",
		"/history?agent=bot&after=x":                          "The address of this page",
		"/history?agent=bot&after=" + id + "'":                "The address of this page",
		"/history?agent=bot&format=csv":                       "The address of this page",
		"/history?agent=bot&%zz":                              "The address of this page",
		"/audit?type=none&agent=bot":                          "“none” is not one of these.",
		"/audit?request=abc&agent=bot":                        "“abc” cannot be searched for here.",
		"/audit?agent=bot&after=-1":                           "The address of this page",
		"/audit?agent=bot&after=99999999999999999999":         "The address of this page",
		"/notifications?person=ken":                           "No person called “ken” can be reached in a chat.",
		"/notifications?kind=letter":                          "“letter” is not one of these.",
	} {
		r := w.get("hana", address).is(http.StatusBadRequest).has(says).lacks("<article", "Export as CSV",
			"Nothing was found")
		if strings.Contains(address, "agent=bot") && !strings.Contains(address, "%zz") {
			r.has(`value="bot"`)
		}
		path, query, _ := strings.Cut(address, "?")
		if !strings.Contains(query, "format=") {
			w.get("hana", path+"/export?format=csv&"+query).is(http.StatusBadRequest)
		}
	}
	for _, format := range []string{"", "format=", "format=xml", "format=csv&format=csv"} {
		w.get("hana", "/history/export?"+format).is(http.StatusBadRequest)
	}
}

func TestStrangersTextIsShownAndRunsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fillRecords(w)
	for _, path := range []string{"/history", "/audit", "/notifications", "/history?text=" + url.QueryEscape(strangers),
		"/history?risk=" + url.QueryEscape(strangers),
		"/audit?actor=" + url.QueryEscape(strangers), "/notifications?person=" + url.QueryEscape(strangers)} {
		r := w.get("hana", path).lacks("<script>alert")
		if !strings.Contains(path, "?") { // what somebody has typed stands in its field as it was typed
			r.is(http.StatusOK).lacks("\u202e", "\u200b", "\x07")
		}
	}
	w.get("hana", "/history").has("⟨U&#43;202E⟩", "&lt;script&gt;")
	for _, path := range recordPaths {
		rows, err := csv.NewReader(strings.NewReader(
			w.get("hana", path+"/export?format=csv").is(http.StatusOK).body)).ReadAll()
		if err != nil || len(rows) < 2 {
			t.Fatalf("%s: %d rows, %v", path, len(rows), err)
		}
		for _, row := range rows {
			for _, c := range row {
				if c != "" && strings.ContainsRune("=+-@\t\r", rune(c[0])) {
					t.Errorf("%s: the cell %q is a formula", path, c)
				}
			}
		}
	}
}

func TestTheAuditLogIsSearched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.ask("pay", `{"password":"swordfish"}`)
	w.ask("deploy", `{}`, func(c *approval.Call) { c.Agent = "other" })
	w.manyEvents(2)
	for query, want := range map[string]int{"type=hitl_decision": 2, "actor=p1": 1, "decision=approve": 2,
		"agent=other": 1, "tool=pay": 1,
		"request=" + id: 1, "risk=medium": 1, "risk=critical": 1, "risk=low": 0, "actor=p": 0, "from=2026-11-22": 0,
		"to=2026-11-20": 0, "correlation=none": 0} {
		if got := w.get("hana", "/audit?"+query).is(http.StatusOK).seqs(); len(got) != want {
			t.Errorf("%s: %d events, want %d", query, len(got), want)
		}
		lines := strings.Count(w.get("hana", "/audit/export?format=ndjson&"+query).is(http.StatusOK).body, "\n")
		if lines != want {
			t.Errorf("%s: %d lines are exported, want %d", query, lines, want)
		}
	}
	w.get("hana", "/audit").lacks("swordfish").has(`href="/r/` + id + `"`)
	w.get("hana", "/audit/export?format=ndjson").lacks("swordfish")
}

// All that matches is on one page after the other, once, and in one file, in the same order.
func TestPagesAndFilesHaveAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 3*exportRows + 7
	w.manyEvents(n)
	var paged []string
	for path := "/audit?decision=approve"; path != ""; {
		r := w.get("hana", path).is(http.StatusOK)
		if len(r.seqs()) > rowsShown {
			t.Fatalf("%s has %d rows", path, len(r.seqs()))
		}
		paged = append(paged, r.seqs()...)
		if path = r.next(); path != "" && !strings.Contains(path, "decision=approve") {
			t.Fatalf("the filter is lost in %s", path)
		}
	}
	if len(paged) != n || len(slices.Compact(slices.Clone(paged))) != n {
		t.Fatalf("%d rows, want %d", len(paged), n)
	}
	r := w.get("hana", "/audit/export?format=ndjson&decision=approve").is(http.StatusOK)
	var filed []string
	for line := range strings.Lines(r.body) {
		var e struct{ Seq int64 }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		filed = append(filed, fmt.Sprint(e.Seq))
	}
	if !slices.Equal(filed, paged) {
		t.Errorf("the file has other rows than the pages")
	}
	if got := r.header.Get(
		"Content-Disposition"); got != `attachment; filename="countersign-audit-20261121T100000Z.ndjson"` {
		t.Errorf("Content-Disposition: %s", got)
	}
}

// However little is found, a page looks at so many rows and no more, and leads on from there.
func TestAPageLooksAtSoManyRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.manyEvents(2*rowsLooked + 100)
	r := w.get("hana", "/audit?agent=bot").is(http.StatusOK).has("Nothing found in the 10,000 rows", "Search further back")
	pages := 1
	for path := r.next(); path != ""; pages++ {
		r = w.get("hana", path).is(http.StatusOK)
		path = r.next()
	}
	if pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
	r.has("Nothing found.")
	if got := w.get("hana", "/audit/export?format=ndjson&agent=bot").is(http.StatusOK).body; got != "" {
		t.Errorf("exported %q", got)
	}
}

// What is written while an export is on its way neither moves its rows nor comes twice.
func TestAnExportStandsStillWhileRowsAreWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 5 * exportRows
	w.manyEvents(n)
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
				_, err := tx.Append(approval.Event{Type: approval.EventDecision, Actor: "later"})
				return err
			})
		}
		done <- err
	}()
	rows, err := csv.NewReader(strings.NewReader(w.get("hana", "/audit/export?format=csv&decision=approve").is(http.StatusOK).body)).ReadAll()
	cancel()
	if failed := testkit.Receive(t, "the end of the writing", done); err != nil || failed != nil || len(rows) != n+1 {
		t.Errorf("%d rows, want %d: %v, %v", len(rows), n+1, err, failed)
	}
}

func TestTheNotificationLogIsSearched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir.Replace(agentsOfTests, append(slices.Clone(peopleOfTests), auth.Person{Name: "line-reader",
		Addresses: map[string]string{"line": "U1"}}))
	id := w.ask("pay", `{}`) // one card
	w.failedPush(id)
	for query, want := range map[string]int{"": 2, "status=failed": 1, "kind=request": 1, "kind=reminder": 1,
		"channel=line": 2, "channel=slack": 0,
		"person=line-reader": 2, "from=2026-11-22": 0, "status=failed&kind=request": 0} {
		r := w.get("hana", "/notifications?"+query).is(http.StatusOK)
		if got := strings.Count(r.body, "<article"); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	w.get("hana", "/notifications").has("line-reader (U1)", "rate_limited: ")
}

func TestAFailedPushIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failed := w.failedPush(w.ask("pay", `{}`))
	back := "/notifications?status=failed"
	again := "/notifications/" + failed + "/retry"
	w.get("hana", back).has(`action="`+again+`"`, `value="`+back+`"`)
	r := w.post("hana", again, url.Values{"back": {back}}).is(http.StatusSeeOther)
	if got := r.header.Get("Location"); got != back {
		t.Errorf("leads to %s", got)
	}
	n, err := w.outbox.Notification(w.ctx, failed)
	if err != nil || n.Status != approval.Queued {
		t.Errorf("it is %s, %v", n.Status, err)
	}
	w.get("hana", "/audit?type=notification_retrying&actor=hana").has("asked_for")
	w.get("hana", "/notifications").has("Next try").lacks(again)
	// once is enough
	w.post("hana", again, url.Values{"back": {"https://evil.example"}}).is(http.StatusSeeOther)
	w.post("hana", "/notifications/"+strings.Repeat("0", 26)+"/retry", url.Values{}).is(http.StatusNotFound)
	w.send("hana", http.MethodPost, again, url.Values{}, "Sec-Fetch-Site", "cross-site").is(http.StatusForbidden)
	w.get("hana", again).is(http.StatusNotFound)
}

// A file of which not all could be had breaks off; one of which nothing could be had is refused.
func TestWhoLosesTheRoleGetsNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.manyEvents(2 * exportRows)
	x := w.lookedAtBy("person=hana")
	steps := 0
	err := w.pages.exports.stream(w.ctx, x, admins, func() bool { return false }, func(context.Context, string) (string,
		error) {
		steps++
		w.dir.Replace(agentsOfTests, []auth.Person{{Name: "hana"}})
		return "1", nil
	})
	if approval.CodeOf(err) != approval.CodeNotAdmin || steps != 1 {
		t.Errorf("%d steps, %v", steps, err)
	}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("it ended with %v", p)
		}
	}()
	x = w.lookedAtBy("person=hana")
	_ = w.pages.exports.stream(w.ctx, x, admins, func() bool { return true }, func(context.Context, string) (string,
		error) {
		return "1", nil
	})
}

// lookedAtBy is what a page for everybody who is signed in gets of a browser with a cookie.
func (w *world) lookedAtBy(cookie string) *exchange {
	w.t.Helper()
	x := &exchange{s: w.pages, r: (&http.Request{URL: &url.URL{Path: "/audit/export"}, Method: http.MethodGet,
		Header: http.Header{"Cookie": {cookie}}, Host: "localhost"}).WithContext(w.ctx)}
	if err := x.admit(people); err != nil {
		w.t.Fatal(err)
	}
	return x
}

// A download goes on while its session does, and keeps it alive no longer than it would be without.
func TestADownloadEndsWithItsSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after func(w *world, secret string)
		steps int
	}{
		"signed out": {func(w *world, secret string) { w.ended(w.signIns.SignOut(w.ctx, secret)) }, 1},
		"ended by its owner": {func(w *world, _ string) {
			_, err := w.signIns.EndOthers(w.ctx, "hana", "")
			w.ended(err)
		}, 1},
		"removed": {func(w *world, _ string) { w.dir.Replace(agentsOfTests, peopleOfTests[1:]) }, 1},
		"idle":    {func(w *world, _ string) { w.clock.Advance(signin.IdleLasts/2 + time.Second) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Sessions = SignedIn(o.SignIn) })
			secret, _, err := w.signIns.Start(w.ctx, "hana", signin.MethodLink, "", signin.Origin{Address: "127.0.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			x, steps := w.lookedAtBy("countersign="+secret), 0
			err = w.pages.exports.stream(w.ctx, x, people, func() bool { return false }, func(context.Context, string) (string,
				error) {
				if steps++; steps > 9 {
					t.Fatal("it goes on")
				}
				c.after(w, secret)
				return "1", nil
			})
			if approval.CodeOf(err) != approval.CodeUnauthorized || steps != c.steps {
				t.Errorf("%d steps, %v", steps, err)
			}
		})
	}
}

func (w *world) ended(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestOnePersonHasTwoExportsAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var done []func()
	for range exportsAtOnce {
		d, err := w.pages.exports.begin("hana")
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, d)
	}
	w.get("hana", "/audit/export?format=csv").is(http.StatusTooManyRequests)
	w.get("root", "/audit/export?format=csv").is(http.StatusOK)
	done[0]()
	w.get("hana", "/audit/export?format=csv").is(http.StatusOK)
	done[1]()
	if len(w.pages.exports.now) != 0 {
		t.Errorf("kept: %v", w.pages.exports.now)
	}
}

// What a cookie of this machine is enough for takes none of its owner's.
func TestRule12_ExportsOfASessionOfThisMachineAreItsOwn(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	cookie, _ := w.signedInWithKey("root")
	for range exportsAtOnce {
		done, err := w.pages.exports.begin("root")
		if err != nil {
			t.Fatal(err)
		}
		defer done()
	}
	w.get("", "/audit/export?format=csv", cookie...).is(http.StatusOK)
}

func TestAHeadOfAnExportHasNoRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fillRecords(w)
	for _, f := range []export.Format{export.CSV, export.NDJSON} {
		r := w.send("hana", http.MethodHead, "/history/export?format="+string(f), nil).is(http.StatusOK)
		if r.body != "" || !strings.HasSuffix(r.header.Get("Content-Disposition"), "."+string(f)+`"`) {
			t.Errorf("%q, %s", r.body, r.header.Get("Content-Disposition"))
		}
	}
}

// Whatever stands in the address: a page, a refusal, and never a failure of the gate's own.
func FuzzFilters(f *testing.F) {
	w := newWorld(f)
	fillRecords(w)
	for _, s := range []string{"", "tool=pay", "from=2026-11-21&to=2026-11-21", "after=0", "text=%00", "person=" +
		url.QueryEscape(strangers), "%", "a;b", "risk=low&risk=low"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		u := url.URL{RawQuery: query}
		if _, err := url.Parse("/history?" + query); err != nil || strings.ContainsAny(query, "# \r\n") || u.String() == "" {
			return
		}
		w.t = t
		for _, path := range recordPaths {
			if r := w.get("hana", path+"?"+query); r.status != http.StatusOK && r.status != http.StatusBadRequest {
				t.Errorf("%s?%s: %d", path, query, r.status)
			}
		}
	})
}
