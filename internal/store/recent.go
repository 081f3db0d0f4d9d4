package store

import (
	"countersign/approval"
	"errors"
	"time"
)

func (t memory) Recent(k approval.Key) (approval.Recent, error) {
	r, err := one(bindKey(t.read(selectRecent), k), recentColumns.scan)
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Recent{}, nil
	}
	return r, err
}

func (t memory) PutRecent(k approval.Key, r approval.Recent) error {
	if r == (approval.Recent{}) {
		return bindKey(t.write(deleteRecent), k).put()
	}
	newest := r.DeniedAt
	if r.Use != nil && r.Use.ConsumedAt.After(newest) {
		newest = r.Use.ConsumedAt
	}
	return recentColumns.bind(bindKey(t.write(putRecent), k), &r).time(newest).put()
}

func (t memory) FirstSight(eventID string) (bool, error) {
	return t.write(firstSight).text(eventID).time(t.Now()).expect()
}

func (t memory) Prune(events, endings time.Time, limit int) (int, error) {
	seen, err := t.write(pruneSeen).time(events).number(int64(limit)).exec()
	if err != nil {
		return 0, err
	}
	ended, err := t.write(pruneEnded).time(endings).number(int64(limit)).exec()
	if err != nil {
		return 0, err
	}
	return seen + ended, nil
}
