//go:build browser

package emulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"countersign/internal/emulator"
	"countersign/internal/testkit/chromium"
)

const approvalsLog, lineLog = "#slack-log", "#line-log"

// flexGallery has every kind of message that LINE takes, each with what it can look like.
const flexGallery = `{"type":"flex","altText":"All of Flex","contents":{"type":"bubble","size":"giga","direction":"ltr","styles":{"footer":{"separator":true,"separatorColor":"#AAAAAA","backgroundColor":"#F5F5F5"}},
 "header":{"type":"box","layout":"vertical","backgroundColor":"#7F1D1D","paddingAll":"lg","contents":[{"type":"text","text":"HEADER","color":"#FFFFFF","weight":"bold","size":"xl","align":"center"}]},
 "hero":{"type":"image","url":"https://example.com/a.png","size":"full","aspectRatio":"20:5","aspectMode":"cover","backgroundColor":"#DDDDDD"},
 "body":{"type":"box","layout":"vertical","spacing":"md","contents":[
  {"type":"text","wrap":true,"contents":[{"type":"span","text":"span one ","weight":"bold","color":"#1D4ED8"},{"type":"span","text":"span two","decoration":"line-through","size":"xs"}]},
  {"type":"box","layout":"baseline","spacing":"sm","contents":[{"type":"icon","url":"https://example.com/i.png","size":"sm"},{"type":"text","text":"on the baseline","flex":0},{"type":"filler"},{"type":"text","text":"right","align":"end"}]},
  {"type":"separator","margin":"lg"},
  {"type":"box","layout":"horizontal","cornerRadius":"md","borderWidth":"normal","borderColor":"#999999","paddingAll":"10px","contents":[
    {"type":"text","text":"one third","flex":1,"size":"sm","gravity":"center","wrap":true},{"type":"separator"},{"type":"text","text":"two thirds of the row","flex":2,"wrap":true,"margin":"md","lineSpacing":"6px"}]},
  {"type":"text","text":"one line that is far too long to be shown in one line of a card, so it ends in dots"},
  {"type":"text","text":"two lines at most of a text that would need three or even four of them were it not cut off after its second line by the card itself","wrap":true,"maxLines":2},
  {"type":"box","layout":"vertical","action":{"type":"postback","label":"A box","data":"box=1"},"background":{"type":"linearGradient","angle":"90deg","startColor":"#111111","endColor":"#444444"},"contents":[{"type":"text","text":"a box to tap","color":"#FFFFFF"}]}]},
 "footer":{"type":"box","layout":"vertical","spacing":"sm","contents":[
  {"type":"button","style":"primary","action":{"type":"postback","label":"Primary","data":"b=1"}},{"type":"button","style":"secondary","height":"sm","action":{"type":"message","label":"Secondary","text":"said by a button"}},
  {"type":"button","style":"link","action":{"type":"uri","label":"Link","uri":"https://example.com/"}}]}}},
 {"type":"flex","altText":"Two cards","contents":{"type":"carousel","contents":[
  {"type":"bubble","size":"kilo","body":{"type":"box","layout":"vertical","contents":[{"type":"text","text":"first of two"}]}},{"type":"bubble","size":"kilo","body":{"type":"box","layout":"vertical","contents":[{"type":"text","text":"second of two"}]}}]}},
 {"type":"template","altText":"Sure?","template":{"type":"confirm","text":"Are you sure?","actions":[{"type":"postback","label":"Yes","data":"y"},{"type":"postback","label":"No","data":"n"}]}},
 {"type":"sticker","packageId":"1","stickerId":"1"},
 {"type":"text","text":"<b>no markup</b> <img src=x onerror=alert(1)> 承認してください"}`

