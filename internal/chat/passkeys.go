package chat

import (
	"countersign/approval"
	"countersign/internal/locale/phrases"
)

// What people are told of their passkeys, which another person may have added or removed in their name.

// PasskeyAdded tells a person that they have one more passkey.
func (s *Service) PasskeyAdded(tx approval.Tx, person, name string) error {
	return s.tellOwner(tx, person, phrases.SayPasskeyAdded, name)
}

// PasskeyRemoved tells a person that they have one less.
func (s *Service) PasskeyRemoved(tx approval.Tx, person, name string) error {
	return s.tellOwner(tx, person, phrases.SayPasskeyRemoved, name)
}

// PasskeyBlocked tells a person that one of theirs is of no use any more.
func (s *Service) PasskeyBlocked(tx approval.Tx, person, name string) error {
	return s.tellOwner(tx, person, phrases.SayPasskeyBlocked, name)
}

func (s *Service) tellOwner(tx approval.Tx, person string, p phrases.Phrase, name string) error {
	n := approval.Notification{Kind: approval.KindReply, Text: s.sayTo(s.gate.PersonNow(person), p, "name", name)}
	return s.outbox.ToRoute(tx, s.readers.RouteOf(person), n)
}
