package slack

import (
	"bytes"
	"encoding/json"
	"errors"

	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/slack-go/slack"
	"github.com/slack-go/slack/slackutilsx"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/chat"
)

// The platform's limits, and ours below them. Whether Slack counts characters or UTF-16 units, before or
// after escaping, is not documented: we count UTF-16 units of the escaped text, which is the most.
const (
	maxBlocks      = 50
	maxTotal       = 10_990 // of all strings in a message's blocks; Slack refuses somewhere near 12,000
	maxPage        = 9800   // of the text on a page of its own
	maxObject      = 3000   // a text object
	maxHeader      = 150
	maxText        = 3000 // the fallback beside the blocks; an edit takes at most 4000
	maxButton      = 75
	maxPlaceholder = 150
	maxURL         = 3000
	maxValue       = 2400 // of one arg
	maxRichText    = 2900 // of one rich text block
	maxDiffLine    = 200  // of a diff
	maxLines       = 12   // of a text that is set as words
	blockMargin    = 4    // what a row takes beside its text
	actionApprove  = "approve"
	actionDeny     = "deny"
	actionMore     = "more"
	actionGrant    = "grant"
	actionOpen     = "open" // which Slack does itself, and tells us of
)

// measures are how much of the texts around the args is shown, from what reads best to what leaves the
// args the most room. own is for the agent's own words, which give way first; bare buttons have no colour.
type measures struct {
	will, tool, sentence, why, fact, notice, own int
	bare                                         bool
}

var levels = []measures{
	{will: 600, tool: 300, sentence: 800, why: 800, fact: 300, notice: 400, own: 1500},
	{will: 500, tool: 300, sentence: 700, why: 500, fact: 200, notice: 300, own: 400},
	{will: 300, tool: 300, sentence: 400, why: 250, fact: 120, notice: 250, own: 120},
	{will: 160, tool: 100, sentence: 160, why: 100, fact: 60, notice: 120},
	{will: 100, tool: 50, sentence: 90, why: 40, fact: 40, notice: 80},
	{will: 70, tool: 40, sentence: 60, fact: 24, notice: 60},
	{will: 50, tool: 32, sentence: 50, notice: 44},
	{will: 44, tool: 32, sentence: 44, notice: 36, bare: true},
	{will: 24, tool: 24, sentence: 32, notice: 28, bare: true},
}

// Render makes a message of Block Kit as JSON {text, blocks, metadata}. An outcome is rendered as the
// request is, with how it ended in place of the buttons.
func (ch *Channel) Render(c channels.Card) (channels.Body, error) {
	blocks, err := layOut(c)
	if err != nil {
		return nil, err
	}
	if n := weigh(blocks...); len(blocks) > maxBlocks || n > maxTotal {
		return nil, fmt.Errorf("slack: a card of %d blocks and %d units", len(blocks), n)
	}
	m := struct {
		Text     string             `json:"text"`
		Blocks   []sdk.Block        `json:"blocks"`
		Metadata *sdk.SlackMetadata `json:"metadata,omitempty"`
	}{Text: escape(c.Alt(maxText, measure)), Blocks: blocks}
	if len(c.Items) > 0 {
		// By it a card can be found again in the channel's history.
		payload := map[string]any{"approval_id": c.Items[0].ID}
		if c.BatchID != "" {
			payload["batch_id"] = c.BatchID
		}
		m.Metadata = &sdk.SlackMetadata{EventType: "approval_card", EventPayload: payload}
	}
	return json.Marshal(m)
}

func layOut(c channels.Card) ([]sdk.Block, error) {
	switch {
	case c.Once != nil:
		yes := sdk.NewButtonBlockElement(string(chat.IntentConfirm), c.Once.ID, words(shorten(c.Once.Yes, maxButton)))
		return []sdk.Block{plain(or(c.Text, "…"), maxObject), sdk.NewActionBlock("once", yes.WithStyle(sdk.StylePrimary),
			sdk.NewButtonBlockElement(string(chat.IntentBack), c.Once.ID, words(shorten(c.Once.No, maxButton))))}, nil
	case len(c.Items) == 0 && c.Address != "":
		open := sdk.NewButtonBlockElement(actionOpen, "", words(shorten(c.Say(channels.TextOpen), maxButton)))
		open.URL = c.Address
		return append(saying(or(c.Text, "…")), sdk.NewActionBlock("open", open)), nil
	case len(c.Items) == 0:
		return saying(or(c.Text, "…")), nil
	case len(c.Items) == 1 && c.BatchID == "":
		return oneOf(c, c.Items[0])
	}
	return several(c)
}

