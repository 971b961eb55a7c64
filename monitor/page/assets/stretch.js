// The stretch of a contig that a track shows: moved along and zoomed with buttons, keys, wheel, pointer and two fingers, alike for all tracks.

import { byId } from "./dom.js";
import { si, whole } from "./format.js";

const smallest = 40; // bases that can be shown across

export class Stretch {
  from = 0;
  to = 0;
  dragged = false; // the pointer that is down has moved
  #canvas;
  #frame;
  #margin;
  #length;
  #changed;
  #hover;
  #keys;
  #still;
  #pointers = new Map();

  /**
   * `track` has a canvas and the frame that takes the keys; `name` begins the ids of its buttons.
   * `length()` is how many bases the contig has, 0 without one. `changed(tell)` follows a new stretch, of which
   * others are to be told or not; `hover(x, y)` a pointer that isn't down. `keys` are more of them, as functions,
   * and a pointer that is down stands still until it has moved by more than `still`.
   */
  constructor(track, name, { margin, length, changed, hover, keys = () => ({}), still = -1 }) {
    this.#canvas = track.canvas;
    this.#frame = track.frame;
    this.#margin = margin;
    this.#length = length;
    this.#changed = changed;
    this.#hover = hover;
    this.#keys = keys;
    this.#still = still;
    byId(`${name}-in`).addEventListener("click", () => this.scale(0.5));
    byId(`${name}-out`).addEventListener("click", () => this.scale(2));
    byId(`${name}-whole`).addEventListener("click", () => this.whole());
    this.#frame.addEventListener("keydown", (e) => this.#key(e));
    this.#canvas.addEventListener("wheel", (e) => this.#wheel(e), { passive: false });
    this.#canvas.addEventListener("pointerdown", (e) => this.#down(e));
    this.#canvas.addEventListener("pointermove", (e) => this.#move(e));
    for (const end of ["pointerup", "pointercancel"]) this.#canvas.addEventListener(end, (e) => this.#pointers.delete(e.pointerId));
  }

  /** Bases that are shown. */
  get span() {
    return this.to - this.from;
  }

  /** Pixels across which they are. */
  get across() {
    return this.#canvas.clientWidth - this.#margin.left - this.#margin.right;
  }

  /** The base at a pixel, and a fraction. */
  position(x) {
    return this.from + ((x - this.#margin.left) / this.across) * this.span;
  }

  /** Shows a stretch, or one like it that the contig has. */
  view(from, to, tell = true) {
    const length = this.#length();
    if (length === 0) return;
    const span = Math.min(length, Math.max(smallest, to - from));
    this.from = Math.min(Math.max(0, from), length - span);
    this.to = this.from + span;
    this.#changed(tell);
  }

  whole() {
    this.view(0, this.#length());
  }

  scale(factor, around = (this.from + this.to) / 2) {
    const span = Math.min(this.#length(), Math.max(smallest, this.span * factor));
    const share = (around - this.from) / (this.span || 1);
    this.view(around - share * span, around + (1 - share) * span);
  }

  pan(share) {
    const by = share * this.span;
    this.view(this.from + by, this.to + by);
  }

  /** The stretch in words. */
  words() {
    const length = this.#length();
    return this.span >= length * 0.999 ? `all ${whole(length)} bases` : `${whole(this.from + 1)}–${whole(this.to)} (${si(this.span)}b)`;
  }

  /** A position as it stands below the axis, and where in its base the mark is. */
  tick(position) {
    const near = this.span < 1000;
    const text = this.span > 5e6 ? `${(position / 1e6).toFixed(this.span > 2e7 ? 0 : 1)} Mb` : this.span > 2e4 ? `${whole(position / 1e3)} kb` : whole(position + (near ? 1 : 0));
    return { text, at: position + (near ? 0.5 : 0) };
  }

  #wheel(e) {
    // A page that zooms whenever the pointer comes past can't be scrolled: Ctrl or a
    // click on the picture first.
    const focused = this.#frame.contains(document.activeElement);
    if (!e.ctrlKey && !e.metaKey && !focused) return;
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan(e.deltaX / 1000);
    else this.scale(Math.exp(Math.max(-0.5, Math.min(0.5, e.deltaY / 300))), this.position(e.offsetX));
  }

  #down(e) {
    this.#pointers.set(e.pointerId, e.offsetX);
    this.#canvas.setPointerCapture(e.pointerId);
    this.dragged = false;
    if (e.pointerType === "mouse") this.#frame.focus({ preventScroll: true });
  }

  #move(e) {
    const before = this.#pointers.get(e.pointerId);
    if (before === undefined) {
      this.#hover(e.offsetX, e.offsetY);
      return;
    }
    if (Math.abs(e.offsetX - before) > this.#still) this.dragged = true;
    const other = [...this.#pointers].find(([id]) => id !== e.pointerId)?.[1];
    if (other === undefined) {
      if (!this.dragged) return;
      this.pan((before - e.offsetX) / this.across);
    } else {
      const [was, is] = [Math.abs(before - other), Math.abs(e.offsetX - other)];
      if (was > 4 && is > 4) this.scale(was / is, this.position((e.offsetX + other) / 2));
    }
    this.#pointers.set(e.pointerId, e.offsetX);
  }

  #key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target !== this.#frame) return;
    const todo = {
      ArrowLeft: () => this.pan(-0.2),
      ArrowRight: () => this.pan(0.2),
      ArrowUp: () => this.scale(0.5),
      ArrowDown: () => this.scale(2),
      "+": () => this.scale(0.5),
      "=": () => this.scale(0.5),
      "-": () => this.scale(2),
      Home: () => this.whole(),
      0: () => this.whole(),
      ...this.#keys(e),
    }[e.key];
    if (!todo) return;
    e.preventDefault();
    e.stopPropagation();
    todo();
  }
}
