package countersign_test

import (
	"fmt"
	"html"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"countersign/internal/testkit"
)

// The pictures of docs are drawn from plain text, so that a change of one is a change of a line that can be read.

const (
	boxWidth, boxHeight   = 200.0, 64.0
	gapWidth, gapHeight   = 110.0, 66.0
	margin, side, textGap = 24.0, 9.0, 18.0
)

var (
	boxLine   = regexp.MustCompile(`^box (\w+) +(\d) +(\d) +(plain|strong|outside|end): +(.+)$`)
	arrowLine = regexp.MustCompile(`^arrow (\w+) (\w+) ([-+]): (.+)$`)
)

type point struct{ x, y float64 }

// A box stands in a cell of the picture's grid.
type box struct {
	at    point // its middle
	look  string
	texts []string
}

// edge is where a line towards a point leaves the box.
func (b box) edge(to point) point {
	dx, dy := to.x-b.at.x, to.y-b.at.y
	scale := math.Min(boxWidth/2/math.Max(math.Abs(dx), 1e-9), boxHeight/2/math.Max(math.Abs(dy), 1e-9))
	return point{b.at.x + dx*scale, b.at.y + dy*scale}
}

// draw makes a picture out of its text, readable on light and on dark ground.
func draw(title, text string) ([]byte, error) {
	boxes, width, height := map[string]box{}, 0.0, 0.0
	var arrows, drawn strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if m := boxLine.FindStringSubmatch(line); m != nil {
			column, _ := strconv.ParseFloat(m[2], 64)
			row, _ := strconv.ParseFloat(m[3], 64)
			b := box{look: m[4], texts: strings.Split(m[5], " | ")}
			b.at.x = margin + (column-1)*(boxWidth+gapWidth) + boxWidth/2
			b.at.y = margin + (row-1)*(boxHeight+gapHeight) + boxHeight/2
			width, height = math.Max(width, b.at.x+boxWidth/2+margin), math.Max(height, b.at.y+boxHeight/2+margin)
			boxes[m[1]] = b
			drawBox(&drawn, b)
			continue
		}
		m := arrowLine.FindStringSubmatch(line)
		if m == nil {
			if line != "" && !strings.HasPrefix(line, "#") {
				return nil, fmt.Errorf("line %d is no box and no arrow: %s", i+1, line)
			}
			continue
		}
		from, known := boxes[m[1]]
		to, alsoKnown := boxes[m[2]]
		if !known || !alsoKnown {
			return nil, fmt.Errorf("line %d: no box stands above it that is called %s or %s", i+1, m[1], m[2])
		}
		drawArrow(&arrows, from, to, m[3], m[4])
	}
	return fmt.Appendf(nil, svg, width, height, html.EscapeString(title), width, height, arrows.String(), drawn.String()),
		nil
}

func drawBox(b *strings.Builder, is box) {
	fmt.Fprintf(b, "<rect class=\"%s\" x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" rx=\"10\"/>\n",
		is.look, is.at.x-boxWidth/2, is.at.y-boxHeight/2, boxWidth, boxHeight)
	first := is.at.y + 5 - textGap*float64(len(is.texts)-1)/2
	for i, text := range is.texts {
		class := map[bool]string{true: "title", false: "small"}[i == 0]
		fmt.Fprintf(b, "<text class=\"%s %s\" x=\"%g\" y=\"%g\">%s</text>\n",
			class, is.look+"-text", is.at.x, first+textGap*float64(i), html.EscapeString(text))
	}
}

func drawArrow(b *strings.Builder, from, to box, beside, label string) {
	start, end := from.edge(to.at), to.edge(from.at)
	length := math.Hypot(end.x-start.x, end.y-start.y)
	shift := map[string]float64{"-": 0, "+": side}[beside]
	x, y := (end.y-start.y)/length*shift, -(end.x-start.x)/length*shift
	lift := 4.0
	switch {
	case start.y == end.y: // the label of a level line stands beside it
		lift = map[bool]float64{true: -7, false: 17}[y <= 0]
	case start.x == end.x:
		lift = 5
	}
	fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", start.x+x, start.y+y, end.x+x, end.y+y)
	fmt.Fprintf(b, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
		(start.x+end.x)/2+x, (start.y+end.y)/2+y+lift, html.EscapeString(label))
}

const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img">
<title>%s</title>
<style>
.ground { fill: #ffffff }
rect { stroke: #5b6570; stroke-width: 1.5 }
.plain { fill: #eef2f6 } .strong { fill: #0b6e4f; stroke: #0b6e4f } .outside { fill: #fff7e6; stroke-dasharray: 5 4 }
.end { fill: #ffffff }
text { font: 14px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; text-anchor: middle; fill: #17202a }
.title { font-weight: 600; font-size: 16px } .small { font-size: 13px } .strong-text { fill: #ffffff }
.label { font-size: 13px; fill: #3c4651; stroke: #ffffff; stroke-width: 5px; paint-order: stroke }
line { stroke: #5b6570; stroke-width: 1.5; marker-end: url(#head) } .head { fill: #5b6570 }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 }
rect { stroke: #8b96a3 }
.plain { fill: #1f2730 } .strong { fill: #12805c; stroke: #12805c } .outside { fill: #2b2412 } .end { fill: #0d1117 }
text { fill: #e6edf3 } .strong-text { fill: #ffffff } .label { fill: #c3ccd6; stroke: #0d1117 }
line { stroke: #8b96a3 } .head { fill: #8b96a3 }
}
</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">
<path class="head" d="M0 0L10 5L0 10z"/></marker></defs>
<rect class="ground" x="0" y="0" width="%g" height="%g" rx="12" style="stroke: none"/>
%s%s</svg>
`

func TestPicturesFollowTheirText(t *testing.T) {
	for name, title := range map[string]string{
		"docs/architecture": "Agents ask the gate, which keeps a row and sends people cards; their press lets the call run",
		"docs/states":       "A request is pending, then approved, denied, expired or cancelled; an approval is used, or lapses",
	} {
		text, err := os.ReadFile(name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		picture, err := draw(title, string(text))
		if err != nil {
			t.Fatalf("%s.txt: %v", name, err)
		}
		testkit.Golden(t, name+".svg", picture)
	}
}

func TestAPictureNamesItsMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"box a 1 1 round: x":                 "line 1 is no box and no arrow",
		"box a 1 1 plain: x\narrow a b -: y": "line 2: no box stands above it",
	} {
		if _, err := draw("x", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
