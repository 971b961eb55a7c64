"""From scores to probabilities.

Problem: variants are planted far more densely than they are found, and networks are surer than they should be. What a
network takes for a probability is neither the share of right answers in the training data nor that in a sample.

Strategy: on examples that were not trained on, each true allele is given the weight that makes its type as frequent per base
as in nature (:class:`.recipe.Nature`). A line is led through the log odds (Platt 1999): two numbers for each type and mode, which
a few errors determine, where a free curve would follow each of them. The slope is drawn to 1 and the offset is free; one made-up
error among the surest examples keeps qualities within what so many examples can show. The manifest has the line as a piecewise
linear curve of decibels.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from . import layout
from .network import Together
from .recipe import Nature, RealSource
from .store import Part

EDGES = np.array([0, 1, 2, 3, 4.5, 6, 8, 10, 12.5, 15, 18, 21, 25, 30, 35, 40, 50, 60, 80, 1000])
"""Decibels between which a card compares what was said and what was observed."""
GRID = (0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 25, 30, 40, 60, 90)
"""Decibels at which a curve has points."""
FICTION = 0.2
"""Weight of the made-up error."""
STEADINESS = 3.0
"""How strongly the slope is drawn to 1: in examples, about."""

TYPES = ("snp", "indel", "long_indel")
"""What curves are fitted apart for. Reads are often wrong by a base or two and hardly ever by many in the same place."""
NEAR = 16
"""Bases from a long indel that is there within which one that isn't is taken to be proposed because of it."""
PLOIDIES = {"haploid": "1", "diploid": "2", "mixture": "mixture"}


@dataclass(frozen=True)
class Curve:
    """Corrections of one type of allele in one mode."""

    type: str
    mode: str
    qual: tuple[tuple[float, float], ...]
    gq: tuple[tuple[float, float], ...]
    examples: int

    @property
    def ploidy(self) -> str:
        """The mode as the manifest has it."""
        return PLOIDIES[self.mode]


@dataclass(frozen=True)
class Judged:
    """What a network says of examples."""

    copies: np.ndarray
    """float64 [n, 3], natural log-probabilities before calibration."""
    labels: np.ndarray
    weight: np.ndarray
    """How many examples of a natural sample each stands for."""
    source: np.ndarray
    """Name of each example's source."""
    type: np.ndarray
    """Index into TYPES."""

    @property
    def qual(self) -> np.ndarray:
        """-10 log10 P(no copy)."""
        return np.maximum(0, -10 / np.log(10) * self.copies[:, 0])

    @property
    def sure(self) -> np.ndarray:
        """Decibels between one copy and two."""
        return 10 / np.log(10) * np.abs(self.copies[:, 1] - self.copies[:, 2])

    def chosen(self, mask: np.ndarray) -> Judged:
        """Returns a part of the examples."""
        return Judged(self.copies[mask], self.labels[mask], self.weight[mask], self.source[mask], self.type[mask])


def judge(network: Together, parts: list[Part], nature: Nature, batch: int = 2048) -> Judged:
    """Runs the network over examples."""
    copies, labels, weights, sources, types = [], [], [], [], []
    for part in parts:
        own = part.labels[part.rows]
        kinds = types_of(own["type"], part.examples[part.rows, layout.CHANGED])
        logits = []
        for first in range(0, len(part.rows), batch):
            rows = part.rows[first : first + batch]
            with torch.no_grad():
                logits.append(network(torch.from_numpy(part.examples[rows].astype(np.float32)[:, None])).numpy()[:, 0])
        copies.append(copies_of(np.concatenate(logits), own))
        labels.append(own)
        weights.append(_weights(part, own, kinds, nature))
        sources.append(np.full(len(own), part.source.name))
        types.append(kinds)
    return Judged(*(np.concatenate(some) for some in (copies, labels, weights, sources, types)))


