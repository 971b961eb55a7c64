"""A narrower network, of those channels of a wider one that its loss hangs on most.

Molchanov et al. 2019, Importance Estimation for Neural Network Pruning (arXiv:1906.10771): a channel is worth the square of what
the loss would change by without it, to first order. All layers add to one stream of channels, so a channel goes from all of them
at once; a few go at a time, as what the others are worth changes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from .network import Basecaller

ROUNDS = 10
"""Choices that are made one after the other, of as many channels each."""

Loss = Callable[[Basecaller, int], torch.Tensor]
"""Loss of a network on the chunks of a round: a sum over chunks."""


def narrowed(network: Basecaller, width: int, loss: Loss) -> Basecaller:
    """Returns a network of those channels of network, as many as width, that the loss hangs on most."""
    old = network.shape.width
    if width > old:
        raise ValueError(f"a network of width {old} has no {width} channels to keep")
    for done in range(ROUNDS):
        wanted = old - (old - width) * (done + 1) // ROUNDS
        kept = worth(network, lambda one, done=done: loss(one, done)).topk(wanted).indices.sort().values
        network = _of(network, kept)
    return network


def worth(network: Basecaller, loss: Callable[[Basecaller], torch.Tensor]) -> torch.Tensor:
    """Returns what each channel [width] is worth: the mean over chunks of the squared change of a chunk's loss without it."""
    added: list[torch.Tensor] = []

    def heard(part: nn.Module, _: object, output: torch.Tensor | tuple) -> None:
        """Notes what a part adds to the stream [T, N, width]."""
        tensor = output[0] if isinstance(part, nn.LSTM) else output
        tensor.retain_grad()
        added.append(tensor)

    with torch.enable_grad():
        hooks = [part.register_forward_hook(heard) for part in (network.down, *network.lstm)]
        try:
            loss(network).backward()
        finally:
            for hook in hooks:
                hook.remove()
    network.zero_grad(set_to_none=True)
    convolved, *recurrent = added
    # The stream gets silu(x) of the convolution: dL/d silu = dL/dx / silu'(x) would divide by zero, so x itself is what goes.
    changes = (convolved.grad * convolved.detach()).sum(-1)
    for layer in recurrent:
        changes = changes + (layer.grad * layer.detach()).sum(0)
    return changes.square().mean(0)


def _of(network: Basecaller, kept: torch.Tensor) -> Basecaller:
    """Returns the network without the other channels."""
    width = network.shape.width
    gates = torch.cat([gate * width + kept for gate in range(4)])
    narrow = Basecaller(replace(network.shape, width=len(kept)))
    state = network.state_dict()
    for name, value in state.items():
        if name.startswith("down."):
            state[name] = value[kept]
        elif name == "head.weight":
            state[name] = value[:, kept]
        elif ".weight_" in name:
            state[name] = value[gates][:, kept]
        elif ".bias_" in name:
            state[name] = value[gates]
    narrow.load_state_dict(state)
    return narrow
