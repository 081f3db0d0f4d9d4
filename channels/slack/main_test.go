package slack

import (
	"testing"

	"go.uber.org/goleak"

	"countersign/internal/secret"
	"countersign/internal/testkit"
)

// Drawn are the largest cards there can be.
func init() { testkit.DrawLess() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testToken  = secret.Value("slack-test-token-of-no-workspace")
	testSecret = secret.Value("slack-test-secret-of-no-workspace")
	home       = "C0APPROVALS"
)

func newChannel(t testing.TB, url string, change ...func(*Config)) *Channel {
	t.Helper()
	c := Config{BotToken: testToken, SigningSecret: secret.List{testSecret}, Channel: home, APIURL: url}
	for _, f := range change {
		f(&c)
	}
	ch, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ch.Close)
	return ch
}
