package approval_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/approval"
)

// modelCall is a call of the model: one tool, of which the recipient, the amount and the session differ.
type modelCall struct {
	to, n, session string
}

func (c modelCall) args() string { return fmt.Sprintf(`{"n":%s,"to":"%s"}`, c.n, c.to) }

type modelRequest struct {
	id       string
	call     modelCall
	status   string // pending, approved, over
	risk     approval.Risk
	tool     int
	changed  bool // approving it accepts the tool
	ends     time.Time
	approver string
	at       time.Time // when it was approved
}

type modelGrant struct {
	id, request, maker string
	deny               bool
	call               modelCall
	session            string
	rule, tool         int
	varies             bool
	risk               approval.Risk
	made, ends         time.Time
	uses, used         int
	spent              int // tenths
	unknown            int
	suspended          time.Time
	over               bool
}

// model says of each call what it must be answered with.
type model struct {
	now      func() time.Time
	requests []*modelRequest
	grants   []*modelGrant
	denied   map[string]*modelDenial // by args
	running  map[string]*modelGrant  // by the use's id
	outcomes map[string]approval.RunResult

	// the policy, the people and the tool as they are
	deny, grantable, varies bool
	rule                    int
	risk                    approval.Risk
	approvers               map[string]bool
	tool, pinned            int
	earlier                 map[int]bool // states of the tool that were pinned before, and hold too
	pinnedAt                time.Time
}

type modelDenial struct {
	request, by string
	at          time.Time
}

func (m *model) verdict() approval.Verdict {
	v := quarantine(m.risk)
	v.RuleDigest = fmt.Sprint("rule ", m.rule)
	if m.grantable && m.risk != approval.RiskCritical {
		v.Grants = &approval.GrantTerms{}
		if m.varies {
			v.Grants.Vary = map[string]approval.Vary{"n": {AtMost: "1", Total: "2"}}
		}
	}
	if m.deny {
		v.Action, v.Grants = approval.Deny, nil
	}
	return v
}

func tenths(n string) int {
	return map[string]int{"0": 0, "0.5": 5, "5e-1": 5, "1": 10, "1.1": 11, `"1"`: -1}[n]
}

// settle ends what time has ended.
func (m *model) settle() {
	for _, r := range m.requests {
		if r.status != "over" && !m.now().Before(r.ends) {
			r.status = "over"
		}
	}
	for _, g := range m.grants {
		g.over = g.over || !m.now().Before(g.ends)
	}
}

func (m *model) live(args string) *modelRequest {
	for _, r := range m.requests {
		if r.status != "over" && r.call.args() == args {
			return r
		}
	}
	return nil
}

func (m *model) covers(g *modelGrant, c modelCall) bool {
	if g.session != "" && g.session != c.session {
		return false
	}
	if !g.varies {
		return g.call.args() == c.args()
	}
	n := tenths(c.n)
	return g.call.to == c.to && n >= 0 && n <= 10 && g.spent+n <= 20
}

