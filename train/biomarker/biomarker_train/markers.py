"""Which residues go with resistance: Fisher's exact test by task and residue, with the false discovery rate."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma

import numpy as np

from .tables import Table, groups


@dataclass(frozen=True)
class Marker:
    task: str
    residue: str
    with_resistant: int
    with_all: int
    odds: float
    p: float
    q: float
    """The least false discovery rate at which it is called one (Benjamini and Hochberg)."""


def fisher(a: int, b: int, c: int, d: int) -> float:
    """The two-sided p-value of a table [[a, b], [c, d]]: that of all tables at most as probable."""
    row, column, total = a + b, a + c, a + b + c + d

    def choose(n: int, k: int) -> float:
        return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)

    low, high = max(0, row + column - total), min(row, column)
    logs = [choose(column, x) + choose(total - column, row - x) - choose(total, row) for x in range(low, high + 1)]
    limit = logs[a - low] + 1e-7
    return min(1.0, sum(exp(v) for v in logs if v <= limit))


def rank(table: Table, tasks: list[str], genes: dict[str, list[str]], least: int = 5) -> list[Marker]:
    """Tests each residue that at least so many groups have. Of a group one isolate counts, the first by name."""
    of = groups(table.isolates)
    found: list[tuple[str, str, int, int, float, float]] = []
    for task in tasks:
        chosen: dict[int, int] = {}
        for i, isolate in enumerate(table.isolates):
            if task in isolate.labels:
                chosen.setdefault(of[i], i)
        rows = [table.isolates[i] for i in chosen.values()]
        resistant = sum(isolate.labels[task] for isolate in rows)
        seen: dict[tuple[str, int, str], list[int]] = {}
        for isolate in rows:
            for gene in genes[task]:
                for codon, residue in isolate.genes.get(gene, ()):
                    count = seen.setdefault((gene, codon, residue), [0, 0])
                    count[0] += isolate.labels[task]
                    count[1] += 1
        for (gene, codon, residue), (with_resistant, with_all) in sorted(seen.items()):
            if with_all < least:
                continue
            a, b = with_resistant, with_all - with_resistant
            c, d = resistant - a, len(rows) - resistant - b
            name = f"{gene}:{table.wild[gene, codon]}{codon}{residue}"
            odds = (a + 0.5) * (d + 0.5) / ((b + 0.5) * (c + 0.5))
            found.append((task, name, a, with_all, odds, fisher(a, b, c, d)))
    if not found:
        return []
    p = np.array([f[-1] for f in found])
    order = p.argsort(kind="stable")
    q = np.minimum.accumulate((p[order] * len(p) / np.arange(1, len(p) + 1))[::-1])[::-1]
    return [Marker(*found[i], float(min(1.0, q[k]))) for k, i in enumerate(order)]
