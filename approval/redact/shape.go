package redact

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// shape is how a service's tokens look: a prefix, then at least min more bytes.
type shape struct {
	prefix string
	more   *[256]bool
	min    int
	word   bool // must not follow a letter or digit
	mixed  bool // must hold a digit or a capital: else it may be words
}

var (
	alnums   = bytesOf("")
	snake    = bytesOf("_")
	dashed   = bytesOf("_-")
	dotted   = bytesOf("_-.")
	base64s  = bytesOf("+/=_-")
	token68  = bytesOf("-._~+/=:")
	capitals = func() *[256]bool {
		set := *alnums
		for c := 'a'; c <= 'z'; c++ {
			set[c] = false
		}
		return &set
	}()
)

// bytesOf is letters, digits and extra.
func bytesOf(extra string) *[256]bool {
	var set [256]bool
	for c := range 256 {
		set[c] = isAlnum(byte(c)) || strings.IndexByte(extra, byte(c)) >= 0
	}
	return &set
}

// shapes are the tokens of well-known services. Those whose prefix ends some
// usual word are only taken at a word's beginning.
var shapes = []shape{
	{prefix: "AKIA", more: capitals, min: 16}, // AWS
	{prefix: "ASIA", more: capitals, min: 16},
	{prefix: "ABIA", more: capitals, min: 16},
	{prefix: "ACCA", more: capitals, min: 16},
	{prefix: "AIza", more: dashed, min: 30}, // Google
	{prefix: "ya29.", more: dotted, min: 20},
	{prefix: "GOCSPX-", more: dashed, min: 20},
	{prefix: "ghp_", more: dotted, min: 20}, // GitHub
	{prefix: "gho_", more: dotted, min: 20},
	{prefix: "ghu_", more: dotted, min: 20},
	{prefix: "ghr_", more: dotted, min: 20},
	{prefix: "ghs_", more: dotted, min: 20, word: true, mixed: true}, // highs_
	{prefix: "github_pat_", more: snake, min: 20},
	{prefix: "glpat-", more: dotted, min: 16}, // GitLab
	{prefix: "gloas-", more: dotted, min: 16},
	{prefix: "gldt-", more: dotted, min: 16},
	{prefix: "glrt-", more: dotted, min: 16},
	{prefix: "glcbt-", more: dotted, min: 16},
	{prefix: "glptt-", more: dotted, min: 16},
	{prefix: "glsoat-", more: dotted, min: 16},
	{prefix: "xox", more: dotted, min: 12, word: true, mixed: true}, // Slack
	{prefix: "xapp-", more: dashed, min: 10, mixed: true},
	{prefix: "sk_live_", more: snake, min: 10, word: true, mixed: true}, // Stripe; task_live_
	{prefix: "sk_test_", more: snake, min: 10, word: true, mixed: true},
	{prefix: "rk_live_", more: snake, min: 10, word: true, mixed: true},
	{prefix: "rk_test_", more: snake, min: 10, word: true, mixed: true},
	{prefix: "whsec_", more: base64s, min: 16},
	{prefix: "sk-", more: dashed, min: 16, word: true, mixed: true}, // OpenAI, Anthropic; task-
	{prefix: "npm_", more: alnums, min: 30},
	{prefix: "pypi-", more: dashed, min: 30, mixed: true},
	{prefix: "dckr_pat_", more: dashed, min: 16},
	{prefix: "dop_v1_", more: alnums, min: 32},
	{prefix: "hf_", more: alnums, min: 30, word: true},
	{prefix: "hvs.", more: dashed, min: 20, word: true},
	{prefix: "SG.", more: dotted, min: 40, word: true},
	{prefix: "shpat_", more: alnums, min: 20},
	{prefix: "shpss_", more: alnums, min: 20},
	{prefix: "lin_api_", more: alnums, min: 20},
}

// failures remember, per shape, up to where nothing more can match, so that a text
// made of prefixes is not read again at each of them: what follows a later prefix
// in the same run is part of what follows the first. The last is for web tokens.
type failures [64]int

// byFirst are the indexes of the shapes by their first byte, and the bytes that
// can come second.
var byFirst = func() (t [256]struct {
	second [256]bool
	shapes []int
}) {
	for i, p := range shapes {
		t[p.prefix[0]].shapes = append(t[p.prefix[0]].shapes, i)
		t[p.prefix[0]].second[p.prefix[1]] = true
	}
	return t
}()

