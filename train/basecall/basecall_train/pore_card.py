"""Measuring a pore model from a recipe's prepared sources, and the card beside it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .pore_statistics import between_reads, centre, drift, dwells, influence, scale_in_picoamperes, speeds
from .pore_table import Published, Table
from .pores import (
    COARSE,
    CONTEXT_VISITS,
    MARGIN,
    MIN_VISITS,
    OUTLYING,
    REACH,
    RESTLESS,
    STEADY,
    WINDOW,
    Fit,
    K,
    Levels,
    Stretch,
    autocorrelation,
    fit,
    measure,
    stretches,
    trusted,
)
from .recipe import Recipe, Source
from .scatter import scatter
from .signal import Read, read_recording

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """A source's share of the measurement."""

    source: Source
    first_read: int
    reads: int
    samples: int


@dataclass(frozen=True)
class Result:
    """A measured pore model."""

    table: Table
    found: Fit
    parts: list[Part]

    def levels_of(self, part: Part) -> Levels:
        """Returns what one source's visits alone say, in the common frame."""
        read = self.found.seen.read
        return measure(self.found.seen.where((read >= part.first_read) & (read < part.first_read + part.reads)))


def measure_recipe(recipe: Recipe, work: Path, samples: int = 0, rounds: int = 12, data: Path | None = None) -> Result:
    """Measures a pore model from the recipe's sources with known bases, at most so many samples of each (0: all).

    With the data folder, the recordings' calibration gives the scale in picoamperes.
    """
    parts: list[Part] = []
    some: list[Stretch] = []
    reads = 0
    for source in recipe.sources:
        folder = work / source.name
        if source.simulated_from or not (source.reference or source.calls):
            continue
        if not (folder / "bases.npy").is_file():
            raise ValueError(f"{folder}: not prepared for this recipe (run the prepare command)")
        own = list(stretches(folder, samples, reads))
        number = len(np.load(folder / "lengths.npy"))
        parts.append(Part(source, reads, number, sum(len(one.current) for one in own)))
        log.info("%s: %d stretches with known bases, %d samples", source.name, len(own), parts[-1].samples)
        some += own
        reads += number
    if not parts:
        raise ValueError("no source of the recipe has a reference or calls")
    found = fit(some, rounds, recipe.training.seed)
    return Result(Table(found.levels, _header(recipe, found, parts, data)), found, parts)


def _header(recipe: Recipe, found: Fit, parts: list[Part], data: Path | None) -> dict[str, str]:
    """Returns the header of the table; docs are in README.md of the models/pores folder."""
    rate = recipe.manifest.sample_rates[0]
    seen, levels = found.seen, found.levels
    speed = speeds(seen, rate)
    dwell = dwells(seen, levels.dwell_mean)
    slow = drift(found, WINDOW - 2 * MARGIN)
    read_scale, read_shift = between_reads(found)
    header = {
        "chemistry": recipe.manifest.chemistry,
        "strand": "DNA template, 5' to 3'",
        "sample_rate": f"{rate}",
        "k": f"{K}",
        "centre": f"{centre(levels.mean)}",
        "units": "normalised, (raw - median) / (1.4826 MAD) of a read",
    }
    if data:
        scale = scale_in_picoamperes(_recorded(parts, data), found)
        header |= {
            "norm_center_pa": f"{scale.centre:.2f}",
            "norm_center_pa_sd": f"{scale.centre_sd:.2f}",
            "norm_scale_pa": f"{scale.scale:.3f}",
            "norm_scale_pa_sd": f"{scale.scale_sd:.3f}",
        }
    return header | {
        "read_scale_sd": f"{read_scale:.4f}",
        "read_shift_sd": f"{read_shift:.4f}",
        "noise_autocorrelation": " ".join(f"{r:.3f}" for r in autocorrelation(trusted(seen))),
        "drift_sd": f"{slow.sd:.4f}",
        "drift_correlation": f"{slow.correlation:.3f}",
        "drift_samples": f"{slow.samples}",
        "speed_mean": f"{speed.mean():.1f}",
        "speed_sd": f"{speed.std():.1f}",
        "dwell_family": dwell.family,
        "dwell_gamma_shape": f"{dwell.gamma_shape:.3f}",
        "dwell_log_sd": f"{dwell.log_sd:.3f}",
        "dwell_inverse_gaussian_shape": f"{dwell.inverse_gaussian_shape:.3f}",
        "min_visits": f"{MIN_VISITS}",
        "rare": f"{int((levels.visits < MIN_VISITS).sum())}",
        "visits": f"{len(seen)}",
    }


