#!/usr/bin/env bash
# One would guess: onnx.version_converter takes a graph to an older opset so that it computes the same, or says that it can't.
# What happens: Softmax before opset 13 goes over all axes from its axis on, and from 13 on over that axis alone. Down to 12
# the converter leaves a Softmax or LogSoftmax whose axis is not the last one as it is, under the older meaning: classes and
# frames of a window now sum to 1 together. A Softmax of opset 12 is taken up to 13 with care, through a Flatten; the way
# down from the same meaning is without. The checker is content. onnx 1.23.2; outputs by ONNX Runtime 1.32.0, without
# optimisation, and by the format's definition in numpy.
# Who is hurt: networks over signal, whose scores lie as reads, classes, frames, and which go to an engine of an older
# opset: the best class of a frame may stay, while probabilities, qualities and beam searches are off by the length of the
# window. Where the classes come last nothing differs, so a test of such a network shows nothing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, version_converter

reads, classes, frames = 2, 5, 100
scores = np.random.default_rng(1).standard_normal((reads, classes, frames)).astype(np.float32)


def model(kind, axis, opset):
    graph = helper.make_graph(
        [helper.make_node(kind, ["x"], ["y"], axis=axis)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, scores.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, scores.shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)


def run(m):
    onnx.checker.check_model(m, full_check=True)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"x": scores})[0]


def defined(kind, axes):
    """What the format says of an opset in which the operator goes over these axes."""
    e = np.exp(scores - scores.max(axes, keepdims=True))
    p = e / e.sum(axes, keepdims=True)
    return np.log(p) if kind == "LogSoftmax" else p


for kind in ("Softmax", "LogSoftmax"):
    for axis in (1, 2):
        for before, after in ((13, 12), (12, 13)):
            m = model(kind, axis, before)
            converted = version_converter.convert_version(m, after)
            was, now = run(m), run(converted)
            new, old = defined(kind, (axis,)), defined(kind, tuple(range(axis, 3)))
            assert np.allclose(was, new if before == 13 else old, atol=1e-5)
            # The probabilities of a frame's classes sum to this.
            sums = (np.exp(now) if kind == "LogSoftmax" else now).sum(1)
            print(
                f"{kind} over axis {axis}, opset {before} to {after}: {'+'.join(n.op_type for n in converted.graph.node)},",
                "the same" if np.allclose(was, now, atol=1e-5) else "differs",
                f"(a frame's classes sum to {sums.mean():.2f})" if axis == 1 else "",
            )
PYTHON
echo "onnx $(venv/bin/python -c 'import onnx; print(onnx.__version__)')"
venv/bin/python try.py | sed 's/ *$//' | tee seen
cat >expected <<'EXPECTED'
Softmax over axis 1, opset 13 to 12: Softmax, differs (a frame's classes sum to 0.01)
Softmax over axis 1, opset 12 to 13: Shape+Flatten+Softmax+Reshape, the same (a frame's classes sum to 0.01)
Softmax over axis 2, opset 13 to 12: Softmax, the same
Softmax over axis 2, opset 12 to 13: Softmax, the same
LogSoftmax over axis 1, opset 13 to 12: LogSoftmax, differs (a frame's classes sum to 0.01)
LogSoftmax over axis 1, opset 12 to 13: Shape+Flatten+LogSoftmax+Reshape, the same (a frame's classes sum to 0.01)
LogSoftmax over axis 2, opset 13 to 12: LogSoftmax, the same
LogSoftmax over axis 2, opset 12 to 13: LogSoftmax, the same
EXPECTED
if ! diff expected seen; then
	echo "onnx.version_converter behaves otherwise by now" >&2
	exit 1
fi
