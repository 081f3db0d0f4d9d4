package slack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/slack-go/slack"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/channelstest"
	"countersign/internal/testkit"
)

const (
	trigger = "8123456789012.1234567890.0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	// opened is the answer to views.open, in the shape of Slack's own example.
	opened = `{"ok":true,"view":{"id":"VMHU10V25","team_id":"T8N4K1JN","type":"modal","title":{"type":"plain_text","text":"Quite a plain modal"},
		"blocks":[{"type":"input","block_id":"a_block_id","element":7}],"private_metadata":"Shh it is a secret","callback_id":"identify_your_modals",
		"state":{"values":[]},"hash":"156772938.1827394","root_view_id":"VMHU10V25","app_id":"AA4928AQ","bot_id":"BA13894H"}}`
)

// questions are all calls of this file, each with its method.
var questions = []struct {
	name, method string
	ask          func(ctx context.Context, ch *Channel) error
}{
	{"Scopes", "auth.test", func(ctx context.Context, ch *Channel) error { _, _, _, err := ch.Scopes(ctx); return err }},
	{"Channel", "conversations.info", func(ctx context.Context, ch *Channel) error {
		_, err := ch.Channel(ctx, home)
		return err
	}},
	{"OpenView", "views.open", func(ctx context.Context, ch *Channel) error {
		_, err := ch.OpenView(ctx, trigger, modal())
		return err
	}},
	{"PublishHome", "views.publish", func(ctx context.Context, ch *Channel) error {
		return ch.PublishHome(ctx, "U02HANA", sdk.HomeTabViewRequest{Type: sdk.VTHomeTab})
	}},
}

// modal is a small dialog.
func modal() sdk.ModalViewRequest {
	return sdk.ModalViewRequest{Type: sdk.VTModal, Title: words("Deny"), CallbackID: "deny",
		Blocks: sdk.Blocks{BlockSet: []sdk.Block{plain("a < b & c 否認", maxObject)}}}
}

func isView(method string) bool { return strings.HasPrefix(method, "views.") }

// Slack says with each answer what the token may do: without chat:write nobody would get a card, which is told before
// one is lost, and no longer once it is mended.
func TestATokenThatMayNotWriteIsToldOf(t *testing.T) {
	var scopes atomic.Value
	p := serve(t, func(w http.ResponseWriter, method string) {
		if h := scopes.Load().(string); h != "" {
			w.Header().Set("X-OAuth-Scopes", h)
		}
		good(w, method)
	})
	ch := newChannel(t, p.URL)
	for _, tt := range []struct {
		scopes string
		told   bool
	}{{"im:history,commands", true}, {"", true}, {"im:history,chat:write", false}, {"", false},
		{"chat:write.public", true}} {
		scopes.Store(tt.scopes)
		if err := ch.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		said := strings.Join(ch.Problems(), "\n")
		if strings.Contains(said, "lacked the scope chat:write") != tt.told || tt.told && !strings.Contains(said,
			"OAuth & Permissions") {
			t.Errorf("%q: %q", tt.scopes, said)
		}
	}
}

