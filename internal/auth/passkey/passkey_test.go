package passkey_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/proof"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/passkey/passkeytest"
	"countersign/internal/testkit"
)

var wanted = passkey.Wanted{RequestID: "01KAFHZX3T9W8Y7B6A5D4C0001", Version: "v1", Args: `{"a":1}`}

func TestAPasskeyIsAddedUsedAndRemoved(t *testing.T) {
	for name, key := range map[string]*passkeytest.Authenticator{
		"counts": {}, "counts nothing": {NoCount: true}, "attests itself": {Packed: true},
		"is copied": {NoCount: true, Eligible: true, BackedUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, ctx := newWorld(t), t.Context()
			hana := w.browser("hana")
			k := w.add(key, hana, "  my\u202e phone ")
			if k.Person != "hana" || !strings.Contains(k.Name, "phone") || strings.ContainsRune(k.Name, '\u202e') ||
				k.BackedUp != key.BackedUp {
				t.Errorf("added %+v", k)
			}
			options := w.options(w.BeginStepUp(ctx, hana, wanted))
			proof, err := w.FinishStepUp(ctx, hana, wanted, key.Get(origin, options))
			if err != nil || proof == nil {
				t.Fatalf("a step-up: %v, %s", err, w.reasons())
			}
			asked, ticket, err := w.BeginSignIn()
			who, err2 := w.FinishSignIn(ctx, ticket, key.Get(origin, asked))
			if err = errors.Join(err, err2); err != nil || who.Person != "hana" {
				t.Fatalf("signed in as %q, %v, %s", who.Person, err, w.reasons())
			}
			if all, err := w.Of(ctx, "hana"); err != nil || len(all) != 1 || all[0].UsedAt.IsZero() {
				t.Errorf("hana has %+v, %v", all, err)
			}
			if _, err := w.Remove(ctx, w.browser("ken"), k.ID); !errors.Is(err, passkey.ErrNone) {
				t.Errorf("another removes it: %v", err)
			}
			if _, err := w.Remove(ctx, hana, k.ID); err != nil {
				t.Error(err)
			}
			asked, ticket, _ = w.BeginSignIn()
			if who, err := w.FinishSignIn(ctx, ticket, key.Get(origin, asked)); !errors.Is(err, passkey.ErrRefused) {
				t.Errorf("a removed one signs in %q: %v", who.Person, err)
			}
			if got := strings.Join(w.told.said, ", "); got != "added hana "+k.Name+", removed hana "+k.Name {
				t.Errorf("told %q", got)
			}
			if a, r := w.events(approval.EventPasskeyAdded), w.events(approval.EventPasskeyRemoved); a != 1 || r != 1 {
				t.Errorf("on record: %d added, %d removed", a, r)
			}
		})
	}
}

