package approval_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/chat"
	"countersign/internal/lists"
	"countersign/internal/testkit"

	"pgregory.net/rapid"
)

// council is a world in which rules name who must say yes, and people come and go.
type council struct {
	*world
	mu    sync.Mutex
	who   map[string]approval.Actor
	owner string
	need  *approval.Need // what the rule asks for now
}

func member(name string, groups ...string) approval.Actor {
	return approval.Actor{Kind: approval.Human, Name: name, Approver: true, Groups: groups}
}

func newCouncil(t testing.TB, need *approval.Need, people ...approval.Actor) *council {
	w := &council{world: newWorld(t), who: map[string]approval.Actor{}, need: need}
	for _, p := range append(people, root) {
		w.who[p.Name] = p
	}
	w.wire(approval.Options{
		Store: w.store, Broker: w.gate.Broker(), Policy: rules{w.verdict, terms}, Logger: w.logger(), Directory: names{
			people: w.person, all: w.everybody, owner: func(string) string { return w.owner },
		},
	}, bothWays)
	return w
}

func (w *council) verdict(approval.Call) approval.Verdict {
	v := quarantine(approval.RiskHigh)
	v.Need = w.need
	return v
}

func (w *council) person(name string) (approval.Actor, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.who[name]
	return p, ok
}

func (w *council) everybody() []approval.Actor {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []approval.Actor
	for _, name := range slices.Sorted(maps.Keys(w.who)) {
		all = append(all, w.who[name])
	}
	return all
}

func (w *council) set(p approval.Actor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.who[p.Name] = p
}

func (w *council) remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.who, name)
}

// approve gives a vote and returns the request as it stands then.
func (w *council) approve(id, name string) approval.Request {
	w.t.Helper()
	r, err := w.vote(id, name, true)
	if err != nil {
		w.t.Fatalf("%s could not approve: %v", name, err)
	}
	return r
}

func (w *council) vote(id, name string, approve bool) (approval.Request, error) {
	p, _ := w.person(name)
	p.Kind, p.Name = approval.Human, name
	return w.decide(id, approve, p, "")
}

// refused has somebody try to approve, who must be told why not.
func (w *council) refused(id, name string, want approval.Code) {
	w.t.Helper()
	_, err := w.vote(id, name, true)
	if got := approval.CodeOf(err); got != want {
		w.t.Fatalf("%s approves: %q (%v), want %q", name, got, err, want)
	}
}

func (w *council) status(id string, want approval.Status) approval.Request {
	w.t.Helper()
	r := w.request(id)
	if r.Status != want {
		w.t.Fatalf("the request is %s, want %s", r.Status, want)
	}
	return r
}

func stages(ss ...approval.Stage) *approval.Need { return &approval.Need{Stages: ss} }

func of(group string, count int) approval.Stage { return approval.Stage{Group: group, Count: count} }

var (
	financeTwice = stages(of("finance", 2))
	thenSecurity = stages(of("finance", 2), of("security", 1))
	fHana, fKen  = member("hana", "finance"), member("ken", "finance")
	fMei, sAbe   = member("mei", "finance"), member("abe", "security")
	nobodys      = member("joe")
)

