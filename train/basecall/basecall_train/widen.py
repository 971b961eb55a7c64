"""A larger network that computes what a smaller one does, to train on from there: wider, or a CRF over longer words.

Chen et al. 2016, Net2Net (arXiv:1511.05641), for layers that add to their input: all of them share one numbering of
channels, so one choice of the doubled channels serves the whole network.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from .network import Basecaller


def widened(network: Basecaller, width: int, seed: int = 0) -> Basecaller:
    """Returns a network of the given width with the same scores as network, up to rounding.

    Channels beyond the old width are copies of channels drawn at random. What reads a channel that has copies reads each
    of them by a random part of its weight; the parts add up to one, and differ, so that copies grow apart in training.
    """
    old = network.shape.width
    if width < old:
        raise ValueError(f"a network of width {old} can't be narrowed to {width}")
    draw = torch.Generator().manual_seed(seed)
    origin = torch.cat([torch.arange(old), torch.randperm(max(old, width - old), generator=draw)[: width - old] % old])
    part = 0.5 + torch.rand(width, generator=draw)
    part /= torch.zeros(old).index_add_(0, origin, part)[origin]
    gates = torch.cat([gate * old + origin for gate in range(4)])

    wide = Basecaller(replace(network.shape, width=width))
    narrow = network.state_dict()
    state = {name: narrow[name] for name in ("stem.weight", "stem.bias", "head.bias")}
    for name in ("down.weight", "down.bias"):
        state[name] = narrow[name][origin]
    for i in range(network.shape.layers):
        for name in ("weight_ih_l0", "weight_hh_l0"):
            state[f"lstm.{i}.{name}"] = narrow[f"lstm.{i}.{name}"][gates][:, origin] * part
        for name in ("bias_ih_l0", "bias_hh_l0"):
            state[f"lstm.{i}.{name}"] = narrow[f"lstm.{i}.{name}"][gates]
    state["head.weight"] = narrow["head.weight"][:, origin] * part
    wide.load_state_dict(state)
    return wide


def lengthened(network: Basecaller, state_length: int) -> Basecaller:
    """Returns a network whose CRF has states of so many bases and that gives all sequences the same probabilities.

    Moves between words that begin otherwise, which the shorter states don't distinguish, begin with the same score. A network with
    another head has no states and stays as it is.
    """
    if network.shape.state_length > state_length > 0:
        raise ValueError(f"a network with states of {network.shape.state_length} bases can't get states of {state_length}")
    while 0 < network.shape.state_length < state_length:
        few = 4**network.shape.state_length
        # Of the word that is arrived at, the shorter states lack the first base: for them it is the one that is dropped.
        arrived = torch.arange(4 * few)
        origin = (4 * (arrived % few) + arrived // few).repeat_interleave(4)
        longer = Basecaller(replace(network.shape, state_length=network.shape.state_length + 1))
        state = network.state_dict()
        state["head.weight"], state["head.bias"] = state["head.weight"][origin], state["head.bias"][origin]
        longer.load_state_dict(state)
        network = longer
    return network
