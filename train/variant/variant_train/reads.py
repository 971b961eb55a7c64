"""Reads, their alignment with minimap2, and writing changes into them."""

from __future__ import annotations

import gzip
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import mappy
import numpy as np

from .planting import Change

_COMPLEMENT = str.maketrans("ACGTN", "TGCAN")
_MATCH, _INSERTION, _DELETION, _EQUAL, _DIFFERENT = 0, 1, 2, 7, 8


def reverse_complement(sequence: str) -> str:
    """Returns the other strand."""
    return sequence.translate(_COMPLEMENT)[::-1]


@dataclass(frozen=True)
class Read:
    """A called read as it was sequenced; qualities in FASTQ's letters, or empty."""

    name: str
    sequence: str
    qualities: str


def read_fastq(path: Path) -> list[Read]:
    """Reads FASTQ, gzipped or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        reads = []
        for header in lines:
            sequence, _, qualities = (next(lines).rstrip("\n") for _ in range(3))
            if len(sequence) != len(qualities):
                raise ValueError(f"{path}: read {header[1:].split()[0]} has {len(sequence)} bases and {len(qualities)} qualities")
            reads.append(Read(header[1:].split()[0], sequence.upper(), qualities))
    return reads


def read_fasta(path: Path) -> dict[str, str]:
    """Reads the sequences of a FASTA file, gzipped or not, in upper case."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    return {name: sequence.upper() for name, sequence, _ in mappy.fastx_read(str(path))}


def write_fasta(sequences: dict[str, str], path: Path) -> None:
    """Writes FASTA with lines of 80 bases."""
    with path.open("w") as out:
        for name, sequence in sequences.items():
            out.write(f">{name}\n")
            out.writelines(sequence[i : i + 80] + "\n" for i in range(0, len(sequence), 80))


@dataclass(frozen=True)
class Placed:
    """A read on the strand of the genome, with its best alignment."""

    name: str
    sequence: str
    qualities: str
    reverse: bool
    start: int
    """First position on the genome."""
    mapping_quality: int
    cigar: tuple[tuple[int, int], ...]
    """(length, operation) between the clipped ends."""
    clip: int
    """Unaligned bases before the first aligned one."""
    _anchors: list[tuple[int, int, int]] = field(default_factory=list, compare=False, repr=False)

    @property
    def end(self) -> int:
        """Position behind the last on the genome."""
        return self.start + sum(n for n, op in self.cigar if op != _INSERTION)

    def sam(self, contig: str) -> str:
        """Returns the SAM line."""
        aligned = sum(n for n, op in self.cigar if op != _DELETION)
        tail = len(self.sequence) - self.clip - aligned
        cigar = "".join(f"{n}{'MIDNSHP=X'[op]}" for n, op in self.cigar)
        cigar = (f"{self.clip}S" if self.clip else "") + cigar + (f"{tail}S" if tail else "")
        flag = 16 if self.reverse else 0
        return (
            f"{self.name}\t{flag}\t{contig}\t{self.start + 1}\t{self.mapping_quality}\t{cigar}\t*\t0\t0\t"
            f"{self.sequence}\t{self.qualities or '*'}"
        )

    def query(self, position: int) -> tuple[int, bool]:
        """Returns where in sequence a position of the genome is, and whether a base of the read is aligned to it.

        For a deleted position it is the read's next base.
        """
        if not self._anchors:
            reference, query = self.start, self.clip
            for n, op in self.cigar:
                if op != _INSERTION:
                    self._anchors.append((reference, query, op != _DELETION))
                    reference += n
                query += n if op != _DELETION else 0
        begin, query, aligned = self._anchors[bisect_left(self._anchors, (position + 1,)) - 1]
        return (query + position - begin, True) if aligned else (query, False)


