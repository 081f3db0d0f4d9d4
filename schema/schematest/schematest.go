package schematest

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // the driver of the file

	"countersign/schema"
)

// NewFile writes the file of a store that is empty and has its tables, and returns its path, in a folder of the test's
// own.
func NewFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate.db")
	WriteFile(t, path)
	return path
}

// WriteFile writes such a file at a path. The tables are made once in a process: making them takes most of the time
// of a short test, and under the race detector a second.
func WriteFile(t testing.TB, path string) {
	t.Helper()
	whole, err := empty()
	if err == nil {
		err = os.WriteFile(path, whole, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var empty = sync.OnceValues(func() (whole []byte, err error) {
	dir, err := os.MkdirTemp("", "schematest")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "empty.db")
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := errors.Join(schema.Migrate(context.Background(), db), db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
