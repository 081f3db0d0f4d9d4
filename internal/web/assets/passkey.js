// Forms with data-passkey are posted with what the browser's authenticator made or signed: its address begins that.
"use strict";
(() => {
  const bytes = (s) => Uint8Array.from(atob(s.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (b) => btoa(String.fromCharCode(...new Uint8Array(b))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const ids = (list) => (list || []).map((c) => ({ ...c, id: bytes(c.id) }));

  const create = async (o) => {
    const made = await navigator.credentials.create({ publicKey: { ...o, challenge: bytes(o.challenge),
      user: { ...o.user, id: bytes(o.user.id) }, excludeCredentials: ids(o.excludeCredentials) } });
    return answer(made, { attestationObject: text(made.response.attestationObject),
      transports: made.response.getTransports ? made.response.getTransports() : [] });
  };
  const get = async (o) => {
    const made = await navigator.credentials.get({ publicKey: { ...o, challenge: bytes(o.challenge),
      allowCredentials: ids(o.allowCredentials) } });
    const r = made.response;
    return answer(made, { authenticatorData: text(r.authenticatorData), signature: text(r.signature),
      userHandle: r.userHandle ? text(r.userHandle) : null });
  };
  const answer = (made, response) => JSON.stringify({ id: made.id, rawId: text(made.rawId), type: made.type,
    clientExtensionResults: {}, response: { clientDataJSON: text(made.response.clientDataJSON), ...response } });

  const begin = async (form, shown) => {
    const fields = new URLSearchParams(new FormData(form));
    if (shown) fields.set("shown", shown);
    const r = await fetch(form.dataset.passkey, { method: "POST", body: fields });
    if (!(r.headers.get("Content-Type") || "").startsWith("application/json")) throw new Error(form.dataset.failed);
    const c = await r.json();
    if (c.error) throw new Error(c.error);
    if (c.first) return begin(form, await get(c.get));
    return c.create ? create(c.create) : get(c.get);
  };

  // A page that is kept current may bring its forms anew, so that the document listens.
  document.addEventListener("submit", async (e) => {
    const form = e.target;
    if (!form.dataset.passkey || e.submitter?.hasAttribute("formaction")) return; // Enter in a field begins nothing
    e.preventDefault();
    const wrong = form.querySelector("[role=alert]");
    const say = (s) => { wrong.textContent = s; wrong.hidden = !s; };
    if (!window.PublicKeyCredential) { say(form.dataset.unsupported); return; }
    if (form.dataset.busy) return;
    form.dataset.busy = "yes";
    say("");
    try {
      form.elements.passkey.value = await begin(form);
      form.submit();
    } catch (err) {
      // What the browser says of itself is in its own words, which name no reason that helps.
      say(err instanceof DOMException ? form.dataset.cancelled : err.message);
    }
    delete form.dataset.busy;
  });
  for (const form of document.querySelectorAll("form[data-passkey]")) form.hidden = false;
})();
