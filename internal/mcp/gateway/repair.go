package gateway

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// A strict client refuses a whole list, with every server's elements in it, for one that is not as the protocol has it.
// What can mean only one thing is offered as that; what cannot is left out, alone. Digests are of what the server said.

const (
	anyArgs = `{"type":"object"}`
	isNull  = "null"
)

// repairTool returns a tool as strict clients take it, or why it cannot be offered.
func repairTool(o mcp.Object, era mcp.Era) (_ mcp.Object, problem string) {
	if o, problem = repairWords(o); problem != "" {
		return nil, problem
	}
	input, problem := repairSchema(o.Get("inputSchema"))
	if problem != "" {
		return nil, "its inputSchema " + problem
	}
	o = replaceMember(o, "inputSchema", input)
	if era == mcp.Legacy {
		o = repairOutput(o)
	} else if output := o.Get("outputSchema"); output != nil {
		var fine jsontext.Value // any schema that is an object
		if schema, err := mcp.ReadObject(output); err == nil {
			if fine = output; !isTextOrNone(schema.Get("$schema")) {
				fine = schema.Without("$schema").Bytes()
			}
		}
		o = replaceMember(o, "outputSchema", fine)
	}
	if o, problem = repairHints(o); problem != "" {
		return nil, problem
	}
	if e := o.Get("execution"); e != nil && !isExecution(e) {
		o = o.Without("execution")
	}
	return o, ""
}

// repairOutput is a tool with an output schema of an object, as legacy clients know it, or with none: without one,
// clients take whatever the tool returns.
func repairOutput(o mcp.Object) mcp.Object {
	output := o.Get("outputSchema")
	if output == nil {
		return o
	}
	fine, problem := repairSchema(output)
	if problem != "" || string(fine) == anyArgs {
		fine = nil
	}
	return replaceMember(o, "outputSchema", fine)
}

// forLegacy is a modern server's tool as legacy clients are told of it. A schema that does not say that it is an
// object's may be anything's.
func forLegacy(o mcp.Object) mcp.Object {
	if schema, err := o.Object("outputSchema"); err == nil && schema.Text("type") == "object" {
		return repairOutput(o)
	}
	return o.Without("outputSchema")
}

func isTextOrNone(v jsontext.Value) bool { return v == nil || v.Kind() == '"' }

func isExecution(v jsontext.Value) bool {
	o, err := mcp.ReadObject(v)
	if err != nil || o.Get("taskSupport") == nil {
		return err == nil
	}
	return slices.Contains([]string{"required", "optional", "forbidden"}, o.Text("taskSupport"))
}

// replaceMember returns o with another value of a member, in its place; nil: without it.
func replaceMember(o mcp.Object, name string, v jsontext.Value) mcp.Object {
	switch old := o.Get(name); {
	case v == nil && old == nil, string(old) == string(v) && old != nil:
		return o
	case v == nil:
		return o.Without(name)
	}
	return o.With(name, v)
}

// repairWords does that for what tools, prompts and resources have alike.
func repairWords(o mcp.Object) (_ mcp.Object, problem string) {
	for _, name := range []string{"title", "description", "mimeType"} {
		switch v := o.Get(name); {
		case v == nil || v.Kind() == '"':
		case string(v) == isNull:
			o = o.Without(name)
		default:
			return nil, fmt.Sprintf("its %s is no text", name)
		}
	}
	if v := o.Get("_meta"); v != nil && v.Kind() != '{' {
		o = o.Without("_meta")
	}
	if v := o.Get("icons"); v != nil && !areIcons(v) {
		o = o.Without("icons")
	}
	return o, ""
}

func areIcons(v jsontext.Value) bool {
	icons, err := mcp.ReadArray(v)
	return err == nil && !slices.ContainsFunc(icons, func(v jsontext.Value) bool {
		icon, err := mcp.ReadObject(v)
		if err != nil || icon.Get("src") == nil || !isTextOrNone(icon.Get("src")) || !isTextOrNone(icon.Get("mimeType")) {
			return true
		}
		sizes, theme := icon.Get("sizes"), icon.Get("theme")
		return sizes != nil && !areTexts(sizes) || theme != nil && mcp.Text(theme) != "light" && mcp.Text(theme) != "dark"
	})
}

// repairHints leaves out hints that say nothing.
func repairHints(o mcp.Object) (_ mcp.Object, problem string) {
	v := o.Get("annotations")
	if v == nil {
		return o, ""
	}
	if string(v) == isNull {
		return o.Without("annotations"), ""
	}
	hints, err := mcp.ReadObject(v)
	if err != nil {
		return nil, "its annotations are refused: " + err.Reason
	}
	var kept mcp.Object
	for _, h := range hints {
		kind := h.Value.Kind()
		switch h.Name {
		case "title":
			if kind != '"' {
				continue
			}
		case "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint":
			if kind != 't' && kind != 'f' {
				continue
			}
		}
		kept = append(kept, h)
	}
	if len(kept) == len(hints) {
		return o, ""
	}
	return o.With("annotations", kept.Bytes()), ""
}

