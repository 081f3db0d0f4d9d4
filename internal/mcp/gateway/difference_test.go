package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/filediff"
	"countersign/internal/mcp"
	"countersign/internal/mcp/gateway"
	"countersign/internal/testkit"
)

// diffRules ask about writes, and let the agent called bot alone read.
const diffRules = `
policy:
  rules:
    - {tools: [write], diff: {read: read}}
    - {tools: [read], agents: [bot], action: allow}
`

const (
	writeArgs  = `{"path":"/a","content":"one\nthree\n"}`
	isNow      = "one\ntwo\n"
	difference = "--- /a\n+++ /a\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"
)

// files is a server whose tool read answers as it is told, and counts what it was asked.
type files struct {
	mu    sync.Mutex
	reads []string // arguments
	read  func(*fakeCall) string
}

func (f *files) call(c *fakeCall) string {
	if c.name != "read" {
		return textResult("ran")
	}
	f.mu.Lock()
	f.reads = append(f.reads, string(c.params.Get("arguments")))
	f.mu.Unlock()
	return f.read(c)
}

func (f *files) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.reads...)
}

func always(result string) func(*fakeCall) string { return func(*fakeCall) string { return result } }

// diffWorld is a gate with rules in front of such a server.
func diffWorld(t *testing.T, rules string, era mcp.Era, over string, read func(*fakeCall) string) (*world, *files,
	*fake) {
	t.Helper()
	f := &files{read: read}
	up := newFake(era, f.call, "write", "read", "edit")
	return newWorld(t, rules, gateway.Options{Hold: brief, Servers: []gateway.ServerConfig{up.over(t, over)}}), f, up
}

func TestPeopleAreShownWhatAWriteWouldChange(t *testing.T) {
	t.Parallel()
	for name, up := range eras {
		for _, over := range []string{"http", "stdio"} {
			for down, era := range eras {
				t.Run(name+" "+over+" "+down, func(t *testing.T) {
					w, f, _ := diffWorld(t, diffRules, up, over, always(textResult(isNow)))
					c := join(t, w, era, `{}`)
					contains(t, "the answer", say(c.callTool("write", writeArgs)), "Approval requested")
					r := w.pending(1)[0]
					want(t, "the preview", r.Preview, difference)
					want(t, "read with", r.PreviewFrom, "read")
					want(t, "read", strings.Join(f.asked(), " "), `{"path":"/a"}`)

					// The same call joins the request, and its file is not read again.
					contains(t, "again", say(c.callTool("write", writeArgs)), "Approval pending")
					w.answer(r.ID, true, "")
					want(t, "approved", say(c.callTool("write", writeArgs)), "ran")
					if n := len(f.asked()); n != 1 {
						t.Errorf("it was read %d times", n)
					}
				})
			}
		}
	}
}

func TestWhatIsReadIsOnRecordAsACallThatTheGateMade(t *testing.T) {
	t.Parallel()
	w, _, _ := diffWorld(t, diffRules, mcp.Legacy, "http", always(textResult(isNow)))
	c := join(t, w, mcp.Legacy, `{}`)
	c.callTool("write", writeArgs)
	found := w.audited(approval.EventCallAllowed)
	if len(found) != 1 || found[0].Agent != "bot" || !strings.HasSuffix(found[0].Tool, "/read") ||
		found[0].CorrelationID == "" || found[0].CorrelationID != w.pending(1)[0].CorrelationID {
		t.Fatalf("got %+v", found)
	}
	var data map[string]any
	if err := json.Unmarshal(found[0].Data, &data); err != nil || !strings.HasSuffix(fmt.Sprint(data["read_for"]),
		"/write") {
		t.Errorf("got %s", found[0].Data)
	}
}

