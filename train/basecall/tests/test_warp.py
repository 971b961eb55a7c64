import itertools
from dataclasses import replace

import numpy as np
import pytest

from basecall_train.calling import Model
from basecall_train.network import STRIDE
from basecall_train.recipe import Augmentation, Recipe
from basecall_train.store import TEACHER, Sampler, _Chunks, prepare
from basecall_train.targets import (
    SEGMENT_FRAMES,
    UNKNOWN,
    conditioned_again,
    cut_where_sure,
    known_stretches,
    occupancy,
)
from basecall_train.warp import pace, warped


def piece(rng: np.random.Generator, frames: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns a piece whose current says, at every sample, when it was; one frame in three emits."""
    bases = np.where(rng.random(frames) < 0.33, rng.integers(1, 5, frames), 0).astype(np.uint8)
    bases[1:][bases[1:] == bases[:-1]] = 0  # side by side they would be one base
    targets = np.full((frames, 5), 0.02, np.float32)
    targets[np.arange(frames), bases] = 0.92
    return np.arange(frames * STRIDE, dtype=np.float32), targets, bases


def greedily(targets: np.ndarray) -> np.ndarray:
    """Returns the classes that the best path spells."""
    best = targets.argmax(1)
    return best[(best > 0) & (best != np.concatenate([[0], best[:-1]]))]


def test_a_base_over_two_frames_stays_one():
    targets = np.tile(np.float32([0.96, 0.01, 0.01, 0.01, 0.01]), (60, 1))
    bases = np.zeros(60, np.uint8)
    for frame in range(3, 57, 5):
        targets[frame : frame + 2] = (0.2, 0.01, 0.77, 0.01, 0.01)
        bases[frame] = 2
    for frames in (48, 55, 66, 75):
        _, distributions, spelled = warped(np.zeros(180, np.float32), targets, bases, frames)
        assert len(greedily(distributions)) == 11 == (spelled > 0).sum()


@pytest.mark.parametrize("old, new", [(600, 480), (600, 720), (601, 600), (599, 600), (300, 220)])
def test_a_warped_piece_spells_the_same(old, new):
    rng = np.random.default_rng(old + new)
    for _ in range(20):
        current, targets, bases = piece(rng, old)
        quick, distributions, spelled = warped(current, targets, bases, new)
        assert quick.shape == (new * STRIDE,) and distributions.shape == (new, 5) and spelled.shape == (new,)
        assert (spelled[spelled > 0] == bases[bases > 0]).all()
        assert np.allclose(distributions.sum(1), 1, atol=1e-5) and distributions.min() >= -1e-6
        assert (greedily(distributions) == greedily(targets)).all()
        emitting = spelled > 0
        assert (distributions.argmax(1)[emitting] == spelled[emitting]).all()
        # The current under a base still says when that base was emitted, to a few frames that crowding may cost.
        when = quick.reshape(new, STRIDE).mean(1)[emitting] / STRIDE
        assert np.abs(when - np.flatnonzero(bases)).max() < 10
        assert np.abs(when - np.flatnonzero(bases)).mean() < 1.5


def test_an_unchanged_length_changes_nothing():
    current, targets, bases = piece(np.random.default_rng(1), 90)
    quick, distributions, spelled = warped(current, targets, bases, 90)
    assert (quick == current).all() and np.allclose(distributions, targets, atol=1e-6) and (spelled == bases).all()


def test_where_there_is_no_truth_there_is_none_after():
    current, targets, bases = piece(np.random.default_rng(2), 200)
    bases[:100] = UNKNOWN
    _, _, spelled = warped(current, targets, bases, 160)
    assert (spelled[:75] == UNKNOWN).all() and (spelled[85:] != UNKNOWN).all()
    assert (spelled[(spelled > 0) & (spelled != UNKNOWN)] == bases[100:][bases[100:] > 0]).all()


def test_bases_without_room_are_refused():
    with pytest.raises(ValueError, match="fit"):
        warped(np.zeros(90, np.float32), np.tile(np.float32([0, 1, 0, 0, 0]), (30, 1)), np.ones(30, np.uint8), 20)


def test_drawn_chunks_are_of_one_length_whatever_their_speed(prepared):
    _, store = prepared
    chunks = _Chunks(store / "labelled", 360)
    rng = np.random.default_rng(3)
    lengths, plain = set(), chunks.draw(np.random.default_rng(4))
    for _ in range(50):
        current, targets, bases = chunks.draw(rng, pace(rng, 0.1, 0.0))
        assert current.shape == (360,) and targets.shape == (120, 5) and bases.shape == (120,)
        lengths.add(int((bases > 0).sum()))
    assert len(lengths) > 3
    again = chunks.draw(np.random.default_rng(4), 1.0)
    assert all((one == other).all() for one, other in zip(plain, again, strict=True))


def test_paces_are_as_wide_as_is_asked_for():
    rng = np.random.default_rng(5)
    assert {pace(rng, 0.0, 0.0) for _ in range(10)} == {1.0}
    drawn = np.array([pace(rng, 0.0, 0.4) for _ in range(2000)])
    assert drawn.min() >= 1 and drawn.max() <= 1.4 and drawn.mean() == pytest.approx(1.2, abs=0.01)
    assert np.std([pace(rng, 0.08, 0.0) for _ in range(2000)]) == pytest.approx(0.08, abs=0.005)


@pytest.mark.parametrize("warp", [-0.1, 0.5])
def test_a_warp_that_leaves_no_room_is_refused(warp):
    with pytest.raises(ValueError, match="warp"):
        Augmentation(warp=warp)


def test_chunks_of_another_speed_are_heard_anew(world, tmp_path):
    (tmp_path / "quick.toml").write_text(
        world.recipe.read_text().replace("share = 1", "share = 1\nfaster = 0.3\ntruth_weight = 1.0")
    )
    quick = Recipe.load(tmp_path / "quick.toml")
    prepare(quick, world.folder, tmp_path / "store")
    sampler = Sampler(replace(quick, augmentation=Augmentation(0, 0, 0, 0)), tmp_path / "store")
    teacher = Model(tmp_path / "store" / TEACHER, quick.teacher)
    right = believed = 0
    for step in range(8):
        batch = sampler.batch(step)
        heard = teacher.scores(batch.signal[:, 0].numpy())
        targets = batch.targets.permute(1, 0, 2).numpy()
        assert np.allclose(targets.sum(-1), 1, atol=1e-3) and targets.min() >= 0
        for n, bases in enumerate(batch.bases):
            unknown = bases == UNKNOWN
            assert np.array_equal(targets[n, unknown], heard[n, unknown])
            for part in known_stretches(bases):
                inside = targets[n, part.begin : part.end]
                if not np.array_equal(inside, heard[n, part.begin : part.end]):
                    best = inside.argmax(-1)
                    called = best[np.concatenate([[True], best[1:] != best[:-1]])]
                    believed += 1
                    right += np.array_equal(called[called > 0], part.classes)
    assert believed > 10 and right >= 0.7 * believed, (right, believed)  # the best classes of a frame need not spell the truth


def test_chunks_of_which_only_the_bases_count_are_not_heard_anew(world, tmp_path, monkeypatch):
    (tmp_path / "quick.toml").write_text(
        world.recipe.read_text().replace("share = 1", "share = 1\nfaster = 0.3\nknown = 1.0").replace("ctc = 0.5", "ctc = 1.0")
    )
    quick = Recipe.load(tmp_path / "quick.toml")
    prepare(quick, world.folder, tmp_path / "store")
    heard = []
    scores = Model.scores
    monkeypatch.setattr(Model, "scores", lambda model, windows: heard.append(len(windows)) or scores(model, windows))
    bases = {}
    for start in (0.0, 0.3):  # the frames count until then
        heard.clear()
        recipe = replace(quick, training=replace(quick.training, ctc_start=start))
        bases[start] = Sampler(recipe, tmp_path / "store").batch(0).bases
        assert bool(heard) == (start > 0)
    assert (bases[0.0] != UNKNOWN).all() and np.array_equal(*bases.values())


def test_a_teacher_that_disagrees_is_left_alone():
    posteriors = np.full((1, 60, 5), 0.0025)
    posteriors[:, :, 1] = 0.99  # it calls A all the time
    bases = np.zeros((1, 60), np.uint8)
    bases[0, ::3] = 2
    assert np.array_equal(conditioned_again(posteriors, bases, np.ones(1)), posteriors)


def test_only_stretches_with_room_are_conditioned():
    bases = np.full(20, UNKNOWN, np.uint8)
    bases[2:6] = (1, 0, 1, 0)
    bases[10:13] = (2, 2, 3)  # equal ones without a blank between them
    bases[15:17] = 0
    (only,) = known_stretches(bases)
    assert (only.begin, only.end, list(only.classes)) == (2, 6, [1, 1])


def test_parts_of_a_long_stretch_are_conditioned_as_the_whole():
    rng = np.random.default_rng(6)
    frames = 1200
    bases = np.zeros(frames, np.uint8)
    bases[1::3] = rng.integers(1, 5, frames // 3)
    heard = np.where(rng.random(frames) < 0.1, rng.integers(0, 5, frames), bases)  # it mishears every tenth frame
    posteriors = np.full((frames, 5), 0.0125)
    posteriors[np.arange(frames), heard] = 0.95
    (stretch,) = known_stretches(bases)
    parts = cut_where_sure(stretch, posteriors, bases)
    assert len(parts) > 3 and min(part.end - part.begin for part in parts) >= SEGMENT_FRAMES
    assert all(a.end == b.begin for a, b in itertools.pairwise(parts))
    assert np.array_equal(np.concatenate([part.classes for part in parts]), stretch.classes)
    whole, _ = occupancy([posteriors], [stretch.classes])
    cut, _ = occupancy([posteriors[part.begin : part.end] for part in parts], [part.classes for part in parts])
    assert np.abs(np.concatenate(cut) - whole[0]).mean() < 1e-3
    # Nothing is cut where the teacher is never sure.
    assert cut_where_sure(stretch, np.full((frames, 5), 0.2), bases)[0].end == stretch.end


def test_a_fast_piece_has_the_noise_of_a_slow_one():
    rng = np.random.default_rng(4)
    current = rng.standard_normal(9000).astype(np.float32)
    quick, _, _ = warped(current, np.tile(np.float32([1, 0, 0, 0, 0]), (3000, 1)), np.zeros(3000, np.uint8), 2300)
    assert abs(quick.std() / current.std() - 1) < 0.03
    assert abs(np.corrcoef(quick[1:], quick[:-1])[0, 1]) < 0.03
