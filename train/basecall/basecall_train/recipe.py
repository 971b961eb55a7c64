"""Recipes: everything that decides what a model becomes, in one TOML file."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from .manifest import Manifest
from .moves import Region
from .network import STRIDE, Shape
from .targets import MIN_ALIGNED, MIN_IDENTITY


@dataclass(frozen=True)
class Source:
    """Recordings to learn from, or a pore model. Paths are relative to the data folder."""

    name: str
    share: float
    """Part of the chunks that are drawn from here; shares need not add up to one."""
    recordings: str = ""
    simulated_from: str = ""
    """FASTA of a genome whose signal ``pore simulate`` makes, in place of recordings. A teacher calls it as it calls reads."""
    simulate: tuple[str, ...] = ()
    """Flags of ``pore simulate`` for that, as ``--speed=1.3``; what makes signals the same again is in them."""
    pore_model: str = ""
    """Table of k-mers, or profile, through which random genomes are drawn, in place of recordings; relative to the recipe."""
    genomes: tuple[str, ...] = ()
    """FASTAs whose sequences go through the pore model, in place of random genomes."""
    eased: float = 0.0
    """Of a profile: part by which a read's noise and times are less irregular than measured, at most (:class:`.Profile`)."""
    moves: str = ""
    """BAM with the truth of recordings: alignments with MD, and mv for when each base passed (:mod:`.moves`)."""
    within: str = ""
    """Region of a contig, as ``chr13:1000-2000``, to which the truth by moves is limited; empty: all of it."""
    pieces_of: tuple[str, ...] = ()
    """Names of other sources, of whose reads pieces are joined to sequences that no genome has, in place of recordings."""
    balance: float = 0.0
    """Of pieces: power of how rare the words of a piece are by which it is likelier to be taken."""
    reference: str = ""
    """FASTA of the genome under the reads."""
    calls: str = ""
    """FASTQ of more accurate calls of the same reads, by read id: the truth where no genome is trusted."""
    overlaps: bool = False
    """Whether reads that overlap are each other's truth, where nothing else is known (:mod:`.overlaps`)."""
    relatives: tuple[str, ...] = ()
    """FASTAs of genomes of the reads' species, where their own strain's is not known (:mod:`.relatives`)."""
    truth_weight: float = 0.5
    """Weight of the targets conditioned on the truth against the teacher's own."""
    joined_by: tuple[str, ...] = ()
    """Networks that basecall_train has exported, with a CTC head, whose frame probabilities are averaged (geometrically) with the
    teacher's; relative to the recipe. What several agree on is right more often than what any of them says."""
    least_identity: float = MIN_IDENTITY
    """Part of the columns that must be equal where the teacher's call of a read is aligned to its truth, or the read gets none. A
    network learns nothing of bad reads if a teacher that can't call them chooses the training data."""
    least_aligned: float = MIN_ALIGNED
    """Part of that call that must be aligned; of short reads a tenth and more is adapter. Relatives may have less."""
    known: float = 0.0
    """Part of a chunk's frames that must have a truth for the chunk to be used. A CRF, which scores whole sequences, would else
    learn the teacher's errors where the truth is not known."""
    faster: float = 0.0
    """Chunks are sped up by a factor between 1 and 1 + faster: motors differ between runs, by a third among the recordings of R9.4
    that the recipes use."""
    mentor_shares: tuple[float, ...] = ()
    """How much each of the mentors counts for chunks from here, where they differ from those of the training: a mentor may know one
    genome better than the others do, and the rest worse."""
    without: tuple[str, ...] = ()
    """Reads, by id, that are not learned from: they are evaluated on."""
    citation: str = ""
    licence: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "without", tuple(self.without))
        object.__setattr__(self, "pieces_of", tuple(self.pieces_of))
        object.__setattr__(self, "mentor_shares", tuple(self.mentor_shares))
        object.__setattr__(self, "joined_by", tuple(self.joined_by))
        object.__setattr__(self, "relatives", tuple(self.relatives))
        object.__setattr__(self, "simulate", tuple(self.simulate))
        if sum(map(bool, (self.recordings, self.simulated_from, self.pore_model, self.pieces_of))) != 1:
            raise ValueError(f"source {self.name}: give one of recordings, simulated_from, pore_model and pieces_of")
        object.__setattr__(self, "genomes", tuple(self.genomes))
        truths = sum(map(bool, (self.reference, self.relatives, self.calls, self.overlaps, self.moves)))
        if not self.has_reads and truths:
            raise ValueError(f"source {self.name}: only recordings need a truth")
        if self.simulate and not self.simulated_from:
            raise ValueError(f"source {self.name}: simulate has flags, but there is no simulated_from to simulate")
        if self.pore_model and self.joined_by:
            raise ValueError(f"source {self.name}: nobody hears what a pore model makes")
        if self.genomes and not self.pore_model:
            raise ValueError(f"source {self.name}: genomes go through a pore_model, and there is none")
        if not 0 <= self.eased < 1 or (self.eased and not self.pore_model):
            raise ValueError(f"source {self.name}: eased is a part, below 1, of what a pore_model's reads are irregular by")
        if self.without and not self.moves:
            raise ValueError(f"source {self.name}: without leaves reads out whose truth is by moves")
        check_within(f"source {self.name}", self.moves, self.within)
        if self.balance < 0 or (self.balance and not self.pieces_of):
            raise ValueError(f"source {self.name}: balance is a power, 0 or more, of pieces")
        if truths > 1:
            raise ValueError(
                f"source {self.name}: a truth is one of reference, relatives, calls, overlaps and moves, not two of them"
            )
        if self.share <= 0 or not 0 <= self.truth_weight <= 1:
            raise ValueError(f"source {self.name}: share must be positive and truth_weight within 0..1")
        if not (0 < self.least_identity <= 1 and 0 <= self.least_aligned <= 1):
            raise ValueError(f"source {self.name}: least_identity and least_aligned are parts, up to 1")
        if not 0 <= self.faster <= 0.5:
            raise ValueError(f"source {self.name}: faster must be within 0..0.5, or frames have no room for bases")
        if not 0 <= self.known <= 1 or (self.known and not truths):
            raise ValueError(
                f"source {self.name}: known is a part (0 to 1) of the frames, of those with a reference, relatives, "
                "calls, overlaps or moves"
            )

    @property
    def has_reads(self) -> bool:
        """Whether there are reads to prepare, recorded or simulated; else chunks are drawn as they are needed."""
        return bool(self.recordings or self.simulated_from)

    @property
    def needs_teacher(self) -> bool:
        """Whether a teacher has to say when bases pass."""
        return not (self.pore_model or self.moves or self.pieces_of)