func TestScopes(t *testing.T) {
	for _, tt := range []struct {
		headers []string
		want    []string
	}{
		{[]string{"chat:write,channels:read,commands"}, []string{"chat:write", "channels:read", "commands"}},
		{[]string{"chat:write, channels:read ,,"}, []string{"chat:write", "channels:read"}},
		{[]string{"chat:write", "commands"}, []string{"chat:write", "commands"}},
		{nil, nil},
	} {
		p := serve(t, func(w http.ResponseWriter, method string) {
			for _, h := range tt.headers {
				w.Header().Add("X-OAuth-Scopes", h)
			}
			good(w, method)
		})
		ch := newChannel(t, p.URL)
		granted, id, at, err := ch.Scopes(t.Context())
		if err != nil || !slices.Equal(granted, tt.want) {
			t.Errorf("%q: granted %q, error %v; want %q", tt.headers, granted, err, tt.want)
		}
		if want := (Identity{TeamID: "T0TEAM0001", UserID: "U0BOT", BotID: "B0BOT"}); id != want {
			t.Errorf("identity %+v, want %+v", id, want)
		}
		if want := (Workspace{Name: "Example", URL: "https://example.slack.com/"}); at != want {
			t.Errorf("workspace %+v, want %+v", at, want)
		}
		if known, ok := ch.Identity(); !ok || known != id {
			t.Errorf("the channel knows itself as %+v", known)
		}
	}
	// A workspace's name is somebody's words.
	p := serve(t, func(w http.ResponseWriter, _ string) {
		fmt.Fprintf(w, `{"ok":true,"team_id":"T1","team":"a\u202eb%s","url":7}`, strings.Repeat("x", 3000))
	})
	_, _, at, err := newChannel(t, p.URL).Scopes(t.Context())
	if err != nil || strings.Contains(at.Name, "\u202e") || len([]rune(at.Name)) > 2*maxName {
		t.Errorf("workspace %+v, error %v", at, err)
	}
}

func TestChannel(t *testing.T) {
	for _, tt := range []struct {
		answer string
		want   Room
	}{
		{`{"ok":true,"channel":{"id":"C0APPROVALS","name":"approvals","is_channel":true,"is_member":true,"is_archived":false,"is_private":false,"is_ext_shared":false}}`, Room{Name: "approvals", Member: true}},
		{`{"ok":true,"channel":{"id":"C0APPROVALS","name":"approvals","is_member":false,"is_archived":true,"is_private":true,"is_ext_shared":true}}`, Room{Name: "approvals", Archived: true, Private: true, Shared: true}},
		{`{"ok":true,"channel":{"id":"D0HANA","is_im":true,"user":"U02HANA"}}`, Room{}},
		{`{"ok":true,"channel":{"id":"C0APPROVALS","name":"a\u200bb"}}`, Room{Name: "a⟨U+200B⟩b"}},
	} {
		p := serve(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, tt.answer) })
		got, err := newChannel(t, p.URL).Channel(t.Context(), home)
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, error %v; want %+v", tt.answer, got, err, tt.want)
		}
		if c := p.calls()[0]; c.method != "conversations.info" || c.form.Get("channel") != home {
			t.Errorf("asked %s %v", c.method, c.form)
		}
	}
	p := serve(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, `{"ok":false,"error":"channel_not_found"}`) })
	if _, err := newChannel(t, p.URL).Channel(t.Context(),
		home); channels.AsPushError(err).Reason != channels.ReasonBadRecipient {
		t.Errorf("a channel that is not there: %v", err)
	}
}

func TestViews(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, opened) })
	ch := newChannel(t, p.URL+"/api")
	id, err := ch.OpenView(t.Context(), trigger, modal())
	if err != nil || id != "VMHU10V25" {
		t.Errorf("view %q, error %v", id, err)
	}
	if err := ch.PublishHome(t.Context(), "U02HANA", sdk.HomeTabViewRequest{Type: sdk.VTHomeTab,
		Blocks: modal().Blocks}); err != nil {
		t.Error(err)
	}
	const blocks = `"blocks":[{"type":"section","text":{"type":"plain_text","text":"a \u003c b \u0026 c 否認","emoji":false}}]`
	want := []string{
		`views.open {"trigger_id":"` + trigger +
			`","view":{"type":"modal","title":{"type":"plain_text","text":"Deny","emoji":false},` + blocks +
			`,"callback_id":"deny"}}`,
		`views.publish {"user_id":"U02HANA","view":{"type":"home",` + blocks + `}}`,
	}
	for i, c := range p.calls() {
		if got := c.method + " " + c.body; got != want[i] {
			t.Errorf("sent %s\nwant %s", got, want[i])
		}
		if c.header.Get("Authorization") != "Bearer "+testToken.Reveal() ||
			c.header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s with %v", c.method, c.header)
		}
	}
}