// Whatever is wrong with an answer, it proves nothing, is told in the same words and is on record with its reason.
func TestForgedAnswersProveNothing(t *testing.T) {
	set := func(member string, to any) func(*passkeytest.Said) {
		return func(s *passkeytest.Said) { s.Client[member] = to }
	}
	for name, c := range map[string]struct {
		forge func(s *passkeytest.Said)
		why   string
	}{
		"another origin":          {set("origin", "https://gate.example.com.evil.example"), "other_origin"},
		"another scheme":          {set("origin", "http://gate.example.com"), "other_origin"},
		"another port":            {set("origin", "https://gate.example.com:8443"), "other_origin"},
		"other case":              {set("origin", "https://GATE.example.com"), "other_origin"},
		"in a frame":              {set("crossOrigin", true), "other_origin"},
		"below another page":      {set("topOrigin", "https://evil.example"), "other_origin"},
		"no origin":               {set("origin", ""), "other_origin"},
		"another challenge":       {set("challenge", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), "no_such_challenge"},
		"no challenge":            {set("challenge", ""), "no_such_challenge"},
		"another ceremony":        {set("type", "webauthn.other"), "not_valid"},
		"another host":            {func(s *passkeytest.Said) { s.RPID = "evil.example" }, "not_valid"},
		"nobody there":            {func(s *passkeytest.Said) { s.Flags &^= passkeytest.Present }, "not_valid"},
		"nobody verified":         {func(s *passkeytest.Said) { s.Flags &^= passkeytest.Verified }, "not_valid"},
		"a copy though it has no": {func(s *passkeytest.Said) { s.Flags |= passkeytest.BackupState }, "not_valid"},
	} {
		t.Run(name, func(t *testing.T) {
			w, ctx, hana, key := newWorld(t), t.Context(), passkey.Browser{}, new(passkeytest.Authenticator)
			hana = w.browser("hana")
			w.add(key, hana, "")
			bad := key.Clone()
			bad.Forge = c.forge

			options := w.options(w.BeginStepUp(ctx, hana, wanted))
			if _, err := w.FinishStepUp(ctx, hana, wanted, bad.Get(origin, options)); !errors.Is(err, passkey.ErrRefused) {
				t.Errorf("a step-up: %v", err)
			}
			asked, ticket, err := w.BeginSignIn()
			if err != nil {
				t.Fatal(err)
			}
			if who, err := w.FinishSignIn(ctx, ticket, bad.Get(origin, asked)); !errors.Is(err, passkey.ErrRefused) ||
				who.Person != "" {
				t.Errorf("signing in: %q, %v", who.Person, err)
			}
			made := new(passkeytest.Authenticator)
			made.Forge = c.forge
			if _, err := w.FinishAdding(ctx, hana, "",
				made.Create(origin, w.options(w.BeginAdding(ctx, hana, nil)))); !errors.Is(err, passkey.ErrRefused) {
				t.Errorf("adding: %v", err)
			}
			if got := w.reasons(); got != c.why+" "+c.why+" "+c.why {
				t.Errorf("on record: %s", got)
			}
			if all, err := w.Of(ctx, "hana"); err != nil || len(all) != 1 {
				t.Errorf("hana has %+v, %v", all, err)
			}
			// And the passkey is still of use.
			if _, err := w.FinishStepUp(ctx, hana, wanted,
				key.Get(origin, w.options(w.BeginStepUp(ctx, hana, wanted)))); err != nil {
				t.Errorf("an honest one afterwards: %v", err)
			}
		})
	}
}

func TestAnAnswerCountsOnceForWhatItWasAskedFor(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	hana, ken := w.browser("hana"), w.browser("ken")
	w.add(key, hana, "")
	kens := new(passkeytest.Authenticator)
	w.add(kens, ken, "")
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, passkey.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ask := func() []byte { t.Helper(); return w.options(w.BeginStepUp(ctx, hana, wanted)) }
	finish := func(b passkey.Browser, for_ passkey.Wanted, answer []byte) error {
		_, err := w.FinishStepUp(ctx, b, for_, answer)
		return err
	}
	answer := key.Get(origin, ask())
	if err := finish(hana, wanted, answer); err != nil {
		t.Fatal(err)
	}
	refused("replayed", finish(hana, wanted, answer))

	for what, change := range map[string]func(w *passkey.Wanted){
		"another request": func(w *passkey.Wanted) { w.RequestID = "01KAFHZX3T9W8Y7B6A5D4C0002" },
		"another version": func(w *passkey.Wanted) { w.Version = "v2" },
		"other args":      func(w *passkey.Wanted) { w.Args = `{"a":2}` },
	} {
		other := wanted
		change(&other)
		answer = key.Get(origin, ask())
		refused(what, finish(hana, other, answer))
		refused(what+", and then the right one", finish(hana, wanted, answer))
	}

	elsewhere := hana
	elsewhere.Session = "another session"
	answer = key.Get(origin, ask())
	refused("another session of hers", finish(elsewhere, wanted, answer))
	refused("her own, afterwards", finish(hana, wanted, answer))

	refused("ken's passkey for hana's challenge", finish(hana, wanted, kens.GetWith(kens.Credentials()[0], origin, ask())))
	key.Forge = func(s *passkeytest.Said) { s.Credential = kens.Credentials()[0] }
	refused("ken's id with hana's key", finish(hana, wanted, key.Get(origin, ask())))
	key.Forge = nil

	answer = key.Get(origin, ask())
	w.clock.Advance(passkey.Lasts)
	refused("after five minutes", finish(hana, wanted, answer))
	answer = key.Get(origin, ask())
	w.clock.Advance(passkey.Lasts - time.Second)
	if err := finish(hana, wanted, answer); err != nil {
		t.Errorf("a second before: %v", err)
	}

	signIn, ticket, err := w.BeginSignIn()
	if err != nil {
		t.Fatal(err)
	}
	refused("a sign-in's answer", finish(hana, wanted, key.Get(origin, signIn)))
	shown := key.Get(origin, w.options(w.BeginShowing(ctx, hana)))
	refused("an answer for adding", finish(hana, wanted, shown))
	_, err = w.FinishSignIn(ctx, ticket, key.Get(origin, ask()))
	refused("a step-up's answer signs in", err)
	asked, ticket, _ := w.BeginSignIn()
	_, err = w.FinishSignIn(ctx, "another ticket", key.Get(origin, asked))
	refused("another browser's ticket", err)
	_, other, _ := w.BeginSignIn()
	_, err = w.FinishSignIn(ctx, other, key.Get(origin, asked))
	refused("the ticket of another challenge", err)
	signed := key.Get(origin, asked)
	if who, err := w.FinishSignIn(ctx, ticket, signed); who.Person != "hana" {
		t.Errorf("its own: %q, %v", who.Person, err)
	}
	_, err = w.FinishSignIn(ctx, ticket, signed)
	refused("its own, a second time", err)
	if all, _ := w.Of(ctx, "hana"); len(all) != 1 || !all[0].BlockedAt.IsZero() {
		t.Errorf("an answer that is sent twice blocks the passkey: %+v", all)
	}
	asked, ticket, _ = w.BeginSignIn()
	w.clock.Advance(passkey.Lasts)
	_, err = w.FinishSignIn(ctx, ticket, key.Get(origin, asked))
	refused("too late", err)
	asked, ticket, _ = w.BeginSignIn()
	_, err = newWorld(t).FinishSignIn(ctx, ticket, key.Get(origin, asked))
	refused("at another gate", err)
	asked, _, _ = w.BeginSignIn()
	_, err = w.FinishSignIn(ctx, "", key.Get(origin, asked))
	refused("no ticket", err)
}

