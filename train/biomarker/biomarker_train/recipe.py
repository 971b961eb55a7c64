"""What decides a model: a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from . import encoding, rules, tables
from .encoding import Features
from .network import Shape
from .tables import Source, Table
from .training import Settings


@dataclass(frozen=True)
class RuleFile:
    path: str
    gene: str
    names: dict[str, str]
    """Columns by task, where they are called otherwise."""


@dataclass(frozen=True)
class Recipe:
    """A recipe as its file says."""

    name: str
    version: str
    description: str
    data: str
    licence: str
    sources: tuple[Source, ...]
    rules: tuple[RuleFile, ...]
    lengths: dict[str, int]
    """Codons of each gene."""
    resistant: str = "Resistant"
    susceptible: str = "Susceptible"
    least: int = 4
    """In how many isolates a residue has to be seen."""
    decisive: float = 30.0
    """Points from which a residue alone makes its codon decisive."""
    folds: int = 5
    few: tuple[str, ...] = ()
    """Tasks with too few labels to be part of the means."""
    curve: tuple[float, ...] = (0.25, 0.5)
    """Shares of the training data that the learning curve is made of, besides all of it."""
    shape: Shape = field(default_factory=Shape)
    settings: Settings = field(default_factory=Settings)

    @staticmethod
    def load(path: Path) -> Recipe:
        """Reads a recipe; a fault is a ValueError that names file and key."""
        try:
            raw = tomllib.loads(path.read_text())
            sources = tuple(
                Source(
                    t["path"], t["gene"], t["identifier"], t["group"], t["mutations"],
                    {task: t["label"].format(task=task) for task in t["tasks"]},
                    {task: t["measure"].format(task=task) for task in t["tasks"]} if "measure" in t else {},
                )
                for t in raw.pop("table")
            )  # fmt: skip
            files = tuple(RuleFile(r["path"], r["gene"], r.get("names", {})) for r in raw.pop("rules", []))
            shape, settings = Shape(**raw.pop("network", {})), Settings(**raw.pop("training", {}))
            raw |= {name: tuple(raw[name]) for name in ("few", "curve") if name in raw}
            return Recipe(sources=sources, rules=files, lengths=raw.pop("codons"), shape=shape, settings=settings, **raw)
        except KeyError as fault:
            raise ValueError(f"{path}: the key {fault} is missing") from None
        except TypeError as fault:
            raise ValueError(f"{path}: {fault}") from None

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(task for source in self.sources for task in source.tasks))

    def table(self, data: Path) -> Table:
        return tables.read(list(self.sources), data, self.resistant, self.susceptible)

    def terms(self, data: Path) -> tuple[list[rules.Term], list[str]]:
        """The terms of all rules, and the conditions that were left out."""
        terms, left_out = [], []
        for file in self.rules:
            tasks = {task for source in self.sources if source.gene == file.gene for task in source.tasks}
            names = {task: task for task in tasks} | {column: task for column, task in file.names.items() if task in tasks}
            some, others = rules.read(data / file.path, file.gene, names)
            terms += some
            left_out += others
        return terms, left_out

    def features(self, table: Table, terms: list[rules.Term]) -> Features:
        """What the network of a table sees."""
        genes: dict[str, list[str]] = {}
        for source in self.sources:
            for task in source.tasks:
                genes.setdefault(task, []).append(source.gene)
        return encoding.choose(table, terms, self.tasks, genes, self.least, self.decisive)
