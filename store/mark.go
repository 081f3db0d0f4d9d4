package store

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// How far a store has come is also kept in a small file beside it. A store that has come less far than its mark is an
// older file in its place: somebody has restored a backup, and what was used since could be used again.

const markSuffix = ".mark"

// readMark returns how far the store had come that was here before, 0 where nobody knows.
func (d *DB) readMark() (int64, error) {
	text, err := os.ReadFile(d.path + markSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	seq, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s%s is not a number: %w", d.path, markSuffix, err)
	}
	return seq, nil
}

// Restored reports whether the file is an older one than that which was here when the store was open last.
func (d *DB) Restored() bool { return d.restored }

// Mark notes how far the store has come. It is called now and then, and by Close: a backup that is as new as the last
// mark, or newer, is not told from the store itself.
func (d *DB) Mark() error {
	part := d.path + markSuffix + partSuffix
	text := strconv.AppendInt(nil, d.synced.Load(), 10) // what a loss of power can take is not missed
	if err := os.WriteFile(part, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(part, d.path+markSuffix); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