func TestRule1_TwoPeopleMustSayYes(t *testing.T) {
	w := newCouncil(t, financeTwice, fHana, fKen, nobodys)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	r := w.approve(id, "hana")
	if r.Status != approval.Pending || len(r.Votes) != 1 || r.Votes[0].Person != "hana" || r.Votes[0].Stage != 1 {
		t.Fatalf("after the first vote: %s, %+v", r.Status, r.Votes)
	}
	w.expect(transfer, approval.AnswerPending)
	if r, err := w.gate.Request(w.ctx, bot, id); err != nil || r.Votes != nil {
		t.Errorf("the agent is told of votes before the end: %+v, %v", r.Votes, err)
	}
	w.refused(id, "hana", approval.CodeAlreadyVoted)
	w.refused(id, "joe", approval.CodeNotAnApprover)
	w.refused(id, "root", approval.CodeNotAnApprover)
	r = w.approve(id, "ken")
	if r.Status != approval.Approved || r.ResolvedBy != "ken" || r.WhoEnded() != "hana and ken" {
		t.Fatalf("after the second: %s by %s (%s)", r.Status, r.ResolvedBy, r.WhoEnded())
	}
	if n := w.count("hitl_vote:approve"); n != 1 {
		t.Errorf("%d votes before the last are on record", n)
	}
	if n := w.count("hitl_decision:approve"); n != 1 {
		t.Errorf("%d decisions are on record", n)
	}
	o := w.expect(transfer, approval.AnswerApproved)
	if !strings.HasPrefix(o.Message, "Approved by hana and ken at ") {
		t.Error(o.Message)
	}
	w.expect(transfer, approval.AnswerPending) // it is used
}

func TestRule5_OfManyLastVotesOneCompletes(t *testing.T) {
	var people []approval.Actor
	for i := range 12 {
		people = append(people, member(fmt.Sprintf("p%02d", i), "finance"))
	}
	w := newCouncil(t, stages(of("finance", 3)), people...)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[approval.Status]int{}
	for _, p := range people {
		wg.Go(func() {
			r, err := w.vote(id, p.Name, true)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				got[r.Status]++
			case approval.CodeOf(err) == approval.CodeAlreadyResolved:
				got["late"]++
			default:
				t.Errorf("%s: %v", p.Name, err)
			}
		})
	}
	testkit.Wait(t, "all votes", wg.Wait)
	want := map[approval.Status]int{approval.Pending: 2, approval.Approved: 1, "late": 9}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if r := w.request(id); len(r.Votes) != 3 {
		t.Errorf("%d votes count", len(r.Votes))
	}
}

func TestRule1_StagesComeInOrder(t *testing.T) {
	w := newCouncil(t, thenSecurity, fHana, fKen, sAbe, member("mei", "finance", "security"))
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.refused(id, "abe", approval.CodeNotYourStage) // it is no vote
	w.approve(id, "hana")
	w.approve(id, "mei") // in both groups: for the stage that is open
	w.refused(id, "ken", approval.CodeNotYourStage)
	w.refused(id, "mei", approval.CodeAlreadyVoted) // before whose stage it is
	r := w.approve(id, "abe")
	if r.Status != approval.Approved || r.WhoEnded() != "hana, mei and abe" {
		t.Fatalf("%s by %s", r.Status, r.WhoEnded())
	}
	var got []int
	for _, v := range r.Votes {
		got = append(got, v.Stage)
	}
	if !slices.Equal(got, []int{1, 1, 2}) {
		t.Errorf("stages %v", got)
	}
}

func TestRule5_OneDenialEndsIt(t *testing.T) {
	for _, c := range []struct {
		by   string
		want approval.Code
	}{{"hana", ""}, {"ken", ""}, {"abe", approval.CodeNotYourStage}, {"joe", approval.CodeNotAnApprover}} {
		w := newCouncil(t, thenSecurity, fHana, fKen, sAbe, nobodys)
		id := w.expect(transfer, approval.AnswerPending).Request.ID
		w.approve(id, "hana")
		_, err := w.vote(id, c.by, false)
		wantCode(t, err, c.want)
		if c.want == "" {
			w.status(id, approval.Denied)
			w.expect(transfer, approval.AnswerDenied)
		} else {
			w.status(id, approval.Pending)
		}
	}
}

func TestRule1_AVoterWhoIsRemovedDoesNotCount(t *testing.T) {
	w := newCouncil(t, financeTwice, fHana, fKen, fMei)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.approve(id, "hana")
	w.remove("hana")
	if r := w.approve(id, "ken"); r.Status != approval.Pending {
		t.Fatalf("one vote that counts: %s", r.Status)
	}
	if r := w.approve(id, "mei"); r.Status != approval.Approved || r.WhoEnded() != "ken and mei" {
		t.Fatalf("%s by %s", r.Status, r.WhoEnded())
	}
	w.set(member("mei", "sales")) // before the use
	o := w.expect(transfer, approval.AnswerPending)
	if o.Request.ID == id {
		t.Fatal("it is not asked anew")
	}
	if r := w.request(id); r.Status != approval.Cancelled || r.ResolveReason != "policy_changed" {
		t.Errorf("%s, %s", r.Status, r.ResolveReason)
	}
}

