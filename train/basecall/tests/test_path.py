from itertools import product

import numpy as np
import pytest

from basecall_train.path import NOWHERE, OUTLIER, Chain, draw_paths


def chain(current, means, leave: float, low=None, spread: float = 0.5) -> Chain:
    current, means = np.atleast_2d(current).astype(np.float32), np.atleast_2d(means).astype(np.float32)
    low = np.zeros(current.shape, np.int64) if low is None else np.atleast_2d(low)
    return Chain(current, means, np.full(means.shape, spread, np.float32), low, np.full(len(current), leave))


def posterior(current, means, leave: float, spread: float) -> dict[tuple[int, ...], float]:
    """Returns the probability of every path, by enumeration."""
    weights = {}
    for states in product(range(len(means)), repeat=len(current)):
        steps = np.diff(states)
        if ((steps < 0) | (steps > 1)).any():
            continue
        z = (np.array(current) - np.array(means)[list(states)]) / spread
        weights[states] = np.prod(np.where(steps == 1, leave, 1 - leave)) * np.prod(np.exp(-0.5 * z**2) + OUTLIER)
    total = sum(weights.values())
    return {states: weight / total for states, weight in weights.items()}


def test_paths_come_as_often_as_they_are_probable():
    current, means, draws = [0.1, 0.6, 0.4, 1.2], [0.0, 1.0, 0.9], 20_000
    one = chain(np.tile(current, (draws, 1)), np.tile(means, (draws, 1)), 0.3)
    paths, counts = np.unique(draw_paths(one, 3, np.random.default_rng(1)), axis=0, return_counts=True)
    found = {tuple(path): count / draws for path, count in zip(paths.tolist(), counts, strict=True)}
    expected = posterior(current, means, 0.3, 0.5)
    assert found.keys() <= expected.keys()
    # Five standard errors of a share.
    assert all(abs(found.get(path, 0) - p) < 5 * np.sqrt(p / draws) + 1e-3 for path, p in expected.items())


def test_samples_are_shared_out_between_equal_levels():
    current = np.concatenate([np.zeros(20), np.full(40, 3.0), np.zeros(20)])
    one = chain(np.tile(current, (500, 1)), np.tile([0.0, 3.0, 3.0, 0.0], (500, 1)), 0.1, spread=0.3)
    states = draw_paths(one, 4, np.random.default_rng(2))
    first, second = (states == 1).sum(1), (states == 2).sum(1)
    assert (first + second == 40).mean() > 0.99
    assert abs(first.mean() - 20) < 2 and first.std() > 5


def test_a_band_follows_a_long_chain():
    rng = np.random.default_rng(3)
    means = rng.normal(0, 1, 200)
    dwell = rng.integers(3, 12, 200)
    truth = np.repeat(np.arange(200), dwell)
    current = means[truth] + rng.normal(0, 0.1, len(truth))
    band = 16
    low = np.arange(len(truth)) * 200 // len(truth) - band // 2
    states = draw_paths(chain(current, means, 0.15, low, 0.1), band, rng)[0]
    assert (np.diff(states) >= 0).all() and (np.diff(states) <= 1).all()
    assert ((states >= low) & (states < low + band)).all() and states.min() >= 0 and states.max() < 200
    assert (states == truth).mean() > 0.95


def test_rows_do_not_mix():
    rng = np.random.default_rng(4)
    long, short = rng.permutation(30) / 1.0, rng.permutation(20) / 1.0
    current = np.stack([np.repeat(long, 4), np.repeat(np.append(short, np.full(10, short[-1])), 4)])
    means = np.stack([long, np.append(short, np.full(10, NOWHERE))])
    states = draw_paths(chain(current, means, 0.25, spread=0.05), 30, rng)
    assert (states[0] == np.repeat(np.arange(30), 4)).all()
    assert states[1].max() == 19 and (states[1, :76] == np.repeat(np.arange(19), 4)).all()


@pytest.mark.parametrize("low, fault", [([0, 2, 2, 2], "rise by"), ([1, 0, 0, 0], "rise by"), ([0, 1, 2, 9], "leaves")])
def test_bands_that_jump_are_refused(low, fault):
    with pytest.raises(ValueError, match=fault):
        draw_paths(chain(np.zeros(4), np.zeros(5), 0.3, np.array(low)), 2, np.random.default_rng(0))
