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

	"countersign/emulator"
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
	b := openBrowser(t)
	w := start(t)
	p := open(b, t, w.URL(), 1280, 900, prefers("light"))
	p.says(lineLog, "Nothing yet.")
	w.pushed(lineCard)
	p.click(lineLog+" .fx-button", "Approve")
	w.happens("the tap on Approve", func(h hooked) bool { return strings.Contains(string(h.body), "action=approve&id=01") })
	p.says(lineLog+" .own", "Approve") // displayText
	p.says("#line-status", "HTTP 200")

	t.Run("by keyboard: the keyboard opens with the reason begun", func(t *testing.T) {
		p.t, w.t = t, t
		p.tabTo(lineLog+" .fx-button", "Deny")
		p.keys(kb.Enter)
		w.happens("the tap on Deny", func(h hooked) bool { return strings.Contains(string(h.body), "action=deny&id=01") })
		p.hasFocus("line-text")
		p.until("the reason is begun", `document.getElementById("line-text").value === "reason: "`)
		p.keys("too much", kb.Enter)
		w.happens("the reason", func(h hooked) bool { return strings.Contains(string(h.body), `"text":"reason: too much"`) })
		p.hasFocus("line-text")
		p.says(lineLog+" .own", "reason: too much")
	})
	t.Run("a quick reply, gone after the tap", func(t *testing.T) {
		p.t, w.t = t, t
		w.pushed(`{"type":"text","text":"Why?","quickReply":{"items":[{"type":"action","action":{"type":"message","label":"Too expensive","text":"too expensive"}},{"type":"action","action":{"type":"postback","label":"Later","data":"later=1"}}]}}`)
		p.click("#line-quick button", "Later")
		w.happens("the quick reply", func(h hooked) bool { return strings.Contains(string(h.body), "later=1") })
		p.until("the suggestions are gone", `document.getElementById("line-quick").hidden`)
		w.pushed(`{"type":"text","text":"Why?","quickReply":{"items":[{"type":"action","action":{"type":"message","label":"Too expensive","text":"too expensive"}}]}}`)
		p.tabTo("#line-quick button", "Too expensive")
		p.keys(" ")
		w.happens("the text", func(h hooked) bool { return strings.Contains(string(h.body), `"text":"too expensive"`) })
		p.hasFocus("line-text") // the suggestion that had it is gone
	})
	t.Run("a reply quotes a card", func(t *testing.T) {
		p.t, w.t = t, t
		card := w.LINEChat("hana")[0].ID
		p.click(lineLog+" button", "Reply to: Approve?")
		p.hasFocus("line-text")
		p.says("#line-quote", "Reply to Countersign: Approve?")
		p.keys("approve", kb.Enter)
		w.happens("the quote", func(h hooked) bool { return strings.Contains(string(h.body), `"quotedMessageId":"`+card+`"`) })
		p.says(lineLog+" .own .quoted", "Approve?")
		p.until("nothing is quoted any more", `document.getElementById("line-quote").hidden`)
	})
	t.Run("all of Flex, and nothing as markup", func(t *testing.T) {
		p.t, w.t = t, t
		w.pushed(flexGallery)
		for _, text := range []string{"HEADER", "span one span two", "on the baseline", "a box to tap", "second of two", "Are you sure?", "(sticker)", "<b>no markup</b> <img src=x onerror=alert(1)>"} {
			p.says(lineLog, text)
		}
		if n := ask[int](p, `document.querySelectorAll("#line-log img, #line-log b, #line-log .unknown").length`); n != 0 {
			t.Errorf("%d elements were made of a message's text, or not drawn", n)
		}
		p.until("Japanese is marked", `[...document.querySelectorAll("#line-log [lang=ja]")].some((e) => e.innerText.includes("承認"))`)
		p.tabTo(lineLog+" [role=button]", "a box to tap")
		p.keys(kb.Enter)
		w.happens("the tap on a box", func(h hooked) bool { return strings.Contains(string(h.body), "box=1") })
		thirds := ask[[]float64](p, `[...document.querySelectorAll("#line-log .fx-text")].filter((e) => /third/.test(e.innerText)).map((e) => e.getBoundingClientRect().width)`)
		if len(thirds) != 2 || thirds[1] < 1.7*thirds[0] {
			t.Errorf("flex 1 and 2 are %v wide", thirds)
		}
	})
	t.Run("what it does not know is shown as such", func(t *testing.T) {
		p.t, w.t = t, t
		got := ask[string](p, `import("/page/flex.js").then((m) => m.drawLINE({type: "flex", contents: {type: "bubble", body: {type: "box", layout: "vertical", contents: [{type: "hologram", text: "boo"}]}}}, "", () => {}).textContent)`)
		if !strings.Contains(got, "hologram") || !strings.Contains(got, "boo") {
			t.Errorf("shown: %s", got)
		}
		got = ask[string](p, `import("/page/blocks.js").then((m) => m.drawBlocks([{type: "hologram", text: "boo"}, {type: "actions", elements: [{type: "dial"}]}, {type: "rich_text", elements: [{type: "rich_text_dance"}]}], () => {}).map((e) => e.textContent).join())`)
		for _, want := range []string{"hologram", "boo", "dial", "rich_text_dance"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in %s", want, got)
			}
		}
	})
	t.Run("the JSON that was sent", func(t *testing.T) {
		p.t, w.t = t, t
		p.click(lineLog+" button", "JSON of: Approve?")
		p.says("#raw-json", `"data": "action=approve&id=01"`)
		p.keys(kb.Escape)
		p.until("it is closed, and the focus is back", `!document.getElementById("raw").open && document.activeElement.getAttribute("aria-label") === "JSON of: Approve?"`)
	})
	t.Run("blocking", func(t *testing.T) {
		p.t, w.t = t, t
		p.click("#line-block", "Block Countersign")
		w.happens("unfollow", func(h hooked) bool { return strings.Contains(string(h.body), `"type":"unfollow"`) })
		p.says(lineLog, "You have blocked Countersign.")
		p.click("#line-block", "Unblock Countersign")
		p.until("the bot can be written to again", `!document.getElementById("line-text").disabled`)
	})
}

