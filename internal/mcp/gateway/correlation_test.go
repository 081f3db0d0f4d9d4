package gateway_test

import (
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/mcp"
)

// The client's own id of a call finds its audit events, and is not taken where it looks like one of the gate's.
func TestRule11_AClientsCallIDIsNoPlatforms(t *testing.T) {
	t.Parallel()
	for name, era := range eras {
		w, _ := atKeyboard(t, 10*time.Millisecond, around{})
		c := join(t, w, era, `{}`, func(*peer) {})
		for meta, taken := range map[string]string{
			`{"claudecode/toolUseId":"toolu_01ABC"}`:                      "toolu_01ABC",
			`{"callId":"call_7"}`:                                         "call_7",
			`{"claudecode/toolUseId":"line:01K","callId":"call_8"}`:       "call_8",
			`{"claudecode/toolUseId":"line:01KAFJ0Q8R6ZC4V1M2N3P4Q5R6"}`:  "",
			`{"claudecode/toolUseId":"system:timeout"}`:                   "",
			`{"claudecode/toolUseId":"` + strings.Repeat("x", 129) + `"}`: "",
			`{"claudecode/toolUseId":"\u202eenil"}`:                       "",
			`{"claudecode/toolUseId":"two\nlines"}`:                       "",
		} {
			before := len(w.audited(approval.EventApprovalRequested))
			c.callTool("tool", `{"n":`+string(mcp.Quote(meta))+`}`, `"_meta":`+meta)
			es := w.audited(approval.EventApprovalRequested)
			if len(es) != before+1 {
				t.Fatalf("%s: %s asked for %d", name, meta, len(es)-before)
			}
			got := es[0].CorrelationID
			if taken != "" && got != taken || taken == "" && (len(got) != 26 || strings.ContainsAny(got, ":xe\n")) {
				t.Errorf("%s: %s has correlation id %q", name, meta, got)
			}
		}
	}
}
