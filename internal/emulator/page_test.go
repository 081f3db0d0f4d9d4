package emulator_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/internal/emulator"
)

func (w *world) page(method, path, body string, header map[string]string) result {
	w.t.Helper()
	r, err := w.do(method, w.URL()+path, header, []byte(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestPageIsServed(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.page("GET", "/", "", nil)
	html := string(r.body)
	for _, want := range []string{`<html lang="en">`, "<title>", `<main id="main">`, `role="log"`, `id="line-form"`,
		`id="slack-form"`, `role="tablist"`, `<legend>`, `name="viewport"`} {
		if !strings.Contains(html, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if csp := r.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
		strings.Contains(csp, "unsafe") {
		t.Errorf("policy: %s", csp)
	}
	// Every input has its label, everything it loads is its own.
	for _, id := range regexp.MustCompile(`<(?:input|textarea) id="([^"]+)"`).FindAllStringSubmatch(html, -1) {
		if !strings.Contains(html, `for="`+id[1]+`"`) {
			t.Errorf("input %s has no label", id[1])
		}
	}
	for _, ref := range regexp.MustCompile(`(?:src|href)="([^"#][^"]*)"`).FindAllStringSubmatch(html, -1) {
		if got := w.page("GET", ref[1], "", nil); !strings.HasPrefix(ref[1], "/page/") || got.status != 200 ||
			len(got.body) == 0 {
			t.Errorf("%s: %d", ref[1], got.status)
		}
	}
	if regexp.MustCompile(`<[^>]+ (style|on\w+)=`).MatchString(html) {
		t.Error("inline styles or handlers would not pass the policy")
	}
}

func TestPageNeverWritesMarkup(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("page/*.js")
	if err != nil || len(scripts) < 2 {
		t.Fatal(scripts, err)
	}
	for _, name := range scripts {
		script, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "setHTML", "createContextualFragment",
			"DOMParser", "document.write", "eval(", "new Function", "srcdoc"} {
			if strings.Contains(string(script), bad) {
				t.Errorf("%s uses %s", name, bad)
			}
		}
	}
}

func (w *world) view(person string) map[string]any {
	w.t.Helper()
	return w.page("GET", "/page/state?person="+url.QueryEscape(person), "", nil).json(w.t)
}

func TestPageShowsWhatAPersonSees(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *emulator.Config) {
		c.Panels = []emulator.Panel{{Title: "Agent", Stream: "agent", URL: "http://127.0.0.1:1/"}}
	})
	w.push(lineCard, nil)
	w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}, "blocks": {slackCard}})
	w.slack("chat.postEphemeral", url.Values{"channel": {"C0APPROVALS"}, "user": {"U02HANA"}, "text": {"only hana"}})
	w.Page.Log("agent", "→ delete_file")
	w.Page.Log("rows", "approval_requests: pending")
	hana, ben, all := encode(t, w.view("hana")), encode(t, w.view("ben")), encode(t, w.view(emulator.StrangerName))
	if !strings.Contains(hana, "only hana") || strings.Contains(ben, "only hana") {
		t.Error("an ephemeral message must be shown to its reader alone")
	}
	if !strings.Contains(hana, `"altText":"Approve?"`) || strings.Contains(ben, `"altText":"Approve?"`) {
		t.Error("a LINE chat must be shown to its person alone")
	}
	if !strings.Contains(all, "→ delete_file") || !strings.Contains(all, "approval_requests: pending") ||
		!strings.Contains(all, "http://127.0.0.1:1/") {
		t.Errorf("the panels are not there: %s", all)
	}
	if got := w.view("nobody")["person"]; got != "hana" {
		t.Errorf("an unknown person sees %v's chats", got)
	}
}

func TestThePageOffersLanguages(t *testing.T) {
	t.Parallel()
	var asked []string
	w := start(t, func(c *emulator.Config) {
		c.Languages = []emulator.Language{{Tag: "en", Name: "English"}, {Tag: "th", Name: "ไทย"}, {Tag: "ja", Name: "日本語"}}
		c.SetLanguage = func(_ context.Context, tag string) error {
			asked = append(asked, tag)
			if tag == "ja" {
				return errors.New("the language stays as it is")
			}
			return nil
		}
	})
	choose := func(tag string) string {
		t.Helper()
		r := w.page("POST", "/page/act", `{"kind":"language","tag":"`+tag+`"}`,
			map[string]string{"Content-Type": "application/json"})
		return string(r.body)
	}
	if got := w.view("hana"); got["language"] != "en" || len(got["languages"].([]any)) != 3 {
		t.Errorf("at first: %v of %v", got["language"], got["languages"])
	}
	if got := choose("th"); strings.Contains(got, "error") || w.view("hana")["language"] != "th" {
		t.Errorf("Thai: %s", got)
	}
	if got := choose("ja"); !strings.Contains(got, "the language stays as it is") || w.view("hana")["language"] != "th" {
		t.Errorf("a language that cannot be had: %s", got)
	}
	if got := choose("de"); !strings.Contains(got, "there is no language") || len(asked) != 2 {
		t.Errorf("a language that there is not: %s, asked for %q", got, asked)
	}
	w.Page.News("read again")
	w.Page.News("read again")
	if got := encode(t, w.view("hana")["news"]); got != `{"n":2,"text":"read again"}` {
		t.Errorf("news: %s", got)
	}
	if _, err := emulator.New(emulator.Config{Languages: []emulator.Language{{Tag: "en"}}}); err == nil {
		t.Error("languages that nobody can switch to are offered")
	}
}