func TestRule1_AnApproverWhoIsRemovedBeforeTheUse(t *testing.T) {
	w := newCouncil(t, nil, fHana, fKen)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.approve(id, "hana")
	w.remove("hana")
	if o := w.expect(transfer, approval.AnswerPending); o.Request.ID == id {
		t.Fatal("it is not asked anew")
	}
}

func TestRule1_AStageThatFallsShortOpensAgain(t *testing.T) {
	w := newCouncil(t, thenSecurity, fHana, fKen, fMei, sAbe)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.approve(id, "hana")
	w.approve(id, "ken")
	w.send()
	before := len(w.notifications(approval.NotificationQuery{ApprovalID: id, Kind: approval.KindRequest}))
	w.remove("ken")
	if _, err := w.gate.Recheck(w.ctx); err != nil {
		t.Fatal(err)
	}
	if after := len(w.notifications(approval.NotificationQuery{ApprovalID: id,
		Kind: approval.KindRequest})); after <= before {
		t.Errorf("%d cards before, %d after", before, after)
	}
	w.refused(id, "abe", approval.CodeNotYourStage)
	w.approve(id, "mei")
	if r := w.approve(id, "abe"); r.Status != approval.Approved {
		t.Fatal(r.Status)
	}
}

func TestRule1_ANeedThatIsRaisedHolds(t *testing.T) {
	w := newCouncil(t, nil, fHana, fKen, sAbe, nobodys)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.need = financeTwice // while it is pending
	w.refused(id, "joe", approval.CodeNotAnApprover)
	w.approve(id, "hana")
	w.need = thenSecurity // while votes come in
	if r := w.approve(id, "ken"); r.Status != approval.Pending {
		t.Fatalf("security was not asked: %s", r.Status)
	}
	w.need = nil // less is asked for now: the stricter of both holds
	w.refused(id, "joe", approval.CodeNotAnApprover)
	if r := w.approve(id, "abe"); r.Status != approval.Approved {
		t.Fatal(r.Status)
	}
	w.need = stages(of("finance", 2), of("security", 2)) // before the use
	if o := w.expect(transfer, approval.AnswerPending); o.Request.ID == id {
		t.Fatal("it is not asked anew")
	}
}

func TestRule1_SeparateDuties(t *testing.T) {
	need := &approval.Need{Stages: []approval.Stage{of("finance", 1)}, SeparateDuties: true}
	w := newCouncil(t, need, fHana, fKen, nobodys)
	w.owner = "hana"
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.refused(id, "hana", approval.CodeNotAnApprover)
	w.delegate("hana", "joe", time.Hour)
	w.refused(id, "joe", approval.CodeNotAnApprover) // for the owner
	w.delegate("ken", "hana", time.Hour)
	w.refused(id, "hana", approval.CodeNotAnApprover) // nor the owner for others
	if r := w.approve(id, "ken"); r.Status != approval.Approved {
		t.Fatal(r.Status)
	}
	w.owner = "ken"
	if o := w.expect(transfer, approval.AnswerPending); o.Request.ID == id {
		t.Fatal("the owner's word counts at the use")
	}
}

