package approval

import (
	"strings"
	"testing"
	"time"
)

// Rule 2.4: whether an approval may be used is one function; each of its cases is here.
func TestRule4_MayThisApprovalBeUsed(t *testing.T) {
	const digest, other = "d1", "d2"
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	key := Key{Agent: "bot", Tool: "pay", ArgsHash: "h"}
	approved := func(change func(*Request)) Request {
		r := Request{Agent: key.Agent, Tool: key.Tool, ArgsHash: key.ArgsHash, Args: []byte("{}"), Risk: RiskMedium,
			Status: Approved, UseBy: noon.Add(time.Minute)}
		if change != nil {
			change(&r)
		}
		return r
	}
	status := func(s Status) Request { return approved(func(r *Request) { r.Status = s }) }
	of := func(digest string) Request { return approved(func(r *Request) { r.ToolDigest = digest }) }
	ask := func(risk Risk) Verdict { return Verdict{Action: Quarantine, Risk: risk} }
	shown := approved(func(r *Request) { r.Args = []byte(`{"memo":"x"}`) }) // the call has no memo
	observed := func(v Verdict) Verdict { v.Observe = true; return v }

	for _, c := range []struct {
		name    string
		r       Request
		v       Verdict
		digest  string // of the call's tool
		changed bool
		key     Key // where it is not the request's
		short   bool
		edits   bool // its caller takes the approved args in place of its own
		want    usability
	}{
		{name: "approved, asked for at the same risk", r: approved(nil), v: ask(RiskMedium)},
		{name: "asked for at a lower risk", r: approved(nil), v: ask(RiskLow)},
		{name: "allowed by policy meanwhile", r: approved(nil), v: Verdict{Action: Allow}},
		{name: "one millisecond before its use_by", r: approved(func(r *Request) { r.UseBy = noon.Add(time.Millisecond) }),
			v: ask(RiskLow)},

		{name: "pending", r: status(Pending), v: ask(RiskLow), want: unusable},
		{name: "denied by a person", r: status(Denied), v: ask(RiskLow), want: unusable},
		{name: "expired", r: status(Expired), v: ask(RiskLow), want: unusable},
		{name: "cancelled", r: status(Cancelled), v: ask(RiskLow), want: unusable},
		{name: "of no known status", r: status("?"), v: ask(RiskLow), want: unusable},
		{name: "used", r: approved(func(r *Request) { r.ConsumedAt = noon }), v: ask(RiskLow), want: unusable},
		{name: "lapsed", r: approved(func(r *Request) { r.LapsedAt = noon }), v: ask(RiskLow), want: unusable},
		{name: "at its use_by, nobody has ended it yet", r: approved(func(r *Request) { r.UseBy = noon }), v: ask(RiskLow),
			want: unusable},
		{name: "not approved, and allowed by policy", r: status(Pending), v: Verdict{Action: Allow}, want: unusable},
		{name: "not approved, in observe mode", r: status(Pending), v: observed(ask(RiskLow)), want: unusable},

		{name: "denied by policy meanwhile", r: approved(nil), v: Verdict{Action: Deny}, want: deniedNow},
		{name: "deny wins over a changed tool", r: of(other), v: Verdict{Action: Deny}, digest: digest, changed: true,
			want: deniedNow},
		{name: "an action that nobody knows denies", r: approved(nil), v: Verdict{Action: "?"}, want: deniedNow},
		{name: "no action denies", r: approved(nil), v: Verdict{}, want: deniedNow},

		{name: "a higher risk", r: approved(nil), v: ask(RiskHigh), want: policyChanged},
		{name: "other args are ignored now: another key", r: approved(nil), v: ask(RiskLow), key: Key{Agent: "bot",
			Tool: "pay", ArgsHash: "h2"}, want: policyChanged},
		{name: "another key, but allowed", r: approved(nil), v: Verdict{Action: Allow}, key: Key{Agent: "bot", Tool: "pay",
			ArgsHash: "h2"}},

		{name: "the tool that was approved", r: of(digest), v: ask(RiskLow), digest: digest},
		{name: "the changed tool that was approved", r: of(digest), v: ask(RiskLow), digest: digest, changed: true},
		{name: "another tool than was approved", r: of(other), v: ask(RiskLow), digest: digest, want: toolChanged},
		{name: "another tool than was approved, which is allowed", r: of(other), v: Verdict{Action: Allow}, digest: digest,
			want: toolChanged},
		{name: "a changed tool, approved when nobody looked", r: of(""), v: ask(RiskLow), digest: digest, changed: true,
			want: toolChanged},
		{name: "the tool on record, approved when nobody looked", r: of(""), v: ask(RiskLow), digest: digest},
		{name: "nobody looks at the tool now", r: of(digest), v: ask(RiskLow)},
		{name: "a changed tool is told before a higher risk", r: of(other), v: ask(RiskHigh), digest: digest, changed: true,
			want: toolChanged},

		{name: "too few votes count", r: approved(nil), v: ask(RiskMedium), short: true, want: policyChanged},
		{name: "too few votes count, and the policy allows it", r: approved(nil), v: Verdict{Action: Allow}, short: true,
			want: policyChanged},
		{name: "too few votes count, and it is denied", r: approved(nil), v: Verdict{Action: Deny}, short: true,
			want: deniedNow},

		{name: "other ignored args were shown", r: shown, v: ask(RiskMedium), want: otherArgs},
		{name: "other ignored args were shown, and they run", r: shown, v: ask(RiskMedium), edits: true},
		{name: "other ignored args were shown, and the policy allows the call", r: shown, v: Verdict{Action: Allow},
			want: otherArgs},
		{name: "other ignored args were shown, in observe mode", r: shown, v: observed(ask(RiskMedium)), want: otherArgs},
		{name: "a higher risk is told before other ignored args", r: shown, v: ask(RiskHigh), want: policyChanged},
		{name: "deny wins over other ignored args", r: shown, v: Verdict{Action: Deny}, want: deniedNow},

		{name: "observe mode: denied", r: approved(nil), v: observed(Verdict{Action: Deny})},
		{name: "observe mode: a higher risk", r: approved(nil), v: observed(ask(RiskCritical))},
		{name: "observe mode: another tool", r: of(other), v: observed(ask(RiskLow)), digest: digest, changed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := judged{call: Call{ToolDigest: c.digest, AcceptsEdits: c.edits}, verdict: c.v, key: key}
			if c.key != (Key{}) {
				j.key = c.key
			}
			if got := mayUse(&c.r, &j, c.changed, !c.short, noon); got != c.want {
				t.Errorf("mayUse = %q, want %q", got, c.want)
			}
		})
	}
}

