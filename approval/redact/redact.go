// Package redact finds the secrets in what is shown and written down, and puts a mark in the place of each: by the
// names that values stand under, by the shapes of credentials, and never where that would hide what a command runs.
package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"

	"countersign/approval/legible"

	"github.com/go-json-experiment/json/jsontext"
)

// Masker finds secrets in what people and logs are shown and puts in place of
// each one "•••• (16 characters, sha256 1a2b3c4d)": its length and the first
// eight hex digits of the SHA-256 of all of it, by which two are told apart. It
// only ever changes copies; what is hashed and run stays as it is.
//
// A value is a secret by the name it stands under, or by its shape: bearer and
// basic credentials, passwords in URLs, JSON Web Tokens, private keys, and the
// tokens of well-known services. The prefix of a hash tells a short secret, such as
// a PIN, to whoever tries all of them.
//
// A Masker is for one of two kinds of reader. Those who decide must see what would
// run: by its name alone no string is masked that has white space, is over 200
// characters long or holds a substitution such as $(…), and in longer text (a command
// line, code) only a value of letters, digits and _.~+=@%:,-/!#^*? that is whole, is
// no URL and no path, and that the text does not run: see commands. Secrets in all
// that are still found by their shapes. Readers of logs and of the audit log decide
// nothing: for them, see [Masker.ForLogs], a value under a secret's name is masked
// whole, whatever it holds.
//
// A nil Masker knows the usual names and is for those who decide. A Masker is safe
// for concurrent use.
type Masker struct {
	names names
	keep  map[string]bool // whole names that stand for no secret
	logs  bool
	mark  Mark // nil: in English
}

// Mark writes what stands in the place of a secret of so many characters, whose SHA-256 begins with these hex digits.
// It begins with "••••" and ends with "sha256", a space, the digits and a closing bracket, in any language, and has no
// line breaks, quotes or backslashes: by that it is known again and not masked once more.
type Mark func(characters int, digest string) string

// In returns a Masker that masks what m masks and writes its marks in a reader's language. [Masker.ForLogs] goes back
// to English, so that a log has one language.
func (m *Masker) In(mark Mark) *Masker {
	c := Masker{}
	if m != nil {
		c = *m
	}
	c.mark = mark
	return &c
}

// ForLogs returns a Masker for logs and audit rows, which masks what m masks and, under
// a secret's name, all of a value, also what might run.
func (m *Masker) ForLogs() *Masker {
	c := &Masker{logs: true}
	if m != nil {
		c.names, c.keep = m.names, m.keep
	}
	return c
}

// names is a set of terms, each of lower-case words joined by one space.
type names struct {
	kinds   map[string]kind
	longest int         // words in a term
	lengths [256]uint32 // of the terms' first words by their first byte: bit n for n bytes
}

func (n *names) add(term string, k kind) {
	if n.kinds == nil {
		n.kinds = make(map[string]kind)
	}
	n.kinds[term] = k
	n.longest = max(n.longest, 1+strings.Count(term, " "))
	first, _, _ := strings.Cut(term, " ")
	n.lengths[first[0]] |= lengthBit(len(first))
}

func lengthBit(n int) uint32 { return 1 << min(n, 31) }

// kind says how the value under a name is taken apart.
type kind uint8

const (
	notSecret kind = iota
	secret
	authorization // may be a scheme and a credential
	cookie        // may be several, each with a name
)

