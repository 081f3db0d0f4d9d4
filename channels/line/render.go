package line

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	api "github.com/line/line-bot-sdk-go/v8/linebot/messaging_api"
	"github.com/rivo/uniseg"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/channels"
	"countersign/internal/chat"
	"countersign/internal/locale"
)

// The platform's limits, and ours below them. Lengths of text are in UTF-16 code units unless it says
// otherwise, sizes in bytes of JSON.
const (
	maxMessages     = 5
	maxText         = 5000
	maxAltText      = 1500
	maxBubble       = 30_000
	maxCarousel     = 50_000
	maxButtonLabel  = 40  // grapheme clusters
	maxDisplayText  = 300 // both in clusters and in units
	maxPostbackData = 300
	maxFillIn       = 300 // of the keyboard that a button opens; also what a tap on a message action says
	maxQuickLabel   = 20
	maxQuickReplies = 13
	maxURI          = 1000
	maxGrantAsk     = 800

	bubbleSize       = maxBubble - 500
	carouselSize     = maxCarousel - 2000
	summaryLines     = 3600 // of JSON, for what will happen by each request of a batch
	bubblesPerScroll = 6    // of a batch's requests: more would leave each too little room for its args

	// pageSize is what a reply of text only holds in its messages: each is filled to three quarters at least.
	pageSize = maxMessages*(maxText/4*3) - 750

	maxValue  = 8000 // of one arg
	maxDiff   = 160  // of one line of a diff
	roomyRows = 24   // up to as many rows stand in two columns
)

// measures are how much of the texts around the args is shown, from what reads best to what leaves the
// args the most room. own is for the agent's own words, which give way first.
type measures struct{ will, tool, sentence, why, fact, notice, link, server, own int }

var levels = []measures{
	{will: 600, tool: 300, sentence: 1500, why: 1000, fact: 300, notice: 400, link: maxURI, server: 120, own: 1500},
	{will: 500, tool: 300, sentence: 800, why: 600, fact: 200, notice: 300, link: maxURI, server: 100, own: 500},
	{will: 400, tool: 300, sentence: 500, why: 300, fact: 120, notice: 250, link: 300, server: 80, own: 160},
	{will: 250, tool: 120, sentence: 250, why: 160, fact: 80, notice: 200, link: 200},
	{will: 120, tool: 60, sentence: 120, why: 60, fact: 40, notice: 100},
}

// Colours of the header, dark enough for white text, and of the rest.
const (
	white   = "#FFFFFF"
	ink     = "#111827"
	faint   = "#6B7280"
	paper   = "#F3F4F6"
	alarm   = "#B91C1C"
	approve = "#15803D"
	deny    = "#B91C1C"
	settled = "#4B5563"
	added   = "#166534"
	removed = "#991B1B"
)

func riskColour(r approval.Risk) string {
	switch r {
	case approval.RiskLow:
		return "#15803D"
	case approval.RiskMedium:
		return "#A16207"
	case approval.RiskCritical:
		return "#7F1D1D"
	}
	return "#C2410C"
}

// Render makes a JSON array of LINE message objects: for a card one Flex bubble, for a batch carousels
// of a summary and one bubble for each request, for a reply its text, in several messages where it is
// long, a bubble for each of its cards, and what it asks. LINE cannot edit, so an outcome is an error.
func (ch *Channel) Render(c channels.Card) (channels.Body, error) {
	ms, err := messages(c)
	if err != nil {
		return nil, err
	}
	if len(ms) > maxMessages {
		return nil, fmt.Errorf("line: a card of %d messages", len(ms))
	}
	return json.Marshal(ms)
}

