package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/slack-go/slack"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/secret"
)

// Name is what notifications call this channel.
const Name = "slack"

// Channel sends to Slack. It is safe for concurrent use.
type Channel struct {
	token       secret.Value
	base        string
	home        string // the channel that cards go to
	doubts      channels.Problems
	allowShared bool
	http        *http.Client
	now         func() time.Time
	identity    atomic.Pointer[Identity]
	identified  chan struct{} // closed by identify once identity is there
	identify    func()
	mute        atomic.Bool // the token may not write, as Slack last said

	mu     sync.Mutex
	shared map[string]sharing // by channel id
}

// sharing is what conversations.info said of a channel.
type sharing struct {
	outside bool
	until   time.Time
}

// sharedFor is how long it is believed: cards of a minute are at most what outsiders see of a channel
// that has just been shared with them.
const sharedFor = time.Minute

var (
	_ channels.Channel    = (*Channel)(nil)
	_ channels.Identifier = (*Channel)(nil)
	_ channels.Editor     = (*Channel)(nil)
	_ channels.Paged      = (*Channel)(nil)
	_ channels.Reporter   = (*Channel)(nil)
)

// Identity is who we are to Slack. A tap counts only if it comes from this team or enterprise.
type Identity struct {
	TeamID       string
	EnterpriseID string // "" outside Enterprise Grid
	UserID       string // the bot's
	BotID        string
}

func identityOf(a answer) Identity {
	return Identity{TeamID: a.TeamID, EnterpriseID: a.EnterpriseID, UserID: a.UserID, BotID: a.BotID}
}

// New returns the channel that c describes. It makes no call.
func New(c Config) (*Channel, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	identified := make(chan struct{})
	return &Channel{
		identified: identified, identify: sync.OnceFunc(func() { close(identified) }),
		token: c.BotToken, base: c.base(), home: c.Channel, allowShared: c.AllowShared, doubts: c.doubts(),
		http: channels.NewHTTPClient(channels.HTTPTimeout), now: time.Now, shared: map[string]sharing{},
	}, nil
}

// Format shows the channel without its token, whatever the verb.
func (ch *Channel) Format(f fmt.State, _ rune) { io.WriteString(f, Name) }

// Name returns "slack".
func (ch *Channel) Name() string { return Name }

// Close lets go of idle connections. The channel must not be used any more.
func (ch *Channel) Close() { ch.http.CloseIdleConnections() }

// Probe asks Slack who we are, and whether outsiders see the channel that cards go to. An error with
// ChannelDown means that the token or its scopes do not do.
func (ch *Channel) Probe(ctx context.Context) error {
	if _, e := ch.whoAmI(ctx); e != nil {
		return e
	}
	if _, e := ch.askOutside(ctx, ch.home); e != nil && !e.Final && !ch.allowShared {
		return e
	}
	return nil
}

// whoAmI asks Slack who we are, and keeps the answer.
func (ch *Channel) whoAmI(ctx context.Context) (*exchange, *channels.PushError) {
	x, e := ch.call(ctx, func(ctx context.Context, c *sdk.Client) error {
		_, err := c.AuthTestContext(ctx)
		return err
	})
	if e != nil {
		e.Unknown = false
		return x, e
	}
	if x.answer.TeamID == "" && x.answer.EnterpriseID == "" {
		return x, x.brokenAnswer("auth.test names no team")
	}
	id := identityOf(x.answer)
	ch.identity.Store(&id)
	ch.identify()
	return x, nil
}

// SharedChannel returns the channel that cards go to, and whether people of other organisations saw it
// when Slack was last asked: they then read every card, or without allow_shared none is sent. Before the
// first [Channel.Probe] it is false.
func (ch *Channel) SharedChannel() (id string, shared bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.home, ch.shared[ch.home].outside
}

// Identity returns who we are; false before the first successful [Channel.Probe].
func (ch *Channel) Identity() (Identity, bool) {
	if id := ch.identity.Load(); id != nil {
		return *id, true
	}
	return Identity{}, false
}

