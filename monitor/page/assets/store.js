// What the page knows: a fold of the server's events. Pure: no DOM, no clock.

import { instant } from "./format.js";

/** How many points of a history are kept. */
const longest = 180;

export class Store {
  constructor() {
    this.hello = null;
    this.summary = null;
    this.history = { seconds_per_point: 1, samples: [], sequencer: [], bases: [], reads: [] };
    this.flowCells = [];
    this.contigs = new Map(); // sample and name → contig
    this.tracks = new Map(); // sample, contig, code and haplotype → modification
    this.variants = new Map(); // id → row; a row is replaced, never changed
    this.alerts = new Map();
    this.diplotypes = new Map();
    this.problems = new Map();
    this.since = Infinity; // when the connection began, by the server's clock
    this.variantsChanged = 0; // grows with every change of variants
    this.stale = new Set(["summary"]); // parts of which nothing has come since the last hello
  }

  /**
   * Takes one event and returns the name of the part that changed. `now` (ms, any
   * monotonic clock) dates changes of variants. Unknown events change nothing.
   */
  apply(type, data, now) {
    switch (type) {
      case "hello":
        this.hello = data;
        // All of it is sent again. Each part stays on the page until its first event is there.
        this.since = instant(data.server_time) || Infinity;
        this.stale = new Set(["summary", "depth", "methylation", "alerts", "diplotypes", "problems"]);
        return "hello";
      case "summary":
        this.#summary(data);
        return "summary";
      case "channels":
        this.flowCells = data.flow_cells ?? [];
        return "channels";
      case "depth":
        if (this.stale.delete("depth")) this.contigs = new Map();
        for (const contig of data.contigs ?? []) this.contigs.set(contigKey(contig), contig);
        return "depth";
      case "methylation":
        if (this.stale.delete("methylation")) this.tracks = new Map();
        for (const track of data.tracks ?? []) this.tracks.set(`${contigKey(track)}\n${track.code}\n${track.haplotype ?? 0}`, track);
        return "methylation";
      case "variants":
        this.#variants(data, now);
        return "variants";
      case "alerts":
        if (this.stale.delete("alerts")) this.alerts = new Map();
        for (const alert of data.upsert ?? []) this.alerts.set(alert.id, alert);
        return "alerts";
      case "diplotypes":
        if (this.stale.delete("diplotypes")) this.diplotypes = new Map();
        for (const row of data.upsert ?? []) this.diplotypes.set(row.id, row);
        return "diplotypes";
      case "problems":
        if (this.stale.delete("problems")) this.problems = new Map();
        for (const problem of data.upsert ?? []) this.problems.set(problem.id, problem);
        for (const id of data.remove ?? []) this.problems.delete(id);
        return "problems";
      default:
        return null;
    }
  }

  #summary(data) {
    // The first summary of a connection has the whole history, later ones the last point.
    const whole = this.stale.delete("summary");
    this.summary = data;
    const given = data.history;
    if (!given) return;
    for (const name of ["samples", "sequencer", "bases", "reads"]) {
      const points = given[name] ?? [];
      this.history[name] = (whole ? points : [...this.history[name], ...points]).slice(-longest);
    }
    this.history.seconds_per_point = given.seconds_per_point || 1;
  }

  #variants(data, now) {
    if (data.reset) this.variants = new Map();
    for (const row of data.upsert ?? []) {
      const before = this.variants.get(row.id);
      row.updatedAt = instant(row.updated);
      // What came before the page did is no news.
      const changed = before ? before.revision !== row.revision : row.updatedAt > this.since;
      row.changedAt = changed ? now : (before?.changedAt ?? -Infinity);
      row.hay = null;
      this.variants.set(row.id, row);
    }
    for (const id of data.remove ?? []) this.variants.delete(id);
    this.variantsChanged++;
  }
}

/** The name of a contig of a sample. */
export function contigKey(c) {
  return `${c.sample}\n${c.name}`;
}

const severities = { error: 0, warning: 1, info: 2 };

/** Problems with the worst first, the newest before the older. */
export function sortedProblems(problems) {
  return [...problems.values()].sort(
    (a, b) =>
      (severities[a.severity] ?? 3) - (severities[b.severity] ?? 3) ||
      (instant(b.last) || 0) - (instant(a.last) || 0) ||
      (a.id < b.id ? -1 : 1),
  );
}
