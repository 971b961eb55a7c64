"""Examples on disk, and batches of them.

A world's examples are two NumPy files that ``train/variant/examples`` writes: ``examples.npy``, float16 [n, SIZE], and
``labels.npy``, the structured array :data:`LABEL`. Both are mapped into memory, not read.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from . import layout
from .recipe import Basecaller, RealSource, Recipe, SignalSource, SimulatedSource, Source
from .worlds import World, called, piece, run, simulated

log = logging.getLogger(__name__)

LABEL = np.dtype(
    [
        ("position", "<i4"),  # 0-based, of the first reference base of the allele
        ("copies", "u1"),  # true copies of the allele, of a haploid sample 0 or 2; AMBIGUOUS: no one label is right
        ("zygosity", "u1"),  # of the site: 0 reference only, 1 two alleles, 2 one other allele
        ("length", "i1"),  # change of length of the haplotype that the allele's reads come from, in -16..16
        ("mode", "u1"),  # index into layout.MODES
        ("type", "u1"),  # index into layout.TYPES
        ("run", "u1"),  # longest homopolymer run that the allele touches
        ("depth", "<u2"),  # reads that span the allele
    ]
)

AMBIGUOUS = 255

VALIDATION, TRAINING = "validation", "training"


@dataclass(frozen=True)
class Programs:
    """The Go programs that examples are made with."""

    pore: Path
    extract: Path
    """train/variant/examples."""
    scale: Path
    """train/variant/profile."""


@dataclass(frozen=True)
class Task:
    """One world to make."""

    source: Source
    reads: Reads | None
    """None: they are simulated with the world."""
    data: Path
    programs: Programs
    seed: int
    folder: Path
    keep: bool
    errors: Path | None = None
    """The expected error rates of the reads, as `examples errors` writes them."""


@dataclass(frozen=True)
class Reads:
    """A basecaller's reads of a genome without variants."""

    calls: Path
    """FASTQ."""
    genome: Path
    """FASTA of one sequence."""


def prepare(
    recipe: Recipe, data: Path, work: Path, programs: Programs, *, keep: bool = False, workers: int = 2, errors: Path | None = None
) -> None:
    """Calls recordings, makes every world of the recipe, and extracts its examples. Existing files stay."""
    tasks = []
    for source in recipe.sources:
        reads = _reads(source, recipe, data, work, programs.pore)
        for n in range(source.worlds):
            seed = source.seed + n
            folder = world_folder(work, source, seed)
            if not (folder / "labels.npy").is_file():
                tasks.append(Task(source, reads(n), data, programs, seed, folder, keep, errors))
    # A worker keeps what it has aligned last, so worlds of the same reads follow each other.
    tasks.sort(key=lambda task: str(task.reads.calls) if task.reads else "")
    _spread(_make, tasks, workers)


def _reads(source: Source, recipe: Recipe, data: Path, work: Path, pore: Path) -> Callable[[int], Reads | None]:
    """Returns a function from a world's number to the reads that the source's world is made of. Recordings are called first."""
    callers = {caller.name: caller for caller in recipe.basecallers}

    def calls(recording: Path, label: str, caller: str) -> Path:
        return _called(recording, label, callers[caller], data, work, pore)

    if isinstance(source, SimulatedSource):
        return lambda world: None
    if isinstance(source, SignalSource):
        folder = source_folder(work / "signal", source)
        pieces = [piece(source, data / source.genome, pore, n, folder / f"{n:02d}") for n in range(source.pieces)]
        by = {
            (n, caller): Reads(calls(one.recording, f"{folder.name}-{n:02d}", caller), one.genome)
            for n, one in enumerate(pieces)
            for caller in dict.fromkeys(source.basecallers)
        }
        return lambda world: by[source.piece_of(world), source.basecaller_of(world)]
    genome = data / source.genome
    if source.reads:
        return lambda world: Reads(data / source.reads, genome)
    label = source.recordings.replace("/", "-")
    by = {caller: Reads(calls(data / source.recordings, label, caller), genome) for caller in dict.fromkeys(source.basecallers)}
    return lambda world: by[source.basecaller_of(world)]