// shapeAt returns the secret that is announced at i.
func (f *finder) shapeAt(i int) span {
	s, failed := f.s, &f.failed
	if i+1 >= len(s) {
		return span{}
	}
	first := &byFirst[s[i]]
	if first.second[s[i+1]] {
		for _, n := range first.shapes {
			p := &shapes[n]
			if i < failed[n] || !strings.HasPrefix(s[i:], p.prefix) || p.word && !wordStart(s, i) {
				continue
			}
			start := i + len(p.prefix)
			end := start
			mixed := !p.mixed
			for end < len(s) && p.more[s[end]] {
				mixed = mixed || s[end] < 'a' && s[end] != '-' && s[end] != '.' && s[end] != '_'
				end++
			}
			if end-start < p.min || !mixed {
				failed[n] = end
				continue
			}
			return span{i, end}
		}
	}
	switch s[i] {
	case 'b', 'B':
		return f.scheme(i)
	case 'e':
		return webToken(s, i, failed)
	case 'h':
		return slackHook(s, i)
	}
	return span{}
}

// wordStart reports whether a word begins at i. The end of an escape (\n, %20) is
// no part of the word.
func wordStart(s string, i int) bool {
	return i == 0 || !isAlnum(s[i-1]) || i >= 2 && s[i-2] == '\\' || i >= 3 && s[i-3] == '%'
}

// webToken finds a JSON Web Token: base64 of {" and more, then two parts, or four if
// it is encrypted.
func webToken(s string, i int, failed *failures) span {
	last := &failed[len(failed)-1]
	if i < *last || !strings.HasPrefix(s[i:], "eyJ") {
		return span{}
	}
	var ends [5]int // of the parts
	parts := 0
	for end := i; parts < len(ends); end++ {
		for end < len(s) && dashed[s[end]] {
			end++
		}
		ends[parts] = end
		parts++
		if end == len(s) || s[end] != '.' {
			break
		}
	}
	if parts > 3 && ends[parts-1] == ends[parts-2]+1 {
		parts-- // a full stop
	}
	if parts < 3 || ends[0]-i < 8 || parts < 5 && ends[1]-ends[0] < 3 {
		*last = ends[0] // a later start in the header is no better
		return span{}
	}
	return span{i, ends[parts-1]}
}

// scheme finds the credential after Bearer or Basic.
func (f *finder) scheme(i int) span {
	s := f.s
	const bearer, basic = "bearer", "basic"
	var after int
	switch {
	case len(s) > i+len(bearer) && strings.EqualFold(s[i:i+len(bearer)], bearer):
		after = i + len(bearer)
	case len(s) > i+len(basic) && strings.EqualFold(s[i:i+len(basic)], basic):
		after = i + len(basic)
	default:
		return span{}
	}
	if !wordStart(s, i) {
		return span{}
	}
	start := after
	for start < len(s) && (s[start] == ' ' || s[start] == '\t') {
		start++
	}
	if start == after {
		if !strings.HasPrefix(s[start:], "%20") {
			return span{}
		}
		start += len("%20")
	}
	end := start
	words := s[i] == 'b' // "the bearer instruments"
	digits := true
	for end < len(s) && (token68[s[end]] || s[end] == '|' && digits && end > start) { // 12|AbCd
		words = words && 'a' <= s[end] && s[end] <= 'z'
		digits = digits && '0' <= s[end] && s[end] <= '9'
		end++
	}
	if f.m.forLogs() && start < len(s) && (s[start] == '$' || s[start] == '`') &&
		!isVariable(s[start:variableEnd(s, start)]) {
		_, end = wordValue(s, start)
		return span{start, end}
	}
	if end-start < 6 || words {
		return span{}
	}
	if after == i+len(basic) {
		pair, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s[start:end], "="))
		if err != nil || !slices.Contains(pair, ':') {
			return span{}
		}
	}
	if f.m.forLogs() {
		if from, stop := wordValue(s, start); from == start {
			end = max(end, stop)
		}
		return span{start, end}
	}
	if !isToken(s[start:end]) && !f.hides(s[i:after], start, end, separated) || !breakAt(s, end) && s[end] != ',' {
		return span{}
	}
	return span{start, end}
}

// isToken reports whether a credential cannot be the name of a program: it is long, of both cases and digits, and
// no path.
func isToken(text string) bool {
	if _, rest, ok := strings.Cut(text, "|"); ok {
		text = rest
	}
	var upper, lower, digit bool
	for i := range len(text) {
		switch c := text[i]; {
		case 'A' <= c && c <= 'Z':
			upper = true
		case 'a' <= c && c <= 'z':
			lower = true
		case '0' <= c && c <= '9':
			digit = true
		case c == '/' && i == 0, c == '|':
			return false
		}
	}
	return upper && lower && digit && len(text) >= 20
}

