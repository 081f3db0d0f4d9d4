package sqlite3

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// crashing are calls into the library on pointers that are none.
var crashing = map[string]func(c *Conn, s *Stmt){
	"prepare":        func(c *Conn, _ *Stmt) { c.Prepare("SELECT 1") },
	"exec":           func(c *Conn, _ *Stmt) { _ = c.Exec("SELECT 1") },
	"in transaction": func(c *Conn, _ *Stmt) { c.InTransaction() },
	"interrupt":      func(c *Conn, _ *Stmt) { c.Interrupt() },
	"close":          func(c *Conn, _ *Stmt) { _ = c.Close() },
	"fail":           func(c *Conn, _ *Stmt) { _ = c.fail(1) },
	"step":           func(_ *Conn, s *Stmt) { s.Step() },
	"finish":         func(_ *Conn, s *Stmt) { _, _ = s.Finish() },
	"finalize":       func(_ *Conn, s *Stmt) { s.Finalize() },
	"bind text":      func(_ *Conn, s *Stmt) { s.BindText("a") },
	"bind bytes":     func(_ *Conn, s *Stmt) { s.BindTextBytes([]byte("a")) },
	"bind blob":      func(_ *Conn, s *Stmt) { s.BindBlob([]byte("a")) },
	"bind int":       func(_ *Conn, s *Stmt) { s.BindInt(1) },
	"column":         func(_ *Conn, s *Stmt) { s.ColumnView() },
	"column int":     func(_ *Conn, s *Stmt) { s.ColumnInt() },
}

// TestRule7_APanicBelowSQLiteEndsTheProcess: whoever recovers further up would go on with memory that may hold
// anything, and commit it.
func TestRule7_APanicBelowSQLiteEndsTheProcess(t *testing.T) {
	const name = "COUNTERSIGN_TEST_CRASH"
	if call := os.Getenv(name); call != "" {
		defer func() {
			recover()
			os.Exit(0) // as a handler that goes on
		}()
		c, err := Open(os.Getenv(name+"_FILE"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := c.Prepare("SELECT $1")
		s.p, s.begun, c.db = 8, true, 8
		crashing[call](c, s)
		os.Exit(3) // it did not panic
	}
	file := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for call := range crashing {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRule7_APanicBelowSQLiteEndsTheProcess$")
			cmd.Env = append(os.Environ(), name+"="+call, name+"_FILE="+file)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			err := cmd.Run()
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exit.ExitCode() != 2 {
				t.Fatalf("the process ended with %v, want exit code 2\n%s", err, &stderr)
			}
			if strings.Contains(stderr.String(), "fatal error: checkptr: ") {
				return // under the race detector the compiler's own check of pointers comes first, and ends the process as well
			}
			for _, want := range []string{"SQLite has panicked", "invalid memory address", "sqlite3/lib",
				"store/sqlite/sqlite3"} {
				if !strings.Contains(strings.ReplaceAll(stderr.String(), "modernc.org/sqlite/lib", "sqlite3/lib"), want) {
					t.Errorf("it does not say %q:\n%s", want, &stderr)
				}
			}
		})
	}
}

// TestEveryCallIntoTheLibraryIsGuarded finds a function that calls the library and does not begin with the guard.
func TestEveryCallIntoTheLibraryIsGuarded(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "lib" || !strings.HasPrefix(sel.Sel.Name, "X") {
					return true
				}
				calls++
				if first, ok := fn.Body.List[0].(*ast.DeferStmt); !ok || len(first.Call.Args) > 0 {
					t.Errorf("%s: %s calls %s and does not begin with defer crash()", file, fn.Name.Name, sel.Sel.Name)
				} else if g, ok := first.Call.Fun.(*ast.Ident); !ok || g.Name != "crash" {
					t.Errorf("%s: %s begins with another defer", file, fn.Name.Name)
				}
				return true
			})
		}
	}
	if calls < 20 {
		t.Errorf("only %d calls were found", calls)
	}
}
