package store

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Each table's description and the table itself have the same columns. What a query names beside is no row's.
func TestColumnsAreTheTables(t *testing.T) {
	c := connect(t)
	described := map[string]string{
		"approval_requests":      requestColumns.names(),
		"approval_notifications": notificationColumns.names(),
		"audit_events":           eventColumns.names(),
		"recent_endings":         keyColumns + ", " + recentColumns.names() + ", newest",
		"tool_pins":              pinColumns.names(),
		"approval_votes":         "request, nth, " + voteColumns.names(),
		"delegations":            delegationColumns.names(),
		"epochs":                 epochColumns.names(),
		"policies":               "digest, source",
		"grants":                 grantColumns.names(),
		"grant_uses":             grantUseColumns.names(),
		"said":                   "agent, server, tool_name, " + saidColumns.names(),
		"signin_links":           linkColumns.names(),
		"signin_sessions":        sessionColumns.names(),
		"passkey_owners":         passkeyOwnerColumns.names(),
		"passkeys":               passkeyColumns.names(),
	}
	for table, names := range described {
		s := c.PrepareCached(`SELECT name FROM pragma_table_info($1)`)
		s.BindText(table)
		var have []string
		for s.Step() {
			have = append(have, s.ColumnText())
		}
		if _, err := s.Finish(); err != nil {
			t.Error(err)
		}
		want := strings.Split(names, ", ")
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("%s has %v, its description %v", table, have, want)
		}
	}
}

// Every field of a row has a column of its own: one that was forgotten, or stood twice, would be lost.
func TestEveryFieldHasAColumn(t *testing.T) {
	everyFieldHasAColumn(t, requestColumns, "Votes")       // rows of their own
	everyFieldHasAColumn(t, notificationColumns, "Narrow") // which says what was read
	everyFieldHasAColumn(t, eventColumns)
	everyFieldHasAColumn(t, recentColumns)
	everyFieldHasAColumn(t, pinColumns)
	everyFieldHasAColumn(t, voteColumns)
	everyFieldHasAColumn(t, delegationColumns)
	everyFieldHasAColumn(t, epochColumns)
	everyFieldHasAColumn(t, grantColumns)
	everyFieldHasAColumn(t, grantUseColumns)
	everyFieldHasAColumn(t, linkColumns)
	everyFieldHasAColumn(t, sessionColumns)
	everyFieldHasAColumn(t, saidColumns, "Args") // of its request
}

// fieldsOf are the fields of a row, those of what it embeds instead of that.
func fieldsOf[R any]() []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[R]()), func(f reflect.StructField) bool {
		return f.Anonymous
	})
}

// everyFieldHasAColumn lets each column write into an empty row, and sees which field it was.
func everyFieldHasAColumn[R any](t *testing.T, cs columns[R], except ...string) {
	t.Helper()
	conn := connect(t)
	seen := map[string]string{}
	for _, c := range cs {
		for _, sample := range []string{`'2026-11-21T12:00:00.000Z'`, `1`, `'approve'`, `'["x"]'`, `'[{"key":"k"}]'`, `'{}'`,
			`'{"any_args":true}'`} {
			var r R
			s := conn.PrepareCached(`SELECT ` + sample)
			s.Step()
			c.scan(s, &r)
			if _, err := s.Finish(); err != nil {
				continue // of another kind
			}
			for _, f := range fieldsOf[R]() {
				if !reflect.ValueOf(r).FieldByIndex(f.Index).IsZero() {
					if was, ok := seen[f.Name]; ok && was != c.name {
						t.Errorf("%s is stored in %s and in %s", f.Name, was, c.name)
					}
					seen[f.Name] = c.name
				}
			}
		}
	}
	for _, f := range fieldsOf[R]() {
		if name := f.Name; seen[name] == "" && !slices.Contains(except, name) {
			t.Errorf("%v.%s has no column", reflect.TypeFor[R](), name)
		}
	}
	if len(seen) != len(cs) {
		t.Errorf("%d columns for %d fields of %v", len(cs), len(seen), reflect.TypeFor[R]())
	}
}
