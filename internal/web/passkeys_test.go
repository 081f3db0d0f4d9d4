package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth/passkey"
	"countersign/internal/auth/passkey/passkeytest"
	"countersign/internal/auth/signin"
	"countersign/internal/lists"
)

// vaultPolicy has what opens the vault take a passkey.
const vaultPolicy = "policy:\n  rules:\n    - {tools: [open_vault], step_up: passkey}\n    - {tools: [sweep], step_up: passkey, confirm: true, require_reason: true}\n"

// keyed is a world whose pages are at an address that passkeys work at.
type keyed struct {
	*world
	host, at string // localhost and the port, and the origin
	key      *passkeytest.Authenticator
}

func newKeyed(t testing.TB, change ...func(*Options)) *keyed {
	k := &keyed{key: new(passkeytest.Authenticator)}
	k.world = newWorld(t, append(change, func(o *Options) { o.Base = func() string { return k.at } })...)
	k.host = "localhost" + k.srv.URL[strings.LastIndex(k.srv.URL, ":"):]
	k.at = "http://" + k.host
	if err := k.gate.SetPolicy(k.ctx, policyOf(t, vaultPolicy), nil); err != nil {
		t.Fatal(err)
	}
	return k
}

// begin asks for what the script hands to the authenticator.
func (k *keyed) begin(person, path string, form url.Values) (c ceremony) {
	k.t.Helper()
	if err := json.Unmarshal([]byte(k.post(person, path, form, "Host", k.host).body), &c); err != nil {
		k.t.Fatal(err)
	}
	return c
}

// add has somebody add a passkey.
func (k *keyed) add(person, name string) {
	k.t.Helper()
	c := k.begin(person, "/passkeys/begin", url.Values{})
	if c.Create == nil {
		k.t.Fatalf("adding begins with %+v", c)
	}
	k.goes(k.post(person, "/passkeys", url.Values{"name": {name}, "passkey": {string(k.key.Create(k.at, c.Create))}}),
		"/passkeys")
}

// goes holds that an answer leads to a page.
func (k *keyed) goes(r reply, to string) reply {
	k.t.Helper()
	if got, _ := r.is(http.StatusSeeOther).leads(); got != to {
		k.t.Errorf("%s leads to %q, want %q", r.what, got, to)
	}
	return r
}

func TestAPasskeyIsAddedListedAndRemovedOnItsPage(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	page := func() reply { t.Helper(); return k.get("hana", "/passkeys", "Host", k.host).is(http.StatusOK) }
	page().has("You have no passkeys yet.", `data-passkey="/passkeys/begin"`, "passkey.js", "needs JavaScript",
		"<noscript>").lacks("<script>", "onclick")
	k.add("hana", `<b>phone</b>`)
	page().has("&lt;b&gt;phone&lt;/b&gt;", "on one device").lacks("<b>phone", "You have no passkeys yet.")
	k.get("ken", "/passkeys", "Host", k.host).has("You have no passkeys yet.")
	all, err := k.pages.Passkeys.Of(k.ctx, "hana")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	form := url.Values{"id": {all[0].ID}}
	k.post("ken", "/passkeys/remove", form).is(http.StatusNotFound)
	k.goes(k.post("hana", "/passkeys/remove", form), "/passkeys")
	page().has("You have no passkeys yet.")
}

func TestPasskeysAreForWhoIsSignedInAndFromOurPages(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	for _, path := range []string{"/passkeys", "/passkeys/begin", "/passkeys/remove", "/r/x/passkey",
		"/r/x/passkey/begin"} {
		k.post("", path, url.Values{}).is(http.StatusUnauthorized)
		k.send("hana", http.MethodPost, path, url.Values{}, "Sec-Fetch-Site", "cross-site").is(http.StatusForbidden)
	}
	for _, path := range []string{"/signin/passkey", "/signin/passkey/begin"} {
		k.send("", http.MethodPost, path, url.Values{}, "Sec-Fetch-Site", "cross-site").is(http.StatusForbidden)
	}
	k.get("", "/passkeys").is(http.StatusSeeOther)
}

