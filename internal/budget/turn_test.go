package budget

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestRule12_OneLargeThingOfAPrincipalAtATime(t *testing.T) {
	r := NewRegistry(Options{})
	other := Principal{Agent: true, Name: "other"}
	r.Replace(map[Principal]Limits{bot: {}, other: {}}) // without limits, too
	over, cancel := context.WithCancel(t.Context())
	cancel()
	release, err := r.Turn(t.Context(), "bot", Large)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Turn(over, "bot", Large)
	after(t, err)
	for name, n := range map[string]int{"bot": Large - 1, "other": 1 << 20, "nobody": 1 << 20} {
		done, err := r.Turn(over, name, n)
		if err != nil {
			t.Fatalf("%s has to wait with %d bytes: %v", name, n, err)
		}
		done()
	}
	r.Replace(map[Principal]Limits{bot: {}, other: {}}) // a reload lets no second one in
	_, err = r.Turn(over, "bot", Large)
	after(t, err)
	release()
	release() // a second time changes nothing
	if release, err = r.Turn(over, "bot", Large); err != nil {
		t.Fatal(err)
	}
	defer release()
	_, err = r.Turn(over, "bot", Large)
	after(t, err)
}

func TestRule12_ABurstIsBounded(t *testing.T) {
	c := newClock()
	_, a := one(c, DefaultAgent, nil)
	count := func(k Kind, size int) (n int) {
		for a.Take(k, size) == nil {
			n++
		}
		return n
	}
	if calls, bytes := count(Calls, 1), count(Bytes, 1<<20); calls != 1000 || bytes != 16 {
		t.Errorf("%d calls and %d MiB at once, want 1000 and 16", calls, bytes)
	}
	c.Advance(time.Second)
	if calls, bytes := count(Calls, 1), count(Bytes, 1<<20); calls != 500 || bytes != 4 {
		t.Errorf("%d calls and %d MiB a second later, want 500 and 4", calls, bytes)
	}
	c.Advance(time.Hour)
	if calls := count(Calls, 1); calls != 1000 {
		t.Errorf("%d calls at once after a pause, want 1000", calls)
	}
	_, a = one(c, Limits{Calls: Rate{60, time.Minute}, Bytes: Rate{60_000, time.Second}}, nil)
	if calls, bytes := count(Calls, 1), count(Bytes, 1000); calls != 60 || bytes != 60 {
		t.Errorf("of small rates %d and %d at once, want all: 60", calls, bytes)
	}
}

func TestRule12_WhatIsReadHasABudgetOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry(Options{})
		r.Replace(map[Principal]Limits{bot: DefaultAgent})
		a := r.Account(bot)
		begin, read := time.Now(), 0
		for read < 64<<20 { // a stream from far back
			if err := a.AwaitRead(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.Read(1 << 20)
			read += 1 << 20
		}
		if took := time.Since(begin); took < 10*time.Second || took > time.Minute {
			t.Errorf("64 MiB were read in %s, want what the rate gives after 16 MiB at once", took)
		}
		after(t, a.CheckRead())
		if err := a.Take(Bytes, 16<<20); err != nil {
			t.Error("what was read is held against what is sent:", err)
		}
		over, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if a.AwaitRead(over) == nil {
			t.Error("a wait that was given up has no error")
		}
		time.Sleep(4 * time.Second)
		if err := a.CheckRead(); err != nil {
			t.Error(err)
		}
	})
}

func TestRule12_ARefusalIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, n := time.Now(), 0
		for time.Since(begin) < time.Second { // whoever asks again at once
			Pause(t.Context())
			n++
		}
		if n != 10 {
			t.Errorf("%d refusals in a second over one connection, want 10", n)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		begin = time.Now()
		Pause(gone)
		if time.Since(begin) != 0 {
			t.Error("a refusal is held back for somebody who is gone")
		}
	})
}
