package secret_test

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"countersign/channels"
	"countersign/channels/kind"
	"countersign/channels/line"
	"countersign/channels/slack"
	"countersign/channels/standardwebhooks"
	"countersign/internal/auth"
	"countersign/internal/auth/openid"
	"countersign/internal/config"
	"countersign/internal/demo"
	"countersign/internal/secret"

	"github.com/goccy/go-yaml"
)

// holders are the exported structs that can hold a secret, in a field of theirs or further down.
var holders = []any{
	&auth.AgentIdentity{}, &auth.Person{},
	&channels.Message{},
	&line.Channel{}, &line.Config{},
	&slack.Channel{}, &slack.Config{}, &slack.Meta{}, &slack.Submission{},
	&standardwebhooks.Config{},
	&config.Agent{}, &config.Config{}, &config.File{}, &config.MCP{}, &config.Person{}, &config.Replicas{},
	&config.Server{}, &config.SignIn{},
	&kind.Host{}, &demo.Demo{}, &openid.Config{},
}

const hush = "nobody-may-read-this"

// Rule 8: whatever holds a secret can be printed, marshalled and logged whole.
func TestNoStructShowsItsSecrets(t *testing.T) {
	for _, h := range holders {
		v := reflect.ValueOf(h).Elem()
		t.Run(v.Type().String(), func(t *testing.T) {
			if fill(v) == 0 {
				t.Fatal("it holds no secret")
			}
			for how, shown := range ways(t, h) {
				if strings.Contains(shown, hush) || strings.Contains(strings.ToLower(shown), hex.EncodeToString([]byte(hush))) {
					t.Errorf("%s shows it: %s", how, shown)
				}
			}
		})
	}
}

// fill puts a secret wherever v can hold one, unexported fields too, and counts them.
func fill(v reflect.Value) (n int) {
	switch t := v.Type(); {
	case t == reflect.TypeFor[secret.Value]():
		v.SetString(hush)
		return 1
	case !holds(t, nil):
		return 0
	case t.Kind() == reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			n += fill(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem())
		}
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		n = fill(v.Elem())
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, 2, 2))
		n = fill(v.Index(0)) + fill(v.Index(1))
	case t.Kind() == reflect.Map:
		one := reflect.New(t.Elem()).Elem()
		n = fill(one)
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(reflect.Zero(t.Key()), one)
	}
	return n
}

// holds reports whether a value of t can hold a secret. above are the types it was reached through.
func holds(t reflect.Type, above []reflect.Type) bool {
	if t == reflect.TypeFor[secret.Value]() {
		return true
	}
	for _, a := range above {
		if a == t {
			return false
		}
	}
	above = append(above, t)
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if holds(t.Field(i).Type, above) {
				return true
			}
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return holds(t.Elem(), above)
	}
	return false
}

// ways shows v in every way there is, by the name of the way.
func ways(t *testing.T, v any) map[string]string {
	t.Helper()
	out := map[string]string{}
	byValue := reflect.ValueOf(v).Elem().Interface
	for _, flags := range []string{"", "+", "#", "-", " ", "0", "20", ".3"} {
		for _, verb := range "vTsdqxXoObcUtfFeEgG" {
			how := "%" + flags + string(verb)
			out[how] = fmt.Sprintf(how, v)
			if _, itself := v.(fmt.Formatter); !itself { // what prints itself is a running part, and is not copied
				out[how+" by value"] = fmt.Sprintf(how, byValue())
				out[how+" of a list"] = fmt.Sprintf(how, []any{byValue()})
			}
		}
	}
	if j, err := json.Marshal(v); err == nil {
		out["JSON"] = string(j)
	}
	if y, err := yaml.Marshal(v); err == nil {
		out["YAML"] = string(y)
	}
	var text, asJSON strings.Builder
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "v", v)
	slog.New(slog.NewJSONHandler(&asJSON, nil)).Info("x", "v", v)
	out["slog"], out["slog JSON"] = text.String(), asJSON.String()
	return out
}

// The list of holders is whole: this finds them in the source.
func TestTheListOfHoldersIsWhole(t *testing.T) {
	fields := map[string][]string{} // the types that a struct's fields name
	for _, dir := range []string{"approval", "channels", "internal/auth", "internal/config", "internal/demo"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				structs(file, fields)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]bool{"secret.Value": true, "secret.List": true}
	for grown := true; grown; {
		grown = false
		for name, of := range fields {
			for _, f := range of {
				if found[f] && !found[name] {
					found[name], grown = true, true
				}
			}
		}
	}
	for _, h := range holders {
		delete(found, reflect.TypeOf(h).Elem().String())
	}
	for name := range found {
		pkg, typ, _ := strings.Cut(name, ".")
		if pkg != "secret" && ast.IsExported(typ) {
			t.Errorf("%s can hold a secret and is not in the list of holders", name)
		}
	}
}

// structs adds the types that the structs of a file name in their fields, functions apart.
func structs(file *ast.File, fields map[string][]string) {
	imported := map[string]string{} // another name of a package: its own
	for _, i := range file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		if i.Name != nil {
			imported[i.Name.Name] = path[strings.LastIndexByte(path, '/')+1:]
		}
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			name := file.Name.Name + "." + spec.Name.Name
			ast.Inspect(spec.Type, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncType, *ast.InterfaceType, *ast.IndexExpr: // an atomic.Pointer prints as an address
					return false
				case *ast.Field:
					fields[name] = append(fields[name], named(n.Type, file.Name.Name, imported)...)
					return false
				}
				return true
			})
			if _, ok := spec.Type.(*ast.StructType); !ok {
				fields[name] = append(fields[name], named(spec.Type, file.Name.Name, imported)...)
			}
		}
	}
}

// named returns the types that a type's expression names, those of functions apart.
func named(e ast.Expr, pkg string, imported map[string]string) (names []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType, *ast.InterfaceType, *ast.IndexExpr:
			return false
		case *ast.SelectorExpr:
			from := n.X.(*ast.Ident).Name
			names = append(names, cmp.Or(imported[from], from)+"."+n.Sel.Name)
			return false
		case *ast.Ident:
			names = append(names, pkg+"."+n.Name)
		}
		return true
	})
	return names
}
