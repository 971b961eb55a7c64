// Modified bases along a contig: the share of modified calls by strand, beside the depth. The server sends which
// there are; the counts of what is in sight are asked for, one question at a time.

import { ask } from "./api.js";
import { byId, colour, Drawing, element, keyed, setAttribute, setText } from "./dom.js";
import { count, percent, si, ticks, whole } from "./format.js";
import { Stretch } from "./stretch.js";

const margin = { left: 46, right: 12, top: 8, bottom: 24 };
const gap = 8; // between the strands, where the line of what is FINAL stands

/** How long (ms) counts may be old while new ones come. */
const settle = 1000;

/** Names of modifications, by their codes in the tag MM. */
const names = { m: "5mC", h: "5hmC", f: "5fC", c: "5caC", g: "5hmU", e: "5fU", b: "5caU", a: "6mA", o: "8-oxoG", n: "Xao", 21839: "4mC", 17802: "pseU" };

/** The name of a modification. */
export function modification(code) {
  return names[code] ?? (/^\d+$/.test(code) ? `ChEBI ${code}` : code);
}

/** The name of a track's contig in its sample. */
export function placeKey(track) {
  return `${track.sample}\n${track.name}`;
}

export class MethylationView {
  #store;
  #moved;
  #tracks = [];
  #shown = null;
  #zoom = null;
  #asked = 0; // timer of the next question
  #due = 0; // when it is due
  #abort = null;
  #failed = false;
  #drawing;
  #stretch;
  #chosen = null; // { bin, strand } of the zoom

