package campaign_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"time"

	"countersign/client"
	"countersign/internal/mcp/stdioproxy"
	"countersign/internal/testkit"
)

// The environment of a wrapper in a process of its own: where the gate is, and the server that runs the calls; and the
// argument of the server's process, which the wrapper starts.
const (
	wrapperEnv = "COUNTERSIGN_CAMPAIGN_WRAPPER"
	deskEnv    = "COUNTERSIGN_CAMPAIGN_DESK"
	asDesk     = "desk"
)

// wrapperMain is `countersign mcp` in front of a server.
func wrapperMain() {
	gate, err := client.New(os.Getenv(wrapperEnv), os.Getenv("COUNTERSIGN_TOKEN"))
	if err == nil {
		err = stdioproxy.Run(context.Background(), stdioproxy.Options{Gate: &stdioproxy.RemoteGate{Client: gate},
			Command: []string{os.Args[0], asDesk}, Name: "desk", Dir: "/srv", Hold: 400 * time.Millisecond,
			In: os.Stdin, Out: os.Stdout, Stderr: func(line string) { fmt.Fprintln(os.Stderr, line) },
			Logger: slog.New(slog.DiscardHandler)})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// deskMain is an MCP server on its standard input that has the test run what it is told, and dies with it.
func deskMain() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		res, err := http.Post(os.Getenv(deskEnv), "application/json", bytes.NewReader(lines.Bytes()))
		if err != nil {
			os.Exit(1) // it ran, and nobody is told
		}
		text, err := io.ReadAll(res.Body)
		if res.Body.Close() != nil || err != nil {
			os.Exit(1)
		}
		var m struct{ ID json.RawMessage }
		if json.Unmarshal(lines.Bytes(), &m) == nil && m.ID != nil {
			fmt.Printf("%s\n", text)
		}
	}
}

// wrapper is an agent's server behind the gate, as its client has started it.
type wrapper struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  chan []byte // its messages; closed at its end
	last int
}

func startWrapper(w *world, agent string) *wrapper {
	cmd := testkit.Command(w.t, os.Args[0])
	cmd.Env = append(os.Environ(), wrapperEnv+"="+w.entrance, deskEnv+"="+w.server.URL, "COUNTERSIGN_TOKEN="+token(agent))
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Error(err)
		return nil
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Error(err)
		return nil
	}
	if err := cmd.Start(); err != nil {
		w.t.Error(err)
		return nil
	}
	x := &wrapper{cmd: cmd, in: in, out: make(chan []byte, 64)}
	w.t.Cleanup(x.kill)
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			x.out <- bytes.Clone(lines.Bytes())
		}
		_ = cmd.Wait()
		close(x.out)
	}()
	if x.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`,
		testkit.Patience) == nil {
		x.kill()
		return nil
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return x
}

// ask sends a request and returns the response to it, nil where none has come in time.
func (x *wrapper) ask(method, params string, within time.Duration) []byte {
	x.last++
	fmt.Fprintf(x.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", x.last, method, params)
	for late := time.After(within); ; {
		select {
		case text, more := <-x.out:
			var m struct {
				ID     int
				Method string
			}
			switch {
			case !more:
				return nil
			case json.Unmarshal(text, &m) == nil && m.Method == "" && m.ID == x.last:
				return text
			}
		case <-late:
			return nil
		}
	}
}

// kill ends the wrapper, and its server with it.
func (x *wrapper) kill() {
	_ = x.cmd.Process.Kill()
	for range x.out { // real: it is closed at its end
	}
}

// stdio calls a tool of a server that the agent's client has started behind the gate, which dies now and then.
func (a *agent) stdio() {
	k := a.draw([]string{"look", "put", "put"})
	if !a.starts {
		return
	}
	if a.wrapper == nil {
		if a.wrapper = startWrapper(a.world, a.name); a.wrapper == nil {
			return
		}
	}
	o := a.op("stdio", k)
	o.Server, o.Start = "desk", time.Since(a.began)
	x, dies := a.wrapper, a.r.IntN(12) == 0
	if dies {
		a.count("fault wrapper")
		time.AfterFunc(time.Duration(a.r.Int64N(int64(200*time.Millisecond))), func() { _ = x.cmd.Process.Kill() })
	}
	text := x.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, k.tool, k.args), patience)
	if o.Answered, o.Status = text != nil, http.StatusOK; text == nil || dies {
		x.kill()
		a.wrapper = nil
	}
	a.readResult(o, text)
	a.note(o)
	a.remember(k, o)
}