func TestPageActs(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(lineCard, nil)
	post := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}, "blocks": {slackCard}})
	act := func(action string) map[string]any {
		t.Helper()
		r := w.page("POST", "/page/act", action, map[string]string{"Content-Type": "application/json",
			"Sec-Fetch-Site": "same-origin"})
		if r.status != 200 {
			t.Fatalf("%s: %d %s", action, r.status, r.body)
		}
		return r.json(t)
	}
	id := w.LINE.Chat("hana")[0].ID
	if r := act(`{"person":"hana","kind":"line.tap","message":"` + id +
		`","path":["contents","footer","contents",1,"action"]}`); r["status"] != 200.0 {
		t.Errorf("tap: %v", r)
	}
	if e := w.lastEvents()[0]; e["postback"].(map[string]any)["data"] != "action=deny&id=01" {
		t.Errorf("event: %v", e)
	}
	for _, path := range []string{`[]`, `["contents","footer","contents",9,"action"]`, `["nowhere"]`, `[-1]`,
		`["contents",0.5]`} {
		if r := act(`{"person":"hana","kind":"line.tap","message":"` + id + `","path":` + path + `}`); r["error"] == nil {
			t.Errorf("path %s: %v", path, r)
		}
	}
	act(`{"person":"hana","kind":"line.type","text":"deny","quoted":"` + id + `"}`)
	if e := w.lastEvents()[0]; e["message"].(map[string]any)["quotedMessageId"] != id {
		t.Errorf("event: %v", e)
	}
	act(`{"person":"hana","kind":"line.unfollow"}`)
	act(`{"person":"hana","kind":"line.follow"}`)
	act(`{"person":"` + emulator.StrangerName + `","kind":"slack.tap","channel":"C0APPROVALS","ts":"` +
		post["ts"].(string) + `","action":"approve","value":"01"}`)
	p := w.lastPayload()
	if p["user"].(map[string]any)["id"] != "U0STRANGER" {
		t.Errorf("payload: %v", p)
	}
	if r := w.slack("views.open", url.Values{"trigger_id": {p["trigger_id"].(string)},
		"view": {modal("")}}); r["ok"] != true {
		t.Fatal(r)
	}
	view := w.view(emulator.StrangerName)["slack"].(map[string]any)["view"].(map[string]any)
	w.setAnswer(`{"response_action":"errors","errors":{"reason":"Please give one."}}`)
	if r := act(`{"person":"` + emulator.StrangerName + `","kind":"slack.submit","view":"` + view["id"].(string) +
		`","values":{"reason":{"text":""}}}`); encode(t, r["errors"]) != `{"reason":"Please give one."}` {
		t.Errorf("submit: %v", r)
	}
	w.setAnswer("")
	act(`{"person":"` + emulator.StrangerName + `","kind":"slack.close","view":"` + view["id"].(string) + `"}`)
	act(`{"person":"hana","kind":"slack.type","channel":"` + w.Slack.DM("hana") + `","text":"pending"}`)
	if !strings.Contains(string(w.last().body), `"channel_type":"im"`) {
		t.Errorf("typed: %s", w.last().body)
	}
	act(`{"person":"hana","kind":"slack.type","channel":"C0APPROVALS","text":"pending"}`)
	if !strings.Contains(string(w.last().body), `"type":"app_mention"`) {
		t.Errorf("mention: %s", w.last().body)
	}
	act(`{"person":"hana","kind":"slack.type","channel":"C0APPROVALS","text":"/countersign help"}`)
	if !strings.Contains(string(w.last().body), "command=%2Fcountersign") {
		t.Errorf("command: %s", w.last().body)
	}
	if r := act(`{"person":"hana","kind":"dance"}`); r["error"] == nil {
		t.Error("an unknown action was performed")
	}
}

