package web

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/text/language"

	"countersign/approval"
	"countersign/approval/redact"
	"countersign/channels"
	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
)

// Viewer is who looks at a page, with what they may do now.
type Viewer struct {
	approval.Actor
	Session Session
}

// belongs reports whether a page for some is for this viewer, nil being nobody.
func (v *Viewer) belongs(whom audience) bool {
	switch {
	case whom == everyone:
		return true
	case v == nil:
		return false
	case whom == people:
		return true
	case whom == approvers:
		return v.Approver || v.Admin
	}
	return v.Admin
}

// exchange is one request and its answer.
type exchange struct {
	http.ResponseWriter
	s      *Server
	r      *http.Request
	viewer *Viewer // nil: nobody is signed in
	lang   *locale.Language
	form   url.Values // of a POST: what a page has sent, for whoever is signed in now
	since  int64      // the newest event before the answer was begun
	now    time.Time  // when it was begun
}

// said says a phrase in the reader's language, or a text as it is where there is no phrase.
func (x *exchange) said(s phrases.Said, text string) string {
	if s.Phrase == "" {
		return text
	}
	return s.In(func(p phrases.Phrase, args ...any) string {
		values := make([]string, len(args))
		for i, v := range args {
			values[i] = fmt.Sprint(v)
		}
		return x.lang.Say(string(p), values...)
	})
}

// maxForm is how much a form may hold: arguments that are edited are up to 1 MiB, and are escaped. Nobody who is not
// signed in has more to say than a passkey's answer.
const (
	maxForm          = 4 << 20
	maxStrangersForm = 256 << 10
)

var errForm = approval.Errorf(approval.CodeInvalidParameter,
	"The form could not be read. Go back, reload the page and try again.")

// Form is what a page has sent.
func (x *exchange) Form() (url.Values, error) {
	if x.form == nil {
		return nil, errForm
	}
	return x.form, nil
}

// readForm reads what a page has sent. It counts only if the page was made for whoever is signed in: they may have
// signed in in another tab, after somebody else had looked at this one.
func (x *exchange) readForm() error {
	form, err := x.parseForm()
	if err != nil {
		return err
	}
	if x.viewer != nil && form.Get("viewer") != x.viewer.Name {
		return errViewer
	}
	x.form = form
	return nil
}

func (x *exchange) parseForm() (url.Values, error) {
	kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, errForm
	}
	most := int64(maxForm)
	if x.viewer == nil {
		most = maxStrangersForm
	}
	x.r.Body = http.MaxBytesReader(x.ResponseWriter, x.r.Body, most)
	if err := x.r.ParseForm(); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return nil, approval.Errorf(approval.CodeInvalidParameter,
				"The form is longer than %d KiB, the most that is taken.", most>>10)
		}
		return nil, errForm
	}
	return x.r.PostForm, nil
}

// Redirect has the browser get another page of ours.
func (x *exchange) Redirect(to string) {
	x.Header().Set("Location", localPath(to))
	x.WriteHeader(http.StatusSeeOther)
}

// localPath returns a path of this server, the inbox for anything else: what browsers take for another host, with two
// slashes, a backslash or a control character, is none.
func localPath(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || len(to) > 2048 ||
		strings.ContainsFunc(to, func(c rune) bool { return c <= ' ' || c == '\\' || c >= 0x7f }) {
		return "/"
	}
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || strings.HasPrefix(u.Path, "//") {
		return "/"
	}
	return to
}

// maxLanguages is how long a wish for languages may be that is read. No browser's is a tenth of it, and what reading
// costs grows with it, whoever sends it.
const maxLanguages = 1 << 10

// languageOf is what a browser asks for, of what there is.
func languageOf(r *http.Request) *locale.Language {
	asked := r.Header.Get("Accept-Language")
	if len(asked) > maxLanguages {
		return locale.Get(locale.Default)
	}
	wanted, _, err := language.ParseAcceptLanguage(asked)
	if err != nil {
		return locale.Get(locale.Default)
	}
	_, i, c := known.Match(wanted...)
	if c == language.No {
		return locale.Get(locale.Default)
	}
	return locale.Get(locale.Tags()[i])
}

var known = func() language.Matcher {
	var tags []language.Tag
	for _, t := range locale.Tags() {
		tags = append(tags, language.MustParse(t))
	}
	return language.NewMatcher(tags)
}()

// reader is how whoever looks on reads times.
func (x *exchange) reader() locale.Reader {
	r := locale.Reader{Now: x.now}
	if x.viewer != nil {
		r.Zone = x.viewer.Zone
		r.Abroad = r.Zone == time.Local // of this machine: nobody has said that they are in it
	}
	return r
}

