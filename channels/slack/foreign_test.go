package slack

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/secret"
)

// An API that speaks Slack's methods but not all of them, such as a proxy or another chat with a
// Slack-compatible door, must not keep cards from leaving; Slack itself must, as long as it has not
// said that nobody from outside sees the channel.
func TestWhoSeesTheChannelIsAskedOfSlackOnly(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		status       int
		sent         bool
	}{
		{"nobody from outside", `{"ok":true,"channel":{"id":"C0APPROVALS"}}`, 200, true},
		{"outsiders", `{"ok":true,"channel":{"id":"C0APPROVALS","is_ext_shared":true}}`, 200, false},
		{"no such method", `{"ok":false,"error":"unknown_method"}`, 200, true},
		{"no such path", `404 page not found`, 404, true},
		{"we may not ask", `{"ok":false,"error":"missing_scope","needed":"channels:read"}`, 200, false},
		{"no answer", `oops`, 500, false},
		{"an answer to everything", `{"ok":true}`, 200, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			posted := false
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/conversations.info"):
					w.WriteHeader(tt.status)
					io.WriteString(w, tt.answer)
				default:
					posted = true
					io.WriteString(w, `{"ok":true,"channel":"C0APPROVALS","ts":"1.2"}`)
				}
			}))
			defer s.Close()
			own := secret.Value(strings.Repeat("test-only-", 3))
			ch, err := New(Config{BotToken: own, SigningSecret: secret.List{own}, Channel: "C0APPROVALS", APIURL: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer ch.Close()
			body, err := ch.Render(channels.Card{Kind: approval.KindReply, Text: "hello"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = ch.Send(t.Context(), channels.Message{Kind: approval.KindReply, To: "C0APPROVALS", Body: body,
				RetryKey: "123e4567-e89b-12d3-a456-426614174000", Attempt: 1})
			if (err == nil) != tt.sent || posted != tt.sent {
				t.Errorf("err %v, posted %v", err, posted)
			}
		})
	}
}
