package chat

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"

	"countersign/approval"
)

// Words is what a typed text means.
type Words struct {
	// IntentOther unless the text can mean nothing else; IntentUnclear for a yes with anything that may change it
	Intent Intent
	ID     string // ULID, upper case; "" where the text names no request
	// Shows is what is meant of the card that the ID names.
	Shows Shows
	// Typed is what may be the end of an id, upper case, where there is no ID: which one is the gate's to say.
	Typed string
	// Name is the agent to freeze, or the person who is to vote for the one who types it.
	Name   string
	Reason string // as it was typed, never of an approval; of a delegation, how long
}

// lexicon is one language's words, in lower case.
type lexicon struct {
	locale  string
	yes, no []string
	// refuse are those of no that a reason may follow without punctuation: "deny wrong account". "No" is
	// not among them, since "no problem" means the opposite.
	refuse []string
	// polite may follow a word and changes nothing.
	polite []string
	// asks are endings that make a question of a text.
	asks []string
	// commands are the words that decide nothing.
	reason, pending, show, log, status, help []string
	extend, freeze, unfreeze                 []string
	delegate, delegations, undelegate        []string
	grants, revoke, lift                     []string
	signIn                                   []string
	// back takes a question away.
	back []string
	// everyone stands for all agents, until before or after a date.
	everyone, until []string
}

