package main

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
)

type openCmd struct {
	remote
	output
	Print bool `help:"Only print the link; open no browser."`
}

func (*openCmd) Help() string {
	return `Prints a link that signs you in to the gate's pages, once and within ten minutes, and opens it where this terminal has a browser beside it. The page asks before it signs in. Whoever has the link can be you: pass it to nobody.

Examples:

    countersign open
    countersign open --print`
}

func (c *openCmd) Run(ctx context.Context, s *std) error {
	g, err := c.connect(s)
	if err != nil {
		return err
	}
	defer g.Close()
	l, err := g.SignInLink(ctx)
	if err != nil {
		return g.failure(err)
	}
	if c.forPrograms() {
		return c.print(s, l)
	}
	s.printf("%s\n", visible(l.URL))
	command := opener(runtime.GOOS, s.getenv)
	if c.Print || !s.terminal || command == nil || !isPage(l.URL) {
		return nil
	}
	if err := startBrowser(append(command, l.URL)); err != nil {
		fmt.Fprintf(s.err, "countersign: no browser was opened (%s); open the link yourself\n", visible(err.Error()))
	}
	return nil
}

// isPage reports whether an address is of the web, and no other thing that a desktop would start.
func isPage(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// opener is the command that opens an address in a browser, nil where there is no desktop: over ssh the browser would
// open on another machine than the one in front of the person.
func opener(system string, getenv func(string) string) []string {
	switch {
	case getenv("SSH_CONNECTION") != "":
		return nil
	case system == "darwin":
		return []string{"open"}
	case system == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	case getenv("DISPLAY") != "" || getenv("WAYLAND_DISPLAY") != "":
		return []string{"xdg-open"}
	}
	return nil
}

// startBrowser starts the command, and waits for neither it nor the browser.
func startBrowser(command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	c := exec.Command(path, command[1:]...)
	if err := c.Start(); err != nil {
		return err
	}
	return c.Process.Release()
}
