//go:build postgres

package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/testkit"
)

// Server is a PostgreSQL server.
type Server struct {
	Port    string
	dir     string
	program string
	attr    *syscall.SysProcAttr
	process *exec.Cmd
	exited  chan error
	nth     atomic.Int64
}

// Start starts a server with a cluster of its own.
func Start() (*Server, error) {
	return StartOn("initdb", "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
}

// program is where one of the server's programs is: in the newest of Debian's folders, if not in the path.
func program(name string) (string, error) {
	if at, err := exec.LookPath(name); err == nil {
		return at, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		return "", errors.Join(err, fmt.Errorf("there is no %s: apt-get install postgresql", name))
	}
	return slices.Max(found), nil
}

// own makes a program run as a user who is not root, since PostgreSQL refuses that, and gives that user the folder.
func own(dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() != 0 {
		return attr, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if err := errors.Join(uidErr, gidErr, os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, uid, gid)); err != nil {
		return nil, err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, nil
}

// StartOn starts a server on what a program makes in an empty folder, which it is told by -D.
func StartOn(makes string, args ...string) (_ *Server, err error) {
	parent, err := os.MkdirTemp("", "countersign-postgres")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(parent))
		}
	}()
	s := &Server{dir: filepath.Join(parent, "data"), exited: make(chan error, 1)}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	attr, err := own(s.dir)
	if err != nil {
		return nil, err
	}
	makes, makesErr := program(makes)
	postgres, err := program("postgres")
	if err := errors.Join(makesErr, err); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	init := exec.CommandContext(within, makes, append(args, "-D", s.dir)...)
	init.Dir, init.SysProcAttr = s.dir, attr
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	if s.Port, err = freePort(); err != nil {
		return nil, err
	}
	s.program, s.attr = postgres, attr
	if err := s.run(); err != nil {
		return nil, err
	}
	return s, s.ready()
}

// run starts the server's program.
func (s *Server) run() error {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(s.dir), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s.process = exec.Command(s.program, "-D", s.dir, "-p", s.Port) // real: stop ends it, or the end of this process
	s.process.Args = append(s.process.Args, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "max_connections=300")
	s.process.Dir, s.process.SysProcAttr, s.process.Stdout, s.process.Stderr = s.dir, s.attr, log, log
	started := make(chan error)
	go func(c *exec.Cmd) {
		runtime.LockOSThread() // the server ends with the thread that has started it
		err := c.Start()
		if started <- err; err == nil {
			s.exited <- c.Wait()
		}
	}(s.process)
	err = <-started // real: it has started or not
	return errors.Join(err, log.Close())
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// Next is a number that no other caller gets.
func (s *Server) Next() int64 { return s.nth.Add(1) }

// ready waits until the server answers.
func (s *Server) ready() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // real: a server starts
		err := s.Execute("SELECT 1")
		switch {
		case err == nil:
			return nil
		case time.Now().After(deadline):
			return errors.Join(err, s.Stop())
		}
		select {
		case exit := <-s.exited:
			log, _ := os.ReadFile(filepath.Join(filepath.Dir(s.dir), "log"))
			return fmt.Errorf("the server has ended: %v\n%s", exit, log)
		default:
		}
	}
}

// Execute runs a statement in the server's own database.
func (s *Server) Execute(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, sql)
	return errors.Join(err, c.Close(ctx))
}

func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("tester"), Host: net.JoinHostPort("127.0.0.1", s.Port), Path: database,
		RawQuery: "sslmode=disable"}
	return u.String()
}

// Template makes a database that others are made of. Nobody may be connected to it then.
func (s *Server) Template() (name, at string, err error) {
	name = "template_" + strconv.FormatInt(s.Next(), 10)
	return name, s.URL(name), s.Execute("CREATE DATABASE " + name)
}

// Database makes a database as a template is, or for "" an empty one, and returns its URL. It goes when the test ends.
func (s *Server) Database(t testing.TB, template string) (at string) {
	t.Helper()
	at, err := s.Create(template)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Execute("DROP DATABASE " + path.Base(at[:strings.Index(at, "?")]) + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return at
}

// Create makes a database that stays.
func (s *Server) Create(template string) (at string, err error) {
	name := "test_" + strconv.FormatInt(s.Next(), 10)
	sql := "CREATE DATABASE " + name
	if template != "" {
		sql += " TEMPLATE " + template
	}
	return s.URL(name), s.Execute(sql)
}

// SetClock has a database show the time of the tests, which may be another day's, or so much more.
func SetClock(t testing.TB, at string, ahead time.Duration) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	var now time.Time
	if err := c.QueryRow(t.Context(), "SELECT pg_catalog.clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	sql := fmt.Sprintf(`CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
  AS $$ SELECT pg_catalog.clock_timestamp() + %d * interval '1 millisecond' $$`,
		(time.Since(now) + ahead).Milliseconds())
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), `DO $$ BEGIN
  EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
END $$`); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Restart has the server begin anew where it was.
func (s *Server) Restart(t testing.TB, how Ending) {
	t.Helper()
	if err := s.process.Process.Signal(syscall.Signal(how)); err != nil {
		t.Fatal(err)
	}
	_ = testkit.Receive(t, "the server's end", s.exited) // as it was told
	if err := errors.Join(s.run(), s.ready()); err != nil {
		t.Fatal(err)
	}
}

// Ending is how a server ends.
type Ending syscall.Signal

const (
	Stopped = Ending(syscall.SIGINT)  // in order, with all that it has kept
	Crashed = Ending(syscall.SIGQUIT) // as a loss of power ends it
)

// Kill ends the server as a loss of power does.
func (s *Server) Kill(t *testing.T) {
	t.Helper()
	if err := s.process.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	s.exited <- testkit.Receive(t, "the server's end", s.exited)
}

// Stop has the server end its sessions, and removes what it has written.
func (s *Server) Stop() error {
	err := s.process.Process.Signal(syscall.SIGINT) // a fast stop
	select {
	case exit := <-s.exited:
		err = errors.Join(err, exit)
	case <-time.After(time.Minute):
		err = errors.Join(err, s.process.Process.Kill(), errors.New("the server did not stop"))
	}
	return errors.Join(err, s.Remove())
}

// Remove removes what the server has written.
func (s *Server) Remove() error { return os.RemoveAll(filepath.Dir(s.dir)) }
