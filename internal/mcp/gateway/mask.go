package gateway

import (
	"github.com/go-json-experiment/json/jsontext"

	"countersign/internal/mcp"
)

// Masker finds secrets, and returns a copy with marks in their places, and how many there were.
type Masker interface {
	Text(s string) (string, int)
	// Args is for JSON in canonical form.
	Args(canonical []byte) ([]byte, int)
}

// masking masks the secrets in what a server returned. What it cannot read it has not masked.
type masking struct {
	m   Masker
	n   int              // what was masked
	bad *mcp.ObjectError // what could not be read
}

// mask returns a result with its secrets masked, the very bytes where there are none: texts, what is structured, and
// the texts of resources. Images, sounds and other bytes stay as they are, and so do addresses and _meta.
func mask(m Masker, result jsontext.Value) (jsontext.Value, *mcp.ObjectError) {
	k := masking{m: m}
	masked := k.object(result, map[string]func(jsontext.Value) jsontext.Value{
		"content": k.blocks, "structuredContent": k.maskAny, "contents": k.blocks, "description": k.text,
		"messages": k.each(func(v jsontext.Value) jsontext.Value {
			return k.object(v, map[string]func(jsontext.Value) jsontext.Value{"content": k.blocks})
		}),
		"completion": func(v jsontext.Value) jsontext.Value {
			return k.object(v, map[string]func(jsontext.Value) jsontext.Value{"values": k.each(k.text)})
		},
	})
	switch {
	case k.bad != nil:
		return nil, k.bad
	case k.n == 0:
		return result, nil
	}
	return masked, nil
}

// object masks members of an object; nil stands for none.
func (k *masking) object(v jsontext.Value, members map[string]func(jsontext.Value) jsontext.Value) jsontext.Value {
	o, err := mcp.ReadObject(v)
	if err != nil {
		k.bad = err
		return v
	}
	for i, m := range o {
		if f := members[m.Name]; f != nil {
			o[i].Value = f(m.Value)
		}
	}
	return o.Bytes()
}

// each masks the elements of a list.
func (k *masking) each(f func(jsontext.Value) jsontext.Value) func(jsontext.Value) jsontext.Value {
	return func(v jsontext.Value) jsontext.Value {
		vs, err := mcp.ReadArray(v)
		if err != nil {
			k.bad = err
			return v
		}
		for i := range vs {
			vs[i] = f(vs[i])
		}
		return array(vs)
	}
}

// blocks masks one block of content, or a list of them; null has none.
func (k *masking) blocks(v jsontext.Value) jsontext.Value {
	switch v.Kind() {
	case '[':
		return k.each(k.blocks)(v)
	case 'n':
		return v
	case '"':
		return k.text(v)
	}
	return k.object(v, map[string]func(jsontext.Value) jsontext.Value{
		"text": k.text, "title": k.text, "description": k.text, "resource": k.blocks, "content": k.blocks,
		"structuredContent": k.maskAny,
	})
}

// text masks a string; what is none may hold anything, and is masked as that.
func (k *masking) text(v jsontext.Value) jsontext.Value {
	if v.Kind() != '"' {
		return k.maskAny(v)
	}
	text, n := k.m.Text(mcp.Text(v))
	if n == 0 {
		return v
	}
	k.n += n
	return mcp.Quote(text)
}

// maskAny masks any value.
func (k *masking) maskAny(v jsontext.Value) jsontext.Value {
	c := v.Clone()
	if c.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
		k.bad = &mcp.ObjectError{Reason: "it is not in the form of JSON"}
		return v
	}
	masked, n := k.m.Args(c)
	if n == 0 {
		return v
	}
	k.n += n
	return masked
}

// maskError masks what a server said of an error.
func maskError(m Masker, e *mcp.Error) *mcp.Error {
	masked := *e
	masked.Message, _ = m.Text(e.Message)
	if e.Data != nil {
		k := masking{m: m}
		if masked.Data = k.maskAny(e.Data); k.bad != nil {
			masked.Data = nil
		}
	}
	return &masked
}

// maskNotification masks what a server says while it works on a request: the words of its progress and of its log.
func maskNotification(m Masker, params jsontext.Value) (jsontext.Value, bool) {
	k := masking{m: m}
	masked := k.object(params, map[string]func(jsontext.Value) jsontext.Value{"message": k.text, "data": k.text})
	return masked, k.bad == nil
}
