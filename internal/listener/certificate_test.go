package listener

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign/internal/testkit"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// issue makes a certificate for gate.example, in PEM.
func issue(t *testing.T, serial int64, from, to time.Time) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gate.example"},
		DNSNames: []string{"gate.example"}, NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b})
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newPair(t *testing.T) Pair {
	dir := t.TempDir()
	return Pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

func serial(t *testing.T, c *Certificate) int64 {
	t.Helper()
	got, err := c.Config().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.Leaf.SerialNumber.Int64()
}

// Renewed files are taken; broken ones leave the earlier certificate in use, and are said.
func TestRule12_ACertificateIsRenewedAndNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		day := 24 * time.Hour
		cert1, key1 := issue(t, 1, noon.Add(-day), noon.Add(90*day))
		cert2, key2 := issue(t, 2, noon.Add(-day), noon.Add(90*day))
		dead, deadKey := issue(t, 3, noon.Add(-2*day), noon.Add(-day))
		write(t, p.Cert, cert1)
		write(t, p.Key, key1)
		var now atomic.Pointer[time.Time]
		now.Store(&noon)
		var log testkit.Buffer
		c, err := NewCertificate("tls", p, func() time.Time { return *now.Load() }, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		look := func() { testkit.Elapse(refreshEvery) }
		want := func(when string, n int64, problem string) {
			t.Helper()
			if got := serial(t, c); got != n {
				t.Errorf("%s: certificate %d is in use, want %d", when, got, n)
			}
			ps := strings.Join(c.Problems(), "; ")
			if (problem == "") != (ps == "") || !strings.Contains(ps, problem) {
				t.Errorf("%s: problems %q, want one with %q", when, ps, problem)
			}
			if strings.Contains(ps+log.String(), "PRIVATE") {
				t.Errorf("%s: the key is told", when)
			}
		}
		look()
		want("at first", 1, "")
		write(t, p.Cert, cert2)
		look()
		want("while the key is still the old one", 1, "")
		look()
		want("when the key stays the old one", 1, "does not belong")
		write(t, p.Key, key2)
		look()
		want("renewed", 2, "")
		for name, b := range map[string][]byte{"nothing": nil, "garbage": []byte("garbage"), "half": cert1[:len(cert1)/2],
			"of another key": cert1} {
			write(t, p.Cert, b)
			look()
			look()
			want(name, 2, "cannot be used")
			write(t, p.Cert, cert2)
			look()
			want("put right after "+name, 2, "")
		}
		if err := os.Remove(p.Key); err != nil {
			t.Fatal(err)
		}
		c.Refresh()
		want("without a key", 2, "not there")
		write(t, p.Cert, dead)
		write(t, p.Key, deadKey)
		c.Refresh()
		want("with an expired one", 2, "has expired, unlike the one in use")
		write(t, p.Cert, cert1)
		write(t, p.Key, key1)
		look()
		want("the first one again", 1, "")
		now.Store(new(noon.Add(80 * day)))
		want("ten days before its end", 1, "expires at 2027-02-19")
		now.Store(new(noon.Add(91 * day)))
		want("after its end", 1, "expired at 2027-02-19")
		if got := c.Expires(); !got.Equal(noon.Add(90 * day)) {
			t.Errorf("it expires at %s", got)
		}
		cancel()
		<-done
	})
}

// Over TLS a listener holds the same, and old versions and HTTP/2 are not spoken.
func TestOverTLSTheLimitsAreTheSame(t *testing.T) {
	p := newPair(t)
	cert, key := issue(t, 1, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	write(t, p.Cert, cert)
	write(t, p.Key, key)
	c, err := NewCertificate("tls", p, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, Options{Connections: 3})
	server := &http.Server{ConnContext: l.Context, ReadHeaderTimeout: time.Hour,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		Handler: l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if connOf(r.Context()) == nil {
				t.Error("the connection is not known")
			}
			io.WriteString(w, r.Proto)
		}))}
	served := make(chan error, 1)
	go func() { served <- server.Serve(tls.NewListener(l, c.Config())) }()
	defer func() { server.Close(); testkit.Receive(t, "the end of the server", served) }()
	var conns []net.Conn
	for range 10 { // that never shake hands
		conn, err := net.DialTimeout("tcp", inner.Addr().String(), testkit.Patience)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	conns[0].SetReadDeadline(time.Now().Add(testkit.Patience))
	if _, err := conns[0].Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the oldest is still open: %v", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "gate.example"}}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr, Timeout: testkit.Patience}).Post("https://"+inner.Addr().String()+"/",
		"text/plain", strings.NewReader("unread"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "HTTP/1.1" {
		t.Errorf("got %q, %v", b, err)
	}
	old, err := tls.DialWithDialer(&net.Dialer{Timeout: testkit.Patience}, "tcp", inner.Addr().String(),
		&tls.Config{RootCAs: pool, ServerName: "gate.example", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	if err == nil {
		old.Close()
		t.Error("TLS 1.1 is spoken")
	}
}
