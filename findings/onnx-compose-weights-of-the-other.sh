#!/usr/bin/env bash
# One would guess: onnx.compose.merge_models with prefix1 or prefix2 gives every name of one network a prefix, so that two networks
# whose names are the same can follow each other, each with its own weights (its documentation: names of nodes, edges, inputs,
# outputs, initializers and functions, for graphs that have overlapping names).
# What happens: it renames what is inside the bodies of Scan, Loop and If before it has noted the names of the weights outside, and never
# renames a call of a function there. A body that uses a weight of its network keeps the old name. If one of the two networks has the
# prefix, as is enough for all else, that name is the other network's: two stages of the same make both run with the weights of the one
# without prefix, and the other's are there under their new names, used by nobody. If both have one, the merge ends with an error, or ONNX
# Runtime misses the function. The checker with all its checks is content. Weights in the nodes of the graph itself are right, and so is a
# body that has its own or takes them as inputs. onnx 1.23.2, onnxruntime 1.32.0.
# Who is hurt: who puts two networks of one architecture into one file: a polisher behind a caller, two steps of a classifier, a network for
# each strand. Recurrent cells and conditional parts are exported as such bodies. Shapes fit and scores are plausible, only that the second
# network is the first once more.
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
from onnx import TensorProto, compose, helper, numpy_helper

frames, width = 20, 4
node = helper.make_node
DOMAIN = "local"


def value(name, *shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def network(kind, seed):
    """One of several makes; R is its weight, and what differs between two networks of a make."""
    draw = np.random.default_rng(seed)
    weights = {"R": draw.uniform(-1, 1, (width, width)).astype(np.float32)}
    functions = []
    if kind in ("Scan", "Loop"):
        cell = [node("MatMul", ["h", "R"], ["m"]), node("Add", ["m", "frame"], ["s"])]
        cell += [node("Tanh", ["s"], ["h_out"]), node("Identity", ["h_out"], ["y_out"])]
        weights["h0"] = np.zeros((1, width), np.float32)
        outs = [value("h_out", 1, width), value("y_out", 1, width)]
    if kind == "Scan":
        body = helper.make_graph(cell, "body", [value("h", 1, width), value("frame", 1, width)], outs)
        nodes = [node("Scan", ["h0", "x"], ["last", "y"], num_scan_inputs=1, body=body)]
    elif kind == "Loop":
        take = [node("Gather", ["x", "i"], ["frame"]), node("Identity", ["on"], ["on_out"])]
        ins = [value("i", kind=TensorProto.INT64), value("on", kind=TensorProto.BOOL), value("h", 1, width)]
        body = helper.make_graph(take + cell, "body", ins, [value("on_out", kind=TensorProto.BOOL), *outs])
        weights["n"] = np.array(frames)
        nodes = [node("Loop", ["n", "", "h0"], ["last", "y"], body=body)]
    elif kind.startswith("If"):
        weights["zero"] = np.array(0, np.float32)
        own, taken = [], "R"
        if kind == "If, weights of the body's own":
            own, taken = [numpy_helper.from_array(weights["R"], "R_own")], "R_own"
        if kind == "If, a function inside":
            act = [node("LeakyRelu", ["a"], ["b"], alpha=float(draw.uniform(0.1, 0.9)))]
            functions = [helper.make_function(DOMAIN, "act", ["a"], ["b"], act, [helper.make_opsetid("", 17)])]
            call = lambda out: [node("act", ["x"], [out], domain=DOMAIN)]
        else:
            call = lambda out: [node("MatMul", ["x", taken], [out])]
        branch = [helper.make_graph(call(name), name, [], [value(name, frames, 1, width)], own) for name in ("then", "else")]
        nodes = [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "zero"], ["positive"])]
        nodes.append(node("If", ["positive"], ["y"], then_branch=branch[0], else_branch=branch[1]))
    else:
        nodes = [node("MatMul", ["x", "R"], ["y"])]
    used = {name for n in nodes for name in n.input} | {"R"}
    init = [numpy_helper.from_array(w, name) for name, w in weights.items() if name in used]
    graph = helper.make_graph(nodes, "network", [value("x", frames, 1, width)], [value("y", frames, 1, width)], init)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model, x):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [out.name for out in session.get_outputs()]
    [name] = [name for name in names if name.endswith("y")]
    return session.run([name], {session.get_inputs()[0].name: x})[0]


x = np.random.default_rng(3).uniform(-1, 1, (frames, 1, width)).astype(np.float32)
for kind in ("MatMul", "If, weights of the body's own", "If", "Loop", "Scan", "If, a function inside"):
    first, second = network(kind, 1), network(kind, 2)
    meant = {
        "first, then second": run(second, run(first, x)),
        "first, then first": run(first, run(first, x)),
        "second, then second": run(second, run(second, x)),
    }
    for prefixes in ({"prefix2": "b_"}, {"prefix1": "a_"}, {"prefix1": "a_", "prefix2": "b_"}):
        try:
            merged = compose.merge_models(first, second, [("y", "x")], **prefixes)
        except onnx.checker.ValidationError:
            print(f"{kind}, {' and '.join(prefixes)}: an error")
            continue
        onnx.checker.check_model(merged, full_check=True)
        try:
            got = run(merged, x)
        except Exception as e:
            # Where a function has no counterpart under the old name, the checker is content and the engine isn't.
            assert "local:act" in str(e)
            print(f"{kind}, {' and '.join(prefixes)}: ONNX Runtime finds no function act")
            continue
        print(f"{kind}, {' and '.join(prefixes)}: {', '.join(name for name, y in meant.items() if np.allclose(got, y, atol=1e-6))}")
PYTHON
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
MatMul, prefix2: first, then second
MatMul, prefix1: first, then second
MatMul, prefix1 and prefix2: first, then second
If, weights of the body's own, prefix2: first, then second
If, weights of the body's own, prefix1: first, then second
If, weights of the body's own, prefix1 and prefix2: first, then second
If, prefix2: first, then first
If, prefix1: second, then second
If, prefix1 and prefix2: an error
Loop, prefix2: first, then first
Loop, prefix1: second, then second
Loop, prefix1 and prefix2: an error
Scan, prefix2: first, then first
Scan, prefix1: second, then second
Scan, prefix1 and prefix2: an error
If, a function inside, prefix2: first, then first
If, a function inside, prefix1: second, then second
If, a function inside, prefix1 and prefix2: ONNX Runtime finds no function act
EXPECTED
if ! diff expected seen; then
	echo "onnx behaves otherwise by now" >&2
	exit 1
fi
