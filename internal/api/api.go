// Package api tells calls, answers and requests of the domain as [client] has them, which are /v1's, and back: for who
// serves the API, and for who asks a gate without caring in which process it is. What the API does not say of a request
// is not there when it comes back.
package api

import (
	"cmp"
	"encoding/json"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/client"
)

// toolsCall is the method of a call that has no other.
const toolsCall = "tools/call"

// ToCall returns the call that agent wants to make, with its args as they were read.
func ToCall(c client.Call, agent string, arguments args.Args) approval.Call {
	if c.Method == toolsCall {
		c.Method = ""
	}
	return approval.Call{Agent: agent, Tool: c.Tool, Args: arguments, Server: c.Server, Scope: c.Scope,
		TurnID: c.TurnID, SessionID: c.SessionID, Rationale: c.Rationale, Preview: c.Preview,
		Method: c.Method, ToolDigest: c.ToolDigest, ListedDigest: c.ListedDigest,
		Dispatch: c.Dispatch, Task: c.Task, AcceptsEdits: c.AcceptsEdits, Waits: c.Waits,
		Annotations: (*approval.Annotations)(c.Annotations)}
}

// FromCall returns a call as an agent asks about it over the API.
func FromCall(c approval.Call) client.Call {
	return client.Call{Tool: c.Tool, Args: json.RawMessage(c.Args.Canonical()), Server: c.Server, Scope: c.Scope,
		TurnID: c.TurnID, SessionID: c.SessionID, Rationale: c.Rationale, Preview: c.Preview,
		Method: c.Method, ToolDigest: c.ToolDigest, ListedDigest: c.ListedDigest,
		Dispatch: c.Dispatch, Task: c.Task, AcceptsEdits: c.AcceptsEdits, Waits: c.Waits,
		Annotations: (*client.Annotations)(c.Annotations)}
}

// FromAnswer returns what an agent is told.
func FromAnswer(o approval.Answer) client.Answer {
	a := client.Answer{Kind: client.AnswerKind(o.Kind), Message: o.Message, RiskLevel: string(o.Risk), Rule: o.Rule,
		ReasonCode: o.ReasonCode, EndCode: o.EndCode}
	if r := o.Request; r != nil {
		a.ApprovalID, a.ResolvedBy, a.ResolveReason = r.ID, r.ResolvedBy, r.ResolveReason
		if o.Kind == approval.AnswerPending {
			a.ExpiresAt = At(r.ExpiresAt)
		}
		if o.Kind == approval.AnswerApproved {
			a.Args, a.Note = r.Args, o.Note
			if o.Args != nil {
				a.Args, a.Replaces = o.Args, r.Replaces
			}
		}
	}
	if g := o.Grant; g != nil {
		a.GrantID = g.ID
		if a.ResolvedBy == "" {
			a.ResolvedBy, a.ResolveReason = g.By, g.Reason
		}
		if o.Kind == approval.AnswerAllow {
			a.RunID = o.RunID
		}
	}
	return a
}

// FromRequest returns a request as it is shown to whoever may see it; summary says in a sentence what will happen.
func FromRequest(r approval.Request, summary string) client.Approval {
	return client.Approval{
		ID: r.ID, Status: string(r.Status), Agent: r.Agent, Scope: r.Scope, Server: r.Server, Tool: r.Tool,
		Method: r.Method, Args: r.Args, ArgsHash: r.ArgsHash, ArgsRemovedAt: At(r.ArgsRemovedAt),
		ArgsBytes: r.ArgsBytes, RiskLevel: string(r.Risk), Rule: r.Rule,
		ReasonCode: cmp.Or(r.EndCode, r.ReasonCode), EndCode: r.EndCode, Summary: summary, HumanMessage: r.HumanMessage,
		Rationale: r.Rationale, Preview: r.Preview, PreviewFrom: r.PreviewFrom, TurnID: r.TurnID, SessionID: r.SessionID,
		RequestedAt: At(r.RequestedAt), ExpiresAt: At(r.ExpiresAt), ResolvedAt: At(r.ResolvedAt),
		ResolvedBy: r.ResolvedBy, ResolvedVia: string(r.ResolvedVia), ResolveReason: r.ResolveReason,
		UseBy: At(r.UseBy), ConsumedAt: At(r.ConsumedAt), LapsedAt: At(r.LapsedAt), Task: r.Task,
		DispatchedAt: At(r.DispatchedAt), RunResult: client.RunResult(r.RunResult),
		Inputs: Each(r.Inputs, fromInput), Previous: fromUse(r.Previous),
		Votes: votes(r), Needs: FromNeed(r.Need), StepUp: r.Need.StepUpWord(),
		Replaces: r.Replaces, ReplacedBy: r.ReplacedBy, PolicyDigest: r.Policy, BatchID: r.BatchID,
		Before: fromSaid(r.Before), Message: r.FeedMessage(), Version: r.Version(),
	}
}

