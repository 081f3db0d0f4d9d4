//go:build unix

package terminal_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"countersign/client"
	"countersign/internal/terminal"
	"countersign/internal/terminal/inbox"
	"countersign/internal/terminal/inbox/inboxtest"
	"countersign/internal/testkit"
)

// display is a terminal that a test looks at and types into.
type display struct {
	*testing.T
	*inboxtest.World
	master *os.File
	ended  chan error

	mu  sync.Mutex
	vt  *vt.Emulator
	raw []byte
}

// on shows the inbox on a terminal of a size.
func on(t *testing.T, w *inboxtest.World, gate inbox.Gate, cols, rows int, env map[string]string) *display {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	d := &display{T: t, World: w, master: master, vt: vt.NewEmulator(cols, rows), ended: make(chan error, 1)}
	d.size(cols, rows)
	var copying sync.WaitGroup
	copying.Go(func() { // what the program writes
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			d.mu.Lock()
			d.raw = append(d.raw, buf[:n]...)
			d.vt.Write(buf[:n])
			d.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	copying.Go(func() { // what a terminal answers to questions about it
		buf := make([]byte, 256)
		for {
			n, err := d.vt.Read(buf)
			if err != nil {
				return
			}
			master.Write(buf[:n])
		}
	})
	vars := map[string]string{"TERM": "xterm-256color", "EDITOR": "false"}
	for k, v := range env {
		vars[k] = v
	}
	b := inbox.New(inbox.Options{Gate: gate, Now: w.Clock.Now, Poll: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		d.ended <- terminal.Screen(ctx, terminal.Options{Inbox: b, In: tty, Out: tty, Now: w.Clock.Now, Zone: tokyo,
			Env: func(name string) (string, bool) { v, ok := vars[name]; return v, ok }})
		close(d.ended)
	}()
	t.Cleanup(func() {
		cancel()
		testkit.Receive(t, "the end of the screen", d.ended)
		tty.Close()
		master.Close()
		if c, ok := d.vt.InputPipe().(io.Closer); ok { // its Close races with its Read and Write
			c.Close()
		}
		testkit.Wait(t, "the copy's end", copying.Wait)
	})
	return d
}

func (d *display) size(cols, rows int) {
	d.Helper()
	if err := pty.Setsize(d.master, &pty.Winsize{Rows: uint16(rows), Cols: uint16(cols)}); err != nil {
		d.Fatal(err)
	}
}

// resize makes the terminal another size, as a window does.
func (d *display) resize(cols, rows int) {
	d.Helper()
	d.mu.Lock()
	d.vt.Resize(cols, rows)
	d.mu.Unlock()
	d.size(cols, rows)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		d.Fatal(err)
	}
}

func (d *display) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := strings.Split(d.vt.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// shows waits until the screen has all of these.
func (d *display) shows(texts ...string) {
	d.Helper()
	for _, text := range texts {
		if d.comes(text) {
			continue
		}
		d.Fatalf("the screen does not come to show %q:\n%s", text, d.text())
	}
}

// comes waits until the screen has a text, and reports whether it came.
func (d *display) comes(text string) bool {
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); {
		if strings.Contains(d.text(), text) {
			return true
		}
		time.Sleep(5 * time.Millisecond) // real: until it shows
	}
	return false
}

func (d *display) types(keys string) {
	d.Helper()
	if _, err := d.master.WriteString(keys); err != nil {
		d.Fatal(err)
	}
}

// golden compares the screen, in which ids are chance.
func (d *display) golden(name string) {
	d.Helper()
	text := regexp.MustCompile(`01[0-9A-HJKMNP-TV-Z]{24}`).ReplaceAllString(d.text(), "01K9ZQ3V5T8M2N4P6R7S9W1X3Y")
	testkit.Golden(d.T, filepath.Join("testdata", name+".txt"), []byte(text))
}

// read is long enough for what is on the screen to be read.
func (d *display) read() { d.Clock.Advance(2 * time.Second) }

func TestScreenListsAndDecides(t *testing.T) {
	w := inboxtest.New(t)
	d := on(t, w, w.Hana, 100, 24, nil)
	d.shows("Nothing waits for a decision.", "live")
	d.golden("empty")
	first := w.Ask("transfer", awkward)
	d.shows("bank/transfer", "gnp.exe⟨U+001B⟩[2J")
	w.Clock.Advance(time.Minute)
	second := w.Ask("drop_database", `{"name":"books"}`)
	d.shows("2 wait", "!!! crit bank/drop_database", "59 min")
	d.golden("list")
	d.types("v")
	d.shows("Arguments as JSON, exactly", `\u001b[2J`)
	d.golden("everything")
	d.types("\x1b")
	d.shows("!!! crit")
	d.types("a")
	d.shows("Approved. The agent may run it once.")
	if a := w.Request(first); a.Status != "approved" || a.ResolvedBy != "hana" {
		t.Errorf("%+v", a)
	}
	d.types("k")
	d.shows("▸ !!! crit", "name: books")
	d.types("a")
	d.shows("CRITICAL. Approve bank/drop_database?")
	d.golden("critical")
	d.types("\r") // which is no y
	d.shows("Nothing was decided.")
	d.types("d")
	d.shows("Deny: why? █")
	d.types("not on a Saturday, 土曜日\r")
	d.shows("Denied.")
	if a := w.Request(second); a.Status != "denied" || a.ResolveReason != "not on a Saturday, 土曜日" {
		t.Errorf("%+v", a)
	}
	d.types("?")
	d.shows("select, for several at once")
	d.types("?q")
	if err := testkit.Receive(t, "the end", d.ended); err != nil {
		t.Error(err)
	}
}

// What changes by itself is not decided by a key that was meant for what stood there before.
func TestScreenDecidesNothingThatWasNotRead(t *testing.T) {
	w := inboxtest.New(t)
	d := on(t, w, w.Hana, 100, 20, nil)
	d.shows("Nothing waits")
	id := w.Ask("wire", `{"cents":5}`)
	d.shows("cents: 5")
	d.types("a") // at once: the clock stands
	d.shows("this has only just appeared or changed")
	d.read()
	if _, err := w.Ken.Decide(t.Context(), id, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	d.shows("It changed: ken approved.", "1 of 2 approvals: ken")
	d.types("a")
	d.shows("this has only just appeared or changed")
	if a := w.Request(id); a.Status != "pending" || len(a.Votes) != 1 {
		t.Errorf("%+v", a)
	}
	// One that ends stays where it is: the next does not take its place under the finger.
	other := w.Ask("transfer", `{"cents":7}`)
	d.shows("2 wait")
	if _, err := w.Ken.Cancel(t.Context(), id, ""); err != nil {
		if _, err := w.Hana.Cancel(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
	}
	d.shows("Over: it was taken back", "1 wait")
	d.read()
	d.types("a")
	d.shows("That is over: it was taken back")
	d.golden("over")
	if a := w.Request(other); a.Status != "pending" {
		t.Errorf("%+v", a)
	}
	d.types("\x1b[200~a\x1b[201~") // pasted
	d.types("j")
	d.shows("cents: 7")
	if a := w.Request(other); a.Status != "pending" {
		t.Errorf("pasted text decided: %+v", a)
	}
}

func TestScreenSelectsFiltersGrantsExtends(t *testing.T) {
	w := inboxtest.New(t)
	var ids []string
	for _, tool := range []string{"transfer", "transfer_all", "deploy", "pay"} {
		ids = append(ids, w.Ask(tool, `{"n":1}`))
		w.Clock.Advance(time.Second)
	}
	critical := w.Ask("drop_database", `{}`)
	d := on(t, w, w.Hana, 110, 20, nil)
	d.shows("5 wait")
	d.read()
	d.types("x")
	d.shows("1 selected")
	d.types("jxjx")
	d.shows("3 selected")
	d.golden("selected")
	d.types("a")
	d.shows("Approve the 3 requests that you selected?")
	d.types("y")
	d.shows("2 of 3 decided. Left as they are:", "is critical")
	for i, want := range []string{"approved", "approved", "pending", "pending"} {
		if a := w.Request(ids[i]); a.Status != want {
			t.Errorf("%s: %s, want %s", a.Tool, a.Status, want)
		}
	}
	if a := w.Request(critical); a.Status != "pending" {
		t.Errorf("%+v", a)
	}
	d.types("/")
	d.shows("Only with: █")
	d.types("PAY medium\r")
	d.shows(`1 with "PAY medium"`)
	d.types("\x1b[F")
	d.shows("▸   ! med  bank/pay")
	d.read()
	d.types("+")
	d.shows("One more hour.")
	d.read()
	d.types("g")
	d.shows("or a number of uses? █")
	d.types("20\r")
	d.shows("given for longer")
	if page, err := w.Hana.Grants(t.Context(), client.GrantQuery{}); err != nil || len(page.Items) != 1 ||
		page.Items[0].Uses != 20 {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestScreenAsksForAReasonAndAConfirmation(t *testing.T) {
	w := inboxtest.New(t)
	deploy := w.Ask("deploy", `{}`)
	d := on(t, w, w.Hana, 100, 20, nil)
	d.shows("bank/deploy")
	d.read()
	d.types("a")
	d.shows("Why? █")
	d.types("\r")
	d.shows("Nothing was decided.")
	d.types("a")
	d.shows("Why? █")
	d.types("agreed\r")
	d.shows("Approved.")
	if a := w.Request(deploy); a.ResolveReason != "agreed" {
		t.Errorf("%+v", a)
	}
	books := w.Ask("close_books", `{}`)
	d.shows("close_books")
	d.types("j")
	d.read()
	d.types("a")
	d.shows("Approve?")
	d.types("y") // at once: the clock stands
	d.shows("answer again.")
	d.read()
	if a := w.Request(books); a.Status != "pending" {
		t.Errorf("%+v", a)
	}
	d.types("y")
	d.shows("Approved.")
}

// The editor gets the arguments; what was changed is shown and asked about, and that is approved.
func TestScreenApprovesWhatWasEdited(t *testing.T) {
	w := inboxtest.New(t)
	editor, temp := filepath.Join(t.TempDir(), "editor"), t.TempDir()
	t.Setenv("TMPDIR", temp)
	if err := os.WriteFile(editor,
		[]byte("#!/bin/sh\ngrep -q 'u202e' \"$1\" && ls -l \"$1\" | grep -q '^-rw-------' && sed -i.bak 's/500/250/' \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	id := w.Ask("transfer", `{"cents":500,"memo":"a`+"\u202e"+`b"}`)
	d := on(t, w, w.Hana, 100, 20, map[string]string{"VISUAL": editor})
	d.shows("cents: 500")
	d.read()
	d.types("e")
	d.shows("Approve with cents: 500 → 250?")
	d.types("n")
	d.shows("Nothing was decided.")
	d.types("e")
	d.shows("Approve with cents: 500 → 250?")
	d.types("y")
	d.shows("Approved.")
	a := w.Request(id)
	if a.ReplacedBy == "" || string(w.Request(a.ReplacedBy).Args) != `{"cents":250,"memo":"a`+"\u202e"+`b"}` {
		t.Errorf("%+v", a)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestScreenIsNarrowAndResized(t *testing.T) {
	w := inboxtest.New(t)
	id := w.Ask("transfer", awkward)
	d := on(t, w, w.Hana, 40, 16, nil)
	d.shows("bank/transfer")
	d.golden("narrow")
	d.read()
	d.types("a") // nothing of it was shown yet but its name
	d.shows("Read it, and press again.", "amount_cents")
	d.golden("narrow-request")
	if a := w.Request(id); a.Status != "pending" {
		t.Errorf("%+v", a)
	}
	d.resize(100, 20)
	d.types("\x1b")
	d.shows("│")
	d.resize(20, 5)
	d.shows("Countersign")
	d.resize(100, 20)
	d.shows("a approve  d deny  v everything")
	d.types("a")
	d.shows("Approved.")
}

func TestScreenIsWithoutColourWhereThatIsWanted(t *testing.T) {
	colour := regexp.MustCompile(`\x1b\[[0-9;]*(3[0-7]|9[0-7]|4[0-7])[;0-9]*m`)
	for name, env := range map[string]map[string]string{"colours": nil, "none": {"NO_COLOR": "1"}} {
		w := inboxtest.New(t)
		w.Ask("drop_database", `{}`)
		w.Clock.Advance(time.Second)
		w.Ask("transfer", `{}`)
		d := on(t, w, w.Hana, 100, 20, env)
		d.shows("!!! crit", "!! high")
		d.mu.Lock()
		if got := colour.Match(d.raw); got != (env == nil) {
			t.Errorf("%s: %q", name, d.raw)
		}
		d.mu.Unlock()
	}
}

// While the gate is away the list stays, and it is said from when on.
func TestScreenSaysThatItIsNotConnected(t *testing.T) {
	w := inboxtest.New(t)
	w.Ask("transfer", `{"to":"acme"}`)
	c := w.Client(inboxtest.HanaToken)
	defer c.Close()
	d := on(t, w, c, 100, 14, nil)
	d.shows("to: acme", "live")
	w.Clock.Advance(10 * time.Second)
	w.Server.CloseClientConnections()
	w.Server.Listener.Close()
	d.shows("not connected since today 18:30, trying again", "to: acme")
	d.golden("offline")
	d.types("a")
	d.shows("It is not known whether that was decided")
}

func TestScreenEndsWithARefusal(t *testing.T) {
	w := inboxtest.New(t)
	d := on(t, w, w.Bot, 80, 20, nil)
	if err := testkit.Receive(t, "the end", d.ended); client.CodeOf(err) != "people_only" {
		t.Errorf("%v", err)
	}
}

// A question that the gate's answer brings takes no keys that are typed into something else meanwhile.
func TestScreenAQuestionTakesNoKeysThatWereForAnother(t *testing.T) {
	w := inboxtest.New(t)
	books := w.Ask("close_books", `{}`)
	gate := slow{w.Hana, make(chan struct{})}
	d := on(t, w, gate, 100, 20, nil)
	d.shows("bank/close_books")
	d.read()
	d.types("a")
	d.types("/y")
	d.shows("Only with: y█")
	close(gate.until)
	d.types("y")
	d.shows("Only with: yy█")
	d.types("\x1b")
	d.read()
	w.Ask("transfer", `{"cents":1}`)
	d.shows("2 wait") // whatever was sent before has been answered
	if a := w.Request(books); a.Status != "pending" {
		t.Errorf("%+v", a)
	}
	if strings.Contains(d.text(), "Approve?") {
		t.Error(d.text())
	}
}

// Where the list alone is on the screen, nothing is selected before it was read, and what is below the screen is said.
func TestScreenNarrowSelectsNothingUnread(t *testing.T) {
	w := inboxtest.New(t)
	w.Ask("transfer", `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"hidden":10}`)
	d := on(t, w, w.Hana, 60, 14, nil)
	d.shows("bank/transfer")
	d.read()
	d.types("x")
	d.shows("Read it, and press again.", "more lines: space")
	if strings.Contains(d.text(), "selected") {
		t.Error(d.text())
	}
	d.types("\x1b[F") // End: of its text
	d.shows("hidden: 10")
	d.types("x")
	d.shows("1 selected")
}

// elsewhere is a gate whose clock is another than ours.
type elsewhere struct {
	inbox.Gate
	ahead time.Duration
}

func (g elsewhere) ClockAhead() time.Duration { return g.ahead }

// The time that is left is by the gate's clock.
func TestScreenCountsByTheGatesClock(t *testing.T) {
	w := inboxtest.New(t)
	w.Ask("transfer", `{"cents":7}`)
	d := on(t, w, elsewhere{w.Hana, 15 * time.Minute}, 100, 20, nil) // by ours it is an hour
	d.shows("cents: 7", "45 min")
}

// What will happen, as the rule says it, stands in the list and first in what is read; why it is asked comes after.
func TestScreenSaysWhatWillHappenFirst(t *testing.T) {
	w := inboxtest.New(t)
	w.Ask("refund", `{"to":"acme","cents":2000}`)
	c := w.Client(inboxtest.HanaToken)
	defer c.Close()
	d := on(t, w, c, 120, 16, nil)
	d.shows("Refund $20.00 to acme", "bank/refund", "why it is asked: A person must confirm this.")
	d.golden("summary")
}

// What does not fit the screen is approved, given for longer, edited or selected once all of it was there, from its
// first line to its last; what was leapt over was not.
func TestRule3_ScreenApprovesWhatWasOnItWhole(t *testing.T) {
	w := inboxtest.New(t)
	lines := strings.Repeat(`line\n`, 60)
	id, short := w.Ask("transfer", `{"text":"`+lines+`the end"}`), w.Ask("pay", `{"n":1}`)
	d := on(t, w, w.Hana, 100, 24, nil)
	d.shows("2 wait", "more lines: space")
	d.read()
	for _, key := range []string{"a", "g", "e", "x"} {
		d.types(key)
		d.shows("Not all of it was on the screen.")
		d.types("\x1b[F") // leaps to the end
		d.shows("the end")
		d.types(key)
		d.types("\x1b[H")
		d.shows("more lines: space")
		d.types("?")
		d.shows("select, for several at once")
		d.types("?")
		d.shows("▸", "more lines: space")
		if a := w.Request(id); a.Status != "pending" {
			t.Fatalf("%s decided what was not on the screen: %+v", key, a)
		}
	}
	d.types("v")
	d.shows("esc back")
	for range 8 {
		d.types(" ")
	}
	d.shows("args hash")
	d.types("a")
	d.shows("Approved.")
	if a, b := w.Request(id), w.Request(short); a.Status != "approved" || b.Status != "pending" {
		t.Errorf("%+v, %+v", a, b)
	}
}
