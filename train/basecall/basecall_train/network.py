"""The network: two convolutions and a stack of LSTM layers that alternate in direction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional as F

from .crf import StateSpace
from .manifest import ALPHABET

STRIDE = 3
"""Samples per frame of targets, and of what a CTC head says: at 450 bases/s and 4 kHz a base has three frames, and CTC needs a
blank between equals."""
OPSET = 17
"""Of the ONNX graphs that networks are written as."""
CRF_SCALE = 5.0
"""Largest score of a move, as in Bonito."""


class Excess:
    """How much longer the cells of a network remember than they should.

    A cell that hardly forgets brings what was thousands of samples ago into every score: a read is then called otherwise in windows
    than at once, and is no nearer to the truth for it, as nothing of that length was ever trained on.
    """

    every = 4
    """One chunk of so many is examined: cells differ in how they remember, chunks hardly do."""

    def __init__(self, memory: float, stride: int) -> None:
        """memory: samples after which a cell should have lost all but 1/e of its state, at the least. stride: samples per step."""
        self.most = -math.log(math.expm1(stride / memory))
        """Input of the forget gate, a sigmoid, at which a step keeps exp(-stride / memory)."""
        self.total: torch.Tensor | float = 0.0
        """Squared excess of the forget gates' inputs over the most, mean over steps and chunks, summed over cells and layers."""

    def add(self, layer: nn.LSTM, seen: torch.Tensor, states: torch.Tensor) -> None:
        """Adds a layer that has made states of what it has seen, both [steps, N, width] in its direction."""
        seen, states = seen[:, :: self.every], states[:, :: self.every]
        forget = slice(layer.hidden_size, 2 * layer.hidden_size)
        inputs = F.linear(seen, layer.weight_ih_l0[forget], layer.bias_ih_l0[forget] + layer.bias_hh_l0[forget])
        inputs = inputs + F.linear(F.pad(states[:-1], (0, 0, 0, 0, 1, 0)), layer.weight_hh_l0[forget])
        self.total = self.total + F.relu(inputs.float() - self.most).square().mean((0, 1)).sum()