func messages(c channels.Card) ([]api.MessageInterface, error) {
	switch {
	case c.Kind == approval.KindEdit:
		return nil, fmt.Errorf("line: a message cannot be edited")
	case c.Kind == approval.KindReply, c.Waiting && len(c.Items) > 0:
		return answer(c)
	case len(c.Items) == 0:
		return nil, fmt.Errorf("line: a card without a request")
	case len(c.Items) == 1:
		m, err := single(c, c.Items[0])
		return []api.MessageInterface{m}, err
	}
	// The bubbles of a carousel are all as tall as the tallest: what stands above the others is no part of one.
	first := &api.FlexMessage{AltText: c.Alt(maxAltText, measure), Contents: summary(c)}
	return scroll([]api.MessageInterface{first}, c, c.Items)
}

// Page returns how much text one reply holds, in UTF-16 code units.
func (ch *Channel) Page() (limit int, unit func(string) int) { return pageSize, measure }

// answer is a text, cards, and a question: the quick replies to that show only on the last message.
func answer(c channels.Card) ([]api.MessageInterface, error) {
	var ms, last []api.MessageInterface
	if c.Once != nil {
		return []api.MessageInterface{once(c)}, nil
	}
	if c.Ask != "" {
		last = append(last, question(c, c.Ask))
	}
	switch {
	case len(c.Items) == 0 && c.Ask == "" &&
		(len(c.Suggest) > 0 || (c.More != nil || c.Grant != nil) && measure(c.Text) <= maxText):
		ms = append(ms, question(c, or(c.Text, "…")))
	case len(c.Items) == 0 && c.Address != "": // of an address in a text, LINE makes a link
		ms = append(ms, &api.TextMessage{Text: shorten(c.Text, maxText-measure(c.Address)-1) + "\n" + c.Address})
	case len(c.Items) == 0 && c.Ask == "":
		for _, s := range channels.Split(shorten(or(c.Text, "…"), pageSize), maxText, measure) {
			if s = strings.TrimSuffix(s, "\n"); s != "" {
				ms = append(ms, &api.TextMessage{Text: s})
			}
		}
	case c.Text != "" || len(c.Items) == 0:
		ms = append(ms, &api.TextMessage{Text: shorten(or(c.Text, "…"), maxText)})
	}
	if len(ms)+len(c.Items)+len(last) == 0 { // a text of line ends
		ms = append(ms, &api.TextMessage{Text: "…"})
	}
	if len(ms)+len(c.Items)+len(last) > maxMessages {
		ms, err := scroll(ms, c, c.Items)
		return append(ms, last...), err
	}
	for _, i := range c.Items {
		m, err := single(c, i)
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	return append(ms, last...), nil
}

// once is a question whose answer counts once: a bubble with its two buttons.
func once(c channels.Card) *api.FlexMessage {
	body := &api.FlexBox{Layout: api.FlexBoxLAYOUT_VERTICAL, Spacing: "sm"}
	if c.Once.Summary != "" {
		body.Contents = append(body.Contents, bold(c.Once.Risk, "sm", riskColour(c.Once.Level)),
			bold(channels.CutEnd(c.Once.Summary, levels[0].will, measure), "lg", ink))
	}
	body.Contents = append(body.Contents, text(shorten(or(c.Text, "…"), maxText/2), "md", ink))
	button := func(name string, intent chat.Intent, style api.FlexButtonSTYLE, colour string) *api.FlexButton {
		return &api.FlexButton{Flex: 1, Height: api.FlexButtonHEIGHT_SM, Style: style, Color: colour,
			Action: &api.PostbackAction{Label: label(name), Data: channels.Button{Intent: intent, ID: c.Once.ID}.Data(),
				DisplayText: legible.ShortenMiddle(name, maxDisplayText, stricter)}}
	}
	return &api.FlexMessage{AltText: c.Alt(maxAltText, measure), Contents: &api.FlexBubble{
		Size: api.FlexBubbleSIZE_MEGA,
		Body: body,
		Footer: &api.FlexBox{Layout: api.FlexBoxLAYOUT_VERTICAL, Spacing: "sm", Contents: []api.FlexComponentInterface{
			button(c.Once.Yes, chat.IntentConfirm, api.FlexButtonSTYLE_PRIMARY, approve),
			button(c.Once.No, chat.IntentBack, api.FlexButtonSTYLE_SECONDARY, ""),
		}},
	}}
}

// more are quick replies for what else can be done about a request.
func more(m *channels.More, g *channels.Grant) (items []api.QuickReplyItem) {
	add := func(name, said string, b channels.Button) {
		if name != "" {
			items = append(items, api.QuickReplyItem{Type: "action", Action: &api.PostbackAction{
				Label: legible.ShortenMiddle(name, maxQuickLabel, stricter), Data: b.Data(),
				DisplayText: legible.ShortenMiddle(said, maxDisplayText, stricter)}})
		}
	}
	if g != nil {
		for _, choice := range g.Choices {
			add(choice.Name, locale.Sentences(g.Ask, choice.Name), g.Button(choice))
		}
		add(g.No, g.No, channels.Button{Intent: chat.IntentBack, ID: g.Reply})
	}
	if m != nil {
		add(m.Extend, m.Extend, channels.Button{Intent: chat.IntentExtend, ID: m.ID})
		add(m.Freeze, m.Freeze, channels.Button{Intent: chat.IntentFreeze, ID: m.ID})
	}
	return items
}

// question is a text with answers to tap: why, or for how much longer. A reason comes back as typed words, as one's own
// does.
func question(c channels.Card, text string) *api.TextMessage {
	if c.Grant != nil {
		text = shorten(text, maxText-maxGrantAsk) + "\n" + channels.CutEnd(c.Grant.About, maxGrantAsk-1, measure)
	}
	m := &api.TextMessage{Text: shorten(text, maxText)}
	for _, s := range c.Suggest[:min(len(c.Suggest), maxQuickReplies)] {
		if m.QuickReply == nil {
			m.QuickReply = new(api.QuickReply)
		}
		m.QuickReply.Items = append(m.QuickReply.Items, api.QuickReplyItem{Type: "action", Action: &api.MessageAction{
			Label: legible.ShortenMiddle(s, maxQuickLabel, stricter),
			Text:  legible.ShortenMiddle(c.Answer+s, maxFillIn, stricter),
		}})
	}
	if others := more(c.More, c.Grant); len(others) > 0 {
		if m.QuickReply == nil {
			m.QuickReply = new(api.QuickReply)
		}
		m.QuickReply.Items = append(m.QuickReply.Items, others...)
	}
	return m
}

// single is a message of one request's bubble.
func single(c channels.Card, i channels.Item) (*api.FlexMessage, error) {
	b, err := bubble(c, i, bubbleSize)
	if err != nil {
		return nil, err
	}
	one := c
	one.Items, one.BatchID, one.Text = []channels.Item{i}, "", ""
	return &api.FlexMessage{AltText: one.Alt(maxAltText, measure), Contents: b}, nil
}

// scroll appends carousels of one bubble for each item.
func scroll(ms []api.MessageInterface, c channels.Card, items []channels.Item) ([]api.MessageInterface, error) {
	total := len(items)
	count := (total + bubblesPerScroll - 1) / bubblesPerScroll
	if len(ms)+count > maxMessages {
		return nil, fmt.Errorf("line: %d requests do not fit on one card", len(items))
	}
	for n := range count {
		// Carousels of nearly the same length, the longer ones first.
		length := total / count
		if n < total%count {
			length++
		}
		f := &api.FlexCarousel{}
		for _, i := range items[:length] {
			b, err := bubble(c, i, carouselSize/length)
			if err != nil {
				return nil, err
			}
			f.Contents = append(f.Contents, *b)
		}
		items = items[length:]
		ms = append(ms, &api.FlexMessage{AltText: c.Alt(maxAltText, measure), Contents: f})
	}
	return ms, nil
}

// summary is the bubble above a batch, with the buttons for all of it.
func summary(c channels.Card) *api.FlexBubble {
	worst := c.Worst()
	body := &api.FlexBox{Layout: api.FlexBoxLAYOUT_VERTICAL, Spacing: "sm"}
	share := summaryLines / len(c.Items)
	for n, i := range c.Items {
		line := fmt.Sprintf("%d. %s %s", n+1, channels.RiskIcon(i.Risk), channels.CutEnd(i.Summary, share, quotedSize))
		body.Contents = append(body.Contents, text(line, "sm", ink))
	}
	body.Contents = append(body.Contents, &api.FlexSeparator{Margin: "md"})
	for _, f := range c.Items[0].Facts {
		body.Contents = append(body.Contents, columns(f.Label, shorten(f.Value, 200), ink))
	}
	b := &api.FlexBubble{
		Size:   api.FlexBubbleSIZE_MEGA,
		Header: header(c.Text, channels.RiskIcon(worst)+" "+c.Risks(), riskColour(worst)),
		Body:   body,
	}
	if c.Together() {
		if left := c.LeftOut(); left != "" {
			body.Contents = append(body.Contents, bold(left, "sm", ink))
		}
		body.Contents = append(body.Contents, text(c.Say(channels.TextBatchHint), "xs", faint))
		needed := slices.ContainsFunc(c.Items, func(i channels.Item) bool { return i.Pending() && i.ReasonNeeded })
		b.Footer = buttons(c, decides{on: c.All(), yes: c.Say(channels.TextApproveAll), no: c.Say(channels.TextDenyAll),
			risk: worst, reasonNeeded: needed})
	}
	return b
}

// bubble draws one request in at most size bytes.
func bubble(c channels.Card, i channels.Item, size int) (*api.FlexBubble, error) {
	colour, title := riskColour(i.Risk), i.Title
	if !i.Pending() {
		colour, title = settled, i.State.Icon()+" "+title
	}
	risk := c.Say(channels.RiskText(i.Risk))
	if i.Pending() {
		risk = c.Risk(i.Risk)
	}
	head := header(title, channels.RiskIcon(i.Risk)+" "+risk, colour)
	for n, m := range levels {
		d := drawing{measures: m, card: c, item: i, roomy: len(i.Rows) <= roomyRows && size > carouselSize/4}
		rows := d.lead()
		// What the args may take is what the rest leaves.
		most := d
		most.measuring = true
		b := &api.FlexBubble{Size: api.FlexBubbleSIZE_MEGA, Header: head}
		none := channels.Fitted{Total: i.Total}
		b.Body, b.Footer = most.body(none), most.footer(none)
		left := size - sizeOf(b)
		if left < 0 {
			continue
		}
		f := channels.FitRows(rows, i.Total, left, maxValue, measure, d.cost)
		if good := f.All() && (!f.Shortened || m.own <= levels[1].own); !good && n < len(levels)-1 {
			continue
		}
		f.Shortened = f.Shortened || d.leads != nil && (i.Change.Cut || !slices.Equal(d.leads, i.Change.Diff))
		b.Body, b.Footer = d.body(f), d.footer(f)
		if taken := sizeOf(b); taken > size {
			return nil, fmt.Errorf("line: a bubble of %d bytes, over %d", taken, size)
		}
		return b, nil
	}
	return nil, fmt.Errorf("line: what is not args takes more than %d bytes", size)
}

// drawing is one bubble being laid out.
type drawing struct {
	measures
	card      channels.Card
	item      channels.Item
	leads     []channels.DiffLine // as much as is shown of the diff in front of the args; nil: none is there
	roomy     bool
	measuring bool // laid out without rows, and with every remark about them that could be needed
}

// lead puts the item's change in front, where there is one and room for it, and returns the rows that are left to be
// shown.
func (d *drawing) lead() []channels.Row {
	if d.own > 0 && d.item.Change != nil {
		d.leads = d.fitDiff(d.item.Change.Diff)
	}
	if d.leads == nil {
		return d.item.Rows
	}
	return d.item.Beside()
}

// footer has the buttons: those that decide, one that brings up what the card had to leave out, and a
// link.
func (d drawing) footer(f channels.Fitted) *api.FlexBox {
	box := &api.FlexBox{Layout: api.FlexBoxLAYOUT_VERTICAL}
	if d.item.Pending() {
		box = buttons(d.card, decides{on: channels.Button{ID: d.item.ID}, yes: d.card.Say(channels.TextApprove),
			no: d.card.Say(channels.TextDeny), what: d.item.Tool, risk: d.item.Risk, reasonNeeded: d.item.ReasonNeeded})
		if d.item.StepUp {
			pair := box.Contents[0].(*api.FlexBox)
			pair.Contents = pair.Contents[1:] // what is left denies
		}
	}
	if d.measuring || !f.All() || f.Shortened || d.leads != nil || d.cutsWords() {
		box.Contents = append(box.Contents, &api.FlexButton{Height: api.FlexButtonHEIGHT_SM, Style: api.FlexButtonSTYLE_LINK,
			Action: &api.MessageAction{Label: label(d.card.Say(channels.TextShowAll)),
				Text: d.card.Say(channels.TextWordShow) + " " + d.item.ID}})
	}
	if d.item.Link != "" && measure(d.item.Link) <= d.link {
		box.Contents = append(box.Contents, &api.FlexButton{Height: api.FlexButtonHEIGHT_SM, Style: api.FlexButtonSTYLE_LINK,
			Action: &api.UriAction{Label: label(d.card.Say(channels.TextOpen)), Uri: d.item.Link}})
	}
	if len(box.Contents) == 0 {
		return nil
	}
	return box
}

// facts are who asks and from where, less what the summary of a batch says already.
func (d drawing) facts() []channels.Fact {
	if d.card.BatchID == "" {
		return d.item.Facts
	}
	return slices.DeleteFunc(slices.Clone(d.item.Facts), func(f channels.Fact) bool {
		return slices.Contains(d.card.Items[0].Facts, f)
	})
}

// body lays out everything between header and footer, with as much of the args as f says.
func (d drawing) body(f channels.Fitted) *api.FlexBox {
	i, say := d.item, d.card.Say
	box := &api.FlexBox{Layout: api.FlexBoxLAYOUT_VERTICAL, Spacing: "sm"}
	add := func(c api.FlexComponentInterface) { box.Contents = append(box.Contents, c) }

	add(bold(channels.CutEnd(i.Summary, d.will, measure), "lg", ink))
	d.warnings(add)
	add(text(shorten(i.Tool, d.tool), "sm", faint))
	if i.Sentence != "" {
		add(bold(shorten(i.Sentence, d.sentence), "sm", ink))
	}
	if len(i.Progress) > 0 {
		add(bold(shorten(strings.Join(i.Progress, "\n"), d.sentence), "sm", ink))
	}

	add(&api.FlexSeparator{Margin: "md"})
	if d.leads != nil {
		d.change(add)
	}
	d.args(add, f)
	add(&api.FlexSeparator{Margin: "md"}) // an arg may be called as what stands below it is
	d.notices(add)
	if i.Why != "" {
		add(columns(say(channels.TextWhy), shorten(i.Why, d.why), ink))
	}
	for _, fact := range d.facts() {
		add(columns(fact.Label, shorten(fact.Value, d.fact), ink))
	}
	if i.ServerWords != "" && d.server > 0 {
		add(columns(say(channels.TextServerWords), channels.CutEnd(i.ServerWords, d.server, measure), faint))
	}

	if i.Rationale != "" || i.Preview != "" && d.leads == nil {
		add(&api.FlexSeparator{Margin: "md"})
		d.agentText(add)
	}

	add(&api.FlexSeparator{Margin: "md"})
	if i.DeadlineAt != "" {
		row := columns(say(channels.TextDeadline), i.DeadlineAt, ink)
		if i.DeadlineIn != "" {
			at := row.Contents[1].(*api.FlexText)
			at.Flex = 0
			row.Contents[1] = &api.FlexBox{Layout: api.FlexBoxLAYOUT_VERTICAL, Flex: valueFlex,
				Contents: []api.FlexComponentInterface{at, bold(i.DeadlineIn, "sm", ink)}}
		}
		add(row)
	}
	add(text(say(channels.TextRequest)+" "+i.Short+" · "+say(channels.TextHash)+" "+i.Hash, "xs", faint))
	return box
}

// warnings are the remarks that come right below what will happen.
func (d drawing) warnings(add func(api.FlexComponentInterface)) {
	for _, n := range d.item.Notices {
		s := n.Text
		if d.own == 0 {
			s = n.Short
		}
		if n.First {
			add(bold(shorten(s, d.notice), "sm", alarm))
		}
	}
}

// notices are the other remarks.
func (d drawing) notices(add func(api.FlexComponentInterface)) {
	for _, n := range d.item.Notices {
		s := n.Text
		if d.own == 0 {
			s = n.Short
		}
		if !n.First {
			add(text(shorten(s, d.notice), "sm", ink))
		}
	}
}

// args tells what of the call's args is not there, and lays them out.
func (d drawing) args(add func(api.FlexComponentInterface), f channels.Fitted) {
	i, say := d.item, d.card.Say
	if len(i.Rows) == 0 {
		add(text(say(channels.TextNoArgs), "sm", faint))
	} else {
		add(bold(say(channels.TextArgs), "xs", faint))
	}
	if !f.All() {
		shown := f.Shown
		if d.measuring {
			shown = f.Total // it has the most digits
		}
		add(bold(say(channels.TextNotAllShown, "shown", strconv.Itoa(shown), "total", strconv.Itoa(f.Total), "id", i.Short),
			"sm", alarm))
	}
	if f.Shortened || d.measuring {
		add(text(say(channels.TextShortened, "id", i.Short), "xs", alarm))
	}
	ignored := false
	for _, r := range f.Rows {
		if r.Ignored && !ignored {
			ignored = true
			add(bold(say(channels.TextIgnored), "xs", faint))
		}
		add(d.row(r))
	}
	if d.measuring && len(i.Rows) > 0 && i.Rows[len(i.Rows)-1].Ignored {
		add(bold(say(channels.TextIgnored), "xs", faint))
	}
}

// agentText lays out what the agent said of the call, as much as there is room for.
func (d drawing) agentText(add func(api.FlexComponentInterface)) {
	i, say := d.item, d.card.Say
	if d.own == 0 {
		add(text(say(channels.TextWordsCut, "id", i.Short), "xs", faint))
		return
	}
	if i.Rationale != "" || i.PreviewRead == "" && d.leads == nil {
		add(bold(say(channels.TextOwnWords), "xs", faint))
	}
	if i.Rationale != "" {
		add(columns(say(channels.TextRationale), shorten(i.Rationale, d.own), faint))
	}
	if d.leads != nil {
		return
	}
	if i.PreviewRead != "" {
		add(bold(i.PreviewRead, "xs", faint))
	}
	if lines := d.fitDiff(i.Diff); lines != nil && i.Unlike {
		box := diffBlock(say(channels.TextPreview), lines)
		for n := range box.Contents[1].(*api.FlexText).Contents {
			box.Contents[1].(*api.FlexText).Contents[n].Color = faint
		}
		add(box)
	} else if lines != nil {
		add(diffBlock(say(channels.TextPreview)+"  "+channels.DiffCount(i.Diff), lines))
	} else if i.Preview != "" {
		add(block(say(channels.TextPreview), shorten(i.Preview, d.own)))
	}
}

func (d drawing) row(r channels.Row) api.FlexComponentInterface {
	key := r.Prefix() + r.Key
	switch {
	case r.Open:
		return bold(key, "sm", faint)
	case r.Lines, d.roomy && r.Gloss == "" && measure(r.Value) > maxBeside:
		return block(key, r.Value)
	case d.roomy:
		box := columns(key, r.Value, ink)
		if r.Gloss != "" {
			value := box.Contents[1].(*api.FlexText)
			value.Text, value.Contents = "", append([]api.FlexSpan{{Text: r.Value, Color: ink}}, gloss(r)...)
		}
		return box
	}
	return &api.FlexText{Size: "sm", Wrap: true, Contents: append([]api.FlexSpan{
		{Text: key + "  ", Color: faint, Weight: api.FlexSpanWEIGHT_BOLD},
		{Text: r.Value, Color: ink},
	}, gloss(r)...)}
}

// gloss is our own reading of a value, in a style that no value has.
func gloss(r channels.Row) []api.FlexSpan {
	if r.Gloss == "" {
		return nil
	}
	return []api.FlexSpan{{Text: "  " + r.Gloss, Size: "xs", Color: faint, Style: api.FlexSpanSTYLE_ITALIC}}
}

// change lays out the diff that leads, and says what of it was checked.
func (d drawing) change(add func(api.FlexComponentInterface)) {
	c, say := d.item.Change, d.card.Say
	add(diffBlock(say(channels.TextChange, "key", c.Key)+"  "+channels.DiffCount(c.Diff), d.leads))
	add(text(cmp.Or(d.item.PreviewRead, say(channels.TextChangeHeld, "key", c.Key)), "xs", faint))
}

// fitDiff is as much of a diff as is shown.
func (d drawing) fitDiff(lines []channels.DiffLine) []channels.DiffLine {
	return d.card.FitDiff(lines, maxDiff, 3*d.own, measure, func(l channels.DiffLine) int {
		return sizeOf(&api.FlexText{Contents: []api.FlexSpan{diffSpan(l, "\n")}}) - sizeOf(&api.FlexText{})
	})
}

// cutsWords reports whether the agent's own words are not all on the card.
func (d drawing) cutsWords() bool {
	i := d.item
	if d.own == 0 {
		return i.Rationale != "" || i.Preview != ""
	}
	if measure(i.Rationale) > d.own || d.leads != nil {
		return measure(i.Rationale) > d.own
	}
	lines := d.fitDiff(i.Diff)
	return lines == nil && measure(i.Preview) > d.own || !slices.Equal(lines, i.Diff)
}

// diffBlock draws a diff: each line has its sign and its colour.
func diffBlock(label string, lines []channels.DiffLine) *api.FlexBox {
	box, t := block(label, ""), &api.FlexText{Size: "xs", Wrap: true}
	for n, l := range lines {
		end := "\n"
		if n == len(lines)-1 {
			end = ""
		}
		t.Contents = append(t.Contents, diffSpan(l, end))
	}
	box.Contents[1] = t
	return box
}

func diffSpan(l channels.DiffLine, end string) api.FlexSpan {
	s := api.FlexSpan{Text: l.Text + end, Color: ink}
	switch l.Kind {
	case channels.DiffAdded:
		s.Color = added
	case channels.DiffRemoved:
		s.Color = removed
	case channels.DiffHeader, channels.DiffHunk, channels.DiffRemark: // no heading: an agent may have written it
		s.Color = faint
	case channels.DiffCut:
		s.Color, s.Style = faint, api.FlexSpanSTYLE_ITALIC
	}
	return s
}

// cost is what a row takes of a bubble's JSON.
func (d drawing) cost(r channels.Row) int { return sizeOf(d.row(r)) }

func header(title, risk, colour string) *api.FlexBox {
	return &api.FlexBox{Layout: api.FlexBoxLAYOUT_VERTICAL, BackgroundColor: colour, Spacing: "xs",
		Contents: []api.FlexComponentInterface{bold(risk, "sm", white), bold(title, "md", white)}}
}

func text(s, size, colour string) *api.FlexText {
	return &api.FlexText{Text: s, Size: size, Color: colour, Wrap: true}
}

func bold(s, size, colour string) *api.FlexText {
	t := text(s, size, colour)
	t.Weight = api.FlexTextWEIGHT_BOLD
	return t
}

// How a row's width is shared.
const (
	labelFlex = 3
	valueFlex = 5
	// maxBeside is the longest value that stands beside its label: a longer one would be a tall, narrow column.
	maxBeside = 120
)

// columns sets a label beside its value, so that no value can pass for a label.
func columns(label, value, colour string) *api.FlexBox {
	l, v := text(label, "sm", faint), text(or(value, "–"), "sm", colour)
	l.Flex, v.Flex = labelFlex, valueFlex
	return &api.FlexBox{Layout: api.FlexBoxLAYOUT_HORIZONTAL, Spacing: "sm", Contents: []api.FlexComponentInterface{l, v}}
}

// block sets text of several lines apart on its own ground, so that no line of it can pass for a row.
func block(label, value string) *api.FlexBox {
	return &api.FlexBox{Layout: api.FlexBoxLAYOUT_VERTICAL, BackgroundColor: paper, PaddingAll: "8px", CornerRadius: "4px",
		Contents: []api.FlexComponentInterface{bold(label, "xs", faint), text(value, "xs", ink)}}
}

// decides is what a pair of buttons decides.
type decides struct {
	on            channels.Button // a request or a card
	yes, no, what string
	risk          approval.Risk
	reasonNeeded  bool
}

// buttons are Approve and Deny. They are postbacks: an action of type message would arrive as typed words too. Deny
// opens the keyboard with the denial begun once more, for its reason, which names the request whatever card stands
// below by then. Where nothing is decided without a reason, Approve opens it too, empty: the gate asks for the reason.
// Both weigh the same, and at a critical risk neither has a colour that says yes.
func buttons(c channels.Card, x decides) *api.FlexBox {
	yes, no := approve, deny
	if x.risk == approval.RiskCritical {
		yes, no = ink, ink
	}
	button := func(label_ string, intent chat.Intent, colour string) *api.FlexButton {
		shown := label_
		if x.what != "" {
			shown = label_ + " " + x.what
		}
		action := &api.PostbackAction{
			Label:       label(label_),
			Data:        x.on.With(intent).Data(),
			DisplayText: legible.ShortenMiddle(shown, maxDisplayText, stricter),
		}
		if x.reasonNeeded || intent == chat.IntentDeny {
			action.InputOption = api.PostbackActionINPUT_OPTION_OPEN_KEYBOARD
		}
		if intent == chat.IntentDeny {
			action.FillInText = c.Begun(x.on.With(intent))
		}
		return &api.FlexButton{Flex: 1, Height: api.FlexButtonHEIGHT_SM, Style: api.FlexButtonSTYLE_PRIMARY, Color: colour,
			Action: action}
	}
	return &api.FlexBox{Layout: api.FlexBoxLAYOUT_VERTICAL, Spacing: "sm", Contents: []api.FlexComponentInterface{
		&api.FlexBox{Layout: api.FlexBoxLAYOUT_HORIZONTAL, Spacing: "sm", Contents: []api.FlexComponentInterface{
			button(x.yes, chat.IntentApprove, yes),
			button(x.no, chat.IntentDeny, no),
		}},
	}}
}

func label(s string) string { return legible.ShortenMiddle(s, maxButtonLabel, stricter) }

// measure is LINE's unit of text.
func measure(s string) int { return legible.UTF16Len(s) }

// stricter measures in units and in grapheme clusters at once, whichever is more: some fields count one
// way, some the other.
func stricter(s string) int { return max(measure(s), uniseg.GraphemeClusterCount(s)) }

func shorten(s string, limit int) string { return legible.ShortenMiddle(s, limit, measure) }

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
