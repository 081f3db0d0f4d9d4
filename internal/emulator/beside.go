package emulator

import (
	"reflect"
	"slices"
	"time"
)

// Entry is one entry of a panel: a line, or what somebody thought, did or was told.
type Entry struct {
	Turn int    // entries of one turn stand together under its number; 0: no turn
	Kind string // what it is, in a word or two, shown before the text: "thinks", "asks", "is told"
	Word string // an outcome, such as "pending" or "denied", shown as a mark
	Text string
}

type logLine struct {
	N    int       `json:"n"`
	At   time.Time `json:"at"`
	Turn int       `json:"turn,omitempty"`
	Kind string    `json:"kind,omitempty"`
	Word string    `json:"word,omitempty"`
	Text string    `json:"text"`
}

const maxLogLines = 500

// Log appends one line to a stream, which the page shows in the panel of that stream. A stream that no panel shows
// gets a panel with its own name.
func (s *Emulator) Log(stream, line string) { s.Tell(stream, Entry{Text: line}) }

// Tell appends an entry to a stream, as [Emulator.Log] does a line.
func (s *Emulator) Tell(stream string, e Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.panels, func(p Panel) bool { return p.Stream == stream }) {
		s.panels = append(s.panels, Panel{Title: stream, Stream: stream})
	}
	lines := append(s.logs[stream], logLine{N: int(s.next()), At: s.now(), Turn: e.Turn, Kind: e.Kind, Word: e.Word,
		Text: e.Text})
	if extra := len(lines) - maxLogLines; extra > 0 {
		lines = append(lines[:0:0], lines[extra:]...)
	}
	s.logs[stream] = lines
	s.bump()
}

type pageTable struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// SetTable shows a table beside the chats, in place of the one with the same title. A row is known by its first cell:
// when another of its cells changes, the page marks the change. A column named Status holds outcomes, such as
// "pending".
func (s *Emulator) SetTable(title string, columns []string, rows [][]string) {
	next := pageTable{Title: title, Columns: slices.Clone(columns), Rows: [][]string{}}
	for _, row := range rows {
		next.Rows = append(next.Rows, slices.Clone(row))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.tables, func(t pageTable) bool { return t.Title == title })
	switch {
	case i < 0:
		s.tables = append(s.tables, next)
	case reflect.DeepEqual(s.tables[i], next):
		return
	default:
		s.tables[i] = next
	}
	s.bump()
}

// SetNotice shows something that went wrong above everything else on the page, until it is set to "".
func (s *Emulator) SetNotice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notice != text {
		s.notice = text
		s.bump()
	}
}

// pageNews is something good that happened: its number tells two that say the same apart.
type pageNews struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// News tells on the page what has just happened. It goes away by itself, or with the next.
func (s *Emulator) News(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = pageNews{N: s.news.N + 1, Text: text}
	s.bump()
}
