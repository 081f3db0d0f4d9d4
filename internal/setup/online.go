package setup

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"countersign/channels"
	outbound "countersign/channels/standardwebhooks"
	"countersign/internal/config"
)

// Online asks each configured platform about what the configuration alone does not show. Nothing is
// sent to anybody. The error is ctx's: what was found is told to w.
func Online(ctx context.Context, cfg *config.Config, w Watch) error {
	i := &inspection{Watch: w, cfg: cfg, http: channels.NewHTTPClient(channels.HTTPTimeout)}
	defer i.http.CloseIdleConnections()
	if len(cfg.Channels.Names()) == 0 {
		i.warning(gate, "no channel is configured, so nobody is notified of requests",
			"add channels.line, channels.slack or channels.webhook; countersign init writes such a file")
	}
	for _, look := range []func(context.Context) error{i.line, i.slack, i.webhooks, i.openID} {
		if err := look(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// inspection is one look at everything.
type inspection struct {
	Watch
	cfg  *config.Config
	http *http.Client
}

// reportFailure tells why a platform did not answer a question. advice says what to do by the reason.
func (i *inspection) reportFailure(channel, what string, err error, advice map[string]string) {
	e := channels.AsPushError(err)
	do := advice[e.Reason]
	if do == "" {
		switch e.Reason {
		case channels.ReasonRateLimited:
			do = "wait a minute and try again"
		case channels.ReasonTimeout, channels.ReasonUnavailable:
			do = "check this machine's network connection, and try again"
		default:
			do = "try again; if it stays, look at api_url"
		}
	}
	i.problem(channel, fmt.Sprintf("%s: %s", what, channels.Said(e.Error())), do)
}

// hookURL is where a platform is to post to, "" while that is not known.
func hookURL(cfg *config.Config, channel string) string {
	if cfg.PublicURL == "" {
		return ""
	}
	return cfg.PublicURL + "/webhook/" + channel
}

// plainURL is an address without what may be secret in it.
func plainURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "an address that is none"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return channels.Said(u.String())
}

// sameURL reports whether two addresses mean the same place.
func sameURL(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && strings.EqualFold(x.Scheme, y.Scheme) && strings.EqualFold(x.Host, y.Host) &&
		x.EscapedPath() == y.EscapedPath() && x.RawQuery == y.RawQuery
}

// webhooks looks whether people's own addresses can be reached. A connection is opened, and nothing is
// said over it.
func (i *inspection) webhooks(ctx context.Context) error {
	if i.cfg.Channels[outbound.Name] == nil {
		return nil
	}
	for _, p := range i.cfg.File.People {
		address := p.Addresses[outbound.Name].Reveal()
		if address == "" {
			continue
		}
		at := outbound.Origin(address)
		i.doing(fmt.Sprintf("webhook: whether %s can be reached for %s", at, p.Name))
		via, err := reach(ctx, address)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			i.problem(outbound.Name, fmt.Sprintf("%s of %s cannot be reached: %s", at, p.Name, err),
				"look at people[].webhook, and whether that server is up and has a valid certificate")
		case via:
			i.ok(outbound.Name, fmt.Sprintf("%s of %s is reached through this machine's proxy; it was not looked at further", at,
				p.Name))
		default:
			i.ok(outbound.Name, fmt.Sprintf("%s of %s can be reached; nothing was posted to it", at, p.Name))
		}
	}
	return nil
}

// openID asks the provider that people sign in at what it says of itself.
func (i *inspection) openID(ctx context.Context) error {
	o := i.cfg.SignIn.OpenID
	if o == nil {
		return nil
	}
	i.doing("openid: what " + o.Issuer + " says of itself")
	wrong, do := o.Ask(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case wrong != "":
		i.problem(openID, "nobody can sign in at "+o.Issuer+": "+wrong, do)
	default:
		i.ok(openID, o.Issuer+" answers, and calls itself so")
	}
	return nil
}