def _spread(work: Callable[[Task], str], tasks: list[Task], workers: int) -> None:
    if workers < 2:
        results = map(work, tasks)
    else:
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        results = pool.map(work, tasks)
    for n, said in enumerate(results, 1):
        log.info("world %d of %d: %s", n, len(tasks), said)
    if workers >= 2:
        pool.shutdown()


def world_folder(work: Path, source: Source, seed: int) -> Path:
    """Returns where a world lies."""
    return source_folder(work / "worlds", source) / f"{seed:04d}"


def source_folder(parent: Path, source: Source) -> Path:
    """Returns where in a folder the files made of a source lie: another recipe for the same source lies elsewhere."""
    told = {k: v for k, v in asdict(source).items() if k not in _LATER and (k, v) != ("region", (0, 0))}
    text = json.dumps(told, sort_keys=True, default=str)
    return parent / f"{source.name}-{zlib.crc32(text.encode()):08x}"


_LATER = {"worlds", "seed", "share", "held_out", "held_out_worlds", "held_out_pieces", "citation", "licence"}
"""Keys of a source that don't change what its worlds are."""


def _make(task: Task) -> str:
    task.folder.mkdir(parents=True, exist_ok=True)
    if task.reads:
        world = called(task.source, task.reads.calls, task.reads.genome, task.seed, task.folder)
    else:
        genome, programs = task.data / task.source.genome, task.programs
        world = simulated(task.source, genome, programs.pore, programs.scale, task.seed, task.folder)
    said = extracted(world, task.programs.extract, task.errors)
    if not task.keep:
        for path in (world.reference, world.alignments):
            path.unlink()
    return f"{task.source.name} {task.seed}, {world.mode} {world.depth:.0f}x: {said}"


def extracted(world: World, extract: Path, errors: Path | None = None) -> str:
    """Writes the examples of a world beside it and returns what the program said of them."""
    partial = world.folder / "partial"
    ploidy = {"haploid": "1", "diploid": "2"}.get(world.mode, world.mode)
    run(
        [
            str(extract), "--ref", str(world.reference), "--truth", str(world.truth), "--ploidy", ploidy,
            "--out", str(partial), *(["--errors", str(errors)] if errors else []), str(world.alignments),
        ]
    )  # fmt: skip
    counts = json.loads((partial / "counts.json").read_text())
    for name in ("examples.npy", "counts.json", "labels.npy"):
        os.replace(partial / name, world.folder / name)
    shutil.rmtree(partial)
    return ", ".join(f"{n} {name}" for name, n in counts.items())


def _called(recording: Path, label: str, caller: Basecaller, data: Path, work: Path, pore: Path) -> Path:
    """Returns a recording's calls by one basecaller. They are kept by the label, so sources of the same recordings share them."""
    path = work / "calls" / f"{label}-{caller.name}.fastq"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    log.info("calling %s with %s", label, caller.name)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as out:
        run([str(pore), "basecall", "--model", str(_model(caller, data, work)), str(recording)], stdout=out)
    os.replace(partial, path)
    return path


def _model(caller: Basecaller, data: Path, work: Path) -> str | Path:
    """Returns what pore's --model takes: the name of a shipped model, or a folder made for a bare network."""
    if not caller.network:
        return caller.name
    import hashlib

    folder = work / "basecallers" / caller.name
    folder.mkdir(parents=True, exist_ok=True)
    network = (data / caller.network).read_bytes()
    (folder / "model.onnx").write_bytes(network)
    (folder / "manifest.toml").write_text(
        f'format = 1\nname = "{caller.name}"\nchemistry = "r9.4"\nsample_rates = [4000]\n'
        f'network = {{ file = "model.onnx", sha256 = "{hashlib.sha256(network).hexdigest()}", input = "signal", '
        'output = "logits", output_layout = "TNC", scores = "logits", stride = 3 }\n'
        'normalisation = { method = "med_mad" }\nwindow = { samples = 1560, overlap = 60 }\n'
        'decoder = { type = "ctc", labels = ["", "A", "C", "G", "T"], beam_width = 5, beam_cut = 0.1 }\n'
    )
    return folder


@dataclass(frozen=True)
class Part:
    """The examples of one world that one use may see."""

    source: Source
    examples: np.ndarray
    labels: np.ndarray
    rows: np.ndarray


