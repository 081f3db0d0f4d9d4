package channels

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/approval"
	"countersign/approval/args"
	"countersign/approval/legible"
	"countersign/approval/redact"
	"countersign/approval/summary"
	"countersign/internal/chat"
	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
)

// Card is what people are shown, as plain data. Every text in it is masked and visible already: a
// platform lays it out, escapes it and shortens it, and nothing more.
type Card struct {
	Kind    approval.NotificationKind
	Text    string     // a reply's sentence; of other kinds the title, in words
	BatchID string     // of a card that shows several requests that can be decided together too; else ""
	Shows   chat.Shows // what of it is shown, for the buttons that decide all
	Items   []Item
	At      time.Time        // when the notification was made; the zero time: not known
	Made    string           // At, to the reader
	Words   *locale.Language // nil: English
	Shared  bool             // as in Reader

	// Waiting says that it is a reminder of requests that have nothing to do with each other.
	Waiting bool

	// Once is a yes or no to the reply, which counts once. nil: it asks for none.
	Once *Once
	// Lock is what a lock screen says of a reply that asks about one request without showing it. "": Text.
	Lock string
	// More is what else can be done about the reply's request. nil: nothing that is offered.
	More *More
	// Grant offers to have the reply's request answer the same call again. nil: that is not offered.
	Grant *Grant

	// Address is what a reply has people open, and what no other person may read. "": nothing.
	Address string
	// Opens is what the button for Address says.
	Opens string

	// Ask is a question that comes after a reply's text: why was it denied? Suggest are answers to it
	// that can be tapped. Channels that ask in a dialog of their own leave them out.
	Ask     string
	Suggest []string
	// Answer is what each of them is typed after, which names what the question is about: whatever was asked meanwhile,
	// the reason comes to the right request.
	Answer string
}

// Once is what a reply asks: the two buttons, whose value is its own id. Risk and Summary are as they stood on the card
// of the request that it asks about once more: they come first. "": it asks about no call.
type Once struct {
	ID, Yes, No string

	Level         approval.Risk
	Risk, Summary string
}

// More is what can be done about a request beside deciding it. Extend is "" where it was extended before.
type More struct{ ID, Extend, Freeze string }

// Grant offers to have an approval answer the same call again for a while. Ask is short, About says which call it is,
// and of whom.
type Grant struct {
	ID         string
	Ask, About string
	Choices    []GrantChoice

	// No declines, under a reply, whose id is Reply. "": where no button goes away by itself.
	No, Reply string
}

// GrantChoice is for how long: For is what its button says, Name in words.
type GrantChoice struct {
	For  chat.Period
	Name string
}

// Item is one request on a card.
type Item struct {
	ID    string
	Short string // its last characters, by which people type it
	Tool  string // server/tool where there is a server
	Risk  approval.Risk
	State State

	Summary  string // what will happen, in a sentence
	Title    string // how the request stands, in a word or two
	Sentence string // how it ended; "" while it is pending
	Why      string // why a person is asked: the policy's message
	// Progress is how far a request has come that takes more than one vote: who approved, and whom it waits for.
	Progress []string
	Facts    []Fact // who asks, from where
	More     More   // while it is pending
	Grant    *Grant // once it was approved, where it may answer the same call again; else nil

	Rows    []Row
	Total   int // values in all args
	Notices []Notice

	ReasonNeeded bool // it is not decided without one
	Confirm      bool // an approval is asked for once more
	StepUp       bool // it is approved on its page alone, with a passkey: no card has an Approve for it

	Rationale string // the agent's own words, unchecked
	Preview   string
	// PreviewRead tells that the gate made the preview, and of what; "": it is the agent's own, unchecked too.
	PreviewRead string
	Diff        []DiffLine // of a preview that is a unified diff: the same, line by line
	// Unlike: the diff is not of what the args have. It is not drawn as one, for a change that will not be made.
	Unlike bool
	Change *Change // of a diff that was held against the args: what a card leads with
	// ServerWords is what the tool's server says of it, on one line: it is unchecked. "": nothing is known.
	ServerWords string

	Deadline   time.Time // zero unless pending
	DeadlineAt string    // to the reader: "today 18:46"
	DeadlineIn string    // from the card's At: "in 28 min"; "" where that says nothing
	Hash       string    // its first 8 characters
	Link       string
}

