package campaign_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"countersign/internal/campaign"
	"countersign/internal/emulator"
)

// person is somebody who decides, on whichever way.
type person struct {
	*world
	ctx  context.Context
	r    *rand.Rand
	name string

	browser browser
}

func (p *person) act() {
	type action struct {
		op    string
		often int
		do    func(k *known)
	}
	actions := []action{
		{"", 9, p.say},
		{"line", 4, p.pressLINE},
		{"slack", 3, p.pressSlack},
		{"typed", 2, p.typed},
		{"edit", 2, func(k *known) { p.edit(k) }},
		{"grant", 6, func(k *known) { p.grant(k) }},
		{"revoke", 1, func(*known) { p.revoke() }},
		{"extend", 1, func(k *known) { p.extend(k) }},
		{"cancel", 1, func(k *known) { p.take(k, p.name) }},
		{"page", 5, p.onPage},
		{"delegate", 3, func(*known) { p.delegate() }},
		{"many", 1, func(*known) { p.many() }},
		{"strangers", 3, p.forge},
		{"", 3, func(k *known) { p.readAs(k, p.name) }},
	}
	k := p.pick(p.r)
	n := p.r.IntN(44)
	for _, x := range actions {
		if n -= x.often; n < 0 {
			if k != nil && (x.op == "" || p.plan.has(x.op)) {
				x.do(k)
			}
			return
		}
	}
}

// decision is what a person says of a request over /v1.
type decision struct {
	approve, confirmed bool
	reason, args       string
	grant              map[string]any
}

func (p *person) draw() decision {
	d := decision{approve: p.r.IntN(5) > 0, confirmed: p.r.IntN(2) == 0}
	if p.r.IntN(2) == 0 {
		d.reason = "as agreed"
	}
	return d
}

// say decides over /v1. Whoever stands in for the person may say the same right after, for them.
func (p *person) say(k *known) {
	d := p.draw()
	voted := p.decide(k, p.name, d).Answer.Status == "pending"
	p.mu.Lock()
	standIn := p.standIn[p.name]
	p.mu.Unlock()
	if voted && standIn != "" {
		p.decide(k, standIn, d)
	}
}

// decide sends a decision over /v1.
func (w *world) decide(k *known, who string, d decision) *campaign.Op {
	o := &campaign.Op{Kind: campaign.Decide, Way: "rest", Who: who, ID: k.id, Approve: d.approve, Confirmed: d.confirmed,
		Reason: d.reason, NewArgs: d.args, Grants: d.grant != nil}
	body := map[string]any{"decision": "deny", "reason": d.reason, "confirmed": d.confirmed}
	if d.approve {
		body["decision"] = "approve"
	}
	if d.args != "" {
		body["args"] = json.RawMessage(d.args)
	}
	if d.grant != nil {
		body["grant"] = d.grant
	}
	text := w.ask(context.Background(), o, who, http.MethodPost, "/v1/approvals/"+k.id+"/decide", body)
	if text != nil {
		w.readDecided(o, text)
	}
	w.note(o)
	if o.NewArgs != "" && o.Answer.ID != "" {
		w.learn(&known{id: o.Answer.ID, agent: k.agent, tool: k.tool, args: d.args})
	}
	if d.grant != nil && o.Answer.Status == "approved" {
		w.allow(*k)
	}
	return o
}

func (w *world) readDecided(o *campaign.Op, text []byte) {
	var is struct {
		ID, Status string
		Grant      *campaign.Grant
	}
	if err := json.Unmarshal(text, &is); err != nil {
		w.t.Errorf("a decision that is none: %s", text)
	}
	o.Answer.Status = is.Status
	if o.NewArgs != "" {
		o.Answer.ID = is.ID
	}
	if is.Grant != nil {
		w.mu.Lock()
		w.grants = append(w.grants, is.Grant.ID)
		w.mu.Unlock()
	}
}

// many decides several requests with one press.
func (p *person) many() {
	var ids []string
	for range 3 {
		if k := p.pick(p.r); k != nil && !strings.Contains(strings.Join(ids, " "), k.id) {
			ids = append(ids, k.id)
		}
	}
	var whole campaign.Op
	text := p.ask(p.ctx, &whole, p.name, http.MethodPost, "/v1/approvals/decide",
		map[string]any{"ids": ids, "decision": "approve", "reason": "all"})
	var all struct {
		Results []struct{ ID, Status, Code string }
	}
	if text != nil && (json.Unmarshal(text, &all) != nil || len(all.Results) != len(ids)) {
		p.t.Errorf("an answer to decisions that is none: %s", text)
	}
	for i, id := range ids {
		o := whole
		o.Kind, o.Way, o.Who, o.ID, o.Approve, o.Reason = campaign.Decide, "many", p.name, id, true, "all"
		if text != nil {
			o.Answer.Status, o.Code = all.Results[i].Status, all.Results[i].Code
		}
		if o.Code != "" {
			o.Status, o.Answer.Status = http.StatusConflict, ""
		}
		p.note(&o)
	}
}

