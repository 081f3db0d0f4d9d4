package demo

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/client"
	"countersign/internal/emulator"
	"countersign/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin runs the demo, and ends it with the test.
func begin(ctx context.Context, t *testing.T, out io.Writer, pace time.Duration) *Demo {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	ready, done := make(chan *Demo, 1), make(chan error, 1)
	dir := t.TempDir()
	go func() {
		done <- Run(ctx, Options{Dir: dir, Page: "127.0.0.1:0", Listen: "127.0.0.1:0", Pace: pace, Out: out,
			Ready: func(d *Demo) { ready <- d }})
	}()
	select {
	case d := <-ready:
		t.Cleanup(func() {
			stop()
			if err := testkit.Receive(t, "the end of the demo", done); err != nil {
				t.Error(err)
			}
		})
		return d
	case err := <-done:
		stop()
		t.Fatal(err)
		return nil
	}
}

// act does on the page what a visitor would, and returns what the page is answered.
func act(ctx context.Context, t *testing.T, chat *emulator.Emulator, action string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chat.URL()+"/page/act", strings.NewReader(action))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	page := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := page.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheLanguageOfCardsAndAnswersIsSwitched(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d := begin(ctx, t, io.Discard, 5*time.Millisecond)
	inLINE(ctx, t, d.Chat, "Pay $20.00 from treasury to acme") // the first card
	for _, c := range []struct{ tag, sentence string }{
		{"ja", "treasury から acme へ $20.00 を送金"}, {"th", "โอน $20.00 จาก treasury ไปยัง acme"},
		{"zh-TW", "從 treasury 轉帳 $20.00 給 acme"}, {"en", "Pay $20.00 from treasury to acme"},
	} {
		before := len(d.Chat.LINE.Chat("hana"))
		if got := act(ctx, t, d.Chat, `{"person":"hana","kind":"language","tag":"`+c.tag+`"}`); strings.Contains(got,
			"error") {
			t.Fatalf("%s: %s", c.tag, got)
		}
		onPage(ctx, t, d.Chat, `"language":"`+c.tag+`"`)
		if del, err := d.Chat.LINE.Type(ctx, "hana", "pending", ""); err != nil || !del.OK() {
			t.Fatalf("%s: pending: %v, %d", c.tag, err, del.Status)
		}
		if err := d.Chat.WaitFor(ctx, func() bool {
			for _, m := range d.Chat.LINE.Chat("hana")[before:] {
				if strings.Contains(string(m.JSON), c.sentence) {
					return true
				}
			}
			return false
		}); err != nil {
			t.Errorf("%s: no card says %q", c.tag, c.sentence)
		}
	}
	if got := act(ctx, t, d.Chat, `{"person":"hana","kind":"language","tag":"xx"}`); !strings.Contains(got,
		"there is no language") {
		t.Errorf("a language that there is not: %s", got)
	}
}