// time tells a time to the viewer of a page, and away how far away it is too.
func (x *exchange) time(t time.Time) string { return x.lang.When(t, x.reader()) }
func (x *exchange) away(t time.Time) string { return x.lang.WhenAway(t, x.reader()) }

// maker says on pages what cards say in chats, to the viewer.
func (x *exchange) maker() channels.Maker {
	return channels.Maker{Masker: x.s.Masker(), Zone: x.viewer.Zone, Words: x.lang, Now: x.now}
}

// masker masks as configured and writes its marks in the viewer's language.
func (x *exchange) masker() *redact.Masker { return channels.MaskerIn(x.s.Masker(), x.lang) }

// risk is [View.Risk] for what is made before the page.
func (x *exchange) risk(r approval.Risk) RiskMark { return (&View{lang: x.lang}).Risk(r) }

// logUntold logs that admins could not be told of what holds all the same.
func (x *exchange) logUntold(ctx context.Context, err error) {
	if err != nil {
		x.s.Logger.ErrorContext(ctx, "admins could not be told of a freeze or of its end", "error", err)
	}
}

// note is what the next page says first: what came of a form.
type note struct {
	ID   string   `json:"id"` // of a sentence
	Args []string `json:"args,omitempty"`
	Bad  bool     `json:"bad,omitempty"`
}

// Note has the next page that this browser gets say a sentence. It travels in a sealed cookie, so that neither a link
// nor another server on this machine can have a page say that something was done.
func (x *exchange) Note(id string, args ...string) { x.keepNote(note{ID: id, Args: args}) }

// Refuse is [exchange.Note] of what did not happen.
func (x *exchange) Refuse(id string, args ...string) { x.keepNote(note{ID: id, Args: args, Bad: true}) }

func (x *exchange) keepNote(n note) {
	data, err := json.Marshal(n)
	if err != nil || len(data) > 2000 {
		return
	}
	http.SetCookie(x, x.cookie("note", x.s.notes.close(data, x.now), noteKept))
}

// noteKept is how long a note waits for the next page.
const noteKept = time.Minute

// cookie makes a cookie that only this host gets back.
func (x *exchange) cookie(name, value string, keep time.Duration) *http.Cookie {
	_, secure := x.readHost()
	return &http.Cookie{Name: cookieName(name, secure), Value: value, Path: "/", MaxAge: int(keep / time.Second),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode}
}

func cookieName(name string, secure bool) string { //nolint:revive // flag-parameter: it is how the browser came
	if secure {
		return "__Host-countersign-" + name
	}
	return "countersign-" + name
}

// take returns what a cookie of a name holds, "" for none, and has the browser forget it. Of several of one name one is
// somebody else's.
func (x *exchange) take(name string) string {
	value := ""
	for _, secure := range []bool{false, true} {
		if !secure && !mayBePlain(x.r) {
			continue
		}
		found := x.r.CookiesNamed(cookieName(name, secure))
		if len(found) == 0 {
			continue
		}
		if value = ""; len(found) == 1 {
			value = found[0].Value
		}
		http.SetCookie(x, &http.Cookie{Name: found[0].Name, Path: "/", MaxAge: -1, HttpOnly: true, Secure: secure,
			SameSite: http.SameSiteLaxMode})
	}
	return value
}

// takeNote returns what is to be said first, once.
func (x *exchange) takeNote() *note {
	if x.r.Method != http.MethodGet {
		return nil
	}
	data, ok := x.s.notes.open(x.take("note"), x.now)
	var n note
	if !ok || json.Unmarshal(data, &n) != nil || n.ID == "" {
		return nil
	}
	return &n
}

// seal shows that we made a note, and when.
type seal [sha256.Size]byte

func newSeal() (s seal) {
	_, _ = rand.Read(s[:]) // never fails: the program ends if there is no randomness
	return s
}

func (s seal) sum(data []byte) []byte {
	h := hmac.New(sha256.New, s[:])
	h.Write(data)
	return h.Sum(nil)
}

// close returns data as a cookie holds it.
func (s seal) close(data []byte, now time.Time) string {
	data = append(binary.BigEndian.AppendUint64(nil, uint64(now.Unix())), data...) //nolint:gosec // G115: after 1970
	return base64.RawURLEncoding.EncodeToString(append(s.sum(data), data...))
}

// open returns what close was given, while a note is kept.
func (s seal) open(cookie string, now time.Time) ([]byte, bool) {
	data, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(data) < len(s)+8 || !hmac.Equal(data[:len(s)], s.sum(data[len(s):])) {
		return nil, false
	}
	made := time.Unix(int64(binary.BigEndian.Uint64(data[len(s):])), 0) //nolint:gosec // G115: we wrote it
	return data[len(s)+8:], now.Sub(made) <= noteKept
}
