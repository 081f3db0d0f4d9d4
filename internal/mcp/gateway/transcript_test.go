package gateway_test

import (
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"countersign/approval"
	"countersign/internal/lists"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// TestTranscripts holds, word for word, what goes over the wire for each outcome of a call, in both eras.
//
// A file opens with what it guards against. "policy" are the rules, "tools" what the server lists, "do" is
// what happens, a line each: "call NAME ARGS", "send METHOD PARAMS", "start NAME ARGS" and later "finish",
// "approve", "deny REASON", "cancel", "clock DURATION", "server WORD", "relist ELEMENT". "legacy" and
// "modern" are what client and server said. Ids are $1, $2, … in the order in which they come up.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			script, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(script.Comment) < 40 {
				t.Error("it does not say what it guards against")
			}
			parts := map[string]string{}
			for _, f := range script.Files {
				parts[f.Name] = string(f.Data)
			}
			out := &txtar.Archive{Comment: script.Comment}
			for _, name := range []string{"policy", "tools", "hold", "do"} {
				if parts[name] != "" {
					out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(parts[name])})
				}
			}
			for _, era := range []string{"legacy", "modern"} {
				got := ""
				t.Run(era, func(t *testing.T) { got = converse(t, parts, era == "modern") })
				out.Files = append(out.Files, txtar.File{Name: era, Data: []byte(got)})
			}
			testkit.Golden(t, file, txtar.Format(out))
		})
	}
}

// conversation is the log of who said what.
type conversation struct {
	mu    sync.Mutex
	lines strings.Builder
	ids   []string
}

var (
	ulidRE = regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)
	vague  = []struct {
		re *regexp.Regexp
		to string
	}{
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
		{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST"},
		{regexp.MustCompile(`"progress":[0-9.]+`), `"progress":N`},
		// Which it is hangs on when the tries come; the supervisor's tests hold both.
		{regexp.MustCompile(`it is down(; the next try is in [0-9.]+m?s| and being tried again)`),
			"it is down; the next try is in D"},
		{regexp.MustCompile(`(server <- .*?)"id":\d+`), `$1"id":N`},
		{regexp.MustCompile(`"(progressToken|requestId)":\d+`), `"$1":N`},
	}
)

func (c *conversation) say(who, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text = ulidRE.ReplaceAllStringFunc(text, func(id string) string {
		if !slices.Contains(c.ids, id) {
			c.ids = append(c.ids, id)
		}
		return fmt.Sprintf("$%d", slices.Index(c.ids, id)+1)
	})
	text = who + " " + strings.TrimSpace(text)
	for _, v := range vague {
		text = v.re.ReplaceAllString(text, v.to)
	}
	c.lines.WriteString(text + "\n")
}

//nolint:revive // modern is the era, as eachEra gives it
func converse(t *testing.T, parts map[string]string, modern bool) string {
	log := new(conversation)
	k := new(clock)
	s := newScripted(t, modern, "write_file")
	if tools := parts["tools"]; tools != "" {
		s.set(func() { s.lists["tools/list"] = strings.Split(strings.TrimSpace(tools), "\n") })
	}
	answering := func(does func(*turn)) {
		s.when("tools/call", func(x *turn) { log.say("          server <-", x.raw); does(x) })
	}
	fine := func(x *turn) {
		const result = `{"content":[{"type":"text","text":"written"}],"structuredContent":{"bytes":9007199254740993}}`
		log.say("          server ->", result)
		x.result(result)
	}
	answering(fine)
	// What goes to two sides at once is written down in one order.
	cancelled, progress := make(chan struct{}, 1), make(chan struct{}, 1)
	hangs := false
	told := func(ch chan struct{}) {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	s.when("notifications/cancelled", func(x *turn) {
		log.say("          server <-", x.raw)
		_, _ = io.WriteString(x.w, "")
		told(cancelled)
	})
	hold := brief
	if parts["hold"] != "" {
		hold = long
	}
	up := s.server("files", "files")
	if strings.Contains(parts["do"], "server hangs") {
		up.Timeout = 300 * time.Millisecond
	}
	down := strings.HasPrefix(parts["do"], "server is down")
	s.set(func() { s.deaf = down })
	w := newWorldIn(t, parts["policy"], gateway.Options{Hold: hold, Servers: []gateway.ServerConfig{up}},
		around{now: k.now})
	c := w.client(modern)
	send := func(method, params string) <-chan answer {
		_, body := c.message(method, params)
		log.say("client ->", body)
		done := make(chan answer, 1)
		go func() {
			done <- c.raw(t.Context(), body, func(m said) { log.say("client <-", m.raw); told(progress) })
		}()
		return done
	}
	got := func(done <-chan answer) {
		a := finish(t, done)
		if hangs && !modern {
			testkit.Receive(t, "the server hears of the cancelling", cancelled)
		}
		log.say("client <-", fmt.Sprintf("%d %s", a.status, a.raw))
	}
	var underWay <-chan answer
	var last approval.Request
	for line := range strings.Lines(parts["do"]) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		one, two, _ := strings.Cut(rest, " ")
		call := fmt.Sprintf(`{"name":%q,"arguments":%s}`, one, two)
		switch word {
		case "call":
			got(send("tools/call", call))
		case "send":
			got(send(one, two))
		case "start":
			underWay = send("tools/call", call)
			last = w.pending(1)[0]
		case "watch": // a call with progress
			underWay = send("tools/call", fmt.Sprintf(`{"_meta":{"progressToken":"mine"},"name":%q,"arguments":%s}`, one, two))
			last = w.pending(1)[0]
			testkit.Receive(t, "progress", progress)
		case "finish":
			got(underWay)
		case "approve", "deny", "cancel":
			if rs := w.pendingNow(); len(rs) > 0 {
				last = rs[0]
			}
			log.say("person", strings.TrimSpace(word+" "+last.ID+" "+rest))
			if word != "cancel" {
				w.answer(last.ID, word == "approve", rest)
			} else if _, err := w.gate.Cancel(t.Context(), approval.Cancellation{RequestID: last.ID, By: person,
				Via: approval.ViaCLI}); err != nil {
				t.Error(err)
			}
		case "clock":
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			k.advance(d)
			log.say("clock", "+"+rest)
		case "server":
			log.say("server", rest)
			hangs = rest == "hangs"
			switch rest {
			case "works":
				answering(fine)
			case "hangs":
				answering((*turn).gone)
			case "breaks off":
				answering((*turn).breakOff)
			case "fails":
				answering(func(x *turn) {
					const result = `{"content":[{"type":"text","text":"disk full"}],"isError":true}`
					log.say("          server ->", result)
					x.result(result)
				})
			case "is down":
				testkit.Eventually(w.t, "it is known", func() bool { return w.gw.Health()[0].State == "down" })
			case "comes up":
				s.set(func() { s.deaf = false })
				testkit.Eventually(w.t, "it is known", func() bool { return w.gw.Health()[0].State == "up" })
			default:
				t.Fatalf("%q: what is that?", line)
			}
		case "relist":
			s.set(func() { s.lists["tools/list"] = []string{rest} })
			log.say("server", "lists "+rest)
			c.send("tools/list", `{}`)
		default:
			t.Fatalf("%q: what is that?", line)
		}
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	return log.lines.String()
}

// pendingNow returns what is pending, newest first.
func (w *world) pendingNow() []approval.Request {
	w.t.Helper()
	rs, err := lists.ListRequests(w.t.Context(), w.gate, approval.RequestQuery{Status: approval.Pending})
	if err != nil {
		w.t.Fatal(err)
	}
	return rs
}
