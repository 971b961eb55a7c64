// Samples by markers: what each rule of the panels says of each sample, for plates of barcodes.

import { byId, element, setAttribute, setText } from "./dom.js";
import { clock, count, whole } from "./format.js";
import { bySample, byText, Chosen, focusGrid } from "./grid.js";

const answers = {
  DETECTED: { code: "D", word: "detected", kind: "found" },
  RESISTANT: { code: "R", word: "resistant", kind: "found" },
  CLASSIFIED: { code: "C", word: "a class of the model's", kind: "other" },
  SUSPECTED: { code: "S?", word: "suspected, not settled", kind: "doubt" },
  INTERMEDIATE: { code: "I", word: "intermediate", kind: "doubt" },
  NOT_CALLABLE: { code: "n/c", word: "not callable, which is not negative", kind: "blind" },
  PENDING: { code: "…", word: "no answer yet", kind: "wait" },
  NEGATIVE: { code: "–", word: "negative", kind: "clear" },
  SUSCEPTIBLE: { code: "S", word: "susceptible", kind: "clear" },
};
const rank = { found: 0, other: 1, doubt: 2, blind: 3, wait: 4, clear: 5 };

const answerOf = (state) => answers[state] ?? { code: "?", word: state.toLowerCase(), kind: "other" };

/**
 * Puts alerts into rows of samples and columns of markers. A marker's answer is that about the rule as a
 * whole, else of its alleles' the one that says most. Pure.
 */
export function arrange(alerts) {
  const samples = new Map(); // name → marker key → alert
  const markers = new Map(); // key → { key, panel, rule, title }
  for (const alert of alerts) {
    const key = `${alert.panel}\n${alert.rule}`;
    if (!markers.has(key)) markers.set(key, { key, panel: alert.panel, rule: alert.rule, title: alert.title || alert.rule });
    let row = samples.get(alert.sample);
    if (!row) samples.set(alert.sample, (row = new Map()));
    const known = row.get(key);
    if (!known || better(alert, known)) row.set(key, alert);
  }
  return {
    samples: [...samples.keys()].sort(bySample),
    markers: [...markers.values()].sort((a, b) => byText(a.panel, b.panel) || byText(a.rule, b.rule)),
    at: (sample, marker) => samples.get(sample)?.get(marker) ?? null,
  };
}

function better(alert, known) {
  const whole = !alert.subject;
  if (whole !== !known.subject) return whole;
  const by = rank[answerOf(alert.state).kind] - rank[answerOf(known.state).kind];
  return by < 0 || (by === 0 && byText(alert.id, known.id) < 0);
}

/** How many samples and markers are shown at most. */
const most = { samples: 384, markers: 200 };

export class PlateView {
  #grid = arrange([]);
  #shape = "";
  #cells = []; // of the body, by row and column
  #shown = []; // the answer that each has
  #chosen;

  constructor() {
    this.#chosen = new Chosen(byId("plate-frame"), byId("plate-table"), (row, column) => this.#tell(row, column));
  }

  /** Shows what panels say; a plate of one sample has its list of watch-lists alone. */
  update(alerts) {
    const grid = arrange(alerts.values());
    this.#grid = { ...grid, samples: grid.samples.slice(0, most.samples), markers: grid.markers.slice(0, most.markers) };
    byId("plate").hidden = grid.samples.length < 2;
    if (grid.samples.length < 2) return;
    const left = [grid.samples.length - this.#grid.samples.length, grid.markers.length - this.#grid.markers.length];
    const shape = JSON.stringify([this.#grid.samples, this.#grid.markers.map((m) => m.key)]);
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#build();
    }
    const kinds = {};
    this.#grid.samples.forEach((sample, r) => {
      let gravest = null;
      this.#grid.markers.forEach((marker, c) => {
        const alert = grid.at(sample, marker.key);
        const kind = alert ? answerOf(alert.state).kind : null;
        if (kind && (gravest === null || rank[kind] < rank[gravest])) gravest = kind;
        this.#fill(r, c, alert);
      });
      kinds[gravest] = (kinds[gravest] ?? 0) + 1;
    });
    setText(byId("plate-sum"), [
      `${count(grid.samples.length, "sample")} by ${count(grid.markers.length, "marker")}`,
      kinds.found ? `${whole(kinds.found)} with a finding` : "",
      kinds.blind ? `${whole(kinds.blind)} not callable in part` : "",
      left[0] > 0 || left[1] > 0 ? `${whole(left[0])} samples and ${whole(left[1])} markers are not shown` : "",
    ].filter(Boolean).join(", "));
    this.#chosen.tell();
  }

  focus() {
    focusGrid("plate", "plate-frame");
  }

  #build() {
    const table = byId("plate-table");
    const groups = element("tr", {}, element("td"));
    let last = null;
    for (const marker of this.#grid.markers) {
      if (last?.panel === marker.panel) last.cell.colSpan++;
      else groups.append((last = { panel: marker.panel, cell: element("th", { scope: "colgroup", text: marker.panel }) }).cell);
    }
    const names = element("tr", {}, element("th", { scope: "col", text: "sample" }), ...this.#grid.markers.map((m) => element("th", { scope: "col", title: m.title }, element("span", { text: m.rule }))));
    table.tHead.replaceChildren(groups, names);
    this.#cells = [];
    this.#shown = [];
    table.tBodies[0].replaceChildren(
      ...this.#grid.samples.map((sample, r) => {
        const cells = this.#grid.markers.map(() => element("td"));
        this.#cells.push(cells);
        this.#shown.push([]);
        return element("tr", { "data-row": String(r) }, element("th", { scope: "row", text: sample }), ...cells);
      }),
    );
    this.#chosen.replace(this.#cells);
  }

  #fill(r, c, alert) {
    const state = alert?.state ?? "";
    if (this.#shown[r][c] === state) return;
    this.#shown[r][c] = state;
    const cell = this.#cells[r][c];
    if (!alert) {
      setText(cell, "");
      setAttribute(cell, "data-kind", null);
      return;
    }
    const answer = answerOf(state);
    setText(cell, answer.code);
    setAttribute(cell, "data-kind", answer.kind);
  }

  // Says what the answer that was chosen rests on.
  #tell(r, c) {
    const sample = this.#grid.samples[r];
    const marker = this.#grid.markers[c];
    if (!sample || !marker) return;
    const alert = this.#grid.at(sample, marker.key);
    const said = alert ? `${answerOf(alert.state).word}${alert.evidence ? `: ${alert.evidence}` : ""} (${clock(alert.updated)})` : "not asked";
    setText(byId("plate-readout"), `${sample}, ${marker.panel}, ${marker.title}: ${said}`);
  }
}