func (w *council) delegate(from, to string, d time.Duration) approval.Delegation {
	w.t.Helper()
	by, _ := w.person(from)
	made, err := w.gate.Delegate(w.ctx, approval.Delegation{Delegator: from, Delegate: to, Until: w.clock.Now().Add(d)},
		by,
		approval.ViaAPI)
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

func TestRule1_ADelegateVotesForTheDelegator(t *testing.T) {
	w := newCouncil(t, financeTwice, fHana, fKen, nobodys)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.refused(id, "joe", approval.CodeNotAnApprover)
	w.delegate("hana", "joe", time.Hour)
	r := w.approve(id, "joe")
	if v := r.Votes[0]; v.Person != "joe" || v.For != "hana" {
		t.Fatalf("%+v", v)
	}
	w.refused(id, "hana", approval.CodeAlreadyVoted) // does not count besides
	w.delegate("ken", "joe", time.Hour)
	w.refused(id, "joe", approval.CodeAlreadyVoted) // one vote, whomever for
	if r = w.approve(id, "ken"); r.WhoEnded() != "joe for hana and ken" {
		t.Errorf("by %s", r.WhoEnded())
	}
	w.expect(transfer, approval.AnswerApproved)
}

func TestRule1_ADelegationHoldsFromItsBeginningUntilRightBeforeItsEnd(t *testing.T) {
	w := newCouncil(t, stages(of("finance", 1)), fHana, nobodys)
	hana, _ := w.person("hana")
	from := start.Add(10 * time.Minute)
	d, err := w.gate.Delegate(w.ctx, approval.Delegation{Delegator: "hana", Delegate: "joe", From: from,
		Until: from.Add(10 * time.Minute)}, hana, approval.ViaAPI)
	if err != nil {
		t.Fatal(err)
	}
	vote := func(amount int) error {
		c := call(fmt.Sprintf(`{"n":%d}`, amount))
		_, err := w.vote(w.expect(c, approval.AnswerPending).Request.ID, "joe", true)
		return err
	}
	w.clock.advance(10*time.Minute - time.Millisecond)
	wantCode(t, vote(1), approval.CodeNotAnApprover)
	w.clock.advance(time.Millisecond)
	wantCode(t, vote(2), "")
	w.clock.advance(10*time.Minute - time.Millisecond)
	wantCode(t, vote(3), "")
	w.clock.advance(time.Millisecond)
	wantCode(t, vote(4), approval.CodeNotAnApprover)
	_, err = w.gate.EndDelegation(w.ctx, d.ID, hana, approval.ViaAPI)
	wantCode(t, err, approval.CodeAlreadyResolved)
}

func TestRule1_ADelegationThatIsEndedCountsNoMore(t *testing.T) {
	for _, by := range []string{"hana", "joe", "root", "ken"} {
		w := newCouncil(t, stages(of("finance", 1)), fHana, fKen, nobodys)
		d := w.delegate("hana", "joe", time.Hour)
		id := w.expect(transfer, approval.AnswerPending).Request.ID
		w.approve(id, "joe")
		who, _ := w.person(by)
		_, err := w.gate.EndDelegation(w.ctx, strings.ToLower(d.ID[20:]), who, approval.ViaAPI)
		if by == "ken" {
			wantCode(t, err, approval.CodeNotFound)
			w.expect(transfer, approval.AnswerApproved)
			continue
		}
		wantCode(t, err, "")
		if o := w.expect(transfer, approval.AnswerPending); o.Request.ID == id {
			t.Fatal("the vote of who stands in for nobody counts")
		}
	}
}

func TestDelegationsAreBounded(t *testing.T) {
	w := newCouncil(t, nil, fHana, fKen, member("abe"), approval.Actor{Kind: approval.Human, Name: "eve"})
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		d    approval.Delegation
		by   string
		want approval.Code
	}{
		"30 days": {approval.Delegation{Delegator: "hana", Delegate: "ken", Until: start.Add(30 * day)}, "hana",
			""},
		"more than 30 days": {approval.Delegation{Delegator: "hana", Delegate: "ken", Until: start.Add(30*day +
			time.Millisecond)}, "hana", approval.CodeInvalidParameter},
		"no end": {approval.Delegation{Delegator: "hana", Delegate: "ken"}, "hana",
			approval.CodeInvalidParameter},
		"over already": {approval.Delegation{Delegator: "hana", Delegate: "ken", Until: start}, "hana",
			approval.CodeInvalidParameter},
		"to oneself": {approval.Delegation{Delegator: "hana", Delegate: "hana", Until: start.Add(day)}, "hana",
			approval.CodeInvalidParameter},
		"to no approver": {approval.Delegation{Delegator: "hana", Delegate: "eve", Until: start.Add(day)}, "hana",
			approval.CodeInvalidParameter},
		"to nobody": {approval.Delegation{Delegator: "hana", Delegate: "ghost", Until: start.Add(day)}, "hana",
			approval.CodeInvalidParameter},
		"of no approver": {approval.Delegation{Delegator: "eve", Delegate: "ken", Until: start.Add(day)}, "eve",
			approval.CodeNotAnApprover},
		"of somebody else": {approval.Delegation{Delegator: "hana", Delegate: "ken", Until: start.Add(day)}, "ken",
			approval.CodeNotAdmin},
		"by an admin": {approval.Delegation{Delegator: "hana", Delegate: "ken", Until: start.Add(day)}, "root", ""},
		"after it has begun": {approval.Delegation{Delegator: "hana", Delegate: "ken", From: start.Add(2 * day),
			Until: start.Add(day)}, "hana", approval.CodeInvalidParameter},
	} {
		by, _ := w.person(c.by)
		_, err := w.gate.Delegate(w.ctx, c.d, by, approval.ViaAPI)
		if got := approval.CodeOf(err); got != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
	_, err := w.gate.Delegate(w.ctx, approval.Delegation{Delegator: "bot", Delegate: "ken", Until: start.Add(day)}, bot,
		approval.ViaAPI)
	wantCode(t, err, approval.CodeNotAdmin)
}

func TestRule1_EscalationAddsPeopleAndNeverLowersANeed(t *testing.T) {
	need := &approval.Need{Stages: []approval.Stage{of("finance", 2)},
		Escalate: []approval.Escalation{{After: 10 * time.Minute, To: []string{"leads", "joe"}}}}
	w := newCouncil(t, need, fHana, member("lea", "leads"), nobodys, sAbe)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.approve(id, "hana")
	w.clock.advance(10*time.Minute - time.Millisecond)
	w.refused(id, "lea", approval.CodeNotAnApprover)
	w.clock.advance(time.Millisecond)
	w.refused(id, "abe", approval.CodeNotAnApprover)
	w.status(id, approval.Pending)
	if r := w.approve(id, "lea"); r.Status != approval.Approved || r.WhoEnded() != "hana and lea" {
		t.Fatalf("%s by %s", r.Status, r.WhoEnded())
	}
}

func TestRule10_AStageThatNobodyIsLeftForIsTold(t *testing.T) {
	w := newCouncil(t, thenSecurity, fHana, fKen, sAbe)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	if unmet, err := w.gate.Recheck(w.ctx); err != nil || len(unmet) > 0 {
		t.Fatal(unmet, err)
	}
	w.remove("ken")
	unmet, err := w.gate.Recheck(w.ctx)
	if err != nil || len(unmet) != 1 || unmet[0].ID != id {
		t.Fatal(unmet, err)
	}
	if n := w.count("need_unmet::2 of finance"); n != 1 {
		t.Errorf("%d events", n)
	}
	w.approve(id, "hana")
	w.status(id, approval.Pending) // and nothing passes
}

func TestRule5_ConfirmIsAskedForOnceMore(t *testing.T) {
	w := newCouncil(t, &approval.Need{Confirm: true}, fHana)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.refused(id, "hana", approval.CodeConfirmRequired)
	w.status(id, approval.Pending)
	_, err := w.gate.Decide(w.ctx, approval.Decision{RequestID: id, Approve: true, By: fHana, Via: approval.ViaAPI,
		Confirmed: true})
	wantCode(t, err, "")
	w.status(id, approval.Approved)
}

func TestRule5_ARequestIsExtendedOnce(t *testing.T) {
	w := newCouncil(t, thenSecurity, fHana, fKen, sAbe, nobodys)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	extend := func(name string) error {
		p, _ := w.person(name)
		_, err := w.gate.Extend(w.ctx, id, p, approval.ViaAPI)
		return err
	}
	wantCode(t, extend("joe"), approval.CodeNotAnApprover)
	wantCode(t, extend("abe"), approval.CodeNotYourStage)
	w.clock.advance(time.Hour - time.Millisecond)
	wantCode(t, extend("hana"), "")
	wantCode(t, extend("ken"), approval.CodeAlreadyResolved)
	w.clock.advance(time.Hour)
	if r := w.status(id, approval.Pending); !r.ExpiresAt.Equal(start.Add(2*time.Hour)) || r.ExtendedAt.IsZero() {
		t.Fatalf("it expires at %s", r.ExpiresAt)
	}
	w.clock.advance(time.Millisecond)
	wantCode(t, extend("root"), approval.CodeExpired)
	if o := w.feed()[0]; !strings.Contains(o.FeedMessage(), "after 120 minutes") {
		t.Error(o.FeedMessage())
	}
}

func TestSeveralAreDecidedTogether(t *testing.T) {
	w := newCouncil(t, nil, fHana, fKen)
	one := w.expect(call(`{"n":1}`), approval.AnswerPending).Request.ID
	w.need = financeTwice
	two := w.expect(call(`{"n":2}`), approval.AnswerPending).Request.ID
	w.need = stages(of("security", 1))
	three := w.expect(call(`{"n":3}`), approval.AnswerPending).Request.ID
	none := strings.Repeat("0", 26)
	w.policy(func(approval.Call) approval.Verdict { return quarantine(approval.RiskHigh) })
	out, err := w.gate.DecideMany(w.ctx, []string{one, two, three, none, one},
		approval.Decision{Approve: true, By: fHana, Via: approval.ViaAPI})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range out {
		word := string(d.Request.Status)
		if d.Refusal != nil {
			word = string(d.Refusal.Code)
		}
		got = append(got, word)
	}
	if want := []string{"approved", "pending", "not_an_approver", "not_found"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	_, err = w.gate.DecideMany(w.ctx, nil, approval.Decision{By: fHana})
	wantCode(t, err, approval.CodeInvalidParameter)
}

func TestShortIDsMeanOneRequestOrNone(t *testing.T) {
	w := newCouncil(t, nil, fHana)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	for typed, want := range map[string]approval.Code{
		id: "", strings.ToLower(id): "", id[22:]: "", " " + strings.ToLower(id[20:]) + " ": "",
		id[23:]: approval.CodeNotFound,
		"":      approval.CodeNotFound, "%%%%": approval.CodeNotFound, "0000": approval.CodeNotFound, id +
			"0": approval.CodeNotFound,
	} {
		got, err := lists.ResolveID(w.ctx, w.gate, fHana, typed)
		if approval.CodeOf(err) != want || want == "" && got != id {
			t.Errorf("%q: %q, %v, want %q", typed, got, err, want)
		}
	}
	if _, err := lists.ResolveID(w.ctx, w.gate, bot, id[20:]); approval.CodeOf(err) != approval.CodeNotFound {
		t.Errorf("an agent's short id: %v", err)
	}
	w.clock.advance(8 * 24 * time.Hour)
	_, err := lists.ResolveID(w.ctx, w.gate, fHana, id[20:])
	wantCode(t, err, approval.CodeNotFound)
	now := w.expect(call(`{"n":1}`), approval.AnswerPending).Request
	twin := *now
	twin.ID, twin.ArgsHash = now.ID[:10]+"ZZZZ"+now.ID[14:], strings.Repeat("0", 64)
	if err := w.store.Update(w.ctx, approval.WholeStore(), func(tx approval.Tx) error {
		return tx.InsertRequest(twin)
	}); err != nil {
		t.Fatal(err)
	}
	_, err = lists.ResolveID(w.ctx, w.gate, fHana, now.ID[20:])
	wantCode(t, err, approval.CodeAmbiguousID)
	if !strings.Contains(err.Error(), now.ID) || !strings.Contains(err.Error(), twin.ID) {
		t.Error(err)
	}
	_, err = lists.ResolveID(w.ctx, w.gate, fHana, "no such id at all, and too long")
	wantCode(t, err, approval.CodeNotFound)
}

// model is the least that must hold: whoever is let through had enough people who could say yes at that time.
func (w *council) couldPass(votes map[string]string, need *approval.Need) bool {
	var slots []approval.Stage
	for _, s := range need.InStages() {
		for range s.Count {
			slots = append(slots, s)
		}
	}
	belongs := func(name string, s approval.Stage) bool {
		p, ok := w.person(name)
		return ok && p.Approver && name != w.ownerOf(need) && (s.Group == "" || slices.Contains(p.Groups, s.Group))
	}
	var voters []string
	for name := range votes {
		voters = append(voters, name)
	}
	used := map[string]bool{}
	var fill func(i int) bool
	fill = func(i int) bool {
		if i == len(slots) {
			return true
		}
		for _, name := range voters {
			if !used[name] && belongs(name, slots[i]) {
				used[name] = true
				if fill(i + 1) {
					return true
				}
				used[name] = false
			}
		}
		return false
	}
	return fill(0)
}

func (w *council) ownerOf(need *approval.Need) string {
	if need != nil && need.SeparateDuties {
		return w.owner
	}
	return ""
}

// Whatever people, rules and votes do, nothing passes without enough people who can say yes at that very time.
func TestRule1_ModelOfVotes(t *testing.T) {
	groups := []string{"finance", "security"}
	people := []string{"abe", "hana", "joe", "ken", "mei"}
	w, rounds := newCouncil(t, nil), 0 // one store, which takes long to open, for all rounds
	rapid.Check(t, func(rt *rapid.T) {
		draw := rapid.Custom(func(rt *rapid.T) approval.Actor {
			return approval.Actor{Kind: approval.Human, Name: rapid.SampledFrom(people).Draw(rt, "name"),
				Approver: rapid.IntRange(0, 4).Draw(rt, "role") > 0,
				Groups:   rapid.SliceOfNDistinct(rapid.SampledFrom(groups), 0, 2, rapid.ID).Draw(rt, "groups")}
		})
		needs := rapid.Custom(func(rt *rapid.T) *approval.Need {
			n := &approval.Need{SeparateDuties: rapid.Bool().Draw(rt, "separate")}
			for range rapid.IntRange(0, 2).Draw(rt, "stages") {
				s := of(rapid.SampledFrom(append(groups, "")).Draw(rt, "group"), rapid.IntRange(1, 2).Draw(rt, "count"))
				if !slices.ContainsFunc(n.Stages, func(o approval.Stage) bool { return o.Group == s.Group }) {
					n.Stages = append(n.Stages, s)
				}
			}
			return n
		})
		clear(w.who)
		w.need = needs.Draw(rt, "need")
		rounds++
		c := transfer
		c.Tool = fmt.Sprint("tool", rounds) // each round has calls of its own
		w.owner = rapid.SampledFrom(append(people, "")).Draw(rt, "owner")
		for range 5 {
			w.set(draw.Draw(rt, "person"))
		}
		votes := map[string]string{} // of the live request
		id, stored := "", w.need
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				w.set(draw.Draw(rt, "person"))
			case 1:
				w.remove(rapid.SampledFrom(people).Draw(rt, "gone"))
			case 2:
				w.need = needs.Draw(rt, "need")
			case 3, 4, 5:
				o := w.check(c)
				if o.Kind == approval.AnswerApproved {
					if !w.couldPass(votes, w.need) || !w.couldPass(votes, stored) {
						rt.Fatalf("let through by %v with %+v, asked for with %+v", votes, w.need, stored)
					}
				}
				if o.Kind == approval.AnswerPending && o.Request.ID != id {
					id, stored, votes = o.Request.ID, w.need, map[string]string{}
				}
			default:
				name := rapid.SampledFrom(people).Draw(rt, "voter")
				r, err := w.vote(id, name, true)
				if err != nil {
					continue
				}
				votes[name] = ""
				if enough := w.couldPass(votes, w.need) && w.couldPass(votes, stored); r.Status == approval.Approved && !enough {
					rt.Fatalf("approved by %v with %+v, asked for with %+v", votes, w.need, stored)
				}
			}
		}
	})
}

