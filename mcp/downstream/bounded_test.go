package downstream

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/mcp"
)

func TestRule12_AMailboxIsBoundedInBytes(t *testing.T) {
	b := newNotificationQueue(slog.New(slog.DiscardHandler))
	b.attach()
	mail := func(size int) {
		b.push(mcp.Notification("notifications/message", jsontext.Value(`"`+strings.Repeat("x", size)+`"`)))
	}
	for range 10 {
		mail(1 << 20)
	}
	mail(maxQueuedBytes + 1)
	mail(10)
	if n := len(b.queue); n != 4 || b.bytes > maxQueuedBytes || len(b.queue[n-1].Params) != 12 {
		t.Errorf("%d messages of %d bytes are kept, the last of %d", n, b.bytes, len(b.queue[n-1].Params))
	}
	b.take()
	if mail(10); len(b.queue) != 1 || b.bytes != 12 {
		t.Errorf("after it was read: %d messages of %d bytes", len(b.queue), b.bytes)
	}
}
