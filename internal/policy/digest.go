package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"reflect"
	"slices"

	"countersign/approval"
)

// digestForm begins what is hashed. It goes up when the same configuration is judged in another way.
const digestForm = "countersign policy 1"

// digest names what the policy says: it is another one whenever any verdict could be. Every exported field counts but
// Origin, which only says where something is written.
func (c *Config) digest(terms approval.Terms) string {
	d := digester{sha256.New()}
	d.text(digestForm)
	d.value(reflect.ValueOf(*c))
	for _, risk := range risks { // as they are in force
		d.value(reflect.ValueOf(c.level(risk)))
	}
	d.value(reflect.ValueOf(terms))
	return hex.EncodeToString(d.Sum(nil))
}

// digest names what a rule says at its level: it is another one whenever a grant that was made under it could be
// another.
func (r *Rule) digest(l Level) string {
	d := digester{sha256.New()}
	d.text(digestForm + " rule")
	silent := *r
	silent.Message, silent.MessageIn, silent.Summary, silent.Diff = "", nil, nil, nil
	d.value(reflect.ValueOf(silent))
	d.value(reflect.ValueOf(l))
	return hex.EncodeToString(d.Sum(nil))
}

// digester hashes values so that different ones are written differently: everything has its length or its number of
// parts before it.
type digester struct{ hash.Hash }

func (d digester) number(n int64) { d.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func (d digester) text(s string) {
	d.number(int64(len(s)))
	d.Write([]byte(s))
}

var originType = reflect.TypeFor[Origin]()

func (d digester) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			d.number(1)
		} else {
			d.number(0)
		}
	case reflect.Int, reflect.Int64:
		d.number(v.Int())
	case reflect.String:
		d.text(v.String())
	case reflect.Pointer:
		if v.IsNil() {
			d.number(-1)
			return
		}
		d.number(1)
		d.value(v.Elem())
	case reflect.Slice:
		d.slice(v)
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		d.number(int64(len(keys)))
		for _, k := range keys {
			d.value(k)
			d.value(v.MapIndex(k))
		}
	case reflect.Struct:
		if v.Type() == originType {
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			// What came later is left out where it says nothing, so that no digest changes with the program.
			later := f.Tag.Get("digest") == "omitzero"
			if f.IsExported() && !(later && v.Field(i).IsZero()) {
				d.text(f.Name)
				d.value(v.Field(i))
			}
		}
	default: // so that a field of a new kind is not left out
		panic(fmt.Sprintf("policy: no digest of %s", v.Type()))
	}
}

func (d digester) slice(v reflect.Value) {
	if v.IsNil() {
		d.number(-1) // "equals: null" is not "no equals"
		return
	}
	d.number(int64(v.Len()))
	if v.Type().Elem().Kind() == reflect.Uint8 {
		d.Write(v.Bytes())
		return
	}
	for i := range v.Len() {
		d.value(v.Index(i))
	}
}
