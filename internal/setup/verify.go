package setup

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"countersign/channels"
	"countersign/channels/line"
	"countersign/channels/slack"
	"countersign/client"
	"countersign/internal/config"
)

// Tool is the tool of the test call. Nothing is called so, and no agent may have one of that name.
const Tool = "countersign.verify"

// Trial says what [Verify] works with. All but Wait, Waiting and the Watch are required.
type Trial struct {
	Config  *config.Config // of the gate: its secrets sign what is tried
	Admin   *client.Client // a person's with the role admin, who looks
	Agent   *client.Client // an agent's, who asks for the test call
	Webhook string         // where the webhooks are, without /webhook/…; see [WebhookURL]
	Wait    time.Duration  // how long the person has to tap; 0: nobody is asked to
	Waiting func(left time.Duration)
	Watch
}

// ServerURL is where the gate of a configuration has its API, seen from its own machine.
func ServerURL(cfg *config.Config) string { return scheme[cfg.TLS != nil] + dialable(cfg.Listen) }

// WebhookURL is where the gate of a configuration takes webhooks: from outside where that is known, else
// as seen from its own machine.
func WebhookURL(cfg *config.Config) string {
	switch {
	case cfg.PublicURL != "":
		return cfg.PublicURL
	case cfg.WebhookListen != "":
		return scheme[cfg.WebhookTLS != nil] + dialable(cfg.WebhookListen)
	}
	return ServerURL(cfg)
}

// scheme is that of a listener that has a certificate, or has none.
var scheme = map[bool]string{true: "https://", false: "http://"}

// dialable is an address to listen on as one to call.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// How long the cards may take to go out, and the tidying up at the end.
const (
	sendWithin = 30 * time.Second
	tidyWithin = 10 * time.Second
)

