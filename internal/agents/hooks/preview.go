package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/internal/filediff"
)

// Read looks at a file. It is asked only for files that an edit names.
type Read func(path string) (File, error)

// File is what a path leads to.
type File struct {
	Data []byte
	Real string // where it is, if the path leads over symbolic links; "" otherwise
}

// maxWork is how many bytes are looked at for one preview, over and over counted each time. What a model
// sends must not keep a hook so long that its agent gives up on it: some then run the call.
const maxWork = 64 << 20

// readTime is how long a file may take to be read; some never end.
const readTime = 2 * time.Second

var (
	errTooLong = errors.New("it is longer than 1 MiB")
	errNoFile  = errors.New("it is not a regular file")
	errSlow    = errors.New("it takes too long to read")
)

// ReadFile is [Read] of this machine's files, with the rights of this process: at most 1 MiB of regular
// files, and for two seconds.
func ReadFile(path string) (File, error) {
	type read struct {
		f   File
		err error
	}
	done := make(chan read, 1)
	go func() {
		f, err := readFile(path)
		done <- read{f, err}
	}()
	late := time.NewTimer(readTime)
	defer late.Stop()
	select {
	case r := <-done:
		return r.f, r.err
	case <-late.C:
		return File{}, errSlow
	}
}

func readFile(path string) (File, error) {
	var f File
	if target, err := filepath.EvalSymlinks(path); err == nil && target != filepath.Clean(path) {
		f.Real = target
	}
	if info, err := os.Stat(path); err != nil {
		return f, err
	} else if !info.Mode().IsRegular() { // opening a pipe would wait
		return f, errNoFile
	}
	r, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer r.Close()
	f.Data, err = io.ReadAll(io.LimitReader(r, filediff.MaxFile+1))
	if err == nil && len(f.Data) > filediff.MaxFile {
		return File{Real: f.Real}, errTooLong
	}
	return f, err
}

// preview is the unified diff of what an edit would change, a sentence where there can be none, and ""
// for a call that is no edit.
func (e Event) preview(read Read) string {
	in, err := readObject(e.Input)
	if err != nil {
		return ""
	}
	p := &previewer{cwd: e.CWD, read: read, work: maxWork}
	switch string(e.Agent) + " " + e.Tool {
	case "claude-code Write", "gemini write_file":
		p.write(in)
	case "claude-code Edit", "gemini replace":
		p.edit(in, []object{in})
	case "claude-code MultiEdit":
		p.edit(in, objects(in["edits"]))
	case "claude-code NotebookEdit":
		p.notebook(in)
	case "codex apply_patch":
		p.patch(in)
	}
	text := strings.ToValidUTF8(p.out.String(), "�")
	if p.work >= 0 {
		return filediff.Clip(text, approval.MaxPreview)
	}
	const stopped = "The rest of the difference is not shown: it takes too long to work out.\n"
	if text = filediff.Clip(text, approval.MaxPreview-len(stopped)-1); text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + stopped
}

// objects reads a list of objects, nil where it is none.
func objects(raw []byte) []object {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	list := make([]object, len(items))
	for i, item := range items {
		var err error
		if list[i], err = readObject(item); err != nil {
			return nil
		}
	}
	return list
}

type previewer struct {
	cwd  string
	read Read
	out  bytes.Buffer
	work int // bytes that may still be looked at
}

// spend takes n bytes from what may be looked at, and reports whether there were as many.
func (p *previewer) spend(n int) bool {
	if p.work < 0 {
		return false
	}
	p.work -= n
	return p.work >= 0
}

func (p *previewer) say(format string, args ...any) {
	fmt.Fprintf(&p.out, format+"\n", args...)
}

// load returns what is at path now. ok is false where nothing can be compared; that has been said then.
func (p *previewer) load(path string) (old []byte, exists, ok bool) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.cwd, path)
	}
	if !p.spend(4096) {
		return nil, false, false
	}
	f, err := p.read(path)
	if errors.Is(err, errSlow) {
		p.spend(maxWork) // the next one would, too
		return nil, true, false
	}
	if !p.spend(2 * len(f.Data)) {
		return nil, true, false
	}
	if f.Real != "" {
		p.say("%s is a symbolic link; the file is %s.", filediff.Shown(path), filediff.Shown(f.Real))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, true
	case errors.Is(err, errTooLong), errors.Is(err, errNoFile):
		p.say("The difference to %s is not shown: %s.", filediff.Shown(path), err)
		return nil, true, false
	case err != nil:
		p.say("The difference to %s is not shown: it cannot be read.", filediff.Shown(path))
		return nil, true, false
	}
	return f.Data, true, true
}

// there is a file that is there, or will be.
func there(path string, text []byte) filediff.Side {
	return filediff.Side{Path: path, Text: text, Exists: true}
}

