#!/usr/bin/env bash
# One would guess: the evaluator that ships with the ONNX format does what the format says, slowly, so that a converted
# network can be held to it: recurrent layers heed the lengths of their sequences and their activations, or are refused.
# What happens: onnx.reference takes LSTM, GRU and RNN with sequence_lens and clip, LSTM and GRU with other activations, and
# LSTM with input_forget, and computes them as if these were not there: it goes through the padding behind a short read, and
# returns the state after the padding as the last one. ONNX Runtime heeds all of them. onnx 1.23.2, onnxruntime 1.32.0.
# Who is hurt: who converts basecallers or callers with recurrent layers over reads of unequal lengths and has the reference
# decide: right conversions look wrong, and a converter that drops these attributes passes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

frames, reads, inputs, hidden = 6, 2, 3, 4
draw = np.random.default_rng(1)
feed = {
    "x": draw.standard_normal((frames, reads, inputs)).astype(np.float32),
    "lengths": np.array([2, frames], np.int32),
}
gates = {"LSTM": 4, "GRU": 3, "RNN": 1}


def run(kind, weights, lengths=False, **attributes):
    """The states after each frame and the last ones: by the reference, and by ONNX Runtime."""
    feeds = {"x": feed["x"], **weights, **({"lengths": feed["lengths"]} if lengths else {})}
    names = ["x", "w", "r", "", "lengths"] if lengths else ["x", "w", "r"]
    node = helper.make_node(kind, names, ["states", "last"], hidden_size=hidden, **attributes)
    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(name, types[a.dtype], a.shape) for name, a in feeds.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("states", "last")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return ReferenceEvaluator(model).run(None, feeds), session.run(None, feeds)


def same(a, b):
    return all(np.allclose(x, y, atol=1e-5) for x, y in zip(a, b))


def word(yes):
    return "equal" if yes else "differ"


for kind, n in gates.items():
    weights = {
        "w": draw.standard_normal((1, n * hidden, inputs)).astype(np.float32),
        "r": draw.standard_normal((1, n * hidden, hidden)).astype(np.float32),
    }
    plain, plain_runtime = run(kind, weights)
    print(f"{kind}: reference and runtime {word(same(plain, plain_runtime))}")
    by_reference, by_runtime = run(kind, weights, lengths=True)
    # What a read of two frames gives if nothing follows it is what its length asks for.
    alone = plain[0][:2, :, 0]
    print(
        f"{kind} with lengths: reference as without {word(same(by_reference, plain))},",
        f"runtime's short read as if it were alone {word(same([by_runtime[0][:2, :, 0], by_runtime[1][:, 0]], [alone, alone[1]]))},",
        f"reference's last state {word(same([by_reference[1][:, 0]], [alone[1]]))}",
    )
    options = {"clip": {"clip": 0.1}}
    if kind == "GRU":
        options["activations"] = {"activations": ["Sigmoid", "Relu"]}
    if kind == "LSTM":
        options |= {"activations": {"activations": ["Sigmoid", "Relu", "Relu"]}, "input_forget": {"input_forget": 1}}
    for name, attributes in options.items():
        by_reference, by_runtime = run(kind, weights, **attributes)
        print(f"{kind} with {name}: reference as without {word(same(by_reference, plain))}, runtime as without {word(same(by_runtime, plain))}")
PYTHON
echo "onnx $(venv/bin/python -c 'import onnx; print(onnx.__version__)')"
venv/bin/python -W ignore try.py | tee seen
cat >expected <<'EXPECTED'
LSTM: reference and runtime equal
LSTM with lengths: reference as without equal, runtime's short read as if it were alone equal, reference's last state differ
LSTM with clip: reference as without equal, runtime as without differ
LSTM with activations: reference as without equal, runtime as without differ
LSTM with input_forget: reference as without equal, runtime as without differ
GRU: reference and runtime equal
GRU with lengths: reference as without equal, runtime's short read as if it were alone equal, reference's last state differ
GRU with clip: reference as without equal, runtime as without differ
GRU with activations: reference as without equal, runtime as without differ
RNN: reference and runtime equal
RNN with lengths: reference as without equal, runtime's short read as if it were alone equal, reference's last state differ
RNN with clip: reference as without equal, runtime as without differ
EXPECTED
if ! diff expected seen; then
	echo "onnx.reference behaves otherwise by now" >&2
	exit 1
fi