// Rules 2.5 and 2.8: whether somebody may decide a request is one function; each of its cases is here.
func TestRule5_MayThisPersonDecideThis(t *testing.T) {
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	approver := Actor{Kind: Human, Name: "hana", Approver: true}
	pending := Request{Status: Pending, ExpiresAt: noon.Add(time.Minute)}
	as := func(s Status) Request { r := pending; r.Status = s; return r }
	at := func(deadline time.Time) Request { r := pending; r.ExpiresAt = deadline; return r }
	strict := pending
	strict.RequireReason = true

	for _, c := range []struct {
		name   string
		r      Request
		by     Actor
		reason string
		want   Code
	}{
		{name: "an approver, in time", r: pending, by: approver},
		{name: "an approver who is an admin too", r: pending, by: Actor{Kind: Human, Approver: true, Admin: true}},
		{name: "one millisecond before the deadline", r: at(noon.Add(time.Millisecond)), by: approver},
		{name: "with the reason that is needed", r: strict, by: approver, reason: "ok"},
		{name: "with the longest reason", r: pending, by: approver, reason: strings.Repeat("x", MaxReason)},

		{name: "nobody", r: pending, by: Actor{}, want: CodeNotAnApprover},
		{name: "a stranger", r: pending, by: Actor{Kind: Stranger, Name: "U1"}, want: CodeNotAnApprover},
		{name: "a stranger with a role", r: pending, by: Actor{Kind: Stranger, Approver: true}, want: CodeNotAnApprover},
		{name: "an agent", r: pending, by: Actor{Kind: Agent, Name: "bot"}, want: CodeNotAnApprover},
		{name: "an agent with a role", r: pending, by: Actor{Kind: Agent, Approver: true, Admin: true},
			want: CodeNotAnApprover},
		{name: "the program itself", r: pending, by: Actor{Kind: System, Approver: true}, want: CodeNotAnApprover},
		{name: "an admin who is no approver", r: pending, by: Actor{Kind: Human, Admin: true}, want: CodeNotAnApprover},
		{name: "somebody without a role, too late: not how it ended", r: as(Approved), by: Actor{Kind: Human},
			want: CodeNotAnApprover},

		{name: "approved already", r: as(Approved), by: approver, want: CodeAlreadyResolved},
		{name: "denied already", r: as(Denied), by: approver, want: CodeAlreadyResolved},
		{name: "cancelled", r: as(Cancelled), by: approver, want: CodeAlreadyResolved},
		{name: "expired", r: as(Expired), by: approver, want: CodeExpired},
		{name: "of no known status", r: as("?"), by: approver, want: CodeAlreadyResolved},
		{name: "at the deadline, nobody has ended it yet", r: at(noon), by: approver, want: CodeExpired},
		{name: "too late, and without the reason that was needed", r: func() Request {
			r := strict
			r.Status = Denied
			return r
		}(), by: approver, want: CodeAlreadyResolved},

		{name: "without the reason that is needed", r: strict, by: approver, want: CodeReasonRequired},
		{name: "with too long a reason", r: pending, by: approver, reason: strings.Repeat("x", MaxReason+1),
			want: CodeInvalidParameter},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, approve := range []bool{true, false} {
				if got := mayDecide(&c.r, Decision{By: c.by, Reason: c.reason, Approve: approve}, &ballot{stage: true},
					noon); got != c.want {
					t.Errorf("mayDecide(approve %t) = %q, want %q", approve, got, c.want)
				}
			}
		})
	}
}

