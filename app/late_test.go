package app

import (
	"strings"
	"testing"
	"time"

	"countersign/approval"
	"countersign/chat"
	"countersign/chat/phrases"
	"countersign/locale"
)

// Whoever comes after the end of a request is told how it ended, in their language and zone, and what to do.
func TestRule5_ALatePressNamesTheStateAndWhatToDo(t *testing.T) {
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
		{"pending", approval.Request{Status: approval.Pending}, "ken", map[string]string{"en": "", "ja": "", "th": "", "zh-TW": ""}},
		{"approved by you", approved, "hana", map[string]string{
			"en": "You already approved this (2026-11-21 19:00 JST).", "ja": "あなたはすでに承認しています（2026年11月21日 19:00 JST）。",
			"th": "คุณอนุมัติคำขอนี้ไปแล้ว (21 พ.ย. 2569 19:00 น. JST)", "zh-TW": "您先前已核准此申請（2026年11月21日 19:00 JST）。"}},
		{"approved by somebody else", approved, "ken", map[string]string{
			"en": "Already approved by hana (2026-11-21 19:00 JST).", "ja": "この申請はすでに終わっています：承認済み（hana、2026年11月21日 19:00 JST）。",
			"th": "คำขอนี้ดำเนินการเสร็จสิ้นแล้ว: อนุมัติแล้ว โดย hana (21 พ.ย. 2569 19:00 น. JST)", "zh-TW": "此申請先前已結束：已核准（hana，2026年11月21日 19:00 JST）。"}},
		{"denied by you", ended(approval.Denied, "hana", approval.Via("line"), "no"), "hana", map[string]string{
			"en": "You already denied this (2026-11-21 19:00 JST).", "ja": "あなたはすでに却下しています（2026年11月21日 19:00 JST）。",
			"th": "คุณปฏิเสธคำขอนี้ไปแล้ว (21 พ.ย. 2569 19:00 น. JST)", "zh-TW": "您先前已拒絕此申請（2026年11月21日 19:00 JST）。"}},
		{"denied by somebody else", ended(approval.Denied, "hana", approval.Via("line"), "no"), "ken", map[string]string{
			"en": "Already denied by hana (2026-11-21 19:00 JST).", "ja": "この申請はすでに終わっています：却下済み（hana、2026年11月21日 19:00 JST）。",
			"th": "คำขอนี้ดำเนินการเสร็จสิ้นแล้ว: ปฏิเสธแล้ว โดย hana (21 พ.ย. 2569 19:00 น. JST)", "zh-TW": "此申請先前已結束：已拒絕（hana，2026年11月21日 19:00 JST）。"}},
		{"expired", ended(approval.Expired, "system:timeout", approval.ViaSystem, ""), "ken", map[string]string{
			"en": "This approval request has expired.", "ja": "この承認申請は期限切れです。", "th": "คำขออนุมัตินี้หมดเวลาแล้ว", "zh-TW": "此核准申請已逾期。"}},
		{"cancelled by its agent", ended(approval.Cancelled, "agent:bot", approval.ViaAPI, ""), "ken", map[string]string{
			"en":    "Already cancelled by agent:bot (2026-11-21 19:00 JST). If it is still needed, the agent must ask again.",
			"ja":    "この申請はすでに終わっています：取り消し済み（agent:bot、2026年11月21日 19:00 JST）。まだ必要な場合は、エージェントがもう一度申請する必要があります。",
			"th":    "คำขอนี้ดำเนินการเสร็จสิ้นแล้ว: ยกเลิกแล้ว โดย agent:bot (21 พ.ย. 2569 19:00 น. JST) หากยังจำเป็น เอเจนต์ต้องขอใหม่",
			"zh-TW": "此申請先前已結束：已取消（agent:bot，2026年11月21日 19:00 JST）。若仍需要，AI 代理必須重新申請。"}},
		{"cancelled by a person who says so in the gate's words", ended(approval.Cancelled, "ken", approval.ViaAPI, "policy_changed"), "ken", map[string]string{
			"en":    "Already cancelled by ken (2026-11-21 19:00 JST). If it is still needed, the agent must ask again.",
			"ja":    "この申請はすでに終わっています：取り消し済み（ken、2026年11月21日 19:00 JST）。まだ必要な場合は、エージェントがもう一度申請する必要があります。",
			"th":    "คำขอนี้ดำเนินการเสร็จสิ้นแล้ว: ยกเลิกแล้ว โดย ken (21 พ.ย. 2569 19:00 น. JST) หากยังจำเป็น เอเจนต์ต้องขอใหม่",
			"zh-TW": "此申請先前已結束：已取消（ken，2026年11月21日 19:00 JST）。若仍需要，AI 代理必須重新申請。"}},
		{"policy changed", ended(approval.Cancelled, "system:policy", approval.ViaSystem, "policy_changed"), "hana", map[string]string{
			"en":    "Cancelled (2026-11-21 19:00 JST), because the policy has changed since it was asked for. If the agent asks again, a new card comes: decide that one.",
			"ja":    "申請の後にポリシーが変わったため、取り消されました（2026年11月21日 19:00 JST）。エージェントがもう一度申請すると新しいカードが届きます。そちらで判断してください。",
			"th":    "ถูกยกเลิก (21 พ.ย. 2569 19:00 น. JST) เพราะนโยบายเปลี่ยนไปหลังจากที่ขอ หากเอเจนต์ขออีกครั้ง จะมีการ์ดใหม่มา ให้ตัดสินใจที่การ์ดนั้น",
			"zh-TW": "提出申請後政策已變更，因此已取消（2026年11月21日 19:00 JST）。若 AI 代理再次申請，會有新的卡片，請在新卡片上決定。"}},
		{"tool changed", ended(approval.Cancelled, "system:policy", approval.ViaSystem, "tool_changed"), "hana", map[string]string{
			"en":    "Cancelled (2026-11-21 19:00 JST), because the tool has changed since it was asked for. If the agent asks again, a new card comes: decide that one.",
			"ja":    "申請の後にツールが変わったため、取り消されました（2026年11月21日 19:00 JST）。エージェントがもう一度申請すると新しいカードが届きます。そちらで判断してください。",
			"th":    "ถูกยกเลิก (21 พ.ย. 2569 19:00 น. JST) เพราะเครื่องมือเปลี่ยนไปหลังจากที่ขอ หากเอเจนต์ขออีกครั้ง จะมีการ์ดใหม่มา ให้ตัดสินใจที่การ์ดนั้น",
			"zh-TW": "提出申請後工具已變更，因此已取消（2026年11月21日 19:00 JST）。若 AI 代理再次申請，會有新的卡片，請在新卡片上決定。"}},
		{"lapsed", with(approved, used, time.Time{}), "hana", map[string]string{
			"en":    "Approved by hana (2026-11-21 19:00 JST) but not used in time, so it has lapsed. If it is still needed, the agent must ask again.",
			"ja":    "hana が承認しましたが（2026年11月21日 19:00 JST）、期限内に使われなかったため失効しました。まだ必要な場合は、エージェントがもう一度申請する必要があります。",
			"th":    "hana อนุมัติแล้ว (21 พ.ย. 2569 19:00 น. JST) แต่ไม่ได้ใช้ภายในเวลา การอนุมัติจึงหมดอายุ หากยังจำเป็น เอเจนต์ต้องขอใหม่",
			"zh-TW": "hana 已核准（2026年11月21日 19:00 JST），但未在時限內使用，核准已失效。若仍需要，AI 代理必須重新申請。"}},
		{"used", with(approved, time.Time{}, used), "hana", map[string]string{
			"en":    "Approved by hana and already used (2026-11-21 19:01 JST): the call was let through. If it is needed once more, the agent must ask again.",
			"ja":    "hana の承認はすでに使われ、操作は実行に移されました（2026年11月21日 19:01 JST）。もう一度必要な場合は、エージェントが改めて申請する必要があります。",
			"th":    "hana อนุมัติและถูกใช้ไปแล้ว (21 พ.ย. 2569 19:01 น. JST) การเรียกใช้ผ่านไปแล้ว หากต้องใช้อีกครั้ง เอเจนต์ต้องขอใหม่",
			"zh-TW": "hana 的核准已使用（2026年11月21日 19:01 JST），該操作已放行。若需要再執行一次，AI 代理必須重新申請。"}},
	} {
		for _, tag := range locale.Tags() {
			who := approval.Actor{Kind: approval.Human, Name: test.by, Approver: true, Locale: tag, Zone: tokyo}
			got := chat.Late(approval.LateFor(test.r, who), func(p phrases.Phrase, args ...any) string { return say(who, p, args...) })
			if got != test.want[tag] {
				t.Errorf("%s, %s: got %q, want %q", test.state, tag, got, test.want[tag])
			}
			if strings.ContainsAny(got, "{}<>") {
				t.Errorf("%s, %s: %q has a hole", test.state, tag, got)
			}
		}
	}
}
