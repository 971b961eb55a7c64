"""A head that learns to read a teacher's layers, and what becomes of it: a file, a mentor."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from conftest import World
from onnx import helper
from test_training import CPU, CRF, weights

from basecall_train import export, listener
from basecall_train.__main__ import main
from basecall_train.crf import StateSpace
from basecall_train.distillation import Mentors
from basecall_train.listener import Hearing, Listener, build
from basecall_train.network import Basecaller, Shape
from basecall_train.recipe import Recipe, Training
from basecall_train.store import Sampler
from basecall_train.training import Trainer, load_average

HEARS = Shape(width=16, layers=0, stride=6, state_length=2, hears=("early", "late"))


@pytest.fixture(scope="module")
def layered(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy teacher with two layers in the order of recurrent ones: distances to the levels, and which are small."""
    model = onnx.load(world.folder / "teacher.onnx")
    model.graph.node.append(helper.make_node("Transpose", ["distance"], ["early"], perm=[2, 0, 1]))
    model.graph.node.append(helper.make_node("Softmax", ["early"], ["late"], axis=-1))
    path = tmp_path_factory.mktemp("layered") / "teacher.onnx"
    onnx.save(model, str(path))
    return path


def made(prepared, teacher: Path, shape: Shape, **changes) -> Trainer:
    recipe, store = prepared
    recipe = replace(recipe, training=replace(recipe.training, **changes), shape=shape)
    return Trainer(recipe, Sampler(recipe, store), (CPU,), teacher=teacher)


def test_layers_say_what_the_teacher_computes(layered):
    signal = torch.randn(3, 1, 90, generator=torch.Generator().manual_seed(1))
    logits = onnxruntime.InferenceSession(layered).run(["logits"], {"signal": signal.numpy()})[0].transpose(1, 0, 2)
    hearing = Hearing(layered, ("early", "late"))
    said = hearing(signal)
    assert list(said) == ["early", "late"] and hearing.channels == 10
    np.testing.assert_allclose(said["early"], logits, rtol=1e-5)
    np.testing.assert_allclose(said["late"], torch.from_numpy(logits).softmax(-1), atol=1e-6)


@pytest.mark.parametrize(
    "layers, message", [(("nobody",), "no operator gives nobody"), (("early", "logits"), r"logits is \[1, 5, 5\], not \[5, 1,")]
)
def test_layers_that_cannot_be_heard_are_refused(layered, layers, message):
    with pytest.raises(ValueError, match=message):
        Hearing(layered, layers)


