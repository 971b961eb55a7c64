"""The training loop."""

from __future__ import annotations

import copy
import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from . import export
from .crf import StateSpace
from .ctc import ctc_losses
from .devices import LossScale, Workers, autocast
from .distillation import Mentors
from .listener import Listener, build
from .loading import Loader
from .narrow import narrowed
from .network import STRIDE, Basecaller, Excess, Shape
from .optimiser import Muon
from .progress import NAME, Row, Table
from .recipe import Recipe, Training
from .store import Batch, Sampler
from .targets import UNKNOWN
from .watched import Watched, identity
from .widen import lengthened, widened

log = logging.getLogger(__name__)

CPU = torch.device("cpu")
EXCESS_WEIGHT = 0.02
"""Of an :class:`.network.Excess` against the loss of a frame in nats."""
MAX_DISTANCE = 0.1
"""Part of their size by which scores may differ from those in single precision. Half precision is within 0.01 where it works; with
112 channels cuDNN's LSTM layers (9.19, on an H200) had nothing in common with it, and training came to nothing."""
MAX_GRADIENT = 1.0
"""Norm to which longer gradients are cut."""


@dataclass(frozen=True)
class Step:
    """The reported values of a step, in nats per frame."""

    divergence: float
    """Kullback-Leibler divergence from the targets; with a CRF from mentors of the same paths, of the chunks that they
    score, and 0 of others."""
    surprise: float
    """CTC or CRF loss of the chunks that have one, 0 without any."""
    gradient: float
    """Norm before it is cut."""
    excess: float = 0.0
    """How much longer the cells remember than they should, see :class:`.network.Excess`; 0 without a limit."""
    inconsistency: float = 0.0
    """Divergence between the scores of a chunk's middle in the chunk and in a window; 0 if it doesn't count."""


_Losses = tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]
"""What to minimise, the divergence, the CTC or CRF loss, each summed over frames and chunks, and how many chunks have the last."""


@dataclass(frozen=True)
class _Gradients:
    """What came of a piece of a batch."""

    gradients: tuple[torch.Tensor, ...]
    divergence: torch.Tensor
    """Its part of the batch's."""
    surprise: torch.Tensor
    """Sum over the chunks that are trained by their bases."""
    judged: int
    excess: float
    inconsistency: float


