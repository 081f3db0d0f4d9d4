package slack

import (
	"regexp"
	"strings"

	"countersign/channels"
	"countersign/channels/kind"
	"countersign/internal/secret"
)

// DefaultAPIURL is where Slack's Web API is.
const DefaultAPIURL = "https://slack.com/api/"

// Config is the channels.slack section of the configuration.
type Config struct {
	BotToken secret.Value `yaml:"bot_token"`
	// one, or several while it is being replaced; not needed with AppToken
	SigningSecret secret.List  `yaml:"signing_secret"`
	AppToken      secret.Value `yaml:"app_token"`    // where given, Slack is reached over Socket Mode
	Channel       string       `yaml:"channel"`      // the id of the channel that cards go to; "": to people only
	Locale        string       `yaml:"locale"`       // of the channel's cards; default en
	APIURL        string       `yaml:"api_url"`      // default DefaultAPIURL
	AppID         string       `yaml:"app_id"`       // where given, taps must come from this app
	AllowShared   bool         `yaml:"allow_shared"` // send cards also where people of other organisations see them
}

var (
	channelID = regexp.MustCompile(`^[A-Z][A-Z0-9]{2,63}$`)
	appID     = regexp.MustCompile(`^A[A-Z0-9]{2,63}$`)
	// signingForm is what Slack's signing secrets look like.
	signingForm = regexp.MustCompile(`^[0-9a-z]{32}$`)
)

// other says what an id or token of Slack's is by its first letters, "" where that is not known. Where one of another
// kind is wanted it can only be a mix-up; else ids have no rule.
func other(value string) string {
	for _, k := range []struct{ prefix, is string }{
		{"xoxb-", "a bot token, which goes to bot_token"}, {"xapp-", "an app-level token, which goes to app_token"},
		{"xoxp-", "a user's token"}, {"xoxc-", "a browser's token"}, {"xoxd-", "a browser's cookie"},
		{"xoxa-", "a workspace token"}, {"xoxr-", "a refresh token"}, {"xoxe-", "a refresh token"},
		{"A", "an app's id"}, {"B", "a bot's id"}, {"S", "a user group's id"}, {"T", "a workspace's id"},
		{"E", "an organisation's id"}, {"C", "a channel's id"}, {"D", "a direct message's id"}, {"G", "a channel's id"},
		{"U", "a member's id"}, {"W", "a member's id"},
	} {
		if strings.HasPrefix(value, k.prefix) {
			return k.is
		}
	}
	return ""
}

// Validate returns what is wrong with the section by itself, as [channels.Problems].
func (c Config) Validate() error {
	var ps channels.Problems
	ps.Secret("bot_token", c.BotToken)
	if t := c.BotToken.Reveal(); strings.HasPrefix(t, "x") && !strings.HasPrefix(t, "xoxb-") && other(t) != "" {
		ps.Add("bot_token", "is "+other(t)+"; "+whereBotToken)
	}
	switch {
	case len(c.SigningSecret) > 0:
		ps.Secrets("signing_secret", c.SigningSecret)
		for _, one := range c.SigningSecret.Reveal() {
			if is := other(one); is != "" && one[0] == 'x' {
				ps.Add("signing_secret", "is "+is+"; "+whereSigningSecret)
			}
		}
	case c.AppToken == "":
		ps.Neither("signing_secret", "app_token")
	}
	if c.AppToken != "" {
		ps.Secret("app_token", c.AppToken)
		if secret.FindSlip(c.AppToken) == "" && !strings.HasPrefix(c.AppToken.Reveal(), "xapp-") {
			ps.Add("app_token", "must be an app-level token, which begins with xapp-; a bot's token (xoxb-) is bot_token")
		}
	}
	switch {
	case c.Channel == "":
	case !channelID.MatchString(c.Channel):
		ps.Add("channel", "must be a channel's id such as C0APPROVALS, not its name")
	case strings.ContainsAny(c.Channel[:1], "ABEST"):
		ps.Add("channel", "is "+other(c.Channel)+"; it must be a channel's, such as C0APPROVALS, which stands at the "+
			"bottom of the channel's details")
	}
	if c.AppID != "" && !appID.MatchString(c.AppID) {
		ps.Add("app_id", "must be an app's id such as A0APPROVE1")
	}
	ps.URL("api_url", c.APIURL)
	return ps.Err()
}

const (
	whereBotToken      = "copy the Bot User OAuth Token (xoxb-…) from OAuth & Permissions of your app"
	whereSigningSecret = "copy the Signing Secret from Basic Information of your app"
)

// doubts are what does not look as Slack writes it: it may be a piece, or something else. Whatever else speaks Slack's
// API, at another api_url, has forms of its own.
func (c Config) doubts() channels.Problems {
	var ps channels.Problems
	if c.base() != DefaultAPIURL {
		return nil
	}
	if !strings.HasPrefix(c.BotToken.Reveal(), "xoxb-") {
		ps.Add("bot_token", "does not begin with xoxb-, as Slack's bot tokens do; "+whereBotToken)
	}
	for _, one := range c.SigningSecret.Reveal() {
		if !signingForm.MatchString(one) {
			ps.Add("signing_secret", "is not 32 characters out of 0-9 and a-z, as Slack's are, so taps may be refused; "+
				whereSigningSecret)
		}
	}
	return ps
}

// Check implements [kind.Section].
func (c *Config) Check(k kind.Checks) {
	k.Problems(c.Validate())
	for _, p := range c.doubts() {
		k.Warnf(p.Field, "%s %s", p.Field, p.Message)
	}
	k.Own("bot_token", "bot_token", c.BotToken)
	k.Own("signing_secret", "signing_secret", c.SigningSecret...)
	k.Own("app_token", "app_token", c.AppToken)
	if c.Locale != "" {
		k.Locale("locale", c.Locale)
	}
	if c.Channel == "" && !k.IsChosen() {
		k.Errorf("channel", "channel is missing: it is the id of the channel that cards go to, such as C0APPROVALS; or "+
			"give people channels: [slack]")
	}
	k.Endpoint("api_url", c.APIURL)
	if !k.CanDecide() {
		k.Warnf("", "nobody with the role approver has a Slack user id, so nobody there can decide; add slack: U… to a "+
			"person")
	}
}

// Audience implements [kind.Section].
func (c *Config) Audience() kind.Audience { return kind.Audience{Room: c.Channel, Locale: c.Locale} }

// Open implements [kind.Section].
func (c *Config) Open(h kind.Host) (channels.Channel, error) {
	ch, err := New(*c)
	if err != nil {
		return nil, err
	}
	ch.now = h.Now
	return ch, nil
}

// PostedTo implements [kind.PostedTo]: without a secret nothing could be signed, and all comes over Socket Mode.
func (c *Config) PostedTo() bool { return len(c.SigningSecret) > 0 }

// base returns the API's address as the SDK needs it.
func (c Config) base() string {
	if c.APIURL == "" {
		return DefaultAPIURL
	}
	return strings.TrimRight(c.APIURL, "/") + "/"
}
