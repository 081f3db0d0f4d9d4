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
	"countersign/internal/chat"
	"countersign/internal/ratelimitedlog"
)

// MaxBody is how large a webhook's body may be. The platforms stay far below.
const MaxBody = 1 << 20

// CommitWithin is how long a tap may take to be committed: the least patient platform waits two seconds for its answer.
const CommitWithin = 1500 * time.Millisecond

// Chat is what interactions are handed to: the package chat.
type Chat interface {
	Interact(ctx context.Context, t chat.Interaction) (chat.InteractionResult, error)
	// Ask takes a button whose reason a dialog may ask for.
	Ask(ctx context.Context, t chat.Interaction) (chat.Asked, error)
	// RecordRefused takes note of a signed event that is not acted on.
	RecordRefused(ctx context.Context, actor, channel, reason string) error
}

// People maps a platform's user id to a person.
type People interface {
	ByChat(channel, userID string) (approval.Actor, bool)
}

// Options are what ways in are made of. Chat and People are required.
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
}

// Inbound is what the ways in of all channels share.
type Inbound struct {
	Options
	channel  string
	unsigned *ratelimitedlog.Counter
	talk     *smallTalk
}

// NewInbound returns what a channel's way in is built on.
func NewInbound(channel string, o Options) Inbound {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Count == nil {
		o.Count = func(string, string) {}
	}
	if o.Signed == nil {
		o.Signed = func(*http.Request) {}
	}
	if o.Remote == nil {
		o.Remote = func(*http.Request) string { return "" }
	}
	return Inbound{Options: o, channel: channel, unsigned: new(ratelimitedlog.Counter), talk: new(smallTalk)}
}

// Verify reads the raw body of a delivery whose signature holds; on false the answer has been written. formed says
// whether the headers could be those of a signed delivery, signed whether they are those of this body, types what kinds
// of body there are.
func (in *Inbound) Verify(w http.ResponseWriter, r *http.Request, formed func(http.Header) bool,
	signed func(http.Header, []byte) bool, types ...string) ([]byte, bool) {
	raw, ok := in.Body(w, r, formed, types...)
	if ok && !signed(r.Header, raw) {
		in.RefuseUnsigned(w, r)
		ok = false
	}
	if !ok {
		return nil, false
	}
	in.Signed(r)
	return raw, true
}