func TestPageRefusesOtherSites(t *testing.T) {
	t.Parallel()
	w := start(t)
	action := `{"person":"hana","kind":"line.type","text":"approve"}`
	for _, c := range []struct {
		name   string
		header map[string]string
		status int
	}{
		{"itself", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", "Origin": w.URL()},
			200},
		{"another site", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site",
			"Origin": "https://evil.example"}, 403},
		{"another port", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "same-site",
			"Origin": "http://127.0.0.1:1"}, 403},
		{"an old browser", map[string]string{"Content-Type": "application/json", "Origin": "https://evil.example"}, 403},
		{"a form", map[string]string{"Content-Type": "text/plain", "Sec-Fetch-Site": "same-origin"}, 415},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(w.hooked())
			if r := w.page("POST", "/page/act", action, c.header); r.status != c.status {
				t.Errorf("got %d, want %d", r.status, c.status)
			}
			if sent := len(w.hooked()) > before; sent != (c.status == 200) {
				t.Errorf("an event was sent: %v", sent)
			}
		})
	}
	for host, want := range map[string]int{"evil.example": 421, "localhost:99": 200, "127.0.0.1": 200, "[::1]:80": 200} {
		req, err := http.NewRequestWithContext(w.ctx(), http.MethodGet, w.URL()+"/page/state", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("host %s: %d, want %d", host, res.StatusCode, want)
		}
	}
}

func TestPageStreamsChanges(t *testing.T) {
	t.Parallel()
	w := start(t)
	req, err := http.NewRequestWithContext(w.ctx(), http.MethodGet, w.URL()+"/page/events?person=hana", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	next := func() map[string]any {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var v map[string]any
				if err := json.Unmarshal([]byte(data), &v); err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
		t.Fatal(lines.Err())
		return nil
	}
	if v := next(); v["person"] != "hana" || len(v["line"].(map[string]any)["messages"].([]any)) != 0 {
		t.Fatalf("first: %v", v)
	}
	w.push("\n"+lineCard+"\n", nil)
	for v := next(); len(v["line"].(map[string]any)["messages"].([]any)) == 0; v = next() {
		t.Log("no message yet")
	}
	w.line("POST", "/v2/bot/chat/loading/start", `{"chatId":"`+hanaLINE+`"}`, nil)
	for v := next(); v["line"].(map[string]any)["loading"] != true; v = next() {
		t.Log("not loading yet")
	}
}

func TestPageShowsWhatIsBesideThePhones(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Page.Tell("agent", emulator.Entry{Turn: 2, Kind: "is told", Word: "pending", Text: "Wait."})
	w.Page.Log("gate", "a line")
	rows := [][]string{{"…1", "pending"}}
	w.Page.SetTable("Requests", []string{"Id", "Status"}, rows)
	w.Page.SetTable("Notifications", []string{"Id"}, nil)
	w.Page.SetNotice("The gate has stopped.")
	rows[0][1] = "changed behind its back"
	v := encode(t, w.view("hana"))
	for _, want := range []string{`"turn":2,"word":"pending"`, `"kind":"is told"`, `"text":"Wait."`, `"title":"gate"`,
		`"text":"a line"`,
		`{"columns":["Id","Status"],"rows":[["…1","pending"]],"title":"Requests"}`,
		`{"columns":["Id"],"rows":[],"title":"Notifications"}`, `"notice":"The gate has stopped."`} {
		if !strings.Contains(v, want) {
			t.Errorf("no %s in %s", want, v)
		}
	}
	w.Page.SetTable("Requests", []string{"Id", "Status"}, [][]string{{"…1", "approved"}})
	w.Page.SetNotice("")
	v = encode(t, w.view("hana"))
	if !strings.Contains(v, `[["…1","approved"]]`) || strings.Contains(v, "pending\"]") || strings.Contains(v, "notice") {
		t.Errorf("after a change: %s", v)
	}
}

func TestPageShowsThreadsHomeAndModals(t *testing.T) {
	t.Parallel()
	w := start(t)
	post := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a"}, "blocks": {slackCard}})
	ts := post["ts"].(string)
	act := func(action string) {
		t.Helper()
		if r := w.page("POST", "/page/act", action, map[string]string{"Content-Type": "application/json"}).json(
			t); r["status"] != 200.0 {
			t.Fatalf("%s: %v", action, r)
		}
	}
	act(`{"person":"hana","kind":"slack.type","channel":"C0APPROVALS","thread":"` + ts + `","text":"why?"}`)
	if !strings.Contains(string(w.last().body), `"thread_ts":"`+ts+`"`) || !strings.Contains(encode(t, w.view("hana")),
		`"thread":"`+ts+`"`) {
		t.Errorf("the thread: %s", w.last().body)
	}
	act(`{"person":"hana","kind":"slack.home"}`)
	if !strings.Contains(string(w.last().body), `"type":"app_home_opened"`) {
		t.Errorf("Home: %s", w.last().body)
	}
	if r := w.slack("views.publish", url.Values{"user_id": {"U02HANA"}, "view": {`{"type":"home","blocks":` + slackCard +
		`}`}}); r["ok"] != true {
		t.Fatal(r)
	}
	act(`{"person":"hana","kind":"slack.home.tap","action":"approve","value":"01"}`)
	if p := w.lastPayload(); p["container"].(map[string]any)["type"] != "view" {
		t.Errorf("payload: %v", p)
	}
	act(`{"person":"hana","kind":"slack.tap","channel":"C0APPROVALS","ts":"` + ts + `","action":"deny","value":"01"}`)
	if r := w.slack("views.open", url.Values{"trigger_id": {w.lastPayload()["trigger_id"].(string)},
		"view": {modal("")}}); r["ok"] != true {
		t.Fatal(r)
	}
	slack := w.view("hana")["slack"].(map[string]any)
	if slack["has_home"] != true || slack["home"] == nil || slack["view"] == nil {
		t.Errorf("hana sees %v", slack)
	}
	if other := w.view("ben")["slack"].(map[string]any); other["home"] != nil || other["view"] != nil {
		t.Errorf("ben sees hana's views: %v", other)
	}
}

func TestPageSaysWhenTheGateIsGone(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.SetWebhooks("http://127.0.0.1:1/", "http://127.0.0.1:1/")
	r := w.page("POST", "/page/act", `{"person":"hana","kind":"line.type","text":"pending"}`,
		map[string]string{"Content-Type": "application/json"}).json(t)
	if said, _ := r["error"].(string); !strings.Contains(said, "nothing was decided") || strings.Contains(said,
		"127.0.0.1") {
		t.Errorf("it says %v", r)
	}
}

// Who decides is led to the inbox; the stranger is not, nor anybody where there is none.
func TestPageLeadsToTheInbox(t *testing.T) {
	t.Parallel()
	inbox := func(_ context.Context, person string) (string, error) {
		return "http://localhost:1/signin/link?for=" + person, nil
	}
	w := start(t, func(c *emulator.Config) { c.Inbox = inbox })
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for person, want := range map[string]int{"hana": http.StatusSeeOther, "stranger": http.StatusNotFound,
		"nobody": http.StatusNotFound, "": http.StatusNotFound} {
		res, err := c.Get(w.URL() + "/page/inbox?person=" + person)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%q: %d, want %d", person, res.StatusCode, want)
		}
		if to := res.Header.Get("Location"); want == http.StatusSeeOther && to != "http://localhost:1/signin/link?for=hana" {
			t.Errorf("led to %q", to)
		}
	}
}

