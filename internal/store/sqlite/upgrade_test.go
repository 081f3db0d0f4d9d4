package sqlite

import (
	"compress/gzip"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/approval"
)

// Of testdata/schema7.db.gz, which the program of schema 7 made: what each request was left as.
const (
	oldPending   = "01M83BAD8CDNSATWFHKG0X2JWJ"
	oldApproved  = "01M83BAD8Q1YYZ0G8ZE5R4HP0C"
	oldUsed      = "01M83BAD908WATKT7SPETFQKF4"
	oldDenied    = "01M83BAD94SKZYFDKT22F2450P"
	oldCancelled = "01M83BAD98HX1HGSEJP38GCM37" // by its agent
	oldTakenBack = "01M83BAD9DNAKZVZMR6DVZGMZY" // approved, and then cancelled
	oldExpired   = "01M83BAD9HNY3MYHF2BXGKBD8P"
	oldBatched   = "01M83BADAJPESCWXEMDAV71Q14" // of two, both pending
)

// oldNow is a while after it was made, when what waits there is not due.
func oldNow() time.Time { return time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC) }

// oldStore writes a database of schema 7 to a folder of its own.
func oldStore(t *testing.T) string {
	t.Helper()
	packed, err := os.Open("testdata/schema7.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	for path, content := range map[string][]byte{path: file, path + markSuffix: []byte("1\n")} { // as it was written then
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// rowsOf returns the rows of a table as SQL has them, those columns of them that columns names: all for none.
func rowsOf(t *testing.T, path, table string, columns ...string) (names, rows []string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	query := func(text string) (got []string) {
		rs, err := db.Query(text)
		if err != nil {
			t.Fatal(err)
		}
		defer rs.Close()
		for rs.Next() {
			var s string
			if err := rs.Scan(&s); err != nil {
				t.Fatal(err)
			}
			got = append(got, s)
		}
		if err := rs.Err(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if names = columns; len(names) == 0 {
		names = query(`SELECT name FROM pragma_table_info('` + table + `')`)
	}
	return names, query(`SELECT quote(` + strings.Join(names, `) || '|' || quote(`) + `) FROM ` + table + ` ORDER BY 1`)
}

// A store of before votes keeps every row as it was. Only whoever approved what was not used yet is on record as having
// voted.
func TestUpgradingToVotes(t *testing.T) {
	path := oldStore(t)
	type table struct{ names, rows []string }
	tables := map[string]table{}
	for _, name := range []string{
		"approval_requests", "request_sessions", "approval_notifications", "audit_events", "recent_endings",
	} {
		names, rows := rowsOf(t, path, name)
		if tables[name] = (table{names, rows}); len(rows) == 0 {
			t.Fatalf("%s has no rows to keep", name)
		}
	}
	d := open(t, Options{Path: path, Now: oldNow})
	for name, before := range tables {
		_, after := rowsOf(t, path, name, before.names...)
		after = slices.DeleteFunc(after, func(row string) bool {
			return strings.Contains(row, string(approval.EventAuditGap))
		})
		if !slices.Equal(after, before.rows) {
			t.Errorf("%s: got\n%s\nbefore\n%s", name, strings.Join(after, "\n"), strings.Join(before.rows, "\n"))
		}
	}
	if _, ok := rowsOf(t, path, "pragma_integrity_check"); !slices.Equal(ok, []string{"'ok'"}) {
		t.Errorf("the database: %q", ok)
	}
	want := map[string]string{
		oldPending: "pending", oldApproved: "approved", oldUsed: "used", oldDenied: "denied", oldCancelled: "cancelled",
		oldTakenBack: "cancelled", oldExpired: "expired", oldBatched: "pending",
	}
	view(t, d, func(tx approval.Tx) error {
		rs, err := tx.Requests(approval.RequestQuery{})
		for _, r := range rs {
			state := string(r.Status)
			if !r.ConsumedAt.IsZero() {
				state = "used"
			}
			if w := want[r.ID]; w != "" && w != state {
				t.Errorf("%s is %s, want %s", r.ID, state, w)
			}
			if r.Need != nil || r.Stage != 0 || r.Who != "" || r.EndCode != "" || r.Policy != "" || r.Replaces != "" ||
				r.ReplacedBy != "" || !r.ExtendedAt.IsZero() {
				t.Errorf("made up: %+v", r)
			}
			var votes []approval.Vote
			if r.ID == oldApproved {
				votes = []approval.Vote{{
					Stage: 1, Person: "hana", Approve: true, Reason: "Looks right.", At: r.ResolvedAt, Via: approval.ViaAPI,
				}}
			}
			got, err := tx.Votes(r.ID)
			if !reflect.DeepEqual(got, votes) || err != nil {
				t.Errorf("votes on %s: %+v, %v, want %+v", r.ID, got, err, votes)
			}
		}
		waiting, err2 := tx.Requests(approval.RequestQuery{Status: approval.Pending})
		pending := slices.DeleteFunc(rs, func(r approval.Request) bool { return r.Status != approval.Pending })
		if !reflect.DeepEqual(waiting, pending) || len(waiting) < 2 {
			t.Errorf("of those that wait, listed by themselves: %d, want %d", len(waiting), len(pending))
		}
		return errors.Join(err, err2)
	})
}

// What was live in a store of before votes is found by its call, decided, and used once.
func TestLiveRequestsSurviveTheUpgrade(t *testing.T) {
	d := open(t, Options{Path: oldStore(t), Now: oldNow})
	for _, id := range []string{oldPending, oldApproved, oldBatched} {
		var r approval.Request
		view(t, d, func(tx approval.Tx) (err error) {
			r, err = tx.Request(id)
			if err != nil {
				return err
			}
			live, err := tx.Live(r.Key())
			if !reflect.DeepEqual(live, r) {
				t.Errorf("live of the key of %s: %+v, want %+v", id, live, r)
			}
			return err
		})
		update(t, d, func(tx approval.Tx) error {
			again := r
			again.ID = tx.NewID()
			if err := tx.InsertRequest(again); !errors.Is(err, approval.ErrLiveExists) {
				t.Errorf("a second live request beside %s: %v", id, err)
			}
			if r.Status == approval.Pending {
				v := approval.Vote{Stage: 1, Person: "ken", Approve: true, At: tx.Now(), Via: approval.ViaWeb}
				if err := tx.PutVote(id, v); err != nil {
					t.Errorf("a vote on %s: %v", id, err)
				}
				ok, err := tx.Resolve(approval.Resolution{
					ID: id, Status: approval.Approved, At: tx.Now(), By: "ken", Via: approval.ViaWeb, UseBy: tx.Now().Add(time.Hour),
				})
				if !ok || err != nil {
					t.Errorf("deciding %s: %v, %v", id, ok, err)
				}
			}
			for n, want := range []bool{true, false} {
				ok, err := tx.Consume(id, false, "")
				if ok != want || err != nil {
					t.Errorf("use %d of %s: %v, %v", n+1, id, ok, err)
				}
			}
			return nil
		})
	}
}