def test_a_teacher_is_needed(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such network"):
        build(HEARS, tmp_path / "teacher.onnx")
    with pytest.raises(ValueError, match="whose layers early, late are"):
        build(HEARS, None)


@pytest.mark.parametrize("changes", [{"layers": 1}, {"state_length": 0}])
def test_what_hears_layers_is_a_crf_without_any(changes):
    with pytest.raises(ValueError, match="layers = 0"):
        replace(HEARS, **changes)


def test_it_learns_to_read_and_the_teacher_stays_as_it_is(prepared, layered, tmp_path):
    t = made(prepared, layered, HEARS, steps=80)
    before = layered.read_bytes()
    steps = [t.advance(t._sampler.batch(step)) for step in range(80)]
    assert steps[-1].surprise < 0.5 * steps[0].surprise
    assert {name.split(".")[0] for name in t.network.state_dict()} == {"mix", "head"}
    assert layered.read_bytes() == before


def test_a_resumed_run_ends_like_an_unbroken_one(prepared, layered, tmp_path):
    whole, broken, resumed = (made(prepared, layered, HEARS, steps=6) for _ in range(3))
    whole.run(tmp_path / "whole.pt")
    broken.run(tmp_path / "broken.pt", stopped=lambda: broken.step == 3)
    resumed.load(tmp_path / "broken.pt")
    resumed.run(tmp_path / "broken.pt")
    assert torch.equal(weights(resumed.network), weights(whole.network))
    assert torch.equal(weights(load_average(tmp_path / "broken.pt", layered)), weights(whole.average))


def test_what_is_written_is_read_again(layered, tmp_path):
    torch.manual_seed(3)
    network = build(HEARS, layered).eval()
    listener.write(network, tmp_path / "mentor.onnx")
    again = export.read(tmp_path / "mentor.onnx", layered)
    assert isinstance(again, Listener) and again.shape == network.shape
    signal = torch.randn(2, 1, 90)
    assert torch.equal(again.eval()(signal), network(signal))
    with pytest.raises(ValueError, match=r"mentor.onnx: .* whose layers"):
        export.read(tmp_path / "mentor.onnx")


def test_the_layers_of_another_teacher_are_not_read(layered, tmp_path):
    listener.write(build(HEARS, layered).eval(), tmp_path / "mentor.onnx")
    other = onnx.load(layered)
    other.doc_string = "another"
    onnx.save(other, str(tmp_path / "other.onnx"))
    with pytest.raises(ValueError, match=r"mentor.onnx: hears a teacher with the SHA-256 \w+, .*other.onnx has"):
        export.read(tmp_path / "mentor.onnx", tmp_path / "other.onnx")


def test_the_command_writes_it_without_the_teacher(world, layered, tmp_path, capsys):
    text = world.recipe.read_text().replace(
        "layers = 2\nstem = 4", 'layers = 0\nstride = 6\nstate_length = 2\nhears = ["early", "late"]'
    )
    text = text.replace("steps = 150", "steps = 2").replace('"teacher.onnx"', f'"{layered}"')
    (tmp_path / "toy.toml").write_text(text)
    work, model = tmp_path / "work", tmp_path / "model"
    for command in (["prepare", "--data", str(world.folder)], ["train"], ["export", "--model", str(model)]):
        assert main([command[0], str(tmp_path / "toy.toml"), "--work", str(work), *command[1:]]) == 0
    assert [file.name for file in model.iterdir()] == ["model.onnx"]
    folders = ["--data", str(world.folder), "--model", str(model)]
    assert main(["evaluate", str(tmp_path / "toy.toml"), *folders]) == 1
    assert "a mentor, not a model to judge" in capsys.readouterr().err
    assert main(["all", str(tmp_path / "toy.toml"), "--work", str(work), *folders]) == 0
    written = export.read(model / "model.onnx", layered)
    assert torch.equal(weights(written), weights(load_average(work / "checkpoint.pt", layered)))
    assert Recipe.load(tmp_path / "toy.toml").shape.hears == ("early", "late")


def test_it_is_heard_beside_other_mentors_by_its_share(prepared, layered, tmp_path):
    torch.manual_seed(4)
    networks = [Basecaller(CRF).eval(), build(HEARS, layered).eval()]
    export.write(networks[0], tmp_path / "0.onnx")
    listener.write(networks[1], tmp_path / "1.onnx")
    signal = torch.randn(2, 1, 90)
    with torch.no_grad():
        apart = [network(signal) for network in networks]
    told = Mentors(networks, [CPU]).scores(signal, np.array([[3.0, 1.0], [0.0, 2.0]]), torch.float32)
    torch.testing.assert_close(told[:, 0], (3 * apart[0] + apart[1])[:, 0] / 4)
    torch.testing.assert_close(told[:, 1], apart[1][:, 1])
    files = tuple(str(tmp_path / f"{n}.onnx") for n in range(2))
    t = made(prepared, layered, CRF, steps=60, mentors=files, mentored=1.0, mentor_shares=(3.0, 1.0))
    assert t._shares.tolist() == [[3.0, 1.0]] * len(t._shares)
    steps = [t.advance(t._sampler.batch(step)) for step in range(60)]
    assert steps[-1].divergence < 0.5 * steps[0].divergence


def test_a_teacher_of_several_is_run_once_and_only_where_they_count(layered, monkeypatch):
    torch.manual_seed(6)
    networks = [build(HEARS, layered), Basecaller(CRF), build(replace(HEARS, width=8, hears=("late",)), layered)]
    networks = [one.eval() for one in networks]
    signal = torch.randn(3, 1, 90)
    with torch.no_grad():
        apart = [network(signal) for network in networks]
    mentors = Mentors(networks, [CPU])
    heard, hear = [], Hearing.__call__
    monkeypatch.setattr(Hearing, "__call__", lambda self, signal: heard.append(signal) or hear(self, signal))
    shares = np.array([[2.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]])
    told = mentors.scores(signal, shares, torch.float32)
    torch.testing.assert_close(told[:, 0], (2 * apart[0] + apart[1] + apart[2])[:, 0] / 4)
    torch.testing.assert_close(told[:, 1], apart[1][:, 1])
    torch.testing.assert_close(told[:, 2], apart[2][:, 2])
    assert len(heard) == 1 and torch.equal(heard[0], signal[[0, 2]])


@pytest.mark.parametrize("shares", [(1.0,), (1.0, -0.5), (0.0, 0.0), (1.0, 1.0, 1.0)])
def test_shares_are_one_for_each_mentor(world, tmp_path, shares):
    with pytest.raises(ValueError, match="training: mentor_shares are as many as mentors"):
        Training(steps=1, mentors=("a", "b"), mentored=1.0, mentor_shares=shares)
    text = world.recipe.read_text().replace("steps = 150", 'steps = 150\nmentors = ["a", "b"]\nmentored = 1.0')
    text = text.replace("[[source]]", f"[[source]]\nmentor_shares = {list(shares)}", 1)
    text = text.replace("layers = 2", "layers = 2\nstate_length = 2", 1)
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(ValueError, match=r"recipe\.toml: source .*: mentor_shares are as many as mentors"):
        Recipe.load(tmp_path / "recipe.toml")


def test_a_source_may_have_shares_of_its_own(prepared, layered, tmp_path):
    torch.manual_seed(5)
    networks = [Basecaller(CRF).eval(), build(HEARS, layered).eval()]
    export.write(networks[0], tmp_path / "0.onnx")
    listener.write(networks[1], tmp_path / "1.onnx")
    recipe, store = prepared
    first = recipe.sources[0]
    training = replace(recipe.training, steps=1, mentors=tuple(str(tmp_path / f"{n}.onnx") for n in range(2)), mentored=1.0)
    recipe = replace(recipe, training=training, shape=CRF, sources=(first, replace(first, mentor_shares=(0.0, 1.0))))
    t = Trainer(recipe, Sampler(recipe, store), (CPU,), teacher=layered)
    batch = t._sampler.batch(0)
    assert set(batch.sources) == {0, 1}
    space = StateSpace(CRF.state_length)
    inner = slice(t._border, -t._border)
    with torch.no_grad():
        apart = [network(batch.signal)[inner] for network in networks]
        scores = t.network(batch.signal)
        piece = slice(0, len(batch.signal))
        found = t._path_loss(scores, batch.signal, batch, piece)[1]
    of_its_own = torch.from_numpy(batch.sources == 1)[None, :, None]
    expected = space.divergence(scores[inner].contiguous(), torch.where(of_its_own, apart[1], (apart[0] + apart[1]) / 2)).sum()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
