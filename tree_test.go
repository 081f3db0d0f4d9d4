package countersign_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// pkg is one of our packages, as it is built on this machine.
type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
	Module     struct{ Dir string }
}

// source is one of our Go files. It is read and parsed once for all tests.
type source struct {
	path string // from the root, with slashes
	file *ast.File
}

// positions are those of all sources.
var positions = token.NewFileSet()

// dir is the folder of a source, as packages are called.
func (s source) dir() string { return filepath.ToSlash(filepath.Dir(s.path)) }

func (s source) position(n ast.Node) token.Position { return positions.Position(n.Pos()) }

func packages(t *testing.T) []pkg {
	t.Helper()
	ps, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

var listed = sync.OnceValues(func() (ps []pkg, err error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles,Module", "./...").Output() // real: a list
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return ps, nil
		} else if err != nil {
			return nil, err
		}
		if len(p.GoFiles) > 0 {
			p.ImportPath = strings.TrimPrefix(p.ImportPath, "countersign/")
			ps = append(ps, p)
		}
	}
})

// sources are the files outside tests of a package.
func (p pkg) sources(t *testing.T) (all []source) {
	t.Helper()
	for _, f := range p.GoFiles {
		path, err := filepath.Rel(p.Module.Dir, filepath.Join(p.Dir, f))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parse(t, path))
	}
	return all
}

// builtSources are the files outside tests of what is built on this machine.
func builtSources(t *testing.T) (all []source) {
	t.Helper()
	for _, p := range packages(t) {
		all = append(all, p.sources(t)...)
	}
	return enough(t, all)
}

// goFiles are the Go files of the tree whose path is wanted, for whichever machine and of whichever module.
func goFiles(t *testing.T, wanted func(path string) bool) (all []source) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && wanted(path) {
			all = append(all, parse(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return enough(t, all)
}

func isTest(path string) bool    { return strings.HasSuffix(path, "_test.go") }
func isNotTest(path string) bool { return !isTest(path) }

// enough fails where hardly anything was found to look at.
func enough(t *testing.T, all []source) []source {
	t.Helper()
	if len(all) < 100 {
		t.Fatalf("only %d files were found", len(all))
	}
	return all
}

var parsed = map[string]source{} // by path; the tests of this package run one after another

func parse(t *testing.T, path string) source {
	t.Helper()
	if s, ok := parsed[path]; ok {
		return s
	}
	file, err := parser.ParseFile(positions, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	parsed[path] = source{filepath.ToSlash(path), file}
	return parsed[path]
}
