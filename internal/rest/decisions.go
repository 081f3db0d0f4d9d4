package rest

import (
	"context"
	"net/http"
	"strings"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/internal/budget"
	"countersign/internal/lists"
)

// shortIDs are the paths on which a person may name a request by the end of its id, in place of which its whole id is
// put before the request is answered.
func (rt *route) shortIDs() bool {
	return rt.doc.tag != "agents" && (strings.HasPrefix(rt.path, "/v1/approvals/{id}") ||
		strings.HasPrefix(rt.path, "/v1/grants/{id}"))
}

// resolveID puts the id that a person means into the path.
func (x *exchange) resolveID(ctx context.Context) error {
	typed := x.r.PathValue("id")
	if x.who.Kind != approval.Human || !x.route.shortIDs() || validID(typed) {
		return nil
	}
	find := lists.ResolveID
	switch x.route.path {
	case pathGrant:
		find = lists.ResolveGrant
	case pathDenial:
		find = lists.ResolveDenial
	}
	id, err := x.wholeID(ctx, typed, find)
	if err == nil {
		x.typed = typed
		x.r.SetPathValue("id", id)
	}
	if x.route.misses && approval.CodeOf(err) == approval.CodeNotFound {
		x.unfound = err // the gate refuses the id as it was typed, which is on record
		return nil
	}
	return err
}

// wholeID returns the id that a person means. Whole ids are not looked up. Few look-ups of one person go on at a time:
// no budget bounds how often a person denies.
func (x *exchange) wholeID(ctx context.Context, typed string,
	find func(context.Context, *approval.Gate, approval.Actor, string) (string, error)) (string, error) {
	if validID(typed) {
		return typed, nil
	}
	release, err := x.gate.Turn(ctx, x.who.Actor)
	if err != nil {
		return "", err
	}
	defer release()
	return find(ctx, x.gate, x.who.Actor, typed)
}

// requestID reads a parameter that is a request's id, or the end of one.
func (x *exchange) requestID(ctx context.Context, f *fields, name string) string {
	if !f.query.Has(name) {
		return ""
	}
	typed := f.query.Get(name)
	if len(typed) < approval.MinTyped {
		f.refuse("%s must be an id, or its last %d characters or more.", name, approval.MinTyped)
		return ""
	}
	id, err := x.wholeID(ctx, typed, lists.ResolveID)
	if err != nil && f.err == nil {
		f.err = err
	}
	return id
}

// tooShort refuses an approval of a request that few characters name.
func tooShort(typed string) error {
	if n := len(strings.TrimSpace(typed)); n > 0 && n < approval.MinTypedApprove {
		return approval.Errorf(approval.CodeInvalidParameter, "An approval takes the last %d characters of the id or more.",
			approval.MinTypedApprove)
	}
	return nil
}

// approves reads the word of a decision.
func approves(decision string) (bool, error) {
	switch decision {
	case "approve":
		return true, nil
	case "deny":
		return false, nil
	}
	return false, approval.Errorf(approval.CodeInvalidParameter, "decision must be approve or deny.")
}

func (x *exchange) readDecision() (approval.Decision, error) {
	d := approval.Decision{RequestID: x.r.PathValue("id"), By: x.who.Actor, Via: x.via()}
	var body decideBody
	err := x.read(&body)
	if err == nil {
		d.Reason, d.Confirmed = body.Reason, body.Confirmed
		d.Approve, err = approves(body.Decision)
	}
	if err == nil {
		d.Grant, err = body.Grant.wish()
	}
	if body.Version != "" {
		d.Versions = map[string]string{d.RequestID: body.Version}
	}
	if err == nil && body.Args.given {
		if d.Args = &body.Args.Args; !d.Approve {
			err = approval.Errorf(approval.CodeInvalidParameter, "args can be approved, not denied.")
		}
	}
	if err == nil && d.Approve {
		err = tooShort(x.typed)
	}
	if err == nil {
		err = x.formErr
	}
	return d, err
}

func (s *Server) decide(ctx context.Context, x *exchange) error {
	d, formErr := x.readDecision()
	switch {
	case formErr == nil:
	case approval.CodeOf(formErr) == approval.CodeUnauthorized: // removed while the body was on its way
		return formErr
	case x.who.Kind == approval.Human && x.who.Approver:
		return x.hideRequest(ctx, formErr)
	default:
		d.By.Approver = false // what could not be read is never carried out, whoever sent it
	}
	denies := func(r approval.Request) bool { return !d.Approve && x.who.Approver && r.Status == approval.Pending }
	if err := x.checkUndoes(ctx, denies); err != nil {
		return err
	}
	// A person who may not decide is refused by the gate, whatever they sent, and that is on record.
	r, err := s.gate.Decide(ctx, d)
	if x.unfound != nil && approval.CodeOf(err) == approval.CodeNotFound {
		return x.unfound
	}
	if x.who.Kind == approval.Agent && (err == nil || approval.CodeOf(err) == approval.CodeNotAnApprover) {
		return x.hideRequest(ctx, errPeopleOnly)
	}
	if err != nil {
		return err
	}
	result, err := s.readResult(ctx, &d, r)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, decisionAnswer{result})
}

