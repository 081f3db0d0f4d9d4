package setup_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/internal/auth/openid"
	"countersign/internal/auth/openid/openidtest"
	"countersign/internal/emulator"
	"countersign/internal/setup"
	"countersign/internal/testkit"
)

func TestOnlineWhereAllIsWell(t *testing.T) {
	w := newWorld(t, plan{running: true})
	var f found
	if err := setup.Online(t.Context(), w.config, f.watch(t)); err != nil {
		t.Fatal(err)
	}
	if bad := f.worse(); len(bad) > 0 {
		t.Errorf("not ok: %+v", bad)
	}
	for _, message := range []string{
		"the channel access token works; the bot is Countersign @sandbox", "LINE sends taps to " + w.url + "/webhook/line",
		"LINE's own test of the webhook address succeeded",
		"no limit of messages", `hana is a friend of the bot, as "hana"`,
	} {
		if !f.has(setup.OK, "line", message, "") {
			t.Errorf("not found: %s", message)
		}
	}
	for _, message := range []string{
		"the bot token works, in the workspace Sandbox (T0SANDBOX1)", "every scope that is used",
		"cards go to #approvals, a public channel", "the gate answers at " + w.url + "/webhook/slack",
	} {
		if !f.has(setup.OK, "slack", message, "") {
			t.Errorf("not found: %s", message)
		}
	}
	if !f.has(setup.OK, "slack", "Slack does not tell", w.url+
		"/webhook/slack under Interactivity & Shortcuts, Event Subscriptions and Slash Commands") {
		t.Error("nobody is told what to enter in Slack")
	}
	if t.Failed() {
		t.Log(f.String())
	}
	if len(f.doing) < 8 {
		t.Errorf("progress was %q", f.doing)
	}
	for _, e := range []emulator.Endpoint{emulator.LINEPush, emulator.LINEReply, emulator.SlackPostMessage,
		emulator.SlackSocketLink} {
		if calls := w.Calls(e); len(calls) > 0 {
			t.Errorf("%s was called", e)
		}
	}
}

// The provider that people sign in at is asked how it calls itself.
func TestOnlineSaysWhatIsTheIssuer(t *testing.T) {
	provider := openidtest.New(t, openidtest.Options{Now: time.Now})
	provider.Lie(openidtest.Lies{Metadata: func(m map[string]any) { m["issuer"] = provider.Issuer() + "/" }})
	w := newWorld(t, plan{running: true})
	for issuer, want := range map[string]setup.Level{provider.Issuer(): setup.Problem, provider.Issuer() + "/": setup.OK} {
		w.config.SignIn.OpenID = &openid.Config{Issuer: issuer, ClientID: openidtest.ClientID}
		var f found
		if err := setup.Online(t.Context(), w.config, f.watch(t)); err != nil {
			t.Fatal(err)
		}
		do := ""
		if want == setup.Problem {
			do = "write sign_in.openid.issuer: " + provider.Issuer() + "/"
		}
		if !f.has(want, "openid", issuer, do) {
			t.Errorf("%s: %s", issuer, f.String())
		}
	}
}

