#!/usr/bin/env bash
# One would guess: convert_lightgbm of onnxmltools gives a graph that answers as the model does, or refuses what it doesn't know, as
# it refuses objectives that it has no graph for. A random forest (boosting "rf" in LightGBM's parameters) answers with the mean of
# its trees; the converter has code of its own for it.
# What happens: that code divides by 100, whatever the number of trees: a forest of 50 gives half of each value, one of 300 three
# times as much. With two classes it divides by 100 what is a probability already, so no class but the first ever has more than
# 0.01, and each answer is the first class, for any number of trees, 100 too. With three classes the graph gives two probabilities
# and the first class. No warning, the checker is content, the probabilities sum to 1; boosted trees ("gbdt") are right.
# onnxmltools 1.16.0, lightgbm 4.7.0, onnx 1.23.2, outputs by ONNX Runtime 1.32.0 and by onnx's own evaluator.
# Who is hurt: who filters variants, reads or methylation calls by a forest and runs it where LightGBM is not: each candidate is of
# the first class, with a confidence of 0.99, which looks like a clean sample; values such as qualities or ages are off by a factor.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxmltools==1.16.0 lightgbm==4.7.0 skl2onnx==1.20.0 scikit-learn==1.9.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import lightgbm
import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType

ort.set_default_logger_severity(3)  # it warns of a shape in each graph of the converter, also in right ones
draw = np.random.default_rng(1)
# Candidates of variants: share of reads, depth, quality; in sixteenths, so that 32 bits lose nothing.
x = (draw.integers(0, 160, (600, 3)) / 16).astype(np.float32)
score = x[:, 0] * 2 + x[:, 2] + draw.normal(size=600)
kinds = {
    "a value": score,
    "2 classes": np.where(score > 15, "variant", "error"),
    "3 classes": np.array(["0/0", "0/1", "1/1"])[np.digitize(score, [10, 20])],
}
common = {"num_leaves": 8, "verbose": -1, "random_state": 1, "n_jobs": 1, "deterministic": True, "force_row_wise": True}
forest = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}


def by_hand(model, trees):
    """The mean of the trees' own answers, and for classes what LightGBM makes of it."""
    each = [model.booster_.predict(x, raw_score=True, start_iteration=i, num_iteration=1) for i in range(trees)]
    mean = np.mean(each, axis=0)
    if mean.ndim == 2:
        e = np.exp(mean - mean.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)
    if hasattr(model, "predict_proba"):
        return np.stack([1 - 1 / (1 + np.exp(-mean)), 1 / (1 + np.exp(-mean))], axis=1)
    return mean


for boosting in ("gbdt", "rf"):
    for what, y in kinds.items():
        for trees in (50, 100, 300) if boosting == "rf" else (100,):
            made = lightgbm.LGBMRegressor if what == "a value" else lightgbm.LGBMClassifier
            model = made(n_estimators=trees, **common, **(forest if boosting == "rf" else {}))
            model.fit(x, y)
            given = model.predict(x) if what == "a value" else model.predict_proba(x)
            if boosting == "rf":
                assert np.allclose(by_hand(model, trees), given, atol=1e-9)
            options = {} if what == "a value" else {"zipmap": False}
            graph = convert_lightgbm(model, initial_types=[("x", FloatTensorType([None, 3]))], **options)
            onnx.checker.check_model(graph)
            out = ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
            for a, b in zip(out, ReferenceEvaluator(graph).run(None, {"x": x[:20]})):
                assert (a[:20] == np.asarray(b)).all() if a.dtype.kind in "OU" else np.allclose(a[:20], b, atol=1e-4, rtol=1e-5)
            name = f"{boosting}, {what}, {trees} trees"
            if what == "a value":
                ratio = out[0].ravel() / given
                print(f"{name}: the graph gives {ratio.min():.3f} to {ratio.max():.3f} times the model's")
                continue
            assert np.allclose(out[1].sum(axis=1), 1, atol=1e-5)
            if np.shape(out[1]) == given.shape and np.allclose(out[1], given, atol=1e-5) and (out[0] == model.predict(x)).all():
                print(f"{name}: right")
                continue
            classes, counts = np.unique(model.predict(x), return_counts=True)
            told = ", ".join(f"{(out[0] == c).sum()} {c}" for c in classes)
            assert counts.min() > 100
            print(f"{name}: the graph gives {out[1].shape[1]} probabilities, all but the first at most {out[1][:, 1:].max():.3f}; answers: {told}")
PYTHON
echo "onnxmltools $(venv/bin/python -c 'from importlib.metadata import version; print(version("onnxmltools"))')"
venv/bin/python -W ignore try.py | tee seen
cat >expected <<'EXPECTED'
gbdt, a value, 100 trees: the graph gives 1.000 to 1.000 times the model's
gbdt, 2 classes, 100 trees: right
gbdt, 3 classes, 100 trees: right
rf, a value, 50 trees: the graph gives 0.500 to 0.500 times the model's
rf, a value, 100 trees: the graph gives 1.000 to 1.000 times the model's
rf, a value, 300 trees: the graph gives 3.000 to 3.000 times the model's
rf, 2 classes, 50 trees: the graph gives 2 probabilities, all but the first at most 0.010; answers: 600 error, 0 variant
rf, 2 classes, 100 trees: the graph gives 2 probabilities, all but the first at most 0.010; answers: 600 error, 0 variant
rf, 2 classes, 300 trees: the graph gives 2 probabilities, all but the first at most 0.010; answers: 600 error, 0 variant
rf, 3 classes, 50 trees: the graph gives 2 probabilities, all but the first at most 0.010; answers: 600 0/0, 0 0/1, 0 1/1
rf, 3 classes, 100 trees: the graph gives 2 probabilities, all but the first at most 0.010; answers: 600 0/0, 0 0/1, 0 1/1
rf, 3 classes, 300 trees: the graph gives 2 probabilities, all but the first at most 0.010; answers: 600 0/0, 0 0/1, 0 1/1
EXPECTED
if ! diff expected seen; then
	echo "onnxmltools behaves otherwise by now" >&2
	exit 1
fi
