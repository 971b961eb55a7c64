"""Writing a network as an ONNX graph of standard operators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from . import listener
from .crf import StateSpace
from .listener import Listener
from .network import CRF_SCALE, OPSET, Basecaller, Shape, mixture, runs_backwards
from .runtime import check


def to_onnx(network: Basecaller, half: bool = False) -> onnx.ModelProto:
    """Builds the graph: ``signal`` float32 [N,1,T] to ``scores`` float32 [N,T/frame,C], log-probabilities or a CRF's moves.

    half: weights and inner values in half precision, for GPUs; the ends are float32 all the same.

    It is built by hand rather than traced: every LSTM stays one operator with its direction as an attribute (a traced
    flip becomes a gather) and the same weights always give the same bytes. No clipping or peepholes, so that CPU and
    CUDA execution providers both run it.
    """
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    weights = {name: tensor.detach().cpu().float().numpy() for name, tensor in network.state_dict().items()}

    def constant(name: str, value: np.ndarray) -> str:
        if half and value.dtype == np.float32:
            with np.errstate(over="ignore"):  # write refuses what comes of it
                value = value.astype(np.float16)
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def convolution(name: str, source: str, stride: int, padding: int) -> str:
        kernel = constant(f"{name}.weight", weights[f"{name}.weight"])
        bias = constant(f"{name}.bias", weights[f"{name}.bias"])
        linear = node("Conv", [source, kernel, bias], name, strides=[stride], pads=[padding, padding])
        gate = node("Sigmoid", [linear], f"{name}.gate")
        return node("Mul", [linear, gate], f"{name}.silu")

    x = node("Cast", ["signal"], "half_signal", to=TensorProto.FLOAT16) if half else "signal"
    x = convolution("stem", x, 1, network.stem.padding[0])
    x = convolution("down", x, network.shape.stride, network.down.padding[0])
    x = node("Transpose", [x], "frames", perm=[2, 0, 1])
    direction_axis = constant("direction_axis", np.array([1], np.int64))
    width = network.shape.width
    for i in range(network.shape.layers):
        name = f"lstm.{i}"
        w, r, b_in, b_rec = (
            _gates(weights[f"{name}.{part}_l0"], width) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        y = node(
            "LSTM",
            [
                x,
                constant(f"{name}.W", w[None]),
                constant(f"{name}.R", r[None]),
                constant(f"{name}.B", np.concatenate([b_in, b_rec])[None]),
            ],
            name,
            hidden_size=width,
            direction="reverse" if runs_backwards(i) else "forward",
        )
        y = node("Squeeze", [y, direction_axis], f"{name}.states")
        x = node("Add", [x, y], f"{name}.sum")
    x = node("MatMul", [x, constant("head.weight", weights["head.weight"].T)], "head")
    x = node("Add", [x, constant("head.bias", weights["head.bias"])], "logits")
    # Scores of several frames per step come one after another: [steps, N, frames C] to [steps, N, frames, C] and on.
    frames, classes = network.shape.frames, network.shape.scores
    if frames > 1:
        x = node("Reshape", [x, constant("frames_apart", np.array([0, 0, frames, classes], np.int64))], "logits.apart")
    if half:
        x = node("Cast", [x], "logits.float", to=TensorProto.FLOAT)
    if network.shape.state_length:
        x = node("Tanh", [x], "tanh")
        constants.append(numpy_helper.from_array(np.array(CRF_SCALE, np.float32), "crf_scale"))  # float32 in any case
        x = node("Mul", [x, "crf_scale"], "moves")
    else:
        x = node("LogSoftmax", [x], "log_probabilities", axis=-1)
    if frames > 1:
        x = node("Transpose", [x], "reads", perm=[1, 0, 2, 3])
        node("Reshape", [x, constant("frames_joined", np.array([0, -1, classes], np.int64))], "scores")
    else:
        node("Transpose", [x], "scores", perm=[1, 0, 2])

    graph = helper.make_graph(
        nodes,
        "basecaller",
        [helper.make_tensor_value_info("signal", TensorProto.FLOAT, ["N", 1, "T"])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", "frames", classes])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="porestream")
    onnx.checker.check_model(model, full_check=True)
    return model


def _gates(block: np.ndarray, width: int) -> np.ndarray:
    """Reorders LSTM gates from PyTorch's input, forget, cell, output to ONNX's input, output, forget, cell."""
    i, f, c, o = (block[k * width : (k + 1) * width] for k in range(4))
    return np.concatenate([i, o, f, c])


def read_mixture(shares: Mapping[str, float]) -> Basecaller:
    """Returns the mixture of networks in files that :func:`write` has made."""
    return mixture([(read(Path(name)), share) for name, share in shares.items()])


def read(path: Path, teacher: Path | None = None) -> Basecaller | Listener:
    """Returns the network of a file that :func:`write` or :func:`.listener.write` has made. teacher: whose layers it reads."""
    graph = onnx.load(path).graph
    if graph.name == listener.GRAPH:
        return listener.read(path, teacher)
    weights = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    try:
        strides = {one.name: helper.get_node_attr_value(one, "strides")[0] for one in graph.node if one.op_type == "Conv"}
        state_length = StateSpace.of(weights["head.bias"].size).length if "crf_scale" in weights else 0
        stem, width = weights["stem.bias"].size, weights["down.bias"].size
        layers = sum(name.startswith("lstm.") and name.endswith(".W") for name in weights)
        state = {name: weights[name] for name in ("stem.weight", "stem.bias", "down.weight", "down.bias", "head.bias")}
        state["head.weight"] = weights["head.weight"].T
        for i in range(layers):
            both = weights[f"lstm.{i}.B"][0]
            blocks = {
                "weight_ih": weights[f"lstm.{i}.W"][0],
                "weight_hh": weights[f"lstm.{i}.R"][0],
                "bias_ih": both[: 4 * width],
                "bias_hh": both[4 * width :],
            }
            for name, block in blocks.items():
                i_, o, f, c = (block[k * width : (k + 1) * width] for k in range(4))
                state[f"lstm.{i}.{name}_l0"] = np.concatenate([i_, f, c, o])
        network = Basecaller(Shape(width=width, layers=layers, stem=stem, stride=strides["down"], state_length=state_length))
        network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})
    except (KeyError, RuntimeError) as fault:
        raise ValueError(f"{path}: not a network that basecall_train has exported: {fault}") from fault
    return network


def write(network: Basecaller, path: Path, half: Path | None = None) -> None:
    """Exports network to path after checking that ONNX Runtime agrees with PyTorch to 1e-4.

    half: where it goes in half precision besides, which must agree to 1e-2 of the largest score.
    """
    signal = torch.randn(2, 1, 150 * network.shape.stride, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        scores = network.eval()(signal)
        expected = (scores if network.shape.state_length else scores.log_softmax(-1)).permute(1, 0, 2).numpy()
    for file, precision, most in ((path, False, 1e-4), (half, True, 1e-2 * max(1.0, float(np.abs(expected).max())))):
        if file is None:
            continue
        model = to_onnx(network, precision).SerializeToString()
        check(model, {"signal": signal.numpy()}, expected, most, file.name)
        file.write_bytes(model)
