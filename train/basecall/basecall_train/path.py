"""Drawing where, along a current, each k-mer of a known sequence sat in the pore.

The current is modelled as a chain of states, one normal distribution each, that is passed from left to right. A path is drawn
from its posterior distribution (forward filtering, backward sampling) rather than the single best one taken: between equal
levels the best path piles all samples onto one state, drawn ones share them out as often as the model believes.

Only a band of states around a rough guess is computed. Many currents of one length go through at a time, so that the work
per sample is a handful of array operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

OUTLIER = 1e-3
"""Density, relative to a level's own peak, that any current has at least: a spike does not end a path."""
NOWHERE = 1e4
"""Level of the states beyond either end of a sequence."""


@dataclass(frozen=True)
class Chain:
    """Currents and the states that they pass: all arrays have one row per current."""

    current: np.ndarray
    """[B, T] float32."""
    means: np.ndarray
    """[B, S] float32, NOWHERE beyond the end of shorter chains."""
    spreads: np.ndarray
    """[B, S] float32, standard deviations."""
    low: np.ndarray
    """[B, T] first state of the band at each sample, rising by 0 or 1; may lie outside of the chain."""
    leave: np.ndarray
    """[B] probability that a state is left after a sample."""


def draw_paths(chain: Chain, band: int, rng: np.random.Generator) -> np.ndarray:
    """Returns the state [B, T] under each sample, drawn from the posterior given that a path stays within the band.

    A path may begin and end anywhere in its band, and goes to the next state or stays from one sample to the next.
    """
    filtered = _filter(chain, band)
    rows, samples = chain.current.shape
    every = np.arange(rows)
    low = chain.low
    cumulated = np.cumsum(filtered[-1], axis=1, dtype=np.float64)
    last = (cumulated < rng.random(rows)[:, None] * cumulated[:, -1:]).sum(1)
    states = np.empty((samples, rows), np.int64)
    states[-1] = low[:, -1] + np.minimum(last, band - 1)
    leave, stay = chain.leave, 1 - chain.leave
    for t in range(samples - 1, 0, -1):
        at = states[t] - low[:, t - 1]
        before = filtered[t - 1]
        stayed = np.where(at < band, before[every, np.minimum(at, band - 1)], 0) * stay
        moved = np.where(at > 0, before[every, np.maximum(at - 1, 0)], 0) * leave
        states[t - 1] = states[t] - (rng.random(rows) * (stayed + moved) < moved)
    return states.T


def _filter(chain: Chain, band: int) -> np.ndarray:
    """Returns the probability [T, B, band] of each state given the samples up to its own."""
    rows, samples = chain.current.shape
    chain_length = chain.means.shape[1]
    # States outside of 0..S-1 read a padding that nothing is emitted from.
    pad = band + 1
    means = np.pad(chain.means, ((0, 0), (pad, pad)), constant_values=NOWHERE).ravel()
    sharpness = np.pad(1 / chain.spreads, ((0, 0), (pad, pad))).astype(np.float32)
    sharpness = np.where(means.reshape(sharpness.shape) == NOWHERE, 0, sharpness).ravel().astype(np.float32)
    width = chain_length + 2 * pad
    offsets = np.arange(band)[None, :] + np.arange(rows)[:, None] * width + pad
    low = np.clip(chain.low, -pad, chain_length + pad - band)
    if (low != chain.low).any():
        raise ValueError("a band leaves its chain")
    rises = np.diff(low, axis=1)
    if rises.size and (rises.min() < 0 or rises.max() > 1):
        raise ValueError("a band must rise by 0 or 1 state per sample")
    leave = chain.leave.astype(np.float32)[:, None]
    stay = 1 - leave
    filtered = np.empty((samples, rows, band), np.float32)
    padded = np.zeros((rows, band + 2), np.float32)
    current = np.ascontiguousarray(chain.current.T, np.float32)

    def density(t: int) -> np.ndarray:
        places = offsets + low[:, t, None]
        sharp = sharpness.take(places)
        z = (current[t][:, None] - means.take(places)) * sharp
        np.multiply(z, z, out=z)
        z *= -0.5
        np.exp(z, out=z)
        z += OUTLIER
        z *= sharp
        return z

    weight = density(0)
    filtered[0] = weight / weight.sum(1, keepdims=True)
    for t in range(1, samples):
        padded[:, 1:-1] = filtered[t - 1]
        rise = rises[:, t - 1, None] == 1
        reached = np.where(rise, padded[:, 2:], padded[:, 1:-1])
        reached *= stay
        entered = np.where(rise, padded[:, 1:-1], padded[:, :-2])
        entered *= leave
        reached += entered
        reached *= density(t)
        total = reached.sum(1, keepdims=True)
        if not total.all():
            raise ValueError("no path stays within the band")
        np.divide(reached, total, out=filtered[t])
    return filtered
