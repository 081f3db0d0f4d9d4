package setup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/emulator"
	"countersign/internal/setup"
)

// trial is a verification of the world's gate.
func (w *world) trial(t *testing.T, f *found) setup.Trial {
	t.Helper()
	return setup.Trial{Config: w.config, Admin: w.client(t, w.url, "HANA_TOKEN"), Agent: w.client(t, w.url, "AGENT_TOKEN"),
		Webhook: w.url, Watch: f.watch(t)}
}

func (w *world) client(t *testing.T, server, token string) *client.Client {
	t.Helper()
	c, err := client.New(server, secrets[token])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// requests returns the gate's requests, newest first.
func (w *world) requests(t *testing.T) []client.Approval {
	t.Helper()
	page, err := w.client(t, w.url, "HANA_TOKEN").Approvals(t.Context(), client.ApprovalQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

// once makes the callback of a wait that acts the first time.
func once(do func()) func(time.Duration) {
	var done atomic.Bool
	return func(time.Duration) {
		if done.CompareAndSwap(false, true) {
			do()
		}
	}
}

// held are the attempts, and that they changed nothing.
var held = []setup.Finding{
	{"gate", setup.OK, "a call of countersign.verify waits for a person: request ", ""},
	{"line", setup.OK, "the test card went to hana", ""},
	{"line", setup.OK, "a tap with a forged signature is refused (HTTP status 401)", ""},
	{"line", setup.OK, "a tap that is too old decides nothing, and is on record as webhook_refused", ""},
	{"line", setup.OK, "a tap meant for another bot or workspace decides nothing, and is on record as webhook_refused",
		""},
	{"line", setup.OK, "a stranger's tap decides nothing, and is on record as decision_refused", ""},
	{"line", setup.OK, "the same tap once more decides nothing, and is on record as webhook_refused", ""},
	{"slack", setup.OK, "the test card went to C0APPROVALS", ""},
	{"slack", setup.OK, "a tap with a forged signature is refused (HTTP status 401)", ""},
	{"slack", setup.OK, "a tap that is too old is refused (HTTP status 401)", ""},
	{"slack", setup.OK, "a tap meant for another bot or workspace decides nothing, and is on record as webhook_refused",
		""},
	{"slack", setup.OK, "a stranger's tap decides nothing, and is on record as decision_refused", ""},
	{"slack", setup.OK, "the same tap once more decides nothing, and is on record as webhook_refused", ""},
}

func TestVerifyWithATap(t *testing.T) {
	for _, tt := range []struct {
		name  string
		tap   func(ctx context.Context, w *world) (emulator.Delivery, error)
		after []setup.Finding
	}{
		{"LINE", func(ctx context.Context, w *world) (emulator.Delivery, error) {
			return w.LINE.Tap(ctx, "hana", "", "Approve")
		}, []setup.Finding{{"line", setup.OK, "hana approved it by a tap", ""},
			{"gate", setup.OK, "the agent is let through by it", ""}}},
		{"Slack", func(ctx context.Context, w *world) (emulator.Delivery, error) {
			return w.Slack.Tap(ctx, "hana", "C0APPROVALS", "", "approve", "")
		}, []setup.Finding{{"slack", setup.OK, "hana approved it by a tap", ""},
			{"gate", setup.OK, "the agent is let through by it", ""}}},
		{"LINE, denied", func(ctx context.Context, w *world) (emulator.Delivery, error) {
			return w.LINE.Tap(ctx, "hana", "", "Deny")
		}, []setup.Finding{{"line", setup.OK, "hana denied it by a tap", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, plan{running: true})
			var f found
			v := w.trial(t, &f)
			v.Wait = time.Minute
			v.Waiting = once(func() {
				if d, err := tt.tap(t.Context(), w); err != nil || !d.OK() {
					t.Errorf("the tap: %+v, error %v", d, err)
				}
			})
			if err := setup.Verify(t.Context(), v); err != nil {
				t.Fatal(err)
			}
			if bad := f.worse(); len(bad) > 0 {
				t.Errorf("not ok: %+v", bad)
			}
			want := append(append([]setup.Finding{
				{"line", setup.OK, "a stranger's tap after the decision decides nothing, and is on record as decision_refused", ""},
				{"slack", setup.OK, "a stranger's tap after the decision decides nothing, and is on record as decision_refused",
					""},
				{"gate", setup.OK, "a second decision changes nothing", ""},
			}, held...), tt.after...)
			for _, x := range want {
				if !f.has(x.Level, x.Channel, x.Message, x.Do) {
					t.Errorf("not found: %+v", x)
				}
			}
			if len(f.all) != len(want) {
				t.Errorf("%d findings, want %d", len(f.all), len(want))
			}
			if t.Failed() {
				t.Log(f.String())
			}
			as := w.requests(t)
			if len(as) != 1 || as[0].Status == "pending" || as[0].Status == "approved" && as[0].ConsumedAt.IsZero() {
				t.Errorf("what is left: %+v", as)
			}
			feed, err := w.client(t, w.url, "AGENT_TOKEN").Resolved(t.Context(), "", 0)
			if err != nil || len(feed) > 0 {
				t.Errorf("left in the agent's feed: %+v, error %v", feed, err)
			}
		})
	}
}

func TestVerifyWithoutATap(t *testing.T) {
	w := newWorld(t, plan{running: true})
	var f found
	if err := setup.Verify(t.Context(), w.trial(t, &f)); err != nil {
		t.Fatal(err)
	}
	for _, x := range append(held, setup.Finding{"gate", setup.OK, "the test request is taken back", ""}) {
		if !f.has(x.Level, x.Channel, x.Message, x.Do) {
			t.Errorf("not found: %+v", x)
		}
	}
	if len(f.all) != len(held)+1 {
		t.Errorf("%d findings, want %d:\n%s", len(f.all), len(held)+1, f.String())
	}
	if as := w.requests(t); len(as) != 1 || as[0].Status != "cancelled" ||
		as[0].ResolveReason != "countersign verify is over" {
		t.Errorf("what is left: %+v", as)
	}
	// The made-up strangers are nobody's ids, and no event was signed as hana's.
	audit, err := w.client(t, w.url, "HANA_TOKEN").Audit(t.Context(), client.AuditQuery{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range audit.Items {
		if strings.HasSuffix(e.EventType, "refused") && (e.Actor == "hana" || strings.Contains(e.Actor, hanaLINE) ||
			strings.Contains(e.Actor, "U02HANA")) {
			t.Errorf("tried as a person: %+v", e)
		}
	}
}

func TestVerifyNobodyTaps(t *testing.T) {
	w := newWorld(t, plan{running: true})
	var f found
	v := w.trial(t, &f)
	v.Wait = 50 * time.Millisecond
	if err := setup.Verify(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if !f.has(setup.Problem, "gate", "nobody tapped within 50ms", "countersign check --online") || !f.has(setup.OK, "gate",
		"taken back", "") {
		t.Error(f.String())
	}
}

func TestVerifyDecidedOverTheAPI(t *testing.T) {
	w := newWorld(t, plan{running: true})
	var f found
	v := w.trial(t, &f)
	v.Wait = time.Minute
	v.Waiting = once(func() {
		if _, err := v.Admin.Decide(t.Context(), w.requests(t)[0].ID, client.Approve, ""); err != nil {
			t.Error(err)
		}
	})
	if err := setup.Verify(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if !f.has(setup.Problem, "gate", "approved by hana over api, and not by a tap", "tap on the card") ||
		!f.has(setup.OK, "gate", "taken back", "") {
		t.Error(f.String())
	}
}

func TestVerifyOverSocketMode(t *testing.T) {
	w := newWorld(t, plan{running: true, channels: `
  slack: {bot_token: "${SLACK_BOT_TOKEN}", app_token: "${SLACK_APP_TOKEN}", channel: C0APPROVALS, api_url: "SLACK"}`})
	var f found
	v := w.trial(t, &f)
	v.Wait = time.Minute
	v.Waiting = once(func() {
		if d, err := w.Slack.Tap(t.Context(), "hana", "C0APPROVALS", "", "approve", ""); err != nil || !d.OK() ||
			d.Socket == "" {
			t.Errorf("the tap: %+v, error %v", d, err)
		}
	})
	if err := setup.Verify(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{"Slack is heard over Socket Mode",
		"a tap with a forged signature is refused (HTTP status 401)", "hana approved it by a tap"} {
		if !f.has(setup.OK, "slack", message, "") {
			t.Errorf("not found: %s", message)
		}
	}
	if bad := f.worse(); len(bad) > 0 || f.has(setup.OK, "slack", "stranger", "") {
		t.Error(f.String())
	}
}

func TestVerifyWhereTheTestCallIsNotAskedAbout(t *testing.T) {
	for name, policy := range map[string]string{
		"allow": `  rules: [{name: everything, tools: ["*"], action: allow, risk: low}]`,
		"deny":  `  rules: [{name: everything, tools: ["*"], action: deny, risk: low}]`,
	} {
		w := newWorld(t, plan{running: true, policy: policy})
		var f found
		if err := setup.Verify(t.Context(), w.trial(t, &f)); err != nil {
			t.Fatal(err)
		}
		if !f.has(setup.Problem, "gate", "is not asked about: the policy says",
			"{tools: [countersign.verify], action: ask, risk: high}") || len(f.worse()) != 1 {
			t.Errorf("%s: %s", name, f.String())
		}
	}
}

func TestVerifyCardsThatDoNotGoOut(t *testing.T) {
	w := newWorld(t, plan{running: true})
	w.Fail(emulator.LINEPush, -1, emulator.MonthlyLimit())
	var f found
	if err := setup.Verify(t.Context(), w.trial(t, &f)); err != nil {
		t.Fatal(err)
	}
	if !f.has(setup.Warning, "line", "the test card did not go to hana: failed", "check --online") ||
		!f.has(setup.OK, "slack", "the test card went to C0APPROVALS", "") {
		t.Error(f.String())
	}
	w = newWorld(t, plan{running: true, channels: `
  line: {channel_secret: "${LINE_CHANNEL_SECRET}", channel_access_token: "${LINE_CHANNEL_ACCESS_TOKEN}", notify: [hana], api_url: "LINE"}`})
	w.Fail(emulator.LINEPush, -1, emulator.MonthlyLimit())
	f = found{}
	if err := setup.Verify(t.Context(), w.trial(t, &f)); err != nil {
		t.Fatal(err)
	}
	if !f.has(setup.Problem, "line", "the test card did not go to hana: failed", "") {
		t.Error(f.String())
	}
	w = newWorld(t, plan{running: true, channels: `
  line: {channel_secret: "${LINE_CHANNEL_SECRET}", channel_access_token: "${LINE_CHANNEL_ACCESS_TOKEN}", api_url: "LINE"}`})
	f = found{}
	if err := setup.Verify(t.Context(), w.trial(t, &f)); err != nil {
		t.Fatal(err)
	}
	if !f.has(setup.Problem, "gate", "notifies nobody", "channels.line.notify") {
		t.Error(f.String())
	}
}

func TestVerifyWherePlatformsRefuse(t *testing.T) {
	w := newWorld(t, plan{running: true})
	w.Fail(emulator.LINEInfo, -1, emulator.Unauthorized())
	w.Fail(emulator.SlackAuthTest, -1, emulator.SlackError("invalid_auth"))
	var f found
	if err := setup.Verify(t.Context(), w.trial(t, &f)); err != nil {
		t.Fatal(err)
	}
	if !f.has(setup.Problem, "line", "so nothing could be tried there: bad_token", "check --online") ||
		!f.has(setup.Problem, "slack", "so nothing could be tried there: bad_token", "") ||
		!f.has(setup.Problem, "gate", "no chat to test in", "") {
		t.Error(f.String())
	}
}

// front is the gate as somebody else would have it: requests and answers pass through change.
func front(t *testing.T, gate string, in func(*http.Request), out func(*http.Response) error) string {
	t.Helper()
	to, err := url.Parse(gate)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	p := &httputil.ReverseProxy{Transport: transport, ModifyResponse: out, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		if in != nil {
			in(r.Out)
		}
	}}
	s := httptest.NewServer(p)
	t.Cleanup(func() { s.Close(); transport.CloseIdleConnections() })
	return s.URL
}

// rewrite replaces words of an answer's body.
func rewrite(path string, old, with string) func(*http.Response) error {
	return func(res *http.Response) error {
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		res.Body.Close()
		if strings.Contains(res.Request.URL.Path, path) {
			b = bytes.ReplaceAll(b, []byte(old), []byte(with))
		}
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		res.Header.Del("Content-Length")
		return nil
	}
}

// A gate that did not hold would be told of.
func TestVerifyTellsWhatDoesNotHold(t *testing.T) {
	// Whoever is before the gate signs what was not signed: a forged tap comes through to it.
	t.Run("signatures", func(t *testing.T) {
		w := newWorld(t, plan{running: true})
		var f found
		v := w.trial(t, &f)
		v.Webhook = front(t, w.url, func(r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(b))
			r.Header.Set("X-Line-Signature", emulator.SignLINE(secrets["LINE_CHANNEL_SECRET"], b))
			now := r.Header.Get("X-Slack-Request-Timestamp")
			r.Header.Set("X-Slack-Signature", emulator.SignSlack(secrets["SLACK_SIGNING_SECRET"], now, b))
		}, nil)
		if err := setup.Verify(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		for _, channel := range []string{"line", "slack"} {
			if !f.has(setup.Problem, channel,
				"a tap with a forged signature decided nothing, but was answered with HTTP status 200, and not 401", "") {
				t.Errorf("%s:\n%s", channel, f.String())
			}
		}
	})
	t.Run("a decision", func(t *testing.T) {
		w := newWorld(t, plan{running: true})
		var f found
		v := w.trial(t, &f)
		var tapped atomic.Bool
		v.Webhook = front(t, w.url, func(*http.Request) { tapped.Store(true) }, nil)
		v.Admin = w.client(t, front(t, w.url, nil, func(res *http.Response) error {
			if !tapped.Load() {
				return nil
			}
			return errors.Join(rewrite("/v1/approvals/", `"resolved_by":null`, `"resolved_by":"line:U5"`)(res),
				rewrite("/v1/approvals/", `"status":"pending"`, `"status":"approved"`)(res))
		}), "HANA_TOKEN")
		if err := setup.Verify(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if !f.has(setup.Problem, "line",
			"a tap with a forged signature DECIDED: the request was pending and is approved, by line:U5", "stop the gate") {
			t.Error(f.String())
		}
	})
	t.Run("a record", func(t *testing.T) {
		w := newWorld(t, plan{running: true})
		var f found
		v := w.trial(t, &f)
		v.Admin = w.client(t, front(t, w.url, nil, rewrite("/v1/audit", "_refused", "_forgotten")), "HANA_TOKEN")
		if err := setup.Verify(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		for _, message := range []string{"a stranger's tap decided nothing, but it is not on record as decision_refused",
			"the same tap once more decided nothing, but it is not on record"} {
			if !f.has(setup.Problem, "line", message, "") || !f.has(setup.Problem, "slack", message, "") {
				t.Errorf("not found: %s\n%s", message, f.String())
			}
		}
	})
	t.Run("the secret", func(t *testing.T) {
		w := newWorld(t, plan{running: true})
		other := newWorld(t, plan{channels: strings.ReplaceAll(strings.ReplaceAll(usualChannels, "${LINE_CHANNEL_SECRET}",
			"not-the-gates-own-secret"), "${SLACK_SIGNING_SECRET}", "nor-is-this-one-for-slack")})
		var f found
		v := w.trial(t, &f)
		v.Config = other.config
		if err := setup.Verify(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if !f.has(setup.Problem, "line",
			"a stranger's tap decided nothing, but was answered with HTTP status 401, and not 200", "not the running gate's") {
			t.Error(f.String())
		}
	})
	t.Run("the address", func(t *testing.T) {
		w := newWorld(t, plan{running: true})
		var f found
		v := w.trial(t, &f)
		v.Webhook = "http://" + freeAddr(t)
		if err := setup.Verify(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if !f.has(setup.Problem, "line", "could not be tried, since nothing answers at "+v.Webhook, "--webhook") {
			t.Error(f.String())
		}
	})
	t.Run("too early", func(t *testing.T) {
		w := newWorld(t, plan{running: true})
		var f found
		v := w.trial(t, &f)
		var tapped atomic.Bool
		v.Webhook = front(t, w.url, func(_ *http.Request) {
			if tapped.CompareAndSwap(false, true) {
				if _, err := w.LINE.Tap(t.Context(), "hana", "", "Approve"); err != nil {
					t.Error(err)
				}
			}
		}, nil)
		if err := setup.Verify(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if !f.has(setup.Problem, "gate", "hana has approved the test request before all was tried", "when it asks you to") ||
			!f.has(setup.OK, "gate", "taken back", "") {
			t.Error(f.String())
		}
		if as := w.requests(t); len(as) != 1 || as[0].Status != "cancelled" {
			t.Errorf("what is left: %+v", as)
		}
	})
}

func TestVerifyNeedsAnAdminAndAGate(t *testing.T) {
	w := newWorld(t, plan{running: true, people: `  - {name: ken, roles: [approver], slack: U0KEN, token: "${KEN_TOKEN}"}`})
	var f found
	v := w.trial(t, &f)
	v.Admin = w.client(t, w.url, "KEN_TOKEN")
	if e, ok := setup.Verify(t.Context(), v).(*client.Error); !ok || e.Code != "not_admin" {
		t.Errorf("error %v", e)
	}
	v.Admin = w.client(t, "http://"+freeAddr(t), "HANA_TOKEN")
	if err := setup.Verify(t.Context(), v); !client.Unreachable(err) {
		t.Errorf("error %v", err)
	}
	if len(f.all) > 0 || len(w.requests(t)) > 0 {
		t.Errorf("found %v", f.all)
	}
}

func TestVerifyInterruptedTidiesUp(t *testing.T) {
	w := newWorld(t, plan{running: true})
	ctx, cancel := context.WithCancel(t.Context())
	var f found
	v := w.trial(t, &f)
	v.Wait = time.Minute
	v.Waiting = once(cancel)
	if err := setup.Verify(ctx, v); ctx.Err() == nil || err == nil {
		t.Fatalf("error %v", err)
	}
	if as := w.requests(t); len(as) != 1 || as[0].Status != "cancelled" {
		t.Errorf("what is left: %+v", as)
	}
}

// A test request that cannot be looked at just after it was made is not left behind.
func TestVerifyThatCannotGoOnTidiesUp(t *testing.T) {
	w := newWorld(t, plan{running: true})
	var f found
	v := w.trial(t, &f)
	var failed atomic.Bool
	v.Admin = w.client(t, front(t, w.url, nil, func(res *http.Response) error {
		if strings.HasPrefix(res.Request.URL.Path, "/v1/approvals/") && failed.CompareAndSwap(false, true) {
			return errors.New("the answer is lost")
		}
		return nil
	}), "HANA_TOKEN")
	if err := setup.Verify(t.Context(), v); err == nil {
		t.Fatal("no error")
	}
	if as := w.requests(t); len(as) != 1 || as[0].Status != "cancelled" {
		t.Errorf("what is left: %+v", as)
	}
}

func TestAddresses(t *testing.T) {
	for _, tt := range []struct{ listen, hooks, public, server, webhook string }{
		{"127.0.0.1:8787", "", "", "http://127.0.0.1:8787", "http://127.0.0.1:8787"},
		{":8787", "0.0.0.0:8788", "", "http://127.0.0.1:8787", "http://127.0.0.1:8788"},
		{"[::1]:8787", "[::]:8788", "https://gate.example.com/x", "http://[::1]:8787", "https://gate.example.com/x"},
	} {
		w := newWorld(t, plan{public: "-"})
		w.config.Listen, w.config.WebhookListen, w.config.PublicURL = tt.listen, tt.hooks, tt.public
		if s, h := setup.ServerURL(w.config), setup.WebhookURL(w.config); s != tt.server || h != tt.webhook {
			t.Errorf("%+v: %s and %s", tt, s, h)
		}
	}
}
