package chat

import (
	"cmp"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"

	"countersign/approval"
	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
)

const id = "01KAFHZX3T9W8Y7B6A5D4C0001"

func TestParseWords(t *testing.T) {
	const approve, deny, other = IntentApprove, IntentDeny, IntentOther
	for _, tt := range []struct {
		text    string
		quoting bool
		want    Words
	}{
		// Bare words.
		{"yes", false, Words{Intent: approve}},
		{"  Yes \n", false, Words{Intent: approve}},
		{"APPROVE", false, Words{Intent: approve}},
		{"ok.", false, Words{Intent: approve}},
		{"okay!!", false, Words{Intent: approve}},
		{"y", false, Words{Intent: approve}},
		{"no", false, Words{Intent: deny}},
		{"No!", false, Words{Intent: deny}},
		{"reject", false, Words{Intent: deny}},
		{"n", true, Words{Intent: deny}},
		{"yes", true, Words{Intent: approve}},
		// Words that are none, or not alone.
		{"", false, Words{Intent: other}},
		{"yes?", false, Words{Intent: other}},
		{"no?!", false, Words{Intent: other}},
		{"yesterday", false, Words{Intent: other}},
		{"nope1", false, Words{Intent: other}},
		{"no1", false, Words{Intent: other}},
		{"yes yes", false, Words{Intent: other}},
		{"approve everything", false, Words{Intent: other}},
		{"approve all", false, Words{Intent: other}},
		{"approve: all", false, Words{Intent: other}},
		{"deny wrong account", false, Words{Intent: other}},
		{"no, wrong account", false, Words{Intent: other}},
		{"please approve", false, Words{Intent: other}},
		{"don't approve", true, Words{Intent: other}},
		{"not ok", true, Words{Intent: other}},
		{"👍", false, Words{Intent: other}},
		// With an id.
		{"approve " + id, false, Words{Intent: approve, ID: id}},
		{"Approve " + strings.ToLower(id), false, Words{Intent: approve, ID: id}},
		{"yes " + id, false, Words{Intent: approve, ID: id}},
		{"approve: " + id, false, Words{Intent: approve, ID: id}},
		{"approve `" + id + "`", false, Words{Intent: approve, ID: id}},
		{"approve " + id + " checked with finance", false, Words{Intent: IntentUnclear}},
		{"deny " + id + "\nwrong account,\nask again", false, Words{Intent: deny, ID: id,
			Reason: "wrong account,\nask again"}},
		{"deny " + id, true, Words{Intent: deny, ID: id}},
		{"approve " + id[:25], false, Words{Intent: other}},
		{"approve " + id + "X", false, Words{Intent: other}},
		{"approve 81KAFHZX3T9W8Y7B6A5D4C0001", false, Words{Intent: other}}, // more than 128 bits
		{"approve " + id + " 01KAFHZX3T9W8Y7B6A5D4C0002", false, Words{Intent: other}},
		{id, false, Words{Intent: other}},
		{id + " approve", false, Words{Intent: other}},
		// Quoting a card: a yes takes no further words either.
		{"approve: checked", true, Words{Intent: approve, Typed: "CHECKED"}}, // no id ends so,
		{"yes：was checked", true, Words{Intent: IntentUnclear}},
		{"approve only if under $5", true, Words{Intent: other}},
		{"approve, but only 5", true, Words{Intent: other}},
		{"ok what is it for?", true, Words{Intent: other}},
		{"yes - no", true, Words{Intent: other}},
		// A no is safe to take from more.
		{"deny wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"deny: wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"deny:wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"no, wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"no - wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"no. wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"no problem", true, Words{Intent: other}},
		{"no? why", true, Words{Intent: other}},
		{"deny: reason: wrong account", true, Words{Intent: deny, Reason: "wrong account"}},
		{"deny: reason:", true, Words{Intent: other}},
		{"deny5 of them", true, Words{Intent: other}},
	} {
		if got := ParseWords(tt.text, tt.quoting); got != tt.want && !nothing(got, tt.want) {
			t.Errorf("ParseWords(%q, %t) = %+v, want %+v", tt.text, tt.quoting, got, tt.want)
		}
	}
}