// readResult returns what a decision came to: the end of the request, or how far it is.
func (s *Server) readResult(ctx context.Context, d *approval.Decision, r approval.Request) (decideResult, error) {
	if r.Status != approval.Pending {
		g, err := s.readMadeGrant(ctx, d, &r)
		return wireDecided(r, g), err
	}
	votes, err := lists.ListVotes(ctx, s.gate, r.ID)
	return wireVoted(r, votes), err
}

func (s *Server) decideMany(ctx context.Context, x *exchange) error {
	var body decideManyBody
	if err := x.read(&body); err != nil {
		return err
	}
	d := approval.Decision{By: x.who.Actor, Via: x.via(), Reason: body.Reason, Confirmed: body.Confirmed}
	var err error
	if d.Approve, err = approves(body.Decision); err != nil {
		return err
	}
	if d.Grant, err = body.Grant.wish(); err != nil {
		return err
	}
	if len(body.IDs) == 0 {
		return approval.Errorf(approval.CodeInvalidParameter, "ids must name at least one request.")
	}
	if x.over != nil && (d.Approve || !x.who.Approver) { // before anything is looked up
		return x.over()
	}
	results := make([]decideResult, len(body.IDs))
	ids, places, err := s.resolveIDs(ctx, x, body.IDs, d, results)
	if err != nil {
		return err
	}
	if err := x.affordMany(ctx, ids, d); err != nil {
		return err
	}
	if len(ids) > 0 {
		done, err := s.gate.DecideMany(ctx, ids, d)
		if err != nil {
			return err
		}
		byID := map[string]approval.Decided{}
		for _, each := range done {
			byID[each.ID] = each
		}
		for n, i := range places {
			each := byID[ids[n]]
			if each.Refusal != nil {
				results[i] = s.refusedResult(x, body.IDs[i], each.Refusal)
			} else if results[i], err = s.readResult(ctx, &d, each.Request); err != nil {
				return err
			}
		}
	}
	return x.answer(http.StatusOK, decideManyAnswer{Results: results})
}

// resolveIDs returns the ids of what typed names, and where in it each stands. What names nothing has its answer in
// results.
func (s *Server) resolveIDs(ctx context.Context, x *exchange, typed []string, d approval.Decision,
	results []decideResult) (ids []string, places []int, err error) {
	for i, t := range typed {
		var refusal error
		if d.Approve {
			refusal = tooShort(t)
		}
		id := t
		if refusal == nil {
			id, refusal = x.wholeID(ctx, t, lists.ResolveID)
		}
		switch approval.CodeOf(refusal) {
		case "":
			ids, places = append(ids, id), append(places, i)
		case approval.CodeNotFound, approval.CodeAmbiguousID, approval.CodeInvalidParameter:
			results[i] = s.refusedResult(x, t, refusal)
		default:
			return nil, nil, refusal
		}
	}
	return ids, places, nil
}

// affordMany takes many decisions from the budget of who makes them. Denials are not refused while there is something
// to deny.
func (x *exchange) affordMany(ctx context.Context, ids []string, d approval.Decision) error {
	more := len(ids) - 1 // the request itself was the first
	if d.Approve {
		return x.account.Take(budget.Calls, max(more, 0))
	}
	if x.account.Spend(budget.Calls, max(more, 0)); x.over == nil {
		return nil
	}
	for _, id := range ids {
		if h, err := x.gate.RequestHead(ctx, x.who.Actor, id); err == nil && h.Status == approval.Pending {
			return nil
		}
	}
	return x.over()
}

// refusedResult is the answer for one of several decisions. The request is left out: a hundred of them could be large.
func (s *Server) refusedResult(x *exchange, id string, err error) decideResult {
	p, _ := s.problemOf(x, err)
	p.Approval = nil
	return decideResult{refusedAnswer{ID: legible.Cut(id, 64), Error: p}}
}

func (s *Server) extend(ctx context.Context, x *exchange) error {
	err := x.readOptional(new(struct{}))
	if err == nil {
		err = x.formErr
	}
	if refused := x.admit(people); refused != nil && approval.CodeOf(err) != approval.CodeUnauthorized {
		err = refused
	}
	if err != nil {
		return x.hideRequest(ctx, err)
	}
	r, err := s.gate.Extend(ctx, x.r.PathValue("id"), x.who.Actor, x.via())
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, s.request(r))
}
