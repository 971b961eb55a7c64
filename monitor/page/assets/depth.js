// Depth along a contig: the whole of it, or any stretch, with variants as ticks.

import { ask } from "./api.js";
import { byId, colour, Drawing, element, keyed, setAttribute, setText } from "./dom.js";
import { percent, si, ticks, whole, words } from "./format.js";
import { contigKey } from "./store.js";
import { Stretch } from "./stretch.js";

const margin = { left: 46, right: 12, top: 30, bottom: 24 };

export class DepthView {
  #store;
  #open;
  #viewed;
  #contigs = [];
  #shown = null;
  #zoom = null; // DepthZoom of about what is shown
  #asked = 0;
  #abort = null;
  #drawing;
  #stretch;
  #hover = -1;
  #ticks = []; // variants of the contig, by position
  #ticksOf = "";

  /** `open(id)` shows a variant; `viewed(sample, contig, from, to)` is told of a stretch that somebody chose here. */
  constructor(store, open, viewed) {
    this.#store = store;
    this.#open = open;
    this.#viewed = viewed;
    this.canvas = byId("depth-canvas");
    this.frame = byId("depth-frame");
    this.picker = byId("depth-picker");
    this.readout = byId("depth-readout");
    this.#drawing = new Drawing(this.canvas, (context, width, height) => this.#draw(context, width, height));
    this.picker.addEventListener("change", () => this.#choose(this.picker.value));
    this.#stretch = new Stretch(this, "depth", {
      margin,
      length: () => this.#shown?.length ?? 0,
      changed: (tell) => this.#changed(tell),
      hover: (x) => this.#point(x),
      still: 2,
    });
    for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, (e) => this.#up(e));
    this.canvas.addEventListener("pointerleave", () => this.#point(-1));
    this.canvas.addEventListener("dblclick", (e) => this.#stretch.scale(0.25, this.#stretch.position(e.offsetX)));
  }

  /** Depth has changed. */
  update() {
    this.#contigs = [...this.#store.contigs.values()].sort((a, b) => (a.sample < b.sample ? -1 : a.sample > b.sample ? 1 : a.order - b.order));
    byId("depth-empty").hidden = this.#contigs.length > 0;
    byId("depth-body").hidden = this.#contigs.length === 0;
    byId("depth-pick").hidden = this.#contigs.length === 0;
    const samples = new Set(this.#contigs.map((c) => c.sample)).size;
    keyed(this.picker, this.#contigs, contigKey, () => element("option"), (option, c) => {
      setAttribute(option, "value", contigKey(c));
      setText(option, samples > 1 ? `${c.sample}: ${c.name}` : c.name);
    });
    if (this.#contigs.length === 0) {
      this.#shown = null;
      return;
    }
    const known = this.#shown && this.#store.contigs.get(contigKey(this.#shown));
    if (known) {
      const changed = known !== this.#shown;
      this.#shown = known;
      this.#tell();
      this.#drawing.request();
      if (changed) this.#refine(1000);
    } else {
      // What has most reads is what was meant to be sequenced.
      const deepest = this.#contigs.reduce((best, c) => (c.mean * c.length > best.mean * best.length ? c : best));
      this.#choose(contigKey(deepest));
    }
  }

  variantsChanged() {
    this.#ticksOf = "";
    this.#drawing.request();
  }

  redraw() {
    this.#drawing.request();
  }

  focus() {
    this.frame.focus();
    this.frame.scrollIntoView({ block: "center" });
  }

  /** Shows the next contig. */
  next() {
    if (this.#contigs.length === 0) return;
    const at = this.#contigs.findIndex((c) => this.#shown && contigKey(c) === contigKey(this.#shown));
    this.#choose(contigKey(this.#contigs[(at + 1) % this.#contigs.length]));
    this.focus();
  }

  /** Shows the neighbourhood of a position (1-based). */
  goTo(sample, contig, position) {
    const key = `${sample}\n${contig}`;
    if (!this.#store.contigs.has(key)) return;
    if (!this.#shown || contigKey(this.#shown) !== key) this.#choose(key);
    this.#stretch.view(position - 1 - 250, position - 1 + 250);
    this.focus();
  }

  /** The modified bases show another stretch: here, too, if the contig has depth. */
  follow(sample, contig, from, to) {
    const key = `${sample}\n${contig}`;
    if (!this.#store.contigs.has(key)) return;
    if (!this.#shown || contigKey(this.#shown) !== key) this.#choose(key, false);
    this.#stretch.view(from, to, false);
  }

  #choose(key, tell = true) {
    const c = this.#store.contigs.get(key);
    if (!c) return;
    this.#shown = c;
    this.picker.value = key;
    this.#ticksOf = "";
    this.#stretch.view(0, c.length, tell);
  }

  #changed(tell) {
    this.#tell();
    this.#drawing.request();
    this.#refine(120);
    if (tell) this.#viewed(this.#shown.sample, this.#shown.name, this.#stretch.from, this.#stretch.to);
  }

  // Asks for finer bins once the view has stood still for `pause` ms, if the overview is
  // too coarse for it.
  #refine(pause) {
    clearTimeout(this.#asked);
    const c = this.#shown;
    const width = this.#stretch.across;
    const span = this.#stretch.span;
    if (!c || width <= 0) return;
    if (span >= c.length * 0.999 || span / c.bin > width) {
      this.#zoom = null;
      return;
    }
    this.#asked = setTimeout(async () => {
      this.#abort?.abort();
      this.#abort = new AbortController();
      // A little more than what is seen, so that panning shows something at once.
      const from = Math.max(0, Math.floor(this.#stretch.from - span / 2));
      const to = Math.min(c.length, Math.ceil(this.#stretch.to + span / 2));
      try {
        const zoom = await ask(
          "/api/depth",
          { sample: c.sample, contig: c.name, from, to, bins: Math.min(4000, Math.ceil(2 * width)) },
          this.#abort.signal,
        );
        if (this.#shown && contigKey(this.#shown) === contigKey(c)) this.#zoom = zoom;
        this.#drawing.request();
      } catch {
        // The overview stays; the next change asks again.
      }
    }, pause);
  }

  #bins() {
    const z = this.#zoom;
    const c = this.#shown;
    if (z && z.contig === c.name && z.sample === c.sample && z.from <= this.#stretch.from + z.bin && z.to >= this.#stretch.to - z.bin && z.bin < c.bin) return z;
    return c;
  }

  #variants() {
    const c = this.#shown;
    const key = `${contigKey(c)}/${this.#store.variantsChanged}`;
    if (this.#ticksOf !== key) {
      this.#ticksOf = key;
      this.#ticks = [];
      for (const v of this.#store.variants.values()) {
        if (v.sample === c.sample && v.contig === c.name && v.status !== "RETRACTED" && v.filter === "PASS") this.#ticks.push(v);
      }
      this.#ticks.sort((a, b) => a.pos - b.pos);
    }
    return this.#ticks;
  }

  #draw(context, width, height) {
    const c = this.#shown;
    if (!c) return;
    const across = width - margin.left - margin.right;
    const down = height - margin.top - margin.bottom;
    const span = this.#stretch.span;
    const x = (position) => margin.left + ((position - this.#stretch.from) / span) * across;
    const { from, bin, depths } = coarser(this.#bins(), (1.5 * span) / across);
    const first = Math.max(0, Math.floor((this.#stretch.from - from) / bin));
    const last = Math.min(depths.length, Math.ceil((this.#stretch.to - from) / bin));
    let most = 0;
    for (let i = first; i < last; i++) most = Math.max(most, depths[i]);
    const top = niceTop(Math.max(most, c.mean, 1));
    const y = (depth) => margin.top + down * (1 - depth / top);

    context.font = `12px ${getComputedStyle(this.canvas).fontFamily}`;
    context.fillStyle = colour("--muted");
    context.strokeStyle = colour("--grid");
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const t of ticks(0, top, Math.max(2, down / 45))) {
      context.beginPath();
      context.moveTo(margin.left, Math.round(y(t)) + 0.5);
      context.lineTo(width - margin.right, Math.round(y(t)) + 0.5);
      context.stroke();
      context.fillText(`${si(t)}×`, margin.left - 7, y(t));
    }
    context.textBaseline = "top";
    context.textAlign = "center";
    for (const position of ticks(this.#stretch.from, this.#stretch.to, across / 110)) {
      const tick = this.#stretch.tick(position);
      const half = context.measureText(tick.text).width / 2;
      const at = x(tick.at);
      if (at - half < margin.left - 14 || at + half > width) continue;
      context.fillText(tick.text, at, height - margin.bottom + 7);
      context.beginPath();
      context.moveTo(at, height - margin.bottom);
      context.lineTo(at, height - margin.bottom + 4);
      context.stroke();
    }

    context.save();
    context.beginPath();
    context.rect(margin.left, 0, across, height);
    context.clip();
    // Steps where a bin is wide, a line between their middles where it is narrow.
    const wide = (bin / span) * across > 3;
    const line = new Path2D();
    for (let i = first; i < last; i++) {
      const left = x(from + i * bin);
      const right = x(Math.min(from + (i + 1) * bin, c.length));
      if (wide) {
        if (i === first) line.moveTo(left, y(depths[i]));
        else line.lineTo(left, y(depths[i]));
        line.lineTo(right, y(depths[i]));
      } else if (i === first) {
        line.moveTo((left + right) / 2, y(depths[i]));
      } else {
        line.lineTo((left + right) / 2, y(depths[i]));
      }
    }
    if (last > first) {
      const area = new Path2D(line);
      area.lineTo(x(Math.min(from + (wide ? last : last - 0.5) * bin, c.length)), y(0));
      area.lineTo(x(from + (wide ? first : first + 0.5) * bin), y(0));
      context.fillStyle = colour("--depth-fill");
      context.fill(area);
      context.strokeStyle = colour("--depth");
      context.lineWidth = 1.6;
      context.lineJoin = "round";
      context.stroke(line);
    }
    context.setLineDash([5, 4]);
    context.lineWidth = 1;
    context.strokeStyle = colour("--text");
    context.globalAlpha = 0.55;
    context.beginPath();
    context.moveTo(margin.left, Math.round(y(c.mean)) + 0.5);
    context.lineTo(width - margin.right, Math.round(y(c.mean)) + 0.5);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;

    // The severe ones last, so that nothing hides them; heads only where there is room.
    const seen = this.#variants().filter((v) => v.pos - 1 >= this.#stretch.from && v.pos - 1 <= this.#stretch.to);
    const heads = seen.length < across / 9;
    for (const impact of ["MODIFIER", "LOW", "MODERATE", "HIGH"]) {
      context.fillStyle = colour(impactVariable(impact));
      for (const v of seen) {
        if ((v.impact || "MODIFIER") !== impact) continue;
        const at = x(v.pos - 0.5);
        if (!heads) {
          const tall = impact === "HIGH" ? 20 : impact === "MODERATE" ? 15 : 9;
          context.fillRect(at - 0.5, margin.top - 2 - tall, 1, tall);
          continue;
        }
        const severe = impact === "HIGH" || impact === "MODERATE";
        context.fillRect(at - 0.75, margin.top - 12, 1.5, severe ? 18 : 14);
        context.beginPath();
        if (impact === "HIGH") {
          context.moveTo(at, margin.top - 22);
          context.lineTo(at + 5.5, margin.top - 12);
          context.lineTo(at - 5.5, margin.top - 12);
        } else {
          context.arc(at, margin.top - 15, severe ? 4.2 : 3, 0, 2 * Math.PI);
        }
        context.fill();
      }
    }
    if (this.#hover >= 0) {
      context.strokeStyle = colour("--text");
      context.globalAlpha = 0.6;
      context.beginPath();
      context.moveTo(Math.round(x(this.#hover)) + 0.5, margin.top);
      context.lineTo(Math.round(x(this.#hover)) + 0.5, height - margin.bottom);
      context.stroke();
      context.globalAlpha = 1;
    }
    context.restore();
    context.strokeStyle = colour("--line");
    context.beginPath();
    context.moveTo(margin.left, height - margin.bottom + 0.5);
    context.lineTo(width - margin.right, height - margin.bottom + 0.5);
    context.stroke();
  }

  #tell() {
    const c = this.#shown;
    if (!c) return;
    setText(byId("depth-sum"), `mean ${c.mean.toFixed(1)}×, ${percent(c.covered)} covered`);
    setText(byId("depth-range"), this.#stretch.words());
    const n = this.#variants().filter((v) => v.pos > this.#stretch.from && v.pos <= this.#stretch.to).length;
    setAttribute(
      this.canvas,
      "aria-label",
      `Depth along ${c.name} of sample ${c.sample}, bases ${whole(this.#stretch.from + 1)} to ${whole(this.#stretch.to)} of ${whole(c.length)}: mean ${c.mean.toFixed(1)} reads, ${percent(c.covered)} covered, ${whole(n)} variants.`,
    );
  }

  #point(x) {
    const c = this.#shown;
    if (!c || x < margin.left || x > this.canvas.clientWidth - margin.right) {
      if (this.#hover >= 0) this.#drawing.request();
      this.#hover = -1;
      setText(this.readout, "");
      return;
    }
    this.#hover = this.#stretch.position(x);
    const { from, bin, depths } = this.#bins();
    const depth = depths[Math.floor((this.#hover - from) / bin)];
    const v = this.#near(x);
    const what = v ? ` · ${v.ref.slice(0, 12)}>${v.alt.slice(0, 12)} ${[v.gene, words(v.consequence)].filter(Boolean).join(" ")}` : "";
    setText(this.readout, `${c.name}:${whole(this.#hover + 1)} · ${depth === undefined ? "–" : depth.toFixed(depth < 10 ? 1 : 0)}×${bin > 1 ? ` over ${si(bin)}b` : ""}${what}`);
    this.#drawing.request();
  }

  // The variant whose tick is under the pointer.
  #near(x) {
    const reach = (7 / this.#stretch.across) * this.#stretch.span;
    const at = this.#stretch.position(x);
    let best = null;
    for (const v of this.#variants()) {
      const distance = Math.abs(v.pos - 0.5 - at);
      if (distance <= reach && (!best || distance < Math.abs(best.pos - 0.5 - at))) best = v;
    }
    return best;
  }

  #up(e) {
    if (this.#stretch.dragged || e.type !== "pointerup") return;
    const v = this.#near(e.offsetX);
    if (v && e.offsetY < margin.top + 10) this.#open(v.id);
  }
}

/** Bins of at least `least` bases, as means of those there are: more can't be seen. */
function coarser({ from, bin, depths }, least) {
  const together = Math.ceil(least / bin);
  if (together <= 1) return { from, bin, depths };
  const out = [];
  for (let i = 0; i < depths.length; i += together) {
    let sum = 0;
    const end = Math.min(depths.length, i + together);
    for (let k = i; k < end; k++) sum += depths[k];
    out.push(sum / (end - i));
  }
  return { from, bin: bin * together, depths: out };
}

/** The CSS variable of an impact's colour. */
export function impactVariable(impact) {
  return { HIGH: "--impact-high", MODERATE: "--impact-moderate", LOW: "--impact-low" }[impact] ?? "--impact-modifier";
}

/** The end of an axis that has room for `most` and ends on a round number. */
function niceTop(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((m) => m * power).find((t) => t >= most * 1.04) ?? most * 1.2;
}
