package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"countersign/approval"
)

func TestDevFrames(t *testing.T) {
	p := filepath.Join(t.TempDir(), "x.db")
	d, err := Open(context.Background(), Options{Path: p})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.writer.c.exec("PRAGMA wal_autocheckpoint=0")
	last := int64(0)
	for i := range 1000 {
		err := d.Update(context.Background(), func(tx approval.Tx) error {
			for range 64 {
				if err := benchCreate(tx, benchRequest()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if fi, _ := os.Stat(p + "-wal"); i%100 == 99 || i == 0 {
			t.Logf("%d: frames %d per commit %.1f", i, fi.Size()/4120, float64(fi.Size()-last)/4120/100)
			last = fi.Size()
		}
	}
}

func BenchmarkDevOnly(b *testing.B) { race(b, creator(openBench(b, ""), benchClients)) }
