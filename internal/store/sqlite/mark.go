package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"countersign/approval"
	"countersign/internal/safefile"
	"countersign/internal/store/sqlite/sqlite3"
)

// Which file lay here last, and how far it had come, is also kept in a small file beside it, the mark. A file that is
// another one, or has come less far, is an older one in its place: the operator has restored a backup, and what was
// used since could be used again. Which one it is tells its life, a random text that a store gets when it is made and
// anew whenever it was restored: seqs alone would not tell a file from another gate.
//
// The mark follows each commit that is synced, before any caller is answered, so that not even the death of the process
// leaves it behind; it is synced every few seconds. It is never ahead of what is on the disk.
//
// A copy that the program has made (copyTo) says so itself. Both come to the same: the store is restored until
// [DB.AcceptRestored], over any number of starts.

const markSuffix = ".mark"

// copiedVersion is the user_version of a copy, and of a store that was restored and not accepted yet. It stands in the
// header, where it can be set whatever tables the file has; nothing else of ours uses it.
const copiedVersion = 1

// mark is the file beside the store.
type mark struct {
	path string
	life string

	mu     sync.Mutex
	f      *os.File // nil: it is to be made
	noted  int64    // what it says
	synced int64    // and outlives a loss of power; -1: nothing
	broken error    // it could not be written last
}

// read takes up what the mark says of the store that was here last.
func (m *mark) read() (seq int64, life string, err error) {
	f, err := openOwn(m.path, 0)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, 128))
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, "", err
	}
	number, life, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if seq, err = strconv.ParseInt(number, 10, 64); err != nil {
		return 0, "", fmt.Errorf("%s does not say how far the store has come: %w", m.path, err)
	}
	return seq, life, nil
}

// line is what the mark says. It is always as long, and shorter than what a disk writes at once.
func (m *mark) line() []byte { return fmt.Appendf(nil, "%019d %s\n", m.noted, m.life) }

// note has the mark follow a commit.
func (m *mark) note(seq int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq == m.noted {
		return
	}
	m.noted = seq
	if m.f == nil {
		return
	}
	if _, err := m.f.WriteAt(m.line(), 0); err != nil {
		m.giveUp(err)
	}
}

// giveUp has the file made anew by the next sync.
func (m *mark) giveUp(err error) {
	m.broken = errors.Join(err, m.f.Close())
	m.f = nil
}

// sync sees to it that the mark is there, and on the disk.
func (m *mark) sync() error {
	m.mu.Lock()
	if m.f != nil && !isStill(m.path, m.f) {
		m.giveUp(fmt.Errorf("%s was removed, or something else put in its place", m.path))
	}
	if m.f == nil {
		defer m.mu.Unlock()
		return m.make()
	}
	f, noted, done := m.f, m.noted, m.noted == m.synced
	m.mu.Unlock() // no commit waits for the disk here
	if done {
		return nil
	}
	if err := f.Sync(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = noted
	return nil
}

// make writes the file and opens it.
func (m *mark) make() (err error) {
	if err := safefile.Write(m.path, m.line(), 0o600); err != nil {
		return errors.Join(m.broken, err)
	}
	if m.f, err = openOwn(m.path, 0); err != nil {
		return err
	}
	m.synced, m.broken = m.noted, nil
	return nil
}

func (m *mark) close() error {
	err := m.sync()
	if m.f != nil {
		err = errors.Join(err, m.f.Close())
	}
	return err
}

// whyRestored says why the file is taken for an older one than that which was here last, "" if it is not.
func (d *DB) whyRestored(c *sqlite3.Conn, found int64, life string) (why string, err error) {
	version := c.Prepare("PRAGMA user_version")
	defer version.Finalize()
	copied := version.Step() && version.ColumnInt() != 0
	if _, err := version.Finish(); err != nil {
		return "", err
	}
	marked, markedLife, err := d.mark.read()
	if strange, ok := errors.AsType[*strangeFile](err); ok {
		return "", openFault(d.path, strange)
	}
	switch {
	case copied:
		return "it was made as a backup, before an upgrade, or by countersign migrate", nil
	case errors.Is(err, fs.ErrNotExist) && found == 0:
		return "", nil // it is new
	case errors.Is(err, fs.ErrNotExist):
		return "its mark, " + d.mark.path + ", is missing", nil
	case err != nil:
		return "its mark cannot be read: " + err.Error(), nil
	case markedLife != life && markedLife != "": // without one it was written by an older program
		return "it is another store than the one that was here before", nil
	case found < marked:
		return fmt.Sprintf("it ends with event %d, and the one that was here before had %d", found, marked), nil
	}
	return "", nil
}

// recognize finds out whether the store is the one that was here last, before anything is changed in it. If it is
// not, that is in the file itself from then on.
func (d *DB) recognize(c *sqlite3.Conn, kept *storedState) error {
	d.mark = &mark{path: d.path + markSuffix, life: kept.life, noted: kept.seq, synced: -1}
	why, err := d.whyRestored(c, kept.seq, kept.life)
	if err != nil {
		return err
	}
	d.restored = why != ""
	if !d.restored && kept.life != "" {
		if d.mark.f, err = openOwn(d.mark.path, 0); errors.Is(err, fs.ErrNotExist) {
			return nil // no event yet: it is made
		}
		return err
	}
	if d.restored {
		d.log.Warn("the store is taken for a backup that was restored: what waits in it, and approvals not used yet, may "+
			"have been used since", slog.String("because", why))
	}
	kept.life = rand.Text()
	d.mark.life = kept.life
	sqls := []string{"BEGIN IMMEDIATE", "UPDATE store_state SET life = '" + kept.life + "'", "COMMIT"}
	if d.restored {
		sqls = slices.Insert(sqls, 1, fmt.Sprintf("PRAGMA user_version = %d", copiedVersion))
	}
	for _, sql := range sqls {
		if err := c.Exec(sql); err != nil {
			return err
		}
	}
	return nil
}

// WasRestored reports whether the file is another or an older one than that which was here when the store was open
// last, and the operator has not accepted that yet.
func (d *DB) WasRestored() bool { return d.restored }

// AcceptRestored is called when all that a restored store had open was ended: it is a store as any other then.
func (d *DB) AcceptRestored(ctx context.Context) error {
	if !d.restored {
		return nil
	}
	return d.Update(ctx, approval.WholeStore(), func(x approval.Tx) error {
		t := x.(*tx)
		if err := t.MayWrite(); err != nil {
			return err
		}
		t.w.changes = true
		return t.Fail(t.c.Exec("PRAGMA user_version = 0"))
	})
}

// Mark sees to it that the mark outlives a loss of power. It is called every few seconds.
func (d *DB) Mark() error {
	if err := d.mark.sync(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
