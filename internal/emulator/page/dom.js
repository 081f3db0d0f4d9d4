// Small helpers. Whatever came from outside becomes text nodes, never markup.

export const $ = (id) => document.getElementById(id);

export function make(tag, cls, ...children) {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

const SVG = "http://www.w3.org/2000/svg";

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("focusable", "false");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", "#i-" + name);
  svg.append(use);
  return svg;
}

export function button(cls, onclick, ...children) {
  const b = make("button", cls, ...children);
  b.type = "button";
  b.addEventListener("click", onclick);
  return b;
}

// clock is a time of day as these phones show it: with 24 hours.
export const clock = (at, more = {}) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...more });

// language guesses a text's language from its script, for screen readers and fonts; "" is the page's own.
export function language(text) {
  if (/[\u3040-\u30ff]/.test(text)) return "ja";
  if (/[\u0e00-\u0e7f]/.test(text)) return "th";
  if (/[\u4e00-\u9fff]/.test(text)) return "zh-TW";
  return "";
}

export function speak(e, text) {
  const lang = language(text) || (document.documentElement.lang === "en" ? "" : "en"); // records stay English
  if (lang) e.lang = lang;
  return e;
}

// unknown stands where something cannot be drawn: it is named and shown, never dropped.
export function unknown(what, value) {
  const pre = make("pre", "", JSON.stringify(value, null, 1));
  return make("details", "unknown", make("summary", "", `${what} “${value?.type ?? typeof value}” is not drawn here`), pre);
}

// drawList draws items in order. An unchanged item keeps its element, and with it focus and place. The log follows new
// items as long as its reader has not scrolled away.
export function drawList(log, items, drawItem, empty) {
  const end = () => log.scrollHeight - log.clientHeight;
  const following = end() - log.scrollTop < 60 || Math.abs(log.scrollTop - (log.left ?? 0)) < 4;
  log.drawn ??= new Map();
  const first = log.drawn.size === 0;
  const keep = new Set(items.map((i) => i.key));
  for (const [key, old] of log.drawn) {
    if (!keep.has(key)) { old.element.remove(); log.drawn.delete(key); }
  }
  let grown = null;
  let after = null;
  for (const item of items) {
    const json = JSON.stringify(item);
    let entry = log.drawn.get(item.key);
    if (!entry || entry.json !== json) {
      const element = drawItem(item);
      if (entry) {
        const focused = entry.element.contains(document.activeElement) ? document.activeElement : null;
        const place = focused && [...entry.element.querySelectorAll("button, [tabindex]")].indexOf(focused);
        const name = focused?.textContent;
        entry.element.replaceWith(element);
        if (focused) {
          const same = [...element.querySelectorAll("button, [tabindex]")][place];
          if (same && same.textContent === name) same.focus({ preventScroll: true });
          else { element.tabIndex = -1; element.focus({ preventScroll: true }); }
        }
      } else {
        grown ??= element;
        if (after) after.after(element); else log.prepend(element);
      }
      entry = { json, element };
      log.drawn.set(item.key, entry);
    }
    after = entry.element;
  }
  log.querySelector(":scope > .empty")?.remove();
  if (items.length === 0 && empty) log.append(make("p", "empty", ...[empty].flat()));
  if (!grown) return;
  const newer = log.parentElement.querySelector(":scope > .newer");
  if (!following && !first) {
    if (newer) newer.hidden = false;
    return;
  }
  scrollTo(log, first ? after : grown);
}

// settle shows the newest entry of a log from its top, as when it is opened.
export function settle(log) {
  if (log.lastElementChild) scrollTo(log, log.lastElementChild);
}

// scrollTo shows an entry of a log. Its top matters more than its end: there a card says what it is about.
function scrollTo(log, entry) {
  const end = log.scrollHeight - log.clientHeight;
  const said = entry.querySelector(":scope > article") ?? entry; // without the heading of the day
  log.scrollTop = Math.max(Math.min(end, said.offsetTop - 6), 0);
  log.left = log.scrollTop;
  const newer = log.parentElement.querySelector(":scope > .newer");
  if (newer) newer.hidden = end - log.scrollTop < 60;
}

export function forget(log) {
  log.replaceChildren();
  log.drawn = new Map();
  log.left = 0;
  log.scrollTop = 0;
  const newer = log.parentElement.querySelector(":scope > .newer");
  if (newer) newer.hidden = true;
}

// tabKeys moves between the tabs of a tablist with the arrow keys, Home and End.
export function tabKeys(list, open) {
  list.addEventListener("keydown", (event) => {
    const tabs = [...list.querySelectorAll("[role=tab]")].filter((t) => !t.hidden);
    const at = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length];
    open(next);
    next.focus();
  });
}

// hold opens a modal dialog and, when it is closed, gives the focus back to where it was, or to fallback when that is gone.
export function hold(dialog, fallback) {
  if (dialog.open) return;
  const opener = document.activeElement;
  dialog.showModal();
  const closed = () => {
    if (dialog.open) return; // opened anew before this event of the last time came
    dialog.removeEventListener("close", closed);
    const back = opener && opener !== document.body && opener.isConnected ? opener : fallback;
    back?.focus({ preventScroll: true });
  };
  dialog.addEventListener("close", closed);
}