// edit approves other arguments.
func (p *person) edit(k *known) {
	if k.tool == "brief" || k.tool == "read" {
		return
	}
	args := strings.Replace(k.args, `"n":`, `"n":9`, 1)
	p.decide(k, p.name, decision{approve: true, confirmed: true, reason: "rather this", args: args})
}

// grant approves for longer: for a while, or for so many uses.
func (p *person) grant(k *known) {
	for range 30 { // one of those that can be
		other := k.tool == "pay" || k.tool == "put"
		if !p.isOver(k) && (k.tool == "spend" || other && p.r.IntN(2) == 0) {
			break
		}
		k = p.pick(p.r)
	}
	terms := map[string]any{"for": "1h", "uses": 1 + p.r.IntN(2)}
	switch p.r.IntN(4) {
	case 0:
		terms = map[string]any{"for": "2s"}
	case 1, 2:
		terms = map[string]any{"for": "8h"}
	}
	p.decide(k, p.name, decision{approve: true, reason: "for longer", grant: terms})
}

func (p *person) revoke() {
	p.mu.Lock()
	n, id := len(p.grants), ""
	if n > 0 && p.r.IntN(3) == 0 {
		id = p.grants[p.r.IntN(n)]
	}
	p.mu.Unlock()
	if id == "" {
		return
	}
	o := &campaign.Op{Kind: campaign.Revoke, Way: "rest", Who: p.name, ID: id}
	p.ask(p.ctx, o, p.name, http.MethodDelete, "/v1/grants/"+id, nil)
	p.note(o)
}

func (p *person) extend(k *known) {
	o := &campaign.Op{Kind: campaign.Extend, Way: "rest", Who: p.name, ID: k.id}
	if text := p.ask(p.ctx, o, p.name, http.MethodPost, "/v1/approvals/"+k.id+"/extend", map[string]any{}); text != nil {
		p.readState(o, text)
	}
	p.note(o)
}

// freeze freezes an agent, or all, and lifts that a moment later.
func (w *world) freeze(r *rand.Rand) {
	agent := append([]string{""}, agentNames...)[r.IntN(4)]
	who := []string{"hana", "ken"}[r.IntN(2)]
	o := &campaign.Op{Kind: campaign.Freeze, Way: "rest", Who: who, Agent: agent}
	body := map[string]any{"reason": "enough"}
	if agent != "" {
		body["agent"] = agent
	}
	w.ask(context.Background(), o, who, http.MethodPost, "/v1/freeze", body)
	w.note(o)
	w.pause(r, 400*time.Millisecond)
	for range 4 { // else a lost answer would end all that this agent could do
		if w.unfreeze(agent).Made() || w.halt.Load() {
			return
		}
	}
}

func (w *world) unfreeze(agent string) *campaign.Op {
	o := &campaign.Op{Kind: campaign.Unfreeze, Way: "rest", Who: "hana", Agent: agent}
	path := "/v1/freeze"
	if agent != "" {
		path += "?agent=" + agent
	}
	w.ask(context.Background(), o, "hana", http.MethodDelete, path, nil)
	w.note(o)
	return o
}

// press is the operation of a press, or of typed words.
func (p *person) press(way string, k *known, approve bool) *campaign.Op {
	return &campaign.Op{Kind: campaign.Decide, Way: way, Who: p.name, ID: k.id, Approve: approve,
		Start: time.Since(p.began)}
}

// delivered ends the operation of a webhook that was posted.
func (p *person) delivered(o *campaign.Op, d emulator.Delivery, err error) {
	if err != nil || d.Status == 0 {
		o.Fault = fmt.Sprint(err)
	} else if o.Answered, o.Status = true, d.Status; d.Status/100 != 2 {
		o.Code = fmt.Sprint("status ", d.Status)
	}
	p.note(o)
}

// onLINE and onSlack are who the configuration knows there.
var (
	onLINE  = []string{"hana", "mei", "rio", "leo"}
	onSlack = []string{"hana", "ken", "mei", "mio"}
)

