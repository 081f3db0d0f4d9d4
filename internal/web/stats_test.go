package web

import (
	"context"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/approval"
)

// statsWorld has a record: five calls of two tools, of which one has a hostile name.
func statsWorld(t testing.TB) *world {
	t.Helper()
	w := adminWorld(t)
	w.pages.record.history = w.store
	w.fillStats()
	return w
}

func (w *world) fillStats() {
	decide := func(id, by string, approve bool) {
		who, _ := w.dir.ByName(by)
		if _, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: approve, By: who,
			Via: approval.ViaWeb}); err != nil {
			w.t.Fatal(err)
		}
	}
	one, two, three := w.ask("pay", `{"n":1}`), w.ask("pay", `{"n":2}`), w.ask("wire", `{"n":3}`)
	w.clock.Advance(4 * time.Minute)
	decide(one, "hana", true)
	decide(two, "ken", false)
	w.clock.Advance(time.Minute)
	decide(three, "hana", true)
	w.ask("odd", `{}`)
	w.clock.Advance(time.Hour)
	w.ask("late", `{}`)
	w.clock.Advance(time.Minute)
	if _, err := w.gate.Expire(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

// svg holds that every picture of a page is one, and returns how many there are.
func (r reply) svg() (n int) {
	r.t.Helper()
	for _, rest := range strings.Split(r.body, "<svg ")[1:] {
		text, _, whole := strings.Cut(rest, "</svg>")
		d := xml.NewDecoder(strings.NewReader("<svg " + text + "</svg>"))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil || !whole {
				r.t.Fatalf("no picture: %v in %s", err, text)
			}
		}
		n++
	}
	return n
}

func TestStatsHaveChartsAndTables(t *testing.T) {
	t.Parallel()
	w := statsWorld(t)
	r := w.get("ken", "/stats").is(http.StatusOK).harmless()
	r.has("By tool", "By rule", "By agent", "By person", "4 min", "5 min", "&lt;b onmouseover", "(no rule)", `role="img"`,
		"<title ", "<desc ", "<td class=\"num\">2</td>",
		`class="bar-denied"`, `<option value="30" selected>The last 30 days</option>`)
	r.lacks("style=", "<b onmouse")
	if n := r.svg(); n < 8 {
		t.Errorf("%d pictures", n)
	}
	if texts := strings.Count(r.body, `<details id="numbers-`); texts != 4 {
		t.Errorf("%d tables behind charts", texts)
	}
	w.get("mei", "/stats").has("詢問人員的次數", "依工具")
	w.get("guest", "/stats").is(http.StatusForbidden)
	w.get("guest", "/").lacks(`"/stats"`)
}

func TestStatsOfATime(t *testing.T) {
	t.Parallel()
	w := statsWorld(t)
	w.get("hana", "/stats?agent=other").has("Nobody was asked in this period.")
	w.get("hana", "/stats?days=custom&since=2026-11-20&until=2026-11-20").has("Nobody was asked")
	// the 21st of Japan ends at 15:00 UTC, and these were asked before
	w.get("yuki", "/stats?days=custom&since=2026-11-21&until=2026-11-21").has("ツール別", "明日 00:00")
	for _, q := range []string{"days=8", "days=x", "days=custom", "days=custom&since=2026-11-22&until=2026-11-20",
		"days=custom&since=0001-01-01&until=2026-11-20",
		"days=custom&since=%3Cscript%3E&until=2026-11-20", "agent=%3Cscript%3E"} {
		w.get("hana", "/stats?"+q).is(http.StatusBadRequest).harmless()
	}
}

// A record that takes too long to read is said to, and nothing is logged as broken.
func TestStatsThatTakeTooLong(t *testing.T) {
	t.Parallel()
	w := statsWorld(t)
	w.pages.record.history = slowHistory{w}
	w.pages.record.patience = time.Millisecond
	w.get("hana", "/stats").is(http.StatusOK).has("That took too long.").lacks("By tool")
}