// grant returns the grant that lets a call through, and ends those that the call shows to be over.
func (m *model) grant(c modelCall) (use *modelGrant) {
	changed := m.changed()
	var suspended time.Time
	for _, g := range slices.Backward(m.grants) {
		switch {
		case g.deny || g.over || !m.covers(g, c):
		case changed || !m.sameTool(g.tool, g.made), g.rule != m.rule || m.verdict().Grants == nil ||
			m.risk.Rank() > g.risk.Rank(),
			!m.approvers[g.maker]:
			g.over = true
		case !g.suspended.IsZero():
			suspended = maxTime(suspended, g.suspended)
		case use == nil:
			use = g
		}
	}
	if use == nil || !use.made.After(suspended) {
		return nil
	}
	return use
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// answer says what a call is answered with. use is the grant that lets it through.
func (m *model) answer(c modelCall) (kind approval.AnswerKind, use *modelGrant) {
	m.settle()
	if m.deny {
		return approval.AnswerDenied, nil
	}
	for _, g := range slices.Backward(m.grants) {
		if g.deny && !g.over && g.call.args() == c.args() && (g.session == "" || g.session == c.session) {
			g.used++
			g.over = g.used == g.uses
			return approval.AnswerDenied, nil
		}
	}
	changed := m.changed()
	risk := m.risk
	if changed && risk.Rank() < approval.RiskHigh.Rank() {
		risk = approval.RiskHigh
	}
	live := m.live(c.args())
	if live != nil && live.status == "approved" {
		live.status = "over"
		if m.sameTool(live.tool, live.at) && risk.Rank() <= live.risk.Rank() && m.approvers[live.approver] {
			delete(m.denied, c.args())
			m.pin()
			return approval.AnswerApproved, nil
		}
		live = nil
	}
	if d := m.denied[c.args()]; live == nil && d != nil && m.now().Sub(d.at) < terms.RememberDenial {
		return approval.AnswerDenied, nil
	}
	if use = m.grant(c); use != nil {
		if live != nil {
			live.status = "over"
		}
		use.used++
		use.over = use.used == use.uses
		if use.varies {
			use.spent += tenths(c.n)
		}
		m.pin()
		return approval.AnswerAllow, use
	}
	if live == nil {
		delete(m.denied, c.args())
		m.requests = append(m.requests, &modelRequest{call: c, status: "pending", risk: risk, tool: m.tool, changed: changed,
			ends: m.now().Add(time.Hour)})
	}
	m.pin()
	return approval.AnswerPending, nil
}

func (m *model) changed() bool { return m.pinned != 0 && m.pinned != m.tool && !m.earlier[m.tool] }

// sameTool reports whether what was decided of a state of the tool holds for the one of now: both were known before.
func (m *model) sameTool(decided int, at time.Time) bool {
	known := func(tool int) bool { return tool == m.pinned || m.earlier[tool] }
	return decided == m.tool || known(decided) && known(m.tool) && m.pinnedAt.Before(at)
}

// pin puts a tool on record that was not seen before.
func (m *model) pin() {
	if m.pinned == 0 {
		m.pinned, m.pinnedAt = m.tool, m.now()
	}
}

// modelled is the gate beside its model.
type modelled struct {
	*world
	m    *model
	sync func() // has the gate's people be the model's
}

func newModelled(t *testing.T) *modelled {
	d := &modelled{world: newWorld(t)}
	d.m = &model{now: d.clock.Now, denied: map[string]*modelDenial{}, running: map[string]*modelGrant{},
		outcomes: map[string]approval.RunResult{}, earlier: map[int]bool{}, grantable: true, rule: 1,
		risk: approval.RiskMedium, tool: 1,
		approvers: map[string]bool{"hana": true, "ken": true}}
	p := &people{}
	d.sync = func() {
		p.mere = slices.DeleteFunc([]string{"hana", "ken"}, func(name string) bool { return d.m.approvers[name] })
	}
	d.governedBy(p, func(approval.Call) approval.Verdict { return d.m.verdict() })
	return d
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func second[T any](_ T, err error) error { return err }

func (d *modelled) call(c modelCall) approval.Call {
	is := call(c.args())
	is.Server, is.ToolDigest, is.ToolSeen = "bank", strings.Repeat(fmt.Sprint(d.m.tool), 64), true
	is.SessionID, is.Dispatch = c.session, true
	return is
}

func (d *modelled) checks(rt *rapid.T, c modelCall) {
	before := len(d.m.requests)
	want, use := d.m.answer(c)
	got, err := d.gate.Check(d.ctx, d.call(c))
	if err != nil {
		rt.Fatal(err)
	}
	if got.Kind != want || use != nil && (got.Grant == nil || got.Grant.ID != use.id || got.RunID == "") {
		rt.Fatalf("%s in %q: got %s (%s), want %s", c.args(), c.session, got.Kind, got.Message, want)
	}
	if use != nil {
		d.m.running[got.RunID] = use
	}
	if len(d.m.requests) > before {
		d.m.requests[before].id = got.Request.ID
	}
}

func (d *modelled) decides(rt *rapid.T, r *modelRequest, approve bool, by approval.Actor, wish *approval.GrantWish) {
	d.m.settle()
	want := approval.Code("")
	v := d.m.verdict()
	switch {
	case !d.m.approvers[by.Name]:
		want = approval.CodeNotAnApprover
	case r.status == "over" && d.request(r.id).Status == approval.Expired:
		want = approval.CodeExpired
	case r.status != "pending":
		want = approval.CodeAlreadyResolved
	case wish != nil && wish.Session && r.call.session == "":
		want = approval.CodeGrantRefused
	case wish != nil && approve && (v.Grants == nil || r.risk == approval.RiskCritical):
		want = approval.CodeGrantRefused
	}
	_, err := d.gate.Decide(d.ctx, approval.Decision{RequestID: r.id, Approve: approve, By: by, Via: approval.ViaAPI,
		Grant: wish})
	if got := approval.CodeOf(err); got != want {
		rt.Fatalf("deciding %s: got %q (%v), want %q", r.call.args(), got, err, want)
	}
	if want != "" {
		return
	}
	d.m.decided(r, approve, by.Name)
	if wish != nil {
		d.m.made(r, approve, by.Name, wish).id = d.grantOf(r.id).ID
	}
}

func (m *model) decided(r *modelRequest, approve bool, by string) { //nolint:revive // flag-parameter: it is the word
	if !approve {
		r.status = "over"
		m.denied[r.call.args()] = &modelDenial{request: r.id, by: by, at: m.now()}
		return
	}
	r.status, r.approver, r.at, r.ends = "approved", by, m.now(), m.now().Add(terms.UseWithin)
	if r.changed && r.tool != m.pinned && !m.earlier[r.tool] {
		m.earlier[m.pinned] = true
		m.pinned, m.pinnedAt = r.tool, m.now()
	}
}

func (m *model) made(r *modelRequest, approve bool, by string, w *approval.GrantWish) *modelGrant {
	g := &modelGrant{request: r.id, maker: by, deny: !approve, call: r.call, rule: m.rule, tool: r.tool, risk: r.risk,
		varies: approve && m.varies, made: m.now(), ends: m.now().Add(24 * time.Hour), uses: w.Uses}
	if m.risk.Rank() > g.risk.Rank() {
		g.risk = m.risk
	}
	if w.For > 0 {
		g.ends = m.now().Add(w.For)
	}
	if w.Session {
		g.session = r.call.session
	}
	m.grants = append(m.grants, g)
	return g
}

func (d *modelled) report(rt *rapid.T, use string, ran approval.RunResult) {
	m, g, was := d.m, d.m.running[use], d.m.outcomes[use]
	_, err := d.gate.Report(d.ctx, bot, use, ran)
	if ok := was == ran || was == "" || was == approval.RunUnknown; ok != (err == nil) {
		rt.Fatalf("reporting %s after %q: %v", ran, was, err)
	} else if !ok || was == ran {
		return
	}
	m.outcomes[use] = ran
	switch {
	case ran == approval.RunUnknown:
		if g.unknown++; g.suspended.IsZero() {
			g.suspended = m.now()
		}
	case was == approval.RunUnknown:
		if g.unknown--; g.unknown == 0 {
			g.suspended = time.Time{}
		}
	}
}

func (d *modelled) freezeAll(agent string) {
	d.m.settle()
	d.clock.advance(time.Millisecond)
	d.freeze(agent, root, "stop")
	d.unfreeze(agent)
	for _, r := range d.m.requests {
		r.status = "over"
	}
	for _, g := range d.m.grants {
		g.over = g.over || !g.deny
	}
}

func (d *modelled) revoke(rt *rapid.T, g *modelGrant, by approval.Actor) {
	d.m.settle()
	want := approval.Code("")
	switch {
	case !by.Admin && by.Name != g.maker:
		want = approval.CodeNotAdmin
	case g.over:
		want = approval.CodeAlreadyResolved
	}
	if _, err := d.gate.Revoke(d.ctx, by, approval.ViaAPI, g.id); approval.CodeOf(err) != want {
		rt.Fatalf("revoking: %v, want %q", err, want)
	}
	g.over = g.over || want == ""
}

func (d *modelled) lift(rt *rapid.T, args string) {
	m := d.m
	m.settle()
	den := m.denied[args]
	recent := m.now().Sub(den.at) < terms.RememberDenial
	want := approval.CodeAlreadyResolved
	for _, g := range m.grants {
		if g.deny && !g.over && g.request == den.request {
			g.over, want = true, ""
		}
	}
	if recent {
		want = ""
	}
	if err := d.gate.Lift(d.ctx, root, approval.ViaAPI, den.request); approval.CodeOf(err) != want {
		rt.Fatalf("lifting: %v, want %q", err, want)
	}
	if want == "" && recent {
		delete(m.denied, args)
	}
}

// Whatever happens in whatever order, each call is let through, asked about or denied as the model says.
func TestGrantsAreAsTheirModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newModelled(t)
		defer d.db.Close()
		m := d.m
		calls := rapid.Custom(func(t *rapid.T) modelCall {
			return modelCall{
				to: rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "to"), n: rapid.SampledFrom([]string{"0.5", "0.5", "1",
					"5e-1", "1.1", `"1"`}).Draw(t, "n"),
				session: rapid.SampledFrom([]string{"", "s1", "s1"}).Draw(t, "session"),
			}
		})
		people := rapid.SampledFrom([]approval.Actor{hana, ken})
		again := func(rt *rapid.T) {
			if len(m.grants) == 0 {
				rt.Skip()
			}
			c := m.grants[len(m.grants)-1].call
			if rapid.IntRange(0, 2).Draw(rt, "other") == 0 {
				c = rapid.SampledFrom(m.grants).Draw(rt, "grant").call
				c.n = calls.Draw(rt, "like").n
			}
			d.checks(rt, c)
		}
		seldom := func(rt *rapid.T) {
			if rapid.IntRange(0, 2).Draw(rt, "seldom") > 0 {
				rt.Skip()
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"check":  func(rt *rapid.T) { d.checks(rt, calls.Draw(rt, "call")) },
			"again":  again,
			"again2": again,
			"again3": again,
			"grant": func(rt *rapid.T) {
				c := calls.Draw(rt, "call")
				d.checks(rt, c)
				r := m.live(c.args())
				if r == nil || r.status != "pending" {
					return
				}
				wish := &approval.GrantWish{For: rapid.SampledFrom([]time.Duration{2 * time.Hour, 24 * time.Hour}).Draw(rt, "for")}
				d.decides(rt, r, true, people.Draw(rt, "by"), wish)
				d.checks(rt, c)
				again(rt)
			},
			"decide": func(rt *rapid.T) {
				if len(m.requests) == 0 {
					rt.Skip()
				}
				r := rapid.SampledFrom(m.requests[max(0, len(m.requests)-3):]).Draw(rt, "request")
				var wish *approval.GrantWish
				if rapid.IntRange(0, 3).Draw(rt, "wish") > 0 {
					wish = &approval.GrantWish{
						For:  rapid.SampledFrom([]time.Duration{0, time.Hour, 24 * time.Hour}).Draw(rt, "for"),
						Uses: rapid.IntRange(1, 4).Draw(rt, "uses"), Session: rapid.IntRange(0, 4).Draw(rt, "session") == 0,
					}
				}
				d.decides(rt, r, rapid.IntRange(0, 3).Draw(rt, "approve") > 0, people.Draw(rt, "by"), wish)
			},
			"time": func(*rapid.T) {
				d.clock.advance(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Minute, 10 * time.Minute,
					time.Hour}).Draw(rt, "time"))
			},
			"policy": func(rt *rapid.T) {
				seldom(rt)
				m.settle()
				switch m.rule++; rapid.IntRange(0, 5).Draw(rt, "what") {
				case 0:
					m.rule, m.deny = m.rule-1, !m.deny // as by another rule before it
				case 1:
					m.grantable = !m.grantable
				case 2:
					m.varies = !m.varies
				case 3:
					m.risk = rapid.SampledFrom([]approval.Risk{approval.RiskMedium, approval.RiskHigh, approval.RiskCritical}).Draw(rt,
						"risk")
				}
			},
			"people": func(rt *rapid.T) {
				seldom(rt)
				who := people.Draw(rt, "who").Name
				m.approvers[who] = !m.approvers[who]
				d.sync()
			},
			"tool": func(rt *rapid.T) {
				seldom(rt)
				m.tool = rapid.IntRange(1, 2).Draw(rt, "tool")
			},
			"freeze": func(rt *rapid.T) {
				seldom(rt)
				d.freezeAll(rapid.SampledFrom([]string{"", "bot"}).Draw(rt, "agent"))
			},
			"report": func(rt *rapid.T) {
				if len(m.running) == 0 {
					rt.Skip()
				}
				use := rapid.SampledFrom(sorted(m.running)).Draw(rt, "use")
				d.report(rt, use, rapid.SampledFrom([]approval.RunResult{approval.RunUnknown, approval.RunUnknown,
					approval.RunSucceeded}).Draw(rt, "ran"))
			},
			"revoke": func(rt *rapid.T) {
				if len(m.grants) == 0 {
					rt.Skip()
				}
				d.revoke(rt, rapid.SampledFrom(m.grants).Draw(rt, "grant"), rapid.SampledFrom([]approval.Actor{root, hana,
					ken}).Draw(rt, "by"))
			},
			"lift": func(rt *rapid.T) {
				if len(m.denied) == 0 {
					rt.Skip()
				}
				d.lift(rt, rapid.SampledFrom(sorted(m.denied)).Draw(rt, "args"))
			},
			"upkeep": func(rt *rapid.T) {
				for _, err := range []error{second(d.gate.Forget(d.ctx)), second(d.gate.EndFrozen(d.ctx)),
					second(d.gate.Expire(d.ctx))} {
					if err != nil {
						rt.Fatal(err)
					}
				}
			},
		})
	})
}
