package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	grace     = 2 * time.Second // at each step of stopping a process
	maxStderr = 8 << 10         // of one line of what it complains of, in bytes
	maxWords  = 1 << 10         // of its last words
)

// process is a server's process, in a group of its own so that what it starts ends with it.
type process struct {
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr *os.File
	exited         chan struct{} // it has ended
	gone           chan struct{} // and so has its group
	drain          sync.Once
	outputs        chan struct{} // its output was read to the end
	complaints     chan struct{} // and what it complained of
	stopping       sync.Once

	mu    sync.Mutex
	words []string // the last lines of stderr
}

func startProcess(cfg Config) (*process, error) {
	p := &process{
		cmd:    exec.Command(cfg.Command[0], cfg.Command[1:]...),
		exited: make(chan struct{}), gone: make(chan struct{}), outputs: make(chan struct{}), complaints: make(chan struct{}),
	}
	p.cmd.Dir, p.cmd.Env = cfg.Dir, cfg.Env
	ownGroup(p.cmd)
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
	var in, out, complaints *os.File
	err := errors.Join(pipe(&p.stdin, &in, true), pipe(&p.stdout, &out, false), pipe(&p.stderr, &complaints, false))
	if err == nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, complaints
		started := make(chan error)
		go p.supervise(started)
		err = <-started
	}
	if err != nil {
		for _, f := range open {
			f.Close()
		}
		return nil, &plainError{"the command does not start: " + notStarted(err, cfg.Dir), err}
	}
	for _, f := range theirs {
		f.Close()
	}
	go p.listen(cfg)
	return p, nil
}

// notStarted says why a command does not start in a folder.
func notStarted(err error, dir string) string {
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
	started <- nil
	awaitExit(p.cmd)
	close(p.exited)
	// Its children must not outlive it; what they have written is still read.
	terminateGroup(p.cmd)
	timeout := time.NewTimer(time.Second)
	defer timeout.Stop()
	for _, drained := range []chan struct{}{p.outputs, p.complaints} {
		select {
		case <-drained:
		case <-timeout.C:
			timeout.Reset(0)
		}
	}
	killGroup(p.cmd)
	release()
	reap(p.cmd)
	// A child that left the group can hold the pipes for as long as it likes; nobody listens any more.
	p.stdin.Close()
	p.stdout.Close()
	p.stderr.Close()
	<-p.complaints
	close(p.gone)
}

// drained says that its output was read to the end.
func (p *process) drained() { p.drain.Do(func() { close(p.outputs) }) }

// stop ends the process and its group, and returns when they are gone: politely, then firmly, then by force.
func (p *process) stop() {
	p.stopping.Do(func() {
		p.stdin.Close()
		if !p.within(grace) {
			terminateGroup(p.cmd)
			if !p.within(grace) {
				killGroup(p.cmd)
			}
		}
	})
	<-p.gone
}

func (p *process) within(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
		return false
	}
}

// farewell says how it ended, waiting a moment for the end where only the output was closed.
func (p *process) farewell() error {
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.gone:
		return fmt.Errorf("the server's process ended: %s", p.cmd.ProcessState)
	case <-t.C:
		return errors.New("the server closed its output")
	}
}

// listen reads what it complains of.
func (p *process) listen(cfg Config) {
	defer close(p.complaints)
	r := bufio.NewReaderSize(p.stderr, maxStderr)
	for cut := false; ; {
		line, err := r.ReadSlice('\n')
		if !cut && len(line) > 0 {
			text := strings.ToValidUTF8(strings.TrimRight(string(line), "\r\n"), "\uFFFD")
			if cfg.Stderr != nil {
				cfg.Stderr(text)
			} else {
				cfg.Logger.Debug("the server says", "stderr", text)
			}
			p.remember(text)
		}
		if cut = errors.Is(err, bufio.ErrBufferFull); err != nil && !cut {
			return
		}
	}
}

func (p *process) remember(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.words = append(p.words, line); len(p.words) > 20 {
		p.words = p.words[1:]
	}
}

// lastWords returns the last lines of what it complained of, at most 1 KiB.
func (p *process) lastWords() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	said := strings.TrimSpace(strings.Join(p.words, "\n"))
	if len(said) > maxWords {
		said = strings.ToValidUTF8(said[len(said)-maxWords:], "")
	}
	return said
}
