"""Prepared training data: normalised signal and frame targets as flat arrays, and the drawing of chunks from them."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import mappy
import numpy as np
import torch

from .alignment import Reference
from .calling import Model, greedy
from .engine import simulated_run
from .export import read as read_network
from .manifest import ALPHABET
from .moves import Truths
from .network import STRIDE
from .overlaps import Ear, overlapping_truths
from .recipe import Augmentation, Recipe, Source, Training
from .recombined import RecombinedChunks
from .relatives import related_truth
from .signal import normalise, read_recording
from .simulated import SimulatedChunks, open_pore_model, read_genomes
from .targets import FLOOR, UNKNOWN, Conditioned, condition, condition_on, conditioned_again
from .warp import TooFast, pace, warped
from .watched import prepare_watched

log = logging.getLogger(__name__)

SAMPLES_PER_BASE = 9
"""At 4 kHz and 450 bases/s."""
PATIENCE = 1000
"""Chunks that are drawn to find one with enough truth."""
TEACHER = "teacher.onnx"
"""The teacher in a prepared folder, for chunks whose speed is changed."""
DESCRIPTION = "source.json"
"""File that says what a prepared folder was made from."""


def prepare(recipe: Recipe, data: Path, store: Path, pore: Path | None = None) -> None:
    """Runs the teacher over every source and writes ``STORE/SOURCE/{signal,targets,bases,lengths}.npy``; and over chunks to watch.

    A source that is already there for the same description is kept. pore: the program, for sources that are simulated.
    """
    store.mkdir(parents=True, exist_ok=True)
    teacher = None
    if recipe.teacher:
        teacher = Model(data / recipe.teacher_file, recipe.teacher)
        shutil.copyfile(data / recipe.teacher_file, store / TEACHER)
    for source in recipe.sources:
        if source.genomes:
            _prepare_genomes(source, data, store / source.name)
        if not source.has_reads:
            continue  # drawn as they are needed
        folder = store / source.name
        if _is_prepared(recipe, source, folder):
            log.info("%s: already prepared", source.name)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        (folder / DESCRIPTION).unlink(missing_ok=True)
        if source.moves:
            _prepare_by_moves(source, recipe.manifest.clip, data, folder)
            (folder / DESCRIPTION).write_text(json.dumps(_description(recipe, source), indent=1))
            continue
        teachers = [teacher, *(_exported(Path(network), recipe) for network in source.joined_by)]
        with tempfile.TemporaryDirectory(dir=store) as scratch:
            recording = data / source.recordings
            if source.simulated_from:
                recording = simulated_run(pore, data / source.simulated_from, source.simulate, Path(scratch))
            _prepare_source(source, recording, recipe.manifest.clip, teachers, data, folder)
        # Written last: its presence says that the arrays are whole.
        (folder / DESCRIPTION).write_text(json.dumps(_description(recipe, source), indent=1))
    prepare_watched(recipe, data, store, teacher)


def _description(recipe: Recipe, source: Source) -> dict:
    """Returns all that the prepared arrays depend on."""
    described = asdict(source)
    for irrelevant in (
        "share", "mentor_shares", "citation", "licence", "pore_model", "known", "pieces_of", "balance", "faster", "joined_by",
        "eased", "genomes",
    ):  # fmt: skip
        del described[irrelevant]
    usual = {one.name: one.default for one in fields(Source)}
    for later in (
        "overlaps", "relatives", "simulated_from", "simulate", "least_identity", "least_aligned", "moves", "within", "without",
    ):  # fmt: skip
        if described[later] == usual[later]:  # keeps what was prepared before there were any
            del described[later]
    if source.simulate:
        described["simulate"] = list(source.simulate)  # as JSON has it
    if source.without:
        described["without"] = list(source.without)
    if source.relatives:
        described["relatives"] = list(source.relatives)
    if source.joined_by:  # by name: the same recipe may lie elsewhere
        described["joined_by"] = [Path(network).name for network in source.joined_by]
    return described | {"teacher": recipe.teacher_file, "clip": recipe.manifest.clip}


def _is_prepared(recipe: Recipe, source: Source, folder: Path) -> bool:
    path = folder / DESCRIPTION
    return path.is_file() and json.loads(path.read_text()) == _description(recipe, source)


def _exported(network: Path, recipe: Recipe) -> Model:
    """Opens a network that :mod:`.export` has written, with a CTC head."""
    shape = read_network(network).shape
    if shape.state_length:
        raise ValueError(f"{network}: only a network with a CTC head can join a teacher")
    manifest = replace(recipe.manifest, stride=STRIDE, scores="log_probabilities", state_length=0)
    return Model(network, manifest)


def joined(posteriors: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the geometric mean of distributions [..., classes], each row a distribution again."""
    if len(posteriors) == 1:
        return posteriors[0]
    mean = np.exp(sum(np.log(p + np.float32(FLOOR)) for p in posteriors) / len(posteriors))
    return mean / mean.sum(-1, keepdims=True)


