package emulator

import (
	"fmt"
	"regexp"
	"strings"
)

// Limits of messages and views. The sum over all blocks is undocumented; refusals were seen from about 12,000 on.
const (
	slackMaxBlocks      = 50
	slackMaxViewBlocks  = 100
	slackMaxBlocksChars = 12_000 // of all strings, the names of types too
	slackMaxText        = 40_000 // posts are cut there
	slackMaxUpdateText  = 4_000  // updates are refused there
	slackMaxView        = 250_000
	slackMaxMetadata    = 16_000
	slackMaxBody        = 1 << 20
)

var slackPhrases = phrases{
	child: func(at, name string) string {
		return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	},
	item: func(at string, i int) string { return fmt.Sprintf("%s/%d", at, i) },
	length: func(low, high, got int) string {
		if got < low {
			return fmt.Sprintf("must be more than %d characters", low-1)
		}
		return fmt.Sprintf("must be less than %d characters", high+1)
	},
	count: func(low, high, got int) string {
		if got < low {
			return fmt.Sprintf("no fewer than %d items allowed", low)
		}
		return fmt.Sprintf("no more than %d items allowed", high)
	},
	kind: func(want string) string { return "must provide a " + want },
	enum: func(allowed []string) string {
		return fmt.Sprintf("must be a valid enum value: %s", strings.Join(allowed, ", "))
	},
	variant:  func(got string, _ []string) string { return "unsupported type: " + got },
	number:   func(low, high int) string { return fmt.Sprintf("must be between %d and %d", low, high) },
	unknown:  func(at, name string) problem { return problem{at, "invalid additional property: " + name} },
	missing:  func(at, name string) problem { return problem{at, "missing required field: " + name} },
	mismatch: "must match the expected format",
}

// blockMessages words problems as response_metadata.messages does.
func blockMessages(problems []problem) []string {
	messages := []string{}
	for _, p := range problems {
		messages = append(messages, fmt.Sprintf("[ERROR] %s [json-pointer:%s]", p.what, p.at))
	}
	return messages
}

var slackURL = regexp.MustCompile(`^(https?|mailto|slack):\S+$`)

// slackLength is how long blocks are for Slack: every string in them counts, whatever it is for.
func slackLength(v any) int {
	n := 0
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			n += utf16Len(v) + 4*strings.Count(v, "&") + 3*strings.Count(v, "<") + 3*strings.Count(v, ">") // as they are escaped
		case map[string]any:
			for _, inner := range v {
				visit(inner)
			}
		case []any:
			for _, inner := range v {
				visit(inner)
			}
		}
	}
	visit(v)
	return n
}

func plainText(low, high int) rule {
	return shape{"type text", map[string]rule{"type": oneOf("plain_text"), "text": text(low, high, utf16Len),
		"emoji": boolean}}.check
}

func anyText(low, high int) rule {
	return byType(map[string]rule{
		"plain_text": plainText(low, high),
		"mrkdwn": shape{"type text", map[string]rule{"type": anything, "text": text(low, high, utf16Len),
			"verbatim": boolean}}.check,
	})
}

func slackLink(limit int) rule {
	return func(c *checker, at string, v any) {
		text(1, limit, utf16Len)(c, at, v)
		if s := str(v); s != "" && !slackURL.MatchString(s) {
			c.fail(at, "must be a valid URL")
		}
	}
}

func slackID(c *checker, at string, v any) { text(1, 255, utf16Len)(c, at, v) }

func slackConfirm(c *checker, at string, v any) {
	shape{"title text confirm deny", map[string]rule{
		"title": plainText(1, 100), "text": anyText(1, 300), "confirm": plainText(1, 30), "deny": plainText(1, 30),
		"style": oneOf("primary", "danger"),
	}}.check(c, at, v)
}

func slackOption(c *checker, at string, v any) {
	shape{"text value", map[string]rule{
		"text": anyText(1, 75), "value": text(1, 150, utf16Len), "description": anyText(1, 75), "url": slackLink(3000),
	}}.check(c, at, v)
}

