"""Evaluating a model by aligning its calls to the genome that the reads came from."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from .alignment import Hit, Reference
from .calling import Call, Model, greedy, raw_qualities
from .engine import Engine
from .manifest import Manifest
from .moves import Region, contigs_of
from .recipe import Evaluation, Recipe
from .signal import Read, read_recording

log = logging.getLogger(__name__)

HOMOPOLYMER = 3
"""Shortest run of equal bases in the reference that counts as a homopolymer."""
MAX_BIN_QUALITY = 40
MIN_ERRORS = 100
"""Wrong bases that the ends of a calibration stand on: a tenth of them is its uncertainty, 0.4 dB."""


@dataclass
class Errors:
    """Columns of alignments by kind."""

    matches: int = 0
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    homopolymer_insertions: int = 0
    """Inserted bases that lengthen a homopolymer."""
    homopolymer_deletions: int = 0
    """Deleted bases of a homopolymer."""

    @property
    def columns(self) -> int:
        """All columns."""
        return self.matches + self.substitutions + self.insertions + self.deletions

    def add(self, call: str, hit: Hit) -> np.ndarray:
        """Counts the columns of an alignment. Returns, for each base of the call, 1 right, 0 wrong, -1 not aligned."""
        right = np.full(len(call), -1, np.int8)
        runs = _run_lengths(hit.target)
        last = -1
        for q, t in hit.walk():
            if q < 0:
                self.deletions += 1
                self.homopolymer_deletions += int(runs[t] >= HOMOPOLYMER)
            elif t < 0:
                self.insertions += 1
                right[q] = 0
                beside = (n for n in (last, last + 1) if 0 <= n < len(runs))
                self.homopolymer_insertions += any(hit.target[n] == call[q] and runs[n] >= HOMOPOLYMER for n in beside)
            else:
                equal = call[q] == hit.target[t]
                self.matches += equal
                self.substitutions += not equal
                right[q] = equal
            last = t if t >= 0 else last
        return right


def _run_lengths(sequence: str) -> np.ndarray:
    """Returns for every base the length of the run of equal bases that it is part of."""
    codes = np.frombuffer(sequence.encode(), np.uint8)
    begins = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    lengths = np.diff(np.append(begins, len(codes)))
    return np.repeat(lengths, lengths)


@dataclass
class Result:
    """How a model does on one set of reads."""

    name: str
    reads: int = 0
    samples: int = 0
    bases: int = 0
    seconds: float = 0.0
    """Processor time in the network, windows and stitching, one thread."""
    identities: list[float] = field(default_factory=list)
    """Of the reads that align: matches over alignment columns."""
    aligned: list[float] = field(default_factory=list)
    """Of the reads that align: fraction of the called bases in the alignment."""
    errors: Errors = field(default_factory=Errors)
    probabilities: list[np.ndarray] = field(default_factory=list)
    """Mean probabilities of the aligned bases, by read."""
    right: list[np.ndarray] = field(default_factory=list)
    """Whether each of those bases matches."""

    def add(self, call: Call, reference: Reference) -> None:
        """Counts one read's call."""
        self.reads += 1
        self.bases += len(call.bases)
        hit = reference.best(call.bases) if call.bases else None
        if hit is None:
            return
        self.identities.append(hit.identity)
        self.aligned.append(hit.aligned)
        right = self.errors.add(call.bases, hit)
        self.probabilities.append(call.probabilities[right >= 0])
        self.right.append(right[right >= 0])

    def summary(self) -> str:
        """Returns one line."""
        return (
            f"{self.name}: {len(self.identities)} of {self.reads} reads align, identity mean {np.mean(self.identities):.4f} "
            f"median {np.median(self.identities):.4f}, aligned {np.mean(self.aligned):.3f}, "
            f"{self.samples / self.seconds:.3g} samples/s"
        )


