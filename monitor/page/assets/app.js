// The page's life: events go into the store, and once a frame the parts that have
// changed are shown again.

import { DepthView } from "./depth.js";
import { DetailView } from "./detail.js";
import { byId, forgetColours, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { FlowCellView } from "./flowcell.js";
import { age, clock, instant, whole } from "./format.js";
import { GenesView } from "./genes.js";
import { HeroView } from "./hero.js";
import { keys } from "./keys.js";
import { MethylationView } from "./methylation.js";
import { showAlerts, showPipeline, showProblems, showProcesses, showRuns } from "./panels.js";
import { PlateView } from "./plate.js";
import { Store } from "./store.js";
import { VariantTable } from "./variants.js";

/** Without a summary for so long (ms) what is shown is old, and says so. */
const old = 6000;

/** At most one announcement of the same kind in so long (ms): a screen reader is not a log. */
const quiet = 10000;

const store = new Store();
const hero = new HeroView();
const flowCell = new FlowCellView();
const detail = new DetailView(store, (row) => depth.goTo(row.sample, row.contig, row.pos));
// Depth and modified bases show the same stretch, whichever of them is moved.
const depth = new DepthView(store, (id) => detail.open(id), (...stretch) => methylation.follow(...stretch));
const methylation = new MethylationView(store, (...stretch) => depth.follow(...stretch));
const plate = new PlateView();
const genes = new GenesView();
const table = new VariantTable(store, (id) => detail.open(id));

let connection = "connecting";
let heard = performance.now(); // when the last summary came
let heardAt = Date.now();
const dirty = new Set(["summary"]);
let asked = false;

function changed(part) {
  if (part) dirty.add(part);
  if (asked) return;
  asked = true;
  requestAnimationFrame(show);
}

function show() {
  asked = false;
  const parts = new Set(dirty);
  dirty.clear();
  if (parts.has("summary") || parts.has("connection")) {
    const health = hero.update(store, connection);
    setText(byId("foot"), foot());
    document.title = `${health.word} – Porestream`;
    announce("health", `${health.word}. ${health.sentence}`, health.state + health.word);
    showRuns(store.summary);
    showPipeline(store.summary);
    showProcesses(store.summary);
    table.tick();
  }
  if (parts.has("summary") || parts.has("problems")) {
    showProblems(store.problems, instant(store.summary?.now) || Date.now(), store.summary !== null);
  }
  if (parts.has("channels")) flowCell.update(store.flowCells);
  if (parts.has("depth")) depth.update();
  if (parts.has("methylation")) methylation.update();
  if (parts.has("variants")) {
    table.update();
    depth.variantsChanged();
    detail.update();
  }
  if (parts.has("alerts")) {
    showAlerts(store.alerts);
    plate.update(store.alerts);
  }
  if (parts.has("diplotypes")) genes.update(store.diplotypes);
}

function foot() {
  const h = store.hello;
  if (!h) return "";
  setText(byId("help-version"), `Porestream ${h.version}`);
  const left = Object.entries(store.summary?.left_out ?? {}).filter(([, n]) => n > 0);
  return [
    `Porestream ${h.version}, served by ${h.instance} since ${clock(h.started)}.`,
    left.length > 0 ? `More than the page holds, and left out: ${left.map(([what, n]) => `${whole(n)} ${what}`).join(", ")}.` : "",
    ...(store.summary?.unreadable ?? []),
  ].filter(Boolean).join(" ");
}

const said = new Map();
function announce(kind, text, sign) {
  const before = said.get(kind) ?? { sign: null, at: -Infinity };
  const now = performance.now();
  if (before.sign === sign || now - before.at < quiet) return;
  said.set(kind, { sign, at: now });
  if (before.sign !== null) setText(byId("announce"), text);
}

const words = {
  connecting: "Connecting",
  live: "Live",
  lost: "No connection",
  full: "Waiting for a place",
  refused: "No access",
};

function connected(state) {
  const before = connection;
  connection = state;
  document.body.dataset.feed = state;
  setText(byId("connection-text"), words[state]);
  if (state === "live") {
    heard = performance.now();
    heardAt = Date.now();
    if (byId("token-dialog").open) byId("token-dialog").close();
    if (before === "lost") setText(byId("announce"), "The connection is back.");
  }
  if (state === "refused" && !byId("token-dialog").open) byId("token-dialog").showModal();
  banner();
  changed("connection");
}

// What stands above all else while the picture is not that of now.
function banner() {
  const node = byId("banner");
  const silent = performance.now() - heard;
  const texts = {
    lost: ["No connection.", store.summary ? `What you see is as of ${clock(heardAt)}. The page tries again by itself.` : "The server does not answer. The page tries again by itself."],
    full: ["Too many pages are open.", "The server takes no more; this one tries again by itself. Close one that nobody uses."],
    refused: ["No access.", "The server does not accept the token any more."],
  };
  let text = texts[connection] ?? null;
  if (!text && store.summary && silent > old) text = ["Nothing new comes.", `The connection stands, but the last news is of ${clock(heardAt)}.`];
  document.body.dataset.old = String(Boolean(text) && store.summary !== null);
  node.hidden = !text;
  if (!text) return;
  setText(byId("banner-title"), text[0]);
  setText(byId("banner-text"), text[1]);
  setText(byId("banner-age"), store.summary ? `(${age(silent / 1000)} ago)` : "");
}

const feed = new Feed({
  url: "/api/events",
  onState: connected,
  onEvent(name, data) {
    const part = store.apply(name, data, performance.now());
    if (part === "summary") {
      heard = performance.now();
      heardAt = Date.now();
      if (document.body.dataset.old === "true") banner();
    }
    if (part === "hello") {
      changed("alerts");
      changed("problems");
    }
    changed(part);
  },
});

const schemes = ["auto", "light", "dark"];
function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}
function showTheme() {
  setText(byId("theme-text"), { auto: "Auto", light: "Light", dark: "Dark" }[theme()]);
  setText(byId("theme-mark"), { auto: "◐", light: "○", dark: "●" }[theme()]);
  forgetColours();
  for (const view of [flowCell, depth, methylation, detail]) view.redraw();
}
function nextTheme() {
  const next = schemes[(schemes.indexOf(theme()) + 1) % schemes.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("porestream.theme", next);
  } catch {
    // It holds for this page then.
  }
  showTheme();
}

byId("theme").addEventListener("click", nextTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
showTheme();
keys({ flowCell, depth, methylation, plate, genes, table, nextTheme });

setInterval(banner, 1000);
for (const [target, event] of [[window, "online"], [document, "visibilitychange"], [window, "focus"]]) {
  target.addEventListener(event, () => feed.retry());
}
detail.start();
feed.run();
