package chat

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
)

// An approval is the word, and the id or the quote. Whatever else is typed decides nothing.
func TestTypedApprovalIsTheWordAndTheIDAlone(t *testing.T) {
	const second = "01KAFHZX3T9W8Y7B6A5D4C0002"
	quoted := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "ID", "")) }
	for _, l := range []struct {
		locale         string
		exact          []string // with "ID" for the id; without it where a card is quoted
		reasons        []string // a reason follows: the gate asks for it, and takes none beside the word
		doubtful, junk []string
	}{{
		locale: "en",
		exact: []string{"approve ID", "Approve ID.", "YES ID!", "ok  ID", "proceed ID", "approve: ID", "  approve\nID  ",
			"ａｐｐｒｏｖｅ　ID"},
		reasons: []string{"approve ID agreed with finance", "proceed ID: agreed with finance",
			"approve ID reason: agreed with finance"},
		doubtful: []string{"approve ID lol no way", "approve ID: lol no way", "approve ID not", "approve ID?", "approve ID ?",
			"approve ID？", "approve ID!?", "approve ID …",
			"approve ID...", "approve ID as if", "approve ID jk", "approve ID 🙄", "approve ID 👍",
			"approve ID \"yes\" she said, not", "approve ID cancel", "approve ID deny ID",
			"approve ID, but only 5", "approve ID - or not", "approve ID (not)", "approve ID n\u200bot", "approve ID \u200b",
			"approve ID\u200b", "approve ID \u2066", "approve\u200b ID", "approve ID n\u043et"},
		junk: []string{"approve ID ID2", "approve ID and ID2", "approve ID,ID2", "approve ID2 ID", "approve ID/ID2",
			"approve \"ID\"", "approve (ID)", "approve <ID>", "approve #ID",
			"please approve ID", "I approve ID", "do not approve ID", "not approve ID", "approve the ID", "approve approve ID",
			"yes no ID", "ID approve", "approve:", "approve.ID", "approve!ID", "\"approve ID\"", "approveID"},
	}, {
		locale: "ja",
		exact:  []string{"承認 ID", "承認ID", "承認　ID。", "承認します ID", "はい ID！", "承認：ID", "続行 ID", "ﾊｲ ID"},
		reasons: []string{"承認 ID 経理に確認済み", "承認ID：経理に確認済み",
			"承認 ID 理由：経理に確認済み"},
		doubtful: []string{"承認 ID しない", "承認 ID わけがない", "承認 ID ？", "承認 ID でいいですか", "承認 ID まだ", "承認 ID 嘘", "承認 ID 冗談です",
			"承認 ID（却下）", "承認 ID キャンセル", "承認 ID 。。。", "承認 ID 🤔",
			"承認 ID し\u200bない", "承認 ID 反対", "承認 ID かも"},
		junk: []string{"承認しない ID", "承認しないで ID", "承認 ID ID2", "承認IDと ID2", "承認\u200bID", "承認「ID」", "ID 承認", "承認IDです",
			"承認します？ID", "承認済み ID", "不承認承認 ID"},
	}, {
		locale: "th",
		exact: []string{"อนุมัติ ID", "อนุมัติID", "อนุมัติครับ ID", "อนุมัติ ID ครับ", "อนุมัติ IDครับ", "อนุมัติ ID ค่ะ.",
			"ตกลงค่ะ ID", "ดำเนินการต่อ ID", "อนุมัติ ID นะคะ"},
		reasons: []string{"อนุมัติ ID ตรวจแล้ว", "อนุมัติ ID ครับ ตรวจแล้ว",
			"อนุมัติ ID เหตุผล: ตรวจแล้ว"},
		doubtful: []string{"อนุมัติ ID ไม่", "อนุมัติ ID ไหม", "อนุมัติ ID ไหมครับ", "อนุมัติ ID คะ", "อนุมัติ ID ล้อเล่น",
			"อนุมัติ ID ยกเลิก", "อนุมัติ ID 555", "อนุมัติ ID ครับ ไม่", "อนุมัติ ID?", "อนุมัติ ID ฝันไปเถอะ",
			"อนุมัติ ID ยัง\u200bไม่", "อนุมัติ ID 🙅"},
		junk: []string{"ไม่อนุมัติ ID อนุมัติ", "อย่าอนุมัติ ID", "อนุมัติ ID ID2", "อนุมัติไหม ID", "อนุมัติ “ID”",
			"ID อนุมัติ", "อนุมัติ\u200bID", "อนุมัติ\u200b ID"},
	}, {
		locale: "zh-TW",
		exact:  []string{"同意 ID", "同意ID", "核准　ID。", "好的 ID！", "核准：ID", "繼續 ID", "我同意 ID"},
		reasons: []string{"同意 ID 已與財務確認", "核准ID：已與財務確認",
			"核准 ID 原因：已與財務確認"},
		doubtful: []string{"同意 ID 才怪", "同意ID才怪", "同意 ID 嗎", "同意 ID ？", "同意 ID 想得美", "同意 ID 呵呵", "同意 ID 取消", "同意 ID 不",
			"同意 ID 沒有啦", "同意 ID 開玩笑的", "同意 ID 🙃", "同意 ID 哪有可能", "同意 ID 「不」", "同意 ID\u200b才怪"},
		junk: []string{"不同意 ID 同意", "不 同意 ID", "同意 ID ID2", "同意ID和ID2", "同意「ID」", "ID 同意", "同意嗎 ID", "誰同意 ID", "同\u200b意 ID",
			"同意\u2060ID"},
	}} {
		fill := strings.NewReplacer("ID2", second, "ID", id)
		for _, text := range l.exact {
			for _, text := range []string{fill.Replace(text), strings.ReplaceAll(text, "ID", wide(id)), strings.ReplaceAll(text,
				"ID", strings.ToLower(id))} {
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
			if got := ParseWords(fill.Replace(text), false); got != (Words{Intent: IntentUnclear, ID: id}) {
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

// The words and endings of an approval as a reader of docs/chat.md knows them, written down here once more: an oracle
// that shares nothing with the parser.
var (
	oracleWords = map[string][]string{
		"en":    {"approve", "yes", "ok", "proceed", "accept", "allow", "confirm"},
		"ja":    {"承認", "はい", "許可", "同意", "了承", "続行", "承認します"},
		"th":    {"อนุมัติ", "ใช่", "ตกลง", "โอเค", "อนุญาต", "ดำเนินการ"},
		"zh-TW": {"核准", "批准", "同意", "是", "好", "可以", "繼續"},
	}
	oracleEndings = []string{"", " ", ".", "!", "。", " ครับ", "ครับ", " ค่ะ", "\n"}
	// oracleMore is what people add; each of it makes the text more than an approval.
	oracleMore = []string{" disapproved", " by mistake", " 禁止", " 唔批", " กดผิด", "禁止", "唔批", " กดผิดครับ", " not", " no",
		" lol",
		" checked with Ken", ": checked", " reason: checked", " 経理に確認済み", " 理由：確認済み", " ตรวจแล้ว", " 已確認", " 👍", " 🙄", "?",
		" ?", "...",
		" …", ", but only 5", " まだ", "しない", "才怪", " 嗎", " ไหม", " (ok)", " yes", " 承認", " 01KAFHZX3T9W8Y7B6A5D4C0002",
		"\u200b", " \u202e",
		" please", "!?", " x", " 5", " -", " ok!", " 中止", " abort", " undo", " nej", " нет", " 아니요", "でなく", " をやめる", " ห้าม",
		" 唔好", " mistake"}
	oracleBefore = []string{"not ", "don't ", "please ", "I ", "不", "不 ", "未", "ไม่", "อย่า", "no ", "👎 ", "\u200b", "\"",
		"誰", "undo "}
)

// A typed line approves if it is a word, and the id, and at most a polite ending and a full stop; every line that is
// more than that does not. Lines are put together by the grammar of the test, which knows of each whether it is one.
func TestTypedApprovalProperty(t *testing.T) {
	ids := []string{id, strings.ToLower(id), wide(id), "4C0001", "KX7F3J", "kx7f3j", "N9JA8B", "y0k0k0"}
	of := func(name string) Words { return Words{Intent: IntentApprove}.naming(strings.ToUpper(plain(name))) }
	check := func(t interface{ Errorf(string, ...any) }, before, word, between, name, more, ending string) {
		line := before + word + between + name + more + ending
		exact := before == "" && more == ""
		got := ParseWords(line, false)
		switch {
		case exact && got != of(name):
			t.Errorf("%+q is read as %+v, not as an approval", line, got)
		case !exact && (got.Intent == IntentApprove || got.Intent == IntentConfirm):
			t.Errorf("%+q approves: %+v", line, got)
		}
		quoted := ParseWords(before+word+more, true)
		if !exact && quoted.Intent == IntentApprove && quoted.ID+quoted.Typed == "" {
			t.Errorf("%+q approves the card that it quotes", before+word+more)
		}
	}
	for tag, words := range oracleWords { // every one of them
		for _, word := range words {
			for _, name := range ids {
				for _, more := range append([]string{""}, oracleMore...) {
					check(t, "", word, " ", name, more, "")
					if tag != "en" {
						check(t, "", word, "", name, more, "")
					}
				}
			}
		}
	}
	var all []string
	for _, words := range oracleWords {
		all = append(all, words...)
	}
	slices.Sort(all)
	rapid.Check(t, func(t *rapid.T) {
		one := func(label string, from []string) string { return rapid.SampledFrom(from).Draw(t, label) }
		var before, more string
		if rapid.Bool().Draw(t, "before") {
			before = one("prefix", oracleBefore)
		}
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			more += one("addition", oracleMore)
		}
		check(t, before, one("word", all), one("between", []string{" ", "　", ": ", "：", "\n"}), one("id", ids), more,
			one("ending", oracleEndings))
	})
}

// What asks for a decision without naming one request brings the card of the one that it names, if any.
func TestTypedUnclearNamesItsRequest(t *testing.T) {
	for text, want := range map[string]string{
		"approve " + id + " lol no way": id, "同意 " + id + " 才怪": id, "同意" + id + "才怪": id, "approve " + id + "?": id,
		"approve " + id + ", but only 5":                id,
		"approve " + id + " 01KAFHZX3T9W8Y7B6A5D4C0002": "", "approve " + id[:25]: "", "approve everything": "",
		"ok thanks a lot": "",
	} {
		got := ParseWords(text, false)
		if got.Typed = ""; got != (Words{Intent: IntentUnclear, ID: want}) {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// What may be the end of an id is told apart from ordinary words: what holds a digit is one, of other words the gate
// must know a request, and an approval takes six letters.
func TestTypedShortIDs(t *testing.T) {
	const short = "4C0001"
	for _, tt := range []struct {
		text    string
		quoting bool
		want    Words
	}{
		{"approve 4c0001", false, Words{Intent: IntentApprove, Typed: short}},
		{"approve 4c0001!", true, Words{Intent: IntentApprove, Typed: short}},
		{"承認 4c0001", false, Words{Intent: IntentApprove, Typed: short}},
		{"อนุมัติ 4c0001 ครับ", false, Words{Intent: IntentApprove, Typed: short}},
		{"核准 ４Ｃ０００１", false, Words{Intent: IntentApprove, Typed: short}},
		{"approve 0001", false, Words{Intent: IntentApprove, Typed: "0001"}}, // too short: they are told so
		{"approve 001", false, Words{Intent: IntentUnclear}},
		{"approve 4c0001 checked", false, Words{Intent: IntentUnclear, Typed: short}},
		{"approve 4c0001 but not now", false, Words{Intent: IntentUnclear, Typed: short}},
		{"approve 4c0001: checked", true, Words{Intent: IntentUnclear, Typed: short}},
		{"approve that", false, Words{Intent: IntentApprove, Typed: "THAT"}},
		{"ok thanks", false, Words{Intent: IntentApprove, Typed: "THANKS"}},
		{"approve kxwabc checked", false, Words{Intent: IntentUnclear, Typed: "KXWABC"}},
		{"approve kxwabc not yet", false, Words{Intent: IntentUnclear, Typed: "KXWABC"}},
		{"ok that works", false, Words{Intent: IntentUnclear, Typed: "THAT"}},
		{"核准kxwabc", false, Words{Intent: IntentApprove, Typed: "KXWABC"}}, // as 拒絕 does, without a blank
		{"承認KXWABC。", false, Words{Intent: IntentApprove, Typed: "KXWABC"}},
		{"拒絕kxwabc", false, Words{Intent: IntentDeny, Typed: "KXWABC"}},
		{"核准kxwabc唔批", false, Words{Intent: IntentUnclear, Typed: "KXWABC"}},
		{"deny 0001", false, Words{Intent: IntentDeny, Typed: "0001"}},
		{"deny 4c0001 wrong account", false, Words{Intent: IntentDeny, Typed: short, Reason: "wrong account"}},
		{"却下 4c0001 宛先が違う", false, Words{Intent: IntentDeny, Typed: short, Reason: "宛先が違う"}},
		{"no, 2000 is too much", false, Words{Intent: IntentOther}},
		{"deny 2000 is too much", true, Words{Intent: IntentDeny, Reason: "2000 is too much"}},
		{"deny wrong account", false, Words{Intent: IntentOther}},
		{"show 0001", false, Words{Intent: IntentShow, Typed: "0001"}},
		{"show me", false, Words{Intent: IntentOther}},
		{"extend 4c0001", false, Words{Intent: IntentExtend, Typed: short}},
		{"extend " + id, false, Words{Intent: IntentExtend, ID: id}},
		{"extend", true, Words{Intent: IntentExtend}},
		{"extend it by a day", false, Words{Intent: IntentOther}},
	} {
		if got := ParseWords(tt.text, tt.quoting); got != tt.want {
			t.Errorf("ParseWords(%q, %t) = %+v, want %+v", tt.text, tt.quoting, got, tt.want)
		}
	}
}

// Freezes and delegations are typed in four languages. A question orders nothing.
func TestTypedOrders(t *testing.T) {
	for text, want := range map[string]Words{
		"freeze":                             {Intent: IntentFreeze},
		"freeze treasury-bot":                {Intent: IntentFreeze, Name: "treasury-bot"},
		"Freeze treasury-bot: it pays twice": {Intent: IntentFreeze, Name: "treasury-bot", Reason: "it pays twice"},
		"凍結 treasury-bot 送金先が違う":             {Intent: IntentFreeze, Name: "treasury-bot", Reason: "送金先が違う"},
		"ระงับ treasury-bot จ่ายผิดคน": {Intent: IntentFreeze, Name: "treasury-bot", Reason: "จ่ายผิดคน"},
		"凍結 全部":                         {Intent: IntentFreeze, Name: "全部"},
		"freeze treasury-bot?":          {Intent: IntentOther},
		"unfreeze":                      {Intent: IntentUnfreeze},
		"unfreeze treasury-bot":         {Intent: IntentUnfreeze, Name: "treasury-bot"},
		"解除凍結 treasury-bot":             {Intent: IntentUnfreeze, Name: "treasury-bot"},
		"เลิกระงับ treasury-bot":        {Intent: IntentUnfreeze, Name: "treasury-bot"},
		"解除 treasury-bot":               {Intent: IntentUnfreeze, Name: "treasury-bot"},
		"delegate ken 3d":               {Intent: IntentDelegate, Name: "ken", Reason: "3d"},
		"delegate ken until 2026-12-01": {Intent: IntentDelegate, Name: "ken", Reason: "until 2026-12-01"},
		"委任 ken 3日":                     {Intent: IntentDelegate, Name: "ken", Reason: "3日"},
		"มอบหมาย ken ถึง 2026-12-01 18:00": {Intent: IntentDelegate, Name: "ken", Reason: "ถึง 2026-12-01 18:00"},
		"委託 ken 2 週":                             {Intent: IntentDelegate, Name: "ken", Reason: "2 週"},
		"delegate ken":                           {Intent: IntentDelegate, Name: "ken"},
		"delegate this to ken":                   {Intent: IntentOther},
		"delegations":                            {Intent: IntentDelegations},
		"委任一覧":                                   {Intent: IntentDelegations},
		"undelegate 4c0001":                      {Intent: IntentEndVotes, Typed: "4C0001"},
		"end delegation 4c0001":                  {Intent: IntentEndVotes, Typed: "4C0001"},
		"委任終了 4c0001":                            {Intent: IntentEndVotes, Typed: "4C0001"},
		"end it":                                 {Intent: IntentOther},
		"unfreeze treasury-bot, can you please?": {Intent: IntentOther},
	} {
		if got := ParseWords(text, false); got != want {
			t.Errorf("ParseWords(%q) = %+v, want %+v", text, got, want)
		}
	}
}

// How long a delegation lasts is read as people write it, in their own time.
func TestTypedHowLong(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	tokyo := time.FixedZone("JST", 9*60*60)
	for said, want := range map[string]time.Time{
		"3d": now.Add(72 * time.Hour), "3 days": now.Add(72 * time.Hour), "2w": now.Add(14 * 24 * time.Hour),
		"12h": now.Add(12 * time.Hour), "3日間": now.Add(72 * time.Hour), "3 วัน": now.Add(72 * time.Hour),
		"３天":                               now.Add(72 * time.Hour),
		"until 2026-12-01":                 time.Date(2026, 12, 1, 0, 0, 0, 0, tokyo),
		"2026-12-01 18:30":                 time.Date(2026, 12, 1, 18, 30, 0, 0, tokyo),
		"2026-12-01まで":                     time.Date(2026, 12, 1, 0, 0, 0, 0, tokyo),
		"ถึง 2026-12-01":                   time.Date(2026, 12, 1, 0, 0, 0, 0, tokyo),
		"到 2026-12-01":                     time.Date(2026, 12, 1, 0, 0, 0, 0, tokyo),
		"至 2026-12-01":                     time.Date(2026, 12, 1, 0, 0, 0, 0, tokyo),
		"3日":                               now.Add(72 * time.Hour),
		"3天":                               now.Add(72 * time.Hour),
		"2 星期":                             now.Add(14 * 24 * time.Hour),
		"2026年12月1日まで":                     time.Date(2026, 12, 1, 0, 0, 0, 0, tokyo),
		"2026年12月1日 18:30まで":               time.Date(2026, 12, 1, 18, 30, 0, 0, tokyo),
		"至2026年12月1日":                      time.Date(2026, 12, 1, 0, 0, 0, 0, tokyo),
		"２０２６年１２月１日 まで":                    time.Date(2026, 12, 1, 0, 0, 0, 0, tokyo),
		"until 2026-12-01T09:00+09:00":     time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		"until 2026-12-01t09:00:00+09:00.": time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, ok := lastsUntil(said, now, tokyo); !ok || !got.Equal(want) {
			t.Errorf("%q lasts until %v, %t; want %v", said, got, ok, want)
		}
	}
	for _, said := range []string{"", "3", "0d", "soon", "d3", "3 months", "99999d", "until tomorrow", "2026-13-01",
		"-3d", "3日まで", "至3日", "2026年13月1日"} { // 3日まで is until the third, of no month in particular
		if got, ok := lastsUntil(said, now, tokyo); ok {
			t.Errorf("%q lasts until %v", said, got)
		}
	}
}

// What people are told to type is in their own words, how long a delegation lasts too, and is understood.
func TestHowLongIsToldInTheOwnWords(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	inThreeDays, then := now.Add(72*time.Hour), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	said := regexp.MustCompile(`<[^>]*> ([^」：:·,，.。]*)`)
	for tag, of := range map[string]map[phrases.Phrase][]time.Time{
		"ja":    {phrases.SayHelp: {inThreeDays}, phrases.SayDelegateHow: {inThreeDays, then}},
		"th":    {phrases.SayHelp: {inThreeDays}},
		"zh-TW": {phrases.SayHelp: {inThreeDays}, phrases.SayDelegateHow: {inThreeDays, then}},
	} {
		for phrase, want := range of {
			var got []time.Time
			for _, m := range said.FindAllStringSubmatch(locale.Get(tag).Say(string(phrase)), -1) {
				until, ok := lastsUntil(m[1], now, time.UTC)
				if !ok {
					continue
				}
				if got = append(got, until); strings.ContainsAny(m[1], "abcdefghijklmnopqrstuvwxyz") {
					t.Errorf("%s: %s tells people to type %q", tag, phrase, m[1])
				}
			}
			if !slices.EqualFunc(got, want, time.Time.Equal) {
				t.Errorf("%s: what %s tells is read as %v, want %v", tag, phrase, got, want)
			}
		}
	}
}

// An agent's values are in what an answer says was decided: they do not end the quotes that it stands in.
func TestWhatWasDecidedStandsInItsQuotes(t *testing.T) {
	got := quoteAction("Run note: to \" x” (bot, 123456). Denied: “y\"")
	if want := "“Run note: to \" x’ (bot, 123456). Denied: ‘y\"”"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
