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
func (pg *Page) Log(stream, line string) { pg.Tell(stream, Entry{Text: line}) }

// Tell appends an entry to a stream, as [Page.Log] does a line.
func (pg *Page) Tell(stream string, e Entry) {
	pg.e.mu.Lock()
	defer pg.e.mu.Unlock()
	if !slices.ContainsFunc(pg.panels, func(p Panel) bool { return p.Stream == stream }) {
		pg.panels = append(pg.panels, Panel{Title: stream, Stream: stream})
	}
	lines := append(pg.logs[stream], logLine{N: int(pg.e.next()), At: pg.e.now(), Turn: e.Turn, Kind: e.Kind, Word: e.Word,
		Text: e.Text})
	if extra := len(lines) - maxLogLines; extra > 0 {
		lines = append(lines[:0:0], lines[extra:]...)
	}
	pg.logs[stream] = lines
	pg.e.bump()
}

type pageTable struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// SetTable shows a table beside the chats, in place of the one with the same title. A row is known by its first cell:
// when another of its cells changes, the page marks the change. A column named Status holds outcomes, such as
// "pending".
func (pg *Page) SetTable(title string, columns []string, rows [][]string) {
	next := pageTable{Title: title, Columns: slices.Clone(columns), Rows: [][]string{}}
	for _, row := range rows {
		next.Rows = append(next.Rows, slices.Clone(row))
	}
	pg.e.mu.Lock()
	defer pg.e.mu.Unlock()
	i := slices.IndexFunc(pg.tables, func(t pageTable) bool { return t.Title == title })
	switch {
	case i < 0:
		pg.tables = append(pg.tables, next)
	case reflect.DeepEqual(pg.tables[i], next):
		return
	default:
		pg.tables[i] = next
	}
	pg.e.bump()
}

// SetNotice shows something that went wrong above everything else on the page, until it is set to "".
func (pg *Page) SetNotice(text string) {
	pg.e.mu.Lock()
	defer pg.e.mu.Unlock()
	if pg.notice != text {
		pg.notice = text
		pg.e.bump()
	}
}

// pageNews is something good that happened: its number tells two that say the same apart.
type pageNews struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// News tells on the page what has just happened. It goes away by itself, or with the next.
func (pg *Page) News(text string) {
	pg.e.mu.Lock()
	defer pg.e.mu.Unlock()
	pg.news = pageNews{N: pg.news.N + 1, Text: text}
	pg.e.bump()
}
