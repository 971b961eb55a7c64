"""Training several networks and regressions, whose held-out judgements calibrate them together."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch

from . import calibration, linear
from .encoding import Encoder, Features
from .energy import Cost
from .member import Data, Job, Settings
from .network import Member, Shape, Together, join
from .processes import Processes
from .tables import Isolate, folds, groups


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


@dataclass
class Model:
    """Networks that are used together, and the line of each task's calibration."""

    network: Together
    lines: list[tuple[float, float]] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    """From which probability a task's answer is RESISTANT."""
    costs: list[Cost | None] = field(default_factory=list)
    """Of the networks; None where it isn't known."""

    def probability(self, inputs: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            logit = self.network(inputs).numpy()
        return np.stack([calibration.apply(logit[:, t], line) for t, line in enumerate(self.lines)], 1)


def train(
    features: Features,
    isolates: list[Isolate],
    shape: Shape,
    settings: Settings,
    checkpoints: Path | None = None,
    processes: Processes | None = None,
) -> Model:
    """Trains one network for each part held out, and regressions; calibrates on what each was not trained on.

    With a folder for checkpoints the members that lie there are not trained again; each kind of device and precision has its own.
    """
    processes = processes or Processes()
    encoder = Encoder(features)
    part = np.array(folds(isolates, settings.members, settings.seed + 7))
    data = data_of(encoder, isolates, settings.draws, settings.seed)
    members: list[Member] = []
    costs: list[Cost | None] = []
    out = np.full((len(isolates), len(features.tasks)), np.nan, np.float32)
    for m in range(settings.members):
        held, learn = torch.from_numpy(np.flatnonzero(part == m)), torch.from_numpy(np.flatnonzero(part != m))
        path = checkpoints / f"member-{m}{processes.suffix}.pt" if checkpoints else None
        member = Member(features, shape)
        if path and path.is_file():
            member.load_state_dict(torch.load(path, weights_only=True))
            costs.append(_cost_of(path))
        else:
            underway = path.with_suffix(".underway") if path else None
            job = Job(features, data.of(learn), data.of(held), shape, settings, settings.seed * 1000 + m, underway)
            weights, cost = processes.train(job)
            member.load_state_dict(weights)
            costs.append(cost)
            if path:
                _keep(path, weights, cost)
                underway.unlink(missing_ok=True)
        member.eval()
        members.append(member)
        regressions = linear.fit(encoder, data.inputs[0, learn], data.label[learn].numpy(), data.measure[learn].numpy())
        with torch.no_grad():
            x = data.inputs[0, held]
            out[held.numpy()] = join(member(x), regressions(x)).numpy()
    regressions = linear.fit(encoder, data.inputs[0], data.label.numpy(), data.measure.numpy())
    network = Together(members, regressions).eval()
    model = _calibrated(network, out, data.label.numpy(), calibration.weights(np.array(groups(isolates))))
    model.costs = costs
    return model


def _keep(path: Path, weights: dict[str, torch.Tensor], cost: Cost) -> None:
    """Writes a member's weights, and before them what they cost: there is none without."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(asdict(cost)) + "\n")
    torch.save(weights, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def _cost_of(path: Path) -> Cost | None:
    """What a member cost that was trained before; None if an earlier version of this program did."""
    path = path.with_suffix(".json")
    return Cost(**json.loads(path.read_text())) if path.is_file() else None


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
