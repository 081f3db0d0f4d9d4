package upstream

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestRule12_SendersTakeTurns(t *testing.T) {
	t.Parallel()
	var q queue
	put := func(from, line string) *outgoing {
		out := &outgoing{sender: from, line: []byte(line)}
		if !q.reserve(from, len(line)) {
			t.Fatalf("no room for %s", line)
		}
		q.push(out)
		return out
	}
	for i := range 4 {
		put("a", fmt.Sprint("a", i))
	}
	put("b", "b0")
	gone := put("b", "b1")
	put("b", "b2")
	put("c", "c0")
	q.remove(gone)
	q.pushControl(&outgoing{line: []byte("own")})
	var got []string
	for out := q.next(); out != nil; out = q.next() {
		got = append(got, string(out.line))
	}
	if want := []string{"own", "a0", "b0", "c0", "a1", "b2", "a2", "a3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if q.bytes != 0 || q.count != 0 || len(q.senders) != 0 || q.controlBytes != 0 {
		t.Errorf("what is left: %+v", q)
	}
}

// Whatever senders do, the queue is never over its bounds, none that has nothing in it is refused while it is not
// nearly full, what was admitted comes out once and in its sender's order, and at the end nothing is left.
func TestRule12_AQueueKeepsItsBounds(t *testing.T) {
	t.Parallel()
	large := make([]byte, maxQueuedBytes/8)
	rapid.Check(t, func(rt *rapid.T) {
		var q queue
		waiting := map[string][]*outgoing{}
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			from := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "from")
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1, 2:
				out := &outgoing{sender: from, line: large[:rapid.IntRange(1, len(large)).Draw(rt, "size")]}
				l := q.senders[from]
				ok := q.reserve(from, len(out.line))
				if !ok && l == nil && q.bytes+len(out.line) <= maxQueuedBytes {
					rt.Fatalf("a sender of nothing is refused %d bytes beside %d", len(out.line), q.bytes)
				}
				if ok {
					q.push(out)
					waiting[from] = append(waiting[from], out)
				}
			case 3:
				if out := q.next(); out != nil {
					if waiting[out.sender][0] != out {
						rt.Fatal("out of its sender's order")
					}
					waiting[out.sender] = waiting[out.sender][1:]
				}
			case 4:
				if n := len(waiting[from]); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(rt, "which")
					q.remove(waiting[from][i])
					waiting[from] = slices.Delete(waiting[from], i, i+1)
				}
			}
			if q.bytes > maxQueuedBytes || q.count > maxQueuedRequests {
				rt.Fatalf("%d bytes of %d requests wait", q.bytes, q.count)
			}
		}
		for out := q.next(); out != nil; out = q.next() {
			waiting[out.sender] = waiting[out.sender][1:]
		}
		for from, outs := range waiting {
			if len(outs) != 0 {
				rt.Fatalf("%d requests of %s are lost", len(outs), from)
			}
		}
		if q.bytes != 0 || q.count != 0 || len(q.senders) != 0 || len(q.ready) != 0 {
			rt.Fatalf("what is left: %d bytes, %d requests, %d lanes, %d turns", q.bytes, q.count, len(q.senders), len(q.ready))
		}
	})
}
