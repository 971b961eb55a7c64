from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from basecall_train import progress
from basecall_train.evaluation import Result, too_bad
from basecall_train.progress import Row, Table, draw, read
from basecall_train.recipe import Recipe
from basecall_train.store import Sampler
from basecall_train.training import Trainer

ROWS = [Row(10 * n, 30.5 * n, 1 / n, 0.0, 4e-3, 150_000.0) for n in range(1, 5)]


def test_a_run_that_goes_on_drops_the_steps_that_come_again(tmp_path):
    path = tmp_path / progress.NAME
    first = Table(path, 0)
    for row in ROWS:
        first.add(row)
    assert read(path) == [replace(row, divergence=float(f"{row.divergence:.6g}")) for row in ROWS]
    again = Table(path, 25)
    again.add(ROWS[3])
    assert [row.step for row in read(path)] == [10, 20, 40]
    Table(path, 0)
    assert read(path) == []


def test_rows_are_read_as_they_were_written(tmp_path):
    table = Table(tmp_path / "t.tsv", 0)
    table.add(ROWS[1])
    assert read(tmp_path / "t.tsv") == [ROWS[1]]


def test_what_a_crash_cut_short_is_left_out(tmp_path):
    path = tmp_path / progress.NAME
    table = Table(path, 0)
    for row in ROWS[:2]:
        table.add(row)
    path.write_text(path.read_text()[:-9])
    assert [row.step for row in read(path)] == [10]


@pytest.mark.parametrize("text, message", [("a\tb\n", "line 1"), ("\t".join(progress.COLUMNS) + "\n1\tx\n", "line 2")])
def test_another_table_is_named(tmp_path, text, message):
    (tmp_path / "wrong.tsv").write_text(text)
    with pytest.raises(ValueError, match=f"wrong.tsv: {message}"):
        read(tmp_path / "wrong.tsv")


@pytest.mark.parametrize("number", [0, 1, 4])
def test_the_picture_has_a_curve_for_what_there_is(tmp_path, number):
    draw(ROWS[:number], "a <b>", tmp_path / "p.svg")
    root = ElementTree.parse(tmp_path / "p.svg").getroot()
    svg = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{svg}title").text == "a <b>"
    curves = [path.get("d") for path in root.iter(f"{svg}path") if path.get("class") in ("a", "b")]
    assert len(curves) == (3 if number else 0)  # no surprise and no identity: they are 0
    assert all(curve.count("L") == number - 1 for curve in curves)


def test_identity_is_drawn_from_where_it_was_judged_on(tmp_path):
    rows = [replace(row, identity=identity) for row, identity in zip(ROWS, (0.0, 0.883, 0.891, 0.8925), strict=True)]
    draw(rows, "t", tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    assert "identity of calls of chunks that are not trained on</tspan> / %" in text
    assert all(f">{tick}</text>" in text for tick in ("88", "88.5", "89", "89.5", "90"))
    paths = ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}path")
    curves = [path.get("d") for path in paths if path.get("class") == "a"]
    assert [curve.count("L") for curve in curves] == [3, 2, 3, 3]


def test_a_run_tells_how_it_goes(prepared, tmp_path):
    recipe, store = prepared
    recipe = replace(recipe, training=replace(recipe.training, steps=6))
    trainer = Trainer(recipe, Sampler(recipe, store))
    trainer.run(tmp_path / "checkpoint.pt", stopped=lambda: trainer.step == 3, report_every=0)
    rows = read(tmp_path / progress.NAME)
    assert [row.step for row in rows] == [1, 2, 3]
    assert all(row.divergence > 0 and row.learning_rate > 0 and row.samples_per_second > 0 for row in rows)
    resumed = Trainer(recipe, Sampler(recipe, store))
    resumed.load(tmp_path / "checkpoint.pt")
    resumed.run(tmp_path / "checkpoint.pt")
    rows = read(tmp_path / progress.NAME)
    assert [row.step for row in rows] == [1, 2, 3, 6], "what is left of a report comes at the end"
    assert sorted(row.seconds for row in rows) == [row.seconds for row in rows]


def test_a_broken_promise_is_told(world):
    recipe = Recipe.load(world.recipe)
    one = replace(recipe.evaluations[0], least=0.8)
    recipe = replace(recipe, evaluations=(one,))
    assert too_bad(recipe, [Result(one.name, identities=[0.7, 0.95])]) == ""
    assert (
        too_bad(recipe, [Result(one.name, identities=[0.7, 0.85])]) == "held out: mean identity 77.50 %, the recipe promises 80 %"
    )


def test_the_shipped_recipes_are_read():
    recipes = {path.stem: Recipe.load(path) for path in (Path(__file__).parents[1] / "recipes").glob("*.toml")}
    small = recipes["r9.4-small"]
    assert small.training.minutes < 10 and small.evaluations[0].least == 0.8
    assert all(one.recordings not in [source.recordings for source in small.sources] for one in small.evaluations)
