//go:build race

package testkit

// Race says whether the race detector looks on, under which everything takes ten times as long.
const Race = true