// nothing reports whether no decision was wanted, and none was read.
func nothing(got, want Words) bool {
	return (want.Intent == IntentOther || want.Intent == IntentUnclear) &&
		(got.Intent == IntentOther || got.Intent == IntentUnclear) && got.Reason == ""
}

// What follows an id.
func TestParseWordsAfterAnID(t *testing.T) {
	const approve, deny, other, unclear = IntentApprove, IntentDeny, IntentOther, IntentUnclear
	const second = "01KAFHZX3T9W8Y7B6A5D4C0002"
	for _, tt := range []struct {
		text string
		want Words
	}{
		{"approve " + id + ".", Words{Intent: approve, ID: id}},
		{"approve " + id + ": checked", Words{Intent: IntentUnclear}},
		{"approve " + id + " reason: checked", Words{Intent: IntentUnclear}},
		{"deny " + id + ", wrong account", Words{Intent: deny, ID: id, Reason: "wrong account"}},
		{"deny " + id + " “wrong” account", Words{Intent: deny, ID: id, Reason: "“wrong” account"}},
		{"deny " + id + " why not ask first?", Words{Intent: deny, ID: id, Reason: "why not ask first?"}},
		{"deny " + id + " 👎", Words{Intent: deny, ID: id, Reason: "👎"}},
		{"approve " + id + " order 1234567890123456789012345", Words{Intent: IntentUnclear}},
		{"approve " + id + ", but only 5", Words{Intent: unclear}},
		{"approve " + id + "?", Words{Intent: unclear}},
		{"approve " + id + " ?", Words{Intent: unclear}},
		{"approve " + id + " what is it for?", Words{Intent: unclear}},
		{"approve " + id + " really?!", Words{Intent: unclear}},
		{"approve " + id + " no", Words{Intent: unclear}},
		{"approve " + id + " not", Words{Intent: unclear}},
		{"approve " + id + " 👍", Words{Intent: unclear}},
		{"approve " + id + " and " + second, Words{Intent: other}},
		{"approve " + id + "," + second, Words{Intent: other}},
		{"approve " + id + " and " + strings.ToLower(second[:25]), Words{Intent: other}},
		{"deny " + id + " and " + second, Words{Intent: other}},
		{"deny " + id + " " + second, Words{Intent: other}},
		{"approve " + id + ":", Words{Intent: unclear}},
		{"approve " + id + " reason:", Words{Intent: other}},
		{"承認 " + id + " しない", Words{Intent: unclear}},
		{"承認 " + id + " でいいですか", Words{Intent: unclear}},
		{"承認 " + id + " でいいですか？", Words{Intent: unclear}},
		{"核准 " + id + " 嗎", Words{Intent: unclear}},
		{"核准 " + id + " 不同意", Words{Intent: unclear}},
		{"อนุมัติ " + id + " ไหม", Words{Intent: unclear}},
		{"อนุมัติ " + id + " ไม่", Words{Intent: unclear}},
	} {
		for _, quoting := range []bool{false, true} {
			if got := ParseWords(tt.text, quoting); got != tt.want && !nothing(got, tt.want) {
				t.Errorf("ParseWords(%q, %t) = %+v, want %+v", tt.text, quoting, got, tt.want)
			}
		}
	}
	// What quotes one card and names another, or may, decides nothing.
	for _, text := range []string{"approve: as " + second, "approve: " + second[:25], "deny: " + second + "0",
		"deny see " + second, "no, I mean " + strings.ToLower(second)} {
		if got := ParseWords(text, true); !nothing(got, Words{Intent: other}) {
			t.Errorf("ParseWords(%q, true) = %+v", text, got)
		}
	}
	for _, text := range []string{"ok :D", "yes :)", "approve:"} {
		if got := ParseWords(text, true); !nothing(got, Words{Intent: other}) {
			t.Errorf("ParseWords(%q, true) = %+v", text, got)
		}
	}
}