@dataclass(frozen=True)
class Shape:
    """Sizes of a network."""

    width: int = 96
    layers: int = 5
    stem: int = 16
    """Channels of the first convolution."""
    stride: int = STRIDE
    """Samples per step of the recurrent layers. A CTC head says stride / 3 frames at each step, so that half the steps do for the
    same frames; a CRF head says one."""
    state_length: int = 0
    """Bases in a state of the CRF; 0: a CTC head."""
    hears: tuple[str, ...] = ()
    """Layers of the teacher that the network reads in place of the signal (:mod:`.listener`); it has then none of its own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hears", tuple(self.hears))
        if self.hears and (self.layers or not self.state_length):
            raise ValueError("network: what hears a teacher's layers is a CRF (state_length) and has layers = 0")
        if self.stride < 1 or (self.stride % STRIDE and not self.state_length):
            raise ValueError(f"network: a CTC head needs a stride that is a multiple of {STRIDE}, not {self.stride}")

    @property
    def scores(self) -> int:
        """Scores of a frame."""
        return StateSpace(self.state_length).scores if self.state_length else len(ALPHABET)

    @property
    def frame(self) -> int:
        """Samples per frame of scores."""
        return self.stride if self.state_length else STRIDE

    @property
    def frames(self) -> int:
        """Frames of scores per step of the recurrent layers."""
        return self.stride // self.frame

    def as_dict(self) -> dict[str, int | tuple[str, ...]]:
        return asdict(self)


class Basecaller(nn.Module):
    """Maps normalised signal [N, 1, T] to frame scores [T/frame, N, C]; T is a multiple of the stride.

    With a CTC head they are logits of blank, A, C, G, T, with a CRF head the scores of moves (see :mod:`.crf`).

    Layers run backwards and forwards in turn, backwards first, so that the last one has all of the window behind it.
    Each adds to its input, so that gradients reach the convolutions undiminished.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.stem = nn.Conv1d(1, shape.stem, 9, padding=4)
        self.down = nn.Conv1d(shape.stem, shape.width, 19, stride=shape.stride, padding=(20 - shape.stride) // 2)
        self.lstm = nn.ModuleList(nn.LSTM(shape.width, shape.width) for _ in range(shape.layers))
        self.head = nn.Linear(shape.width, shape.frames * shape.scores)
        for layer in self.lstm:
            _initialise(layer)

    def forward(self, signal: torch.Tensor, excess: Excess | None = None, kept: torch.Tensor | None = None) -> torch.Tensor:
        """Returns the scores.

        excess: learns how long the layers remember. kept: factors [layers, N, width] of what the layers add.
        """
        x = F.silu(self.stem(signal))
        x = F.silu(self.down(x)).permute(2, 0, 1).contiguous()
        for i, layer in enumerate(self.lstm):
            seen = x.flip(0) if runs_backwards(i) else x
            states = _states(layer, seen)
            if excess:
                excess.add(layer, seen, states)
            if kept is not None:
                states = states * kept[i].to(states.dtype)
            x = x + (states.flip(0) if runs_backwards(i) else states)
        scores = self.head(x).float()
        if self.shape.frames > 1:
            steps, items, _ = scores.shape
            scores = scores.view(steps, items, self.shape.frames, self.shape.scores).transpose(1, 2).flatten(0, 1)
        return CRF_SCALE * scores.tanh() if self.shape.state_length else scores


def favour_blank(network: Basecaller, logit: float) -> None:
    """Adds to what a network with a CTC head gives the blank: below zero it leaves out fewer bases and puts in more."""
    if network.shape.state_length:
        raise ValueError("a network with a CRF head has no blank")
    with torch.no_grad():
        network.head.bias.view(network.shape.frames, network.shape.scores)[:, 0] += logit


def mixture(networks: Sequence[tuple[Basecaller, float]]) -> Basecaller:
    """Returns the network whose weights are the mean of others' of one shape, by their shares, which are 1 together.

    Between a network and one that was trained on from it lie some that know what the new data taught and have forgotten less of
    the rest (Wortsman et al. 2022, arXiv:2109.01903 and 2203.05482).
    """
    shape = networks[0][0].shape
    mixed = Basecaller(shape)
    with torch.no_grad():
        torch._foreach_zero_(list(mixed.parameters()))
        for one, share in networks:
            if one.shape != shape:
                raise ValueError(f"networks of {shape} and {one.shape} have no weights in common")
            torch._foreach_add_(list(mixed.parameters()), list(one.parameters()), alpha=share)
    return mixed.train(networks[0][0].training)


def runs_backwards(layer: int) -> bool:
    """Says whether the layer with this index reads the window from its end."""
    return layer % 2 == 0


def _states(layer: nn.LSTM, seen: torch.Tensor) -> torch.Tensor:
    """Returns the states [steps, N, width] of a layer that sees [steps, N, width].

    Autocast has LSTMs on a GPU in float16 whatever else is asked for, so that the cast is made here.
    """
    if not (seen.is_cuda and torch.is_autocast_enabled("cuda")):
        return layer(seen)[0]
    precision = torch.get_autocast_dtype("cuda")
    with torch.autocast("cuda", enabled=False):
        weights = [weight.to(precision) for weight in layer.all_weights[0]]
        nothing = seen.new_zeros(1, seen.shape[1], layer.hidden_size, dtype=precision)
        return torch.lstm(seen.to(precision), (nothing, nothing), weights, True, 1, 0.0, layer.training, False, False)[0]


def _initialise(layer: nn.LSTM) -> None:
    width = layer.hidden_size
    for gate in range(4):
        nn.init.orthogonal_(layer.weight_hh_l0.data[gate * width : (gate + 1) * width])
    nn.init.xavier_uniform_(layer.weight_ih_l0)
    nn.init.zeros_(layer.bias_ih_l0)
    nn.init.zeros_(layer.bias_hh_l0)
    nn.init.ones_(layer.bias_ih_l0.data[width : 2 * width])  # forget gates start open