// lexicons are the languages that are understood, whatever language a person has; a word belongs to one intent in all
// of them. There are only words that are a decision by themselves: "確認" is none, since it is "I will check" in
// Japanese, nor "了解", which is "I see".
var lexicons = []lexicon{{
	locale: "en",
	yes: []string{"approve", "approved", "yes", "y", "yep", "yeah", "ok", "okay", "accept", "allow", "confirm",
		"proceed"},
	no:      []string{"deny", "denied", "no", "n", "nope", "reject", "rejected", "refuse", "decline", "cancel"},
	refuse:  []string{"deny", "reject", "refuse", "decline"},
	reason:  []string{"reason"},
	pending: []string{"pending", "list", "waiting"},
	show:    []string{"show", "details"},
	log:     []string{"log", "logs", "notifications"},
	status:  []string{"status"},
	help:    []string{"help"},
	extend:  []string{"extend"}, freeze: []string{"freeze"}, unfreeze: []string{"unfreeze", "unfrozen"},
	delegate: []string{"delegate"}, delegations: []string{"delegations"}, undelegate: []string{"undelegate"},
	grants: []string{"grants"}, revoke: []string{"revoke"}, lift: []string{"lift"},
	signIn: []string{"signin", "login", "inbox"}, back: []string{"back"},
	everyone: []string{"all", "everything", "everyone"}, until: []string{"until", "till", "to"},
}, {
	locale: "ja",
	yes: []string{
		"承認", "承認します", "承認する", "承認いたします", "承認です", "はい", "ハイ", "許可", "許可します", "許可する",
		"同意", "同意します", "同意する", "了承", "了承します", "オーケー", "オッケー", "okです", "続行", "続行します", "続行する",
	},
	no: []string{
		"却下", "却下します", "却下する", "却下いたします", "却下です", "ng", "ngです", "いいえ", "いえ", "拒否", "拒否します", "拒否する", "否認", "否認します", "否認する",
		"不承認", "不許可", "不可", "だめ", "ダメ", "駄目", "だめです", "ダメです", "駄目です",
		"承認しない", "承認しません", "承認できない", "承認できません", "許可しない", "許可しません", "同意しない", "同意しません",
		"キャンセル", "キャンセルします", "取り消し", "取り消します", "取消",
	},
	refuse: []string{
		"却下", "却下します", "却下する", "拒否", "拒否します", "拒否する", "否認", "否認します", "否認する",
		"不承認", "承認しない", "承認しません", "承認できない", "承認できません", "却下いたします",
	},
	asks:    []string{"ですか", "ますか", "ですかね", "ますかね", "でしょうか", "いいか", "いいの", "かな"},
	reason:  []string{"理由"},
	pending: []string{"保留", "保留中", "未処理", "一覧", "承認待ち", "判断待ち"},
	show:    []string{"表示", "詳細"},
	log:     []string{"ログ", "通知ログ", "通知履歴"},
	status:  []string{"状況", "状態", "ステータス"},
	help:    []string{"ヘルプ", "使い方"},
	extend:  []string{"延長"}, freeze: []string{"凍結"}, unfreeze: []string{"解除", "凍結解除", "解凍"},
	delegate: []string{"委任"}, delegations: []string{"委任一覧"}, undelegate: []string{"委任終了", "委任解除"},
	grants: []string{"継続承認", "継続承認一覧"}, revoke: []string{"継続終了"}, lift: []string{"却下解除"},
	signIn: []string{"サインイン", "ログイン", "受信箱"}, back: []string{"戻る", "もどる"},
	everyone: []string{"すべて", "全部", "全て"}, until: []string{"まで"},
}, {
	locale: "th",
	yes: []string{"อนุมัติ", "ใช่", "ตกลง", "โอเค", "อนุญาต", "ยืนยัน", "เห็นชอบ", "เห็นด้วย", "ดำเนินการ",
		"ดำเนินการต่อ"},
	no: []string{"ปฏิเสธ", "ปฎิเสธ", "ไม่", "ไม่ใช่", "ไม่อนุมัติ", "ไม่อนุญาต", "ไม่ตกลง", "ไม่โอเค", "ไม่ยืนยัน",
		"ไม่เห็นชอบ", "ไม่เห็นด้วย", "ไม่เอา", "ไม่ได้", "ยกเลิก"},
	refuse: []string{"ปฏิเสธ", "ปฎิเสธ", "ไม่อนุมัติ", "ไม่อนุญาต"},
	polite: []string{"ครับ", "คับ", "ค่ะ", "ครับผม", "นะครับ", "นะคะ", "นะค่ะ"},
	asks: []string{"ไหม", "มั้ย", "มั๊ย", "หรือ", "หรือเปล่า", "หรือไม่", "หรือยัง", "เหรอ", "รึเปล่า", "ไหมครับ",
		"ไหมคะ", "มั้ยครับ", "มั้ยคะ", "หรือคะ", "เหรอคะ", "คะ"},
	reason:  []string{"เหตุผล"},
	pending: []string{"รออนุมัติ", "รอการอนุมัติ", "รายการ", "รายการรออนุมัติ", "ค้างอยู่"},
	show:    []string{"แสดง", "ดู", "รายละเอียด"},
	log:     []string{"บันทึก", "ประวัติ", "ล็อก"},
	status:  []string{"สถานะ"},
	help:    []string{"ช่วยเหลือ", "วิธีใช้", "คำสั่ง"},
	extend:  []string{"ต่อเวลา", "ขยายเวลา"}, freeze: []string{"ระงับ"}, unfreeze: []string{"เลิกระงับ", "ยกเลิกการระงับ"},
	delegate: []string{"มอบหมาย"}, delegations: []string{"รายการมอบหมาย"},
	undelegate: []string{"เลิกมอบหมาย", "ยกเลิกการมอบหมาย"},
	grants:     []string{"อนุมัติต่อเนื่อง"}, revoke: []string{"เพิกถอน"}, lift: []string{"เลิกปฏิเสธ"},
	signIn: []string{"เข้าสู่ระบบ", "ลงชื่อเข้าใช้", "กล่องข้อความ", "กล่องคำขอ"}, back: []string{"ย้อนกลับ", "กลับ"},
	everyone: []string{"ทั้งหมด"}, until: []string{"ถึง", "จนถึง"},
}, {
	locale: "zh-TW",
	yes:    []string{"核准", "批准", "同意", "准許", "允許", "許可", "是", "是的", "好", "好的", "可以", "我同意", "我核准", "繼續"},
	no: []string{
		"拒絕", "駁回", "否決", "不", "否", "不是", "不要", "不行", "不好", "不可", "不可以", "不准", "不同意", "不核准", "不批准", "不允許", "不許可",
		"我拒絕", "我不同意", "我不核准", "取消",
	},
	refuse:  []string{"拒絕", "駁回", "否決", "不同意", "不核准", "不批准", "不准", "不允許"},
	asks:    []string{"嗎", "吗", "呢", "吧", "嘛", "否", "沒有"},
	reason:  []string{"原因", "理由"},
	pending: []string{"待審", "待審核", "待核准", "等候核准", "待處理", "清單", "列表"},
	show:    []string{"顯示", "查看", "詳情"},
	log:     []string{"記錄", "紀錄", "日誌", "通知記錄"},
	status:  []string{"狀態", "狀況"},
	help:    []string{"說明", "幫助", "指令"},
	extend:  []string{"延長", "延期"}, freeze: []string{"凍結"}, unfreeze: []string{"解除凍結", "解凍"},
	delegate: []string{"委託", "委派"}, delegations: []string{"委託清單"}, undelegate: []string{"結束委託", "取消委託"},
	grants: []string{"持續核准", "持續核准清單"}, revoke: []string{"撤銷"}, lift: []string{"解除拒絕"},
	signIn: []string{"登入", "收件匣"}, back: []string{"返回"},
	everyone: []string{"全部", "所有"}, until: []string{"到", "至"},
}}