func isOn(platform []string, name string) bool { return slices.Contains(platform, name) }

func verb(approve bool) string { return map[bool]string{true: "approve", false: "deny"}[approve] }

// pressLINE presses a button, and if webhooks fail has LINE send it twice, or after the one that came later.
func (p *person) pressLINE(k *known) {
	if !isOn(onLINE, p.name) {
		return
	}
	o := p.press("line", k, p.r.IntN(5) > 0)
	o.Pressed = true
	event, err := p.chat.LINE.PostbackEvent(p.name, "action="+verb(o.Approve)+"&id="+k.id)
	if err != nil {
		p.t.Error(err)
		return
	}
	twisted := slices.Contains(p.plan.faults, "webhooks")
	if other := p.pick(p.r); twisted && p.r.IntN(4) == 0 && other != nil && other.id != k.id {
		p.faulted("webhooks")
		p.pressLINE(other) // which was pressed later, and comes first
	}
	d, err := p.chat.LINE.Post(p.ctx, emulator.LINEPost{Events: []emulator.Object{event}, NoRedelivery: true})
	if err == nil && d.Status/100 != 2 && p.r.IntN(2) == 0 {
		d, err = p.chat.Resend(p.ctx, d)
	}
	p.delivered(o, d, err)
	if twisted && err == nil && p.r.IntN(2) == 0 {
		p.faulted("webhooks")
		again := *o
		again.Pressed, again.Start = false, time.Since(p.began)
		again.Answered, again.Code = false, ""
		d, err = p.chat.Resend(p.ctx, d)
		p.delivered(&again, d, err)
	}
}

// card finds the message in Slack that has a request's buttons: in the channel, or what a person was sent alone.
func (p *person) card(id string) (place, ts string) {
	for _, place := range []string{room, p.name} {
		if place != room && !isOn(onSlack, place) {
			continue
		}
		all := p.chat.Slack.Messages(place)
		for i := len(all) - 1; i >= 0; i-- {
			if strings.Contains(string(all[i].Blocks), id) {
				return place, all[i].TS
			}
		}
	}
	return room, ""
}

func (p *person) pressSlack(k *known) {
	place, ts := p.card(k.id)
	if ts == "" || !isOn(onSlack, p.name) {
		return
	}
	o := p.press("slack", k, true)
	payload, err := p.chat.Slack.BlockActions(p.name, place, ts, "approve", k.id)
	if err != nil {
		p.t.Error(err)
		return
	}
	d, err := p.chat.Slack.Post(p.ctx, emulator.SlackPost{Payload: payload})
	p.delivered(o, d, err)
}

func (p *person) typed(k *known) {
	if !isOn(onLINE, p.name) {
		return
	}
	o := p.press("typed", k, p.r.IntN(3) > 0)
	text := verb(o.Approve) + " " + k.id
	if !o.Approve {
		o.Reason = "no"
		text += " no"
	}
	event, err := p.chat.LINE.TextEvent(p.name, text, "")
	if err != nil {
		p.t.Error(err)
		return
	}
	d, err := p.chat.LINE.Post(p.ctx, emulator.LINEPost{Events: []emulator.Object{event}, NoRedelivery: true})
	p.delivered(o, d, err)
}

// forge is somebody who posts what the platform has not sent: with another secret, without a signature, or as if it
// were pressed by a person who has nothing to do with it.
func (p *person) forge(k *known) {
	none := ""
	p.faulted("webhooks")
	o := p.press([]string{"line", "slack"}[p.r.IntN(2)], k, true)
	o.Forged = true
	if o.Way == "line" {
		event, err := p.chat.LINE.PostbackEvent(p.name, "action=approve&id="+k.id)
		if err != nil {
			p.t.Error(err)
			return
		}
		post := emulator.LINEPost{Events: []emulator.Object{event}, Secret: "not the channel's secret", NoRedelivery: true}
		if p.r.IntN(3) == 0 {
			post.Signature = &none
		}
		d, err := p.chat.LINE.Post(p.ctx, post)
		p.delivered(o, d, err)
		return
	}
	place, ts := p.card(k.id)
	payload, err := p.chat.Slack.BlockActions(p.name, place, ts, "approve", k.id)
	if err != nil {
		p.t.Error(err)
		return
	}
	post := emulator.SlackPost{Payload: payload, Secret: "not the signing secret"}
	if p.r.IntN(3) == 0 {
		post.Signature = &none
	}
	d, err := p.chat.Slack.Post(p.ctx, post)
	p.delivered(o, d, err)
}