// What the page says itself is there in each language, with the same names to be filled in.
func TestThePagesWordsAreInEachLanguage(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile("page/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	words := map[string]bool{}
	names := regexp.MustCompile(`\{[a-z]+\}`)
	for _, line := range regexp.MustCompile(`(?m)^  ("(?:[^"\\]|\\.)*"): (\[.*\]),$`).FindAllStringSubmatch(read("words.js"), -1) {
		var english string
		var others []string
		err := errors.Join(json.Unmarshal([]byte(line[1]), &english), json.Unmarshal([]byte(line[2]), &others))
		if err != nil || len(others) != 3 {
			t.Errorf("%s: %v", line[0], err)
			continue
		}
		words[english] = true
		want := names.FindAllString(english, -1)
		slices.Sort(want)
		for _, other := range others {
			got := names.FindAllString(other, -1)
			if slices.Sort(got); !slices.Equal(got, want) || other == english {
				t.Errorf("%q is %q", english, other)
			}
		}
	}
	said := regexp.MustCompile(`say\(([^()]*)\)`).FindAllStringSubmatch(read("app.js"), -1)
	if len(words) < 80 || len(said) < 40 {
		t.Fatalf("%d words, said in %d places", len(words), len(said))
	}
	for _, call := range said {
		for _, english := range regexp.MustCompile(`"([^"]{2,})"`).FindAllStringSubmatch(call[1], -1) {
			if !words[english[1]] {
				t.Errorf("%q is said and in no other language", english[1])
			}
		}
	}
	html := read("index.html")
	shown := regexp.MustCompile(`>([^<>{}]*[a-z][^<>{}]*)<|aria-label="([^"]*)"`).FindAllStringSubmatch(html, -1)
	for _, s := range shown {
		if text := strings.TrimSpace(s[1] + s[2]); !words[text] && !slices.Contains([]string{"Countersign", "LINE", "Slack",
			"This page draws its chats with JavaScript."}, text) {
			t.Errorf("%q is shown and in no other language", text)
		}
	}
}
