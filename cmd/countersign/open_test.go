package main

import (
	"slices"
	"testing"
)

func TestWhereABrowserIsOpened(t *testing.T) {
	for _, c := range []struct {
		system string
		env    map[string]string
		want   []string
	}{
		{"linux", map[string]string{"DISPLAY": ":0"}, []string{"xdg-open"}},
		{"freebsd", map[string]string{"WAYLAND_DISPLAY": "wayland-0"}, []string{"xdg-open"}},
		{"linux", nil, nil},
		{"linux", map[string]string{"DISPLAY": ":10", "SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, nil},
		{"darwin", nil, []string{"open"}},
		{"darwin", map[string]string{"SSH_CONNECTION": "x"}, nil},
		{"windows", nil, []string{"rundll32", "url.dll,FileProtocolHandler"}},
	} {
		if got := opener(c.system, func(name string) string { return c.env[name] }); !slices.Equal(got, c.want) {
			t.Errorf("%s %v: %v, want %v", c.system, c.env, got, c.want)
		}
	}
}

// A desktop starts programs for other addresses too.
func TestOnlyPagesAreOpened(t *testing.T) {
	for address, want := range map[string]bool{"https://gate.example.com/signin/link?t=a": true,
		"http://localhost:8787/signin/link?t=a": true,
		"file:///etc/passwd":                    false, "javascript:alert(1)": false, "--version": false, "": false,
		"https:": false} {
		if got := isPage(address); got != want {
			t.Errorf("%q: %t", address, got)
		}
	}
}
