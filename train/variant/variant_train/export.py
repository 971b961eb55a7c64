"""Writing a network as an ONNX graph of standard operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from . import layout
from .network import Caller, Shape, Together

OPSET = 17
TOLERANCE = 1e-4
"""Largest difference of an exported graph's logits from PyTorch's."""


def to_onnx(network: Together) -> onnx.ModelProto:
    """Builds the graph: ``examples`` float32 [N,1,SIZE] to ``scores`` float32 [N,1,SCORES], logits.

    Problem: scores may depend on the machine. ONNX Runtime's convolutions over images sum in blocks as wide as the processor's
    vectors, so one with AVX-512 gave other last bits than one with AVX2. A matrix product sums in one order on all of them, but
    for a single row it takes another kernel, so that an example's scores would depend on what else is in its batch.

    Strategy: a convolution along an allele's columns is one matrix product, of all columns of all examples with their
    neighbours. So is a layer that sees an example as a whole, of all examples and one of zeros: there is never a single row.

    Consequences: scores are the same bits in every batch and on all processors that multiply and add with one rounding, Arm's
    too, and the same weights always give the same bytes of a model. The network takes a sixth longer than as convolutions.
    """
    graph = _Graph()
    shape = network.members[0].shape
    planes = graph.part("planes", 0, shape.planes * layout.COLUMNS, [shape.planes, layout.COLUMNS])
    planes = graph.node("Transpose", [planes], "planes.columns", perm=[0, 2, 1])
    kernel = network.members[0].stem.kernel_size[0]
    planes, columns = graph.neighbours("stem", planes, layout.COLUMNS, shape.planes, kernel, 1)
    scalars = graph.part("scalar_values", layout.PLANES * layout.COLUMNS, layout.SIZE, [layout.SCALARS])
    scalars = graph.with_zeros("scalars", scalars, layout.SCALARS)
    members = [_Member(graph, member, f"{i}." if len(network.members) > 1 else "") for i, member in enumerate(network.members)]
    logits = [member.logits(planes, columns, scalars) for member in members]
    x = logits[0]
    if len(logits) > 1:
        x = graph.node(
            "Mul", [graph.node("Sum", logits, "sum"), graph.constant("share", np.array(1 / len(logits), np.float32))], "mean"
        )
    graph.node(
        "Reshape", [graph.slice("examples.scores", x, 0, 0, -1), graph.integers("scores.shape", 0, 1, layout.SCORES)], "scores"
    )

    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "variant caller",
            [helper.make_tensor_value_info("examples", TensorProto.FLOAT, ["N", 1, layout.SIZE])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 1, layout.SCORES])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
        producer_name="porestream",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


class _Graph:
    """Nodes and constants of a graph. A method returns the name of its output; constants are named after that."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def integers(self, name: str, *values: int) -> str:
        return self.constant(name, np.array(values, np.int64))

    def node(self, kind: str, inputs: list[str], output: str, **attributes) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def slice(self, name: str, source: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        bounds = {"start": start, "stop": stop, "axis": axis, "step": step}
        return self.node("Slice", [source, *(self.integers(f"{name}.{bound}", value) for bound, value in bounds.items())], name)

    def reshape(self, name: str, source: str, *dimensions: int) -> str:
        return self.node("Reshape", [source, self.integers(f"{name}.shape", *dimensions)], name)

    def part(self, name: str, start: int, stop: int, dimensions: list[int]) -> str:
        """A part of all examples, [N,dimensions...]."""
        return self.reshape(name, self.slice(f"{name}.flat", "examples", 2, start, stop), 0, *dimensions)

    def with_zeros(self, name: str, source: str, size: int) -> str:
        """Examples as rows [N+1,size], the last of zeros."""
        return self.node("Pad", [self.reshape(f"{name}.rows", source, -1, size), self.integers(f"{name}.zeros", 0, 0, 1, 0)], name)

    def neighbours(self, name: str, source: str, columns: int, channels: int, taps: int, stride: int) -> tuple[str, int]:
        """What a convolution sees of columns [N,columns,channels], with zeros beyond: rows [N*count,taps*channels], and count."""
        count = -(-columns // stride)
        if taps > 1:
            edge = taps // 2
            source = self.node("Pad", [source, self.integers(f"{name}.edges", 0, edge, 0, 0, edge, 0)], f"{name}.padded")
            every = [self.slice(f"{name}.{i}", source, 1, i, i + (count - 1) * stride + 1, stride) for i in range(taps)]
            source = self.node("Concat", every, f"{name}.neighbours", axis=2)
        elif stride > 1:
            source = self.slice(f"{name}.columns", source, 1, 0, columns, stride)
        return self.reshape(f"{name}.rows", source, -1, taps * channels), count


class _Member:
    """One network of a graph, whose names begin with prefix."""

    def __init__(self, graph: _Graph, network: Caller, prefix: str) -> None:
        self.graph, self.network, self.prefix = graph, network, prefix
        self.weights = {name: tensor.detach().cpu().float().numpy() for name, tensor in network.state_dict().items()}

    def product(self, name: str, rows: str) -> str:
        """A layer of the state dict, of rows [M,inputs]: [M,outputs]. A convolution's inputs are neighbours, then channels."""
        weight = self.weights[f"{name}.weight"]
        if weight.ndim == 3:
            weight = weight.transpose(0, 2, 1).reshape(len(weight), -1)
        full = self.prefix + name
        constants = [
            self.graph.constant(f"{full}.weight", weight),
            self.graph.constant(f"{full}.bias", self.weights[f"{name}.bias"]),
        ]
        return self.graph.node("Gemm", [rows, *constants], full, transB=1)

    def relu(self, source: str) -> str:
        return self.graph.node("Relu", [source], f"{source}.relu")

    def convolution(self, name: str, source: str, columns: int, stride: int = 1) -> tuple[str, int]:
        """A layer along columns [N,columns,channels]: rows [N*count,outputs], and count."""
        _, channels, taps = self.weights[f"{name}.weight"].shape
        rows, count = self.graph.neighbours(self.prefix + name, source, columns, channels, taps, stride)
        return self.product(name, rows), count

    def logits(self, planes: str, columns: int, scalars: str) -> str:
        """Logits [N+1,SCORES] of what the stem sees of the planes [N*columns,inputs] and of scalars [N+1,SCALARS]."""
        graph = self.graph
        rows = self.relu(self.product("stem", planes))
        channels = self.weights["stem.bias"].size
        for i, block in enumerate(self.network.blocks):
            name = f"blocks.{i}"
            x = graph.reshape(f"{self.prefix}{name}.input", rows, -1, columns, channels)
            y, count = self.convolution(f"{name}.first", x, columns, block.stride)
            if block.skip is not None:
                rows, _ = self.convolution(f"{name}.skip", x, columns, block.stride)
            columns, channels = count, self.weights[f"{name}.first.bias"].size
            y = graph.reshape(f"{self.prefix}{name}.middle", self.relu(y), -1, columns, channels)
            y, _ = self.convolution(f"{name}.second", y, columns)
            rows = self.relu(graph.node("Add", [y, rows], f"{self.prefix}{name}.sum"))
        x = graph.reshape(f"{self.prefix}last", rows, -1, columns, channels)
        x = graph.node("Transpose", [x], f"{self.prefix}channels", perm=[0, 2, 1])
        x = self.relu(self.product("columns", graph.with_zeros(f"{self.prefix}image", x, channels * columns)))
        for i in range(len(self.network.scalars)):
            scalars = self.relu(self.product(f"scalars.{i}", scalars))
        x = graph.node("Concat", [x, scalars], f"{self.prefix}joined", axis=1)
        return self.product("heads", self.relu(self.product("join", x)))


def read(path: Path, shape: Shape, members: int) -> list[Caller]:
    """Returns the networks of an exported graph, which :func:`to_onnx` would write again: to go on training a shipped model.

    The graph doesn't give their shape; one of another shape, or of another number of members, is an error.
    """
    graph = onnx.load(path).graph
    weights = {constant.name: numpy_helper.to_array(constant) for constant in graph.initializer}
    found = []
    for i in range(members):
        prefix = f"{i}." if members > 1 else ""
        network = Caller(shape)
        state = {}
        for name, tensor in network.state_dict().items():
            value = weights.get(prefix + name)
            if value is None or value.size != tensor.numel():
                raise ValueError(f"{path}: {prefix + name} is not of {members} networks of shape {shape}")
            if value.ndim == 2 and tensor.ndim == 3:  # of a convolution along columns: neighbours, then channels
                value = value.reshape(tensor.shape[0], tensor.shape[2], tensor.shape[1]).transpose(0, 2, 1)
            state[name] = torch.from_numpy(value.reshape(tensor.shape).copy())
        network.load_state_dict(state)
        found.append(network.eval())
    if members == 1 and any(name.startswith("0.") for name in weights) or f"{members}.stem.weight" in weights:
        raise ValueError(f"{path}: there are more than {members} networks")
    return found


def write(network: Together, path: Path, examples: np.ndarray) -> None:
    """Exports network to path, after checks on the given examples [N, SIZE].

    ONNX Runtime has to agree with PyTorch to 1e-4, and with itself to the bit when examples come alone or together.
    """
    import onnxruntime

    model = to_onnx(network.eval()).SerializeToString()
    with torch.no_grad():
        expected = network(torch.from_numpy(examples[:, None])).numpy()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def scores(some: np.ndarray) -> np.ndarray:
        return session.run(["scores"], {"examples": some[:, None]})[0]

    together = scores(examples)
    difference = np.abs(together - expected).max()
    if not difference <= TOLERANCE:
        raise RuntimeError(f"exported graph differs from the network by {difference:.2e}")
    for n in (1, 2, 3, 7):
        if not np.array_equal(np.concatenate([scores(examples[i : i + n]) for i in range(0, len(examples), n)]), together):
            raise RuntimeError(f"scores of examples in batches of {n} differ from those of {len(examples)} together")
    path.write_bytes(model)