func TestThePageSaysWherePasskeysWork(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.get("hana", "/passkeys").has("Passkeys work at one address of these pages only.", k.at+
		"/passkeys").lacks("data-passkey")
	k.get("", "/signin").lacks("data-passkey", "passkey.js")
	k.get("", "/signin", "Host", k.host).has(`data-passkey="/signin/passkey/begin"`, "passkey.js")
	k.at = "http://192.0.2.7"
	k.get("hana", "/passkeys").has("An admin can set public_url.").lacks("data-passkey")
	if c := k.begin("hana", "/passkeys/begin", url.Values{}); !strings.Contains(c.Error, "public_url") {
		t.Errorf("adding begins with %+v", c)
	}
}

func TestAnOldSessionShowsAPasskeyBeforeItAddsOne(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	k.clock.Advance(passkey.Young)
	c := k.begin("hana", "/passkeys/begin", url.Values{})
	if !c.First || c.Get == nil || c.Create != nil {
		t.Fatalf("an old session begins with %+v", c)
	}
	c = k.begin("hana", "/passkeys/begin", url.Values{"shown": {string(k.key.Get(k.at, c.Get))}})
	if c.Create == nil {
		t.Fatalf("then with %+v", c)
	}
	if c := k.begin("hana", "/passkeys/begin", url.Values{"shown": {"{}"}}); c.Error == "" || c.Create != nil {
		t.Errorf("with nothing shown: %+v", c)
	}
	if c := k.begin("ken", "/passkeys/begin", url.Values{}); !strings.Contains(c.Error, "sign in again") {
		t.Errorf("ken, who has none: %+v", c)
	}
}

// beginSignIn begins signing in, in a browser that is nobody's yet, and returns the cookie of it.
func (k *keyed) beginSignIn() (c ceremony, cookie string) {
	k.t.Helper()
	r := k.post("", "/signin/passkey/begin", url.Values{}, "Host", k.host).is(http.StatusOK)
	if err := json.Unmarshal([]byte(r.body), &c); err != nil {
		k.t.Fatal(err)
	}
	for _, c := range (&http.Response{Header: r.header}).Cookies() {
		if c.Name == "countersign-passkey" && c.HttpOnly && c.SameSite == http.SameSiteLaxMode {
			cookie = c.Name + "=" + c.Value
		}
	}
	if cookie == "" {
		k.t.Fatalf("no ticket in %v", r.header)
	}
	return c, cookie
}

// session is the secret that an answer gives the browser, "" for none.
func session(r reply) string {
	for _, c := range (&http.Response{Header: r.header}).Cookies() {
		if c.Name == "countersign" {
			return c.Value
		}
	}
	return ""
}

func TestAPasskeySignsIn(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	c, cookie := k.beginSignIn()
	answer := url.Values{"passkey": {string(k.key.Get(k.at, c.Get))}}
	if r := k.goes(k.post("", "/signin/passkey", answer, "Host", k.host), "/signin"); session(r) != "" {
		t.Error("a browser without the ticket is signed in")
	}
	_, others := k.beginSignIn()
	if r := k.goes(k.post("", "/signin/passkey", answer, "Host", k.host, "Cookie", others), "/signin"); session(r) != "" {
		t.Error("an answer that was given in another browser signs in")
	}
	secret := session(k.goes(k.post("", "/signin/passkey", answer, "Host", k.host, "Cookie", cookie), "/"))
	s, err := k.signIns.Look(k.ctx, secret)
	if err != nil || s.Person != "hana" || s.Method != signin.MethodPasskey {
		t.Fatalf("the session is %+v, %v", s, err)
	}
	if r := k.goes(k.post("", "/signin/passkey", answer, "Host", k.host, "Cookie", cookie), "/signin"); session(r) != "" {
		t.Error("the same answer signs in again")
	}
}

// Whoever's passkey says otherwise of copies than before is told so, and what to do.
func TestAPasskeyWhoseBackupFlagChangedIsExplained(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	k.key.Eligible = true
	c, cookie := k.beginSignIn()
	r := k.post("", "/signin/passkey", url.Values{"passkey": {string(k.key.Get(k.at, c.Get))}}, "Host", k.host, "Cookie",
		cookie)
	if k.goes(r, "/signin"); session(r) != "" {
		t.Error("it signs in")
	}
	for name, c := range r.cookies() {
		if name == "countersign-note" {
			k.get("", "/signin", "Host", k.host, "Cookie", name+"="+
				c.Value).has("Remove it on the “Passkeys” page and add it again")
			return
		}
	}
	t.Errorf("it says nothing: %v", r.header)
}

