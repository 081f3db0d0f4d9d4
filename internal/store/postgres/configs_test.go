//go:build postgres

package postgres

import "testing"

// A configuration is new where it comes into force first, whichever program has it then: not where another one is given
// it later, or starts with it, and not where one was given an older one on the way. What was given back is new.
func TestWhichConfigurationIsNewAndWhoIsBehind(t *testing.T) {
	url := emptied(t)
	programs := map[string]*DB{}
	for _, name := range []string{"a", "b", "c", "d"} {
		programs[name] = open(t, Options{URL: url})
	}
	for i, step := range []struct {
		program, digest string
		isNew           bool
		behind          string // who is then
	}{
		{"a", "1", true, "bcd"}, // who has none yet
		{"b", "1", false, "cd"},
		{"a", "2", true, "bcd"},
		{"a", "3", true, "bcd"},
		{"b", "2", false, "bcd"}, // it comes late, and on the way
		{"b", "3", false, "cd"},
		{"b", "3", false, "cd"},
		{"c", "1", false, "cd"}, // started with what it had
		{"b", "1", true, "acd"}, // given back
		{"a", "1", false, "cd"},
		{"c", "1", false, "d"},
		{"d", "4", true, "abc"}, // started with what nobody had
	} {
		isNew, err := programs[step.program].Configure(t.Context(), step.digest)
		if err != nil || isNew != step.isNew {
			t.Errorf("step %d: new is %t, %v", i, isNew, err)
		}
		behind := ""
		for _, name := range []string{"a", "b", "c", "d"} {
			is, err := programs[name].IsBehind(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if is {
				behind += name
			}
		}
		if behind != step.behind {
			t.Errorf("step %d: %q are behind, want %q", i, behind, step.behind)
		}
	}
	if n := raced(t, []*DB{programs["a"], programs["b"]}, func(d *DB) (bool, error) {
		return d.Configure(t.Context(), "5")
	}); n != 1 {
		t.Errorf("it was new to %d", n)
	}
}

// A program that starts with an older configuration than there was is not behind where nobody has the newer one.
func TestWhatNobodyHasAnyMoreWasGivenBack(t *testing.T) {
	url := emptied(t)
	first, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{"1", "2"} {
		if isNew, err := first.Configure(t.Context(), digest); !isNew || err != nil {
			t.Fatal(isNew, err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next := open(t, Options{URL: url})
	if isNew, err := next.Configure(t.Context(), "1"); !isNew || err != nil {
		t.Errorf("it is new: %t, %v", isNew, err)
	}
	if behind, err := next.IsBehind(t.Context()); behind || err != nil {
		t.Errorf("it is behind: %t, %v", behind, err)
	}
}
