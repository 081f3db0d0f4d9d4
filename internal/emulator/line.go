package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// LINEMessage is one message in a one-to-one chat with the bot.
type LINEMessage struct {
	ID         string
	QuoteToken string
	At         time.Time
	FromBot    bool
	JSON       json.RawMessage // as really sent by the bot; for a person, the message of the webhook event
	Text       string          // the text, or a card's altText
	Quoted     string          // the id of the message that this one quotes
	Via        string          // "push", "reply", "message", or "postback" for a tap's displayText
	RetryKey   string          // of the push
	RequestID  string          // X-Line-Request-Id of the push or reply

	// QuickReplies are the suggestions shown under it. They are gone once one was tapped or anything follows.
	QuickReplies []LINEQuickReply
}

// LINEQuickReply is one suggestion under a message.
type LINEQuickReply struct {
	Label  string
	Image  string // the address of its icon; empty: none
	Action json.RawMessage
}

// LINEQuotaNone switches the monthly quota off.
const LINEQuotaNone = -1

// LINE is the official account and the phones of those who talk to it.
type LINE struct {
	e   *Emulator
	cfg LINEConfig
	api *lineAPI

	// Guarded by the Emulator's lock.
	webhook     string
	chats       map[string][]*LINEMessage // by LINE user id
	quotes      map[string]quoteRef       // by quote token
	replies     map[string]*replyToken
	blocked     map[string]bool
	loading     map[string]time.Time // dots are shown until then
	drafts      map[string]string    // what stands in the open keyboard's field
	inactive    bool                 // "Use webhook" is switched off
	quota       int
	used        map[string]int // by month
	redeliver   int
	redeliverIn time.Duration
}

type quoteRef struct{ user, message string }

type replyToken struct {
	user      string
	issued    time.Time
	delivered time.Time // last, counting redeliveries
	used      bool
}

func newLINE(e *Emulator) *LINE {
	l := &LINE{e: e, cfg: e.cfg.LINE, blocked: map[string]bool{}, used: map[string]int{}, quota: LINEQuotaNone}
	l.api = &lineAPI{e: e, line: l, keys: map[string]*retryKey{}}
	l.forget()
	return l
}

func (l *LINE) forget() {
	l.chats = map[string][]*LINEMessage{}
	l.quotes = map[string]quoteRef{}
	l.replies = map[string]*replyToken{}
	l.loading = map[string]time.Time{}
	l.drafts = map[string]string{}
}

// URL is the stand-in for https://api.line.me.
func (l *LINE) URL() string { return l.e.URL() + "/line" }

// Chat returns a person's chat with the bot, oldest first. The person is named by name or LINE id.
func (l *LINE) Chat(person string) []LINEMessage {
	p, err := l.e.person(person)
	if err != nil {
		return nil
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	var chat []LINEMessage
	for _, m := range l.chats[p.LINE] {
		chat = append(chat, *m)
	}
	return chat
}

// Wait waits until the bot has sent a person at least n messages, and returns what the bot sent.
func (l *LINE) Wait(ctx context.Context, person string, n int) ([]LINEMessage, error) {
	var sent []LINEMessage
	err := l.e.WaitFor(ctx, func() bool {
		sent = sent[:0:0]
		for _, m := range l.Chat(person) {
			if m.FromBot {
				sent = append(sent, m)
			}
		}
		return len(sent) >= n
	})
	return sent, err
}

// SetQuota sets the month's quota of pushes; [LINEQuotaNone] is no limit.
func (l *LINE) SetQuota(limit int) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.quota = limit
}

// SetUsage sets how many pushes the present month has seen.
func (l *LINE) SetUsage(used int) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.used[l.month()] = used
}

// SetWebhookActive switches the account's "Use webhook" on or off. While it is off no event is sent; the endpoint's
// test is.
func (l *LINE) SetWebhookActive(active bool) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.inactive = !active
	l.e.bump()
}

// SetBlocked says whether a person has blocked the bot, without an event; see also [LINE.Unfollow].
func (l *LINE) SetBlocked(person string, blocked bool) error {
	p, err := l.e.person(person)
	if err != nil {
		return err
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.blocked[p.LINE] = blocked
	l.e.bump()
	return nil
}

// SetRedelivery switches webhook redelivery on: an event that was not answered with 2xx is sent again up to times
// times, after the given wait each. 0 switches it off, which is LINE's default.
func (l *LINE) SetRedelivery(times int, wait time.Duration) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.redeliver, l.redeliverIn = times, wait
}

// deliver puts the messages of a request into a chat and returns the answer's sentMessages. Somebody who blocked
// the bot gets nothing, and the bot is not told. The caller holds the lock.
func (l *LINE) deliver(user string, body []byte, via, requestID, retryKey string) []map[string]string {
	var request struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err) // checked before
	}
	var sent []map[string]string
	for _, raw := range request.Messages {
		var m struct {
			Type, Text, AltText, QuoteToken string
		}
		_ = json.Unmarshal(raw, &m) // checked before
		msg := &LINEMessage{
			ID: l.messageID(), At: l.e.now(), FromBot: true, JSON: bytes.Clone(raw), Text: m.Text + m.AltText,
			Via: via, RetryKey: retryKey, RequestID: requestID, Quoted: l.quotes[m.QuoteToken].message,
		}
		entry := map[string]string{"id": msg.ID}
		msg.QuoteToken = l.newQuote(user, msg.ID)
		entry["quoteToken"] = msg.QuoteToken
		sent = append(sent, entry)
		msg.QuickReplies = quickReplies(raw)
		if !l.blocked[user] {
			l.add(user, msg)
		}
	}
	delete(l.loading, user)
	l.e.bump()
	return sent
}

// add puts a message into a chat, which takes the suggestions under the one before away. The caller holds the lock.
func (l *LINE) add(user string, m *LINEMessage) {
	l.dropQuickReplies(user)
	l.chats[user] = append(l.chats[user], m)
	l.e.bump()
}

// dropQuickReplies takes away what is suggested in a chat. The caller holds the lock.
func (l *LINE) dropQuickReplies(user string) {
	if chat := l.chats[user]; len(chat) > 0 {
		chat[len(chat)-1].QuickReplies = nil
		l.e.bump()
	}
}

func quickReplies(message []byte) (found []LINEQuickReply) {
	var m struct {
		QuickReply struct {
			Items []struct {
				ImageURL string          `json:"imageUrl"`
				Action   json.RawMessage `json:"action"`
			} `json:"items"`
		} `json:"quickReply"`
	}
	_ = json.Unmarshal(message, &m) // checked before
	for _, item := range m.QuickReply.Items {
		action, _ := parseObject(item.Action)
		found = append(found, LINEQuickReply{Label: str(action["label"]), Image: item.ImageURL, Action: item.Action})
	}
	return found
}

func (l *LINE) messageID() string { return fmt.Sprintf("59%016d", l.e.next()) }

func (l *LINE) newQuote(user, message string) string {
	token := "q" + randomHex(12)
	l.quotes[token] = quoteRef{user, message}
	return token
}

// month is the quota's: LINE counts calendar months, in Japanese time.
func (l *LINE) month() string {
	return l.e.now().In(time.FixedZone("JST", 9*60*60)).Format("2006-01")
}