// meaning is what one word stands for.
type meaning struct {
	intent    Intent
	mayRefuse bool // a reason may follow without punctuation
}

// vocabulary is every word of every language; polite are the endings that change nothing.
var vocabulary, polite = learn(lexicons)

func learn(lexicons []lexicon) (words map[string]meaning, polite map[string]bool) {
	words, polite = map[string]meaning{}, map[string]bool{}
	for _, l := range lexicons {
		for _, group := range []struct {
			meaning
			words []string
		}{
			{meaning{IntentApprove, false}, l.yes},
			{meaning{IntentDeny, false}, l.no},
			{meaning{IntentDeny, true}, l.refuse},
			{meaning{IntentReason, false}, l.reason},
			{meaning{IntentPending, false}, l.pending},
			{meaning{IntentShow, false}, l.show},
			{meaning{IntentLog, false}, l.log},
			{meaning{IntentStatus, false}, l.status},
			{meaning{IntentHelp, false}, l.help},
			{meaning{IntentExtend, false}, l.extend},
			{meaning{IntentFreeze, false}, l.freeze},
			{meaning{IntentUnfreeze, false}, l.unfreeze},
			{meaning{IntentDelegate, false}, l.delegate},
			{meaning{IntentDelegations, false}, l.delegations},
			{meaning{IntentEndVotes, false}, l.undelegate},
			{meaning{IntentGrants, false}, l.grants},
			{meaning{IntentRevoke, false}, l.revoke},
			{meaning{IntentLift, false}, l.lift},
			{meaning{IntentSignIn, false}, l.signIn},
			{meaning{IntentBack, false}, l.back},
		} {
			for _, w := range group.words {
				words[plain(w)] = group.meaning
				for _, p := range l.polite {
					words[plain(w+p)] = group.meaning
				}
			}
		}
		for _, p := range l.polite {
			polite[plain(p)] = true
		}
	}
	return words, polite
}

// Language is the language of a typed text where that is clear: "" where it is not. Words in Latin letters say nothing,
// since people who read another language type them too.
func Language(text string) string {
	kana := strings.IndexFunc(text, func(r rune) bool { return unicode.In(r, unicode.Hiragana, unicode.Katakana) })
	switch {
	case kana >= 0:
		return "ja"
	case strings.IndexFunc(text, func(r rune) bool { return unicode.Is(unicode.Thai, r) }) >= 0:
		return "th"
	case strings.IndexFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) }) < 0:
		return ""
	}
	word, _ := cutWord(strings.TrimSpace(text))
	if in := spokenIn()[plain(word)]; len(in) == 1 {
		return in[0]
	}
	return ""
}

// spokenIn returns the languages of each word. It is made once it is asked for: each call of an agent starts the
// program, which asks for none.
var spokenIn = sync.OnceValue(func() map[string][]string {
	in := map[string][]string{}
	for _, l := range lexicons {
		for _, words := range [][]string{l.yes, l.no, l.refuse, l.reason, l.pending, l.show, l.log, l.status, l.help,
			l.extend, l.freeze, l.unfreeze, l.delegate, l.delegations, l.undelegate, l.grants, l.revoke, l.lift,
			l.signIn, l.back} {
			for _, w := range words {
				if w = plain(w); !slices.Contains(in[w], l.locale) {
					in[w] = append(in[w], l.locale)
				}
			}
		}
	}
	return in
})

