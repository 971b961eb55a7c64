"""The kernels for GPUs, which Triton interprets where there is none, against the sums on a processor core."""

import pytest
import torch

from basecall_train.crf import StateSpace, _all_paths, _on_a_core
from basecall_train.crf_gpu import all_paths, losses_and_gradient

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("length, most", [(1, 20), (2, 7), (3, 15), (4, 4)])
def test_losses_and_gradients_are_those_of_a_core(length, most):
    space, random = StateSpace(length), torch.Generator().manual_seed(length)
    scores = (4 * torch.randn(22, 4, space.scores, generator=random)).clamp(-5, 5)
    before, spelled = torch.randint(4, (4, length), generator=random), torch.randint(4, (4, most), generator=random)
    lengths = torch.tensor([most, 1, 0, most // 2])
    expected, wanted = _on_a_core(scores, space, before, spelled, lengths)
    moves = space.moves(before, spelled)
    given = (one.to(DEVICE) for one in (moves, lengths))
    found, gradient = losses_and_gradient(scores.to(DEVICE), space.stay, *given)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(gradient.cpu(), wanted, rtol=1e-4, atol=1e-6)


def test_the_sums_over_all_paths_are_those_of_a_core():
    space = StateSpace(2)
    scores = (4 * torch.randn(22, 4, space.scores, generator=torch.Generator().manual_seed(5))).clamp(-5, 5)
    for found, expected in zip(all_paths(scores.to(DEVICE), space.stay), _all_paths(scores, space.stay), strict=True):
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bases", [46, 150])
def test_what_there_is_no_room_for_or_doubles_do_not_hold_is_infinite(bases):
    space = StateSpace(1)
    scores = torch.full((45 if bases == 46 else 260, 2, space.scores), -5.0)
    scores[:, :, 0] = 5.0  # A after A, which doesn't occur
    moves = space.moves(torch.tensor([[1], [1]]), torch.tensor([([2, 3] * bases)[:bases]] * 2))
    lengths = torch.tensor([bases, 2])
    expected, _ = _on_a_core(scores, space, torch.tensor([[1], [1]]), torch.tensor([([2, 3] * bases)[:bases]] * 2), lengths)
    found, gradient = losses_and_gradient(scores.to(DEVICE), space.stay, moves.to(DEVICE), lengths.to(DEVICE))
    assert found[0].isinf() and torch.equal(found.isfinite().cpu(), expected.isfinite())
    assert gradient[:, 1].isfinite().all()
