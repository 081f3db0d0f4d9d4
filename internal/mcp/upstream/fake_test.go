package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/internal/mcp"
	"countersign/internal/testkit"
)

// The test binary is also the servers of the tests, told apart by this variable.
const (
	fakeVar = "COUNTERSIGN_FAKE_SERVER"
	lineVar = "COUNTERSIGN_FAKE_LIFELINE" // an address; who holds a connection to it is alive
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(fakeVar); kind != "" {
		fakes[kind]()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a server of a race build would take a second to end
	testkit.AtOnce(4)
	goleak.VerifyTestMain(m)
}

// fake is the configuration of one of the fakes.
func fake(kind string) Config {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Config{Name: kind, Command: []string{exe}, Env: append(os.Environ(), fakeVar+"="+kind)}
}

// say writes a line as a server does.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func sayHello(m mcp.Message) {
	say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}}`, m.ID)
}

func sayNo(m mcp.Message) {
	say("%s", mcp.ErrorResponse(m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "no")).Bytes())
}

func sayYes(m mcp.Message) { say(`{"jsonrpc":"2.0","id":%s,"result":{"n":%[1]s}}`, m.ID) }

// behave is a legacy server that does as it is told for some methods, until its input ends.
func behave(as map[string]func(mcp.Message)) {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, bad := mcp.Parse(line)
		if bad != nil {
			fmt.Fprintln(os.Stderr, bad.Message)
			continue
		}
		switch f := as[m.Method]; {
		case f != nil:
			f(m)
		case m.Method == "initialize":
			sayHello(m)
		case m.Method == "server/discover":
			sayNo(m)
		case m.IsRequest():
			sayYes(m)
		}
	}
}

func tell(to io.Writer, format string, args ...any) { fmt.Fprintf(to, format, args...) }

// stubborn holds the lifeline and ends for nothing but force.
func stubborn() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	c, err := net.Dial("tcp", os.Getenv(lineVar))
	if err != nil {
		panic(err)
	}
	c.Read(make([]byte, 1))
}

func startChild(kind string) {
	child := exec.Command(os.Args[0]) // real: a server leaves it behind
	child.Env = append(os.Environ(), fakeVar+"="+kind)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		panic(err)
	}
}

type does = map[string]func(mcp.Message)

var fakes map[string]func()

func init() {
	fakes = map[string]func(){
		"sdk": func() {
			runSDK(&sdk.IOTransport{Reader: renaming(os.Stdin, `"initialize"`, `"none"`), Writer: os.Stdout})
		},
		"sdk-legacy": func() {
			runSDK(&sdk.IOTransport{Reader: renaming(os.Stdin, `"server/discover"`, `"none"`,
				"io.modelcontextprotocol/protocolVersion", "x/y"), Writer: os.Stdout})
		},
		"plain": func() { behave(nil) },
		"junk": func() {
			fmt.Print("\xef\xbb\xbfWelcome!\n\n\r\n[1,2]\n\"text\"\n{\"not\":\"a message\"}\n")
			behave(does{"tools/call": func(m mcp.Message) { fmt.Print("\xef\xbb\xbf  "); sayYes(m) }})
		},
		"dies at once": func() {
			for i := range 200 {
				tell(os.Stderr, "complaint %d\n", i)
			}
			os.Exit(3)
		},
		"dies of discover": func() {
			behave(does{"server/discover": func(mcp.Message) { os.Exit(1) }})
		},
		"says no to discover and dies": func() {
			behave(does{"server/discover": func(m mcp.Message) { sayNo(m); os.Exit(1) }})
		},
		"silent on discover": func() {
			behave(does{"server/discover": func(mcp.Message) {}})
		},
		"answers discover late": func() {
			var discover mcp.Message
			behave(does{"server/discover": func(m mcp.Message) { discover = m },
				"initialize": func(m mcp.Message) {
					sayHello(m)
					say(`{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`, discover.ID)
				}})
		},
		"modern and slow": func() {
			time.Sleep(discoverTimeout + 300*time.Millisecond) // real: a server that is slow, on a slow machine too
			behave(does{"server/discover": sayModern, "initialize": sayNo})
		},
		// A server of both eras that is slow to start is spoken to in the legacy way; this one, and those below, are
		// modern on a slow machine too.
		"modern": func() {
			behave(does{"server/discover": sayModern, "initialize": sayNo, "subscriptions/listen": listenFake})
		},
		"of the future": func() {
			behave(does{"initialize": func(m mcp.Message) {
				say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2099-01-01","capabilities":{}}}`, m.ID)
			}})
		},
		"discovers another version": func() {
			behave(does{"server/discover": func(m mcp.Message) {
				say(`{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2027-01-01"],"capabilities":{}}}`, m.ID)
			}})
		},
		"silent": func() { io.Copy(io.Discard, os.Stdin) },
		"dies in a call": func() {
			behave(does{"tools/call": func(mcp.Message) { os.Exit(7) }})
		},
		"closes its output in a call": func() {
			behave(does{"tools/call": func(mcp.Message) { os.Stdout.Close() }})
		},
		"huge": func() {
			behave(does{"tools/call": func(m mcp.Message) {
				say(`{"jsonrpc":"2.0","id":%s,"result":{"x":"%s"}}`, m.ID, strings.Repeat("x", maxMessage))
			}})
		},
		"large": func() {
			behave(does{"tools/call": func(m mcp.Message) {
				say(`{"jsonrpc":"2.0","id":%s,"result":{"x":"%s"}}`, m.ID, strings.Repeat("x", maxMessage-100))
			}})
		},
		"answers twice": func() {
			behave(does{"tools/call": func(m mcp.Message) {
				say(`{"jsonrpc":"2.0","id":99999,"result":{}}`)
				say(`{"jsonrpc":"2.0","id":"x%s","result":{}}`, m.ID)
				sayYes(m)
				say(`{"jsonrpc":"2.0","id":%s,"result":{"second":true}}`, m.ID)
			}})
		},
		"breaks off": func() {
			behave(does{"tools/call": func(m mcp.Message) {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{`, m.ID)
				os.Exit(0)
			}})
		},
		"forgets the last line break": func() {
			behave(does{"tools/call": func(m mcp.Message) {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"n":%[1]s}}`, m.ID)
				os.Exit(0)
			}})
		},
		"answers what is no JSON": func() {
			behave(does{"tools/call": func(m mcp.Message) { say(`{"jsonrpc":"2.0","id":%s,"result":{"x":NaN}}`, m.ID) }})
		},
		"asks":            func() { askFake(sayNo, sayHello) },
		"modern and asks": func() { askFake(sayModern, sayNo) },
		"chatters": func() {
			behave(does{"tools/call": func(m mcp.Message) {
				say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}`)
				for i := range 3 {
					say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, m.ID, i)
				}
				sayYes(m)
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":9}}`, m.ID)
				say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			}})
		},
		"tells of cancelled": func() {
			behave(does{"tools/call": func(m mcp.Message) {
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, m.ID)
			}, "notifications/cancelled": func(m mcp.Message) {
				o, _ := mcp.ReadObject(m.Params)
				say(`{"jsonrpc":"2.0","id":%s,"result":{"late":true}}`, o.Get("requestId"))
				say(`{"jsonrpc":"2.0","method":"notifications/told","params":%s}`, m.Params)
			}})
		},
		"stops in the middle": func() {
			behave(does{"tools/call": func(m mcp.Message) {
				sayYes(m)
				os.Stdin.Read(make([]byte, 100))
				os.Stdin.Close()
				select {}
			}})
		},
		"closes its input": func() {
			behave(does{"tools/call": func(m mcp.Message) {
				os.Stdin.Close()
				sayYes(m)
				time.Sleep(time.Minute) // real: until it is ended
			}})
		},
		"stops reading": func() {
			behave(does{"tools/call": func(m mcp.Message) { sayYes(m); time.Sleep(time.Minute) }}) // real: until it is ended
		},
		"stubborn": func() {
			startChild("grandchild")
			go behave(nil)
			stubborn()
		},
		"grandchild": stubborn,
		"polite": func() {
			told := make(chan os.Signal, 1)
			signal.Notify(told, syscall.SIGTERM)
			c, err := net.Dial("tcp", os.Getenv(lineVar))
			if err != nil {
				panic(err)
			}
			<-told
			tell(c, "bye")
		},
		"leaves a polite child": func() {
			startChild("polite")
			behave(nil)
		},
		"leaves a child": func() {
			startChild("grandchild")
			behave(does{"tools/call": func(_ mcp.Message) { os.Exit(0) }})
		},
		"parent": func() {
			cfg := fake("lonely")
			if _, err := Dial(context.Background(), cfg, Peer{}); err != nil {
				panic(err)
			}
			say("ready")
			time.Sleep(time.Minute) // real: until it is killed
		},
		"lonely": func() { go behave(nil); stubborn() },
	}
}

func sayModern(m mcp.Message) {
	say(`{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"}}}}`, m.ID)
}

func listenFake(m mcp.Message) {
	about := func(method, id string) {
		say(`{"jsonrpc":"2.0","method":%q,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, method, id)
	}
	about("notifications/subscriptions/acknowledged", string(m.ID))
	about("notifications/tools/list_changed", string(m.ID))
	about("notifications/tools/list_changed", "4711")
	about("notifications/prompts/list_changed", string(m.ID))
}

// askFake asks as many questions as it is called to, and answers the call with the answers.
func askFake(modern, legacy func(mcp.Message)) {
	var calling jsontext.Value
	var got []string
	behave(does{
		"server/discover": modern,
		"initialize":      legacy,
		"tools/call": func(m mcp.Message) {
			calling = m.ID
			say(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
			say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"sure?"}}`)
		},
		"": func(m mcp.Message) {
			if got = append(got, string(m.Bytes())); len(got) == 2 {
				say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, calling, mcp.Marshal(got))
			}
		},
		"hang": func(mcp.Message) {},
		"take back": func(m mcp.Message) {
			say(`{"jsonrpc":"2.0","id":"b","method":"elicitation/create","params":{}}`)
			say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`)
			sayYes(m)
		},
	})
}
