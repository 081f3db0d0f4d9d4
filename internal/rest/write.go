package rest

import (
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/client"
)

// encoding writes answers: structs with what may be null by their tags, which are those of [client] and a few more.
// Text that is not UTF-8, as a platform may have sent, is shown as far as it is.
var encoding = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.Deterministic(true),
	json.WithMarshalers(json.JoinMarshalers(
		json.MarshalToFunc(func(e *jsontext.Encoder, t *client.Time) error { return putTime(e, t.Time) }),
		json.MarshalToFunc(func(e *jsontext.Encoder, t *time.Time) error { return putTime(e, *t) }),
		byTags[client.Answer](), byTags[client.Approval](), byTags[client.Vote](), byTags[client.Said](),
		byTags[client.Use](), byTags[client.Grant](), byTags[client.Notification](), byTags[client.AuditEvent](),
		byTags[client.Freeze](), byTags[client.Delegation](), byTags[client.Stats](),
		byTags[grantUse](), byTags[decideAnswer](), byTags[approvalList](), byTags[grantList](),
		byTags[notificationList](), byTags[eventList](),
	)))

func putTime(e *jsontext.Encoder, t time.Time) error { return putText(e, approval.FormatTime(t)) }

func putText(e *jsontext.Encoder, s string) error { return e.WriteToken(jsontext.String(s)) }

// byTags writes a struct field by field: what is nullable is null where it is zero. Of one of [client] it takes the
// place of its own method, which writes what a client was sent.
func byTags[T any]() *json.Marshalers {
	var fields []field
	for f := range reflect.TypeFor[T]().Fields() {
		if name, options, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields = append(fields, field{name, f.Index[0], options != "", f.Tag.Get("nullable") == "true"})
		}
	}
	return json.MarshalToFunc(func(e *jsontext.Encoder, t *T) error {
		if err := e.WriteToken(jsontext.BeginObject); err != nil {
			return err
		}
		v := reflect.ValueOf(t).Elem()
		for _, f := range fields {
			if err := f.write(e, v.Field(f.index)); err != nil {
				return err
			}
		}
		return e.WriteToken(jsontext.EndObject)
	})
}

// field is how one of a struct is written.
type field struct {
	name      string
	index     int
	omittable bool
	nullable  bool
}

func (f field) write(e *jsontext.Encoder, v reflect.Value) error {
	// As everywhere in an answer, false is a value.
	if f.omittable && v.Kind() != reflect.Bool && (v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0) {
		return nil
	}
	if err := putText(e, f.name); err != nil {
		return err
	}
	switch {
	case f.nullable && v.IsZero():
		return e.WriteToken(jsontext.Null)
	case v.Kind() == reflect.String:
		return putText(e, v.String())
	case v.Kind() == reflect.Bool:
		return e.WriteToken(jsontext.Bool(v.Bool()))
	}
	return json.MarshalEncode(e, v.Addr().Interface())
}
