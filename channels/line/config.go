package line

import (
	"countersign/channels"
	"countersign/channels/kind"
	"countersign/secret"
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
	ps.Secrets("channel_secret", c.ChannelSecret)
	ps.Secret("channel_access_token", c.ChannelAccessToken)
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

// Check implements [kind.Section].
func (c *Config) Check(k kind.Checks) {
	k.Problems(c.Validate())
	k.Own("channel_secret", "channel_secret", c.ChannelSecret...)
	k.Own("channel_access_token", "channel_access_token", c.ChannelAccessToken)
	k.Endpoint("api_url", c.APIURL)
	approvers := k.Notify(c.Notify)
	switch {
	case len(c.Notify) == 0 && !k.Chosen():
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
