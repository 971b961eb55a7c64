"""A CRF of our own on what the layers of somebody else's network say.

A teacher that was trained on more genomes than there are here to learn from knows words that no network of ours has seen. The
scores that it emits in a frame show little of that: they may be a CTC's, and of another stride. Its inner layers show more, and
they stay as they are while a head learns to read them. The teacher's weights are neither trained nor written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F

from .crf import StateSpace
from .graph import Graph
from .network import CRF_SCALE, OPSET, STRIDE, Basecaller, Excess, Shape
from .runtime import check, opened

KERNEL = 9
"""Frames of the teacher that the head's convolution sees at a time."""
GRAPH = "listener"
"""Name of the graph of a written head."""
TEACHER_DIGEST = "teacher_sha256"
"""Property of a written head: the teacher's file whose layers it reads."""


class Hearing:
    """The outputs of inner layers of an ONNX network with input [N, 1, T]. Threads may share it, and copies of networks do.

    On processor cores ONNX Runtime is two to three times as fast as PyTorch, which is what there is on a GPU.
    """

    def __init__(self, teacher: Path, layers: Sequence[str]) -> None:
        """layers: names of outputs [T/3, N, channels] of the teacher's operators."""
        if not teacher.is_file():
            raise FileNotFoundError(f"{teacher}: no such network")
        model = onnx.load(teacher)
        known = {name for node in model.graph.node for name in node.output}
        if missing := [name for name in layers if name not in known]:
            raise ValueError(f"{teacher}: network.hears: no operator gives {', '.join(missing)}")
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in layers)
        self._session = opened(model.SerializeToString())
        self._input = model.graph.input[0].name
        self._graphs: dict[torch.device, Graph] = {}
        self.teacher = teacher
        self.layers = tuple(layers)
        self.digest = hashlib.sha256(teacher.read_bytes()).hexdigest()
        self.channels = sum(one.shape[-1] for one in self(torch.zeros(1, 1, 5 * STRIDE)).values())

    def __call__(self, signal: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns what each layer says [T/3, N, channels] of normalised signal [N, 1, T]."""
        if signal.device.type == "cpu":
            said = [torch.from_numpy(one) for one in self._session.run(None, {self._input: signal.detach().float().numpy()})]
        else:
            if signal.device not in self._graphs:  # a device's work is done by one thread
                self._graphs[signal.device] = Graph(self.teacher, self.layers).to(signal.device)
            with torch.autocast(signal.device.type, enabled=False):
                said = self._graphs[signal.device](signal.float())
        wanted = (signal.shape[-1] // STRIDE, signal.shape[0])
        for name, one in zip(self.layers, said, strict=True):
            if one.ndim != 3 or one.shape[:2] != wanted:
                raise ValueError(f"network.hears: {name} is {list(one.shape)}, not [{wanted[0]}, {wanted[1]}, channels]")
        return dict(zip(self.layers, said, strict=True))

    def __deepcopy__(self, memo: dict) -> Hearing:
        return self


class Listener(nn.Module):
    """Maps normalised signal [N, 1, T] to a CRF's scores [T/stride, N, C], as a :class:`.network.Basecaller` does, by what a
    teacher's layers say of it. T is a multiple of the stride and of the teacher's."""

    def __init__(self, shape: Shape, hearing: Hearing) -> None:
        super().__init__()
        self.shape = shape
        self.hearing = hearing
        self.mix = nn.Conv1d(hearing.channels, shape.width, KERNEL, padding=KERNEL // 2)
        self.lstm = nn.ModuleList()  # none: what it knows of a signal's course is what the teacher knows
        self.head = nn.Linear(shape.width, shape.scores)

    def forward(self, signal: torch.Tensor, excess: Excess | None = None, kept: torch.Tensor | None = None) -> torch.Tensor:
        """Returns the scores. excess and kept concern layers, and it has none."""
        return self.read(self.hearing(signal), signal.shape[-1])

    def read(self, said: Mapping[str, torch.Tensor], samples: int) -> torch.Tensor:
        """Returns the scores from the outputs [T/3, N, channels] of the teacher's layers, of which there may be more, for T
        samples."""
        heard = torch.cat([said[name] for name in self.hearing.layers], -1).permute(1, 2, 0)
        x = F.silu(self.mix(heard))
        # From a frame each 3 samples to one for each step of the CRF.
        x = F.interpolate(x, samples // self.shape.stride, mode="linear").permute(2, 0, 1)
        # PyTorch has no fast product of tensors in bfloat16 that aren't contiguous: it took 16 times as long.
        return CRF_SCALE * self.head(x.contiguous()).float().tanh()


class Audience:
    """Listeners to one teacher, which is run once for all of them."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        layers = sorted({name for one in listeners for name in one.hearing.layers})
        self._listeners = listeners
        self._hearing = Hearing(listeners[0].hearing.teacher, layers)

    def __call__(self, signal: torch.Tensor) -> list[torch.Tensor]:
        """Returns the scores [T/stride, N, C] that each listener has of normalised signal [N, 1, T]."""
        said = self._hearing(signal)
        return [one.read(said, signal.shape[-1]) for one in self._listeners]


def build(shape: Shape, teacher: Path | None) -> Basecaller | Listener:
    """Returns a network of a shape with random weights. teacher: whose layers it reads, if it reads any."""
    if not shape.hears:
        return Basecaller(shape)
    if teacher is None:
        raise ValueError(f"network: nobody says whose layers {', '.join(shape.hears)} are")
    return Listener(shape, Hearing(teacher, shape.hears))


def write(network: Listener, path: Path) -> None:
    """Writes a network's own layers as an ONNX graph: from the outputs of the teacher's layers, each float32 [T/3, N, channels],
    to ``scores`` float32 [N, T/stride, C]. ONNX Runtime must agree with PyTorch to 1e-4."""
    model = _to_onnx(network).SerializeToString()
    signal = torch.randn(2, 1, 30 * STRIDE * network.shape.stride, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = network.eval()(signal).permute(1, 0, 2).numpy()
    said = {name: one.numpy() for name, one in network.hearing(signal).items()}
    check(model, said, expected, 1e-4, path.name)
    path.write_bytes(model)


def read(path: Path, teacher: Path | None) -> Listener:
    """Returns the network of a file that :func:`write` has made. teacher: whose layers it reads."""
    model = onnx.load(path)
    weights = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    try:
        shape = Shape(
            width=weights["mix.bias"].size,
            layers=0,
            stride=round(STRIDE / float(weights["step"][2])),
            state_length=StateSpace.of(weights["head.bias"].size).length,
            hears=tuple(one.name for one in model.graph.input),
        )
        network = build(shape, teacher)
        learned_from = {one.key: one.value for one in model.metadata_props}[TEACHER_DIGEST]
        if network.hearing.digest != learned_from:
            raise ValueError(f"hears a teacher with the SHA-256 {learned_from}, {teacher} has {network.hearing.digest}")
        state = {name: weights[name] for name in ("mix.weight", "mix.bias", "head.bias")}
        state["head.weight"] = weights["head.weight"].T
        network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})
    except (KeyError, RuntimeError, ValueError) as fault:
        raise ValueError(f"{path}: {fault}") from fault
    return network


