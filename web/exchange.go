package web

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/text/language"

	"countersign/approval"
	"countersign/locale"
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

// languageOf is what a browser asks for, of what there is.
func languageOf(r *http.Request) *locale.Language {
	wanted, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
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

// note is what the next page says first: what came of a form.
type note struct {
	ID   string   `json:"id"` // of a sentence
	Args []string `json:"args,omitempty"`
	Bad  bool     `json:"bad,omitempty"`
}

// Note has the next page that this browser gets say a sentence. It travels in a cookie of the page's own host, so that
// no link can have a page say that something was done.
func (x *exchange) Note(id string, args ...string) { x.keepNote(note{ID: id, Args: args}) }

// Refuse is [exchange.Note] of what did not happen.
func (x *exchange) Refuse(id string, args ...string) { x.keepNote(note{ID: id, Args: args, Bad: true}) }

func (x *exchange) keepNote(n note) {
	data, err := json.Marshal(n)
	if err != nil || len(data) > 2000 {
		return
	}
	http.SetCookie(x, x.cookie("note", base64.RawURLEncoding.EncodeToString(data), time.Minute))
}

// cookie makes a cookie that only this host gets back.
func (x *exchange) cookie(name, value string, keep time.Duration) *http.Cookie {
	return &http.Cookie{Name: cookieName(name, x.r), Value: value, Path: "/", MaxAge: int(keep / time.Second),
		HttpOnly: true, Secure: Secure(x.r), SameSite: http.SameSiteLaxMode}
}

func cookieName(name string, r *http.Request) string {
	if Secure(r) {
		return "__Host-countersign-" + name
	}
	return "countersign-" + name
}

// takeNote returns what is to be said first, once.
func (x *exchange) takeNote() *note {
	c, err := x.r.Cookie(cookieName("note", x.r))
	if err != nil || x.r.Method != http.MethodGet {
		return nil
	}
	gone := x.cookie("note", "", 0)
	gone.MaxAge = -1
	http.SetCookie(x, gone)
	data, err := base64.RawURLEncoding.DecodeString(c.Value)
	var n note
	if err != nil || json.Unmarshal(data, &n) != nil || n.ID == "" {
		return nil
	}
	return &n
}
