// Draws two phones, the agent's panel and the gate's rows from the state that the server streams.
import { $, make, icon, button, clock, speak, drawList, settle, forget, tabKeys, hold } from "./dom.js";
import { say, speakIn, locale } from "./words.js";
import { drawLINE } from "./flex.js";
import { drawBlocks, textObject, mrkdwn, setNames, refreshDates, fieldValue, complain } from "./blocks.js";

const kept = (store, name, value) => {
  try {
    if (value === undefined) return window[store].getItem(name) ?? "";
    window[store].setItem(name, value);
  } catch { /* storage is switched off: nothing is remembered */ }
  return "";
};

let state = null;
let person = kept("sessionStorage", "person");
let conversation = "";
let thread = "";   // the ts of the message whose thread is open
let inner = "messages"; // which tab of the app's own conversation
let quoting = null;
let lost = false;
let events = null;
const seen = new Map(); // messages already read, by conversation

// ---- the server ----

function listen() {
  events?.close();
  const mine = new EventSource("/page/events?person=" + encodeURIComponent(person));
  events = mine;
  mine.addEventListener("state", (e) => {
    if (mine !== events) return;
    lost = false;
    state = JSON.parse(e.data);
    person = state.person;
    draw();
  });
  mine.onerror = () => {
    if (mine !== events) return;
    lost = true;
    drawAlerts();
  };
}

async function post(action) {
  const res = await fetch("/page/act", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ person, ...action }),
  });
  return res.json();
}

async function act(platform, action) {
  const tell = (text, bad) => {
    const status = $(platform + "-status");
    status.className = bad ? "status bad" : "status";
    status.textContent = text;
  };
  tell(say("Sending…"));
  if (narrow.matches && telling === "first") endStory(); // it stands where one writes
  try {
    const answer = await post(action);
    if (answer.error) tell(answer.error, true);
    else if (!answer.status) tell("");
    else {
      const ok = answer.status >= 200 && answer.status < 300;
      tell(say(ok ? "✓ Signed and delivered: HTTP {status} in {ms} ms" : "The gate refused it: HTTP {status} in {ms} ms",
        { status: answer.status, ms: answer.latency_ms }), !ok);
    }
    return answer;
  } catch {
    tell(say("The demo cannot be reached. Is it still running?"), true);
    return { error: "unreachable" };
  }
}

function draw() {
  if (speakIn(state.language)) redraw();
  drawAlerts();
  drawPeople();
  drawInbox();
  drawLanguages();
  drawNews();
  drawPhoneLINE();
  drawPhoneSlack();
  drawPanels();
  drawTables();
  drawParts();
}

// redraw has all that has words of the page's own drawn anew.
function redraw() {
  for (const id of ["line-log", "slack-log"]) quietly($(id), () => forget($(id)));
  for (const id of ["part-agent", "tables"]) {
    $(id).replaceChildren();
    $(id).drawn = new Map();
  }
  for (const id of ["table-tabs", "parts"]) $(id).replaceChildren();
  $("slack-home").dataset.hash = $("people").dataset.names = "";
}

function drawAlerts() {
  const texts = [lost ? say("The demo cannot be reached. Start it again; this page comes back by itself.") : "", ...(state?.notice ?? "").split("\n")].filter(Boolean);
  const box = $("alerts");
  if (box.dataset.said === texts.join("\n")) return;
  box.dataset.said = texts.join("\n");
  box.replaceChildren(...texts.map((t) => make("p", "", t)));
}

// ---- what has just happened ----

let newsRead = null; // the number of what was there when the page was opened, or was told last
let newsEnds = 0;

function drawNews() {
  const { n, text } = state.news;
  if (newsRead !== null && n !== newsRead) tellNews(text);
  newsRead = n;
}

function tellNews(text, bad) {
  const box = $("news");
  const close = named(button("tool", () => box.replaceChildren(), icon("close")), say("Close this message"));
  box.replaceChildren(make("p", bad ? "bad" : "", make("span", "", text), close));
  clearTimeout(newsEnds);
  if (!bad) newsEnds = setTimeout(() => { if (!box.matches(":hover, :focus-within")) box.replaceChildren(); }, 20_000);
}

// ---- the language of what is sent ----

function drawLanguages() {
  const pick = $("language-pick");
  const all = state.languages ?? [];
  $("language").hidden = all.length === 0;
  if (pick.children.length !== all.length) {
    pick.replaceChildren(...all.map((l) => {
      const o = make("option", "", l.name);
      o.value = l.tag;
      o.lang = l.tag;
      return o;
    }));
  }
  if (!pick.disabled) pick.value = state.language ?? "";
}