// Body reads the raw body of what its headers have not refused; on false the answer has been written.
// Before that nothing of the body is read: its sender is nobody yet.
func (in *Inbound) Body(w http.ResponseWriter, r *http.Request, formed func(http.Header) bool,
	types ...string) ([]byte, bool) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "This is a webhook: it takes POST.", http.StatusMethodNotAllowed)
		return nil, false
	}
	if !formed(r.Header) {
		in.RefuseUnsigned(w, r)
		return nil, false
	}
	refuse := func(status int, result, why string) ([]byte, bool) {
		in.Count(in.channel, result)
		http.Error(w, why, status)
		return nil, false
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case err != nil || !slices.Contains(types, kind) || encoding != "" && !strings.EqualFold(encoding, "identity"):
		return refuse(http.StatusUnsupportedMediaType, "unsupported", "The body must be "+strings.Join(types, " or ")+".")
	case r.ContentLength > MaxBody:
		return refuse(http.StatusRequestEntityTooLarge, "too_large", "The body is too large.")
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
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

// RefuseUnsigned answers a request whose signature does not hold. It says nothing about why: the
// platforms do not read it, and anybody else need not know.
func (in *Inbound) RefuseUnsigned(w http.ResponseWriter, r *http.Request) {
	in.Count(in.channel, "unsigned")
	if n, tell := in.unsigned.Add(in.Now()); tell {
		in.Logger.WarnContext(r.Context(),
			"webhook requests without a valid signature were refused; if the platform's own are among them, check the "+
				"channel's secret and this machine's clock", "channel", in.channel, "count", n, "last_from", in.Remote(r))
	}
	http.Error(w, "The signature is not valid.", http.StatusUnauthorized)
}

// Interact hands one interaction to the gate; false means that it could not be stored.
func (in *Inbound) Interact(ctx context.Context, t chat.Interaction) (chat.InteractionResult, bool) {
	t.Channel = in.channel
	names := t.RequestID != "" || t.QuotedID != ""
	if t.By.Kind == approval.Stranger && (t.Intent == chat.IntentOther || t.Intent == chat.IntentUnclear && !names) {
		// Small talk of people we do not know decides nothing and must not fill the log: they are told what this is, within
		// bounds.
		if !in.talk.answers(t.By.Name, in.Now()) {
			in.Count(in.channel, "ignored")
			return chat.InteractionResult{}, true
		}
		t.Intent = chat.IntentHelp
	}
	ctx, cancel := context.WithTimeout(approval.WithCorrelation(ctx, t.EventID), CommitWithin)
	defer cancel()
	out, err := in.Chat.Interact(ctx, t)
	return out, in.report(t, out, err)
}

// Ask hands a button whose reason a dialog may ask for to the gate, and returns what that dialog is to ask about; false
// means that it could not be stored.
func (in *Inbound) Ask(ctx context.Context, t chat.Interaction) (chat.Asked, bool) {
	t.Channel = in.channel
	ctx, cancel := context.WithTimeout(approval.WithCorrelation(ctx, t.EventID), CommitWithin)
	defer cancel()
	asked, err := in.Chat.Ask(ctx, t)
	if err != nil {
		return chat.Asked{}, in.report(t, chat.InteractionResult{}, err)
	}
	if len(asked.Open) == 0 || len(asked.Decided) > 0 {
		in.report(t, asked.InteractionResult, nil)
	}
	return asked, true
}

// report puts what became of a tap into the log; false means that it could not be stored.
func (in *Inbound) report(t chat.Interaction, out chat.InteractionResult, err error) bool {
	switch {
	case err != nil:
		in.Count(in.channel, "unavailable")
		in.Logger.Error("a tap could not be stored; the platform is asked to deliver it again", "channel", in.channel, "by",
			t.By.String(), "error", err)
		return false
	case out.Duplicate:
		in.Count(in.channel, "duplicate")
		in.Logger.Info("a webhook event came a second time and changed nothing", "channel", in.channel, "by", t.By.String())
	case out.Ignored:
		in.Count(in.channel, "ignored")
		in.Logger.Warn("a tap older than the request it names was ignored", "channel", in.channel, "by", t.By.String())
	case len(out.Decided)+len(out.Explained) > 0:
		in.Count(in.channel, "decided")
		for _, r := range out.Decided {
			in.Logger.Info("decided", "channel", in.channel, "by", t.By.String(), "approval_id", r.ID, "status", r.Status)
		}
		for _, r := range out.Explained {
			in.Logger.Info("a denial got its reason", "channel", in.channel, "by", t.By.String(), "approval_id", r.ID)
		}
	case out.Code != "":
		in.Count(in.channel, "refused")
		in.Logger.Info("a tap was refused", "channel", in.channel, "by", t.By.String(), "code", out.Code)
	default:
		in.Count(in.channel, "answered")
	}
	return true
}

// Refuse puts a signed event that does not count on record; false means that it could not be stored.
func (in *Inbound) Refuse(ctx context.Context, actor, reason string) bool {
	in.Count(in.channel, "refused")
	in.Logger.WarnContext(ctx, "a signed webhook event was refused", "channel", in.channel, "actor", actor,
		"reason", reason)
	ctx, cancel := context.WithTimeout(ctx, CommitWithin)
	defer cancel()
	if err := in.Chat.RecordRefused(ctx, actor, in.channel, reason); err != nil {
		in.Logger.ErrorContext(ctx, "a refused webhook event could not be put on record", "channel", in.channel,
			"reason", reason, "error", err)
		return false
	}
	return true
}

// NotUnderstood is the answer to what is signed and cannot be read, or could be read in two ways.
func (in *Inbound) NotUnderstood(ctx context.Context) Answer {
	return Answer{Stored: in.Refuse(ctx, in.channel+":", "not_understood"), Bad: true}
}

// Answer is what a delivery is answered with. What could not be stored is to be delivered again: 503
// over HTTP, and no acknowledgement over a socket.
type Answer struct {
	Stored bool
	Bad    bool   // signed, and not to be understood: 400
	Kind   string // the body's content type
	Body   []byte
}

// Write answers over HTTP.
func (a Answer) Write(w http.ResponseWriter) {
	if !a.Stored {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "This could not be stored; deliver it again.", http.StatusServiceUnavailable)
		return
	}
	if a.Bad {
		http.Error(w, "The signature is valid, but the body could not be understood: names must be spelled as documented "+
			"and come once, in valid UTF-8.", http.StatusBadRequest)
		return
	}
	if len(a.Body) > 0 {
		w.Header().Set("Content-Type", a.Kind)
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	w.WriteHeader(http.StatusOK)
	w.Write(a.Body)
}

// KeepTime returns a context that ends while keep of ctx's time is left: so long a press waits for what only the
// platform can say.
func KeepTime(ctx context.Context, keep time.Duration) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-keep))
}

// Bound bounds the work of one delivery. A platform that hangs up does not undo what is under way.
func Bound(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(approval.WithCorrelation(context.WithoutCancel(ctx), "webhook:"+rand.Text()), d)
}