// Verify has a test card sent and tries what must not decide it. What held is told as findings, where a
// [Problem] is something that did not. The error says why it could not go on: the gate's, where that is
// a *[client.Error].
func Verify(ctx context.Context, t Trial) error {
	v := &verification{Trial: t, http: channels.NewHTTPClient(channels.HTTPTimeout)}
	defer v.http.CloseIdleConnections()
	newest, err := t.Admin.Audit(ctx, client.AuditQuery{Limit: 1})
	if err != nil {
		return err
	}
	for _, e := range newest.Items {
		v.since = e.Seq
	}
	rooms := v.rooms(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	asked, err := v.ask(ctx)
	if asked {
		defer v.tidy(ctx)
	}
	if err != nil || !asked {
		return err
	}
	if err := v.cards(ctx); err != nil {
		return err
	}
	for _, r := range rooms {
		for _, a := range r.attempts(v.id, v.now()) {
			if on, err := v.try(ctx, r.channel(), a); err != nil || !on {
				return err
			}
		}
	}
	if t.Wait == 0 {
		return nil
	}
	return v.tap(ctx, rooms)
}

// verification is one run.
type verification struct {
	Trial
	http  *http.Client
	since int64           // the newest audit event from before
	id    string          // of the test request
	stand client.Approval // how it stood last
	call  client.Call
}

// now is a time that is not before the request, should the gate's clock be ahead of ours.
func (v *verification) now() time.Time {
	now := time.Now()
	if v.stand.RequestedAt.After(now) {
		return v.stand.RequestedAt.Time
	}
	return now
}

// rooms are the chats in which something can be tried, once their platforms have said who the bot is.
func (v *verification) rooms(ctx context.Context) (rooms []room) {
	if c, ok := v.Config.Channels[line.Name].(*line.Config); ok {
		v.doing("LINE: who the bot is")
		if r, err := newLineRoom(ctx, *c, v.post); err != nil {
			v.cannot(line.Name, "LINE does not say who the bot is, so nothing could be tried there", err)
		} else {
			rooms = append(rooms, r)
		}
	}
	if c, ok := v.Config.Channels[slack.Name].(*slack.Config); ok && ctx.Err() == nil {
		v.doing("Slack: which workspace the bot is in")
		if r, err := newSlackRoom(ctx, *c, v.post); err != nil {
			v.cannot(slack.Name, "Slack does not say which workspace the bot is in, so nothing could be tried there", err)
		} else {
			rooms = append(rooms, r)
			if c.AppToken != "" {
				v.ok(slack.Name, "Slack is heard over Socket Mode, which nobody else can write to; what is posted to "+
					"/webhook/slack is tried all the same")
			}
		}
	}
	if len(rooms) == 0 && ctx.Err() == nil {
		v.problem(gate, "there is no chat to test in",
			"configure channels.line or channels.slack; countersign check --online says what is missing")
	}
	return rooms
}

func (v *verification) cannot(channel, what string, err error) {
	v.problem(channel, what+": "+channels.Said(channels.AsPushError(err).Error()),
		"countersign check --online says what to do")
}

// ask makes the test request; false says that it did not come to be one.
func (v *verification) ask(ctx context.Context) (bool, error) {
	v.doing("the test request")
	args, err := json.Marshal(map[string]string{"note": "A test by countersign verify. It does nothing.",
		"run": rand.Text()})
	if err != nil {
		return false, err
	}
	v.call = client.Call{Tool: Tool, Args: args, SessionID: "countersign-verify",
		Rationale: "countersign verify shows that only you can decide this. Please wait until it asks you to tap."}
	answer, err := v.Agent.Call(ctx, v.call)
	switch {
	case err != nil:
		return false, err
	case answer.Kind != client.AnswerPending:
		v.problem(gate, fmt.Sprintf("a call of %s is not asked about: the policy says %q (rule %s), so no card comes of it",
			Tool, answer.Kind, answer.Rule),
			fmt.Sprintf("put {tools: [%s], action: ask, risk: high} before the other rules, and let mode be enforce",
				Tool))
		return false, nil
	}
	v.id = answer.ApprovalID
	if v.stand, err = v.Admin.Approval(ctx, v.id); err != nil {
		return true, err
	}
	v.ok(gate, fmt.Sprintf("a call of %s waits for a person: request %s", Tool, v.id))
	return true, nil
}

// cards waits until the cards of the test request are out.
func (v *verification) cards(ctx context.Context) error {
	v.doing("the cards")
	var rows []client.Notification
	for until := time.Now().Add(sendWithin); ; {
		page, err := v.Admin.Notifications(ctx, client.NotificationQuery{ApprovalID: v.id})
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(page.Items, func(n client.Notification) bool { return n.Kind != "request" })
		waits := slices.ContainsFunc(rows, func(n client.Notification) bool {
			return n.Status == "queued" ||
				n.Status == "retrying"
		})
		if !waits || time.Now().After(until) {
			break
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	sent := 0
	for _, n := range rows {
		if n.Status == "sent" || n.Status == "delivered" {
			sent++
			v.ok(n.Channel, "the test card went to "+v.name(n.Channel, n.Recipient))
		}
	}
	const do = "countersign check --online says what is missing; countersign notifications --approval-id shows each try"
	for _, n := range rows {
		if n.Status == "sent" || n.Status == "delivered" {
			continue
		}
		level := Problem
		if sent > 0 {
			level = Warning
		}
		v.report(n.Channel, level, fmt.Sprintf("the test card did not go to %s: %s", v.name(n.Channel, n.Recipient),
			strings.TrimSpace(n.Status+" "+channels.Said(n.Error))), do)
	}
	if len(rows) == 0 {
		v.problem(gate, "the gate notifies nobody of the test request",
			"name people in channels.line.notify, or a channel in channels.slack.channel")
	}
	return nil
}

// name is what people call a recipient.
func (v *verification) name(channel, recipient string) string {
	for _, p := range v.Config.File.People {
		if recipient != "" && p.Addresses[channel].Reveal() == recipient {
			return p.Name
		}
	}
	return recipient
}

// attempt is one thing that must not decide anything.
type attempt struct {
	what   string // a forged signature
	send   func(ctx context.Context) (status int, err error)
	status int // what it must be answered with
	// trace is what must be on record of it; its zero value is nothing.
	trace trace
}

// trace is an audit event. Empty fields are not looked at.
type trace struct {
	event, reason, actor, correlation string
}

func (t trace) of(e client.AuditEvent) bool {
	return e.EventType == t.event && (t.reason == "" || e.Reason == t.reason) && (t.actor == "" || e.Actor == t.actor) &&
		(t.correlation == "" || e.CorrelationID == t.correlation)
}

// try makes an attempt and looks at what came of it. false says that the request has changed, so that
// further attempts would show nothing.
func (v *verification) try(ctx context.Context, channel string, a attempt) (bool, error) {
	v.doing(channel + ": " + a.what)
	status, err := a.send(ctx)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		v.problem(channel, fmt.Sprintf("%s could not be tried, since nothing answers at %s: %s", a.what, plainURL(v.Webhook),
			plainly(err)), "start countersign serve and the tunnel or proxy before it, or say with --webhook where its "+
			"webhooks are")
		return true, nil
	}
	stand, err := v.Admin.Approval(ctx, v.id)
	if err != nil {
		return false, err
	}
	if stand.Status != v.stand.Status || stand.ResolvedBy != v.stand.ResolvedBy ||
		!stand.ResolvedAt.Equal(v.stand.ResolvedAt.Time) {
		before := v.stand
		v.stand = stand
		if before.Status == "pending" && v.isPerson(stand.ResolvedBy) {
			v.problem(gate, fmt.Sprintf("%s has %s the test request before all was tried", stand.ResolvedBy, stand.Status),
				"run countersign verify again, and tap when it asks you to")
		} else {
			v.problem(channel, fmt.Sprintf("%s DECIDED: the request was %s and is %s, by %s", a.what, before.Status,
				stand.Status, stand.ResolvedBy), "stop the gate, and report this")
		}
		return false, nil
	}
	if status != a.status {
		v.problem(channel, fmt.Sprintf("%s decided nothing, but was answered with HTTP status %d, and not %d", a.what, status,
			a.status), v.statusAdvice(status))
		return true, nil
	}
	if a.trace == (trace{}) {
		v.ok(channel, fmt.Sprintf("%s is refused (HTTP status %d)", a.what, status))
		return true, nil
	}
	events, err := v.Admin.Audit(ctx, client.AuditQuery{EventType: a.trace.event, Limit: 200})
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(events.Items, func(e client.AuditEvent) bool { return e.Seq > v.since && a.trace.of(e) }) {
		v.problem(channel, fmt.Sprintf("%s decided nothing, but it is not on record as %s", a.what, a.trace.event),
			"look at countersign audit query and at the gate's log")
		return true, nil
	}
	v.ok(channel, fmt.Sprintf("%s decides nothing, and is on record as %s", a.what, a.trace.event))
	return true, nil
}

func (v *verification) statusAdvice(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "the secrets in this configuration are not the running gate's: verify with its own file, and look at both " +
			"machines' clocks"
	case http.StatusServiceUnavailable:
		return "the gate does not know its bot yet, or cannot store: look at its /readyz, and try again"
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusBadGateway, http.StatusGatewayTimeout:
		return "something other than the gate's webhooks is at " + plainURL(v.Webhook) + ": say with --webhook where they are"
	}
	return "look at the gate's log"
}

func (v *verification) isPerson(name string) bool {
	return slices.ContainsFunc(v.Config.File.People, func(p config.Person) bool { return p.Name == name })
}

// tap waits for the person's own tap, and tries what must not come after it.
func (v *verification) tap(ctx context.Context, rooms []room) error {
	v.doing("the person's own tap")
	for until := time.Now().Add(v.Wait); v.stand.Status == "pending"; {
		left := time.Until(until)
		if left <= 0 {
			v.problem(gate, fmt.Sprintf("nobody tapped within %s", v.Wait),
				"check whether the card arrived; if it did, taps do not find their way back: countersign check --online")
			return nil
		}
		if v.Waiting != nil {
			v.Waiting(left)
		}
		asked := time.Now()
		stand, err := v.Admin.ApprovalWait(ctx, v.id, min(left, time.Second))
		if err != nil {
			return err
		}
		v.stand = stand
		if stand.Status == "pending" {
			if err := pause(ctx, min(time.Second-time.Since(asked), left)); err != nil {
				return err
			}
		}
	}
	by, via := v.stand.ResolvedBy, v.stand.ResolvedVia
	if !v.isPerson(by) || via != line.Name && via != slack.Name {
		v.problem(gate, fmt.Sprintf("the request was %s by %s over %s, and not by a tap", v.stand.Status, by, via),
			"run countersign verify again, and tap on the card")
		return nil
	}
	v.ok(via, fmt.Sprintf("%s %s it by a tap", by, v.stand.Status))
	for _, r := range rooms {
		for _, a := range r.afterwards(v.id, v.now()) {
			if on, err := v.try(ctx, r.channel(), a); err != nil || !on {
				return err
			}
		}
	}
	if err := v.second(ctx); err != nil {
		return err
	}
	if v.stand.Status != "approved" {
		return nil
	}
	v.doing("the agent's one use of it")
	answer, err := v.Agent.Call(ctx, v.call)
	if err != nil {
		return err
	}
	if answer.Kind != client.AnswerApproved {
		v.problem(gate, fmt.Sprintf("the agent was not let through: %s", channels.Said(answer.Message)),
			"look at the gate's log")
		return nil
	}
	v.ok(gate, "the agent is let through by it, and the approval is used up")
	return nil
}

// second tries to decide again what is decided. It denies, which could do no harm.
func (v *verification) second(ctx context.Context) error {
	v.doing("a second decision")
	_, err := v.Admin.Decide(ctx, v.id, client.Deny, "a second decision, tried by countersign verify")
	e, refused := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		v.problem(gate, "the request was decided a second time", "stop the gate, and report this")
	case !refused:
		return err
	case e.Code == "already_resolved":
		v.ok(gate, "a second decision changes nothing, and is told who made the first")
	case e.Code != "not_an_approver": // whose token it is may not decide at all, and has shown nothing
		return err
	}
	return nil
}

// tidy takes the test request back where it is still open, and out of the agent's feed.
func (v *verification) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyWithin)
	defer cancel()
	stand, err := v.Admin.Approval(ctx, v.id)
	if err == nil && (stand.Status == "pending" || stand.Status == "approved" && stand.ConsumedAt.IsZero() &&
		stand.LapsedAt.IsZero()) {
		if _, err = v.Admin.Cancel(ctx, v.id, "countersign verify is over"); err == nil {
			v.ok(gate, "the test request is taken back")
		}
	}
	if err == nil {
		_, err = v.Agent.Ack(ctx, v.id)
	}
	if err != nil {
		v.warning(gate, "the test request could not be taken back", "countersign cancel "+v.id)
	}
}

// post posts to one of the gate's webhooks, and returns the status it was answered with.
func (v *verification) post(ctx context.Context, channel string, header http.Header, body []byte) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(v.Webhook, "/")+"/webhook/"+channel,
		strings.NewReader(string(body)))
	if err != nil {
		return 0, errors.New("it is not an address")
	}
	r.Header = header
	res, err := v.http.Do(r)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
