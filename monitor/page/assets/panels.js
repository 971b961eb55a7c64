// The lists and tables: runs, problems, watch-lists, pipeline, processes.

import { byId, element, keyed, setAttribute, setText } from "./dom.js";
import { age, clock, count, instant, percent, seconds, si, whole } from "./format.js";
import { sortedProblems } from "./store.js";
import { sentence } from "./variants.js";

const severityWords = { error: "Error", warning: "Warning", info: "Note" };

export function showRuns(summary) {
  const runs = (summary?.runs ?? []).slice(0, 6);
  const now = instant(summary?.now);
  keyed(
    byId("runs"), runs, (r) => r.id,
    () => element("li", {}, element("strong"), element("span")),
    (item, r) => {
      setAttribute(item, "data-state", r.state);
      setText(item.children[0], r.sample || r.id);
      const lasted = ((r.ended ? instant(r.ended) : now) - instant(r.started)) / 1000;
      setText(item.children[1], [r.position, r.flow_cell, r.kit, `${r.state}${lasted > 0 && lasted < 4e6 ? ` ${r.state === "running" ? "for" : "after"} ${age(lasted)}` : ""}`].filter(Boolean).join(" · "));
    },
  );
}

export function showProblems(problems, now, reading) {
  const all = sortedProblems(problems);
  const worst = all[0]?.severity ?? "none";
  setAttribute(byId("problems-panel"), "data-worst", worst);
  byId("problems-empty").hidden = all.length > 0;
  const errors = all.filter((p) => p.severity === "error").length;
  const warnings = all.filter((p) => p.severity === "warning").length;
  setText(byId("problems-sum"), [errors ? count(errors, "error") : "", warnings ? count(warnings, "warning") : "", all.length - errors - warnings ? count(all.length - errors - warnings, "note") : ""].filter(Boolean).join(", "));
  setText(byId("problems-empty"), reading ? "Nothing is wrong that the page knows of." : "Not known yet.");
  keyed(
    byId("problems"), all.slice(0, 100), (p) => p.id,
    () =>
      element("li", {},
        element("span", { class: "severity" }),
        element("div", { class: "problem-text" }, element("h3"), element("p", { class: "problem-detail" }), element("p", { class: "problem-do" }, element("strong", { text: "What to do: " }), element("span"))),
        element("p", { class: "problem-when" })),
    (item, p) => {
      setAttribute(item, "data-severity", p.severity);
      setText(item.children[0], severityWords[p.severity] ?? p.severity);
      const [title, detail, todo] = item.children[1].children;
      setText(title, p.title);
      setText(detail, p.detail);
      detail.hidden = !p.detail;
      setText(todo.children[1], p.do);
      todo.hidden = !p.do;
      const last = (now - instant(p.last)) / 1000;
      setText(item.children[2], [p.stage, p.count > 1 ? `${whole(p.count)} times` : "", Number.isFinite(last) && last < 1e8 ? `${last < 5 ? "now" : `${age(last)} ago`}` : ""].filter(Boolean).join(" · "));
    },
  );
}

const stateOrder = { DETECTED: 0, RESISTANT: 0, CLASSIFIED: 0, SUSPECTED: 1, INTERMEDIATE: 1, NOT_CALLABLE: 2, PENDING: 3, NEGATIVE: 4, SUSCEPTIBLE: 4 };

export function showAlerts(alerts) {
  const all = [...alerts.values()].sort(
    (a, b) => (stateOrder[a.state] ?? 5) - (stateOrder[b.state] ?? 5) || (a.panel < b.panel ? -1 : a.panel > b.panel ? 1 : a.title < b.title ? -1 : 1),
  );
  byId("watch-empty").hidden = all.length > 0;
  const detected = all.filter((a) => a.state === "DETECTED").length;
  setText(byId("watch-sum"), all.length > 0 ? `${whole(detected)} of ${whole(all.length)} detected` : "");
  keyed(
    byId("alerts"), all.slice(0, 300), (a) => a.id,
    () =>
      element("li", {}, element("span", { class: "alert-state" }),
        element("div", {}, element("h3"), element("p", { class: "alert-evidence" })),
        element("p", { class: "alert-when" })),
    (item, a) => {
      setAttribute(item, "data-state", a.state);
      setAttribute(item, "data-severity", (a.severity ?? "").toLowerCase());
      setText(item.children[0], a.state === "NOT_CALLABLE" ? "Not callable" : sentence(a.state));
      setText(item.children[1].children[0], a.title || a.rule);
      setText(item.children[1].children[1], a.evidence);
      setText(item.children[2], [a.panel, a.sample, clock(a.updated)].filter(Boolean).join(" · "));
    },
  );
}

