from dataclasses import replace

import numpy as np
import pytest
import torch

from basecall_train import progress
from basecall_train.alignment import global_identity
from basecall_train.calling import Model
from basecall_train.network import Basecaller, Shape
from basecall_train.recipe import Recipe
from basecall_train.store import Sampler, prepare
from basecall_train.targets import UNKNOWN
from basecall_train.training import Trainer
from basecall_train.watched import Watched, identity, prepare_watched, watched


def codes(text):
    return np.array(["-ACGT".index(base) for base in text], np.uint8)


@pytest.mark.parametrize(
    ("called", "truth", "matches", "columns"),
    [
        ("ACGT", "ACGT", 4, 4),
        ("ACT", "ACGT", 3, 4),
        ("ACGGT", "ACGT", 4, 5),
        ("ATGT", "ACGT", 3, 4),
        ("", "ACG", 0, 3),
        ("ACG", "", 0, 3),
        ("AC", "CA", 0, 2),  # as many edits as with one match in three columns
        ("GATTACA", "GCATGCA", 4, 7),
    ],
)
def test_the_alignment_has_the_fewest_edits_and_then_columns(called, truth, matches, columns):
    assert global_identity(codes(called), codes(truth)) == (matches, columns)


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(last + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def test_what_is_not_a_match_is_an_edit():
    rng = np.random.default_rng(1)
    for _ in range(50):
        a, b = (rng.integers(1, 5, rng.integers(0, 60), dtype=np.uint8) for _ in range(2))
        matches, columns = global_identity(a, b)
        assert columns - matches == edits(a, b)
        assert max(len(a), len(b)) <= columns <= len(a) + len(b)


def watching(world, chunks):
    recipe = Recipe.load(world.recipe)
    return replace(recipe, evaluations=tuple(replace(one, watched=chunks) for one in recipe.evaluations))


def test_chunks_are_of_the_reads_that_are_not_trained_on(world, tmp_path):
    recipe = watching(world, 2)
    prepare(recipe, world.folder, tmp_path)
    (one,) = watched(recipe, tmp_path)
    assert one.name == "held out" and one.signal.shape == (2, 360) and one.bases.shape == (2, 120)
    assert (one.bases != UNKNOWN).all()
    complement = str.maketrans("ACGT", "TGCA")
    for bases in one.bases:
        spelled = "".join("-ACGT"[base] for base in bases[bases > 0])
        assert len(spelled) >= 36
        assert spelled in world.genome or spelled.translate(complement)[::-1] in world.genome
    teacher = Model(world.folder / recipe.teacher_file, recipe.teacher)
    kept = (tmp_path / "watched held out.npz").stat().st_mtime_ns
    prepare_watched(recipe, world.folder, tmp_path, teacher)
    assert (tmp_path / "watched held out.npz").stat().st_mtime_ns == kept
    longer = replace(recipe, training=replace(recipe.training, chunk=720))
    with pytest.raises(ValueError, match="watched held out.npz: not prepared for this recipe"):
        watched(longer, tmp_path)
    prepare_watched(longer, world.folder, tmp_path, teacher)
    assert watched(longer, tmp_path)[0].signal.shape == (2, 720)


def test_more_chunks_than_reads_are_refused(world, tmp_path):
    with pytest.raises(ValueError, match="held out: watched = 3, but only 2 of its reads have 360 samples in a row"):
        prepare(watching(world, 3), world.folder, tmp_path)


def test_nothing_is_watched_unless_asked_for(prepared):
    recipe, store = prepared
    assert watched(recipe, store) == []
    assert Trainer(recipe, Sampler(recipe, store)).judge([]) == 0


def test_borders_are_not_judged():
    class Says(Basecaller):
        def forward(self, signal):
            return torch.nn.functional.one_hot(torch.from_numpy(said.astype(np.int64)).T, 5).float()

    truth = np.zeros((1, 40), np.uint8)
    truth[0, ::4] = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    said = truth.copy()
    said[0, 0] = said[0, 36] = 4
    chunk = Watched("w", np.zeros((1, 120), np.float32), truth)
    network = Says(Shape(width=4, layers=1, stem=2))
    assert identity(network, chunk, 4) == 1
    assert identity(network, chunk, 0) == pytest.approx(0.8)


def test_of_a_crf_the_likeliest_moves_are_judged():
    class Says(Basecaller):
        def forward(self, signal):
            return torch.from_numpy(scores[:, None])

    truth = np.zeros((1, 40), np.uint8)
    truth[0, ::4] = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    scores = np.full((20, 16), -5, np.float32)
    before = 0
    for n, base in enumerate(truth[0, ::4] - 1):
        scores[2 * n, base * 4 + before] = 5
        before = base
    network = Says(Shape(width=4, layers=1, stem=2, stride=6, state_length=1))
    chunk = Watched("w", np.zeros((1, 120), np.float32), truth)
    assert identity(network, chunk, 0) == 1
    scores[18] = scores[0]  # the last base is an A behind a C
    scores[18, 0 * 4 + 0] = 5
    assert identity(network, chunk, 0) == pytest.approx(0.9)
    assert identity(network, chunk, 4) == 1


def test_a_run_tells_how_well_it_calls_what_it_has_not_seen(world, tmp_path):
    recipe = watching(world, 2)
    recipe = replace(recipe, training=replace(recipe.training, steps=60))
    prepare(recipe, world.folder, tmp_path)
    trainer = Trainer(recipe, Sampler(recipe, tmp_path))
    before = trainer.judge(watched(recipe, tmp_path))
    trainer.run(tmp_path / "checkpoint.pt", report_every=0, save_every=0, watched=watched(recipe, tmp_path))
    rows = progress.read(tmp_path / progress.NAME)
    assert before < 0.5 and rows[-1].identity > 0.9
    assert rows[-1].identity == pytest.approx(trainer.judge(watched(recipe, tmp_path)), abs=1e-5)
