"""Training one network with early stopping, alone or as one of several processes that share each batch."""

from __future__ import annotations

import copy
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import distributed, nn

from .devices import autocast
from .encoding import Features
from .energy import Cost, Meter
from .network import Member, Shape

log = logging.getLogger("biomarker_train")


@dataclass(frozen=True)
class Settings:
    """What decides a training besides the data."""

    members: int = 3
    epochs: int = 45
    patience: int = 8
    batch: int = 256
    rate: float = 6e-3
    draws: int = 7
    squares: float = 2e-5
    sizes: float = 4e-6
    measured: float = 0.5
    seed: int = 1


@dataclass
class Data:
    """Isolates as tensors."""

    inputs: torch.Tensor
    """Inputs of isolates whole, and drawn with codons left out [1 + draws, N, 2 size]."""
    judged: torch.Tensor
    """Inputs with a fixed share of the codons left out [N, 2 size]."""
    label: torch.Tensor
    """1 resistant, 0 susceptible, NaN unknown [N, tasks]."""
    measure: torch.Tensor
    """Decimal logarithm of what was measured, NaN unknown."""

    def to(self, device: torch.device) -> Data:
        return Data(*(tensor.to(device) for tensor in (self.inputs, self.judged, self.label, self.measure)))

    def of(self, rows: torch.Tensor) -> Data:
        return Data(self.inputs[:, rows], self.judged[rows], self.label[rows], self.measure[rows])


@dataclass(frozen=True)
class Job:
    """What a network is trained of."""

    features: Features
    learn: Data
    held: Data
    shape: Shape
    settings: Settings
    seed: int
    checkpoint: Path | None = None
    """Where the training is saved while it goes on, and from where it goes on."""
    save_every: float = 30.0
    """Seconds between."""


@dataclass(frozen=True)
class Place:
    """Where a network is trained, by one of the processes that do it together."""

    devices: Sequence[torch.device] = (torch.device("cpu"),)
    """Of all processes."""
    precision: str = "fp32"
    rank: int = 0

    @property
    def device(self) -> torch.device:
        return self.devices[self.rank]

    def share(self, rows: int) -> slice:
        """Which rows of a batch are this process's."""
        n = len(self.devices)
        return slice(self.rank * rows // n, (self.rank + 1) * rows // n)

    def add(self, tensors: Sequence[torch.Tensor]) -> None:
        """Gives each tensor the sum of those of all processes."""
        if len(self.devices) == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        distributed.all_reduce(flat)
        for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))

    def of_first(self, value: float) -> float:
        """The value that the first process has: what all decide by has to be one number."""
        if len(self.devices) == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self.device)
        distributed.broadcast(tensor, 0)
        return float(tensor)


def _loss(network: Member, cut, x, label, measure, settings: Settings, scarce, place: Place) -> torch.Tensor:
    """This process's part of a batch's loss. x are the inputs of its share, label and measure are the whole batch's."""
    labels = max(1, int((~label.isnan()).sum()))
    mine = place.share(len(label))
    label, measure = label[mine], measure[mine]
    with autocast(place.device, place.precision):
        latent = network.latent(x)
    latent = latent.float()
    logit = latent * nn.functional.softplus(network.slope)
    has, measured = ~label.isnan(), ~measure.isnan()
    loss = nn.functional.binary_cross_entropy_with_logits(logit[has], label[has], reduction="sum")
    far = nn.functional.huber_loss((latent + cut)[measured], measure[measured], reduction="sum", delta=0.5)
    squares, sizes = network.penalty(scarce)
    penalty = settings.squares * squares + settings.sizes * sizes
    return (loss + settings.measured * far) / labels + penalty / len(place.devices)


