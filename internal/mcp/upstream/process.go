package upstream

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	grace         = 2 * time.Second // at each step of stopping a process
	maxStderrLine = 8 << 10         // of one line of its stderr, in bytes
	maxStderrTail = 1 << 10         // of the last lines of it
)

// process is a server's process, in a group of its own so that what it starts ends with it.
type process struct {
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr *os.File
	exited         chan struct{} // it has ended
	groupGone      chan struct{} // and so has its group
	stdoutOnce     sync.Once
	stdoutDone     chan struct{} // its output was read to the end
	stderrDone     chan struct{} // and its stderr too
	stopOnce       sync.Once

	signals sync.Mutex // held while the group is signalled, and while its number is given up
	reaped  bool       // its number may be another process's
	alone   bool       // nothing keeps the group's number taken: only the process itself is ended

	private *strings.Replacer // of what is not told

	mu          sync.Mutex
	stderrLines []string // the last lines of stderr
}

// minPrivate is how long a value is that is left out wherever it stands: a shorter one may be part of any word.
const minPrivate = 8

// leavingOut puts a mark in the place of values, the longest of those that begin alike.
func leavingOut(values []string) *strings.Replacer {
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return len(v) < minPrivate })
	slices.SortFunc(values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, "<secret>")
	}
	return strings.NewReplacer(pairs...)
}

func startProcess(cfg Config) (*process, error) {
	p := &process{
		cmd:    exec.Command(cfg.Command[0], cfg.Command[1:]...),
		exited: make(chan struct{}), groupGone: make(chan struct{}), stdoutDone: make(chan struct{}),
		stderrDone: make(chan struct{}), private: leavingOut(cfg.Private),
	}
	p.cmd.Dir, p.cmd.Env = cfg.Dir, cfg.Env
	startInGroup(p.cmd)
	var theirs []*os.File
	var open []*os.File
	pipe := func(mine, its **os.File, toIt bool) error {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		open = append(open, r, w)
		if *mine, *its = r, w; toIt {
			*mine, *its = w, r
		}
		theirs = append(theirs, *its)
		return nil
	}
	var in, out, errPipe *os.File
	err := errors.Join(pipe(&p.stdin, &in, true), pipe(&p.stdout, &out, false), pipe(&p.stderr, &errPipe, false))
	if err == nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, errPipe
		started := make(chan error)
		go p.supervise(started)
		err = <-started
	}
	if err != nil {
		for _, f := range open {
			f.Close()
		}
		return nil, &plainError{"the command does not start: " + startFailure(err, cfg.Dir), err}
	}
	for _, f := range theirs {
		f.Close()
	}
	go p.readStderr(cfg)
	return p, nil
}

// startFailure says why a command does not start in a folder.
func startFailure(err error, dir string) string {
	if e, ok := errors.AsType[*exec.Error](err); ok && errors.Is(err, exec.ErrNotFound) {
		return fmt.Sprintf("the program %s is not found", e.Name)
	}
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err.Error()
	}
	if dir != "" { // the system does not say which of the two it misses
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("its folder %s is not found", dir)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("the program %s is not found", e.Path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("the program %s may not be run by this user", e.Path)
	}
	return fmt.Sprintf("the program %s: %s", e.Path, e.Err)
}

// supervise starts the process, waits for its end and cleans up behind it. On Linux the process dies with
// the thread that started it, so this goroutine keeps that thread for itself as long as the process runs.
func (p *process) supervise(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	release := guardGroup(p.cmd)
	p.alone = release == nil && waitFreesTheNumber
	started <- nil
	awaitExit(p.cmd)
	close(p.exited)
	// Its children must not outlive it; what they have written is still read.
	p.signal(terminateGroup)
	timeout := time.NewTimer(time.Second)
	defer timeout.Stop()
	for _, drained := range []chan struct{}{p.stdoutDone, p.stderrDone} {
		select {
		case <-drained:
		case <-timeout.C:
			timeout.Reset(0)
		}
	}
	p.signal(killGroup)
	p.reap(release)
	// A child that left the group can hold the pipes for as long as it likes; no one listens any more.
	p.stdin.Close()
	p.stdout.Close()
	p.stderr.Close()
	<-p.stderrDone
	close(p.groupGone)
}

// signal sends the group a signal, unless its number was given up: the process that has it by then is not ours to end.
func (p *process) signal(send func(*exec.Cmd)) {
	p.signals.Lock()
	defer p.signals.Unlock()
	switch {
	case p.reaped:
	case p.alone:
		_ = p.cmd.Process.Kill() // Go knows whether it was waited for
	default:
		send(p.cmd)
	}
}

// reap gives up the number of the process, and so of its group.
func (p *process) reap(release func()) {
	p.signals.Lock()
	defer p.signals.Unlock()
	p.reaped = true
	if release != nil {
		release()
	}
	reap(p.cmd)
}

// markStdoutDone says that its output was read to the end.
func (p *process) markStdoutDone() { p.stdoutOnce.Do(func() { close(p.stdoutDone) }) }

// stop ends the process and its group, and returns when they are gone: politely, then firmly, then by force.
func (p *process) stop() {
	p.stopOnce.Do(func() {
		p.stdin.Close()
		if !p.exitsWithin(grace) {
			p.signal(terminateGroup)
			if !p.exitsWithin(grace) {
				p.signal(killGroup)
			}
		}
	})
	<-p.groupGone
}

func (p *process) exitsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
		return false
	}
}

// exitReason says how it ended, waiting a moment for the end where only the output was closed.
func (p *process) exitReason() error {
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.groupGone:
		return fmt.Errorf("the server's process ended: %s", p.cmd.ProcessState)
	case <-t.C:
		return errors.New("the server closed its output")
	}
}

// readStderr reads stderr line by line.
func (p *process) readStderr(cfg Config) {
	defer close(p.stderrDone)
	r := bufio.NewReaderSize(&noticing{p.stderr, cfg.wrote}, maxStderrLine)
	for cut := false; ; {
		line, err := r.ReadSlice('\n')
		if !cut && len(line) > 0 {
			text := strings.ToValidUTF8(strings.TrimRight(string(line), "\r\n"), "\uFFFD")
			if cfg.Stderr != nil {
				cfg.Stderr(text)
			} else {
				cfg.Logger.Debug("the server says", "stderr", text)
			}
			p.keepStderrLine(text)
		}
		if cut = errors.Is(err, bufio.ErrBufferFull); err != nil && !cut {
			return
		}
	}
}

// noticing is a process's output; wrote, which may be nil, is told that there was some.
type noticing struct {
	r     io.Reader
	wrote func()
}

func (n *noticing) Read(b []byte) (int, error) {
	read, err := n.r.Read(b)
	if read > 0 && n.wrote != nil {
		n.wrote()
	}
	return read, err
}

func (p *process) keepStderrLine(line string) {
	line = p.private.Replace(line) // before the tail is cut: half a secret is not known as one
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stderrLines = append(p.stderrLines, line); len(p.stderrLines) > 20 {
		p.stderrLines = p.stderrLines[1:]
	}
}

// stderrTail returns the last lines of stderr, at most 1 KiB.
func (p *process) stderrTail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	tail := strings.TrimSpace(strings.Join(p.stderrLines, "\n"))
	if len(tail) > maxStderrTail {
		tail = strings.ToValidUTF8(tail[len(tail)-maxStderrTail:], "")
	}
	return tail
}