class Trainer:
    """A network in training: its weights, their running average, the optimiser and how much of the budget is spent.

    A batch is worked on in parts by workers: single-threaded ones on processor cores, as LSTM steps are too small to be shared
    between threads, so that all are busy without a barrier per step, and a core that another program takes away only costs its
    part; or GPUs. Gradients are added in the order of the parts: results do not depend on the number of threads or GPUs.
    Parts beyond the number of workers wait their turn, which is how a batch can be larger than a GPU's memory.
    """

    def __init__(
        self,
        recipe: Recipe,
        sampler: Sampler,
        devices: Sequence[torch.device] = (CPU,),
        precision: torch.dtype | None = None,
        loader: Loader | None = None,
        teacher: Path | None = None,
    ) -> None:
        """precision: of the network's inner values; None: the fastest. loader: of the sampler's batches; None: one thread.
        teacher: whose layers the network or a mentor reads, if one does."""
        self._training = recipe.training
        # Half of what neighbouring windows share is cut off either, in whole steps of the network.
        self._margin = recipe.manifest.overlap // 2 // recipe.shape.stride * recipe.shape.stride
        self._sampler = sampler
        torch.manual_seed(recipe.training.seed)
        self.network = build(recipe.shape, teacher)
        self._asked = precision
        self._workers = Workers(self.network, devices, recipe.training.threads, precision)
        self._scale = LossScale(self._workers.precision)
        self._loader = loader or Loader(sampler)
        mentors = [export.read(Path(one), teacher) for one in recipe.training.mentors]
        self._mentors = Mentors(mentors, devices) if mentors else None
        usual = recipe.training.mentor_shares or (1.0,) * len(mentors)
        self._shares = np.array([source.mentor_shares or usual for source in recipe.sources])
        """How much each mentor counts for chunks of each source."""
        self.average = copy.deepcopy(self.network)
        self.step = 0
        self.seconds = 0.0
        self._optimiser = Muon(self.network, recipe.training.weight_decay, self._workers, recipe.training.parts)

    def advance(self, batch: Batch) -> Step:
        """Takes one step."""
        training = self._training
        parameters = list(self.network.parameters())
        ctc = training.ctc if spent(training, self.step, self.seconds) >= training.ctc_start else 0.0
        size = training.batch // training.parts
        pieces = [slice(n, n + size) for n in range(0, training.batch, size)]
        results = self._workers.map(lambda network, device, piece: self._gradients(network, device, batch, piece, ctc), pieces)
        for i, parameter in enumerate(parameters):
            parameter.grad = sum((r.gradients[i].to(parameter.device) for r in results[1:]), results[0].gradients[i])
        if self._scale.factor != 1:
            torch._foreach_mul_([parameter.grad for parameter in parameters], 1 / self._scale.factor)
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT))
        if math.isfinite(norm):
            self._optimiser.step(learning_rate(training, self.step, self.seconds))
            self._scale.settle(True)
        elif not self._scale.settle(False):  # it would leave nothing of the weights
            log.warning("step %d: its gradient is %s, nothing is learned from it", self.step, norm)
        self.step += 1
        keep = min(training.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), parameters, 1 - keep)
        self._workers.synchronise()
        surprise = sum(float(r.surprise) for r in results) / max(1, sum(r.judged for r in results))
        excess = sum(r.excess for r in results) / len(results)
        inconsistency = sum(r.inconsistency for r in results) / len(results)
        return Step(sum(float(r.divergence) for r in results), surprise, norm, excess, inconsistency)

    def _gradients(self, network: Basecaller, device: torch.device, batch: Batch, piece: slice, ctc: float) -> _Gradients:
        """Works on a piece of a batch."""
        training = self._training
        signal = batch.signal[piece].to(device, non_blocking=True)
        excess = Excess(training.memory, network.shape.stride) if training.memory else None
        kept = self._kept(piece).to(device, non_blocking=True) if training.dropout else None
        with autocast(device, self._workers.precision):
            scores = network(signal, excess, kept)
            inconsistency = _inconsistency(network, signal, kept, scores, self._margin) if training.consistency else torch.zeros(())
        if network.shape.state_length:
            loss, divergence, surprise, judged = self._path_loss(scores, signal, batch, piece)
        else:
            loss, divergence, surprise, judged = self._frame_loss(scores, batch, piece, ctc)
        frames, chunks = scores.shape[0] - 2 * self._border, training.batch
        loss = loss / (frames * chunks)
        # Of each piece these are means.
        if excess:
            loss = loss + EXCESS_WEIGHT * excess.total / training.parts
        if training.consistency:
            loss = loss + training.consistency * inconsistency / training.parts
        gradients = torch.autograd.grad(loss * self._scale.factor, list(network.parameters()))
        return _Gradients(
            gradients,
            divergence.detach() / (frames * chunks),
            surprise.detach() / frames,
            judged,
            float(excess.total.detach()) if excess else 0.0,
            float(inconsistency.detach()),
        )

    def _kept(self, piece: slice) -> torch.Tensor:
        """Returns factors [layers, N, width] of what layers add to a piece of a batch: 0, and for the channels that stay as much
        above 1 as makes up for it. They depend on the seed, the step and the piece alone."""
        shape, share = self.network.shape, self._training.dropout
        rng = np.random.default_rng((self._training.seed, self.step, piece.start, 1))
        stays = rng.random((shape.layers, piece.stop - piece.start, shape.width), dtype=np.float32) >= share
        return torch.from_numpy(stays / np.float32(1 - share))

    def _heard(self, piece: slice) -> tuple[np.ndarray, np.random.Generator]:
        """Returns which chunks [N] of a piece of a batch the mentors score, and the generator for further draws. Both depend on the
        seed, the step and the piece alone."""
        rng = np.random.default_rng((self._training.seed, self.step, piece.start, 2))
        return rng.random(piece.stop - piece.start) < self._training.mentored, rng

    @property
    def _border(self) -> int:
        """Number of the network's frames at either end that do not count."""
        return self._training.border * STRIDE // self.network.shape.frame

    def _frame_loss(self, scores: torch.Tensor, batch: Batch, piece: slice, ctc: float) -> _Losses:
        """Computes the loss of every frame by its target, and of chunks whose bases are known by a CTC as well."""
        inner = slice(self._border, len(scores) - self._border)
        target = batch.targets[inner, piece].to(scores.device, non_blocking=True)
        predicted = F.log_softmax(scores[inner], -1)
        divergence = torch.xlogy(target, target).sum((0, 2)) - (target * predicted).sum((0, 2))
        bases = batch.bases[piece, inner]
        labelled = torch.from_numpy((bases != UNKNOWN).all(1) & (bases > 0).any(1))
        judged = int(labelled.sum()) if ctc else 0
        loss = (divergence * (1 - ctc * labelled.to(scores.device))).sum()
        surprise = torch.zeros((), device=scores.device)
        if judged:
            spelled = [row[row > 0] for row in bases[labelled.numpy()]]
            losses = ctc_losses(predicted[:, labelled.to(scores.device)], [len(predicted)] * judged, spelled)
            surprise = losses[losses.isfinite()].sum()
            loss = loss + ctc * surprise
        return loss, divergence.sum(), surprise, judged

    def _path_loss(self, scores: torch.Tensor, signal: torch.Tensor, batch: Batch, piece: slice) -> _Losses:
        """Computes the loss of the chunks of a piece of a batch by their bases, or by the mentors' scores where they have some."""
        bases = batch.bases[piece]
        heard, rng = self._heard(piece)
        if not heard.any():
            return self._crf_loss(scores, bases)
        chunks = torch.from_numpy(np.flatnonzero(heard)).to(signal.device)
        shares = self._shares[batch.sources[piece][heard]]
        if not self._mentors.as_paths(self.network.shape):
            told = bases.copy()
            told[heard] = self._mentors.say(signal[chunks], shares, self._workers.precision, rng)
            return self._crf_loss(scores, told)
        others = torch.from_numpy(np.flatnonzero(~heard)).to(signal.device)
        inner = slice(self._border, len(scores) - self._border)
        told = self._mentors.scores(signal[chunks], shares, self._workers.precision)
        divergence = StateSpace(self.network.shape.state_length).divergence(scores[inner, chunks], told[inner]).sum()
        loss, _, surprise, judged = self._crf_loss(scores[:, others], bases[~heard])
        return loss + divergence, divergence, surprise, judged

    def _crf_loss(self, scores: torch.Tensor, bases: np.ndarray) -> _Losses:
        """Computes the loss of chunks by the probability of their bases [N, T/3], those of the left border being the state to
        begin in."""
        space = StateSpace(self.network.shape.state_length)
        inner = scores[self._border : len(scores) - self._border]
        first, last = self._training.border, bases.shape[1] - self._training.border
        cut = [spelling(row, first, last, space.length) for row in bases]
        usable = [i for i, one in enumerate(cut) if one is not None and len(one[1]) <= len(inner)]
        nothing = torch.zeros((), device=scores.device)
        if not usable:
            return scores.sum() * 0, nothing, nothing, 0
        most = max(len(cut[i][1]) for i in usable)
        before = torch.tensor(np.stack([cut[i][0] for i in usable]), device=scores.device)
        lengths = torch.tensor([len(cut[i][1]) for i in usable], device=scores.device)
        spelled = torch.tensor(np.stack([np.pad(cut[i][1], (0, most - len(cut[i][1]))) for i in usable]), device=scores.device)
        surprise = space.loss(inner[:, usable], before, spelled, lengths).sum()
        return surprise, nothing, surprise, len(usable)

    def save(self, path: Path) -> None:
        """Writes a checkpoint; a crash leaves the previous one."""
        state = {
            "shape": self.network.shape.as_dict(),
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "scale": self._scale.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, path)

    def load(self, path: Path, *, whole_budget: bool = False) -> None:
        """Continues from a checkpoint of the same shape, with what was left of its budget or with a whole one."""
        state = torch.load(path, weights_only=True, map_location=next(self.network.parameters()).device)
        if Shape(**state["shape"]) != self.network.shape:
            raise ValueError(f"{path}: holds a network of shape {state['shape']}, the recipe has {self.network.shape}")
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self._optimiser.load_state_dict(state["optimiser"])
        if "scale" in state:  # checkpoints had none before there was float16
            self._scale.load_state_dict(state["scale"])
        self._workers.synchronise()
        if not whole_budget:
            self.step, self.seconds = state["step"], state["seconds"]

    def begin(self, network: Basecaller) -> None:
        """Starts from a trained network of this shape, a narrower or a wider one; optimiser and budget are new.

        A head of another kind starts from random weights; the layers below it carry over, also to another stride. A CRF's may have
        shorter states. Of a wider network those channels are kept that the loss depends on most, so its head must be of this kind.
        """
        mine = self.network.shape
        network = lengthened(network, mine.state_length)
        its = network.shape
        same_head = (its.scores, its.frames) == (mine.scores, mine.frames)
        if (its.layers, its.stem) != (mine.layers, mine.stem) or (its.width > mine.width and its != replace(mine, width=its.width)):
            raise ValueError(f"can't start from a network of shape {its}, the recipe has {mine}")
        if its.width > mine.width:
            network = narrowed(network, mine.width, self._loss)
        state = widened(network, mine.width, self._training.seed).state_dict()
        if not same_head:
            state = {name: value for name, value in state.items() if not name.startswith("head.")}
        self.network.load_state_dict(state, strict=same_head)
        self.average.load_state_dict(self.network.state_dict())
        self._workers.synchronise()

    def _loss(self, network: Basecaller, step: int) -> torch.Tensor:
        """Returns the loss of a network on the batch of a step, summed over frames and chunks."""
        batch, whole = self._sampler.batch(step), slice(0, self._training.batch)
        scores = network(batch.signal)
        if network.shape.state_length:
            return self._crf_loss(scores, batch.bases)[0]
        return self._frame_loss(scores, batch, whole, 0.0)[0]

    def check_precision(self, signal: torch.Tensor) -> None:
        """Checks whether the network's scores in its precision are those in single precision for signal [N, 1, T]. If not, and none
        was asked for, single precision is used from here on."""
        off = distance(self.network, self._workers.devices[0], self._workers.precision, signal)
        if off <= MAX_DISTANCE:
            return
        mine = str(self._workers.precision).removeprefix("torch.")
        told = f"scores in {mine} differ from those in float32 by {off:.2f} of their size"
        if self._asked:
            raise ValueError(f"{told}: this device can't train this network in it (--precision fp32 can)")
        log.warning("%s: training in float32", told)
        self._workers.precision = torch.float32
        self._scale = LossScale(torch.float32)

    def judge(self, sets: Sequence[Watched]) -> float:
        """Returns the identity of the averaged weights' calls, mean of the sets; 0 without any."""
        found = self._workers.map(
            lambda _, device, one: identity(self.average, one, self._training.border, self._workers.precision), sets
        )
        if sets:
            of = [f"{100 * value:.2f} % of {one.name}" for one, value in zip(sets, found, strict=True)]
            log.info("identity %s", ", ".join(of))
        return sum(found) / max(1, len(found))

    def run(
        self,
        checkpoint: Path,
        stopped: Callable[[], bool] = lambda: False,
        report_every: float = 30,
        save_every: float = 120,
        watched: Sequence[Watched] = (),
    ) -> None:
        """Trains until the budget is spent or stopped() holds, saving every save_every seconds and at the end.

        Progress is written to a table beside the checkpoint (:mod:`.progress`) every report_every seconds and at the end; the
        network is evaluated on the watched chunks whenever a checkpoint is saved.
        """
        begun = time.monotonic() - self.seconds
        reported, saved, first, seen = self.seconds, self.seconds, self.step, 0.0
        recent: list[Step] = []
        table = Table(checkpoint.with_name(NAME), self.step)

        def report() -> None:
            divergence, surprise, norm, excess, inconsistency = np.mean([astuple(step) for step in recent], 0)
            samples = (self.step - first) * self._training.batch * self._training.chunk
            row = Row(
                self.step, self.seconds, divergence, surprise, learning_rate(self._training, self.step, self.seconds),
                samples / max(self.seconds - reported, 1e-9), seen,
            )  # fmt: skip
            table.add(row)
            log.info(
                "step %d, %.0f s: divergence %.4f, surprise %.4f, excess %.2f, inconsistency %.5f, gradient %.3f, "
                "learning rate %.2e, %.3g samples/s",
                row.step, row.seconds, divergence, surprise, excess, inconsistency, norm, row.learning_rate, row.samples_per_second,
            )  # fmt: skip

        batches = self._loader.batches(self.step)
        if self._workers.devices[0].type == "cuda":
            self.check_precision(self._sampler.batch(self.step).signal[: self._training.batch // self._training.parts])
        while spent(self._training, self.step, self.seconds) < 1 and not stopped():
            recent.append(self.advance(next(batches)))
            self.seconds = time.monotonic() - begun
            if self.seconds - saved >= save_every:
                self.save(checkpoint)
                seen, saved = self.judge(watched), self.seconds
            if self.seconds - reported >= report_every:
                report()
                recent, reported, first = [], self.seconds, self.step
        batches.close()
        if recent:
            seen = self.judge(watched)
            report()
        self.save(checkpoint)


def _inconsistency(
    network: Basecaller, signal: torch.Tensor, kept: torch.Tensor | None, scores: torch.Tensor, margin: int
) -> torch.Tensor:
    """Returns how much a window's scores differ from those of the chunk that it was cut from.

    It is the divergence, both ways and in nats per frame, between the scores [T/frame, N, C] of every second chunk and those of a
    window that lacks margin samples at either end. Only frames count that are as far from the window's ends, as those that are kept
    when windows are joined.
    """
    frame = network.shape.frame
    window = network(signal[::2, :, margin : signal.shape[-1] - margin], kept=None if kept is None else kept[:, ::2])
    inner = slice(margin // frame, len(window) - margin // frame)
    p = _distributions(network.shape, window[inner].float())
    q = _distributions(network.shape, scores[margin // frame :][inner, ::2].float())
    return ((p.exp() - q.exp()) * (p - q)).sum(-1).mean()


def distance(network: Basecaller, device: torch.device, precision: torch.dtype, signal: torch.Tensor) -> float:
    """Returns by what part of their size scores in a precision differ from those in single precision."""
    signal = signal.to(device)
    with torch.no_grad():
        whole = network(signal)
        with autocast(device, precision):
            rounded = network(signal)
    return float((rounded - whole).norm() / whole.norm())


def _distributions(shape: Shape, scores: torch.Tensor) -> torch.Tensor:
    """Returns the logarithms of the distributions that scores [T, N, C] are of: over classes, or with a CRF over its moves and
    staying, as if paths were in all states alike before."""
    if shape.state_length:
        space = StateSpace(shape.state_length)
        stay = torch.full_like(scores[..., :1], space.stay + math.log(space.states))
        scores = torch.cat([scores, stay], -1)
    return F.log_softmax(scores, -1)


def spelling(bases: np.ndarray, first: int, last: int, state_length: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the state [state_length] before frame first and the bases emitted from there to frame last, all 0 to 3.

    bases [T] has the class that each frame emits, 0 for none. Where too few bases come before, the state takes the first of those
    emitted; None if there are none left.
    """
    before, emitted = bases[:first], bases[first:last]
    before, emitted = before[before > 0], emitted[emitted > 0]
    missing = max(0, state_length - len(before))
    if len(emitted) <= missing:
        return None
    state = np.concatenate([before[max(0, len(before) - state_length) :], emitted[:missing]])
    return state.astype(np.int64) - 1, emitted[missing:].astype(np.int64) - 1


def spent(training: Training, step: int, seconds: float) -> float:
    """Returns the part of the budget that is used up."""
    return step / training.steps if training.steps else seconds / (60 * training.minutes)


def learning_rate(training: Training, step: int, seconds: float) -> float:
    """Returns the rate: a linear rise over the warm-up, a plateau, a linear fall to zero over the last part of the budget."""
    rise = min(1.0, (step + 1) / training.warmup)
    fall = min(1.0, max(0.0, 1 - spent(training, step, seconds)) / training.decay)
    return training.learning_rate * rise * fall


def load_average(checkpoint: Path, teacher: Path | None = None) -> Basecaller | Listener:
    """Returns the averaged network of a checkpoint. teacher: whose layers it reads, if it reads any."""
    state = torch.load(checkpoint, weights_only=True, map_location="cpu")
    network = build(Shape(**state["shape"]), teacher)
    network.load_state_dict(state["average"])
    return network.eval()
