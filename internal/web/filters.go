package web

import (
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"countersign/approval"
	"countersign/approval/legible"
)

const (
	// rowsShown is how many rows a page of a search has.
	rowsShown = 50
	// rowsLooked is among how many rows they are looked for: what a page costs, however little is found.
	rowsLooked = 10_000
	// maxTyped is how long what is looked for may be.
	maxTyped = 200
	// maxCell is how much of a text a row of a list shows; the request's page and the exports have all of it.
	maxCell = 300
)

// filter is one field of the form above a list, as it was filled in.
type filter struct {
	Name, Label, Value string
	Type               string         // of the input; "" with Choices
	Choices            []filterChoice // of a select; one that was asked for and is none is kept
	Wrong              string         // what is wrong with the value; "": nothing
}

// filterChoice is one value of a filter, and how it is called.
type filterChoice struct{ Value, Text string }

// filters read the address of a list. What is wrong is kept beside what was typed, and nothing is looked for then.
type filters struct {
	x      *exchange
	query  url.Values
	Fields []filter
	Cursor string
	Wrong  string // with the address itself
}

// readFilters begins.
func readFilters(x *exchange) *filters {
	f := &filters{x: x}
	var err error
	if f.query, err = url.ParseQuery(x.r.URL.RawQuery); err != nil {
		f.query, f.Wrong = url.Values{}, x.lang.Say("history_wrong_address")
	}
	return f
}

// add reads one field. What ok does not hold of is wrong as the sentence says.
func (f *filters) add(fl filter, wrong string, ok func(string) bool) string {
	fl.Label, fl.Value = f.x.lang.Say("history_by_"+fl.Name), strings.TrimSpace(f.query.Get(fl.Name))
	if fl.Value != "" && (!utf8.ValidString(fl.Value) || !ok(fl.Value)) {
		fl.Wrong = f.x.lang.Say(wrong, "value", legible.Cut(legible.Line(fl.Value), maxTyped))
	}
	f.Fields = append(f.Fields, fl)
	return fl.Value
}

// readTyped is a field for text.
func (f *filters) readTyped(name string, ok func(string) bool) string {
	return f.add(filter{Name: name, Type: "text"}, "history_wrong_text", func(v string) bool {
		return len(v) <= maxTyped && ok(v)
	})
}

// words is a field for any text.
func (f *filters) words(name string) string {
	return f.readTyped(name, func(string) bool { return true })
}

// tool is a field for a tool's name, or server/tool.
func (f *filters) tool() string {
	return f.readTyped("tool", func(v string) bool {
		server, tool, two := strings.Cut(v, "/")
		return approval.ValidName(server) && (!two || approval.ValidName(tool))
	})
}

// agent is a field for an agent's name.
func (f *filters) agent() string { return f.readTyped("agent", approval.ValidName) }

// id is a field for a request's id.
func (f *filters) id(name string) string { return f.readTyped(name, isID) }

// isID reports whether a text has the form of an id.
func isID(s string) bool {
	return len(s) == 26 && s[0] <= '7' && strings.Trim(s, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

// one is a field for one of a few values. say says how each is called: the id of a sentence; "": as it is.
func one[T ~string](f *filters, name, say string, values ...T) T {
	fl := filter{Name: name}
	for _, v := range values {
		text := string(v)
		if say != "" {
			text = f.x.lang.Say(say + string(v))
		}
		fl.Choices = append(fl.Choices, filterChoice{string(v), text})
	}
	return T(f.add(fl, "history_wrong_choice", func(v string) bool { return slices.Contains(values, T(v)) }))
}

// days are two fields for days of the reader's, both included: from the first moment of one to before the first of the
// day after the other.
func (f *filters) days() (since, until time.Time) {
	since = f.day("from", 0)
	until = f.day("to", 1)
	last := &f.Fields[len(f.Fields)-1]
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		last.Wrong = f.x.lang.Say("history_wrong_order")
	}
	return since, until
}

// day is a field for a day, and the first moment of one that is some days later.
func (f *filters) day(name string, later int) (first time.Time) {
	zone := time.UTC
	if f.x.viewer != nil && f.x.viewer.Zone != nil {
		zone = f.x.viewer.Zone
	}
	f.add(filter{Name: name, Type: "date"}, "history_wrong_date", func(v string) bool {
		d, err := time.Parse(time.DateOnly, v)
		if err != nil || d.Year() < 1970 {
			return false
		}
		first = firstMoment(d.AddDate(0, 0, later), zone)
		return true
	})
	return first
}

// firstMoment is when a day begins in a zone; where clocks are put forward at midnight that is later than 00:00.
func firstMoment(day time.Time, zone *time.Location) time.Time {
	y, m, d := day.Date()
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	for t.Day() != d {
		t = t.Add(30 * time.Minute)
	}
	return t
}

// end reads what is no field, and reports whether all is well: where a page begins, as ok knows it, and names beside.
func (f *filters) end(ok func(cursor string) bool, beside ...string) bool {
	if f.Cursor = f.query.Get("after"); f.Cursor != "" && !ok(f.Cursor) {
		f.Cursor, f.Wrong = "", f.x.lang.Say("history_wrong_address")
	}
	well := f.Wrong == ""
	known := append(beside, "after")
	for _, fl := range f.Fields {
		known, well = append(known, fl.Name), well && fl.Wrong == ""
	}
	for name, values := range f.query {
		if !slices.Contains(known, name) || len(values) > 1 {
			f.Wrong, well = f.x.lang.Say("history_wrong_address"), false
		}
	}
	return well
}

// address is that of a path with the filters that are set, and what else it says.
func (f *filters) address(path string, more ...string) string {
	q := url.Values{}
	for _, fl := range f.Fields {
		if fl.Value != "" {
			q.Set(fl.Name, fl.Value)
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
