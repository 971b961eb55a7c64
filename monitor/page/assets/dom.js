// Small tools for elements. Text only ever gets in as text: nothing here takes HTML.

/** The element with an id; a missing one is a mistake in the page and said so. */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element "${id}"`);
  return found;
}

/** A new element. Attributes that are null or false are left out; children may be strings. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") made.className = value;
    else if (key === "text") made.textContent = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return made;
}

/** Sets text if it differs, so that nothing is laid out or announced in vain. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets or, with null, removes an attribute if it differs. */
export function setAttribute(node, name, value) {
  if (value === null) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}

/**
 * Makes the children of a list those of `items`, in order, keeping elements by key:
 * focus and selection survive an update, and only what changed is touched.
 * `make(item)` gives an element, `update(element, item)` fills it.
 */
export function keyed(parent, items, key, make, update) {
  const known = new Map();
  for (const child of [...parent.children]) known.set(child.dataset.key, child);
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = String(key(item));
    let child = known.get(k);
    if (child) {
      known.delete(k);
    } else {
      child = make(item);
      child.dataset.key = k;
    }
    update(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const left of known.values()) left.remove();
}

const svgNamespace = "http://www.w3.org/2000/svg";

/** A new SVG element. */
export function svg(name, attributes = {}) {
  const made = document.createElementNS(svgNamespace, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/**
 * A canvas that fills its element at the screen's resolution. `draw(context, width,
 * height)` is in CSS pixels, and called at most once a frame, after `request()` or
 * when the size has changed.
 */
export class Drawing {
  #canvas;
  #draw;
  #asked = false;

  constructor(canvas, draw) {
    this.#canvas = canvas;
    this.#draw = draw;
    new ResizeObserver(() => this.request()).observe(canvas);
  }

  request() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      this.#now();
    });
  }

  #now() {
    const width = this.#canvas.clientWidth;
    const height = this.#canvas.clientHeight;
    if (width === 0 || height === 0) return;
    const scale = window.devicePixelRatio || 1;
    const across = Math.round(width * scale);
    const down = Math.round(height * scale);
    if (this.#canvas.width !== across || this.#canvas.height !== down) {
      this.#canvas.width = across;
      this.#canvas.height = down;
    }
    const context = this.#canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    this.#draw(context, width, height);
  }
}

let probe = null;
const resolved = new Map();

/** The colour that a CSS variable has in the theme at hand, as a canvas takes it. */
export function colour(variable) {
  let found = resolved.get(variable);
  if (found === undefined) {
    if (!probe) {
      probe = element("span", { hidden: true });
      document.body.append(probe);
    }
    probe.style.color = `var(${variable})`;
    found = getComputedStyle(probe).color;
    resolved.set(variable, found);
  }
  return found;
}

/** Forgets colours; for a change of theme. */
export function forgetColours() {
  resolved.clear();
}
