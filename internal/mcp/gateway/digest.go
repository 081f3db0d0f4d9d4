package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// toolDigests returns the digest of what a model and a person are told of a tool, and the one with the schemas' lists
// in the order in which the server wrote them, by which tools were known before; "" where that is no other.
func toolDigests(o mcp.Object) (digest, listed string) {
	var told, sorted mcp.Object
	for _, name := range []string{"annotations", "description", "inputSchema", "outputSchema", "title"} {
		v := o.Get(name)
		if v == nil {
			continue
		}
		told = append(told, mcp.Member{Name: name, Value: v})
		if name == "inputSchema" || name == "outputSchema" {
			v = sortSchema(v, sortedLevels)
		}
		sorted = append(sorted, mcp.Member{Name: name, Value: v})
	}
	digest, listed = digestOf(sorted), digestOf(told)
	if listed == digest {
		listed = ""
	}
	return digest, listed
}

func digestOf(o mcp.Object) string {
	sum := sha256.Sum256(canonical(o.Bytes()))
	return hex.EncodeToString(sum[:])
}

// canonical is v in canonical form, its numbers as they are written; what has none stays as it is.
func canonical(v jsontext.Value) jsontext.Value {
	c := v.Clone()
	if c.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
		return v
	}
	return c
}

// Where schemas stand in a schema: as a value, in a list, and under names. Elsewhere are data, whose order may mean
// something.
var (
	schemaAt = []string{"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items",
		"not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
	schemasIn    = []string{"allOf", "anyOf", "items", "oneOf", "prefixItems"}
	schemasUnder = []string{"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)

// sortedLevels is how many levels of schemas in schemas are put in order. Each is read again, so that what a server
// nests thousands of times would take minutes.
const sortedLevels = 32

// sortSchema returns a schema with its sets, required and enum, in order and without what stands there twice, down to
// so many levels. What cannot be read stays as it is.
func sortSchema(v jsontext.Value, levels int) jsontext.Value {
	if levels == 0 {
		return v
	}
	o, err := mcp.ReadObject(v)
	if err != nil {
		return v
	}
	sorted := slices.Clone(o)
	for i, m := range o {
		switch kind := m.Value.Kind(); {
		case kind == '[' && (m.Name == "required" || m.Name == "enum"):
			sorted[i].Value = sortSet(m.Value)
		case kind == '[' && slices.Contains(schemasIn, m.Name):
			if vs, err := mcp.ReadArray(m.Value); err == nil {
				for k := range vs {
					vs[k] = sortSchema(vs[k], levels-1)
				}
				sorted[i].Value = array(vs)
			}
		case kind == '{' && slices.Contains(schemaAt, m.Name):
			sorted[i].Value = sortSchema(m.Value, levels-1)
		case kind == '{' && slices.Contains(schemasUnder, m.Name):
			if named, err := mcp.ReadObject(m.Value); err == nil {
				for k := range named {
					named[k].Value = sortSchema(named[k].Value, levels-1)
				}
				sorted[i].Value = named.Bytes()
			}
		}
	}
	return sorted.Bytes()
}

func sortSet(v jsontext.Value) jsontext.Value {
	vs, err := mcp.ReadArray(v)
	if err != nil {
		return v
	}
	for i := range vs {
		vs[i] = canonical(vs[i])
	}
	slices.SortFunc(vs, func(a, b jsontext.Value) int { return bytes.Compare(a, b) })
	return array(slices.CompactFunc(vs, func(a, b jsontext.Value) bool { return bytes.Equal(a, b) }))
}

func array(vs []jsontext.Value) jsontext.Value {
	a := jsontext.Value("[")
	for i, v := range vs {
		if i > 0 {
			a = append(a, ',')
		}
		a = append(a, v...)
	}
	return append(a, ']')
}
