package bodies

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/iotest"
)

func TestABodyIsReadWhole(t *testing.T) {
	for _, n := range []int{0, 1, piece - 1, piece, piece + 1, 3*piece + 7, 1 << 20} {
		want := make([]byte, n)
		for i := range want {
			want[i] = byte(rand.Uint32())
		}
		for name, r := range map[string]io.Reader{
			"at once":               bytes.NewReader(want),
			"in halves":             iotest.HalfReader(bytes.NewReader(want)),
			"its end with the rest": iotest.DataErrReader(bytes.NewReader(want)),
		} {
			got, err := ReadAll(r)
			if err != nil || !bytes.Equal(got, want) || cap(got) > n+n/4+64 {
				t.Errorf("%d bytes, %s: got %d in room for %d, %v", n, name, len(got), cap(got), err)
			}
		}
	}
}

func TestWhatWasReadIsNotUsedAgain(t *testing.T) {
	first, _ := ReadAll(bytes.NewReader(bytes.Repeat([]byte("a"), 2*piece)))
	_, _ = ReadAll(bytes.NewReader(bytes.Repeat([]byte("b"), 2*piece)))
	if bytes.IndexByte(first, 'b') >= 0 {
		t.Error("a second body was read into the first")
	}
}

func TestWhatBreaksOffIsAnError(t *testing.T) {
	broken := errors.New("the connection broke")
	got, err := ReadAll(io.MultiReader(bytes.NewReader(make([]byte, 2*piece)), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || got != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// endless fills what it is given, and counts how many bytes it was given at most.
type endless struct{ left, most int }

func (e *endless) Read(p []byte) (int, error) {
	e.most = max(e.most, len(p))
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	e.left -= n
	return n, nil
}

func TestALargeBodyLeavesLittleMoreThanItsLengthBehind(t *testing.T) {
	const size, times = 1 << 20, 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		if _, err := ReadAll(&endless{left: size}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / times; got > 2*size { // a buffer that grows leaves four times
		t.Errorf("a body of %d bytes took %d of memory", size, got)
	}
	e := &endless{left: size}
	if _, err := ReadAll(e); err != nil || e.most > piece {
		t.Errorf("set aside %d bytes for what was only promised, %v", e.most, err)
	}
}
