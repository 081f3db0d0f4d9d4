//go:build browser

package web

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"countersign/approval"
	"countersign/internal/testkit/chromium"
)

var _ = addLooks("grants", "hana", "/grants", func(w *world) {
	if err := w.gate.SetPolicy(w.ctx, policyOf(w.t, adminRules), nil); err != nil {
		w.t.Fatal(err)
	}
	w.granted("hana", "pay", `{"to":"ACME"}`, true, approval.GrantWish{For: time.Hour, Uses: 2}, "the monthly invoices")
	w.granted("ken", "pay", `{"to":"EVIL"}`, false, approval.GrantWish{For: time.Hour}, "")
	w.denied("hana", "pay", `{"to":"AGAIN","amount":420}`, "not before the month is closed")
})

var _ = addLooks("people", "hana", "/people", func(w *world) {
	hana, _ := w.dir.ByName("hana")
	_, err := w.gate.Delegate(w.ctx, approval.Delegation{Delegator: "hana", Delegate: "ken", Until: begin.Add(time.Hour)},
		hana, approval.ViaWeb)
	if _, err2 := w.gate.Freeze(w.ctx, "bot", hana, approval.ViaWeb, "it loops"); err != nil || err2 != nil {
		w.t.Fatal(err, err2)
	}
})

var _ = addLooks("status", "hana", "/status", nil)

var _ = addLooks("stats", "hana", "/stats", func(w *world) {
	if err := w.gate.SetPolicy(w.ctx, policyOf(w.t, adminRules), nil); err != nil {
		w.t.Fatal(err)
	}
	w.pages.record.history = w.store
	w.fillStats()
	w.fillApproved()
})

var _ = addLooks("policy", "hana", "/policy", func(w *world) {
	if err := w.gate.SetPolicy(w.ctx, policyOf(w.t, guardedRules), nil); err != nil {
		w.t.Fatal(err)
	}
})

// TestTheReplayIsLookedAt judges the record by another policy on a telephone.
func TestTheReplayIsLookedAt(t *testing.T) {
	t.Parallel()
	w := replayWorld(t)
	w.pages.Now = w.clock.Now
	p := w.openIn(chromium.Start(t), t, "hana", "/policy", 390)
	p.Do(chromedp.SetValue("#policy", looserRules), chromedp.Submit("#policy"))
	p.Until("it is judged", `!!document.querySelector("#replayed table")`)
	p.Fits("replay", "")
	p.Axe("replay")
}