// AwaitIdentity is Identity which waits for it until ctx ends.
func (ch *Channel) AwaitIdentity(ctx context.Context) (Identity, bool) {
	select {
	case <-ch.identified:
	case <-ctx.Done():
	}
	return ch.Identity()
}

// IsIdentified reports whether Slack has said who we are.
func (ch *Channel) IsIdentified() bool { return ch.identity.Load() != nil }

// Problems implements [channels.Reporter].
func (ch *Channel) Problems() []string {
	ps := ch.doubts.In("channels.slack")
	if !ch.IsIdentified() {
		ps = append(ps, "Slack has not said which workspace is ours, so taps in Slack cannot be taken yet")
	}
	if ch.mute.Load() {
		ps = append(ps, "when Slack was last asked, the bot token lacked the scope chat:write, without which no card goes "+
			"out: add it under OAuth & Permissions, Bot Token Scopes, of your app, and install the app again")
	}
	switch id, shared := ch.SharedChannel(); {
	case shared && ch.allowShared:
		ps = append(ps, "people of other organisations see the Slack channel "+id+
			" and the cards in it, as allow_shared says")
	case shared:
		ps = append(ps, "people of other organisations see the Slack channel "+id+
			": no cards are sent there; use another one, or set allow_shared: true")
	}
	return ps
}

// private returns an error unless only people of our own organisation see the channel, or outsiders
// may.
func (ch *Channel) private(ctx context.Context, channel string) *channels.PushError {
	if ch.allowShared {
		return nil
	}
	outside, e := ch.outside(ctx, channel)
	if e != nil {
		return e
	}
	if outside {
		return &channels.PushError{Final: true, Reason: channels.ReasonChannelShared,
			Err: errors.New("people of other organisations see this channel; use another one, or set allow_shared: true")}
	}
	return nil
}

// outside reports whether people of other organisations see the channel. An answer is believed for a
// while.
func (ch *Channel) outside(ctx context.Context, channel string) (bool, *channels.PushError) {
	ch.mu.Lock()
	s, known := ch.shared[channel]
	ch.mu.Unlock()
	if known && !ch.now().After(s.until) {
		return s.outside, nil
	}
	return ch.askOutside(ctx, channel)
}

// askOutside has Slack say so now. Slack itself always has the method and names the channel: an API at
// another address that does neither is no Slack, and has no other organisations.
func (ch *Channel) askOutside(ctx context.Context, channel string) (bool, *channels.PushError) {
	if !strings.HasPrefix(channel, "C") && !strings.HasPrefix(channel, "G") {
		return false, nil
	}
	x, e := ch.conversation(ctx, channel)
	if e != nil && (ch.base == DefaultAPIURL || !x.unknownMethod()) {
		return false, e
	}
	if e == nil && x.answer.Channel.ID == "" && ch.base == DefaultAPIURL {
		return false, x.brokenAnswer("conversations.info names no channel")
	}
	s := sharing{x.answer.Channel.IsExtShared, ch.now().Add(sharedFor)}
	ch.mu.Lock()
	ch.shared[channel] = s
	ch.mu.Unlock()
	return s.outside, nil
}

// conversation asks Slack what a channel is.
func (ch *Channel) conversation(ctx context.Context, channel string) (*exchange, *channels.PushError) {
	x, e := ch.call(ctx, func(ctx context.Context, c *sdk.Client) error {
		_, err := c.GetConversationInfoContext(ctx, &sdk.GetConversationInfoInput{ChannelID: channel})
		return err
	})
	if e != nil {
		e.Unknown = false // nothing of any message has been sent
	}
	return x, e
}

// receipt is the Data of a receipt: where the message is.
type receipt struct {
	Channel string `json:"channel,omitempty"`
	TS      string `json:"ts,omitempty"`
	Via     string `json:"via,omitempty"` // response_url or ephemeral: such a message cannot be edited
}