// variableEnd returns where the $NAME or ${NAME} at i ends.
func variableEnd(s string, i int) int {
	end := i + 1
	for end < len(s) && end-i < maxNameBytes && (isWordByte(s[end]) || s[end] == '{') {
		end++
	}
	if end < len(s) && s[end] == '}' {
		end++
	}
	return end
}

// slackHook finds the secret path of a Slack webhook address.
func slackHook(s string, i int) span {
	rest, ok := strings.CutPrefix(s[i:], "hooks.slack.com/")
	if !ok {
		return span{}
	}
	start := len(s) - len(rest)
	end := start
	for end < len(s) && (dashed[s[end]] || s[end] == '/') {
		end++
	}
	if end-start < 20 {
		return span{}
	}
	return span{start, end}
}

// botToken finds Telegram's 123456789:AA…, whose colon is at i.
func botToken(s string, i int) span {
	start := i
	for start > 0 && i-start <= 12 && '0' <= s[start-1] && s[start-1] <= '9' {
		start--
	}
	if i-start < 8 || i-start > 12 { // eight to ten, and the 20 of a %20
		return span{}
	}
	end := i + 1
	for end < len(s) && dashed[s[end]] {
		end++
	}
	if end-i-1 < 35 || end-i-1 > 50 {
		return span{}
	}
	return span{start, end}
}

// privateKey finds a PEM or PGP private key whose dashes begin at i. If its end is
// missing it takes what still looks like base64.
//
// A shell takes each of its lines for a command where they are in no quotes: for those who decide it is masked only
// if none of them can be one.
func (f *finder) privateKey(i int) span {
	key := keyAt(f.s, i)
	if key.end > 0 && !f.m.forLogs() && !onlyKey(f.s[key.start:key.end], linePrefix(f.s, i)) {
		return span{}
	}
	return key
}

// onlyKey reports whether the text of a private key holds no line that could be the name of a program.
func onlyKey(text, prefix string) bool {
	lines := strings.FieldsFunc(lineEscapes.Replace(text), func(r rune) bool { return r == '\n' || r == '\r' })
	width := 0
	for n, line := range lines {
		if n > 0 {
			line = strings.TrimPrefix(line, strings.TrimRight(prefix, " \t"))
		}
		line = strings.Trim(line, " \t")
		switch {
		case n == 0:
			_, label, _ := strings.Cut(line, "-----BEGIN ")
			if _, line, _ = strings.Cut(label, "-----"); line == "" {
				continue // the body is on lines of its own
			}
		case line == "" || strings.HasPrefix(line, "-----END "):
			continue
		case pemHeader(line):
			if strings.ContainsAny(line, "$`;|&<>(){}\"'\\") {
				return false
			}
			continue
		}
		line, _, _ = strings.Cut(line, "-----END ")
		for part := range strings.FieldsSeq(line) {
			if width > 0 && len(part) > width || likeProgram(part) {
				return false
			}
			width = max(width, len(part))
		}
	}
	return true
}

var lineEscapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r")

// likeProgram reports whether a line of base64 reads as a program's name, or as a path that begins with a folder's.
func likeProgram(line string) bool {
	small := func(s string) bool {
		return strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) < 0
	}
	if folder, _, ok := strings.Cut(strings.TrimPrefix(line, "/"), "/"); ok && line[0] == '/' && folder != "" &&
		small(folder) {
		return true
	}
	return len(line) < 32 && small(strings.ReplaceAll(line, "/", ""))
}

// maxPrefix is how long a mark before each line of a text can be.
const maxPrefix = 16

// linePrefix returns what stands between the line's start and i, where it can be the mark of a difference, a comment or
// a quotation: "-", "> ", "# ".
func linePrefix(s string, i int) string {
	start := i
	for start > 0 && i-start < maxPrefix && s[start-1] != '\n' && s[start-1] != '\r' {
		if start > 1 && s[start-2] == '\\' && s[start-1] == 'n' {
			break
		}
		start--
	}
	if strings.ContainsFunc(s[start:i], func(r rune) bool {
		return r < ' ' && r != '\t' || isPlain(r) &&
			!strings.ContainsRune("-+/#*~%!", r)
	}) {
		return ""
	}
	return s[start:i]
}

