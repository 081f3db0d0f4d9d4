"use strict";
// Draws both chats from the state that the server streams. Whatever came from outside becomes text nodes, never markup.

const $ = (id) => document.getElementById(id);
const make = (tag, cls, ...children) => {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
};
const time = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

let state = null;
let person = sessionStorage.getItem("person") || "";
let conversation = "";
let quoting = null;
const seen = new Map(); // messages already read, by conversation
let events = null;

// ---- the server ----

function listen() {
  if (events) events.close();
  events = new EventSource("/page/events?person=" + encodeURIComponent(person));
  events.addEventListener("state", (e) => {
    $("connection").textContent = "";
    state = JSON.parse(e.data);
    person = state.person;
    draw();
  });
  events.onerror = () => { $("connection").textContent = "Connection lost, trying again…"; };
}

async function act(platform, action) {
  const status = $(platform + "-status");
  status.className = "status";
  status.textContent = "Sending…";
  try {
    const res = await fetch("/page/act", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ person, ...action }),
    });
    const answer = await res.json();
    if (answer.error) {
      status.className = "status bad";
      status.textContent = answer.error;
    } else if (answer.status) {
      const ok = answer.status >= 200 && answer.status < 300;
      status.className = ok ? "status" : "status bad";
      status.textContent = `${ok ? "✓ Webhook delivered" : "Webhook refused"}: HTTP ${answer.status} in ${answer.latency_ms} ms`;
    } else {
      status.textContent = "";
    }
    return answer;
  } catch {
    status.className = "status bad";
    status.textContent = "The sandbox cannot be reached.";
    return { error: "unreachable" };
  }
}

// ---- keyed drawing: an unchanged message keeps its element, and with it focus and scroll ----

function drawList(log, items, drawItem, empty) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  log.drawn ??= new Map();
  const keep = new Set(items.map((i) => i.key));
  for (const [key, old] of log.drawn) {
    if (!keep.has(key)) { old.element.remove(); log.drawn.delete(key); }
  }
  let grew = false;
  let after = null;
  for (const item of items) {
    const json = JSON.stringify(item);
    let entry = log.drawn.get(item.key);
    if (!entry || entry.json !== json) {
      const element = drawItem(item);
      if (entry) {
        const focused = entry.element.contains(document.activeElement);
        entry.element.replaceWith(element);
        if (focused) { element.tabIndex = -1; element.focus({ preventScroll: true }); }
      } else {
        grew = true;
        if (after) after.after(element); else log.prepend(element);
      }
      entry = { json, element };
      log.drawn.set(item.key, entry);
    }
    after = entry.element;
  }
  log.querySelector(":scope > .empty")?.remove();
  if (items.length === 0) log.append(make("p", "empty", empty));
  if (grew && atEnd) log.scrollTop = log.scrollHeight;
}

function draw() {
  drawPeople();
  drawLINE();
  drawSlack();
  drawPanels();
}

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
      if (p.stranger) label.title = "On both platforms, but nobody who may decide";
      box.append(label);
    }
  }
  box.querySelectorAll("input").forEach((i) => { i.checked = i.value === person; });
}

function choose(name) {
  person = name;
  for (const id of ["line-status", "slack-status"]) {
    $(id).className = "status";
    $(id).textContent = "";
  }
  sessionStorage.setItem("person", name);
  for (const id of ["line-log", "slack-log"]) {
    $(id).replaceChildren();
    $(id).drawn = new Map();
  }
  seen.clear();
  quote(null);
  listen();
}

// ---- LINE ----