// Notice is a remark on a request, whole and for a card that has little room.
type Notice struct {
	Text, Short string
	// Reason: it says that a reason is needed, which dialogs ask for themselves.
	Reason bool
	// First: without it the rest of the card would be misread. It stands before all of that.
	First bool
}

// notice is one that is short already.
func notice(s string) Notice { return Notice{Text: s, Short: s} }

// warning is a remark that comes right below what will happen.
func warning(s string) Notice {
	n := notice(s)
	n.First = true
	return n
}

// Fact is one labelled line.
type Fact struct{ Label, Value string }

// State is how a request stands, in more words than approval.Status has.
type State string

const (
	StatePending   State = "pending"
	StateApproved  State = "approved"
	StateUsed      State = "used"
	StateLapsed    State = "lapsed"
	StateDenied    State = "denied"
	StateExpired   State = "expired"
	StateCancelled State = "cancelled"
)

// StateOf returns how r stands.
func StateOf(r approval.Request) State {
	switch {
	case r.Status == approval.Denied:
		return StateDenied
	case r.Status == approval.Expired:
		return StateExpired
	case r.Status == approval.Cancelled:
		return StateCancelled
	case r.Status == approval.Approved && !r.LapsedAt.IsZero():
		return StateLapsed
	case r.Status == approval.Approved && !r.ConsumedAt.IsZero():
		return StateUsed
	case r.Status == approval.Approved:
		return StateApproved
	}
	return StatePending
}

// Icon is the sign of a state, beside its words.
func (s State) Icon() string {
	switch s {
	case StateApproved, StateUsed:
		return "✅"
	case StateDenied:
		return "⛔"
	case StateExpired, StateLapsed:
		return "⌛"
	case StateCancelled:
		return "🚫"
	}
	return "⏳"
}

// Pending reports whether the request can still be decided: only then are there buttons.
func (i Item) Pending() bool { return i.State == StatePending }

// PendingCount counts the requests that can still be decided.
func (c Card) PendingCount() int {
	n := 0
	for _, i := range c.Items {
		if i.Pending() {
			n++
		}
	}
	return n
}

// Together reports whether the card has buttons for all that is pending at once.
func (c Card) Together() bool { return c.BatchID != "" && c.PendingCount() > 1 }

// LeftOut says what the button that approves all leaves out, and why, and that the one that denies all does not; ""
// where nothing is left out. What is critical comes before what else is said of a call, as in the answer to the button.
func (c Card) LeftOut() string {
	var critical, stepUp, confirm int
	for _, i := range c.Items {
		switch {
		case !i.Pending():
		case i.Risk == approval.RiskCritical:
			critical++
		case i.StepUp:
			stepUp++
		case i.Confirm:
			confirm++
		}
	}
	var kinds []string
	for _, k := range []struct {
		text Text
		many int
	}{{TextCountCritical, critical}, {TextLeftStepUp, stepUp}, {TextLeftConfirm, confirm}} {
		if k.many > 0 {
			kinds = append(kinds, c.Say(k.text, "many", strconv.Itoa(k.many)))
		}
	}
	if kinds == nil {
		return ""
	}
	return c.Say(TextLeftOut, "button", c.Say(TextApproveAll), "kinds", c.Words.List(kinds), "deny", c.Say(TextDenyAll))
}

// Worst is the highest risk of what the card shows.
func (c Card) Worst() (worst approval.Risk) {
	for _, i := range c.Items {
		if i.Risk.Rank() > worst.Rank() {
			worst = i.Risk
		}
	}
	return worst
}

// Risk says the risk of a request that waits, and what approving it may do.
func (c Card) Risk(r approval.Risk) string { return c.Say(riskMeans(r)) }

// All is the button for all that the card shows, but for its intent.
func (c Card) All() Button { return Button{ID: c.BatchID, Shows: c.Shows} }

// Begun is what a keyboard begins with for the denial of what a button is about, which a reason follows: the word, and
// the end of the request's id, so that it says by itself what it is about.
func (c Card) Begun(b Button) string {
	id := b.Shows.TypedID(b.ID)
	if b.ID != c.BatchID {
		id = short(b.ID)
	}
	return c.Say(TextDenyBegun, "id", id)
}

