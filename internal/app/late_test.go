package app

import (
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/internal/chat"
	"countersign/internal/locale"
	"countersign/internal/locale/phrases"
)

// Whoever comes after the end of a request is told how it ended, in their language and zone, and what to do.
func TestRule5_ALatePressNamesTheStateAndWhatToDo(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	used := at.Add(time.Minute)
	tokyo := time.FixedZone("JST", 9*60*60)
	ended := func(s approval.Status, by string, via approval.Via, reason string) approval.Request {
		return approval.Request{Status: s, ResolvedAt: at, ResolvedBy: by, ResolvedVia: via, ResolveReason: reason}
	}
	with := func(r approval.Request, lapsed, consumed time.Time) approval.Request {
		r.LapsedAt, r.ConsumedAt = lapsed, consumed
		return r
	}
	approved := ended(approval.Approved, "hana", approval.Via("line"), "")
	for _, test := range []struct {
		state string
		r     approval.Request
		by    string
		want  map[string]string // by locale
	}{
		{"pending", approval.Request{Status: approval.Pending}, "ken", map[string]string{"en": "", "ja": "", "th": "",
			"zh-TW": ""}},
		{"approved by you", approved, "hana", map[string]string{
			"en": "You already approved this (today 19:00).", "ja": "あなたはすでに承認しています（今日 19:00）。",
			"th": "คุณอนุมัติคำขอนี้ไปแล้ว (วันนี้ 19:00 น.)", "zh-TW": "您先前已核准此申請（今天 19:00）。"}},
		{"approved by somebody else", approved, "ken", map[string]string{
			"en": "Already approved by hana (today 19:00).", "ja": "この申請はすでに終わっています：承認済み（hana、今日 19:00）。",
			"th":    "คำขอนี้ดำเนินการเสร็จสิ้นแล้ว: อนุมัติแล้ว โดย hana (วันนี้ 19:00 น.)",
			"zh-TW": "此申請先前已結束：已核准（hana，今天 19:00）。"}},
		{"denied by you", ended(approval.Denied, "hana", approval.Via("line"), "no"), "hana", map[string]string{
			"en": "You already denied this (today 19:00).", "ja": "あなたはすでに却下しています（今日 19:00）。",
			"th": "คุณปฏิเสธคำขอนี้ไปแล้ว (วันนี้ 19:00 น.)", "zh-TW": "您先前已拒絕此申請（今天 19:00）。"}},
		{"denied by somebody else", ended(approval.Denied, "hana", approval.Via("line"), "no"), "ken", map[string]string{
			"en": "Already denied by hana (today 19:00).", "ja": "この申請はすでに終わっています：却下済み（hana、今日 19:00）。",
			"th":    "คำขอนี้ดำเนินการเสร็จสิ้นแล้ว: ปฏิเสธแล้ว โดย hana (วันนี้ 19:00 น.)",
			"zh-TW": "此申請先前已結束：已拒絕（hana，今天 19:00）。"}},
		{"expired", ended(approval.Expired, "system:timeout", approval.ViaSystem, ""), "ken", map[string]string{
			"en": "This approval request has expired.", "ja": "この申請は期限切れです。", "th": "คำขออนุมัตินี้หมดเวลาแล้ว",
			"zh-TW": "此申請已逾期。"}},
		{"cancelled by its agent", ended(approval.Cancelled, "agent:bot", approval.ViaAPI, ""), "ken", map[string]string{
			"en":    "Already cancelled by agent:bot (today 19:00). If it is still needed, the agent must ask again.",
			"ja":    "この申請はすでに終わっています：取り消し済み（agent:bot、今日 19:00）。まだ必要な場合は、エージェントがもう一度申請する必要があります。",
			"th":    "คำขอนี้ดำเนินการเสร็จสิ้นแล้ว: ยกเลิกแล้ว โดย agent:bot (วันนี้ 19:00 น.) หากยังจำเป็น เอเจนต์ต้องขอใหม่",
			"zh-TW": "此申請先前已結束：已取消（agent:bot，今天 19:00）。若仍需要，AI 代理必須重新申請。"}},
		{"cancelled by a person who says so in the gate's words", ended(approval.Cancelled, "ken", approval.ViaAPI,
			"policy_changed"), "ken", map[string]string{
			"en":    "Already cancelled by ken (today 19:00). If it is still needed, the agent must ask again.",
			"ja":    "この申請はすでに終わっています：取り消し済み（ken、今日 19:00）。まだ必要な場合は、エージェントがもう一度申請する必要があります。",
			"th":    "คำขอนี้ดำเนินการเสร็จสิ้นแล้ว: ยกเลิกแล้ว โดย ken (วันนี้ 19:00 น.) หากยังจำเป็น เอเจนต์ต้องขอใหม่",
			"zh-TW": "此申請先前已結束：已取消（ken，今天 19:00）。若仍需要，AI 代理必須重新申請。"}},
		{"policy changed", ended(approval.Cancelled, "system:policy", approval.ViaSystem, "policy_changed"), "hana",
			map[string]string{
				"en":    "Cancelled (today 19:00), because the policy has changed since the agent asked. If the agent asks again, you'll get a new card. Decide on that one.",
				"ja":    "申請の後にポリシーが変わったため、取り消されました（今日 19:00）。エージェントがもう一度申請すると新しいカードが届きます。そちらで決定してください。",
				"th":    "ถูกยกเลิก (วันนี้ 19:00 น.) เพราะนโยบายเปลี่ยนไปหลังจากที่ขอ หากเอเจนต์ขออีกครั้ง จะมีการ์ดใหม่มา ให้ตัดสินใจที่การ์ดนั้น",
				"zh-TW": "提出申請後政策已變更，因此已取消（今天 19:00）。若 AI 代理再次申請，會有新的卡片，請在新卡片上決定。"}},
		{"tool changed", ended(approval.Cancelled, "system:policy", approval.ViaSystem, "tool_changed"), "hana",
			map[string]string{
				"en":    "Cancelled (today 19:00), because the tool has changed since the agent asked. If the agent asks again, you'll get a new card. Decide on that one.",
				"ja":    "申請の後にツールが変わったため、取り消されました（今日 19:00）。エージェントがもう一度申請すると新しいカードが届きます。そちらで決定してください。",
				"th":    "ถูกยกเลิก (วันนี้ 19:00 น.) เพราะเครื่องมือเปลี่ยนไปหลังจากที่ขอ หากเอเจนต์ขออีกครั้ง จะมีการ์ดใหม่มา ให้ตัดสินใจที่การ์ดนั้น",
				"zh-TW": "提出申請後工具已變更，因此已取消（今天 19:00）。若 AI 代理再次申請，會有新的卡片，請在新卡片上決定。"}},
		{"lapsed", with(approved, used, time.Time{}), "hana", map[string]string{
			"en":    "Approved by hana (today 19:00) but not used in time, so the approval has lapsed. If it is still needed, the agent must ask again.",
			"ja":    "hana が承認しましたが（今日 19:00）、期限内に使われなかったため失効しました。まだ必要な場合は、エージェントがもう一度申請する必要があります。",
			"th":    "hana อนุมัติแล้ว (วันนี้ 19:00 น.) แต่ไม่ได้ใช้ภายในเวลา การอนุมัติจึงหมดอายุ หากยังจำเป็น เอเจนต์ต้องขอใหม่",
			"zh-TW": "hana 已核准（今天 19:00），但未在期限內使用，核准已失效。若仍需要，AI 代理必須重新申請。"}},
		{"used", with(approved, time.Time{}, used), "hana", map[string]string{
			"en":    "Approved by hana and already used (today 19:01): the call was let through. To run it once more, the agent must ask again.",
			"ja":    "hana の承認はすでに使われ、操作の実行を許可しました（今日 19:01）。もう一度必要な場合は、エージェントが改めて申請する必要があります。",
			"th":    "hana อนุมัติแล้ว และอนุญาตให้ทำงานแล้ว (วันนี้ 19:01 น.) หากต้องการเรียกใช้อีกครั้ง เอเจนต์ต้องขอใหม่",
			"zh-TW": "hana 的核准已使用（今天 19:01），該操作已放行。若需要再執行一次，AI 代理必須重新申請。"}},
	} {
		for _, tag := range locale.Tags() {
			who := approval.Actor{Kind: approval.Human, Name: test.by, Approver: true, Locale: tag, Zone: tokyo}
			got := chat.Late(approval.LateFor(test.r, who), func(p phrases.Phrase, args ...any) string {
				return say(who, locale.Reader{Now: used, Zone: tokyo}, p, args...)
			})
			if got != test.want[tag] {
				t.Errorf("%s, %s: got %q, want %q", test.state, tag, got, test.want[tag])
			}
			if strings.ContainsAny(got, "{}<>") {
				t.Errorf("%s, %s: %q has a placeholder left", test.state, tag, got)
			}
		}
	}
}