function drawLINE() {
  const line = state.line;
  $("line-sub").textContent = line.on ? line.bot + (line.blocked ? " (blocked)" : "") : "not on LINE";
  $("line-block").hidden = !line.on;
  $("line-block").textContent = line.blocked ? "Unblock" : "Block";
  $("line-text").disabled = !line.on;
  $("line-form").querySelector("[type=submit]").disabled = !line.on;
  const items = line.messages.slice();
  if (line.loading) items.push({ key: "loading", loading: true });
  const stranger = state.people.some((p) => p.name === person && p.stranger);
  drawList($("line-log"), items, drawLINEMessage, !line.on ? `${person} has no LINE account.`
    : stranger ? "No cards come here: a stranger may not decide. Write something, or press a button in Slack, and see."
      : "Nothing yet. When the agent wants something that needs a yes, its card appears here.");
}

function drawLINEMessage(m) {
  if (m.loading) return make("div", "msg", make("span", "avatar round", "C"), make("div", "balloon dots", make("i"), make("i"), make("i")));
  const wide = m.message.type === "flex";
  const what = make("div", wide ? "what wide" : "what", drawLINEContent(m));
  const reply = make("button", "quiet", "Quote");
  reply.type = "button";
  reply.setAttribute("aria-label", "Quote: " + m.text.slice(0, 60));
  reply.addEventListener("click", () => { quote(m); $("line-text").focus(); });
  what.append(make("div", "meta", make("time", "", time(m.at)), m.via === "postback" ? null : reply));
  if (m.quick) {
    const row = make("div", "quick");
    m.message.quickReply.items.forEach((item, i) => {
      const b = make("button", "", item.action.label || item.action.type);
      b.type = "button";
      b.addEventListener("click", () => tapLINE(m.id, ["quickReply", "items", i, "action"], item.action));
      row.append(b);
    });
    what.append(row);
  }
  const root = make("div", m.from_bot ? "msg" : "msg own", m.from_bot ? make("span", "avatar round", "C") : null, what);
  root.querySelector(".avatar")?.setAttribute("aria-hidden", "true");
  return root;
}

function drawLINEContent(m) {
  const c = m.message;
  switch (c.type) {
    case "flex":
      if (c.contents.type === "carousel") {
        return make("div", "carousel", ...c.contents.contents.map((b, i) => bubble(b, ["contents", "contents", i], m.id)));
      }
      return bubble(c.contents, ["contents"], m.id);
    case "template": {
      const t = c.template;
      const box = make("div", "bubble");
      const body = make("div", "fx fx-body vertical");
      if (t.title) body.append(make("b", "", t.title));
      body.append(make("span", "pre", t.text));
      const foot = make("div", "fx fx-footer vertical");
      t.actions.forEach((a, i) => foot.append(flexButton({ action: a, style: "link" }, ["template", "actions", i, "action"].slice(0, 3), m.id)));
      box.append(body, foot);
      return box;
    }
    case "sticker": return make("div", "balloon", "(sticker)");
    case "image": return make("div", "balloon", "(image) " + c.originalContentUrl);
    default: {
      const balloon = make("div", "balloon");
      if (m.quoted) balloon.append(make("span", "quoted", m.quoted));
      balloon.append(c.text ?? m.text);
      return balloon;
    }
  }
}

async function tapLINE(message, path, action) {
  if (action.type === "uri") {
    window.open(action.uri, "_blank", "noopener,noreferrer");
    return;
  }
  if (action.type === "clipboard") {
    await navigator.clipboard?.writeText(action.clipboardText);
    return;
  }
  if (action.inputOption === "openKeyboard") {
    const input = $("line-text");
    input.value = action.fillInText || "";
    input.focus();
  }
  await act("line", { kind: "line.tap", message, path });
}

function quote(m) {
  quoting = m;
  $("line-quote").hidden = !m;
  $("line-quote").firstChild.textContent = m ? "Quoting: " + m.text : "";
}

