package line

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	api "github.com/line/line-bot-sdk-go/v8/linebot/messaging_api"
)

// encode writes messages as the SDK does, byte by byte, in a tenth of its time: the SDK's structs encode every level
// anew. It knows what Render uses of them, as [sizeOf] does, and a test holds it against the SDK.
func encode(ms []api.MessageInterface) []byte {
	e := encoder{b: make([]byte, 0, 8<<10)}
	e.b = append(e.b, '[')
	for _, m := range ms {
		e.message(m)
		e.b = append(e.b, ',')
	}
	return e.end(']')
}

// encoder appends JSON. Each member and element ends with a comma, which the end of what they are in takes the place
// of.
type encoder struct{ b []byte }

// end closes what is open.
func (e *encoder) end(with byte) []byte {
	if last := len(e.b) - 1; e.b[last] == ',' {
		e.b[last] = with
	} else {
		e.b = append(e.b, with)
	}
	return e.b
}

// typed ends an object with its type.
func (e *encoder) typed(name string) {
	e.must("type", name)
	e.end('}')
}

func (e *encoder) name(name string) {
	e.b = append(e.b, '"')
	e.b = append(e.b, name...)
	e.b = append(e.b, '"', ':')
}

// must is a member that is there also where it is empty.
func (e *encoder) must(name, value string) {
	e.name(name)
	e.b = append(appendQuoted(e.b, value), ',')
}

// may is a member that is left out where it is empty.
func (e *encoder) may(name, value string) {
	if value != "" {
		e.must(name, value)
	}
}

func (e *encoder) number(name string, n int32) {
	e.name(name)
	e.b = append(strconv.AppendInt(e.b, int64(n), 10), ',')
}

func (e *encoder) truth(name string, v bool) {
	e.name(name)
	e.b = append(strconv.AppendBool(e.b, v), ',')
}

// each writes a list.
func each[T any](e *encoder, name string, list []T, write func(v T)) {
	e.name(name)
	e.b = append(e.b, '[')
	for _, v := range list {
		write(v)
		e.b = append(e.b, ',')
	}
	e.end(']')
	e.b = append(e.b, ',')
}

func (e *encoder) message(m api.MessageInterface) {
	e.b = append(e.b, '{')
	switch m := m.(type) {
	case *api.TextMessage:
		if q := m.QuickReply; q != nil {
			e.name("quickReply")
			e.b = append(e.b, '{')
			if len(q.Items) > 0 {
				each(e, "items", q.Items, e.quickReply)
			}
			e.end('}')
			e.b = append(e.b, ',')
		}
		e.must("text", m.Text)
		e.typed("text")
	case *api.FlexMessage:
		e.must("altText", m.AltText)
		e.name("contents")
		switch c := m.Contents.(type) {
		case *api.FlexBubble:
			e.bubble(c)
		case *api.FlexCarousel:
			e.b = append(e.b, '{')
			each(e, "contents", c.Contents, func(b api.FlexBubble) { e.bubble(&b) })
			e.typed("carousel")
		default:
			panic(fmt.Sprintf("line: it is not known how a %T is written", c))
		}
		e.b = append(e.b, ',')
		e.typed("flex")
	default:
		panic(fmt.Sprintf("line: it is not known how a %T is written", m))
	}
}

func (e *encoder) quickReply(i api.QuickReplyItem) {
	e.b = append(e.b, '{')
	e.action(i.Action)
	e.may("type", i.Type)
	e.end('}')
}

func (e *encoder) bubble(b *api.FlexBubble) {
	e.b = append(e.b, '{')
	e.part("header", b.Header)
	e.part("body", b.Body)
	e.part("footer", b.Footer)
	e.may("size", string(b.Size))
	e.typed("bubble")
}

func (e *encoder) part(name string, b *api.FlexBox) {
	if b != nil {
		e.name(name)
		e.component(b)
		e.b = append(e.b, ',')
	}
}

func (e *encoder) component(c api.FlexComponentInterface) {
	e.b = append(e.b, '{')
	switch c := c.(type) {
	case *api.FlexBox:
		e.must("layout", string(c.Layout))
		e.number("flex", c.Flex)
		e.may("spacing", c.Spacing)
		e.may("backgroundColor", c.BackgroundColor)
		e.may("cornerRadius", c.CornerRadius)
		e.may("paddingAll", c.PaddingAll)
		e.must("type", "box")
		each(e, "contents", c.Contents, e.component)
		e.end('}')
	case *api.FlexText:
		e.number("flex", c.Flex)
		e.may("text", c.Text)
		e.may("size", c.Size)
		e.may("color", c.Color)
		e.may("weight", string(c.Weight))
		e.truth("wrap", c.Wrap)
		e.number("maxLines", c.MaxLines)
		if len(c.Contents) > 0 {
			each(e, "contents", c.Contents, e.span)
		}
		e.truth("scaling", c.Scaling)
		e.typed("text")
	case *api.FlexSeparator:
		e.may("margin", c.Margin)
		e.typed("separator")
	case *api.FlexButton:
		e.number("flex", c.Flex)
		e.may("color", c.Color)
		e.may("style", string(c.Style))
		e.action(c.Action)
		e.may("height", string(c.Height))
		e.truth("scaling", c.Scaling)
		e.typed("button")
	default:
		panic(fmt.Sprintf("line: it is not known how a %T is written", c))
	}
}

func (e *encoder) span(s api.FlexSpan) {
	e.b = append(e.b, '{')
	e.may("text", s.Text)
	e.may("size", s.Size)
	e.may("color", s.Color)
	e.may("weight", string(s.Weight))
	e.may("style", string(s.Style))
	e.typed("span")
}

// action is the member of what can be tapped.
func (e *encoder) action(a api.ActionInterface) {
	e.name("action")
	e.b = append(e.b, '{')
	switch a := a.(type) {
	case *api.PostbackAction:
		e.may("label", a.Label)
		e.may("data", a.Data)
		e.may("displayText", a.DisplayText)
		e.may("inputOption", string(a.InputOption))
		e.may("fillInText", a.FillInText)
		e.typed("postback")
	case *api.MessageAction:
		e.may("label", a.Label)
		e.may("text", a.Text)
		e.typed("message")
	case *api.UriAction:
		e.may("label", a.Label)
		e.may("uri", a.Uri)
		e.typed("uri")
	default:
		panic(fmt.Sprintf("line: it is not known how a %T is written", a))
	}
	e.b = append(e.b, ',')
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends s as encoding/json writes it.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + size
			case r == '\u2028' || r == '\u2029':
				b = append(append(b, s[from:i]...), `\u202`...)
				b = append(b, hexDigits[r&0xf])
				from = i + size
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}