// ParseWords reads what a person typed to the bot, in any of the languages; quoting says that the text
// quotes one of our cards, which then is what it is about. What the platform puts before the words, a
// slash or a mention of the bot, is gone already. It takes
//
//	yes                      a bare word, which may end in "." or "!"
//	approve <id>             with any of the words
//	deny <id> [reason]       likewise; a colon may stand before the reason
//	deny <id>: reason        as LINE's keyboard begins it, quoting or not; without the reason, as deny <id>
//	deny reason              only when quoting; deny: reason and no, reason too
//	reason: wrong account    why, of what was denied before; without the reason too, as an app begins it
//	show <id>                show alone only when quoting
//	extend <id>              one hour more; extend alone only when quoting
//	freeze AGENT [reason]    and unfreeze [AGENT]; all for every agent
//	delegate PERSON 3d       or until 2026-12-01; undelegate <id>, or end delegation <id>
//	revoke <id>              ends a grant or a standing denial; lift <id> forgets a denial
//	pending, log, status, grants, delegations, sign in, inbox, back, help, ?
//
// An <id> is a ULID, of a card with what of it is meant ([Shows.TypedID]), or, in Typed, what may be the end of one:
// four of its letters and digits, or more.
//
// and nothing else. An approval is the word, and the id or the quote, and perhaps a polite ending: a yes with anything
// more is [IntentUnclear], with the id where the text begins with one, so that the card can be shown.
//
// Japanese, Chinese and Thai run words together: only a run that is a word as a whole is one, so that
// 不同意, 承認しない and 核准嗎 are not taken for the yes that they hold. Full-width and half-width forms,
// and the ways to compose a character, are one; letters that only look alike are not.
func ParseWords(text string, quoting bool) Words {
	bare, versions := withoutVersions(text)
	w := parseWords(bare, quoting)
	w.Shows = versions[w.ID]
	return w
}

//nolint:revive // that a text quotes a card is part of what was typed
func parseWords(text string, quoting bool) Words {
	other := Words{Intent: IntentOther}
	text = strings.TrimSpace(text)
	if t := plain(text); t != "" && strings.Trim(t, "?") == "" {
		return Words{Intent: IntentHelp}
	}
	word, rest := cutWord(text)
	if plain(word) == "end" {
		if next, after := cutWord(strings.TrimSpace(rest)); plain(next) == "delegation" {
			word, rest = "undelegate", after
		}
	}
	if plain(word) == "sign" {
		if next, after := cutWord(strings.TrimLeft(rest, " -")); plain(next) == "in" {
			word, rest = "signin", after
		}
	}
	means, ok := vocabulary[plain(word)]
	if !ok {
		return other
	}
	switch means.intent {
	case IntentApprove, IntentDeny:
		if w, ok := decision(means, word, afterPolite(rest), quoting); ok {
			return w
		}
	case IntentReason:
		if colon, reason, ok := cutRune(strings.TrimSpace(rest)); ok && plain(colon) == ":" {
			return Words{Intent: IntentReason, Reason: strings.TrimSpace(reason)}
		}
	case IntentShow, IntentExtend, IntentEndVotes, IntentRevoke, IntentLift:
		if quoting && ends(rest) && (means.intent == IntentShow || means.intent == IntentExtend) {
			return Words{Intent: means.intent}
		}
		if l := split(word, rest); l.sets() {
			if id, reason, ok := cutID(l.after, ""); ok && reason == "" {
				return Words{Intent: means.intent}.naming(id)
			}
		}
	case IntentFreeze, IntentUnfreeze, IntentDelegate:
		if w, ok := readOrder(means.intent, rest); ok {
			return w
		}
	default:
		if ends(strings.TrimRight(plain(rest), "?")) {
			return Words{Intent: means.intent}
		}
	}
	return other
}

// beginsAsOrder reports whether a text begins with one of our words, so that it may be meant for an order.
func beginsAsOrder(text string) bool {
	word, _ := cutWord(strings.TrimSpace(text))
	_, ok := vocabulary[plain(word)]
	return ok
}

// naming sets the request that is named: by its id, or by what may be the end of it.
func (w Words) naming(id string) Words {
	if len(id) == wholeID {
		w.ID = id
	} else {
		w.Typed = id
	}
	return w
}

// readOrder reads what follows freeze, unfreeze and delegate: a name, and what is said beside it. A question orders
// nothing.
func readOrder(intent Intent, rest string) (w Words, ok bool) {
	if asks(rest) {
		return w, false
	}
	w.Intent = intent
	if ends(rest) {
		return w, true
	}
	if first, _, _ := cutRune(rest); strings.TrimSpace(first) != "" && plain(first) != ":" {
		return w, false
	}
	name, said, _ := strings.Cut(strings.Join(strings.Fields(strings.TrimLeft(rest, ":：")), " "), " ")
	w.Name, w.Reason = strings.Trim(name, "`\"'“”「」:：,、。!"), afterPrefix(strings.TrimLeft(said, ":：-–— "))
	return w, intent != IntentDelegate || w.Reason == "" || lasts(w.Reason)
}

