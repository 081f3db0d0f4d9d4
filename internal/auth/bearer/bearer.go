// Package bearer reads the token that a request comes with (RFC 6750), the same at every door.
package bearer

import (
	"net/http"
	"strings"
)

// Token returns the token of the request's Authorization header, "" when there is none: no header, several of
// them, or another scheme.
func Token(r *http.Request) string {
	headers := r.Header["Authorization"]
	if len(headers) != 1 {
		return ""
	}
	scheme, token, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
