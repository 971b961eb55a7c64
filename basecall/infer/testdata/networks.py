#!/usr/bin/env python3
"""Write the small networks that the tests of package infer run.

All but float64 and lstm map a signal [N, 1, T] to the sum and the difference of the outer
two samples of every three, once per frame. lstm has two layers of LSTM, one of them in both
directions, and lstm_int8 is what ONNX Runtime's own tool makes of it, with how each of them
scores a signal beside them. Needs onnx 1.23 and onnxruntime 1.24.
"""
import json
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

HERE = pathlib.Path(__file__).parent


def write(name, batch="N", perm=(0, 2, 1), dims=None, dtype=TensorProto.FLOAT, mix=False):
    kernel = np.array([[[1, 0, 1]], [[1, 0, -1]]], dtype=np.float32)
    nodes = [helper.make_node("Conv", ["signal", "kernel"], ["features"], strides=[3])]
    last = "features"
    if dtype != TensorProto.FLOAT:  # the runtime has no convolution of other types
        nodes, last = [], "signal"
    if mix:  # subtracts the mean over the batch: rows are not independent
        nodes.append(helper.make_node("ReduceMean", ["features"], ["mean"], axes=[0], keepdims=1))
        nodes.append(helper.make_node("Sub", ["features", "mean"], ["mixed"]))
        last = "mixed"
    nodes.append(helper.make_node("Transpose", [last], ["scores"], perm=perm))
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info("signal", dtype, [batch, 1, "T"])],
        [helper.make_tensor_value_info("scores", dtype, dims or [batch, "F", 2])],
        [numpy_helper.from_array(kernel, "kernel")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / (name + ".onnx"))


write("ntc")
write("tnc", perm=(2, 0, 1), dims=["F", "N", 2])
write("fixed_batch", batch=1)
write("float64", dtype=TensorProto.DOUBLE, dims=["N", "T", 1])
write("rows_mixed", mix=True)


def lstm():
    random = np.random.default_rng(8)

    def constant(name, *shape):
        return numpy_helper.from_array((random.standard_normal(shape) / 2).astype(np.float32), name)

    constants = [
        constant("kernel", 6, 1, 3),
        constant("both.W", 2, 32, 6), constant("both.R", 2, 32, 8), constant("both.B", 2, 64),
        constant("back.W", 1, 40, 16), constant("back.R", 1, 40, 10),
        constant("head", 10, 2),
        numpy_helper.from_array(np.array([0, 0, 16], np.int64), "joined"),
        numpy_helper.from_array(np.array([1], np.int64), "directions"),
    ]
    nodes = [
        helper.make_node("Conv", ["signal", "kernel"], ["features"], strides=[3]),
        helper.make_node("Transpose", ["features"], ["frames"], perm=[2, 0, 1]),
        helper.make_node("LSTM", ["frames", "both.W", "both.R", "both.B"], ["both"], name="both", direction="bidirectional", hidden_size=8),
        helper.make_node("Transpose", ["both"], ["beside"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["beside", "joined"], ["joined_states"]),
        helper.make_node("LSTM", ["joined_states", "back.W", "back.R"], ["back"], name="back", direction="reverse", hidden_size=10),
        helper.make_node("Squeeze", ["back", "directions"], ["states"]),
        helper.make_node("MatMul", ["states", "head"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes, "lstm",
        [helper.make_tensor_value_info("signal", TensorProto.FLOAT, ["N", 1, "T"])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["F", "N", 2])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / "lstm.onnx")
    quantize_dynamic(
        HERE / "lstm.onnx", HERE / "lstm_int8.onnx", op_types_to_quantize=["LSTM"], per_channel=True, reduce_range=True,
        weight_type=QuantType.QInt8)
    signal = np.round(random.standard_normal(12), 3).astype(np.float32)
    scores = {"signal": signal.tolist()}
    for name in ("lstm", "lstm_int8"):
        session = onnxruntime.InferenceSession(HERE / f"{name}.onnx", providers=["CPUExecutionProvider"])
        scores[name] = session.run(None, {"signal": signal[None, None]})[0][:, 0].ravel().tolist()
    (HERE / "lstm.json").write_text(json.dumps(scores) + "\n")


lstm()