// Flex, by component type. Sizes are LINE's own.
const SPACE = { none: "0", xs: "2px", sm: "4px", md: "8px", lg: "12px", xl: "16px", xxl: "20px" };
const FONT = { xxs: "11px", xs: "13px", sm: "14px", md: "16px", lg: "19px", xl: "22px", xxl: "29px", "3xl": "35px", "4xl": "48px", "5xl": "74px" };
const BORDER = { none: "0", light: "0.5px", normal: "1px", medium: "2px", "semi-bold": "3px", bold: "4px" };
const RADIUS = { none: "0", xs: "2px", sm: "4px", md: "8px", lg: "12px", xl: "16px", xxl: "20px" };
const length = (v, words = SPACE) => (v === undefined ? "" : words[v] ?? v);

function bubble(b, path, id) {
  const root = make("div", "bubble " + (b.size || "mega"));
  root.setAttribute("dir", b.direction || "ltr");
  for (const part of ["header", "hero", "body", "footer"]) {
    if (!b[part]) continue;
    const style = b.styles?.[part] ?? {};
    if (style.separator) root.append(separatorElement({ color: style.separatorColor }, "vertical"));
    const e = component(b[part], [...path, part], id, "vertical");
    e.classList.add("fx-" + part);
    if (style.backgroundColor) e.style.backgroundColor = style.backgroundColor;
    root.append(e);
  }
  return tappable(root, b.action, [...path, "action"], id);
}

function tappable(e, action, path, id) {
  if (!action) return e;
  e.classList.add("act");
  e.tabIndex = 0;
  e.setAttribute("role", "button");
  if (action.label) e.setAttribute("aria-label", action.label);
  const go = (event) => { event.stopPropagation(); tapLINE(id, path, action); };
  e.addEventListener("click", go);
  e.addEventListener("keydown", (event) => {
    if (event.target === e && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); go(event); }
  });
  return e;
}

function component(c, path, id, parent) {
  let e;
  switch (c.type) {
    case "box": e = flexBox(c, path, id); break;
    case "text": e = flexText(c); break;
    case "button": e = flexButton(c, [...path, "action"], id); break;
    case "separator": e = separatorElement(c, parent); break;
    case "filler": e = make("span"); e.style.flex = "1"; break;
    case "icon": e = make("span", "", "◦"); break;
    case "image": e = make("div", "fx-image", "image: " + c.url); break;
    default: e = make("span", "", `(${c.type})`);
  }
  place(e, c, parent);
  return c.type === "button" ? e : tappable(e, c.action, [...path, "action"], id);
}

function place(e, c, parent) {
  const s = e.style;
  if (c.type !== "separator" && c.type !== "filler") {
    const row = parent !== "vertical";
    const flex = c.flex ?? (row ? 1 : 0);
    s.flex = flex === 0 ? "0 0 auto" : `${flex} ${flex} 0`;
    if (flex === 0 && row) s.maxWidth = "100%";
  }
  if (c.margin) s[parent === "vertical" ? "marginTop" : "marginInlineStart"] = length(c.margin);
  if (c.position === "absolute") s.position = "absolute";
  for (const [name, side] of [["offsetTop", "top"], ["offsetBottom", "bottom"], ["offsetStart", "insetInlineStart"], ["offsetEnd", "insetInlineEnd"]]) {
    if (c[name]) s[side] = length(c[name]);
  }
}

function flexBox(b, path, id) {
  const e = make("div", "fx " + b.layout);
  const s = e.style;
  b.contents.forEach((c, i) => {
    const child = component(c, [...path, "contents", i], id, b.layout);
    if (b.spacing && i > 0 && !c.margin) child.style[b.layout === "vertical" ? "marginTop" : "marginInlineStart"] = length(b.spacing);
    e.append(child);
  });
  if (b.backgroundColor) s.backgroundColor = b.backgroundColor;
  if (b.background) {
    const g = b.background;
    s.backgroundImage = `linear-gradient(${[g.angle, g.startColor, g.centerColor && `${g.centerColor} ${g.centerPosition || "50%"}`, g.endColor].filter(Boolean).join(", ")})`;
  }
  if (b.borderWidth || b.borderColor) s.border = `${length(b.borderWidth ?? "normal", BORDER)} solid ${b.borderColor ?? "#000"}`;
  if (b.cornerRadius) s.borderRadius = length(b.cornerRadius, RADIUS);
  for (const name of ["width", "maxWidth", "height", "maxHeight"]) if (b[name]) s[name] = b[name];
  if (b.paddingAll) s.padding = length(b.paddingAll);
  if (b.paddingTop) s.paddingTop = length(b.paddingTop);
  if (b.paddingBottom) s.paddingBottom = length(b.paddingBottom);
  if (b.paddingStart) s.paddingInlineStart = length(b.paddingStart);
  if (b.paddingEnd) s.paddingInlineEnd = length(b.paddingEnd);
  if (b.justifyContent) s.justifyContent = b.justifyContent;
  if (b.alignItems) s.alignItems = b.alignItems;
  return e;
}

