//go:build browser

package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"countersign/approval"
	"countersign/internal/testkit"
	"countersign/internal/testkit/chromium"
)

// line is the way between a browser and the pages, which can break.
type line struct {
	to    string
	at    string
	mu    sync.Mutex
	state lineState
	turn  chan struct{} // closed when the state changes
	open  map[net.Conn]bool
}

type lineState int

const (
	lineWhole  lineState = iota
	lineCut              // connections end, and none is made
	lineSilent           // connections stand, and nothing comes through
)

// lay lays a line to the pages of w.
func lay(t *testing.T, w *world) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &line{to: strings.TrimPrefix(w.srv.URL, "http://"), at: "http://" + l.Addr().String(), turn: make(chan struct{}),
		open: map[net.Conn]bool{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.serve(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		testkit.Receive(t, "the end of the line", done)
		k.become(lineCut)
	})
	return k
}

// become changes the line: what was open before is closed, but by silence.
func (k *line) become(state lineState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = state
	close(k.turn)
	k.turn = make(chan struct{})
	if state == lineSilent {
		return
	}
	for c := range k.open {
		_ = c.Close()
	}
}

// keep holds a connection until it is closed; false: the line is cut.
func (k *line) keep(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[c] = true
	return k.state != lineCut
}

func (k *line) serve(c net.Conn) {
	defer k.drop(c)
	if !k.keep(c) {
		return
	}
	up, err := net.Dial("tcp", k.to)
	if err != nil {
		return
	}
	defer k.drop(up)
	if !k.keep(up) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, up}, {up, c}} {
		go func() {
			_, _ = io.Copy(quiet{way[0], k}, way[1]) // it ends with the line
			ended <- struct{}{}
		}()
	}
	<-ended // real: when either side ends the line, or the test cuts it
}

func (k *line) drop(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, c)
	_ = c.Close()
}

// quiet writes nothing while the line is silent.
type quiet struct {
	net.Conn
	line *line
}

// ReadFrom is not the connection's own, which would go past Write.
func (q quiet) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{q}, r) }

func (q quiet) Write(p []byte) (int, error) {
	q.line.mu.Lock()
	state, turn := q.line.state, q.line.turn
	q.line.mu.Unlock()
	if state == lineSilent {
		<-turn // real: until the test changes the line
		return 0, net.ErrClosed
	}
	return q.Conn.Write(p)
}

// openOver opens the inbox over a line.
func (w *world) openOver(t *testing.T, k *line, path string) *chromium.Tab {
	t.Helper()
	p := chromium.Open(chromium.Start(t), t, k.at+path, 390, 844, signedIn(k.at, "hana"))
	p.Until("the page is there", `document.readyState === "complete" && !!document.querySelector("main")`)
	return p
}

const banner = "#stale:not([hidden])"

// Without a connection the page says so and sends nothing; with it again it has what arrived and what was decided, and
// what was typed, chosen and focused is as it was.
func TestTheInboxWithoutAConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pages.live.check = 2 * time.Second
	n := 0
	ask := func(tool string) string { n++; return w.ask(tool, fmt.Sprintf(`{"n":%d}`, n)) }
	ask("pay")
	k := lay(t, w)
	p := w.openOver(t, k, "/")
	for _, broken := range []lineState{lineCut, lineSilent} {
		ids := []string{ask("pay"), ask("pay"), ask("pay")}
		p.Click("#r-"+ids[2]+" .pick", fmt.Sprintf("Select Run pay: n %d", n))
		p.Do(chromedp.Focus("#reason"), chromedp.SendKeys("#reason", "my own words"))
		p.Says("#picked", "Selected: 1")
		chromium.Ask[bool](p, `window.same = true`)
		k.become(broken)
		p.Says(banner, "Not connected. What you see may be out of date; trying again.")
		p.Until("it is in sight",
			`(({top, bottom}) => top >= 0 && bottom <= innerHeight)(document.querySelector("#stale").getBoundingClientRect())`)
		p.Axe("no connection")
		p.Fits("no connection", "")
		p.Click("#r-"+ids[1]+" .approve", "Approve")
		p.Says(banner, "Nothing was sent: there is no connection.")
		w.stands(ids[1], approval.Pending)
		fresh := ask("wire")
		w.post("ken", "/r/"+ids[0]+"/decide", url.Values{"do": {"deny"}, "v": {w.version(ids[0])}}).is(http.StatusSeeOther)
		p.Do(chromedp.Focus("#reason"))
		k.become(lineWhole)
		p.Until("it has caught up", `document.getElementById("r-`+fresh+`") && !document.getElementById("r-`+ids[0]+
			`") && document.getElementById("stale").hidden`)
		p.Until("nothing was lost",
			`window.same && document.activeElement.id === "reason" && document.activeElement.value === "my own words" &&
			document.querySelector("#r-`+ids[2]+` input").checked && document.getElementById("picked").innerText === "Selected: 1"`)
		p.Click("#together button", "Deny selected")
		p.Until("the answer is there", `!window.same && document.readyState === "complete"`)
		p.Says(".note", "Done: pay · Denied")
		w.stands(ids[2], approval.Denied)
	}
}

// A gate that answers with errors leaves the page as it is; it says so, still sends, and recovers by itself.
func TestAPageThatCannotBeBroughtUpToDateSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var troubled atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if troubled.Load() && r.URL.Path == "/" {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.pages.ServeHTTP(rw, r)
	}))
	t.Cleanup(srv.Close)
	p := chromium.Open(chromium.Start(t), t, srv.URL, 390, 844, signedIn(srv.URL, "hana"))
	p.Expect("503")
	p.Until("nothing waits", `document.readyState === "complete" && !document.querySelector(".request")`)
	troubled.Store(true)
	first := w.ask("pay", `{"n":1}`)
	p.Says(banner, "What you see may be out of date: the gate has trouble. Trying again.")
	troubled.Store(false)
	p.Until("it has caught up", `document.getElementById("r-`+first+`") && document.getElementById("stale").hidden`)

	// A page that is not live knows of its connection by the browser alone.
	p.Do(chromedp.Navigate(srv.URL + pathSessions))
	p.Says("h1", "Sessions")
	p.Do(machine(offline))
	p.Says(banner, "Not connected.")
	p.Do(machine(online))
	p.Until("it says so no longer", `document.getElementById("stale").hidden`)
}

type reach bool

const offline, online reach = false, true

// machine tells a page whether its machine is connected.
func machine(is reach) chromium.Act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: is == offline,
			DownloadThroughput: -1, UploadThroughput: -1})
		return err
	})
}
