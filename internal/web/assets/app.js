// What pages do beside what they are: a page that is live is fetched anew when something has changed, or says so where it
// is quiet, deadlines count down, and the inbox has keys. Without this script everything can still be read and decided.
"use strict";

const $ = (id) => document.getElementById(id);
const all = (selector) => [...document.querySelectorAll(selector)];

// At an address of this machine the cookie goes to every port, and so decides nothing. What does is a key, which the
// answer to signing in brings behind a #, and which is kept where only our own origin reads it: port and all.
const keyKept = "countersign-key", keyName = document.body.dataset.key || "";
let keyHeld = "";
async function takeKey() {
  const came = /^#key=(\w+\.\w+)$/.exec(location.hash)?.[1] || "";
  if (location.hash.startsWith("#key=")) history.replaceState(history.state, "", location.pathname + location.search);
  if (!keyName) return;
  const name = keyName + ".";
  if (came.startsWith(name) && (!key() || await keyWorks(came.slice(name.length)))) {
    keyHeld = came;
    try { localStorage.setItem(keyKept, came); } catch {} // where nothing is kept, it is for this page
  }
  $("keyless").hidden = key() !== "";
}
// keyWorks asks the gate. Any page can lead here with a key that is none: it takes the place of none that works.
async function keyWorks(text) {
  const body = new URLSearchParams({key: text, viewer: document.querySelector(".who").textContent});
  try { return (await fetch("/signin/key", {method: "POST", body})).ok; } catch { return false; }
}
function key() {
  let kept = keyHeld;
  try { kept = localStorage.getItem(keyKept) || kept; } catch {}
  return kept.startsWith(keyName + ".") ? kept.slice(keyName.length + 1) : "";
}
takeKey();
addEventListener("hashchange", takeKey);
const signedIn = document.querySelector("[data-next]"); // whoever has the key has nothing to sign in for
if (signedIn && key()) keyWorks(key()).then((works) => works && location.replace(signedIn.dataset.next));
addEventListener("submit", (e) => {
  if (!keyName || e.target.method !== "post") return;
  const field = e.target.querySelector("input[name=key]") || e.target.appendChild(Object.assign(document.createElement("input"), {type: "hidden", name: "key"}));
  field.value = key();
}, true);

// Deadlines count down by the gate's clock: this browser's may be wrong.
const ahead = Date.now() - (Date.parse(document.body.dataset.now) || Date.now());
const [within, both, ...units] = (document.body.dataset.units || "").split("|");

// duration is how the server writes one, in one unit or two: internal/locale/time.go has the rules.
function duration(left) {
  const [seconds, minutes, hours, days] = units.map((unit) => (n) => unit.replace("#", n));
  const two = (unit, n, next, rest) => rest ? both.replace("#", unit(n)).replace("@", next(rest)) : unit(n);
  const min = Math.round(left / 60);
  if (left < 60) return seconds(Math.floor(left));
  if (min < 60) return minutes(min);
  if (min < 2880) return two(hours, Math.floor(min / 60), minutes, min % 60);
  const h = Math.round(left / 3600);
  return two(days, Math.floor(h / 24), hours, h % 24);
}

function countDown() {
  for (const e of all("time.countdown")) {
    const left = (Date.parse(e.dateTime) + ahead - Date.now()) / 1000;
    if (Number.isNaN(left) || units.length < 4) continue;
    const text = left <= 0 ? e.dataset.over : within.replace("#", duration(left)).replace("@", e.dataset.when);
    if (text && e.textContent !== text) e.textContent = text;
  }
}

// typedIn says whether somebody has begun something in an element that a new copy would lose, where opened also whether
// they have opened something.
function typedIn(e, opened = true) {
  return [...e.querySelectorAll("textarea, input, select")].some((f) => {
    if (f.type === "hidden") return false;
    if (f.type === "checkbox" || f.type === "radio") return f.checked !== f.defaultChecked;
    if (f.localName === "select") return [...f.options].some((o) => o.selected !== o.defaultSelected) && f.selectedIndex > 0;
    return f.value !== f.defaultValue;
  }) || opened && !!e.querySelector("dialog[open], details[open]") || /^(textarea|select)$/.test(document.activeElement.localName) && e.contains(document.activeElement);
}

