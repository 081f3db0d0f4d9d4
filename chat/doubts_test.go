package chat

import (
	"strings"
	"testing"
)

// reasons are what people say beside an approval.
var reasons = []struct {
	locale, yes string
	plain       []string
	doubtful    []string
}{{
	locale: "en", yes: "approve",
	plain: []string{
		"checked with Ken", "invoice 1041 is due", "invoice 1042 is due", "ok for the Q3 close", "verified the amount", "Looks good.", "as agreed with finance",
		"matches PO 88-120", "approved by the CFO", "monthly payroll, same as before", "refund requested by the customer",
		"https://erp.example/inv/1041?not=1", "read-only access for the audit", "due tomorrow", "see ticket OPS-12", "Ken and Hana both checked", "urgent: the line is down",
		"tested on staging, all green", "signed contract received", "fine", "yes", "notable client", "the button works", "for a waitress", "noted", "fixes the wrong account",
	},
	doubtful: []string{
		"not yet", "wait", "or not", ": no", "– do not", "- don't", "cancel", "if Ken agrees", "unless", "tomorrow", "no", "no problem if Ken agrees", "never", "nope", "deny", "?", "Not yet, wait for me",
		"but only tomorrow", "… not yet", "(not yet)", "\"no\"", "don’t", "do\nnot", "dont", "only 5", "ok, but only 5", "ok cancel", "ok well just 5", "yes, no", "well… stop", "hm - no",
		"as long as Ken agrees", "as  long as Ken agrees", "only if under $5", "provided that Ken agrees", "until Monday", "next week", "on Monday", "in 2 days", "in an hour", "later", "hold on", "maybe", "let me check first",
		"when Ken is back", "once Ken agrees", "after lunch", "after the close", "subject to review", "max 500", "up to 500", "under 500", "what is it for", "why", "can you explain? thanks",
		"wait5min", "NOT YET", "ｎｏｔ　ｙｅｔ", "not-yet", "👎", "ok 👎", "🛑", "sorry, wrong one", "looks fine, no", "Ken said no", "except the last", "shouldn't run", "I changed my mind, reject",
		"checked, cancel", "actually no", "lol no way", "checked lol", "no way", "yeah right", "looks good jk", "fine as if", "no issues found", "invoice no. 1041 is due", "customer asked to cancel their order", "🙄", "fine 😂", "fine :thinking_face:", "n\u043et", "\u200bfine", "f\u00adine", "nọt", "𝐧𝐨𝐭 fine", "нет", "아니요", "fine 555", "n\u200bo", "https://erp.example/1041 but wait", "please wait",
	},
}, {
	locale: "ja", yes: "承認",
	plain: []string{
		"請求書を確認しました", "経理に確認済み", "金額を確認しました", "田中さんに確認済みです", "契約どおりです", "第3四半期の締めのため", "お客様の依頼です",
		"至急お願いします", "OKです", "上長の許可あり", "発注書と一致", "月次の給与支払い", "テスト済み", "請求書等を確認しました", "接待費の精算", "期待どおりの金額", "不具合の修正です", "部長にご確認いただきました", "少ない金額です", "不足分の入金です",
	},
	doubtful: []string{
		"まだ", "まだです", "ただし5件だけ", "但し5件まで", "もし田中さんがよければ", "しないで", "しない", "しません", "待って", "ちょっと待ってください", "お待ちください", "明日", "明日にしてください", "でも、5件", "いいえ", "いや、", "却下",
		"経理が承認したら", "確認してから", "問題なければ", "問題ないなら", "5件のみ", "保留", "後で", "来週", "やめてください", "やめ", "キャンセル", "中止", "いいですか", "確認してください", "経理に確認中", "確認しますが、明日です",
		"多分", "検討します", "。まだ", "「まだ」", "ー、まだ", "ま だ", "ﾏﾀﾞまだ", "場合による", "5件を除く", "なぜ", "承認、いいえ", "はい、まだ", "問題かどうか", "未確認", "NG", "ダメ", "はい　来週", "問題ありません", "間違いないです", "確認しました（嘘）", "確認せず", "なわけがない", "冗談です", "反対です",
	},
}, {
	locale: "th", yes: "อนุมัติ",
	plain: []string{
		"ตรวจสอบใบแจ้งหนี้แล้ว", "ตรวจแล้ว", "ยอดถูกต้อง", "คุยกับฝ่ายบัญชีแล้ว", "ครบกำหนดชำระ", "ตามสัญญา", "ผู้บริหารอนุมัติแล้ว", "การออกใบแจ้งหนี้ถูกต้อง", "ธนาคารออมสินยืนยันแล้ว", "ลูกค้าร้องขอ",
		"เงินเดือนประจำเดือน", "ทดสอบแล้ว", "ตั้งแต่เดือนมกราคม", "จ่ายตามรอบบัญชี", "ตรวจอย่างละเอียดแล้ว", "กรอกข้อมูลครบแล้ว", "ด่วนมาก", "เรียบร้อย", "ใบสั่งซื้อตรงกัน", "รองผู้จัดการตรวจแล้ว",
		"แก้ไขปัญหาการชำระเงิน", "ตรวจเมื่อวาน", "อาจารย์ตรวจแล้ว",
	},
	doubtful: []string{
		"แต่", "แต่แค่ 5", "ถ้าเคนตกลง", "หากเคนตกลง", "อย่า", "อย่าเพิ่ง", "ยังไม่", "ยัง", "ยังก่อน", "รอ", "รอก่อน", "รอ Ken", "รอ5นาที", "ขอรอผลก่อน", "ให้รอหัวหน้า", "พรุ่งนี้", "จ่ายพรุ่งนี้", "เดี๋ยว", "ไม่", "ไม่เอา", "ไม่ได้", "ห้าม", "หยุด",
		"ยกเลิก", "ปฏิเสธ", "เว้นแต่", "ยกเว้นรายการสุดท้าย", "จนกว่า", "เฉพาะ 5 รายการ", "แค่ 5", "เท่านั้น", "เมื่อเคนตกลง", "ขอดูก่อน", "ไหม", "หรือเปล่า", "สัปดาห์หน้า", "ตรวจก่อนนะครับ", "อาจจะ", "ทำไม", "ครับ ยกเลิก", "- ยังไม่", "ยัง ไม่",
		"ยัง\u200bไม่", "ตกลง รอ", "ดีครับ รอ", "ไม่มีปัญหา", "ตรวจแล้วไม่มีปัญหา", "ล้อเล่น", "555", "ตรวจแล้ว 5555+", "ฝันไปเถอะ",
	},
}, {
	locale: "zh-TW", yes: "核准",
	plain: []string{
		"已與財務確認", "已確認", "發票已核對", "金額正確", "依合約付款", "請款單相符", "第三季結帳", "客戶要求退款", "主管已同意", "核對無誤", "無異常", "每月薪資", "測試完成", "緊急處理", "特別費用已核對", "各類別已核對",
		"發票、合約等已核對", "招待費報銷", "先前已討論", "好的", "可以", "王先生已確認", "分別核對過",
	},
	doubtful: []string{
		"但只限五筆", "但是不要執行", "如果財務同意", "除非", "不要", "先不", "先不要", "等", "等一下", "等我", "等Ken確認", "明天", "明天再付", "嗎", "不", "不同意", "否", "拒絕", "取消", "還沒", "尚未", "未確認", "稍後", "晚點", "再說", "先等等", "暫緩", "暫停",
		"只限五筆", "僅五筆", "只要財務同意", "若財務同意", "假如", "要是", "的話", "可能", "考慮一下", "下週", "下週再付", "好，下週", "好的下週", "別執行", "請別執行", "停", "沒有", "沒有確認", "為什麼", "可以嗎", "可以嗎，謝謝", "。不", "：先 不 要", "－不要", "是，不", "待確認", "財務同意後再付", "才怪", "已確認才怪", "想得美", "呵呵", "沒問題", "沒有問題", "客戶要求取消訂單", "怎麼可能",
	},
}}

