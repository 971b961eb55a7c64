// What calls say of a variant's haplotypes: which allele each has, with reads by strand, what else is in the phase set,
// and the modified bases around. What isn't known is said.

import { byId, element, setText } from "./dom.js";
import { allele, count, percent, whole } from "./format.js";
import { modification } from "./methylation.js";

export class HaplotypesView {
  /** Forgets the variant that was shown. */
  clear() {
    byId("haplotype-table").tBodies[0].replaceChildren();
    byId("haplotype-sites").tBodies[0].replaceChildren();
    byId("haplotype-sites").hidden = true;
    setText(byId("haplotype-text"), "");
    setText(byId("haplotype-set"), "");
    setText(byId("haplotype-methylation"), "");
  }

  /** Shows an answer of the server about a variant. */
  show({ row, variant, phased, near }) {
    const call = variant?.call ?? {};
    setText(byId("haplotype-text"), inWords(call, row));
    fill("haplotype-table", supports(call, row));
    const together = (phased ?? []).map((v) => `${whole(v.pos)} ${allele(v.ref, 12)}>${allele(v.alt, 12)} (${v.genotype})`);
    setText(byId("haplotype-set"), !call.phase_set ? "" : together.length > 0 ? `In the same phase set: ${together.join(", ")}.` : "The page holds no other variant of this phase set.");
    const sites = near ?? [];
    byId("haplotype-sites").hidden = sites.length === 0;
    fill("haplotype-sites", sites.map((s) => [
      `${whole(s.pos)} ${s.strand === "-" ? "−" : "+"}`, modification(s.code), whole(s.modified), whole(s.valid), percent(s.modified / s.valid), s.final ? "FINAL" : "PROVISIONAL",
    ]));
    setText(byId("haplotype-methylation"), sites.length > 0
      ? "These counts are of all reads together. By haplotype they aren't known during a run; pore call --haplotag and then pore pileup --haplotypes count them in a file."
      : "No modified bases are known within 500 bases.");
  }
}

// Rows of haplotypes where they are phased, else of alleles.
function supports(call, row) {
  const genotype = call.genotype ?? [];
  const phased = Boolean(call.phase_set) && genotype.length > 1;
  const mixed = new Set(genotype).size > 1;
  const numbers = phased && mixed ? genotype : [...new Set([0, 1, ...genotype])].sort((a, b) => a - b);
  const rows = numbers.map((n, i) => [
    phased && mixed ? `Haplotype ${i + 1}` : genotype.length > 0 && !genotype.includes(n) ? "not in the genotype" : genotype.length > 1 && !mixed ? "both" : genotype.length > 1 ? "not phased" : "",
    alleleOf(n, call, row), ...counts(n, call),
  ]);
  const rest = (call.other_forward ?? 0) + (call.other_reverse ?? 0);
  if (rest > 0) rows.push(["", "another, or an error", whole(call.other_forward ?? 0), whole(call.other_reverse ?? 0), whole(rest)]);
  return rows;
}

function alleleOf(n, call, row) {
  if (n === 0) return `${allele(row.ref, 20)}, reference`;
  if (n === 1) return `${allele(row.alt, 20)}, this allele`;
  const other = call.others?.[n - 2];
  return other ? `${allele(other.alt, 20)} for ${allele(other.ref, 20)} at ${whole(other.pos)}` : "another allele";
}

// An event counts reads of this allele and of the reference, and all others together.
function counts(n, call) {
  if (n > 1) return ["–", "–", "–"];
  const [forward, reverse] = n === 0 ? [call.ref_forward ?? 0, call.ref_reverse ?? 0] : [call.alt_forward ?? 0, call.alt_reverse ?? 0];
  return [whole(forward), whole(reverse), whole(forward + reverse)];
}

function inWords(call, row) {
  const genotype = call.genotype ?? [];
  if (genotype.length === 0) return "There is no genotype yet.";
  if (genotype.length === 1) return "The sample has one copy here, so there is one haplotype.";
  if (new Set(genotype).size === 1) return `All ${genotype.length} haplotypes have the same allele, so its reads don't tell them apart.`;
  if (!call.phase_set) {
    return row.status === "FINAL" || row.status === "AMENDED"
      ? "Several alleles, not phased. Reads are by allele."
      : "Several alleles, not phased: phase sets are named when the run ends, and a mixture has none. Until then reads are by allele.";
  }
  return `Phased (${row.genotype}) in the set that begins at ${whole(call.phase_set)}: ${count(genotype.length, "haplotype", "haplotypes")}. A haplotype's reads are those that show its allele here.`;
}

function fill(id, rows) {
  byId(id).tBodies[0].replaceChildren(...rows.map((cells) => element("tr", {}, ...cells.map((text, i) => element("td", { class: i >= 2 && i <= 4 ? "n" : null, text })))));
}