def _recorded(parts: list[Part], data: Path) -> Iterator[tuple[int, Read]]:
    """Yields the numbered reads of the sources' recordings."""
    for part in parts:
        for number, read in enumerate(read_recording(data / part.source.recordings)):
            yield part.first_read + number, read


def write_card(result: Result, table: Path, published: Published | None = None) -> None:
    """Writes ``README.md``, and with a published table a picture of the comparison, beside the table."""
    header, levels = result.table.header, result.table.levels
    parts = [_head(result, table.name), _sources(result), _measured(header, levels)]
    if published:
        parts.append(_comparison(levels, published, table))
    parts.append(_method(result))
    (table.parent / "README.md").write_text("\n".join(parts))


def _head(result: Result, name: str) -> str:
    header, levels = result.table.header, result.table.levels
    covered = levels.visits >= MIN_VISITS
    return f"""# Pore model {name}

What each of the {len(covered)} {K}-mers does to the current of an {header["chemistry"].upper()} pore, {header["strand"]}, at {header["sample_rate"]} Hz: for
simulators and for aligning signal. Measured by `basecall_train pore-model` (see `train/basecall`) from recordings alone, without
a published table. `basecall_train/pore_table.py` documents the format.

| | |
|---|---|
| visits (stays of one {K}-mer in the pore) | {int(header["visits"]):,}, of which {int(levels.visits.sum()):,} count for levels: steady ones, at most {CONTEXT_VISITS} of each 10-mer about it |
| coverage | {covered.sum()} {K}-mers with {MIN_VISITS} steady visits or more (median {int(np.median(levels.visits))}); {(~covered).sum()} with fewer are drawn towards an additive model of bases and neighbouring pairs: their `visits` are below `min_visits` |
| levels explain | {_percent(result.found.explained)} of the variance between steady visits |
| levels | {levels.mean.min():.2f} to {levels.mean.max():.2f}, typical spread {np.median(levels.spread):.3f}, noise {np.median(levels.noise):.3f}, dwell {np.average(levels.dwell_mean, weights=levels.visits):.1f} samples |
"""


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _sources(result: Result) -> str:
    rows = ["| data | licence | samples | visits | reads | 6-mers covered |", "|" + "---|" * 6]
    alone = []
    read = result.found.seen.read
    for part in result.parts:
        own = (read >= part.first_read) & (read < part.first_read + part.reads)
        levels = result.levels_of(part)
        alone.append((part.source.name, levels))
        rows.append(
            f"| {part.source.citation or part.source.name} | {part.source.licence or 'unstated'} | {part.samples / 1e6:.1f} M "
            f"| {own.sum():,} | {len(np.unique(read[own]))} | {(levels.visits >= MIN_VISITS).sum()} |"
        )
    text = "## Where it comes from\n\n" + "\n".join(rows) + "\n"
    for i, (name, mine) in enumerate(alone):
        for other, its in alone[i + 1 :]:
            both = (mine.visits >= MIN_VISITS) & (its.visits >= MIN_VISITS)
            if both.sum() < 3:
                continue
            rest = mine.mean[both] - its.mean[both]
            text += (
                f"\nFrom the visits of {name} and of {other} apart (in one alignment and one scale, so not independently), "
                f"the levels of the {both.sum()} {K}-mers that both cover correlate by "
                f"{correlation(mine.mean[both], its.mean[both]):.4f} and differ by {np.std(rest):.3f} (standard deviation).\n"
            )
    return text


def _measured(header: dict[str, str], levels: Levels) -> str:
    rows = "\n".join(f"| `{key}` | {header[key]} | {text} |" for key, text in HEADER_TEXTS.items() if key in header)
    share = ", ".join(_percent(part) for part in influence(levels.mean))
    return f"""## In the header

| key | value | |
|---|---|---|
{rows}

The base at each place of the {K}-mer explains, by itself, {share} of the variance between levels: the pore's narrowest part is
about base {header["centre"]} (from 0).
"""


