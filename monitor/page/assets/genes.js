// Named alleles: what each sample has of each gene, for plates of barcodes.

import { byId, element, setAttribute, setText } from "./dom.js";
import { count, whole } from "./format.js";
import { bySample, byText, Chosen, focusGrid } from "./grid.js";

/** How many samples and genes are shown at most. */
const most = { samples: 384, genes: 60 };

/** Puts rows into a table of samples by genes. Pure. */
export function arrange(rows) {
  const samples = new Map(); // name → gene → row
  const genes = new Set();
  for (const row of rows) {
    genes.add(row.gene);
    if (!samples.has(row.sample)) samples.set(row.sample, new Map());
    samples.get(row.sample).set(row.gene, row);
  }
  return {
    samples: [...samples.keys()].sort(bySample),
    genes: [...genes].sort(byText),
    at: (sample, gene) => samples.get(sample)?.get(gene) ?? null,
  };
}

const list = (values) => values ?? [];

/**
 * What a cell shows: the alleles, what else is said, and how it is to be seen. A position that isn't covered
 * is not the reference, so a pair beside which others are possible is never shown as settled. Pure.
 */
export function cellOf(row) {
  const pairs = list(row.diplotypes);
  const others = pairs.length - 1 + list(row.also_possible).length;
  const missing = list(row.missing).length;
  const notes = [];
  if (pairs.length > 0 && others > 0) notes.push(`or ${whole(others)} more`);
  if (missing > 0) notes.push(`${whole(missing)} of ${whole(row.positions)} not covered`);
  let kind = "clear";
  if (pairs.length === 0) kind = "blind";
  else if (others > 0 || list(row.not_looked_at).length > 0 || list(row.unknown_bases).length > 0) kind = "doubt";
  else if (missing > 0) kind = "other";
  return { pair: pairs.length > 0 ? pairs[0] : "n/c", note: notes.join(", "), kind, early: row.status !== "FINAL" };
}

/** All that is said of a gene of a sample, in words. Pure. */
export function sentence(row) {
  const pairs = list(row.diplotypes);
  const parts = [pairs.length > 0 ? pairs.join(" or ") : "no diplotype"];
  for (const [name, values] of [["also possible", row.also_possible], ["not examined", row.not_looked_at], ["not covered", row.missing], ["bases that no allele has", row.unknown_bases]]) {
    if (list(values).length > 0) parts.push(`${name}: ${values.slice(0, 12).join(", ")}${values.length > 12 ? ` and ${whole(values.length - 12)} more` : ""}`);
  }
  if (row.reason) parts.push(row.reason);
  return `${row.status === "FINAL" ? "final" : "so far"}, ${parts.join("; ")}`;
}

export class GenesView {
  #grid = arrange([]);
  #shape = "";
  #cells = [];
  #chosen;

  constructor() {
    this.#chosen = new Chosen(byId("genes-frame"), byId("genes-table"), (row, column) => this.#tell(row, column));
  }

  /** Shows what samples have; nothing where no definitions are. */
  update(rows) {
    const grid = arrange(rows.values());
    byId("alleles").hidden = grid.samples.length === 0;
    if (grid.samples.length === 0) return;
    const left = [Math.max(0, grid.samples.length - most.samples), Math.max(0, grid.genes.length - most.genes)];
    this.#grid = { ...grid, samples: grid.samples.slice(0, most.samples), genes: grid.genes.slice(0, most.genes) };
    const shape = JSON.stringify([this.#grid.samples, this.#grid.genes]);
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#build();
    }
    let final = 0;
    let all = 0;
    this.#grid.samples.forEach((sample, r) => {
      this.#grid.genes.forEach((gene, c) => {
        const row = grid.at(sample, gene);
        if (row) all++;
        if (row?.status === "FINAL") final++;
        this.#fill(r, c, row);
      });
    });
    setText(byId("genes-sum"), [
      `${count(grid.samples.length, "sample")} by ${count(grid.genes.length, "gene")}`,
      `${whole(final)} of ${whole(all)} final`,
      left[0] > 0 || left[1] > 0 ? `${whole(left[0])} samples and ${whole(left[1])} genes are not shown` : "",
    ].filter(Boolean).join(", "));
    this.#chosen.tell();
  }

  focus() {
    focusGrid("alleles", "genes-frame");
  }

  #build() {
    const table = byId("genes-table");
    table.tHead.replaceChildren(element("tr", {}, element("th", { scope: "col", text: "sample" }), ...this.#grid.genes.map((gene) => element("th", { scope: "col", text: gene }))));
    this.#cells = [];
    table.tBodies[0].replaceChildren(
      ...this.#grid.samples.map((sample, r) => {
        const cells = this.#grid.genes.map(() => {
          const parts = { pair: element("span"), note: element("small"), shown: "" };
          return { ...parts, node: element("td", {}, parts.pair, parts.note) };
        });
        this.#cells.push(cells);
        return element("tr", { "data-row": String(r) }, element("th", { scope: "row", text: sample }), ...cells.map((cell) => cell.node));
      }),
    );
    this.#chosen.replace(this.#cells.map((row) => row.map((cell) => cell.node)));
  }

  #fill(r, c, row) {
    const cell = this.#cells[r][c];
    const said = row ? cellOf(row) : { pair: "", note: "", kind: null, early: false };
    const sign = JSON.stringify(said);
    if (cell.shown === sign) return;
    cell.shown = sign;
    setText(cell.pair, said.early ? `${said.pair} …` : said.pair);
    setText(cell.note, said.note);
    setAttribute(cell.node, "data-kind", said.kind);
  }

  #tell(r, c) {
    const sample = this.#grid.samples[r];
    const gene = this.#grid.genes[c];
    if (!sample || !gene) return;
    const row = this.#grid.at(sample, gene);
    setText(byId("genes-readout"), `${sample}, ${gene}: ${row ? sentence(row) : "nothing is known yet"}`);
  }
}
