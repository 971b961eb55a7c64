"""The model card: what a model is, what it was made from and how well it does."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from . import layout
from .calibration import EDGES, TYPES, Curve, Judged, applied
from .evaluation import Tally
from .manifest import NETWORK
from .network import operations
from .plot import Line, chart
from .recipe import RealSource, Recipe, SignalSource, SimulatedSource, Training
from .training import HELD_OUT

VALIDATION = "validation.json"


def write_validation(recipe: Recipe, judged: Judged, curves: list[Curve], work: Path) -> None:
    """Keeps what the card says of the examples that were held out."""
    del recipe
    rows, lines = [], {}
    for number, mode in enumerate(layout.MODES):
        for index, kind in enumerate(TYPES):
            some = judged.chosen((judged.labels["mode"] == number) & (judged.type == index))
            present = some.labels["copies"] > 0
            if not present.any():
                continue
            curve = next((c for c in curves if c.type == kind and c.mode == mode), None)
            qual = applied(curve.qual if curve else (), some.qual)
            rows.append(
                {
                    "mode": mode, "type": kind, "present": int(present.sum()), "absent": int((~present).sum()),
                    "found": int((qual[present] >= 12).sum()), "false": int((qual[~present] >= 12).sum()),
                    "copies": float(np.mean(some.copies[present].argmax(1) == some.labels["copies"][present])),
                    "auc": area(some.qual, present),
                }
            )  # fmt: skip
            lines[f"{mode} {kind}"] = reliability(qual, present, some.weight)
    (work / VALIDATION).write_text(json.dumps({"rows": rows, "reliability": lines}, indent=1) + "\n")


def reliability(qual: np.ndarray, present: np.ndarray, weight: np.ndarray) -> list[tuple[float, float]]:
    """Returns (said, observed) decibels of calibrated qualities, by bin."""
    points = []
    for low, high in zip(EDGES, EDGES[1:], strict=False):
        mask = (qual >= low) & (qual < high)
        wrong = weight[mask & ~present].sum()
        if wrong > 0 and mask.sum() >= 10:
            said = -10 * math.log10(np.average(10 ** (-qual[mask] / 10), weights=weight[mask]))
            points.append((round(said, 2), round(-10 * math.log10(wrong / weight[mask].sum()), 2)))
    return points


def area(score: np.ndarray, present: np.ndarray) -> float:
    """Returns how often a true allele scores higher than a false one (area under the ROC curve)."""
    order = np.argsort(score, kind="stable")
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    good = int(present.sum())
    return float((ranks[present].sum() - good * (good + 1) / 2) / (good * (len(score) - good)))


def write_card(recipe: Recipe, tallies: list[Tally], work: Path, folder: Path) -> None:
    """Writes README.md and its pictures into the model's folder."""
    held_out = json.loads((work / VALIDATION).read_text())
    lines = []
    for name, _, trained in recipe.trainings(work):
        curve = [json.loads(line) for line in (trained / "curve.jsonl").read_text().splitlines()]
        for head, label in (("copies", ""), (HELD_OUT, "held out")):
            lines.append(Line(f"{name} {label}".strip(), [(row["step"], row[head]) for row in curve if head in row]))
    chart(
        lines,
        "Training, head of copies", "steps", "loss / nats per example", folder / "training.svg",
    )  # fmt: skip
    chart(
        [Line(name, points) for name, points in held_out["reliability"].items()],
        "Calibrated QUAL, held-out examples", "QUAL", "observed", folder / "calibration.svg", diagonal=True,
    )  # fmt: skip
    parts = [
        _head(recipe, (folder / NETWORK).stat().st_size),
        _accuracy(tallies),
        _held_out(held_out["rows"]),
        _origin(recipe),
        *([_reads(recipe)] if recipe.reads else []),
        *(f"## {heading}\n\n{text.strip()}\n" for heading, text in recipe.notes.items()),
    ]
    (folder / "README.md").write_text("\n".join(parts))


