"""The network: one embedding of residues for all tasks, beside each task's own weights and its rules' score."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from .encoding import Features, parts
from .linear import KNEES, Linear

PART = 1 / 3
"""The networks' part of the logit; each of the two regressions has as much."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a network."""

    width: int = 8
    dropout: float = 0.3


class Dropout(nn.Module):
    """PyTorch's dropout, but what is dropped is drawn for a whole batch, of which this process may have some rows alone."""

    def __init__(self, part: float):
        super().__init__()
        self.part = part
        self.rows: tuple[int, slice] | None = None
        """The rows of the whole batch, and which are here; None: all are."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.rows or not self.training or self.part in (0, 1):
            return nn.functional.dropout(x, self.part, self.training)
        whole, mine = self.rows
        kept = torch.empty(whole, *x.shape[1:], device=x.device).bernoulli_(1 - self.part).div_(1 - self.part)
        return x * kept[mine]


class Member(nn.Module):
    """Gives each task a latent resistance: its label is a step of it, and its measure a noisy reading of it.

    Problem: labels are few, for some tasks some dozens, and two tasks of one class of drugs are much alike.

    Strategy: what was measured is learned beside the label, on one scale; residues are embedded once for all tasks; and a
    task sees its rules' score through a curve of its own, and those of its class.

    Consequences: a task without labels for a residue takes over what others learned of it. Weights of residues of other
    genes than the task's are 0.
    """

    def __init__(self, features: Features, shape: Shape):
        super().__init__()
        residues, tasks = len(features.residues), len(features.tasks)
        self.residues, self.tasks = residues, tasks
        self.embed = nn.Linear(2 * residues, shape.width)
        self.drop = Dropout(shape.dropout)
        self.hidden = nn.Linear(shape.width, shape.width)
        self.heads = nn.Linear(shape.width, tasks)
        self.own = nn.Linear(residues, tasks, bias=False)
        self.bends = nn.Parameter(torch.zeros(len(KNEES), tasks))
        self.classmates = nn.Linear(tasks, tasks, bias=False)
        self.unseen = nn.Parameter(torch.zeros(tasks))
        self.offset = nn.Parameter(torch.zeros(tasks))
        self.slope = nn.Parameter(torch.full((tasks,), 1.0))
        genes = dict(features.genes)
        mask = torch.tensor([[gene in genes[task] for gene, _, _ in features.residues] for task in features.tasks])
        mates = torch.tensor([[set(genes[a]) == set(genes[b]) for b in features.tasks] for a in features.tasks])
        self.register_buffer("mask", mask.float())
        self.register_buffer("mates", mates.float())
        with torch.no_grad():
            self.own.weight.zero_()
            self.classmates.weight.zero_()
            self.bends[0] = 1.0
            self.embed.weight.mul_(0.3)

    def latent(self, x: torch.Tensor) -> torch.Tensor:
        """The latent resistance of inputs [N, 2 size]: [N, tasks]."""
        values, scores, unseen, known = parts(x, self.residues, self.tasks)
        scores, unseen = scores / 60, unseen / 60
        h = self.drop(torch.relu(self.embed(self.drop(torch.cat([values, 1 - known], 1)))))
        h = self.drop(torch.relu(self.hidden(h)))
        y = self.heads(h) + nn.functional.linear(values, self.own.weight * self.mask)
        for knee, bend in zip(KNEES, self.bends, strict=True):
            y = y + bend * torch.relu(scores - knee / 60)
        y = y + nn.functional.linear(scores, self.classmates.weight * self.mates) + self.unseen * unseen
        return y + self.offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of being resistant [N, tasks]."""
        return self.latent(x) * nn.functional.softplus(self.slope)

    def penalty(self, scarce: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The squares and the sizes of the weights that are to stay small, by how scarce each task's labels are [tasks]."""
        own = self.own.weight * self.mask
        squares = own.square().sum(1) + (self.classmates.weight * self.mates).square().sum(1) + self.bends[1:].square().sum(0)
        squares = squares + self.heads.weight.square().sum(1)
        return (squares * scarce).sum() + self.embed.weight.square().sum(), (own.abs().sum(1) * scarce).sum()


class Together(nn.Module):
    """Networks and regressions that are used together: a weighted mean of their logits."""

    def __init__(self, members: list[Member], linear: Linear):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.linear = linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return join(torch.stack([member(x) for member in self.members]).mean(0), self.linear(x))


def join(networks, regressions):
    """The logit of the networks' and the regressions'."""
    return PART * networks + (1 - PART) * regressions


def parameters(network: Together) -> int:
    """The number of weights that can be other than 0."""
    total = 0
    for member in network.members:
        masked = (member.own.weight, member.mask), (member.classmates.weight, member.mates)
        total += sum(p.numel() for p in member.parameters())
        total -= sum(weight.numel() - int(mask.sum()) for weight, mask in masked)
    return total + sum(int(b.count_nonzero()) for b in network.linear.buffers())
