package app_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"countersign/client"
)

// A disk that is running full is named as long as it is, and the admins are told once, not each time that it has had
// room for a moment. Large requests are refused then, and at last all that are new; what is there is decided and used.
func TestADiskThatIsRunningFullIsTold(t *testing.T) {
	t.Parallel()
	const problem, told = "is running full, 1536 MiB (1 %) left, and requests over 64 KiB are refused", "running full: 1536 MiB (1 %) are left."
	w := newWorld(t)
	if got := w.get("/readyz"); strings.Contains(got, "running full") {
		t.Errorf("with room on the disk /readyz says %s", got)
	}
	w.stop()
	w.free.Store(1536 << 20)
	w.start()
	w.eventually("/readyz names it", func() bool { return strings.Contains(w.get("/readyz"), problem) })
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) {
		t.Errorf("/readyz says %s", got)
	}
	if got := w.get("/metrics"); !strings.Contains(got, "\ncountersign_store_disk_free_bytes 1.610612736e+09\n") {
		t.Errorf("the metric is missing in %s", got)
	}
	w.lineCard(told, 1)
	w.free.Store(0)
	w.eventually("it is gone", func() bool { return !strings.Contains(w.get("/readyz"), "running full") })
	w.free.Store(1536 << 20)
	w.eventually("/readyz names it again", func() bool { return strings.Contains(w.get("/readyz"), problem) })
	id := w.expect(transfer(2000), "pending").ApprovalID
	large := transfer(3000)
	large.Args = json.RawMessage(`{"amount_cents":3000,"to":"` + strings.Repeat("x", 64<<10) + `"}`)
	refused := func(c client.Call, want string) {
		t.Helper()
		_, err := w.bot.Call(w.ctx, c)
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Status != 503 || e.Code != "store_full" || e.RetryAfter != time.Minute ||
			!strings.Contains(e.Error(), want) {
			t.Errorf("it is answered with %+v", err)
		}
	}
	refused(large, "of more than 64 KiB")
	w.free.Store(512 << 20) // of 100 GiB
	w.eventually("/readyz says so", func() bool { return strings.Contains(w.get("/readyz"), "new requests are refused") })
	refused(transfer(4000), "nothing new can be asked")
	if got := w.call(client.Call{Tool: "read_file", Args: json.RawMessage(`{}`)}); got.Kind != client.AnswerAllow {
		t.Errorf("what asks nobody is answered with %s", got.Kind)
	}
	if _, err := w.hana.Decide(w.ctx, id, client.Approve, ""); err != nil {
		t.Error(err)
	}
	w.expect(transfer(2000), client.AnswerApproved)
	w.lineCard("nearly full: 512 MiB (0 %) are left.", 1)
	if n := w.lineCount(told); n != 1 {
		t.Errorf("the admin was told %d times", n)
	}
}