export function showPipeline(summary) {
  if (!summary) return;
  const measured = (summary.latency ?? []).filter((l) => l.p99 !== null && l.p99 !== undefined);
  const cells = (...classes) => () => element("tr", {}, element("th", { scope: "row" }), ...classes.map((c) => element("td", { class: c || null })));
  // Both ends of the span on one logarithmic scale, so that milliseconds and minutes have room.
  const scale = (v) => Math.max(0, Math.min(1, Math.log10(Math.max(v, 1e-3) / 1e-3) / 5));
  table("latency-table", measured, (l) => l.stage, () => row(cells("wide", "n", "n"), "span-bar"), (tr, l) => {
    setText(tr.children[0], l.title || l.stage);
    const bar = tr.children[1].firstElementChild;
    bar.style.setProperty("--from", String(scale(l.p50)));
    bar.style.setProperty("--to", String(scale(l.p99)));
    setText(tr.children[2], seconds(l.p50));
    setText(tr.children[3], seconds(l.p99));
  });
  table("lag-table", summary.lag ?? [], (l) => `${l.topic}/${l.stage}`, cells("", "n", "n"), (tr, l) => {
    setText(tr.children[0], l.topic);
    setText(tr.children[1], l.stage);
    setText(tr.children[2], whole(l.records));
    setText(tr.children[3], l.records === 0 ? "–" : l.seconds === null ? "nobody reads" : seconds(l.seconds));
    setAttribute(tr, "data-level", l.records > 0 && (l.seconds === null || l.seconds > 30) ? "warning" : null);
  });
  table("device-table", summary.devices ?? [], (d) => `${d.process}/${d.name}/${d.model}`, () => row(cells("wide", "n"), "share-bar"), (tr, d) => {
    setText(tr.children[0], [d.name, d.model, summary.processes?.length > 1 ? d.process : ""].filter(Boolean).join(" · "));
    tr.children[1].firstElementChild.style.setProperty("--share", String(Math.min(1, d.busy ?? 0)));
    setText(tr.children[2], d.busy === null ? "–" : percent(d.busy));
  });
  const b = summary.batch ?? {};
  const by = b.by_dispatch ?? {};
  const sent = (by.full ?? 0) + (by.delay ?? 0) + (by.drain ?? 0) + (by.retry ?? 0);
  const share = (n) => (sent > 0 ? n / sent : 0);
  const batch = [
    ["Fill", b.fill ?? 0, b.fill === null || b.fill === undefined ? "–" : percent(b.fill)],
    ["Windows in a batch", null, b.windows_per_batch ? b.windows_per_batch.toFixed(1) : "–"],
    ["Windows that wait", null, whole(b.queue_windows ?? 0)],
    ["Sent because full", share(by.full), whole(by.full ?? 0)],
    ["Sent after waiting", share(by.delay), whole(by.delay ?? 0)],
    ["Sent at an end", share(by.drain), whole(by.drain ?? 0)],
    ...(by.retry > 0 ? [["Sent again", share(by.retry), whole(by.retry)]] : []),
  ];
  table("batch-table", batch, (x) => x[0], () => row(cells("wide", "n"), "share-bar"), (tr, [name, part, text]) => {
    setText(tr.children[0], name);
    const bar = tr.children[1].firstElementChild;
    bar.hidden = part === null;
    bar.style.setProperty("--share", String(part ?? 0));
    setText(tr.children[2], text);
  });
  const t = summary.totals ?? {};
  setText(byId("batch-sum"), `${si(t.reads ?? 0)} reads, ${si(t.bases ?? 0)} bases; ${count(t.gaps ?? 0, "gap")}, ${count(t.dead_letters ?? 0, "dead letter")}`);
}

export function showProcesses(summary) {
  const all = summary?.processes ?? [];
  const now = instant(summary?.now);
  const silent = all.filter((p) => p.state === "silent").length;
  setText(byId("processes-sum"), all.length ? `${whole(all.filter((p) => p.state === "up").length)} up${silent ? `, ${whole(silent)} silent` : ""}` : "none has reported yet");
  table(
    "process-table", all, (p) => p.instance,
    () => element("tr", {}, element("th", { scope: "row" }), ...["", "", "", "", "n", "n", "n", ""].map((c) => element("td", { class: c || null }))),
    (tr, p) => {
      setAttribute(tr, "data-state", p.state);
      const texts = [
        p.instance, p.kind,
        p.state === "silent" ? `silent for ${age(p.silent_seconds)}` : p.state,
        (p.stages ?? []).join(", "), p.host || "–",
        p.cpu === null || p.cpu === undefined ? "–" : p.cpu.toFixed(1),
        p.memory > 0 ? `${si(p.memory)}B` : "–",
        p.state === "stopped" ? "–" : age((now - instant(p.started)) / 1000), p.version,
      ];
      texts.forEach((text, i) => setText(tr.children[i], text));
    },
  );
}

function table(id, items, key, make, update) {
  const t = byId(id);
  t.hidden = items.length === 0;
  keyed(t.tBodies[0], items.slice(0, 200), key, make, update);
}

// A row whose second cell has a bar.
function row(make, kind) {
  const tr = make();
  tr.children[1].append(element("span", { class: kind, "aria-hidden": "true" }));
  return tr;
}
