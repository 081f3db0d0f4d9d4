package demo

import (
	"context"
	"fmt"
	"sync/atomic"

	"countersign/client"
	"countersign/internal/secret"
)

// inbox opens the gate's pages for the people of the demo, as `countersign open` does.
type inbox struct {
	tokens map[string]secret.Value
	gate   atomic.Pointer[string] // its address; nil until it runs
}

func (i *inbox) at(gate string) { i.gate.Store(&gate) }

// open makes a link that signs somebody in, once.
func (i *inbox) open(ctx context.Context, person string) (string, error) {
	gate, token := i.gate.Load(), i.tokens[person]
	if gate == nil || token == "" {
		return "", fmt.Errorf("%s cannot sign in yet", person)
	}
	c, err := client.New(*gate, token.Reveal())
	if err != nil {
		return "", err
	}
	defer c.Close()
	l, err := c.SignInLink(ctx)
	return l.URL, err
}