// keyAt finds what looks like a private key at i.
func keyAt(s string, i int) span {
	rest, ok := strings.CutPrefix(s[i:], "-----BEGIN ")
	if !ok {
		return span{}
	}
	label, _, ok := strings.Cut(rest[:min(len(rest), 64)], "-----")
	if !ok || !strings.Contains(label, "PRIVATE KEY") {
		return span{}
	}
	end := i + len("-----BEGIN ") + len(label) + len("-----")
	prefix := strings.TrimRight(linePrefix(s, i), " \t")
	long, short, begins := false, false, false // begins: a line
	for at := end; at < len(s); {
		if begins && prefix != "" && strings.HasPrefix(s[at:], prefix) {
			at += len(prefix)
			begins = false
			continue
		}
		switch {
		case isSpace(s[at]):
			begins = begins || s[at] == '\n'
			at++
			continue
		case s[at] == '\\' && at+1 < len(s) && (s[at+1] == 'n' || s[at+1] == 'r'):
			begins = true
			at += 2
			continue
		case strings.HasPrefix(s[at:], "-----END "):
			tail := s[at+len("-----END ") : min(len(s), at+64)]
			if n := strings.Index(tail, "-----"); n >= 0 {
				return span{i, at + len("-----END ") + n + len("-----")}
			}
			return span{i, at}
		case pemHeader(s[at:]):
			line := s[at:min(len(s), at+maxPEMHeader)]
			if n := strings.IndexAny(line, "\r\n\\"); n >= 0 {
				line = line[:n]
			}
			line, _, _ = strings.Cut(line, "-----")
			at += len(line)
			continue
		}
		begins = false
		start := at
		for at < len(s) && (isAlnum(s[at]) || s[at] == '+' || s[at] == '/' || s[at] == '=') {
			at++
		}
		ended := strings.Contains(s[at:min(len(s), at+16+len(prefix))], "-----")
		if at == start || at-start < 16 && short && !ended {
			break
		}
		short = short || at-start < 16
		long = long || at-start >= 16
		end = at
	}
	if !long {
		return span{} // only the words: nothing secret in it
	}
	return span{i, end}
}

const maxPEMHeader = 128

func pemHeader(s string) bool {
	for _, name := range []string{"Proc-Type:", "DEK-Info:", "Version:"} {
		if strings.HasPrefix(s, name) {
			return true
		}
	}
	return false
}

// maxUserInfo is how far, in bytes, a password in a URL is looked for when it holds
// characters that should have been escaped.
const maxUserInfo = 256

// urlPassword finds the password in the URL whose "://" is at i.
func (f *finder) urlPassword(i int) span {
	s := f.s
	if i == 0 || !isAlnum(s[i-1]) {
		return span{}
	}
	start := i + len("://")
	limit := min(len(s), start+4*maxUserInfo)
	ends := func(at int) bool { return endsURL(s[at]) }
	next := func(at int) int { return at + 1 }
	if f.m.forLogs() { // with what a shell would put there
		ends = func(at int) bool { return endsURL(s[at]) && s[at] != '`' }
		next = func(at int) int {
			if s[at] == '$' || s[at] == '`' {
				return skipSubstitution(s[:limit], at)
			}
			return at + 1
		}
	}
	end := start
	for end < limit && s[end] != '/' && s[end] != '?' && s[end] != '#' && !ends(end) {
		end = next(end)
	}
	colon := strings.IndexByte(s[start:end], ':')
	if colon < 0 || s[start] == '[' {
		return span{}
	}
	password := start + colon + 1
	at := strings.LastIndexByte(s[password:end], '@')
	if at < 0 {
		// Not a port after all: a password with a / ? or # in it.
		if _, err := strconv.ParseUint(s[password:end], 10, 16); err == nil || end >= len(s) || ends(end) {
			return span{}
		}
		for end < limit && end-start < maxUserInfo && !ends(end) {
			end = next(end)
		}
		if at = strings.LastIndexByte(s[password:end], '@'); at < 0 {
			return span{}
		}
	}
	if text := s[password : password+at]; at == 0 || isVariable(text) || strings.HasPrefix(text, marks) ||
		!f.m.forLogs() && (strings.IndexFunc(text, func(r rune) bool { return !isPlain(r) }) >= 0 ||
			strings.Contains(text, ",") && f.inBraces(password)) {
		return span{}
	}
	return span{password, password + at}
}

func endsURL(c byte) bool {
	return isSpace(c) || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' || c == '\\' || c < ' '
}
