package app_test

import (
	"io"
	"net/http"
	"os/signal"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"countersign/client"
	"countersign/internal/testkit"
)

// A full disk takes what is read and refuses what is written: the gate says so, lets nothing through, and goes on by
// itself once there is room. The disk is that of a process of its own, whose files may not grow.
func TestRule1_AFullDiskIsNotReadyUntilThereIsRoom(t *testing.T) {
	if !testkit.InOwnProcess(t) {
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	w := newWorld(t)
	probe := func() (status int, said string) {
		t.Helper()
		res, err := http.Get(w.url("/readyz"))
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	ready := func(status int, want string) {
		t.Helper()
		if is, said := probe(); is != status || !strings.Contains(said, want) {
			t.Errorf("readiness is %d, %s, want %d and %q", is, said, status, want)
		}
	}
	ready(http.StatusOK, `"status":"ready"`)
	asked := w.expect(transfer(3100), client.AnswerPending)
	var room unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &room); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: room.Max}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "what was written before is committed", func() bool { // a probe may be answered by it
		status, _ := probe()
		return status == http.StatusServiceUnavailable
	})
	ready(http.StatusServiceUnavailable, "The disk of the store")
	if a, err := w.bot.Call(w.ctx, transfer(3200)); client.CodeOf(err) != "store_unavailable" {
		t.Errorf("a call while the disk is full: %+v, %v", a, err)
	}
	if a, err := w.bot.Call(w.ctx, client.Call{Tool: "read_file"}); err == nil {
		t.Errorf("a call is allowed while the disk is full: %+v", a)
	}
	ready(http.StatusServiceUnavailable, "The disk of the store")
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &room); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusOK, `"status":"ready"`)
	w.expect(client.Call{Tool: "read_file"}, client.AnswerAllow)
	if a := w.expect(transfer(3100), client.AnswerPending); a.ApprovalID != asked.ApprovalID {
		t.Errorf("what waited was lost: %s, and now %s", asked.ApprovalID, a.ApprovalID)
	}
}