// Of a long record the page counts the newest part, says so, and leads to what is older and to the whole.
func TestStatsOfALongRecordComeInParts(t *testing.T) {
	t.Parallel()
	w := statsWorld(t)
	for range 3 {
		w.clock.Advance(time.Hour)
		if err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
			return manyRequests(tx, 600)
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Advance(time.Minute)
	const said, whole = "The record is long", "Count the whole time"
	w.pages.record.pieceTime = 0 // one step of each kind
	parts, asked := 1, 0
	link := regexp.MustCompile(`<a class="button" href="([^"]+)">([^<]+)</a>`)
	total := regexp.MustCompile(`<dt>Asked</dt><dd>([0-9]+)</dd>`)
	for at := "/stats?days=7&agent=bot"; at != ""; parts++ {
		r := w.get("hana", at).is(http.StatusOK).harmless()
		n, err := strconv.Atoi(total.FindStringSubmatch(r.body)[1])
		if err != nil || parts > 4 {
			t.Fatalf("part %d: %v", parts, err)
		}
		asked, at = asked+n, ""
		var all string
		for _, found := range link.FindAllStringSubmatch(r.body, -1) {
			switch to := html.UnescapeString(found[1]); found[2] {
			case "The part before it":
				at = to
			case whole:
				all = to
			}
		}
		r.has(`<option value="7" selected>`)
		if strings.Contains(r.body, said) != (at != "") || all != "/stats?agent=bot&days=7&whole=true" {
			t.Errorf("part %d goes on at %q, and all is at %q", parts, at, all)
		}
	}
	if parts < 3 || asked != 1800+5 {
		t.Errorf("%d asked in %d parts", asked, parts-1)
	}
	w.get("hana", "/stats?agent=bot&days=7&whole=true").has("<dt>Asked</dt><dd>1805</dd>").lacks(said, whole)
	w.get("mei", "/stats?days=7").has("記錄很多")
	w.pages.record.pieceTime = time.Hour
	w.get("hana", "/stats?agent=bot&days=7").has("<dt>Asked</dt><dd>1805</dd>").lacks(said, whole)
	for _, q := range []string{"before=x", "before=2026-11-21T10:00:00Z", "from=x&before=2026-11-21T10:00:00Z",
		"from=2026-11-21T10:00:00Z&before=2026-11-21T10:00:00Z", "from=0001-01-01T10:00:00Z&before=2026-11-21T10:00:00Z"} {
		w.get("hana", "/stats?"+q).is(http.StatusBadRequest).harmless()
	}
}

// manyRequests asks for so much at one instant.
func manyRequests(tx approval.Tx, n int) error {
	for i := range n {
		r := approval.Request{ID: tx.NewID(), Agent: "bot", Tool: "pay", Args: []byte(`{}`), ArgsHash: fmt.Sprintf("%064x",
			i),
			Risk: approval.RiskMedium, ReasonCode: "approval_required", HumanMessage: "Please look.", Status: approval.Pending,
			RequestedAt: tx.Now(), ExpiresAt: tx.Now().Add(time.Hour), Scope: tx.Now().String()}
		if err := tx.InsertRequest(r); err != nil {
			return err
		}
	}
	return nil
}

// slowHistory never answers in time.
type slowHistory struct{ w *world }

func (s slowHistory) ToWall(t time.Time) time.Time    { return s.w.store.ToWall(t) }
func (s slowHistory) FromWall(t time.Time) time.Time  { return s.w.store.FromWall(t) }
func (s slowHistory) Off() time.Duration              { return s.w.store.Off() }
func (s slowHistory) Now() time.Time                  { return s.w.store.Now() }
func (slowHistory) AcceptClock(context.Context) error { return nil }
func (slowHistory) View(ctx context.Context, _ func(approval.Tx) error) error {
	<-ctx.Done()
	return ctx.Err()
}
