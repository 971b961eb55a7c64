#!/usr/bin/env bash
# One would guess: of two Reshapes in a row onnxoptimizer keeps the second only where that gives the same shape; a 0 in a
# shape copies a dimension of the input (ONNX, Reshape), so it depends on the first.
# What happens: the first Reshape goes whatever the second says. ONNX's own definition of GroupNormalization has such a pair:
# it parts the channels into groups, then joins what is within a group by the shape 0, 0, -1. Without the first, each channel
# is a group by itself. All shapes are right in the end, every check passes, and the values are others. By default, without a
# word; eliminate_consecutive_idempotent_ops alone does it. GroupNormalization left whole, the inlined graph before, and numpy
# agree. onnxoptimizer 0.4.2, onnx 1.23.2, outputs by ONNX Runtime 1.32.0 without optimisation of its own.
# Who is hurt: networks over signal in which channels are normalised by groups, and any that part heads or channels and join
# others: after the inlining of functions that older engines don't know, and the clean-up behind it, levels between the
# channels of a group are gone.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxoptimizer==0.4.2 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnx
import onnx.inliner
import onnxoptimizer
import onnxruntime as ort
from onnx import TensorProto, helper

reads, channels, frames, groups = 2, 4, 6, 2
# The channels of a group differ by their levels.
x = np.arange(channels, dtype=np.float32)[None, :, None] + np.random.default_rng(1).standard_normal((reads, channels, frames)).astype(np.float32) / 4
feeds = {"x": x, "scale": np.ones(channels, np.float32), "bias": np.zeros(channels, np.float32)}


def run(m):
    onnx.checker.check_model(m, full_check=True)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def show(name, m, want):
    y = run(m)
    reshapes = sum(n.op_type == "Reshape" for n in m.graph.node)
    levels = " ".join(f"{v + 0:.2f}" for v in y[0].mean(1).round(2))
    print(f"{name}: {reshapes} Reshapes, {y.shape}, mean of each channel {levels}, {'as' if np.allclose(y, want, atol=1e-4) else 'not as'} by numpy")


graph = helper.make_graph(
    [helper.make_node("GroupNormalization", ["x", "scale", "bias"], ["y"], num_groups=groups)],
    "one",
    [helper.make_tensor_value_info(name, TensorProto.FLOAT, a.shape) for name, a in feeds.items()],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
)
whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
inlined = onnx.inliner.inline_selected_functions(whole, [("", "GroupNormalization")], inline_schema_functions=True)
grouped = x.reshape(reads, groups, -1)
want = ((grouped - grouped.mean(2, keepdims=True)) / np.sqrt(grouped.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
show("whole", whole, want)
show("inlined", inlined, want)
show("optimised", onnxoptimizer.optimize(inlined), want)
others = [p for p in onnxoptimizer.get_fuse_and_elimination_passes() if p != "eliminate_consecutive_idempotent_ops"]
show("by all passes but one", onnxoptimizer.optimize(inlined, others), want)
show("by that one", onnxoptimizer.optimize(inlined, ["eliminate_consecutive_idempotent_ops"]), want)
PYTHON
echo "onnxoptimizer $(venv/bin/python -c 'from importlib.metadata import version; print(version("onnxoptimizer"))')"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
whole: 0 Reshapes, (2, 4, 6), mean of each channel -0.96 0.96 -0.96 0.96, as by numpy
inlined: 7 Reshapes, (2, 4, 6), mean of each channel -0.96 0.96 -0.96 0.96, as by numpy
optimised: 5 Reshapes, (2, 4, 6), mean of each channel 0.00 0.00 0.00 0.00, not as by numpy
by all passes but one: 7 Reshapes, (2, 4, 6), mean of each channel -0.96 0.96 -0.96 0.96, as by numpy
by that one: 7 Reshapes, (2, 4, 6), mean of each channel 0.00 0.00 0.00 0.00, not as by numpy
EXPECTED
if ! diff expected seen; then
	echo "onnxoptimizer behaves otherwise by now" >&2
	exit 1
fi
