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
LONGEST_MNP = 5
"""Most bases in a row that are each another one."""
LONGEST_SHORTER, MOST_GROWTH = 5, 15
"""Most bases of a delins's shorter side, and how many more the other one has at most."""
MOST_BETWEEN = 10
"""Most unchanged bases between neighbours."""


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
    """Returns the interval in which the change can be written without a difference in the sequence.

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
    """The variants to plant."""

    spacing: float = 150.0
    """Mean number of bases between changes."""
    clustered: float = 0.12
    """Part of the changes that come 3 to 14 bases behind another."""
    insertions: float = 0.25
    deletions: float = 0.25
    in_repeats: float = 0.5
    """Part of the insertions and deletions that lengthen or shorten a repeat."""
    mnps: float = 0.0
    """Part of the changes that replace 2 to 5 bases in a row, each by another one."""
    delins: float = 0.0
    """Part that replaces bases by 1 to 15 more or fewer, 1 to 5 on the shorter side, first and last base differing."""
    neighbours: float = 0.0
    """Part that comes 1 to 10 unchanged bases behind another. Of a quarter of it both are indels in one repeat, as one delins."""


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
        beside = bool(changes) and spectrum.neighbours > 0 and rng.random() < spectrum.neighbours
        both = beside and rng.random() < 0.25
        if beside and not both:
            at = free + int(rng.integers(0, MOST_BETWEEN))
        else:
            near = changes and rng.random() < spectrum.clustered
            at = max(free, at) + int(rng.integers(3, 15) if near else 15 + rng.exponential(max(1.0, spectrum.spacing - 15)))
        if at >= end:
            return changes
        drawn = _indels_in_repeat(genome, at, rng) if both else _draw(genome, at, spectrum, rng)
        if drawn is None:
            continue
        start, old, new = drawn
        if set(old + new + genome[start - 1 : start + len(old) + 1]) - set(BASES):
            continue  # in a stretch of N, where it could be at any place
        low, high = occupied(genome, start, old, new)
        if beside and not both:
            # The places where an indel could be written stay apart; between changes there is a base.
            first = low if old and new else low + 1
            before = changes[-1].start + len(changes[-1].old)
            clear = low >= free and 0 < first - before <= MOST_BETWEEN
        else:
            clear = low >= free + CLEARANCE
        if not clear or high >= end or set(genome[low - 1 : high + 1]) - set(BASES):
            continue
        changes.append(Change(start, old, *choose(old, new, rng)))
        at = free = high


def _draw(genome: str, at: int, spectrum: Spectrum, rng: np.random.Generator) -> tuple[int, str, str] | None:
    """Draws one change at or close behind a position."""
    kind = rng.random()
    if kind >= 1 - spectrum.mnps:
        old = genome[at : at + _geometric(2, LONGEST_MNP, rng)]
        new = [_substitute(base, rng) for base in old]
        return None if None in new else (at, old, "".join(new))
    if kind >= 1 - spectrum.mnps - spectrum.delins:
        return _delins(genome, at, rng)
    if kind >= spectrum.insertions + spectrum.deletions:
        new = _substitute(genome[at], rng)
        return None if new is None else (at, genome[at], new)
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


def _substitute(base: str, rng: np.random.Generator) -> str | None:
    """Draws another base: transitions are twice as common as both transversions together."""
    transition = {"A": "G", "G": "A", "C": "T", "T": "C"}.get(base)
    if transition is None:
        return None
    others = [b for b in BASES if b not in (base, transition)]
    return transition if rng.random() < 2 / 3 else str(rng.choice(others))


def _geometric(least: int, most: int, rng: np.random.Generator) -> int:
    """Draws from least to most, each half as often as the one before."""
    number = least
    while number < most and rng.random() < 0.5:
        number += 1
    return number


def _bases(number: int, rng: np.random.Generator) -> str:
    return "".join(rng.choice(list(BASES), number))


def _delins(genome: str, at: int, rng: np.random.Generator) -> tuple[int, str, str] | None:
    """Draws an event that is no simpler one: half of the differences in length are those of indels, half are all as likely."""
    growth = int(rng.integers(1, MOST_GROWTH + 1))
    if rng.random() < 0.5:
        growth = min(MOST_GROWTH, _length(rng))
    removed = _geometric(1, LONGEST_SHORTER, rng)
    inserted = removed + growth
    if rng.random() < 0.5:
        removed, inserted = inserted, removed
    old = genome[at : at + removed]
    if len(old) < removed or set(old) - set(BASES):
        return None
    new = _bases(inserted, rng)
    while new[0] == old[0] or new[-1] == old[-1]:
        new = _bases(inserted, rng)
    return at, old, new


def _indels_in_repeat(genome: str, at: int, rng: np.random.Generator) -> tuple[int, str, str] | None:
    """Draws two short indels in a repeat behind a position, with unchanged bases between them, as the one event that they make."""
    for _ in range(50):
        found = _repeat(genome, at, 60, rng)
        if found is None:
            return None
        start, unit = found
        stop = start + unit
        while stop < len(genome) and genome[stop] == genome[stop - unit]:
            stop += 1
        if stop - start >= 6 and (drawn := _two_indels(start, genome[start:stop], rng)):
            return drawn
    return None


def _two_indels(start: int, old: str, rng: np.random.Generator) -> tuple[int, str, str] | None:
    """Draws two short indels in a sequence of six bases and more."""
    first = int(rng.integers(0, len(old) - 3))
    second = first + int(rng.integers(2, min(MOST_BETWEEN + 1, len(old) - first - 1) + 1))
    new, done = [], 0
    for place in (first, second):
        length = _geometric(1, 3, rng)
        inserted = rng.random() < 0.5
        if not inserted and place + length > len(old) or done and place <= done:
            return None
        new.append(old[done:place] + (_bases(length, rng) if inserted else ""))
        done = place if inserted else place + length
    return _no_simpler(start, old, "".join([*new, old[done:]]))


def _no_simpler(start: int, old: str, new: str) -> tuple[int, str, str] | None:
    """Returns a replacement without what both have in common at their ends; None if it is an indel, or one or two bases."""
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    while old and new and old[0] == new[0]:
        start, old, new = start + 1, old[1:], new[1:]
    if not old or not new or len(old) == len(new) and sum(a != b for a, b in zip(old, new, strict=True)) < 3:
        return None
    return start, old, new


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
