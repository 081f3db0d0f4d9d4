package passkey_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/passkey/passkeytest"
	"countersign/internal/secret"
	"countersign/internal/testkit"
)

// Anybody can send what is no passkey: it does not fill the audit log, and hides no refusal of somebody's own.
func TestStrangersDoNotFillTheRecord(t *testing.T) {
	w := newWorld(t)
	try := func(n int) {
		for range n {
			if _, err := w.FinishSignIn(t.Context(), "nobody's", []byte("{}")); err == nil {
				t.Fatal("signed in")
			}
		}
	}
	try(100)
	if n := w.events(approval.EventPasskeyRefused); n != 60 {
		t.Errorf("%d refusals on record, want 60", n)
	}
	if _, err := w.FinishAdding(t.Context(), w.browser("hana"), "phone", []byte("{}")); err == nil {
		t.Fatal("added")
	}
	if n := w.events(approval.EventPasskeyRefused); n != 61 {
		t.Errorf("%d refusals on record, want hana's own too", n)
	}
	w.clock.Advance(time.Minute)
	try(1)
	if n := w.events(approval.EventPasskeyRefused); n != 62 {
		t.Errorf("%d refusals on record, want one of the next minute", n)
	}
}

// writes counts the write transactions of a store.
type writes struct {
	approval.Store
	n atomic.Int64
}

func (w *writes) Update(ctx context.Context, about approval.Scope, fn func(tx approval.Tx) error) error {
	w.n.Add(1)
	return w.Store.Update(ctx, about, fn)
}

