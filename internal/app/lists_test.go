package app_test

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/client"
)

// What will happen by two calls: the first sentence is a rule's, the second one is made of its call.
const (
	willRefund = "Refund $20.00 to 0xAbC"
	willPay    = "Run transfer_credits: amount_cents 2000 = 20.00, to 0xAbC, …"
)

var both = []string{willRefund, willPay}

// withRefunds adds a rule that says what will happen.
var withRefunds = replacing("  rules:\n", `  rules:
    - name: refunds
      tools: [refund]
      risk: high
      message: Money leaves
      summary: {en: "Refund {args.cents|money:USD/100} to {args.to}", ja: "{args.to} へ {args.cents|money:USD/100} を返金"}
`)

// listed has two calls wait, of one turn, one for each sentence.
func (w *world) listed() (ids []string) {
	w.t.Helper()
	answers, err := w.bot.CallBatch(w.ctx, []client.Call{
		{Tool: "refund", Args: json.RawMessage(`{"cents":2000,"to":"0xAbC"}`)},
		{Tool: "transfer_credits",
			Args: json.RawMessage(`{"amount_cents":2000,"to":"0xAbC","password":"not-for-anybodys-eyes"}`)}})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range answers {
		if a.Kind != client.AnswerPending {
			w.t.Fatalf("%+v", a)
		}
		ids = append(ids, a.ApprovalID)
	}
	return ids
}

var (
	headings = regexp.MustCompile(`(?s)<h[2-4][^>]*>(.*?)</h[2-4]>`)
	results  = regexp.MustCompile(`(?s)<li class="row">.*?<a [^>]*>(.*?)</a>`)
	tags     = regexp.MustCompile(`<[^>]*>`)
)

// texts are what a page says in what matches.
func texts(page string, in *regexp.Regexp) (found []string) {
	for _, m := range in.FindAllStringSubmatch(page, -1) {
		found = append(found, strings.TrimSpace(html.UnescapeString(tags.ReplaceAllString(m[1], ""))))
	}
	return found
}

// leads reports each sentence that no line begins with, behind what mark matches.
func leads(t *testing.T, where string, lines []string, mark string, sentences ...string) {
	t.Helper()
	for _, s := range sentences {
		begins := regexp.MustCompile(`^` + mark + regexp.QuoteMeta(s))
		if !slices.ContainsFunc(lines, begins.MatchString) {
			t.Errorf("%s: no line begins with %q after %q:\n%s", where, s, mark, strings.Join(lines, "\n"))
		}
	}
}