// saying is a reply's text: a sentence or a few lines as words, what is longer as it is, line for line.
func saying(text string) []sdk.Block {
	if measure(text) <= maxObject && strings.Count(text, "\n") < maxLines {
		return []sdk.Block{plain(text, maxObject)}
	}
	t := new(rich)
	for _, piece := range channels.Split(shorten(text, maxPage), maxRichText, measure) {
		t.preformatted(or(strings.TrimSuffix(piece, "\n"), " ")) // the end of the block ends its last line
		t.cut()
	}
	return t.done()
}

// Page is how long a reply's text may be, and in which unit.
func (ch *Channel) Page() (limit int, unit func(string) int) { return maxPage, measure }

// oneOf draws a single request.
func oneOf(c channels.Card, i channels.Item) ([]sdk.Block, error) {
	var blocks []sdk.Block
	if c.Kind == approval.KindReply && c.Text != "" {
		blocks = append(blocks, plain(c.Text, maxObject/3))
	}
	blocks = append(blocks, head(c, i.Title, i))
	own, err := fit(maxTotal-weigh(blocks...), func(m measures) drawing {
		return drawing{measures: m, card: c, item: i}
	})
	return append(blocks, own...), err
}

// several draws a batch, or the cards of a reply.
func several(c channels.Card) ([]sdk.Block, error) {
	worst, common := c.Items[0], c.Items[0].Facts
	for _, i := range c.Items {
		if i.Risk.Rank() > worst.Risk.Rank() {
			worst = i
		}
		common = slices.DeleteFunc(slices.Clone(common), func(f channels.Fact) bool { return !slices.Contains(i.Facts, f) })
	}
	// A deadline that all have is told once.
	deadline := until(worst)
	for _, i := range c.Items {
		if i.Pending() && until(i) != deadline {
			deadline = ""
		}
	}
	said, shared := common, ""
	if deadline != "" {
		common = append(common, channels.Fact{Label: c.Say(channels.TextDeadline), Value: deadline})
		shared = drawing{card: c, item: worst}.deadline()
	}
	var blocks, end []sdk.Block
	if c.Kind == approval.KindReply {
		blocks = append(blocks, plain(or(c.Text, "…"), maxObject/3))
	} else {
		blocks = append(blocks, head(c, c.Text, worst))
	}
	t := new(rich)
	for _, f := range said {
		t.fact(f, 150)
	}
	blocks = append(blocks, t.done()...)
	if shared != "" {
		blocks = append(blocks, remarks(shared))
	}
	if c.Together() {
		end = append(end, plain(c.Say(channels.TextBatchHint), maxObject),
			buttonsFor(c.Worst())(c, "all", c.All(), c.Say(channels.TextApproveAll), c.Say(channels.TextDenyAll)))
	}
	end = append(end, remarks(escape(c.Say(channels.TextReadAll))))
	left := maxTotal - weigh(blocks...) - weigh(end...)
	dividers := len(blocks)+len(end)+4*len(c.Items) <= maxBlocks
	if dividers {
		left -= len(c.Items) * weigh(sdk.NewDividerBlock())
	}
	for n, i := range c.Items {
		share := left / (len(c.Items) - n) // what one leaves, the next may use
		own, err := fit(share, func(m measures) drawing {
			return drawing{measures: m, card: c, item: i, number: n + 1, common: common}
		})
		if err != nil {
			return nil, err
		}
		left -= weigh(own...)
		if dividers {
			blocks = append(blocks, sdk.NewDividerBlock())
		}
		blocks = append(blocks, own...)
	}
	return append(blocks, end...), nil
}