// keyOf finds a control again in a new copy of its part of the page.
function keyOf(e) {
  if (!e || e === document.body) return "";
  if (e.id) return "#" + CSS.escape(e.id);
  const card = e.closest("[data-id]");
  if (!card) return "";
  const within = e.localName + (e.name ? `[name="${CSS.escape(e.name)}"]` : "") + [...e.classList].map((c) => "." + CSS.escape(c)).join("");
  return `#${CSS.escape(card.id)} ${within}`;
}

// served is a region as it came: without what this script and whoever looks have made of it.
function served(region) {
  const e = region.cloneNode(true);
  for (const c of e.querySelectorAll("time.countdown")) c.textContent = "";
  for (const c of e.querySelectorAll(".request")) c.className = "card request";
  for (const c of e.querySelectorAll("details")) c.removeAttribute("open");
  for (const c of e.querySelectorAll("[data-moving]")) c.removeAttribute("data-moving");
  return e.innerHTML;
}

// swap puts the new copy of one region in place, and keeps what is focused, open and scrolled to.
function swap(old, fresh) {
  if (served(old) === served(fresh)) return;
  const focus = old.contains(document.activeElement) ? keyOf(document.activeElement) : "";
  const anchor = !(quiet && scrollY < innerHeight / 2) && [...old.querySelectorAll("[data-id]")].find((e) => e.getBoundingClientRect().bottom > 0);
  const top = anchor ? anchor.getBoundingClientRect().top : 0;
  const known = new Set([...old.querySelectorAll("[data-id]")].map((e) => e.dataset.id));
  const open = [...old.querySelectorAll("details[open]")].map(keyOf);
  old.replaceChildren(...document.importNode(fresh, true).childNodes);
  for (const key of open) if (key) document.querySelector(key)?.setAttribute("open", "");
  if (current) mark(document.getElementById(current), false);
  if (focus) document.querySelector(focus)?.focus({preventScroll: true});
  const again = anchor && document.getElementById(anchor.id);
  if (again) scrollBy(0, again.getBoundingClientRect().top - top);
  tellOf([...old.querySelectorAll("[data-id]")].filter((e) => !known.has(e.dataset.id)));
}

// tellOf marks what is new, and says so to those who see nothing.
function tellOf(news) {
  for (const e of news) e.classList.add("fresh");
  if (news.length && $("news")) $("news").textContent = $("news").dataset.text + " " + news.slice(0, 3).map((e) => e.querySelector("h4")?.innerText).join(", ");
}

// join puts a new copy of the inbox's list in place and moves nothing that need not be: a card that is as it was stays,
// and what has come since joins at the end under a heading of its own, not where somebody is about to press.
function join(old, fresh) {
  const cards = (e) => [...e.querySelectorAll(".request")];
  const was = cards(old), is = new Map(cards(fresh).map((e) => [e.id, e]));
  if (!was.length || !is.size) { swap(old, fresh); return; }
  const stays = was.filter((e) => is.has(e.id) && e.getBoundingClientRect().bottom > 0);
  const anchor = (stays.find((e) => e.id === current) || stays[0])?.id;
  const top = anchor && $(anchor).getBoundingClientRect().top;
  for (const e of was) {
    const now = is.get(e.id);
    if (!now) { drop(e); continue; }
    if (served(e) === served(now)) continue;
    const focus = e.contains(document.activeElement) ? keyOf(document.activeElement) : "";
    e.replaceWith(document.importNode(now, true));
    if (focus) document.querySelector(focus)?.focus({preventScroll: true});
    if (current === now.id) mark($(now.id), false);
  }
  const sections = [...fresh.querySelectorAll("section")].map((now) => [old.querySelector(`section[aria-labelledby="${now.getAttribute("aria-labelledby")}"]`), now]);
  for (const [section, now] of sections) {
    if (section && !section.querySelector(".request")) section.replaceWith(document.importNode(now, true));
    else if (section) more(section, now);
  }
  const known = new Set(cards(old).map((e) => e.id)), news = [...is.values()].filter((e) => !known.has(e.id)).reverse();
  for (const e of news) arrive(old, e);
  if (anchor) scrollBy(0, $(anchor).getBoundingClientRect().top - top);
  tellOf(cards(old).filter((e) => !was.some((w) => w.id === e.id)));
}

