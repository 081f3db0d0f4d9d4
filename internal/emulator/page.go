package emulator

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load nothing but its own two files and talk to nobody but its own server.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	pageMessages = 200 // messages of one conversation that the page shows
	pageBody     = 1 << 20
	// pagePause gathers changes that come in a burst into one event.
	pagePause     = 30 * time.Millisecond
	pageHeartbeat = 15 * time.Second
)

// Page draws both chats, and what is shown beside them.
type Page struct {
	e *Emulator

	// Guarded by the Emulator's lock.
	logs     map[string][]logLine
	panels   []Panel
	tables   []pageTable
	notice   string
	news     pageNews
	language string // of the Config's Languages: the one in force
}

func newPage(e *Emulator) *Page {
	pg := &Page{e: e, logs: map[string][]logLine{}, panels: append([]Panel(nil), e.cfg.Panels...)}
	if len(e.cfg.Languages) > 0 {
		pg.language = e.cfg.Languages[0].Tag
	}
	return pg
}

// pageKinds are the content types of the page's files. The system's own table may say otherwise, so it is not asked.
var pageKinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
}

func (pg *Page) routes(mux *http.ServeMux) {
	file := func(name string) http.HandlerFunc {
		data, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic(err) // embedded, or the build is broken
		}
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", pageKinds[path.Ext(name)])
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write(data)
		}
	}
	mux.Handle("GET /{$}", pg.guard(file("index.html")))
	files, err := pageFiles.ReadDir("page")
	if err != nil {
		panic(err) // embedded, or the build is broken
	}
	for _, f := range files {
		mux.Handle("GET /page/"+f.Name(), pg.guard(file(f.Name())))
	}
	mux.Handle("GET /page/state", pg.guard(pg.state))
	mux.Handle("GET /page/events", pg.guard(pg.events))
	mux.Handle("POST /page/act", pg.guard(pg.act))
	mux.Handle("GET /page/inbox", pg.guard(pg.inbox))
}

// guard keeps other web pages out: they could otherwise tap in the name of whoever opened them. It refuses requests
// that a browser marks as coming from elsewhere, and host names that are not ours.
func (pg *Page) guard(next http.HandlerFunc) http.Handler {
	origin := http.NewCrossOriginProtection()
	return origin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !pg.ownHost(r.Host) {
			http.Error(w, "unknown host", http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next(w, r)
	}))
}

// ownHost reports whether the page may be opened under this Host header. A foreign name that was made to resolve to
// this machine (DNS rebinding) is none of ours.
func (pg *Page) ownHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if net.ParseIP(host) != nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	for _, h := range pg.e.cfg.Hosts {
		if strings.EqualFold(h, host) {
			return true
		}
	}
	base, err := url.Parse(pg.e.URL())
	return err == nil && base.Hostname() != "" && strings.EqualFold(base.Hostname(), host)
}

// pageView is what one person sees.
type pageView struct {
	Person string       `json:"person"`
	People []pagePerson `json:"people"`
	LINE   pageLINE     `json:"line"`
	Slack  pageSlack    `json:"slack"`
	Panels []pagePanel  `json:"panels"`
	Tables []pageTable  `json:"tables"`
	Notice string       `json:"notice,omitempty"`
	News   pageNews     `json:"news"`
	Inbox  bool         `json:"inbox"` // the person can decide in the browser too

	Languages []Language `json:"languages,omitempty"`
	Language  string     `json:"language,omitempty"` // the one in force
}

type pagePerson struct {
	Name     string `json:"name"`
	Stranger bool   `json:"stranger"`
}

type pageLINE struct {
	On       bool              `json:"on"`
	Bot      string            `json:"bot"`
	Blocked  bool              `json:"blocked"`
	Loading  bool              `json:"loading"`
	Messages []pageLINEMessage `json:"messages"`
}