$("language-pick").addEventListener("change", async () => {
  const pick = $("language-pick");
  pick.disabled = true; // until it is known whether it can be had
  let wrong = "";
  try {
    wrong = (await post({ kind: "language", tag: pick.value })).error ?? "";
  } catch {
    wrong = say("The demo cannot be reached. Is it still running?");
  }
  pick.disabled = false;
  pick.focus({ preventScroll: true });
  if (!wrong) return;
  pick.value = state.language;
  tellNews(wrong.slice(0, 1).toUpperCase() + wrong.slice(1), true);
});

// ---- whose phone ----

function drawPeople() {
  const box = $("people");
  const names = JSON.stringify(state.people);
  if (box.dataset.names !== names) {
    box.dataset.names = names;
    box.querySelectorAll("label").forEach((l) => l.remove());
    for (const p of state.people) {
      const input = make("input");
      input.type = "radio";
      input.name = "person";
      input.value = p.name;
      input.addEventListener("change", () => choose(p.name));
      const label = make("label", "", input, p.name);
      if (p.stranger) label.title = say("On both platforms, but nobody who may decide");
      box.append(label);
    }
  }
  box.querySelectorAll("input").forEach((i) => { i.checked = i.value === person; });
}

function drawInbox() {
  const link = $("inbox");
  link.hidden = !state.inbox;
  link.href = `/page/inbox?person=${encodeURIComponent(person)}`;
}

const stranger = () => state.people.some((p) => p.name === person && p.stranger);

function choose(name) {
  person = name;
  kept("sessionStorage", "person", name);
  for (const id of ["line-status", "slack-status"]) {
    $(id).className = "status";
    $(id).textContent = "";
  }
  for (const id of ["line-log", "slack-log"]) quietly($(id), () => forget($(id)));
  seen.clear();
  thread = "";
  quote(null);
  listen();
}

// quietly changes a log without having all of it read out.
function quietly(log, change) {
  log.setAttribute("aria-live", "off");
  change();
  setTimeout(() => log.removeAttribute("aria-live"), 600);
}

// ---- LINE ----

function drawPhoneLINE() {
  const line = state.line;
  $("line-owner").textContent = say(line.on ? "{person}’s phone" : "{person} is not on LINE", { person });
  $("line-bot").textContent = line.on ? line.bot : "LINE";
  document.querySelector(".phone.line").classList.toggle("off", !line.on);
  $("line-block").hidden = !line.on;
  $("line-block").textContent = say(line.blocked ? "Unblock" : "Block");
  $("line-block").setAttribute("aria-label", say(line.blocked ? "Unblock {bot}" : "Block {bot}", { bot: line.bot }));
  $("line-text").disabled = !line.on || line.blocked;
  $("line-form").querySelector("[type=submit]").disabled = !line.on || line.blocked;
  const items = line.messages.map((m, i) => ({ ...m, day: day(m.at, line.messages[i - 1]?.at) }));
  if (line.blocked) items.push({ key: "blocked", note: say("You have blocked {bot}. Nothing it sends reaches this phone.", { bot: line.bot }) });
  if (line.loading) items.push({ key: "loading", loading: true });
  drawQuick(line.messages.at(-1)); // first: it takes its room from the log
  drawList($("line-log"), items, drawLINEMessage, !line.on ? say("{person} has no LINE account here.", { person })
    : stranger() ? [say("No cards come here: a stranger may not decide."), make("br"), say("Write something, or press a button on the Slack phone, and see.")]
      : [say("Nothing yet."), make("br"), say("When the agent wants something that needs a yes, its card appears here.")]);
}

// day is the heading over the first message of a day, or "".
function day(at, before) {
  const d = new Date(at);
  if (before && new Date(before).toDateString() === d.toDateString()) return "";
  return d.toDateString() === new Date().toDateString() ? say("Today") : d.toLocaleDateString(locale() ?? [], { weekday: "short", month: "short", day: "numeric" });
}