func fromSaid(s *approval.Said) *client.Said {
	if s == nil {
		return nil
	}
	return &client.Said{RequestID: s.RequestID, Approved: s.Approved, By: s.By, At: At(s.At), Reason: s.Reason}
}

// FromVote returns one vote.
func FromVote(v approval.Vote) client.Vote {
	return client.Vote{Stage: v.Stage, Person: v.Person, For: v.For, Decision: Verdicts[v.Approve],
		Reason: v.Reason, At: At(v.At), Via: string(v.Via), StepUp: v.StepUpWord()}
}

// Verdicts are the words for a yes and a no.
var Verdicts = map[bool]client.Verdict{true: client.Approve, false: client.Deny}

// votes are a request's votes. Where one person simply decided, that decision is the one vote.
func votes(r approval.Request) []client.Vote {
	simply := r.Status == approval.Approved || r.Status == approval.Denied
	if len(r.Votes) > 0 || !simply || r.EndCode != "" || r.ResolvedVia == approval.ViaSystem {
		return Each(r.Votes, FromVote)
	}
	return []client.Vote{FromVote(approval.Vote{Stage: 1, Person: r.ResolvedBy, Approve: r.Status == approval.Approved,
		Reason: r.ResolveReason, At: r.ResolvedAt, Via: r.ResolvedVia})}
}

// FromNeed returns who must say yes, stage by stage.
func FromNeed(n *approval.Need) []client.Stage {
	return Each(n.InStages(), func(s approval.Stage) client.Stage {
		return client.Stage{Group: s.Group, Approvers: s.Approvers, Count: s.Count}
	})
}

func fromInput(in approval.Input) client.Input {
	return client.Input{At: At(in.At), Method: in.Method, Message: in.Message, Answer: in.Answer}
}

func fromUse(u *approval.Use) *client.Use {
	if u == nil {
		return nil
	}
	return &client.Use{
		ApprovalID: u.RequestID, ApprovedBy: u.ApprovedBy, ApprovedAt: At(u.ApprovedAt),
		ConsumedAt: At(u.ConsumedAt), DispatchedAt: At(u.DispatchedAt), RunResult: client.RunResult(u.RunResult),
	}
}

// At returns a point in time as the API has it.
func At(t time.Time) client.Time { return client.Time{Time: t} }

// Each returns what f makes of all rows; it is never nil.
func Each[T, J any](rows []T, f func(T) J) []J {
	js := make([]J, len(rows))
	for i, r := range rows {
		js[i] = f(r)
	}
	return js
}

// ToRequest returns a request of the API as one of the domain, as far as it is told there.
func ToRequest(a client.Approval) approval.Request {
	if exact, err := args.Parse(a.Args); err == nil {
		a.Args = exact.Canonical() // JSON has more than one way to write a text
	}
	r := approval.Request{
		ID: a.ID, Status: approval.Status(a.Status), Agent: a.Agent, Scope: a.Scope, Server: a.Server, Tool: a.Tool,
		Method: a.Method, Args: a.Args, ArgsHash: a.ArgsHash, ArgsRemovedAt: a.ArgsRemovedAt.Time,
		ArgsBytes: a.ArgsBytes, Risk: approval.Risk(a.RiskLevel), Rule: a.Rule,
		ReasonCode: a.ReasonCode, EndCode: a.EndCode, HumanMessage: a.HumanMessage,
		Rationale: a.Rationale, Preview: a.Preview, PreviewFrom: a.PreviewFrom, TurnID: a.TurnID, SessionID: a.SessionID,
		RequestedAt: a.RequestedAt.Time, ExpiresAt: a.ExpiresAt.Time, ResolvedAt: a.ResolvedAt.Time,
		ResolvedBy: a.ResolvedBy, ResolvedVia: approval.Via(a.ResolvedVia), ResolveReason: a.ResolveReason,
		UseBy: a.UseBy.Time, ConsumedAt: a.ConsumedAt.Time, LapsedAt: a.LapsedAt.Time, Task: a.Task,
		DispatchedAt: a.DispatchedAt.Time, RunResult: approval.RunResult(a.RunResult),
		Replaces: a.Replaces, ReplacedBy: a.ReplacedBy, BatchID: a.BatchID,
	}
	if who := a.Who(); who != a.ResolvedBy { // which says it alone
		r.Who = who
	}
	for _, in := range a.Inputs {
		r.Inputs = append(r.Inputs, approval.Input{At: in.At.Time, Method: in.Method, Message: in.Message, Answer: in.Answer})
	}
	if u := a.Previous; u != nil {
		r.Previous = &approval.Use{RequestID: u.ApprovalID, ApprovedBy: u.ApprovedBy, ApprovedAt: u.ApprovedAt.Time,
			ConsumedAt: u.ConsumedAt.Time, DispatchedAt: u.DispatchedAt.Time, RunResult: approval.RunResult(u.RunResult)}
	}
	return r
}
