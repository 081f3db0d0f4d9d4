// LINE's messages, drawn by type from the JSON that was sent.
import { make, button, speak, unknown } from "./dom.js";

// Sizes are LINE's own.
const SPACE = { none: "0", xs: "2px", sm: "4px", md: "8px", lg: "12px", xl: "16px", xxl: "20px" };
const FONT = { xxs: "11px", xs: "13px", sm: "14px", md: "16px", lg: "19px", xl: "22px", xxl: "29px", "3xl": "35px", "4xl": "48px", "5xl": "74px" };
const IMAGE = { xxs: "40px", xs: "60px", sm: "80px", md: "100px", lg: "120px", xl: "140px", xxl: "160px", "3xl": "180px", "4xl": "200px", "5xl": "220px", full: "100%" };
const BORDER = { none: "0", light: "0.5px", normal: "1px", medium: "2px", "semi-bold": "3px", bold: "4px" };
const length = (v, words = SPACE) => (v === undefined ? "" : words[v] ?? v);
const SIDE = { top: "flex-start", center: "center", bottom: "flex-end" };

// drawLINE draws one message object; tap(path, action) is called for a tap on the action at that path.
export function drawLINE(message, quoted, tap) {
  switch (message.type) {
    case "flex": {
      const c = message.contents;
      if (c?.type === "carousel") {
        const row = make("div", "carousel", ...c.contents.map((b, i) => bubble(b, ["contents", "contents", i], tap)));
        row.setAttribute("role", "group");
        row.setAttribute("aria-label", `${c.contents.length} cards, side by side`);
        row.tabIndex = 0;
        return row;
      }
      if (c?.type === "bubble") return bubble(c, ["contents"], tap);
      return unknown("The container", c);
    }
    case "template": return template(message.template, tap);
    case "text": case "textV2": {
      const balloon = make("div", "balloon");
      if (quoted) balloon.append(make("span", "quoted", quoted));
      balloon.append(message.text ?? "");
      return speak(balloon, message.text ?? "");
    }
    case "sticker": return make("div", "balloon", "(sticker)");
    case "image": return picture("Image", message.originalContentUrl);
    default: return make("div", "balloon", unknown("A message of type", message));
  }
}

function template(t, tap) {
  if (t.type !== "confirm" && t.type !== "buttons") return make("div", "balloon", unknown("A template of type", t));
  const body = make("div", "fx fx-body vertical");
  if (t.title) body.append(make("b", "", t.title));
  body.append(make("span", "pre", t.text));
  const foot = make("div", t.type === "confirm" ? "fx fx-footer horizontal" : "fx fx-footer vertical");
  t.actions.forEach((a, i) => {
    const b = flexButton({ action: a, style: "link" }, ["template", "actions", i], tap);
    if (t.type === "confirm") b.style.flex = "1";
    foot.append(b);
  });
  return speak(make("div", "bubble", body, foot), t.text);
}

function bubble(b, path, tap) {
  const root = make("div", "bubble " + (b.size || "mega"));
  root.dir = b.direction || "ltr";
  for (const part of ["header", "hero", "body", "footer"]) {
    if (!b[part]) continue;
    const style = b.styles?.[part] ?? {};
    if (style.separator) root.append(separator({ color: style.separatorColor }, "vertical"));
    const e = component(b[part], [...path, part], tap, "vertical");
    e.classList.add("fx-" + part);
    if (style.backgroundColor) e.style.backgroundColor = style.backgroundColor;
    root.append(e);
  }
  speak(root, root.textContent);
  return tappable(root, b.action, [...path, "action"], tap);
}

// tappable makes a part of a card that has an action of its own into a button.
function tappable(e, action, path, tap) {
  if (!action) return e;
  e.classList.add("act");
  e.tabIndex = 0;
  e.setAttribute("role", "button");
  const shown = e.textContent.trim();
  if (action.label && !shown) e.setAttribute("aria-label", action.label);
  else if (action.label && shown !== action.label) e.title = action.label;
  const go = (event) => { event.stopPropagation(); tap(path, action); };
  e.addEventListener("click", go);
  e.addEventListener("keydown", (event) => {
    if (event.target === e && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); go(event); }
  });
  return e;
}

function component(c, path, tap, parent) {
  let e;
  switch (c.type) {
    case "box": e = box(c, path, tap); break;
    case "text": e = text(c); break;
    case "button": e = flexButton(c, [...path, "action"], tap); break;
    case "separator": e = separator(c, parent); break;
    case "filler": e = make("span"); e.style.flex = String(c.flex ?? 1); break;
    case "icon": e = picture("Icon", c.url); e.className = "fx-icon"; e.style.width = e.style.height = length(c.size ?? "md", FONT); break;
    case "image": e = image(c); break;
    default: e = unknown("A component of type", c);
  }
  place(e, c, parent);
  return c.type === "button" ? e : tappable(e, c.action, [...path, "action"], tap);
}