// What says ok and not which view it put in place, or which team or channel it speaks of, has done
// nothing that could be relied on.
func TestQuestionsBelieveNoOddAnswer(t *testing.T) {
	for name, body := range map[string]string{
		"empty object":    `{}`,
		"ok alone":        `{"ok":true}`,
		"not ok":          `{"ok":false}`,
		"the word":        `ok`,
		"nothing":         ``,
		"null":            `null`,
		"an array":        `[{"ok":true}]`,
		"a page":          `<html><body>Sign in to the hotel's network</body></html>`,
		"cut short":       `{"ok":true,"view":{"id":"V1"},"team_id":"T1","channel":{"id":"C1"`,
		"wrong types":     `{"ok":true,"view":"V1","team_id":7,"channel":7}`,
		"nulls":           `{"ok":true,"view":null,"team_id":null,"channel":null}`,
		"ids of nothing":  `{"ok":true,"view":{"id":""},"team_id":"","channel":{"id":""}}`,
		"ids of no shape": `{"ok":true,"view":{"id":{}},"team_id":[],"channel":{"id":[]}}`,
		"a huge body": `{"ok":true,"view":{"id":"V1"},"team_id":"T1","channel":{"id":"C1"},"pad":"` +
			strings.Repeat("x", 2<<20) + `"}`,
	} {
		p := serve(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, body) })
		for _, q := range questions {
			err := q.ask(t.Context(), newChannel(t, p.URL))
			if err == nil {
				t.Errorf("%s took %s", q.name, name)
				continue
			}
			e, ok := err.(*channels.PushError)
			if !ok || e.Reason != channels.ReasonBrokenAnswer || e.Final || e.HTTPStatus != 200 ||
				e.Unknown != isView(q.method) {
				t.Errorf("%s, %s: error %T %+v, want a broken answer", q.name, name, err, err)
			}
			noSecret(t, err)
		}
	}
}

func TestQuestionsThatFail(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   channels.PushError
	}{
		{200, `{"ok":false,"error":"invalid_auth"}`, channels.PushError{Reason: "bad_token", ChannelDown: true}},
		{200, `{"ok":false,"error":"missing_scope","needed":"channels:read","provided":"chat:write"}`,
			channels.PushError{Reason: "missing_scope", ChannelDown: true}},
		{200, `{"ok":false,"error":"trigger_expired"}`, channels.PushError{Reason: "trigger_spent", Final: true}},
		{200, `{"ok":false,"error":"expired_trigger_id"}`, channels.PushError{Reason: "trigger_spent", Final: true}},
		{200, `{"ok":false,"error":"trigger_exchanged"}`, channels.PushError{Reason: "trigger_spent", Final: true}},
		{200, `{"ok":false,"error":"exchanged_trigger_id"}`, channels.PushError{Reason: "trigger_spent", Final: true}},
		{200, `{"ok":false,"error":"invalid_trigger_id"}`, channels.PushError{Reason: "trigger_spent", Final: true}},
		{200, `{"ok":false,"error":"view_too_large"}`, channels.PushError{Reason: "bad_request", Final: true}},
		{200, `{"ok":false,"error":"invalid_arguments","response_metadata":{"messages":["bad ` + testToken.Reveal() + ` ` +
			trigger + `"]}}`, channels.PushError{Reason: "bad_request", Final: true}},
		{200, `{"ok":false,"error":"hash_conflict"}`, channels.PushError{Reason: "view_changed", Final: true}},
		{200, `{"ok":false,"error":"not_found"}`, channels.PushError{Reason: "view_changed", Final: true}},
		{200, `{"ok":false,"error":"not_enabled"}`, channels.PushError{Reason: "home_disabled", Final: true}},
		{200, `{"ok":false,"error":"ratelimited"}`, channels.PushError{Reason: "rate_limited", RetryAfter: 30 * time.Second}},
		{429, ``, channels.PushError{Reason: "rate_limited", RetryAfter: 30 * time.Second}},
		{500, `<html>`, channels.PushError{Reason: "unavailable", Unknown: true}},
		{404, ``, channels.PushError{Reason: "bad_request", Final: true}},
		{302, ``, channels.PushError{Reason: "unavailable"}},
	} {
		p := serve(t, func(w http.ResponseWriter, _ string) {
			w.Header().Set("Location", "https://evil.example/")
			w.WriteHeader(tt.status)
			io.WriteString(w, tt.body)
		})
		for _, q := range questions {
			err := q.ask(t.Context(), newChannel(t, p.URL))
			got, ok := err.(*channels.PushError)
			if !ok {
				t.Fatalf("%s, %d %s: error %T %v, want a *PushError", q.name, tt.status, tt.body, err, err)
			}
			if got.Reason != tt.want.Reason || got.Final != tt.want.Final || got.ChannelDown != tt.want.ChannelDown ||
				got.RetryAfter != tt.want.RetryAfter ||
				got.HTTPStatus != tt.status || got.Unknown != (tt.want.Unknown && isView(q.method)) {
				t.Errorf("%s, %d %s: error %+v, want %+v", q.name, tt.status, tt.body, *got, tt.want)
			}
			noSecret(t, err)
			if q.method == "views.open" && strings.Contains(err.Error(), trigger) {
				t.Errorf("the error tells the trigger: %v", err)
			}
		}
	}
}