func TestParseWordsInJapanese(t *testing.T) {
	testWords(t, []words{
		{"承認", IntentApprove, "", ""},
		{"承認します。", IntentApprove, "", ""},
		{"はい！", IntentApprove, "", ""},
		{"ＯＫ", IntentApprove, "", ""},
		{"OKです", IntentApprove, "", ""},
		{"　許可　", IntentApprove, "", ""},
		{"却下", IntentDeny, "", ""},
		{"却下します｡", IntentDeny, "", ""},
		{"いいえ", IntentDeny, "", ""},
		{"ダメ", IntentDeny, "", ""},
		{"ﾀﾞﾒ", IntentDeny, "", ""},
		{norm.NFD.String("ダメです"), IntentDeny, "", ""},
		{"承認しない", IntentDeny, "", ""},
		{"同意しません", IntentDeny, "", ""},
		{"承認 " + id, IntentApprove, id, ""},
		{"承認" + id, IntentApprove, id, ""},
		{"承認：" + id, IntentApprove, id, ""},
		{"承認　" + wide(id), IntentApprove, id, ""},
		{"ＡＰＰＲＯＶＥ　" + wide(strings.ToLower(id)), IntentApprove, id, ""},
		{"承認します " + id + "。", IntentApprove, id, ""},
		{"承認 " + id + " 経理に確認済み", IntentUnclear, id, ""},
		{"承認 " + id + "　理由：経理に確認済み", IntentUnclear, id, ""},
		{"却下 " + id + " 口座が違います。ＡＢＣを確認", IntentDeny, id, "口座が違います。ＡＢＣを確認"},
		{"却下" + id + "、口座が違います", IntentDeny, id, "口座が違います"},
		{"理由：口座が違います", IntentReason, "", "口座が違います"},
		{"理由: 口座が違います", IntentReason, "", "口座が違います"},
		{"理由：", IntentReason, "", ""},
		{"保留中", IntentPending, "", ""},
		{"一覧", IntentPending, "", ""},
		{"表示 " + id, IntentShow, id, ""},
		{"表示" + id, IntentShow, id, ""},
		{"ログ", IntentLog, "", ""},
		{"状況", IntentStatus, "", ""},
		{"ヘルプ", IntentHelp, "", ""},
		{"ﾍﾙﾌﾟ", IntentHelp, "", ""},
		{norm.NFD.String("ヘルプ"), IntentHelp, "", ""},
	}, "承認しますか", "承認？", "承認待ちですか", "承認済み", "承認しないで", "同意しないで", "承認お願いします", "承認全部", "全部承認", "承認 すべて",
		"了解", "了解です", "確認", "確認します", "いいです", "結構です", "大丈夫です", "承認"+id+"です", "承認"+id+"と01KAFHZX3T9W8Y7B6A5D4C0002",
		"理由", "理由は口座違い", "状況は？何", "表示", "ヘルプが欲しい", "却下 口座が違います", "承認01", id+" 承認", "OK承認", "承認OK")
	testQuotes(t, []words{
		{"承認", IntentApprove, "", ""},
		{"承認：確認済み", IntentUnclear, "", ""},
		{"却下 口座が違います", IntentDeny, "", "口座が違います"},
		{"却下、口座が違います", IntentDeny, "", "口座が違います"},
		{"却下：「口座」が違います", IntentDeny, "", "「口座」が違います"},
		{"いいえ、口座が違います", IntentDeny, "", "口座が違います"},
		{"表示", IntentShow, "", ""},
	}, "承認 ただし5件だけ", "承認、ただし5件だけ", "はい、でも待って", "いいえ 大丈夫です", "承認 しない", "却下しないで")
}

