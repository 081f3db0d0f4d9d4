// Package kind says what a kind of channel is: all that the rest of the program must know of LINE, Slack or
// another platform to be configured for it, to send to it and to hear from it.
//
// Each platform's package exports one [Kind], and the package channels/all lists them. The configuration takes
// its sections and people's addresses from that list, and the program builds its channels and ways in from it.
// What a channel can do beyond sending is found by asserting small interfaces: [channels.Editor],
// [channels.Identifier], [channels.Metered] and their like of a channel, and [Runner], [channels.Reporter] and
// the others of a way in.
package kind

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/secret"
	"countersign/webhook"
)

// Kind is one kind of channel.
type Kind struct {
	// Name is its key in the configuration, under channels and of people, what notifications call it, and the
	// end of the path of its webhook.
	Name string
	// Title is what people call it.
	Title string
	// Section returns an empty section of the configuration: a pointer to a struct with YAML tags.
	Section func() Section
	Address AddressForm
	// Type is a nil pointer of the channel's type, of which can be asserted what channels of this kind can do
	// while none is configured.
	Type channels.Channel
	// Inbound makes what takes the platform's webhooks, once for the life of the program; nil: nothing comes in,
	// and no person can decide there. It may be a [Runner], a [channels.Reporter], a [channels.Reconfigurer] and
	// a [Closer] too.
	Inbound func(o webhook.Options, now Current) http.Handler
}

// Current is what is in force when something comes in.
type Current struct {
	// Channel returns the section and the channel, nil while the kind is not configured.
	Channel func() (Section, channels.Channel)
	// Maker returns what cards are made with, and Requests is what waits: for ways in that show either.
	Maker    func() channels.Maker
	Requests Requests
}

// Requests are what waits for a person.
type Requests interface {
	Requests(ctx context.Context, q approval.RequestQuery) ([]approval.Request, error)
	PendingCount(ctx context.Context) (int, error)
	// MayVote reports whether one person may vote on a request now.
	MayVote(ctx context.Context, id string, who approval.Actor) (bool, error)
}

// AddressForm is how a person's address on a channel is written.
type AddressForm struct {
	// Check returns what is wrong with an address, as a whole sentence.
	Check func(address string) error
	// What and How name an address to a person who lacks one: "LINE user id" and "line: U…".
	What, How string
	// Own is what each address must be one person's own as, such as "LINE id"; "": people may share one.
	Own string
	// Secret says that an address may hold a secret. It does not print, and rows and logs have the person's
	// name in its place.
	Secret bool
	// User returns whose eyes alone a recipient is for, where that is not all of it; nil: it always is.
	User func(recipient string) string
}

// Whose returns the user whom a recipient is for.
func (f AddressForm) Whose(recipient string) string {
	if f.User == nil {
		return recipient
	}
	return f.User(recipient)
}

// Section is a kind's section of the configuration.
type Section interface {
	// Check reports what is wrong with the section, by itself and among the people who are configured.
	Check(c Checks)
	// Audience says who is told of every request.
	Audience() Audience
	// Open builds the channel that the section describes. It makes no call.
	Open(h Host) (channels.Channel, error)
}

// Audience is who is told of every request, beside the people whose own settings name the channel.
type Audience struct {
	Notify []string // people, by name
	Room   string   // where several people see it; "": nowhere
	Locale string   // of the room
}

// Host is what a channel gets from the program that it runs in.
type Host struct {
	Logger *slog.Logger
	Now    func() time.Time
	// Addresses are people's addresses by name, where they may hold secrets: recipients are then names.
	Addresses map[string]secret.Value
}

// Checks is what a section is checked with. Fields are named as the file spells them, and "" is the section.
type Checks interface {
	// Problems reports what [channels.Problems] err holds.
	Problems(err error)
	Errorf(field, format string, args ...any)
	Warnf(field, format string, args ...any)
	// Own reports secrets that another agent or person has too; who is what others are told of whose they are.
	Own(field, who string, secrets ...secret.Value)
	// Endpoint reports an address that a token would be sent to in the clear.
	Endpoint(field, url string)
	// Locale reports a language that is not known.
	Locale(field, tag string)
	// Notify checks the field notify, and counts the approvers who are named there.
	Notify(names []string) (approvers int)
	// IsChosen reports whether a person's own settings name the channel.
	IsChosen() bool
	// CanDecide reports whether an approver has an address on the channel.
	CanDecide() bool
}

// Runner has work of its own to do until ctx ends.
type Runner interface{ Run(ctx context.Context) }

// Closer ends what is still under way, and waits for it.
type Closer interface{ Close() }

// PostedTo is a section that says whether the platform posts to the webhook. Of others it does where the kind has
// a way in.
type PostedTo interface{ PostedTo() bool }

// Posted reports whether the platform posts to the webhook, as a section of this kind says.
func (k Kind) Posted(s Section) bool {
	if k.Inbound == nil || s == nil {
		return false
	}
	p, ok := s.(PostedTo)
	return !ok || p.PostedTo()
}
