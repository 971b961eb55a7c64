"""How good models are that a recipe makes: folds, figures with intervals, the report."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from . import markers, metrics, peers, training
from .encoding import Encoder
from .energy import Cost
from .network import parameters
from .processes import Processes
from .recipe import Recipe
from .tables import Table, folds, groups

log = logging.getLogger("biomarker_train")

ROUNDS = 200
MISSING = 0.3
COSTS = "costs.json"


def evaluate(recipe: Recipe, data: Path, work: Path, processes: Processes | None = None) -> dict:
    """Cross-validates a recipe, and its peers in the same folds. Members that lie in the work folder are not trained again."""
    processes = processes or Processes()
    costs: list[Cost | None] = []
    seconds = {"model": 0.0, "peers": 0.0, "curve": 0.0, "report": 0.0}
    since = time.process_time() + processes.processor_seconds

    def spent(on: str) -> None:
        nonlocal since
        now = time.process_time() + processes.processor_seconds
        seconds[on] += now - since
        since = now

    table = recipe.table(data)
    terms, left_out = recipe.terms(data)
    isolates, tasks = table.isolates, recipe.tasks
    group = np.array(groups(isolates))
    fold = np.array(folds(isolates, recipe.folds, recipe.settings.seed))
    label = np.array([[float(i.labels[t]) if t in i.labels else np.nan for t in tasks] for i in isolates])
    shape = (len(isolates), len(tasks))
    names = ["probability", "missing", "threshold", *peers.NAMES, *(f"{name}_missing" for name in peers.NAMES)]
    out = {name: np.full(shape, np.nan) for name in names}
    curve = {share: np.full(shape, np.nan) for share in recipe.curve}
    blind = np.zeros(shape, bool)
    size = 0
    for f in range(recipe.folds):
        inside, outside = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        features, model = _trained(recipe, table, terms, inside, work / f"fold-{f}", processes)
        costs += model.costs
        size = max(size, parameters(model.network))
        encoder = Encoder(features)
        present, known = encoder.present([isolates[i] for i in outside])
        x = encoder.inputs(present, known)
        kept = encoder.leave_out(known, torch.Generator().manual_seed(1000 + f), MISSING)
        holes = encoder.inputs(present, kept)
        out["probability"][outside], out["missing"][outside] = model.probability(x), model.probability(holes)
        out["threshold"][outside] = model.thresholds
        for t, (_, codons) in enumerate(features.decisive):
            if codons:
                blind[outside, t] = (kept[:, [encoder.codon_number[at] for at in codons]] == 0).any(1).numpy()
        spent("model")
        learn = encoder.inputs(*encoder.present([isolates[i] for i in inside]))
        for name, said in peers.judge(encoder, learn, label[inside], [x, holes], recipe.settings.seed).items():
            out[name][outside], out[f"{name}_missing"][outside] = said
        spent("peers")
        for share in recipe.curve:
            some = _share(inside, group, share, recipe.settings.seed)
            features, model = _trained(recipe, table, terms, some, work / f"fold-{f}-of-{share}", processes)
            costs += model.costs
            encoder = Encoder(features)
            curve[share][outside] = model.probability(encoder.inputs(*encoder.present([isolates[i] for i in outside])))
        spent("curve")
        log.info("fold %d of %d", f + 1, recipe.folds)
    report = _figures(recipe, label, out, blind, group)
    report["isolates"], report["groups"], report["parameters"] = len(isolates), len(set(group)), size
    report["left_out"] = left_out
    report["curve"] = [[share, _curve(recipe, label, curve[share])] for share in recipe.curve]
    report["curve"].append([1.0, report["mean"]["auc"][0]])
    report["markers"] = _markers(table, recipe)
    spent("report")
    report["processor_seconds"] = {name: round(value, 1) for name, value in seconds.items()}
    report["training"] = _compared(work, processes, costs, report["mean"])
    return report


def _compared(work: Path, processes: Processes, costs: list[Cost | None], mean: dict) -> dict[str, dict]:
    """What training the networks cost, and what came of it, by device and precision: here, and in earlier runs with this folder."""
    known = [cost for cost in costs if cost]
    total = known[0] if known else Cost()
    for cost in known[1:]:
        total += cost
    here = {"devices_kind": processes.kind, "networks": len(costs), "measured": len(known)} | asdict(total)
    here |= {name: mean[name][0] for name in ("auc", "f1", "ece")}
    path = work / COSTS
    compared = json.loads(path.read_text()) if path.is_file() else {}
    if known:
        compared[processes.title] = here
    work.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(json.dumps(compared, indent=1) + "\n")
    os.replace(path.with_suffix(".new"), path)
    return dict(sorted(compared.items()))


def _costs(compared: dict[str, dict]) -> list[str]:
    """The part of the report for people on time and energy."""
    lines = ["", "Training of the networks (folds and learning curve):", ""]
    if not compared:
        return [*lines[:1], "What training the networks cost was not measured: they lay in the work folder."]

    def joules(column: dict, of: str) -> str:
        value = column[f"{of}_joules"]
        return f"{value:.0f}" if value is not None else f"not known: {column[f'no_{of}_joules']}"

    rows = {
        "device": lambda c: c["devices"],
        "networks, measured of all": lambda c: f"{c['measured']} of {c['networks']}",
        "seconds": lambda c: f"{c['seconds']:.1f}",
        "seconds of processor time": lambda c: f"{c['processor_seconds']:.1f}",
        "energy of the machine's processors, J": lambda c: joules(c, "processor"),
        "energy of the GPUs, J": lambda c: joules(c, "gpu") if c["devices_kind"] == "GPU" else "none",
        "mean AUC, F1, calibration error": lambda c: f"{c['auc']:.3f}, {c['f1']:.3f}, {c['ece']:.3f}",
    }
    lines += ["| | " + " | ".join(compared) + " |", "|" + "---|" * (1 + len(compared))]
    lines += [f"| {name} | " + " | ".join(cell(column) for column in compared.values()) + " |" for name, cell in rows.items()]
    missing = [kind for kind in ("CPU", "GPU") if all(column["devices_kind"] != kind for column in compared.values())]
    if missing:
        lines += ["", f"Not trained on a {missing[0]} with this work folder."]
    return lines


def _trained(recipe: Recipe, table: Table, terms, rows: np.ndarray, work: Path, processes: Processes):
    """What a network of these isolates sees, and the model of them."""
    isolates = [table.isolates[i] for i in rows]
    features = recipe.features(Table(isolates, table.wild), terms)
    return features, training.train(features, isolates, recipe.shape, recipe.settings, work, processes)


def _share(rows: np.ndarray, group: np.ndarray, share: float, seed: int) -> np.ndarray:
    """The isolates of a share of the groups; a larger share has those of a smaller one."""
    names = np.unique(group[rows])
    drawn = np.random.default_rng(seed).permutation(names)[: max(1, round(share * len(names)))]
    return rows[np.isin(group[rows], drawn)]


def _curve(recipe: Recipe, label: np.ndarray, probability: np.ndarray) -> float:
    """The mean AUC of the tasks that count."""
    each = []
    for t, task in enumerate(recipe.tasks):
        has = ~np.isnan(label[:, t])
        if task not in recipe.few:
            each.append(metrics.auc(label[has, t] > 0.5, probability[has, t]))
    return round(float(np.nanmean(each)), 4)


def _task(label, out: dict[str, np.ndarray], blind) -> dict[str, float]:
    probability, threshold, missing = out["probability"], out["threshold"], out["missing"]
    figures = metrics.classified(label, probability >= threshold)
    figures |= {"auc": metrics.auc(label, probability), "ece": metrics.calibration_error(label, probability)}
    figures["missing_auc"] = metrics.auc(label, missing)
    for name in peers.NAMES:
        figures[f"{name}_auc"] = metrics.auc(label, out[name])
        figures[f"{name}_f1"] = metrics.classified(label, out[name] >= (peers.RULE if name == "rules" else 0.5))["f1"]
        figures[f"{name}_missing_auc"] = metrics.auc(label, out[f"{name}_missing"])
        if name != "rules":
            figures[f"{name}_ece"] = metrics.calibration_error(label, out[name])
    # Of the questions of which no decisive codon is missing, whatever the answer.
    figures["missing_callable_auc"] = metrics.auc(label[~blind], missing[~blind])
    # RESISTANT is said also where decisive codons are missing.
    answered = ~blind | (missing >= threshold)
    figures["missing_answered"] = float(answered.mean())
    said = metrics.classified(label[answered], (missing >= threshold)[answered]) if answered.any() else {"accuracy": np.nan}
    figures["missing_accuracy"] = said["accuracy"]
    return figures


def _figures(recipe: Recipe, label, out, blind, group) -> dict:
    """Figures of each task and their means, with 95 % intervals by drawing groups with replacement."""
    tasks = recipe.tasks
    counted = [t for t, task in enumerate(tasks) if task not in recipe.few]

    def all_tasks(rows: np.ndarray) -> list[dict[str, float]]:
        each = []
        for t in range(len(tasks)):
            has = rows[~np.isnan(label[rows, t])]
            columns = {name: values[has, t] for name, values in out.items()}
            each.append(_task(label[has, t] > 0.5, columns, blind[has, t]) if len(has) else {})
        names = {name: None for t in counted for name in each[t]}
        each.append({name: float(np.nanmean([each[t].get(name, np.nan) for t in counted])) for name in names})
        return each

    point = all_tasks(np.arange(len(label)))
    names, of = np.unique(group, return_inverse=True)
    members = [np.flatnonzero(of == i) for i in range(len(names))]
    generator = np.random.default_rng(1)
    drawn = []
    for _ in range(ROUNDS):
        drawn.append(all_tasks(np.concatenate([members[i] for i in generator.integers(0, len(names), len(names))])))
    report: dict = {"tasks": {}}
    for t, task in enumerate([*tasks, "mean"]):
        has = ~np.isnan(label[:, t]) if t < len(tasks) else None
        entry: dict = {"labels": int(has.sum()), "resistant": int(np.nansum(label[:, t]))} if has is not None else {}
        for name in point[t]:
            entry[name] = [round(float(v), 4) for v in _interval(point[t], [d[t] for d in drawn], name)]
        if t < len(tasks):
            report["tasks"][task] = entry
        else:
            report["mean"] = entry | {"tasks": len(counted)}
    return report


def _interval(point: dict[str, float], drawn: list[dict[str, float]], name: str) -> tuple[float, float, float]:
    """A figure, and between which it lies in 95 % of the draws.

    Problem: an error of calibration is a sum of distances, which drawing adds to whatever the probabilities: nearly all draws have
    a larger one than what they are drawn of, so their percentiles need not hold it.

    Strategy: what draws have more on average is taken off.
    """
    value, values = point[name], [d.get(name, np.nan) for d in drawn]
    low, high = np.nanpercentile(values, [2.5, 97.5])
    if name.endswith("ece"):
        more = float(np.nanmean(values)) - value
        low, high = max(0.0, low - more), max(0.0, high - more)
    return value, float(low), float(high)


def _markers(table: Table, recipe: Recipe) -> list[dict]:
    genes: dict[str, list[str]] = {}
    for source in recipe.sources:
        for task in source.tasks:
            genes.setdefault(task, []).append(source.gene)
    return [m.__dict__ for m in markers.rank(table, recipe.tasks, genes) if m.q <= 0.05]


def text(report: dict) -> str:
    """The report for people, as Markdown."""
    mean = report["mean"]

    def cell(entry: dict, name: str) -> str:
        value, low, high = entry[name]
        return f"{value:.3f} ({low:.3f} to {high:.3f})"

    spent = report["processor_seconds"]
    lines = [
        f"{report['isolates']} isolates in {report['groups']} groups of a patient or genotype, {report['parameters']} parameters. "
        + "Folds keep groups whole; intervals are of 95 %. Seconds of processor time: "
        + ", ".join(f"{name} {value:.0f}" for name, value in spent.items())
        + ".",
        "",
        f"| mean of {mean['tasks']} | AUC | F1 | calibration error | AUC, 30 % of codons missing |",
        "|" + "---|" * 5,
    ]
    for name, title in [*((f"{peer}_", title) for peer, title in peers.NAMES.items()), ("", "model")]:
        cells = [cell(mean, f"{name}{of}") if f"{name}{of}" in mean else "" for of in ("auc", "f1", "ece", "missing_auc")]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    titles = [*peers.NAMES.values(), "model"]
    lines += [
        "",
        f"| task | labels, resistant | AUC of {' | '.join(titles)} | F1 of {' | '.join(titles)} |",
        "|" + "---|" * (2 + 2 * len(titles)),
    ]
    for task, e in report["tasks"].items():
        counts = f"{e['labels']}, {e['resistant']}"
        names = [f"{name}{of}" for of in ("auc", "f1") for name in (*(f"{peer}_" for peer in peers.NAMES), "")]
        lines.append(f"| {task} | {counts} | " + " | ".join(cell(e, n) if n in e else "" for n in names) + " |")
    lines += [
        "",
        "| task | calibration error | accuracy, precision, recall | AUC, 30 % of codons missing | … no decisive one "
        "| … answered, accuracy of answers |",
        "|" + "---|" * 6,
    ]
    for task, e in [*report["tasks"].items(), (f"mean of {mean['tasks']}", mean)]:
        if "auc" not in e:
            continue
        cells = [
            task,
            cell(e, "ece"),
            ", ".join(f"{e[name][0]:.3f}" for name in ("accuracy", "precision", "recall")),
            cell(e, "missing_auc"),
            cell(e, "missing_callable_auc"),
            f"{e['missing_answered'][0]:.2f}, {e['missing_accuracy'][0]:.3f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    points = ", ".join(f"{value:.3f} of {100 * share:.0f} %" for share, value in report["curve"])
    lines += ["", f"Learning curve, mean AUC by share of the training groups: {points}."]
    lines += [
        "",
        "Markers by task, at a false discovery rate of 5 %, the first of each (groups with it that are resistant, of all with it):",
        "",
    ]
    for task in report["tasks"]:
        first = [m for m in report["markers"] if m["task"] == task][:8]
        named = ", ".join(f"{m['residue']} ({m['with_resistant']} of {m['with_all']})" for m in first) or "none"
        lines.append(f"- {task}: {named}")
    lines += _costs(report["training"])
    if report["left_out"]:
        lines += ["", f"Conditions of the rules that are not in residues, left out: {', '.join(report['left_out'])}."]
    return "\n".join(lines) + "\n"


def write(report: dict, work: Path) -> None:
    """Writes the report for people and for programs."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "report.md").write_text(text(report))
    (work / "report.json").write_text(json.dumps(report, indent=1) + "\n")
