package listener

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// linger is how long what is still sent to a request that has been answered is taken, so that its sender
// comes to read the answer.
const linger = 500 * time.Millisecond

// Handler has requests answered by next, as the package's comment says.
func (l *Listener) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r.Context())
		if c == nil {
			next.ServeHTTP(w, r)
			return
		}
		if !c.begin() {
			panic(http.ErrAbortHandler)
		}
		defer c.end()
		w.Header()["Date"] = l.dated.at(time.Now())
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		x := &trackedResponse{ResponseWriter: w, body: body{ReadCloser: r.Body, conn: c, left: r.ContentLength}}
		if l.o.Bodies != nil {
			x.body.bodies, x.body.sender = l.o.Bodies(r)
		}
		theirs := r.Body
		r.Body = &x.body
		defer func() {
			x.beforeAnswer()
			r.Body = theirs // by which the server knows what is left to be read
			x.body.done()
		}()
		next.ServeHTTP(x, r)
	})
}

// dates has the text of the time that answers bear: it is the same for all of one second, and the server would write it
// anew for each.
type dates struct{ last atomic.Pointer[date] }

type date struct {
	second int64
	header []string
}

func (d *dates) at(now time.Time) []string {
	last := d.last.Load()
	if last == nil || last.second != now.Unix() {
		last = &date{now.Unix(), []string{now.UTC().Format(http.TimeFormat)}}
		d.last.Store(last)
	}
	return last.header
}

// trackedResponse is a request with a body, and the way to its answer.
type trackedResponse struct {
	http.ResponseWriter
	body     body
	answered bool
}

// Unwrap is for [http.ResponseController].
func (x *trackedResponse) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader begins the answer.
func (x *trackedResponse) WriteHeader(status int) {
	if status >= http.StatusOK {
		x.beforeAnswer()
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the answer.
func (x *trackedResponse) Write(p []byte) (int, error) {
	x.beforeAnswer()
	return x.ResponseWriter.Write(p)
}

// FlushError sends what has been written.
func (x *trackedResponse) FlushError() error {
	x.beforeAnswer()
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// beforeAnswer has an answer that comes before the whole body end the connection. The server would else wait
// for the body first, so as to use the connection again.
func (x *trackedResponse) beforeAnswer() {
	if x.answered {
		return
	}
	if x.answered = true; !x.body.whole {
		x.Header().Set("Connection", "close")
		_ = x.body.conn.SetReadDeadline(time.Now().Add(linger))
	}
}

// body is a request's body while it arrives.
type body struct {
	io.ReadCloser
	conn   *conn
	left   int64 // that are promised to come; negative: nobody knows
	whole  bool  // it has come
	bodies *Bodies
	sender string
	place  // among the bodies
}

// Read takes a part of what arrives.
func (b *body) Read(p []byte) (int, error) {
	if b.bodies != nil && !b.bodies.enter(b) {
		return 0, ErrBusy
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left = max(0, b.left-int64(n))
	}
	if b.left == 0 || err == io.EOF {
		b.whole = true
	}
	if b.bodies != nil {
		err = b.bodies.recordArrived(b, n, err)
	}
	return n, err
}

func (b *body) done() {
	if b.bodies != nil {
		b.bodies.leave(b)
	}
}
