import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from variant_train import layout
from variant_train.__main__ import main
from variant_train.calibration import TYPES, applied, curve, line, types_of, within
from variant_train.export import read, to_onnx
from variant_train.network import Caller, Shape, Together, operations
from variant_train.recipe import Recipe, Training
from variant_train.store import TRAINING, VALIDATION, Sampler, counts, held_out, parts
from variant_train.training import Trainer, head_losses, learning_rate, load_average


def trainer(prepared, **changes) -> Trainer:
    recipe, work = prepared
    recipe = replace(recipe, training=replace(recipe.training, **changes))
    return Trainer(recipe, Sampler(recipe, work))


def weights(network: Caller) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_the_losses_fall(prepared):
    t = trainer(prepared, steps=60)
    steps = [t.advance(t._sampler.batch(step)) for step in range(60)]
    last = steps[-10:]
    assert np.mean([s.copies for s in last]) < 0.5 * steps[0].copies
    assert np.mean([s.length for s in last]) < 0.5 * steps[0].length


def test_what_is_held_out_is_judged_while_training(prepared):
    recipe, work = prepared
    batch = held_out(recipe, work, 300)
    assert np.array_equal(batch.examples, held_out(recipe, work, 300).examples)
    seen = np.concatenate([part.examples[part.rows] for part in parts(recipe, work, TRAINING)])
    known = {example.tobytes() for example in seen.astype(np.float32)}
    assert not any(example.tobytes() in known for example in batch.examples[:, 0])

    t = Trainer(recipe, Sampler(recipe, work), batch)
    before = t.judged()
    with torch.no_grad():
        expected = head_losses(t.average(torch.from_numpy(batch.examples)), batch.labels, 0.0)[0].mean()
    assert before == pytest.approx(float(expected), rel=1e-5)
    for step in range(60):
        t.advance(t._sampler.batch(step))
    assert t.judged() < before
    assert np.isnan(Trainer(recipe, Sampler(recipe, work)).judged())


@pytest.mark.parametrize("threads", [1, 3])
def test_seeds_and_nothing_else_decide(prepared, tmp_path, threads):
    runs = [trainer(prepared, steps=4, threads=n) for n in (2, threads)]
    other = trainer(prepared, steps=4, seed=2)
    for t in (*runs, other):
        t.run(tmp_path / "c.pt")
    assert torch.equal(weights(runs[0].network), weights(runs[1].network))
    assert not torch.equal(weights(runs[0].network), weights(other.network))


def test_a_resumed_run_ends_like_an_unbroken_one(prepared, tmp_path):
    whole = trainer(prepared, steps=8)
    whole.run(tmp_path / "whole.pt")
    broken = trainer(prepared, steps=8)
    broken.run(tmp_path / "broken.pt", stopped=lambda: broken.step == 3)
    resumed = trainer(prepared, steps=8)
    resumed.load(tmp_path / "broken.pt")
    assert resumed.step == 3
    resumed.run(tmp_path / "broken.pt")
    assert torch.equal(weights(resumed.network), weights(whole.network))
    assert torch.equal(weights(resumed.average), weights(whole.average))
    assert torch.equal(weights(load_average(tmp_path / "broken.pt")), weights(whole.average))


def test_a_checkpoint_of_another_shape_is_refused(prepared, tmp_path):
    trainer(prepared, steps=1).save(tmp_path / "c.pt")
    recipe, work = prepared
    other = replace(recipe, shape=replace(recipe.shape, width=16))
    with pytest.raises(ValueError, match="c.pt"):
        Trainer(other, Sampler(other, work)).load(tmp_path / "c.pt")


def test_what_is_held_out_is_not_trained_on(prepared):
    recipe, work = prepared
    for part in parts(recipe, work, TRAINING):
        if part.source.name == "reads":
            positions = part.labels["position"][part.rows]
            assert not ((positions >= 39_500) & (positions < 50_000)).any()
    held = parts(recipe, work, VALIDATION)
    assert {part.source.name for part in held} == {"reads", "signal", "simulated"}
    assert sum(part.source.name == "signal" for part in held) == 2
    assert sum(part.source.name == "simulated" for part in held) == 1
    for part in (*held, *parts(recipe, work, TRAINING)):
        assert (part.labels["copies"][part.rows] <= 2).all()
    assert sum(sum(c.values()) for c in counts(held).values()) == sum(len(part.rows) for part in held)


