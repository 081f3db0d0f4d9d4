package app_test

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"countersign/client"
)

// framed is an event as the event log has it, with data that is no JSON.
func framed() []byte {
	body := binary.LittleEndian.AppendUint64(nil, 1)                 // its position
	body = binary.LittleEndian.AppendUint64(body, 1_790_000_000_000) // and time
	for _, text := range []string{"call_allowed", "", "agent:bot", "", "bot", "read_file", "low", "allow", "",
		"{no JSON"} {
		body = append(binary.AppendUvarint(body, uint64(len(text))), text...)
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, body...)
}

// As seen: one bad frame in the event log had GET /v1/audit answer 500 for good.
func TestRule11_ADamagedEventLogIsToldAndTheAuditLogCanBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	if err := os.WriteFile(w.env["STORE"]+"-events", framed(), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.expect(client.Call{Tool: "read_file", Args: []byte(`{}`)}, client.AnswerAllow)
	if es := w.audit("call_allowed"); len(es) != 1 || es[0].Tool != "read_file" {
		t.Errorf("on record are %+v", es)
	}
	if es := w.audit("audit_gap"); len(es) != 1 || es[0].Reason != "event_log_damaged" ||
		string(es[0].Data) != `{"records":1}` {
		t.Errorf("it is told %+v", es)
	}
	if got := w.get("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got, "-events.damaged-") {
		t.Errorf("readiness: %s", got)
	}
}
