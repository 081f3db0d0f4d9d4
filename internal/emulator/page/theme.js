"use strict";
// Runs before the page is drawn, so that a chosen theme never flashes the other one.
(() => {
  let theme = "auto";
  try { theme = localStorage.getItem("theme") || "auto"; } catch { /* storage is switched off: the system's theme it is */ }
  document.documentElement.dataset.theme = theme;
})();
