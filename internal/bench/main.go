package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"countersign/internal/loopback"
	"countersign/internal/secret"
)

const usage = `Usage: bench [FLAG]...

It starts a gate with a store of its own, no limits and a stand-in for LINE, and removes all of it at the end. Each
figure is measured in turns with what the machine can do: compare the ratios, not the figures. At the end it compares
its own counts with what the gate has recorded. With -server it loads a gate that runs already, and calls only the
tools that are named.

Exit code: 0 measured, 1 something failed, 2 usage.

`

func main() {
	if len(os.Args) > 1 && os.Args[1] == partCommand {
		exit(part(os.Args[2:]))
	}
	o, asJSON := options(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	report, err := Run(ctx, o)
	if ctx.Err() != nil {
		err = errors.New("stopped; what was started for it is gone")
	} else if report != nil {
		if asJSON {
			e := json.NewEncoder(os.Stdout)
			e.SetIndent("", "  ")
			err = errors.Join(err, e.Encode(report))
		} else {
			report.Print(os.Stdout)
		}
		for _, problem := range report.Problems {
			fmt.Fprintln(os.Stderr, problem)
		}
	}
	stop()
	exit(err)
}

func exit(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// part is what bench starts of itself: it ends with its standard input, so that it does not outlive a bench that is
// killed.
func part(args []string) error {
	// Ctrl-C goes to all of a terminal's programs; bench is the one that acts on it.
	signal.Ignore(os.Interrupt)
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	name, upstream, _ := strings.Cut(strings.Join(args, " "), " ")
	return Part(ctx, name, upstream, os.Stdout)
}

// options are what the command line says. It ends the program where that cannot be meant.
func options(args []string) (o Options, asJSON bool) {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	fail := func(format string, a ...any) {
		fmt.Fprintf(flags.Output(), "bench: "+format+"\n", a...)
		os.Exit(2)
	}
	var given Given
	only := flags.String("only", "", "measure only these, separated by commas: "+strings.Join(Scenarios, ","))
	flags.StringVar(&o.Program, "program", "./countersign", "the program to measure: go build ./cmd/countersign")
	flags.StringVar(&o.Dir, "dir", "", "a folder on the disk to measure; default: the folder for temporary files")
	flags.IntVar(&o.Rounds, "rounds", 5, "how many rounds each figure gets")
	flags.DurationVar(&o.Round, "round", 400*time.Millisecond, "how long a figure is measured in a round")
	flags.IntVar(&o.Calls, "calls", 5000, "at most how many calls are made for a figure in a round")
	flags.IntVar(&o.Callers, "callers", 64, "how many callers there are at once; over MCP at most 16")
	flags.BoolVar(&asJSON, "json", false, "write the report as JSON")
	flags.StringVar(&o.Store, "store", "", "an empty PostgreSQL database, as a URL, in place of a file; its tables stay")
	flags.IntVar(&o.Gates, "gates", 1, "how many gates there are on it, which the calls are shared out to")
	flags.IntVar(&o.Agents, "agents", 1, "how many agents the calls are shared out to, but for those over MCP and to LINE")
	flags.DurationVar(&o.Delay, "delay", 0, "by how much later what a gate and it say to each other arrives, each way")
	flags.StringVar(&given.URL, "server", "", "put the load on this gate instead of starting one")
	token := flags.String("token", os.Getenv("COUNTERSIGN_TOKEN"), "the agent's token at that gate")
	person := flags.String("person-token", "", "a person's token at that gate; without it no request is decided")
	flags.StringVar(&given.AskTool, "ask-tool", "", "a tool that people at that gate are asked about: each call sends "+
		"them cards, and is cancelled at the end of its round")
	flags.StringVar(&given.AllowTool, "allow-tool", "", "a tool that the gate's policy allows")
	flags.StringVar(&given.MCPTool, "mcp-tool", "", "a tool that the gate's policy allows over MCP; it really runs")
	flags.StringVar(&given.MCPArgs, "mcp-args", "{}", "its arguments")
	anywhere := flags.Bool("yes-load-this", false, "allow a gate on another machine")
	_ = flags.Parse(args) // or it has ended the program
	o.Log = os.Stderr
	if flags.NArg() > 0 {
		fail("there is no %s", flags.Arg(0))
	}
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	if err := o.check(); err != nil {
		fail("%v", err)
	}
	if given.URL == "" {
		return o, asJSON
	}
	if o.Agents > 1 {
		fail("-agents is for gates that are started: -token is one agent's")
	}
	given.Agent, given.Person = secret.Value(*token), secret.Value(*person)
	if err := given.check(*anywhere); err != nil {
		fail("%v", err)
	}
	o.Given = &given
	return o, asJSON
}

func (o *Options) check() error {
	if o.Rounds < 1 || o.Rounds > 1000 || o.Round < time.Millisecond || o.Round > time.Minute || o.Calls < 1 ||
		o.Callers < 1 || o.Callers > 1024 {
		return errors.New("-rounds is 1 to 1000, -round 1ms to 1m, -calls at least 1, -callers 1 to 1024")
	}
	if o.Agents < 1 || o.Agents > 256 {
		return errors.New("-agents is 1 to 256")
	}
	if o.Gates < 1 || o.Gates > 8 || o.Delay < 0 || o.Delay > time.Second ||
		o.Store == "" && (o.Gates > 1 || o.Delay > 0) {
		return errors.New("-gates is 1 to 8, -delay up to 1s, and both need -store")
	}
	for _, name := range o.Only {
		if !slices.Contains(Scenarios, name) {
			return fmt.Errorf("-only %s is none of %s", name, strings.Join(Scenarios, ","))
		}
	}
	return nil
}

// check refuses a gate that could be meant by accident. anywhere allows one on another machine.
func (g *Given) check(anywhere bool) error {
	u, err := url.Parse(g.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("-server is an address such as http://127.0.0.1:8787")
	case !loopback.IsHost(u.Hostname()) && !anywhere:
		return fmt.Errorf("%s is not this machine: people may depend on that gate; -yes-load-this loads it all the same",
			u.Host)
	case g.Agent == "":
		return errors.New("no token: set COUNTERSIGN_TOKEN, or give -token, to that of an agent of the gate")
	case g.AskTool == "" && g.AllowTool == "" && g.MCPTool == "":
		return errors.New("-ask-tool, -allow-tool and -mcp-tool say what may be called at that gate; name one at least")
	}
	return nil
}