def test_missing_examples_are_named(prepared, tmp_path):
    recipe, _ = prepared
    with pytest.raises(FileNotFoundError, match="source reads; prepare"):
        Sampler(recipe, tmp_path)


def test_a_haploid_sample_has_no_single_copy():
    labels = np.zeros(2, [("copies", "u1"), ("zygosity", "u1"), ("length", "i1"), ("mode", "u1")])
    labels["mode"] = [0, 1]
    logits = torch.zeros(2, 1, layout.SCORES)
    logits[:, :, 1] = 5
    copies, zygosity, length = head_losses(logits, labels, 0.0)
    assert copies.tolist() == pytest.approx([np.log(2), np.log(2 + np.exp(5))])
    assert zygosity.tolist() == pytest.approx([np.log(2), np.log(3)])
    assert length.tolist() == pytest.approx([np.log(33)] * 2)


def test_a_focus_makes_what_is_sure_count_less():
    labels = np.zeros(1, [("copies", "u1"), ("zygosity", "u1"), ("length", "i1"), ("mode", "u1")])
    logits = torch.zeros(1, 1, layout.SCORES)
    logits[:, :, 0] = 4
    plain, focused = (float(head_losses(logits, labels, focus)[0][0]) for focus in (0.0, 2.0))
    probability = np.exp(-plain)
    assert focused == pytest.approx((1 - probability) ** 2 * plain)


def test_learning_rate_rises_and_falls():
    training = Training(minutes=10, learning_rate=1, warmup=10)
    assert learning_rate(training, 0, 0) == pytest.approx(0.1)
    assert learning_rate(training, 100, 300) == pytest.approx(0.5)
    assert learning_rate(training, 100, 700) == 0


@pytest.mark.parametrize(
    "shape, members",
    [(Shape(), 1), (Shape(), 2), (Shape(width=16, deep=16, scalars=8, joined=24, planes=48), 1), (Shape(width=16, deep=8), 3)],
)
def test_the_exported_graph_equals_the_network(shape, members):
    torch.manual_seed(3)
    network = Together([Caller(shape) for _ in range(members)]).eval()
    for member in network.members:
        for block in member.blocks:
            torch.nn.init.normal_(block.second.weight, std=0.1)
    x = np.random.default_rng(0).normal(0, 0.5, (130, 1, layout.SIZE)).astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(x)).numpy()
    model = to_onnx(network).SerializeToString()
    assert to_onnx(network).SerializeToString() == model
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    together = session.run(["scores"], {"examples": x})[0]
    assert together.shape == (130, 1, layout.SCORES)
    assert np.abs(together - expected).max() < 1e-4
    for n in (1, 2, 5, 64):
        alone = np.concatenate([session.run(["scores"], {"examples": x[i : i + n]})[0] for i in range(0, 130, n)])
        assert np.array_equal(alone, together), n


@pytest.mark.parametrize("members", [1, 2])
def test_what_was_exported_is_read_again(members, tmp_path):
    shape = Shape(width=16, deep=8)
    model = to_onnx(Together([Caller(shape) for _ in range(members)]).eval()).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    assert to_onnx(Together(read(path, shape, members))).SerializeToString() == model
    for other, number in ((Shape(width=8, deep=8), members), (shape, members + 1), (shape, 3 - members)):
        with pytest.raises(ValueError, match="model.onnx"):
            read(path, other, number)


def test_networks_judge_together_by_the_mean_of_their_logits():
    shape = Shape(width=8, deep=8, scalars=8, joined=8)
    one, other = Caller(shape).eval(), Caller(shape).eval()
    x = torch.randn(3, 1, layout.SIZE)
    assert torch.allclose(Together([one, other])(x), (one(x) + other(x)) / 2, atol=1e-6)
    with pytest.raises(ValueError, match="one shape"):
        Together([one, Caller(Shape())])


def test_reserved_scalars_change_nothing():
    network = Caller(Shape(width=8, deep=8, scalars=8, joined=8)).eval()
    x = torch.randn(3, 1, layout.SIZE)
    y = x.clone()
    y[:, 0, [layout.PLANES * layout.COLUMNS + i for i in layout.UNUSED_SCALARS]] += 1
    y[:, 0, network.shape.planes * layout.COLUMNS : layout.PLANES * layout.COLUMNS] += 1
    assert torch.equal(network(x), network(y))


