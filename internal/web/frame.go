package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign/approval"
	"countersign/approval/correlation"
	"countersign/internal/locale"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// frame is what every page starts from; it is read when the first page is made.
var frame = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("frame.html").ParseFS(templateFiles, "templates/frame.html", "templates/parts.html",
		"templates/filters.html"))
})

var (
	pagesLock sync.Mutex
	pagesRead = map[string]*template.Template{}
)

// pageTemplate is the frame around one page, read when it is first shown.
func pageTemplate(name string) *template.Template {
	pagesLock.Lock()
	defer pagesLock.Unlock()
	t := pagesRead[name]
	if t == nil {
		t = template.Must(template.Must(frame().Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
		pagesRead[name] = t
	}
	return t
}

// View is what a template gets: what is the same on every page, and the page's own Data.
type View struct {
	Title  string // said; beside the program's name
	Viewer *Viewer
	Path   string // of this page
	Note   *Note
	// Live is where the script gets the page anew to keep it current: the answer to a form comes under another address.
	// "": it is not kept current.
	Live string
	// Hear is where it hears of changes. Quiet: it says that there is news, and shows it when it is asked to.
	Hear  string
	Quiet bool
	// Every is how often a page that is live hears from the server at least.
	Every time.Duration
	Data  any

	lang    *locale.Language
	reader  locale.Reader
	keyName string
}

// Note is what came of a form.
type Note struct {
	Text string
	Bad  bool
}

// Say returns the sentence id; args are names and values in turn.
func (v *View) Say(id string, args ...string) string { return v.lang.Say(id, args...) }

// Count is Say of n things.
func (v *View) Count(id string, n int, args ...string) string { return v.lang.Count(id, n, args...) }

// Lang is the language as HTML names it.
func (v *View) Lang() string { return v.lang.Tag() }

// Time tells a time in the viewer's zone.
func (v *View) Time(t time.Time) string { return v.lang.When(t, v.reader) }

// Machine is a time for programs.
func (v *View) Machine(t time.Time) string { return approval.FormatTime(t) }

// MachineNow is when the page was made: browsers' own clocks may be wrong.
func (v *View) MachineNow() string { return approval.FormatTime(v.reader.Now) }

// Until tells when something is to be, and how far away that is.
func (v *View) Until(t time.Time) string { return v.lang.WhenAway(t, v.reader) }

// Units are the words in which the script counts down: # is where the number stands.
func (v *View) Units() string {
	words := []string{v.Say("when_away", "when", "@", "away", v.Say("in_time", "duration", "#")),
		v.Say("and_then", "first", "#", "second", "@")}
	for _, unit := range []string{"seconds", "minutes", "hours", "days"} {
		words = append(words, v.Say(unit, "n", "#"))
	}
	return strings.Join(words, "|")
}

// Asset is the address of one of our files, which changes with its content.
func (v *View) Asset(name string) string { return "/assets/" + name + "?v=" + assets()[name].digest }

// Nav is what the viewer can go to.
func (v *View) Nav() []NavLink {
	if v.Viewer == nil {
		return nil
	}
	var links []NavLink
	for _, l := range navigation {
		if v.Viewer.belongs(l.whom) {
			links = append(links, NavLink{l.path, v.Say("frame_" + l.name), v.Path == l.path})
		}
	}
	return links
}

// NavLink is one place to go to.
type NavLink struct {
	Path, Text string
	Here       bool
}

// Page writes one page: the template of this name in the frame. title is the id of a sentence.
func (x *exchange) Page(name, title string, data any) error {
	return x.page(http.StatusOK, name, x.lang.Say(title), data)
}

func (x *exchange) page(status int, name, title string, data any) error {
	v := &View{Title: title, Viewer: x.viewer, Path: x.r.URL.Path, Data: data, Every: x.s.live.check, lang: x.lang,
		reader: x.reader()}
	if l, ok := data.(interface{ LiveAt() string }); ok {
		v.Live, v.Hear = l.LiveAt(), pathLive
	} else if hear := x.news(status); hear != "" {
		v.Live, v.Hear, v.Quiet = x.r.URL.RequestURI(), hear, true
	}
	if x.viewer != nil && x.viewer.Session.Keyed {
		v.keyName, _ = x.s.SignIn.Key(x.viewer.Session.ID)
	}
	var b bytes.Buffer
	n := x.takeNote()
	if n != nil {
		v.Note = &Note{x.lang.Say(n.ID, n.Args...), n.Bad}
	}
	if err := pageTemplate(name).ExecuteTemplate(&b, "frame.html", v); err != nil {
		return fmt.Errorf("the template %s: %w", name, err)
	}
	x.Header().Set("Content-Type", "text/html; charset=utf-8")
	x.WriteHeader(status)
	_, _ = x.Write(b.Bytes()) // the browser has gone, if this fails
	return nil
}

// failure is what the page of an error shows.
type failure struct {
	Status      int
	Text        string // what happened, in the gate's words; "" where there are none
	Correlation string // of what is in the log
	Keyless     bool   // the session's key is missing: one can sign in anew
}

// showFailure answers with the page of an error.
func (x *exchange) showFailure(status int, code approval.Code, text string) {
	title := x.lang.Say("frame_error_" + string(code))
	if title == "frame_error_"+string(code) {
		title = x.lang.Say("frame_error")
	}
	f := failure{Status: status, Text: text, Keyless: code == codeKeyRequired}
	if status == http.StatusInternalServerError {
		f.Correlation = correlation.Of(x.r.Context())
	}
	if err := x.page(status, "failure", title, f); err != nil {
		http.Error(x.ResponseWriter, title, http.StatusInternalServerError)
	}
}

// asset is one of our files.
type asset struct {
	data   []byte
	digest string
	kind   string
}

// kinds are the content types of our files. The system's own table may say otherwise, so it is not asked.
var kinds = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml"}

// assets are our files by name.
var assets = sync.OnceValue(func() map[string]asset {
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // embedded, or the build is broken
	}
	all := map[string]asset{}
	for _, e := range entries {
		data, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(data)
		kind, ok := kinds[path.Ext(e.Name())]
		if !ok {
			kind = mime.TypeByExtension(path.Ext(e.Name()))
		}
		all[e.Name()] = asset{data, hex.EncodeToString(sum[:8]), kind}
	}
	return all
})

// sendAsset answers with one of our files. Its address names its content, so that a browser may keep it.
func sendAsset(_ context.Context, x *exchange) error {
	a, ok := assets()[x.r.PathValue("name")]
	if !ok {
		return approval.ErrNotFound
	}
	if x.r.URL.Query().Get("v") == a.digest {
		x.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	x.Header().Set("Content-Type", a.kind)
	_, _ = x.Write(a.data)
	return nil
}

// destination is a place in the navigation; what it is called is frame_ and its name.
type destination struct {
	path, name string
	whom       audience
}

// table lists every route.
func (s *Server) table() []route {
	requests := &requestPages{gate: s.Gate, passkeys: s.Passkeys, base: s.Base, describer: s.Describer,
		explainer: s.Explainer, pushes: s.Pushes, nameOf: s.NameOf, room: s.Room, granted: s.Granted, freezes: s.Freezes}
	return slices.Concat([]route{
		{method: http.MethodGet, path: "/assets/{name}", audience: everyone, handle: sendAsset},
	},
		(&inboxPages{s.Gate, s.Directory}).routes(), s.live.routes(),
		requests.routes(), requests.stepUpRoutes(),
		(&signInPages{s.SignIn, s.OpenID}).routes(),
		(&openIDPages{openID: s.OpenID, signIn: s.SignIn, base: s.Base, logger: s.Logger}).routes(),
		(&passkeyPages{s.Passkeys, s.SignIn, s.Base}).routes(),
		(&grantPages{s.Gate, s.Directory}).routes(),
		(&peoplePages{s.Gate, s.Directory, s.Roster, s.Freezes}).routes(),
		(&statsPages{s.Directory, s.Masker, s.NameOf, s.record}).routes(),
		(&policyPages{s.Gate, s.Directory, s.Masker, s.record}).routes(),
		(&statusPages{s.Status}).routes(),
		(&recordPages{s.Gate, s.Directory, s.Notifications, s.exports}).routes())
}

// navigation lists what the menu leads to, in its order.
var navigation = []destination{
	{"/", "inbox", people},
	{"/grants", "grants", approvers},
	{"/people", "people", approvers},
	{"/stats", "stats", approvers},
	{"/policy", "policy", approvers},
	{"/status", "status", approvers},
	{pathHistory, "history", approvers},
	{pathAudit, "audit", admins},
	{pathNotifications, "notifications", admins},
	{pathSessions, "sessions", people},
	{pathPasskeys, "passkeys", people},
}

// riskIcon is the sign beside a risk's word: colour alone says nothing to some.
func riskIcon(r approval.Risk) string {
	return map[approval.Risk]string{approval.RiskLow: "●", approval.RiskMedium: "▲", approval.RiskHigh: "◆",
		approval.RiskCritical: "⬣"}[r]
}

// Risk tells a risk: the class of its colour, its sign and its word.
func (v *View) Risk(r approval.Risk) RiskMark {
	return RiskMark{"risk-" + string(r), riskIcon(r), v.Say("risk_" + strings.ToLower(string(r)))}
}

// RiskMark is how a risk is shown.
type RiskMark struct{ Class, Icon, Word string }
