"""Chunks of signal that never was: random genomes through a pore model (``models/pores``), for sequences that no recording has.

A network that has only seen a few genomes learns their words. The current of a simulated read is poorer than a real one's, so these
chunks are a part of the training and no more. Levels, noise and dwell are drawn as the table describes them, but for SPREAD and
IRREGULARITY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mappy
import numpy as np

from .manifest import ALPHABET
from .network import STRIDE
from .pore_table import Table
from .pores import K, Levels
from .profiled import Profile, coloured

MEMORY = 64
"""Samples over which noise is correlated at most."""
SPREAD = 0.75
"""Part of the spread of levels that is chance; the rest is what bases beyond the 6-mer do. As in simulate/squiggle."""
IRREGULARITY = 0.85
"""Part of the dwell times' spread that is not what aligning current to bases gets wrong. As there."""


@dataclass(frozen=True)
class PoreModel:
    """What a pore's current is like, by a table."""

    centre: int
    """Place in the 6-mer of the base that is called while its current flows, counted from 0."""
    levels: Levels
    dwell_log_sd: float
    speed_sd: float
    """Standard deviation of the reads' speeds over their mean."""
    kernel: np.ndarray
    """What turns white noise of variance 1 into the slow part of the noise."""
    white: float
    """Standard deviation of the part of the noise that is not correlated."""

    @classmethod
    def read(cls, path: Path) -> PoreModel:
        """Reads a table of models/pores."""
        table = Table.read(path)
        levels, head = table.levels, table.header
        try:
            kernel, white = coloured([float(r) for r in head["noise_autocorrelation"].split()], MEMORY)
            return cls(
                centre=int(head["centre"]),
                levels=levels,
                dwell_log_sd=float(head["dwell_log_sd"]),
                speed_sd=float(head["speed_sd"]) / float(head["speed_mean"]),
                kernel=kernel,
                white=white,
            )
        except (KeyError, IndexError, ValueError) as fault:
            raise ValueError(f"{path}: {fault}") from fault

    def bases(self, samples: int) -> int:
        """Returns how many bases so many samples need, whatever the speed and the words: of the shortest mean dwell, as many
        as fit."""
        return K + int(3 * samples / self.levels.dwell_mean.mean()) + 50

    def current(
        self, bases: np.ndarray, samples: int, rng: np.random.Generator, quicker: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns so many samples of current [samples] of bases (0 to 3) and the place in bases of each sample's base.

        There must be bases enough: at two and a half times the mean speed. quicker: factor on the speed.
        """
        levels = self.levels
        place = 4 ** np.arange(K - 1, -1, -1)
        kmers = np.lib.stride_tricks.sliding_window_view(bases, K) @ place
        irregular = IRREGULARITY * self.dwell_log_sd
        slow = np.exp(irregular * rng.standard_normal(len(kmers)) - irregular**2 / 2)
        speed = quicker * max(0.6, 1 + self.speed_sd * rng.standard_normal())
        dwell = np.maximum(1, np.round(levels.dwell_mean[kmers] * slow / speed)).astype(np.int64)
        # It begins in the middle of a visit, like a chunk.
        visit = np.repeat(np.arange(len(kmers)), dwell)[rng.integers(dwell[0]) :][:samples]
        if len(visit) < samples:
            raise ValueError(f"{len(bases)} bases are too few for {samples} samples")
        level = levels.mean[kmers] + SPREAD * levels.spread[kmers] * rng.standard_normal(len(kmers))
        noise = np.convolve(rng.standard_normal(samples + len(self.kernel) - 1), self.kernel, "valid")
        noise += self.white * rng.standard_normal(samples)
        return (level[visit] + levels.noise[kmers[visit]] * noise).astype(np.float32), visit + self.centre


class SimulatedChunks:
    """Draws chunks as :class:`.store.Sampler` wants them. Their targets are the bases alone: one class per frame, surely."""

    def __init__(
        self, model: PoreModel | Profile, samples: int, genomes: Sequence[np.ndarray] = (), classes: int = len(ALPHABET)
    ) -> None:
        """genomes: bases 0 to 3 of sequences of which pieces are taken, by their lengths; none: each chunk has a genome
        of its own."""
        self._model, self._samples, self.classes = model, samples, classes
        self._bases = model.bases(samples)
        self._genomes = [one for one in genomes if len(one) > self._bases]
        if genomes and not self._genomes:
            raise ValueError(f"no sequence of the genomes has {self._bases} bases")
        self._ends = np.cumsum([len(one) - self._bases for one in self._genomes])

    def draw(self, rng: np.random.Generator, quicker: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns signal, targets and bases of a chunk; quicker: factor on the speed that the pore model draws."""
        bases = self._piece(rng) if self._genomes else random_bases(self._bases, rng)
        signal, places = self._model.current(bases, self._samples, rng, quicker)
        frames = self._samples // STRIDE
        emitted = np.zeros(frames, np.uint8)
        # A base is emitted in the frame that it begins in. Bases that are over within a frame take the next free one.
        at = -1
        begun, begins = np.unique(places, return_index=True)
        for base, begin in zip(begun[1:], begins[1:], strict=True):  # the first began before the chunk
            at = max(at + 1, int(begin) // STRIDE)
            if at < frames:
                emitted[at] = bases[base] + 1
        return signal, np.eye(self.classes, dtype=np.float32)[emitted], emitted

    def _piece(self, rng: np.random.Generator) -> np.ndarray:
        """Returns a piece of a genome, of either strand."""
        place = rng.integers(self._ends[-1])
        which = int(np.searchsorted(self._ends, place, side="right"))
        first = self._ends[which] - place - 1
        bases = self._genomes[which][first : first + self._bases]
        return 3 - bases[::-1] if rng.random() < 0.5 else bases


def read_genomes(paths: Sequence[Path]) -> list[np.ndarray]:
    """Returns the sequences of FASTA files as bases 0 to 3, cut where a base is none of A, C, G and T."""
    found = []
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such genome")
        for _, sequence, _ in mappy.fastx_read(str(path)):
            codes = np.full(256, 4, np.uint8)
            codes[np.frombuffer(b"ACGTacgt", np.uint8)] = [0, 1, 2, 3] * 2
            bases = codes[np.frombuffer(sequence.encode(), np.uint8)]
            edges = np.flatnonzero(np.diff(np.concatenate([[True], bases == 4, [True]]).astype(np.int8)))
            found += [bases[begin:end] for begin, end in zip(edges[::2], edges[1::2], strict=True)]
    return found


def random_bases(number: int, rng: np.random.Generator) -> np.ndarray:
    """Returns bases 0 to 3 of a genome that never was: each call draws how much G and C and how long runs it has."""
    gc, again = rng.beta(8, 8), rng.random() * 0.25
    bases = rng.choice(4, number, p=[(1 - gc) / 2, gc / 2, gc / 2, (1 - gc) / 2])
    repeated = rng.random(number) < again
    repeated[0] = False
    return bases[np.maximum.accumulate(np.where(repeated, 0, np.arange(number)))]


def open_pore_model(path: Path, eased: float = 0.0) -> PoreModel | Profile:
    """Reads a table of 6-mers or a profile. eased: see :class:`.Profile`."""
    if path.suffix == ".profile":
        return Profile.read(path, eased)
    if eased:
        raise ValueError(f"{path}: only a profile's signal can be eased")
    return PoreModel.read(path)
