package chat

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// doubts are one language's words that make it doubtful whether a text which begins as an approval is
// one, in lower case: "approve <id> not yet". Words in Latin letters stand alone, the others run
// together with what is beside them.
//
// More is in doubt here than a person would doubt. Who is not understood types again, but what was
// approved by mistake has run.
type doubts struct {
	// anywhere are negations, conditions and postponements, wherever they stand in the reason.
	anywhere []string
	// begins take the approval back only as the first words of a clause: "next week", but not "due next
	// week". "#" is any number.
	begins []string
	// edges do so as the last word too: "cancel" and "hm, cancel", but not "they asked to cancel theirs".
	edges []string
	// harmless hold one of the above and are none: "read-only", 期待 for 待.
	harmless []string
}

// doubtsOf are the doubts of the languages in [lexicons], by locale. They hold for whoever types.
var doubtsOf = map[string]doubts{
	"en": {
		anywhere: []string{
			"not", "never", "cannot", "don't", "doesn't", "didn't", "can't", "couldn't", "won't", "wouldn't", "shouldn't",
			"mustn't", "isn't", "aren't", "wasn't", "haven't", "hasn't", "dont", "doesnt", "didnt", "cant", "wont", "shouldnt",
			"isnt", "arent", "havent", "hasnt", "notyet", "yet", "unless", "if", "iff", "but", "only", "provided", "providing",
			"until", "untill", "till", "except", "however", "although", "though", "whether", "when", "whenever", "once",
			"as long as", "so long as", "as soon as", "in case", "condition", "conditions", "conditional", "conditionally",
			"subject to", "assuming", "depends", "depending", "contingent", "otherwise", "wait", "waiting", "hold", "pause",
			"postpone", "postponed", "delay", "defer", "later", "tomorrow", "tmr", "tmrw", "not now", "another day",
			"another time", "let me", "give me", "i'll check", "i will check", "ask first", "check first", "me first",
			"him first", "her first", "them first", "maybe", "may be", "might", "perhaps", "possibly", "probably", "supposedly",
			"presumably", "apparently", "seemingly", "seems", "i think", "i guess", "i suppose", "dunno", "idk", "unsure",
			"not sure", "uncertain", "unclear", "unconfirmed", "unverified", "unapproved", "doubt", "doubts", "doubtful",
			"dubious", "suspect", "suspicious", "fishy", "hesitant", "worried", "disapprove", "deny", "denied", "reject",
			"rejected", "refuse", "refused", "decline", "declined", "cancel", "cancelled", "canceled", "disagree", "objection",
			"objections", "nor", "none", "nothing", "nobody", "nowhere", "hardly", "barely", "scarcely", "nah", "nay", "nooo",
			"noo", "lol", "lmao", "rofl", "haha", "hahaha", "hehe", "jk", "kidding", "joke", "joking", "sarcasm", "as if",
			"yeah right", "whatever", "wtf", "hm", "hmm", "hmmm", "um", "uh", "eh",
		},
		begins: []string{
			"neither", "or", "wrong", "mistake", "oops", "sorry", "actually", "misclick", "without", "after", "before",
			"pending", "while", "minus", "max", "maximum", "at most", "up to", "less than", "under #", "below #", "limit to",
			"limited to", "just #", "ask", "check with", "check the", "check it", "need to", "needs to", "next", "in a", "in an",
			"in #", "at #", "from #", "on #", "afterwards", "eventually", "soon", "tonight", "monday", "tuesday", "wednesday",
			"thursday", "friday", "saturday", "sunday", "on monday", "on tuesday", "on wednesday", "on thursday", "on friday",
			"what", "why", "who", "whose", "which", "how", "where", "is it", "is this", "is that", "are you", "does it",
			"do you", "can you", "can we", "could", "should",
		},
		edges: []string{"nah", "nay", "negative", "stop", "halt", "cancel", "abort", "undo", "revoke", "withdraw",
			"retract", "veto", "ng", "wrong", "mistaken", "suspicious", "dangerous"},
		harmless: []string{"read only", "due tomorrow"},
	},
	"ja": {
		anywhere: []string{
			"ない", "なく", "なし", "ません", "せず", "ずに", "まだ", "未確認", "未承認", "不要", "不可", "中止", "取り消して", "取消して", "やめ", "ストップ", "キャンセルして",
			"無効", "ただし", "但し", "ただ、", "もし", "しかし", "でも、", "けど", "けれど", "ですが", "ますが", "ましたが", "でしたが", "だが", "ものの", "れば", "たら",
			"なら", "場合", "条件", "限り", "に限", "のみ", "だけ", "るまで", "以外", "除い", "除く", "てから", "でから", "次第", "かどうか", "までは",
			"待", "まって", "保留", "延期", "明日", "あした", "明後日", "後日", "後ほど", "のちほど", "あとで", "後で", "今度", "改めて", "また今", "そのうち",
			"かも", "多分", "たぶん", "おそらく", "検討", "迷", "確認してくだ", "確認して下", "確認お願い", "確認をお願い", "確認中", "確認します", "確認する", "考えさせ", "考えます",
			"考え中", "嘘", "うそ", "冗談", "なんちゃって", "わけが", "笑", "はず", "らしい", "思う", "思い", "怪しい", "あやしい", "不審", "疑", "不明", "心配", "不安",
			"反対",
		},
		begins: []string{
			"ちょっと", "やっぱり", "やはり", "でも", "ただ", "来週", "来月", "来年", "翌日", "翌週", "月曜", "火曜", "水曜", "木曜", "金曜", "土曜", "日曜", "週明け",
			"まず", "先に", "なぜ", "何で", "何故", "何の", "何を", "何です", "どうして", "誰", "いつ",
		},
		edges: []string{"いや", "いえ", "無理", "ノー", "停止", "撤回", "間違え"},
		harmless: []string{
			"少ない", "不可欠", "期待", "招待", "接待", "待遇", "もたら", "無事", "無料", "有無", "はずみ", "はずれ",
			"並びに", "ならび", "明日期限", "明日締切", "明日が期限", "いただけ", "先に確認しました", "先に確認済", "不具合", "不動産", "不足", "不備", "等確認済", "等確認しました",
		},
	},
	"th": {
		anywhere: []string{
			"ไม่", "ยัง", "อย่า", "ห้าม", "หยุด", "แต่", "ถ้า", "หาก", "เว้น", "จนกว่า", "เมื่อ", "เฉพาะ", "แค่", "เพียง",
			"เท่านั้น", "เงื่อนไข", "ในกรณี", "กรณีที่", "ขึ้นอยู่กับ", "ต่อเมื่อ",
			// รอ, wait, is also where ร ends a word and อ begins the next, as in การอนุมัติ.
			"รอก่อน", "รอผล", "รอให้", "รอสัก", "รอดู", "รอถึง", "รอจน", "รอวัน", "รอคุณ", "รอหัวหน้า", "รอยืนยัน", "รอการ",
			"รอตรวจ", "รอเอกสาร", "รอฟัง", "รอได้", "รอหน่อย", "รอนะ", "รอพี่", "รอนาย", "รอทาง", "รอฝ่าย", "รอลูกค้า", "รอใบ",
			"รอเงิน", "รออนุมัติ", "รออยู่", "รออีก", "รอเช็ค", "รอเช็ก", "รอด้วย", "รอแป๊บ", "รอฉัน", "รอผม", "รอครับ", "รอค่ะ",
			"ขอรอ", "ให้รอ", "ต้องรอ", "โปรดรอ", "กรุณารอ", "และรอ", "จะรอ", "เดี๋ยว", "ก่อน", "พรุ่งนี้", "วันหลัง", "ทีหลัง",
			"ภายหลัง", "คราวหน้า", "ค่อย", "เลื่อน", "พักไว้", "ชะลอ", "ระงับ", "อาจ", "บางที", "ขอดู", "ขอคิด", "ขอเช็ค",
			"ขอเช็ก", "ขอถาม", "ขอตรวจ", "ขอเวลา", "สงสัย", "มิได้", "มิใช่", "มิควร", "ล้อเล่น", "พูดเล่น", "ประชด", "ฝันไป",
			"น่าจะ", "คงจะ", "กลัว", "กังวล", "คัดค้าน", "ฮ่า", "ฮา", "อิอิ", "มั้ง",
		},
		begins: []string{
			"ผิด", "มะรืน", "สัปดาห์หน้า", "อาทิตย์หน้า", "เดือนหน้า", "ปีหน้า", "ทำไม", "อะไร", "ใคร", "วันจันทร์", "วันอังคาร",
			"วันพุธ", "วันพฤหัส", "วันศุกร์", "หลังจาก", "หลัง", "ขอโทษ", "หรือ", "รอ",
		},
		edges: []string{"เปล่า", "รอ"},
		harmless: []string{
			"อย่าง", "ตั้งแต่", "แต่ละ", "เมื่อวาน", "เมื่อเช้า", "เมื่อคืน", "เมื่อสักครู่", "เมื่อวันที่", "เพียงพอ",
			"ก่อนแล้ว", "ก่อนกำหนด", "ก่อนหน้า", "ก่อนวัน", "ก่อนปิด", "ก่อนสิ้น", "กรอก", "กรอบ", "กรอง", "ครอบ", "ครอง",
			"ตามรอบ", "รอบบัญชี", "รอบเดือน", "รอบปิด", "รอบการ", "รอบจ่าย", "รอบสิ้น", "รอบที่", "รอบนี้", "รอบคอบ",
			"รอบไตรมาส", "รองผู้", "รองประธาน", "รองรับ", "รับรอง", "สำรอง", "เรียบร้อย", "อาจารย์", "แต่ง", "วันหยุด", "ฮาร์ด",
			"ปัญหาก", "จัดหาก", "ค้นหาก", "สรรหาก", "แสวงหาก",
		},
	},
	"zh-TW": {
		anywhere: []string{
			"不", "否", "沒", "没", "無", "无", "未", "才怪", "怪了", "哪有", "哪會", "怎麼會", "怎麼可能", "想得美", "做夢", "作夢", "休想", "免談", "誰說", "鬼才",
			"呵呵", "哈哈", "嘻嘻", "開玩笑", "说笑", "說笑", "騙你", "騙人", "假的", "懷疑", "怀疑", "可疑", "疑", "擔心", "反對", "反对", "好像", "應該", "应该",
			"恐怕", "似乎", "勿", "別急", "別動", "别急", "别动", "別執行", "先別", "先别", "請別", "请别", "尚未", "還沒", "还没", "還未", "还未", "仍未", "未確認",
			"未确认", "未核", "未經", "未審", "未同意", "未批准", "未定", "未必", "没有确认", "沒有確認", "無法", "无法", "沒辦法", "没办法",
			"但", "可是", "然而", "不過", "如果", "如需", "如有", "若", "假如", "假設", "倘", "要是", "萬一", "除非", "除了", "否則", "只", "僅", "仅", "為限",
			"限於", "限制", "直到", "為止", "之前先", "的話", "的话", "條件", "条件", "前提", "視情況", "时再", "時再", "後再", "后再", "再說", "再说", "再看", "再議",
			"再付", "再決定", "再决定", "再核准", "再執行", "再执行", "等", "待", "先看", "先問", "先確認", "先確定", "先查", "先停", "暫停", "暫緩", "暫時", "暂停",
			"暂缓", "緩", "延後", "延后", "延期", "且慢", "慢著", "停止", "撤回", "收回", "作廢", "明天", "明日", "明早", "明晚", "後天", "后天", "改天", "稍後",
			"稍后", "晚點", "晚点", "過幾天", "以後", "以后", "下次", "也許", "或許", "可能", "大概", "考慮", "考虑", "猶豫",
		},
		begins: []string{
			"莫", "別", "别", "停", "錯", "慢", "暫", "先", "或", "下週", "下周", "下星期", "下禮拜", "下個月", "下月", "明年", "週一", "週二", "週三", "週四",
			"週五", "為什麼", "為何", "什麼", "誰", "怎麼", "請確認", "請先", "請問", "抱歉",
		},
		edges: []string{"算了"},
		harmless: []string{
			"無誤", "無異常", "不久前", "未來", "未来", "無線", "無人機", "無紙", "未払", "沒收", "若干", "期待", "招待", "接待", "待遇", "平等", "同等", "等級",
			"等於", "相等", "中等", "高等", "等已", "等均", "等都", "等皆", "等文件", "等資料", "等單據", "等項", "等を", "等の", "等は", "等が", "等も", "等に", "等と",
			"等で", "個別", "類別", "特別", "分別", "級別", "識別", "區別", "性別", "先前", "先生", "無償",
		},
	},
}

