package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// MaxWait is how long the server holds a request at most.
const MaxWait = 60 * time.Second

// Call asks whether the call may run now. It does not wait for a person. For agents.
func (c *Client) Call(ctx context.Context, call Call) (Answer, error) {
	return c.CallWait(ctx, call, 0)
}

// CallWait is [Client.Call] that holds up to wait, at most [MaxWait], until the request that it made or
// joined ends. An approved answer has used the approval. For agents.
func (c *Client) CallWait(ctx context.Context, call Call, wait time.Duration) (Answer, error) {
	var a Answer
	err := c.do(ctx, http.MethodPost, "/v1/calls", nil, call.whole(), &a, wait)
	return a, err
}

// WaitFor is [Client.CallWait] for a call that was answered with pending before: it goes on waiting for the request
// that the answer named, or for the one with other arguments that a person put in its place, and never makes another.
// For agents.
func (c *Client) WaitFor(ctx context.Context, call Call, id string, wait time.Duration) (Answer, error) {
	var a Answer
	q := url.Values{"approval_id": {id}}
	err := c.do(ctx, http.MethodPost, "/v1/calls", q, call.whole(), &a, max(wait, time.Millisecond))
	return a, err
}

// CallBatch asks about the calls of one turn, at most 20; the answers are in their order. For agents.
func (c *Client) CallBatch(ctx context.Context, calls []Call) ([]Answer, error) {
	body := struct {
		Calls []Call `json:"calls"`
	}{slices.Clone(calls)}
	for i := range body.Calls {
		body.Calls[i] = body.Calls[i].whole()
	}
	var out struct {
		Results []Answer `json:"results"`
	}
	err := c.do(ctx, http.MethodPost, "/v1/calls/batch", nil, body, &out, 0)
	return out.Results, err
}

// Resolved returns the agent's endings that it has not acknowledged, oldest first; session other than
// "" narrows them to what that session asked for. With none there it holds up to wait. For agents.
func (c *Client) Resolved(ctx context.Context, session string, wait time.Duration) ([]Approval, error) {
	q := url.Values{}
	set(q, "session_id", session)
	var out struct {
		Approvals []Approval `json:"approvals"`
	}
	err := c.do(ctx, http.MethodGet, "/v1/approvals/resolved", q, nil, &out, wait)
	return out.Approvals, err
}

// Ack takes endings out of the agent's feed; doing so twice does no harm. For agents.
func (c *Client) Ack(ctx context.Context, ids ...string) (Acked, error) {
	body := struct {
		IDs []string `json:"ids"`
	}{append([]string{}, ids...)}
	var a Acked
	err := c.do(ctx, http.MethodPost, "/v1/approvals/ack", nil, body, &a, 0)
	return a, err
}

// Feed yields the agent's endings as they come, and acknowledges each once the caller has come back
// for the next: an ending is seen at least once, also across restarts. It ends with ctx's error, or
// with the first error that is not the server being away for a while. For agents.
func (c *Client) Feed(ctx context.Context, session string) iter.Seq2[Approval, error] {
	return func(yield func(Approval, error) bool) {
		var pause backoff
		for {
			as, err := c.Resolved(ctx, session, MaxWait)
			if err != nil {
				if ctx.Err() != nil || !Temporary(err) {
					yield(Approval{}, err)
					return
				}
				if err := pause.wait(ctx, err); err != nil {
					yield(Approval{}, err)
					return
				}
				continue
			}
			pause.reset()
			for _, a := range as {
				if !yield(a, nil) {
					return
				}
				_, err := c.Ack(ctx, a.ID)
				if err != nil && ctx.Err() == nil && Temporary(err) {
					err = pause.wait(ctx, err) // it comes again
				}
				if err != nil {
					yield(Approval{}, err)
					return
				}
			}
		}
	}
}

// Approval returns one request: an agent's own, for a person any.
func (c *Client) Approval(ctx context.Context, id string) (Approval, error) {
	return c.ApprovalWait(ctx, id, 0)
}

// ApprovalWait is [Client.Approval] that holds up to wait, at most [MaxWait], until the request is no
// longer pending. It uses nothing up.
func (c *Client) ApprovalWait(ctx context.Context, id string, wait time.Duration) (Approval, error) {
	var a Approval
	err := c.do(ctx, http.MethodGet, "/v1/approvals/"+url.PathEscape(id), nil, nil, &a, wait)
	return a, err
}

