package hooks

import (
	"strings"

	"countersign/internal/filediff"
)

// patch shows what Codex' apply_patch would do to the files as they are.
func (p *previewer) patch(in object) {
	text, ok := in.requireText("command")
	if !ok || p.read == nil {
		return
	}
	for _, f := range filePatches(text) {
		if f.path == "" {
			p.say("The patch cannot be read, so the difference is not shown.")
			return
		}
		old, exists, ok := p.load(f.path)
		if !ok {
			continue
		}
		switch {
		case f.verb == patchAdd:
			p.differ(filediff.Side{Path: f.path, Text: old, Exists: exists}, there(f.path, []byte(f.added)))
		case !exists:
			p.say("%s does not exist.", filediff.Shown(f.path))
		case f.verb == patchDelete:
			p.differ(there(f.path, old), filediff.Side{Path: f.path})
		default:
			text, ok := applyHunks(string(old), f.hunks, p.spend)
			if p.work < 0 {
				return
			}
			if !ok {
				p.say("%s does not contain the lines that the patch would change.", filediff.Shown(f.path))
				continue
			}
			to := f.path
			if f.to != "" {
				to = f.to
			}
			p.differ(there(f.path, old), there(to, []byte(text)))
		}
	}
}

type patchVerb string

const (
	patchAdd    patchVerb = "*** Add File: "
	patchDelete patchVerb = "*** Delete File: "
	patchUpdate patchVerb = "*** Update File: "
	patchMove             = "*** Move to: "
)

// filePatch is what a patch does to one file.
type filePatch struct {
	verb     patchVerb
	path, to string
	added    string
	hunks    []hunk
}

// hunk replaces lines by lines, somewhere after the line that its heading quotes.
type hunk struct {
	after    string
	old, new []string
	atEnd    bool
}

// filePatches reads a patch. What it cannot make sense of becomes a filePatch without a path.
func filePatches(text string) []filePatch {
	var fs []filePatch
	bad := []filePatch{{}}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	begun := false
	for _, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "*** Begin Patch":
			begun = true
			continue
		case trimmed == "*** End Patch":
			if len(fs) == 0 {
				return bad
			}
			return fs
		case !begun:
			continue // the words before a patch, such as a here-document's
		}
		verb, path := patchVerb(""), ""
		for _, v := range []patchVerb{patchAdd, patchDelete, patchUpdate} {
			if rest, ok := strings.CutPrefix(trimmed, string(v)); ok && strings.HasPrefix(line, "***") {
				verb, path = v, rest
			}
		}
		if verb != "" {
			fs = append(fs, filePatch{verb: verb, path: path})
			continue
		}
		if len(fs) == 0 {
			return bad
		}
		f := &fs[len(fs)-1]
		if f.verb == patchAdd {
			rest, ok := strings.CutPrefix(line, "+")
			if !ok {
				return bad
			}
			f.added += rest + "\n"
			continue
		}
		if !f.line(line) {
			return bad
		}
	}
	return bad // it does not end
}

// line takes one line of an update.
func (f *filePatch) line(line string) bool {
	if to, ok := strings.CutPrefix(line, patchMove); ok {
		f.to = strings.TrimSpace(to)
		return f.to != ""
	}
	if line == "@@" || strings.HasPrefix(line, "@@ ") {
		f.hunks = append(f.hunks, hunk{after: strings.TrimPrefix(strings.TrimPrefix(line, "@@"), " ")})
		return true
	}
	if f.verb != patchUpdate {
		return line == ""
	}
	if len(f.hunks) == 0 {
		f.hunks = append(f.hunks, hunk{})
	}
	h := &f.hunks[len(f.hunks)-1]
	switch {
	case line == "*** End of File":
		h.atEnd = true
	case line == "":
		h.old, h.new = append(h.old, ""), append(h.new, "")
	case line[0] == ' ':
		h.old, h.new = append(h.old, line[1:]), append(h.new, line[1:])
	case line[0] == '-':
		h.old = append(h.old, line[1:])
	case line[0] == '+':
		h.new = append(h.new, line[1:])
	default:
		return false
	}
	return true
}

// applyHunks puts the hunks into text, in order; false if one does not fit, or spend allows no more.
func applyHunks(text string, hunks []hunk, spend func(int) bool) (string, bool) {
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	var out []string
	at := 0
	for _, h := range hunks {
		if h.after != "" {
			i := find(lines, []string{h.after}, at, spend)
			if i < 0 {
				return "", false
			}
			out = append(out, lines[at:i+1]...)
			at = i + 1
		}
		i := len(lines)
		if len(h.old) > 0 {
			i = find(lines, h.old, h.first(at, len(lines)), spend)
			for i < 0 && len(h.old) > 1 && h.old[len(h.old)-1] == "" { // an empty line that only ends the patch
				h.old = h.old[:len(h.old)-1]
				if n := len(h.new); n > 0 && h.new[n-1] == "" {
					h.new = h.new[:n-1]
				}
				i = find(lines, h.old, h.first(at, len(lines)), spend)
			}
		}
		if i < 0 {
			return "", false
		}
		out = append(out, lines[at:i]...)
		out = append(out, h.new...)
		at = i + len(h.old)
	}
	out = append(out, lines[at:]...)
	if len(out) == 0 {
		return "", true
	}
	return strings.Join(out, "\n") + "\n", true
}

// first is where in so many lines the hunk may stand at the earliest, from a place on.
func (h hunk) first(at, lines int) int {
	if h.atEnd {
		return max(at, lines-len(h.old))
	}
	return at
}

// find returns where want stands in lines from a place on, -1 if nowhere: as written, else with other
// white space at the ends of lines, as the tool looks for it.
func find(lines, want []string, from int, spend func(int) bool) int {
	for _, same := range []func(a, b string) bool{
		func(a, b string) bool { return a == b },
		func(a, b string) bool { return strings.TrimRight(a, " \t\r") == strings.TrimRight(b, " \t\r") },
		func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) },
	} {
		for i := from; i+len(want) <= len(lines); i++ {
			fits := true
			for j := range want {
				if !spend(len(lines[i+j]) + len(want[j]) + 16) {
					return -1
				}
				if fits = same(lines[i+j], want[j]); !fits {
					break
				}
			}
			if fits {
				return i
			}
		}
	}
	return -1
}