// answer is how an answer to a question for a reason begins.
func (c Card) answer(asks approval.Notification) string {
	b := Button{ID: asks.ApprovalID, Intent: chat.IntentDeny}
	if asks.BatchID != "" {
		b.ID, b.Shows = asks.BatchID, chat.Shows{Version: asks.Shown, After: asks.After}
	}
	if b.ID == "" {
		return c.Say(TextReasonPrefix)
	}
	c.BatchID = asks.BatchID
	return c.Begun(b)
}

// Say is [locale.Language.Say] in the card's language.
func (c Card) Say(k Text, values ...string) string { return c.Words.Say(string(k), values...) }

// Maker makes cards out of requests. The zero Maker masks the usual secrets, shows times in UTC and
// sets no links. A Maker is not changed once it is in use.
type Maker struct {
	Masker *redact.Masker
	Zone   *time.Location
	// Link returns where a request can be read in a browser; nil for nowhere.
	Link func(id string) string
	// Page is where a request's page is, told in words where there is no Link: an address of this machine alone. nil: not
	// known.
	Page func(id string) string
	// SignIn returns the address of a one-time link; nil: there are none.
	SignIn func(linkID string) string
	Words  *locale.Language // nil: English
	// Describe returns what a server says of one of its tools, and the digest of all that it says of it
	// ([approval.Call.ToolDigest]); false: nothing is known. nil: of no tool is anything known.
	Describe func(server, tool string) (words, digest string, ok bool)
	// Reader returns who reads what goes to an address, where that is not one with Words in Zone; nil where all read
	// alike.
	Reader func(channel, recipient string) Reader
	// Known reports whether a card may still go to an address: it may have waited since before the person was taken
	// out of the configuration. nil: to all.
	Known func(channel, recipient string) bool

	// Now is when a card is read whose notification does not say when it was made. One that is sent has the same bytes
	// on every try, so it is told by when it was made.
	Now time.Time

	shared bool // as in Reader
	// onPage: a form of the page asks for what would be typed in a chat.
	onPage bool
}

// Reader is who reads a card.
type Reader struct {
	Words  *locale.Language // nil: English
	Zone   *time.Location   // nil: not known
	Shared bool             // several people read it, and some may be in another zone
}

// to is the Maker for the person whom n goes to.
func (m Maker) to(n approval.Notification) Maker {
	if !n.CreatedAt.IsZero() {
		m.Now = n.CreatedAt
	}
	if m.Reader != nil {
		r := m.Reader(n.Channel, n.Recipient)
		m.Words, m.Zone, m.shared = r.Words, r.Zone, r.Shared
	}
	if n.Language != "" {
		m.Words = locale.Get(n.Language)
	}
	return m
}

func (m Maker) say(k Text, values ...string) string { return m.Words.Say(string(k), values...) }

// Card makes the card of a delivery.
func (m Maker) Card(d Delivery) Card {
	n := d.Notification
	m = m.to(n)
	if len(n.Cards) > 0 {
		n.BatchID = "" // it says what a reply is about, not what it shows
	}
	c := Card{Kind: n.Kind, BatchID: n.BatchID, At: n.CreatedAt, Made: m.time(n.CreatedAt), Words: m.Words,
		Shared:  m.shared,
		Waiting: n.Kind != approval.KindReply && len(n.Cards) > 1}
	if n.Kind != approval.KindReply || len(n.Cards) > 0 {
		for _, r := range c.selectShown(d) {
			i := m.item(n, r)
			if (i.State == StateApproved || i.State == StateUsed) && slices.Contains(d.Grantable, r.ID) {
				i.Grant = m.grant(r)
			}
			c.Items = append(c.Items, i)
		}
		c.alone()
	}
	if n.Note == approval.NoteUnreached && len(c.Items) > 0 {
		first, s := &c.Items[0], m.say(TextUnreached)
		first.Notices = append([]Notice{notice(s)}, first.Notices...)
	}
	if n.Kind == approval.KindReply {
		text, _ := m.masker().Text(n.Text)
		c.Text = legible.Lines(text)
		if n.Note == approval.NoteQueued {
			c.Text = m.say(TextQueued, "n", strconv.Itoa(d.Queued))
		}
		if id, ok := n.Note.SignIn(); ok && m.SignIn != nil {
			c.Address, c.Opens = m.SignIn(id), m.say(TextOpen)
		}
		if address, ok := n.Note.Link(); ok {
			c.Address, c.Opens = address, m.say(TextOpenMessages)
		}
		if c.Ask, c.Suggest = m.ask(n.Note); len(c.Suggest) > 0 {
			c.Answer = c.answer(d.Notification)
		}
		m.choices(&c, d)
		return c
	}
	c.Text = m.title(c)
	return c
}