// A list of requests tells of each first what will happen: as its rule says it, or made of the call by the code that
// makes cards.
func TestListsLeadWithWhatWillHappen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRefunds)
	ids := w.listed()
	page, err := w.hana.Approvals(w.ctx, client.ApprovalQuery{})
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	if got := []string{page.Items[1].Summary, page.Items[0].Summary}; !slices.Equal(got, both) {
		t.Errorf("the API says %q", got)
	}
	if a, err := w.bot.Approval(w.ctx, ids[1]); err != nil || a.Summary != willPay {
		t.Errorf("the agent is told %q, %v", a.Summary, err)
	}

	cookie := w.signIn(w.hana)
	leads(t, "the inbox", texts(w.browse(w.url("/"), cookie, nil), headings), "", both...)
	leads(t, "the history", texts(w.browse(w.url("/history"), cookie, nil), headings), "", both...)

	slack := w.slackCard(ids[0])
	leads(t, "Slack's batch, at its top", lines(slack.Blocks), `\d\. 🟠 `, both...)
	leads(t, "Slack's batch, one by one", lines(slack.Blocks), `\d\. 🟠 HIGH risk · `, both...)
	leads(t, "LINE's batch", lineTexts(w.lineCard("2 high", 1).JSON), `\d\. 🟠 `, both...)

	w.ok(w.chat.LINE.Type(w.ctx, "hana", "pending", ""))
	for _, s := range both {
		if got := lineTexts(w.lineCard(jsonOf(s), 2).JSON); !slices.Contains(got, s) {
			t.Errorf("LINE's answer lacks %q: %q", s, got)
		}
	}
	w.ok(w.chat.Slack.Type(w.ctx, "hana", "pending", ""))
	dm := w.chat.Slack.DM("hana")
	for n, id := range ids {
		var answer []string
		if err := w.chat.WaitFor(w.ctx, func() bool {
			for _, m := range w.chat.Slack.Messages(dm) {
				if strings.Contains(string(m.Blocks), id) {
					answer = lines(m.Blocks)
					return true
				}
			}
			return false
		}); err != nil {
			t.Fatal("no answer in the direct messages")
		}
		leads(t, "Slack's answer, below the risk", answer[1:2], "", both[n])
	}
	w.ok(w.chat.Slack.Views.OpenHome(w.ctx, "hana"))
	var home []string
	if err := w.chat.WaitFor(w.ctx, func() bool {
		v, ok := w.chat.Slack.Views.Home("hana")
		home = strings.Split(view(v), "\n")
		return ok && strings.Contains(string(v.JSON), ids[0])
	}); err != nil {
		t.Fatal("nothing on the Home tab")
	}
	leads(t, "Slack's Home tab", home, `\d\. 🟠 HIGH risk · `, both...)

	form := url.Values{"viewer": {"hana"}, "do": {"deny"}, "reason": {"not now"}, "back": {"/"}, "key": {w.key}}
	for _, a := range page.Items {
		form.Add("pick", a.ID+"."+a.Version)
	}
	leads(t, "what was decided", texts(w.browse(w.url("/decide"), cookie, form), results), "", both...)
	leads(t, "denials", texts(w.browse(w.url("/grants"), cookie, nil), headings), "", both...)
	leads(t, "the history of what is over", texts(w.browse(w.url("/history"), cookie, nil), headings), "", both...)
	for _, path := range []string{"/", "/history", "/grants"} {
		if strings.Contains(w.browse(w.url(path), cookie, nil), "not-for-anybodys-eyes") {
			t.Errorf("%s shows a secret", path)
		}
	}
}

// browse gets a page, or posts a form, and returns what it says.
func (w *world) browse(address, cookie string, form url.Values) string {
	w.t.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(w.ctx, method, address, body)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Cookie", cookie)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s, %v\n%s", address, res.Status, err, b)
	}
	return string(b)
}

// lines are those of a Slack message.
func lines(blocks json.RawMessage) []string {
	return strings.Split(plain.Replace(strings.Join(words(json.RawMessage(`{"blocks":`+string(blocks)+`}`)), "\n")), "\n")
}

// lineTexts are the texts of a LINE message, in reading order.
func lineTexts(message json.RawMessage) (found []string) {
	var v any
	if json.Unmarshal(message, &v) != nil {
		return nil
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			if s, ok := v["text"].(string); ok && v["type"] == "text" {
				found = append(found, s)
			}
			for _, key := range []string{"header", "body", "contents"} {
				walk(v[key])
			}
		}
	}
	walk(v)
	return found
}

// jsonOf is a text as it stands within JSON.
func jsonOf(s string) string {
	b, _ := json.Marshal(s)
	return strings.Trim(string(b), `"`)
}

// Who mistypes an address in a browser gets a page with a way on; programs get JSON, as everywhere.
func TestAnUnknownPathIsAPageInABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		path, accept string
		status       int
		kind, holds  string
	}{
		{"/nowhere", "text/html,application/xhtml+xml,*/*;q=0.8", 404, "text/html; charset=utf-8",
			"There is no page at this address."},
		{"/nowhere", "*/*", 404, "application/problem+json", "There is no such path."},
		{"/v1/nowhere", "text/html", 401, "application/problem+json", "bearer token"},
		{"/openapi.json", "text/html", 200, "application/json", `"openapi"`},
		{"/readyz", "text/html", 200, "application/json", `"ready"`},
	} {
		r, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.url(c.path), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", c.accept)
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status || res.Header.Get("Content-Type") != c.kind ||
			!strings.Contains(string(body), c.holds) {
			t.Errorf("%+v: %s, %s, %v\n%s", c, res.Status, res.Header.Get("Content-Type"), err, body)
		}
	}
}
