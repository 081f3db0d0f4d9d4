package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth"
	"countersign/internal/lists"
)

// rosterOfTests knows where everybody is reached.
type rosterOfTests struct{}

func (rosterOfTests) Ways(person string) []approval.Address {
	if person == "ken" {
		return []approval.Address{{Channel: "slack", To: "U024BE7LHKEN"}, {Channel: "line", To: "Ushort"},
			{Channel: "webhook", To: "ken"}}
	}
	return nil
}
func (rosterOfTests) Asks(string) approval.Asks { return approval.Asks{CardsAtOnce: 7} }
func (rosterOfTests) AtKeyboard(agent string) (approval.Actor, bool) {
	return approval.Actor{Kind: approval.Human, Name: "mei"}, agent == "bot"
}

// told notes of what admins are told.
type told struct {
	froze, lifted []string
	err           error
}

func (f *told) Froze(_ context.Context, e approval.Epoch) error {
	f.froze = append(f.froze, e.Agent+" by "+e.FrozenBy+": "+e.Reason)
	return f.err
}

func (f *told) TellLifted(_ context.Context, e approval.Epoch, by approval.Actor) error {
	f.lifted = append(f.lifted, e.Agent+" by "+by.Name)
	return f.err
}

func peopleWorld(t testing.TB, f *told) *world {
	t.Helper()
	w := adminWorld(t, func(o *Options) { o.Roster, o.Freezes = rosterOfTests{}, f })
	people := append([]auth.Person(nil), peopleOfTests...)
	people[1].Quiet = auth.QuietHours{From: 22 * 60, To: 7*60 + 30}
	w.dir.Replace([]auth.AgentIdentity{{Name: "bot", Token: "token-of-bot-0123456789", Owner: "hana"}, {Name: "other"}},
		people)
	return w
}

func TestPeopleAndHowTheyAreReached(t *testing.T) {
	t.Parallel()
	w := peopleWorld(t, &told{})
	w.get("hana", "/people").is(http.StatusOK).has("slack U024BE7LHKEN", "line Ushort", "<li>webhook</li>",
		"22:00 to 07:30, UTC", "finance", "hana, ken",
		"approver, admin", "No channel reaches them.", "hana (that is you)", "<dd>mei</dd>", "<dd>7</dd>").lacks("token-of-")
	// whoever is no admin sees enough of an address to know their own by, and of a short one nothing
	for _, who := range []string{"ken", "mei"} {
		w.get(who, "/people").is(http.StatusOK).has("slack ••••HKEN", "line ••••<").lacks("U024BE7", "Ushort")
	}
	w.get("guest", "/people").is(http.StatusForbidden).lacks("slack")
	w.get("guest", "/").lacks("/people")
	w.get("yuki", "/people").has("承認者")
}

// withRule is a policy whose one rule to be named is called name.
type withRule struct {
	approval.Policy
	name string
}

func (p withRule) RuleDigests() map[string]string { return map[string]string{p.name: "one"} }

func TestSomebodyStandsIn(t *testing.T) {
	t.Parallel()
	w := peopleWorld(t, &told{})
	if err := w.gate.SetPolicy(w.ctx, withRule{w.gate.Policy(), nasty}, nil); err != nil {
		t.Fatal(err)
	}
	// yuki's times are Japan's: 21:00 there is noon in UTC
	w.post("yuki", "/people/delegate", url.Values{"to": {"ken"}, "until": {"2026-11-22T21:00"},
		"rule": {nasty}}).is(http.StatusSeeOther)
	ds, err := lists.ListDelegations(w.ctx, w.gate)
	if err != nil || len(ds) != 1 || ds[0].Delegator != "yuki" || ds[0].Delegate != "ken" ||
		!ds[0].Until.Equal(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)) {
		t.Fatalf("%+v, %v", ds, err)
	}
	w.get("ken", "/people").harmless().has("ken stands in for yuki", "&lt;script&gt;", "tomorrow 12:00 UTC (in 26 h)",
		"/people/delegations/")
	w.get("mei", "/people").has("ken 代 yuki 決定").lacks("/people/delegations/")
	end := "/people/delegations/" + ds[0].ID + "/end"
	w.post("mei", end, url.Values{"by": {"ken"}}).is(http.StatusNotFound)
	w.post("ken", end, url.Values{}).is(http.StatusSeeOther)
	r := w.post("ken", end, url.Values{}).is(http.StatusSeeOther)
	w.get("ken", "/people", "Cookie", strings.SplitN(r.header.Get("Set-Cookie"), ";", 2)[0]).has("that had already ended",
		"Nobody is standing in for anyone.")
}

// Who delegates is the session's person: only an admin may name somebody else.
func TestAFormThatNamesSomebodyElse(t *testing.T) {
	t.Parallel()
	w := peopleWorld(t, &told{})
	for _, who := range []string{"ken", "mei"} {
		w.post(who, "/people/delegate", url.Values{"for": {"hana"}, "to": {who}, "until": {"2026-11-22T12:00"},
			"by": {"hana"}, "person": {"hana"}}).is(http.StatusForbidden)
	}
	w.post("guest", "/people/delegate", url.Values{"for": {"guest"}, "to": {"ken"}, "until": {"2026-11-22T12:00"}}).is(
		http.StatusForbidden)
	if ds, _ := lists.ListDelegations(w.ctx, w.gate); len(ds) != 0 {
		t.Errorf("made: %+v", ds)
	}
	w.get("ken", "/people").lacks("<option>hana</option></select></div>\n<div class=\"field\"><label for=\"to\"")
	w.post("root", "/people/delegate", url.Values{"for": {"hana"}, "to": {"ken"}, "until": {"2026-11-22T12:00"}}).is(
		http.StatusSeeOther)
}

