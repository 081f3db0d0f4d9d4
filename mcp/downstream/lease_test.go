package downstream

import "testing"

func TestALeaseEndsOnce(t *testing.T) {
	f, l := newFake(), &logs{}
	a := newLease(f.Open(Client{}), l.logger())
	a.take()
	a.end()
	a.end()
	if a.take() {
		t.Error("an ended session can be taken")
	}
	select {
	case <-a.closed:
		t.Error("it was closed in somebody's hand")
	default:
	}
	a.give()
	<-a.closed
	a.end()
	b := newLease(f.Open(Client{}), l.logger())
	b.end()
	<-b.closed
	b.end()
	f.check(t)
}
