package standardwebhooks

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"

	"countersign/channels"
	"countersign/channels/kind"
	"countersign/internal/loopback"
	"countersign/internal/secret"
)

// Config is the channels.webhook section of the configuration. Where a person is reached is said with
// the person.
type Config struct {
	SigningSecret secret.List `yaml:"signing_secret"` // one, or several while it is being replaced: the newest first
	Notify        []string    `yaml:"notify"`         // names of people
}

// The sizes that Standard Webhooks has for a secret, in bytes.
const (
	leastSecret = 24
	mostSecret  = 64
)

// secretPrefix may stand before a secret, so that it is known for what it is.
const secretPrefix = "whsec_"

// Validate returns what is wrong with the section by itself, as [channels.Problems].
func (c Config) Validate() error {
	var ps channels.Problems
	ps.Secrets("signing_secret", c.SigningSecret)
	if ps == nil {
		for _, s := range c.SigningSecret {
			if n := size(s); n < leastSecret || n > mostSecret {
				ps.Add("signing_secret", "must be 24 to 64 random bytes in base64, whsec_ before them or not: openssl rand "+
					"-base64 32 makes such a secret")
			}
		}
	}
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
	k.Own("signing_secret", "signing_secret of webhook", c.SigningSecret...)
	k.Notify(c.Notify)
	if len(c.Notify) == 0 && !k.IsChosen() {
		k.Warnf("notify", "the webhook notifies nobody; name people in notify")
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
	return &named{Channel: ch, addresses: h.Addresses}, nil
}

// size is how many bytes a secret is of, 0 for what is not base64.
func size(s secret.Value) int {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Reveal(), secretPrefix))
	if err != nil {
		return 0
	}
	return len(key)
}

// maxAddress is the longest address that is called, in bytes.
const maxAddress = 2000

// CheckAddress returns what is wrong with the address of a receiver, nil where nothing is. The error
// does not quote it.
func CheckAddress(address string) error {
	_, err := parse(address)
	return err
}

func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Opaque != "", u.Hostname() == "":
		return nil, errors.New("must be an address such as https://hooks.example.com/countersign")
	case len(address) > maxAddress:
		return nil, errors.New("is longer than 2000 characters")
	case strings.Contains(address, "#"):
		return nil, errors.New("has a #, and what follows one is never sent")
	case u.Scheme == "https", u.Scheme == "http" && loopback.IsHost(u.Hostname()):
		return u, nil
	case u.Scheme == "http":
		return nil, errors.New("must begin with https://; http:// is for this machine itself (127.0.0.1, ::1, localhost)")
	}
	return nil, errors.New("must begin with https://")
}

// Origin is what may be told of an address: its scheme and host, and "" of what is no address. The rest
// can hold secrets.
func Origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