type pageLINEMessage struct {
	Key     string          `json:"key"`
	ID      string          `json:"id"`
	At      time.Time       `json:"at"`
	FromBot bool            `json:"from_bot"`
	Via     string          `json:"via"`
	Text    string          `json:"text"`
	Quoted  string          `json:"quoted,omitempty"` // the quoted message's text
	Quick   bool            `json:"quick,omitempty"`  // quick replies are still there
	Message json.RawMessage `json:"message"`
}

type pageSlack struct {
	On            bool               `json:"on"`
	Team          string             `json:"team"`
	Bot           string             `json:"bot"`
	Names         map[string]string  `json:"names"`
	Conversations []pageConversation `json:"conversations"`
	View          Object             `json:"view"` // the modal on top
	HasHome       bool               `json:"has_home"`
	Home          Object             `json:"home"` // nil: not published
}

type pageConversation struct {
	ID       string             `json:"id"`
	Name     string             `json:"name"`
	IM       bool               `json:"im"`
	Messages []pageSlackMessage `json:"messages"`
}

type pageSlackMessage struct {
	Key       string    `json:"key"`
	TS        string    `json:"ts"`
	At        time.Time `json:"at"`
	Name      string    `json:"name"`
	FromBot   bool      `json:"from_bot"`
	Ephemeral bool      `json:"ephemeral,omitempty"`
	Thread    string    `json:"thread,omitempty"` // the ts of the message that it answers
	Edits     int       `json:"edits,omitempty"`
	Text      string    `json:"text"`
	Blocks    []any     `json:"blocks,omitempty"`
}

type pagePanel struct {
	Title  string    `json:"title"`
	Stream string    `json:"stream"`
	URL    string    `json:"url"`
	Lines  []logLine `json:"lines"`
}

// view gathers what a person sees; an unknown name is the first person.
func (pg *Page) view(name string) pageView {
	p, err := pg.e.person(name)
	if err != nil {
		p = pg.e.people[0]
	}
	pg.e.mu.Lock()
	defer pg.e.mu.Unlock()
	v := pageView{Person: p.Name, Tables: append([]pageTable{}, pg.tables...), Notice: pg.notice,
		News: pg.news, Inbox: pg.e.cfg.Inbox != nil && !p.Stranger, Languages: pg.e.cfg.Languages, Language: pg.language}
	for _, other := range pg.e.people {
		v.People = append(v.People, pagePerson{other.Name, other.Stranger})
	}
	v.LINE = pg.line(p)
	v.Slack = pg.slack(p)
	for _, panel := range pg.panels {
		v.Panels = append(v.Panels, pagePanel{
			Title: panel.Title, Stream: panel.Stream, URL: panel.URL, Lines: append([]logLine{}, pg.logs[panel.Stream]...),
		})
	}
	return v
}

func (pg *Page) line(p Person) pageLINE {
	v := pageLINE{
		On: p.LINE != "", Bot: pg.e.LINE.cfg.BotName, Blocked: pg.e.LINE.blocked[p.LINE],
		Loading: pg.e.now().Before(pg.e.LINE.loading[p.LINE]), Messages: []pageLINEMessage{},
	}
	chat := pg.e.LINE.chats[p.LINE]
	for i, m := range chat {
		if len(chat)-i > pageMessages {
			continue
		}
		shown := pageLINEMessage{Key: m.ID, ID: m.ID, At: m.At, FromBot: m.FromBot, Via: m.Via, Text: m.Text, Message: m.JSON}
		if m.Quoted != "" {
			shown.Quoted = "…"
			for _, q := range chat {
				if q.ID == m.Quoted {
					shown.Quoted = q.Text
				}
			}
		}
		shown.Quick = len(m.QuickReplies) > 0
		v.Messages = append(v.Messages, shown)
	}
	return v
}

