package channels

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"countersign/internal/locale"
)

// No key is without its English sentence.
func TestEnglishIsWhole(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "messages.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[Text]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "Text" {
			s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if keys[Text(s)] {
				t.Errorf("the key %q is there twice", s)
			}
			keys[Text(s)] = true
		}
		return true
	})
	if len(keys) < 40 {
		t.Fatalf("found %d keys", len(keys))
	}
	for k := range keys {
		if locale.Get("en").Say(string(k)) == string(k) {
			t.Errorf("%q has no English", k)
		}
	}
}
