package approval

import "testing"

// A freeze that is noted while what is on record is being read is not lost, whichever comes first.
func TestRule1_AFreezeIsNotedBeforeItIsOnRecord(t *testing.T) {
	var f freezes
	f.note("bot") // and nothing was read yet
	for agent, want := range map[string]bool{"bot": true, "other": false} {
		got, err := f.concern(agent, func() ([]Epoch, error) { return nil, nil }) // nothing is committed yet
		if err != nil || got != want {
			t.Errorf("%s: %t, %v", agent, got, err)
		}
	}
	f.note("")
	if got, _ := f.concern("other", nil); !got {
		t.Error("a freeze of all does not concern another agent")
	}
}

// What is kept of how an agent stands was seen after the last change that was begun, or is not kept.
func TestRule1_NothingIsKeptFromBeforeAFreeze(t *testing.T) {
	var f freezes
	before := f.count()
	f.note("bot")
	f.keep("bot", false, before)
	if _, ok := f.known("bot"); ok {
		t.Error("kept, and it is from before the freeze")
	}
	f.keep("bot", false, f.count())
	if frozen, ok := f.known("bot"); !ok || frozen {
		t.Error("not kept")
	}
	f.note("")
	if _, ok := f.known("bot"); ok {
		t.Error("still kept after a freeze of all")
	}
}