// Strangers try a few times a minute from an address, and then are told to wait: none of it is on record then, and none
// of it counts for whoever has a passkey, or signs in in another way, behind the same address.
func TestRule12_TriesOfStrangersAreLimitedAndKeepNobodyOut(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	try := func(answer []byte, cookie string) reply {
		t.Helper()
		r := k.post("", "/signin/passkey", url.Values{"passkey": {string(answer)}}, "Host", k.host, "Cookie", cookie)
		return k.goes(r, "/signin")
	}
	says := func(r reply) string {
		t.Helper()
		for _, c := range (&http.Response{Header: r.header}).Cookies() {
			if c.Name == "countersign-note" {
				return k.get("", "/signin", "Host", k.host, "Cookie", c.Name+"="+c.Value).body
			}
		}
		t.Fatalf("it says nothing: %v", r.header)
		return ""
	}
	forger := k.key.Clone()
	forger.Forge = func(s *passkeytest.Said) { s.Flags &^= passkeytest.Verified }
	for range 30 {
		c, cookie := k.beginSignIn()
		if got := says(try(forger.Get(k.at, c.Get), cookie)); strings.Contains(got, "Wait a minute") {
			t.Fatal("told to wait too early")
		}
	}
	c, cookie := k.beginSignIn()
	if got := says(try(forger.Get(k.at, c.Get), cookie)); !strings.Contains(got, "Wait a minute") {
		t.Errorf("one more: %s", got)
	}
	es, err := lists.ListEvents(k.ctx, k.gate, approval.EventQuery{Type: approval.EventPasskeyRefused, Limit: 100})
	if err != nil || len(es) != 30 {
		t.Errorf("%d on record, %v", len(es), err)
	}
	for range 3 {
		c, cookie = k.beginSignIn()
		r := k.post("", "/signin/passkey", url.Values{"passkey": {string(k.key.Get(k.at, c.Get))}}, "Host", k.host, "Cookie",
			cookie)
		if s, err := k.signIns.Look(k.ctx, session(r)); err != nil || s.Person != "hana" {
			t.Errorf("hana, behind the same address: %+v, %v", s, err)
		}
	}
	k.post("", "/signin/link", url.Values{"t": {k.link("hana", "line")}}, "Host", k.host).is(http.StatusSeeOther)
}

// form is what the page of a request posts.
func (k *keyed) form(id string, more ...string) url.Values {
	k.t.Helper()
	r, err := k.gate.Request(k.ctx, approval.Actor{Kind: approval.Human, Name: "hana", Approver: true}, id)
	if err != nil {
		k.t.Fatal(err)
	}
	f := url.Values{"v": {r.Version()}}
	for i := 0; i+1 < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	return f
}

func (k *keyed) status(id string) approval.Status {
	k.t.Helper()
	h, err := k.gate.RequestHead(k.ctx, approval.Actor{Kind: approval.Human, Name: "hana", Approver: true}, id)
	if err != nil {
		k.t.Fatal(err)
	}
	return h.Status
}

// signed has hana's key sign what a form begins.
func (k *keyed) signed(id string, form url.Values) url.Values {
	k.t.Helper()
	c := k.begin("hana", "/r/"+id+"/passkey/begin", form)
	if c.Get == nil {
		k.t.Fatalf("approving begins with %+v", c)
	}
	form.Set("passkey", string(k.key.Get(k.at, c.Get)))
	return form
}

