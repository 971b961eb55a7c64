"""What codons that aren't covered probably have, by the codons that are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

RANK = 16
"""Factors of a gene."""
STEPS = 8
"""Steps towards the factors of an isolate; with random gaps the eighth changes nothing that matters."""
COVERED = 0.75
"""The share of the codons for which the steps are as long as they should be; for any share they converge."""


@dataclass(frozen=True)
class Factors:
    """A factor model of residues: residue = mean + loadings · factors + noise of its own."""

    mean: np.ndarray
    """[residues]"""
    loadings: np.ndarray
    """[residues, factors]; a factor is of one gene."""
    noise: np.ndarray
    """Variance [residues]."""
    strength: np.ndarray
    """How much all residues together say about a factor, in units of what is known without them [factors]."""


def fit(values: np.ndarray, sequenced: np.ndarray, genes: np.ndarray) -> Factors:
    """Finds the factors of each gene by maximum likelihood, of the isolates that have it.

    values [isolates, residues], whether their genes were sequenced [isolates, residues], the gene of each residue.
    """
    n, residues = values.shape
    names = sorted(set(genes))
    mean, noise = np.zeros(residues), np.ones(residues)
    loadings, strength = np.zeros((residues, RANK * len(names))), np.zeros(RANK * len(names))
    for i, gene in enumerate(names):
        columns = np.flatnonzero(genes == gene)
        rows = np.flatnonzero(sequenced[:, columns[0]] > 0)
        if len(rows) < 2:
            continue
        x = values[np.ix_(rows, columns)].astype(float)
        mean[columns] = x.mean(0)
        covariance = np.cov(x.T, bias=True).reshape(len(columns), len(columns))
        # A residue that was hardly ever seen has a variance all the same.
        total = covariance.diagonal() + 2 / len(rows)
        own = total / 2
        rank = min(RANK, len(columns))
        for _ in range(10):
            scale = 1 / np.sqrt(own)
            value, vector = np.linalg.eigh(covariance * scale[:, None] * scale)
            more = np.maximum(value[-rank:] - 1, 0)
            found = vector[:, -rank:] * np.sqrt(more) / scale[:, None]
            last, own = own, np.maximum(total - (found**2).sum(1), 0.02 * total)
        loadings[np.ix_(columns, range(i * RANK, i * RANK + rank))], strength[i * RANK : i * RANK + rank] = found, more
        noise[columns] = last
    return Factors(mean, loadings, noise, strength)


class Completion(nn.Module):
    """Puts in the place of residues that aren't known what is expected of them, given those that are.

    Problem: a wild type in place of every missing codon makes what is resistant look susceptible; mutations come together, so
    what is known says much of what is not.

    Strategy: the expected factors are the solution of linear equations, other ones for every set of missing codons. A fixed
    number of steps towards it are a chain of layers.
    """

    def __init__(self, factors: Factors):
        super().__init__()
        step = 1 / (1 + COVERED * factors.strength)
        back = (factors.loadings / factors.noise[:, None] * step).T
        for name, value in (("mean", factors.mean), ("loadings", factors.loadings), ("back", back), ("step", step)):
            self.register_buffer(name, torch.from_numpy(value).float())

    def forward(self, values: torch.Tensor, missing: torch.Tensor) -> torch.Tensor:
        """Values of residues with expectations where they are missing, both [N, residues]."""
        away = (1 - missing) * (values - self.mean)
        z = away @ self.back.T
        for _ in range(STEPS - 1):
            z = z - z * self.step + (away - (1 - missing) * (z @ self.loadings.T)) @ self.back.T
        return values + missing * (self.mean + z @ self.loadings.T).clamp(0, 1)
