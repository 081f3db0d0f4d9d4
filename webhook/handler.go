package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/channels"
	"countersign/internal/chat"
	"countersign/internal/ratelimitedlog"
)

// maxBody is how large a webhook's body may be. Both platforms stay far below.
const maxBody = 1 << 20

// commitWithin is how long a tap may take to be committed: LINE waits two seconds for its answer.
const commitWithin = 1500 * time.Millisecond

// Chat is what interactions are handed to: the package chat.
type Chat interface {
	Interact(ctx context.Context, t chat.Interaction) (chat.InteractionResult, error)
	// Ask takes a button whose reason a dialog may ask for.
	Ask(ctx context.Context, t chat.Interaction) (chat.Asked, error)
	// Refused takes note of a signed event that is not acted on.
	Refused(ctx context.Context, actor, channel, reason string) error
}

// People maps a platform's user id to a person.
type People interface {
	ByChat(channel, userID string) (approval.Actor, bool)
}

// Requests are what waits for a person.
type Requests interface {
	Requests(ctx context.Context, q approval.RequestQuery) ([]approval.Request, error)
	PendingCount(ctx context.Context) (int, error)
	// MayVote reports whether one person may vote on a request now.
	MayVote(ctx context.Context, id string, who approval.Actor) (bool, error)
}

// common is what both platforms' handlers share.
type common struct {
	channel  string
	chat     Chat
	people   People
	log      *slog.Logger
	now      func() time.Time
	count    func(channel, result string)
	known    func(*http.Request)        // Options.Signed
	remote   func(*http.Request) string // Options.Remote
	unsigned *ratelimitedlog.Counter
	talk     *smallTalk
}

func newCommon(channel string, o Options) common {
	c := common{channel: channel, chat: o.Chat, people: o.People, log: o.Logger, now: o.Now, count: o.Count,
		known: o.Signed, remote: o.Remote,
		unsigned: new(ratelimitedlog.Counter), talk: new(smallTalk)}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.count == nil {
		c.count = func(string, string) {}
	}
	if c.known == nil {
		c.known = func(*http.Request) {}
	}
	if c.remote == nil {
		c.remote = func(*http.Request) string { return "" }
	}
	return c
}

// Options are what both handlers are made of. Chat and People are required.
type Options struct {
	Chat   Chat
	People People
	Logger *slog.Logger
	Now    func() time.Time
	// Count is told the fate of each delivery and each event in it, as a channel and a short word:
	// unsigned, unsupported, too_large, slow, busy, unavailable, refused, duplicate, ignored, decided,
	// answered, asked.
	Count func(channel, result string)
	// Signed is told of a request whose signature holds, before anything is done for it. nil: nobody.
	Signed func(r *http.Request)
	// Remote says where a request came from, for the log. nil: nothing.
	Remote func(r *http.Request) string
	// Maker returns what cards are made with now, and Requests what waits; only those need them who show either.
	Maker    func() channels.Maker
	Requests Requests
	// Dialogs ask for reasons in Slack; without them Deny denies at once.
	Dialogs Dialogs
	// Home shows somebody what waits, on the Home tab of our Slack app. It is called after Slack was
	// answered, and best effort: it says itself what went wrong.
	Home func(ctx context.Context, userID string, by approval.Actor)
}

// body reads the raw body of what its headers have not refused; on false the answer has been written.
// Before that nothing of the body is read: its sender is nobody yet. formed says whether the headers could
// be those of a signed delivery, types what kinds of body there are.
func (c *common) body(w http.ResponseWriter, r *http.Request, formed func(http.Header) bool,
	types ...string) ([]byte, bool) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "This is a webhook: it takes POST.", http.StatusMethodNotAllowed)
		return nil, false
	}
	if !formed(r.Header) {
		c.refuseUnsigned(w, r)
		return nil, false
	}
	refuse := func(status int, result, why string) ([]byte, bool) {
		c.count(c.channel, result)
		http.Error(w, why, status)
		return nil, false
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case err != nil || !slices.Contains(types, kind) || encoding != "" && !strings.EqualFold(encoding, "identity"):
		return refuse(http.StatusUnsupportedMediaType, "unsupported", "The body must be "+strings.Join(types, " or ")+".")
	case r.ContentLength > maxBody:
		return refuse(http.StatusRequestEntityTooLarge, "too_large", "The body is too large.")
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return refuse(http.StatusRequestEntityTooLarge, "too_large", "The body is too large.")
	}
	if busy, ok := errors.AsType[busy](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(busy.RetryAfter()/time.Second)))
		return refuse(http.StatusServiceUnavailable, "busy", "Too much is coming in at once; deliver it again.")
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return refuse(http.StatusRequestTimeout, "slow", "The body took too long.")
	}
	if err != nil {
		http.Error(w, "The body could not be read.", http.StatusBadRequest)
		return nil, false
	}
	return b, true
}

// busy is the error of reading a body for which there was no room.
type busy interface {
	error
	RetryAfter() time.Duration
}

