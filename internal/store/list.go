package store

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// list puts a SELECT together out of the conditions that a query has set. Values are parameters, so
// that there are few texts, each prepared once.
type list struct {
	sql  strings.Builder
	args []any // string, int64 or time.Time
	ands int
}

func newList(sql string) *list {
	l := &list{}
	l.sql.WriteString(sql)
	return l
}

// along is an index along which a table is listed, and the condition by which it has the rows.
type along struct {
	index string // "": which one is left to SQLite
	cond  string // "": all rows
	args  []any
}

// byKey is the index of events: there is none beside the table, which is in order of seq.
const byKey = "the key"

// newListAlong names the index: SQLite knows nothing of how many rows a condition leaves, and would go by another.
func newListAlong(columns, table string, a along) *list {
	l := newList("SELECT " + columns + " FROM " + table)
	switch a.index {
	case "":
	case byKey:
		l.add(" NOT INDEXED")
	default:
		l.add(" INDEXED BY " + a.index)
	}
	if a.cond != "" {
		l.where(a.cond, a.args...)
	}
	return l
}

// where adds a condition; each ? in it stands for the next of args.
func (l *list) where(cond string, args ...any) {
	if l.ands == 0 {
		l.sql.WriteString(" WHERE ")
	} else {
		l.sql.WriteString(" AND ")
	}
	l.ands++
	l.add(cond, args...)
}

func (l *list) add(text string, args ...any) {
	for _, a := range args {
		before, after, _ := strings.Cut(text, "?")
		l.args = append(l.args, a)
		l.sql.WriteString(before + "$" + strconv.Itoa(len(l.args)))
		text = after
	}
	l.sql.WriteString(text)
}

// equal adds a condition unless the value is empty.
func (l *list) equal(column, value string) {
	if value != "" {
		l.where(column+" = ?", value)
	}
}

// idAhead is how far the time in an id may be ahead of its row's: that many ids in one millisecond carry into the next.
const idAhead = time.Millisecond

// whereBetween narrows to rows made at or after a time, and before another; the zero time is no bound.
func (l *list) whereBetween(column string, since, until time.Time) {
	if since = ceil(since); !since.IsZero() {
		l.where(column+" >= ?", since)
	}
	if until = ceil(until); !until.IsZero() {
		l.where(column+" < ?", until)
	}
}

// ids narrows to ids from one on, and before another, "" for no bound, that rows of a time can have: an id begins with
// the time at which its row was made, so that what is older or newer need not be read. There is one bound on each side:
// of two SQLite begins with the first, and goes through all that the second leaves out.
func (l *list) ids(from, end string, since, until time.Time) {
	if since = ceil(since); !since.IsZero() {
		from = max(from, firstID(since))
	}
	if until = ceil(until); !until.IsZero() {
		last := firstID(until.Add(idAhead))
		end = min(cmp.Or(end, last), last)
	}
	if from != "" {
		l.where("id >= ?", from)
	}
	if end != "" {
		l.where("id < ?", end)
	}
}

func (l *list) bind(s stmt) stmt {
	for _, a := range l.args {
		switch v := a.(type) {
		case string:
			s.BindText(v)
		case int64:
			s.BindInt(v)
		case time.Time:
			s.BindTime(v)
		}
	}
	return s
}
