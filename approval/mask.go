package approval

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Masker finds secrets in what people and logs are shown and puts in place of
// each one "•••• (16 characters, sha256 1a2b3c4d)": its length and the first
// eight hex digits of the SHA-256 of all of it, by which two are told apart. It
// only ever changes copies; what is hashed and run stays as it is.
//
// A value is a secret by the name it stands under, or by its shape: bearer and
// basic credentials, passwords in URLs, JSON Web Tokens, private keys, and the
// tokens of well-known services. A string with white space or over 200 characters
// is none by its name alone, for else a command could be hidden under a name;
// secrets in it are still found by their shapes. The prefix of a hash tells a
// short secret, such as a PIN, to whoever tries all of them.
//
// A nil Masker knows the usual names. A Masker is safe for concurrent use.
type Masker struct {
	names names
	keep  map[string]bool // whole names that stand for no secret
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
			"password", "passwords", "passwd", "passcode", "passphrase", "passphrases", "pwd", "pass word", "pass phrase", "pass code",
			"secret", "secrets", "credential", "credentials", "creds",
			"token", "access tokens", "auth tokens", "api tokens", "bearer tokens", "refresh tokens", "session tokens", "secret tokens",
			"jwt", "bearer", "otp", "totp", "cvv", "cvc",
			"apikey", "apikeys", "api key", "api keys", "accesskey", "access key", "access keys", "privatekey", "private key", "private keys",
			"secretkey", "authkey", "auth key", "encryption key", "signing key", "master key", "ssh key", "session key", "account key",
			"deploy key", "shared key", "hmac key", "service key", "license key", "subscription key",
			"db pass", "user pass", "smtp pass", "mail pass", "email pass", "ftp pass", "ssh pass", "admin pass", "root pass", "login pass",
			"proxy pass", "mysql pass", "postgres pass", "redis pass", "mongo pass", "sudo pass",
			"authorization code",
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
var endings = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "secretkey", "accesskey", "privatekey", "credentials"}

// harmless are last words of names that speak about a secret without holding it:
// token_count, password_policy, secretName. People must see such values.
var harmless = setOf(`count counts limit limits budget usage used total max min type types name names id ids length len size
	url uri urls endpoint path paths file files filename dir ttl expiry expires expiration expired lifetime age at by policy policies
	field fields hint required enabled disabled manager store provider version format status strength rotation index offset position
	ref arn scope scopes audience issuer kind mode method algorithm alg symbol address standard supply decimals price amount balance
	holder banner consent domain description label title comment owner region vault engine rate window ratio cost`)

// amounts are first words that make a "token" a unit: max_token.
var amounts = setOf("max min num n count total")

func setOf(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// NewMasker returns a Masker that takes values under extraKeys for secrets too.
// A key is matched as the usual ones are: "account number" also stands for
// accountNumber and for old_account_number.
func NewMasker(extraKeys ...string) *Masker {
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
		kept.names = m.names
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
	last := n.count - 1
	for last > 0 && typeOf(n.word(last)[0]) == digit {
		last--
	}
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
			if k != notSecret && !unit && !n.harmless(last, to) {
				return k
			}
		}
	}
	return notSecret
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
func appendMark(dst []byte, text string) []byte {
	sum := sha256.Sum256([]byte(text))
	dst = append(dst, marks...)
	dst = append(dst, " ("...)
	dst = append(dst, countCharacters(utf8.RuneCountInString(text))...)
	dst = append(dst, ", sha256 "...)
	dst = hex.AppendEncode(dst, sum[:4])
	return append(dst, ')')
}

const marks = "••••"

// cover returns s with its secrets covered.
func cover(s string, secrets []span) []byte {
	out := make([]byte, 0, len(s)+48*len(secrets))
	at := 0
	for _, f := range secrets {
		out = append(out, s[at:f.start]...)
		out = appendMark(out, s[f.start:f.end])
		at = f.end
	}
	return append(out, s[at:]...)
}

// Text returns s with the secrets in it masked, and their number. Besides shapes
// it knows values after a secret's name: password=…, "token": "…", --api-key …,
// Authorization: Bearer …, Cookie: …. A value that is a reference to a shell
// variable in capitals ($TOKEN) is not one. Marks already in s stay as they are.
func (m *Masker) Text(s string) (string, int) {
	found := m.find(s)
	if len(found) == 0 {
		return s, 0
	}
	return string(cover(s, found)), len(found)
}

