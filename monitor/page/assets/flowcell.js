// The flow cell map: every channel in its place, coloured and shaped by its state.

import { byId, colour, Drawing, element, keyed, setAttribute, setText } from "./dom.js";
import { fold, layout } from "./flowcell-layout.js";
import { count, percent, whole } from "./format.js";

// The order is that of the legend: what earns comes first. `mark` is drawn where cells
// are large enough, so that states differ in shape as well as in colour.
const kinds = [
  { name: "strand", variable: "--ch-strand", mark: "full", means: "a strand is in the pore" },
  { name: "adapter", variable: "--ch-adapter", mark: "half", means: "an adapter is in the pore" },
  { name: "pore", variable: "--ch-pore", mark: "ring", means: "open and waiting" },
  { name: "unblocking", variable: "--ch-unblocking", mark: "cross", means: "a strand is being ejected" },
  { name: "multiple", variable: "--ch-multiple", mark: "two", means: "more than one pore" },
  { name: "saturated", variable: "--ch-saturated", mark: "diamond", means: "too much current" },
  { name: "unavailable", variable: "--ch-unavailable", mark: "bar", means: "blocked for now" },
  { name: "zero", variable: "--ch-zero", mark: "nought", means: "no current" },
  { name: "no pore", variable: "--ch-nopore", mark: "frame", means: "nothing to sequence with" },
  { name: "inactive", variable: "--ch-inactive", mark: "dot", means: "nothing from this channel" },
  { name: "unknown", variable: "--ch-unknown", mark: "post", means: "state not known" },
];
const unknown = kinds[kinds.length - 1];
const byName = new Map(kinds.map((k) => [k.name, k]));

// Whose word the states are.
const origins = {
  sequencer: "States as the sequencer reports them.",
  signal: "States as they follow from the signal that came: strand, pore, unblocking or inactive.",
};

const gap = 10; // between bands, in CSS pixels

export class FlowCellView {
  #cells = [];
  #shown = null;
  #places = null;
  #shape = "";
  #highlit = null; // name of a state
  #cursor = -1; // channel index
  #drawing;
  #geometry = null;
  #swatches = [];

