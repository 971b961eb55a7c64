"""The pore model as a file: one row per 6-mer, and in the header the values that belong to no single 6-mer.

The format, version 1: UTF-8 text. Lines that begin with "# " are a header of "key: value" pairs, the first of them
"# porestream-pore-model: 1". Then one line of column names, then one line per k-mer in alphabetical order; columns are
separated by tabs. Readers ignore keys and columns that they don't know.

| column | |
|---|---|
| kmer | bases 5' to 3', as the strand passes: the last base enters the pore last |
| mean | current, normalised units |
| spread | standard deviation between visits of a visit's own mean, normalised units |
| noise | standard deviation of samples within a visit, normalised units |
| dwell_mean, dwell_sd | samples per visit |
| visits | steady visits, at most five of each 10-mer about it; fewer than min_visits: the row leans on the additive model |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .pores import KMERS, Levels, kmer_name

VERSION = 1
COLUMNS = ("kmer", "mean", "spread", "noise", "dwell_mean", "dwell_sd", "visits")


@dataclass(frozen=True)
class Table:
    """A pore model as it is written: the 6-mers by code, and the header's pairs in their order."""

    levels: Levels
    header: dict[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Writes the file; a crash leaves the previous one."""
        one = self.levels
        lines = [f"# porestream-pore-model: {VERSION}", *(f"# {key}: {value}" for key, value in self.header.items())]
        lines.append("\t".join(COLUMNS))
        for code in range(KMERS):
            lines.append(
                f"{kmer_name(code)}\t{one.mean[code]:.4f}\t{one.spread[code]:.4f}\t{one.noise[code]:.4f}"
                f"\t{one.dwell_mean[code]:.2f}\t{one.dwell_sd[code]:.2f}\t{one.visits[code]:d}"
            )
        partial = path.with_name(path.name + ".partial")
        partial.write_text("\n".join(lines) + "\n")
        partial.replace(path)

    @classmethod
    def read(cls, path: Path) -> Table:
        """Reads a file of this format."""
        header: dict[str, str] = {}
        rows = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("# "):
                key, _, value = line[2:].partition(": ")
                header[key] = value
            elif line.startswith("kmer\t"):
                if tuple(line.split("\t")) != COLUMNS:
                    raise ValueError(f"{path}:{number}: columns are {line!r}, expected {' '.join(COLUMNS)}")
            else:
                rows.append(line.split("\t"))
        if header.pop("porestream-pore-model", None) != str(VERSION):
            raise ValueError(f"{path}: not a pore model of version {VERSION}")
        if [row[0] for row in rows] != [kmer_name(code) for code in range(KMERS)]:
            raise ValueError(f"{path}: expected one row for each of {KMERS} 6-mers, in order")
        try:
            values = np.array([row[1:] for row in rows], float)
        except ValueError as fault:
            raise ValueError(f"{path}: {fault}") from fault
        return cls(Levels(*values[:, :5].T, values[:, 5].astype(int)), header)


@dataclass(frozen=True)
class Published:
    """Somebody else's levels, in picoamperes, by 6-mer code."""

    name: str
    """File that they are from."""
    mean: np.ndarray
    spread: np.ndarray
    noise: np.ndarray

    @classmethod
    def read(cls, path: Path) -> Published:
        """Reads a text table with the columns kmer, level_mean, level_stdv and sd_mean; "#" begins a comment."""
        lines = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
        if not lines or lines[0][0] != "kmer" or not {"level_mean", "level_stdv", "sd_mean"} <= set(lines[0]):
            raise ValueError(f"{path}: no columns kmer, level_mean, level_stdv, sd_mean")
        rows = {line[0]: line for line in lines[1:]}
        at = [lines[0].index(name) for name in ("level_mean", "level_stdv", "sd_mean")]
        try:
            values = np.array([[float(rows[kmer_name(code)][i]) for i in at] for code in range(KMERS)])
        except (KeyError, IndexError, ValueError) as fault:
            raise ValueError(f"{path}: {fault}") from fault
        return cls(path.name, *values.T)