func TestParseWordsInThai(t *testing.T) {
	testWords(t, []words{
		{"อนุมัติ", IntentApprove, "", ""},
		{"อนุมัติครับ", IntentApprove, "", ""},
		{"อนุมัติค่ะ", IntentApprove, "", ""},
		{"อนุมัติ ครับ", IntentApprove, "", ""},
		{"ok ค่ะ", IntentApprove, "", ""},
		{"ใช่", IntentApprove, "", ""},
		{"ปฏิเสธ", IntentDeny, "", ""},
		{"ปฏิเสธค่ะ", IntentDeny, "", ""},
		{"ไม่อนุมัติ", IntentDeny, "", ""},
		{"ไม่อนุมัติครับ", IntentDeny, "", ""},
		{"ไม่", IntentDeny, "", ""},
		{"ไม่ใช่", IntentDeny, "", ""},
		{"อนุมัติ " + id, IntentApprove, id, ""},
		{"อนุมัติ" + id, IntentApprove, id, ""},
		{"อนุมัติครับ " + id, IntentApprove, id, ""},
		{"อนุมัติ " + id + " ครับ", IntentApprove, id, ""},
		{"อนุมัติ " + id + " ตรวจแล้ว", IntentUnclear, id, ""},
		{"ปฏิเสธ " + id + " บัญชีผิด", IntentDeny, id, "บัญชีผิด"},
		{"ปฏิเสธ " + id + " เหตุผล: บัญชีผิด", IntentDeny, id, "บัญชีผิด"},
		{"เหตุผล: บัญชีผิด", IntentReason, "", "บัญชีผิด"},
		{"รออนุมัติ", IntentPending, "", ""},
		{"รายการ", IntentPending, "", ""},
		{"แสดง " + id, IntentShow, id, ""},
		{"บันทึก", IntentLog, "", ""},
		{"สถานะครับ", IntentStatus, "", ""},
		{"ช่วยเหลือ", IntentHelp, "", ""},
	}, "อนุมัติไหม", "อนุมัติไหมครับ", "อนุมัติคะ", "อนุมัติหรือยัง", "อนุมัติ?", "อนุมัติทั้งหมด", "อนุมัติ ทั้งหมด",
		"ไม่ อนุมัติ", "อนุมัติ ไม่", "อนุมัติ ไหม",
		"ไม่อนุมัติไม่ได้", "อย่าอนุมัติ", "ครับ", "ค่ะ", "ได้", "เหตุผล", "ช่วยเหลือฉัน", "ปฏิเสธ บัญชีผิด", "ไม่มีปัญหา")
	testQuotes(t, []words{
		{"อนุมัติครับ", IntentApprove, "", ""},
		{"อนุมัติ: ตรวจแล้ว", IntentUnclear, "", ""},
		{"ปฏิเสธ บัญชีผิด", IntentDeny, "", "บัญชีผิด"},
		{"ปฏิเสธครับ บัญชีผิด", IntentDeny, "", "บัญชีผิด"},
		{"ไม่, บัญชีผิด", IntentDeny, "", "บัญชีผิด"},
		{"ดู", IntentShow, "", ""},
	}, "อนุมัติ แต่แค่ 5", "ไม่ อนุมัติ", "ไม่ เป็นไร", "อนุมัติ ไหม")
}

func TestParseWordsInChinese(t *testing.T) {
	testWords(t, []words{
		{"核准", IntentApprove, "", ""},
		{"核准。", IntentApprove, "", ""},
		{"同意！", IntentApprove, "", ""},
		{"我同意", IntentApprove, "", ""},
		{"好的", IntentApprove, "", ""},
		{"ｏｋ", IntentApprove, "", ""},
		{"拒絕", IntentDeny, "", ""},
		{"駁回。", IntentDeny, "", ""},
		{"不同意", IntentDeny, "", ""},
		{"不核准！", IntentDeny, "", ""},
		{"我不同意", IntentDeny, "", ""},
		{"不", IntentDeny, "", ""},
		{"核准 " + id, IntentApprove, id, ""},
		{"核准" + wide(id), IntentApprove, id, ""},
		{"核准：" + id + "。", IntentApprove, id, ""},
		{"核准 " + id + " 已與財務確認", IntentUnclear, id, ""},
		{"拒絕 " + id + "，帳號錯誤", IntentDeny, id, "帳號錯誤"},
		{"駁回" + id + " 原因：帳號錯誤", IntentDeny, id, "帳號錯誤"},
		{"原因：帳號錯誤", IntentReason, "", "帳號錯誤"},
		{"待審", IntentPending, "", ""},
		{"待核准", IntentPending, "", ""},
		{"顯示 " + id, IntentShow, id, ""},
		{"記錄", IntentLog, "", ""},
		{"狀態", IntentStatus, "", ""},
		{"說明", IntentHelp, "", ""},
		{"？", IntentHelp, "", ""},
	}, "核准嗎", "核准嗎？", "核准？", "核准全部", "全部核准", "核准 全部", "不要核准", "請核准", "核准了", "不是不同意", "好嗎", "可以嗎", "好不好", "是不是",
		"確認", "原因", "原因不明", "拒絕 帳號錯誤", "說明一下", "核准"+id+"嗎", "核准"+id+"和01KAFHZX3T9W8Y7B6A5D4C0002")
	testQuotes(t, []words{
		{"同意", IntentApprove, "", ""},
		{"核准：已確認", IntentUnclear, "", ""},
		{"拒絕 帳號錯誤", IntentDeny, "", "帳號錯誤"},
		{"拒絕，帳號錯誤", IntentDeny, "", "帳號錯誤"},
		{"不，帳號錯誤", IntentDeny, "", "帳號錯誤"},
		{"查看", IntentShow, "", ""},
	}, "核准，但只限五筆", "好，等一下", "不 客氣", "同意 嗎")
}

