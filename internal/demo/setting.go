package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"countersign/internal/app"
	"countersign/internal/config"
	"countersign/internal/emulator"
)

// languages are those that cards and answers can be in; the first is the one that the demo begins with.
var languages = []emulator.Language{{Tag: "en", Name: "English"}, {Tag: "ja", Name: "日本語"},
	{Tag: "th", Name: "ไทย"}, {Tag: "zh-TW", Name: "繁體中文"}}

// setting is the demo's configuration while it runs: its file, which people edit, and its language. It says on the
// page and in the output what becomes of a change.
type setting struct {
	file  string
	out   io.Writer
	clock func() string // the time at the beginning of a line of output
	chat  *emulator.Emulator

	mu       sync.Mutex
	gate     *app.App // nil until it runs
	language string
	seen     []byte // the file's content that was last in force
	alerts   map[string]string
}

func newSetting(dir string, out io.Writer, clock func() string) (*setting, error) {
	s := &setting{file: filepath.Join(dir, "countersign.yaml"), out: out, clock: clock,
		language: languages[0].Tag, seen: configuration, alerts: map[string]string{}}
	return s, os.WriteFile(s.file, configuration, 0o600)
}

// locale is what the configuration's ${DEMO_LOCALE} stands for.
func (s *setting) locale() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.language
}

func (s *setting) use(gate *app.App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = gate
}

// setLanguage has the gate read its configuration again, with other languages for people and for the channel: what a
// variable of the environment and a SIGHUP would do.
func (s *setting) setLanguage(ctx context.Context, tag string) error {
	s.mu.Lock()
	gate, before := s.gate, s.language
	s.language = tag
	s.mu.Unlock()
	err := errors.New("the gate is not running yet")
	if gate != nil {
		err = gate.Reload(context.WithoutCancel(ctx))
	}
	if err != nil {
		s.mu.Lock()
		s.language = before
		s.mu.Unlock()
		return fmt.Errorf("the language stays as it is: %s", s.onPage(s.brief(err)))
	}
	i := slices.IndexFunc(languages, func(l emulator.Language) bool { return l.Tag == tag })
	s.tell("New cards and answers are in " + languages[i].Name +
		". Type “pending” in LINE to get what is waiting again.")
	return nil
}

// logReload tells what became of a change of the file.
func (s *setting) logReload(err error) {
	content, _ := os.ReadFile(s.file)
	if err != nil {
		why := s.brief(err)
		fmt.Fprintf(s.out, "%s  policy   NOT in force: %s\n", s.clock(), why)
		s.alert("policy", "Your change is not in force, the earlier policy still is. "+s.onPage(why))
		return
	}
	s.mu.Lock()
	broken := s.alerts["policy"] != ""
	same := bytes.Equal(content, s.seen)
	s.seen = content
	s.mu.Unlock()
	s.alert("policy", "")
	if !same || broken { // a change that is taken back is one, too
		s.tell("countersign.yaml was read again. Your change is in force.")
	}
}

// tell says something good on the page and in the output.
func (s *setting) tell(text string) {
	fmt.Fprintf(s.out, "%s  policy   %s\n", s.clock(), text)
	s.chat.Page.News(text)
}

// alert keeps a text above the page, for as long as it is true; "" takes it away.
func (s *setting) alert(about, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alerts[about] = text
	var all []string
	for _, about := range []string{"gate", "policy"} {
		if s.alerts[about] != "" {
			all = append(all, s.alerts[about])
		}
	}
	s.chat.Page.SetNotice(strings.Join(all, "\n"))
}

// brief is the first problem of a configuration, with its place in the file.
func (s *setting) brief(err error) string {
	invalid, ok := errors.AsType[*config.InvalidError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "reload: ")
	}
	said := invalid.Problems[0].String()
	if n := len(invalid.Problems) - 1; n > 0 {
		said += fmt.Sprintf(" (and %d more)", n)
	}
	return said
}

// onPage is a text that names the file by its last name alone: the output has said where it is.
func (s *setting) onPage(text string) string {
	return strings.ReplaceAll(text, s.file, filepath.Base(s.file))
}
