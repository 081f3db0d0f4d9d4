package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
)

// The benchmarks take a yardstick and our own figure in turns, a round of each, so that the ratio of
// their sums says something even where the machine's speed swings. A run is one op; ns/op says nothing.
var (
	benchRound  = flag.Duration("round", time.Second, "benchmarks: how long a round takes")
	benchRounds = flag.Int("rounds", 3, "benchmarks: how many rounds each figure gets")
	benchRows   = flag.Int("rows", 0,
		"benchmarks: how many ended requests BenchmarkFilled and BenchmarkFeed begin with; 0 leaves the first out")
)

const benchClients = 64

// contender is what takes part in a benchmark: f does one operation for client w and is called by
// clients goroutines at once.
type contender struct {
	name    string
	clients int
	f       func(w int) error
	n       int
	took    time.Duration
	cpu     time.Duration
	lat     []time.Duration
}

func (c *contender) rate() float64 { return float64(c.n) / c.took.Seconds() }

func (c *contender) at(p float64) float64 {
	slices.Sort(c.lat)
	if len(c.lat) == 0 {
		return 0
	}
	return float64(c.lat[min(len(c.lat)-1, int(p*float64(len(c.lat))))].Microseconds())
}

func (c *contender) round(b *testing.B, d time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	t0, cpu0 := time.Now(), cpuTime()
	for w := range c.clients {
		wg.Go(func() {
			var lat []time.Duration
			for last := t0; last.Sub(t0) < d; {
				if err := c.f(w); err != nil {
					b.Errorf("%s: %v", c.name, err)
					return
				}
				now := time.Now()
				lat = append(lat, now.Sub(last))
				last = now
			}
			mu.Lock()
			c.lat = append(c.lat, lat...)
			mu.Unlock()
		})
	}
	wg.Wait() // real: a round of a benchmark
	c.took += time.Since(t0)
	c.cpu += cpuTime() - cpu0
	c.n = len(c.lat)
}