// What was typed is still there where it was not taken, with what was wrong.
func TestADelegationThatIsNotTaken(t *testing.T) {
	t.Parallel()
	w := peopleWorld(t, &told{})
	for name, c := range map[string]struct {
		form url.Values
		says string
	}{
		"nobody of the name": {url.Values{"to": {nasty}, "until": {"2026-11-22T12:00"}},
			"must be a person with the role approver"},
		"oneself":     {url.Values{"to": {"ken"}, "until": {"2026-11-22T12:00"}}, "Nobody can stand in for themselves"},
		"no end":      {url.Values{"to": {"mei"}}, "a delegation has an end"},
		"over before": {url.Values{"to": {"mei"}, "until": {"2026-11-20T12:00"}}, "would end before it begins"},
		"too long":    {url.Values{"to": {"mei"}, "until": {"2027-11-20T12:00"}}, "at most 30 days"},
		"no time":     {url.Values{"to": {"mei"}, "until": {"tomorrow<b>"}}, "Write a time like"},
		"a long rule": {url.Values{"to": {"mei"}, "until": {"2026-11-22T12:00"}, "rule": {strings.Repeat("r", 3000)}},
			"No rule has so long a name"},
	} {
		t.Run(name, func(*testing.T) {
			r := w.post("ken", "/people/delegate", c.form).is(http.StatusBadRequest).harmless().has(c.says, `<details open>`)
			if until := c.form.Get("until"); strings.HasPrefix(until, "20") {
				r.has(`value="` + until + `"`)
			}
		})
	}
	if ds, _ := lists.ListDelegations(w.ctx, w.gate); len(ds) != 0 {
		t.Errorf("made: %+v", ds)
	}
}

func TestAFreezeIsToldAndLiftedByAdmins(t *testing.T) {
	t.Parallel()
	f := &told{err: errors.New("nobody is there")}
	w := peopleWorld(t, f)
	w.post("ken", "/people/freeze", url.Values{"agent": {"bot"}, "reason": {nasty}}).is(http.StatusSeeOther)
	if len(f.froze) != 1 || !strings.HasPrefix(f.froze[0], "bot by ken: ") {
		t.Errorf("told: %q", f.froze)
	}
	if !strings.Contains(w.log.String(), "admins could not be told") {
		t.Error("that nobody could be told is not in the log")
	}
	w.get("ken", "/people").harmless().has("Frozen by ken today 10:00 UTC").lacks("/people/unfreeze")
	w.get("hana", "/people").has("/people/unfreeze")
	for _, who := range []string{"ken", "guest"} {
		w.post(who, "/people/unfreeze", url.Values{"agent": {"bot"}}).is(http.StatusForbidden)
	}
	w.post("guest", "/people/freeze", url.Values{"agent": {"other"}}).is(http.StatusForbidden)
	w.post("root", "/people/unfreeze", url.Values{"agent": {"bot"}, "by": {"ken"}}).is(http.StatusSeeOther)
	if len(f.lifted) != 1 || f.lifted[0] != "bot by root" {
		t.Errorf("told: %q", f.lifted)
	}
	r := w.post("hana", "/people/unfreeze", url.Values{"agent": {"bot"}}).is(http.StatusSeeOther)
	w.get("hana", "/people", "Cookie", strings.SplitN(r.header.Get("Set-Cookie"), ";", 2)[0]).has("that is not frozen")
}

// All agents are frozen only where that is said: a name that is missing freezes nobody.
func TestAllAreFrozenOnlyWhereThatIsSaid(t *testing.T) {
	t.Parallel()
	f := &told{}
	w := peopleWorld(t, f)
	for _, form := range []url.Values{{}, {"agent": {""}}, {"agent": {"bot"}, "all": {"yes"}}, {"all": {"no"}}} {
		w.post("ken", "/people/freeze", form).is(http.StatusBadRequest)
	}
	w.post("ken", "/people/freeze", url.Values{"agent": {"nobody<script>"}}).is(http.StatusNotFound)
	w.post("ken", "/people/freeze", url.Values{"agent": {"bot"}, "reason": {strings.Repeat("x", approval.MaxReason+
		1)}}).is(http.StatusBadRequest)
	if frozen, _ := lists.ListFrozen(w.ctx, w.gate); len(frozen) != 0 {
		t.Fatalf("frozen: %+v", frozen)
	}
	w.post("mei", "/people/freeze", url.Values{"all": {"yes"}, "reason": {"an incident"}}).is(http.StatusSeeOther)
	w.get("hana", "/people").has("All agents are frozen", "Frozen by mei", `name="all" value="yes"`)
	w.post("hana", "/people/unfreeze", url.Values{"all": {"yes"}}).is(http.StatusSeeOther)
	if frozen, _ := lists.ListFrozen(w.ctx, w.gate); len(frozen) != 0 {
		t.Errorf("frozen: %+v", frozen)
	}
}
