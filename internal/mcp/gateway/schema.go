package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"countersign/approval/legible"
	"countersign/internal/mcp"
)

// What is checked of arguments against a tool's schema, which its server wrote. Beyond, nothing is known.
const (
	maxSchema   = 256 << 10 // bytes of the schema
	maxChecked  = 256 << 10 // bytes of the arguments
	maxNumber   = 400       // digits of a number, and how far its exponent goes
	maxWork     = 200_000   // schemas that are evaluated, each as often as it may be
	schemaWait  = 2 * time.Second
	maxMistakes = 3 // that are told at once
)

// CheckArgs says what is wrong with arguments for a tool by the schema that its server gives of it, as far as the
// connection that all agents share knows it: "" where nothing is, or where it is not known. It quotes no value.
func (g *Gateway) CheckArgs(ctx context.Context, server, tool string, canonical []byte) string {
	for _, u := range g.servers {
		if u.Name != server || u.shared == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, schemaWait)
		defer cancel()
		c, err := u.shared.catalog(ctx)
		if err != nil || c.named[tool] == nil {
			return ""
		}
		o, bad := mcp.ReadObject(c.named[tool].raw)
		if bad != nil {
			return ""
		}
		return checkSchema(o.Get("inputSchema"), canonical)
	}
	return ""
}

// checkSchema says what is wrong with arguments by a schema, "" for nothing or where that cannot be told.
func checkSchema(schema, canonical jsontext.Value) string {
	if len(schema) == 0 || len(schema) > maxSchema || len(canonical) > maxChecked {
		return ""
	}
	if _, ok := shapeOf(schema); !ok {
		return ""
	}
	shape, ok := shapeOf(canonical)
	if !ok {
		return ""
	}
	s, err := compileSchema(schema)
	if err != nil {
		return ""
	}
	w := work{shape: shape, text: 1 + len(canonical)/64, of: map[workKey]int{}}
	if w.count(s, shape.depth) >= maxWork {
		return ""
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(canonical)))
	if err != nil {
		return ""
	}
	if e, ok := errors.AsType[*jsonschema.ValidationError](s.Validate(v)); ok {
		return sayMistakes(e)
	}
	return ""
}

// nothingElse refuses to load what a schema refers to outside of itself.
type nothingElse struct{}

func (nothingElse) Load(string) (any, error) {
	return nil, errors.New("gateway: a schema that refers to another is not followed")
}

func compileSchema(schema jsontext.Value) (*jsonschema.Schema, error) {
	const here = "tool:schema"
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nothingElse{})
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	return c.Compile(here)
}

// shape is how much there is of a JSON value.
type shape struct {
	depth int // how deeply it nests
	width int // the most elements that one of its arrays or objects has
}

// shapeOf measures a value; false where one of its numbers is too large to be worked with exactly.
func shapeOf(v jsontext.Value) (s shape, ok bool) {
	d := jsontext.NewDecoder(strings.NewReader(string(v)), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return s, d.StackDepth() == 0 && d.InputOffset() > 0
		}
		if t.Kind() == '0' && !isModest(t.String()) {
			return s, false
		}
		s.depth = max(s.depth, d.StackDepth())
		if _, n := d.StackIndex(d.StackDepth()); d.StackDepth() > 0 {
			s.width = max(s.width, int(n))
		}
	}
}

// isModest reports whether a number has so few digits, written out, that it can be worked with exactly.
func isModest(n string) bool {
	if len(n) > maxNumber {
		return false
	}
	i := strings.IndexAny(n, "eE")
	if i < 0 {
		return true
	}
	e, err := strconv.Atoi(n[i+1:])
	return err == nil && max(e, -e) <= maxNumber
}

// work counts how often schemas are evaluated at most, before they are: a schema can be written so that a few lines
// of it take for ever.
type work struct {
	shape
	text int // what it takes to look at the text of the arguments once
	of   map[workKey]int
}

type workKey struct {
	s     *jsonschema.Schema
	depth int
}

