package line

import (
	"testing"

	"countersign/approval"
	"countersign/channels/channelstest"
)

func BenchmarkRender(b *testing.B) {
	ch := newChannel(b, DefaultAPIURL)
	for _, c := range channelstest.Cases() {
		if c.Delivery.Notification.Kind != approval.KindRequest {
			continue
		}
		b.Run(c.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ch.Render(c.Card()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
