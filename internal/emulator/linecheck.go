package emulator

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// The limits of reference documents, in the stricter reading.
const (
	lineMaxBody     = 2 << 20
	lineMaxBubble   = 30_000
	lineMaxCarousel = 50_000
)

var linePhrases = phrases{
	child: func(at, name string) string {
		if at == "" {
			return name
		}
		return at + "." + name
	},
	item:   func(at string, i int) string { return fmt.Sprintf("%s[%d]", at, i) },
	length: func(low, high, got int) string { return lineBetween("Length", low, high, got) },
	count:  func(low, high, got int) string { return lineBetween("Size", low, high, got) },
	kind:   func(want string) string { return "Must be of type " + want },
	enum: func(allowed []string) string {
		return fmt.Sprintf("Must be one of the following values: [%s]", strings.Join(allowed, ", "))
	},
	variant: func(_ string, allowed []string) string {
		return fmt.Sprintf("Must be one of the following values: [%s]", strings.Join(allowed, ", "))
	},
	number:   func(low, high int) string { return fmt.Sprintf("Must be between %d and %d", low, high) },
	unknown:  func(at, name string) problem { return problem{linePath(at, name), "Unknown property"} },
	missing:  func(at, name string) problem { return problem{linePath(at, name), "May not be null"} },
	mismatch: "Invalid value",
}

func linePath(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func lineBetween(what string, low, high, got int) string {
	if got == 0 && low > 0 {
		return "May not be empty"
	}
	return fmt.Sprintf("%s must be between %d and %d", what, low, high)
}

var (
	lineColor   = regexp.MustCompile(`^#([0-9a-fA-F]{6}|[0-9a-fA-F]{8})$`)
	linePixels  = `[0-9]{1,5}(\.[0-9]+)?px`
	lineSpace   = regexp.MustCompile(`^(none|xs|sm|md|lg|xl|xxl|` + linePixels + `)$`)
	linePadding = regexp.MustCompile(`^(none|xs|sm|md|lg|xl|xxl|[0-9]{1,3}(\.[0-9]+)?%|` + linePixels + `)$`)
	lineOffset  = regexp.MustCompile(`^(none|xs|sm|md|lg|xl|xxl|-?[0-9]{1,3}(\.[0-9]+)?%|-?` + linePixels + `)$`)
	lineBorder  = regexp.MustCompile(`^(none|light|normal|medium|semi-bold|bold|` + linePixels + `)$`)
	lineLength  = regexp.MustCompile(`^([0-9]{1,3}(\.[0-9]+)?%|` + linePixels + `)$`)
	lineFont    = regexp.MustCompile(`^(xxs|xs|sm|md|lg|xl|xxl|3xl|4xl|5xl|` + linePixels + `)$`)
	lineImage   = regexp.MustCompile(`^(xxs|xs|sm|md|lg|xl|xxl|3xl|4xl|5xl|full|[0-9]{1,3}(\.[0-9]+)?%|` + linePixels +
		`)$`)
	lineJustPx      = regexp.MustCompile(`^` + linePixels + `$`)
	lineRatio       = regexp.MustCompile(`^[1-9][0-9]{0,5}(\.[0-9]+)?:[1-9][0-9]{0,5}(\.[0-9]+)?$`)
	lineHTTPS       = regexp.MustCompile(`^https://[^\s/?#]+\S*$`)
	lineURI         = regexp.MustCompile(`^(https?|line|tel):\S+$`)
	lineAngle       = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]+)?deg$`)
	linePercent     = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]+)?%$`)
	lineTime        = regexp.MustCompile(`^[0-9:T-]{5,16}$`)
	lineOwnName     = regexp.MustCompile(`(?i)\bline\b`)
	linePlaceholder = regexp.MustCompile(`\{\{|\}\}|\{[^{}]*\}?|\}`)
)

func lineURL(c *checker, at string, v any) {
	text(1, 2000, utf16Len)(c, at, v)
	if s := str(v); s != "" && !lineHTTPS.MatchString(s) {
		c.fail(at, "Must be a valid HTTPS URL")
	}
}

