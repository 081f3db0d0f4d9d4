package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Clients write the gateway's address with a slash at its end, too.
func TestTheGatewayIsAtItsPathWithASlashToo(t *testing.T) {
	t.Parallel()
	h := exactPaths{"/mcp": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "mcp")
	})}.
		before(http.NotFoundHandler())
	for path, want := range map[string]int{"/mcp": 200, "/mcp/": 200, "/mcp//": 404, "/mcp/x": 404, "/": 404} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil)); w.Code != want {
			t.Errorf("%s is answered with %d, want %d", path, w.Code, want)
		}
	}
}
