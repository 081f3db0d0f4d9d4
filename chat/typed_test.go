package chat

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// An approval is the word, and the id or the quote. Whatever else is typed decides nothing, unless it is a
// reason, which is the gate's to judge.
func TestTypedApprovalIsTheWordAndTheIDAlone(t *testing.T) {
	const second = "01KAFHZX3T9W8Y7B6A5D4C0002"
	quoted := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "ID", "")) }
	for _, l := range []struct {
		locale         string
		exact          []string // with "ID" for the id; without it where a card is quoted
		reasons        []string // a reason follows, which only counts where one is required
		doubtful, junk []string
	}{{
		locale: "en",
		exact:  []string{"approve ID", "Approve ID.", "YES ID!", "ok  ID", "proceed ID", "approve: ID", "  approve\nID  ", "ａｐｐｒｏｖｅ　ID"},
		reasons: []string{"approve ID agreed with finance", "proceed ID: agreed with finance",
			"approve ID reason: agreed with finance"},
		doubtful: []string{"approve ID lol no way", "approve ID: lol no way", "approve ID not", "approve ID?", "approve ID ?", "approve ID？", "approve ID!?", "approve ID …",
			"approve ID...", "approve ID as if", "approve ID jk", "approve ID 🙄", "approve ID 👍", "approve ID \"yes\" she said, not", "approve ID cancel", "approve ID deny ID",
			"approve ID, but only 5", "approve ID - or not", "approve ID (not)", "approve ID n\u200bot", "approve ID \u200b", "approve ID\u200b", "approve ID \u2066", "approve\u200b ID", "approve ID n\u043et"},
		junk: []string{"approve ID ID2", "approve ID and ID2", "approve ID,ID2", "approve ID2 ID", "approve ID/ID2", "approve \"ID\"", "approve (ID)", "approve <ID>", "approve #ID",
			"please approve ID", "I approve ID", "do not approve ID", "not approve ID", "approve the ID", "approve approve ID", "yes no ID", "ID approve", "approve:", "approve.ID", "approve!ID", "\"approve ID\"", "approveID"},
	}, {
		locale: "ja",
		exact:  []string{"承認 ID", "承認ID", "承認　ID。", "承認します ID", "はい ID！", "承認：ID", "続行 ID", "ﾊｲ ID"},
		reasons: []string{"承認 ID 経理に確認済み", "承認ID：経理に確認済み",
			"承認 ID 理由：経理に確認済み"},
		doubtful: []string{"承認 ID しない", "承認 ID わけがない", "承認 ID ？", "承認 ID でいいですか", "承認 ID まだ", "承認 ID 嘘", "承認 ID 冗談です", "承認 ID（却下）", "承認 ID キャンセル", "承認 ID 。。。", "承認 ID 🤔",
			"承認 ID し\u200bない", "承認 ID 反対", "承認 ID かも"},
		junk: []string{"承認しない ID", "承認しないで ID", "承認 ID ID2", "承認IDと ID2", "承認\u200bID", "承認「ID」", "ID 承認", "承認IDです", "承認します？ID", "承認済み ID", "不承認承認 ID"},
	}, {
		locale: "th",
		exact:  []string{"อนุมัติ ID", "อนุมัติID", "อนุมัติครับ ID", "อนุมัติ ID ครับ", "อนุมัติ IDครับ", "อนุมัติ ID ค่ะ.", "ตกลงค่ะ ID", "ดำเนินการต่อ ID", "อนุมัติ ID นะคะ"},
		reasons: []string{"อนุมัติ ID ตรวจแล้ว", "อนุมัติ ID ครับ ตรวจแล้ว",
			"อนุมัติ ID เหตุผล: ตรวจแล้ว"},
		doubtful: []string{"อนุมัติ ID ไม่", "อนุมัติ ID ไหม", "อนุมัติ ID ไหมครับ", "อนุมัติ ID คะ", "อนุมัติ ID ล้อเล่น", "อนุมัติ ID ยกเลิก", "อนุมัติ ID 555", "อนุมัติ ID ครับ ไม่", "อนุมัติ ID?", "อนุมัติ ID ฝันไปเถอะ",
			"อนุมัติ ID ยัง\u200bไม่", "อนุมัติ ID 🙅"},
		junk: []string{"ไม่อนุมัติ ID อนุมัติ", "อย่าอนุมัติ ID", "อนุมัติ ID ID2", "อนุมัติไหม ID", "อนุมัติ “ID”", "ID อนุมัติ", "อนุมัติ\u200bID", "อนุมัติ\u200b ID"},
	}, {
		locale: "zh-TW",
		exact:  []string{"同意 ID", "同意ID", "核准　ID。", "好的 ID！", "核准：ID", "繼續 ID", "我同意 ID"},
		reasons: []string{"同意 ID 已與財務確認", "核准ID：已與財務確認",
			"核准 ID 原因：已與財務確認"},
		doubtful: []string{"同意 ID 才怪", "同意ID才怪", "同意 ID 嗎", "同意 ID ？", "同意 ID 想得美", "同意 ID 呵呵", "同意 ID 取消", "同意 ID 不", "同意 ID 沒有啦", "同意 ID 開玩笑的", "同意 ID 🙃", "同意 ID 哪有可能", "同意 ID 「不」", "同意 ID\u200b才怪"},
		junk:     []string{"不同意 ID 同意", "不 同意 ID", "同意 ID ID2", "同意ID和ID2", "同意「ID」", "ID 同意", "同意嗎 ID", "誰同意 ID", "同\u200b意 ID", "同意\u2060ID"},
	}} {
		fill := strings.NewReplacer("ID2", second, "ID", id)
		for _, text := range l.exact {
			for _, text := range []string{fill.Replace(text), strings.ReplaceAll(text, "ID", wide(id)), strings.ReplaceAll(text, "ID", strings.ToLower(id))} {
				if got := ParseWords(text, false); got != (Words{Intent: IntentApprove, ID: id}) {
					t.Errorf("%s: %q is read as %+v", l.locale, text, got)
				}
			}
			if text := quoted(text); !strings.ContainsAny(text, ":：") {
				if got := ParseWords(text, true); got != (Words{Intent: IntentApprove}) {
					t.Errorf("%s: %q, quoting a card, is read as %+v", l.locale, text, got)
				}
			}
		}
		for _, text := range l.reasons {
			if got := ParseWords(fill.Replace(text), false); got.Intent != IntentApprove || got.ID != id || got.Reason == "" {
				t.Errorf("%s: %q is read as %+v", l.locale, text, got)
			}
		}
		for _, text := range l.doubtful {
			if got := ParseWords(quoted(text), true); got.Intent == IntentApprove {
				t.Errorf("%s: %q, quoting a card, approves: %+v", l.locale, quoted(text), got)
			}
		}
		for _, text := range append(append([]string{}, l.doubtful...), l.junk...) {
			for _, quoting := range []bool{false, true} {
				if got := ParseWords(fill.Replace(text), quoting); got.Intent == IntentApprove {
					t.Errorf("%s: %q (%+q), quoting %t, approves: %+v", l.locale, text, text, quoting, got)
				}
			}
		}
	}
}

