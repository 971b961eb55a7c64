// Which variants are shown, and in which order. Pure: no DOM.

import { words } from "./format.js";

const impacts = { HIGH: 3, MODERATE: 2, LOW: 1, MODIFIER: 0 };
const statuses = { FINAL: 4, AMENDED: 3, STABLE: 2, PROVISIONAL: 1, RETRACTED: 0 };

const text = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

const byPlace = (a, b) => text.compare(a.contig, b.contig) || a.pos - b.pos || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/** How two rows compare by a column, ascending. */
const orders = {
  place: byPlace,
  change: (a, b) => text.compare(a.ref + a.alt, b.ref + b.alt),
  gene: (a, b) => text.compare(a.gene || "\uffff", b.gene || "\uffff"),
  consequence: (a, b) => text.compare(a.consequence, b.consequence),
  protein: (a, b) => text.compare(a.hgvs_p || a.hgvs_c || "\uffff", b.hgvs_p || b.hgvs_c || "\uffff"),
  impact: (a, b) => (impacts[a.impact] ?? -1) - (impacts[b.impact] ?? -1),
  status: (a, b) => (statuses[a.status] ?? -1) - (statuses[b.status] ?? -1),
  qual: (a, b) => a.qual - b.qual,
  depth: (a, b) => a.depth - b.depth,
  fraction: (a, b) => a.fraction - b.fraction,
  revision: (a, b) => a.revision - b.revision,
  updated: (a, b) => (a.updatedAt || 0) - (b.updatedAt || 0),
};

/** Columns that are read from the top down first when they are chosen. */
export const descendingFirst = new Set(["impact", "status", "qual", "depth", "fraction", "revision", "updated"]);

/**
 * The rows that a filter lets through. `filter` has: text (words that must all occur),
 * gene, statuses and impacts (sets; empty lets all through), failed (show what fails a
 * filter), sample ("" for all). Retracted ones are shown only if asked for.
 */
export function select(rows, filter) {
  const wanted = (filter.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const gene = (filter.gene ?? "").trim().toLowerCase();
  const out = [];
  for (const row of rows) {
    if (filter.statuses?.size ? !filter.statuses.has(row.status) : row.status === "RETRACTED") continue;
    if (filter.impacts?.size && !filter.impacts.has(row.impact || "MODIFIER")) continue;
    if (!filter.failed && row.filter !== "PASS" && row.status !== "RETRACTED") continue;
    if (filter.sample && row.sample !== filter.sample) continue;
    if (gene && !(row.gene ?? "").toLowerCase().startsWith(gene)) continue;
    if (wanted.length > 0) {
      row.hay ??= hay(row);
      if (!wanted.every((w) => row.hay.includes(w))) continue;
    }
    out.push(row);
  }
  return out;
}

function hay(row) {
  return [
    `${row.contig}:${row.pos}`, `${row.ref}>${row.alt}`, row.sample, row.gene, words(row.consequence), row.consequence, row.hgvs_c, row.hgvs_p,
    row.known, row.filter, row.genotype, row.id,
  ].join(" ").toLowerCase();
}

/** Sorts rows in place by a column's name; equal ones by place. */
export function sort(rows, column, descending) {
  const order = orders[column] ?? byPlace;
  const sign = descending ? -1 : 1;
  return rows.sort((a, b) => sign * order(a, b) || byPlace(a, b));
}