// lineMessage checks one message object by its type.
func lineMessage(c *checker, at string, v any) {
	common := map[string]rule{"type": anything, "quickReply": lineQuickReply, "sender": lineSender}
	of := func(required string, props map[string]rule) rule {
		return shape{required, props}.with(common).check
	}
	quote := func(c *checker, at string, v any) {
		text(1, 1000, utf16Len)(c, at, v)
		c.quotes = append(c.quotes, problem{at, str(v)})
	}
	byType(map[string]rule{
		"text": func(c *checker, at string, v any) {
			of("text", map[string]rule{
				"text": text(1, 5000, utf16Len), "quoteToken": quote,
				"emojis": list(0, 20, shape{"index productId emojiId", map[string]rule{
					"index": integer(0, 5000), "productId": text(1, 100, utf16Len), "emojiId": text(1, 100, utf16Len)}}.check),
			})(c, at, v)
		},
		"textV2": func(c *checker, at string, v any) {
			of("text", map[string]rule{"text": text(1, 5000, utf16Len), "quoteToken": quote,
				"substitution": lineSubstitution})(c, at, v)
			lineSubstituted(c, at, v)
		},
		"flex": of("altText contents", map[string]rule{
			"altText": text(1, 1500, utf16Len),
			"contents": byType(map[string]rule{
				"bubble": flexBubble,
				"carousel": func(c *checker, at string, v any) {
					shape{"contents", map[string]rule{"type": anything, "contents": list(1, 12, flexBubble)}}.check(c, at, v)
					sameSize(c, at, v)
				},
			}),
		}),
		"sticker": of("packageId stickerId", map[string]rule{
			"packageId": text(1, 20, utf16Len), "stickerId": text(1, 20, utf16Len), "quoteToken": quote}),
		"image": of("originalContentUrl previewImageUrl", map[string]rule{"originalContentUrl": lineURL,
			"previewImageUrl": lineURL}),
		"template": of("altText template", map[string]rule{"altText": text(1, 1500, utf16Len), "template": lineTemplate}),
	})(c, at, v)
}

// lineSubstituted checks that every {name} of a textV2 has its substitution, which is what makes the type unfit for
// foreign text.
func lineSubstituted(c *checker, at string, v any) {
	object, _ := v.(map[string]any)
	known, _ := object["substitution"].(map[string]any)
	for _, given := range linePlaceholder.FindAllString(str(object["text"]), -1) {
		if given == "{{" || given == "}}" {
			continue
		}
		_, ok := known[strings.Trim(given, "{}")]
		if !ok || !strings.HasPrefix(given, "{") || !strings.HasSuffix(given, "}") {
			c.fail(linePath(at, "text"), "Undefined or malformed placeholder "+given)
		}
	}
}

func lineSubstitution(c *checker, at string, v any) {
	object, ok := v.(map[string]any)
	if !ok {
		c.fail(at, c.say.kind("object"))
		return
	}
	if len(object) > 100 {
		c.fail(at, c.say.count(0, 100, len(object)))
	}
	emoji := shape{"type productId emojiId", map[string]rule{"type": anything, "productId": text(1, 100, utf16Len),
		"emojiId": text(1, 100, utf16Len)}}
	mention := shape{"type mentionee", map[string]rule{"type": anything, "mentionee": byType(map[string]rule{
		"user": shape{"type userId", map[string]rule{"type": anything, "userId": matching(lineUserID)}}.check,
		"all":  shape{"type", map[string]rule{"type": anything}}.check,
	})}}
	for name, sub := range object {
		text(1, 20, utf16Len)(c, linePath(at, name), name)
		byType(map[string]rule{"emoji": emoji.check, "mention": mention.check})(c, linePath(at, name), sub)
	}
}