// fit lays out one request in at most room, the roomiest way in which all its args are there.
func fit(room int, at func(measures) drawing) ([]sdk.Block, error) {
	for n, m := range levels {
		d := at(m)
		most := d
		most.measuring = true
		fixed := weigh(most.blocks(channels.Fitted{Total: d.item.Total})...)
		f := channels.FitRows(d.item.Rows, d.item.Total, room-fixed, maxValue, measure, cost)
		good := len(f.Rows) == len(d.item.Rows) && (!f.Shortened || n > 0)
		if fixed > room || !good && n < len(levels)-1 {
			continue
		}
		blocks := d.blocks(f)
		if w := weigh(blocks...); w > room {
			return nil, fmt.Errorf("slack: a request of %d units, over %d", w, room)
		}
		return blocks, nil
	}
	// No arg fits beside the rest, which says how many there are and where.
	d := at(levels[len(levels)-1])
	if blocks := d.blocks(channels.Fitted{Total: d.item.Total}); weigh(blocks...) <= room {
		return blocks, nil
	}
	return nil, errors.New("slack: what is not args leaves no room")
}

// cost is the most that a row takes of a message: its strings, a line break, and its share of the blocks that
// rows are spread over, of which two in a row hold more than one may. It is weighed without JSON, since it is
// asked of each row for each length that values may have.
func cost(r channels.Row) int {
	t := new(rich)
	t.row(r)
	n := 2*t.units*weightOfRich/maxRichText + 2
	count := func(pieces []sdk.RichTextSectionElement) {
		for _, p := range pieces {
			n += len(sdk.RTSEText) + measure(p.(*sdk.RichTextSectionTextElement).Text)
		}
	}
	for _, e := range t.elements {
		if lines, ok := e.(*sdk.RichTextPreformatted); ok {
			n += len(sdk.RTEPreformatted) + len(sdk.RTESection) // a section after it
			count(lines.Elements)
		} else {
			count(e.(*sdk.RichTextSection).Elements)
		}
	}
	count(t.section)
	return n
}

// weightOfRich is what a block of rich text takes beside its pieces.
const weightOfRich = len(sdk.MBTRichText) + len(sdk.RTESection)

// drawing is one request being laid out.
type drawing struct {
	measures
	card   channels.Card
	item   channels.Item
	number int             // among several; 0 for a card of its own
	common []channels.Fact // what the head says for all of them
	glance bool            // only to be read: it has no buttons
	left   int             // values beside item's, that are not to be shown

	measuring bool // laid out without rows, and with every remark about them that could be needed
}

// alone reports whether the request has a card of its own.
func (d drawing) alone() bool { return d.number == 0 }

// blocks lays out one request with as much of the args as f says.
func (d drawing) blocks(f channels.Fitted) []sdk.Block {
	i, say := d.item, d.card.Say
	t := new(rich)
	d.heading(t)
	for _, fact := range i.Facts {
		if d.fact > 0 && !slices.Contains(d.common, fact) {
			t.fact(fact, d.fact)
		}
	}
	d.args(t, f)
	if d.left > 0 {
		t.line(d.card.Words.Count(string(channels.TextDialogMore), d.left))
	}
	d.notices(t)
	d.reason(t)
	d.agentText(t)
	if !d.alone() {
		d.foot(t)
	}
	blocks := t.done()
	block := "decide"
	if d.alone() {
		blocks = append(blocks, remarks(d.deadline(), d.names()))
	} else {
		block += ":" + strconv.Itoa(d.number)
	}
	if i.Pending() && !d.glance {
		choose := buttonsFor(i.Risk)
		if d.bare {
			choose = bareButtons
		}
		decide := choose(d.card, block, channels.Button{ID: i.ID}, say(channels.TextApprove), say(channels.TextDeny))
		if i.StepUp {
			decide.Elements.ElementSet = slices.Concat(d.open(), decide.Elements.ElementSet[1:]) // the first approves
		}
		if d.alone() && d.own > 0 {
			decide.Elements.ElementSet = append(decide.Elements.ElementSet, more(i.More))
		}
		blocks = append(blocks, decide)
	}
	if i.Grant != nil && !d.glance && d.own > 0 {
		blocks = append(blocks, longer(i.Grant, block))
	}
	return blocks
}

