package bearer_test

import (
	"net/http"
	"testing"

	"countersign/internal/auth/bearer"
)

func TestATokenIsTakenFromOneHeaderOfItsScheme(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []string
		want    string
	}{
		{"the usual way", []string{"Bearer secret"}, "secret"},
		{"a scheme has no case", []string{"bEARER secret"}, "secret"},
		{"spaces around it do not count", []string{"Bearer   secret "}, "secret"},
		{"no header", nil, ""},
		{"an empty header", []string{""}, ""},
		{"no token", []string{"Bearer "}, ""},
		{"the scheme alone", []string{"Bearer"}, ""},
		{"the token alone", []string{"secret"}, ""},
		{"another scheme", []string{"Basic c2VjcmV0"}, ""},
		{"a scheme that begins alike", []string{"Bearers secret"}, ""},
		{"two headers", []string{"Bearer secret", "Bearer secret"}, ""},
	} {
		if got := bearer.Token(&http.Request{Header: http.Header{"Authorization": c.headers}}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
