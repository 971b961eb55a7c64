// Keys of one letter. They can be turned off, as they get in the way of some who
// speak to their computer.

import { byId } from "./dom.js";

export function keys({ flowCell, depth, methylation, plate, genes, table, nextTheme }) {
  const help = byId("help-dialog");
  const on = byId("keys-on");
  try {
    on.checked = localStorage.getItem("porestream.keys") !== "off";
  } catch {
    // They are on.
  }
  on.addEventListener("change", () => {
    try {
      localStorage.setItem("porestream.keys", on.checked ? "on" : "off");
    } catch {
      // It holds for this page.
    }
  });
  byId("help").addEventListener("click", () => help.showModal());
  byId("help-close").addEventListener("click", () => help.close());
  help.addEventListener("click", (e) => {
    if (e.target === help) help.close();
  });

  const go = (id) => {
    byId(id).focus({ preventScroll: true });
    byId(id).scrollIntoView({ block: "start" });
  };
  const todo = {
    "?": () => help.showModal(),
    f: () => flowCell.focus(),
    d: () => depth.focus(),
    n: () => depth.next(),
    b: () => methylation.focus(),
    v: () => table.focus(),
    "/": () => table.focusFind(),
    w: () => go("watch"),
    m: () => plate.focus(),
    g: () => genes.focus(),
    p: () => go("problems-panel"),
    l: () => go("pipeline"),
    t: nextTheme,
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || !on.checked) return;
    if (document.querySelector("dialog[open]")) return;
    if (e.target.closest("input, select, textarea")) return;
    const act = todo[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  });
}
