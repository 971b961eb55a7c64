#!/usr/bin/env bash
# One would guess: the basic level of graph optimisation keeps what a graph computes; where a value is brought to whole
# numbers twice, by two scales, the coarser of the two decides which values come out.
# What happens: ONNX Runtime takes two pairs of QuantizeLinear and DequantizeLinear that follow each other for one, whatever
# their scales. The coarse steps are gone: a value that was rounded to 0 or 1, then to tenths, comes out in tenths. Where only
# the zero points differ, it takes a third scale: numbers that both pairs keep (0.5 in steps of 0.1) come out as 0.4902.
# With optimisation off, and by onnx.reference, all is as the graph says. onnxruntime 1.32.0.
# Who is hurt: who models a device with coarse steps (a converter's levels, scores in 8 bits that are stored in others) or
# checks a quantised network against its definition: results differ by more than rounding, at the level that most
# programs never lower.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

x = np.linspace(-1, 1, 9, dtype=np.float32)


def model(pairs):
    constants, nodes, at = [], [], "x"
    for i, (scale, zero) in enumerate(pairs):
        constants += [numpy_helper.from_array(np.float32(scale), f"scale{i}"), numpy_helper.from_array(np.int8(zero), f"zero{i}")]
        nodes += [
            helper.make_node("QuantizeLinear", [at, f"scale{i}", f"zero{i}"], [f"whole{i}"]),
            helper.make_node("DequantizeLinear", [f"whole{i}", f"scale{i}", f"zero{i}"], [f"value{i}"]),
        ]
        at = f"value{i}"
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(at, TensorProto.FLOAT, x.shape)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def values(y):
    return " ".join(f"{v + 0:.4g}" for v in y)


def run(m, level):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    session = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


print("x:", values(x))
for pairs in [((1, 0), (0.1, 0)), ((0.02, 0), (0.5, 0)), ((0.1, 0), (0.1, 5))]:
    m = model(pairs)
    off = run(m, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    assert np.allclose(off, ReferenceEvaluator(m).run(None, {"x": x})[0])
    print(f"steps of {pairs[0][0]} (zero {pairs[0][1]}), then of {pairs[1][0]} (zero {pairs[1][1]})")
    print("  off:  ", values(off))
    print("  basic:", values(run(m, ort.GraphOptimizationLevel.ORT_ENABLE_BASIC)))
PYTHON
echo "onnxruntime $(venv/bin/python -c 'import onnxruntime; print(onnxruntime.__version__)')"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
x: -1 -0.75 -0.5 -0.25 0 0.25 0.5 0.75 1
steps of 1 (zero 0), then of 0.1 (zero 0)
  off:   -1 -1 0 0 0 0 0 1 1
  basic: -1 -0.8 -0.5 -0.2 0 0.2 0.5 0.8 1
steps of 0.02 (zero 0), then of 0.5 (zero 0)
  off:   -1 -1 -0.5 0 0 0 0.5 1 1
  basic: -1 -0.76 -0.5 -0.24 0 0.24 0.5 0.76 1
steps of 0.1 (zero 0), then of 0.1 (zero 5)
  off:   -1 -0.8 -0.5 -0.2 0 0.2 0.5 0.8 1
  basic: -0.9804 -0.7843 -0.4902 -0.2941 0 0.2941 0.4902 0.7843 0.9804
EXPECTED
if ! diff expected seen; then
	echo "onnxruntime behaves otherwise by now" >&2
	exit 1
fi
