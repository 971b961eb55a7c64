"""Training: one network with early stopping, and several whose held-out judgements calibrate them together."""

from __future__ import annotations

import copy
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn

from . import calibration, linear
from .encoding import Encoder, Features
from .network import Member, Shape, Together, join
from .tables import Isolate, folds, groups

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

    def of(self, rows: torch.Tensor) -> Data:
        return Data(self.inputs[:, rows], self.judged[rows], self.label[rows], self.measure[rows])


def data_of(encoder: Encoder, isolates: list[Isolate], draws: int, seed: int) -> Data:
    """The tensors of isolates. Codons are left out by draws once, as encoding costs more than a step of training."""
    present, known = encoder.present(isolates)
    generator = torch.Generator().manual_seed(seed)
    inputs = [encoder.inputs(present, known)]
    inputs += [encoder.inputs(present, encoder.leave_out(known, generator)) for _ in range(draws)]
    judged = encoder.inputs(present, encoder.leave_out(known, generator, 0.3))
    tasks = encoder.features.tasks
    label = torch.tensor([[float(i.labels[t]) if t in i.labels else float("nan") for t in tasks] for i in isolates])
    measure = torch.tensor([[np.log10(i.measures[t]) if t in i.measures else float("nan") for t in tasks] for i in isolates])
    return Data(torch.stack(inputs), judged, label.float(), measure.float())


def _loss(network: Member, cut: torch.Tensor, x, label, measure, settings: Settings, scarce) -> torch.Tensor:
    latent = network.latent(x)
    logit = latent * nn.functional.softplus(network.slope)
    has, measured = ~label.isnan(), ~measure.isnan()
    loss = nn.functional.binary_cross_entropy_with_logits(logit[has], label[has], reduction="sum")
    far = nn.functional.huber_loss((latent + cut)[measured], measure[measured], reduction="sum", delta=0.5)
    squares, sizes = network.penalty(scarce)
    return (loss + settings.measured * far) / max(1, int(has.sum())) + (settings.squares * squares + settings.sizes * sizes)


def train_member(features: Features, learn: Data, held: Data, shape: Shape, settings: Settings, seed: int) -> Member:
    """Trains one network until the loss on the held-out data, whole and with codons left out, gets no better."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    network = Member(features, shape)
    cut = nn.Parameter(torch.zeros(len(features.tasks)))
    optimiser = torch.optim.AdamW([*network.parameters(), cut], lr=settings.rate, weight_decay=0.0)
    held_inputs = [held.inputs[0], held.judged]
    has = ~held.label.isnan()
    weights = 1 / torch.clamp(has.sum(0), min=1)
    best, best_loss, since = copy.deepcopy(network.state_dict()), float("inf"), 0
    n = len(learn.label)
    minority = torch.minimum((learn.label == 1).sum(0), (learn.label == 0).sum(0)).clamp(min=1)
    scarce = (300 / minority).clamp(1, 30)
    for epoch in range(settings.epochs):
        network.train()
        drawn = torch.randint(len(learn.inputs), (n,), generator=generator)
        order = torch.randperm(n, generator=generator)
        for group in optimiser.param_groups:
            group["lr"] = settings.rate * 0.5 * (1 + np.cos(np.pi * epoch / settings.epochs))
        for rows in order.split(settings.batch):
            optimiser.zero_grad()
            x = learn.inputs[drawn[rows], rows]
            _loss(network, cut, x, learn.label[rows], learn.measure[rows], settings, scarce).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimiser.step()
        network.eval()
        with torch.no_grad():
            loss = 0.0
            for inputs, share in zip(held_inputs, (0.75, 0.25), strict=True):
                each = nn.functional.binary_cross_entropy_with_logits(
                    network(inputs), torch.nan_to_num(held.label), reduction="none"
                )
                loss += share * float((each * has * weights).sum() / len(weights))
        if loss < best_loss - 1e-5:
            best, best_loss, since = copy.deepcopy(network.state_dict()), loss, 0
        else:
            since += 1
            if since >= settings.patience:
                break
    network.load_state_dict(best)
    log.info("stopped after epoch %d, held-out loss %.4f", epoch + 1, best_loss)
    return network.eval()


@dataclass
class Model:
    """Networks that are used together, and the line of each task's calibration."""

    network: Together
    lines: list[tuple[float, float]] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    """From which probability a task's answer is RESISTANT."""

    def probability(self, inputs: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            logit = self.network(inputs).numpy()
        return np.stack([calibration.apply(logit[:, t], line) for t, line in enumerate(self.lines)], 1)


def train(features: Features, isolates: list[Isolate], shape: Shape, settings: Settings, checkpoints: Path | None = None) -> Model:
    """Trains one network for each part held out, and regressions; calibrates on what each was not trained on.

    With a folder for checkpoints the members that lie there are not trained again.
    """
    encoder = Encoder(features)
    part = np.array(folds(isolates, settings.members, settings.seed + 7))
    data = data_of(encoder, isolates, settings.draws, settings.seed)
    members: list[Member] = []
    out = np.full((len(isolates), len(features.tasks)), np.nan, np.float32)
    for m in range(settings.members):
        held, learn = torch.from_numpy(np.flatnonzero(part == m)), torch.from_numpy(np.flatnonzero(part != m))
        path = checkpoints / f"member-{m}.pt" if checkpoints else None
        if path and path.is_file():
            member = Member(features, shape)
            member.load_state_dict(torch.load(path, weights_only=True))
            member.eval()
        else:
            member = train_member(features, data.of(learn), data.of(held), shape, settings, settings.seed * 1000 + m)
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                torch.save(member.state_dict(), path.with_suffix(".new"))
                os.replace(path.with_suffix(".new"), path)
        members.append(member)
        regressions = linear.fit(encoder, data.inputs[0, learn], data.label[learn].numpy(), data.measure[learn].numpy())
        with torch.no_grad():
            x = data.inputs[0, held]
            out[held.numpy()] = join(member(x), regressions(x)).numpy()
    regressions = linear.fit(encoder, data.inputs[0], data.label.numpy(), data.measure.numpy())
    network = Together(members, regressions).eval()
    return _calibrated(network, out, data.label.numpy(), calibration.weights(np.array(groups(isolates))))


def _calibrated(network: Together, out: np.ndarray, label: np.ndarray, weight: np.ndarray) -> Model:
    """Fits each task's line and threshold on what was said of isolates that were not learned from."""
    model = Model(network)
    for t in range(label.shape[1]):
        has = ~np.isnan(label[:, t])
        if not has.any():
            model.lines.append((1.0, 0.0))
            model.thresholds.append(0.5)
            continue
        logit, resistant, counts = out[has, t], label[has, t] > 0.5, weight[has]
        line = calibration.fit(logit, resistant, counts)
        model.lines.append(line)
        model.thresholds.append(calibration.threshold(calibration.apply(logit, line), resistant, counts))
    return model
