package sqlite

import (
	"countersign/approval"
	"errors"
	"time"
)

func (t *tx) Recent(k approval.Key) (approval.Recent, error) {
	if err := t.readable(); err != nil {
		return approval.Recent{}, err
	}
	r, err := one(t, bindKey(t.c.Stmt(selectRecent), k), recentColumns.scan)
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Recent{}, nil
	}
	return r, err
}

func (t *tx) PutRecent(k approval.Key, r approval.Recent) error {
	if err := t.writable(); err != nil {
		return err
	}
	if r == (approval.Recent{}) {
		_, err := t.changed(bindKey(t.c.Stmt(deleteRecent), k))
		return err
	}
	newest := r.DeniedAt
	if r.Use != nil && r.Use.ConsumedAt.After(newest) {
		newest = r.Use.ConsumedAt
	}
	_, err := t.changed(recentColumns.bind(bindKey(t.c.Stmt(putRecent), k), &r).BindTime(newest))
	return err
}

func (t *tx) FirstSight(eventID string) (bool, error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	return t.changed(t.c.Stmt(firstSight).BindText(eventID).BindTime(t.at))
}

func (t *tx) Prune(events, endings time.Time, limit int) (int, error) {
	if err := t.writable(); err != nil {
		return 0, err
	}
	seen, err := t.c.Stmt(pruneSeen).BindTime(events).BindInt(int64(limit)).Exec()
	if err != nil {
		return 0, t.fail(err)
	}
	ended, err := t.c.Stmt(pruneEnded).BindTime(endings).BindInt(int64(limit)).Exec()
	if err != nil {
		return 0, t.fail(err)
	}
	t.w.changes = t.w.changes || seen+ended > 0
	return seen + ended, nil
}