// Rules 2.5 and deciding §1: what somebody may do about a pending request follows from their ballot alone; each case is
// here.
func TestRule5_MayThisPersonVote(t *testing.T) {
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	hana := Actor{Kind: Human, Name: "hana", Approver: true}
	pending := Request{Status: Pending, ExpiresAt: noon.Add(time.Minute)}
	strict := pending
	strict.RequireReason = true
	for _, c := range []struct {
		name          string
		b             ballot
		r             Request
		confirmed     bool
		proven        bool
		approve, deny Code
	}{
		{name: "in the open stage", b: ballot{stage: true}},
		{name: "in the open stage, for somebody", b: ballot{stage: true, For: "ken"}},
		{name: "in another stage", b: ballot{other: true}, approve: CodeNotYourStage, deny: CodeNotYourStage},
		{name: "in none", approve: CodeNotAnApprover, deny: CodeNotAnApprover},
		{name: "whose vote counts", b: ballot{voted: true, hasSaid: true, other: true}, approve: CodeAlreadyVoted},
		{name: "whose vote counts, in the open stage", b: ballot{voted: true, hasSaid: true, stage: true},
			approve: CodeAlreadyVoted},
		{name: "who voted and is in no stage any more", b: ballot{hasSaid: true}, approve: CodeNotAnApprover},
		{name: "for whom somebody has voted", b: ballot{voted: true, stage: true}, approve: CodeAlreadyVoted},
		{name: "for whom somebody has voted, in another stage", b: ballot{voted: true, other: true},
			approve: CodeAlreadyVoted, deny: CodeNotYourStage},
		{name: "already voted is told before whose stage it is", b: ballot{voted: true, other: true, hasSaid: true},
			approve: CodeAlreadyVoted},
		{name: "whose stage it is before a missing reason", r: strict, b: ballot{other: true}, approve: CodeNotYourStage,
			deny: CodeNotYourStage},
		{name: "asked once more", b: ballot{stage: true, confirm: true}, approve: CodeConfirmRequired},
		{name: "said once more", b: ballot{stage: true, confirm: true}, confirmed: true},
		{name: "a missing reason before asking once more", r: strict, b: ballot{stage: true, confirm: true},
			approve: CodeReasonRequired, deny: CodeReasonRequired},
		{name: "without a passkey", b: ballot{stage: true, stepUp: true}, approve: CodeStepUpRequired},
		{name: "with a passkey", b: ballot{stage: true, stepUp: true}, proven: true},
		{name: "a passkey before a missing reason", r: strict, b: ballot{stage: true, stepUp: true},
			approve: CodeStepUpRequired, deny: CodeReasonRequired},
		{name: "a passkey before asking once more", b: ballot{stage: true, stepUp: true, confirm: true}, confirmed: true,
			approve: CodeStepUpRequired},
		{name: "a passkey is no second yes", b: ballot{stage: true, stepUp: true, confirm: true}, proven: true,
			approve: CodeConfirmRequired},
		{name: "whose stage it is before a passkey", b: ballot{other: true, stepUp: true}, approve: CodeNotYourStage,
			deny: CodeNotYourStage},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.r.Status == "" {
				c.r = pending
			}
			for approve, want := range map[bool]Code{true: c.approve, false: c.deny} {
				d := Decision{By: hana, Approve: approve, Confirmed: c.confirmed, proven: c.proven}
				if got := mayDecide(&c.r, d, &c.b, noon); got != want {
					t.Errorf("mayDecide(approve %t) = %q, want %q", approve, got, want)
				}
			}
		})
	}
}

