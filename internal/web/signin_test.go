package web

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/auth/signin"
	"countersign/internal/testkit"
)

// signInWorld is the pages with the sessions of cookies.
func signInWorld(t *testing.T) *world {
	w := newWorld(t)
	w.pages.Sessions = SignedIn(w.signIns)
	return w
}

func (w *world) link(person string, via approval.Via) string {
	w.t.Helper()
	token, _, err := w.signIns.NewLink(w.ctx, person, via, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// cookies returns what an answer sets, by name.
func (r reply) cookies() map[string]*http.Cookie {
	all := map[string]*http.Cookie{}
	for _, c := range (&http.Response{Header: r.header}).Cookies() {
		all[c.Name] = c
	}
	return all
}

func (w *world) redeem(token string, header ...string) reply {
	w.t.Helper()
	return w.post("", pathLink, url.Values{"t": {token}}, header...)
}

// leads returns where an answer leads, and the key that it gives the browser on the way, "" for none.
func (r reply) leads() (to, key string) {
	to, behind, _ := strings.Cut(r.header.Get("Location"), "#key=")
	_, key, _ = strings.Cut(behind, ".")
	return to, key
}

// signedIn signs somebody in and returns the header of their cookie.
func (w *world) signedIn(person string) []string {
	cookie, _ := w.signedInWithKey(person)
	return cookie
}

// signedInWithKey is signedIn that returns the session's key too.
func (w *world) signedInWithKey(person string) (cookie []string, key string) {
	w.t.Helper()
	r := w.redeem(w.link(person, "line")).is(http.StatusSeeOther)
	c := r.cookies()["countersign"]
	_, key = r.leads()
	return []string{"Cookie", c.Name + "=" + c.Value}, key
}

func TestALinkIsAskedAboutAndSignsIn(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	w.get("", LinkPage(w.link("guest", "pager"))).is(200).has("asked for in pager")
	w.get("", pathSignIn).is(200).has("countersign open", "sign in")
	token := w.link("hana", "line")
	w.clock.Advance(3 * time.Minute)
	w.get("", LinkPage(token), "User-Agent", "Mozilla/5.0 (<b>)").is(200).has("Sign in as hana?",
		"asked for in LINE, 3 min", "127.0.0.1",
		"Mozilla/5.0 (&lt;b&gt;)", `action="/signin/link"`)
	r := w.redeem(token).is(http.StatusSeeOther)
	c := r.cookies()["countersign"]
	if to, _ := r.leads(); to != "/" || c == nil {
		t.Fatalf("%v", r.header)
	}
	w.get("", "/", "Cookie", c.String()).is(200).has("hana")
	w.get("", pathSignIn+"?next=/people", "Cookie",
		c.String()).is(200).has(`data-next="/people"`) // the script has the key, or not
	w.get("", LinkPage(w.link("ken", approval.ViaCLI)), "Cookie", c.String()).is(200).has("Sign in as ken?",
		"on a terminal", "hana is signed in")
}

// Chats fetch what they are sent for a picture of it, browsers what may be opened next, and mail is scanned.
func TestPreviewsAndPrefetchersSpendNoLink(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	token := w.link("hana", "line")
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, header := range [][]string{nil, {"Purpose", "prefetch"}, {"Sec-Purpose", "prefetch;prerender"},
			{"User-Agent", "Slackbot-LinkExpanding 1.0"}} {
			if c := w.send("", method, LinkPage(token), nil, header...).is(200).cookies()["countersign"]; c != nil {
				t.Errorf("%s %q signed in", method, header)
			}
		}
	}
	w.redeem(token).is(http.StatusSeeOther)
}

func TestOfManyWhoPostALinkOneIsSignedIn(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	token := w.link("hana", "line")
	statuses := make([]int, 20)
	var all sync.WaitGroup
	for i := range statuses {
		all.Go(func() { statuses[i] = w.redeem(token).status })
	}
	testkit.Wait(t, "all who post it", all.Wait)
	won := 0
	for _, s := range statuses {
		switch s {
		case http.StatusSeeOther:
			won++
		case http.StatusGone:
		default:
			t.Errorf("status %d", s)
		}
	}
	if won != 1 {
		t.Errorf("%d are signed in", won)
	}
}

// Whoever tries links learns nothing from how they are refused.
func TestAllLinksAreRefusedAlike(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	used, old, gone := w.link("hana", "line"), w.link("ken", "line"), w.link("guest", "line")
	w.redeem(used).is(http.StatusSeeOther)
	w.dir.Replace(agentsOfTests, peopleOfTests[:2])
	w.clock.Advance(signin.LinkLasts)
	fresh := w.link("hana", "line")
	var first reply
	for i, token := range []string{used, old, gone, "", "x", strings.Repeat("a", 52), strings.Repeat("é", 5000),
		fresh[:51], fresh + "a", strings.ToUpper(fresh)} {
		for _, r := range []reply{w.get("", LinkPage(token)), w.redeem(token)} {
			r.is(http.StatusGone).lacks("hana", "ken", "guest")
			if r.header.Del("Date"); first.status == 0 {
				first = r
			}
			if r.body != first.body || len(r.header) != len(first.header) || r.cookies()["countersign"] != nil {
				t.Errorf("token %d: another answer: %v %s", i, r.header, r.body)
			}
		}
	}
}

// A picture on somebody else's page, or a neighbour behind the same address, has a browser here look at links and try
// some: none of it could have signed anybody in, and so nobody is kept out by it.
func TestWhatSignsNobodyInKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	o := newProvided(t)
	token, image := o.link("hana", "line"), []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "image"}
	for range 31 {
		o.redeem(strings.Repeat("a", 52)).is(http.StatusGone)
		o.get("", LinkPage("a"), image...).is(http.StatusGone)
		o.get("", LinkPage(token), image...).is(http.StatusOK)
		o.get("", openIDCallback+"?code=a&state=b", image...).is(http.StatusBadRequest)
		o.post("", pathPasskeySignIn, url.Values{"passkey": {"{}"}}).is(http.StatusSeeOther)
		o.leave()
	}
	o.redeem(token).is(http.StatusSeeOther)
	to, kept := o.leave()
	o.back(o.provider.Visit(t, to), kept).is(http.StatusSeeOther)
}