func TestOnlineFindings(t *testing.T) {
	without := func(scopes ...string) func(*emulator.Config) {
		all := []string{"chat:write", "channels:read", "groups:read", "im:history", "app_mentions:read", "commands"}
		return func(c *emulator.Config) {
			c.Slack.Scopes = []string{}
			for _, s := range all {
				if !strings.Contains(strings.Join(scopes, " "), s) {
					c.Slack.Scopes = append(c.Slack.Scopes, s)
				}
			}
		}
	}
	const slackOnly = `
  slack: {bot_token: "${SLACK_BOT_TOKEN}", signing_secret: "${SLACK_SIGNING_SECRET}", channel: C0APPROVALS, api_url: "SLACK"}`
	slackWith := func(more string) string { return strings.Replace(slackOnly, "api_url", more+", api_url", 1) }
	inChannel := func(id string) string { return strings.Replace(slackOnly, "C0APPROVALS", id, 1) }
	const socket = `
  slack: {bot_token: "${SLACK_BOT_TOKEN}", app_token: "${SLACK_APP_TOKEN}", channel: C0APPROVALS, api_url: "SLACK"}`
	const ken = `  - {name: ken, roles: [approver], line: ` + kenLINE + `, token: "${KEN_TOKEN}"}`
	change := func(do func(*emulator.Channel)) func(*world) {
		return func(w *world) {
			if err := w.Slack.ChangeChannel("C0APPROVALS", do); err != nil {
				panic(err)
			}
		}
	}
	fail := func(e emulator.Endpoint, f emulator.Fault) func(*world) { return func(w *world) { w.Fail(e, -1, f) } }

	for _, tt := range []struct {
		name        string
		plan        plan
		change      func(*world)
		level       setup.Level
		channel     string
		message, do string
	}{
		{"no channel", plan{channels: " {}"}, nil, setup.Warning, "gate", "no channel is configured", "countersign init"},

		{"LINE's token", plan{}, fail(emulator.LINEInfo, emulator.Unauthorized()), setup.Problem, "line",
			"who the bot is: bad_token (HTTP 401)", "issue a channel access token"},
		{"LINE is away", plan{}, fail(emulator.LINEInfo, emulator.ServerError()), setup.Problem, "line", "unavailable",
			"network connection"},
		{"LINE limits", plan{}, fail(emulator.LINEQuota, emulator.RateLimited(0)), setup.Problem, "line",
			"how many messages are left: rate_limited", "wait a minute"},
		{"LINE says nonsense", plan{}, fail(emulator.LINEInfo, emulator.EmptyObject()), setup.Problem, "line",
			"broken_answer", "look at api_url"},
		{"no webhook address", plan{}, func(w *world) { w.SetWebhooks("", "") }, setup.Problem, "line",
			"no webhook address is set", "/webhook/line as the Webhook URL"},
		{"another webhook address", plan{}, func(w *world) { w.SetWebhooks("http://127.0.0.1:9/x?key=s3cret", "") },
			setup.Problem, "line", "to http://127.0.0.1:9/x, and not to http://127.0.0.1:", "/webhook/line as the Webhook URL"},
		{"no public_url", plan{public: "-"}, nil, setup.Warning, "line", "public_url is not set, so it cannot be compared",
			"set public_url"},
		{"webhook off", plan{}, func(w *world) { w.LINE.SetWebhookActive(false) }, setup.Problem, "line",
			`"Use webhook" is off`, "switch it on"},
		{"LINE's test: not running", plan{}, nil, setup.Problem, "line",
			"failed: COULD_NOT_CONNECT: Could not connect (HTTP status 0)", "start countersign serve"},
		{"LINE's test: wrong secret", plan{running: true, sandbox: func(c *emulator.Config) {
			c.LINE.ChannelSecret = "another-secret-0123456789"
		}}, nil, setup.Problem, "line", "ERROR_STATUS_CODE: 401 (HTTP status 401)", "copy the channel secret"},
		{"LINE's test itself fails", plan{}, fail(emulator.LINEWebhookTest, emulator.ServerError()), setup.Problem, "line",
			"did not test", ""},
		{"quota", plan{}, func(w *world) { w.LINE.SetQuota(200); w.LINE.SetUsage(159) }, setup.OK, "line",
			"159 of the month's 200 messages are used", ""},
		{"quota at 80 %", plan{}, func(w *world) { w.LINE.SetQuota(200); w.LINE.SetUsage(160) }, setup.Warning, "line",
			"running out (160 of 200 used)", "larger plan"},
		{"quota spent", plan{}, func(w *world) { w.LINE.SetQuota(200); w.LINE.SetUsage(200) }, setup.Problem, "line",
			"used up (200 of 200)", "second channel"},
		{"no friend", plan{}, func(w *world) { w.LINE.SetBlocked("hana", true) }, setup.Problem, "line",
			"hana is not a friend of the bot, so LINE drops their cards", "https://line.me/R/ti/p/%40sandbox"},
		{"no friend, and not told", plan{people: ken}, nil, setup.Warning, "line", "ken is not a friend of the bot",
			"add the bot as a friend"},
		{"profile unavailable", plan{}, fail(emulator.LINEProfile, emulator.ServerError()), setup.Problem, "line",
			"whether hana is a friend", ""},

		{"Slack's token", plan{}, fail(emulator.SlackAuthTest, emulator.SlackError("invalid_auth")), setup.Problem, "slack",
			"who the bot is: bad_token (HTTP 200): invalid_auth", "copy the Bot User OAuth Token"},
		{"Slack is away", plan{}, fail(emulator.SlackAuthTest, emulator.ConnectionClosed()), setup.Problem, "slack",
			"unavailable", "network connection"},
		{"may not write", plan{sandbox: without("chat:write")}, nil, setup.Problem, "slack",
			"lacks the scope chat:write, which is for cards", "install the app again"},
		{"no slash command", plan{sandbox: without("commands")}, nil, setup.Warning, "slack",
			"lacks the scope commands, which is for the slash command", ""},
		{"no typed words", plan{sandbox: without("im:history")}, nil, setup.Warning, "slack", "lacks the scope im:history",
			""},
		{"no mentions", plan{sandbox: without("app_mentions:read")}, nil, setup.Warning, "slack",
			"lacks the scope app_mentions:read", ""},
		{"may not look", plan{sandbox: without("channels:read")}, nil, setup.Problem, "slack",
			"C0APPROVALS cannot be looked at: missing_scope (HTTP 200): missing_scope, needs channels:read", "add the scope"},
		{"no such channel", plan{channels: inChannel("C0NOWHERE")}, nil, setup.Problem, "slack",
			"C0NOWHERE cannot be looked at: bad_recipient", "invite the bot"},
		{"hidden channel", plan{channels: inChannel("C0HIDDEN")}, nil, setup.Problem, "slack", "C0HIDDEN cannot be looked at",
			"invite the bot"},
		{"private channel", plan{channels: inChannel("C0PRIVATE")}, nil, setup.OK, "slack",
			"cards go to #closed, a private channel", ""},
		{"the other kind's scope", plan{channels: inChannel("C0PRIVATE"), sandbox: without("channels:read")}, nil, setup.OK,
			"slack", "every scope that is used", ""},
		{"a conversation of two", plan{channels: inChannel("D0HANA")}, nil, setup.OK, "slack", "the conversation D0HANA", ""},
		{"archived", plan{}, change(func(c *emulator.Channel) { c.IsArchived = true }), setup.Problem, "slack",
			"#approvals is archived", "unarchive it"},
		{"not invited", plan{}, change(func(c *emulator.Channel) { c.BotAbsent = true }), setup.Problem, "slack",
			"the bot is not in #approvals", "/invite"},
		{"shared", plan{}, change(func(c *emulator.Channel) { c.IsExtShared = true }), setup.Problem, "slack",
			"people of other organisations see #approvals, so no card goes there", "allow_shared"},
		{"shared, and allowed", plan{channels: slackWith("allow_shared: true")}, change(func(c *emulator.Channel) {
			c.IsExtShared = true
		}), setup.Warning, "slack", "read the arguments of every call", "channel of your own"},
		{"no way in", plan{channels: slackOnly, public: "-"}, nil, setup.Warning, "slack", "it is not known how taps come in",
			"Socket Mode"},
		{"nothing answers", plan{channels: slackOnly}, nil, setup.Problem, "slack", "nothing answers at http://127.0.0.1:",
			"start countersign serve"},
		{"Socket Mode", plan{channels: socket}, nil, setup.OK, "slack", "the app-level token works", ""},
		{"Socket Mode's token", plan{channels: socket, sandbox: func(c *emulator.Config) {
			c.Slack.AppToken = "xapp-another-0123456789"
		}}, nil, setup.Problem, "slack", "does not take the app-level token: invalid_auth", "connections:write"},
		{"Socket Mode's scope", plan{channels: socket, sandbox: func(c *emulator.Config) { c.Slack.AppScopes = []string{} }},
			nil, setup.Problem, "slack", "does not take the app-level token: missing_scope", "connections:write"},
		{"Socket Mode off", plan{channels: socket}, fail(emulator.SlackConnectionOpen, emulator.SlackError("link_disabled")),
			setup.Problem, "slack", "switched off", "switch it on"},
		{"Socket Mode limited", plan{channels: socket}, fail(emulator.SlackConnectionOpen, emulator.RateLimited(0)),
			setup.Problem, "slack", "ratelimited", "wait a minute"},
		{"Socket Mode away", plan{channels: socket}, fail(emulator.SlackConnectionOpen, emulator.ConnectionClosed()),
			setup.Problem, "slack", "whether Socket Mode can be used: ", "network connection"},
		{"Socket Mode says nonsense", plan{channels: socket}, fail(emulator.SlackConnectionOpen, emulator.Garbage()),
			setup.Problem, "slack", "nothing that is understood", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.plan)
			if tt.change != nil {
				tt.change(w)
			}
			var f found
			if err := setup.Online(t.Context(), w.config, f.watch(t)); err != nil {
				t.Fatal(err)
			}
			if !f.has(tt.level, tt.channel, tt.message, tt.do) {
				t.Errorf("want %s %s: %s → %s, got\n%s", tt.level, tt.channel, tt.message, tt.do, f.String())
			}
			if strings.Contains(f.String(), "s3cret") {
				t.Errorf("the query of an address is shown:\n%s", f.String())
			}
		})
	}
}

