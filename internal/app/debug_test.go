package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"countersign/internal/testkit"
)

// withProfiles has the configuration serve them.
func withProfiles(text string) string { return "debug_listen: 127.0.0.1:0\n" + text }

// profile asks for one, and returns the status and the answer.
func (w *world) profile(addr, name, token string, change func(*http.Request)) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+addr+"/debug/pprof/"+name, nil)
	if err != nil {
		w.t.Error(err)
		return 0, ""
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if change != nil {
		change(r)
	}
	client := &http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		w.t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Error(err)
	}
	return res.StatusCode, string(body)
}

func TestProfilesAreForAdminsOnThisMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withProfiles)
	at := w.app.DebugAddr()
	hana := secrets["HANA_TOKEN"]
	for name, test := range map[string]struct {
		profile, token string
		change         func(*http.Request)
		status         int
	}{
		"an admin":                     {"heap", hana, nil, 200},
		"their list":                   {"", hana, nil, 200},
		"no such profile":              {"nothing", hana, nil, 404},
		"no token":                     {"heap", "", nil, 401},
		"a wrong token":                {"heap", "somebody-else-entirely", nil, 401},
		"an agent":                     {"heap", secrets["AGENT_TOKEN"], nil, 403},
		"a person who is no admin":     {"heap", secrets["KEN_TOKEN"], nil, 403},
		"another name of this address": {"heap", hana, func(r *http.Request) { r.Host = "gate.example:6060" }, 403},
		"a page of another site": {"heap", hana, func(r *http.Request) { r.Header.Set("Origin", "http://localhost") },
			403},
		"another method":     {"heap", hana, func(r *http.Request) { r.Method = http.MethodPost }, 405},
		"how it was started": {"cmdline", hana, nil, 404},
	} {
		if status, got := w.profile(at, test.profile, test.token, test.change); status != test.status {
			t.Errorf("%s: %d %.200q, want %d", name, status, got, test.status)
		}
	}
	if _, got := w.profile(at, "goroutine?debug=1", hana, nil); !strings.Contains(got, "countersign/") {
		t.Errorf("no profile of this process: %.300q", got)
	}
}

func TestProfilesAreOnNoOtherAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withProfiles, webhooksApart)
	for _, at := range []string{w.app.Addr(), w.app.WebhookAddr()} {
		if status, got := w.profile(at, "heap", secrets["HANA_TOKEN"], nil); status != 404 {
			t.Errorf("%d %.200q", status, got)
		}
	}
	if status, got := w.profile(w.app.DebugAddr(), "../../v1/audit", secrets["HANA_TOKEN"], nil); status != 404 {
		t.Errorf("the API is with the profiles: %d %.200q", status, got)
	}
	if at := newWorld(t).app.DebugAddr(); at != "" {
		t.Errorf("profiles are served at %s without being asked for", at)
	}
}

func TestOneProfileIsTakenAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withProfiles)
	at, hana := w.app.DebugAddr(), secrets["HANA_TOKEN"]
	first := make(chan string, 1)
	go func() {
		status, got := http.StatusTooManyRequests, ""
		for status == http.StatusTooManyRequests { // the other may have been there first
			status, got = w.profile(at, "trace?seconds=3", hana, nil)
		}
		first <- fmt.Sprint(status, len(got) > 0)
	}()
	w.eventually("a second one is refused", func() bool {
		status, _ := w.profile(at, "heap", hana, nil)
		return status == http.StatusTooManyRequests
	})
	if got := testkit.Receive(t, "the first one", first); got != "200 true" {
		t.Errorf("the first is answered with %s", got)
	}
	if status, _ := w.profile(at, "heap", hana, nil); status != 200 {
		t.Errorf("after it %d", status)
	}
}
