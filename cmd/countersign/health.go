package main

import (
	"context"
	"fmt"

	"countersign/client"
)

type healthCmd struct {
	output
	Server string `placeholder:"URL" help:"The gate's address. Default: COUNTERSIGN_SERVER, else your own gate, else http://127.0.0.1:8787."`
}

func (*healthCmd) Help() string {
	return `It asks /readyz, as a load balancer does, and needs no token. What keeps people from being reached is named, also while the gate is ready. Exit code: 0 the gate is ready, 1 it is not, or none answers.

Examples:

    countersign health
    countersign health --server https://gate.example.com
    docker inspect --format '{{.State.Health.Status}}' countersign`
}

func (c *healthCmd) Run(ctx context.Context, s *std) error {
	server := s.server(c.Server)
	r, err := client.Ready(ctx, server, client.WithName("cli"))
	if err != nil {
		g := connection{server: server}
		return g.failure(err)
	}
	if c.forPrograms() {
		if err := c.print(s, r); err != nil {
			return err
		}
	} else {
		if r.Status == client.IsReady {
			s.printf("The gate at %s is ready.\n", visible(server))
		}
		for _, p := range r.Problems {
			s.printf("- %s\n", visible(p))
		}
	}
	if r.Status != client.IsReady {
		return &exitError{exitFailed, fmt.Sprintf("the gate at %s is not ready: %s", server, r.Status)}
	}
	return nil
}
