package line

import (
	"fmt"
	"unicode/utf8"

	api "github.com/line/line-bot-sdk-go/v8/linebot/messaging_api"
)

// sizeOf returns how many bytes of JSON v takes, with its comma, or a few more; never fewer. The SDK's
// structs encode every level anew, which is too slow to be done for each row that may or may not fit.
// A test holds it against what the SDK writes.
func sizeOf(v any) int {
	switch v := v.(type) {
	case *api.FlexBubble:
		n := len(`{"type":"bubble","header":,"body":,"footer":,"size":""},`) + len(v.Size)
		for _, b := range []*api.FlexBox{v.Header, v.Body, v.Footer} {
			if b != nil {
				n += sizeOf(b)
			}
		}
		return n
	case *api.FlexBox:
		n := len(`{"type":"box","layout":"","flex":0,"contents":[],"spacing":"","backgroundColor":"","paddingAll":"","cornerRadius":""},`) + //nolint:lll // one literal
			len(v.Layout) + len(v.Spacing) + len(v.BackgroundColor) + len(v.PaddingAll) + len(v.CornerRadius)
		for _, c := range v.Contents {
			n += sizeOf(c)
		}
		return n
	case *api.FlexText:
		n := len(`{"type":"text","flex":0,"text":,"size":"","color":"","weight":"","wrap":false,"maxLines":0,"scaling":false,"contents":[]},`) + //nolint:lll // one literal
			len(v.Size) + len(v.Color) + len(v.Weight) + quotedSize(v.Text)
		for i := range v.Contents {
			s := &v.Contents[i]
			n += len(`{"type":"span","text":,"size":"","color":"","weight":"","style":"","decoration":""},`) + len(s.Size) +
				len(s.Color) + len(s.Weight) + len(s.Style) + quotedSize(s.Text)
		}
		return n
	case *api.FlexSeparator:
		return len(`{"type":"separator","margin":""},`) + len(v.Margin)
	case *api.FlexButton:
		n := len(`{"type":"button","flex":0,"color":"","style":"","action":,"height":"","scaling":false},`) + len(v.Color) +
			len(v.Style) + len(v.Height)
		switch a := v.Action.(type) {
		case *api.PostbackAction:
			n += len(`{"type":"postback","label":,"data":,"displayText":,"inputOption":"","fillInText":}`) +
				quotedSize(a.Label) + quotedSize(a.Data) + quotedSize(a.DisplayText) + len(a.InputOption) + quotedSize(a.FillInText)
		case *api.MessageAction:
			n += len(`{"type":"message","label":,"text":}`) + quotedSize(a.Label) + quotedSize(a.Text)
		case *api.UriAction:
			n += len(`{"type":"uri","label":,"uri":}`) + quotedSize(a.Label) + quotedSize(a.Uri)
		default:
			panic(fmt.Sprintf("line: the size of a %T is not known", a))
		}
		return n
	default:
		panic(fmt.Sprintf("line: the size of a %T is not known", v))
	}
}

// quotedSize returns how many bytes s takes as a JSON string of encoding/json.
func quotedSize(s string) int {
	n := len(`""`)
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError || r == '\u2028' || r == '\u2029' {
				n += len(`\u2028`)
			} else {
				n += size
			}
			i += size
			continue
		}
		switch {
		case c == '"' || c == '\\':
			n += len(`\"`)
		case c < ' ' || c == '<' || c == '>' || c == '&':
			n += len(`\u003c`)
		default:
			n++
		}
		i++
	}
	return n
}
