"""Isolates as numbers: residues at codons, scores by rule, and which codons are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from . import rules
from .tables import Isolate, Table


@dataclass(frozen=True)
class Features:
    """The inputs of a network, in order: residues, then for each task its score and its unseen score.

    Each has a value and says whether it is known; what isn't known has the value 0.
    """

    residues: tuple[tuple[str, int, str], ...]
    """Gene, codon, residue."""
    tasks: tuple[str, ...]
    terms: tuple[rules.Term, ...]
    genes: tuple[tuple[str, tuple[str, ...]], ...]
    """The genes that each task uses."""
    decisive: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """Codons without which a task isn't answered but by RESISTANT."""

    def residue_genes(self) -> np.ndarray:
        """The gene of each residue."""
        return np.array([gene for gene, _, _ in self.residues])

    def looked_at(self) -> tuple[tuple[str, int], ...]:
        """All codons that a residue or a term names, in order."""
        named = {(gene, codon) for gene, codon, _ in self.residues}
        return tuple(sorted(named | {at for term in self.terms for at in term.codons}))


def parts(x, residues: int, tasks: int):
    """Residues, scores, unseen scores, and which residues are known, of inputs [N, 2 size], tensors or arrays."""
    r, t = residues, tasks
    return x[:, :r], x[:, r : r + t], x[:, r + t : r + 2 * t], x[:, r + 2 * t : 2 * r + 2 * t]


def choose(
    table: Table, terms: list[rules.Term], tasks: list[str], genes: dict[str, list[str]], least: int, decisive: float
) -> Features:
    """Chooses the residues that are seen often enough (in least isolates) or are named by a term."""
    seen: dict[tuple[str, int, str], int] = {}
    for isolate in table.isolates:
        for gene, changes in isolate.genes.items():
            for codon, residue in changes:
                seen[gene, codon, residue] = seen.get((gene, codon, residue), 0) + 1
    named = {(g, c, r) for term in terms for g, c, residues in term.clauses for r in residues}
    residues = sorted(key for key, n in seen.items() if n >= least or (key in named and n > 0))
    positions = []
    for task in tasks:
        alone = {t.codons[0] for t in terms if t.task == task and len(t.clauses) == 1 and t.points >= decisive}
        positions.append((task, tuple(sorted(alone))))
    return Features(tuple(residues), tuple(tasks), tuple(terms), tuple((t, tuple(genes[t])) for t in tasks), tuple(positions))


class Encoder:
    """Makes inputs of isolates, whole and with codons left out."""

    def __init__(self, features: Features):
        self.features = features
        self.codons = features.looked_at()
        self.codon_number = {at: i for i, at in enumerate(self.codons)}
        self.gene_of = np.array([gene for gene, _ in self.codons])
        # Every residue that anything asks for has a column of its own; the first are the network's.
        asked = list(features.residues)
        known = set(asked)
        for term in features.terms:
            for gene, codon, residues in term.clauses:
                for residue in residues:
                    if (gene, codon, residue) not in known:
                        known.add((gene, codon, residue))
                        asked.append((gene, codon, residue))
        self.columns = {key: i for i, key in enumerate(asked)}
        self.column_codon = torch.tensor([self.codon_number[gene, codon] for gene, codon, _ in asked])
        self._index_terms()

    def _index_terms(self) -> None:
        """Lays the terms out as matrices: of clauses over columns, of terms over clauses, and of groups over codons."""
        number = {task: i for i, task in enumerate(self.features.tasks)}
        clauses: dict[tuple[str, int, str], int] = {}
        members, needed, points, group = [], [], [], []
        group_task, alone, largest = [], [], []
        for k, ((task, codons), alike) in enumerate(rules.groups(list(self.features.terms)).items()):
            group_task.append(number[task])
            for term in alike:
                members.append([clauses.setdefault(clause, len(clauses)) for clause in term.clauses])
                needed.append(len(term.clauses))
                points.append(term.points)
                group.append(k)
            if len(codons) == 1:
                alone.append((self.codon_number[codons[0]], number[task]))
                largest.append(max(0.0, *(term.points for term in alike)))
        self._clauses = torch.zeros(len(self.columns), len(clauses))
        for (gene, codon, residues), i in clauses.items():
            for residue in residues:
                self._clauses[self.columns[gene, codon, residue], i] = 1
        self._members = torch.zeros(len(clauses), len(members))
        for i, of in enumerate(members):
            self._members[of, i] = 1
        self._needed, self._points = torch.tensor(needed), torch.tensor(points)
        self._group = torch.tensor(group, dtype=torch.long)
        self._task = torch.zeros(len(group_task), len(self.features.tasks))
        self._task[torch.arange(len(group_task)), torch.tensor(group_task, dtype=torch.long)] = 1
        self._largest = torch.zeros(len(self.codons), len(self.features.tasks))
        for (codon, task), most in zip(alone, largest, strict=True):
            self._largest[codon, task] = most

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """The scores of the changes present [N, columns]: [N, tasks]. :func:`.rules.score` is the same, slow and plain."""
        met = ((x @ self._clauses > 0).float() @ self._members >= self._needed).float() * self._points
        zeros = torch.zeros(len(x), len(self._task))
        index = self._group.expand(len(x), -1)
        most, least = zeros.scatter_reduce(1, index, met, "amax"), zeros.scatter_reduce(1, index, met, "amin")
        return torch.where(most > 0, most, least) @ self._task

    @property
    def size(self) -> int:
        return len(self.features.residues) + 2 * len(self.features.tasks)

    def present(self, isolates: list[Isolate]) -> tuple[torch.Tensor, torch.Tensor]:
        """Which residues isolates have [N, columns], and which codons were sequenced [N, codons]."""
        x = np.zeros((len(isolates), len(self.columns)), np.float32)
        known = np.zeros((len(isolates), len(self.codons)), np.float32)
        for i, isolate in enumerate(isolates):
            for gene, changes in isolate.genes.items():
                known[i, self.gene_of == gene] = 1
                for codon, residue in changes:
                    column = self.columns.get((gene, codon, residue))
                    if column is not None:
                        x[i, column] = 1
        return torch.from_numpy(x), torch.from_numpy(known)

    def inputs(self, present: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        """The network's inputs [N, 2 size]: values, then whether each is known."""
        x = present * known[:, self.column_codon]
        scores, unseen = self.scores(x), (1 - known) @ self._largest
        residues = len(self.features.residues)
        ones = torch.ones(len(x), 2 * len(self.features.tasks))
        return torch.cat([x[:, :residues], scores, unseen, known[:, self.column_codon[:residues]], ones], 1)

    def leave_out(self, known: torch.Tensor, generator: torch.Generator, share: float | None = None) -> torch.Tensor:
        """Draws codons that an unfinished run has not covered.

        With a share, each codon is left out with that probability. Without, a third of the isolates stay whole, and of the
        others a share of up to a half is left out; in every second one also a stretch as an amplicon that hasn't come.
        """
        n, codons = known.shape
        if share is not None:
            return known * (torch.rand(n, codons, generator=generator) >= share)
        rate = torch.rand(n, 1, generator=generator) * 0.5 * (torch.rand(n, 1, generator=generator) < 0.67)
        kept = known * (torch.rand(n, codons, generator=generator) >= rate)
        start = torch.rand(n, 1, generator=generator) * codons
        length = torch.rand(n, 1, generator=generator) * 0.3 * codons
        at = torch.arange(codons)[None]
        hole = (at >= start) & (at < start + length) & (rate > 0) & (torch.rand(n, 1, generator=generator) < 0.5)
        return kept * ~hole
