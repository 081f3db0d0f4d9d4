package campaign_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/internal/campaign"
	"countersign/internal/emulator"
	"countersign/internal/testkit"
)

// play plays a round and returns what was seen in it, and what of that breaks a promise.
func play(t testing.TB, p plan) (*campaign.History, []campaign.Violation, map[string]int) {
	t.Logf("%v", p)
	w := newWorld(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), p.length+2*testkit.Patience)
	defer cancel()
	var actors sync.WaitGroup
	n := uint64(0)
	loop := func(most time.Duration, act func(r *rand.Rand) func()) {
		n++
		r := rand.New(rand.NewPCG(p.seed, n))
		step := act(r)
		actors.Go(func() {
			for !w.halt.Load() {
				step()
				w.pause(r, most)
			}
		})
	}
	for i, name := range slices.Concat(agentNames, agentNames, agentNames) {
		loop(30*time.Millisecond, func(r *rand.Rand) func() {
			return (&agent{world: w, ctx: ctx, r: r, name: name, starts: i < len(agentNames)}).act
		})
	}
	for _, name := range peopleNames {
		loop(40*time.Millisecond, func(r *rand.Rand) func() { return (&person{world: w, ctx: ctx, r: r, name: name}).act })
	}
	if p.has("freeze") {
		loop(4*time.Second, func(r *rand.Rand) func() { return func() { w.pause(r, time.Second); w.freeze(r) } })
	}
	all := w.faulty()
	for _, f := range all { // the more of them have faults, the rarer each one's are: calls are to get through as well
		loop(time.Duration(len(all))*1200*time.Millisecond, func(r *rand.Rand) func() {
			return func() {
				if len(f.kinds) > 0 {
					w.fault(r, f.kinds[r.IntN(len(f.kinds))], f.program)
				}
			}
		})
	}
	time.AfterFunc(p.length, func() { w.halt.Store(true) })
	testkit.Wait(t, "all actors to come to an end", actors.Wait)
	w.at("the load")
	w.mend()
	w.at("mended")
	w.settle()
	w.at("settled")
	w.readAll()
	w.at("read")
	found := campaign.Check(&w.history)
	for _, v := range w.chat.Violations() {
		found = append(found, campaign.Violation{Rule: "the platforms' rules", Text: fmt.Sprint(v)})
	}
	if log := w.log.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
		found = append(found, campaign.Violation{Rule: "the program is sound", Text: log})
	}
	return &w.history, found, w.counts
}

// get reads as hana, who may see all, and must be answered.
func (w *world) get(path string, into any) {
	var text []byte
	o := &campaign.Op{}
	defer func() {
		if text == nil {
			w.t.Errorf("%s: %v", path, o)
		}
	}()
	testkit.Eventually(w.t, path+" is answered", func() bool {
		o = &campaign.Op{}
		text = w.ask(context.Background(), o, "hana", "GET", path, nil)
		if o.Answered && o.Status < 500 && text == nil {
			w.t.Fatalf("%s: %v", path, o)
		}
		return text != nil
	})
	if err := json.Unmarshal(text, into); err != nil {
		w.t.Fatalf("%s: %v in %s", path, err, text)
	}
}

// pages reads a list to its end.
func pages[T any](w *world, path, name string) (all []T) {
	for after := ""; ; {
		var page map[string]json.RawMessage
		query := "limit=200"
		if after != "" {
			query += "&after=" + url.QueryEscape(after)
		}
		w.get(path+query, &page)
		var items []T
		if err := json.Unmarshal(page[name], &items); err != nil {
			w.t.Fatalf("%s: %v", path, err)
		}
		all = append(all, items...)
		var next *string
		if err := json.Unmarshal(page["next"], &next); err != nil || next == nil {
			return all
		}
		after = *next
	}
}

type notification struct {
	ApprovalID string `json:"approval_id"`
	MessageID  string `json:"message_id"`
	Status     string
	Kind       string
	Channel    string
	Attempt    int
	Error      string
	Created    string `json:"created_at"`
	Next       string `json:"next_attempt_at"`
	Sent       string `json:"sent_at"`
	To         string `json:"recipient"`
}

// settle waits until everything that people were to be sent was sent, or could not be.
func (w *world) settle() {
	// What is about to end ends first, or its cards would change while they are read. That it does is looked at later.
	for range 100 {
		if len(pages[campaign.Request](w, "/v1/approvals?status=pending&tool=brief&", "approvals")) == 0 && !w.hasUnused() {
			break
		}
		time.Sleep(100 * time.Millisecond) // real: two seconds for one thing, three for the other
	}
	var left []notification
	defer func() {
		if len(left) > 0 {
			w.t.Errorf("not sent by %s: %+v", time.Now(), left)
		}
	}()
	testkit.Eventually(w.t, "all was sent", func() bool {
		left = nil
		for _, status := range []string{"queued", "retrying"} {
			left = append(left, pages[notification](w, "/v1/notifications?status="+status+"&", "notifications")...)
		}
		return len(left) == 0
	})
}

// hasUnused reports whether there are approvals that can be used yet.
func (w *world) hasUnused() bool {
	return slices.ContainsFunc(pages[campaign.Request](w, "/v1/approvals?status=approved&", "approvals"),
		func(r campaign.Request) bool { return r.ConsumedAt.IsZero() && r.LapsedAt.IsZero() })
}

