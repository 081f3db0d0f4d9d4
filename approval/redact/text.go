package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// leaf finds the secrets in a string under a name of kind k.
func (w *walker) leaf(text string, k kind) []span {
	switch {
	case k == notSecret:
		return w.m.find(text, w)
	case w.m.forLogs():
		if text == "" || isMark(text) {
			return nil
		}
		if k != secret {
			if found := w.m.credentials(text, 0, k); len(found) > 0 {
				return union(found, w.m.find(text, w))
			}
		}
		return []span{{0, len(text)}}
	case wholeSecret(text) && !substitutes(text):
		return []span{{0, len(text)}}
	case k == secret || commandsOf(text).anyData():
		return w.m.find(text, w)
	}
	return union(w.m.credentials(text, 0, k), w.m.find(text, w))
}

// maxHeader is how many bytes of a header's value in free text are looked at.
const maxHeader = 1024

// maxNamed is how many characters a value may have to be masked by name alone.
const maxNamed = 200

func wholeSecret(text string) bool {
	return text != "" && !strings.Contains(text, marks) &&
		(len(text) <= maxNamed || len(text) <= maxNamed*utf8.UTFMax && utf8.RuneCountInString(text) <= maxNamed) &&
		!strings.ContainsFunc(text, unicode.IsSpace)
}

// substitutes reports whether a shell that reads text would run something in it: $(…), ${…}, <(…) or `…`.
func substitutes(text string) bool {
	return strings.Contains(text, "$(") || strings.Contains(text, "${") || strings.Contains(text, "<(") ||
		strings.Contains(text, ">(") || strings.Count(text, "`") > 1
}

// isMark reports whether text is what stands in a secret's place, whole or its beginning.
func isMark(text string) bool {
	rest, ok := strings.CutPrefix(text, marks)
	if !ok {
		return false
	}
	return rest == "" || len(rest) < 96 && markEnd.MatchString(rest)
}

// markEnd is what a mark has after its dots, in any language; in text, one without white space before its digest may be
// cut off there.
var markEnd = regexp.MustCompile(`^ ?[(（][0-9]+\D{1,30}sha256( [0-9a-f]{8}[)）])?$`)

// union merges two ordered lists; where two overlap, their common hull is one.
func union(a, b []span) []span {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)
	}
	all := append(a, b...)
	slices.SortFunc(all, func(x, y span) int { return x.start - y.start })
	out := all[:1]
	for _, f := range all[1:] {
		if last := &out[len(out)-1]; f.start < last.end {
			last.end = max(last.end, f.end)
		} else {
			out = append(out, f)
		}
	}
	return out
}

// schemes come before the credential in an Authorization header.
var schemes = setOf("bearer basic token apikey api-key key negotiate ntlm oauth dpop ssws geniekey")

// credentials finds what is secret in an Authorization or Cookie value with white
// space in it. Offsets are moved by base.
func (m *Masker) credentials(text string, base int, k kind) []span {
	hides := func(value string) bool {
		if m.forLogs() {
			return value != "" && !isMark(value) && !isVariable(value)
		}
		return plainValue(value) && !isLocation(value)
	}
	switch k {
	case authorization:
		scheme, rest, ok := strings.Cut(strings.TrimRight(text, " \t\r\n"), " ")
		value := strings.TrimLeft(rest, " \t")
		if !ok || !schemes[strings.ToLower(scheme)] || !hides(value) {
			return nil
		}
		start := base + len(scheme) + 1 + len(rest) - len(value)
		return []span{{start, start + len(value)}}
	case cookie:
		var found []span
		for i := 0; i < len(text); {
			for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
				i++
			}
			name := i
			for i < len(text) && isNameByte(text[i]) {
				i++
			}
			if i == name {
				break
			}
			attribute := attributes[strings.ToLower(text[name:i])]
			if i < len(text) && text[i] == '=' {
				start := i + 1
				for i = start; i < len(text) && text[i] != ';' && (attribute || !isSpace(text[i])); i++ {
				}
				if value := text[start:i]; !attribute && hides(value) && (m.forLogs() || !steers(text[name:start-1])) {
					found = append(found, span{base + start, base + i})
				}
			}
			for i < len(text) && text[i] == ' ' {
				i++
			}
			if i >= len(text) || text[i] != ';' {
				break
			}
			i++
		}
		return found
	}
	return nil
}

// attributes of a Set-Cookie header, which are no secrets.
var attributes = setOf("path domain expires max-age samesite secure httponly partitioned priority")

