package app_test

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/approval"
	"countersign/channels"
	"countersign/channels/all"
	"countersign/channels/kind"
	"countersign/client"
	"countersign/internal/app"
	"countersign/internal/chat"
	"countersign/internal/config"
	"countersign/internal/secret"
	"countersign/internal/testkit"
	"countersign/webhook"
)

// A channel is data: what a platform is stands in this file alone, and the program is configured for it, sends a
// card to it, hears a press from it, and edits the card. Nothing else in the tree has heard of pagers.

// pagerSection is the channels.pager section.
type pagerSection struct {
	Secret secret.Value `yaml:"secret"`
	APIURL string       `yaml:"api_url"`
	Notify []string     `yaml:"notify"`
}

func (s *pagerSection) Check(c kind.Checks) {
	var ps channels.Problems
	ps.Secret("secret", s.Secret)
	ps.URL("api_url", s.APIURL)
	c.Problems(ps.Err())
	c.Own("secret", "secret of pager", s.Secret)
	c.Notify(s.Notify)
}

func (s *pagerSection) Audience() kind.Audience { return kind.Audience{Notify: s.Notify} }

func (s *pagerSection) Open(kind.Host) (channels.Channel, error) {
	return &pagerChannel{api: s.APIURL, http: channels.NewHTTPClient(channels.HTTPTimeout)}, nil
}

// pagerChannel sends to pagers.
type pagerChannel struct {
	api  string
	http *http.Client
}

var _ channels.Editor = (*pagerChannel)(nil)

func (*pagerChannel) Name() string { return "pager" }

func (ch *pagerChannel) Close() { ch.http.CloseIdleConnections() }

func (*pagerChannel) Render(c channels.Card) (channels.Body, error) {
	b, err := json.Marshal(pagerMessage{Title: c.Text, Request: c.Items[0].ID, State: c.Items[0].Title})
	return b, err
}

func (ch *pagerChannel) Send(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	return ch.do(ctx, http.MethodPost, "/"+m.To, m.Body)
}

func (ch *pagerChannel) Edit(ctx context.Context, m channels.Message) (channels.Receipt, error) {
	var at struct{ Number string }
	if err := json.Unmarshal(m.Target, &at); err != nil {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonNoTarget, Err: err}
	}
	return ch.do(ctx, http.MethodPut, "/"+at.Number, m.Body)
}

func (ch *pagerChannel) do(ctx context.Context, method, path string, body []byte) (channels.Receipt, error) {
	ctx, wire := channels.WatchWire(ctx)
	r, err := http.NewRequestWithContext(ctx, method, ch.api+path, bytes.NewReader(body))
	if err != nil {
		return channels.Receipt{}, &channels.PushError{Final: true, Reason: channels.ReasonBadRequest, Err: err}
	}
	res, err := ch.http.Do(r)
	if err != nil {
		return channels.Receipt{}, channels.TransportError(err, wire)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return channels.Receipt{}, &channels.PushError{Reason: channels.ReasonUnavailable, HTTPStatus: res.StatusCode,
			Err: err}
	}
	return channels.Receipt{HTTPStatus: res.StatusCode, Data: data}, nil
}

// pagerInbound takes presses.
type pagerInbound struct {
	webhook.Inbound
	now kind.Current
}

func (in *pagerInbound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	formed := func(h http.Header) bool { return len(h["X-Pager-Secret"]) == 1 }
	body, ok := in.Verify(w, r, formed, in.signed, "application/json")
	if !ok {
		return
	}
	ctx, cancel := webhook.Bound(r.Context(), webhook.CommitWithin)
	defer cancel()
	var press struct {
		Event   string `json:"event"`
		From    string `json:"from"`
		Action  string `json:"action"`
		Request string `json:"request"`
	}
	if err := channels.Strictly(body, &press); err != nil {
		in.NotUnderstood(ctx).Write(w)
		return
	}
	by, ok := in.People.ByChat("pager", press.From)
	if !ok {
		by = approval.Actor{Kind: approval.Stranger, Name: "pager:" + press.From}
	}
	b, err := channels.NewButton(press.Action, press.Request)
	if err != nil {
		webhook.Answer{Stored: in.Refuse(ctx, by.String(), "unknown_button")}.Write(w)
		return
	}
	_, stored := in.Interact(ctx, chat.Interaction{EventID: "pager:" + press.Event, By: by, From: press.From,
		Intent: b.Intent, RequestID: b.ID})
	webhook.Answer{Stored: stored}.Write(w)
}

func (in *pagerInbound) signed(h http.Header, _ []byte) bool {
	section, _ := in.now.Channel()
	known := section.(*pagerSection).Secret.Reveal()
	return subtle.ConstantTimeCompare([]byte(h.Get("X-Pager-Secret")), []byte(known)) == 1
}

func pagerKind() kind.Kind {
	return kind.Kind{
		Name: "pager", Title: "Pagers", Type: (*pagerChannel)(nil),
		Inbound: func(o webhook.Options, now kind.Current) http.Handler {
			return &pagerInbound{Inbound: webhook.NewInbound("pager", o), now: now}
		},
		Section: func() kind.Section { return new(pagerSection) },
		Address: kind.AddressForm{What: "pager number", How: "pager: 5…", Own: "pager number",
			Check: func(address string) error {
				if !strings.HasPrefix(address, "5") {
					return errors.New("a pager number begins with 5")
				}
				return nil
			}},
	}
}

// pagerMessage is what a pager shows.
type pagerMessage struct{ Title, Request, State string }

