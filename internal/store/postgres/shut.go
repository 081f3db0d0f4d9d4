package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/schema"
)

// Two things keep a program from a database for good, also while it runs: a newer program has changed the tables so
// that it cannot work on them, or the rows were taken to a file. Each transaction that writes looks, behind its lock.

// shutIs is why the tables are shut to this program, with what there is to tell of it; "": they are not.
var shutIs = `coalesce('` + movedTo + `' || moved_to, CASE WHEN min_program > ` + ownSchema + ` THEN '` + outdated +
	`' || min_program END, '')`

// isOpen is for a statement that looks without a transaction.
var isOpen = `moved_to IS NULL AND min_program <= ` + ownSchema

var ownSchema = strconv.FormatInt(schema.VersionPostgres(), 10)

const (
	movedTo  = "moved:"
	outdated = "outdated:"
)

// errShut is what a program is told to which the tables are shut.
func errShut(why string) *approval.Error {
	if to, moved := strings.CutPrefix(why, movedTo); moved {
		return unavailable("The store was moved from this database to "+decode(to)+"; start the gate there. To bring it "+
			"back, make an empty database, and run countersign migrate the other way.", nil)
	}
	return unavailable(fmt.Sprintf("A newer version of the program has changed the store's tables, and this one cannot "+
		"work on them any more (they need schema %s; this program knows %s); run the newer version.",
		strings.TrimPrefix(why, outdated), ownSchema), nil)
}

// checkShut looks at it once, before a store is opened.
func checkShut(ctx context.Context, db *sql.DB) error {
	var why string
	err := db.QueryRowContext(ctx, `SELECT `+shutIs+` FROM store_state`).Scan(&why)
	if err == nil && why != "" {
		return errShut(why)
	}
	return err
}