// longer is the menu of a decided request that has its approval answer the same call again.
func longer(g *channels.Grant, block string) *sdk.ActionBlock {
	var options []*sdk.OptionBlockObject
	for _, choice := range g.Choices {
		b := g.Button(choice)
		options = append(options, sdk.NewOptionBlockObject(string(b.Intent)+":"+b.Value(),
			words(shorten(choice.Name, maxButton)), nil))
	}
	menu := sdk.NewOptionsSelectBlockElement(sdk.OptTypeStatic, words(shorten(g.Ask, maxPlaceholder)), actionGrant,
		options...)
	return sdk.NewActionBlock(strings.Replace(block, "decide", "grant", 1), menu)
}

// heading tells which tool is called, and with what risk.
func (d drawing) heading(t *rich) {
	i := d.item
	if d.alone() && d.glance {
		t.strong(risk(d.card, i) + " · ")
		t.code(shorten(i.Tool, d.tool))
		t.end()
		d.sentences(t)
	} else if d.alone() {
		d.sentences(t)
		t.cut()
		t.strong(d.card.Say(channels.TextTool) + "  ")
		t.code(shorten(i.Tool, d.tool))
		t.end()
	} else {
		t.strong(fmt.Sprintf("%d. %s · ", d.number, risk(d.card, i)))
		t.code(shorten(i.Tool, d.tool))
		if !i.Pending() {
			t.strong(" · " + i.State.Icon() + " " + i.Title)
		}
		t.end()
		d.sentences(t)
	}
}

// args lays out the call's args, and tells what of them is not there.
func (d drawing) args(t *rich, f channels.Fitted) {
	i, say := d.item, d.card.Say
	if d.alone() {
		t.cut()
	}
	switch {
	case len(i.Rows) == 0:
		t.line(say(channels.TextNoArgs))
	case d.alone():
		t.heading(say(channels.TextArgs))
	}
	ignored := false
	for _, r := range f.Rows {
		if r.Ignored && !ignored {
			ignored = true
			t.heading(say(channels.TextIgnored))
		}
		t.row(r)
	}
	if d.measuring && len(i.Rows) > 0 && i.Rows[len(i.Rows)-1].Ignored {
		t.heading(say(channels.TextIgnored))
	}
	notAll, shortened := channels.TextNotAllShown, channels.TextShortened
	if !d.alone() {
		notAll, shortened = channels.TextNotAllShort, channels.TextShortenedHere
	}
	if !f.All() {
		shown := f.Shown
		if d.measuring {
			shown = f.Total // it has the most digits
		}
		t.heading(say(notAll, "shown", strconv.Itoa(shown), "total", strconv.Itoa(f.Total), "id", i.Short))
	}
	if f.Shortened || d.measuring && len(i.Rows) > 0 {
		t.line(say(shortened, "id", i.Short))
	}
}

// agentText lays out what the agent said of the call, as much as there is room for.
func (d drawing) agentText(t *rich) {
	own := d.ownWords()
	if len(own) == 0 {
		return
	}
	if d.own == 0 {
		cut := channels.TextWordsCut
		if !d.alone() {
			cut = channels.TextWordsCutShort
		}
		t.line(d.card.Say(cut, "id", d.item.Short))
		return
	}
	if d.alone() {
		t.cut()
	}
	t.heading(d.card.Say(channels.TextOwnWords))
	for _, r := range own {
		t.row(r)
	}
}

// reason is why a person is asked, in the words of the policy.
func (d drawing) reason(t *rich) {
	if d.item.Why != "" && d.why > 0 {
		t.fact(channels.Fact{Label: d.card.Say(channels.TextWhy), Value: d.item.Why}, d.why)
	}
}

// sentences tell what will happen, and what happened to the request. The second stands in the plain style, that no
// label and no value has.
func (d drawing) sentences(t *rich) {
	t.heading(channels.CutEnd(d.item.Summary, d.will, measure))
	t.line(shorten(d.item.Sentence, d.sentence))
	if len(d.item.Progress) > 0 {
		for line := range strings.SplitSeq(shorten(strings.Join(d.item.Progress, "\n"), d.sentence), "\n") {
			t.heading(line)
		}
	}
}