function drawLINEMessage(m) {
  if (m.note) return make("p", "note", m.note);
  const face = () => {
    const e = make("span", "avatar round", state.line.bot.slice(0, 1));
    e.setAttribute("aria-hidden", "true");
    return e;
  };
  if (m.loading) {
    const dots = make("div", "balloon dots", make("i"), make("i"), make("i"));
    dots.setAttribute("role", "img");
    dots.setAttribute("aria-label", say("{bot} is writing", { bot: state.line.bot }));
    return make("div", "msg", face(), dots);
  }
  const card = m.message.type === "flex" || m.message.type === "template";
  const tap = (path, action) => tapLINE(m.id, path, action);
  const reply = button("tool", () => { quote(m); $("line-text").focus(); }, icon("reply"));
  reply.setAttribute("aria-label", say("Reply to: {text}", { text: m.text.slice(0, 60) }));
  const meta = make("div", "meta", m.from_bot ? null : make("span", "", say("Read")), make("time", "", clock(m.at)),
    make("span", "tools", m.via === "postback" ? null : reply, inspectButton(m.message, m.text, say(SENT[m.via] ?? ""))));
  const body = make("div", card ? "what wide" : "what", make("div", "said", drawLINE(m.message, m.quoted, tap)), meta);
  const root = make("article", m.from_bot ? "msg" : "msg own", m.from_bot ? face() : null, body);
  root.setAttribute("aria-label", `${m.from_bot ? state.line.bot : person}, ${clock(m.at)}`);
  return m.day ? make("div", "", make("p", "day", m.day), root) : root;
}

// SENT says how a message came, by what the platform calls it.
const SENT = {
  push: "Sent as a push message. It counts towards the month's messages.",
  reply: "Sent as a reply. Replies are free.",
};

function drawQuick(m) {
  const row = $("line-quick");
  const items = m?.quick ? m.message.quickReply.items : [];
  const drawn = m?.quick ? m.id : "";
  if (row.dataset.of === drawn) return;
  const had = row.contains(document.activeElement);
  const log = $("line-log");
  const following = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  row.dataset.of = drawn;
  row.hidden = items.length === 0;
  row.replaceChildren(...items.map((item, i) => speak(
    button("", () => tapLINE(m.id, ["quickReply", "items", i, "action"], item.action), item.action.label || item.action.type), item.action.label ?? "")));
  if (following) log.scrollTop = log.scrollHeight;
  if (had) $("line-text").focus();
}

async function tapLINE(message, path, action) {
  if (action.type === "uri") {
    if (/^(https?|tel):/i.test(action.uri)) window.open(action.uri, "_blank", "noopener,noreferrer");
    return;
  }
  if (action.type === "clipboard") {
    await navigator.clipboard?.writeText(action.clipboardText);
    return;
  }
  if (action.inputOption === "openKeyboard") {
    const input = $("line-text");
    input.value = action.fillInText ?? "";
    grow(input);
    input.focus();
    input.setSelectionRange(input.value.length, input.value.length);
  }
  await act("line", { kind: "line.tap", message, path });
}

function quote(m) {
  quoting = m;
  $("line-quote").hidden = !m;
  $("line-quote").firstElementChild.textContent = m ? say("Reply to {who}: {text}", { who: m.from_bot ? state.line.bot : person, text: m.text }) : "";
}

// ---- Slack ----

function drawPhoneSlack() {
  const slack = state.slack;
  setNames({ ...slack.names, ...Object.fromEntries(slack.conversations.map((c) => [c.id, c.name])) });
  $("slack-owner").textContent = say(slack.on ? "{person}’s phone" : "{person} is not on Slack", { person });
  $("slack-team").textContent = slack.team;
  document.querySelector(".phone.slack .team").textContent = slack.team.slice(0, 1).toUpperCase();
  const ids = slack.conversations.map((c) => c.id);
  if (!ids.includes(conversation)) conversation = ids[0] || "";
  const tabs = $("slack-tabs");
  const names = JSON.stringify(slack.conversations.map((c) => [c.id, c.name]));
  if (tabs.dataset.names !== names) {
    tabs.dataset.names = names;
    tabs.replaceChildren(...slack.conversations.map((c) => {
      const b = button("", () => openConversation(c.id), c.im ? slack.bot : "# " + c.name);
      b.id = "tab-" + c.id;
      b.dataset.id = c.id;
      b.setAttribute("role", "tab");
      b.setAttribute("aria-controls", "slack-panel");
      return b;
    }));
  }
  tabs.hidden = ids.length === 0;
  for (const c of slack.conversations) {
    const b = $("tab-" + c.id);
    const open = c.id === conversation;
    if (open || !seen.has(c.id)) seen.set(c.id, c.messages.length);
    select(b, open);
    badge(b, c.messages.length - seen.get(c.id));
  }
  const open = slack.conversations.find((c) => c.id === conversation);
  if (open) $("slack-panel").setAttribute("aria-labelledby", "tab-" + open.id);
  else $("slack-panel").setAttribute("aria-labelledby", "slack-title");
  drawConversation(open);
  drawView(slack.view);
}