// drop takes a card out of the list, and its group with the last of it.
function drop(card) {
  const group = card.closest(".group"), arrived = card.closest("#arrived");
  card.remove();
  if (!group.querySelector(".request")) group.remove();
  if (arrived && !arrived.querySelector(".request")) arrived.remove();
}

// more keeps the link to what follows.
function more(section, now) {
  section.querySelector(".more")?.parentNode.remove();
  const link = now.querySelector(".more");
  if (link) section.append(document.importNode(link.parentNode, true));
}

// arrive puts one new card, with the heading of its group, at the end of the list.
function arrive(list, card) {
  if (!$("arrived")) {
    const section = Object.assign(document.createElement("section"), {id: "arrived", className: "stack"});
    section.setAttribute("aria-labelledby", "s-arrived");
    section.append(Object.assign(document.createElement("h2"), {id: "s-arrived", textContent: list.dataset.arrived}));
    list.append(section);
  }
  const group = document.importNode(card.closest(".group"), true);
  for (const e of group.querySelectorAll(".request")) if (e.id !== card.id) e.remove();
  $("arrived").append(group);
}

// What has moved by itself takes no click for a while, nor does what has only just come (that is in its style): the
// click was meant for what lay under the pointer before. Nor do single keys decide before that.
const settle = 700, marks = new WeakMap();
function moving(form) {
  form.toggleAttribute("data-moving", true);
  clearTimeout(marks.get(form));
  marks.set(form, setTimeout(() => form.removeAttribute("data-moving"), settle));
  stir();
}

// still does something that may move what is on the page, and marks what it has moved.
function still(change) {
  const place = (e) => { const {top, left} = e.getBoundingClientRect(); return [top, left]; };
  const before = all("form[method=post]").map((e) => [e, place(e)]);
  const done = change();
  for (const [e, was] of before) if (e.isConnected && place(e).some((n, i) => Math.abs(n - was[i]) > 1)) moving(e);
  return done;
}
for (const type of ["resize", "toggle"]) addEventListener(type, () => all("form[method=post]").forEach(moving), true);

// put puts the parts of a page that was fetched anew in place. What somebody is typing in is left alone.
// It returns whether that was all of it.
function put(fresh) {
  let whole = true;
  for (const old of all("[data-region]")) {
    const now = fresh.getElementById(old.id);
    if (!now) { if (quiet) old.replaceChildren(); continue; }
    if (quiet) {
      if (!typedIn(old, false)) swap(old, now); else whole = false;
      continue;
    }
    const version = (e) => e.querySelector("input[name=v]")?.value || "";
    if (old.hasAttribute("data-keep")) {
      if (version(old) === version(now) && old.querySelectorAll("form").length === now.querySelectorAll("form").length) continue;
      if (typedIn(old)) { if ($("changed")) $("changed").hidden = false; continue; }
    }
    (old.id === "requests" ? join : swap)(old, now);
  }
  return whole;
}

// A list that moves between a button's press and its release would lose the click: it is moved after. Not every release
// is told (a menu may open), so it is not waited for without end.
let held = null;
const release = () => { held?.resolve(); held = null; };
addEventListener("pointerdown", (e) => {
  if (held || e.button !== 0) return;
  held = Promise.withResolvers();
  setTimeout(release, 10000);
}, true);
for (const end of ["pointerup", "pointercancel", "dragend"]) addEventListener(end, () => setTimeout(release), true);

// refresh fetches the page anew and puts in what has changed. What cannot be fetched is said to be out of date, and
// fetched again.
const every = Number(document.body.dataset.every), answersWithin = 0.75 * every, readWithin = 90000, againAfter = 3000;
let busy = false, again = false, last = 0, timer = 0, retry = 0;
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  last = Date.now();
  let answered = false;
  try {
    const answer = await fetch(here, {headers: {Accept: "text/html", "Countersign-Refresh": "1"}, cache: "no-store", signal: AbortSignal.timeout(quiet ? readWithin : answersWithin)});
    answered = true;
    if (answer.redirected || answer.status === 401) { location.reload(); return; }
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    await held?.promise;
    if (still(() => put(fresh)) && quiet) caughtUp(fresh);
    countDown();
    counted();
    stale("");
  } catch {
    stale(answered ? "old" : "offline");
    clearTimeout(retry);
    retry = setTimeout(soon, againAfter);
  } finally {
    busy = false;
    if (again) { again = false; soon(); }
  }
}

