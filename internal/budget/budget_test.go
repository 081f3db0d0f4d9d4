package budget

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/internal/testkit"
)

func newClock() *testkit.Clock {
	return testkit.NewClock(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
}

var bot = Principal{Agent: true, Name: "bot"}

func one(c *testkit.Clock, l Limits, over func(Over)) (*Registry, *Account) {
	r := NewRegistry(Options{Now: c.Now, Over: over})
	r.Replace(map[Principal]Limits{bot: l})
	return r, r.Account(bot)
}

func after(t *testing.T, err error) time.Duration {
	t.Helper()
	e, ok := errors.AsType[*approval.Error](err)
	if !ok || e.Code != approval.CodeRateLimited {
		t.Fatalf("got %v, want %s", err, approval.CodeRateLimited)
	}
	return e.After
}

func TestRule12_ARateHoldsAndSaysWhenToTryAgain(t *testing.T) {
	c := newClock()
	_, a := one(c, Limits{Calls: Rate{60, time.Minute}}, nil)
	for i := range 60 {
		if err := a.Take(Calls, 1); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if d := after(t, a.Take(Calls, 1)); d != time.Second {
		t.Errorf("try again in %s, want 1s", d)
	}
	if d := after(t, a.Take(Calls, 30)); d != 30*time.Second {
		t.Errorf("for 30 try again in %s, want 30s", d)
	}
	c.Advance(999 * time.Millisecond)
	after(t, a.Take(Calls, 1))
	c.Advance(time.Millisecond)
	if err := a.Take(Calls, 1); err != nil {
		t.Errorf("a second later: %v", err)
	}
	c.Advance(24 * time.Hour) // nothing is saved up beyond what may be used at once
	for range 60 {
		if err := a.Take(Calls, 1); err != nil {
			t.Fatal(err)
		}
	}
	after(t, a.Take(Calls, 1))
}

func TestRule12_SixtyPushesAreThereAtOnce(t *testing.T) {
	c := newClock()
	_, a := one(c, Limits{Pushes: Rate{120, time.Hour}}, nil)
	n := 0
	for a.Take(Pushes, 1) == nil {
		n++
	}
	if n != 60 {
		t.Errorf("%d at once, want 60", n)
	}
	if d := after(t, a.Take(Pushes, 1)); d != 30*time.Second {
		t.Errorf("try again in %s, want 30s", d)
	}
}

func TestRule12_WhatIsLargerThanItsBudgetPassesAloneAndIsOwed(t *testing.T) {
	c := newClock()
	_, a := one(c, Limits{Bytes: Rate{1000, time.Minute}, Requests: Rate{2, time.Hour}}, nil)
	if err := a.Take(Bytes, 3000); err != nil {
		t.Fatal(err)
	}
	if d := after(t, a.Take(Bytes, 3000)); d != 3*time.Minute {
		t.Errorf("the next in %s, want 3m", d)
	}
	c.Advance(3 * time.Minute)
	if err := a.Take(Bytes, 3000); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := a.Take(Requests, 1); err != nil {
			t.Fatal(err)
		}
		after(t, a.Take(Requests, 1))
		c.Advance(30 * time.Minute)
	}
}

func TestRule12_WhatIsNotRefusedUsesUpWhatIsLeft(t *testing.T) {
	c := newClock()
	_, a := one(c, Limits{Calls: Rate{10, time.Minute}}, nil)
	for range 10 {
		if refuse := a.Spend(Calls, 1); refuse != nil {
			t.Fatal(refuse())
		}
	}
	for range 1000 {
		if refuse := a.Spend(Calls, 1); refuse == nil || after(t, refuse()) != 6*time.Second {
			t.Fatal("over the budget, and nothing says so")
		}
	}
	c.Advance(6 * time.Second) // nothing more than the budget is owed
	if err := a.Take(Calls, 1); err != nil {
		t.Error(err)
	}
}

func TestRule12_WhatIsHeldIsCounted(t *testing.T) {
	c := newClock()
	r, a := one(c, Limits{Waits: 2}, nil)
	first, err := a.Hold(t.Context(), Waits)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Hold(t.Context(), Waits); err != nil {
		t.Fatal(err)
	}
	_, err = a.Hold(t.Context(), Waits)
	after(t, err)
	first()
	first() // a second time changes nothing
	if _, err = a.Hold(t.Context(), Waits); err != nil {
		t.Fatal(err)
	}
	_, err = a.Hold(t.Context(), Waits)
	after(t, err)
	r.Replace(map[Principal]Limits{bot: {}})
	if _, err = a.Hold(t.Context(), Waits); err != nil {
		t.Error("without a limit:", err)
	}
}

func TestRule12_AReloadKeepsWhatWasUsed(t *testing.T) {
	c := newClock()
	r, a := one(c, Limits{Calls: Rate{10, time.Minute}, Pushes: Rate{100, time.Hour}}, nil)
	var over error
	for n := 0; over == nil && n < 1000; n++ {
		over = a.Take(Calls, 1)
	}
	r.Replace(map[Principal]Limits{bot: {Calls: Rate{10, time.Minute}}, {Agent: true, Name: "new"}: {}})
	if r.Account(bot) != a {
		t.Fatal("the account is another")
	}
	after(t, a.Take(Calls, 1))
	r.Replace(map[Principal]Limits{bot: {Calls: Rate{10, time.Second}}}) // what is owed fits the new rate
	if d := after(t, a.Take(Calls, 1)); d > time.Second {
		t.Errorf("try again in %s", d)
	}
	r.Replace(nil)
	if r.Account(bot) != nil {
		t.Error("who was removed is still known")
	}
	if err := r.Account(bot).Take(Calls, 1); err != nil {
		t.Error(err)
	}
}

func TestRule12_ItIsToldOnceAnHour(t *testing.T) {
	c := newClock()
	var told []Over
	r, a := one(c, Limits{Calls: Rate{1, time.Minute}, Waits: 1}, func(o Over) { told = append(told, o) })
	for range 100 {
		_ = a.Take(Calls, 1)
		_, _ = a.Hold(t.Context(), Waits)
	}
	if len(told) != 2 || told[0] != (Over{bot, Calls, "1/m"}) || told[1] != (Over{bot, Waits, "1"}) {
		t.Errorf("told %+v", told)
	}
	c.Advance(time.Hour)
	_, _ = a.Hold(t.Context(), Waits)
	_, _ = a.Hold(t.Context(), Waits)
	if len(told) != 3 {
		t.Errorf("told %d times, want 3", len(told))
	}
	n := map[Kind]uint64{}
	r.Each(func(_ Principal, k Kind, refused uint64) { n[k] = refused })
	if n[Calls] != 99 || n[Waits] != 101 || len(n) != 2 {
		t.Errorf("counted %v", n)
	}
}

func TestRule12_TheMessageSaysWhichBudgetAndWhatToDo(t *testing.T) {
	c := newClock()
	_, a := one(c, Limits{Bytes: Rate{1 << 20, time.Minute}}, nil)
	_ = a.Take(Bytes, 1<<20)
	err := a.Take(Bytes, 1<<20)
	for _, want := range []string{"bytes", "agent:bot", "1MiB per minute", "1m0s",
		"limits.agent.bytes, or the agent's own limits"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

// Whatever is taken, given back and waited for: no stretch of time brings more than what is there at once and
// what the rate adds meanwhile, and what was refused is taken after the time that was said.
func TestRule12_NoMoreThanTheRate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newClock()
		rate := Rate{rapid.Int64Range(1, 100_000).Draw(rt, "count"), rapid.SampledFrom([]time.Duration{time.Second,
			time.Minute, time.Hour}).Draw(rt, "per")}
		_, a := one(c, Limits{Calls: rate}, nil)
		most := max(float64(rate.Count)*float64(min(rate.Per, atOnce))/float64(rate.Per), 1)
		taken, begin, largest := 0.0, c.Now(), 0.0
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			n := rapid.IntRange(1, int(rate.Count)+1).Draw(rt, "n")
			largest = max(largest, float64(n))
			switch err := a.Take(Calls, n); {
			case err != nil:
				e, _ := errors.AsType[*approval.Error](err)
				c.Advance(e.After)
				if again := a.Take(Calls, n); again != nil {
					rt.Fatalf("after %s: %v", e.After, again)
				}
				taken += float64(n)
			case rapid.Bool().Draw(rt, "give"):
				a.Give(Calls, n)
			default:
				taken += float64(n)
			}
			allowed := max(most, largest) + c.Now().Sub(begin).Seconds()*float64(rate.Count)/rate.Per.Seconds()
			if taken > allowed+1 {
				rt.Fatalf("took %v of %v", taken, allowed)
			}
			c.Advance(time.Duration(rapid.Int64Range(0, int64(rate.Per)).Draw(rt, "wait")))
		}
	})
}