// notices are the remarks on the request. That a reason is needed is told in other words than where it
// must be typed: here the buttons ask for it, and a dialog is where it is asked.
func (d drawing) notices(t *rich) {
	typed := d.card.Say(channels.TextReasonNeeded, "id", d.item.Short)
	for _, n := range d.item.Notices {
		s := n.Text
		switch {
		case s == typed && d.glance:
			continue
		case s == typed && d.number > 0:
			s = d.card.Say(channels.TextReasonAsked)
		case s == typed:
			s = "✍ " + d.card.Say(channels.TextDialogRequired)
		case d.number > 0:
			s = n.Short
		}
		t.line(shorten(s, d.notice))
	}
}

// ownWords are the agent's own, as much of them as there is room for.
func (d drawing) ownWords() (rows []channels.Row) {
	i := d.item
	if i.Rationale != "" {
		rows = append(rows, channels.Row{Key: d.card.Say(channels.TextRationale), Value: shorten(i.Rationale, d.own),
			Lines: strings.Contains(i.Rationale, "\n")})
	}
	if i.Preview == "" {
		return rows
	}
	preview := channels.Row{Key: d.card.Say(channels.TextPreview), Value: shorten(i.Preview, d.own),
		Lines: strings.Contains(i.Preview, "\n")}
	fitted := d.card.FitDiff(i.Diff, maxDiffLine, d.own, measure,
		func(l channels.DiffLine) int { return measure(l.Text) + 1 })
	if len(fitted) > 0 {
		var lines []string
		for _, l := range fitted {
			lines = append(lines, l.Text)
		}
		preview.Gloss, preview.Value, preview.Lines = channels.DiffCount(i.Diff), strings.Join(lines, "\n"), true
	}
	return append(rows, preview)
}

// foot names one of several requests, where it can be read, and when it must be decided. It is our own words only.
func (d drawing) foot(t *rich) {
	i := d.item
	if d.fact > 0 && linkable(i.Link) {
		t.link(i.Link, i.Short)
	} else {
		t.text(i.Short)
	}
	s := " #" + i.Hash
	switch {
	case i.DeadlineAt == "", slices.ContainsFunc(d.common, func(f channels.Fact) bool { return f.Value == until(i) }):
	case d.fact > 0:
		s += " ⏳ " + until(i)
	default:
		s += " ⏳ " + i.DeadlineAt
	}
	t.line(s)
}

// linkable reports whether there is a link, and it can stand in a message.
func linkable(link string) bool {
	return link != "" && measure(link) <= maxURL/2 && !strings.ContainsAny(link, "|<> ")
}

// until is a deadline, with how far off it was when the card was made.
func until(i channels.Item) string {
	if i.DeadlineIn == "" {
		return i.DeadlineAt
	}
	return i.DeadlineAt + " (" + i.DeadlineIn + ")"
}

// deadline is when a request must be decided, in the zone of whoever reads it; "" where it is over.
func (d drawing) deadline() string {
	i := d.item
	if i.Deadline.IsZero() {
		return ""
	}
	s := "⏳ " + escape(d.card.Say(channels.TextDeadline)) + " " + date(i.Deadline, i.DeadlineAt)
	if i.DeadlineIn != "" {
		s += " (" + escape(i.DeadlineIn) + ")"
	}
	return s
}

// names are a request's id, the beginning of its hash, and where it can be read.
func (d drawing) names() string {
	say, i := d.card.Say, d.item
	s := escape(say(channels.TextRequest) + " " + i.Short + " · " + say(channels.TextHash) + " " + i.Hash)
	if linkable(i.Link) {
		s += " · <" + escape(i.Link) + "|" + escape(say(channels.TextOpen)) + ">"
	}
	return s
}

// open is the button that opens the request's page, none where it has no link.
func (d drawing) open() []sdk.BlockElement {
	if d.item.Link == "" || measure(d.item.Link) > maxURL/2 {
		return nil
	}
	b := sdk.NewButtonBlockElement(actionOpen, d.item.ID, words(shorten(d.card.Say(channels.TextOpen), maxButton)))
	return []sdk.BlockElement{b.WithURL(d.item.Link)}
}

// date is a time in the zone of whoever reads it.
func date(t time.Time, otherwise string) string {
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time}|%s>", t.Unix(), escape(otherwise))
}