// differ writes the difference between what is there and what would be.
func (p *previewer) differ(is, to filediff.Side) {
	if p.spend(8 * (len(is.Text) + len(to.Text))) {
		p.out.WriteString(filediff.Between(is, to))
	}
}

func (p *previewer) write(in object) {
	path, ok := in.requireText("file_path")
	content, has := in.requireText("content")
	if !ok || !has || p.read == nil {
		return
	}
	if old, exists, ok := p.load(path); ok {
		p.differ(filediff.Side{Path: path, Text: old, Exists: exists}, there(path, []byte(content)))
	}
}

// edit applies replacements one after another, as the tool would.
func (p *previewer) edit(in object, edits []object) {
	path, ok := in.requireText("file_path")
	if !ok || len(edits) == 0 {
		return
	}
	if p.read == nil {
		p.say("The file was not read. What the call would replace in it:")
		for _, e := range edits {
			from, _ := e.requireText("old_string")
			to, _ := e.requireText("new_string")
			p.differ(there(path, []byte(from)), there(path, []byte(to)))
			if p.out.Len() > approval.MaxPreview {
				break
			}
		}
		return
	}
	old, exists, ok := p.load(path)
	if !ok {
		return
	}
	text := string(old)
	for i, e := range edits {
		from, ok1 := e.requireText("old_string")
		to, ok2 := e.requireText("new_string")
		if !ok1 || !ok2 {
			return
		}
		if !p.spend(2*len(text) + len(to)) {
			return
		}
		n := strings.Count(text, from)
		switch {
		case from == "" && !exists && i == 0:
			text = to
			continue
		case from == "" && text == "":
			text = to
			continue
		case !exists && i == 0:
			p.say("%s does not exist, so there is nothing to replace.", filediff.Shown(path))
			return
		case from == "":
			p.say("The edit does not say which text to replace in %s, which is not empty.", filediff.Shown(path))
			return
		case n == 0:
			p.say("%s does not contain the text that the edit would replace.", filediff.Shown(path))
			return
		case n > 1 && !severalMeant(e, n):
			p.say("%s contains the text %d times, and the edit would replace it once.", filediff.Shown(path), n)
			return
		case len(text)+n*(len(to)-len(from)) > filediff.MaxFile:
			p.say("The difference to %s is not shown: what would be written is longer than 1 MiB.", filediff.Shown(path))
			return
		}
		text = strings.ReplaceAll(text, from, to)
	}
	p.differ(filediff.Side{Path: path, Text: old, Exists: exists}, there(path, []byte(text)))
}

// severalMeant reports whether an edit says that it replaces each of n places.
func severalMeant(e object, n int) bool {
	return e.isTrue("replace_all") || e.isTrue("allow_multiple") || string(e["expected_replacements"]) == strconv.Itoa(n)
}

// notebook compares one cell.
func (p *previewer) notebook(in object) {
	path, ok := in.requireText("notebook_path")
	source, has := in.requireText("new_source")
	mode, _ := in.requireText("edit_mode")
	if !ok || !has && mode != "delete" || p.read == nil {
		return
	}
	old, exists, ok := p.load(path)
	if !ok {
		return
	}
	if !exists {
		p.say("%s does not exist.", filediff.Shown(path))
		return
	}
	var book struct {
		Cells []struct {
			ID     string          `json:"id"`
			Source json.RawMessage `json:"source"`
		} `json:"cells"`
	}
	if json.Unmarshal(old, &book) != nil {
		p.say("The difference to %s is not shown: it is not a notebook.", filediff.Shown(path))
		return
	}
	id, named := in.requireText("cell_id")
	if mode == "insert" {
		after := "at its beginning"
		if named {
			after = "after the cell " + strconv.Quote(shorten(id, 80))
		}
		p.say("A new cell of %s, %s:", filediff.Shown(path), after)
		p.differ(filediff.Side{Path: path}, there(path, []byte(source)))
		return
	}
	for i, cell := range book.Cells {
		if !named || cell.ID != id && id != fmt.Sprintf("cell-%d", i) {
			continue
		}
		p.say("The cell %s of %s:", strconv.Quote(shorten(id, 80)), filediff.Shown(path))
		p.differ(there(path, []byte(cellText(cell.Source))),
			filediff.Side{Path: path, Text: []byte(source), Exists: mode != "delete"})
		return
	}
	p.say("%s does not have the cell that the edit names.", filediff.Shown(path))
}

// cellText is a cell's source, which notebooks keep as text or as a list of lines.
func cellText(raw json.RawMessage) string {
	var lines []string
	if json.Unmarshal(raw, &lines) == nil {
		return strings.Join(lines, "")
	}
	var s string
	_ = json.Unmarshal(raw, &s) // neither: as good as empty
	return s
}