HEADER_TEXTS = {
    "centre": "index, from 0, of the base that moves the level most",
    "norm_center_pa": "current at level 0, pA: the typical read's median",
    "norm_center_pa_sd": "its standard deviation between reads",
    "norm_scale_pa": "pA per unit of level: the typical read's 1.4826 MAD",
    "norm_scale_pa_sd": "its standard deviation between reads",
    "read_scale_sd": "standard deviation, between reads, of the scale that is left after normalisation",
    "read_shift_sd": "the same of the shift, in normalised units",
    "noise_autocorrelation": "of the noise within a visit, at lags of 1, 2, ... samples",
    "drift_sd": "standard deviation of the shift within a read, means over `drift_samples` samples",
    "drift_correlation": "of such means with the next",
    "drift_samples": "",
    "speed_mean": "bases per second, mean of the reads",
    "speed_sd": "its standard deviation between reads",
    "dwell_family": "fits dwell times, over what 6-mer and read make one expect, best",
    "dwell_gamma_shape": "shape of the gamma distribution that fits best; its mean is 1",
    "dwell_log_sd": "standard deviation of the logarithm, of the best log-normal",
    "dwell_inverse_gaussian_shape": "shape of the best inverse Gaussian of mean 1",
}
"""What the keys of the header say."""


def _comparison(levels: Levels, known: Published, table: Path) -> str:
    covered = levels.visits >= MIN_VISITS
    if covered.sum() < 3:
        covered = levels.visits > 0
    slope, offset = np.polyfit(levels.mean, known.mean, 1)
    rest = known.mean - slope * levels.mean - offset
    picture = f"{table.stem}.svg"
    scatter(
        levels.mean, known.mean, f"Levels of {len(covered)} {K}-mers, correlation {correlation(levels.mean, known.mean):.4f}",
        "measured / normalised units", "published / pA", table.parent / picture,
    )  # fmt: skip
    rows = "\n".join(
        f"| {what} | {correlation(ours, theirs):.4f} | {correlation(ours[covered], theirs[covered]):.4f} |"
        for what, ours, theirs in (
            ("levels", levels.mean, known.mean),
            ("spreads", levels.spread, known.spread),
            ("noise", levels.noise, known.noise),
        )
    )
    return f"""## Against the published table

`{known.name}`, which had no part in the measurement.

| correlation of | all {K}-mers | covered ones |
|---|---|---|
{rows}

Published level ≈ {offset:.2f} pA + {slope:.3f} pA · ours; the residuals have a standard deviation of {np.std(rest):.2f} pA. The best
correlation is with the same {K}-mer, not one shifted by a base: {_shifts(levels.mean, known.mean)}.

![levels]({picture})
"""


def _shifts(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Returns how well levels agree with the mean published level of the 6-mers that begin a base earlier or later."""
    code = np.arange(len(ours))
    tail, head = 4 ** (K - 1), 4
    later = np.mean([theirs[code % tail * head + base] for base in range(4)], 0)
    earlier = np.mean([theirs[code // head + base * tail] for base in range(4)], 0)
    return f"{correlation(ours, theirs):.3f} against {correlation(ours, earlier):.3f} (earlier) and {correlation(ours, later):.3f} (later)"


def _method(result: Result) -> str:
    first = result.found.start
    return f"""## Method

The frames in which the prepared targets emit the true bases give sequence and rough place. First levels are those of the
current at these frames, at the offset at which {K}-mers explain most of it ({_percent(first.explained.max())}: {first.lag:+d} samples from the emission of base {first.base},
counted from 0). Then, in rounds: samples are aligned to {K}-mers by banded forward filtering and
backward sampling (normal levels, two states in a row per {K}-mer, {REACH} bases either way); each read's scale and shift are
fitted to the levels by robust regression; levels are measured again. The average read keeps scale 1 and shift 0.
In the first {len(COARSE)} rounds {K}-mers share levels by the bases {_places(COARSE)} of them, as levels of all at once
stay where the frames had put them: in runs of C one base late.

- A visit counts for level, spread and noise if it has {STEADY} samples or more beside its first and last, its mean is
  within {OUTLYING:g} robust standard deviations of the {K}-mer's median, and its variance within 1 + {RESTLESS:g}/√n times the median. All visits count for dwell.
- `spread` is of the {K}-mer's own mean: the scatter that noise adds to a measured mean is taken out. Drift within a read and
  bases beyond the six are part of it.
- Dwell times below two samples can't be measured. Within homopolymers they come from the model of dwells, as the {K}-mers do not differ.
- Bases are as the genome has them; these strands are native, and methylated ones (in lambda GATC, CC[AT]GG) count under their plain letters.
- The open-pore current is not in these recordings, which begin with the strand.
"""


def _places(bases: tuple[tuple[int, int], ...]) -> str:
    """Returns the ranges of bases, each once: "1 to 3, then 1 to 4"."""
    return ", then ".join(f"{first} to {last - 1}" for first, last in dict.fromkeys(bases))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Returns Pearson's correlation."""
    return float(np.corrcoef(a, b)[0, 1])