// Report says what came of a call that was let through with Dispatch, so that it is on record and the
// people who are asked about the same call again are told. The same again does no harm; Succeeded and
// Failed take the place of Unknown. id is [Answer.ReportID]; where a grant let the call through only ID, DispatchedAt
// and RunResult of what is returned are set. For agents.
func (c *Client) Report(ctx context.Context, id string, ran RunResult) (Approval, error) {
	body := map[string]RunResult{"outcome": ran}
	var a Approval
	err := c.do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+"/outcome", nil, body, &a, 0)
	return a, err
}

// AddInput puts on record what the server of a call is about to be told that no approver saw: the answer, JSON, to
// what it asked by method and message while the call is under way. It is to be passed on only if there is no error.
// For agents.
func (c *Client) AddInput(ctx context.Context, id, method, message string, answer json.RawMessage) (Approval, error) {
	body := map[string]any{"method": method, "message": message, "answer": answer}
	var a Approval
	err := c.do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+"/inputs", nil, body, &a, 0)
	return a, err
}

// Cancel takes back a pending request, or an approval that was not used yet. An agent may cancel its
// own, an admin any, a person what they approved.
func (c *Client) Cancel(ctx context.Context, id, reason string) (Approval, error) {
	var a Approval
	err := c.do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+"/cancel", nil, reasonBody(reason), &a, 0)
	return a, err
}

func reasonBody(reason string) any {
	if reason == "" {
		return nil
	}
	return map[string]string{"reason": reason}
}

// ApprovalQuery selects requests; empty fields do not select.
type ApprovalQuery struct {
	Status    string
	Tool      string // tool, or server/tool
	Agent     string
	RiskLevel string
	After     string // the Next of the page before
	Limit     int    // 0: the server's 50; at most 200
}

// Page is one page of a list, newest first.
type Page[T any] struct {
	Items []T
	Next  string // the After of the next page, also where this one has few items or none; "" at the end
	// Quotas come with the notification log: what channels with a monthly limit have sent, as far as known.
	Quotas []Quota
	// Heartbeat comes with it too: what the heartbeat's entries did last.
	Heartbeat []Beat
}

// Approvals lists requests. For people.
func (c *Client) Approvals(ctx context.Context, q ApprovalQuery) (Page[Approval], error) {
	v := url.Values{}
	set(v, "status", q.Status)
	set(v, "tool", q.Tool)
	set(v, "agent", q.Agent)
	set(v, "risk_level", q.RiskLevel)
	return list[Approval](ctx, c, "approvals", v, q.After, q.Limit)
}

// Verdict is a person's answer.
type Verdict string

const (
	Approve Verdict = "approve"
	Deny    Verdict = "deny"
)

