// The theme is chosen before the first paint, so this is a classic script in the
// head and not a module. Without a choice the system's preference holds.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("porestream.theme");
  } catch {
    // Storage can be forbidden; the system's preference holds then.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