// selectShown returns the requests that a card shows, in the order in which it shows them: of an [approval.Card] what
// the notification is narrowed to.
func (c *Card) selectShown(d Delivery) []approval.Request {
	n := d.Notification
	if d.Card == nil || n.BatchID == "" || len(n.Cards) > 0 {
		return d.Requests
	}
	c.Shows = chat.Shows{Version: min(d.Card.Version(), chat.MaxVersion), After: n.After}
	version := map[string]int{}
	for _, i := range d.Card.Items {
		version[i.ID] = i.Version
	}
	ids := d.Card.Upto(n.After, c.Shows.Version)
	shown := slices.DeleteFunc(slices.Clone(d.Requests), func(r approval.Request) bool {
		return !slices.Contains(ids, r.ID)
	})
	// What is most dangerous is read first. What joins a card stands below what was read there already: nothing that
	// a person is about to press moves.
	slices.SortStableFunc(shown, func(a, b approval.Request) int {
		return cmp.Or(cmp.Compare(version[a.ID], version[b.ID]), cmp.Compare(b.Risk.Rank(), a.Risk.Rank()),
			cmp.Compare(slices.Index(ids, a.ID), slices.Index(ids, b.ID)))
	})
	return shown
}

// alone has a card of one request be as any card of one, which has nothing to decide together.
func (c *Card) alone() {
	if len(c.Items) == 1 && c.Kind != approval.KindReply {
		c.BatchID = ""
	}
}

// choices gives a reply its buttons: a yes that is asked for once more, or what else can be done.
func (m Maker) choices(c *Card, d Delivery) {
	n := d.Notification
	if len(d.Requests) != 1 || len(n.Cards) > 0 {
		return
	}
	r := d.Requests[0]
	switch _, confirms := n.Note.Confirms(); {
	case confirms:
		c.Text = m.willRun(r)
		c.Once = &Once{ID: n.ID, Yes: m.say(TextConfirmYes), No: m.say(TextBack),
			Level: r.Risk, Risk: RiskIcon(r.Risk) + " " + c.Risk(r.Risk), Summary: m.Summary(r)}
		c.Lock = m.say(TextAltReply, "risk", m.say(RiskText(r.Risk)), "summary", c.Once.Summary, "text", c.Text)
	case n.Note == approval.NoteFreeze:
		c.Once = &Once{ID: n.ID, Yes: m.say(TextFreezeYes), No: m.say(TextBack)}
	case n.Note == approval.NoteMore, n.Note == approval.NoteReason:
		more := m.more(r)
		c.More = &more
		if slices.Contains(d.Grantable, r.ID) {
			c.Grant = m.grant(r)
			c.Grant.No, c.Grant.Reply = m.say(TextGrantNo), n.ID
		}
	}
}

// grant offers to have an approval answer the same call again.
func (m Maker) grant(r approval.Request) *Grant {
	g := &Grant{ID: r.ID, Ask: m.say(TextGrantAsk), About: m.say(TextGrantAbout, "agent",
		legible.ShortenMiddle(legible.Line(r.Agent), mostTold, legible.UTF16Len), "summary",
		CutEnd(m.Summary(r), mostSaid, legible.UTF16Len))}
	for _, c := range []struct {
		period chat.Period
		name   Text
	}{{chat.ForSession, TextGrantSession}, {chat.ForHour, TextGrantHour}, {chat.ForDay, TextGrantDay},
		{chat.ForTen, TextGrantTen}} {
		if c.period != chat.ForSession || r.SessionID != "" {
			g.Choices = append(g.Choices, GrantChoice{c.period, m.say(c.name)})
		}
	}
	return g
}

// Button is what a choice's button says.
func (g *Grant) Button(c GrantChoice) Button {
	return Button{Intent: chat.IntentGrant, ID: g.ID, For: c.For}
}