// blockGallery has every kind of block that Slack takes in a message.
const blockGallery = `[{"type":"header","text":{"type":"plain_text","text":"A header :robot_face:"}},
 {"type":"section","text":{"type":"mrkdwn","text":"*bold* _italic_ ~struck~ ` + "`code`" + ` <https://example.com|a link> <@U02HANA> <#C0APPROVALS> <!here> <!date^1795257600^{date_short_pretty} at {time} ({ago})|a date> :large_orange_circle:\n&gt; quoted &amp; &lt;escaped&gt;\n` + "```a fence\\n  in two lines```" + `"},
  "accessory":{"type":"button","action_id":"more","text":{"type":"plain_text","text":"More"},"value":"m"}},
 {"type":"section","fields":[{"type":"mrkdwn","text":"*Tool*\ndelete_file"},{"type":"plain_text","text":"second field"}]},
 {"type":"divider"},
 {"type":"context","elements":[{"type":"image","image_url":"https://example.com/i.png","alt_text":"a shield"},{"type":"mrkdwn","text":"in context"}]},
 {"type":"image","image_url":"https://example.com/p.png","alt_text":"a chart of the month","title":{"type":"plain_text","text":"The month"}},
 {"type":"rich_text","elements":[
  {"type":"rich_text_section","elements":[{"type":"text","text":"bold ","style":{"bold":true}},{"type":"text","text":"code","style":{"code":true}},{"type":"text","text":" struck","style":{"strike":true}},{"type":"emoji","name":"wave","unicode":"1f44b"},
   {"type":"user","user_id":"U02HANA"},{"type":"channel","channel_id":"C0APPROVALS"},{"type":"broadcast","range":"here"},{"type":"date","timestamp":1795257600,"format":"{date_num} {time}","fallback":"then"},{"type":"link","url":"https://example.com/","text":"linked"}]},
  {"type":"rich_text_list","style":"ordered","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"first"}]},{"type":"rich_text_section","elements":[{"type":"text","text":"second"}]}]},
  {"type":"rich_text_list","style":"bullet","indent":1,"elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"a point"}]}]},
  {"type":"rich_text_preformatted","elements":[{"type":"text","text":"--- a/f\n+++ b/f\n-old\n+new"}]},
  {"type":"rich_text_quote","elements":[{"type":"text","text":"her words"}]}]},
 {"type":"actions","elements":[{"type":"button","action_id":"approve","style":"primary","text":{"type":"plain_text","text":"Approve"},"value":"01"},
  {"type":"button","action_id":"deny","style":"danger","text":{"type":"plain_text","text":"Deny"},"value":"01","confirm":{"title":{"type":"plain_text","text":"Deny it?"},"text":{"type":"plain_text","text":"The agent will be told."},"confirm":{"type":"plain_text","text":"Deny it"},"deny":{"type":"plain_text","text":"Keep"},"style":"danger"}},
  {"type":"static_select","action_id":"pick","placeholder":{"type":"plain_text","text":"Pick one"},"options":[{"text":{"type":"plain_text","text":"an option"},"value":"o"}]}]}]`

// form is a modal with every kind of input.
const form = `{"type":"modal","callback_id":"deny","title":{"type":"plain_text","text":"Deny delete_file"},"submit":{"type":"plain_text","text":"Deny"},"close":{"type":"plain_text","text":"Cancel"},"notify_on_close":true,"blocks":[
 {"type":"section","text":{"type":"mrkdwn","text":"*delete_file* asked by treasury-bot"}},
 {"type":"input","block_id":"reason","label":{"type":"plain_text","text":"Reason"},"hint":{"type":"plain_text","text":"The agent reads it word for word."},"element":{"type":"plain_text_input","action_id":"text","multiline":true,"max_length":300,"placeholder":{"type":"plain_text","text":"Why not?"}}},
 {"type":"input","block_id":"who","optional":true,"label":{"type":"plain_text","text":"Told whom"},"element":{"type":"static_select","action_id":"s","options":[{"text":{"type":"plain_text","text":"Nobody"},"value":"n"}]}},
 {"type":"input","block_id":"how","optional":true,"label":{"type":"plain_text","text":"How sure"},"element":{"type":"radio_buttons","action_id":"r","options":[{"text":{"type":"plain_text","text":"Quite"},"value":"q"}]}},
 {"type":"input","block_id":"also","optional":true,"label":{"type":"plain_text","text":"Also"},"element":{"type":"checkboxes","action_id":"c","options":[{"text":{"type":"plain_text","text":"Tell ken"},"value":"k"}]}}]}`

func (w *world) post(blocks string) string {
	w.t.Helper()
	r := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"a card"}, "blocks": {blocks}})
	if r["ok"] != true {
		w.t.Fatal(r)
	}
	return r["ts"].(string)
}

func (w *world) pushed(messages string) {
	w.t.Helper()
	if r := w.push(messages, nil); r.status != 200 {
		w.t.Fatalf("push: %s", r.body)
	}
}

// happens waits until an event has reached the webhook.
func (w *world) happens(what string, cond func(h hooked) bool) {
	w.t.Helper()
	if err := w.WaitFor(w.ctx(), func() bool {
		for _, h := range w.hooked() {
			if cond(h) {
				return true
			}
		}
		return false
	}); err != nil {
		w.t.Fatalf("never: %s: %v", what, err)
	}
}