// decision reads what follows a word for yes or no.
//
//nolint:revive // as of parseWords
func decision(means meaning, word, rest string, quoting bool) (w Words, ok bool) {
	if means.intent == IntentApprove {
		return approves(split(word, rest), rest), true
	}
	w.Intent = means.intent
	if ends(rest) {
		return w, true
	}
	l := split(word, rest)
	if l.sets() {
		if id, more, ok := leadingID(l.after); ok && plain(strings.TrimSpace(more)) == ":" { // as a keyboard begins it
			return w.naming(id), true
		}
		if id, reason, named := cutID(l.after, refusing); named &&
			(namesDenied(id, reason, means.mayRefuse, quoting) || idThenColon(l.after)) {
			w.Reason = reason
			return w.naming(id), !namesRequest(plain(reason))
		}
	}
	if !quoting || l.after == "" {
		return w, false
	}
	w.Reason = afterPrefix(l.after)
	switch {
	case l.colon():
	case l.mark == "" && !l.glued && means.mayRefuse:
	case l.mark != "" && strings.Trim(l.mark, refusing) == "":
	default:
		return w, false
	}
	return w, w.Reason != "" && !namesRequest(plain(w.Reason))
}

// approves reads what follows a word for yes. An approval is the word, and the id or the quote: with anything more the
// text is unclear, whatever that says, since no list of words tells a reason from a change of mind.
func approves(l lead, rest string) Words {
	if fullStop(rest) {
		return Words{Intent: IntentApprove}
	}
	unclear := Words{Intent: IntentUnclear}
	if !l.sets() {
		return unclear
	}
	id, after, ok := leadingID(l.after)
	_, order := vocabulary[plain(id)] // "yes, reject" names nothing
	switch {
	case !ok || order || namesRequest(plain(after)):
		return unclear
	case fullStop(afterPolite(after)):
		return Words{Intent: IntentApprove}.naming(id)
	}
	return unclear.naming(id) // its card is shown
}

// namesDenied reports whether what may be the end of an id, in front of more, is meant for one by who denies. Ordinary
// words can look like it, and begin a reason: "deny 2000 is too much", "no thanks".
func namesDenied(id, more string, mayRefuse, quoting bool) bool {
	digit := hasDigit(id)
	switch {
	case len(id) == wholeID:
		return true
	case quoting:
		return digit && more == ""
	}
	return more == "" || mayRefuse && (digit || len(id) >= approval.MinTypedApprove)
}