// What the provider is asked about counts: it, too, refuses those who ask too much. A neighbour behind the same address
// who does keeps nobody from signing in otherwise.
func TestAnswersOfOneAddressAreLimited(t *testing.T) {
	t.Parallel()
	o := newProvided(t)
	to, kept := o.leave()
	answer := o.provider.Visit(t, to)
	answer.Set("code", "wrong")
	for range 30 {
		o.back(answer, kept).nobody()
	}
	o.back(answer, kept).is(http.StatusTooManyRequests)
	o.redeem(o.link("hana", "line")).is(http.StatusSeeOther)
	o.clock.Advance(time.Minute)
	to, kept = o.leave()
	o.back(o.provider.Visit(t, to), kept).is(http.StatusSeeOther)
}

func TestTheCookieIsForThisHostAlone(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	w.pages.Base = func() string { return "https://gate.example.com" }
	c := w.redeem(w.link("hana", "line"), "Origin", w.srv.URL).cookies()["countersign"]
	if c == nil || c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" ||
		c.MaxAge != 12*60*60 {
		t.Errorf("in the clear on this machine: %+v", c)
	}
	c = w.redeem(w.link("hana", "line"), "Host", "gate.example.com").cookies()["__Host-countersign"]
	if c == nil || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
		t.Fatalf("over HTTPS: %+v", c)
	}
	w.get("", "/", "Host", "gate.example.com", "Cookie", c.Name+"="+c.Value).is(200)
	// Anybody on the network could have set this one, and a sister domain two of them.
	w.get("", "/", "Host", "gate.example.com", "Cookie", "countersign="+c.Value).is(http.StatusSeeOther)
	w.get("", "/", "Host", "gate.example.com", "Cookie", c.Name+"="+c.Value+"; "+c.Name+"="+
		c.Value).is(http.StatusSeeOther)
}

// A secret that was put into the browser beforehand is worth nothing afterwards.
func TestASessionIsNotFixed(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	planted := strings.Repeat("a", 52)
	c := w.redeem(w.link("hana", "line"), "Cookie", "countersign="+planted).cookies()["countersign"]
	if c == nil || c.Value == planted {
		t.Fatalf("%+v", c)
	}
	w.get("", "/", "Cookie", "countersign="+planted).is(http.StatusSeeOther)
	// Nor is one of somebody else, who would go on in it.
	other, key := w.signedInWithKey("ken")
	w.post("", pathLink, url.Values{"t": {w.link("hana", "line")}, "key": {key}}, other...).is(http.StatusSeeOther)
	w.get("", "/", other...).is(http.StatusSeeOther)
}