def evaluate(model: Model, evaluation: Evaluation, data: Path) -> Result:
    """Calls (greedily) and aligns the reads of one evaluation set."""
    reference = _truth(evaluation, data)
    result = Result(evaluation.name)
    for read in _reads(evaluation, data):
        begun = time.process_time()
        posteriors = model.posteriors(read.raw)
        result.seconds += time.process_time() - begun
        result.samples += len(read.raw)
        result.add(greedy(posteriors, model.manifest.labels), reference)
    if not result.identities:
        raise _nothing_aligns(evaluation, data)
    log.info("%s", result.summary())
    return result


def _truth(evaluation: Evaluation, data: Path) -> Reference:
    """Returns what the reads are aligned to: of truth by moves, the reference under their alignments."""
    if not evaluation.moves:
        return Reference.read(data / evaluation.reference)
    return Reference(contigs_of(data / evaluation.moves, Region.within(evaluation.within)))


def _reads(evaluation: Evaluation, data: Path) -> Iterator[Read]:
    """Yields the reads that are evaluated on."""
    return (read for read in read_recording(data / evaluation.recordings) if evaluation.takes(read.id))


def _nothing_aligns(evaluation: Evaluation, data: Path) -> ValueError:
    return ValueError(f"{data / evaluation.recordings}: no read aligns to {evaluation.reference or evaluation.moves}")


@dataclass(frozen=True)
class QualityBin:
    """Bases of similar predicted quality: their number, mean prediction and observed quality (Phred)."""

    bases: int
    predicted: float
    observed: float


def quality_bins(result: Result, calibrated: Callable[[np.ndarray], np.ndarray] = np.asarray) -> list[QualityBin]:
    """Groups the aligned bases by predicted quality, rounded. Bins of fewer than 200 bases are left out.

    calibrated: turns -10 log10(1 - p) into the prediction. Errors of a base are substitutions and insertions; a deletion has no
    base to blame.
    """
    if not result.probabilities:
        return []
    predicted = calibrated(raw_qualities(np.concatenate(result.probabilities)))
    right = np.concatenate(result.right)
    rounded = np.rint(predicted)
    bins = []
    for quality in range(1, MAX_BIN_QUALITY):
        inside = rounded == quality
        if inside.sum() >= 200:
            error = max(1 - right[inside].mean(), 0.5 / inside.sum())
            bins.append(QualityBin(int(inside.sum()), float(predicted[inside].mean()), float(-10 * np.log10(error))))
    return bins


def fit_qualities(result: Result) -> tuple[tuple[float, float], ...]:
    """Returns the curve from -10 log10(1 - p) to the observed quality (:attr:`.manifest.Manifest.quality_curve`).

    It is a cubic of the logarithm of the odds that a base is wrong, the likeliest one (logistic regression, as Platt 1999 has a
    line): a curve through what single qualities show would follow their chance. The MIN_ERRORS wrong bases of the lowest
    qualities, with the right ones among them, count as of one, their mean, where the curve begins; so do those of the highest,
    where it ends.
    """
    if not sum(map(len, result.probabilities)):
        raise ValueError(f"{result.name}: no aligned bases to calibrate qualities by")
    raw, wrong = raw_qualities(np.concatenate(result.probabilities)), np.concatenate(result.right) == 0
    errors = np.sort(raw[wrong])
    if len(errors) <= 2 * MIN_ERRORS or errors[MIN_ERRORS] == errors[-MIN_ERRORS]:
        share = min(0.999, max(len(errors), 0.5) / len(raw))
        return ((round(float(raw.mean()), 2), round(float(-10 * np.log10(share)), 2)),)
    first, last = raw <= errors[MIN_ERRORS], raw >= errors[-MIN_ERRORS]
    low, high = raw[first].mean(), raw[last].mean()
    # Bases of a tenth of a quality count together: there are millions.
    tenths, place = np.unique(np.where(first, low, np.where(last, high, raw)).round(1), return_inverse=True)
    odds = _logistic(_cubic(tenths), np.bincount(place), np.bincount(place, wrong))
    x = np.unique(np.concatenate([[low], np.arange(np.ceil(low), high), [high]]).round(2))
    y = (10 * np.log10(1 + np.exp(-(_cubic(x) @ odds)))).round(2)
    return _rising(x, y)


