package downstream

import "testing"

func TestALeaseEndsOnce(t *testing.T) {
	f, l := newFake(), &logs{}
	a := newSessionRef(f.Open(Client{}), l.logger())
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
	<-a.closed
	a.end()
	b := newSessionRef(f.Open(Client{}), l.logger())
	b.end()
	<-b.closed
	b.end()
	f.check(t)
}
