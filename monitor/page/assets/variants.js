// The variant table. Only the rows in sight are in the document; their elements are
// used again as the table is scrolled.

import { byId, element, keyed, setAttribute, setText } from "./dom.js";
import { allele, clock, si, whole, words } from "./format.js";
import { descendingFirst, select, sort } from "./variant-list.js";

const columns = [
  ["place", "Position"],
  ["change", "Change"],
  ["gene", "Gene"],
  ["consequence", "Consequence"],
  ["protein", "HGVS"],
  ["impact", "Impact"],
  ["status", "Status"],
  ["qual", "Qual"],
  ["depth", "Reads"],
  ["fraction", "Share"],
  ["genotype", "GT"],
  ["known", "Known"],
  ["revision", "Rev"],
  ["updated", "Changed"],
];
const unsortable = new Set(["genotype", "known"]);

/** For how long (ms) a row shows that it has changed. */
const freshFor = 4000;

/** How often (ms) rows are chosen and sorted anew at most. */
const pause = 250;

/** Rows above and below those in sight that are filled too. */
const beyond = 6;

export class VariantTable {
  #store;
  #open;
  #rows = [];
  #pool = [];
  #rowHeight = 36;
  #filter = { text: "", gene: "", sample: "", statuses: new Set(), impacts: new Set(), failed: false };
  #column = "place";
  #descending = false;
  #active = null; // id of the chosen row
  #chosenAt = -Infinity;
  #cost = 0;
  #timer = 0;
  #painting = false;
  #still = matchMedia("(prefers-reduced-motion: reduce)");
  #listed = "";

