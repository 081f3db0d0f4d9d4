//go:build postgres

package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/client"
	"countersign/internal/app"
	"countersign/internal/config"
	"countersign/internal/emulator"
	"countersign/internal/store/move"
	"countersign/internal/store/postgres/postgrestest"
	"countersign/internal/telemetry/telemetrytest"
	"countersign/internal/testkit"
)

var (
	// server is that of TestOnPostgreSQL.
	server *postgrestest.Server
	// behind is the pooler through which it is reached; nil: none.
	behind *postgrestest.Pooler
)

// The whole program on PostgreSQL, as on SQLite; and two of them on one database.
func TestOnPostgreSQL(t *testing.T) {
	var err error
	if server, err = postgrestest.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	chooseStore = func(w *world) func(string) string {
		if !strings.HasPrefix(w.t.Name(), "TestOnPostgreSQL/") {
			return func(text string) string { return text }
		}
		at := server.Database(w.t, "")
		postgrestest.SetClock(w.t, at, 0)
		w.env["DATABASE"] = reached(at)
		return replacing("store: sqlite:${STORE}\n",
			"store: ${DATABASE}\nreplicas: {secret: \"${FLEET_SECRET}\", address: \"http://127.0.0.1:8787\"}\n")
	}
	t.Cleanup(func() { chooseStore = nil })
	for name, test := range map[string]func(t *testing.T){
		"a call, a tap in LINE and back":  TestACallATapInLINEAndBack,
		"a Slack card is edited":          TestASlackCardIsEditedWhenItIsOver,
		"an expiry":                       TestAnExpiryWakesTheWaiterAndEditsTheCard,
		"a waiting call":                  TestAWaitingCallIsAnsweredByTheTap,
		"outsiders, forgers, replayers":   TestRule8_OutsidersForgersAndReplayersDecideNothing,
		"words in LINE":                   TestTypedWordsInLINE,
		"a batch":                         TestABatchIsOneCard,
		"a restart":                       TestRule7_ARestartGoesOnWhereItWas,
		"a stand-in":                      TestAStandInGetsTheCard,
		"two programs decide once":        testTwoProgramsDecideOnce,
		"two programs wake and freeze":    testTwoProgramsWakeAndFreeze,
		"one of two programs is gone":     testOneOfTwoProgramsIsGone,
		"two programs show one audit log": testTwoProgramsShowOneLog,
		"two programs tell once":          testTwoProgramsTellOnce,
		"a program that is gone ran it":   testAProgramThatIsGoneRanIt,
		"a task outlives its program":     testATaskOutlivesItsProgram,
		"a session through the other":     testASessionThroughTheOtherProgram,
		"two programs know who signed in": testTwoProgramsKnowWhoSignedIn,
		"another server takes over":       testAnotherServerTakesOver,
		"a clock that is wrong":           testAClockThatIsWrong,
		"three programs under fire":       testReplicasUnderFire,
		"an older configuration":          testAnOlderConfigurationEndsNothing,
		"a program withdraws":             testAProgramWithdraws,
		"a store moves and comes back":    testAStoreMovesAndComesBack,
		"a life over two programs":        testALifeOverTwoProgramsIsOneTrace,
		"behind a pooler":                 testBehindAPooler,
	} {
		t.Run(name, test)
	}
}

// reached is the URL at which programs reach a database.
func reached(at string) string {
	if behind != nil {
		at = behind.URL(at) + "&default_query_exec_mode=exec"
	}
	return at + "&pool_max_conns=8"
}

// Behind PgBouncer, which may have each transaction in another session, the same holds.
func testBehindAPooler(t *testing.T) {
	behind = server.StartPooler(t)
	defer func() { behind = nil }()
	for name, test := range map[string]func(t *testing.T){
		"a call, a tap in LINE and back": TestACallATapInLINEAndBack,
		"two programs decide once":       testTwoProgramsDecideOnce,
		"two programs wake and freeze":   testTwoProgramsWakeAndFreeze,
		"a store moves and comes back":   testAStoreMovesAndComesBack,
	} {
		t.Run(name, test)
	}
}

