package sqlite

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"countersign/approval"
	"countersign/internal/testkit"
)

// gapsIn are the reasons and data of what is told to be missing.
func gapsIn(t *testing.T, d *DB) (gaps []string) {
	t.Helper()
	_, es := toolsIn(t, d)
	for _, e := range es {
		if e.Type == approval.EventAuditGap && e.Reason != "power_may_have_failed" {
			gaps = append(gaps, e.Reason+" "+string(e.Data))
		}
	}
	return gaps
}

// withSum gives a body the head that a frame has.
func withSum(body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	return append(binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, castagnoli)), body...)
}

// changed is a frame of an event that no gate writes, whole all the same.
func changedFrame(position int64, change func(e *approval.Event)) []byte {
	e := allowedCall("bad")
	e.At = time.UnixMilli(1_790_000_000_123)
	change(&e)
	return appendFrame(nil, position, &e)
}

// threeFrames are where the frames of a, b and c begin in a log, and where the last ends.
func threeFrames(t *testing.T, file []byte) (at [4]int) {
	t.Helper()
	for i := range 3 {
		body, position, whole := frameAt(file[at[i]:])
		if !whole || position != int64(i+1) {
			t.Fatalf("frame %d has position %d, whole: %t", i, position, whole)
		}
		at[i+1] = at[i] + frameHead + len(body)
	}
	return at
}