func lineTemplate(c *checker, at string, v any) {
	action := lineAction(20, graphemeLen, "type label")
	byType(map[string]rule{
		"confirm": shape{"text actions", map[string]rule{
			"type": anything, "text": text(1, 240, graphemeLen), "actions": list(2, 2, action)}}.check,
		"buttons": func(c *checker, at string, v any) {
			object, _ := v.(map[string]any)
			limit := 160
			if object["title"] != nil || object["thumbnailImageUrl"] != nil {
				limit = 60
			}
			shape{"text actions", map[string]rule{
				"type": anything, "text": text(1, limit, graphemeLen), "title": text(1, 40, graphemeLen),
				"actions": list(1, 4, action), "defaultAction": lineAction(20, graphemeLen, "type"),
				"thumbnailImageUrl": lineURL, "imageAspectRatio": oneOf("rectangle", "square"),
				"imageSize": oneOf("cover", "contain"), "imageBackgroundColor": matching(lineColor)}}.check(c, at, v)
		},
	})(c, at, v)
}

func lineQuickReply(c *checker, at string, v any) {
	item := shape{"type action", map[string]rule{
		"type": oneOf("action"), "imageUrl": lineURL,
		"action": lineAction(20, graphemeLen, "type label", "camera", "cameraRoll", "location"),
	}}
	shape{"items", map[string]rule{"items": list(1, 13, item.check)}}.check(c, at, v)
}

func lineSender(c *checker, at string, v any) {
	shape{"", map[string]rule{
		"name": func(c *checker, at string, v any) {
			text(1, 20, utf16Len)(c, at, v)
			if lineOwnName.MatchString(str(v)) {
				c.fail(at, "This name may not be used")
			}
		},
		"iconUrl": lineURL,
	}}.check(c, at, v)
}

// lineAction checks an action. Label lengths, and what is required of every action, depend on
// where it stands; more names action types that are allowed only there.
func lineAction(label int, count func(string) int, always string, more ...string) rule {
	of := func(required string, props map[string]rule) rule {
		return shape{strings.TrimSpace(always + " " + required), props}.with(map[string]rule{"type": anything,
			"label": text(1, label, count)}).check
	}
	variants := map[string]rule{
		"postback": func(c *checker, at string, v any) {
			of("data", map[string]rule{
				"data": text(1, 300, utf16Len), "displayText": text(1, 300, graphemeLen), "text": text(1, 300, graphemeLen),
				"inputOption": oneOf("closeRichMenu", "openRichMenu", "openKeyboard", "openVoice"),
				"fillInText":  text(1, 300, graphemeLen),
			})(c, at, v)
			object, _ := v.(map[string]any)
			if object["text"] != nil && object["displayText"] != nil {
				c.fail(linePath(at, "displayText"), "May not be used together with text")
			}
			if object["fillInText"] != nil && str(object["inputOption"]) != "openKeyboard" {
				c.fail(linePath(at, "fillInText"), "Only allowed when inputOption is openKeyboard")
			}
		},
		"message": of("text", map[string]rule{"text": text(1, 300, graphemeLen)}),
		"uri": of("uri", map[string]rule{
			"uri": func(c *checker, at string, v any) {
				text(1, 1000, utf16Len)(c, at, v)
				if s := str(v); s != "" && !lineURI.MatchString(s) {
					c.fail(at, "invalid uri scheme")
				}
			},
			"altUri": shape{"desktop", map[string]rule{"desktop": text(1, 1000, utf16Len)}}.check,
		}),
		"datetimepicker": of("data mode", map[string]rule{
			"data": text(1, 300, utf16Len), "mode": oneOf("date", "time", "datetime"),
			"initial": matching(lineTime), "max": matching(lineTime), "min": matching(lineTime),
		}),
		"clipboard": of("clipboardText", map[string]rule{"clipboardText": text(1, 1000, utf16Len)}),
	}
	for _, name := range more {
		variants[name] = of("", nil)
	}
	return byType(variants)
}

// Flex. Functions and not tables, because boxes hold boxes.

