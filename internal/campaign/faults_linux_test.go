package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// target is what a loop does faults to; without a program to what all have.
type target struct {
	program *program
	kinds   []string
}

// faulty are the loops that do faults: one, and where several programs share a database one more for each, so that
// several have one at once.
func (w *world) faulty() (all []target) {
	var ofOne, ofAll []string
	for _, kind := range w.plan.without("webhooks").faults { // which those have who press
		if slices.Contains(ofProgram, kind) {
			ofOne = append(ofOne, kind)
		} else {
			ofAll = append(ofAll, kind)
		}
	}
	if w.shared == nil {
		return []target{{w.gates[0], append(ofOne, ofAll...)}}
	}
	all = append(all, target{nil, ofAll})
	for _, p := range w.gates {
		kinds := slices.Clone(ofOne)
		if w.plan.inside && p.n == 0 {
			kinds = slices.DeleteFunc(kinds, isOfProcess)
		}
		all = append(all, target{p, kinds})
	}
	return all
}

// fault does one thing to the gate, its platforms or its servers, and mends it again.
func (w *world) fault(r *rand.Rand, kind string, p *program) {
	w.faulted(kind)
	if slices.Contains(ofProgram, kind) {
		p.fault.Lock()
		defer p.fault.Unlock()
	}
	switch kind {
	case "kill", "restart":
		p.gate.kill()
		w.start(p)
	case "die":
		w.dieAt(r, p)
	case "stop":
		p.gate.send(stopSignal)
		if w.plan.length >= longRound && r.IntN(3) == 0 {
			w.pause(r, pastLeases)
		}
		w.pause(r, 1500*time.Millisecond)
		p.gate.send(contSignal)
	case "full":
		w.tell(p, "full")
		w.pause(r, 500*time.Millisecond)
		w.tell(p, "room")
	case "power":
		w.cutPower(r, p)
	case "sync":
		w.tell(p, "sync "+[]string{"fails", "stalls"}[r.IntN(2)])
		w.pause(r, time.Second)
		w.tell(p, "sync works")
	case "slow":
		w.tell(p, "slow "+points[r.IntN(len(points))])
		w.pause(r, time.Second)
		w.tell(p, "steady")
	case "skew":
		w.moveMachine(p, draw(r))
		w.pause(r, time.Second)
		w.moveMachine(p, 0)
	case "clock":
		w.moveClock(draw(r))
		w.pause(r, time.Second)
		w.moveClock(0)
	case "reload":
		w.reload(map[string]string{"all": "fewer", "fewer": "all"}[w.inFile()])
	case "platforms":
		w.failPlatform(r)
	case "servers":
		w.server.die.Store(int64(1 + r.IntN(3)))
	default:
		w.shared.fault(w, r, kind, p)
	}
}

// draw draws by how much a clock is off.
func draw(r *rand.Rand) time.Duration {
	return time.Duration(r.Int64N(int64(4*time.Hour))) - 2*time.Hour
}

func (w *world) tell(p *program, what string) {
	if err := p.gate.tell(what); err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
}

// dieAt has the process kill itself the next time that it comes to a point, and starts it again.
func (w *world) dieAt(r *rand.Rand, p *program) {
	w.tell(p, "die "+points[r.IntN(len(points))])
	is, ok := p.gate.(*process)
	if !ok {
		return
	}
	select {
	case <-is.over:
	case <-time.After(time.Duration(r.Int64N(int64(time.Second)))):
	}
	p.gate.kill()
	w.start(p)
}

// cutPower has the machine lose its power: what was not synced is gone, but for some of the log's end.
func (w *world) cutPower(r *rand.Rand, p *program) {
	is, ok := p.gate.(*process)
	if !ok {
		return
	}
	began := time.Since(w.began)
	more := []int{0, 0, r.IntN(200_000)}[r.IntN(3)]
	_ = p.gate.tell(fmt.Sprint("power ", more)) // there is nobody to say that it is done
	<-is.over                                   // real: it has killed itself
	path := filepath.Join(w.dir, "gate.db")
	for _, suffix := range []string{"", "-wal"} {
		if err := os.Rename(path+leftSuffix+suffix, path+suffix); err != nil {
			w.t.Error(err)
		}
	}
	gone := []string{"-shm"}
	if r.IntN(2) == 0 { // what the program's kernel kept for it
		gone = append(gone, "-events")
	}
	for _, suffix := range gone {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.t.Error(err)
		}
	}
	w.mu.Lock()
	w.history.Outages = append(w.history.Outages, campaign.Outage{Start: began, End: time.Since(w.began)})
	w.mu.Unlock()
	w.start(p)
}

// moveMachine sets the clock of a program's machine.
func (w *world) moveMachine(p *program, off time.Duration) {
	p.off = off
	w.tell(p, "clock "+off.String())
}

// moveClock sets the clock that counts: the machine's, or the database's.
func (w *world) moveClock(off time.Duration) {
	if w.shared == nil {
		w.moveMachine(w.gates[0], off)
		return
	}
	w.off = off
	w.shared.setClock(w.t, off)
}

// reload puts a setting in force, in one program after the other.
func (w *world) reload(setting string) {
	o := &campaign.Op{Kind: campaign.Reload, Way: "file", Setting: setting, Start: time.Since(w.began)}
	w.writeConfig(setting)
	for _, p := range w.gates {
		w.reloadOne(p)
	}
	o.Answered, o.Status = true, 200
	w.note(o)
}

// reloadOne has one program read its file, once nothing is done to it.
func (w *world) reloadOne(p *program) {
	p.fault.Lock()
	defer p.fault.Unlock()
	if w.shared == nil {
		w.tell(p, "reload")
		return
	}
	var err error // of a database that is away
	for tries := range 60 {
		if err = p.gate.tell("reload"); err == nil {
			return
		}
		time.Sleep(time.Duration(tries) * 10 * time.Millisecond) // real: an operator tries again
	}
	w.t.Errorf("reload: %v", err)
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
		faults = append(faults, emulator.LostResponse(), emulator.LostResponse(), emulator.LostResponse())
	}
	failing := w.chat.Fail(endpoint, 1+r.IntN(12), faults[r.IntN(len(faults))])
	w.pause(r, time.Second)
	failing.Cancel()
}

// mend ends all faults, so that what is to come about comes about.
func (w *world) mend() {
	w.server.die.Store(0)
	for _, p := range w.gates {
		if p.off != 0 {
			w.moveMachine(p, 0)
		}
	}
	if w.off != 0 {
		w.moveClock(0)
	}
	if w.inFile() != "all" {
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
