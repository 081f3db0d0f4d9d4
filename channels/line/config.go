package line

import (
	"cmp"
	"regexp"
	"strings"

	"countersign/channels"
	"countersign/channels/kind"
	"countersign/internal/secret"
)

// DefaultAPIURL is where LINE's Messaging API is.
const DefaultAPIURL = "https://api.line.me"

// Config is the channels.line section of the configuration.
type Config struct {
	ChannelSecret      secret.List  `yaml:"channel_secret"` // one, or several while it is being replaced
	ChannelAccessToken secret.Value `yaml:"channel_access_token"`
	Notify             []string     `yaml:"notify"`  // names of people
	APIURL             string       `yaml:"api_url"` // default DefaultAPIURL
}

// Validate returns what is wrong with the section by itself, as [channels.Problems].
func (c Config) Validate() error {
	var ps channels.Problems
	c.checkSecrets(&ps)
	ps.URL("api_url", c.APIURL)
	seen := map[string]bool{}
	for _, name := range c.Notify {
		if seen[name] {
			ps.Add("notify", "names "+name+" twice")
		}
		seen[name] = true
	}
	return ps.Err()
}

var (
	secretForm    = regexp.MustCompile(`^[0-9a-f]{32}$`)
	channelIDForm = regexp.MustCompile(`^[0-9]{1,20}$`) // which stands beside the secret in the console
)

const (
	whereSecret = "copy the Channel secret from the channel's Basic settings tab in the LINE Developers console"
	whereToken  = "issue a channel access token (long-lived) in the channel's Messaging API tab in the LINE Developers " +
		"console"
)

// checkSecrets adds what is wrong with the secret and the token, such as one in place of the other.
func (c Config) checkSecrets(ps *channels.Problems) {
	if len(c.ChannelSecret) == 0 {
		ps.Secrets("channel_secret", nil)
	}
	for _, one := range c.ChannelSecret {
		if channelIDForm.MatchString(one.Reveal()) {
			ps.Add("channel_secret", "is digits alone, as a Channel ID is; "+whereSecret)
			continue
		}
		ps.Secret("channel_secret", one)
	}
	switch t := c.ChannelAccessToken.Reveal(); {
	case channelIDForm.MatchString(t):
		ps.Add("channel_access_token", "is digits alone, as a Channel ID is; "+whereToken)
	case secretForm.MatchString(t):
		ps.Add("channel_access_token", "has the form of a channel secret; "+whereToken)
	default:
		ps.Secret("channel_access_token", c.ChannelAccessToken)
	}
}

// doubts are what does not look as LINE writes it: it may be a piece, or something else. Whatever else speaks LINE's
// API, at another api_url, has forms of its own.
func (c Config) doubts() channels.Problems {
	var ps channels.Problems
	if c.base() != DefaultAPIURL {
		return nil
	}
	for _, one := range c.ChannelSecret.Reveal() {
		if !secretForm.MatchString(one) {
			ps.Add("channel_secret",
				"is not 32 characters out of 0-9 and a-f, as LINE's are, so taps may be refused; "+whereSecret)
		}
	}
	return ps
}

// base is where LINE's API is.
func (c Config) base() string { return cmp.Or(strings.TrimRight(c.APIURL, "/"), DefaultAPIURL) }

// Check implements [kind.Section].
func (c *Config) Check(k kind.Checks) {
	k.Problems(c.Validate())
	for _, p := range c.doubts() {
		k.Warnf(p.Field, "%s %s", p.Field, p.Message)
	}
	k.Own("channel_secret", "channel_secret", c.ChannelSecret...)
	k.Own("channel_access_token", "channel_access_token", c.ChannelAccessToken)
	k.Endpoint("api_url", c.APIURL)
	approvers := k.Notify(c.Notify)
	switch {
	case len(c.Notify) == 0 && !k.IsChosen():
		k.Warnf("notify", "LINE notifies nobody; name people in notify")
	case approvers == 0 && len(c.Notify) > 0:
		k.Warnf("notify", "LINE notifies nobody with the role approver, so nobody there can decide")
	}
}

// Audience implements [kind.Section].
func (c *Config) Audience() kind.Audience { return kind.Audience{Notify: c.Notify} }

// Open implements [kind.Section].
func (c *Config) Open(h kind.Host) (channels.Channel, error) {
	ch, err := New(*c)
	if err != nil {
		return nil, err
	}
	ch.quotas.log, ch.quotas.now = h.Logger, h.Now
	return ch, nil
}