@dataclass(frozen=True)
class Evaluation:
    """Recordings to evaluate on. They are never trained on."""

    name: str
    recordings: str
    reference: str = ""
    """FASTA of the genome under the reads; or their truth is in moves."""
    moves: str = ""
    """BAM with the truth of these recordings, as of a source."""
    within: str = ""
    """As of a source."""
    reads: tuple[str, ...] = ()
    """Reads, by id, that are evaluated on; none: all."""
    citation: str = ""
    licence: str = ""
    calibrate: bool = False
    """Whether base qualities are fitted on these reads; if they are on several sets, halfway between the best and the worst."""
    least: float = 0.0
    """Mean identity that the recipe promises; evaluate fails below."""
    watched: int = 0
    """Chunks, of as many reads, on which a network is evaluated while it is trained."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", tuple(self.reads))
        if bool(self.reference) == bool(self.moves):
            raise ValueError(f"evaluation {self.name}: give one of reference and moves")
        check_within(f"evaluation {self.name}", self.moves, self.within)

    def takes(self, read: str) -> bool:
        """Whether a read, by id, is evaluated on."""
        return not self.reads or read in self.reads


@dataclass(frozen=True)
class Training:
    """How to learn. The budget is given in minutes of wall clock or in steps."""

    minutes: float = 0
    steps: int = 0
    begins: Mapping[str, float] = field(default_factory=dict)
    """Network that basecall_train has exported, to start from unless another is named, or several of one shape with the shares
    of their weights in the mixture that is started from; relative to the recipe. A recipe may name one alone."""
    follows: str = ""
    """What the start checkpoint was made with, for the card; empty: random weights."""
    exported_with: Mapping[str, float] = field(default_factory=dict)
    """Networks that basecall_train has exported, relative to the recipe, with the shares of their weights in the exported network.
    The trained network has the rest."""
    seed: int = 1
    batch: int = 16
    chunk: int = 1800
    """Samples per chunk."""
    border: int = 12
    """Frames of targets at either end of a chunk whose loss does not count: their context is cut off."""
    ctc: float = 0.0
    """Weight of a CTC loss against the frame loss, in chunks whose true bases are all known."""
    ctc_start: float = 0.5
    """Part of the budget before which only the frame loss counts."""
    memory: float = 0.0
    """Samples after which a cell of the network should have forgotten all but 1/e of its state; 0: as long as it likes. The
    shorter, the more a read is called in windows as it is at once."""
    consistency: float = 0.0
    """Weight of how much the scores of a chunk's middle change when half of the windows' overlap is missing at either end.
    Together with a short memory it makes a read's call the same wherever windows begin."""
    dropout: float = 0.0
    """Share of the channels of what a layer adds that a chunk does without, the same ones from its begin to its end (Gal and
    Ghahramani 2016, arXiv:1512.05287). Reads that are seen dozens of times are learned by heart otherwise."""
    mentors: tuple[str, ...] = ()
    """Networks with a CRF that basecall_train has exported, relative to the recipe, whose combined scores the network learns
    (see :mod:`.distillation`)."""
    mentored: float = 0.0
    """Share of the chunks for which it learns these scores instead of the truth."""
    mentor_shares: tuple[float, ...] = ()
    """How much each of them counts in the mean of their scores; by default all alike."""
    learning_rate: float = 4e-3
    warmup: int = 200
    """Steps over which the rate rises from zero."""
    decay: float = 0.65
    """Last part of the budget over which the rate falls linearly to zero."""
    weight_decay: float = 0.02
    blank: float = 0.0
    """Logit that the exported network gives the blank besides the trained one. A network trained by frames leaves out more bases
    than it inserts."""
    average: float = 0.998
    """Decay per step of the averaged weights, which are exported."""
    machine: str = ""
    """What the minutes were spent on, for the card; empty: so many threads of a processor."""
    threads: int = 2
    parts: int = 4
    """Pieces of a batch, worked on by the threads. Part of the recipe: it fixes the order of summation."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mentors", tuple(self.mentors))
        if not 0 <= self.mentored <= 1 or bool(self.mentors) != (self.mentored > 0):
            raise ValueError("training: mentored is the share, 1 at most, of the chunks that mentors are heard of; give both")
        object.__setattr__(self, "mentor_shares", tuple(self.mentor_shares))
        if self.mentor_shares:
            check_shares("training", self.mentor_shares, self.mentors)
        if (self.minutes > 0) == (self.steps > 0):
            raise ValueError("training: give either minutes or steps")
        if isinstance(self.begins, str):
            object.__setattr__(self, "begins", {self.begins: 1.0} if self.begins else {})
        if self.begins and (min(self.begins.values()) <= 0 or not math.isclose(sum(self.begins.values()), 1)):
            raise ValueError("training: the shares of networks that begins names are above 0 and 1 together")
        if self.exported_with and (min(self.exported_with.values()) <= 0 or sum(self.exported_with.values()) >= 1):
            raise ValueError("training: the shares of networks that exported_with names are above 0 and together below 1")
        if self.memory < 0:
            raise ValueError("training: memory is a number of samples, 0 for no limit")
        if self.consistency < 0:
            raise ValueError("training: consistency is a weight, 0 for none")
        if not 0 <= self.dropout < 1:
            raise ValueError("training: dropout is a share, below 1")
        if self.batch % self.parts or self.chunk % STRIDE or self.chunk // STRIDE <= 2 * self.border:
            raise ValueError("training: parts must divide batch, chunk be a multiple of the stride and exceed its borders")

    def check_stride(self, stride: int) -> None:
        """Raises an error if chunks and their borders are not whole frames of so many samples."""
        if self.chunk % stride or self.border * STRIDE % stride:
            raise ValueError(
                f"training: chunk ({self.chunk}) and border ({self.border} x {STRIDE} samples) must be multiples of stride {stride}"
            )


def check_shares(where: str, shares: tuple[float, ...], mentors: tuple[str, ...]) -> None:
    """Raises an error if shares are not those of the mentors."""
    if len(shares) != len(mentors) or min(shares) < 0 or sum(shares) == 0:
        raise ValueError(f"{where}: mentor_shares are as many as mentors, none of them negative and not all 0")


def check_within(where: str, moves: str, within: str) -> None:
    """Raises an error if a region is none, or limits no truth."""
    if within and not moves:
        raise ValueError(f"{where}: within limits the truth by moves, and there is none")
    if within:
        Region.parse(within)


@dataclass(frozen=True)
class Augmentation:
    """Standard deviations of the augmentations of a chunk, in units of normalised signal."""

    scale: float = 0.05
    shift: float = 0.06
    drift: float = 0.04
    """Linear change from the middle of the chunk to its end."""
    noise: float = 0.08
    """Largest standard deviation of white noise; each chunk draws its own."""
    warp: float = 0.0
    """Standard deviation of the factor by which a chunk is sped up; 0.08 is about what reads of a run differ by."""
    levels: float = 0.0
    """Largest standard deviation of the offsets added to stretches of about as many samples as a base has; each chunk draws its
    own.
    The same few bases have another level in another read, and in another place."""

    def __post_init__(self) -> None:
        if min(astuple(self)) < 0 or self.warp > 0.15:
            raise ValueError("augmentation: deviations are not negative, and warp is 0.15 at most: CTC needs room")


@dataclass(frozen=True)
class Recipe:
    """A parsed recipe file."""

    manifest: Manifest
    shape: Shape
    training: Training
    augmentation: Augmentation
    teacher_file: str
    """Empty: there is none."""
    teacher: Manifest | None
    sources: tuple[Source, ...]
    evaluations: tuple[Evaluation, ...]
    teacher_citation: str = ""
    teacher_licence: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    """Sections of the model card by heading."""

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Reads and checks a recipe."""
        with path.open("rb") as stream:
            table = tomllib.load(stream)
        try:
            model, teacher = table["model"], table.get("teacher")
            shape, training = Shape(**table.get("network", {})), Training(**table["training"])
            training.check_stride(shape.stride)
            if model["window"] % shape.stride:
                raise ValueError(f"model: window ({model['window']}) must be a multiple of stride {shape.stride}")
            if training.consistency and training.chunk <= 2 * model["overlap"]:
                raise ValueError(
                    f"training: consistency is for chunks of more than {2 * model['overlap']} samples, twice what windows share"
                )
            if training.mentors and not shape.state_length:
                raise ValueError("training: only a CRF (network.state_length) can learn from mentors")
            for key in ("begins", "exported_with"):
                named = {str(path.parent / name): share for name, share in getattr(training, key).items()}
                training = replace(training, **{key: named})
            training = replace(training, mentors=tuple(str(path.parent / one) for one in training.mentors))
            sources = tuple(Source(**source) for source in table["source"])
            sources = tuple(
                replace(
                    one,
                    pore_model=str(path.parent / one.pore_model) if one.pore_model else "",
                    joined_by=tuple(str(path.parent / network) for network in one.joined_by),
                )
                for one in sources
            )
            for one in sources:
                if one.mentor_shares:
                    check_shares(f"source {one.name}", one.mentor_shares, training.mentors)
                for name in one.pieces_of:
                    if name not in {other.name for other in sources if other.has_reads}:
                        raise ValueError(f"source {one.name}: pieces_of {name!r} names no source with reads")
            evaluations = tuple(Evaluation(**one) for one in table.get("evaluation", []))
            if not teacher:
                needs = [one.name for one in sources if one.needs_teacher]
                needs += [one.name for one in evaluations if one.watched and not one.moves]
                if needs or shape.hears or not shape.state_length:
                    raise ValueError(f"no [teacher], which {', '.join(needs) or 'the network'} needs")
            if any(source.pore_model for source in sources) and not shape.state_length:
                raise ValueError(
                    "a source from a pore model has no frame targets: only a CRF (network.state_length) can learn from it"
                )
            return cls(
                manifest=Manifest(
                    name=model["name"],
                    version=model["version"],
                    description=model["description"],
                    chemistry=model["chemistry"],
                    sample_rates=tuple(model["sample_rates"]),
                    stride=shape.frame,
                    window=model["window"],
                    overlap=model["overlap"],
                    half_file="model.half.onnx",
                    base_bonus=model.get("base_bonus", 0.0),
                    scores="transitions" if shape.state_length else "log_probabilities",
                    state_length=shape.state_length,
                    beam_width=12 if shape.state_length else Manifest.beam_width,
                    beam_cut=100.0 if shape.state_length else Manifest.beam_cut,
                    quality_neighbours=model.get("neighbours", 0),
                    quality_neighbour_share=model.get("neighbour_share", 0.0),
                ),
                shape=shape,
                training=training,
                augmentation=Augmentation(**table.get("augmentation", {})),
                teacher_file=teacher["file"] if teacher else "",
                teacher=None
                if not teacher
                else Manifest(
                    name=teacher["name"],
                    version="",
                    description="",
                    chemistry=model["chemistry"],
                    sample_rates=tuple(model["sample_rates"]),
                    stride=STRIDE,
                    window=teacher["window"],
                    overlap=teacher["overlap"],
                    input=teacher["input"],
                    output=teacher["output"],
                    output_layout=teacher["output_layout"],
                    scores=teacher["scores"],
                    clip=teacher["clip"],
                ),
                sources=sources,
                evaluations=evaluations,
                teacher_citation=teacher.get("citation", "") if teacher else "",
                teacher_licence=teacher.get("licence", "") if teacher else "",
                notes=table.get("notes", {}),
            )
        except KeyError as missing:
            raise ValueError(f"{path}: key {missing} is missing") from missing
        except (TypeError, ValueError) as fault:
            raise ValueError(f"{path}: {fault}") from fault
