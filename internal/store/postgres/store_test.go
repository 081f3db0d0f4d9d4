//go:build postgres

package postgres

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign/internal/store/storetest"
)

// empty is the name of a database with empty tables, of which others are made: that takes less time than to make them.
var empty = sync.OnceValues(func() (string, error) {
	name, url, err := server.template()
	if err != nil {
		return "", err
	}
	d, err := Open(context.Background(), Options{URL: url})
	if err != nil {
		return "", err
	}
	return name, d.Close()
})

// database makes a database with empty tables.
func database(t testing.TB) (url string) {
	t.Helper()
	name, err := empty()
	if err != nil {
		t.Fatal(err)
	}
	return server.database(t, name)
}

func open(t testing.TB, o Options) *DB {
	t.Helper()
	if o.URL == "" {
		o.URL = database(t)
	}
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
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

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return open(t, Options{}) })
}

// execute runs a statement in a database.
func execute(t testing.TB, url, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Error(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFleet(t *testing.T) {
	storetest.RunFleet(t, func(t *testing.T) []storetest.Store {
		url := database(t)
		var stores []storetest.Store
		for range 3 {
			stores = append(stores, open(t, Options{URL: url}))
		}
		return stores
	})
}
