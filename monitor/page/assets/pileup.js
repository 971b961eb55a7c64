// The picture of the reads around a variant. What it shows is counted in pileup-counts.js.

import { byId, colour, element, keyed, setAttribute, setText } from "./dom.js";
import { count, whole } from "./format.js";
import { shown } from "./pileup-counts.js";

const rowHeight = 14;
const headHeight = 40;

export class PileupView {
  #canvas = byId("pileup-canvas");
  #frame = byId("pileup-frame");
  #pileup = null;
  #row = null;

  constructor() {
    new ResizeObserver(() => this.draw()).observe(this.#frame);
  }

  /** Shows the pileup of a variant's row; null with an error in words where there is none. */
  show(pileup, error, row) {
    const first = this.#row?.id !== row.id || this.#pileup === null;
    this.#pileup = pileup;
    this.#row = row;
    byId("pileup-body").hidden = !pileup;
    const message = byId("pileup-message");
    message.hidden = Boolean(pileup);
    if (!pileup) {
      setText(message, error || "There is no picture of the reads.");
      return;
    }
    this.#counts();
    setText(byId("pileup-left"), pileup.left_out > 0 ? `${count(pileup.left_out, "more read")} not drawn` : "");
    this.draw();
    if (first) this.#centre();
  }

  #counts() {
    const groups = shown(this.#pileup, this.#row);
    const body = byId("pileup-counts").tBodies[0];
    keyed(
      body, groups, (g) => g.shows,
      () => element("tr", {}, element("th", { scope: "row" }), element("td", { class: "n" }), element("td", { class: "n" }), element("td", { class: "n" })),
      (tr, g) => {
        setText(tr.children[0], g.label);
        setText(tr.children[1], whole(g.forward));
        setText(tr.children[2], whole(g.reverse));
        setText(tr.children[3], whole(g.forward + g.reverse));
      },
    );
    const p = this.#pileup;
    setAttribute(
      this.#canvas,
      "aria-label",
      `${count(p.rows.length, "read")} over ${p.contig}, ${whole(p.from)} to ${whole(p.from + p.reference.length - 1)}. At ${whole(this.#row.pos)}: ${groups.map((g) => `${whole(g.forward + g.reverse)} ${g.label}`).join(", ")}.`,
    );
  }

  #cell() {
    return Math.max(9, Math.min(16, Math.floor((this.#frame.clientWidth - 2) / this.#pileup.reference.length)));
  }

  #centre() {
    const column = this.#row.pos - this.#pileup.from;
    this.#frame.scrollLeft = (column + 0.5) * this.#cell() - this.#frame.clientWidth / 2;
    this.#frame.scrollTop = 0;
  }

  draw() {
    const p = this.#pileup;
    if (!p || this.#frame.clientWidth === 0) return;
    const cell = this.#cell();
    const width = cell * p.reference.length;
    const height = headHeight + rowHeight * p.rows.length + 6;
    const scale = Math.min(window.devicePixelRatio || 1, 16000 / Math.max(width, height));
    this.#canvas.style.setProperty("width", `${width}px`);
    this.#canvas.style.setProperty("height", `${height}px`);
    this.#canvas.width = Math.round(width * scale);
    this.#canvas.height = Math.round(height * scale);
    const context = this.#canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const mono = getComputedStyle(document.documentElement).getPropertyValue("--mono");
    const letters = (weight) => {
      context.font = `${weight} ${Math.min(12, cell + 2)}px ${mono}`;
      context.textAlign = "center";
      context.textBaseline = "middle";
    };

    // The variant's columns, over all rows.
    const column = this.#row.pos - p.from;
    const wide = Math.max(1, this.#row.ref.length);
    context.fillStyle = colour("--pile-column");
    context.fillRect(column * cell, 0, wide * cell, height);

    context.fillStyle = colour("--muted");
    context.font = `11px ${mono}`;
    context.textBaseline = "top";
    context.textAlign = "center";
    for (let i = 0; i < p.reference.length; i++) {
      if ((p.from + i) % 10 !== 0) continue;
      const text = whole(p.from + i);
      const half = context.measureText(text).width / 2;
      if (i * cell + cell / 2 - half < 0 || i * cell + cell / 2 + half > width) continue;
      context.fillText(text, (i + 0.5) * cell, 3);
      context.fillRect((i + 0.5) * cell - 0.5, 16, 1, 4);
    }
    letters("600");
    for (let i = 0; i < p.reference.length; i++) {
      context.fillStyle = colour(`--base-${base(p.reference[i])}`);
      context.fillText(p.reference[i], (i + 0.5) * cell, 30);
    }
    letters("700");
    p.rows.forEach((read, n) => {
      const top = headHeight + n * rowHeight;
      const middle = top + rowHeight / 2;
      const forward = read.strand === "+";
      context.globalAlpha = read.mapq < 10 ? 0.45 : 1;
      bar(context, read, top, cell, forward);
      for (let i = 0; i < read.bases.length; i++) {
        const letter = read.bases[i];
        if (letter === ".") continue;
        const x = (read.start + i) * cell;
        if (letter === "-") {
          context.fillStyle = colour("--panel");
          context.fillRect(x, top + 1, cell, rowHeight - 2);
          context.fillStyle = colour("--text");
          context.fillRect(x, middle - 0.75, cell, 1.5);
          continue;
        }
        const quality = read.quals ? read.quals.charCodeAt(i) - 33 : 30;
        context.fillStyle = colour(`--base-${base(letter)}`);
        context.save();
        context.globalAlpha *= quality < 10 ? 0.55 : 1;
        context.fillRect(x, top + 1, cell, rowHeight - 2);
        context.restore();
        context.fillStyle = colour("--on-base");
        context.fillText(letter, x + cell / 2, middle + 0.5);
      }
      for (const insertion of read.insertions ?? []) {
        const x = (insertion.column + 1) * cell;
        context.fillStyle = colour("--insertion");
        context.fillRect(x - 1, top + 1, 2, rowHeight - 2);
        context.fillRect(x - 3, top + 1, 6, 1.5);
        context.fillRect(x - 3, top + rowHeight - 2.5, 6, 1.5);
      }
      context.globalAlpha = 1;
    });
    context.strokeStyle = colour("--pile-edge");
    context.lineWidth = 1;
    context.strokeRect(column * cell + 0.5, 21.5, wide * cell - 1, height - 23);
  }
}

// One read, with a point at its end in the direction it was sequenced.
function bar(context, read, top, cell, forward) {
  const left = read.start * cell;
  const right = left + read.bases.length * cell;
  const [high, low] = [top + 1.5, top + rowHeight - 1.5];
  const point = Math.min(5, cell / 2);
  context.fillStyle = colour(forward ? "--forward" : "--reverse");
  context.beginPath();
  if (forward) {
    context.moveTo(left, high);
    context.lineTo(right - point, high);
    context.lineTo(right, (high + low) / 2);
    context.lineTo(right - point, low);
    context.lineTo(left, low);
  } else {
    context.moveTo(right, high);
    context.lineTo(left + point, high);
    context.lineTo(left, (high + low) / 2);
    context.lineTo(left + point, low);
    context.lineTo(right, low);
  }
  context.fill();
}

function base(letter) {
  const known = letter.toLowerCase();
  return "acgt".includes(known) ? known : "n";
}