func TestRule12_OfConcurrentTakersNoneGetsTooMuch(t *testing.T) {
	c := newClock()
	_, a := one(c, Limits{Requests: Rate{1000, time.Minute}, Streams: 7}, nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken, held := 0, 0
	for range 8 {
		wg.Go(func() {
			for range 500 {
				err := a.Take(Requests, 1)
				_, no := a.Hold(t.Context(), Streams)
				mu.Lock()
				if err == nil {
					taken++
				}
				if no == nil {
					held++
				}
				mu.Unlock()
			}
		})
	}
	testkit.Wait(t, "all takers", wg.Wait)
	if taken != 1000 || held != 7 {
		t.Errorf("took %d and held %d, want 1000 and 7", taken, held)
	}
}

// An agent may be taken out of the configuration between any two looks at its account.
func TestRule12_WhoeverWasRemovedIsRefusedWithoutAnAccount(t *testing.T) {
	r, _ := one(newClock(), Limits{Sessions: 1}, nil)
	r.Replace(nil)
	if err := (Messages{r}).NoSession("bot"); approval.CodeOf(err) != approval.CodeUnauthorized {
		t.Errorf("told %v", err)
	}
}

func TestRule12_ATakeAllocatesNothing(t *testing.T) {
	r, _ := one(newClock(), DefaultAgent, nil)
	if n := testing.AllocsPerRun(100, func() { _ = r.Account(bot).Take(Calls, 1); _ = r.Account(bot).Charge(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseRate(t *testing.T) {
	for _, c := range []struct {
		text  string
		parse func(string) (Rate, error)
		write func(Rate) string
		want  Rate
	}{
		{"30000/m", ParseRate, Rate.String, Rate{30000, time.Minute}},
		{"120/h", ParseRate, Rate.String, Rate{120, time.Hour}},
		{"5/s", ParseRate, Rate.String, Rate{5, time.Second}},
		{"256MiB/m", ParseByteRate, Rate.Bytes, Rate{256 << 20, time.Minute}},
		{"1000/s", ParseByteRate, Rate.Bytes, Rate{1000, time.Second}},
		{"1GiB/h", ParseByteRate, Rate.Bytes, Rate{1 << 30, time.Hour}},
		{"0", ParseRate, Rate.String, Rate{}},
		{"none", ParseByteRate, Rate.Bytes, Rate{}},
		{"0/m", ParseRate, Rate.String, Rate{}},
	} {
		got, err := c.parse(c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v", c.text, got, err)
		}
		if again, err := c.parse(c.write(got)); err != nil || again != got {
			t.Errorf("%s is written %s", c.text, c.write(got))
		}
	}
	for _, bad := range []string{"", "5", "5/", "5/d", "/m", "-1/m", "+1/m", "1.5/m", "5MiB/m", "5 /m",
		"99999999999999999999/m", "5/m/m"} {
		if r, err := ParseRate(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, r)
		}
	}
	if r, err := ParseByteRate("9999999GiB/m"); err == nil {
		t.Errorf("taken for %v", r)
	}
}

func BenchmarkTake(b *testing.B) {
	r := NewRegistry(Options{})
	r.Replace(map[Principal]Limits{bot: {Calls: Rate{1 << 40, time.Minute}}})
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Account(bot).Take(Calls, 1)
	}
}
