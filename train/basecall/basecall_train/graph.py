"""An ONNX graph run by PyTorch, on whatever device its input lies.

ONNX Runtime has processor cores here, and a teacher that runs beside a network in training must not keep a GPU waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn
from torch.nn import functional as F


class Graph(nn.Module):
    """The operators that lead to some outputs of a graph with one input. It knows those of recurrent basecallers, and says which it
    lacks. Its weights are not for training."""

    def __init__(self, path: Path, outputs: Sequence[str]) -> None:
        super().__init__()
        graph = onnx.load(path).graph
        if missing := [name for name in outputs if name not in {one for node in graph.node for one in node.output}]:
            raise ValueError(f"{path}: no operator gives {', '.join(missing)}")
        self.input, self.outputs = graph.input[0].name, tuple(outputs)
        constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        self._steps: list[tuple[Callable[..., torch.Tensor], list[str], str]] = []
        self._layers = nn.ModuleList()
        wanted = set(outputs)
        for node in reversed(graph.node):
            if not wanted & set(node.output):
                continue
            attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
            try:
                if node.op_type in _LAYERS:
                    inputs = [node.input[0]]
                    run = _LAYERS[node.op_type](attributes, *(_tensor(constants, one) for one in node.input[1:]))
                    self._layers.append(run)
                elif node.op_type in _OPERATORS:
                    inputs, run = list(node.input), _OPERATORS[node.op_type](attributes)
                else:
                    known = ", ".join(sorted([*_LAYERS, *_OPERATORS]))
                    raise ValueError(f"operator {node.op_type} of {node.output[0]} is none of {known}")
            except ValueError as fault:
                raise ValueError(f"{path}: {fault}") from fault
            self._steps.insert(0, (run, inputs, node.output[0]))
            wanted.update(inputs)
        used = {name for _, inputs, _ in self._steps for name in inputs}
        self._constants = sorted(used & constants.keys())
        for i, name in enumerate(self._constants):
            self.register_buffer(f"constant_{i}", _tensor(constants, name))
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, signal: torch.Tensor) -> list[torch.Tensor]:
        """Returns the outputs in the order they were asked for."""
        values = {name: self.get_buffer(f"constant_{i}") for i, name in enumerate(self._constants)} | {self.input: signal}
        for run, inputs, output in self._steps:
            values[output] = run(*(values[name] for name in inputs))
        return [values[name] for name in self.outputs]


class _Recurrent(nn.Module):
    """ONNX's GRU, that of PyTorch (linear_before_reset), or LSTM, one way along [T, N, channels]."""

    GATES = {"GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}
    """Places, among ONNX's gates, of PyTorch's."""

    def __init__(self, kind: str, attributes: dict, w: torch.Tensor, r: torch.Tensor, b: torch.Tensor, *more: torch.Tensor) -> None:
        super().__init__()
        known = {"direction", "hidden_size", "linear_before_reset"}
        direction = attributes.get("direction", b"forward")
        if more or not attributes.keys() <= known or direction not in (b"forward", b"reverse"):
            raise ValueError(f"{kind}: only what has one direction, no state to begin with, and usual activations can be run")
        if kind == "GRU" and not attributes.get("linear_before_reset"):
            raise ValueError("GRU: only what resets the state's product (linear_before_reset) can be run")
        self.reverse = direction == b"reverse"
        self.layer = getattr(nn, kind)(w.shape[2], r.shape[2])
        gates = self.GATES[kind]

        def ordered(block: torch.Tensor) -> torch.Tensor:
            apart = block.chunk(len(gates))
            return torch.cat([apart[i] for i in gates])

        of_input, of_state = b[0].chunk(2)
        self.layer.load_state_dict(
            {
                "weight_ih_l0": ordered(w[0]),
                "weight_hh_l0": ordered(r[0]),
                "bias_ih_l0": ordered(of_input),
                "bias_hh_l0": ordered(of_state),
            }
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = self.layer(x.flip(0))[0].flip(0) if self.reverse else self.layer(x)[0]
        return states.unsqueeze(1)  # ONNX has an axis of directions


class _Convolution(nn.Module):
    """ONNX's Conv over [N, channels, T]."""

    def __init__(self, attributes: dict, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), None if bias is None else nn.Parameter(bias)
        self.stride = attributes.get("strides", [1])[0]
        self.padding = attributes.get("pads", [0, 0])
        if not attributes.keys() <= {"kernel_shape", "strides", "pads"} or weight.ndim != 3:
            raise ValueError("Conv: only one over time, without groups or dilations, can be run")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv1d(F.pad(x, self.padding), self.weight, self.bias, self.stride)


class _Squeezed(nn.Module):
    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.squeeze(self.axes)


def _pool(attributes: dict) -> Callable[[torch.Tensor], torch.Tensor]:
    if not attributes.keys() <= {"kernel_shape", "strides"} or len(attributes["kernel_shape"]) != 1:
        raise ValueError("MaxPool: only one over time, without padding, can be run")
    kernel, stride = attributes["kernel_shape"][0], attributes.get("strides", [1])[0]
    return lambda x: F.max_pool1d(x, kernel, stride)


_LAYERS: dict[str, Callable[..., nn.Module]] = {
    "Conv": _Convolution,
    "GRU": lambda attributes, *weights: _Recurrent("GRU", attributes, *weights),
    "LSTM": lambda attributes, *weights: _Recurrent("LSTM", attributes, *weights),
    "Squeeze": lambda _, axes: _Squeezed(tuple(axes.tolist())),
}
"""Operators with one input and constants: what makes a module of attributes and constants."""
_OPERATORS: dict[str, Callable[[dict], Callable[..., torch.Tensor]]] = {
    "Add": lambda _: torch.add,
    "Clip": lambda _: torch.clamp,
    "Concat": lambda attributes: lambda *parts: torch.cat(parts, attributes["axis"]),
    "MatMul": lambda _: torch.matmul,
    "MaxPool": _pool,
    "Mul": lambda _: torch.mul,
    "Sigmoid": lambda _: torch.sigmoid,
    "Tanh": lambda _: torch.tanh,
    "Transpose": lambda attributes: lambda x: x.permute(attributes["perm"]),
}
"""Operators of several inputs: what makes a function of attributes."""


def _tensor(constants: dict, name: str) -> torch.Tensor:
    if name not in constants:
        raise ValueError(f"{name} is computed, where only a constant can be run")
    return torch.from_numpy(constants[name].copy())
