// Slack's blocks, drawn by type from the JSON that was sent.
import { make, button, clock, speak, unknown } from "./dom.js";

let names = {}; // people and channels, by id
export function setNames(known) { names = known; }

// drawBlocks draws blocks; press(element, block) is called for a button.
export function drawBlocks(blocks, press) {
  return blocks.map((b) => draw(b, press));
}

function draw(b, press) {
  switch (b.type) {
    case "header": {
      const h = make("p", "b-header", textObject(b.text));
      h.setAttribute("role", "heading");
      h.setAttribute("aria-level", "3");
      return h;
    }
    case "divider": return make("hr", "b-divider");
    case "section": {
      const left = make("div", "", b.text ? textObject(b.text) : null);
      if (b.fields) left.append(make("div", "fields", ...b.fields.map((f) => make("div", "", textObject(f)))));
      return make("div", "b-section", left, b.accessory ? element(b.accessory, b, press) : null);
    }
    case "context": return make("div", "b-context", ...b.elements.map((e) => (e.type === "image" ? picture(e) : make("span", "", textObject(e)))));
    case "actions": return make("div", "b-actions", ...b.elements.map((e) => element(e, b, press)));
    case "image": return make("figure", "b-image", b.title ? make("figcaption", "", textObject(b.title)) : null, picture(b));
    case "markdown": return speak(make("div", "pre", b.text), b.text);
    case "rich_text": return make("div", "b-rich", ...b.elements.map(rich));
    case "input": return input(b);
    default: return unknown("A block of type", b);
  }
}

// picture stands for an image: the page loads nothing from elsewhere.
function picture(e) {
  const box = make("span", "b-picture", e.alt_text);
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", e.alt_text);
  return box;
}

function element(e, b, press) {
  switch (e.type) {
    case "button": {
      const style = { primary: "primary", danger: "danger" }[e.style] ?? "";
      const pressed = button("s-button " + style, () => press(e, b), textObject(e.text));
      if (e.accessibility_label) pressed.setAttribute("aria-label", e.accessibility_label);
      return pressed;
    }
    case "image": return picture(e);
    case "overflow": {
      const choices = e.options.map((o) => button("s-button", () => press({ action_id: e.action_id, value: o.value }, b), textObject(o.text)));
      const more = make("details", "b-more", make("summary", "", "⋯"), make("div", "b-actions", ...choices));
      more.firstChild.setAttribute("aria-label", "More");
      return more;
    }
    case "static_select": {
      const choices = e.options.map((o) => button("s-button", () => press({ action_id: e.action_id, value: o.value }, b), textObject(o.text)));
      return make("details", "b-more", make("summary", "", e.placeholder?.text ?? "Options"), make("div", "b-actions", ...choices));
    }
    case "radio_buttons": case "checkboxes": {
      // The stand-in sends only the actions of buttons and of menus.
      const list = make("ul", "options", ...e.options.map((o) => make("li", "", textObject(o.text))));
      return make("details", "unknown", make("summary", "", e.placeholder?.text ?? "Options"), list);
    }
    default: return unknown("An element of type", e);
  }
}

// ---- text ----

const EMOJI = {
  white_check_mark: "✅", heavy_check_mark: "✔️", x: "❌", no_entry: "⛔", no_entry_sign: "🚫", warning: "⚠️", hourglass: "⌛", hourglass_flowing_sand: "⏳", lock: "🔒", unlock: "🔓",
  rotating_light: "🚨", red_circle: "🔴", large_orange_circle: "🟠", large_yellow_circle: "🟡", large_green_circle: "🟢", large_blue_circle: "🔵", white_circle: "⚪", black_circle: "⚫",
  robot_face: "🤖", octagonal_sign: "🛑", question: "❓", exclamation: "❗", information_source: "ℹ️", bust_in_silhouette: "👤", memo: "📝", pencil: "📝", bell: "🔔", key: "🔑", shield: "🛡️",
  clock3: "🕒", alarm_clock: "⏰", stopwatch: "⏱️", thumbsup: "👍", thumbsdown: "👎", "+1": "👍", "-1": "👎", wave: "👋", eyes: "👀", tada: "🎉", mag: "🔍", link: "🔗", zap: "⚡",
};
const emojis = (text) => text.replace(/:([a-z0-9_+-]+):/g, (all, name) => EMOJI[name] ?? all);
const unescapeText = (text) => text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");

export function textObject(t) {
  const e = t.type === "mrkdwn" ? mrkdwn(t.text) : make("span", "pre", t.emoji === false ? t.text : emojis(t.text));
  return speak(e, t.text);
}

