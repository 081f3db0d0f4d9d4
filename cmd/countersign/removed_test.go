package main

import (
	"testing"
	"time"

	"countersign/client"
)

func TestArgumentsThatWereRemovedAreUnknownToReplay(t *testing.T) {
	a := client.Approval{Args: []byte(`null`)}
	a.ArgsRemovedAt.Time = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	if r := asRecord(a); r.Args != nil {
		t.Errorf("the arguments are %s", r.Args)
	}
}
