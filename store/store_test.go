package store

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"countersign/approval"
	"countersign/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) approval.Store { return open(t, Options{}) })
}

// open opens a store in a folder of its own unless o names a path, and closes it at the end.
func open(t testing.TB, o Options) *DB {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "store.db")
	}
	d, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