def _prepare_genomes(source: Source, data: Path, folder: Path) -> None:
    """Writes the genomes of a source that goes through a pore model, one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    genomes = read_genomes([data / one for one in source.genomes])
    np.save(folder / "lengths.npy", np.array([len(one) for one in genomes]))
    np.save(folder / "genomes.npy", np.concatenate(genomes))


def _genomes(source: Source, folder: Path) -> list[np.ndarray]:
    """Opens what _prepare_genomes has written."""
    if not source.genomes:
        return []
    if not (folder / "genomes.npy").is_file():
        raise ValueError(f"{folder}: not prepared for this recipe (run the prepare command)")
    return np.split(np.load(folder / "genomes.npy", mmap_mode="r"), np.cumsum(np.load(folder / "lengths.npy"))[:-1])


def _prepare_by_moves(source: Source, clip: float, data: Path, folder: Path) -> None:
    """Writes the arrays of a source whose truth is in alignments with moves."""
    truths = Truths(data / source.moves, source.within)
    signals, bases = [], []
    for read in read_recording(data / source.recordings):
        frames = None if read.id in source.without else truths.frames(read.id, len(read.raw))
        if frames is None or (frames == UNKNOWN).all():
            continue
        signals.append(normalise(read.raw, clip)[: len(frames) * STRIDE].astype(np.float16))
        bases.append(frames)
    if not signals:
        raise ValueError(f"source {source.name}: none of its reads has a truth in {data / source.moves} {source.within}")
    together = np.concatenate(bases)
    surely = np.where(together == UNKNOWN, 0, together)
    np.save(folder / "signal.npy", np.concatenate(signals))
    np.save(folder / "targets.npy", np.eye(len(ALPHABET), dtype=np.float16)[surely])
    np.save(folder / "bases.npy", together)
    np.save(folder / "lengths.npy", np.array([len(one) for one in signals]))
    log.info(
        "%s: %d reads, truth for %.0f %% of the frames", source.name, len(signals), 100 * np.mean(together != UNKNOWN)
    )  # fmt: skip


def _prepare_source(source: Source, recording: Path, clip: float, teachers: Sequence[Model], data: Path, folder: Path) -> None:
    genome = Reference.read(data / source.reference) if source.reference else None
    relatives = [Reference.read(data / genome) for genome in source.relatives]
    calls = {name: bases for name, bases, _ in mappy.fastx_read(str(data / source.calls))} if source.calls else {}
    signals: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    bases: list[np.ndarray] = []
    ears: list[Ear] = []

    def add(posteriors: np.ndarray, conditioned: Conditioned) -> None:
        weight = source.truth_weight
        targets.append(((1 - weight) * posteriors + weight * conditioned.targets).astype(np.float16))
        bases.append(conditioned.bases)

    for read in read_recording(recording):
        try:
            posteriors = joined([teacher.posteriors(read.raw) for teacher in teachers])
        except ValueError as fault:
            raise ValueError(f"{recording}: read {read.id}: {fault}") from fault
        signals.append(normalise(read.raw, clip)[: len(posteriors) * STRIDE].astype(np.float16))
        if source.overlaps:  # has to wait for the other reads
            ears.append(Ear(greedy(posteriors, ALPHABET), posteriors))
            continue
        if relatives:
            call = greedy(posteriors, ALPHABET)
            add(posteriors, condition_on(posteriors, related_truth(call, posteriors, relatives, source.least_identity)))
            continue
        truth = genome or (Reference({read.id: calls[read.id]}) if read.id in calls else None)
        add(posteriors, condition(posteriors, truth, source.least_identity, source.least_aligned))
    for ear, parts in zip(ears, overlapping_truths(ears), strict=True):
        add(ear.posteriors, condition_on(ear.posteriors, parts))
    lengths = np.array([len(s) for s in signals])
    np.save(folder / "signal.npy", np.concatenate(signals))
    np.save(folder / "targets.npy", np.concatenate(targets))
    np.save(folder / "bases.npy", np.concatenate(bases))
    np.save(folder / "lengths.npy", lengths)
    known = np.mean(np.concatenate(bases) != UNKNOWN)
    log.info(
        "%s: %d reads, %d samples, truth for %.0f %% of the frames",
        source.name, len(lengths), lengths.sum(), 100 * known,
    )  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """Chunks: signal [N, 1, T], target distributions [T/3, N, classes] and the true bases emitted in each frame [N, T/3].

    For a CRF, which is trained by the bases alone, there are no targets.
    """

    signal: torch.Tensor
    targets: torch.Tensor
    bases: np.ndarray
    sources: np.ndarray
    """Places [N] in the recipe of the sources that they are from."""


class Sampler:
    """Draws batches. A batch depends on the seed and the step alone, so a resumed run sees what an unbroken one would."""

    def __init__(self, recipe: Recipe, store: Path) -> None:
        self._training = recipe.training
        self._augmentation = recipe.augmentation
        self._spelled = recipe.shape.state_length > 0
        self._bases_alone = recipe.training.ctc == 1 and recipe.training.ctc_start == 0
        """Whether what frames say counts for nothing where all bases are known."""
        for source in recipe.sources:
            if source.has_reads and not _is_prepared(recipe, source, store / source.name):
                raise ValueError(f"{store / source.name}: not prepared for this recipe (run the prepare command)")
        self._sources = recipe.sources
        self._chunks = [_chunks(source, store, recipe.training.chunk) for source in recipe.sources]
        anew = recipe.augmentation.warp or any(source.faster or source.pieces_of for source in recipe.sources)
        self._teachers: list[list[Model]] = []
        """Of each source. They call chunks of another speed anew, and those of joined pieces, for a head that is given a target
        for every frame: targets moved to the nearest frame are late or early at random, and the time at which a base passes
        depends on the bases before."""
        if anew and not self._spelled:
            teacher = Model(store / TEACHER, recipe.teacher, threads=1)
            ours = {network: _exported(Path(network), recipe) for one in recipe.sources for network in one.joined_by}
            self._teachers = [[teacher, *(ours[network] for network in source.joined_by)] for source in recipe.sources]
        shares = np.array([source.share for source in recipe.sources])
        self._shares = shares / shares.sum()

    def batch(self, step: int) -> Batch:
        """Returns the batch of a step."""
        training: Training = self._training
        rng = np.random.default_rng((training.seed, step))
        frames = training.chunk // STRIDE
        signal = np.empty((training.batch, 1, training.chunk), np.float32)
        targets = np.empty((frames, training.batch, self._chunks[0].classes), np.float32)
        bases = np.empty((training.batch, frames), np.uint8)
        clean = np.empty((training.batch, training.chunk), np.float32)
        weights = np.zeros(training.batch)
        anew = np.zeros(training.batch, bool)
        source = np.empty(training.batch, np.int64)
        for n in range(training.batch):
            source[n], clean[n], targets[:, n], bases[n], anew[n], weights[n] = self._draw(rng)
            if self._bases_alone and (bases[n] != UNKNOWN).all():
                anew[n] = False  # its frames are not used
            if self._spelled:
                bases[n] = spelled(targets[:, n], bases[n])
            signal[n, 0] = augment(clean[n], self._augmentation, rng)
        for k, teachers in enumerate(self._teachers):
            if (again := anew & (source == k)).any():
                heard = joined([teacher.scores(clean[again]) for teacher in teachers])
                targets[:, again] = conditioned_again(heard, bases[again], weights[again]).transpose(1, 0, 2)
        if self._spelled:
            targets = targets[:0]
        return Batch(torch.from_numpy(signal), torch.from_numpy(targets), bases, source)

    def _draw(self, rng: np.random.Generator) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, bool, float]:
        """Returns of a chunk the number of its source, signal, targets and bases, whether a teacher has to call it anew, and the
        weight of its truth.

        One that is fast already may not bear to be sped up.
        """
        k = rng.choice(len(self._sources), p=self._shares)
        for _ in range(PATIENCE):
            try:
                source = self._sources[k]
                quicker = pace(rng, self._augmentation.warp, source.faster)
                return k, *self._chunks[k].draw(rng, quicker), quicker != 1 or bool(source.pieces_of), source.truth_weight
            except TooFast as fault:
                last = fault
        raise last


def spelled(targets: np.ndarray, bases: np.ndarray) -> np.ndarray:
    """Returns the bases [T] that frames emit, from targets [T, classes] wherever a part of the truth is not known.

    A loss over whole sequences needs them without gaps. Targets are conditioned on the truth where there is one, so that
    their best classes spell it there, and elsewhere what the teacher calls.
    """
    if (bases != UNKNOWN).all():
        return bases
    best = targets.argmax(-1).astype(np.uint8)
    begins = np.concatenate([[True], best[1:] != best[:-1]])
    return np.where(begins, best, 0).astype(np.uint8)


def augment(chunk: np.ndarray, how: Augmentation, rng: np.random.Generator) -> np.ndarray:
    """Returns the chunk as a slightly different pore, amplifier and read would have given it."""
    scale, shift, drift = rng.standard_normal(3) * (how.scale, how.shift, how.drift)
    trend = np.linspace(-1, 1, len(chunk), dtype=np.float32)
    noise = rng.standard_normal(len(chunk), dtype=np.float32) * np.float32(rng.random() * how.noise)
    made = chunk * np.float32(1 + scale) + np.float32(shift) + np.float32(drift) * trend + noise
    if how.levels:  # drawn last: without it chunks are what they were before there was any
        stretch = np.cumsum(rng.random(len(chunk)) < 1 / SAMPLES_PER_BASE)
        levels = rng.standard_normal(stretch[-1] + 1, dtype=np.float32) * np.float32(rng.random() * how.levels)
        made += levels[stretch]
    return made


def _chunks(source: Source, store: Path, samples: int) -> _Chunks | SimulatedChunks | RecombinedChunks:
    """Opens what chunks of a source are drawn from."""
    if source.pieces_of:
        return RecombinedChunks([store / name for name in source.pieces_of], samples, source.balance)
    if source.pore_model:
        model = open_pore_model(Path(source.pore_model), source.eased)
        return SimulatedChunks(model, samples, _genomes(source, store / source.name))
    return _Chunks(store / source.name, samples, source.known)


class _Chunks:
    """One prepared source, read through memory maps."""

    def __init__(self, folder: Path, samples: int, known: float = 0.0) -> None:
        self._folder, self._known = folder, known
        self._signal = np.load(folder / "signal.npy", mmap_mode="r")
        self._targets = np.load(folder / "targets.npy", mmap_mode="r")
        self._bases = np.load(folder / "bases.npy", mmap_mode="r")
        lengths = np.load(folder / "lengths.npy")
        begins = np.cumsum(lengths) - lengths
        places = (lengths - samples) // STRIDE + 1
        usable = places > 0
        if not usable.any():
            raise ValueError(f"{folder}: no read has {samples} samples")
        self._begins, self._places = begins[usable], np.cumsum(places[usable])
        self._ends = (begins + lengths)[usable]
        self._samples = samples
        self.classes = self._targets.shape[1]

    def draw(self, rng: np.random.Generator, quicker: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns signal, targets and bases of a chunk, every place in every read being equally likely that has truth enough.

        quicker: factor by which it is sped up.
        """
        for _ in range(PATIENCE):
            chunk = self._anywhere(rng, quicker)
            if not self._known or (chunk[2] != UNKNOWN).mean() >= self._known:
                return chunk
        raise ValueError(
            f"{self._folder}: {PATIENCE} chunks, and of none is the truth known for {100 * self._known:g} % of the frames"
        )

    def _anywhere(self, rng: np.random.Generator, quicker: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        place = rng.integers(self._places[-1])
        read = np.searchsorted(self._places, place, side="right")
        within = place - (self._places[read - 1] if read else 0)
        first = self._begins[read] + within * STRIDE
        wanted = self._samples // STRIDE
        frames = min(round(wanted * quicker), (self._ends[read] - first) // STRIDE)
        samples = slice(first, first + frames * STRIDE)
        part = slice(first // STRIDE, first // STRIDE + frames)
        current, targets, bases = (
            self._signal[samples].astype(np.float32),
            self._targets[part].astype(np.float32),
            self._bases[part],
        )
        if frames == wanted:
            return current, targets, bases
        return warped(current, targets, bases, wanted)
