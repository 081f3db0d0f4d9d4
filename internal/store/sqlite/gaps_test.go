package sqlite

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"countersign/approval"
)

// unexplained are the numbers up to the newest that neither an event has nor an audit_gap names.
func unexplained(t *testing.T, d *DB) (seqs []int64) {
	t.Helper()
	has := map[int64]bool{}
	_, es := toolsIn(t, d)
	for _, e := range es {
		has[e.Seq] = true
		var gap struct {
			From int64 `json:"from_seq"`
			To   int64 `json:"to_seq"`
		}
		if e.Type != approval.EventAuditGap {
			continue
		}
		if err := json.Unmarshal(e.Data, &gap); err != nil {
			t.Error(err)
		}
		for seq := max(gap.From, 1); seq <= gap.To; seq++ {
			has[seq] = true
		}
	}
	for seq := int64(1); len(es) > 0 && seq <= es[len(es)-1].Seq; seq++ {
		if !has[seq] {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

// As seen: a kill between the commit that passes over numbers and that of the event which says why left them
// unexplained.
func TestRule11_ADeathWhileTheStoreIsOpenedLeavesNoNumberUnexplained(t *testing.T) {
	d := open(t, at(filepath.Join(t.TempDir(), "store.db"), 1))
	update(t, d, oneEvent)
	recordOne(t, d, "a")
	logged(t, d, "b")
	old := oldStore(t)
	withLog(t, old)
	for name, path := range map[string]string{"after a loss of power": dies(t, d), "numbers of endings": old} {
		var died []string
		o := at(path, 2)
		o.Failpoint = func(string) {
			at := filepath.Join(t.TempDir(), "store.db")
			readFiles(t, path, "", "-wal", eventLogSuffix, markSuffix).write(t, at)
			died = append(died, at)
		}
		if seqs := unexplained(t, open(t, o)); len(seqs) > 0 {
			t.Errorf("%s: %d numbers from %d on are not explained", name, len(seqs), seqs[0])
		}
		if len(died) < 3 {
			t.Fatalf("%s: the start passed %d points", name, len(died))
		}
		for i, path := range died {
			if seqs := unexplained(t, open(t, at(path, 2))); len(seqs) > 0 {
				t.Errorf("%s: killed at point %d of the start: %d numbers from %d on are not explained", name, i, len(seqs),
					seqs[0])
			}
		}
	}
}
