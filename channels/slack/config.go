package slack

import (
	"regexp"
	"strings"

	"countersign/channels"
	"countersign/channels/kind"
	"countersign/secret"
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
)

// Validate returns what is wrong with the section by itself, as [channels.Problems].
func (c Config) Validate() error {
	var ps channels.Problems
	ps.Secret("bot_token", c.BotToken)
	switch {
	case len(c.SigningSecret) > 0:
		ps.Secrets("signing_secret", c.SigningSecret)
	case c.AppToken == "":
		ps.Neither("signing_secret", "app_token")
	}
	if c.AppToken != "" {
		ps.Secret("app_token", c.AppToken)
		if !strings.HasPrefix(c.AppToken.Reveal(), "xapp-") {
			ps.Add("app_token", "must be an app-level token, which begins with xapp-; a bot's token (xoxb-) is bot_token")
		}
	}
	if c.Channel != "" && !channelID.MatchString(c.Channel) {
		ps.Add("channel", "must be a channel's id such as C0APPROVALS, not its name")
	}
	if c.AppID != "" && !appID.MatchString(c.AppID) {
		ps.Add("app_id", "must be an app's id such as A0APPROVE1")
	}
	ps.URL("api_url", c.APIURL)
	return ps.Err()
}

// Check implements [kind.Section].
func (c *Config) Check(k kind.Checks) {
	k.Problems(c.Validate())
	k.Own("bot_token", "bot_token", c.BotToken)
	k.Own("signing_secret", "signing_secret", c.SigningSecret...)
	k.Own("app_token", "app_token", c.AppToken)
	if c.Locale != "" {
		k.Locale("locale", c.Locale)
	}
	if c.Channel == "" && !k.Chosen() {
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
func (c *Config) Open(kind.Host) (channels.Channel, error) {
	ch, err := New(*c)
	if err != nil {
		return nil, err
	}
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
