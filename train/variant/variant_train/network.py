"""The network: convolutions over the columns of an example, joined with its scalars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional as F

from . import layout


@dataclass(frozen=True)
class Shape:
    """Sizes of a network."""

    width: int = 48
    """Channels of the first two blocks."""
    deep: int = 64
    """Channels of the third block."""
    scalars: int = 64
    """Width of the layers over the scalars."""
    joined: int = 96
    """Width of the layer over both."""
    planes: int = 46
    """Planes that are used, from the first on."""

    @property
    def deep_columns(self) -> int:
        """Columns that are left behind two blocks that halve them, rounded up."""
        return math.ceil(math.ceil(layout.COLUMNS / 2) / 2)

    def as_dict(self) -> dict[str, int]:
        """Returns the sizes for a checkpoint."""
        return asdict(self)


KERNEL = 3


class Block(nn.Module):
    """Two convolutions (the first can halve the columns), added to the input or to a projection of it."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.first = nn.Conv1d(channels, width, KERNEL, stride, padding=KERNEL // 2)
        self.second = nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2)
        self.skip = nn.Conv1d(channels, width, 1, stride) if stride > 1 or channels != width else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [N, channels, columns] to [N, width, ceil(columns / stride)]."""
        y = self.second(F.relu(self.first(x)))
        return F.relu(y + (x if self.skip is None else self.skip(x)))


class Caller(nn.Module):
    """Scores alleles: examples [N, 1, SIZE] to logits [N, 1, SCORES].

    There is no normalisation over a batch and no dropout: what an example scores depends on it alone, in training as well.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.stem = nn.Conv1d(shape.planes, shape.width, KERNEL, padding=KERNEL // 2)
        self.blocks = nn.ModuleList(
            [Block(shape.width, shape.width, 2), Block(shape.width, shape.width, 1), Block(shape.width, shape.deep, 2)]
        )
        columns = shape.deep_columns
        self.scalars = nn.ModuleList([nn.Linear(layout.SCALARS, shape.scalars), nn.Linear(shape.scalars, shape.scalars)])
        self.columns = nn.Linear(shape.deep * columns, shape.joined)
        self.join = nn.Linear(shape.joined + shape.scalars, shape.joined)
        self.heads = nn.Linear(shape.joined, layout.SCORES)
        for module in self.modules():
            if isinstance(module, (nn.Conv1d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)
        for block in self.blocks:
            nn.init.zeros_(block.second.weight)
        nn.init.normal_(self.heads.weight, std=0.02)
        with torch.no_grad():  # errors are rare: the planes of the groups of reads hold small numbers
            self.stem.weight[:, : layout.READ_PLANES] *= 4
            self.scalars[0].weight[:, layout.UNUSED_SCALARS] = 0

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Returns the logits of all heads."""
        flat = examples.flatten(1)
        x = flat[:, : self.shape.planes * layout.COLUMNS].reshape(-1, self.shape.planes, layout.COLUMNS)
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        x = F.relu(self.columns(x.flatten(1)))
        s = flat[:, layout.PLANES * layout.COLUMNS :]
        for layer in self.scalars:
            s = F.relu(layer(s))
        x = F.relu(self.join(torch.cat([x, s], 1)))
        return self.heads(x)[:, None]


class Together(nn.Module):
    """Networks of one shape that are used together: the mean of their logits.

    One network's chance associations are not the others', so that together they are less sure of wrong answers.
    """

    def __init__(self, members: Sequence[Caller]) -> None:
        super().__init__()
        if len({member.shape for member in members}) != 1:
            raise ValueError("networks that judge together have one shape")
        self.members = nn.ModuleList(members)

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Returns the logits of all heads."""
        return sum(member(examples) for member in self.members) / len(self.members)


def operations(shape: Shape) -> int:
    """Counts multiplications of one example."""
    half = -(-layout.COLUMNS // 2)
    quarter = -(-half // 2)
    w, d = shape.width, shape.deep
    return (
        shape.planes * w * KERNEL * layout.COLUMNS
        + half * (2 * w * w * KERNEL + w * w)
        + half * 2 * w * w * KERNEL
        + quarter * (w * d * KERNEL + d * d * KERNEL + w * d)
        + layout.SCALARS * shape.scalars
        + shape.scalars**2
        + d * quarter * shape.joined
        + (shape.joined + shape.scalars) * shape.joined
        + shape.joined * layout.SCORES
    )
