package channels

import (
	"testing"

	"go.uber.org/goleak"

	"countersign/internal/testkit"
)

// Drawn are the largest cards there can be.
func init() { testkit.DrawLess() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