func TestWhoeverBringsAnothersHandleIsNotSignedIn(t *testing.T) {
	w, ctx, key, kens := newWorld(t), t.Context(), new(passkeytest.Authenticator), new(passkeytest.Authenticator)
	w.add(key, w.browser("hana"), "")
	w.add(kens, w.browser("ken"), "")
	var kenHandle []byte
	kens.Forge = func(s *passkeytest.Said) { kenHandle = s.Handle }
	asked, _, _ := w.BeginSignIn()
	kens.Get(origin, asked)
	for what, handle := range map[string][]byte{"ken's": kenHandle, "none": nil, "nobody's": []byte("x")} {
		key.Forge = func(s *passkeytest.Said) { s.Handle = handle }
		asked, ticket, _ := w.BeginSignIn()
		if who, err := w.FinishSignIn(ctx, ticket, key.Get(origin, asked)); !errors.Is(err, passkey.ErrRefused) ||
			who.Person != "" {
			t.Errorf("hana's passkey with %s handle: %q, %v", what, who.Person, err)
		}
	}
}

func TestACountThatGoesBackBlocksThePasskey(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	hana := w.browser("hana")
	k := w.add(key, hana, "phone")
	clone := key.Clone()
	use := func(a *passkeytest.Authenticator) error {
		_, err := w.FinishStepUp(ctx, hana, wanted, a.Get(origin, w.options(w.BeginStepUp(ctx, hana, wanted))))
		return err
	}
	for range 2 {
		if err := use(key); err != nil {
			t.Fatal(err)
		}
	}
	if err := use(clone); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("a copy: %v", err)
	}
	if all, _ := w.Of(ctx, "hana"); len(all) != 1 || all[0].BlockedAt.IsZero() {
		t.Errorf("hana has %+v", all)
	}
	if _, err := w.BeginStepUp(ctx, hana, wanted); !errors.Is(err, passkey.ErrNone) {
		t.Errorf("afterwards there is one to use: %v", err)
	}
	asked, ticket, _ := w.BeginSignIn()
	if _, err := w.FinishSignIn(ctx, ticket, key.Get(origin, asked)); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("the blocked one signs in: %v", err)
	}
	if got := strings.Join(w.told.said, ", "); got != "added hana phone, blocked hana phone" ||
		w.events(approval.EventPasskeyBlocked) != 1 {
		t.Errorf("told %q", got)
	}
	if _, err := w.Remove(ctx, hana, k.ID); err != nil {
		t.Error(err)
	}
}