def test_the_shipped_shape_is_within_its_budget():
    assert operations(Shape(width=64, deep=64)) < 2.5e6


def test_a_line_is_found_and_held_to_by_many_examples():
    rng = np.random.default_rng(0)
    x = rng.normal(0, 5, 200_000)
    right = rng.random(len(x)) < 1 / (1 + np.exp(-(0.5 * x - 2)))
    slope, offset = line(x, right, np.ones(len(x)))
    assert slope == pytest.approx(0.5, abs=0.02) and offset == pytest.approx(-2, abs=0.05)


@pytest.mark.parametrize("odds", [False, True])
def test_curves_find_the_observed_error(odds):
    rng = np.random.default_rng(0)
    said = rng.uniform(0.5, 30, 200_000)
    wrong = 10 ** (-said / 10)
    truth = 1 / (1 + wrong) if odds else 1 - wrong
    points = curve(said, rng.random(len(said)) < truth, np.ones(len(said)), odds=odds)
    assert applied(points, np.array([10.0, 20.0])) == pytest.approx([10, 20], abs=1)
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in zip(points, points[1:], strict=False))


def test_rare_variants_have_lower_qualities():
    rng = np.random.default_rng(0)
    said = np.append(rng.uniform(0, 10, 2000), rng.uniform(5, 40, 2000))
    right = np.append(np.zeros(2000, bool), np.ones(2000, bool))
    dense, rare = (applied(curve(said, right, np.where(right, w, 1.0), odds=False), np.array([10.0]))[0] for w in (1.0, 0.1))
    assert rare < dense - 2


def test_nobody_is_surer_than_the_examples():
    said, right = np.array([0.1] * 50 + [60.0] * 50), np.array([False] * 50 + [True] * 50)
    assert applied(curve(said, right, np.ones(100), odds=False), np.array([60.0]))[0] < 40


def test_from_examples_to_a_model(recipe_file: Path, prepared, tmp_path):
    _, work = prepared
    folder = tmp_path / "work"
    shutil.copytree(work, folder)
    assert main(["train", str(recipe_file), "--work", str(folder)]) == 0
    assert main(["export", str(recipe_file), "--work", str(folder), "--model", str(tmp_path / "toy")]) == 0
    import tomllib

    with (tmp_path / "toy" / "manifest.toml").open("rb") as file:
        manifest = tomllib.load(file)
    assert manifest["kind"] == "variant" and manifest["example_version"] == layout.VERSION
    assert len(manifest["network"]["sha256"]) == 64
    assert {(c["type"], c["ploidy"]) for c in manifest["calibration"]} == {(t, p) for t in ("snp", "indel") for p in "12"}
    assert all("gq" not in c for c in manifest["calibration"] if c["ploidy"] == "1")

    from variant_train.card import write_card
    from variant_train.evaluation import Tally

    recipe = Recipe.load(recipe_file)
    (folder / "curve.jsonl").write_text('{"step": 1, "seconds": 60, "copies": 1, "zygosity": 1, "length": 3, "held_out": 2}\n')
    write_card(recipe, [Tally("a set", 30, "SNP", 2, 10, 9, 10, 9)], folder, tmp_path / "toy")
    card = (tmp_path / "toy" / "README.md").read_text()
    assert "| a set | 30x | SNP | 2 | 10 | 9 | 10 | 1 | 0.9000 | 0.69" in card
    picture = (tmp_path / "toy" / "training.svg").read_text()
    assert picture.startswith("<svg") and ">held out<" in picture


MEMBERS = """
[[member]]
name = "all"
seed = 5

[[member]]
name = "simulated"
seed = 6
without = ["reads"]
"""


