package loopback_test

import (
	"testing"

	"countersign/internal/loopback"
)

func TestOnlyWhatCanMeanNothingElseIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.8.9.10": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "::ffff:10.0.0.1": false,
		"localhost.": false, "a.localhost": false, "localhost.example": false, "127.0.0.1.nip.io": false,
		"127.1": false, "0x7f000001": false, "2130706433": false, // some resolvers take these for 127.0.0.1
		"127.0.0.1:80": false, "[::1]": false, "localhost:80": false, // not a host alone
	} {
		if got := loopback.IsHost(host); got != want {
			t.Errorf("%q: %t, want %t", host, got, want)
		}
	}
}