// refuseUnsigned answers a request whose signature does not hold. It says nothing about why: the
// platforms do not read it, and anybody else need not know.
func (c *common) refuseUnsigned(w http.ResponseWriter, r *http.Request) {
	c.count(c.channel, "unsigned")
	if n, tell := c.unsigned.Add(c.now()); tell {
		c.log.WarnContext(r.Context(),
			"webhook requests without a valid signature were refused; if the platform's own are among them, check the "+
				"channel's secret and this machine's clock", "channel", c.channel, "count", n, "last_from", c.remote(r))
	}
	http.Error(w, "The signature is not valid.", http.StatusUnauthorized)
}

// interact hands one interaction to the gate; false means that it could not be stored.
func (c *common) interact(ctx context.Context, t chat.Interaction) (chat.InteractionResult, bool) {
	t.Channel = c.channel
	names := t.RequestID != "" || t.QuotedID != ""
	if t.By.Kind == approval.Stranger && (t.Intent == chat.IntentOther || t.Intent == chat.IntentUnclear && !names) {
		// Small talk of people we do not know decides nothing and must not fill the log: they are told what this is, within
		// bounds.
		if !c.talk.answers(t.By.Name, c.now()) {
			c.count(c.channel, "ignored")
			return chat.InteractionResult{}, true
		}
		t.Intent = chat.IntentHelp
	}
	ctx, cancel := context.WithTimeout(approval.WithCorrelation(ctx, t.EventID), commitWithin)
	defer cancel()
	out, err := c.chat.Interact(ctx, t)
	return out, c.told(t, out, err)
}

// told puts what became of a tap into the log; false means that it could not be stored.
func (c *common) told(t chat.Interaction, out chat.InteractionResult, err error) bool {
	switch {
	case err != nil:
		c.count(c.channel, "unavailable")
		c.log.Error("a tap could not be stored; the platform is asked to deliver it again", "channel", c.channel, "by",
			t.By.String(), "error", err)
		return false
	case out.Duplicate:
		c.count(c.channel, "duplicate")
		c.log.Info("a webhook event came a second time and changed nothing", "channel", c.channel, "by", t.By.String())
	case out.Ignored:
		c.count(c.channel, "ignored")
		c.log.Warn("a tap older than the request it names was ignored", "channel", c.channel, "by", t.By.String())
	case len(out.Decided)+len(out.Explained) > 0:
		c.count(c.channel, "decided")
		for _, r := range out.Decided {
			c.log.Info("decided", "channel", c.channel, "by", t.By.String(), "approval_id", r.ID, "status", r.Status)
		}
		for _, r := range out.Explained {
			c.log.Info("a denial got its reason", "channel", c.channel, "by", t.By.String(), "approval_id", r.ID)
		}
	case out.Code != "":
		c.count(c.channel, "refused")
		c.log.Info("a tap was refused", "channel", c.channel, "by", t.By.String(), "code", out.Code)
	default:
		c.count(c.channel, "answered")
	}
	return true
}

// refuse puts a signed event that does not count on record; false means that it could not be stored.
func (c *common) refuse(ctx context.Context, actor, reason string) bool {
	c.count(c.channel, "refused")
	c.log.WarnContext(ctx, "a signed webhook event was refused", "channel", c.channel, "actor", actor, "reason", reason)
	ctx, cancel := context.WithTimeout(ctx, commitWithin)
	defer cancel()
	if err := c.chat.Refused(ctx, actor, c.channel, reason); err != nil {
		c.log.ErrorContext(ctx, "a refused webhook event could not be put on record", "channel", c.channel, "reason", reason,
			"error", err)
		return false
	}
	return true
}

// notUnderstood is the answer to what is signed and cannot be read, or could be read in two ways.
func (c *common) notUnderstood(ctx context.Context) answer {
	return answer{stored: c.refuse(ctx, c.channel+":", "not_understood"), bad: true}
}

// answer is what a delivery is answered with. What could not be stored is to be delivered again: 503
// over HTTP, and no acknowledgement over a socket.
type answer struct {
	stored bool
	bad    bool   // signed, and not to be understood: 400
	kind   string // the body's content type
	body   []byte
}

// write answers over HTTP.
func (a answer) write(w http.ResponseWriter) {
	if !a.stored {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "This could not be stored; deliver it again.", http.StatusServiceUnavailable)
		return
	}
	if a.bad {
		http.Error(w, "The signature is valid, but the body could not be understood: names must be spelled as documented "+
			"and come once, in valid UTF-8.", http.StatusBadRequest)
		return
	}
	if len(a.body) > 0 {
		w.Header().Set("Content-Type", a.kind)
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	w.WriteHeader(http.StatusOK)
	w.Write(a.body)
}

// leaving returns a context that ends while keep of ctx's time is left: so long a press waits for what only the
// platform can say.
func leaving(ctx context.Context, keep time.Duration) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-keep))
}

// within bounds the work of one delivery. A platform that hangs up does not undo what is under way.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(approval.WithCorrelation(context.WithoutCancel(ctx), "webhook:"+rand.Text()), d)
}
