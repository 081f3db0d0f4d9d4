package store

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// column is one column of a table whose rows are R: its name, and how its value gets out of a row and into one.
type column[R any] struct {
	name string
	bind func(s Binder, r *R)
	scan func(s Scanner, r *R)
}

// columns are some of a table's, in the order in which a statement has them. The statements are put together when
// the program starts; what happens for each row is a call or two for each of its columns.
type columns[R any] []column[R]

// names are the columns' for a SELECT or an INSERT.
func (cs columns[R]) names() string {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

// params are as many parameters, from $1 on.
func (cs columns[R]) params() string {
	params := make([]string, len(cs))
	for i := range cs {
		params[i] = "$" + strconv.Itoa(i+1)
	}
	return strings.Join(params, ", ")
}

// assignments are for the SET of an UPDATE, with parameters from $1 on.
func (cs columns[R]) assignments() string {
	sets := make([]string, len(cs))
	for i, c := range cs {
		sets[i] = c.name + " = $" + strconv.Itoa(i+1)
	}
	return strings.Join(sets, ", ")
}

// setExcluded is for the SET of an ON CONFLICT that takes what the new row has.
func (cs columns[R]) setExcluded() string {
	sets := make([]string, len(cs))
	for i, c := range cs {
		sets[i] = c.name + " = excluded." + c.name
	}
	return strings.Join(sets, ", ")
}

// insert is the beginning of a statement that puts a row into a table.
func (cs columns[R]) insert(table string) string {
	return "INSERT INTO " + table + " (" + cs.names() + ") VALUES (" + cs.params() + ")"
}

// update is a statement that changes the row whose columns named where have the values that are bound next.
func (cs columns[R]) update(table string, where ...string) string {
	sql := "UPDATE " + table + " SET " + cs.assignments()
	for i, name := range where {
		sql += []string{" WHERE ", " AND "}[min(i, 1)] + name + " = $" + strconv.Itoa(len(cs)+i+1)
	}
	return sql
}

// bind binds a row's values.
func (cs columns[R]) bind(s stmt, r *R) stmt {
	if s.err == nil {
		for to, i := Binder(s.Cursor), 0; i < len(cs); i++ {
			cs[i].bind(to, r)
		}
	}
	return s
}

// scan reads a row's values.
func (cs columns[R]) scan(s Scanner, r *R) {
	for i := range cs {
		cs[i].scan(s, r)
	}
}

// The kinds of columns. Each is given where in a row its value stands. An opt column is NULL while the value is
// the zero one, and reads as that.

func text[R any, T ~string](name string, at func(*R) *T) column[R] {
	return column[R]{name,
		func(s Binder, r *R) { s.BindText(string(*at(r))) },
		func(s Scanner, r *R) { *at(r) = T(s.ColumnText()) }}
}

func optText[R any, T ~string](name string, at func(*R) *T) column[R] {
	return column[R]{name,
		func(s Binder, r *R) { bindOptText(s, string(*at(r))) },
		func(s Scanner, r *R) { *at(r) = T(s.ColumnText()) }}
}

func textBytes[R any, T ~[]byte](name string, at func(*R) *T) column[R] {
	return column[R]{name,
		func(s Binder, r *R) { s.BindTextBytes(*at(r)) },
		func(s Scanner, r *R) { *at(r) = s.ColumnBytes() }}
}

func optTextBytes[R any, T ~[]byte](name string, at func(*R) *T) column[R] {
	return column[R]{name,
		func(s Binder, r *R) {
			if v := *at(r); len(v) > 0 {
				s.BindTextBytes(v)
			} else {
				s.BindNull()
			}
		},
		func(s Scanner, r *R) { *at(r) = s.ColumnBytes() }}
}

func optBlob[R any, T ~[]byte](name string, at func(*R) *T) column[R] {
	return column[R]{name,
		func(s Binder, r *R) {
			if v := *at(r); len(v) > 0 {
				s.BindBlob(v)
			} else {
				s.BindNull()
			}
		},
		func(s Scanner, r *R) { *at(r) = s.ColumnBytes() }}
}

func number[R any, T ~int | ~int64](name string, at func(*R) *T) column[R] {
	return column[R]{name,
		func(s Binder, r *R) { s.BindInt(int64(*at(r))) },
		func(s Scanner, r *R) { *at(r) = T(s.ColumnInt()) }}
}

func optNumber[R any, T ~int | ~int64](name string, at func(*R) *T) column[R] {
	return column[R]{name,
		func(s Binder, r *R) {
			if v := int64(*at(r)); v != 0 {
				s.BindInt(v)
			} else {
				s.BindNull()
			}
		},
		func(s Scanner, r *R) { *at(r) = T(s.ColumnInt()) }}
}

func boolean[R any](name string, at func(*R) *bool) column[R] {
	return column[R]{name,
		func(s Binder, r *R) { s.BindInt(bit(*at(r))) },
		func(s Scanner, r *R) { *at(r) = s.ColumnInt() != 0 }}
}

// oneOf is a text for yes and another one for no.
func oneOf[R any](name, yes, no string, at func(*R) *bool) column[R] {
	return column[R]{name,
		func(s Binder, r *R) {
			if *at(r) {
				s.BindText(yes)
			} else {
				s.BindText(no)
			}
		},
		func(s Scanner, r *R) { *at(r) = s.ColumnText() == yes }}
}

// timestamp is NULL for the zero time.
func timestamp[R any](name string, at func(*R) *time.Time) column[R] {
	return column[R]{name,
		func(s Binder, r *R) { s.BindTime(*at(r)) },
		func(s Scanner, r *R) { *at(r) = s.ColumnTime() }}
}

// jsonList is NULL for an empty list.
func jsonList[R, E any](name string, at func(*R) *[]E) column[R] {
	return column[R]{name,
		func(s Binder, r *R) { bindJSON(s, *at(r), len(*at(r)) > 0) },
		func(s Scanner, r *R) { scanJSON(s, at(r)) }}
}

// jsonObject is NULL for nil.
func jsonObject[R, E any](name string, at func(*R) **E) column[R] {
	return column[R]{name,
		func(s Binder, r *R) { bindJSON(s, *at(r), *at(r) != nil) },
		func(s Scanner, r *R) { scanJSON(s, at(r)) }}
}

// jsonMap is NULL for an empty one.
func jsonMap[R any](name string, at func(*R) *map[string]string) column[R] {
	return column[R]{name,
		func(s Binder, r *R) { bindJSON(s, *at(r), len(*at(r)) > 0) },
		func(s Scanner, r *R) { scanJSON(s, at(r)) }}
}

func bindOptText(s Binder, v string) {
	if v != "" {
		s.BindText(v)
	} else {
		s.BindNull()
	}
}

// bit is how a yes or no is stored.
func bit(v bool) int64 { //nolint:revive // flag-parameter: the flag is the value
	if v {
		return 1
	}
	return 0
}

func bindJSON(s Binder, v any, something bool) { //nolint:revive // flag-parameter: it is the NULL
	if !something {
		s.BindNull()
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		s.Fail(fmt.Errorf("store: %w", err))
	}
	s.BindTextBytes(b)
}

// scanJSON reads a column that bindJSON has bound; NULL leaves *v as it is.
func scanJSON[T any](s Scanner, v *T) {
	b := s.ColumnView()
	if b == nil || s.Err() != nil {
		return
	}
	if err := json.Unmarshal(b, v); err != nil {
		s.Fail(fmt.Errorf("store: stored JSON: %w", err))
	}
}
