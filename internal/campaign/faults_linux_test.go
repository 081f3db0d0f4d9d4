package campaign_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"countersign/internal/campaign"
	"countersign/internal/emulator"
	"countersign/internal/testkit"
)

// points are the fail points of the program at which a process dies.
var points = []string{"before-begin", "before-commit", "before-commit", "after-commit", "after-commit", "begun",
	"sent-not-recorded"}

// What a program sends is another's to send once it has stood still for twenty seconds. That takes a long round.
const (
	longRound  = 30 * time.Second
	pastLeases = 30 * time.Second
)

// fault does one thing to the gate, its platforms or its servers, and mends it again.
func (w *world) fault(r *rand.Rand, kind string) {
	w.faulted(kind)
	switch kind {
	case "kill":
		w.gate.kill()
		w.start()
	case "restart":
		w.gate.kill()
		w.start()
	case "die":
		w.dieAt(r)
	case "stop":
		w.gate.send(stopSignal)
		if w.plan.length >= longRound && r.IntN(3) == 0 {
			w.pause(r, pastLeases)
		}
		w.pause(r, 1500*time.Millisecond)
		w.gate.send(contSignal)
	case "full":
		w.tell("full")
		w.pause(r, 500*time.Millisecond)
		w.tell("room")
	case "slow":
		w.tell("slow " + points[r.IntN(len(points))])
		w.pause(r, time.Second)
		w.tell("steady")
	case "clock":
		w.moveClock(time.Duration(r.Int64N(int64(4*time.Hour))) - 2*time.Hour)
		w.pause(r, time.Second)
		w.moveClock(0)
	case "reload":
		w.reload(map[string]string{"all": "fewer", "fewer": "all"}[w.setting])
	case "platforms":
		w.failPlatform(r)
	case "servers":
		w.server.die.Store(int64(1 + r.IntN(3)))
	}
}

func (w *world) tell(what string) {
	if err := w.gate.tell(what); err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
}

// dieAt has the process kill itself the next time that it comes to a point, and starts it again.
func (w *world) dieAt(r *rand.Rand) {
	w.tell("die " + points[r.IntN(len(points))])
	p, ok := w.gate.(*process)
	if !ok {
		return
	}
	select {
	case <-p.over:
	case <-time.After(time.Duration(r.Int64N(int64(time.Second)))):
	}
	w.gate.kill()
	w.start()
}

func (w *world) moveClock(off time.Duration) {
	w.off = off
	w.tell("clock " + off.String())
}

// reload puts a setting in force.
func (w *world) reload(setting string) {
	o := &campaign.Op{Kind: campaign.Reload, Way: "file", Setting: setting, Start: time.Since(w.began)}
	w.writeConfig(setting)
	w.tell("reload")
	o.Answered, o.Status = true, 200
	w.note(o)
}

// failPlatform has one of the platforms fail for a moment.
func (w *world) failPlatform(r *rand.Rand) {
	endpoints := []emulator.Endpoint{emulator.AnyLINE, emulator.AnySlack, emulator.LINEPush, emulator.LINEReply,
		emulator.SlackPostMessage, emulator.SlackUpdate}
	endpoint := endpoints[r.IntN(len(endpoints))]
	if r.IntN(6) == 0 { // silent
		hold := w.chat.Hold(endpoint)
		w.pause(r, time.Second)
		hold.Release()
		return
	}
	faults := []emulator.Fault{emulator.ConnectionClosed(), emulator.EmptyObject(), emulator.Garbage(),
		emulator.LostResponse(), emulator.LostResponse(), emulator.RateLimited(time.Second), emulator.ServerError(),
		emulator.Slow(700 * time.Millisecond)}
	if strings.HasPrefix(string(endpoint), "/") || endpoint == emulator.AnyLINE {
		faults = append(faults, emulator.LostResponse())
	}
	failing := w.chat.Fail(endpoint, 1+r.IntN(4), faults[r.IntN(len(faults))])
	w.pause(r, time.Second)
	failing.Cancel()
}

// mend ends all faults, so that what is to come about comes about.
func (w *world) mend() {
	w.server.die.Store(0)
	if w.off != 0 {
		w.moveClock(0)
	}
	if w.setting != "all" {
		w.reload("all")
	}
	for _, agent := range append([]string{""}, agentNames...) {
		w.unfreeze(agent)
	}
	if !w.history.Steady {
		testkit.Eventually(w.t, "the clock is accepted", func() bool {
			o := &campaign.Op{Kind: "clock", Way: "rest", Who: "hana"}
			w.ask(context.Background(), o, "hana", "POST", "/v1/clock/accept", map[string]any{})
			return o.Made() || o.Code == "not_found"
		})
	}
}