// usual are the names of secrets. A term is found as whole words in a name, however
// they are joined (access_token, githubToken, X-Api-Key); see [Masker.kindOf].
var usual = func() (n names) {
	for k, list := range map[kind][]string{
		secret: {
			"password", "passwords", "passwd", "passcode", "passphrase", "passphrases", "pwd", "pass word", "pass phrase",
			"pass code", "secret", "secrets", "credential", "credentials", "creds",
			"token", "access tokens", "auth tokens", "api tokens", "bearer tokens", "refresh tokens", "session tokens",
			"secret tokens", "jwt", "bearer", "otp", "totp", "cvv", "cvc",
			"apikey", "apikeys", "api key", "api keys", "accesskey", "access key", "access keys", "privatekey", "private key",
			"private keys", "secretkey", "authkey", "auth key", "encryption key", "signing key", "master key", "ssh key",
			"session key", "account key", "deploy key", "shared key", "hmac key", "service key", "license key",
			"subscription key", "db pass", "user pass", "smtp pass", "mail pass", "email pass", "ftp pass", "ssh pass",
			"admin pass", "root pass", "login pass", "proxy pass", "mysql pass", "postgres pass", "redis pass", "mongo pass",
			"sudo pass", "authorization code",
		},
		authorization: {"authorization"},
		cookie:        {"cookie", "cookies", "setcookie"},
	} {
		for _, term := range list {
			n.add(term, k)
		}
	}
	return n
}()

// endings make a word of several without separators secret: "githubtoken".
var endings = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "secretkey", "accesskey",
	"privatekey", "credentials"}

// harmless are last words of names that speak about a secret without holding it:
// token_count, password_policy, secretName. People must see such values.
var harmless = setOf(`count counts limit limits budget usage used total max min type types name names id ids length len
	size url uri urls endpoint path paths file files filename dir ttl expiry expires expiration expired lifetime age at by
	policy policies field fields hint required enabled disabled manager store provider version format status strength
	rotation index offset position ref arn scope scopes audience issuer kind mode method algorithm alg symbol address
	standard supply decimals price amount balance holder banner consent domain description label title comment owner
	region vault engine rate window ratio cost helper helpers command commands cmd cmds process program programs askpass
	exec script scripts hook hooks eval executable binary shell plugin runner args argv`)

// programs are last words of names that stand for what would run, or for a file with it: such a name is no
// secret's, nor is what stands deeper inside under one.
var programs = setOf(`helper helpers command commands cmd cmds process program programs askpass exec file files path
	paths script scripts hook hooks eval executable binary shell plugin runner args argv`)

// amounts are first words that make a "token" a unit: max_token.
var amounts = setOf("max min num n count total")

