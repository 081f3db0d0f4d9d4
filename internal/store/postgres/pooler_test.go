//go:build postgres

package postgres

import (
	"strings"
	"sync"
	"testing"

	"countersign/approval"
	"countersign/internal/store/storetest"
)

// inExecMode is what the URL of a database says that is behind a pooler in transaction mode.
const inExecMode = "&default_query_exec_mode=exec"

// Behind a pooler each transaction may have another session. All that holds of a store holds there.
func TestContractBehindAPooler(t *testing.T) {
	pooler := server.StartPooler(t)
	storetest.Run(t, func(t *testing.T) storetest.Store {
		return open(t, Options{URL: pooler.URL(emptied(t)) + inExecMode})
	})
}

func TestFleetBehindAPooler(t *testing.T) {
	pooler := server.StartPooler(t)
	storetest.RunFleet(t, func(t *testing.T) []storetest.Store {
		url := pooler.URL(emptied(t)) + inExecMode
		var stores []storetest.Store
		for range 3 {
			stores = append(stores, open(t, Options{URL: url}))
		}
		return stores
	})
}

// One of the programs that start at once makes the tables. Its lock is gone then, in whichever sessions it was.
func TestProgramsStartBehindAPooler(t *testing.T) {
	at := server.Database(t, "")
	pooled := server.StartPooler(t).URL(at) + inExecMode
	var starting sync.WaitGroup
	for range 8 {
		starting.Go(func() {
			d, err := Open(t.Context(), Options{URL: pooled})
			if err == nil {
				err = d.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait() // real: a start ends with the test's context
	c := connect(t, at)
	defer c.Close(t.Context())
	var locks int
	if err := c.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (
  SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&locks); err != nil || locks > 0 {
		t.Errorf("%d locks are left, %v", locks, err)
	}
}

// An operator is told what a pooler needs.
func TestAPoolerThatWasNotToldOf(t *testing.T) {
	pooled := server.StartPooler(t).URL(database(t))
	for range 2 {
		d, err := Open(t.Context(), Options{URL: pooled})
		if err == nil {
			err = d.Close()
		}
		if approval.CodeOf(err) != approval.CodeStoreUnavailable || !strings.Contains(err.Error(), inExecMode[1:]) {
			t.Errorf("the start says %v", err)
		}
	}
}
