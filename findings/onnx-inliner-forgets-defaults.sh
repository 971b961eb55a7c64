#!/usr/bin/env bash
# One would guess: onnx.inliner puts a function's nodes in place of a call so that the graph computes the same. Attributes of a
# function may have defaults (attribute_proto of FunctionProto, from IR version 9 on), which hold where the call gives none.
# What happens: it takes the values that the call gives, and forgets the defaults. A node inside that takes such an attribute goes
# without, so the operator's own default holds: a slope of 0.25 becomes LeakyRelu's 0.01, an axis 1 becomes Softmax's last one.
# With inline_schema_functions the same befalls onnx's own operators: MeanVarianceNormalization of opset 13 to 17, whose axes are
# 0, 2 and 3 if nothing is said (ONNX's operators), then takes the mean over the channels as well. Without a word; the checker with
# all its checks is content with what comes out. What a call gives is right, and so are ONNX Runtime and onnx_ir's inliner. The
# printed text of a model doesn't show the defaults either. onnx 1.23.2, onnxscript 0.7.2, onnx-ir 1.1.0, onnxruntime 1.32.0.
# Who is hurt: who inlines before an engine that knows no functions (functions of onnxscript with Python's default arguments are
# such): names and shapes stay, and activations or the classes' probabilities of a frame are others.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnx==1.23.2 onnxscript==0.7.2 onnx-ir==1.1.0 onnxruntime==1.32.0 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
import onnxruntime as ort
from onnx import TensorProto, helper
from onnx_ir.passes.common import InlinePass
from onnxscript import FLOAT, script, values
from onnxscript import opset18 as op

own = values.Opset("own", 1)


# Scores of 5 classes over 4 frames: a slope below zero, and probabilities over the classes, which are axis 1.
@script(own, default_opset=op)
def scores(x, slope: float = 0.25, axis: int = 1):
    return op.Softmax(op.LeakyRelu(x, alpha=slope), axis=axis)


@script(own, default_opset=op)
def twice(x):
    return scores(scores(x) - 0.5)


@script(default_opset=op)
def nothing(x: FLOAT[2, 5, 4]) -> FLOAT[2, 5, 4]:
    return scores(x)


@script(default_opset=op)
def slope(x: FLOAT[2, 5, 4]) -> FLOAT[2, 5, 4]:
    return scores(x, slope=0.25)


@script(default_opset=op)
def both(x: FLOAT[2, 5, 4]) -> FLOAT[2, 5, 4]:
    return scores(x, slope=0.25, axis=1)


@script(default_opset=op)
def nested(x: FLOAT[2, 5, 4]) -> FLOAT[2, 5, 4]:
    return twice(x)


def by_hand(x):
    x = np.where(x < 0, x * np.float32(0.25), x)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def normalization(**axes):
    shape = [2, 5, 4, 3]
    graph = helper.make_graph(
        [helper.make_node("MeanVarianceNormalization", ["x"], ["y"], **axes)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)


def normalized(x):
    return (x - x.mean(axis=(0, 2, 3), keepdims=True)) / x.std(axis=(0, 2, 3), keepdims=True)


def run(model, x):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def told(y, expected):
    return "right" if np.allclose(y, expected, atol=1e-4) else f"off by up to {np.abs(y - expected).max():.2f}"


def show(name, model, inlined, x, expected, others):
    onnx.checker.check_model(model, full_check=others)  # the inference of shapes asks for the axes as well
    onnx.checker.check_model(inlined, full_check=True)
    kept = sorted({f"{a.name} {helper.get_attribute_value(a):.2f}" for n in inlined.graph.node for a in n.attribute if a.name in ("alpha", "axis")})
    kept = f", left of the attributes: {', '.join(kept) or 'none'}" if others else ""
    line = f"{name}: ONNX Runtime {told(run(model, x), expected)}"
    if others:
        line += f", onnx_ir {told(run(ir.to_proto(InlinePass()(ir.from_proto(model)).model), x), expected)}"
    print(f"{line}; onnx.inliner {told(run(inlined, x), expected)}{kept}")


draw = np.random.default_rng(1)
x = draw.normal(scale=4, size=(2, 5, 4)).astype(np.float32)
for name, function, expected in (
    ("a call that gives both", both, by_hand(x)),
    ("a call that gives the slope", slope, by_hand(x)),
    ("a call that gives nothing", nothing, by_hand(x)),
    ("calls in another function", nested, by_hand(by_hand(x) - np.float32(0.5))),
):
    model = function.to_model_proto()
    assert {a.name for f in model.functions for a in f.attribute_proto} == {"slope", "axis"}
    assert function is not nothing or "0.25" not in onnx.printer.to_text(model)
    show(name, model, onnx.inliner.inline_local_functions(model), x, expected, True)
x = (draw.normal(size=(2, 5, 4, 3)) + np.arange(5).reshape(1, 5, 1, 1)).astype(np.float32)
for name, model in (
    ("MeanVarianceNormalization with axes 0, 2, 3", normalization(axes=[0, 2, 3])),
    ("MeanVarianceNormalization without axes", normalization()),
):
    inlined = onnx.inliner.inline_selected_functions(model, [("", "MeanVarianceNormalization")], inline_schema_functions=True)
    assert "MeanVarianceNormalization" not in {n.op_type for n in inlined.graph.node}
    show(name, model, inlined, x, normalized(x), False)
PYTHON
echo "onnx $(venv/bin/python -c 'from importlib.metadata import version; print(version("onnx"))')"
venv/bin/python -W ignore try.py | tee seen
cat >expected <<'EXPECTED'
a call that gives both: ONNX Runtime right, onnx_ir right; onnx.inliner right, left of the attributes: alpha 0.25, axis 1.00
a call that gives the slope: ONNX Runtime right, onnx_ir right; onnx.inliner off by up to 0.72, left of the attributes: alpha 0.25
a call that gives nothing: ONNX Runtime right, onnx_ir right; onnx.inliner off by up to 0.72, left of the attributes: none
calls in another function: ONNX Runtime right, onnx_ir right; onnx.inliner off by up to 0.13, left of the attributes: none
MeanVarianceNormalization with axes 0, 2, 3: ONNX Runtime right; onnx.inliner right
MeanVarianceNormalization without axes: ONNX Runtime right; onnx.inliner off by up to 2.37
EXPECTED
if ! diff expected seen; then
	echo "onnx.inliner behaves otherwise by now" >&2
	exit 1
fi
