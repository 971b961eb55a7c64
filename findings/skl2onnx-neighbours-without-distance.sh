#!/usr/bin/env bash
# One would guess: skl2onnx gives a graph of scikit-learn's KNeighborsClassifier or KNeighborsRegressor that weights the neighbours as
# the model does, or refuses it, as it refuses weights that are a function. With weights "distance" a neighbour counts by the
# inverse of its distance (documentation of both classes), and one at no distance alone.
# What happens: the graph has nodes for these weights, but takes the negative of each distance, and lifts what is below a millionth
# to a millionth, so each neighbour counts the same: it is the graph of weights "uniform" with some more nodes. For each metric, with
# 32 and 64 bits, each opset, also as CDist, without a word. For profiles that the model has learnt itself the model gives what
# it was taught, and the graph what the others around say. skl2onnx 1.20.0, scikit-learn 1.9.1, onnxruntime 1.32.0, onnx 1.23.2.
# Who is hurt: who tells barcodes, species or kinds of reads by the nearest known profiles and runs that elsewhere: a profile of a
# rare kind is outvoted by its neighbours of the common one; most labels stay, so a test by share of agreement takes it for rounding.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check skl2onnx==1.20.0 scikit-learn==1.9.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat >try.py <<'PYTHON'
import numpy as np
import onnx
import onnxruntime as ort
from skl2onnx import to_onnx
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

ort.set_default_logger_severity(3)
draw = np.random.default_rng(1)
# Profiles of three kinds, of which one is common, in the space of four features, and a value of each.
kinds = np.repeat([0, 1, 2], [240, 40, 20])
known = (kinds[:, None] * 0.7 + draw.normal(size=(300, 4))).astype(np.float32)
value = (known @ [2, 1, -1, 0.5]).astype(np.float32)
new = (draw.integers(0, 3, 200)[:, None] * 0.7 + draw.normal(size=(200, 4))).astype(np.float32)
neighbours = 9
metrics = {
    "euclidean": lambda a, b: np.sqrt(((a - b) ** 2).sum(axis=1)),
    "manhattan": lambda a, b: np.abs(a - b).sum(axis=1),
    "cosine": lambda a, b: 1 - (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum()),
}


def by_hand(x, y, metric):
    """The mean of y over the nearest known profiles, by the inverse of their distance, or of those at no distance."""
    out = []
    for row in x.astype(np.float64):
        distance = metrics[metric](known.astype(np.float64), row)
        near = np.argsort(distance, kind="stable")[:neighbours]
        d = distance[near]
        w = (d == 0).astype(float) if (d == 0).any() else 1 / d
        out.append((w[:, None] * y[near]).sum(axis=0) / w.sum())
    return np.array(out)


def run(model, x, opset=18, **options):
    if hasattr(model, "predict_proba"):
        options["zipmap"] = False
    graph = to_onnx(model, x[:1], target_opset=opset, options={id(model): options} if options else None)
    onnx.checker.check_model(graph, full_check=not options.get("optim"))
    out = ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": x})
    return out[1] if hasattr(model, "predict_proba") else out[0].reshape(len(x), 1)


def show(name, made, y, metric, x, **options):
    weighted = made(neighbours, weights="distance", metric=metric).fit(known, y)
    uniform = made(neighbours, weights="uniform", metric=metric).fit(known, y)
    classes = hasattr(weighted, "predict_proba")
    told = weighted.predict_proba if classes else lambda x: weighted.predict(x)[:, None]
    expected = by_hand(x, np.eye(3)[y] if classes else y[:, None], metric)
    # In 32 bits some metrics of scikit-learn round; what is asked here is far above that.
    assert np.abs(told(x) - expected).max() < 1e-3
    graph, even = run(weighted, x, **options), run(uniform, x, **options)
    line = f"{name}: the graph of \"distance\" is off by up to {np.abs(graph - expected).max():.2f}, from that of \"uniform\" by {np.abs(graph - even).max():.2f}"
    if classes:
        a, b = graph.argmax(axis=1), expected.argmax(axis=1)
        line += f"; another kind for {(a != b).sum()} of {len(x)}"
    print(line)


for metric in metrics:
    show(f"kinds, {metric}", KNeighborsClassifier, kinds, metric, new)
    show(f"values, {metric}", KNeighborsRegressor, value, metric, new)
show("kinds, 64 bits", KNeighborsClassifier, kinds, "euclidean", new.astype(np.float64))
show("kinds, as CDist", KNeighborsClassifier, kinds, "euclidean", new, optim="cdist")
show("kinds, opset 11", KNeighborsClassifier, kinds, "euclidean", new, opset=11)
show("kinds of the known profiles", KNeighborsClassifier, kinds, "manhattan", known)
PYTHON
echo "skl2onnx $(venv/bin/python -c 'from importlib.metadata import version; print(version("skl2onnx"))')"
venv/bin/python -W ignore try.py | tee seen
cat >expected <<'EXPECTED'
kinds, euclidean: the graph of "distance" is off by up to 0.22, from that of "uniform" by 0.00; another kind for 13 of 200
values, euclidean: the graph of "distance" is off by up to 0.48, from that of "uniform" by 0.00
kinds, manhattan: the graph of "distance" is off by up to 0.20, from that of "uniform" by 0.00; another kind for 12 of 200
values, manhattan: the graph of "distance" is off by up to 0.53, from that of "uniform" by 0.00
kinds, cosine: the graph of "distance" is off by up to 0.68, from that of "uniform" by 0.00; another kind for 40 of 200
values, cosine: the graph of "distance" is off by up to 1.50, from that of "uniform" by 0.00
kinds, 64 bits: the graph of "distance" is off by up to 0.22, from that of "uniform" by 0.00; another kind for 13 of 200
kinds, as CDist: the graph of "distance" is off by up to 0.22, from that of "uniform" by 0.00; another kind for 13 of 200
kinds, opset 11: the graph of "distance" is off by up to 0.22, from that of "uniform" by 0.00; another kind for 13 of 200
kinds of the known profiles: the graph of "distance" is off by up to 0.89, from that of "uniform" by 0.00; another kind for 47 of 300
EXPECTED
if ! diff expected seen; then
	echo "skl2onnx behaves otherwise by now" >&2
	exit 1
fi