// fillers say nothing by themselves before what takes an approval back: "ok, well, cancel".
var fillers = []string{"ok", "okay", "yes", "yeah", "yep", "y", "fine", "sure", "well", "hm", "hmm", "um", "uh", "er",
	"so", "and", "then", "oh", "ah", "please", "pls", "just", "i"}

// terms are words of several languages, by the way in which they are looked for.
type terms struct {
	apart []string // " not ", between spaces
	runs  []string // 不
}

func (t *terms) add(words []string) {
	for _, w := range words {
		if w = plain(w); w[0] < utf8.RuneSelf {
			t.apart = append(t.apart, " "+w+" ")
		} else {
			t.runs = append(t.runs, w)
		}
	}
}

// of reports whether one of the terms is found in s as is says: anywhere, at its beginning, at its end.
func (t terms) of(s said, is func(s, term string) bool) bool {
	return slices.ContainsFunc(t.apart, func(w string) bool { return is(s.apart, w) }) ||
		slices.ContainsFunc(t.runs, func(w string) bool { return is(s.runs, w) })
}

// suspects are the doubts of all languages together; leading is what may stand before them.
var suspects = func() (s struct{ anywhere, begins, edges, harmless, leading terms }) {
	s.leading.add(fillers)
	for _, l := range lexicons {
		d := doubtsOf[l.locale]
		s.anywhere.add(d.anywhere)
		s.begins.add(d.begins)
		s.edges.add(d.edges)
		s.anywhere.add(l.no)
		s.harmless.add(d.harmless)
		s.leading.add(l.yes)
		s.leading.add(l.polite)
	}
	slices.SortFunc(s.leading.runs, func(a, b string) int { return len(b) - len(a) }) // 好的 before 好
	return s
}()

