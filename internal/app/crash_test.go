package app_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"countersign/client"
	"countersign/internal/app"
	"countersign/internal/config"
	"countersign/internal/testkit"
)

// lockFile takes the database's write lock, as a backup tool gone wrong would, until unlock.
func lockFile(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	done := false
	unlock = func() {
		if !done {
			done = true
			db.Exec("ROLLBACK")
			db.Close()
		}
	}
	t.Cleanup(unlock)
	return unlock
}

// A child is this test binary running the program, to be killed at a named point: childEnv holds the
// point and how many times it is passed before, or after a ? a query of the store that must have come to find
// something. The rest of the environment is the configuration's.
const childEnv = "COUNTERSIGN_TEST_DIE_AT"

func childMain() {
	point, query, _ := strings.Cut(os.Getenv(childEnv), "?")
	point, rest, _ := strings.Cut(point, "#")
	left := 0
	fmt.Sscan(rest, &left)
	armed := make(chan struct{})
	cfg, _, err := config.Load(os.Getenv("CONFIG"), os.LookupEnv)
	if err != nil {
		panic(err)
	}
	a, err := app.New(context.Background(), app.Options{Config: cfg, Disk: roomy,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Failpoint: func(name string) {
			select {
			case <-armed:
			default:
				return
			}
			if name == point && (query == "" || finds(os.Getenv("STORE"), query)) {
				if left--; left < 0 {
					if self, err := os.FindProcess(os.Getpid()); err == nil {
						self.Kill()
					}
					select {}
				}
			}
		}})
	if err != nil {
		panic(err)
	}
	if err := a.Start(); err != nil {
		panic(err)
	}
	fmt.Println(a.Addr())
	go func() { // the parent arms the fail point once start-up is over
		bufio.NewReader(os.Stdin).ReadString('\n')
		close(armed)
		fmt.Println("armed")
	}()
	select {}
}

// finds reports whether a query of a store's file finds anything.
func finds(path, query string) bool {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	var found bool
	if err := db.QueryRow(`SELECT EXISTS (` + query + `)`).Scan(&found); err != nil {
		panic(err)
	}
	return found
}

// child runs the program in a process of its own, armed to die at a point, with an agent's client of it.
func (w *world) child(point string) (*exec.Cmd, *client.Client) {
	w.t.Helper()
	return w.childOf(point, "AGENT_TOKEN")
}

// childOf is child with somebody else's client.
func (w *world) childOf(point, token string) (*exec.Cmd, *client.Client) {
	w.t.Helper()
	cmd, url := w.childAt(point)
	return cmd, w.clientOf(url, token)
}

// clientOf is somebody's client of a child.
func (w *world) clientOf(url, token string) *client.Client {
	w.t.Helper()
	c, err := client.New(url, secrets[token], client.WithTimeout(testkit.Patience))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// childAt is child without a client: it returns where the program is.
func (w *world) childAt(point string, more ...string) (cmd *exec.Cmd, url string) {
	w.t.Helper()
	cmd = testkit.Command(w.t, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+point, "CONFIG="+w.path)
	for k, v := range w.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Env = append(cmd.Env, more...)
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Stderr = w.log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	addr := lines.Text()
	fmt.Fprintln(in, "go")
	lines.Scan() // armed
	return cmd, "http://" + addr
}

// TestRule7_KilledAtAnyPointNothingIsLostOrDoubled kills the program with SIGKILL at each named point
// while a call is quarantined and its card sent, starts it again, and looks at what survived.
func TestRule7_KilledAtAnyPointNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"before-begin#0", "before-commit#0", "after-commit#0", "begun#0", "sent-not-recorded#0",
		"before-commit#1", "after-commit#1", "before-commit#2", "after-commit#2"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.stop() // the world's own program steps aside for the child
			cmd, bot := w.child(point)
			answer, callErr := bot.Call(w.ctx, transfer(4000))
			if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the child was not killed: %v", err)
			}

			w.start()
			p, err := w.hana.Approvals(w.ctx, client.ApprovalQuery{})
			if err != nil {
				t.Fatal(err)
			}
			if callErr == nil && (len(p.Items) != 1 || p.Items[0].ID != answer.ApprovalID) {
				t.Fatalf("the agent was told of %s, and there is %+v", answer.ApprovalID, p.Items)
			}
			if len(p.Items) > 1 {
				t.Fatalf("%d requests of one call", len(p.Items))
			}
			again := w.expect(transfer(4000), client.AnswerPending)
			if len(p.Items) == 1 && again.ApprovalID != p.Items[0].ID {
				t.Errorf("the call did not join the request that survived")
			}
			id := again.ApprovalID
			w.lineCard(id, 1) // within 20 s, whatever was in flight
			w.eventually("the row to be sent", func() bool {
				ns := w.notifications(client.NotificationQuery{ApprovalID: id, Channel: "line"})
				return len(ns) == 1 && ns[0].Status == "sent"
			})
			n := 0
			for _, m := range w.chat.LINE.Chat("hana") {
				if strings.Contains(string(m.JSON), id) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d cards in LINE", n)
			}
			if n := len(w.audit("approval_requested")); n != 1 {
				t.Errorf("%d audit events of one request", n)
			}
			w.tapLINE("hana", id, "approve")
			w.expect(transfer(4000), client.AnswerApproved)
		})
	}
}

// TestRule4_KilledWhileConsumingNeverRunsTwice kills the program around the commit that lets a call
// through: afterwards the approval is either unused or used, and never lets two calls through.
func TestRule4_KilledWhileConsumingNeverRunsTwice(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"before-commit#0", "after-commit#0"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.expect(transfer(4100), client.AnswerPending).ApprovalID
			w.lineCard(id, 1)
			w.slackCard(id)
			if _, err := w.hana.Decide(w.ctx, id, client.Approve, ""); err != nil {
				t.Fatal(err)
			}
			w.eventually("all is sent", func() bool {
				return len(w.notifications(client.NotificationQuery{Status: "queued"})) == 0
			})
			if err := w.chat.WaitFor(w.ctx, func() bool { return len(w.slackCard(id).Edits) > 0 }); err != nil {
				t.Fatal(err)
			}
			w.eventually("the edit is recorded", func() bool {
				for _, n := range w.notifications(client.NotificationQuery{ApprovalID: id}) {
					if n.Status != "sent" {
						return false
					}
				}
				return true
			})
			w.stop()
			cmd, bot := w.child(point)
			through := 0
			if a, err := bot.Call(w.ctx, transfer(4100)); err == nil && a.MayRun() {
				through++
			}
			if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the child was not killed: %v", err)
			}
			w.start()
			for range 2 {
				if w.call(transfer(4100)).MayRun() {
					through++
				}
			}
			if through > 1 {
				t.Errorf("one approval let %d calls through", through)
			}
			if point == "before-commit#0" && through != 1 {
				t.Errorf("the approval that was not used is gone")
			}
		})
	}
}