func TestOneIsTakenToWhereOneWasOnTheWayTo(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	for next, want := range map[string]string{
		"/r/01ARZ3NDEKTSV4RRFFQ69G5FAV?x=1": "/r/01ARZ3NDEKTSV4RRFFQ69G5FAV?x=1",
		"//evil.example":                    "/", "/\\evil.example": "/", "/%2f/evil.example": "/",
		"https://evil.example": "/",
		"javascript:alert(1)":  "/", "": "/", "\\\\evil": "/",
	} {
		c := w.get("", pathSignIn+"?next="+url.QueryEscape(next)).is(200).cookies()["countersign-next"]
		r := w.redeem(w.link("guest", "line"), "Cookie", c.Name+"="+c.Value).is(http.StatusSeeOther)
		if got, _ := r.leads(); got != want {
			t.Errorf("%q leads to %q", next, got)
		}
		w.clock.Advance(signin.LinkLasts)
	}
	// What is in the cookie is believed no more than what is in an address.
	for _, value := range []string{"Ly9ldmlsLmV4YW1wbGU", "!"} { // //evil.example
		if got, _ := w.redeem(w.link("guest", "line"), "Cookie", "countersign-next="+value).leads(); got != "/" {
			t.Errorf("%q leads to %q", value, got)
		}
	}
}

func TestSigningOutAndEndingOtherSessions(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	phone, key := w.signedInWithKey("hana")
	desk, lost := w.signedIn("hana"), w.signedIn("hana")
	kens, kensKey := w.signedInWithKey("ken")
	all, err := w.signIns.Sessions(w.ctx, "hana")
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	w.get("", pathSessions, phone...).is(200).has("This browser", "a link from a chat", "End all other sessions")
	w.post("", pathSessions, url.Values{"id": {all[2].ID}, "key": {kensKey}}, kens...).is(http.StatusNotFound)
	id := url.Values{"id": {all[2].ID}, "key": {key}}
	w.post("", pathSessions, id).is(http.StatusUnauthorized)
	for i, sess := range all { // the one of "lost" started last
		if sess.ID > all[0].ID && sess.ID > all[(i+1)%3].ID && sess.ID > all[(i+2)%3].ID {
			id.Set("id", sess.ID)
		}
	}
	w.post("", pathSessions, id, phone...).is(http.StatusSeeOther)
	w.get("", "/", lost...).is(http.StatusSeeOther)
	w.get("", "/", desk...).is(200)
	w.post("", pathSessions, url.Values{"key": {key}}, phone...).is(http.StatusSeeOther)
	w.get("", "/", desk...).is(http.StatusSeeOther)
	w.get("", "/", kens...).is(200)
	w.send("", http.MethodPost, "/signout", url.Values{}, append([]string{"Sec-Fetch-Site", "cross-site"},
		phone...)...).is(http.StatusForbidden)
	w.get("", "/signout", phone...).is(http.StatusNotFound) // no link signs anybody out
	r := w.post("", "/signout", url.Values{"key": {key}}, phone...).is(http.StatusSeeOther)
	if c := r.cookies()["countersign"]; c == nil || c.MaxAge >= 0 || c.Value != "" {
		t.Errorf("the cookie stays: %+v", c)
	}
	w.get("", "/", phone...).is(http.StatusSeeOther)
}

// What somebody may do is as it is configured at the time, whenever they signed in.
func TestWhoeverIsRemovedOrChangedIsSoAtOnce(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	ken := w.signedIn("ken")
	w.get("", pathSessions, ken...).is(200)
	people := append(peopleOfTests[:0:0], peopleOfTests...)
	people[1].Name = "kenji" // renamed
	w.dir.Replace(agentsOfTests, people)
	w.get("", pathSessions, ken...).is(http.StatusSeeOther)
	w.post("", pathSessions, url.Values{}, ken...).is(http.StatusUnauthorized)
}

func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	token := w.link("hana", "line")
	w.get("", LinkPage(token))
	c := w.redeem(token).cookies()["countersign"]
	w.redeem(token)
	w.get("", "/nowhere?t="+token, "Cookie", c.Name+"="+c.Value)
	if log := w.log.String(); strings.Contains(log, token) || strings.Contains(log, c.Value) {
		t.Errorf("in the log: %s", log)
	}
	err := w.store.View(w.ctx, func(tx approval.Tx) error {
		es, err := tx.Events(approval.EventQuery{})
		for _, e := range es {
			if all := string(e.Data) + e.Reason + e.CorrelationID; strings.Contains(all, token) ||
				strings.Contains(all, c.Value) {
				t.Errorf("in the audit log: %s", all)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
