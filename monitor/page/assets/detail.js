// The dialog about one variant: its consequence, what speaks for it, its revisions, and
// the reads around it. Its name stands in the address (#variant=…), so that it can be
// sent to somebody and the browser's way back closes it.

import { ask } from "./api.js";
import { byId, element, keyed, setAttribute, setText } from "./dom.js";
import { allele, clock, count, percent, score, whole, words } from "./format.js";
import { HaplotypesView } from "./haplotypes.js";
import { PileupView } from "./pileup.js";
import { sentence } from "./variants.js";

/** How long (ms) to wait before a variant that has changed is asked for again. */
const settle = 700;

export class DetailView {
  #store;
  #goTo;
  #dialog = byId("detail");
  #pileup = new PileupView();
  #haplotypes = new HaplotypesView();
  #id = null;
  #row = null; // what was asked for last
  #timer = 0;
  #abort = null;
  #before = null; // what had the focus

  /** `goTo(row)` shows a variant's place in the depth. */
  constructor(store, goTo) {
    this.#store = store;
    this.#goTo = goTo;
    byId("detail-close").addEventListener("click", () => this.#dialog.close());
    byId("detail-depth").addEventListener("click", () => {
      const row = this.#row;
      this.#before = null;
      this.#dialog.close();
      if (row) this.#goTo(row);
    });
    this.#dialog.addEventListener("click", (e) => {
      if (e.target === this.#dialog) this.#dialog.close(); // beside it
    });
    this.#dialog.addEventListener("close", () => this.#closed());
    window.addEventListener("hashchange", () => this.#fromAddress());
  }

  /** Shows a variant of the store, or one that the server knows. */
  open(id) {
    if (location.hash !== hashOf(id)) history.pushState(null, "", hashOf(id));
    this.#show(id);
  }

  /** Opens what the address names. */
  start() {
    this.#fromAddress();
  }

  /** Variants have changed: asks again if this one has. */
  update() {
    if (!this.#id) return;
    const row = this.#store.variants.get(this.#id);
    if (!row || row === this.#row || this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.#load();
    }, settle);
  }

  redraw() {
    this.#pileup.draw();
  }

  #fromAddress() {
    const id = new URLSearchParams(location.hash.slice(1)).get("variant");
    if (id) this.#show(id);
    else if (this.#dialog.open) this.#dialog.close();
  }

  #show(id) {
    if (this.#id === id && this.#dialog.open) return;
    this.#id = id;
    const row = this.#store.variants.get(id);
    this.#clear(row);
    if (!this.#dialog.open) {
      this.#before = document.activeElement;
      this.#dialog.showModal();
      byId("detail-title").focus();
    }
    this.#dialog.scrollTop = 0;
    this.#load();
  }

  #closed() {
    // The event comes a while after the dialog has closed, and by then it may be open again.
    if (this.#dialog.open) return;
    this.#abort?.abort();
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#id = null;
    if (location.hash.includes("variant=")) history.pushState(null, "", location.pathname + location.search);
    this.#before?.focus?.();
    this.#before = null;
  }

  async #load() {
    const id = this.#id;
    this.#row = this.#store.variants.get(id) ?? this.#row;
    this.#abort?.abort();
    this.#abort = new AbortController();
    try {
      const detail = await ask("/api/variant", { id }, this.#abort.signal);
      if (this.#id === id) this.#fill(detail);
    } catch (error) {
      if (error.name === "AbortError" || this.#id !== id) return;
      setText(byId("pileup-message"), `The details can't be had: ${error.message}`);
      byId("pileup-message").hidden = false;
    }
  }

  // What the row says stands at once; the rest comes when the server has answered.
  #clear(row) {
    this.#row = row ?? null;
    setText(byId("detail-title"), row ? title(row) : "Variant");
    setText(byId("detail-sub"), row ? subtitle(row) : "");
    for (const name of ["detail-consequence", "detail-evidence", "detail-sources", "detail-strands"]) byId(name).replaceChildren();
    byId("revision-table").tBodies[0].replaceChildren();
    this.#haplotypes.clear();
    byId("detail-unknown").hidden = true;
    byId("pileup-body").hidden = true;
    setText(byId("pileup-message"), "Asking for the reads …");
    byId("pileup-message").hidden = false;
  }

  #fill(detail) {
    const { row, variant } = detail;
    this.#row = this.#store.variants.get(row.id) ?? row;
    setText(byId("detail-title"), title(row));
    setText(byId("detail-sub"), subtitle(row));
    setAttribute(byId("detail-sub"), "data-status", row.status);
    const call = variant.call ?? {};
    const annotation = variant.annotation ?? {};
    const chosen = (annotation.consequences ?? [])[0] ?? {};
    list("detail-consequence", [
      ["Effect", (chosen.terms ?? []).map((t) => words(t.name)).join(", ") || words(row.consequence)],
      ["Impact", sentence(row.impact || "MODIFIER")],
      ["Gene", row.gene],
      ["Transcript", annotation.most_severe?.transcript],
      ["Protein", chosen.hgvsp ?? row.hgvs_p],
      ["Coding", chosen.hgvsc ?? row.hgvs_c],
      ["Genomic", annotation.hgvsg],
      ["Codons", chosen.codons],
      ["Together", (variant.haplotype ?? []).map((h) => `${h.gene ?? h.transcript}: ${(h.terms ?? []).map(words).join(", ")}${h.amino_acids ? ` ${h.amino_acids}` : ""}`).join("; ")],
      ["Other transcripts", (annotation.consequences ?? []).length > 1 ? count(annotation.consequences.length - 1, "more", "more") : null],
      ...(annotation.scores ?? []).slice(0, 20).map((s) => [`Score of ${s.network}`, score(s)]),
      ["Gene models", annotation.gene_models],
      ["Not annotated", variant.annotation_error],
    ]);
    strands(call);
    list("detail-evidence", [
      ["Reads", `${whole(row.allele_depth)} of ${whole(row.depth)} show it (${percent(row.fraction)})`],
      ["Quality", `${(call.qual ?? row.qual).toFixed(1)}: wrong with a probability of ${error(call.qual ?? row.qual)}`],
      ["Genotype", [row.genotype, words(call.zygosity), call.gq !== undefined ? `GQ ${call.gq}` : null].filter(Boolean).join(", ")],
      ["Phase set", call.phase_set],
      ["Filters", row.filter === "PASS" ? "passed all" : row.filter.replaceAll(";", ", ")],
      ["Why", variant.reason],
      ["Newest signal", variant.last_chunk_time ? clock(variant.last_chunk_time) : null],
      ["Run", variant.run],
      ["VRS", variant.variant?.vrs_id],
    ]);
    const known = annotation.known ?? [];
    byId("detail-unknown").hidden = known.length > 0;
    list("detail-sources", known.slice(0, 20).map((k) => [
      [k.source, k.version].filter(Boolean).join(" "),
      [k.id, k.match === "exact" ? null : `${k.match} match${k.place ? ` at ${k.place}` : ""}`, ...Object.entries(k.fields ?? {}).slice(0, 8).map(([name, value]) => `${name}: ${words(String(value))}`)].filter(Boolean).join(" · "),
    ]));
    revisions(detail.revisions ?? []);
    this.#haplotypes.show(detail);
    this.#pileup.show(detail.pileup, detail.pileup_error, row);
  }
}

function hashOf(id) {
  return `#${new URLSearchParams({ variant: id })}`;
}

function title(row) {
  return `${row.contig}:${whole(row.pos)} ${allele(row.ref, 20)}>${allele(row.alt, 20)}`;
}

function subtitle(row) {
  return [sentence(row.status), `revision ${row.revision}`, row.gene, words(row.consequence), `sample ${row.sample}`].filter(Boolean).join(" · ");
}

/** The probability that a Phred-scaled quality stands for. */
function error(qual) {
  const p = 10 ** (-qual / 10);
  return p >= 0.01 ? percent(p) : p > 0 && p >= 1e-12 ? `1 in ${whole(1 / p)}` : "next to nothing";
}

function list(id, entries) {
  const parts = [];
  for (const [name, value] of entries) {
    if (value === null || value === undefined || value === "") continue;
    parts.push(element("dt", { text: name }), element("dd", { text: String(value) }));
  }
  byId(id).replaceChildren(...parts);
}

// Reads by strand and by what they show, as bars in which numbers stand.
function strands(call) {
  const rows = [
    ["Variant", call.alt_forward ?? 0, call.alt_reverse ?? 0, "alt"],
    ["Reference", call.ref_forward ?? 0, call.ref_reverse ?? 0, "ref"],
    ["Other", call.other_forward ?? 0, call.other_reverse ?? 0, "other"],
  ].filter(([, forward, reverse], i) => i < 2 || forward + reverse > 0);
  const most = Math.max(1, ...rows.map(([, forward, reverse]) => forward + reverse));
  byId("detail-strands").replaceChildren(
    ...rows.map(([name, forward, reverse, kind]) => {
      const part = (n, strand) => {
        const bar = element("span", { class: `strand ${strand}`, "aria-hidden": "true" });
        bar.style.setProperty("--part", String(n / most));
        return bar;
      };
      return element("div", { class: `strand-row ${kind}` },
        element("span", { class: "strand-name", text: name }),
        element("span", { class: "strand-bars" }, part(forward, "forward"), part(reverse, "reverse")),
        element("span", { class: "strand-text", text: `${whole(forward)} forward, ${whole(reverse)} reverse` }));
    }),
  );
}

function revisions(all) {
  const body = byId("revision-table").tBodies[0];
  keyed(
    body, [...all].reverse(), (r) => r.revision,
    () => element("tr", {}, ...["n", "", "", "n", "n", ""].map((c) => element("td", { class: c || null }))),
    (tr, r) => {
      const texts = [String(r.revision), sentence(r.status), r.filter === "PASS" ? "passed" : r.filter, r.qual.toFixed(1), `${whole(r.allele_depth)}/${whole(r.depth)}`, clock(r.time)];
      texts.forEach((text, i) => setText(tr.children[i], text));
    },
  );
}