  /** `moved(sample, contig, from, to)` is told of a stretch that somebody chose here. */
  constructor(store, moved) {
    this.#store = store;
    this.#moved = moved;
    this.panel = byId("methylation");
    this.canvas = byId("methylation-canvas");
    this.frame = byId("methylation-frame");
    this.picker = byId("methylation-picker");
    this.codes = byId("methylation-code");
    this.by = byId("methylation-by");
    this.haplotypes = byId("methylation-haplotype");
    this.readout = byId("methylation-readout");
    this.#drawing = new Drawing(this.canvas, (context, width, height) => this.#draw(context, width, height));
    new ResizeObserver(() => this.#refine(200)).observe(this.canvas);
    this.picker.addEventListener("change", () => this.#choose(this.picker.value, this.codes.value));
    this.codes.addEventListener("change", () => this.#turn(this.codes.value, haplotypeOf(this.#shown)));
    this.haplotypes.addEventListener("change", () => this.#turn(this.codes.value, Number(this.haplotypes.value)));
    this.#stretch = new Stretch(this, "methylation", {
      margin,
      length: () => this.#shown?.length ?? 0,
      changed: (tell) => this.#changed(tell),
      hover: (x, y) => this.#point(x, y),
      keys: (e) => (e.shiftKey ? { ArrowLeft: () => this.#step(-1), ArrowRight: () => this.#step(1) } : {}),
    });
    this.canvas.addEventListener("pointerleave", () => this.#point(-1, 0));
  }

  /** Tracks have changed. */
  update() {
    this.#tracks = [...this.#store.tracks.values()].sort((a, b) => compare(a.sample, b.sample) || compare(a.name, b.name) || compare(a.code, b.code) || haplotypeOf(a) - haplotypeOf(b));
    this.panel.hidden = this.#tracks.length === 0;
    if (this.#tracks.length === 0) {
      this.#shown = null;
      this.#zoom = null;
      this.#abort?.abort();
      return;
    }
    const places = [...new Map(this.#tracks.map((t) => [placeKey(t), t])).values()];
    const samples = new Set(places.map((t) => t.sample)).size;
    keyed(this.picker, places, placeKey, () => element("option"), (option, t) => {
      setAttribute(option, "value", placeKey(t));
      setText(option, samples > 1 ? `${t.sample}: ${t.name}` : t.name);
    });
    const known = this.#shown && this.#tracks.find((t) => sameTrack(t, this.#shown));
    if (!known) {
      // What is modified most is what was meant to be looked at.
      const most = this.#tracks.reduce((best, t) => (t.modified > best.modified ? t : best));
      this.#choose(placeKey(most), most.code);
      return;
    }
    const before = this.#shown;
    const all = this.#stretch.from <= 0 && this.#stretch.to >= before.length;
    this.#shown = known;
    this.#list();
    if (all) this.#stretch.to = known.length;
    this.#tell();
    if (before !== known) this.#refine(settle);
  }

  redraw() {
    this.#drawing.request();
  }

  focus() {
    if (this.panel.hidden) return;
    this.frame.focus();
    this.frame.scrollIntoView({ block: "center" });
  }

  /** The depth shows another stretch: here, too, if its contig has counts. */
  follow(sample, contig, from, to) {
    const key = `${sample}\n${contig}`;
    if (!this.#shown || !this.#tracks.some((t) => placeKey(t) === key)) return;
    if (placeKey(this.#shown) !== key) this.#choose(key, this.codes.value, false);
    this.#stretch.view(from, to, false);
  }

  #choose(key, code, tell = true) {
    const here = this.#tracks.filter((t) => placeKey(t) === key);
    const haplotype = haplotypeOf(this.#shown);
    const track = here.find((t) => t.code === code && haplotypeOf(t) === haplotype) ?? here.find((t) => t.code === code) ?? here[0];
    if (!track) return;
    this.#shown = track;
    this.#zoom = null;
    this.picker.value = key;
    this.#list();
    this.#stretch.view(0, track.length, tell);
  }

  // Another modification or another haplotype of the same stretch.
  #turn(code, haplotype) {
    const here = this.#tracks.filter((t) => placeKey(t) === placeKey(this.#shown) && t.code === code);
    const track = here.find((t) => haplotypeOf(t) === haplotype) ?? here[0];
    if (!track) return;
    this.#shown = track;
    this.#zoom = null;
    this.#list();
    this.#stretch.view(this.#stretch.from, this.#stretch.to, false);
  }

  #list() {
    const here = this.#tracks.filter((t) => placeKey(t) === placeKey(this.#shown));
    keyed(this.codes, [...new Map(here.map((t) => [t.code, t])).values()], (t) => t.code, () => element("option"), (option, t) => {
      setAttribute(option, "value", t.code);
      setText(option, modification(t.code));
    });
    this.codes.value = this.#shown.code;
    const haplotypes = here.filter((t) => t.code === this.#shown.code).map(haplotypeOf);
    this.by.hidden = haplotypes.length < 2;
    keyed(this.haplotypes, haplotypes, (h) => h, () => element("option"), (option, h) => {
      setAttribute(option, "value", h);
      setText(option, h === 0 ? "All reads" : `Haplotype ${h}`);
    });
    this.haplotypes.value = haplotypeOf(this.#shown);
  }

  #changed(tell) {
    this.#chosen = null;
    setText(this.readout, "");
    this.#tell();
    this.#drawing.request();
    this.#refine(120);
    if (tell) this.#moved(this.#shown.sample, this.#shown.name, this.#stretch.from, this.#stretch.to);
  }

  // Asks for what is in sight in `pause` ms, or when an earlier question is due: revisions that come all the time
  // don't put it off for ever.
  #refine(pause) {
    const now = performance.now();
    if (this.#asked && this.#due <= now + pause) return;
    clearTimeout(this.#asked);
    this.#due = now + pause;
    this.#asked = setTimeout(() => {
      this.#asked = 0;
      this.#load();
    }, pause);
  }

  async #load() {
    const t = this.#shown;
    const across = this.#stretch.across;
    if (!t || across <= 0) return;
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    const span = this.#stretch.span;
    // A little more than what is seen, so that moving shows something at once.
    const from = Math.max(0, Math.floor(this.#stretch.from - span / 4));
    const to = Math.min(t.length, Math.ceil(this.#stretch.to + span / 4));
    const bins = Math.min(4000, Math.max(1, Math.ceil(((to - from) / span) * (across / 2))));
    try {
      const zoom = await ask("/api/methylation", { sample: t.sample, contig: t.name, code: t.code, haplotype: haplotypeOf(t), from, to, bins }, abort.signal);
      if (this.#abort !== abort || !this.#shown || !sameTrack(this.#shown, t)) return;
      const before = this.#zoom;
      this.#zoom = zoom;
      this.#failed = false;
      this.#show(sameBar(this.#chosen, before, zoom));
    } catch (error) {
      if (error.name === "AbortError" || this.#abort !== abort) return;
      this.#failed = true; // what is shown stays; the next change asks again
    }
    this.#tell();
    this.#drawing.request();
  }

  #draw(context, width, height) {
    const t = this.#shown;
    if (!t) return;
    const across = width - margin.left - margin.right;
    const lane = (height - margin.top - margin.bottom - gap) / 2;
    const span = this.#stretch.span;
    const x = (position) => margin.left + ((position - this.#stretch.from) / span) * across;
    const lanes = [
      { base: margin.top + lane, sign: -1, paint: "--methylation-forward", name: "+" },
      { base: margin.top + lane + gap, sign: 1, paint: "--methylation-reverse", name: "−" },
    ];
    context.font = `12px ${getComputedStyle(this.canvas).fontFamily}`;
    context.lineWidth = 1;
    for (const l of lanes) {
      context.fillStyle = colour("--muted");
      context.strokeStyle = colour("--grid");
      context.textAlign = "right";
      context.textBaseline = "middle";
      for (const share of [0.5, 1]) {
        const at = Math.round(l.base + l.sign * share * lane) + 0.5;
        context.beginPath();
        context.moveTo(margin.left, at);
        context.lineTo(width - margin.right, at);
        context.stroke();
        context.fillText(`${100 * share} %`, margin.left - 6, at + (share === 1 ? -5 * l.sign : 0));
      }
      context.textAlign = "left";
      context.fillText(l.name, 4, l.base + l.sign * 0.22 * lane);
    }
    context.fillStyle = colour("--muted");
    context.strokeStyle = colour("--grid");
    context.textBaseline = "top";
    context.textAlign = "center";
    for (const position of ticks(this.#stretch.from, this.#stretch.to, across / 110)) {
      const tick = this.#stretch.tick(position);
      const half = context.measureText(tick.text).width / 2;
      const at = x(tick.at);
      if (at - half < margin.left - 14 || at + half > width) continue;
      context.fillText(tick.text, at, height - margin.bottom + 7);
    }
    const z = this.#zoom;
    if (!z) return;
    context.save();
    context.beginPath();
    context.rect(margin.left, 0, across, height);
    context.clip();
    const [first, last] = this.#inSight(z);
    const most = deepest(z, first, last);
    const wide = Math.max(2, (z.bin / span) * across);
    lanes.forEach((l, strand) => {
      const { modified, valid, sites } = z.strands[strand];
      const depth = new Path2D();
      const bars = new Path2D();
      for (let i = first; i < last; i++) {
        if (valid[i] === 0) continue;
        const left = x(z.from + i * z.bin);
        const deep = (valid[i] / sites[i] / most) * lane;
        const high = Math.max(1.5, (modified[i] / valid[i]) * lane);
        depth.rect(left, l.sign < 0 ? l.base - deep : l.base, wide, deep);
        bars.rect(left, l.sign < 0 ? l.base - high : l.base, Math.max(1.5, wide - 0.5), high);
      }
      context.fillStyle = colour("--methylation-depth");
      context.fill(depth);
      context.fillStyle = colour(l.paint);
      context.fill(bars);
    });
    // Between the strands: a thick line is FINAL, a thin one PROVISIONAL.
    const final = new Path2D();
    const provisional = new Path2D();
    const middle = lanes[0].base + gap / 2;
    for (let i = first; i < last; i++) {
      const left = x(z.from + i * z.bin);
      if (z.states[i] === "f") final.rect(left, middle - 2, wide + 0.5, 4);
      else if (z.states[i] === "p") provisional.rect(left, middle - 1, wide + 0.5, 2);
    }
    context.fillStyle = colour("--text");
    context.fill(final);
    context.fillStyle = colour("--warning");
    context.fill(provisional);
    if (this.#chosen) {
      const at = x(z.from + (this.#chosen.bin + 0.5) * z.bin);
      context.strokeStyle = colour("--text");
      context.beginPath();
      context.moveTo(Math.round(at) + 0.5, margin.top);
      context.lineTo(Math.round(at) + 0.5, height - margin.bottom);
      context.stroke();
    }
    context.restore();
  }

  #inSight(z) {
    return [Math.max(0, Math.floor((this.#stretch.from - z.from) / z.bin)), Math.min(z.states.length, Math.ceil((this.#stretch.to - z.from) / z.bin))];
  }

  #tell() {
    const t = this.#shown;
    if (!t) return;
    const state = t.final === t.stretches ? "FINAL" : t.final === 0 ? "PROVISIONAL" : `PROVISIONAL, ${whole(t.final)} of ${count(t.stretches, "stretch", "stretches")} FINAL`;
    setText(byId("methylation-sum"), `${modification(t.code)}${ofReads(t)}: ${percent(t.modified / t.valid)} of ${si(t.valid)} calls, ${count(t.sites, "site", "sites")}`);
    setText(byId("methylation-state"), state);
    setText(byId("methylation-range"), this.#stretch.words());
    const notes = [];
    const z = this.#zoom;
    if (haplotypeOf(t) > 0) notes.push("Which copy is haplotype 1 holds within a phase set.");
    if (t.coarse > 0) notes.push(`${count(t.coarse, "stretch is", "stretches are")} known by sums only: more sites than the page's server holds.`);
    if (this.#failed) notes.push("The newest counts could not be had; they are asked for again with the next change.");
    if (z) notes.push(`${z.bin === 1 ? "A bar is a site." : `A bar is the mean of ${whole(z.bin)} bases.`} The pale bar is the depth of calls that count, at most ${whole(deepest(z, ...this.#inSight(z)))}.`);
    setText(byId("methylation-note"), notes.join(" "));
    const said = z ? this.#inWords(z) : "";
    setAttribute(this.canvas, "aria-label", `${modification(t.code)}${ofReads(t)} along ${t.name} of sample ${t.sample}, bases ${whole(this.#stretch.from + 1)} to ${whole(this.#stretch.to)} of ${whole(t.length)}, ${state}${said}.`);
  }

  #inWords(z) {
    const [first, last] = this.#inSight(z);
    return z.strands.map(({ modified, valid, sites }, strand) => {
      const sum = (list) => list.slice(first, last).reduce((a, b) => a + b, 0);
      const calls = sum(valid);
      return `: ${["forward", "reverse"][strand]} strand ${calls > 0 ? `${percent(sum(modified) / calls)} of ${whole(calls)} calls at ${count(sum(sites), "site", "sites")}` : "without calls"}`;
    }).join("");
  }

  // What a bar says, in words.
  #choice() {
    const { bin, strand } = this.#chosen;
    const z = this.#zoom;
    const s = z.strands[strand];
    const from = z.from + bin * z.bin;
    const place = z.bin === 1 ? whole(from + 1) : `${whole(from + 1)}–${whole(Math.min(from + z.bin, z.to))}`;
    const depth = s.sites[bin] > 1 ? ` at ${whole(s.sites[bin])} sites, mean depth ${(s.valid[bin] / s.sites[bin]).toFixed(1)}` : "";
    return `${z.contig}:${place}, ${["forward", "reverse"][strand]} strand: ${whole(s.modified[bin])} of ${count(s.valid[bin], "call", "calls")} ${modification(z.code)}${ofReads(z)} (${percent(s.modified[bin] / s.valid[bin])})${depth}, ${z.states[bin] === "f" ? "FINAL" : "PROVISIONAL"}`;
  }

  #show(chosen) {
    this.#chosen = chosen;
    setText(this.readout, chosen ? this.#choice() : "");
    this.#drawing.request();
  }

  // The next bar with calls, of either strand, in the order of places.
  #step(by) {
    const z = this.#zoom;
    if (!z) return;
    const [first, last] = this.#inSight(z);
    let at = this.#chosen ? 2 * this.#chosen.bin + this.#chosen.strand + by : by > 0 ? 2 * first : 2 * last - 1;
    for (; at >= 2 * first && at < 2 * last; at += by) {
      const [bin, strand] = [Math.floor(at / 2), at % 2];
      if (z.strands[strand].valid[bin] > 0) {
        this.#show({ bin, strand });
        return;
      }
    }
  }

  // The bar nearest to the pointer, of the strand in whose half it is.
  #point(x, y) {
    const z = this.#zoom;
    if (!z || x < margin.left || x > this.canvas.clientWidth - margin.right) {
      if (this.#chosen) this.#show(null);
      return;
    }
    const strand = y < margin.top + (this.canvas.clientHeight - margin.top - margin.bottom) / 2 ? 0 : 1;
    const middle = Math.floor((this.#stretch.position(x) - z.from) / z.bin);
    const reach = Math.ceil(((7 / this.#stretch.across) * this.#stretch.span) / z.bin);
    for (let d = 0; d <= reach; d++) {
      for (const bin of [middle - d, middle + d]) {
        if (z.strands[strand].valid[bin] > 0) {
          this.#show({ bin, strand });
          return;
        }
      }
    }
    this.#show(null);
  }
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * The bar of `zoom` that is where the chosen one is of what was shown before, so that who goes from site to site stays where he is when newer counts or those of
 * another stretch come; null if there is none, or if bars are of another width now.
 */
function sameBar(chosen, before, zoom) {
  if (!chosen || before?.bin !== zoom.bin) return null;
  const bin = chosen.bin + (before.from - zoom.from) / zoom.bin;
  return zoom.strands[chosen.strand].valid[bin] > 0 ? { bin, strand: chosen.strand } : null;
}

function sameTrack(a, b) {
  return a.sample === b.sample && a.name === b.name && a.code === b.code && haplotypeOf(a) === haplotypeOf(b);
}

/** The haplotype whose reads alone a track is of; 0: it is of all. */
function haplotypeOf(track) {
  return track?.haplotype ?? 0;
}

/** Of which reads a track is, in words; empty for all. */
function ofReads(track) {
  return haplotypeOf(track) > 0 ? ` of haplotype ${haplotypeOf(track)}` : "";
}

/** The greatest mean depth of bins in sight, 1 at least. */
function deepest(z, first, last) {
  let most = 1;
  for (const { valid, sites } of z.strands) {
    for (let i = first; i < last; i++) if (sites[i] > 0) most = Math.max(most, valid[i] / sites[i]);
  }
  return most;
}
