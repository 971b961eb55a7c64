"""Faster and slower motors: a piece of a read as it would have been at another speed."""

from __future__ import annotations

import numpy as np

from .network import STRIDE
from .targets import UNKNOWN

MAX_WARP = 3.0
"""Standard deviations of speed beyond which no chunk is warped."""


class TooFast(ValueError):
    """A chunk has too few frames for its bases at a speed."""


def pace(rng: np.random.Generator, warp: float, faster: float) -> float:
    """Draws the factor by which a chunk is sped up: between 1 and 1 + faster, times a normal one of deviation warp around 1."""
    quicker = 1.0
    if warp:
        quicker += warp * float(np.clip(rng.standard_normal(), -MAX_WARP, MAX_WARP))
    if faster:
        quicker *= 1 + faster * float(rng.random())
    return quicker


def warped(current: np.ndarray, targets: np.ndarray, bases: np.ndarray, frames: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns a piece of a read as a faster or slower motor would have given it: what took len(targets) frames takes so many.

    Of the current, samples are left out, or given twice: between two samples it would have less noise than a fast read has (the
    mean step from sample to sample is 0.228 on E. coli at 203 bases in 1,800 samples, 0.219 on reads of lambda brought to that
    speed by leaving out, 0.191 by interpolation). Every frame that emits a base keeps one of its own, in order, or the next free
    one, and equal bases a blank between them; what the targets say besides goes to the nearest frame.
    """
    old = len(targets)
    quicker = old / frames
    times = (np.arange(frames * STRIDE) + 0.5) * quicker - 0.5
    quick = np.asarray(current[np.clip(np.rint(times).astype(np.int64), 0, len(current) - 1)], np.float32)
    moved = np.clip(np.rint((np.arange(old) + 0.5) / quicker - 0.5).astype(np.int64), 0, frames - 1)
    emitted = (bases > 0) & (bases != UNKNOWN)
    heard = np.where(emitted, bases, targets.argmax(1))
    emits = np.flatnonzero(heard)
    run = (np.diff(emits) == 1) & (np.diff(heard[emits]) == 0)  # one base over several frames
    repeat = (np.diff(heard[emits]) == 0) & ~run
    rank = np.concatenate([[0], np.cumsum(1 + repeat)])[: len(emits)]
    if len(emits) and rank[-1] >= frames:
        raise TooFast(f"{len(emits)} frames with bases do not fit into {frames}")
    apart = np.maximum.accumulate(moved[emits] - rank)
    moved[emits] = np.minimum(apart, frames - 1 - rank[-1:]) + rank
    spread = np.zeros((frames, targets.shape[1]), np.float32)
    np.add.at(spread, moved, targets * (np.arange(targets.shape[1]) > 0))
    spread /= np.maximum(1, spread.sum(1, keepdims=True))
    spread[:, 0] = np.maximum(0, 1 - spread[:, 1:].sum(1))  # sums round
    torn = np.flatnonzero(run & (np.diff(moved[emits]) == 2))
    spread[moved[emits[torn]] + 1] = targets[emits[torn]]
    source = np.minimum(((np.arange(frames) + 0.5) * quicker).astype(np.int64), old - 1)
    spelled = np.where(bases[source] == UNKNOWN, UNKNOWN, 0).astype(np.uint8)
    spelled[moved[emitted]] = bases[emitted]
    return quick, spread, spelled
