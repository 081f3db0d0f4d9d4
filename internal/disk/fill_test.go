package disk

import (
	"bytes"
	"compress/flate"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A file system that compresses keeps all of what is filled.
func TestFill(t *testing.T) {
	const size = 2<<20 + 5
	path := filepath.Join(t.TempDir(), "full")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(f, size); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) != size {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	var small bytes.Buffer
	w, err := flate.NewWriter(&small, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if small.Len() < size {
		t.Errorf("%d bytes can be kept in %d", size, small.Len())
	}
}
