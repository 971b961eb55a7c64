"""Tables of isolates: genotypes as lists of mutations, phenotypes by task, and who belongs together."""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

log = logging.getLogger("biomarker_train")

LEAST = 0.1
"""What a measure of 0, which is one rounded down, is taken for."""

MUTATION = re.compile(r"^([A-Z])([1-9][0-9]{0,4})([A-Z]+)$")
"""One change of a protein: the residue of the numbering's sequence, the codon, the residue found instead."""


@dataclass(frozen=True)
class Source:
    """One table and how to read it."""

    path: str
    gene: str
    identifier: str
    group: str
    mutations: str
    tasks: dict[str, str]
    """The column of a task's label, by task."""
    measures: dict[str, str]
    """The column of what was measured (a positive number), by task; may be empty."""


@dataclass
class Isolate:
    """One isolate's genes that were sequenced, and what was measured of it."""

    identifier: str
    group: str
    genes: dict[str, frozenset[tuple[int, str]]] = field(default_factory=dict)
    labels: dict[str, bool] = field(default_factory=dict)
    measures: dict[str, float] = field(default_factory=dict)


@dataclass
class Table:
    """All isolates, and the residues that the mutations are counted from."""

    isolates: list[Isolate]
    wild: dict[tuple[str, int], str]
    """The residue of the numbering's sequence, by gene and codon; of codons where a mutation was seen."""


def read(sources: list[Source], data: Path, resistant: str, susceptible: str) -> Table:
    """Reads the tables. Rows of one isolate and gene are joined; a row without a mutation list is left out."""
    isolates: dict[str, Isolate] = {}
    said: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for source in sources:
        path = data / source.path
        with path.open(newline="", encoding="utf-8-sig") as text:
            rows = csv.DictReader(text, delimiter="\t")
            wanted = [source.identifier, source.group, source.mutations, *source.tasks.values(), *source.measures.values()]
            missing = [name for name in wanted if name not in (rows.fieldnames or [])]
            if missing:
                raise ValueError(f"{path}: no column {missing[0]!r}: it has {', '.join(rows.fieldnames or [])}")
            for number, row in enumerate(rows, 2):
                place = f"{path}:{number}"
                if row[source.mutations] in (None, "NA"):
                    continue
                _take(isolates, said, source, row, place, resistant, susceptible)
    wild = {at: max(sorted(letters), key=lambda letter, n=letters: n[letter]) for at, letters in said.items()}
    for (gene, codon), letters in sorted(said.items()):
        for letter in sorted(set(letters) - {wild[gene, codon]}):
            log.warning(
                "%s:%s%d is so numbered by %d mutations, and by %d as %s: the residue that is there is taken, the first letter not",
                gene, wild[gene, codon], codon, letters[wild[gene, codon]], letters[letter], letter,
            )  # fmt: skip
    for isolate in isolates.values():
        for gene, changes in isolate.genes.items():
            isolate.genes[gene] = frozenset((codon, residue) for codon, residue in changes if residue != wild[gene, codon])
    return Table([isolates[name] for name in sorted(isolates)], wild)


def _take(isolates, said, source: Source, row: dict[str, str], place: str, resistant: str, susceptible: str) -> None:
    changes = set()
    for text in row[source.mutations].split(","):
        if not (text := text.strip()):
            continue
        match = MUTATION.match(text)
        if not match:
            raise ValueError(f"{place}: {text!r} is not a mutation such as M184V: correct the list or leave the row out")
        before, codon, after = match[1], int(match[2]), match[3]
        said[source.gene, codon][before] += 1
        changes.update((codon, residue) for residue in after)
    name = row[source.identifier]
    isolate = isolates.setdefault(name, Isolate(name, row[source.group]))
    if isolate.group != row[source.group]:
        raise ValueError(f"{place}: isolate {name} belongs to {row[source.group]}, in a row before it to {isolate.group}")
    isolate.genes[source.gene] = isolate.genes.get(source.gene, frozenset()) | frozenset(changes)
    for task, column in source.tasks.items():
        value = row[column]
        if value in ("", "NA"):
            continue
        if value not in (resistant, susceptible):
            raise ValueError(f"{place}: {column} is {value!r}: want {resistant}, {susceptible} or NA")
        isolate.labels[task] = value == resistant
    for task, column in source.measures.items():
        value = row[column]
        if value not in ("", "NA"):
            number = float(value)
            if not number >= 0:
                raise ValueError(f"{place}: {column} is {value}: want a number that is not negative")
            isolate.measures[task] = max(number, LEAST)


def groups(isolates: list[Isolate]) -> list[int]:
    """Numbers the sets of isolates that must not be parted: those of a patient, and those of identical genotype.

    Two isolates are in one set if a chain of such pairs leads from one to the other.
    """
    parent = list(range(len(isolates)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[object, int] = {}
    for i, isolate in enumerate(isolates):
        keys: list[object] = [("patient", isolate.group)]
        keys += [(gene, changes) for gene, changes in isolate.genes.items()]
        for key in keys:
            a, b = root(first.setdefault(key, i)), root(i)
            parent[max(a, b)] = min(a, b)
    return [root(i) for i in range(len(isolates))]


def folds(isolates: list[Isolate], count: int, seed: int) -> list[int]:
    """Gives every isolate a fold, sets of :func:`groups` whole, so that folds have like numbers of labels of each kind."""
    import random

    members: dict[int, list[int]] = defaultdict(list)
    for i, group in enumerate(groups(isolates)):
        members[group].append(i)
    order = sorted(members)
    random.Random(seed).shuffle(order)
    order.sort(key=lambda group: -len(members[group]))  # stable: equals stay shuffled
    total: dict[tuple[str, bool], int] = defaultdict(int)
    for isolate in isolates:
        for label in isolate.labels.items():
            total[label] += 1
    have: list[dict[tuple[str, bool], int]] = [defaultdict(int) for _ in range(count)]
    fold = [0] * len(isolates)
    for group in order:
        adds: dict[tuple[str, bool], int] = defaultdict(int)
        for i in members[group]:
            for label in isolates[i].labels.items():
                adds[label] += 1

        def load(f: int, adds=adds) -> float:
            return sum(n * have[f][label] / total[label] for label, n in adds.items())

        best = min(range(count), key=lambda f: (load(f), sum(have[f].values()), f))
        for label, n in adds.items():
            have[best][label] += n
        for i in members[group]:
            fold[i] = best
    return fold