// decision is the body of a decision.
type decision struct {
	IDs       []string        `json:"ids,omitempty"`
	Decision  Verdict         `json:"decision"`
	Reason    string          `json:"reason,omitempty"`
	Confirmed bool            `json:"confirmed,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	Grant     *grantOrder     `json:"grant,omitempty"`
	Version   string          `json:"version,omitempty"`
}

// grantOrder asks to give a decision for longer.
type grantOrder struct {
	For     string `json:"for,omitempty"`
	Uses    int    `json:"uses,omitempty"`
	Session bool   `json:"session,omitempty"`
}

// DecideOption says more of a decision.
type DecideOption func(*decision)

// Confirmed says that the approver was told what will happen, and said yes to it: without it some requests are
// refused with confirm_required.
func Confirmed() DecideOption { return func(d *decision) { d.Confirmed = true } }

// Seen says which version of the request was seen ([Approval.Version]): one that has changed since is not decided, and
// the code of the error is changed. It is for [Client.Decide].
func Seen(version string) DecideOption { return func(d *decision) { d.Version = version } }

// WithArgs approves other arguments, a JSON object, in place of those that were asked for.
func WithArgs(args json.RawMessage) DecideOption { return func(d *decision) { d.Args = args } }

// GrantTerms say for how long a decision is given: at least one of them.
type GrantTerms struct {
	For     time.Duration // 0: as long as a grant may last, which is 24 hours
	Uses    int           // for so many calls, the one that is decided not among them; 0: any number
	Session bool          // only for calls of the request's session
}

// GrantFor gives the decision for longer: the same call is let through without asking or, with [Deny], denied. Where
// that may not be, nothing is decided: grant_refused.
func GrantFor(t GrantTerms) DecideOption {
	return func(d *decision) {
		d.Grant = &grantOrder{Uses: t.Uses, Session: t.Session}
		if t.For != 0 {
			d.Grant.For = t.For.String()
		}
	}
}

func newDecision(v Verdict, reason string, opts []DecideOption) decision {
	d := decision{Decision: v, Reason: reason}
	for _, o := range opts {
		o(&d)
	}
	return d
}

// Decide approves or denies a request, with a reason or "". For people with the role approver, who may name it by the
// last characters of its id: four, to approve six.
func (c *Client) Decide(ctx context.Context, id string, v Verdict, reason string,
	opts ...DecideOption) (Decided, error) {
	var d Decided
	err := c.do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+"/decide", nil, newDecision(v, reason, opts),
		&d, 0)
	return d, err
}

// DecideMany approves or denies several requests, at most 100, each by itself; the results are in their order. Of the
// options [Confirmed] and [GrantFor] are for it.
func (c *Client) DecideMany(ctx context.Context, ids []string, v Verdict, reason string,
	opts ...DecideOption) ([]DecideResult, error) {
	body := newDecision(v, reason, opts)
	body.IDs = append([]string{}, ids...)
	var out struct {
		Results []DecideResult `json:"results"`
	}
	err := c.do(ctx, http.MethodPost, "/v1/approvals/decide", nil, body, &out, 0)
	return out.Results, err
}

// GrantQuery selects grants; empty fields do not select.
type GrantQuery struct {
	Agent string
	All   bool   // ended ones too
	After string // the Next of the page before
	Limit int    // 0: the server's 50; at most 200
}

// Grants lists grants and standing denials: all of them for approvers and admins, an agent's own for it.
func (c *Client) Grants(ctx context.Context, q GrantQuery) (Page[Grant], error) {
	v := url.Values{}
	set(v, "agent", q.Agent)
	if q.All {
		v.Set("all", "true")
	}
	return list[Grant](ctx, c, "grants", v, q.After, q.Limit)
}

// Grant returns one grant or standing denial.
func (c *Client) Grant(ctx context.Context, id string) (Grant, error) {
	var g Grant
	err := c.do(ctx, http.MethodGet, "/v1/grants/"+url.PathEscape(id), nil, nil, &g, 0)
	return g, err
}

// Revoke ends a grant or a standing denial. For the person who made it, and admins.
func (c *Client) Revoke(ctx context.Context, id string) (Grant, error) {
	var g Grant
	err := c.do(ctx, http.MethodDelete, "/v1/grants/"+url.PathEscape(id), nil, nil, &g, 0)
	return g, err
}

// Lift forgets a denial that answers the same call again: that of a request, or a standing one. For the person who
// denied, and admins.
func (c *Client) Lift(ctx context.Context, id string) (Lifted, error) {
	var l Lifted
	err := c.do(ctx, http.MethodDelete, "/v1/approvals/"+url.PathEscape(id)+"/denial", nil, nil, &l, 0)
	return l, err
}

// Extend gives a pending request one hour more, once and before its deadline. For people who may vote on it, and
// admins.
func (c *Client) Extend(ctx context.Context, id string) (Approval, error) {
	var a Approval
	err := c.do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+"/extend", nil, nil, &a, 0)
	return a, err
}

// Freeze denies every call of an agent, or for "" of all, until a person lifts it, and ends what waits. For approvers
// and admins.
func (c *Client) Freeze(ctx context.Context, agent, reason string) (Freeze, error) {
	body := map[string]string{"reason": reason}
	if agent != "" {
		body["agent"] = agent
	}
	var f Freeze
	err := c.do(ctx, http.MethodPost, "/v1/freeze", nil, body, &f, 0)
	return f, err
}

// Unfreeze lifts the freeze of an agent, or for "" that of all. What it ended stays ended. For admins.
func (c *Client) Unfreeze(ctx context.Context, agent string) (Freeze, error) {
	q := url.Values{}
	set(q, "agent", agent)
	var f Freeze
	err := c.do(ctx, http.MethodDelete, "/v1/freeze", q, nil, &f, 0)
	return f, err
}

// AcceptClock says that the clock of the gate's machine is right, after it was set, and ends what waits. It returns how
// far the clock had jumped ahead of the store's time; below 0: how far it is behind. For admins.
func (c *Client) AcceptClock(ctx context.Context) (time.Duration, error) {
	var out struct {
		OffMS int64 `json:"off_ms"`
	}
	err := c.do(ctx, http.MethodPost, "/v1/clock/accept", nil, nil, &out, 0)
	return time.Duration(out.OffMS) * time.Millisecond, err
}

// Erased counts requests: those of which arguments and texts were removed, and those that are as they were, since
// something is still to come of them or nothing was left.
type Erased struct {
	Requests int    `json:"requests"`
	Kept     int    `json:"kept"`
	Next     string `json:"next,omitempty"` // of one call where there are many
}

// EraseRequest removes the arguments of a request that is over, with all texts made of them or with them, for good. The
// end of its id is enough. For admins.
func (c *Client) EraseRequest(ctx context.Context, id string) (Erased, error) {
	return c.erase(ctx, map[string]string{"request": id})
}

// EraseAgent is EraseRequest of all requests of an agent, also of one that is not configured any more. It takes many
// calls where there are many; where one fails, those before have counted, and it can be called again.
func (c *Client) EraseAgent(ctx context.Context, agent string) (all Erased, err error) {
	for body := map[string]string{"agent": agent}; ; {
		some, err := c.erase(ctx, body)
		all.Requests += some.Requests
		all.Kept += some.Kept
		if err != nil || some.Next == "" {
			return all, err
		}
		body["after"] = some.Next
	}
}

func (c *Client) erase(ctx context.Context, what map[string]string) (e Erased, err error) {
	err = c.do(ctx, http.MethodPost, "/v1/erase", nil, what, &e, 0)
	return e, err
}

// SignInLink makes a link that signs the caller in to the pages, once and within ten minutes. For people.
func (c *Client) SignInLink(ctx context.Context) (SignInLink, error) {
	var l SignInLink
	err := c.do(ctx, http.MethodPost, "/v1/sign-in-links", nil, nil, &l, 0)
	return l, err
}

// Frozen lists what is frozen. For people.
func (c *Client) Frozen(ctx context.Context) ([]Freeze, error) {
	var out struct {
		Frozen []Freeze `json:"frozen"`
	}
	err := c.do(ctx, http.MethodGet, "/v1/freeze", nil, nil, &out, 0)
	return out.Frozen, err
}

// Delegate has d.To vote for d.For until d.Until: from d.From, or from now; d.For is the caller where it is "". Only
// these and d.Rule are sent. For approvers; an admin sets it up for others.
func (c *Client) Delegate(ctx context.Context, d Delegation) (Delegation, error) {
	body := struct {
		To    string `json:"to"`
		Until Time   `json:"until"`
		From  Time   `json:"from,omitzero"`
		Rule  string `json:"rule,omitempty"`
		For   string `json:"for,omitempty"`
	}{d.To, d.Until, d.From, d.Rule, d.For}
	var made Delegation
	err := c.do(ctx, http.MethodPost, "/v1/delegations", nil, body, &made, 0)
	return made, err
}

// Delegations lists those that hold or will hold. For people.
func (c *Client) Delegations(ctx context.Context) ([]Delegation, error) {
	var out struct {
		Delegations []Delegation `json:"delegations"`
	}
	err := c.do(ctx, http.MethodGet, "/v1/delegations", nil, nil, &out, 0)
	return out.Delegations, err
}

// EndDelegation ends a delegation before its time. For either of the two, and admins.
func (c *Client) EndDelegation(ctx context.Context, id string) (Delegation, error) {
	var d Delegation
	err := c.do(ctx, http.MethodDelete, "/v1/delegations/"+url.PathEscape(id), nil, nil, &d, 0)
	return d, err
}

// NotificationQuery selects rows of the notification log; empty fields do not select.
type NotificationQuery struct {
	Status     string
	Channel    string
	ApprovalID string
	After      string
	Limit      int
}

// Notifications lists the notification log. For admins.
func (c *Client) Notifications(ctx context.Context, q NotificationQuery) (Page[Notification], error) {
	v := url.Values{}
	set(v, "status", q.Status)
	set(v, "channel", q.Channel)
	set(v, "approval_id", q.ApprovalID)
	return list[Notification](ctx, c, "notifications", v, q.After, q.Limit)
}

// RetryNotification has a failed notification sent again from the start. For admins.
func (c *Client) RetryNotification(ctx context.Context, id string) (Notification, error) {
	var n Notification
	err := c.do(ctx, http.MethodPost, "/v1/notifications/"+url.PathEscape(id)+"/retry", nil, nil, &n, 0)
	return n, err
}

// AuditQuery selects audit events; empty fields do not select.
type AuditQuery struct {
	EventType     string
	Decision      string
	RiskLevel     string
	Tool          string
	Agent         string
	Actor         string // a person's name, agent:NAME, system:…
	ApprovalID    string
	CorrelationID string
	SessionID     string    // what this session of an agent asked for
	Since         time.Time // at or after
	Until         time.Time // before
	After         string
	Limit         int
}

func (q AuditQuery) values() url.Values {
	v := url.Values{}
	set(v, "event_type", q.EventType)
	set(v, "decision", q.Decision)
	set(v, "risk_level", q.RiskLevel)
	set(v, "tool", q.Tool)
	set(v, "agent", q.Agent)
	set(v, "actor", q.Actor)
	set(v, "approval_id", q.ApprovalID)
	set(v, "correlation_id", q.CorrelationID)
	set(v, "session_id", q.SessionID)
	setTime(v, "since", q.Since)
	setTime(v, "until", q.Until)
	return v
}

// Audit lists the audit log. For admins.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (Page[AuditEvent], error) {
	return list[AuditEvent](ctx, c, "audit", q.values(), q.After, q.Limit)
}

// The forms of an export.
const (
	CSV    = "csv"    // with a line of names, and no cell that a spreadsheet takes for a formula
	NDJSON = "ndjson" // one JSON object a line
)

// ExportAudit writes all of the audit log that q selects to w, newest first; q.Limit must be 0. What could not be read
// to its end is an error, whatever has been written by then. It takes as long as it takes. For admins.
func (c *Client) ExportAudit(ctx context.Context, q AuditQuery, format string, w io.Writer) error {
	v := q.values()
	set(v, "after", q.After)
	set(v, "format", format)
	if q.Limit != 0 {
		return errors.New("client: an export has no limit")
	}
	resp, err := c.send(ctx, http.MethodGet, "/v1/audit", v, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
		return refusal(resp, b)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("client: the export broke off: %w", err)
	}
	return nil
}

// Policy returns the text of a policy that was in force by its digest, of which the first 8 characters will do. For
// approvers and admins.
func (c *Client) Policy(ctx context.Context, digest string) (Policy, error) {
	var p Policy
	err := c.do(ctx, http.MethodGet, "/v1/policies/"+url.PathEscape(digest), nil, nil, &p, 0)
	return p, err
}

// Stats returns how often people were asked, and what they said: after about 200 ms of the newest part, or of the
// whole, which may take a minute, and at most two. For approvers and admins.
func (c *Client) Stats(ctx context.Context, q StatsQuery) (Stats, error) {
	v := url.Values{}
	setTime(v, "since", q.Since)
	setTime(v, "until", q.Until)
	set(v, "agent", q.Agent)
	if q.Whole {
		v.Set("whole", "true")
	}
	var out Stats
	err := c.doIn(ctx, c.timeout+2*time.Minute, http.MethodGet, "/v1/stats", v, nil, &out)
	return out, err
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setTime(q url.Values, name string, t time.Time) {
	if !t.IsZero() {
		q.Set(name, t.UTC().Format(time.RFC3339Nano))
	}
}

// list brings one page of the list at /v1/what.
func list[T any](ctx context.Context, c *Client, what string, q url.Values, after string, limit int) (Page[T], error) {
	set(q, "after", after)
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var out struct {
		Approvals     []T     `json:"approvals"`
		Notifications []T     `json:"notifications"`
		Events        []T     `json:"events"`
		Grants        []T     `json:"grants"`
		Next          string  `json:"next"`
		Quotas        []Quota `json:"quotas"`
		Heartbeat     []Beat  `json:"heartbeat"`
	}
	if err := c.do(ctx, http.MethodGet, "/v1/"+what, q, nil, &out, 0); err != nil {
		return Page[T]{}, err
	}
	// One of the lists is there, whichever it was.
	items := slices.Concat(out.Approvals, out.Notifications, out.Events, out.Grants)
	return Page[T]{Items: items, Next: out.Next,
		Quotas: out.Quotas, Heartbeat: out.Heartbeat}, nil
}

// Temporary reports whether err may be over in a moment: the server is away, or too busy.
func Temporary(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests
	}
	return Unreachable(err)
}
