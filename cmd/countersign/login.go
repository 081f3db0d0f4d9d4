package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"countersign/client"
	"countersign/internal/agents/settings"
	"countersign/internal/loopback"
	"countersign/internal/secret"
	"countersign/internal/terminal/logins"

	"golang.org/x/term"
)

type loginCmd struct {
	Server string `placeholder:"URL" help:"The gate's address. Default: COUNTERSIGN_SERVER, else your own gate, else http://127.0.0.1:8787."`
	Here   bool   `help:"Store it even though a coding agent with Countersign's hooks runs as this user."`
}

func (*loginCmd) Help() string {
	return `It asks for your token (a person's) without showing it, or reads it as one line from standard input. It tries the token at the gate, and stores it in a file that only you can read. From then on the commands for people use it at exactly this address, unless --token or COUNTERSIGN_TOKEN is given. Commands for agents never use it.

Any program that runs as you can read that file. Where hooks of a coding agent are installed for you or in this folder, the agent is such a program: it could approve its own calls. There login stores nothing, unless you give --here; log in on another machine or as another user instead. With guard: gate_files a person is asked about calls that name the file, or the commands that would use it, but a script that hides the name gets past that.

Examples:

    countersign login
    countersign login --server https://gate.example
    pass show countersign | countersign login`
}

func (c *loginCmd) Run(ctx context.Context, s *std) error {
	if err := c.refuseBesideAgent(s); err != nil {
		return err
	}
	server := logins.Server(s.server(c.Server))
	all, err := s.logins()
	if err != nil {
		return err
	}
	if u, err := url.Parse(server); err == nil && u.Scheme == "http" && !loopback.IsHost(u.Hostname()) {
		s.warn(fmt.Sprintf("the way to %s is not encrypted: whoever listens there learns your token", visible(u.Host)))
	}
	token, err := s.askToken(server)
	if err != nil {
		return err
	}
	g, err := new(remote).dial(server, token.Reveal(), "what was given")
	if err != nil {
		return err
	}
	defer g.Close()
	if _, err := g.Approvals(ctx, client.ApprovalQuery{Status: "pending", Limit: 1}); err != nil {
		return g.failure(err)
	}
	x, err := all.Put(server, token)
	if err != nil {
		return &exitError{exitFailed, "the login cannot be stored: " + err.Error()}
	}
	s.printf("Logged in at %s; countersign logout forgets it. The token is in %s.\n", visible(x.Server), visible(x.Path))
	return nil
}

// refuseBesideAgent refuses to store a token where a coding agent runs as this user.
func (c *loginCmd) refuseBesideAgent(s *std) error {
	program, err := os.Executable()
	if err != nil {
		return &exitError{exitFailed, err.Error()}
	}
	hooked := new(installFlags).others(s, program, new(settings.Change))
	if len(hooked) == 0 || c.Here {
		return nil
	}
	return &exitError{exitDenied, fmt.Sprintf("nothing was stored: %s has the hook of a coding agent, which runs as you. "+
		"It could read your token here and approve its own calls with it. Log in as another user or on another machine, or "+
		"decide in a chat; --here stores it all the same", strings.Join(hooked, ", "))}
}

// askToken asks for a token, or reads it where there is no terminal to ask at.
func (s *std) askToken(server string) (secret.Value, error) {
	var text string
	var err error
	if in, ok := s.in.(*os.File); ok && isTerminalIn(s.in) {
		text, err = typedUnseen(in, s.err, fmt.Sprintf("Your token at %s (it is not shown): ", visible(server)))
	} else {
		text, err = bufio.NewReader(io.LimitReader(s.in, 64<<10)).ReadString('\n')
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	token := strings.TrimSpace(text)
	switch {
	case err != nil:
		return "", &exitError{exitFailed, "the token cannot be read: " + err.Error()}
	case token == "":
		return "", usagef("no token was given; it is the one that you have in the gate's configuration")
	}
	return secret.Value(token), nil
}

// typedUnseen asks, and reads a line that the terminal does not show. It stops showing before the question is there,
// however soon the person answers; [term.ReadPassword] alone stops after it. What ends the line early, such as ctrl-c,
// is io.EOF.
func typedUnseen(in *os.File, out io.Writer, question string) (string, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(in.Fd()), before) }()
	return term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, "").ReadPassword(question)
}

// logins are the stored ones of this user.
func (s *std) logins() (*logins.Logins, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, &exitError{exitFailed, err.Error()}
	}
	return logins.In(dir), nil
}

// login is the stored token for a server, "" if there is none.
func (s *std) login(server string) (token, from string, err error) {
	all, err := s.logins()
	if err != nil {
		return "", "", nil // without a folder nothing can have been stored
	}
	x, err := all.Get(server)
	switch {
	case errors.Is(err, logins.ErrNone):
		return "", "", nil
	case err != nil:
		return "", "", &exitError{exitFailed, err.Error()}
	}
	return x.Token.Reveal(), x.Path, nil
}

type logoutCmd struct {
	Server string `placeholder:"URL" help:"The gate's address; its default is that of login."`
	All    bool   `help:"Forget the logins at all gates."`
}

func (*logoutCmd) Help() string {
	return `It removes the stored token from this machine. The gate still accepts the token until you remove it from the gate's configuration.

Examples:

    countersign logout
    countersign logout --server https://gate.example
    countersign logout --all`
}

func (c *logoutCmd) Run(s *std) error {
	if c.All && c.Server != "" {
		return usagef("--all and --server: give one")
	}
	stored, err := s.logins()
	if err != nil {
		return err
	}
	servers := []string{s.server(c.Server)}
	if c.All {
		all, err := stored.All()
		if err != nil {
			return &exitError{exitFailed, err.Error()}
		}
		servers = nil
		for _, x := range all {
			servers = append(servers, x.Server)
		}
	}
	for _, server := range servers {
		switch err := stored.Remove(server); {
		case errors.Is(err, logins.ErrNone):
			s.printf("There was no login at %s.\n", visible(server))
		case err != nil:
			return &exitError{exitFailed, err.Error()}
		default:
			s.printf("Logged out: the token for %s is forgotten here.\n", visible(logins.Server(server)))
		}
	}
	return nil
}