function textStyle(e, t) {
  const s = e.style;
  s.fontSize = length(t.size, FONT) || "";
  if (t.color) s.color = t.color;
  if (t.weight === "bold") s.fontWeight = "700";
  if (t.style === "italic") s.fontStyle = "italic";
  if (t.decoration && t.decoration !== "none") s.textDecoration = t.decoration;
}

function flexText(t) {
  const e = make("div", "fx-text");
  textStyle(e, { size: "md", ...t });
  const s = e.style;
  s.textAlign = t.align || "start";
  if (t.gravity) s.alignSelf = { top: "flex-start", center: "center", bottom: "flex-end" }[t.gravity];
  if (t.wrap) {
    s.whiteSpace = "pre-wrap";
    if (t.maxLines) Object.assign(s, { display: "-webkit-box", webkitBoxOrient: "vertical", webkitLineClamp: String(t.maxLines), overflow: "hidden" });
  } else {
    Object.assign(s, { whiteSpace: "nowrap", overflow: "hidden", textOverflow: "ellipsis" });
  }
  if (t.contents?.length) {
    for (const span of t.contents) {
      const part = make("span", "", span.text);
      textStyle(part, span);
      e.append(part);
    }
  } else {
    e.textContent = t.text;
  }
  return e;
}

function flexButton(b, path, id) {
  const style = b.style || "link";
  const e = make("button", `fx-button ${style} ${b.height || "md"}`, b.action.label);
  e.type = "button";
  if (b.color) e.style[style === "link" ? "color" : "backgroundColor"] = b.color;
  if (b.gravity) e.style.alignSelf = { top: "flex-start", center: "center", bottom: "flex-end" }[b.gravity];
  e.addEventListener("click", (event) => { event.stopPropagation(); tapLINE(id, path, b.action); });
  return e;
}

function separatorElement(c, parent) {
  const e = make("div", "fx-separator");
  e.style[parent === "vertical" ? "height" : "width"] = "1px";
  if (c.color) e.style.backgroundColor = c.color;
  return e;
}

// ---- Slack ----

