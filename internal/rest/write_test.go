package rest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"countersign/client"
)

// What the document says of a type that the client shares holds for what is written, also where there is nothing: a
// nullable member is null, one that may be left out is, and what a client was once sent is not passed on.
func TestSharedTypesAreWrittenAsTheirTagsSay(t *testing.T) {
	for typ := range shared {
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
			if name == "-" {
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
}

// A yes that cannot be encoded is no answer.
func TestArgsThatAreNotJSONAreNotWritten(t *testing.T) {
	for _, args := range []string{`{`, `{"a":1,"a":2}`} {
		if b, err := json.Marshal(client.Answer{Kind: client.AnswerApproved, Args: []byte(args)}, encoding); err == nil {
			t.Errorf("%s was written as %s", args, b)
		}
	}
}
