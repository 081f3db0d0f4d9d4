package stdioproxy

import (
	"slices"
	"testing"
)

func TestTheServerDoesNotGetTheAgentsToken(t *testing.T) {
	t.Setenv("COUNTERSIGN_TOKEN", "not-for-the-server")
	t.Setenv("SERVERS_OWN", "kept")
	x := newWorld(t, allowAll).wrap()
	x.hello()
	if got, want := x.events("environ "), []string{"COUNTERSIGN_TOKEN= SERVERS_OWN=kept"}; !slices.Equal(got, want) {
		t.Errorf("the server is started with %q, want %q", got, want)
	}
}
