package campaign_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"countersign/internal/campaign"
)

// browser is a person's: it holds the session that they have on the pages, none at first.
type browser struct {
	cookie string // with its name
	key    string // which the session's forms take
}

// visit gets a page, or posts a form to it, and returns where that leads and what is shown. o notes how it went.
func (p *person) visit(o *campaign.Op, path string, form url.Values) (to, text string) {
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	req, err := http.NewRequestWithContext(p.ctx, method, p.url()+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	req.Header.Set("Cookie", p.browser.cookie)
	res, shown := p.do(o, req)
	if res == nil {
		return "", ""
	}
	for _, c := range res.Cookies() {
		if c.Name == "countersign" {
			p.browser.cookie = c.Name + "=" + c.Value
		}
	}
	return res.Header.Get("Location"), string(shown)
}

// signIn opens a link that the person's token makes, and says yes there.
func (p *person) signIn() bool {
	o := &campaign.Op{Kind: "sign in", Way: "page", Who: p.name}
	text := p.ask(p.ctx, o, p.name, http.MethodPost, "/v1/sign-in-links", nil)
	var link struct{ URL string }
	if text == nil || json.Unmarshal(text, &link) != nil {
		return false
	}
	at, err := url.Parse(link.URL)
	if err != nil {
		p.t.Errorf("a link that is none: %s", text)
		return false
	}
	p.browser = browser{}
	p.visit(o, at.RequestURI(), nil)
	to, _ := p.visit(o, at.Path, url.Values{"t": at.Query()["t"]})
	_, key, _ := strings.Cut(to, "#key=")
	_, p.browser.key, _ = strings.Cut(key, ".")
	p.note(o)
	return p.browser.key != ""
}

// versions are what the forms of a request's page say of it as it was shown.
var versions = regexp.MustCompile(`name="v" value="([^"]+)"`)

// onPage does something on a request's page, as a person who has looked at it: decides it, takes it back or extends it.
func (p *person) onPage(k *known) {
	if p.browser.key == "" && !p.signIn() {
		return
	}
	look := &campaign.Op{Kind: "look", Way: "page", Who: p.name, ID: k.id}
	_, text := p.visit(look, "/r/"+k.id, nil)
	p.note(look)
	version := versions.FindStringSubmatch(text)
	if look.Status == http.StatusSeeOther || strings.Contains(text, `action="/link"`) {
		p.browser = browser{} // the session is over
	}
	if version == nil {
		return
	}
	form := url.Values{"viewer": {p.name}, "v": {version[1]}, "key": {p.browser.key}}
	switch n := p.r.IntN(12); {
	case n == 0 && p.plan.has("extend"):
		p.submit(&campaign.Op{Kind: campaign.Extend, ID: k.id}, "/r/"+k.id+"/extend", form)
	case n == 1 && p.plan.has("cancel"):
		p.submit(&campaign.Op{Kind: campaign.Cancel, ID: k.id}, "/r/"+k.id+"/cancel", form)
	case n == 2 && p.plan.has("strangers"):
		p.forgeOnPage(k, form)
	default:
		p.decideOnPage(k, form)
	}
}

// submit posts a form for an operation. What is done leads on to the request's page or the list; whatever else is
// shown says why nothing was.
func (p *person) submit(o *campaign.Op, path string, form url.Values) {
	o.Way, o.Who = "page", p.name
	to, _ := p.visit(o, path, form)
	at, err := url.Parse(to)
	switch {
	case !o.Answered:
	case o.Status == http.StatusSeeOther && err == nil && (strings.HasPrefix(at.Path, "/r/") || at.Path == "/"):
		o.Status = http.StatusOK
		switch {
		case o.Kind == campaign.Cancel:
			o.Answer.Status = "cancelled"
		case o.Kind == campaign.Decide && o.Approve: // at least: it has one yes more
			o.Answer.Status = "pending"
		case o.Kind == campaign.Decide:
			o.Answer.Status = "denied"
		}
		if o.NewArgs != "" {
			o.Answer.ID = strings.TrimPrefix(at.Path, "/r/")
		}
	default:
		o.Code = "refused on the page"
		if o.Status/100 == 3 {
			p.browser = browser{}
		}
		if o.Status/100 != 5 {
			o.Status = http.StatusConflict
		}
	}
	p.note(o)
}

// decideOnPage decides a request on its page, or in the list.
func (p *person) decideOnPage(k *known, form url.Values) {
	d := p.draw()
	o := &campaign.Op{Kind: campaign.Decide, ID: k.id, Approve: d.approve, Confirmed: d.confirmed, Reason: d.reason}
	form.Set("do", verb(d.approve))
	form.Set("reason", d.reason)
	if p.r.IntN(4) == 0 {
		o.Confirmed = false // which the list does not ask
		form.Set("pick", k.id+"."+form.Get("v"))
		form.Set("back", "/")
		p.submit(o, "/decide", form)
		return
	}
	if d.confirmed {
		form.Set("confirmed", "yes")
	}
	switch n := p.r.IntN(6); {
	case n == 0 && d.approve && p.plan.has("edit") && k.tool != "brief" && k.tool != "read":
		o.NewArgs = strings.Replace(k.args, `"n":`, `"n":8`, 1)
		form.Set("do", "edit")
		form.Set("args", o.NewArgs)
	case n < 3 && d.approve && p.plan.has("grant"):
		o.Grants = true
		form.Set("for", []string{"1h", "8h", "10"}[p.r.IntN(3)])
	}
	p.submit(o, "/r/"+k.id+"/decide", form)
	if o.NewArgs != "" && o.Answer.ID != "" {
		p.learn(&known{id: o.Answer.ID, agent: k.agent, tool: k.tool, args: o.NewArgs})
	}
	if o.Grants && o.Made() {
		p.allow(*k)
	}
}

// forgeOnPage is another page of the same machine that sends the form: it has the browser's cookie, and not the key of
// the session.
func (p *person) forgeOnPage(k *known, form url.Values) {
	form.Set("do", "approve")
	form.Set("confirmed", "yes")
	form.Set("reason", "as agreed")
	form.Del("key")
	if p.r.IntN(2) == 0 {
		form.Set("key", strings.Repeat("A", len(p.browser.key)))
	}
	o := &campaign.Op{Kind: campaign.Decide, ID: k.id, Approve: true, Confirmed: true, Reason: "as agreed", Forged: true}
	p.submit(o, "/r/"+k.id+"/decide", form)
}

// delegate has somebody stand in for the person for a while, or ends that.
func (p *person) delegate() {
	p.mu.Lock()
	own := p.standIns[p.name]
	p.mu.Unlock()
	if len(own) > 0 && p.r.IntN(3) == 0 {
		o := &campaign.Op{Kind: campaign.Undelegate, Way: "rest", Who: p.name, ID: own[p.r.IntN(len(own))]}
		p.ask(p.ctx, o, p.name, http.MethodDelete, "/v1/delegations/"+o.ID, nil)
		p.note(o)
		if o.Made() || o.Code == "not_found" {
			p.mu.Lock()
			p.standIns[p.name] = slices.DeleteFunc(slices.Clone(own), func(id string) bool { return id == o.ID })
			p.mu.Unlock()
		}
		return
	}
	to := peopleNames[p.r.IntN(len(peopleNames))]
	if p.r.IntN(4) > 0 {
		to = []string{"leo", "rio"}[p.r.IntN(2)] // who may say less by themselves
	}
	o := &campaign.Op{Kind: campaign.Delegate, Way: "rest", Who: p.name, For: p.name, To: to, Lasts: drawLength(p.r)}
	text := p.ask(p.ctx, o, p.name, http.MethodPost, "/v1/delegations", map[string]any{"to": to,
		"until": time.Now().Add(o.Lasts).UTC().Format(time.RFC3339Nano)})
	var is struct{ ID string }
	if text != nil && json.Unmarshal(text, &is) == nil {
		o.Answer.Delegation = is.ID
		p.mu.Lock()
		p.standIns[p.name], p.standIn[p.name] = append(p.standIns[p.name], is.ID), to
		p.mu.Unlock()
	}
	p.note(o)
}

func drawLength(r *rand.Rand) time.Duration {
	return []time.Duration{2 * time.Second, time.Hour, time.Hour}[r.IntN(3)]
}