// place lays a component out in its parent: in a row it takes an equal share unless it says otherwise, in a column its own height.
function place(e, c, parent) {
  const s = e.style;
  const row = parent !== "vertical";
  if (c.type !== "separator" && c.type !== "filler") {
    const flex = c.flex ?? (row && c.type !== "icon" && !c.width ? 1 : 0);
    s.flex = flex === 0 ? "0 0 auto" : `${flex} ${flex} 0`;
    if (flex === 0 && row) s.maxWidth = "100%";
  }
  if (c.margin) s[row ? "marginInlineStart" : "marginTop"] = length(c.margin);
  s.position = c.position === "absolute" ? "absolute" : "relative";
  for (const [name, side] of [["offsetTop", "top"], ["offsetBottom", "bottom"], ["offsetStart", "insetInlineStart"], ["offsetEnd", "insetInlineEnd"]]) {
    if (c[name]) s[side] = length(c[name]);
  }
  if (c.gravity && row) s.alignSelf = SIDE[c.gravity];
}

function box(b, path, tap) {
  const e = make("div", "fx " + b.layout);
  const s = e.style;
  b.contents.forEach((c, i) => {
    const child = component(c, [...path, "contents", i], tap, b.layout);
    if (b.spacing && i > 0 && !c.margin) child.style[b.layout === "vertical" ? "marginTop" : "marginInlineStart"] = length(b.spacing);
    e.append(child);
  });
  if (b.backgroundColor) s.backgroundColor = b.backgroundColor;
  if (b.background) {
    const g = b.background;
    s.backgroundImage = `linear-gradient(${[g.angle, g.startColor, g.centerColor && `${g.centerColor} ${g.centerPosition || "50%"}`, g.endColor].filter(Boolean).join(", ")})`;
  }
  if (b.borderWidth || b.borderColor) s.border = `${length(b.borderWidth ?? "normal", BORDER)} solid ${b.borderColor ?? "#000"}`;
  if (b.cornerRadius) { s.borderRadius = length(b.cornerRadius); s.overflow = "hidden"; }
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
  if (t.size) s.fontSize = length(t.size, FONT);
  if (t.color) s.color = t.color;
  if (t.weight) s.fontWeight = t.weight === "bold" ? "700" : "400";
  if (t.style) s.fontStyle = t.style;
  if (t.decoration) s.textDecoration = t.decoration;
}

function text(t) {
  const inner = make("span");
  const e = make("div", "fx-text", inner);
  textStyle(e, { size: "md", ...t });
  e.style.textAlign = t.align || "start";
  if (t.lineSpacing) e.style.lineHeight = `calc(1.35em + ${t.lineSpacing})`;
  if (t.wrap) {
    inner.style.whiteSpace = "pre-wrap";
    if (t.maxLines) Object.assign(inner.style, { display: "-webkit-box", webkitBoxOrient: "vertical", webkitLineClamp: String(t.maxLines), overflow: "hidden" });
  } else {
    Object.assign(e.style, { whiteSpace: "nowrap", overflow: "hidden", textOverflow: "ellipsis" });
  }
  if (!t.contents?.length) {
    inner.textContent = t.text;
    return e;
  }
  for (const span of t.contents) {
    if (span.type !== "span") { inner.append(unknown("A span of type", span)); continue; }
    const part = make("span", "", span.text);
    textStyle(part, span);
    inner.append(part);
  }
  return e;
}

function flexButton(b, path, tap) {
  const style = b.style || "link";
  const e = button(`fx-button ${style} ${b.height || "md"}`, (event) => { event.stopPropagation(); tap(path, b.action); }, make("span", "", b.action.label));
  if (b.color) e.style[style === "link" ? "color" : "backgroundColor"] = b.color;
  return e;
}

function separator(c, parent) {
  const e = make("div", "fx-separator");
  e.style[parent === "vertical" ? "height" : "width"] = "1px";
  if (c.color) e.style.backgroundColor = c.color;
  return e;
}

// picture stands for an image: the page loads nothing from elsewhere.
function picture(what, url) {
  let host = url ?? "";
  try { host = new URL(url).host; } catch { /* shown as it is */ }
  const e = make("div", "fx-image", make("span", "", host));
  e.setAttribute("role", "img");
  e.setAttribute("aria-label", `${what} from ${host}`);
  return e;
}

function image(c) {
  const e = picture("Image", c.url);
  const [wide, high] = (c.aspectRatio ?? "1:1").split(":").map(Number);
  e.style.aspectRatio = `${wide} / ${high}`;
  e.style.width = length(c.size ?? "md", IMAGE);
  e.style.maxWidth = "100%";
  if (c.backgroundColor) e.style.backgroundColor = c.backgroundColor;
  e.style.marginInline = { start: "0 auto", end: "auto 0" }[c.align] ?? "auto";
  return e;
}
