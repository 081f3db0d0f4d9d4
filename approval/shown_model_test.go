package approval_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
	"countersign/approval/args"
)

// Whoever asks, alone or among others, for whichever words that the rule ignores, and whatever a person approves, changes
// or gives for longer: what runs is to the byte what a person saw when they said yes, and once for each yes.
func TestRule3_WhatRunsIsToTheByteWhatWasShown(t *testing.T) {
	w, rounds := newIgnoring(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		rounds++
		(&shownModel{rt: rt, w: w, agent: fmt.Sprint("bot", rounds), cards: map[string]string{},
			approved: map[string]string{}, granted: map[string]bool{}}).run()
	})
}

type shownModel struct {
	rt       *rapid.T
	w        *world
	agent    string
	ids      []string          // of requests that people were asked about
	cards    map[string]string // the args of each, as they were shown first
	approved map[string]string // by request: the args that a person saw when they said yes, until they ran
	granted  map[string]bool   // args that may run for longer
}

func (m *shownModel) run() {
	m.rt.Repeat(map[string]func(*rapid.T){
		"ask": m.ask, "ask among others": m.askAmong, "approve": m.approve, "edit": m.edit, "grant": m.grant, "deny": m.deny,
		"time": func(rt *rapid.T) {
			m.w.clock.advance(time.Duration(rapid.IntRange(1, 20).Draw(rt, "minutes")) * time.Minute)
		},
	})
}

// draw is one of a few args, of which some differ in what is ignored alone.
func (m *shownModel) draw(rt *rapid.T) string {
	return rapid.SampledFrom([]string{
		`{"memo":"a","n":1}`, `{"memo":"b","n":1}`, `{"n":1}`, `{"memo":["a"],"n":1}`, `{"memo":"a","n":2}`, `{"memo":"b","n":2}`,
	}).Draw(rt, "args")
}

func (m *shownModel) call(rt *rapid.T) approval.Call {
	c := call(m.draw(rt))
	c.Agent, c.AcceptsEdits = m.agent, rapid.Bool().Draw(rt, "runs the stored args")
	return c
}

func (m *shownModel) ask(rt *rapid.T) {
	c := m.call(rt)
	o, err := m.w.gate.Check(m.w.ctx, c)
	if err != nil {
		rt.Fatal(err)
	}
	m.judge(&c, &o)
}

func (m *shownModel) askAmong(rt *rapid.T) {
	cs := []approval.Call{m.call(rt), m.call(rt), m.call(rt)}
	os, err := m.w.gate.CheckBatch(m.w.ctx, cs)
	if err != nil {
		rt.Fatal(err)
	}
	for i := range os {
		m.judge(&cs[i], &os[i])
	}
}

// judge looks at what an answer has run.
func (m *shownModel) judge(c *approval.Call, o *approval.Answer) {
	runs := string(c.Args.Canonical())
	switch o.Kind {
	case approval.AnswerPending:
		id, shows := o.Request.ID, string(o.Request.Args)
		if was, ok := m.cards[id]; ok && was != shows {
			m.rt.Fatalf("%s was shown as %s and is %s", id, was, shows)
		}
		if m.cards[id] = shows; !slices.Contains(m.ids, id) {
			m.ids = append(m.ids, id)
		}
	case approval.AnswerApproved:
		if c.AcceptsEdits {
			if runs = string(o.Request.Args); o.Args != nil {
				runs = string(o.Args)
			}
		}
		saw, ok := m.approved[o.Request.ID]
		if delete(m.approved, o.Request.ID); !ok || saw != runs {
			m.rt.Fatalf("%s runs, and a person said yes to %q", runs, saw)
		}
	case approval.AnswerAllow:
		if !m.granted[runs] {
			m.rt.Fatalf("%s runs by a grant that is for others: %v", runs, m.granted)
		}
	}
}

// decide says something to one of the requests, and returns what became of it; "" where it was refused.
func (m *shownModel) decide(rt *rapid.T, change func(d *approval.Decision)) (r approval.Request, shown string) {
	if len(m.ids) == 0 {
		return r, ""
	}
	id := rapid.SampledFrom(m.ids).Draw(rt, "request")
	shown = string(m.w.request(id).Args)
	d := approval.Decision{RequestID: id, Approve: true, By: hana, Via: approval.ViaAPI}
	change(&d)
	r, err := m.w.gate.Decide(m.w.ctx, d)
	switch approval.CodeOf(err) {
	case "":
		if err != nil {
			rt.Fatal(err)
		}
		return r, shown
	case approval.CodeAlreadyResolved, approval.CodeExpired, approval.CodeInvalidArgs, approval.CodeGrantRefused:
		return approval.Request{}, ""
	}
	rt.Fatal(err)
	return r, ""
}

func (m *shownModel) approve(rt *rapid.T) {
	if r, shown := m.decide(rt, func(*approval.Decision) {}); shown != "" {
		m.approved[r.ID] = shown
	}
}

func (m *shownModel) deny(rt *rapid.T) { m.decide(rt, func(d *approval.Decision) { d.Approve = false }) }

func (m *shownModel) grant(rt *rapid.T) {
	wish := approval.GrantWish{For: time.Hour}
	if r, shown := m.decide(rt, func(d *approval.Decision) { d.Grant = &wish }); shown != "" {
		m.approved[r.ID], m.granted[shown] = shown, true
	}
}

func (m *shownModel) edit(rt *rapid.T) {
	raw := m.draw(rt)
	a, err := args.Parse([]byte(raw))
	if err != nil {
		rt.Fatal(err)
	}
	if r, shown := m.decide(rt, func(d *approval.Decision) { d.Args = &a }); shown != "" {
		m.approved[r.ID] = raw
	}
}