// An answer to a press says which call was decided, or was over, in every language: tool, agent and the end of its id.
func TestAnswersNameWhatWasDecided(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string][2]string{
		"en": {"Approved: pay (bot, 4C0001). The agent may run it once.",
			"pay (bot, 4C0001): This approval request has expired."},
		"ja": {"承認しました：pay（bot、4C0001）。エージェントは1回だけ実行できます。", "pay（bot、4C0001）：この申請は期限切れです。"},
		"th": {"อนุมัติแล้ว: pay (bot, 4C0001) เอเจนต์เรียกใช้ได้หนึ่งครั้ง",
			"pay (bot, 4C0001): คำขออนุมัตินี้หมดเวลาแล้ว"},
		"zh-TW": {"已核准：pay（bot，4C0001）。AI 代理可執行一次。", "pay（bot，4C0001）：此申請已逾期。"},
	} {
		to := approval.Actor{Kind: approval.Human, Name: "hana", Locale: tag}
		words := func(p phrases.Phrase, args ...any) string { return say(to, locale.Reader{}, p, args...) }
		call := words(phrases.SayCall, "tool", "pay", "agent", "bot", "id", "4C0001")
		got := [2]string{words(phrases.SayApproved, "tool", call), words(phrases.SayOf, "tool", call, "said",
			words(phrases.SayExpired))}
		if got != want {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
	}
}