// Whatever became of one frame, the others are on record, and that it is missing.
func TestRule11_ADamagedFrameHidesNoOther(t *testing.T) {
	whole := open(t, Options{})
	holdsOff(whole)
	logged(t, whole, "a", "b", "c")
	files := readFiles(t, dies(t, whole), "", "-wal", eventLogSuffix)
	at := threeFrames(t, files[eventLogSuffix])
	instead := func(change func(e *approval.Event)) func([]byte) []byte {
		return func(b []byte) []byte { return slices.Concat(b[:at[1]], changedFrame(2, change), b[at[2]:]) }
	}
	flipped := func(i int) func([]byte) []byte { return func(b []byte) []byte { b[i] ^= 1; return b } }
	known, unknown := `event_log_damaged {"records":1}`, `event_log_damaged {"records":0}`
	for name, c := range map[string]struct {
		change    func([]byte) []byte
		want, gap string
	}{
		"its text":          {flipped(at[2] - 2), "a c", known},
		"its length":        {flipped(at[1]), "a c", known},
		"its sum":           {flipped(at[1] + 4), "a c", known},
		"its position":      {flipped(at[1] + frameHead), "a c", known},
		"all of it":         {func(b []byte) []byte { clear(b[at[1]:at[2]]); return b }, "a c", known},
		"the first":         {func(b []byte) []byte { copy(b, bytes.Repeat([]byte{0xff}, at[1])); return b }, "b c", known},
		"the last":          {flipped(at[3] - 2), "a b", known},
		"two":               {func(b []byte) []byte { clear(b[5:at[2]]); return b }, "c", `event_log_damaged {"records":2}`},
		"the only one":      {func(b []byte) []byte { return flipped(at[1] - 1)(b[:at[1]]) }, "", known},
		"what says which":   {func(b []byte) []byte { return flipped(frameHead + 3)(b[:at[1]]) }, "", unknown},
		"bytes before all":  {func(b []byte) []byte { return append([]byte("garbage"), b...) }, "a b c", unknown},
		"bytes in between":  {func(b []byte) []byte { return slices.Insert(b, at[1], []byte("garbage")...) }, "a b c", ""},
		"cut off":           {func(b []byte) []byte { return b[:at[3]-5] }, "a b", known},
		"data is no JSON":   {instead(func(e *approval.Event) { e.Data = []byte("{") }), "a c", known},
		"data is no object": {instead(func(e *approval.Event) { e.Data = []byte("[]") }), "a c", known},
		"a name twice":      {instead(func(e *approval.Event) { e.Data = []byte(`{"a":1,"a":2}`) }), "a c", known},
		"no text":           {instead(func(e *approval.Event) { e.Tool = "\xff" }), "a c", known},
		"no type":           {instead(func(e *approval.Event) { e.Type = "" }), "a c", known},
		"a decision":        {instead(func(e *approval.Event) { e.Type = approval.EventDecision }), "a c", known},
		"of the year 9999": {instead(func(e *approval.Event) { e.At = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }),
			"a c", known},
		"beyond all years": {instead(func(e *approval.Event) { e.At = time.UnixMilli(1 << 62) }), "a c", known},
		"before all years": {instead(func(e *approval.Event) { e.At = time.UnixMilli(-1 << 62) }), "a c", known},
		"nothing but a head": {func(b []byte) []byte { return slices.Insert(b, at[1], withSum(make([]byte, bodyHead))...) },
			"a b c", ""},
		"a position below": {func(b []byte) []byte {
			return slices.Insert(b, at[1], changedFrame(-1<<63, func(*approval.Event) {})...)
		}, "a b c", ""},
		"a position beyond": {func(b []byte) []byte {
			return slices.Insert(b, at[1], changedFrame(1<<63-1, func(*approval.Event) {})...)
		}, "a b c", ""},
		"larger than is taken": {func(b []byte) []byte {
			return slices.Insert(b, at[1], changedFrame(4, func(e *approval.Event) {
				e.Reason = strings.Repeat("x", maxFrame)
			})...)
		}, "a b c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			files.write(t, path)
			bad := c.change(bytes.Clone(files[eventLogSuffix]))
			if err := os.WriteFile(path+eventLogSuffix, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				log := &testkit.Buffer{}
				d := open(t, Options{Path: path, Logger: log.Logger()})
				wantTools(t, d, c.want)
				if gaps := strings.Join(gapsIn(t, d), ", "); gaps != c.gap {
					t.Errorf("it is told %q, want %q", gaps, c.gap)
				}
				isBad := c.gap != ""
				if ps := d.Problems(); (len(ps) == 1) != isBad || len(d.aside) > 0 && !strings.Contains(ps[0], d.aside[0]) {
					t.Errorf("the problems are %q", ps)
				}
				logged(t, d, "d")
				c.want = strings.TrimSpace(c.want + " d")
				wantTools(t, d, c.want)
				for _, aside := range d.aside {
					if b, err := os.ReadFile(aside); err != nil || !bytes.Equal(b, bad) {
						t.Errorf("what was set aside has %d bytes of %d, %v", len(b), len(bad), err)
					}
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Wherever the process dies while it takes in what a damaged log holds, each record is there once, and the gap.
func TestRule11_ADeathWhileADamagedLogIsTakenIn(t *testing.T) {
	d := open(t, Options{})
	holdsOff(d)
	logged(t, d, "a", "b", "c", "d")
	path := dies(t, d)
	log, err := os.ReadFile(path + eventLogSuffix)
	if err != nil {
		t.Fatal(err)
	}
	at := threeFrames(t, log)
	log[at[1]+20] ^= 1
	log[len(log)-2] ^= 1
	if err := os.WriteFile(path+eventLogSuffix, log, 0o600); err != nil {
		t.Fatal(err)
	}
	died := []string{path}
	o := Options{Path: path, Failpoint: func(string) {
		at := filepath.Join(t.TempDir(), "store.db")
		readFiles(t, path, "", "-wal", eventLogSuffix, markSuffix).write(t, at)
		died = append(died, at)
	}}
	if err := open(t, o).Close(); err != nil {
		t.Fatal(err)
	}
	if len(died) < 4 {
		t.Fatalf("the start passed %d points", len(died)-1)
	}
	for i, path := range died {
		d := open(t, Options{Path: path})
		wantTools(t, d, "a c")
		if gaps := gapsIn(t, d); !slices.Equal(gaps, []string{`event_log_damaged {"records":2}`}) {
			t.Errorf("killed at point %d: it is told %q", i-1, gaps)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A problem is gone when what was set aside is; of many, the newest are kept.
func TestADamagedEventLogIsKeptUntilSomebodyMovesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	m := newMachine()
	for range copiesKept + 2 {
		m.pass(time.Minute)
		if err := os.WriteFile(path+eventLogSuffix, []byte("this is no event, and long enough for one"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := open(t, Options{Path: path, Now: m.now, Elapsed: m.count}).Close(); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, Options{Path: path, Now: m.now, Elapsed: m.count})
	if n := len(d.Problems()); n != copiesKept || !strings.HasSuffix(d.aside[0], m.wall.Format(copyTime)) {
		t.Errorf("%d problems: %q", n, d.aside)
	}
	for _, aside := range d.aside {
		if err := os.Remove(aside); err != nil {
			t.Fatal(err)
		}
	}
	if ps := d.Problems(); len(ps) > 0 {
		t.Errorf("still %q", ps)
	}
}

// What the database does not take is missing as well.
func TestRule11_ARecordThatDoesNotFitIsAGap(t *testing.T) {
	d := open(t, Options{})
	logged(t, d, "a")
	e := allowedCall("bad")
	e.Type = ""
	if !d.RecordAllowed(approval.AllowedCall{}, e) {
		t.Fatal("it was not taken")
	}
	logged(t, d, "b")
	wantTools(t, d, "a b")
	if gaps := gapsIn(t, d); !slices.Equal(gaps, []string{`record_does_not_fit {"records":1}`}) {
		t.Errorf("it is told %q", gaps)
	}
}

// An event that would not be read again is not put into the log.
func TestAnEventThatIsTooLongForTheLogGoesIntoTheStore(t *testing.T) {
	d := open(t, Options{})
	e := allowedCall("long")
	e.Data = []byte(`"` + strings.Repeat("x", maxFrame) + `"`)
	if d.RecordAllowed(approval.AllowedCall{}, e) {
		t.Error("it was taken")
	}
}

// Whatever bytes the file has, what is read of it can be stored and told, and the frames around them are found.
func FuzzLeftovers(f *testing.F) {
	e := allowedCall("x")
	e.At = time.UnixMilli(1_790_000_000_123)
	whole := appendFrame(nil, 1, &e)
	f.Add(whole, []byte{})
	f.Add(appendFrame(bytes.Clone(whole), 2, &e)[:len(whole)+9], whole[frameHead:])
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00"), []byte("\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(bytes.Repeat([]byte{0, 1, 0, 0}, 40), changedFrame(3, func(e *approval.Event) {
		e.Data = []byte("{")
	})[frameHead:])
	f.Fuzz(func(t *testing.T, bad, body []byte) {
		const taken = 100
		b := slices.Concat(appendFrame(nil, taken+1, &e), bad, withSum(body), appendFrame(nil, taken+2, &e))
		left := leftovers{taken: taken, latest: latestEvent(0, e.At)}
		left.read(b)
		left.sort()
		found, last := 0, int64(taken)
		for _, got := range left.events {
			if got.position <= last || got.position > maxPosition || got.event.At.After(left.latest) ||
				got.event.At.UnixMilli() < 0 {
				t.Errorf("%d after %d, at %s", got.position, last, got.event.At)
			}
			last = got.position
			if v := jsontext.Value(got.event.Data); v != nil && !v.IsValid() {
				t.Errorf("%q cannot be told", v)
			}
			if got.position <= taken+2 {
				found++
			}
		}
		if found != 2 {
			t.Errorf("%d of 2 frames are found", found)
		}
		if n := left.missing(); n < 0 {
			t.Errorf("%d are missing", n)
		}
	})
}

// What was never written is passed over in long steps, which no frame begins in.
func TestRule11_AFrameBehindAnyRunOfZerosIsFound(t *testing.T) {
	frame := changedFrame(3, func(*approval.Event) {})
	for n := len(unwritten) - 2*frameHead - bodyHead; n <= len(unwritten)+2*frameHead+bodyHead; n++ {
		l := &leftovers{latest: time.UnixMilli(1_790_000_000_123)}
		l.read(slices.Concat(make([]byte, n), frame, make([]byte, 3*len(unwritten))))
		if len(l.events) != 1 || l.events[0].position != 3 || l.damaged {
			t.Errorf("behind %d zeros: %d events, damaged: %t", n, len(l.events), l.damaged)
		}
	}
}