// opensModal answers a press on deny with a modal, as an app does.
func (w *world) opensModal(view string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = func(_ http.ResponseWriter, h hooked) {
		form, _ := url.ParseQuery(string(h.body))
		var p struct {
			Type    string `json:"type"`
			Trigger string `json:"trigger_id"`
			Actions []struct {
				ID string `json:"action_id"`
			} `json:"actions"`
		}
		if json.Unmarshal([]byte(form.Get("payload")), &p) == nil && p.Type == "block_actions" && p.Actions[0].ID == "deny" {
			w.slack("views.open", url.Values{"trigger_id": {p.Trigger}, "view": {view}})
		}
	}
}

func payload(h hooked) string {
	form, _ := url.ParseQuery(string(h.body))
	return form.Get("payload")
}

func TestPhoneLINE(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	w := start(t)
	p := open(b, t, w.URL(), 1280, 900, chromium.Prefers("light"))
	p.Says(lineLog, "Nothing yet.")
	w.pushed(lineCard)
	p.Click(lineLog+" .fx-button", "Approve")
	w.happens("the tap on Approve", func(h hooked) bool {
		return strings.Contains(string(h.body), "action=approve&id=01")
	})
	p.Says(lineLog+" .own", "Approve") // displayText
	p.Says("#line-status", "HTTP 200")

	t.Run("by keyboard: the keyboard opens with the reason begun", func(t *testing.T) {
		p.T, w.t = t, t
		p.TabTo(lineLog+" .fx-button", "Deny")
		p.Keys(kb.Enter)
		w.happens("the tap on Deny", func(h hooked) bool { return strings.Contains(string(h.body), "action=deny&id=01") })
		p.HasFocus("line-text")
		p.Until("the reason is begun", `document.getElementById("line-text").value === "reason: "`)
		p.Keys("too much", kb.Enter)
		w.happens("the reason", func(h hooked) bool { return strings.Contains(string(h.body), `"text":"reason: too much"`) })
		p.HasFocus("line-text")
		p.Says(lineLog+" .own", "reason: too much")
	})
	t.Run("a quick reply, gone after the tap", func(t *testing.T) {
		p.T, w.t = t, t
		w.pushed(`{"type":"text","text":"Why?","quickReply":{"items":[{"type":"action","action":{"type":"message","label":"Too expensive","text":"too expensive"}},{"type":"action","action":{"type":"postback","label":"Later","data":"later=1"}}]}}`)
		p.Click("#line-quick button", "Later")
		w.happens("the quick reply", func(h hooked) bool { return strings.Contains(string(h.body), "later=1") })
		p.Until("the suggestions are gone", `document.getElementById("line-quick").hidden`)
		w.pushed(`{"type":"text","text":"Why?","quickReply":{"items":[{"type":"action","action":{"type":"message","label":"Too expensive","text":"too expensive"}}]}}`)
		p.TabTo("#line-quick button", "Too expensive")
		p.Keys(" ")
		w.happens("the text", func(h hooked) bool { return strings.Contains(string(h.body), `"text":"too expensive"`) })
		p.HasFocus("line-text") // the suggestion that had it is gone
	})
	t.Run("a reply quotes a card", func(t *testing.T) {
		p.T, w.t = t, t
		card := w.LINE.Chat("hana")[0].ID
		p.Click(lineLog+" button", "Reply to: Approve?")
		p.HasFocus("line-text")
		p.Says("#line-quote", "Reply to Countersign: Approve?")
		p.Keys("approve", kb.Enter)
		w.happens("the quote", func(h hooked) bool {
			return strings.Contains(string(h.body), `"quotedMessageId":"`+card+`"`)
		})
		p.Says(lineLog+" .own .quoted", "Approve?")
		p.Until("nothing is quoted any more", `document.getElementById("line-quote").hidden`)
	})
	t.Run("all of Flex, and nothing as markup", func(t *testing.T) {
		p.T, w.t = t, t
		w.pushed(flexGallery)
		for _, text := range []string{"HEADER", "span one span two", "on the baseline", "a box to tap", "second of two",
			"Are you sure?", "(sticker)", "<b>no markup</b> <img src=x onerror=alert(1)>"} {
			p.Says(lineLog, text)
		}
		if n := chromium.Ask[int](p,
			`document.querySelectorAll("#line-log img, #line-log b, #line-log .unknown").length`); n != 0 {
			t.Errorf("%d elements were made of a message's text, or not drawn", n)
		}
		p.Until("Japanese is marked",
			`[...document.querySelectorAll("#line-log [lang=ja]")].some((e) => e.innerText.includes("承認"))`)
		p.TabTo(lineLog+" [role=button]", "a box to tap")
		p.Keys(kb.Enter)
		w.happens("the tap on a box", func(h hooked) bool { return strings.Contains(string(h.body), "box=1") })
		thirds := chromium.Ask[[]float64](p,
			`[...document.querySelectorAll("#line-log .fx-text")].filter((e) => /third/.test(e.innerText)).map((e) => e.getBoundingClientRect().width)`)
		if len(thirds) != 2 || thirds[1] < 1.7*thirds[0] {
			t.Errorf("flex 1 and 2 are %v wide", thirds)
		}
	})
	t.Run("what it does not know is shown as such", func(t *testing.T) {
		p.T, w.t = t, t
		got := chromium.Ask[string](p,
			`import("/page/flex.js").then((m) => m.drawLINE({type: "flex", contents: {type: "bubble", body: {type: "box", layout: "vertical", contents: [{type: "hologram", text: "boo"}]}}}, "", () => {}).textContent)`)
		if !strings.Contains(got, "hologram") || !strings.Contains(got, "boo") {
			t.Errorf("shown: %s", got)
		}
		got = chromium.Ask[string](p,
			`import("/page/blocks.js").then((m) => m.drawBlocks([{type: "hologram", text: "boo"}, {type: "actions", elements: [{type: "dial"}]}, {type: "rich_text", elements: [{type: "rich_text_dance"}]}], () => {}).map((e) => e.textContent).join())`)
		for _, want := range []string{"hologram", "boo", "dial", "rich_text_dance"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in %s", want, got)
			}
		}
	})
	t.Run("what was sent, behind Inspect", func(t *testing.T) {
		p.T, w.t = t, t
		p.Click(lineLog+" button", "Inspect: Approve?")
		p.Says("#raw-how", "Sent as a push message.")
		p.Says("#raw-json", `"data": "action=approve&id=01"`)
		p.Keys(kb.Escape)
		p.Until("it is closed, and the focus is back",
			`!document.getElementById("raw").open && document.activeElement.getAttribute("aria-label") === "Inspect: Approve?"`)
	})
	t.Run("blocking", func(t *testing.T) {
		p.T, w.t = t, t
		p.Click("#line-block", "Block Countersign")
		w.happens("unfollow", func(h hooked) bool { return strings.Contains(string(h.body), `"type":"unfollow"`) })
		p.Says(lineLog, "You have blocked Countersign.")
		p.Click("#line-block", "Unblock Countersign")
		p.Until("the bot can be written to again", `!document.getElementById("line-text").disabled`)
	})
}

