package stdioproxy

import (
	"slices"
	"strings"
)

// serverEnv is the environment of the server: this process's, which the client made for the server, without the
// agent's token. With that the server could use the agent's approvals itself.
func serverEnv(own []string) []string {
	return slices.DeleteFunc(slices.Clone(own), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.EqualFold(name, "COUNTERSIGN_TOKEN")
	})
}
