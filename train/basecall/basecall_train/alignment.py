"""Aligning calls and counting what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import mappy
import numba
import numpy as np

MATCH = (0, 7, 8)
INSERTION = 1
DELETION = (2, 3)

_COMPLEMENT = str.maketrans("ACGTN", "TGCAN")


def reverse_complement(sequence: str) -> str:
    """Returns the other strand, read from its 5' end."""
    return sequence.translate(_COMPLEMENT)[::-1]


@dataclass(frozen=True)
class Hit:
    """The best alignment of a query, in the query's orientation: positions on target belong to the strand it matches."""

    contig: str
    query_start: int
    query_end: int
    target: str
    """The stretch of reference that is covered, reverse-complemented for a hit on the minus strand."""
    cigar: tuple[tuple[int, int], ...]
    """(length, operation) from the query's start to its end."""
    query_length: int
    matches: int
    columns: int

    @property
    def identity(self) -> float:
        """Matching columns over all columns."""
        return self.matches / self.columns

    @property
    def aligned(self) -> float:
        """Fraction of the query that is part of the alignment."""
        return (self.query_end - self.query_start) / self.query_length

    def walk(self) -> Iterator[tuple[int, int]]:
        """Yields (query index, target index) of every column, -1 where that side has a gap."""
        return walk(self.cigar, self.query_start, 0)


def walk(cigar: Iterable[tuple[int, int]], query: int, target: int) -> Iterator[tuple[int, int]]:
    """Yields (query index, target index) of every column of an alignment that begins at these, -1 where that side has a gap.

    cigar: (length, operation) in the direction of both.
    """
    for length, operation in cigar:
        dq, dt = (1, 1) if operation in MATCH else (1, 0) if operation == INSERTION else (0, 1)
        for _ in range(length):
            yield query if dq else -1, target if dt else -1
            query, target = query + dq, target + dt


class Reference:
    """Sequences to align against (minimap2's map-ont parameters)."""

    def __init__(self, contigs: dict[str, str]) -> None:
        self._contigs = {name: sequence.upper() for name, sequence in contigs.items()}
        self._aligners = {name: mappy.Aligner(seq=sequence, preset="map-ont") for name, sequence in self._contigs.items()}

    @classmethod
    def read(cls, path) -> Reference:
        """Reads a FASTA file, gzipped or not."""
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such reference")
        return cls({name: sequence for name, sequence, _ in mappy.fastx_read(str(path))})

    def best(self, query: str) -> Hit | None:
        """Returns the alignment with the most matches, or None."""
        return max(self.all(query), key=lambda hit: hit.matches, default=None)

    def all(self, query: str) -> list[Hit]:
        """Returns all alignments of parts of the query, those of the same contig over different parts of it."""
        found = []
        for name, aligner in self._aligners.items():
            for hit in aligner.map(query):
                if not hit.is_primary:
                    continue
                target = self._contigs[name][hit.r_st : hit.r_en]
                cigar = tuple((length, operation) for length, operation in hit.cigar)
                if hit.strand < 0:
                    target, cigar = reverse_complement(target), cigar[::-1]
                found.append(Hit(name, hit.q_st, hit.q_en, target, cigar, len(query), hit.mlen, hit.blen))
        return found


@numba.njit(nogil=True, cache=True)
def global_identity(called: np.ndarray, truth: np.ndarray) -> tuple[int, int]:
    """Returns the matches and the columns of the alignment of two whole sequences of classes that has the fewest edits, and of such
    the fewest columns."""
    edit = 1 << 32
    row = np.arange(len(truth) + 1) * (edit + 1)  # edits, and columns below
    for base in called:
        diagonal, row[0] = row[0], row[0] + edit + 1
        for n in range(len(truth)):
            here = diagonal + 1 + edit * (base != truth[n])
            diagonal = row[n + 1]
            row[n + 1] = min(here, diagonal + edit + 1, row[n] + edit + 1)
    columns = row[-1] % edit
    return columns - row[-1] // edit, columns
