package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/testkit"
)

// crashing makes this process the child of [TestKilled] if it was started as that: it stores requests,
// uses an approval of each, says what it was told is stored, and is gone at the named point.
func crashing() bool {
	path := os.Getenv("COUNTERSIGN_CRASH_STORE")
	if path == "" {
		return false
	}
	point := os.Getenv("COUNTERSIGN_CRASH_POINT")
	var passed atomic.Int32
	d, err := Open(context.Background(), Options{Path: path, Failpoint: func(name string) {
		if name == point && passed.Add(1) == 16 {
			kill()
		}
	}})
	if err != nil {
		fmt.Println("open:", err)
		return true
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for k := range 1000 {
				var id string
				err := d.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) (err error) {
					id, err = create(tx, "bot", fmt.Sprintf("%s-%d-%d", point, i, k))
					return err
				})
				if err != nil {
					fmt.Println("update:", err)
					return
				}
				fmt.Println("stored", id)
				for _, step := range []func(tx approval.Tx) (bool, error){
					func(tx approval.Tx) (bool, error) {
						return tx.Resolve(approval.Resolution{ID: id, Status: approval.Approved, At: tx.Now(), By: "hana",
							Via: approval.Via("line"), UseBy: tx.Now().Add(time.Hour)})
					},
					func(tx approval.Tx) (bool, error) { return tx.Consume(id, true, "") },
				} {
					err := d.Update(context.Background(), approval.WholeStore(), func(tx approval.Tx) error {
						ok, err := step(tx)
						if err == nil && !ok {
							err = errors.New("nothing changed")
						}
						return err
					})
					if err != nil {
						fmt.Println("update:", err)
						return
					}
				}
				fmt.Println("sent", id)
			}
		})
	}
	wg.Wait() // real: until it is killed
	return true
}

// kill ends this process as kill -9 does: nothing of it runs any more.
func kill() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// Whatever the process was at when it was killed: what was answered is there, and nothing is there by half.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db") // one crash after the other on the same file
	told, sent := map[string]bool{}, map[string]bool{}
	for _, point := range []string{"before-begin", "before-commit", "after-commit"} {
		cmd := testkit.Command(t, os.Args[0])
		cmd.Env = append(os.Environ(), "COUNTERSIGN_CRASH_STORE="+path, "COUNTERSIGN_CRASH_POINT="+point)
		out, err := cmd.Output()
		if err == nil {
			t.Fatalf("%s: the child was not killed: %s", point, out)
		}
		before := len(told)
		for line := range strings.Lines(string(out)) {
			var id string
			if n, _ := fmt.Sscanf(line, "sent %s", &id); n == 1 {
				sent[id] = true
				continue
			}
			if n, _ := fmt.Sscanf(line, "stored %s", &id); n != 1 {
				if strings.HasSuffix(line, "\n") {
					t.Errorf("%s: the child says %q", point, line)
				}
				continue
			}
			told[id] = true
		}
		if len(told) == before {
			t.Errorf("%s: the child was told nothing is stored", point)
		}
		d := open(t, Options{Path: path})
		stored := checkWhole(t, d)
		for id := range told {
			if !stored[id] {
				t.Errorf("%s: request %s was answered and is lost", point, id)
			}
		}
		checkSent(t, d, sent)
		update(t, d, func(tx approval.Tx) error {
			for id := range stored {
				if next := tx.NewID(); next <= id {
					t.Errorf("%s: id %s after %s", point, next, id)
				}
			}
			id, err := create(tx, "bot", "after "+point)
			told[id] = true
			return err
		})
		t.Logf("%s: %d answered, %d stored, %d sent", point, len(told), len(stored), len(sent))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkSent checks that every use is on record as sent on, among them all that the child was told of, and
// that each is found as one of which nobody said what came of it.
func checkSent(t *testing.T, d *DB, sent map[string]bool) {
	t.Helper()
	view(t, d, func(tx approval.Tx) error {
		rs, err := tx.UnderWay("", 0)
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for _, r := range rs {
			found[r.ID] = true
		}
		for id := range sent {
			if !found[id] {
				t.Errorf("call %s was sent on and is lost", id)
			}
		}
		all, err := tx.Requests(approval.RequestQuery{Status: approval.Approved})
		for _, r := range all {
			if !r.ConsumedAt.IsZero() != found[r.ID] || !r.DispatchedAt.Equal(r.ConsumedAt) {
				t.Errorf("stored by half: %+v", r)
			}
		}
		return err
	})
	if len(sent) == 0 {
		t.Error("the child sent nothing on")
	}
}