// race lets the contenders run in turns; the first is ours.
func race(b *testing.B, cs ...*contender) {
	for range b.N {
		for range *benchRounds {
			for _, c := range cs {
				c.round(b, *benchRound)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(cs[0].rate(), "ops/s")
	b.ReportMetric(cs[0].at(.5), "p50-µs")
	b.ReportMetric(cs[0].at(.99), "p99-µs")
	b.ReportMetric(float64(cs[0].cpu.Nanoseconds())/float64(1000*max(cs[0].n, 1)), "cpu-µs/op")
	for _, c := range cs[1:] {
		b.ReportMetric(c.rate(), c.name+"/s")
		b.ReportMetric(cs[0].rate()/c.rate(), "of-"+c.name)
	}
}

// rawLog is the ceiling of any durable store: what 64 clients want written, 1.5 KB each, goes to the disk
// in batches of at most 128 with one write and one fdatasync.
func rawLog(b *testing.B) *contender {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	type entry chan error
	queue := make(chan entry, 1024)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		one, big := make([]byte, 1500), make([]byte, 0, 1500*128)
		batch := make([]entry, 0, 128)
		for e := range queue {
			batch = append(batch[:0], e)
		fill:
			for len(batch) < 128 {
				select {
				case e, ok := <-queue:
					if !ok {
						break fill
					}
					batch = append(batch, e)
				default:
					break fill
				}
			}
			big = big[:0]
			for range batch {
				big = append(big, one...)
			}
			_, err := f.Write(big)
			if err == nil {
				err = fdatasync(f)
			}
			for _, e := range batch {
				e <- err
			}
		}
	}()
	b.Cleanup(func() {
		close(queue)
		testkit.Receive(b, "the end of the writer", stopped)
		f.Close()
	})
	pool := sync.Pool{New: func() any { return make(entry, 1) }}
	return &contender{name: "raw-group-log", clients: benchClients, f: func(int) error {
		e := pool.Get().(entry)
		queue <- e
		err := <-e
		pool.Put(e)
		return err
	}}
}

// rawSync appends 4 KiB and syncs, one after another.
func rawSync(b *testing.B) *contender {
	f, err := os.Create(filepath.Join(b.TempDir(), "sync"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	buf := make([]byte, 4096)
	return &contender{name: "raw-fdatasync", clients: 1, f: func(int) error {
		if _, err := f.Write(buf); err != nil {
			return err
		}
		return fdatasync(f)
	}}
}

var filler = strings.Repeat("lorem ipsum dolor sit amet consectetur ", 20)

var benchTools = []string{"merge_pull_request", "stripe.refund", "k8s.apply", "shell.exec", "mail.send", "db.execute",
	"s3.delete", "iam.grant"}

// benchRequest is a request of about 600 bytes of args that is like no other.
func benchRequest() approval.Request {
	var h [32]byte
	for i := 0; i < len(h); i += 8 {
		v := rand.Uint64()
		for k := range 8 {
			h[i+k] = byte(v >> (8 * k))
		}
	}
	hash := hex.EncodeToString(h[:])
	return approval.Request{
		Agent: "agent-17", Tool: benchTools[int(h[0])%len(benchTools)], Args: []byte(`{"body":"` + filler[:540] +
			`","path":"/srv/app/` + hash[:16] + `"}`),
		ArgsHash: hash, Risk: approval.RiskHigh, Rule: "r42", ReasonCode: "approval_required",
		HumanMessage: "The payment is above the limit.",
		TurnID:       "turn-" + hash[:8], Status: approval.Pending,
	}
}

const benchEventData = `{"args_hash":"f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b","rule":"r42","expires_at":"2026-11-21T14:07:49.907Z"}`

func benchCreate(tx approval.Tx, r *approval.Request) error {
	now := tx.Now()
	r.ID, r.RequestedAt, r.ExpiresAt = tx.NewID(), now, now.Add(time.Hour)
	if err := tx.InsertRequest(*r); err != nil {
		return err
	}
	err := tx.InsertNotification(approval.Notification{
		ID: tx.NewID(), ApprovalID: r.ID, Channel: "slack", Recipient: "C0APPROVALS", Kind: approval.KindRequest,
		Status:        approval.Queued,
		NextAttemptAt: now, CreatedAt: now, UpdatedAt: now, RetryKey: "123e4567-e89b-12d3-a456-426614174000",
	})
	if err != nil {
		return err
	}
	_, err = tx.Append(approval.Event{
		Type: approval.EventApprovalRequested, CorrelationID: "0123456789abcdef", Actor: "agent:agent-17", ApprovalID: r.ID,
		Agent: r.Agent, Tool: r.Tool,
		Risk: r.Risk, Reason: r.ReasonCode, Data: []byte(benchEventData),
	})
	return err
}

func openBench(b *testing.B, path string) *DB {
	if path == "" {
		path = filepath.Join(b.TempDir(), "bench.db")
	}
	d, err := Open(b.Context(), Options{Path: path, OnCommit: func(approval.Commit) {}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	return d
}

// creator is the store's transaction of a new request: the request, its notification, its audit event.
func creator(d *DB, clients int) *contender {
	return &contender{name: "create", clients: clients, f: func(int) error {
		r := benchRequest()
		return d.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) error {
			return benchCreate(tx, &r)
		})
	}}
}

// plainPool makes the same three rows the way database/sql suggests: a pool with a
// connection for each caller, BEGIN IMMEDIATE and a busy time-out.
func plainPool(b *testing.B) *contender {
	path := filepath.Join(b.TempDir(), "pool.db")
	if err := openBench(b, path).Close(); err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+
		"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(benchClients)
	db.SetMaxIdleConns(benchClients)
	var seq atomic.Int64
	return &contender{name: "plain-pool", clients: benchClients, f: func(int) error {
		r := benchRequest()
		now, later := time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
			time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")
		n := seq.Add(1)
		id := fmt.Sprintf("%026d", 3*n)
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		err1 := insertPlainly(tx, "approval_requests", [][2]any{
			{"id", id}, {"agent", r.Agent}, {"scope", ""}, {"server", ""}, {"tool_name", r.Tool}, {"args_hash", r.ArgsHash},
			{"status", "pending"}, {"risk_level", "high"}, {"requested_at", now}, {"expires_at", later}, {"turn_id", r.TurnID},
			{"rule", r.Rule}, {"policy_reason", r.ReasonCode}, {"human_message", r.HumanMessage}, {"tool_args", string(r.Args)},
			{"require_reason", 0}})
		err2 := insertPlainly(tx, "approval_notifications", [][2]any{
			{"id", fmt.Sprintf("%026d", 3*n+1)}, {"approval_id", id}, {"channel", "slack"}, {"recipient", "C0APPROVALS"},
			{"kind", "request"},
			{"created_at", now}, {"status", "queued"}, {"attempt", 0}, {"next_attempt_at", now}, {"updated_at", now},
			{"retry_key", "123e4567-e89b-12d3-a456-426614174000"}})
		err3 := insertPlainly(tx, "audit_events", [][2]any{
			{"seq", n}, {"id", fmt.Sprintf("%026d", 3*n+2)}, {"at", now}, {"event_type", "approval_requested"},
			{"correlation_id", "0123456789abcdef"}, {"actor", "agent:agent-17"}, {"approval_id", id}, {"agent", r.Agent},
			{"tool", r.Tool}, {"risk_level", "high"}, {"reason", r.ReasonCode}, {"data", benchEventData}})
		return errors.Join(err1, err2, err3, tx.Commit())
	}}
}

// insertPlainly inserts a row by the names of its columns.
func insertPlainly(tx *sql.Tx, table string, row [][2]any) error {
	var names, marks []string
	var values []any
	for _, c := range row {
		names, marks, values = append(names, c[0].(string)), append(marks, "?"), append(values, c[1])
	}
	_, err := tx.Exec("INSERT INTO "+table+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(marks, ", ")+")",
		values...)
	return err
}

// BenchmarkCreate is target T3.
func BenchmarkCreate(b *testing.B) {
	race(b, creator(openBench(b, ""), benchClients), rawLog(b), plainPool(b))
}

// BenchmarkCreateAlone is the store's share of target T2: one caller, one disk.
func BenchmarkCreateAlone(b *testing.B) {
	race(b, creator(openBench(b, ""), 1), rawSync(b))
}

// BenchmarkAllowed is target T5: an allowed call leaves one audit event.
func BenchmarkAllowed(b *testing.B) {
	d := openBench(b, "")
	data := []byte(`{"args":"` + strings.ReplaceAll(filler[:120], `"`, "") +
		`","args_hash":"f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b","rule":"reading","reason_code":""}`)
	e := approval.Event{
		Type: approval.EventCallAllowed, CorrelationID: "0123456789abcdef", Actor: "agent:agent-17", Agent: "agent-17",
		Tool: "read_file",
		Risk: approval.RiskLow, Decision: "allow", Data: data,
	}
	race(b, &contender{name: "allowed", clients: benchClients, f: func(int) error {
		if d.RecordAllowed(approval.AllowedCall{}, e) {
			return nil
		}
		return d.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) error {
			return second(tx.Append(e))
		})
	}}, rawLog(b))
}

// fill makes n requests as insert does, a thousand in a transaction, and returns their ids.
func fill(b *testing.B, d *DB, n int, insert func(tx approval.Tx, r *approval.Request) error) []string {
	ids := make([]string, 0, n)
	for len(ids) < n {
		have := len(ids)
		err := d.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) error {
			ids = ids[:have]
			for range min(1000, n-have) {
				r := benchRequest()
				if err := insert(tx, &r); err != nil {
					return err
				}
				ids = append(ids, r.ID)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return ids
}

// endedRequest makes a request that is over and acknowledged, as most of a large store are.
func endedRequest(tx approval.Tx, r *approval.Request) error {
	if err := benchCreate(tx, r); err != nil {
		return err
	}
	if _, err := tx.Resolve(approval.Resolution{ID: r.ID, Status: approval.Denied, At: tx.Now(), By: "hana",
		Via: approval.Via("line")}); err != nil {
		return err
	}
	_, err := tx.Ack(r.Agent, r.ID)
	return err
}

// BenchmarkFilled is target T4: what the rows of years cost. Run it with -rows 1000000.
func BenchmarkFilled(b *testing.B) {
	if *benchRows == 0 {
		b.Skip("-rows says how many")
	}
	full := openBench(b, "")
	fill(b, full, *benchRows, endedRequest)
	empty := creator(openBench(b, ""), benchClients)
	empty.name = "empty-file"
	race(b, creator(full, benchClients), empty)
	if err := full.Close(); err != nil {
		b.Fatal(err)
	}
	t0 := time.Now()
	again := openBench(b, full.path)
	b.ReportMetric(float64(time.Since(t0).Microseconds())/1000, "open-ms")
	if info, err := os.Stat(again.path); err == nil {
		b.ReportMetric(float64(info.Size())/(1<<20), "file-MiB")
	}
}

// BenchmarkLife is what the store does all day: each client has its request made, approved and used, in
// three transactions, so that few requests are live at a time. An op is one transaction.
func BenchmarkLife(b *testing.B) {
	d := openBench(b, "")
	var at [benchClients]struct {
		id   string
		step int
	}
	race(b, &contender{name: "life", clients: benchClients, f: func(w int) error {
		c := &at[w]
		var r approval.Request
		if c.step == 0 {
			r = benchRequest()
		}
		err := d.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) error {
			e := approval.Event{CorrelationID: "0123456789abcdef", ApprovalID: c.id, Agent: "agent-17", Tool: "stripe.refund",
				Risk: approval.RiskHigh}
			var ok bool
			var err error
			switch c.step {
			case 0:
				return benchCreate(tx, &r)
			case 1:
				e.Type, e.Actor, e.Decision = approval.EventDecision, "hana", "approve"
				ok, err = tx.Resolve(approval.Resolution{ID: c.id, Status: approval.Approved, At: tx.Now(), By: "hana",
					Via: approval.Via("line"), UseBy: tx.Now().Add(time.Minute)})
			case 2:
				e.Type, e.Actor = approval.EventApprovalConsumed, "agent:agent-17"
				ok, err = tx.Consume(c.id, false, "")
			}
			if err != nil || !ok {
				return fmt.Errorf("step %d changed a row: %v, %w", c.step, ok, err)
			}
			_, err = tx.Append(e)
			return err
		})
		if c.step == 0 {
			c.id = r.ID
		}
		c.step = (c.step + 1) % 3
		return err
	}}, rawLog(b))
}

// BenchmarkFeed is the store's share of target T9: the feed's poll while the writer is flat out.
func BenchmarkFeed(b *testing.B) {
	d := openBench(b, "")
	fill(b, d, *benchRows, endedRequest)
	fill(b, d, 20, func(tx approval.Tx, r *approval.Request) error {
		r.Agent = "agent-1"
		if err := benchCreate(tx, r); err != nil {
			return err
		}
		_, err := tx.Resolve(approval.Resolution{ID: r.ID, Status: approval.Denied, At: tx.Now(), By: "hana",
			Via: approval.Via("line")})
		return err
	})
	poll := &contender{name: "feed", clients: 4, f: func(int) error {
		return d.View(context.Background(), func(tx approval.Tx) error {
			rs, err := tx.Feed("agent-1", "", 20, 0)
			if len(rs) != 20 {
				return fmt.Errorf("%d in the feed", len(rs))
			}
			return err
		})
	}}
	idle := *poll
	idle.name = "feed-idle"
	busy := creator(d, benchClients)
	for range b.N {
		idle.round(b, *benchRound)
		var wg sync.WaitGroup
		wg.Go(func() { busy.round(b, *benchRound) })
		poll.round(b, *benchRound)
		wg.Wait() // real: a round of a benchmark
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(idle.rate(), "idle-ops/s")
	b.ReportMetric(poll.rate(), "ops/s")
	b.ReportMetric(poll.at(.5), "p50-µs")
	b.ReportMetric(poll.at(.99), "p99-µs")
	b.ReportMetric(busy.rate(), "creates/s")
}

// BenchmarkResolve is target T11: a decision and its audit event, beside the making of a request.
func BenchmarkResolve(b *testing.B) {
	d := openBench(b, "")
	made := fill(b, d, 100_000, func(tx approval.Tx, r *approval.Request) error { return benchCreate(tx, r) })
	rand.Shuffle(len(made), func(i, k int) { made[i], made[k] = made[k], made[i] })
	ids := make(chan string, len(made))
	for _, id := range made {
		ids <- id
	}
	race(b, &contender{name: "resolve", clients: benchClients, f: func(int) error {
		id := <-ids
		return d.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) error {
			now := tx.Now()
			ok, err := tx.Resolve(approval.Resolution{ID: id, Status: approval.Approved, At: now, By: "hana",
				Via: approval.Via("line"), UseBy: now.Add(15 * time.Minute)})
			if err != nil || !ok {
				return fmt.Errorf("resolved %v, %w", ok, err)
			}
			_, err = tx.Append(approval.Event{
				Type: approval.EventDecision, CorrelationID: "0123456789abcdef", Actor: "hana", ApprovalID: id, Agent: "agent-17",
				Tool: "stripe.refund",
				Risk: approval.RiskHigh, Decision: "approve",
				Data: []byte(`{"via":"line","args_hash":"f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"}`),
			})
			return err
		})
	}}, creator(openBench(b, ""), benchClients), rawLog(b))
}