func (pg *Page) slack(p Person) pageSlack {
	slack, cfg := pg.e.Slack, pg.e.Slack.cfg
	v := pageSlack{On: p.Slack != "", HasHome: !cfg.HomeOff, Team: cfg.TeamName, Bot: cfg.BotName,
		Names: map[string]string{cfg.BotUserID: cfg.BotName}, Conversations: []pageConversation{}}
	for _, other := range pg.e.people {
		v.Names[other.Slack] = other.Name
	}
	for _, ch := range slack.channels {
		if p.Slack == "" || !slices.Contains(ch.members, p.Slack) {
			continue
		}
		shown := pageConversation{ID: ch.ID, Name: ch.Name, IM: ch.im != "", Messages: []pageSlackMessage{}}
		all := slack.messages[ch.ID]
		for _, m := range all[max(0, len(all)-pageMessages):] {
			if m.Deleted || m.Ephemeral != "" && m.Ephemeral != p.Slack {
				continue
			}
			shown.Messages = append(shown.Messages, pageSlackMessage{
				Key: m.TS, TS: m.TS, At: m.At, Name: v.Names[m.User], FromBot: m.FromBot, Ephemeral: m.Ephemeral != "",
				Thread: m.ThreadTS, Edits: len(m.Edits),
				Text: m.Text, Blocks: m.shown,
			})
		}
		v.Conversations = append(v.Conversations, shown)
	}
	if stack := slack.Views.stack(p.Slack); len(stack) > 0 && p.Slack != "" {
		v.View = slack.Views.json(stack[len(stack)-1], nil)
	}
	if home := slack.Views.homes[p.Slack]; home != nil {
		v.Home = slack.Views.json(home, nil)
	}
	return v
}

func (pg *Page) state(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(mustJSON(pg.view(r.URL.Query().Get("person"))))
}