// Elements by name; which of them a block may hold is the block's matter.
func slackElement(names ...string) rule {
	with := func(required string, props map[string]rule) rule {
		return shape{strings.TrimSpace("type " + required), props}.with(map[string]rule{
			"type": anything, "action_id": slackID, "confirm": slackConfirm, "focus_on_load": boolean,
		}).check
	}
	all := map[string]rule{
		"button": with("text", map[string]rule{
			"text": plainText(1, 75), "value": text(0, 2000, utf16Len), "url": slackLink(3000),
			"style":               oneOf("primary", "danger"),
			"accessibility_label": text(1, 75, utf16Len),
		}),
		"static_select": with("options", map[string]rule{
			"options": list(1, 100, slackOption), "placeholder": plainText(1, 150), "initial_option": slackOption,
		}),
		"overflow":      with("options", map[string]rule{"options": list(1, 5, slackOption)}),
		"radio_buttons": with("options", map[string]rule{"options": list(1, 10, slackOption), "initial_option": slackOption}),
		"checkboxes": with("options", map[string]rule{"options": list(1, 10, slackOption),
			"initial_options": list(1, 10, slackOption)}),
		"plain_text_input": with("", map[string]rule{
			"placeholder": plainText(1, 150), "initial_value": text(0, 3000, utf16Len), "multiline": boolean,
			"min_length": integer(0, 3000), "max_length": integer(1, 3000),
			"dispatch_action_config": shape{"",
				map[string]rule{"trigger_actions_on": list(1, 2, oneOf("on_enter_pressed", "on_character_entered"))}}.check,
		}),
		"image": shape{"image_url alt_text", map[string]rule{"type": anything, "image_url": slackLink(3000),
			"alt_text": text(1, 2000, utf16Len)}}.check,
		"text": anyText(1, 3000),
	}
	allowed := map[string]rule{}
	for _, name := range names {
		if name == "text" {
			allowed["plain_text"], allowed["mrkdwn"] = all["text"], all["text"]
			continue
		}
		allowed[name] = all[name]
	}
	return byType(allowed)
}

func slackBlock(c *checker, at string, v any) {
	of := func(required string, props map[string]rule) rule {
		return shape{strings.TrimSpace("type " + required), props}.with(map[string]rule{"type": anything,
			"block_id": slackID}).check
	}
	variants := map[string]rule{
		"header":  of("text", map[string]rule{"text": plainText(1, 150)}),
		"divider": of("", nil),
		"section": func(c *checker, at string, v any) {
			of("", map[string]rule{
				"text": anyText(1, 3000), "fields": list(1, 10, anyText(1, 2000)), "expand": boolean,
				"accessory": slackElement("button", "static_select", "overflow", "radio_buttons", "checkboxes", "image"),
			})(c, at, v)
			if object, _ := v.(map[string]any); object["text"] == nil && object["fields"] == nil {
				c.fail(at, "missing required field: text or fields")
			}
		},
		"context": of("elements", map[string]rule{"elements": list(1, 10, slackElement("text", "image"))}),
		"actions": func(c *checker, at string, v any) {
			of("elements", map[string]rule{"elements": list(1, 25, slackElement("button", "static_select", "overflow",
				"radio_buttons", "checkboxes"))})(c, at, v)
			uniqueActions(c, at, v)
		},
		"image": of("image_url alt_text", map[string]rule{"image_url": slackLink(3000), "alt_text": text(1, 2000, utf16Len),
			"title": plainText(1, 2000)}),
		"rich_text": of("elements", map[string]rule{"elements": list(0, 1000, byType(map[string]rule{
			"rich_text_section":      richText(nil),
			"rich_text_quote":        richText(map[string]rule{"border": integer(0, 1)}),
			"rich_text_preformatted": richText(map[string]rule{"border": integer(0, 1), "language": text(1, 50, utf16Len)}),
			"rich_text_list": shape{"type style elements", map[string]rule{
				"type": anything, "style": oneOf("bullet", "ordered"), "indent": integer(0, 8), "offset": integer(0, 1<<20),
				"border":   integer(0, 1),
				"elements": list(0, 1000, byType(map[string]rule{"rich_text_section": richText(nil)}))}}.check,
		}))}),
	}
	if c.view {
		variants["input"] = func(c *checker, at string, v any) {
			c.inputs++
			of("label element", map[string]rule{
				"label": plainText(1, 2000), "hint": plainText(1, 2000), "optional": boolean, "dispatch_action": boolean,
				"element": slackElement("plain_text_input", "static_select", "radio_buttons", "checkboxes"),
			})(c, at, v)
		}
	} else {
		variants["markdown"] = of("text", map[string]rule{"text": text(1, 12_000, utf16Len)})
	}
	byType(variants)(c, at, v)
	if object, _ := v.(map[string]any); object != nil {
		if id := str(object["block_id"]); id != "" {
			if c.blockIDs[id] {
				c.fail(at+"/block_id", fmt.Sprintf("`block_id` \"%s\" already exists", id))
			}
			c.blockIDs[id] = true
		}
	}
}

