#!/usr/bin/env bash
# One would guess: convert_xgboost of onnxmltools gives a graph that answers as the model does, or refuses what it doesn't know, as it refuses
# boosters DART and linear, and values other than NaN that stand for missing ones. XGBoost's num_parallel_tree grows several trees a class
# and round, a boosted forest (its documentation, Random Forests).
# What happens: XGBoost keeps the trees of a round class by class (0, 0, 1, 1, 2, 2), and notes the class of each. The converter doesn't
# read that, but counts 0, 1, 2, 0, 1, 2, as if there were one tree a class and round. So trees that speak for one class add to another: a
# model that is right in more than 9 of 10 rows names another class for more than 4 of 10, with probabilities that sum to 1. Two classes
# with two trees a round become two rivals of one tree each, by softmax; with more trees a round ONNX Runtime refuses the graph of two
# classes. No warning, the checker is content. Values (regression) are right, and so is num_parallel_tree 1. onnxmltools 1.16.0, xgboost
# 3.2.0, onnx 1.23.2, outputs by ONNX Runtime 1.32.0.
# Who is hurt: who tells barcodes, species or kinds of variants by a boosted forest and runs it where XGBoost is not: some classes come
# out mostly right and the rest shuffled, which looks like a change between training and use.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxmltools==1.16.0 xgboost==3.2.0 scikit-learn==1.9.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import json
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import xgboost as xgb
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

warnings.filterwarnings("error")
draw = np.random.default_rng(1)
x = draw.uniform(-1, 1, (600, 4)).astype(np.float32)
place = x[:, 0] + x[:, 1]
classes = {2: (place > 0).astype(int), 3: np.digitize(place, [-0.4, 0.4]), 4: np.digitize(place, [-0.6, 0, 0.6])}


def convert(model):
    made = convert_xgboost(model, initial_types=[("x", FloatTensorType([None, 4]))])
    onnx.checker.check_model(made, full_check=True)
    # The log says no more than the error.
    ort.set_default_logger_severity(4)
    return ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})


def rest(parallel):
    return {"n_estimators": 10, "max_depth": 3, "n_jobs": 1, "num_parallel_tree": parallel, "subsample": 0.7, "colsample_bynode": 0.8, "random_state": 1}


for count, y in classes.items():
    for parallel in (1, 2, 3, 5):
        model = xgb.XGBClassifier(**rest(parallel)).fit(x, y)
        try:
            labels, probabilities = convert(model)
        except Fail:
            print(f"{count} classes, {parallel} trees a class and round: ONNX Runtime refuses the graph")
            continue
        assert np.allclose(probabilities.sum(1), 1, atol=1e-5)
        off = np.mean(labels != model.predict(x))
        same = np.allclose(probabilities, model.predict_proba(x), atol=1e-4)
        right = "right in more than 9 of 10 rows" if np.mean(model.predict(x) == y) > 0.9 else "not often right"
        told = f"{'the same' if same else 'other'} probabilities, another class for {'no row' if not off else 'some rows' if off < 0.4 else 'more than 4 of 10 rows'}"
        print(f"{count} classes, {parallel} trees a class and round: the model is {right}; the graph: {told}")

model = xgb.XGBRegressor(**rest(5)).fit(x, place)
print(f"a value, 5 trees a round: {'the same' if np.allclose(convert(model)[0][:, 0], model.predict(x), atol=1e-4) else 'another'}")

model = xgb.XGBClassifier(**rest(2)).fit(x, classes[3])
made = convert_xgboost(model, initial_types=[("x", FloatTensorType([None, 4]))])
[trees] = [node for node in made.graph.node if node.op_type == "TreeEnsembleClassifier"]
told = {a.name: list(a.ints) for a in trees.attribute}
graph = dict(zip(told["class_treeids"], told["class_ids"], strict=True))
print("classes of the first 12 trees in the graph:", *[graph[tree] for tree in range(12)])
model.save_model("model.json")

with open("model.json") as file:
    print("classes of the first 12 trees in the model:", *json.load(file)["learner"]["gradient_booster"]["model"]["tree_info"][:12])
PYTHON
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
2 classes, 1 trees a class and round: the model is right in more than 9 of 10 rows; the graph: the same probabilities, another class for no row
2 classes, 2 trees a class and round: the model is right in more than 9 of 10 rows; the graph: other probabilities, another class for some rows
2 classes, 3 trees a class and round: ONNX Runtime refuses the graph
2 classes, 5 trees a class and round: ONNX Runtime refuses the graph
3 classes, 1 trees a class and round: the model is right in more than 9 of 10 rows; the graph: the same probabilities, another class for no row
3 classes, 2 trees a class and round: the model is right in more than 9 of 10 rows; the graph: other probabilities, another class for more than 4 of 10 rows
3 classes, 3 trees a class and round: the model is right in more than 9 of 10 rows; the graph: other probabilities, another class for more than 4 of 10 rows
3 classes, 5 trees a class and round: the model is right in more than 9 of 10 rows; the graph: other probabilities, another class for more than 4 of 10 rows
4 classes, 1 trees a class and round: the model is right in more than 9 of 10 rows; the graph: the same probabilities, another class for no row
4 classes, 2 trees a class and round: the model is right in more than 9 of 10 rows; the graph: other probabilities, another class for more than 4 of 10 rows
4 classes, 3 trees a class and round: the model is right in more than 9 of 10 rows; the graph: other probabilities, another class for more than 4 of 10 rows
4 classes, 5 trees a class and round: the model is right in more than 9 of 10 rows; the graph: other probabilities, another class for some rows
a value, 5 trees a round: the same
classes of the first 12 trees in the graph: 0 1 2 0 1 2 0 1 2 0 1 2
classes of the first 12 trees in the model: 0 0 1 1 2 2 0 0 1 1 2 2
EXPECTED
if ! diff expected seen; then
	echo "onnxmltools behaves otherwise by now" >&2
	exit 1
fi
