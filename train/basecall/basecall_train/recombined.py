"""Chunks of real current in an order that no genome has: pieces of reads joined where they share a k-mer.

A network that sees one small genome seventy times learns its words. What the current of a few bases looks like does not depend on
what comes fifty bases later, so a read may go on as another one that has the same bases around the joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .manifest import ALPHABET
from .network import STRIDE
from .targets import UNKNOWN
from .warp import warped

FLANK = 3
"""Bases on either side of the joint's own that both reads share; a pore of R9.4 feels about six."""
SHORTEST, LONGEST = 15, 60
"""Bases of a piece."""


class RecombinedChunks:
    """Draws chunks as :class:`.store.Sampler` wants them, from prepared sources. Their targets are the bases alone."""

    def __init__(self, folders: Sequence[Path], samples: int, classes: int = len(ALPHABET)) -> None:
        self._samples, self.classes = samples, classes
        self._signals = [np.load(folder / "signal.npy", mmap_mode="r") for folder in folders]
        bases = [np.load(folder / "bases.npy", mmap_mode="r") for folder in folders]
        runs = [_emissions(b, np.load(folder / "lengths.npy")) for b, folder in zip(bases, folders, strict=True)]
        self._source = np.repeat(np.arange(len(folders), dtype=np.uint8), [len(r[0]) for r in runs])
        self._frame = np.concatenate([r[0] for r in runs])
        """[E] where each known base is emitted, in frames of its source."""
        self._base = np.concatenate([b[r[0]] for b, r in zip(bases, runs, strict=True)])
        shift = np.cumsum([0, *(len(r[0]) for r in runs[:-1])])
        self._end = np.concatenate([r[1] + s for r, s in zip(runs, shift, strict=True)])
        """[E] index behind the last base that follows without a gap."""
        kmers = _kmers(self._base)
        begins = np.concatenate([r[2] + s for r, s in zip(runs, shift, strict=True)])
        every = np.arange(len(self._base))
        usable = np.flatnonzero((every - begins >= FLANK) & (self._end - every > SHORTEST + FLANK))
        if not len(usable):
            raise ValueError(f"{', '.join(map(str, folders))}: no read has {SHORTEST} bases in a row whose truth is known")
        self._kmer = kmers
        self._joints = usable[np.argsort(kmers[usable], kind="stable")]
        """Places to go on from, by k-mer."""
        self._bounds = np.searchsorted(kmers[self._joints], np.arange(4 ** (2 * FLANK + 1) + 1))

    def draw(self, rng: np.random.Generator, quicker: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns signal, targets and bases of a chunk; quicker: factor by which it is sped up."""
        wanted = self._samples // STRIDE
        frames = round(wanted * quicker)
        signal, bases = self._joined(frames, rng)
        targets = np.eye(self.classes, dtype=np.float32)[bases]
        if frames == wanted:
            return signal, targets, bases
        return warped(signal, targets, bases, wanted)

    def _joined(self, frames: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Returns signal and bases of pieces until there are so many frames."""
        signal = np.empty(frames * STRIDE, np.float32)
        bases = np.zeros(frames, np.uint8)
        at = 0
        place = self._joints[rng.integers(len(self._joints))]
        while at < frames:
            last = min(place + int(rng.integers(SHORTEST, LONGEST + 1)), self._end[place] - 1 - FLANK)
            first = self._frame[place]
            n = min(self._frame[last] - first, frames - at)
            source = self._signals[self._source[place]]
            signal[at * STRIDE : (at + n) * STRIDE] = source[first * STRIDE : (first + n) * STRIDE]
            emitted = self._frame[place:last] - first
            inside = emitted < n
            bases[at + emitted[inside]] = self._base[place:last][inside]
            at += n
            low, high = self._bounds[self._kmer[last]], self._bounds[self._kmer[last] + 1]
            # The last base of a run may be the only one with its k-mer, and unusable: any place will do then, once in a while.
            place = self._joints[rng.integers(low, high)] if high > low else self._joints[rng.integers(len(self._joints))]
        return signal, bases


def _emissions(bases: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the frames [E] that emit a known base, and of each the indices of its run's end and begin.

    bases [T] uint8 as prepared, lengths in samples: a run ends where the truth is not known and with the read.
    """
    known = (bases > 0) & (bases != UNKNOWN)
    frames = np.flatnonzero(known)
    breaks = np.zeros(len(bases), np.int32)
    breaks[bases == UNKNOWN] = 1
    reads = np.cumsum(lengths // STRIDE)[:-1]
    breaks[reads[reads < len(bases)]] += 1
    stretch = np.cumsum(breaks)[frames]
    starts = np.flatnonzero(np.concatenate([[True], stretch[1:] != stretch[:-1]])) if len(frames) else np.empty(0, np.int64)
    sizes = np.diff(np.append(starts, len(frames)))
    return frames, np.repeat(starts + sizes, sizes), np.repeat(starts, sizes)


def _kmers(bases: np.ndarray) -> np.ndarray:
    """Returns the number of the k-mer around every base [E] of classes 1 to 4; the first and last FLANK have 0."""
    kmers = np.zeros(len(bases), np.int32)
    size = 2 * FLANK + 1
    if len(bases) >= size:
        codes = np.lib.stride_tricks.sliding_window_view(bases - 1, size)
        inner = kmers[FLANK : len(bases) - FLANK]
        for column in range(size):
            inner *= 4
            inner += codes[:, column]
    return kmers
