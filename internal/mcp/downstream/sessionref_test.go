package downstream

import (
	"testing"

	"countersign/internal/testkit"
)

func TestALeaseEndsOnce(t *testing.T) {
	f, l := newFake(), &testkit.Buffer{}
	a := newSessionRef(f.Open(Client{}), l.Logger())
	a.acquire()
	a.end()
	a.end()
	if a.acquire() {
		t.Error("an ended session can be taken")
	}
	select {
	case <-a.closed:
		t.Error("it was closed in somebody's hand")
	default:
	}
	a.release()
	testkit.Receive(t, "it is closed", a.closed)
	a.end()
	b := newSessionRef(f.Open(Client{}), l.Logger())
	b.end()
	testkit.Receive(t, "it is closed", b.closed)
	b.end()
	f.check(t, l)
}
