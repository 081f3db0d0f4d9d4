package store

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"countersign/approval"
)

// crashing makes this process the child of [TestKilled] if it was started as that: it stores requests,
// says which ones it was told are stored, and is gone at the named point.
func crashing() bool {
	path := os.Getenv("COUNTERSIGN_CRASH_STORE")
	if path == "" {
		return false
	}
	point := os.Getenv("COUNTERSIGN_CRASH_POINT")
	var passed atomic.Int32
	d, err := Open(context.Background(), Options{Path: path, Failpoint: func(name string) {
		if name == point && passed.Add(1) == 8 {
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
				err := d.Update(context.Background(), func(tx approval.Tx) (err error) {
					id, err = create(tx, "bot", fmt.Sprintf("%s-%d-%d", point, i, k))
					return err
				})
				if err != nil {
					fmt.Println("update:", err)
					return
				}
				fmt.Println("stored", id)
			}
		})
	}
	wg.Wait()
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
	told := map[string]bool{}
	for _, point := range []string{"before-begin", "before-commit", "after-commit"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "COUNTERSIGN_CRASH_STORE="+path, "COUNTERSIGN_CRASH_POINT="+point)
		out, err := cmd.Output()
		if err == nil {
			t.Fatalf("%s: the child was not killed: %s", point, out)
		}
		before := len(told)
		for line := range strings.Lines(string(out)) {
			var id string
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
		t.Logf("%s: %d answered, %d stored", point, len(told), len(stored))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
