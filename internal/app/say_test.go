package app

import (
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/approval/summary"
	"countersign/channels"
	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
)

// What people are told in a chat names the zone of this machine, where nobody has said in which zone they are.
func TestTimesInAZoneThatNobodyConfiguredNameIt(t *testing.T) {
	t.Parallel()
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	local := now.Add(time.Minute).In(time.Local)
	here := local.Format("15:04 ") + locale.ZoneName(local, time.Local)
	for zone, want := range map[*time.Location]string{tokyo: "today 18:01", time.Local: "today " + here} {
		to := approval.Actor{Name: "hana", Zone: zone}
		want = "One more hour: pay can be decided until " + want + "."
		if got := say(to, reader(to, now, nil), phrases.SayExtended, "tool", "pay", "when",
			now.Add(time.Minute)); got != want {
			t.Errorf("%s: %q, want %q", zone, got, want)
		}
	}
}

// The person at the keyboard is asked to run the tool with these arguments, where no rule has words for it; a rule's
// own words come first where it has some. The arguments are there once, and masked.
func TestTheKeyboardIsAskedInTheRulesWordsOrToRunTheTool(t *testing.T) {
	t.Parallel()
	var in inForce
	in.Store(&live{maker: channels.Maker{Masker: redact.New()}})
	r := approval.Request{Agent: "bot", Risk: approval.RiskHigh}
	r.Server, r.Tool, r.Args = "bank", "pay", []byte(`{"password":"hunter2hunter2","to":"acme"}`)
	masked := `{"password":"•••• (14 characters, sha256 76880d60)","to":"acme"}`
	asked := "Run 'bank/pay' with arguments " + masked + "?\n"
	for message, want := range map[string]string{
		"bank/pay needs a person's approval.":                   asked,
		"No rule covers bank/pay, so a person must approve it.": asked,
		"Transfers are looked at":                               "Run bank/pay: to",
	} {
		r.HumanMessage = message
		if got := in.showAtKeyboard(r); !strings.HasPrefix(got, want) || !strings.Contains(got, "\n"+message+
			"\n\nbank/pay, risk high") || strings.Count(got, "•••• (14 characters") != 1 {
			t.Errorf("%s: asked %q", message, got)
		}
	}
	r.HumanMessage, r.Sentences = "bank/pay needs a person's approval.",
		&summary.Sentences{Summary: summary.Wording{"": "Pay somebody"}}
	if got := in.showAtKeyboard(r); !strings.HasPrefix(got, "Pay somebody\n") {
		t.Errorf("asked %q", got)
	}
}
