package app_test

import (
	"strings"
	"testing"
)

// A disk that is running full is named as long as it is, and the admins are told once, not each time that it has had
// room for a moment.
func TestADiskThatIsRunningFullIsTold(t *testing.T) {
	t.Parallel()
	const problem, told = "is running full, 200 MiB (0 %) left: make room on it", "running full: 200 MiB (0 %) are left."
	w := newWorld(t)
	if got := w.get("/readyz"); strings.Contains(got, "running full") {
		t.Errorf("with room on the disk /readyz says %s", got)
	}
	w.stop()
	w.free.Store(200 << 20)
	w.start()
	w.eventually("/readyz names it", func() bool { return strings.Contains(w.get("/readyz"), problem) })
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) {
		t.Errorf("/readyz says %s", got)
	}
	if got := w.get("/metrics"); !strings.Contains(got, "\ncountersign_store_disk_free_bytes 2.097152e+08\n") {
		t.Errorf("the metric is missing in %s", got)
	}
	w.lineCard(told, 1)
	w.free.Store(0)
	w.eventually("it is gone", func() bool { return !strings.Contains(w.get("/readyz"), "running full") })
	w.free.Store(200 << 20)
	w.eventually("/readyz names it again", func() bool { return strings.Contains(w.get("/readyz"), problem) })
	w.expect(transfer(2000), "pending")
	w.eventually("the card is there", func() bool { return w.lineCount("transfer_credits") > 0 })
	if n := w.lineCount(told); n != 1 {
		t.Errorf("the admin was told %d times", n)
	}
}