// Args returns canonical JSON with its secrets replaced by strings, and their
// number. Under a secret's name strings and numbers are masked, also those deeper
// inside; true, false, null and "" are not. {"name":"Authorization","value":"…"}
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
	case ok:
		text = string(append(w.out, w.in[w.copied:]...))
	default:
		masked, _ := m.Args(canonical)
		text = string(masked)
	}
	if len(text)+len(rest) <= maxBytes {
		return text
	}
	unseen := utf8.RuneCountInString(rest)
	most := maxBytes - len(missing(unseen+utf8.RuneCountInString(text)))
	if most < 0 {
		return ""
	}
	cut := runeStart(text, most)
	return text[:cut] + missing(unseen+utf8.RuneCountInString(text[cut:]))
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
		var text string
		if text, end = w.str(i); end < 0 {
			return -1
		}
		if found := w.m.leaf(text, k); len(found) > 0 {
			w.replace(i, end, cover(text, found))
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
			w.replace(i, end, appendMark(nil, w.in[i:end]))
			w.n++
		}
	}
	if end >= 0 && w.stop(end) {
		return -1
	}
	return end
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
		if found := w.m.find(key); len(found) > 0 {
			if taken == nil {
				taken = w.keyNames(start)
			}
			w.replace(at, end, taken.unique(cover(key, found)))
			w.n += len(found)
		}
		if i = w.space(end); w.at(i) != ':' {
			return -1
		}
		i = w.space(i + 1)
		own := k
		if own == notSecret {
			own = w.m.kindOf(key)
		}
		if own == notSecret && valued[key] {
			own = named
		}
		if naming[key] && w.at(i) == '"' {
			if name, end := w.str(i); end >= 0 {
				named = w.m.kindOf(name)
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
			default:
				own = flagged
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

// leaf finds the secrets in a string under a name of kind k.
func (m *Masker) leaf(text string, k kind) []span {
	if k == notSecret {
		return m.find(text)
	}
	if wholeSecret(text) {
		return []span{{0, len(text)}}
	}
	return union(credentials(text, 0, k), m.find(text))
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
func credentials(text string, base int, k kind) []span {
	switch k {
	case authorization:
		scheme, rest, ok := strings.Cut(strings.TrimRight(text, " \t\r\n"), " ")
		value := strings.TrimLeft(rest, " \t")
		if !ok || !schemes[strings.ToLower(scheme)] || !wholeSecret(value) || isVariable(value) {
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
				if value := text[start:i]; !attribute && wholeSecret(value) {
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

// find returns the secrets in free text, in order and apart from each other. It
// takes time linear in the text's length.
func (m *Masker) find(s string) []span {
	var found []span
	var failed failures
	for i := 0; i < len(s); {
		if triggers[s[i]] == quiet {
			i++
			continue
		}
		next := i + 1
		var f span
		var named []span
		switch triggers[s[i]] {
		case letter:
			f = shapeAt(s, i, &failed)
		case dash:
			if f = privateKey(s, i); f.end == 0 {
				named = m.flag(s, i)
			}
		case assign:
			if s[i] == ':' && strings.HasPrefix(s[i:], "://") {
				if f := urlPassword(s, i); f.end > 0 {
					named = []span{f}
				}
				next = i + len("://")
			} else if f = botToken(s, i); f.end == 0 {
				named, next = m.assignment(s, i)
			}
		}
		if f.end > 0 {
			found = appendSpan(found, f)
			next = max(next, f.end)
		}
		for at := i + 1; len(named) > 0; named = named[1:] {
			f := named[0]
			for _, g := range m.find(s[at:f.start]) { // in a user's or a cookie's name
				found = appendSpan(found, span{at + g.start, at + g.end})
			}
			found = appendSpan(found, f)
			at, next = f.end, f.end
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
func shapeAt(s string, i int, failed *failures) span {
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
		return scheme(s, i)
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
func scheme(s string, i int) span {
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
	if end-start < 6 || words {
		return span{}
	}
	if after == i+len(basic) {
		pair, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s[start:end], "="))
		if err != nil || !slices.Contains(pair, ':') {
			return span{}
		}
	}
	return span{start, end}
}

// slackHook finds the secret path of a Slack webhook address.
func slackHook(s string, i int) span {
	rest, ok := strings.CutPrefix(s[i:], "hooks.slack.com/")
	if !ok {
		return span{}
	}
	start := len(s) - len(rest)
	end := start
	for end < len(s) && (isNameByte(s[end]) || s[end] == '/') {
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
func privateKey(s string, i int) span {
	rest, ok := strings.CutPrefix(s[i:], "-----BEGIN ")
	if !ok {
		return span{}
	}
	label, _, ok := strings.Cut(rest[:min(len(rest), 64)], "-----")
	if !ok || !strings.Contains(label, "PRIVATE KEY") {
		return span{}
	}
	end := i + len("-----BEGIN ") + len(label) + len("-----")
	long, short := false, false
	for at := end; at < len(s); {
		switch {
		case isSpace(s[at]):
			at++
			continue
		case s[at] == '\\' && at+1 < len(s) && (s[at+1] == 'n' || s[at+1] == 'r'):
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
		start := at
		for at < len(s) && (isAlnum(s[at]) || s[at] == '+' || s[at] == '/' || s[at] == '=') {
			at++
		}
		ended := strings.HasPrefix(strings.TrimLeft(s[at:min(len(s), at+16)], " \r\n\t\\nr"), "-----")
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
func urlPassword(s string, i int) span {
	if i == 0 || !isAlnum(s[i-1]) {
		return span{}
	}
	start := i + len("://")
	end := start
	for end < len(s) && s[end] != '/' && s[end] != '?' && s[end] != '#' && !endsURL(s[end]) {
		end++
	}
	colon := strings.IndexByte(s[start:end], ':')
	if colon < 0 || s[start] == '[' {
		return span{}
	}
	password := start + colon + 1
	at := strings.LastIndexByte(s[password:end], '@')
	if at < 0 {
		// Not a port after all: a password with a / ? or # in it.
		if _, err := strconv.ParseUint(s[password:end], 10, 16); err == nil || end == len(s) || endsURL(s[end]) {
			return span{}
		}
		for end < len(s) && end-start < maxUserInfo && !endsURL(s[end]) {
			end++
		}
		if at = strings.LastIndexByte(s[password:end], '@'); at < 0 {
			return span{}
		}
	}
	if at == 0 || isVariable(s[password:password+at]) || strings.HasPrefix(s[password:], marks) {
		return span{}
	}
	return span{password, password + at}
}

func endsURL(c byte) bool {
	return isSpace(c) || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' || c == '\\' || c < ' '
}

// flag finds the value of --name value or -name value, whose first dash is at i.
func (m *Masker) flag(s string, i int) []span {
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
	if value == end || value >= len(s) || s[value] == '-' || m.kindOf(s[name:end]) == notSecret {
		return nil
	}
	start, stop := valueAt(s, value)
	if !namedSecret(s[start:stop]) {
		return nil
	}
	return []span{{start, stop}}
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// assignment finds the secrets in the value assigned by the = or : at i, and
// returns also where to go on if there are none.
func (m *Masker) assignment(s string, i int) ([]span, int) {
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
	k := m.kindOf(s[name:end])
	if k == notSecret {
		return nil, after
	}
	value := after
	for value < len(s) && value-after < 8 && (s[value] == ' ' || s[value] == '\t') {
		value++
	}
	start, stop := valueAt(s, value)
	if k != secret {
		// A header's value is more than a word: it goes on to the end of the
		// line or to the quote around it.
		line := stop
		if start == value {
			for line < len(s) && line-start < maxHeader && s[line] != '\n' && s[line] != '\r' && !isQuote(s[line]) {
				line++
			}
		}
		if f := scheme(s, start); k == authorization && f.end > 0 {
			return []span{f}, after
		} else if k == authorization {
			scheme, rest, _ := strings.Cut(s[start:line], " ")
			if schemes[strings.ToLower(scheme)] && rest != "" {
				from := start + len(scheme)
				for from < line && (s[from] == ' ' || s[from] == '\t') {
					from++
				}
				end := line
				if start == value {
					_, end = valueAt(s, from)
				}
				if namedSecret(s[from:end]) {
					return []span{{from, end}}, after
				}
				return nil, after
			}
		} else if strings.Contains(s[start:line], "=") {
			if found := credentials(s[start:line], start, k); len(found) > 0 {
				return found, after
			}
		}
	}
	if namedSecret(s[start:stop]) {
		return []span{{start, stop}}, after
	}
	return nil, after
}

// namedSecret reports whether a value in free text is taken for a secret because
// of its name.
func namedSecret(text string) bool {
	if !wholeSecret(text) || isVariable(text) || text[0] == '{' || text[0] == '[' {
		return false
	}
	switch strings.ToLower(text) {
	case "true", "false", "null", "nil", "none", "undefined":
		return false
	}
	return true
}

// valueLimit returns how far a value that begins at i is looked for: no longer one
// is masked by its name.
func valueLimit(s string, i int) int {
	for range maxNamed + 8 {
		if i >= len(s) {
			break
		}
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		i += n
	}
	return i
}

// valueAt returns the bounds of the value that begins at i in free text: what is
// between quotes, or else a word as a shell or a list would end it.
func valueAt(s string, i int) (start, end int) {
	limit := valueLimit(s, i)
	start = i
	for start < limit && s[start] == '\\' {
		start++
	}
	if start < limit && isQuote(s[start]) {
		slashes, quote := start-i, s[start]
		start++
		for end = start; end < limit; end++ {
			if s[end] == quote && slashesBefore(s[start:end]) == slashes {
				return start, end - slashes
			}
		}
	} else {
		start = i
	}
	for end = start; end < limit; end++ {
		c := s[end]
		var next byte // a space at the end
		if next = ' '; end+1 < len(s) {
			next = s[end+1]
		}
		switch c {
		case '"', '\'', '`', '&', ';', '|', '<', '>':
			return start, end
		case '\\':
			if next == 'n' || next == 'r' || next == 't' || isQuote(next) {
				return start, end
			}
		case '$':
			if next == '(' {
				return start, end
			}
		case ',':
			if isSpace(next) || isQuote(next) || namesNext(s[end+1:]) {
				return start, end
			}
		case ')', ']', '}':
			if isSpace(next) || isQuote(next) || strings.IndexByte(")]},.;:&|", next) >= 0 {
				// ${NAME} is whole with its brace.
				if c == '}' && isVariable(s[start:end+1]) {
					return start, end + 1
				}
				return start, end
			}
		default:
			if isSpace(c) {
				return start, end
			}
		}
	}
	return start, end
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
