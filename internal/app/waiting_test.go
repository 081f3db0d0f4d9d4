package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/testkit"
)

// bareChild runs the program with nothing set but who is who.
func bareChild(b *testing.B) (pid int, url string) {
	dir := b.TempDir()
	config := filepath.Join(dir, "countersign.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "listen: 127.0.0.1:0\nstore: sqlite:%s\n"+
		"agents: [{name: bot, token: \"${AGENT_TOKEN}\"}]\npeople: [{name: hana, roles: [approver], token: \"${HANA_TOKEN}\"}]\n"+
		"limits: none\n", filepath.Join(dir, "gate.db")), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := testkit.Command(b, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=nowhere", "CONFIG="+config)
	for k, v := range secrets {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	lines.Scan()
	return cmd.Process.Pid, "http://" + lines.Text()
}

// residentKiB is what a process has in memory.
func residentKiB(b *testing.B, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip("there is no /proc on this system")
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkWaiting has 10,000 calls wait for a person, each on a connection of its own, and then approves 500 of them
// one after another: KiB/waiting is by what the program has grown for each, ms-p50 and ms-p99 are from a press to the
// answer of the one who waits for it. Either side has more than 10,000 files open.
func BenchmarkWaiting(b *testing.B) {
	const calls, approved, atOnce = 10_000, 500, 64
	type answer struct {
		at  time.Time
		err error
	}
	for b.Loop() {
		pid, url := bareChild(b)
		var clients []*client.Client
		for _, token := range []string{"AGENT_TOKEN", "HANA_TOKEN"} {
			c, err := client.New(url, secrets[token], client.WithTimeout(2*time.Minute))
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			clients = append(clients, c)
		}
		bot, hana := clients[0], clients[1]
		before := residentKiB(b, pid)
		answers := make([]chan answer, calls)
		begun := make(chan struct{}, atOnce) // they do not come all at once
		for i := range calls {
			answers[i] = make(chan answer, 1)
			begun <- struct{}{}
			time.AfterFunc(20*time.Millisecond, func() { <-begun }) // real: it waits by then
			go func() {
				got, err := bot.CallWait(b.Context(), client.Call{Tool: "pay",
					Args: json.RawMessage(fmt.Sprintf(`{"n":%d,"memo":"quarterly figures"}`, i))}, time.Minute)
				if err == nil && got.Kind != client.AnswerApproved {
					err = fmt.Errorf("answered: %s", got.Kind)
				}
				answers[i] <- answer{time.Now(), err}
			}()
		}
		var pending []client.Approval
		for q := (client.ApprovalQuery{Status: "pending", Limit: 200}); len(pending) < approved; {
			page, err := hana.Approvals(b.Context(), q)
			if err != nil {
				b.Fatal(err)
			}
			pending, q.After = append(pending, page.Items...), page.Next
		}
		b.ReportMetric(float64(residentKiB(b, pid)-before)/calls, "KiB/waiting")
		var took []time.Duration
		for _, r := range pending[:approved] {
			var args struct{ N int }
			if err := json.Unmarshal(r.Args, &args); err != nil {
				b.Fatal(err)
			}
			begin := time.Now()
			if _, err := hana.Decide(b.Context(), r.ID, client.Approve, ""); err != nil {
				b.Fatal(err)
			}
			a := testkit.Receive(b, "the answer", answers[args.N])
			if a.err != nil {
				b.Fatal(a.err)
			}
			took = append(took, a.at.Sub(begin))
		}
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-p50")
		b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "ms-p99")
		b.ReportMetric(0, "ns/op")
	}
}
