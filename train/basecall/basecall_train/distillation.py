"""What larger networks say of a chunk, for a smaller one to learn from instead of the truth.

The truth says that a base is an A even where the signal doesn't show it; a network with ten times the weights gives how far the
signal shows it, and several networks give it better than one of them.

Where the strides and states are the same, a network learns the distribution over all paths. Where they aren't, sequences are all
that the networks have in common: one is drawn from all by their probabilities, which on average over draws is the whole
distribution, as in the distillation of whole sequences by Kim and Rush 2016 (arXiv:1606.07947), who take the likeliest one.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .crf import StateSpace
from .devices import autocast
from .listener import Audience, Listener
from .network import STRIDE, Basecaller, Shape


@dataclass(frozen=True)
class _Group:
    """Mentors that are run together."""

    members: list[int]
    scores: Callable[[torch.Tensor], list[torch.Tensor]]
    """Returns the scores [frames, N, C] that each of them has of signal [N, 1, T]."""


def _grouped(networks: Sequence[Basecaller | Listener]) -> list[_Group]:
    """Groups those that use the same teacher's layers."""
    groups, listeners = [], defaultdict(list)
    for i, one in enumerate(networks):
        if isinstance(one, Listener):
            listeners[one.hearing.digest].append(i)
        else:
            groups.append(_Group([i], lambda signal, one=one: [one(signal)]))
    return groups + [_Group(members, Audience([networks[i] for i in members])) for members in listeners.values()]


class Mentors:
    """Networks with a CRF that are used together: their output is a mean of their scores."""

    def __init__(self, networks: Sequence[Basecaller | Listener], devices: Sequence[torch.device]) -> None:
        shape = networks[0].shape
        for one in networks:
            if not one.shape.state_length or (one.shape.frame, one.shape.state_length) != (shape.frame, shape.state_length):
                raise ValueError(
                    f"networks of {shape} and {one.shape} can't be heard together: mentors have a CRF over the same states"
                )
        if shape.frame < STRIDE:
            raise ValueError(f"mentors of stride {shape.frame} emit more bases than targets have frames, one each {STRIDE} samples")
        self._space, self._frame = StateSpace(shape.state_length), shape.frame
        self._groups = {
            device: _grouped([copy.deepcopy(one).to(device).eval().requires_grad_(False) for one in networks]) for device in devices
        }

    def as_paths(self, shape: Shape) -> bool:
        """Reports whether their paths are those of a network of a shape too, which can learn from their scores."""
        return (shape.frame, shape.state_length) == (self._frame, self._space.length)

    def scores(self, signal: torch.Tensor, shares: np.ndarray, precision: torch.dtype) -> torch.Tensor:
        """Returns the scores [frames, N, 4^(k+1)], in single precision, that they have of signal [N, 1, T] together.

        shares: how much each counts in the mean, [N, networks]; where it doesn't, it isn't run. precision: of the networks' inner
        values.
        """
        weights = torch.from_numpy(shares / shares.sum(1, keepdims=True)).float().to(signal.device)
        total = signal.new_zeros(signal.shape[-1] // self._frame, len(signal), self._space.scores, dtype=torch.float32)
        with torch.no_grad(), autocast(signal.device, precision):
            for group in self._groups[signal.device]:
                counted = np.flatnonzero(shares[:, group.members].any(1))
                if not len(counted):
                    continue
                chunks = torch.from_numpy(counted).to(signal.device)
                for member, scores in zip(group.members, group.scores(signal[chunks]), strict=True):
                    total.index_add_(1, chunks, weights[chunks, member, None] * scores.float())
        return total

    def say(self, signal: torch.Tensor, shares: np.ndarray, precision: torch.dtype, rng: np.random.Generator) -> np.ndarray:
        """Returns of signal [N, 1, T] the class [N, T/3] that each frame of targets emits, 0 for none, in a drawn sequence."""
        scores = self.scores(signal, shares, precision)
        frames, items, _ = scores.shape
        bases = np.zeros((items, signal.shape[-1] // STRIDE), np.uint8)
        places = np.arange(frames) * self._frame // STRIDE
        for n, one in enumerate(scores.cpu().numpy().transpose(1, 0, 2)):
            bases[n, places] = self._space.draw(one, rng)
        return bases