// "Approve all" over requests with different needs: each gets its own answer, and what is not theirs holds nothing up.
func TestRule5_ApproveAllAcrossDifferentNeeds(t *testing.T) {
	w := newCouncil(t, nil, fHana, fKen, sAbe)
	needs := map[string]*approval.Need{"one": stages(of("security", 1)), "two": financeTwice, "four": {Confirm: true}}
	w.policy(func(c approval.Call) approval.Verdict {
		v := quarantine(approval.RiskHigh)
		v.Need = needs[c.Tool]
		v.RequireReason = c.Tool == "one"
		return v
	})
	var calls []approval.Call
	for _, tool := range []string{"one", "two", "three", "four"} {
		c := transfer
		c.Tool = tool
		calls = append(calls, c)
	}
	outs, err := w.gate.CheckBatch(w.ctx, calls)
	if err != nil {
		t.Fatal(err)
	}
	out := w.tap(chat.Interaction{By: fHana, Intent: chat.IntentApprove, RequestID: outs[0].Request.BatchID})
	for i, want := range []approval.Status{approval.Pending, approval.Pending, approval.Approved, approval.Pending} {
		if r := w.request(outs[i].Request.ID); r.Status != want {
			t.Errorf("%s is %s, want %s", r.Tool, r.Status, want)
		}
	}
	if r := w.request(outs[1].Request.ID); len(r.Votes) != 1 {
		t.Errorf("hana's vote on two: %+v", r.Votes)
	}
	short := func(n int) string { return outs[n].Request.ID[26-approval.ShortID:] }
	for _, want := range []string{"one (bot, " + short(0) + "): You may not decide this request.",
		"Your approval of two (bot, " + short(1) + ") counts: 1 of 2. Waiting for 1 of finance.",
		"Approved: three (bot, " + short(2) + ")."} {
		if !strings.Contains(out.Text, want) {
			t.Errorf("%q is not in %q", want, out.Text)
		}
	}
}