func TestAPasskeyApprovesTheRequestThatWasShown(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	id, other := k.ask("open_vault", `{"door":1}`), k.ask("open_vault", `{"door":2}`)
	if c := k.begin("hana", "/r/"+id+"/passkey/begin", k.form(id)); !strings.Contains(c.Error, "no passkey") {
		t.Errorf("without a passkey: %+v", c)
	}
	k.add("hana", "phone")
	k.get("hana", "/r/"+id+"/passkey", "Host", k.host).is(http.StatusOK).has("open_vault", "door", `data-passkey="/r/`+id+
		`/passkey/begin"`, k.form(id).Get("v"))
	path := func(id string) string { return "/r/" + id + "/passkey" }
	for what, form := range map[string]url.Values{
		"nothing":  k.form(id),
		"rubbish":  k.form(id, "passkey", "{}"),
		"no field": {},
	} {
		k.goes(k.post("hana", path(id), form), stepUpPath(id))
		if got := k.status(id); got != approval.Pending {
			t.Fatalf("with %s it is %s", what, got)
		}
	}
	form := k.signed(id, k.form(id))
	k.goes(k.post("hana", path(other), url.Values{"v": k.form(other)["v"], "passkey": form["passkey"]}), stepUpPath(other))
	k.goes(k.post("hana", path(id), form), stepUpPath(id)) // which was used up
	if a, b := k.status(id), k.status(other); a != approval.Pending || b != approval.Pending {
		t.Fatalf("signed for another, they are %s and %s", a, b)
	}
	form = k.signed(id, k.form(id))
	k.goes(k.post("ken", path(id), form), stepUpPath(id))
	if got := k.status(id); got != approval.Pending {
		t.Fatalf("ken posts hana's: %s", got)
	}
	form = k.signed(id, k.form(id))
	form.Set("args", `{"door":2}`)
	k.post("hana", path(id), form).is(http.StatusForbidden)
	if got := k.status(id); got != approval.Pending {
		t.Fatalf("with other args: %s", got)
	}
	k.goes(k.post("hana", path(id), k.signed(id, k.form(id))), "/r/"+id)
	if got := k.status(id); got != approval.Approved {
		t.Fatalf("it is %s", got)
	}
	if got := k.status(other); got != approval.Pending {
		t.Fatalf("the other is %s", got)
	}
}

func TestARequestThatChangedIsNotApprovedWithAPasskey(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	id := k.ask("open_vault", `{}`)
	shown := k.form(id)
	signed := k.signed(id, k.form(id))
	if _, err := k.gate.Extend(k.ctx, id, approval.Actor{Kind: approval.Human, Name: "hana"},
		approval.ViaWeb); err != nil {
		t.Fatal(err)
	}
	if c := k.begin("hana", "/r/"+id+"/passkey/begin", shown); !strings.Contains(c.Error, "has changed since you saw it") {
		t.Errorf("beginning with the old version: %+v", c)
	}
	k.post("hana", "/r/"+id+"/passkey", signed).is(http.StatusConflict)
	if got := k.status(id); got != approval.Pending {
		t.Errorf("it is %s", got)
	}
}

func TestAPasskeyIsNeitherASecondYesNorAReason(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	id := k.ask("sweep", `{}`)
	post := func(more ...string) reply {
		t.Helper()
		k.clock.Advance(time.Second)
		return k.post("hana", "/r/"+id+"/passkey", k.signed(id, k.form(id, more...)))
	}
	post("confirmed", "yes").is(http.StatusUnprocessableEntity)
	post("reason", "checked").is(http.StatusUnprocessableEntity)
	if got := k.status(id); got != approval.Pending {
		t.Fatalf("it is %s", got)
	}
	k.goes(post("reason", "checked", "confirmed", "yes"), "/r/"+id)
	if got := k.status(id); got != approval.Approved {
		t.Errorf("it is %s", got)
	}
}

func TestOtherArgsAreApprovedWithAPasskeyOnThePage(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	k.add("hana", "phone")
	id := k.ask("open_vault", `{"door":1}`)
	r := k.post("hana", "/r/"+id+"/passkey", k.signed(id, k.form(id, "args", `{"door": 7}`))).is(http.StatusSeeOther)
	next := strings.TrimSuffix(strings.TrimPrefix(r.header.Get("Location"), "/r/"), "/passkey")
	if k.status(id) != approval.Denied || next == id || k.status(next) != approval.Approved {
		t.Errorf("the one is %s, %s in its place is %s", k.status(id), next, k.status(next))
	}
	k.post("hana", "/r/"+next+"/passkey/begin", k.form(next, "args", `nonsense`)).is(http.StatusBadRequest)
}

// The page of a request that takes a passkey leads to where it is used, and denies by itself.
func TestStepUp_ThePageOfARequestLeadsToThePasskey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.ask("open_vault", `{"door":3}`)
	w.get("hana", "/r/"+id).is(http.StatusOK).has(`href="/r/`+id+`/passkey"`, `value="deny"`).lacks(`value="approve"`,
		`value="edit"`)
	w.get("hana", "/r/"+id+"/passkey").is(http.StatusOK).has(`href="/r/` + id + `"`)
	r, err := w.gate.Request(w.ctx, w.gate.PersonNow("hana"), id)
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"v": {r.Version()}, "do": {"approve"}}
	w.post("hana", "/r/"+id+"/decide", form).is(http.StatusForbidden).has("needs a passkey")
	form.Set("do", "deny")
	w.post("hana", "/r/"+id+"/decide", form).is(http.StatusSeeOther)
}
