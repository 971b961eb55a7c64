"""The network: two convolutions and a stack of LSTM layers that alternate in direction."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional as F

from .manifest import ALPHABET

STRIDE = 3
"""Samples per output frame. At 450 bases/s and 4 kHz it leaves a base three frames: CTC needs a blank between equals."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a network."""

    width: int = 96
    layers: int = 5
    stem: int = 16
    """Channels of the first convolution."""

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class Basecaller(nn.Module):
    """Maps normalised signal [N, 1, T] to frame scores [T/3, N, 5] (logits; blank, A, C, G, T). T is a multiple of 3.

    Layers run backwards and forwards in turn, backwards first, so that the last one has all of the window behind it.
    Each adds to its input, so that gradients reach the convolutions undiminished.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.stem = nn.Conv1d(1, shape.stem, 9, padding=4)
        self.down = nn.Conv1d(shape.stem, shape.width, 19, stride=STRIDE, padding=8)
        self.lstm = nn.ModuleList(nn.LSTM(shape.width, shape.width) for _ in range(shape.layers))
        self.head = nn.Linear(shape.width, len(ALPHABET))
        for layer in self.lstm:
            _initialise(layer)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.stem(signal))
        x = F.silu(self.down(x)).permute(2, 0, 1).contiguous()
        for i, layer in enumerate(self.lstm):
            if runs_backwards(i):
                x = x + layer(x.flip(0))[0].flip(0)
            else:
                x = x + layer(x)[0]
        return self.head(x).float()


def runs_backwards(layer: int) -> bool:
    """Says whether the layer with this index reads the window from its end."""
    return layer % 2 == 0


def _initialise(layer: nn.LSTM) -> None:
    width = layer.hidden_size
    for gate in range(4):
        nn.init.orthogonal_(layer.weight_hh_l0.data[gate * width : (gate + 1) * width])
    nn.init.xavier_uniform_(layer.weight_ih_l0)
    nn.init.zeros_(layer.bias_ih_l0)
    nn.init.zeros_(layer.bias_hh_l0)
    nn.init.ones_(layer.bias_ih_l0.data[width : 2 * width])  # forget gates start open
