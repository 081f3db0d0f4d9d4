package countersign_test

import (
	"fmt"
	"html"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/golangci/misspell"
)

var (
	mdLink    = regexp.MustCompile(`!?\[[^\]]*\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)`)
	mdSource  = regexp.MustCompile(`(?:src|srcset)="([^"]*)"`)
	mdHeading = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	mdCode    = regexp.MustCompile("`[^`]*`")
)

// A page is a document in Markdown: what people read of it, line by line, without blocks of code.
type page struct {
	lines   map[int]string
	anchors []string
	blocks  []string // of code, each with its language first
}

// links are the targets that the page names, by line.
func (p page) links() map[int][]string {
	found := map[int][]string{}
	for n, line := range p.lines {
		for _, m := range mdLink.FindAllStringSubmatch(mdCode.ReplaceAllStringFunc(line, blank), -1) {
			found[n] = append(found[n], m[1])
		}
		for _, m := range mdSource.FindAllStringSubmatch(line, -1) {
			found[n] = append(found[n], m[1])
		}
	}
	return found
}

// blank keeps the length of a piece of code and drops what could be taken for a link in it.
func blank(code string) string { return strings.Repeat("`", len(code)) }

func readPage(t *testing.T, path string) page {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, fence := page{lines: map[int]string{}}, ""
	for i, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence == "" && (strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")):
			fence = trimmed[:3]
			p.blocks = append(p.blocks, trimmed[3:]+"\n")
		case fence != "" && strings.HasPrefix(trimmed, fence):
			fence = ""
		case fence != "":
			p.blocks[len(p.blocks)-1] += line + "\n"
		default:
			p.lines[i+1] = line
			if m := mdHeading.FindStringSubmatch(line); m != nil {
				p.anchors = append(p.anchors, anchor(m[1], p.anchors))
			}
		}
	}
	return p
}

