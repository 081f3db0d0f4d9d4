package store

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A statement that changes rows begins by write, and no other does: an engine is asked by it whether the function may
// write at all.
func TestStatementsBeginByWhatTheyDo(t *testing.T) {
	source := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	_, names, _ := strings.Cut(source("queries.go"), "Query = iota\n")
	names, _, _ = strings.Cut(names, "\n)")
	reads := map[string]bool{} // by the name of the query
	for i, name := range append([]string{"insertRequest"}, strings.Fields(names)...) {
		reads[name] = strings.HasPrefix(queries[i], "SELECT ")
	}
	if len(reads) != len(queries) {
		t.Fatalf("%d names for %d queries", len(reads), len(queries))
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	begun := map[string]bool{}
	for _, file := range files {
		for _, m := range regexp.MustCompile(`t\.(read|write)\((\w+)\)`).FindAllStringSubmatch(source(file), -1) {
			begun[m[2]] = true
			if is, ok := reads[m[2]]; ok && is != (m[1] == "read") || !ok && m[1] == "read" {
				t.Errorf("%s: %s of a statement that does the other", file, m[0])
			}
		}
	}
	if len(begun) < len(queries)*9/10 {
		t.Errorf("%d statements were looked at, of %d", len(begun), len(queries))
	}
}
