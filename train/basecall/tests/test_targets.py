from itertools import combinations, product

import numpy as np
import pytest
from test_overlaps import heard, random_bases
from test_relatives import true_frames

from basecall_train.alignment import Reference
from basecall_train.calling import Model, greedy
from basecall_train.manifest import ALPHABET
from basecall_train.recipe import Recipe
from basecall_train.signal import read_recording
from basecall_train.targets import FLOOR, UNKNOWN, condition, emission_frames, occupancy


def brute_force(posteriors: np.ndarray, spelled: list[int]) -> np.ndarray:
    """Sums over all paths that spell the classes."""
    total = np.zeros_like(posteriors)
    for path in product(range(5), repeat=len(posteriors)):
        merged = [c for i, c in enumerate(path) if c and (i == 0 or c != path[i - 1])]
        if merged == spelled:
            weight = np.prod([posteriors[t, c] for t, c in enumerate(path)])
            total[np.arange(len(path)), path] += weight
    return total / total[0].sum()


@pytest.mark.parametrize("spelled", [[1], [1, 1], [2, 4], [3, 3]])
def test_occupancy_is_the_sum_over_paths(spelled):
    posteriors = np.random.default_rng(1).dirichlet(np.ones(5), 5)
    (conditioned,), _ = occupancy([posteriors], [np.array(spelled)])
    assert np.abs(conditioned - brute_force(posteriors, spelled)).max() < 2e-3  # the floor moves it a little


def test_items_of_a_batch_do_not_mix():
    rng = np.random.default_rng(2)
    posteriors = [rng.dirichlet(np.ones(5), n) for n in (6, 9)]
    spelled = [np.array([1, 2]), np.array([4, 4, 1])]
    together, losses = occupancy(posteriors, spelled)
    for p, s, conditioned, loss in zip(posteriors, spelled, together, losses, strict=True):
        (alone,), (loss_alone,) = occupancy([p], [s])
        assert np.allclose(conditioned, alone, atol=1e-5) and loss == pytest.approx(loss_alone, abs=1e-5)


def test_the_truth_repairs_a_teacher(world):
    recipe = Recipe.load(world.recipe)
    model = Model(world.folder / "teacher.onnx", recipe.teacher)
    read = next(read_recording(world.folder / "reads.blow5"))
    truth = world.reads[read.id]
    posteriors = model.posteriors(read.raw)
    assert greedy(posteriors, ALPHABET).bases == truth
    doubtful = posteriors.copy()
    doubtful[300:303] = (0.8, 0.05, 0.05, 0.05, 0.05)
    doubtful[301] = (0.6, 0.1, 0.1, 0.1, 0.1)
    doubtful[301, ALPHABET.index(truth[100])] = 0.3  # base 100 is called as a blank
    assert greedy(doubtful, ALPHABET).bases != truth
    conditioned = condition(doubtful, Reference({"genome": world.genome}))
    assert greedy(conditioned.targets, ALPHABET).bases == truth
    assert conditioned.known > 0.8 * len(posteriors)
    assert np.allclose(conditioned.targets.sum(-1), 1, atol=1e-3)
    known = conditioned.bases != UNKNOWN
    spelled = "".join(ALPHABET[k] for k in conditioned.bases[known & (conditioned.bases > 0)])
    assert spelled in truth and conditioned.bases[301] == ALPHABET.index(truth[100])


def test_another_genome_is_not_believed(world):
    recipe = Recipe.load(world.recipe)
    read = next(read_recording(world.folder / "reads.blow5"))
    posteriors = Model(world.folder / "teacher.onnx", recipe.teacher).posteriors(read.raw)
    strange = "".join(np.random.default_rng(9).choice(list("ACGT"), 5000))
    conditioned = condition(posteriors, Reference({"strange": strange}))
    assert conditioned.known == 0 and (conditioned.targets == posteriors).all()


@pytest.mark.parametrize("fault", ["wrong", "unaligned"])
def test_a_bad_read_has_a_truth_where_one_is_asked_for(fault):
    rng = np.random.default_rng(4)
    genome = random_bases(3000, rng)
    if fault == "wrong":
        read = genome[500:2500]
        ear = heard(read, rng, wrong=0.23)
    else:  # as an adapter is, but longer
        read = random_bases(500, rng) + genome[1000:2500]
        ear = heard(read, rng, wrong=0)
    reference = Reference({"genome": genome})
    assert condition(ear.posteriors, reference).known == 0
    assert condition(ear.posteriors, reference, *((0.8, 0.5) if fault == "wrong" else (0.5, 0.9))).known == 0
    bases = condition(ear.posteriors, reference, 0.7, 0.5).bases
    known = bases != UNKNOWN
    true, called = true_frames(read), np.zeros(3 * len(read), np.uint8)
    called[ear.call.frames] = [ALPHABET.index(base) for base in ear.call.bases]
    assert known.mean() > 0.7
    assert (bases != true)[known].mean() < 0.5 * max(0.04, (called != true)[known].mean())


@pytest.mark.parametrize("classes", [[1, 2, 3], [4, 4], [2] * 6])
def test_emission_frames_are_the_best_in_order(classes):
    conditioned = np.random.default_rng(3).dirichlet(np.ones(5), 8)
    found = emission_frames(conditioned, np.array(classes))

    def worth(frames) -> float:
        return np.log(conditioned[list(frames), classes] + FLOOR).sum()

    assert worth(found) == pytest.approx(max(worth(some) for some in combinations(range(8), len(classes))))
    assert (np.diff(found) > 0).all()
