package channels

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"countersign/approval"
	"countersign/approval/legible"
	"countersign/approval/summary"
)

const (
	// mostTelling is how many args a sentence has that no rule has written.
	mostTelling = 3
	// mostTold is how much it shows of each, in characters.
	mostTold = 80
	// altSentences is how many sentences of a card of several stand on a lock screen.
	altSentences = 5
)

// Summary says in one sentence what will happen, in the reader's language: as the rule has it, else made of the tool's
// name and the args that tell most.
func (m Maker) Summary(r approval.Request) string {
	if s := m.ruleSentence(r); s != "" {
		return s
	}
	if r.Args == nil { // they were not read
		return m.say(TextWillDo, "tool", legible.Line(r.Target()), "args", "…")
	}
	masked, _ := m.masker().Args(r.Args)
	rows, _ := argRows(masked, m.ignoredArgs(r))
	return m.summary(r, rows)
}

// ruleSentence returns what will happen as the rule has it, in the reader's language; "" where it says nothing.
func (m Maker) ruleSentence(r approval.Request) string {
	return m.sentence(r, r.Sentences.SummaryIn(m.Words.Tag()))
}

func (m Maker) summary(r approval.Request, rows []Row) string {
	if s := m.ruleSentence(r); s != "" {
		return s
	}
	told := telling(rows)
	if told == "" {
		return m.say(TextWillDoBare, "tool", legible.Line(r.Target()))
	}
	return m.say(TextWillDo, "tool", legible.Line(r.Target()), "args", told)
}

// tellingNames are what args are called that say what a call does, those that say most first. An arg is one of them
// where a part of its name is.
var tellingNames = [][]string{
	{"amount", "total", "price", "cents", "sum", "payment", "refund"},
	{"command", "cmd", "script", "query", "sql", "statement"},
	{"to", "recipient", "recipients", "payee", "beneficiary", "destination", "dest", "target", "email", "phone",
		"account"},
	{"path", "file", "filename", "filepath", "directory", "dir", "folder"},
	{"url", "uri", "host", "endpoint", "domain"},
	{"from", "source", "src", "channel", "repo", "repository", "branch", "environment", "env", "database", "table",
		"bucket", "user", "username"},
	{"subject", "title", "name", "id", "key"},
	{"count", "quantity", "number", "limit", "size"},
}

var (
	camel     = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	nameParts = regexp.MustCompile(`[^a-z0-9]+`)
)

// partsOf are the words of a name.
func partsOf(name string) []string {
	return nameParts.Split(strings.ToLower(camel.ReplaceAllString(name, "${1}_$2")), -1)
}

// rank is how little an arg says by its name.
func rank(key string) int {
	parts := partsOf(key)
	for n, names := range tellingNames {
		if slices.ContainsFunc(parts, func(p string) bool { return slices.Contains(names, p) }) {
			return n
		}
	}
	return len(tellingNames)
}

// telling are the args that say most of what a call does, as a part of a sentence; "" where there are none.
func telling(rows []Row) string {
	type ranked struct {
		Row
		rank int
	}
	var able []ranked
	others := false
	for _, r := range rows {
		switch {
		case r.Depth > 0 || r.Ignored:
		case r.Open:
			others = true
		default:
			able = append(able, ranked{r, rank(r.Key)})
		}
	}
	slices.SortStableFunc(able, func(a, b ranked) int { return a.rank - b.rank })
	said, most := []string(nil), len(able)
	for most > 1 && able[0].rank < len(tellingNames) && able[most-1].rank == len(tellingNames) {
		most-- // beside one that tells, one that does not is left out
	}
	most = min(most, mostTelling)
	for _, r := range able[:most] {
		key := legible.ShortenMiddle(r.Key, mostTold/2, legible.UTF16Len)
		said = append(said, key+" "+toldValue(r.Row))
	}
	if len(said) > 0 && (others || len(able) > most) {
		said = append(said, "…")
	}
	return strings.Join(said, ", ")
}

// toldValue is an arg's value within a sentence, where it cannot pass for another arg or for words of ours.
func toldValue(r Row) string {
	if r.Lines {
		first, _, _ := strings.Cut(r.Value, "\n")
		return summary.Quoted(strings.TrimSpace(first)+" …", mostTold)
	}
	if literal.MatchString(r.Value) {
		value := legible.ShortenMiddle(r.Value, mostTold, legible.UTF16Len)
		if r.Gloss != "" {
			value += " " + r.Gloss
		}
		return value
	}
	if strings.IndexByte(`"[{`, r.Value[0]) >= 0 { // JSON, and so in marks of its own
		return legible.ShortenMiddle(r.Value, mostTold, legible.UTF16Len)
	}
	return summary.Quoted(r.Value, mostTold)
}

// Risks counts the requests on a card by their risk, the highest first: "2 high, 1 medium".
func (c Card) Risks() string {
	var said []string
	for _, k := range []struct {
		risk approval.Risk
		text Text
	}{{approval.RiskCritical, TextCountCritical}, {approval.RiskHigh, TextCountHigh},
		{approval.RiskMedium, TextCountMedium}, {approval.RiskLow, TextCountLow}} {
		n := 0
		for _, i := range c.Items {
			if RiskText(i.Risk) == RiskText(k.risk) {
				n++
			}
		}
		if n > 0 {
			said = append(said, c.Say(k.text, "many", strconv.Itoa(n)))
		}
	}
	return c.Words.List(said)
}

// Alt is the card in one line of plain text, for lock screens and screen readers, at most limit long in unit: the risk
// and what will happen first, since the end is what is cut off.
func (c Card) Alt(limit int, unit func(string) int) string {
	var s string
	switch len(c.Items) {
	case 0:
		s = or(c.Lock, c.Text)
	case 1:
		i := c.Items[0]
		names := []string{"title", i.Title, "risk", c.Say(RiskText(i.Risk)), "agent", i.Facts[0].Value, "summary", i.Summary,
			"why", or(i.Sentence, i.Why), "id", i.Short}
		s = c.Say(TextAlt, names...)
		if c.Kind == approval.KindReply && c.Text != "" {
			s = c.Say(TextAltReply, append(names, "text", c.Text)...)
		}
	default:
		var first []string
		for n, i := range c.Items {
			if n == altSentences {
				first = append(first, "… (+"+strconv.Itoa(len(c.Items)-n)+")")
				break
			}
			first = append(first, CutEnd(i.Summary, limit/altSentences, unit))
		}
		s = c.Say(TextAltBatch, "risks", c.Risks(), "summaries", strings.Join(first, " · "), "title",
			or(c.Text, c.Say(TextBatchNeeded, "n", strconv.Itoa(len(c.Items)))))
	}
	return CutEnd(or(strings.TrimSpace(s), "…"), limit, unit)
}

// CutEnd is s at most limit long in unit: what is too long ends in an ellipsis.
func CutEnd(s string, limit int, unit func(string) int) string {
	if unit(s) <= limit {
		return s
	}
	const more = "…"
	if limit <= unit(more) {
		return ""
	}
	s, _ = legible.CutWithin(s, limit-unit(more), unit)
	return strings.TrimRight(s, " ,") + more
}
