#!/usr/bin/env bash
# One would guess: tract runs a recurrent layer of an ONNX file in the direction that the file says, or refuses it, as it refuses lengths
# of sequences that are not those of the input. ONNX's RNN, GRU and LSTM have direction forward, reverse and bidirectional.
# What happens: it never looks at the attribute. It goes forward where the weights are those of one direction, and both ways where they are
# those of two. A layer with direction reverse gives the states and the last state that one with direction forward and the same weights
# gives; it loads and runs without a word, and its outputs have the right shapes. A signal of one frame is right, and so are forward and
# bidirectional layers, whose second half does go backward. tract 0.23.9, onnxruntime 1.32.0, onnx 1.23.2.
# Who is hurt: basecallers of nanopore signal, whose layers go by turns from the end and from the start, in small devices and in Rust, which
# tract is made for: the network reads the signal the wrong way in every other layer. It still answers with probabilities that sum to 1, so
# what it calls looks like a bad model or a bad pore.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tract==0.23.9 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnx
import onnxruntime as ort
import tract
from onnx import TensorProto, helper, numpy_helper

reads, features, hidden = 2, 3, 5
gates = {"RNN": 1, "GRU": 3, "LSTM": 4}
draw = np.random.default_rng(1)


def random(*shape):
    return draw.uniform(-1, 1, shape).astype(np.float32)


def drawn(kind, sides, size):
    g = gates[kind] * hidden
    return {"W": random(sides, g, size), "R": random(sides, g, hidden), "B": random(sides, 2 * g)}


def write(nodes, weights, frames, outputs):
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [frames, reads, features])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, "network.onnx")


def layer(kind, weights, direction, frames):
    """A network of one layer, which gives the states of all frames and the last one."""
    sides = weights["W"].shape[0]
    node = helper.make_node(kind, ["x", "W", "R", "B"], ["Y", "Y_h"], hidden_size=hidden, direction=direction)
    write([node], weights, frames, {"Y": [frames, sides, reads, hidden], "Y_h": [sides, reads, hidden]})


def by_ort(x):
    return ort.InferenceSession("network.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x})


def by_tract(x):
    return [out.to_numpy() for out in tract.onnx().load("network.onnx").into_model().into_runnable().run([x])]


def same(a, b):
    return all(p.shape == q.shape and np.allclose(p, q, atol=1e-5) for p, q in zip(a, b, strict=True))


for kind in gates:
    for direction, sides in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        for frames in (1, 50):
            weights, x = drawn(kind, sides, features), random(frames, reads, features)
            layer(kind, weights, direction, frames)
            meant, got = by_ort(x), by_tract(x)
            line = f"{kind} {direction}, {frames} frames: tract {'as' if same(got, meant) else 'not as'} ONNX Runtime"
            if direction == "reverse":
                # A layer from the end is one from the start over the turned signal, turned back.
                layer(kind, weights, "forward", frames)
                turned, last = by_ort(x[::-1].copy())
                assert same([turned[::-1], last], meant)
                line += f", {'as' if same(got, by_ort(x)) else 'not as'} the forward layer"
            print(line)

# Five layers by turns, as in basecallers, and the probabilities of five classes for each frame.
frames = 2000
for directions in (["forward"] * 5, ["reverse", "forward"] * 2 + ["reverse"]):
    nodes, weights, below = [], {}, "x"
    for i, direction in enumerate(directions):
        for name, w in drawn("LSTM", 1, features if i == 0 else hidden).items():
            weights[f"{name}{i}"] = {"W": 6, "R": 2, "B": 0}[name] * w
        nodes.append(helper.make_node("LSTM", [below, f"W{i}", f"R{i}", f"B{i}"], [f"Y{i}"], hidden_size=hidden, direction=direction))
        nodes.append(helper.make_node("Squeeze", [f"Y{i}", "one"], [f"flat{i}"]))
        below = f"flat{i}"
    weights.update(one=np.array([1]), last=3 * random(hidden, 5))
    nodes += [helper.make_node("MatMul", [below, "last"], ["scores"]), helper.make_node("Softmax", ["scores"], ["p"], axis=2)]
    write(nodes, weights, frames, {"p": [frames, reads, 5]})
    x = random(frames, reads, features)
    (meant,), (got,) = by_ort(x), by_tract(x)
    assert np.allclose(got.sum(2), 1, atol=1e-5)
    off = np.mean(meant.argmax(2) != got.argmax(2))
    print(f"{', '.join(directions)}: another best class for {'more than half' if off > 0.5 else 'some' if off else 'none'} of the frames")
PYTHON
echo "tract $(venv/bin/python -c 'import tract; print(tract.version())')"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
RNN forward, 1 frames: tract as ONNX Runtime
RNN forward, 50 frames: tract as ONNX Runtime
RNN reverse, 1 frames: tract as ONNX Runtime, as the forward layer
RNN reverse, 50 frames: tract not as ONNX Runtime, as the forward layer
RNN bidirectional, 1 frames: tract as ONNX Runtime
RNN bidirectional, 50 frames: tract as ONNX Runtime
GRU forward, 1 frames: tract as ONNX Runtime
GRU forward, 50 frames: tract as ONNX Runtime
GRU reverse, 1 frames: tract as ONNX Runtime, as the forward layer
GRU reverse, 50 frames: tract not as ONNX Runtime, as the forward layer
GRU bidirectional, 1 frames: tract as ONNX Runtime
GRU bidirectional, 50 frames: tract as ONNX Runtime
LSTM forward, 1 frames: tract as ONNX Runtime
LSTM forward, 50 frames: tract as ONNX Runtime
LSTM reverse, 1 frames: tract as ONNX Runtime, as the forward layer
LSTM reverse, 50 frames: tract not as ONNX Runtime, as the forward layer
LSTM bidirectional, 1 frames: tract as ONNX Runtime
LSTM bidirectional, 50 frames: tract as ONNX Runtime
forward, forward, forward, forward, forward: another best class for none of the frames
reverse, forward, reverse, forward, reverse: another best class for more than half of the frames
EXPECTED
if ! diff expected seen; then
	echo "tract behaves otherwise by now" >&2
	exit 1
fi
