package web

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/testkit"
)

// manyWaiting is how many requests wait in the tests of a full inbox.
const manyWaiting = 10_000

// load is an agent that asks and a person who decides, as fast as the gate lets them.
type load struct {
	asked, decided atomic.Int64
	stopped        chan struct{}
	running        sync.WaitGroup
}

// loaded starts it.
func (w *world) loaded() *load {
	l := &load{stopped: make(chan struct{})}
	asked := make(chan string, 64)
	l.running.Go(func() {
		defer close(asked)
		for n := 0; ; n++ {
			answer, err := w.gate.Check(w.ctx, w.call("pay", fmt.Sprintf(`{"load":%d}`, n)))
			if err != nil {
				w.t.Error(err)
				return
			}
			l.asked.Add(1)
			select {
			case asked <- answer.Request.ID:
			case <-l.stopped:
				return
			}
		}
	})
	l.running.Go(func() {
		for id := range asked {
			_, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Via: approval.ViaWeb,
				By: approval.Actor{Kind: approval.Human, Name: "ken", Approver: true, Groups: []string{"finance"}}})
			if err != nil {
				w.t.Error(err)
				continue
			}
			l.decided.Add(1)
		}
	})
	w.t.Cleanup(l.stop)
	return l
}

func (l *load) stop() {
	select {
	case <-l.stopped:
	default:
		close(l.stopped)
	}
	l.running.Wait()
}

var cardOf = regexp.MustCompile(`href="/r/([0-9A-Z]{26})" class="open"`)

// cards are the requests on a page, each of which is there once.
func (r reply) cards() map[string]bool {
	r.t.Helper()
	ids := map[string]bool{}
	for _, m := range cardOf.FindAllStringSubmatch(r.body, -1) {
		if ids[m[1]] {
			r.t.Errorf("%s has %s twice", r.what, m[1])
		}
		ids[m[1]] = true
	}
	return ids
}

// A page does what its script does: it is fetched anew when an event says that something has changed, and never else.
// So whatever it comes to show it shows by an event.
func TestAFullInboxStaysLiveUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fill(w, manyWaiting)
	if r := w.get("hana", "/").is(http.StatusOK); len(r.cards()) != lists.MostWaiting {
		t.Errorf("the first page has %d requests", len(r.cards()))
	}
	begun := time.Now()
	status, next, closeIt := w.events("person=hana")
	defer closeIt()
	if got := next(); status != http.StatusOK || got != "open" {
		t.Fatalf("%d, %q", status, got)
	}
	l, told := w.loaded(), 0
	// comes follows the events until the page has a request, or, for none, has it no more.
	comes := func(path, id string, there bool) reply {
		t.Helper()
		for {
			if got := next(); got != "changed" {
				t.Fatalf("before %s was there=%v on %s: %q", id, there, path, got)
			}
			told++
			if r := w.get("hana", path).is(http.StatusOK); r.cards()[id] == there {
				return r
			}
		}
	}
	for n := range 2 { // beside those of the load, which are newer a moment later
		id := w.ask("wire", fmt.Sprintf(`{"urgent":%d}`, n))
		comes("/?tool=wire", id, true).has(`<input type="hidden" name="pick" value="`+w.pick(id)+`"`,
			`id="requests" data-region`, "0 of 2 approved")
		w.post("hana", "/decide", map[string][]string{"do": {"deny"}, "pick": {w.pick(id)}}).is(http.StatusSeeOther)
		comes("/?tool=wire", id, false)
		w.stands(id, approval.Denied)
	}
	l.stop()
	// One wake may stand for many commits, but the last commit has a wake after it.
	id := w.ask("pay", `{"the":"last"}`)
	want := int64(manyWaiting) + l.asked.Load() - l.decided.Load() + 1
	comes("/", id, true).has(fmt.Sprintf("%d wait", want))
	if l.asked.Load() == 0 || l.decided.Load() == 0 {
		t.Error("there was no load")
	}
	// However much happens, a page is told once in a while: what is not read yet does not pile up.
	if most := int(time.Since(begun)/liveEvery) + 1; told > most {
		t.Errorf("%d events for %d asked and %d decided, want at most %d", told, l.asked.Load(), l.decided.Load(), most)
	}
}

// deaf is a browser that reads no more than the beginning of what it is sent.
type deaf struct {
	http.ResponseWriter
	mu       sync.Mutex
	deadline time.Time
	writes   int
	limited  bool // each write had its deadline
}

func (d *deaf) Header() http.Header { return http.Header{} }
func (d *deaf) WriteHeader(int)     {}
func (d *deaf) Flush()              {}

func (d *deaf) SetWriteDeadline(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadline = at
	return nil
}

func (d *deaf) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := time.Until(d.deadline)
	d.writes++
	d.limited = (d.writes == 1 || d.limited) && !d.deadline.IsZero() && left <= liveWrite
	if d.deadline = (time.Time{}); d.writes > 1 {
		return 0, os.ErrDeadlineExceeded
	}
	return len(p), nil
}

// Who does not read is dropped, and its place is free.
func TestAPageThatDoesNotReadIsDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, ended := &deaf{}, make(chan struct{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+pathLive, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "person", Value: "hana"})
	go func() {
		w.pages.ServeHTTP(d, r)
		close(ended)
	}()
	testkit.Eventually(t, "the page is told that it is connected", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.writes > 0
	})
	w.ask("pay", `{}`)
	testkit.Receive(t, "the end of the stream", ended)
	if d.writes != 2 || !d.limited {
		t.Errorf("%d writes, with a limit each: %v", d.writes, d.limited)
	}
	w.pages.live.count.mu.Lock()
	defer w.pages.live.count.mu.Unlock()
	if len(w.pages.live.count.of) != 0 {
		t.Errorf("places that are taken: %v", w.pages.live.count.of)
	}
}