func TestPhoneSlack(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	w := start(t)
	w.opensModal(form)
	p := open(b, t, w.URL(), 1280, 900, chromium.Prefers("light"))
	p.Says(approvalsLog, "Nothing yet.")
	ts := w.post(slackCard)
	p.Click(approvalsLog+" .s-button", "Approve")
	w.happens("the press on Approve", func(h hooked) bool { return strings.Contains(payload(h), `"action_id":"approve"`) })

	t.Run("the modal, by keyboard alone", func(t *testing.T) {
		p.T, w.t = t, t
		p.TabTo(approvalsLog+" .s-button", "Deny")
		p.Keys(kb.Enter)
		p.HasFocus("in-reason")
		p.Says("#view", "Deny delete_file")
		p.Says("#view", "The agent reads it word for word.")
		p.Says("#view .count", "0 / 300")
		// The focus cannot leave it.
		for range 12 {
			p.Keys(kb.Tab)
			if chromium.Ask[bool](p,
				`document.activeElement !== document.body && !document.getElementById("view").contains(document.activeElement)`) {
				t.Fatalf("Tab left the modal for %s", p.Focused())
			}
		}
		p.TabTo("#view button", "Deny")
		p.Keys(kb.Enter)
		p.Says("#in-reason-wrong", "Please complete this required field.")
		p.HasFocus("in-reason")
		p.Keys("ledger is wrong")
		p.Says("#view .count", "15 / 300")
		w.mu.Lock()
		w.answer = func(rw http.ResponseWriter, _ hooked) {
			_, _ = rw.Write([]byte(`{"response_action":"errors","errors":{"reason":"Say more, please."}}`))
		}
		w.mu.Unlock()
		p.TabTo("#view button", "Deny")
		p.Keys(kb.Enter)
		p.Says("#in-reason-wrong", "Say more, please.")
		p.HasFocus("in-reason")
		if got := chromium.Ask[string](p, `document.getElementById("in-reason").value`); got != "ledger is wrong" {
			t.Errorf("after an error the input holds %q", got)
		}
		update := strings.NewReplacer(`"Deny delete_file"`, `"One more thing"`).Replace(form)
		w.mu.Lock()
		w.answer = func(rw http.ResponseWriter, _ hooked) {
			_, _ = rw.Write([]byte(`{"response_action":"push","view":` + update + `}`))
		}
		w.mu.Unlock()
		p.Keys(" today")
		p.TabTo("#view button", "Deny")
		p.Keys(kb.Enter)
		w.happens("the submission", func(h hooked) bool {
			return strings.Contains(payload(h), `"value":"ledger is wrong today"`)
		})
		p.Says("#view-title", "One more thing") // pushed on top
		w.opensModal(form)
		p.Keys(kb.Escape)
		p.Says("#view-title", "Deny delete_file") // seen again
		p.Keys(kb.Escape)
		w.happens("view_closed", func(h hooked) bool { return strings.Contains(payload(h), `"type":"view_closed"`) })
		p.Until("the modal is closed, and the focus is back on Deny",
			`!document.getElementById("view").open && document.activeElement.innerText === "Deny"`)
	})
	t.Run("the modal, by mouse", func(t *testing.T) {
		p.T, w.t = t, t
		p.Click(approvalsLog+" .s-button", "Deny")
		p.HasFocus("in-reason")
		p.Keys("no")
		p.Click("#view .option", "Quite")
		p.Click("#view button", "Deny")
		w.happens("the submission", func(h hooked) bool {
			return strings.Contains(payload(h), `"value":"no"`) && strings.Contains(payload(h),
				`"selected_option":{"text":{"text":"Quite"`)
		})
		p.Until("the modal is closed", `!document.getElementById("view").open`)
	})
	t.Run("a modal whose button has gone gives the focus to the conversation", func(t *testing.T) {
		p.T, w.t = t, t
		gone := w.post(strings.Replace(slackCard, "Approve?", "Approve this one?", 1))
		p.Click(p.Newest(approvalsLog, "Approve this one?")+" .s-button", "Deny")
		p.HasFocus("in-reason")
		w.slack("chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {gone}, "text": {"done"},
			"blocks": {`[{"type":"section","text":{"type":"plain_text","text":"Expired"}}]`}})
		p.Says(approvalsLog, "Expired")
		p.Keys(kb.Escape)
		p.HasFocus("slack-log")
	})
	t.Run("an edited card keeps its place and loses its buttons", func(t *testing.T) {
		p.T, w.t = t, t
		p.TabTo(approvalsLog+" .s-button", "Approve")
		w.slack("chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {ts}, "text": {"done"},
			"blocks": {`[{"type":"section","text":{"type":"plain_text","text":"Denied by hana"}}]`}})
		p.Says(approvalsLog, "Denied by hana")
		p.Until("the focus stays with the card", `document.activeElement.innerText.includes("Denied by hana")`)
		if n := chromium.Ask[int](p, `document.querySelectorAll("#slack-log .s-button").length`); n != 0 {
			t.Errorf("%d buttons are left", n)
		}
		plain := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"first"}})
		w.slack("chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {plain["ts"].(string)}, "text": {"second"}})
		p.Says(approvalsLog+" .row", "second")
		p.Says(approvalsLog, "(edited)")
	})
	t.Run("threads", func(t *testing.T) {
		p.T, w.t = t, t
		w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "thread_ts": {ts}, "text": {"in the thread"}})
		p.Click(approvalsLog+" .replies", "1 reply")
		p.HasFocus("slack-text")
		p.Says(approvalsLog, "in the thread")
		p.Keys("thanks", kb.Enter)
		w.happens("the answer in the thread", func(h hooked) bool {
			return strings.Contains(string(h.body), `"thread_ts":"`+ts+`"`)
		})
		p.Keys(kb.Escape)
		p.Until("the channel is back", `document.getElementById("slack-thread").hidden`)
		p.Says(approvalsLog+" .replies", "2 replies")
	})
	t.Run("slash commands, mentions, and answers for one pair of eyes", func(t *testing.T) {
		p.T, w.t = t, t
		w.setAnswer(`{"response_type":"ephemeral","text":"Nothing waits."}`)
		chromium.Ask[any](p, `document.getElementById("slack-text").focus()`)
		p.Keys("/countersign pending", kb.Enter)
		w.happens("the command", func(h hooked) bool {
			return strings.Contains(string(h.body), "command=%2Fcountersign") && strings.Contains(string(h.body), "text=pending")
		})
		p.Says(approvalsLog+" .ephemeral", "Only visible to you")
		p.Says(approvalsLog+" .ephemeral", "Nothing waits.")
		w.setAnswer("")
		p.Keys("status", kb.Enter)
		w.happens("the mention", func(h hooked) bool { return strings.Contains(string(h.body), `"type":"app_mention"`) })
	})
	t.Run("an answer in a thread, for one's own eyes", func(t *testing.T) {
		p.T, w.t = t, t
		ts := w.post(slackCard)
		r := w.slack("chat.postEphemeral", url.Values{"channel": {"C0APPROVALS"}, "user": {"U02HANA"}, "thread_ts": {ts},
			"text": {"Five are waiting."}})
		if r["ok"] != true {
			t.Fatal(r)
		}
		p.Click(approvalsLog+" .replies", "1 reply")
		p.Says(approvalsLog+" .ephemeral", "Five are waiting.")
		p.Click("#slack-thread button", "Back to the conversation")
	})
	t.Run("all of Block Kit, with a confirmation", func(t *testing.T) {
		p.T, w.t = t, t
		w.setAnswer("")
		w.post(blockGallery)
		for _, text := range []string{"A header 🤖", "bold italic struck code a link @hana #approvals @here",
			"quoted & <escaped>", "a fence", "second field", "in context", "a chart of the month", "👋@hana#approvals@here",
			"first", "a point", "+new", "her words", "Pick one"} {
			p.Says(approvalsLog, text)
		}
		p.Until("the date is on the reader's clock",
			`[...document.querySelectorAll("#slack-log time.live")].every((e) => !/[{}]/.test(e.innerText) && e.dateTime.startsWith("2026-11-21"))`)
		before := len(w.hooked())
		p.Click(approvalsLog+" .s-button", "Deny")
		p.Click("#confirm button", "Keep")
		p.Click(approvalsLog+" .s-button", "Deny")
		p.Click("#confirm button", "Deny it")
		w.happens("the press on Deny", func(h hooked) bool {
			return strings.Contains(payload(h), `"block_id":`) && len(w.hooked()) > before
		})
		if n := len(w.hooked()) - before; n != 1 {
			t.Errorf("%d presses were sent, want one", n)
		}
	})
	t.Run("the app's own conversation and its Home", func(t *testing.T) {
		p.T, w.t = t, t
		p.TabTo("#slack-tabs [role=tab]", "# approvals")
		p.Keys(kb.ArrowRight)
		p.Until("the app's conversation is open",
			`document.activeElement.getAttribute("aria-selected") === "true" && !document.getElementById("slack-inner").hidden`)
		p.Click("#slack-inner button", "Home")
		w.happens("app_home_opened", func(h hooked) bool { return strings.Contains(string(h.body), `"app_home_opened"`) })
		p.Says("#slack-home", "has not published")
		r := w.slack("views.publish", url.Values{"user_id": {"U02HANA"}, "view": {`{"type":"home","blocks":` + slackCard +
			`}`}})
		if r["ok"] != true {
			t.Fatal(r)
		}
		p.Click("#slack-home .s-button", "Approve")
		w.happens("the press in the Home tab", func(h hooked) bool {
			return strings.Contains(payload(h), `"container":{"type":"view"`) && strings.Contains(payload(h),
				`"action_id":"approve"`)
		})
		p.Click("#slack-inner button", "Messages")
		chromium.Ask[any](p, `document.getElementById("slack-text").focus()`)
		p.Keys("pending", kb.Enter)
		w.happens("a direct message", func(h hooked) bool { return strings.Contains(string(h.body), `"channel_type":"im"`) })
		p.Says(approvalsLog, "pending")
	})
}