// What lets nobody in is looked at and not written, whatever it is: the store's one writer is for those who are known.
func TestRule12_StrangersHaveNoPartOfTheWriter(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	w.add(key, w.browser("hana"), "")
	counted := &writes{Store: w.scoped}
	w.Service = passkey.New(passkey.Options{Store: counted, Rows: w.scoped.Passkeys,
		Audit:     approval.NewAuditLog(redact.New()),
		Directory: w.dir, Teller: w.told, Prover: w.prover, Base: func() string {
			return w.base
		}, Logger: slog.New(slog.DiscardHandler)})
	strangers, forger := new(passkeytest.Authenticator), key.Clone()
	w.add(strangers, w.browser("ken"), "")
	if all, err := w.Of(ctx, "ken"); err != nil || len(all) != 1 {
		t.Fatal(all, err)
	} else if _, err := w.Remove(ctx, w.browser("ken"), all[0].ID); err != nil {
		t.Fatal(err)
	}
	forger.Forge = func(s *passkeytest.Said) { s.Flags &^= passkeytest.Verified }
	try := func(a *passkeytest.Authenticator, with func(ticket string) string) error {
		asked, ticket, err := w.BeginSignIn()
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.FinishSignIn(ctx, with(ticket), a.Get(origin, asked))
		return err
	}
	own := func(ticket string) string { return ticket }
	for range 60 { // until there are as many on record as may be
		_ = try(strangers, own)
	}
	before := counted.n.Load()
	for what, err := range map[string]error{
		"a passkey that nobody has": try(strangers, own),
		"a forgery":                 try(forger, own),
		"no ticket":                 try(key, func(string) string { return "" }),
	} {
		if !errors.Is(err, passkey.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := counted.n.Load() - before; n != 0 {
		t.Errorf("%d write transactions", n)
	}
	if err := try(key, own); err != nil || counted.n.Load() != before+1 {
		t.Errorf("hana: %v", err)
	}
}

// An answer is right, and its passkey is taken back before anybody is let in by it: nobody is.
func TestRule8_APasskeyThatIsTakenBackMeanwhileLetsNobodyIn(t *testing.T) {
	for what, takeBack := range map[string]func(t *testing.T, w *world, k passkey.Passkey){
		"its owner removes it": func(t *testing.T, w *world, k passkey.Passkey) {
			if _, err := w.Remove(t.Context(), w.browser("hana"), k.ID); err != nil {
				t.Error(err)
			}
		},
		"its owner is removed": func(_ *testing.T, w *world, _ passkey.Passkey) { w.dir.set("ken") },
		"its owner is removed, and is back": func(t *testing.T, w *world, _ passkey.Passkey) {
			w.dir.set("ken")
			if n, err := w.Recheck(t.Context()); n != 1 || err != nil {
				t.Error(n, err)
			}
			w.dir.set("hana", "ken")
		},
	} {
		t.Run(what, func(t *testing.T) {
			w, key := newWorld(t), new(passkeytest.Authenticator)
			w.add(key, w.browser("hana"), "")
			asked, ticket, err := w.BeginSignIn()
			if err != nil {
				t.Fatal(err)
			}
			opened := false
			_, err = w.Service.FinishSignIn(t.Context(), ticket, key.Get(origin, asked), passkey.Door{
				Right: func(k passkey.Passkey) error { takeBack(t, w, k); return nil },
				Open:  func(context.Context, approval.Tx, passkey.Passkey) error { opened = true; return nil },
			})
			if !errors.Is(err, passkey.ErrRefused) || opened {
				t.Errorf("let in: %v, %v", opened, err)
			}
		})
	}
}

// Whoever is let in and the use of the passkey are one transaction.
func TestWhoCannotBeLetInHasNotUsedThePasskey(t *testing.T) {
	w, key := newWorld(t), new(passkeytest.Authenticator)
	w.add(key, w.browser("hana"), "")
	shut := errors.New("shut")
	asked, ticket, err := w.BeginSignIn()
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Service.FinishSignIn(t.Context(), ticket, key.Get(origin, asked), passkey.Door{
		Open: func(context.Context, approval.Tx, passkey.Passkey) error { return shut }})
	if all, _ := w.Of(t.Context(), "hana"); !errors.Is(err, shut) || len(all) != 1 || !all[0].UsedAt.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
}

// programs are two that share a secret, and one that does not, on one store.
type programs struct{ one, other, apart *passkey.Service }

func (w *world) programs() programs {
	keys := func() secret.Keys { return secret.DeriveKeys(secret.List{"of all"}, "passkeys") }
	return programs{w.program(keys()), w.program(keys()), w.Service}
}

// takeOnce brings the answer to what one program has asked to all of them: the other takes it, and nobody again.
func (p programs) takeOnce(t *testing.T, what string, bring func(s *passkey.Service) error) {
	t.Helper()
	for _, at := range []struct {
		name string
		s    *passkey.Service
		want error
	}{{"apart", p.apart, passkey.ErrRefused}, {"other", p.other, nil}, {"one", p.one, passkey.ErrRefused},
		{"other again", p.other, passkey.ErrRefused}} {
		if err := bring(at.s); !errors.Is(err, at.want) {
			t.Errorf("%s at %s: %v, want %v", what, at.name, err, at.want)
		}
	}
}

// Who signs in, adds a passkey or approves with it goes on at whichever of several programs they come to, with what was
// asked at any of them, once in all.
func TestWhatOneProgramAsksAnotherTakesOnce(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	p, hana := w.programs(), w.browser("hana")
	made := key.Create(origin, w.options(p.one.BeginAdding(ctx, hana, nil)))
	p.takeOnce(t, "adding", func(s *passkey.Service) error {
		_, err := s.FinishAdding(ctx, hana, "", made)
		return err
	})
	said := key.Get(origin, w.options(p.one.BeginStepUp(ctx, hana, wanted)))
	p.takeOnce(t, "approving", func(s *passkey.Service) error {
		_, err := s.FinishStepUp(ctx, hana, wanted, said)
		return err
	})
	asked, ticket, err := p.one.BeginSignIn()
	if err != nil {
		t.Fatal(err)
	}
	answer := key.Get(origin, asked)
	p.takeOnce(t, "signing in", func(s *passkey.Service) error {
		_, err := s.FinishSignIn(ctx, ticket, answer, passkey.Door{})
		return err
	})
}

// Of all who post one answer at once one is believed.
func TestAnAnswerIsTakenOnceOfAllThatComeAtOnce(t *testing.T) {
	w, ctx, key := newWorld(t), t.Context(), new(passkeytest.Authenticator)
	hana := w.browser("hana")
	w.add(key, hana, "")
	said := key.Get(origin, w.options(w.BeginStepUp(ctx, hana, wanted)))
	var won atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := w.FinishStepUp(ctx, hana, wanted, said); err == nil {
				won.Add(1)
			} else if !errors.Is(err, passkey.ErrRefused) {
				t.Error(err)
			}
		})
	}
	testkit.Wait(t, "all answers", all.Wait)
	if won.Load() != 1 {
		t.Errorf("%d were believed", won.Load())
	}
}