// more is what can be done about a request beside deciding it.
func (m Maker) more(r approval.Request) More {
	more := More{ID: r.ID, Freeze: m.say(TextFreezeAgent, "agent", legible.Line(r.Agent))}
	if r.Status == approval.Pending && r.ExtendedAt.IsZero() {
		more.Extend = m.say(TextExtend)
	}
	return more
}

// mostSaid is how much of the args one sentence about a call holds, in characters.
const mostSaid = 600

// willRun says in one sentence what happens once a request is approved: with the args that this covers.
func (m Maker) willRun(r approval.Request) string {
	text, _ := m.Sentence(r)
	return text
}

// onLine puts on one line what is legible on several.
var onLine = strings.NewReplacer("\n", legible.Line("\n"), "\t", legible.Line("\t"))

// Sentence says in one sentence what happens once a request is approved. whole: all the args are in it but those that
// the rule ignores.
func (m Maker) Sentence(r approval.Request) (text string, whole bool) {
	masked, _ := m.masker().Args(r.Args)
	rows, _ := argRows(masked, m.ignoredArgs(r))
	var said []string
	for _, row := range rows {
		if row.Ignored {
			break
		}
		value := row.Prefix() + row.Key
		if !row.Open {
			value += ": " + onLine.Replace(row.Value)
		}
		said = append(said, value)
	}
	all := strings.Join(said, ", ")
	names := []string{"agent", legible.Line(r.Agent), "tool", legible.Line(r.Target()),
		"args", legible.Cut(all, mostSaid)}
	if said == nil {
		return m.say(TextWillRunBare, names[:4]...), true
	}
	return m.say(TextWillRun, names...), names[5] == all && len(rows) < maxRows
}

// Of a request that is shown on a page of its own: how many rows there are of its args, and how deep they go.
const (
	maxPageRows     = 2000
	maxPageRowDepth = 32
)

// Whole is all of a request, for a page of its own. at is when it is looked at.
func (m Maker) Whole(r approval.Request, at time.Time) Item {
	m.onPage = true
	return m.item(approval.Notification{Kind: approval.KindRequest, CreatedAt: at}, r)
}

// rows are those of the args of a request, masked, and how many values they have.
func (m Maker) rows(r approval.Request, masked []byte) (rows []Row, total int) {
	if !m.onPage {
		return argRows(masked, m.ignoredArgs(r))
	}
	return buildRows(masked, m.ignoredArgs(r), rowBuilder{most: maxPageRows, deepest: maxPageRowDepth})
}

// Raw is the canonical JSON of a request's args, legible on one line, and how many secrets are masked in it.
func (m Maker) Raw(r approval.Request) (text string, masked int) {
	raw, masked := m.masker().Args(r.Args)
	return legible.Line(string(raw)), masked
}

// Line is foreign text as the cards show it on one line: masked and legible.
func (m Maker) Line(s string) string { return m.line(s) }

// ask returns the question for a reason, where a reply has one, and answers that often fit.
func (m Maker) ask(n approval.Note) (question string, suggest []string) {
	switch n {
	case approval.NoteReason:
		question = m.say(TextAskReason)
	case approval.NoteDeny: // the reply itself asks
	default:
		return "", nil
	}
	return question, []string{m.say(TextSuggestLater), m.say(TextSuggestTarget), m.say(TextSuggestAsk)}
}

// Fallback makes a card of words only, for one that could not be drawn. It has no buttons: nobody
// should approve what they were not shown.
func (m Maker) Fallback(d Delivery) Card {
	c := m.Card(d)
	m = m.to(d.Notification)
	if len(c.Items) == 0 {
		return Card{Kind: approval.KindReply, Text: c.Text, At: c.At, Words: m.Words}
	}
	title := c.Text
	if title == "" {
		title = c.Items[0].Title
	}
	text := m.say(TextCannotRender, "title", title, "tools", tools(c, 5), "id", c.Items[0].ID)
	return Card{Kind: approval.KindReply, Text: text, At: c.At, Words: m.Words}
}

