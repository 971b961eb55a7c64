// Numbers, times and names as a person reads them. Pure: no DOM, no clock.

const prefixes = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** A count or a rate with three significant digits: 1234567 is "1.23 M". */
export function si(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  for (const [unit, letter] of prefixes) {
    // 999,600 is "1.00 M" and not "1000 k".
    if (size >= unit * 0.9995) return `${threeDigits(value / unit)} ${letter}`;
  }
  if (size === 0) return "0";
  return Number.isInteger(value) ? String(value) : threeDigits(value);
}

function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** A whole number with thousands apart: 48502 is "48,502". */
export function whole(value) {
  return Number.isFinite(value) ? Math.round(value).toLocaleString("en-GB") : "–";
}

/** A duration in seconds with its unit: 0.034 is "34 ms", 75 is "75 s". */
export function seconds(value) {
  if (!Number.isFinite(value) || value < 0) return "–";
  if (value === 0) return "0 s";
  if (value < 0.9995) return `${value < 0.00995 ? (value * 1e3).toFixed(1) : Math.round(value * 1e3)} ms`;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 99.5) return `${Math.round(value)} s`;
  return age(value);
}

/** How long something takes or took, in the largest two units: "1 h 05 min". */
export function age(value) {
  if (!Number.isFinite(value)) return "–";
  const s = Math.max(0, Math.round(value));
  const two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** A share between 0 and 1 in per cent. */
export function percent(value) {
  return Number.isFinite(value) ? `${(value * 100).toFixed(value > 0 && value < 0.0995 ? 1 : 0)} %` : "–";
}

/** The time of day of an RFC 3339 time or of milliseconds since 1970. */
export function clock(time) {
  const at = instant(time);
  return Number.isFinite(at) ? new Date(at).toLocaleTimeString("en-GB") : "–";
}

/** Milliseconds since 1970 of an RFC 3339 time; NaN where there is none. */
export function instant(time) {
  if (typeof time === "number") return time;
  if (!time || time.startsWith("0001-")) return NaN;
  return Date.parse(time);
}

/** missense_variant is "missense variant". */
export function words(name) {
  return (name ?? "").replaceAll("_", " ");
}

/** What a sequence network says of an allele, its largest changes first: "0.62 in TUBB8: donor loss 0.62 at +0, acceptor loss 0.18 at +110". */
export function score(s, most = 4) {
  if (!(s.changes ?? []).length) return [s.gene, `not scored: ${s.unscored ?? "the network says nothing"}`].filter(Boolean).join(": ");
  const changes = [...s.changes].sort((a, b) => Math.abs(b.score) - Math.abs(a.score)).filter((c, i) => i === 0 || c.score !== 0);
  const parts = changes.slice(0, most).map((c) => `${words(c.name)} ${c.score}${Number.isFinite(c.position) ? ` at ${c.position < 0 ? "−" : "+"}${whole(Math.abs(c.position))}` : ""}`);
  if (changes.length > most) parts.push(count(changes.length - most, "more", "more"));
  return `${s.score}${s.gene ? ` in ${s.gene}` : ""}: ${parts.join(", ")}`;
}

/** A long allele with its middle left out: "ACGTACGT…ACGT (1,204)". */
export function allele(bases, room = 12) {
  if (!bases) return "–";
  return bases.length <= room ? bases : `${bases.slice(0, room - 5)}…${bases.slice(-3)} (${whole(bases.length)})`;
}

/** "1 read", "2 reads". */
export function count(n, one, many = `${one}s`) {
  return `${whole(n)} ${n === 1 ? one : many}`;
}

/** Round numbers for the ticks of an axis from `from` to `to`, about `about` of them. */
export function ticks(from, to, about) {
  const span = to - from;
  if (!(span > 0) || about < 1) return [];
  const rough = span / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const out = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) out.push(i * step);
  return out;
}
