package standardwebhooks

import (
	"testing"

	"go.uber.org/goleak"

	"countersign/internal/secret"
	"countersign/internal/testkit"
)

// Drawn are the largest cards there can be.
func init() { testkit.DrawLess() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Secrets in the form of Standard Webhooks: these say so themselves, in base64.
const (
	testSecret = secret.Value("whsec_dGVzdC1vbmx5LXNpZ25pbmctc2VjcmV0LW5vLTE=")
	oldSecret  = secret.Value("dGVzdC1vbmx5LXNpZ25pbmctc2VjcmV0LW5vLTI=")
)

func newChannel(t testing.TB, secrets ...secret.Value) *Channel {
	t.Helper()
	if len(secrets) == 0 {
		secrets = []secret.Value{testSecret}
	}
	ch, err := New(Config{SigningSecret: secrets})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ch.Close)
	return ch
}