func TestQuestionsEndWithTheirContext(t *testing.T) {
	release, letGo := testkit.Latch()
	defer letGo()
	var pass func()
	p := serve(t, func(http.ResponseWriter, string) { pass(); <-release })
	for _, q := range questions {
		var ctx context.Context
		ctx, pass = channelstest.Overdue(t.Context())
		err := q.ask(ctx, newChannel(t, p.URL))
		if e := channels.AsPushError(err); err == nil || e.Reason != channels.ReasonTimeout || e.Unknown != isView(q.method) {
			t.Errorf("%s: error %v", q.name, err)
		}
	}
	letGo()
}

// A channel that outsiders see is known after a probe, whether cards go there or not.
func TestSharedChannel(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, allowed := range []bool{false, true} {
			p := serve(t, func(w http.ResponseWriter, method string) {
				if method == "conversations.info" {
					fmt.Fprintf(w, `{"ok":true,"channel":{"id":"C0APPROVALS","is_ext_shared":%t}}`, shared)
					return
				}
				good(w, method)
			})
			ch := newChannel(t, p.URL, func(c *Config) { c.AllowShared = allowed })
			if id, seen := ch.SharedChannel(); id != home || seen {
				t.Errorf("before any probe: %s %t", id, seen)
			}
			if err := ch.Probe(t.Context()); err != nil {
				t.Errorf("shared %t, allowed %t: probe %v", shared, allowed, err)
			}
			if id, seen := ch.SharedChannel(); id != home || seen != shared {
				t.Errorf("shared %t, allowed %t: %s %t", shared, allowed, id, seen)
			}
			_, err := ch.Send(t.Context(), message(t, approval.KindRequest))
			if sent := err == nil; sent != (allowed || !shared) {
				t.Errorf("shared %t, allowed %t: error %v", shared, allowed, err)
			}
		}
	}
}

// With allow_shared the scope to look is not needed; without it nothing may be sent unseen.
func TestProbeWithoutTheScopeToLook(t *testing.T) {
	p := serve(t, func(w http.ResponseWriter, method string) {
		if method == "conversations.info" {
			io.WriteString(w, `{"ok":false,"error":"missing_scope","needed":"channels:read"}`)
			return
		}
		good(w, method)
	})
	if err := newChannel(t, p.URL).Probe(t.Context()); err == nil ||
		channels.AsPushError(err).Reason != channels.ReasonMissingScope {
		t.Errorf("probe %v, want missing_scope", err)
	}
	ch := newChannel(t, p.URL, func(c *Config) { c.AllowShared = true })
	if err := ch.Probe(t.Context()); err != nil {
		t.Errorf("with allow_shared: %v", err)
	}
	if _, shared := ch.SharedChannel(); shared {
		t.Error("what nobody could look up is shared")
	}
}