func TestCommands(t *testing.T) {
	testWords(t, []words{
		{"pending", IntentPending, "", ""},
		{"Pending.", IntentPending, "", ""},
		{"list", IntentPending, "", ""},
		{"pending?", IntentPending, "", ""},
		{"show " + id, IntentShow, id, ""},
		{"show: " + strings.ToLower(id), IntentShow, id, ""},
		{"show `" + id + "`", IntentShow, id, ""},
		{"log", IntentLog, "", ""},
		{"STATUS", IntentStatus, "", ""},
		{"status?", IntentStatus, "", ""},
		{"help", IntentHelp, "", ""},
		{"Help!", IntentHelp, "", ""},
		{"?", IntentHelp, "", ""},
		{"？？", IntentHelp, "", ""},
		{"reason: wrong account", IntentReason, "", "wrong account"},
		{"Reason:wrong account: 5\nask again?", IntentReason, "", "wrong account: 5\nask again?"},
		{"reason: (see " + id + ")", IntentReason, "", "(see " + id + ")"},
		{"reason: ", IntentReason, "", ""},
		{"REASON：wrong account", IntentReason, "", "wrong account"},
	}, "show", "show me", "show all", "show "+id+" please", "show "+id+" 01KAFHZX3T9W8Y7B6A5D4C0002", "show"+id,
		"pending "+id, "status of what?", "help me", "log in", "log "+id,
		"what is pending", "reason", "reason why", "reasons: many", "no reason: none", "/help", "! ?")
	testQuotes(t, []words{
		{"show", IntentShow, "", ""},
		{"show.", IntentShow, "", ""},
		{"reason: wrong account", IntentReason, "", "wrong account"},
		{"help", IntentHelp, "", ""},
	}, "show?", "show this", "status of what?")
}

// What only looks like a word, or hides something, approves nothing.
func TestLookAlikes(t *testing.T) {
	for _, text := range []string{
		"approv\u0435", "\u0430pprove", "y\u0435s", "\u043ek", "\u03bfk", "\u24de\u24da", "\U0001d5c8\U0001d5c4", "y\u0435s.",
		"yes\u0301", "approve\ufe0f",
		"appr\u200bove", "approve\u200b", "\u200bapprove", "\ufeffyes", "yes\u2060", "ye\u00ads", "\u202eyes", "yes\u202c",
		"\u2067ok\u2069", "ok\u3164", "ok\uffa0",
		"\u2116", "承\u200b認", "承認\u200b", "\u2f51認", "核\u0301准", "อนุมัติ\u200b", "อนุมัต\u0e34\u0e34", "は\u200dい",
		"不\u200b同意", "不 同意", "不．同意", "非承認", "未承認", "無許可", "yesno", "yes/no", "yes|no", "ok\x00",
	} {
		for _, quoting := range []bool{false, true} {
			for _, t2 := range []string{text, text + " " + id, text + ": checked"} {
				if got := ParseWords(t2, quoting); got.Intent == IntentApprove {
					t.Errorf("ParseWords(%+q, %t) = %+v", t2, quoting, got)
				}
			}
		}
	}
	for _, named := range []string{
		"\u200b" + id, id + "\u200b", id[:10] + "\u200b" + id[10:], "\u202e" + id, "О" + id[1:], strings.Replace(id, "A",
			"\u0410", 1), id + "\u0301", id[:25] + "l",
		id + "\ufe0f", "<" + id + ">", "#" + id,
	} {
		for _, word := range []string{"approve ", "承認", "อนุมัติ ", "核准："} {
			for _, quoting := range []bool{false, true} {
				if got := ParseWords(word+named, quoting); got.Intent == IntentApprove && got.ID != "" {
					t.Errorf("ParseWords(%+q, %t) = %+v", word+named, quoting, got)
				}
			}
		}
	}
}