// inbox leads a person to where they decide in the browser.
func (pg *Page) inbox(w http.ResponseWriter, r *http.Request) {
	who := r.URL.Query().Get("person")
	if pg.e.cfg.Inbox == nil || !pg.hasInbox(who) {
		http.NotFound(w, r)
		return
	}
	to, err := pg.e.cfg.Inbox(r.Context(), who)
	if err != nil {
		http.Error(w, "The gate does not answer: "+err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// hasInbox reports whether somebody is on the page who decides.
func (pg *Page) hasInbox(person string) bool {
	return slices.ContainsFunc(pg.e.cfg.People, func(p Person) bool { return p.Name == person && !p.Stranger })
}

// events streams what a person sees, anew after every change.
func (pg *Page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flush := http.NewResponseController(w)
	beat := time.NewTicker(pageHeartbeat)
	defer beat.Stop()
	last := ""
	for {
		changed := pg.e.change()
		if next := string(mustJSON(pg.view(r.URL.Query().Get("person")))); next != last {
			last = next
			if _, err := fmt.Fprintf(w, "event: state\ndata: %s\n\n", next); err != nil {
				return
			}
			if flush.Flush() != nil {
				return
			}
		}
		pg.e.sleep(pagePause)
		select {
		case <-changed:
		case <-beat.C: // also lets what only time ends, such as the loading dots, go away
			if _, err := io.WriteString(w, ": still here\n\n"); err != nil || flush.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-pg.e.done:
			return
		}
	}
}

// pageAction is what a visitor does on the page.
type pageAction struct {
	Person  string                       `json:"person"`
	Kind    string                       `json:"kind"`
	Message string                       `json:"message"`
	Path    []any                        `json:"path"`
	Text    string                       `json:"text"`
	Quoted  string                       `json:"quoted"`
	Channel string                       `json:"channel"`
	TS      string                       `json:"ts"`
	Thread  string                       `json:"thread"`
	Action  string                       `json:"action"`
	Value   string                       `json:"value"`
	View    string                       `json:"view"`
	Tag     string                       `json:"tag"` // of a language
	Values  map[string]map[string]string `json:"values"`
}

func (pg *Page) act(w http.ResponseWriter, r *http.Request) {
	// A form of another site can be posted without asking; JSON cannot.
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		http.Error(w, "JSON is expected", http.StatusUnsupportedMediaType)
		return
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, pageBody))
	decoder.UseNumber()
	var a pageAction
	if err := decoder.Decode(&a); err != nil {
		http.Error(w, "the action cannot be read", http.StatusBadRequest)
		return
	}
	d, err := pg.perform(r.Context(), a)
	result := map[string]any{"status": d.Status, "latency_ms": d.Latency.Milliseconds()}
	if err != nil {
		result["error"] = friendly(err)
	}
	var reply struct {
		Action string            `json:"response_action"`
		Errors map[string]string `json:"errors"`
	}
	if a.Kind == "slack.submit" && json.Unmarshal(d.Body, &reply) == nil && reply.Action == "errors" {
		result["errors"] = reply.Errors
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(mustJSON(result))
}

// friendly words an error for the page's visitor.
func friendly(err error) string {
	switch {
	case errors.Is(err, errNoButton):
		return "That button is gone."
	case isTimeout(err):
		return "The webhook did not answer in time."
	case errors.As(err, new(*net.OpError)):
		return "The webhook cannot be reached: nothing was decided. Is the gate running?"
	}
	return strings.TrimPrefix(err.Error(), "emulator: ")
}

func (pg *Page) perform(ctx context.Context, a pageAction) (Delivery, error) {
	switch a.Kind {
	case "line.tap":
		return pg.e.LINE.tapAt(ctx, a.Person, a.Message, a.Path)
	case "line.type":
		return pg.e.LINE.Type(ctx, a.Person, a.Text, a.Quoted)
	case "line.follow":
		return pg.e.LINE.Follow(ctx, a.Person)
	case "line.unfollow":
		return pg.e.LINE.Unfollow(ctx, a.Person)
	case "slack.tap":
		return pg.e.Slack.Tap(ctx, a.Person, a.Channel, a.TS, a.Action, a.Value)
	case "slack.type":
		return pg.typeSlackAnywhere(ctx, a)
	case "slack.home":
		return pg.e.Slack.Views.OpenHome(ctx, a.Person)
	case "slack.home.tap":
		return pg.e.Slack.Views.TapHome(ctx, a.Person, a.Action, a.Value)
	case "slack.view.tap":
		return pg.e.Slack.Views.Tap(ctx, a.Person, a.Action, a.Value)
	case "slack.submit":
		return pg.e.Slack.Views.Submit(ctx, a.Person, a.View, a.Values)
	case "slack.close":
		return pg.e.Slack.Views.Close(ctx, a.Person, a.View)
	case "language":
		return Delivery{}, pg.switchLanguage(ctx, a.Tag)
	}
	return Delivery{}, fmt.Errorf("emulator: unknown action %q", a.Kind)
}

// typeSlackAnywhere sends what was typed as Slack would: a slash command, a direct message, or a mention of the app.
func (pg *Page) typeSlackAnywhere(ctx context.Context, a pageAction) (Delivery, error) {
	slack := pg.e.Slack
	if strings.HasPrefix(a.Text, "/") {
		command, text, _ := strings.Cut(a.Text, " ")
		return slack.Slash(ctx, a.Person, a.Channel, command, text)
	}
	if a.Channel == slack.DM(a.Person) {
		return slack.Type(ctx, a.Person, a.Text, a.Thread)
	}
	return slack.Mention(ctx, a.Person, a.Channel, strings.TrimPrefix(a.Text, "@"+slack.cfg.BotName+" "), a.Thread)
}

// switchLanguage has people written to in another of the languages that there are.
func (pg *Page) switchLanguage(ctx context.Context, tag string) error {
	if !slices.ContainsFunc(pg.e.cfg.Languages, func(l Language) bool { return l.Tag == tag }) {
		return fmt.Errorf("emulator: there is no language %q", tag)
	}
	if err := pg.e.cfg.SetLanguage(ctx, tag); err != nil {
		return err
	}
	pg.e.mu.Lock()
	defer pg.e.mu.Unlock()
	pg.language = tag
	pg.e.bump()
	return nil
}
