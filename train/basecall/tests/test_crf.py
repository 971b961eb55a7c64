"""Against all paths, one by one."""

from itertools import product

import numpy as np
import pytest
import torch

from basecall_train.crf import StateSpace


def paths(space: StateSpace, scores):
    """Yields every path through scores [T, 4^(k+1)]: its first state, the bases that it emits and the logarithm of its weight."""
    frames, k = len(scores), space.length
    for first in product(range(4), repeat=k):
        for steps in product([None, 0, 1, 2, 3], repeat=frames):
            state, weight = first, 0.0
            for t, base in enumerate(steps):
                if base is None:
                    weight += space.stay
                    continue
                dropped, state = state[0], (*state[1:], base)
                index = sum(b * 4 ** (k - 1 - i) for i, b in enumerate(state))
                weight += float(scores[t, index * 4 + dropped])
            yield first, tuple(b for b in steps if b is not None), weight


@pytest.mark.parametrize("k, stay", [(1, 2.0), (2, 0.3)])
def test_all_paths_and_those_that_spell(k, stay):
    space = StateSpace(k, stay)
    scores = torch.randn(4, 2, space.scores, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
    every = [list(paths(space, scores[:, n])) for n in range(2)]
    whole = torch.stack([torch.logsumexp(torch.tensor([w for *_, w in one], dtype=torch.float64), 0) for one in every])
    torch.testing.assert_close(space.partition(scores), whole)
    before = torch.tensor([[1] * k, [3] * k])
    spelled, lengths = torch.tensor([[2, 0, 0], [1, 1, 0]]), torch.tensor([3, 2])
    expected = []
    for n, one in enumerate(every):
        wanted = tuple(before[n].tolist()), tuple(spelled[n, : lengths[n]].tolist())
        expected.append(torch.logsumexp(torch.tensor([w for f, s, w in one if (f, s) == wanted], dtype=torch.float64), 0))
    torch.testing.assert_close(space.spelling(scores, before, spelled, lengths), torch.stack(expected))


def test_probabilities_of_all_spellings_add_up_to_one():
    space = StateSpace(1, 1.0)
    scores = torch.randn(3, 1, space.scores, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    total = 0.0
    for first in range(4):
        for length in range(4):
            for bases in product(range(4), repeat=length):
                spelled = torch.tensor([list(bases) + [0] * (3 - length)])
                total += float(torch.exp(-space.loss(scores, torch.tensor([[first]]), spelled, torch.tensor([length]))))
    assert total == pytest.approx(1)


def test_gradients_are_right():
    space = StateSpace(2)
    scores = torch.randn(3, 1, space.scores, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    given = torch.tensor([[0, 1]]), torch.tensor([[2, 3]]), torch.tensor([2])
    assert torch.autograd.gradcheck(lambda s: space.loss(s, *given), scores)


def test_more_bases_than_frames_cost_much_but_no_nonsense():
    space = StateSpace(1)
    scores = torch.zeros(2, 1, space.scores, requires_grad=True)
    loss = space.loss(scores, torch.tensor([[0]]), torch.tensor([[1, 2, 3]]), torch.tensor([3]))
    loss.sum().backward()
    assert loss.item() > 1e20 and torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("length", [1, 3])
def test_the_loss_and_its_gradient_are_those_of_logarithms(length):
    space, random = StateSpace(length), torch.Generator().manual_seed(length)
    scores = (4 * torch.randn(203, 3, space.scores, generator=random)).clamp(-5, 5).requires_grad_(True)
    before = torch.randint(4, (3, length), generator=random)
    given = before, torch.randint(4, (3, 150), generator=random), torch.tensor([150, 1, 0])
    weights = torch.tensor([1.0, 2.0, 0.5])
    found, expected = space.loss(scores, *given), space._pytorchs(scores.double(), *given)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-4)
    (gradient,) = torch.autograd.grad((weights * found).sum(), scores)
    (wanted,) = torch.autograd.grad((weights * expected).sum(), scores)
    torch.testing.assert_close(gradient, wanted, rtol=1e-4, atol=1e-6)


def test_what_doubles_do_not_hold_is_found_by_logarithms():
    space = StateSpace(1)
    scores = torch.full((600, 1, space.scores), -5.0)
    scores[:, :, 0] = 5.0  # A after A, which doesn't occur
    scores.requires_grad_(True)
    given = torch.tensor([[1]]), torch.tensor([[2, 3] * 200]), torch.tensor([400])
    found, expected = space.loss(scores, *given), space._pytorchs(scores.double(), *given)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-3)
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    assert torch.isfinite(gradient).all() and gradient[:, 0, 0].min() > 0.9


@pytest.mark.parametrize("seed", range(4))
def test_a_call_is_of_the_moves_that_are_likeliest_together(seed):
    space = StateSpace(1, 0.7)
    scores = 2 * torch.randn(5, 1, space.scores, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    chances, spelled = {}, {}
    for steps in product([None, 0, 1, 2, 3], repeat=5):
        for first in range(4):
            state, taken, weight = first, [], 0.0
            for t, base in enumerate(steps):
                taken.append((t, state, base))
                weight += space.stay if base is None else float(scores[t, 0, base * 4 + state])
                state = state if base is None else base
            spelled[tuple(taken)] = [b for b in steps if b is not None]
            for one in taken:
                chances[one] = chances.get(one, 0.0) + np.exp(weight)
    best = max(spelled, key=lambda taken: sum(np.log(chances[one]) for one in taken))
    assert space.call(scores[:, 0].numpy()).tolist() == spelled[best]


@pytest.mark.parametrize("bases", range(60, 200, 3))
def test_what_doubles_hardly_hold_has_a_gradient(bases):
    space = StateSpace(1)
    scores = torch.full((260, 1, space.scores), -5.0)
    scores[:, :, 0] = 5.0
    scores.requires_grad_(True)
    given = torch.tensor([[1]]), torch.tensor([([2, 3] * 100)[:bases]]), torch.tensor([bases])
    found, expected = space.loss(scores, *given), space._pytorchs(scores.double(), *given)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-3)
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    (wanted,) = torch.autograd.grad(expected.sum(), scores)
    torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-5)
