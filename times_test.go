package countersign_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// layouts says which files write times by a layout of their own, and for whom: people are told times by package locale,
// everywhere in the same way.
var layouts = map[string]string{
	"approval/summary/formats.go":         "an argument of a call is shown as it is, in the zone that it says itself",
	"approval/message.go":                 "the store, programs and models",
	"channels/standardwebhooks/render.go": "programs",
	"client/methods.go":                   "the API",
	"client/types.go":                     "the API",
	"cmd/countersign/output.go":           "programs, where no terminal is",
	"internal/demo/demo.go":               "the lines of the demo's console, as they come",
	"internal/demo/watch.go":              "the demo's tables of what has just happened",
	"internal/emulator/line.go":           "LINE's own API",
	"internal/emulator/lineapi.go":        "LINE's own API",
	"internal/emulator/socket.go":         "Slack's own API",
	"internal/listener/certificate.go":    "the log",
	"internal/release/pack/bill.go":       "the bill of materials",
	"internal/backup/backup.go":           "the name of a file",
	"internal/retention/audit.go":         "the name of a file",
	"internal/store/sqlite/copy.go":       "the name of a file",
	"internal/store/sqlite/leftovers.go":  "the name of a file",
	"internal/store/sqlite/restore.go":    "the name of a file",
	"internal/web/download.go":            "the name of a file",
}

func TestOnlyLocaleTellsPeopleTimes(t *testing.T) {
	found := map[string]bool{}
	for _, s := range goFiles(t, isNotTest) {
		if strings.HasPrefix(s.path, "internal/locale/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && byLayout(call) {
				found[s.path] = true
				if layouts[s.path] == "" {
					t.Errorf("%s: a time is written by a layout: people are told times by locale's When", s.position(n))
				}
			}
			return true
		})
	}
	for path := range layouts {
		if !found[path] {
			t.Errorf("%s writes no time by a layout any more", path)
		}
	}
}

// byLayout reports whether a call writes a time by a layout: x.Format("15:04"), x.Format(time.RFC3339), x.Format(day).
func byLayout(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Format", "AppendFormat"}, f.Sel.Name) || len(call.Args) == 0 {
		return false
	}
	if in, ok := f.X.(*ast.Ident); ok && slices.Contains([]string{"export", "jsontext"}, in.Name) {
		return false // a type of that name, and JSON
	}
	layout := call.Args[len(call.Args)-1]
	switch layout := layout.(type) {
	case *ast.BasicLit, *ast.Ident, *ast.BinaryExpr:
		return true
	case *ast.SelectorExpr:
		in, ok := layout.X.(*ast.Ident)
		return ok && in.Name == "time"
	}
	return false
}
