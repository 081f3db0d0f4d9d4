//go:build unix

package listener

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAPairThatCannotBeUsed(t *testing.T) {
	cert, key := issue(t, 1, noon, noon.Add(time.Hour))
	_, other := issue(t, 2, noon, noon.Add(time.Hour))
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		spoil func(p *Pair)
		want  string
	}{
		{"no certificate", func(p *Pair) { os.Remove(p.Cert) }, "cert names a file that is not there"},
		{"no key", func(p *Pair) { os.Remove(p.Key) }, "key names a file that is not there"},
		{"a folder", func(p *Pair) { p.Cert = filepath.Dir(p.Cert) }, "cert names something that is not a file"},
		{"a pipe", func(p *Pair) { p.Key = fifo }, "key names something that is not a file"},
		{"a large file", func(p *Pair) { write(t, p.Key, make([]byte, maxPEM+1)) },
			"key names a file that is too large to be one"},
		{"the key twice", func(p *Pair) { p.Cert = p.Key }, "cert holds no certificate in PEM"},
		{"the certificate twice", func(p *Pair) { p.Key = p.Cert }, "key holds no private key in PEM"},
		{"another's key", func(p *Pair) { write(t, p.Key, other) },
			"key does not belong to the certificate, or one of the two cannot be made out"},
	} {
		p := newPair(t)
		write(t, p.Cert, cert)
		write(t, p.Key, key)
		tt.spoil(&p)
		if _, err := p.Load(); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
		if _, err := NewCertificate("tls", p, time.Now, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.HasPrefix(err.Error(), "tls.") {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
	p := newPair(t)
	write(t, p.Cert, cert)
	write(t, p.Key, key)
	c, err := p.Load()
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o600: "", 0o640: "", 0o644: "can be read by everybody",
		0o660: "can be changed by others", 0o602: "can be changed by others"} {
		if err := os.Chmod(p.Key, mode); err != nil {
			t.Fatal(err)
		}
		ws := p.Warnings(c, noon.Add(-30*24*time.Hour))
		if len(ws) == 0 || ws[0].Key || !strings.Contains(ws[0].Reason, "is not valid before 2026-11-21 12:00 UTC") {
			t.Errorf("%o: %v", mode, ws)
		}
		if want == "" && len(ws) != 1 || want != "" && (len(ws) != 2 || !strings.Contains(ws[1].Reason, want)) {
			t.Errorf("%o: %v, want %q", mode, ws, want)
		}
	}
}
