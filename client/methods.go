package client

import (
	"context"
	"encoding/json"
	"errors"
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
// Failed take the place of Unknown. For agents.
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
	Next  string // the After of the next page; "" at the end
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

// Decide approves or denies a request, with a reason or "". For people with the role approver.
func (c *Client) Decide(ctx context.Context, id string, v Verdict, reason string) (Decided, error) {
	body := map[string]string{"decision": string(v)}
	if reason != "" {
		body["reason"] = reason
	}
	var d Decided
	err := c.do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(id)+"/decide", nil, body, &d, 0)
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
	EventType string
	Decision  string
	RiskLevel string
	Tool      string
	Agent     string
	Since     time.Time // at or after
	Until     time.Time // before
	After     string
	Limit     int
}

// Audit lists the audit log. For admins.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (Page[AuditEvent], error) {
	v := url.Values{}
	set(v, "event_type", q.EventType)
	set(v, "decision", q.Decision)
	set(v, "risk_level", q.RiskLevel)
	set(v, "tool", q.Tool)
	set(v, "agent", q.Agent)
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if !q.Until.IsZero() {
		v.Set("until", q.Until.UTC().Format(time.RFC3339Nano))
	}
	return list[AuditEvent](ctx, c, "audit", v, q.After, q.Limit)
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
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
		Next          string  `json:"next"`
		Quotas        []Quota `json:"quotas"`
		Heartbeat     []Beat  `json:"heartbeat"`
	}
	if err := c.do(ctx, http.MethodGet, "/v1/"+what, q, nil, &out, 0); err != nil {
		return Page[T]{}, err
	}
	// One of the three lists is there, whichever list it was.
	return Page[T]{Items: append(append(out.Approvals, out.Notifications...), out.Events...), Next: out.Next,
		Quotas: out.Quotas, Heartbeat: out.Heartbeat}, nil
}

// Temporary reports whether err may be over in a moment: the server is away, or too busy.
func Temporary(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests
	}
	return Unreachable(err)
}