  /** `open(id)` shows a variant. */
  constructor(store, open) {
    this.#store = store;
    this.#open = open;
    this.grid = byId("variants-grid");
    this.body = byId("variants-body");
    this.#head();
    this.#filters();
    this.grid.addEventListener("scroll", () => this.#paintSoon(), { passive: true });
    this.grid.addEventListener("keydown", (e) => this.#key(e));
    this.body.addEventListener("click", (e) => {
      const row = this.#pool.find((r) => r.element.contains(e.target));
      if (!row?.row) return;
      this.#active = row.row.id;
      this.#paint();
      this.#open(row.row.id);
    });
    new ResizeObserver(() => {
      this.#rowHeight = parseFloat(getComputedStyle(this.grid).getPropertyValue("--row")) || 36;
      this.#lay();
    }).observe(this.grid);
    setAttribute(this.grid, "aria-colcount", String(columns.length));
  }

  /** Variants have changed: chooses and sorts soon, not more often than is good. */
  update() {
    if (this.#timer) return;
    const wait = Math.max(pause, 8 * this.#cost) - (performance.now() - this.#chosenAt);
    this.#timer = setTimeout(() => this.#choose(), Math.max(0, wait));
  }

  /** A second has passed: what was fresh may be so no more. */
  tick() {
    this.#paintSoon();
  }

  focus() {
    this.grid.focus({ preventScroll: true });
    byId("variants").scrollIntoView({ block: "start" });
    if (!this.#active && this.#rows.length > 0) {
      this.#active = this.#rows[Math.min(this.#rows.length - 1, Math.ceil(this.grid.scrollTop / this.#rowHeight))].id;
      this.#paint();
    }
  }

  focusFind() {
    byId("filter-text").focus();
    byId("variants").scrollIntoView({ block: "start" });
  }

  #head() {
    const head = byId("variants-columns");
    for (const [name, title] of columns) {
      const cell = element("div", { role: "columnheader", class: `c-${name}` });
      if (unsortable.has(name)) {
        cell.textContent = title;
      } else {
        const button = element("button", { type: "button", class: "sort" }, element("span", { text: title }), element("span", { class: "arrow", "aria-hidden": "true" }));
        button.addEventListener("click", () => this.#sortBy(name));
        cell.append(button);
      }
      cell.dataset.column = name;
      head.append(cell);
    }
    this.#showOrder();
  }

  #sortBy(name) {
    this.#descending = this.#column === name ? !this.#descending : descendingFirst.has(name);
    this.#column = name;
    this.#showOrder();
    this.grid.scrollTop = 0;
    this.#choose();
  }

  #showOrder() {
    for (const cell of byId("variants-columns").children) {
      const mine = cell.dataset.column === this.#column;
      setAttribute(cell, "aria-sort", mine ? (this.#descending ? "descending" : "ascending") : null);
      const arrow = cell.querySelector(".arrow");
      if (arrow) setText(arrow, mine ? (this.#descending ? "▾" : "▴") : "");
    }
  }

  #filters() {
    const f = this.#filter;
    const changed = () => {
      byId("filter-clear").hidden = !this.#filtered();
      this.grid.scrollTop = 0;
      this.#choose();
    };
    byId("filters").addEventListener("submit", (e) => e.preventDefault());
    const typed = (id, name) =>
      byId(id).addEventListener("input", (e) => {
        f[name] = e.target.value;
        changed();
      });
    typed("filter-text", "text");
    typed("filter-gene", "gene");
    typed("filter-sample", "sample");
    byId("filter-failed").addEventListener("change", (e) => {
      f.failed = e.target.checked;
      changed();
    });
    for (const [id, set] of [["filter-impact", f.impacts], ["filter-status", f.statuses]]) {
      byId(id).addEventListener("click", (e) => {
        const chip = e.target.closest("button");
        if (!chip) return;
        if (!set.delete(chip.value)) set.add(chip.value);
        chip.setAttribute("aria-pressed", String(set.has(chip.value)));
        changed();
      });
    }
    byId("filter-clear").addEventListener("click", () => {
      for (const id of ["filter-text", "filter-gene", "filter-sample"]) byId(id).value = "";
      byId("filter-failed").checked = false;
      Object.assign(f, { text: "", gene: "", sample: "", failed: false });
      f.impacts.clear();
      f.statuses.clear();
      for (const chip of document.querySelectorAll("#filters .chip")) chip.setAttribute("aria-pressed", "false");
      changed();
      byId("filter-text").focus();
    });
    byId("filter-text").addEventListener("keydown", (e) => {
      if (e.key === "Enter" || e.key === "ArrowDown") {
        e.preventDefault();
        this.focus();
      }
    });
  }

  #filtered() {
    const f = this.#filter;
    return Boolean(f.text || f.gene || f.sample || f.failed || f.impacts.size || f.statuses.size);
  }

  #choose() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const began = performance.now();
    // What is at the top stays there, when rows come and go above it.
    const scrolled = this.grid.scrollTop;
    const at = Math.floor(scrolled / this.#rowHeight);
    const top = scrolled > 0 ? this.#rows[at]?.id : undefined;
    this.#rows = sort(select(this.#store.variants.values(), this.#filter), this.#column, this.#descending);
    this.#lay();
    if (top !== undefined && this.#rows[at]?.id !== top) {
      const now = this.#rows.findIndex((r) => r.id === top);
      if (now >= 0) this.grid.scrollTop = scrolled + (now - at) * this.#rowHeight;
    }
    this.#paint();
    this.#lists();
    this.#chosenAt = performance.now();
    this.#cost = this.#chosenAt - began;
  }

  #lay() {
    this.body.style.setProperty("height", `${this.#rows.length * this.#rowHeight}px`);
    this.grid.style.setProperty("--rows", String(this.#rows.length)); // a short table takes no more room than it needs
    setAttribute(this.grid, "aria-rowcount", String(this.#rows.length + 1));
    this.#paintSoon();
  }

  // The words around the table, and what its pickers offer.
  #lists() {
    const all = this.#store.variants.size;
    const left = this.#store.summary?.left_out?.variants ?? 0;
    const text = all === 0 ? "" : `${whole(this.#rows.length)} of ${whole(all)} shown${this.#filtered() ? "" : ": passed all filters, not retracted"}${left > 0 ? `; ${whole(left)} more than the page holds` : ""}`;
    setText(byId("variants-sum"), text);
    const empty = byId("variants-empty");
    empty.hidden = this.#rows.length > 0;
    setText(
      empty,
      all === 0
        ? "No variants yet. They appear as soon as the reads speak for one."
        : this.#filtered()
          ? "No variant fits the filter."
          : "Nothing has passed all filters yet. Candidates that fail one are shown with the box above.",
    );
    const samples = new Set();
    const genes = new Set();
    for (const v of this.#store.variants.values()) {
      samples.add(v.sample);
      if (v.gene && genes.size < 500) genes.add(v.gene);
    }
    const listed = `${[...samples].join("\n")}\n\n${genes.size}`;
    if (listed === this.#listed) return;
    this.#listed = listed;
    byId("filter-sample-field").hidden = samples.size < 2;
    keyed(byId("filter-sample"), ["", ...[...samples].sort()], (s) => `s${s}`, () => element("option"), (option, s) => {
      setAttribute(option, "value", s);
      setText(option, s || "all");
    });
    keyed(byId("genes"), [...genes].sort(), (g) => g, () => element("option"), (option, g) => setAttribute(option, "value", g));
  }

  #paintSoon() {
    if (this.#painting) return;
    this.#painting = true;
    requestAnimationFrame(() => {
      this.#painting = false;
      this.#paint();
    });
  }

  #paint() {
    const height = this.#rowHeight;
    const from = Math.max(0, Math.floor(this.grid.scrollTop / height) - beyond);
    const to = Math.min(this.#rows.length, Math.ceil((this.grid.scrollTop + this.grid.clientHeight) / height) + beyond);
    const needed = Math.max(0, to - from);
    while (this.#pool.length < needed) this.#pool.push(this.#newRow(this.#pool.length));
    const size = this.#pool.length;
    const used = new Set();
    let active = null;
    const now = performance.now();
    for (let i = from; i < to; i++) {
      const slot = this.#pool[i % size];
      used.add(slot);
      this.#fill(slot, i, this.#rows[i], now);
      if (this.#rows[i].id === this.#active) active = slot.element.id;
    }
    for (const slot of this.#pool) {
      if (!used.has(slot) && slot.row) {
        slot.element.hidden = true;
        slot.row = null;
      }
    }
    setAttribute(this.grid, "aria-activedescendant", active);
  }

  #newRow(number) {
    const cells = {};
    const row = element("div", { role: "row", class: "grid-row", id: `variant-row-${number}` });
    for (const [name] of columns) {
      cells[name] = element("div", { role: "gridcell", class: `c-${name}` });
      row.append(cells[name]);
    }
    cells.share = element("span", { class: "share" });
    cells.shareText = element("span");
    cells.fraction.append(cells.share, cells.shareText);
    this.body.append(row);
    return { element: row, cells, row: null, index: -1, top: -1, glow: null };
  }

  #fill(slot, index, row, now) {
    const { element: node, cells } = slot;
    const other = slot.row?.id !== row.id;
    if (slot.top !== index * this.#rowHeight) {
      slot.top = index * this.#rowHeight;
      node.style.setProperty("transform", `translateY(${slot.top}px)`);
    }
    if (slot.index !== index) {
      slot.index = index;
      setAttribute(node, "aria-rowindex", String(index + 2));
      node.classList.toggle("odd", index % 2 === 1);
    }
    setAttribute(node, "aria-selected", String(row.id === this.#active));
    if (slot.row !== row) {
      slot.row = row;
      node.hidden = false;
      node.dataset.id = row.id;
      node.dataset.status = row.status;
      setText(cells.place, `${row.contig}:${whole(row.pos)}`);
      setText(cells.change, `${allele(row.ref)}>${allele(row.alt)}`);
      setText(cells.gene, row.gene || "–");
      setText(cells.consequence, words(row.consequence) || "–");
      setText(cells.protein, bare(row.hgvs_p) || bare(row.hgvs_c) || "–");
      setText(cells.impact, impactText(row.impact));
      setAttribute(cells.impact, "data-impact", row.impact || "MODIFIER");
      setText(cells.status, row.filter === "PASS" || row.status === "RETRACTED" ? sentence(row.status) : row.filter.replaceAll(";", ", "));
      setAttribute(cells.status, "data-status", row.filter === "PASS" || row.status === "RETRACTED" ? row.status : "FAILED");
      setText(cells.qual, row.qual.toFixed(row.qual < 99.95 ? 1 : 0));
      setText(cells.depth, `${si(row.allele_depth)}/${si(row.depth)}`);
      cells.share.style.setProperty("--share", String(Math.max(0, Math.min(1, row.fraction))));
      setText(cells.shareText, `${Math.round(row.fraction * 100)} %`);
      setText(cells.genotype, row.genotype || "–");
      setText(cells.known, row.known ? row.known.replaceAll(";", ", ") : "–");
      setText(cells.revision, String(row.revision));
      setText(cells.updated, clock(row.updated));
    }
    const elapsed = now - row.changedAt;
    const fresh = elapsed < freshFor;
    node.classList.toggle("fresh", fresh);
    if (fresh && (other || slot.glowFor !== row) && !this.#still.matches) {
      slot.glow?.cancel();
      slot.glow = node.animate([{ backgroundColor: "var(--glow)" }, {}], { duration: freshFor, easing: "ease-out" });
      slot.glow.currentTime = elapsed;
    } else if (!fresh || other) {
      slot.glow?.cancel();
      slot.glow = null;
    }
    slot.glowFor = row;
  }

  #key(e) {
    if (e.target !== this.grid || e.ctrlKey || e.metaKey || e.altKey) return;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.#rowHeight) - 2);
    const at = this.#rows.findIndex((r) => r.id === this.#active);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.#rows.length - 1 }[e.key];
    if (to !== undefined && this.#rows.length > 0) {
      e.preventDefault();
      this.#activate(Math.max(0, Math.min(this.#rows.length - 1, to)));
    } else if ((e.key === "Enter" || e.key === " ") && at >= 0) {
      e.preventDefault();
      this.#open(this.#active);
    }
  }

  #activate(index) {
    this.#active = this.#rows[index].id;
    const head = this.grid.firstElementChild.offsetHeight;
    const top = index * this.#rowHeight;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + this.#rowHeight + head > this.grid.scrollTop + this.grid.clientHeight) {
      this.grid.scrollTop = top + this.#rowHeight + head - this.grid.clientHeight;
    }
    this.#paint();
  }
}

/** HGVS without the reference it is about: that of the gene stands beside it. */
function bare(hgvs) {
  return (hgvs ?? "").replace(/^[^:]*:/, "");
}

/** PROVISIONAL is "Provisional". */
export function sentence(name) {
  return name ? name[0] + name.slice(1).toLowerCase().replaceAll("_", " ") : "–";
}

function impactText(impact) {
  return sentence(impact || "MODIFIER");
}
