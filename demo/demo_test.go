package demo

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign/client"
	"countersign/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// safeBuffer collects what the demo says.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestARoundOfTheDemo plays the newcomer: approve the transfer in LINE, deny the deletion and approve
// the report in Slack, give the reason that closing the books needs, and look at what the agent did.
func TestARoundOfTheDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	var out safeBuffer
	ready := make(chan *Demo, 1)
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Dir: dir, Page: "127.0.0.1:0", Listen: "127.0.0.1:0", Pace: 5 * time.Millisecond, Rounds: 1, Out: &out, Ready: func(d *Demo) { ready <- d }})
	}()
	var d *Demo
	select {
	case d = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), d.Chat.URL()) {
		t.Errorf("it does not say where to look:\n%s", out.String())
	}
	boss, err := client.New(d.URL, d.AdminToken)
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
		if err := d.Chat.WaitFor(ctx, func() bool {
			for _, m := range d.Chat.LINEChat("hana") {
				if strings.Contains(string(m.JSON), id) {
					return true
				}
			}
			return false
		}); err != nil {
			t.Fatalf("no card of %s in LINE", id)
		}
	}
	tap := func(err error, del sandbox.Delivery) {
		t.Helper()
		if err != nil || !del.OK() {
			t.Fatalf("tap: %v, answered %d %s", err, del.Status, del.Body)
		}
	}

	transfer := pending("transfer_credits")
	card(transfer.ID)
	del, err := d.Chat.TapLINE(ctx, sandbox.StrangerName, "", "action=approve&id="+transfer.ID)
	if err == nil && del.OK() {
		t.Log("the stranger has no such card to tap, yet could")
	}
	del, err = d.Chat.TapLINE(ctx, "hana", "", "action=approve&id="+transfer.ID)
	tap(err, del)

	deletion, report := pending("delete_file"), pending("write_file")
	slack := func(id string) {
		t.Helper()
		if err := d.Chat.WaitFor(ctx, func() bool {
			for _, m := range d.Chat.SlackMessages("C0APPROVALS") {
				if strings.Contains(string(m.Blocks), id) {
					return true
				}
			}
			return false
		}); err != nil {
			t.Fatalf("no card of %s in Slack", id)
		}
	}
	slack(deletion.ID)
	del, err = d.Chat.TapSlack(ctx, "ken", "C0APPROVALS", "", "deny", deletion.ID)
	tap(err, del)
	del, err = d.Chat.TapSlack(ctx, "hana", "C0APPROVALS", "", "approve", report.ID)
	tap(err, del)

	books := pending("close_books")
	del, err = d.Chat.TypeLINE(ctx, "hana", "approve "+books.ID+" all invoices are in", "")
	tap(err, del)

	if err := <-done; err != nil {
		t.Fatal(err)
	}
	log := out.String()
	for _, want := range []string{"denied: Policy denied: forbidden — Nobody lets an agent format a disk", "[APPROVAL APPROVED] transfer_credits", "approved by hana",
		"[APPROVAL DENIED] delete_file", "denied by ken", "done: moved drafts/old-report.md to archive/old-report.md", "done: wrote reports/2026-11-1.md", "done: closed"} {
		if !strings.Contains(log, want) {
			t.Errorf("the agent never said %q", want)
		}
	}
	ledger, err := os.ReadFile(filepath.Join(dir, "work", "ledger.json"))
	if err != nil || !strings.Contains(string(ledger), `"acme": 2000`) {
		t.Errorf("ledger %s, %v", ledger, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "work", "archive", "old-report.md")); err != nil {
		t.Error(err)
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
		if _, err := shop.run(tool, map[string]any{"path": path, "content": "x"}); err == nil {
			t.Errorf("%s went to %s", tool, path)
		}
	}
	if _, err := shop.run("transfer_credits", map[string]any{"from": "treasury", "to": "acme", "amount_cents": 1 << 40}); err == nil {
		t.Error("moved more credits than there are")
	}
}
