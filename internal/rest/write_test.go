package rest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"countersign/client"
)

// answered are all structs that answers are made of.
func answered() map[reflect.Type]bool {
	all := map[reflect.Type]bool{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			add(t.Elem())
		case reflect.Struct:
			if one, ok := reflect.Zero(t).Interface().(interface{ JSONSchemaOneOf() []any }); ok {
				for _, is := range one.JSONSchemaOneOf() {
					add(reflect.TypeOf(is))
				}
			} else if !all[t] && t != reflect.TypeFor[time.Time]() && t != reflect.TypeFor[client.Time]() {
				all[t] = true
				for f := range t.Fields() {
					add(f.Type)
				}
			}
		}
	}
	for _, rt := range bare().routes {
		for _, a := range rt.doc.answers {
			if a.body != nil {
				add(reflect.TypeOf(a.body))
			}
		}
	}
	delete(all, reflect.TypeFor[struct{}]())
	return all
}

// What the document says of an answer holds for what is written, also where there is nothing: a nullable member is
// null, one that may be left out is, and what a client was once sent is not passed on.
func TestAnswersAreWrittenAsTheirTagsSay(t *testing.T) {
	types := answered()
	for typ := range shared {
		if !types[typ] && typ != reflect.TypeFor[client.Annotations]() { // which a body has
			t.Errorf("%v is in no answer", typ)
		}
	}
	for typ := range types {
		zero := reflect.New(typ)
		if raw := zero.Elem().FieldByName("JSON"); raw.IsValid() {
			raw.SetBytes([]byte(`{"sent":"before"}`))
		}
		b, err := json.Marshal(zero.Interface(), encoding)
		if err != nil {
			t.Errorf("%v: %v", typ, err)
			continue
		}
		var got map[string]jsontext.Value
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		for f := range typ.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			value, there := got[name]
			if want := options == "" || f.Type.Kind() == reflect.Bool && options == "omitempty"; there != want {
				t.Errorf("%v: %s is there: %t, want %t", typ, name, there, want)
			}
			if null := f.Tag.Get("nullable") == "true"; null && there && value.Kind() != jsontext.KindNull {
				t.Errorf("%v: %s is %s, want null", typ, name, value)
			}
			delete(got, name)
		}
		if len(got) > 0 {
			t.Errorf("%v: what is %v?", typ, got)
		}
	}
	if len(types) < len(shared)+10 {
		t.Errorf("only %d types were looked at", len(types))
	}
}

// A yes that cannot be encoded is no answer.
func TestArgsThatAreNotJSONAreNotWritten(t *testing.T) {
	for _, args := range []string{`{`, `{"a":1,"a":2}`} {
		if b, err := json.Marshal(client.Answer{Kind: client.AnswerApproved, Args: []byte(args)}, encoding); err == nil {
			t.Errorf("%s was written as %s", args, b)
		}
	}
}
