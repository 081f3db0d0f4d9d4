package slack

import (
	"bytes"
	"cmp"
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
	"countersign/internal/chat"
	"countersign/internal/locale"
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
	maxSentences   = 1400 // of what will happen by each request of several, before they are drawn one by one
	maxSentence    = 120  // of one of them
	maxSaid        = 150  // of a fact that is told once for several
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
	will, tool, sentence, why, fact, notice, server, own int
	bare                                                 bool
}

var levels = []measures{
	{will: 600, tool: 300, sentence: 800, why: 800, fact: 300, notice: 400, server: 120, own: 1500},
	{will: 500, tool: 300, sentence: 700, why: 500, fact: 200, notice: 300, server: 100, own: 400},
	{will: 300, tool: 300, sentence: 400, why: 250, fact: 120, notice: 250, server: 80, own: 120},
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
		return once(c), nil
	case len(c.Items) == 0 && c.Address != "":
		open := sdk.NewButtonBlockElement(actionOpen, "", words(shorten(c.Opens, maxButton)))
		open.URL = c.Address
		return append(saying(or(c.Text, "…")), sdk.NewActionBlock("open", open)), nil
	case len(c.Items) == 0:
		return saying(or(c.Text, "…")), nil
	case len(c.Items) == 1 && c.BatchID == "":
		return oneOf(c, c.Items[0])
	}
	blocks, err := several(c, min(maxSentence, maxSentences/len(c.Items)))
	if err != nil { // what will happen by each stands beside its args too
		blocks, err = several(c, 0)
	}
	return blocks, err
}

// once is a question whose answer counts once: what the card said comes first, then its two buttons.
func once(c channels.Card) []sdk.Block {
	t := new(rich)
	if c.Once.Summary != "" {
		t.heading(c.Once.Risk)
		t.heading(channels.CutEnd(c.Once.Summary, levels[0].will, measure))
	}
	yes := sdk.NewButtonBlockElement(string(chat.IntentConfirm), c.Once.ID, words(shorten(c.Once.Yes, maxButton)))
	no := sdk.NewButtonBlockElement(string(chat.IntentBack), c.Once.ID, words(shorten(c.Once.No, maxButton)))
	return append(t.finish(), plain(or(c.Text, "…"), maxObject),
		sdk.NewActionBlock("once", yes.WithStyle(sdk.StylePrimary), no))
}