function drawSlack() {
  const slack = state.slack;
  $("slack-sub").textContent = slack.on ? slack.team : "not on Slack";
  const ids = slack.conversations.map((c) => c.id);
  if (!ids.includes(conversation)) conversation = ids[0] || "";
  const tabs = $("slack-tabs");
  const names = JSON.stringify(slack.conversations.map((c) => [c.id, c.name]));
  if (tabs.dataset.names !== names) {
    tabs.dataset.names = names;
    tabs.replaceChildren(...slack.conversations.map((c, i) => {
      const b = make("button", "", c.im ? "✉ " + slack.bot : "# " + c.name);
      b.type = "button";
      b.id = "tab-" + c.id;
      b.setAttribute("role", "tab");
      b.setAttribute("aria-controls", "slack-panel");
      b.addEventListener("click", () => openConversation(c.id));
      b.addEventListener("keydown", (e) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
        if (!step) return;
        const next = ids[(i + step + ids.length) % ids.length];
        openConversation(next);
        $("tab-" + next).focus();
      });
      return b;
    }));
  }
  for (const c of slack.conversations) {
    const b = $("tab-" + c.id);
    const open = c.id === conversation;
    if (open || !seen.has(c.id)) seen.set(c.id, c.messages.length);
    b.setAttribute("aria-selected", String(open));
    b.tabIndex = open ? 0 : -1;
    b.querySelector(".badge")?.remove();
    const unread = c.messages.length - seen.get(c.id);
    if (unread > 0) {
      const badge = make("span", "badge", String(unread));
      badge.setAttribute("aria-label", unread + " unread");
      b.append(badge);
    }
  }
  const open = slack.conversations.find((c) => c.id === conversation);
  $("slack-panel").setAttribute("aria-labelledby", open ? "tab-" + open.id : "slack-title");
  const input = $("slack-text");
  input.disabled = !open;
  $("slack-form").querySelector("[type=submit]").disabled = !open;
  input.placeholder = !open ? "" : open.im ? "Message " + slack.bot : "Mention the app in #" + open.name + ", or /command";
  drawList($("slack-log"), open ? open.messages.map((m) => ({ ...m, channel: open.id })) : [], drawSlackMessage, open
    ? (open.im ? "Nothing yet. Answers that concern only you, and what you type to the app, appear here."
      : "Nothing yet. When the agent wants something that needs a yes, its card appears here.")
    : `${person} has no Slack account.`);
  drawView(slack.view);
}

function openConversation(id) {
  if (id === conversation) return;
  conversation = id;
  const log = $("slack-log");
  log.replaceChildren();
  log.drawn = new Map();
  drawSlack();
  log.scrollTop = log.scrollHeight;
}

function drawSlackMessage(m) {
  const head = make("div", "", make("span", "who", m.name), m.from_bot ? make("span", "app", "APP") : null, make("time", "when", time(m.at)));
  if (m.edits && !m.blocks) head.append(make("span", "only", " (edited)"));
  const body = make("div");
  if (m.blocks) body.append(...m.blocks.map((b) => block(b, m)));
  else body.append(mrkdwn(m.text));
  const what = make("div", "what", m.ephemeral ? make("div", "only", "Only visible to you") : null, m.thread ? make("div", "only", "↳ in a thread") : null, head, body);
  const avatar = make("span", "avatar", m.name.slice(0, 1).toUpperCase());
  avatar.setAttribute("aria-hidden", "true");
  return make("article", m.thread ? "row thread" : "row", avatar, what);
}

function block(b, m) {
  switch (b.type) {
    case "header": return make("h3", "b-header", textObject(b.text));
    case "divider": return make("hr", "b-divider");
    case "section": {
      const left = make("div", "", b.text ? textObject(b.text) : null);
      if (b.fields) left.append(make("div", "fields", ...b.fields.map((f) => make("div", "", textObject(f)))));
      return make("div", "b-section", left, b.accessory ? element(b.accessory, b, m) : null);
    }
    case "context": return make("div", "b-context", ...b.elements.map((e) => make("span", "", e.type === "image" ? "🖼 " + e.alt_text : textObject(e))));
    case "actions": return make("div", "b-actions", ...b.elements.map((e) => element(e, b, m)));
    case "image": return make("div", "fx-image", b.alt_text);
    case "markdown": return make("div", "pre", b.text);
    case "rich_text": return make("div", "", ...b.elements.map(richText));
    case "input": return inputBlock(b);
    default: return make("div", "only", `(${b.type})`);
  }
}

function element(e, b, m) {
  if (e.type === "image") return make("div", "fx-image", e.alt_text);
  if (e.type !== "button") return make("span", "only", `(${e.type})`);
  const button = make("button", "s-button " + (e.style || ""), textObject(e.text));
  button.type = "button";
  if (e.accessibility_label) button.setAttribute("aria-label", e.accessibility_label);
  button.addEventListener("click", async () => {
    if (e.confirm && !(await confirmed(e.confirm))) return;
    if (e.url) window.open(e.url, "_blank", "noopener,noreferrer");
    await act("slack", { kind: "slack.tap", channel: m.channel, ts: m.ts, action: e.action_id, value: e.value ?? "" });
  });
  return button;
}

