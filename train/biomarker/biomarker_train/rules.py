"""Scores by rule: tables in which conditions on residues add to a task's score."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

CLAUSE = re.compile(r"^[A-Z]?([1-9][0-9]{0,4})([A-Z]+)$")


@dataclass(frozen=True)
class Term:
    """What all of some clauses add to a task's score.

    Of terms with the same codons only the largest one counts that is fulfilled: so says the field's own algorithm.
    """

    task: str
    clauses: tuple[tuple[str, int, str], ...]
    """Gene, codon and residues, any of which will do; in order of the codons."""
    points: float

    @property
    def codons(self) -> tuple[tuple[str, int], ...]:
        return tuple((gene, codon) for gene, codon, _ in self.clauses)

    def text(self) -> str:
        """The term's condition as the file of scores spells it: ``RT:41L+RT:215FY``."""
        return "+".join(f"{gene}:{codon}{residues}" for gene, codon, residues in self.clauses)


def read(path: Path, gene: str, names: dict[str, str]) -> tuple[list[Term], list[str]]:
    """Reads a table with a column of conditions (``M41L + T215FY``) and one of points for each task.

    names maps columns to tasks. Returns the terms, and the conditions that can't be expressed in residues, such as T69ins.
    """
    terms, left_out = [], []
    with path.open(newline="", encoding="utf-8-sig") as text:
        rows = csv.DictReader(text)
        condition = (rows.fieldnames or [""])[0]
        tasks = {column: names[column] for column in (rows.fieldnames or [])[1:] if column in names}
        if not tasks:
            raise ValueError(f"{path}: none of the columns {', '.join(rows.fieldnames or [])} is a task's")
        for number, row in enumerate(rows, 2):
            clauses = [CLAUSE.match(part.strip()) for part in row[condition].split("+")]
            if not all(clauses) or any("ins" in part or "del" in part for part in row[condition].split("+")):
                left_out.append(row[condition])
                continue
            parsed = tuple(sorted((gene, int(c[1]), "".join(sorted(c[2]))) for c in clauses))
            for column, task in tasks.items():
                try:
                    points = float(row[column])
                except ValueError:
                    raise ValueError(f"{path}:{number}: {column} is {row[column]!r}, not a number") from None
                if points:
                    terms.append(Term(task, parsed, points))
    return terms, left_out


def groups(terms: list[Term]) -> dict[tuple[str, tuple[tuple[str, int], ...]], list[Term]]:
    """The terms by task and codons."""
    grouped: dict[tuple[str, tuple[tuple[str, int], ...]], list[Term]] = {}
    for term in terms:
        grouped.setdefault((term.task, term.codons), []).append(term)
    return grouped


def score(terms: list[Term], task: str, present: set[tuple[str, int, str]]) -> float:
    """The score of one genotype, slow and plain; faster implementations are compared with it."""
    total = 0.0
    for (of, _), alike in groups(terms).items():
        if of != task:
            continue
        met = [t.points for t in alike if all(any((g, c, r) in present for r in residues) for g, c, residues in t.clauses)]
        if met:
            total += max(met) if max(met) > 0 else min(met)
    return total
