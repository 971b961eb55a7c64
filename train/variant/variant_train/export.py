"""Writing a network as an ONNX graph of standard operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from . import layout
from .network import KERNEL, Caller, Shape, Together

OPSET = 17
TOLERANCE = 1e-4
"""Largest difference of an exported graph's logits from PyTorch's."""


def to_onnx(network: Together) -> onnx.ModelProto:
    """Builds the graph: ``examples`` float32 [N,1,SIZE] to ``scores`` float32 [N,1,SCORES], logits.

    Problem: a matrix product over a batch takes other kernels, and sums in another order, for other numbers of rows, so an
    example's scores would depend on what else is in its batch.

    Strategy: every layer, the dense ones too, is a two-dimensional convolution over an image of one row. ONNX Runtime
    computes each image of a batch by itself.

    Consequences: scores are the same bits in every batch, and the same weights always give the same bytes of a model.
    """
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    logits = [
        _append(member, f"{i}." if len(network.members) > 1 else "", constant, node) for i, member in enumerate(network.members)
    ]
    x = logits[0]
    if len(logits) > 1:
        x = node("Mul", [node("Sum", logits, "sum"), constant("share", np.array(1 / len(logits), np.float32))], "mean")
    node("Reshape", [x, constant("scores.shape", np.array([0, 1, layout.SCORES], np.int64))], "scores")

    graph = helper.make_graph(
        nodes,
        "variant caller",
        [helper.make_tensor_value_info("examples", TensorProto.FLOAT, ["N", 1, layout.SIZE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 1, layout.SCORES])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="porestream")
    onnx.checker.check_model(model, full_check=True)
    return model


def _append(network: Caller, prefix: str, constant: Callable[[str, np.ndarray], str], node: Callable[..., str]) -> str:
    """Appends the graph of one network, whose names begin with prefix, and returns the name of its logits [N,SCORES,1,1]."""
    weights = {name: tensor.detach().cpu().float().numpy() for name, tensor in network.state_dict().items()}
    shape = network.shape

    def convolution(name: str, source: str, stride: int = 1, padding: int = 0, columns: int = 0) -> str:
        """A layer of the state dict; columns: a dense layer over images that have so many."""
        kernel = weights[f"{name}.weight"]
        if kernel.ndim == 2:
            kernel = kernel.reshape(kernel.shape[0], -1, max(1, columns))
        return node(
            "Conv",
            [
                source,
                constant(f"{prefix}{name}.weight", kernel[:, :, None]),
                constant(f"{prefix}{name}.bias", weights[f"{name}.bias"]),
            ],
            prefix + name,
            kernel_shape=[1, kernel.shape[2]],
            strides=[1, stride],
            pads=[0, padding, 0, padding],
        )

    def relu(source: str) -> str:
        return node("Relu", [source], f"{source}.relu")

    def part(name: str, start: int, stop: int, dimensions: list[int]) -> str:
        name = prefix + name
        ends = [
            constant(f"{name}.{end}", np.array([value], np.int64)) for end, value in (("start", start), ("stop", stop), ("axis", 2))
        ]
        piece = node("Slice", ["examples", *ends], f"{name}.flat")
        return node("Reshape", [piece, constant(f"{name}.shape", np.array([0, *dimensions], np.int64))], name)

    x = part("planes", 0, shape.planes * layout.COLUMNS, [shape.planes, 1, layout.COLUMNS])
    x = relu(convolution("stem", x, padding=KERNEL // 2))
    columns = layout.COLUMNS
    for i, block in enumerate(network.blocks):
        y = relu(convolution(f"blocks.{i}.first", x, block.stride, KERNEL // 2))
        y = convolution(f"blocks.{i}.second", y, 1, KERNEL // 2)
        if block.skip is not None:
            x = convolution(f"blocks.{i}.skip", x, block.stride)
        x = relu(node("Add", [y, x], f"{prefix}blocks.{i}.sum"))
        columns = -(-columns // block.stride)
    x = relu(convolution("columns", x, columns=columns))
    s = part("scalar_values", layout.PLANES * layout.COLUMNS, layout.SIZE, [layout.SCALARS, 1, 1])
    for i in range(len(network.scalars)):
        s = relu(convolution(f"scalars.{i}", s))
    x = node("Concat", [x, s], f"{prefix}joined", axis=1)
    return convolution("heads", relu(convolution("join", x)))


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
