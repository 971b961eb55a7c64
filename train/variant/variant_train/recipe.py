"""Recipes: everything that decides what a model becomes, in one TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .layout import MODES
from .network import Shape


@dataclass(frozen=True)
class Basecaller:
    """A network that recordings are called with: one that pore ships, by name, or an ONNX file under the data folder."""

    name: str
    network: str = ""
    citation: str = ""
    licence: str = ""


@dataclass(frozen=True, kw_only=True)
class _Source:
    name: str
    genome: str
    """FASTA of what the reads come from, relative to the data folder."""
    worlds: int
    """How many are drawn."""
    seed: int = 1
    """Of the first world; the others follow."""
    depth: tuple[float, float] = (4, 60)
    spacing: tuple[float, float] = (100, 400)
    """Mean bases between variants, drawn per world."""
    mnps: float = 0.0
    """Part of the variants that are MNPs; see planting.Spectrum for this and the next two."""
    delins: float = 0.0
    neighbours: float = 0.0
    modes: dict[str, float] = field(default_factory=lambda: {"haploid": 0.5, "diploid": 0.5})
    """How often a world is haploid, diploid or a mixture."""
    preset: str = "map-ont"
    """minimap2's."""
    without_qualities: float = 0.15
    """Part of the worlds whose reads have no qualities."""
    share: float = 1.0
    """How often an example is drawn in training, against those of other sources."""
    citation: str = ""
    licence: str = ""

    def __post_init__(self) -> None:
        if self.worlds < 1 or self.share < 0:
            raise ValueError(f"source {self.name}: worlds must be positive, share not negative")
        if min(self.mnps, self.delins, self.neighbours) < 0 or self.mnps + self.delins > 0.5 or self.neighbours > 0.5:
            raise ValueError(f"source {self.name}: mnps and delins must be up to a half together, as neighbours")
        if wrong := set(self.modes) - set(MODES):
            raise ValueError(f"source {self.name}: no such mode: {', '.join(sorted(wrong))}")
        for name, (low, high) in {"depth": self.depth, "spacing": self.spacing}.items():
            if not 0 < low <= high:
                raise ValueError(f"source {self.name}: {name} must be an interval above 0")


@dataclass(frozen=True, kw_only=True)
class RealSource(_Source):
    """Real reads of a genome without variants."""

    recordings: str = ""
    """Signal that every basecaller of the recipe named in basecallers calls; or:"""
    basecallers: tuple[str, ...] = ()
    reads: str = ""
    """FASTQ."""
    region: tuple[int, int] = (0, 0)
    """Positions of the genome, 0-based half open, that worlds are of; none: all."""
    held_out: tuple[int, int] = (0, 0)
    """Positions of the genome, or of that region, 0-based half open, whose examples are for validation only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.recordings) == bool(self.reads) or bool(self.recordings) != bool(self.basecallers):
            raise ValueError(f"source {self.name}: give either recordings with basecallers, or reads")
        if self.region != (0, 0) and not 0 <= self.region[0] < self.region[1]:
            raise ValueError(f"source {self.name}: region must be an interval")

    def basecaller_of(self, world: int) -> str:
        """Returns the name of the basecaller that called a world's reads."""
        return self.basecallers[world % len(self.basecallers)]


