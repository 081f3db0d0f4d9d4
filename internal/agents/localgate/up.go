package localgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of a start.
const (
	within  = 15 * time.Second // for a gate to answer, or for another's start of it to end
	tick    = 25 * time.Millisecond
	respite = time.Second // before the second try: a gate that is stopping may still have the store
	maxLog  = 5 << 20     // a longer log is put aside before a start
	maxTold = 12          // lines of the log that an error holds
)

// ErrNoConfig is within the error of [Gate.Up] when there is no configuration to start a gate on.
var ErrNoConfig = errors.New("no configuration")

// notSetUp is ErrNoConfig, and what to do.
type notSetUp struct{ config string }

func (e notSetUp) Error() string {
	return fmt.Sprintf("Countersign isn't set up yet: run `countersign init --own`, which writes %s; or name a gate that "+
		"runs elsewhere with --server or COUNTERSIGN_SERVER", e.config)
}

func (notSetUp) Is(target error) bool { return target == ErrNoConfig }

// StartError says that the gate ended instead of answering.
type StartError struct {
	Code int // its exit code; -1: it was killed
	Gate Gate
	Said []string // the last lines of what it wrote
}

func (e *StartError) Error() string {
	how := fmt.Sprintf("ended with exit code %d", e.Code)
	if e.Code < 0 {
		how = "was killed"
	}
	return fmt.Sprintf("the gate could not be started: countersign serve --config %s %s%s", e.Gate.Config, how,
		e.Gate.saying(e.Said))
}

// saying is the end of the log in a sentence.
func (g Gate) saying(lines []string) string {
	if len(lines) == 0 {
		return " and wrote nothing into " + g.Log
	}
	return fmt.Sprintf("; the end of its log, %s:\n  %s", g.Log, strings.Join(lines, "\n  "))
}

// Up has the gate running, and reports whether it had to be started. Of any number who call it at once one
// starts it. It stays when its starter ends. Up does not wait longer than about 15 seconds.
func (g Gate) Up(ctx context.Context) (started bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if up, err := g.Running(ctx); up || err != nil {
		return false, err
	}
	if !g.IsConfigured() {
		return false, notSetUp{g.Config}
	}
	for _, dir := range []string{filepath.Dir(g.Socket), filepath.Dir(g.Log)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return false, err
		}
	}
	lock, err := os.OpenFile(g.Socket+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer lock.Close() // which gives the lock back
	for {
		taken, err := flock(lock)
		if err != nil {
			return false, fmt.Errorf("lock %s: %w", lock.Name(), err)
		}
		if up, err := g.Running(ctx); up || err != nil {
			return false, err
		}
		if taken {
			break
		}
		if !pause(ctx, tick) {
			if errors.Is(ctx.Err(), context.Canceled) {
				return false, ctx.Err()
			}
			return false, fmt.Errorf("another program is starting the gate, and it does not answer; its log is %s", g.Log)
		}
	}
	err = g.start(ctx)
	// 2 is for a configuration, which stays as it is
	if e, ok := errors.AsType[*StartError](err); ok && e.Code != 2 && pause(ctx, respite) {
		err = g.start(ctx)
	}
	return err == nil, err
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// start starts the gate once and waits until it answers.
func (g Gate) start(ctx context.Context) error {
	program := g.Program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return fmt.Errorf("the gate could not be started: %w", err)
		}
	}
	log, err := openLog(g.Log)
	if err != nil {
		return fmt.Errorf("the gate could not be started: %w", err)
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("the gate could not be started: %w", err)
	}
	cmd := exec.Command(program, "serve", "--config", g.Config, "--socket", g.Socket)
	cmd.Dir = filepath.Dir(g.Config)                                // what relative paths in the configuration are from
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // who manages us does not manage the gate
		name, _, _ := strings.Cut(v, "=")
		return name == "NOTIFY_SOCKET"
	})
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("the gate could not be started: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // for as long as both live: the gate is to outlive us
	for {
		select {
		case <-ended:
			return &StartError{cmd.ProcessState.ExitCode(), g, tail(g.Log, from)}
		case <-time.After(tick):
		}
		if up, err := g.Running(ctx); up {
			return nil
		} else if err != nil && ctx.Err() == nil {
			return err
		}
		switch err := ctx.Err(); {
		case errors.Is(err, context.Canceled):
			return err
		case err != nil:
			return fmt.Errorf("the gate was started and does not answer yet%s", g.saying(tail(g.Log, from)))
		}
	}
}

// openLog opens the log to append to it, and puts a long one aside first.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// tail returns the last lines of the log after the first from bytes.
func tail(path string, from int64) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		from = max(from, info.Size()-16<<10)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, from, 16<<10))
	if err != nil {
		return nil
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(b), "�"))
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-maxTold):]
}