// title is the heading of a card that is not a reply.
func (m Maker) title(c Card) string {
	n, pending := strconv.Itoa(len(c.Items)), c.PendingCount()
	joined := c.Shows.After > 0 && pending == len(c.Items) && c.Kind != approval.KindReminder
	switch {
	case len(c.Items) == 1 && joined:
		c.Items[0].Title = m.say(TextJoined, "n", n)
		return c.Items[0].Title
	case len(c.Items) == 1:
		return c.Items[0].Title
	case joined:
		return m.say(TextJoined, "n", n)
	case c.Waiting && pending == len(c.Items):
		return m.say(TextWaiting, "n", n)
	case pending == 0:
		return m.say(TextBatchOver, "n", n)
	case pending < len(c.Items):
		return m.say(TextBatchSome, "pending", strconv.Itoa(pending), "n", n)
	case c.Kind == approval.KindReminder:
		return m.say(TextBatchReminder, "n", n)
	}
	return m.say(TextBatchNeeded, "n", n)
}

func (m Maker) item(n approval.Notification, r approval.Request) Item {
	i := Item{
		ID: r.ID, Short: short(r.ID), Tool: legible.Line(r.Target()), Risk: r.Risk, State: StateOf(r),
		Why:       m.Why(r),
		Rationale: m.lines(r.Rationale),
		Preview:   m.lines(r.Preview),
		Hash:      r.ArgsHash[:min(8, len(r.ArgsHash))],
	}
	i.Title, i.Sentence = m.standing(n.Kind, r)
	i.Diff = m.diff(r.Preview)
	if r.PreviewFrom != "" && r.Preview != "" {
		i.PreviewRead = m.say(TextPreviewRead, "tool", legible.Line(r.PreviewFrom))
	}
	i.Facts = m.facts(r, maxAgentWord)
	if m.onPage {
		i.Facts = m.facts(r, math.MaxInt)
	}
	masked, secrets := m.masker().Args(r.Args)
	i.Rows, i.Total = m.rows(r, masked)
	i.Summary = m.summary(r, i.Rows)
	i.ServerWords = m.serverWords(r)
	if i.Diff != nil {
		var unlike string
		if i.Change, unlike = m.change(r, masked, i.Rows); unlike != "" {
			i.Unlike = true
			i.Notices = append(i.Notices, warning(m.say(TextDiffUnlike, "key", unlike)))
		}
	}
	i.Notices = append(i.Notices, m.argsNotices(r, i.Rows, secrets)...)
	if s := m.before(n, r); s != "" {
		i.Notices = append(i.Notices, Notice{Text: s, Short: s, First: !r.Before.Approved}) // a person said no
	}
	if p := r.Previous; p != nil {
		text, short := previous(*p)
		names := []string{"who", m.line(p.ApprovedBy), "approved", m.time(p.ApprovedAt), "used", m.time(p.ConsumedAt)}
		i.Notices = append(i.Notices, Notice{Text: m.say(text, names...), Short: m.say(short, names...),
			First: text == TextPreviousSent}) // it may run twice
	}
	if r.Replaces != "" {
		i.Notices = append(i.Notices, notice(m.say(TextReplaces, "id", short(r.Replaces))))
	}
	i.Progress = m.progress(r)
	if i.Pending() {
		i.More = m.more(r)
		i.ReasonNeeded, i.StepUp = r.RequireReason, r.Need != nil && r.Need.StepUp
		i.Confirm = r.Need != nil && r.Need.Confirm
		switch {
		case i.StepUp: // where a reason can be given, too
			i.Notices = append(i.Notices, m.stepUp(r.ID))
		case i.ReasonNeeded:
			i.Notices = append(i.Notices, m.reasonNeeded())
		}
		i.Deadline, i.DeadlineAt, i.DeadlineIn = r.ExpiresAt, m.time(r.ExpiresAt), m.in(n.CreatedAt, r.ExpiresAt)
	}
	if m.Link != nil {
		i.Link = m.Link(r.ID)
	}
	return i
}

// argsNotices are what is to be said of the args as a whole.
func (m Maker) argsNotices(r approval.Request, rows []Row, secrets int) (ns []Notice) {
	if slices.ContainsFunc(rows, Row.invisible) {
		ns = append(ns, warning(m.say(TextInvisible)))
	}
	if secrets > 0 {
		ns = append(ns, notice(m.Words.Count(string(TextMasked), secrets)))
	}
	if !r.ArgsRemovedAt.IsZero() {
		ns = append(ns, notice(m.say(TextArgsRemoved, "bytes", strconv.Itoa(r.ArgsBytes), "time",
			m.time(r.ArgsRemovedAt))))
	}
	return ns
}