// readAll reads what is left at the end.
func (w *world) readAll() {
	h := &w.history
	arrived := map[string]bool{}
	for _, n := range pages[notification](w, "/v1/notifications?", "notifications") {
		arrived[n.MessageID] = true
		h.Sent[n.ApprovalID] = append(h.Sent[n.ApprovalID], fmt.Sprintf("%+v", n))
		if n.Status == "failed" {
			h.Failed[n.ApprovalID] = true
		}
	}
	type batched struct {
		campaign.Request
		BatchID string `json:"batch_id"`
	}
	h.ReadAt = time.Now()
	cards := map[string][]string{} // by what stands on them: requests
	for _, r := range pages[batched](w, "/v1/approvals?", "approvals") {
		h.Requests = append(h.Requests, r.Request)
		cards[r.ID] = append(cards[r.ID], r.ID)
		if r.BatchID != "" {
			w.grouped[r.ID] = true
			cards[r.BatchID] = append(cards[r.BatchID], r.ID)
		}
	}
	for _, a := range agentNames {
		var feed struct{ Approvals []campaign.Request }
		o := &campaign.Op{}
		text := w.ask(context.Background(), o, a, "GET", "/v1/approvals/resolved", nil)
		if text == nil || json.Unmarshal(text, &feed) != nil {
			w.t.Fatalf("the feed of %s: %v", a, o)
		}
		for _, r := range feed.Approvals {
			h.Feed[a] = append(h.Feed[a], r.ID)
		}
	}
	h.Grants = pages[campaign.Grant](w, "/v1/grants?all=true&", "grants")
	h.Events = pages[campaign.Event](w, "/v1/audit?", "events")
	slices.Reverse(h.Events)
	w.readLINE(cards)
	w.readSlack(cards, arrived)
}

var (
	ulids   = regexp.MustCompile(`[0-7][0-9A-HJKMNP-TV-Z]{25}`)
	presses = regexp.MustCompile(`action=approve&id=([0-7][0-9A-HJKMNP-TV-Z]{25})"`)
)

// readLINE reads what people have in their chats with the bot.
func (w *world) readLINE(on map[string][]string) {
	for _, name := range onLINE {
		for _, m := range w.chat.LINE.Chat(name) {
			if !m.FromBot {
				continue
			}
			text := strings.ReplaceAll(string(m.JSON), `\u0026`, "&")
			w.mention(on, text, campaign.Card{Channel: "line", To: name})
			for _, press := range presses.FindAllStringSubmatch(text, -1) {
				w.addCard(campaign.Card{Channel: "line", To: name, ID: press[1], Once: true, Pushed: m.Via == "push",
					What: m.ID + " " + m.RetryKey + " " + m.Text, Repeats: !w.isPlain(press[1])})
			}
		}
	}
}

// readSlack reads what stands in the channel and in people's direct messages, and what stood there before an edit.
func (w *world) readSlack(on map[string][]string, arrived map[string]bool) {
	for _, place := range append([]string{room}, onSlack...) {
		for _, m := range w.chat.Slack.Messages(place) {
			if m.FromBot && m.Ephemeral == "" && !m.Deleted {
				w.readMessage(place, m, on, arrived)
			}
		}
	}
}

func (w *world) readMessage(place string, m emulator.SlackMessage, on map[string][]string, arrived map[string]bool) {
	first := m.Blocks
	for i := len(m.Edits) - 1; i >= 0; i-- {
		first = m.Edits[i].Blocks
		w.mention(on, string(first), campaign.Card{Channel: "slack", To: place})
	}
	w.mention(on, string(m.Blocks), campaign.Card{Channel: "slack", To: place})
	for _, id := range buttons(first) {
		w.addCard(campaign.Card{Channel: "slack", To: place, ID: id, Pushed: true, What: m.TS, Repeats: !w.isPlain(id)})
	}
	for _, id := range buttons(m.Blocks) {
		w.addCard(campaign.Card{Channel: "slack", To: place, ID: id, Buttons: true, Unknown: !arrived[m.TS]})
	}
}

func (w *world) addCard(c campaign.Card) { w.history.Cards = append(w.history.Cards, c) }

// mention adds a card for each request that a message is about, by its own id or that of its batch.
func (w *world) mention(on map[string][]string, text string, c campaign.Card) {
	for _, id := range ulids.FindAllString(text, -1) {
		for _, c.ID = range on[id] {
			w.addCard(c)
		}
	}
}

// isPlain reports whether a request is one of which each address gets one push: it is alone on its card, no other
// setting asks for more, and no press is answered with a question. Of a card with several, those of a later stage get
// what is theirs once more, when it is their turn.
func (w *world) isPlain(id string) bool {
	for _, r := range w.history.Requests {
		if r.ID == id {
			twice := r.Tool == "ship" && w.counts["delegate"] > 0 // whoever stands in for one stage may be of the next
			return !w.grouped[id] && !twice && r.Tool != "move" && r.Tool != "open" &&
				!slices.Contains(w.plan.faults, "reload")
		}
	}
	return false
}

// buttons are the requests that can be approved on a message.
func buttons(blocks json.RawMessage) (ids []string) {
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			if v["action_id"] == "approve" {
				ids = append(ids, fmt.Sprint(v["value"]))
			}
			for _, x := range v {
				walk(x)
			}
		}
	}
	var all any
	if json.Unmarshal(blocks, &all) == nil {
		walk(all)
	}
	return ids
}
