// Package bodies reads what somebody sends, whole. A large body leaves the garbage collector its own length, and not
// the several times as much that a buffer leaves behind while it grows: each collection slows down everybody else.
package bodies

import (
	"errors"
	"io"
	"sync"
	"time"
)

// Crowded is the error of reading a body that had to give way to others, and what else says when to try again.
type Crowded interface {
	error
	RetryAfter() time.Duration
}

// piece is how many bytes are set aside at a time for what is only promised.
const piece = 64 << 10

var pieces = sync.Pool{New: func() any { return new([piece]byte) }}

// ReadAll reads r to its end. Until all of it has come there is no more in memory than that, and one piece; then it
// becomes one slice of exactly its length, which belongs to the caller.
func ReadAll(r io.Reader) ([]byte, error) {
	taken := []*[piece]byte{pieces.Get().(*[piece]byte)}
	defer func() {
		for _, p := range taken {
			pieces.Put(p)
		}
	}()
	n := 0 // bytes in the last piece
	for {
		if n == piece {
			taken, n = append(taken, pieces.Get().(*[piece]byte)), 0
		}
		got, err := r.Read(taken[len(taken)-1][n:])
		n += got
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	last := len(taken) - 1
	all := make([]byte, 0, last*piece+n)
	for _, p := range taken[:last] {
		all = append(all, p[:]...)
	}
	return append(all, taken[last][:n]...), nil
}