// soon refreshes the page at most once a second, and not while nobody sees it.
function soon() {
  if (timer || document.hidden) return;
  timer = setTimeout(() => { timer = 0; refresh(); }, Math.max(100, last + 1000 - Date.now()));
}

// stale says that the page may be out of date: "offline" where the gate is out of reach, "old" where it answered with
// an error, "" where all is well.
function stale(why) {
  const e = $("stale");
  if (e.dataset.is === why) return;
  e.dataset.is = why;
  still(() => {
    e.textContent = why ? e.dataset[why] : "";
    e.hidden = !why;
  });
}

// tellNews says on a quiet page that there is news, which is shown when somebody asks for it: the parts that are new,
// with the filters, what is typed and where one is left alone.
function tellNews() {
  const e = $("newer");
  if (e.firstChild) return;
  const show = Object.assign(document.createElement("a"), {className: "button", href: here, textContent: e.dataset.show});
  show.addEventListener("click", (click) => { click.preventDefault(); refresh(); });
  e.append(e.dataset.text + " ", show);
}

// caughtUp takes the word back that there is news, and hears of what comes after it.
function caughtUp(fresh) {
  if ($("newer").contains(document.activeElement)) $("main").focus({preventScroll: true});
  $("newer").replaceChildren();
  document.body.dataset.live = fresh.body.dataset.live;
  listen();
}

// check looks for changes where nobody has told of any. A quiet page is told of what it has missed.
function check() { if (!quiet) soon(); }

// listen hears from the gate that something has changed. It speaks every data-every milliseconds at least: a connection
// that has been silent for longer is dead, though nobody has said so.
let hangUp = () => {};
function listen() {
  hangUp();
  const events = new EventSource(document.body.dataset.live), silence = 2.5 * every;
  let heard = Date.now();
  const watch = setInterval(() => { if (Date.now() - heard > silence) { listen(); check(); } }, silence / 5);
  hangUp = () => { events.close(); clearInterval(watch); };
  const hear = (type, then) => events.addEventListener(type, () => { heard = Date.now(); then?.(); });
  hear("open", check); // something may have changed before it
  hear("here");
  hear("changed", quiet ? tellNews : soon);
  hear("ended", () => { hangUp(); location.reload(); });
  hear("error", () => {
    if (events.readyState === EventSource.CLOSED) { hangUp(); setTimeout(listen, 5000); } // else the browser tries again
    check();
  });
}

// The answer to a form comes under another address than the page is got from.
const live = !!document.body.dataset.live, quiet = "quiet" in document.body.dataset, here = new URL(document.body.dataset.here || "", location);
if (live && here.pathname !== location.pathname) history.replaceState(null, "", here);
addEventListener("pagehide", () => hangUp());
addEventListener("pageshow", (e) => { if (live && e.persisted) quiet ? listen() : location.reload(); });
document.addEventListener("visibilitychange", () => {
  if (quiet) document.hidden ? hangUp() : listen(); // nobody hears, and it is told of what it has missed
  else if (live) soon();
});
addEventListener("offline", () => stale("offline"));
addEventListener("online", () => { if (live && !quiet) soon(); else stale(""); });

// What cannot be sent is not: the browser would leave the page, and what was typed with it.
addEventListener("submit", (e) => {
  if ($("stale").dataset.is !== "offline" || e.target.method === "dialog") return;
  e.preventDefault();
  e.stopImmediatePropagation();
  $("stale").textContent = $("stale").dataset.unsent;
  if (live) check();
}, true);

// The inbox's keys.
let current = "";
function mark(card, move = true) {
  for (const e of all(".request.current")) e.classList.remove("current");
  current = card ? card.id : "";
  stir();
  if (!card) return;
  card.classList.add("current");
  if (move) { card.focus({preventScroll: true}); card.scrollIntoView({block: "nearest"}); }
}