// What the translations tell people to type is understood, in the order in which they tell it.
func TestWhatIsToldToBeTypedIsUnderstood(t *testing.T) {
	const approve, deny = IntentApprove, IntentDeny
	want := []Intent{IntentPending, IntentShow, approve, deny, IntentStatus, IntentLog, IntentExtend, IntentFreeze,
		IntentUnfreeze, IntentDelegate, IntentDelegations, IntentEndVotes, IntentGrants, IntentRevoke, IntentLift,
		IntentSignIn, IntentHelp}
	optional := regexp.MustCompile(` \[[^]]*\]`)
	quotes := regexp.MustCompile(`["“「]([^"“”「」]*)["”」]`)
	for _, tag := range locale.Tags() {
		l := locale.Get(tag)
		var got []Intent
		lines := strings.Split(l.Say(string(phrases.SayHelp)), "\n")
		for _, line := range lines[1 : len(lines)-1] {
			typed, _, _ := strings.Cut(strings.Replace(line, "：", ":", 1), ":")
			for part := range strings.SplitSeq(optional.ReplaceAllString(typed, ""), " · ") {
				w := ParseWords(strings.ReplaceAll(part, "<id>", id), false)
				if got = append(got, w.Intent); (w.ID != "") != strings.Contains(part, "<id>") ||
					(w.Reason != "") != (w.Intent == IntentDelegate) {
					t.Errorf("%s: %q is read as %+v", tag, part, w)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the help is read as %v, want %v", tag, got, want)
		}

		got = nil
		for _, q := range quotes.FindAllStringSubmatch(l.Say(string(phrases.SayNotUnderstood)), -1) {
			got = append(got, ParseWords(strings.ReplaceAll(q[1], "<id>", id), false).Intent)
		}
		if want := []Intent{IntentPending, IntentHelp}; !slices.Equal(got, want) {
			t.Errorf("%s: what is told to somebody who was not understood is read as %v, want %v", tag, got, want)
		}

		for _, told := range []struct {
			text   string
			intent Intent
		}{
			{l.Say("reason_needed", "id", id), approve},
			{l.Say(string(phrases.SayReasonWhy), "tool", "t"), IntentBack},
			{l.Say(string(phrases.SayReasonAsked), "tool", "t", "id", id), approve},
			{l.Say(string(phrases.SayNotTheReason), "tool", "t", "id", id), approve},
			{l.Say(string(phrases.SayReasonNeeded), "word", "deny", "id", id), deny},
			{strings.ReplaceAll(l.Say(string(phrases.SayQuotesMany), "n", "2", "word", "approve"), "<id>", id), approve},
			{strings.ReplaceAll(l.Say(string(phrases.SayUnclear)), "<id>", id), approve},
			{strings.ReplaceAll(l.Say(string(phrases.SayQuotesUnknown)), "<id>", id), deny},
			{strings.ReplaceAll(l.Say(string(phrases.SayNewerThanNo)), "<id>", id), deny},
			{strings.ReplaceAll(l.Say(string(phrases.SayWhichOne), "n", "2"), "<id>", id), deny},
		} {
			typed := strings.ReplaceAll(told.text, "：", ":")
			if typed = typed[strings.LastIndex(typed, ":")+1:]; told.intent == IntentBack {
				if w := ParseWords(typed, false); w != (Words{Intent: IntentBack}) {
					t.Errorf("%s: %q is read as %+v", tag, typed, w)
				}
				continue
			}
			if w := ParseWords(typed, false); w.Intent != told.intent || w.ID != id {
				t.Errorf("%s: %q is read as %+v", tag, typed, w)
			}
		}

		for _, prefix := range []string{l.Say("reason_prefix"), strings.TrimSpace(l.Say("reason_prefix"))} {
			for _, reason := range []string{"", "wrong account", "違う：口座"} {
				for _, quoting := range []bool{false, true} {
					if got, want := ParseWords(prefix+reason, quoting), (Words{Intent: IntentReason, Reason: reason}); got != want {
						t.Errorf("%s: %q is read as %+v", tag, prefix+reason, got)
					}
				}
			}
		}
		for _, k := range []string{"suggest_later", "suggest_target", "suggest_ask"} {
			if w := ParseWords(l.Say(k), false); w.Intent != IntentOther {
				t.Errorf("%s: the suggested reason %q is read as %+v", tag, l.Say(k), w)
			}
		}
		for _, b := range []struct {
			label  string
			intent Intent
		}{{"approve", approve}, {"deny", deny}, {"back", IntentBack}} {
			if w := ParseWords(l.Say(b.label), false); w.Intent != b.intent {
				t.Errorf("%s: the words of a button, %q, are read as %s", tag, l.Say(b.label), w.Intent)
			}
		}
	}
}

// What LINE's keyboard begins with is the decision on one request, whatever is quoted and whatever is typed on.
func TestWhatAKeyboardBeginsIsUnderstood(t *testing.T) {
	for _, tag := range locale.Tags() {
		for _, whose := range []string{id, "7F3JX2", "ABCDEF", "234567"} {
			for _, reason := range []string{"", "wrong account", "違う口座", "not: yet", "ask Ken, 5 o'clock?"} {
				for _, quoting := range []bool{false, true} {
					begun := locale.Get(tag).Say("deny_begun", "id", whose)
					for _, text := range []string{begun + reason, strings.TrimSpace(begun) + reason, wide(begun) + reason} {
						want := Words{Intent: IntentDeny, Reason: reason}.naming(whose)
						if got := ParseWords(text, quoting); got != want {
							t.Errorf("%s: %q is read as %+v", tag, text, got)
						}
					}
				}
				text := locale.Get(tag).Say("deny_begun", "id", whose)
				text = strings.NewReplacer(":", "", "：", " ").Replace(text) + reason
				if got := ParseWords(text, false); got.Intent != IntentDeny || got.Reason != reason {
					t.Errorf("%s: %q is read as %+v", tag, text, got)
				}
			}
		}
	}
}

// words is a text and what it means.
type words struct {
	text       string
	intent     Intent
	id, reason string
}

// testWords checks what texts mean that quote nothing, and that others mean nothing.
func testWords(t *testing.T, means []words, nothing ...string) {
	t.Helper()
	checkWords(t, false, means, nothing)
}

// testQuotes checks what texts mean that quote a card.
func testQuotes(t *testing.T, means []words, nothing ...string) {
	t.Helper()
	checkWords(t, true, means, nothing)
}

func checkWords(t *testing.T, quoting bool, means []words, none []string) {
	t.Helper()
	for _, w := range means {
		if got, want := ParseWords(w.text, quoting), (Words{Intent: w.intent, ID: w.id, Reason: w.reason}); got != want {
			t.Errorf("ParseWords(%q, %t) = %+v, want %+v", w.text, quoting, got, want)
		}
	}
	for _, text := range none {
		if got := ParseWords(text, quoting); !nothing(got, Words{Intent: IntentOther}) {
			t.Errorf("ParseWords(%q, %t) = %+v", text, quoting, got)
		}
	}
}

// wide is a text in full-width letters and digits.
func wide(s string) string { return width.Widen.String(s) }

// groups are the words of a language by what they mean.
func (l lexicon) groups() map[Intent][]string {
	return map[Intent][]string{
		IntentApprove: l.yes, IntentDeny: l.no, IntentReason: l.reason, IntentPending: l.pending,
		IntentShow: l.show, IntentLog: l.log, IntentStatus: l.status, IntentHelp: l.help,
	}
}

// Every word means one thing in all languages together.
func TestLexicons(t *testing.T) {
	means := map[string]Intent{}
	for _, l := range lexicons {
		for intent, words := range l.groups() {
			if len(words) == 0 {
				t.Errorf("%s has no word for %s", l.locale, intent)
			}
			for _, w := range words {
				if m, ok := means[plain(w)]; ok && m != intent {
					t.Errorf("%q means both %s and %s", w, m, intent)
				}
				means[plain(w)] = intent
				text := map[Intent]string{IntentReason: w + ":", IntentShow: w + " " + id}[intent]
				if got := ParseWords(cmp.Or(text, w), false); got.Intent != intent {
					t.Errorf("%q (%s) is read as %s, want %s", w, l.locale, got.Intent, intent)
				}
				if word, rest := cutWord(w); word != w || rest != "" || plain(w) != w {
					t.Errorf("%q (%s) is not a word in its plain form", w, l.locale)
				}
			}
		}
	}
	for _, l := range lexicons {
		for _, w := range l.refuse {
			if means[plain(w)] != IntentDeny || !slices.Contains(l.no, w) {
				t.Errorf("%q (%s) may refuse but is no word for no", w, l.locale)
			}
		}
	}
	var got []string
	for _, l := range lexicons {
		got = append(got, l.locale)
	}
	if !slices.Equal(got, locale.Tags()) {
		t.Errorf("the languages are %v", got)
	}
}

func FuzzParseWords(f *testing.F) {
	for _, s := range []string{
		"yes", "approve " + id, "deny: x", "approve " + id + " not yet", "yes: if Ken agrees", "はい：まだ", "同意：但是不要執行",
		"อนุมัติ " + id + " แต่", "no, " + id, "approve:\u00a0" + id + " " + id, "\x00", "yes\u202e",
		"承認" + wide(id), "却下：口座", "อนุมัติ ครับ", "核准：好", "理由：", "show " + id, "?", "approve " + id + " why?", "ok\u200b " +
			id, "ﾀﾞﾒ",
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, quoting bool) {
		w := ParseWords(s, quoting)
		if w != ParseWords(s, quoting) {
			t.Errorf("%q is read in two ways", s)
		}
		if !strings.Contains(s, w.Reason) || w.Reason != strings.TrimSpace(w.Reason) {
			t.Errorf("%q: the reason %q is not in it", s, w.Reason)
		}
		if w.ID != "" {
			if got, ok := approval.ParseID(w.ID); !ok || got != w.ID || !strings.Contains(strings.ToUpper(plain(s)), w.ID) {
				t.Errorf("%q: id %q is not in it", s, w.ID)
			}
		}
		switch w.Intent {
		case IntentApprove:
			if !looksApproved(s, w) {
				t.Errorf("%q approves: %+v", s, w)
			}
		case IntentDeny:
			if w.ID == "" && w.Reason != "" && !quoting {
				t.Errorf("%q: a denial with a reason that names no request: %+v", s, w)
			}
		case IntentReason:
			if w.ID != "" {
				t.Errorf("%q: a reason that names a request: %+v", s, w)
			}
		case IntentShow:
			if w.Reason != "" || w.ID == "" && !quoting {
				t.Errorf("%q shows %+v", s, w)
			}
		case IntentUnclear:
			if w.Reason != "" {
				t.Errorf("%q is unclear, for a reason: %+v", s, w)
			}
		default:
			if w != (Words{Intent: w.Intent}) {
				t.Errorf("%q is more than a command: %+v", s, w)
			}
		}
	})
}

// approvals is what an approval looks like, told once more: a word for yes, perhaps a polite ending, and then nothing,
// or an id, perhaps with a polite ending; and one full stop at most.
var approvals = func() *regexp.Regexp {
	var yes, polite []string
	for _, l := range lexicons {
		yes, polite = append(yes, l.yes...), append(polite, l.polite...)
	}
	sort.Slice(yes, func(i, j int) bool { return len(yes[i]) > len(yes[j]) })
	sort.Slice(polite, func(i, j int) bool { return len(polite[i]) > len(polite[j]) })
	const space, named = `[\s\p{Z}]*`, "[\\s\\p{Z}]*:?[\\s\\p{Z}]*`*[0-9a-z]{4,26}`*"
	courtesy := `(?:` + space + `(?:` + strings.Join(polite, "|") + `))?`
	return regexp.MustCompile(`^(?:` + strings.Join(yes, "|") + `)` + courtesy + `(?:` + named + courtesy + `)?` + space +
		`(?:[.。]|!*)$`)
}()

func looksApproved(s string, w Words) bool {
	return w.Reason == "" && approvals.MatchString(strings.ReplaceAll(plain(strings.TrimSpace(s)), "\n", " "))
}
