// Package all is the list of the kinds of channel that there are.
package all

import (
	"countersign/channels/kind"
	"countersign/channels/line"
	"countersign/channels/slack"
	"countersign/channels/standardwebhooks"
)

// Kinds returns them, in the order in which they are listed to people.
func Kinds() []kind.Kind { return []kind.Kind{line.Kind(), slack.Kind(), standardwebhooks.Kind()} }
