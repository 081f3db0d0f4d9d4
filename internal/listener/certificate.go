package listener

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"
)

// Pair is a certificate with its chain, and its key: two files in PEM.
type Pair struct {
	Cert string `yaml:"cert" json:"cert"`
	Key  string `yaml:"key" json:"key"`
}

// expiresSoon is how long before a certificate's end it is a problem: those who renew it do so earlier.
const expiresSoon = 14 * 24 * time.Hour

// maxPEM is how large either file may be.
const maxPEM = 1 << 20

// PairError is why a pair cannot be used. Its text holds nothing of the files.
type PairError struct {
	Key    bool // it is about the key's file, else about the certificate's
	Reason string
}

func (e *PairError) Error() string {
	if e.Key {
		return "key " + e.Reason
	}
	return "cert " + e.Reason
}

// content is what a pair's files held.
type content struct{ cert, key []byte }

func (c content) equal(o content) bool {
	return bytes.Equal(c.cert, o.cert) && bytes.Equal(c.key, o.key)
}

// read reads both files.
func (p Pair) read() (c content, err error) {
	if c.cert, err = readPEM(p.Cert); err != nil {
		return c, &PairError{Reason: err.Error()}
	}
	if c.key, err = readPEM(p.Key); err != nil {
		return c, &PairError{Key: true, Reason: err.Error()}
	}
	return c, nil
}

func readPEM(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("names a file that is not there")
	case err != nil:
		return nil, errors.New("names a file that cannot be looked at")
	case !info.Mode().IsRegular():
		return nil, errors.New("names something that is not a file")
	case info.Size() > maxPEM:
		return nil, errors.New("names a file that is too large to be one")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.New("names a file that cannot be read")
	}
	return b, nil
}

// parse makes a certificate out of what was read.
func (c content) parse() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err == nil {
		return &pair, nil
	}
	// Which of the two it is: the certificate, where it does not even begin as one.
	if !bytes.Contains(c.cert, []byte("-----BEGIN CERTIFICATE-----")) {
		return nil, &PairError{Reason: "holds no certificate in PEM"}
	}
	if !bytes.Contains(c.key, []byte("PRIVATE KEY-----")) {
		return nil, &PairError{Key: true, Reason: "holds no private key in PEM"}
	}
	return nil, &PairError{Key: true, Reason: "does not belong to the certificate, or one of the two cannot be made out"}
}

// Load reads the pair. Its error is a [*PairError].
func (p Pair) Load() (*tls.Certificate, error) {
	c, err := p.read()
	if err != nil {
		return nil, err
	}
	return c.parse()
}

// Warnings says what is wrong with a pair that can be used: each text follows the key's name.
func (p Pair) Warnings(c *tls.Certificate, now time.Time) []PairError {
	var ws []PairError
	if s := validity(c, now); s != "" {
		ws = append(ws, PairError{Reason: s})
	}
	if info, err := os.Stat(p.Key); err == nil && runtime.GOOS != "windows" {
		switch {
		case info.Mode()&0o022 != 0:
			ws = append(ws, PairError{Key: true, Reason: "can be changed by others on this machine; chmod 600 it"})
		case info.Mode()&0o004 != 0:
			ws = append(ws, PairError{Key: true, Reason: "can be read by everybody on this machine; chmod 600 it"})
		}
	}
	return ws
}

// validity says what is wrong with a certificate's time; "" nothing.
func validity(c *tls.Certificate, now time.Time) string {
	if c.Leaf == nil {
		return ""
	}
	const day = "2006-01-02 15:04 MST"
	switch end := c.Leaf.NotAfter.UTC(); {
	case now.After(end):
		return "expired at " + end.Format(day)
	case now.Before(c.Leaf.NotBefore):
		return "is not valid before " + c.Leaf.NotBefore.UTC().Format(day)
	case end.Sub(now) < expiresSoon:
		return "expires at " + end.Format(day)
	}
	return ""
}

// Certificate is a pair in use. It is safe for concurrent use.
type Certificate struct {
	pair Pair
	name string // of the configuration's key
	now  func() time.Time
	log  *slog.Logger

	mu      sync.Mutex // of all below
	current *tls.Certificate
	used    content // what current was made of
	tried   content // what was there at the last look
	problem string  // why what is there is not in use
}

// NewCertificate reads a pair and returns it for use; name is what problems and the log call it.
func NewCertificate(name string, p Pair, now func() time.Time, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{pair: p, name: name, now: now, log: log}
	var err error
	if c.used, err = p.read(); err == nil {
		c.current, err = c.used.parse()
	}
	if err != nil {
		return nil, fmt.Errorf("%s.%w", name, err)
	}
	c.tried = c.used
	return c, nil
}

// Config is how a server uses it. HTTP/2 is left to proxies: what limits connections here counts one
// request on each.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.current, nil
		},
	}
}

// refreshEvery is how often the files are looked at.
const refreshEvery = 10 * time.Second

// Run looks at the files until ctx ends. What replaces them may do so one after the other, so what does not
// go together is a problem only when it is still there at the next look.
func (c *Certificate) Run(ctx context.Context) {
	t := time.NewTicker(refreshEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			c.refresh(onSecondLook)
		}
	}
}

// Refresh looks at the files now.
func (c *Certificate) Refresh() { c.refresh(atOnce) }

// complaint is when files that cannot be used are said to be so.
type complaint int

const (
	onSecondLook complaint = iota // when they are still the same: whoever replaces them may not be done
	atOnce
)

// refresh takes what is in the files, if it has changed and can be used. Otherwise that is said.
func (c *Certificate) refresh(say complaint) {
	next, err := c.pair.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	var cert *tls.Certificate
	if err == nil && next.equal(c.used) {
		if c.problem != "" {
			c.log.Info("the certificate's files hold the certificate in use again", "key", c.name)
		}
		c.problem, c.tried = "", next
		return
	}
	if err == nil {
		cert, err = next.parse()
	}
	if err == nil && c.now().After(cert.Leaf.NotAfter) && !c.now().After(c.current.Leaf.NotAfter) {
		err = &PairError{Reason: "has expired, unlike the one in use"}
	}
	if err != nil {
		settled := say == atOnce || next.equal(c.tried)
		if c.tried = next; settled && c.problem != err.Error() {
			c.problem = err.Error()
			c.log.Error("the certificate's files have changed and cannot be used; the earlier certificate stays in use", "key",
				c.name, "problem", c.problem)
		}
		return
	}
	c.current, c.used, c.tried, c.problem = cert, next, next, ""
	c.log.Info("the certificate was read again and is in use", "key", c.name, "expires", cert.Leaf.NotAfter.UTC())
}

// Expires is when the certificate in use does.
func (c *Certificate) Expires() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.Leaf.NotAfter
}

// Problems says what is wrong, now.
func (c *Certificate) Problems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ps []string
	if c.problem != "" {
		ps = append(ps, fmt.Sprintf("%s: its files have changed and cannot be used (%s): the earlier certificate stays in "+
			"use", c.name, c.problem))
	}
	if s := validity(c.current, c.now()); s != "" {
		ps = append(ps, fmt.Sprintf("%s: the certificate in use %s", c.name, s))
	}
	return ps
}
