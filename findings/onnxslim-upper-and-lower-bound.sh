#!/usr/bin/env bash
# One would guess: onnxslim takes two nodes for one only where they compute the same, so what is above a level and what is below it
# (Clip with the level as its lower bound, Clip with it as its upper bound) stay two things.
# What happens: before it compares the inputs of two nodes it leaves out those that are not given. If the first Clip has an empty
# name for the missing upper bound, both have the same inputs then, and the second becomes the first: what is below the level is
# gone, and what is above is there twice. If the missing input is left out at the end, all is right. The format allows both ways
# for inputs at the end (IR.md, Optional Inputs and Outputs), and onnxscript writes the empty name for an argument that is None.
# By default, without a word. onnxslim 0.1.98, onnxscript 0.7.2, onnx 1.23.2; outputs by ONNX Runtime 1.32.0, without
# optimisation of its own, and by numpy.
# Who is hurt: networks that treat deviations to both sides apart (a signal's blocks upwards and downwards, activations with two
# slopes): names, shapes and types stay, and one side is lost.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxslim==0.1.98 onnxscript==0.7.2 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnx
import onnxruntime as ort
import onnxslim
from onnx import TensorProto, helper, numpy_helper
from onnxscript import FLOAT, script
from onnxscript import opset18 as op

x = np.array([[-3, -1, -0.5, 0.5, 1, 3]], np.float32)


def given(level, lower):
    """A Clip with the given inputs, and one with an upper bound alone."""
    nodes = [
        helper.make_node("Clip", lower, ["upwards"]),
        helper.make_node("Clip", ["x", "", "b"], ["downwards"]),
        helper.make_node("Concat", ["upwards", "downwards"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 12])],
        [numpy_helper.from_array(np.float32(v), name) for v, name in zip(level, "ab")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


zero = helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])


@script(default_opset=op)
def written(x: FLOAT[1, 6]) -> FLOAT[1, 12]:
    level = op.Constant(value=zero)
    return op.Concat(op.Clip(x, level, None), op.Clip(x, None, level), axis=1)


def run(model, x):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


for what, level, model in (
    ("left out", (0, 0), given((0, 0), ["x", "a"])),
    ("empty name", (0, 0), given((0, 0), ["x", "a", ""])),
    ("empty name, level 0.25", (0.25, 0.25), given((0.25, 0.25), ["x", "a", ""])),
    ("empty name, two levels", (0.25, 0.5), given((0.25, 0.5), ["x", "a", ""])),
    ("by onnxscript", (0, 0), written.to_model_proto()),
):
    onnx.checker.check_model(model, full_check=True)
    first = next(n for n in model.graph.node if n.op_type == "Clip")
    expected = np.concatenate([np.maximum(x, level[0]), np.minimum(x, level[1])], axis=1)
    assert np.array_equal(run(model, x), expected)
    slim = onnxslim.slim(onnx.ModelProto.FromString(model.SerializeToString()))
    onnx.checker.check_model(slim, full_check=True)
    y = run(slim, x)
    clips = sum(n.op_type == "Clip" for n in slim.graph.node)
    told = "right" if np.array_equal(y, expected) else f"upwards {y[0, :6].tolist()}, downwards {y[0, 6:].tolist()}"
    print(f"{what}: {len(first.input)} inputs, Clips left {clips}, {told}")
PYTHON
echo "onnxslim $(venv/bin/python -c 'from importlib.metadata import version; print(version("onnxslim"))')"
venv/bin/python -W ignore try.py | tee seen
cat >expected <<'EXPECTED'
left out: 2 inputs, Clips left 2, right
empty name: 3 inputs, Clips left 1, upwards [0.0, 0.0, 0.0, 0.5, 1.0, 3.0], downwards [0.0, 0.0, 0.0, 0.5, 1.0, 3.0]
empty name, level 0.25: 3 inputs, Clips left 1, upwards [0.25, 0.25, 0.25, 0.5, 1.0, 3.0], downwards [0.25, 0.25, 0.25, 0.5, 1.0, 3.0]
empty name, two levels: 3 inputs, Clips left 2, right
by onnxscript: 3 inputs, Clips left 1, upwards [0.0, 0.0, 0.0, 0.5, 1.0, 3.0], downwards [0.0, 0.0, 0.0, 0.5, 1.0, 3.0]
EXPECTED
if ! diff expected seen; then
	echo "onnxslim behaves otherwise by now" >&2
	exit 1
fi