func TestPageAround(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	w := start(t)
	w.pushed(lineCard)
	w.Page.Tell("agent", emulator.Entry{Turn: 1, Kind: "thinks", Text: "I pay."})
	w.Page.Tell("agent", emulator.Entry{Turn: 1, Kind: "is told", Word: "pending", Text: "Wait."})
	columns := []string{"Id", "Status"}
	w.Page.SetTable("Approval requests", columns, [][]string{{"…1", "pending"}})
	p := open(b, t, w.URL(), 1280, 900, chromium.Prefers("light"))

	t.Run("the story is told once, and again when asked", func(t *testing.T) {
		p.T, w.t = t, t
		p.Says("#story", "The agent asks.")
		p.Click("#story button", "Got it")
		p.HasFocus("story-open")
		p.Do(chromedp.Reload())
		p.Until("the page is back", `document.querySelectorAll("#people input").length > 0`)
		if chromium.Ask[bool](p, `document.getElementById("story").checkVisibility()`) {
			t.Error("it is told again")
		}
		p.TabTo("button", "How it works")
		p.Keys(kb.Enter)
		p.HasFocus("story-title")
		p.Click("#story button", "Got it")
	})
	t.Run("whose phone", func(t *testing.T) {
		p.T, w.t = t, t
		p.Says(lineLog, "delete_file")
		p.Click("#people label", "ben")
		p.Says("#line-owner", "ben")
		p.Says(lineLog, "Nothing yet.")
		p.TabTo("#people input", "") // the radio that is on
		p.Keys(kb.ArrowRight)
		p.Says("#line-owner", emulator.StrangerName)
		p.Says(lineLog, "a stranger may not decide")
		p.Keys(kb.ArrowLeft, kb.ArrowLeft)
		p.Says("#line-owner", "hana")
	})
	t.Run("theme", func(t *testing.T) {
		p.T, w.t = t, t
		dark := `getComputedStyle(document.body).backgroundColor`
		light := chromium.Ask[string](p, dark)
		p.Click("#themes label", "Dark")
		p.Until("it is dark", dark+` !== `+chromium.Quoted(light))
		black := chromium.Ask[string](p, dark)
		p.Do(chromedp.Reload())
		p.Until("it is still dark", dark+` === `+chromium.Quoted(black))
		p.Click("#themes label", "Auto")
		p.Until("as the system", dark+` === `+chromium.Quoted(light))
		p.Do(chromium.Prefers("dark"))
		p.Until("as the system, which is dark now", dark+` === `+chromium.Quoted(black))
		p.Do(chromium.Prefers("light"))
	})
	t.Run("the agent and the rows", func(t *testing.T) {
		p.T, w.t = t, t
		p.Says("#part-agent h3", "Turn 1")
		p.Says("#part-agent .word", "pending")
		p.Says("#tables caption", "Approval requests")
		w.Page.SetTable("Approval requests", columns, [][]string{{"…2", "pending"}, {"…1", "approved"}})
		p.Says("#tables tr.changed", "approved")
		if got := chromium.Ask[[]string](p,
			`[...document.querySelectorAll("#tables tbody th")].map((e) => e.innerText)`); len(got) != 2 || got[0] != "…2" {
			t.Errorf("rows: %v", got)
		}
	})
	t.Run("the gate has stopped", func(t *testing.T) {
		p.T, w.t = t, t
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		w.SetWebhooks(gone.URL, gone.URL)
		w.Page.SetNotice("The gate does not answer.")
		p.Says("[role=alert]", "The gate does not answer.")
		p.Click(lineLog+" .fx-button", "Approve")
		p.Says("#line-status", "nothing was decided")
		w.Page.News("Your change is in force.")
		p.Says("[role=status]", "Your change is in force.")
		w.Page.SetNotice("")
		p.Until("the notice is gone", `document.getElementById("alerts").innerText === ""`)
	})
	t.Run("the demo has stopped", func(t *testing.T) {
		p.T, w.t = t, t
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		p.Says("[role=alert]", "The demo cannot be reached.")
	})
}