def _rising(x: np.ndarray, y: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Returns the points of a curve that lie above all before them."""
    rising = np.concatenate([[True], y[1:] > np.maximum.accumulate(y)[:-1]])
    return tuple((float(a), float(b)) for a, b in zip(x[rising], y[rising], strict=True))


def _cubic(raw: np.ndarray) -> np.ndarray:
    """Returns the terms [N, 4] of a cubic of qualities, scaled so that all are of about one size."""
    return np.vander(raw / 10 - 1.5, 4, increasing=True)


def _logistic(terms: np.ndarray, bases: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Returns the coefficients of terms [N, K] in the logarithm of the odds that bases [N] are wrong [N], by Newton's method."""
    found = np.zeros(terms.shape[1])
    found[0] = np.log(wrong.sum() / max(1, bases.sum() - wrong.sum()))
    faint = 1e-6 * np.eye(len(found))  # a step is defined also where qualities are too few for all terms
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(terms @ found, -30, 30)))
        step = np.linalg.solve(terms.T @ (terms * (bases * p * (1 - p))[:, None]) + faint, terms.T @ (wrong - bases * p))
        found += step / max(1, np.abs(step).max())
        if np.abs(step).max() < 1e-6:
            break
    return found


def between(curves: Sequence[tuple[tuple[float, float], ...]]) -> tuple[tuple[float, float], ...]:
    """Returns the curve halfway between the lowest and the highest of several, at the first one's points: predictions are as
    far off on one set of reads as on another, and nowhere further than necessary."""
    if len(curves) == 1:
        return curves[0]
    x = np.array(curves[0])[:, 0]
    heights = [np.interp(x, *np.array(((0.0, 0.0), *curve)).T) for curve in curves]
    y = ((np.min(heights, 0) + np.max(heights, 0)) / 2).round(2)
    return _rising(x, y)  # all but one may be level after their last point


def evaluate_calls(engine: Engine, evaluation: Evaluation, data: Path) -> Result:
    """Aligns the calls that the engine makes of one evaluation set."""
    reference = _truth(evaluation, data)
    result = Result(evaluation.name)
    before = engine.seconds
    for call in engine.calls(data / evaluation.recordings, evaluation.reads):
        result.add(call, reference)
    result.seconds = engine.seconds - before
    result.samples = sum(len(read.raw) for read in _reads(evaluation, data))
    if not result.identities:
        raise _nothing_aligns(evaluation, data)
    log.info("%s", result.summary())
    return result


def evaluate_recipe(recipe: Recipe, data: Path, folder: Path, pore: Path | None = None) -> tuple[Manifest, list[Result]]:
    """Evaluates the model in folder on the recipe's evaluation sets, and calibrates it.

    pore: the engine's program, which then makes the calls; without it they are greedy, which only CTC models can be.
    The calibrated manifest replaces the one in the folder.
    """
    manifest = Manifest.load(folder / "manifest.toml")
    if pore:
        engine = Engine(pore, folder)
        results = [evaluate_calls(engine, one, data) for one in recipe.evaluations]
    else:
        model = Model.open(folder)
        results = [evaluate(model, one, data) for one in recipe.evaluations]
    chosen = [result for one, result in zip(recipe.evaluations, results, strict=True) if one.calibrate]
    if chosen:
        curve = between([fit_qualities(one) for one in chosen])
        manifest = replace(manifest, quality_scale=1.0, quality_bias=0.0, quality_curve=curve)
        manifest.write(folder)
    return manifest, results


def too_bad(recipe: Recipe, results: list[Result]) -> str:
    """Returns which promise of the recipe does not hold, or nothing."""
    for one, result in zip(recipe.evaluations, results, strict=True):
        if (mean := float(np.mean(result.identities))) < one.least:
            return f"{one.name}: mean identity {100 * mean:.2f} %, the recipe promises {100 * one.least:g} %"
    return ""
