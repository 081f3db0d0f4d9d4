// The page's own words in the other languages, by the English ones. What the gate sends comes in the language itself, and
// what the agent's panel and the rows tell is a record, in English.
const LANGUAGES = ["ja", "th", "zh-TW"];
const WORDS = {
  "Countersign: two phones and an agent": ["Countersign：2台のスマートフォンとエージェント", "Countersign: โทรศัพท์สองเครื่องกับเอเจนต์", "Countersign：兩支手機與一個 AI 代理"],
  "An AI agent asks, a person taps.": ["AI エージェントが申請し、人が押して決めます。", "เอเจนต์ AI ขอ คนเป็นผู้กดตัดสินใจ", "AI 代理提出申請，由人按下決定。"],
  "Whose phone": ["誰のスマートフォン", "โทรศัพท์ของใคร", "誰的手機"],
  "Language": ["言語", "ภาษา", "語言"],
  "More": ["その他", "เพิ่มเติม", "更多"],
  "Theme": ["テーマ", "ธีม", "佈景主題"],
  "Auto": ["自動", "อัตโนมัติ", "自動"],
  "Light": ["ライト", "สว่าง", "淺色"],
  "Dark": ["ダーク", "มืด", "深色"],
  "Inbox in the browser": ["ブラウザーの受信箱", "กล่องคำขอในเบราว์เซอร์", "瀏覽器中的收件匣"],
  "How it works": ["仕組み", "วิธีการทำงาน", "運作方式"],
  "The agent asks.": ["エージェントが申請します。", "เอเจนต์ขอ", "AI 代理提出申請。"],
  "Before a risky call it asks the gate. The call is not run; a card goes to people's phones.": ["リスクのある操作の前に、ゲートに申請します。操作は実行されず、カードが承認者のスマートフォンに届きます。", "ก่อนการเรียกใช้ที่มีความเสี่ยง เอเจนต์จะขอต่อระบบ การเรียกใช้ยังไม่ทำงาน และการ์ดจะส่งไปยังโทรศัพท์ของผู้อนุมัติ", "執行有風險的操作之前，它會先向閘道申請。操作不會執行，卡片會傳到核准者的手機。"],
  "You tap.": ["あなたが押します。", "คุณกด", "您按下按鈕。"],
  "Approve or Deny on the LINE or the Slack phone. The tap goes back to the gate, signed. Try it as the stranger, too.": ["LINE または Slack のスマートフォンで「承認」か「却下」を押します。操作は署名付きでゲートに戻ります。未登録の人（stranger）としても試してください。", "กด “อนุมัติ” หรือ “ปฏิเสธ” บนโทรศัพท์ LINE หรือ Slack การกดจะส่งกลับไปยังระบบพร้อมลายเซ็น ลองเป็นคนที่ไม่ได้ลงทะเบียน (stranger) ด้วย", "在 LINE 或 Slack 的手機上按「核准」或「拒絕」。您的動作會附上簽章傳回閘道。也請以未註冊的人（stranger）試試看。"],
  "It reads the answer.": ["エージェントが回答を読みます。", "เอเจนต์อ่านคำตอบ", "它讀取答覆。"],
  "On its next turn the agent learns what you said. A yes lets exactly that call through, once.": ["次のターンで、エージェントはあなたの回答を知ります。承認すると、その操作だけが1回だけ実行できます。", "ในรอบถัดไป เอเจนต์จะทราบคำตอบของคุณ การอนุมัติให้การเรียกใช้นั้นทำงานได้หนึ่งครั้งเท่านั้น", "下一回合，AI 代理會得知您的答覆。核准後，只有該操作可執行一次。"],
  "LINE and Slack are stand-ins; all else is real.": ["LINE と Slack は模擬です。それ以外は本物です。", "LINE และ Slack เป็นตัวจำลอง ส่วนอื่นทั้งหมดเป็นของจริง", "LINE 與 Slack 是模擬的，其餘都是真的。"],
  "Got it": ["わかりました", "เข้าใจแล้ว", "知道了"],
  "Parts of the page": ["ページの各部", "ส่วนต่าง ๆ ของหน้า", "頁面的各部分"],
  "Agent": ["エージェント", "เอเจนต์", "AI 代理"],
  "Records": ["記録", "บันทึก", "記錄"],
  "Block": ["ブロック", "บล็อก", "封鎖"],
  "Unblock": ["ブロック解除", "เลิกบล็อก", "解除封鎖"],
  "Block {bot}": ["{bot} をブロック", "บล็อก {bot}", "封鎖 {bot}"],
  "Unblock {bot}": ["{bot} のブロックを解除", "เลิกบล็อก {bot}", "解除封鎖 {bot}"],
  "Conversation on LINE": ["LINE のトーク", "การสนทนาใน LINE", "LINE 對話"],
  "Conversation on Slack": ["Slack の会話", "การสนทนาใน Slack", "Slack 對話"],
  "To the newest message": ["最新のメッセージへ", "ไปยังข้อความล่าสุด", "前往最新訊息"],
  "To the newest line": ["最新の行へ", "ไปยังบรรทัดล่าสุด", "前往最新一行"],
  "Quick replies": ["クイックリプライ", "คำตอบด่วน", "快速回覆"],
  "Do not reply to this message": ["このメッセージへの返信をやめる", "ไม่ตอบกลับข้อความนี้", "不回覆這則訊息"],
  "Message to the bot on LINE": ["LINE のボットへのメッセージ", "ข้อความถึงบอตใน LINE", "傳給 LINE 機器人的訊息"],
  "Send on LINE": ["LINE で送信", "ส่งใน LINE", "在 LINE 傳送"],
  "Message on Slack": ["Slack のメッセージ", "ข้อความใน Slack", "Slack 訊息"],
  "Send on Slack": ["Slack で送信", "ส่งใน Slack", "在 Slack 傳送"],
  "Slack conversations": ["Slack の会話一覧", "การสนทนาใน Slack ทั้งหมด", "Slack 的對話"],
  "The app": ["アプリ", "แอป", "應用程式"],
  "Home": ["ホーム", "หน้าแรก", "首頁"],
  "Messages": ["メッセージ", "ข้อความ", "訊息"],
  "The app's Home": ["アプリのホーム", "หน้าแรกของแอป", "應用程式首頁"],
  "Back to the conversation": ["会話に戻る", "กลับไปที่การสนทนา", "返回對話"],
  "Thread": ["スレッド", "เธรด", "討論串"],
  "What the gate stores": ["ゲートの保存内容", "สิ่งที่ระบบบันทึกไว้", "閘道儲存的內容"],
  "What was sent": ["送信された内容", "สิ่งที่ส่ง", "傳送的內容"],
  "Close": ["閉じる", "ปิด", "關閉"],
  "Close this message": ["このメッセージを閉じる", "ปิดข้อความนี้", "關閉這則訊息"],
  "Sending…": ["送信しています…", "กำลังส่ง…", "傳送中…"],
  "✓ Signed and delivered: HTTP {status} in {ms} ms": ["✓ 署名して送信しました：HTTP {status}、{ms} ms", "✓ ลงลายเซ็นและส่งแล้ว: HTTP {status} ใน {ms} ms", "✓ 已簽章並送達：HTTP {status}，{ms} ms"],
  "The gate refused it: HTTP {status} in {ms} ms": ["ゲートが拒否しました：HTTP {status}、{ms} ms", "ระบบปฏิเสธ: HTTP {status} ใน {ms} ms", "閘道已拒絕：HTTP {status}，{ms} ms"],
  "The demo cannot be reached. Is it still running?": ["デモに接続できません。動作していますか？", "ติดต่อเดโมไม่ได้ ยังทำงานอยู่หรือไม่", "無法連線到示範程式。它還在執行嗎？"],
  "The demo cannot be reached. Start it again; this page comes back by itself.": ["デモに接続できません。もう一度起動すると、このページは自動的に元に戻ります。", "ติดต่อเดโมไม่ได้ โปรดเริ่มใหม่ หน้านี้จะกลับมาเอง", "無法連線到示範程式。重新啟動後，此頁面會自動恢復。"],
  "On both platforms, but nobody who may decide": ["どちらのプラットフォームにもいますが、決定する権限はありません", "อยู่ในทั้งสองแพลตฟอร์ม แต่ไม่มีสิทธิ์ตัดสินใจ", "兩個平台上都有，但無權決定"],
  "{person}’s phone": ["{person} のスマートフォン", "โทรศัพท์ของ {person}", "{person} 的手機"],
  "{person} is not on LINE": ["{person} は LINE を使っていません", "{person} ไม่ได้ใช้ LINE", "{person} 沒有使用 LINE"],
  "{person} is not on Slack": ["{person} は Slack を使っていません", "{person} ไม่ได้ใช้ Slack", "{person} 沒有使用 Slack"],
  "You have blocked {bot}. Nothing it sends reaches this phone.": ["{bot} をブロックしています。このスマートフォンには何も届きません。", "คุณบล็อก {bot} แล้ว ข้อความที่ส่งจะไม่ถึงโทรศัพท์เครื่องนี้", "您已封鎖 {bot}。它傳送的內容不會傳到這支手機。"],
  "{person} has no LINE account here.": ["{person} の LINE アカウントはここにはありません。", "{person} ไม่มีบัญชี LINE ที่นี่", "{person} 在這裡沒有 LINE 帳號。"],
  "{person} has no Slack account here.": ["{person} の Slack アカウントはここにはありません。", "{person} ไม่มีบัญชี Slack ที่นี่", "{person} 在這裡沒有 Slack 帳號。"],
  "No cards come here: a stranger may not decide.": ["ここにカードは届きません。未登録の人は決定できません。", "ไม่มีการ์ดส่งมาที่นี่: ผู้ที่ไม่ได้ลงทะเบียนตัดสินใจไม่ได้", "這裡不會收到卡片：未註冊的人無權決定。"],
  "Write something, or press a button on the Slack phone, and see.": ["何か書くか、Slack のスマートフォンでボタンを押してみてください。", "ลองพิมพ์ข้อความ หรือกดปุ่มบนโทรศัพท์ Slack", "請輸入文字，或在 Slack 手機上按下按鈕試試看。"],
  "Nothing yet.": ["まだ何もありません。", "ยังไม่มีอะไร", "目前沒有內容。"],
  "When the agent wants something that needs a yes, its card appears here.": ["承認が必要な操作をエージェントが申請すると、ここにカードが表示されます。", "เมื่อเอเจนต์ต้องการสิ่งที่ต้องอนุมัติ การ์ดจะแสดงที่นี่", "當 AI 代理要執行需要核准的操作時，卡片會顯示在這裡。"],
  "Answers that concern only you, and what you type to the app, appear here.": ["あなただけへの回答と、アプリに入力した内容がここに表示されます。", "คำตอบถึงคุณเท่านั้น และสิ่งที่คุณพิมพ์ถึงแอป จะแสดงที่นี่", "只給您的答覆，以及您輸入給應用程式的內容，會顯示在這裡。"],
  "Today": ["今日", "วันนี้", "今天"],
  "{bot} is writing": ["{bot} が入力中", "{bot} กำลังพิมพ์", "{bot} 正在輸入"],
  "Reply to: {text}": ["返信：{text}", "ตอบกลับ: {text}", "回覆：{text}"],
  "Reply to {who}: {text}": ["{who} への返信：{text}", "ตอบกลับ {who}: {text}", "回覆 {who}：{text}"],
  "Read": ["既読", "อ่านแล้ว", "已讀"],
  "Sent as a push message. It counts towards the month's messages.": ["プッシュメッセージとして送信されました。今月の通数に数えられます。", "ส่งเป็นข้อความพุช นับรวมในจำนวนข้อความของเดือนนี้", "以推播訊息傳送，計入本月訊息則數。"],
  "Sent as a reply. Replies are free.": ["応答メッセージとして送信されました。応答は無料です。", "ส่งเป็นข้อความตอบกลับ ไม่เสียค่าใช้จ่าย", "以回覆訊息傳送，免費。"],
  "Reply in the thread": ["スレッドに返信", "ตอบกลับในเธรด", "在討論串中回覆"],
  "Message {bot}": ["{bot} へのメッセージ", "ข้อความถึง {bot}", "傳訊息給 {bot}"],
  "@{bot} … or /command": ["@{bot} … または /コマンド", "@{bot} … หรือ /คำสั่ง", "@{bot} … 或 /指令"],
  "The app has not published a Home for you.": ["アプリのホームはまだ公開されていません。", "แอปยังไม่ได้เผยแพร่หน้าแรกสำหรับคุณ", "應用程式尚未為您發布首頁。"],
  "Reply in a thread to {name}": ["{name} にスレッドで返信", "ตอบกลับ {name} ในเธรด", "在討論串中回覆 {name}"],
  "(edited)": ["（編集済み）", "(แก้ไขแล้ว)", "（已編輯）"],
  "{n} reply": ["{n}件の返信", "ตอบกลับ {n} รายการ", "{n} 則回覆"],
  "{n} replies": ["{n}件の返信", "ตอบกลับ {n} รายการ", "{n} 則回覆"],
  "👁 Only visible to you": ["👁 あなただけに表示されています", "👁 เห็นเฉพาะคุณ", "👁 只有您看得到"],
  "↳ in a thread": ["↳ スレッド内", "↳ ในเธรด", "↳ 在討論串中"],
  ", edited": ["、編集済み", ", แก้ไขแล้ว", "，已編輯"],
  ", only visible to you": ["、あなただけに表示", ", เห็นเฉพาะคุณ", "，只有您看得到"],
  " new": ["件の新着", " รายการใหม่", " 項新內容"],
  "Please complete this required field.": ["この必須項目を入力してください。", "โปรดกรอกช่องที่จำเป็นนี้", "請填寫此必填欄位。"],
  "Please enter at least {n} characters.": ["{n}文字以上入力してください。", "โปรดพิมพ์อย่างน้อย {n} ตัวอักษร", "請至少輸入 {n} 個字元。"],
  "We had some trouble connecting. Try again?": ["接続できませんでした。もう一度お試しください。", "เชื่อมต่อไม่สำเร็จ โปรดลองอีกครั้ง", "連線時發生問題，請再試一次。"],
  "Inspect": ["中身を見る", "ดูข้อมูลดิบ", "檢視內容"],
  "Inspect: {text}": ["中身を見る：{text}", "ดูข้อมูลดิบ: {text}", "檢視內容：{text}"],
  "Open": ["開く", "เปิด", "開啟"],
  "Open {title}": ["{title} を開く", "เปิด {title}", "開啟 {title}"],
  "{title}, line by line": ["{title}（1行ずつ）", "{title} ทีละบรรทัด", "{title}，逐行"],
  "Nothing yet. What happens on this side is told here, turn by turn.": ["まだ何もありません。エージェント側で起きたことを、ターンごとにここに表示します。", "ยังไม่มีอะไร สิ่งที่เกิดขึ้นฝั่งนี้จะแสดงที่นี่ทีละรอบ", "目前沒有內容。這一側發生的事會逐回合顯示在這裡。"],
  "Turn {n}": ["ターン {n}", "รอบที่ {n}", "第 {n} 回合"],
  "Nothing yet. Requests, notifications and the audit log appear here as rows.": ["まだ何もありません。申請、通知、監査ログがここに行として表示されます。", "ยังไม่มีอะไร คำขอ การแจ้งเตือน และบันทึกการตรวจสอบจะแสดงเป็นแถวที่นี่", "目前沒有內容。申請、通知與稽核記錄會逐列顯示在這裡。"],
  "No rows yet": ["まだ行がありません", "ยังไม่มีแถว", "尚無資料列"],
};

let column = -1; // English
const told = [];  // what stands in the page from the start: its English words, and how others are put in their place

export const locale = () => LANGUAGES[column];

// say says the page's own words in the language that is chosen, with {names} filled in.
export function say(english, values = {}) {
  return (WORDS[english]?.[column] ?? english).replace(/\{([a-z]+)\}/g, (_, name) => values[name]);
}

const nodes = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
while (nodes.nextNode()) {
  const node = nodes.currentNode;
  const english = node.data.trim();
  if (Object.hasOwn(WORDS, english)) told.push([english, (text) => { node.data = node.data.replace(node.data.trim(), () => text); }]);
}
for (const e of document.querySelectorAll("[aria-label]")) {
  const english = e.getAttribute("aria-label");
  if (Object.hasOwn(WORDS, english)) told.push([english, (text) => e.setAttribute("aria-label", text)]);
}

// speakIn has the page in another language. It reports whether that is a change.
export function speakIn(tag) {
  const next = LANGUAGES.indexOf(tag);
  if (next === column) return false;
  column = next;
  document.documentElement.lang = locale() ?? "en";
  for (const [english, put] of told) put(say(english));
  return true;
}