class Aligner:
    """minimap2 over one sequence."""

    def __init__(self, sequence: str, preset: str) -> None:
        self._index = mappy.Aligner(seq=sequence, preset=preset, best_n=1)
        if not self._index:
            raise RuntimeError(f"minimap2 knows no preset {preset}, or the sequence is empty")
        self._buffer = mappy.ThreadBuffer()

    def place(self, read: Read) -> Placed | None:
        """Returns the read with its best alignment, None without any."""
        for hit in self._index.map(read.sequence, buf=self._buffer):
            if not hit.is_primary:
                continue
            reverse = hit.strand < 0
            sequence = reverse_complement(read.sequence) if reverse else read.sequence
            qualities = read.qualities[::-1] if reverse else read.qualities
            clip = len(sequence) - hit.q_en if reverse else hit.q_st
            cigar = tuple((n, op) for n, op in hit.cigar)
            return Placed(read.name, sequence, qualities, reverse, hit.r_st, hit.mapq, cigar, clip)
        return None


@dataclass(frozen=True)
class Errors:
    """How often bases that are written into reads are wrong."""

    substitution: float
    insertion: float
    deletion: float


def errors_of(placed: Iterable[Placed], genome: str) -> Errors:
    """Measures the errors of reads against the genome that they come from."""
    columns = substitutions = insertions = deletions = 0
    for read in placed:
        reference, query = read.start, read.clip
        for n, op in read.cigar:
            if op in (_MATCH, _EQUAL, _DIFFERENT):
                columns += n
                substitutions += sum(
                    a != b for a, b in zip(genome[reference : reference + n], read.sequence[query : query + n], strict=True)
                )
            elif op == _INSERTION:
                insertions += n
            else:
                deletions += n
            reference += n if op != _INSERTION else 0
            query += n if op != _DELETION else 0
    total = max(1, columns)
    return Errors(substitutions / total, insertions / total, deletions / total)


def written(read: Placed, changes: list[Change], haplotype: int, errors: Errors, rng: np.random.Generator) -> Read:
    """Returns the read, as sequenced, as if its molecule were of the haplotype.

    What the read says beside them stays, its errors included: a substitution is made where the read shows the base that is
    replaced, and a deletion takes what the read has there. Inserted bases get errors of their own, independent ones.
    """
    sequence, qualities, at = [], [], 0
    for c in changes:
        wanted = c.haplotypes[haplotype]
        if wanted == c.old or c.start <= read.start or c.start + len(c.old) >= read.end:
            continue
        begin, _ = read.query(c.start)
        end, _ = read.query(c.start + len(c.old))
        if begin < at:
            continue
        there = read.sequence[begin:end]
        if len(c.old) == len(wanted) == 1:
            new = wanted if there == c.old else there
        else:
            new = _misread(wanted, errors, rng)
        around = read.qualities[max(0, begin - 2) : end + 2] or ""
        sequence += [read.sequence[at:begin], new]
        qualities += [
            read.qualities[at:begin],
            "".join(around[int(i)] for i in rng.integers(0, len(around), len(new))) if around else "",
        ]
        at = end
    bases, letters = "".join([*sequence, read.sequence[at:]]), "".join([*qualities, read.qualities[at:]])
    if read.reverse:
        bases, letters = reverse_complement(bases), letters[::-1]
    return Read(read.name, bases, letters)


def _misread(bases: str, errors: Errors, rng: np.random.Generator) -> str:
    out = []
    for base in bases:
        kind = rng.random()
        if kind < errors.deletion:
            continue
        if kind < errors.deletion + errors.substitution:
            base = "ACGT".replace(base, "")[int(rng.integers(3))]
        out.append(base)
        if rng.random() < errors.insertion:
            out.append("ACGT"[int(rng.integers(4))])
    return "".join(out)


def write_sam(placed: Iterable[Placed], contig: str, length: int, sample: str, path: Path) -> None:
    """Writes alignments as SAM, sorted by position."""
    ordered = sorted(placed, key=lambda p: (p.start, p.name))
    with path.open("w") as out:
        out.write(f"@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:{contig}\tLN:{length}\n@RG\tID:{sample}\tSM:{sample}\n")
        out.writelines(line + "\n" for line in (p.sam(contig) for p in ordered))


def thinned(reads: Iterable[Placed], length: int, depth: float, rng: np.random.Generator) -> Iterator[Placed]:
    """Yields a random part of the reads that covers a genome of the given length about depth times."""
    reads = list(reads)
    bases = sum(r.end - r.start for r in reads)
    part = depth * length / max(1, bases)
    keep = rng.random(len(reads)) < part
    return (r for r, kept in zip(reads, keep, strict=True) if kept)