// count is how much a schema takes for a value that nests so deeply; [maxWork] where it is that much, or not known.
func (w *work) count(s *jsonschema.Schema, depth int) int {
	if s == nil || s.Bool != nil {
		return 1
	}
	k := workKey{s, depth}
	if n, ok := w.of[k]; ok {
		return n
	}
	w.of[k] = maxWork // what comes back to itself for the same value does not end
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		return maxWork
	}
	n := 1
	if s.Enum != nil {
		n += len(s.Enum.Values)
	}
	if s.Pattern != nil || s.Format != nil || s.UniqueItems {
		n += w.text
	}
	add := func(times, depth int, some ...*jsonschema.Schema) {
		for _, sub := range some {
			if sub != nil && n < maxWork {
				n = min(maxWork, n+times*w.count(sub, depth))
			}
		}
	}
	add(1, depth, s.Ref, s.Not, s.If, s.Then, s.Else)
	add(1, depth, s.AllOf...)
	add(1, depth, s.AnyOf...)
	add(1, depth, s.OneOf...)
	for _, sub := range s.DependentSchemas {
		add(1, depth, sub)
	}
	for _, d := range s.Dependencies {
		if sub, ok := d.(*jsonschema.Schema); ok {
			add(1, depth, sub)
		}
	}
	if depth > 0 {
		w.countParts(s, depth-1, add)
	}
	w.of[k] = n
	return n
}

// countParts counts what a schema says of the elements of a value.
func (w *work) countParts(s *jsonschema.Schema, depth int, add func(times, depth int, some ...*jsonschema.Schema)) {
	for _, sub := range s.Properties {
		add(1, depth, sub)
	}
	for _, sub := range s.PatternProperties {
		add(w.width*w.text, depth, sub)
	}
	add(1, depth, s.PrefixItems...)
	add(w.width, depth, s.PropertyNames, s.Items2020, s.Contains, s.UnevaluatedItems, s.UnevaluatedProperties)
	for _, some := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch some := some.(type) {
		case *jsonschema.Schema:
			add(w.width, depth, some)
		case []*jsonschema.Schema:
			add(1, depth, some...)
		}
	}
}

// sayMistakes is a sentence about what is wrong.
func sayMistakes(e *jsonschema.ValidationError) string {
	var said []string
	collectMistakes(e, &said)
	more := ""
	if n := len(said) - maxMistakes; n > 0 {
		said, more = said[:maxMistakes], fmt.Sprintf(" (and %d more)", n)
	}
	return "The tool does not take these args: " + strings.Join(said, "; ") + more + "."
}

// collectMistakes collects what is wrong, each with its place. Of alternatives none is told: only that none fits.
func collectMistakes(e *jsonschema.ValidationError, said *[]string) {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains, *kind.PropertyNames:
	default:
		if len(e.Causes) > 0 {
			for _, c := range e.Causes {
				collectMistakes(c, said)
			}
			return
		}
	}
	*said = append(*said, mistake(placeOf(e.InstanceLocation), e.ErrorKind))
}

// placeOf names a place in the arguments: args.items.2.name.
func placeOf(location []string) string {
	return legible.Line(legible.Cut(strings.Join(append([]string{"args"}, location...), "."), 200))
}

// mistake says what is wrong at a place, in no value's words.
func mistake(at string, k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return at + " must be of type " + strings.Join(k.Want, " or ")
	case *kind.Required:
		return missing(at, k.Missing)
	case *kind.DependentRequired:
		return missing(at, k.Missing)
	case *kind.Dependency:
		return missing(at, k.Missing)
	case *kind.AdditionalProperties:
		return "the tool does not know " + joinNames(at, k.Properties)
	case *kind.FalseSchema:
		return at + " must not be given"
	case *kind.Enum, *kind.Const:
		return at + " must be one of the values that the tool takes"
	case *kind.Minimum:
		return at + " must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return at + " must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return at + " must be more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return at + " must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return at + " must be a multiple of " + decimal(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("%s must have at least %d characters", at, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("%s must have at most %d characters", at, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("%s must have at least %d items", at, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("%s must have at most %d items", at, k.Want)
	case *kind.UniqueItems:
		return at + " must not have an item twice"
	case *kind.Pattern, *kind.Format:
		return at + " does not have the form that the tool asks for"
	}
	return at + " is not what the tool takes"
}

func missing(at string, names []string) string {
	is := " is missing"
	if len(names) > 1 {
		is = " are missing"
	}
	return joinNames(at, names) + is
}

// joinNames names members of an object, a few of many.
func joinNames(at string, names []string) string {
	var all []string
	for _, name := range names[:min(len(names), maxMistakes)] {
		all = append(all, at+"."+legible.Line(legible.Cut(name, 64)))
	}
	if n := len(names) - len(all); n > 0 {
		return strings.Join(all, ", ") + fmt.Sprintf(" (and %d more)", n)
	}
	return strings.Join(all, ", ")
}

// decimal writes a number of a schema.
func decimal(n *big.Rat) string {
	if digits, exact := n.FloatPrec(); exact {
		return n.FloatString(digits)
	}
	return n.RatString()
}
