package upstream

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"sync"
	"time"
)

// eventReader reads a stream of server-sent events.
type eventReader struct {
	r     *bufio.Reader
	id    string        // of the last whole event, where to go on from
	retry time.Duration // how long the server wants to be left alone; -1: it did not say
	start bool          // past the first line
}

const readerSize = 8 << 10

var readerPool = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readerSize) }}

func newEventReader(r io.Reader) *eventReader {
	b := readerPool.Get().(*bufio.Reader)
	b.Reset(r)
	return &eventReader{r: b, retry: -1}
}

// newSmallEventReader is for a stream on which hardly anything comes, and of which there may be one per client.
func newSmallEventReader(r io.Reader) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 512), retry: -1}
}

func (e *eventReader) release() {
	if e.r.Size() >= readerSize {
		e.r.Reset(nil)
		readerPool.Put(e.r)
	}
	e.r = nil
}

// next returns the data of the next message, which belongs to the caller. An event that was cut off is not
// one.
func (e *eventReader) next() ([]byte, error) {
	var data []byte
	var id string
	message, named := true, false
	for {
		line, err := readLine(e.r, maxMessage)
		if err != nil {
			return nil, err
		}
		if !e.start {
			e.start, line = true, bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 {
			if named {
				e.id = id
			}
			if len(data) > 0 && message {
				return data, nil
			}
			data, message, named = nil, true, false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if len(data)+len(value) > maxMessage {
				return nil, errTooLong
			}
			if data != nil {
				data = append(data, '\n')
			}
			if data == nil {
				data = make([]byte, 0, len(value))
			}
			data = append(data, value...)
		case "event":
			message = len(value) == 0 || string(value) == "message"
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id, named = string(value), true
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}
