package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestWhoIsNotSignedInSendsLittle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/signin/link"} {
		w.post("", path, url.Values{"t": {strings.Repeat("x", maxStrangersForm)}}).is(http.StatusBadRequest).has("256 KiB")
		w.post("", path, url.Values{"t": {strings.Repeat("x", maxStrangersForm-1024)}}).lacks("256 KiB")
	}
}