// facts are who asks, and from where: in the agent's own words, of which each has at most so many characters.
func (m Maker) facts(r approval.Request, most int) []Fact {
	facts := []Fact{{m.say(TextAgent), legible.Line(r.Agent)}}
	said := func(label Text, s string) {
		if s != "" {
			facts = append(facts, Fact{m.say(label), legible.Line(summary.Quoted(m.cutWord(s, most), math.MaxInt))})
		}
	}
	said(TextSession, r.SessionID)
	said(TextScope, r.Scope)
	return facts
}

// maxAgentWord is how much is told, before a decision, of what an agent calls its session or its scope: a longer one
// could be a sentence that the gate never said.
const maxAgentWord = 40

// AgentWord is what an agent calls its session or its scope, as it stands among words of ours.
func (m Maker) AgentWord(s string) string { return legible.Line(m.cutWord(s, maxAgentWord)) }

// cutWord masks before it cuts: half a secret is not known as one.
func (m Maker) cutWord(s string, most int) string {
	s, _ = m.masker().Text(s)
	return legible.Cut(s, most)
}

// reasonNeeded tells how an approval gets its reason.
func (m Maker) reasonNeeded() Notice {
	n := Notice{Text: m.say(TextReasonTap), Short: m.say(TextReasonAsked), Reason: true}
	if m.onPage {
		n.Text = n.Short
	}
	return n
}

// stepUp tells where a request is approved that takes a passkey.
func (m Maker) stepUp(id string) Notice {
	short := m.say(TextStepUp)
	if m.Link != nil || m.Page == nil {
		return notice(short)
	}
	return Notice{Text: m.say(TextStepUpAt, "page", m.Page(id)), Short: short}
}

// previous returns what is said of a call's last use. One that was sent on and of which no outcome is
// known may have run: deciding again may run it twice.
func previous(u approval.Use) (text, short Text) {
	switch {
	case u.DispatchedAt.IsZero():
		return TextPrevious, TextPreviousShort
	case u.RunResult == approval.RunSucceeded:
		return TextPreviousRan, TextPreviousRanShort
	case u.RunResult == approval.RunFailed:
		return TextPreviousFell, TextPreviousFellShort
	}
	return TextPreviousSent, TextPreviousSentShort
}

// Why is why a person is asked: the policy's message, in the reader's language where it is one of ours or the rule has
// it in that one.
func (m Maker) Why(r approval.Request) string {
	if r.Sentences != nil {
		if s := r.Sentences.Message.In(m.Words.Tag()); s != "" {
			return m.sentence(r, s)
		}
	}
	return m.sentence(r, m.Words.Why(r.HumanMessage, r.Target(), m.time))
}

// ignoredArgs returns the args that another value of makes no other request. Where keys differ only in letter case
// none is left out of the hash, whatever the rule names.
func (m Maker) ignoredArgs(r approval.Request) []string {
	if len(r.IgnoredArgs) == 0 {
		return nil
	}
	if parsed, err := args.Parse(r.Args); err != nil || parsed.Ambiguous() {
		return nil
	}
	return r.IgnoredArgs
}

// short is the end of an id, by which people type it.
func short(id string) string { return id[max(0, len(id)-approval.ShortID):] }

// sayer says what cards share with what people are told in a chat.
func (m Maker) sayer() phrases.Sayer {
	return func(p phrases.Phrase, args ...any) string {
		values := make([]string, len(args))
		for n, v := range args {
			values[n] = fmt.Sprint(v)
		}
		return m.Words.Say(string(p), values...)
	}
}