// A passkey that says otherwise of copies than when it was added is not accepted, and its owner is told why: it is no
// forgery, whose owner nobody knows. It stays as it was.
func TestAPasskeyWhoseBackupFlagChangedIsToldApartAndNotAccepted(t *testing.T) {
	for _, eligible := range []bool{false, true} {
		w, ctx, key := newWorld(t), t.Context(), &passkeytest.Authenticator{Eligible: eligible}
		hana := w.browser("hana")
		k := w.add(key, hana, "phone")
		key.Eligible = !eligible
		signIn := func(a *passkeytest.Authenticator) error {
			asked, ticket, err := w.BeginSignIn()
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.FinishSignIn(ctx, ticket, a.Get(origin, asked))
			return err
		}
		if err := signIn(key); !errors.Is(err, passkey.ErrBackup) {
			t.Errorf("signing in: %v", err)
		}
		if _, err := w.FinishStepUp(ctx, hana, wanted,
			key.Get(origin, w.options(w.BeginStepUp(ctx, hana, wanted)))); !errors.Is(err, passkey.ErrBackup) {
			t.Errorf("a step-up: %v", err)
		}
		if _, err := w.BeginAdding(ctx, hana, key.Get(origin, w.options(w.BeginShowing(ctx, hana)))); !errors.Is(err,
			passkey.ErrBackup) {
			t.Errorf("showing: %v", err)
		}
		if got := w.reasons(); got != strings.Repeat("backup_eligibility_changed ", 2)+"backup_eligibility_changed" {
			t.Errorf("on record: %s", got)
		}
		if log := w.log.String(); strings.Count(log, "remove it and add it again") != 3 || !strings.Contains(log,
			"person=hana passkey="+k.ID) {
			t.Errorf("logged: %s", log)
		}
		for what, forge := range map[string]func(*passkeytest.Said){
			"nobody verified": func(s *passkeytest.Said) { s.Flags &^= passkeytest.Verified },
			"another host":    func(s *passkeytest.Said) { s.RPID = "evil.example" },
			"copied, and not": func(s *passkeytest.Said) {
				s.Flags = s.Flags&^passkeytest.BackupEligible | passkeytest.BackupState
			},
		} {
			forger := key.Clone()
			forger.Forge = forge
			if err := signIn(forger); !errors.Is(err, passkey.ErrRefused) {
				t.Errorf("%s beside it: %v", what, err)
			}
		}
		key.Eligible = eligible
		if err := signIn(key); err != nil {
			t.Errorf("as it was: %v", err)
		}
		if all, err := w.Of(ctx, "hana"); err != nil || len(all) != 1 || !all[0].BlockedAt.IsZero() {
			t.Errorf("hana has %+v, %v", all, err)
		}
	}
}

func TestWhoMayAddAPasskey(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	hana := w.browser("hana")
	begin := func(shown []byte) error {
		_, err := w.BeginAdding(ctx, hana, shown)
		return err
	}
	w.clock.Advance(passkey.Young)
	if err := begin(nil); !errors.Is(err, passkey.ErrSignInAgain) {
		t.Errorf("after ten minutes without a passkey: %v", err)
	}
	if _, err := w.BeginShowing(ctx, hana); !errors.Is(err, passkey.ErrNone) {
		t.Errorf("showing none: %v", err)
	}
	w.add(key, w.browser("hana"), "")
	if err := begin(nil); !errors.Is(err, passkey.ErrUseOne) {
		t.Errorf("after ten minutes with one: %v", err)
	}
	show := func() []byte { return key.Get(origin, w.options(w.BeginShowing(ctx, hana))) }
	options := w.options(w.BeginAdding(ctx, hana, show()))
	if !key.IsExcluded(options) {
		t.Error("the same authenticator is asked for a second one")
	}
	other := new(passkeytest.Authenticator)
	if _, err := w.FinishAdding(ctx, hana, "second", other.Create(origin, options)); err != nil {
		t.Error(err)
	}
	if err := begin([]byte(`{}`)); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("with nothing shown: %v", err)
	}
	for _, b := range []passkey.Browser{w.browser("mei"), w.browser("bot")} {
		if _, err := w.BeginAdding(ctx, b, nil); !errors.Is(err, passkey.ErrRefused) {
			t.Errorf("%s, who is nobody here: %v", b.Person, err)
		}
	}
}

func TestAPersonHasTwentyPasskeysAtMost(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	hana := w.browser("hana")
	begun := w.options(w.BeginAdding(ctx, hana, nil))
	for range passkey.MaxPasskeys {
		w.add(new(passkeytest.Authenticator), hana, "")
	}
	if _, err := w.BeginAdding(ctx, hana, nil); !errors.Is(err, passkey.ErrTooMany) {
		t.Errorf("beginning one more: %v", err)
	}
	if _, err := w.FinishAdding(ctx, hana, "", new(passkeytest.Authenticator).Create(origin, begun)); !errors.Is(err,
		passkey.ErrRefused) && !errors.Is(err, passkey.ErrTooMany) {
		t.Errorf("one more that was begun before: %v", err)
	}
}

