//go:build interop && postgres

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"countersign/client"
	"countersign/internal/store/postgres/postgrestest"
	"countersign/internal/testkit"
)

// replicated is deploy/compose.replicas.yaml without containers: two programs on one database, behind HAProxy with the
// configuration that is delivered.
type replicated struct {
	t        *testing.T
	dir      string
	env      []string
	at       [2]string // of the programs
	balancer string    // where HAProxy listens
	log      *output   // of HAProxy
	bot      *client.Client
	hana     *client.Client
}

// startServer starts a database server that ends with the test.
func startServer(t *testing.T) *postgrestest.Server {
	t.Helper()
	server, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// Several programs on one database, over a slow network, have on record what was counted.
func TestBenchMeasuresPrograms(t *testing.T) {
	at := startServer(t).Database(t, "")
	postgrestest.SetClock(t, at, 0) // LINE's presses are of the tests' day
	measure(t, "-store", at, "-gates", "2", "-agents", "3", "-delay", "1ms")
}

func replicate(t *testing.T) *replicated {
	t.Helper()
	server := startServer(t)
	r := &replicated{t: t, dir: t.TempDir(), at: [2]string{port(t), port(t)}, balancer: port(t)}
	r.env = environ(t, "DATABASE="+server.Database(t, ""), "FLEET_SECRET=0123456789abcdef0123456789abcdef")
	write(t, filepath.Join(r.dir, "countersign.yaml"), people+`listen: ${LISTEN}
trusted_proxies: [127.0.0.1]
store: ${DATABASE}
replicas: {secret: "${FLEET_SECRET}", address: "http://${LISTEN}"}
policy: {rules: [{tools: ["*"], risk: high, message: Really?}]}
`)
	delivered, err := os.ReadFile("../../deploy/haproxy/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	const containers = " resolvers docker init-addr last,libc,none"
	here := strings.NewReplacer(" bind :8787", " bind "+r.balancer, " gate-a:8787", " "+r.at[0],
		" gate-b:8787", " "+r.at[1], containers, "")
	if n := strings.Count(string(delivered), ":8787") + strings.Count(string(delivered), containers); n != 4 {
		t.Fatalf("deploy/haproxy/haproxy.cfg has %d of the 4 places that containers need", n)
	}
	cfg := filepath.Join(r.dir, "haproxy.cfg")
	write(t, cfg, here.Replace(string(delivered)))
	if out, err := exec.CommandContext(t.Context(), haproxy(t), "-c", "-f", cfg).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, r.log = start(t, r.dir, r.env, haproxy(t), "-f", cfg)
	return r
}

func haproxy(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("haproxy")
	if err != nil {
		path = "/usr/sbin/haproxy" // which is not in every user's PATH
	}
	return path
}

// program starts one of the two.
func (r *replicated) program(i int) *exec.Cmd {
	r.t.Helper()
	out := &output{}
	cmd := testkit.Command(r.t, program, "serve", "--config", filepath.Join(r.dir, "countersign.yaml"))
	cmd.Env, cmd.Stdout, cmd.Stderr = append(r.env, "LISTEN="+r.at[i]), out, out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if r.t.Failed() {
			r.t.Logf("program %d wrote:\n%s", i, out)
		}
	})
	return cmd
}

// isReady reports whether a program says that it can be sent callers.
func isReady(at string) bool {
	var said struct {
		Status string `json:"status"`
	}
	c := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get("http://" + at + "/readyz")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(&said) == nil && said.Status == "ready"
}

// pay has a call asked for, approved and let through, all by way of HAProxy.
func (r *replicated) pay(ctx context.Context, n int64) error {
	call := client.Call{Tool: "pay", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
	a, err := r.bot.Call(ctx, call)
	if err != nil {
		return err
	}
	if _, err := r.hana.Decide(ctx, a.ApprovalID, client.Approve, ""); err != nil {
		return err
	}
	a, err = r.bot.Call(ctx, call)
	if err == nil && !a.MayRun() {
		err = fmt.Errorf("%s after it was approved", a.Kind)
	}
	return err
}

// While programs are replaced one after another, as for an upgrade, no caller notices. Where one is killed, callers go
// on with the other.
func TestReplicasBehindHAProxy(t *testing.T) {
	t.Parallel()
	r := replicate(t)
	programs := [2]*exec.Cmd{r.program(0), r.program(1)}
	ready := func(at string) {
		t.Helper()
		testkit.Eventually(t, at+" is ready", func() bool { return isReady(at) })
	}
	ready(r.at[0])
	ready(r.at[1])
	ready(r.balancer)
	for token, c := range map[string]**client.Client{agentToken: &r.bot, personToken: &r.hana} {
		var err error
		if *c, err = client.New("http://"+r.balancer, token); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*c).Close)
	}

	patient := client.Call{Tool: "pay", Args: json.RawMessage(`{"n":"waits"}`)}
	first, err := r.bot.Call(t.Context(), patient)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan client.Answer, 1)
	go func() {
		for err, tries := io.EOF, 0; err != nil && tries < 10; tries++ { // where it waits is stopped, and killed
			var a client.Answer
			if a, err = r.bot.Await(t.Context(), patient, first, patience); err == nil {
				waiting <- a
			}
		}
	}()

	var next atomic.Int64
	enough := make(chan struct{})
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for {
				if err := r.pay(t.Context(), next.Add(1)); err != nil {
					t.Errorf("while programs are replaced: %v", err)
					return
				}
				select {
				case <-enough:
					return
				default:
				}
			}
		})
	}
	for i, p := range programs {
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil { // real: it ends by itself
			t.Errorf("program %d ended with %v", i, err)
		}
		programs[i] = r.program(i)
		ready(r.at[i])
		up := "Server gates/gate-" + string("ab"[i]) + " is UP,"
		testkit.Eventually(t, "HAProxy has it again", func() bool { return strings.Contains(r.log.String(), up) })
		seen := next.Load()
		testkit.Eventually(t, "calls go on", func() bool { return next.Load() > seen+6 || t.Failed() })
	}
	close(enough)
	testkit.Wait(t, "the callers", callers.Wait)

	if err := programs[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a call is let through by the other", func() bool {
		return r.pay(t.Context(), next.Add(1)) == nil
	})
	if _, err := r.hana.Decide(t.Context(), first.ApprovalID, client.Approve, ""); err != nil {
		t.Fatal(err)
	}
	if a := testkit.Receive(t, "the answer to who waits", waiting); !a.MayRun() {
		t.Errorf("who has waited all the time is told %s", a.Kind)
	}
}
