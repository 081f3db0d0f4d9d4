package postgres

import (
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"countersign/internal/store"
)

// cursor is one execution of a statement.
type cursor struct {
	t    *tx
	sql  string
	args []any
	want int
	err  error

	prefetched *prefetched      // its rows, where they are there
	results    pgx.BatchResults // nil: it has not run
	rows       pgx.Rows
	portion    bool // the rows come in portions
	got        int  // rows of this portion
	fields     []pgconn.FieldDescription
	values     [][]byte
	column     int
}

// inPortion is how many rows are fetched at once where it is not known how many will be read.
const inPortion = 32

func (c *cursor) BindNull()              { c.args = append(c.args, nil) }
func (c *cursor) BindText(v string)      { c.args = append(c.args, encode(v)) }
func (c *cursor) BindTextBytes(v []byte) { c.args = append(c.args, encode(string(v))) }
func (c *cursor) BindBlob(v []byte)      { c.args = append(c.args, v) }
func (c *cursor) BindInt(v int64)        { c.args = append(c.args, v) }

func (c *cursor) BindTime(v time.Time) {
	if v.IsZero() {
		c.BindNull()
		return
	}
	c.args = append(c.args, v.UTC().Truncate(time.Millisecond))
}

func (c *cursor) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *cursor) Err() error { return c.err }

// Want implements [store.Cursor].
func (c *cursor) Want(rows int) { c.want = rows }

// Step implements [store.Cursor].
func (c *cursor) Step() bool {
	if c.err != nil {
		return false
	}
	if c.results == nil && c.prefetched == nil {
		c.run()
	}
	if c.prefetched != nil {
		return c.err == nil && c.stepPrefetched()
	}
	for c.err == nil && c.results != nil {
		if c.rows.Next() {
			c.fields, c.values, c.column = c.rows.FieldDescriptions(), c.rows.RawValues(), 0
			c.got++
			return true
		}
		if c.Fail(c.rows.Err()); c.err != nil || !c.portion || c.got < inPortion {
			return false
		}
		c.err = c.close()
		c.fetch()
	}
	return false
}

// run sends the statement, after what waits to be sent, unless its rows are there.
func (c *cursor) run() {
	if c.want > 0 && !strings.Contains(c.sql, " LIMIT ") {
		c.args = append(c.args, int64(c.want))
		c.sql += " LIMIT $" + strconv.Itoa(len(c.args))
	}
	if c.t.prefetching {
		c.prefetched = c.t.queuePrefetch(c.sql, c.args)
		return
	}
	if c.prefetched, c.err = c.t.findPrefetched(c.sql, c.args); c.prefetched != nil || c.err != nil {
		return
	}
	if c.want >= 0 {
		c.send(c.sql, c.args)
		return
	}
	c.t.queue("DECLARE portions NO SCROLL CURSOR FOR "+c.sql, c.args...)
	c.portion = true
	c.fetch()
}

// stepPrefetched is Step for rows that are there.
func (c *cursor) stepPrefetched() bool {
	if c.got == len(c.prefetched.rows) {
		return false
	}
	c.fields, c.values, c.column = c.prefetched.fields, c.prefetched.rows[c.got], 0
	c.got++
	return true
}

func (c *cursor) fetch() {
	if c.got = 0; c.err == nil {
		c.send("FETCH "+strconv.Itoa(inPortion)+" FROM portions", nil)
	}
}

func (c *cursor) send(sql string, args []any) {
	c.t.refetch()
	c.results, c.err = c.t.send(sql, args)
	if c.err == nil {
		c.rows, c.err = c.results.Query()
	}
}

// close reads what is left of the rows that were sent.
func (c *cursor) close() error {
	c.rows.Close()
	if err := c.rows.Err(); err != nil {
		_ = c.results.Close() // the error is the same
		return err
	}
	return c.results.Close()
}

// Finish implements [store.Cursor].
func (c *cursor) Finish() (changed int, err error) {
	if c.results != nil && c.rows != nil {
		if err := c.close(); c.err == nil {
			c.err = err
		}
		changed = int(c.rows.CommandTag().RowsAffected())
	}
	if c.portion && c.err == nil {
		c.t.queue("CLOSE portions")
	}
	return changed, c.err
}

// next is the value of the next column, nil for NULL.
func (c *cursor) next() (v []byte, f *pgconn.FieldDescription) {
	v, f = c.values[c.column], &c.fields[c.column]
	c.column++
	return v, f
}

func (c *cursor) ColumnText() string { return decode(string(c.ColumnView())) }

func (c *cursor) ColumnBytes() []byte {
	v, f := c.next()
	switch {
	case v == nil:
		return nil
	case f.DataTypeOID != pgtype.ByteaOID:
		return []byte(decode(string(v)))
	}
	var b []byte
	c.Fail(c.t.types().Scan(f.DataTypeOID, f.Format, v, &b))
	return b
}

func (c *cursor) ColumnView() []byte {
	v, _ := c.next()
	return v
}

func (c *cursor) ColumnInt() (n int64) {
	if v, f := c.next(); v != nil {
		c.Fail(c.t.types().Scan(f.DataTypeOID, f.Format, v, &n))
	}
	return n
}

func (c *cursor) ColumnTime() (at time.Time) {
	if v, f := c.next(); v != nil {
		c.Fail(c.t.types().Scan(f.DataTypeOID, f.Format, v, &at))
		at = at.UTC()
	}
	return at
}

var _ store.Cursor = (*cursor)(nil)
