package line

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
	testToken  = secret.Value("line-test-token-of-no-account")
	testSecret = secret.Value("line-test-secret-of-no-account")
	hana       = "U4af4980629d1e4b8c9a2c1b2d3e4f5a6"
)

func newChannel(t testing.TB, url string) *Channel {
	t.Helper()
	ch, err := New(Config{ChannelSecret: secret.List{testSecret}, ChannelAccessToken: testToken, APIURL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ch.Close)
	return ch
}