// pagerPlatform is where pagers hang on.
type pagerPlatform struct {
	*httptest.Server
	mu     sync.Mutex
	shown  map[string]pagerMessage // by number
	edited map[string]int
}

func newPagerPlatform(t *testing.T) *pagerPlatform {
	p := &pagerPlatform{shown: map[string]pagerMessage{}, edited: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := strings.TrimPrefix(r.URL.Path, "/")
		var m pagerMessage
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.shown[number] = m
		if r.Method == http.MethodPut {
			p.edited[number]++
		}
		json.NewEncoder(w).Encode(map[string]string{"Number": number})
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *pagerPlatform) pager(number string) (m pagerMessage, edits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown[number], p.edited[number]
}

const pagerConfig = `
listen: 127.0.0.1:0
store: sqlite:${STORE}
limits: none
agents: [{name: bot, token: "${AGENT_TOKEN}"}]
people: [{name: hana, roles: [approver, admin], pager: 555-1, token: "${HANA_TOKEN}"}]
channels:
  pager: {secret: "${PAGER_SECRET}", api_url: "${PAGER_API}", notify: [hana]}
policy: {rules: [{name: all, tools: ["*"], risk: high}]}
`

// pagerWorld is the whole program with a pager for a channel.
type pagerWorld struct {
	*world
	platform *pagerPlatform
}

func newPagerWorld(t *testing.T) *pagerWorld {
	p := newPagerPlatform(t)
	w := &world{t: t, ctx: t.Context(), log: &testkit.Buffer{}, env: map[string]string{
		"PAGER_SECRET": "test-pager-secret", "PAGER_API": p.URL, "STORE": filepath.Join(t.TempDir(), "gate.db"),
		"AGENT_TOKEN": secrets["AGENT_TOKEN"], "HANA_TOKEN": secrets["HANA_TOKEN"],
	}}
	cfg, _, err := pagerReader().Parse("pager.yaml", []byte(pagerConfig), w.lookup)
	if err != nil {
		t.Fatal(err)
	}
	w.app, err = app.New(w.ctx, app.Options{Config: cfg, Disk: w.disk, Env: w.lookup,
		Logger: slog.New(slog.NewTextHandler(w.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stop)
	if err := w.app.Start(); err != nil {
		t.Fatal(err)
	}
	w.bot, w.hana = w.client("AGENT_TOKEN"), w.client("HANA_TOKEN")
	return &pagerWorld{w, p}
}

func pagerReader() config.Reader { return config.Reader{Kinds: append(all.Kinds(), pagerKind())} }

// press posts a press as the platform does, and returns how it was answered.
func (w *pagerWorld) press(sent, event, from, id string) int {
	w.t.Helper()
	body := fmt.Sprintf(`{"event":%q,"from":%q,"action":"approve","request":%q}`, event, from, id)
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.url("/webhook/pager"), strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("X-Pager-Secret", sent)
	r.Header.Set("Content-Type", "application/json")
	defer http.DefaultClient.CloseIdleConnections()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

func (w *pagerWorld) status(id string) string {
	w.t.Helper()
	a, err := w.hana.Approval(w.ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.Status + " " + a.ResolvedBy + " " + a.ResolvedVia
}

func TestAFourthChannelIsOneFile(t *testing.T) {
	t.Parallel()
	w := newPagerWorld(t)
	id := w.expect(transfer(5000), client.AnswerPending).ApprovalID
	w.eventually("the card is on the pager", func() bool { m, _ := w.platform.pager("555-1"); return m.Request == id })
	before, _ := w.platform.pager("555-1")

	if got := w.press("not the secret", "e1", "555-1", id); got != http.StatusUnauthorized {
		t.Errorf("a forged press is answered with %d", got)
	}
	if got := w.press("test-pager-secret", "e2", "555-9", id); got != http.StatusOK {
		t.Errorf("a stranger's press is answered with %d", got)
	}
	if got := w.status(id); got != "pending  " {
		t.Fatalf("the request is %s before hana pressed", got)
	}
	if got := w.press("test-pager-secret", "e3", "555-1", id); got != http.StatusOK {
		t.Errorf("hana's press is answered with %d", got)
	}
	if got := w.status(id); got != "approved hana pager" {
		t.Fatalf("the request is %s", got)
	}
	w.eventually("the card is edited", func() bool {
		m, edits := w.platform.pager("555-1")
		return edits == 1 && m.Request == id && m.State != before.State
	})
	w.expect(transfer(5000), client.AnswerApproved)
}

func TestAFourthChannelIsReadStrictly(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) { return "value-of-" + strings.ToLower(name), true }
	for _, tt := range []struct{ name, old, new, want string }{
		{"a key", "secret: ", "secrt: ", `unknown key "secrt" in pager; did you mean "secret"?`},
		{"the section", "  pager: {", "  pagre: {", `unknown key "pagre" in channels; did you mean "pager"?`},
		{"an address", "pager: 555-1", "pager: 4", "a pager number begins with 5"},
		{"nobody's name", "notify: [hana]", "notify: [hanna]", `nobody in people is called "hanna"; did you mean "hana"?`},
		{"nobody there", "pager: 555-1, ", "", "hana has no pager number to be notified at; add pager: 5… to that person"},
		{"an order", "pager: 555-1", "channels: [page]", `unknown channel "page"; use one of line, slack, webhook, pager`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := pagerReader().Parse("pager.yaml", []byte(replacing(tt.old, tt.new)(pagerConfig)), env)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
