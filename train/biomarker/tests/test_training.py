import json
import random

import numpy as np
import pytest
import torch

from biomarker_train import calibration, evaluation, export, markers, metrics, rules, training
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
    slope, by_score, offset = calibration.fit(logit, np.zeros_like(logit), label)
    assert slope == pytest.approx(0.5, abs=0.02) and offset == pytest.approx(1, abs=0.05) and by_score == 0


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
    assert "| a |" in (folder / "work" / "report.md").read_text()
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
    for entry in report["tasks"].values():
        value, low, high = entry["accuracy"]
        assert low <= value <= high
