import json
import random

import numpy as np
import pytest
import torch

from biomarker_train import calibration, completion, evaluation, export, linear, markers, metrics, peers, rules, training
from biomarker_train.__main__ import main
from biomarker_train.encoding import Encoder
from biomarker_train.network import parameters


def test_scores_are_those_of_the_definition(folder, recipe, terms):
    table = recipe.table(folder)
    features = recipe.features(table, terms)
    encoder = Encoder(features)
    present, known = encoder.present(table.isolates)
    kept = encoder.leave_out(known, torch.Generator().manual_seed(3), 0.3)
    x = encoder.inputs(present, kept)
    first = len(features.residues)
    for i, isolate in enumerate(table.isolates):
        seen = {
            ("G", codon, residue)
            for codon, residue in isolate.genes["G"]
            if ("G", codon) in encoder.codon_number and kept[i, encoder.codon_number["G", codon]]
        }
        for t, task in enumerate(features.tasks):
            assert x[i, first + t] == rules.score(terms, task, seen)
            most = {3: 60, 5: 30} if task == "a" else {5: 10}
            lost = sum(points for codon, points in most.items() if not kept[i, encoder.codon_number["G", codon]])
            assert x[i, first + len(features.tasks) + t] == lost


def test_what_is_left_out_has_no_value(folder, recipe, terms):
    features = recipe.features(recipe.table(folder), terms)
    encoder = Encoder(features)
    present = torch.ones(1, len(encoder.columns))
    x = encoder.inputs(present, torch.zeros(1, len(encoder.codons)))[0]
    n = len(features.residues)
    assert not x[:n].any() and not x[encoder.size : encoder.size + n].any()


def test_metrics_by_hand():
    label = np.array([True, True, False, False])
    assert metrics.auc(label, np.array([0.9, 0.4, 0.4, 0.1])) == pytest.approx(3.5 / 4)
    assert np.isnan(metrics.auc(label[:2], np.array([0.1, 0.2])))
    assert metrics.calibration_error(label, np.array([0.95, 0.95, 0.05, 0.05])) == pytest.approx(0.05)
    assert metrics.classified(label, np.array([True, False, True, False]))["f1"] == pytest.approx(0.5)


def test_calibration_finds_the_odds():
    generator = np.random.default_rng(1)
    logit = generator.normal(0, 3, 20_000)
    label = generator.random(20_000) < 1 / (1 + np.exp(-(0.5 * logit + 1)))
    slope, offset = calibration.fit(logit, label, np.ones(len(logit)))
    assert slope == pytest.approx(0.5, abs=0.02) and offset == pytest.approx(1, abs=0.05)


def test_a_large_group_counts_as_a_few():
    weight = calibration.weights(np.array([1] * 80 + [2, 3, 3]))
    assert weight[:80].sum() == pytest.approx(8) and list(weight[80:]) == [1, 1, 1]
    # The large group's isolates are resistant whatever the logit; the others speak for the logit.
    generator = np.random.default_rng(2)
    logit = np.concatenate([np.full(80, -2.0), generator.normal(0, 3, 400)])
    label = np.concatenate([np.ones(80, bool), generator.random(400) < 1 / (1 + np.exp(-logit[80:]))])
    group = np.array([0] * 80 + list(range(1, 401)))
    _, held = calibration.fit(logit, label, calibration.weights(group))
    _, free = calibration.fit(logit, label, np.ones(480))
    assert abs(held) < abs(free) / 2


def test_the_threshold_is_half_of_the_best_f1():
    label = np.array([True] * 10 + [False] * 10)
    assert calibration.threshold(np.where(label, 0.9, 0.1), label, np.ones(20)) == 0.5
    assert calibration.threshold(np.full(20, 0.5), label, np.ones(20)) == pytest.approx(1 / 3, abs=1e-3)
    # Where nothing is ever likely, nothing is said to be resistant; a threshold of 0 would say it of everything.
    few = np.arange(200) < 2
    assert calibration.threshold(np.where(few, 0.06, 0.01), few, np.ones(200)) == 0.1


def test_missing_residues_are_expected_by_their_companions():
    generator = np.random.default_rng(3)
    n = 400
    one = generator.random(n) < 0.3
    other = np.where(generator.random(n) < 0.05, ~one, one)
    alone = generator.random(n) < 0.5
    values = np.stack([one, other, alone], 1).astype(np.float32)
    genes = np.array(["G"] * 3)
    factors = completion.fit(values, np.ones_like(values), genes)
    fill = completion.Completion(factors)
    x = torch.tensor([[1.0, 0, 0], [0.0, 0, 0], [1.0, 1, 1]])
    missing = torch.tensor([[0.0, 1, 1], [0.0, 1, 1], [0.0, 0, 0]])
    full = fill(x, missing)
    assert torch.equal(full[2], x[2])  # what is known stays
    # Exactly: the conditional mean of the factor model's normal distribution.
    covariance = factors.loadings @ factors.loadings.T + np.diag(factors.noise)
    for row in (0, 1):
        exact = factors.mean[1:] + covariance[1:, 0] / covariance[0, 0] * (float(x[row, 0]) - factors.mean[0])
        assert full[row, 1:].numpy() == pytest.approx(exact.clip(0, 1), abs=0.02)
    assert full[0, 1] > 0.75 and full[1, 1] < 0.15
    assert abs(float(full[0, 2] - full[1, 2])) < 0.2