// mrkdwn reads Slack's markup into nodes.
export function mrkdwn(text) {
  const root = speak(make("span", "pre"), text);
  for (const part of text.split(/(```[\s\S]+?```)/)) {
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
  const bar = inside.indexOf("|");
  const [target, label] = bar < 0 ? [inside, ""] : [inside.slice(0, bar), inside.slice(bar + 1)];
  if (target.startsWith("@")) return mention("@", target.slice(1), label);
  if (target.startsWith("#")) return mention("#", target.slice(1), label);
  if (target.startsWith("!date^")) {
    const [, stamp, format] = target.split("^");
    return date(Number(stamp), format, unescapeText(label));
  }
  if (target.startsWith("!")) return make("span", "mention", "@" + target.slice(1).split("^")[0]);
  return link(unescapeText(target), unescapeText(label));
}

const mention = (mark, id, label) => make("span", "mention", mark + (names[id] ?? (label || id)));

function link(url, label) {
  if (!/^(https?|mailto):/i.test(url)) return make("span", "", label || url);
  const a = make("a", "", label || url);
  a.href = url;
  a.target = "_blank";
  a.rel = "noopener noreferrer";
  return a;
}

// ---- dates: Slack shows them on the reader's clock, and keeps "in 5 minutes" true ----

function date(stamp, format, fallback) {
  const e = make("time", "live");
  if (!Number.isFinite(stamp)) { e.textContent = fallback; return e; }
  e.dateTime = new Date(stamp * 1000).toISOString();
  e.dataset.format = format ?? "";
  e.title = fallback;
  e.textContent = dateText(stamp * 1000, format) || fallback;
  return e;
}

export function refreshDates(root) {
  for (const e of root.querySelectorAll("time.live[datetime]")) {
    const text = dateText(Date.parse(e.dateTime), e.dataset.format);
    if (text && text !== e.textContent) e.textContent = text;
  }
}

function dateText(ms, format = "") {
  const d = new Date(ms);
  const style = (options) => d.toLocaleDateString([], options);
  const days = Math.round((new Date(ms).setHours(0, 0, 0, 0) - new Date().setHours(0, 0, 0, 0)) / 864e5);
  const pretty = (options) => ({ "-1": "yesterday", 0: "today", 1: "tomorrow" })[days] ?? style(options);
  const two = (n) => String(n).padStart(2, "0");
  const long = { weekday: "long", year: "numeric", month: "long", day: "numeric" };
  const plain = { year: "numeric", month: "long", day: "numeric" };
  const short = { year: "numeric", month: "short", day: "numeric" };
  const words = {
    date_num: () => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`,
    date_slash: () => `${d.getFullYear()}/${two(d.getMonth() + 1)}/${two(d.getDate())}`,
    date: () => style(plain), date_pretty: () => pretty(plain),
    date_long: () => style(long), date_long_full: () => style(long), date_long_pretty: () => pretty(long),
    date_short: () => style(short), date_short_pretty: () => pretty(short), day_divider_pretty: () => pretty(long),
    // Slack's reader chooses 12 or 24 hours; this one has chosen 24.
    time: () => clock(d), time_secs: () => clock(d, { second: "2-digit" }), ago: () => ago(ms),
  };
  return format.replace(/\{(\w+)\}/g, (all, name) => words[name]?.() ?? all);
}

function ago(ms) {
  const seconds = Math.round((ms - Date.now()) / 1000);
  const say = new Intl.RelativeTimeFormat("en");
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(seconds) >= size) return say.format(Math.trunc(seconds / size), unit);
  }
  return say.format(seconds, "second");
}

// ---- rich text ----

function run(p) {
  let node;
  switch (p.type) {
    case "text": node = make(p.style?.code ? "code" : "span", "", p.text); break;
    case "link": node = link(p.url, p.text); break;
    case "emoji": node = make("span", "", p.unicode ? String.fromCodePoint(...p.unicode.split("-").map((u) => parseInt(u, 16))) : EMOJI[p.name] ?? `:${p.name}:`); break;
    case "user": node = mention("@", p.user_id); break;
    case "usergroup": node = mention("@", p.usergroup_id); break;
    case "channel": node = mention("#", p.channel_id); break;
    case "broadcast": node = make("span", "mention", "@" + p.range); break;
    case "color": node = make("code", "", p.value); break;
    case "date": node = date(p.timestamp, p.format, p.fallback ?? ""); break;
    default: return unknown("An element of type", p);
  }
  if (p.style?.bold) node.classList.add("bold");
  if (p.style?.italic) node.classList.add("italic");
  const lines = [p.style?.strike && "line-through", p.style?.underline && "underline"].filter(Boolean).join(" ");
  if (lines) node.style.textDecoration = lines;
  return node;
}

function rich(e) {
  switch (e.type) {
    case "rich_text_section": return speak(make("div", "pre", ...e.elements.map(run)), words(e));
    case "rich_text_preformatted": return make("pre", "", ...e.elements.map(run));
    case "rich_text_quote": return speak(make("blockquote", "pre", ...e.elements.map(run)), words(e));
    case "rich_text_list": {
      const list = make(e.style === "ordered" ? "ol" : "ul", e.border ? "border" : "", ...e.elements.map((i) => make("li", "pre", ...i.elements.map(run))));
      if (e.offset) list.start = e.offset + 1;
      if (e.indent) list.style.marginInlineStart = `${e.indent * 20}px`;
      return list;
    }
    default: return unknown("An element of type", e);
  }
}

const words = (e) => e.elements.map((p) => p.text ?? "").join("");

// ---- inputs ----

function input(b) {
  const e = b.element;
  const id = "in-" + b.block_id;
  const about = [];
  const part = (cls, name) => {
    const p = make("p", cls);
    p.id = `${id}-${name}`;
    about.push(p.id);
    return p;
  };
  const caption = [textObject(b.label), b.optional ? make("span", "hint", " (optional)") : null];
  const hint = b.hint ? part("hint", "hint") : null;
  hint?.append(textObject(b.hint));
  let field, count;
  const box = make("div", "b-input");
  box.dataset.block = b.block_id;
  box.dataset.action = e.action_id;
  if (!b.optional) box.dataset.required = "";
  if (e.min_length) box.dataset.least = e.min_length;
  switch (e.type) {
    case "plain_text_input": {
      field = make(e.multiline ? "textarea" : "input");
      if (e.multiline) field.rows = 4; else field.type = "text";
      field.value = e.initial_value ?? "";
      if (e.placeholder) field.placeholder = e.placeholder.text;
      if (e.max_length) {
        field.maxLength = e.max_length;
        count = part("count", "count");
        const tell = () => { count.textContent = `${field.value.length} / ${e.max_length}`; };
        field.addEventListener("input", tell);
        tell();
      }
      break;
    }
    case "static_select":
      field = make("select", "", make("option", "", e.placeholder?.text ?? ""), ...e.options.map((o) => {
        const option = make("option", "", o.text.text);
        option.value = o.value;
        option.selected = e.initial_option?.value === o.value;
        return option;
      }));
      field.firstChild.value = "";
      break;
    case "radio_buttons": case "checkboxes": {
      const chosen = (o) => (e.type === "checkboxes" ? e.initial_options ?? [] : [e.initial_option]).some((i) => i?.value === o.value);
      field = make("fieldset", "", make("legend", "", ...caption.filter(Boolean)), ...e.options.map((o) => {
        const one = make("input");
        one.type = e.type === "checkboxes" ? "checkbox" : "radio";
        one.name = id;
        one.value = o.value;
        one.checked = chosen(o);
        return make("label", "option", one, textObject(o.text), o.description ? make("span", "hint", textObject(o.description)) : null);
      }));
      break;
    }
    default: return unknown("An input of type", e);
  }
  field.id = id;
  const wrong = part("wrong", "wrong");
  field.setAttribute("aria-describedby", about.join(" "));
  if (field.localName !== "fieldset") {
    const label = make("label", "", ...caption.filter(Boolean));
    label.htmlFor = id;
    box.append(label);
    if (!b.optional) field.setAttribute("aria-required", "true");
  }
  box.append(field, ...[make("div", "under", hint, count), wrong].filter(Boolean));
  return box;
}

// fieldValue is what stands in an input, as the server takes it.
export function fieldValue(box) {
  const many = box.querySelectorAll("input[type=checkbox], input[type=radio]");
  if (many.length > 0) return [...many].filter((i) => i.checked).map((i) => i.value).join(",");
  return box.querySelector("input, textarea, select").value;
}

// complain puts an error under an input, or takes it away; it returns the field.
export function complain(box, text) {
  const field = box.querySelector("fieldset, input, textarea, select");
  box.querySelector(".wrong").textContent = text;
  if (text) field.setAttribute("aria-invalid", "true"); else field.removeAttribute("aria-invalid");
  return field.localName === "fieldset" ? field.querySelector("input") : field;
}
