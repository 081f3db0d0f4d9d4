// Package outboxtest has what tests of those who use the outbox share.
package outboxtest

import (
	"context"
	"slices"
	"time"

	"countersign/approval"
	"countersign/channels/outbox"
)

// Routing says where cards go, and does not change by itself.
type Routing struct {
	Cards       []approval.Route // of every request
	AdminRoutes []approval.Route
	Full        []string // channels that can send nothing for a while
	Edits       []string // channels on which a sent card can be edited
	// Hours, where it is not nil, says when quiet hours end.
	Hours func(a approval.Address, at time.Time) time.Time
}

var _ outbox.Routing = Routing{}

// To is the routing of cards that go to one address.
func To(channel, to string) Routing {
	return Routing{Cards: []approval.Route{{{Channel: channel, To: to}}}}
}

// Routes returns Cards.
func (r Routing) Routes(approval.Audience) []approval.Route { return r.Cards }

// RoutesOf implements outbox.Routing: whom escalation adds is not reached.
func (r Routing) RoutesOf([]approval.Actor) []approval.Route { return nil }

// Rooms implements outbox.Routing: there are none.
func (r Routing) Rooms() []approval.Address { return nil }

// Admins returns AdminRoutes.
func (r Routing) Admins() []approval.Route { return r.AdminRoutes }

// Spent reports whether the channel is one of Full.
func (r Routing) Spent(channel string) bool { return slices.Contains(r.Full, channel) }

// Editable reports whether the channel is one of Edits.
func (r Routing) Editable(channel string) bool { return slices.Contains(r.Edits, channel) }

// QuietUntil says what Hours does.
func (r Routing) QuietUntil(a approval.Address, at time.Time) time.Time {
	if r.Hours == nil {
		return time.Time{}
	}
	return r.Hours(a, at)
}

// Begin begins attempts, one after another, and returns the notifications of those that were begun.
func Begin(ctx context.Context, o *outbox.Outbox, attempts ...outbox.Attempt) ([]approval.Notification, error) {
	var all []approval.Notification
	for _, t := range attempts {
		n, begun, err := o.Begin(ctx, t)
		if err != nil {
			return nil, err
		}
		if begun {
			all = append(all, n)
		}
	}
	return all, nil
}
