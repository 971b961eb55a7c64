"""Variants with a known truth, for genomes that have none.

Reads of a genome without variants become reads of a genome with them in two ways: a change is written into the reference,
so that real reads carry its reverse, with all their own errors; or it is written into the reads of a haplotype. A
:class:`Change` says what either gets, and every mix has a truth: a haplotype's variants are where it differs from the
reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

BASES = "ACGT"
CLEARANCE = 2
"""Bases between what two changes may occupy, repeats included: closer ones could be written in several ways."""
LONGEST = 20
"""Longest insertion or deletion, in bases."""


@dataclass(frozen=True)
class Change:
    """Bases [start, start+len(old)) of the genome, which become something else in the reference or in haplotypes."""

    start: int
    old: str
    reference: str
    """What the reference that reads are aligned to has there."""
    haplotypes: tuple[str, ...]
    """What each haplotype has there; the genome's reads have old."""


@dataclass(frozen=True)
class Variant:
    """A left-aligned parsimonious VCF allele: 0-based position of the first base of ref."""

    position: int
    ref: str
    alt: str
    genotype: tuple[int, ...]


def normalised(sequence: str, start: int, old: str, new: str) -> tuple[int, str, str]:
    """Returns (position, ref, alt) of replacing old at start by new, left-aligned and parsimonious.

    The rule of Tan, Abecasis and Kang (2015): cut equal ends on the right, grow to the left when an allele is empty, then
    cut equal beginnings.
    """
    if sequence[start : start + len(old)] != old:
        raise ValueError(f"position {start} holds {sequence[start : start + len(old)]}, not {old}")
    while old and new and old[-1] == new[-1] or not (old and new):
        if old and new:
            old, new = old[:-1], new[:-1]
        if not (old and new):
            if start == 0:
                raise ValueError("a change of the first base has no base before it")
            start -= 1
            old, new = sequence[start] + old, sequence[start] + new
    while len(old) > 1 and len(new) > 1 and old[0] == new[0]:
        start, old, new = start + 1, old[1:], new[1:]
    return start, old, new


def occupied(sequence: str, start: int, old: str, new: str) -> tuple[int, int]:
    """Returns the interval in which the change can be written without telling the difference.

    It covers the repeat that an insertion or deletion lies in, in the genome and in the changed one.
    """
    position, ref, alt = normalised(sequence, start, old, new)
    if len(ref) == len(alt):
        return position, position + len(ref)
    if len(ref) > 1 and len(alt) > 1:
        return position, position + len(ref)
    unit = ref[1:] or alt[1:]
    end = position + len(ref)
    slid = 0
    while end + slid < len(sequence) and sequence[end + slid] == unit[slid % len(unit)]:
        slid += 1
    return position, end + slid + 1


@dataclass(frozen=True)
class Spectrum:
    """What is planted."""

    spacing: float = 150.0
    """Mean number of bases between changes."""
    clustered: float = 0.12
    """Part of the changes that come 3 to 14 bases behind another."""
    insertions: float = 0.25
    deletions: float = 0.25
    in_repeats: float = 0.5
    """Part of the insertions and deletions that lengthen or shorten a repeat."""


Chooser = Callable[[str, str, np.random.Generator], tuple[str, tuple[str, ...]]]
"""chooser(old, new, rng) returns what the reference and the haplotypes have of one change."""


def plant(
    genome: str, spectrum: Spectrum, rng: np.random.Generator, choose: Chooser, begin: int = 200, end: int | None = None
) -> list[Change]:
    """Draws changes of genome[begin:end), in order and unambiguous next to each other."""
    end = len(genome) - 200 if end is None else min(end, len(genome) - 200)
    changes: list[Change] = []
    free = at = begin
    while True:
        near = changes and rng.random() < spectrum.clustered
        at = max(free, at) + int(rng.integers(3, 15) if near else 15 + rng.exponential(max(1.0, spectrum.spacing - 15)))
        if at >= end:
            return changes
        drawn = _draw(genome, at, spectrum, rng)
        if drawn is None:
            continue
        start, old, new = drawn
        low, high = occupied(genome, start, old, new)
        if low < free + CLEARANCE or high >= end or set(genome[low - 1 : high + 1]) - set(BASES):
            continue
        changes.append(Change(start, old, *choose(old, new, rng)))
        at = free = high