// said is a text in the two forms in which terms are looked for, without what is harmless.
type said struct {
	apart string // its words in Latin letters, each between spaces; "#" for a number
	runs  string // all of it, without spaces
}

var latin = regexp.MustCompile(`[a-z]+(?:'[a-z]+)*|[0-9]+`)

func hear(s string) said {
	words := latin.FindAllString(s, -1)
	for i, w := range words {
		if w[0] <= '9' {
			words[i] = "#"
		}
	}
	heard := said{apart: " " + strings.Join(words, " ") + " "}
	for _, h := range suspects.harmless.apart {
		heard.apart = strings.ReplaceAll(heard.apart, h, " · ")
	}
	heard.runs = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
	for _, h := range suspects.harmless.runs {
		heard.runs = strings.ReplaceAll(heard.runs, h, "·")
	}
	return heard
}

// takesBack reports whether a clause begins with what takes an approval back.
func (s said) takesBack() bool {
	for again := true; again; s, again = s.afterLeading() {
		if suspects.begins.of(s, strings.HasPrefix) || suspects.edges.of(s, strings.HasPrefix) {
			return true
		}
	}
	return false
}

// afterLeading leaves out one of the words that may stand before what takes an approval back.
func (s said) afterLeading() (_ said, ok bool) {
	for _, w := range suspects.leading.apart {
		if strings.HasPrefix(s.apart, w) {
			return said{s.apart[len(w)-1:], s.runs}, true
		}
	}
	for _, w := range suspects.leading.runs {
		if rest, ok := strings.CutPrefix(s.runs, w); ok {
			return said{s.apart, rest}, true
		}
	}
	return s, false
}