def parts(recipe: Recipe, work: Path, use: str) -> list[Part]:
    """Opens the worlds of a recipe for training or validation."""
    found = []
    for source in recipe.sources:
        for n in range(source.worlds):
            folder = world_folder(work, source, source.seed + n)
            if not (folder / "labels.npy").is_file():
                raise FileNotFoundError(f"{folder}: no examples of source {source.name}; prepare the recipe first")
            labels = np.load(folder / "labels.npy")
            if labels.dtype != LABEL:
                raise ValueError(f"{folder}: labels of another version")
            examples = np.load(folder / "examples.npy", mmap_mode="r")
            if examples.shape != (len(labels), layout.SIZE):
                raise ValueError(f"{folder}: examples {examples.shape}, wanted {(len(labels), layout.SIZE)}")
            clear = labels["copies"] != AMBIGUOUS
            if isinstance(source, RealSource):
                low, high = source.held_out
                margin = 500  # planted insertions and deletions move positions a little
                held = (labels["position"] >= low) & (labels["position"] < high)
                near = (labels["position"] >= low - margin) & (labels["position"] < high + margin)
                rows = np.flatnonzero(clear & (held if use == VALIDATION else ~near))
            else:
                chosen = source.holds_out(n) == (use == VALIDATION)
                rows = np.flatnonzero(clear & chosen)
            if len(rows):
                found.append(Part(source, examples, labels, rows))
    if not found:
        raise ValueError(f"the recipe leaves no examples for {use}")
    return found


def counts(some: list[Part]) -> dict[str, Counter]:
    """Counts the examples of each source by mode, type and copies."""
    out: dict[str, Counter] = {}
    for part in some:
        labels = part.labels[part.rows]
        keys, n = np.unique(labels[["mode", "type", "copies"]], return_counts=True)
        counter = out.setdefault(part.source.name, Counter())
        for (mode, kind, copies), number in zip(keys, n, strict=True):
            counter[layout.MODES[mode], layout.TYPES[kind], int(copies)] += int(number)
    return out


@dataclass(frozen=True)
class Batch:
    """Examples with their labels."""

    examples: np.ndarray
    """float32 [N, 1, SIZE]."""
    labels: np.ndarray


def _shares(some: list[Part]) -> np.ndarray:
    """Returns how likely an example is to be drawn from each part: of each source by its share of what it has."""
    share = np.array([part.source.share * len(part.rows) for part in some])
    return share / share.sum()


def _drawn(some: list[Part], shares: np.ndarray, size: int, rng: np.random.Generator) -> Batch:
    """Returns examples of parts."""
    examples = np.empty((size, 1, layout.SIZE), np.float32)
    labels = np.empty(size, LABEL)
    at = 0
    for part, n in zip(some, rng.multinomial(size, shares), strict=True):
        if not n:
            continue
        rows = np.sort(rng.choice(part.rows, n))
        examples[at : at + n, 0] = part.examples[rows]
        labels[at : at + n] = part.labels[rows]
        at += n
    return Batch(examples, labels)


def held_out(recipe: Recipe, work: Path, size: int = 8192) -> Batch:
    """Returns examples that are not trained on, always the same ones: a network's loss on them shows when it has begun to
    memorise the others."""
    some = parts(recipe, work, VALIDATION)
    return _drawn(some, _shares(some), size, np.random.default_rng(0))


class Sampler:
    """Draws batches by step: the same step gives the same batch."""

    def __init__(self, recipe: Recipe, work: Path) -> None:
        self._parts = parts(recipe, work, TRAINING)
        self._shares = _shares(self._parts)
        self._seed, self._size, self._unphased = recipe.training.seed, recipe.training.batch, recipe.training.unphased
        self.examples = sum(len(part.rows) for part in self._parts)

    def batch(self, step: int) -> Batch:
        """Returns the batch of a step."""
        rng = np.random.default_rng([self._seed, step])
        batch = _drawn(self._parts, self._shares, self._size, rng)
        # Reads have no haplotypes while a run goes on, nor where nothing is heterozygous.
        batch.examples[rng.random(self._size) < self._unphased, :, layout.HAPLOTYPES] = 0
        return batch