func TestPhoneSlack(t *testing.T) {
	b := openBrowser(t)
	w := start(t)
	w.opensModal(form)
	p := open(b, t, w.URL(), 1280, 900, prefers("light"))
	p.says(approvalsLog, "Nothing yet.")
	ts := w.post(slackCard)
	p.click(approvalsLog+" .s-button", "Approve")
	w.happens("the press on Approve", func(h hooked) bool { return strings.Contains(payload(h), `"action_id":"approve"`) })

	t.Run("the modal, by keyboard alone", func(t *testing.T) {
		p.t, w.t = t, t
		p.tabTo(approvalsLog+" .s-button", "Deny")
		p.keys(kb.Enter)
		p.hasFocus("in-reason")
		p.says("#view", "Deny delete_file")
		p.says("#view", "The agent reads it word for word.")
		p.says("#view .count", "0 / 300")
		// The focus cannot leave it.
		for range 12 {
			p.keys(kb.Tab)
			if ask[bool](p, `document.activeElement !== document.body && !document.getElementById("view").contains(document.activeElement)`) {
				t.Fatalf("Tab left the modal for %s", p.focused())
			}
		}
		p.tabTo("#view button", "Deny")
		p.keys(kb.Enter)
		p.says("#in-reason-wrong", "Please complete this required field.")
		p.hasFocus("in-reason")
		p.keys("ledger is wrong")
		p.says("#view .count", "15 / 300")
		w.mu.Lock()
		w.answer = func(rw http.ResponseWriter, _ hooked) {
			_, _ = rw.Write([]byte(`{"response_action":"errors","errors":{"reason":"Say more, please."}}`))
		}
		w.mu.Unlock()
		p.tabTo("#view button", "Deny")
		p.keys(kb.Enter)
		p.says("#in-reason-wrong", "Say more, please.")
		p.hasFocus("in-reason")
		if got := ask[string](p, `document.getElementById("in-reason").value`); got != "ledger is wrong" {
			t.Errorf("after an error the input holds %q", got)
		}
		update := strings.NewReplacer(`"Deny delete_file"`, `"One more thing"`).Replace(form)
		w.mu.Lock()
		w.answer = func(rw http.ResponseWriter, _ hooked) {
			_, _ = rw.Write([]byte(`{"response_action":"push","view":` + update + `}`))
		}
		w.mu.Unlock()
		p.keys(" today")
		p.tabTo("#view button", "Deny")
		p.keys(kb.Enter)
		w.happens("the submission", func(h hooked) bool { return strings.Contains(payload(h), `"value":"ledger is wrong today"`) })
		p.says("#view-title", "One more thing") // pushed on top
		w.opensModal(form)
		p.keys(kb.Escape)
		p.says("#view-title", "Deny delete_file") // seen again
		p.keys(kb.Escape)
		w.happens("view_closed", func(h hooked) bool { return strings.Contains(payload(h), `"type":"view_closed"`) })
		p.until("the modal is closed, and the focus is back on Deny", `!document.getElementById("view").open && document.activeElement.innerText === "Deny"`)
	})
	t.Run("the modal, by mouse", func(t *testing.T) {
		p.t, w.t = t, t
		p.click(approvalsLog+" .s-button", "Deny")
		p.hasFocus("in-reason")
		p.keys("no")
		p.click("#view .option", "Quite")
		p.click("#view button", "Deny")
		w.happens("the submission", func(h hooked) bool {
			return strings.Contains(payload(h), `"value":"no"`) && strings.Contains(payload(h), `"selected_option":{"text":{"text":"Quite"`)
		})
		p.until("the modal is closed", `!document.getElementById("view").open`)
	})
	t.Run("a modal whose button has gone gives the focus to the conversation", func(t *testing.T) {
		p.t, w.t = t, t
		gone := w.post(strings.Replace(slackCard, "Approve?", "Approve this one?", 1))
		p.click(p.newest(approvalsLog, "Approve this one?")+" .s-button", "Deny")
		p.hasFocus("in-reason")
		w.slack("chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {gone}, "text": {"done"}, "blocks": {`[{"type":"section","text":{"type":"plain_text","text":"Expired"}}]`}})
		p.says(approvalsLog, "Expired")
		p.keys(kb.Escape)
		p.hasFocus("slack-log")
	})
	t.Run("an edited card keeps its place and loses its buttons", func(t *testing.T) {
		p.t, w.t = t, t
		p.tabTo(approvalsLog+" .s-button", "Approve")
		w.slack("chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {ts}, "text": {"done"}, "blocks": {`[{"type":"section","text":{"type":"plain_text","text":"Denied by hana"}}]`}})
		p.says(approvalsLog, "Denied by hana")
		p.until("the focus stays with the card", `document.activeElement.innerText.includes("Denied by hana")`)
		if n := ask[int](p, `document.querySelectorAll("#slack-log .s-button").length`); n != 0 {
			t.Errorf("%d buttons are left", n)
		}
		plain := w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "text": {"first"}})
		w.slack("chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {plain["ts"].(string)}, "text": {"second"}})
		p.says(approvalsLog+" .row", "second")
		p.says(approvalsLog, "(edited)")
	})
	t.Run("threads", func(t *testing.T) {
		p.t, w.t = t, t
		w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "thread_ts": {ts}, "text": {"in the thread"}})
		p.click(approvalsLog+" .replies", "1 reply")
		p.hasFocus("slack-text")
		p.says(approvalsLog, "in the thread")
		p.keys("thanks", kb.Enter)
		w.happens("the answer in the thread", func(h hooked) bool { return strings.Contains(string(h.body), `"thread_ts":"`+ts+`"`) })
		p.keys(kb.Escape)
		p.until("the channel is back", `document.getElementById("slack-thread").hidden`)
		p.says(approvalsLog+" .replies", "2 replies")
	})
	t.Run("slash commands, mentions, and answers for one pair of eyes", func(t *testing.T) {
		p.t, w.t = t, t
		w.setAnswer(`{"response_type":"ephemeral","text":"Nothing waits."}`)
		ask[any](p, `document.getElementById("slack-text").focus()`)
		p.keys("/countersign pending", kb.Enter)
		w.happens("the command", func(h hooked) bool {
			return strings.Contains(string(h.body), "command=%2Fcountersign") && strings.Contains(string(h.body), "text=pending")
		})
		p.says(approvalsLog+" .ephemeral", "Only visible to you")
		p.says(approvalsLog+" .ephemeral", "Nothing waits.")
		w.setAnswer("")
		p.keys("status", kb.Enter)
		w.happens("the mention", func(h hooked) bool { return strings.Contains(string(h.body), `"type":"app_mention"`) })
	})
	t.Run("all of Block Kit, with a confirmation", func(t *testing.T) {
		p.t, w.t = t, t
		w.setAnswer("")
		w.post(blockGallery)
		for _, text := range []string{"A header 🤖", "bold italic struck code a link @hana #approvals @here", "quoted & <escaped>", "a fence", "second field", "in context", "a chart of the month", "👋@hana#approvals@here", "first", "a point", "+new", "her words", "Pick one"} {
			p.says(approvalsLog, text)
		}
		p.until("the date is on the reader's clock", `[...document.querySelectorAll("#slack-log time.live")].every((e) => !/[{}]/.test(e.innerText) && e.dateTime.startsWith("2026-11-21"))`)
		before := len(w.hooked())
		p.click(approvalsLog+" .s-button", "Deny")
		p.click("#confirm button", "Keep")
		p.click(approvalsLog+" .s-button", "Deny")
		p.click("#confirm button", "Deny it")
		w.happens("the press on Deny", func(h hooked) bool { return strings.Contains(payload(h), `"block_id":`) && len(w.hooked()) > before })
		if n := len(w.hooked()) - before; n != 1 {
			t.Errorf("%d presses were sent, want one", n)
		}
	})
	t.Run("the app's own conversation and its Home", func(t *testing.T) {
		p.t, w.t = t, t
		p.tabTo("#slack-tabs [role=tab]", "# approvals")
		p.keys(kb.ArrowRight)
		p.until("the app's conversation is open", `document.activeElement.getAttribute("aria-selected") === "true" && !document.getElementById("slack-inner").hidden`)
		p.click("#slack-inner button", "Home")
		w.happens("app_home_opened", func(h hooked) bool { return strings.Contains(string(h.body), `"app_home_opened"`) })
		p.says("#slack-home", "has not published")
		r := w.slack("views.publish", url.Values{"user_id": {"U02HANA"}, "view": {`{"type":"home","blocks":` + slackCard + `}`}})
		if r["ok"] != true {
			t.Fatal(r)
		}
		p.click("#slack-home .s-button", "Approve")
		w.happens("the press in the Home tab", func(h hooked) bool {
			return strings.Contains(payload(h), `"container":{"type":"view"`) && strings.Contains(payload(h), `"action_id":"approve"`)
		})
		p.click("#slack-inner button", "Messages")
		ask[any](p, `document.getElementById("slack-text").focus()`)
		p.keys("pending", kb.Enter)
		w.happens("a direct message", func(h hooked) bool { return strings.Contains(string(h.body), `"channel_type":"im"`) })
		p.says(approvalsLog, "pending")
	})
}

