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
	switch {
	case len(cfg.Command) > 0 && cfg.URL == "":
		ctx, wrote, cancel := untilSilent(ctx, cfg.StartTimeout)
		defer cancel()
		if cfg.wrote == nil {
			cfg.wrote = wrote
		}
		return dialStdio(ctx, cfg, peer, memory)
	case len(cfg.Command) == 0 && cfg.URL != "":
		u, err := readURL(cfg.URL)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
		defer cancel()
		return dialHTTP(ctx, cfg, u, peer)
	}
	return nil, errors.New("a server needs a command or a URL")
}

// longestStart is how many times its time a process may take to start that goes on writing.
const longestStart = 10

// untilSilent returns a context that ends, as one past its deadline, when wrote was not called for so long, or
// longestStart times as long has passed in all.
func untilSilent(ctx context.Context, silence time.Duration) (_ context.Context, wrote func(),
	cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	late := func() { end(context.DeadlineExceeded) }
	silent, longest := time.AfterFunc(silence, late), time.AfterFunc(longestStart*silence, late)
	wrote = func() {
		if silent.Stop() { // else it is too late
			silent.Reset(silence)
		}
	}
	return ctx, wrote, func() {
		silent.Stop()
		longest.Stop()
		end(context.Canceled)
	}
}

// notInTime says that a server did not say in time what it is, and what can be done.
func notInTime(ctx context.Context, cfg Config) error {
	text := "the server did not say in time what it is"
	if cause := context.Cause(ctx); cfg.StartKey != "" && errors.Is(cause, context.DeadlineExceeded) {
		text = fmt.Sprintf("%s; if it needs more than %s to start, raise %s", text, cfg.StartTimeout, cfg.StartKey)
	}
	return &plainError{text, context.Cause(ctx)}
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