func flexBubble(c *checker, at string, v any) {
	block := shape{"", map[string]rule{"backgroundColor": matching(lineColor), "separator": boolean,
		"separatorColor": matching(lineColor)}}
	shape{"type", map[string]rule{
		"type": oneOf("bubble"), "direction": oneOf("ltr", "rtl"),
		"size":   oneOf("nano", "micro", "deca", "hecto", "kilo", "mega", "giga"),
		"header": byType(map[string]rule{"box": flexBox}), "body": byType(map[string]rule{"box": flexBox}),
		"footer": byType(map[string]rule{"box": flexBox}),
		"hero":   byType(map[string]rule{"box": flexBox, "image": flexImage}), "action": flexAction,
		"styles": shape{"", map[string]rule{"header": block.check, "hero": block.check, "body": block.check,
			"footer": block.check}}.check,
	}}.check(c, at, v)
	object, _ := v.(map[string]any)
	if object != nil && object["header"] == nil && object["hero"] == nil && object["body"] == nil &&
		object["footer"] == nil {
		c.fail(at, "At least one block must be specified")
	}
}

func sameSize(c *checker, at string, v any) {
	object, _ := v.(map[string]any)
	bubbles, _ := object["contents"].([]any)
	first := ""
	for i, b := range bubbles {
		bubble, _ := b.(map[string]any)
		size := str(bubble["size"])
		if size == "" {
			size = "mega"
		}
		if i == 0 {
			first = size
		} else if size != first {
			c.fail(linePath(c.say.item(linePath(at, "contents"), i), "size"),
				"All bubbles of a carousel must have the same size")
		}
	}
}

var flexAction = lineAction(40, graphemeLen, "type")

func flexPlace() map[string]rule {
	return map[string]rule{
		"type": anything, "margin": matching(lineSpace), "position": oneOf("relative", "absolute"),
		"offsetTop": matching(lineOffset), "offsetBottom": matching(lineOffset), "offsetStart": matching(lineOffset),
		"offsetEnd": matching(lineOffset),
	}
}

func flexBox(c *checker, at string, v any) {
	object, _ := v.(map[string]any)
	children := map[string]rule{
		"box": flexBox, "button": flexButton, "image": flexImage, "text": flexText, "separator": flexSeparator,
		"filler": flexFiller,
	}
	if str(object["layout"]) == "baseline" {
		children = map[string]rule{"icon": flexIcon, "text": flexText, "filler": flexFiller}
	}
	shape{"layout contents", map[string]rule{
		"layout": oneOf("horizontal", "vertical", "baseline"), "flex": integer(0, 1<<31-1),
		"contents": list(0, 1<<20, byType(children)), "spacing": matching(lineSpace),
		"backgroundColor": matching(lineColor), "borderColor": matching(lineColor), "borderWidth": matching(lineBorder),
		"cornerRadius": matching(lineSpace),
		"width":        matching(lineLength), "maxWidth": matching(lineLength), "height": matching(lineLength),
		"maxHeight":  matching(lineLength),
		"paddingAll": matching(linePadding), "paddingTop": matching(linePadding), "paddingBottom": matching(linePadding),
		"paddingStart": matching(linePadding), "paddingEnd": matching(linePadding), "action": flexAction,
		"justifyContent": oneOf("center", "flex-start", "flex-end", "space-between", "space-around", "space-evenly"),
		"alignItems":     oneOf("center", "flex-start", "flex-end"),
		"background": byType(map[string]rule{"linearGradient": shape{"angle startColor endColor", map[string]rule{
			"type": anything, "angle": matching(lineAngle), "startColor": matching(lineColor), "endColor": matching(lineColor),
			"centerColor": matching(lineColor), "centerPosition": matching(linePercent)}}.check}),
	}}.with(flexPlace()).check(c, at, v)
}

func flexButton(c *checker, at string, v any) {
	shape{"action", map[string]rule{
		"flex": integer(0, 1<<31-1), "color": matching(lineColor), "style": oneOf("primary", "secondary", "link"),
		"action": lineAction(40, graphemeLen, "type label"), "gravity": oneOf("top", "bottom", "center"),
		"height":     oneOf("md", "sm"),
		"adjustMode": oneOf("shrink-to-fit"), "scaling": boolean,
	}}.with(flexPlace()).check(c, at, v)
}

