"""How good models are that a recipe makes: folds, figures with intervals, the report."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import numpy as np
import torch

from . import markers, metrics, training
from .encoding import Encoder
from .network import parameters
from .recipe import Recipe
from .tables import Table, folds, groups

log = logging.getLogger("biomarker_train")

ROUNDS = 200
MISSING = 0.3
RULE = 30.0
"""The score from which rules are taken to say resistant."""
SHOWN = ("accuracy", "precision", "recall", "f1", "auc", "ece")


def evaluate(recipe: Recipe, data: Path, work: Path) -> dict:
    """Cross-validates a recipe. Members that lie in the work folder are not trained again."""
    start = time.process_time()
    table = recipe.table(data)
    terms, left_out = recipe.terms(data)
    isolates, tasks = table.isolates, recipe.tasks
    fold = np.array(folds(isolates, recipe.folds, recipe.settings.seed))
    shape = (len(isolates), len(tasks))
    out = {name: np.full(shape, np.nan) for name in ("probability", "missing", "score", "threshold")}
    blind = np.zeros(shape, bool)
    size = 0
    for f in range(recipe.folds):
        inside = [isolate for isolate, of in zip(isolates, fold, strict=True) if of != f]
        outside = [isolate for isolate, of in zip(isolates, fold, strict=True) if of == f]
        features = recipe.features(Table(inside, table.wild), terms)
        model = training.train(features, inside, recipe.shape, recipe.settings, work / f"fold-{f}")
        size = max(size, parameters(model.network))
        encoder = Encoder(features)
        present, known = encoder.present(outside)
        x = encoder.inputs(present, known)
        first = len(features.residues)
        out["probability"][fold == f] = model.probability(x)
        out["score"][fold == f] = x[:, first : first + len(tasks)].numpy()
        out["threshold"][fold == f] = model.thresholds
        kept = encoder.leave_out(known, torch.Generator().manual_seed(1000 + f), MISSING)
        out["missing"][fold == f] = model.probability(encoder.inputs(present, kept))
        for t, (_, codons) in enumerate(features.decisive):
            if codons:
                blind[fold == f, t] = (kept[:, [encoder.codon_number[at] for at in codons]] == 0).any(1).numpy()
        log.info("fold %d of %d", f + 1, recipe.folds)
    label = np.array([[float(i.labels[t]) if t in i.labels else np.nan for t in tasks] for i in isolates])
    report = _figures(recipe, label, out, blind, np.array(groups(isolates)))
    report["isolates"], report["groups"], report["parameters"] = len(isolates), len(set(groups(isolates))), size
    report["left_out"] = left_out
    report["processor_seconds"] = round(time.process_time() - start, 1)
    report["markers"] = _markers(table, recipe)
    return report


def _task(label, probability, threshold, score, missing, blind) -> dict[str, float]:
    figures = metrics.classified(label, probability >= threshold)
    figures |= {"auc": metrics.auc(label, probability), "ece": metrics.calibration_error(label, probability)}
    figures["rules_auc"], figures["rules_f1"] = metrics.auc(label, score), metrics.classified(label, score >= RULE)["f1"]
    figures["missing_auc"] = metrics.auc(label, missing)
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
            columns = [out[name][has, t] for name in ("probability", "threshold", "score", "missing")]
            each.append(_task(label[has, t] > 0.5, *columns, blind[has, t]) if len(has) else {})
        each.append({name: float(np.nanmean([each[t][name] for t in counted])) for name in each[counted[0]]})
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
        for name, value in point[t].items():
            low, high = np.nanpercentile([d[t].get(name, np.nan) for d in drawn], [2.5, 97.5])
            entry[name] = [round(float(v), 4) for v in (value, low, high)]
        if t < len(tasks):
            report["tasks"][task] = entry
        else:
            report["mean"] = entry | {"tasks": len(counted)}
    return report


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

    lines = [
        f"{report['isolates']} isolates in {report['groups']} groups of a patient or genotype, {report['parameters']} parameters, "
        + f"{report['processor_seconds']:.0f} s of processor time. Folds keep groups whole; intervals are of 95 %.",
        "",
        "| task | labels, resistant | AUC | AUC of rules | F1 | F1 of rules | calibration error | accuracy, precision, recall "
        "| AUC, 30 % of codons missing | … no decisive one | … answered, accuracy of answers |",
        "|" + "---|" * 11,
    ]
    for task, e in [*report["tasks"].items(), (f"mean of {mean['tasks']}", mean)]:
        counts = f"{e['labels']}, {e['resistant']}" if "labels" in e else ""
        if "auc" not in e:
            lines.append(f"| {task} | {counts} |" + " |" * 9)
            continue
        plain = ", ".join(f"{e[name][0]:.3f}" for name in ("accuracy", "precision", "recall"))
        cells = [
            task,
            counts,
            cell(e, "auc"),
            f"{e['rules_auc'][0]:.3f}",
            cell(e, "f1"),
            f"{e['rules_f1'][0]:.3f}",
            cell(e, "ece"),
            plain,
            cell(e, "missing_auc"),
            cell(e, "missing_callable_auc"),
            f"{e['missing_answered'][0]:.2f}, {e['missing_accuracy'][0]:.3f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "Markers by task, at a false discovery rate of 5 %, the first of each (groups with it that are resistant, of all with it):",
        "",
    ]
    for task in report["tasks"]:
        first = [m for m in report["markers"] if m["task"] == task][:8]
        named = ", ".join(f"{m['residue']} ({m['with_resistant']} of {m['with_all']})" for m in first) or "none"
        lines.append(f"- {task}: {named}")
    if report["left_out"]:
        lines += ["", f"Conditions of the rules that are not in residues, left out: {', '.join(report['left_out'])}."]
    return "\n".join(lines) + "\n"


def write(report: dict, work: Path) -> None:
    """Writes the report for people and for programs."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "report.md").write_text(text(report))
    (work / "report.json").write_text(json.dumps(report, indent=1) + "\n")
