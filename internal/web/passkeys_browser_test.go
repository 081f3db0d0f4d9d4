//go:build browser

package web

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"countersign/internal/auth/signin"
	"countersign/internal/testkit/chromium"
)

// withKey gives a tab a security key that knows its owner.
func withKey() chromium.Act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, webauthn.Enable, webauthn.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
			Options: &webauthn.VirtualAuthenticatorOptions{Protocol: "ctap2", Transport: "internal", HasResidentKey: true,
				HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true}})
		return err
	})
}

// cookie gives a tab a session.
func cookie(at, secret string) chromium.Act {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.SetCookie, network.SetCookieParams{Name: "countersign", Value: secret, URL: at})
		return err
	})
}

// A passkey is added, signs in once its owner is signed out, and is on its page at both widths.
func TestABrowsersPasskeyIsAddedAndSignsIn(t *testing.T) {
	t.Parallel()
	k := newKeyed(t, func(o *Options) { o.Sessions = SignedIn(o.SignIn) })
	secret, _, err := k.signIns.Start(k.ctx, "hana", signin.MethodLink, "", signin.Origin{Address: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	p := chromium.Open(chromium.Start(t), t, k.at+"/passkeys", 390, 844, withKey(), cookie(k.at, secret))
	p.Says("main", "You have no passkeys yet.")
	p.Axe("passkeys, none")
	p.Fits("passkeys, none", "")
	p.Do(chromedp.SetValue("#name", "Laptop"))
	p.Click("form[data-passkey] button", "Add a passkey")
	p.Do(chromedp.WaitVisible("main article h2")) // across the form's answer
	p.Says(".note", "The passkey Laptop was added.")
	p.Axe("passkeys, one")
	p.Fits("passkeys, one", "")

	if err := k.signIns.SignOut(k.ctx, secret); err != nil {
		t.Fatal(err)
	}
	p.Do(chromedp.Navigate(k.at + "/passkeys"))
	p.Says("h1", "Sign in")
	p.Axe("sign in, with a passkey")
	p.Click("form[data-passkey] button", "Sign in with a passkey")
	p.Do(chromedp.WaitVisible("main article h2"))
	p.Says("h1", "Passkeys")
	all, err := k.signIns.Sessions(k.ctx, "hana")
	if err != nil || len(all) != 1 || all[0].Method != signin.MethodPasskey {
		t.Errorf("hana's sessions are %+v, %v", all, err)
	}
}