// Ephemeral returns the recipient of a reply that only user sees, in a channel. Other recipients are a
// channel's id and a user's, who then gets a direct message.
func Ephemeral(channel, user string) string { return channel + "/" + user }

// Send posts a message. A reply goes to its response_url where it has one, and where that is used up to
// m.To. Its error is always a *[channels.PushError].
func (ch *Channel) Send(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	b, err := decode(m.Body)
	if err != nil {
		return channels.Receipt{}, err
	}
	if m.Kind == approval.KindReply && m.ReplyTo != "" && ch.mayRespond(m.ReplyTo) {
		r, spent, e := ch.respond(ctx, m.ReplyTo, b)
		if !spent {
			return r, asError(e)
		}
	}
	if m.To == "" {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRecipient,
			Err: errors.New("no recipient")}
	}
	if channel, user, ok := strings.Cut(m.To, "/"); ok {
		r, e := ch.ephemeral(ctx, channel, user, b)
		if e == nil || e.Reason != channels.ReasonBadRecipient {
			return r, asError(e)
		}
		m.To = user // not a member of the channel: a direct message finds them
	}
	if e := ch.private(ctx, m.To); e != nil {
		return channels.Receipt{}, e
	}
	r, e := ch.post(ctx, m, b)
	return r, asError(e)
}

// asError keeps a nil *PushError from becoming an error that is not nil.
func asError(e *channels.PushError) error {
	if e == nil {
		return nil
	}
	return e
}

// Edit replaces the blocks of the message that m.Target is the receipt of.
func (ch *Channel) Edit(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	b, err := decode(m.Body)
	if err != nil {
		return channels.Receipt{}, err
	}
	var at receipt
	if json.Unmarshal(m.Target, &at) != nil || at.Channel == "" || at.TS == "" {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonNoTarget,
			Err: errors.New("the card's receipt does not say where it is")}
	}
	x, e := ch.call(ctx, func(ctx context.Context, c *sdk.Client) error {
		_, _, _, err := c.UpdateMessageContext(ctx, at.Channel, at.TS,
			sdk.UnsafeMsgOptionEndpoint(ch.base+"chat.update", b.intoKept))
		return err
	})
	if e != nil {
		return channels.Receipt{}, e
	}
	r, e := x.receipt(receipt{Channel: or(x.answer.Channel.ID, at.Channel), TS: x.answer.TS})
	return r, asError(e)
}

func (ch *Channel) post(ctx context.Context, m channels.Message, b body) (channels.Receipt, *channels.PushError) {
	x, e := ch.call(ctx, func(ctx context.Context, c *sdk.Client) error {
		_, _, err := c.PostMessageContext(ctx, m.To, sdk.UnsafeMsgOptionEndpoint(ch.base+"chat.postMessage",
			func(v url.Values) {
				b.intoKept(v)
				v.Set("unfurl_links", "false")
				v.Set("unfurl_media", "false")
				if m.RetryKey != "" {
					v.Set("client_msg_id", m.RetryKey)
				}
			}))
		return err
	})
	if e != nil {
		return channels.Receipt{}, e
	}
	return x.receipt(receipt{Channel: x.answer.Channel.ID, TS: x.answer.TS})
}

func (ch *Channel) ephemeral(ctx context.Context, channel, user string,
	b body) (channels.Receipt, *channels.PushError) {
	x, e := ch.call(ctx, func(ctx context.Context, c *sdk.Client) error {
		_, err := c.PostEphemeralContext(ctx, channel, user, sdk.UnsafeMsgOptionEndpoint(ch.base+"chat.postEphemeral",
			b.into))
		return err
	})
	if e != nil {
		return channels.Receipt{}, e
	}
	return x.receipt(receipt{TS: or(x.answer.MessageTS, x.answer.TS), Via: "ephemeral"})
}