// head is a message's heading, of a request with this risk.
func head(c channels.Card, title string, i channels.Item) sdk.Block {
	s := risk(c, i) + " · " + title
	if len(c.Items) > 1 {
		s = channels.RiskIcon(i.Risk) + " " + c.Risks() + " · " + title
	}
	if c.PendingCount() == 0 {
		s = i.State.Icon() + " " + title + " · " + c.Say(channels.RiskText(i.Risk))
		if len(c.Items) > 1 {
			s = title
		}
	}
	return sdk.NewHeaderBlock(words(shorten(s, maxHeader)))
}

// risk is a request's risk, as a colour and in words.
func risk(c channels.Card, i channels.Item) string {
	return channels.RiskIcon(i.Risk) + " " + c.Risk(i.Risk)
}

// words is a text object in which no markup is read.
func words(s string) *sdk.TextBlockObject {
	return sdk.NewTextBlockObject(sdk.PlainTextType, s, false, false)
}

func plain(s string, limit int) sdk.Block {
	return sdk.NewSectionBlock(words(shorten(s, limit)), nil, nil)
}

// remarks is a line of our own words.
func remarks(parts ...string) sdk.Block {
	var elements []sdk.MixedElement
	for _, s := range parts {
		if s != "" {
			elements = append(elements, sdk.NewTextBlockObject(sdk.MarkdownType, s, false, true))
		}
	}
	return sdk.NewContextBlock("", elements...)
}

// buttons are Approve and Deny. The block's id is one of its kind in the message, and not the same
// before and after an edit.
func buttons(c channels.Card, block string, on channels.Button, yes, no string) *sdk.ActionBlock {
	b := bareButtons(c, block, on, yes, no)
	for n, style := range []sdk.Style{sdk.StylePrimary, sdk.StyleDanger} {
		b.Elements.ElementSet[n].(*sdk.ButtonBlockElement).WithStyle(style)
	}
	return b
}

// buttonsFor draws the buttons for a risk: at a critical one neither has a colour that says yes.
func buttonsFor(r approval.Risk) func(channels.Card, string, channels.Button, string, string) *sdk.ActionBlock {
	if r == approval.RiskCritical {
		return bareButtons
	}
	return buttons
}

// more is the menu of what else can be done about a request. A value says what, and of which: the menu has but one
// action_id.
func more(m channels.More) *sdk.OverflowBlockElement {
	var options []*sdk.OptionBlockObject
	add := func(name string, intent chat.Intent) {
		if name != "" {
			options = append(options, sdk.NewOptionBlockObject(string(intent)+":"+m.ID, words(shorten(name, maxButton)), nil))
		}
	}
	add(m.Extend, chat.IntentExtend)
	add(m.Freeze, chat.IntentFreeze)
	return sdk.NewOverflowBlockElement(actionMore, options...)
}

// bareButtons are the same without colours.
func bareButtons(c channels.Card, block string, on channels.Button, yes, no string) *sdk.ActionBlock {
	if c.Kind == approval.KindEdit {
		block += "/" + strconv.Itoa(c.PendingCount())
		if c.Shows.Version > 1 {
			block += "v" + strconv.Itoa(c.Shows.Version)
		}
	}
	return sdk.NewActionBlock(block,
		sdk.NewButtonBlockElement(actionApprove, on.Value(), words(shorten(yes, maxButton))),
		sdk.NewButtonBlockElement(actionDeny, on.Value(), words(shorten(no, maxButton))))
}

// rich collects rich text: styled pieces, of which none is read as markup. What is foreign is always set
// apart by its style from what is ours, so that no value can pass for a label or a row.
type rich struct {
	blocks   []*sdk.RichTextBlock
	section  []sdk.RichTextSectionElement
	elements []sdk.RichTextElement
	units    int
}

func (t *rich) piece(s string, style *sdk.RichTextSectionTextStyle) {
	if s == "" {
		return
	}
	if n := len(t.section); n > 0 && s == "\n" && style == nil { // each piece has a price of its own
		if last, ok := t.section[n-1].(*sdk.RichTextSectionTextElement); ok && last.Style == nil {
			last.Text += s
			return
		}
	}
	t.section = append(t.section, sdk.NewRichTextSectionTextElement(s, style))
}

