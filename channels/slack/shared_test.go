package slack

import (
	"strings"
	"testing"
	"time"

	"countersign/channels"
	"countersign/channels/channelstest"
)

// In a room, readers may be in several zones: Slack tells each of them the deadline in theirs, and where it cannot, the
// zone is named. To one person it is told as everywhere, by a clock of 24 hours.
func TestTheDeadlineIsTheReadersOwn(t *testing.T) {
	ch := newChannel(t, DefaultAPIURL)
	for _, c := range channelstest.Cases() {
		if c.Name != "request" {
			continue
		}
		m := channelstest.Maker()
		for _, shared := range []bool{false, true} {
			m.Reader = func(string, string) channels.Reader {
				return channels.Reader{Zone: time.FixedZone("JST", 9*60*60), Shared: shared}
			}
			body, err := ch.Render(m.Card(c.Delivery))
			if err != nil {
				t.Fatal(err)
			}
			s := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(body))
			want := "Decide by today 13:00 (in 1 h)"
			if shared {
				want = "{date_short_pretty} {time}|today 13:00 JST> (in 1 h)"
			}
			if !strings.Contains(s, want) || strings.Contains(s, "<!date") != shared {
				t.Errorf("shared %t: no %q in %s", shared, want, s)
			}
		}
	}
}