function select(tab, on) {
  tab.setAttribute("aria-selected", String(on));
  tab.tabIndex = on ? 0 : -1;
}

function badge(tab, unread) {
  const old = tab.querySelector(".badge");
  if (unread <= 0) { old?.remove(); return; }
  if (old?.dataset.n === String(unread)) return;
  old?.remove();
  const e = make("span", "badge", make("span", "", String(unread)), make("span", "hidden", say(" new")));
  e.dataset.n = unread;
  tab.append(e);
}

function drawConversation(open) {
  const slack = state.slack;
  const home = open?.im && inner === "home" && Boolean(slack.has_home);
  $("slack-inner").hidden = !open?.im || !slack.has_home;
  select($("tab-home"), home);
  select($("tab-messages"), !home);
  const page = $("slack-page");
  if (open?.im && slack.has_home) {
    page.setAttribute("role", "tabpanel");
    page.setAttribute("aria-labelledby", home ? "tab-home" : "tab-messages");
  } else {
    page.removeAttribute("role");
    page.removeAttribute("aria-labelledby");
  }
  $("slack-home").hidden = !home;
  $("slack-log").hidden = home;
  $("slack-form").hidden = home;
  if (home) drawHome(slack.home);
  const all = open ? open.messages.map((m) => ({ ...m, channel: open.id })) : [];
  if (thread && !all.some((m) => m.ts === thread)) thread = "";
  $("slack-thread").hidden = !thread || home;
  const there = new Set(all.map((m) => m.ts));
  const answers = (m) => all.filter((r) => r.thread === m.ts).length;
  const items = thread ? all.filter((m) => m.ts === thread || m.thread === thread)
    : all.filter((m) => !m.thread || !there.has(m.thread)).map((m) => ({ ...m, replies: answers(m) }));
  const input = $("slack-text");
  input.disabled = !open;
  $("slack-form").querySelector("[type=submit]").disabled = !open;
  input.placeholder = !open ? "" : say(thread ? "Reply in the thread" : open.im ? "Message {bot}" : "@{bot} … or /command", { bot: slack.bot });
  drawList($("slack-log"), items, drawSlackMessage, !open ? say("{person} has no Slack account here.", { person })
    : open.im ? [say("Nothing yet."), make("br"), say("Answers that concern only you, and what you type to the app, appear here.")]
      : [say("Nothing yet."), make("br"), say("When the agent wants something that needs a yes, its card appears here.")]);
}

function openConversation(id) {
  if (id === conversation && !thread) return;
  conversation = id;
  reopen("");
}

// reopen shows the open conversation anew: one of its threads, or all of it.
function reopen(ts) {
  thread = ts;
  const log = $("slack-log");
  quietly(log, () => { forget(log); drawPhoneSlack(); });
}

function openInner(tab) {
  inner = tab.id === "tab-home" ? "home" : "messages";
  drawPhoneSlack();
  if (inner === "home") act("slack", { kind: "slack.home" });
}

function pressing(where) {
  return async (e, b) => {
    if (e.confirm && !(await confirmed(e.confirm))) return;
    if (e.url && /^https?:/i.test(e.url)) window.open(e.url, "_blank", "noopener,noreferrer");
    await act("slack", { ...where, block: b.block_id, action: e.action_id, value: e.value ?? "" });
  };
}

function drawHome(view) {
  const root = $("slack-home");
  const hash = view?.hash ?? "none";
  if (root.dataset.hash === hash) return;
  root.dataset.hash = hash;
  const focused = root.contains(document.activeElement);
  root.replaceChildren(view ? make("div", "homeview", ...drawBlocks(view.blocks, pressing({ kind: "slack.home.tap" })))
    : make("p", "empty", say("The app has not published a Home for you.")));
  if (focused) root.focus();
}