@dataclass(frozen=True, kw_only=True)
class SignalSource(_Source):
    """Reads that basecallers call of the signal of ``pore simulate``, over pieces of the genome.

    They have a basecaller's own errors, at other words than real reads have. The pieces have no variants; worlds are made of their
    reads as of real ones.
    """

    basecallers: tuple[str, ...]
    """Of the recipe, each of as many worlds."""
    pieces: int = 12
    """How many, evenly over the genome's longest sequence."""
    piece: int = 40_000
    """Bases of a piece."""
    repeats: int = 40
    """Repeats that are put into it."""
    coverage: float = 45
    """Depth of its reads, which are thinned to that of a world."""
    length: int = 6_000
    """Mean length of reads."""
    noise: tuple[float, float] = (0.9, 1.1)
    """Factor on the signal's noise, drawn per piece."""
    speed: tuple[float, float] = (0.9, 1.15)
    """Factor on the motor's speed, drawn per piece."""
    held_out_pieces: int = 0
    """How many of the last pieces are for validation only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.basecallers or self.pieces < 1 or self.piece < 1:
            raise ValueError(f"source {self.name}: there must be basecallers, pieces, and bases in them")
        if self.worlds % (self.pieces * len(self.basecallers)):
            raise ValueError(f"source {self.name}: worlds must be a multiple of pieces times basecallers, so that each has as many")

    def piece_of(self, world: int) -> int:
        """Returns the index of the piece that a world's reads are of."""
        return world % self.pieces

    def basecaller_of(self, world: int) -> str:
        """Returns the name of the basecaller that called a world's reads."""
        return self.basecallers[world // self.pieces % len(self.basecallers)]

    def holds_out(self, world: int) -> bool:
        """Says whether a world is for validation only."""
        return self.piece_of(world) >= self.pieces - self.held_out_pieces


@dataclass(frozen=True, kw_only=True)
class SimulatedSource(_Source):
    """Reads of `pore simulate reads`."""

    profiles: tuple[str, ...]
    """Error profiles, each as likely."""
    errors: tuple[float, float] = (1, 1)
    """Factor on a profile's rates of errors, drawn per world."""
    piece: int = 50_000
    """Bases of the genome in a world."""
    repeats: int = 100
    """Repeats that are put into the piece."""
    length: int = 6_000
    """Mean length of reads."""
    held_out_worlds: int = 0
    """How many of the last worlds are for validation only."""

    def holds_out(self, world: int) -> bool:
        """Says whether a world is for validation only."""
        return world >= self.worlds - self.held_out_worlds


Source = RealSource | SignalSource | SimulatedSource


@dataclass(frozen=True)
class Training:
    """How to learn. The budget is given in minutes of wall clock or in steps."""

    minutes: float = 0
    steps: int = 0
    seed: int = 1
    batch: int = 1024
    learning_rate: float = 2e-3
    warmup: int = 200
    """Steps over which the rate rises from zero; it falls to zero along a cosine."""
    weight_decay: float = 0.02
    average: float = 0.999
    """Decay per step of the averaged weights, which are exported."""
    focus: float = 0.0
    """Exponent of the focal loss; 0 is cross entropy."""
    unphased: float = 0.35
    """Part of the examples that are shown without the values from the reads' haplotypes."""
    weights: tuple[float, float, float] = (1.0, 0.4, 0.15)
    """Of the heads copies, zygosity and length in the loss."""
    threads: int = 2
    parts: int = 2
    """Pieces of a batch, worked on by the threads. Part of the recipe: it fixes the order of summation."""

    def __post_init__(self) -> None:
        if (self.minutes > 0) == (self.steps > 0):
            raise ValueError("training: give either minutes or steps")
        if self.batch % self.parts:
            raise ValueError("training: parts must divide batch")


@dataclass(frozen=True)
class Member:
    """One of several networks that are trained apart and used together: their logits are averaged."""

    name: str
    seed: int
    """Of its weights and its draws, in place of the training's."""
    minutes: float = 0
    """Its budget in place of the training's; 0: the same."""
    without: tuple[str, ...] = ()
    """Names of sources that it doesn't learn from."""


@dataclass(frozen=True)
class Nature:
    """How many variants are found per base where nothing was planted: what probabilities are calibrated to."""

    snps: float = 1e-3
    indels: float = 2e-4
    haploid: float = 0.3
    """Both, in haploid samples, by this factor."""


@dataclass(frozen=True)
class Evaluation:
    """A set that the shipped model is evaluated on. It is never trained on."""

    name: str
    reference: str
    truth: str = ""
    """VCF; none: there are no variants but planted ones."""
    bed: str = ""
    """Where the truth is known; empty: everywhere."""
    alignments: str = ""
    """BAM; or:"""
    reads: str = ""
    """FASTQ, aligned with preset; or:"""
    recordings: str = ""
    """Signal, called with basecaller; or:"""
    basecaller: str = ""
    """Model of pore basecall; empty: its default."""
    profile: str = ""
    """Error profile of reads that pore simulate reads makes of the reference."""
    stretch: int = 0
    """Bases of the reference's first sequence that it uses, from the first on; 0: all."""
    variants: str = "human"
    """What it plants."""
    length: int = 10_000
    """Mean length of its reads."""
    preset: str = "map-ont"
    ploidy: str = "1"
    kinds: tuple[str, ...] = ("SNP", "INDEL")
    """What the truth knows of."""
    depths: tuple[float, ...] = ()
    """Depths that reads are thinned to, several times each; empty: all reads, once."""
    seeds: int = 5
    plant: int = 0
    """Mean spacing of planted variants; 0: none. The truth is then of the changed reference."""
    citation: str = ""
    licence: str = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.alignments, self.reads, self.recordings, self.profile))) != 1:
            raise ValueError(f"evaluation {self.name}: give one of alignments, reads, recordings and profile")