func TestRule5_AVoteForSomebodyAndTheirOwnCountOnceAfterAnotherDelegation(t *testing.T) {
	w := newCouncil(t, stages(of("finance", 3)), fHana, nobodys, fMei, fKen)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	give := func() approval.Delegation {
		d, err := w.gate.Delegate(w.ctx, approval.Delegation{Delegator: "hana", Delegate: "joe",
			Until: w.store.Now().Add(time.Hour)}, fHana, approval.ViaAPI)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := give()
	w.approve(id, "joe") // for hana
	if _, err := w.gate.EndDelegation(w.ctx, d.ID, fHana, approval.ViaAPI); err != nil {
		t.Fatal(err)
	}
	w.approve(id, "hana")
	give()
	if r := w.approve(id, "mei"); r.Status != approval.Pending {
		t.Fatalf("two people were three: %s by %s", r.Status, r.WhoEnded())
	}
}

func TestRule5_WhoComesBackDoesNotLeaveARequestNobodyCanDecide(t *testing.T) {
	w := newCouncil(t, financeTwice, fHana, fKen, fMei)
	id := w.expect(transfer, approval.AnswerPending).Request.ID
	w.approve(id, "hana")
	w.set(member("hana"))
	w.approve(id, "ken")
	w.set(fHana)
	if _, err := w.gate.Recheck(w.ctx); err != nil {
		t.Fatal(err)
	}
	r := w.approve(id, "mei")
	if r.Status != approval.Approved {
		t.Fatal(r.Status)
	}
}
