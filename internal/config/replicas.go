package config

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/internal/loopback"
	"countersign/internal/secret"
	"countersign/internal/yamlpos"
)

// Replicas are what the programs on one database have together.
type Replicas struct {
	// Secret is the same for all, and never in the database. The first is signed with, each is accepted.
	Secret secret.List `yaml:"secret" json:"secret"`
	// Address is where the others reach this one; "": at Listen.
	Address string `yaml:"address,omitempty" json:"address,omitempty"`
	// Failover says whether a server that takes over may lack what was committed last.
	Failover string `yaml:"failover,omitempty" json:"failover,omitempty"`
}

// What a failover of the database may do.
const (
	failoverMayLose  = "may_lose"
	failoverLossless = "lossless"
)

// Lossless reports whether no server takes over for the database that lacks what was committed.
func (r Replicas) Lossless() bool { return r.Failover == failoverLossless }

// IsDatabase reports whether the store is a database that several programs may share.
func (c *Config) IsDatabase() bool { return c.StoreURL != "" }

// ReplicaAddress is the URL at which other programs on the database reach this one.
func (c *Config) ReplicaAddress() string {
	if c.Replicas.Address != "" || !c.IsDatabase() {
		return c.Replicas.Address
	}
	return "http://" + c.Listen
}

// ofItsMachine are the keys of what may be another's on each machine.
var ofItsMachine = []string{"listen", "webhook_listen", "pages_listen", "debug_listen", "tls", "webhook_tls",
	"pages_tls", "socket", "published", "trusted_proxies"}

// sharedDigest is the SHA-256, in hex, of what a configuration says of the gate, and not of the machine that it is on,
// before variables are replaced: programs on one database are to have the same.
func sharedDigest(root *yamlpos.Node) string {
	sum := sha256.New()
	if root == nil { // of an empty file
		root = &yamlpos.Node{}
	}
	for _, e := range root.Entries {
		if slices.Contains(ofItsMachine, e.Key) {
			continue
		}
		of := *e.Value
		if e.Key == "replicas" {
			of.Entries = slices.DeleteFunc(slices.Clone(of.Entries), func(e yamlpos.Entry) bool { return e.Key == "address" })
		}
		fmt.Fprintf(sum, "%q:", e.Key)
		writeNode(sum, &of)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func writeNode(w io.Writer, n *yamlpos.Node) {
	fmt.Fprintf(w, "%v %q {", n.Kind, cmp.Or(n.Written, n.Source))
	for _, item := range n.Items {
		writeNode(w, item)
	}
	for _, e := range n.Entries {
		fmt.Fprintf(w, "%q:", e.Key)
		writeNode(w, e.Value)
	}
	fmt.Fprint(w, "}")
}

// database checks the URL of a database, and has the configuration show what of it is no secret.
func (c *checker) database(rest string) {
	const example = "postgres://countersign:${DB_PASSWORD}@db.example.com:5432/countersign"
	whole := secret.Value("postgres:" + rest)
	at, ok := strings.CutPrefix(rest, "//")
	if slip := secret.FindSlip(whole); slip != "" {
		c.errorf("$.store", "the address of the database %s", slip)
		return
	}
	if !ok || strings.ContainsFunc(at, func(r rune) bool { return r <= ' ' }) {
		c.errorf("$.store", "store must be the address of a PostgreSQL database, such as %s", example)
		return
	}
	before := strings.LastIndex(at, "@") // which is in a name or a password, if at all
	if before >= 0 && strings.ContainsAny(at[:before], "/?#") {
		c.errorf("$.store", "the name or the password in store holds a character that means something else in an address: "+
			"write %%2F for /, %%3F for ?, %%23 for #, %%40 for @ and %%25 for %%")
		return
	}
	c.cfg.StoreURL = whole
	at, _, _ = strings.Cut(at[before+1:], "?")
	c.cfg.Store = "postgres://" + at
}

// replicas checks what the programs on one database have together.
func (c *checker) replicas() {
	const at = "$.replicas"
	r := c.cfg.File.Replicas
	switch {
	case c.Bad[at] || c.cfg.StorePath == "" && !c.cfg.IsDatabase():
		return
	case !c.cfg.IsDatabase():
		if c.Said[at] {
			c.errorf(at, "replicas are programs on one PostgreSQL database, and a file has one program: remove replicas, or "+
				"set store to the address of a database")
		}
		return
	case len(r.Secret) == 0:
		c.errorf("$.store", "a store in PostgreSQL needs replicas.secret: at least %d characters that all programs on the "+
			"database have, such as secret: ${FLEET_SECRET} (for instance: openssl rand -hex 32)", minFleetSecret)
		return
	}
	for _, s := range r.Secret {
		c.fleetSecret(at+".secret", s)
	}
	if r.Failover != "" && r.Failover != failoverMayLose && r.Failover != failoverLossless {
		c.errorf(at+".failover", "failover must be %s, or %s where nothing committed is ever lost: each standby of the "+
			"database that may take over is synchronous", failoverMayLose, failoverLossless)
	}
	c.replicaAddress(at + ".address")
}

// minFleetSecret is how long the secret of all programs must be, in characters: keys are derived from it.
const minFleetSecret = 32

func (c *checker) fleetSecret(path string, s secret.Value) {
	if slip := secret.FindSlip(s); slip != "" {
		c.errorf(path, "the secret %s", slip)
	} else if utf8.RuneCountInString(s.Reveal()) < minFleetSecret {
		c.errorf(path, "replicas.secret needs at least %d characters (for instance: openssl rand -hex 32)", minFleetSecret)
	}
	c.checkUnique(path, "secret", s.Reveal(), "replicas")
}

// replicaAddress checks where other programs reach this one.
func (c *checker) replicaAddress(path string) {
	s := c.cfg.File.Replicas.Address
	if s == "" {
		host, port, err := net.SplitHostPort(c.cfg.Listen)
		ip, bad := netip.ParseAddr(host)
		if c.cfg.TLS != nil {
			c.errorf("$.replicas", "replicas.address is needed where listen speaks TLS: an address that begins with https:// "+
				"and a name that the certificate is for, at which the other programs on the database reach this one")
		} else if err == nil && (host == "" || port == "0" || loopback.IsHost(host) || bad == nil && ip.IsUnspecified()) {
			c.errorf("$.replicas", "replicas.address is needed where listen is %s: the address at which the other programs on "+
				"the database reach this one, such as http://10.0.0.5:8787", c.cfg.Listen)
		}
		return
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" || strings.HasSuffix(s, "#") {
		c.errorf(path, "replicas.address must be an address such as http://10.0.0.5:8787, without a path")
		return
	}
	c.cfg.File.Replicas.Address = strings.TrimRight(s, "/")
}
