package line

import (
	"countersign/channels"
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