// agreeing are the only pictures that may stand in a reason: 🙄, 🤔 and 😂 mean anything but it.
const agreeing = "👍👌👏✅✔☑🙏🙆💯"

// laughs are a picture as Slack spells it, ":thinking_face:", and Thai laughter, "555".
var laughs = regexp.MustCompile(`:[a-z0-9_+-]*[a-z][a-z0-9_+-]*:|(?:^|[^0-9.,])5{3,}\+*(?:$|[^0-9.,])`)

var (
	address = regexp.MustCompile(`https?://[!-~]*[a-z0-9/]`)
	clauses = regexp.MustCompile(`[,.;:!…、。·()「」|/\n\r—–]+|\s-+\s`)
)

// doubtful reports whether what is said beside an approval may take it back, put it off, set it a
// condition or ask something; or has no word at all, or something that nobody here can read, and may mean
// anything.
func doubtful(reason string) bool {
	s, ok := spelled(reason)
	if !ok || strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) < 0 ||
		laughs.MatchString(s) {
		return true
	}
	s = address.ReplaceAllString(s, " · ") // what is in it is not said
	all := hear(s)
	if strings.Contains(s, "?") || suspects.anywhere.of(all, strings.Contains) ||
		suspects.edges.of(said{apart: all.apart}, strings.HasSuffix) {
		return true
	}
	for _, clause := range clauses.Split(s, -1) {
		if asks(clause) || hear(clause).takesBack() {
			return true
		}
		for part := range strings.FieldsFuncSeq(clause, func(r rune) bool {
			return r < utf8.RuneSelf ||
				!unicode.In(r, unicode.L, unicode.M, unicode.N)
		}) {
			if p := hear(part); p.takesBack() || suspects.edges.of(said{runs: p.runs}, strings.HasSuffix) {
				return true
			}
		}
	}
	return false
}

