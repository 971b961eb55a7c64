#!/usr/bin/env bash
# One would guess: save_model(format="onnx") of a CatBoostRegressor gives a graph that answers as predict() does (its documentation of
# ONNX: the target value predicted by the model), or refuses the model. For the losses Poisson and Tweedie predict() gives the expected
# count or amount, the exponential of the sum of the trees.
# What happens: the graph ends with the sum of the trees, so it answers with the natural logarithm of the count, below 0 where less than one
# is expected. No warning, and the checker is content. Losses whose sum is the value (RMSE, MAE, quantiles) are right. For a classifier the
# same exporter writes the step that makes probabilities, and LightGBM's models of these two losses come by onnxmltools with their exponential.
# catboost 1.2.10, onnx 1.23.2, ONNX Runtime 1.32.0; lightgbm 4.7.0 by onnxmltools 1.16.0.
# Who is hurt: who predicts counts (reads of a transcript, mutations of a gene, pores that still live) and runs that where CatBoost is not: the
# order of the rows is right, so correlations of ranks and plots look well, and 50 reads come out as 4, a half as less than none.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check catboost==1.2.10 lightgbm==4.7.0 onnxmltools==1.16.0 skl2onnx==1.20.0 scikit-learn==1.9.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnx
import onnxruntime as ort
from catboost import CatBoostClassifier, CatBoostRegressor
from lightgbm import LGBMRegressor
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType

# ONNX Runtime remarks on the shape that the graph of a regressor names.
ort.set_default_logger_severity(3)
draw = np.random.default_rng(1)
# Measures in sixteenths, so that 32 bits lose nothing, and counts about an expected one from 0.2 to 60.
x = (draw.integers(-16, 17, (600, 4)) / 16).astype(np.float32)
counts = draw.poisson(np.exp(1.2 + 1.9 * x[:, 0] + x[:, 1])).astype(float)
common = {"iterations": 60, "depth": 4, "verbose": 0, "allow_writing_files": False, "random_seed": 1, "thread_count": 1}


def run(model):
    onnx.checker.check_model(model, full_check=True)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})


def exported(model):
    model.save_model("model.onnx", format="onnx")
    return run(onnx.load("model.onnx"))


def same(a, b):
    return np.allclose(a, b, rtol=1e-4, atol=1e-4)


for loss in ("RMSE", "MAE", "Quantile:alpha=0.9", "Poisson", "Tweedie:variance_power=1.5"):
    model = CatBoostRegressor(loss_function=loss, **common).fit(x, counts)
    got, meant = exported(model)[0][:, 0], model.predict(x)
    what = "as predict()" if same(got, meant) else "the logarithm of predict()" if same(got, np.log(meant)) else "something else"
    ranks = "the same order of rows" if (np.diff(got[np.argsort(meant, kind="stable")]) > -1e-4).all() else "another order"
    print(f"CatBoost {loss}: the graph gives {what}, {ranks}, {'a' if (meant < 0).any() else 'no'} value of predict() is below 0,", end=" ")
    print(f"{'and some' if (got < 0).any() else 'and none'} of the graph's")

model = CatBoostClassifier(**common).fit(x, (counts > 3).astype(int))
probabilities = np.array([[row[label] for label in sorted(row)] for row in exported(model)[1]])
print(f"CatBoost Logloss: the graph gives {'as predict_proba()' if same(probabilities, model.predict_proba(x)) else 'something else'}")

for objective in ("poisson", "tweedie"):
    model = LGBMRegressor(objective=objective, n_estimators=60, n_jobs=1, verbose=-1).fit(x, counts)
    got = run(convert_lightgbm(model, initial_types=[("x", FloatTensorType([None, 4]))]))[0][:, 0]
    print(f"LightGBM {objective}: the graph gives {'as predict()' if same(got, model.predict(x)) else 'something else'}")
PYTHON
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
CatBoost RMSE: the graph gives as predict(), the same order of rows, a value of predict() is below 0, and some of the graph's
CatBoost MAE: the graph gives as predict(), the same order of rows, no value of predict() is below 0, and none of the graph's
CatBoost Quantile:alpha=0.9: the graph gives as predict(), the same order of rows, no value of predict() is below 0, and none of the graph's
CatBoost Poisson: the graph gives the logarithm of predict(), the same order of rows, no value of predict() is below 0, and some of the graph's
CatBoost Tweedie:variance_power=1.5: the graph gives the logarithm of predict(), the same order of rows, no value of predict() is below 0, and some of the graph's
CatBoost Logloss: the graph gives as predict_proba()
LightGBM poisson: the graph gives as predict()
LightGBM tweedie: the graph gives as predict()
EXPECTED
if ! diff expected seen; then
	echo "CatBoost behaves otherwise by now" >&2
	exit 1
fi
