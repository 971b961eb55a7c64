// What can be read from three metres: whether all is well, and the five numbers that say why.

import { byId, setAttribute, setText, svg } from "./dom.js";
import { seconds, si, whole } from "./format.js";

// The server judges; a ratio alone does not tell long reads that have begun from falling behind.
const PACES = { kept: "good", behind: "warning" };

export class HeroView {
  #sparks = new Map();

  /** `connection` is the state of the feed; see feed.js. */
  update(store, connection) {
    const s = store.summary;
    const health = judge(s, connection);
    setAttribute(byId("health"), "data-state", health.state);
    setText(byId("health-word"), health.word);
    setText(byId("health-sentence"), health.sentence);
    if (!s) return health;

    const { rates } = s;
    const keepUp = rates.keep_up;
    setText(byId("keepup"), keepUp === null || keepUp === undefined ? "–" : `${keepUp.toFixed(2)}×`);
    const meter = byId("keepup-meter");
    meter.style.setProperty("--share", String(Math.max(0, Math.min(1, keepUp ?? 0))));
    setAttribute(meter, "data-level", PACES[rates.pace] ?? "none");
    setText(
      byId("keepup-note"),
      keepUp === null || keepUp === undefined ? "nothing is being sequenced" : `${si(rates.sequencer_samples_per_second)} samples/s come in`,
    );

    const { measured, title } = latency(s.latency ?? []);
    setText(byId("latency"), measured ? seconds(measured.p99) : "–");
    setText(byId("latency-note"), measured ? `${title}; median ${seconds(measured.p50)}` : "nothing in the last minute");

    setText(byId("found"), whole(s.totals.passed));
    setText(byId("found-note"), `passed all filters, of ${whole(s.totals.variants)} seen`);

    setText(byId("rate-samples"), si(rates.samples_per_second));
    setText(byId("rate-bases"), si(rates.bases_per_second));
    setText(byId("rate-reads"), si(rates.reads_per_second));
    const h = store.history;
    this.#spark("spark-samples", h.samples, h.sequencer);
    this.#spark("spark-bases", h.bases);
    this.#spark("spark-reads", h.reads);
    return health;
  }

  // A line over its area; `beside`, what should be kept up with, is a dashed line.
  #spark(id, points, beside = []) {
    let parts = this.#sparks.get(id);
    if (!parts) {
      const root = byId(id);
      parts = { root, area: svg("path", { class: "area" }), beside: svg("path", { class: "beside" }), line: svg("path", { class: "line" }) };
      setAttribute(root, "viewBox", "0 0 180 40");
      setAttribute(root, "preserveAspectRatio", "none");
      root.append(parts.area, parts.beside, parts.line);
      this.#sparks.set(id, parts);
    }
    const top = Math.max(1e-9, ...points, ...beside) * 1.06;
    const path = (values) => {
      let out = "";
      values.forEach((v, i) => {
        out += `${i === 0 ? "M" : "L"}${180 - values.length + i + 1} ${(39 - (38 * v) / top).toFixed(1)}`;
      });
      return out;
    };
    const line = path(points);
    setAttribute(parts.line, "d", line);
    setAttribute(parts.area, "d", line ? `${line}L180 40L${181 - points.length} 40Z` : "");
    setAttribute(parts.beside, "d", beside.some((v) => v > 0) ? path(beside) : "");
  }
}

/** The one word and the sentence. Without a connection nobody knows, and that is what it says. */
function judge(summary, connection) {
  switch (connection) {
    case "lost":
      return { state: "error", word: "No connection", sentence: summary ? "The server does not answer. What stands below is what was known last." : "The server does not answer. The page tries again by itself." };
    case "refused":
      return { state: "error", word: "No access", sentence: "The server does not accept the token." };
    case "full":
      return { state: "warning", word: "Too many pages", sentence: "So many pages are open that the server takes no more. This one tries again by itself." };
    default:
  }
  if (!summary) return { state: "waiting", word: "Connecting", sentence: "Asking the server how things are." };
  return summary.health;
}

/** From signal to variants if it was measured, else the last stage that was. */
function latency(all) {
  const measured = all.filter((l) => l.p99 !== null && l.p99 !== undefined);
  const found = measured.find((l) => l.stage === "variants") ?? measured[measured.length - 1] ?? null;
  return { measured: found, title: found?.title ?? "" };
}
