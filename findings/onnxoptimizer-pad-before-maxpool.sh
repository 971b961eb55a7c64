#!/usr/bin/env bash
# One would guess: onnxoptimizer takes a Pad into the pooling behind it only where the pooling pads with the same: with zeros
# into an average that counts what is padded (which it does with care), not into a maximum.
# What happens: a Pad with zeros before a MaxPool becomes the MaxPool's own padding, which is no zero but nothing, less than
# any number. Where all scores at an end are negative (logarithms of probabilities, standardised current below its mean) the
# maximum there was 0 and is negative afterwards; in the middle nothing changes. By default, without a word.
# onnxoptimizer 0.4.2, outputs by ONNX Runtime 1.32.0 without optimisation of its own.
# Who is hurt: networks over windows of signal or of reads that pad by hand and pool by maximum: the ends of windows differ,
# which comparisons on random input that is centred on zero show at some places only.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxoptimizer==0.4.2 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnxoptimizer
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

x = -np.arange(1, 7, dtype=np.float32).reshape(1, 1, 6)


def run(m):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return " ".join(f"{v:.4g}" for v in session.run(None, {"x": x})[0].ravel())


for pool, attributes in [("MaxPool", {}), ("AveragePool", {"count_include_pad": 1}), ("AveragePool", {"count_include_pad": 0})]:
    graph = helper.make_graph(
        [
            helper.make_node("Pad", ["x", "pads", "zero"], ["padded"]),
            helper.make_node(pool, ["padded"], ["y"], kernel_shape=[2], **attributes),
        ],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 7])],
        [numpy_helper.from_array(np.array([0, 0, 1, 0, 0, 1]), "pads"), numpy_helper.from_array(np.float32(0), "zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    optimised = onnxoptimizer.optimize(model)
    print(f"{pool} {attributes}: {run(model)}")
    print(f"  as {'+'.join(n.op_type for n in optimised.graph.node)}: {run(optimised)}")
PYTHON
echo "onnxoptimizer $(venv/bin/python -c 'from importlib.metadata import version; print(version("onnxoptimizer"))')"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
MaxPool {}: 0 -1 -2 -3 -4 -5 0
  as MaxPool: -1 -1 -2 -3 -4 -5 -6
AveragePool {'count_include_pad': 1}: -0.5 -1.5 -2.5 -3.5 -4.5 -5.5 -3
  as AveragePool: -0.5 -1.5 -2.5 -3.5 -4.5 -5.5 -3
AveragePool {'count_include_pad': 0}: -0.5 -1.5 -2.5 -3.5 -4.5 -5.5 -3
  as AveragePool: -0.5 -1.5 -2.5 -3.5 -4.5 -5.5 -3
EXPECTED
if ! diff expected seen; then
	echo "onnxoptimizer behaves otherwise by now" >&2
	exit 1
fi
