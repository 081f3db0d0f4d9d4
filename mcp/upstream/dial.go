package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const startTimeout = 30 * time.Second

// dialHints is what one connection to a server teaches about the next.
type dialHints struct {
	legacy bool // it does not survive server/discover
}

// Dial connects to a server and returns when it has said what it is: server/discover is tried first, and
// initialize where that is not understood. ctx ends with Dial; the connection does not end with ctx.
func Dial(ctx context.Context, cfg Config, peer Peer) (Conn, error) {
	return dial(ctx, cfg, peer, new(dialHints))
}

func dial(ctx context.Context, cfg Config, peer Peer, memory *dialHints) (Conn, error) {
	cfg.StartTimeout = cmp.Or(cfg.StartTimeout, startTimeout)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = cfg.Logger.With("server", cfg.Name)
	if cfg.Client == nil {
		cfg.Client = jsontext.Value(`{"name":"countersign","version":"0"}`)
	}
	if cfg.Capabilities == nil {
		cfg.Capabilities = jsontext.Value("{}")
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	switch {
	case len(cfg.Command) > 0 && cfg.URL == "":
		return dialStdio(ctx, cfg, peer, memory)
	case len(cfg.Command) == 0 && cfg.URL != "":
		u, err := readURL(cfg.URL)
		if err != nil {
			return nil, err
		}
		return dialHTTP(ctx, cfg, u, peer)
	}
	return nil, errors.New("a server needs a command or a URL")
}

// readURL reads a server's URL. Its errors do not repeat it, since it may hold a secret.
func readURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("the URL cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the URL must start with http:// or https://, not %.16q", u.Scheme)
	case u.Host == "":
		return nil, errors.New("the URL names no host")
	}
	u.Fragment = ""
	return u, nil
}
