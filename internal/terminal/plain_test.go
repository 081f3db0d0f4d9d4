package terminal_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/client"
	"countersign/internal/terminal"
	"countersign/internal/terminal/inbox"
	"countersign/internal/terminal/inbox/inboxtest"
	"countersign/internal/testkit"
)

// Bubble Tea's reader waits for ever to hand on a key that came as the program ended; the process ends with it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/charmbracelet/ultraviolet.(*TerminalReader).sendEvents"))
}

var tokyo = time.FixedZone("JST", 9*3600)

// still makes what a test got the same each time: ids are chance.
func still(text string) []byte {
	text = regexp.MustCompile(`01[0-9A-HJKMNP-TV-Z]{24}`).ReplaceAllString(text, "01K9ZQ3V5T8M2N4P6R7S9W1X3Y")
	text = regexp.MustCompile(`· [0-9A-HJKMNP-TV-Z]{6}\b`).ReplaceAllString(text, "· 9W1X3Y")
	return []byte(text)
}

// talk is a run of Plain whose answers a test writes.
type talk struct {
	*testing.T
	*inboxtest.World
	in    *io.PipeWriter
	out   *testkit.Buffer
	ended chan error
	seen  int // of the output
}

func plainly(t *testing.T, w *inboxtest.World) *talk { return plainlyOn(t, w, 0) }