func TestACredentialIsOfOnePasskeyAlone(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	w.add(key, w.browser("hana"), "")
	ken := w.browser("ken")
	thief := new(passkeytest.Authenticator)
	thief.Forge = func(s *passkeytest.Said) { s.Credential = key.Credentials()[0] }
	_, err := w.FinishAdding(ctx, ken, "", thief.Create(origin, w.options(w.BeginAdding(ctx, ken, nil))))
	if !errors.Is(err, passkey.ErrRefused) || w.reasons() != "already_registered" {
		t.Errorf("the same id for another: %v, %s", err, w.reasons())
	}
}

func TestWhoIsRemovedHasNoPasskeysAndGetsNoneBack(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	hana := w.browser("hana")
	w.add(key, hana, "")
	asked, ticket, _ := w.BeginSignIn()
	stepUp := w.options(w.BeginStepUp(ctx, hana, wanted))
	w.dir.set("ken")
	if who, err := w.FinishSignIn(ctx, ticket, key.Get(origin, asked)); !errors.Is(err, passkey.ErrRefused) ||
		who.Person != "" {
		t.Errorf("signs in as %q, %v", who.Person, err)
	}
	if _, err := w.FinishStepUp(ctx, hana, wanted, key.Get(origin, stepUp)); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("approves: %v", err)
	}
	if n, err := w.Recheck(ctx); n != 1 || err != nil {
		t.Errorf("rechecked: %d, %v", n, err)
	}
	w.dir.set("hana", "ken")
	asked, ticket, _ = w.BeginSignIn()
	if who, err := w.FinishSignIn(ctx, ticket, key.Get(origin, asked)); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("once they are back, signs in as %q, %v", who.Person, err)
	}
	if n, err := w.Recheck(ctx); n != 0 || err != nil {
		t.Errorf("rechecked again: %d, %v", n, err)
	}
}

// What is asked of somebody who is not signed in says nothing of who there is.
func TestSigningInNamesNobody(t *testing.T) {
	w := newWorld(t)
	before, _, err := w.BeginSignIn()
	w.add(new(passkeytest.Authenticator), w.browser("hana"), "")
	after, _, err2 := w.BeginSignIn()
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for _, o := range []json.RawMessage{before, after} {
		var members map[string]any
		if err := json.Unmarshal(o, &members); err != nil || members["allowCredentials"] != nil ||
			members["userVerification"] != "required" {
			t.Errorf("the options are %s, %v", o, err)
		}
	}
}

func TestPasskeysBelongToTheNameThatTheyWereMadeFor(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	hana := w.browser("hana")
	w.add(key, hana, "")
	for base, works := range map[string]bool{
		origin: true, "https://gate.example.com:8443": true, "http://localhost:8787": true, "https://localhost": true,
		"http://gate.example.com": false, "http://127.0.0.1:8787": false, "https://192.0.2.7": false,
		"https://[::1]:443": false, "": false, "gate": false,
	} {
		if why := passkey.Unavailable(base); (why == "") != works {
			t.Errorf("%s: %q", base, why)
		}
		w.base = base
		if _, err := w.BeginAdding(ctx, hana, nil); errors.Is(err, passkey.ErrUnavailable) == works {
			t.Errorf("%s: adding one: %v", base, err)
		}
	}
	w.base = "https://other.example.com"
	if _, err := w.BeginStepUp(ctx, hana, wanted); !errors.Is(err, passkey.ErrNone) {
		t.Errorf("at another name there is one to use: %v", err)
	}
}