function drawSlackMessage(m) {
  const sent = make("time", "when", clock(m.at));
  const threadable = !thread && !m.ephemeral;
  const tools = make("span", "tools", threadable ? named(button("tool", () => openThread(m), icon("thread")), say("Reply in a thread to {name}", { name: m.name })) : null,
    inspectButton({ text: m.text, ...(m.blocks ? { blocks: m.blocks } : {}) }, m.text));
  const head = make("div", "headline", make("span", "who", m.name), m.from_bot ? make("span", "app", "APP") : null, sent,
    m.edits && !m.blocks ? make("span", "only", say("(edited)")) : null, tools); // Slack marks no edit that comes with blocks
  const body = make("div", "blocks");
  if (m.blocks) body.append(...drawBlocks(m.blocks, pressing({ kind: "slack.tap", channel: m.channel, ts: m.ts })));
  else body.append(mrkdwn(m.text));
  const replies = m.replies ? button("replies", () => openThread(m), say(m.replies === 1 ? "{n} reply" : "{n} replies", { n: m.replies })) : null;
  const what = make("div", "what", m.ephemeral ? make("p", "only", say("👁 Only visible to you")) : null, m.thread && !thread ? make("p", "only", say("↳ in a thread")) : null, head, body, replies);
  const avatar = make("span", m.from_bot ? "avatar" : "avatar person", m.name.slice(0, 1).toUpperCase());
  avatar.setAttribute("aria-hidden", "true");
  const root = make("article", m.ephemeral ? "row ephemeral" : "row", avatar, what);
  root.setAttribute("aria-label", `${m.name}, ${clock(m.at)}${m.edits ? say(", edited") : ""}${m.ephemeral ? say(", only visible to you") : ""}`);
  return root;
}

function named(e, name) {
  e.setAttribute("aria-label", name);
  return e;
}

function openThread(m) {
  reopen(m.ts);
  $("slack-text").focus();
}

function confirmed(c) {
  const d = $("confirm");
  $("confirm-title").replaceChildren(textObject(c.title));
  $("confirm-text").replaceChildren(textObject(c.text));
  const [no, yes] = d.querySelectorAll("button");
  no.replaceChildren(textObject(c.deny));
  yes.replaceChildren(textObject(c.confirm));
  yes.className = "solid " + ({ danger: "danger" }[c.style] ?? "");
  hold(d, $("slack-log"));
  // A dialog's own close event comes late: by then the next one may be open.
  return new Promise((done) => {
    const end = (answer) => (event) => {
      event.preventDefault();
      no.onclick = yes.onclick = d.oncancel = null;
      d.close();
      done(answer);
    };
    no.onclick = end(false);
    yes.onclick = end(true);
    d.oncancel = end(false);
  });
}

// ---- Slack's modals ----

function drawView(view) {
  const d = $("view");
  if (!view) {
    d.dataset.hash = "";
    if (d.open) d.close();
    return;
  }
  if (d.dataset.hash === view.hash) return;
  const updated = d.open && d.dataset.id === view.id;
  d.dataset.hash = view.hash;
  d.dataset.id = view.id;
  const typed = new Map([...$("view-body").querySelectorAll("[data-block]")].map((box) => [box.dataset.block, fieldValue(box)]));
  $("view-title").replaceChildren(textObject(view.title));
  $("view-body").replaceChildren(...drawBlocks(view.blocks, pressing({ kind: "slack.view.tap", view: view.id })));
  if (updated) {
    // What was typed stays where the new view has the same input.
    for (const box of $("view-body").querySelectorAll("[data-block]")) {
      const field = box.querySelector("input[type=text], textarea");
      if (field && typed.get(box.dataset.block)) {
        field.value = typed.get(box.dataset.block);
        field.dispatchEvent(new Event("input"));
      }
    }
  }
  $("view-status").textContent = "";
  $("view-submit").hidden = !view.submit;
  if (view.submit) $("view-submit").replaceChildren(textObject(view.submit));
  $("view-close").replaceChildren(view.close ? textObject(view.close) : say("Close"));
  // On a phone a modal covers the app; here it covers the phone where there is one.
  const screen = document.querySelector(".phone.slack").getBoundingClientRect();
  d.classList.toggle("sheet", screen.width > 0 && screen.height > 420 && innerWidth > 760 && screen.bottom <= innerHeight + 20);
  for (const side of ["left", "top", "width", "height"]) d.style.setProperty("--" + side, `${Math.round(screen[side])}px`);
  hold(d, $("slack-log"));
  ($("view-body").querySelector("input, textarea, select") ?? (view.submit ? $("view-submit") : $("view-close"))).focus();
}

$("view-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const boxes = [...$("view-body").querySelectorAll("[data-block]")];
  const values = {};
  let first = null;
  for (const box of boxes) {
    const value = fieldValue(box);
    (values[box.dataset.block] ??= {})[box.dataset.action] = value;
    const least = Number(box.dataset.least ?? 0);
    const wrong = "required" in box.dataset && value.trim() === "" ? say("Please complete this required field.")
      : value !== "" && value.length < least ? say("Please enter at least {n} characters.", { n: least }) : "";
    const field = complain(box, wrong);
    if (wrong) first ??= field;
  }
  if (first) { first.focus(); return; }
  const answer = await act("slack", { kind: "slack.submit", view: $("view").dataset.id, values });
  if (!$("view").open) return;
  $("view-status").textContent = answer.error || (answer.status && answer.status !== 200) ? say("We had some trouble connecting. Try again?") : "";
  for (const [id, text] of Object.entries(answer.errors ?? {})) {
    const box = boxes.find((b) => b.dataset.block === id);
    if (box) {
      const field = complain(box, text);
      first ??= field;
    }
  }
  first?.focus();
});
const closeView = () => act("slack", { kind: "slack.close", view: $("view").dataset.id });
$("view-close").addEventListener("click", closeView);
$("view").addEventListener("cancel", (event) => { event.preventDefault(); closeView(); });

