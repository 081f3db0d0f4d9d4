package standardwebhooks

import (
	"context"
	"errors"
	"fmt"

	"countersign/channels"
	"countersign/channels/kind"
	"countersign/internal/secret"
)

// Kind is signed outbound webhooks as a kind of channel.
func Kind() kind.Kind {
	return kind.Kind{
		Name: Name, Title: "Webhooks", Type: (*named)(nil),
		Section: func() kind.Section { return new(Config) },
		Address: kind.AddressForm{Check: checkAddress, What: "webhook address", How: "webhook: https://…", Secret: true},
	}
}

func checkAddress(address string) error {
	if err := CheckAddress(address); err != nil {
		return fmt.Errorf("webhook %w", err)
	}
	return nil
}

// named is the channel for people by name: an address may hold a secret, and a notification's recipient is
// shown in the log.
type named struct {
	*Channel
	addresses map[string]secret.Value
}

var (
	_ channels.Channel = (*named)(nil)
	_ channels.Editor  = (*named)(nil)
)

// Send posts to the person's address.
func (n *named) Send(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	return n.to(ctx, m, n.Channel.Send)
}

// Edit posts how a request has ended.
func (n *named) Edit(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	return n.to(ctx, m, n.Channel.Edit)
}

type sending func(context.Context, channels.Message) (channels.Receipt, error)

func (n *named) to(ctx context.Context, m channels.Message, send sending) (channels.Receipt, error) {
	address := n.addresses[m.To]
	if address == "" {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRecipient,
			Err: errors.New("this person has no webhook address any more")}
	}
	m.To = address.Reveal()
	return send(ctx, m)
}
