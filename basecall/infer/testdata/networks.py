#!/usr/bin/env python3
"""Write the small networks that the tests of package infer run.

All but float64 map a signal [N, 1, T] to the sum and the difference of the outer
two samples of every three, once per frame. Needs onnx 1.23.
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

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
