"""A CRF from recordings to calls, by the program that users have."""

import os
from pathlib import Path

import numpy as np
import pytest

from basecall_train.__main__ import main
from basecall_train.engine import Engine
from basecall_train.manifest import Manifest
from basecall_train.recipe import Recipe
from basecall_train.store import Sampler, prepare

PORE = Path(__file__).parents[3] / "bin" / "pore"


@pytest.fixture
def pore() -> Path:
    if not PORE.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{PORE} is missing: make build comes first")
        pytest.skip("bin/pore is missing: run make build")
    return PORE


@pytest.fixture
def recipe(world, tmp_path: Path) -> Path:
    text = (
        world.recipe.read_text()
        .replace("stem = 4", "stem = 4\nstride = 6\nstate_length = 3")
        .replace('chemistry = "toy"', 'chemistry = "r9.4"')
    )
    (tmp_path / "crf.toml").write_text(text)
    return tmp_path / "crf.toml"


def test_the_engine_calls_what_was_trained(world, recipe, tmp_path, pore):
    folders = ["--data", str(world.folder), "--work", str(tmp_path / "work"), "--model", str(tmp_path / "toy")]
    assert main(["all", str(recipe), *folders, "--pore", str(pore)]) == 0
    manifest = Manifest.load(tmp_path / "toy" / "manifest.toml")
    assert manifest.state_length == 3 and manifest.stride == 6 and manifest.quality_curve
    card = (tmp_path / "toy" / "MODEL_CARD.md").read_text()
    assert "`pore basecall`" in card and "3-mers (CRF" in card and "2 of 2" in card
    calls = list(Engine(pore, tmp_path / "toy").calls(world.folder / "held-out.blow5"))
    assert len(calls) == 2 and all(abs(len(call.bases) - 800) < 40 for call in calls)
    assert all(len(call.probabilities) == len(call.bases) and np.isfinite(call.probabilities).all() for call in calls)


def test_without_the_engine_a_crf_is_not_judged(world, recipe, tmp_path, capsys):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "model.onnx").write_bytes(b"")
    Manifest("m", "1", "", "r9.4", (4000,), 6, 900, 120, scores="transitions", state_length=3).write(tmp_path / "toy")
    assert main(["evaluate", str(recipe), "--data", str(world.folder), "--model", str(tmp_path / "toy")]) == 1
    assert "--pore" in capsys.readouterr().err
    status = main(["evaluate", str(recipe), "--data", str(world.folder), "--model", str(tmp_path / "toy"), "--pore", "no/such"])
    assert status == 1 and "no/such: no such program" in capsys.readouterr().err


def test_a_teacher_hears_what_the_engine_simulates(world, tmp_path, pore, capsys):
    simulated = 'simulated_from = "genome.fa"\nsimulate = ["--depth=2", "--seed=3"]'
    table = world.recipe.read_text().replace('recordings = "reads.blow5"', simulated, 1)
    assert "simulated_from" in table
    (tmp_path / "simulated.toml").write_text(table)
    command = ["prepare", str(tmp_path / "simulated.toml"), "--data", str(world.folder), "--work", str(tmp_path / "work")]
    assert main(command) == 1
    assert "--pore" in capsys.readouterr().err
    recipe = Recipe.load(tmp_path / "simulated.toml")
    prepared = []
    for name in ("once", "again"):
        prepare(recipe, world.folder, tmp_path / name, pore)
        folder = tmp_path / name / recipe.sources[0].name
        prepared.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert prepared[0] == prepared[1]  # signal of the same seed
    assert "signal.npy" in prepared[0]
    assert not list((tmp_path / "once").rglob("*.pod5"))
    prepare(recipe, world.folder, tmp_path / "once")  # files that are there already need no program
    assert Sampler(recipe, tmp_path / "once").batch(0).signal.isfinite().all()


def test_what_cannot_be_simulated_is_said(world, tmp_path, pore, capsys):
    text = world.recipe.read_text()
    for change, fault in [
        ('simulated_from = "genome.fa"\nsimulate = ["--speed=fast"]', "simulate"),
        ('simulated_from = "no-such.fa"', "no-such.fa"),
        ('recordings = "reads.blow5"\nsimulated_from = "genome.fa"', "give one of"),
        ('recordings = "reads.blow5"\nsimulate = ["--depth=2"]', "simulated_from"),
    ]:
        (tmp_path / "wrong.toml").write_text(text.replace('recordings = "reads.blow5"', change, 1))
        folders = ["--data", str(world.folder), "--work", str(tmp_path / "work")]
        assert main(["prepare", str(tmp_path / "wrong.toml"), *folders, "--pore", str(pore)]) == 1
        assert fault in capsys.readouterr().err