// What answers at our address and is not us is a warning: some proxies let only POST through.
func TestOnlineSomethingElseAnswers(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	w := newWorld(t, plan{public: other.URL})
	var f found
	if err := setup.Online(t.Context(), w.config, f.watch(t)); err != nil {
		t.Fatal(err)
	}
	if !f.has(setup.Warning, "slack", "not as the gate does (HTTP status 404)", "webhook_listen") {
		t.Error(f.String())
	}
	w.SetWebhooks(other.URL+"/webhook/line", "")
	f = found{}
	if err := setup.Online(t.Context(), w.config, f.watch(t)); err != nil {
		t.Fatal(err)
	}
	if !f.has(setup.Problem, "line", "(HTTP status 404)", "path and all") {
		t.Error(f.String())
	}
}

func TestOnlineWebhooks(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("something was posted")
	}))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of who hangs up
	secure.StartTLS()
	defer secure.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	const ours = `
  webhook: {signing_secret: "${WEBHOOK_SECRET}", notify: [ken, mio, taro, ai]}`
	w := newWorld(t, plan{channels: ours, people: `
  - {name: ken, roles: [approver], webhook: "` + secure.URL + `/hidden-path", token: "${KEN_TOKEN}"}
  - {name: mio, roles: [approver], slack: U0MIO, webhook: "http://` + nobody + `/hidden-path"}
  - {name: taro, roles: [approver], slack: U0TARO, webhook: "https://nowhere.invalid/hidden-path"}
  - {name: ai, roles: [approver], slack: U0AI, webhook: "HOOK/hidden-path"}`, sandbox: nil})
	var f found
	if err := setup.Online(t.Context(), w.config, f.watch(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []setup.Finding{
		{"webhook", setup.Problem, secure.URL + " of ken cannot be reached: its certificate is not valid for it",
			"valid certificate"},
		{"webhook", setup.Problem, "http://" + nobody + " of mio cannot be reached: connect: connection refused",
			"people[].webhook"},
		{"webhook", setup.Problem, "https://nowhere.invalid of taro cannot be reached: its name", ""},
		{"webhook", setup.OK, w.URL() + " of ai can be reached; nothing was posted to it", ""},
	} {
		if !f.has(want.Level, want.Channel, want.Message, want.Do) {
			t.Errorf("want %+v, got\n%s", want, f.String())
		}
	}
	if strings.Contains(f.String()+strings.Join(f.doing, ""), "hidden-path") {
		t.Errorf("an address is shown whole:\n%s", f.String())
	}
	if calls := w.Calls(); len(calls) > 0 {
		t.Errorf("%d requests were made", len(calls))
	}
}

func TestOnlineStops(t *testing.T) {
	w := newWorld(t, plan{})
	hold := w.Hold(emulator.LINEInfo)
	defer hold.Release()
	ctx, cancel := context.WithCancel(t.Context())
	var f found
	done := make(chan error)
	go func() { done <- setup.Online(ctx, w.config, f.watch(t)) }()
	if err := hold.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := testkit.Receive(t, "the end", done); err != context.Canceled || len(f.all) > 0 {
		t.Errorf("error %v, found %v", err, f.all)
	}
}