function confirmed(c) {
  const d = $("confirm");
  $("confirm-title").replaceChildren(textObject(c.title));
  $("confirm-text").replaceChildren(textObject(c.text));
  const [no, yes] = d.querySelectorAll("button");
  no.replaceChildren(textObject(c.deny));
  yes.replaceChildren(textObject(c.confirm));
  yes.className = c.style || "";
  d.returnValue = "no";
  d.showModal();
  return new Promise((done) => d.addEventListener("close", () => done(d.returnValue === "yes"), { once: true }));
}

function textObject(t) {
  return t.type === "mrkdwn" ? mrkdwn(t.text) : make("span", "pre", t.emoji === false ? t.text : emojis(t.text));
}

const EMOJI = {
  white_check_mark: "✅", x: "❌", no_entry: "⛔", no_entry_sign: "🚫", warning: "⚠️", hourglass: "⌛", hourglass_flowing_sand: "⏳", lock: "🔒", rotating_light: "🚨",
  red_circle: "🔴", large_orange_circle: "🟠", large_yellow_circle: "🟡", large_green_circle: "🟢", large_blue_circle: "🔵", robot_face: "🤖", octagonal_sign: "🛑",
  question: "❓", information_source: "ℹ️", bust_in_silhouette: "👤", memo: "📝", bell: "🔔", key: "🔑", shield: "🛡️", clock3: "🕒", thumbsup: "👍", thumbsdown: "👎",
};
const emojis = (text) => text.replace(/:([a-z0-9_+-]+):/g, (all, name) => EMOJI[name] ?? all);
const unescapeText = (text) => text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");

// mrkdwn reads Slack's markup into nodes.
function mrkdwn(text) {
  const root = make("span", "pre");
  const parts = text.split(/(```[\s\S]+?```)/);
  for (const part of parts) {
    if (part.startsWith("```") && part.length > 6) {
      root.append(make("pre", "", unescapeText(part.slice(3, -3).replace(/^\n/, ""))));
      continue;
    }
    const lines = part.split("\n");
    lines.forEach((l, i) => {
      if (l.startsWith("&gt;")) {
        root.append(make("blockquote", "", ...inline(l.slice(4).trimStart())));
      } else {
        root.append(...inline(l));
        if (i < lines.length - 1) root.append("\n");
      }
    });
  }
  return root;
}

