package stdioproxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/mcp/downstream"
	"countersign/internal/mcp/gateway"
	"countersign/internal/mcp/upstream"
)

// Options say what is wrapped, and for whom.
type Options struct {
	Gate    *RemoteGate
	Command []string
	Name    string // of the server, as rules and people know it; "": [NameOf] the command
	Dir     string // the working directory, which is the calls' scope
	Hold    time.Duration
	Version string
	In      io.Reader
	Out     io.Writer
	Stderr  func(line string) // what the server writes there
	Logger  *slog.Logger
}

// Run serves the client until it goes away or ctx ends.
func Run(ctx context.Context, o Options) error {
	if o.Name == "" {
		o.Name = NameOf(o.Command)
	}
	g, err := gateway.New(gateway.Options{
		Asker: o.Gate, Hold: o.Hold, Wrapper: true, Scope: Scope(o.Dir, o.Command), Version: o.Version, Logger: o.Logger,
		Stopping: ctx, Trace: passOnTrace,
		Servers: []gateway.ServerConfig{{Config: upstream.Config{Name: o.Name, Command: o.Command,
			Env: serverEnv(os.Environ()), Stderr: o.Stderr, Logger: o.Logger, StartTimeout: startTimeout}}},
	})
	if err != nil {
		return err
	}
	g.Start()
	err = downstream.Stdio(ctx, o.In, o.Out, downstream.StdioOptions{Sessions: g, Agent: self, Logger: o.Logger})
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if stopped := g.Stop(stop); err == nil {
		err = stopped
	}
	o.Gate.Finish()
	return err
}

// passOnTrace has the gate asked under the client's own span: the gate elsewhere makes those below it.
func passOnTrace(r gateway.TracedRequest) (traceparent string, end func(approval.Answer, string)) {
	return r.Traceparent, nil
}

// startTimeout bounds a server's start, which may take a download. The client gives up sooner, as it would
// without us.
const startTimeout = 10 * time.Minute

// Scope is what keeps the calls of two wrappers apart that have servers of the same name: the folder in
// which the server runs, and a digest of its command, which may hold secrets.
func Scope(dir string, command []string) string {
	h := sha256.New()
	for _, arg := range command {
		fmt.Fprintf(h, "%d %s", len(arg), arg)
	}
	mark := " (command " + hex.EncodeToString(h.Sum(nil))[:8] + ")"
	if most := 1024 - len(mark); len(dir) > most {
		dir = "…" + strings.ToValidUTF8(dir[len(dir)-most+len("…"):], "")
	}
	return dir + mark
}

// MaxHold is how long a call may be held at most.
const MaxHold = 10 * time.Minute

var _ gateway.Asker = (*RemoteGate)(nil)
