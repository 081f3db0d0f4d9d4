package sqlite

import "countersign/internal/testkit"

// Each draw is a store, and its life.
func init() { testkit.DrawLess() }