// Whatever a server answers, people are asked, and see no more than can be compared.
func TestAServerThatDoesNotTellItsFileLeavesTheCardAsItIs(t *testing.T) {
	t.Parallel()
	block := func(s string) string { return `{"type":"text","text":` + string(mcp.Quote(s)) + `}` }
	for name, result := range map[string]string{
		"it fails":             `{"content":[` + block("no such file") + `],"isError":true}`,
		"an error":             "error -32000",
		"an odd isError":       `{"content":[` + block("a") + `],"isError":"false"}`,
		"binary":               textResult("a\x00b"),
		"no text":              `{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`,
		"a blob":               `{"content":[{"type":"resource","resource":{"uri":"file:///a","blob":"aGk="}}]}`,
		"two texts":            `{"content":[` + block("a") + `,` + block("b") + `]}`,
		"nothing":              `{"content":[]}`,
		"no content":           `{}`,
		"not an object":        `[]`,
		"a name twice":         `{"content":[` + block("a") + `],"content":[` + block("b") + `]}`,
		"a name in both cases": `{"content":[` + block("a") + `],"Content":[` + block("b") + `]}`,
		"a text twice":         `{"content":[{"type":"text","text":"a","text":"b"}]}`,
		"a file too long":      textResult(strings.Repeat("a\n", filediff.MaxFile/2+1)),
		"a result too long":    `{"content":[` + block("a") + `],"structuredContent":"` + strings.Repeat("a", 5<<20) + `"}`,
		"it wants more":        `{"resultType":"input_required","inputRequests":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w, f, _ := diffWorld(t, diffRules, mcp.Modern, "http", always(result))
			c := join(t, w, mcp.Legacy, `{}`)
			contains(t, "the answer", say(c.callTool("write", writeArgs)), "Approval requested")
			if r := w.pending(1)[0]; r.Preview != "" || r.PreviewFrom != "" || len(f.asked()) != 1 {
				t.Errorf("read %d times: %q by %q", len(f.asked()), r.Preview, r.PreviewFrom)
			}
		})
	}
}

func TestAFileMayComeAsAResource(t *testing.T) {
	t.Parallel()
	result := `{"content":[{"type":"text","text":"downloaded"},{"type":"resource","resource":{"uri":"a","text":` +
		string(mcp.Quote(isNow)) + `}}]}`
	w, _, _ := diffWorld(t, diffRules, mcp.Legacy, "http", always(result))
	join(t, w, mcp.Legacy, `{}`).callTool("write", writeArgs)
	want(t, "the preview", w.pending(1)[0].Preview, difference)
}

func TestAServerThatIsSlowToReadDelaysNobodyForLong(t *testing.T) {
	t.Parallel()
	w, f, up := diffWorld(t, diffRules, mcp.Legacy, "http", func(c *fakeCall) string {
		<-c.ctx.Done()
		return ""
	})
	c := join(t, w, mcp.Legacy, `{}`)
	begin := time.Now()
	contains(t, "the answer", say(c.callTool("write", writeArgs)), "Approval requested")
	if r := w.pending(1)[0]; r.Preview != "" || len(f.asked()) != 1 || time.Since(begin) > testkit.Patience {
		t.Errorf("after %s: %q", time.Since(begin), r.Preview)
	}
	if up.count() != 1 {
		t.Errorf("the server got %d calls", up.count())
	}
}

func TestNothingIsReadUnasked(t *testing.T) {
	t.Parallel()
	const ask = `{tools: [write], diff: {read: read}}`
	for name, rules := range map[string]string{
		"no diff":           `{policy: {rules: [{tools: [write]}, {tools: [read], action: allow}]}}`,
		"nobody allows it":  `{policy: {rules: [` + ask + `]}}`,
		"it is asked about": `{policy: {rules: [` + ask + `, {tools: [read], action: quarantine, risk: low}]}}`,
		"it is denied":      `{policy: {rules: [` + ask + `, {tools: [read], action: deny}]}}`,
		"of others alone":   `{policy: {rules: [` + ask + `, {tools: [read], agents: [other], action: allow}]}}`,
		"of other files": `{policy: {rules: [` + ask +
			`, {tools: [read], action: allow, conditions: [{param: path, under: [/b]}]}]}}`,
		"there is no such":    `{policy: {rules: [{tools: [write], diff: {read: reed}}, {tools: ["re*"], action: allow}]}}`,
		"the content is":      `{policy: {rules: [{tools: [write], diff: {read: read, content: text}}, {tools: [read], action: allow}]}}`,
		"the path is missing": `{policy: {rules: [{tools: [write], diff: {read: read, path: file}}, {tools: [read], action: allow}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w, f, _ := diffWorld(t, rules, mcp.Legacy, "http", always(textResult(isNow)))
			contains(t, "the answer", say(join(t, w, mcp.Legacy, `{}`).callTool("write", writeArgs)), "Approval requested")
			if r := w.pending(1)[0]; r.Preview != "" || len(f.asked()) != 0 {
				t.Errorf("read %q: %q", f.asked(), r.Preview)
			}
		})
	}
}

func TestNamesThatCanBeTakenForOneAnotherAreNotRead(t *testing.T) {
	t.Parallel()
	w, f, _ := diffWorld(t, diffRules, mcp.Legacy, "http", always(textResult(isNow)))
	c := join(t, w, mcp.Legacy, `{}`)
	contains(t, "the answer", say(c.callTool("write", `{"path":"/a","Path":"/b","content":"x"}`)), "Approval requested")
	if r := w.pending(1)[0]; r.Preview != "" || len(f.asked()) != 0 {
		t.Errorf("read %q: %q", f.asked(), r.Preview)
	}
}

// A tool that reads, and reads otherwise than it said, is not called without a person either.
func TestAReadToolThatChangedIsNotCalled(t *testing.T) {
	t.Parallel()
	w, f, _ := diffWorld(t, diffRules, mcp.Legacy, "http", always(textResult(isNow)))
	if err := w.db.Update(t.Context(), approval.WholeStore(), func(tx approval.Tx) error {
		return tx.PutPin(approval.ToolPin{Server: "up", Tool: "read", Digest: strings.Repeat("0", 64), SeenAt: tx.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	contains(t, "the answer", say(join(t, w, mcp.Legacy, `{}`).callTool("write", writeArgs)), "Approval requested")
	if r := w.pending(1)[0]; r.Preview != "" || len(f.asked()) != 0 {
		t.Errorf("read %q: %q", f.asked(), r.Preview)
	}
}

func TestEqualCallsAtOnceReadOnce(t *testing.T) {
	t.Parallel()
	gone, letGo := testkit.Latch()
	defer letGo()
	w, f, _ := diffWorld(t, diffRules, mcp.Legacy, "http", func(*fakeCall) string {
		<-gone
		return textResult(isNow)
	})
	const n = 8
	var calls sync.WaitGroup
	for range n {
		c := join(t, w, mcp.Legacy, `{}`)
		calls.Go(func() { contains(t, "an answer", say(c.callTool("write", writeArgs)), "Approval ") })
	}
	time.Sleep(100 * time.Millisecond) // real: others come while the first one looks; who comes later joins it too
	letGo()
	testkit.Wait(t, "all calls", calls.Wait)
	want(t, "the preview", w.pending(1)[0].Preview, difference)
	if got := f.asked(); len(got) != 1 {
		t.Errorf("it was read %d times", len(got))
	}
}

func TestAFileThatWouldStayAsItIsIsSaidToBe(t *testing.T) {
	t.Parallel()
	w, _, _ := diffWorld(t, diffRules, mcp.Legacy, "http", always(textResult("one\nthree\n")))
	join(t, w, mcp.Legacy, `{}`).callTool("write", writeArgs)
	want(t, "the preview", w.pending(1)[0].Preview, "/a stays as it is.\n")
}

func TestTheReadToolGetsTheArgsThatTheRuleNames(t *testing.T) {
	t.Parallel()
	w, f, _ := diffWorld(t, `
policy:
  rules:
    - tools: [write]
      diff: {path: file.name, content: file.text, read: read, read_args: {path: file.name, owner: owner, ref: branch}}
    - {tools: [read], action: allow}
`, mcp.Legacy, "http", always(textResult(isNow)))
	join(t, w, mcp.Legacy, `{}`).callTool("write", `{"file":{"name":"/a","text":"one\nthree\n"},"owner":"o"}`)
	want(t, "the preview", w.pending(1)[0].Preview, difference)
	want(t, "read", strings.Join(f.asked(), " "), `{"owner":"o","path":"/a"}`)
}

// Other args that a person approves are not those that were compared.
func TestAnEditTakesNoDifferenceAlong(t *testing.T) {
	t.Parallel()
	w, _, _ := diffWorld(t, strings.Replace(diffRules, "diff:", "approvers: [hana, ken], diff:", 1), mcp.Legacy, "http",
		always(textResult(isNow)))
	join(t, w, mcp.Legacy, `{}`).callTool("write", writeArgs)
	if next := w.edit(`{"path":"/a","content":"four\n"}`); next.Preview != "" || next.PreviewFrom != "" {
		t.Errorf("got %q", next.Preview)
	}
}