// steering are variables by which programs find what they run. What is assigned to one is no cookie.
var steering = setOf(`ld_preload ld_audit ld_library_path dyld_insert_libraries bash_env env ps4 ifs editor visual
	pager manpager browser lessopen lessclose pythonstartup pythonhome perl5opt perl5lib perl5db rubyopt rubylib
	node_options java_tool_options makeflags cc cxx ld git_ssh git_pager git_editor git_external_diff git_proxy_command
	systemd_editor zdotdir fpath histfile tcllibpath gconv_path`)

// steers reports whether a name is such a variable's.
func steers(name string) bool { return steering[strings.ToLower(name)] || NamesProgram(name) }

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isNameByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == '.' }

// isVariable reports whether a value only names a shell variable: $NAME, ${NAME}.
func isVariable(value string) bool {
	name, ok := strings.CutPrefix(value, "$")
	if inner, braced := strings.CutPrefix(name, "{"); braced {
		name, braced = strings.CutSuffix(inner, "}")
		ok = ok && braced
	}
	if !ok || name == "" {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c != '_' && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// finder looks for secrets in one text.
type finder struct {
	shapesOnly bool // names are not looked for
	m          *Masker
	s          string
	args       *walker // the args that s stands in; nil: none
	failed     failures
	ran        *commands // what s may run, once it was asked for
}

// find returns the secrets in free text, in order and apart from each other. It
// takes time linear in the text's length.
func (m *Masker) find(s string, args *walker) []span {
	f := finder{m: m, s: s, args: args}
	return f.find()
}

// find looks for shapes and, unless they are all it looks for, for what stands under a secret's name.
func (f *finder) find() []span {
	var found []span
	s := f.s
	for i := 0; i < len(s); {
		if triggers[s[i]] == quiet {
			i++
			continue
		}
		next := i + 1
		var one span
		var under []span // a name
		switch triggers[s[i]] {
		case letter:
			one = f.shapeAt(i)
		case dash:
			if one = f.privateKey(i); one.end == 0 && !f.shapesOnly {
				under = f.flag(i)
			}
		case assign:
			if s[i] == ':' && strings.HasPrefix(s[i:], "://") {
				if p := f.urlPassword(i); p.end > 0 {
					under = []span{p}
				}
				next = i + len("://")
			} else if one = botToken(s, i); one.end == 0 && !f.shapesOnly {
				under, next = f.assignment(i)
			}
		}
		if one.end > 0 {
			found = appendSpan(found, one)
			next = max(next, one.end)
		}
		for at := i + 1; len(under) > 0; under = under[1:] {
			u := under[0]
			gap := finder{m: f.m, s: s[at:u.start], shapesOnly: true}
			for _, g := range gap.find() { // in a user's or a cookie's name
				found = appendSpan(found, span{at + g.start, at + g.end})
			}
			found = appendSpan(found, u)
			at, next = u.end, u.end
		}
		i = next
	}
	return found
}

// appendSpan adds f, joining it to the last one if they overlap.
func appendSpan(found []span, f span) []span {
	if n := len(found); n > 0 && f.start < found[n-1].end {
		found[n-1].end = max(found[n-1].end, f.end)
		return found
	}
	return append(found, f)
}

const (
	quiet  = iota // begins nothing
	letter        // may begin a shape
	assign        // = or :
	dash          // may begin a flag or a private key
)

var triggers = func() (t [256]uint8) {
	for _, p := range shapes {
		t[p.prefix[0]] = letter
	}
	for _, c := range "bBeh" { // bearer, basic, JSON Web Tokens, hooks.slack.com
		t[c] = letter
	}
	t['='], t[':'], t['-'] = assign, assign, dash
	return t
}()

// runs is what the text may run.
func (f *finder) runs() *commands {
	if f.ran == nil {
		c := commandsOf(f.s)
		f.ran = &c
	}
	return f.ran
}

// separation is what stands between a name and its value.
type separation int

const (
	attached  separation = iota // no white space
	separated                   // white space
)

// hides reports whether s[start:end] is masked because it stands under a secret's name.
func (f *finder) hides(name string, start, end int, sep separation) bool {
	value := f.s[start:end]
	if value == "" || isVariable(value) || value[0] == '{' || value[0] == '[' || isMark(value) {
		return false
	}
	switch strings.ToLower(value) {
	case "true", "false", "null", "nil", "none", "undefined":
		return false
	}
	if f.m.forLogs() {
		return true
	}
	if !plainValue(value) || isLocation(value) || value[0] == ',' {
		return false
	}
	runs := f.runs()
	if runs.data || runs.inApart(start) || runs.runsName(name) || sep == separated && runs.wordStart(start) >= 0 ||
		f.args != nil && f.args.reusedBeside(name, f.s) {
		return false
	}
	return !f.inProgram(start) && !(strings.Contains(value, ",") && f.inBraces(start))
}

// kindOf judges a name in text. Of one with dots, such as a setting of git, only the last part counts: the others
// may be anybody's choice.
func (f *finder) kindOf(name string) kind {
	if f.m.forLogs() || !strings.Contains(name, ".") {
		return f.m.kindOf(name)
	}
	parts := strings.Split(strings.Trim(name, "."), ".")
	if first := strings.ToLower(parts[0]); first == "alias" || first == "pager" {
		return notSecret // git runs these
	}
	last := parts[len(parts)-1:]
	if words := strings.ToLower(last[0]); len(parts) > 1 && (words == "key" || words == "value") {
		last = parts[len(parts)-2:]
	}
	return f.m.kindOf(strings.Join(last, "."))
}

// maxFolder is how long the name of a folder can be, in bytes.
const maxFolder = 255

// inProgram reports whether s[i] belongs to the path of what may be run.
func (f *finder) inProgram(i int) bool {
	word := f.runs().wordStart(i)
	if word < 0 {
		return false
	}
	for word < i && (isQuote(f.s[word]) || f.s[word] == '\\') {
		word++
	}
	folder, _, ok := strings.Cut(f.s[word:min(i, word+maxFolder+1)], "/")
	return ok && strings.IndexFunc(folder, func(r rune) bool { return !isPlain(r) || r == '=' || r == ':' }) < 0 &&
		!strings.Contains(f.s[max(word, i-maxNameBytes):i], "?")
}

// inBraces reports whether the word around i began with a brace that a shell may expand to several words.
func (f *finder) inBraces(i int) bool {
	for n := 0; i > 0 && n < maxNamed && !isSpace(f.s[i-1]); n++ {
		if i--; f.s[i] == '{' {
			return true
		}
	}
	return false
}

// plainMarks are the characters, beside letters and digits, of a value that may be masked in longer text.
const plainMarks = "_.~+=@%:,-/!#^*?"

func isPlain(r rune) bool {
	if r < utf8.RuneSelf {
		return isAlnum(byte(r)) || strings.IndexByte(plainMarks, byte(r)) >= 0
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// plainValue reports whether text is short and of letters, digits and plainMarks alone.
func plainValue(text string) bool {
	return wholeSecret(text) && strings.IndexFunc(text, func(r rune) bool { return !isPlain(r) }) < 0
}

// isLocation reports whether text is a URL, or a path that may be a program's.
func isLocation(text string) bool {
	for _, prefix := range []string{"/", "./", "../"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	if text[0] == '~' && strings.Contains(text, "/") {
		return true
	}
	scheme, _, ok := strings.Cut(text, "://")
	return ok && scheme != "" && strings.IndexFunc(scheme, func(r rune) bool {
		return r >= utf8.RuneSelf || !isAlnum(byte(r)) && r != '+' && r != '-' && r != '.'
	}) < 0
}

// flag finds the value of --name value or -name value, whose first dash is at i.
func (f *finder) flag(i int) []span {
	s := f.s
	name := i + 1
	if name < len(s) && s[name] == '-' {
		name++
	}
	if name < len(s) && s[name] == '-' || i > 0 && !isSpace(s[i-1]) && !isQuote(s[i-1]) {
		return nil
	}
	end := name
	for end < len(s) && end-name < maxNameBytes && isNameByte(s[end]) {
		end++
	}
	value := end
	for value < len(s) && (s[value] == ' ' || s[value] == '\t') && value-end < 8 {
		value++
	}
	if value == end || value >= len(s) || s[value] == '-' || f.kindOf(s[name:end]) == notSecret {
		return nil
	}
	start, stop, whole := f.valueAt(value)
	// A flag's value is run where the flag itself is another one's argument.
	sep := attached
	if isFlag(wordBefore(s, i)) {
		sep = separated
	}
	if !whole || !f.hides(s[name:end], start, stop, sep) {
		return nil
	}
	return []span{{start, stop}}
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// assignment finds the secrets in the value assigned by the = or : at i, and
// returns also where to go on if there are none.
func (f *finder) assignment(i int) ([]span, int) {
	s := f.s
	after := i + 1
	if after < len(s) && s[i] == ':' && s[after] == ':' {
		return nil, after + 1 // a scope, no value
	}
	for after < len(s) && after-i < 3 && (s[after] == '=' || s[after] == '>') {
		after++
	}
	end := i
	for end > 0 && i-end < 8 && (s[end-1] == ' ' || s[end-1] == '\t') {
		end--
	}
	for n := 0; n < 6 && end > 0 && (isQuote(s[end-1]) || s[end-1] == '\\' || s[end-1] == ']'); n++ {
		end--
	}
	name := end
	for name > 0 && end-name < maxNameBytes && isNameByte(s[name-1]) {
		name--
	}
	if name == end {
		return nil, after
	}
	k := f.kindOf(s[name:end])
	if k == notSecret {
		return nil, after
	}
	value := after
	for value < len(s) && value-after < 8 && (s[value] == ' ' || s[value] == '\t') {
		value++
	}
	sep := attached
	if value > after || isSpace(s[i-1]) {
		sep = separated
	}
	if sep == separated && !isSpace(s[i-1]) && !f.m.forLogs() {
		if s[i] == '=' && after == i+1 {
			return nil, after // NAME= command
		}
		if isFlag(wordBefore(s, name)) && isSpace(s[name-1]) {
			return nil, after // -p NAME: command
		}
	}
	key := s[name:end]
	start, stop, whole := f.valueAt(value)
	if k != secret {
		if found, decided := f.headerValue(key, k, value, start, stop); decided {
			return found, after
		}
	}
	if whole && f.hides(key, start, stop, sep) {
		return []span{{start, stop}}, after
	}
	return nil, after
}

// headerValue finds the secrets in a header's value, which is more than a word: it goes on to the end of the line or to
// the quote around it. decided says that nothing else is to be looked for.
func (f *finder) headerValue(key string, k kind, value, start, stop int) (found []span, decided bool) {
	s, line := f.s, stop
	if start == value {
		for line < len(s) && line-start < maxHeader && s[line] != '\n' && s[line] != '\r' && !isQuote(s[line]) {
			line++
		}
	}
	if k != authorization {
		if strings.Contains(s[start:line], "=") && !f.runsData() {
			found = f.m.credentials(s[start:line], start, k)
		}
		return found, len(found) > 0
	}
	if found := f.scheme(start); found.end > 0 {
		return []span{found}, true
	}
	scheme, rest, _ := strings.Cut(s[start:line], " ")
	if !schemes[strings.ToLower(scheme)] || rest == "" {
		return nil, false
	}
	from := start + len(scheme)
	for from < line && (s[from] == ' ' || s[from] == '\t') {
		from++
	}
	end, whole := line, true
	if start == value {
		_, end, whole = f.valueAt(from)
	}
	if whole && from <= end && f.hides(key, from, end, separated) {
		return []span{{from, end}}, true
	}
	return nil, true
}

// runsData reports whether nothing is masked by its name alone since the text runs data.
func (f *finder) runsData() bool { return !f.m.forLogs() && f.runs().anyData() }

// valueAt returns the bounds of the value that begins at i in free text, and whether that is all of it: what is
// between quotes, or else a word as a shell or a list would end it.
func (f *finder) valueAt(i int) (start, end int, whole bool) {
	if f.m.forLogs() {
		if i < len(f.s) && (f.s[i] == '{' || f.s[i] == '[') {
			return i, i, true // names stand inside
		}
		start, end = wordValue(f.s, i)
		return start, end, true
	}
	return plainValueAt(f.s, i)
}

// plainValueAt returns a value of letters, digits and plainMarks.
func plainValueAt(s string, i int) (start, end int, whole bool) {
	start = i
	for start < len(s) && s[start] == '\\' && start-i < 16 {
		start++
	}
	slashes := start - i
	quoted := start < len(s) && (s[start] == '"' || s[start] == '\'')
	if quoted {
		start++
	} else {
		start = i
	}
	end = start
	for n := 0; end < len(s); n++ {
		r, size := utf8.DecodeRuneInString(s[end:])
		if !isPlain(r) {
			break
		}
		if !quoted && r == ',' && (breakAt(s, end+1) || namesNext(s[end+1:])) {
			return start, end, true
		}
		if n > maxNamed {
			return start, end, false
		}
		end += size
	}
	if !quoted {
		return start, end, breakAt(s, end)
	}
	if at := end + slashes; at < len(s) && s[at] == s[start-1] && slashesBefore(s[start:at]) == slashes {
		return start, end, breakAfterQuote(s, at+1)
	}
	return start, end, false
}

// breakAt reports whether a word without quotes that ends at i is whole there.
func breakAt(s string, i int) bool {
	if i >= len(s) || isSpace(s[i]) {
		return true
	}
	next := byte(' ')
	if i+1 < len(s) {
		next = s[i+1]
	}
	switch s[i] {
	case '&', ';', '|':
		return true
	case '<', '>':
		return next != '('
	case '"', '\'':
		return breakAfterQuote(s, i+1)
	case '\\':
		return next == 'n' || next == 'r' || next == 't' || isQuote(next)
	case ')', ']', '}':
		return isSpace(next) || isQuote(next) || strings.IndexByte(")]},.;:&|\\", next) >= 0
	}
	return false
}

// breakAfterQuote reports whether a word ends with the quote before i.
func breakAfterQuote(s string, i int) bool {
	for n := 0; n < 4 && i < len(s) && (s[i] == '"' || s[i] == '\''); n++ {
		i++
	}
	return i >= len(s) || isSpace(s[i]) || strings.IndexByte(",;)]}>|&:<\\", s[i]) >= 0
}

// wordValue returns the value at i, for readers who are shown none of it: with all that a shell would take for the
// same word.
func wordValue(s string, i int) (start, end int) {
	if start, end, ok := quotedValue(s, i); ok {
		return start, end
	}
	for end = i; end < len(s); {
		next := byte(' ')
		if end+1 < len(s) {
			next = s[end+1]
		}
		switch c := s[end]; c {
		case '&', ';', '|':
			return i, end
		case '<', '>':
			if next != '(' {
				return i, end
			}
			end = skipSubstitution(s, end)
		case '$', '`':
			end = skipSubstitution(s, end)
		case '"', '\'':
			if breakAfterQuote(s, end+1) && end > i {
				return i, end
			}
			n := strings.IndexByte(s[end+1:], c)
			if n < 0 {
				return i, len(s)
			}
			end += n + 2
		case '\\':
			if next == 'n' || next == 'r' || next == 't' || isQuote(next) && end > i {
				return i, end
			}
			end += 2
		case ',':
			if isSpace(next) || isQuote(next) || namesNext(s[end+1:]) {
				return i, end
			}
			end++
		case ')', ']', '}':
			if breakAt(s, end) {
				return i, end
			}
			end++
		default:
			if isSpace(c) {
				return i, end
			}
			end++
		}
	}
	return i, len(s)
}

// quotedValue returns what is between the quotes at i, if that is all of the word.
func quotedValue(s string, i int) (start, end int, ok bool) {
	start = i
	for start < len(s) && s[start] == '\\' && start-i < 16 {
		start++
	}
	if start >= len(s) || s[start] != '"' && s[start] != '\'' {
		return 0, 0, false
	}
	slashes, quote := start-i, s[start]
	for end = start + 1; end < len(s); end++ {
		if quote == '"' && end+1 < len(s) && s[end] == '$' && s[end+1] == '(' {
			end = skipSubstitution(s, end) - 1
			continue
		}
		if s[end] == quote && min(slashesBefore(s[start+1:end]), slashes+1) == slashes {
			return start + 1, end - slashes, breakAfterQuote(s, end+1)
		}
	}
	return 0, 0, false
}

// skipSubstitution returns where the $(…), ${…}, <(…) or `…` at i ends; what is not closed goes on to the end.
func skipSubstitution(s string, i int) int {
	if s[i] == '`' {
		if n := strings.IndexByte(s[i+1:], '`'); n >= 0 {
			return i + n + 2
		}
		return len(s)
	}
	if i+1 >= len(s) || s[i+1] != '(' && s[i+1] != '{' {
		return i + 1
	}
	opening, closing, depth := s[i+1], byte(')'), 0
	if opening == '{' {
		closing = '}'
	}
	for at := i + 1; at < len(s); at++ {
		switch s[at] {
		case opening:
			depth++
		case closing:
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return len(s)
}

// slashesBefore counts the backslashes at the end of text.
func slashesBefore(text string) int {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n
}

// namesNext reports whether text begins with name= or name:.
func namesNext(text string) bool {
	for i := 0; i < len(text) && i < 64; i++ {
		if text[i] == '=' || text[i] == ':' {
			return i > 0
		}
		if !isNameByte(text[i]) {
			return false
		}
	}
	return false
}
