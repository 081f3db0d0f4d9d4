package retention_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/internal/retention"
)

// append puts so many events on record, a day passes after all.
func (w *world) append(n int) {
	w.t.Helper()
	w.update(func(tx approval.Tx) error {
		for range n {
			if _, err := tx.Append(approval.Event{Type: approval.EventVote, Agent: "bot", Actor: "hana"}); err != nil {
				return err
			}
		}
		return nil
	})
	w.clock.Advance(day)
}

// events are those on record, the oldest first.
func (w *world) events() (es []approval.Event) {
	w.t.Helper()
	if err := w.View(w.t.Context(), func(tx approval.Tx) (err error) {
		es, err = tx.Events(approval.EventQuery{Ascending: true})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return es
}

// removed is what an event says that others were removed.
type removed struct {
	FromSeq int64  `json:"from_seq"`
	ToSeq   int64  `json:"to_seq"`
	Events  int    `json:"events"`
	SHA256  string `json:"sha256"`
	File    string `json:"file"`
}

func (w *world) pruned() (all []removed) {
	w.t.Helper()
	for _, e := range w.events() {
		if e.Type == approval.EventAuditPruned {
			var r removed
			if err := json.Unmarshal(e.Data, &r); err != nil || e.Actor != "system:retention" {
				w.t.Errorf("%+v, %v", e, err)
			}
			all = append(all, r)
		}
	}
	return all
}

func lines(es []approval.Event) string {
	var b strings.Builder
	for _, e := range es {
		b.WriteString(e.ID + " ")
	}
	return b.String()
}

// Of the audit log whole days go, from its beginning on, and an event says of each which seqs it had, and what is the
// sum of it. What is exported first is that.
func TestRule11_WhatGoesOfTheAuditLogIsOnRecord(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		w := newWorld(t) // at ten o'clock
		w.append(3)
		w.append(1)
		w.append(2)
		before := w.events()
		w.clock.Advance(7 * day)
		p := retention.New(w)
		keep := retention.Keep{Audit: 8 * day, Export: dir}
		for _, want := range []int{4, 0} { // days of UTC: at ten of the tenth day, all of two days are more than eight old
			if r, err := p.Prune(t.Context(), keep); err != nil || r.Events != want || r.All() != want {
				t.Errorf("removed %+v, %v, want %d events", r, err, want)
			}
		}
		left := w.events()
		if !strings.HasPrefix(lines(left), lines(before[4:])) || len(left) != 4 {
			t.Errorf("left are %d: %s", len(left), lines(left))
		}
		said := w.pruned()
		if len(said) != 2 {
			t.Fatalf("it says %+v", said)
		}
		for i, of := range [][]approval.Event{before[:3], before[3:4]} {
			s := said[i]
			if s.FromSeq != of[0].Seq || s.ToSeq != of[len(of)-1].Seq || s.Events != len(of) || len(s.SHA256) != 64 ||
				(s.File != "") != (dir != "") {
				t.Errorf("of %s it says %+v", lines(of), s)
			}
			if dir != "" {
				checkExport(t, filepath.Join(dir, s.File), s.SHA256, of)
			}
		}
		if dir != "" && said[0].File != "audit-2026-11-21-000000000001-"+said[0].SHA256[:8]+".ndjson.gz" {
			t.Errorf("the file is %s", said[0].File)
		}
		w.clock.Advance(30 * day)
		if r, err := p.Prune(t.Context(), keep); err != nil || r.Events != 4 {
			t.Errorf("what says so is not removed in its turn: %+v, %v", r, err)
		}
		if last := w.pruned(); len(last) != 2 || last[1].ToSeq != left[3].Seq {
			t.Errorf("at last it says %+v", last)
		}
	}
}

func checkExport(t *testing.T, path, sum string, of []approval.Event) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if is := sha256.Sum256(b); hex.EncodeToString(is[:]) != sum {
		t.Errorf("the sum of %s is not what is on record", path)
	}
	rows := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	if len(rows) != len(of) {
		t.Fatalf("%s has %d lines", path, len(rows))
	}
	for i, row := range rows {
		var e struct{ ID string }
		if err := json.Unmarshal(row, &e); err != nil || e.ID != of[i].ID {
			t.Errorf("line %d: %s, %v", i, row, err)
		}
	}
	if info, err := f.Stat(); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// cutOff is a store that ends a program with its last update.
type cutOff struct {
	retention.Store
	left int
}

var errCutOff = errors.New("the program has ended")

func (c *cutOff) Update(ctx context.Context, about approval.Scope, fn func(approval.Tx) error) error {
	if c.left--; c.left < 0 {
		return errCutOff
	}
	return c.Store.Update(ctx, about, fn)
}

// Whenever the program ends, no event is missing that is not on record as removed, and the next goes on with it.
func TestRule11_APruningThatIsCutOffLeavesNothingUnexplained(t *testing.T) {
	for updates := range 6 {
		w := newWorld(t)
		for range 2 {
			w.append(510) // more than are removed at once
		}
		before := w.events()
		w.clock.Advance(30 * day)
		keep := retention.Keep{Audit: 10 * day}
		r, err := retention.New(&cutOff{w.DB, updates}).Prune(t.Context(), keep)
		if !errors.Is(err, errCutOff) {
			t.Fatalf("after %d updates: %+v, %v", updates, r, err)
		}
		first := w.events()[0].ID
		oldest := slices.IndexFunc(before, func(e approval.Event) bool { return e.ID == first })
		if oldest != r.Events {
			t.Errorf("after %d updates %d events are gone, and %d are said to be", updates, oldest, r.Events)
		}
		to := int64(0)
		for _, s := range w.pruned() {
			to = s.ToSeq
		}
		if to < before[oldest].Seq-1 {
			t.Errorf("after %d updates all before %d is gone, and only what is up to %d is on record", updates,
				before[oldest].Seq, to)
		}
		if _, err := retention.New(w).Prune(t.Context(), keep); err != nil {
			t.Error(err)
		}
		said := w.pruned()
		if len(said) != 2 || len(w.events()) != 2 {
			t.Fatalf("in the end it says %+v", said)
		}
		for i, s := range said {
			if s.FromSeq != before[510*i].Seq || s.ToSeq != before[510*i+509].Seq || s.Events != 510 {
				t.Errorf("in the end it says %+v", said)
			}
		}
	}
}

// shrinking is a store that counts how often it is to shrink.
type shrinking struct {
	retention.Store
	times int
}

func (s *shrinking) Shrink(ctx context.Context) error {
	s.times++
	return s.Store.Shrink(ctx)
}

// Nothing goes that could not be exported first, and all else goes on.
func TestWhatCannotBeExportedStays(t *testing.T) {
	w := newWorld(t)
	w.append(3)
	w.clock.Advance(30 * day)
	keep := retention.Keep{Audit: day, Export: filepath.Join(t.TempDir(), "nothing")}
	s := &shrinking{Store: w}
	if r, err := retention.New(s).Prune(t.Context(), keep); !errors.Is(err, os.ErrNotExist) || r.Events != 0 ||
		!strings.Contains(err.Error(), "could not be exported") || s.times != 1 {
		t.Errorf("removed %+v, %v, and shrank %d times", r, err, s.times)
	}
	if es := w.events(); len(es) != 3 {
		t.Errorf("left are %s", lines(es))
	}
}

// A day with very many events goes in several pieces.
func TestALargeDayGoesInPieces(t *testing.T) {
	w := newWorld(t)
	for range 51 {
		w.update(func(tx approval.Tx) error {
			for range 1000 {
				if _, err := tx.Append(approval.Event{Type: approval.EventVote, Agent: "bot"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w.clock.Advance(30 * day)
	if r, err := retention.New(w).Prune(t.Context(), retention.Keep{Audit: day}); err != nil || r.Events != 51_000 {
		t.Errorf("removed %+v, %v", r, err)
	}
	said := w.pruned()
	if len(said) != 2 || said[0].Events+said[1].Events != 51_000 || said[1].FromSeq != said[0].ToSeq+1 {
		t.Errorf("it says %+v", said)
	}
}

// Two gates that export to one folder leave each other's files alone.
func TestExportsOfTwoGatesDoNotMeet(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		w := newWorld(t)
		w.append(3)
		w.clock.Advance(30 * day)
		if _, err := retention.New(w).Prune(t.Context(), retention.Keep{Audit: day, Export: dir}); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%d files, %v", len(files), err)
	}
}
