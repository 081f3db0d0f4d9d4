package outbox

import (
	"testing"
	"time"
)

func TestRetries(t *testing.T) {
	r := Retries{Max: 3, First: 10 * time.Second, Cap: 5 * time.Minute}
	for tries, want := range map[int]time.Duration{0: 10 * time.Second, 1: 10 * time.Second, 2: 20 * time.Second,
		3: 40 * time.Second, 5: 160 * time.Second, 6: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := r.Delay(tries, 0.5); got != want {
			t.Errorf("Delay(%d, 0.5) = %v, want %v", tries, got, want)
		}
		if low, high := r.Delay(tries, 0), r.Delay(tries, 0.999); low < want*79/100 || high > min(want*121/100, r.Cap) ||
			low >= high && want < r.Cap {
			t.Errorf("Delay(%d) is between %v and %v", tries, low, high)
		}
	}
	if err := DefaultRetries().Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Retries{{Max: -1, First: time.Second, Cap: time.Minute}, {First: time.Millisecond,
		Cap: time.Minute}, {First: time.Minute, Cap: time.Second}, {First: time.Second, Cap: 24 * time.Hour}} {
		if bad.Validate() == nil {
			t.Errorf("%+v passes", bad)
		}
	}
}
