package main

import (
	"context"
	"fmt"

	"countersign/client"
)

type eraseCmd struct {
	remote
	output
	Request string `xor:"what" required:"" placeholder:"ID" help:"One request."`
	Agent   string `xor:"what" required:"" placeholder:"NAME" help:"All requests of this agent, also if it is not configured any more."`
	Yes     bool   `short:"y" help:"Erase without asking."`
}

func (*eraseCmd) Help() string {
	return `The arguments are removed, and all texts made of them or with them: the summary, the agent's reason and preview, and what people were sent. What stays is which agent asked for which tool, the hash, and who decided what, when and why. The audit log keeps what it has, with secrets masked. So do LINE, Slack and backups. Requests that wait or can still be used are left as they are. There is no way back. Only admins can.

Examples:

    countersign erase --request 7M2K4Q
    countersign erase --agent treasury-bot
    countersign erase --agent treasury-bot --yes -o json`
}

func (c *eraseCmd) Run(ctx context.Context, s *std) error {
	what := "the arguments and texts of request " + c.Request
	if c.Agent != "" {
		what = "the arguments and texts of all requests of " + c.Agent
	}
	if !c.Yes {
		if !isTerminalIn(s.in) {
			return usagef("nothing was erased: there is nobody to ask; give --yes to erase %s", visible(what))
		}
		fmt.Fprintf(s.err, "Erase %s? There is no way back. [y/N] ", visible(what))
		if !yes(s) {
			return &exitError{exitFailed, "nothing was erased"}
		}
	}
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	e, err := c.erase(ctx, g)
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, e)
	}
	s.printf("Erased: the arguments and texts of %s.", count(e.Requests, "request", "requests"))
	if e.Kept > 0 {
		s.printf(" Left as they are: %d, of which something is still to come or nothing was left.", e.Kept)
	}
	s.printf("\n")
	return nil
}

func (c *eraseCmd) erase(ctx context.Context, g *connection) (client.Erased, error) {
	if c.Agent != "" {
		return g.EraseAgent(ctx, c.Agent)
	}
	return g.EraseRequest(ctx, requestID(c.Request))
}
