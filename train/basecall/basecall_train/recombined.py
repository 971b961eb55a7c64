"""Chunks of real current in an order that no genome has: pieces of a read joined where they share a k-mer.

A network that sees one small genome seventy times learns its words. The current of a few bases does not depend on the bases fifty
positions later, so a read may continue where it has the same bases elsewhere. It is continued by the same read: levels, noise and
speed differ between reads, and a network that adapts to a read loses 0.15 nats per base where the next piece is another's.

Nor do genomes have all words alike: CTAG is rare in bacteria and their phages, and a network that learns from these calls rare
words worse. Where a read could go on in several places, those with rare words ahead can be preferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .manifest import ALPHABET
from .network import STRIDE
from .targets import UNKNOWN
from .warp import warped

FLANK = 2
"""Bases on either side of the joint's own that both places share. A pore of R9.4 feels about six, most of all those in its middle,
and a read of 5,000 bases has five places for each word of five."""
SHORTEST, LONGEST = 12, 48
"""Bases of a piece."""
AHEAD = 24
"""Bases behind a joint whose words count for how rare they are."""
RAREST = 16.0
"""How many times rarer than the mean word one can count."""


class RecombinedChunks:
    """Draws chunks as :class:`.store.Sampler` wants them, from prepared sources. Their targets are the bases alone.

    Of a source without any truth pieces are joined by what its targets spell, and the bases of its chunks are unknown.
    """

    def __init__(self, folders: Sequence[Path], samples: int, balance: float = 0.0, classes: int = len(ALPHABET)) -> None:
        """balance: power of how rare the words ahead of a joint are, on average, by which it is likelier taken; 0: all alike."""
        self._samples, self.classes = samples, classes
        self._signals = [np.load(folder / "signal.npy", mmap_mode="r") for folder in folders]
        bases = [np.load(folder / "bases.npy", mmap_mode="r") for folder in folders]
        self._known = [bool((b != UNKNOWN).any()) for b in bases]
        bases = [b if known else _heard(folder) for b, known, folder in zip(bases, self._known, folders, strict=True)]
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
        reads = np.concatenate([r[3] for r in runs]) + np.repeat(
            np.cumsum([0, *(r[3].max(initial=-1) + 1 for r in runs[:-1])]), [len(r[0]) for r in runs]
        )
        self._key = reads * 4 ** (2 * FLANK + 1) + kmers
        """[E] the read and the k-mer of every place."""
        self._joints = usable[np.argsort(self._key[usable], kind="stable")]
        """Places to go on from, by read and k-mer."""
        self._keys = self._key[self._joints]
        likely = _rarity(kmers, self._end)[self._joints] ** balance
        self._likely = np.concatenate([[0.0], np.cumsum(likely)])
        """Bounds of the joints on a line on which a point is drawn."""
        self._reads = np.searchsorted(self._keys, np.arange(reads.max() + 2) * 4 ** (2 * FLANK + 1))
        """Bounds of every read's places among the joints."""

    def draw(self, rng: np.random.Generator, quicker: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns signal, targets and bases of a chunk; quicker: factor by which it is sped up."""
        wanted = self._samples // STRIDE
        frames = round(wanted * quicker)
        signal, bases, known = self._joined(frames, rng)
        targets = np.eye(self.classes, dtype=np.float32)[bases]
        if not known:
            bases = np.full_like(bases, UNKNOWN)
        if frames == wanted:
            return signal, targets, bases
        return warped(signal, targets, bases, wanted)

    def _any(self, low: int, high: int, rng: np.random.Generator) -> int:
        """Returns one of the joints from low up to high."""
        point = self._likely[low] + rng.random() * (self._likely[high] - self._likely[low])
        return int(self._joints[np.clip(np.searchsorted(self._likely, point, side="right") - 1, low, high - 1)])

    def _joined(self, frames: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, bool]:
        """Returns signal and bases of pieces until there are so many frames, and whether the bases are a truth."""
        signal = np.empty(frames * STRIDE, np.float32)
        bases = np.zeros(frames, np.uint8)
        at = 0
        place = self._any(0, len(self._joints), rng)
        known = self._known[self._source[place]]
        read = self._key[place] // 4 ** (2 * FLANK + 1)
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
            low, high = np.searchsorted(self._keys, [self._key[last], self._key[last] + 1])
            if high == low:
                # A run may end in the only place of its read with its k-mer, one that is unusable: any place of it will do.
                low, high = self._reads[read], self._reads[read + 1]
            place = self._any(low, high, rng)
        return signal, bases, known


def _heard(folder: Path) -> np.ndarray:
    """Returns the bases [T] that the targets of a source spell, each in the first of its frames."""
    best = np.load(folder / "targets.npy", mmap_mode="r").argmax(1).astype(np.uint8)
    return np.where(np.concatenate([[True], best[1:] != best[:-1]]), best, 0).astype(np.uint8)


def _rarity(kmers: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Returns how many times rarer than the mean the k-mers from every base [E] on are, the mean of AHEAD of them or as many as
    its run, which ends where end [E] says, has left."""
    counts = np.bincount(kmers, minlength=4 ** (2 * FLANK + 1))
    rare = np.minimum(RAREST, len(kmers) / len(counts) / counts[kmers])
    upto = np.concatenate([[0.0], np.cumsum(rare)])
    begin = np.arange(len(kmers))
    behind = np.minimum(begin + AHEAD, end)
    return (upto[behind] - upto[begin]) / (behind - begin)


def _emissions(bases: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns the frames [E] that emit a known base, and of each the indices of its run's end and begin and its read's number.

    bases [T] uint8 as prepared, lengths in samples: a run ends where the truth is not known and with the read.
    """
    known = (bases > 0) & (bases != UNKNOWN)
    frames = np.flatnonzero(known)
    breaks = np.zeros(len(bases), np.int32)
    breaks[bases == UNKNOWN] = 1
    reads = np.cumsum(lengths // STRIDE)[:-1]
    reads = reads[reads < len(bases)]
    breaks[reads] += 1
    stretch = np.cumsum(breaks)[frames]
    starts = np.flatnonzero(np.concatenate([[True], stretch[1:] != stretch[:-1]])) if len(frames) else np.empty(0, np.int64)
    sizes = np.diff(np.append(starts, len(frames)))
    return frames, np.repeat(starts + sizes, sizes), np.repeat(starts, sizes), np.searchsorted(reads, frames, side="right")


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