func TestPageAround(t *testing.T) {
	b := openBrowser(t)
	w := start(t)
	w.pushed(lineCard)
	w.Tell("agent", emulator.Entry{Turn: 1, Kind: "thinks", Text: "I pay."})
	w.Tell("agent", emulator.Entry{Turn: 1, Kind: "is told", Word: "pending", Text: "Wait."})
	columns := []string{"Id", "Status"}
	w.SetTable("Approval requests", columns, [][]string{{"…1", "pending"}})
	p := open(b, t, w.URL(), 1280, 900, prefers("light"))

	t.Run("the story is told once, and again when asked", func(t *testing.T) {
		p.t, w.t = t, t
		p.says("#story", "The agent asks.")
		p.click("#story button", "Got it")
		p.hasFocus("story-open")
		p.do(chromedp.Reload())
		p.until("the page is back", `document.querySelectorAll("#people input").length > 0`)
		if ask[bool](p, `document.getElementById("story").checkVisibility()`) {
			t.Error("it is told again")
		}
		p.tabTo("button", "How it works")
		p.keys(kb.Enter)
		p.hasFocus("story-title")
		p.click("#story button", "Got it")
	})
	t.Run("whose phone", func(t *testing.T) {
		p.t, w.t = t, t
		p.says(lineLog, "delete_file")
		p.click("#people label", "ben")
		p.says("#line-owner", "ben")
		p.says(lineLog, "Nothing yet.")
		p.tabTo("#people input", "") // the radio that is on
		p.keys(kb.ArrowRight)
		p.says("#line-owner", emulator.StrangerName)
		p.says(lineLog, "a stranger may not decide")
		p.keys(kb.ArrowLeft, kb.ArrowLeft)
		p.says("#line-owner", "hana")
	})
	t.Run("theme", func(t *testing.T) {
		p.t, w.t = t, t
		dark := `getComputedStyle(document.body).backgroundColor`
		light := ask[string](p, dark)
		p.click("#themes label", "Dark")
		p.until("it is dark", dark+` !== `+quoted(light))
		black := ask[string](p, dark)
		p.do(chromedp.Reload())
		p.until("it is still dark", dark+` === `+quoted(black))
		p.click("#themes label", "Auto")
		p.until("as the system", dark+` === `+quoted(light))
		p.do(prefers("dark"))
		p.until("as the system, which is dark now", dark+` === `+quoted(black))
		p.do(prefers("light"))
	})
	t.Run("the agent and the rows", func(t *testing.T) {
		p.t, w.t = t, t
		p.says("#part-agent h3", "Turn 1")
		p.says("#part-agent .word", "pending")
		p.says("#tables caption", "Approval requests")
		w.SetTable("Approval requests", columns, [][]string{{"…2", "pending"}, {"…1", "approved"}})
		p.says("#tables tr.changed", "approved")
		if got := ask[[]string](p, `[...document.querySelectorAll("#tables tbody th")].map((e) => e.innerText)`); len(got) != 2 || got[0] != "…2" {
			t.Errorf("rows: %v", got)
		}
	})
	t.Run("the gate has stopped", func(t *testing.T) {
		p.t, w.t = t, t
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		w.SetWebhooks(gone.URL, gone.URL)
		w.SetNotice("The gate does not answer.")
		p.says("[role=alert]", "The gate does not answer.")
		p.click(lineLog+" .fx-button", "Approve")
		p.says("#line-status", "nothing was decided")
		w.SetNotice("")
		p.until("the notice is gone", `document.getElementById("alerts").innerText === ""`)
	})
	t.Run("the demo has stopped", func(t *testing.T) {
		p.t, w.t = t, t
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		p.says("[role=alert]", "The demo cannot be reached.")
	})
}

