package upstream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

func TestWhatWaitsForASlowRequestIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes, sent, kept int
	}{{10, 1000, maxNotifications}, {1 << 20, 20, 4}, {maxNotificationBytes * 2, 3, 1}} {
		var got []string
		k := &inflightRequest{request: Request{OnNotification: func(m mcp.Message) { got = append(got, m.Method) }},
			notified: make(chan struct{}, 1)}
		for i := range c.sent {
			if !k.push(mcp.Notification(fmt.Sprint(i), jsontext.Value(strings.Repeat(" ", c.bytes)))) {
				t.Fatal("the request does not want it")
			}
		}
		testkit.Receive(t, "it is told", k.notified)
		k.flush()
		if len(got) != c.kept || got[c.kept-1] != fmt.Sprint(c.sent-1) || got[0] != fmt.Sprint(c.sent-c.kept) {
			t.Errorf("of %d with %d bytes got %d, from %s to %s; want the last %d", c.sent, c.bytes, len(got), got[0],
				got[len(got)-1], c.kept)
		}
		if k.flush(); len(got) != c.kept {
			t.Error("they come twice")
		}
	}
}
