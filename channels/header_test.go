package channels

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// An answer's header is bounded as its body is.
func TestRule12_AnAnswersHeaderIsBounded(t *testing.T) {
	size := 32 << 10
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", size))
	}))
	defer srv.Close()
	c := NewHTTPClient(30 * time.Second)
	defer c.CloseIdleConnections()
	for _, tt := range []struct {
		size int
		ok   bool
	}{{32 << 10, true}, {128 << 10, false}} {
		size = tt.size
		res, err := c.Get(srv.URL)
		if err == nil {
			res.Body.Close()
		}
		if (err == nil) != tt.ok {
			t.Errorf("a header of %d bytes: %v", tt.size, err)
		}
	}
}