// ---- what was sent ----

function inspectButton(object, text, how = "") {
  return named(button("inspect", () => {
    $("raw-how").textContent = how;
    $("raw-how").hidden = how === "";
    $("raw-json").textContent = JSON.stringify(object, null, 2);
    hold($("raw"), null);
    $("raw-json").scrollTop = 0;
  }, say("Inspect")), say("Inspect: {text}", { text: text.slice(0, 60) }));
}

// ---- beside the phones ----

function drawPanels() {
  const root = $("part-agent");
  root.drawn ??= new Map();
  state.panels.forEach((p, i) => {
    let list = root.drawn.get(p.stream);
    if (!list) {
      const title = make("h2", "", p.title);
      title.id = "panel-" + i;
      const head = make("header", "head", title);
      if (/^https?:\/\//.test(p.url)) {
        const a = make("a", "", say("Open"));
        a.href = p.url;
        a.target = "_blank";
        a.rel = "noopener noreferrer";
        head.append(named(a, say("Open {title}", { title: p.title })));
      }
      list = make("div", "lines");
      list.setAttribute("role", "region");
      list.setAttribute("aria-label", say("{title}, line by line", { title: p.title }));
      list.tabIndex = 0;
      const newer = named(button("newer", () => toEnd(list), icon("down")), say("To the newest line"));
      newer.hidden = true;
      const section = make("section", "card", head, make("div", "fill", list, newer));
      section.setAttribute("aria-labelledby", title.id);
      root.append(section);
      root.drawn.set(p.stream, list);
      watch(list);
    }
    let turn = 0;
    const items = [];
    for (const l of p.lines) {
      if (l.turn && l.turn !== turn) items.push({ key: "turn-" + l.n, turn: l.turn });
      turn = l.turn || turn;
      items.push({ key: l.n, ...l });
    }
    drawList(list, items, drawLine, say("Nothing yet. What happens on this side is told here, turn by turn."));
  });
}

function drawLine(l) {
  if (l.text === undefined) {
    const h = make("h3", "turn", say("Turn {n}", { n: l.turn }));
    return h;
  }
  const mark = l.word ? make("span", "word " + tone(l.word), l.word) : null;
  const text = speak(make("span", "text", l.text), l.text);
  const e = make("div", "entry " + (l.kind ? "kind-" + l.kind.replace(/[^a-z]/g, "-") : ""), l.kind ? make("span", "label", l.kind) : make("time", "label", clock(l.at)), make("p", "", mark, text));
  e.title = clock(l.at, { second: "2-digit" });
  return e;
}

// tone is the colour of an outcome; the word itself is always there too.
function tone(word) {
  if (["approved", "allow", "allowed", "sent", "delivered", "used", "done"].includes(word)) return "good";
  if (["denied", "denied by policy", "refused", "policy refused", "failed", "error"].includes(word)) return "bad";
  if (["pending", "asked", "queued", "retrying"].includes(word)) return "waits";
  return "over";
}

let table = "";             // the title of the one that is shown
const refusals = new Map(); // how many refusals a table had when it was last looked at

function drawTables() {
  const root = $("tables");
  if (state.tables.length === 0) {
    if (!root.querySelector(".empty")) root.append(make("p", "empty", say("Nothing yet. Requests, notifications and the audit log appear here as rows.")));
    return;
  }
  root.querySelector(":scope > .empty")?.remove();
  root.drawn ??= new Map();
  $("table-tabs").hidden = false;
  if (!table) table = state.tables[0].title;
  for (const t of state.tables) {
    let drawn = root.drawn.get(t.title);
    if (!drawn) {
      drawn = newTable(t, "table-" + root.drawn.size);
      root.drawn.set(t.title, drawn);
    }
    const shown = t.title === table;
    drawn.scroll.hidden = !shown;
    select(drawn.tab, shown);
    fillTable(drawn.body, t);
    const status = t.columns.indexOf("Status");
    const refused = t.rows.filter((cells) => cells[status] === "refused").map((cells) => Number(cells[0]) || 0);
    const newest = Math.max(0, ...refused);
    if (shown || !refusals.has(t.title)) refusals.set(t.title, newest);
    badge(drawn.tab, refused.filter((n) => n > refusals.get(t.title)).length);
  }
}

