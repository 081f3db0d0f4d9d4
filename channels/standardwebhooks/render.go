package standardwebhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
)

// Sizes in bytes of JSON. Standard Webhooks advises to stay below 20 kB, which one request does; a batch
// needs more.
const (
	maxBody     = 64_000
	requestSize = 18_000
	maxTitle    = 1500
	maxValue    = 8000 // of one arg
	maxLink     = 1000
)

// measures are how much of the texts around the args is told, from what reads best to what leaves the
// args the most room. own is for the agent's own words, which give way first.
type measures struct{ sentence, fact, notice, own int }

var levels = []measures{
	{sentence: 1500, fact: 500, notice: 500, own: 3000},
	{sentence: 800, fact: 300, notice: 300, own: 800},
	{sentence: 250, fact: 100, notice: 200},
	{sentence: 100, fact: 40, notice: 80},
}

// event is a delivery's body.
type event struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	Data      data   `json:"data"`
}

type data struct {
	Title    string    `json:"title"` // in words; of a notice all there is to say
	Language string    `json:"language"`
	BatchID  string    `json:"batch_id,omitempty"`
	Requests []request `json:"requests"`
}

// request is one request on a card.
type request struct {
	ID    string         `json:"id"`
	State channels.State `json:"state"`
	Tool  string         `json:"tool"` // server/tool where there is a server
	Agent string         `json:"agent"`
	Risk  approval.Risk  `json:"risk"`
	Hash  string         `json:"hash"` // the first 8 digits
	// Summary says what will happen, in a sentence.
	Summary string `json:"summary"`
	Title   string `json:"title"`
	Ending  string `json:"ending,omitempty"` // how it ended, in a sentence
	Why     string `json:"why,omitempty"`
	// How far one has come that takes several votes: who approved, and whom it waits for.
	Progress []string `json:"progress,omitempty"`

	// Of a pending one.
	Deadline       string `json:"deadline,omitempty"`
	DeadlineText   string `json:"deadline_text,omitempty"`
	ReasonRequired bool   `json:"reason_required,omitempty"` // it cannot be decided without one
	StepUp         bool   `json:"step_up,omitempty"`         // it is approved on its page alone, with a passkey

	Facts     []fact   `json:"facts"`
	Args      []arg    `json:"args"`
	ArgsShown int      `json:"args_shown"` // values among args
	ArgsTotal int      `json:"args_total"`
	Notices   []string `json:"notices"`

	// ServerWords is what the tool's server says of it, which is unchecked.
	ServerWords string    `json:"servers_words,omitempty"`
	Words       *ownWords `json:"agents_own_words,omitempty"`
	URL         string    `json:"url,omitempty"` // of the request's page
}

type fact struct {
	Label string `json:"label"`
	Value string `json:"value"`
}

// arg is one row of the args. Rows that follow one with members and are deeper are those members.
type arg struct {
	Depth   int    `json:"depth"`
	Key     string `json:"key"`
	Value   string `json:"value"`
	Members bool   `json:"members,omitempty"`
	Ignored bool   `json:"ignored,omitempty"` // another value makes no other request of it; this one runs
}

// ownWords are the agent's, and unchecked.
type ownWords struct {
	Rationale string `json:"rationale,omitempty"`
	Preview   string `json:"preview,omitempty"`
	// Read tells that the gate made the preview, and of what.
	Read string `json:"preview_read,omitempty"`
}

// types are the kinds of notification, as receivers know them.
var types = map[approval.NotificationKind]string{
	approval.KindRequest:  "approval.requested",
	approval.KindReminder: "approval.reminder",
	approval.KindEdit:     "approval.resolved",
	approval.KindReply:    "approval.notice",
}

// typeUpdated is an edit of what is all pending still.
const typeUpdated = "approval.updated"

// Render makes the JSON of a delivery.
func (ch *Channel) Render(c channels.Card) (channels.Body, error) {
	kind, ok := types[c.Kind]
	if !ok {
		return nil, fmt.Errorf("webhook: a card of kind %q", c.Kind)
	}
	if len(c.Items) == 0 && c.Kind != approval.KindReply {
		return nil, fmt.Errorf("webhook: a card without a request")
	}
	if c.Kind == approval.KindEdit && c.PendingCount() == len(c.Items) { // nothing has ended: a person voted, say
		kind = typeUpdated
	}
	e := event{Type: kind, Timestamp: stamp(c.At), Data: data{
		Title: shorten(c.Text, maxTitle), Language: c.Words.Tag(), BatchID: c.BatchID, Requests: []request{},
	}}
	for _, i := range c.Items {
		r, err := fit(c, i, min(requestSize, (maxBody-2*maxTitle)/len(c.Items)))
		if err != nil {
			return nil, err
		}
		e.Data.Requests = append(e.Data.Requests, r)
	}
	return encode(e), nil
}

