"""The truth under reads whose alignments say all: the reference's bases by MD, and when each passed by the moves (tag mv).

A BAM of such reads needs no teacher and no genome: see the SAM specification for MD, and Dorado's documentation for mv and ts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pysam

from .alignment import DELETION, INSERTION, MATCH
from .manifest import ALPHABET
from .network import STRIDE
from .targets import UNKNOWN

CLIPPED = 4
GAP = 3
"""Bases in a gap of an alignment beyond which it is no error of the call, but another genome or a lost place."""
GAP_BORDER = 10
"""Bases on either side of such a gap whose truth is not used."""
_MD = re.compile(r"(\d+)|\^([A-Z]+)|([A-Z])")


@dataclass(frozen=True)
class Aligned:
    """A primary alignment with its moves."""

    name: str
    contig: str
    begin: int
    """Place of the first aligned base on the contig, counted from 0."""
    backwards: bool
    """Whether the read is the other strand's."""
    bases: str
    """As the file has them, on the contig's strand."""
    cigar: tuple[tuple[int, int], ...]
    """(length, operation)."""
    differences: str
    """The tag MD."""
    moves: np.ndarray
    """Of each block of the signal, whether a base came."""
    block: int
    """Samples of one."""
    trimmed: int
    """Samples before the first block, the tag ts."""

    def truth(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns of each base of the contig under the read, in the read's direction: its class, the sample at which it came, and
        its place on the contig. Those beside a long gap have class UNKNOWN."""
        came = np.flatnonzero(self.moves) * self.block + self.trimmed
        if len(came) != len(self.bases):
            raise ValueError(f"read {self.name} has {len(self.bases)} bases and {len(came)} moves")
        if self.backwards:
            came = came[::-1]
        reference = self.reference()
        places, samples, doubtful = [], [], np.zeros(len(reference), bool)
        query = target = 0
        for length, operation in self.cigar:
            if operation in MATCH:
                places.append(np.arange(target, target + length))
                samples.append(came[query : query + length])
                query, target = query + length, target + length
            elif operation in (INSERTION, CLIPPED):
                if operation == INSERTION and length > GAP:
                    doubtful[max(0, target - GAP_BORDER) : target + GAP_BORDER] = True
                query += length
            elif operation in DELETION:
                if length > GAP:
                    doubtful[max(0, target - GAP_BORDER) : target + length + GAP_BORDER] = True
                target += length
        # Bases that the call left out passed between those beside them.
        when = np.interp(np.arange(len(reference)), np.concatenate(places), np.concatenate(samples))
        classes = np.array([ALPHABET.index(base) if base in "ACGT" else UNKNOWN for base in reference], np.uint8)
        classes[doubtful] = UNKNOWN
        where = np.arange(self.begin, self.begin + len(reference))
        if self.backwards:
            known = classes != UNKNOWN
            classes = np.where(known, 5 - classes, UNKNOWN).astype(np.uint8)[::-1]
            when, where = when[::-1], where[::-1]
        return classes, when, where

    def reference(self) -> str:
        """Returns the contig's bases under the alignment, deletions with them."""
        aligned, query = [], 0
        for length, operation in self.cigar:
            if operation in MATCH:
                aligned.append(self.bases[query : query + length])
            if operation in MATCH or operation in (INSERTION, CLIPPED):
                query += length
        same, at, found = "".join(aligned), 0, []
        for equal, lost, other in _MD.findall(self.differences):
            if equal:
                found.append(same[at : at + int(equal)])
                at += int(equal)
            elif lost:
                found.append(lost)
            else:
                found.append(other)
                at += 1
        if at != len(same):
            raise ValueError(f"read {self.name}: MD is of {at} bases, the alignment of {len(same)}")
        return "".join(found)


def read_alignments(path: Path) -> Iterator[Aligned]:
    """Yields the primary alignments of a BAM that have MD and mv."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such alignments")
    try:
        records = pysam.AlignmentFile(str(path), "rb", check_sq=False)
    except (ValueError, NotImplementedError):
        raise ValueError(f"{path}: not a BAM") from None
    with records:
        try:
            for one in records.fetch(until_eof=True):
                if not (one.is_unmapped or one.is_secondary or one.is_supplementary) and one.has_tag("MD") and one.has_tag("mv"):
                    yield _aligned(one)
        except OSError as fault:
            raise ValueError(f"{path}: {fault}") from fault


def _aligned(one: pysam.AlignedSegment) -> Aligned:
    moves = np.asarray(one.get_tag("mv"))
    return Aligned(
        name=one.query_name,
        contig=one.reference_name,
        begin=one.reference_start,
        backwards=one.is_reverse,
        bases=one.query_sequence,
        cigar=tuple((length, operation) for operation, length in one.cigartuples),
        differences=one.get_tag("MD"),
        moves=moves[1:] > 0,
        block=int(moves[0]),
        trimmed=int(one.get_tag("ts")) if one.has_tag("ts") else 0,
    )


@dataclass(frozen=True)
class Region:
    """Part of a contig, as ``chr13:1000-2000``: from 1 on, both ends in it."""

    contig: str
    begin: int
    end: int

    @classmethod
    def parse(cls, text: str) -> Region:
        match = re.fullmatch(r"(.+):(\d+)-(\d+)", text)
        if not match or int(match[2]) < 1 or int(match[3]) < int(match[2]):
            raise ValueError(f"within: {text!r} is no region as chr13:1000-2000")
        return cls(match[1], int(match[2]) - 1, int(match[3]))

    @classmethod
    def within(cls, text: str) -> Region | None:
        """Parses a region that may be left out."""
        return cls.parse(text) if text else None


class Truths:
    """The truth under the reads of a BAM, in a region if one is given."""

    def __init__(self, path: Path, within: str = "") -> None:
        self._region = Region.within(within)
        self._reads = {one.name: one for one in read_alignments(path)}

    def frames(self, read: str, samples: int) -> np.ndarray | None:
        """Returns what each frame of a read of so many samples emits, as :func:`emitted`; None if it has no alignment."""
        one = self._reads.get(read)
        return None if one is None else emitted(one, samples, self._region)


def emitted(one: Aligned, samples: int, region: Region | None = None) -> np.ndarray:
    """Returns the class [samples // 3] that each frame of a read emits, UNKNOWN where its truth isn't known or is out of the
    region."""
    classes, when, where = one.truth()
    frames = np.full(samples // STRIDE, UNKNOWN, np.uint8)
    if region:
        inside = (where >= region.begin) & (where < region.end) & (one.contig == region.contig)
        classes = np.where(inside, classes, UNKNOWN)
    known = classes != UNKNOWN
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        at, end = int(when[first]) // STRIDE, int(when[last - 1]) // STRIDE + 1
        frames[at:end] = 0
        at -= 1
        for base in range(first, last):
            at = max(at + 1, int(when[base]) // STRIDE)
            if at < min(end, len(frames)):
                frames[at] = classes[base]
    return frames


def contigs_of(path: Path, region: Region | None = None) -> dict[str, str]:
    """Returns the reference between the first and the last base under a file's alignments, by contig, or of it what is in the
    region. It is N where there is no alignment."""
    parts: dict[str, list[tuple[int, str]]] = {}
    for one in read_alignments(path):
        parts.setdefault(one.contig, []).append((one.begin, one.reference()))
    found = {}
    for contig, pieces in parts.items():
        first = min(begin for begin, _ in pieces)
        bases = ["N"] * (max(begin + len(text) for begin, text in pieces) - first)
        for begin, text in pieces:
            bases[begin - first : begin - first + len(text)] = text
        if not region:
            found[contig] = "".join(bases)
        elif region.contig == contig:
            found[contig] = "".join(bases[max(0, region.begin - first) : max(0, region.end - first)])
    if not any(found.values()):
        where = f" in {region.contig}:{region.begin + 1}-{region.end}" if region else ""
        raise ValueError(f"{path}: no alignment with MD and mv{where}")
    return found