function openTable(tab) {
  table = tab.dataset.title;
  drawTables();
}
tabKeys($("table-tabs"), openTable);

// role names what an element of a table is: a narrow page lays rows out anew, and would lose what they are.
function role(e, is) {
  e.setAttribute("role", is);
  return e;
}

function newTable(t, id) {
  const tab = role(button("", () => openTable(tab), t.title), "tab");
  tab.id = id + "-tab";
  tab.dataset.title = t.title;
  tab.setAttribute("aria-controls", id);
  $("table-tabs").append(tab);
  const body = role(make("tbody"), "rowgroup");
  body.before_ = new Map();
  const head = role(make("tr", "", ...t.columns.map((c) => {
    const th = role(make("th", "", c), "columnheader");
    th.scope = "col";
    return th;
  })), "row");
  const caption = make("caption", "hidden", t.title);
  const scroll = make("div", "scroll", role(make("table", "", caption, role(make("thead", "", head), "rowgroup"), body), "table"));
  scroll.id = id;
  role(scroll, "tabpanel");
  scroll.setAttribute("aria-labelledby", tab.id);
  scroll.tabIndex = 0;
  $("tables").append(scroll);
  return { tab, scroll, body };
}

function fillTable(body, t) {
  if (body.dataset.json === JSON.stringify(t)) return;
  const firstTime = !body.dataset.json;
  body.dataset.json = JSON.stringify(t);
  const status = t.columns.indexOf("Status");
  body.replaceChildren(...t.rows.map((cells) => {
    const old = body.before_.get(cells[0]);
    const tr = role(make("tr", !firstTime && JSON.stringify(old) !== JSON.stringify(cells) ? "changed" : ""), "row");
    cells.forEach((c, i) => {
      const what = i === status ? make("span", "word " + tone(c), c) : c === "" ? null : c;
      const cell = role(make(i === 0 ? "th" : "td", "", what), i === 0 ? "rowheader" : "cell");
      if (i === 0) cell.scope = "row";
      else if (i !== status) cell.dataset.label = t.columns[i];
      tr.append(cell);
    });
    return tr;
  }));
  if (t.rows.length === 0) {
    const none = role(make("td", "empty", say("No rows yet")), "cell");
    none.colSpan = t.columns.length;
    body.append(role(make("tr", "", none), "row"));
  }
  body.before_ = new Map(t.rows.map((cells) => [cells[0], cells]));
}

// ---- narrow screens: the parts become tabs ----

const narrow = matchMedia("(max-width: 760px)");
const PARTS = [["part-line", "LINE"], ["part-slack", "Slack"], ["part-agent", "Agent"], ["part-rows", "Records"]];
let part = "part-line";
const looked = new Map(); // what was there when a part was last looked at

const sizes = () => state && {
  "part-line": state.line.messages.filter((m) => m.from_bot).length,
  "part-slack": state.slack.conversations.reduce((n, c) => n + c.messages.filter((m) => m.from_bot).length, 0),
};

function drawParts() {
  const list = $("parts");
  if (list.children.length === 0) {
    list.append(...PARTS.map(([id, name]) => {
      const b = button("", () => openPart(id), say(name));
      b.id = "to-" + id;
      b.dataset.part = id;
      return b;
    }));
  }
  const tabs = narrow.matches;
  if (tabs) list.setAttribute("role", "tablist"); else list.removeAttribute("role");
  if (tabs) list.setAttribute("aria-label", say("Parts of the page")); else list.removeAttribute("aria-label");
  list.hidden = !tabs;
  for (const [id] of PARTS) {
    const section = $(id);
    const b = $("to-" + id);
    const shown = id === part;
    section.classList.toggle("shown", shown);
    if (tabs) {
      b.setAttribute("role", "tab");
      b.setAttribute("aria-controls", id);
      section.setAttribute("role", "tabpanel");
      section.dataset.label ??= section.getAttribute("aria-labelledby") ?? "";
      section.setAttribute("aria-labelledby", b.id);
      select(b, shown);
    } else {
      section.removeAttribute("role");
      if (section.dataset.label) section.setAttribute("aria-labelledby", section.dataset.label); else section.removeAttribute("aria-labelledby");
    }
    const n = sizes()?.[id] ?? 0;
    if (shown || !looked.has(id)) looked.set(id, n);
    badge(b, tabs ? n - looked.get(id) : 0);
  }
}