// A reason that takes an approval back, puts it off or sets it a condition approves nothing; one that
// says why does not stand in the way.
func TestDoubts(t *testing.T) {
	for _, l := range reasons {
		if len(l.plain) < 20 {
			t.Errorf("only %d plain reasons in %s", len(l.plain), l.locale)
		}
		for _, reason := range l.plain {
			for _, tt := range []struct {
				text    string
				quoting bool
				want    Words
			}{
				{l.yes + " " + id + " " + reason, false, Words{Intent: IntentApprove, ID: id, Reason: reason}},
				{l.yes + " " + id + ": " + reason, true, Words{Intent: IntentApprove, ID: id, Reason: reason}},
				{l.yes + ": " + reason, true, Words{Intent: IntentApprove, Reason: reason}},
			} {
				if got := ParseWords(tt.text, tt.quoting); got != tt.want {
					t.Errorf("ParseWords(%q, %t) = %+v, want %+v", tt.text, tt.quoting, got, tt.want)
				}
			}
		}
		for _, reason := range l.doubtful {
			for _, tt := range []struct {
				text    string
				quoting bool
			}{
				{l.yes + " " + id + " " + reason, false},
				{l.yes + " " + id + " " + reason, true},
				{l.yes + " " + id + ": " + reason, false},
				{l.yes + " " + id + " – " + reason, false},
				{l.yes + " " + id + ", " + reason, false},
				{l.yes + " " + id + " reason: " + reason, false},
				{l.yes + " " + id + "\n" + reason, false},
				{l.yes + " " + id + " " + reason + "!", false},
				{l.yes + " " + id + " checked. " + reason, false},
				{"yes: " + reason, true},
			} {
				if got := ParseWords(tt.text, tt.quoting); got.Intent != IntentUnclear || got.Reason != "" {
					t.Errorf("ParseWords(%q, %t) = %+v", tt.text, tt.quoting, got)
				}
			}
			// A denial is none the less one.
			if got := ParseWords("deny "+id+" "+reason, false); got.Intent != IntentDeny {
				t.Errorf("deny <id> %s: %+v", reason, got)
			}
		}
	}
}

