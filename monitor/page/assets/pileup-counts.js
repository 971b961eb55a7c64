// What the reads of a pileup show at a variant. Pure.

/**
 * The reads that reach over a variant, by what they show there, the most frequent
 * first: `{shows, label, forward, reverse}`. As the reads are aligned: the caller looks
 * closer, so for indels its counts can differ.
 */
export function shown(pileup, row) {
  const column = row.pos - pileup.from;
  const groups = new Map();
  for (const read of pileup.rows) {
    const at = column - read.start;
    if (at < 0 || at + row.ref.length > read.bases.length) continue;
    const key = says(pileup, read, at, column, row);
    const group = groups.get(key) ?? { shows: key, label: label(key, row), forward: 0, reverse: 0 };
    if (read.strand === "+") group.forward++;
    else group.reverse++;
    groups.set(key, group);
  }
  const total = (g) => g.forward + g.reverse;
  return [...groups.values()].sort((a, b) => total(b) - total(a) || (a.shows < b.shows ? -1 : 1));
}

function says(pileup, read, at, column, row) {
  const reference = pileup.reference.slice(column, column + row.ref.length);
  let bases = "";
  for (let i = 0; i < row.ref.length; i++) {
    const letter = read.bases[at + i];
    const insertion = (read.insertions ?? []).find((n) => n.column === column + i && i === row.ref.length - 1);
    bases += (letter === "." ? reference[i] : letter === "-" ? "" : letter) + (insertion?.bases ?? "");
  }
  if (bases === row.alt) return "alt";
  if (bases === row.ref) return "ref";
  return bases === "" ? "-" : bases;
}

function label(key, row) {
  const short = (s) => (s.length > 14 ? `${s.slice(0, 10)}… (${s.length})` : s);
  if (key === "alt") return `${short(row.alt)} (the variant)`;
  if (key === "ref") return `${short(row.ref)} (the reference)`;
  return key === "-" ? "lacking" : short(key);
}
