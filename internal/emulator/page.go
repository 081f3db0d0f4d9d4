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

// pageKinds are the content types of the page's files. The system's own table may say otherwise, so it is not asked.
var pageKinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
}

func (s *Emulator) pageRoutes(mux *http.ServeMux) {
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
	mux.Handle("GET /{$}", s.guard(file("index.html")))
	files, err := pageFiles.ReadDir("page")
	if err != nil {
		panic(err) // embedded, or the build is broken
	}
	for _, f := range files {
		mux.Handle("GET /page/"+f.Name(), s.guard(file(f.Name())))
	}
	mux.Handle("GET /page/state", s.guard(s.pageState))
	mux.Handle("GET /page/events", s.guard(s.pageEvents))
	mux.Handle("POST /page/act", s.guard(s.pageAct))
	mux.Handle("GET /page/inbox", s.guard(s.pageInbox))
}

// guard keeps other web pages out: they could otherwise tap in the name of whoever opened them. It refuses requests
// that a browser marks as coming from elsewhere, and host names that are not ours.
func (s *Emulator) guard(next http.HandlerFunc) http.Handler {
	origin := http.NewCrossOriginProtection()
	return origin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.ownHost(r.Host) {
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
func (s *Emulator) view(name string) pageView {
	p, err := s.person(name)
	if err != nil {
		p = s.people[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := pageView{Person: p.Name, Tables: append([]pageTable{}, s.tables...), Notice: s.notice,
		News: s.news, Inbox: s.cfg.Inbox != nil && !p.Stranger, Languages: s.cfg.Languages, Language: s.language}
	for _, other := range s.people {
		v.People = append(v.People, pagePerson{other.Name, other.Stranger})
	}
	v.LINE = s.lineView(p)
	v.Slack = s.slackView(p)
	for _, panel := range s.panels {
		v.Panels = append(v.Panels, pagePanel{
			Title: panel.Title, Stream: panel.Stream, URL: panel.URL, Lines: append([]logLine{}, s.logs[panel.Stream]...),
		})
	}
	return v
}

func (s *Emulator) lineView(p Person) pageLINE {
	v := pageLINE{
		On: p.LINE != "", Bot: s.cfg.LINE.BotName, Blocked: s.line.blocked[p.LINE],
		Loading: s.now().Before(s.line.loading[p.LINE]), Messages: []pageLINEMessage{},
	}
	chat := s.line.chats[p.LINE]
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

func (s *Emulator) slackView(p Person) pageSlack {
	v := pageSlack{On: p.Slack != "", HasHome: !s.cfg.Slack.HomeOff, Team: s.cfg.Slack.TeamName, Bot: s.cfg.Slack.BotName,
		Names: map[string]string{s.cfg.Slack.BotUserID: s.cfg.Slack.BotName}, Conversations: []pageConversation{}}
	for _, other := range s.people {
		v.Names[other.Slack] = other.Name
	}
	for _, ch := range s.slack.channels {
		if p.Slack == "" || !slices.Contains(ch.members, p.Slack) {
			continue
		}
		shown := pageConversation{ID: ch.ID, Name: ch.Name, IM: ch.im != "", Messages: []pageSlackMessage{}}
		all := s.slack.messages[ch.ID]
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
	if stack := s.stack(p.Slack); len(stack) > 0 && p.Slack != "" {
		v.View = s.viewJSON(stack[len(stack)-1], nil)
	}
	if home := s.slack.homes[p.Slack]; home != nil {
		v.Home = s.viewJSON(home, nil)
	}
	return v
}

func (s *Emulator) pageState(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(mustJSON(s.view(r.URL.Query().Get("person"))))
}

// pageInbox leads a person to where they decide in the browser.
func (s *Emulator) pageInbox(w http.ResponseWriter, r *http.Request) {
	who := r.URL.Query().Get("person")
	if s.cfg.Inbox == nil || !s.hasInbox(who) {
		http.NotFound(w, r)
		return
	}
	to, err := s.cfg.Inbox(r.Context(), who)
	if err != nil {
		http.Error(w, "The gate does not answer: "+err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// hasInbox reports whether somebody is on the page who decides.
func (s *Emulator) hasInbox(person string) bool {
	return slices.ContainsFunc(s.cfg.People, func(p Person) bool { return p.Name == person && !p.Stranger })
}

// pageEvents streams what a person sees, anew after every change.
func (s *Emulator) pageEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flush := http.NewResponseController(w)
	beat := time.NewTicker(pageHeartbeat)
	defer beat.Stop()
	last := ""
	for {
		_, changed := s.change()
		if next := string(mustJSON(s.view(r.URL.Query().Get("person")))); next != last {
			last = next
			if _, err := fmt.Fprintf(w, "event: state\ndata: %s\n\n", next); err != nil {
				return
			}
			if flush.Flush() != nil {
				return
			}
		}
		s.sleep(pagePause)
		select {
		case <-changed:
		case <-beat.C: // also lets what only time ends, such as the loading dots, go away
			if _, err := io.WriteString(w, ": still here\n\n"); err != nil || flush.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.done:
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

func (s *Emulator) pageAct(w http.ResponseWriter, r *http.Request) {
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
	d, err := s.perform(r.Context(), a)
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

func (s *Emulator) perform(ctx context.Context, a pageAction) (Delivery, error) {
	switch a.Kind {
	case "line.tap":
		return s.tapLINEAt(ctx, a.Person, a.Message, a.Path)
	case "line.type":
		return s.TypeLINE(ctx, a.Person, a.Text, a.Quoted)
	case "line.follow":
		return s.Follow(ctx, a.Person)
	case "line.unfollow":
		return s.Unfollow(ctx, a.Person)
	case "slack.tap":
		return s.TapSlack(ctx, a.Person, a.Channel, a.TS, a.Action, a.Value)
	case "slack.type":
		return s.typeSlackAnywhere(ctx, a)
	case "slack.home":
		return s.OpenHome(ctx, a.Person)
	case "slack.home.tap":
		return s.TapHome(ctx, a.Person, a.Action, a.Value)
	case "slack.view.tap":
		return s.TapView(ctx, a.Person, a.Action, a.Value)
	case "slack.submit":
		return s.SubmitView(ctx, a.Person, a.View, a.Values)
	case "slack.close":
		return s.CloseView(ctx, a.Person, a.View)
	case "language":
		return Delivery{}, s.switchLanguage(ctx, a.Tag)
	}
	return Delivery{}, fmt.Errorf("emulator: unknown action %q", a.Kind)
}

// typeSlackAnywhere sends what was typed as Slack would: a slash command, a direct message, or a mention of the app.
func (s *Emulator) typeSlackAnywhere(ctx context.Context, a pageAction) (Delivery, error) {
	if strings.HasPrefix(a.Text, "/") {
		command, text, _ := strings.Cut(a.Text, " ")
		return s.SlashSlack(ctx, a.Person, a.Channel, command, text)
	}
	if a.Channel == s.DM(a.Person) {
		return s.TypeSlack(ctx, a.Person, a.Text, a.Thread)
	}
	return s.MentionSlack(ctx, a.Person, a.Channel, strings.TrimPrefix(a.Text, "@"+s.cfg.Slack.BotName+" "), a.Thread)
}

// switchLanguage has people written to in another of the languages that there are.
func (s *Emulator) switchLanguage(ctx context.Context, tag string) error {
	if !slices.ContainsFunc(s.cfg.Languages, func(l Language) bool { return l.Tag == tag }) {
		return fmt.Errorf("emulator: there is no language %q", tag)
	}
	if err := s.cfg.SetLanguage(ctx, tag); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.language = tag
	s.bump()
	return nil
}
