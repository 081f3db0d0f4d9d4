package budget

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
)

// moment is a transaction of which only the time is asked.
type moment struct {
	approval.Tx
	now time.Time
}

func (m moment) Now() time.Time { return m.now }

// rows are those of one store.
type rows map[string]Used

func (r rows) Used(agent string) Used       { return r[agent] }
func (r rows) PutUsed(agent string, u Used) { r[agent] = u }

// program is the registry of one of the programs on a store.
func (r rows) program(l Limits) *Registry {
	p := NewRegistry(Options{Rows: func(approval.Tx) Rows { return r }})
	p.Replace(map[Principal]Limits{bot: l})
	return p
}

// What is kept in rows is used up, owed and given back as what is kept in memory, also by two programs in turn.
func TestRule12_RowsAndMemoryAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := Limits{Requests: Rate{rapid.Int64Range(0, 40).Draw(rt, "requests"), time.Minute},
			Pushes: Rate{rapid.Int64Range(0, 90).Draw(rt, "pushes"), time.Hour}}
		c := newClock()
		memory, _ := one(c, l, nil)
		kept := rows{}
		programs := []*Registry{kept.program(l), kept.program(l)}
		for range 60 {
			tx, p := moment{now: c.Now()}, rapid.SampledFrom(programs).Draw(rt, "program")
			n := rapid.IntRange(0, 3).Draw(rt, "n")
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				if a, b := memory.Take(tx, "bot", n, 1), p.Take(tx, "bot", n, 1); (a == nil) != (b == nil) ||
					a != nil && a.Error() != b.Error() {
					rt.Fatalf("taken: %v and %v", a, b)
				}
			case 1:
				of := approval.Pushes{Asked: n, Out: rapid.IntRange(0, 3).Draw(rt, "out")}
				if a, b := memory.Push(tx, "bot", of), p.Push(tx, "bot", of); a != b {
					rt.Fatalf("they wait for %v and %v", a, b)
				}
			case 2:
				memory.Give(tx, "bot", n, approval.Pushes{Asked: n, Out: n})
				p.Give(tx, "bot", n, approval.Pushes{Asked: n, Out: n})
			case 3:
				memory.Fit(tx, "bot")
				p.Fit(tx, "bot")
			default:
				c.Advance(time.Duration(rapid.IntRange(0, 600).Draw(rt, "s")) * time.Second)
			}
		}
	})
}

// While one of two programs has other limits already, what waits is not forgotten, by whichever comes next; and one
// without limits leaves what the other has.
func TestRule12_ProgramsWithOtherLimitsForgetNothing(t *testing.T) {
	kept, tx := rows{}, moment{now: newClock().Now()}
	before, after := kept.program(Limits{Pushes: Rate{120, time.Hour}}), kept.program(Limits{Pushes: Rate{60, time.Hour}})
	unlimited := kept.program(Limits{})
	push := func(p *Registry) time.Duration { return p.Push(tx, "bot", approval.Pushes{Asked: 1, Out: 1}) }
	for i := range 100 {
		push([]*Registry{before, after}[i%2])
		push(unlimited)
	}
	if wait := push(before); wait < 19*time.Minute || wait > 21*time.Minute {
		t.Errorf("after 100 of 120 an hour, 60 of them at once, the next waits for %v", wait)
	}
	if wait := push(after); wait < 39*time.Minute || wait > 42*time.Minute {
		t.Errorf("after 100 of 60 an hour, all of them at once, the next waits for %v", wait)
	}
}