// idThenColon reports whether a text begins with the end of an id and a colon, as LINE's keyboard begins a reason:
// then it is that, whatever is quoted.
func idThenColon(s string) bool {
	id, more, ok := leadingID(s)
	colon, _, _ := cutRune(strings.TrimSpace(more))
	return ok && len(id) == approval.ShortID && plain(colon) == ":"
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

// refusing is the punctuation that may stand between a no and its reason.
const refusing = ",.;!-–—、。:"

// namesRequest reports whether a plain text holds a ULID, or what may be a mistyped one.
func namesRequest(s string) bool {
	apart := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') }
	for run := range strings.FieldsFuncSeq(s, apart) {
		if 24 <= len(run) && len(run) <= 28 && run[0] <= '7' && strings.ContainsFunc(run, unicode.IsLetter) {
			return true
		}
	}
	return false
}

// lead is what stands between a word and what follows it.
type lead struct {
	mark  string // punctuation, plain
	after string
	glued bool // nothing stands between
	// runsOn says that nothing needs to: the word is of a script that has no spaces.
	runsOn bool
	// apart says that the mark stands as punctuation does: right after the word, or with a space behind it.
	apart bool
}

// opening is punctuation that belongs to what follows it.
const opening = "\"“‘「『【《"

func split(word, rest string) lead {
	spaced := strings.TrimSpace(rest)
	after := strings.TrimLeftFunc(spaced, func(r rune) bool {
		return unicode.IsPunct(r) &&
			!strings.ContainsRune(opening, r)
	})
	mark := spaced[:len(spaced)-len(after)]
	l := lead{mark: plain(mark), after: strings.TrimSpace(after)}
	l.glued = l.mark == "" && spaced == rest
	l.runsOn = strings.IndexFunc(plain(word), func(r rune) bool { return r < unicode.MaxASCII }) < 0
	l.apart = spaced == rest || l.after != after
	return l
}

// colon reports whether a colon sets apart what follows. In "ok :D" there is none.
func (l lead) colon() bool { return l.mark == ":" && l.apart }

// sets reports whether an id may follow.
func (l lead) sets() bool { return l.colon() || l.mark == "" && (!l.glued || l.runsOn) }

// ends reports whether nothing follows a word but the end of a sentence.
func ends(rest string) bool { return strings.Trim(plain(strings.TrimSpace(rest)), ".!。") == "" }

// fullStop reports whether nothing follows but one full stop, or exclamation marks: "ok..." hesitates.
func fullStop(rest string) bool {
	rest = plain(strings.TrimSpace(rest))
	return rest == "." || rest == "。" || strings.Trim(rest, "!") == ""
}

// cutID splits a text into the id that it begins with and the reason that follows. The reason is set apart
// by a space, or by one of some marks. A polite ending is no reason.
func cutID(s, marks string) (id, reason string, ok bool) {
	id, reason, ok = leadingID(s)
	if reason = afterPolite(reason); !ok || fullStop(reason) {
		return id, "", ok
	}
	mark, after, _ := cutRune(reason)
	switch {
	case strings.TrimSpace(mark) == "":
	case strings.Contains(marks, plain(mark)):
		reason = after
	default:
		return "", "", false
	}
	reason = afterPrefix(strings.TrimSpace(reason))
	return id, reason, reason != ""
}

// leadingID splits off the id that a text begins with, or what may be the end of one. Letters of other scripts may
// stand right after it, as where words are not set apart.
func leadingID(s string) (id, rest string, ok bool) {
	end := strings.IndexFunc(s, func(r rune) bool {
		p := plain(string(r))
		return len(p) != 1 || p[0] != '`' && (p[0] < '0' || p[0] > '9') && (p[0] < 'a' || p[0] > 'z')
	})
	if end < 0 {
		end = len(s)
	}
	typed := strings.Trim(plain(s[:end]), "`")
	if id, ok = approval.ParseID(typed); !ok && endsID(typed) {
		id, ok = strings.ToUpper(typed), true
	}
	return id, s[end:], ok
}

// wholeID is how long a ULID is, mistyped from when on a text is rather one with a slip than the end of one.
const (
	wholeID  = 26
	mistyped = 24
)

// endsID reports whether a plain text may be the end of an id.
func endsID(s string) bool {
	return len(s) >= approval.MinTyped && len(s) < mistyped && strings.Trim(s, "0123456789abcdefghjkmnpqrstvwxyz") == ""
}

// afterPolite leaves out a polite ending that stands apart: "อนุมัติ ครับ".
func afterPolite(rest string) string {
	if word, after := cutWord(strings.TrimSpace(rest)); polite[plain(word)] {
		return after
	}
	return rest
}

// afterPrefix leaves out "reason:" before a reason.
func afterPrefix(s string) string {
	word, rest := cutWord(s)
	if vocabulary[plain(word)].intent != IntentReason {
		return s
	}
	if colon, reason, ok := cutRune(strings.TrimSpace(rest)); ok && plain(colon) == ":" {
		return strings.TrimSpace(reason)
	}
	return s
}

// plain is the form in which words are compared: half-width letters and full-width kana, composed, in
// lower case. It makes one only of what Unicode holds to be the same character in another width or
// composition.
func plain(s string) string {
	return strings.ToLower(norm.NFC.String(width.Fold.String(s)))
}

// cutWord splits off the leading run of letters and marks. A word of a script without spaces ends where Latin letters
// begin, since an id may stand right behind it: 核准KX7F3J.
func cutWord(s string) (word, rest string) {
	var wide bool
	for i, r := range s {
		latin := unicode.Is(unicode.Latin, r)
		if !unicode.IsLetter(r) && !unicode.IsMark(r) || wide && latin {
			return s[:i], s[i:]
		}
		wide = wide || !latin && unicode.IsLetter(r)
	}
	return s, ""
}

// cutRune splits off the first character.
func cutRune(s string) (first, rest string, ok bool) {
	for i := range s {
		if i > 0 {
			return s[:i], s[i:], true
		}
	}
	return s, "", s != ""
}

// asks reports whether a text has a question mark, or ends as a question does.
func asks(text string) bool {
	text = plain(text)
	end := strings.TrimRightFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) })
	return strings.Contains(text, "?") || slices.ContainsFunc(lexicons, func(l lexicon) bool {
		return slices.ContainsFunc(l.asks, func(ending string) bool { return strings.HasSuffix(end, plain(ending)) })
	})
}
