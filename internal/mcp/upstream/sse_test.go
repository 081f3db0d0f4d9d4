package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readEvents returns the messages of a stream, and where it could be taken up.
func readEvents(r io.Reader) (datas []string, id string, retry time.Duration, err error) {
	e := newEventReader(r)
	defer e.release()
	for {
		data, err := e.next()
		if err != nil {
			return datas, e.id, e.retry, err
		}
		datas = append(datas, string(data))
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stream string
		datas  []string
		id     string
		retry  time.Duration
	}{
		{"", nil, "", -1},
		{"data: a\n\n", []string{"a"}, "", -1},
		{"data:a\r\n\r\ndata:  b\n\n", []string{"a", " b"}, "", -1},
		{"data: a\ndata: b\n\n", []string{"a\nb"}, "", -1},
		{"data: cut\n", nil, "", -1},
		{"id: 1\ndata: a\n\nid: 2\ndata: cut", []string{"a"}, "1", -1},
		{"id: 1\n\nid\n\n", nil, "", -1},
		{"id: 1\n\nid: 2\x00\n\n", nil, "1", -1},
		{"id: 1\ndata:\n\n", nil, "1", -1},
		{"event: other\ndata: a\n\ndata: b\n\n", []string{"b"}, "", -1},
		{"event: message\ndata: a\n\n", []string{"a"}, "", -1},
		{"retry: 250\n\n", nil, "", 250 * time.Millisecond},
		{"retry: soon\nretry: -1\nretry: 99999999999\n\n", nil, "", -1},
		{": comment\nunknown: x\nnocolon\ndata: a\n\n", []string{"a"}, "", -1},
		{"data: " + strings.Repeat("x", 20<<10) + "\n\n", []string{strings.Repeat("x", 20<<10)}, "", -1},
	} {
		datas, id, retry, err := readEvents(strings.NewReader(c.stream))
		if !slices.Equal(datas, c.datas) || id != c.id || retry != c.retry || err != io.EOF {
			t.Errorf("%.40q: got %.40q, id %q, retry %v, %v; want %.40q, %q, %v", c.stream, datas, id, retry, err, c.datas, c.id,
				c.retry)
		}
	}
}

func TestEventsOfManyLinesAreBoundedToo(t *testing.T) {
	t.Parallel()
	line := []byte("data: " + strings.Repeat("x", 1<<20) + "\n")
	if _, _, _, err := readEvents(bytes.NewReader(bytes.Repeat(line, 40))); !errors.Is(err, errTooLong) {
		t.Errorf("got %v, want %v", err, errTooLong)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("id: 1\nretry: 5\ndata: {}\n\nevent: x\r\ndata\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		datas, id, retry, _ := readEvents(bytes.NewReader(b))
		again, id2, retry2, _ := readEvents(iotest.OneByteReader(bytes.NewReader(b)))
		if !slices.Equal(datas, again) || id != id2 || retry != retry2 {
			t.Errorf("read at once it is %q, %q, %v; byte by byte %q, %q, %v", datas, id, retry, again, id2, retry2)
		}
	})
}

func TestALongLineLeavesLittleMoreThanItsLengthBehind(t *testing.T) {
	const size, times = 1 << 20, 10
	line := bytes.Repeat([]byte("a"), size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		got, err := readLine(bufio.NewReaderSize(bytes.NewReader(line), readerSize), maxMessage)
		if len(got) != size || !errors.Is(err, io.EOF) {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / times; got > 3*size {
		t.Errorf("a line of %d bytes took %d of memory", size, got)
	}
}