  constructor() {
    this.canvas = byId("flowcell-canvas");
    this.frame = byId("flowcell-frame");
    this.picker = byId("flowcell-picker");
    this.readout = byId("flowcell-readout");
    this.#drawing = new Drawing(this.canvas, (context, width, height) => this.#draw(context, width, height));
    this.picker.addEventListener("change", () => this.#show(this.picker.value));
    this.canvas.addEventListener("pointermove", (e) => this.#point(this.#at(e.offsetX, e.offsetY)));
    this.canvas.addEventListener("pointerleave", () => this.#point(-1));
    this.frame.addEventListener("keydown", (e) => this.#key(e));
    this.frame.addEventListener("blur", () => this.#point(-1));
  }

  update(flowCells) {
    this.#cells = flowCells;
    byId("flowcell-empty").hidden = flowCells.length > 0;
    byId("flowcell-body").hidden = flowCells.length === 0;
    byId("flowcell-pick").hidden = flowCells.length < 2;
    keyed(this.picker, flowCells, (c) => c.id, () => element("option"), (option, c) => {
      setAttribute(option, "value", c.id);
      setText(option, title(c));
    });
    const wanted = this.#shown?.id ?? this.picker.value;
    this.#show(flowCells.some((c) => c.id === wanted) ? wanted : flowCells[0]?.id);
  }

  redraw() {
    this.#drawing.request();
    for (const swatch of this.#swatches) swatch.request();
  }

  focus() {
    this.frame.focus();
    this.frame.scrollIntoView({ block: "center" });
  }

  #show(id) {
    this.#shown = this.#cells.find((c) => c.id === id) ?? null;
    const c = this.#shown;
    if (!c) return;
    this.picker.value = c.id;
    const shape = `${c.layout}/${c.columns}/${c.rows}/${c.count}`;
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#places = layout(c.layout, c.columns, c.rows, c.count);
      this.canvas.style.setProperty("aspect-ratio", String(shapeOf(this.#places)));
      this.#cursor = -1;
    }
    this.#legend();
    this.#drawing.request();
    if (this.#cursor >= 0) this.#tell();
  }

  #kind(channel) {
    const c = this.#shown;
    return byName.get(c.legend?.[c.states[channel]]) ?? unknown;
  }

  #legend() {
    const c = this.#shown;
    const counts = new Map();
    for (let i = 0; i < c.count; i++) {
      const kind = this.#kind(i);
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
    const busy = (counts.get(byName.get("strand")) ?? 0) + (counts.get(byName.get("adapter")) ?? 0);
    const able = busy + (counts.get(byName.get("pore")) ?? 0);
    setText(byId("flowcell-title"), title(c));
    setText(byId("flowcell-sum"), able > 0 ? `${whole(busy)} of ${whole(able)} usable pores are sequencing (${percent(busy / able)})` : "No channel is sequencing");
    setText(byId("flowcell-origin"), origins[c.origin] ?? "");
    const listed = kinds.filter((k) => counts.has(k));
    keyed(byId("flowcell-legend"), listed, (k) => k.name, (k) => this.#entry(k), (item, k) => {
      const n = counts.get(k);
      setText(item.querySelector(".legend-count"), whole(n));
      setText(item.querySelector(".legend-share"), percent(n / c.count));
      setAttribute(item.firstElementChild, "aria-pressed", String(this.#highlit === k.name));
    });
    setAttribute(
      this.canvas,
      "aria-label",
      `Map of ${count(c.count, "channel")} of ${title(c)}: ${listed.map((k) => `${whole(counts.get(k))} ${k.name}`).join(", ")}.`,
    );
  }

  #entry(kind) {
    const swatch = element("canvas", { class: "swatch", "aria-hidden": "true" });
    this.#swatches.push(new Drawing(swatch, (context, width, height) => mark(context, kind, 0, 0, Math.min(width, height))));
    const button = element(
      "button",
      { type: "button", class: "legend-entry", "aria-pressed": "false", title: `${kind.name}: ${kind.means}. Click to make these channels stand out.` },
      swatch,
      element("span", { class: "legend-name", text: kind.name }),
      element("span", { class: "legend-count" }),
      element("span", { class: "legend-share" }),
    );
    button.addEventListener("click", () => {
      this.#highlit = this.#highlit === kind.name ? null : kind.name;
      this.#legend();
      this.#drawing.request();
    });
    return element("li", {}, button);
  }

  #draw(context, width, height) {
    const c = this.#shown;
    if (!c) return;
    const p = this.#places;
    const { bands, columns, cell } = fold(p.columns, p.rows, width, height, gap);
    const left = (width - cell * columns) / 2;
    const top = (height - (cell * p.rows * bands + gap * (bands - 1))) / 2;
    this.#geometry = { bands, columns, cell, left, top };
    // One colour after the other: setting a colour costs more than filling a cell.
    const groups = new Map();
    for (let i = 0; i < c.count; i++) {
      const kind = this.#kind(i);
      const group = groups.get(kind);
      if (group) group.push(i);
      else groups.set(kind, [i]);
    }
    for (const [kind, channels] of groups) {
      context.globalAlpha = this.#highlit && this.#highlit !== kind.name ? 0.18 : 1;
      for (const i of channels) {
        const [x, y] = this.#corner(i);
        mark(context, kind, x, y, cell);
      }
    }
    context.globalAlpha = 1;
    if (this.#cursor >= 0) {
      const [x, y] = this.#corner(this.#cursor);
      context.strokeStyle = colour("--text");
      context.lineWidth = 2;
      context.strokeRect(x - 1, y - 1, cell + 2, cell + 2);
    }
  }

  #corner(channel) {
    const { columns, cell, left, top } = this.#geometry;
    const p = this.#places;
    const band = Math.floor(p.x[channel] / columns);
    return [left + (p.x[channel] % columns) * cell, top + band * (p.rows * cell + gap) + p.y[channel] * cell];
  }

  #at(x, y) {
    if (!this.#geometry || !this.#shown) return -1;
    const { cell } = this.#geometry;
    for (let i = 0; i < this.#shown.count; i++) {
      const [left, top] = this.#corner(i);
      if (x >= left && x < left + cell && y >= top && y < top + cell) return i;
    }
    return -1;
  }

  #point(channel) {
    if (channel === this.#cursor) return;
    this.#cursor = channel;
    this.#tell();
    this.#drawing.request();
  }

  #tell() {
    if (this.#cursor < 0 || !this.#shown) {
      setText(this.readout, "");
      return;
    }
    const kind = this.#kind(this.#cursor);
    setText(this.readout, `Channel ${this.#cursor + 1}: ${kind.name}, ${kind.means}`);
  }

  #key(e) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (!step || !this.#shown || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    if (this.#cursor < 0) {
      this.#point(0);
      return;
    }
    const p = this.#places;
    const [x, y] = [p.x[this.#cursor] + step[0], p.y[this.#cursor] + step[1]];
    if (x < 0 || y < 0 || x >= p.columns || y >= p.rows) return;
    for (let i = 0; i < this.#shown.count; i++) {
      if (p.x[i] === x && p.y[i] === y) {
        this.#point(i);
        return;
      }
    }
  }
}

/** Width over height of the picture; what is wide is folded (see fold). */
function shapeOf({ columns, rows }) {
  return columns >= 60 ? 1.3 : Math.min(2.6, Math.max(1.2, columns / rows));
}

function title(c) {
  return [c.position || c.source, c.flow_cell].filter(Boolean).join(" · ") || c.id;
}

/** Draws one channel into the square at x, y. */
function mark(context, kind, x, y, size) {
  const space = size >= 14 ? 2 : size >= 6 ? 1 : size >= 3 ? 0.5 : 0;
  const side = size - space;
  const left = x + space / 2;
  const top = y + space / 2;
  context.fillStyle = colour(kind.variable);
  if (size < 9) {
    context.fillRect(left, top, side, side);
    return;
  }
  const radius = Math.min(4, side / 5);
  const middle = [left + side / 2, top + side / 2];
  const box = (l, t, w, h) => {
    context.beginPath();
    context.roundRect(l, t, w, h, radius);
    context.fill();
  };
  const line = Math.max(1.5, side / 6);
  switch (kind.mark) {
    case "full":
      box(left, top, side, side);
      break;
    case "half": {
      box(left, top, side, side);
      context.fillStyle = colour("--ch-hole");
      context.beginPath();
      context.arc(...middle, side / 5.5, 0, 2 * Math.PI);
      context.fill();
      break;
    }
    case "ring":
      context.strokeStyle = context.fillStyle;
      context.lineWidth = line;
      context.beginPath();
      context.arc(...middle, side / 2 - line / 2 - 0.5, 0, 2 * Math.PI);
      context.stroke();
      break;
    case "cross":
      context.strokeStyle = context.fillStyle;
      context.lineWidth = line * 1.2;
      context.beginPath();
      context.moveTo(left + line, top + line);
      context.lineTo(left + side - line, top + side - line);
      context.moveTo(left + side - line, top + line);
      context.lineTo(left + line, top + side - line);
      context.stroke();
      break;
    case "two":
      box(left, top, side * 0.42, side);
      box(left + side * 0.58, top, side * 0.42, side);
      break;
    case "diamond":
      context.beginPath();
      context.moveTo(middle[0], top);
      context.lineTo(left + side, middle[1]);
      context.lineTo(middle[0], top + side);
      context.lineTo(left, middle[1]);
      context.fill();
      break;
    case "bar":
      box(left, top + side * 0.32, side, side * 0.36);
      break;
    case "post":
      box(left + side * 0.36, top + side * 0.1, side * 0.28, side * 0.8);
      break;
    case "frame":
      context.strokeStyle = context.fillStyle;
      context.lineWidth = Math.max(1, line * 0.6);
      context.strokeRect(left + side * 0.15, top + side * 0.15, side * 0.7, side * 0.7);
      break;
    case "nought":
      context.strokeStyle = context.fillStyle;
      context.lineWidth = Math.max(1, line * 0.6);
      context.beginPath();
      context.ellipse(...middle, side / 5, side / 3, 0, 0, 2 * Math.PI);
      context.stroke();
      break;
    default:
      context.beginPath();
      context.arc(...middle, side / 5, 0, 2 * Math.PI);
      context.fill();
  }
}
