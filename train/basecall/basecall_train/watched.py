"""Chunks that are never trained on, on which a network is evaluated while it learns.

The loss on the training data shows how well that data is known. A network memorises reads that it sees dozens of times: the loss
continues to fall, and calls of other reads become worse.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from .alignment import Reference, global_identity
from .calling import Model, greedy
from .crf import StateSpace
from .devices import autocast
from .manifest import ALPHABET
from .moves import Truths
from .network import STRIDE, Basecaller
from .recipe import Evaluation, Recipe
from .signal import normalise, read_recording
from .targets import UNKNOWN, condition

log = logging.getLogger(__name__)

TOGETHER = 16
"""Chunks that are called at a time."""


@dataclass(frozen=True)
class Watched:
    """Chunks of an evaluation set whose true bases are known from end to end."""

    name: str
    signal: np.ndarray
    """[N, samples] float32, normalised."""
    bases: np.ndarray
    """[N, samples/3] uint8: the class that each frame emits, 0 for none."""


def prepare_watched(recipe: Recipe, data: Path, store: Path, teacher: Model | None) -> None:
    """Writes ``STORE/watched NAME.npz`` for the evaluation sets with chunks to watch. A file for the same
    description is kept."""
    for one in recipe.evaluations:
        if not one.watched:
            continue
        path = _path(store, one)
        if path.is_file() and str(np.load(path)["description"]) == _description(recipe, one):
            log.info("%s: already prepared", one.name)
            continue
        signal, bases = _chunks(recipe, one, data, teacher)
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, signal=signal, bases=bases, description=_description(recipe, one))
        partial.replace(path)
        log.info("%s: %d chunks to watch", one.name, len(signal))


def watched(recipe: Recipe, store: Path) -> list[Watched]:
    """Reads what has been prepared."""
    found = []
    for one in recipe.evaluations:
        if one.watched:
            path = _path(store, one)
            held = np.load(path) if path.is_file() else None
            if held is None or str(held["description"]) != _description(recipe, one):
                raise ValueError(f"{path}: not prepared for this recipe (run the prepare command)")
            found.append(Watched(one.name, held["signal"].astype(np.float32), held["bases"]))
    return found


def identity(network: Basecaller, chunks: Watched, border: int, precision: torch.dtype = torch.float32) -> float:
    """Returns the identity of a network's calls, all chunks of a set together: greedy ones with a CTC head.

    border: frames of targets at either end that are called and not evaluated. precision: of the network's inner values; a processor
    core that knows bfloat16 is done in half the time.
    """
    shape = network.shape
    inner = slice(border, chunks.bases.shape[1] - border)
    judged = slice(border * STRIDE // shape.frame, chunks.signal.shape[1] // shape.frame - border * STRIDE // shape.frame)
    device = next(network.parameters()).device
    matches = columns = 0
    for first in range(0, len(chunks.signal), TOGETHER):
        some = slice(first, first + TOGETHER)
        with torch.no_grad(), autocast(device, precision):
            scores = network(torch.from_numpy(chunks.signal[some, None]).to(device)).float().cpu().numpy()
        for n, truth in enumerate(chunks.bases[some, inner]):
            if shape.state_length:
                called = StateSpace(shape.state_length).call(scores[judged, n]) + np.uint8(1)
            else:
                called = _classes(greedy(scores[judged, n], ALPHABET).bases)
            found = global_identity(called, truth[truth > 0])
            matches, columns = matches + found[0], columns + found[1]
    return matches / columns


def _classes(bases: str) -> np.ndarray:
    return np.array([ALPHABET.index(base) for base in bases], np.uint8)


def _path(store: Path, one: Evaluation) -> Path:
    return store / f"watched {one.name}.npz"


def _description(recipe: Recipe, one: Evaluation) -> str:
    """Returns all that the chunks of a set depend on."""
    clip = recipe.manifest.clip
    described = [one.recordings, one.reference, one.watched, recipe.training.chunk, recipe.teacher_file, clip]
    return json.dumps([*described, one.moves, one.within, one.reads] if one.moves else described)


def _chunks(recipe: Recipe, one: Evaluation, data: Path, teacher: Model | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns signal [N, samples] and bases [N, samples/3] of a chunk with a whole truth of as many reads as are asked for.

    The reads are spread evenly over the recording.
    """
    if one.moves:
        truths = Truths(data / one.moves, one.within)
    else:
        genome = Reference.read(data / one.reference)
    frames = recipe.training.chunk // STRIDE
    asked = (read for read in read_recording(data / one.recordings) if one.takes(read.id))
    reads = [read for read in asked if len(read.raw) >= recipe.training.chunk]
    signals: list[np.ndarray] = []
    bases: list[np.ndarray] = []
    for read in _spread(reads, one.watched):
        if one.moves:
            known = truths.frames(read.id, len(read.raw))
            if known is None:
                continue
        else:
            known = condition(teacher.posteriors(read.raw), genome).bases
        begin = _known_throughout(known, frames)
        if begin is None:
            continue
        samples = slice(begin * STRIDE, (begin + frames) * STRIDE)
        signals.append(normalise(read.raw, recipe.manifest.clip)[samples].astype(np.float16))
        bases.append(known[begin : begin + frames])
        if len(signals) == one.watched:
            return np.stack(signals), np.stack(bases)
    raise ValueError(
        f"evaluation {one.name}: watched = {one.watched}, but only {len(signals)} of its reads have {recipe.training.chunk} "
        "samples in a row whose truth is known"
    )


def _spread(reads: Sequence, wanted: int) -> list:
    """Returns reads in an order such that every beginning is spread over all of them: each so-many-th, then those after them."""
    step = max(1, len(reads) // wanted)
    return [read for first in range(step) for read in reads[first::step]]


def _known_throughout(bases: np.ndarray, frames: int) -> int | None:
    """Returns the frame from which on so many have a truth, the middle one of all there are."""
    unknown = np.concatenate([[0], np.cumsum(bases == UNKNOWN)])
    begins = np.flatnonzero(unknown[frames:] == unknown[:-frames])
    return int(begins[len(begins) // 2]) if len(begins) else None
