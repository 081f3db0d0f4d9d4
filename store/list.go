package store

import (
	"strconv"
	"strings"
	"time"

	"countersign/store/sqlite3"
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

func (l *list) bind(c *sqlite3.Conn) *sqlite3.Stmt {
	s := c.Cached(l.sql.String())
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