// fit tells of one request in at most size bytes.
func fit(c channels.Card, i channels.Item, size int) (request, error) {
	for n, m := range levels {
		r := describe(i, m)
		// What the args may take is what the rest leaves, with every remark about them that could be
		// needed.
		worst := r
		worst.ArgsShown = i.Total
		worst.Notices = append(worst.Notices[:len(worst.Notices):len(worst.Notices)],
			shorten(c.Say(channels.TextNotAllShown, "shown", fmt.Sprint(i.Total), "total", fmt.Sprint(i.Total), "id", i.Short),
				m.notice),
			shorten(c.Say(channels.TextShortened, "id", i.Short), m.notice),
			shorten(c.Say(channels.TextWordsCut, "id", i.Short), m.notice))
		left := size - len(encode(worst))
		f := channels.FitRows(i.Rows, i.Total, left, maxValue, measure, cost)
		good := f.All() && (!f.Shortened || m.own < levels[0].own)
		if left < 0 || !good && n < len(levels)-1 {
			continue
		}
		for _, row := range f.Rows {
			r.Args = append(r.Args, argOf(row))
		}
		r.ArgsShown = f.Shown
		switch {
		case !f.All():
			r.Notices = append(r.Notices, shorten(c.Say(channels.TextNotAllShown, "shown", fmt.Sprint(f.Shown), "total",
				fmt.Sprint(f.Total), "id", i.Short), m.notice))
		case f.Shortened:
			r.Notices = append(r.Notices, shorten(c.Say(channels.TextShortened, "id", i.Short), m.notice))
		}
		if r.Words == nil && i.Rationale+i.Preview != "" {
			r.Notices = append(r.Notices, shorten(c.Say(channels.TextWordsCut, "id", i.Short), m.notice))
		}
		return r, nil
	}
	return request{}, fmt.Errorf("webhook: what is not args takes more than %d bytes", size)
}

// describe tells all of a request but its args.
func describe(i channels.Item, m measures) request {
	r := request{
		ID: i.ID, State: i.State, Tool: shorten(i.Tool, 300), Risk: i.Risk, Hash: i.Hash,
		Summary: channels.CutEnd(i.Summary, m.sentence, measure), Title: shorten(i.Title, m.sentence),
		Ending: shorten(i.Sentence, m.sentence), Why: shorten(i.Why, m.sentence),
		Facts: []fact{}, Args: []arg{}, ArgsTotal: i.Total, Notices: []string{},
	}
	if len(i.Facts) > 0 {
		r.Agent = shorten(i.Facts[0].Value, 128)
	}
	for _, line := range i.Progress {
		r.Progress = append(r.Progress, shorten(line, m.notice))
	}
	for _, f := range i.Facts {
		r.Facts = append(r.Facts, fact{shorten(f.Label, m.fact), shorten(f.Value, m.fact)})
	}
	if i.Pending() {
		r.Deadline, r.DeadlineText, r.ReasonRequired = stamp(i.Deadline), shorten(i.DeadlineAt, m.fact), i.ReasonNeeded
		r.StepUp = i.StepUp
	}
	for _, n := range i.Notices {
		text := n.Text
		if m.own == 0 || n.Reason { // it is not known what is tapped where it is shown
			text = n.Short
		}
		r.Notices = append(r.Notices, shorten(text, m.notice))
	}
	if m.own > 0 && i.Rationale+i.Preview != "" {
		r.Words = &ownWords{shorten(i.Rationale, m.own), shorten(i.Preview, m.own), shorten(i.PreviewRead, m.own)}
	}
	if m.own > 0 {
		r.ServerWords = channels.CutEnd(i.ServerWords, m.fact, measure)
	}
	if measure(i.Link) <= min(maxLink, 2*m.sentence) {
		r.URL = i.Link
	}
	return r
}

func argOf(r channels.Row) arg { return arg{r.Depth, r.Key, r.Value, r.Open, r.Ignored} }

// cost is what a row takes among others.
func cost(r channels.Row) int { return len(encode(argOf(r))) + 1 }

// stamp is a time as all our JSON has it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func shorten(s string, limit int) string { return legible.ShortenMiddle(s, limit, measure) }

// measure is the length of a string in JSON, without its quotes.
func measure(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r == '"', r == '\\', r == '\n', r == '\t', r == '\r':
			n += 2
		case r < ' ', r == '\u007f', r == '\u2028', r == '\u2029', r == utf8.RuneError:
			n += 6
		default:
			n += utf8.RuneLen(r)
		}
	}
	return n
}

// encode is JSON without the escapes that are for web pages.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings, numbers and lists of them: it cannot fail
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
