// Countersign is the gate between an AI agent and its tools, and the command line to it.
//
// serve runs the gate and demo shows it with stand-ins for the chat platforms; init and manifest begin a configuration,
// check and explain judge one without running it, backup copies the database and restore puts a copy back, health asks
// a running gate whether it can decide, and verify tries on it what must not; call asks as an agent does, mcp puts the
// gate around an MCP server, hook answers the hooks of coding agents and install writes them into their settings;
// pending, show, approve, deny, extend, cancel, freeze and delegate are a person's, unfreeze, notifications, retry and
// audit an admin's; stats, suggest, replay and policy tell people what the record says. From verify on they talk to a
// running gate over its HTTP API.
//
// The exit code is the answer for scripts: 0 done (allowed, approved), 1 failed or unreachable, 2 usage
// or configuration, 3 denied or refused, 4 pending, 5 expired, cancelled, lapsed or too late. What was
// asked for goes to standard output, all else to standard error; what others wrote is printed with
// control and invisible characters as their code points.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv))
}
