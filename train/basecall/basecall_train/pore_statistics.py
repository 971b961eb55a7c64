"""What a pore model says besides its 6-mers: dwell times, speed, drift, noise over time and the scale in picoamperes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from .pores import KMERS, Fit, K, Visits
from .signal import MAD_TO_SIGMA, Read

CLEAR = 0.5
"""Contrast, in normalised units, from which a visit's dwell is measured by the current rather than by the model of dwells."""


@dataclass(frozen=True)
class Dwells:
    """How dwell times vary about what their 6-mer and their read make one expect."""

    family: str
    """The best of gamma, log-normal and inverse Gaussian."""
    log_likelihood: dict[str, float]
    """Mean per visit, in nats, by family."""
    gamma_shape: float
    log_sd: float
    """Standard deviation of the log-normal's logarithm."""
    inverse_gaussian_shape: float
    """Of mean 1."""
    visits: int


def dwells(seen: Visits, mean: np.ndarray) -> Dwells:
    """Fits families of mean 1 to the relative dwell times of visits with clear ends; mean: samples by 6-mer code."""
    expected = mean[seen.kmer] * read_factors(seen, mean)[seen.read]
    clear = seen.contrast >= CLEAR
    if not clear.any():
        raise ValueError("no visit differs from its neighbours enough to tell its dwell")
    relative = seen.dwell[clear] / expected[clear]
    relative = relative / relative.mean()
    logs = np.log(relative)
    gap = -logs.mean()  # log of the mean less the mean of logs
    shape = (3 - gap + math.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)  # Minka's start, 1.5 % off at most
    for _ in range(4):
        at = torch.tensor(shape, dtype=torch.float64)
        slope = 1 / shape - float(torch.polygamma(1, at))
        shape -= (math.log(shape) - float(torch.digamma(at)) - gap) / slope
    log_sd = float(logs.std())
    inverse = 1 / float((1 / relative).mean() - 1)
    likelihood = {
        "gamma": shape * math.log(shape) - math.lgamma(shape) + float(((shape - 1) * logs - shape * relative).mean()),
        "log-normal": float((-logs - 0.5 * ((logs - logs.mean()) / log_sd) ** 2).mean())
        - math.log(log_sd * math.sqrt(2 * math.pi)),
        "inverse Gaussian": float((-1.5 * logs - inverse * (relative - 1) ** 2 / (2 * relative)).mean())
        + 0.5 * math.log(inverse / (2 * math.pi)),
    }
    return Dwells(max(likelihood, key=likelihood.get), likelihood, shape, log_sd, inverse, int(clear.sum()))


def read_factors(seen: Visits, mean: np.ndarray) -> np.ndarray:
    """Returns by how much each read's dwells exceed those of its 6-mers, by read number; 1 for unseen reads."""
    reads = int(seen.read.max()) + 1
    spent, expected = np.bincount(seen.read, seen.dwell, reads), np.bincount(seen.read, mean[seen.kmer], reads)
    return np.where(expected > 0, spent / np.maximum(expected, 1), 1.0)


def speeds(seen: Visits, rate: int) -> np.ndarray:
    """Returns the bases per second of every read that was seen."""
    number = np.bincount(seen.read)
    spent = np.bincount(seen.read, seen.dwell)
    return rate * number[number > 0] / spent[number > 0]


@dataclass(frozen=True)
class Drift:
    """Slow movement of a read's current about its levels."""

    sd: float
    """Standard deviation of the mean over a window, normalised units, what chance adds taken out."""
    correlation: float
    """Between neighbouring windows."""
    samples: int
    """Samples from one window to the next."""


def drift(found: Fit, samples: int) -> Drift:
    """Returns the drift of alignment windows that are so many samples apart."""
    seen, levels = found.seen, found.levels
    rest = np.clip(seen.mean - levels.mean[seen.kmer], -4 * levels.total[seen.kmer], 4 * levels.total[seen.kmer])
    windows = int(seen.window.max()) + 1
    number = np.bincount(seen.window, minlength=windows)
    many = np.maximum(number, 1)
    mean = np.bincount(seen.window, rest, windows) / many
    within = np.bincount(seen.window, rest**2, windows) / many - mean**2
    read = np.full(windows, -1)
    read[seen.window] = seen.read
    full = number >= 50
    chance = (within / many)[full].mean()
    power = max(float(np.mean(mean[full] ** 2)) - chance, 0.0)
    next_to = full[1:] & full[:-1] & (read[1:] == read[:-1])
    shared = float(np.mean(mean[1:][next_to] * mean[:-1][next_to])) if next_to.any() else 0.0
    return Drift(math.sqrt(power), max(-1.0, min(1.0, shared / power)) if power > 0 else 0.0, samples)


def centre(mean: np.ndarray) -> int:
    """Returns the index of the base of a 6-mer that moves the level most."""
    digits = np.array([[code >> 2 * (K - 1 - i) & 3 for i in range(K)] for code in range(KMERS)])
    return int(np.argmax(influence(mean, digits)))


def influence(mean: np.ndarray, digits: np.ndarray | None = None) -> np.ndarray:
    """Returns the part of the levels' variance that each base explains by itself."""
    if digits is None:
        digits = np.array([[code >> 2 * (K - 1 - i) & 3 for i in range(K)] for code in range(KMERS)])
    return np.array([np.var([mean[digits[:, i] == base].mean() for base in range(4)]) for i in range(K)]) / np.var(mean)


@dataclass(frozen=True)
class Scale:
    """Where the table's 0 and 1 lie in picoamperes, over reads: medians and standard deviations."""

    centre: float
    centre_sd: float
    scale: float
    scale_sd: float
    reads: int


def scale_in_picoamperes(reads: Iterable[tuple[int, Read]], found: Fit) -> Scale:
    """Returns the scale of numbered reads; those that were not aligned don't count."""
    seen = set(np.unique(found.seen.read).tolist())
    centres, scales = [], []
    for number, read in reads:
        if number not in seen:
            continue
        median = np.median(read.raw.astype(np.float32))
        spread = MAD_TO_SIGMA * np.median(np.abs(read.raw - median))
        unit = read.unit * spread
        centres.append((median + read.offset) * read.unit + unit * found.frame.shift[number])
        scales.append(unit * found.frame.scale[number])
    if not centres:
        raise ValueError("none of the recordings' reads was aligned")
    return Scale(float(np.median(centres)), _robust_sd(centres), float(np.median(scales)), _robust_sd(scales), len(centres))


def _robust_sd(values: list[float]) -> float:
    """Returns 1.4826 times the median absolute deviation."""
    return float(MAD_TO_SIGMA * np.median(np.abs(np.array(values) - np.median(values))))


def between_reads(found: Fit) -> tuple[float, float]:
    """Returns the standard deviations of the reads' scales and shifts."""
    reads = np.unique(found.seen.read)
    return _robust_sd(found.frame.scale[reads]), _robust_sd(found.frame.shift[reads])