// progress tells how far a request has come that takes more than one vote.
func (m Maker) progress(r approval.Request) (lines []string) {
	if r.Need == nil || r.Status != approval.Pending && r.Status != approval.Approved {
		return nil
	}
	say, stages, total := m.sayer(), r.Need.InStages(), r.Need.Total()
	nth := 0
	for _, v := range r.Votes {
		if !v.Approve {
			continue
		}
		nth++
		names := []string{"nth", strconv.Itoa(nth), "total", strconv.Itoa(total), "who", m.line(say.Voter(v)),
			"time", m.time(v.At)}
		k := TextVote
		if nth > total || nth == total && r.Status == approval.Pending { // one that does not count any more is among them
			k = TextVoteBare
		}
		if total > 1 {
			lines = append(lines, m.say(k, names...))
		}
	}
	if r.Status != approval.Pending || total == 1 && stages[0].Group == "" && len(stages[0].Approvers) == 0 {
		return lines
	}
	needs := TextNeeds
	if phrases.Given(r) > 0 {
		needs = TextStillNeeds
	}
	waits := m.say(needs, "stages", m.line(say.Waits(r)))
	if len(stages) > 1 {
		stage := m.say(TextStage, "nth", strconv.Itoa(min(r.Stage+1, len(stages))), "total", strconv.Itoa(len(stages)))
		waits = locale.Sentences(stage, waits)
	}
	return append(lines, waits)
}

// standing tells how a request stands: in a word, and where it has ended in a sentence.
func (m Maker) standing(kind approval.NotificationKind, r approval.Request) (title, sentence string) {
	by := func(k Text) string {
		return m.say(k, "who", m.line(m.sayer().Ended(r)), "time", m.time(r.ResolvedAt))
	}
	reason := ""
	if r.ResolveReason != "" {
		reason = m.say(TextReason, "reason", m.line(r.ResolveReason))
	}
	var parts []string
	switch StateOf(r) {
	case StateApproved:
		title, parts = m.say(TextApproved), []string{by(TextApprovedBy), m.say(TextUseBy, "time", m.time(r.UseBy)), reason}
	case StateUsed:
		title, parts = m.say(TextUsed), []string{by(TextApprovedBy), m.say(TextUsedAt, "time", m.time(r.ConsumedAt)), reason}
	case StateLapsed:
		title, parts = m.say(TextLapsed), []string{by(TextApprovedBy), m.say(TextLapsedAt, "time", m.time(r.UseBy)), reason}
	case StateDenied:
		if r.EndCode == approval.EndEdited {
			title, parts = m.say(TextEdited), []string{by(TextEditedBy), "", reason}
			if r.ReplacedBy != "" {
				parts[1] = m.say(TextReplacedBy, "id", short(r.ReplacedBy))
			}
			break
		}
		if reason == "" {
			reason = m.say(TextNoReason)
		}
		title, parts = m.say(TextDenied), []string{by(TextDeniedBy), reason}
	case StateExpired:
		title, parts = m.say(TextExpired), []string{m.say(TextExpiredAt, "time", m.time(r.ExpiresAt))}
	case StateCancelled:
		if r.EndCode == approval.EndFrozen {
			title, parts = m.say(TextFrozen), []string{by(TextFrozenBy), reason}
			break
		}
		title, parts = m.say(TextCancelled), []string{by(TextCancelledBy), reason}
	default:
		if kind == approval.KindReminder {
			return m.say(TextStillNeeded), ""
		}
		return m.say(TextNeeded), ""
	}
	return title, locale.Sentences(parts...)
}

// line makes foreign text fit for one line.
func (m Maker) line(s string) string {
	s, _ = m.masker().Text(s)
	return legible.Line(s)
}

// lines makes foreign text fit to be shown on several.
func (m Maker) lines(s string) string {
	s, _ = m.masker().Text(strings.TrimSpace(s))
	return block(s)
}

// time tells t to the reader. The zone of this machine is not that of any configured person.
func (m Maker) time(t time.Time) string {
	return m.Words.When(t, locale.Reader{Now: m.Now, Zone: m.Zone, Abroad: m.shared || m.Zone == time.Local,
		Stays: !m.onPage})
}

// in tells how long it is from one time to another, in words. A card is sent with the same bytes on
// every try, so it counts from when its notification was made.
func (m Maker) in(from, to time.Time) string {
	if from.IsZero() || !from.Before(to) {
		return ""
	}
	return m.Words.In(to.Sub(from))
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// tools lists the tools on a card, most of them.
func tools(c Card, most int) string {
	var names []string
	for n, i := range c.Items {
		if n == most {
			names = append(names, "…")
			break
		}
		names = append(names, i.Tool)
	}
	return c.Words.List(names)
}
