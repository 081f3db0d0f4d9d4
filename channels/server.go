package channels

import (
	"strings"

	"countersign/approval"
	"countersign/approval/legible"
)

// mostServerWords is how much a card shows of what a server says of its tool, and mostServerRead how much of it is
// read for that.
const (
	mostServerWords = 120     // in UTF-16 units
	mostServerRead  = 4 << 10 // in bytes
)

// CompareDescription reports what a server's words on its tool, as describe knows them now, are to a request: known, or
// not to be shown; since: the server said something else when the call was asked for. Only a tool that the gate's own
// gateway saw is known to be the one that is described, unless it is the same to the letter.
func CompareDescription(r *approval.Request, digest string) (known, since bool) {
	since = digest != r.ToolDigest
	return r.ToolDigest != "" && (!since || r.ToolSeen), since
}

// serverWords is the beginning of what its server says of a request's tool, on one line. What it says since the call
// was asked for is left to the request's page, which can say so.
func (m Maker) serverWords(r approval.Request) string {
	if m.Describe == nil || r.ToolDigest == "" {
		return ""
	}
	words, digest, ok := m.Describe(r.Server, r.Tool)
	if known, since := CompareDescription(&r, digest); !ok || !known || since {
		return ""
	}
	read, rest := words[:min(len(words), mostServerRead)], words[min(len(words), mostServerRead):]
	all := strings.Fields(read)
	if rest != "" && len(all) > 0 {
		all[len(all)-1] = "…" // a part of a word could be a part of a secret
	}
	masked, _ := m.masker().Text(strings.ToValidUTF8(strings.Join(all, " "), "\uFFFD"))
	return CutEnd(legible.Line(masked), mostServerWords, legible.UTF16Len)
}
