package signin_test

import (
	"log/slog"
	"maps"
	"strings"
	"testing"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/internal/auth/signin"
)

// What somebody signed in with is taken back: links that were asked for with it sign nobody in, and sessions that began
// with it are none any more, at once and for good. Those of other ways, and of other people, go on.
func TestRule8_AWayInThatIsTakenBackEndsWhatBeganWithIt(t *testing.T) {
	has := map[string]string{"line": "U1", signin.FromTerminal: "token-1", signin.WayOpenID: "sub-1"}
	w := newWorld(t)
	w.Service = signin.New(signin.Options{Store: w.scoped, Rows: w.scoped.SignIns,
		Audit:     approval.NewAuditLog(redact.New()),
		Directory: w.dir, Logger: slog.New(slog.DiscardHandler), Opener: func(_, way string) string {
			return signin.Opener(way, has[way])
		}})
	ctx := t.Context()
	link := func(via approval.Via) string {
		way := string(via)
		if via == approval.ViaCLI {
			way = signin.FromTerminal
		}
		token, _, err := w.NewLink(ctx, "hana", via, has[way])
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	account := func() string { return signin.Opener(signin.WayOpenID, has[signin.WayOpenID]) }
	begin := map[string]func() string{
		"line":              func() string { s, _, _ := w.Redeem(ctx, link("line"), here); return s },
		signin.FromTerminal: func() string { s, _, _ := w.Redeem(ctx, link(approval.ViaCLI), here); return s },
		signin.WayOpenID: func() string {
			s, _, _ := w.Start(ctx, "hana", signin.MethodOpenID, account(), here)
			return s
		},
		"passkey": func() string {
			s, _, _ := w.Start(ctx, "hana", signin.MethodPasskey, signin.Passkey("k1"), here)
			return s
		},
	}
	via := map[string]approval.Via{"line": "line", signin.FromTerminal: approval.ViaCLI}
	for way := range has {
		for _, now := range []string{"another", ""} {
			was := has[way]
			secrets := map[string]string{}
			for other, fn := range begin {
				if secrets[other] = fn(); w.signedInAs(secrets[other]) != "hana" {
					t.Fatalf("nobody is signed in by %s", other)
				}
			}
			unused := ""
			if via[way] != "" {
				unused = link(via[way])
			}
			has[way] = now
			for other, secret := range secrets {
				want := "hana"
				if other == way {
					want = ""
				}
				if who := w.signedInAs(secret); who != want {
					t.Errorf("%s is now %q: by %s %q is signed in, want %q", way, now, other, who, want)
				}
			}
			if unused != "" {
				_, err := w.Link(ctx, unused, here)
				is(t, "an unused link", err, signin.ErrRefused)
				_, _, err = w.Redeem(ctx, unused, here)
				is(t, "an unused link's use", err, signin.ErrRefused)
			}
			_, revoked, err := w.Recheck(ctx)
			if len(revoked) != 1 || err != nil {
				t.Errorf("%s is now %q: %d sessions ended, %v", way, now, len(revoked), err)
			}
			has[way] = was // who has it again is not signed in by what began before
			if w.signedInAs(secrets[way]) != "" {
				t.Errorf("a session of before %s was taken back is one again", way)
			}
			if unused != "" {
				_, err := w.Link(ctx, unused, here)
				is(t, "an unused link of before", err, signin.ErrRefused)
			}
			if _, err := w.EndOthers(ctx, "hana", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	revoked := 0
	for _, e := range w.told(approval.EventSessionEnded) {
		if strings.HasPrefix(e, "system:signin revoked") {
			revoked++
		}
	}
	if revoked != 6 {
		t.Errorf("on record: %d", revoked)
	}
}

// What somebody shows is looked up, and taken back or replaced before it has made anything: it makes no link and starts
// no session, though the person has another by then.
func TestRule8_WhatWasTakenBackSinceItWasCheckedBeginsNothing(t *testing.T) {
	ctx := t.Context()
	for _, now := range []string{"another", ""} {
		has := map[string]string{"line": "U1", signin.FromTerminal: "token-1", signin.WayOpenID: "sub-1"}
		w := newWorld(t)
		w.Service = signin.New(signin.Options{Store: w.scoped, Rows: w.scoped.SignIns,
			Audit:     approval.NewAuditLog(redact.New()),
			Directory: w.dir, Logger: slog.New(slog.DiscardHandler), Opener: func(_, way string) string {
				return signin.Opener(way, has[way])
			}})
		checked := maps.Clone(has)
		for way := range has {
			has[way] = now
		}
		for way, via := range map[string]approval.Via{"line": "line", signin.FromTerminal: approval.ViaAPI} {
			_, _, err := w.NewLink(ctx, "hana", via, checked[way])
			is(t, "a link by "+way, err, signin.ErrRefused)
		}
		opener := signin.Opener(signin.WayOpenID, checked[signin.WayOpenID])
		_, _, err := w.Start(ctx, "hana", signin.MethodOpenID, opener, here)
		is(t, "a session", err, signin.ErrRefused)
		if all, err := w.Sessions(ctx, "hana"); len(all) != 0 || err != nil {
			t.Errorf("sessions: %+v, %v", all, err)
		}
		if got := w.told(approval.EventSignInRefused); len(got) != 1 || !strings.Contains(got[0], "revoked") {
			t.Errorf("on record: %v", got)
		}
	}
}