// spelled is a reason in the form in which doubts are looked for: one character for all that look alike,
// Latin letters without accents. ok is false where it holds what is in none of the languages, cannot be
// seen, or is a picture that may mean anything.
func spelled(reason string) (_ string, ok bool) {
	var b strings.Builder
	for _, whole := range reason {
		if unicode.Is(unicode.Thai, whole) { // NFKD takes ำ apart
			b.WriteRune(whole)
			continue
		}
		for _, r := range norm.NFKD.String(string(whole)) {
			switch {
			case r == '\u2018' || r == '\u2019':
				b.WriteByte('\'')
			case unicode.IsSpace(r), r == 'ー', r == '\u3099' || r == '\u309a': // a kana's voice
				b.WriteRune(r)
			case r >= 0x300 && r <= 0x36f: // an accent
			case r == 0xfe0f && endsWithAny(b.String(), agreeing): // as ✔️ is typed
			case unicode.IsLetter(r) || unicode.IsMark(r):
				if r > unicode.MaxASCII && !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) {
					return "", false
				}
				b.WriteRune(r)
			case !unicode.IsGraphic(r), unicode.Is(unicode.So, r) && r >= 0x2600 && !strings.ContainsRune(agreeing, r):
				return "", false
			default:
				b.WriteRune(r)
			}
		}
	}
	return plain(b.String()), true
}

func endsWithAny(s, chars string) bool {
	last, _ := utf8.DecodeLastRuneInString(s)
	return strings.ContainsRune(chars, last)
}

// asks reports whether a clause ends as a question does.
func asks(clause string) bool {
	clause = strings.TrimRightFunc(clause, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) })
	for _, l := range lexicons {
		for _, ending := range l.asks {
			if strings.HasSuffix(clause, ending) {
				return true
			}
		}
	}
	return false
}