func (t *rich) text(s string)   { t.piece(s, nil) }
func (t *rich) strong(s string) { t.piece(s, &sdk.RichTextSectionTextStyle{Bold: true}) }
func (t *rich) code(s string)   { t.piece(s, &sdk.RichTextSectionTextStyle{Code: true}) }

func (t *rich) link(url, s string) {
	t.section = append(t.section, sdk.NewRichTextSectionLinkElement(url, s, nil))
}

// end ends a line.
func (t *rich) end() { t.text("\n") }

// line adds a line, where there is one.
func (t *rich) line(s string) {
	if s != "" {
		t.text(s)
		t.end()
	}
}

func (t *rich) heading(s string) { t.strong(s + "\n") }

func (t *rich) fact(f channels.Fact, limit int) {
	t.strong(f.Label + "  ")
	t.text(shorten(f.Value, limit))
	t.end()
}

// row adds one row of args. Its gloss is ours: it stands outside the value's style.
func (t *rich) row(r channels.Row) {
	key, gloss := r.Prefix()+r.Key, ""
	if r.Gloss != "" {
		gloss = "  " + r.Gloss
	}
	size := measure(key) + measure(r.Value) + measure(gloss) + blockMargin
	if t.units+size > maxRichText {
		t.cut()
	}
	t.units += size
	t.strong(key)
	switch {
	case r.Open:
		t.end()
	case r.Lines:
		t.text(gloss)
		t.preformatted(r.Value)
	default:
		t.text("  ")
		t.code(r.Value)
		t.text(gloss)
		t.end()
	}
}

// preformatted adds lines as they are.
func (t *rich) preformatted(s string) {
	t.flush()
	t.elements = append(t.elements, &sdk.RichTextPreformatted{Type: sdk.RTEPreformatted,
		Elements: []sdk.RichTextSectionElement{sdk.NewRichTextSectionTextElement(s, nil)}})
}

// flush ends a section. Its last line needs no break.
func (t *rich) flush() {
	if n := len(t.section); n > 0 {
		if last, ok := t.section[n-1].(*sdk.RichTextSectionTextElement); ok {
			if last.Text = strings.TrimSuffix(last.Text, "\n"); last.Text == "" {
				t.section = t.section[:n-1]
			}
		}
	}
	if len(t.section) > 0 {
		t.elements = append(t.elements, sdk.NewRichTextSection(t.section...))
	}
	t.section = nil
}

// cut ends a block.
func (t *rich) cut() {
	t.flush()
	if len(t.elements) > 0 {
		t.blocks = append(t.blocks, sdk.NewRichTextBlock("", t.elements...))
	}
	t.elements, t.units = nil, 0
}

// done returns the blocks. Their ids are left to Slack, which makes them unique.
func (t *rich) done() []sdk.Block {
	t.cut()
	blocks := make([]sdk.Block, len(t.blocks))
	for i, b := range t.blocks {
		blocks[i] = b
	}
	return blocks
}

// weigh measures all strings in blocks, the names of their types and their ids too: as Slack seems to count
// what is too long for a message.
func weigh(blocks ...sdk.Block) int {
	n := 0
	for _, b := range blocks {
		text, err := json.Marshal(b)
		if err != nil {
			return maxTotal + 1 // it cannot be sent, and so not fit
		}
		n += weighJSON(text)
	}
	return n
}

// weighJSON measures the strings among the values of JSON.
func weighJSON(text []byte) int {
	n := 0
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		kind, _ := d.StackIndex(d.StackDepth())
		t, err := d.ReadToken()
		if err != nil {
			return n
		}
		if _, length := d.StackIndex(d.StackDepth()); t.Kind() == '"' && !(kind == '{' && length%2 == 1) {
			n += measure(t.String())
		}
	}
}

// measure counts as many units as Slack could.
func measure(s string) int {
	n := 0
	for _, r := range s {
		switch r {
		case '&':
			n += len("&amp;")
		case '<', '>':
			n += len("&lt;")
		default:
			n += utf16.RuneLen(r)
		}
	}
	return n
}

func escape(s string) string { return slackutilsx.EscapeMessage(s) }

func shorten(s string, limit int) string { return legible.ShortenMiddle(s, limit, measure) }