// From typed words an approval comes only from the word and the id or the quote, or with a reason in which
// no word of doubt or negation stands, whatever is put together.
func TestTypedApprovalProperty(t *testing.T) {
	var yes, no, doubtWords, endings []string
	for _, l := range lexicons {
		yes, no, endings = append(yes, l.yes...), append(no, l.no...), append(endings, l.polite...)
		doubtWords = append(append(doubtWords, doubtsOf[l.locale].anywhere...), doubtsOf[l.locale].begins...)
	}
	bits := [][]string{yes, no, doubtWords, endings, {id, strings.ToLower(id), wide(id), "01KAFHZX3T9W8Y7B6A5D4C0002", id[:25]},
		{" ", "　", "\n", "", "", ": ", "：", ", ", ".", "。", "!", "?", "？", "…", "-", "「", "」", "\"", "(", ")", "`"},
		{"\u200b", "\u200d", "\ufe0f", "\u202e", "\x00", "🙄", "👍", "👎", "lol", "才怪", "555", "ok", "checked", "確認済み", "ตรวจแล้ว", "已確認", "reason:", "理由："}}
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		if rapid.Bool().Draw(t, "begins with a yes") {
			b.WriteString(rapid.SampledFrom(yes).Draw(t, "yes"))
			b.WriteString(rapid.SampledFrom([]string{" ", "", ": ", "　"}).Draw(t, "then"))
			b.WriteString(rapid.SampledFrom([]string{id, id + " ", wide(id) + "　", ""}).Draw(t, "id"))
		}
		for range rapid.IntRange(0, 6).Draw(t, "bits") {
			b.WriteString(rapid.SampledFrom(rapid.SampledFrom(bits).Draw(t, "kind")).Draw(t, "bit"))
		}
		text, quoting := b.String(), rapid.Bool().Draw(t, "quoting")
		w := ParseWords(text, quoting)
		if w.Intent != IntentApprove {
			return
		}
		if !looksApproved(text, w, quoting) {
			t.Fatalf("%+q approves: %+v", text, w)
		}
		if w.Reason == "" {
			return
		}
		heard := hear(plain(w.Reason))
		for _, word := range append(append([]string{}, no...), allDoubts()...) {
			if word = plain(word); word[0] < 0x80 && strings.Contains(heard.apart, " "+word+" ") || word[0] >= 0x80 && strings.Contains(heard.runs, word) {
				t.Fatalf("%+q approves with %q in its reason: %+v", text, word, w)
			}
		}
	})
}

func allDoubts() (words []string) {
	for _, d := range doubtsOf {
		words = append(words, d.anywhere...)
	}
	return words
}

// What asks for a decision without naming one request brings the card of the one that it names, if any.
func TestTypedUnclearNamesItsRequest(t *testing.T) {
	for text, want := range map[string]string{
		"approve " + id + " lol no way": id, "同意 " + id + " 才怪": id, "同意" + id + "才怪": id, "approve " + id + "?": id, "approve " + id + ", but only 5": id,
		"approve " + id + " 01KAFHZX3T9W8Y7B6A5D4C0002": "", "approve " + id[:25]: "", "approve everything": "", "ok thanks": "",
	} {
		if got := ParseWords(text, false); got != (Words{Intent: IntentUnclear, ID: want}) {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
