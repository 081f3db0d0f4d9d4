//go:build postgres

package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/testkit"
)

// Pooler is PgBouncer in front of a server: each transaction may have another session of the server.
type Pooler struct{ port string }

// StartPooler starts a pooler that ends with the test.
func (s *Server) StartPooler(t *testing.T) *Pooler {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // which is not in every user's PATH
	}
	parent, err := os.MkdirTemp("", "countersign-pooler")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(parent); err != nil {
			t.Error(err)
		}
	})
	dir, p := filepath.Join(parent, "run"), &Pooler{}
	err = os.Mkdir(dir, 0o700)
	attr, ownErr := own(dir)
	var portErr error
	p.port, portErr = freePort()
	config := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%s user=tester
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
`, s.Port, p.port)
	if err := errors.Join(err, ownErr, portErr, os.WriteFile(filepath.Join(dir, "pgbouncer.ini"),
		[]byte(config), 0o644)); err != nil { //nolint:gosec // it is read by the user that the pooler runs as
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	said := &testkit.Buffer{}
	c := exec.CommandContext(ctx, program, filepath.Join(dir, "pgbouncer.ini"))
	c.SysProcAttr, c.Stdout, c.Stderr = attr, said, said
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // it ends with the thread that has started it
		err := c.Start()
		if started <- err; err == nil {
			_ = c.Wait() // it is killed
		}
	}()
	if err := testkit.Receive(t, "the pooler's start (apt-get install pgbouncer)", started); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		testkit.Receive(t, "the pooler's end", ended)
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // real: a program starts
		c, err := pgx.Connect(t.Context(), p.URL(s.URL("postgres")))
		if err == nil {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			return p
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v\n%s", err, said)
		}
	}
}

// URL is where a database of the server is reached through the pooler.
func (p *Pooler) URL(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		return database
	}
	u.Host = "127.0.0.1:" + p.port
	return u.String()
}