// Who may take a request back is one function; each of its cases is here.
func TestRule5_MayThisPersonCancelThis(t *testing.T) {
	request := func(s Status) Request {
		return Request{Agent: "bot", Status: s, ResolvedBy: "hana", ResolvedVia: ViaAPI}
	}
	bySystem := request(Approved)
	bySystem.ResolvedVia, bySystem.ResolvedBy = ViaSystem, "hana"
	used := request(Approved)
	used.ConsumedAt = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	hana, admin := Actor{Kind: Human, Name: "hana", Approver: true}, Actor{Kind: Human, Name: "root", Admin: true}

	for _, c := range []struct {
		name string
		r    Request
		by   Actor
		want Code
	}{
		{"its agent, while it is pending", request(Pending), Actor{Kind: Agent, Name: "bot"}, ""},
		{"its agent, once it is approved", request(Approved), Actor{Kind: Agent, Name: "bot"}, ""},
		{"an admin, while it is pending", request(Pending), admin, ""},
		{"an admin, once it is approved", request(Approved), admin, ""},
		{"who approved it", request(Approved), hana, ""},

		{"one of those who approved it", func() Request {
			r := request(Approved)
			r.Votes = []Vote{{Person: "kai", Approve: true}, {Person: "hana", Approve: true}}
			return r
		}(), Actor{Kind: Human, Name: "kai", Approver: true}, ""},

		{"another agent", request(Pending), Actor{Kind: Agent, Name: "other"}, CodeNotFound},
		{"another agent, too late", request(Expired), Actor{Kind: Agent, Name: "other"}, CodeNotFound},
		{"an approver, while it is pending", request(Pending), hana, CodeNotAdmin},
		{"another approver than approved it", request(Approved), Actor{Kind: Human, Name: "kai", Approver: true},
			CodeNotAdmin},
		{"who approved it by name, but the program did", bySystem, hana, CodeNotAdmin},
		{"a stranger with the approver's name", request(Approved), Actor{Kind: Stranger, Name: "hana"}, CodeNotAdmin},
		{"the program", request(Pending), Actor{Kind: System}, CodeNotAdmin},
		{"nobody", request(Pending), Actor{}, CodeNotAdmin},

		{"expired", request(Expired), admin, CodeExpired},
		{"denied", request(Denied), admin, CodeAlreadyResolved},
		{"cancelled", request(Cancelled), admin, CodeAlreadyResolved},
		{"used", used, admin, CodeAlreadyResolved},
		{"used, and it is who approved it", used, hana, CodeAlreadyResolved},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mayCancel(&c.r, c.by); got != c.want {
				t.Errorf("mayCancel = %q, want %q", got, c.want)
			}
		})
	}
}
