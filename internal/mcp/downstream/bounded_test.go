package downstream

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
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

func TestALargeMessageLeavesLittleMoreThanItsLengthBehind(t *testing.T) {
	const size, times = 1 << 20, 10
	w := httptest.NewRecorder()
	message := strings.Repeat("x", size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		r := &http.Request{Body: io.NopCloser(strings.NewReader(message)), ContentLength: size}
		if got, err := readBody(w, r, maxMessage); len(got) != size || err != nil {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / times; got > 2*size {
		t.Errorf("a message of %d bytes took %d of memory", size, got)
	}
}