// plainlyOn is plainly on a screen of so many lines.
func plainlyOn(t *testing.T, w *inboxtest.World, height int) *talk {
	t.Helper()
	r, in := io.Pipe()
	x := &talk{T: t, World: w, in: in, out: new(testkit.Buffer), ended: make(chan error, 1)}
	b := inbox.New(inbox.Options{Gate: w.Hana, Now: w.Clock.Now, Poll: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		x.ended <- terminal.Plain(ctx, terminal.Options{Inbox: b, In: r, Out: x.out, Now: w.Clock.Now, Zone: tokyo, Width: 60,
			Height: height})
	}()
	t.Cleanup(func() {
		in.Close()
		cancel()
	})
	return x
}

// reads waits until the output goes on with a text.
func (x *talk) reads(text string) {
	x.Helper()
	testkit.Eventually(x.T, "the output "+text, func() bool {
		i := strings.Index(x.out.String()[x.seen:], text)
		if i >= 0 {
			x.seen += i + len(text)
		}
		return i >= 0
	})
}

func (x *talk) types(line string) {
	x.Helper()
	if _, err := io.WriteString(x.in, line+"\n"); err != nil {
		x.Fatal(err)
	}
}

func (x *talk) ends() {
	x.Helper()
	if err := testkit.Receive(x.T, "the end", x.ended); err != nil {
		x.Error(err)
	}
}

const awkward = `{"amount_cents":12345678901234567890,"memo":"to ` + "\u202e" +
	`gnp.exe\u001b[2J","note":"請求書の支払い、来週の金曜日までにお願いします。よろしくお願いいたします。","to":{"iban":"DE00 0000"}}`

func TestPlainAsksAboutOneAfterAnother(t *testing.T) {
	w := inboxtest.New(t)
	x := plainly(t, w)
	x.reads("Nothing waits for a decision.")
	first := w.Ask("transfer", awkward)
	x.reads("> ")
	w.Clock.Advance(time.Minute)
	second := w.Ask("deploy", `{"to":"production"}`)
	x.types("")
	x.reads("Nothing was decided: type a, d, v, s or q.")
	x.types("yes")
	x.reads("is not one of a, d, v, s and q.")
	x.types("v")
	x.reads("[q] Quit")
	x.types("a")
	x.reads("Approved. The agent may run it once.")
	x.reads("> ")
	x.types("d")
	x.reads("q to go back) ")
	x.types("q")
	x.reads("Nothing was decided.\n> ")
	x.types("d")
	x.reads("q to go back) ")
	x.types("")
	x.reads("Why? ")
	x.types("not on a Saturday")
	x.reads("Denied.")
	x.reads("Nothing waits")
	x.types("q")
	x.ends()
	if a := w.Request(first); a.Status != "approved" || a.ResolvedBy != "hana" || a.ResolvedVia != "cli" {
		t.Errorf("%+v", a)
	}
	if a := w.Request(second); a.Status != "denied" || a.ResolveReason != "not on a Saturday" {
		t.Errorf("%+v", a)
	}
	testkit.Golden(t, "testdata/plain.txt", still(x.out.String()))
}

// A request whose time runs out while it is asked about is over, and what is typed then is no answer to the next one.
func TestRule6_PlainSaysThatTimeRanOut(t *testing.T) {
	w := inboxtest.New(t)
	x := plainly(t, w)
	x.reads("Nothing waits")
	w.Ask("transfer", `{"n":1}`)
	x.reads("> ")
	w.Clock.Advance(30 * time.Minute)
	second := w.Ask("pay", `{"n":2}`)
	w.Clock.Advance(31 * time.Minute)
	x.reads("That is over: its time")
	x.types("a")
	x.reads("bank/pay")
	x.reads("> ")
	if a := w.Request(second); a.Status != "pending" {
		t.Errorf("%+v", a)
	}
	x.types("d")
	x.reads("Why? ")
	w.Clock.Advance(31 * time.Minute)
	x.reads("That is over: its time")
	x.types("too much")
	x.reads("Nothing waits")
	x.types("q")
	x.ends()
}

// What is longer than the screen comes a screen at a time, and is asked about after the last.
func TestRule3_PlainShowsAllBeforeItAsks(t *testing.T) {
	w := inboxtest.New(t)
	x := plainlyOn(t, w, 14)
	x.reads("Nothing waits")
	id := w.Ask("transfer", `{"text":"`+strings.Repeat(`line\n`, 20)+`the end"}`)
	pages := 0
	for asked := false; !asked; {
		testkit.Eventually(t, "a page", func() bool {
			text := x.out.String()
			asked = strings.Contains(text, "[q] Quit")
			return asked || strings.Count(text, "more lines. Enter for more") > pages
		})
		if !asked {
			x.types("a")
			pages++
		}
	}
	if pages < 2 {
		t.Errorf("it came at once, but for %d screens", pages)
	}
	x.reads("the end")
	x.reads("[q] Quit")
	if a := w.Request(id); a.Status != "pending" {
		t.Errorf("%+v", a)
	}
	x.types("a")
	x.reads("Approved.")
	x.types("q")
	x.ends()
}

// What nobody said yes to is not approved: empty lines, ends of input, other words, typed ahead or not.
func TestPlainNeverDecidesByItself(t *testing.T) {
	for name, answers := range map[string]string{
		"nothing":                      "",
		"empty lines":                  "\n\n\n",
		"the end after a":              "a\n",
		"no yes":                       "a\ny\n",
		"an empty yes":                 "a\n\n",
		"a yes of another kind":        "a\nYES please\n",
		"skipped":                      "s\n",
		"left":                         "q\na\nyes\n",
		"the end while a reason comes": "d\n",
		"capitals":                     "A\nyes\n",
		"control characters":           "a\x00\n\x1b[A\n",
	} {
		w := inboxtest.New(t)
		id := w.Ask("drop_database", `{}`)
		var out bytes.Buffer
		b := inbox.New(inbox.Options{Gate: w.Hana, Now: w.Clock.Now, Poll: time.Hour})
		err := terminal.Plain(t.Context(), terminal.Options{Inbox: b, In: &slowly{r: strings.NewReader(answers), b: b},
			Out: &out, Now: w.Clock.Now, Zone: time.UTC})
		if a := w.Request(id); err != nil || a.Status != "pending" {
			t.Errorf("%s: %s, %v\n%s", name, a.Status, err, out.String())
		}
	}
}

// slowly reads nothing before the inbox has read its list.
type slowly struct {
	r io.Reader
	b *inbox.Inbox
}

func (s *slowly) Read(p []byte) (int, error) {
	for end := time.Now().Add(testkit.Patience); !s.b.Snapshot().Read; {
		if time.Now().After(end) {
			return 0, errors.New("the inbox has not read its list")
		}
		time.Sleep(time.Millisecond) // real: until the list is read, which nothing announces
	}
	return s.r.Read(p)
}

// slow is a gate that decides when it is told to.
type slow struct {
	inbox.Gate
	until chan struct{}
}

func (g slow) Decide(ctx context.Context, id string, v client.Verdict, reason string,
	opts ...client.DecideOption) (client.Decided, error) {
	<-g.until // real: until the test says so
	return g.Gate.Decide(ctx, id, v, reason, opts...)
}

// readings are when somebody has read a question.
type readings chan time.Time

func (r readings) settle() <-chan time.Time { return r }

// pass has a question read, once it is asked.
func (r readings) pass(t *testing.T) {
	t.Helper()
	testkit.Wait(t, "a question", func() { r <- time.Time{} })
}

// A yes that was there before the question is none, and no reason is one either.
func TestPlainTakesNoYesFromBeforeTheQuestion(t *testing.T) {
	for name, tool := range map[string]string{"Type yes to approve: ": "drop_database",
		"the gate's question": "close_books"} {
		t.Run(name, func(t *testing.T) {
			w := inboxtest.New(t)
			id := w.Ask(tool, `{}`)
			r, in := io.Pipe()
			read, out, ended := make(readings), new(testkit.Buffer), make(chan error, 1)
			b := inbox.New(inbox.Options{Gate: w.Hana, Now: w.Clock.Now, Poll: time.Hour})
			go func() {
				ended <- terminal.Plain(t.Context(), terminal.Options{Inbox: b, In: r, Out: out, Now: w.Clock.Now, Zone: tokyo,
					Settle: read.settle})
			}()
			x := &talk{T: t, World: w, in: in, out: out, ended: ended}
			x.reads("> ")
			read.pass(t)
			x.types("a\nyes")
			x.reads("Type yes to approve: ")
			x.reads("typed before the question")
			x.reads("Type yes to approve: ")
			if a := w.Request(id); a.Status != "pending" {
				t.Errorf("%+v", a)
			}
			read.pass(t)
			x.types("yes")
			x.reads("Approved.")
			in.Close()
			x.ends()
		})
	}
}

// A key that was hit twice does not approve the request that comes next.
func TestPlainTakesNoAnswerFromBeforeTheRequestWasShown(t *testing.T) {
	w := inboxtest.New(t)
	first := w.Ask("transfer", `{"cents":1}`)
	w.Clock.Advance(time.Second)
	second := w.Ask("transfer", `{"cents":2}`)
	r, in := io.Pipe()
	read := make(readings)
	gate, out, ended := slow{w.Hana, make(chan struct{})}, new(testkit.Buffer), make(chan error, 1)
	b := inbox.New(inbox.Options{Gate: gate, Now: w.Clock.Now, Poll: time.Hour})
	go func() {
		ended <- terminal.Plain(t.Context(), terminal.Options{Inbox: b, In: r, Out: out, Now: w.Clock.Now, Zone: tokyo,
			Settle: read.settle})
	}()
	x := &talk{T: t, World: w, in: in, out: out, ended: ended}
	x.reads("cents: 1")
	x.reads("> ")
	x.types("a")
	x.reads("typed before the question")
	read.pass(t)
	x.types("a")
	x.types("a") // while the first is being decided
	x.types("a")
	w.Request(first)
	close(gate.until)
	x.reads("cents: 2")
	x.reads("> ")
	in.Close()
	x.ends()
	if a, z := w.Request(first), w.Request(second); a.Status != "approved" || z.Status != "pending" {
		t.Errorf("%s and %s\n%s", a.Status, z.Status, out.String())
	}
}

func TestPlainSaysWhatChanged(t *testing.T) {
	w := inboxtest.New(t)
	id := w.Ask("wire", `{"cents":5}`)
	x := plainly(t, w)
	x.reads("> ")
	if _, err := w.Ken.Decide(t.Context(), id, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	x.types("a")
	x.reads("Nothing was decided, because the request changed meanwhile: ken approved.")
	x.reads("1 of 2 approvals: ken today 18:30")
	x.reads("> ")
	x.types("a")
	x.reads("Approved.")
	x.in.Close()
	x.ends()
	if a := w.Request(id); a.Status != "approved" || len(a.Votes) != 2 {
		t.Errorf("%+v", a)
	}
}

func TestPlainAsksOnceMore(t *testing.T) {
	w := inboxtest.New(t)
	x := plainly(t, w)
	critical := w.Ask("drop_database", `{}`)
	x.reads("> ")
	x.types("a")
	x.reads("This is critical. Type yes to approve: ")
	x.types("yes")
	x.reads("Approved.")
	confirmed := w.Ask("close_books", `{}`)
	x.reads("> ")
	x.types("a")
	x.reads("Type yes to approve: ")
	if a := w.Request(confirmed); a.Status != "pending" {
		t.Errorf("%+v", a)
	}
	x.types("yes")
	x.reads("Approved.")
	x.in.Close()
	x.ends()
	for _, id := range []string{critical, confirmed} {
		if a := w.Request(id); a.Status != "approved" {
			t.Errorf("%+v", a)
		}
	}
}

func TestPlainEndsWithARefusal(t *testing.T) {
	w := inboxtest.New(t)
	b := inbox.New(inbox.Options{Gate: w.Bot, Now: w.Clock.Now})
	err := terminal.Plain(t.Context(), terminal.Options{Inbox: b, In: strings.NewReader(""), Out: io.Discard,
		Now: w.Clock.Now, Zone: time.UTC})
	if err != nil && client.CodeOf(err) != "people_only" {
		t.Errorf("%v", err)
	}
	r, in := io.Pipe()
	defer in.Close()
	err = terminal.Plain(t.Context(), terminal.Options{Inbox: inbox.New(inbox.Options{Gate: w.Bot, Now: w.Clock.Now}),
		In: r, Out: io.Discard, Now: w.Clock.Now, Zone: time.UTC})
	if client.CodeOf(err) != "people_only" {
		t.Errorf("%v", err)
	}
}
