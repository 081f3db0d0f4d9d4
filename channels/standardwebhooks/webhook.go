package standardwebhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"countersign/channels"
)

// Name is what notifications call this channel.
const Name = "webhook"

// ReasonGone is the reason for which nothing goes to an address any more: its server said so, with 410.
const ReasonGone = "gone"

// Channel posts to people's own addresses. It is safe for concurrent use.
type Channel struct {
	signers []*standard.Webhook
	http    *http.Client
	timeout time.Duration
	now     func() time.Time
}

var (
	_ channels.Channel = (*Channel)(nil)
	_ channels.Editor  = (*Channel)(nil)
)

// New returns the channel that c describes. It makes no call.
func New(c Config) (*Channel, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	ch := &Channel{http: newClient(), timeout: channels.HTTPTimeout, now: time.Now}
	for _, s := range c.SigningSecret.Reveal() {
		signer, err := standard.NewWebhook(s)
		if err != nil {
			return nil, errors.New("webhook: a signing secret is not base64")
		}
		ch.signers = append(ch.signers, signer)
	}
	return ch, nil
}

// newClient returns a client that follows no redirect, which could lead into our own network, and reads
// no answer beyond its header. [channels.NewHTTPClient] reads all of it, and a receiver that has taken
// a delivery and then trickles would be told again.
func newClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Name returns "webhook".
func (ch *Channel) Name() string { return Name }

// Close lets go of idle connections. The channel must not be used any more.
func (ch *Channel) Close() { ch.http.CloseIdleConnections() }

// receipt is the Data of a receipt.
type receipt struct {
	WebhookID string `json:"webhook_id"`
}

// Send posts m.Body to the address m.To. Its error is always a *[channels.PushError], which tells no
// more of the address than its [Origin], and nothing of what the receiver says.
func (ch *Channel) Send(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	to, err := parse(m.To)
	switch {
	case err != nil:
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRecipient,
			Err: fmt.Errorf("the address %w", err)}
	case m.RetryKey == "":
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest,
			Err: errors.New("a delivery without a key, by which a repetition would be known")}
	case !json.Valid(m.Body):
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest,
			Err: errors.New("the stored body is not JSON")}
	}
	ctx, cancel := context.WithTimeout(ctx, ch.timeout)
	defer cancel()
	ctx, wire := channels.WatchWire(ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(m.Body))
	if err != nil {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRecipient,
			Err: errors.New("the address cannot be called")}
	}
	signature, err := ch.sign(m.RetryKey, ch.now(), r.Header, m.Body)
	if err != nil {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest,
			Err: errors.New("the delivery cannot be signed")}
	}
	r.Header.Set(standard.HeaderWebhookSignature, signature)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "countersign")
	res, err := ch.http.Do(r)
	if err != nil {
		return channels.Receipt{}, errorOfSending(err, wire, Origin(m.To))
	}
	res.Body.Close()
	if res.StatusCode/100 != 2 {
		return channels.Receipt{}, errorOfAnswer(res, Origin(m.To))
	}
	data, _ := json.Marshal(receipt{m.RetryKey}) // a string: it cannot fail
	return channels.Receipt{MessageID: m.RetryKey, HTTPStatus: res.StatusCode, Data: data}, nil
}

// Edit tells the receiver how a request ended. What was delivered cannot be changed, so it is a delivery
// of its own; m.Target is of no use.
func (ch *Channel) Edit(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	return ch.Send(ctx, m)
}

// sign sets id and time in the header and returns the signatures, one for each secret that holds.
func (ch *Channel) sign(id string, at time.Time, h http.Header, body []byte) (string, error) {
	signatures := make([]string, len(ch.signers))
	for i, signer := range ch.signers {
		s, err := signer.Sign(id, at, body)
		if err != nil {
			return "", err
		}
		signatures[i] = s
	}
	h.Set(standard.HeaderWebhookID, id)
	h.Set(standard.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	return strings.Join(signatures, " "), nil
}

// errorOfAnswer classifies an answer that is not success. Every receiver is a server of its own, so what one
// wishes or refuses says nothing of the others.
func errorOfAnswer(res *http.Response, origin string) *channels.PushError {
	s := res.StatusCode
	said := origin + " answered " + strings.TrimSpace(strconv.Itoa(s)+" "+http.StatusText(s))
	e := &channels.PushError{HTTPStatus: s, RetryAfter: channels.RetryAfter(res.Header), Alone: true,
		Err: errors.New(said)}
	final := func(reason, do string) {
		e.Final, e.RetryAfter, e.Reason, e.Err = true, 0, reason, errors.New(said+": "+do)
	}
	switch {
	case s == http.StatusTooManyRequests:
		e.Reason = channels.ReasonRateLimited
	case s == http.StatusRequestTimeout:
		e.Reason, e.Unknown = channels.ReasonTimeout, true
	case s == http.StatusTooEarly:
		e.Reason = channels.ReasonUnavailable
	case s == http.StatusGone:
		final(ReasonGone, "it wants no more deliveries; give the person another address, or none")
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		final(channels.ReasonForbidden, "check that the receiver has the signing secret, and its clock the time")
	case s == http.StatusNotFound, s == http.StatusMethodNotAllowed:
		final(channels.ReasonBadRecipient, "check the person's address")
	case s/100 == 4:
		final(channels.ReasonBadRequest, "the receiver does not take what we send")
	case s/100 == 5:
		e.Reason, e.Unknown = channels.ReasonUnavailable, true
	case s/100 == 3:
		e.Reason, e.Err = channels.ReasonUnavailable,
			errors.New(said+": redirects are not followed; give the person the address that it leads to")
	default:
		e.Reason = channels.ReasonUnavailable
	}
	return e
}

// errorOfSending classifies a delivery that got no answer. The text of err can quote the address or what the
// receiver sent, so it is told in words of ours.
func errorOfSending(err error, wire *channels.Wire, origin string) *channels.PushError {
	e := channels.TransportError(err, wire)
	var (
		notFound *net.DNSError
		cert     *tls.CertificateVerificationError
		record   tls.RecordHeaderError
		alert    tls.AlertError
	)
	what := "gives no usable answer"
	switch {
	case e.Reason == channels.ReasonTimeout:
		what = "does not answer in time"
	case errors.As(err, &notFound):
		what = "is a name that is not known"
	case errors.As(err, &cert):
		what = "has a certificate that is not trusted"
	case errors.As(err, &record), errors.As(err, &alert):
		what = "does not speak TLS as we do"
	case errors.Is(err, syscall.ECONNREFUSED):
		what = "refuses the connection"
	case errors.Is(err, context.Canceled):
		what = "was not waited for"
	}
	e.Err = errors.New(origin + " " + what)
	return e
}