def _to_onnx(network: Listener) -> onnx.ModelProto:
    weights = {name: tensor.detach().cpu().float().numpy() for name, tensor in network.state_dict().items()}
    step = np.array([1, 1, STRIDE / network.shape.stride], np.float32)
    constants = {
        "mix.weight": weights["mix.weight"],
        "mix.bias": weights["mix.bias"],
        "step": step,
        "head.weight": weights["head.weight"].T,
        "head.bias": weights["head.bias"],
        "crf_scale": np.array(CRF_SCALE, np.float32),
    }
    layers = list(network.hearing.layers)
    node = helper.make_node
    nodes = [
        node("Concat", layers, ["heard"], axis=-1),
        node("Transpose", ["heard"], ["channels"], perm=[1, 2, 0]),
        node("Conv", ["channels", "mix.weight", "mix.bias"], ["mix"], pads=[KERNEL // 2, KERNEL // 2]),
        node("Sigmoid", ["mix"], ["mix.gate"]),
        node("Mul", ["mix", "mix.gate"], ["mix.silu"]),
        node("Resize", ["mix.silu", "", "step"], ["steps"], mode="linear", coordinate_transformation_mode="half_pixel"),
        node("Transpose", ["steps"], ["frames"], perm=[0, 2, 1]),
        node("MatMul", ["frames", "head.weight"], ["head"]),
        node("Add", ["head", "head.bias"], ["logits"]),
        node("Tanh", ["logits"], ["tanh"]),
        node("Mul", ["tanh", "crf_scale"], ["scores"]),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        GRAPH,
        [tensor(name, TensorProto.FLOAT, ["T", "N", None]) for name in layers],
        [tensor("scores", TensorProto.FLOAT, ["N", "frames", network.shape.scores])],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="porestream")
    helper.set_model_props(model, {TEACHER_DIGEST: network.hearing.digest})
    onnx.checker.check_model(model, full_check=True)
    return model