function openPart(id) {
  part = id;
  drawParts();
  for (const log of $(id).querySelectorAll(".log")) settle(log);
  for (const log of $(id).querySelectorAll(".lines")) log.scrollTop = log.scrollHeight;
}

tabKeys($("parts"), (tab) => openPart(tab.dataset.part));
narrow.addEventListener("change", drawParts);

// ---- typing ----

function grow(input) {
  input.style.height = "auto";
  input.style.height = Math.min(input.scrollHeight + 2, 120) + "px";
}

function composer(platform, send) {
  const form = $(platform + "-form");
  const input = $(platform + "-text");
  const ready = () => form.classList.toggle("ready", input.value.trim() !== "");
  input.addEventListener("input", () => { grow(input); ready(); });
  input.addEventListener("focus", ready);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text) return;
    input.value = "";
    grow(input);
    ready();
    await send(text);
  });
}

composer("line", (text) => {
  const quoted = quoting?.id ?? "";
  quote(null);
  return act("line", { kind: "line.type", text, quoted });
});
composer("slack", (text) => act("slack", { kind: "slack.type", channel: conversation, thread, text }));
$("line-quote").querySelector("button").addEventListener("click", () => { quote(null); $("line-text").focus(); });
$("line-text").addEventListener("keydown", (event) => { if (event.key === "Escape" && quoting) quote(null); });
$("line-block").addEventListener("click", () => act("line", { kind: state.line.blocked ? "line.follow" : "line.unfollow" }));
const leaveThread = () => { reopen(""); $("slack-text").focus(); };
$("slack-thread").querySelector("button").addEventListener("click", leaveThread);
$("slack-text").addEventListener("keydown", (event) => { if (event.key === "Escape" && thread) leaveThread(); });
tabKeys($("slack-tabs"), (tab) => openConversation(tab.dataset.id));
tabKeys($("slack-inner"), openInner);
for (const id of ["tab-home", "tab-messages"]) $(id).addEventListener("click", () => openInner($(id)));

// ---- scrolling ----

function toEnd(log) {
  log.scrollTop = log.scrollHeight;
  log.parentElement.querySelector(":scope > .newer").hidden = true;
  log.focus({ preventScroll: true });
}

function watch(log) {
  const newer = log.parentElement.querySelector(":scope > .newer");
  log.addEventListener("scroll", () => { if (log.scrollHeight - log.scrollTop - log.clientHeight < 60) newer.hidden = true; }, { passive: true });
}
for (const id of ["line-log", "slack-log"]) {
  watch($(id));
  $(id).parentElement.querySelector(":scope > .newer").addEventListener("click", () => toEnd($(id)));
}

// ---- theme, story, clock ----

for (const input of document.querySelectorAll("#themes input")) {
  input.checked = input.value === document.documentElement.dataset.theme;
  input.addEventListener("change", () => {
    document.documentElement.dataset.theme = input.value;
    kept("localStorage", "theme", input.value);
  });
}

let telling = ""; // the story: "first", in short where there is little room, or "asked", or not told

function story(how) {
  telling = how;
  $("story").hidden = how === "";
  $("story-open").setAttribute("aria-expanded", String(how !== ""));
  document.body.classList.toggle("telling", how === "first");
  document.body.classList.toggle("asked", how === "asked");
}
function endStory() {
  kept("localStorage", "story", "read");
  story("");
}
$("story-open").addEventListener("click", () => {
  story(telling ? "" : "asked");
  more(false);
  if (telling) $("story-title").focus();
});
$("story-close").addEventListener("click", () => {
  endStory();
  ($("story-open").checkVisibility() ? $("story-open") : $("more-open")).focus();
});
$("story").addEventListener("keydown", (event) => { if (event.key === "Escape") $("story-close").click(); });
story(kept("localStorage", "story") === "read" ? "" : "first");

// more opens what a narrow page has no room for.
function more(open) {
  $("more").classList.toggle("open", open);
  $("more-open").setAttribute("aria-expanded", String(open));
}
$("more-open").addEventListener("click", () => more(!$("more").classList.contains("open")));
$("more").addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !$("more").classList.contains("open")) return;
  more(false);
  $("more-open").focus();
});

function tick() {
  const now = clock(Date.now()); // read once: both phones tell the same minute
  for (const e of document.querySelectorAll(".strip .clock")) e.textContent = now;
  refreshDates(document);
}
tick();
setInterval(tick, 10_000);
listen();
