package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

type openCmd struct {
	remote
	output
	Print bool `help:"Only print the link; open no browser."`
}

func (*openCmd) Help() string {
	return `The link works once, within ten minutes. It is opened if this terminal has a browser. The page asks before it signs you in. Anybody who has the link can sign in as you: give it to nobody. The browser gets it from a file that only you can read and that is removed after 15 seconds, not on its command line.

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
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(s.err, "A browser opens it; this ends in %s.\n", span(browserTime))
	if err := openPage(ctx, command, l.URL, browserTime); err != nil {
		fmt.Fprintf(s.err, "countersign: no browser was opened (%s); open the link yourself\n", visible(err.Error()))
	}
	return nil
}

// browserTime is how long a browser has to start and read the file that leads it to the link.
const browserTime = 15 * time.Second

// openPage has a browser open a link. Everybody on the machine can read a program's command line, so what stands there
// is a file, for this user alone, that leads to the link. The file is gone once the time, or ctx, is over.
func openPage(ctx context.Context, command []string, link string, within time.Duration) (err error) {
	folder, err := os.MkdirTemp("", "countersign-*") // with mode 0700
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "sign-in.html")
	if err := os.WriteFile(file, leadingTo(link), 0o600); err != nil {
		return err
	}
	if err := startBrowser(append(slices.Clip(command), file)); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(within):
	}
	return nil
}

// leadingTo is a page that goes on to a link at once.
func leadingTo(link string) []byte {
	link = html.EscapeString(link)
	return fmt.Appendf(nil, `<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=%s">
<title>Countersign</title>
<p><a href="%s">Sign in</a></p>
`, link, link)
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