func TestNarrowPage(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	w := start(t)
	w.opensModal(form)
	w.pushed(lineCard)
	w.post(slackCard)
	w.Page.SetTable("Approval requests", []string{"Id", "Status"}, [][]string{{"…1", "pending"}})
	p := open(b, t, w.URL(), 320, 640, chromium.Prefers("light"))
	p.Fits("first visit", conversations)
	p.Click("#story button", "Got it")
	p.Click(lineLog+" .fx-button", "Approve")
	w.happens("the tap", func(h hooked) bool { return strings.Contains(string(h.body), "action=approve") })
	p.Fits("LINE", conversations)
	p.TabTo("#parts [role=tab]", "")
	p.Keys(kb.ArrowRight)
	p.Until("Slack is shown instead",
		`document.getElementById("part-slack").checkVisibility() && !document.getElementById("part-line").checkVisibility()`)
	p.Fits("Slack", conversations)
	w.post(overflowCard)
	p.Click(approvalsLog+" summary", "⋯")
	p.Click(approvalsLog+" details .s-button", "Freeze")
	w.happens("the choice of a menu", func(h hooked) bool { return strings.Contains(payload(h), `"value":"freeze:01"`) })
	p.Fits("Slack, with an open menu", conversations)
	w.pushed(text1)
	p.Says("#to-part-line .badge", "1")
	p.Click(approvalsLog+" .s-button", "Deny")
	p.HasFocus("in-reason")
	p.Fits("a modal", conversations)
	p.Keys("no")
	p.Click("#view button", "Deny")
	p.Until("the modal is closed", `!document.getElementById("view").open`)
	p.TabTo("#parts [role=tab]", "")
	p.Keys(kb.ArrowRight)
	p.Until("the agent is shown", `document.getElementById("part-agent").checkVisibility()`)
	p.Fits("agent", conversations)
	p.Keys(kb.End)
	p.Says("#tables", "pending")
	p.Fits("rows", conversations)
	p.Keys(kb.Home)
	p.Says(lineLog, "hello")
}

