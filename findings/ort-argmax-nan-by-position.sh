#!/usr/bin/env bash
# One would guess: a score that is not a number shows in the class that a graph picks of a frame: ArgMax names its place,
# as numpy does, or leaves it out, but does the same wherever it stands.
# What happens: on the CPU ONNX Runtime's ArgMax names the NaN only where it is the first class of its frame; anywhere else
# the frame has an ordinary best class. TopK with k = 1 names the NaN always, so the two pick different classes of one
# frame. And QuantizeLinear makes of NaN the least number of its type, as of minus infinity, not its zero.
# onnxruntime 1.32.0.
# Who is hurt: basecallers and callers whose graph ends in ArgMax (greedy decoding) or in whole numbers: a network that
# went wrong gives bases that look like any others, and whether a check of the output sees it depends on the class's place.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxruntime==1.32.0 onnx==1.22.0 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper


def run(x, nodes, constants=(), kind=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(value, name) for name, value in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["y"], {"x": x})[0].ravel()


# Five classes, as blank, A, C, G and T; the scores grow with the class.
for place in range(5):
    x = np.arange(5, dtype=np.float32)[None]
    x[0, place] = np.nan
    print(
        f"NaN at {place}: numpy {x.argmax()},",
        f"ArgMax {run(x, [helper.make_node('ArgMax', ['x'], ['y'], axis=1)], kind=TensorProto.INT64)[0]},",
        f"TopK {run(x, [helper.make_node('TopK', ['x', 'k'], ['v', 'y'], axis=1)], [('k', np.array([1], np.int64))], TensorProto.INT64)[0]}",
    )
constants = [("scale", np.float32(0.5)), ("zero", np.int8(0))]
quantize = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])]
x = np.array([[np.nan, -np.inf, 0, np.inf]], np.float32)
print("QuantizeLinear of NaN, -inf, 0, inf:", *run(x, quantize, constants, TensorProto.INT8))
PYTHON
echo "onnxruntime $(venv/bin/python -c 'import onnxruntime; print(onnxruntime.__version__)')"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
NaN at 0: numpy 0, ArgMax 0, TopK 0
NaN at 1: numpy 1, ArgMax 4, TopK 1
NaN at 2: numpy 2, ArgMax 4, TopK 2
NaN at 3: numpy 3, ArgMax 4, TopK 3
NaN at 4: numpy 4, ArgMax 3, TopK 4
QuantizeLinear of NaN, -inf, 0, inf: -128 -128 0 127
EXPECTED
if ! diff expected seen; then
	echo "onnxruntime behaves otherwise by now" >&2
	exit 1
fi