// However many strangers there are, and whoever else is signed in: no challenge goes because of them.
func TestNobodyPushesOutAnothersChallenge(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	hana, kens := w.browser("hana"), new(passkeytest.Authenticator)
	w.add(key, hana, "")
	w.add(kens, w.browser("ken"), "")
	first := w.options(w.BeginStepUp(ctx, hana, wanted))
	asked, ticket, _ := w.BeginSignIn()
	for range 5000 {
		if _, _, err := w.BeginSignIn(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5000 {
		ken := w.browser("ken")
		ken.Session = strconv.Itoa(i)
		w.options(w.BeginStepUp(ctx, ken, wanted))
	}
	if _, err := w.FinishStepUp(ctx, hana, wanted, key.Get(origin, first)); err != nil {
		t.Errorf("others used up hers: %v", err)
	}
	if who, err := w.FinishSignIn(ctx, ticket, key.Get(origin, asked)); who.Person != "hana" {
		t.Errorf("others used up hers who was not signed in yet: %q, %v", who.Person, err)
	}
}

func TestOfTwentyWhoPostAnAnswerOneSignsIn(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	w.add(key, w.browser("hana"), "")
	asked, ticket, _ := w.BeginSignIn()
	answer := key.Get(origin, asked)
	var won atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if who, err := w.FinishSignIn(ctx, ticket, answer); who.Person == "hana" {
				won.Add(1)
			} else if !errors.Is(err, passkey.ErrRefused) {
				t.Error(err)
			}
		})
	}
	testkit.Wait(t, "all answers", all.Wait)
	if k, err := w.Of(ctx, "hana"); won.Load() != 1 || err != nil || !k[0].BlockedAt.IsZero() {
		t.Errorf("%d won, %+v, %v", won.Load(), k, err)
	}
}

// The gate takes the proof, and of this prover alone.
func TestTheProofIsOfWhatWasAsked(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	hana := w.browser("hana")
	w.add(key, hana, "")
	asked := w.clock.Now()
	made, err := w.FinishStepUp(ctx, hana, wanted, key.Get(origin, w.options(w.BeginStepUp(ctx, hana, wanted))))
	if err != nil {
		t.Fatal(err)
	}
	of, ok := w.prover.Read(made)
	if !ok || of.Person != "hana" || of.RequestID != wanted.RequestID || of.Version != wanted.Version ||
		string(of.Args) != wanted.Args ||
		of.Credential == "" || of.At.Before(asked) {
		t.Errorf("it proves %+v", of)
	}
	if _, ok := proof.NewProver().Read(made); ok {
		t.Error("another prover reads it")
	}
}

func FuzzWhatABrowserPosts(f *testing.F) {
	w := newWorld(f)
	key := new(passkeytest.Authenticator)
	hana := w.browser("hana")
	w.add(key, hana, "")
	ctx := f.Context()
	stepUp := w.options(w.BeginStepUp(ctx, hana, wanted))
	create := w.options(w.BeginAdding(ctx, hana, nil))
	f.Add(key.Get(origin, stepUp))
	f.Add(new(passkeytest.Authenticator).Create("https://evil.example", create))
	f.Add((&passkeytest.Authenticator{Packed: true}).Create("https://evil.example", create))
	f.Add([]byte(`{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"e30","authenticatorData":"","signature":"","userHandle":null}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if _, err := w.FinishStepUp(ctx, w.browser("ken"), wanted, answer); err == nil {
			t.Error("it approves as ken, who was not asked")
		}
		if who, err := w.FinishSignIn(ctx, "ticket", answer); err == nil {
			t.Errorf("it signs in as %s", who.Person)
		}
		if _, err := w.FinishAdding(ctx, w.browser("ken"), "", answer); err == nil {
			t.Error("it adds a passkey")
		}
	})
}

// Answers that are cut anywhere are refused, and stop nothing.
func TestTruncatedAnswers(t *testing.T) {
	w, ctx, hana := newWorld(t), t.Context(), passkey.Browser{}
	hana = w.browser("hana")
	key := &passkeytest.Authenticator{Packed: true}
	var made struct {
		ID, RawID, Type string
		Response        map[string]any
	}
	for cut := 1; cut < 300; cut += 7 {
		if err := json.Unmarshal(key.Create(origin, w.options(w.BeginAdding(ctx, hana, nil))), &made); err != nil {
			t.Fatal(err)
		}
		object, _ := made.Response["attestationObject"].(string)
		made.Response["attestationObject"] = object[:max(0, len(object)-cut)]
		answer, err := json.Marshal(map[string]any{"id": made.ID, "rawId": made.RawID, "type": made.Type,
			"response": made.Response})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.FinishAdding(ctx, hana, "", answer); !errors.Is(err, passkey.ErrRefused) {
			t.Fatalf("%d characters less: %v", cut, err)
		}
	}
	if _, err := w.FinishAdding(ctx, hana, "", []byte(strings.Repeat(" ", 1<<20))); !errors.Is(err, passkey.ErrRefused) {
		t.Errorf("a megabyte: %v", err)
	}
}