def _head(recipe: Recipe, size: int) -> str:
    shape, training = recipe.shape, recipe.training
    budgets = [_budget(one.training) for _, one, _ in recipe.trainings(Path())]
    together = f"the mean logits of {len(budgets)} networks, each " if len(budgets) > 1 else ""
    return f"""# {recipe.name} {recipe.version}

{recipe.description}.

| | |
|---|---|
| input | `examples` float32 [N, 1, {layout.SIZE}], layout version {layout.VERSION} of package `variant`: {layout.PLANES} planes of {layout.COLUMNS} columns, {layout.SCALARS} scalars. Dwell times (the last {layout.PLANES - shape.planes} planes) are not used |
| output | `scores` float32 [N, 1, {layout.SCORES}], logits of three heads: copies (3), zygosity of the site (3), change of length (33); `manifest.toml` has the calibration |
| network | {together}a convolution to {shape.width} channels and three residual blocks, to {shape.deep} channels of {shape.deep_columns} columns; two layers of {shape.scalars} over the scalars; one of {shape.joined} over both |
| size | {size / 1e6:.2f} MB, fp32, ONNX standard operators; {len(budgets) * operations(shape) / 1e6:.2f} million multiplications per allele |
| training | {" and ".join(budgets)} of `variant_train` on {training.threads} CPU threads, from random weights |

![losses](training.svg) ![calibration](calibration.svg)
"""


def _budget(training: Training) -> str:
    return f"{training.minutes:g} minutes" if training.minutes else f"{training.steps} steps"


def _accuracy(tallies: list[Tally]) -> str:
    if not tallies:
        return "## Accuracy\n\nNot measured.\n"
    rows = ["| set | depth | kind | samples | true | found | calls | wrong | F1 | 95 % |", "|" + "---|" * 10]
    for t in tallies:
        if not t.truth and not t.called:
            continue
        low, high = t.interval()
        figures = f"{t.f1:.4f} | {low:.4f}-{high:.4f}" if t.truth else "- | -"
        rows.append(
            f"| {t.name} | {f'{t.depth:g}x' if t.depth else 'all'} | {t.kind} | {t.samples} | {t.truth} | {t.found} | {t.called} "
            f"| {t.called - t.right} | {figures} |"
        )
    table = "\n".join(rows)
    return f"""## Accuracy

`pore call` and `pore eval variants` (haplotypes are compared, with genotypes where the truth has them), on sets that were not
trained on; several samples are counted together. Intervals are Wilson's, of the share of true and called variants that match.

{table}
"""


def _held_out(rows: list[dict]) -> str:
    table = "\n".join(
        f"| {r['mode']} | {r['type']} | {r['present']} | {r['found']} | {r['absent']} | {r['false']} | {100 * r['copies']:.1f} % | {r['auc']:.4f} |"
        for r in rows
    )
    return f"""## Alleles held out of training

Each allele that reads show often enough to be evaluated, evaluated by itself; *passed* is a calibrated QUAL of 12 or more. Depths
and kinds are those of the training data, low depths and long homopolymers among them. Calibration was fitted on the same
alleles.

| sample | type | true | passed | false | passed | copies right | ROC area |
|---|---|---|---|---|---|---|---|
{table}
"""


_KINDS = {
    RealSource: "real reads, planted variants",
    SignalSource: "calls of simulated signal, planted variants",
    SimulatedSource: "simulated reads",
}


def _reads(recipe: Recipe) -> str:
    rows = ["| set | basecalling models | rests on | curves |", "|---|---|---|---|"]
    for one in recipe.reads:
        patterns = ", ".join(f"`{pattern}`" for pattern in one.models)
        rows.append(f"| {one.name} | {patterns} | {one.data}{' (simulated only)' if one.simulated else ''} | shared |")
    table = "\n".join(rows)
    return f"""## Whose reads it is for

Patterns are CHEMISTRY/TIER/VERSION, or a name; the first that matches counts. The shared curves were fitted over the examples of all
together; `variant_train calibrate` holds sets against curves of their own. Calls from other reads say `ModelMismatch`.

{table}
"""


def _origin(recipe: Recipe) -> str:
    rows = ["| use | data | licence |", "|---|---|---|"]
    for source in recipe.sources:
        kind = _KINDS[type(source)]
        rows.append(
            f"| training, {kind}, {source.worlds} samples | {source.citation or source.name} | {source.licence or 'unstated'} |"
        )
    for caller in recipe.basecallers:
        rows.append(
            f"| basecaller of training reads, its calls only | {caller.citation or caller.name} | {caller.licence or 'see there'} |"
        )
    for one in recipe.evaluations:
        rows.append(f"| evaluation only: {one.name} | {one.citation or one.name} | {one.licence or 'unstated'} |")
    table = "\n".join(rows)
    return f"""## Where it comes from

{table}
"""
