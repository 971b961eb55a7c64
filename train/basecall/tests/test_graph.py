"""Graphs run by PyTorch, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from basecall_train.graph import Graph
from basecall_train.listener import Hearing
from basecall_train.runtime import opened

WIDTH = 6


def recurrent_graph(path: Path, **changes) -> Path:
    """Writes a recurrent basecaller with an operator of each kind: a convolution of the signal and its square, the largest of three
    samples, a GRU forwards, an LSTM backwards, a head, and something beside that nobody asks for."""
    random = np.random.default_rng(7)
    node = helper.make_node

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 2, name)

    gru = {"direction": "forward", "hidden_size": WIDTH, "linear_before_reset": 1} | changes.get("gru", {})
    lstm = {"direction": "reverse", "hidden_size": WIDTH} | changes.get("lstm", {})
    convolution = {"kernel_shape": [5], "pads": [1, 3], "strides": [1]} | changes.get("convolution", {})
    nodes = [
        node("Clip", ["signal", "least", "most"], ["clipped"]),
        node("Mul", ["clipped", "clipped"], ["square"]),
        node("Concat", ["clipped", "square"], ["both"], axis=1),
        node("Conv", ["both", "conv.w", "conv.b"], ["conv"], **convolution),
        node("MaxPool", ["conv"], ["largest"], kernel_shape=[3], strides=[3], **changes.get("pool", {})),
        node("Tanh", ["largest"], ["tanh"]),
        node("Transpose", ["tanh"], ["frames"], perm=[2, 0, 1]),
        node("GRU", ["frames", "gru.w", "gru.r", "gru.b"], ["gru"], **gru),
        node("Squeeze", ["gru", "axes"], ["first"]),
        node("LSTM", ["first", "lstm.w", "lstm.r", "lstm.b"], ["lstm"], **lstm),
        node("Squeeze", ["lstm", "axes"], ["second"]),
        node("Sigmoid", ["second"], ["gate"]),
        node("MatMul", ["gate", "head.w"], ["head"]),
        node("Add", ["head", "head.b"], ["scores"]),
        node("Softmax", ["scores"], ["unasked"], axis=-1),
    ]
    constants = [
        numpy_helper.from_array(np.array(-1.5, np.float32), "least"),
        numpy_helper.from_array(np.array(1.5, np.float32), "most"),
        numpy_helper.from_array(np.array([1], np.int64), "axes"),
        weights("conv.w", WIDTH, 2, 5),
        weights("conv.b", WIDTH),
        weights("gru.w", 1, 3 * WIDTH, WIDTH),
        weights("gru.r", 1, 3 * WIDTH, WIDTH),
        weights("gru.b", 1, 6 * WIDTH),
        weights("lstm.w", 1, 4 * WIDTH, WIDTH),
        weights("lstm.r", 1, 4 * WIDTH, WIDTH),
        weights("lstm.b", 1, 8 * WIDTH),
        weights("head.w", WIDTH, 5),
        weights("head.b", 5),
    ]
    graph = helper.make_graph(
        nodes,
        "recurrent",
        [helper.make_tensor_value_info("signal", TensorProto.FLOAT, ["N", 1, "T"])],
        [helper.make_tensor_value_info("unasked", TensorProto.FLOAT, ["frames", "N", 5])],
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def asked(path: Path, outputs: list[str], signal: torch.Tensor) -> list[np.ndarray]:
    """Returns what ONNX Runtime says."""
    model = onnx.load(path)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return opened(model.SerializeToString()).run(outputs, {"signal": signal.numpy()})


def test_outputs_are_those_of_onnx_runtime(tmp_path):
    path = recurrent_graph(tmp_path / "graph.onnx")
    outputs = ["second", "scores", "first"]
    signal = 2 * torch.randn(3, 1, 120, generator=torch.Generator().manual_seed(2))
    for found, expected in zip(Graph(path, outputs)(signal), asked(path, outputs, signal), strict=True):
        assert found.shape == (40, 3, found.shape[-1]) and not found.requires_grad
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_hears_what_cores_hear(tmp_path):
    hearing = Hearing(recurrent_graph(tmp_path / "graph.onnx"), ("first", "second"))
    signal = torch.randn(3, 1, 120, generator=torch.Generator().manual_seed(3))
    there = {name: one.cpu() for name, one in hearing(signal.cuda()).items()}
    torch.testing.assert_close(there, hearing(signal), rtol=0, atol=1e-2)


@pytest.mark.parametrize(
    "outputs, changes, message",
    [
        (["nobody"], {}, "no operator gives nobody"),
        (["unasked"], {}, "operator Softmax of unasked is none of Add, Clip"),
        (["first"], {"gru": {"linear_before_reset": 0}}, "linear_before_reset"),
        (["first"], {"gru": {"direction": "bidirectional"}}, "GRU: only what has one direction"),
        (["second"], {"lstm": {"clip": 3.0}}, "LSTM: only what has one direction"),
        (["conv"], {"convolution": {"dilations": [1]}}, "Conv: only one over time"),
        (["largest"], {"pool": {"ceil_mode": 1}}, "MaxPool: only one over time"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path, outputs, changes, message):
    path = recurrent_graph(tmp_path / "graph.onnx", **changes)
    with pytest.raises(ValueError, match=message) as refused:
        Graph(path, outputs)
    assert str(path) in str(refused.value)


def test_weights_that_are_computed_are_refused(tmp_path):
    path = recurrent_graph(tmp_path / "graph.onnx")
    model = onnx.load(path)
    next(one for one in model.graph.node if one.op_type == "Conv").input[1] = "both"
    onnx.save(model, str(path))
    with pytest.raises(ValueError, match=r"graph\.onnx: both is computed"):
        Graph(path, ["conv"])