def _draw(genome: str, at: int, spectrum: Spectrum, rng: np.random.Generator) -> tuple[int, str, str] | None:
    """Draws one change at or close behind a position."""
    kind = rng.random()
    if kind >= spectrum.insertions + spectrum.deletions:
        base = genome[at]
        # Transitions are twice as common as both transversions together.
        transition = {"A": "G", "G": "A", "C": "T", "T": "C"}.get(base)
        if transition is None:
            return None
        others = [b for b in BASES if b not in (base, transition)]
        return at, base, transition if rng.random() < 2 / 3 else str(rng.choice(others))
    length = _length(rng)
    in_repeat = rng.random() < spectrum.in_repeats
    if in_repeat:
        found = _repeat(genome, at, 60, rng)
        if found is None:
            return None
        at, unit = found
        length = max(unit, length // unit * unit) if unit > 1 else min(length, 6)
    if kind < spectrum.insertions:
        if in_repeat:
            unit = genome[at : at + unit]
            new = (unit * (length // len(unit) + 1))[:length]
        elif rng.random() < 0.3 and length > 1:
            new = genome[at : at + length]  # a duplication
        else:
            new = "".join(rng.choice(list(BASES), length))
        return at, "", new
    return at, genome[at : at + length], ""


def _length(rng: np.random.Generator) -> int:
    """Lengths of small indels: half are of one base, frequencies fall with about the square of the length."""
    weights = np.arange(1, LONGEST + 1, dtype=float) ** -1.6
    return int(rng.choice(LONGEST, p=weights / weights.sum())) + 1


def _repeat(genome: str, at: int, reach: int, rng: np.random.Generator) -> tuple[int, int] | None:
    """Finds a repeat behind at: (first base, length of its unit). Any of those within reach is as likely."""
    found = []
    for unit, least in ((1, 3), (2, 5), (3, 7), (4, 9)):
        run, p = 0, at
        for p in range(at + unit, min(at + reach, len(genome))):
            if genome[p] == genome[p - unit]:
                run += 1
                continue
            if run + unit >= least:
                found.append((p - run - unit, unit))
            run = 0
        if run + unit >= least:
            found.append((p + 1 - run - unit, unit))
    found = [(start, unit) for start, unit in found if start > at]
    return found[int(rng.integers(len(found)))] if found else None


def spelled(genome: str, changes: Iterable[Change], haplotype: int | None) -> str:
    """Returns the sequence of a haplotype, or for None of the reference."""
    out, at = [], 0
    for c in changes:
        out += [genome[at : c.start], c.reference if haplotype is None else c.haplotypes[haplotype]]
        at = c.start + len(c.old)
    return "".join([*out, genome[at:]])


def reference_of(genome: str, changes: list[Change]) -> tuple[str, list[Variant]]:
    """Returns the reference that reads are aligned to and, in its coordinates, the truth.

    Haplotypes that differ from the reference in two ways at a place give two variants there.
    """
    reference = spelled(genome, changes, None)
    variants, offset = [], 0
    for c in changes:
        for other in sorted(set(c.haplotypes) - {c.reference}):
            position, ref, alt = normalised(reference, c.start + offset, c.reference, other)
            variants.append(Variant(position, ref, alt, tuple(int(h == other) for h in c.haplotypes)))
        offset += len(c.reference) - len(c.old)
    variants.sort(key=lambda v: (v.position, v.ref, v.alt))
    return reference, variants


def write_vcf(variants: list[Variant], contig: str, length: int, path: Path) -> None:
    """Writes the truth as VCF 4.2 with genotypes by haplotype; alleles of one position are one record."""
    lines = [
        "##fileformat=VCFv4.2",
        f"##contig=<ID={contig},length={length}>",
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">',
        "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ttruth",
    ]
    for position, group in groupby(variants, key=lambda v: v.position):
        alleles = list(group)
        ref = max((v.ref for v in alleles), key=len)
        alts = [v.alt + ref[len(v.ref) :] for v in alleles]
        numbers = (
            sum((i + 1) * own[h] for i, own in enumerate(v.genotype for v in alleles)) for h in range(len(alleles[0].genotype))
        )
        genotype = "|".join(map(str, numbers))
        lines.append(f"{contig}\t{position + 1}\t.\t{ref}\t{','.join(alts)}\t.\tPASS\t.\tGT\t{genotype}")
    path.write_text("\n".join(lines) + "\n")