func flexText(c *checker, at string, v any) {
	shape{"", map[string]rule{
		"flex": integer(0, 1<<31-1), "text": text(1, lineMaxBubble, utf16Len), "size": matching(lineFont),
		"align": oneOf("start", "end", "center"), "gravity": oneOf("top", "bottom", "center"), "color": matching(lineColor),
		"weight": oneOf("regular", "bold"), "style": oneOf("normal", "italic"),
		"decoration": oneOf("none", "underline", "line-through"),
		"wrap":       boolean, "lineSpacing": matching(lineJustPx), "action": flexAction, "maxLines": integer(0, 1<<31-1),
		"contents": list(0, 1<<20, byType(map[string]rule{"span": flexSpan})), "adjustMode": oneOf("shrink-to-fit"),
		"scaling": boolean,
	}}.with(flexPlace()).check(c, at, v)
	object, _ := v.(map[string]any)
	if spans, _ := object["contents"].([]any); object["text"] == nil && len(spans) == 0 {
		c.fail(linePath(at, "text"), "Either text or contents must be specified")
	}
}

func flexSpan(c *checker, at string, v any) {
	shape{"text", map[string]rule{
		"type": anything, "text": text(1, lineMaxBubble, utf16Len), "size": matching(lineFont), "color": matching(lineColor),
		"weight": oneOf("regular", "bold"),
		"style":  oneOf("normal", "italic"), "decoration": oneOf("none", "underline", "line-through"),
	}}.check(c, at, v)
}

func flexSeparator(c *checker, at string, v any) {
	shape{"", map[string]rule{"type": anything, "margin": matching(lineSpace), "color": matching(lineColor)}}.check(c, at,
		v)
}

func flexFiller(c *checker, at string, v any) {
	shape{"", map[string]rule{"type": anything, "flex": integer(0, 1<<31-1)}}.check(c, at, v)
}

func flexIcon(c *checker, at string, v any) {
	shape{"url", map[string]rule{"url": lineURL, "size": matching(lineFont), "aspectRatio": matching(lineRatio),
		"scaling": boolean}}.
		with(flexPlace()).check(c, at, v)
}

func flexImage(c *checker, at string, v any) {
	shape{"url", map[string]rule{
		"url": lineURL, "flex": integer(0, 1<<31-1), "align": oneOf("start", "end", "center"),
		"gravity": oneOf("top", "bottom", "center"),
		"size":    matching(lineImage), "aspectRatio": matching(lineRatio), "aspectMode": oneOf("fit", "cover"),
		"backgroundColor": matching(lineColor), "action": flexAction, "animated": boolean,
	}}.with(flexPlace()).check(c, at, v)
}

// lineSizes checks what is counted in encoded bytes, which only the request as sent can tell.
func lineSizes(c *checker, body []byte) {
	var request struct {
		Messages []struct {
			Contents json.RawMessage `json:"contents"`
		} `json:"messages"`
	}
	if json.Unmarshal(body, &request) != nil {
		return // the schema has already said so
	}
	for i, m := range request.Messages {
		at := fmt.Sprintf("messages[%d].contents", i)
		var container struct {
			Type     string            `json:"type"`
			Contents []json.RawMessage `json:"contents"`
		}
		if json.Unmarshal(m.Contents, &container) != nil {
			continue
		}
		bubbles := container.Contents
		if container.Type == "bubble" {
			bubbles = []json.RawMessage{m.Contents}
		} else if len(m.Contents) > lineMaxCarousel {
			c.fail(at, fmt.Sprintf("The size of a carousel must be at most %d bytes", lineMaxCarousel))
		}
		for _, bubble := range bubbles {
			if len(bubble) > lineMaxBubble {
				c.fail(at, fmt.Sprintf("The size of a bubble must be at most %d bytes", lineMaxBubble))
			}
		}
	}
}