def test_members_are_trained_apart_and_exported_together(recipe_file: Path, prepared, tmp_path):
    _, work = prepared
    folder = tmp_path / "work"
    shutil.copytree(work, folder)
    text = recipe_file.read_text().replace("steps = 60", "steps = 4", 1)
    (tmp_path / "both.toml").write_text(text + MEMBERS)
    recipe = Recipe.load(tmp_path / "both.toml")
    (all_name, whole, _), (_, part, _) = recipe.trainings(folder)
    assert all_name == "all" and whole.training.seed == 5 and whole.sources == recipe.sources
    assert [source.name for source in part.sources] == [source.name for source in recipe.sources if source.name != "reads"]
    assert main(["train", str(tmp_path / "both.toml"), "--work", str(folder)]) == 0
    assert not (folder / "checkpoint.pt").exists()
    assert main(["export", str(tmp_path / "both.toml"), "--work", str(folder), "--model", str(tmp_path / "toy")]) == 0
    session = onnxruntime.InferenceSession(tmp_path / "toy" / "model.onnx", providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).normal(0, 0.5, (5, 1, layout.SIZE)).astype(np.float32)
    with torch.no_grad():
        expected = (
            sum(load_average(folder / "members" / name / "checkpoint.pt")(torch.from_numpy(x)) for name in ("all", "simulated")) / 2
        )
    assert np.abs(session.run(["scores"], {"examples": x})[0] - expected.numpy()).max() < 1e-4

    shutil.rmtree(folder / "members")
    exported = str(tmp_path / "toy" / "model.onnx")
    assert main(["train", str(tmp_path / "both.toml"), "--work", str(folder), "--start", exported]) == 0
    (curve,) = {(folder / "members" / name / "checkpoint.pt").is_file() for name in ("all", "simulated")}
    assert curve

    from variant_train.card import write_card

    for name in ("all", "simulated"):
        (folder / "members" / name / "curve.jsonl").write_text(
            '{"step": 1, "seconds": 60, "copies": 1, "zygosity": 1, "length": 3}\n'
        )
    write_card(recipe, [], folder, tmp_path / "toy")
    card = (tmp_path / "toy" / "README.md").read_text()
    assert "the mean logits of 2 networks" in card and "4 steps and 4 steps of" in card


def test_a_missing_file_is_one_line_and_status_1(recipe_file, tmp_path, capsys):
    status = main(["prepare", str(recipe_file), "--data", str(tmp_path), "--work", str(tmp_path), "--workers", "1"])
    assert status == 1
    assert "genome.fa" in capsys.readouterr().err


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("steps = 60", "steps = 60\nminutes = 3", "minutes or steps"),
        ("worlds = 2", "worlds = 0", "worlds"),
        ('name = "toy"', "", "name"),
        ('reads = "reads.fastq"', "", "recordings with basecallers, or reads"),
        ("worlds = 6", "worlds = 7", "source signal: worlds must be a multiple"),
        ('basecallers = ["one", "other"]', 'basecallers = ["one", "third"]', "source signal: no basecaller third"),
        ("worlds = 3", "worlds = 3\nmodes = { triploid = 1 }", "triploid"),
        ("plant = 200", 'plant = 200\nprofile = "x"', "one of alignments"),
        ("[training]", '[[member]]\nname = "a"\nseed = 1\nwithout = ["none such"]\n\n[training]', "member a: no source none such"),
        (
            "[training]",
            '[[member]]\nname = "a"\nseed = 1\n\n[[member]]\nname = "a"\nseed = 2\n\n[training]',
            "more than one member",
        ),
    ],
)
def test_a_wrong_recipe_is_named(recipe_file, tmp_path, old, new, message):
    (tmp_path / "wrong.toml").write_text(recipe_file.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=f"wrong.toml.*{message}"):
        Recipe.load(tmp_path / "wrong.toml")


def test_places_within_reach():
    places = np.array([10, 50, 51])
    positions = np.array([0, 4, 5, 10, 15, 16, 44, 45, 56, 57])
    want = [any(abs(p - q) <= 5 for q in places) for p in positions]
    assert within(5, positions, places).tolist() == want
    assert not within(5, positions, np.array([], int)).any()


def test_long_indels_are_a_type():
    lengths = np.array([0, 1, 3, 4, 20, 3, 4], np.float16) / np.float16(16)
    assert [TYPES[n] for n in types_of(np.array([0, 1, 1, 1, 1, 2, 2]), lengths)] == [
        "snp", "indel", "indel", "long_indel", "long_indel", "indel", "long_indel",
    ]  # fmt: skip
