#!/usr/bin/env bash
# One would guess: gonnx, which runs ONNX networks in Go, computes a 2D convolution over the whole input, as it does a 1D one, or
# returns an error, as it does for groups.
# What happens: along the width it ends its walk where the height ends. In an input that is wider than high (with its padding) no
# window that begins right of column H is ever looked at; the output has its full width, and there it is the bias and nothing else, or
# 0 without one. With a step along the width it ends there too. Inputs that are square or higher than wide are right, and so are those
# that are wider by less than a window. Run returns no error. github.com/advancedclimatesystems/gonnx 1.1.0, onnxruntime 1.32.0,
# onnx 1.23.2.
# Who is hurt: who calls variants by images of piled-up reads, or modifications by images of signal, from a service in Go: such images
# are wide, as DeepVariant's are (100 reads high, 221 bases wide). The right half of the window says nothing, so whatever lies there
# doesn't count, and scores still sum to 1. Tests with square images show nothing.
set -euo pipefail
command -v go >/dev/null || { echo "$0: go is missing (https://go.dev/dl)" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import subprocess

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

draw = np.random.default_rng(1)


def compare(height, width, bias, **attributes):
    """Runs one convolution of windows of 3 by 3 by gonnx and by ONNX Runtime."""
    image = draw.uniform(1, 2, (1, 1, height, width)).astype(np.float32)
    weights = {"w": draw.uniform(1, 2, (1, 1, 3, 3)).astype(np.float32)}
    if bias:
        weights["b"] = np.array([bias], np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", *weights], ["y"], **attributes)],
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, image.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, "network.onnx")
    image.tofile("image")
    meant = ort.InferenceSession("network.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": image})[0][0, 0]
    subprocess.run(["./run", str(height), str(width)], check=True)
    got = np.fromfile("answer", np.float32).reshape(meant.shape)

    # All numbers of image and weights are positive, so no window gives 0.
    right = np.isclose(got, meant, rtol=1e-4).all(0)
    bare = (got == np.float32(bias)).all(0)
    told = f"{height} high, {width} wide, bias {bias}, {attributes or 'plain'}: {meant.shape[1]} columns, {right.sum()} right"
    print(told + (f", the last {bare.sum()} are the bias alone" if bare.any() else ""))
    assert (right ^ bare).all() and (np.diff(bare.astype(int)) >= 0).all()


for height, width in ((30, 30), (40, 20), (30, 32), (30, 33), (20, 40), (100, 221)):
    compare(height, width, 0)
compare(20, 40, -2)
compare(20, 40, 0, pads=[1, 1, 1, 1])
compare(20, 40, 0, strides=[2, 2])
compare(20, 40, 0, strides=[1, 3])
PYTHON
cat >run.go <<'GO'
package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"

	"github.com/advancedclimatesystems/gonnx"
	"gorgonia.org/tensor"
)

func try(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	height, err := strconv.Atoi(os.Args[1])
	try(err)
	width, err := strconv.Atoi(os.Args[2])
	try(err)
	raw, err := os.ReadFile("image")
	try(err)
	image := make([]float32, height*width)
	try(binary.Read(bytes.NewReader(raw), binary.LittleEndian, image))
	model, err := gonnx.NewModelFromFile("network.onnx")
	try(err)
	answer, err := model.Run(gonnx.Tensors{"x": tensor.New(tensor.WithShape(1, 1, height, width), tensor.WithBacking(image))})
	try(err)
	var out bytes.Buffer
	try(binary.Write(&out, binary.LittleEndian, answer["y"].Data()))
	try(os.WriteFile("answer", out.Bytes(), 0o600))
}
GO
cat >go.mod <<'MOD'
module finding

go 1.21

require (
	github.com/advancedclimatesystems/gonnx v1.1.0
	gorgonia.org/tensor v0.9.24
)
MOD
go build -mod=mod -o run . 2>build || { cat build >&2; exit 1; }
echo "gonnx $(go list -m -f '{{.Version}}' github.com/advancedclimatesystems/gonnx)"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
30 high, 30 wide, bias 0, plain: 28 columns, 28 right
40 high, 20 wide, bias 0, plain: 18 columns, 18 right
30 high, 32 wide, bias 0, plain: 30 columns, 30 right
30 high, 33 wide, bias 0, plain: 31 columns, 30 right, the last 1 are the bias alone
20 high, 40 wide, bias 0, plain: 38 columns, 20 right, the last 18 are the bias alone
100 high, 221 wide, bias 0, plain: 219 columns, 100 right, the last 119 are the bias alone
20 high, 40 wide, bias -2, plain: 38 columns, 20 right, the last 18 are the bias alone
20 high, 40 wide, bias 0, {'pads': [1, 1, 1, 1]}: 40 columns, 22 right, the last 18 are the bias alone
20 high, 40 wide, bias 0, {'strides': [2, 2]}: 19 columns, 10 right, the last 9 are the bias alone
20 high, 40 wide, bias 0, {'strides': [1, 3]}: 13 columns, 7 right, the last 6 are the bias alone
EXPECTED
if ! diff expected seen; then
	echo "gonnx behaves otherwise by now" >&2
	exit 1
fi