func setOf(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// New returns a Masker that takes values under extraKeys for secrets too.
// A key is matched as the usual ones are: "account number" also stands for
// accountNumber and for old_account_number.
func New(extraKeys ...string) *Masker {
	m := &Masker{names: usual}
	m.names.kinds = maps.Clone(usual.kinds)
	for _, key := range extraKeys {
		var n nameWords
		n.split(key)
		if n.count > 0 {
			m.names.add(string(n.join(0, n.count)), secret)
		}
	}
	return m
}

// Keeping returns a Masker for which values under these keys are no secrets by the name of the key.
// A key is matched whole, however its words are joined: "token" keeps {"token":"USDC"} readable and
// still masks access_token. Shapes of secrets are masked under it all the same.
func (m *Masker) Keeping(keys ...string) *Masker {
	kept := &Masker{keep: map[string]bool{}}
	if m != nil {
		kept.names, kept.logs, kept.mark = m.names, m.logs, m.mark
		maps.Copy(kept.keep, m.keep)
	}
	for _, key := range keys {
		var n nameWords
		n.split(key)
		if n.count > 0 {
			kept.keep[string(n.join(0, n.count))] = true
		}
	}
	return kept
}

// maxNameWords and maxNameBytes bound how much of a name is looked at, from its end.
const (
	maxNameWords = 12
	maxNameBytes = 128
)

// nameWords is a name taken apart: its words in lower case, one space between them.
type nameWords struct {
	text   [maxNameBytes + maxNameBytes]byte
	starts [maxNameWords]int
	ends   [maxNameWords]int
	count  int
}

// join returns words from to before to.
func (n *nameWords) join(from, to int) []byte { return n.text[n.starts[from]:n.ends[to-1]] }

func (n *nameWords) word(i int) []byte { return n.join(i, i+1) }

// split takes a name apart at separators, at changes of case (githubToken,
// APIKey) and between letters and digits.
func (n *nameWords) split(name string) {
	if len(name) > maxNameBytes {
		name = name[len(name)-maxNameBytes:]
	}
	size := 0
	var before charType
	for i := 0; i < len(name); i++ {
		c := name[i]
		t := typeOf(c)
		if t == separator {
			before = t
			continue
		}
		starts := before != t && !(before == upper && t == lower)
		if before == upper && t == upper && i+1 < len(name) && typeOf(name[i+1]) == lower {
			starts = true // the K of APIKey
		}
		if starts {
			if n.count == maxNameWords { // forget the first
				copy(n.starts[:], n.starts[1:])
				copy(n.ends[:], n.ends[1:])
				n.count--
			}
			if size > 0 {
				n.text[size] = ' '
				size++
			}
			n.starts[n.count] = size
			n.count++
		}
		if t == upper {
			c += 'a' - 'A'
		}
		n.text[size] = c
		size++
		n.ends[n.count-1] = size
		before = t
	}
}

type charType uint8

const (
	separator charType = iota
	lower
	upper
	digit
)

func typeOf(c byte) charType {
	switch {
	case 'a' <= c && c <= 'z', c >= utf8.RuneSelf:
		return lower
	case 'A' <= c && c <= 'Z':
		return upper
	case '0' <= c && c <= '9':
		return digit
	}
	return separator
}

// kindOf judges a name: it is a secret's if it contains a term as whole words and
// does not end in a word that makes it harmless.
func (m *Masker) kindOf(name string) kind {
	known := &usual
	if m != nil && m.names.kinds != nil {
		known = &m.names
	}
	var n nameWords
	n.split(name)
	if m != nil && len(m.keep) > 0 && n.count > 0 && m.keep[string(n.join(0, n.count))] {
		return notSecret
	}
	if name == "pass" || name == "PASS" || name == "Pass" {
		return secret // only alone: boarding_pass, pass_rate
	}
	last := n.last()
	for from := range n.count {
		word := n.word(from)
		if known.lengths[word[0]]&lengthBit(len(word)) == 0 {
			if hasEnding(word) && !n.harmless(last, from+1) {
				return secret
			}
			continue
		}
		for to := min(from+known.longest, n.count); to > from; to-- {
			term := n.join(from, to)
			k := known.kinds[string(term)]
			if k == notSecret && to == from+1 && hasEnding(term) {
				k = secret
			}
			unit := string(term) == "token" && from > 0 && amounts[string(n.word(0))]
			if k != notSecret && !unit && !n.harmless(last, to) && !programs[string(n.word(last))] {
				return k
			}
		}
	}
	return notSecret
}

// last is the index of a name's last word that is no number.
func (n *nameWords) last() int {
	last := n.count - 1
	for last > 0 && typeOf(n.word(last)[0]) == digit {
		last--
	}
	return last
}

// NamesProgram reports whether the name of a key says that its value is run, or is a file: such values are never
// taken for secrets, whatever else the name says.
func NamesProgram(name string) bool {
	var n nameWords
	n.split(name)
	return n.count > 0 && programs[string(n.word(n.last()))]
}

// harmless reports whether the last word, which must come after the term that ends
// before the word to, makes the name harmless.
func (n *nameWords) harmless(last, to int) bool { return last >= to && harmless[string(n.word(last))] }

func hasEnding(word []byte) bool {
	if len(word) < len("token") {
		return false
	}
	for _, ending := range endings {
		if len(word) > len(ending) && string(word[len(word)-len(ending):]) == ending {
			return true
		}
	}
	return false
}

// span is a secret's place in a text.
type span struct{ start, end int }

// appendMark appends what stands in a secret's place.
func (m *Masker) appendMark(dst []byte, text string) []byte {
	sum := sha256.Sum256([]byte(text))
	mark := EnglishMark
	if m != nil && m.mark != nil {
		mark = m.mark
	}
	return append(dst, mark(utf8.RuneCountInString(text), hex.EncodeToString(sum[:4]))...)
}

// EnglishMark is the [Mark] of logs, of the audit log and of what programs read.
func EnglishMark(characters int, digest string) string {
	return marks + " (" + legible.Characters(characters) + ", sha256 " + digest + ")"
}

const marks = "••••"

// Marked reports whether something in a text stands in a secret's place.
func Marked(text string) bool { return strings.Contains(text, marks) }

// cover returns s with its secrets covered.
func (m *Masker) cover(s string, secrets []span) []byte {
	out := make([]byte, 0, len(s)+48*len(secrets))
	at := 0
	for _, f := range secrets {
		out = append(out, s[at:f.start]...)
		out = m.appendMark(out, s[f.start:f.end])
		at = f.end
	}
	return append(out, s[at:]...)
}

// Line is foreign text as it stands in a record: with its secrets masked, on one line.
func (m *Masker) Line(s string) string {
	if s == "" {
		return ""
	}
	s, _ = m.Text(s)
	return legible.Line(s)
}

// Text returns s with the secrets in it masked, and their number. Besides shapes
// it knows values after a secret's name: password=…, "token": "…", --api-key …,
// Authorization: Bearer …, Cookie: …. A value that is a reference to a shell
// variable in capitals ($TOKEN) is not one. Marks already in s stay as they are.
func (m *Masker) Text(s string) (string, int) {
	found := m.find(s, nil)
	if len(found) == 0 {
		return s, 0
	}
	return string(m.cover(s, found)), len(found)
}

// Args returns canonical JSON with its secrets replaced by strings, and their
// number. Under a secret's name strings and numbers are masked, also those deeper
// inside, but not below a name such as command or file, which is no secret's; true,
// false, null and "" are not. {"name":"Authorization","value":"…"}
// and ["--password","…"] count as names too. The result is valid JSON with as many
// members as before, in the same places, and is the argument itself if n is 0.
// What does not have JSON's structure comes back as one JSON string, masked as text.
func (m *Masker) Args(canonical []byte) (masked []byte, n int) {
	w := walker{m: m, in: string(canonical), limit: -1}
	if !w.run() {
		text, n := m.Text(w.in)
		quoted, _ := jsontext.AppendQuote(nil, text) // the error is bad UTF-8, replaced
		return quoted, n
	}
	if w.n == 0 {
		return canonical, 0
	}
	return append(w.out, w.in[w.copied:]...), w.n
}

// ArgsLimited returns the masked arguments as text of at most maxBytes bytes. What
// is longer is cut between characters and ends in "… (+N)", where N is how many
// characters are missing, counted before masking where the cut made it needless
// to mask them. Where not even that fits, the result is empty.
func (m *Masker) ArgsLimited(canonical []byte, maxBytes int) string {
	w := walker{m: m, in: string(canonical), limit: max(maxBytes, 0)}
	var text, rest string // rest: not looked at any more
	switch ok := w.run(); {
	case w.stopped:
		text, rest = string(w.out), w.in[w.copied:]
	case ok && w.copied == 0:
		text = w.in // nothing was masked
	case ok:
		text = string(append(w.out, w.in[w.copied:]...))
	default:
		masked, _ := m.Args(canonical)
		text = string(masked)
	}
	if len(text)+len(rest) <= maxBytes {
		return text
	}
	return legible.CutBytes(text, maxBytes, utf8.RuneCountInString(rest))
}

// walker reads JSON once. It copies nothing until it meets the first secret, and
// checks only what it needs to find its way.
type walker struct {
	m       *Masker
	in      string
	out     []byte // the masked form of in[:copied]
	copied  int
	n       int
	limit   int // of out's length; negative: none
	stopped bool
	// runners are the strings that run what they are given as data; nil until one asks.
	runners []string
	asked   bool
}

// maxWalk is the deepest nesting that a walker follows. Args are far flatter.
const maxWalk = 1000

// run reports whether in is one JSON value; if stopped is set it did not look on.
func (w *walker) run() bool {
	i := w.value(w.space(0), notSecret, 0)
	return i >= 0 && w.space(i) == len(w.in)
}

// replace puts a JSON string in the place of in[start:end].
func (w *walker) replace(start, end int, text []byte) {
	w.out = append(w.out, w.in[w.copied:start]...)
	w.out, _ = jsontext.AppendQuote(w.out, text)
	w.copied = end
}

// stop ends the walk once what is done up to i fills the limit.
func (w *walker) stop(i int) bool {
	if w.limit < 0 || len(w.out)+i-w.copied <= w.limit {
		return false
	}
	w.out = append(w.out, w.in[w.copied:i]...)
	w.copied = i
	w.stopped = true
	return true
}

func (w *walker) space(i int) int {
	for i < len(w.in) && (w.in[i] == ' ' || w.in[i] == '\n' || w.in[i] == '\t' || w.in[i] == '\r') {
		i++
	}
	return i
}

// at is the byte at i, 0 at the end.
func (w *walker) at(i int) byte {
	if i < len(w.in) {
		return w.in[i]
	}
	return 0
}

// value handles the value at i, which stands under a name of kind k. It returns
// the index after it, or -1 if it is not JSON or the walk stopped.
func (w *walker) value(i int, k kind, depth int) int {
	if depth > maxWalk {
		return -1
	}
	end := -1
	switch c := w.at(i); c {
	case '{':
		return w.object(i, k, depth)
	case '[':
		return w.array(i, k, depth)
	case '"':
		if w.head(i, k) {
			return -1
		}
		var text string
		if text, end = w.str(i); end < 0 {
			return -1
		}
		if inner, n := w.inner(text, k); n > 0 {
			w.replace(i, end, inner)
			w.n += n
		} else if found := w.leaf(text, k); len(found) > 0 {
			w.replace(i, end, w.m.cover(text, found))
			w.n += len(found)
		}
	case 't':
		end = w.literal(i, "true")
	case 'f':
		end = w.literal(i, "false")
	case 'n':
		end = w.literal(i, "null")
	default:
		if c != '-' && (c < '0' || c > '9') {
			return -1
		}
		for end = i + 1; end < len(w.in) && isNumberByte(w.in[end]); end++ {
		}
		if k != notSecret {
			w.replace(i, end, w.m.appendMark(nil, w.in[i:end]))
			w.n++
		}
	}
	if end >= 0 && w.stop(end) {
		return -1
	}
	return end
}

// headroom is how much more of a string than what is kept of it is looked at for secrets.
const headroom = 16 << 10

// head handles the string at i by its beginning, where that alone, masked, is more than the limit: an audit row has a
// thousandth of what a call can have. The walk is over then. Only for readers of logs, for whom nothing later in a
// string changes what is masked of what is earlier.
func (w *walker) head(i int, k kind) bool {
	if w.limit < 0 || !w.m.forLogs() || k != notSecret || len(w.in)-i <= w.limit+2*headroom {
		return false
	}
	to := i + 1
	for to < len(w.in) && to-i <= w.limit+headroom || to < len(w.in) && !utf8.RuneStart(w.in[to]) {
		switch {
		case w.in[to] == '"':
			return false
		case w.in[to] != '\\':
			to++
		case w.at(to+1) != 'u':
			to += 2
		case (w.at(to+2) == 'd' || w.at(to+2) == 'D') && strings.IndexByte("89abAB", w.at(to+3)) >= 0:
			to += 12 // the first of two
		default:
			to += 6
		}
	}
	if to >= len(w.in) {
		return false
	}
	text, err := jsontext.AppendUnquote(nil, `"`+w.in[i+1:to]+`"`)
	if err != nil {
		return false
	}
	found := w.leaf(string(text), k)
	if n := len(found); n > 0 {
		if last := found[n-1]; last.end == len(text) && last.end-last.start > headroom/2 {
			return false // it goes on
		}
		text = w.m.cover(string(text), found)
	}
	if len(text) <= w.limit {
		return false
	}
	w.n += len(found)
	w.out = append(w.out, w.in[w.copied:i]...)
	w.out, _ = jsontext.AppendQuote(w.out, text)
	w.out = w.out[:len(w.out)-1]
	w.copied, w.stopped = to, true
	return true
}

// inner masks JSON that stands in a string as Args does. Only readers of logs get it so: of those who decide nothing
// may be hidden that the args around it run.
func (w *walker) inner(text string, k kind) ([]byte, int) {
	if !w.m.forLogs() || k != notSecret || text == "" || text[0] != '{' && text[0] != '[' {
		return nil, 0
	}
	in := walker{m: w.m, in: text, limit: -1}
	if !in.run() || in.n == 0 {
		return nil, 0
	}
	return append(in.out, text[in.copied:]...), in.n
}

func (w *walker) literal(i int, word string) int {
	if strings.HasPrefix(w.in[i:], word) {
		return i + len(word)
	}
	return -1
}

func isNumberByte(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}

// str reads the string at i and returns what it says and the index after it.
func (w *walker) str(i int) (string, int) {
	if w.at(i) != '"' {
		return "", -1
	}
	plain := true
	for j := i + 1; j < len(w.in); j++ {
		switch w.in[j] {
		case '\\':
			plain = false
			j++
		case '"':
			if plain {
				return w.in[i+1 : j], j + 1
			}
			b, err := jsontext.AppendUnquote(nil, w.in[i:j+1])
			if err != nil {
				return "", -1
			}
			return string(b), j + 1
		}
	}
	return "", -1
}

// naming are the keys whose value names what stands under one of valued: lists of
// headers, of environment variables, of form fields.
var (
	naming = setOf("name key header field param k Name Key Header Field")
	valued = setOf("value val v Value Val")
)

func (w *walker) object(i int, k kind, depth int) int {
	start := i
	var named kind // by a sibling
	var taken *keyNames
	i = w.space(i + 1)
	if w.at(i) == '}' {
		return i + 1
	}
	for {
		at := i
		key, end := w.str(at)
		if end < 0 {
			return -1
		}
		if found := w.m.find(key, w); len(found) > 0 {
			if taken == nil {
				taken = w.keyNames(start)
			}
			w.replace(at, end, taken.unique(w.m.cover(key, found)))
			w.n += len(found)
		}
		if i = w.space(end); w.at(i) != ':' {
			return -1
		}
		i = w.space(i + 1)
		own := k
		if own == notSecret {
			own = w.m.kindOf(key)
		} else if NamesProgram(key) {
			own = notSecret
		}
		if own == notSecret && valued[key] {
			own = named
		}
		if own != notSecret && (k == notSecret || w.m.kindOf(key) != notSecret) && w.isReused(key, i) {
			own = notSecret
		}
		if naming[key] && w.at(i) == '"' {
			if name, end := w.str(i); end >= 0 {
				if named = w.m.kindOf(name); named != notSecret && w.isReused(name, i) {
					named = notSecret
				}
			}
		}
		if i = w.value(i, own, depth+1); i < 0 {
			return -1
		}
		switch i = w.space(i); w.at(i) {
		case '}':
			return i + 1
		case ',':
			i = w.space(i + 1)
		default:
			return -1
		}
	}
}

func (w *walker) array(i int, k kind, depth int) int {
	i = w.space(i + 1)
	if w.at(i) == ']' {
		return i + 1
	}
	var flagged kind // by a flag just before
	var words []string
	for {
		own := k
		var next kind
		if own == notSecret && w.at(i) == '"' {
			text, end := w.str(i)
			switch {
			case end < 0:
				return -1
			case strings.HasPrefix(text, "-"):
				if !strings.ContainsAny(text, "= \t\n") {
					next = w.m.kindOf(text)
				}
				if next != notSecret && w.mayRunNext(words) {
					next = notSecret
				}
			default:
				own = flagged
			}
			if len(words) < maxWords && !w.m.forLogs() {
				words = append(words, text)
			}
		}
		flagged = next
		if i = w.value(i, own, depth+1); i < 0 {
			return -1
		}
		switch i = w.space(i); w.at(i) {
		case ']':
			return i + 1
		case ',':
			i = w.space(i + 1)
		default:
			return -1
		}
	}
}

// keyNames are the keys of one object. A key that is masked must not become equal
// to another: a reader that keeps one of two would hide a member.
type keyNames struct {
	taken map[string]bool
	next  map[string]int
}

// keyNames gathers the keys of the object at i.
func (w *walker) keyNames(i int) *keyNames {
	names := &keyNames{make(map[string]bool), make(map[string]int)}
	depth := 0
	for i < len(w.in) {
		switch w.in[i] {
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth--; depth == 0 {
				return names
			}
			i++
		case '"':
			text, end := w.str(i)
			if end < 0 {
				return names
			}
			if i = w.space(end); depth == 1 && w.at(i) == ':' {
				names.taken[text] = true
			}
		default:
			i++
		}
	}
	return names
}

func (n *keyNames) unique(key []byte) []byte {
	base := string(key)
	for n.taken[string(key)] {
		n.next[base] = max(n.next[base], 1) + 1
		key = append([]byte(base), " #"+strconv.Itoa(n.next[base])...)
	}
	n.taken[string(key)] = true
	return key
}

// maxWords is how many words of a list of arguments are looked at before a flag; after more nothing is taken for
// a flag's value.
const maxWords = 256

// mayRunNext reports whether what follows a flag, with words before it in a list of arguments, may be run instead
// of being the flag's value: where the flag itself may be the argument of another one, of a program that runs
// what its arguments name.
func (w *walker) mayRunNext(words []string) bool {
	if w.m.forLogs() {
		return false
	}
	if len(words) == maxWords || len(w.dataRunners()) > 0 {
		return true
	}
	if len(words) == 0 || !isFlag(words[len(words)-1]) {
		return false
	}
	if words[0] != "" && words[0][0] == '-' {
		return true // of a program named elsewhere
	}
	for _, word := range words {
		base := programName(word)
		if _, ok := wrappers[base]; ok || shells[base] {
			return true
		}
	}
	return false
}

// isReused reports whether a string among the args, other than the one at i, runs what it is given as data and speaks
// of a variable or a key of this name: what stands under it may be run.
func (w *walker) isReused(name string, i int) bool {
	if w.m.forLogs() || name == "" || len(w.dataRunners()) == 0 {
		return false
	}
	own := ""
	if w.at(i) == '"' {
		own, _ = w.str(i)
	}
	return w.reusedBeside(name, own)
}

// reusedBeside is reused by a string that is not own.
func (w *walker) reusedBeside(name, own string) bool {
	if w.m.forLogs() || name == "" {
		return false
	}
	for _, text := range w.dataRunners() {
		if text != own && speaksOf(text, name) {
			return true
		}
	}
	return false
}

// speaksOf reports whether a name stands in text as a whole word.
func speaksOf(text, name string) bool {
	for at := 0; ; {
		n := strings.Index(text[at:], name)
		if n < 0 {
			return false
		}
		start, end := at+n, at+n+len(name)
		if (start == 0 || !isWordByte(text[start-1])) && (end == len(text) || !isWordByte(text[end])) {
			return true
		}
		at = start + 1
	}
}

func isWordByte(c byte) bool { return isAlnum(c) || c == '_' }

// dataRunners are the strings among the args that run what they are given as data.
func (w *walker) dataRunners() []string {
	if w.asked {
		return w.runners
	}
	w.asked = true
	for i := 0; i < len(w.in); {
		if w.in[i] != '"' {
			i++
			continue
		}
		text, end := w.str(i)
		if end < 0 {
			break
		}
		if c := commandsOf(text); c.anyData() {
			w.runners = append(w.runners, text)
		}
		i = end
	}
	return w.runners
}

func (m *Masker) forLogs() bool { return m != nil && m.logs }