@dataclass(frozen=True)
class ReadSet:
    """Whose reads the model is for, by their basecalling models. Its curves are those that all sets share."""

    name: str
    chemistry: str
    tier: str
    models: tuple[str, ...]
    """Patterns of names, as package modelfile/modelname reads them."""
    data: str
    """What the set rests on."""
    simulated: bool = False
    """All of that is simulated."""

    def __post_init__(self) -> None:
        if not self.models or not self.data:
            raise ValueError(f"reads {self.name}: give models and data")


@dataclass(frozen=True)
class Recipe:
    """A parsed recipe file."""

    name: str
    version: str
    description: str
    shape: Shape
    training: Training
    nature: Nature
    basecallers: tuple[Basecaller, ...]
    real: tuple[RealSource, ...]
    signal: tuple[SignalSource, ...]
    simulated: tuple[SimulatedSource, ...]
    evaluations: tuple[Evaluation, ...]
    members: tuple[Member, ...] = ()
    """Networks that are used together; none: there is one."""
    reads: tuple[ReadSet, ...] = ()
    """Whose reads the model is for; the first that matches counts."""
    notes: dict[str, str] = field(default_factory=dict)
    """Sections of the model card by heading."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """All of them."""
        return (*self.real, *self.signal, *self.simulated)

    def trainings(self, work: Path) -> list[tuple[str, Recipe, Path]]:
        """Returns the networks to train: name (empty if there is one), recipe and folder for its checkpoint and curve."""
        if not self.members:
            return [("", self, work)]
        return [(member.name, self._of(member), work / "members" / member.name) for member in self.members]

    def _of(self, member: Member) -> Recipe:
        training = replace(self.training, seed=member.seed)
        if member.minutes:
            training = replace(training, minutes=member.minutes, steps=0)
        return replace(
            self,
            training=training,
            real=tuple(source for source in self.real if source.name not in member.without),
            signal=tuple(source for source in self.signal if source.name not in member.without),
            simulated=tuple(source for source in self.simulated if source.name not in member.without),
            members=(),
        )

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Reads and checks a recipe."""
        with path.open("rb") as stream:
            table = tomllib.load(stream)
        try:
            model = table["model"]
            recipe = cls(
                name=model["name"],
                version=model["version"],
                description=model["description"],
                shape=Shape(**table.get("network", {})),
                training=Training(**frozen(table["training"])),
                nature=Nature(**table.get("nature", {})),
                basecallers=tuple(Basecaller(**one) for one in table.get("basecaller", [])),
                real=tuple(RealSource(**frozen(one)) for one in table.get("real", [])),
                signal=tuple(SignalSource(**frozen(one)) for one in table.get("signal", [])),
                simulated=tuple(SimulatedSource(**frozen(one)) for one in table.get("simulated", [])),
                evaluations=tuple(Evaluation(**frozen(one)) for one in table.get("evaluation", [])),
                members=tuple(Member(**frozen(one)) for one in table.get("member", [])),
                reads=tuple(ReadSet(**frozen(one)) for one in table.get("reads", [])),
                notes=table.get("notes", {}),
            )
        except KeyError as missing:
            raise ValueError(f"{path}: key {missing} is missing") from missing
        except (TypeError, ValueError) as fault:
            raise ValueError(f"{path}: {fault}") from fault
        names = {b.name for b in recipe.basecallers}
        for source in (*recipe.real, *recipe.signal):
            if unknown := set(source.basecallers) - names:
                raise ValueError(f"{path}: source {source.name}: no basecaller {', '.join(sorted(unknown))}")
        sources = [source.name for source in recipe.sources]
        if not sources:
            raise ValueError(f"{path}: no source")
        for kind, given in (("source", sources), ("member", [member.name for member in recipe.members])):
            if twice := {name for name in given if given.count(name) > 1}:
                raise ValueError(f"{path}: more than one {kind} is called {', '.join(sorted(twice))}")
        for member in recipe.members:
            if unknown := set(member.without) - set(sources):
                raise ValueError(f"{path}: member {member.name}: no source {', '.join(sorted(unknown))} that it could be without")
            if set(sources) <= set(member.without):
                raise ValueError(f"{path}: member {member.name}: no source is left to learn from")
        return recipe


def frozen(table: dict[str, Any]) -> dict[str, Any]:
    """Makes lists tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