// anchor is what a heading is linked by: as GitHub makes it, with a number where the page has it already.
func anchor(heading string, taken []string) string {
	heading = mdLink.ReplaceAllStringFunc(heading, func(l string) string { return l[1:strings.Index(l, "]")] })
	var b strings.Builder
	for _, r := range strings.ToLower(html.UnescapeString(heading)) {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_', unicode.Is(unicode.M, r):
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	name := b.String()
	for n := 1; slices.Contains(taken, name); n++ {
		name = fmt.Sprintf("%s-%d", b.String(), n)
	}
	return name
}

// noDocuments are folders whose pages are not for people, or not ours.
var noDocuments = []string{"testdata", "node_modules", "dist"}

// documents are all pages of the tree.
func documents(t *testing.T) map[string]page {
	t.Helper()
	pages := map[string]page{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || slices.Contains(noDocuments, d.Name())):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			pages[filepath.ToSlash(path)] = readPage(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 20 {
		t.Fatalf("only %d pages found", len(pages))
	}
	return pages
}

// TestDocsLinksLead holds that every link within the tree leads to a file that is there, and to a heading of it.
func TestDocsLinksLead(t *testing.T) {
	pages, followed := documents(t), 0
	for path, p := range pages {
		for n, targets := range p.links() {
			for _, target := range targets {
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				followed++
				if problem := follow(pages, path, target); problem != "" {
					t.Errorf("%s:%d: %s: %s", path, n, target, problem)
				}
			}
		}
	}
	if followed < 100 {
		t.Errorf("followed %d links, want the hundreds that there are", followed)
	}
}

// follow says what is wrong with a link on a page; "" if it leads somewhere.
func follow(pages map[string]page, from, target string) string {
	file, name, _ := strings.Cut(target, "#")
	to := from
	if file != "" {
		to = filepath.Join(filepath.Dir(from), filepath.FromSlash(file))
	}
	if _, err := os.Stat(to); err != nil {
		return "there is no such file"
	}
	if name == "" {
		return ""
	}
	p, known := pages[to]
	switch {
	case !known:
		return "only pages have headings"
	case !slices.Contains(p.anchors, name):
		return "there is no such heading"
	}
	return ""
}

// TestLinksThatLeadNowhereAreFound shows that the check sees what it is for.
func TestLinksThatLeadNowhereAreFound(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.md")
	text := "# One: two, `three`\n## Same\n## Same\n[x](#one-two-three) [y](#same-1) [z](#none)\n" +
		"`[code](none.md)` ![p](none.png)\n```\n[block](none.md)\n# no heading\n```\n[b](a.md#no-heading)\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := readPage(t, path)
	pages, wrong := map[string]page{path: p}, []string{}
	for _, n := range []int{4, 5, 10} {
		for _, target := range p.links()[n] {
			if follow(pages, path, target) != "" {
				wrong = append(wrong, target)
			}
		}
	}
	if want := []string{"#none", "none.png", "a.md#no-heading"}; !slices.Equal(wrong, want) {
		t.Errorf("found %q, want %q", wrong, want)
	}
}

// TestEveryPageIsReached holds that whoever begins at the README finds each page of docs.
func TestEveryPageIsReached(t *testing.T) {
	pages := documents(t)
	reached, next := map[string]bool{}, []string{"README.md"}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		if reached[path] {
			continue
		}
		reached[path] = true
		for _, targets := range pages[path].links() {
			for _, target := range targets {
				file, _, _ := strings.Cut(target, "#")
				if to := filepath.Join(filepath.Dir(path), filepath.FromSlash(file)); file != "" && pages[to].lines != nil {
					next = append(next, to)
				}
			}
		}
	}
	for path := range pages {
		if strings.HasPrefix(path, "docs") && !reached[path] {
			t.Errorf("no link leads to %s: docs/README.md is the index", path)
		}
	}
}

// TestTheReadmeIsShort holds what a newcomer meets first: a page of 6.5 KB in short lines, with one command that
// shows the program and one that runs its tests.
func TestTheReadmeIsShort(t *testing.T) {
	info, err := os.Stat("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 6656 {
		t.Errorf("README.md has %d bytes, want 6.5 KB at most: the rest belongs into docs", info.Size())
	}
	p := readPage(t, "README.md")
	for n, line := range p.lines {
		if len([]rune(line)) > 120 && !strings.HasPrefix(line, "|") {
			t.Errorf("README.md:%d has %d columns, want 120 at most", n, len([]rune(line)))
		}
	}
	var commands []string
	for _, line := range strings.Split(p.blocks[0], "\n")[1:] {
		command, _, _ := strings.Cut(line, "#")
		commands = append(commands, strings.TrimSpace(command))
	}
	if want := []string{"go run ./cmd/countersign demo", "go test ./...", ""}; !slices.Equal(commands, want) {
		t.Errorf("the first block has the commands %q, want %q", commands, want)
	}
}

// TestSpelling looks for common misspellings in the documents and in what the program says in English. The list of
// words is that of golangci's misspell, pinned in go.mod.
func TestSpelling(t *testing.T) {
	var paths []string
	for path := range documents(t) {
		paths = append(paths, path)
	}
	for _, pattern := range []string{"internal/locale/en.yaml", "internal/locale/*/en.yaml",
		"internal/locale/phrases/*.go", "cmd/countersign/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	speller := misspell.New()
	if _, found := speller.Replace("You may not recieve teh card."); len(found) == 0 {
		t.Error("a misspelled sentence passes")
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, found := speller.Replace(string(text))
		for _, d := range found {
			t.Errorf("%s:%d: %q: should that be %q?", path, d.Line, d.Original, d.Corrected)
		}
	}
}

// records are read to look something up, and say what was as it was.
var records = []string{"CHANGELOG.md", "docs/benchmarks.md"}

var (
	sentenceEnd = regexp.MustCompile(`[.!?:;]["”*)]*(?:\s+|$)| · | \| `)
	listItem    = regexp.MustCompile(`^(?:[-*]|\d+\.) `)
	codes       = regexp.MustCompile(`\bX(?:,? (?:and |or )?X\b)+`)
)

// sentences are what a page's prose says, one after the other; a link is its words, and a piece of code, or a list of
// them, is one word.
func sentences(p page) []string {
	var found []string
	var paragraph strings.Builder
	end := func() {
		text := mdLink.ReplaceAllStringFunc(mdCode.ReplaceAllString(paragraph.String(), "X"), func(l string) string {
			return l[strings.Index(l, "[")+1 : strings.Index(l, "]")]
		})
		found = append(found, sentenceEnd.Split(codes.ReplaceAllString(text, "X"), -1)...)
		paragraph.Reset()
	}
	last := slices.Max(slices.Collect(maps.Keys(p.lines)))
	for n := 1; n <= last; n++ {
		line := strings.TrimSpace(p.lines[n])
		if line == "" || listItem.MatchString(line) || strings.ContainsAny(line[:1], "#|<") {
			end()
		}
		if line == "" || line[0] == '<' {
			continue
		}
		paragraph.WriteString(" " + listItem.ReplaceAllString(line, ""))
		if line[0] == '#' {
			end()
		}
	}
	end()
	return found
}

func TestSentencesAreShort(t *testing.T) {
	for path, p := range documents(t) {
		if slices.Contains(records, path) {
			continue
		}
		all := sentences(p)
		if len(all) < 10 {
			t.Errorf("%s: only %d sentences found", path, len(all))
		}
		for _, s := range all {
			if n := len(strings.Fields(s)); n >= 25 {
				t.Errorf("%s: %d words, want fewer than 25: %s", path, n, strings.TrimSpace(s))
			}
		}
	}
}

// TestSentencesAreCounted shows what counts as a sentence.
func TestSentencesAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	text := "# A title\nOne two `a b\nc`, `d` and `e`. [Three four](x.md)\nfive: six\n- seven\n\n| eight | nine |\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sentences(readPage(t, path)) {
		if s = strings.Join(strings.Fields(s), " "); s != "" {
			got = append(got, s)
		}
	}
	want := []string{"# A title", "One two X", "Three four five", "six", "seven", "eight", "nine |"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