def test_regressions_judge_gaps_by_what_is_known(folder, recipe, terms):
    table = recipe.table(folder)
    features = recipe.features(table, terms)
    encoder = Encoder(features)
    data = training.data_of(encoder, table.isolates, 1, 1)
    model = linear.fit(encoder, data.inputs[0], data.label.numpy(), data.measure.numpy())
    whole = model(data.inputs[0])
    for t in range(2):
        assert metrics.auc(data.label[:, t].numpy() > 0.5, whole[:, t].numpy()) > 0.95
    present, known = encoder.present(table.isolates)
    nothing = model(encoder.inputs(present, known * 0))
    assert torch.equal(nothing[0], nothing[1])
    # Without any codon, a susceptible isolate and a resistant one lie between what was said of each.
    assert whole.min(0).values[0] < nothing[0, 0] < whole.max(0).values[0]


def test_the_cut_parts_the_labels():
    measure = np.array([0.1, 0.2, 1.0, 2.0, 3.0])
    assert linear._cut(measure, np.array([False, False, True, True, True])) == pytest.approx(0.6)
    assert linear._cut(measure, np.array([False, False, False, False, True])) == pytest.approx(2.5)


def test_fisher_by_hand():
    # The lady tasting tea: three of four right.
    assert markers.fisher(3, 1, 1, 3) == pytest.approx(34 / 70)
    assert markers.fisher(4, 0, 0, 4) == pytest.approx(2 / 70)


def test_markers_find_what_was_put_in(folder, recipe):
    table = recipe.table(folder)
    found = [m for m in markers.rank(table, recipe.tasks, {"a": ["G"], "b": ["G"]}) if m.q <= 0.05]
    assert {(m.task, m.residue) for m in found} >= {("a", "G:C3D"), ("a", "G:C5F"), ("b", "G:C9G")}
    assert all(m.residue != "G:C11K" for m in found)


def test_from_tables_to_a_model(folder, recipe):
    arguments = [str(folder / "recipe.toml"), "--data", str(folder), "--work", str(folder / "work")]
    assert main(["all", *arguments, "--model", str(folder / "model")]) == 0
    report = json.loads((folder / "work" / "report.json").read_text())
    assert report["tasks"]["a"]["auc"][0] > 0.9
    assert report["parameters"] <= 100_000
    text = (folder / "work" / "report.md").read_text()
    assert "| a |" in text and "| random forest |" in text and "| rules and logistic regression |" in text
    assert [share for share, _ in report["curve"]] == [0.25, 0.5, 1.0] and report["curve"][-1][1] == report["mean"]["auc"][0]
    assert report["mean"]["auc"][0] >= report["mean"]["rules_auc"][0]
    first = {p.name: p.read_bytes() for p in (folder / "model").iterdir()}
    assert set(first) == {export.NETWORK, export.FEATURES, export.SCORES, export.MANIFEST}

    # Again it goes on from what lies there, and gives the same model; anew too.
    assert main(["train", *arguments, "--model", str(folder / "again")]) == 0
    assert {p.name: p.read_bytes() for p in (folder / "again").iterdir()} == first
    arguments[-1] = str(folder / "other")
    assert main(["train", *arguments, "--model", str(folder / "anew")]) == 0
    assert {p.name: p.read_bytes() for p in (folder / "anew").iterdir()} == first


def test_exported_logits_do_not_depend_on_the_batch(folder, recipe, terms):
    import onnxruntime

    table = recipe.table(folder)
    features = recipe.features(table, terms)
    model = training.train(features, table.isolates, recipe.shape, recipe.settings)
    assert parameters(model.network) < 100_000
    session = onnxruntime.InferenceSession(export.to_onnx(model.network).SerializeToString(), providers=["CPUExecutionProvider"])
    encoder = Encoder(features)
    x = encoder.inputs(*encoder.present(table.isolates)).numpy()[:, None]
    together = session.run(None, {"features": x})[0]
    order = list(range(len(x)))
    random.Random(1).shuffle(order)
    alone = np.concatenate([session.run(None, {"features": x[i : i + 1]})[0] for i in order])
    assert np.array_equal(together[order], alone)


def test_faults_are_one_line(folder, capsys):
    (folder / "recipe.toml").write_text("name = 'x'\n")
    assert main(["evaluate", str(folder / "recipe.toml"), "--data", str(folder), "--work", str(folder)]) == 1
    assert capsys.readouterr().err.strip().endswith("recipe.toml: the key 'table' is missing")


def test_intervals_hold_the_figure(folder, recipe):
    report = evaluation.evaluate(recipe, folder, folder / "work")
    for entry in [*report["tasks"].values(), report["mean"]]:
        for name, figure in entry.items():
            if isinstance(figure, list):
                value, low, high = figure
                assert low <= value <= high, name


def test_draws_add_to_an_error_of_calibration_what_its_interval_leaves_out():
    drawn = [{"ece": v, "auc": v} for v in np.linspace(0.02, 0.06, 41)]
    assert evaluation._interval({"ece": 0.03}, drawn, "ece") == pytest.approx((0.03, 0.011, 0.049))
    assert evaluation._interval({"ece": 0.01}, drawn, "ece") == pytest.approx((0.01, 0, 0.029))
    assert evaluation._interval({"auc": 0.03}, drawn, "auc") == pytest.approx((0.03, 0.021, 0.059))


def test_peers_without_residues_seen_often_say_what_is_common(folder, recipe, terms):
    table = recipe.table(folder)
    encoder = Encoder(recipe.features(table, terms))
    some = table.isolates[:6]  # no residue is in five of them
    x = encoder.inputs(*encoder.present(some))
    label = np.array([[float(i.labels[t]) for t in recipe.tasks] for i in some])
    label[:, 0] = [1, 0, 0, 0, 0, 1]
    said = peers.judge(encoder, x * 0, label, [x], 1)
    assert said["forest"][0][:, 0] == pytest.approx(1 / 3) and not np.isnan(said["logistic"][0][:, 0]).any()