function step(by) {
  const cards = all(".request");
  if (!cards.length) return;
  const at = cards.findIndex((e) => e.id === current);
  mark(cards[Math.min(cards.length - 1, Math.max(0, at < 0 ? 0 : at + by))]);
}

function counted() {
  const e = $("picked");
  if (!e) return;
  const n = all("input[name=pick]:checked").length;
  e.textContent = n ? `${e.dataset.text} ${n}` : "";
}

// stir notes that something was pressed or moved: a key decides what has rested under hand since.
let stirred = performance.now();
function stir() { stirred = performance.now(); }

// tell says why a key did nothing, until the next is pressed.
function tell(why) { if ($("told")) $("told").textContent = why ? $("told").dataset[why] : ""; }

// inSight reports whether all of a card is to be seen, and else brings it there and says so.
function inSight(card) {
  const within = (id, side, without) => $(id)?.checkVisibility() ? $(id).getBoundingClientRect()[side] : without;
  const top = Math.max(covered, within("stale", "bottom", 0)), bottom = within("together", "top", innerHeight);
  const at = card.getBoundingClientRect();
  if (at.top >= top - 1 && at.bottom <= Math.min(bottom, innerHeight) + 1) return true;
  tell(at.height > Math.min(bottom, innerHeight) - top ? "long" : "sight");
  card.scrollIntoView({block: "nearest"});
  return false;
}

// decide presses a button of a card that is wholly in sight and has rested there.
function decide(card, button) {
  if (!button || !inSight(card)) return;
  if (performance.now() - stirred >= settle) { button.click(); return; }
  tell("moved");
  card.scrollIntoView({block: "nearest"}); // what is told covers nothing of it
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  x: (card) => { const box = card?.querySelector("input[name=pick]"); if (box && inSight(card)) { box.checked = !box.checked; counted(); } },
  a: (card) => { const button = card?.querySelector("button.approve"); button ? decide(card, button) : card?.querySelector("a.open")?.click(); },
  d: (card) => decide(card, card?.querySelector("button.deny")),
  v: (card) => card?.querySelector("a.open")?.click(),
  "/": () => { const q = $("q"); q.closest("details").open = true; q.focus(); },
  "?": () => $("keys").showModal(),
};

// Whoever speaks to the machine, or hits keys unmeant, switches single keys off; the browser keeps that.
const counting = () => localStorage.getItem("single-keys") !== "off";

let covered = 0; // of the window's top, by what was told when the key was pressed
function press(e) {
  covered = $("told").getBoundingClientRect().bottom;
  tell("");
  const key = e.key > "~" ? e.code.replace("Key", "").toLowerCase() : e.key; // a keyboard of other letters has these too
  if (e.ctrlKey || e.metaKey || e.altKey || e.repeat && !/^[jk]$/.test(key) || document.querySelector("dialog[open]") ||
    e.target.matches("textarea, select, input") || !keys[key] || !counting()) return;
  e.preventDefault();
  keys[key](document.getElementById(current));
}

countDown();
setInterval(countDown, 1000);
if (live && !(quiet && document.hidden)) listen();
if ($("list")) {
  addEventListener("keydown", press);
  for (const type of ["keydown", "pointerdown", "scroll", "resize"]) addEventListener(type, stir, {passive: true}); // after press
  addEventListener("pointerdown", () => tell(""));
  addEventListener("focusin", (e) => { const card = e.target.closest?.(".request"); if (card && card.id !== current) mark(card, false); });
  addEventListener("change", (e) => {
    counted();
    if (e.target.name === "pick" && e.target.checked) e.target.closest(".request").scrollIntoView({block: "nearest"}); // the bar has come over it
  });
  if ($("keys-open")) {
    $("keys-open").hidden = false;
    $("keys-open").addEventListener("click", () => $("keys").showModal());
    $("keys-count").checked = counting();
    $("keys-count").addEventListener("change", (e) => localStorage.setItem("single-keys", e.target.checked ? "on" : "off"));
  }
  counted();
}