const INLINE = /`([^`\n]+)`|<([^<>]+)>|(?<![\w*])\*([^*\s](?:[^*\n]*[^*\s])?)\*(?![\w*])|(?<!\w)_([^_\s](?:[^_\n]*[^_\s])?)_(?!\w)|(?<!\w)~([^~\s](?:[^~\n]*[^~\s])?)~(?!\w)/g;

function inline(text) {
  const nodes = [];
  let from = 0;
  for (const hit of text.matchAll(INLINE)) {
    nodes.push(emojis(unescapeText(text.slice(from, hit.index))));
    from = hit.index + hit[0].length;
    if (hit[1] !== undefined) nodes.push(make("code", "", unescapeText(hit[1])));
    else if (hit[2] !== undefined) nodes.push(angle(hit[2]));
    else if (hit[3] !== undefined) nodes.push(make("b", "", ...inline(hit[3])));
    else if (hit[4] !== undefined) nodes.push(make("i", "", ...inline(hit[4])));
    else nodes.push(make("s", "", ...inline(hit[5])));
  }
  nodes.push(emojis(unescapeText(text.slice(from))));
  return nodes;
}

function angle(inside) {
  const [target, label] = [inside.split("|")[0], inside.includes("|") ? inside.slice(inside.indexOf("|") + 1) : ""];
  if (target.startsWith("@")) return make("span", "mention", "@" + (state.slack.names[target.slice(1)] ?? target.slice(1)));
  if (target.startsWith("#")) return make("span", "mention", "#" + (label || target.slice(1)));
  if (target.startsWith("!date^")) {
    const [, stamp, format] = target.split("^");
    return make("time", "", date(Number(stamp) * 1000, format) || unescapeText(label));
  }
  if (target.startsWith("!")) return make("span", "mention", "@" + target.slice(1).split("^")[0]);
  if (!/^(https?|mailto):/.test(target)) return unescapeText(label || target);
  const a = make("a", "", unescapeText(label || target));
  a.href = unescapeText(target);
  a.target = "_blank";
  a.rel = "noopener noreferrer";
  return a;
}

function date(ms, format = "") {
  if (!Number.isFinite(ms)) return "";
  const d = new Date(ms);
  const day = (style) => d.toLocaleDateString([], style);
  return format.replace(/\{(\w+)\}/g, (all, name) => ({
    date_num: d.toISOString().slice(0, 10),
    date: day({ dateStyle: "long" }), date_long: day({ dateStyle: "full" }), date_short: day({ dateStyle: "medium" }),
    date_pretty: day({ dateStyle: "long" }), date_long_pretty: day({ dateStyle: "full" }), date_short_pretty: day({ dateStyle: "medium" }),
    time: d.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }), time_secs: d.toLocaleTimeString(),
  })[name] ?? all);
}

function richText(e) {
  const run = (p) => {
    const value = { text: p.text, link: p.text || p.url, emoji: EMOJI[p.name] ?? `:${p.name}:`, user: "@" + (state.slack.names[p.user_id] ?? p.user_id), channel: "#" + p.channel_id, broadcast: "@" + p.range, date: date((p.timestamp ?? 0) * 1000, p.format) }[p.type];
    const node = make(p.style?.code ? "code" : "span", "", value ?? "");
    if (p.style?.bold) node.style.fontWeight = "700";
    if (p.style?.italic) node.style.fontStyle = "italic";
    if (p.style?.strike) node.style.textDecoration = "line-through";
    return node;
  };
  switch (e.type) {
    case "rich_text_preformatted": return make("pre", "", ...e.elements.map(run));
    case "rich_text_quote": return make("blockquote", "pre", ...e.elements.map(run));
    case "rich_text_list": return make(e.style === "ordered" ? "ol" : "ul", "", ...e.elements.map((i) => make("li", "pre", ...i.elements.map(run))));
    default: return make("div", "pre", ...e.elements.map(run));
  }
}

// ---- Slack's modals ----

function inputBlock(b) {
  const e = b.element;
  const id = "in-" + b.block_id;
  const label = make("label", "", textObject(b.label), b.optional ? make("span", "hint", " (optional)") : null);
  label.htmlFor = id;
  let field;
  if (e.type === "plain_text_input") {
    field = make(e.multiline ? "textarea" : "input");
    if (!e.multiline) field.type = "text"; else field.rows = 3;
    field.value = e.initial_value ?? "";
    if (e.max_length) field.maxLength = e.max_length;
    if (e.placeholder) field.placeholder = e.placeholder.text;
  } else {
    field = make("select");
    field.multiple = e.type === "checkboxes";
    if (!field.multiple) field.append(make("option"));
    for (const o of e.options) {
      const option = make("option", "", o.text.text);
      option.value = o.value;
      option.selected = e.initial_option?.value === o.value;
      field.append(option);
    }
  }
  field.id = id;
  field.dataset.block = b.block_id;
  field.dataset.action = e.action_id;
  const wrong = make("p", "wrong");
  wrong.id = id + "-wrong";
  wrong.setAttribute("role", "alert");
  field.setAttribute("aria-describedby", wrong.id);
  return make("div", "", label, field, b.hint ? make("p", "hint", textObject(b.hint)) : null, wrong);
}

function drawView(view) {
  const d = $("view");
  if (!view) {
    d.dataset.hash = "";
    if (d.open) d.close();
    return;
  }
  if (d.dataset.hash === view.hash) return;
  d.dataset.hash = view.hash;
  d.dataset.id = view.id;
  $("view-title").replaceChildren(textObject(view.title));
  $("view-body").replaceChildren(...view.blocks.map((b) => block(b, { channel: "", ts: "" })));
  $("view-submit").hidden = !view.submit;
  if (view.submit) $("view-submit").replaceChildren(textObject(view.submit));
  $("view-close").replaceChildren(view.close ? textObject(view.close) : "Close");
  if (!d.open) d.showModal();
  (d.querySelector("input, textarea, select") ?? $("view-close")).focus();
}

$("view-form").addEventListener("submit", async (e) => {
  e.preventDefault();
  const values = {};
  const fields = [...$("view-body").querySelectorAll("[data-block]")];
  for (const f of fields) {
    (values[f.dataset.block] ??= {})[f.dataset.action] = f.multiple ? [...f.selectedOptions].map((o) => o.value).join(",") : f.value;
    $(f.id + "-wrong").textContent = "";
  }
  const answer = await act("slack", { kind: "slack.submit", view: $("view").dataset.id, values });
  for (const [id, text] of Object.entries(answer.errors ?? {})) {
    const f = fields.find((x) => x.dataset.block === id);
    if (f) { $(f.id + "-wrong").textContent = text; f.focus(); }
  }
});
$("view-close").addEventListener("click", () => act("slack", { kind: "slack.close", view: $("view").dataset.id }));
$("view").addEventListener("cancel", (e) => { e.preventDefault(); act("slack", { kind: "slack.close", view: $("view").dataset.id }); });

// ---- panels ----

function drawPanels() {
  const root = $("panels");
  root.drawn ??= new Map();
  state.panels.forEach((p, i) => {
    let list = root.drawn.get(p.stream);
    if (!list) {
      const title = make("h2", "", p.title);
      title.id = "panel-" + i;
      const head = make("header", "", title);
      if (/^https?:\/\//.test(p.url)) {
        const a = make("a", "", "Open");
        a.href = p.url;
        a.target = "_blank";
        a.rel = "noopener noreferrer";
        a.setAttribute("aria-label", "Open " + p.title);
        head.append(a);
      }
      list = make("div", "lines");
      list.setAttribute("role", "log");
      list.setAttribute("aria-labelledby", title.id);
      list.tabIndex = 0;
      const section = make("section", "panel", head, list);
      section.setAttribute("aria-labelledby", title.id);
      root.append(section);
      root.drawn.set(p.stream, list);
    }
    drawList(list, p.lines.map((l) => ({ key: l.n, ...l })), (l) => make("p", "", make("time", "", new Date(l.at).toLocaleTimeString()), make("span", "", l.text)),
      "Nothing yet. What happens on this side is told here, line by line.");
  });
}

// ---- typing ----

$("line-form").addEventListener("submit", async (e) => {
  e.preventDefault();
  const input = $("line-text");
  const text = input.value.trim();
  if (!text) return;
  const quoted = quoting?.id ?? "";
  input.value = "";
  quote(null);
  await act("line", { kind: "line.type", text, quoted });
});
$("line-quote").querySelector("button").addEventListener("click", () => { quote(null); $("line-text").focus(); });
$("line-block").addEventListener("click", () => act("line", { kind: state.line.blocked ? "line.follow" : "line.unfollow" }));
$("slack-form").addEventListener("submit", async (e) => {
  e.preventDefault();
  const input = $("slack-text");
  const text = input.value.trim();
  if (!text) return;
  input.value = "";
  await act("slack", { kind: "slack.type", channel: conversation, text });
});

listen();