// TestAccessible lets axe-core look at every state, light and dark, wide, at 200 % zoom (which is half the width) and
// on the narrowest phone.
func TestAccessible(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, size := range [][2]int64{{1280, 900}, {640, 450}, {320, 640}} {
			t.Run(fmt.Sprintf("%s %d", scheme, size[0]), func(t *testing.T) {
				w := start(t)
				w.opensModal(form)
				p := open(b, t, w.URL(), size[0], size[1], chromium.Prefers(scheme))
				narrow := size[0] < 761
				part := func(name string) {
					if narrow {
						p.Click("#to-part-"+name, "")
					}
				}
				p.Axe("first visit, nothing yet")
				p.Fits("first visit, nothing yet", conversations)
				p.Click("#story button", "Got it")

				w.pushed(lineCard)
				w.pushed(flexGallery)
				w.pushed(`{"type":"text","text":"Why?","quickReply":{"items":[{"type":"action","action":{"type":"message","label":"Too expensive","text":"too expensive"}}]}}`)
				if _, err := w.LINE.Type(context.Background(), "hana", "承認", w.LINE.Chat("hana")[0].ID); err != nil {
					t.Fatal(err)
				}
				w.pushed(`{"type":"text","text":"Why?","quickReply":{"items":[{"type":"action","action":{"type":"message","label":"Too expensive","text":"too expensive"}}]}}`)
				w.line("POST", "/v2/bot/chat/loading/start", `{"chatId":"`+hanaLINE+`"}`, nil)
				p.Says("#line-quick", "Too expensive")
				p.Click(lineLog+" button", "Reply to: Approve?")
				p.Says(lineLog, "Why?")
				if n := chromium.Ask[int](p, `document.getAnimations().length`); n != 0 {
					t.Errorf("%d things move for somebody who asked for no motion", n)
				}
				p.Axe("LINE, everything")
				p.Fits("LINE, everything", conversations)
				p.Click(lineLog+" button", "Inspect: Approve?")
				p.Axe("the JSON of a message")
				p.Click("#raw button", "Close")

				part("slack")
				ts := w.post(blockGallery)
				w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "thread_ts": {ts}, "text": {"in the thread"}})
				w.slack("chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {ts}, "text": {"a"}, "blocks": {blockGallery}})
				w.slack("chat.postEphemeral", url.Values{"channel": {"C0APPROVALS"}, "user": {"U02HANA"},
					"text": {"only *you* see <@U02HANA>"}})
				w.post(slackCard)
				p.Says(approvalsLog, "only you")
				p.Axe("Slack, everything")
				p.Fits("Slack, everything", conversations)
				p.Click(approvalsLog+" .s-button", "Deny")
				p.HasFocus("in-reason")
				p.Click("#view button", "Deny")
				p.Says("#in-reason-wrong", "Please complete")
				p.Axe("a modal with an error")
				p.Fits("a modal with an error", conversations)
				p.Keys(kb.Escape)
				p.Until("the modal is closed", `!document.getElementById("view").open`)
				p.Click(approvalsLog+" .replies", "1 reply")
				p.Axe("a thread")
				p.Click("#slack-thread button", "Back to the conversation")
				p.Click("#slack-tabs button", "countersign")
				p.Axe("direct messages")
				p.Click("#slack-inner button", "Home")
				w.slack("views.publish", url.Values{"user_id": {"U02HANA"}, "view": {`{"type":"home","blocks":` + slackCard + `}`}})
				p.Says("#slack-home", "delete_file")
				p.Axe("the Home tab")

				part("agent")
				for i, word := range []string{"allow", "pending", "denied", "lapsed"} {
					w.Page.Tell("agent", emulator.Entry{Turn: i + 1, Kind: "thinks", Text: "Hm."})
					w.Page.Tell("agent", emulator.Entry{Turn: i + 1, Kind: "is told", Word: word, Text: "As it is."})
				}
				p.Says("#part-agent", "Turn 4")
				p.Axe("the agent")
				part("rows")
				w.Page.SetTable("Approval requests", []string{"Id", "Tool", "Risk", "Status", "Who", "Time"},
					[][]string{{"…1", "delete_file", "high", "pending", "", "10:40"}, {"…2", "transfer_credits", "high", "denied",
						"hana", "10:40"}})
				w.Page.SetTable("Notifications", []string{"Id", "Status"}, nil)
				w.Page.SetNotice("The gate does not answer.")
				p.Says("#tables", "transfer_credits")
				p.Axe("the rows, and a notice")
				p.Fits("the rows, and a notice", conversations)
				if narrow {
					part("line")
				}
				p.Click("#people label", emulator.StrangerName)
				p.Says(lineLog, "a stranger may not decide")
				p.Axe("the stranger")
			})
		}
	}
}
