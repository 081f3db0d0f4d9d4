package line

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

// A reply whose token is refused on its first try becomes a push, and stays one: a push that fails for
// the moment is repeated with its key, and the dead token is not asked again.
func TestAReplyThatBecameAPushStaysOne(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/reply") {
			w.WriteHeader(400)
			io.WriteString(w, `{"message":"Invalid reply token"}`)
			return
		}
		w.WriteHeader(429)
		io.WriteString(w, `{"message":"The API rate limit has been exceeded. Try again later."}`)
	}))
	defer s.Close()
	own := secret.Value(strings.Repeat("test-only-", 3))
	ch, err := New(Config{ChannelSecret: secret.List{own}, ChannelAccessToken: own, APIURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	_, err = ch.Send(t.Context(), channels.Message{Kind: approval.KindReply, To: "U1", ReplyTo: "token", Attempt: 1,
		RetryKey: "123e4567-e89b-42d3-a456-426614174000",
		Body:     channels.Body(`[{"type":"text","text":"hello"}]`)})
	if e := channels.AsPushError(err); !e.ReplySpent || e.Final || e.Reason != channels.ReasonRateLimited {
		t.Errorf("%+v", e)
	}
}

func TestABotWithoutAnIDIsNotKnown(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{}`) }))
	defer s.Close()
	own := secret.Value(strings.Repeat("test-only-", 3))
	ch, err := New(Config{ChannelSecret: secret.List{own}, ChannelAccessToken: own, APIURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if err := ch.Probe(t.Context()); err == nil {
		t.Error("an answer that does not say who we are was taken")
	}
}