func TestAChangeOfThePolicyIsSaid(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out testkit.Buffer
	d := begin(ctx, t, &out, 5*time.Millisecond)
	file := filepath.Join(d.Dir, "countersign.yaml")
	write := func(old, changed string) {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(b), old) {
			t.Fatalf("%q is not in the file: %v", old, err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(b), old, changed, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := func(text string) {
		t.Helper()
		if err := d.Chat.WaitFor(ctx, func() bool { return strings.Contains(out.String(), text) }); err != nil {
			t.Fatalf("the output never says %q:\n%s", text, out.String())
		}
	}
	write("args.amount_cents < 1000", "args.amount_cents < 1500")
	onPage(ctx, t, d.Chat, "Your change is in force.")
	said("Your change is in force.")

	write("args.amount_cents < 1500", "args.amount_cents < oops")
	onPage(ctx, t, d.Chat, `"notice":"Your change is not in force, the earlier policy still is. countersign.yaml:`)
	said("NOT in force: " + file + ":")
	if got := act(ctx, t, d.Chat, `{"person":"hana","kind":"language","tag":"ja"}`); !strings.Contains(got,
		"the language stays as it is: ") {
		t.Errorf("another language while the file is broken: %s", got)
	}
	onPage(ctx, t, d.Chat, `"language":"en"`)

	write("args.amount_cents < oops", "args.amount_cents < 1700")
	onPage(ctx, t, d.Chat, `"news":{"n":2,"text":"countersign.yaml was read again. Your change is in force."}`)
	if state := pageState(t, d.Chat); strings.Contains(state, `"notice":`) {
		t.Errorf("it is put right, and still the page says that it is wrong: %s", state)
	}

	write("args.amount_cents < 1700", "args.amount_cents < oops")
	onPage(ctx, t, d.Chat, `"notice":"Your change is not in force`)
	write("args.amount_cents < oops", "args.amount_cents < 1700")
	onPage(ctx, t, d.Chat, `"news":{"n":3,"text":"countersign.yaml was read again. Your change is in force."}`)
}

func TestTheAgentWaitsForTheFirstTap(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d := begin(ctx, t, io.Discard, time.Millisecond)
	boss, err := client.New(d.URL, d.AdminToken.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer boss.Close()
	onPage(ctx, t, d.Chat, "I wait for your first tap.")
	inLINE(ctx, t, d.Chat, "Pay $20.00 from treasury to acme")
	asked := func() []client.Approval {
		t.Helper()
		p, err := boss.Approvals(ctx, client.ApprovalQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Items
	}
	// Six of its turns are the moment that it gives people later on: many times as long changes nothing now.
	if err := sleep(ctx, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	first := asked()
	if len(first) != 1 || first[0].Tool != "transfer_credits" {
		t.Fatalf("asked before anybody tapped: %+v", first)
	}
	del, err := d.Chat.LINE.Tap(ctx, "hana", "", "action=approve&id="+first[0].ID)
	if err != nil || !del.OK() {
		t.Fatalf("tap: %v, %d", err, del.Status)
	}
	onPage(ctx, t, d.Chat, "the daily limit must go up") // and while that waits, the next: it has met somebody
	onPage(ctx, t, d.Chat, "I file the numbers with the archive")
}

func TestAStrangersTapIsOnRecord(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d := begin(ctx, t, io.Discard, 5*time.Millisecond)
	onPage(ctx, t, d.Chat, "Pay $20.00 from treasury to acme", `"Audit log"`)
	if err := d.Chat.WaitFor(ctx, func() bool { return len(d.Chat.Slack.Messages("C0APPROVALS")) > 0 }); err != nil {
		t.Fatal(err)
	}
	var id string
	if m := regexp.MustCompile(`"value":"([0-9A-Z]{26})`).FindSubmatch(
		d.Chat.Slack.Messages("C0APPROVALS")[0].Blocks); m != nil {
		id = string(m[1])
	}
	if _, err := d.Chat.Slack.Tap(ctx, emulator.StrangerName, "C0APPROVALS", "", "approve", id); err != nil {
		t.Fatal(err)
	}
	onPage(ctx, t, d.Chat, `"refused","a stranger","transfer_credits `+short(id)+`"`)
}

func TestTheMachinesZone(t *testing.T) {
	tokyo := time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("", 9*3600))
	for _, c := range []struct {
		now   time.Time
		names []string
		want  string
	}{
		{tokyo, []string{"", "Local", "Asia/Tokyo", "Asia/Seoul"}, "Asia/Tokyo"},
		{tokyo, []string{"no such", "Europe/Berlin", "Asia/Seoul"}, "Asia/Seoul"},
		{tokyo, nil, "Etc/GMT-9"},
		{tokyo.In(time.FixedZone("", -5*3600)), nil, "Etc/GMT+5"},
		{tokyo.UTC(), []string{"Local"}, "UTC"},
		{tokyo.In(time.FixedZone("", 5*3600+1800)), nil, "UTC"},
	} {
		if got := zoneOf(c.now, c.names...); got != c.want {
			t.Errorf("%v of %q: %s, want %s", c.now, c.names, got, c.want)
		}
	}
	_, want := time.Now().Zone()
	l, err := time.LoadLocation(machineZone(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if _, got := time.Now().In(l).Zone(); got != want && want%3600 == 0 {
		t.Errorf("%v is %d seconds away from UTC, this machine %d", l, got, want)
	}
}

// TestARoundOfTheDemo plays the newcomer: approve one thing here and another there, deny a deletion, give
// the reason that closing the books needs, and look at what the agent did.
func TestARoundOfTheDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	var out testkit.Buffer
	ready := make(chan *Demo, 1)
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Dir: dir, Page: "127.0.0.1:0", Listen: "127.0.0.1:0", Pace: 5 * time.Millisecond, Rounds: 1,
			Out: &out, Ready: func(d *Demo) { ready <- d }})
	}()
	var d *Demo
	select {
	case d = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	res, err := http.Get(d.Chat.URL() + "/page/inbox?person=ken") // follows to the page that the link opens
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Request.URL.Hostname() != "localhost" ||
		!strings.HasPrefix(res.Request.URL.Path, "/signin") {
		t.Errorf("ken's inbox: %d from %s", res.StatusCode, res.Request.URL.Redacted())
	}
	if !strings.Contains(out.String(), d.Chat.URL()) {
		t.Errorf("it does not say where to look:\n%s", out.String())
	}
	boss, err := client.New(d.URL, d.AdminToken.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer boss.Close()
	// pending waits for the request of a tool to be pending.
	pending := func(tool string) client.Approval {
		t.Helper()
		var found client.Approval
		err := d.Chat.WaitFor(ctx, func() bool {
			p, err := boss.Approvals(ctx, client.ApprovalQuery{Status: "pending", Tool: tool})
			if err != nil {
				t.Error(err)
				return true
			}
			if len(p.Items) == 1 {
				found = p.Items[0]
			}
			return len(p.Items) == 1
		})
		if err != nil {
			t.Fatalf("%s never came: %v\n%s", tool, err, out.String())
		}
		return found
	}
	// card waits for hana's card of a request in LINE.
	card := func(id string) {
		t.Helper()
		inLINE(ctx, t, d.Chat, id)
	}
	tap := func(err error, del emulator.Delivery) {
		t.Helper()
		if err != nil || !del.OK() {
			t.Fatalf("tap: %v, answered %d %s", err, del.Status, del.Body)
		}
	}

	transfer := pending("transfer_credits")
	card(transfer.ID)
	del, err := d.Chat.LINE.Tap(ctx, emulator.StrangerName, "", "action=approve&id="+transfer.ID)
	if err == nil && del.OK() {
		t.Log("the stranger has no such card to tap, yet could")
	}
	// Other args than were asked for: the agent runs those.
	if _, err := boss.Decide(ctx, transfer.ID, client.Approve, "", client.WithArgs([]byte(
		`{"from":"treasury","to":"acme","amount_cents":1500}`))); err != nil {
		t.Fatal(err)
	}

	slack := func(id string) {
		t.Helper()
		if err := d.Chat.WaitFor(ctx, func() bool {
			for _, m := range d.Chat.Slack.Messages("C0APPROVALS") {
				if strings.Contains(string(m.Blocks), id) {
					return true
				}
			}
			return false
		}); err != nil {
			t.Fatalf("no card of %s in Slack", id)
		}
	}
	limit := pending("write_file")
	if !strings.Contains(limit.Preview, "-daily_limit_cents: 50000\n+daily_limit_cents: 80000\n") ||
		!strings.HasPrefix(limit.Preview, "--- a/config/limits.yaml\n+++ b/config/limits.yaml\n@@ -1,4 +1,4 @@\n") {
		t.Errorf("preview:\n%s", limit.Preview)
	}
	slack(limit.ID)
	del, err = d.Chat.Slack.Tap(ctx, "ken", "C0APPROVALS", "", "approve", limit.ID)
	tap(err, del)

	command := pending("run_command")
	card(command.ID)
	del, err = d.Chat.LINE.Tap(ctx, "hana", "", "action=approve&id="+command.ID)
	tap(err, del)

	// The first refund is approved for an hour: the others of the round ask nobody.
	if _, err := boss.Decide(ctx, pending("refund").ID, client.Approve, "",
		client.GrantFor(client.GrantTerms{For: time.Hour})); err != nil {
		t.Fatal(err)
	}

	deletion := pending("delete_file")
	card(deletion.ID)
	del, err = d.Chat.LINE.Type(ctx, "hana", "deny "+deletion.ID+" keep it for the auditors", "")
	tap(err, del)
	salaries, report := pending("transfer_credits"), pending("write_file")
	slack(salaries.ID)
	card(salaries.ID)
	for _, id := range []string{salaries.ID, report.ID} {
		del, err = d.Chat.Slack.Tap(ctx, "ken", "C0APPROVALS", "", "approve", id)
		tap(err, del)
	}
	if r, err := boss.Approval(ctx, salaries.ID); err != nil || r.Status != "pending" || len(r.Votes) != 1 {
		t.Errorf("salaries after the first of two: %s, %v", r.Status, err)
	}
	del, err = d.Chat.LINE.Tap(ctx, "hana", "", "action=approve&id="+salaries.ID)
	tap(err, del)

	onPage(ctx, t, d.Chat, `"high","Pay $121.00 from treasury to payroll","used","ken and hana"`,
		`"line hana","request","delivered"`, `"slack #approvals","request",`)
	books := pending("close_books")
	del, err = d.Chat.LINE.Type(ctx, "hana", "freeze treasury-bot not this month", "")
	tap(err, del)
	if r, err := boss.Approval(ctx, books.ID); err != nil || r.Status != "cancelled" || r.ReasonCode != "frozen" {
		t.Errorf("what waited when the agent was frozen: %s, %s, %v", r.Status, r.ReasonCode, err)
	}

	if err := testkit.Receive(t, "the end of the demo", done); err != nil {
		t.Fatal(err)
	}
	log := out.String()
	for _, want := range []string{"denied: Policy denied: forbidden — Nobody lets an agent format a disk", "not as asked",
		"hana changed the arguments and approved these", "ken and hana", "Do not retry.",
		"Allowed: hana approved this for 1 hour.", "[APPROVAL DENIED] delete_file", "keep it for the auditors",
		"done: moved drafts/old-report.md to archive/old-report.md", "done: wrote reports/2026-11-1.md",
		"done: ran sort drafts/numbers.csv > archive/numbers-1.csv"} {
		if !strings.Contains(log, want) {
			t.Errorf("the agent never said %q", want)
		}
	}
	if strings.Contains(log, archiveToken) {
		t.Error("a secret is told to everybody who watches")
	}
	for name, want := range map[string]string{"ledger.json": `"acme": 1500,
  "customers": 4650`, "config/limits.yaml": "daily_limit_cents: 80000", "archive/numbers-1.csv": "2026-09,120000", "archive/old-report.md": "draft"} {
		b, err := os.ReadFile(filepath.Join(dir, "work", filepath.FromSlash(name)))
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if v := d.Chat.Violations(); len(v) != 0 {
		t.Errorf("the platforms' rules were broken: %v", v)
	}
	if t.Failed() {
		t.Log(log)
	}
}

func TestToolsStayInTheirFolder(t *testing.T) {
	shop, err := openWorkshop(filepath.Join(t.TempDir(), "work"))
	if err != nil {
		t.Fatal(err)
	}
	defer shop.close()
	for tool, path := range map[string]string{"write_file": "../outside", "delete_file": "/etc/hostname"} {
		if _, err := shop.run(t.Context(), tool, map[string]any{"path": path, "content": "x"}); err == nil {
			t.Errorf("%s went to %s", tool, path)
		}
	}
	if _, err := shop.run(t.Context(), "transfer_credits", map[string]any{"from": "treasury", "to": "acme",
		"amount_cents": 1 << 40}); err == nil {
		t.Error("moved more credits than there are")
	}
}

// pageState is what the page shows of hana.
func pageState(t *testing.T, chat *emulator.Emulator) string {
	t.Helper()
	page := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := page.Get(chat.URL() + "/page/state")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// inLINE waits until a message to hana in LINE has a text. The page may have it before: a request is stored first.
func inLINE(ctx context.Context, t *testing.T, chat *emulator.Emulator, text string) {
	t.Helper()
	if err := chat.WaitFor(ctx, func() bool {
		for _, m := range chat.LINE.Chat("hana") {
			if strings.Contains(string(m.JSON), text) {
				return true
			}
		}
		return false
	}); err != nil {
		t.Fatalf("no message in LINE has %q", text)
	}
}

// onPage waits until the page shows all of these.
func onPage(ctx context.Context, t *testing.T, chat *emulator.Emulator, wants ...string) {
	t.Helper()
	state := ""
	for _, want := range wants {
		if err := chat.WaitFor(ctx, func() bool {
			state = pageState(t, chat)
			return strings.Contains(state, want)
		}); err != nil {
			t.Fatalf("the page never showed %s: %s", want, state)
		}
	}
}

func TestThePageSaysThatTheGateIsGone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	chat, err := newChat(map[string]string{}, nil, new(setting))
	if err != nil {
		t.Fatal(err)
	}
	defer chat.Close()
	if err := chat.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		watch(watching, &Demo{Chat: chat, URL: "http://127.0.0.1:1", AdminToken: "nobody-listens-there",
			alert: func(_, text string) { chat.Page.SetNotice(text) }})
	})
	onPage(ctx, t, chat, `"notice":"The gate does not answer.`)
	stop()
	testkit.Wait(t, "the end of the watch", watcher.Wait)
}

func TestDiff(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"a line in the middle": {"1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nfour\n5\n6\n7\n",
			"@@ -2,5 +2,5 @@\n 2\n 3\n-4\n+four\n 5\n 6\n"},
		"the first line": {"1\n2\n", "one\n2\n", "@@ -1,2 +1,2 @@\n-1\n+one\n 2\n"},
		"a line more":    {"1\n", "1\n2\n", "@@ -1,1 +1,2 @@\n 1\n+2\n"},
		"a line less":    {"1\n2\n3\n", "1\n3\n", "@@ -1,3 +1,2 @@\n 1\n-2\n 3\n"},
	} {
		if got := diff("f", strings.SplitAfter(c.old, "\n"), strings.SplitAfter(c.new, "\n")); got != "--- a/f\n+++ b/f\n"+
			c.want {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
