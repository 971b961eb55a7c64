#!/usr/bin/env bash
# One would guess: quantize_static of ONNX Runtime gives a network that computes the same within the steps of its 8 bits, or leaves
# out or refuses what it can't express, as it warns of a Gemm whose bias is no constant.
# What happens: a Gemm is alpha times a product plus beta times its third input (ONNX's operators, Gemm). Where beta is not 1 the
# quantizer divides the bias by beta where it should multiply, and takes beta away. As QOperator the layer adds bias/beta. As QDQ,
# the recommended form, the file says bias, with any runtime that takes it as it is (ONNX Runtime without optimisation, onnx's own
# evaluator), and becomes bias/beta when ONNX Runtime optimises it, which it does by default: beta 0.5 adds four times too much.
# Per tensor and per channel, signed and unsigned, without a warning; beta 0 and 1 are right, and so is quantize_dynamic.
# onnxruntime 1.32.0, onnx 1.23.2.
# Who is hurt: who weights a bias at export (torch.addmm with beta, a prior of the classes) and quantizes for a small machine:
# scores are shifted as a whole, which looks like the loss that one expects of 8 bits.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2
cat >try.py <<'PYTHON'
import logging

import numpy as np
import onnx
import onnx.reference
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

logging.disable(logging.INFO)
ort.set_default_logger_severity(3)
weights = np.array([[1, -1, 0.5], [0.5, 1, -1]], dtype=np.float32)
bias = np.array([1, -2, 4], dtype=np.float32)
zeros = np.zeros((1, 2), dtype=np.float32)
calibration = [np.array([row], dtype=np.float32) for row in ([-4, -4], [-4, 4], [0, 0], [4, -4], [4, 4])]


class Reader(CalibrationDataReader):
    def __init__(self):
        self.rest = iter(calibration)

    def get_next(self):
        return next(({"x": x} for x in self.rest), None)


def write(beta):
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="scores", beta=beta)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, "float.onnx")


def run(path, optimised=True):
    options = ort.SessionOptions()
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {"x": zeros})[0]


def shown(y):
    """What is added to each score where the input is nothing, to tenths, which is less than a step."""
    return " ".join(f"{v:.1f}" for v in np.round(y[0], 1) + 0.0)


for beta in (1.0, 0.5, 2.0, 0.0):
    write(beta)
    print(f"beta {beta}, bias {shown(bias[None])}: by hand {shown(beta * bias[None])}; float {shown(run('float.onnx'))}")
    for kind in (QuantFormat.QDQ, QuantFormat.QOperator):
        told = set()
        for signs in (QuantType.QInt8, QuantType.QUInt8):
            for per_channel in (False, True):
                settings = {"quant_format": kind, "per_channel": per_channel, "weight_type": signs, "activation_type": signs}
                # A range of 12.75 to each side makes a step 0.1, so what is added is on a step.
                limits = {"TensorQuantOverrides": {"y": [{"rmin": np.float32(-12.8), "rmax": np.float32(12.7)}]}}
                quantize_static("float.onnx", "8bits.onnx", Reader(), extra_options=limits, **settings)
                line = f"optimised {shown(run('8bits.onnx'))}, not optimised {shown(run('8bits.onnx', False))}"
                if kind == QuantFormat.QDQ:
                    evaluated = onnx.reference.ReferenceEvaluator("8bits.onnx").run(None, {"x": zeros})[0]
                    line += f", onnx.reference {shown(evaluated)}"
                told.add(line)
        print(f"  {kind}: {'; '.join(sorted(told))}")
    quantize_dynamic("float.onnx", "8bits.onnx")
    print(f"  dynamic: {shown(run('8bits.onnx'))}")
PYTHON
echo "onnxruntime $(venv/bin/python -c 'import onnxruntime; print(onnxruntime.__version__)'), onnx $(venv/bin/python -c 'import onnx; print(onnx.__version__)')"
venv/bin/python try.py 2>/dev/null | tee seen
cat >expected <<'EXPECTED'
beta 1.0, bias 1.0 -2.0 4.0: by hand 1.0 -2.0 4.0; float 1.0 -2.0 4.0
  QDQ: optimised 1.0 -2.0 4.0, not optimised 1.0 -2.0 4.0, onnx.reference 1.0 -2.0 4.0
  QOperator: optimised 1.0 -2.0 4.0, not optimised 1.0 -2.0 4.0
  dynamic: 1.0 -2.0 4.0
beta 0.5, bias 1.0 -2.0 4.0: by hand 0.5 -1.0 2.0; float 0.5 -1.0 2.0
  QDQ: optimised 2.0 -4.0 8.0, not optimised 1.0 -2.0 4.0, onnx.reference 1.0 -2.0 4.0
  QOperator: optimised 2.0 -4.0 8.0, not optimised 2.0 -4.0 8.0
  dynamic: 0.5 -1.0 2.0
beta 2.0, bias 1.0 -2.0 4.0: by hand 2.0 -4.0 8.0; float 2.0 -4.0 8.0
  QDQ: optimised 0.5 -1.0 2.0, not optimised 1.0 -2.0 4.0, onnx.reference 1.0 -2.0 4.0
  QOperator: optimised 0.5 -1.0 2.0, not optimised 0.5 -1.0 2.0
  dynamic: 2.0 -4.0 8.0
beta 0.0, bias 1.0 -2.0 4.0: by hand 0.0 0.0 0.0; float 0.0 0.0 0.0
  QDQ: optimised 0.0 0.0 0.0, not optimised 0.0 0.0 0.0, onnx.reference 0.0 0.0 0.0
  QOperator: optimised 0.0 0.0 0.0, not optimised 0.0 0.0 0.0
  dynamic: 0.0 0.0 0.0
EXPECTED
if ! diff expected seen; then
	echo "onnxruntime behaves otherwise by now" >&2
	exit 1
fi
