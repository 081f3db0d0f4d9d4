package terminal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf16"

	tea "charm.land/bubbletea/v2"

	"countersign/approval/legible"
	"countersign/client"
	"countersign/internal/terminal/inbox"
)

// editedMsg is the end of the editor.
type editedMsg struct {
	shown  client.Approval
	folder string
	err    error
}

// edit opens the arguments of what is looked at in the user's editor.
func (s *screen) edit() tea.Cmd {
	folder, err := os.MkdirTemp("", "countersign-")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "args.json"), editable(s.shown.Args), 0o600)
	}
	if err != nil {
		s.status = "Nothing was decided: " + legible.Line(err.Error())
		return nil
	}
	visual, _ := s.Env("VISUAL")
	editor, _ := s.Env("EDITOR")
	c := exec.Command("sh", "-c", cmp.Or(visual, editor, "vi")+` "$1"`, "editor", filepath.Join(folder, "args.json"))
	s.busy = true
	shown := s.shown
	return tea.ExecProcess(c, func(err error) tea.Msg { return editedMsg{shown, folder, err} })
}

// editable is JSON for an editor: indented, and what cannot be seen as its escapes.
func editable(args json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Indent(&b, args, "", "  ") != nil {
		return args
	}
	var out bytes.Buffer
	for _, r := range b.String() {
		switch {
		case r == '\n' || r == '⟨' || legible.Lines(string(r)) == string(r):
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// askAboutEdit shows what was changed, and asks whether that is to be approved in place of what was asked for.
func (s *screen) askAboutEdit(m editedMsg) {
	defer os.RemoveAll(m.folder)
	text, err := os.ReadFile(filepath.Join(m.folder, "args.json"))
	var object map[string]json.RawMessage
	switch {
	case m.err != nil:
		s.status = "Nothing was decided: the editor ended with " + legible.Line(m.err.Error()) + "."
		return
	case err != nil:
		s.status = "Nothing was decided: " + legible.Line(err.Error())
		return
	case json.Unmarshal(text, &object) != nil || object == nil:
		s.status = "Nothing was decided: what you wrote is not a JSON object."
		return
	}
	args := json.RawMessage(bytes.TrimSpace(text))
	changes := inbox.ArgChanges(m.shown.Args, args)
	if len(changes) == 0 {
		s.status = "Nothing was decided: nothing was changed."
		return
	}
	s.ask("Approve with "+legible.Line(strings.Join(changes, "; "))+"?", func(string) tea.Cmd {
		return s.decide(m.shown, client.Approve, "", client.WithArgs(args))
	})
}
