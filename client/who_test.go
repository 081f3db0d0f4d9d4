package client_test

import (
	"testing"

	"countersign/client"
)

func TestWhoEndedARequestAndForWhom(t *testing.T) {
	vote := func(person, other string, d client.Verdict) client.Vote {
		return client.Vote{Person: person, For: other, Decision: d}
	}
	yes, no := client.Approve, client.Deny
	for _, tt := range []struct {
		want, status, by string
		votes            []client.Vote
	}{
		{"hana", "approved", "hana", []client.Vote{vote("hana", "", yes)}},
		{"ken for hana", "approved", "ken", []client.Vote{vote("ken", "hana", yes)}},
		{"hana, ken and mei for joe", "approved", "mei",
			[]client.Vote{vote("hana", "", yes), vote("ken", "", yes), vote("mei", "joe", yes)}},
		{"ken for hana", "denied", "ken", []client.Vote{vote("mei", "", yes), vote("ken", "hana", no)}},
		{"root", "cancelled", "root", []client.Vote{vote("hana", "", yes)}},
		{"system:timeout", "expired", "system:timeout", []client.Vote{vote("hana", "", yes)}},
		{"hana", "denied", "hana", nil},
	} {
		if got := (client.Approval{Status: tt.status, ResolvedBy: tt.by, Votes: tt.votes}).Who(); got != tt.want {
			t.Errorf("%s by %s: got %q, want %q", tt.status, tt.by, got, tt.want)
		}
	}
}