// repairSchema returns a schema of an object as strict clients take it, or what is wrong with it.
func repairSchema(v jsontext.Value) (_ jsontext.Value, problem string) {
	if v == nil || string(v) == isNull || string(v) == "true" {
		return jsontext.Value(anyArgs), ""
	}
	o, err := mcp.ReadObject(v)
	if err != nil {
		return nil, "is refused: " + err.Reason
	}
	changed := false
	if mcp.Text(o.Get("type")) != "object" {
		if !takesObjects(o.Get("type")) {
			return nil, "is not one of an object"
		}
		o, changed = o.With("type", jsontext.Value(`"object"`)), true
	}
	if !isTextOrNone(o.Get("$schema")) {
		o, changed = o.Without("$schema"), true
	}
	given := o.Get("properties")
	properties, problem := repairProperties(given)
	if problem != "" {
		return nil, problem
	}
	if string(properties) != string(given) {
		o, changed = replaceMember(o, "properties", properties), true
	}
	switch required := o.Get("required"); {
	case string(required) == isNull:
		o, changed = o.Without("required"), true
	case required != nil && !areTexts(required):
		return nil, "has a required that is no list of names"
	}
	if !changed { // as it was written
		return v, ""
	}
	return o.Bytes(), ""
}

// takesObjects reports whether a schema's type leaves room for an object, which arguments always are.
func takesObjects(t jsontext.Value) bool {
	if t == nil || string(t) == isNull {
		return true
	}
	types, err := mcp.ReadArray(t)
	return err == nil && slices.ContainsFunc(types, func(v jsontext.Value) bool { return mcp.Text(v) == "object" })
}

func repairProperties(v jsontext.Value) (_ jsontext.Value, problem string) {
	if v == nil || string(v) == isNull {
		return nil, ""
	}
	if vs, err := mcp.ReadArray(v); err == nil && len(vs) == 0 { // an empty object, as some languages write it
		return nil, ""
	}
	o, err := mcp.ReadObject(v)
	if err != nil {
		return nil, "has properties that are refused: " + err.Reason
	}
	schemas := slices.Clone(o)
	for i, p := range o {
		switch p.Value.Kind() {
		case '{':
		case 't':
			schemas[i].Value = jsontext.Value("{}")
		case 'f':
			schemas[i].Value = jsontext.Value(`{"not":{}}`)
		default:
			return nil, fmt.Sprintf("has a property %.64q that is no schema", p.Name)
		}
	}
	if slices.EqualFunc(o, schemas, func(a, b mcp.Member) bool { return string(a.Value) == string(b.Value) }) {
		return v, ""
	}
	return schemas.Bytes(), ""
}

func areTexts(v jsontext.Value) bool {
	vs, err := mcp.ReadArray(v)
	return err == nil && !slices.ContainsFunc(vs, func(v jsontext.Value) bool { return v.Kind() != '"' })
}

// repairItem does it for a prompt, a resource or a template.
func repairItem(it item) (_ item, problem string) {
	o, err := mcp.ReadObject(it.raw)
	if err != nil {
		return it, err.Reason
	}
	switch name := o.Get("name"); {
	case it.key == "":
		return it, "it has no name or address"
	case name == nil || name.Kind() != '"':
		return it, "its name is no text"
	}
	if o, problem = repairWords(o); problem != "" {
		return it, problem
	}
	for _, name := range []string{"arguments", "annotations", "size"} {
		if string(o.Get(name)) == isNull {
			o = o.Without(name)
		}
	}
	if given := o.Get("arguments"); given != nil {
		if o, problem = repairArguments(o, given); problem != "" {
			return it, problem
		}
	}
	return item{it.key, o.Bytes()}, ""
}

// repairArguments does it for a prompt's arguments.
func repairArguments(o mcp.Object, given jsontext.Value) (_ mcp.Object, problem string) {
	vs, err := mcp.ReadArray(given)
	if err != nil {
		return nil, "its arguments are no list"
	}
	list := jsontext.Value("[")
	for i, v := range vs {
		a, err := mcp.ReadObject(v)
		if err != nil || a.Text("name") == "" {
			return nil, "one of its arguments has no name"
		}
		if a, problem = repairWords(a); problem != "" {
			return nil, fmt.Sprintf("of its argument %.64q, %s", a.Text("name"), problem)
		}
		if r := a.Get("required"); r != nil && r.Kind() != 't' && r.Kind() != 'f' {
			a = a.Without("required")
		}
		if i > 0 {
			list = append(list, ',')
		}
		list = a.Append(list)
	}
	return o.With("arguments", append(list, ']')), ""
}
