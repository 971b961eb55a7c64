"""The training loop."""

from __future__ import annotations

import copy
import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from . import layout
from .network import Caller, Shape, Together
from .recipe import Recipe, Training
from .store import Batch, Sampler

log = logging.getLogger(__name__)

HELD_OUT = "held_out"
"""Key, in a row of ``curve.jsonl``, of the loss of the head copies on examples that are held out."""
MAX_GRADIENT = 1.0
"""Norm to which longer gradients are cut."""

IMPOSSIBLE = -1e4
"""Logit of a class that can't be."""


@dataclass(frozen=True)
class Step:
    """The reported values of a step, in nats per example."""

    copies: float
    zygosity: float
    length: float
    gradient: float
    """Norm before it is cut."""


class Trainer:
    """A network in training: its weights, their running average, the optimiser and how much of the budget is spent.

    A batch is worked on in parts by single-threaded workers, whose gradients are added in the order of the parts: results
    do not depend on the number of threads.
    """

    def __init__(self, recipe: Recipe, sampler: Sampler, held_out: Batch | None = None) -> None:
        """held_out: examples that the network is evaluated on whenever its losses are reported."""
        self._training = recipe.training
        self._held_out = held_out
        self._sampler = sampler
        torch.manual_seed(recipe.training.seed)
        self.network = Caller(recipe.shape)
        self.average = copy.deepcopy(self.network)
        self.step = 0
        self.seconds = 0.0
        self._pool = ThreadPoolExecutor(recipe.training.threads, initializer=torch.set_num_threads, initargs=(1,))
        self._half = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
        """bfloat16 in the network; without AVX-512 it is emulated, and ten times as slow as float32."""
        self._optimiser = torch.optim.AdamW(self.network.parameters(), betas=(0.9, 0.98), weight_decay=recipe.training.weight_decay)

    def advance(self, batch: Batch) -> Step:
        """Takes one step."""
        training = self._training
        parameters = list(self.network.parameters())
        size = training.batch // training.parts
        pieces = [slice(n, n + size) for n in range(0, training.batch, size)]
        results = list(self._pool.map(lambda piece: self._gradients(batch, piece, parameters), pieces))
        for i, parameter in enumerate(parameters):
            parameter.grad = sum((gradients[i] for gradients, _ in results[1:]), results[0][0][i])
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT))
        for group in self._optimiser.param_groups:
            group["lr"] = learning_rate(training, self.step, self.seconds)
        self._optimiser.step()
        self.step += 1
        keep = min(training.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), parameters, 1 - keep)
        copies, zygosity, length = sum((losses for _, losses in results[1:]), results[0][1])
        return Step(copies, zygosity, length, norm)

    def _gradients(self, batch: Batch, piece: slice, parameters: list[torch.nn.Parameter]):
        """Returns a piece's gradients and its part of the losses of the heads."""
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False, enabled=self._half):
            logits = self.network(torch.from_numpy(batch.examples[piece]))
        losses = head_losses(logits.float(), batch.labels[piece], self._training.focus)
        size = self._training.batch
        loss = sum(weight * part.sum() for weight, part in zip(self._training.weights, losses, strict=True)) / size
        gradients = torch.autograd.grad(loss, parameters)
        return gradients, np.array([float(part.detach().sum()) / size for part in losses])

    def judged(self) -> float:
        """Returns the loss of the head copies of the averaged network on the held-out examples, in nats per example; NaN without
        any."""
        if self._held_out is None:
            return math.nan
        pieces = np.array_split(np.arange(len(self._held_out.labels)), max(1, len(self._held_out.labels) // self._training.batch))

        def loss(piece: np.ndarray) -> float:
            with torch.no_grad():
                logits = self.average(torch.from_numpy(self._held_out.examples[piece]))
                return float(head_losses(logits, self._held_out.labels[piece], self._training.focus)[0].sum())

        return sum(self._pool.map(loss, pieces)) / len(self._held_out.labels)

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
        if not whole_budget:
            self._optimiser.load_state_dict(state["optimiser"])
            self.step, self.seconds = state["step"], state["seconds"]

    def start_from(self, network: Caller) -> None:
        """Begins with the weights of a network of the recipe's shape, and a whole budget."""
        self.network.load_state_dict(network.state_dict())
        self.average.load_state_dict(network.state_dict())

    def run(
        self,
        checkpoint: Path,
        stopped: Callable[[], bool] = lambda: False,
        observe: Callable[[int, float, Step, float], None] = lambda step, seconds, losses, held_out: None,
        report_every: float = 20,
        save_every: float = 120,
    ) -> None:
        """Trains until the budget is spent or stopped() holds, saving every save_every seconds and at the end.

        observe gets the mean losses whenever they are reported, and the result of :meth:`judged`.
        """
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
                    mean = Step(*np.mean([(s.copies, s.zygosity, s.length, s.gradient) for s in recent], 0))
                    held_out = self.judged()
                    log.info(
                        "step %d, %.0f s: copies %.4f (held out %.4f), zygosity %.4f, length %.4f, gradient %.2f, "
                        "learning rate %.2e, %.0f examples/s",
                        self.step, self.seconds, mean.copies, held_out, mean.zygosity, mean.length, mean.gradient,
                        learning_rate(self._training, self.step, self.seconds),
                        (self.step - first) * self._training.batch / (self.seconds - reported),
                    )  # fmt: skip
                    observe(self.step, self.seconds, mean, held_out)
                    recent, reported, first = [], self.seconds, self.step
                if self.seconds - saved >= save_every:
                    self.save(checkpoint)
                    saved = self.seconds
        self.save(checkpoint)


def head_losses(logits: torch.Tensor, labels: np.ndarray, focus: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns each example's loss in nats for the heads copies, zygosity and length.

    Haploid samples have no or all copies: one copy, and a site of two alleles, are no classes for them.
    """
    logits = logits.flatten(1)
    haploid = torch.from_numpy(labels["mode"] == layout.MODES.index("haploid"))
    middle = torch.tensor([0.0, IMPOSSIBLE, 0.0])
    out = []
    for head, target in (
        (layout.COPIES, labels["copies"]),
        (layout.ZYGOSITY, labels["zygosity"]),
        (layout.LENGTH, labels["length"].astype(np.int64) + layout.LONGEST),
    ):
        scores = logits[:, head]
        if head is not layout.LENGTH:
            scores = scores + haploid[:, None] * middle
        logs = F.log_softmax(scores, -1).gather(1, torch.from_numpy(target.astype(np.int64))[:, None])[:, 0]
        out.append(-logs if not focus else -((1 - logs.exp()) ** focus) * logs)
    return out[0], out[1], out[2]


def spent(training: Training, step: int, seconds: float) -> float:
    """Returns the part of the budget that is used up."""
    return step / training.steps if training.steps else seconds / (60 * training.minutes)


def learning_rate(training: Training, step: int, seconds: float) -> float:
    """Returns the rate: a linear rise over the warm-up, then half a cosine down to zero at the end of the budget."""
    rise = min(1.0, (step + 1) / training.warmup)
    return training.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * min(1.0, spent(training, step, seconds))))


def load_together(checkpoints: Sequence[Path]) -> Together:
    """Returns the averaged networks of checkpoints, which are used together."""
    return Together([load_average(checkpoint) for checkpoint in checkpoints]).eval()


def load_average(checkpoint: Path) -> Caller:
    """Returns the averaged network of a checkpoint."""
    state = torch.load(checkpoint, weights_only=True)
    network = Caller(Shape(**state["shape"]))
    network.load_state_dict(state["average"])
    return network.eval()