// saying is a reply's text: a sentence or a few lines as words, what is longer as it is, line for line.
func saying(text string) []sdk.Block {
	if measure(text) <= maxObject && strings.Count(text, "\n") < maxLines {
		return []sdk.Block{plain(text, maxObject)}
	}
	t := new(rich)
	for _, piece := range channels.Split(shorten(text, maxPage), maxRichText, measure) {
		t.addPreformatted(or(strings.TrimSuffix(piece, "\n"), " ")) // the end of the block ends its last line
		t.endBlock()
	}
	return t.finish()
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

// several draws a batch, or the cards of a reply. First comes what will happen by each, in a sentence of at most
// sentence.
func several(c channels.Card, sentence int) ([]sdk.Block, error) {
	worst, common, deadline := alike(c)
	said, shared := common, ""
	if deadline != "" {
		common = append(common, channels.Fact{Label: c.Say(channels.TextDeadline), Value: deadline})
		shared = drawing{card: c, item: worst}.deadline()
	}
	var blocks []sdk.Block
	if c.Kind == approval.KindReply {
		blocks = append(blocks, plain(or(c.Text, "…"), maxObject/3))
	} else {
		blocks = append(blocks, head(c, c.Text, worst))
	}
	t := new(rich)
	if c.Kind != approval.KindReply && sentence > 0 {
		t.sentences(c, sentence)
		t.endBlock()
	}
	for _, f := range said {
		t.fact(f, maxSaid)
	}
	blocks = append(blocks, t.finish()...)
	if shared != "" {
		blocks = append(blocks, remarks(shared))
	}
	end := append(together(c), remarks(escape(c.Say(channels.TextReadAll))))
	left := maxTotal - weigh(blocks...) - weigh(end...)
	dividers := len(blocks)+len(end)+4*len(c.Items) <= maxBlocks
	left -= weigh(sdk.NewDividerBlock())
	if dividers {
		left -= len(c.Items) * weigh(sdk.NewDividerBlock())
	}
	drawn, err := shareOut(c, common, left)
	if err != nil {
		return nil, err
	}
	for _, own := range drawn {
		if dividers {
			blocks = append(blocks, sdk.NewDividerBlock())
		}
		blocks = append(blocks, own...)
	}
	if c.Together() && len(blocks)+len(end) < maxBlocks { // the last one's buttons stand apart from those for all
		blocks = append(blocks, sdk.NewDividerBlock())
	}
	return append(blocks, end...), nil
}

// shareOut draws each of several requests, all of them in at most room. Those that need least come first: what they
// leave of an equal share is for those that need more, wherever they stand.
func shareOut(c channels.Card, common []channels.Fact, room int) ([][]sdk.Block, error) {
	at := func(n int) func(measures) drawing {
		return func(m measures) drawing {
			return drawing{measures: m, card: c, item: c.Items[n], number: n + 1, common: common}
		}
	}
	order, needs := make([]int, len(c.Items)), make([]int, len(c.Items))
	for n := range c.Items {
		whole, err := fit(maxTotal, at(n))
		if err != nil {
			return nil, err
		}
		order[n], needs[n] = n, weigh(whole...)
	}
	slices.SortStableFunc(order, func(a, b int) int { return needs[a] - needs[b] })
	drawn := make([][]sdk.Block, len(c.Items))
	for done, n := range order {
		own, err := fit(room/(len(order)-done), at(n))
		if err != nil {
			return nil, err
		}
		room -= weigh(own...)
		drawn[n] = own
	}
	return drawn, nil
}

// alike is what several requests have in common, of which a card tells once: facts, and a deadline ("": they have not
// the same). worst is the one with the highest risk.
func alike(c channels.Card) (worst channels.Item, common []channels.Fact, deadline string) {
	worst, common = c.Items[0], factsOf(c, c.Items[0])
	for _, i := range c.Items {
		if i.Risk.Rank() > worst.Risk.Rank() {
			worst = i
		}
		common = slices.DeleteFunc(slices.Clone(common), func(f channels.Fact) bool {
			return !slices.Contains(factsOf(c, i), f)
		})
	}
	deadline = until(c.Words, worst)
	for _, i := range c.Items {
		if i.Pending() && until(c.Words, i) != deadline {
			deadline = ""
		}
	}
	return worst, common, deadline
}

// together are the buttons for all that is on a card, with what they leave out; none where there is nothing to decide
// so.
func together(c channels.Card) []sdk.Block {
	if !c.Together() {
		return nil
	}
	hint := c.Say(channels.TextBatchHint)
	if left := c.LeftOut(); left != "" {
		hint = left + "\n" + hint
	}
	return []sdk.Block{plain(hint, maxObject),
		buttonsFor(c.Worst())(c, "all", c.All(), c.Say(channels.TextApproveAll), c.Say(channels.TextDenyAll))}
}

// factsOf are the facts of a request that several may have in common, of which what all have is told once. Why they are
// asked is one of them where it is told whole there.
func factsOf(c channels.Card, i channels.Item) []channels.Fact {
	if i.Why == "" || measure(i.Why) > maxSaid {
		return i.Facts
	}
	return append([]channels.Fact{whyOf(c, i)}, i.Facts...)
}

func whyOf(c channels.Card, i channels.Item) channels.Fact {
	return channels.Fact{Label: c.Say(channels.TextWhy), Value: i.Why}
}

// sentences lists what will happen by each of several requests.
func (t *rich) sentences(c channels.Card, most int) {
	for n, i := range c.Items {
		sign := channels.RiskIcon(i.Risk)
		if !i.Pending() {
			sign = i.State.Icon()
		}
		t.line(fmt.Sprintf("%d. %s %s", n+1, sign, channels.CutEnd(i.Summary, most, measure)))
	}
}

// fit lays out one request in at most room, the roomiest way in which all its args are there.
func fit(room int, at func(measures) drawing) ([]sdk.Block, error) {
	for n, m := range levels {
		d := at(m)
		rows := d.lead()
		most := d
		most.measuring = true
		fixed := weigh(most.blocks(channels.Fitted{Total: d.item.Total})...)
		if fixed > room {
			continue
		}
		f := channels.FitRows(rows, d.item.Total, room-fixed, maxValue, measure, cost)
		if good := len(f.Rows) == len(rows) && (!f.Shortened || n > 0); !good && n < len(levels)-1 {
			continue
		}
		f.Shortened = f.Shortened || d.leads != nil && (d.item.Change.Cut || !slices.Equal(d.leads, d.item.Change.Diff))
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

	leads []channels.DiffLine // as much as is shown of the diff in front of the args; nil: none is there

	measuring bool // laid out without rows, and with every remark about them that could be needed
}

// lead puts the item's change in front, where there is one and room for it, and returns the rows that are left to be
// shown.
func (d *drawing) lead() []channels.Row {
	if d.own > 0 && d.item.Change != nil {
		d.leads = d.fitDiff(d.item.Change.Diff, min(2*d.own, maxValue))
	}
	if d.leads == nil {
		return d.item.Rows
	}
	return d.item.Beside()
}

// fitDiff is as much of a diff as is shown.
func (d drawing) fitDiff(lines []channels.DiffLine, room int) []channels.DiffLine {
	return d.card.FitDiff(lines, maxDiffLine, room, measure, func(l channels.DiffLine) int { return measure(l.Text) + 1 })
}

// alone reports whether the request has a card of its own.
func (d drawing) alone() bool { return d.number == 0 }

// blocks lays out one request with as much of the args as f says.
func (d drawing) blocks(f channels.Fitted) []sdk.Block {
	i, say := d.item, d.card.Say
	t := new(rich)
	d.heading(t)
	d.change(t)
	d.args(t, f)
	if d.left > 0 {
		t.line(d.card.Words.Count(string(channels.TextDialogMore), d.left))
	}
	if d.alone() {
		t.endBlock() // an arg may be called as what stands below it is
	}
	d.notices(t)
	d.reason(t)
	d.agentText(t)
	if !d.alone() {
		d.foot(t)
	}
	blocks := t.finish()
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
		blocks = append(blocks, longer(i.Grant, block, d.will))
	}
	return blocks
}

// longer is the menu of a decided request that has its approval answer the same call again, beside which call that is.
func longer(g *channels.Grant, block string, most int) *sdk.SectionBlock {
	var options []*sdk.OptionBlockObject
	for _, choice := range g.Choices {
		b := g.Button(choice)
		options = append(options, sdk.NewOptionBlockObject(string(b.Intent)+":"+b.Value(),
			words(shorten(choice.Name, maxButton)), nil))
	}
	menu := sdk.NewOptionsSelectBlockElement(sdk.OptTypeStatic, words(shorten(g.Ask, maxPlaceholder)), actionGrant,
		options...)
	return sdk.NewSectionBlock(words(channels.CutEnd(g.About, most+maxPlaceholder, measure)), nil, sdk.NewAccessory(menu),
		sdk.SectionBlockOptionBlockID(strings.Replace(block, "decide", "grant", 1)))
}

// heading tells what will happen, and by which tool. Of one among others, or at a glance, the risk comes first; else it
// stands above.
func (d drawing) heading(t *rich) {
	i, first := d.item, risk(d.card, d.item)+" · "
	switch {
	case !d.alone():
		first = fmt.Sprintf("%d. %s · ", d.number, riskAmong(d.card, i))
	case !d.glance:
		d.sentences(t)
		t.endBlock()
		t.fact(channels.Fact{Label: d.card.Say(channels.TextTool), Value: i.Tool}, d.tool)
		return
	}
	t.heading(first + channels.CutEnd(i.Summary, d.will, measure))
	t.text(shorten(i.Tool, d.tool))
	if !i.Pending() {
		t.strong(" · " + i.State.Icon() + " " + i.Title)
	}
	t.end()
	d.standing(t)
}

// args tells what of the call's args is not there, and lays them out.
func (d drawing) args(t *rich, f channels.Fitted) {
	i, say := d.item, d.card.Say
	if d.alone() {
		t.endBlock()
	}
	switch {
	case len(i.Rows) == 0:
		t.line(say(channels.TextNoArgs))
	case d.alone():
		t.heading(say(channels.TextArgs))
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
}

// change lays out the diff that leads, and says what of it was checked.
func (d drawing) change(t *rich) {
	if d.leads == nil {
		return
	}
	if d.alone() {
		t.endBlock()
	}
	c, say := d.item.Change, d.card.Say
	t.row(channels.Row{Key: say(channels.TextChange, "key", c.Key), Gloss: channels.DiffCount(c.Diff), Lines: true,
		Value: joinLines(d.leads)})
	t.line(cmp.Or(d.item.PreviewRead, say(channels.TextChangeHeld, "key", c.Key)))
}

// joinLines returns a diff as one text.
func joinLines(diff []channels.DiffLine) string {
	lines := make([]string, len(diff))
	for n, l := range diff {
		lines[n] = l.Text
	}
	return strings.Join(lines, "\n")
}

// agentText lays out what the agent said of the call, as much as there is room for: as words, set apart as a quote.
func (d drawing) agentText(t *rich) {
	i, say := d.item, d.card.Say
	preview := i.Preview != "" && d.leads == nil
	if i.Rationale == "" && !preview {
		return
	}
	if d.own == 0 {
		cut := channels.TextWordsCut
		if !d.alone() {
			cut = channels.TextWordsCutShort
		}
		t.line(say(cut, "id", i.Short))
		return
	}
	if d.alone() {
		t.endBlock()
	}
	if i.Rationale != "" || i.PreviewRead == "" {
		t.heading(say(channels.TextOwnWords))
	}
	if i.Rationale != "" {
		t.quote(say(channels.TextRationale), shorten(i.Rationale, d.own))
	}
	if !preview {
		return
	}
	if i.PreviewRead != "" {
		t.heading(i.PreviewRead)
	}
	if lines := d.fitDiff(i.Diff, d.own); len(lines) > 0 && i.Unlike {
		t.quote(say(channels.TextPreview), joinLines(lines))
		return
	} else if len(lines) > 0 {
		t.row(channels.Row{Key: say(channels.TextPreview), Gloss: channels.DiffCount(i.Diff), Lines: true,
			Value: joinLines(lines)})
		return
	}
	t.quote(say(channels.TextPreview), shorten(i.Preview, d.own))
}

// reason is why a person is asked, in the words of the policy; who asks, from where; and what the tool's server says of
// the tool.
func (d drawing) reason(t *rich) {
	i, say := d.item, d.card.Say
	if why := whyOf(d.card, i); i.Why != "" && d.why > 0 && !slices.Contains(d.common, why) {
		t.fact(why, d.why)
	}
	for _, fact := range i.Facts {
		if d.fact > 0 && !slices.Contains(d.common, fact) {
			t.fact(fact, d.fact)
		}
	}
	if i.ServerWords != "" && d.server > 0 {
		t.fact(channels.Fact{Label: say(channels.TextServerWords), Value: channels.CutEnd(i.ServerWords, d.server, measure)},
			d.server)
	}
}

// sentences tell what will happen, and what happened to the request.
func (d drawing) sentences(t *rich) {
	t.heading(channels.CutEnd(d.item.Summary, d.will, measure))
	d.standing(t)
}

// standing tells what is to be known first, and what happened to the request. The second stands in the plain style,
// that no label and no value has.
func (d drawing) standing(t *rich) {
	for _, n := range d.item.Notices {
		s := n.Text
		if d.number > 0 {
			s = n.Short
		}
		if n.First {
			t.heading(shorten(s, d.notice))
		}
	}
	t.line(shorten(d.item.Sentence, d.sentence))
	if len(d.item.Progress) > 0 {
		for line := range strings.SplitSeq(shorten(strings.Join(d.item.Progress, "\n"), d.sentence), "\n") {
			t.heading(line)
		}
	}
}

// notices are the remarks on the request. A dialog asks for a reason itself.
func (d drawing) notices(t *rich) {
	for _, n := range d.item.Notices {
		s := n.Text
		if n.First || n.Reason && d.glance {
			continue
		}
		if d.number > 0 {
			s = n.Short
		}
		t.line(shorten(s, d.notice))
	}
}

// foot says of one of several requests when it must be decided, and then which it is and where it can be read. It is
// our own words only.
func (d drawing) foot(t *rich) {
	i := d.item
	end := until(d.card.Words, i)
	switch {
	case i.DeadlineAt == "", slices.ContainsFunc(d.common, func(f channels.Fact) bool { return f.Value == end }):
	case d.fact > 0:
		t.strong("⏳ " + end)
		t.text(" · ")
	default:
		t.text("⏳ " + i.DeadlineAt + " · ")
	}
	if d.fact > 0 {
		t.text(d.card.Say(channels.TextRequest) + " ")
	}
	if d.fact > 0 && linkable(i.Link) {
		t.link(i.Link, i.Short)
		t.end()
		return
	}
	t.line(i.Short)
}

// linkable reports whether there is a link, and it can stand in a message.
func linkable(link string) bool {
	return link != "" && measure(link) <= maxURL/2 && !strings.ContainsAny(link, "|<> ")
}

// until is a deadline, with how far off it was when the card was made.
func until(w *locale.Language, i channels.Item) string {
	if i.DeadlineIn == "" {
		return i.DeadlineAt
	}
	return w.And(i.DeadlineAt, i.DeadlineIn)
}

// deadline is when a request must be decided; "" where it is over. Where several people read it, Slack tells each of
// them by the clock and the zone of theirs.
func (d drawing) deadline() string {
	i := d.item
	if i.Deadline.IsZero() {
		return ""
	}
	at := escape(i.DeadlineAt)
	if d.card.Shared {
		at = date(i.Deadline, i.DeadlineAt)
	}
	if i.DeadlineIn != "" {
		at = d.card.Words.And(at, escape(i.DeadlineIn))
	}
	return "⏳ " + escape(d.card.Say(channels.TextDeadline)) + " " + at
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

// date is a time in the zone of the reader.
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

// risk is a request's risk, as a colour and in words, and what approving it may do.
func risk(c channels.Card, i channels.Item) string {
	return channels.RiskIcon(i.Risk) + " " + c.Risk(i.Risk)
}

// riskAmong is the risk of one request among others, each of which would say what it may do: that of the critical ones
// stands out.
func riskAmong(c channels.Card, i channels.Item) string {
	if i.Risk == approval.RiskCritical {
		return risk(c, i)
	}
	return channels.RiskIcon(i.Risk) + " " + c.Say(channels.RiskText(i.Risk))
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
		t.endBlock()
	}
	t.units += size
	t.strong(key)
	switch {
	case r.Open:
		t.end()
	case r.Lines:
		t.text(gloss)
		t.addPreformatted(r.Value)
	default:
		t.text("  ")
		t.code(r.Value)
		t.text(gloss)
		t.end()
	}
}

// quote adds a person's words, under a label. The bar beside them sets them apart.
func (t *rich) quote(label, s string) {
	size := measure(label) + measure(s) + blockMargin
	if t.units+size > maxRichText {
		t.endBlock()
	}
	t.units += size
	t.strong(label)
	t.flush()
	t.elements = append(t.elements, &sdk.RichTextQuote{Type: sdk.RTEQuote,
		Elements: []sdk.RichTextSectionElement{sdk.NewRichTextSectionTextElement(s, nil)}})
}

// addPreformatted adds lines as they are.
func (t *rich) addPreformatted(s string) {
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

// endBlock ends a block.
func (t *rich) endBlock() {
	t.flush()
	if len(t.elements) > 0 {
		t.blocks = append(t.blocks, sdk.NewRichTextBlock("", t.elements...))
	}
	t.elements, t.units = nil, 0
}

// finish returns the blocks. Their ids are left to Slack, which makes them unique.
func (t *rich) finish() []sdk.Block {
	t.endBlock()
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
