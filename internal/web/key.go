package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"countersign/approval"
	"countersign/internal/loopback"
)

// codeKeyRequired refuses what is done in a session of this machine without the session's key.
const codeKeyRequired approval.Code = "key_required"

var errKeyless = approval.Errorf(codeKeyRequired, "This browser can look, and do nothing: it does not have the "+
	"session's key. Nothing was done. Sign in with a new link.")

// keyField is the field of a form in which our script sends the key.
const keyField = "key"

// requireProof refuses a form that somebody else than the viewer may have sent. A browser gives the cookie of localhost
// to every port of this machine, whose servers can then ask for any page and send any form as if they were the browser.
// The key they cannot have: it is in the answer to signing in alone, from which our script puts it into the storage of
// our own origin, port included, and into the forms that are sent.
func (x *exchange) requireProof() error {
	if x.r.Method == http.MethodGet || x.r.Method == http.MethodHead || x.isViewers() {
		return nil
	}
	return errKeyless
}

// isViewers reports whether a request is known to be the viewer's own: in a session of this machine it has the key,
// which no page that is only looked at does.
func (x *exchange) isViewers() bool {
	return !x.viewer.Session.Keyed || x.s.SignIn.IsKey(x.viewer.Session.ID, x.form.Get(keyField))
}

// keyWorks answers our script, which has been brought a key and has another, whether that is the session's: without it
// nobody comes so far.
func keyWorks(_ context.Context, x *exchange) error {
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// withKey adds a session's key to where a browser goes next, where no server is told it.
func (x *exchange) withKey(to, session string) string {
	to, _, _ = strings.Cut(to, "#")
	which, key := x.s.SignIn.Key(session)
	return to + "#key=" + which + "." + key
}

// KeyName names the key that the viewer's browser must have for what is done on the page, "" where it needs none.
func (v *View) KeyName() string { return v.keyName }

// readHost is what a browser has in its address: the host, and whether HTTPS is the way. A proxy may bring requests
// without either; where the browser says itself that it is at public_url, or nothing else, that is believed of https.
func (x *exchange) readHost() (host string, secure bool) {
	host, secure = x.r.Host, x.r.TLS != nil || !loopback.IsHost(hostname(x.r.Host))
	base, err := url.Parse(x.s.Base())
	if err != nil || base.Host == "" || secure {
		return host, secure
	}
	// What is sent back from a provider goes to public_url, and has no Origin.
	if origin := x.r.Header.Get("Origin"); strings.EqualFold(origin, base.Scheme+"://"+base.Host) ||
		origin == "" && x.r.URL.Path == openIDCallback {
		return base.Host, base.Scheme == "https"
	} else if origin == "" {
		return host, base.Scheme == "https"
	}
	return host, false
}

// onMachine reports whether the browser has a name of this machine in its address.
func (x *exchange) onMachine() bool {
	host, _ := x.readHost()
	return loopback.IsHost(hostname(host))
}

// mayBePlain reports whether a request may have come in the clear, as far as it says of itself.
func mayBePlain(r *http.Request) bool { return r.TLS == nil && loopback.IsHost(hostname(r.Host)) }