def types_of(types: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns indices into TYPES, from labels' types and the lengths in examples."""
    return np.where(types == 0, 0, np.where(16 * lengths.astype(float) >= layout.LONG_INDEL, 2, 1))


def copies_of(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns natural log-probabilities of 0, 1 and 2 copies; haploid samples have no single copy."""
    scores = logits[:, layout.COPIES].astype(float)
    scores[labels["mode"] == layout.MODES.index("haploid"), 1] = -1e4
    top = scores.max(1, keepdims=True)
    return scores - top - np.log(np.exp(scores - top).sum(1, keepdims=True))


def _weights(part: Part, labels: np.ndarray, types: np.ndarray, nature: Nature) -> np.ndarray:
    """Returns the weight of each example: natural over planted frequency of its type if its allele is there, else 1.

    A long indel that isn't there, beside one that is, mostly is that with a base missed or mistaken. It is as rare in nature as
    what it comes from, and so weighs as much.
    """
    bases, planted, long = planted_of(part)
    weights = np.ones(len(labels))
    for indel, rate in ((False, nature.snps), (True, nature.indels)):
        mask = (labels["copies"] > 0) & ((labels["type"] > 0) == indel)
        if indel:
            mask |= (labels["copies"] == 0) & (types == TYPES.index("long_indel")) & within(NEAR, labels["position"], long)
        haploid = labels["mode"] == layout.MODES.index("haploid")
        natural = rate * np.where(haploid[mask], nature.haploid, 1.0)
        weights[mask] = natural * bases / max(1, planted[indel])
    return weights


def within(reach: int, positions: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Returns which positions lie at most reach from one of the places, which are sorted."""
    if not len(places):
        return np.zeros(len(positions), bool)
    after = np.searchsorted(places, positions)
    nearest = np.minimum(
        np.abs(places[np.minimum(after, len(places) - 1)] - positions), np.abs(places[np.maximum(after - 1, 0)] - positions)
    )
    return nearest <= reach


def planted_of(part: Part) -> tuple[int, dict[bool, int], np.ndarray]:
    """Returns how many bases of its reference a part is about, how many SNPs (False) and indels (True) it has, and where its long
    indels are."""
    path = Path(part.examples.filename).with_name("truth.vcf")
    low, high = 0, 0
    planted, long = {False: 0, True: 0}, []
    lines = path.read_text().splitlines()
    for line in lines:
        if line.startswith("##contig="):
            high = int(line.split("length=")[1].split(">")[0].split(",")[0])
    if isinstance(part.source, RealSource) and part.source.held_out[1]:
        low, high = part.source.held_out
    for line in lines:
        if not line.startswith("#"):
            _, position, _, ref, alt, *_ = line.split("\t")
            if low <= int(position) - 1 < high:
                planted[len(ref) != len(alt)] += 1
                if any(abs(len(ref) - len(one)) >= layout.LONG_INDEL for one in alt.split(",")):
                    long.append(int(position) - 1)
    return high - low, planted, np.array(sorted(long), int)


def fit(judged: Judged) -> list[Curve]:
    """Fits the curves of every type and mode that there are examples of."""
    curves = []
    for number, mode in enumerate(layout.MODES):
        for index, kind in enumerate(TYPES):
            some = judged.chosen((judged.labels["mode"] == number) & (judged.type == index))
            present = some.labels["copies"] > 0
            if present.sum() < 50 or (~present).sum() < 50:
                continue
            qual = curve(some.qual, present, some.weight, odds=False)
            gq: tuple[tuple[float, float], ...] = ()
            if mode != "haploid":
                found = some.chosen(present)
                right = (found.copies[:, 2] > found.copies[:, 1]) == (found.labels["copies"] == 2)
                gq = curve(found.sure, right, np.ones(len(right)), odds=True)
            curves.append(Curve(kind, mode, qual, gq, len(present)))
    return curves


def curve(said: np.ndarray, right: np.ndarray, weight: np.ndarray, *, odds: bool) -> tuple[tuple[float, float], ...]:
    """Leads a curve through what was said, in decibels, and how often it was right.

    Decibels are of the probability of an error or, with odds, of the odds of being right.
    """
    x = said * np.log(10) / 10
    if not odds:  # from the probability of an error to the odds of none
        x = log_odds(x)
    slope, offset = line(x, right, weight)
    points: list[tuple[float, float]] = []
    for decibels in GRID:
        at = np.array([decibels * np.log(10) / 10])
        fitted = slope * (at if odds else log_odds(at)) + offset
        # A curve begins at [0, 0] and doesn't fall below it.
        nats = float(np.maximum(fitted, 0)[0] if odds else np.logaddexp(0, fitted)[0])
        y = max(nats * 10 / np.log(10), 1e-4, points[-1][1] if points else 0.0)
        points.append((float(decibels), round(y, 4)))
    return tuple(points)


def log_odds(nats: np.ndarray) -> np.ndarray:
    """Returns the log odds against an event of probability exp(-nats)."""
    nats = np.clip(nats, 1e-3, 60)
    return nats + np.log1p(-np.exp(-nats))


def line(x: np.ndarray, right: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Fits log odds of being right = slope * x + offset, by Newton's method."""
    # One error among the surest, of the weight that an error has.
    sure = np.quantile(x, 0.95)
    x, y = np.append(x, sure), np.append(right.astype(float), 0.0)
    weight = np.append(weight, FICTION)
    slope, offset = 1.0, 0.0
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(slope * x + offset, -60, 60)))
        gradient = np.array([((p - y) * weight * x).sum() + STEADINESS * (slope - 1), ((p - y) * weight).sum()])
        curvature = weight * p * (1 - p)
        hessian = np.array(
            [[(curvature * x * x).sum() + STEADINESS, (curvature * x).sum()], [(curvature * x).sum(), curvature.sum() + 1e-9]]
        )
        step = np.linalg.solve(hessian, gradient)
        step *= min(1.0, 1.0 / np.abs(step).max())
        slope, offset = slope - step[0], offset - step[1]
        if np.abs(step).max() < 1e-9:
            break
    return max(0.05, float(slope)), float(offset)


def applied(curve: tuple[tuple[float, float], ...], values: np.ndarray) -> np.ndarray:
    """Returns what a curve makes of values, as the manifest is read: from [0, 0], level beyond the last point."""
    if not curve:
        return values
    xs, ys = zip(*((0.0, 0.0), *curve), strict=True)
    return np.interp(values, xs, ys)
