"""The training loop."""

from __future__ import annotations

import copy
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from .network import Basecaller, Shape
from .optimiser import Muon, fast_bfloat16
from .recipe import Recipe, Training
from .store import Batch, Sampler
from .targets import UNKNOWN
from .widen import widened

log = logging.getLogger(__name__)

MAX_GRADIENT = 1.0
"""Norm to which longer gradients are cut."""


@dataclass(frozen=True)
class Step:
    """What is worth knowing of a step, in nats per frame."""

    divergence: float
    """Kullback-Leibler divergence from the targets."""
    ctc: float
    """CTC loss of the chunks that have one, 0 without any."""
    gradient: float
    """Norm before it is cut."""


class Trainer:
    """A network in training: its weights, their running average, the optimiser and how much of the budget is spent.

    A batch is worked on in parts by single-threaded workers. LSTM steps are too small to be shared between threads, so
    this keeps all cores busy without a barrier per step, and a core that another program takes away only costs its part.
    Gradients are added in the order of the parts: results do not depend on the number of threads.
    """

    def __init__(self, recipe: Recipe, sampler: Sampler) -> None:
        self._training = recipe.training
        self._sampler = sampler
        torch.manual_seed(recipe.training.seed)
        self.network = Basecaller(recipe.shape)
        self.average = copy.deepcopy(self.network)
        self.step = 0
        self.seconds = 0.0
        self._pool = ThreadPoolExecutor(recipe.training.threads, initializer=torch.set_num_threads, initargs=(1,))
        self._optimiser = Muon(self.network, recipe.training.weight_decay, self._pool, recipe.training.parts)

    def advance(self, batch: Batch) -> Step:
        """Takes one step."""
        training = self._training
        parameters = list(self.network.parameters())
        ctc = training.ctc if spent(training, self.step, self.seconds) >= training.ctc_start else 0.0
        size = training.batch // training.parts
        pieces = [slice(n, n + size) for n in range(0, training.batch, size)]
        results = list(self._pool.map(lambda piece: self._gradients(batch, piece, parameters, ctc), pieces))
        for i, parameter in enumerate(parameters):
            parameter.grad = sum((gradients[i] for gradients, *_ in results[1:]), results[0][0][i])
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT))
        self._optimiser.step(learning_rate(training, self.step, self.seconds))
        self.step += 1
        keep = min(training.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), parameters, 1 - keep)
        return Step(sum(r[1] for r in results), sum(r[2] for r in results) / max(1, sum(r[3] for r in results)), norm)

    def _gradients(self, batch: Batch, piece: slice, parameters: list[torch.nn.Parameter], ctc: float):
        """Returns a piece's gradients, its part of the divergence, its sum of CTC losses per frame, and their number."""
        border, chunks = self._training.border, self._training.batch
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False, enabled=fast_bfloat16()):
            scores = self.network(batch.signal[piece])
        inner = slice(border, len(scores) - border)
        target = batch.targets[inner, piece]
        predicted = F.log_softmax(scores[inner], -1)
        frames = len(target)
        divergence = torch.xlogy(target, target).sum((0, 2)) - (target * predicted).sum((0, 2))
        bases = batch.bases[piece, inner]
        labelled = torch.from_numpy((bases != UNKNOWN).all(1) & (bases > 0).any(1))
        loss = (divergence * (1 - ctc * labelled)).sum()
        surprise = torch.zeros(())
        if ctc and labelled.any():
            spelled = [torch.from_numpy(row[row > 0].astype(np.int64)) for row in bases[labelled.numpy()]]
            surprise = F.ctc_loss(
                predicted[:, labelled],
                torch.cat(spelled),
                torch.full((len(spelled),), frames),
                torch.tensor([len(s) for s in spelled]),
                reduction="sum",
                zero_infinity=True,
            )
            loss = loss + ctc * surprise
        gradients = torch.autograd.grad(loss / (frames * chunks), parameters)
        number = int(labelled.sum()) if ctc else 0
        return (
            gradients,
            float(divergence.detach().sum()) / (frames * chunks),
            float(surprise.detach()) / frames,
            number,
        )

    def save(self, path: Path) -> None:
        """Writes a checkpoint; a crash leaves the previous one."""
        state = {
            "shape": self.network.shape.as_dict(),
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, path)

    def load(self, path: Path, *, whole_budget: bool = False) -> None:
        """Continues from a checkpoint of the same shape, with what was left of its budget or with a whole one."""
        state = torch.load(path, weights_only=True)
        if state["shape"] != self.network.shape.as_dict():
            raise ValueError(f"{path}: holds a network of shape {state['shape']}, the recipe has {self.network.shape}")
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self._optimiser.load_state_dict(state["optimiser"])
        if not whole_budget:
            self.step, self.seconds = state["step"], state["seconds"]

    def begin(self, network: Basecaller) -> None:
        """Starts from a trained network of this shape or a narrower one; optimiser and budget are new."""
        mine, its = self.network.shape, network.shape
        if (its.layers, its.stem) != (mine.layers, mine.stem) or its.width > mine.width:
            raise ValueError(f"can't start from a network of shape {its}, the recipe has {mine}")
        self.network.load_state_dict(widened(network, mine.width, self._training.seed).state_dict())
        self.average.load_state_dict(self.network.state_dict())

    def run(
        self,
        checkpoint: Path,
        stopped: Callable[[], bool] = lambda: False,
        report_every: float = 30,
        save_every: float = 120,
    ) -> None:
        """Trains until the budget is spent or stopped() holds, saving every save_every seconds and at the end."""
        begun = time.monotonic() - self.seconds
        reported, saved, first = self.seconds, self.seconds, self.step
        recent: list[Step] = []
        with ThreadPoolExecutor(1) as loader:
            ahead = loader.submit(self._sampler.batch, self.step)
            while spent(self._training, self.step, self.seconds) < 1 and not stopped():
                batch, ahead = ahead.result(), loader.submit(self._sampler.batch, self.step + 1)
                recent.append(self.advance(batch))
                self.seconds = time.monotonic() - begun
                if self.seconds - reported >= report_every:
                    divergence, ctc, norm = np.mean([astuple(step) for step in recent], 0)
                    log.info(
                        "step %d, %.0f s: divergence %.4f, CTC %.4f, gradient %.3f, learning rate %.2e, %.2f steps/s",
                        self.step, self.seconds, divergence, ctc, norm,
                        learning_rate(self._training, self.step, self.seconds),
                        (self.step - first) / (self.seconds - reported),
                    )  # fmt: skip
                    recent, reported, first = [], self.seconds, self.step
                if self.seconds - saved >= save_every:
                    self.save(checkpoint)
                    saved = self.seconds
        self.save(checkpoint)


def spent(training: Training, step: int, seconds: float) -> float:
    """Returns the part of the budget that is used up."""
    return step / training.steps if training.steps else seconds / (60 * training.minutes)


def learning_rate(training: Training, step: int, seconds: float) -> float:
    """Returns the rate: a linear rise over the warm-up, a plateau, a linear fall to zero over the last part of the budget."""
    rise = min(1.0, (step + 1) / training.warmup)
    fall = min(1.0, max(0.0, 1 - spent(training, step, seconds)) / training.decay)
    return training.learning_rate * rise * fall


def load_average(checkpoint: Path) -> Basecaller:
    """Returns the averaged network of a checkpoint."""
    state = torch.load(checkpoint, weights_only=True)
    network = Basecaller(Shape(**state["shape"]))
    network.load_state_dict(state["average"])
    return network.eval()