// second starts another program on the store and the configuration of w. The platforms call the one that was started
// last.
func (w *world) second() *world {
	w.t.Helper()
	return w.secondWith(w.path)
}

// secondWith is second with the configuration of another file.
func (w *world) secondWith(path string) *world {
	w.t.Helper()
	s := &world{t: w.t, ctx: w.ctx, dir: w.dir, path: path, env: w.env, chat: w.chat, log: w.log}
	s.start()
	return s
}

// configure has a program read its configuration again, with something else in place of a part.
func (w *world) configure(old, with string) {
	w.t.Helper()
	text, err := os.ReadFile(w.path)
	if err == nil {
		err = os.WriteFile(w.path, []byte(replacing(old, with)(string(text))), 0o600)
	}
	if err == nil {
		err = w.app.Reload(w.ctx)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// race does something at both programs at once, so often, and returns what came of each.
func race[T any](t *testing.T, n int, one, other *world, do func(w *world) T) []T {
	t.Helper()
	out := make([]T, n)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		w := []*world{one, other}[i%2]
		all.Go(func() {
			<-begin
			out[i] = do(w)
		})
	}
	close(begin)
	testkit.Wait(t, "all of them", all.Wait)
	return out
}

func ask(c client.Call) func(w *world) client.Answer {
	return func(w *world) client.Answer {
		a, err := w.bot.Call(w.ctx, c)
		if err != nil {
			w.t.Error(err)
		}
		return a
	}
}

// Of racing equal calls one makes a request, with one card; of racing decisions one holds; and the approval is used
// once.
func testTwoProgramsDecideOnce(t *testing.T) {
	one := newWorld(t)
	other := one.second()
	answers := race(t, 80, one, other, ask(transfer(2000)))
	id := answers[0].ApprovalID
	differs := func(a client.Answer) bool { return a.ApprovalID != id || a.Kind != client.AnswerPending }
	if slices.ContainsFunc(answers, differs) {
		t.Fatalf("%+v", answers)
	}
	one.slackCard("transfer_credits")
	one.lineCard("transfer_credits", 1)
	decided := race(t, 32, one, other, func(w *world) error {
		_, err := w.hana.Decide(w.ctx, id, client.Approve, "")
		return err
	})
	if n := len(slices.DeleteFunc(decided, func(err error) bool { return err != nil })); n != 1 {
		t.Errorf("%d decisions held", n)
	}
	if cards := one.chat.Slack.Messages("C0APPROVALS"); len(cards) != 1 {
		t.Errorf("%d cards in Slack", len(cards))
	}
	sent, err := other.hana.Notifications(other.ctx, client.NotificationQuery{ApprovalID: id, Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range sent.Items {
		if n.Attempt > 1 {
			t.Errorf("%s by %s in %d attempts", n.Kind, n.Channel, n.Attempt)
		}
	}
	used := race(t, 80, one, other, ask(transfer(2000)))
	if n := len(slices.DeleteFunc(used, func(a client.Answer) bool { return a.Kind != client.AnswerApproved })); n != 1 {
		t.Errorf("used %d times", n)
	}
}

// Whoever waits at one program wakes by what is decided at the other, and a freeze there holds here from its answer on.
func testTwoProgramsWakeAndFreeze(t *testing.T) {
	one := newWorld(t)
	other := one.second()
	for _, at := range [][2]*world{{one, other}, {other, one}} {
		here, there := at[0], at[1]
		c := transfer(2000)
		id := here.expect(c, client.AnswerPending).ApprovalID
		answers := make(chan client.Answer, 1)
		go func() {
			a, err := here.bot.CallWait(here.ctx, c, time.Minute)
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
		if _, err := there.hana.Decide(there.ctx, id, client.Approve, ""); err != nil {
			t.Fatal(err)
		}
		if a := testkit.Receive(t, "the answer", answers); a.Kind != client.AnswerApproved {
			t.Errorf("%s", a.Kind)
		}
		here.expect(client.Call{Tool: "read_file"}, client.AnswerAllow)
		if _, err := there.hana.Freeze(there.ctx, "bot", ""); err != nil {
			t.Fatal(err)
		}
		here.expect(client.Call{Tool: "read_file"}, client.AnswerDenied)
		if _, err := there.hana.Unfreeze(there.ctx, "bot"); err != nil {
			t.Fatal(err)
		}
		here.expect(client.Call{Tool: "read_file"}, client.AnswerAllow)
	}
}

// What a program could not send is sent by the other one, where the first is gone, with the same key and in its next
// attempt; and what is approved there is used.
func testOneOfTwoProgramsIsGone(t *testing.T) {
	one := newWorld(t, replacing("first_retry: 1s, max_backoff: 2s", "first_retry: 5s, max_backoff: 5s"))
	other := one.second()
	one.chat.Fail(emulator.LINEPush, 1, emulator.ServerError())
	id := one.expect(transfer(3000), client.AnswerPending).ApprovalID
	one.eventually("the first attempt has failed", func() bool {
		return slices.ContainsFunc(one.notifications(client.NotificationQuery{ApprovalID: id, Channel: "line"}),
			func(n client.Notification) bool { return n.Status == "retrying" })
	})
	one.stop()
	other.lineCard(id, 1)
	keys := map[string]int{}
	for _, c := range other.chat.Calls(emulator.LINEPush) {
		keys[c.Header.Get("X-Line-Retry-Key")]++
	}
	if len(keys) != 1 || other.notifications(client.NotificationQuery{ApprovalID: id, Channel: "line"})[0].Attempt != 2 {
		t.Errorf("sent with the keys %v", keys)
	}
	if _, err := other.hana.Decide(other.ctx, id, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	other.expect(transfer(3000), client.AnswerApproved)
}

// A program that is about to stop says so to a load balancer, and works on meanwhile, if others are there.
func testAProgramWithdraws(t *testing.T) {
	one := newWorld(t)
	other := one.second()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		one.app.Withdraw(ctx)
		close(done)
	}()
	one.eventually("it says so", func() bool { return strings.Contains(one.get("/readyz"), `"status":"stopping"`) })
	one.expect(transfer(2000), client.AnswerPending)
	if got := other.get("/readyz"); !strings.Contains(got, `"status":"ready"`) {
		t.Errorf("the other says %s", got)
	}
	cancel()
	testkit.Receive(t, "its end", done)
	one.stop()
	other.app.Withdraw(t.Context()) // nobody is there to be sent to
}

// Both show the same audit log, whoever has written it, without a hole.
func testTwoProgramsShowOneLog(t *testing.T) {
	one := newWorld(t)
	other := one.second()
	if !strings.Contains(other.get("/metrics"), `countersign_requests_pending{fleet="postgres://`) {
		t.Error("a gauge that is the same at both does not say so")
	}
	race(t, 40, one, other, func(w *world) client.Answer {
		return ask(client.Call{Tool: "read_file", SessionID: fmt.Sprint("at ", w.app.Addr())})(w)
	})
	var logs [2][]int64
	for i, w := range []*world{one, other} {
		page, err := w.hana.Audit(w.ctx, client.AuditQuery{Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Items {
			logs[i] = append(logs[i], e.Seq)
		}
	}
	if !slices.Equal(logs[0], logs[1]) || len(logs[0]) < 40 {
		t.Errorf("%v\n%v", logs[0], logs[1])
	}
	for i := range len(logs[0]) - 1 {
		if logs[0][i] != logs[0][i+1]+1 {
			t.Errorf("a hole between %d and %d", logs[0][i+1], logs[0][i])
		}
	}
}

// Of an agent that is over a budget at both programs the admins are told once.
func testTwoProgramsTellOnce(t *testing.T) {
	one := newWorld(t, replacing("limits: none", "limits: {agent: {calls: 4/h}, person: {calls: 0}}"))
	other := one.second()
	spend := func(w *world, agent *client.Client) {
		for range 5 {
			_, _ = agent.Call(w.ctx, client.Call{Tool: "read_file"}) // the last is refused
		}
	}
	spend(one, one.bot)
	one.told("agent:bot is over its limit (calls: 4/h)")
	spend(other, other.bot)
	spend(other, other.client("OTHER_TOKEN")) // which is told after what came before
	one.told("agent:other is over its limit (calls: 4/h)")
	of := map[string]int{}
	for _, e := range one.audit("rate_limited") {
		of[e.Actor]++
	}
	if of["agent:bot"] != 1 || of["agent:other"] != 1 {
		t.Errorf("on record: %v", of)
	}
}

// A call that one program has sent on goes on, whatever other programs start and stop; and nobody knows what came of
// one whose program is gone.
func testAProgramThatIsGoneRanIt(t *testing.T) {
	server := newDeskServer(t, [][][]traceCall{{{{Tool: "transfer_credits"}}}})
	one := newWorld(t, replacing("policy:\n",
		"mcp: {hold: 0s, servers: [{name: desk, url: \""+server.url+"\", prefix: \"\"}]}\npolicy:\n"))
	session := newMCPSession(t, one.url("/mcp"), secrets["AGENT_TOKEN"])
	session.call("transfer_credits", transfer(2000).Args)
	rs, err := one.hana.Approvals(one.ctx, client.ApprovalQuery{Status: "pending"})
	if err != nil || len(rs.Items) != 1 {
		t.Fatalf("%d are pending, %v; want one", len(rs.Items), err)
	}
	id := rs.Items[0].ID
	if _, err := one.hana.Decide(one.ctx, id, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	server.mu.Lock() // it does not answer yet
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		session.call("transfer_credits", transfer(2000).Args)
	}()
	one.eventually("it is sent on", func() bool { return !one.status(id).DispatchedAt.IsZero() })
	one.second().stop()
	other := one.second()
	if ran := other.status(id).RunResult; ran != "" {
		t.Errorf("while it runs it is %s", ran)
	}
	server.mu.Unlock()
	testkit.Receive(t, "the answer", answered)
	if ran := other.status(id).RunResult; ran != client.RunSucceeded {
		t.Errorf("it has run, and is %q", ran)
	}

	other.sql(`UPDATE approval_requests SET outcome = NULL, runner = '01KAFHZX3T9W8Y7B6A5D4C3E2F' WHERE id = $1`, id)
	other.eventually("nobody knows", func() bool { return other.status(id).RunResult == client.RunUnknown })
}

// What one program was asked is told by the other, where people press and the approval is used: in the same trace.
func testALifeOverTwoProgramsIsOneTrace(t *testing.T) {
	c := telemetrytest.New(t)
	one := newWorld(t, tracing(c))
	id := one.ask(traceparent, client.AnswerPending).ApprovalID
	one.lineCard(id, 1)
	one.eventually("the cards have gone out", func() bool { return len(one.audit("notification_sent")) == 2 })
	other := one.second() // it is called by the platforms
	other.tapLINE("hana", id, "approve")
	other.ask("00-"+laterTrace+"-"+laterSpan+"-01", client.AnswerApproved)
	one.stop()
	other.stop()
	checkLife(t, c, id)
}

// modern sends a request of an MCP client that has tasks and no session, and returns its answer.
func (w *world) modern(method, name, params string) string {
	w.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, method, params)
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.url("/mcp"), strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for key, value := range map[string]string{"Content-Type": "application/json", "Mcp-Method": method,
		"Mcp-Protocol-Version": "2026-07-28", "Authorization": "Bearer " + secrets["AGENT_TOKEN"], "Mcp-Name": name} {
		req.Header.Set(key, value)
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// A task that one program runs is asked for through the other, and run by that once the first is gone: once.
func testATaskOutlivesItsProgram(t *testing.T) {
	server := newDeskServer(t, [][][]traceCall{{{{Tool: "transfer_credits"}}}})
	one := newWorld(t, replacing("policy:\n",
		"mcp: {hold: 0s, servers: [{name: desk, url: \""+server.url+"\", prefix: \"\"}]}\npolicy:\n"))
	other := one.second()
	begin := func(credits int) string {
		t.Helper()
		answer := one.modern("tools/call", "transfer_credits",
			fmt.Sprintf(`"name":"transfer_credits","arguments":%s`, transfer(credits).Args))
		_, id, _ := strings.Cut(answer, `"taskId":"`)
		id, _, ok := strings.Cut(id, `"`)
		if !ok {
			t.Fatalf("no task: %s", answer)
		}
		return id
	}
	getAt := func(w *world, id string) string { return w.modern("tasks/get", id, `"taskId":"`+id+`"`) }
	get := func(id string) string { return getAt(other, id) }
	ran, waits := begin(2000), begin(3000)
	if _, err := other.hana.Decide(other.ctx, ran, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	other.eventually("the result through the other", func() bool {
		return strings.Contains(get(ran), `"status":"completed"`)
	})
	if got, want := get(ran), getAt(one, ran); got != want || strings.Contains(got, "restarted") {
		t.Errorf("through the other it is %s; where it ran, %s", got, want)
	}
	one.stop()
	if got := get(waits); !strings.Contains(got, `"status":"working"`) {
		t.Errorf("while nobody has taken it up: %s", got)
	}
	if _, err := other.hana.Decide(other.ctx, waits, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	other.eventually("the other runs it", func() bool { return strings.Contains(get(waits), `"status":"completed"`) })
	if got := get(waits); strings.Contains(got, "restarted") {
		t.Errorf("it was not the other that ran it: %s", got)
	}
	if got := get(ran); !strings.Contains(got, "its result was lost when the gate restarted") {
		t.Errorf("what ran before: %s", got)
	}
	if n := server.count(); n != 2 {
		t.Errorf("%d calls ran, want 2", n)
	}
}

// A session that began at one program is used at the other, with no header twice on the way back.
func testASessionThroughTheOtherProgram(t *testing.T) {
	server := newDeskServer(t, [][][]traceCall{{{{Tool: "transfer_credits"}}}})
	one := newWorld(t, replacing("policy:\n",
		"mcp: {hold: 0s, servers: [{name: desk, url: \""+server.url+"\", prefix: \"\"}]}\npolicy:\n"))
	other := one.second()
	session := newMCPSession(t, one.url("/mcp"), secrets["AGENT_TOKEN"])
	session.url = other.url("/mcp")
	if kind, _ := session.call("transfer_credits", transfer(2000).Args); kind != client.AnswerPending {
		t.Errorf("the call is %s", kind)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, session.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+session.token)
	req.Header.Set("Mcp-Session-Id", session.id)
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		t.Errorf("the end is %s", res.Status)
	}
	for name, values := range res.Header {
		if len(values) > 1 {
			t.Errorf("%s: %q", name, values)
		}
	}
}

// A link that one program makes opens at the other, and who has signed in there decides here, with the session's key.
func testTwoProgramsKnowWhoSignedIn(t *testing.T) {
	one := newWorld(t)
	other := one.second()
	id := one.expect(transfer(2000), client.AnswerPending).ApprovalID
	l, err := one.hana.SignInLink(one.ctx)
	if err != nil {
		t.Fatal(err)
	}
	cookie := other.redeem(strings.Replace(l.URL, one.url("/"), other.url("/"), 1))
	if !one.in(cookie) || !other.in(cookie) {
		t.Error("one of them does not know the session")
	}
	form := url.Values{"viewer": {"hana"}, "do": {"approve"}, "v": {one.status(id).Version}, "key": {"none"}}
	if got := one.page(one.url("/r/"+id+"/decide"), cookie, form); got.StatusCode == http.StatusSeeOther {
		t.Errorf("without the session's key: %s", got.Status)
	}
	form.Set("key", other.key)
	got := one.page(one.url("/r/"+id+"/decide"), cookie, form)
	if got.StatusCode != http.StatusSeeOther || other.status(id).Status != "approved" {
		t.Errorf("with it: %s", got.Status)
	}
}

// Another server takes over for the database's, which may lack what was used: what was open ends, everybody signs in
// anew, and the admins are told, once, and by one of the programs.
func testAnotherServerTakesOver(t *testing.T) {
	one := newWorld(t)
	other := one.second()
	waits := one.expect(transfer(2000), client.AnswerPending).ApprovalID
	unused := one.expect(transfer(3000), client.AnswerPending).ApprovalID
	if _, err := one.hana.Decide(one.ctx, unused, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	l, err := one.hana.SignInLink(one.ctx)
	if err != nil {
		t.Fatal(err)
	}
	cookie := one.redeem(l.URL)
	one.sql(`UPDATE store_state SET lineage = lineage || '0'`)
	for _, w := range []*world{other, one} {
		w.expect(transfer(3000), client.AnswerPending)
		for _, id := range []string{waits, unused} {
			if got := w.status(id); got.Status != "cancelled" || got.EndCode != "restored" {
				t.Errorf("%s is %s, %s", id, got.Status, got.EndCode)
			}
		}
		if w.in(cookie) {
			t.Error("still signed in")
		}
		if es := w.audit("store_failover"); len(es) != 1 || es[0].Actor != "system:restore" {
			t.Errorf("on record: %+v", es)
		}
	}
	one.told("Another server has taken over the gate's database")
}

// A store that is taken to a file, and from there to another database, is the same store: what was used is not used
// again, what was open has ended, and who was signed in signs in anew. The program does not start where it was before.
func testAStoreMovesAndComesBack(t *testing.T) {
	w := newWorld(t)
	approve := func(cents int) (id string) {
		t.Helper()
		id = w.expect(transfer(cents), client.AnswerPending).ApprovalID
		if _, err := w.hana.Decide(w.ctx, id, client.Approve, ""); err != nil {
			t.Fatal(err)
		}
		return id
	}
	used := approve(3000)
	w.expect(transfer(3000), client.AnswerApproved)
	inDatabase := "store: ${DATABASE}\nreplicas: {secret: \"${FLEET_SECRET}\", address: \"http://127.0.0.1:8787\"}\n"
	inFile := "store: sqlite:" + filepath.Join(w.dir, "moved.db") + "\n"
	next := server.Database(t, "")
	postgrestest.SetClock(t, next, 0)
	next = reached(next)
	for _, step := range []struct {
		from, to, was, is string
		again             client.AnswerKind // to the call that was used
	}{
		{w.env["DATABASE"], "sqlite:" + filepath.Join(w.dir, "moved.db"), inDatabase, inFile, client.AnswerPending},
		{"sqlite:" + filepath.Join(w.dir, "moved.db"), next, inFile, inDatabase, client.AnswerDenied},
	} {
		unused := approve(4000)
		waits := w.expect(transfer(5000), client.AnswerPending).ApprovalID
		cookie := w.signIn(w.hana)
		w.stop()
		way, err := move.Parse(step.from, step.to)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := way.Run(w.ctx, nil); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := config.Load(w.path, w.lookup)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := app.New(w.ctx, app.Options{Config: cfg, Env: w.lookup,
			Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "was moved ") {
			t.Errorf("it starts where it was: %v", err)
		}
		text, err := os.ReadFile(w.path)
		if err == nil {
			err = os.WriteFile(w.path, []byte(replacing(step.was, step.is)(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.env["DATABASE"] = next
		w.start()
		if got := w.status(used); got.Status != "approved" || got.ConsumedAt.IsZero() {
			t.Errorf("what was used: %+v", got)
		}
		for _, id := range []string{unused, waits} {
			if got := w.status(id); got.Status != "cancelled" || got.EndCode != "restored" {
				t.Errorf("what was open is %s, %s", got.Status, got.EndCode)
			}
		}
		if w.in(cookie) {
			t.Error("still signed in")
		}
		again := w.expect(transfer(3000), step.again).ApprovalID
		if step.again == client.AnswerPending { // a denial goes along
			if _, err := w.hana.Decide(w.ctx, again, client.Deny, "once is enough"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if es := w.audit("store_failover"); len(es) > 0 {
		t.Errorf("taken for a failover: %+v", es)
	}
	var seqs []int64
	page, err := w.hana.Audit(w.ctx, client.AuditQuery{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Items {
		seqs = append(seqs, e.Seq)
	}
	for i := range len(seqs) - 1 {
		if seqs[i] != seqs[i+1]+1 {
			t.Errorf("a hole between %d and %d", seqs[i+1], seqs[i])
		}
	}
}

// An operator is told where the clocks of the program's machine and of the database are apart.
func testAClockThatIsWrong(t *testing.T) {
	w := newWorld(t)
	const problem = "behind the database's, which counts: see that both are right"
	if got := w.get("/readyz"); strings.Contains(got, problem) {
		t.Errorf("they are not: %s", got)
	}
	postgrestest.SetClock(t, w.database(), 30*24*time.Hour)
	w.eventually("it is told", func() bool {
		got := w.get("/readyz")
		return strings.Contains(got, problem) && strings.Contains(got, "the database's clock has jumped 720h0m")
	})
	if off, err := w.hana.AcceptClock(w.ctx); err != nil || (off-30*24*time.Hour).Abs() > time.Minute {
		t.Errorf("accepted: %v, %v", off, err)
	}
	if got := w.get("/readyz"); strings.Contains(got, "jumped") {
		t.Errorf("once it is accepted: %s", got)
	}
}

// database is the URL of the program's database for one connection.
func (w *world) database() string {
	return strings.Replace(w.env["DATABASE"], "&pool_max_conns=8", "", 1)
}

// sql runs a statement in the program's database.
func (w *world) sql(statement string, args ...any) {
	w.t.Helper()
	c, err := pgx.Connect(w.ctx, w.database())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := c.Exec(w.ctx, statement, args...); err != nil {
		w.t.Fatal(err)
	}
	if err := c.Close(w.ctx); err != nil {
		w.t.Error(err)
	}
}

// A program that starts with an older configuration than another has ends nothing of what that one has let begin, and
// says so, until it is given the newer one. What is given back ends what it does not know.
func testAnOlderConfigurationEndsNothing(t *testing.T) {
	const without, with = "agents:\n", "agents:\n  - {name: other, token: \"${OTHER_TOKEN}\"}\n"
	one := newWorld(t, replacing("  - {name: other, token: \"${OTHER_TOKEN}\"}\n", ""))
	text, err := os.ReadFile(one.path)
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(one.dir, "old.yaml")
	if err := os.WriteFile(old, text, 0o600); err != nil {
		t.Fatal(err)
	}
	one.configure(without, with)
	a, err := one.client("OTHER_TOKEN").Call(one.ctx, transfer(2000))
	if err != nil {
		t.Fatal(err)
	}
	const problem = "other programs on the store have a newer configuration"
	other := one.secondWith(old)
	if got := one.status(a.ApprovalID).Status; got != "pending" || !strings.Contains(other.get("/readyz"), problem) ||
		strings.Contains(one.get("/readyz"), problem) {
		t.Errorf("the request is %s, and the programs say %s and %s", got, one.get("/readyz"), other.get("/readyz"))
	}
	other.configure(without, with)
	if got := one.status(a.ApprovalID).Status; got != "pending" || strings.Contains(other.get("/readyz"), problem) {
		t.Errorf("the request is %s, and the program that has the newer one says %s", got, other.get("/readyz"))
	}
	one.configure(with, without)
	if got := one.status(a.ApprovalID).Status; got != "cancelled" {
		t.Errorf("with what was given back the request is %s", got)
	}
}