func TestNarrowPage(t *testing.T) {
	b := openBrowser(t)
	w := start(t)
	w.opensModal(form)
	w.pushed(lineCard)
	w.post(slackCard)
	w.SetTable("Approval requests", []string{"Id", "Status"}, [][]string{{"…1", "pending"}})
	p := open(b, t, w.URL(), 320, 640, prefers("light"))
	p.fits("first visit")
	p.click("#story button", "Got it")
	p.click(lineLog+" .fx-button", "Approve")
	w.happens("the tap", func(h hooked) bool { return strings.Contains(string(h.body), "action=approve") })
	p.fits("LINE")
	p.tabTo("#parts [role=tab]", "")
	p.keys(kb.ArrowRight)
	p.until("Slack is shown instead", `document.getElementById("part-slack").checkVisibility() && !document.getElementById("part-line").checkVisibility()`)
	p.fits("Slack")
	w.pushed(text1)
	p.says("#to-part-line .badge", "1")
	p.click(approvalsLog+" .s-button", "Deny")
	p.hasFocus("in-reason")
	p.fits("a modal")
	p.keys("no")
	p.click("#view button", "Deny")
	p.until("the modal is closed", `!document.getElementById("view").open`)
	p.tabTo("#parts [role=tab]", "")
	p.keys(kb.ArrowRight)
	p.until("the agent is shown", `document.getElementById("part-agent").checkVisibility()`)
	p.fits("agent")
	p.keys(kb.End)
	p.says("#tables", "pending")
	p.fits("rows")
	p.keys(kb.Home)
	p.says(lineLog, "hello")
}

