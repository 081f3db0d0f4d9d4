package store

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"countersign/approval"
)

func cpu() time.Duration {
	var r unix.Rusage
	unix.Getrusage(unix.RUSAGE_THREAD, &r)
	return time.Duration(r.Utime.Nano())
}

func sys() time.Duration {
	var r unix.Rusage
	unix.Getrusage(unix.RUSAGE_THREAD, &r)
	return time.Duration(r.Stime.Nano())
}

func BenchmarkDev(b *testing.B) {
	for _, v := range []struct {
		name string
		f    func(tx approval.Tx, r approval.Request) error
	}{
		{"create", benchCreate},
		{"audit", func(tx approval.Tx, r approval.Request) error {
			_, err := tx.Append(approval.Event{
				Type: approval.EventCallAllowed, CorrelationID: "0123456789abcdef", Actor: "agent:agent-17", Agent: "agent-17", Tool: "read_file",
				Risk: approval.RiskLow, Decision: "allow", Data: []byte(benchEventData),
			})
			return err
		}},
		{"nothing", func(tx approval.Tx, r approval.Request) error { return nil }},
	} {
		for _, sp := range []bool{true, false} {
			name := v.name
			if !sp {
				name += "-nosp"
			}
			b.Run(name, func(b *testing.B) {
				d := openBench(b, "")
				w := d.writer
				w.stop()
				w.c.exec("PRAGMA synchronous=OFF")
				var rs []approval.Request
				for range 64 {
					rs = append(rs, benchRequest())
				}
				runtime.LockOSThread()
				b.ResetTimer()
				c0, s0 := cpu(), sys()
				i := 0
				for b.Loop() {
					if i%64 == 0 {
						if i > 0 {
							if err := w.commit(); err != nil {
								b.Fatal(err)
							}
						}
						for i := range rs {
							rs[i] = benchRequest()
						}
						w.changes = false
						w.told = approval.Commit{}
						if err := w.begin(); err != nil {
							b.Fatal(err)
						}
					}
					t := &tx{db: d, c: w.c, w: w, at: d.now(), saved: !sp}
					if err := v.f(t, rs[i%64]); err != nil {
						b.Fatal(err)
					}
					if t.saved && sp {
						w.c.stmt(release).exec()
					}
					i++
				}
				b.ReportMetric(float64((cpu()-c0).Nanoseconds())/float64(i)/1000, "user-µs/op")
				b.ReportMetric(float64((sys()-s0).Nanoseconds())/float64(i)/1000, "sys-µs/op")
				w.commit()
				if fi, err := os.Stat(d.path); err == nil {
					b.ReportMetric(float64(fi.Size())/float64(i), "B/op")
				}
				w.stopped = make(chan struct{})
				close(w.stopped)
				w.closed = false
				w.queue = make(chan *job)
			})
		}
	}
}