// Each of the words does what its list says, whoever uses it.
func TestEveryDoubtCounts(t *testing.T) {
	for _, l := range lexicons {
		d, ok := doubtsOf[l.locale]
		if !ok || len(d.anywhere) == 0 || len(d.edges) == 0 || len(d.begins) == 0 {
			t.Fatalf("%s has no doubts", l.locale)
		}
		check := func(want bool, words []string, shapes ...string) {
			t.Helper()
			for _, w := range words {
				if plain(w) != w {
					t.Errorf("%q (%s) is not in its plain form", w, l.locale)
				}
				for _, shape := range shapes {
					if s := strings.ReplaceAll(shape, "WORD", strings.ReplaceAll(w, "#", "5")); doubtful(s) != want {
						t.Errorf("%q (%s) is in doubt: %t", s, l.locale, !want)
					}
				}
			}
		}
		check(true, d.anywhere, "WORD", "checked WORD", "WORD checked", "確認 WORD 済")
		check(true, d.begins, "WORD", "checked, WORD", "ok WORD", "… WORD")
		check(true, d.edges, "WORD", "checked WORD", "WORD, checked", "ok, WORD.")
		check(true, l.no, "WORD", "checked WORD", "WORD, checked", "checked WORD today")
		check(false, d.harmless, "WORD", "checked WORD")
		check(false, l.yes, "WORD", "WORD checked", "checked: WORD")
	}
	if len(doubtsOf) != len(lexicons) {
		t.Errorf("doubts in %d languages, words in %d", len(doubtsOf), len(lexicons))
	}
}
