package api

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/client"
)

// fill gives every field of a struct a value of its own.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString("v" + strconv.Itoa(*n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 21, 10, 0, *n, 0, time.UTC)))
			return
		}
		for _, f := range v.Fields() {
			if f.CanSet() {
				fill(f, n)
			}
		}
	}
}

// same compares all fields but those that the API does not tell, which must have been left out.
func same(t *testing.T, got, want any, untold ...string) {
	t.Helper()
	left := map[string]bool{}
	for _, name := range untold {
		left[name] = true
	}
	for f, v := range reflect.ValueOf(got).Fields() {
		w := reflect.ValueOf(want).FieldByName(f.Name)
		switch {
		case left[f.Name] && !v.IsZero():
			t.Errorf("%s is %v, and was not told", f.Name, v)
		case !left[f.Name] && !reflect.DeepEqual(v.Interface(), w.Interface()):
			t.Errorf("%s is %v, want %v", f.Name, v, w)
		}
	}
}

// A gate that is asked over the API knows of a request what the one that has it knows, but for what is not told.
func TestARequestComesBackAsItWas(t *testing.T) {
	for name, set := range map[string]func(r *approval.Request){
		"pending":   func(r *approval.Request) { r.Status, r.EndCode = approval.Pending, "" },
		"lapsed":    func(r *approval.Request) { r.Status, r.EndCode = approval.Approved, "" },
		"approved":  func(r *approval.Request) { r.Status, r.EndCode, r.LapsedAt = approval.Approved, "", time.Time{} },
		"expired":   func(r *approval.Request) { r.Status, r.EndCode = approval.Expired, "" },
		"cancelled": func(r *approval.Request) { r.Status, r.EndCode, r.LapsedAt = approval.Cancelled, "", time.Time{} },
		"denied": func(r *approval.Request) {
			r.Status, r.EndCode, r.LapsedAt, r.ReplacedBy = approval.Denied, "", time.Time{}, ""
		},
		"edited": func(r *approval.Request) {
			r.Status, r.EndCode, r.ReasonCode, r.LapsedAt = approval.Denied, approval.EndEdited, approval.EndEdited, time.Time{}
		},
		"frozen": func(r *approval.Request) {
			r.Status, r.EndCode, r.ReasonCode, r.LapsedAt = approval.Cancelled, approval.EndFrozen, approval.EndFrozen,
				time.Time{}
		},
		"cancelled, and asked about by a rule with that word": func(r *approval.Request) {
			r.Status, r.EndCode, r.ReasonCode, r.LapsedAt = approval.Cancelled, "", approval.EndFrozen, time.Time{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r approval.Request
			fill(reflect.ValueOf(&r).Elem(), new(int))
			r.Args = []byte(`{"a":"<é>","n":1.1}`)
			r.Who, r.Votes = "", nil // Who is made of the votes
			set(&r)
			got := ToRequest(FromRequest(r, "what it does"))
			same(t, got, r, "IgnoredArgs", "RuleDigest", "RequireReason", "Sentences", "ResolvedSeq", "AckedAt", "ToolDigest",
				"Runner", "ToolSeen", "Returned", "Need", "Stage", "Votes", "Policy", "CorrelationID", "ExtendedAt", "Before",
				"Annotations")
			if got.FeedMessage() != r.FeedMessage() {
				t.Errorf("it ended so:\n%s\nwant\n%s", got.FeedMessage(), r.FeedMessage())
			}
		})
	}
	r := approval.Request{Status: approval.Approved, ResolvedBy: "ken", Votes: []approval.Vote{
		{Stage: 1, Person: "hana", Approve: true}, {Stage: 1, Person: "ken", For: "mei", Approve: true}}}
	if got := ToRequest(FromRequest(r, "")).Who; got != "hana and ken for mei" {
		t.Errorf("it was approved by %q", got)
	}
}

// What the gate's own side says of a call is not taken from what an agent sent.
func TestACallComesBackAsItWas(t *testing.T) {
	var c approval.Call
	fill(reflect.ValueOf(&c).Elem(), new(int))
	var err error
	if c.Args, err = args.Parse([]byte(`{"a":"<é>","n":1.10}`)); err != nil {
		t.Fatal(err)
	}
	w := FromCall(c)
	read, err := args.Parse(w.Args)
	if err != nil {
		t.Fatal(err)
	}
	same(t, ToCall(w, c.Agent, read), c, "ToolSeen", "Grouped", "PreviewFrom", "Differ", "ReadFor", "Runner")
	if got := ToCall(client.Call{Method: "tools/call"}, "", args.Args{}).Method; got != "" {
		t.Errorf("a tool's call has the method %q", got)
	}
}