func uniqueActions(c *checker, at string, v any) {
	object, _ := v.(map[string]any)
	elements, _ := object["elements"].([]any)
	seen := map[string]bool{}
	for i, e := range elements {
		element, _ := e.(map[string]any)
		id := str(element["action_id"])
		if id != "" && seen[id] {
			c.fail(fmt.Sprintf("%s/elements/%d/action_id", at, i), fmt.Sprintf("`action_id` \"%s\" already exists", id))
		}
		seen[id] = true
	}
}

func richText(more map[string]rule) rule {
	style := shape{"", map[string]rule{"bold": boolean, "italic": boolean, "strike": boolean, "code": boolean,
		"underline": boolean}}.check
	of := func(required string, props map[string]rule) rule {
		return shape{"type " + required, props}.with(map[string]rule{"type": anything, "style": style}).check
	}
	return shape{"type elements", map[string]rule{"type": anything, "elements": list(0, 1000, byType(map[string]rule{
		"text":      of("text", map[string]rule{"text": text(1, slackMaxBlocksChars, utf16Len)}),
		"link":      of("url", map[string]rule{"url": slackLink(3000), "text": text(1, 3000, utf16Len), "unsafe": boolean}),
		"emoji":     of("name", map[string]rule{"name": text(1, 100, utf16Len), "unicode": text(1, 100, utf16Len)}),
		"user":      of("user_id", map[string]rule{"user_id": text(1, 50, utf16Len)}),
		"channel":   of("channel_id", map[string]rule{"channel_id": text(1, 50, utf16Len)}),
		"broadcast": of("range", map[string]rule{"range": oneOf("here", "channel", "everyone")}),
		"date": of("timestamp format", map[string]rule{"timestamp": integer(0, 1<<40), "format": text(1, 200, utf16Len),
			"fallback": text(1, 200, utf16Len), "url": slackLink(3000)}),
	}))}}.with(more).check
}

// checkBlocks checks the blocks of a message.
func checkBlocks(blocks any) *checker {
	c := &checker{say: slackPhrases, blockIDs: map[string]bool{}}
	list(0, slackMaxBlocks, slackBlock)(c, "/blocks", blocks)
	return c
}

func checkHome(view any) *checker {
	c := &checker{say: slackPhrases, blockIDs: map[string]bool{}, view: true}
	viewShape().with(map[string]rule{"type": oneOf("home")}).check(c, "/view", view)
	return c
}

func checkModal(view any) *checker {
	c := &checker{say: slackPhrases, blockIDs: map[string]bool{}, view: true}
	sh := viewShape().with(map[string]rule{
		"type": oneOf("modal"), "title": plainText(1, 24), "submit": plainText(1, 24), "close": plainText(1, 24),
		"clear_on_close": boolean, "notify_on_close": boolean, "submit_disabled": boolean,
	})
	sh.required += " title"
	sh.check(c, "/view", view)
	if object, _ := view.(map[string]any); object != nil && c.inputs > 0 && object["submit"] == nil {
		c.fail("/view", "missing required field: submit")
	}
	return c
}

// viewShape is what a modal and a Home tab have in common.
func viewShape() shape {
	return shape{"type blocks", map[string]rule{
		"blocks": list(0, slackMaxViewBlocks, slackBlock), "callback_id": slackID, "external_id": text(0, 255, utf16Len),
		"private_metadata": text(0, 3000, utf16Len),
	}}
}

var slackInteractive = []string{"button", "static_select", "overflow", "radio_buttons", "checkboxes",
	"plain_text_input"}

// slackElements returns the elements of a block that a person can act on.
func slackElements(block map[string]any) (found []map[string]any) {
	add := func(v any) {
		if e, ok := v.(map[string]any); ok {
			found = append(found, e)
		}
	}
	switch str(block["type"]) {
	case "actions":
		elements, _ := block["elements"].([]any)
		for _, e := range elements {
			add(e)
		}
	case "section":
		add(block["accessory"])
	case "input":
		add(block["element"])
	}
	return found
}