// receipt makes a receipt. An answer that says ok and not where the message is, is none.
func (x *exchange) receipt(r receipt) (channels.Receipt, *channels.PushError) {
	if r.TS == "" || r.Channel == "" && r.Via == "" {
		return channels.Receipt{}, &channels.PushError{Reason: channels.ReasonBrokenAnswer, HTTPStatus: x.status,
			Unknown: true,
			Err:     errors.New("the answer does not say where the message is")}
	}
	data, _ := json.Marshal(r) // strings: it cannot fail
	return channels.Receipt{MessageID: r.TS, HTTPStatus: x.status, Data: data}, nil
}

// respond answers over a response_url, so that only the tapper sees it. spent says that the address is
// used up, expired or refused, and will not take the answer later either.
func (ch *Channel) respond(ctx context.Context, to secret.Value,
	b body) (r channels.Receipt, spent bool, e *channels.PushError) {
	x, e := ch.call(ctx, func(ctx context.Context, c *sdk.Client) error {
		_, _, err := c.PostMessageContext(ctx, "", sdk.MsgOptionResponseURL(to.Reveal(), sdk.ResponseTypeEphemeral),
			sdk.MsgOptionText(b.Text, false), sdk.MsgOptionBlocks(b.rawBlocks()...))
		return err
	}, to)
	if e != nil {
		e.ChannelDown = false // a response_url needs no token
		return r, e.Final || x.said && !e.Unknown && e.Reason != channels.ReasonRateLimited, e
	}
	data, _ := json.Marshal(receipt{Via: "response_url"})
	return channels.Receipt{HTTPStatus: x.status, Data: data}, false, nil
}

// responseHosts are where Slack's response_urls point.
var responseHosts = map[string]bool{"hooks.slack.com": true, "hooks.slack-gov.com": true}

// mayRespond reports whether a response_url, which comes from outside, may be called: it must be
// Slack's own, or be where api_url is.
func (ch *Channel) mayRespond(to secret.Value) bool {
	u, err := url.Parse(to.Reveal())
	if err != nil || u.User != nil || u.Opaque != "" {
		return false
	}
	if u.Scheme == "https" && responseHosts[strings.ToLower(u.Host)] {
		return true
	}
	api, err := url.Parse(ch.base)
	return err == nil && ch.base != DefaultAPIURL && u.Scheme == api.Scheme && strings.EqualFold(u.Host, api.Host)
}

// body is what is stored of a message.
type body struct {
	Text     string            `json:"text"`
	Blocks   []json.RawMessage `json:"blocks"`
	Metadata json.RawMessage   `json:"metadata,omitempty"`

	blocks string // the array as it was stored
}

func decode(stored channels.Body) (body, error) {
	var b body
	var raw struct {
		Blocks json.RawMessage `json:"blocks"`
	}
	if json.Unmarshal(stored, &b) != nil || json.Unmarshal(stored, &raw) != nil || b.Text == "" || len(b.Blocks) == 0 {
		return b, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest,
			Err: errors.New("the stored body is not a message")}
	}
	b.blocks = string(raw.Blocks)
	return b, nil
}

// intoKept sets the form fields of a message that stays in the history.
func (b body) intoKept(v url.Values) {
	b.into(v)
	if len(b.Metadata) > 0 {
		v.Set("metadata", string(b.Metadata))
	}
}

// into sets the form fields of any message.
func (b body) into(v url.Values) {
	v.Set("text", b.Text)
	v.Set("blocks", b.blocks)
	v.Set("link_names", "false")
	v.Set("parse", "none")
}

// stored is a block that is sent as it was stored.
type stored json.RawMessage

func (stored) BlockType() sdk.MessageBlockType { return "" }
func (stored) ID() string                      { return "" }

func (s stored) MarshalJSON() ([]byte, error) { return s, nil }

func (b body) rawBlocks() []sdk.Block {
	blocks := make([]sdk.Block, len(b.Blocks))
	for i, raw := range b.Blocks {
		blocks[i] = stored(raw)
	}
	return blocks
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
