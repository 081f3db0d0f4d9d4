package sqlite

import (
	"time"

	"countersign/internal/store/sqlite/sqlite3"
)

// storedState is the row of store_state: what was given out last, and where the clock stood then.
type storedState struct {
	seq     int64
	lastID  string
	clock   clockState
	endings int64  // the resolved_seq given out last; -1: they were taken from seq
	life    string // which store it is, beside copies of it and other gates'
	logged  int64  // up to which event of the event log they are in the database
}

// stateColumns are those of store_state, in the order in which bind and scanState have them.
const stateColumns = `seq, at, last_id, ahead_ms, set_back_at, set_back_ms, jumped_at, boot_id, boot_ms, ` +
	`accepted_ms, logged, endings, life`

func (r *storedState) bind(s *sqlite3.Stmt) {
	s.BindInt(r.seq)
	s.BindTime(fromEpoch(r.clock.at))
	s.BindText(r.lastID)
	s.BindInt(r.clock.ahead.Milliseconds())
	s.BindTime(fromEpoch(r.clock.setBack))
	s.BindInt(r.clock.by.Milliseconds())
	s.BindTime(fromEpoch(r.clock.jumped))
	if r.clock.boot != "" {
		s.BindText(r.clock.boot)
	} else {
		s.BindNull()
	}
	s.BindInt(r.clock.elapsed.Milliseconds())
	s.BindInt(r.clock.accepted.Milliseconds())
	s.BindInt(r.logged)
	s.BindInt(r.endings)
	s.BindText(r.life)
}

func scanState(s *sqlite3.Stmt) (r storedState) {
	milliseconds := func() time.Duration { return time.Duration(s.ColumnInt()) * time.Millisecond }
	r.seq, r.clock.at, r.lastID = s.ColumnInt(), sinceEpoch(s.ColumnTime()), s.ColumnText()
	r.clock.ahead = milliseconds()
	r.clock.setBack, r.clock.by = sinceEpoch(s.ColumnTime()), milliseconds()
	r.clock.jumped = sinceEpoch(s.ColumnTime())
	r.clock.boot, r.clock.elapsed = s.ColumnText(), milliseconds()
	r.clock.accepted = milliseconds()
	r.logged, r.endings, r.life = s.ColumnInt(), s.ColumnInt(), s.ColumnText()
	return r
}
