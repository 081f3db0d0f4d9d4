package approval_test

import "countersign/internal/testkit"

// Each draw is a store, and what is done with it.
func init() { testkit.DrawLess() }