class _Training:
    """A network in training: what a checkpoint holds."""

    def __init__(self, job: Job, place: Place) -> None:
        torch.manual_seed(job.seed)
        self._job, self._place = job, place
        self.generator = torch.Generator().manual_seed(job.seed)
        self.network = Member(job.features, job.shape).to(place.device)
        self.cut = nn.Parameter(torch.zeros(len(job.features.tasks), device=place.device))
        self.parameters = [*self.network.parameters(), self.cut]
        self.optimiser = torch.optim.AdamW(self.parameters, lr=job.settings.rate, weight_decay=0.0)
        self.best, self.best_loss, self.since, self.epoch = copy.deepcopy(self.network.state_dict()), float("inf"), 0, 0
        self.spent = Cost()

    @property
    def done(self) -> bool:
        return self.epoch >= self._job.settings.epochs or self.since >= self._job.settings.patience

    def judged(self, loss: float) -> None:
        """Learns the loss on the held-out data after an epoch."""
        self.epoch += 1
        self.since += 1
        if loss < self.best_loss - 1e-5:
            self.best, self.best_loss, self.since = copy.deepcopy(self.network.state_dict()), loss, 0

    def _made_of(self) -> dict:
        """What has to be the same where training goes on. The number of processes may differ."""
        job = self._job
        return {
            "settings": asdict(job.settings), "shape": asdict(job.shape), "seed": job.seed, "precision": self._place.precision,
            "tasks": list(job.features.tasks), "isolates": [len(job.learn.label), len(job.held.label)],
            "residues": len(job.features.residues),
        }  # fmt: skip

    def save(self, cost: Cost) -> None:
        path = self._job.checkpoint
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "made_of": self._made_of(), "network": self.network.state_dict(), "cut": self.cut.detach(),
            "optimiser": self.optimiser.state_dict(), "best": self.best, "best_loss": self.best_loss, "since": self.since,
            "epoch": self.epoch, "generator": self.generator.get_state(), "dropout": torch.get_rng_state(), "spent": asdict(cost),
        }  # fmt: skip
        torch.save(state, path.with_suffix(".new"))
        os.replace(path.with_suffix(".new"), path)

    def load(self) -> None:
        """Goes on from a checkpoint, if there is one."""
        path = self._job.checkpoint
        if not path or not path.is_file():
            return
        state = torch.load(path, weights_only=True, map_location="cpu")
        if state["made_of"] != self._made_of():
            raise ValueError(f"{path}: it is of another recipe, other data or another precision: take another work folder")
        self.network.load_state_dict(state["network"])
        with torch.no_grad():
            self.cut.copy_(state["cut"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.best, self.best_loss, self.since, self.epoch = (state[key] for key in ("best", "best_loss", "since", "epoch"))
        self.generator.set_state(state["generator"])
        torch.set_rng_state(state["dropout"])
        self.spent = Cost(**state["spent"])


def train_member(job: Job, place: Place | None = None) -> tuple[dict[str, torch.Tensor], Cost]:
    """Trains one network until the loss on the held-out data, whole and with codons left out, gets no better.

    Returns its weights, and what they cost this process; the first one's cost has the joules of all.
    """
    place = place or Place()
    settings, device = job.settings, place.device
    meter = Meter(place.devices if place.rank == 0 else ())
    training = _Training(job, place)
    training.load()
    network, learn, held = training.network, job.learn.to(device), job.held.to(device)
    n = len(learn.label)
    minority = torch.minimum((learn.label == 1).sum(0), (learn.label == 0).sum(0)).clamp(min=1)
    scarce = (300 / minority).clamp(1, 30)
    saved = time.monotonic()
    while not training.done:
        network.train()
        if device.type == "cuda":
            torch.cuda.manual_seed(job.seed * 1000 + training.epoch)  # what is dropped is the same for all processes
        drawn = torch.randint(len(learn.inputs), (n,), generator=training.generator).to(device)
        order = torch.randperm(n, generator=training.generator).to(device)
        for group in training.optimiser.param_groups:
            group["lr"] = float(settings.rate * 0.5 * (1 + np.cos(np.pi * training.epoch / settings.epochs)))
        for rows in order.split(settings.batch):
            training.optimiser.zero_grad()
            mine = place.share(len(rows))
            network.drop.rows = len(rows), mine
            x = learn.inputs[drawn[rows[mine]], rows[mine]]
            _loss(network, training.cut, x, learn.label[rows], learn.measure[rows], settings, scarce, place).backward()
            place.add([parameter.grad for parameter in training.parameters])
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            training.optimiser.step()
        training.judged(place.of_first(_held_out(network, held)))
        meter.tick()
        if job.checkpoint and place.rank == 0 and time.monotonic() - saved >= job.save_every and not training.done:
            training.save(training.spent + meter.cost())
            saved = time.monotonic()
    if place.rank == 0:
        log.info("stopped after epoch %d, held-out loss %.4f", training.epoch, training.best_loss)
    cost = meter.cost()
    return {name: tensor.cpu() for name, tensor in training.best.items()}, training.spent + cost if place.rank == 0 else cost


def _held_out(network: Member, held: Data) -> float:
    """The loss on the held-out data, of which every task has the same part, in single precision."""
    has = ~held.label.isnan()
    weights = 1 / torch.clamp(has.sum(0), min=1)
    network.eval()
    loss = 0.0
    with torch.no_grad():
        for inputs, share in zip([held.inputs[0], held.judged], (0.75, 0.25), strict=True):
            each = nn.functional.binary_cross_entropy_with_logits(network(inputs), torch.nan_to_num(held.label), reduction="none")
            loss += share * float((each * has * weights).sum() / len(weights))
    return loss