// TestAccessible lets axe-core look at every state, light and dark, wide, at 200 % zoom (which is half the width) and
// on the narrowest phone.
func TestAccessible(t *testing.T) {
	b := openBrowser(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, size := range [][2]int64{{1280, 900}, {640, 450}, {320, 640}} {
			t.Run(fmt.Sprintf("%s %d", scheme, size[0]), func(t *testing.T) {
				w := start(t)
				w.opensModal(form)
				p := open(b, t, w.URL(), size[0], size[1], prefers(scheme))
				narrow := size[0] < 761
				part := func(name string) {
					if narrow {
						p.click("#to-part-"+name, "")
					}
				}
				p.axe("first visit, nothing yet")
				p.fits("first visit, nothing yet")
				p.click("#story button", "Got it")

				w.pushed(lineCard)
				w.pushed(flexGallery)
				w.pushed(`{"type":"text","text":"Why?","quickReply":{"items":[{"type":"action","action":{"type":"message","label":"Too expensive","text":"too expensive"}}]}}`)
				if _, err := w.TypeLINE(context.Background(), "hana", "承認", w.LINEChat("hana")[0].ID); err != nil {
					t.Fatal(err)
				}
				w.pushed(`{"type":"text","text":"Why?","quickReply":{"items":[{"type":"action","action":{"type":"message","label":"Too expensive","text":"too expensive"}}]}}`)
				w.line("POST", "/v2/bot/chat/loading/start", `{"chatId":"`+hanaLINE+`"}`, nil)
				p.says("#line-quick", "Too expensive")
				p.click(lineLog+" button", "Reply to: Approve?")
				p.says(lineLog, "Why?")
				if n := ask[int](p, `document.getAnimations().length`); n != 0 {
					t.Errorf("%d things move for somebody who asked for no motion", n)
				}
				p.axe("LINE, everything")
				p.fits("LINE, everything")
				p.click(lineLog+" button", "JSON of: Approve?")
				p.axe("the JSON of a message")
				p.click("#raw button", "Close")

				part("slack")
				ts := w.post(blockGallery)
				w.slack("chat.postMessage", url.Values{"channel": {"C0APPROVALS"}, "thread_ts": {ts}, "text": {"in the thread"}})
				w.slack("chat.update", url.Values{"channel": {"C0APPROVALS"}, "ts": {ts}, "text": {"a"}, "blocks": {blockGallery}})
				w.slack("chat.postEphemeral", url.Values{"channel": {"C0APPROVALS"}, "user": {"U02HANA"}, "text": {"only *you* see <@U02HANA>"}})
				w.post(slackCard)
				p.says(approvalsLog, "only you")
				p.axe("Slack, everything")
				p.fits("Slack, everything")
				p.click(approvalsLog+" .s-button", "Deny")
				p.hasFocus("in-reason")
				p.click("#view button", "Deny")
				p.says("#in-reason-wrong", "Please complete")
				p.axe("a modal with an error")
				p.fits("a modal with an error")
				p.keys(kb.Escape)
				p.until("the modal is closed", `!document.getElementById("view").open`)
				p.click(approvalsLog+" .replies", "1 reply")
				p.axe("a thread")
				p.click("#slack-thread button", "Back to the conversation")
				p.click("#slack-tabs button", "countersign")
				p.axe("direct messages")
				p.click("#slack-inner button", "Home")
				w.slack("views.publish", url.Values{"user_id": {"U02HANA"}, "view": {`{"type":"home","blocks":` + slackCard + `}`}})
				p.says("#slack-home", "delete_file")
				p.axe("the Home tab")

				part("agent")
				for i, word := range []string{"allow", "pending", "denied", "lapsed"} {
					w.Tell("agent", emulator.Entry{Turn: i + 1, Kind: "thinks", Text: "Hm."})
					w.Tell("agent", emulator.Entry{Turn: i + 1, Kind: "is told", Word: word, Text: "As it is."})
				}
				p.says("#part-agent", "Turn 4")
				p.axe("the agent")
				part("rows")
				w.SetTable("Approval requests", []string{"Id", "Tool", "Risk", "Status", "Who", "Time"}, [][]string{{"…1", "delete_file", "high", "pending", "", "10:40"}, {"…2", "transfer_credits", "high", "denied", "hana", "10:40"}})
				w.SetTable("Notifications", []string{"Id", "Status"}, nil)
				w.SetNotice("The gate does not answer.")
				p.says("#tables", "transfer_credits")
				p.axe("the rows, and a notice")
				p.fits("the rows, and a notice")
				if narrow {
					part("line")
				}
				p.click("#people label", emulator.StrangerName)
				p.says(lineLog, "a stranger may not decide")
				p.axe("the stranger")
			})
		}
	}
}
