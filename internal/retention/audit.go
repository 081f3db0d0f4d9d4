package retention

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"time"

	"countersign/approval"
	"countersign/internal/history/export"
	"countersign/internal/safefile"
)

const (
	// pieceEvents is how many events are removed by one record of that at most, and pieceBytes how many bytes they have.
	pieceEvents = 50_000
	pieceBytes  = 64 << 20
	// readBytes is about how much of them is read at once.
	readBytes = 1 << 20
)

const day = 24 * time.Hour

// pruned is what the audit log says of the events that were removed from its beginning: all up to ToSeq. It is on
// record before any of them goes, so that none is missing of which nothing is said, whenever the program ends.
type pruned struct {
	FromSeq int64  `json:"from_seq"`
	ToSeq   int64  `json:"to_seq"`
	Events  int    `json:"events"`
	SHA256  string `json:"sha256"` // of the events as NDJSON
	File    string `json:"file,omitempty"`
}

// pruneAudit removes the events that are old, in pieces: each is written to a file, if it is to be, then put on record,
// and then removed.
func (p *Pruner) pruneAudit(ctx context.Context, keep Keep) (removed int, err error) {
	for {
		last, oldest, before := pruned{}, int64(0), time.Time{}
		if err := p.store.View(ctx, func(tx approval.Tx) (err error) {
			if oldest, _, err = tx.SeqRange(); err == nil {
				last, err = lastPruned(tx)
			}
			before = tx.Now().Add(-keep.Audit).UTC().Truncate(day)
			return err
		}); err != nil || oldest == 0 {
			return removed, err
		}
		if oldest <= last.ToSeq { // or it was cut off
			n, err := p.removeEvents(ctx, min(last.ToSeq, oldest+lookAtOnce-1))
			if removed += n; err != nil {
				return removed, err
			}
			continue
		}
		next, err := p.readPiece(ctx, oldest, before, keep.Export)
		if err == nil && next.Events > 0 {
			err = p.recordPiece(ctx, next)
		}
		if err != nil || next.Events == 0 {
			return removed, err
		}
	}
}

// lastPruned is what was put on record last, the zero value where nothing was.
func lastPruned(tx approval.Tx) (last pruned, err error) {
	es, err := tx.Events(approval.EventQuery{Type: approval.EventAuditPruned, Limit: 1})
	if err != nil || len(es) == 0 {
		return last, err
	}
	if err := json.Unmarshal(es[0].Data, &last); err != nil {
		return last, fmt.Errorf("audit event %d: %w", es[0].Seq, err)
	}
	return last, nil
}

// recordPiece puts on record that a piece is removed now, unless another program has.
func (p *Pruner) recordPiece(ctx context.Context, next pruned) error {
	return p.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) error {
		last, err := lastPruned(tx)
		if err != nil || last.ToSeq >= next.FromSeq {
			return err
		}
		_, err = tx.Append(approval.Event{Type: approval.EventAuditPruned, Actor: "system:retention",
			Data: approval.EventData(next)})
		return err
	})
}

// removeEvents removes some events, all that are left up to a seq, and lets others have the store then.
func (p *Pruner) removeEvents(ctx context.Context, upTo int64) (n int, err error) {
	if err = p.store.Update(ctx, approval.OfNothing(), func(tx approval.Tx) (err error) {
		n, err = tx.RemoveEvents(upTo)
		return err
	}); err != nil {
		return 0, err
	}
	return n, wait(ctx)
}

// readPiece reads the events that are removed next: of one day, which ends before a time, from the oldest on. They are
// written to a file in dir, unless that is "".
func (p *Pruner) readPiece(ctx context.Context, oldest int64, before time.Time, dir string) (next pruned, err error) {
	w := newPieceWriter(dir)
	for q := (approval.EventQuery{AfterSeq: oldest - 1, Ascending: true, Limit: lookAtOnce, Bytes: readBytes}); ; {
		var es []approval.Event
		if err := p.store.View(ctx, func(tx approval.Tx) (err error) {
			es, err = tx.Events(q)
			return err
		}); err != nil {
			return next, err
		}
		n, err := w.write(es, before)
		if err != nil {
			return next, err
		}
		if n < len(es) || n == 0 || w.isFull() {
			break
		}
		q.AfterSeq = es[n-1].Seq
	}
	if w.piece.Events == 0 {
		return next, nil
	}
	return w.finish(dir)
}

// pieceWriter writes a piece as NDJSON, compressed if a file is made of it, and adds it up.
type pieceWriter struct {
	piece pruned
	day   time.Time
	bytes int
	sum   hash.Hash
	file  bytes.Buffer
	zip   *gzip.Writer // nil: no file is made
}

func newPieceWriter(dir string) *pieceWriter {
	w := &pieceWriter{sum: sha256.New()}
	if dir != "" {
		w.zip = gzip.NewWriter(&w.file)
	}
	return w
}

func (w *pieceWriter) isFull() bool { return w.piece.Events >= pieceEvents || w.bytes >= pieceBytes }

// write writes those events that belong to the piece, and returns how many.
func (w *pieceWriter) write(es []approval.Event, before time.Time) (n int, err error) {
	if w.piece.Events == 0 && len(es) > 0 {
		w.piece.FromSeq, w.day = es[0].Seq, es[0].At.UTC().Truncate(day)
	}
	// On a database the times of events may be a little out of order: those of the day before do not end the piece.
	for n < len(es) && es[n].At.Before(before) && es[n].At.Before(w.day.Add(day)) {
		w.bytes += es[n].Size()
		w.piece.ToSeq = es[n].Seq
		n++
	}
	w.piece.Events += n
	var to io.Writer = w.sum
	if w.zip != nil {
		to = io.MultiWriter(w.sum, w.zip)
	}
	return n, export.WriteLines(to, export.Events, es[:n])
}

// finish returns what was written, which is on the disk then.
func (w *pieceWriter) finish(dir string) (pruned, error) {
	w.piece.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	if w.zip == nil {
		return w.piece, nil
	}
	if err := w.zip.Close(); err != nil {
		return pruned{}, err
	}
	// Other events have another name: those of another gate, or what a program saw of them that was too slow.
	w.piece.File = fmt.Sprintf("audit-%s-%012d-%.8s.ndjson.gz", w.day.Format(time.DateOnly), w.piece.FromSeq,
		w.piece.SHA256)
	if err := safefile.Write(filepath.Join(dir, w.piece.File), w.file.Bytes(), 0o600); err != nil {
		return pruned{}, fmt.Errorf("the events that are to be removed could not be exported first: %w", err)
	}
	return w.piece, nil
}
